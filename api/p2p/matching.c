/* SPDX-License-Identifier: BSD-3-Clause */
/* Matching: see matching.h. */
#include "matching.h"
#include <stdlib.h>
#include <string.h>

/* ---- Keys ------------------------------------------------------------------------------------ */

#define ANY UINT64_MAX /* also RCM_ANY_TAG */

static struct rcmi_key key_of(int peer, uint64_t tag) {
    return (struct rcmi_key){{peer < 0 ? ANY : (uint64_t)peer, tag}};
}

static int kind_of(struct rcmi_key key) {
    return (key.word[0] == ANY ? RCMI_MATCH_ANY_SOURCE : 0) |
           (key.word[1] == ANY ? RCMI_MATCH_ANY_TAG : 0);
}

/* The key of a receive of some kind that matches a message of this peer and tag. */
static struct rcmi_key key_for(int kind, int peer, uint64_t tag) {
    return key_of(kind & RCMI_MATCH_ANY_SOURCE ? RCM_ANY_SOURCE : peer,
                  kind & RCMI_MATCH_ANY_TAG ? ANY : tag);
}

/* ---- Receives -------------------------------------------------------------------------------- */

void rcmi_matching_post(struct rcmi_matching *m, struct rcmi_transfer *t) {
    const struct rcmi_key key = key_of(t->peer, t->tag);
    t->order = ++m->order;
    m->of[kind_of(key)]++;
    rcmi_keyed_add(&m->receives, key, &t->item);
    rcmi_transfers_append(&m->posted, t);
}

void rcmi_matching_unpost(struct rcmi_matching *m, struct rcmi_transfer *t) {
    m->of[kind_of(t->item.key)]--;
    rcmi_keyed_remove(&m->receives, &t->item);
    rcmi_transfers_remove(&m->posted, t);
    t->order = 0;
}

static struct rcmi_transfer *earlier(struct rcmi_transfer *a, struct rcmi_keyed_item *item) {
    struct rcmi_transfer *b = item ? rcmi_transfer_of(item) : NULL;
    return !a || (b && b->order < a->order) ? b : a;
}

struct rcmi_transfer *rcmi_matching_take_receive(struct rcmi_matching *m, int peer, uint64_t tag) {
    struct rcmi_transfer *first = NULL;
    for (int kind = 0; kind < RCMI_MATCH_KINDS; kind++)
        if (m->of[kind] > 0)
            first = earlier(first, rcmi_keyed_find(&m->receives, key_for(kind, peer, tag)));
    if (first)
        rcmi_matching_unpost(m, first);
    return first;
}

/* ---- Messages -------------------------------------------------------------------------------- */

static struct rcmi_unexpected *message_of(struct rcmi_keyed_item *item) {
    const size_t at = offsetof(struct rcmi_unexpected, items);
    return (struct rcmi_unexpected *)((char *)(item - kind_of(item->key)) - at);
}

rcm_status rcmi_matching_keep(struct rcmi_matching *m, const struct rcmi_arrival *arrival) {
    const size_t len = arrival->rendezvous ? 0 : arrival->total;
    struct rcmi_unexpected *message = malloc(sizeof(*message) + len);
    if (!message)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a message of %zu bytes from rank %d", len,
                         arrival->peer);
    message->arrival = *arrival;
    message->arrival.bytes = message->bytes;
    if (len)
        memcpy(message->bytes, arrival->bytes, len);
    for (int kind = 0; kind < RCMI_MATCH_KINDS; kind++)
        rcmi_keyed_add(&m->messages, key_for(kind, arrival->peer, arrival->tag),
                       &message->items[kind]);
    return RCM_OK;
}

struct rcmi_unexpected *rcmi_matching_find(const struct rcmi_matching *m, int peer, uint64_t tag) {
    struct rcmi_keyed_item *item =
        m->messages.n > 0 ? rcmi_keyed_find(&m->messages, key_of(peer, tag)) : NULL;
    return item ? message_of(item) : NULL;
}

void rcmi_matching_take(struct rcmi_matching *m, struct rcmi_unexpected *message) {
    for (int kind = 0; kind < RCMI_MATCH_KINDS; kind++)
        rcmi_keyed_remove(&m->messages, &message->items[kind]);
}

static struct rcmi_key key_aside(const void *message) {
    return (struct rcmi_key){{(uintptr_t)message, 0}};
}

void rcmi_matching_set_aside(struct rcmi_matching *m, struct rcmi_unexpected *message) {
    rcmi_matching_take(m, message);
    rcmi_keyed_add(&m->taken, key_aside(message), &message->items[0]);
}

struct rcmi_unexpected *rcmi_matching_take_aside(struct rcmi_matching *m, const void *message) {
    struct rcmi_keyed_item *item = rcmi_keyed_find(&m->taken, key_aside(message));
    if (!item)
        return NULL;
    rcmi_keyed_remove(&m->taken, item);
    return (struct rcmi_unexpected *)((char *)item - offsetof(struct rcmi_unexpected, items));
}

/* ---- Creation and end ------------------------------------------------------------------------ */

void rcmi_matching_init(struct rcmi_matching *m) {
    *m = (struct rcmi_matching){0};
    rcmi_transfers_init(&m->posted);
}

void rcmi_matching_fini(struct rcmi_matching *m) {
    struct rcmi_unexpected *message;
    struct rcmi_keyed_item *item;
    while ((message = rcmi_matching_find(m, RCM_ANY_SOURCE, RCM_ANY_TAG))) {
        rcmi_matching_take(m, message);
        free(message);
    }
    while ((item = rcmi_keyed_any(&m->taken)))
        free(rcmi_matching_take_aside(m, (void *)(uintptr_t)item->key.word[0]));
    rcmi_keyed_fini(&m->taken);
    rcmi_keyed_fini(&m->messages);
    rcmi_keyed_fini(&m->receives);
}
