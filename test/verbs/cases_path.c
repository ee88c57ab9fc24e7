/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The path of a link: LIDs, service levels and partitions of InfiniBand, addresses and traffic
 * classes of RoCE, from the settings. The fake devices reject what real ones would.
 */
#include <stdlib.h>
#include <string.h>
#include "../transport/harness.h"
#include "cases.h"
#include "transport.h"

static const struct provider_setup infiniband = {
    .seed = 8, .devices = 2, .inline_max = 220, .layer = IBV_LINK_LAYER_INFINIBAND};

/* Side a has fake0 with settings_a, side b fake1 with settings_b; NULL: none. by: the transport of
 * their link. */
static void linked(const char *const settings_a[2], const char *const settings_b[2],
                   const char *by) {
    const struct setup setup = {.transports = "verbs,tcp"};
    struct world *world = world_new();
    struct side sides[2];
    struct provider_path path;
    limit_ms(10000);
    for (int i = 0; i < 2; i++) {
        const char *const *settings = i ? settings_b : settings_a;
        setenv("RINGCOMM_VERBS_DEVICES", i ? "fake1" : "fake0", 1);
        if (settings)
            setenv(settings[0], settings[1], 1);
        side_create(&sides[i], world, i, &setup);
        if (settings)
            unsetenv(settings[0]);
    }
    unsetenv("RINGCOMM_VERBS_DEVICES");
    for (int i = 0; i < 2; i++)
        side_start(&sides[i]);
    side_send(&sides[0], 1);
    while (!rcmi_node_transport(sides[0].node, 1)[0] || !rcmi_node_transport(sides[1].node, 0)[0])
        nap();
    CHECK_EQ(strcmp(rcmi_node_transport(sides[0].node, 1), by), 0);
    CHECK_EQ(provider_path(0, &path), strcmp(by, "verbs") == 0);
    for (int i = 0; i < 2; i++)
        side_destroy(&sides[i]);
    world_free(world);
}

/* Links two ranks with the same setting on both sides; returns the path of fake0's queue pair. */
static struct provider_path path_with(const char *name, const char *value) {
    struct provider_path path = {.lid = 0};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    limit_ms(10000);
    setenv(name, value, 1);
    pair_open(&pair, &(struct setup){.transports = "verbs"});
    unsetenv(name);
    pair_channel(&pair, 1, &writer, &reader);
    CHECK(provider_path(0, &path));
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
    return path;
}

/* Ranks 0 and 1 are linked through fake0 and fake1 if the settings are equal. */
void case_path_infiniband(void **state) {
    (void)state;
    provider_install(&infiniband);
    struct provider_path path = path_with("RINGCOMM_VERBS_SL", "5");
    CHECK_EQ(path.lid, 0x11);
    CHECK_EQ(path.sl, 5);
    CHECK_EQ(path.pkey, 0xffff);
    CHECK(!path.is_global);
    path = path_with("RINGCOMM_VERBS_PKEY", "32773"); /* 0x8005 */
    CHECK_EQ(path.pkey, 0x8005);
    CHECK_EQ(path.sl, 0);
    provider_remove();
}

void case_path_roce(void **state) {
    (void)state;
    provider_install(&two_devices);
    struct provider_path path = path_with("RINGCOMM_VERBS_TRAFFIC_CLASS", "106");
    CHECK_EQ(path.traffic_class, 106);
    CHECK(path.is_global);
    path = path_with("RINGCOMM_VERBS_SL", "3");
    CHECK_EQ(path.sl, 3);
    CHECK_EQ(path.lid, 0);
    provider_remove();
}

/* Ranks in different partitions, or both limited members of one, cannot reach each other: the next
 * transport is used. */
static void partitions(int i) {
    static const char *const five[] = {"RINGCOMM_VERBS_PKEY", "5"};
    static const char *const seven[] = {"RINGCOMM_VERBS_PKEY", "7"};
    static const char *const nine[] = {"RINGCOMM_VERBS_PKEY", "9"};
    const struct {
        const char *const *a, *const *b;
        const char *by;
    } ranks[] = {{five, five, "verbs"},
                 {five, NULL, "tcp"},
                 {seven, seven, "tcp"},
                 {five, nine, "tcp"}}; /* no partition with that number */
    provider_install(&infiniband);
    linked(ranks[i].a, ranks[i].b, ranks[i].by);
    provider_remove();
}

void case_partitions(void **state) {
    (void)state;
    limit_ms(20000);
    setenv("RINGCOMM_PEER_TIMEOUT", "1", 1);
    children_run(4, partitions);
    unsetenv("RINGCOMM_PEER_TIMEOUT");
}
