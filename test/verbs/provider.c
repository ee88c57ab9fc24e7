/* SPDX-License-Identifier: BSD-3-Clause */
#include "provider.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { DEVICES_MAX = 4, QPS_MAX = 256, MRS_MAX = 1024, CQE_MAX = 1 << 16 };

/* What a device may not survive: the program that caused it ends. */
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: a device's rule is broken: %s\n", __FILE__, __LINE__,          \
                    #condition);                                                                   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct fake_channel {
    struct ibv_comp_channel base;
    struct ibv_cq *told[64];
    int ntold;
};

struct fake_cq {
    struct ibv_cq base;
    struct ibv_wc *ring;
    uint64_t head, tail;
    bool armed;
};

struct fake_send {
    struct ibv_send_wr wr;
    struct ibv_sge piece;
    bool has_inline;
    uint8_t bytes[512];
};

struct fake_qp {
    struct ibv_qp base;
    bool used;
    uint32_t dest, max_send, max_recv, inline_max;
    struct fake_send *sends;  /* max_send */
    uint64_t posted, carried; /* sends */
    uint64_t freed;           /* entries that a polled completion has freed */
    struct ibv_recv_wr *recvs;
    struct ibv_sge *recv_pieces;
    uint64_t receives, taken;
    int64_t patience_ms; /* all tries of a send together */
    int64_t stuck_since; /* what is to be carried out does not reach the other side */
};

struct fake_mr {
    struct ibv_mr base;
    int access;
    bool used;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static struct provider_setup setup;
static struct ibv_device devices[DEVICES_MAX];
static struct fake_qp qps[QPS_MAX];
static struct fake_mr mrs[MRS_MAX];
static pthread_t hardware;
static bool stop, cut, held;
static int64_t slow_ms; /* to connect a queue pair that is younger than its peer's */
static uint32_t random_state;
static int objects; /* that were made and not destroyed */
static int calls[PROVIDER_CALLS], fail_call[PROVIDER_CALLS];
static int carried_out, fail_send_number;
static enum ibv_wc_status fail_send_status;
static struct provider_counts counts;

static uint32_t random_next(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

/* Whether this call is to fail; errno says so. */
static bool call_fails(enum provider_call call) {
    pthread_mutex_lock(&lock);
    const bool fails = ++calls[call] == fail_call[call];
    pthread_mutex_unlock(&lock);
    if (fails)
        errno = call == PROVIDER_REG_MR ? ENOMEM : EIO;
    return fails;
}

static void *make(size_t bytes) {
    pthread_mutex_lock(&lock);
    objects++;
    pthread_mutex_unlock(&lock);
    void *object = calloc(1, bytes);
    REQUIRE(object);
    return object;
}

static int unmake(void *object) {
    pthread_mutex_lock(&lock);
    objects--;
    pthread_mutex_unlock(&lock);
    free(object);
    return 0;
}

/* ---- Devices --------------------------------------------------------------------------------- */

static struct ibv_device **fake_get_device_list(int *num_devices) {
    struct ibv_device **list = make((DEVICES_MAX + 1) * sizeof(struct ibv_device *));
    for (int i = 0; i < setup.devices; i++)
        list[i] = &devices[i];
    if (num_devices)
        *num_devices = setup.devices;
    return list;
}

static void fake_free_device_list(struct ibv_device **list) {
    unmake(list);
}

static struct ibv_context *fake_open_device(struct ibv_device *device) {
    if (call_fails(PROVIDER_OPEN_DEVICE))
        return NULL;
    struct ibv_context *context = make(sizeof *context);
    context->device = device;
    context->async_fd = eventfd(0, EFD_CLOEXEC);
    return context;
}

static int fake_close_device(struct ibv_context *context) {
    close(context->async_fd);
    return unmake(context);
}

static int fake_query_device(struct ibv_context *context, struct ibv_device_attr *attr) {
    (void)context;
    if (call_fails(PROVIDER_QUERY_DEVICE))
        return EIO;
    *attr = (struct ibv_device_attr){.max_cqe = CQE_MAX, .phys_port_cnt = 1};
    return 0;
}

static int fake_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr) {
    (void)context;
    if (call_fails(PROVIDER_QUERY_PORT))
        return EIO;
    REQUIRE(port == 1);
    *attr = (struct ibv_port_attr){.state = IBV_PORT_ACTIVE,
                                   .active_mtu = IBV_MTU_1024,
                                   .gid_tbl_len = 2,
                                   .pkey_tbl_len = 1,
                                   .active_width = 2,
                                   .active_speed = 32,
                                   .link_layer = IBV_LINK_LAYER_ETHERNET};
    return 0;
}

/* 10.SUBNET.0.DEVICE at index 1; at 0 an address that is no use. */
static int fake_query_gid(struct ibv_context *context, uint8_t port, int index,
                          union ibv_gid *gid) {
    const int i = (int)(context->device - devices);
    if (call_fails(PROVIDER_QUERY_GID))
        return EIO;
    REQUIRE(port == 1 && index < 2);
    memset(gid, 0, sizeof *gid);
    gid->raw[10] = gid->raw[11] = 0xff;
    gid->raw[12] = 10;
    gid->raw[13] = (uint8_t)(setup.subnets ? i % setup.subnets : 0);
    gid->raw[15] = (uint8_t)(i + 1);
    return 0;
}

static int fake_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey) {
    (void)context;
    (void)port;
    (void)index;
    *pkey = 0xffff;
    return 0;
}

static bool fake_is_hardware(const struct ibv_device *device) {
    (void)device;
    return true;
}

static void fake_describe_gid(const struct ibv_device *device, uint8_t port, int index,
                              const union ibv_gid *gid, struct verbs_gid *ret_gid) {
    (void)device;
    (void)port;
    (void)gid;
    *ret_gid = (struct verbs_gid){.roce_v2 = index == 1, .ipv4_prefix = 24};
}

static struct ibv_pd *fake_alloc_pd(struct ibv_context *context) {
    if (call_fails(PROVIDER_ALLOC_PD))
        return NULL;
    struct ibv_pd *pd = make(sizeof *pd);
    pd->context = context;
    return pd;
}

static int fake_dealloc_pd(struct ibv_pd *pd) {
    return unmake(pd);
}

static int fake_fork_init(void) {
    return 0;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static struct ibv_mr *fake_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access) {
    if (call_fails(PROVIDER_REG_MR))
        return NULL;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < MRS_MAX && mrs[i].used)
        i++;
    REQUIRE(i < MRS_MAX);
    /* A key is not used again soon. */
    const uint32_t key = (random_next() & 0xffffu) << 16 | (uint32_t)i;
    mrs[i] = (struct fake_mr){.base = {.context = pd->context,
                                       .pd = pd,
                                       .addr = addr,
                                       .length = length,
                                       .lkey = key,
                                       .rkey = key},
                              .access = access,
                              .used = true};
    pthread_mutex_unlock(&lock);
    return &mrs[i].base;
}

static int fake_dereg_mr(struct ibv_mr *mr) {
    pthread_mutex_lock(&lock);
    ((struct fake_mr *)mr)->used = false;
    pthread_mutex_unlock(&lock);
    return 0;
}

/* May those bytes be used by that key? Under lock. */
static bool mr_allows(const struct ibv_pd *pd, uint32_t key, uint64_t addr, size_t len,
                      int access) {
    const struct fake_mr *mr = &mrs[key % MRS_MAX];
    if (len == 0)
        return true;
    return mr->used && mr->base.rkey == key && mr->base.pd == pd &&
           (mr->access & access) == access && addr >= (uintptr_t)mr->base.addr &&
           len <= mr->base.length && addr - (uintptr_t)mr->base.addr <= mr->base.length - len;
}

/* ---- Completions ----------------------------------------------------------------------------- */

static struct ibv_comp_channel *fake_create_channel(struct ibv_context *context) {
    if (call_fails(PROVIDER_CREATE_CHANNEL))
        return NULL;
    struct fake_channel *channel = make(sizeof *channel);
    channel->base.context = context;
    channel->base.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    return &channel->base;
}

static int fake_destroy_channel(struct ibv_comp_channel *channel) {
    close(channel->fd);
    return unmake(channel);
}

static struct ibv_cq *fake_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                     struct ibv_comp_channel *channel, int vector) {
    (void)vector;
    if (call_fails(PROVIDER_CREATE_CQ))
        return NULL;
    struct fake_cq *cq = make(sizeof *cq);
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
    REQUIRE(cq->base.comp_events_completed == 0); /* events that were not acknowledged */
    free(cq->ring);
    return unmake(cq);
}

/* Under lock. */
static void complete(struct ibv_cq *base, const struct ibv_wc *wc) {
    struct fake_cq *cq = (struct fake_cq *)base;
    const uint64_t one = 1;
    REQUIRE(cq->tail - cq->head < (uint64_t)cq->base.cqe);
    cq->ring[cq->tail++ % (uint64_t)cq->base.cqe] = *wc;
    if (!cq->armed)
        return;
    struct fake_channel *channel = (struct fake_channel *)cq->base.channel;
    cq->armed = false;
    counts.events++;
    channel->ntold++;
    channel->told[0] = base;
    REQUIRE(write(channel->base.fd, &one, sizeof one) == sizeof one);
}

static int fake_get_cq_event(struct ibv_comp_channel *base, struct ibv_cq **cq, void **context) {
    struct fake_channel *channel = (struct fake_channel *)base;
    uint64_t one;
    if (read(channel->base.fd, &one, sizeof one) != sizeof one)
        return -1;
    pthread_mutex_lock(&lock);
    channel->ntold--;
    *cq = channel->told[0];
    *context = (*cq)->cq_context;
    (*cq)->comp_events_completed++; /* of those to be acknowledged */
    pthread_mutex_unlock(&lock);
    return 0;
}

static void fake_ack_cq_events(struct ibv_cq *cq, unsigned int nevents) {
    pthread_mutex_lock(&lock);
    cq->comp_events_completed -= nevents;
    pthread_mutex_unlock(&lock);
}

static int fake_req_notify_cq(struct ibv_cq *cq, int solicited_only) {
    (void)solicited_only;
    pthread_mutex_lock(&lock);
    ((struct fake_cq *)cq)->armed = true;
    pthread_mutex_unlock(&lock);
    return 0;
}

static struct fake_qp *qp_numbered(uint32_t number) {
    return number % QPS_MAX < QPS_MAX && qps[number % QPS_MAX].used &&
                   qps[number % QPS_MAX].base.qp_num == number
               ? &qps[number % QPS_MAX]
               : NULL;
}

static int fake_poll_cq(struct ibv_cq *base, int most, struct ibv_wc *wc) {
    struct fake_cq *cq = (struct fake_cq *)base;
    int n = 0;
    pthread_mutex_lock(&lock);
    most = 1 + (int)(random_next() % (uint32_t)most); /* often not all there are */
    for (; n < most && cq->head < cq->tail; n++) {
        wc[n] = cq->ring[cq->head++ % (uint64_t)cq->base.cqe];
        struct fake_qp *qp = qp_numbered(wc[n].qp_num);
        if (qp && wc[n].opcode != IBV_WC_RECV)
            qp->freed = wc[n].src_qp | (qp->freed & ~UINT64_C(0xffffffff));
    }
    pthread_mutex_unlock(&lock);
    return n;
}

static int fake_get_async_event(struct ibv_context *context, struct ibv_async_event *event) {
    uint64_t n;
    (void)event;
    return read(context->async_fd, &n, sizeof n) == sizeof n ? 0 : -1;
}

static void fake_ack_async_event(struct ibv_async_event *event) {
    (void)event;
}

/* ---- Queue pairs ----------------------------------------------------------------------------- */

static struct ibv_qp *fake_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr) {
    static uint32_t uses;
    if (call_fails(PROVIDER_CREATE_QP))
        return NULL;
    if (attr->cap.max_inline_data > setup.inline_max) {
        errno = EINVAL;
        return NULL;
    }
    pthread_mutex_lock(&lock);
    uint32_t i = 0;
    while (i < QPS_MAX && qps[i].used)
        i++;
    REQUIRE(i < QPS_MAX);
    struct fake_qp *qp = &qps[i];
    *qp = (struct fake_qp){.used = true,
                           .max_send = attr->cap.max_send_wr,
                           .max_recv = attr->cap.max_recv_wr,
                           .inline_max = attr->cap.max_inline_data};
    qp->base = (struct ibv_qp){.context = pd->context,
                               .qp_context = attr->qp_context,
                               .pd = pd,
                               .send_cq = attr->send_cq,
                               .recv_cq = attr->recv_cq,
                               .qp_num = ++uses * QPS_MAX + i,
                               .state = IBV_QPS_RESET};
    qp->sends = calloc(qp->max_send, sizeof *qp->sends);
    qp->recvs = calloc(qp->max_recv, sizeof *qp->recvs);
    qp->recv_pieces = calloc(qp->max_recv, sizeof *qp->recv_pieces);
    pthread_mutex_unlock(&lock);
    return &qp->base;
}

/* And what of it lies in the completion queue. */
static int fake_destroy_qp(struct ibv_qp *base) {
    struct fake_qp *qp = (struct fake_qp *)base;
    struct fake_cq *cq = (struct fake_cq *)base->send_cq;
    pthread_mutex_lock(&lock);
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
    pthread_mutex_unlock(&lock);
    return 0;
}

/* A device tries retry_cnt times after the first, each 4.096 us * 2^timeout. */
static int64_t patience_of(const struct ibv_qp_attr *attr) {
    REQUIRE(attr->retry_cnt < 7 && attr->timeout > 0);
    return (INT64_C(4096) << attr->timeout) * (attr->retry_cnt + 1) / 1000000;
}

/* The peer's address may take a while to be found. */
static void resolve(uint32_t mine, uint32_t peer) {
    pthread_mutex_lock(&lock);
    const int64_t ms = mine > peer ? slow_ms : 0;
    pthread_mutex_unlock(&lock);
    const struct timespec while_it_takes = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&while_it_takes, NULL);
}

static int fake_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask) {
    struct fake_qp *qp = (struct fake_qp *)base;
    if (call_fails(PROVIDER_MODIFY_QP))
        return EIO;
    if (attr->qp_state == IBV_QPS_RTR)
        resolve(base->qp_num, attr->dest_qp_num);
    pthread_mutex_lock(&lock);
    REQUIRE(mask & IBV_QP_STATE);
    const enum ibv_qp_state from = base->state, to = attr->qp_state;
    REQUIRE((from == IBV_QPS_RESET && to == IBV_QPS_INIT) ||
            (from == IBV_QPS_INIT && to == IBV_QPS_RTR) ||
            (from == IBV_QPS_RTR && to == IBV_QPS_RTS));
    if (to == IBV_QPS_RTR) {
        REQUIRE(attr->ah_attr.is_global && attr->ah_attr.grh.sgid_index == 1);
        qp->dest = attr->dest_qp_num;
    }
    if (to == IBV_QPS_RTS)
        qp->patience_ms = patience_of(attr);
    base->state = to;
    pthread_cond_signal(&work);
    pthread_mutex_unlock(&lock);
    return 0;
}

/* ---- Posting --------------------------------------------------------------------------------- */

static int fake_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) {
    struct fake_qp *qp = (struct fake_qp *)base;
    *bad = wr;
    if (call_fails(PROVIDER_POST_RECV))
        return EIO;
    pthread_mutex_lock(&lock);
    REQUIRE(base->state != IBV_QPS_RESET && !wr->next && wr->num_sge == 1);
    REQUIRE(qp->receives - qp->taken < qp->max_recv);
    const uint64_t i = qp->receives++ % qp->max_recv;
    qp->recvs[i] = *wr;
    qp->recv_pieces[i] = *wr->sg_list;
    pthread_cond_signal(&work);
    pthread_mutex_unlock(&lock);
    return 0;
}

static void send_copy(struct fake_qp *qp, const struct ibv_send_wr *wr) {
    struct fake_send *send = &qp->sends[qp->posted++ % qp->max_send];
    *send = (struct fake_send){.wr = *wr};
    REQUIRE(wr->num_sge <= 1);
    if (wr->num_sge == 1)
        send->piece = *wr->sg_list;
    send->has_inline = wr->send_flags & IBV_SEND_INLINE;
    if (!send->has_inline)
        return;
    REQUIRE(send->piece.length <= qp->inline_max && send->piece.length <= sizeof send->bytes);
    memcpy(send->bytes, (const void *)(uintptr_t)send->piece.addr, send->piece.length);
}

static int fake_post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
    struct fake_qp *qp = (struct fake_qp *)base;
    *bad = wr;
    if (call_fails(PROVIDER_POST_SEND))
        return EIO;
    pthread_mutex_lock(&lock);
    REQUIRE(base->state == IBV_QPS_RTS || base->state == IBV_QPS_ERR);
    counts.posts++;
    for (; wr; wr = wr->next) {
        REQUIRE(qp->posted - qp->freed < qp->max_send);
        counts.sends += wr->opcode == IBV_WR_SEND;
        counts.writes += wr->opcode == IBV_WR_RDMA_WRITE;
        send_copy(qp, wr);
    }
    pthread_cond_signal(&work);
    pthread_mutex_unlock(&lock);
    return 0;
}

/* ---- The hardware ---------------------------------------------------------------------------- */

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The first send that is not carried out is, with that outcome. */
static void send_end(struct fake_qp *qp, enum ibv_wc_status status) {
    const struct fake_send *send = &qp->sends[qp->carried++ % qp->max_send];
    if (status == IBV_WC_SUCCESS && !(send->wr.send_flags & IBV_SEND_SIGNALED))
        return;
    /* src_qp, of no use to a sender, says here which entries come free with it. */
    const struct ibv_wc wc = {.wr_id = send->wr.wr_id,
                              .status = status,
                              .opcode = IBV_WC_SEND,
                              .qp_num = qp->base.qp_num,
                              .src_qp = (uint32_t)qp->carried};
    counts.send_completions++;
    complete(qp->base.send_cq, &wc);
}

/* All that is posted is flushed. */
static void qp_fail(struct fake_qp *qp) {
    qp->base.state = IBV_QPS_ERR;
    while (qp->carried < qp->posted)
        send_end(qp, IBV_WC_WR_FLUSH_ERR);
    for (; qp->taken < qp->receives; qp->taken++) {
        const struct ibv_wc wc = {.wr_id = qp->recvs[qp->taken % qp->max_recv].wr_id,
                                  .status = IBV_WC_WR_FLUSH_ERR,
                                  .opcode = IBV_WC_RECV,
                                  .qp_num = qp->base.qp_num};
        complete(qp->base.recv_cq, &wc);
    }
}

static const void *send_bytes(const struct fake_send *send) {
    return send->has_inline ? send->bytes : (const void *)(uintptr_t)send->piece.addr;
}

static enum ibv_wc_status carry_write(const struct fake_send *send, const struct fake_qp *peer) {
    const uint64_t to = send->wr.wr.rdma.remote_addr;
    if (!mr_allows(peer->base.pd, send->wr.wr.rdma.rkey, to, send->piece.length,
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
    REQUIRE(
        mr_allows(peer->base.pd, piece->lkey, piece->addr, piece->length, IBV_ACCESS_LOCAL_WRITE));
    memcpy((void *)(uintptr_t)piece->addr, send_bytes(send), send->piece.length);
    const struct ibv_wc wc = {.wr_id = peer->recvs[i].wr_id,
                              .opcode = IBV_WC_RECV,
                              .byte_len = send->piece.length,
                              .qp_num = peer->base.qp_num};
    complete(peer->base.recv_cq, &wc);
    return IBV_WC_SUCCESS;
}

static bool is_reached(const struct fake_qp *peer) {
    return !cut && peer && (peer->base.state == IBV_QPS_RTR || peer->base.state == IBV_QPS_RTS);
}

/* What does not reach the other side, which may not be connected yet, is tried for a while. */
static void wait_for_path(struct fake_qp *qp) {
    if (qp->stuck_since == 0)
        qp->stuck_since = now_ms();
    if (now_ms() - qp->stuck_since < qp->patience_ms)
        return;
    send_end(qp, IBV_WC_RETRY_EXC_ERR);
    qp_fail(qp);
}

/* The queue pair's next send. */
static void carry(struct fake_qp *qp) {
    const struct fake_send *send = &qp->sends[qp->carried % qp->max_send];
    struct fake_qp *peer = qp_numbered(qp->dest);
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    if (!is_reached(peer)) {
        wait_for_path(qp);
        return;
    }
    qp->stuck_since = 0;
    if (!send->has_inline &&
        !mr_allows(qp->base.pd, send->piece.lkey, send->piece.addr, send->piece.length, 0))
        status = IBV_WC_LOC_PROT_ERR;
    else if (++carried_out == fail_send_number)
        status = fail_send_status;
    else
        status = send->wr.opcode == IBV_WR_SEND ? carry_send(send, peer) : carry_write(send, peer);
    send_end(qp, status);
    if (status != IBV_WC_SUCCESS)
        qp_fail(qp);
}

enum left { NOTHING, STUCK, MORE };

/* Something for each queue pair that has something, or, as the seed wants, not yet. What is left:
 * nothing, only what does not reach the other side, or more. */
static enum left carry_some(void) {
    enum left left = NOTHING;
    const uint32_t first = random_next() % QPS_MAX;
    for (uint32_t k = 0; !held && k < QPS_MAX; k++) {
        struct fake_qp *qp = &qps[(first + k) % QPS_MAX];
        if (!qp->used)
            continue;
        if (qp->base.state == IBV_QPS_ERR && qp->carried < qp->posted)
            qp_fail(qp);
        if (qp->base.state != IBV_QPS_RTS)
            continue;
        for (uint32_t n = random_next() % 8; n > 0 && qp->carried < qp->posted; n--) {
            carry(qp);
            if (qp->base.state != IBV_QPS_RTS || qp->stuck_since)
                break;
        }
        const enum left here = qp->carried == qp->posted ? NOTHING : qp->stuck_since ? STUCK : MORE;
        left = here > left ? here : left;
    }
    return left;
}

static void *hardware_run(void *arg) {
    const struct timespec between_tries = {.tv_nsec = 100000};
    (void)arg;
    pthread_mutex_lock(&lock);
    while (!stop) {
        const enum left left = carry_some();
        if (left == NOTHING) {
            pthread_cond_wait(&work, &lock);
            continue;
        }
        pthread_mutex_unlock(&lock);
        if (left == STUCK)
            nanosleep(&between_tries, NULL);
        else
            sched_yield();
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* ---- Tests' side ----------------------------------------------------------------------------- */

static const struct verbs_table fakes = {
    .get_device_list = fake_get_device_list,
    .free_device_list = fake_free_device_list,
    .open_device = fake_open_device,
    .close_device = fake_close_device,
    .query_device = fake_query_device,
    .query_port = fake_query_port,
    .query_gid = fake_query_gid,
    .query_pkey = fake_query_pkey,
    .alloc_pd = fake_alloc_pd,
    .dealloc_pd = fake_dealloc_pd,
    .reg_mr = fake_reg_mr,
    .dereg_mr = fake_dereg_mr,
    .create_comp_channel = fake_create_channel,
    .destroy_comp_channel = fake_destroy_channel,
    .create_cq = fake_create_cq,
    .destroy_cq = fake_destroy_cq,
    .create_qp = fake_create_qp,
    .modify_qp = fake_modify_qp,
    .destroy_qp = fake_destroy_qp,
    .get_cq_event = fake_get_cq_event,
    .ack_cq_events = fake_ack_cq_events,
    .get_async_event = fake_get_async_event,
    .ack_async_event = fake_ack_async_event,
    .fork_init = fake_fork_init,
    .post_send = fake_post_send,
    .post_recv = fake_post_recv,
    .req_notify_cq = fake_req_notify_cq,
    .poll_cq = fake_poll_cq,
    .is_hardware = fake_is_hardware,
    .describe_gid = fake_describe_gid,
};

void provider_install(const struct provider_setup *what) {
    setup = *what;
    random_state = setup.seed ? setup.seed : 1;
    memset(calls, 0, sizeof calls);
    memset(fail_call, 0, sizeof fail_call);
    memset(&counts, 0, sizeof counts);
    carried_out = fail_send_number = 0;
    stop = cut = held = false;
    slow_ms = 0;
    for (int i = 0; i < setup.devices; i++) {
        devices[i] =
            (struct ibv_device){.node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB};
        snprintf(devices[i].name, sizeof devices[i].name, "fake%d", i);
    }
    REQUIRE(setup.devices <= DEVICES_MAX &&
            pthread_create(&hardware, NULL, hardware_run, NULL) == 0);
    verbs_table_set(&fakes);
}

void provider_remove(void) {
    pthread_mutex_lock(&lock);
    stop = true;
    pthread_cond_signal(&work);
    pthread_mutex_unlock(&lock);
    pthread_join(hardware, NULL);
    verbs_table_set(NULL);
    REQUIRE(objects == 0);
    for (int i = 0; i < QPS_MAX; i++)
        REQUIRE(!qps[i].used);
    for (int i = 0; i < MRS_MAX; i++)
        REQUIRE(!mrs[i].used);
}

void provider_fail_call(enum provider_call call, int number) {
    pthread_mutex_lock(&lock);
    fail_call[call] = number ? calls[call] + number : 0;
    pthread_mutex_unlock(&lock);
}

void provider_fail_send(enum ibv_wc_status status, int number) {
    pthread_mutex_lock(&lock);
    fail_send_status = status;
    fail_send_number = number ? carried_out + number : 0;
    pthread_mutex_unlock(&lock);
}

int provider_calls(enum provider_call call) {
    pthread_mutex_lock(&lock);
    const int n = calls[call];
    pthread_mutex_unlock(&lock);
    return n;
}

void provider_cut(bool is_cut) {
    pthread_mutex_lock(&lock);
    cut = is_cut;
    pthread_cond_signal(&work);
    pthread_mutex_unlock(&lock);
}

void provider_slow_connect(int64_t ms) {
    pthread_mutex_lock(&lock);
    slow_ms = ms;
    pthread_mutex_unlock(&lock);
}

void provider_hold(bool is_held) {
    pthread_mutex_lock(&lock);
    held = is_held;
    pthread_cond_signal(&work);
    pthread_mutex_unlock(&lock);
}

struct provider_counts provider_counts(void) {
    pthread_mutex_lock(&lock);
    const struct provider_counts now = counts;
    pthread_mutex_unlock(&lock);
    return now;
}
