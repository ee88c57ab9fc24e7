/* SPDX-License-Identifier: BSD-3-Clause */
/* A node without a thread: see node.h. */
#include "node.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "wire_version.h"

enum { INPUTS_PER_NODE = 32, TURNS = 4 };

static const uint8_t *peer_address;
static size_t peer_address_len;

void fuzz_node_peer(const uint8_t *address, size_t len) {
    peer_address = address;
    peer_address_len = len;
}

static rcm_status look_up(void *arg, int peer, const void **ret_blob, size_t *ret_len) {
    (void)arg;
    if (peer != FUZZ_PEER || !peer_address)
        return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "rank %d has no address here", peer);
    *ret_blob = peer_address;
    *ret_len = peer_address_len;
    return RCM_OK;
}

static void lost(void *arg, int peer, const struct rcmi_error *why) {
    (void)arg;
    fuzz_require(peer >= 0 && peer < FUZZ_RANKS && why->origin == peer, "who is lost is a rank");
    fuzz_require(why->status < 0 && why->text[0], "a loss has a reason");
}

static void message(void *arg, int peer, const void *bytes, size_t len) {
    unsigned sum = 0;
    (void)arg;
    fuzz_require(peer >= 0 && peer < FUZZ_RANKS && len >= 1 && len <= RCMI_MESSAGE_MAX,
                 "a message has a sender and bytes");
    for (size_t i = 0; i < len; i++)
        sum += ((const uint8_t *)bytes)[i];
    fuzz_require(sum <= 255 * len, "bytes can be read");
}

static void wanted(void *arg, int peer, uint64_t epoch, uint32_t id) {
    (void)arg;
    (void)epoch;
    (void)id;
    fuzz_require(peer >= 0 && peer < FUZZ_RANKS, "who wants a channel is a rank");
}

/* ---- Lifetime ------------------------------------------------------------------------------ */

static struct rcmi_node *node_make(const char *secret) {
    struct rcmi_node *node = NULL;
    const struct rcmi_node_config config = {
        .rank = FUZZ_RANK,
        .nranks = FUZZ_RANKS,
        .job = FUZZ_JOB,
        .host_id = "fuzz",
        .transports = "shm,tcp",
        .secret = secret,
        .iface = "127.0.0.1",
        .ports = "",
        .slot_bytes = FUZZ_SLOT_BYTES,
        .slots = FUZZ_SLOTS,
        .lookup = look_up,
        .peer_lost = lost,
        .message = message,
        .wanted = wanted,
    };
    if (rcmi_node_create(&config, &node) != RCM_OK) {
        fprintf(stderr, "%s\n", rcm_last_error());
        abort();
    }
    return node;
}

/* Resets the node to its state after creation, like rcmi_node_destroy. */
static void node_reset(struct rcmi_node *node) {
    rcmi_channels_free(node);
    for (int i = 0; i < FUZZ_RANKS; i++) {
        if (rcmi_node_link(node, i))
            rcmi_link_free(rcmi_node_link(node, i));
        atomic_store(&node->links[i], NULL);
    }
    rcmi_conn_drop(node, NULL);
    rcmi_frames_clear(&node->loopback);
    rcmi_frames_clear(&node->outbox);
    node->lost = node->failed = node->changed_links = NULL;
    node->closing = 0;
    node->serial = 0;
    node->leaving = node->settled = false;
    fuzz_require(!node->ends && !node->conns, "nothing stays of links that are gone");
}

struct rcmi_node *fuzz_node(const char *secret) {
    static struct rcmi_node *nodes[2];
    static int inputs[2];
    struct rcmi_node **node = &nodes[secret != NULL];
    if (*node)
        node_reset(*node);
    /* Resources that a node keeps until its end, like peers' memory, must not accumulate. */
    if (*node && ++inputs[secret != NULL] % INPUTS_PER_NODE == 0) {
        rcmi_node_destroy(*node);
        *node = NULL;
    }
    if (!*node)
        *node = node_make(secret);
    return *node;
}

struct rcmi_link *fuzz_node_link(struct rcmi_node *node) {
    return rcmi_node_link(node, FUZZ_PEER);
}

/* ---- The loop's part ----------------------------------------------------------------------- */

int fuzz_node_accept(struct rcmi_node *node, bool same_host) {
    int fds[2];
    fuzz_socketpair(fds);
    rcmi_conn_accepted(node, fds[0], same_host);
    return fds[1];
}

static void conns_ready(struct rcmi_node *node) {
    struct rcmi_conn *next;
    /* A connection that succeeds or fails may remove others: start again then. */
    for (struct rcmi_conn *conn = node->conns; conn; conn = next) {
        const struct rcmi_conn *before = conn->next;
        conn->watch.ready(conn->watch.arg, conn->events);
        for (next = node->conns; next && next != before; next = next->next)
            ;
    }
}

void fuzz_node_turn(struct rcmi_node *node) {
    for (int turn = 0; turn < TURNS; turn++) {
        conns_ready(node);
        for (int i = 0; i < FUZZ_RANKS; i++) {
            struct rcmi_link *link = rcmi_node_link(node, i);
            if (link && link->control.fd >= 0 && link->events)
                link->control.ready(link->control.arg, link->events);
        }
        bool any = rcmi_links_take_failed(node);
        any = rcmi_links_take_changed(node) || any;
        any = rcmi_outbox_flush(node) || any;
        any = rcmi_control_loopback(node) || any;
        any = rcmi_links_report_lost(node) || any;
        any = rcmi_node_progress(node) || any;
        if (!any)
            return;
    }
}

/* ---- A valid peer -------------------------------------------------------------------------- */

struct rcmi_hello fuzz_hello(enum rcmi_hello_kind kind, const char *transport) {
    struct rcmi_hello hello = {
        .magic = RCMI_HELLO_MAGIC,
        .version = RCMI_WIRE_VERSION,
        .kind = (uint8_t)kind,
        .from = FUZZ_PEER,
        .to = FUZZ_RANK,
        .nranks = FUZZ_RANKS,
        .job = FUZZ_JOB,
    };
    snprintf(hello.transport, sizeof hello.transport, "%s", transport);
    return hello;
}

int fuzz_node_greet(struct rcmi_node *node, const char *transport) {
    const struct rcmi_hello hello = fuzz_hello(RCMI_HELLO_CONTROL, transport);
    struct rcmi_reply reply = {.magic = 0};
    size_t got = 0;
    int fd = fuzz_node_accept(node, strcmp(transport, "shm") == 0);
    fuzz_write(fd, &hello, sizeof hello);
    fuzz_node_turn(node);
    fuzz_require(rcmi_fd_read(fd, &reply, sizeof reply, &got) == RCM_OK && got == sizeof reply &&
                     reply.status == RCMI_REPLY_OK,
                 "an orderly greeting is answered");
    return fd;
}

void fuzz_frame(int fd, int type, const void *body, size_t len, const int *fds, int nfds) {
    uint8_t bytes[8 + RCMI_MESSAGE_MAX];
    const uint32_t len32 = (uint32_t)len;
    if (len > RCMI_MESSAGE_MAX)
        return;
    memcpy(bytes, &len32, 4);
    bytes[4] = (uint8_t)type;
    bytes[5] = bytes[7] = 0;
    bytes[6] = (uint8_t)nfds;
    if (len)
        memcpy(bytes + 8, body, len);
    if (nfds > 0 && len + 8 <= 4096)
        (void)!rcmi_send_fds(fd, bytes, len + 8, fds, nfds);
    else
        fuzz_write(fd, bytes, len + 8);
}
