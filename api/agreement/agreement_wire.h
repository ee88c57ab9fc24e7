/* SPDX-License-Identifier: BSD-3-Clause */
/* The control messages of agreement/: the failure of a communicator and its cause, the survivors,
 * and the creation of a communicator. */
#ifndef RCMI_AGREEMENT_WIRE_H
#define RCMI_AGREEMENT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "rank_set.h"
#include "ringcomm.h"

/* A communicator has failed; or the vote on the cause (cause.c) before it fails by a timeout or a
 * mismatch. */
enum rcmi_failure_kind {
    RCMI_FAILURE_RECORD,
    RCMI_FAILURE_PROPOSAL, /* a finding, to be put to the vote by the receiver */
    RCMI_FAILURE_PREPARE,  /* requests a promise of `ballot` */
    RCMI_FAILURE_ACCEPT,   /* requests acceptance in `ballot` */
    RCMI_FAILURE_PROMISE,  /* the answer to both: the highest ballot promised */
};
enum rcmi_proposal_weight {
    RCMI_PROPOSAL_NONE,
    RCMI_PROPOSAL_LATE,
    RCMI_PROPOSAL_QUERIED_ALL,
    RCMI_PROPOSAL_SEEN, /* a stopped process: not detected from another machine */
    RCMI_PROPOSAL_MISMATCH,
};
/* Only the first rcmi_failure_bytes are sent. */
struct rcmi_failure {
    uint32_t magic; /* RCMI_FAILURE_MAGIC */
    int32_t status, origin, sys_errno;
    uint32_t kind;   /* enum rcmi_failure_kind; in a record weight, ballot, accepted are 0 */
    uint32_t weight; /* enum rcmi_proposal_weight; NONE: without a cause */
    uint64_t epoch;  /* of the communicator */
    uint64_t ballot;
    uint64_t accepted; /* ballot in which the sender accepted this cause; 0: the sender found it */
    uint64_t sequence;
    char operation[32];
    char text[512];
    struct rcmi_rank_set missing; /* of a monitored barrier's timeout: the missing ranks */
};
#define RCMI_BALLOT_MAX    (UINT64_C(1) << 62) /* so that there is always a next ballot */
#define RCMI_FAILURE_MAGIC 0x52434d46u

/* Makes a record. missing may be NULL. */
void rcmi_failure_encode(uint64_t epoch, const struct rcm_error *error,
                         const struct rcmi_rank_set *missing, struct rcmi_failure *ret_failure);
size_t rcmi_failure_bytes(const struct rcmi_failure *failure);
/* False: the bytes are no such message. Otherwise strings are terminated and printable, and the
 * status is one of enum rcm_status. kind, weight, ballot and accepted are consistent. A set belongs
 * to a timeout, and has no bits beyond its ranks. */
bool rcmi_failure_decode(const void *bytes, size_t len, struct rcmi_failure *ret_failure,
                         struct rcm_error *ret_error);

/* The survivors (survivors.c). Only the first rcmi_agree_bytes are sent: the set of the kind,
 * followed by the ranks that the sender excludes (rcmi_agree_excluded). */
enum rcmi_agree_kind {
    RCMI_AGREE_CALL = 1, /* the coordinator waits for the receiver */
    RCMI_AGREE_JOIN,     /* set: ranks that the sender has lost */
    RCMI_AGREE_LEAVE,    /* the sender no longer waits */
    RCMI_AGREE_DECISION, /* set: the members, if RCM_OK; if RCM_ERR_MISMATCH, those
                            that origin excludes */
    RCMI_AGREE_CANCEL,   /* the sender's call was canceled */
};
#define RCMI_AGREE_SETS_BYTES 4048
#define RCMI_AGREE_SET_BYTES  (RCMI_AGREE_SETS_BYTES / 2)
#define RCMI_AGREE_RANKS_MAX  (RCMI_AGREE_SET_BYTES * 8)
struct rcmi_agree {
    uint32_t magic;  /* RCMI_AGREE_MAGIC */
    uint32_t number; /* of the communicator's agreements, from 1 */
    uint32_t kind;
    int32_t status;  /* of a DECISION, else 0 */
    int32_t origin;  /* world rank that caused the status, -1 */
    uint32_t nranks; /* of the world: bits in set, lowest bit of the first byte first */
    uint64_t epoch;  /* of the communicator being shrunk */
    int64_t left_ms; /* of a JOIN: the sender's remaining time; -1 for ever */
    int32_t by;      /* of a DECISION: the world rank of the coordinator, else -1 */
    uint32_t reserved;
    uint8_t set[RCMI_AGREE_SETS_BYTES];
};
static inline uint8_t *rcmi_agree_excluded(struct rcmi_agree *agree) {
    return agree->set + (agree->nranks + 7) / 8;
}
#define RCMI_AGREE_MAGIC 0x52434d41u
/* Bytes of a message in a world of nranks. */
size_t rcmi_agree_bytes(uint32_t nranks);
/* False: the bytes are no such message. Otherwise nranks, origin, kind and status are valid, and
 * bits of set beyond nranks are 0. */
bool rcmi_agree_decode(const void *bytes, size_t len, struct rcmi_agree *ret_agree);

/* The sender has left a communicator and takes no further part in its operations. */
struct rcmi_left {
    uint32_t magic;    /* RCMI_LEFT_MAGIC */
    uint32_t reserved; /* 0 */
    uint64_t epoch;    /* of the communicator; RCMI_LEFT_STORE: the sender cannot reach the store */
};
#define RCMI_LEFT_MAGIC 0x52434d4cu
#define RCMI_LEFT_STORE UINT64_MAX
bool rcmi_left_decode(const void *bytes, size_t len, struct rcmi_left *ret_left);

/* A communicator of some ranks of another one is being made (creation.c). */
enum rcmi_creation_type {
    RCMI_CREATION_HELLO = 1, /* a member waits for its leader */
    RCMI_CREATION_QUIT,      /* ... and has given up */
    RCMI_CREATION_GO,        /* all members have called: the epoch */
    RCMI_CREATION_FAIL,      /* the creation failed: status, origin, text */
    RCMI_CREATION_ASK,       /* queries what the receiver waits for */
    RCMI_CREATION_ANSWER,    /* text, if the sender is in a creation */
    RCMI_CREATION_CANCEL,    /* a member's call was canceled: origin, text */
};
/* The function that was called; each has its own tags. */
enum rcmi_creation_kind {
    RCMI_CREATION_SUBSET,
    RCMI_CREATION_SPLIT,
    RCMI_CREATION_SPLIT_HOSTS,
    RCMI_CREATION_DUPLICATE,
    RCMI_CREATION_KINDS
};
enum rcmi_creation_state {
    RCMI_CREATION_NONE,   /* the sender is in no creation */
    RCMI_CREATION_OTHER,  /* its creation has another tag or kind than the query */
    RCMI_CREATION_DIFFERS /* its creation has this tag and kind, but other ranks */
};
struct rcmi_creation {
    uint32_t magic;     /* RCMI_CREATION_MAGIC */
    uint32_t type;      /* enum rcmi_creation_type */
    uint64_t parent;    /* epoch */
    uint64_t tag, hash; /* hash: of the ranks in order */
    uint32_t kind, n;   /* n: ranks */
    /* The number of a member's call on that member: the sender's; in ASK and ANSWER the querying
     * rank's; in a FAIL for another list than the sender's, the receiver's. */
    uint64_t number;
    uint64_t own_number; /* of ANSWER: of the sender's call; else 0 */
    uint64_t epoch;      /* of GO, else 0 */
    int64_t left_ms;     /* of HELLO: the sender's remaining time; -1 for ever */
    int32_t status;      /* of FAIL, else 0 */
    int32_t origin;      /* of FAIL and CANCEL: rank of the parent, -1 */
    uint32_t state;      /* of ANSWER: enum rcmi_creation_state; else 0 */
    uint32_t reserved;   /* 0 */
    char text[480];
};
#define RCMI_CREATION_MAGIC 0x52434d4eu
/* False: the bytes are no such message. Otherwise the text is terminated and printable. type, kind,
 * state, status, epoch and left_ms are valid and consistent; origin is any number. */
bool rcmi_creation_decode(const void *bytes, size_t len, struct rcmi_creation *ret_creation);

#endif
