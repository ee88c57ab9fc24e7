/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Domains of the verbs backend (one per node), and its function table. Any thread polls completions
 * in progress, one at a time per port. A thread that sleeps requests an event for the next
 * completion (`arm`) and then polls once more, because earlier completions cause no event.
 */
#include "verbs.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>
#include "fork.h"
#include "log.h"
#include "settings.h"
#include "fd.h"

enum {
    BEAT_MS = 1000,
    BEATS = 8,        /* per RINGCOMM_PEER_TIMEOUT, if that gives a shorter interval */
    REST_POLLS = 4096 /* limit: further completions belong to other links */
};

bool verbs_forked(const struct verbs_domain *domain) {
    return !rcmi_fork_is_maker(domain->generation);
}

bool verbs_untouchable(const struct verbs_domain *domain) {
    return verbs_forked(domain) || rcmi_node_is_broken(domain->node);
}

/* ---- Progress -------------------------------------------------------------------------------- */

/* Under port->lock. True if an event happened that a thread may be sleeping for. */
static bool port_complete(struct verbs_port *port, const struct ibv_wc *wc) {
    const struct verbs_domain *domain = port->domain;
    const uint32_t peer = (uint32_t)((wc->wr_id & ~(VERBS_ID_RECEIVE | VERBS_ID_PROBE)) >> 32);
    struct verbs_link *link = peer < (uint32_t)domain->nranks ? port->links[peer] : NULL;
    return link && verbs_complete(link, wc);
}

/* must: waits for the lock if another thread polls, which may have polled too early. */
static bool port_poll(struct verbs_port *port, bool must, bool *rang) {
    struct ibv_wc wc[VERBS_POLL];
    if (must)
        verbs_lock_take(&port->lock);
    else if (!verbs_lock_try(&port->lock))
        return false;
    const int n = port->domain->table->poll_cq(port->cq, VERBS_POLL, wc);
    if (n < 0)
        verbs_port_fail(port, "its completion queue cannot be polled");
    for (int i = 0; i < n; i++)
        *rang = port_complete(port, &wc[i]) || *rang;
    verbs_lock_drop(&port->lock);
    return n > 0;
}

/* Consumes requested completion events, so that the descriptor is no longer readable, also for the
 * loop. The caller then polls, and verbs_go_on requests events again for unfinished work. */
static void events_take(struct verbs_domain *domain) {
    for (int i = 0; i < domain->nports; i++) {
        struct ibv_cq *cq;
        void *context;
        while (domain->table->get_cq_event(domain->ports[i].channel, &cq, &context) == 0)
            domain->table->ack_cq_events(cq, 1);
    }
    atomic_store(&domain->armed, false);
}

static bool domain_poll(struct verbs_domain *domain, bool must) {
    bool moved = false, rang = false;
    for (int i = 0; i < domain->nports; i++)
        moved = port_poll(&domain->ports[i], must, &rang) || moved;
    moved = verbs_pay(domain) || moved;
    if (rang)
        rcmi_node_ring(domain->node);
    return moved;
}

bool verbs_progress(void *arg) {
    struct verbs_domain *domain = arg;
    if (atomic_load_explicit(&domain->nlinks, memory_order_relaxed) == 0)
        return false;
    const bool attended = atomic_load_explicit(&domain->attended, memory_order_relaxed) &&
                          atomic_exchange(&domain->attended, false);
    if (attended)
        events_take(domain);
    const bool moved = domain_poll(domain, attended);
    if (attended) /* another thread may still sleep, and no event is requested now */
        rcmi_node_ring(domain->node);
    verbs_go_on(domain);
    return moved;
}

void verbs_port_drain(struct verbs_port *port) {
    bool rang = false;
    for (int i = 0; i < REST_POLLS && port_poll(port, true, &rang); i++)
        ;
    if (rang)
        rcmi_node_ring(port->domain->node);
}

void verbs_pause(struct verbs_domain *domain) {
    const struct timespec moment = {.tv_nsec = 20000};
    if (!verbs_progress(domain))
        nanosleep(&moment, NULL);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* Without events, no sleeping thread would be woken. */
static void port_deaf(struct verbs_port *port) {
    verbs_lock_take(&port->lock);
    verbs_port_fail(port, "its completion queue delivers no events");
    verbs_lock_drop(&port->lock);
}

/* Requests events. Completions before that cause no event: they are polled here, and a thread that
 * is about to sleep checks again. */
static void events_request(struct verbs_domain *domain) {
    for (int i = 0; i < domain->nports; i++)
        if (domain->table->req_notify_cq(domain->ports[i].cq, 0) != 0)
            port_deaf(&domain->ports[i]);
    if (domain_poll(domain, true))
        rcmi_node_ring(domain->node);
}

void verbs_arm(void *arg) {
    struct verbs_domain *domain = arg;
    if (atomic_load_explicit(&domain->nlinks, memory_order_relaxed) == 0)
        return;
    atomic_store(&domain->armed, true);
    (void)rcmi_loop_rearm(rcmi_node_loop(domain->node), &domain->watch, EPOLLIN | EPOLLONESHOT);
    events_request(domain);
}

void verbs_count(struct verbs_domain *domain, bool *flag, bool value) {
    if (*flag == value)
        return;
    *flag = value;
    atomic_fetch_add(&domain->unfinished, value ? 1 : -1);
}

void verbs_go_on(struct verbs_domain *domain) {
    if (atomic_load(&domain->unfinished) > 0 && !atomic_load(&domain->armed))
        verbs_arm(domain);
}

static bool domain_attend(void *arg, int *ret_fd) {
    struct verbs_domain *domain = arg;
    *ret_fd = domain->epoll;
    events_request(domain);
    atomic_store(&domain->attended, true);
    return true;
}

static void domain_ready(void *arg, uint32_t events) {
    struct verbs_domain *domain = arg;
    (void)events;
    events_take(domain);
    (void)domain_poll(domain, true);
    rcmi_node_ring(domain->node);
    verbs_go_on(domain);
}

/* ---- Probing --------------------------------------------------------------------------------- */

static int64_t beat_ms(const struct verbs_domain *domain) {
    const int64_t share = domain->peer_timeout_ms / BEATS;
    return share < BEAT_MS ? share : BEAT_MS;
}

/* A side that only receives gets no error when the path is cut. Therefore each side regularly sends
 * something that must be acknowledged. */
static void port_beat(const struct verbs_port *port) {
    for (int i = 0; i < port->domain->nranks; i++) {
        struct verbs_link *link = port->links[i];
        if (!link)
            continue;
        verbs_lock_take(&link->lock);
        if (link->state == VERBS_READY)
            verbs_post_probe(link);
        verbs_link_beat(link);
        verbs_lock_drop(&link->lock);
    }
}

static void domain_beat(void *arg) {
    struct verbs_domain *domain = arg;
    for (int i = 0; i < domain->nports; i++)
        verbs_port_drain(&domain->ports[i]);
    for (int i = 0; i < domain->nports; i++)
        port_beat(&domain->ports[i]);
    (void)verbs_progress(domain);
    rcmi_loop_timer(rcmi_node_loop(domain->node), &domain->beat, rcmi_deadline_in(beat_ms(domain)));
}

/* ---- Life ------------------------------------------------------------------------------------ */

rcm_status verbs_settings(struct verbs_domain *domain) {
    int64_t class = 0, level = 0;
    rcm_status status = rcmi_setting_peer_timeout(&domain->peer_timeout_ms);
    if (status == RCM_OK)
        status = rcmi_setting_int("RINGCOMM_VERBS_TRAFFIC_CLASS", 0, 255, &class);
    if (status == RCM_OK)
        status = rcmi_setting_int("RINGCOMM_VERBS_SL", 0, 15, &level);
    domain->traffic_class = (int)class;
    domain->service_level = (int)level;
    return status;
}

static rcm_status links_make(struct verbs_domain *domain) {
    const size_t nranks = (size_t)domain->nranks;
    domain->links = rcmi_zalloc((size_t)domain->nports * nranks * sizeof(struct verbs_link *));
    if (!domain->links)
        return RCM_ERR_NOMEM;
    for (int i = 0; i < domain->nports; i++)
        domain->ports[i].links = domain->links + (size_t)i * nranks;
    return RCM_OK;
}

static rcm_status domain_watch(struct verbs_domain *domain) {
    struct rcmi_loop *loop = rcmi_node_loop(domain->node);
    domain->watch = (struct rcmi_watch){.fd = domain->epoll, .ready = domain_ready, .arg = domain};
    rcm_status status = rcmi_loop_watch(loop, &domain->watch, EPOLLIN | EPOLLONESHOT);
    for (int i = 0; status == RCM_OK && i < domain->nports; i++) {
        struct verbs_port *port = &domain->ports[i];
        port->events = (struct rcmi_watch){
            .fd = port->context->async_fd, .ready = verbs_port_events, .arg = port};
        status = rcmi_loop_watch(loop, &port->events, EPOLLIN);
        if (status == RCM_OK)
            status = port->method->watch(port);
    }
    domain->beat = (struct rcmi_timer){.fire = domain_beat, .arg = domain};
    if (status == RCM_OK)
        rcmi_loop_timer(loop, &domain->beat, rcmi_deadline_in(beat_ms(domain)));
    return status;
}

static rcm_status domain_init(void *arg, struct rcmi_node *node) {
    struct verbs_domain *domain = arg;
    char reason[256];
    domain->node = node;
    domain->generation = rcmi_fork_watch();
    domain->nranks = rcmi_node_nranks(node);
    domain->epoll = rcmi_fd_high(epoll_create1(EPOLL_CLOEXEC));
    if (domain->epoll < 0)
        return rcmi_fail(rcmi_status_of_errno(errno), errno, "no epoll set for RDMA");
    domain->table = verbs_table(reason, sizeof reason);
    if (!domain->table)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "%s", reason);
    verbs_place_of_rank(rcmi_node_near(node), &domain->place);
    rcm_status status = verbs_settings(domain);
    if (status == RCM_OK)
        status = verbs_connector_make(domain);
    if (status == RCM_OK)
        status = verbs_ports_open(domain);
    if (status == RCM_OK)
        status = links_make(domain);
    return status == RCM_OK ? domain_watch(domain) : status;
}

static void domain_fini(void *arg) {
    struct verbs_domain *domain = arg;
    struct rcmi_loop *loop = rcmi_node_loop(domain->node);
    if (loop && domain->watch.active)
        rcmi_loop_unwatch(loop, &domain->watch);
    for (int i = 0; loop && i < domain->nports; i++) {
        if (domain->ports[i].events.active)
            rcmi_loop_unwatch(loop, &domain->ports[i].events);
        if (domain->ports[i].requests.active)
            rcmi_loop_unwatch(loop, &domain->ports[i].requests);
    }
    if (loop && domain->beat.active)
        rcmi_loop_timer_stop(loop, &domain->beat);
    if (domain->table && !verbs_forked(domain))
        verbs_connector_free(domain);
    if (domain->table && !verbs_untouchable(domain))
        verbs_ports_close(domain);
    if (domain->epoll >= 0)
        rcmi_fd_close(&domain->epoll);
    free(domain->links);
    domain->links = NULL;
}

const struct rcmi_transport rcmi_transport_verbs = {
    .name = "verbs",
    .description = "RDMA between hosts, by RoCE, InfiniBand or iWARP",
    .bulk_scale = VERBS_BULK_SCALE,
    .pinned_slots = true,
    .domain_size = sizeof(struct verbs_domain),
    .link_size = sizeof(struct verbs_link),
    .channel_size = sizeof(struct verbs_channel),
    .probe = verbs_ports_probe,
    .domain_init = domain_init,
    .domain_fini = domain_fini,
    .progress = verbs_progress,
    .arm = verbs_arm,
    .attend = domain_attend,
    .memory_take = rcmi_no_memory_take,
    .memory_give = rcmi_no_memory_give,
    .memory_register = verbs_memory_register,
    .memory_unregister = verbs_memory_unregister,
    .link_init = verbs_link_init,
    .link_offer = verbs_link_offer,
    .link_accept = verbs_link_accept,
    .link_attach = verbs_link_attach,
    .link_ready = verbs_link_ready,
    .link_flushed = verbs_link_flushed,
    .link_down = verbs_link_down,
    .link_fini = verbs_link_fini,
    .writer_init = verbs_writer_init,
    .writer_offer = verbs_writer_offer,
    .writer_attach = verbs_writer_attach,
    .reader_init = verbs_reader_init,
    .reader_accept = verbs_reader_accept,
    .writer_close = verbs_writer_close,
    .channel_fini = verbs_channel_fini,
    .reserve = verbs_reserve,
    .commit = verbs_commit,
    .send_zero_copy = verbs_send_zero_copy,
    .completed = verbs_completed,
    .taken = rcmi_always_taken,
    .peek = verbs_peek,
    .release = verbs_release,
    .post_receive = verbs_put_offer,
    .get = rcmi_no_get,
    .help = rcmi_no_help,
};
