/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank dies without a farewell while registered memory of both sides is read and written: the
 * survivor gets its name, owns its memory again, and the devices keep nothing (provider_remove
 * checks that). Destroying a node without a farewell does what the kernel does for a killed
 * process: connections and queue pairs end. Tests that kill processes are in test/rdma-vm/.
 */
#include <stdlib.h>
#include <string.h>
#include "../transport/harness.h"
#include "cases.h"
#include "transport.h"

enum { SLOT = 8192, SLOTS = 4, MOMENTS = 12 };

static uint8_t *memory_of(const struct side *side) {
    uint8_t *memory = malloc((size_t)SLOTS * SLOT);
    CHECK(memory && rcmi_node_memory_register(side->node, memory, (size_t)SLOTS * SLOT) == RCM_OK);
    return memory;
}

/* Posts messages as long as slots, from registered memory to registered memory. */
static void transfers_begin(struct pair *pair, struct rcmi_channel *writer,
                            struct rcmi_channel *reader, uint8_t *from, uint8_t *to) {
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct rcmi_posted posted = {.ahead = i};
        CHECK_EQ(rcmi_node_mem(pair->b->node, to + (size_t)i * SLOT, SLOT, &posted.mem), RCM_OK);
        CHECK(rcmi_channel_post_receive(reader, &posted));
    }
    while (!provider_idle())
        pair_drive(pair);
    provider_hold(true);
    for (uint64_t i = 0; i < SLOTS; i++) {
        struct rcmi_mem mem;
        CHECK_EQ(rcmi_node_mem(pair->a->node, from + i * SLOT, SLOT, &mem), RCM_OK);
        CHECK_EQ(rcmi_channel_send_zero_copy(writer, &mem, i, false), RCM_OK);
    }
}

static void dies(struct side *side, struct rcmi_channel *channel) {
    rcmi_channel_close(channel);
    side_destroy(side);
}

static void survives(struct side *side, struct rcmi_channel *channel, uint8_t *memory, int dead) {
    char name[20];
    snprintf(name, sizeof name, "rank %d", dead);
    while (!atomic_load(&side->lost))
        nap();
    CHECK_EQ(atomic_load(&side->lost_status), RCM_ERR_PEER);
    CHECK(strstr(side->lost_text, name) != NULL);
    CHECK_EQ(rcmi_node_memory_deregister(side->node, memory, (size_t)SLOTS * SLOT), RCM_OK);
    memset(memory, 0xdd, (size_t)SLOTS * SLOT);
    rcmi_channel_close(channel);
    side_destroy(side);
    for (size_t i = 0; i < (size_t)SLOTS * SLOT; i++)
        CHECK_EQ(memory[i], 0xdd);
}

/* moment: how far the transfers have come when the rank dies. */
static void killed(bool writer_dies, uint32_t moment) {
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    struct provider_setup devices = two_devices;
    const struct setup setup = {.transports = "verbs", .slots = SLOTS, .slot_bytes = SLOT};
    devices.seed = moment + 1;
    limit_ms(10000);
    provider_install(&devices);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    uint8_t *from = memory_of(pair.a), *to = memory_of(pair.b);
    transfers_begin(&pair, writer, reader, from, to);
    if (moment > 0)
        provider_hold(false);
    for (uint32_t i = 1; i < moment; i++)
        pair_drive(&pair);
    dies(writer_dies ? pair.a : pair.b, writer_dies ? writer : reader);
    provider_hold(false);
    if (writer_dies)
        survives(pair.b, reader, to, 0);
    else
        survives(pair.a, writer, from, 1);
    world_free(pair.world);
    provider_remove();
    free(from);
    free(to);
}

void case_killed_in_flight(void **state) {
    (void)state;
    for (uint32_t moment = 0; moment < MOMENTS; moment++) {
        killed(true, moment);
        killed(false, moment);
    }
}
