/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api/p2p/: point to point: which receive a message belongs to.
 *
 *      rcm_send, rcm_recv (api/calls/message.c)
 *            |  a transfer: peer, tag, memory
 *        [ p2p ]   receives that wait for their message, messages that wait for their receive
 *            |
 *       endpoints (api/p2p/endpoint.h): how a message travels, one for each peer
 *
 * Not here: how messages travel; works, deadlines and errors of communicators
 * (api/work/transfer.c), which hear of a transfer's end by the function they hand in. Nothing here
 * locks: all but rcmi_p2p_wanted is for the driver of the communicator.
 */
#ifndef RCMI_P2P_H
#define RCMI_P2P_H

#include "endpoint.h"

struct rcmi_p2p;

/* messaging is copied; `match`, `keep` and `next`, with their arg, and `operations` are filled in
 * here. */
rcm_status rcmi_p2p_create(const struct rcmi_messaging *messaging, int nranks,
                           struct rcmi_p2p **ret_p2p);
void rcmi_p2p_free(struct rcmi_p2p *p2p);

/* A new transfer, which sends, receives or probes. An error is the communicator's end; the transfer
 * is completed by rcmi_p2p_cancel then. A receive or probe may be of RCM_ANY_SOURCE; when it is
 * complete, peer, tag and total are those of its message.
 *
 * _receive: with transfer->message, of the one that a probe took; RCM_ERR_INVALID completes it if
 * there is no such one. */
rcm_status rcmi_p2p_send(struct rcmi_p2p *p2p, struct rcmi_transfer *transfer);
rcm_status rcmi_p2p_receive(struct rcmi_p2p *p2p, struct rcmi_transfer *transfer);
/* Complete when there is a message that a receive would get; transfer->probe: once it looks once,
 * after all that has come was taken, and ends with RCM_AGAIN if there is none; with take the
 * message is set aside, as transfer->message. */
enum { RCMI_PROBE_ONCE = 1, RCMI_PROBE_TAKE = 2 };
rcm_status rcmi_p2p_probe(struct rcmi_p2p *p2p, struct rcmi_transfer *transfer);
/* Completes a receive that has no message yet with RCM_ERR_CANCELED; false: it has one. */
bool rcmi_p2p_take_back(struct rcmi_p2p *p2p, struct rcmi_transfer *transfer);
/* The same for all receives that have no message yet, with that sentence. */
void rcmi_p2p_drop_receives(struct rcmi_p2p *p2p, const char *why);
/* Looks at each peer that there was ever something to do with: at all of them after a receive of
 * RCM_ANY_SOURCE. */
rcm_status rcmi_p2p_progress(struct rcmi_p2p *p2p, bool *moved);
/* After it failed: a transfer of whose memory a channel could make nothing, else NULL. */
struct rcmi_transfer *rcmi_p2p_at_fault(const struct rcmi_p2p *p2p);
/* After a failure: copies that wait for a stream touch nothing any more. Does no other copy that
 * finishes later? It is waited for, or left to itself. */
bool rcmi_p2p_quiesce(struct rcmi_p2p *p2p);
/* Completes everything with status. */
void rcmi_p2p_cancel(struct rcmi_p2p *p2p, rcm_status status);
/* Calls visit on every unfinished transfer until it returns false. */
void rcmi_p2p_each(struct rcmi_p2p *p2p, bool (*visit)(void *arg, struct rcmi_transfer *transfer),
                   void *arg);

/* The endpoint for the short way (rcmi_endpoint_send_now and _receive_now), where no transfer is
 * unfinished. _for_receive: NULL if a message waits for its receive, and may be the one. */
struct rcmi_endpoint *rcmi_p2p_endpoint(struct rcmi_p2p *p2p, int peer);
struct rcmi_endpoint *rcmi_p2p_endpoint_for_receive(struct rcmi_p2p *p2p, int peer);

/* A peer opened its channel to this rank. Any thread. */
void rcmi_p2p_wanted(struct rcmi_p2p *p2p, int peer);

#endif
