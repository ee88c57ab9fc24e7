/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device of a rank, opened (transport/channel/rank_device.h): once threads find it open, and
 * register memory of it, the node has heard of it.
 */
#include "rank_device.h"
#include "../fakes/device/fake.h"
#include "ranks.h"
#include "transport.h"
#include <stdio.h>

static struct rcmi_rank_device own;
static int told, late;

/* In place of the node's. */
void rcmi_node_use_device(struct rcmi_node *node, struct rcmi_device *device) {
    (void)node;
    told += device != NULL;
    pthread_mutex_lock(&own.lock);
    late += own.device != NULL;
    pthread_mutex_unlock(&own.lock);
}

int main(void) {
    int errors = 0;
    fake_add(3);
    CHECK(errors, rcmi_rank_device_init(&own, "auto") == RCM_OK, "%s", rcm_last_error());
    own.node = (struct rcmi_node *)&own; /* anything */
    for (int i = 0; i < 2; i++)
        CHECK(errors,
              rcmi_rank_device_open(&own, rcmi_deadline_in(60000)) == RCM_OK && own.device != NULL,
              "%s", rcm_last_error());
    CHECK(errors, told == 1, "the node was told %d times", told);
    CHECK(errors, late == 0, "others found it open before the node was told");
    rcmi_rank_device_end(&own);
    return errors ? 1 : 0;
}
