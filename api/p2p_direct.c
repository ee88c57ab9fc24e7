/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Point to point, the short way: a blocking send or receive of a small message, done by its caller
 * at once and without a work, where nothing else of the communicator is unfinished and the channel
 * is ready. The messages are those of the long way (p2p.c), so either end may go either way.
 *
 * Not here: waiting for long. A receiver looks for some microseconds or yields a few times, and
 * only where the message comes without its doing anything for it; then the long way begins, with
 * its deadlines, reports and sleep.
 */
#include <string.h>
#include "kernels.h"
#include "p2p_internal.h"

enum { LOOKS_MAX = 2048 };

rcm_status rcmi_p2p_send_now(rcm_comm *comm, int peer, uint64_t tag, const void *buffer,
                             size_t bytes) {
    struct rcmi_p2p *p2p = comm->p2p;
    struct pair *pair = &p2p->pairs[peer];
    if (!rcmi_comm_take(comm))
        return RCM_AGAIN;
    rcm_status status = RCM_AGAIN;
    if (pair->tx && pair->rx && !pair->cts && rcmi_pair_may_be_eager(p2p, pair, tag, bytes) &&
        !travels_bare(pair, tag, bytes) && !eager_waits(p2p, pair, bytes)) {
        const struct rcmi_mem mem = rcmi_mem_host(buffer, bytes);
        status = rcmi_pair_put_eager(pair, tag, &mem);
    }
    rcmi_comm_give(comm);
    return status == RCM_OK ? RCM_OK : RCM_AGAIN;
}

/* RCM_OK: received. RCM_PENDING: nothing is there yet. RCM_AGAIN: the long way. */
static rcm_status pair_receive(struct rcmi_p2p *p2p, int peer, uint64_t tag, void *buffer,
                               size_t capacity) {
    struct pair *pair = &p2p->pairs[peer];
    struct header header;
    const char *bytes;
    struct rcmi_slot slot;
    rcm_status status = rcmi_channel_peek(pair->rx, &slot);
    if (status != RCM_OK)
        return status == RCM_AGAIN ? RCM_PENDING : RCM_AGAIN;
    if (!slot.bytes || !eager_open(&slot, &header, &bytes) || header.total > capacity ||
        (tag != RCM_ANY_TAG && tag != header.tag))
        return RCM_AGAIN;
    pair->posted = false;
    struct rcmi_transfer t = {.mem = rcmi_mem_host(buffer, capacity), .total = header.total};
    rcmi_receive_bytes(p2p, &t, bytes, header.total);
    rcmi_channel_release(pair->rx);
    pair->eager_due += eager_charge(header.total);
    pair->eager_in += eager_charge(header.total);
    return RCM_OK;
}

/* The same for a while, if the message comes by itself. */
static rcm_status pair_receive_soon(struct rcmi_p2p *p2p, int peer, uint64_t tag, void *buffer,
                                    size_t capacity) {
    rcm_status status = pair_receive(p2p, peer, tag, buffer, capacity);
    if (status != RCM_PENDING || !shares_slots(p2p->pairs[peer].rx))
        return status == RCM_PENDING ? RCM_AGAIN : status;
    struct rcmi_pause pause = p2p->comm->engine->budget;
    for (int looks = 0; looks < LOOKS_MAX && status == RCM_PENDING; looks++) {
        if (!rcmi_caller_pauses(p2p->comm, &pause))
            break;
        status = pair_receive(p2p, peer, tag, buffer, capacity);
    }
    return status == RCM_PENDING ? RCM_AGAIN : status;
}

rcm_status rcmi_p2p_receive_now(rcm_comm *comm, int peer, uint64_t tag, void *buffer,
                                size_t capacity) {
    struct rcmi_p2p *p2p = comm->p2p;
    struct pair *pair = &p2p->pairs[peer];
    bool moved = false;
    if (!rcmi_comm_take(comm))
        return RCM_AGAIN;
    rcm_status status = RCM_AGAIN;
    if (pair->rx && !pair->cts && !p2p->unexpected)
        status = pair_receive_soon(p2p, peer, tag, buffer, capacity);
    /* Its failure is found again, and told, by the next operation. */
    if (status == RCM_OK && pair->eager_in >= p2p->budget / 4)
        (void)rcmi_pair_pump(p2p, peer, &moved);
    rcmi_comm_give(comm);
    return status;
}
