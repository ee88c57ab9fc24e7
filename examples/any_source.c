/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A task farm. Rank 0 sends numbers to be squared and adds up the results. It receives from any
 * source; the message contains the rank that needs the next number.
 *
 *     ringcomm-run -n 4 -- ./any_source
 *
 * At the end rcm_probe returns the length of a message before it is received.
 */
#include <ringcomm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 100, TAG_RESULT = 1, TAG_JOB = 2, TAG_REPORT = 3, NONE = -1 };

static rcm_status hand_out(rcm_comm *comm, int64_t *ret_sum) {
    int64_t next = 1, result = 0;
    rcm_status status = RCM_OK;
    for (int working = rcm_size(comm) - 1; working > 0 && status == RCM_OK;) {
        struct rcm_message message = RCM_MESSAGE_INIT;
        struct rcm_call call = RCM_CALL_INIT;
        call.message = &message;
        status = rcm_recv(comm, &result, 1, RCM_INT64, RCM_ANY_SOURCE, TAG_RESULT, &call, NULL);
        *ret_sum += result;
        const int64_t job = next <= JOBS ? next++ : NONE;
        working -= job == NONE;
        if (status == RCM_OK)
            status = rcm_send(comm, &job, 1, RCM_INT64, message.source, TAG_JOB, NULL, NULL);
    }
    return status;
}

/* The first result is 0: it only requests a job. */
static rcm_status work(rcm_comm *comm) {
    int64_t job = 0;
    rcm_status status = RCM_OK;
    while (status == RCM_OK && job != NONE) {
        const int64_t result = job * job;
        status = rcm_sendrecv(comm, &result, 1, 0, TAG_RESULT, &job, 1, 0, TAG_JOB, RCM_INT64, NULL,
                              NULL);
    }
    return status;
}

static rcm_status report(rcm_comm *comm) {
    char text[64];
    snprintf(text, sizeof text, "rank %d is done", rcm_rank(comm));
    return rcm_send(comm, text, strlen(text) + 1, RCM_UINT8, 0, TAG_REPORT, NULL, NULL);
}

static rcm_status receive_reports(rcm_comm *comm) {
    rcm_status status = RCM_OK;
    for (int r = 1; r < rcm_size(comm) && status == RCM_OK; r++) {
        struct rcm_message message = RCM_MESSAGE_INIT;
        status = rcm_probe(comm, RCM_ANY_SOURCE, TAG_REPORT, NULL, &message);
        char *text = status == RCM_OK ? malloc(message.bytes) : NULL;
        if (status == RCM_OK && !text)
            status = RCM_ERR_NOMEM;
        if (text)
            status = rcm_recv(comm, text, message.bytes, RCM_UINT8, message.source, TAG_REPORT,
                              NULL, NULL);
        if (text && status == RCM_OK)
            printf("%s\n", text);
        free(text);
    }
    return status;
}

int main(void) {
    rcm_comm *comm = NULL;
    int64_t sum = 0;
    rcm_status status = rcm_init(NULL, &comm);
    if (status == RCM_OK && rcm_rank(comm) == 0)
        status = hand_out(comm, &sum);
    else if (status == RCM_OK)
        status = work(comm);
    if (status == RCM_OK)
        status = rcm_rank(comm) == 0 ? receive_reports(comm) : report(comm);
    if (status == RCM_OK && rcm_rank(comm) == 0 && rcm_size(comm) > 1)
        printf("the sum of %d squares is %lld\n", JOBS, (long long)sum);
    if (status != RCM_OK)
        fprintf(stderr, "any_source: %s\n", rcm_last_error());
    const rcm_status destroyed = rcm_destroy(comm);
    return status == RCM_OK && destroyed == RCM_OK ? 0 : 1;
}
