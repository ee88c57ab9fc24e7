/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a row may use of the framework. A row is a transport: a folder here with its table, struct
 * rcmi_transport (part 2 of transport.h). The framework (node.c, link.c, channel.c and the files
 * beside them) calls the table; a row calls what stands here, and sees nothing else of a node, a
 * link or another row:
 *
 *       rooms above      transport.h, part 1
 *           |
 *       framework -----> struct rcmi_transport (transport.h, part 2) of each row
 *           ^                    |
 *           '---- row.h <--------'  self/ shm/ verbs/ tcp/ cuda_ipc/, and chaos/ around one
 *
 * Not here: the framework's own state (node.h, which rows do not include).
 */
#ifndef RCMI_TRANSPORT_ROW_H
#define RCMI_TRANSPORT_ROW_H

#include "alloc.h"
#include "fd.h"
#include "transport.h"

/* ---- The node -------------------------------------------------------------------------------- */

/* Its world rank, the size of the world, and the number of the job. */
int rcmi_node_rank(const struct rcmi_node *node);
int rcmi_node_nranks(const struct rcmi_node *node);
uint64_t rcmi_node_job(const struct rcmi_node *node);
/* Another number for each rank of a host; and what the configuration says of `near`. */
int rcmi_node_local_rank(const struct rcmi_node *node);
const char *rcmi_node_near(const struct rcmi_node *node);
/* The node is being closed: peers may still read what was committed. */
bool rcmi_node_closes(const struct rcmi_node *node);
/* The device of this rank, NULL before it is opened; it is open while a row of device memory has
 * links, and until the node's end. Any thread. */
struct rcmi_device *rcmi_node_device(const struct rcmi_node *node);
/* Where the doorbell and the status page of this node lie. Only in domain_init; at most one
 * transport does it. */
void rcmi_node_set_head(struct rcmi_node *node, struct rcmi_doorbell *doorbell, void *status_page);
/* peer's status page, readable until the domain's fini. In link_accept. */
void rcmi_node_set_peer_page(struct rcmi_node *node, int peer, const void *page);
/* How to wake a node of this host: its doorbell, mapped here, and the eventfd of its engine. Set in
 * link_accept by the transport of the host plane, which keeps both until the link's fini; for rows
 * of the other planes of the link. Loop thread. */
struct rcmi_wake {
    struct rcmi_doorbell *doorbell;
    int eventfd;
};
void rcmi_node_set_peer_wake(struct rcmi_node *node, int peer, const struct rcmi_wake *wake);
/* False: there is none. */
bool rcmi_node_peer_wake(const struct rcmi_node *node, int peer, struct rcmi_wake *ret_wake);
/* A thread sleeps on the descriptors that `attend` gives, or is about to. Any thread. */
bool rcmi_node_polled(const struct rcmi_node *node);

/* ---- Failures -------------------------------------------------------------------------------- */

/* A data plane to peer is of no use any more, for the reason in the thread's
 * error. Returns at once; the loop thread soon loses the link (link_down, peer_lost). Any thread,
 * also under a transport's own locks. */
void rcmi_node_link_failed(struct rcmi_node *node, int peer);
/* link_ready may say something else by now of the link to peer; the loop thread asks it soon. Any
 * thread, also under a transport's own locks. */
void rcmi_node_link_changed(struct rcmi_node *node, int peer);
/* Nothing more comes of the channel here, for the reason in the thread's error, and
 * the link is well: memory that its user gave for a message is of no use. No message of it
 * completes any more. Any thread, also under a transport's own locks. */
void rcmi_channel_fail(struct rcmi_channel *channel);

/* ---- Memory ---------------------------------------------------------------------------------- */

/* What `transport` remembers of the registration that mem lies in, NULL if there is none. *ret_at:
 * where in it mem begins. */
void *rcmi_registration_of(const struct rcmi_mem *mem, const struct rcmi_transport *transport,
                           size_t *ret_at);

/* ---- Slots of the table that a row does not have --------------------------------------------- */

/* For the rows of transports whose links are ready once all was offered, accepted and attached,
 * whose messages arrive although the link goes down behind them, without memory that peers can map,
 * whose readers tell late what they have taken, without posted
 * receives, or that cannot get. */
rcm_status rcmi_ready_at_once(void *link);
bool rcmi_always_flushed(void *link);
rcm_status rcmi_no_memory_take(void *domain, size_t bytes, void **ret_memory);
void rcmi_no_memory_give(void *domain, void *memory);
rcm_status rcmi_no_memory_register(void *domain, const struct rcmi_mem *mem, void **ret_own);
bool rcmi_no_memory_unregister(void *domain, void *own, rcmi_deadline deadline);
bool rcmi_always_taken(struct rcmi_channel *channel, int reader, uint64_t number);
bool rcmi_no_post_receive(struct rcmi_channel *channel, const struct rcmi_posted *posted);
rcm_status rcmi_no_get(struct rcmi_channel *channel, const struct rcmi_mem *dest, uint64_t remote,
                       bool helped, bool *moved);
bool rcmi_no_help(struct rcmi_channel *channel);

/* ---- Rows around rows (chaos/) --------------------------------------------------------------- */

/* From now on "PREFIX:NAME" names wrap's row around the row NAME. wrap returns NULL if inner is
 * NULL or cannot be wrapped. For a library that a program links for it, before the first node is
 * made; one of them at most. prefix is kept. */
typedef const struct rcmi_transport *(*rcmi_row_wrapper)(const struct rcmi_transport *inner);
void rcmi_rows_wrap(const char *prefix, rcmi_row_wrapper wrap);
/* The state of a row's domain at this node, and the row whose state that is; NULL if there is none.
 * Any thread. */
void *rcmi_node_domain(const struct rcmi_node *node, const struct rcmi_transport *row);
const struct rcmi_transport *rcmi_node_row(const struct rcmi_node *node, const void *domain);
/* Ends the control stream of the link to peer, as both sides see, if there is one. Loop thread. */
void rcmi_node_hang_up(struct rcmi_node *node, int peer);
/* Fails the links to all peers for the reason that `why` says of each, those too that are not made
 * yet, before any peer_lost. Loop thread. */
void rcmi_node_isolate(struct rcmi_node *node, const char *why);

#endif
