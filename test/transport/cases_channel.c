/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels between two nodes of this process (or from one to itself), driven by one thread. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "cases.h"
#include "harness.h"
#include "payload.h"
#include "backend.h"

static const size_t sizes[] = {0,  1,   39,  40,  41,  48,   63,   64,      65,
                               87, 104, 105, 128, 129, 1000, 4095, SIZE_MAX};
#define NSIZES (sizeof sizes / sizeof sizes[0])

/* SIZE_MAX stands for a full slot. */
static size_t size_of(const struct rcmi_channel *channel, size_t i) {
    size_t size = sizes[i % NSIZES];
    return size > channel->slot_bytes ? channel->slot_bytes : size;
}

static void put(struct pair *pair, struct rcmi_channel *writer, size_t len, uint64_t number) {
    void *slot = NULL;
    rcm_status status;
    while ((status = reserve_slot(writer, &slot)) == RCM_AGAIN)
        pair_drive(pair);
    CHECK_EQ(status, RCM_OK);
    payload_fill(writer->node, slot, len, number);
    rcmi_channel_commit(writer, len, number * 0x9e3779b97f4a7c15u);
}

static struct rcmi_slot look(struct pair *pair, struct rcmi_channel *reader) {
    struct rcmi_slot slot = {0};
    rcm_status status;
    while ((status = rcmi_channel_peek(reader, &slot)) == RCM_AGAIN)
        pair_drive(pair);
    CHECK_EQ(status, RCM_OK);
    return slot;
}

static void take(struct pair *pair, struct rcmi_channel *reader, size_t len, uint64_t number) {
    struct rcmi_slot slot = look(pair, reader);
    CHECK_EQ(slot.len, len);
    CHECK(slot.meta == number * 0x9e3779b97f4a7c15u);
    CHECK(payload_filled(reader->node, slot.bytes, len, number));
    rcmi_channel_release(reader);
}

/* Makes progress for a while in which nothing may change. */
static void drive_some(struct pair *pair) {
    for (int i = 0; i < 200; i++)
        pair_drive(pair);
}

static void sizes_check(size_t slot_bytes, uint32_t slots) {
    struct setup setup = {.slot_bytes = slot_bytes, .slots = slots};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    uint64_t put_number = 0, take_number = 0;
    limit_ms(30000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    for (uint32_t outstanding = 1; outstanding <= slots; outstanding++)
        for (size_t i = 0; i < NSIZES; i++) {
            for (uint32_t k = 0; k < outstanding; k++, put_number++)
                put(&pair, writer, size_of(writer, put_number), put_number);
            for (uint32_t k = 0; k < outstanding; k++, take_number++)
                take(&pair, reader, size_of(reader, take_number), take_number);
        }
    struct rcmi_slot slot;
    CHECK_EQ(rcmi_channel_peek(reader, &slot), RCM_AGAIN);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
}

void case_sizes_small_slots(void **state) {
    (void)state;
    sizes_check(4096, 4);
    sizes_check(4096, 1);
}

void case_sizes_large_slots(void **state) {
    (void)state;
    sizes_check(131072, 4);
    sizes_check(131072, 8);
}

/* The slots of a bulk channel have the size that its transport declares, at both ends, and are
 * usable to the last byte. */
void case_bulk(void **state) {
    (void)state;
    struct setup setup = {.slot_bytes = 4096, .slots = 3};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    limit_ms(10000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1 | RCMI_ID_BULK, &writer, &reader);
    const size_t bulk = writer->transport->bulk_scale, scale = row_scale();
    const size_t len = 4096 * (bulk > scale ? bulk : scale);
    CHECK_EQ(writer->slot_bytes, len);
    CHECK_EQ(reader->slot_bytes, len);
    CHECK_EQ(rcmi_node_bulk_bytes(writer->node), 4096 * bulk);
    const size_t counted = 3 * (writer->transport->pinned_slots ? len : 4096),
                 memory = rcmi_node_slot_memory(writer->node, writer->epoch);
    CHECK(memory == counted || (test_self && memory == 2 * counted));
    for (uint64_t number = 0; number < 12; number += 3) {
        for (uint64_t k = 0; k < 3; k++)
            put(&pair, writer, k == 1 ? 1 : len, number + k);
        for (uint64_t k = 0; k < 3; k++)
            take(&pair, reader, k == 1 ? 1 : len, number + k);
    }
    rcmi_channel_close(reader);
    rcmi_channel_close(writer);
    pair_close(&pair);
}

void case_reserve_again(void **state) {
    (void)state;
    struct setup setup = {0};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    limit_ms(10000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    for (uint64_t number = 0; number < 20; number++) {
        void *first = NULL, *second = NULL;
        while (reserve_slot(writer, &first) == RCM_AGAIN)
            pair_drive(&pair);
        payload_fill(writer->node, first, 64, number);
        pair_drive(&pair);
        CHECK_EQ(reserve_slot(writer, &second), RCM_OK);
        CHECK(first == second);
        rcmi_channel_commit(writer, 64, number * 0x9e3779b97f4a7c15u);
        take(&pair, reader, 64, number);
    }
    rcmi_channel_close(reader);
    rcmi_channel_close(writer);
    pair_close(&pair);
}

void case_full(void **state) {
    (void)state;
    struct setup setup = {.slots = 3};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    limit_ms(10000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    for (uint64_t number = 0; number < 3; number++)
        put(&pair, writer, 4096, number);
    void *slot = &pair;
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(reserve_slot(writer, &slot), RCM_AGAIN);
        pair_drive(&pair);
    }
    CHECK(slot == &pair);
    for (uint64_t number = 0; number < 3; number++)
        take(&pair, reader, 4096, number);
    put(&pair, writer, 1, 3);
    take(&pair, reader, 1, 3);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
}

/* After the reader released everything, all slots are available again, every time. */
void case_credit_in_time(void **state) {
    (void)state;
    struct setup setup = {.slots = 5};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    uint64_t put_number = 0, take_number = 0;
    limit_ms(10000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    for (int round = 0; round < 60; round++) {
        int first = round % 5;
        for (int k = 0; k < first; k++, put_number++)
            put(&pair, writer, 8, put_number);
        for (int k = 0; k < first; k++, take_number++)
            take(&pair, reader, 8, take_number);
        for (int k = 0; k < 5; k++, put_number++)
            put(&pair, writer, 8, put_number);
        for (int k = 0; k < 5; k++, take_number++)
            take(&pair, reader, 8, take_number);
    }
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
}

void case_unread(void **state) {
    (void)state;
    struct setup setup = {.slot_bytes = 131072, .slots = 8};
    struct pair pair;
    struct rcmi_channel *full_writer, *full_reader, *writer, *reader;
    limit_ms(20000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &full_writer, &full_reader);
    pair_channel(&pair, 2, &writer, &reader);
    for (uint64_t number = 0; number < 8; number++)
        put(&pair, full_writer, 131072, number);
    for (uint64_t number = 0; number < 200; number++) {
        put(&pair, writer, 5000, number);
        take(&pair, reader, 5000, number);
    }
    side_send(pair.a, pair.other);
    side_send(pair.b, 0);
    while (!atomic_load(&pair.a->received[pair.other]) || !atomic_load(&pair.b->received[0]))
        pair_drive(&pair);
    for (uint64_t number = 0; number < 8; number++)
        take(&pair, full_reader, 131072, number);
    CHECK_EQ(atomic_load(&pair.b->bad), 0);
    rcmi_channel_close(full_writer);
    rcmi_channel_close(writer);
    rcmi_channel_close(full_reader);
    rcmi_channel_close(reader);
    pair_close(&pair);
}

/* Messages in flight in case_ahead: their lengths and addresses. */
struct ahead {
    size_t len[256];
    uint8_t *slot[256];
    uint64_t put, taken;
};

static void ahead_put(struct rcmi_channel *writer, struct ahead *ahead, size_t len) {
    void *slot = NULL;
    const rcm_status status = reserve_bytes(writer, len, &slot);
    if (status == RCM_AGAIN)
        return;
    CHECK_EQ(status, RCM_OK);
    ahead->len[ahead->put % 256] = len;
    ahead->slot[ahead->put % 256] = slot;
    payload_fill(writer->node, slot, len, ahead->put);
    rcmi_channel_commit(writer, len, ahead->put++ * 0x9e3779b97f4a7c15u);
}

/* Takes a message and stores the result in `ahead`. */
static void ahead_take(struct pair *pair, struct rcmi_channel *reader, struct ahead *ahead) {
    const uint64_t number = ahead->taken++;
    const size_t len = ahead->len[number % 256];
    const struct rcmi_slot slot = look(pair, reader);
    CHECK_EQ(slot.len, len);
    CHECK(payload_filled(reader->node, slot.bytes, len, number));
    CHECK(!slot.reply || len > RCMI_TINY);
    CHECK(slot.reply || len <= RCMI_TINY || strcmp(reader->transport->name, "shm") != 0);
    if (slot.reply)
        fill(slot.reply, len, ~number);
    CHECK(slot.meta == number * 0x9e3779b97f4a7c15u);
    rcmi_channel_release(reader);
    CHECK(!slot.reply || filled(ahead->slot[number % 256], len, ~number));
}

/* As many messages in flight as possible, of all sizes: where slots are shared, more tiny messages
 * than slots. */
void case_ahead(void **state) {
    (void)state;
    struct setup setup = {.slots = 3};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    struct ahead ahead = {.put = 0};
    uint32_t random = 77;
    uint64_t most = 0;
    limit_ms(20000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    for (int round = 0; round < 300; round++) {
        const bool tiny = random_next(&random) % 3 == 0;
        for (uint32_t n = random_next(&random) % 100; n > 0; n--)
            ahead_put(writer, &ahead,
                      random_next(&random) % (tiny ? RCMI_TINY + 1 : writer->slot_bytes + 1));
        most = ahead.put - ahead.taken > most ? ahead.put - ahead.taken : most;
        for (uint32_t n = random_next(&random) % 100; n > 0 && ahead.taken < ahead.put; n--)
            ahead_take(&pair, reader, &ahead);
    }
    while (ahead.taken < ahead.put)
        ahead_take(&pair, reader, &ahead);
    CHECK(most > 3 || !writer->transport->shared_slots);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
}

/* ---- Taken ---- */

/* A released message counts as taken. One that is not released does not, where the transport tracks
 * that. */
void case_taken(void **state) {
    (void)state;
    struct setup setup = {.slots = 4};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    limit_ms(20000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    const bool known = writer->transport->taken != rcmi_always_taken;
    CHECK(rcmi_channel_taken(writer, 0));
    for (uint64_t number = 0; number < 20; number += 2) {
        put(&pair, writer, 100, number);
        put(&pair, writer, 4000, number + 1);
        CHECK_EQ(rcmi_channel_sent(writer), number + 2);
        CHECK(rcmi_channel_taken(writer, number));
        CHECK(!known || !rcmi_channel_taken(writer, number + 1));
        take(&pair, reader, 100, number);
        while (!rcmi_channel_taken(writer, number + 1))
            pair_drive(&pair);
        CHECK(!known || !rcmi_channel_taken(writer, number + 2));
        take(&pair, reader, 4000, number + 1);
        while (!rcmi_channel_taken(writer, number + 2))
            pair_drive(&pair);
    }
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
}

/* Registers memory at the channel's side; some backends need that. */
static void registered(const struct rcmi_channel *channel, void *bytes, size_t len) {
    CHECK_EQ(rcmi_node_memory_register(channel->node, bytes, len), RCM_OK);
}

static void registered_end(const struct rcmi_channel *channel, const void *bytes, size_t len) {
    CHECK_EQ(rcmi_node_memory_deregister(channel->node, bytes, len), RCM_OK);
}

/* ---- Zero-copy ------------------------------------------------------------------------------- */

static bool sends(struct pair *pair, struct rcmi_channel *writer, const void *bytes, size_t len,
                  uint64_t number) {
    rcm_status status;
    while ((status = zero_copy(writer, bytes, len, number * 0x9e3779b97f4a7c15u, false)) ==
           RCM_AGAIN)
        pair_drive(pair);
    if (status != RCM_ERR_UNSUPPORTED)
        CHECK_EQ(status, RCM_OK);
    return status == RCM_OK;
}

void case_zero_copy(void **state) {
    (void)state;
    struct setup setup = {.slot_bytes = 131072};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    limit_ms(20000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    void *bytes = payload_alloc(writer->node, writer->slot_bytes);
    registered(writer, bytes, writer->slot_bytes);
    CHECK(rcmi_channel_completed(writer, rcmi_channel_sent(writer)));
    for (uint64_t number = 0; number < 100; number++) {
        size_t len = size_of(writer, number);
        payload_fill(writer->node, bytes, len, number);
        if (!sends(&pair, writer, bytes, len, number))
            put(&pair, writer, len, number);
        take(&pair, reader, len, number);
        while (!rcmi_channel_completed(writer, rcmi_channel_sent(writer)))
            pair_drive(&pair);
        payload_fill(writer->node, bytes, writer->slot_bytes, ~number);
    }
    registered_end(writer, bytes, writer->slot_bytes);
    payload_free(writer->node, bytes);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
}

/* Memory that the CPU must not access and that is not of the backend's kind: no backend sends from
 * it, receives into it or gets from it. */
void case_other_kind(void **state) {
    (void)state;
    struct setup setup = {.slot_bytes = 131072};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    bool moved = false;
    limit_ms(20000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    put(&pair, writer, 65536, 0);
    take(&pair, reader, 65536, 0);
    struct rcmi_mem other =
        rcmi_mem_host(mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 65536);
    other.kind = rcmi_channel_kind(writer) == RCMI_MEM_HOST ? RCMI_MEM_DEVICE : RCMI_MEM_HOST;
    const struct rcmi_posted posted = {.mem = other};
    CHECK_EQ(rcmi_channel_send_zero_copy(writer, &other, 1, false), RCM_ERR_UNSUPPORTED);
    CHECK_EQ(rcmi_channel_send_zero_copy(writer, &other, 1, true), RCM_ERR_UNSUPPORTED);
    CHECK(!rcmi_channel_post_receive(reader, &posted));
    CHECK_EQ(rcmi_channel_get(reader, &other, 4096, false, &moved), RCM_ERR_UNSUPPORTED);
    CHECK(!moved);
    for (uint64_t number = 1; number < 4; number++) {
        put(&pair, writer, 65536, number);
        take(&pair, reader, 65536, number);
    }
    munmap(other.bytes, 65536);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
}

/* Zero-copy and reserved messages in any mixture. */
void case_zero_copy_mixed(void **state) {
    (void)state;
    enum { BYTES = 512 };
    struct setup setup = {.slots = 3};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    uint64_t put_number = 0, take_number = 0;
    uint32_t random = 8;
    limit_ms(20000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    char *bytes = payload_alloc(writer->node, 3 * BYTES);
    registered(writer, bytes, 3 * BYTES);
    for (int round = 0; round < 100; round++) {
        bool whole[3];
        for (int i = 0; i < 3; i++, put_number++) {
            payload_fill(writer->node, bytes + i * BYTES, BYTES, put_number);
            whole[i] = random_next(&random) % 2 &&
                       sends(&pair, writer, bytes + i * BYTES, BYTES, put_number);
            if (!whole[i])
                put(&pair, writer, 100, put_number);
        }
        for (int i = 0; i < 3; i++, take_number++)
            take(&pair, reader, whole[i] ? BYTES : 100, take_number);
        while (!rcmi_channel_completed(writer, rcmi_channel_sent(writer)))
            pair_drive(&pair);
    }
    registered_end(writer, bytes, 3 * BYTES);
    payload_free(writer->node, bytes);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
}

/* A message as long as a slot larger than the limit of a get, in memory that readers map. Only for
 * backends that map memory; others would allocate such slots for nothing. */
void case_zero_copy_long(void **state) {
    (void)state;
    enum { BYTES = RCMI_GET_MAX + 64 };
    struct setup setup = {.slots = 2, .slot_bytes = BYTES};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    void *bytes = NULL;
    if (!transport_row()->same_host)
        return;
    limit_ms(20000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    CHECK_EQ(rcmi_node_memory_alloc(pair.a->node, NULL, BYTES, RCMI_NEVER, &bytes), RCM_OK);
    fill(bytes, BYTES, 1);
    CHECK(sends(&pair, writer, bytes, BYTES, 1));
    take(&pair, reader, BYTES, 1);
    put(&pair, writer, BYTES, 2);
    take(&pair, reader, BYTES, 2);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    CHECK_EQ(rcmi_node_memory_free(pair.a->node, bytes, RCMI_NEVER), RCM_OK);
    pair_close(&pair);
}

/* ---- Get ----------------------------------------------------------------------------------- */

/* How the writer helps: not at all, one piece per piece of the reader, or as many as possible. */
enum helps { HELPS_NOT, HELPS_TOO, HELPS_MOST, HELPS };

/* Gets a vector; returns the number of pieces that the writer copied. */
static int get_together(struct rcmi_channel *writer, struct rcmi_channel *reader, uint8_t *place,
                        const uint8_t *from, size_t len, bool helped, enum helps how) {
    rcm_status status;
    int helps = 0;
    do {
        bool moved = false;
        status = get(reader, place, (uint64_t)(uintptr_t)from, len, helped, &moved);
        while (how != HELPS_NOT && rcmi_channel_help(writer)) {
            helps++;
            if (how == HELPS_TOO)
                break;
        }
    } while (status == RCM_AGAIN);
    CHECK_EQ(status, RCM_OK);
    CHECK(!rcmi_channel_help(writer));
    return helps;
}

/* A get reads any bytes of the writer; none at length 0, and none once the writer has closed. */
void case_get(void **state) {
    (void)state;
    enum { BYTES = 300000 };
    struct setup setup = {.slots = 3};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    uint8_t *there = malloc(BYTES), *here = malloc(BYTES);
    bool moved = false;
    limit_ms(20000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    const uint64_t from = (uint64_t)(uintptr_t)there;
    const bool can = strstr(writer->transport->name, "shm") != NULL;
    CHECK_EQ(get(reader, here, from, 1, false, &moved), can ? RCM_OK : RCM_ERR_UNSUPPORTED);
    CHECK_EQ(moved, can);
    for (uint64_t number = 0; can && number < 60; number++) {
        const size_t len = (number * 7919 + 1) % BYTES, at = (BYTES - len) / 3;
        fill(there, BYTES, number);
        memset(here, 0xee, BYTES);
        CHECK_EQ(get_together(writer, reader, here, there + at, len, false, HELPS_NOT), 0);
        CHECK(memcmp(here, there + at, len) == 0);
        CHECK(here[len] == 0xee);
    }
    if (can) {
        CHECK_EQ(get(reader, here, 64, 5000, false, &moved), RCM_ERR_UNSUPPORTED);
        CHECK_EQ(get(reader, here, from, 5000, false, &moved), RCM_OK);
        rcmi_channel_close(writer);
        rcm_status status = get(reader, here, from, 5000, false, &moved);
        CHECK(status == RCM_AGAIN || status < 0);
    } else {
        rcmi_channel_close(writer);
    }
    free(there);
    free(here);
    rcmi_channel_close(reader);
    pair_close(&pair);
}

/* All bytes arrive whoever copies them, and adjacent bytes are unchanged. Once the reader has
 * closed its end, the writer no longer writes to the reader's memory. */
void case_help(void **state) {
    (void)state;
    enum { BYTES = 3000000 };
    struct setup setup = {.slots = 3};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    uint8_t *there = malloc(BYTES), *here = malloc(BYTES);
    bool moved = false;
    limit_ms(20000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    const uint64_t from = (uint64_t)(uintptr_t)there;
    const bool can = strstr(writer->transport->name, "shm") != NULL;
    fill(there, BYTES, 1);
    for (uint64_t number = 0; can && number < 36; number++) {
        const size_t len = (number * 479001 + 1) % (BYTES - 10);
        const enum helps how = number % HELPS;
        const bool helped = number % 4 > 0;
        memset(here, 0xee, BYTES);
        const int helps = get_together(writer, reader, here + 3, there + 7, len, helped, how);
        CHECK(memcmp(here + 3, there + 7, len) == 0);
        CHECK(here[2] == 0xee && here[len + 3] == 0xee);
        CHECK_EQ(helps > 0, helped && how != HELPS_NOT && len > 40960);
    }
    if (can) {
        CHECK_EQ(get(reader, here, 64, BYTES, true, &moved), RCM_ERR_UNSUPPORTED);
        CHECK(!rcmi_channel_help(writer));
        CHECK_EQ(get(reader, here, from, BYTES, true, &moved), RCM_AGAIN);
        CHECK(rcmi_channel_help(writer));
    }
    rcmi_channel_close(reader);
    memset(here, 0xee, BYTES);
    CHECK(!rcmi_channel_help(writer));
    for (size_t i = 0; i < BYTES; i++)
        CHECK(here[i] == 0xee);
    rcmi_channel_close(writer);
    free(there);
    free(here);
    pair_close(&pair);
}

/* Messages whose payload stays with the writer, up to many slots long, among others: all bytes
 * arrive, whoever copies them. */
void case_get_message(void **state) {
    (void)state;
    enum { BYTES = 3000000, SENT = 3 };
    struct setup setup = {.slots = SENT, .slot_bytes = 65536};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    uint8_t *expected = malloc(BYTES), *here = malloc(BYTES);
    limit_ms(20000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    uint8_t *there = payload_alloc(writer->node, BYTES);
    registered(writer, there, BYTES);
    fill(expected, BYTES, 5);
    payload_fill(writer->node, there, BYTES, 5);
    for (uint64_t number = 0; number < 60; number++) {
        const size_t len = (number * 479001 + 1) % (BYTES - 10);
        const rcm_status status = zero_copy(writer, there + 3, len, number, true);
        CHECK(status == RCM_OK || status == RCM_ERR_UNSUPPORTED);
        CHECK(status == RCM_OK || len > writer->slot_bytes || transport_is("shm"));
        if (status != RCM_OK)
            continue;
        put(&pair, writer, 100, number + 1);
        const struct rcmi_slot slot = look(&pair, reader);
        CHECK_EQ(slot.len, len);
        CHECK_EQ(slot.meta, number);
        memset(here, 0xee, BYTES);
        if (slot.bytes)
            payload_copy(reader->node, here + 2, slot.bytes, len);
        else
            (void)get_together(writer, reader, here + 2, (const uint8_t *)(uintptr_t)slot.remote,
                               len, number % 4 > 0, number % HELPS);
        CHECK(memcmp(here + 2, expected + 3, len) == 0);
        CHECK(here[1] == 0xee && here[len + 2] == 0xee);
        rcmi_channel_release(reader);
        take(&pair, reader, 100, number + 1);
        while (!rcmi_channel_completed(writer, rcmi_channel_sent(writer)))
            pair_drive(&pair);
    }
    CHECK_EQ(zero_copy(writer, there, RCMI_GET_MAX + 1, 0, true), RCM_ERR_UNSUPPORTED);
    registered_end(writer, there, BYTES);
    payload_free(writer->node, there);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    free(expected);
    free(here);
    pair_close(&pair);
}

/* ---- Post ---------------------------------------------------------------------------------- */

void case_post(void **state) {
    (void)state;
    struct setup setup = {.slot_bytes = 131072};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    uint8_t *place = malloc(131072);
    limit_ms(20000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    registered(reader, place, 131072);
    for (uint64_t number = 0; number < 60; number++) {
        size_t len = size_of(writer, number);
        /* Sometimes too small, sometimes possibly after the message, sometimes not at all. */
        if (number % 3 == 0)
            post(reader, place, number % 6 ? len : len / 2);
        put(&pair, writer, len, number);
        if (number % 3 == 1)
            post(reader, place, len);
        struct rcmi_slot slot = look(&pair, reader);
        if (number % 3 == 2)
            CHECK(slot.bytes != place || len == 0);
        take(&pair, reader, len, number);
    }
    registered_end(reader, place, 131072);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    free(place);
    pair_close(&pair);
}

void case_post_withdrawn(void **state) {
    (void)state;
    struct setup setup = {.slot_bytes = 131072};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    limit_ms(30000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    for (uint64_t number = 0; number < 200; number++) {
        size_t len = number % 2 ? 131072 : 100;
        uint8_t *place = malloc(len);
        post(reader, place, len);
        put(&pair, writer, len, number);
        for (uint64_t i = 0; i < number % 5; i++)
            pair_drive(&pair);
        (void)rcmi_channel_post_receive(reader, NULL);
        memset(place, 0xdd, len);
        free(place); /* a sanitizer reports late writes */
        take(&pair, reader, len, number);
    }
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
}

/* Memory posted after its message has arrived must not receive the next message. */
void case_post_late(void **state) {
    (void)state;
    struct setup setup = {0};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    uint8_t place[256];
    limit_ms(10000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    registered(reader, place, sizeof place);
    put(&pair, writer, 256, 0);
    drive_some(&pair);
    post(reader, place, sizeof place);
    put(&pair, writer, 256, 1);
    drive_some(&pair);
    memset(place, 0x11, sizeof place); /* the caller copies message 0 here */
    take(&pair, reader, 256, 0);
    for (size_t i = 0; i < sizeof place; i++)
        CHECK_EQ(place[i], 0x11);
    CHECK(look(&pair, reader).bytes != place);
    take(&pair, reader, 256, 1);
    registered_end(reader, place, sizeof place);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
}

/* ---- Opening ------------------------------------------------------------------------------- */

void case_open_order(void **state) {
    (void)state;
    struct setup setup = {0};
    const uint32_t id = row_id(5);
    limit_ms(30000);
    for (int writer_first = 0; writer_first < 2; writer_first++) {
        struct pair pair;
        struct rcmi_channel *writer = NULL, *reader = NULL;
        void *reserved = NULL;
        struct rcmi_slot slot;
        pair_open(&pair, &setup);
        const int readers[1] = {pair.other};
        if (!writer_first)
            CHECK_EQ(rcmi_channel_open_reader(pair.b->node, 9, id, 0, &reader), RCM_OK);
        else
            CHECK_EQ(rcmi_channel_open_writer(pair.a->node, 9, id, readers, 1, &writer), RCM_OK);
        if (writer_first) {
            while (!atomic_load(&pair.b->wanted))
                pair_drive(&pair);
            CHECK_EQ(atomic_load(&pair.b->wanted_epoch), 9);
            CHECK_EQ(atomic_load(&pair.b->wanted_id), id);
            CHECK_EQ(rcmi_channel_state(writer), RCM_AGAIN);
            CHECK_EQ(reserve_slot(writer, &reserved), RCM_AGAIN);
            CHECK_EQ(rcmi_channel_open_reader(pair.b->node, 9, id, 0, &reader), RCM_OK);
        } else {
            CHECK_EQ(rcmi_channel_state(reader), RCM_AGAIN);
            CHECK_EQ(rcmi_channel_peek(reader, &slot), RCM_AGAIN);
            CHECK_EQ(rcmi_channel_open_writer(pair.a->node, 9, id, readers, 1, &writer), RCM_OK);
        }
        put(&pair, writer, 100, 1);
        take(&pair, reader, 100, 1);
        CHECK_EQ(atomic_load(&pair.b->wanted), writer_first);
        rcmi_channel_close(writer);
        rcmi_channel_close(reader);
        pair_close(&pair);
    }
}

void case_open_twice(void **state) {
    (void)state;
    struct setup setup = {0};
    struct pair pair;
    struct rcmi_channel *writer, *reader, *again = NULL;
    limit_ms(20000);
    pair_open(&pair, &setup);
    const int readers[1] = {pair.other};
    pair_channel(&pair, 1, &writer, &reader);
    const uint32_t id = row_id(1);
    CHECK_EQ(rcmi_channel_open_writer(pair.a->node, 7, id, readers, 1, &again), RCM_ERR_INVALID);
    CHECK_EQ(rcmi_channel_open_reader(pair.b->node, 7, id, 0, &again), RCM_ERR_INVALID);
    CHECK(again == NULL);
    /* After the close the id can be used again, and no message of the old channel arrives. */
    for (uint64_t round = 0; round < 20; round++) {
        put(&pair, writer, 77, round);
        if (round % 2)
            take(&pair, reader, 77, round);
        rcmi_channel_close(writer);
        rcmi_channel_close(reader);
        pair_channel(&pair, 1, &writer, &reader);
    }
    put(&pair, writer, 78, 99);
    take(&pair, reader, 78, 99);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
}

#define MANY 200

void case_many_channels(void **state) {
    (void)state;
    struct setup setup = {.slot_bytes = 4096, .slots = 2};
    struct pair pair;
    static struct rcmi_channel *writers[MANY], *readers[MANY];
    limit_ms(30000);
    pair_open(&pair, &setup);
    for (uint32_t i = 0; i < MANY; i++)
        pair_channel(&pair, 100 + i, &writers[i], &readers[i]);
    for (uint64_t round = 0; round < 5; round++) {
        for (uint32_t i = 0; i < MANY; i++)
            put(&pair, writers[i], 100 + i, round * MANY + i);
        for (uint32_t i = MANY; i-- > 0;)
            take(&pair, readers[i], 100 + i, round * MANY + i);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        rcmi_channel_close(writers[i]);
        rcmi_channel_close(readers[MANY - 1 - i]);
    }
    pair_close(&pair);
}

/* ---- Closing ------------------------------------------------------------------------------- */

void case_close_keeps_messages(void **state) {
    (void)state;
    struct setup setup = {.slot_bytes = 131072, .slots = 8};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    limit_ms(20000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    void *whole = payload_alloc(writer->node, 131072);
    for (uint64_t number = 0; number < 7; number++)
        put(&pair, writer, 131072, number);
    payload_fill(writer->node, whole, 131072, 7);
    bool was_whole = sends(&pair, writer, whole, 131072, 7);
    rcmi_channel_close(writer);
    payload_fill(pair.a->node, whole, 131072, 8);
    payload_free(pair.a->node, whole);
    for (uint64_t number = 0; number < 7; number++)
        take(&pair, reader, 131072, number);
    if (was_whole)
        take(&pair, reader, 131072, 7);
    rcmi_channel_close(reader);
    pair_close(&pair);
}

static void traffic(struct pair *pair, uint32_t *random, struct rcmi_channel **writers,
                    struct rcmi_channel **readers) {
    struct rcmi_slot slot;
    void *bytes = NULL;
    for (uint32_t step = random_next(random) % 60; step > 0; step--) {
        uint32_t i = random_next(random) % 3;
        if (random_next(random) % 2 && reserve_slot(writers[i], &bytes) == RCM_OK)
            rcmi_channel_commit(writers[i], random_next(random) % 16384, step);
        if (random_next(random) % 3 == 0 && rcmi_channel_peek(readers[i], &slot) == RCM_OK)
            rcmi_channel_release(readers[i]);
        if (random_next(random) % 4 == 0)
            pair_drive(pair);
    }
}

static void close_all(struct rcmi_channel **ends, int n) {
    for (int i = 0; i < n; i++)
        rcmi_channel_close(ends[i]);
}

/* Traffic on three channels is cut at a random moment: the channels are closed first, or one node
 * is destroyed while the other still has its ends. */
void case_destroy_any_time(void **state) {
    (void)state;
    struct setup setup = {.slot_bytes = 16384, .slots = 4};
    uint32_t random = 99;
    limit_ms(60000);
    for (int round = 0; round < rounds(40); round++) {
        struct pair pair;
        struct rcmi_channel *writers[3], *readers[3];
        pair_open(&pair, &setup);
        for (uint32_t i = 0; i < 3; i++)
            pair_channel(&pair, i, &writers[i], &readers[i]);
        traffic(&pair, &random, writers, readers);
        close_all(round % 2 ? writers : readers, 3);
        if (round % 4 < 2 && !test_self)
            side_destroy(round % 2 ? pair.a : pair.b); /* no farewell: a death for the other */
        close_all(round % 2 ? readers : writers, 3);
        pair_close(&pair);
    }
}

void case_close_any_time(void **state) {
    (void)state;
    struct setup setup = {.slot_bytes = 16384, .slots = 4};
    struct pair pair;
    uint32_t random = 12345;
    struct rcmi_channel *steady_writer, *steady_reader;
    limit_ms(30000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1000, &steady_writer, &steady_reader);
    for (uint32_t round = 0; round < (uint32_t)rounds(100); round++) {
        struct rcmi_channel *writer, *reader;
        pair_channel(&pair, round, &writer, &reader);
        uint32_t messages = random_next(&random) % 5;
        for (uint32_t i = 0; i < messages; i++)
            put(&pair, writer, random_next(&random) % 16384, i);
        for (uint32_t i = random_next(&random) % 10; i > 0; i--)
            pair_drive(&pair);
        rcmi_channel_close(round % 2 ? writer : reader);
        put(&pair, steady_writer, 300, round);
        rcmi_channel_close(round % 2 ? reader : writer);
        take(&pair, steady_reader, 300, round);
    }
    rcmi_channel_close(steady_writer);
    rcmi_channel_close(steady_reader);
    pair_close(&pair);
}
