/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of NCCL that are not built: windows, the device interface, growing, parameters. They
 * ignore their arguments, so they are defined without parameters. */
#include <string.h>
#include "nccl_errors.h"
#include "nccl_group.h"
#include "nccl_settings.h"

static ncclResult_t missing(const char *name) {
    if (strcmp(setting_given("RINGCOMM_NCCL_MISSING"), "1") == 0)
        fprintf(stderr, "ringcomm: %s is not built\n", name);
    return face_fail(ncclInvalidUsage, "%s: libringcomm does not have this function of NCCL", name);
}

/* The result of a function that cannot return an error has no ranks, or is no rank. */
#define RESULT_ncclResult_t return result;
#define RESULT_int          return (void)result, -1;
#define RESULT_void         (void)result;
#define RESULT_ncclTeam_t   return (void)result, (ncclTeam_t){0, 0, 0};

#define MISSING(type, name)                                                                        \
    type name(void);                                                                               \
    NCCL_API(type, name)(void) {                                                                   \
        const ncclResult_t result = missing(#name);                                                \
        RESULT_##type                                                                              \
    }
NCCL_MISSING_MAP(MISSING)

/* The group that would be simulated ends. */
ncclResult_t ncclGroupSimulateEnd(void *info);
NCCL_API(ncclResult_t, ncclGroupSimulateEnd)(void *info) {
    (void)info;
    (void)group_fail(missing("ncclGroupSimulateEnd"));
    return pncclGroupEnd();
}
