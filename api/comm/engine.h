/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine: the state of a process that all its communicators share. It holds the node, the
 * store, the data that the ranks of the world published, and the list of communicators. The node's
 * loop thread drives these and passes messages to them.
 *
 *   engine.c  creation and end, the loop thread, messages from other ranks
 *   leave.c   the orderly end: farewells, and leaving the store
 *
 * Not here: the state of a single communicator (comm.h).
 */
#ifndef RCMI_ENGINE_H
#define RCMI_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "clock.h"
#include "cpu.h"
#include "rank_device.h"
#include "error.h"
#include "log.h"
#include "members.h"
#include "notice.h"
#include "rendezvous.h"
#include "ringcomm.h"
#include "transport.h"
#include "tuning.h"
#include "wait.h"

struct rcmi_agreements;
struct rcmi_creations;
struct rcmi_early;
struct rcmi_trace_file;

/* The CPUs that a rank may use: an affinity mask, and the quota of its control group
 * (base/os/cgroup.h). */
#define CPU_MILLIONTHS 1e6
struct rcmi_cpus {
    uint8_t bytes[RCMI_CPU_BYTES];
    uint64_t quota; /* millionths of a CPU; 0: none */
    uint64_t group; /* equal on ranks of one host that share the quota */
};

/* Functions of calls/ that comm/ calls; passed to rcmi_comm_init. */
struct rcmi_comm_calls {
    /* The barrier of rcm_destroy, which differs from every user call. */
    rcm_status (*barrier_parting)(rcm_comm *comm);
    /* As rcm_all_gather. */
    rcm_status (*all_gather)(rcm_comm *comm, const void *send, void *recv, size_t count,
                             rcm_dtype dtype, const struct rcm_call *call, rcm_work **ret_work);
};

struct rcmi_engine {
    const struct rcmi_comm_calls *calls;
    struct rcmi_node *node;
    pthread_mutex_t lock; /* guards comms */
    struct rcm_comm *comms;
    int cpu_sharers; /* ranks that share a CPU with another one, for the spin budget; 1: none */
    struct rcmi_pause budget;      /* how long its threads spin; final after rcm_init */
    struct rcmi_pause pause;       /* loop thread only */
    bool armed;                    /* loop thread only */
    struct rcmi_log_rate log_rate; /* loop thread only */
    struct rcmi_address_book *book;
    int rank, nranks;          /* of the world, the communicator of rcm_init */
    struct rcmi_tuning tuning; /* rank 0's, without get if some rank cannot use it */
    struct rcmi_cpus *cpus;    /* by world rank */
    _Atomic int refs; /* communicators not yet freed; acquire-release, the last one frees */
    int open;         /* communicators in use; under lock */
    bool *awaited;    /* by world rank: took part in an orderly end, so its farewell is
                         waited for; under lock */
    bool left;        /* farewells were sent, by the thread that destroys the last one */
    struct rcmi_notices notices;        /* run by the loop thread, outside the lock */
    struct rcmi_agreements *agreements; /* has its own lock */
    struct rcmi_creations *creations;   /* likewise */
    struct rcmi_early *early;           /* under lock */
    struct rcmi_trace_file *trace;      /* NULL: none; has its own lock */
    rcm_store *store;                   /* closed at the end; NULL if it is the caller's */
    struct rcmi_rank_device device;
    struct rcmi_join join; /* this rank's entry in the store */
    bool serves_store;
    _Atomic bool gone_sent; /* rank 0 does not wait for this rank before it ends its store */
    /* Used by exit.c: */
    struct rcmi_engine *exit_next;
    uint32_t fork_generation;
    void (*unwatch)(struct rcmi_engine *engine); /* called before it is freed; NULL: not watched */
    /* By rank: it has left, and could not record that in the store. The release store on the loop
     * thread pairs with the acquire load in leave.c. */
    _Atomic bool *gone_received;
};

/* ---- engine.c */
/* device: of the rank, as in struct rcm_init_options. */
rcm_status rcmi_engine_create(struct rcmi_node_config *config, const char *device,
                              struct rcmi_engine **ret_engine);
/* A reference of each communicator, in addition to rcmi_engine_create's; the last release frees. */
void rcmi_engine_hold(struct rcmi_engine *engine);
void rcmi_engine_release(struct rcmi_engine *engine);
void rcmi_engine_add(struct rcmi_engine *engine, struct rcm_comm *comm);
/* comm has ended, orderly (all its ranks take part) or not; called once or twice. True: no
 * communicator is in use any more. */
bool rcmi_engine_part(struct rcmi_engine *engine, struct rcm_comm *comm, bool orderly);
/* Notifies all ranks, also those that have not made it yet, that the communicator of this epoch is
 * unusable, for the reason in the thread's error. origin: its rank that caused it. */
void rcmi_engine_revoke(struct rcmi_engine *engine, uint64_t epoch, int origin);
void rcmi_engine_remove(struct rcmi_engine *engine, struct rcm_comm *comm);
/* Whether it has communicators in use, none with an operation in flight, and its end has not
 * begun. */
bool rcmi_engine_is_idle(struct rcmi_engine *engine);
/* Waits until all complete works have delivered their notices. Not on the loop thread. */
void rcmi_engine_flush(struct rcmi_engine *engine);
/* The same; true: comm has no unfinished work, and no callback has issued one. */
bool rcmi_engine_settled(const struct rcm_comm *comm);
/* Calls visit on every unfinished work of all communicators until it returns false. After that
 * visit is called only to return false again. False: another thread drives a communicator, and not
 * all works were visited. Does not wait. */
bool rcmi_engine_visit(struct rcmi_engine *engine, bool (*visit)(void *arg, struct rcm_work *work),
                       void *arg);

/* ---- init.c */
/* Implements rcm_init. */
rcm_status rcmi_comm_init(const struct rcm_init_options *options,
                          const struct rcmi_comm_calls *calls, rcm_comm **ret_comm);

/* ---- leave.c */
/* The last communicator, in its own orderly end: the death of one of its ranks makes it fail, and a
 * failure ends the wait. */
struct rcmi_leaving {
    const struct rcmi_members *members;
    const _Atomic int *failed; /* rcm_status */
    void *arg;
    void (*fail)(void *arg); /* with the thread's error */
};
/* No communicator is in use any more, and one had an orderly end. Waits for the farewells of all
 * ranks that took part in it, not of those left out on the way, and leaves the store. last: see
 * above, RCM_OK if it fails meanwhile; NULL: it has failed before. */
rcm_status rcmi_engine_leave(struct rcmi_engine *engine, const struct rcmi_leaving *last,
                             rcmi_deadline deadline);
/* This rank has finished rcm_init and no longer needs its store for that. Rank 0, if it leaves,
 * keeps the store for ranks that have not. */
void rcmi_engine_publish_through(const struct rcmi_engine *engine);
/* A communicator, not the last, had an orderly end. If rank 0 was in it, rank 0 is notified that
 * this rank no longer needs the store, so that its last leave need not wait for this rank's. */
void rcmi_engine_spare_store(struct rcmi_engine *engine);
/* No communicator is in use any more, and rcm_leave ended the last one: sends farewells without
 * waiting for other ranks. */
void rcmi_engine_hurry(struct rcmi_engine *engine);
/* The last communicator to be destroyed has failed. Others may still be in the orderly end of a
 * later one. */
void rcmi_engine_end(struct rcmi_engine *engine);
/* rcm_init fails on all ranks, for a reason that each found in the exchanged data: rank 0 serves
 * its store until the others have found it too. */
void rcmi_engine_leave_refused(struct rcmi_engine *engine);

#endif
