/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * algorithms/: from a call to its steps, and the steps done.
 *
 *      collectives.c  table.c, select/        algorithm files         exec/
 *      what is meant  which algorithm    -->  plan of one rank   -->  bound to buffers, run
 *                                                  |
 *                                                  '-> verify/: plans of all ranks proved right
 *
 * Which algorithm: the one that the call names, or that is named for the size (choice.h); else the
 * cheapest, by its counted work (cost.h) and what work takes on this machine (price.h).
 *
 * Not for: communicators, deadlines and waiting (api/), how a message travels (transport/), how
 * elements are summed (kernels/).
 *
 * A plan is what one rank does for one collective: steps over symbolic chunks, in lanes. It holds
 * no pointer to data, no byte count, no type and no time, so one plan serves every size and type,
 * the executor, the verifier, the pictures of ringcomm-plan, and (later) a simulator or a CUDA
 * stream. Plans are made by the pure functions in the algorithm files and never changed after.
 *
 * Words:
 *   block     what the collective moves or sums as a whole (collectives.h says which there are); IN
 *             is this rank's input, OUT its output, each some of the blocks.
 *   chunk     one of `parts` consecutive parts of a block (rcmi_chunk_range says which). Chunks are
 *             numbered over all blocks of all ranks; operands name those of IN and OUT by their
 *             position in that buffer. Of one block both are the same.
 *   span      consecutive chunks that one step moves as one message, one after the other; after the
 *             last chunk of all blocks comes the first again. The step's buffers begin with the
 *             first of them, and the others lie behind it: after the last position of IN or OUT at
 *             its first ones. Chunks that are not consecutive are a span too, by a list of them:
 *             each lies at its own position of IN or OUT, and in scratch where the list says.
 *   slice     what fits one slot: where a chunk is larger, the executor runs every lane once per
 *             slice: all its steps for slice 0, then all for slice 1, and so on. With several
 *             stripes, slice i belongs to stripe i modulo stripes, and stripes run side by side.
 *             A plan describes one slice. Chunks that have no bytes left in a slice still travel,
 *             with zero bytes. Of a span a message holds the same slice of each chunk; slices are
 *             so short that those of the plan's longest span fit one slot.
 *   order     by slice, as above; or by step, where only the two ends of a message know how long it
 *             is: each step is done for all its slices before the next one begins, in one stripe,
 *             and the last message of a step says that it is.
 *   channel   first in, first out, from one writer to one reader, or to all other ranks of the
 *             writer's host (multicast; needs shared memory). It has slots: the writer fills the
 *             next free slot, each reader looks at the oldest one and releases it; a slot is free
 *             again when every reader released it. `number` tells apart several channels between
 *             the same ranks. Each end of a channel belongs to exactly one lane of its rank's plan.
 *   lane      a sequence of steps, done strictly in order. Lanes of a rank run independently.
 *   operand   where a step finds a source or puts a result: a chunk of IN or OUT, a scratch chunk,
 *             the oldest slot of an incoming channel.
 *
 * A step waits until each channel operand has a slot to read and its outgoing channel a slot to
 * fill, then does its work at once and completely. It reads its sources from left to right, writes
 * the result to dst (if any) and to the slot of channel `out` (if any), publishes that slot, and
 * releases the slots that it read. A step with several sources reduces them strictly in the order
 * given.
 */
#ifndef RCMI_PLAN_H
#define RCMI_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "collectives.h"
#include "ringcomm.h"

/* What all ranks of a communicator agreed on when it was made. */
struct rcmi_prices;
struct rcmi_shape {
    int nranks;
    int nhosts;
    const int *host_of; /* host of each rank, 0..nhosts-1, numbered by first appearance */
    /* For prices. */
    const struct rcmi_prices *prices; /* NULL: built-in ones */
    bool loopback; /* the hosts are one machine, whose ranks do not all share memory: messages
                      between them stay in its kernel */
    double ranks_per_cpu; /* ranks for each processor, on the machine with most; 0 counts as 1 */
};

/* Where a message goes: inside a host, or from one to another. */
enum rcmi_reach { RCMI_WITHIN, RCMI_BETWEEN, RCMI_REACHES };

/* Each with its sources and results. */
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

/* One chunk of a span by list, and how far it lies behind an operand in scratch. */
struct rcmi_listed {
    uint32_t chunk, scratch;
};

#define RCMI_NO_CHANNEL  UINT32_MAX
#define RCMI_NO_LIST     UINT32_MAX
#define RCMI_SOURCES_MAX 16
#define RCMI_SPAN_MAX    64 /* chunks: some bytes of each fit the smallest slot there may be */

struct rcmi_step {
    uint8_t op;    /* enum rcmi_step_op */
    uint8_t nsrcs; /* operands[first_src .. first_src + nsrcs) */
    /* It has sources that are buffers and they keep their value until the plan's end, or until all
     * readers of its message have read them, so a transport may send straight from them: if IN and
     * OUT are different memory, and if they are the same. Never for scratch. Computed by
     * rcmi_plan_finish, which cannot know of readers: those the algorithm tells of. */
    bool stable, stable_in_place;
    /* It writes a chunk of OUT for the last time: what it sends may be sent straight from there.
     * Computed likewise. */
    bool lasting;
    /* It only receives, into a chunk of OUT that no other step of the plan writes, or reads under
     * that name, and is the only reader of its channel: the sender may write there as soon as it
     * has the message. Computed likewise; the verifier proves that every read of the chunk as IN,
     * where both are the same memory, comes before. */
    bool early;
    /* Of a reduction to which all ranks contribute: what it makes is the whole result, and is not
     * added to any more; it comes about in exactly one such step, and is copied from there.
     * Computed likewise: a last write to OUT that is no receipt; of a rank that sends the result on
     * without an OUT of its own the algorithm tells. Never where some ranks contribute only. */
    bool completes;
    uint32_t chunk;   /* the chunk that it moves; ignored by signal and wait */
    uint32_t nchunks; /* or a span of so many, from that one on */
    uint32_t list;    /* the first of as many of plan->listed; RCMI_NO_LIST: consecutive ones */
    uint32_t first_src;
    struct rcmi_operand dst; /* RCMI_NOWHERE if none */
    uint32_t out;            /* index into plan->channels, RCMI_NO_CHANNEL if none */
    /* What it sends is the answer to a message that it receives, from this channel; or what it
     * receives is the answer to a message that this rank sent, to this channel. RCMI_NO_CHANNEL if
     * neither. The answer may then travel in the slot of the message. */
    uint32_t answer;
    /* It sends a message that will be answered: its slot is not used again until a step of this
     * rank has received the answer. Computed by rcmi_plan_finish. */
    bool answered;
};

struct rcmi_plan_channel {
    bool outgoing;   /* this rank writes it; else it reads it */
    bool multicast;  /* one writer, all other ranks of its host read */
    int peer;        /* the other rank; for an outgoing multicast -1 */
    uint16_t number; /* tells apart channels between the same ranks, 0..RCMI_CHANNEL_NUMBERS-1 */
    uint16_t lane;   /* the lane that owns this end */
};
#define RCMI_CHANNEL_NUMBERS 8

/* May messages of a plan be longer than a slot, and be got out of the sender's memory? Every
 * channel has one reader then, and no step sums, forwards, answers, or moves a span. */
enum rcmi_gets {
    RCMI_GETS_NONE = 0,
    /* Up to what the slots of a channel hold together: of a message that comes in parts all have
     * slots at once, so a rank that sends before it receives waits for no more than with one slot
     * for each message. */
    RCMI_GETS_HELD,
    /* As long as a message may be: the root is one end of every channel, and each other rank has
     * one channel, so that no rank waits for one that waits. */
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
    uint32_t nchunks; /* of all blocks, at least 1, even for a barrier */
    uint32_t parts;   /* chunks of a block */
    struct rcmi_blocks in, out;
    uint32_t larger;       /* rcmi_collective_larger */
    uint32_t nscratch;     /* scratch chunks, each as long as a slice; each is used by one lane
                            * only, and the next slice uses its memory again */
    uint32_t longest_span; /* chunks; the same on all ranks */
    uint32_t min_slots;    /* it does not deadlock if every channel has at least so many slots */
    /* So many slices may be under way at once, each stripe of them on channels of its own; the
     * same on all ranks. Stripes share nothing, so what holds for one slice holds for all. */
    uint32_t stripes;
    /* Nothing in it happens at the same time as anything else, so that slices have nothing to
     * overlap with: where a message costs much there had better be one. The same on all ranks. */
    bool whole;
    /* Its slots are many, and better half used where ranks share caches. The same on all ranks. */
    bool halves;
    /* In place, what a step receives may still be to be sent when its sender has it: no step counts
     * as early then. The same on all ranks. */
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

/* Elements [*ret_first, *ret_first + *ret_count) of part i of a block of count elements: the
 * partition rule, the same on all ranks. Boundaries fall on multiples of 64 bytes where the vector
 * is long enough for that. */
void rcmi_chunk_range(size_t count, size_t element_bytes, uint32_t nchunks, uint32_t i,
                      size_t *ret_first, size_t *ret_count);
/* Elements of the longest part. */
size_t rcmi_chunk_max(size_t count, size_t element_bytes, uint32_t nchunks);

/* Chunks of the plan's IN or OUT. */
uint32_t rcmi_plan_chunks(const struct rcmi_plan *plan, enum rcmi_where where);
/* The chunk at a position of IN or OUT. */
uint32_t rcmi_plan_chunk(const struct rcmi_plan *plan, enum rcmi_where where, uint32_t index);
/* Where both are one memory: a number that is equal for the same memory. */
uint32_t rcmi_plan_cell(const struct rcmi_plan *plan, enum rcmi_where where, uint32_t index);

/* n consecutive chunks are a span, or several if they are more than RCMI_SPAN_MAX: how many, and
 * how long the one is that begins with chunk `at` of them. */
uint32_t rcmi_spans(uint32_t n);
uint32_t rcmi_span_length(uint32_t n, uint32_t at);

/* Chunk i of a step's span, and where one of its buffers has it; a position beyond IN or OUT if it
 * is not there. */
uint32_t rcmi_step_chunk(const struct rcmi_plan *plan, const struct rcmi_step *step, uint32_t i);
struct rcmi_operand rcmi_span_operand(const struct rcmi_plan *plan, const struct rcmi_step *step,
                                      struct rcmi_operand first, uint32_t i);
/* Which of a step's sources is IN, of a reduction what the rank contributes: there is one at most.
 * nsrcs: none. */
uint32_t rcmi_step_input(const struct rcmi_plan *plan, const struct rcmi_step *step);
/* Does it copy chunks to where they are, if IN and OUT are one memory? */
bool rcmi_step_stays(const struct rcmi_plan *plan, const struct rcmi_step *step);

/* "recv_reduce_send"; "?" for a number that is none. Static memory. */
const char *rcmi_step_name(uint8_t op);
/* A step in words: "recv_reduce_send chunk 2: from 0 + in.2 -> to 3". Cut at size. */
void rcmi_step_describe(const struct rcmi_plan *plan, uint32_t step, char *text, size_t size);

/* ---- Writing plans ------------------------------------------------------------------------- */

/* parts: chunks of each block.
 *
 * A builder remembers the first failure (out of memory, or RCM_ERR_INTERNAL for a mistake of the
 * emitter such as a chunk that does not exist), ignores what follows, and reports it in
 * rcmi_plan_finish, so that emitters read like the algorithm. Steps of different lanes may be
 * added in any order. */
struct rcmi_builder;
rcm_status rcmi_plan_begin(const char *algorithm, enum rcm_collective collective,
                           const struct rcmi_shape *shape, int rank, int root, uint32_t parts,
                           uint32_t min_slots, struct rcmi_builder **ret_builder);
/* Another number of stripes than RCMI_STRIPES: fewer where a plan has many channels. */
void rcmi_plan_stripes(struct rcmi_builder *builder, uint32_t stripes);
#define RCMI_STRIPES 4
/* The vector had better not be cut: see struct rcmi_plan. */
void rcmi_plan_whole(struct rcmi_builder *builder);
void rcmi_plan_halves(struct rcmi_builder *builder);
void rcmi_plan_late_in_place(struct rcmi_builder *builder);
void rcmi_plan_gets(struct rcmi_builder *builder, enum rcmi_gets gets);
/* No step of any rank moves more than so many chunks, at most RCMI_SPAN_MAX; 1 if this is not
 * said. */
void rcmi_plan_spans(struct rcmi_builder *builder, uint32_t longest);
/* Frees the builder in every case. */
rcm_status rcmi_plan_finish(struct rcmi_builder *builder, struct rcmi_plan **ret_plan);
void rcmi_plan_free(struct rcmi_plan *plan);

struct rcmi_operand rcmi_in(uint32_t position);
struct rcmi_operand rcmi_out(uint32_t position);
struct rcmi_operand rcmi_scratch(uint32_t i);
/* The incoming channel from `peer`; the outgoing one to it; the incoming and outgoing multicast.
 * They exist once per (peer, number), made on first use; using one from a second lane is a
 * mistake. */
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
 * The step's op follows from what is given: RECV_REDUCE, RECV_REDUCE_SEND for a channel and a
 * buffer, else REDUCE_N. */
void rcmi_reduce(struct rcmi_builder *b, int lane, uint32_t chunk, const struct rcmi_operand *srcs,
                 int nsrcs, struct rcmi_operand dst, uint32_t out);
void rcmi_recv_copy_send(struct rcmi_builder *b, int lane, uint32_t chunk, struct rcmi_operand from,
                         struct rcmi_operand dst, uint32_t out);
/* The last step of the lane moves a span of n chunks. */
void rcmi_span_of(struct rcmi_builder *b, int lane, uint32_t n);
/* It moves these n, the first of which it was given. */
void rcmi_span_list(struct rcmi_builder *b, int lane, const struct rcmi_listed *list, uint32_t n);
/* In place too, nothing writes what the last step of the lane sends before all have read it. */
void rcmi_stable_in_place(struct rcmi_builder *b, int lane);
/* What the last step of the lane makes, and this rank does not keep, is the whole result. */
void rcmi_completes(struct rcmi_builder *b, int lane);
/* The last step of the lane sends the answer to what it received from `channel`, or receives the
 * answer to what was sent to it: see struct rcmi_step. */
void rcmi_answers(struct rcmi_builder *b, int lane, uint32_t channel);
void rcmi_signal(struct rcmi_builder *b, int lane, uint32_t out);
void rcmi_wait(struct rcmi_builder *b, int lane, struct rcmi_operand from);
struct rcmi_operand rcmi_nowhere(void);

/* ---- Algorithms ---------------------------------------------------------------------------- */

/* What an algorithm promises; the verifier holds every plan to it. */
struct rcmi_formula {
    uint32_t rounds;      /* longest chain of messages over all ranks, slots unlimited */
    uint64_t chunks_sent; /* by this rank; a multicast counts once; signals count 0 */
};

struct rcmi_tally;

struct rcmi_algorithm {
    const char *name;
    const char *description; /* one sentence: how, for what it is good */
    enum rcm_collective collective;
    bool (*supports)(const struct rcmi_shape *shape);
    /* Its plans are right in the order by step too, and of unequal blocks a rank moves only those
     * of its IN and OUT; the verifier proves both. */
    bool by_step;
    /* What it reduces it combines in the order of ranks, whatever shape and root, so that operands
     * need not be exchangeable; the verifier proves it. (Of scans all plans do.) */
    bool ordered;
    /* Of one that reduces: its plans have spans, so that a slot holds an element for each rank, but
     * no more than RCMI_SPAN_MAX; the verifier proves it. */
    bool spans;
    /* Rows that differ in a number only share their functions: a radix, a window, a number of
     * leaders. 0 where there is none. */
    uint32_t parameter;
    /* Each is given its row. */
    rcm_status (*emit)(const struct rcmi_algorithm *row, const struct rcmi_shape *shape, int rank,
                       int root, struct rcmi_plan **ret_plan);
    struct rcmi_formula (*formula)(const struct rcmi_algorithm *row, const struct rcmi_shape *shape,
                                   int rank, int root);
    /* Tells a tally (cost.h) what all ranks do: messages, copies, sums. It is the same for every
     * number of bytes, and uses nothing but what all ranks know to be equal. The row is tally->row.
     */
    void (*count)(struct rcmi_tally *tally);
};

/* All algorithms, grouped by collective; the array ends with a NULL. A new algorithm is its file
 * and one line there (table.c). */
extern const struct rcmi_algorithm *const rcmi_algorithms[];

/* Is it one of the collective's algorithms? Not only of its own: see rcmi_collective.like. */
bool rcmi_algorithm_does(const struct rcmi_algorithm *algorithm, enum rcm_collective collective);
/* By name: RCM_ERR_INVALID names the known ones, RCM_ERR_UNSUPPORTED if it does not fit shape. */
rcm_status rcmi_algorithm_find(enum rcm_collective collective, const char *name,
                               const struct rcmi_shape *shape,
                               const struct rcmi_algorithm **ret_algorithm);

/* Which is the cheapest: counts the work of each algorithm (cost.h) once, and prices it (price.h)
 * for a size. Of one communicator; not thread-safe. shape outlives it. */
struct rcmi_selection;
rcm_status rcmi_selection_create(const struct rcmi_shape *shape, struct rcmi_selection **ret);
void rcmi_selection_free(struct rcmi_selection *selection);
/* The cheapest that supports the shape where the larger buffer of a rank has `bytes`; ties go to
 * the earlier line of the table. needs: of those that meet all of enum rcmi_needs. Equal on all
 * ranks. RCM_ERR_NOMEM. */
rcm_status rcmi_algorithm_select(struct rcmi_selection *selection, enum rcm_collective collective,
                                 size_t bytes, uint32_t needs,
                                 const struct rcmi_algorithm **ret_algorithm);
/* What an operator and a type need of an algorithm: it keeps the order of ranks, since the operator
 * does not commute; it has no spans, since elements are long. */
enum rcmi_needs { RCMI_NEEDS_ORDER = 1, RCMI_NEEDS_NO_SPANS = 2, RCMI_NEEDS_END = 4 };
bool rcmi_algorithm_meets(const struct rcmi_algorithm *algorithm, uint32_t needs);
/* Do slots of so many bytes have room for an element of each chunk of a span, on n ranks? */
bool rcmi_spans_fit(size_t element_bytes, size_t slot_bytes, int n);
/* Does it keep the order of ranks? RCM_ERR_UNSUPPORTED, with a sentence: op is not commutative, and
 * it does not. */
bool rcmi_algorithm_is_ordered(const struct rcmi_algorithm *algorithm);
rcm_status rcmi_algorithm_check_order(const struct rcmi_algorithm *algorithm, const char *op);

/* ---- Plan cache ---------------------------------------------------------------------------- */

/* Plans of one rank of one communicator, by (algorithm, root). Any thread; plans live as long as
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
 *   answers   of a channel that has any, the i-th message is answered by the step that receives it,
 *             and the answer received as the i-th by one lane of its sender
 *   deadlock  the event graph with `slots` slots per channel is acyclic, for the collective run
 *             once and run twice in a row on the same channels; a cycle is named. More slots are
 *             then right as well.
 *   hazards   no two unordered accesses, one of them a write, to a chunk of a rank's buffer,
 *             whatever the number of slots; with in_place the same where IN and OUT are one
 *             memory; stable flags tell the truth
 *   result    every chunk of OUT holds each contribution exactly once (all ranks', those of some in
 *             rank order, or that of the rank whose data it is), and, if it is of all, its ordered
 *             tree hash is equal on all ranks that have it, and it went through one step that
 *             completes it;
 *             inputs are unharmed if not in place; a barrier: no rank's end precedes any rank's
 *             begin
 *   inputs    of a reduction, what is read as IN is what the rank contributes, untouched, also in
 *             place, and what is read as anything else has been read as IN, once: an operator that
 *             scales inputs may scale all of IN and nothing else
 *   lengths   with `counts`: a rank moves only blocks whose length it knows; where only the ends
 *             of a message know it, no lengths make a deadlock in the order by step
 *   formula   rounds and chunks sent equal the algorithm's formula, and an ordered one combines
 *             contributions in the order of ranks; spans of a reduction are declared, and no
 *             longer than there are ranks (skipped if formula is NULL)
 *   cost      so does the work that it counts (cost.h; likewise)
 * Returns RCM_OK, or RCM_ERR_INTERNAL with the thread's error text saying what and where;
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
