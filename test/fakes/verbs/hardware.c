/* SPDX-License-Identifier: BSD-3-Clause */
/* The hardware: a thread that executes posted work and reports its completions. */
#include "fake_verbs.h"
#include <sched.h>
#include <string.h>
#include <time.h>

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Adds the completion of a send if it is requested or an error. */
static void send_complete(struct fake_qp *qp, uint64_t number, enum ibv_wc_status status) {
    const struct fake_send *send = fake_verbs_send(qp, number);
    if (status == IBV_WC_SUCCESS && !(send->wr.send_flags & IBV_SEND_SIGNALED))
        return;
    /* src_qp is unused for sends. Here it is the number of entries that this completion frees. */
    const struct ibv_wc wc = {.wr_id = send->wr.wr_id,
                              .status = status,
                              .opcode = IBV_WC_SEND,
                              .qp_num = qp->base.qp_num,
                              .src_qp = (uint32_t)number + 1};
    fake.counts.send_completions++;
    fake_verbs_complete(qp->base.send_cq, &wc);
}

/* TCP accepts everything that is posted, wherever it ends up. Small sends are copied. */
static void sends_accept(struct fake_qp *qp) {
    for (; qp->completed < qp->posted; qp->completed++) {
        struct fake_send *send = fake_verbs_send(qp, qp->completed);
        if (send->wr.opcode == IBV_WR_RDMA_READ)
            continue;
        if (send->wr.opcode == IBV_WR_SEND && !send->has_inline) {
            REQUIRE(send->piece.length <= sizeof send->bytes);
            memcpy(send->bytes, (const void *)(uintptr_t)send->piece.addr, send->piece.length);
            send->has_inline = true;
        }
        send_complete(qp, qp->completed, IBV_WC_SUCCESS);
    }
}

/* Ends the first unexecuted send with that status. */
static void send_end(struct fake_qp *qp, enum ibv_wc_status status) {
    const uint64_t number = qp->carried++;
    if (number >= qp->completed || fake_verbs_send(qp, number)->wr.opcode == IBV_WR_RDMA_READ)
        send_complete(qp, number, status);
}

static void receives_flush(struct fake_qp *qp) {
    for (; qp->taken < qp->receives; qp->taken++) {
        const struct ibv_wc wc = {.wr_id = qp->recvs[qp->taken % qp->max_recv].wr_id,
                                  .status = IBV_WC_WR_FLUSH_ERR,
                                  .opcode = IBV_WC_RECV,
                                  .qp_num = qp->base.qp_num};
        fake_verbs_complete(qp->base.recv_cq, &wc);
    }
}

/* Flushes everything that is posted. */
static void qp_fail(struct fake_qp *qp) {
    qp->base.state = IBV_QPS_ERR;
    while (qp->carried < qp->posted)
        send_end(qp, IBV_WC_WR_FLUSH_ERR);
    receives_flush(qp);
}

/* The next send fails. Flushed receives may complete before it. */
static void send_fail(struct fake_qp *qp, enum ibv_wc_status cause) {
    if (fake_verbs_random() & 1)
        receives_flush(qp);
    send_end(qp, cause);
    qp_fail(qp);
}

static const void *send_bytes(const struct fake_send *send) {
    return send->has_inline ? send->bytes : (const void *)(uintptr_t)send->piece.addr;
}

static enum ibv_wc_status carry_write(const struct fake_send *send, const struct fake_qp *peer) {
    const uint64_t to = send->wr.wr.rdma.remote_addr;
    if (!fake_verbs_mr_allows(peer->base.pd, send->wr.wr.rdma.rkey, to, send->piece.length,
                              IBV_ACCESS_REMOTE_WRITE))
        return IBV_WC_REM_ACCESS_ERR;
    if (send->piece.length)
        memcpy((void *)(uintptr_t)to, send_bytes(send), send->piece.length);
    return IBV_WC_SUCCESS;
}

static enum ibv_wc_status carry_send(const struct fake_send *send, struct fake_qp *peer) {
    if (peer->taken == peer->receives)
        return IBV_WC_RNR_RETRY_EXC_ERR;
    const uint64_t i = peer->taken++ % peer->max_recv;
    const struct ibv_sge *piece = &peer->recv_pieces[i];
    REQUIRE(send->piece.length <= piece->length);
    REQUIRE(fake_verbs_mr_allows(peer->base.pd, piece->lkey, piece->addr, piece->length,
                                 IBV_ACCESS_LOCAL_WRITE));
    memcpy((void *)(uintptr_t)piece->addr, send_bytes(send), send->piece.length);
    const struct ibv_wc wc = {.wr_id = peer->recvs[i].wr_id,
                              .opcode = IBV_WC_RECV,
                              .byte_len = send->piece.length,
                              .qp_num = peer->base.qp_num};
    fake_verbs_complete(peer->base.recv_cq, &wc);
    return IBV_WC_SUCCESS;
}

/* iWARP: the peer writes the destination of a read, so it needs remote write access. */
static enum ibv_wc_status carry_read(const struct fake_qp *qp, const struct fake_send *send,
                                     const struct fake_qp *peer) {
    const uint64_t from = send->wr.wr.rdma.remote_addr;
    const size_t len = send->piece.length;
    REQUIRE(fake_verbs_mr_allows(qp->base.pd, send->piece.lkey, send->piece.addr, len,
                                 IBV_ACCESS_REMOTE_WRITE));
    if (!fake_verbs_mr_allows(peer->base.pd, send->wr.wr.rdma.rkey, from, len,
                              IBV_ACCESS_REMOTE_READ))
        return IBV_WC_REM_ACCESS_ERR;
    memcpy((void *)(uintptr_t)send->piece.addr, (const void *)(uintptr_t)from, len);
    return IBV_WC_SUCCESS;
}

static enum ibv_wc_status carry_by_kind(const struct fake_qp *qp, const struct fake_send *send,
                                        struct fake_qp *peer) {
    if (send->wr.opcode == IBV_WR_SEND)
        return carry_send(send, peer);
    if (send->wr.opcode == IBV_WR_RDMA_WRITE)
        return carry_write(send, peer);
    REQUIRE(send->wr.opcode == IBV_WR_RDMA_READ && fake.setup.kind == PROVIDER_IWARP);
    return carry_read(qp, send, peer);
}

/* A send that does not reach the other side is retried for a while. The other side may not be
 * connected yet. */
static void wait_for_path(struct fake_qp *qp) {
    if (qp->stuck_since == 0)
        qp->stuck_since = now_ms();
    if (now_ms() - qp->stuck_since < qp->patience_ms)
        return;
    send_fail(qp, IBV_WC_RETRY_EXC_ERR);
}

/* Executes the queue pair's next send. */
static void carry(struct fake_qp *qp) {
    const struct fake_send *send = fake_verbs_send(qp, qp->carried);
    struct fake_qp *peer = fake_verbs_qp(qp->dest);
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    if (!fake_verbs_reaches(qp, peer)) {
        wait_for_path(qp);
        return;
    }
    qp->stuck_since = 0;
    if (!send->has_inline && !fake_verbs_mr_allows(qp->base.pd, send->piece.lkey, send->piece.addr,
                                                   send->piece.length, 0))
        status = IBV_WC_LOC_PROT_ERR;
    else if (++fake.carried_out == fake.fail_send_number)
        status = fake.fail_send_status;
    else
        status = carry_by_kind(qp, send, peer);
    if (status == IBV_WC_SUCCESS)
        send_end(qp, status);
    else
        send_fail(qp, status);
}

enum left { NOTHING, STUCK, MORE };

/* Executes some posted work of each queue pair, or none, depending on the seed. Returns what
 * remains: nothing, only sends that do not reach the other side, or more. */
static enum left carry_some(void) {
    enum left left = NOTHING;
    const uint32_t first = fake_verbs_random() % QPS_MAX;
    for (uint32_t k = 0; !fake.held && k < QPS_MAX; k++) {
        struct fake_qp *qp = &fake.qps[(first + k) % QPS_MAX];
        if (!qp->used)
            continue;
        if (qp->base.state == IBV_QPS_ERR && (qp->closed || qp->carried < qp->posted))
            qp_fail(qp);
        if (qp->base.state != IBV_QPS_RTS)
            continue;
        if (fake.setup.kind == PROVIDER_IWARP)
            sends_accept(qp);
        for (uint32_t n = fake_verbs_random() % 8; n > 0 && qp->carried < qp->posted; n--) {
            carry(qp);
            if (qp->base.state != IBV_QPS_RTS || qp->stuck_since)
                break;
        }
        const enum left here = qp->carried == qp->posted ? NOTHING : qp->stuck_since ? STUCK : MORE;
        left = here > left ? here : left;
    }
    return left;
}

void *fake_verbs_hardware(void *arg) {
    const struct timespec between_tries = {.tv_nsec = 100000};
    (void)arg;
    pthread_mutex_lock(&fake.lock);
    fake.begun = true;
    pthread_cond_signal(&fake.changed);
    while (!fake.stop) {
        const enum left left = carry_some();
        if (left == NOTHING) {
            pthread_cond_wait(&fake.work, &fake.lock);
            continue;
        }
        pthread_mutex_unlock(&fake.lock);
        if (left == STUCK)
            nanosleep(&between_tries, NULL);
        else
            sched_yield();
        pthread_mutex_lock(&fake.lock);
    }
    pthread_mutex_unlock(&fake.lock);
    return NULL;
}
