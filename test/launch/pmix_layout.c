/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares rendezvous/launch/pmix_abi.h with the real header; built only where that is
 * installed. */
#include <pmix.h>
#include <stddef.h>
#include <string.h>
#include "pmix_abi.h"

#define SAME(a, b) _Static_assert((long long)(a) == (long long)(b), #a)

SAME(RCMI_PMIX_SUCCESS, PMIX_SUCCESS);
SAME(RCMI_PMIX_ERR_TIMEOUT, PMIX_ERR_TIMEOUT);
SAME(RCMI_PMIX_ERR_UNREACH, PMIX_ERR_UNREACH);
SAME(RCMI_PMIX_ERR_NOT_FOUND, PMIX_ERR_NOT_FOUND);
SAME(RCMI_PMIX_RANK_WILDCARD, PMIX_RANK_WILDCARD);
SAME(RCMI_PMIX_GLOBAL, PMIX_GLOBAL);
SAME(RCMI_PMIX_BOOL, PMIX_BOOL);
SAME(RCMI_PMIX_STRING, PMIX_STRING);
SAME(RCMI_PMIX_UINT16, PMIX_UINT16);
SAME(RCMI_PMIX_UINT32, PMIX_UINT32);
SAME(sizeof(struct rcmi_pmix_proc), sizeof(pmix_proc_t));
SAME(offsetof(struct rcmi_pmix_proc, rank), offsetof(pmix_proc_t, rank));
SAME(offsetof(struct rcmi_pmix_value, data), offsetof(pmix_value_t, data));
SAME(sizeof(((struct rcmi_pmix_value *)0)->type), sizeof(((pmix_value_t *)0)->type));
_Static_assert(sizeof(struct rcmi_pmix_value) >= sizeof(pmix_value_t), "room for every value");
SAME(offsetof(struct rcmi_pmix_info, flags), offsetof(pmix_info_t, flags));
SAME(offsetof(struct rcmi_pmix_info, value), offsetof(pmix_info_t, value));
SAME(sizeof(pmix_status_t), sizeof(int));
SAME(sizeof(pmix_scope_t), sizeof(uint8_t));

int main(void) {
    static const char *const names[][2] = {{RCMI_PMIX_COLLECT_DATA, PMIX_COLLECT_DATA},
                                           {RCMI_PMIX_JOB_SIZE, PMIX_JOB_SIZE},
                                           {RCMI_PMIX_LOCAL_RANK, PMIX_LOCAL_RANK},
                                           {RCMI_PMIX_LOCAL_SIZE, PMIX_LOCAL_SIZE}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i][0], names[i][1]) != 0)
            return 1;
    return 0;
}
