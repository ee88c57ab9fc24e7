/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs of RoCE and InfiniBand. Two of them are connected by their numbers and their ports'
 * addresses, which the link's offers contain: each side connects its own to the other's.
 */
#include <string.h>
#include "settings.h"
#include "verbs.h"

enum { GIDS_MAX = 256 };

#define RTR_MASK                                                                                   \
    (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |                \
     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK                                                                                   \
    (IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |         \
     IBV_QP_MAX_QP_RD_ATOMIC)

/* 6, because with 7 some devices retry for ever. */
enum { RETRIES = 6, HOPS = 64, MIN_RNR_TIMER = 12 /* 0.64 ms */, RNR_RETRIES = 6 };

/* ---- Addresses ------------------------------------------------------------------------------- */

static bool gid_is_empty(const union ibv_gid *gid) {
    static const union ibv_gid empty;
    return memcmp(gid, &empty, sizeof empty) == 0;
}

/* Quality of a GID of a RoCE port. Below GID_FIT: unusable. Otherwise RoCE v2: IPv4 is best, a
 * link-local address, which identifies no network, is worst. */
enum { GID_FIT = 3 };
static int gid_rank(const union ibv_gid *gid, const struct verbs_gid *about) {
    const bool link_local = gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80;
    return (about->roce_v2 ? GID_FIT : 0) + (about->ipv4_prefix ? 2 : link_local ? 0 : 1);
}

static void gid_take(struct verbs_port *port, int index, const union ibv_gid *gid,
                     const struct verbs_gid *about) {
    port->gid_index = index;
    memcpy(port->offered.gid, gid->raw, sizeof port->offered.gid);
    port->offered.ipv4 = (uint8_t)about->ipv4_prefix;
}

/* Uses RINGCOMM_VERBS_GID_INDEX, or the best GID. */
static rcm_status exchange_open(struct verbs_port *port, int n) {
    const struct verbs_table *table = port->domain->table;
    int64_t wanted = -1;
    int best = -1;
    rcm_status status = rcmi_setting_int("RINGCOMM_VERBS_GID_INDEX", -1, 255, &wanted);
    if (status != RCM_OK)
        return status;
    const bool roce = port->offered.layer == IBV_LINK_LAYER_ETHERNET;
    for (int i = wanted < 0 ? 0 : (int)wanted; i < (wanted < 0 ? n : (int)wanted + 1); i++) {
        union ibv_gid gid;
        struct verbs_gid about = {.roce_v2 = false};
        if (i >= GIDS_MAX || table->query_gid(port->context, port->number, i, &gid) != 0 ||
            gid_is_empty(&gid))
            continue;
        if (roce)
            table->describe_gid(port->context->device, port->number, i, &gid, &about);
        if (gid_rank(&gid, &about) <= best)
            continue;
        best = gid_rank(&gid, &about);
        gid_take(port, i, &gid, &about);
        if (!roce)
            break; /* the first GID is the port's own */
    }
    if (best < (roce ? GID_FIT : 0))
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "%s has no %s address%s", port->name,
                         roce ? "RoCE v2" : "InfiniBand",
                         wanted < 0 ? "" : " at RINGCOMM_VERBS_GID_INDEX");
    return RCM_OK;
}

/* ---- Paths ----------------------------------------------------------------------------------- */

/* The exponent n of the retry time 4.096 us * 2^n, such that all retries together take between half
 * of `ms` and all of it. */
static uint8_t retry_exponent(int64_t ms) {
    const double most = (double)ms * 1e3 / 4.096 / (RETRIES + 1);
    uint8_t n = 1;
    while (n < 31 && (double)(UINT64_C(1) << (n + 1)) <= most)
        n++;
    return n;
}

static struct ibv_ah_attr address_of(const struct verbs_port *port,
                                     const struct verbs_offered *peer) {
    struct ibv_ah_attr path = {
        .dlid = peer->lid,
        .sl = (uint8_t)port->domain->service_level,
        .port_num = port->number,
    };
    /* RoCE packets always have global addresses; InfiniBand packets only between subnets. */
    path.is_global = peer->layer == IBV_LINK_LAYER_ETHERNET;
    path.grh = (struct ibv_global_route){.sgid_index = (uint8_t)port->gid_index,
                                         .hop_limit = HOPS,
                                         .traffic_class = (uint8_t)port->domain->traffic_class};
    memcpy(path.grh.dgid.raw, peer->gid, sizeof peer->gid);
    return path;
}

void verbs_path_to(const struct verbs_port *port, const struct verbs_offered *peer,
                   struct verbs_path *ret_path) {
    const uint8_t mtu = port->offered.mtu;
    ret_path->to_rtr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = (enum ibv_mtu)(peer->mtu < mtu ? peer->mtu : mtu),
        .dest_qp_num = peer->qp_num,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = MIN_RNR_TIMER,
        .ah_attr = address_of(port, peer),
    };
    ret_path->to_rts = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTS,
        .timeout = retry_exponent(port->domain->peer_timeout_ms),
        .retry_cnt = RETRIES,
        .rnr_retry = RNR_RETRIES,
        .max_rd_atomic = 1,
    };
}

int verbs_qp_connect(const struct verbs_table *table, struct ibv_qp *qp, struct verbs_path *path) {
    const int error = table->modify_qp(qp, &path->to_rtr, RTR_MASK);
    return error ? error : table->modify_qp(qp, &path->to_rts, RTS_MASK);
}

static int exchange_connect(struct verbs_job *job) {
    struct verbs_path path;
    verbs_path_to(job->port, &job->far, &path);
    return verbs_qp_connect(job->port->domain->table, job->qp, &path);
}

static void exchange_close(struct verbs_port *port) {
    (void)port;
}

static rcm_status exchange_watch(struct verbs_port *port) {
    (void)port;
    return RCM_OK;
}

static void exchange_disconnect(struct verbs_connection *connection) {
    (void)connection; /* never called: connect makes no connection object */
}

const struct verbs_method verbs_by_exchange = {
    .acknowledges = true,
    .open = exchange_open,
    .close = exchange_close,
    .watch = exchange_watch,
    .connect = exchange_connect,
    .disconnect = exchange_disconnect,
};
