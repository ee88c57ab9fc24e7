/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State changes of a queue pair up to its connection, each with the attributes that the
 * specification demands and a path that fits the network. Invalid ones fail with EINVAL, as on a
 * device. On a valid path that leads nowhere, nothing arrives.
 */
#include "fake_verbs.h"
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <time.h>

enum { UNICAST_LIDS = 0xc000 };

/* Per state: the previous state, and the required attributes. */
static const struct {
    enum ibv_qp_state from;
    int needs;
} steps[] = {
    [IBV_QPS_INIT] = {IBV_QPS_RESET, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    [IBV_QPS_RTR] = {IBV_QPS_INIT, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER},
    [IBV_QPS_RTS] = {IBV_QPS_RTR, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC},
};

static bool is_infiniband(void) {
    return fake.setup.layer == IBV_LINK_LAYER_INFINIBAND;
}

/* A device makes 1 + retry_cnt tries of 4.096 us * 2^timeout each. */
static int64_t patience_of(const struct ibv_qp_attr *attr) {
    REQUIRE(attr->retry_cnt < 7 && attr->timeout > 0 && attr->timeout < 32);
    return (INT64_C(4096) << attr->timeout) * (attr->retry_cnt + 1) / 1000000;
}

/* Resolving the peer's address may take a while. */
static void resolve(uint32_t mine, uint32_t peer) {
    pthread_mutex_lock(&fake.lock);
    const int64_t ms = mine > peer ? fake.slow_ms : 0;
    pthread_mutex_unlock(&fake.lock);
    const struct timespec while_it_takes = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&while_it_takes, NULL);
}

/* InfiniBand finds a port by its LID, and needs no global address within a subnet. RoCE finds it
 * only by a global address in the port's own table. */
static bool path_is_right(const struct ibv_ah_attr *path) {
    if (path->port_num != 1 || path->sl > 15)
        return false;
    if (is_infiniband())
        return path->dlid > 0 && path->dlid < UNICAST_LIDS &&
               (!path->is_global || path->grh.sgid_index == 0);
    return path->is_global && path->grh.sgid_index == 1 && path->grh.hop_limit > 0;
}

static int to_init(struct fake_qp *qp, const struct ibv_qp_attr *attr) {
    if (attr->port_num != 1 || attr->pkey_index >= FAKE_PKEYS)
        return EINVAL;
    qp->pkey = fake_verbs_pkeys[attr->pkey_index];
    return 0;
}

static int to_rtr(struct fake_qp *qp, const struct ibv_qp_attr *attr) {
    if (!path_is_right(&attr->ah_attr) || attr->path_mtu < IBV_MTU_256 ||
        attr->path_mtu > IBV_MTU_1024 || attr->dest_qp_num >> 24)
        return EINVAL;
    qp->path = attr->ah_attr;
    qp->dest = attr->dest_qp_num;
    return 0;
}

/* The error state can be entered from any other. */
static int step_take(struct fake_qp *qp, const struct ibv_qp_attr *attr, int mask) {
    if (attr->qp_state == IBV_QPS_ERR)
        return 0;
    if (fake.setup.kind == PROVIDER_IWARP && attr->qp_state > IBV_QPS_INIT)
        return EINVAL; /* rdma_cm changes these states */
    REQUIRE(attr->qp_state >= IBV_QPS_INIT && attr->qp_state <= IBV_QPS_RTS);
    REQUIRE(qp->base.state == steps[attr->qp_state].from);
    if ((mask & steps[attr->qp_state].needs) != steps[attr->qp_state].needs)
        return EINVAL;
    if (attr->qp_state == IBV_QPS_INIT)
        return to_init(qp, attr);
    if (attr->qp_state == IBV_QPS_RTR)
        return to_rtr(qp, attr);
    qp->patience_ms = patience_of(attr);
    return 0;
}

static int fake_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask) {
    struct fake_qp *qp = (struct fake_qp *)base;
    if (fake_verbs_call_fails(PROVIDER_MODIFY_QP))
        return EIO;
    if (attr->qp_state == IBV_QPS_RTR)
        resolve(base->qp_num, attr->dest_qp_num);
    pthread_mutex_lock(&fake.lock);
    REQUIRE(mask & IBV_QP_STATE);
    const int error = step_take(qp, attr, mask);
    if (error == 0)
        base->state = attr->qp_state;
    pthread_cond_signal(&fake.work);
    pthread_mutex_unlock(&fake.lock);
    return error;
}

/* ---- Where a path leads ---------------------------------------------------------------------- */

/* Full members of a partition reach all members, limited members reach only full ones. */
static bool partitions_meet(uint16_t a, uint16_t b) {
    return (a & 0x7fff) == (b & 0x7fff) && ((a | b) & 0x8000);
}

static bool path_leads_to(const struct fake_qp *qp, const struct fake_qp *peer) {
    const int device = (int)(peer->base.context->device - fake.devices);
    union ibv_gid gid;
    if (fake.setup.kind == PROVIDER_IWARP)
        return true;
    if (is_infiniband())
        return qp->path.dlid == fake_verbs_lid(device) && partitions_meet(qp->pkey, peer->pkey);
    fake_verbs_gid(device, 1, &gid);
    return memcmp(&qp->path.grh.dgid, &gid, sizeof gid) == 0;
}

bool fake_verbs_reaches(const struct fake_qp *qp, const struct fake_qp *peer) {
    return !fake.cut && peer && peer->dest == qp->base.qp_num && path_leads_to(qp, peer) &&
           (peer->base.state == IBV_QPS_RTR || peer->base.state == IBV_QPS_RTS);
}

bool provider_path(int device, struct provider_path *ret_path) {
    bool found = false;
    pthread_mutex_lock(&fake.lock);
    for (int i = 0; i < QPS_MAX; i++) {
        const struct fake_qp *qp = &fake.qps[i];
        if (!qp->used || qp->base.context->device != &fake.devices[device] || qp->dest == 0)
            continue;
        *ret_path = (struct provider_path){.lid = qp->path.dlid,
                                           .pkey = qp->pkey,
                                           .sl = qp->path.sl,
                                           .traffic_class = qp->path.grh.traffic_class,
                                           .is_global = qp->path.is_global};
        found = true;
    }
    pthread_mutex_unlock(&fake.lock);
    return found;
}

void fake_verbs_connect(struct verbs_table *table) {
    table->modify_qp = fake_modify_qp;
}
