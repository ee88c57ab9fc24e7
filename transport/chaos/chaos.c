/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrapped backends and their domains: see chaos.h. */
#include "chaos.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "log.h"
#include "settings.h"
#include "fd.h"

/* ---- The timer ------------------------------------------------------------------------------- */

void chaos_ring_at(struct chaos_domain *domain, rcmi_deadline at) {
    if (at == RCMI_NEVER)
        return;
    pthread_mutex_lock(&domain->lock);
    if (at < domain->timer_at) {
        const struct itimerspec when = {
            .it_value = {.tv_sec = (time_t)(at / 1000000000), .tv_nsec = (long)(at % 1000000000)}};
        domain->timer_at = at;
        (void)timerfd_settime(domain->timer, TFD_TIMER_ABSTIME, &when, NULL);
    }
    pthread_mutex_unlock(&domain->lock);
}

/* Faults that only the loop thread can inject. */
static void strike_from_loop(struct chaos_domain *domain) {
    const int peer = atomic_exchange_explicit(&domain->to_strike, -1, memory_order_relaxed);
    if (peer < 0 || rcmi_node_gone(domain->node, peer))
        return;
    if (domain->orders.fault == CHAOS_ISOLATE)
        rcmi_node_isolate(domain->node, "the chaos transport cut all links");
    else
        rcmi_node_hang_up(domain->node, peer);
}

/* Readers check again; one whose message is not due yet restarts the timer. */
static void timer_ready(void *arg, uint32_t events) {
    struct chaos_domain *domain = arg;
    uint64_t times;
    (void)events;
    pthread_mutex_lock(&domain->lock);
    const bool fired = read(domain->timer, &times, sizeof times) > 0;
    if (fired)
        domain->timer_at = RCMI_NEVER;
    pthread_mutex_unlock(&domain->lock);
    if (!fired)
        return; /* restarted meanwhile */
    strike_from_loop(domain);
    rcmi_node_ring(domain->node);
}

/* ---- Domains --------------------------------------------------------------------------------- */

static struct chaos_domain *domain_of(void *domain) {
    return (struct chaos_domain *)(void *)((uint8_t *)domain + CHAOS_DOMAIN_AT);
}

struct chaos_domain *chaos_domain_find(const struct rcmi_channel *channel) {
    void *domain = rcmi_node_domain(channel->node, channel->transport);
    return domain ? domain_of(domain) : NULL;
}

static rcm_status domain_timer(struct chaos_domain *chaos) {
    chaos->timer = rcmi_fd_high(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (chaos->timer < 0)
        return rcmi_fail(rcmi_status_of_errno(errno), errno, "no timer for a chaos transport");
    chaos->watch = (struct rcmi_watch){.fd = chaos->timer, .ready = timer_ready, .arg = chaos};
    return rcmi_loop_watch(rcmi_node_loop(chaos->node), &chaos->watch, EPOLLIN);
}

static rcm_status chaos_domain_init(void *domain, struct rcmi_node *node) {
    struct chaos_domain *chaos = domain_of(domain);
    const char *text = rcmi_setting("RINGCOMM_CHAOS");
    chaos->node = node;
    chaos->transport = (const struct chaos_transport *)rcmi_node_backend(node, domain);
    chaos->timer = -1;
    chaos->timer_at = RCMI_NEVER;
    atomic_init(&chaos->stalled, -1);
    atomic_init(&chaos->to_strike, -1);
    pthread_mutex_init(&chaos->lock, NULL);
    chaos->made = true;
    rcm_status status = chaos->transport->inner->domain_init(domain, node);
    if (status == RCM_OK)
        status = chaos_orders_parse(text, rcmi_node_nranks(node), &chaos->orders);
    if (status == RCM_OK)
        status = domain_timer(chaos);
    if (status == RCM_OK && rcmi_node_rank(node) == 0)
        rcmi_log(RCMI_LOG_WARN, "fault injection is active: transport %s, RINGCOMM_CHAOS=%s",
                 chaos->transport->name, text);
    return status;
}

static void chaos_domain_fini(void *domain) {
    struct chaos_domain *chaos = domain_of(domain);
    if (!chaos->made)
        return;
    if (chaos->watch.active)
        rcmi_loop_unwatch(rcmi_node_loop(chaos->node), &chaos->watch);
    rcmi_fd_close(&chaos->timer);
    chaos->transport->inner->domain_fini(domain);
    pthread_mutex_destroy(&chaos->lock);
    chaos->made = false;
}

/* ---- Backends -------------------------------------------------------------------------------- */

static size_t round_up(size_t bytes) {
    return (bytes + RCMI_LINE - 1) / RCMI_LINE * RCMI_LINE;
}

static void wrap(struct chaos_transport *chaos, const struct rcmi_transport *inner) {
    chaos->inner = inner;
    chaos->channel_at = round_up(inner->channel_size);
    snprintf(chaos->name, sizeof chaos->name, "chaos:%s", inner->name);
    snprintf(chaos->description, sizeof chaos->description, "%s, with fault injection",
             inner->name);
    chaos->backend = *inner;
    chaos->backend.name = chaos->name;
    chaos->backend.description = chaos->description;
    chaos->backend.domain_size = CHAOS_DOMAIN_AT + sizeof(struct chaos_domain);
    chaos->backend.channel_size = chaos->channel_at + sizeof(struct chaos_end);
    chaos->backend.domain_init = chaos_domain_init;
    chaos->backend.domain_fini = chaos_domain_fini;
    chaos->backend.reader_init = chaos_reader_init;
    chaos->backend.channel_fini = chaos_channel_fini;
    chaos->backend.peek = chaos_peek;
    chaos->backend.release = chaos_release;
    chaos->backend.post_receive = chaos_post_receive;
}

static const struct rcmi_transport *chaos_wrap(const struct rcmi_transport *inner) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct chaos_transport wrapped[RCMI_TRANSPORTS_MAX]; /* each is written once */
    const struct rcmi_transport *backend = NULL;
    if (!inner || inner->loops_back || inner->domain_size > CHAOS_DOMAIN_AT)
        return NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; !backend && i < RCMI_TRANSPORTS_MAX; i++) {
        if (!wrapped[i].inner)
            wrap(&wrapped[i], inner);
        if (wrapped[i].inner == inner)
            backend = &wrapped[i].backend;
    }
    pthread_mutex_unlock(&lock);
    return backend;
}

/* Registers the wrapper in every program that links this library. */
__attribute__((constructor)) static void chaos_enter(void) {
    rcmi_backends_wrap("chaos", chaos_wrap);
}
