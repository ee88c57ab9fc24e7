/* SPDX-License-Identifier: BSD-3-Clause */
/* Names in the environment that look like settings and are none. */
#ifndef RCMI_SETTING_NAMES_H
#define RCMI_SETTING_NAMES_H

/* Warns of each name in the environment that begins like a setting and is none, or none any
 * more. */
void rcmi_settings_warn_names(void);

#endif
