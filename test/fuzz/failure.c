/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: the control messages of communicators (agreement_wire.h, diagnosis_wire.h). */
#include "fuzz.h"
#include <string.h>
#include "agreement_wire.h"
#include "diagnosis_wire.h"

static bool is_shown(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    return true;
}

static bool take_failure(const uint8_t *data, size_t size) {
    struct rcmi_failure failure, again;
    struct rcm_error error, error_again;
    if (!rcmi_failure_decode(data, size, &failure, &error))
        return false;
    fuzz_require(memchr(error.text, 0, sizeof error.text), "the text ends");
    fuzz_require(memchr(error.operation, 0, sizeof error.operation), "the operation ends");
    fuzz_require(is_shown(error.text) && is_shown(error.operation), "nothing moves the cursor");
    fuzz_require(error.status < 0, "a failure is an error");
    fuzz_require(failure.kind <= RCMI_FAILURE_PROMISE && failure.weight <= RCMI_PROPOSAL_MISMATCH &&
                     failure.accepted <= failure.ballot && failure.ballot <= RCMI_BALLOT_MAX,
                 "a vote can be counted");
    fuzz_require(failure.kind == RCMI_FAILURE_RECORD || error.status == RCM_ERR_TIMEOUT ||
                     error.status == RCM_ERR_MISMATCH,
                 "only a timeout or a mismatch is voted for");
    fuzz_require(rcmi_failure_bytes(&failure) == size, "the set is there");
    fuzz_require(failure.missing.nranks == 0 || error.status == RCM_ERR_TIMEOUT,
                 "ranks are missing from what is late");
    for (uint32_t r = failure.missing.nranks; r < RCMI_RANK_SET_MAX; r++)
        fuzz_require(!(failure.missing.bits[r / 8] >> r % 8 & 1), "no rank is beyond the last");
    const struct rcmi_rank_set missing = failure.missing;
    rcmi_failure_encode(failure.epoch, &error, &missing, &again);
    fuzz_require(rcmi_failure_decode(&again, rcmi_failure_bytes(&again), &failure, &error_again) &&
                     error_again.status == error.status && error_again.origin == error.origin &&
                     strcmp(error_again.text, error.text) == 0 &&
                     memcmp(&failure.missing, &missing, sizeof missing) == 0,
                 "a forwarded message is the same");
    return true;
}

static bool take_inquiry(const uint8_t *data, size_t size) {
    struct rcmi_inquiry inquiry;
    if (!rcmi_inquiry_decode(data, size, &inquiry))
        return false;
    fuzz_require(inquiry.npeers <= RCMI_INQUIRY_PEERS, "peers are counted");
    return true;
}

static bool take_record(const uint8_t *data, size_t size) {
    struct rcmi_call_record record;
    if (!rcmi_call_record_decode(data, size, &record))
        return false;
    fuzz_require(memchr(record.algorithm, 0, sizeof record.algorithm) && is_shown(record.algorithm),
                 "the algorithm ends and can be shown");
    fuzz_require(memchr(record.op_name, 0, sizeof record.op_name) && is_shown(record.op_name),
                 "the operator's name ends and can be shown");
    fuzz_require(record.sequence != 0, "operations count from 1");
    fuzz_require(record.ncounts <= RCMI_CALL_COUNTS, "counts are counted");
    fuzz_require(record.form < RCMI_FORMS, "a call is of a known form");
    return true;
}

/* Whether the set contains only ranks below nranks, up to the end of the last byte. */
static bool is_within(const uint8_t *set, uint32_t nranks) {
    for (uint32_t r = nranks; r % 8 != 0; r++)
        if (set[r / 8] >> r % 8 & 1)
            return false;
    return true;
}

static bool take_agree(const uint8_t *data, size_t size) {
    struct rcmi_agree agree;
    if (!rcmi_agree_decode(data, size, &agree))
        return false;
    fuzz_require(rcmi_agree_bytes(agree.nranks) == size, "the sets are there");
    fuzz_require(agree.origin < (int32_t)agree.nranks, "the origin is a rank");
    fuzz_require(agree.by < (int32_t)agree.nranks, "the coordinator is a rank");
    fuzz_require(agree.nranks <= RCMI_AGREE_RANKS_MAX, "the sets have room");
    fuzz_require(is_within(agree.set, agree.nranks), "no member is beyond the world");
    fuzz_require(is_within(rcmi_agree_excluded(&agree), agree.nranks),
                 "no excluded rank is beyond the world");
    return true;
}

static bool take_creation(const uint8_t *data, size_t size) {
    struct rcmi_creation creation;
    if (!rcmi_creation_decode(data, size, &creation))
        return false;
    fuzz_require(memchr(creation.text, 0, sizeof creation.text) && is_shown(creation.text),
                 "the text ends and can be shown");
    fuzz_require(creation.kind < RCMI_CREATION_KINDS && creation.n > 0,
                 "ranks of a known function");
    fuzz_require((creation.type == RCMI_CREATION_FAIL) == (creation.status < 0),
                 "a failure is an error");
    fuzz_require((creation.type == RCMI_CREATION_GO) == (creation.epoch >> 62 == 1),
                 "an epoch is that of a group");
    return true;
}

static bool take_left(const uint8_t *data, size_t size) {
    struct rcmi_left left;
    return rcmi_left_decode(data, size, &left);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const bool failure = take_failure(data, size), inquiry = take_inquiry(data, size),
               record = take_record(data, size), agree = take_agree(data, size),
               creation = take_creation(data, size), left = take_left(data, size);
    const int n = failure + inquiry + record + agree + creation + left;
    fuzz_require(n <= 1, "a message means one thing");
    fuzz_verdict = n == 1 ? FUZZ_ACCEPTED : FUZZ_REFUSED;
    return 0;
}
