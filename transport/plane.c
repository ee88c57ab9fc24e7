/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data planes of a link: one for each kind of memory. That of the host's the link comes up
 * with (setup.c).
 *
 * Not here: what both ends say until a plane is up (setup.c), which channels it carries
 * (opening.c).
 */
#include <stdlib.h>
#include "internal.h"

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
    for (int i = 0; i < RCMI_MEM_KINDS; i++)
        rcmi_plane_free(&link->planes[i]);
}
