/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts that assign constants by name; see assignments.h. */
#include "assignments.h"

#include <string.h>

#define APART " \t\r\n,;"
#define BLANK " \t"

static const char *skip_apart(const char *text) {
    text += strspn(text, APART);
    while (*text == '#') {
        text += strcspn(text, "\n");
        text += strspn(text, APART);
    }
    return text;
}

/* The end of the unnamed piece that begins here; NULL: none begins here. */
static const char *piece_end(const char *text) {
    text += strspn(text, BLANK);
    const size_t len = strcspn(text, APART "=#");
    return len > 0 && text[len + strspn(text + len, BLANK)] != '=' ? text + len : NULL;
}

/* The end of a value, which includes following unnamed pieces. */
static const char *value_end(const char *value) {
    const char *end = value + strcspn(value, APART "#");
    for (const char *next = end; next; next = *end == ',' ? piece_end(end + 1) : NULL)
        end = next;
    return end;
}

bool rcmi_item_next(const char **text, struct rcmi_item *ret_item) {
    const char *begin = skip_apart(*text);
    const size_t name_len = strcspn(begin, APART "=#");
    const char *equals = begin + name_len + strspn(begin + name_len, BLANK);
    struct rcmi_item item = {.text = begin, .name_len = name_len};
    const char *end = begin + name_len;
    if (*begin == '\0')
        return false;
    if (*equals == '=') {
        item.value = equals + 1 + strspn(equals + 1, BLANK);
        end = value_end(item.value);
        item.value_len = (size_t)(end - item.value);
    }
    item.len = (size_t)(end - begin);
    *text = end;
    *ret_item = item;
    return true;
}

bool rcmi_item_is(const struct rcmi_item *item, const char *name, const char **ret_suffix,
                  size_t *ret_suffix_len) {
    const size_t len = strlen(name);
    if (item->name_len < len || memcmp(item->text, name, len) != 0)
        return false;
    *ret_suffix = item->name_len > len ? item->text + len + 1 : NULL;
    *ret_suffix_len = item->name_len > len ? item->name_len - len - 1 : 0;
    return item->name_len == len || item->text[len] == '.';
}
