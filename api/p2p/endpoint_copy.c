/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between memory of transfers and slots, or memory of kept messages. If the CPU does not
 * touch the memory (base/mem_kind.h), they are asynchronous operations. Such messages use the same
 * protocols, but are not posted or read by get.
 *
 *   kept    messages that arrived before their receive, or before its stream had ended, are stored
 *           in separate memory: any number
 *
 * The work of a stream may last long, or wait for another message, so no slot is held meanwhile.
 * Before it has ended (rcmi_copy_ready), no slot is reserved for a send, requested data let others
 * pass, and no CTS is sent for a receive. An eager message that arrives is kept.
 *
 * Not here: the steps before and after a copy, which are the same for all messages (flow.c,
 * endpoint_send.c, endpoint_receive.c).
 */
#include <stdlib.h>
#include "endpoint_internal.h"
#include "fence.h"
#include "kernels.h"

/* The origin is this rank, except when memory of an ended process was read. */
static rcm_status copy_failed(const struct rcmi_endpoint *e) {
    const int origin = rcmi_last_error()->status == RCM_ERR_PEER ? e->peer : e->messaging->rank;
    rcmi_last_error()->origin = origin;
    return rcmi_fail_context("rank %d", origin);
}

/* An existing copy may be in progress: it is not modified. */
static rcm_status copy_make(const struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    if (t->copy)
        return RCM_OK;
    t->copy = calloc(1, sizeof(*t->copy));
    if (!t->copy)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the copy of a message");
    t->copy->operation.kind = t->mem.kind;
    t->copy->operation.all = e->messaging->operations;
    return RCM_OK;
}

rcm_status rcmi_copy_begin_operation(const struct rcmi_endpoint *e, struct rcmi_transfer *t,
                                     void *to, const void *from, size_t bytes) {
    const rcm_status status = copy_make(e, t);
    if (status != RCM_OK)
        return status;
    struct rcmi_operation *o = &t->copy->operation;
    o->results[0] = to;
    o->srcs[0] = from;
    o->nresults = o->nsrcs = 1;
    o->bytes = bytes;
    o->dtype = RCM_UINT8;
    o->op = RCM_SUM;
    o->after = t->after;
    return rcmi_operation_begin(o) == RCM_OK ? RCM_AGAIN : copy_failed(e);
}

rcm_status rcmi_copy_look(const struct rcmi_endpoint *e, const struct rcmi_transfer *t) {
    const rcm_status status = rcmi_operation_look(&t->copy->operation);
    return status == RCM_OK || status == RCM_AGAIN ? status : copy_failed(e);
}

bool rcmi_copy_is_over(const struct rcmi_transfer *t) {
    return !t->after || rcmi_operation_look(t->after) == RCM_OK;
}

rcm_status rcmi_copy_ready(const struct rcmi_endpoint *e, struct rcmi_transfer *t) {
    if (!t->after)
        return RCM_OK;
    rcm_status status = copy_make(e, t);
    if (status != RCM_OK)
        return status;
    status = rcmi_fence_await(&t->copy->operation, &t->copy->awaits, &t->after);
    return status == RCM_OK || status == RCM_AGAIN ? status : copy_failed(e);
}

/* ---- Kept messages --------------------------------------------------------------------------- */

rcm_status rcmi_endpoint_copy_kept(struct rcmi_endpoint *e, struct rcmi_transfer *t,
                                   const char *bytes, void *memory) {
    const rcm_status status =
        rcmi_copy_begin_operation(e, t, t->mem.bytes, bytes, rcmi_copy_room(t, t->total));
    rcmi_transfers_append(&e->copying, t);
    if (status != RCM_AGAIN) {
        free(memory);
        return status;
    }
    t->copy->kept = memory;
    return RCM_OK;
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
    /* A copy that never ends keeps its memory. */
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
