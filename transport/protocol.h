/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protocol thresholds: which protocol a message uses, by its size. The built-in constants depend on
 * the CPU family (protocol.c); RINGCOMM_TUNING (a file) and RINGCOMM_PROTOCOL override them. The
 * thresholds of rank 0 apply to the whole job. They are agreed at start and never change
 * afterwards. Users: the executor and point-to-point (eager or rendezvous, slots or get), and the
 * transports (how a slot is written).
 *
 * Not here: which algorithm is run (algorithms/select/select.c).
 */
#ifndef RCMI_PROTOCOL_H
#define RCMI_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include "cpu.h"
#include "assignments.h"
#include "ringcomm.h"

/* Sizes in bytes, both bounds included; empty if from > to. */
struct rcmi_range {
    size_t from, to;
};
static inline bool rcmi_range_has(struct rcmi_range range, size_t bytes) {
    return bytes >= range.from && bytes <= range.to;
}

/* Name, purpose. All apply to ranks of one host. */
#define RCMI_PROTOCOL_MAP(X)                                                                       \
    X(eager,                                                                                       \
      "messages sent through shared slots without a rendezvous, unless the receiver gets them")    \
    X(eager_near, "the same, between ranks that share a last-level cache")                         \
    X(get, "messages, and vectors of collectives that only copy, that the receiver copies out of " \
           "the sender's memory (process_vm_readv)")                                               \
    X(slot_non_temporal, "pieces that are written to shared slots by non-temporal stores")         \
    X(sum_non_temporal, "results of reductions that are written by non-temporal stores")           \
    X(copy_non_temporal, "results of other operations that are written by non-temporal stores")    \
    X(copy_vectors, "results that are copied by vectors where copies use the string instruction")

struct rcmi_protocol {
#define RCMI_PROTOCOL_FIELD(name, help) struct rcmi_range name;
    RCMI_PROTOCOL_MAP(RCMI_PROTOCOL_FIELD)
#undef RCMI_PROTOCOL_FIELD
};

/* ROOMY: each rank of a host has its own CPU. OVERSUBSCRIBED: ranks share CPUs. */
enum rcmi_sharing { RCMI_ROOMY, RCMI_OVERSUBSCRIBED, RCMI_SHARINGS };
struct rcmi_protocols {
    struct rcmi_protocol of[RCMI_SHARINGS];
};

/* The built-in thresholds of a CPU family. */
const struct rcmi_protocols *rcmi_protocols_of(enum rcmi_cpu cpu);

/* Parses FROM-TO, FROM-, "always" or "never"; sizes accept K, M, G. */
bool rcmi_range_read(const char *text, size_t len, struct rcmi_range *ret_range);

/*
 * Applies a text of items (assignments.h): NAME=RANGE. NAME is a name of the map, which sets both
 * states of sharing, or NAME.roomy or NAME.oversubscribed for one state. The text of RCM_ERR_CONFIG
 * contains origin and the invalid item.
 */
rcm_status rcmi_protocols_read(const char *text, const char *origin,
                               struct rcmi_protocols *protocols);
/* Applies one item; RCM_ERR_NOT_FOUND, without a text, if it is not a protocol item. */
rcm_status rcmi_protocols_take(const struct rcmi_item *item, const char *origin,
                               struct rcmi_protocols *protocols);
/* Sets RCM_ERR_CONFIG, with a sentence, for an item that no module accepts. */
rcm_status rcmi_item_unknown(const struct rcmi_item *item, const char *origin);
/* Writes all thresholds as text that rcmi_protocols_read accepts. */
#define RCMI_PROTOCOL_NAME              48
#define RCMI_RANGE_TEXT                 48
#define RCMI_PROTOCOL_COUNT(name, help) +1
#define RCMI_PROTOCOLS_TEXT                                                                        \
    (RCMI_SHARINGS * (0 RCMI_PROTOCOL_MAP(RCMI_PROTOCOL_COUNT)) *                                  \
     (RCMI_PROTOCOL_NAME + RCMI_RANGE_TEXT))
void rcmi_protocols_write(const struct rcmi_protocols *protocols, char text[RCMI_PROTOCOLS_TEXT]);
/* The same for one state of sharing, without its name: "eager=0-32K get=never ...". */
void rcmi_protocol_write(const struct rcmi_protocol *protocol, char text[RCMI_PROTOCOLS_TEXT]);

/* The text of the file of RINGCOMM_TUNING, "" if there is none. It also contains items of other
 * modules. The caller frees it. */
rcm_status rcmi_tuning_text(char **ret_text);
/* The thresholds of this process: built in for its CPU, then RINGCOMM_TUNING, then
 * RINGCOMM_PROTOCOL. Items of other modules in the file are ignored. */
rcm_status rcmi_protocols_local(struct rcmi_protocols *ret_protocols);
/* Disables get for all ranks: large messages use slots. */
void rcmi_protocols_forbid_get(struct rcmi_protocols *protocols);

/* One threshold of this process, as text. */
struct rcmi_protocol_item {
    char name[RCMI_PROTOCOL_NAME]; /* "get.roomy" */
    char value[RCMI_RANGE_TEXT], built_in[RCMI_RANGE_TEXT];
    char origin[64]; /* the variable that sets it, or "built in for Intel" */
    const char *help;
};
#define RCMI_PROTOCOL_ITEMS (RCMI_SHARINGS * (0 RCMI_PROTOCOL_MAP(RCMI_PROTOCOL_COUNT)))
/* The i-th threshold of rcmi_protocols_local; RCM_ERR_NOT_FOUND after the last. */
rcm_status rcmi_protocols_item(size_t i, struct rcmi_protocol_item *ret_item);

#endif
