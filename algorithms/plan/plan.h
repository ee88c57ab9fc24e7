/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algorithms/: from a call to its steps, and their execution.
 *
 *      collectives.c  table.c, select/        algorithm files         exec/
 *      call meaning   algorithm choice   -->  plan of one rank   -->  bound to buffers, run
 *                                                  |
 *                                                  '-> verify/: proves the plans of all ranks
 *
 * Algorithm choice: the algorithm that the call names, or that a setting names for the size
 * (choice.h); else the cheapest, from its counted work (cost.h) and this machine's prices
 * (price.h).
 *
 * Not here: communicators, deadlines and waiting (api/), message transport (transport/), summing of
 * elements (kernels/).
 *
 * A plan is what one rank does for one collective: steps over symbolic chunks, in lanes. A plan
 * contains no data pointer, byte count, type or time. One plan therefore serves every size and
 * type, the executor, the verifier and the pictures of ringcomm-plan. The pure functions in the
 * algorithm files make plans; a finished plan never changes.
 *
 * Terms:
 *   block     what the collective moves or reduces as a whole (listed in collectives.h). IN is this
 *             rank's input, OUT its output; each consists of some of the blocks.
 *   chunk     one of `parts` consecutive parts of a block (see rcmi_chunk_range). Chunks are
 *             numbered over all blocks of all ranks. An operand names a chunk of IN or OUT by its
 *             position in that buffer. With one block the two numbers are equal.
 *   span      consecutive chunks that one step moves as one message; after the last chunk of all
 *             blocks follows the first. The buffers of the step start with the first chunk; the
 *             others follow, and wrap from the last position of IN or OUT to the first.
 *             A list of chunks makes a span of chunks that are not consecutive: each lies at its
 *             own position of IN or OUT, or at the scratch chunk that the list gives.
 *   slice     what fits one slot. If a chunk is larger, the executor runs every lane once per
 *             slice: all its steps for slice 0, then all for slice 1, and so on. With several
 *             stripes, slice i belongs to stripe i modulo stripes, and stripes run concurrently.
 *             A plan describes one slice. A chunk with no bytes left in a slice is still sent,
 *             with zero bytes. The message of a span holds the same slice of each chunk; slices
 *             are short enough for the plan's longest span to fit one slot.
 *   order     by slice, as above; or by step, if only the two ends of a message have its length:
 *             each step runs for all its slices before the next step begins, in one stripe, and
 *             the last message of a step is flagged.
 *   channel   a FIFO from one writer to one reader, or to all other ranks of the writer's host
 *             (multicast; needs shared memory). It has slots: the writer fills the next free slot,
 *             each reader looks at the oldest one and releases it. A slot is free again when every
 *             reader released it. `number` distinguishes channels between the same ranks.
 *             Each end of a channel belongs to exactly one lane of its rank's plan.
 *   lane      a sequence of steps, executed strictly in order. The lanes of a rank run
 *             independently.
 *   operand   a source or a destination of a step: a chunk of IN or OUT, a scratch chunk, the
 *             oldest slot of an incoming channel.
 *
 * A step waits until each channel operand has a slot to read and its outgoing channel a free slot.
 * Then it runs completely: it reads its sources from left to right, writes the result to dst (if
 * any) and to the slot of channel `out` (if any), publishes that slot, and releases the slots that
 * it read. A step with several sources reduces them strictly in the given order.
 */
#ifndef RCMI_PLAN_H
#define RCMI_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "collectives.h"
#include "ringcomm.h"

/* Agreed on by all ranks of a communicator at its creation. */
struct rcmi_prices;
struct rcmi_shape {
    int nranks;
    int nhosts;
    const int *host_of; /* host of each rank, 0..nhosts-1, numbered by first appearance */
    /* For prices: */
    const struct rcmi_prices *prices; /* NULL: built-in ones */
    bool loopback; /* the hosts are one machine, but not all of its ranks share memory: messages
                      between them stay in the kernel */
    double ranks_per_cpu; /* on the machine with the highest ratio; 0 counts as 1 */
};

/* The path of a message: within a host, or between hosts. */
enum rcmi_reach { RCMI_WITHIN, RCMI_BETWEEN, RCMI_REACHES };

/* The kind of a step, with its sources and results. */
enum rcmi_step_op {
    RCMI_STEP_SEND = 1,         /* buffer -> out */
    RCMI_STEP_RECV,             /* channel -> dst */
    RCMI_STEP_RECV_REDUCE,      /* channel, buffer (either order) -> dst */
    RCMI_STEP_COPY,             /* buffer -> dst */
    RCMI_STEP_REDUCE_N,         /* 1..16 of either -> dst, or out, or both */
    RCMI_STEP_RECV_REDUCE_SEND, /* channel, buffer (either order) -> out, and maybe dst */
    RCMI_STEP_RECV_COPY_SEND,   /* channel -> dst and out */
    RCMI_STEP_SIGNAL,           /* nothing -> out, zero bytes */
    RCMI_STEP_WAIT              /* channel, zero bytes -> nothing */
};

enum rcmi_where { RCMI_NOWHERE = 0, RCMI_IN, RCMI_OUT, RCMI_SCRATCH, RCMI_CHANNEL };

struct rcmi_operand {
    uint8_t where;  /* enum rcmi_where */
    uint32_t index; /* position in IN or OUT, scratch chunk, or index into plan->channels */
};

/* One chunk of a listed span, and its offset in chunks from an operand in scratch. */
struct rcmi_listed {
    uint32_t chunk, scratch;
};

#define RCMI_NO_CHANNEL  UINT32_MAX
#define RCMI_NO_LIST     UINT32_MAX
#define RCMI_SOURCES_MAX 16
#define RCMI_SPAN_MAX    64 /* chunks: some bytes of each fit the smallest possible slot */

struct rcmi_step {
    uint8_t op;    /* enum rcmi_step_op */
    uint8_t nsrcs; /* operands[first_src .. first_src + nsrcs) */
    /* Its sources include buffers, and these keep their value until the end of the plan, or until
     * all readers of the message have read them. A transport may then send straight from them.
     * `stable` holds if IN and OUT are different memory, `stable_in_place` if they are the same.
     * Never set for scratch. Computed by rcmi_plan_finish, except for what depends on readers: the
     * algorithm sets that (rcmi_stable_in_place). */
    bool stable, stable_in_place;
    /* It writes a chunk of OUT for the last time, so its message may be sent straight from there.
     * Computed by rcmi_plan_finish. */
    bool lasting;
    /* It only receives, into a chunk of OUT that no other step of the plan writes, or reads as OUT,
     * and it is the only reader of its channel. The sender may write to that chunk as soon as it
     * has the message. Computed by rcmi_plan_finish. The verifier proves that, in place, every read
     * of the chunk as IN comes before. */
    bool early;
    /* For reductions to which all ranks contribute: the step's result is the whole result, to which
     * nothing is added later. Each result chunk comes from exactly one such step, and is copied
     * from there. Computed by rcmi_plan_finish: a last write to OUT that is not a receive. If a
     * rank sends the result on and has no OUT for it, the algorithm sets it (rcmi_completes). Never
     * set if only some ranks contribute. */
    bool completes;
    uint32_t chunk;   /* the chunk that it moves; unused by signal and wait */
    uint32_t nchunks; /* length of the span from `chunk` on */
    uint32_t list;    /* first index in plan->listed; RCMI_NO_LIST: consecutive chunks */
    uint32_t first_src;
    struct rcmi_operand dst; /* RCMI_NOWHERE if none */
    uint32_t out;            /* index into plan->channels, RCMI_NO_CHANNEL if none */
    /* The step sends the answer to a message that it receives from this channel, or it receives the
     * answer to a message that this rank sent on this channel. RCMI_NO_CHANNEL if neither. The
     * answer may travel in the slot of the answered message. */
    uint32_t answer;
    /* It sends a message that will be answered. Its slot is not reused until a step of this rank
     * has received the answer. Computed by rcmi_plan_finish. */
    bool answered;
};

struct rcmi_plan_channel {
    bool outgoing;   /* this rank is the writer */
    bool multicast;  /* one writer, all other ranks of its host read */
    int peer;        /* the other rank; for an outgoing multicast -1 */
    uint16_t number; /* of channels between the same ranks, 0..RCMI_CHANNEL_NUMBERS-1 */
    uint16_t lane;   /* the lane that owns this end */
};
#define RCMI_CHANNEL_NUMBERS 8

/* How long messages may be that the reader gets out of the sender's memory, instead of through a
 * slot. Requires that every channel has one reader, and that no step reduces, forwards, answers or
 * moves a span. */
enum rcmi_gets {
    RCMI_GETS_NONE = 0,
    /* At most what the slots of a channel hold together. The parts of a message then have slots at
     * the same time, so a rank that sends before it receives waits no longer than with one slot per
     * message. */
    RCMI_GETS_HELD,
    /* Unlimited. The root is one end of every channel, and each other rank has one channel, so no
     * rank waits for a rank that waits. */
    RCMI_GETS_STAR
};

struct rcmi_lane {
    uint32_t first_step, nsteps;
};

struct rcmi_plan {
    enum rcm_collective collective;
    const char *algorithm; /* static */
    uint64_t name_hash;    /* of algorithm */
    int nranks, rank, root;
    uint32_t nchunks; /* over all blocks; at least 1, even for a barrier */
    uint32_t parts;   /* chunks of a block */
    struct rcmi_blocks in, out;
    uint32_t larger;       /* rcmi_collective_larger */
    uint32_t nscratch;     /* scratch chunks, each as long as a slice; each is used by one lane
                            * only; the next slice reuses the memory */
    uint32_t longest_span; /* chunks; the same on all ranks */
    uint32_t min_slots;    /* slots per channel that rule out deadlock */
    /* Slices that may run concurrently, each stripe on its own channels; the same on all ranks.
     * Stripes share nothing, so what holds for one slice holds for all. */
    uint32_t stripes;
    /* Nothing in the plan runs concurrently, so slices cannot overlap. If messages are expensive,
     * one slice is better. The same on all ranks. */
    bool whole;
    /* The plan has many slots; half-used slots are faster if ranks share caches. The same on all
     * ranks. */
    bool halves;
    /* In place, a received chunk may overwrite data that is still to be sent when the sender has
     * the message: no step counts as early then. The same on all ranks. */
    bool late_in_place;
    uint8_t gets; /* enum rcmi_gets; the same on all ranks */
    bool sums;    /* some step has several sources. Computed by rcmi_plan_finish. */
    uint32_t nlanes, nsteps, noperands, nchannels, nlisted;
    struct rcmi_lane *lanes;
    struct rcmi_step *steps; /* lane after lane */
    struct rcmi_operand *operands;
    struct rcmi_plan_channel *channels;
    struct rcmi_listed *listed;
};

/* Elements [*ret_first, *ret_first + *ret_count) of part i of a block of `count` elements. This
 * partition rule is the same on all ranks. Boundaries fall on multiples of 64 bytes if the vector
 * is long enough. */
void rcmi_chunk_range(size_t count, size_t element_bytes, uint32_t nchunks, uint32_t i,
                      size_t *ret_first, size_t *ret_count);
/* Elements of the longest part. */
size_t rcmi_chunk_max(size_t count, size_t element_bytes, uint32_t nchunks);

/* Chunks of the plan's IN or OUT. */
uint32_t rcmi_plan_chunks(const struct rcmi_plan *plan, enum rcmi_where where);
/* The chunk at a position of IN or OUT. */
uint32_t rcmi_plan_chunk(const struct rcmi_plan *plan, enum rcmi_where where, uint32_t index);
/* For in-place calls: a number that is equal for positions that share memory. */
uint32_t rcmi_plan_cell(const struct rcmi_plan *plan, enum rcmi_where where, uint32_t index);

/* Splits n consecutive chunks into spans of at most RCMI_SPAN_MAX: the number of spans, and the
 * length of the span that begins with chunk `at`. */
uint32_t rcmi_spans(uint32_t n);
uint32_t rcmi_span_length(uint32_t n, uint32_t at);

/* Chunk i of a step's span, and its operand in one of the step's buffers. If the buffer lacks the
 * chunk, the position is beyond IN or OUT. */
uint32_t rcmi_step_chunk(const struct rcmi_plan *plan, const struct rcmi_step *step, uint32_t i);
struct rcmi_operand rcmi_span_operand(const struct rcmi_plan *plan, const struct rcmi_step *step,
                                      struct rcmi_operand first, uint32_t i);
/* The index of the source that is IN, for a reduction this rank's contribution; there is at most
 * one. nsrcs: none. */
uint32_t rcmi_step_input(const struct rcmi_plan *plan, const struct rcmi_step *step);
/* Is it a copy of chunks onto themselves if IN and OUT are the same memory? */
bool rcmi_step_stays(const struct rcmi_plan *plan, const struct rcmi_step *step);

/* "recv_reduce_send"; "?" for an unknown number. Static memory. */
const char *rcmi_step_name(uint8_t op);
/* A step as text: "recv_reduce_send chunk 2: from 0 + in.2 -> to 3". Truncated at size. */
void rcmi_step_describe(const struct rcmi_plan *plan, uint32_t step, char *text, size_t size);

/* ---- Writing plans ------------------------------------------------------------------------- */

/* parts: chunks of each block.
 *
 * A builder stores the first failure: out of memory, or RCM_ERR_INTERNAL for a mistake of the
 * emitter, such as a chunk that does not exist. It ignores later calls, and rcmi_plan_finish
 * returns the failure. Emitters therefore read like the algorithm. Steps of different lanes may be
 * added in any order. */
struct rcmi_builder;
rcm_status rcmi_plan_begin(const char *algorithm, enum rcm_collective collective,
                           const struct rcmi_shape *shape, int rank, int root, uint32_t parts,
                           uint32_t min_slots, struct rcmi_builder **ret_builder);
/* Sets the number of stripes if it differs from RCMI_STRIPES: fewer for a plan with many
 * channels. */
void rcmi_plan_stripes(struct rcmi_builder *builder, uint32_t stripes);
#define RCMI_STRIPES 4
/* These set flags of struct rcmi_plan. */
void rcmi_plan_whole(struct rcmi_builder *builder);
void rcmi_plan_halves(struct rcmi_builder *builder);
void rcmi_plan_late_in_place(struct rcmi_builder *builder);
void rcmi_plan_gets(struct rcmi_builder *builder, enum rcmi_gets gets);
/* The longest span that any step of any rank moves, in chunks; at most RCMI_SPAN_MAX. Default 1. */
void rcmi_plan_spans(struct rcmi_builder *builder, uint32_t longest);
/* Frees the builder in every case. */
rcm_status rcmi_plan_finish(struct rcmi_builder *builder, struct rcmi_plan **ret_plan);
void rcmi_plan_free(struct rcmi_plan *plan);

struct rcmi_operand rcmi_in(uint32_t position);
struct rcmi_operand rcmi_out(uint32_t position);
struct rcmi_operand rcmi_scratch(uint32_t i);
/* The incoming channel from `peer`; the outgoing one to it; the incoming and the outgoing
 * multicast. One exists per (peer, number), created on first use. Use from a second lane is an
 * error. */
struct rcmi_operand rcmi_from(struct rcmi_builder *b, int lane, int peer, int number);
struct rcmi_operand rcmi_from_host(struct rcmi_builder *b, int lane, int writer, int number);
uint32_t rcmi_to(struct rcmi_builder *b, int lane, int peer, int number);
uint32_t rcmi_to_host(struct rcmi_builder *b, int lane, int number);

void rcmi_send(struct rcmi_builder *b, int lane, uint32_t chunk, struct rcmi_operand src,
               uint32_t out);
void rcmi_recv(struct rcmi_builder *b, int lane, uint32_t chunk, struct rcmi_operand from,
               struct rcmi_operand dst);
void rcmi_copy_chunk(struct rcmi_builder *b, int lane, uint32_t chunk, struct rcmi_operand src,
                     struct rcmi_operand dst);
/* Sources in operand order; dst and out as in struct rcmi_step (rcmi_nowhere(), RCMI_NO_CHANNEL).
 * The step's op follows from the arguments: RECV_REDUCE, RECV_REDUCE_SEND for a channel and a
 * buffer, else REDUCE_N. */
void rcmi_reduce(struct rcmi_builder *b, int lane, uint32_t chunk, const struct rcmi_operand *srcs,
                 int nsrcs, struct rcmi_operand dst, uint32_t out);
void rcmi_recv_copy_send(struct rcmi_builder *b, int lane, uint32_t chunk, struct rcmi_operand from,
                         struct rcmi_operand dst, uint32_t out);
/* Makes the last step of the lane move a span of n chunks. */
void rcmi_span_of(struct rcmi_builder *b, int lane, uint32_t n);
/* The same for the n listed chunks. The first is the chunk that the step was given. */
void rcmi_span_list(struct rcmi_builder *b, int lane, const struct rcmi_listed *list, uint32_t n);
/* Declares that even in place nothing overwrites what the last step of the lane sends before all
 * readers have read it. */
void rcmi_stable_in_place(struct rcmi_builder *b, int lane);
/* Declares that the last step of the lane makes the whole result, which this rank does not keep. */
void rcmi_completes(struct rcmi_builder *b, int lane);
/* Declares that the last step of the lane sends the answer to what it received from `channel`, or
 * receives the answer to what was sent on it: see struct rcmi_step. */
void rcmi_answers(struct rcmi_builder *b, int lane, uint32_t channel);
void rcmi_signal(struct rcmi_builder *b, int lane, uint32_t out);
void rcmi_wait(struct rcmi_builder *b, int lane, struct rcmi_operand from);
struct rcmi_operand rcmi_nowhere(void);

/* ---- Algorithms ---------------------------------------------------------------------------- */

/* The declared cost of an algorithm; the verifier checks every plan against it. */
struct rcmi_formula {
    uint32_t rounds;      /* longest chain of messages over all ranks with unlimited slots */
    uint64_t chunks_sent; /* by this rank; a multicast counts once; signals count 0 */
};

struct rcmi_tally;

struct rcmi_algorithm {
    const char *name;
    const char *description; /* one sentence: method and best use */
    enum rcm_collective collective;
    bool (*supports)(const struct rcmi_shape *shape);
    /* Its plans are also correct in the order by step, and with unequal blocks a rank moves only
     * blocks of its IN and OUT. The verifier proves both. */
    bool by_step;
    /* It combines contributions in rank order for every shape and root, so operators need not be
     * commutative. The verifier proves it. All scans keep rank order. */
    bool ordered;
    /* For reductions: its plans have spans, so a slot holds one element for each rank, up to
     * RCMI_SPAN_MAX. The verifier proves it. */
    bool spans;
    /* A radix, a window or a number of leaders, if entries that share functions differ only in a
     * number; else 0. */
    uint32_t parameter;
    /* Each callback receives its table entry. */
    rcm_status (*emit)(const struct rcmi_algorithm *row, const struct rcmi_shape *shape, int rank,
                       int root, struct rcmi_plan **ret_plan);
    struct rcmi_formula (*formula)(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                   int rank, int root);
    /* Adds to a tally (cost.h) what all ranks do: messages, copies, sums. It does not depend on the
     * number of bytes, and uses only values that are equal on all ranks. The table entry is
     * tally->row. */
    void (*count)(struct rcmi_tally *tally);
};

/* All algorithms, grouped by collective; NULL-terminated. Defined in table.c. */
extern const struct rcmi_algorithm *const rcmi_algorithms[];

/* Does the algorithm serve the collective? It may also serve others: see rcmi_collective.like. */
bool rcmi_algorithm_does(const struct rcmi_algorithm *algorithm, enum rcm_collective collective);
/* By name. RCM_ERR_INVALID lists the known names; RCM_ERR_UNSUPPORTED if it does not support the
 * shape. */
rcm_status rcmi_algorithm_find(enum rcm_collective collective, const char *name,
                               const struct rcmi_shape *shape,
                               const struct rcmi_algorithm **ret_algorithm);

/* Selection of the cheapest algorithm: counts the work of each algorithm (cost.h) once and prices
 * it (price.h) for a size. One per communicator; not thread-safe. `shape` must outlive it. */
struct rcmi_selection;
rcm_status rcmi_selection_create(const struct rcmi_shape *shape, struct rcmi_selection **ret);
void rcmi_selection_free(struct rcmi_selection *selection);
/* The cheapest algorithm that supports the shape, if the larger buffer of a rank has `bytes`. Ties
 * go to the earlier line of the table. needs: only algorithms that meet all of enum rcmi_needs. The
 * result is equal on all ranks. RCM_ERR_NOMEM. */
rcm_status rcmi_algorithm_select(struct rcmi_selection *selection, enum rcm_collective collective,
                                 size_t bytes, uint32_t needs,
                                 const struct rcmi_algorithm **ret_algorithm);
/* Requirements of an operator and a type: rank order, because the operator does not commute; no
 * spans, because elements are long. */
enum rcmi_needs { RCMI_NEEDS_ORDER = 1, RCMI_NEEDS_NO_SPANS = 2, RCMI_NEEDS_END = 4 };
bool rcmi_algorithm_meets(const struct rcmi_algorithm *algorithm, uint32_t needs);
/* Do slots of `slot_bytes` hold one element of each chunk of a span on n ranks? */
bool rcmi_spans_fit(size_t element_bytes, size_t slot_bytes, int n);
/* Does it keep rank order? rcmi_algorithm_check_order returns RCM_ERR_UNSUPPORTED with an error
 * text if it does not. */
bool rcmi_algorithm_is_ordered(const struct rcmi_algorithm *algorithm);
rcm_status rcmi_algorithm_check_order(const struct rcmi_algorithm *algorithm, const char *op);

/* ---- Plan cache ---------------------------------------------------------------------------- */

/* Plans of one rank of one communicator, by (algorithm, root). Any thread. Plans live as long as
 * the cache. */
struct rcmi_plan_cache;
rcm_status rcmi_plan_cache_create(const struct rcmi_shape *shape, int rank,
                                  struct rcmi_plan_cache **ret_cache);
rcm_status rcmi_plan_cache_get(struct rcmi_plan_cache *cache,
                               const struct rcmi_algorithm *algorithm, int root,
                               const struct rcmi_plan **ret_plan);
void rcmi_plan_cache_free(struct rcmi_plan_cache *cache);

/* ---- Verifier ------------------------------------------------------------------------------ */

/*
 * Takes the plans of all ranks (plans[0..nranks)) and proves, for one slice:
 *   form      every index is in range, each kind of step has its operands, each channel end and
 *             each scratch chunk belongs to one lane, IN is never written
 *   matching  the i-th message a channel's writer sends is the i-th each reader receives, with the
 *             same chunks; nothing is left over; both ends exist
 *   answers   on a channel with answers, the step that receives the i-th message answers it, and
 *             one lane of the sender receives that answer as the i-th
 *   deadlock  the event graph with `slots` slots per channel is acyclic, for one run and for two
 *             consecutive runs on the same channels; a cycle is named. More slots are then also
 *             free of deadlock.
 *   hazards   no two unordered accesses, one of them a write, to a chunk of a rank's buffer,
 *             whatever the number of slots; with in_place the same if IN and OUT are one memory;
 *             the stable flags are correct
 *   result    every chunk of OUT holds each contribution exactly once: of all ranks, of some in
 *             rank order, or of the rank that owns the data. A result of all ranks has an equal
 *             ordered tree hash on all ranks that hold it, and went through one completing step.
 *             Inputs are unmodified if not in place. Barrier: no rank ends before every rank has
 *             begun.
 *   inputs    for reductions: what is read as IN is the rank's unmodified contribution, also in
 *             place; what is read as anything else was read as IN exactly once. An operator that
 *             scales inputs may therefore scale all of IN and nothing else.
 *   lengths   with `counts`: a rank moves only blocks whose length it has; if only the ends of a
 *             message have it, no lengths cause a deadlock in the order by step
 *   formula   rounds and chunks sent equal the algorithm's formula; an ordered algorithm combines
 *             contributions in rank order; spans of a reduction are declared and no longer than
 *             the number of ranks (skipped if formula is NULL)
 *   cost      the counted work equals that of the plans (cost.h; skipped likewise)
 *
 * Returns RCM_OK; RCM_ERR_INTERNAL with the thread's error text naming what and where;
 * RCM_ERR_NOMEM.
 */
struct rcmi_verify_options {
    uint32_t slots; /* 0: each plan's declared minimum */
    bool in_place;
    enum rcmi_counts counts; /* see lengths */
    const struct rcmi_algorithm *formula;
};
rcm_status rcmi_verify(const struct rcmi_shape *shape, const struct rcmi_plan *const *plans,
                       const struct rcmi_verify_options *options);

#endif
