/* SPDX-License-Identifier: BSD-3-Clause */
/* Several threads on one link, with sleep and wake-up. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include "cases.h"
#include "harness.h"
#include "payload.h"

struct worker {
    pthread_t thread;
    struct side *side;
    struct rcmi_channel *in, *out;
    uint32_t messages, seed;
};

static void worker_start(struct worker *worker, void *(*fn)(void *)) {
    CHECK_EQ(pthread_create(&worker->thread, NULL, fn, worker), 0);
}

static size_t worker_size(uint32_t seed, uint32_t number) {
    return (number * 2654435761u + seed) % 3 ? number % 300 : 16384 - number % 100;
}

static void *write_messages(void *arg) {
    struct worker *worker = arg;
    for (uint32_t number = 0; number < worker->messages; number++) {
        size_t len = worker_size(worker->seed, number);
        payload_fill(worker->side->node, side_reserve(worker->side, worker->out), len,
                     number + worker->seed);
        rcmi_channel_commit(worker->out, len, number);
    }
    return NULL;
}

static void *read_messages(void *arg) {
    struct worker *worker = arg;
    for (uint32_t number = 0; number < worker->messages; number++) {
        struct rcmi_slot slot = side_peek(worker->side, worker->in);
        CHECK_EQ(slot.len, worker_size(worker->seed, number));
        CHECK_EQ(slot.meta, number);
        CHECK(payload_filled(worker->side->node, slot.bytes, slot.len, number + worker->seed));
        rcmi_channel_release(worker->in);
    }
    return NULL;
}

/* Two channels of one link, with a thread at each end. */
void case_two_threads(void **state) {
    (void)state;
    struct setup setup = {.slot_bytes = 16384};
    struct pair pair;
    struct worker workers[4] = {{0}};
    limit_ms(60000);
    pair_open(&pair, &setup);
    for (uint32_t i = 0; i < 2; i++) {
        struct worker *write = &workers[2 * i], *read = &workers[2 * i + 1];
        *write = (struct worker){.side = pair.a, .messages = 1500, .seed = 1000 * i};
        *read = (struct worker){.side = pair.b, .messages = 1500, .seed = 1000 * i};
        pair_channel(&pair, i, &write->out, &read->in);
    }
    for (int i = 0; i < 4; i++)
        worker_start(&workers[i], i % 2 ? read_messages : write_messages);
    for (int i = 0; i < 4; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < 4; i++) {
        rcmi_channel_close(workers[i].in);
        rcmi_channel_close(workers[i].out);
    }
    pair_close(&pair);
}

/* ---- Sleep --------------------------------------------------------------------------------- */

/* Nothing, a yield, or a few microseconds: messages arrive before, while and after the other side
 * falls asleep. */
static void pause_randomly(uint32_t *random) {
    const struct timespec short_time = {0, (long)(random_next(random) % 30000)};
    uint32_t kind = random_next(random) % 8;
    if (kind == 0)
        nanosleep(&short_time, NULL);
    for (volatile uint32_t i = random_next(random) % (kind * 200 + 1); i > 0; i--)
        ;
}

static void *bounce(void *arg) {
    struct worker *worker = arg;
    uint32_t random = worker->seed + 1;
    bool last = false;
    for (uint32_t number = 0; !last; number++) {
        const uint64_t meta = side_peek_asleep(worker->side, worker->in).meta;
        CHECK_EQ(meta >> 1, number);
        rcmi_channel_release(worker->in);
        last = meta & 1;
        pause_randomly(&random);
        side_reserve(worker->side, worker->out);
        rcmi_channel_commit(worker->out, number % 64, meta);
    }
    return NULL;
}

/* Messages back and forth between two threads that sleep whenever they can. The meta value: the
 * number, and whether it is the last one. */
void case_sleep(void **state) {
    (void)state;
    struct setup setup = {0};
    struct pair pair;
    uint32_t random = 5;
    struct worker echo = {.seed = 77};
    struct worker self;
    limit_ms(60000);
    pair_open(&pair, &setup);
    echo.side = pair.b;
    self = (struct worker){.side = pair.a};
    pair_channel(&pair, 1, &self.out, &echo.in);
    const int readers[1] = {0};
    const uint32_t id = row_id(2);
    CHECK_EQ(rcmi_channel_open_writer(pair.b->node, 7, id, readers, 1, &echo.out), RCM_OK);
    CHECK_EQ(rcmi_channel_open_reader(pair.a->node, 7, id, pair.other, &self.in), RCM_OK);
    side_ready(pair.a, self.in);
    side_ready(pair.b, echo.out);
    worker_start(&echo, bounce);
    const struct repeats repeats = repeats_begin(20000);
    bool last = false;
    for (uint32_t number = 0; !last; number++) {
        last = repeats_last(&repeats, number);
        const uint64_t meta = (uint64_t)number << 1 | last;
        side_reserve(pair.a, self.out);
        rcmi_channel_commit(self.out, number % 64, meta);
        pause_randomly(&random);
        CHECK_EQ(side_peek_asleep(pair.a, self.in).meta, meta);
        rcmi_channel_release(self.in);
    }
    pthread_join(echo.thread, NULL);
    rcmi_channel_close(self.in);
    rcmi_channel_close(self.out);
    rcmi_channel_close(echo.in);
    rcmi_channel_close(echo.out);
    pair_close(&pair);
}

static void *write_asleep(void *arg) {
    struct worker *worker = arg;
    struct rcmi_doorbell *doorbell = rcmi_node_doorbell(worker->side->node);
    for (uint32_t number = 0; number < worker->messages; number++) {
        void *slot = NULL;
        while (reserve_bytes(worker->out, 65536, &slot) == RCM_AGAIN) {
            CHECK(!rcmi_deadline_passed(limit()));
            uint32_t seen = rcmi_doorbell_arm(doorbell, RCMI_DOORBELL_FUTEX_ONE);
            int64_t before = rcmi_now_ns();
            rcmi_node_arm(worker->side->node);
            if (reserve_bytes(worker->out, 65536, &slot) == RCM_AGAIN)
                rcmi_doorbell_sleep(doorbell, seen, limit());
            rcmi_doorbell_disarm(doorbell, RCMI_DOORBELL_FUTEX_ONE);
            CHECK(rcmi_now_ns() - before < 1500000000LL * slowness());
        }
        payload_fill(worker->side->node, slot, 65536, number);
        rcmi_channel_commit(worker->out, 65536, number);
    }
    return NULL;
}

/* A writer that makes no progress itself and only sleeps for credits; a reader that pauses. */
void case_sleep_writer(void **state) {
    (void)state;
    struct setup setup = {.slot_bytes = 65536};
    struct pair pair;
    uint32_t random = 17;
    struct rcmi_channel *reader;
    struct worker writer = {.messages = 1000};
    limit_ms(60000);
    pair_open(&pair, &setup);
    writer.side = pair.a;
    pair_channel(&pair, 1, &writer.out, &reader);
    worker_start(&writer, write_asleep);
    for (uint32_t number = 0; number < writer.messages; number++) {
        struct rcmi_slot slot = side_peek_asleep(pair.b, reader);
        CHECK_EQ(slot.meta, number);
        CHECK(payload_filled(pair.b->node, slot.bytes, 65536, number));
        pause_randomly(&random);
        rcmi_channel_release(reader);
    }
    pthread_join(writer.thread, NULL);
    rcmi_channel_close(writer.out);
    rcmi_channel_close(reader);
    pair_close(&pair);
}
