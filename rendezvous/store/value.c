/* SPDX-License-Identifier: BSD-3-Clause */
/* Values in all kinds of store: copies, integers as text, compare-and-set, append. */
#include "store.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"

rcm_status rcmi_blob_copy(struct rcmi_bytes bytes, struct rcm_blob *ret_blob) {
    char *data = malloc(bytes.len + 1);
    if (!data)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a value of %zu bytes", bytes.len);
    if (bytes.len > 0)
        memcpy(data, bytes.data, bytes.len);
    data[bytes.len] = '\0';
    *ret_blob = (struct rcm_blob){data, bytes.len};
    return RCM_OK;
}

void rcmi_blobs_free(struct rcm_blob *blobs, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free(blobs[i].data);
        blobs[i] = (struct rcm_blob){NULL, 0};
    }
}

bool rcmi_bytes_equal(struct rcmi_bytes a, struct rcmi_bytes b) {
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Parses all of `text` as a decimal integer. */
static bool text_to_int(struct rcmi_bytes text, int64_t *ret_value) {
    const char *p = text.data;
    size_t i = 0;
    bool negative = false;
    int64_t value = 0;

    if (text.len > 0 && (p[0] == '-' || p[0] == '+'))
        negative = p[i++] == '-';
    if (i == text.len)
        return false;
    for (; i < text.len; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        int digit = negative ? -(p[i] - '0') : p[i] - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *ret_value = value;
    return true;
}

rcm_status rcmi_add_text(struct rcmi_bytes key, const struct rcmi_entry *old, int64_t delta,
                         int64_t *ret_value, char ret_text[RCMI_INT_TEXT]) {
    int64_t sum = 0;
    if (old && !text_to_int(rcmi_entry_value(old), &sum))
        return rcmi_fail(RCM_ERR_INVALID, 0, "the value of key \"%.*s\" is not an integer",
                         (int)(key.len < 200 ? key.len : 200), (const char *)key.data);
    if (__builtin_add_overflow(sum, delta, &sum))
        return rcmi_fail(RCM_ERR_INVALID, 0, "key \"%.*s\" plus %" PRId64 " exceeds 64 bits",
                         (int)(key.len < 200 ? key.len : 200), (const char *)key.data, delta);
    snprintf(ret_text, RCMI_INT_TEXT, "%" PRId64, sum);
    *ret_value = sum;
    return RCM_OK;
}

enum rcmi_compare rcmi_compare(const struct rcmi_entry *entry, struct rcmi_bytes expected) {
    if (!entry)
        return expected.len == 0 ? RCMI_COMPARE_SET : RCMI_COMPARE_MISSING;
    return rcmi_bytes_equal(rcmi_entry_value(entry), expected) ? RCMI_COMPARE_SET
                                                               : RCMI_COMPARE_KEEP;
}

rcm_status rcmi_append_check(struct rcmi_bytes key, const struct rcmi_entry *old, size_t len) {
    size_t total = (old ? old->value_len : 0) + len;
    if (total <= RCMI_STORE_VALUE_MAX)
        return RCM_OK;
    return rcmi_fail(
        RCM_ERR_INVALID, 0, "the value of key \"%.*s\" would have %zu bytes, at most %d",
        (int)(key.len < 200 ? key.len : 200), (const char *)key.data, total, RCMI_STORE_VALUE_MAX);
}
