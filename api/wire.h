/* SPDX-License-Identifier: BSD-3-Clause */
/* The control messages of communicators: that one failed, who waits for whom, what was called, who
 * is left. */
#ifndef RCMI_WIRE_H
#define RCMI_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "activity.h"
#include "ringcomm.h"

/* That a communicator has failed; or, before it does by a timeout or a mismatch, the vote on why
 * (claim.c). */
enum rcmi_failure_kind {
    RCMI_FAILURE_RECORD,
    RCMI_FAILURE_CLAIM,   /* a finding, for the receiver to put to the vote */
    RCMI_FAILURE_ASK,     /* whether the receiver gives its word to `ballot` */
    RCMI_FAILURE_PROPOSE, /* that it be accepted in `ballot` */
    RCMI_FAILURE_WORD,    /* the answer to both: it is with `ballot` */
};
enum rcmi_claim_weight {
    RCMI_CLAIM_NONE,
    RCMI_CLAIM,
    RCMI_CLAIM_ASKED_ALL,
    RCMI_CLAIM_SEEN, /* that a process is stopped; who is on another machine cannot see it */
    RCMI_CLAIM_MISMATCH,
};
struct rcmi_failure {
    uint32_t magic; /* RCMI_FAILURE_MAGIC */
    uint32_t epoch; /* of the communicator */
    int32_t status, origin, sys_errno;
    uint32_t kind;     /* enum rcmi_failure_kind; of a record the next three are 0 */
    uint32_t weight;   /* enum rcmi_claim_weight; NONE: nothing is said of why */
    uint32_t reserved; /* 0 */
    uint64_t ballot;
    uint64_t accepted; /* in which the sender has accepted what it says; 0: it found it */
    uint64_t sequence;
    char operation[32];
    char text[512];
};
#define RCMI_BALLOT_MAX    (UINT64_C(1) << 62) /* so that there is always a next one */
#define RCMI_FAILURE_MAGIC 0x52434d46u

/* A record. */
void rcmi_failure_encode(uint32_t epoch, const struct rcm_error *error,
                         struct rcmi_failure *ret_failure);
/* False if the bytes are no such message. Strings are terminated and can be shown, the
 * status is one of ours; kind, weight, ballot and accepted fit together. */
bool rcmi_failure_decode(const void *bytes, size_t len, struct rcmi_failure *ret_failure,
                         struct rcm_error *ret_error);

/* A question (blame.c), or the answer to it. */
enum rcmi_inquiry_state {
    RCMI_INQUIRY_QUESTION,
    RCMI_INQUIRY_BUSY,  /* moving, or about to look: ask again */
    RCMI_INQUIRY_WAITS, /* for peers */
    RCMI_INQUIRY_IDLE,  /* in no operation */
};
/* Why one asks. */
enum rcmi_inquiry_reason { RCMI_INQUIRY_LATE, RCMI_INQUIRY_WARNING };
#define RCMI_INQUIRY_PEERS 16
struct rcmi_inquiry {
    uint32_t magic;  /* RCMI_INQUIRY_MAGIC */
    uint32_t epoch;  /* of the communicator */
    uint32_t number; /* of the asker's inquiry */
    uint32_t state;
    uint32_t reason;  /* enum rcmi_inquiry_reason, of the asker or of the next line */
    uint32_t reports; /* 1: the sender is about to write a report for that reason */
    uint32_t reserved;
    uint32_t npeers;
    int32_t peers[RCMI_INQUIRY_PEERS]; /* ranks the sender waits for, not checked by decode */
    struct rcmi_activity activity;     /* of an answer; neither */
};
#define RCMI_INQUIRY_MAGIC 0x52434d51u
/* False if the bytes are no such message. npeers is valid. */
bool rcmi_inquiry_decode(const void *bytes, size_t len, struct rcmi_inquiry *ret_inquiry);

/* What a rank called as its operation number `sequence`, for comparison (record.c). */
struct rcmi_record {
    uint32_t magic; /* RCMI_RECORD_MAGIC */
    uint32_t epoch; /* of the communicator */
    uint64_t sequence, meta, count;
    int32_t collective, dtype, op, root;
    char algorithm[24];
    uint32_t parting; /* 1: the barrier of rcm_destroy */
    uint32_t reserved;
};
#define RCMI_RECORD_MAGIC 0x52434d52u

/* False if the bytes are no such message. The algorithm is terminated and can be shown; sequence is
 * not 0. */
bool rcmi_record_decode(const void *bytes, size_t len, struct rcmi_record *ret_record);

/* Who is left (agree.c). Only the first rcmi_agree_bytes travel. */
enum rcmi_agree_kind {
    RCMI_AGREE_CALL = 1, /* a coordinator waits for the receiver */
    RCMI_AGREE_JOIN,     /* set: ranks that are gone for the sender */
    RCMI_AGREE_LEAVE,    /* the sender has given up waiting */
    RCMI_AGREE_DECISION, /* set: the members, if status is RCM_OK */
};
#define RCMI_AGREE_SET_BYTES 4056
#define RCMI_AGREE_RANKS_MAX (RCMI_AGREE_SET_BYTES * 8)
struct rcmi_agree {
    uint32_t magic;  /* RCMI_AGREE_MAGIC */
    uint32_t epoch;  /* of the communicator that is shrunk */
    uint32_t number; /* of its agreement, from 1 */
    uint32_t kind;
    int32_t status;  /* of a decision, else 0 */
    int32_t origin;  /* world rank that is to blame for the status, -1 */
    int64_t left_ms; /* of a JOIN: how long the sender will wait; -1 for ever */
    uint32_t nranks; /* of the world: bits in set, from the lowest of the first byte */
    uint32_t reserved;
    uint8_t set[RCMI_AGREE_SET_BYTES];
};
#define RCMI_AGREE_MAGIC 0x52434d41u
/* Bytes of a message of a world of nranks. */
size_t rcmi_agree_bytes(uint32_t nranks);
/* False if the bytes are no such message. nranks, origin, kind and status are valid; bits of set
 * beyond nranks are 0. */
bool rcmi_agree_decode(const void *bytes, size_t len, struct rcmi_agree *ret_agree);

#endif
