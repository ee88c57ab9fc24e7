/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A work: one operation in flight, a collective, a send or a receive.
 *
 *   work.c        its memory
 *   completion.c  its completion, and that of its parts and stages
 *   issue.c       works as callers see them: issued, tested, waited for, freed
 *
 * Not here: what makes it go on (drive.h), until when (deadline.h), and what its completion causes
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
    RCMI_WORK_CANCEL,   /* of receives: done by the driver, in the order of issue */
    RCMI_WORK_SENDRECV, /* a whole of two parts */
    RCMI_WORK_BATCH,    /* a whole of sends and receives */
};

/*
 * Further stages of a collective: each is a run of a plan of its own, with buffers of its own, that
 * is bound when the stage before is complete on this rank, for instance because sizes came with
 * that. What the call binds is the first stage. All ranks have the same stages. One deadline is for
 * all; reports show the stage that runs. A stage starts at once, but collectives that were issued
 * later start only after the last stage has started, so say which one is the last.
 */
struct rcmi_stages {
    /* The stage before is complete; what it received is there. RCM_AGAIN: *ret_bind is the next
     * stage, from rcmi_request_stage (request.h), which makes the record that its messages have on
     * all ranks alike; if it has blocks, they are malloc'd, and the work's. *ret_last (false
     * before) becomes true if none follows it. RCM_OK: there is none. RCM_ERR_UNSUPPORTED, if all
     * ranks find it, ends the work; any other error, with the thread's error, the communicator.
     * Driver: do not wait. */
    rcm_status (*next)(struct rcmi_stages *stages, struct rcm_comm *comm,
                       struct rcmi_bind *ret_bind, bool *ret_last);
    /* Once in any case, with the status with which the work is about to be complete, or with which
     * the call failed that was to make it: no buffer is touched any more. Hands out results, frees
     * what there is. */
    void (*end)(struct rcmi_stages *stages, rcm_status status);
    /* Does a stage that is not bound yet use memory in [begin, end)? NULL: none uses other memory
     * than the work's bind. Driver, or under the lock of submitted works. */
    bool (*touches)(const struct rcmi_stages *stages, uintptr_t begin, uintptr_t end);
};

/* What a start of a persistent work issues: its one operation, or one of those of rcm_coalesced. */
struct rcmi_template {
    struct rcmi_template *next;
    enum rcmi_work_kind kind;
    int64_t timeout_ms;
    enum rcm_collective collective; /* of that kind, as the next five */
    enum rcmi_form form;
    bool drains;
    uint64_t hash; /* of what must be equal on all ranks */
    struct rcmi_bind bind;
    struct rcmi_block *blocks;     /* bind's, if it has such; the template's */
    bool special;                  /* the bind may tell of registrations */
    struct rcm_message *message;   /* the caller's, of a receive; NULL */
    struct rcmi_transfer transfer; /* of a send or receive, as it begins */
    struct rcmi_stream stream;     /* which each start comes after */
};

struct rcm_work {
    /* RCM_PENDING, then final. The driver's release store pairs with the acquire load of tests and
     * waits. */
    _Atomic int status;
    _Atomic int refs; /* the user's and the driver's */
    /* Of a blocking call, known to no other thread: refs do not count, and none is held on comm.
     * Nothing touches it after its completion but the call. */
    bool blocking;
    bool attended; /* the driver's: the thread that waits for it drives, and need not be woken */
    enum rcmi_work_kind kind;
    enum rcm_collective collective; /* of that kind */
    struct rcm_comm *comm;          /* holds a reference; see rcmi_comm_enter */
    uint32_t fork_generation;
    struct rcm_work *next;
    /* The driver's, of a collective in the start queue: it has left the part that waits; it starts
     * only when all issued before it are complete. */
    bool started, drains;
    size_t run_bytes; /* see rcmi_queue_weigh */
    rcmi_deadline deadline;
    int64_t timeout_ms;
    int64_t moved_ns; /* last progress seen, for the warning; 0: not looked at yet */
    bool warned;
    /* Which ranks were told what it is, see call_log.c: 0 none, 1 those of this host, 2 + rank. */
    int told;
    uint64_t seen; /* the progress seen last, to notice that there was some */
    /* No progress since, although a rank that it waits for has left: when that was last seen, and
     * for how long in all. */
    int64_t left_look_ns, left_for_ns;
    enum rcmi_form form;
    bool shown; /* it is the send or receive on the status page */
    /* A message of another call came: so long the other rank's call log is waited for yet, as of
     * then; 0: it did not. */
    int64_t call_log_left_ns, call_log_looked_ns;
    uint64_t sequence;
    struct rcmi_bind bind;
    struct rcmi_block *blocks;    /* bind's, if it has such; freed on completion */
    struct rcmi_operation *fence; /* what it comes after, or its parts; NULL; dropped likewise */
    struct rcmi_stages *stages;   /* NULL: there is one stage */
    uint32_t stage;               /* of that, the number of the one in bind, from 0 */
    bool last_stage;
    struct rcmi_run *run;
    /* Of rcm_coalesced, and of a persistent work: a part's whole, or NULL; a whole's parts that are
     * not complete, and one more until all are issued; and the first status of a part that failed.
     * A part is known to no user, a whole is in no queue. */
    struct rcm_work *whole;
    _Atomic int parts_left, parts_status;
    struct rcmi_transfer transfer;
    struct rcm_message message;
    struct rcmi_template *templates; /* of a persistent work, which is a whole; else NULL */
    struct rcm_message *message_to;  /* the caller's, and where a probe says what it took; NULL */
    void **matched_to;
    struct rcm_work *target; /* of a cancel; NULL: all receives that have no message */
    struct rcmi_notice notice;
    char *reason; /* why it failed and its communicator did not, in a sentence; malloc'd, or NULL */
};

/* "all_reduce", "send" */
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
    if (work->form != RCMI_FORM_PLAIN)
        return work->form == RCMI_FORM_PARTING ? "rcm_destroy" : "monitored_barrier";
    return work->kind == RCMI_WORK_COLLECTIVE ? rcmi_collective_name(work->collective)
                                              : kinds[work->kind];
}

/* The collective that it is; until it is complete it holds the operator. */
static inline void rcmi_work_bind(struct rcm_work *work, const struct rcmi_bind *bind) {
    work->bind = *bind;
    rcmi_operator_share(bind->op);
}

/* ---- work.c */
/* The issuing thread's. A new work is memory, that of the last blocking call if there is some, and
 * a beginning. _spare: there is memory for one in *spare, a communicator's; _take: takes it. */
rcm_status rcmi_work_make_spare(struct rcm_work **spare);
static inline rcm_status rcmi_work_spare(struct rcm_work **spare) {
    return *spare ? RCM_OK : rcmi_work_make_spare(spare);
}
struct rcm_work *rcmi_work_take(struct rcm_work **spare);
/* Takes a reference; gives one back. */
void rcmi_work_ref(struct rcm_work *work);
void rcmi_work_unref(struct rcm_work *work);
/* RCM_OK if it is one of this process; else the thread's error is set. */
rcm_status rcmi_work_own(const struct rcm_work *work);
/* Makes work persistent, or adds another operation to it: a copy of *template. */
rcm_status rcmi_work_add_template(struct rcm_work *work, const struct rcmi_template *template);
/* RCM_OK, but in a callback, which may not wait. */
rcm_status rcmi_work_may_wait(int64_t timeout_ms);
/* The device of a communicator's rank (comm.c). */
struct rcmi_rank_device *rcmi_comm_device(struct rcm_comm *comm);
/* Takes a reference of a communicator, which exists; gives one back (comm.c). */
void rcmi_comm_ref(struct rcm_comm *comm);
void rcmi_comm_unref(struct rcm_comm *comm);
/* A thread that has a work enters before it touches comm; false: comm is at its end, its works are
 * complete (comm.c). */
bool rcmi_comm_enter(struct rcm_comm *comm);
void rcmi_comm_exit(struct rcm_comm *comm);
/* ---- completion.c */
void rcmi_work_complete(struct rcm_work *work, rcm_status status);
/* A work whose parts are issued next, by the thread that then calls _part_done once: a new one, or
 * a persistent one that starts again; and one of its parts, before it is submitted. */
void rcmi_work_whole(struct rcm_work *work);
void rcmi_work_whole_again(struct rcm_work *work);
void rcmi_work_part(struct rcm_work *work, struct rcm_work *whole);
void rcmi_work_part_done(struct rcm_work *whole, rcm_status status);
/* Driver: the run of a work with stages is complete. RCM_OK: so is the work; RCM_AGAIN: its next
 * stage has started; or an error as of rcmi_stages. */
rcm_status rcmi_work_next_stage(struct rcm_work *work);
/* A record (struct rcmi_bind): in its lower half the operation's number. */
static inline uint64_t rcmi_work_meta(uint64_t hash, uint64_t sequence) {
    return (hash & UINT64_C(0x1fffffff00000000)) | (uint32_t)sequence;
}
/* ---- issue.c */
/* blocking: rcmi_work_issue will get no ret_work. Issuing thread. */
void rcmi_work_begin(struct rcm_comm *comm, enum rcmi_work_kind kind, bool blocking,
                     const struct rcm_call *call, struct rcm_work *work);
/* Checks a call that was given, of whatever size: *call stays if it is NULL or of this library's
 * size, else it becomes `room`, which has all fields that this library knows. */
rcm_status rcmi_call_in_given(const struct rcm_call **call, struct rcm_call *room);
static inline rcm_status rcmi_call_in(const struct rcm_call **call, struct rcm_call *room) {
    const struct rcm_call *given = *call;
    const bool usual = !given || (given->size == sizeof(*given) && given->flags == 0 &&
                                  !given->stream && !given->error);
    return usual ? RCM_OK : rcmi_call_in_given(call, room);
}
/* Every front door returns by this, with the call as it was given or taken in: fills call->error if
 * status is an error. */
rcm_status rcmi_call_failed(const struct rcm_comm *comm, const struct rcm_call *call,
                            rcm_status status);
static inline rcm_status rcmi_call_out(const struct rcm_comm *comm, const struct rcm_call *call,
                                       rcm_status status) {
    return status >= RCM_OK || !call ? status : rcmi_call_failed(comm, call, status);
}
/* The same of a call that makes no work: it has no flag but RCM_EXACT_TIMEOUT. */
rcm_status rcmi_call_in_alone(const struct rcm_call **call, struct rcm_call *room);
/* Memory for a work, and its beginning. */
rcm_status rcmi_work_new(struct rcm_comm *comm, enum rcmi_work_kind kind, bool blocking,
                         const struct rcm_call *call, struct rcm_work **ret_work);
/* A persistent work, which gets its templates next; it counts as complete until it is started. */
rcm_status rcmi_work_new_persistent(struct rcm_comm *comm, enum rcmi_work_kind kind,
                                    struct rcm_work **ret_work);
static inline bool rcmi_call_persists(const struct rcm_call *call) {
    return call && call->flags & RCM_PERSISTENT;
}
/* How long a call waits for its work itself, in milliseconds: 0 not at all, below 0 for ever, but
 * RCMI_WAIT_NOW: it looks whether that is complete at once. */
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
/* A call that waits submits and drives, then ends. Else submits, kicks, hands out. */
rcm_status rcmi_work_issue(struct rcm_comm *comm, struct rcm_work *work, int64_t wait_ms,
                           struct rcm_work **ret_work);
/* The same of a work whose parts were issued with status. If one could not be, its communicator has
 * failed, and the others end at once. */
rcm_status rcmi_work_issue_whole(struct rcm_work *whole, rcm_status status,
                                 const struct rcm_call *call, rcm_work **ret_work);
/* The result of a call that has waited. Its work is handed out if it is not final, else not needed
 * any more. */
rcm_status rcmi_work_end(struct rcm_comm *comm, struct rcm_work *work, struct rcm_work **ret_work);

#endif
