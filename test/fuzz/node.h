/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A node without a thread, for the targets that need links. It is rank 1 of 3, its peer is rank 0;
 * the target makes the calls of the loop. Each input gets new links.
 */
#ifndef TEST_FUZZ_NODE_H
#define TEST_FUZZ_NODE_H

#include "fuzz.h"
#include "../../transport/channel/channel.h"

enum {
    FUZZ_RANK = 1,
    FUZZ_PEER = 0,
    FUZZ_RANKS = 3,
    FUZZ_SLOTS = 2,
    FUZZ_SLOT_BYTES = 128,
};
#define FUZZ_JOB    UINT64_C(0x1122334455667788)
#define FUZZ_SECRET "fuzz secret"

/* A node with shm and tcp. One per process, created on first use; the effects of earlier inputs are
 * removed. */
struct rcmi_node *fuzz_node(const char *secret);
/* The peer's address for look-ups, NULL: none. The caller keeps ownership. */
void fuzz_node_peer(const uint8_t *address, size_t len);

/* A connection comes in; returns the peer's end. */
int fuzz_node_accept(struct rcmi_node *node, bool same_host);
/* The loop's work: connections and control streams that are ready, and one turn. */
void fuzz_node_turn(struct rcmi_node *node);
/* The link to the peer, or NULL. */
struct rcmi_link *fuzz_node_link(struct rcmi_node *node);

/* A greeting as the peer would send it. */
struct rcmi_hello fuzz_hello(enum rcmi_hello_kind kind, const char *transport);

/* Makes the link to the peer with a valid greeting, up to SETUP; returns its control stream. */
int fuzz_node_greet(struct rcmi_node *node, const char *transport);
/* A frame on a control stream, with descriptors if nfds > 0. */
void fuzz_frame(int fd, int type, const void *body, size_t len, const int *fds, int nfds);

#endif
