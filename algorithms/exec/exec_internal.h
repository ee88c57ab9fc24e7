/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of the executor; no other file includes it.
 *
 *   exec_runs.c, exec_scratch.c             memory of runs
 *   exec_bind.c, exec_slices.c              binding a call to a run: slices,
 *   exec_ends.c, exec_bind_step.c           channel ends, steps and their operands
 *   exec.c, exec_step.h                     running lanes and their current steps
 *   exec_operation.c, exec_out_of_band.c    additions for device memory
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

/* Below this size, copying into the slot is cheaper than zero-copy from user memory. */
#define RCMI_ZERO_COPY_MIN 2048

/* If ranks share cores, a rank waits until messages of at least this size were taken. Otherwise its
 * next work could keep the receiver from its core for longer. */
#define RCMI_DRAIN_MIN ((size_t)16 << 10)

/* The same for a rank that only sends, on channels that report delivery late: it yields once after
 * messages of these sizes. Larger ones cannot be handed over at once anyway. */
#define RCMI_YIELD_MIN ((size_t)64 << 10)
#define RCMI_YIELD_MAX ((size_t)256 << 10)

/* Vectors are not cut into smaller slices for overlap. Between hosts a message costs several system
 * calls, and maybe a context switch at each end: as much as copying about 50 KiB. */
#define RCMI_SLICE_MIN         ((size_t)16 << 10)
#define RCMI_NETWORK_SLICE_MIN ((size_t)128 << 10)
/* On one machine the sender's system call also does the receiver's work, so there is less to
 * overlap. */
#define RCMI_LOOPBACK_SLICE_MIN ((size_t)340 << 10)
/* Between hosts: ordinary slots per slice (these channels are bulk channels), slices of a vector
 * that is large enough, and concurrent slices. */
#define RCMI_NETWORK_SLICE_SLOTS 4
#define RCMI_NETWORK_SLICES      4
#define RCMI_NETWORK_STRIPES     2

/* Finished runs are kept for later calls of their plan until all together exceed this many bytes,
 * the same limit as for concurrent runs (api/work/queue.h). */
#define RCMI_RUNS_MAX ((size_t)16 << 20)

/* Where in a slot the answer of a message is received. bytes NULL: the message was tiny or did not
 * use its slot. */
struct rcmi_kept {
    void *bytes;
    size_t len;
};

/* One end of a channel of this communicator; shared by all runs that use it. */
struct rcmi_end {
    struct rcmi_channel *channel;
    int peer; /* rank of the other side; -1: an outgoing multicast */
    uint16_t number;
    bool outgoing, multicast;
    enum rcmi_mem_kind kind; /* memory kind of its messages */
    uint32_t posted;         /* receives posted, from the next message on */
    uint32_t tickets;        /* issued */
    uint32_t now_served;     /* ticket of the current run */
    /* Of messages whose answers were not received yet, oldest first: a ring with as many entries as
     * the channel has slots. */
    struct rcmi_kept *kept;
    uint32_t kept_first, nkept;
};

struct rcmi_exec {
    struct rcmi_exec_config config;
    struct rcmi_end **ends; /* a hash table of nends entries, see exec_ends.c */
    uint32_t nbuckets, nends;
    struct rcmi_run *idle;    /* finished runs for reuse, newest first */
    _Atomic size_t run_bytes; /* of all runs, idle or in flight; relaxed */
    struct rcmi_operations operations;
    struct rcmi_scratches scratches; /* device memory that runs returned */
    uint64_t steps_done;
};

/* Is every rank alone on its host, so that all channels are between hosts? */
bool rcmi_exec_is_spread(const struct rcmi_exec *exec);
/* Is the end that rcmi_exec_end would return already open? */
bool rcmi_exec_has_end(const struct rcmi_exec *exec, const struct rcmi_plan_channel *in_plan,
                       uint32_t stripe, enum rcmi_mem_kind kind);
/* The end for a plan's channel in a stripe and for a memory kind, opened on first use. */
rcm_status rcmi_exec_end(struct rcmi_exec *exec, const struct rcmi_plan_channel *in_plan,
                         uint32_t stripe, enum rcmi_mem_kind kind, struct rcmi_end **ret_end);

/* A bound operand: base[index] + offset, or a channel of the run. */
struct rcmi_bound_operand {
    uint8_t where; /* enum rcmi_where */
    /* of base: where, or RCMI_BASE_BLOCKS + a block number; of a channel */
    uint32_t index;
    size_t offset;
};
/* Unequal blocks of IN and OUT follow the bases that enum rcmi_where indexes. */
#define RCMI_BASE_BLOCKS (RCMI_CHANNEL + 1)

/* A bound step; fits a cache line. */
struct rcmi_bound_step {
    size_t bytes; /* of its chunk or span; in pieces: of the longest piece */
    struct rcmi_bound_operand dst;
    uint32_t first_src;
    uint32_t out; /* RCMI_NO_CHANNEL: none */
    uint8_t nsrcs;
    bool zero_copy;         /* sends one stable buffer, nothing else */
    bool zero_copy_dst;     /* its message may be sent from dst */
    bool receives_into_dst; /* from one channel to a buffer, and maybe forwards */
    bool early;             /* the same, and slices may arrive early */
    bool answered;          /* its message will be answered */
    bool reduces;           /* else it copies */
    uint8_t sum;            /* index in run->sums */
    uint32_t answer;        /* as in struct rcmi_step */
    /* The pieces of a span that is not contiguous. Each is a step of its own, and its part of the
     * message follows the part of the piece before. 0: contiguous, or no span. */
    uint32_t npieces, first_piece;
};
_Static_assert(sizeof(struct rcmi_bound_step) <= 64, "a bound step fits a cache line");

/* A run's use of a channel end. */
struct rcmi_port {
    struct rcmi_end *end;
    struct rcmi_end *oob;      /* of payloads, see exec_out_of_band.c; NULL */
    struct rcmi_channel *data; /* of one of the two ends: carries payloads */
    uint32_t ticket;           /* this run has the end when end->now_served equals it */
    uint64_t sent;             /* channel count after this run's last message; 0: no wait */
    uint64_t zero_copy;        /* the same for zero-copy messages */
};

/* How the message of a step is sent. */
enum rcmi_path {
    RCMI_PATH_NONE,   /* no message */
    RCMI_PATH_SENT,   /* already sent from its source: nothing to compute */
    RCMI_PATH_SLOT,   /* computed into its slot */
    RCMI_PATH_POSTED, /* computed into memory that the reader posted */
    RCMI_PATH_ANSWER, /* computed into the slot of the answered message */
    RCMI_PATH_DST,    /* computed into the step's dst and sent from there */
    RCMI_PATH_COPY,   /* fallback of DST: copied from dst into its slot */
};

/* What a step works on, once acquired. */
struct rcmi_step_io {
    void *dst;                   /* of the whole step, not of a piece; NULL: none */
    struct rcmi_reserved target; /* of all paths from SLOT on */
    size_t bytes;                /* of the message; without one, of the slice */
    enum rcmi_path path;
};

/* For memory that the CPU does not touch: the lane's current step. Once begun, its operands stay
 * until its operations have ended. */
struct rcmi_lane_operation {
    struct rcmi_operation operation; /* of the step, or of its current piece */
    const void *srcs[RCMI_SOURCES_MAX];
    struct rcmi_step_io io;
    bool begun;
    bool announced; /* its message was, see exec_out_of_band.c */
    uint32_t piece; /* the next piece to begin, */
    size_t at;      /* and the offset of its part in the message */
};

struct rcmi_lane_state {
    /* From the bound plan: */
    uint32_t begin, end, stripe;
    struct rcmi_port *ports; /* those of its stripe, by the plan's channel */
    size_t scratch;          /* offset of the scratch of its stripe */
    /* Progress: */
    uint32_t pc;
    size_t slice, offset; /* offset == slice * slice_bytes; by step: within the step */
    size_t part;          /* bytes of the step's slice in earlier messages */
    bool got;             /* the message is in the step's dst */
    bool moved;           /* a piece of it is */
    bool oob;             /* the peeked payload is out-of-band */
    uint64_t meta;        /* of this slice's messages */
    void *reply;          /* the slot for the step's answer; NULL */
    struct rcmi_lane_operation *operation; /* NULL: the CPU computes */
    const struct rcmi_port *waits_for;
};

struct rcmi_run {
    struct rcmi_exec *exec;
    struct rcmi_run *next; /* in exec->idle */
    size_t bytes;          /* counted in exec->run_bytes */
    struct rcmi_bind bind;
    size_t element_bytes, nslices, slice_bytes;
    uint32_t stripes; /* in use: min(nslices, plan->stripes) */
    uint32_t nbases;
    struct rcmi_mem *base;
    uint32_t ncounts;            /* bound unequal blocks; else 0 */
    size_t *counts;              /* one per base */
    struct rcmi_kernels kernels; /* the only code that touches elements */
    rcm_op held;                 /* the created operator of `kernels`; else 0 */
    bool scales;                 /* the operator scales contributions */
    bool reads_scale;            /* anew for each operation */
    enum rcmi_stores results;    /* for results that are not sent */
    bool in_place;
    bool by_step;                        /* order by step */
    bool counts_differ;                  /* see rcmi_run_counts_differ */
    intptr_t distance;                   /* of IN from OUT if they are the same memory */
    bool gets;                           /* the reader gets messages longer than a slot */
    bool zero_copy;                      /* some message was sent by zero-copy */
    bool no_zero_copy;                   /* a channel rejected zero-copy from `out` */
    bool no_posts;                       /* its memory cannot be posted for receives */
    bool drains;                         /* waits until its messages were taken */
    bool yields;                         /* see rcmi_run_yields */
    struct rcmi_mem scratch;             /* bytes NULL, len not 0: being allocated */
    struct rcmi_scratch *device_scratch; /* of `scratch`; NULL: host memory */
    size_t scratch_chunk;                /* bytes of a scratch chunk: at most a slice */
    struct rcmi_lane_state *lanes;       /* plan->nlanes * plan->stripes, lane after lane */
    struct rcmi_bound_step *steps;       /* plan->nsteps */
    struct rcmi_bound_operand *operands; /* plan->noperands, then the sources of pieces */
    struct rcmi_bound_step *pieces;
    uint32_t noperands, npieces; /* in use */
    struct rcmi_port *ports;     /* plan->nchannels * plan->stripes, stripe after stripe */
    enum rcmi_mem_kind kind;     /* of its channels */
    uint32_t open_stripes;       /* whose ports have their ends */
    bool opens;                  /* it opened ends; at the last check not all were ready */
    const struct rcmi_bound_step **last_step; /* plan->nchannels */
    struct rcmi_lane_operation *operations;   /* plan->nlanes * plan->stripes, or NULL */
    struct rcmi_operation watch; /* of bind.after, see rcmi_fence_await; in progress: */
    bool awaits;
    struct rcmi_lane_trace *traces; /* one per lane state, or NULL */
    int64_t trace_began, traced;    /* first pass, 0 before; last reading of the clock */
    uint8_t track;                  /* as in struct rcmi_trace_event */
    /* First the sums of the kernels. Then, by source index, those of steps that scale this rank's
     * contribution at that source; as many as the plan needs. */
    uint32_t nsums;
    struct rcmi_sum sums[];
};

/* ---- exec_runs.c */
enum { RCMI_KERNEL_SUMS = 2 }; /* of struct rcmi_kernels */
rcm_status rcmi_run_new(struct rcmi_exec *exec, const struct rcmi_plan *plan,
                        struct rcmi_run **ret_run);
void rcmi_run_free(struct rcmi_run *run);
/* Updates the memory count of a run. */
void rcmi_run_weigh(struct rcmi_run *run);

/* ---- exec_slices.c */
/* Slices and concurrent slices, computed from values that are equal on all ranks. */
struct rcmi_slicing {
    size_t bytes, n;
    uint32_t stripes;
};
/* Does the reader get blocks of `bytes`? The result does not depend on what ranks find out about
 * their links: a message that cannot be got comes in parts, or piece by piece through its slot. */
bool rcmi_exec_gets(const struct rcmi_exec *exec, const struct rcmi_plan *plan,
                    enum rcmi_mem_kind kind, size_t bytes);
struct rcmi_slicing rcmi_exec_slicing(const struct rcmi_exec *exec, const struct rcmi_plan *plan,
                                      enum rcmi_mem_kind kind, size_t count, size_t element_bytes);
/* For messages whose length only the two ends have: slices are as long as a slot allows, one
 * message if that is enough. No message is got: a different length is an error, not a part. Within
 * a host, device memory uses slots of device channels. */
struct rcmi_slicing rcmi_exec_slicing_by_step(const struct rcmi_exec *exec,
                                              const struct rcmi_plan *plan,
                                              enum rcmi_mem_kind kind);

/* ---- exec_scratch.c */
/* Allocates the run's scratch, or begins to. Each stripe has its own; a chunk is as long as a
 * slice. */
rcm_status rcmi_run_scratch_bind(struct rcmi_run *run);
/* While scratch is being allocated: RCM_AGAIN, or RCM_OK once it is there. */
rcm_status rcmi_run_scratch_look(struct rcmi_run *run);
static inline bool rcmi_run_scratch_is_due(const struct rcmi_run *run) {
    return run->scratch.len > 0 && !run->scratch.bytes;
}
void rcmi_run_scratch_free(struct rcmi_run *run);

/* ---- exec_bind_step.c */
/* Binds step i of the plan. */
void rcmi_run_bind_step(struct rcmi_run *run, uint32_t i, bool in_place);

/* ---- exec_message.c */
/* Fails: the two ends of a message have different lengths for it. */
rcm_status rcmi_run_differs(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                            const struct rcmi_bound_step *step, const struct rcmi_end *end,
                            const struct rcmi_slot *slot);
/* Fails if the message belongs to another call; or to this one, is not empty, and the other end has
 * another memory kind. */
rcm_status rcmi_run_other_meta(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                               const struct rcmi_bound_step *step, const struct rcmi_end *end,
                               const struct rcmi_slot *slot, size_t bytes);
/* For an empty message: returns the payload of so many bytes, which is in the slot of the answered
 * message and as long as that. */
rcm_status rcmi_run_peek_answer(const struct rcmi_lane_state *lane,
                                const struct rcmi_bound_step *step, const struct rcmi_end *from,
                                size_t bytes, const void **ret_bytes);
/* Gets a payload from the sender's memory into the step's dst. */
rcm_status rcmi_run_get(const struct rcmi_run *run, struct rcmi_lane_state *lane,
                        const struct rcmi_bound_step *step, const struct rcmi_end *end,
                        const struct rcmi_slot *slot, const void **ret_bytes);

/* ---- exec_wait.c */
/* The first outgoing channel that the run waits for at its end; NULL: none. */
const struct rcmi_port *rcmi_ports_drain(const struct rcmi_run *run);
/* The same. Most runs wait for none; for these it makes no call. */
static inline const struct rcmi_port *rcmi_run_drains(const struct rcmi_run *run) {
    return run->zero_copy || run->drains ? rcmi_ports_drain(run) : NULL;
}
/* RCM_AGAIN, or the error of a channel with outstanding zero-copy messages. A lane that waits for
 * the peer's response would not notice that error. */
rcm_status rcmi_run_waits(const struct rcmi_run *run);

/* ---- exec_trace.c: for runs of an exec with a trace */
/* NULL: no memory, and the run is not traced. */
struct rcmi_lane_trace *rcmi_trace_lanes(const struct rcmi_plan *plan);
void rcmi_trace_end_run(struct rcmi_run *run);
/* Called at the start of a pass over all lanes; called after each try of a step, with its
 * result. */
void rcmi_trace_pass(struct rcmi_run *run);
void rcmi_trace_step(struct rcmi_run *run, const struct rcmi_lane_state *lane,
                     const struct rcmi_bound_step *step, rcm_status status);

/* ---- exec_operation.c */
/* Initialises the operations of a run whose memory the CPU does not touch. */
rcm_status rcmi_run_operations_bind(struct rcmi_run *run);
/* Computes the lane's step. RCM_AGAIN while one of its operations is in progress; RCM_OK once, when
 * all are complete. */
rcm_status rcmi_operation_compute(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                                  const struct rcmi_bound_step *step);
/* RCM_OK when bind.after has ended, so the source may be sent by zero-copy. RCM_AGAIN before that,
 * and while the port's channel opens. RCM_ERR_UNSUPPORTED: the channel cannot send from such
 * memory. */
rcm_status rcmi_run_await(struct rcmi_run *run, const struct rcmi_port *port,
                          const struct rcmi_bound_operand *src);
/* Does one of its lanes wait for this rank's own stream, or for scratch? */
static inline bool rcmi_run_waits_here(const struct rcmi_run *run) {
    return rcmi_run_scratch_is_due(run) || run->awaits;
}
/* rcmi_operations.wake; arg: the node. */
void rcmi_exec_wake(void *arg);

/* ---- exec_out_of_band.c */
/* Opens the out-of-band channels of the run. */
rcm_status rcmi_oob_open(struct rcmi_run *run);
/* Announces the lane's message of `bytes`, whose payload is out-of-band, on the port's own channel.
 * The run must hold the end. Announces each message once. */
rcm_status rcmi_oob_announce(const struct rcmi_lane_state *lane, const struct rcmi_port *port,
                             size_t bytes);
/* Is the slot an announcement? rcmi_oob_read then converts it to the slot of the message itself,
 * with bytes NULL. */
static inline bool rcmi_oob_is(const struct rcmi_slot *slot) {
    return slot->meta & RCMI_META_ELSEWHERE && slot->len > 0;
}
rcm_status rcmi_oob_read(const struct rcmi_run *run, const struct rcmi_end *end,
                         struct rcmi_slot *slot);
/* The announced payload. */
rcm_status rcmi_oob_peek(struct rcmi_lane_state *lane, const struct rcmi_port *port,
                         const struct rcmi_slot *announced, const void **ret_bytes);
/* ---- Addresses */
/* Bytes of the step's chunk in the slice at `offset`. */
static inline size_t rcmi_slice_length(const struct rcmi_bound_step *step, size_t offset,
                                       size_t slice_bytes) {
    if (offset >= step->bytes)
        return 0;
    size_t left = step->bytes - offset;
    return left < slice_bytes ? left : slice_bytes;
}

/* Bytes of the step's message for the slice at `offset`. */
static inline size_t rcmi_message_length(const struct rcmi_run *run,
                                         const struct rcmi_bound_step *step, size_t offset) {
    if (step->npieces == 0)
        return rcmi_slice_length(step, offset, run->slice_bytes);
    size_t length = 0;
    for (uint32_t i = 0; i < step->npieces; i++)
        length += rcmi_slice_length(&run->pieces[step->first_piece + i], offset, run->slice_bytes);
    return length;
}

/* Converts `offset` in a chunk to an offset in its base. Scratch holds one slice only. */
static inline size_t rcmi_lane_offset(const struct rcmi_lane_state *lane,
                                      const struct rcmi_bound_operand *operand, size_t offset) {
    return operand->offset +
           (operand->where == RCMI_SCRATCH ? lane->scratch + offset - lane->offset : offset);
}

static inline char *rcmi_run_address(const struct rcmi_run *run, const struct rcmi_lane_state *lane,
                                     const struct rcmi_bound_operand *operand, size_t offset) {
    char *base = run->base[operand->index].bytes; /* NULL if there is nothing to move */
    return base ? base + rcmi_lane_offset(lane, operand, offset) : NULL;
}

static inline struct rcmi_mem rcmi_run_mem(const struct rcmi_run *run,
                                           const struct rcmi_lane_state *lane,
                                           const struct rcmi_bound_operand *operand, size_t offset,
                                           size_t len) {
    return rcmi_mem_part(&run->base[operand->index], rcmi_lane_offset(lane, operand, offset), len);
}

/* Does the message belong to this call, but to a different position in its block? */
static inline bool rcmi_run_is_cut_apart(const struct rcmi_run *run,
                                         const struct rcmi_lane_state *lane,
                                         const struct rcmi_slot *slot, size_t bytes) {
    return run->by_step && (slot->meta == (lane->meta ^ RCMI_META_LAST) ||
                            (slot->meta == lane->meta && slot->len != bytes));
}

#endif
