/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes: creation and end, doorbell and status page, the tick of the loop. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "fork.h"
#include "channel/channel.h"
#include "log.h"
#include "process.h"
#include "registry.h"
#include "settings.h"
#include "thread.h"

enum { TURNS = 16, HEAD_BYTES = RCMI_STATUS_PAGE_AT + RCMI_STATUS_PAGE_BYTES };

/* ---- The loop's tick ------------------------------------------------------------------------- */

/* Does the work that other threads and callbacks left for the loop thread. True if there was work.
 */
static bool node_turn(struct rcmi_node *node) {
    bool any = rcmi_links_take_failed(node);
    any = rcmi_links_take_changed(node) || any;
    any = rcmi_planes_take_device(node) || any;
    any = rcmi_outbox_flush(node) || any;
    any = rcmi_control_loopback(node) || any;
    any = rcmi_links_report_lost(node) || any;
    return any;
}

/* Answers the farewells of peers that leave before us. */
static void node_answer_byes(struct rcmi_node *node) {
    node->unanswered = false;
    for (int i = 0; i < node->config.nranks; i++) {
        struct rcmi_link *link = rcmi_node_link(node, i);
        if (link && !rcmi_link_answer_bye(link))
            node->unanswered = true;
    }
}

static rcmi_deadline node_tick(void *arg) {
    struct rcmi_node *node = arg;
    rcmi_deadline until = RCMI_NEVER;
    if (node->closed)
        return RCMI_NEVER;
    if (rcmi_node_is_broken(node) && !node->broken)
        rcmi_node_break(node);
    for (int i = 0; i < TURNS && node_turn(node); i++)
        ;
    if (node->unanswered && !node->leaving)
        node_answer_byes(node);
    if (node->config.tick)
        until = node->config.tick(node->config.arg);
    if (node->closing > 0) {
        /* Committed messages of closed channels still have to be sent. */
        rcmi_node_progress(node);
        rcmi_node_arm(node);
    }
    return node_turn(node) ? 0 : until;
}

/* ---- Creation -------------------------------------------------------------------------------- */

static rcm_status copy_string(const char **string, const char *otherwise) {
    const char *from = *string ? *string : otherwise;
    if (!from)
        return RCM_OK;
    *string = strdup(from);
    return *string ? RCM_OK : rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "no memory for a configuration");
}

static rcm_status node_copy_config(struct rcmi_node *node, const struct rcmi_node_config *config) {
    struct rcmi_node_config *own = &node->config;
    const char **strings[] = {&own->host_id, &own->transports, &own->secret,
                              &own->iface,   &own->ports,      &own->near};
    static const char *const otherwise[] = {"", "auto", NULL, "", "", ""};
    rcm_status status = RCM_OK;
    *own = *config;
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++) {
        if (status == RCM_OK)
            status = copy_string(strings[i], otherwise[i]);
        else
            *strings[i] = NULL; /* owned by the caller */
    }
    return status;
}

static rcm_status node_check_config(const struct rcmi_node_config *config) {
    if (config->nranks < 1 || config->rank < 0 || config->rank >= config->nranks)
        return rcmi_fail(RCM_ERR_INVALID, 0, "rank %d of %d ranks", config->rank, config->nranks);
    if (!config->lookup)
        return rcmi_fail(RCM_ERR_INVALID, 0, "a node requires a look-up function");
    if (config->slot_bytes < 64 || config->slot_bytes > ((size_t)1 << 30) || config->slots < 1 ||
        config->slots > 65536)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%u slots of %zu bytes per channel", config->slots,
                         config->slot_bytes);
    if (!config->host_id || !config->host_id[0] || strlen(config->host_id) > RCMI_HOST_ID_MAX)
        return rcmi_fail(RCM_ERR_CONFIG, 0, "a host identity of %zu bytes, not 1 to %d",
                         config->host_id ? strlen(config->host_id) : 0, RCMI_HOST_ID_MAX);
    return RCM_OK;
}

static rcm_status node_init_lock(struct rcmi_node *node) {
    rcmi_condition_init(&node->changed);
    pthread_mutex_init(&node->lock, NULL);
    return RCM_OK;
}

static rcm_status node_init_domains(struct rcmi_node *node) {
    rcm_status status = rcmi_registry_select(node);
    for (int i = 0; status == RCM_OK && i < node->ndomains; i++) {
        struct rcmi_domain *domain = &node->domains[i];
        domain->data = rcmi_zalloc(domain->transport->domain_size);
        status = domain->data ? domain->transport->domain_init(domain->data, node) : RCM_ERR_NOMEM;
    }
    return status;
}

/* If no backend placed doorbell and status page, only tools read them. */
static rcm_status node_init_head(struct rcmi_node *node) {
    if (node->doorbell)
        return RCM_OK;
    void *head = MAP_FAILED;
    if (rcmi_memfd_create(RCMI_STATUS_FILE, HEAD_BYTES, &node->own_fd) != RCM_OK ||
        rcmi_memfd_map(node->own_fd, HEAD_BYTES, &head) != RCM_OK)
        head = mmap(NULL, HEAD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (head == MAP_FAILED)
        return rcmi_fail(RCM_ERR_NOMEM, errno, "no memory for a status page");
    node->own_head = head;
    rcmi_node_set_head(node, head, (uint8_t *)head + RCMI_STATUS_PAGE_AT);
    return RCM_OK;
}

static rcm_status node_init_address(struct rcmi_node *node) {
    struct rcmi_process process;
    struct rcmi_address *address = rcmi_zalloc(sizeof *address);
    if (!address)
        return RCM_ERR_NOMEM;
    snprintf(address->host_id, sizeof address->host_id, "%s", node->config.host_id);
    if (gethostname(address->hostname, sizeof address->hostname - 1) != 0)
        snprintf(address->hostname, sizeof address->hostname, "?");
    rcmi_process_self(&process);
    address->pid = process.pid;
    address->life[0] = process.start;
    address->life[1] = process.pid_ns;
    address->life[2] = process.time_ns;
    address->job = node->config.job;
    memcpy(address->lacks, node->lacks, sizeof address->lacks);
    for (int i = 0; i < node->ndomains - 1; i++) { /* the last loops back */
        size_t used = strlen(address->transports);
        snprintf(address->transports + used, sizeof address->transports - used, "%s%s",
                 i ? "," : "", node->domains[i].transport->name);
    }
    rcmi_address_where(address->where);
    rcm_status status = rcmi_listen_open(node, address);
    if (status == RCM_OK)
        status =
            rcmi_address_write(address, node->address, sizeof node->address, &node->address_len);
    free(address);
    return status;
}

void rcmi_node_set_protocols(struct rcmi_node *node, const struct rcmi_protocols *protocols,
                             enum rcmi_sharing sharing) {
    node->protocol = protocols->of[sharing];
    node->sharing = sharing;
    node->near_protocol = node->protocol;
    node->near_protocol.eager = node->protocol.eager_near;
    node->near_protocol.slot_non_temporal = (struct rcmi_range){.from = 1}; /* none */
}

rcm_status rcmi_node_set_near(struct rcmi_node *node, const bool *near) {
    const size_t bytes = (size_t)node->config.nranks * sizeof *near;
    node->near = malloc(bytes);
    if (!node->near)
        return rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "no memory for %d ranks", node->config.nranks);
    memcpy(node->near, near, bytes);
    return RCM_OK;
}

bool rcmi_node_oversubscribed(const struct rcmi_node *node) {
    return node->sharing == RCMI_OVERSUBSCRIBED;
}

const struct rcmi_protocol *rcmi_node_protocol(const struct rcmi_node *node) {
    return &node->protocol;
}

rcm_status rcmi_node_create(const struct rcmi_node_config *config, struct rcmi_node **ret_node) {
    int64_t peer_timeout_ms = 0, slot_memory = 0, checks_memory = 0;
    rcm_status status = node_check_config(config);
    if (status == RCM_OK)
        status = rcmi_setting_peer_timeout(&peer_timeout_ms);
    if (status == RCM_OK)
        status = rcmi_setting_size("RINGCOMM_SLOT_MEMORY", 1 << 20, INT64_MAX, &slot_memory);
    if (status == RCM_OK)
        status = rcmi_setting_int("RINGCOMM_CHECK_MEMORY", 0, 1, &checks_memory);
    if (status != RCM_OK)
        return status;
    struct rcmi_node *node = rcmi_zalloc(sizeof *node);
    if (!node)
        return RCM_ERR_NOMEM;
    node->net_above = &rcmi_links_for_net;
    node->link_above = &rcmi_channels_for_links;
    node->peer_timeout_ms = peer_timeout_ms;
    node->checks_memory = checks_memory != 0;
    node->protocol = rcmi_protocols_of(rcmi_cpu())->of[RCMI_ROOMY];
    node->generation = rcmi_fork_watch();
    node->own_fd = -1;
    node->poller_fd = -1;
    node->slot_memory_max = (size_t)slot_memory;
    node->max_unidentified = rcmi_fd_unidentified();
    node_init_lock(node);
    status = node_copy_config(node, config);
    if (status == RCM_OK) {
        node->links = rcmi_zalloc((size_t)config->nranks * sizeof *node->links);
        status = node->links ? RCM_OK : RCM_ERR_NOMEM;
    }
    if (status == RCM_OK)
        status = rcmi_loop_create("ringcomm", node_tick, node, &node->loop);
    if (status == RCM_OK)
        status = rcmi_node_sleep_init(node);
    if (status == RCM_OK)
        status = node_init_domains(node);
    if (status == RCM_OK)
        status = node_init_head(node);
    if (status == RCM_OK)
        status = node_init_address(node);
    if (status != RCM_OK) {
        rcmi_node_destroy(node);
        return status;
    }
    *ret_node = node;
    return RCM_OK;
}

rcm_status rcmi_node_attend(struct rcmi_node *node) {
    node->waiting = true;
    rcm_status status = rcmi_loop_start(node->loop);
    node->attended = status == RCM_OK;
    return status;
}

static void node_open(void *arg) {
    rcmi_listen_narrow(arg);
    rcmi_unidentified_start(arg);
}

rcm_status rcmi_node_start(struct rcmi_node *node) {
    if (!node->attended)
        return rcmi_loop_start(node->loop);
    rcmi_loop_call(node->loop, node_open, node);
    return RCM_OK;
}

/* ---- End ------------------------------------------------------------------------------------- */

enum { UNLINKED_MS = 200 }; /* else such peers would report a missing process as the reason */

struct drain {
    struct rcmi_node *node;
    bool done;
    bool unlinked; /* some peers have no link; they may be about to make one */
};

/* Loop thread. Are messages still queued, or links being made that will carry them? */
static void node_look_drained(void *arg) {
    struct drain *drain = arg;
    drain->done = !rcmi_outbox_flush(drain->node);
    drain->unlinked = false;
    for (int i = 0; i < drain->node->config.nranks; i++) {
        const struct rcmi_link *link = rcmi_node_link(drain->node, i);
        const enum rcmi_link_state state = link ? rcmi_link_state(link) : RCMI_LINK_NONE;
        if (state == RCMI_LINK_DIALING || state == RCMI_LINK_WAITING || state == RCMI_LINK_SETUP ||
            (state == RCMI_LINK_UP && link->out.head))
            drain->done = false;
        drain->unlinked = drain->unlinked || state == RCMI_LINK_NONE;
    }
}

void rcmi_node_drain(struct rcmi_node *node, rcmi_deadline deadline) {
    const rcmi_deadline unlinked_until = rcmi_deadline_in(UNLINKED_MS);
    struct drain drain = {.node = node};
    for (;;) {
        rcmi_loop_call(node->loop, node_look_drained, &drain);
        const bool expected = drain.unlinked && !rcmi_deadline_passed(unlinked_until);
        if ((drain.done && !expected) || rcmi_deadline_passed(deadline))
            return;
        const struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
    }
}

/* On the loop thread: everything but the loop itself. */
static void node_close(void *arg) {
    struct rcmi_node *node = arg;
    /* The reason is sent before the connections close; otherwise peers would report the end itself.
     * A forked child sends nothing on its parent's connections. */
    if (rcmi_fork_is_maker(node->generation))
        rcmi_outbox_flush(node);
    node->closed = true;
    if (node->loop)
        rcmi_heartbeat_stop(node);
    rcmi_channels_free(node);
    for (int i = 0; node->links && i < node->config.nranks; i++)
        if (rcmi_node_link(node, i))
            rcmi_link_free(rcmi_node_link(node, i));
    if (node->loop) {
        rcmi_conn_drop(node, NULL);
        rcmi_listen_close(node);
    }
    rcmi_memory_end(node);
    for (int i = node->ndomains - 1; i >= 0; i--) {
        if (node->domains[i].data)
            node->domains[i].transport->domain_fini(node->domains[i].data);
        free(node->domains[i].data);
    }
    rcmi_frames_clear(&node->loopback);
}

void rcmi_node_destroy(struct rcmi_node *node) {
    if (!node)
        return;
    if (node->loop)
        rcmi_loop_call(node->loop, node_close, node);
    else
        node_close(node);
    rcmi_loop_destroy(node->loop);
    rcmi_frames_clear(&node->outbox);
    rcmi_frames_clear(&node->kept);
    pthread_cond_destroy(&node->changed);
    pthread_mutex_destroy(&node->lock);
    free((void *)(uintptr_t)node->config.host_id);
    free((void *)(uintptr_t)node->config.transports);
    free((void *)(uintptr_t)node->config.secret);
    free((void *)(uintptr_t)node->config.iface);
    free((void *)(uintptr_t)node->config.ports);
    free((void *)(uintptr_t)node->config.near);
    free((void *)(uintptr_t)node->links);
    free(node->sets);
    free(node->near);
    if (node->own_head)
        munmap(node->own_head, HEAD_BYTES);
    rcmi_fd_close(&node->own_fd);
    rcmi_fd_close(&node->poller_fd);
    free(node);
}

/* ---- Accessors ------------------------------------------------------------------------------- */

void rcmi_node_address(const struct rcmi_node *node, const void **ret_blob, size_t *ret_len) {
    *ret_blob = node->address;
    *ret_len = node->address_len;
}
