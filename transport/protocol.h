/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which way data goes, by size: constants from one table by CPU family (protocol.c), which
 * RINGCOMM_TUNING (a file) and RINGCOMM_PROTOCOL override. Rank 0's are those of the whole job,
 * agreed when it starts, and nothing changes them afterwards. They are read by the rooms that
 * choose: the executor and point-to-point (eager or rendezvous, slots or get), and the transports
 * (how a slot is written).
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

/* Sizes in bytes, both ends included; none if from > to. */
struct rcmi_range {
    size_t from, to;
};
static inline bool rcmi_range_has(struct rcmi_range range, size_t bytes) {
    return bytes >= range.from && bytes <= range.to;
}

/* Name, what it is for. All are about ranks of one host. */
#define RCMI_PROTOCOL_MAP(X)                                                                       \
    X(eager,                                                                                       \
      "messages that go by shared slots without a rendezvous, unless the receiver gets them")      \
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

/* Where each rank of a host has a CPU of its own, and where they share CPUs. */
enum rcmi_sharing { RCMI_ROOMY, RCMI_OVERSUBSCRIBED, RCMI_SHARINGS };
struct rcmi_protocols {
    struct rcmi_protocol of[RCMI_SHARINGS];
};

/* The built-in row of a family. */
const struct rcmi_protocols *rcmi_protocols_of(enum rcmi_cpu cpu);

/* FROM-TO, FROM-, "always" or "never"; sizes take K, M, G. */
bool rcmi_range_read(const char *text, size_t len, struct rcmi_range *ret_range);

/*
 * Changes what a text says (assignments.h): NAME=RANGE. NAME is one of the map's, for both states
 * of sharing, or NAME.roomy or NAME.oversubscribed for one. RCM_ERR_CONFIG names origin and the
 * item that is wrong.
 */
rcm_status rcmi_protocols_read(const char *text, const char *origin,
                               struct rcmi_protocols *protocols);
/* One item; RCM_ERR_NOT_FOUND, without a text, if it is of something else. */
rcm_status rcmi_protocols_take(const struct rcmi_item *item, const char *origin,
                               struct rcmi_protocols *protocols);
/* RCM_ERR_CONFIG with the sentence for an item that is of nothing. */
rcm_status rcmi_item_unknown(const struct rcmi_item *item, const char *origin);
/* The same as text that can be read again. */
#define RCMI_PROTOCOL_NAME              48
#define RCMI_RANGE_TEXT                 48
#define RCMI_PROTOCOL_COUNT(name, help) +1
#define RCMI_PROTOCOLS_TEXT                                                                        \
    (RCMI_SHARINGS * (0 RCMI_PROTOCOL_MAP(RCMI_PROTOCOL_COUNT)) *                                  \
     (RCMI_PROTOCOL_NAME + RCMI_RANGE_TEXT))
void rcmi_protocols_write(const struct rcmi_protocols *protocols, char text[RCMI_PROTOCOLS_TEXT]);
/* The same of one state of sharing, without its name: "eager=0-32K get=never ...". */
void rcmi_protocol_write(const struct rcmi_protocol *protocol, char text[RCMI_PROTOCOLS_TEXT]);

/* The file of RINGCOMM_TUNING, "" if there is none. It has items of other rooms too. Caller
 * frees. */
rcm_status rcmi_tuning_text(char **ret_text);
/* Those of this process: its CPU's row, then RINGCOMM_TUNING, then RINGCOMM_PROTOCOL. What the file
 * has of other rooms is left out. */
rcm_status rcmi_protocols_local(struct rcmi_protocols *ret_protocols);
/* No rank may get from another: large messages go by slots. */
void rcmi_protocols_forbid_get(struct rcmi_protocols *protocols);

/* One constant of this process, in words. */
struct rcmi_protocol_item {
    char name[RCMI_PROTOCOL_NAME]; /* "get.roomy" */
    char value[RCMI_RANGE_TEXT], built_in[RCMI_RANGE_TEXT];
    char origin[64]; /* the variable that says it, or "built in for Intel" */
    const char *help;
};
#define RCMI_PROTOCOL_ITEMS (RCMI_SHARINGS * (0 RCMI_PROTOCOL_MAP(RCMI_PROTOCOL_COUNT)))
/* The i-th of rcmi_protocols_local; RCM_ERR_NOT_FOUND past the last. */
rcm_status rcmi_protocols_item(size_t i, struct rcmi_protocol_item *ret_item);

#endif
