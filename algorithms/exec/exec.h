/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The executor: the only code that brings together a plan, channels, kernels and buffers. It knows
 * no algorithm; what to do stands in the plan. It does not wait either: rcmi_run_progress goes as
 * far as it can and says RCM_AGAIN; its driver (api/work/drive.c) waits.
 *
 *   exec   per communicator: its channels, each opened when a plan first needs it
 *   run    one collective in flight: a plan bound to buffers, channel ends and a kernel
 *
 * Where operations on memory finish later (mem_kind.h) a step begins and completes later: then its
 * message is published, its slots are released. A run is done when nothing of it runs any more.
 *
 * Slices are the outer loop of each lane. Runs on the same channels overlap: a channel end passes
 * to the next run, in the order of rcmi_run_start, after the earlier run's last step on it.
 *
 * No function here may be called concurrently for the same exec: the communicator's lock is held.
 */
#ifndef RCMI_EXEC_H
#define RCMI_EXEC_H

#include "mem.h"
#include "plan.h"
#include "ringcomm.h"
#include "trace.h"
#include "transport.h"

struct rcmi_exec;
struct rcmi_run;

struct rcmi_exec_config {
    struct rcmi_node *node;
    uint64_t epoch;
    const struct rcmi_shape *shape; /* outlives the exec */
    const int *world_rank;          /* of each rank; outlives the exec */
    int rank;
    size_t slot_bytes;
    size_t bulk_bytes; /* of the slots of a bulk channel between ranks of two hosts, or more */
    uint32_t slots;
    struct rcmi_trace *trace;          /* NULL: nothing is recorded */
    struct rcmi_device *const *device; /* of the rank, once it has one; outlives the exec */
    struct rcmi_traffic *traffic;      /* what goes by its channels is counted there; NULL: not */
};
rcm_status rcmi_exec_create(const struct rcmi_exec_config *config, struct rcmi_exec **ret_exec);
/* Closes its channels; runs must have ended. */
void rcmi_exec_free(struct rcmi_exec *exec);

/* After an error of a run, or before its channels are closed: operations of runs that wait for a
 * stream touch nothing any more. Does no other one? It is waited for: the node's doorbell is rung
 * when one ends. */
bool rcmi_exec_quiesce(struct rcmi_exec *exec);
/* Closes all channels, after which nothing that was sent without a copy is touched; no run may be
 * started or go on. */
void rcmi_exec_close_channels(struct rcmi_exec *exec);
/* Opens the channels that a larger buffer of `bytes`, of memory of that kind, needs ahead of its
 * first run: RCM_OK when all are ready, RCM_AGAIN. */
rcm_status rcmi_exec_prepare(struct rcmi_exec *exec, const struct rcmi_plan *plan,
                             enum rcmi_mem_kind kind, size_t bytes);

/* A block of a buffer, where each has a length and an address of its own. */
struct rcmi_block {
    struct rcmi_mem mem;
    size_t count; /* elements */
};

struct rcmi_bind {
    const struct rcmi_plan *plan;
    /* As it was called: the plan may be of the one that it is like. */
    enum rcm_collective collective;
    struct rcmi_mem in;  /* only read */
    struct rcmi_mem out; /* in place: see collectives.h */
    /* Unequal blocks instead of these two: plan->in.n and then plan->out.n of them, which outlive
     * the run; in place if the block of a buffer of one is at that block of the other buffer. NULL
     * where blocks are equal. */
    const struct rcmi_block *blocks;
    size_t count; /* elements of a block; of unequal blocks, of the longest one known */
    size_t told;  /* in texts: count; of unequal blocks, of all where all ranks know that, else 0 */
    rcm_dtype dtype;
    rcm_op op;
    /* Travels with every message; a message with another one is a mismatch. Bit 61 is
     * RCMI_META_DEVICE, bits 62 and 63 are the executor's. The upper one marks the last slice of a
     * stripe, for readers that do not know the size beforehand (their plans have one stripe). */
    uint64_t meta;
    /* What all that it does in memory of a kind with operations comes after, see fence.h; NULL.
     * Outlives the run. */
    struct rcmi_operation *after;
};

static inline bool rcmi_bind_is_uneven(const struct rcmi_bind *bind) {
    return bind->blocks != NULL;
}
/* Of unequal blocks: all of them, with their counts, where all ranks know these; else NULL, 0. */
const struct rcmi_block *rcmi_bind_counts(const struct rcmi_bind *bind, uint32_t *ret_n);

#define RCMI_META_LAST (UINT64_C(1) << 63)
/* Where only pairs of ranks know counts: the sender's buffers are no host memory. The two ends of a
 * message that holds anything are of one kind; a rank that has no elements has none. */
#define RCMI_META_DEVICE (UINT64_C(1) << 61)
/* The payload is elsewhere. The message is empty: it answers one from its reader, and the payload
 * stands in the slot of that; or it says how long the payload is that comes beside it
 * (exec_beside.c). */
#define RCMI_META_ELSEWHERE (UINT64_C(1) << 62)

/* Binds and takes its tickets of the channels. Does not move data yet. The run is exec's, given
 * back by rcmi_run_end. */
rcm_status rcmi_run_start(struct rcmi_exec *exec, const struct rcmi_bind *bind,
                          struct rcmi_run **ret_run);
/* RCM_OK when done, RCM_AGAIN, or an error (thread's error set). *moved becomes true if it did
 * any step. */
rcm_status rcmi_run_progress(struct rcmi_run *run, bool *moved);
/* Driver: are its channels not all open yet? That is work of the loop threads of both ends. A rank
 * that spins for it can keep them from their cores. */
bool rcmi_run_opens(struct rcmi_run *run);
/* After RCM_ERR_MISMATCH: is it that the ends of a message have different counts for it? Then the
 * thread's error names both; else the calls may differ in more than this rank can see. */
bool rcmi_run_counts_differ(const struct rcmi_run *run);
/* When it is done: should the caller yield before it goes on, since what it does next may keep its
 * receivers from their core? */
bool rcmi_run_yields(const struct rcmi_run *run);
/* Runs that ended are kept for the next call of their plan. Frees those that are beyond what a
 * communicator may keep so: after runs that were several at a time; else rcmi_run_start does it. */
void rcmi_exec_trim(struct rcmi_exec *exec);
/* After done, or an error and rcmi_exec_quiesce (then no buffer of the run is touched any more,
 * once the channels are closed). */
void rcmi_run_end(struct rcmi_run *run);

/* What a run keeps, roughly: its steps, and scratch; and all runs together, those in flight and
 * those kept for the next call. _memory: any thread. */
size_t rcmi_run_bytes(const struct rcmi_run *run);
size_t rcmi_exec_memory(const struct rcmi_exec *exec);

/* What an unfinished run waits for, for people. */
struct rcmi_run_wait {
    int peer;     /* rank; itself: for an operation on its own memory; -1 if none */
    bool to_send; /* waits for a free slot; else for a message */
    bool queued;  /* an earlier run still uses the channel */
    size_t bytes; /* of this rank's output already done, roughly */
    uint32_t step, nsteps;
};
void rcmi_run_waits_for(const struct rcmi_run *run, struct rcmi_run_wait *ret_wait);

/* Steps done since the exec was made: for measuring the cost of a step. */
uint64_t rcmi_exec_steps(const struct rcmi_exec *exec);

#endif
