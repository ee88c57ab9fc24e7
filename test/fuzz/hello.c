/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: connections until both sides have identified themselves (transport/net/connection.c,
 * dial.c, link.c). Byte 0: bit 0: we dialled; bit 1: over a Unix socket; bit 2: there is a secret;
 * bit 3: the peer closes at the end; the other bits: the size of the pieces in which its bytes
 * come.
 */
#include "node.h"
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int listener = -1;

/* The node dials the Unix name in the peer's address, where we listen. */
static int dial(struct rcmi_node *node) {
    static uint8_t blob[RCMI_ADDRESS_MAX];
    static size_t len;
    int fd = -1;
    if (listener < 0) {
        struct rcmi_address address = {.host_id = "fuzz", .job = FUZZ_JOB, .transports = "shm,tcp"};
        snprintf(address.unix_name, sizeof address.unix_name, "ringcomm-fuzz-%d", (int)getpid());
        fuzz_require(rcmi_listen_unix(address.unix_name, &listener) == RCM_OK &&
                         rcmi_address_write(&address, blob, sizeof blob, &len) == RCM_OK,
                     "we can listen");
    }
    fuzz_node_peer(blob, len);
    fuzz_require(rcmi_link_need(node, FUZZ_PEER) != NULL, "a link can be begun");
    fuzz_require(rcmi_accept(listener, &fd) == RCM_OK, "the node dials");
    fuzz_node_turn(node);
    return fd;
}

/* Whether some rank is accepted as the other end. */
static bool let_in(struct rcmi_node *node) {
    for (int i = 0; i < FUZZ_RANKS; i++) {
        const struct rcmi_link *link = rcmi_node_link(node, i);
        enum rcmi_link_state state = link ? rcmi_link_state(link) : RCMI_LINK_NONE;
        if (state == RCMI_LINK_SETUP || state == RCMI_LINK_UP || state == RCMI_LINK_WAITING)
            return true;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    uint8_t flags = fuzz_u8(&in);
    size_t piece = flags >> 4 ? (size_t)(flags >> 4) * 4 : SIZE_MAX, n;
    bool secret = flags & 4;
    struct rcmi_node *node = fuzz_node(secret ? FUZZ_SECRET : NULL);
    fuzz_node_peer(NULL, 0);
    int fd = flags & 1 ? dial(node) : fuzz_node_accept(node, flags & 2);
    do {
        const uint8_t *bytes = fuzz_bytes(&in, piece, &n);
        fuzz_write(fd, bytes, n);
        fuzz_node_turn(node);
        fuzz_drain(fd);
    } while (in.left > 0);
    if (flags & 8) {
        shutdown(fd, SHUT_RDWR);
        fuzz_node_turn(node);
        fuzz_require(!node->conns || flags & 1, "a closed connection is removed");
    }
    bool in_now = let_in(node);
    /* With a secret, no byte may have an effect before the proof. */
    fuzz_require(!secret || !in_now, "a peer without the secret is rejected");
    fuzz_verdict = in_now ? FUZZ_ACCEPTED : node->conns ? FUZZ_UNKNOWN : FUZZ_REFUSED;
    close(fd);
    fuzz_node_turn(node);
    return 0;
}
