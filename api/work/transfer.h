/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The works of sends and receives, between driving (drive.h) and point to point (p2p/p2p.h). All
 * functions: driver. Not here: the public functions (message.c).
 */
#ifndef RCMI_TRANSFER_H
#define RCMI_TRANSFER_H

#include <stdbool.h>
#include "transport.h"
#include "ringcomm.h"

#define RCMI_P2P_CHANNEL (0x100u | RCMI_ID_BULK)

rcm_status rcmi_transfers_create(struct rcm_comm *comm);
/* Passes a new send, receive or probe to point to point, or performs a cancel. */
void rcmi_transfer_start(struct rcm_comm *comm, struct rcm_work *work);
/* Calls visit on every unfinished send and receive until it returns false. */
void rcmi_transfers_each(const struct rcm_comm *comm,
                         bool (*visit)(void *arg, struct rcm_work *work), void *arg);
/* After a failure in point to point: the send or receive whose memory a channel could not use, else
 * NULL. */
const struct rcm_work *rcmi_transfer_at_fault(const struct rcm_comm *comm);

/* Whether a receive with this status has its message, in work->message, which does not fit: it is
 * longer than the buffer, or of another type. _explain sets the thread's error. */
bool rcmi_transfer_misfits(const struct rcm_work *work, rcm_status status);
rcm_status rcmi_transfer_explain(const struct rcm_work *work, rcm_status status);

/* A caller's struct, any thread: _check: whether it can be written; `name` is the argument. _out:
 * writes it. */
rcm_status rcmi_message_out_check(const char *name, const struct rcm_message *ret_message);
void rcmi_message_out(const struct rcm_message *message, struct rcm_message *ret_message);

#endif
