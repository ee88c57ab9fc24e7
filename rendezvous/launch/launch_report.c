/* SPDX-License-Identifier: BSD-3-Clause */
/* rcm_launch_at: reports the values that launch.c resolves and their sources. Opens nothing. */
#include <stdio.h>
#include <string.h>
#include "entry.h"
#include "error.h"
#include "launcher.h"
#include "rendezvous.h"

#define ITEMS 6

/* The URL without rank and size, which are separate items. */
static void url_write(const struct rcmi_launch *launch, char *text, size_t cap) {
    const char *url = launch->url ? launch->url : launch->meeting ? launch->meeting : "";
    snprintf(text, cap, "%.*s", (int)strcspn(url, "?"), url);
}

/* The items that are not numbers. */
static void text_write(const struct rcmi_launch *launch, bool is_url, char *text, size_t cap) {
    if (is_url)
        url_write(launch, text, cap);
    else
        snprintf(text, cap, "%s", launch->job_id);
}

static void item_fill(const struct rcmi_launch *launch, size_t i, char *text, size_t cap,
                      struct rcm_launch_item *ret_item) {
    const struct {
        const char *name, *from;
        int value;
    } numbers[] = {
        {"rank", launch->from.rank, launch->rank},
        {"world_size", launch->from.size, launch->world_size},
        {"local_rank", launch->from.local_rank, launch->local_rank},
        {"local_world_size", launch->from.local_size, launch->local_size},
    };
    const size_t nnumbers = sizeof numbers / sizeof numbers[0];
    const bool is_url = i == nnumbers;
    const char *from = i < nnumbers ? numbers[i].from
                       : is_url     ? launch->from.store
                                    : launch->from.job_id;
    text[0] = '\0';
    if (i >= nnumbers)
        text_write(launch, is_url, text, cap);
    else if (from)
        snprintf(text, cap, "%d", numbers[i].value);
    *ret_item = (struct rcm_launch_item){.name = i < nnumbers ? numbers[i].name
                                                 : is_url     ? "url"
                                                              : "job_id",
                                         .value = text,
                                         .origin = from ? from : "not set"};
}

rcm_status rcm_launch_at(size_t i, struct rcm_launch_item *ret_item) {
    RCMI_ENTRY;
    static _Thread_local char text[1100];
    struct rcmi_launch launch;
    if (!ret_item)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_item is NULL");
    if (i >= ITEMS)
        return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "there are %d items of the launch", ITEMS);
    rcm_status status = rcmi_launch_resolve(NULL, &launch);
    if (status != RCM_OK)
        return status;
    item_fill(&launch, i, text, sizeof text, ret_item);
    rcmi_launch_fini(&launch);
    return RCM_OK;
}
