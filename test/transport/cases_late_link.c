/* SPDX-License-Identifier: BSD-3-Clause */
/* Transports that decline a link or are slow to make it, as the backend `late` (late_transport.h)
 * is ordered. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include "../../transport/link/link.h"
#include "cases.h"
#include "harness.h"
#include "late_transport.h"

static void orders_reset(void) {
    late_orders[0] = late_orders[1] = (struct late_orders){.never = false};
}

/* Whether both sides are linked by that transport; "": by none. */
static bool linked_by(struct pair *pair, const char *name) {
    return strcmp(rcmi_node_transport(pair->a->node, 1), name) == 0 &&
           strcmp(rcmi_node_transport(pair->b->node, 0), name) == 0;
}

/* Messages sent before there was a link arrive once and in order; then a channel carries data. */
static void talk(struct pair *pair) {
    enum { MESSAGES = 20 };
    struct rcmi_channel *writer, *reader;
    for (int i = 0; i < MESSAGES; i++) {
        side_send(pair->a, 1);
        side_send(pair->b, 0);
    }
    pair_channel(pair, 1, &writer, &reader);
    fill(side_reserve(pair->a, writer), 1000, 1);
    rcmi_channel_commit(writer, 1000, 0);
    CHECK(filled(side_peek(pair->b, reader).bytes, 1000, 1));
    while (atomic_load(&pair->b->received[0]) < MESSAGES ||
           atomic_load(&pair->a->received[1]) < MESSAGES)
        nap();
    CHECK_EQ(atomic_load(&pair->a->received[1]) + atomic_load(&pair->b->received[0]), 2 * MESSAGES);
    CHECK_EQ(atomic_load(&pair->a->bad) + atomic_load(&pair->b->bad), 0);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
}

/* Whichever slots decline on one side or both, both sides use the next transport, and no rank is
 * lost. */
void case_declined(void **state) {
    (void)state;
    const struct setup setup = {.transports = "late,tcp"};
    limit_ms(60000);
    for (int i = 0; i < LATE_SLOTS * LATE_SLOTS; i++) {
        struct pair pair;
        late_orders[0].decline = (enum late_slot)(i % LATE_SLOTS);
        late_orders[1].decline = (enum late_slot)(i / LATE_SLOTS);
        pair_open(&pair, &setup);
        talk(&pair);
        CHECK(linked_by(&pair, i == 0 ? "late" : "tcp"));
        CHECK_EQ(atomic_load(&pair.a->lost) + atomic_load(&pair.b->lost), 0);
        pair_close(&pair);
    }
    orders_reset();
}

struct striking {
    struct side *side;
    int struck; /* how often */
    bool marked;
};

/* Runs on the loop's thread: the stream fails while its end is expected, as if a heartbeat could
 * not be sent. Stores whether the failure is still marked. */
static void strike_declined(void *arg) {
    struct striking *striking = arg;
    const struct rcmi_link *link = rcmi_node_link(striking->side->node, 1);
    striking->marked = link && link->failed;
    if (!link || link->planes[RCMI_MEM_HOST].state != RCMI_PLANE_DECLINED || link->failed)
        return;
    striking->struck++;
    (void)rcmi_fail_peer(RCM_ERR_PEER, 1, "the stream has failed");
    rcmi_node_link_failed(striking->side->node, 1);
}

/* The failure of a declined link's stream is not taken for a failure of the next link. */
void case_fails_while_declined(void **state) {
    (void)state;
    const struct setup setup = {.transports = "late,tcp"};
    struct striking striking = {.struck = 0};
    limit_ms(60000);
    late_orders[0].decline = LATE_OFFER;
    for (int i = 0; i < 200 && striking.struck < 3; i++) {
        struct pair pair;
        pair_open(&pair, &setup);
        striking.side = pair.a;
        side_send(pair.a, 1);
        while (!linked_by(&pair, "tcp") && !atomic_load(&pair.a->lost))
            rcmi_loop_call(rcmi_node_loop(pair.a->node), strike_declined, &striking);
        rcmi_loop_call(rcmi_node_loop(pair.a->node), strike_declined, &striking);
        CHECK(!striking.marked);
        CHECK_EQ(atomic_load(&pair.a->lost) + atomic_load(&pair.b->lost), 0);
        pair_close(&pair);
    }
    CHECK(striking.struck > 0);
    orders_reset();
}

static void check_error(struct side *side, int peer, const char *who) {
    char expected[100];
    snprintf(expected, sizeof expected, "late: %s declined it: %s", who, late_reason);
    while (!atomic_load(&side->lost))
        nap();
    CHECK_EQ(rcmi_node_send(side->node, peer, "x", 1), RCM_ERR_SYSTEM);
    CHECK(strstr(rcm_last_error(), expected) != NULL);
    CHECK_EQ(atomic_load(&side->lost), 1);
}

/* Without another transport both sides report why there is no link. */
void case_declined_by_all(void **state) {
    (void)state;
    const struct setup setup = {.transports = "late"};
    limit_ms(30000);
    for (int slot = LATE_OFFER; slot < LATE_SLOTS; slot++) {
        struct pair pair;
        late_orders[1].decline = (enum late_slot)slot;
        pair_open(&pair, &setup);
        side_send(pair.a, 1);
        check_error(pair.a, 1, "rank 1");
        check_error(pair.b, 0, "rank 1");
        pair_close(&pair);
    }
    orders_reset();
}

/* A link that is not ready carries nothing and does not count as lost; a node may end while it
 * waits. */
void case_not_ready(void **state) {
    (void)state;
    const struct setup setup = {.nranks = 2};
    struct pair pair;
    limit_ms(10000);
    late_orders[1].never = true;
    pair_open(&pair, &setup);
    side_send(pair.a, 1);
    for (int i = 0; i < 500; i++)
        nap();
    CHECK(linked_by(&pair, ""));
    CHECK_EQ(atomic_load(&pair.b->received[0]) + atomic_load(&pair.a->lost), 0);
    CHECK_EQ(atomic_load(&pair.b->lost), 0);
    pair_close(&pair);
    orders_reset();
}

static void child_late(struct side *side) {
    flag_set(side->world, 0);
    while (!atomic_load(&side->world->address[0].len))
        nap();
    side_start(side);
    for (;;)
        nap();
}

/* A peer dies in each slot, while this side connects, or after it has declined. */
void case_dies_while_connecting(void **state) {
    (void)state;
    const struct setup setup = {.transports = "late,tcp"};
    limit_ms(60000);
    for (int i = 0; i < 2 * (LATE_SLOTS - 1); i++) {
        struct world *world = world_new();
        struct side side;
        int status;
        late_orders[1].die = (enum late_slot)(1 + i / 2);
        late_orders[0].decline = i % 2 ? LATE_ACCEPT : LATE_NONE;
        const pid_t child = child_start(world, 1, &setup, child_late);
        side_create(&side, world, 0, &setup);
        flag_wait(world, 0);
        side_start(&side);
        side_send(&side, 1);
        /* The other transport may be chosen before the child reaches that slot. */
        while (!atomic_load(&side.lost) && rcmi_node_transport(side.node, 1)[0] == 0)
            nap();
        if (!atomic_load(&side.lost))
            child_kill(child);
        else
            CHECK_EQ(waitpid(child, &status, 0), child);
        while (!atomic_load(&side.lost))
            nap();
        CHECK_EQ(atomic_load(&side.lost_status), RCM_ERR_PEER);
        CHECK_EQ(atomic_load(&side.lost), 1);
        side_destroy(&side);
        world_free(world);
    }
    orders_reset();
}
