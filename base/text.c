/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts that others had a hand in, made fit for a terminal. Errors and log lines quote host names,
 * keys and sentences of other processes, and a control character among them could move the cursor,
 * forge a line or reprogram a terminal. Not a parser: what is not shown becomes '?'.
 */
#include "error.h"

#include <stdbool.h>
#include <stdint.h>

/* The length of the well-formed UTF-8 sequence at text, 0 if there is none. */
static int sequence_length(const uint8_t *text) {
    int len = text[0] < 0x80 ? 1 : text[0] < 0xc2 ? 0 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4;
    if (text[0] > 0xf4)
        return 0;
    for (int i = 1; i < len; i++) /* stops at the end, for 0 continues nothing */
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

/* Below the space, DEL, and the second set of controls, U+0080 to U+009F. */
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
