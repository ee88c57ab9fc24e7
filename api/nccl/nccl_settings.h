/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings of the library that this face reads, by ringcomm.h. */
#ifndef NCCL_SETTINGS_H
#define NCCL_SETTINGS_H

#include <stdbool.h>

/* Is the variable in the environment? */
bool setting_is_given(const char *name);
/* RINGCOMM_LOG is info or debug. */
bool setting_logs_info(void);
/* RINGCOMM_NCCL_MISSING is 1. */
bool setting_shows_missing(void);

#endif
