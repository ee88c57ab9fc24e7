/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Channel ends as seen by the link. Each has a number: an index and, in the upper half, a
 * generation that changes with each use of the index. So a late notice for an earlier end is
 * recognised.
 *
 * A writer's end is freed when its end of stream (VERBS_END), and with it everything posted before,
 * has reached the reader. A reader's end is freed when it is closed and has received the end of
 * stream. When the link is down, all ends are freed.
 */
#include <stdlib.h>
#include <string.h>
#include "verbs.h"

enum { ENDS_FIRST = 16 };

static uint32_t end_index(uint32_t number) {
    return number & (VERBS_ENDS_MAX - 1);
}

/* ---- The table ------------------------------------------------------------------------------- */

static rcm_status ends_grow(struct verbs_link *link) {
    const uint32_t n = link->nends ? 2 * link->nends : ENDS_FIRST;
    if (n > VERBS_ENDS_MAX)
        return rcmi_fail_peer(RCM_ERR_RESOURCE, link->peer, "more than %u channels with rank %d",
                              VERBS_ENDS_MAX, link->peer);
    struct verbs_end **ends = realloc(link->ends, n * sizeof(struct verbs_end *));
    if (!ends)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %u channels with rank %d", n, link->peer);
    memset(ends + link->nends, 0, (n - link->nends) * sizeof(struct verbs_end *));
    link->ends = ends;
    link->nends = n;
    return RCM_OK;
}

static rcm_status end_enter(struct verbs_link *link, struct verbs_end *end) {
    uint32_t i = 0;
    while (i < link->nends && link->ends[i])
        i++;
    if (i == link->nends) {
        const rcm_status status = ends_grow(link);
        if (status != RCM_OK)
            return status;
    }
    link->generation += VERBS_ENDS_MAX;
    if (link->generation == 0) /* 0 is not a valid number */
        link->generation = VERBS_ENDS_MAX;
    end->number = link->generation | i;
    end->listed = true;
    link->ends[i] = end;
    return RCM_OK;
}

struct verbs_end *verbs_end_find(const struct verbs_link *link, uint32_t number) {
    const uint32_t i = end_index(number);
    struct verbs_end *end = i < link->nends ? link->ends[i] : NULL;
    return end && end->number == number ? end : NULL;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void end_discard(struct verbs_end *end) {
    const struct verbs_domain *domain = end->link->domain;
    if (!verbs_untouchable(domain))
        verbs_region_free(domain->table, &end->region);
    free(end->messages);
    free(end->posts);
    free(end);
}

rcm_status verbs_end_make(struct verbs_link *link, const struct rcmi_channel *channel,
                          struct verbs_end **ret_end) {
    struct verbs_end *end = rcmi_zalloc(sizeof *end);
    if (!end)
        return RCM_ERR_NOMEM;
    end->link = link;
    end->is_writer = channel->is_writer;
    end->slots = channel->slots;
    end->slot_bytes = channel->slot_bytes;
    end->stride = (channel->slot_bytes + VERBS_PAGE - 1) / VERBS_PAGE * VERBS_PAGE;
    end->messages = calloc(end->slots, sizeof *end->messages);
    end->posts = calloc(end->slots, sizeof *end->posts);
    rcm_status status = end->messages && end->posts
                            ? RCM_OK
                            : rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %u messages", end->slots);
    if (status == RCM_OK)
        status = verbs_region_make(link->port, end->stride * end->slots,
                                   end->is_writer ? 0 : IBV_ACCESS_REMOTE_WRITE, &end->region);
    verbs_lock_take(&link->lock);
    if (status == RCM_OK)
        status = end_enter(link, end);
    verbs_lock_drop(&link->lock);
    if (status != RCM_OK) {
        end_discard(end);
        return status;
    }
    *ret_end = end;
    return RCM_OK;
}

static void end_unlink(struct verbs_end **first, const struct verbs_end *end) {
    while (*first && *first != end)
        first = &(*first)->next;
    if (*first)
        *first = end->next;
}

void verbs_end_free(struct verbs_end *end) {
    struct verbs_link *link = end->link;
    if (end->waiting)
        verbs_post_forget(link, end);
    end_unlink(&link->dying, end);
    link->ends[end_index(end->number)] = NULL;
    end_discard(end);
}

void verbs_ends_reap(struct verbs_link *link) {
    for (struct verbs_end *end = link->dying, *next; end; end = next) {
        next = end->next;
        if (link->reached >= end->last)
            verbs_end_free(end);
    }
}

void verbs_end_close(struct verbs_end *end) {
    struct verbs_link *link = end->link;
    verbs_lock_take(&link->lock);
    end->closed = true;
    if (!link->qp || (end->is_writer ? !end->far : end->ended || !end->far))
        verbs_end_free(end);
    else if (end->is_writer)
        verbs_post_later(link, end);
    verbs_lock_drop(&link->lock);
}

void verbs_ends_free(struct verbs_link *link) {
    for (uint32_t i = 0; i < link->nends; i++)
        if (link->ends[i])
            verbs_end_free(link->ends[i]);
    free(link->ends);
    link->ends = NULL;
    link->nends = 0;
}
