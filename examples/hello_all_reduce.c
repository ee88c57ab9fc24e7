/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every rank contributes its rank plus one; every rank gets the sum.
 *
 *     ringcomm-run -n 4 -- ./hello_all_reduce        prints "rank 2 of 4: the sum is 10", ...
 */
#include <ringcomm.h>
#include <stdio.h>

int main(void) {
    rcm_comm *comm;
    if (rcm_init(NULL, &comm) != RCM_OK) {
        fprintf(stderr, "hello_all_reduce: %s\n", rcm_last_error());
        return 1;
    }

    float mine = (float)rcm_rank(comm) + 1, sum = 0;
    rcm_status status = rcm_all_reduce(comm, &mine, &sum, 1, RCM_FLOAT32, RCM_SUM, NULL, NULL);
    if (status == RCM_OK)
        printf("rank %d of %d: the sum is %g\n", rcm_rank(comm), rcm_size(comm), sum);
    else
        fprintf(stderr, "hello_all_reduce: %s\n", rcm_last_error());

    return rcm_destroy(comm) == RCM_OK && status == RCM_OK ? 0 : 1;
}
