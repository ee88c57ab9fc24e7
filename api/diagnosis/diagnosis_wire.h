/* SPDX-License-Identifier: BSD-3-Clause */
/* The control messages of diagnosis/: inquiries and call records. */
#ifndef RCMI_DIAGNOSIS_WIRE_H
#define RCMI_DIAGNOSIS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "activity.h"

/* A question (inquiry.c), or the answer to it. */
enum rcmi_inquiry_state {
    RCMI_INQUIRY_QUESTION,
    RCMI_INQUIRY_BUSY,  /* moving, or about to look: query again */
    RCMI_INQUIRY_WAITS, /* for peers */
    RCMI_INQUIRY_IDLE,  /* in no operation */
};
/* The reason of an inquiry. */
enum rcmi_inquiry_reason { RCMI_INQUIRY_LATE, RCMI_INQUIRY_WARNING };
#define RCMI_INQUIRY_PEERS 16
struct rcmi_inquiry {
    uint32_t magic;  /* RCMI_INQUIRY_MAGIC */
    uint32_t number; /* of the inquiry, on the rank that inquires */
    uint64_t epoch;  /* of the communicator */
    uint32_t state;
    uint32_t reason;  /* enum rcmi_inquiry_reason, of the question or of reports */
    uint32_t reports; /* 1: the sender is about to write a report for that reason */
    uint32_t npeers;
    int32_t peers[RCMI_INQUIRY_PEERS]; /* ranks that the sender waits for, not checked by decode */
    struct rcmi_activity activity;     /* of an answer; not checked either */
};
#define RCMI_INQUIRY_MAGIC 0x52434d51u
/* False: the bytes are no such message. Otherwise npeers is valid. */
bool rcmi_inquiry_decode(const void *bytes, size_t len, struct rcmi_inquiry *ret_inquiry);

/* The form of a call that is not a plain collective. */
enum rcmi_form {
    RCMI_FORM_PLAIN,
    RCMI_FORM_PARTING,   /* the barrier of rcm_destroy */
    RCMI_FORM_MONITORED, /* rcm_monitored_barrier, for all missing ranks or the first */
    RCMI_FORM_MONITORED_FIRST,
    RCMI_FORM_BYTES, /* the lengths of a collective with _bytes */
    RCMI_FORM_ASYNC, /* with RCM_MATCH_ASYNC */
    RCMI_FORMS
};
static inline bool rcmi_form_is_monitored(uint32_t form) {
    return form == RCMI_FORM_MONITORED || form == RCMI_FORM_MONITORED_FIRST;
}

#define RCMI_CALL_COUNTS 16
/* A rank's call of operation number `sequence`, for comparison (call_log.c). */
struct rcmi_call_record {
    uint32_t magic;  /* RCMI_CALL_RECORD_MAGIC */
    uint16_t form;   /* enum rcmi_form */
    uint16_t memory; /* enum rcmi_mem_kind, of its buffers */
    uint64_t epoch;  /* of the communicator */
    uint64_t sequence, meta, count;
    int32_t collective, dtype, op, root; /* of a created op its kind (operator.h); its
                                            number if it was freed */
    char algorithm[24];
    char op_name[RCM_OP_NAME_MAX];     /* of a created operator, else "" */
    uint32_t op_flags;                 /* of that operator */
    uint32_t ncounts;                  /* number of counts, if all ranks have them, else 0 */
    uint64_t counts[RCMI_CALL_COUNTS]; /* of the first blocks */
    uint64_t counts_hash;              /* of all blocks */
};
#define RCMI_CALL_RECORD_MAGIC 0x52434d52u

/* False: the bytes are no such message. Otherwise the algorithm and the operator's name are
 * terminated and printable; sequence is not 0; ncounts, form and memory are valid. */
bool rcmi_call_record_decode(const void *bytes, size_t len, struct rcmi_call_record *ret_record);

#endif
