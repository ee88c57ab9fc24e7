/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agreements of a process on survivors: creation and end, sending, and final decisions. See
 * survivors.h. Not here: deciding (survivors_lead.c), and received messages (survivors_receive.c).
 */
#include "survivors.h"
#include "log.h"
#include "thread.h"
#include <stdlib.h>
#include <string.h>

/* ---- Life ------------------------------------------------------------------------------------ */

rcm_status rcmi_agreements_create(const struct rcmi_agreements_config *config,
                                  struct rcmi_agreements **ret_agreements) {
    struct rcmi_agreements *all = calloc(1, sizeof(*all));
    if (!all)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for agreements");
    rcmi_condition_init(&all->changed);
    pthread_mutex_init(&all->lock, NULL);
    all->config = *config;
    *ret_agreements = all;
    return RCM_OK;
}

static void agreement_free_answers(const struct rcmi_agreements *all, struct rcmi_agreement *a) {
    for (int r = 0; a->answers && r < all->config.nranks; r++)
        free(a->answers[r].gone);
    free(a->answers);
    a->answers = NULL;
}

void rcmi_agreements_free(struct rcmi_agreements *all) {
    if (!all)
        return;
    while (all->head) {
        struct rcmi_agreement *a = all->head;
        all->head = a->next;
        agreement_free_answers(all, a);
        free(a->decision);
        free(a);
    }
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

struct rcmi_agreement *rcmi_agreement_find(struct rcmi_agreements *all, uint64_t epoch,
                                           uint32_t number) {
    struct rcmi_agreement *a = all->head;
    while (a && (a->epoch != epoch || a->number != number))
        a = a->next;
    return a;
}

struct rcmi_agreement *rcmi_agreement_get(struct rcmi_agreements *all, uint64_t epoch,
                                          uint32_t number) {
    struct rcmi_agreement *a = rcmi_agreement_find(all, epoch, number);
    if (a)
        return a;
    a = calloc(1, sizeof(*a));
    if (a)
        a->answers = calloc((size_t)all->config.nranks, sizeof(*a->answers));
    if (!a || !a->answers) {
        free(a);
        (void)rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for an agreement of %d ranks",
                        all->config.nranks);
        return NULL;
    }
    a->epoch = epoch;
    a->number = number;
    a->last_coordinator = -1;
    a->next = all->head;
    all->head = a;
    return a;
}

/* ---- Sending; under the lock, which may be held while sending -------------------------------- */

void rcmi_agree_fill(const struct rcmi_agreements *all, const struct rcmi_agreement *a,
                     enum rcmi_agree_kind kind, struct rcmi_agree *message) {
    memset(message, 0, sizeof(*message));
    message->magic = RCMI_AGREE_MAGIC;
    message->epoch = a->epoch;
    message->number = a->number;
    message->kind = kind;
    message->origin = -1;
    message->by = kind == RCMI_AGREE_DECISION ? all->config.rank : -1;
    message->nranks = (uint32_t)all->config.nranks;
    if (a->call && a->call->excluded)
        memcpy(rcmi_agree_excluded(message), a->call->excluded,
               RCMI_RANKS_BYTES(all->config.nranks));
}

void rcmi_agree_send(const struct rcmi_agreements *all, int peer,
                     const struct rcmi_agree *message) {
    if (peer != all->config.rank)
        (void)rcmi_node_send(all->config.node, peer, message, rcmi_agree_bytes(message->nranks));
}

void rcmi_agree_send_kind(const struct rcmi_agreements *all, const struct rcmi_agreement *a,
                          int peer, enum rcmi_agree_kind kind) {
    struct rcmi_agree message;
    rcmi_agree_fill(all, a, kind, &message);
    rcmi_agree_send(all, peer, &message);
}

bool rcmi_agree_lost(const struct rcmi_agreements *all, int peer) {
    return peer != all->config.rank && rcmi_node_gone(all->config.node, peer);
}

bool rcmi_agree_excludes(const struct rcmi_agreement *a, int world) {
    return a->call && a->call->excluded && rcmi_set_has(a->call->excluded, world);
}

void rcmi_agree_settle(struct rcmi_agreements *all, struct rcmi_agreement *a,
                       const struct rcmi_agree *decision, int from) {
    const size_t bytes = rcmi_agree_bytes(decision->nranks);
    a->decision = malloc(bytes);
    if (!a->decision) {
        rcmi_log(RCMI_LOG_ERROR, "no memory for a decision of %zu bytes", bytes);
        return;
    }
    memcpy(a->decision, decision, bytes);
    for (int r = 0; r < all->config.nranks; r++)
        if (r != from && (a->answers[r].called || a->answers[r].joined))
            rcmi_agree_send(all, r, decision);
    agreement_free_answers(all, a);
    pthread_cond_broadcast(&all->changed);
}

bool rcmi_agree_absent(const struct rcmi_agreements *all, const struct rcmi_agreement *a,
                       int rank) {
    const struct rcmi_members *members = a->call->members;
    return rank != members->rank &&
           (rcmi_agree_lost(all, members->world_rank[rank]) || a->call->left(a->call->arg, rank) ||
            rcmi_agree_excludes(a, members->world_rank[rank]));
}

int rcmi_agree_coordinator(const struct rcmi_agreements *all, const struct rcmi_agreement *a) {
    const struct rcmi_members *members = a->call->members;
    int lowest = all->config.rank;
    for (int r = 0; r < members->size; r++)
        if (members->world_rank[r] < lowest && !rcmi_agree_absent(all, a, r))
            lowest = members->world_rank[r];
    return lowest;
}

uint64_t rcmi_agree_child_epoch(const struct rcmi_agree *decision) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    const uint64_t head[2] = {decision->epoch, decision->number};
    const uint8_t *bytes = (const uint8_t *)head;
    for (size_t i = 0; i < sizeof(head); i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < (decision->nranks + 7) / 8; i++)
        hash = (hash ^ decision->set[i]) * UINT64_C(0x100000001b3);
    hash = (hash ^ hash >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return RCMI_EPOCH_SHRUNK | hash >> 2;
}
