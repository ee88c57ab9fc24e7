/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data planes of a link, one for each kind of memory, and the life of the device plane. The
 * link comes up with the host plane (setup.c).
 *
 *      NONE     no channel needs it, or this rank has no device yet: the peer's offer is held
 *      SETUP    both offer, then both accept; a transport may need time to be ready (setup.c)
 *      UP       channels of device memory that open from now on use it
 *      DECLINED no backend serves the pair, or it declined: such channels use the host plane, which
 *               is not involved
 *
 * UP and DECLINED are final. Therefore the writer of a channel chooses the plane and sends its
 * choice (opening.c).
 */
#include <stdlib.h>
#include <string.h>
#include "link.h"
#include "log.h"

/* ---- Choice of the backend ------------------------------------------------------------------- */

/* The first of this rank's backends of that kind that the peer has, too. */
static struct rcmi_domain *plane_find(const struct rcmi_plane *plane, const char *theirs) {
    struct rcmi_node *node = plane->link->node;
    for (int i = 0; i < node->ndomains; i++) {
        const struct rcmi_transport *backend = node->domains[i].transport;
        if (backend->kind == plane->kind && rcmi_list_has(theirs, backend->name))
            return &node->domains[i];
    }
    return NULL;
}

/* NULL unless both ranks share a host and their control stream can carry descriptors. */
static struct rcmi_domain *plane_domain(const struct rcmi_plane *plane) {
    const struct rcmi_link *link = plane->link;
    const struct rcmi_node_config *config = &link->node->config;
    struct rcmi_address_summary peer;
    const void *blob = NULL;
    size_t len = 0;
    if (!link->same_host || link->peer == config->rank ||
        config->lookup(config->arg, link->peer, &blob, &len) != RCM_OK ||
        rcmi_address_summary(blob, len, &peer) != RCM_OK ||
        strcmp(peer.host_id, config->host_id) != 0)
        return NULL;
    return plane_find(plane, peer.transports);
}

/* ---- Life ------------------------------------------------------------------------------------ */

/* No backend serves the pair. Usually both ends find that alone; if the peer made an offer, this
 * side sends a DECLINE. */
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
    (void)rcmi_setup_accept(plane, &plane->offer);
    rcmi_blob_close(&plane->offer);
}

bool rcmi_plane_look(struct rcmi_plane *plane) {
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

/* A rank whose device is already open starts the plane now, not at its first call with device
 * memory. */
void rcmi_plane_link_up(struct rcmi_link *link) {
    struct rcmi_plane *plane = &link->planes[RCMI_MEM_DEVICE];
    if (rcmi_node_device(link->node))
        plane->needed = true;
    (void)rcmi_plane_look(plane);
}
