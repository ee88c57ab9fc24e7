/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels with several readers. */
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
        if (reader->side->rank == 1 && number % 16 == 0) { /* the slow one */
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

/* Where the transport has no multicast: said at once or, since the link may not be made yet, as the
 * channel's state. */
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
