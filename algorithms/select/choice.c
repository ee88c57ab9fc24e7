/* SPDX-License-Identifier: BSD-3-Clause */
/* Algorithms named for sizes; see choice.h. */
#include "choice.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"
#include "log.h"

#define NAME_MAX_BYTES 64

static rcm_status choice_add(struct rcmi_choices *choices, const struct rcmi_choice *choice) {
    struct rcmi_choice *all = realloc(choices->all, (choices->n + 1) * sizeof(*all));
    if (!all)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for named algorithms");
    all[choices->n++] = *choice;
    choices->all = all;
    return RCM_OK;
}

/* "NAME" or "NAME:SIZES". */
struct piece {
    char name[NAME_MAX_BYTES];
    struct rcmi_range sizes;
};

static rcm_status piece_read(const char *text, size_t len, const char *origin,
                             struct piece *ret_piece) {
    const char *colon = memchr(text, ':', len);
    const size_t name_len = colon ? (size_t)(colon - text) : len;
    ret_piece->sizes = (struct rcmi_range){.to = SIZE_MAX};
    if (name_len == 0 || name_len >= sizeof(ret_piece->name) ||
        (colon && !rcmi_range_read(colon + 1, len - name_len - 1, &ret_piece->sizes)))
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s: '%.*s' is not like ring, ring:32K- or ring:1K-32K",
                         origin, (int)(len < 80 ? len : 80), text);
    memcpy(ret_piece->name, text, name_len);
    ret_piece->name[name_len] = '\0';
    return RCM_OK;
}

static rcm_status piece_take(struct rcmi_choices *choices, const struct piece *piece,
                             enum rcm_collective collective, const struct rcmi_shape *shape,
                             bool lenient) {
    struct rcmi_choice choice = {
        .collective = collective, .sizes = piece->sizes, .lenient = lenient};
    const rcm_status status =
        rcmi_algorithm_find(collective, piece->name, shape, &choice.algorithm);
    return status == RCM_OK ? choice_add(choices, &choice) : status;
}

/* Takes the pieces of an item for one collective. */
static rcm_status pieces_take(struct rcmi_choices *choices, const struct rcmi_item *item,
                              enum rcm_collective collective, const char *origin,
                              const struct rcmi_shape *shape, bool lenient) {
    const char *text = item->value, *end = item->value + item->value_len;
    rcm_status status = RCM_OK;
    while (status == RCM_OK && text <= end) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        const char *stop = comma ? comma : end;
        struct piece piece;
        text += strspn(text, " \t");
        status = piece_read(text, (size_t)(stop - text), origin, &piece);
        if (status != RCM_OK)
            return status;
        status = piece_take(choices, &piece, collective, shape, lenient);
        if (status == RCM_ERR_UNSUPPORTED && lenient)
            status = RCM_OK;
        text = stop + 1;
    }
    return status == RCM_OK ? status : rcmi_fail_context("%s", origin);
}

/* Takes an item without a collective: for each collective that has an algorithm of that name. */
static rcm_status nameless_take(struct rcmi_choices *choices, const struct rcmi_item *item,
                                const char *origin, const struct rcmi_shape *shape, bool lenient) {
    struct piece piece;
    bool used = false;
    rcm_status status = piece_read(item->text, item->len, origin, &piece);
    for (int c = 1; c < RCMI_COLLECTIVES && status == RCM_OK; c++) {
        if (!rcmi_collective_at(c))
            continue;
        status = piece_take(choices, &piece, (enum rcm_collective)c, shape, lenient);
        used = used || status == RCM_OK;
        if (status == RCM_ERR_INVALID || status == RCM_ERR_UNSUPPORTED)
            status = RCM_OK;
    }
    if (status != RCM_OK || used)
        return status;
    return rcmi_fail(RCM_ERR_CONFIG, 0,
                     "%s names %s, which is not an algorithm that can run these ranks", origin,
                     piece.name);
}

static enum rcm_collective item_collective(const struct rcmi_item *item) {
    for (int c = 1; c < RCMI_COLLECTIVES; c++) {
        const char *name = rcmi_collective_name((enum rcm_collective)c);
        if (rcmi_collective_at(c) && strlen(name) == item->name_len &&
            memcmp(name, item->text, item->name_len) == 0)
            return (enum rcm_collective)c;
    }
    return (enum rcm_collective)0;
}

bool rcmi_choice_known(const struct rcmi_item *item) {
    return item->value && item_collective(item) != 0;
}

static rcm_status choices_take(struct rcmi_choices *choices, const struct rcmi_item *item,
                               const char *origin, const struct rcmi_shape *shape, bool lenient) {
    const enum rcm_collective collective = item_collective(item);
    if (!item->value)
        return nameless_take(choices, item, origin, shape, lenient);
    if (!collective)
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s names %.*s, which is not a collective", origin,
                         (int)item->name_len, item->text);
    return pieces_take(choices, item, collective, origin, shape, lenient);
}

rcm_status rcmi_choices_read(struct rcmi_choices *choices, const char *text, const char *origin,
                             const struct rcmi_shape *shape, bool lenient) {
    struct rcmi_item item;
    while (rcmi_item_next(&text, &item)) {
        const rcm_status status = choices_take(choices, &item, origin, shape, lenient);
        if (status != RCM_OK)
            return status;
    }
    return RCM_OK;
}

static bool choice_fits(const struct rcmi_choice *choice, enum rcm_collective collective,
                        size_t bytes, uint32_t needs) {
    return choice->collective == collective && rcmi_range_has(choice->sizes, bytes) &&
           (!choice->lenient || rcmi_algorithm_meets(choice->algorithm, needs));
}

const struct rcmi_algorithm *rcmi_choices_find(const struct rcmi_choices *choices,
                                               enum rcm_collective collective, size_t bytes,
                                               uint32_t needs) {
    for (size_t i = choices->n; i-- > 0;)
        if (choice_fits(&choices->all[i], collective, bytes, needs))
            return choices->all[i].algorithm;
    return NULL;
}

rcm_status rcmi_choices_keep(const struct rcmi_choices *from, const struct rcmi_shape *shape,
                             struct rcmi_choices *to) {
    rcm_status status = RCM_OK;
    for (size_t i = 0; i < from->n && status == RCM_OK; i++) {
        if (from->all[i].algorithm->supports(shape))
            status = choice_add(to, &from->all[i]);
        else
            rcmi_log(RCMI_LOG_INFO,
                     "%s no longer uses the chosen algorithm %s, but selects by price: it cannot "
                     "run %d ranks on %d hosts",
                     rcmi_collective_name(from->all[i].collective), from->all[i].algorithm->name,
                     shape->nranks, shape->nhosts);
    }
    return status;
}

void rcmi_choices_free(struct rcmi_choices *choices) {
    free(choices->all);
    *choices = (struct rcmi_choices){.n = 0};
}
