/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program that the tests of launchers start: joins from the environment alone, sums the ranks,
 * leaves; three times, with a new meeting each time. Prints "rank R of N: ok" at the end.
 */
#include <ringcomm.h>
#include <stdio.h>

#define ROUNDS 3

static rcm_status round_run(int *rank, int *size) {
    rcm_comm *comm;
    rcm_status status = rcm_init(NULL, &comm);
    if (status != RCM_OK)
        return status;
    *rank = rcm_rank(comm);
    *size = rcm_size(comm);
    int64_t mine = *rank + 1, sum = 0, want = (int64_t)*size * (*size + 1) / 2;
    status = rcm_all_reduce(comm, &mine, &sum, 1, RCM_INT64, RCM_SUM, NULL, NULL);
    rcm_status end = rcm_destroy(comm);
    if (status == RCM_OK && sum != want)
        status = RCM_ERR_INTERNAL;
    return status == RCM_OK ? end : status;
}

int main(void) {
    int rank = -1, size = 0;
    for (int i = 0; i < ROUNDS; i++) {
        rcm_status status = round_run(&rank, &size);
        if (status != RCM_OK) {
            fprintf(stderr, "round %d: %s: %s\n", i, rcm_status_name(status), rcm_last_error());
            return 1;
        }
    }
    printf("rank %d of %d: ok\n", rank, size);
    return 0;
}
