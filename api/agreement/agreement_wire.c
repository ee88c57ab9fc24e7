/* SPDX-License-Identifier: BSD-3-Clause */
/* See agreement_wire.h. All ranks run on machines of the same byte order; the handshake rejects
 * others. */
#include "agreement_wire.h"
#include "error.h"
#include <string.h>

_Static_assert(offsetof(struct rcmi_failure, missing) == 600 && sizeof(struct rcmi_failure) == 4096,
               "no padding on the wire");

size_t rcmi_failure_bytes(const struct rcmi_failure *failure) {
    return offsetof(struct rcmi_failure, missing.bits) + (failure->missing.nranks + 7) / 8;
}

void rcmi_failure_encode(uint64_t epoch, const struct rcm_error *error,
                         const struct rcmi_rank_set *missing, struct rcmi_failure *ret_failure) {
    memset(ret_failure, 0, sizeof(*ret_failure));
    ret_failure->magic = RCMI_FAILURE_MAGIC;
    ret_failure->epoch = epoch;
    ret_failure->status = error->status;
    ret_failure->origin = error->origin;
    ret_failure->sys_errno = error->sys_errno;
    ret_failure->sequence = error->sequence;
    memcpy(ret_failure->operation, error->operation, sizeof(ret_failure->operation));
    memcpy(ret_failure->text, error->text, sizeof(ret_failure->text));
    if (missing)
        ret_failure->missing = *missing;
}

static bool status_is_error(int32_t status) {
    return status < 0 && strcmp(rcm_status_name((rcm_status)status), "RCM_?") != 0;
}

/* Every message of a vote is about a timeout or a mismatch. A voter's message may be without a
 * cause. */
static bool failure_is_of_vote(const struct rcmi_failure *failure) {
    const bool silent = failure->weight == RCMI_PROPOSAL_NONE;
    const rcm_status status =
        failure->weight == RCMI_PROPOSAL_MISMATCH ? RCM_ERR_MISMATCH : RCM_ERR_TIMEOUT;
    if (failure->status != (int32_t)status || failure->weight > RCMI_PROPOSAL_MISMATCH ||
        failure->ballot > RCMI_BALLOT_MAX || failure->accepted > failure->ballot ||
        (failure->accepted > 0 && silent))
        return false;
    switch (failure->kind) {
    case RCMI_FAILURE_PROPOSAL:
        return failure->ballot == 0 && !silent;
    case RCMI_FAILURE_PREPARE:
        return failure->ballot > 0;
    case RCMI_FAILURE_ACCEPT:
        return failure->ballot > 0 && failure->accepted == failure->ballot;
    case RCMI_FAILURE_PROMISE:
        return failure->ballot > 0;
    default:
        return false;
    }
}

static bool failure_has_set(const struct rcmi_failure *failure, size_t len) {
    const uint32_t n = failure->missing.nranks;
    if (n > RCMI_RANK_SET_MAX || len != rcmi_failure_bytes(failure))
        return false;
    return n == 0 || (failure->status == RCM_ERR_TIMEOUT &&
                      (n % 8 == 0 || failure->missing.bits[n / 8] >> n % 8 == 0));
}

static bool failure_is_valid(const struct rcmi_failure *failure) {
    if (failure->magic != RCMI_FAILURE_MAGIC || !status_is_error(failure->status))
        return false;
    if (failure->kind == RCMI_FAILURE_RECORD)
        return failure->weight == 0 && failure->ballot == 0 && failure->accepted == 0;
    return failure_is_of_vote(failure);
}

bool rcmi_failure_decode(const void *bytes, size_t len, struct rcmi_failure *ret_failure,
                         struct rcm_error *ret_error) {
    if (len < offsetof(struct rcmi_failure, missing.bits) || len > sizeof(*ret_failure))
        return false;
    memset(ret_failure, 0, sizeof(*ret_failure));
    memcpy(ret_failure, bytes, len);
    if (!failure_is_valid(ret_failure) || !failure_has_set(ret_failure, len))
        return false;
    memset(ret_error, 0, sizeof(*ret_error));
    ret_error->size = sizeof(*ret_error);
    ret_error->status = (rcm_status)ret_failure->status;
    ret_error->origin = ret_failure->origin; /* any rank: the caller checks */
    ret_error->sys_errno = ret_failure->sys_errno;
    ret_error->sequence = ret_failure->sequence;
    memcpy(ret_error->operation, ret_failure->operation, sizeof(ret_error->operation) - 1);
    memcpy(ret_error->text, ret_failure->text, sizeof(ret_error->text) - 1);
    rcmi_text_clean(ret_error->operation);
    rcmi_text_clean(ret_error->text);
    return true;
}

_Static_assert(offsetof(struct rcmi_agree, set) == 48 && sizeof(struct rcmi_agree) == 4096,
               "no padding on the wire");

size_t rcmi_agree_bytes(uint32_t nranks) {
    return offsetof(struct rcmi_agree, set) + 2 * (size_t)((nranks + 7) / 8);
}

static bool agree_is_valid(const struct rcmi_agree *agree, size_t len) {
    const uint32_t n = agree->nranks;
    if (agree->magic != RCMI_AGREE_MAGIC || n < 1 || n > RCMI_AGREE_RANKS_MAX ||
        len != rcmi_agree_bytes(n) || agree->number == 0 || agree->left_ms < -1)
        return false;
    if (agree->kind < RCMI_AGREE_CALL || agree->kind > RCMI_AGREE_CANCEL || agree->origin < -1 ||
        agree->origin >= (int32_t)n)
        return false;
    if (agree->status != RCM_OK &&
        (agree->kind != RCMI_AGREE_DECISION || !status_is_error(agree->status)))
        return false;
    const size_t bytes = (n + 7) / 8;
    if (agree->by < -1 || agree->by >= (int32_t)n || agree->reserved != 0)
        return false;
    return n % 8 == 0 ||
           (agree->set[bytes - 1] >> n % 8 == 0 && agree->set[2 * bytes - 1] >> n % 8 == 0);
}

bool rcmi_agree_decode(const void *bytes, size_t len, struct rcmi_agree *ret_agree) {
    if (len < offsetof(struct rcmi_agree, set) || len > sizeof(*ret_agree))
        return false;
    memset(ret_agree, 0, sizeof(*ret_agree));
    memcpy(ret_agree, bytes, len);
    return agree_is_valid(ret_agree, len);
}

_Static_assert(sizeof(struct rcmi_creation) == 568, "no padding on the wire");

static bool creation_is_valid(const struct rcmi_creation *creation) {
    const bool fails = creation->type == RCMI_CREATION_FAIL;
    const bool goes = creation->type == RCMI_CREATION_GO;
    if (creation->magic != RCMI_CREATION_MAGIC || creation->type < RCMI_CREATION_HELLO ||
        creation->type > RCMI_CREATION_CANCEL || creation->kind >= RCMI_CREATION_KINDS ||
        creation->state > RCMI_CREATION_DIFFERS || creation->n < 1 || creation->left_ms < -1)
        return false;
    if (fails != status_is_error(creation->status) || (!fails && creation->status != RCM_OK))
        return false;
    return creation->epoch >> 62 == goes;
}

bool rcmi_creation_decode(const void *bytes, size_t len, struct rcmi_creation *ret_creation) {
    if (len != sizeof(*ret_creation))
        return false;
    memcpy(ret_creation, bytes, len);
    ret_creation->text[sizeof(ret_creation->text) - 1] = '\0';
    rcmi_text_clean(ret_creation->text);
    return creation_is_valid(ret_creation);
}

bool rcmi_left_decode(const void *bytes, size_t len, struct rcmi_left *ret_left) {
    if (len != sizeof(*ret_left))
        return false;
    memcpy(ret_left, bytes, len);
    return ret_left->magic == RCMI_LEFT_MAGIC && ret_left->reserved == 0;
}
