/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: the entries of ranks in a store (rendezvous/join/member.c). */
#include "fuzz.h"
#include <stdlib.h>
#include <string.h>
#include "member.h"

static void check_member(const struct rcmi_member *member) {
    struct rcmi_member again;
    char text[RCMI_MEMBER_TEXT], people[RCMI_MEMBER_PEOPLE];
    rcmi_member_write(member, text);
    fuzz_require(rcmi_member_parse((struct rcmi_bytes){text, strlen(text)}, &again),
                 "what was read can be written and read again");
    fuzz_require(again.generation == member->generation && again.left == member->left &&
                     again.world_size == member->world_size &&
                     again.joined_at == member->joined_at &&
                     again.process.pid == member->process.pid &&
                     again.process.start == member->process.start &&
                     strcmp(again.process.host, member->process.host) == 0 &&
                     strcmp(again.job_id, member->job_id) == 0 && again.wire == member->wire,
                 "and is the same");
    fuzz_require(member->generation > 0 && member->world_size > 0, "numbers are in range");
    fuzz_require(strlen(rcmi_member_people(member, 0, people)) > 0, "there is a sentence");
    (void)rcmi_process_look(&member->process); /* reads only */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct rcmi_member member;
    uint64_t number;
    char *copy = malloc(size + 1); /* a NUL follows the values */
    if (size > 0)
        memcpy(copy, data, size);
    copy[size] = '\0';
    const struct rcmi_bytes value = {copy, size};
    bool good = rcmi_member_parse(value, &member);
    if (good)
        check_member(&member);
    if (rcmi_job_parse(value, &number, &member)) {
        check_member(&member);
        good = true;
    }
    rcm_status status = rcmi_refusal_check(value);
    fuzz_require(status == RCM_OK || !good, "a refusal is no member");
    if (status != RCM_OK) {
        fuzz_judge(status);
        good = status != RCM_ERR_PROTOCOL;
    }
    fuzz_verdict = good ? FUZZ_ACCEPTED : FUZZ_REFUSED;
    free(copy);
    return 0;
}
