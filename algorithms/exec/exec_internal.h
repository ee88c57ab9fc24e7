/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the executor share; no other file includes it.
 *
 *   exec_runs.c, exec_scratch.c             memory of runs
 *   exec_bind.c, exec_slices.c,             a call becomes a run: slices, channel ends, the places
 *   exec_ends.c, exec_places.c              of operands
 *   exec.c, exec_step.h                     running lanes, and the steps that they are at
 *   exec_operation.c, exec_beside.c         what steps on memory of devices have beside that
 *   exec_message.c, exec_wait.c             unusual messages; what a run waits for
 *   exec_trace.c                            times of steps
 */
#ifndef RCMI_EXEC_INTERNAL_H
#define RCMI_EXEC_INTERNAL_H

#include "exec.h"
#include "fence.h"
#include "kernels.h"
#include "operation.h"
#include "scratch.h"

/* Below this a copy into the slot is cheaper than sending from the user's memory. */
#define RCMI_ZERO_COPY_MIN 2048

/* Where ranks share cores, a rank that has sent messages of this size waits until they were taken,
 * instead of going on with what may keep their receiver from its core for longer. */
#define RCMI_DRAIN_MIN ((size_t)16 << 10)

/* The same for a rank that only sends, by channels that tell late what was taken: it yields, once,
 * after messages of these sizes. Larger ones cannot be handed over at once anyhow. */
#define RCMI_YIELD_MIN ((size_t)64 << 10)
#define RCMI_YIELD_MAX ((size_t)256 << 10)

/* Vectors are not cut into slices smaller than this for the sake of overlap. Between hosts a
 * message costs several calls of the kernel and maybe a change of tasks at each end, as much as
 * copying some 50 KiB. */
#define RCMI_SLICE_MIN         ((size_t)16 << 10)
#define RCMI_NETWORK_SLICE_MIN ((size_t)128 << 10)
/* On one machine the sender's call of the kernel does the receiver's part too, so there is less to
 * overlap. */
#define RCMI_LOOPBACK_SLICE_MIN ((size_t)340 << 10)
/* Between hosts: slices of so many ordinary slots (their channels are bulk channels), so many
 * slices if the vector is large enough for that, and so many at a time. */
#define RCMI_NETWORK_SLICE_SLOTS 4
#define RCMI_NETWORK_SLICES      4
#define RCMI_NETWORK_STRIPES     2

/* Runs are kept for the next call of their plan until all together have more bytes: as many as
 * those may have that run at a time (api/work/queue.h). */
#define RCMI_RUNS_MAX ((size_t)16 << 20)

/* One end of a channel of this communicator; shared by all runs that use it. */
struct rcmi_end {
    struct rcmi_channel *channel;
    int peer; /* rank: the other side; -1 for an outgoing multicast */
    uint16_t number;
    bool outgoing, multicast;
    enum rcmi_mem_kind kind; /* of the memory that its messages are of */
    uint32_t posted;         /* messages from the next one on for which a receive is posted */
    uint32_t tickets;        /* handed out */
    uint32_t now_served;     /* ticket of the run that uses it */
    /* Slots of messages whose answers have not been received yet, oldest first: a ring of as many
     * as the channel has slots. NULL in it: that one did not travel in its slot, or is tiny. */
    void **kept;
    uint32_t kept_first, nkept;
};

struct rcmi_exec {
    struct rcmi_exec_config config;
    struct rcmi_end **ends; /* nplaces pointers to nends of them, see exec_ends.c */
    uint32_t nplaces, nends;
    struct rcmi_run *idle;    /* runs to be used again, newest first */
    _Atomic size_t run_bytes; /* of all runs, these and those in flight; relaxed */
    struct rcmi_operations operations;
    struct rcmi_scratches scratches; /* memory of the device that runs have given back */
    uint64_t steps_done;
};

/* Do no two ranks share a host, so that all channels are between hosts? */
bool rcmi_exec_is_spread(const struct rcmi_exec *exec);
/* Is the end open that rcmi_exec_end returns? */
bool rcmi_exec_has_end(const struct rcmi_exec *exec, const struct rcmi_plan_channel *in_plan,
                       uint32_t stripe, enum rcmi_mem_kind kind);
/* The end for a plan's channel in a stripe and for memory of that kind, opened on first use. */
rcm_status rcmi_exec_end(struct rcmi_exec *exec, const struct rcmi_plan_channel *in_plan,
                         uint32_t stripe, enum rcmi_mem_kind kind, struct rcmi_end **ret_end);

/* A bound operand: base[index] + offset, or a channel of the run. */
struct rcmi_place {
    uint8_t where; /* enum rcmi_where */
    uint32_t
        index; /* of base: where, or RCMI_BASE_BLOCKS and the number of a block; of a channel */
    size_t offset;
};
/* Behind the bases by enum rcmi_where come the blocks of IN and OUT, if they have each their
 * own. */
#define RCMI_BASE_BLOCKS (RCMI_CHANNEL + 1)

/* A bound step; fits a cache line. */
struct rcmi_bound_step {
    size_t bytes; /* of its chunk, or span; of one in pieces, of the longest of these */
    struct rcmi_place dst;
    uint32_t first_src;
    uint32_t out; /* RCMI_NO_CHANNEL if none */
    uint8_t nsrcs;
    bool zero_copy;         /* one stable buffer to a channel, nothing else */
    bool zero_copy_dst;     /* what it sends may be sent from dst */
    bool receives_into_dst; /* one channel to a buffer, and maybe on */
    bool early;             /* the same, and its slices may come early */
    bool answered;          /* its message will be */
    bool reduces;           /* it computes, else it copies */
    uint8_t sum;            /* by which of the run's it computes */
    uint32_t answer;        /* as in struct rcmi_step */
    /* Of a span that does not lie in one piece: its pieces, each as a step of its own whose message
     * begins where that of the one before it ends. 0: it does, or is no span. */
    uint32_t npieces, first_piece;
};
_Static_assert(sizeof(struct rcmi_bound_step) <= 64, "a bound step fits a cache line");

/* A run's use of a channel end. */
struct rcmi_port {
    struct rcmi_end *end;
    struct rcmi_end *beside;   /* see exec_beside.c; NULL */
    struct rcmi_channel *data; /* by which messages with payload go: of one of these */
    uint32_t ticket;           /* the end is this run's when end->now_served equals it */
    uint64_t sent;      /* of the channel, with this run's last message; 0: nothing to wait for */
    uint64_t zero_copy; /* the same of those that were sent so */
};

/* How the message of a step leaves. */
enum rcmi_way {
    RCMI_WAY_NONE,   /* there is none */
    RCMI_WAY_SENT,   /* it was sent from where its source lies: nothing is computed */
    RCMI_WAY_SLOT,   /* it is computed into its slot */
    RCMI_WAY_POSTED, /* into memory that the reader posted */
    RCMI_WAY_ANSWER, /* into the slot of the message that it answers */
    RCMI_WAY_DST,    /* it is sent from the step's dst, where it is computed */
    RCMI_WAY_COPY,   /* that cannot be after all: it is copied from there into its slot */
};

/* What a step works on, once it is found. */
struct rcmi_step_io {
    void *dst;                   /* NULL: it has none; of the step as a whole, not of a piece */
    struct rcmi_reserved target; /* of all ways from SLOT on */
    size_t bytes;                /* of the message; of the slice, where there is none */
    enum rcmi_way way;
};

/* Of a lane whose memory the CPU does not touch: the step that it is at has begun, and what it
 * works on stays until its operations have ended. */
struct rcmi_lane_operation {
    struct rcmi_operation operation; /* of the step, or of one of its pieces at a time */
    const void *srcs[RCMI_SOURCES_MAX];
    struct rcmi_step_io io;
    bool begun;
    bool announced; /* its message, see exec_beside.c */
    uint32_t piece; /* the next one to begin, and where its part of the message is: */
    size_t at;
};

struct rcmi_lane_state {
    /* Of the bound plan. */
    uint32_t begin, end, stripe;
    struct rcmi_port *ports; /* those of its stripe, by the plan's channel */
    size_t scratch;          /* where the scratch of its stripe begins */
    /* How far it is. */
    uint32_t pc;
    size_t slice, offset; /* offset == slice * slice_bytes; in the order by step within the step */
    size_t part;          /* bytes of the step's slice that went by earlier messages */
    bool got;             /* the step's message was got into its dst */
    bool moved;           /* a piece of it was */
    bool beside;          /* the payload that was peeked is beside its message */
    uint64_t meta;        /* of this slice's messages */
    void *reply;          /* where the step may leave its answer; NULL */
    struct rcmi_lane_operation *operation; /* NULL: the CPU does what steps compute */
    const struct rcmi_port *waits_for;
};

struct rcmi_run {
    struct rcmi_exec *exec;
    struct rcmi_run *next; /* in exec->idle */
    size_t bytes;          /* counted at exec */
    struct rcmi_bind bind;
    size_t element_bytes, nslices, slice_bytes;
    uint32_t stripes; /* in use: min(nslices, plan->stripes) */
    uint32_t nbases;
    struct rcmi_mem *base;
    uint32_t ncounts;            /* the blocks that it is bound to, if they are unequal; else 0 */
    size_t *counts;              /* of each; as many as there are bases */
    struct rcmi_kernels kernels; /* the only code that touches them */
    rcm_op held;                 /* the operator of that, if it was created; else 0 */
    bool scales;                 /* it scales contributions */
    enum rcmi_stores results;    /* how results are written that are not sent */
    bool in_place;
    bool by_step;            /* the order of slices */
    bool counts_differ;      /* see rcmi_run_counts_differ */
    intptr_t distance;       /* of IN from OUT, where they are one memory */
    bool gets;               /* messages may be longer than a slot, and are got */
    bool zero_copy;          /* something was sent so */
    bool no_zero_copy;       /* out turned out not to be memory from which some channel sends so */
    bool no_posts;           /* its memory is of no use for posted receives */
    bool drains;             /* until its messages were taken */
    bool yields;             /* see rcmi_run_yields */
    struct rcmi_mem scratch; /* bytes NULL and len not: it is still to come */
    struct rcmi_scratch *device_scratch; /* that it is; NULL: it is host memory */
    size_t scratch_chunk;                /* bytes of a scratch chunk: a slice, at most */
    struct rcmi_lane_state *lanes;       /* plan->nlanes * plan->stripes, lane after lane */
    struct rcmi_bound_step *steps;       /* plan->nsteps */
    struct rcmi_place *places;           /* plan->noperands, then those of pieces */
    struct rcmi_bound_step *pieces;
    uint32_t nplaces, npieces; /* in use */
    struct rcmi_port *ports;   /* plan->nchannels * plan->stripes, stripe after stripe */
    enum rcmi_mem_kind kind;   /* of its channels */
    uint32_t open_stripes;     /* those whose ports have their ends */
    bool opens;                /* it opened ends, which were not all ready at the last look */
    const struct rcmi_bound_step **last_step; /* plan->nchannels */
    struct rcmi_lane_operation *operations;   /* plan->nlanes * plan->stripes, or NULL */
    struct rcmi_operation watch; /* of bind.after, see rcmi_fence_await; while it runs: */
    bool awaits;
    struct rcmi_lane_trace *traces; /* as many as operations, or NULL */
    int64_t trace_began, traced;    /* the run's first pass, 0 before; the last look at the clock */
    uint8_t track;                  /* as in struct rcmi_trace_event */
    /* Those of the kernels, and behind them, by source, those of steps that have this rank's
     * contribution there and scale it: as many as the plan has need of. */
    uint32_t nsums;
    struct rcmi_sum sums[];
};

/* ---- exec_runs.c */
enum { RCMI_KERNEL_SUMS = 2 }; /* of struct rcmi_kernels */
rcm_status rcmi_run_new(struct rcmi_exec *exec, const struct rcmi_plan *plan,
                        struct rcmi_run **ret_run);
void rcmi_run_free(struct rcmi_run *run);
/* Counts what a run keeps. */
void rcmi_run_weigh(struct rcmi_run *run);

/* ---- exec_slices.c */
/* Slices, and how many of them side by side: from what all ranks know alike. */
struct rcmi_slicing {
    size_t bytes, n;
    uint32_t stripes;
};
/* Do blocks of so many bytes go by messages that the reader gets? What ranks find out about their
 * links does not change it: a message that cannot be got comes in parts, or piece by piece through
 * its slot. */
bool rcmi_exec_gets(const struct rcmi_exec *exec, const struct rcmi_plan *plan,
                    enum rcmi_mem_kind kind, size_t bytes);
struct rcmi_slicing rcmi_exec_slicing(const struct rcmi_exec *exec, const struct rcmi_plan *plan,
                                      enum rcmi_mem_kind kind, size_t count, size_t element_bytes);
/* Where only the ends of a message know its length: its slices are as long as a slot allows, one
 * message where that is enough. Nothing is got: what differs from the length is an error, no part.
 * Within a host what lies in memory of devices comes by slots of channels of these. */
struct rcmi_slicing rcmi_exec_slicing_by_step(const struct rcmi_exec *exec,
                                              const struct rcmi_plan *plan,
                                              enum rcmi_mem_kind kind);

/* ---- exec_scratch.c */
/* Readies the run's scratch, or begins to. Each stripe has its own, of which a chunk is as long as
 * a slice. */
rcm_status rcmi_run_scratch_bind(struct rcmi_run *run);
/* Of one that is still to come: RCM_AGAIN, or RCM_OK once it is there. */
rcm_status rcmi_run_scratch_look(struct rcmi_run *run);
static inline bool rcmi_run_scratch_is_due(const struct rcmi_run *run) {
    return run->scratch.len > 0 && !run->scratch.bytes;
}
void rcmi_run_scratch_free(struct rcmi_run *run);

/* ---- exec_places.c */
/* Step i of the plan. */
void rcmi_run_bind_step(struct rcmi_run *run, uint32_t i, bool in_place);

/* ---- exec_message.c */
/* The two ends of a message have other ideas of how long it is. */
rcm_status rcmi_run_differs(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                            const struct rcmi_bound_step *step, const struct rcmi_end *end,
                            const struct rcmi_slot *slot);
/* A message of another call is a mismatch; of this one, where one end has memory of another kind,
 * if it holds anything. */
rcm_status rcmi_run_other_meta(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                               const struct rcmi_bound_step *step, const struct rcmi_end *end,
                               const struct rcmi_slot *slot, size_t bytes);
/* The message that a step received is empty: the payload stands in the slot of the one that it
 * answers. */
rcm_status rcmi_run_peek_answer(const struct rcmi_lane_state *lane,
                                const struct rcmi_bound_step *step, const struct rcmi_end *from,
                                const void **ret_bytes);
/* The payload is still in the sender's memory: gets it into the step's dst. */
rcm_status rcmi_run_get(const struct rcmi_run *run, struct rcmi_lane_state *lane,
                        const struct rcmi_bound_step *step, const struct rcmi_end *end,
                        const struct rcmi_slot *slot, const void **ret_bytes);

/* ---- exec_wait.c */
/* The first channel that carries what the run sent and that it waits for at its end; NULL: none. */
const struct rcmi_port *rcmi_ports_drain(const struct rcmi_run *run);
/* The first channel that the run waits for at its end; NULL: none. Most runs wait for none, and
 * do not call anything to find that. */
static inline const struct rcmi_port *rcmi_run_drains(const struct rcmi_run *run) {
    return run->zero_copy || run->drains ? rcmi_ports_drain(run) : NULL;
}
/* RCM_AGAIN, or why what was sent without a copy will not go out. A lane that waits for what comes
 * of that would not find out. */
rcm_status rcmi_run_waits(const struct rcmi_run *run);

/* ---- exec_trace.c: of a run whose exec has a trace */
/* NULL: no memory, and the run is not traced. */
struct rcmi_lane_trace *rcmi_trace_lanes(const struct rcmi_plan *plan);
void rcmi_trace_end_run(struct rcmi_run *run);
/* A pass over all lanes begins; a step was tried, and what came of it. */
void rcmi_trace_pass(struct rcmi_run *run);
void rcmi_trace_step(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                     const struct rcmi_bound_step *step, rcm_status status);

/* ---- exec_operation.c */
/* Readies the operations of a run whose memory the CPU does not touch. */
rcm_status rcmi_run_operations_bind(struct rcmi_run *run);
/* Computes the lane's step. RCM_AGAIN while an operation of it runs; RCM_OK once, when
 * all of it is there. */
rcm_status rcmi_operation_compute(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                                  const struct rcmi_bound_step *step);
/* RCM_OK when what the run comes after has ended: then a source may be sent as it lies. RCM_AGAIN
 * before, and while the port's channel opens; RCM_ERR_UNSUPPORTED: it sends from no such memory. */
rcm_status rcmi_run_await(struct rcmi_run *run, const struct rcmi_port *port,
                          const struct rcmi_place *src);
/* Does a lane of it wait for this rank's own stream, or for scratch? */
static inline bool rcmi_run_waits_here(const struct rcmi_run *run) {
    return rcmi_run_scratch_is_due(run) || run->awaits;
}
/* rcmi_operations.wake; arg: the node. */
void rcmi_exec_wake(void *arg);

/* ---- exec_beside.c */
/* Opens the channels beside those of the run. */
rcm_status rcmi_beside_open(struct rcmi_run *run);
/* Announces on the port's own channel, which the run may use, the lane's message of so many bytes,
 * which comes beside it; once for each. */
rcm_status rcmi_beside_announce(const struct rcmi_lane_state *lane, const struct rcmi_port *port,
                                size_t bytes);
/* Is it what such a message was announced by? Then the slot is as the message's own, but for its
 * bytes, which are NULL. */
static inline bool rcmi_beside_is(const struct rcmi_slot *slot) {
    return slot->meta & RCMI_META_ELSEWHERE && slot->len > 0;
}
rcm_status rcmi_beside_read(const struct rcmi_run *run, const struct rcmi_end *end,
                            struct rcmi_slot *slot);
/* The message that was announced so. */
rcm_status rcmi_beside_peek(struct rcmi_lane_state *lane, const struct rcmi_port *port,
                            const struct rcmi_slot *announced, const void **ret_bytes);
/* ---- Addresses */
/* The part of a step's chunk that slice s moves. */
static inline size_t rcmi_slice_length(const struct rcmi_bound_step *step, size_t offset,
                                       size_t slice_bytes) {
    if (offset >= step->bytes)
        return 0;
    size_t left = step->bytes - offset;
    return left < slice_bytes ? left : slice_bytes;
}

/* The message that is a step's slice. */
static inline size_t rcmi_message_length(const struct rcmi_run *run,
                                         const struct rcmi_bound_step *step, size_t offset) {
    if (step->npieces == 0)
        return rcmi_slice_length(step, offset, run->slice_bytes);
    size_t length = 0;
    for (uint32_t i = 0; i < step->npieces; i++)
        length += rcmi_slice_length(&run->pieces[step->first_piece + i], offset, run->slice_bytes);
    return length;
}

/* Where `offset` of a chunk is, in its base: scratch is there for a slice only. */
static inline size_t rcmi_lane_offset(const struct rcmi_lane_state *lane,
                                      const struct rcmi_place *place, size_t offset) {
    return place->offset +
           (place->where == RCMI_SCRATCH ? lane->scratch + offset - lane->offset : offset);
}

static inline char *rcmi_run_address(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                                     const struct rcmi_place *place, size_t offset) {
    char *base = run->base[place->index].bytes; /* NULL if there is nothing to move */
    return base ? base + rcmi_lane_offset(lane, place, offset) : NULL;
}

static inline struct rcmi_mem rcmi_run_mem(const struct rcmi_run *run,
                                           const struct rcmi_lane_state *lane,
                                           const struct rcmi_place *place, size_t offset,
                                           size_t len) {
    return rcmi_mem_part(&run->base[place->index], rcmi_lane_offset(lane, place, offset), len);
}

/* Does a message belong to this call, but not at this end of its block? */
static inline bool rcmi_run_is_cut_apart(const struct rcmi_run *run,
                                         const struct rcmi_lane_state *lane,
                                         const struct rcmi_slot *slot, size_t bytes) {
    return run->by_step && (slot->meta == (lane->meta ^ RCMI_META_LAST) ||
                            (slot->meta == lane->meta && slot->len != bytes));
}

#endif
