/* SPDX-License-Identifier: BSD-3-Clause */
/* The public function for stores implemented by the program; see rendezvous/. */
#include "error.h"
#include "rendezvous.h"
#include "struct_versions.h"

rcm_status rcm_store_custom(const struct rcm_store_functions *functions, rcm_store **ret_store) {
    static const struct rcmi_sized sized = {"functions", "RCM_STORE_FUNCTIONS_INIT",
                                            RCMI_STORE_FUNCTIONS_SIZE_0,
                                            sizeof(struct rcm_store_functions)};
    struct rcm_store_functions ours = RCM_STORE_FUNCTIONS_INIT;
    if (!functions || !ret_store)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL", functions ? "ret_store" : "functions");
    const rcm_status status = rcmi_struct_in(&sized, functions, &ours);
    if (status != RCM_OK)
        return status;
    const char *lacks = !ours.set           ? "set"
                        : !ours.try_get     ? "try_get"
                        : !ours.compare_set ? "compare_set"
                                            : NULL;
    if (lacks)
        return rcmi_fail(RCM_ERR_INVALID, 0, "functions->%s is NULL, a store needs it", lacks);
    return rcmi_custom_open(&ours, ret_store);
}
