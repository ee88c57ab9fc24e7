/* SPDX-License-Identifier: BSD-3-Clause */
/* Links and their control streams: set-up, rejection, farewell, and disturbance by unknown
 * peers. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "../../transport/link/link.h"
#include "cases.h"
#include "fd.h"
#include "harness.h"
#include "payload.h"
#include "wire_version.h"

void case_no_peers(void **state) {
    (void)state;
    struct setup setup = {.nranks = 4};
    struct pair pair;
    limit_ms(5000);
    pair_open(&pair, &setup);
    for (int i = 0; i < 1000; i++)
        (void)rcmi_node_progress(pair.a->node);
    rcmi_node_arm(pair.a->node);
    rcmi_node_arm(pair.a->node);
    rcmi_node_ring(pair.a->node);
    rcmi_node_send_linked(pair.a->node, NULL, 0, "x", 1);
    if (!test_self) {
        CHECK_EQ(strcmp(rcmi_node_transport(pair.a->node, 1), ""), 0);
        CHECK(rcmi_node_peer_status_page(pair.a->node, 1) == NULL);
    }
    CHECK(rcmi_node_status_page(pair.a->node) != NULL);
    CHECK_EQ(atomic_load(&pair.a->lost), 0);
    pair_close(&pair);
    /* A node that is never started. */
    struct world *world = world_new();
    struct side side;
    side_create(&side, world, 0, &setup);
    side_destroy(&side);
    rcmi_node_destroy(NULL);
    world_free(world);
}

/* The link is requested by one side, by the other, by both at once. */
void case_link_lazy(void **state) {
    (void)state;
    struct setup setup = {0};
    limit_ms(60000);
    for (int round = 0; round < rounds(100); round++) {
        struct pair pair;
        pair_open(&pair, &setup);
        if (round % 3 != 1)
            side_send(pair.a, 1);
        if (round % 3 != 0)
            side_send(pair.b, 0);
        while ((round % 3 != 1 && !atomic_load(&pair.b->received[0])) ||
               (round % 3 != 0 && !atomic_load(&pair.a->received[1])))
            nap();
        /* A message may arrive before its sender's own end is complete. */
        while (strcmp(rcmi_node_transport(pair.a->node, 1), link_transport()) != 0 ||
               strcmp(rcmi_node_transport(pair.b->node, 0), link_transport()) != 0)
            nap();
        CHECK_EQ(atomic_load(&pair.a->bad) + atomic_load(&pair.b->bad), 0);
        CHECK_EQ(atomic_load(&pair.a->lost) + atomic_load(&pair.b->lost), 0);
        pair_close(&pair);
    }
}

void case_control_order(void **state) {
    (void)state;
    struct setup setup = {0};
    struct pair pair;
    uint8_t byte = 0;
    limit_ms(20000);
    pair_open(&pair, &setup);
    CHECK_EQ(rcmi_node_send(pair.a->node, pair.other, &byte, 0), RCM_ERR_INVALID);
    CHECK_EQ(rcmi_node_send(pair.a->node, pair.other, &byte, 4097), RCM_ERR_INVALID);
    CHECK_EQ(rcmi_node_send(pair.a->node, -1, &byte, 1), RCM_ERR_INVALID);
    for (int i = 0; i < 1000; i++)
        side_send(pair.a, pair.other);
    while (atomic_load(&pair.b->received[0]) < 1000)
        nap();
    CHECK_EQ(atomic_load(&pair.b->bad), 0);
    pair_close(&pair);
}

static void *send_many(void *arg) {
    struct side *side = arg;
    for (int i = 0; i < 1000; i++)
        side_send(side, side->rank ? 0 : (test_self ? 0 : 1));
    return NULL;
}

/* Both sides at once, each from a thread of its own. */
void case_control_flood(void **state) {
    (void)state;
    struct setup setup = {0};
    struct pair pair;
    pthread_t thread;
    limit_ms(20000);
    pair_open(&pair, &setup);
    CHECK_EQ(pthread_create(&thread, NULL, send_many, pair.b), 0);
    if (!test_self)
        send_many(pair.a);
    pthread_join(thread, NULL);
    while (atomic_load(&pair.b->received[0]) < 1000u ||
           (!test_self && atomic_load(&pair.a->received[1]) < 1000u))
        nap();
    CHECK_EQ(atomic_load(&pair.b->bad) + atomic_load(&pair.a->bad), 0);
    pair_close(&pair);
}

struct blocked {
    struct side *side;
    _Atomic bool in, out;
};

static void block_loop(void *arg) {
    struct blocked *blocked = arg;
    atomic_store(&blocked->in, true);
    while (!atomic_load(&blocked->out))
        nap();
}

static void *block_side(void *arg) {
    struct blocked *blocked = arg;
    rcmi_loop_call(rcmi_node_loop(blocked->side->node), block_loop, blocked);
    return NULL;
}

/* A peer that stops reading does not fill this node's memory: the link is lost with that reason. */
void case_control_unread(void **state) {
    (void)state;
    enum { BYTES = 4096, AT_ONCE = 256 };
    static const uint8_t message[BYTES];
    struct setup setup = {0};
    struct pair pair;
    pthread_t thread;
    limit_ms(60000);
    pair_open(&pair, &setup);
    side_send(pair.a, 1);
    while (!atomic_load(&pair.b->received[0]))
        nap();
    struct blocked blocked = {.side = pair.b};
    CHECK_EQ(pthread_create(&thread, NULL, block_side, &blocked), 0);
    while (!atomic_load(&blocked.in))
        nap();
    /* Messages reach the link through the loop thread, which may lag behind. */
    for (int sent = 1; rcmi_node_send(pair.a->node, 1, message, BYTES) == RCM_OK; sent++)
        if (sent % AT_ONCE == 0)
            nap();
    CHECK_EQ(rcmi_last_error()->status, RCM_ERR_RESOURCE);
    CHECK(strstr(rcmi_last_error()->text, "does not read its control messages") != NULL);
    while (!atomic_load(&pair.a->lost))
        nap();
    CHECK_EQ(atomic_load(&pair.a->lost_status), RCM_ERR_RESOURCE);
    atomic_store(&blocked.out, true);
    pthread_join(thread, NULL);
    while (!atomic_load(&pair.b->lost))
        nap();
    pair_close(&pair);
}

struct slot_memory {
    const struct rcmi_node *node;
    size_t bytes;
};

static void slot_memory_look(void *arg) {
    struct slot_memory *look = arg;
    look->bytes = look->node->slot_memory;
}

static size_t slot_memory_of(struct side *side) {
    struct slot_memory look = {.node = side->node};
    rcmi_loop_call(rcmi_node_loop(side->node), slot_memory_look, &look);
    return look.bytes;
}

/* The slots of all channels together are limited; closed channels no longer count. */
void case_slot_memory(void **state) {
    (void)state;
    struct setup setup = {.slot_bytes = 512 * 1024, .slots = 4};
    struct rcmi_channel *writer, *reader, *more;
    const int readers[1] = {1};
    struct pair pair;
    limit_ms(20000);
    const size_t bytes = row_scale() * (2 << 20);
    char most[24];
    snprintf(most, sizeof most, "%zu", bytes * 3 / 2);
    setenv("RINGCOMM_SLOT_MEMORY", most, 1);
    pair_open(&pair, &setup);
    unsetenv("RINGCOMM_SLOT_MEMORY");
    for (uint32_t id = 0; id < 10; id++) {
        pair_channel(&pair, id, &writer, &reader);
        CHECK_EQ(slot_memory_of(pair.a), bytes);
        CHECK_EQ(rcmi_channel_open_writer(pair.a->node, 7, row_id(100), readers, 1, &more), RCM_OK);
        CHECK_EQ(rcmi_channel_state(more), RCM_ERR_RESOURCE);
        CHECK(strstr(rcm_last_error(), "RINGCOMM_SLOT_MEMORY") != NULL);
        rcmi_channel_close(more);
        rcmi_channel_close(writer);
        rcmi_channel_close(reader);
        while (slot_memory_of(pair.a) > 0 || slot_memory_of(pair.b) > 0)
            nap();
    }
    pair_close(&pair);
}

/* Same-host transports let a linked peer read this node's status page. */
void case_status_page(void **state) {
    (void)state;
    struct setup setup = {0};
    struct pair pair;
    limit_ms(10000);
    pair_open(&pair, &setup);
    _Atomic uint32_t *own = rcmi_node_status_page(pair.a->node);
    atomic_store(own, 0x12345678u);
    side_send(pair.a, pair.other);
    while (!atomic_load(&pair.b->received[0]))
        nap();
    const void *page = rcmi_node_peer_status_page(pair.b->node, 0);
    if (page)
        CHECK_EQ(atomic_load((const _Atomic uint32_t *)page), 0x12345678u);
    if (strstr(link_transport(), "shm"))
        CHECK(page != NULL);
    pair_close(&pair);
}

/* ---- Farewell ------------------------------------------------------------------------------ */

static void *send_farewell(void *arg) {
    struct side *side = arg;
    CHECK_EQ(rcmi_node_farewell(side->node, limit(), NULL), RCM_OK);
    return NULL;
}

void case_farewell(void **state) {
    (void)state;
    struct setup setup = {0};
    limit_ms(20000);
    for (int round = 0; round < 10; round++) {
        struct pair pair;
        struct rcmi_channel *writer, *reader;
        pthread_t thread;
        pair_open(&pair, &setup);
        pair_channel(&pair, 1, &writer, &reader);
        rcmi_channel_close(writer);
        rcmi_channel_close(reader);
        CHECK_EQ(pthread_create(&thread, NULL, send_farewell, pair.b), 0);
        send_farewell(pair.a);
        pthread_join(thread, NULL);
        side_destroy(pair.a);
        for (int i = 0; i < 20; i++)
            nap();
        CHECK_EQ(atomic_load(&pair.b->lost), 0);
        pair_close(&pair);
    }
}

/* A data plane fails on one side: the other side receives the reason. */
void case_failure_reported(void **state) {
    (void)state;
    struct setup setup = {0};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    struct rcmi_slot slot;
    limit_ms(20000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    (void)rcmi_fail_peer(RCM_ERR_SYSTEM, 1, "the cable\t%s", "was eaten");
    rcmi_node_link_failed(pair.a->node, 1);
    while (!atomic_load(&pair.a->lost) || !atomic_load(&pair.b->lost))
        nap();
    CHECK_EQ(rcmi_channel_peek(reader, &slot), RCM_ERR_PEER);
    CHECK(strstr(rcmi_last_error()->text, "it ended the link: the cable?was eaten"));
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
}

/* ---- Rejection ----------------------------------------------------------------------------- */

/* b's node has another setup: no message may arrive, and a must get the error (RCM_OK: any
 * error). */
static void refused(const struct setup *a_setup, const struct setup *b_setup, rcm_status expected) {
    struct world *world = world_new();
    struct side a, b;
    limit_ms(20000);
    side_create(&a, world, 0, a_setup);
    side_create(&b, world, 1, b_setup);
    side_start(&a);
    side_start(&b);
    side_send(&a, 1);
    while (!atomic_load(&a.lost))
        nap();
    CHECK_EQ(atomic_load(&a.lost_peer), 1);
    CHECK(atomic_load(&a.lost_status) < 0);
    if (expected != RCM_OK)
        CHECK_EQ(atomic_load(&a.lost_status), expected);
    CHECK_EQ(rcmi_node_send(a.node, 1, "x", 1) == RCM_OK, false);
    for (int i = 0; i < 100; i++)
        nap();
    CHECK_EQ(atomic_load(&a.lost), 1);
    CHECK_EQ(atomic_load(&b.received[0]), 0);
    CHECK_EQ(strcmp(rcmi_node_transport(b.node, 0), ""), 0);
    side_destroy(&a);
    side_destroy(&b);
    world_free(world);
}

void case_wrong_job(void **state) {
    (void)state;
    const struct setup a = {.job = 1}, b = {.job = 2};
    refused(&a, &b, RCM_ERR_PROTOCOL);
}

void case_wrong_secret(void **state) {
    (void)state;
    const struct setup a = {.secret = "open sesame"}, b = {.secret = "open barley"}, none = {0};
    refused(&a, &b, RCM_ERR_AUTH);
    /* A node without a secret cannot parse the proof, and does not answer it. */
    refused(&a, &none, RCM_OK);
    refused(&none, &a, RCM_OK);
}

void case_right_secret(void **state) {
    (void)state;
    struct setup setup = {.secret = "open sesame"};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    limit_ms(10000);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    payload_fill(pair.a->node, side_reserve(pair.a, writer), 1000, 1);
    rcmi_channel_commit(writer, 1000, 0);
    CHECK(payload_filled(pair.b->node, side_peek(pair.b, reader).bytes, 1000, 1));
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
}

/* Different host identities: same-host transports must not link the two, others must. */
void case_other_host(void **state) {
    (void)state;
    const struct setup a_setup = {.host_id = "one"}, b_setup = {.host_id = "two"};
    const bool serves = !transport_row()->same_host;
    struct world *world = world_new();
    struct side a, b;
    limit_ms(20000);
    side_create(&a, world, 0, &a_setup);
    side_create(&b, world, 1, &b_setup);
    side_start(&a);
    side_start(&b);
    side_send(&a, 1);
    while (!atomic_load(&b.received[0]) && !atomic_load(&a.lost))
        nap();
    CHECK_EQ(atomic_load(&b.received[0]), serves);
    CHECK_EQ(atomic_load(&a.lost), !serves);
    CHECK(rcmi_node_peer_status_page(b.node, 0) == NULL);
    side_destroy(&a);
    side_destroy(&b);
    world_free(world);
}

static void auto_world(struct world **world, struct side *sides) {
    const struct setup setup = {.nranks = 3, .transports = "auto"};
    *world = world_new();
    setenv("RINGCOMM_PEER_TIMEOUT", "1", 1);
    for (int i = 0; i < 3; i++)
        side_create(&sides[i], *world, i, &setup);
    unsetenv("RINGCOMM_PEER_TIMEOUT");
    for (int i = 0; i < 3; i++)
        CHECK_EQ(rcmi_node_attend(sides[i].node), RCM_OK);
}

/* A peer that listens but does not accept yet is waited for: no side uses the next transport, over
 * which a plan made for shared memory does not work. */
void case_late_answer(void **state) {
    (void)state;
    const int readers[2] = {1, 2};
    const uint32_t id = 3 | RCMI_ID_MULTICAST;
    struct rcmi_channel *writer, *in[2];
    struct world *world;
    struct side sides[3];
    if (strcmp(test_transport, "shm") != 0)
        return;
    limit_ms(20000);
    auto_world(&world, sides);
    side_start(&sides[0]);
    side_start(&sides[1]);
    CHECK_EQ(rcmi_channel_open_writer(sides[0].node, 1, id, readers, 2, &writer), RCM_OK);
    CHECK_EQ(rcmi_channel_open_reader(sides[1].node, 1, id, 0, &in[0]), RCM_OK);
    for (int64_t until = rcmi_now_ns() + 2500000000; rcmi_now_ns() < until; nap())
        CHECK_EQ(rcmi_channel_state(writer), RCM_AGAIN);
    side_start(&sides[2]);
    CHECK_EQ(rcmi_channel_open_reader(sides[2].node, 1, id, 0, &in[1]), RCM_OK);
    side_ready(&sides[0], writer);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(strcmp(rcmi_node_transport(sides[0].node, i + 1), "shm"), 0);
        rcmi_channel_close(in[i]);
    }
    rcmi_channel_close(writer);
    for (int i = 0; i < 3; i++)
        side_destroy(&sides[i]);
    world_free(world);
}

/* Changes the published name, so that no process listens on it. */
static void unix_name_spoil(struct world *world, int rank) {
    struct rcmi_address address;
    size_t len = world->address[rank].len;
    CHECK_EQ(rcmi_address_parse(world->address[rank].blob, len, &address), RCM_OK);
    memset(address.unix_name + strlen("ringcomm-"), 'x', 8);
    CHECK_EQ(rcmi_address_write(&address, world->address[rank].blob,
                                sizeof world->address[rank].blob, &len),
             RCM_OK);
    CHECK_EQ(len, world->address[rank].len);
}

/* Where a peer cannot be reached by shared memory, the next transport is used. A channel that needs
 * shared memory then fails with the reason. */
void case_detour_named(void **state) {
    (void)state;
    const int readers[2] = {1, 2};
    struct rcmi_channel *writer;
    struct world *world;
    struct side sides[3];
    if (strcmp(test_transport, "shm") != 0)
        return;
    limit_ms(20000);
    auto_world(&world, sides);
    unix_name_spoil(world, 1);
    unix_name_spoil(world, 2);
    for (int i = 0; i < 3; i++)
        side_start(&sides[i]);
    CHECK_EQ(rcmi_channel_open_writer(sides[0].node, 1, 3 | RCMI_ID_MULTICAST, readers, 2, &writer),
             RCM_OK);
    while (rcmi_channel_state(writer) == RCM_AGAIN)
        side_drive(&sides[0]);
    CHECK_EQ(rcmi_channel_state(writer), RCM_ERR_SYSTEM);
    CHECK(strstr(rcm_last_error(), "(tcp, because its Unix socket does not work: ") != NULL);
    CHECK(strstr(rcm_last_error(), strerror(ECONNREFUSED)) != NULL);
    rcmi_channel_close(writer);
    for (int i = 0; i < 3; i++)
        side_destroy(&sides[i]);
    world_free(world);
}

/* ---- Unknown peers ------------------------------------------------------------------------- */

static int unknown_peer_connect(const struct rcmi_address *address, int i) {
    int fd = -1;
    rcm_status status = i < address->ntcp ? rcmi_connect_start(&address->tcp[i], &fd)
                                          : rcmi_connect_start_unix(address->unix_name, &fd);
    CHECK_EQ(status, RCM_OK);
    CHECK_EQ(rcmi_fd_poll(fd, 4 /* POLLOUT */, limit()), RCM_OK);
    return fd;
}

/* Sends bytes that are no greeting, half of one, a valid one followed by garbage, or nothing. */
static void unknown_peer_send(int fd, int kind, uint32_t *random) {
    uint8_t noise[2000];
    struct rcmi_hello hello = {
        .magic = RCMI_HELLO_MAGIC,
        .version = RCMI_WIRE_VERSION,
        .kind = kind % 2 ? RCMI_HELLO_CONTROL : RCMI_HELLO_DATA,
        .index = (uint8_t)(kind * 50),
        .from = kind % 3 ? 1 : 0xffffffffu,
        .to = 0,
        .nranks = 2,
        .job = 4711,
    };
    size_t len = 0;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)random_next(random);
    snprintf(hello.transport, sizeof hello.transport, "%s",
             kind % 5 ? link_transport() : "nonsense");
    if (kind % 4 != 0)
        memcpy(noise, &hello, sizeof hello);
    if (kind % 4 == 1)
        (void)rcmi_fd_write(fd, noise, sizeof hello / 2, &len);
    else if (kind % 4 == 2)
        (void)rcmi_fd_write(fd, noise, sizeof hello, &len);
    else if (kind != 0)
        (void)rcmi_fd_write(fd, noise, sizeof noise, &len);
}

#define UNKNOWN_PEERS 24

/* Unknown peers at the listeners do not stop the nodes' work. Without a secret, an unknown peer
 * with a valid greeting as rank 1 would count as rank 1; so the test uses a secret. */
void case_garbage(void **state) {
    (void)state;
    struct setup setup = {.secret = "open sesame"};
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    struct rcmi_address address;
    const void *blob;
    size_t len;
    int fds[UNKNOWN_PEERS];
    uint32_t random = 31;
    limit_ms(20000);
    pair_open(&pair, &setup);
    rcmi_node_address(pair.a->node, &blob, &len);
    CHECK_EQ(rcmi_address_parse(blob, len, &address), RCM_OK);
    int ways = address.ntcp + (address.unix_name[0] != 0);
    CHECK(ways > 0);
    for (int i = 0; i < UNKNOWN_PEERS; i++) {
        fds[i] = unknown_peer_connect(&address, i % ways);
        unknown_peer_send(fds[i], i / ways, &random);
    }
    pair_channel(&pair, 1, &writer, &reader);
    for (uint64_t number = 0; number < 100; number++) {
        if (number < UNKNOWN_PEERS && number % 2)
            rcmi_fd_close(&fds[number]);
        payload_fill(pair.a->node, side_reserve(pair.a, writer), 1000, number);
        rcmi_channel_commit(writer, 1000, number);
        CHECK(payload_filled(pair.b->node, side_peek(pair.b, reader).bytes, 1000, number));
        rcmi_channel_release(reader);
    }
    side_send(pair.a, 1);
    while (!atomic_load(&pair.b->received[0]))
        nap();
    CHECK_EQ(atomic_load(&pair.a->lost) + atomic_load(&pair.b->lost), 0);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
    for (int i = 0; i < UNKNOWN_PEERS; i++)
        rcmi_fd_close(&fds[i]);
}

/* A peer dies between its offer and its data connection, while nothing is read from it. */
void case_dies_in_setup(void **state) {
    (void)state;
    if (!transport_is("tcp")) /* the offer below is tcp's */
        return;
    struct setup setup = {0};
    struct world *world = world_new();
    struct rcmi_address address;
    struct side side;
    struct rcmi_reply reply = {.magic = 0};
    struct rcmi_hello hello = {
        .magic = RCMI_HELLO_MAGIC,
        .version = RCMI_WIRE_VERSION,
        .kind = RCMI_HELLO_CONTROL,
        .from = 1,
        .to = 0,
        .nranks = 2,
        .job = 4711,
    };
    const uint32_t offer[] = {4, RCMI_FRAME_OFFER, 1}; /* four bytes, no descriptors: one socket */
    uint32_t answer[3];
    limit_ms(20000);
    setenv("RINGCOMM_PEER_TIMEOUT", "600", 1); /* not found by silence */
    snprintf(hello.transport, sizeof hello.transport, "%s", test_transport);
    side_create(&side, world, 0, &setup);
    unsetenv("RINGCOMM_PEER_TIMEOUT");
    side_start(&side);
    CHECK_EQ(rcmi_address_parse(world->address[0].blob, world->address[0].len, &address), RCM_OK);
    int fd = unknown_peer_connect(&address, 0);
    CHECK_EQ(rcmi_fd_write_full(fd, &hello, sizeof hello, limit()), RCM_OK);
    CHECK_EQ(rcmi_fd_read_full(fd, &reply, sizeof reply, limit()), RCM_OK);
    CHECK_EQ(reply.status, RCMI_REPLY_OK);
    CHECK_EQ(rcmi_fd_write_full(fd, offer, sizeof offer, limit()), RCM_OK);
    CHECK_EQ(rcmi_fd_read_full(fd, answer, sizeof answer, limit()), RCM_OK);
    CHECK(memcmp(answer, offer, sizeof offer) == 0);
    CHECK_EQ(atomic_load(&side.lost), 0);
    rcmi_fd_close(&fd);
    while (!atomic_load(&side.lost))
        nap();
    CHECK_EQ(atomic_load(&side.lost_peer), 1);
    CHECK_EQ(atomic_load(&side.lost_status), RCM_ERR_PEER);
    side_destroy(&side);
    world_free(world);
}

/* ---- Other users --------------------------------------------------------------------------- */

/* Greets correctly as another user; exits with the status of the answer. */
static void greet_as_nobody(const struct rcmi_address *address, const char *transport) {
    struct rcmi_hello hello = {
        .magic = RCMI_HELLO_MAGIC,
        .version = RCMI_WIRE_VERSION,
        .kind = RCMI_HELLO_CONTROL,
        .from = 1,
        .to = 0,
        .nranks = 2,
        .job = 4711,
    };
    struct rcmi_reply reply = {.magic = 0};
    int fd = -1;
    snprintf(hello.transport, sizeof hello.transport, "%s", transport);
    if (setuid(65534) != 0 || rcmi_connect_start_unix(address->unix_name, &fd) != RCM_OK ||
        rcmi_fd_write_full(fd, &hello, sizeof hello, limit()) != RCM_OK ||
        rcmi_fd_read_full(fd, &reply, sizeof reply, limit()) != RCM_OK)
        _exit(100);
    _exit(reply.status);
}

/* Another user gets no memory over the Unix socket, even with valid credentials; our own user
 * does. */
void case_other_user(void **state) {
    (void)state;
    struct setup setup = {0};
    struct world *world = world_new();
    struct rcmi_address address;
    struct side side;
    int status = 0;
    limit_ms(20000);
    side_create(&side, world, 0, &setup);
    CHECK_EQ(rcmi_address_parse(world->address[0].blob, world->address[0].len, &address), RCM_OK);
    if (address.unix_name[0] && geteuid() == 0) { /* only root can change the user */
        pid_t pid = fork();                       /* before there are threads */
        if (pid == 0)
            greet_as_nobody(&address, link_transport());
        side_start(&side);
        while (waitpid(pid, &status, WNOHANG) != pid)
            nap();
        CHECK(WIFEXITED(status));
        CHECK_EQ(WEXITSTATUS(status), RCMI_REPLY_REFUSED);
        CHECK(rcmi_node_transport(side.node, 1)[0] == 0);
    }
    side_destroy(&side);
    world_free(world);
}

/* ---- Chaos --------------------------------------------------------------------------------- */

/* A backend that loops back has no link to disturb. */
void case_chaos_refused(void **state) {
    (void)state;
    const struct setup setup = {.nranks = 1};
    struct world *world = world_new();
    struct side side;
    CHECK_EQ(side_try(&side, world, 0, &setup), RCM_ERR_CONFIG);
    CHECK(strstr(rcmi_last_error()->text, test_transport) != NULL);
    world_free(world);
}
