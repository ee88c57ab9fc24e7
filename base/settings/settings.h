/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RINGCOMM_ environment: one table (settings.c) of name, default and help. rcm_setting_at
 * returns its entries, and every part of the library reads it. A new setting is one entry there.
 */
#ifndef RCMI_SETTINGS_H
#define RCMI_SETTINGS_H

#include "ringcomm.h"

/* The value of a setting in the table: from the environment, else (also if empty there) its
 * default. Asserts that the name exists. Words of ours are in lower case. */
const char *rcmi_setting(const char *name);
/* As an integer within [min, max]; RCM_ERR_CONFIG names variable, value and range. A count has no
 * suffix, a size K, M or G, a duration us, ms, s, m or h; without a suffix it counts unit_ns. */
rcm_status rcmi_setting_int(const char *name, int64_t min, int64_t max, int64_t *ret_value);
rcm_status rcmi_setting_size(const char *name, int64_t min, int64_t max, int64_t *ret_value);
rcm_status rcmi_setting_duration(const char *name, int64_t unit_ns, int64_t min_ns, int64_t max_ns,
                                 int64_t *ret_ns);
rcm_status rcmi_setting_peer_timeout(int64_t *ret_ms);
rcm_status rcmi_setting_warn_after(int64_t *ret_ns);
/* RINGCOMM_SLOT_BYTES for a world of nranks ranks. */
rcm_status rcmi_setting_slot_bytes(int nranks, int64_t *ret_bytes);
/* Parses "64K", "1M", "3"; RCM_ERR_INVALID otherwise. */
rcm_status rcmi_parse_size(const char *text, int64_t *ret_value);

#endif
