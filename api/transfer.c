/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives of a communicator: works on one side, transfers of p2p/ on the other. Not
 * here: front doors and the short way (message.c); matching (p2p/); how messages travel
 * (transport/endpoint.h).
 */
#include "transfer.h"
#include "comm.h"
#include "p2p.h"

static struct rcm_work *work_of(struct rcmi_transfer *t) {
    return (struct rcm_work *)((char *)t - offsetof(struct rcm_work, transfer));
}

static void transfer_completed(struct rcmi_transfer *t, rcm_status status) {
    struct rcm_work *work = work_of(t);
    work->message.source = t->peer;
    work->message.tag = t->tag;
    work->message.bytes = t->total;
    rcmi_transfer_free_copy(t);
    rcmi_work_complete(work, status);
}

static void transfer_wake(void *arg) {
    rcmi_node_ring(arg);
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
    messaging.rank = comm->rank;
    messaging.wake = transfer_wake;
    messaging.wake_arg = engine->node;
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
