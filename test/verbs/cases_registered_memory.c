/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory: sends from it, writes into it in place, and how that ends. */
#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "cases.h"
#include "../transport/harness.h"
#include "transport.h"

enum { SLOT = 8192, SLOTS = 4 };

static void devices_open(struct pair *pair, struct rcmi_channel **ret_writer,
                         struct rcmi_channel **ret_reader) {
    const struct setup setup = {.transports = "verbs", .slots = SLOTS, .slot_bytes = SLOT};
    provider_install(&two_devices);
    pair_open(pair, &setup);
    pair_channel(pair, 1, ret_writer, ret_reader);
}

static void devices_close(struct pair *pair, struct rcmi_channel *writer,
                          struct rcmi_channel *reader) {
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(pair);
    provider_remove();
}

static uint8_t *registered(const struct side *side, size_t len) {
    uint8_t *memory = malloc(len);
    CHECK(memory && rcmi_node_memory_register(side->node, memory, len) == RCM_OK);
    return memory;
}

static void registered_free(const struct side *side, uint8_t *memory, size_t len) {
    CHECK_EQ(rcmi_node_memory_deregister(side->node, memory, len), RCM_OK);
    memset(memory, 0xdd, len); /* a sanitizer reports late accesses */
    free(memory);
}

static bool posts(const struct side *side, struct rcmi_channel *reader, uint8_t *bytes, size_t len,
                  uint32_t ahead) {
    struct rcmi_posted posted = {.ahead = ahead};
    CHECK_EQ(rcmi_node_mem(side->node, bytes, len, &posted.mem), RCM_OK);
    return rcmi_channel_post_receive(reader, &posted);
}

/* Sends a message from that memory, filled with the message's pattern. */
static rcm_status sends_filled(const struct side *side, struct rcmi_channel *writer, uint8_t *bytes,
                               size_t len, uint64_t number) {
    struct rcmi_mem mem;
    CHECK_EQ(rcmi_node_mem(side->node, bytes, len, &mem), RCM_OK);
    return rcmi_channel_send_zero_copy(writer, &mem, number, false);
}

static rcm_status sends(const struct side *side, struct rcmi_channel *writer, uint8_t *bytes,
                        size_t len, uint64_t number) {
    fill(bytes, len, number);
    return sends_filled(side, writer, bytes, len, number);
}

static void sends_slot(struct pair *pair, struct rcmi_channel *writer, size_t len,
                       uint64_t number) {
    fill(side_reserve(pair->a, writer), len, number);
    rcmi_channel_commit(writer, len, number);
}

/* Checks the next message; returns its address. */
static const void *takes(struct pair *pair, struct rcmi_channel *reader, size_t len,
                         uint64_t number) {
    const struct rcmi_slot slot = side_peek(pair->b, reader);
    CHECK_EQ(slot.meta, number);
    CHECK_EQ(slot.len, len);
    CHECK(filled(slot.bytes, len, number));
    rcmi_channel_release(reader);
    return slot.bytes;
}

static void drive(struct pair *pair, int turns) {
    for (int i = 0; i < turns; i++)
        pair_drive(pair);
}

/* Delivers what one rank has sent, and the other's answers. */
static void settle(struct pair *pair) {
    for (int i = 0; i < 4; i++) {
        drive(pair, 50);
        while (!provider_idle())
            nap();
    }
    drive(pair, 50);
}

static void *go_on_later(void *arg) {
    (void)arg;
    for (int i = 0; i < 500; i++)
        nap();
    provider_hold(false);
    return NULL;
}

/* ---- In place -------------------------------------------------------------------------------- */

/* Memory registered at one end, at both or at none, in any mixture: a message posted in time is
 * written in place, all data is correct, and adjacent bytes are unchanged. */
void case_in_place(void **state) {
    (void)state;
    enum { ROUNDS = 400 };
    static const size_t lens[] = {SLOT, 5000, 2048, 129, 100, 0};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    uint32_t random = 5;
    int in_place = 0, from_place = 0;
    limit_ms(20000);
    devices_open(&pair, &writer, &reader);
    uint8_t *from = registered(pair.a, SLOT), *to = registered(pair.b, SLOT + 64);
    for (uint64_t number = 0; number < ROUNDS; number++) {
        const uint32_t drawn = random_next(&random);
        const size_t len = lens[drawn % 6], room = drawn % 7 == 0 ? len / 2 : len;
        memset(to, 0xa5, SLOT + 64);
        const bool posted = drawn % 3 && posts(pair.b, reader, to, room, 0);
        CHECK_EQ(posted, drawn % 3 && room > RCMI_TINY);
        settle(&pair); /* the writer receives the notice */
        const bool fits = posted && room == len;
        if (drawn / 8 % 2 && len > 0) {
            CHECK_EQ(sends(pair.a, writer, from, len, number), RCM_OK);
            from_place++;
        } else {
            sends_slot(&pair, writer, len, number);
        }
        const void *bytes = takes(&pair, reader, len, number);
        CHECK(bytes == to || !fits);
        CHECK(bytes != to || fits);
        CHECK(to[fits ? len : 0] == 0xa5);
        in_place += fits;
        while (!rcmi_channel_completed(writer, rcmi_channel_sent(writer)))
            pair_drive(&pair);
        memset(from, 0xee, SLOT);
    }
    CHECK(in_place > ROUNDS / 8 && from_place > ROUNDS / 4);
    registered_free(pair.a, from, SLOT);
    registered_free(pair.b, to, SLOT + 64);
    devices_close(&pair, writer, reader);
}

/* ---- Withdrawn ------------------------------------------------------------------------------- */

/* The writer's rank makes progress while the reader's rank waits for its answer. */
struct polling {
    struct rcmi_node *node;
    _Atomic bool stop;
};

static void *polling_run(void *arg) {
    struct polling *polling = arg;
    while (!atomic_load(&polling->stop))
        if (!rcmi_node_progress(polling->node))
            nap();
    return NULL;
}

static void withdraw_once(struct pair *pair, struct rcmi_channel *writer,
                          struct rcmi_channel *reader, uint64_t number) {
    uint8_t *to = registered(pair->b, 2 * SLOT);
    while (!posts(pair->b, reader, to, SLOT, 0)) /* a withdrawal may be pending */
        pair_drive(pair);
    if (number % 3)
        CHECK(posts(pair->b, reader, to + SLOT, SLOT, 1));
    drive(pair, (int)(number * 7 % 40));
    sends_slot(pair, writer, SLOT, number);
    if (number % 2)
        while (!rcmi_channel_completed(writer, rcmi_channel_sent(writer)))
            pair_drive(pair);
    if (number % 4 == 0)
        drive(pair, 200);
    CHECK(!rcmi_channel_post_receive(reader, NULL));
    registered_free(pair->b, to, 2 * SLOT);
    CHECK(takes(pair, reader, SLOT, number) != to);
}

/* At any time: nothing is written into the memory afterwards, and no message is lost, wherever it
 * was written. */
void case_withdrawn(void **state) {
    (void)state;
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    pthread_t thread;
    limit_ms(20000);
    devices_open(&pair, &writer, &reader);
    struct polling polling = {.node = pair.a->node};
    CHECK_EQ(pthread_create(&thread, NULL, polling_run, &polling), 0);
    for (uint64_t number = 0; number < 200; number++)
        withdraw_once(&pair, writer, reader, number);
    atomic_store(&polling.stop, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    withdraw_once(&pair, writer, reader, 4); /* only the writer's loop answers */
    CHECK_EQ(atomic_load(&pair.a->lost) + atomic_load(&pair.b->lost), 0);
    devices_close(&pair, writer, reader);
}

/* The writer does not answer, because it is unreachable: the link ends, and with it the pending
 * writes. */
static void withdrawn_cut(void) {
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    limit_ms(20000);
    setenv("RINGCOMM_PEER_TIMEOUT", "1", 1);
    devices_open(&pair, &writer, &reader);
    unsetenv("RINGCOMM_PEER_TIMEOUT");
    uint8_t *to = registered(pair.b, SLOT);
    CHECK(posts(pair.b, reader, to, SLOT, 0));
    settle(&pair);
    provider_cut(true);
    sends_slot(&pair, writer, SLOT, 0);
    CHECK(!rcmi_channel_post_receive(reader, NULL));
    registered_free(pair.b, to, SLOT);
    provider_cut(false);
    while (!atomic_load(&pair.b->lost))
        nap();
    devices_close(&pair, writer, reader);
}

/* Devices that stop working, with memory that is posted and announced to the writer. */
static uint8_t *held_post(struct pair *pair, const char *peer_timeout,
                          struct rcmi_channel **ret_writer, struct rcmi_channel **ret_reader) {
    limit_ms(20000);
    setenv("RINGCOMM_PEER_TIMEOUT", peer_timeout, 1);
    devices_open(pair, ret_writer, ret_reader);
    unsetenv("RINGCOMM_PEER_TIMEOUT");
    uint8_t *to = registered(pair->b, SLOT);
    CHECK(posts(pair->b, *ret_reader, to, SLOT, 0));
    settle(pair);
    provider_hold(true);
    return to;
}

/* A channel is closed on the loop's thread, which waits for no answer. The memory is released when
 * the writer has received the notice, not before: its pending writes have arrived by then. */
void case_withdrawn_by_loop(void **state) {
    (void)state;
    struct pair pair;
    struct rcmi_channel *writer, *reader, *second_writer, *second_reader;
    pthread_t later;
    uint8_t *to = held_post(&pair, "15", &writer, &reader);
    memset(to, 0, SLOT);
    sends_slot(&pair, writer, SLOT, 3);
    rcmi_channel_close(reader);
    rcmi_channel_close(writer); /* its close and the notice to it cross each other */
    CHECK_EQ(to[SLOT - 1], 0);
    CHECK_EQ(pthread_create(&later, NULL, go_on_later, NULL), 0);
    CHECK_EQ(rcmi_node_memory_deregister(pair.b->node, to, SLOT), RCM_OK);
    CHECK(filled(to, SLOT, 3));
    CHECK_EQ(pthread_join(later, NULL), 0);
    free(to);
    pair_channel(&pair, 2, &second_writer, &second_reader); /* the link works */
    sends_slot(&pair, second_writer, SLOT, 4);
    (void)takes(&pair, second_reader, SLOT, 4);
    CHECK_EQ(atomic_load(&pair.a->lost) + atomic_load(&pair.b->lost), 0);
    devices_close(&pair, second_writer, second_reader);
}

/* The writer is alive and does not answer: the reader waits as long as RINGCOMM_PEER_TIMEOUT. */
static void withdrawn_unheard(void) {
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    uint8_t *to = held_post(&pair, "1", &writer, &reader);
    CHECK(!rcmi_channel_post_receive(reader, NULL));
    CHECK(!posts(pair.b, reader, to, SLOT, 0));
    CHECK_EQ(atomic_load(&pair.b->lost), 0);
    registered_free(pair.b, to, SLOT);
    while (!atomic_load(&pair.b->lost))
        nap();
    CHECK(strstr(pair.b->lost_text,
                 "1000 ms after its deregistration began (RINGCOMM_PEER_TIMEOUT)"));
    provider_hold(false);
    devices_close(&pair, writer, reader);
}

static int queue_pairs(void) {
    return provider_queue_pairs(0) + provider_queue_pairs(1);
}

/* A queue pair that cannot be stopped may still write: the memory is released once it is
 * destroyed. */
static void withdrawn_unstopped(void) {
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    uint8_t *to = held_post(&pair, "1", &writer, &reader);
    sends_slot(&pair, writer, SLOT, 3);
    const int before = queue_pairs();
    provider_fail_call(PROVIDER_MODIFY_QP, 1);
    CHECK(!rcmi_channel_post_receive(reader, NULL));
    registered_free(pair.b, to, SLOT);
    CHECK(queue_pairs() < before);
    provider_hold(false);
    while (!atomic_load(&pair.b->lost))
        nap();
    devices_close(&pair, writer, reader);
}

static void withdrawn_in_vain(int i) {
    static void (*const run[])(void) = {withdrawn_cut, withdrawn_unheard, withdrawn_unstopped};
    run[i]();
}

/* All at the same time, since each waits for a second. */
void case_withdrawn_in_vain(void **state) {
    (void)state;
    limit_ms(20000);
    children_run(3, withdrawn_in_vain);
}

/* ---- Unregistered ---------------------------------------------------------------------------- */

/* Memory is deregistered before its messages have left: the call waits for them, and the link
 * works. */
void case_unregistered(void **state) {
    (void)state;
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    pthread_t later;
    limit_ms(20000);
    devices_open(&pair, &writer, &reader);
    for (int held = 0; held < 2; held++) {
        uint8_t *from = registered(pair.a, SLOT);
        provider_hold(held);
        fill(from, SLOT, 9);
        for (uint64_t number = 0; number < SLOTS; number++)
            CHECK_EQ(sends_filled(pair.a, writer, from, SLOT, 9), RCM_OK);
        CHECK_EQ(sends_filled(pair.a, writer, from, SLOT, 9), RCM_AGAIN);
        if (held)
            CHECK_EQ(pthread_create(&later, NULL, go_on_later, NULL), 0);
        registered_free(pair.a, from, SLOT);
        if (held)
            CHECK_EQ(pthread_join(later, NULL), 0);
        for (uint64_t number = 0; number < SLOTS; number++)
            (void)takes(&pair, reader, SLOT, 9);
        settle(&pair); /* its slots are free again */
    }
    CHECK_EQ(atomic_load(&pair.a->lost) + atomic_load(&pair.b->lost), 0);
    devices_close(&pair, writer, reader);
}

/* The system locks no more memory: registering returns an error, and rcm_mem_alloc continues
 * without. */
void case_no_room(void **state) {
    (void)state;
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    uint8_t mine[4096];
    void *block = NULL;
    limit_ms(20000);
    devices_open(&pair, &writer, &reader);
    for (int port = 1; port <= two_devices.devices; port++) {
        provider_fail_call(PROVIDER_REG_MR, port);
        CHECK_EQ(rcmi_node_memory_register(pair.a->node, mine, sizeof mine), RCM_ERR_RESOURCE);
        CHECK(strstr(rcm_last_error(), "4096 bytes cannot be registered with fake"));
        CHECK_EQ(rcmi_node_memory_uses(pair.a->node, mine, sizeof mine), 0);
        provider_fail_call(PROVIDER_REG_MR, port);
        CHECK_EQ(rcmi_node_memory_alloc(pair.a->node, NULL, SLOT, RCMI_NEVER, &block), RCM_OK);
        CHECK_EQ(sends(pair.a, writer, block, SLOT, 1), RCM_ERR_UNSUPPORTED);
        CHECK_EQ(rcmi_node_memory_free(pair.a->node, block, RCMI_NEVER), RCM_OK);
    }
    devices_close(&pair, writer, reader);
}
