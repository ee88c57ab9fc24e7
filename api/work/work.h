/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A work: one operation in flight, a collective, a send or a receive.
 *
 *   work.c        its memory
 *   completion.c  its completion, and that of its parts and stages
 *   issue.c       issue, test, wait, free
 *
 * Not here: its progress (drive.h), its deadline (deadline.h), and the notices of its completion
 * (notice.h).
 */
#ifndef RCMI_WORK_H
#define RCMI_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include "clock.h"
#include "rank_device.h"
#include "diagnosis_wire.h"
#include "endpoint.h"
#include "exec.h"
#include "loop.h"
#include "notice.h"
#include "operator.h"
#include "plan.h"
#include "ringcomm.h"

enum rcmi_work_kind {
    RCMI_WORK_COLLECTIVE,
    RCMI_WORK_SEND,
    RCMI_WORK_RECV,
    RCMI_WORK_PROBE,
    RCMI_WORK_CANCEL,   /* of receives: done by the driver, in issue order */
    RCMI_WORK_SENDRECV, /* a whole of two parts */
    RCMI_WORK_BATCH,    /* a whole of sends and receives */
};

/*
 * Further stages of a collective. Each is a run of its own plan with its own buffers. It is bound
 * when the previous stage is complete on this rank, for instance because that one received sizes.
 * The call binds the first stage. All ranks have the same stages. One deadline covers all; reports
 * show the running stage. A stage starts at once. Collectives issued later start only after the
 * last stage has started, so mark the last one.
 */
struct rcmi_stages {
    /* The previous stage is complete, with its received data. RCM_AGAIN: *ret_bind is the next
     * stage, from rcmi_request_stage (request.h). That function makes the record of its messages,
     * the same on all ranks. Blocks in *ret_bind are from malloc and become the work's. *ret_last
     * (false before) becomes true if no stage follows. RCM_OK: there is no further stage.
     * RCM_ERR_UNSUPPORTED, which all ranks must find, ends the work. Any other error, with the
     * thread's error, ends the communicator. Driver: must not wait. */
    rcm_status (*next)(struct rcmi_stages *stages, struct rcm_comm *comm,
                       struct rcmi_bind *ret_bind, bool *ret_last);
    /* Called exactly once, with the final status of the work, or of the call that failed to make
     * it. No buffer is touched any more. Delivers results and frees memory. */
    void (*end)(struct rcmi_stages *stages, rcm_status status);
    /* Whether a stage that is not bound yet uses memory in [begin, end). NULL: no stage uses other
     * memory than the work's bind. Driver, or under the lock of submitted works. */
    bool (*touches)(const struct rcmi_stages *stages, uintptr_t begin, uintptr_t end);
};

/* What a start of a persistent work issues: its only operation, or one of rcm_coalesced. */
struct rcmi_template {
    struct rcmi_template *next;
    enum rcmi_work_kind kind;
    int64_t timeout_ms;
    enum rcm_collective collective; /* for that kind, like the next five */
    enum rcmi_form form;
    bool drains;
    uint64_t hash; /* of the values that must be equal on all ranks */
    struct rcmi_bind bind;
    struct rcmi_block *blocks;     /* bind's, if it has blocks; owned by the template */
    bool special;                  /* the bind may refer to registrations */
    struct rcm_message *message;   /* the caller's, for a receive; NULL */
    struct rcmi_transfer transfer; /* initial state of a send or receive */
    struct rcmi_stream stream;     /* each start is ordered after it */
};

struct rcm_work {
    /* RCM_PENDING, then final. The driver's release store pairs with the acquire load of tests and
     * waits. */
    _Atomic int status;
    _Atomic int refs; /* the user's and the driver's */
    /* For a blocking call, not known to any other thread: refs do not count, and comm is not
     * referenced. After its completion only the call touches it. */
    bool blocking;
    bool attended;      /* the driver's: the waiting thread drives, and needs no wake-up */
    int64_t spin_began; /* of the call's fast path, as in struct rcmi_pause; 0: it did not spin */
    enum rcmi_work_kind kind;
    enum rcm_collective collective; /* for that kind */
    struct rcm_comm *comm;          /* holds a reference; see rcmi_comm_enter */
    uint32_t fork_generation;
    struct rcm_work *next;
    /* The driver's, for a collective in the start queue. started: it has left the waiting part.
     * drains: it starts only when all issued before it are complete. */
    bool started, drains;
    size_t run_bytes; /* see rcmi_queue_weigh */
    rcmi_deadline deadline;
    int64_t timeout_ms;
    int64_t moved_ns; /* time of the last observed progress, for the warning; 0: never */
    bool warned;
    /* Ranks that got its call record, see call_log.c: 0 none, 1 those of this host, 2 + rank. */
    int call_sent;
    uint64_t seen; /* last observed progress, to detect changes */
    /* No progress since, although a rank that it waits for has left: time of the last look, and
     * total duration. */
    int64_t left_look_ns, left_for_ns;
    enum rcmi_form form;
    bool shown; /* it is the send or receive shown on the status page */
    /* A message of another call came: the remaining wait for the other rank's call log, and the
     * time of the last look; 0: none came. */
    int64_t call_log_left_ns, call_log_looked_ns;
    uint64_t sequence;
    struct rcmi_bind bind;
    struct rcmi_block *blocks;    /* bind's, if it has blocks; freed on completion */
    struct rcmi_operation *fence; /* it or its parts come after this; NULL; freed likewise */
    struct rcmi_stages *stages;   /* NULL: only one stage */
    uint32_t stage;               /* number of the stage in bind, from 0 */
    bool last_stage;
    struct rcmi_run *run;
    /* For rcm_coalesced and persistent works. whole: of a part, else NULL. parts_left: of a whole,
     * its incomplete parts, plus one until all are issued. parts_status: the status of the first
     * part that failed. No user has a part; a whole is in no queue. */
    struct rcm_work *whole;
    _Atomic int parts_left, parts_status;
    struct rcmi_transfer transfer;
    struct rcm_message message;
    struct rcmi_template *templates; /* of a persistent work, which is a whole; else NULL */
    struct rcm_message *message_to;  /* the caller's, as is matched_to (a probe's); NULL */
    void **matched_to;
    struct rcm_work *target; /* of a cancel; NULL: all receives without a message */
    struct rcmi_notice notice;
    char *reason; /* why it failed without its communicator, as a sentence; malloc'd, or NULL */
};

/* The operation's name, such as "all_reduce" or "send". */
static inline const char *rcmi_work_name(const struct rcm_work *work) {
    static const char *const bytes[RCMI_COLLECTIVES] = {[RCM_BROADCAST] = "broadcast_bytes",
                                                        [RCM_SCATTER] = "scatter_bytes",
                                                        [RCM_GATHER] = "gather_bytes",
                                                        [RCM_ALL_GATHER] = "all_gather_bytes"};
    static const char *const kinds[] = {
        [RCMI_WORK_SEND] = "send",         [RCMI_WORK_RECV] = "recv",
        [RCMI_WORK_PROBE] = "probe",       [RCMI_WORK_CANCEL] = "cancel",
        [RCMI_WORK_SENDRECV] = "sendrecv", [RCMI_WORK_BATCH] = "batch",
    };
    if (work->form == RCMI_FORM_BYTES)
        return bytes[work->collective];
    if (work->form != RCMI_FORM_PLAIN && work->form != RCMI_FORM_ASYNC)
        return work->form == RCMI_FORM_PARTING ? "rcm_destroy" : "monitored_barrier";
    return work->kind == RCMI_WORK_COLLECTIVE ? rcmi_collective_name(work->collective)
                                              : kinds[work->kind];
}

/* Binds a collective, which holds the operator until it is complete. */
static inline void rcmi_work_bind(struct rcm_work *work, const struct rcmi_bind *bind) {
    work->bind = *bind;
    rcmi_operator_share(bind->op);
}

/* ---- work.c */
/* The issuing thread's. A new work is memory, if possible that of the last blocking call, and its
 * initialisation. _spare: provides memory in *spare, a communicator's; _take: takes it. */
rcm_status rcmi_work_make_spare(struct rcm_work **spare);
static inline rcm_status rcmi_work_spare(struct rcm_work **spare) {
    return *spare ? RCM_OK : rcmi_work_make_spare(spare);
}
struct rcm_work *rcmi_work_take(struct rcm_work **spare);
/* Takes a reference; releases one. */
void rcmi_work_ref(struct rcm_work *work);
void rcmi_work_unref(struct rcm_work *work);
/* RCM_OK if it belongs to this process; else the thread's error is set. */
rcm_status rcmi_work_own(const struct rcm_work *work);
/* Makes work persistent, or adds an operation to it: a copy of *template. */
rcm_status rcmi_work_add_template(struct rcm_work *work, const struct rcmi_template *template);
/* RCM_OK, except in a callback, which must not wait. */
rcm_status rcmi_work_may_wait(int64_t timeout_ms);
/* The device of a communicator's rank (comm.c). */
struct rcmi_rank_device *rcmi_comm_device(struct rcm_comm *comm);
/* Takes a reference of an existing communicator; releases one (comm.c). */
void rcmi_comm_ref(struct rcm_comm *comm);
void rcmi_comm_unref(struct rcm_comm *comm);
/* A thread that has a work enters before it touches comm. False: comm is ending, and its works are
 * complete (comm.c). */
bool rcmi_comm_enter(struct rcm_comm *comm);
void rcmi_comm_exit(struct rcm_comm *comm);
/* ---- completion.c */
void rcmi_work_complete(struct rcm_work *work, rcm_status status);
/* _whole, _again: a new work, or a persistent one that starts again, whose parts are issued
 * next, by the thread that then calls _part_done once. _part: one of its parts, before it is
 * submitted. */
void rcmi_work_whole(struct rcm_work *work);
void rcmi_work_whole_again(struct rcm_work *work);
void rcmi_work_part(struct rcm_work *work, struct rcm_work *whole);
void rcmi_work_part_done(struct rcm_work *whole, rcm_status status);
/* Driver: the run of a work with stages is complete. RCM_OK: so is the work; RCM_AGAIN: its next
 * stage has started; or an error as for rcmi_stages. */
rcm_status rcmi_work_next_stage(struct rcm_work *work);
/* A record (struct rcmi_bind) has the operation's number in its lower half. */
static inline uint64_t rcmi_work_meta(uint64_t hash, uint64_t sequence) {
    return (hash & UINT64_C(0x1fffffff00000000)) | (uint32_t)sequence;
}
/* ---- issue.c */
/* Initialises a work. blocking: rcmi_work_issue gets no ret_work. Issuing thread. */
void rcmi_work_begin(struct rcm_comm *comm, enum rcmi_work_kind kind, bool blocking,
                     const struct rcm_call *call, struct rcm_work *work);
/* Checks a caller's struct of any size. *call stays if it is NULL or of this library's size.
 * Otherwise it becomes `room`, which has all fields of this library. */
rcm_status rcmi_call_in_given(const struct rcm_call **call, struct rcm_call *room);
/* Flags that need no check. */
#define RCMI_UNCHECKED_FLAGS (RCM_MATCH_ASYNC | RCM_AWAIT_LEFT)
static inline rcm_status rcmi_call_in(const struct rcm_call **call, struct rcm_call *room) {
    const struct rcm_call *given = *call;
    const bool usual =
        !given || (given->size == sizeof(*given) && (given->flags & ~RCMI_UNCHECKED_FLAGS) == 0 &&
                   !given->stream && !given->error);
    return usual ? RCM_OK : rcmi_call_in_given(call, room);
}
/* Every public function returns through this, with call as it was passed or converted: fills
 * call->error if status is an error. */
rcm_status rcmi_call_failed(const struct rcm_comm *comm, const struct rcm_call *call,
                            rcm_status status);
static inline rcm_status rcmi_call_out(const struct rcm_comm *comm, const struct rcm_call *call,
                                       rcm_status status) {
    return status >= RCM_OK || !call ? status : rcmi_call_failed(comm, call, status);
}
/* The same for a call that makes no work: its only legal flag is RCM_EXACT_TIMEOUT. */
rcm_status rcmi_call_in_alone(const struct rcm_call **call, struct rcm_call *room);
/* Allocates and initialises a work. */
rcm_status rcmi_work_new(struct rcm_comm *comm, enum rcmi_work_kind kind, bool blocking,
                         const struct rcm_call *call, struct rcm_work **ret_work);
/* Makes a persistent work, which gets its templates next; it counts as complete until its start. */
rcm_status rcmi_work_new_persistent(struct rcm_comm *comm, enum rcmi_work_kind kind,
                                    struct rcm_work **ret_work);
static inline bool rcmi_call_persists(const struct rcm_call *call) {
    return call && call->flags & RCM_PERSISTENT;
}
/* How long a call waits for its own work, in milliseconds: 0 not at all, below 0 for ever;
 * RCMI_WAIT_NOW: it only checks whether the work completes at once. */
#define RCMI_WAIT_NOW INT64_MIN
static inline int64_t rcmi_call_waits(const struct rcm_call *call, rcm_work **ret_work) {
    if (!ret_work)
        return -1;
    if (!call || call->wait_ms != 0 || !(call->flags & RCM_TRY_NOW))
        return !call ? 0 : call->wait_ms < 0 ? -1 : call->wait_ms;
    return rcmi_loop_on_any_thread() ? 0 : RCMI_WAIT_NOW;
}
static inline rcmi_deadline rcmi_call_until(int64_t wait_ms) {
    return rcmi_deadline_in(wait_ms == RCMI_WAIT_NOW ? 0 : wait_ms);
}
/* Issues a work. A call that waits submits it, drives and ends; otherwise submits, kicks and
 * returns the work. */
rcm_status rcmi_work_issue(struct rcm_comm *comm, struct rcm_work *work, int64_t wait_ms,
                           struct rcm_work **ret_work);
/* The same for a work whose parts were issued with status. If one could not be issued, its
 * communicator has failed, and the others end at once. */
rcm_status rcmi_work_issue_whole(struct rcm_work *whole, rcm_status status,
                                 const struct rcm_call *call, rcm_work **ret_work);
/* The result of a call that has waited. Returns the work if it is not final, else frees it. */
rcm_status rcmi_work_end(struct rcm_comm *comm, struct rcm_work *work, struct rcm_work **ret_work);

#endif
