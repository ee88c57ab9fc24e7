/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints, data of messages that lie in memory of devices at both ends, within a machine: they
 * go by a channel of device memory (transport.h), whose slots are such memory where the link has a
 * plane for it (plane.c), so that they never come to the host. RTS says that the sender's memory is
 * a device's, DEVICE_CTS that the receiver's is, too; all that is said goes by the other channel.
 *
 *   sending     from where they lie, if the memory is registered; else by slots, one copy at a time
 *   receiving   one copy at a time, out of the oldest slot, which is released when it is done
 *
 * A transfer is in its list, and a slot is reserved or peeked, until its operation has ended: an
 * endpoint is canceled when all are quiet (endpoint.h).
 *
 * Not here: eager messages, and those of which one end is the host's memory (endpoint_copy.c).
 */
#include "endpoint_internal.h"

void rcmi_endpoint_device_init(struct rcmi_endpoint *e) {
    rcmi_transfers_init(&e->device.owed);
    rcmi_transfers_init(&e->device.receiving);
    rcmi_transfers_init(&e->device.sending);
    rcmi_transfers_init(&e->device.draining);
}

bool rcmi_endpoint_device_may(const struct rcmi_endpoint *e, const struct rcmi_transfer *t) {
    return transfer_is_later(t) && e->tx->transport->same_host && !e->tx->transport->loops_back;
}

static rcm_status device_open(struct rcmi_endpoint *e, bool writer, struct rcmi_channel **channel) {
    if (*channel)
        return RCM_OK;
    return e->messaging->open(e->messaging->open_arg, e->peer, RCMI_MEM_DEVICE, writer, channel);
}

/* ---- Sending --------------------------------------------------------------------------------- */

/* A part of it, from where it lies. */
static rcm_status device_send_zero_copy(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    const size_t left = t->total - t->done, len = left < RCMI_GET_MAX ? left : RCMI_GET_MAX;
    const struct rcmi_mem part = rcmi_mem_part(&t->mem, t->done, len);
    if (!rcmi_channel_may_zero_copy(e->device.tx, &part))
        return RCM_ERR_UNSUPPORTED;
    const rcm_status status =
        rcmi_channel_send_zero_copy(e->device.tx, &part, meta_of(KIND_DATA, t->id), true);
    if (status != RCM_OK)
        return status;
    t->zero_copy = rcmi_channel_sent(e->device.tx);
    t->done += len;
    return RCM_OK;
}

/* Begins to fill a slot with a part of it. */
static rcm_status device_copy_out(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    const size_t left = t->total - t->done, slot = e->device.tx->slot_bytes;
    const size_t len = left < slot ? left : slot;
    struct rcmi_reserved reserved;
    rcm_status status = rcmi_channel_reserve(e->device.tx, len, &reserved);
    if (status == RCM_OK)
        status = rcmi_copy_make(t);
    if (status != RCM_OK)
        return status;
    t->copy->len = len;
    status = rcmi_copy_begin(e, t, reserved.bytes, (char *)t->mem.bytes + t->done, len);
    e->device.out_runs = status == RCM_OK;
    return status == RCM_OK ? RCM_AGAIN : status;
}

/* What was begun has ended; else RCM_AGAIN. */
static rcm_status device_copied_out(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    const size_t len = t->copy->len;
    const rcm_status status = rcmi_copy_look(e, t);
    if (status != RCM_OK)
        return status;
    e->device.out_runs = false;
    rcmi_channel_commit(e->device.tx, len, meta_of(KIND_DATA, t->id));
    t->done += len;
    return RCM_OK;
}

/* The next part of it. */
static rcm_status device_send_part(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    if (e->device.out_runs)
        return device_copied_out(e, t);
    rcm_status status = rcmi_channel_state(e->device.tx);
    if (status == RCM_OK)
        status = device_send_zero_copy(e, t);
    return status == RCM_ERR_UNSUPPORTED ? device_copy_out(e, t) : status;
}

static rcm_status device_pump_data(struct rcmi_endpoint *e, bool *moved) {
    struct rcmi_endpoint_device *d = &e->device;
    struct rcmi_transfer *t;
    while ((t = d->sending.head)) {
        while (t->done < t->total) {
            const rcm_status status = device_send_part(e, t);
            if (status != RCM_OK)
                return status;
            *moved = true;
        }
        rcmi_transfers_remove(&d->sending, t);
        t->stage = STAGE_DRAIN;
        rcmi_transfers_append(&d->draining, t);
    }
    return RCM_OK;
}

static void device_pump_drain(struct rcmi_endpoint *e, bool *moved) {
    struct rcmi_transfer *t;
    while ((t = e->device.draining.head) && rcmi_channel_completed(e->device.tx, t->zero_copy)) {
        rcmi_transfers_remove(&e->device.draining, t);
        e->messaging->completed(t, RCM_OK);
        *moved = true;
    }
}

rcm_status rcmi_endpoint_device_pump(struct rcmi_endpoint *e, bool *moved) {
    struct rcmi_endpoint_device *d = &e->device;
    if (!d->sending.head && !d->draining.head)
        return RCM_OK;
    rcm_status status = device_open(e, true, &d->tx);
    if (status == RCM_OK)
        status = device_pump_data(e, moved);
    if (status == RCM_OK || status == RCM_AGAIN)
        device_pump_drain(e, moved);
    /* Of a channel that failed nothing completes. */
    if (status == RCM_OK && d->draining.head)
        status = rcmi_channel_state(d->tx);
    return status == RCM_AGAIN ? RCM_OK : status;
}

/* ---- Receiving ------------------------------------------------------------------------------- */

void rcmi_endpoint_device_receive(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    rcmi_transfers_append(&e->device.owed, t);
}

rcm_status rcmi_endpoint_device_answer(struct rcmi_endpoint *e, bool *moved) {
    struct rcmi_endpoint_device *d = &e->device;
    struct rcmi_transfer *t;
    rcm_status status = d->owed.head ? device_open(e, false, &d->rx) : RCM_OK;
    while (status == RCM_OK && (t = d->owed.head)) {
        status = rcmi_endpoint_put(e, meta_of(KIND_DEVICE_CTS, t->id), NULL, 0);
        if (status != RCM_OK)
            return status;
        rcmi_transfers_remove(&d->owed, t);
        rcmi_transfers_append(&d->receiving, t);
        *moved = true;
    }
    return status;
}

static rcm_status device_protocol_error(const struct rcmi_endpoint *e,
                                        const struct rcmi_transfer *t,
                                        const struct rcmi_slot *slot) {
    return rcmi_fail_origin(RCM_ERR_PROTOCOL, e->peer,
                            "rank %d sent %zu bytes of message %u by a channel of device memory, "
                            "where %zu bytes of message %u are to come",
                            e->peer, slot->len, (uint32_t)slot->meta, t->total - t->done, t->id);
}

/* len bytes of it are there, or were of no use. */
static void device_taken(struct rcmi_endpoint *e, struct rcmi_transfer *t, size_t len) {
    t->done += len;
    rcmi_channel_release(e->device.rx);
    if (t->done < t->total)
        return;
    rcmi_transfers_remove(&e->device.receiving, t);
    rcmi_receive_end(e, t);
}

/* Begins to copy what came of it, as far as the buffer reaches. */
static rcm_status device_copy_in(struct rcmi_endpoint *e, struct rcmi_transfer *t,
                                 const struct rcmi_slot *slot) {
    const size_t room = rcmi_copy_room(t, slot->len);
    if (room == 0) {
        device_taken(e, t, slot->len);
        return RCM_OK;
    }
    rcm_status status = rcmi_copy_make(t);
    if (status != RCM_OK)
        return status;
    t->copy->len = slot->len;
    status = rcmi_copy_begin(e, t, (char *)t->mem.bytes + t->done, slot->bytes, room);
    if (status != RCM_OK)
        return status;
    e->device.copy_in = t;
    return RCM_AGAIN;
}

static rcm_status device_take(struct rcmi_endpoint *e) {
    struct rcmi_slot slot;
    const rcm_status status = rcmi_channel_peek(e->device.rx, &slot);
    if (status != RCM_OK)
        return status;
    const uint32_t id = (uint32_t)slot.meta;
    struct rcmi_transfer *t = rcmi_receive_of(&e->device.receiving, NULL, id);
    if (!t || !slot.bytes || slot.meta != meta_of(KIND_DATA, id) || slot.len == 0 ||
        slot.len > t->total - t->done)
        return device_protocol_error(e, t ? t : e->device.receiving.head, &slot);
    return device_copy_in(e, t, &slot);
}

static rcm_status device_copied_in(struct rcmi_endpoint *e) {
    struct rcmi_transfer *t = e->device.copy_in;
    const rcm_status status = rcmi_copy_look(e, t);
    if (status != RCM_OK)
        return status;
    e->device.copy_in = NULL;
    device_taken(e, t, t->copy->len);
    return RCM_OK;
}

rcm_status rcmi_endpoint_device_drain(struct rcmi_endpoint *e, bool *moved) {
    while (e->device.receiving.head) {
        const rcm_status status = e->device.copy_in ? device_copied_in(e) : device_take(e);
        if (status != RCM_OK)
            return status == RCM_AGAIN ? RCM_OK : status;
        *moved = true;
    }
    return RCM_OK;
}
