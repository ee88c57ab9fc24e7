/* SPDX-License-Identifier: BSD-3-Clause */
/* See near_backend.h. */
#include "near_backend.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../fakes/device/fake.h"
#include "backend.h"

#define READY_MS 1
#define NODES    16

struct near_orders near_orders = {.rank = -1};
const char near_sentence[] = "it is too far away";

struct near_domain {
    struct rcmi_node *node;
};

struct near_link {
    struct near_domain *domain;
    int peer;
    struct rcmi_node *peer_node; /* node in this process; rung only while it is listed */
    struct rcmi_timer timer;
    bool waited;
};

/* Messages of a channel: headers for both ends, slots for operations. */
struct near_queue {
    struct near_queue *next;
    uint64_t number;
    int uses;
    uint32_t slots, nreaders;
    size_t slot_bytes;
    char *memory;
    _Atomic uint64_t committed;
    _Atomic uint64_t *released; /* per reader */
    struct near_header {
        uint64_t len, meta;
        const void *bytes;
    } * headers;
};

struct near_channel {
    struct rcmi_channel base;
    struct near_queue *queue;
    uint32_t reader;           /* its number, on a reader */
    struct rcmi_node **others; /* nodes to wake */
    uint32_t nothers;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by the lock: */
static struct rcmi_node *nodes[NODES];
static struct near_queue *queues;
static uint64_t last_number;
static _Atomic long as_it_lies;

static struct near_channel *near_of(struct rcmi_channel *channel) {
    return (struct near_channel *)channel;
}

/* ---- Nodes of this process ------------------------------------------------------------------- */

static void nodes_replace(const struct rcmi_node *old, struct rcmi_node *new) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < NODES; i++) {
        if (nodes[i] == old) {
            nodes[i] = new;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}

static void near_ring(const struct near_channel *near) {
    pthread_mutex_lock(&lock);
    for (uint32_t r = 0; r < near->nothers; r++)
        for (int i = 0; i < NODES; i++)
            if (nodes[i] && nodes[i] == near->others[r])
                rcmi_node_ring(nodes[i]);
    pthread_mutex_unlock(&lock);
}

static bool near_probe(const struct rcmi_need *need, char *reason, size_t cap) {
    (void)need;
    snprintf(reason, cap, "ranks are threads");
    return true;
}

static rcm_status near_domain_init(void *domain, struct rcmi_node *node) {
    ((struct near_domain *)domain)->node = node;
    nodes_replace(NULL, node);
    return RCM_OK;
}

static void near_domain_fini(void *domain) {
    nodes_replace(((struct near_domain *)domain)->node, NULL);
}

static bool near_progress(void *domain) {
    (void)domain;
    return false;
}

static void near_arm(void *domain) {
    (void)domain;
}

static bool near_attend(void *domain, int *ret_fd) {
    (void)domain;
    *ret_fd = -1;
    return false;
}

static rcm_status near_memory_register(void *domain, const struct rcmi_mem *mem, void **ret_own) {
    if (!fake_has(mem->bytes))
        abort();
    *ret_own = domain; /* anything */
    return RCM_OK;
}

/* ---- Links ----------------------------------------------------------------------------------- */

static rcm_status near_do(const struct near_link *link, enum near_slot slot) {
    const int rank = rcmi_node_rank(link->domain->node);
    if (rank != near_orders.rank || link->peer < rank)
        return RCM_OK;
    if (slot == NEAR_READY && near_orders.never)
        return RCM_AGAIN;
    const rcm_status how = near_orders.how ? near_orders.how : RCM_ERR_UNSUPPORTED;
    return near_orders.decline == slot ? rcmi_fail(how, 0, "%s", near_sentence) : RCM_OK;
}

static void near_fire(void *arg) {
    struct near_link *link = arg;
    link->waited = true;
    rcmi_node_link_changed(link->domain->node, link->peer);
}

static rcm_status near_link_init(void *arg, void *domain, int peer) {
    struct near_link *link = arg;
    link->domain = domain;
    link->peer = peer;
    link->timer = (struct rcmi_timer){.fire = near_fire, .arg = link};
    if (!rcmi_node_device(link->domain->node))
        abort();
    return near_do(link, NEAR_INIT);
}

static rcm_status near_link_offer(void *arg, struct rcmi_blob *ret_offer) {
    const struct near_link *link = arg;
    memcpy(ret_offer->bytes, &link->domain->node, sizeof link->domain->node);
    ret_offer->len = sizeof link->domain->node;
    return near_do(link, NEAR_OFFER);
}

static rcm_status near_link_accept(void *arg, struct rcmi_blob *offer) {
    struct near_link *link = arg;
    if (offer->len != sizeof link->peer_node)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "an offer of %zu bytes", offer->len);
    memcpy(&link->peer_node, offer->bytes, sizeof link->peer_node);
    return near_do(link, NEAR_ACCEPT);
}

static rcm_status near_link_attach(void *link, int i, int fd) {
    (void)link;
    rcmi_fd_close(&fd);
    return rcmi_fail(RCM_ERR_INTERNAL, 0, "data connection %d", i);
}

static rcm_status near_link_ready(void *arg) {
    struct near_link *link = arg;
    if (link->waited)
        return near_do(link, NEAR_READY);
    if (!link->timer.active)
        rcmi_loop_timer(rcmi_node_loop(link->domain->node), &link->timer,
                        rcmi_deadline_in(READY_MS));
    return RCM_AGAIN;
}

static void near_link_down(void *arg) {
    struct near_link *link = arg;
    rcmi_loop_timer_stop(rcmi_node_loop(link->domain->node), &link->timer);
}

static void near_link_fini(void *link) {
    (void)link;
}

/* ---- Queues ---------------------------------------------------------------------------------- */

static struct near_queue *queue_new(const struct rcmi_channel *channel, int nreaders) {
    struct near_queue *queue = calloc(1, sizeof *queue);
    if (!queue)
        abort();
    queue->uses = 1;
    queue->slots = channel->slots;
    queue->slot_bytes = channel->slot_bytes;
    queue->nreaders = (uint32_t)nreaders;
    queue->memory = fake_alloc(queue->slots * queue->slot_bytes);
    queue->released = calloc(queue->nreaders, sizeof *queue->released);
    queue->headers = calloc(queue->slots, sizeof *queue->headers);
    if (!queue->released || !queue->headers)
        abort();
    pthread_mutex_lock(&lock);
    queue->number = ++last_number;
    queue->next = queues;
    queues = queue;
    pthread_mutex_unlock(&lock);
    return queue;
}

static struct near_queue *queue_share(uint64_t number) {
    pthread_mutex_lock(&lock);
    struct near_queue *queue = queues;
    while (queue && queue->number != number)
        queue = queue->next;
    if (queue)
        queue->uses++;
    pthread_mutex_unlock(&lock);
    return queue;
}

static void queue_drop(struct near_queue *queue) {
    pthread_mutex_lock(&lock);
    struct near_queue **at = &queues;
    const bool last = --queue->uses == 0;
    while (last && *at != queue)
        at = &(*at)->next;
    if (last)
        *at = queue->next;
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    fake_free(queue->memory);
    free((void *)queue->released);
    free(queue->headers);
    free(queue);
}

long near_as_it_lies(void) {
    return atomic_load_explicit(&as_it_lies, memory_order_relaxed);
}

int near_queues(void) {
    int n = 0;
    pthread_mutex_lock(&lock);
    for (const struct near_queue *queue = queues; queue; queue = queue->next)
        n++;
    pthread_mutex_unlock(&lock);
    return n;
}

/* ---- Channels -------------------------------------------------------------------------------- */

static void channel_others(struct near_channel *near, void *const *links, int n) {
    near->others = calloc((size_t)n, sizeof(struct rcmi_node *));
    if (!near->others)
        abort();
    near->nothers = (uint32_t)n;
    for (int i = 0; i < n; i++)
        near->others[i] = ((const struct near_link *)links[i])->peer_node;
}

static rcm_status near_writer_init(struct rcmi_channel *channel, void *const *links, int nreaders) {
    near_of(channel)->queue = queue_new(channel, nreaders);
    channel_others(near_of(channel), links, nreaders);
    return RCM_OK;
}

static rcm_status near_writer_offer(struct rcmi_channel *channel, int r,
                                    struct rcmi_blob *ret_offer) {
    const uint64_t offer[2] = {near_of(channel)->queue->number, (uint64_t)r};
    memcpy(ret_offer->bytes, offer, sizeof offer);
    ret_offer->len = sizeof offer;
    return RCM_OK;
}

static rcm_status near_writer_attach(struct rcmi_channel *channel, int r,
                                     struct rcmi_blob *answer) {
    (void)channel;
    (void)r;
    (void)answer;
    return RCM_OK;
}

static rcm_status near_reader_init(struct rcmi_channel *channel, void *link) {
    channel_others(near_of(channel), &link, 1);
    return RCM_OK;
}

static rcm_status near_reader_accept(struct rcmi_channel *channel, struct rcmi_blob *offer,
                                     struct rcmi_blob *ret_answer) {
    uint64_t at[2];
    memcpy(at, offer->bytes, sizeof at);
    near_of(channel)->queue = queue_share(at[0]);
    near_of(channel)->reader = (uint32_t)at[1];
    ret_answer->len = 0;
    return near_of(channel)->queue ? RCM_OK : rcmi_fail(RCM_ERR_PEER, 0, "the writer has ended");
}

static void near_writer_close(struct rcmi_channel *channel) {
    (void)channel;
}

static void near_channel_fini(struct rcmi_channel *channel) {
    if (near_of(channel)->queue)
        queue_drop(near_of(channel)->queue);
    free(near_of(channel)->others);
}

/* ---- Data ------------------------------------------------------------------------------------ */

static bool near_taken(struct rcmi_channel *channel, int reader, uint64_t number) {
    const struct near_queue *queue = near_of(channel)->queue;
    return atomic_load_explicit(&queue->released[reader], memory_order_acquire) >= number;
}

static bool near_all_taken(struct rcmi_channel *channel, uint64_t number) {
    uint32_t reader = 0;
    while (reader < near_of(channel)->queue->nreaders && near_taken(channel, (int)reader, number))
        reader++;
    return reader == near_of(channel)->queue->nreaders;
}

static bool queue_is_full(struct rcmi_channel *channel) {
    const struct near_queue *queue = near_of(channel)->queue;
    const uint64_t committed = atomic_load_explicit(&queue->committed, memory_order_relaxed);
    return committed >= queue->slots && !near_all_taken(channel, committed - queue->slots + 1);
}

static char *queue_slot(const struct near_queue *queue, uint64_t number) {
    return queue->memory + number % queue->slots * queue->slot_bytes;
}

static rcm_status near_reserve(struct rcmi_channel *channel, size_t len,
                               struct rcmi_reserved *ret_reserved) {
    const struct near_queue *queue = near_of(channel)->queue;
    if (len > queue->slot_bytes)
        abort();
    if (queue_is_full(channel))
        return RCM_AGAIN;
    *ret_reserved = (struct rcmi_reserved){
        .bytes = queue_slot(queue, atomic_load_explicit(&queue->committed, memory_order_relaxed))};
    return RCM_OK;
}

static void near_publish(struct rcmi_channel *channel, const void *bytes, size_t len,
                         uint64_t meta) {
    struct near_queue *queue = near_of(channel)->queue;
    const uint64_t number = atomic_load_explicit(&queue->committed, memory_order_relaxed);
    queue->headers[number % queue->slots] = (struct near_header){len, meta, bytes};
    atomic_store_explicit(&queue->committed, number + 1, memory_order_release);
    near_ring(near_of(channel));
}

/* A published message is complete: no operation writes it any more. */
static void near_commit(struct rcmi_channel *channel, size_t len, uint64_t meta) {
    const struct near_queue *queue = near_of(channel)->queue;
    near_publish(channel,
                 queue_slot(queue, atomic_load_explicit(&queue->committed, memory_order_relaxed)),
                 len, meta);
}

static rcm_status near_send_zero_copy(struct rcmi_channel *channel, const struct rcmi_mem *mem,
                                      uint64_t meta, bool may_get) {
    size_t at;
    if ((mem->len > channel->slot_bytes && !may_get) ||
        !rcmi_registration_of(mem, channel->transport, &at))
        return RCM_ERR_UNSUPPORTED;
    if (queue_is_full(channel))
        return RCM_AGAIN;
    if (atomic_fetch_add_explicit(&as_it_lies, 1, memory_order_relaxed) % 2 && near_orders.refuses)
        return RCM_ERR_UNSUPPORTED;
    near_publish(channel, mem->bytes, mem->len, meta);
    return RCM_OK;
}

static rcm_status near_peek(struct rcmi_channel *channel, struct rcmi_slot *ret_slot) {
    const struct near_channel *near = near_of(channel);
    const struct near_queue *queue = near->queue;
    const uint64_t number =
        atomic_load_explicit(&queue->released[near->reader], memory_order_relaxed);
    if (atomic_load_explicit(&queue->committed, memory_order_acquire) == number)
        return RCM_AGAIN;
    const struct near_header *header = &queue->headers[number % queue->slots];
    ret_slot->bytes = header->bytes;
    ret_slot->len = header->len;
    ret_slot->meta = header->meta;
    return RCM_OK;
}

static void near_release(struct rcmi_channel *channel) {
    const struct near_channel *near = near_of(channel);
    atomic_fetch_add_explicit(&near->queue->released[near->reader], 1, memory_order_release);
    near_ring(near);
}

extern const struct rcmi_transport rcmi_transport_near;
const struct rcmi_transport rcmi_transport_near = {
    .name = "near",
    .description = "memory of the fake device, between threads",
    .kind = RCMI_MEM_DEVICE,
    .same_host = true,
    .multicast = true,
    .bulk_scale = 1,
    .domain_size = sizeof(struct near_domain),
    .link_size = sizeof(struct near_link),
    .channel_size = sizeof(struct near_channel),
    .probe = near_probe,
    .domain_init = near_domain_init,
    .domain_fini = near_domain_fini,
    .progress = near_progress,
    .arm = near_arm,
    .attend = near_attend,
    .memory_take = rcmi_no_memory_take,
    .memory_give = rcmi_no_memory_give,
    .memory_register = near_memory_register,
    .memory_unregister = rcmi_no_memory_unregister,
    .link_init = near_link_init,
    .link_offer = near_link_offer,
    .link_accept = near_link_accept,
    .link_attach = near_link_attach,
    .link_ready = near_link_ready,
    .link_flushed = rcmi_always_flushed,
    .link_down = near_link_down,
    .link_fini = near_link_fini,
    .writer_init = near_writer_init,
    .writer_offer = near_writer_offer,
    .writer_attach = near_writer_attach,
    .reader_init = near_reader_init,
    .reader_accept = near_reader_accept,
    .writer_close = near_writer_close,
    .channel_fini = near_channel_fini,
    .reserve = near_reserve,
    .commit = near_commit,
    .send_zero_copy = near_send_zero_copy,
    .completed = near_all_taken,
    .taken = near_taken,
    .peek = near_peek,
    .release = near_release,
    .post_receive = rcmi_no_post_receive,
    .get = rcmi_no_get,
    .help = rcmi_no_help,
};
