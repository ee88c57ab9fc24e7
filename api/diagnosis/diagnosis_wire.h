/* SPDX-License-Identifier: BSD-3-Clause */
/* The control messages of diagnosis/: which rank waits for which, and what was called. */
#ifndef RCMI_DIAGNOSIS_WIRE_H
#define RCMI_DIAGNOSIS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "activity.h"

/* A question (inquiry.c), or the answer to it. */
enum rcmi_inquiry_state {
    RCMI_INQUIRY_QUESTION,
    RCMI_INQUIRY_BUSY,  /* moving, or about to look: ask again */
    RCMI_INQUIRY_WAITS, /* for peers */
    RCMI_INQUIRY_IDLE,  /* in no operation */
};
/* The reason of an inquiry. */
enum rcmi_inquiry_reason { RCMI_INQUIRY_LATE, RCMI_INQUIRY_WARNING };
#define RCMI_INQUIRY_PEERS 16
struct rcmi_inquiry {
    uint32_t magic;  /* RCMI_INQUIRY_MAGIC */
    uint32_t number; /* of the asker's inquiry */
    uint64_t epoch;  /* of the communicator */
    uint32_t state;
    uint32_t reason;  /* enum rcmi_inquiry_reason, of the asker or of the next line */
    uint32_t reports; /* 1: the sender is about to write a report for that reason */
    uint32_t npeers;
    int32_t peers[RCMI_INQUIRY_PEERS]; /* ranks the sender waits for, not checked by decode */
    struct rcmi_activity activity;     /* of an answer; neither */
};
#define RCMI_INQUIRY_MAGIC 0x52434d51u
/* False if the bytes are no such message. npeers is valid. */
bool rcmi_inquiry_decode(const void *bytes, size_t len, struct rcmi_inquiry *ret_inquiry);

/* What a collective is called as, where it is not by its own name. */
enum rcmi_form {
    RCMI_FORM_PLAIN,
    RCMI_FORM_PARTING,   /* the barrier of rcm_destroy */
    RCMI_FORM_MONITORED, /* rcm_monitored_barrier; for all missing ranks, or the first */
    RCMI_FORM_MONITORED_FIRST,
    RCMI_FORM_BYTES, /* the lengths of its form with _bytes */
};
static inline bool rcmi_form_is_monitored(uint32_t form) {
    return form == RCMI_FORM_MONITORED || form == RCMI_FORM_MONITORED_FIRST;
}

#define RCMI_CALL_COUNTS 16
/* What a rank called as its operation number `sequence`, for comparison (call_log.c). */
struct rcmi_call_record {
    uint32_t magic;  /* RCMI_CALL_RECORD_MAGIC */
    uint16_t form;   /* enum rcmi_form */
    uint16_t memory; /* enum rcmi_mem_kind, of its buffers */
    uint64_t epoch;  /* of the communicator */
    uint64_t sequence, meta, count;
    int32_t collective, dtype, op, root; /* op: of one that was created, its kind (operator.h); its
                                            number where that is not known any more */
    char algorithm[24];
    char op_name[RCM_OP_NAME_MAX]; /* of an operator that was created, else "" */
    uint32_t op_flags;             /* of that */
    uint32_t ncounts;              /* of unequal blocks that all ranks know: so many of counts */
    uint64_t counts[RCMI_CALL_COUNTS]; /* of the first blocks */
    uint64_t counts_hash;              /* of all of them */
};
#define RCMI_CALL_RECORD_MAGIC 0x52434d52u

/* False if the bytes are no such message. The algorithm and the operator's name are terminated and
 * can be shown; sequence is not 0; ncounts, form and memory are valid. */
bool rcmi_call_record_decode(const void *bytes, size_t len, struct rcmi_call_record *ret_record);

#endif
