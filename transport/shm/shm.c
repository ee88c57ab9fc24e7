/* SPDX-License-Identifier: BSD-3-Clause */
/* The shm transport: its function table, domains and links. See shm.h. */
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static rcm_status shm_domain_init(void *arg, struct rcmi_node *node) {
    struct shm_domain *domain = arg;
    domain->node = node;
    rcm_status status = shm_segment_init(domain);
    if (status == RCM_OK)
        domain->self = shm_self_of(domain);
    return status;
}

static void shm_domain_fini(void *arg) {
    struct shm_domain *domain = arg;
    while (domain->maps) {
        struct shm_map *map = domain->maps;
        domain->maps = map->next;
        munmap(map->head, SHM_HEAD_BYTES);
        free(map);
    }
    shm_segment_fini(domain);
}

/* Data stay where they are written: there is nothing to move, and doorbells wake sleepers. */
static bool shm_progress(void *domain) {
    (void)domain;
    return false;
}

static void shm_arm(void *domain) {
    (void)domain;
}

/* Peers ring the doorbell from their own processes, which cannot wake a thread that polls. */
static bool shm_attend(void *arg, int *ret_fd) {
    const struct shm_domain *domain = arg;
    *ret_fd = -1;
    return atomic_load(&domain->links) == 0;
}

/* ---- Links ----------------------------------------------------------------------------------- */

static rcm_status shm_link_init(void *arg, void *domain, int peer) {
    struct shm_link *link = arg;
    link->domain = domain;
    link->peer = peer;
    link->eventfd = link->memfd = -1;
    pthread_mutex_init(&link->lock, NULL);
    link->inited = true;
    atomic_fetch_add(&link->domain->links, 1);
    rcmi_node_ring(link->domain->node); /* from here on no thread may poll */
    return RCM_OK;
}

static rcm_status shm_link_offer(void *arg, struct rcmi_blob *ret_offer) {
    const struct shm_link *link = arg;
    const struct shm_self *self = &link->domain->self;
    memcpy(ret_offer->bytes, self, sizeof *self);
    ret_offer->len = sizeof *self;
    ret_offer->fds[0] = link->domain->memfd;
    ret_offer->fds[1] = rcmi_loop_eventfd(rcmi_node_loop(link->domain->node));
    ret_offer->nfds = 2;
    return RCM_OK;
}

/* Maps the peer's head: the doorbell writable, the status page read-only. */
static rcm_status head_map(struct shm_link *link, int memfd) {
    struct shm_domain *domain = link->domain;
    size_t size = 0;
    void *base = NULL;
    rcm_status status = rcmi_memfd_size(memfd, &size);
    if (status == RCM_OK && size < SHM_HEAD_BYTES)
        status = rcmi_fail(RCM_ERR_PROTOCOL, 0, "its shared memory has only %zu bytes", size);
    if (status == RCM_OK)
        status = rcmi_memfd_map(memfd, SHM_HEAD_BYTES, &base);
    if (status != RCM_OK)
        return status;
    struct shm_map *map = calloc(1, sizeof *map);
    if (!map) {
        munmap(base, SHM_HEAD_BYTES);
        return rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "no memory for a link");
    }
    *map = (struct shm_map){.next = domain->maps, .head = base};
    domain->maps = map;
    link->head = base;
    /* Fails with pages larger than SHM_PAGE; then the page is not protected, which is harmless. */
    (void)mprotect((uint8_t *)base + SHM_PAGE, RCMI_STATUS_PAGE_BYTES, PROT_READ);
    if (link->head->magic != SHM_MAGIC || link->head->rank != (uint32_t)link->peer ||
        link->head->job != rcmi_node_job(domain->node))
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "its shared memory belongs to another process");
    return RCM_OK;
}

static rcm_status shm_link_accept(void *arg, struct rcmi_blob *offer) {
    struct shm_link *link = arg;
    if (offer->nfds != 2)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "it offered %d descriptors instead of 2",
                         offer->nfds);
    if (offer->len != sizeof link->self)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                         "it offered shared memory in %zu bytes instead of %zu", offer->len,
                         sizeof link->self);
    memcpy(&link->self, offer->bytes, sizeof link->self);
    atomic_init(&link->seen_ns, 0);
    atomic_init(&link->ungettable, !shm_self_reads(&link->domain->self, &link->self));
    /* A write to the eventfd must never block. */
    int flags = fcntl(offer->fds[1], F_GETFL);
    if (flags < 0 || !(flags & O_NONBLOCK))
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "it offered a descriptor that is not an eventfd");
    rcm_status status = head_map(link, offer->fds[0]);
    if (status != RCM_OK)
        return status;
    link->memfd = offer->fds[0];
    link->eventfd = offer->fds[1];
    offer->fds[0] = offer->fds[1] = -1; /* owned by the link now */
    rcmi_node_set_peer_page(link->domain->node, link->peer, (uint8_t *)link->head + SHM_PAGE);
    rcmi_node_set_peer_wake(
        link->domain->node, link->peer,
        &(struct rcmi_wake){.doorbell = &link->head->doorbell, .eventfd = link->eventfd});
    return RCM_OK;
}

static rcm_status shm_link_attach(void *link, int i, int fd) {
    (void)link;
    rcmi_fd_close(&fd);
    return rcmi_fail(RCM_ERR_INTERNAL, 0, "data connection %d of shared memory", i);
}

/* The framework fails the channels. Memory stays mapped and the eventfd open until fini, because
 * other threads may be about to use them. */
static void shm_link_down(void *link) {
    (void)link;
}

static void shm_link_fini(void *arg) {
    struct shm_link *link = arg;
    if (!link->inited)
        return;
    shm_windows_fini(link);
    rcmi_fd_close(&link->eventfd);
    rcmi_fd_close(&link->memfd);
    pthread_mutex_destroy(&link->lock);
    link->inited = false;
}

const struct rcmi_transport rcmi_transport_shm = {
    .name = "shm",
    .description = "memory shared between processes of one host: slots, or memory of rcm_mem_alloc "
                   "in place",
    .shared_slots = true,
    .bulk_scale = 1,
    .same_host = true,
    .multicast = true,
    .domain_size = sizeof(struct shm_domain),
    .link_size = sizeof(struct shm_link),
    .channel_size = sizeof(struct shm_channel),
    .probe = shm_probe,
    .domain_init = shm_domain_init,
    .domain_fini = shm_domain_fini,
    .progress = shm_progress,
    .arm = shm_arm,
    .attend = shm_attend,
    .memory_take = shm_memory_take,
    .memory_give = shm_memory_give,
    .memory_register = shm_memory_register,
    .memory_unregister = rcmi_no_memory_unregister,
    .link_init = shm_link_init,
    .link_offer = shm_link_offer,
    .link_accept = shm_link_accept,
    .link_attach = shm_link_attach,
    .link_ready = rcmi_ready_at_once,
    .link_flushed = rcmi_always_flushed,
    .link_down = shm_link_down,
    .link_fini = shm_link_fini,
    .writer_init = shm_writer_init,
    .writer_offer = shm_writer_offer,
    .writer_attach = shm_writer_attach,
    .reader_init = shm_reader_init,
    .reader_accept = shm_reader_accept,
    .writer_close = shm_writer_close,
    .channel_fini = shm_channel_fini,
    .reserve = shm_reserve,
    .commit = shm_commit,
    .send_zero_copy = shm_send_zero_copy,
    .completed = shm_completed,
    .taken = shm_taken,
    .peek = shm_peek,
    .release = shm_release,
    .post_receive = shm_post_receive,
    .get = shm_get,
    .help = shm_help,
};
