/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints, messages in memory whose copies finish later (base/mem_kind.h). They travel like
 * others, but only by slots: such memory is not sent without a copy, posted or got.
 *
 *   sending     one copy at a time, into the slot that was reserved: until it is done nothing else
 *               goes out, for the next message would get the same slot
 *   receiving   one at a time, out of the oldest slot, which is released when it is done
 *   kept        messages that came before their receive lie in memory of their own: any number
 *
 * What a stream does may last, or wait for another message: no slot is held meanwhile. Before it is
 * done (rcmi_copy_ready) none is reserved for a send, data that were asked for let others pass, and
 * no CTS goes out for a receive; an eager message that comes is kept.
 *
 * Not here: what goes before and after a copy, which is the same for all messages
 * (endpoint_send.c, endpoint_receive.c); data that lie in such memory at both ends, within a
 * machine (endpoint_device.c).
 */
#include <stdlib.h>
#include "endpoint_internal.h"

/* This rank is the origin, but where memory is read of a process that has ended. */
static rcm_status copy_failed(const struct rcmi_endpoint *e) {
    const int origin = rcmi_last_error()->status == RCM_ERR_PEER ? e->peer : e->messaging->rank;
    rcmi_last_error()->origin = origin;
    return rcmi_fail_context("rank %d", origin);
}

rcm_status rcmi_copy_make(struct rcmi_transfer *t) {
    if (!t->copy)
        t->copy = calloc(1, sizeof(*t->copy));
    return t->copy ? RCM_OK : rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the copy of a message");
}

rcm_status rcmi_copy_begin(const struct rcmi_endpoint *e, struct rcmi_transfer *t, void *to,
                           const void *from, size_t bytes) {
    struct rcmi_operation *o = &t->copy->operation;
    o->results[0] = to;
    o->srcs[0] = from;
    o->nresults = o->nsrcs = bytes > 0;
    o->bytes = bytes;
    o->dtype = RCM_UINT8;
    o->op = RCM_SUM;
    o->kind = t->mem.kind;
    o->after = t->after;
    o->all = e->messaging->operations;
    return rcmi_operation_begin(o) == RCM_OK ? RCM_OK : copy_failed(e);
}

rcm_status rcmi_copy_look(const struct rcmi_endpoint *e, const struct rcmi_transfer *t) {
    const rcm_status status = rcmi_operation_look(&t->copy->operation);
    return status == RCM_OK || status == RCM_AGAIN ? status : copy_failed(e);
}

bool rcmi_copy_is_over(const struct rcmi_transfer *t) {
    return !t->after || rcmi_operation_look(t->after) == RCM_OK;
}

/* By an operation of no bytes. */
static rcm_status copy_await(const struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    rcm_status status = rcmi_copy_make(t);
    if (status != RCM_OK)
        return status;
    status = rcmi_copy_begin(e, t, NULL, NULL, 0);
    if (status == RCM_OK)
        return RCM_AGAIN;
    rcmi_transfer_free_copy(t);
    return status;
}

rcm_status rcmi_copy_ready(const struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    rcm_status status = RCM_OK;
    if (t->after && t->copy)
        status = rcmi_copy_look(e, t);
    else if (!rcmi_copy_is_over(t))
        status = copy_await(e, t);
    if (status == RCM_OK)
        t->after = NULL;
    return status;
}

bool rcmi_endpoint_copies(const struct rcmi_endpoint *e) {
    return e->copy_out || e->copy_in || e->copying.head || e->device.out_runs || e->device.copy_in;
}

/* ---- Sending --------------------------------------------------------------------------------- */

rcm_status rcmi_endpoint_copy_out(struct rcmi_endpoint *e, struct rcmi_transfer *t, uint64_t meta,
                                  const struct rcmi_piece *piece) {
    struct rcmi_reserved reserved;
    rcm_status status = rcmi_copy_ready(e, t);
    if (status == RCM_OK)
        status = rcmi_copy_make(t);
    if (status == RCM_OK)
        status = rcmi_channel_reserve(e->tx, piece->head_len + piece->mem.len, &reserved);
    if (status != RCM_OK)
        return status;
    if (piece->head_len)
        memcpy(reserved.bytes, piece->head, piece->head_len);
    status = rcmi_copy_begin(e, t, (char *)reserved.bytes + piece->head_len, piece->mem.bytes,
                             piece->mem.len);
    if (status != RCM_OK)
        return status;
    t->copy->meta = meta;
    t->copy->len = piece->mem.len;
    t->copy->head_len = piece->head_len;
    e->copy_out = t;
    return RCM_AGAIN;
}

rcm_status rcmi_endpoint_copied_out(struct rcmi_endpoint *e, struct rcmi_transfer **ret_sent) {
    struct rcmi_transfer *t = e->copy_out;
    const rcm_status status = rcmi_copy_look(e, t);
    if (status != RCM_OK)
        return status;
    rcmi_channel_commit(e->tx, t->copy->head_len + t->copy->len, t->copy->meta);
    e->copy_out = NULL;
    *ret_sent = t;
    return RCM_OK;
}

/* ---- Receiving ------------------------------------------------------------------------------- */

/* As far as the buffer reaches. */
size_t rcmi_copy_room(const struct rcmi_transfer *t, size_t len) {
    const size_t room = t->done < t->mem.len ? t->mem.len - t->done : 0;
    return len < room ? len : room;
}

bool rcmi_receive_copies(const struct rcmi_transfer *t, size_t len) {
    return transfer_is_later(t) && rcmi_copy_room(t, len) > 0;
}

rcm_status rcmi_endpoint_copy_in(struct rcmi_endpoint *e, struct rcmi_transfer *t,
                                 const char *bytes, size_t len) {
    rcm_status status = rcmi_copy_make(t);
    e->copy_in = t; /* it may be in no list */
    if (status != RCM_OK)
        return status;
    t->copy->len = len;
    status = rcmi_copy_begin(e, t, (char *)t->mem.bytes + t->done, bytes, rcmi_copy_room(t, len));
    return status == RCM_OK ? RCM_AGAIN : status;
}

rcm_status rcmi_endpoint_copied_in(struct rcmi_endpoint *e, struct rcmi_transfer **ret_received) {
    struct rcmi_transfer *t = e->copy_in;
    const rcm_status status = rcmi_copy_look(e, t);
    if (status != RCM_OK)
        return status;
    t->done += t->copy->len;
    e->copy_in = NULL;
    *ret_received = t;
    return RCM_OK;
}

/* ---- Kept messages --------------------------------------------------------------------------- */

rcm_status rcmi_endpoint_copy_kept(struct rcmi_endpoint *e, struct rcmi_transfer *t,
                                   const char *bytes, void *memory) {
    const rcm_status status = rcmi_copy_make(t);
    rcmi_transfers_append(&e->copying, t);
    if (status != RCM_OK) {
        free(memory);
        return status;
    }
    t->copy->kept = memory;
    return rcmi_copy_begin(e, t, t->mem.bytes, bytes, rcmi_copy_room(t, t->total));
}

rcm_status rcmi_endpoint_copy_aside(struct rcmi_endpoint *e, struct rcmi_transfer *t,
                                    const char *bytes) {
    const size_t room = rcmi_copy_room(t, t->total);
    char *memory = malloc(room);
    if (!memory) {
        rcmi_transfers_append(&e->copying, t);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory to keep %zu bytes", room);
    }
    memcpy(memory, bytes, room);
    return rcmi_endpoint_copy_kept(e, t, memory, memory);
}

rcm_status rcmi_endpoint_copied_kept(struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    const rcm_status status = rcmi_copy_look(e, t);
    if (status != RCM_OK)
        return status;
    t->done = t->total;
    free(t->copy->kept);
    t->copy->kept = NULL;
    rcmi_transfers_remove(&e->copying, t);
    return RCM_OK;
}

/* ---- The end of a transfer ------------------------------------------------------------------- */

void rcmi_transfer_free_copy(struct rcmi_transfer *t) {
    /* One that never ends keeps what it uses. */
    if (t->copy && rcmi_operation_look(&t->copy->operation) != RCM_AGAIN) {
        free(t->copy->kept);
        free(t->copy);
    }
    t->copy = NULL;
}

/* ---- All copies ------------------------------------------------------------------------------ */

void rcmi_messaging_give_up(const struct rcmi_messaging *messaging) {
    if (messaging->operations)
        rcmi_operations_give_up(messaging->operations);
}

bool rcmi_messaging_is_quiet(const struct rcmi_messaging *messaging) {
    return !messaging->operations || rcmi_operations_quiet(messaging->operations);
}

void rcmi_messaging_settle(const struct rcmi_messaging *messaging) {
    if (messaging->operations)
        rcmi_operations_settle(messaging->operations);
}
