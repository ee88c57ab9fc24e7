/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the transport tests share: nodes ("sides") that find each other through a shared mapping, in
 * threads of one process or in forked children; helpers that make progress, fill and check. One
 * test runs at a time; every wait has the test's deadline.
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

/* cmocka's assertions leave by longjmp, which works neither in other threads nor in forked
 * children: these checks end the process there. */
#define CHECK(condition) check((condition), #condition, __FILE__, __LINE__)
#define CHECK_EQ(left, right)                                                                      \
    check_equal((long long)(left), (long long)(right), #left " == " #right, __FILE__, __LINE__)
void check(bool holds, const char *what, const char *file, int line);
void check_equal(long long left, long long right, const char *what, const char *file, int line);

/* Shared with forked children. */
struct world {
    struct {
        _Atomic uint32_t len; /* stored with release after the blob; 0 before */
        uint8_t blob[1024];
    } address[RANKS_MAX];
    _Atomic int flag[8]; /* progress that the tests' threads and processes publish */
};

/* The setup of a node; zero means the default. */
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
    struct rcmi_rank_device device; /* for a backend of device memory */
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
    _Atomic int bad;                      /* messages that differ from those of side_send */
    uint32_t sent[RANKS_MAX];
};

extern const char *test_transport; /* the program's argument */
extern bool test_self;             /* it loops back: one node is both sides of a pair */

struct world *world_new(void);
void world_free(struct world *world);
/* Sets the deadline of everything that follows; longer under a sanitizer. */
void limit_ms(int64_t ms);
rcmi_deadline limit(void);

/* Tries to create the node; side_create also publishes the address. */
rcm_status side_try(struct side *side, struct world *world, int rank, const struct setup *setup);
void side_create(struct side *side, struct world *world, int rank, const struct setup *setup);
void side_start(struct side *side);
void side_destroy(struct side *side);
/* Sends the next control message; its length and content depend on its number. */
void side_send(struct side *side, int peer);

/* Two nodes of this process, or one node that is both sides, for a transport that loops back. */
struct pair {
    struct world *world;
    struct side sides[2];
    struct side *a, *b;
    int other; /* rank of b */
};
void pair_open(struct pair *pair, const struct setup *setup);
void pair_close(struct pair *pair);
/* Makes progress on both sides once; fails the test after the deadline. */
void pair_drive(struct pair *pair);
/* Opens a channel from a to b and waits until it is ready. */
void pair_channel(struct pair *pair, uint32_t id, struct rcmi_channel **ret_writer,
                  struct rcmi_channel **ret_reader);

/* Makes progress on one side; fails the test after the deadline. */
void side_drive(struct side *side);
/* Sleeps 0.1 ms and checks the deadline; for waits that need no progress. */
void nap(void);
void *side_reserve(struct side *side, struct rcmi_channel *channel);
struct rcmi_slot side_peek(struct side *side, struct rcmi_channel *channel);
/* The same, but sleeps on the doorbell whenever there is nothing to do. */
struct rcmi_slot side_peek_asleep(struct side *side, struct rcmi_channel *channel);
/* Waits until the channel is ready; its slots must be of the backend's kind. */
void side_ready(struct side *side, struct rcmi_channel *channel);

void fill(void *bytes, size_t len, uint64_t seed);
bool filled(const void *bytes, size_t len, uint64_t seed);
uint32_t random_next(uint32_t *state);
/* A test repeated up to `most` times, less often under a sanitizer, and for about 2 s at most. */
struct repeats {
    uint32_t most;
    int64_t end_ns;
};
struct repeats repeats_begin(uint32_t most);
/* Whether number n, from 0, is the last one. */
bool repeats_last(const struct repeats *repeats, uint32_t n);

/* A child that runs fn with a side of the given rank (created, not started) and exits 0. */
pid_t child_start(struct world *world, int rank, const struct setup *setup,
                  void (*fn)(struct side *side));
void child_join(pid_t pid); /* fails unless it exited 0 */
/* Runs run(i) in a child, alone: it forks from a process that has used no device, and leaks no
 * descriptors except those of memory. */
void child_run(void (*run)(int i), int i);
/* Runs n children at once, number i with run(i); waits for all. */
enum { CHILDREN_MAX = 16 };
void children_run(int n, void (*run)(int i));
void child_kill(pid_t pid);
void flag_wait(struct world *world, int flag);
void flag_set(struct world *world, int flag);

/* Numbers of open descriptors. Those of device memory, which only the emulated driver has, are
 * counted apart: they may stay open where a process that used the memory was killed. */
int fd_count(void);
int fd_count_memory(void);
bool transport_is(const char *name); /* that name, also with "chaos:" */
/* Its backend, without chaos. */
const struct rcmi_transport *transport_row(void);
/* The transport of links: the backend's, or for device memory that of the host plane next to it. */
const char *link_transport(void);
/* The id of a channel whose slots are of the backend's kind, and the ratio of their size to the
 * setting. */
uint32_t row_id(uint32_t id);
size_t row_scale(void);
/* 1, or the slow-down by a sanitizer or by a virtual machine's RDMA devices. */
int slowness(void);
/* n, or less where each round is slow: over a virtual machine's RDMA devices, and with device
 * memory. */
int rounds(int n);

#endif
