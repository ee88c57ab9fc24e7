/* SPDX-License-Identifier: BSD-3-Clause */
/* See nccl_settings.h. */
#include "nccl_settings.h"
#include <string.h>
#include <strings.h>
#include "ringcomm.h"

static struct rcm_setting setting(const char *name) {
    struct rcm_setting found;
    for (size_t i = 0; rcm_setting_at(i, &found) == RCM_OK; i++)
        if (strcmp(found.name, name) == 0)
            return found;
    return (struct rcm_setting){.value = "", .origin = ""};
}

bool setting_is_given(const char *name) {
    return strcmp(setting(name).origin, "environment") == 0;
}

bool setting_logs_info(void) {
    const char *level = setting("RINGCOMM_LOG").value;
    return strcasecmp(level, "info") == 0 || strcasecmp(level, "debug") == 0;
}

bool setting_shows_missing(void) {
    return strcmp(setting("RINGCOMM_NCCL_MISSING").value, "1") == 0;
}
