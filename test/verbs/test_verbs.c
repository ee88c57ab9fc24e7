/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs row over devices that are played (provider.h): what goes wrong with them, which ports
 * are chosen, and what a message costs. That it is a transport is the conformance suite's matter.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>
#include "../../transport/verbs/choice.h"
#include "../transport/harness.h"
#include "fd.h"
#include "provider.h"
#include "transport.h"

static const struct provider_setup two_devices = {.seed = 3, .devices = 2, .inline_max = 220};

/* ---- Choice ---------------------------------------------------------------------------------- */

static struct verbs_offered port(uint8_t layer, uint64_t subnet, uint32_t speed) {
    return (struct verbs_offered){.layer = layer, .subnet = subnet, .speed = speed};
}

static void chosen(const struct verbs_offered *mine, int nmine, const struct verbs_offered *theirs,
                   int ntheirs, unsigned spread, int first, int second) {
    struct verbs_choice choice = {-1, -1};
    CHECK_EQ(verbs_choose(mine, nmine, theirs, ntheirs, spread, &choice), first >= 0);
    CHECK_EQ(choice.mine, first);
    CHECK_EQ(choice.theirs, second);
}

static void case_choice(void **state) {
    (void)state;
    const struct verbs_offered ours[] = {port(2, 1, 100), port(2, 2, 200), port(1, 2, 400)};
    const struct verbs_offered rails[] = {port(2, 2, 200), port(2, 1, 400)};
    const struct verbs_offered alone[] = {port(1, 9, 100)};
    const struct verbs_offered four[] = {port(2, 1, 7), port(2, 1, 7), port(2, 1, 7),
                                         port(2, 1, 7)};
    chosen(ours, 3, rails, 2, 0, 1, 0); /* the faster rail */
    chosen(ours, 1, rails, 2, 0, 0, 1); /* the only one in common */
    chosen(ours, 3, alone, 1, 0, -1, -1);
    chosen(ours, 0, rails, 2, 0, -1, -1);
    chosen(ours + 2, 1, rails, 1, 0, -1, -1); /* the same number, of another layer */
    bool used[16] = {false};
    for (unsigned spread = 0; spread < 16; spread++) {
        struct verbs_choice choice;
        CHECK(verbs_choose(four, 4, four, 4, spread, &choice));
        used[choice.mine * 4 + choice.theirs] = true;
    }
    for (int i = 0; i < 16; i++)
        CHECK(used[i]);
}

/* ---- A pair ---------------------------------------------------------------------------------- */

/* Two ranks; false: one could not be made, which has a sentence. */
static bool ranks_open(struct pair *pair, const char *transports) {
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

/* One message each of two sizes; false once one side has lost the other. */
static bool exchange(struct pair *pair, struct rcmi_channel *writer, struct rcmi_channel *reader,
                     uint64_t number) {
    const size_t len = number % 2 ? 100 : 4000;
    struct rcmi_slot slot = {0};
    void *bytes = NULL;
    rcm_status status;
    while ((status = reserve_slot(writer, &bytes)) == RCM_AGAIN)
        pair_drive(pair);
    if (status != RCM_OK)
        return false;
    fill(bytes, len, number);
    rcmi_channel_commit(writer, len, number);
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

/* There is no memory for the channel; the link is well. */
static bool refused(const struct rcmi_channel *channel) {
    return rcmi_channel_state(channel) == RCM_ERR_RESOURCE;
}

/* All that two ranks do, with an error somewhere: it works, or a sentence says what does not, on
 * both sides, and soon. *ret_by: by what they were linked, "" if they were not. */
static void live(const char *transports, int messages, char ret_by[16]) {
    struct pair pair;
    struct rcmi_channel *writer = NULL, *reader = NULL;
    const int readers[1] = {1};
    bool works = ranks_open(&pair, transports);
    ret_by[0] = '\0';
    if (works) {
        CHECK_EQ(rcmi_channel_open_writer(pair.a->node, 7, 1, readers, 1, &writer), RCM_OK);
        CHECK_EQ(rcmi_channel_open_reader(pair.b->node, 7, 1, 0, &reader), RCM_OK);
        for (int i = 0; works && i < messages; i++) {
            works = exchange(&pair, writer, reader, (uint64_t)i);
            snprintf(ret_by, 16, "%s", works ? rcmi_node_transport(pair.a->node, 1) : "");
        }
        while (!works && !refused(writer) && !refused(reader) &&
               !(atomic_load(&pair.a->lost) && atomic_load(&pair.b->lost)))
            pair_drive(&pair);
        rcmi_channel_close(writer);
        rcmi_channel_close(reader);
    }
    side_destroy(pair.a);
    side_destroy(pair.b);
    world_free(pair.world);
}

/* ---- Failures -------------------------------------------------------------------------------- */

/* Each call fails once at each of its first places, and at some later ones. */
static void case_calls_fail(void **state) {
    (void)state;
    static const int places[] = {1, 2, 3, 4, 5, 6, 8, 11, 60, 300, 520};
    char by[16];
    for (int call = 0; call < PROVIDER_CALLS; call++)
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            limit_ms(10000);
            provider_install(&two_devices);
            provider_fail_call((enum provider_call)call, places[i]);
            live("verbs,tcp", 12, by);
            const bool reached = provider_calls((enum provider_call)call) >= places[i];
            provider_remove();
            if (!reached)
                break;
        }
}

/* Each error of a completion, of a hello and of messages: in the first case there is another way,
 * in the second both ranks learn of it. */
static void case_completions_fail(void **state) {
    (void)state;
    static const enum ibv_wc_status errors[] = {
        IBV_WC_LOC_LEN_ERR,  IBV_WC_LOC_QP_OP_ERR,  IBV_WC_LOC_PROT_ERR,      IBV_WC_WR_FLUSH_ERR,
        IBV_WC_BAD_RESP_ERR, IBV_WC_LOC_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR,   IBV_WC_REM_ACCESS_ERR,
        IBV_WC_REM_OP_ERR,   IBV_WC_RETRY_EXC_ERR,  IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_FATAL_ERR,
        IBV_WC_GENERAL_ERR,  (enum ibv_wc_status)99};
    char by[16];
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        for (int number = 1; number < 12; number += number < 5 ? 1 : 3) {
            limit_ms(10000);
            provider_install(&two_devices);
            provider_fail_send(errors[i], number);
            live("verbs,tcp", 12, by);
            provider_remove();
            CHECK_EQ(strcmp(by, number <= 2 ? "tcp" : ""), 0);
        }
}

/* The network is cut before there is a link: another way. And later: both are told, though one only
 * receives. */
static void case_cut(void **state) {
    (void)state;
    char by[16];
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    limit_ms(20000);
    provider_install(&two_devices);
    provider_cut(true);
    live("verbs,tcp", 4, by);
    CHECK_EQ(strcmp(by, "tcp"), 0);
    provider_cut(false);
    setenv("RINGCOMM_PEER_TIMEOUT", "1", 1);
    CHECK(ranks_open(&pair, "verbs"));
    unsetenv("RINGCOMM_PEER_TIMEOUT");
    pair_channel(&pair, 1, &writer, &reader);
    CHECK(exchange(&pair, writer, reader, 0));
    provider_cut(true);
    const int64_t cut_at = rcmi_now_ns();
    while (!atomic_load(&pair.a->lost) || !atomic_load(&pair.b->lost))
        nap();
    CHECK(rcmi_now_ns() - cut_at < 3000000000LL * slowness());
    CHECK_EQ(atomic_load(&pair.b->lost_status), RCM_ERR_PEER);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    side_destroy(pair.a);
    side_destroy(pair.b);
    world_free(pair.world);
    provider_remove();
}

/* ---- Ports ----------------------------------------------------------------------------------- */

/* b has the devices of that list, a has all; the sentence of a refusal, or by what they are linked.
 */
static void linked_with(const char *devices, const char *by, const char *sentence) {
    const struct setup setup = {.transports = by[0] ? "verbs,tcp" : "verbs"};
    struct world *world = world_new();
    struct side a, b;
    limit_ms(10000);
    setenv("RINGCOMM_VERBS_DEVICES", "fake0", 1);
    side_create(&a, world, 0, &setup);
    setenv("RINGCOMM_VERBS_DEVICES", devices, 1);
    side_create(&b, world, 1, &setup);
    unsetenv("RINGCOMM_VERBS_DEVICES");
    side_start(&a);
    side_start(&b);
    side_send(&a, 1);
    while (!atomic_load(&a.lost) && !rcmi_node_transport(a.node, 1)[0])
        nap();
    CHECK_EQ(strcmp(rcmi_node_transport(a.node, 1), by), 0);
    if (atomic_load(&a.lost)) {
        CHECK(rcmi_node_send(a.node, 1, "x", 1) < 0);
        CHECK(strstr(rcm_last_error(), sentence) != NULL);
    }
    side_destroy(&a);
    side_destroy(&b);
    world_free(world);
}

static void case_ports(void **state) {
    (void)state;
    const struct provider_setup subnets = {.seed = 4, .devices = 4, .subnets = 2, .inline_max = 0};
    provider_install(&subnets);
    linked_with("fake2:1", "verbs", "");
    linked_with("fake1,fake3,fake2", "verbs", "");
    linked_with("fake1,fake3", "tcp", "");
    linked_with("fake1,fake3", "",
                "no port of rank 0 is in a subnet of rank 1's (fake1:1, fake3:1)");
    linked_with("fake9", "tcp", "");
    provider_remove();
}

/* A device that another one's name begins with is not meant, nor is a port that it does not have.
 */
static void case_names(void **state) {
    (void)state;
    static const char *const wrong[] = {"fake", "fake01", "fake0:2", "fake0:", ",", "fake1:11"};
    char reason[256];
    const struct rcmi_need need = {.nranks = 2, .slots = 4, .slot_bytes = 4096};
    const struct rcmi_transport *row = transport_row();
    provider_install(&two_devices);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setenv("RINGCOMM_VERBS_DEVICES", wrong[i], 1);
        CHECK(!row->probe(&need, reason, sizeof reason));
        CHECK(strstr(reason, wrong[i]) != NULL);
    }
    setenv("RINGCOMM_VERBS_DEVICES", "fake1:1", 1);
    CHECK(row->probe(&need, reason, sizeof reason));
    CHECK_EQ(strcmp(reason, "fake1:1"), 0);
    setenv("RINGCOMM_VERBS_GID_INDEX", "0", 1);
    CHECK(!row->probe(&need, reason, sizeof reason));
    CHECK(strstr(reason, "RINGCOMM_VERBS_GID_INDEX") != NULL);
    unsetenv("RINGCOMM_VERBS_GID_INDEX");
    unsetenv("RINGCOMM_VERBS_DEVICES");
    provider_remove();
}

/* Whether a process that may lock so many bytes, and is not the superuser, has the row. */
static bool has_with_locked(rlim_t bytes, char reason[256]) {
    const struct rcmi_need need = {.nranks = 3, .slots = 4, .slot_bytes = 4096};
    const struct rlimit limit = {bytes, bytes};
    CHECK_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    return transport_row()->probe(&need, reason, 256);
}

static void child_locked(void) {
    enum { NOTICES = 512 * 192, SLOTS = 2 * 4 * 4096, ALL = 2 * (NOTICES + 9 * SLOTS) };
    char reason[256], expected[100];
    CHECK(geteuid() != 0 || seteuid(65534) == 0);
    CHECK(has_with_locked(ALL, reason));
    CHECK(!has_with_locked(ALL - 1, reason));
    snprintf(expected, sizeof expected, "it needs %d bytes of locked memory, %d for each peer", ALL,
             ALL / 2);
    CHECK(strstr(reason, expected) != NULL);
    _exit(0);
}

/* Memory for slots of both kinds of channels, to each peer, must be allowed: or it is known before
 * there is a link that the row cannot be had. */
static void case_locked_memory(void **state) {
    (void)state;
    limit_ms(10000);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        provider_install(&two_devices);
        child_locked();
    }
    child_join(pid);
}

/* ---- Cost ------------------------------------------------------------------------------------ */

/* One call for a message, be it a write and a send; one for the credits of half the slots; one
 * completion of what is sent for 32, and for each probe; no event while all poll. */
static void case_cost(void **state) {
    (void)state;
    enum { MESSAGES = 3000, PROBES = 200 };
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    limit_ms(20000);
    provider_install(&two_devices);
    CHECK(ranks_open(&pair, "verbs"));
    pair_channel(&pair, 1, &writer, &reader);
    const struct provider_counts before = provider_counts();
    for (uint64_t number = 0; number < MESSAGES; number++)
        CHECK(exchange(&pair, writer, reader, number));
    const struct provider_counts after = provider_counts();
    const uint64_t posts = after.posts - before.posts, sends = after.sends - before.sends;
    const uint64_t completions = after.send_completions - before.send_completions;
    CHECK(sends >= MESSAGES + MESSAGES / 3 && sends <= 2 * MESSAGES + MESSAGES / 64);
    CHECK(after.writes - before.writes <= MESSAGES / 2 + PROBES);
    CHECK(posts <= sends + PROBES);
    CHECK(completions <= (sends + MESSAGES / 2) / 32 + PROBES);
    CHECK(after.events - before.events <= PROBES);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    side_destroy(pair.a);
    side_destroy(pair.b);
    world_free(pair.world);
    provider_remove();
}

/* ---- The loop's part ------------------------------------------------------------------------- */

/* What was committed and found no room leaves, though nobody is in progress any more. */
static void case_left_alone(void **state) {
    (void)state;
    enum { SLOTS = 240 }; /* two entries each: more than the send queue has, fewer than receives */
    const struct setup setup = {.transports = "verbs", .slots = SLOTS, .slot_bytes = 256};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    void *bytes = NULL;
    limit_ms(10000);
    provider_install(&two_devices);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    for (uint64_t number = 0; number < SLOTS; number++) {
        CHECK_EQ(reserve_slot(writer, &bytes), RCM_OK);
        rcmi_channel_commit(writer, 200, number);
    }
    const uint64_t before = provider_counts().sends;
    const int64_t began = rcmi_now_ns();
    while (provider_counts().sends < SLOTS)
        nap();
    CHECK(before < SLOTS);
    CHECK(rcmi_now_ns() - began < 600000000LL * slowness()); /* not when links are probed */
    for (uint64_t number = 0; number < SLOTS; number++) {
        CHECK_EQ(side_peek(pair.b, reader).meta, number);
        rcmi_channel_release(reader);
    }
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
    provider_remove();
}

/* With the loop's thread, which sees nothing meanwhile: the hardware goes on, and a thread takes
 * the event of what it does. */
static void take_event(void *arg) {
    struct pair *pair = arg;
    const uint64_t before = provider_counts().events;
    provider_hold(false);
    while (provider_counts().events == before)
        nap();
    CHECK(rcmi_node_progress(pair->a->node));
}

/* The same, though another thread takes the event for which the loop waits. */
static void case_event_taken(void **state) {
    (void)state;
    enum { SLOTS = 240 };
    const struct setup setup = {.transports = "verbs", .slots = SLOTS, .slot_bytes = 256};
    struct pair pair;
    struct rcmi_sleep sleep;
    struct rcmi_channel *writer, *reader;
    void *bytes = NULL;
    limit_ms(10000);
    provider_install(&two_devices);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    provider_hold(true);
    for (uint64_t number = 0; number < SLOTS; number++) {
        CHECK_EQ(reserve_slot(writer, &bytes), RCM_OK);
        rcmi_channel_commit(writer, 200, number);
    }
    rcmi_node_sleep_begin(pair.a->node, &sleep);
    rcmi_loop_call(rcmi_node_loop(pair.a->node), take_event, &pair);
    const int64_t began = rcmi_now_ns();
    while (provider_counts().sends < SLOTS)
        nap();
    CHECK(rcmi_now_ns() - began < 300000000LL * slowness()); /* not when links are probed */
    rcmi_node_sleep_end(pair.a->node, &sleep);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
    provider_remove();
}

/* ---- The end --------------------------------------------------------------------------------- */

/* A slot is given back after its link has ended, which is the node's end, too, for that link. */
static void case_released_late(void **state) {
    (void)state;
    const struct setup setup = {.transports = "verbs", .nranks = 3, .slots = 4};
    struct world *world = world_new();
    struct side sides[3] = {{0}};
    struct rcmi_channel *writers[3] = {NULL}, *readers[3] = {NULL};
    const int to[1] = {1};
    limit_ms(10000);
    provider_install(&two_devices);
    for (int i = 0; i < 3; i++)
        side_create(&sides[i], world, i, &setup);
    for (int i = 0; i < 3; i++)
        side_start(&sides[i]);
    for (int i = 0; i < 3; i += 2) {
        CHECK_EQ(rcmi_channel_open_writer(sides[i].node, 7, 1, to, 1, &writers[i]), RCM_OK);
        CHECK_EQ(rcmi_channel_open_reader(sides[1].node, 7, 1, i, &readers[i]), RCM_OK);
        side_ready(&sides[i], writers[i]);
        (void)side_reserve(&sides[i], writers[i]);
        rcmi_channel_commit(writers[i], 100, 5);
        CHECK_EQ(side_peek(&sides[1], readers[i]).meta, 5);
    }
    rcmi_channel_close(writers[0]);
    side_destroy(&sides[0]);
    while (!atomic_load(&sides[1].lost))
        nap();
    rcmi_channel_release(readers[0]);
    side_destroy(&sides[1]); /* with its channels */
    rcmi_channel_close(writers[2]);
    side_destroy(&sides[2]);
    world_free(world);
    provider_remove();
}

/* A program has closed all descriptors that are not its own, and has opened others since: those
 * stay open when the node ends. In a child, which keeps what of the devices cannot be closed. */
static void child_closed(void) {
    const struct setup setup = {.transports = "verbs"};
    struct side side = {0};
    provider_install(&two_devices);
    side_create(&side, world_new(), 0, &setup);
    side_start(&side);
    const int last = dup(STDERR_FILENO);
    for (int fd = STDERR_FILENO + 1; fd <= last; fd++)
        close(fd);
    while (open("/dev/null", O_RDONLY) < last)
        ;
    while (!rcmi_node_is_broken(side.node))
        nap();
    (void)rcmi_fd_distrust(true); /* as who destroys a node that is broken */
    side_destroy(&side);
    for (int fd = STDERR_FILENO + 1; fd <= last; fd++)
        CHECK(fcntl(fd, F_GETFD) >= 0);
    _exit(0);
}

static void case_descriptors_closed(void **state) {
    (void)state;
    limit_ms(10000);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        child_closed();
    child_join(pid);
}

int main(int argc, char **argv) {
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(case_choice),        cmocka_unit_test(case_ports),
        cmocka_unit_test(case_names),         cmocka_unit_test(case_locked_memory),
        cmocka_unit_test(case_cost),          cmocka_unit_test(case_cut),
        cmocka_unit_test(case_calls_fail),    cmocka_unit_test(case_completions_fail),
        cmocka_unit_test(case_left_alone),    cmocka_unit_test(case_event_taken),
        cmocka_unit_test(case_released_late), cmocka_unit_test(case_descriptors_closed),
    };
    test_transport = "verbs";
    alarm(100);
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(cases, NULL, NULL);
}
