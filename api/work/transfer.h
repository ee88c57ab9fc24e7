/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The works of sends and receives, between driving (drive.h) and point to point (p2p/p2p.h). All
 * for the driver. Not here: the front doors (message.c).
 */
#ifndef RCMI_TRANSFER_H
#define RCMI_TRANSFER_H

#include <stdbool.h>
#include "transport.h"
#include "ringcomm.h"

#define RCMI_P2P_CHANNEL (0x100u | RCMI_ID_BULK)

rcm_status rcmi_transfers_create(struct rcm_comm *comm);
/* Hands a new send, receive or probe to point to point, or does a cancel. */
void rcmi_transfer_start(struct rcm_comm *comm, struct rcm_work *work);
/* Calls visit on every unfinished send and receive until it returns false. */
void rcmi_transfers_each(const struct rcm_comm *comm,
                         bool (*visit)(void *arg, struct rcm_work *work), void *arg);
/* After point to point failed: a send or receive of whose memory a channel could make nothing, else
 * NULL. */
const struct rcm_work *rcmi_transfer_at_fault(const struct rcm_comm *comm);

/* The thread's error of a receive whose message, by now in work->message, is longer than its
 * buffer. */
rcm_status rcmi_transfer_fail_truncated(const struct rcm_work *work);

/* A caller's struct, any thread: whether it can be written to, `name` is the argument; and that. */
rcm_status rcmi_message_out_check(const char *name, const struct rcm_message *ret_message);
void rcmi_message_out(const struct rcm_message *message, struct rcm_message *ret_message);

#endif
