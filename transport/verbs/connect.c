/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connecting queue pairs. This may take long: ibv_modify_qp resolves the peer's address in the
 * kernel, up to 1.5 s, and rdma_cm waits for the peer. Therefore a separate thread connects one
 * link after the other. A link that has not been served within RINGCOMM_PEER_TIMEOUT declines, so
 * that time is left for another transport. A job has copies of everything it needs. If its link
 * goes down meanwhile, the job destroys the queue pair.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include "thread.h"
#include "verbs.h"

enum { LOOK_MS = 20 }; /* how often a waiting job checks whether it was cancelled */

struct verbs_connector {
    const struct verbs_table *table;
    pthread_t thread;
    bool started, stop;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct verbs_job *first, **end; /* the list; end: where the next job is added */
};

/* ---- The thread ------------------------------------------------------------------------------ */

/* Takes the next job, cancelled ones first. Under connector->lock. */
static struct verbs_job *job_take(struct verbs_connector *connector) {
    struct verbs_job **at = &connector->first;
    while (*at && (*at)->link)
        at = &(*at)->next;
    if (!*at)
        at = &connector->first;
    struct verbs_job *job = *at;
    if (!job)
        return NULL;
    *at = job->next;
    if (!*at)
        connector->end = at;
    return job;
}

/* Passes the result to the link. False: the job was cancelled. Under connector->lock. */
static bool job_hand_over(const struct verbs_job *job, int error) {
    struct verbs_link *link = job->link;
    if (!link)
        return false;
    link->job = NULL;
    link->connection = job->connection;
    verbs_lock_take(&link->lock);
    verbs_link_connected(link, error);
    verbs_lock_drop(&link->lock);
    return true;
}

/* Destroys the queue pair, without the lock: the kernel may take long, and the loop would wait. */
static void job_undo(const struct verbs_job *job) {
    if (verbs_untouchable(job->port->domain))
        return;
    (void)job->connector->table->destroy_qp(job->qp);
    if (job->connection)
        job->port->method->disconnect(job->connection);
}

static int job_connect(struct verbs_job *job) {
    return rcmi_deadline_passed(job->until) ? ETIMEDOUT : job->port->method->connect(job);
}

/* Without connector->lock. */
static void job_run(struct verbs_job *job, bool wanted) {
    struct verbs_connector *connector = job->connector;
    const int error = wanted ? job_connect(job) : 0;
    pthread_mutex_lock(&connector->lock);
    const bool taken = job_hand_over(job, error);
    pthread_mutex_unlock(&connector->lock);
    if (!taken)
        job_undo(job);
    free(job);
}

static void *connector_run(void *arg) {
    struct verbs_connector *connector = arg;
    pthread_mutex_lock(&connector->lock);
    while (!connector->stop || connector->first) {
        struct verbs_job *job = job_take(connector);
        if (!job) {
            pthread_cond_wait(&connector->changed, &connector->lock);
            continue;
        }
        const bool wanted = job->link != NULL;
        pthread_mutex_unlock(&connector->lock);
        job_run(job, wanted);
        pthread_mutex_lock(&connector->lock);
    }
    pthread_mutex_unlock(&connector->lock);
    return NULL;
}

static bool job_is_wanted(const struct verbs_job *job) {
    struct verbs_connector *connector = job->connector;
    pthread_mutex_lock(&connector->lock);
    const bool wanted = job->link != NULL;
    pthread_mutex_unlock(&connector->lock);
    return wanted && !verbs_untouchable(job->port->domain);
}

/* Polls every LOOK_MS instead of being woken by a descriptor: the loop would write to it, although
 * its number may belong to others by then (verbs_untouchable). */
int verbs_job_wait(const struct verbs_job *job, int fd) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    while (job_is_wanted(job)) {
        const int left = rcmi_deadline_left_ms(job->until);
        if (rcmi_deadline_passed(job->until))
            return ETIMEDOUT;
        if (poll(&ready, 1, left < LOOK_MS ? left : LOOK_MS) < 0 && errno != EINTR)
            return errno;
        if (ready.revents && job_is_wanted(job))
            return 0;
    }
    return ECANCELED;
}

rcm_status verbs_connector_make(struct verbs_domain *domain) {
    struct verbs_connector *connector = rcmi_zalloc(sizeof *connector);
    if (!connector)
        return RCM_ERR_NOMEM;
    connector->table = domain->table;
    connector->end = &connector->first;
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

static rcm_status connector_start(struct verbs_connector *connector) {
    if (connector->started)
        return RCM_OK;
    static const struct rcmi_thread_kind kind = {.name = "the thread that connects queue pairs",
                                                 .stack_kib = RCMI_STACK_KIB};
    const rcm_status status =
        rcmi_thread_start(&kind, connector_run, connector, &connector->thread);
    connector->started = status == RCM_OK;
    return status;
}

rcm_status verbs_connect(struct verbs_link *link, const struct verbs_offered *peer) {
    struct verbs_connector *connector = link->domain->connector;
    if (link->port->method->one_sided && !link->initiator)
        return RCM_OK;
    const rcm_status status = connector_start(connector);
    if (status != RCM_OK)
        return status;
    struct verbs_job *job = rcmi_zalloc(sizeof *job);
    if (!job)
        return RCM_ERR_NOMEM;
    job->connector = connector;
    job->link = link;
    job->until = rcmi_deadline_in(link->domain->peer_timeout_ms);
    job->token = link->token;
    job->far_token = link->far_token;
    job->qp = link->qp;
    job->port = link->port;
    job->far = *peer;
    pthread_mutex_lock(&connector->lock);
    link->job = job;
    *connector->end = job;
    connector->end = &job->next;
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
