/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Point to point of a communicator: the works of sends and receives, and their short way.
 *
 * The short way: a blocking send or receive of a small message, done by its caller at once and
 * without a work, where nothing else of the communicator is unfinished and the channel is ready.
 *
 * Not here: matching (p2p/); how messages travel (transport/endpoint.h); waiting for long. A
 * receiver looks for some microseconds or yields a few times, and only where the message comes
 * without its doing anything for it; then the long way begins, with its deadlines, reports and
 * sleep.
 */
#include "comm.h"
#include "p2p.h"
#include "page.h"

enum { LOOKS_MAX = 2048 };

/* ---- Works ---------------------------------------------------------------------------------- */

static struct rcm_work *work_of(struct rcmi_transfer *t) {
    return (struct rcm_work *)((char *)t - offsetof(struct rcm_work, transfer));
}

static void transfer_completed(struct rcmi_transfer *t, rcm_status status) {
    struct rcm_work *work = work_of(t);
    work->message.source = t->peer;
    work->message.tag = t->tag;
    work->message.bytes = t->total;
    rcmi_work_complete(work, status);
}

static rcm_status transfer_open(void *arg, int peer, bool writer,
                                struct rcmi_channel **ret_channel) {
    const rcm_comm *comm = arg;
    struct rcmi_node *node = comm->engine->node;
    const int *rank = &comm->world_rank[peer];
    return writer
               ? rcmi_channel_open_writer(node, comm->epoch, RCMI_P2P_CHANNEL, rank, 1, ret_channel)
               : rcmi_channel_open_reader(node, comm->epoch, RCMI_P2P_CHANNEL, *rank, ret_channel);
}

rcm_status rcmi_transfers_create(rcm_comm *comm) {
    const struct rcmi_engine *engine = comm->engine;
    struct rcmi_messaging messaging;
    rcmi_messaging_init(&messaging, rcmi_node_protocol(engine->node), engine->cpu_sharers > 1,
                        (size_t)comm->size);
    messaging.open_arg = comm;
    messaging.open = transfer_open;
    messaging.close = rcmi_channel_close;
    messaging.completed = transfer_completed;
    return rcmi_p2p_create(&messaging, comm->size, &comm->p2p);
}

void rcmi_transfer_start(rcm_comm *comm, struct rcm_work *work) {
    const rcm_status status = work->kind == RCMI_WORK_SEND
                                  ? rcmi_p2p_send(comm->p2p, &work->transfer)
                                  : rcmi_p2p_receive(comm->p2p, &work->transfer);
    if (status != RCM_OK)
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

void rcmi_comm_show_transfer(const rcm_comm *comm, const struct rcm_work *work) {
    if (!work)
        rcmi_page_show_transfer(comm->page, RCMI_TRANSFER_NONE, NULL, 0);
    else
        rcmi_page_show_transfer(
            comm->page, work->kind == RCMI_WORK_SEND ? RCMI_TRANSFER_SEND : RCMI_TRANSFER_RECV,
            &work->transfer, work->moved_ns);
}

/* ---- The short way -------------------------------------------------------------------------- */

rcm_status rcmi_send_now(rcm_comm *comm, int peer, uint64_t tag, const void *buffer, size_t bytes) {
    const struct rcmi_mem mem = rcmi_mem_host(buffer, bytes);
    if (!rcmi_comm_take(comm))
        return RCM_AGAIN;
    const rcm_status status = rcmi_endpoint_send_now(rcmi_p2p_endpoint(comm->p2p, peer), tag, &mem);
    rcmi_comm_give(comm);
    return status;
}

/* Looks for a while, if the message comes by itself. */
static rcm_status receive_soon(rcm_comm *comm, struct rcmi_endpoint *endpoint, uint64_t tag,
                               const struct rcmi_mem *mem) {
    rcm_status status = rcmi_endpoint_receive_now(endpoint, tag, mem);
    if (status != RCM_PENDING || !rcmi_endpoint_shares_memory(endpoint))
        return status == RCM_PENDING ? RCM_AGAIN : status;
    struct rcmi_pause pause = comm->engine->budget;
    for (int looks = 0; looks < LOOKS_MAX && status == RCM_PENDING; looks++) {
        if (!rcmi_caller_pauses(comm, &pause))
            break;
        status = rcmi_endpoint_receive_now(endpoint, tag, mem);
    }
    return status == RCM_PENDING ? RCM_AGAIN : status;
}

rcm_status rcmi_receive_now(rcm_comm *comm, int peer, uint64_t tag, void *buffer, size_t capacity) {
    const struct rcmi_mem mem = rcmi_mem_host(buffer, capacity);
    if (!rcmi_comm_take(comm))
        return RCM_AGAIN;
    struct rcmi_endpoint *endpoint = rcmi_p2p_endpoint_for_receive(comm->p2p, peer);
    const rcm_status status = endpoint ? receive_soon(comm, endpoint, tag, &mem) : RCM_AGAIN;
    rcmi_comm_give(comm);
    return status;
}
