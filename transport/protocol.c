/* SPDX-License-Identifier: BSD-3-Clause */
/* Protocol thresholds: the built-in table, and conversion from and to text. See protocol.h. */
#include "protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "error.h"
#include "fd.h"
#include "settings.h"

#define KIB(n) ((size_t)(n) << 10)
#define MIB(n) ((size_t)(n) << 20)
/* clang-format off */
#define NEVER          {1, 0}
#define FROM(bytes)    {(bytes), SIZE_MAX}
#define UP_TO(bytes)   {0, (bytes)}
#define FROM_TO(a, b)  {(a), (b)}

/*
 * Thresholds per CPU family. Each value is the one that loses least in its worse case: cores that
 * share a cache or do not; inputs that are written anew or are the same. Figures:
 * algorithms/PERFORMANCE.md.
 */
static const struct rcmi_protocols built_in[] = {
    [RCMI_CPU_OTHER] = {{
        [RCMI_ROOMY] = {
            .eager = UP_TO(KIB(32)),
            .eager_near = UP_TO(KIB(128)),
            .get = FROM(KIB(64)),
            .slot_non_temporal = NEVER,
            .sum_non_temporal = FROM(MIB(4)),
            .copy_non_temporal = FROM(MIB(4)),
            .copy_vectors = NEVER,
        },
        [RCMI_OVERSUBSCRIBED] = {
            .eager = UP_TO(KIB(128)),
            .eager_near = UP_TO(KIB(128)),
            .get = NEVER,
            .slot_non_temporal = NEVER,
            .sum_non_temporal = FROM(MIB(4)),
            .copy_non_temporal = FROM(MIB(4)),
            .copy_vectors = NEVER,
        },
    }},
    [RCMI_CPU_INTEL] = {{
        [RCMI_ROOMY] = {
            .eager = UP_TO(KIB(32)),
            .eager_near = UP_TO(KIB(128)),
            /* 32 KiB: 9.2 to 5.3 us, with new inputs 9.5 to 8.8 us. 64 MiB: 11.2 to 8.3 ms. 16 KiB
             * with new inputs: 5.3 to 6.4 us, so not below. */
            .get = FROM(KIB(32)),
            /* 64 KiB in slots of 16 KiB: temporal 13.4 us, non-temporal 15.4 us; 64 MiB 11.1 and
             * 13.9 ms */
            .slot_non_temporal = NEVER,
            /* all_reduce of 1 MiB: 249 to 208 us, with new inputs 296 to 246 us; 512 KiB: slower */
            .sum_non_temporal = FROM(MIB(1)),
            /* broadcast of 2 MiB: 345 to 315 us, with new inputs 399 to 372 us */
            .copy_non_temporal = FROM(MIB(2)),
            .copy_vectors = NEVER,
        },
        [RCMI_OVERSUBSCRIBED] = {
            .eager = UP_TO(KIB(128)),
            .eager_near = UP_TO(KIB(128)),
            /* 128 KiB: 17.7 to 13.6 us with 4 ranks; from 8 MiB on slots are faster (1,819 to
             * 1,433 us) */
            .get = FROM_TO(KIB(128), MIB(8) - 1),
            .slot_non_temporal = NEVER,
            .sum_non_temporal = FROM(MIB(1)),
            .copy_non_temporal = FROM(MIB(2)),
            .copy_vectors = NEVER,
        },
    }},
    [RCMI_CPU_ZEN] = {{
        [RCMI_ROOMY] = {
            .eager = UP_TO(KIB(32)),
            .eager_near = UP_TO(KIB(128)),
            /* the kernel needs 150 ns per page: 64 KiB takes 15.9 us, through slots 10.5 us */
            .get = NEVER,
            /* 64 KiB, temporal stores: near cores twice as fast, far ones a tenth as fast */
            .slot_non_temporal = FROM(KIB(16)),
            /* plain memory of 16 MiB: 3.6 to 2.7 ms */
            .sum_non_temporal = FROM(MIB(4)),
            /* broadcast: 4 MiB temporal 305 to 214 us, 16 MiB temporal a fifth slower */
            .copy_non_temporal = FROM(MIB(16)),
            .copy_vectors = NEVER,
        },
        [RCMI_OVERSUBSCRIBED] = {
            .eager = UP_TO(KIB(128)),
            .eager_near = UP_TO(KIB(128)),
            .get = NEVER,
            .slot_non_temporal = FROM(KIB(16)),
            .sum_non_temporal = FROM(MIB(4)),
            .copy_non_temporal = FROM(MIB(16)),
            .copy_vectors = NEVER,
        },
    }},
    [RCMI_CPU_ZEN_5] = {{
        [RCMI_ROOMY] = {
            .eager = UP_TO(KIB(32)),
            .eager_near = UP_TO(KIB(128)),
            /* 128 KiB: 9 us, through slots 3.5 us */
            .get = NEVER,
            /* with the string instruction, temporal stores are as fast wherever the reader is */
            .slot_non_temporal = NEVER,
            .sum_non_temporal = FROM(MIB(4)),
            .copy_non_temporal = FROM(MIB(16)),
            /* string instruction: 1 MiB takes 20 or 55 us, 8 MiB 170 or 400 us; vectors: always
             * 22 us and 180 us */
            .copy_vectors = FROM(MIB(1)),
        },
        [RCMI_OVERSUBSCRIBED] = {
            .eager = UP_TO(KIB(128)),
            .eager_near = UP_TO(KIB(128)),
            .get = NEVER,
            .slot_non_temporal = NEVER,
            .sum_non_temporal = FROM(MIB(4)),
            .copy_non_temporal = FROM(MIB(16)),
            /* 512 KiB to 4 MiB: vectors are 3 to 30 % slower with 4 and 8 ranks */
            .copy_vectors = NEVER,
        },
    }},
};
/* clang-format on */

const struct rcmi_protocols *rcmi_protocols_of(enum rcmi_cpu cpu) {
    return &built_in[cpu];
}

/* ---- Conversion from and to text ------------------------------------------------------------- */

static const struct {
    const char *name, *help;
    size_t at; /* in struct rcmi_protocol */
} fields[] = {
#define FIELD(name, help) {#name, help, offsetof(struct rcmi_protocol, name)},
    RCMI_PROTOCOL_MAP(FIELD)
#undef FIELD
};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static const char *const sharings[RCMI_SHARINGS] = {"roomy", "oversubscribed"};

static struct rcmi_range *field_range(struct rcmi_protocols *protocols, size_t field, int sharing) {
    return (struct rcmi_range *)(void *)((char *)&protocols->of[sharing] + fields[field].at);
}

/* Writes "64K" for a whole number of K, M or G. */
static void size_write(size_t bytes, char text[24]) {
    static const char suffixes[] = {'\0', 'K', 'M', 'G'};
    int i = 0;
    while (i < 3 && bytes > 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        i++;
    }
    snprintf(text, 24, "%zu%.1s", bytes, &suffixes[i]);
}

static void range_write(struct rcmi_range range, char text[RCMI_RANGE_TEXT]) {
    char from[24], to[24] = "";
    size_write(range.from, from);
    if (range.to != SIZE_MAX)
        size_write(range.to, to);
    if (range.from > range.to)
        snprintf(text, RCMI_RANGE_TEXT, "never");
    else
        snprintf(text, RCMI_RANGE_TEXT, "%s-%s", from, to);
}

static bool size_read(const char *text, size_t len, size_t *ret_bytes) {
    char word[24];
    int64_t value;
    if (len == 0 || len >= sizeof word)
        return false;
    memcpy(word, text, len);
    word[len] = '\0';
    if (rcmi_parse_size(word, &value) != RCM_OK || value < 0)
        return false;
    *ret_bytes = (size_t)value;
    return true;
}

bool rcmi_range_read(const char *text, size_t len, struct rcmi_range *ret_range) {
    struct rcmi_range range = {.to = SIZE_MAX};
    const char *dash = memchr(text, '-', len);
    if (len == 5 && memcmp(text, "never", 5) == 0) {
        *ret_range = (struct rcmi_range){.from = 1};
        return true;
    }
    if (len == 6 && memcmp(text, "always", 6) == 0) {
        *ret_range = range;
        return true;
    }
    const size_t first = dash ? (size_t)(dash - text) : 0;
    if (!dash || !size_read(text, first, &range.from) ||
        (first + 1 < len && !size_read(dash + 1, len - first - 1, &range.to)) ||
        range.from > range.to)
        return false;
    *ret_range = range;
    return true;
}

/* The field that an item names; FIELDS: none. *ret_sharing: -1 for both. */
static size_t field_find(const struct rcmi_item *item, int *ret_sharing) {
    const char *suffix = NULL;
    size_t len = 0, field = 0;
    *ret_sharing = -1;
    while (field < FIELDS && !rcmi_item_is(item, fields[field].name, &suffix, &len))
        field++;
    for (int s = 0; suffix && s < RCMI_SHARINGS; s++)
        if (strlen(sharings[s]) == len && memcmp(sharings[s], suffix, len) == 0)
            *ret_sharing = s;
    return suffix && *ret_sharing < 0 ? FIELDS : field;
}

rcm_status rcmi_protocols_take(const struct rcmi_item *item, const char *origin,
                               struct rcmi_protocols *protocols) {
    struct rcmi_range range;
    int sharing;
    const size_t field = field_find(item, &sharing);
    if (field == FIELDS)
        return RCM_ERR_NOT_FOUND;
    if (!item->value || !rcmi_range_read(item->value, item->value_len, &range))
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s: '%.*s' is not like %s=16K-8M, %s=16K- or %s=never",
                         origin, (int)(item->len < 80 ? item->len : 80), item->text,
                         fields[field].name, fields[field].name, fields[field].name);
    for (int s = 0; s < RCMI_SHARINGS; s++)
        if (sharing < 0 || sharing == s)
            *field_range(protocols, field, s) = range;
    return RCM_OK;
}

rcm_status rcmi_item_unknown(const struct rcmi_item *item, const char *origin) {
    return rcmi_fail(RCM_ERR_CONFIG, 0, "%s: '%.*s' begins with no name that ringcomm-info lists",
                     origin, (int)(item->len < 80 ? item->len : 80), item->text);
}

/* lenient: ignores items of other modules. */
static rcm_status text_read(const char *text, const char *origin, bool lenient,
                            struct rcmi_protocols *protocols) {
    struct rcmi_item item;
    while (rcmi_item_next(&text, &item)) {
        const rcm_status status = rcmi_protocols_take(&item, origin, protocols);
        if (status == RCM_ERR_NOT_FOUND && !lenient)
            return rcmi_item_unknown(&item, origin);
        if (status != RCM_OK && status != RCM_ERR_NOT_FOUND)
            return status;
    }
    return RCM_OK;
}

rcm_status rcmi_protocols_read(const char *text, const char *origin,
                               struct rcmi_protocols *protocols) {
    return text_read(text, origin, false, protocols);
}

/* Thresholds are numbered by field, then by sharing. */
enum { ITEMS = FIELDS * RCMI_SHARINGS };

static struct rcmi_range *item_range(struct rcmi_protocols *protocols, size_t i) {
    return field_range(protocols, i / RCMI_SHARINGS, (int)(i % RCMI_SHARINGS));
}

static void item_name(size_t i, char name[RCMI_PROTOCOL_NAME]) {
    snprintf(name, RCMI_PROTOCOL_NAME, "%s.%s", fields[i / RCMI_SHARINGS].name,
             sharings[i % RCMI_SHARINGS]);
}

/* Appends " NAME=RANGE". */
static void text_add(char text[RCMI_PROTOCOLS_TEXT], const char *name, struct rcmi_range range) {
    char words[RCMI_RANGE_TEXT];
    const size_t used = strlen(text);
    range_write(range, words);
    snprintf(text + used, RCMI_PROTOCOLS_TEXT - used, "%s%s=%s", used ? " " : "", name, words);
}

void rcmi_protocol_write(const struct rcmi_protocol *protocol, char text[RCMI_PROTOCOLS_TEXT]) {
    struct rcmi_protocols one = {.of = {*protocol}};
    text[0] = '\0';
    for (size_t f = 0; f < FIELDS; f++)
        text_add(text, fields[f].name, *field_range(&one, f, 0));
}

void rcmi_protocols_write(const struct rcmi_protocols *protocols, char text[RCMI_PROTOCOLS_TEXT]) {
    struct rcmi_protocols copy = *protocols;
    char name[RCMI_PROTOCOL_NAME];
    text[0] = '\0';
    for (size_t i = 0; i < ITEMS; i++) {
        item_name(i, name);
        text_add(text, name, *item_range(&copy, i));
    }
}

/* ---- The thresholds of this process ---------------------------------------------------------- */

#define TUNING_MAX 65536

/* *ret_file NULL: no file is set. Rejects files that could block for ever, such as a FIFO. */
static rcm_status tuning_open(const char *path, FILE **ret_file) {
    struct stat info;
    int fd = path[0] ? rcmi_fd_high(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)) : -1;
    rcm_status status = RCM_OK;
    *ret_file = NULL;
    if (!path[0])
        return RCM_OK;
    if (fd < 0 || fstat(fd, &info) != 0)
        status = rcmi_fail(RCM_ERR_CONFIG, errno, "cannot read RINGCOMM_TUNING=%s", path);
    else if (!S_ISREG(info.st_mode))
        status = rcmi_fail(RCM_ERR_CONFIG, 0, "RINGCOMM_TUNING=%s is no regular file", path);
    else if (!(*ret_file = fdopen(fd, "r")))
        status = rcmi_fail(RCM_ERR_NOMEM, errno, "no memory for RINGCOMM_TUNING=%s", path);
    if (status != RCM_OK)
        rcmi_fd_close(&fd);
    return status;
}

rcm_status rcmi_tuning_text(char **ret_text) {
    const char *path = rcmi_setting("RINGCOMM_TUNING");
    FILE *file;
    rcm_status status = tuning_open(path, &file);
    if (status != RCM_OK)
        return status;
    char *text = calloc(1, TUNING_MAX + 2);
    const size_t len = file && text ? fread(text, 1, TUNING_MAX + 1, file) : 0;
    if (!text)
        status = rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "no memory for RINGCOMM_TUNING=%s", path);
    else if (file && ferror(file))
        status = rcmi_fail(RCM_ERR_CONFIG, errno, "cannot read RINGCOMM_TUNING=%s", path);
    else if (len > TUNING_MAX || strlen(text) < len)
        status =
            rcmi_fail(RCM_ERR_CONFIG, 0, "RINGCOMM_TUNING=%s is not a text of at most %d bytes",
                      path, TUNING_MAX);
    if (file)
        fclose(file);
    if (status != RCM_OK) {
        free(text);
        return status;
    }
    *ret_text = text;
    return RCM_OK;
}

static rcm_status tuning_read(struct rcmi_protocols *protocols) {
    char *text;
    rcm_status status = rcmi_tuning_text(&text);
    if (status != RCM_OK)
        return status;
    status = text_read(text, rcmi_setting("RINGCOMM_TUNING"), true, protocols);
    free(text);
    return status;
}

/* Variables that override the built-in thresholds, in this order. */
static const char *const variables[] = {"RINGCOMM_TUNING", "RINGCOMM_PROTOCOL"};
enum { VARIABLES = sizeof variables / sizeof variables[0] };

static rcm_status variable_read(int which, struct rcmi_protocols *protocols) {
    if (which == 0)
        return tuning_read(protocols);
    return rcmi_protocols_read(rcmi_setting(variables[which]), variables[which], protocols);
}

rcm_status rcmi_protocols_local(struct rcmi_protocols *ret_protocols) {
    rcm_status status = RCM_OK;
    *ret_protocols = *rcmi_protocols_of(rcmi_cpu());
    for (int v = 0; v < VARIABLES && status == RCM_OK; v++)
        status = variable_read(v, ret_protocols);
    return status;
}

rcm_status rcmi_protocols_item(size_t i, struct rcmi_protocol_item *ret_item) {
    const struct rcmi_range unset = {2, 0}; /* no text produces this */
    struct rcmi_protocols result = *rcmi_protocols_of(rcmi_cpu());
    if (i >= ITEMS)
        return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "there is no constant number %zu, only %d", i,
                         (int)ITEMS);
    struct rcmi_range *at = item_range(&result, i), now = *at;
    item_name(i, ret_item->name);
    range_write(now, ret_item->built_in);
    snprintf(ret_item->origin, sizeof ret_item->origin, "built in for %s",
             rcmi_cpu_text(rcmi_cpu()));
    for (int v = 0; v < VARIABLES; v++) {
        *at = unset;
        const rcm_status status = variable_read(v, &result);
        if (status != RCM_OK)
            return status;
        if (at->from == unset.from && at->to == unset.to)
            continue;
        now = *at;
        snprintf(ret_item->origin, sizeof ret_item->origin, "%s", variables[v]);
    }
    range_write(now, ret_item->value);
    ret_item->help = fields[i / RCMI_SHARINGS].help;
    return RCM_OK;
}

void rcmi_protocols_forbid_get(struct rcmi_protocols *protocols) {
    for (int s = 0; s < RCMI_SHARINGS; s++)
        protocols->of[s].get = (struct rcmi_range)NEVER;
}
