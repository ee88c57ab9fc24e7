/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The executor: the only code that combines a plan, channels, kernels and buffers. It contains no
 * algorithm; the plan has all steps. It does not wait: rcmi_run_progress goes as far as it can and
 * returns RCM_AGAIN; its driver (api/work/drive.c) waits.
 *
 *   exec   per communicator: its channels, each opened when a plan first needs it
 *   run    one collective in flight: a plan bound to buffers, channel ends and a kernel
 *
 * For memory kinds with asynchronous operations (mem_kind.h), a step begins and completes later. On
 * completion its message is published and its slots are released. A run is done when no operation
 * of it is in progress.
 *
 * Slices are the outer loop of each lane. Runs on the same channels overlap: a channel end passes
 * to the next run, in the order of rcmi_run_start, after the earlier run's last step on it.
 *
 * Calls for the same exec must not be concurrent: the caller holds the communicator's lock.
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
    size_t bulk_bytes; /* minimum slot size of a bulk channel between hosts */
    uint32_t slots;
    struct rcmi_trace *trace;          /* NULL: no recording */
    struct rcmi_device *const *device; /* this rank's, once set; outlives the exec */
    struct rcmi_traffic *traffic;      /* counters of its channels; NULL: not counted */
};
rcm_status rcmi_exec_create(const struct rcmi_exec_config *config, struct rcmi_exec **ret_exec);
/* Closes its channels; runs must have ended. */
void rcmi_exec_free(struct rcmi_exec *exec);

/* Call after an error of a run, or before closing its channels: queued operations of runs that wait
 * for a stream no longer touch memory. Returns whether no other operation is in progress. If false,
 * wait: the node's doorbell rings when one ends. */
bool rcmi_exec_quiesce(struct rcmi_exec *exec);
/* Closes all channels. Afterwards no memory sent by zero-copy is touched. No run may start or
 * progress after this call. */
void rcmi_exec_close_channels(struct rcmi_exec *exec);
/* Opens in advance the channels that a run needs whose larger buffer has `bytes` in memory of
 * `kind`. RCM_OK when all are ready. RCM_AGAIN before; *ret_peer: a rank that has not opened one of
 * them, -1: it is one of several readers on this host. */
rcm_status rcmi_exec_prepare(struct rcmi_exec *exec, const struct rcmi_plan *plan,
                             enum rcmi_mem_kind kind, size_t bytes, int *ret_peer);

/* One block of a buffer whose blocks have separate lengths and addresses. */
struct rcmi_block {
    struct rcmi_mem mem;
    size_t count; /* elements */
};

struct rcmi_bind {
    const struct rcmi_plan *plan;
    /* The called collective. The plan may belong to the collective that it is like. */
    enum rcm_collective collective;
    struct rcmi_mem in;  /* read-only */
    struct rcmi_mem out; /* in place: see collectives.h */
    /* Unequal blocks, used instead of `in` and `out`: plan->in.n blocks, then plan->out.n blocks.
     * They outlive the run. In place: the block of a one-block buffer has the address of the same
     * block in the other buffer. NULL: equal blocks. */
    const struct rcmi_block *blocks;
    size_t count; /* elements of a block; unequal blocks: of the longest known one */
    /* For texts: count; with unequal blocks the total if all ranks have it, else 0. */
    size_t reported_count;
    rcm_dtype dtype;
    rcm_op op;
    /* Sent with every message; a message with a different value is a mismatch. Bit 61 is
     * RCMI_META_DEVICE, bits 62 and 63 belong to the executor. Bit 63 marks the last slice of a
     * stripe, for readers that do not have the size in advance (their plans have one stripe). */
    uint64_t meta;
    /* All operations of the run on memory with asynchronous operations start after this one, see
     * fence.h. NULL: none. Outlives the run. */
    struct rcmi_operation *after;
};

static inline bool rcmi_bind_is_uneven(const struct rcmi_bind *bind) {
    return bind->blocks != NULL;
}
/* For unequal blocks: all blocks with their counts, if all ranks have these; else NULL and 0. */
const struct rcmi_block *rcmi_bind_counts(const struct rcmi_bind *bind, uint32_t *ret_n);

#define RCMI_META_LAST (UINT64_C(1) << 63)
/* If only pairs of ranks have the counts: the sender's buffers are device memory. The two ends of a
 * non-empty message use the same kind. A rank without elements has no kind. */
#define RCMI_META_DEVICE (UINT64_C(1) << 61)
/* The payload is elsewhere. An empty message is an answer from the reader, and its payload is in
 * the slot of the answered message. A non-empty message contains the length of an out-of-band
 * payload (exec_out_of_band.c). */
#define RCMI_META_ELSEWHERE (UINT64_C(1) << 62)

/* Binds the run and takes its channel tickets. Moves no data. The exec owns the run; rcmi_run_end
 * returns it. */
rcm_status rcmi_run_start(struct rcmi_exec *exec, const struct rcmi_bind *bind,
                          struct rcmi_run **ret_run);
/* RCM_OK when done, RCM_AGAIN, or an error (thread's error set). Sets *moved if it did any step. */
rcm_status rcmi_run_progress(struct rcmi_run *run, bool *moved);
/* For the driver: are some of its channels still opening? The loop threads of both ends do that
 * work. A rank that spins meanwhile can occupy their cores. */
bool rcmi_run_opens(struct rcmi_run *run);
/* After RCM_ERR_MISMATCH: do the ends of a message have different counts for it? Then the thread's
 * error names both. Else the calls may differ in ways this rank cannot see. */
bool rcmi_run_counts_differ(const struct rcmi_run *run);
/* After completion: should the caller yield first, because its next work may keep its receivers
 * from their core? */
bool rcmi_run_yields(const struct rcmi_run *run);
/* Frees finished runs beyond what a communicator may keep for later calls of their plans. Call it
 * after several concurrent runs; otherwise rcmi_run_start does it. */
void rcmi_exec_trim(struct rcmi_exec *exec);
/* Ends a run that is done, or that failed and was followed by rcmi_exec_quiesce. After an error,
 * buffers of the run are no longer touched once the channels are closed. */
void rcmi_run_end(struct rcmi_run *run);

/* Approximate memory of a run: its steps and scratch; and of all runs together, in flight or kept
 * for later calls. rcmi_exec_memory: any thread. */
size_t rcmi_run_bytes(const struct rcmi_run *run);
size_t rcmi_exec_memory(const struct rcmi_exec *exec);

/* What an unfinished run waits for, for reports. */
struct rcmi_run_wait {
    int peer;            /* rank; this rank: an operation on its own memory; -1: none */
    bool to_send;        /* for a free slot; else for a message */
    bool queued;         /* an earlier run still uses the channel */
    enum rcmi_rest rest; /* of the channels of the message that it waits for */
    size_t bytes;        /* of this rank's output done, approximate */
    uint32_t step, nsteps;
};
void rcmi_run_waits_for(const struct rcmi_run *run, struct rcmi_run_wait *ret_wait);

/* Steps done since creation, to measure the cost of a step. */
uint64_t rcmi_exec_steps(const struct rcmi_exec *exec);

#endif
