/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events of devices: the links that an event ends, and their error texts. */
#include <string.h>
#include "../transport/harness.h"
#include "cases.h"
#include "transport.h"

static const struct provider_setup one_device = {.seed = 6, .devices = 1, .inline_max = 220};

static void message_goes(struct pair *pair, struct rcmi_channel *writer,
                         struct rcmi_channel *reader, uint64_t number) {
    (void)side_reserve(pair->a, writer);
    rcmi_channel_commit(writer, 2000, number);
    CHECK_EQ(side_peek(pair->b, reader).meta, number);
    rcmi_channel_release(reader);
}

/* text "": the link survives. Else both sides lose it at once, and the error of one contains the
 * text. unread: the first read of the event fails. */
static void event_does(enum ibv_event_type type, bool unread, const char *text) {
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    limit_ms(10000);
    provider_install(&one_device);
    pair_open(&pair, &(struct setup){.transports = "verbs"});
    pair_channel(&pair, 1, &writer, &reader);
    message_goes(&pair, writer, reader, 1);
    const int64_t began = rcmi_now_ns();
    provider_fail_call(PROVIDER_GET_ASYNC_EVENT, unread);
    provider_event(0, type);
    if (!text[0])
        message_goes(&pair, writer, reader, 2);
    while (text[0] && !(atomic_load(&pair.a->lost) && atomic_load(&pair.b->lost)))
        nap();
    if (text[0]) {
        bool found = false;
        for (int i = 0; i < 2; i++) {
            CHECK(rcmi_node_send(pair.sides[i].node, 1 - i, "x", 1) < 0);
            found = found || strstr(rcm_last_error(), text) != NULL;
        }
        CHECK(found);
        CHECK(rcmi_now_ns() - began < 2000000000LL * slowness());
    }
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    side_destroy(pair.a);
    side_destroy(pair.b);
    world_free(pair.world);
    provider_remove();
}

void case_events_end_links(void **state) {
    (void)state;
    event_does(IBV_EVENT_DEVICE_FATAL, false, "by fake0:1 failed: the device is broken");
    event_does(IBV_EVENT_CQ_ERR, false, "by fake0:1 failed: its completion queue is broken");
    event_does(IBV_EVENT_QP_FATAL, false, "by fake0:1 failed: the device gave up its queue pair");
    event_does(IBV_EVENT_QP_REQ_ERR, false, "sent what its queue pair does not take");
    event_does(IBV_EVENT_QP_ACCESS_ERR, false, "the other side wrote where it may not");
    event_does(IBV_EVENT_GID_CHANGE, true, "asynchronous events cannot be read");
}

void case_events_keep_links(void **state) {
    (void)state;
    static const enum ibv_event_type ignored[] = {IBV_EVENT_PORT_ERR,         IBV_EVENT_PORT_ACTIVE,
                                                  IBV_EVENT_LID_CHANGE,       IBV_EVENT_GID_CHANGE,
                                                  IBV_EVENT_SM_CHANGE,        IBV_EVENT_PKEY_CHANGE,
                                                  IBV_EVENT_CLIENT_REREGISTER};
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        event_does(ignored[i], false, "");
}
