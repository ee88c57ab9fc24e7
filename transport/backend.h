/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a backend may use of the framework. A backend is a transport: a folder here with its
 * function table, struct rcmi_transport (part 2 of transport.h). The framework (node.c, link/,
 * channel/) calls the table. A backend calls the functions below and sees nothing else of a node, a
 * link or another backend:
 *
 *       layers above     transport.h, part 1
 *           |
 *       framework -----> struct rcmi_transport (transport.h, part 2) of each backend
 *           ^                    |
 *           '-- backend.h <------'  self/ shm/ verbs/ tcp/ cuda_ipc/, and chaos/ around one
 *
 * Not here: the framework's own state (node.h, which backends do not include).
 */
#ifndef RCMI_TRANSPORT_BACKEND_H
#define RCMI_TRANSPORT_BACKEND_H

#include "alloc.h"
#include "fd.h"
#include "transport.h"

/* ---- The node -------------------------------------------------------------------------------- */

/* Its world rank, the size of the world, and the job's number. */
int rcmi_node_rank(const struct rcmi_node *node);
int rcmi_node_nranks(const struct rcmi_node *node);
uint64_t rcmi_node_job(const struct rcmi_node *node);
/* A number that is unique among the ranks of a host; and `near` of the configuration. */
int rcmi_node_local_rank(const struct rcmi_node *node);
const char *rcmi_node_near(const struct rcmi_node *node);
/* Is the node being closed? Peers may still read what was committed. */
bool rcmi_node_closes(const struct rcmi_node *node);
/* The device of this rank; NULL before it is opened. It is open while a backend of device memory
 * has links, and until the node's end. Any thread. */
struct rcmi_device *rcmi_node_device(const struct rcmi_node *node);
/* Sets the memory of this node's doorbell and status page. Only in domain_init; at most one backend
 * does it. */
void rcmi_node_set_head(struct rcmi_node *node, struct rcmi_doorbell *doorbell, void *status_page);
/* Sets peer's status page, readable until the domain's fini. In link_accept. */
void rcmi_node_set_peer_page(struct rcmi_node *node, int peer, const void *page);
/* How to wake a node of this host: its doorbell, mapped here, and the eventfd of its engine. The
 * backend of the host plane sets it in link_accept and keeps both until the link's fini; backends
 * of the link's other planes use it. Loop thread. */
struct rcmi_wake {
    struct rcmi_doorbell *doorbell;
    int eventfd;
};
void rcmi_node_set_peer_wake(struct rcmi_node *node, int peer, const struct rcmi_wake *wake);
/* False: the host plane has set nothing. */
bool rcmi_node_peer_wake(const struct rcmi_node *node, int peer, struct rcmi_wake *ret_wake);
/* Is a thread sleeping on the descriptors from `attend`, or about to? Any thread. */
bool rcmi_node_polled(const struct rcmi_node *node);

/* ---- Failures -------------------------------------------------------------------------------- */

/* A data plane to peer has failed; the reason is the thread's error. Returns at once; the loop
 * thread soon loses the link (link_down, peer_lost). Any thread, also under a backend's own locks.
 */
void rcmi_node_link_failed(struct rcmi_node *node, int peer);
/* The result of link_ready may have changed; the loop thread soon calls it again. Any thread, also
 * under a backend's own locks. */
void rcmi_node_link_changed(struct rcmi_node *node, int peer);
/* The channel fails here, but the link works: for example, a user's memory for a message is
 * unusable. The reason is the thread's error. No message of the channel completes any more. Any
 * thread, also under a backend's own locks. */
void rcmi_channel_fail(struct rcmi_channel *channel);

/* ---- Memory ---------------------------------------------------------------------------------- */

/* The backend's state (ret_own) for the registration that contains mem; NULL if none does. *ret_at:
 * offset of mem in the registration. */
void *rcmi_registration_of(const struct rcmi_mem *mem, const struct rcmi_transport *transport,
                           size_t *ret_at);

/* ---- Defaults for functions that a backend does not need ------------------------------------- */

/* For backends: whose links are ready once all was offered, accepted and attached; whose messages
 * arrive even if the link goes down afterwards; without memory that peers can map; whose readers
 * report late what they have released; without posted receives; without get. */
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

/* ---- Backends around backends (chaos/) ------------------------------------------------------- */

/* From now on "PREFIX:NAME" names the backend that wrap makes around the backend NAME. wrap returns
 * NULL if inner is NULL or cannot be wrapped. Called by a library that a program links for it,
 * before the first node is made; at most one wrapper. prefix must stay valid. */
typedef const struct rcmi_transport *(*rcmi_backend_wrapper)(const struct rcmi_transport *inner);
void rcmi_backends_wrap(const char *prefix, rcmi_backend_wrapper wrap);
/* The state of a backend's domain at this node, and the reverse: the backend of a domain's state;
 * NULL if there is none. Any thread. */
void *rcmi_node_domain(const struct rcmi_node *node, const struct rcmi_transport *backend);
const struct rcmi_transport *rcmi_node_backend(const struct rcmi_node *node, const void *domain);
/* Shuts down the control stream of the link to peer, if there is one; both sides see its end. Loop
 * thread. */
void rcmi_node_hang_up(struct rcmi_node *node, int peer);
/* Fails the links to all peers with the reason `why`, including links that are not made yet, before
 * any peer_lost. Loop thread. */
void rcmi_node_isolate(struct rcmi_node *node, const char *why);

#endif
