/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the transport tests share: nodes ("sides") that find each other through a shared mapping, be
 * they threads' nodes of one process or of forked children, and helpers that drive, fill and check.
 * One test at a time; every wait has the world's deadline.
 */
#ifndef TEST_TRANSPORT_HARNESS_H
#define TEST_TRANSPORT_HARNESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include "rank_device.h"
#include "channel_calls.h"

#define RANKS_MAX 10

/* cmocka's assertions leave by longjmp, which is of no use in threads and forked children: this
 * one ends the process there. */
#define CHECK(condition) check((condition), #condition, __FILE__, __LINE__)
#define CHECK_EQ(left, right)                                                                      \
    check_equal((long long)(left), (long long)(right), #left " == " #right, __FILE__, __LINE__)
void check(bool holds, const char *what, const char *file, int line);
void check_equal(long long left, long long right, const char *what, const char *file, int line);

/* Shared with forked children. */
struct world {
    struct {
        _Atomic uint32_t len; /* release when the blob was written; 0 before */
        uint8_t blob[1024];
    } address[RANKS_MAX];
    _Atomic int flag[8]; /* for the tests to tell each other how far they are */
};

/* How a node is made; a zero means the default. */
struct setup {
    int nranks;
    size_t slot_bytes;
    uint32_t slots;
    uint64_t job;
    const char *secret;
    const char *host_id;
    const char *transports; /* test_transport */
};

struct side {
    int rank;
    struct world *world;
    struct rcmi_node *node;
    struct rcmi_rank_device device; /* of a row of device memory */
    struct setup setup;
    /* Written on the loop thread, read by the test. */
    _Atomic int lost;        /* calls of peer_lost */
    char lost_text[400];     /* of the first call; before lost counts it */
    _Atomic int lost_peer;   /* of the last call */
    _Atomic int lost_status; /* of the last call */
    _Atomic int64_t lost_at;
    _Atomic int wanted;
    _Atomic uint64_t wanted_epoch;
    _Atomic uint32_t wanted_id;
    _Atomic uint32_t received[RANKS_MAX]; /* control messages */
    _Atomic int bad;                      /* that were not what is sent by side_send */
    uint32_t sent[RANKS_MAX];
};

extern const char *test_transport; /* what the program was called with */
extern bool test_self;             /* ... loops back: one node plays both of a pair */

struct world *world_new(void);
void world_free(struct world *world);
/* Everything from here on is to be done within ms; longer under a sanitizer. */
void limit_ms(int64_t ms);
rcmi_deadline limit(void);

/* Makes its node, or not; side_create also publishes the address. */
rcm_status side_try(struct side *side, struct world *world, int rank, const struct setup *setup);
void side_create(struct side *side, struct world *world, int rank, const struct setup *setup);
void side_start(struct side *side);
void side_destroy(struct side *side);
/* Sends the next control message: lengths and content follow from its number. */
void side_send(struct side *side, int peer);

/* Two nodes of this process, or, for one that loops back, one that plays both. */
struct pair {
    struct world *world;
    struct side sides[2];
    struct side *a, *b;
    int other; /* rank of b */
};
void pair_open(struct pair *pair, const struct setup *setup);
void pair_close(struct pair *pair);
/* Progress on both, once; fails the test when the deadline passed. */
void pair_drive(struct pair *pair);
/* A channel from a to b, ready. */
void pair_channel(struct pair *pair, uint32_t id, struct rcmi_channel **ret_writer,
                  struct rcmi_channel **ret_reader);

/* Progress of one side; fails the test when the deadline passed. */
void side_drive(struct side *side);
/* Sleeps for a tenth of a ms, then the same check; for waits that need no progress. */
void nap(void);
void *side_reserve(struct side *side, struct rcmi_channel *channel);
struct rcmi_slot side_peek(struct side *side, struct rcmi_channel *channel);
/* The same, sleeping on the doorbell whenever there is nothing to do. */
struct rcmi_slot side_peek_asleep(struct side *side, struct rcmi_channel *channel);
/* Until it is, with slots of the row's kind. */
void side_ready(struct side *side, struct rcmi_channel *channel);

void fill(void *bytes, size_t len, uint64_t seed);
bool filled(const void *bytes, size_t len, uint64_t seed);
uint32_t random_next(uint32_t *state);
/* Something that is repeated up to `most` times, less often under a sanitizer, and for some two
 * seconds at most. */
struct repeats {
    uint32_t most;
    int64_t end_ns;
};
struct repeats repeats_begin(uint32_t most);
/* Number n, from 0, is the last one. */
bool repeats_last(const struct repeats *repeats, uint32_t n);

/* A child that runs fn with a side of the given rank (created, not started) and exits 0. */
pid_t child_start(struct world *world, int rank, const struct setup *setup,
                  void (*fn)(struct side *side));
void child_join(pid_t pid); /* must have exited 0 */
/* run(i) in a child, and nothing else meanwhile: it has forked from a process that has used no
 * device, and leaves no descriptors but of memory. */
void child_run(void (*run)(int i), int i);
/* n children, all at once, of which number i does run(i); until all are through. */
enum { CHILDREN_MAX = 16 };
void children_run(int n, void (*run)(int i));
void child_kill(pid_t pid);
void flag_wait(struct world *world, int flag);
void flag_set(struct world *world, int flag);

/* Descriptors that are open. Those of a device's memory, which only the emulated driver has, are
 * another number: such memory stays where a process that had it open was killed. */
int fd_count(void);
int fd_count_memory(void);
bool transport_is(const char *name); /* that, or that with chaos around it */
/* Its row, without chaos around it. */
const struct rcmi_transport *transport_row(void);
/* The transport of links: that of the row or, where it is of device memory, of the host plane that
 * it comes up beside. */
const char *link_transport(void);
/* The id of a channel whose slots are of the row's kind, and how often the settings' size they
 * have. */
uint32_t row_id(uint32_t id);
size_t row_scale(void);
/* 1, or by how much a sanitizer, or a virtual machine's devices of RDMA, slow things down. */
int slowness(void);
/* n, or some of it where each round takes long: devices of RDMA that a virtual machine has, and
 * memory of devices. */
int rounds(int n);

#endif
