/* SPDX-License-Identifier: BSD-3-Clause */
/* Warnings about environment names that look like settings. */
#ifndef RCMI_UNKNOWN_SETTINGS_H
#define RCMI_UNKNOWN_SETTINGS_H

/* Warns of each environment name that begins like a setting but is not a current setting. */
void rcmi_settings_warn_names(void);

#endif
