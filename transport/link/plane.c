/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data planes of a link, one for each kind of memory, and the life of those that are not the
 * host's: with that one the link comes up (setup.c).
 *
 *      NONE     no channel needs it; or this rank has no device yet: then the peer's offer is held
 *      SETUP    both offer, then both accept; a transport may take its time to be ready (setup.c)
 *      UP       a channel of this kind that opens from now on goes by it
 *      DECLINED there is no row that serves the pair, or it declined: such channels go by the
 *               host's plane, which knows nothing of it
 *
 * Once a plane is up or declined that is for good, so the writer of a channel chooses, and says
 * what it chose (opening.c).
 */
#include <stdlib.h>
#include <string.h>
#include "internal.h"
#include "log.h"

const char *rcmi_plane_noun(const struct rcmi_plane *plane) {
    return plane->kind == RCMI_MEM_HOST ? "link" : "plane of device memory";
}

/* ---- Which row ------------------------------------------------------------------------------- */

/* The first of this rank's rows of that kind that the other one has, too. */
static struct rcmi_domain *plane_find(const struct rcmi_plane *plane, const char *theirs) {
    struct rcmi_node *node = plane->link->node;
    for (int i = 0; i < node->ndomains; i++) {
        const struct rcmi_transport *row = node->domains[i].transport;
        if (row->kind == plane->kind && rcmi_list_has(theirs, row->name))
            return &node->domains[i];
    }
    return NULL;
}

/* Where both ranks share a host, and their control stream can carry descriptors. */
static struct rcmi_domain *plane_domain(const struct rcmi_plane *plane) {
    const struct rcmi_link *link = plane->link;
    const struct rcmi_node_config *config = &link->node->config;
    struct rcmi_address_rows rows;
    const void *blob = NULL;
    size_t len = 0;
    if (!link->same_host || link->peer == config->rank ||
        config->lookup(config->arg, link->peer, &blob, &len) != RCM_OK ||
        rcmi_address_rows(blob, len, &rows) != RCM_OK || strcmp(rows.host_id, config->host_id) != 0)
        return NULL;
    return plane_find(plane, rows.transports);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void plane_drop_offer(struct rcmi_plane *plane) {
    if (plane->held)
        rcmi_blob_close(&plane->offer);
    plane->held = false;
}

/* Both ends have found that no row serves them; if the peer did not, it hears of it. */
static void plane_is_absent(struct rcmi_plane *plane) {
    if (plane->held) {
        (void)rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "no transport of device memory serves the pair");
        rcmi_setup_decline(plane);
        return;
    }
    plane->state = RCMI_PLANE_DECLINED;
    rcmi_plane_decided(plane);
}

static void plane_begin(struct rcmi_plane *plane, struct rcmi_domain *domain) {
    rcmi_setup_begin(plane, domain);
    if (plane->state != RCMI_PLANE_SETUP || !plane->held)
        return;
    plane->held = false;
    if (rcmi_setup_on_offer(plane, &plane->offer) != RCM_OK)
        rcmi_link_lose(plane->link);
    rcmi_blob_close(&plane->offer);
}

/* Begins what is needed, and can begin. */
static bool plane_look(struct rcmi_plane *plane) {
    struct rcmi_link *link = plane->link;
    if (plane->state != RCMI_PLANE_NONE || rcmi_link_state(link) != RCMI_LINK_UP ||
        !(plane->needed || plane->held))
        return false;
    struct rcmi_domain *domain = plane_domain(plane);
    if (!domain)
        plane_is_absent(plane);
    else if (rcmi_node_device(link->node))
        plane_begin(plane, domain);
    return plane->state != RCMI_PLANE_NONE;
}

void rcmi_plane_need(struct rcmi_link *link) {
    link->planes[RCMI_MEM_DEVICE].needed = true;
    (void)plane_look(&link->planes[RCMI_MEM_DEVICE]);
}

/* A rank that has its device by then does not wait for its first call with such memory. */
void rcmi_plane_link_up(struct rcmi_link *link) {
    struct rcmi_plane *plane = &link->planes[RCMI_MEM_DEVICE];
    if (rcmi_node_device(link->node))
        plane->needed = true;
    (void)plane_look(plane);
}

bool rcmi_planes_take_device(struct rcmi_node *node) {
    bool any = false;
    if (node->device_seen || !rcmi_node_device(node))
        return false;
    node->device_seen = true;
    for (int i = 0; i < node->config.nranks; i++) {
        struct rcmi_link *link = rcmi_node_link(node, i);
        any = (link && plane_look(&link->planes[RCMI_MEM_DEVICE])) || any;
    }
    return any;
}

void rcmi_plane_hold(struct rcmi_plane *plane, struct rcmi_blob *blob) {
    plane->offer = *blob;
    plane->held = true;
    blob->nfds = 0; /* the plane's now */
    (void)plane_look(plane);
}

static void plane_patience_ends(void *arg) {
    struct rcmi_plane *plane = arg;
    if (plane->state != RCMI_PLANE_SETUP || plane->ready)
        return;
    (void)rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "it was not ready within %.0f s",
                    (double)plane->link->node->peer_timeout_ms / 1e3);
    rcmi_setup_decline(plane);
}

void rcmi_plane_offered(struct rcmi_plane *plane) {
    struct rcmi_node *node = plane->link->node;
    plane->timer = (struct rcmi_timer){.fire = plane_patience_ends, .arg = plane};
    rcmi_loop_timer(node->loop, &plane->timer, rcmi_deadline_in(node->peer_timeout_ms));
}

void rcmi_plane_decided(struct rcmi_plane *plane) {
    rcmi_loop_timer_stop(plane->link->node->loop, &plane->timer);
    plane_drop_offer(plane);
    rcmi_channels_link_up(plane->link);
    rcmi_node_ring(plane->link->node);
}

/* ---- All of a link --------------------------------------------------------------------------- */

void rcmi_planes_init(struct rcmi_link *link) {
    for (int i = 0; i < RCMI_MEM_KINDS; i++)
        link->planes[i] = (struct rcmi_plane){.link = link, .kind = (enum rcmi_mem_kind)i};
}

void rcmi_planes_check(struct rcmi_link *link) {
    for (int i = 0; i < RCMI_MEM_KINDS; i++)
        rcmi_setup_check(&link->planes[i]);
}

bool rcmi_planes_flushed(const struct rcmi_link *link) {
    bool flushed = true;
    for (int i = 0; i < RCMI_MEM_KINDS; i++) {
        const struct rcmi_plane *plane = &link->planes[i];
        if (plane->state == RCMI_PLANE_UP && !plane->domain->transport->link_flushed(plane->data))
            flushed = false;
    }
    return flushed;
}

bool rcmi_planes_progress(const struct rcmi_link *link) {
    bool any = false;
    for (int i = 0; i < RCMI_MEM_KINDS; i++) {
        const struct rcmi_plane *plane = &link->planes[i];
        if (plane->state == RCMI_PLANE_UP &&
            plane->domain->transport->progress(plane->domain->data))
            any = true;
    }
    return any;
}

void rcmi_planes_down(struct rcmi_link *link) {
    for (int i = 0; i < RCMI_MEM_KINDS; i++) {
        struct rcmi_plane *plane = &link->planes[i];
        if (plane->data)
            plane->domain->transport->link_down(plane->data);
        plane->state = RCMI_PLANE_OVER;
        rcmi_loop_timer_stop(link->node->loop, &plane->timer);
        plane_drop_offer(plane);
    }
}

void rcmi_plane_free(struct rcmi_plane *plane) {
    if (plane->data) {
        plane->domain->transport->link_down(plane->data);
        plane->domain->transport->link_fini(plane->data);
    }
    free(plane->data);
    plane->data = NULL;
}

void rcmi_planes_free(struct rcmi_link *link) {
    rcmi_planes_down(link);
    for (int i = 0; i < RCMI_MEM_KINDS; i++)
        rcmi_plane_free(&link->planes[i]);
}
