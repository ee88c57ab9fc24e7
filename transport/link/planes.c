/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on all planes of a link; what follows once a plane is up or declined (device_plane.c).
 */
#include <stdlib.h>
#include "link.h"

const char *rcmi_plane_noun(const struct rcmi_plane *plane) {
    return plane->kind == RCMI_MEM_HOST ? "link" : "plane of device memory";
}

void rcmi_plane_drop_offer(struct rcmi_plane *plane) {
    if (plane->held)
        rcmi_blob_close(&plane->offer);
    plane->held = false;
}

void rcmi_plane_hold(struct rcmi_plane *plane, struct rcmi_blob *blob) {
    plane->offer = *blob;
    plane->held = true;
    blob->nfds = 0; /* the plane owns them now */
}

void rcmi_plane_decided(struct rcmi_plane *plane) {
    rcmi_loop_timer_stop(plane->link->node->loop, &plane->timer);
    rcmi_plane_drop_offer(plane);
    plane->link->node->link_above->link_up(plane->link);
    rcmi_node_ring(plane->link->node);
}

void rcmi_planes_init(struct rcmi_link *link) {
    for (int i = 0; i < RCMI_MEM_KINDS; i++)
        link->planes[i] = (struct rcmi_plane){.link = link, .kind = (enum rcmi_mem_kind)i};
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
        rcmi_plane_drop_offer(plane);
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
