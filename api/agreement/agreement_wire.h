/* SPDX-License-Identifier: BSD-3-Clause */
/* The control messages of agreement/: that a communicator failed and why, which ranks are left, and
 * that one is made. */
#ifndef RCMI_AGREEMENT_WIRE_H
#define RCMI_AGREEMENT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "rank_set.h"
#include "ringcomm.h"

/* That a communicator has failed; or, before it does by a timeout or a mismatch, the vote on why
 * (cause.c). */
enum rcmi_failure_kind {
    RCMI_FAILURE_RECORD,
    RCMI_FAILURE_PROPOSAL, /* a finding, for the receiver to put to the vote */
    RCMI_FAILURE_PREPARE,  /* whether the receiver promises `ballot` */
    RCMI_FAILURE_ACCEPT,   /* that it be accepted in `ballot` */
    RCMI_FAILURE_PROMISE,  /* the answer to both: the highest ballot promised */
};
enum rcmi_proposal_weight {
    RCMI_PROPOSAL_NONE,
    RCMI_PROPOSAL_LATE,
    RCMI_PROPOSAL_ASKED_ALL,
    RCMI_PROPOSAL_SEEN, /* that a process is stopped: not seen from another machine */
    RCMI_PROPOSAL_MISMATCH,
};
/* Only the first rcmi_failure_bytes travel. */
struct rcmi_failure {
    uint32_t magic; /* RCMI_FAILURE_MAGIC */
    int32_t status, origin, sys_errno;
    uint32_t kind;   /* enum rcmi_failure_kind; of a record weight, ballot, accepted are 0 */
    uint32_t weight; /* enum rcmi_proposal_weight; NONE: no cause is given */
    uint64_t epoch;  /* of the communicator */
    uint64_t ballot;
    uint64_t accepted; /* in which the sender has accepted this cause; 0: it found it */
    uint64_t sequence;
    char operation[32];
    char text[512];
    struct rcmi_rank_set missing; /* of a timeout of a monitored barrier: from which ranks */
};
#define RCMI_BALLOT_MAX    (UINT64_C(1) << 62) /* so that there is always a next one */
#define RCMI_FAILURE_MAGIC 0x52434d46u

/* A record. missing may be NULL. */
void rcmi_failure_encode(uint64_t epoch, const struct rcm_error *error,
                         const struct rcmi_rank_set *missing, struct rcmi_failure *ret_failure);
size_t rcmi_failure_bytes(const struct rcmi_failure *failure);
/* False if the bytes are no such message. Strings are terminated and can be shown, the
 * status is one of enum rcm_status; kind, weight, ballot and accepted fit together; a set is of a
 * timeout, and has no bits beyond its ranks. */
bool rcmi_failure_decode(const void *bytes, size_t len, struct rcmi_failure *ret_failure,
                         struct rcm_error *ret_error);

/* Which ranks are left (survivors.c). Only the first rcmi_agree_bytes travel: of `sets` the one
 * that the kind says, and behind it what the sender excludes (rcmi_agree_excluded). */
enum rcmi_agree_kind {
    RCMI_AGREE_CALL = 1, /* a coordinator waits for the receiver */
    RCMI_AGREE_JOIN,     /* set: ranks that are gone for the sender */
    RCMI_AGREE_LEAVE,    /* the sender has given up waiting */
    RCMI_AGREE_DECISION, /* set: the members, if status is RCM_OK; of RCM_ERR_MISMATCH, what the
                            origin excludes */
    RCMI_AGREE_CANCEL,   /* the sender's call was canceled */
};
#define RCMI_AGREE_SETS_BYTES 4048
#define RCMI_AGREE_SET_BYTES  (RCMI_AGREE_SETS_BYTES / 2)
#define RCMI_AGREE_RANKS_MAX  (RCMI_AGREE_SET_BYTES * 8)
struct rcmi_agree {
    uint32_t magic;  /* RCMI_AGREE_MAGIC */
    uint32_t number; /* of the communicator's agreements, from 1 */
    uint32_t kind;
    int32_t status;  /* of a decision, else 0 */
    int32_t origin;  /* world rank that caused the status, -1 */
    uint32_t nranks; /* of the world: bits in set, from the lowest of the first byte */
    uint64_t epoch;  /* of the communicator that is shrunk */
    int64_t left_ms; /* of a JOIN: how long the sender will wait; -1 for ever */
    int32_t by;      /* of a DECISION: the world rank of the coordinator, else -1 */
    uint32_t reserved;
    uint8_t set[RCMI_AGREE_SETS_BYTES];
};
static inline uint8_t *rcmi_agree_excluded(struct rcmi_agree *agree) {
    return agree->set + (agree->nranks + 7) / 8;
}
#define RCMI_AGREE_MAGIC 0x52434d41u
/* Bytes of a message of a world of nranks. */
size_t rcmi_agree_bytes(uint32_t nranks);
/* False if the bytes are no such message. nranks, origin, kind and status are valid; bits of set
 * beyond nranks are 0. */
bool rcmi_agree_decode(const void *bytes, size_t len, struct rcmi_agree *ret_agree);

/* The sender has left a communicator, and takes no part in its operations any more. */
struct rcmi_left {
    uint32_t magic;    /* RCMI_LEFT_MAGIC */
    uint32_t reserved; /* 0 */
    uint64_t epoch;    /* of the communicator; RCMI_LEFT_STORE: the store, which is out of reach */
};
#define RCMI_LEFT_MAGIC 0x52434d4cu
#define RCMI_LEFT_STORE UINT64_MAX
bool rcmi_left_decode(const void *bytes, size_t len, struct rcmi_left *ret_left);

/* A communicator of some ranks of another one is made (creation.c). */
enum rcmi_creation_type {
    RCMI_CREATION_HELLO = 1, /* a member waits for its leader */
    RCMI_CREATION_QUIT,      /* ... and has given up */
    RCMI_CREATION_GO,        /* all have come: here is the epoch */
    RCMI_CREATION_FAIL,      /* they have not: status, origin, text */
    RCMI_CREATION_ASK,       /* what the receiver waits for */
    RCMI_CREATION_ANSWER,    /* text, if it is in a creation */
    RCMI_CREATION_CANCEL,    /* a member's call was canceled: origin, text */
};
/* Which function was called; each has tags of its own. */
enum rcmi_creation_kind {
    RCMI_CREATION_SUBSET,
    RCMI_CREATION_SPLIT,
    RCMI_CREATION_SPLIT_HOSTS,
    RCMI_CREATION_DUPLICATE,
    RCMI_CREATION_KINDS
};
enum rcmi_creation_state {
    RCMI_CREATION_NONE,   /* it is in no creation */
    RCMI_CREATION_OTHER,  /* of another tag or kind than was asked for */
    RCMI_CREATION_DIFFERS /* of this tag and kind, and of other ranks */
};
struct rcmi_creation {
    uint32_t magic;     /* RCMI_CREATION_MAGIC */
    uint32_t type;      /* enum rcmi_creation_type */
    uint64_t parent;    /* epoch */
    uint64_t tag, hash; /* hash: of the ranks in their order */
    uint32_t kind, n;   /* n: ranks */
    /* Of the call of the member, by that member; of ASK and ANSWER the asker's; of FAIL for another
     * list than the sender's, the receiver's. */
    uint64_t number;
    uint64_t own_number; /* of ANSWER: of the sender's call; else 0 */
    uint64_t epoch;      /* of GO, else 0 */
    int64_t left_ms;     /* of HELLO: how long the sender will wait; -1 for ever */
    int32_t status;      /* of FAIL, else 0 */
    int32_t origin;      /* of FAIL and CANCEL: rank of the parent, -1 */
    uint32_t state;      /* of ANSWER: enum rcmi_creation_state; else 0 */
    uint32_t reserved;   /* 0 */
    char text[480];
};
#define RCMI_CREATION_MAGIC 0x52434d4eu
/* False if the bytes are no such message. The text is terminated and can be shown; type, kind,
 * state, status, epoch and left_ms are valid and fit together; origin is any number. */
bool rcmi_creation_decode(const void *bytes, size_t len, struct rcmi_creation *ret_creation);

#endif
