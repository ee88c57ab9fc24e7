/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device plane of a link, from the offers to the end. Each end independently allocates its
 * arena, sends its location to the other end, and reads the other end's arena. Then it is ready.
 */
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>
#include "cuda_ipc.h"
#include "process.h"

/* ---- Beginning ------------------------------------------------------------------------------- */

static void self_fill(struct ipc_domain *domain) {
    const struct rcmi_device_facts *facts = rcmi_device_facts(domain->device);
    struct ipc_self *self = &domain->self;
    struct rcmi_process process;
    rcmi_process_self(&process);
    *self = (struct ipc_self){.process = rcmi_device_process(),
                              .pid_ns = process.pid_ns,
                              .pid = (int32_t)getpid(),
                              .mig = facts->mig};
    memcpy(self->uuid, facts->uuid, sizeof self->uuid);
    memcpy(self->label, facts->label, sizeof self->label);
    if (getrandom(&self->seed, sizeof self->seed, 0) != (ssize_t)sizeof self->seed)
        self->seed = self->process + (uint64_t)rcmi_now_ns();
    ipc_proof_fill(domain->arena->first, self->seed);
}

/* Sets up what a rank needs for its device, with its first link: ranks without a device need
 * nothing. */
static rcm_status domain_begin(struct ipc_domain *domain) {
    struct rcmi_device *device = rcmi_node_device(domain->node);
    if (!device)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "this rank has no device");
    /* A memory file cannot be empty. */
    if (rcmi_memfd_create("ringcomm-device", domain->page, &domain->memfd) != RCM_OK) {
        rcmi_last_error()->status = RCM_ERR_UNSUPPORTED;
        return RCM_ERR_UNSUPPORTED;
    }
    domain->size = domain->page;
    domain->device = device;
    self_fill(domain);
    return RCM_OK;
}

rcm_status ipc_link_init(void *arg, void *domain_arg, int peer) {
    struct ipc_link *link = arg;
    struct ipc_domain *domain = domain_arg;
    link->domain = domain;
    const rcm_status status = domain->device ? RCM_OK : domain_begin(domain);
    return status == RCM_OK ? ipc_peer_make(domain, peer, &link->peer) : status;
}

rcm_status ipc_link_offer(void *arg, struct rcmi_blob *ret_offer) {
    const struct ipc_link *link = arg;
    memcpy(ret_offer->bytes, &link->domain->self, sizeof link->domain->self);
    ret_offer->len = sizeof link->domain->self;
    ret_offer->nfds = ipc_peer_makes_socket(link->peer);
    ret_offer->fds[0] = link->peer->other;
    return RCM_OK;
}

/* ---- The peer's offer ------------------------------------------------------------------------ */

static rcm_status offer_take(struct ipc_link *link, struct rcmi_blob *offer) {
    struct ipc_peer *peer = link->peer;
    const int wanted = !ipc_peer_makes_socket(peer);
    if (offer->len != sizeof link->other || offer->nfds != wanted)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                         "it offered memory of a device in %zu bytes with %d descriptors, instead "
                         "of %zu with %d",
                         offer->len, offer->nfds, sizeof link->other, wanted);
    memcpy(&link->other, offer->bytes, sizeof link->other);
    link->other.uuid[sizeof link->other.uuid - 1] = '\0';
    link->other.label[sizeof link->other.label - 1] = '\0';
    if (wanted) {
        ipc_peer_join(peer, offer->fds[0]);
        offer->fds[0] = -1; /* owned by the peer object now */
    }
    return RCM_OK;
}

/* Memory was opened or closed, on the device's thread: messages in it become readable, the peer may
 * free memory it waits for, the proof continues. */
static void imports_changed(void *arg) {
    struct ipc_peer *peer = arg;
    ipc_peer_go_on(peer);
    ipc_arena_notify(peer->home, peer->rank);
}

static rcm_status imports_make(struct ipc_link *link) {
    struct rcmi_exporter exporter = {.process = link->other.process};
    struct rcmi_imports *imports = NULL;
    memcpy(exporter.uuid, link->other.uuid, sizeof exporter.uuid);
    const rcm_status status =
        rcmi_imports_create(link->domain->device, &exporter, imports_changed, link->peer, &imports);
    pthread_mutex_lock(&link->peer->lock);
    link->peer->imports = imports;
    pthread_mutex_unlock(&link->peer->lock);
    return status;
}

/* Notices arrived, or the socket has room again: the node's doorbell rings so that a postponed ping
 * is sent. */
static void socket_ready(void *arg, uint32_t events) {
    struct ipc_link *link = arg;
    const bool ended = ipc_peer_receive(link->peer);
    if (events & EPOLLOUT)
        rcmi_node_ring(link->domain->node);
    if (link->watched && ended) {
        rcmi_loop_unwatch(rcmi_node_loop(link->domain->node), &link->watch);
        link->watched = false;
    }
}

/* Edge-triggered, because there is nearly always room; each event reads everything that arrived. */
static rcm_status socket_watch(struct ipc_link *link) {
    link->watch = (struct rcmi_watch){.fd = link->peer->sock, .ready = socket_ready, .arg = link};
    const rcm_status status = rcmi_loop_watch(rcmi_node_loop(link->domain->node), &link->watch,
                                              EPOLLIN | EPOLLOUT | EPOLLET);
    link->watched = status == RCM_OK;
    return status;
}

rcm_status ipc_link_accept(void *arg, struct rcmi_blob *offer) {
    struct ipc_link *link = arg;
    rcm_status status = offer_take(link, offer);
    if (status == RCM_OK)
        status = ipc_prove_possible(link);
    if (status != RCM_OK)
        return status;
    if (!rcmi_node_peer_wake(link->domain->node, link->peer->rank, &link->wake))
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                         "device memory requires shared memory as the host plane of the link");
    status = imports_make(link);
    return status == RCM_OK ? socket_watch(link) : status;
}

rcm_status ipc_link_attach(void *link, int i, int fd) {
    (void)link;
    rcmi_fd_close(&fd);
    return rcmi_fail(RCM_ERR_INTERNAL, 0, "data connection %d of device memory", i);
}

/* ---- Ready ----------------------------------------------------------------------------------- */

static rcm_status arena_send(struct ipc_link *link) {
    struct rcmi_device_handle arena;
    const rcm_status status = ipc_arena_begin(link->domain, &arena);
    if (status < 0)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "no memory to share: %.300s", rcm_last_error());
    if (status == RCM_OK)
        ipc_peer_send_arena(link->peer, &arena);
    link->arena_sent = status == RCM_OK;
    return status;
}

rcm_status ipc_link_ready(void *arg) {
    struct ipc_link *link = arg;
    rcm_status status = link->arena_sent ? RCM_OK : arena_send(link);
    if (status < 0)
        return status;
    if (!link->proved) {
        const rcm_status proof = ipc_prove(link);
        if (proof < 0)
            return proof;
        link->proved = proof == RCM_OK;
    }
    return link->arena_sent && link->proved ? RCM_OK : RCM_AGAIN;
}

/* ---- The end --------------------------------------------------------------------------------- */

void ipc_link_down(void *arg) {
    const struct ipc_link *link = arg;
    if (!link->peer)
        return;
    ipc_channels_link_down(link);
    ipc_peer_down(link->peer);
}

void ipc_link_fini(void *arg) {
    struct ipc_link *link = arg;
    if (link->watched)
        rcmi_loop_unwatch(rcmi_node_loop(link->domain->node), &link->watch);
    link->watched = false;
    link->peer = NULL; /* owned by the domain from here on */
}
