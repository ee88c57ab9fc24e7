/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cuts chunks into slices. Depends only on values that are equal on all ranks: sizes, settings, the
 * shape, the kind of memory.
 */
#include "exec_internal.h"

/* Bytes of the longest non-opaque element. */
#define SLICE_ELEMENT ((size_t)16)
/* Chunks start on separate cache lines, if slices are long enough. */
#define SLICE_LINE ((size_t)64)
_Static_assert(RCMI_SPAN_MAX *SLICE_ELEMENT <= 1024, "RINGCOMM_SLOT_BYTES may be 1024");

/* Enough slices for overlap, but none so small that its messages cost more than its bytes. */
struct slice_rule {
    size_t most, least; /* bytes of a slice */
    uint32_t enough;    /* slices are not halved to get more than this */
    uint32_t stripes;
    bool halving; /* slices are `most` halved repeatedly, the last one is shorter; else all slices
                     have one length */
    /* Slices are multiples of `line`, or if that is more than `most`, of `element`. */
    size_t element, line;
};

bool rcmi_exec_gets(const struct rcmi_exec *exec, const struct rcmi_plan *plan,
                    enum rcmi_mem_kind kind, size_t bytes) {
    return kind == RCMI_MEM_HOST && plan->gets != RCMI_GETS_NONE &&
           exec->config.shape->nhosts == 1 &&
           rcmi_range_has(rcmi_node_protocol(exec->config.node)->get, bytes);
}

static size_t exec_get_slice(const struct rcmi_exec *exec, const struct rcmi_plan *plan) {
    const size_t slots = exec->config.slots / plan->min_slots;
    const size_t held = (slots > 0 ? slots : 1) * exec->config.slot_bytes;
    return plan->gets == RCMI_GETS_HELD && held < RCMI_GET_MAX ? held : RCMI_GET_MAX;
}

static struct slice_rule exec_message_rule(const struct rcmi_exec *exec,
                                           const struct rcmi_plan *plan, enum rcmi_mem_kind kind,
                                           bool gets) {
    const size_t slot =
        exec->config.slot_bytes * (kind == RCMI_MEM_DEVICE ? RCMI_DEVICE_SLOT_SCALE : 1);
    const size_t bulk = exec->config.bulk_bytes;
    const bool oversubscribed = exec->config.shape->ranks_per_cpu > 1;
    if (gets) {
        const size_t most = exec_get_slice(exec, plan);
        return (struct slice_rule){
            .most = most, .least = most, .enough = 1, .stripes = 1, .halving = true};
    }
    if (!rcmi_exec_is_spread(exec))
        return (struct slice_rule){.most = plan->halves && oversubscribed ? slot / 2 : slot,
                                   .least = RCMI_SLICE_MIN,
                                   .enough = plan->stripes,
                                   .stripes = plan->stripes,
                                   .halving = true};
    if (plan->whole)
        return (struct slice_rule){.most = bulk, .least = bulk, .enough = 1, .stripes = 1};
    const size_t most = RCMI_NETWORK_SLICE_SLOTS * slot;
    return (struct slice_rule){
        .most = most < bulk ? most : bulk,
        .least = exec->config.shape->loopback ? RCMI_LOOPBACK_SLICE_MIN : RCMI_NETWORK_SLICE_MIN,
        .enough = RCMI_NETWORK_SLICES,
        .stripes = plan->stripes < RCMI_NETWORK_STRIPES ? plan->stripes : RCMI_NETWORK_STRIPES,
    };
}

/* Only reduced elements must not be cut: others are bytes. */
static void rule_set_element(struct slice_rule *rule, const struct rcmi_plan *plan,
                             size_t element_bytes) {
    const bool reduces = rcmi_collective_at((int)plan->collective)->reduces;
    const size_t element = reduces ? element_bytes : 1;
    const size_t low_bit = element & (0 - element);
    rule->element = SLICE_ELEMENT % element == 0 ? SLICE_ELEMENT : element;
    rule->line = low_bit < SLICE_LINE ? SLICE_LINE / low_bit * element : element;
}

/* A message has a slice of each chunk of a span: at least one element, which a slot can hold
 * (rcmi_spans_fit). Half of the smallest slot may not hold it, so lower limits are raised to an
 * element. */
static struct slice_rule exec_slice_rule(const struct rcmi_exec *exec, const struct rcmi_plan *plan,
                                         enum rcmi_mem_kind kind, bool gets, size_t element_bytes) {
    struct slice_rule rule = exec_message_rule(exec, plan, kind, gets);
    rule_set_element(&rule, plan, element_bytes);
    rule.most /= plan->longest_span;
    rule.most = rule.most > rule.element ? rule.most : rule.element;
    rule.least /= plan->longest_span;
    rule.least = rule.least > rule.element ? rule.least : rule.element;
    return rule;
}

/* The longest slice of at most `bytes`. */
static size_t slice_round(const struct slice_rule *rule, size_t bytes) {
    return bytes - bytes % (bytes < rule->line ? rule->element : rule->line);
}

static size_t slice_halved(const struct slice_rule *rule, size_t longest) {
    size_t bytes = rule->most;
    while (bytes / 2 >= rule->least && longest / bytes < rule->enough)
        bytes /= 2;
    return slice_round(rule, bytes);
}

/* The shortest slice length that gives n slices. */
static size_t slice_of(size_t longest, size_t n, size_t unit) {
    const size_t bytes = longest / n + (longest % n != 0);
    return (bytes + unit - 1) / unit * unit;
}

/* As many slices as `least` and `enough` allow, or more of at most `most` bytes; starts are aligned
 * like the vector. */
static size_t slice_even(const struct slice_rule *rule, size_t longest) {
    const size_t most = slice_round(rule, rule->most);
    const size_t unit = most < rule->line ? rule->element : rule->line;
    size_t n = longest / rule->least;
    n = n < rule->enough ? n : rule->enough;
    n = n > 0 ? n : 1;
    const size_t bytes = slice_of(longest, n, unit);
    if (bytes <= most)
        return bytes > 0 ? bytes : unit;
    n = longest / most + (longest % most != 0);
    return slice_of(longest, n, unit);
}

struct rcmi_slicing rcmi_exec_slicing(const struct rcmi_exec *exec, const struct rcmi_plan *plan,
                                      enum rcmi_mem_kind kind, size_t count, size_t element_bytes) {
    const size_t longest = rcmi_chunk_max(count, element_bytes, plan->parts) * element_bytes;
    const bool gets = rcmi_exec_gets(exec, plan, kind, count * element_bytes);
    const struct slice_rule rule = exec_slice_rule(exec, plan, kind, gets, element_bytes);
    struct rcmi_slicing slicing = {.n = 1, .stripes = 1};
    slicing.bytes = rule.halving ? slice_halved(&rule, longest) : slice_even(&rule, longest);
    if (longest)
        slicing.n = (longest + slicing.bytes - 1) / slicing.bytes;
    if (slicing.n > 1)
        slicing.stripes = slicing.n < rule.stripes ? (uint32_t)slicing.n : rule.stripes;
    else
        slicing.bytes *= plan->longest_span; /* no span is cut */
    return slicing;
}

struct rcmi_slicing rcmi_exec_slicing_by_step(const struct rcmi_exec *exec,
                                              const struct rcmi_plan *plan,
                                              enum rcmi_mem_kind kind) {
    const enum rcmi_mem_kind slots = exec->config.shape->nhosts > 1 ? RCMI_MEM_HOST : kind;
    const struct slice_rule rule = exec_slice_rule(exec, plan, slots, false, 1);
    return (struct rcmi_slicing){.bytes = slice_round(&rule, rule.most), .n = 1, .stripes = 1};
}
