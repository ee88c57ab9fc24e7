/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts, sizes and durations: see numbers.h. Parses digits itself, since strtod depends on the
 * locale and the rounding mode. */
#include "numbers.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct unit {
    const char *name;
    int64_t ns;
} units[] = {
    {"h", 3600 * RCMI_SECOND},
    {"m", 60 * RCMI_SECOND},
    {"s", RCMI_SECOND},
    {"ms", 1000000},
    {"us", 1000},
};
enum { UNITS = sizeof units / sizeof units[0] };

/* Returns what follows the digits; NULL: no digits, or too many. */
static const char *digits_read(const char *text, int64_t *ret_value) {
    int64_t value = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9'; c++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *c - '0', &value))
            return NULL;
    *ret_value = value;
    return c == text ? NULL : c;
}

bool rcmi_read_count(const char *text, int64_t *ret_value) {
    const bool negative = *text == '-';
    int64_t value;
    const char *rest = digits_read(text + negative, &value);
    if (!rest || *rest)
        return false;
    *ret_value = negative ? -value : value;
    return true;
}

bool rcmi_read_size(const char *text, int64_t *ret_value) {
    static const char suffixes[] = "kmgKMG";
    int64_t value;
    const char *rest = digits_read(text, &value);
    if (!rest)
        return false;
    if (*rest) {
        const char *suffix = strchr(suffixes, *rest);
        const int shift = suffix ? 10 * ((int)(suffix - suffixes) % 3 + 1) : 0;
        if (!suffix || rest[1] || value > INT64_MAX >> shift)
            return false;
        value <<= shift;
    }
    *ret_value = value;
    return true;
}

/* ".25" of a unit, truncated to ns. */
static const char *fraction_read(const char *c, int64_t *ret_billionths) {
    int64_t scale = RCMI_SECOND, sum = 0;
    if (*c == '.' && (c[1] < '0' || c[1] > '9'))
        return NULL;
    if (*c == '.')
        for (c++; *c >= '0' && *c <= '9'; c++) {
            scale /= 10;
            sum += scale * (*c - '0');
        }
    *ret_billionths = sum;
    return c;
}

bool rcmi_read_duration(const char *text, int64_t unit_ns, int64_t *ret_ns) {
    int64_t whole = 0, billionths = 0, ns;
    const char *rest = *text == '.' ? text : digits_read(text, &whole);
    if (rest)
        rest = fraction_read(rest, &billionths);
    if (!rest)
        return false;
    size_t i = 0;
    while (*rest && i < UNITS && strcmp(rest, units[i].name) != 0)
        i++;
    if (i == UNITS)
        return false;
    const int64_t unit = *rest ? units[i].ns : unit_ns;
    /* An hour has 3.6e12 ns: multiplying by billionths would overflow. */
    const int64_t part = unit / 1000 * billionths / (RCMI_SECOND / 1000);
    if (__builtin_mul_overflow(whole, unit, &ns) || __builtin_add_overflow(ns, part, &ns))
        return false;
    *ret_ns = ns;
    return true;
}

const char *rcmi_duration_text(int64_t ns, char text[RCMI_DURATION_TEXT]) {
    size_t i = 0;
    while (i < UNITS - 1 && ns % units[i].ns != 0)
        i++;
    if (ns == 0)
        return "0";
    snprintf(text, RCMI_DURATION_TEXT, "%lld%s", (long long)(ns / units[i].ns), units[i].name);
    return text;
}
