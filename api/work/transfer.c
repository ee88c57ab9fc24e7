/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives of a communicator: works on one side, transfers of p2p/ on the other. Not
 * here: public functions and the fast path (message.c), matching (p2p/), protocols
 * (api/p2p/endpoint.h).
 */
#include "transfer.h"
#include "comm.h"
#include "p2p.h"
#include "status_page.h"
#include "struct_versions.h"

/* ---- Received messages, for callers ---------------------------------------------------------- */

static struct rcmi_sized sized_message(const char *name) {
    return (struct rcmi_sized){name, "RCM_MESSAGE_INIT", RCMI_MESSAGE_SIZE_0,
                               sizeof(struct rcm_message)};
}

rcm_status rcmi_message_out_check(const char *name, const struct rcm_message *ret_message) {
    const struct rcmi_sized sized = sized_message(name);
    return rcmi_struct_out_check(&sized, ret_message);
}

void rcmi_message_out(const struct rcm_message *message, struct rcm_message *ret_message) {
    const struct rcmi_sized sized = sized_message("");
    rcmi_struct_out(&sized, message, ret_message);
}

bool rcmi_transfer_misfits(const struct rcm_work *work, rcm_status status) {
    return status == RCM_ERR_TRUNCATED ||
           (status == RCM_ERR_MISMATCH && work->kind == RCMI_WORK_RECV &&
            rcmi_transfer_differs(&work->transfer));
}

rcm_status rcmi_transfer_explain(const struct rcm_work *work, rcm_status status) {
    if (status == RCM_ERR_MISMATCH)
        return rcmi_fail_origin(status, work->message.source,
                                "the message from rank %d is %zu bytes of %s, its receive of %s",
                                work->message.source, work->message.bytes,
                                rcm_dtype_name(work->transfer.came),
                                rcm_dtype_name(work->transfer.dtype));
    return rcmi_fail_origin(RCM_ERR_TRUNCATED, work->message.source,
                            "the message from rank %d is %zu bytes, the buffer %zu",
                            work->message.source, work->message.bytes, work->transfer.mem.len);
}

/* ---- Works and transfers --------------------------------------------------------------------- */

static struct rcm_work *work_of(struct rcmi_transfer *t) {
    return (struct rcm_work *)((char *)t - offsetof(struct rcm_work, transfer));
}

/* For a receive or probe that has its message. */
static void transfer_hand_out(const struct rcm_work *work) {
    if (work->message_to)
        rcmi_message_out(&work->message, work->message_to);
    if (work->matched_to)
        *work->matched_to = work->transfer.message;
}

static void transfer_completed(struct rcmi_transfer *t, rcm_status status) {
    struct rcm_work *work = work_of(t);
    work->message.source = t->peer;
    work->message.tag = t->tag;
    work->message.bytes = t->total;
    work->message.dtype = t->came;
    rcmi_transfer_free_copy(t);
    const bool misfits = rcmi_transfer_misfits(work, status);
    if (misfits)
        (void)rcmi_transfer_explain(work, status);
    if (work->kind != RCMI_WORK_SEND && (status == RCM_OK || misfits))
        transfer_hand_out(work);
    /* A probe that found nothing is complete. */
    rcmi_work_complete(work, status == RCM_AGAIN ? RCM_OK : status);
}

static void transfer_wake(void *arg) {
    rcmi_node_ring(arg);
}

static rcm_status transfer_open(void *arg, int peer, enum rcmi_mem_kind kind, bool writer,
                                struct rcmi_channel **ret_channel) {
    const rcm_comm *comm = arg;
    struct rcmi_node *node = comm->engine->node;
    const int *rank = &comm->world_rank[peer];
    const uint32_t id = RCMI_P2P_CHANNEL | (kind == RCMI_MEM_DEVICE ? RCMI_ID_DEVICE : 0);
    const rcm_status status =
        writer ? rcmi_channel_open_writer(node, comm->epoch, id, rank, 1, ret_channel)
               : rcmi_channel_open_reader(node, comm->epoch, id, *rank, ret_channel);
    if (status == RCM_OK)
        rcmi_channel_count(*ret_channel, comm->page->traffic);
    return status;
}

rcm_status rcmi_transfers_create(rcm_comm *comm) {
    const struct rcmi_engine *engine = comm->engine;
    struct rcmi_messaging messaging;
    rcmi_messaging_init(&messaging, engine->cpu_sharers > 1, (size_t)comm->size);
    messaging.open_arg = comm;
    messaging.open = transfer_open;
    messaging.close = rcmi_channel_close;
    messaging.completed = transfer_completed;
    messaging.device = &engine->device.device;
    messaging.rank = comm->rank;
    messaging.wake = transfer_wake;
    messaging.wake_arg = engine->node;
    return rcmi_p2p_create(&messaging, comm->size, &comm->p2p);
}

/* The canceled work was issued before, so it has started. */
static void cancel_start(rcm_comm *comm, struct rcm_work *work) {
    struct rcm_work *target = work->target;
    if (!target)
        rcmi_p2p_drop_receives(comm->p2p,
                               "no message had come when this rank left the communicator");
    else if (target->kind == RCMI_WORK_PROBE)
        target->transfer.probe |= RCMI_PROBE_ONCE;
    else if (atomic_load_explicit(&target->status, memory_order_relaxed) == RCM_PENDING)
        (void)rcmi_p2p_take_back(comm->p2p, &target->transfer);
    rcmi_work_complete(work, RCM_OK);
}

void rcmi_transfer_start(rcm_comm *comm, struct rcm_work *work) {
    static rcm_status (*const start[])(struct rcmi_p2p *, struct rcmi_transfer *) = {
        [RCMI_WORK_SEND] = rcmi_p2p_send,
        [RCMI_WORK_RECV] = rcmi_p2p_receive,
        [RCMI_WORK_PROBE] = rcmi_p2p_probe,
    };
    if (work->kind == RCMI_WORK_CANCEL)
        cancel_start(comm, work);
    else if (start[work->kind](comm->p2p, &work->transfer) != RCM_OK)
        rcmi_comm_fail(comm, work);
}

const struct rcm_work *rcmi_transfer_at_fault(const rcm_comm *comm) {
    struct rcmi_transfer *t = rcmi_p2p_at_fault(comm->p2p);
    return t ? work_of(t) : NULL;
}

struct visit {
    bool (*visit)(void *arg, struct rcm_work *work);
    void *arg;
};

static bool transfer_visit(void *arg, struct rcmi_transfer *t) {
    const struct visit *visit = arg;
    return visit->visit(visit->arg, work_of(t));
}

void rcmi_transfers_each(const rcm_comm *comm, bool (*visit)(void *arg, struct rcm_work *work),
                         void *arg) {
    struct visit each = {.visit = visit, .arg = arg};
    rcmi_p2p_each(comm->p2p, transfer_visit, &each);
}
