/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The writer's side of a get (see get.c): writes a piece into the reader's memory, or copies it to
 * the message's slot. Values written by the reader are read once, and checked here or by the
 * kernel.
 */
#include "shm.h"

#include <sys/uio.h>

static struct shm_channel *shm_of(struct rcmi_channel *channel) {
    return (struct shm_channel *)channel;
}

/* Writes one piece to the reader's memory, if the permit allows it. */
static bool push(const struct shm_link *link, const struct rcmi_fifo_request *request,
                 uint64_t piece) {
    const uint64_t dest = atomic_load_explicit(&request->dest, memory_order_acquire);
    const uint64_t from = atomic_load_explicit(&request->from, memory_order_acquire);
    const uint64_t permit = atomic_load_explicit(&request->permit, memory_order_acquire);
    const size_t len = (size_t)atomic_load_explicit(&request->len, memory_order_acquire);
    const struct shm_span span = shm_span(len, shm_piece(len), piece);
    uint8_t mark = 1;
    const struct iovec mine[2] = {{&mark, sizeof mark},
                                  {(void *)(uintptr_t)(from + span.at), span.len}};
    const struct iovec there[2] = {{(void *)(uintptr_t)permit, sizeof mark},
                                   {(void *)(uintptr_t)(dest + span.at), span.len}};
    return process_vm_writev(link->self.pid, mine, 2, there, 2, 0) ==
           (ssize_t)(sizeof mark + span.len);
}

static bool help_by_copy(struct shm_channel *shm, struct rcmi_fifo_request *request) {
    const uint64_t number = atomic_load_explicit(&request->number, memory_order_acquire);
    if (number == shm->helped)
        return false;
    uint64_t claims = atomic_load_explicit(&request->claims, memory_order_acquire);
    const size_t len = (size_t)atomic_load_explicit(&request->len, memory_order_acquire);
    const uint64_t pieces = shm_pieces(len, shm_piece(len));
    do {
        if (!shm_claims_right(claims, number, pieces) ||
            shm_claims_front(claims) + shm_claims_back(claims) == pieces ||
            pieces >= SHM_PIECES_MAX) {
            shm->helped = number;
            return false;
        }
    } while (!atomic_compare_exchange_weak(&request->claims, &claims, claims + 1));
    const uint64_t back = shm_claims_back(claims);
    const bool did = shm_look(shm->link) && push(shm->link, request, pieces - 1 - back);
    if (!did)
        shm->helped = number;
    atomic_store_explicit(&request->helped,
                          number << SHM_PIECES_BITS | (did ? back + 1 : SHM_FAILED),
                          memory_order_release);
    rcmi_doorbell_ring(shm->wake.doorbell, shm->wake.eventfd);
    return did;
}

/* The unreleased message with this number that is to be got; NULL if there is none. */
static const struct shm_sent *sent_find(const struct shm_channel *shm, uint64_t number) {
    const struct rcmi_fifo_shape *shape = &shm->fifo.writer.shape;
    for (uint32_t i = 0; i < shape->slots; i++)
        if (shm->sent[i].number == number && number > shm->completed &&
            !rcmi_fifo_taken(&shm->fifo.writer, number))
            return &shm->sent[i];
    return NULL;
}

static bool help_by_slot(struct shm_channel *shm, struct rcmi_fifo_request *request) {
    const uint64_t word = atomic_load_explicit(&request->wanted, memory_order_acquire);
    const uint64_t piece = (word & SHM_PIECES_MAX) - 1;
    if (word == shm->bounced)
        return false;
    const struct shm_sent *sent = sent_find(shm, word >> SHM_PIECES_BITS);
    shm->bounced = word;
    if (!sent || piece >= shm_pieces(sent->len, shm->base.slot_bytes))
        return false;
    const struct shm_span span = shm_span(sent->len, shm->base.slot_bytes, piece);
    const uint32_t index = (uint32_t)(sent - shm->sent);
    if (index >= shm->nslots)
        (void)!shm_slots_make(shm, index); /* on failure, pages are allocated by the first write */
    rcmi_copy(sent->slot, (const uint8_t *)sent->bytes + span.at, span.len);
    atomic_store_explicit(&request->bounced, word, memory_order_release);
    rcmi_doorbell_ring(shm->wake.doorbell, shm->wake.eventfd);
    return true;
}

bool shm_help(struct rcmi_channel *channel) {
    struct shm_channel *shm = shm_of(channel);
    struct rcmi_fifo_request *request = rcmi_fifo_request(shm->memory, &shm->fifo.writer.shape);
    if (!request || !shm->link)
        return false;
    return help_by_copy(shm, request) || help_by_slot(shm, request);
}
