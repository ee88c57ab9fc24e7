/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What happens to a message: it is taken from the inner transport when it has arrived, held until
 * it is due, and possibly changed. Then it is shown to the reader until it is released. Random
 * choices depend on the seed, the two ranks, the channel and the number of the message, not on
 * time.
 */
#include <stdlib.h>
#include <string.h>
#include "chaos.h"

static struct chaos_end *end_of(const struct rcmi_channel *channel) {
    return (struct chaos_end *)(void *)((uint8_t *)(uintptr_t)channel +
                                        chaos_of(channel)->channel_at);
}

rcm_status chaos_reader_init(struct rcmi_channel *channel, void *link) {
    struct chaos_end *end = end_of(channel);
    end->domain = chaos_domain_find(channel);
    rcm_status status = chaos_of(channel)->inner->reader_init(channel, link);
    if (status != RCM_OK)
        return status;
    end->copy = rcmi_zalloc(channel->slot_bytes);
    return end->copy ? RCM_OK : RCM_ERR_NOMEM;
}

void chaos_channel_fini(struct rcmi_channel *channel) {
    struct chaos_end *end = end_of(channel);
    chaos_of(channel)->inner->channel_fini(channel);
    free(end->copy);
    end->copy = NULL;
}

static uint64_t draw(const struct rcmi_channel *channel, const struct chaos_end *end,
                     uint64_t purpose) {
    const uint64_t ranks =
        (uint64_t)channel->writer << 32 | (uint32_t)rcmi_node_rank(channel->node);
    return chaos_draw(&end->domain->orders, ranks, (uint64_t)channel->id << 8 | purpose,
                      end->number);
}

/* ---- Faults ---------------------------------------------------------------------------------- */

static void strike_link(struct rcmi_node *node, int peer) {
    (void)rcmi_fail_peer(RCM_ERR_PEER, peer, "the chaos transport cut the link to rank %d", peer);
    rcmi_node_link_failed(node, peer);
}

/* Flips one bit of meta or the lowest bit of the length. The length stays one that the inner
 * transport would accept. */
static void strike_header(const struct rcmi_channel *channel, struct chaos_end *end) {
    const uint64_t bit = draw(channel, end, 1) % 65;
    if (bit < 64)
        end->slot.meta ^= (uint64_t)1 << bit;
    else
        end->slot.len = end->slot.len < channel->slot_bytes ? end->slot.len ^ 1 : end->slot.len - 1;
}

/* Injects the fault into the message in end. False: not possible with this message. */
static bool strike(const struct rcmi_channel *channel, struct chaos_end *end) {
    struct chaos_domain *domain = end->domain;
    switch (domain->orders.fault) {
    case CHAOS_CORRUPT:
        strike_header(channel, end);
        return true;
    case CHAOS_SHORT:
        if (end->slot.len == 0)
            return false;
        end->slot.len = draw(channel, end, 1) % end->slot.len;
        return true;
    case CHAOS_CUT:
        strike_link(channel->node, channel->writer);
        break;
    case CHAOS_ISOLATE:
    case CHAOS_CLOSE:
        atomic_store_explicit(&domain->to_strike, channel->writer, memory_order_relaxed);
        chaos_ring_at(domain, 1);
        break;
    case CHAOS_STALL:
        atomic_store_explicit(&domain->stalled, channel->writer, memory_order_relaxed);
        break;
    default:
        return false;
    }
    end->due = RCMI_NEVER;
    return true;
}

/* A message has arrived. */
static void arrived(const struct rcmi_channel *channel, struct chaos_end *end) {
    struct chaos_domain *domain = end->domain;
    const struct chaos_orders *orders = &domain->orders;
    end->number++;
    end->due = 0;
    if (orders->delay_us && draw(channel, end, 2) % 100 < orders->often)
        end->due =
            rcmi_now_ns() + (rcmi_deadline)(draw(channel, end, 3) % (orders->delay_us + 1) * 1000);
    if (orders->fault != CHAOS_NONE && orders->rank == rcmi_node_rank(channel->node) &&
        end->number >= orders->after &&
        !atomic_exchange_explicit(&domain->struck, true, memory_order_relaxed) &&
        !strike(channel, end))
        atomic_store_explicit(&domain->struck, false, memory_order_relaxed);
}

/* ---- The replaced functions ------------------------------------------------------------------ */

rcm_status chaos_peek(struct rcmi_channel *channel, struct rcmi_slot *ret_slot) {
    struct chaos_end *end = end_of(channel);
    struct chaos_domain *domain = end->domain;
    if (!end->shown &&
        atomic_load_explicit(&domain->stalled, memory_order_relaxed) == channel->writer)
        return RCM_AGAIN;
    if (!end->held) {
        rcm_status status = chaos_of(channel)->inner->peek(channel, &end->slot);
        if (status != RCM_OK)
            return status;
        end->held = true;
        arrived(channel, end);
    }
    if (!end->shown && end->due > rcmi_now_ns()) {
        chaos_ring_at(domain, end->due);
        return RCM_AGAIN;
    }
    end->shown = true;
    *ret_slot = end->slot;
    return RCM_OK;
}

void chaos_release(struct rcmi_channel *channel) {
    struct chaos_end *end = end_of(channel);
    end->held = end->shown = false;
    end->posted = NULL;
    chaos_of(channel)->inner->release(channel);
}

/* The inner transport has already shown a held message. So no hint is passed on meanwhile, because
 * it would apply to the next message. If the held message is in the memory of an earlier hint,
 * which ends now, it is copied. */
bool chaos_post_receive(struct rcmi_channel *channel, const struct rcmi_posted *posted) {
    struct chaos_end *end = end_of(channel);
    if (!end->held || end->shown) {
        if (!posted || posted->ahead == 0)
            end->posted = posted ? posted->mem.bytes : NULL;
        return chaos_of(channel)->inner->post_receive(channel, posted);
    }
    if (end->posted && end->slot.bytes == end->posted) {
        memcpy(end->copy, end->slot.bytes, end->slot.len);
        end->slot.bytes = end->copy;
    }
    end->posted = NULL;
    (void)chaos_of(channel)->inner->post_receive(channel, NULL);
    return false;
}
