/* SPDX-License-Identifier: BSD-3-Clause */
/* Nodes in processes of their own, some of which are killed. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cases.h"
#include "harness.h"
#include "payload.h"
#include "../../transport/link/link.h"

#define FLAG_ADDRESS 0 /* the child's address is published */
#define FLAG_READY   1 /* the child has reached the test's point */
#define FLAG_GO      2

/* The parent's side, with a child that runs fn as rank 1. */
struct duel {
    struct world *world;
    struct side side;
    pid_t child;
};

static void duel_open(struct duel *duel, const struct setup *setup, void (*fn)(struct side *)) {
    duel->world = world_new();
    duel->child = child_start(duel->world, 1, setup, fn); /* before there are threads here */
    side_create(&duel->side, duel->world, 0, setup);
    flag_wait(duel->world, FLAG_ADDRESS);
    side_start(&duel->side);
}

static void duel_close(struct duel *duel) {
    side_destroy(&duel->side);
    world_free(duel->world);
}

/* In the child: waits until both addresses are published. */
static void child_begin(struct side *side) {
    flag_set(side->world, FLAG_ADDRESS);
    while (!atomic_load(&side->world->address[0].len))
        nap();
    side_start(side);
}

static void open_both(struct side *side, int peer, struct rcmi_channel **ret_in,
                      struct rcmi_channel **ret_out) {
    const int readers[1] = {peer};
    const uint32_t own = row_id((uint32_t)side->rank), other = row_id((uint32_t)peer);
    CHECK_EQ(rcmi_channel_open_writer(side->node, 3, own, readers, 1, ret_out), RCM_OK);
    CHECK_EQ(rcmi_channel_open_reader(side->node, 3, other, peer, ret_in), RCM_OK);
    side_ready(side, *ret_out);
    side_ready(side, *ret_in);
}

static void leave(struct side *side, struct rcmi_channel *in, struct rcmi_channel *out) {
    rcmi_channel_close(in);
    rcmi_channel_close(out);
    CHECK_EQ(rcmi_node_farewell(side->node, limit(), NULL), RCM_OK);
    for (int i = 0; i < 10; i++)
        nap();
    CHECK_EQ(atomic_load(&side->lost), 0);
}

/* ---- Echo ---------------------------------------------------------------------------------- */

#define ECHOES 2000

static size_t echo_size(uint64_t number) {
    static const size_t sizes[] = {0, 1, 40, 41, 64, 1000, 131072, 65536, 8, 8};
    return sizes[number % 10];
}

static void child_echo(struct side *side) {
    struct rcmi_channel *in, *out;
    child_begin(side);
    open_both(side, 0, &in, &out);
    for (uint64_t number = 0, echoes = (uint64_t)rounds(ECHOES); number < echoes; number++) {
        struct rcmi_slot slot = side_peek(side, in);
        CHECK_EQ(slot.meta, number);
        payload_copy(side->node, side_reserve(side, out), slot.bytes, slot.len);
        rcmi_channel_commit(out, slot.len, slot.meta);
        rcmi_channel_release(in);
    }
    leave(side, in, out);
    side_destroy(side);
}

/* Messages back and forth, three in flight. */
void case_two_processes(void **state) {
    (void)state;
    struct setup setup = {.slot_bytes = 131072};
    struct duel duel;
    struct rcmi_channel *in, *out;
    const uint64_t echoes = (uint64_t)rounds(ECHOES);
    limit_ms(60000);
    duel_open(&duel, &setup, child_echo);
    open_both(&duel.side, 1, &in, &out);
    for (uint64_t number = 0; number < echoes + 3; number++) {
        if (number < echoes) {
            payload_fill(duel.side.node, side_reserve(&duel.side, out), echo_size(number), number);
            rcmi_channel_commit(out, echo_size(number), number);
        }
        if (number < 3)
            continue;
        struct rcmi_slot slot = side_peek(&duel.side, in);
        CHECK_EQ(slot.meta, number - 3);
        CHECK_EQ(slot.len, echo_size(number - 3));
        CHECK(payload_filled(duel.side.node, slot.bytes, slot.len, number - 3));
        rcmi_channel_release(in);
    }
    leave(&duel.side, in, out);
    child_join(duel.child);
    duel_close(&duel);
}

/* ---- A writer that is stopped while it helps ------------------------------------------------- */

#define STOPS      200
#define HELP_BYTES ((size_t)256 << 10)

static void child_help(struct side *side) {
    const int readers[1] = {0};
    uint8_t *there = malloc(HELP_BYTES);
    const uint64_t from = (uint64_t)(uintptr_t)there;
    fill(there, HELP_BYTES, 1);
    child_begin(side);
    for (int round = 0; round < STOPS / slowness(); round++) {
        struct rcmi_channel *out;
        CHECK_EQ(rcmi_channel_open_writer(side->node, 10 + (uint32_t)round, 1, readers, 1, &out),
                 RCM_OK);
        side_ready(side, out);
        memcpy(side_reserve(side, out), &from, sizeof from);
        rcmi_channel_commit(out, sizeof from, 0);
        while (atomic_load(&side->world->flag[FLAG_GO]) <= round) {
            (void)rcmi_channel_help(out);
            side_drive(side);
        }
        rcmi_channel_close(out);
    }
    CHECK_EQ(rcmi_node_farewell(side->node, limit(), NULL), RCM_OK);
    free(there);
    side_destroy(side);
}

/* A reader that closes early owns its memory again, wherever its writer was stopped. */
void case_stopped_help(void **state) {
    (void)state;
    struct setup setup = {.slots = 3};
    struct duel duel;
    uint8_t *here = malloc(HELP_BYTES);
    uint32_t random = 7;
    int unfinished = 0, late = 0;
    limit_ms(60000);
    if (!transport_is("shm")) {
        free(here);
        return;
    }
    duel_open(&duel, &setup, child_help);
    for (int round = 0; round < STOPS / slowness(); round++) {
        struct rcmi_channel *in;
        uint64_t from;
        bool moved = false;
        CHECK_EQ(rcmi_channel_open_reader(duel.side.node, 10 + (uint32_t)round, 1, 1, &in), RCM_OK);
        side_ready(&duel.side, in);
        memcpy(&from, side_peek(&duel.side, in).bytes, sizeof from);
        rcmi_channel_release(in);
        const rcm_status status = get(in, here, from, HELP_BYTES, true, &moved);
        CHECK(status == RCM_AGAIN || status == RCM_OK);
        unfinished += status == RCM_AGAIN;
        for (const int64_t end = rcmi_now_ns() + random_next(&random) % 60000; rcmi_now_ns() < end;)
            ;
        CHECK_EQ(kill(duel.child, SIGSTOP), 0);
        const int64_t began = rcmi_now_ns();
        rcmi_channel_close(in);
        late += rcmi_now_ns() - began > INT64_C(900000000); /* missed the stop */
        memset(here, 0xee, HELP_BYTES);
        CHECK_EQ(kill(duel.child, SIGCONT), 0);
        nap();
        nap();
        for (size_t i = 0; i < HELP_BYTES; i++)
            CHECK(here[i] == 0xee);
        atomic_store(&duel.world->flag[FLAG_GO], round + 1);
    }
    CHECK(unfinished > 0);
    CHECK(late <= STOPS / slowness() / 20);
    CHECK_EQ(rcmi_node_farewell(duel.side.node, limit(), NULL), RCM_OK);
    child_join(duel.child);
    free(here);
    duel_close(&duel);
}

/* The meta value of a bounce: its number, and whether it is the last one. */
static uint64_t bounce_meta(uint32_t number, bool last) {
    return (uint64_t)number << 1 | last;
}

/* True: the last one. */
static bool bounce_take(struct side *side, struct rcmi_channel *in, uint32_t number) {
    const uint64_t meta = side_peek_asleep(side, in).meta;
    CHECK_EQ(meta >> 1, number);
    rcmi_channel_release(in);
    return meta & 1;
}

static void bounce_put(struct side *side, struct rcmi_channel *out, uint32_t *random,
                       uint64_t meta) {
    if (random_next(random) % 64 == 0)
        nap();
    side_reserve(side, out);
    rcmi_channel_commit(out, 8, meta);
}

static void child_bounce(struct side *side) {
    struct rcmi_channel *in, *out;
    uint32_t random = 4;
    bool last = false;
    child_begin(side);
    open_both(side, 0, &in, &out);
    for (uint32_t number = 0; !last; number++) {
        last = bounce_take(side, in, number);
        bounce_put(side, out, &random, bounce_meta(number, last));
    }
    leave(side, in, out);
    side_destroy(side);
}

/* Messages back and forth between two processes that sleep whenever they can. */
void case_sleep_processes(void **state) {
    (void)state;
    struct setup setup = {0};
    struct duel duel;
    struct rcmi_channel *in, *out;
    uint32_t random = 3;
    bool last = false;
    limit_ms(60000);
    duel_open(&duel, &setup, child_bounce);
    open_both(&duel.side, 1, &in, &out);
    const struct repeats repeats = repeats_begin(20000);
    for (uint32_t number = 0; !last; number++) {
        last = repeats_last(&repeats, number);
        bounce_put(&duel.side, out, &random, bounce_meta(number, last));
        CHECK_EQ(bounce_take(&duel.side, in, number), last);
    }
    leave(&duel.side, in, out);
    child_join(duel.child);
    duel_close(&duel);
}

static void child_farewell(struct side *side) {
    struct rcmi_channel *in, *out;
    child_begin(side);
    open_both(side, 0, &in, &out);
    leave(side, in, out);
    side_destroy(side);
}

/* A node that left with a farewell is not lost, even long after its exit. */
void case_farewell_processes(void **state) {
    (void)state;
    struct setup setup = {0};
    struct duel duel;
    struct rcmi_channel *in, *out;
    limit_ms(20000);
    duel_open(&duel, &setup, child_farewell);
    open_both(&duel.side, 1, &in, &out);
    leave(&duel.side, in, out);
    child_join(duel.child);
    for (int i = 0; i < 300; i++)
        nap();
    CHECK_EQ(atomic_load(&duel.side.lost), 0);
    duel_close(&duel);
}

/* ---- Death --------------------------------------------------------------------------------- */

static void child_stay(struct side *side) {
    struct rcmi_channel *in, *out;
    child_begin(side);
    open_both(side, 0, &in, &out);
    flag_set(side->world, FLAG_READY);
    for (;;)
        nap();
}

/* The child was killed at `killed`: one report, soon; both channels fail with its rank. */
static void lost_check(struct side *side, int64_t killed, struct rcmi_channel *in,
                       struct rcmi_channel *out) {
    struct rcmi_slot slot;
    void *bytes = NULL;
    rcm_status status;
    while (!atomic_load(&side->lost))
        nap();
    CHECK(atomic_load(&side->lost_at) - killed < 1000000000LL);
    CHECK_EQ(atomic_load(&side->lost_peer), 1);
    CHECK_EQ(atomic_load(&side->lost_status), RCM_ERR_PEER);
    while ((status = rcmi_channel_peek(in, &slot)) == RCM_AGAIN)
        side_drive(side);
    CHECK_EQ(status, RCM_ERR_PEER);
    CHECK_EQ(rcmi_last_error()->origin, 1);
    while ((status = reserve_slot(out, &bytes)) == RCM_AGAIN)
        side_drive(side);
    CHECK_EQ(status, RCM_ERR_PEER);
    CHECK_EQ(rcmi_channel_state(out), RCM_ERR_PEER);
    CHECK_EQ(atomic_load(&in->lost_peer), 1);
    CHECK_EQ(atomic_load(&out->lost_peer), 1);
    (void)rcmi_channel_post_receive(in, NULL);
    for (int i = 0; i < 300; i++) {
        (void)rcmi_node_progress(side->node);
        nap();
    }
    CHECK_EQ(atomic_load(&side->lost), 1);
    rcmi_channel_close(in);
    rcmi_channel_close(out);
}

/* While this side is idle and makes no progress: the loop thread must notice. */
static void killed_while_waiting(int round) {
    struct setup setup = {.slot_bytes = 65536};
    uint8_t *place = malloc(65536);
    struct duel duel;
    struct rcmi_channel *in, *out;
    duel_open(&duel, &setup, child_stay);
    open_both(&duel.side, 1, &in, &out);
    flag_wait(duel.world, FLAG_READY);
    if (round == 1)
        post(in, place, 65536);
    if (round == 2)
        rcmi_node_arm(duel.side.node);
    int64_t killed = rcmi_now_ns();
    child_kill(duel.child);
    lost_check(&duel.side, killed, in, out);
    duel_close(&duel);
    free(place);
}

void case_killed_while_waiting(void **state) {
    (void)state;
    limit_ms(30000);
    for (int round = 0; round < 3; round++)
        child_run(killed_while_waiting, round);
}

static void child_write(struct side *side) {
    struct rcmi_channel *in, *out;
    struct rcmi_slot slot;
    void *bytes = NULL;
    child_begin(side);
    open_both(side, 0, &in, &out);
    for (uint64_t number = 0;; number++) {
        if (reserve_slot(out, &bytes) == RCM_OK)
            rcmi_channel_commit(out, 65536 - number % 100, number);
        if (rcmi_channel_peek(in, &slot) == RCM_OK)
            rcmi_channel_release(in);
        if (number == 1000)
            flag_set(side->world, FLAG_READY);
        side_drive(side);
    }
}

/* During traffic in both directions. */
static void killed_while_writing(int round) {
    struct setup setup = {.slot_bytes = 65536};
    struct duel duel;
    struct rcmi_channel *in, *out;
    struct rcmi_slot slot;
    void *bytes = NULL;
    int64_t killed = 0;
    (void)round;
    duel_open(&duel, &setup, child_write);
    open_both(&duel.side, 1, &in, &out);
    while (rcmi_channel_state(out) == RCM_OK || rcmi_channel_state(in) == RCM_OK) {
        if (reserve_slot(out, &bytes) == RCM_OK)
            rcmi_channel_commit(out, 65536, 0);
        if (rcmi_channel_peek(in, &slot) == RCM_OK)
            rcmi_channel_release(in);
        side_drive(&duel.side);
        if (killed || !atomic_load(&duel.world->flag[FLAG_READY]))
            continue;
        killed = rcmi_now_ns();
        child_kill(duel.child);
    }
    CHECK(killed != 0);
    lost_check(&duel.side, killed, in, out);
    duel_close(&duel);
}

void case_killed_while_writing(void **state) {
    (void)state;
    limit_ms(30000);
    for (int round = 0; round < 5; round++)
        child_run(killed_while_writing, round);
}

static void child_silent(struct side *side) {
    child_begin(side);
    flag_set(side->world, FLAG_READY);
    for (;;)
        nap();
}

void case_killed_before_link(void **state) {
    (void)state;
    struct setup setup = {0};
    struct duel duel;
    struct rcmi_channel *out = NULL;
    const int readers[1] = {1};
    rcm_status status;
    limit_ms(20000);
    duel_open(&duel, &setup, child_silent);
    flag_wait(duel.world, FLAG_READY);
    child_kill(duel.child);
    int64_t killed = rcmi_now_ns();
    CHECK_EQ(rcmi_channel_open_writer(duel.side.node, 1, row_id(1), readers, 1, &out), RCM_OK);
    while (!atomic_load(&duel.side.lost))
        nap();
    CHECK(atomic_load(&duel.side.lost_at) - killed < 1000000000LL * slowness());
    CHECK_EQ(atomic_load(&duel.side.lost_peer), 1);
    while ((status = rcmi_channel_state(out)) == RCM_AGAIN)
        side_drive(&duel.side);
    CHECK(status < 0);
    CHECK_EQ(atomic_load(&out->lost_peer), 1);
    for (int i = 0; i < 100; i++)
        nap();
    CHECK_EQ(atomic_load(&duel.side.lost), 1);
    rcmi_channel_close(out);
    duel_close(&duel);
}

/* ---- Process state -------------------------------------------------------------------------- */

enum field { LIFE_START, LIFE_NAMESPACE, LIFE_CLOCKS, WHERE_KERNEL, WHERE_NETWORK };

/* The observed state of the child if one field of its address is changed. */
static enum rcmi_process_state look_but(const struct world *world, enum field field) {
    struct rcmi_address address;
    uint8_t blob[RCMI_ADDRESS_MAX];
    size_t len = world->address[1].len;
    CHECK_EQ(rcmi_address_parse(world->address[1].blob, len, &address), RCM_OK);
    uint64_t *const facts[] = {&address.life[0], &address.life[1], &address.life[2],
                               &address.where[0], &address.where[1]};
    ++*facts[field];
    address.life[0] += field == LIFE_CLOCKS; /* with other clocks the start time differs, too */
    CHECK_EQ(rcmi_address_write(&address, blob, sizeof blob, &len), RCM_OK);
    return rcmi_address_look(blob, len);
}

/* A stopped process is distinguished from a running one and from another process. */
void case_stopped_seen(void **state) {
    (void)state;
    struct setup setup = {0};
    struct duel duel;
    const struct world *world;
    int status;
    limit_ms(20000);
    duel_open(&duel, &setup, child_silent);
    world = duel.world;
    flag_wait(duel.world, FLAG_READY);
    const uint8_t *blob = world->address[1].blob;
    const size_t len = world->address[1].len;
    CHECK_EQ(rcmi_address_look(blob, len), RCMI_PROCESS_RUNS);
    CHECK_EQ(kill(duel.child, SIGSTOP), 0);
    CHECK_EQ(waitpid(duel.child, &status, WUNTRACED), duel.child);
    CHECK(WIFSTOPPED(status));
    CHECK_EQ(rcmi_address_look(blob, len), RCMI_PROCESS_STOPPED);
    CHECK_EQ(rcmi_address_look(blob, 16), RCMI_PROCESS_ELSEWHERE);
    CHECK_EQ(look_but(world, LIFE_START), RCMI_PROCESS_ENDED);
    CHECK_EQ(look_but(world, LIFE_NAMESPACE), RCMI_PROCESS_ELSEWHERE);
    CHECK_EQ(look_but(world, LIFE_CLOCKS), RCMI_PROCESS_STOPPED);
    CHECK_EQ(look_but(world, WHERE_KERNEL), RCMI_PROCESS_ELSEWHERE);
    CHECK_EQ(look_but(world, WHERE_NETWORK), RCMI_PROCESS_STOPPED);
    CHECK_EQ(kill(duel.child, SIGCONT), 0);
    while (rcmi_address_look(blob, len) != RCMI_PROCESS_RUNS)
        nap();
    child_kill(duel.child);
    CHECK_EQ(rcmi_address_look(blob, len), RCMI_PROCESS_ENDED);
    duel_close(&duel);
}
