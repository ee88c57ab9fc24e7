/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers in users' texts: counts, sizes and durations. The whole text must match. */
#ifndef RCMI_NUMBERS_H
#define RCMI_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>

#define RCMI_SECOND        INT64_C(1000000000) /* in ns, as all durations here */
#define RCMI_DURATION_TEXT 32

/* "3", "-1": no suffix. False, here and below, also on overflow. */
bool rcmi_read_count(const char *text, int64_t *ret_value);
/* "3", "64K": K, M, G are powers of 1024. */
bool rcmi_read_size(const char *text, int64_t *ret_value);
/* "90s", "1.5m"; "250 ms" is invalid. Units us, ms, s, m and h. A number alone counts unit_ns. */
bool rcmi_read_duration(const char *text, int64_t unit_ns, int64_t *ret_ns);
/* Text in the largest unit that gives a whole number. */
const char *rcmi_duration_text(int64_t ns, char text[RCMI_DURATION_TEXT]);

#endif
