/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests whether this process can use shared memory, by doing what a node and its links do, with as
 * many resources as they may need. So a rank that lacks something is detected before all ranks have
 * agreed which ranks share memory. This covers limits of this process (file size, address space,
 * descriptors), but not memory that the machine lacks later.
 *
 * Only the head, one channel and the end of the segment take memory. The rest is a hole, which is
 * mapped but not touched.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "auth.h"
#include "process.h"
#include "shm.h"

/* A rank is linked to few of many ranks, because plans have few neighbours. */
#define PEERS_MAX 16
/* Channels written for plans of all kinds, and per peer. */
#define CHANNELS         8
#define CHANNELS_OF_PEER 4
/* Per peer: control stream, its doorbell and segment. FDS_OTHER: listeners, the store, temporary
 * descriptors. */
#define FDS_OF_PEER 3
#define LINKS_MAX   64 /* counted links; ranks of other hosts have few neighbours here */
#define FDS_OTHER   6
#define TOUCHED_MAX ((size_t)1 << 20)

struct trial {
    int memfd;      /* like that of a domain, -1 */
    size_t head;    /* bytes */
    size_t touched; /* bytes of the first channel */
    size_t whole;   /* final bytes of the segment */
};

static int peers_of(const struct rcmi_need *need) {
    const int peers = need->nranks - 1;
    return peers < PEERS_MAX ? peers : PEERS_MAX;
}

static size_t round_up(size_t bytes, size_t page) {
    return (bytes + page - 1) / page * page;
}

static void trial_init(struct trial *trial, const struct rcmi_need *need) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t most = need->slot_memory / (need->slots * need->slot_bytes);
    size_t channels = CHANNELS + (size_t)peers_of(need) * CHANNELS_OF_PEER;
    channels = channels < most ? channels : most;
    trial->memfd = -1;
    trial->head = round_up(SHM_HEAD_BYTES, page);
    const size_t channel = round_up(rcmi_fifo_shape(need->slot_bytes, need->slots, 1).total, page);
    trial->touched = channel < TOUCHED_MAX ? channel : TOUCHED_MAX;
    trial->whole = trial->head + (channels > 0 ? channels : 1) * channel;
}

static rcm_status try_head(struct trial *trial) {
    void *head = NULL;
    rcm_status status = rcmi_memfd_create("ringcomm-probe", trial->head, &trial->memfd);
    if (status == RCM_OK)
        status = rcmi_memfd_map(trial->memfd, SHM_HEAD_BYTES, &head);
    if (status == RCM_OK)
        munmap(head, SHM_HEAD_BYTES);
    return status;
}

/* Grows and maps the first channel, and grows to the end of the last one. */
static rcm_status try_channels(const struct trial *trial) {
    void *memory = NULL;
    rcm_status status = rcmi_memfd_grow(trial->memfd, trial->head, trial->head + trial->touched);
    if (status == RCM_OK)
        status = shm_range_map(trial->memfd, trial->head, trial->touched, &memory);
    if (status != RCM_OK)
        return status;
    munmap(memory, trial->touched);
    return rcmi_memfd_grow(trial->memfd, trial->whole - trial->head, trial->whole);
}

/* Maps all channels of this node, and as many of the others. */
static rcm_status try_address_space(const struct trial *trial) {
    void *own = NULL, *others = NULL;
    rcm_status status = rcmi_memfd_map(trial->memfd, trial->whole, &own);
    if (status == RCM_OK)
        status = rcmi_memfd_map(trial->memfd, trial->whole, &others);
    if (own)
        munmap(own, trial->whole);
    if (others)
        munmap(others, trial->whole);
    return status;
}

/* Accepts a connection and passes the memory over it as to a peer. */
static rcm_status try_passing_to(const struct trial *trial, int out, int listener) {
    char byte = 0;
    size_t len = 0;
    int in = -1, got = -1, ngot = 0;
    rcm_status status = rcmi_accept(listener, &in);
    if (status == RCM_OK)
        status = rcmi_send_fds(out, &byte, 1, &trial->memfd, 1);
    if (status == RCM_OK)
        status = rcmi_recv_fds(in, &byte, 1, &len, &got, 1, &ngot);
    if (status == RCM_AGAIN || (status == RCM_OK && ngot != 1))
        status = rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "a Unix socket passes no descriptor");
    rcmi_fd_close(&got);
    rcmi_fd_close(&in);
    return status;
}

static rcm_status try_passing(const struct trial *trial) {
    uint64_t random[2];
    char name[64];
    int listener = -1, out = -1;
    rcm_status status = rcmi_random(random, sizeof random);
    if (status != RCM_OK)
        return status;
    snprintf(name, sizeof name, "ringcomm-probe-%016" PRIx64 "%016" PRIx64, random[0], random[1]);
    status = rcmi_listen_unix(name, &listener);
    if (status == RCM_OK)
        status = rcmi_connect_start_unix(name, &out);
    if (status == RCM_OK)
        status = try_passing_to(trial, out, listener);
    rcmi_fd_close(&out);
    rcmi_fd_close(&listener);
    return status;
}

static rcm_status trial_run(struct trial *trial, const struct rcmi_need *need) {
    const int links = need->nranks <= LINKS_MAX ? need->nranks - 1 : LINKS_MAX;
    rcm_status status = try_head(trial);
    if (status == RCM_OK)
        status = try_channels(trial);
    if (status == RCM_OK)
        status = try_address_space(trial);
    if (status == RCM_OK)
        status = rcmi_fd_try("links by shared memory", links * FDS_OF_PEER + FDS_OTHER);
    if (status == RCM_OK)
        status = try_passing(trial);
    rcmi_fd_close(&trial->memfd);
    return status;
}

bool shm_probe(const struct rcmi_need *need, char *reason, size_t cap) {
    struct trial trial;
    trial_init(&trial, need);
    if (trial_run(&trial, need) != RCM_OK) {
        snprintf(reason, cap, "%s", rcm_last_error());
        return false;
    }
    char gets[160];
    (void)rcmi_process_reads_others(gets, sizeof gets);
    snprintf(reason, cap, "memory files work; %s", gets);
    return true;
}
