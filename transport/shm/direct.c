/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that do not travel through slots, because they lie in, or go to, memory that the other
 * side can map (memory.c). The message's header tells of them as of any other; beside it stands
 *
 *   lent     where in the writer's memory file the payload is: the reader reads it there, and the
 *            message is given back when it has
 *   direct   nothing: the writer found the reader's invitation for this message, and wrote the
 *            payload to the place that the reader had named in its own memory file
 *
 * What the other side says is read once and checked before it is used.
 */
#include "shm.h"

static struct shm_channel *shm_of(struct rcmi_channel *channel) {
    return (struct shm_channel *)channel;
}

/* ---- Writer ------------------------------------------------------------------------------------
 */

rcm_status shm_lend(struct rcmi_channel *channel, const void *bytes, size_t len, uint64_t meta) {
    struct shm_channel *shm = shm_of(channel);
    struct shm_place place;
    if (!shm_memory_find(&shm->domain->memory, bytes, len, &place))
        return RCM_ERR_UNSUPPORTED; /* no sentence: the caller copies instead, this is no failure */
    struct rcmi_ring_writer *writer = &shm->ring.writer;
    rcm_status status = rcmi_ring_room(writer);
    if (status != RCM_OK)
        return status;
    memcpy(writer->header->bytes, &place, sizeof place);
    rcmi_ring_publish(writer, len | RCMI_RING_LENT, meta);
    shm->lent = writer->produced;
    shm->direct = NULL;
    shm_publish(shm);
    return RCM_OK;
}

/* Every reader has given back what was lent last? Readers that are gone never will: their channel
 * has failed, and its error says it. */
bool shm_quiet(struct rcmi_channel *channel) {
    struct shm_channel *shm = shm_of(channel);
    if (shm->lent != 0 && rcmi_ring_taken(&shm->ring.writer, shm->lent))
        shm->lent = 0;
    return shm->lent == 0;
}

void *shm_direct(struct rcmi_channel *channel, size_t len) {
    struct shm_channel *shm = shm_of(channel);
    struct rcmi_ring_writer *writer = &shm->ring.writer;
    struct rcmi_ring_invitation *invitation =
        rcmi_ring_invitation(writer->base, &writer->shape, writer->produced + 1);
    struct shm_place place;
    if (!shm->link || !invitation)
        return NULL;
    /* Pairs with the release store in shm_invite. */
    if (atomic_load_explicit(&invitation->seq, memory_order_acquire) != writer->produced + 1 ||
        *(const volatile uint64_t *)&invitation->cap < len)
        return NULL;
    memcpy(&place, invitation->place, sizeof place);
    /* A place that cannot be is declined: the reader then finds the message in its slot. */
    if (shm_window_find(shm->link, &place, len, &shm->window, &shm->direct) != RCM_OK)
        shm->direct = NULL;
    return shm->direct;
}

/* ---- Reader ------------------------------------------------------------------------------------
 */

static void invitations_withdraw(struct shm_channel *shm) {
    struct rcmi_ring_reader *reader = &shm->ring.reader;
    for (uint64_t i = 0; i < reader->shape.slots; i++) {
        atomic_store_explicit(&rcmi_ring_invitation(reader->base, &reader->shape, i)->seq, 0,
                              memory_order_relaxed);
    }
}

void shm_invite(struct rcmi_channel *channel, uint32_t ahead, void *place, size_t cap) {
    struct shm_channel *shm = shm_of(channel);
    struct rcmi_ring_reader *reader = &shm->ring.reader;
    const uint64_t number = reader->consumed + 1 + ahead;
    struct rcmi_ring_invitation *invitation =
        rcmi_ring_invitation(reader->base, &reader->shape, number);
    struct shm_domain *domain = shm->link->domain;
    struct shm_place where;
    if (!invitation || ahead >= reader->shape.slots)
        return;
    if (cap == 0) {
        invitations_withdraw(shm);
        return;
    }
    if (!shm_memory_find(&domain->memory, place, cap, &where))
        return;
    shm->invited[number % reader->shape.slots] =
        (struct shm_invited){.number = number, .cap = cap, .place = place};
    memcpy(invitation->place, &where, sizeof where);
    invitation->cap = cap;
    /* Pairs with the acquire load in shm_direct. */
    atomic_store_explicit(&invitation->seq, number, memory_order_release);
}

rcm_status shm_direct_peek(struct shm_channel *shm, uint64_t len, const void **ret_bytes) {
    struct rcmi_ring_reader *reader = &shm->ring.reader;
    const uint64_t number = reader->consumed + 1;
    const size_t bytes = (size_t)(len & ~RCMI_RING_FLAGS);
    struct shm_place place;
    void *at = NULL;
    const struct shm_invited *invited = &shm->invited[number % reader->shape.slots];
    if ((len & RCMI_RING_FLAGS) == RCMI_RING_DIRECT && invited->number == number &&
        bytes <= invited->cap) {
        *ret_bytes = invited->place;
        return RCM_OK;
    }
    if ((len & RCMI_RING_FLAGS) != RCMI_RING_LENT)
        return rcmi_ring_broken(reader, number, len);
    memcpy(&place, reader->header->bytes, sizeof place);
    rcm_status status = shm_window_find(shm->link, &place, bytes, &shm->window, &at);
    if (status == RCM_OK)
        *ret_bytes = at;
    return status;
}
