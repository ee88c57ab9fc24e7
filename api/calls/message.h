/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A send, receive or probe with its arguments, shared by the files of public functions. message.c
 * checks and issues it, and has the functions whose speed counts most. probe.c has probes, receives
 * of probed messages, and cancels; batch.c several at once; start.c repeated starts.
 */
#ifndef RCMI_MESSAGE_H
#define RCMI_MESSAGE_H

#include "ringcomm.h"
#include "work.h"

struct rcmi_message_call {
    enum rcmi_work_kind kind; /* a send, a receive or a probe */
    void *buffer;
    size_t count;
    rcm_dtype dtype;
    int peer;
    uint64_t tag;
    bool synchronous; /* see struct rcmi_transfer, like matched */
    void *matched;
    struct rcm_message *message; /* the caller's, for the description of a received message; NULL */
};

/* Checks everything except the call. Nothing is sent. */
rcm_status rcmi_message_check(const rcm_comm *comm, const struct rcmi_message_call *m);
/* Checks and issues. */
rcm_status rcmi_message_call(rcm_comm *comm, const struct rcmi_message_call *m,
                             const struct rcm_call *call, rcm_work **ret_work);
/* Sets the fence of a message of the buffer, as rcmi_stream_follow. */
rcm_status rcmi_message_follow(rcm_comm *comm, const void *buffer, size_t bytes,
                               struct rcmi_stream stream, struct rcmi_operation **ret_fence);
/* Submits a checked message as a part of a work, without a kick. */
rcm_status rcmi_message_submit(rcm_comm *comm, const struct rcmi_message_call *m,
                               const struct rcm_call *call, struct rcm_work *whole);
/* Issues a send or receive as a part of a persistent work; if it cannot, comm fails. */
rcm_status rcmi_message_start(rcm_comm *comm, const struct rcmi_template *template,
                              struct rcm_work *whole);

#endif
