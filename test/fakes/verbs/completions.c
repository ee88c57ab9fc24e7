/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues. A poll returns some of the completions. An event comes only for completions
 * after its request. */
#include <errno.h>
#include "fake_verbs.h"
#include <sys/eventfd.h>
#include <unistd.h>

static struct ibv_comp_channel *fake_create_channel(struct ibv_context *context) {
    if (fake_verbs_call_fails(PROVIDER_CREATE_CHANNEL))
        return NULL;
    struct fake_channel *channel = fake_verbs_make(sizeof *channel);
    channel->base.context = context;
    channel->base.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    return &channel->base;
}

static int fake_destroy_channel(struct ibv_comp_channel *channel) {
    close(channel->fd);
    (void)fake_verbs_unmake(channel);
    return fake_verbs_ended(PROVIDER_DESTROY_CHANNEL);
}

static struct ibv_cq *fake_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                     struct ibv_comp_channel *channel, int vector) {
    (void)vector;
    if (fake_verbs_call_fails(PROVIDER_CREATE_CQ))
        return NULL;
    struct fake_cq *cq = fake_verbs_make(sizeof *cq);
    cq->base.context = context;
    cq->base.channel = channel;
    cq->base.cq_context = cq_context;
    cq->base.cqe = cqe;
    cq->ring = calloc((size_t)cqe, sizeof *cq->ring);
    REQUIRE(cqe <= CQE_MAX && cq->ring);
    return &cq->base;
}

static int fake_destroy_cq(struct ibv_cq *base) {
    struct fake_cq *cq = (struct fake_cq *)base;
    REQUIRE(cq->base.comp_events_completed == 0); /* all events must be acknowledged */
    free(cq->ring);
    (void)fake_verbs_unmake(cq);
    return fake_verbs_ended(PROVIDER_DESTROY_CQ);
}

/* Under the lock. */
void fake_verbs_complete(struct ibv_cq *base, const struct ibv_wc *wc) {
    struct fake_cq *cq = (struct fake_cq *)base;
    const uint64_t one = 1;
    REQUIRE(cq->tail - cq->head < (uint64_t)cq->base.cqe);
    cq->ring[cq->tail++ % (uint64_t)cq->base.cqe] = *wc;
    if (!cq->armed)
        return;
    struct fake_channel *channel = (struct fake_channel *)cq->base.channel;
    cq->armed = false;
    fake.counts.events++;
    channel->npending++;
    channel->pending[0] = base;
    REQUIRE(write(channel->base.fd, &one, sizeof one) == sizeof one);
}

static int fake_get_cq_event(struct ibv_comp_channel *base, struct ibv_cq **cq, void **context) {
    struct fake_channel *channel = (struct fake_channel *)base;
    uint64_t one;
    if (fake_verbs_call_fails(PROVIDER_GET_EVENT) ||
        read(channel->base.fd, &one, sizeof one) != sizeof one)
        return -1;
    pthread_mutex_lock(&fake.lock);
    channel->npending--;
    *cq = channel->pending[0];
    *context = (*cq)->cq_context;
    (*cq)->comp_events_completed++; /* must be acknowledged */
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

static void fake_ack_cq_events(struct ibv_cq *cq, unsigned int nevents) {
    pthread_mutex_lock(&fake.lock);
    cq->comp_events_completed -= nevents;
    pthread_mutex_unlock(&fake.lock);
}

static int fake_req_notify_cq(struct ibv_cq *cq, int solicited_only) {
    (void)solicited_only;
    if (fake_verbs_call_fails(PROVIDER_REQ_NOTIFY))
        return EIO;
    pthread_mutex_lock(&fake.lock);
    ((struct fake_cq *)cq)->armed = true;
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

static int fake_poll_cq(struct ibv_cq *base, int most, struct ibv_wc *wc) {
    struct fake_cq *cq = (struct fake_cq *)base;
    int n = 0;
    if (fake_verbs_call_fails(PROVIDER_POLL_CQ))
        return -1;
    pthread_mutex_lock(&fake.lock);
    most = 1 + (int)(fake_verbs_random() % (uint32_t)most); /* often fewer than there are */
    for (; n < most && cq->head < cq->tail; n++) {
        wc[n] = cq->ring[cq->head++ % (uint64_t)cq->base.cqe];
        struct fake_qp *qp = fake_verbs_qp(wc[n].qp_num);
        if (qp && wc[n].opcode != IBV_WC_RECV)
            qp->freed = wc[n].src_qp > qp->freed ? wc[n].src_qp : qp->freed;
    }
    pthread_mutex_unlock(&fake.lock);
    return n;
}

void fake_verbs_completions(struct verbs_table *table) {
    table->create_comp_channel = fake_create_channel;
    table->destroy_comp_channel = fake_destroy_channel;
    table->create_cq = fake_create_cq;
    table->destroy_cq = fake_destroy_cq;
    table->get_cq_event = fake_get_cq_event;
    table->ack_cq_events = fake_ack_cq_events;
    table->req_notify_cq = fake_req_notify_cq;
    table->poll_cq = fake_poll_cq;
}
