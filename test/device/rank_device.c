/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening a rank's device (transport/channel/rank_device.h): the node gets the device before
 * threads find it open and register memory.
 */
#include "rank_device.h"
#include "../fakes/device/fake.h"
#include "ranks.h"
#include "transport.h"
#include <stdio.h>

static struct rcmi_rank_device own;
static int reports, late;

/* Replaces the node's function. */
void rcmi_node_use_device(struct rcmi_node *node, struct rcmi_device *device) {
    (void)node;
    reports += device != NULL;
    pthread_mutex_lock(&own.lock);
    late += own.device != NULL;
    pthread_mutex_unlock(&own.lock);
}

int main(void) {
    int errors = 0;
    fake_add(3);
    CHECK(errors, rcmi_rank_device_init(&own, "auto") == RCM_OK, "%s", rcm_last_error());
    own.node = (struct rcmi_node *)&own; /* any pointer */
    for (int i = 0; i < 2; i++)
        CHECK(errors,
              rcmi_rank_device_open(&own, rcmi_deadline_in(60000)) == RCM_OK && own.device != NULL,
              "%s", rcm_last_error());
    CHECK(errors, reports == 1, "the node got %d reports", reports);
    CHECK(errors, late == 0, "the device was open before the node got it");
    rcmi_rank_device_end(&own);
    return errors ? 1 : 0;
}
