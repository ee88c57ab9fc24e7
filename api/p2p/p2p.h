/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api/p2p/: point to point: matching of messages and receives.
 *
 *      rcm_send, rcm_recv (api/calls/message.c)
 *            |  a transfer: peer, tag, memory
 *        [ p2p ]   receives that wait for their message, messages that wait for their receive
 *            |
 *       endpoints (api/p2p/endpoint.h): protocols, one endpoint for each peer
 *
 * Not here: protocols; works, deadlines and errors of communicators (api/work/transfer.c), to which
 * a transfer's end is reported by a callback. Nothing here locks: all functions except
 * rcmi_p2p_wanted are for the driver of the communicator.
 */
#ifndef RCMI_P2P_H
#define RCMI_P2P_H

#include "endpoint.h"

struct rcmi_p2p;

/* messaging is copied. p2p sets `match`, `keep` and `next` with their arg, and `operations`. */
rcm_status rcmi_p2p_create(const struct rcmi_messaging *messaging, int nranks,
                           struct rcmi_p2p **ret_p2p);
void rcmi_p2p_free(struct rcmi_p2p *p2p);

/* Begins a transfer: a send, receive or probe. An error ends the communicator; rcmi_p2p_cancel then
 * completes the transfer. A receive or probe may have RCM_ANY_SOURCE; when it is complete, peer,
 * tag and total are those of its message.
 *
 * _receive with transfer->message receives the message that a probe took. Without such a message it
 * completes with RCM_ERR_INVALID. */
rcm_status rcmi_p2p_send(struct rcmi_p2p *p2p, struct rcmi_transfer *transfer);
rcm_status rcmi_p2p_receive(struct rcmi_p2p *p2p, struct rcmi_transfer *transfer);
/* Completes when there is a message that a receive would get. RCMI_PROBE_ONCE in transfer->probe:
 * looks once, after all arrived messages were taken, and ends with RCM_AGAIN if there is none.
 * RCMI_PROBE_TAKE: the message is set aside, as transfer->message. */
enum { RCMI_PROBE_ONCE = 1, RCMI_PROBE_TAKE = 2 };
rcm_status rcmi_p2p_probe(struct rcmi_p2p *p2p, struct rcmi_transfer *transfer);
/* Completes a receive without a message with RCM_ERR_CANCELED; false: it has one. */
bool rcmi_p2p_take_back(struct rcmi_p2p *p2p, struct rcmi_transfer *transfer);
/* The same for all receives without a message, with `why` as error text. */
void rcmi_p2p_drop_receives(struct rcmi_p2p *p2p, const char *why);
/* Visits each peer that was used so far; all peers after a receive of RCM_ANY_SOURCE. */
rcm_status rcmi_p2p_progress(struct rcmi_p2p *p2p, bool *moved);
/* After it failed: a transfer whose memory a channel could not use, else NULL. */
struct rcmi_transfer *rcmi_p2p_at_fault(const struct rcmi_p2p *p2p);
/* After a failure: copies that wait for a stream are dropped. Returns whether no other asynchronous
 * copy is in progress. If there is one, the caller waits for it, or abandons it. */
bool rcmi_p2p_quiesce(struct rcmi_p2p *p2p);
/* Completes all transfers with status. */
void rcmi_p2p_cancel(struct rcmi_p2p *p2p, rcm_status status);
/* Calls visit on every unfinished transfer until it returns false. */
void rcmi_p2p_each(struct rcmi_p2p *p2p, bool (*visit)(void *arg, struct rcmi_transfer *transfer),
                   void *arg);

/* The endpoint for the fast path (rcmi_endpoint_send_now and _receive_now), while no transfer is
 * unfinished. _for_receive: NULL if an unexpected message is stored, which may match. */
struct rcmi_endpoint *rcmi_p2p_endpoint(struct rcmi_p2p *p2p, int peer);
struct rcmi_endpoint *rcmi_p2p_endpoint_for_receive(struct rcmi_p2p *p2p, int peer);

/* _wanted: a peer opened its channel to this rank. _is_wanted: this side of such a channel is not
 * open yet; a pass of progress opens it. Any thread. */
void rcmi_p2p_wanted(struct rcmi_p2p *p2p, int peer);
bool rcmi_p2p_is_wanted(const struct rcmi_p2p *p2p);

#endif
