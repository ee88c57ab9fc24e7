/* SPDX-License-Identifier: BSD-3-Clause */
/* A session of two ranks over the verbs backend: makes every call of devices. See cases.h. */
#include <stdlib.h>
#include <string.h>
#include "../transport/harness.h"
#include "cases.h"
#include "transport.h"

bool ranks_open(struct pair *pair, const char *transports) {
    const struct setup setup = {.transports = transports, .slots = 3};
    memset(pair, 0, sizeof *pair);
    pair->world = world_new();
    pair->a = &pair->sides[0];
    pair->b = &pair->sides[1];
    pair->other = 1;
    for (int i = 0; i < 2; i++) {
        const void *blob;
        size_t len;
        if (side_try(&pair->sides[i], pair->world, i, &setup) != RCM_OK) {
            CHECK(rcm_last_error()[0]);
            return false;
        }
        rcmi_node_address(pair->sides[i].node, &blob, &len);
        memcpy(pair->world->address[i].blob, blob, len);
        atomic_store(&pair->world->address[i].len, (uint32_t)len);
    }
    side_start(pair->a);
    side_start(pair->b);
    return true;
}

enum { LARGE = 4000 };

/* The memory of large messages: registers it unless end; if that fails, it is used unregistered. */
static uint8_t memory[2][LARGE];

static void memory_of(struct pair *pair, bool end) {
    for (int i = 0; i < 2; i++) {
        struct rcmi_node *node = pair->sides[i].node;
        if (!end)
            CHECK(rcmi_node_memory_register(node, memory[i], LARGE) == RCM_OK ||
                  rcm_last_error()[0]);
        else if (rcmi_node_memory_uses(node, memory[i], LARGE) == 1)
            CHECK_EQ(rcmi_node_memory_deregister(node, memory[i], LARGE), RCM_OK);
    }
}

static rcm_status put_zero_copy(struct pair *pair, struct rcmi_channel *writer, uint64_t number) {
    struct rcmi_mem mem;
    rcm_status status = rcmi_node_mem(pair->a->node, memory[0], LARGE, &mem);
    if (status == RCM_OK && !mem.registration)
        status = RCM_ERR_UNSUPPORTED;
    while (status == RCM_OK && !rcmi_channel_completed(writer, rcmi_channel_sent(writer))) {
        pair_drive(pair);
        status = rcmi_channel_state(writer);
    }
    if (status != RCM_OK)
        return status;
    fill(memory[0], LARGE, number);
    while ((status = rcmi_channel_send_zero_copy(writer, &mem, number, false)) == RCM_AGAIN)
        pair_drive(pair);
    return status;
}

static rcm_status put_slot(struct pair *pair, struct rcmi_channel *writer, size_t len,
                           uint64_t number) {
    void *bytes = NULL;
    rcm_status status;
    while ((status = reserve_slot(writer, &bytes)) == RCM_AGAIN)
        pair_drive(pair);
    if (status == RCM_OK) {
        fill(bytes, len, number);
        rcmi_channel_commit(writer, len, number);
    }
    return status;
}

bool exchange(struct pair *pair, struct rcmi_channel *writer, struct rcmi_channel *reader,
              uint64_t number) {
    const size_t len = number % 2 ? 100 : LARGE;
    struct rcmi_posted posted = {.ahead = 0};
    struct rcmi_slot slot = {0};
    rcm_status status = RCM_ERR_UNSUPPORTED;
    if (len == LARGE) {
        CHECK_EQ(rcmi_node_mem(pair->b->node, memory[1], LARGE, &posted.mem), RCM_OK);
        (void)rcmi_channel_post_receive(reader, &posted);
        if (number % 4)
            for (int i = 0; i < 20; i++)
                pair_drive(pair);
        status = put_zero_copy(pair, writer, number);
    }
    if (status == RCM_ERR_UNSUPPORTED)
        status = put_slot(pair, writer, len, number);
    if (status != RCM_OK)
        return false;
    while ((status = rcmi_channel_peek(reader, &slot)) == RCM_AGAIN)
        pair_drive(pair);
    if (status != RCM_OK)
        return false;
    CHECK_EQ(slot.meta, number);
    CHECK_EQ(slot.len, len);
    CHECK(filled(slot.bytes, len, number));
    rcmi_channel_release(reader);
    return true;
}

/* No memory for the channel; the link works. */
static bool refused(const struct rcmi_channel *channel) {
    return rcmi_channel_state(channel) == RCM_ERR_RESOURCE;
}

void live(const char *transports, int messages, char ret_by[16]) {
    struct pair pair;
    struct rcmi_channel *writer = NULL, *reader = NULL;
    const int readers[1] = {1};
    bool works = ranks_open(&pair, transports);
    ret_by[0] = '\0';
    if (works) {
        CHECK_EQ(rcmi_channel_open_writer(pair.a->node, 7, 1, readers, 1, &writer), RCM_OK);
        CHECK_EQ(rcmi_channel_open_reader(pair.b->node, 7, 1, 0, &reader), RCM_OK);
        memory_of(&pair, false);
        for (int device = 0; device < two_devices.devices; device++)
            provider_event(device, IBV_EVENT_GID_CHANGE);
        for (int i = 0; works && i < messages; i++) {
            works = exchange(&pair, writer, reader, (uint64_t)i);
            snprintf(ret_by, 16, "%s", works ? rcmi_node_transport(pair.a->node, 1) : "");
        }
        while (!works && !refused(writer) && !refused(reader) &&
               !(atomic_load(&pair.a->lost) && atomic_load(&pair.b->lost)))
            pair_drive(&pair);
        (void)rcmi_channel_post_receive(reader, NULL);
        memory_of(&pair, true);
        rcmi_channel_close(writer);
        rcmi_channel_close(reader);
    }
    side_destroy(pair.a);
    side_destroy(pair.b);
    world_free(pair.world);
}

/* All of the first calls, then ever fewer: most of the later ones come from the same place. */
static int next_number(int number) {
    return number < 12 ? number + 1 : number + number / 4;
}

void call_fails(const struct provider_setup *devices, enum provider_call call) {
    char by[16];
    bool reached = true;
    for (int number = 1; reached && number < 1000; number = next_number(number)) {
        limit_ms(10000);
        provider_install(devices);
        provider_fail_call(call, number);
        live("verbs,tcp", 12, by);
        reached = provider_calls(call) >= number;
        provider_remove();
        CHECK(reached || number > 1);
    }
}
