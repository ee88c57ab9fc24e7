/* SPDX-License-Identifier: BSD-3-Clause */
/* See struct_versions.h. */
#include "struct_versions.h"
#include "error.h"
#include <string.h>

static uint32_t size_of(const void *given) {
    uint32_t size;
    memcpy(&size, given, sizeof(size));
    return size;
}

static rcm_status size_check(const struct rcmi_sized *sized, uint32_t size) {
    if (size < sized->first)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s->size is %u, expected at least %u (%s)",
                         sized->name, size, sized->first, sized->init);
    if (size > RCMI_SIZED_MAX)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s->size is %u, expected at most %d (%s)",
                         sized->name, size, RCMI_SIZED_MAX, sized->init);
    return RCM_OK;
}

/* The first nonzero byte of [begin, end), or end. */
static uint32_t first_set(const unsigned char *bytes, uint32_t begin, uint32_t end) {
    while (begin < end && bytes[begin] == 0)
        begin++;
    return begin;
}

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

rcm_status rcmi_struct_in(const struct rcmi_sized *sized, const void *given, void *ours) {
    const uint32_t size = size_of(given), head = sizeof(size);
    const rcm_status status = size_check(sized, size);
    if (status != RCM_OK)
        return status;
    const uint32_t set = first_set(given, sized->ours, size);
    if (set < size)
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "%s->size is %u and its byte %u is set, libringcomm %s has %u bytes: "
                         "the library is older than the program",
                         sized->name, size, set, rcm_version(), sized->ours);
    memcpy((char *)ours + head, (const char *)given + head, smaller(size, sized->ours) - head);
    return RCM_OK;
}

rcm_status rcmi_struct_out_check(const struct rcmi_sized *sized, const void *given) {
    return size_check(sized, size_of(given));
}

void rcmi_struct_out(const struct rcmi_sized *sized, const void *ours, void *given) {
    const uint32_t size = size_of(given), head = sizeof(size);
    const uint32_t common = smaller(size, sized->ours);
    memcpy((char *)given + head, (const char *)ours + head, common - head);
    memset((char *)given + common, 0, size - common);
}
