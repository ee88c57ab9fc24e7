/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cleans texts from other processes for terminals. Errors and log lines quote host names, keys and
 * texts of other processes; a control character in them could move the cursor, forge a line or
 * reprogram a terminal. Not a parser: every rejected byte becomes '?'.
 */
#include "error.h"

#include <stdbool.h>
#include <stdint.h>

/* The length of the well-formed UTF-8 sequence at text; 0: none. */
static int sequence_length(const uint8_t *text) {
    int len = text[0] < 0x80 ? 1 : text[0] < 0xc2 ? 0 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
    if (text[0] > 0xf4)
        return 0;
    for (int i = 1; i < len; i++) /* stops at the end: 0 is no continuation byte */
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

/* Controls below the space, DEL, and the C1 controls U+0080 to U+009F. */
static bool is_control(const uint8_t *text, int len) {
    return text[0] < ' ' || text[0] == 0x7f || (len == 2 && text[0] == 0xc2 && text[1] < 0xa0);
}

void rcmi_text_clean(char *text) {
    uint8_t *at = (uint8_t *)text;
    while (*at) {
        const int len = sequence_length(at);
        if (len == 0) {
            *at++ = '?';
            continue;
        }
        const bool control = is_control(at, len);
        for (int i = 0; i < len; i++, at++)
            *at = control ? '?' : *at;
    }
}
