/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of a job in a store; see join.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "join.h"
#include "store.h"

void rcmi_join_key(int attempt, int rank, char key[64]) {
    snprintf(key, 64, "ringcomm/%d/member/%d", attempt, rank);
}

void rcmi_join_scope(int attempt, int64_t generation, char scope[64]) {
    snprintf(scope, 64, "ringcomm/%d/%" PRId64, attempt, generation);
}

rcm_status rcmi_join_swap(rcm_store *store, const char *key, const char *expected,
                          const char *desired, bool *ret_swapped, struct rcm_blob *ret_now) {
    int swapped = 0;
    rcm_status status =
        rcm_store_compare_set(store, key, expected, strlen(expected), desired, strlen(desired),
                              &swapped, &ret_now->data, &ret_now->len);
    if (status == RCM_OK)
        *ret_swapped = swapped != 0;
    return status;
}
