/* SPDX-License-Identifier: BSD-3-Clause */
#include "late_transport.h"
#include <signal.h>
#include <unistd.h>
#include "../../transport/tcp/tcp.h"

#define LATE_MS 2

struct late_orders late_orders[2];
const char late_reason[] = "declined by the test";

extern const struct rcmi_transport rcmi_transport_tcp;

/* tcp's state comes first: tcp's channels expect it there. */
struct late_link {
    struct tcp_link tcp;
    struct rcmi_timer timer;
    bool waited;
};

static struct rcmi_loop *loop_of(const struct late_link *link) {
    return rcmi_node_loop(link->tcp.domain->node);
}

/* Does what is ordered for this slot. */
static rcm_status late_do(const struct late_link *link, enum late_slot slot) {
    const struct late_orders *orders = &late_orders[rcmi_node_rank(link->tcp.domain->node) % 2];
    if (orders->die == slot)
        (void)kill(getpid(), SIGKILL);
    if (orders->decline == slot)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "%s", late_reason);
    return slot == LATE_WAITED && orders->never ? RCM_AGAIN : RCM_OK;
}

static void late_fire(void *arg) {
    struct late_link *link = arg;
    link->waited = true;
    rcmi_node_link_changed(link->tcp.domain->node, link->tcp.peer);
}

static rcm_status late_link_init(void *arg, void *domain, int peer) {
    struct late_link *link = arg;
    link->timer = (struct rcmi_timer){.fire = late_fire, .arg = link};
    return rcmi_transport_tcp.link_init(link, domain, peer);
}

static rcm_status late_link_offer(void *link, struct rcmi_blob *ret_offer) {
    const rcm_status status = late_do(link, LATE_OFFER);
    return status == RCM_OK ? rcmi_transport_tcp.link_offer(link, ret_offer) : status;
}

static rcm_status late_link_accept(void *link, struct rcmi_blob *offer) {
    const rcm_status status = late_do(link, LATE_ACCEPT);
    return status == RCM_OK ? rcmi_transport_tcp.link_accept(link, offer) : status;
}

static rcm_status late_link_attach(void *link, int i, int fd) {
    const rcm_status status = rcmi_transport_tcp.link_attach(link, i, fd);
    return status == RCM_OK ? late_do(link, LATE_ATTACH) : status;
}

static rcm_status late_link_ready(void *arg) {
    struct late_link *link = arg;
    if (link->waited)
        return late_do(link, LATE_WAITED);
    const rcm_status status = late_do(link, LATE_READY);
    if (status != RCM_OK)
        return status;
    if (!link->timer.active)
        rcmi_loop_timer(loop_of(link), &link->timer, rcmi_deadline_in(LATE_MS));
    return RCM_AGAIN;
}

static void late_link_down(void *arg) {
    struct late_link *link = arg;
    rcmi_loop_timer_stop(loop_of(link), &link->timer);
    rcmi_transport_tcp.link_down(link);
}

static void late_link_fini(void *link) {
    rcmi_transport_tcp.link_fini(link);
}

/* ---- Slots of tcp ---------------------------------------------------------------------------- */

static bool late_probe(const struct rcmi_need *need, char *reason, size_t cap) {
    return rcmi_transport_tcp.probe(need, reason, cap);
}

static rcm_status late_domain_init(void *domain, struct rcmi_node *node) {
    return rcmi_transport_tcp.domain_init(domain, node);
}

static void late_domain_fini(void *domain) {
    rcmi_transport_tcp.domain_fini(domain);
}

static bool late_progress(void *domain) {
    return rcmi_transport_tcp.progress(domain);
}

static bool late_attend(void *domain, int *ret_fd) {
    return rcmi_transport_tcp.attend(domain, ret_fd);
}

extern const struct rcmi_transport rcmi_transport_late;
const struct rcmi_transport rcmi_transport_late = {
    .name = "late",
    .description = "tcp, whose links are ready late or declined",
    .data_sockets = TCP_STREAMS,
    .bulk_scale = TCP_BULK_SCALE,
    .domain_size = sizeof(struct tcp_domain),
    .link_size = sizeof(struct late_link),
    .channel_size = sizeof(struct tcp_channel),
    .probe = late_probe,
    .domain_init = late_domain_init,
    .domain_fini = late_domain_fini,
    .progress = late_progress,
    .arm = tcp_arm,
    .attend = late_attend,
    .memory_take = rcmi_no_memory_take,
    .memory_give = rcmi_no_memory_give,
    .memory_register = rcmi_no_memory_register,
    .memory_unregister = rcmi_no_memory_unregister,
    .link_init = late_link_init,
    .link_offer = late_link_offer,
    .link_accept = late_link_accept,
    .link_attach = late_link_attach,
    .link_ready = late_link_ready,
    .link_flushed = rcmi_always_flushed,
    .link_down = late_link_down,
    .link_fini = late_link_fini,
    .writer_init = tcp_writer_init,
    .writer_offer = tcp_writer_offer,
    .writer_attach = tcp_writer_attach,
    .reader_init = tcp_reader_init,
    .reader_accept = tcp_reader_accept,
    .writer_close = tcp_writer_close,
    .channel_fini = tcp_channel_fini,
    .reserve = tcp_reserve,
    .commit = tcp_commit,
    .send_zero_copy = tcp_send_zero_copy,
    .completed = tcp_completed,
    .taken = rcmi_always_taken,
    .peek = tcp_peek,
    .release = tcp_release,
    .post_receive = tcp_post_receive,
    .get = rcmi_no_get,
    .help = rcmi_no_help,
};
