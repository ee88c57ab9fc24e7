/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of the fake RDMA devices (provider.h is the tests' interface). One lock
 * guards everything.
 *
 *   devices.c      devices, ports, their addresses and partitions
 *   memory.c       registered memory and its access checks
 *   completions.c  completion queues and channels
 *   queue_pairs.c  queue pairs, and posting to them
 *   connect.c      their states, and where their paths lead
 *   cm.c           connections of iWARP devices
 *   hardware.c     the hardware: executes posted work, or fails it
 */
#ifndef TEST_FAKE_VERBS_H
#define TEST_FAKE_VERBS_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "provider.h"

enum { DEVICES_MAX = 10, QPS_MAX = 256, MRS_MAX = 1024, CQE_MAX = 1 << 16, SENDS_KEPT = 8 };

/* A broken rule that a device may not survive ends the program. */
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: a rule of the device was broken: %s\n", __FILE__, __LINE__,    \
                    #condition);                                                                   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct fake_channel {
    struct ibv_comp_channel base;
    struct ibv_cq *pending[64];
    int npending;
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
    struct fake_send *sends;  /* SENDS_KEPT * max_send: a send may run after its completion */
    uint64_t posted, carried; /* numbers of sends */
    uint64_t completed;       /* iWARP: completed sends, except reads */
    bool called;              /* iWARP: the other side must send first */
    bool closed;              /* iWARP: its connection */
    uint64_t freed;           /* entries freed by polled completions */
    struct ibv_recv_wr *recvs;
    struct ibv_sge *recv_pieces;
    uint64_t receives, taken;
    int64_t patience_ms; /* for all tries of a send together */
    int64_t stuck_since; /* since when the next send does not reach the other side */
};

struct fake_mr {
    struct ibv_mr base;
    int access;
    bool used;
};

/* All state of the fake devices. */
struct fake_verbs {
    pthread_mutex_t lock;
    pthread_cond_t work, changed; /* for the hardware; begun has changed */
    struct provider_setup setup;
    struct ibv_device devices[DEVICES_MAX];
    struct fake_qp qps[QPS_MAX];
    struct fake_mr mrs[MRS_MAX];
    pthread_t hardware;
    bool begun; /* the hardware runs */
    bool stop, cut, held, silent;
    int garbled;     /* a type of events */
    int64_t slow_ms; /* delay to connect a queue pair that is younger than its peer's */
    uint32_t random_state;
    struct fake_context *contexts; /* open ones */
    int objects;                   /* created and not destroyed */
    int calls[PROVIDER_CALLS], fail_call[PROVIDER_CALLS], fail_error;
    int carried_out, fail_send_number;
    enum ibv_wc_status fail_send_status;
    struct provider_counts counts;
};
extern struct fake_verbs fake;

/* provider.c */
/* Under the lock. */
uint32_t fake_verbs_random(void);
/* True if this call is to fail; sets errno. */
bool fake_verbs_call_fails(enum provider_call call);
/* Counted allocation and release. The second returns 0. */
void *fake_verbs_make(size_t bytes);
int fake_verbs_unmake(void *object);
/* The return value of a call that has destroyed an object. */
int fake_verbs_ended(enum provider_call call);

/* Each file adds its functions to the table. */
void fake_verbs_devices(struct verbs_table *table);
void fake_verbs_memory(struct verbs_table *table);
void fake_verbs_completions(struct verbs_table *table);
void fake_verbs_queue_pairs(struct verbs_table *table);
void fake_verbs_connect(struct verbs_table *table);
void fake_verbs_cm(struct verbs_table *table);

/* devices.c: initializes the i-th device according to the setup. */
void fake_verbs_device(struct ibv_device *device, int i);
/* Its LID, an entry of its GID table, and the partitions of each device. */
uint16_t fake_verbs_lid(int device);
void fake_verbs_gid(int device, int index, union ibv_gid *gid);
enum { FAKE_PKEYS = 3 };
extern const uint16_t fake_verbs_pkeys[FAKE_PKEYS];
/* Queues an event of the device. Under the lock. */
void fake_verbs_event(const struct ibv_device *device, const struct ibv_async_event *event);
/* memory.c: true if the key allows access to those bytes. Under the lock. */
bool fake_verbs_mr_allows(const struct ibv_pd *pd, uint32_t key, uint64_t addr, size_t len,
                          int access);
/* completions.c; under the lock. */
void fake_verbs_complete(struct ibv_cq *cq, const struct ibv_wc *wc);
/* queue_pairs.c: the queue pair, or NULL if it was destroyed. Under the lock. */
struct fake_qp *fake_verbs_qp(uint32_t number);
/* One of its sends, by number. */
struct fake_send *fake_verbs_send(const struct fake_qp *qp, uint64_t number);
/* connect.c: true if data from qp arrives at peer, which may be NULL. Under the lock. */
bool fake_verbs_reaches(const struct fake_qp *qp, const struct fake_qp *peer);
/* hardware.c: the thread of the hardware. */
void *fake_verbs_hardware(void *arg);

#endif
