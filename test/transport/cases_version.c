/* SPDX-License-Identifier: BSD-3-Clause */
/* A node and a peer of another wire version, imitated with plain sockets: each gets the other's
 * version, whatever follows the first bytes of a greeting there. */
#include <string.h>
#include <unistd.h>
#include "cases.h"
#include "harness.h"
#include "link/link.h"
#include "wire_version.h"

enum { OTHER = RCMI_WIRE_VERSION + 91, POLLED_IN = 1, POLLED_OUT = 4 };

static const size_t lengths[] = {RCMI_HELLO_HEAD, sizeof(struct rcmi_hello),
                                 sizeof(struct rcmi_hello) + 1000};

static int connect_to(const struct rcmi_address *address) {
    int fd = -1;
    CHECK_EQ(address->ntcp ? rcmi_connect_start(&address->tcp[0], &fd)
                           : rcmi_connect_start_unix(address->unix_name, &fd),
             RCM_OK);
    CHECK_EQ(rcmi_fd_poll(fd, POLLED_OUT, limit()), RCM_OK);
    return fd;
}

/* A greeting of another version, whose rest is unknown, is answered with our version. */
void case_greeted_by_version(void **state) {
    (void)state;
    struct setup setup = {0};
    struct world *world = world_new();
    struct rcmi_address address;
    struct side side;
    limit_ms(20000);
    side_create(&side, world, 0, &setup);
    side_start(&side);
    CHECK_EQ(rcmi_address_parse(world->address[0].blob, world->address[0].len, &address), RCM_OK);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        uint8_t greeting[sizeof(struct rcmi_hello) + 1000];
        const struct rcmi_hello head = {.magic = RCMI_HELLO_MAGIC, .version = OTHER};
        struct rcmi_reply reply = {.magic = 0};
        size_t len = 1;
        char more;
        memset(greeting, 0xee, sizeof greeting);
        memcpy(greeting, &head, RCMI_HELLO_HEAD);
        int fd = connect_to(&address);
        CHECK_EQ(rcmi_fd_write_full(fd, greeting, lengths[i], limit()), RCM_OK);
        CHECK_EQ(rcmi_fd_read_full(fd, &reply, sizeof reply, limit()), RCM_OK);
        CHECK_EQ(reply.magic, RCMI_HELLO_MAGIC);
        CHECK_EQ(reply.version, RCMI_WIRE_VERSION);
        CHECK_EQ(reply.status, RCMI_REPLY_REFUSED);
        CHECK(strstr(reply.text, "wire version") != NULL);
        CHECK_EQ(rcmi_fd_poll(fd, POLLED_IN, limit()), RCM_OK);
        CHECK_EQ(rcmi_fd_read(fd, &more, 1, &len), RCM_ERR_PEER); /* and nothing else */
        rcmi_fd_close(&fd);
    }
    CHECK(rcmi_node_transport(side.node, 1)[0] == 0);
    CHECK_EQ(atomic_load(&side.lost), 0);
    side_destroy(&side);
    world_free(world);
}

/* Listens at the address of a peer. */
static int listen_as(struct world *world, int rank) {
    struct rcmi_address address;
    size_t len = 0;
    int fd = -1;
    CHECK_EQ(rcmi_address_parse(world->address[0].blob, world->address[0].len, &address), RCM_OK);
    if (address.unix_name[0]) {
        snprintf(address.unix_name, sizeof address.unix_name, "ringcomm-test-%d", (int)getpid());
        CHECK_EQ(rcmi_listen_unix(address.unix_name, &fd), RCM_OK);
    } else {
        address.ntcp = 1;
        CHECK_EQ(rcmi_resolve("127.0.0.1", 0, 0, &address.tcp[0]), RCM_OK);
        CHECK_EQ(rcmi_listen(&address.tcp[0], &fd), RCM_OK);
    }
    CHECK_EQ(rcmi_address_write(&address, world->address[rank].blob,
                                sizeof world->address[rank].blob, &len),
             RCM_OK);
    atomic_store(&world->address[rank].len, (uint32_t)len);
    return fd;
}

/* Answers one greeting with `len` bytes of a reply of another version. */
static void answer_as_other(int listener, size_t len) {
    struct rcmi_hello hello;
    struct rcmi_reply reply = {
        .magic = RCMI_HELLO_MAGIC, .version = OTHER, .status = 77, .text = "\x1b[2J"};
    int fd = -1;
    CHECK_EQ(rcmi_fd_poll(listener, POLLED_IN, limit()), RCM_OK);
    CHECK_EQ(rcmi_accept(listener, &fd), RCM_OK);
    CHECK_EQ(rcmi_fd_read_full(fd, &hello, sizeof hello, limit()), RCM_OK);
    CHECK_EQ(hello.version, RCMI_WIRE_VERSION);
    CHECK_EQ(rcmi_fd_write_full(fd, &reply, len, limit()), RCM_OK);
    rcmi_fd_close(&fd);
}

static void dial_other(size_t len) {
    struct setup setup = {0};
    struct world *world = world_new();
    struct rcmi_channel *writer;
    struct side side;
    const int reader = 1;
    char want[60];
    side_create(&side, world, 0, &setup);
    int fd = listen_as(world, 1);
    side_start(&side);
    CHECK_EQ(rcmi_channel_open_writer(side.node, 1, 3, &reader, 1, &writer), RCM_OK);
    answer_as_other(fd, len);
    while (rcmi_channel_state(writer) == RCM_AGAIN)
        side_drive(&side);
    CHECK_EQ(rcmi_channel_state(writer), RCM_ERR_MISMATCH);
    snprintf(want, sizeof want, "it has wire version %d, rank 0 on ", OTHER);
    CHECK(strncmp(rcm_last_error(), "rank 1 (pid ", 12) == 0);
    CHECK(strstr(rcm_last_error(), want) != NULL);
    while (!atomic_load(&side.lost))
        nap();
    CHECK_EQ(atomic_load(&side.lost_status), RCM_ERR_MISMATCH);
    CHECK_EQ(atomic_load(&side.lost_peer), 1);
    rcmi_channel_close(writer);
    side_destroy(&side);
    rcmi_fd_close(&fd);
    world_free(world);
}

/* An answer of another version is an error with both versions; the rest of the answer is not
 * read. */
void case_answered_by_version(void **state) {
    (void)state;
    limit_ms(20000);
    dial_other(RCMI_HELLO_HEAD);
    dial_other(sizeof(struct rcmi_reply));
}
