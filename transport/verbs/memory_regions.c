/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory of users. It is registered with each port when the backend gets the
 * registration, so that no operation has to. Messages are sent from it in place (channel.c), and
 * peers write directly to it (posted_receives.c).
 *
 * Once unregistered, the device does not touch the memory in any case. But a pending send from it,
 * or a peer's write to it, would then break the queue pair. Therefore unregistering waits for those
 * that were posted; messages that were not are copied to their slots. A link that still uses the
 * memory when RINGCOMM_PEER_TIMEOUT has passed ends.
 */
#include <stdlib.h>
#include "verbs.h"

struct verbs_memory {
    uint8_t *bytes;
    size_t len;
    struct ibv_mr *mrs[VERBS_PORTS_MAX];
};

/* ---- Registering ----------------------------------------------------------------------------- */

static void memory_free(const struct verbs_domain *domain, struct verbs_memory *memory) {
    for (int i = 0; i < domain->nports; i++)
        if (memory->mrs[i])
            (void)domain->table->dereg_mr(memory->mrs[i]);
    free(memory);
}

rcm_status verbs_memory_register(void *arg, const struct rcmi_mem *mem, void **ret_own) {
    struct verbs_domain *domain = arg;
    if (mem->kind != RCMI_MEM_HOST)
        return RCM_OK;
    struct verbs_memory *memory = rcmi_zalloc(sizeof *memory);
    if (!memory)
        return RCM_ERR_NOMEM;
    memory->bytes = mem->bytes;
    memory->len = mem->len;
    for (int i = 0; i < domain->nports; i++) {
        const rcm_status status = verbs_mr_make(&domain->ports[i], mem->bytes, mem->len,
                                                IBV_ACCESS_REMOTE_WRITE, &memory->mrs[i]);
        if (status != RCM_OK) {
            memory_free(domain, memory);
            return status;
        }
    }
    *ret_own = memory;
    return RCM_OK;
}

const struct ibv_mr *verbs_memory_of(const struct rcmi_channel *channel,
                                     const struct verbs_link *link, const struct rcmi_mem *mem) {
    size_t at;
    const struct verbs_memory *memory = rcmi_registration_of(mem, channel->transport, &at);
    return memory ? memory->mrs[link->port - link->domain->ports] : NULL;
}

/* ---- Unregistering --------------------------------------------------------------------------- */

static bool memory_has(const struct verbs_memory *memory, const uint8_t *bytes) {
    return (uintptr_t)bytes >= (uintptr_t)memory->bytes &&
           (uintptr_t)bytes - (uintptr_t)memory->bytes < memory->len;
}

/* Does the device still send from the memory? Messages not posted yet are copied to their slots. */
static bool writer_uses(struct verbs_end *end, const struct verbs_memory *memory) {
    const uint64_t committed = atomic_load_explicit(&end->committed, memory_order_relaxed);
    bool uses = false;
    for (uint64_t n = atomic_load_explicit(&end->returned, memory_order_relaxed); n < committed;
         n++) {
        struct verbs_message *message = &end->messages[n % end->slots];
        if (!message->bytes || !memory_has(memory, message->bytes))
            continue;
        if (n >= end->posted)
            verbs_message_keep(end, n);
        else if (!verbs_entry_done(end->link, message->entry))
            uses = true;
    }
    return uses;
}

/* May the peer still write to it? It was posted, and the peer has not confirmed the withdrawal. */
static bool reader_uses(const struct verbs_end *end, const struct verbs_memory *memory) {
    if (end->ended || end->withdraw == VERBS_WITHDRAW_NONE || verbs_link_still(end->link))
        return false;
    for (uint32_t i = 0; i < end->slots; i++) {
        const struct verbs_post *post = &end->posts[i];
        if (post->live && memory_has(memory, (const uint8_t *)(uintptr_t)post->is.address))
            return true;
    }
    return false;
}

static bool end_uses(struct verbs_end *end, const struct verbs_memory *memory) {
    return end->is_writer ? writer_uses(end, memory) : reader_uses(end, memory);
}

static void link_end(struct verbs_link *link) {
    (void)rcmi_fail_peer(RCM_ERR_PEER, link->peer,
                         "RDMA with rank %d still used memory %lld ms after its deregistration "
                         "began (RINGCOMM_PEER_TIMEOUT)",
                         link->peer, (long long)link->domain->peer_timeout_ms);
    verbs_link_break(link);
}

/* ends: breaks the link if it uses the memory. */
static bool link_uses(struct verbs_link *link, const struct verbs_memory *memory, bool ends) {
    bool uses = false;
    verbs_lock_take(&link->lock);
    for (uint32_t i = 0; i < link->nends; i++)
        if (link->ends[i])
            uses = end_uses(link->ends[i], memory) || uses;
    if (uses && ends)
        link_end(link);
    else if (uses)
        verbs_post_probe(link);
    verbs_lock_drop(&link->lock);
    return uses;
}

static bool domain_uses(struct verbs_domain *domain, const struct verbs_memory *memory, bool ends) {
    bool uses = false;
    for (int p = 0; p < domain->nports; p++) {
        struct verbs_port *port = &domain->ports[p];
        verbs_lock_take(&port->lock); /* keeps its links */
        for (int i = 0; i < domain->nranks; i++) {
            struct verbs_link *link = port->links[i];
            if (link)
                uses = link_uses(link, memory, ends) || uses;
        }
        verbs_lock_drop(&port->lock);
    }
    return uses;
}

/* ends: breaks links that use the memory, which then stop soon. */
static bool unused_in_time(struct verbs_domain *domain, const struct verbs_memory *memory,
                           bool ends) {
    const rcmi_deadline until = rcmi_deadline_in(domain->peer_timeout_ms);
    while (domain_uses(domain, memory, ends)) {
        if (rcmi_deadline_passed(until))
            return false;
        verbs_pause(domain);
    }
    return true;
}

bool verbs_memory_unregister(void *arg, void *own, rcmi_deadline deadline) {
    struct verbs_domain *domain = arg;
    struct verbs_memory *memory = own;
    (void)deadline; /* links are limited by RINGCOMM_PEER_TIMEOUT and break then */
    if (!memory)
        return true;
    if (verbs_untouchable(domain)) {
        free(memory);
        return true;
    }
    if (!unused_in_time(domain, memory, false))
        (void)unused_in_time(domain, memory, true);
    memory_free(domain, memory);
    return true;
}
