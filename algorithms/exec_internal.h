/* SPDX-License-Identifier: BSD-3-Clause */
/* What exec.c (running), exec_bind.c (binding), exec_fetch.c and exec_results.c share. Nobody else
 * includes it. */
#ifndef RCMI_EXEC_INTERNAL_H
#define RCMI_EXEC_INTERNAL_H

#include "exec.h"
#include "faster.h"
#include "kernels.h"

/* Below this a copy into the slot is cheaper than sending from the user's memory. */
#define RCMI_LEND_MIN 2048

/* Where ranks share cores, who has sent messages of this size waits until they were taken, instead
 * of going on with what may keep their receiver from its core for longer. */
#define RCMI_LINGER_MIN ((size_t)16 << 10)

/* The same for one who only sends, by channels that tell late what was taken: he yields, once,
 * after messages of these sizes. Larger ones he cannot hand over at once anyhow. */
#define RCMI_COURTESY_MIN ((size_t)64 << 10)
#define RCMI_COURTESY_MAX ((size_t)256 << 10)

/* Vectors from this size on do not stay in a core's cache until somebody reads them; those that are
 * only copied from four times the size. From the last size on it depends on the machine: see
 * exec_results.c. */
#define RCMI_LARGE_BYTES  ((size_t)4 << 20)
#define RCMI_LARGE_COPIED (4 * RCMI_LARGE_BYTES)
#define RCMI_LARGE_MIN    ((size_t)1 << 20)
#define RCMI_RESULT_SIZES 4 /* up to 2, 4, 8, 16 MiB */

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

/* One end of a channel of this communicator; shared by all runs that use it. */
struct rcmi_end {
    struct rcmi_channel *channel;
    struct rcmi_end *next; /* in the exec's list */
    int peer;              /* rank: the other side; -1 for an outgoing multicast */
    uint16_t number;
    bool outgoing, multicast;
    struct rcmi_faster_sizes stores; /* into its slots: enum rcmi_stores */
    struct rcmi_rows *fetches;       /* of an end that is read: see exec_fetch.c; NULL at first */
    uint64_t wish;                   /* said last */
    bool expecting;                  /* a place for the next message was given */
    uint32_t invited; /* messages from the next one on that were invited into place */
    uint32_t tickets; /* turns handed out */
    uint32_t serving; /* whose turn it is */
    /* Slots of messages whose answers have not been received yet, oldest first: a ring of as many
     * as the channel has slots. NULL in it: that one did not travel in its slot, or is tiny. */
    void **kept;
    uint32_t kept_first, nkept;
};

struct rcmi_exec {
    struct rcmi_exec_config config;
    struct rcmi_end *ends;
    struct rcmi_run *idle; /* runs to be used again, newest first */
    uint64_t steps_done;
    uint32_t running;                               /* runs that have begun and not ended */
    uint64_t starts;                                /* runs that have begun */
    struct rcmi_rows results[2][RCMI_RESULT_SIZES]; /* only copied, or sums: see exec_results.c */
};

/* A bound operand: base[where] + offset, or a channel of the run. */
struct rcmi_place {
    uint8_t where; /* enum rcmi_where */
    uint32_t channel;
    size_t offset;
};

/* A bound step; fits a cache line. */
struct rcmi_bound_step {
    size_t bytes; /* of its chunk */
    struct rcmi_place dst;
    uint32_t first_src;
    uint32_t out; /* RCMI_NO_CHANNEL if none */
    uint8_t nsrcs;
    bool may_lend;          /* one stable buffer to a channel, nothing else */
    bool may_lend_dst;      /* what it sends may be sent from dst */
    bool receives_into_dst; /* one channel to a buffer, and maybe on */
    bool invites;           /* the same, and its slices may come early */
    bool answered;          /* its message will be */
    uint32_t answer;        /* as in struct rcmi_step */
};
_Static_assert(sizeof(struct rcmi_bound_step) <= 64, "a bound step fits a cache line");

/* A run's use of a channel end. */
struct rcmi_port {
    struct rcmi_end *end;
    uint32_t turn; /* it is this run's when end->serving equals it */
    uint64_t sent; /* of the channel, with this run's last message; 0: nothing to wait for */
};

struct rcmi_lane_state {
    uint32_t pc, begin, end;
    struct rcmi_port *ports; /* those of its stripe, by the plan's channel */
    size_t slice, offset;    /* offset == slice * slice_bytes */
    uint64_t meta;           /* of this slice's messages */
    void *reply;             /* where the step may leave its answer; NULL */
    const struct rcmi_end *waits_for;
};

/* How a run that may be fetched stands. */
enum rcmi_run_fetching {
    RCMI_RUN_BY_SLOTS, /* or over */
    RCMI_RUN_OPENS,    /* either way is possible */
    RCMI_RUN_OFFERED,  /* the root waits for the reader */
    RCMI_RUN_FETCHES,  /* the reader fetches */
};

struct rcmi_run {
    struct rcmi_exec *exec;
    struct rcmi_run *next; /* in exec->idle */
    struct rcmi_bind bind;
    size_t element_bytes, nslices, slice_bytes;
    uint32_t stripes;             /* in use: min(nslices, plan->stripes) */
    char *base[RCMI_SCRATCH + 1]; /* by enum rcmi_where */
    rcmi_reduce_fn reduce, reduce_streaming;
    rcmi_reduce_twice_fn reduce_twice;
    bool by_vectors;           /* results are copied so, never by the string instruction */
    bool large;                /* results are written past the caches, where they would not stay */
    struct rcmi_rows *results; /* what is known of that; NULL: the size says all */
    int64_t results_ns;        /* when the run began, for what it costs; 0: not to know */
    uint8_t results_way;       /* which of two */
    uint64_t results_start;    /* exec->starts before it; one more when it is done: it was alone */
    bool lent;
    bool lingers;   /* until its messages were taken */
    bool courteous; /* see rcmi_run_is_courteous */
    bool may_fetch; /* as far as the plan and the size go */
    enum rcmi_run_fetching fetch;
    uint64_t from;    /* where it is fetched */
    int64_t began_ns; /* when the first message was seen, for what it costs; 0: not to know */
    bool unlendable;  /* out turned out not to be memory that some channel lends from */
    void *scratch;
    size_t scratch_bytes;
    struct rcmi_lane_state *lanes; /* plan->nlanes * plan->stripes, lane after lane */
    struct rcmi_bound_step *steps; /* plan->nsteps */
    struct rcmi_place *places;     /* plan->noperands */
    struct rcmi_port *ports;       /* plan->nchannels * plan->stripes, stripe after stripe */
    uint32_t open_stripes;         /* those whose ports have their ends */
    const struct rcmi_bound_step **last_step; /* plan->nchannels */
};

/* exec_bind.c. If it is the port's turn: nothing is put to places of the run any more. */
void rcmi_port_withdraw(const struct rcmi_port *port);

/* exec_results.c. May results of so many bytes stay in the caches, or not? NULL: the size says so.
 * A run begins: how are its results written? It is done: what did it cost? */
struct rcmi_rows *rcmi_run_results(struct rcmi_run *run, size_t bytes, bool only_sends);
void rcmi_run_results_begin(struct rcmi_run *run);
void rcmi_run_results_end(struct rcmi_run *run);

/* exec_fetch.c. Goes on with a run that is not RCMI_RUN_BY_SLOTS: RCM_AGAIN if it waits, RCM_OK if
 * the lanes have something to do, or look. The reader learns what a run did cost. */
rcm_status rcmi_run_fetch(struct rcmi_run *run, bool *moved);
void rcmi_run_fetch_learn(struct rcmi_run *run, enum rcmi_fetching way);
/* Which runs may be fetched: those of the plan's root and its only reader, of so many bytes. */
bool rcmi_run_may_fetch(const struct rcmi_run *run, bool in_place);

#endif
