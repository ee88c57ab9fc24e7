/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels with several readers, in threads and in processes, one of which is killed. */
#include <pthread.h>
#include "cases.h"
#include "harness.h"
#include "payload.h"

#define READERS_MAX 8
#define CASTS       300
#define ID          (3 | RCMI_ID_MULTICAST)

static const int ranks[READERS_MAX] = {1, 2, 3, 4, 5, 6, 7, 8};

/* ---- Both ends ------------------------------------------------------------------------------- */

struct reader {
    pthread_t thread;
    struct side *side;
    struct rcmi_channel *in;
};

static void reader_open(struct reader *reader) {
    CHECK_EQ(rcmi_channel_open_reader(reader->side->node, 1, row_id(ID), 0, &reader->in), RCM_OK);
}

static void *read_casts(void *arg) {
    const struct reader *reader = arg;
    const struct rcmi_node *node = reader->side->node;
    for (uint32_t number = 0; number < CASTS; number++) {
        struct rcmi_slot slot = side_peek(reader->side, reader->in);
        CHECK_EQ(slot.meta, number);
        CHECK_EQ(slot.len, number % 4097);
        CHECK(payload_filled(node, slot.bytes, slot.len, number));
        if (reader->side->rank == 1 && number % 16 == 0) { /* the slow reader */
            nap();
            CHECK(payload_filled(node, slot.bytes, slot.len, number));
        }
        rcmi_channel_release(reader->in);
    }
    return NULL;
}

static struct rcmi_channel *writer_open(struct side *side, int nreaders) {
    struct rcmi_channel *writer = NULL;
    CHECK_EQ(rcmi_channel_open_writer(side->node, 1, row_id(ID), ranks, nreaders, &writer), RCM_OK);
    side_ready(side, writer);
    return writer;
}

static void write_casts(struct side *side, struct rcmi_channel *writer) {
    for (uint32_t number = 0; number < CASTS; number++) {
        payload_fill(side->node, side_reserve(side, writer), number % 4097, number);
        rcmi_channel_commit(writer, number % 4097, number);
    }
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void cast_to(int nreaders) {
    struct setup setup = {.nranks = nreaders + 1};
    struct world *world = world_new();
    struct side sides[READERS_MAX + 1];
    struct reader readers[READERS_MAX] = {{0}};
    for (int i = 0; i <= nreaders; i++)
        side_create(&sides[i], world, i, &setup);
    for (int i = 0; i <= nreaders; i++)
        side_start(&sides[i]);
    for (int i = 0; i < nreaders; i++) {
        readers[i] = (struct reader){.side = &sides[i + 1]};
        reader_open(&readers[i]);
        CHECK_EQ(pthread_create(&readers[i].thread, NULL, read_casts, &readers[i]), 0);
    }
    struct rcmi_channel *writer = writer_open(&sides[0], nreaders);
    write_casts(&sides[0], writer);
    for (int i = 0; i < nreaders; i++)
        pthread_join(readers[i].thread, NULL);
    rcmi_channel_close(writer);
    for (int i = 0; i < nreaders; i++)
        rcmi_channel_close(readers[i].in);
    for (int i = 0; i <= nreaders; i++)
        side_destroy(&sides[i]);
    world_free(world);
}

void case_multicast(void **state) {
    (void)state;
    limit_ms(60000);
    for (int nreaders = 1; nreaders <= READERS_MAX; nreaders++)
        cast_to(nreaders);
}

/* A transport without multicast returns an error at once or, since the link may not exist yet, as
 * the channel's state. */
void case_multicast_refused(void **state) {
    (void)state;
    struct setup setup = {.nranks = 3};
    struct world *world = world_new();
    struct side sides[3];
    struct rcmi_channel *writer = NULL;
    limit_ms(10000);
    for (int i = 0; i < 3; i++)
        side_create(&sides[i], world, i, &setup);
    for (int i = 0; i < 3; i++)
        side_start(&sides[i]);
    rcm_status status = rcmi_channel_open_writer(sides[0].node, 1, row_id(ID), ranks, 2, &writer);
    while (status == RCM_OK) {
        side_drive(&sides[0]);
        status = rcmi_channel_state(writer);
        if (status == RCM_AGAIN)
            status = RCM_OK;
        else
            CHECK(status != RCM_OK);
    }
    CHECK_EQ(status, RCM_ERR_SYSTEM);
    rcmi_channel_close(writer);
    for (int i = 0; i < 3; i++)
        side_destroy(&sides[i]);
    world_free(world);
}

/* ---- Processes ------------------------------------------------------------------------------- */

#define FLAG_OVER 0 /* the channel has failed at its writer, which has read the error */

/* A writer, and readers in processes of their own. */
struct cast {
    struct world *world;
    struct side side;
    struct rcmi_channel *writer;
    pid_t readers[READERS_MAX];
    int nreaders;
};

static void cast_open(struct cast *cast, int nreaders, void (*fn)(struct side *side)) {
    const struct setup setup = {.nranks = nreaders + 1};
    cast->world = world_new();
    cast->nreaders = nreaders;
    for (int i = 0; i < nreaders; i++) /* before there are threads here */
        cast->readers[i] = child_start(cast->world, ranks[i], &setup, fn);
    side_create(&cast->side, cast->world, 0, &setup);
    for (int i = 0; i < nreaders; i++)
        while (!atomic_load(&cast->world->address[ranks[i]].len))
            nap();
    side_start(&cast->side);
    cast->writer = writer_open(&cast->side, nreaders);
}

/* Each reader that is alive closes its end, too, and sends a farewell. */
static void cast_farewell(struct cast *cast, int dead) {
    rcmi_channel_close(cast->writer);
    CHECK_EQ(rcmi_node_farewell(cast->side.node, limit(), NULL), RCM_OK);
    for (int i = 0; i < cast->nreaders; i++)
        if (ranks[i] != dead)
            child_join(cast->readers[i]);
}

static void cast_close(struct cast *cast) {
    side_destroy(&cast->side);
    world_free(cast->world);
}

/* Runs in a child. */
static void reader_begin(struct reader *reader) {
    while (!atomic_load(&reader->side->world->address[0].len))
        nap();
    side_start(reader->side);
    reader_open(reader);
    side_ready(reader->side, reader->in);
}

static void child_read(struct side *side) {
    struct reader reader = {.side = side};
    reader_begin(&reader);
    (void)read_casts(&reader);
    rcmi_channel_close(reader.in);
    CHECK_EQ(rcmi_node_farewell(side->node, limit(), NULL), RCM_OK);
    side_destroy(side);
}

/* A message counts as taken only when the last reader has released it. */
static void cast_to_processes(int nreaders) {
    struct cast cast;
    cast_open(&cast, nreaders, child_read);
    write_casts(&cast.side, cast.writer);
    while (!rcmi_channel_taken(cast.writer, CASTS))
        side_drive(&cast.side);
    cast_farewell(&cast, 0);
    CHECK_EQ(atomic_load(&cast.side.lost), 0);
    cast_close(&cast);
}

void case_multicast_processes(void **state) {
    (void)state;
    limit_ms(60000);
    for (int nreaders = 1; nreaders <= 3; nreaders++)
        child_run(cast_to_processes, nreaders);
}

/* Reads until the writer's last message. */
static void child_read_on(struct side *side) {
    struct reader reader = {.side = side};
    struct rcmi_slot slot;
    reader_begin(&reader);
    for (uint64_t number = 0; !atomic_load(&side->world->flag[FLAG_OVER]);) {
        const rcm_status status = rcmi_channel_peek(reader.in, &slot);
        CHECK(status == RCM_OK || status == RCM_AGAIN);
        if (status == RCM_OK) {
            CHECK_EQ(slot.meta, number);
            CHECK(payload_filled(side->node, slot.bytes, slot.len, number++));
            rcmi_channel_release(reader.in);
        }
        side_drive(side);
    }
    CHECK_EQ(atomic_load(&side->lost), 0);
    rcmi_channel_close(reader.in);
    CHECK_EQ(rcmi_node_farewell(side->node, limit(), NULL), RCM_OK);
    side_destroy(side);
}

/* Writes until the channel has failed; kills a reader after some messages. Returns the time of the
 * kill. */
static int64_t write_until_killed(const struct cast *cast, struct side *side, pid_t victim,
                                  uint64_t after) {
    int64_t killed = 0;
    for (uint64_t number = 0; rcmi_channel_state(cast->writer) == RCM_OK; side_drive(side)) {
        void *slot = NULL;
        if (reserve_bytes(cast->writer, 4096, &slot) == RCM_OK) {
            payload_fill(side->node, slot, 4096, number);
            rcmi_channel_commit(cast->writer, 4096, number++);
        }
        if (killed || number < after)
            continue;
        killed = rcmi_now_ns();
        child_kill(victim);
    }
    return killed;
}

static void killed_while_reading(int round) {
    const int dies = round % 2;
    struct cast cast;
    void *slot = NULL;
    cast_open(&cast, 2, child_read_on);
    const int64_t killed =
        write_until_killed(&cast, &cast.side, cast.readers[dies], 7 * (uint64_t)round + 1);
    CHECK(killed != 0);
    CHECK_EQ(reserve_slot(cast.writer, &slot), RCM_ERR_PEER);
    CHECK_EQ(rcmi_last_error()->origin, ranks[dies]);
    CHECK_EQ(atomic_load(&cast.writer->lost_peer), ranks[dies]);
    while (!atomic_load(&cast.side.lost))
        nap();
    CHECK(atomic_load(&cast.side.lost_at) - killed < 1000000000LL * slowness());
    CHECK_EQ(atomic_load(&cast.side.lost_peer), ranks[dies]);
    flag_set(cast.world, FLAG_OVER);
    cast_farewell(&cast, ranks[dies]);
    CHECK_EQ(atomic_load(&cast.side.lost), 1);
    cast_close(&cast);
}

/* One of two readers dies: the channel's error names it, and the other one continues to read. */
void case_multicast_killed(void **state) {
    (void)state;
    limit_ms(60000);
    for (int round = 0; round < 4; round++)
        child_run(killed_while_reading, round);
}
