/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of the binary interface of libpmix.so.2 that pmix_client.c uses. Sources: the PMIx
 * standard, and pmix_common.h of OpenPMIx 2 to 5. A value's union has grown since version 2. Ours
 * is large enough for all versions, values are passed one at a time, and only the first members of
 * a received value are read.
 */
#ifndef RCMI_PMIX_ABI_H
#define RCMI_PMIX_ABI_H

#include <stdbool.h>
#include <stdint.h>

#define RCMI_PMIX_NAMESPACE_BYTES 256
#define RCMI_PMIX_KEY_BYTES       512

#define RCMI_PMIX_SUCCESS       0
#define RCMI_PMIX_ERR_TIMEOUT   (-24)
#define RCMI_PMIX_ERR_UNREACH   (-25)
#define RCMI_PMIX_ERR_NOT_FOUND (-46)

#define RCMI_PMIX_RANK_WILDCARD (UINT32_MAX - 1) /* the job, not one rank of it */
#define RCMI_PMIX_GLOBAL        3                /* what is put is for ranks of all machines */

#define RCMI_PMIX_COLLECT_DATA "pmix.collect"
#define RCMI_PMIX_JOB_SIZE     "pmix.job.size"
#define RCMI_PMIX_LOCAL_RANK   "pmix.lrank"
#define RCMI_PMIX_LOCAL_SIZE   "pmix.local.size"

/* Types of values. */
#define RCMI_PMIX_BOOL   1
#define RCMI_PMIX_STRING 3
#define RCMI_PMIX_UINT16 13
#define RCMI_PMIX_UINT32 14

struct rcmi_pmix_proc {
    char nspace[RCMI_PMIX_NAMESPACE_BYTES];
    uint32_t rank;
};

struct rcmi_pmix_value {
    uint16_t type;
    union {
        bool flag;
        char *string;
        uint16_t uint16;
        uint32_t uint32;
        uint64_t room[8];
    } data;
};

struct rcmi_pmix_info {
    char key[RCMI_PMIX_KEY_BYTES];
    uint32_t flags;
    struct rcmi_pmix_value value;
};

#endif
