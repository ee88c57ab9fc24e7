/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: creation and posting. Undefined behaviour ends the program. */
#include "fake_verbs.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

struct fake_qp *fake_verbs_qp(uint32_t number) {
    return number % QPS_MAX < QPS_MAX && fake.qps[number % QPS_MAX].used &&
                   fake.qps[number % QPS_MAX].base.qp_num == number
               ? &fake.qps[number % QPS_MAX]
               : NULL;
}

static struct ibv_qp *fake_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr) {
    static uint32_t uses;
    if (fake_verbs_call_fails(PROVIDER_CREATE_QP))
        return NULL;
    if (attr->cap.max_inline_data > fake.setup.inline_max) {
        errno = EINVAL;
        return NULL;
    }
    pthread_mutex_lock(&fake.lock);
    uint32_t i = 0;
    while (i < QPS_MAX && fake.qps[i].used)
        i++;
    REQUIRE(i < QPS_MAX);
    /* 24 bits, different in each process: queue pairs cannot reach other processes */
    const uint32_t number = ((uint32_t)getpid() & 0xff) << 8 | (++uses & 0xff);
    struct fake_qp *qp = &fake.qps[i];
    *qp = (struct fake_qp){.used = true,
                           .max_send = attr->cap.max_send_wr,
                           .max_recv = attr->cap.max_recv_wr,
                           .inline_max = attr->cap.max_inline_data};
    qp->base = (struct ibv_qp){.context = pd->context,
                               .qp_context = attr->qp_context,
                               .pd = pd,
                               .send_cq = attr->send_cq,
                               .recv_cq = attr->recv_cq,
                               .qp_num = number * QPS_MAX + i,
                               .state = IBV_QPS_RESET};
    qp->sends = calloc((size_t)SENDS_KEPT * qp->max_send, sizeof *qp->sends);
    qp->recvs = calloc(qp->max_recv, sizeof *qp->recvs);
    qp->recv_pieces = calloc(qp->max_recv, sizeof *qp->recv_pieces);
    pthread_mutex_unlock(&fake.lock);
    return &qp->base;
}

/* Also removes its completions from the completion queue. */
static int fake_destroy_qp(struct ibv_qp *base) {
    struct fake_qp *qp = (struct fake_qp *)base;
    struct fake_cq *cq = (struct fake_cq *)base->send_cq;
    pthread_mutex_lock(&fake.lock);
    uint64_t kept = cq->head;
    for (uint64_t i = cq->head; i < cq->tail; i++) {
        const struct ibv_wc wc = cq->ring[i % (uint64_t)cq->base.cqe];
        if (wc.qp_num != base->qp_num)
            cq->ring[kept++ % (uint64_t)cq->base.cqe] = wc;
    }
    cq->tail = kept;
    free(qp->sends);
    free(qp->recvs);
    free(qp->recv_pieces);
    qp->used = false;
    pthread_mutex_unlock(&fake.lock);
    return fake_verbs_ended(PROVIDER_DESTROY_QP);
}

/* ---- Posting --------------------------------------------------------------------------------- */

static int fake_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) {
    struct fake_qp *qp = (struct fake_qp *)base;
    *bad = wr;
    if (fake_verbs_call_fails(PROVIDER_POST_RECV))
        return EIO;
    pthread_mutex_lock(&fake.lock);
    REQUIRE(base->state != IBV_QPS_RESET && !wr->next && wr->num_sge == 1);
    REQUIRE(qp->receives - qp->taken < qp->max_recv);
    const uint64_t i = qp->receives++ % qp->max_recv;
    qp->recvs[i] = *wr;
    qp->recv_pieces[i] = *wr->sg_list;
    pthread_cond_signal(&fake.work);
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

struct fake_send *fake_verbs_send(const struct fake_qp *qp, uint64_t number) {
    return &qp->sends[number % ((uint64_t)SENDS_KEPT * qp->max_send)];
}

enum { SIW_SHORT = 32, SIW_INLINE = 64 }; /* bytes */

/* siw sometimes sends bytes of another process for messages or replies this short, unless they are
 * inline. Queue pairs may lack inline data if PROVIDER_CREATE_QP is made to fail. */
static bool siw_mistakes(const struct fake_send *send) {
    return fake.setup.kind == PROVIDER_IWARP && fake.setup.inline_max >= SIW_INLINE &&
           fake.fail_call[PROVIDER_CREATE_QP] == 0 && send->piece.length <= SIW_SHORT &&
           !send->has_inline;
}

static void send_copy(struct fake_qp *qp, const struct ibv_send_wr *wr) {
    REQUIRE(qp->posted - qp->carried < (uint64_t)SENDS_KEPT * qp->max_send);
    struct fake_send *send = fake_verbs_send(qp, qp->posted++);
    *send = (struct fake_send){.wr = *wr};
    REQUIRE(wr->num_sge <= 1);
    if (wr->num_sge == 1)
        send->piece = *wr->sg_list;
    send->has_inline = wr->send_flags & IBV_SEND_INLINE;
    REQUIRE(!siw_mistakes(send));
    if (!send->has_inline)
        return;
    REQUIRE(send->piece.length <= qp->inline_max && send->piece.length <= sizeof send->bytes);
    memcpy(send->bytes, (const void *)(uintptr_t)send->piece.addr, send->piece.length);
}

static int fake_post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
    struct fake_qp *qp = (struct fake_qp *)base;
    *bad = wr;
    if (fake_verbs_call_fails(PROVIDER_POST_SEND))
        return EIO;
    pthread_mutex_lock(&fake.lock);
    REQUIRE(base->state == IBV_QPS_RTS || base->state == IBV_QPS_ERR);
    REQUIRE(!qp->called || qp->taken > 0);
    fake.counts.posts++;
    for (; wr; wr = wr->next) {
        REQUIRE(qp->posted - qp->freed < qp->max_send);
        fake.counts.sends += wr->opcode == IBV_WR_SEND;
        fake.counts.writes += wr->opcode == IBV_WR_RDMA_WRITE;
        send_copy(qp, wr);
    }
    pthread_cond_signal(&fake.work);
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

void fake_verbs_queue_pairs(struct verbs_table *table) {
    table->create_qp = fake_create_qp;
    table->destroy_qp = fake_destroy_qp;
    table->post_send = fake_post_send;
    table->post_recv = fake_post_recv;
}
