/* SPDX-License-Identifier: BSD-3-Clause */
/* See nccl_settings.h. */
#include "nccl_settings.h"
#include <string.h>
#include "ringcomm.h"

const char *setting_given(const char *name) {
    struct rcm_setting found;
    for (size_t i = 0; rcm_setting_at(i, &found) == RCM_OK; i++)
        if (strcmp(found.name, name) == 0 && strcmp(found.origin, "environment") == 0)
            return found.value;
    return "";
}
