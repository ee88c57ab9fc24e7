/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connecting queue pairs. ibv_modify_qp resolves the peer's address in the kernel, which may take a
 * second and a half, so a thread of its own does it. A job has copies of all it needs,
 * and the queue pair of a link that goes down meanwhile is the job's to destroy.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "verbs.h"

struct verbs_job {
    struct verbs_job *next;
    struct verbs_link *link; /* NULL: it does not want it any more */
    struct ibv_qp *qp;
    struct verbs_path path;
};

struct verbs_connector {
    const struct verbs_table *table;
    pthread_t thread;
    bool started, stop;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct verbs_job *first, *last;
};

#define RTR_MASK                                                                                   \
    (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |                \
     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK                                                                                   \
    (IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |         \
     IBV_QP_MAX_QP_RD_ATOMIC)

/* With 7 some devices retry for ever. */
enum { RETRIES = 6, HOPS = 64, MIN_RNR_TIMER = 12 /* 0.64 ms */, RNR_RETRIES = 6 };

/* ---- The thread ------------------------------------------------------------------------------ */

int verbs_qp_connect(const struct verbs_table *table, struct ibv_qp *qp, struct verbs_path *path) {
    const int error = table->modify_qp(qp, &path->to_rtr, RTR_MASK);
    return error ? error : table->modify_qp(qp, &path->to_rts, RTS_MASK);
}

/* Under connector->lock. */
static void job_end(const struct verbs_connector *connector, struct verbs_job *job, int error) {
    struct verbs_link *link = job->link;
    if (link) {
        link->job = NULL;
        verbs_lock_take(&link->lock);
        verbs_link_connected(link, error);
        verbs_lock_drop(&link->lock);
    } else {
        (void)connector->table->destroy_qp(job->qp);
    }
    free(job);
}

static void *connector_run(void *arg) {
    struct verbs_connector *connector = arg;
    pthread_mutex_lock(&connector->lock);
    while (!connector->stop || connector->first) {
        struct verbs_job *job = connector->first;
        if (!job) {
            pthread_cond_wait(&connector->changed, &connector->lock);
            continue;
        }
        connector->first = job->next;
        const bool wanted = job->link != NULL;
        pthread_mutex_unlock(&connector->lock);
        const int error = wanted ? verbs_qp_connect(connector->table, job->qp, &job->path) : 0;
        pthread_mutex_lock(&connector->lock);
        job_end(connector, job, error);
    }
    pthread_mutex_unlock(&connector->lock);
    return NULL;
}

rcm_status verbs_connector_make(struct verbs_domain *domain) {
    struct verbs_connector *connector = rcmi_zalloc(sizeof *connector);
    if (!connector)
        return RCM_ERR_NOMEM;
    connector->table = domain->table;
    pthread_mutex_init(&connector->lock, NULL);
    pthread_cond_init(&connector->changed, NULL);
    domain->connector = connector;
    return RCM_OK;
}

void verbs_connector_free(struct verbs_domain *domain) {
    struct verbs_connector *connector = domain->connector;
    if (!connector)
        return;
    pthread_mutex_lock(&connector->lock);
    connector->stop = true;
    pthread_cond_signal(&connector->changed);
    pthread_mutex_unlock(&connector->lock);
    if (connector->started)
        pthread_join(connector->thread, NULL);
    pthread_cond_destroy(&connector->changed);
    pthread_mutex_destroy(&connector->lock);
    free(connector);
    domain->connector = NULL;
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

/* The exponent of the time after which a send is tried again, 4.096 us * 2^n, so that all tries
 * together take between half of the time and all of it. */
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
    /* Between subnets of InfiniBand, and always in RoCE, a packet has global addresses. */
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

static rcm_status connector_start(struct verbs_connector *connector) {
    if (connector->started)
        return RCM_OK;
    const int error = rcmi_thread_start(connector_run, connector, &connector->thread);
    connector->started = error == 0;
    return error ? rcmi_fail(rcmi_status_of_errno(error), error,
                             "no thread that connects queue pairs")
                 : RCM_OK;
}

rcm_status verbs_connect(struct verbs_link *link, const struct verbs_offered *peer) {
    struct verbs_connector *connector = link->domain->connector;
    const rcm_status status = connector_start(connector);
    if (status != RCM_OK)
        return status;
    struct verbs_job *job = rcmi_zalloc(sizeof *job);
    if (!job)
        return RCM_ERR_NOMEM;
    job->link = link;
    job->qp = link->qp;
    verbs_path_to(link->port, peer, &job->path);
    pthread_mutex_lock(&connector->lock);
    link->job = job;
    if (connector->first)
        connector->last->next = job;
    else
        connector->first = job;
    connector->last = job;
    pthread_cond_signal(&connector->changed);
    pthread_mutex_unlock(&connector->lock);
    return RCM_OK;
}

bool verbs_connect_cancel(struct verbs_link *link) {
    struct verbs_connector *connector = link->domain->connector;
    pthread_mutex_lock(&connector->lock);
    const bool connecting = link->job != NULL;
    if (connecting)
        link->job->link = NULL;
    link->job = NULL;
    pthread_mutex_unlock(&connector->lock);
    return connecting;
}
