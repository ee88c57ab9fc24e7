/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the played RDMA devices share (provider.h is what tests see of them). One
 * lock is over all of it.
 *
 *   devices.c      devices, ports, their addresses and partitions
 *   memory.c       registered memory, and what may use it
 *   completions.c  completion queues and channels
 *   queue_pairs.c  queue pairs, what is posted to them
 *   connect.c      their states, and where their paths lead
 *   cm.c           how those of iWARP are connected
 *   hardware.c        the hardware: what was posted is carried out, or fails
 */
#ifndef TEST_FAKE_VERBS_H
#define TEST_FAKE_VERBS_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "provider.h"

enum { DEVICES_MAX = 10, QPS_MAX = 256, MRS_MAX = 1024, CQE_MAX = 1 << 16, SENDS_KEPT = 8 };

/* What a device may not survive: the program that caused it ends. */
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: a device's rule is broken: %s\n", __FILE__, __LINE__,          \
                    #condition);                                                                   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct fake_channel {
    struct ibv_comp_channel base;
    struct ibv_cq *told[64];
    int ntold;
};

struct fake_context {
    struct ibv_context base;
    struct fake_context *next;
    struct ibv_async_event events[64];
    int nevents;
};

struct fake_cq {
    struct ibv_cq base;
    struct ibv_wc *ring;
    uint64_t head, tail;
    bool armed;
};

struct fake_send {
    struct ibv_send_wr wr;
    struct ibv_sge piece;
    bool has_inline;
    uint8_t bytes[512];
};

struct fake_qp {
    struct ibv_qp base;
    bool used;
    struct ibv_ah_attr path;
    uint16_t pkey;
    uint32_t dest, max_send, max_recv, inline_max;
    struct fake_send *sends;  /* SENDS_KEPT * max_send: what is told may be carried out later */
    uint64_t posted, carried; /* sends */
    uint64_t told;            /* iWARP: of which the end was told, but for reads */
    bool called;              /* iWARP: the other side must send first */
    bool closed;              /* iWARP: its connection */
    uint64_t freed;           /* entries that a polled completion has freed */
    struct ibv_recv_wr *recvs;
    struct ibv_sge *recv_pieces;
    uint64_t receives, taken;
    int64_t patience_ms; /* all tries of a send together */
    int64_t stuck_since; /* what is to be carried out does not reach the other side */
};

struct fake_mr {
    struct ibv_mr base;
    int access;
    bool used;
};

/* Everything there is. */
struct fake_verbs {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct provider_setup setup;
    struct ibv_device devices[DEVICES_MAX];
    struct fake_qp qps[QPS_MAX];
    struct fake_mr mrs[MRS_MAX];
    pthread_t hardware;
    bool stop, cut, held, silent;
    int garbled;     /* a type of events */
    int64_t slow_ms; /* to connect a queue pair that is younger than its peer's */
    uint32_t random_state;
    struct fake_context *contexts; /* that are open */
    int objects;                   /* that were made and not destroyed */
    int calls[PROVIDER_CALLS], fail_call[PROVIDER_CALLS], fail_error;
    int carried_out, fail_send_number;
    enum ibv_wc_status fail_send_status;
    struct provider_counts counts;
};
extern struct fake_verbs fake;

/* provider.c */
/* Under the lock. */
uint32_t fake_verbs_random(void);
/* Whether this call is to fail; errno says so. */
bool fake_verbs_call_fails(enum provider_call call);
/* Objects are counted; the second returns 0. */
void *fake_verbs_make(size_t bytes);
int fake_verbs_unmake(void *object);
/* What a call that has ended an object returns. */
int fake_verbs_ended(enum provider_call call);

/* Each file's functions, for the table. */
void fake_verbs_devices(struct verbs_table *table);
void fake_verbs_memory(struct verbs_table *table);
void fake_verbs_completions(struct verbs_table *table);
void fake_verbs_queue_pairs(struct verbs_table *table);
void fake_verbs_connect(struct verbs_table *table);
void fake_verbs_cm(struct verbs_table *table);

/* devices.c: the i-th, as the set-up says. */
void fake_verbs_device(struct ibv_device *device, int i);
/* Its LID, and an entry of its table of GIDs; partitions of each. */
uint16_t fake_verbs_lid(int device);
void fake_verbs_gid(int device, int index, union ibv_gid *gid);
enum { FAKE_PKEYS = 3 };
extern const uint16_t fake_verbs_pkeys[FAKE_PKEYS];
/* One more event of the device's contexts. Under the lock. */
void fake_verbs_event(const struct ibv_device *device, const struct ibv_async_event *event);
/* memory.c: may those bytes be used by that key? Under the lock. */
bool fake_verbs_mr_allows(const struct ibv_pd *pd, uint32_t key, uint64_t addr, size_t len,
                          int access);
/* completions.c; under the lock. */
void fake_verbs_complete(struct ibv_cq *cq, const struct ibv_wc *wc);
/* queue_pairs.c: NULL: there is none any more. Under the lock. */
struct fake_qp *fake_verbs_qp(uint32_t number);
/* A send of it, by its number. */
struct fake_send *fake_verbs_send(const struct fake_qp *qp, uint64_t number);
/* connect.c: does what the one sends arrive at the other, which may be NULL? Under the lock. */
bool fake_verbs_reaches(const struct fake_qp *qp, const struct fake_qp *peer);
/* hardware.c: the hardware's thread. */
void *fake_verbs_hardware(void *arg);

#endif
