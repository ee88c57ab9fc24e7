/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api/diagnosis/: what is found out when operations do not finish, so that a report and an error
 * name the rank and the call.
 *
 *   call_log.c  what this rank called, compared with what others did: mismatches
 *   calls.c     its last calls in words
 *   inquiry.c   ranks ask each other what they wait for: the origin of a delay
 *   hang.c      the report: a table of what each rank is doing, the conclusion, and the ranks that
 *               are missing from a monitored barrier
 *   page.c      the status page, by which others see what this rank is doing
 *   activity.c  what a rank is doing, in words
 *
 *      communicators (api/work/deadline.c, api/comm/engine.c)      ringcomm-info --live
 *           |  members; a function that hears of a mismatch     |
 *      [ call_log  inquiry ]                                    |
 *           |         |                                         |
 *           |      [ hang ]-------------------------------------'
 *           |         |
 *        [ activity, page ]      messages on control streams (diagnosis_wire.h)
 *
 * Not here: deadlines themselves (api/work/deadline.c); what ranks that found different causes
 * agree on (agreement/).
 */
#ifndef RCMI_DIAGNOSIS_H
#define RCMI_DIAGNOSIS_H

#include "clock.h"
#include "diagnosis_wire.h"
#include "exec.h"
#include "members.h"
#include "rank_set.h"

/* ---- call_log.c: what was called, to be compared between ranks */
struct rcmi_call_log;

/* Members stay as they are. mismatch: two calls differ, as the thread's error tells. Any thread. */
struct rcmi_call_log_config {
    const struct rcmi_members *members;
    void *arg;
    void (*mismatch)(void *arg);
};
/* A call of this rank. */
struct rcmi_call_entry {
    uint64_t sequence;
    uint32_t form; /* rcmi_call_form */
    const struct rcmi_bind *bind;
};
/* In one word: what it is called as, and the kind of its buffers. */
static inline uint32_t rcmi_call_form(enum rcmi_form form, enum rcmi_mem_kind memory) {
    return (uint32_t)form | (uint32_t)memory << 16;
}
rcm_status rcmi_call_log_create(const struct rcmi_call_log_config *config,
                                struct rcmi_call_log **ret_log);
void rcmi_call_log_free(struct rcmi_call_log *log);
/* A collective was issued. */
void rcmi_call_log_add(struct rcmi_call_log *log, const struct rcmi_call_entry *entry);
/* Tells peer (-1: the ranks of this host) of it. */
void rcmi_call_log_tell(struct rcmi_call_log *log, const struct rcmi_call_entry *entry, int peer);
/* Tells peer, once, the last calls. */
void rcmi_call_log_tell_history(struct rcmi_call_log *log, int peer);
/* Loop thread: what another rank told. */
void rcmi_call_log_hear(struct rcmi_call_log *log, int rank, const struct rcmi_call_record *said);

/* Calls that are remembered, 48 KiB of them for each communicator. Any thread. */
#define RCMI_CALLS_KEPT 1024
/* The number of the last one; 0: none. */
uint64_t rcmi_call_log_last(const struct rcmi_call_log *log);
/* That call, without its counts; false: it is not remembered. */
bool rcmi_call_log_read(const struct rcmi_call_log *log, uint64_t sequence,
                        struct rcmi_call_record *ret_record);
/* "all_reduce of 1000 float32, sum (ring)": without its number. */
void rcmi_call_record_describe(const struct rcmi_call_record *record, char *text, size_t cap);

/* ---- calls.c: this rank's last calls, for a report */

/* What is said of them: the last one first, equal ones in a row together, a line each, as many as
 * people read or all; "" if there was none. NULL: no memory. The caller frees it. */
char *rcmi_calls_list(const struct rcmi_call_log *log, int rank, bool all);

/* ---- inquiry.c: the origin of a delay */
struct rcmi_diagnosis;

/* Members stay as they are; reports end with the calls of the log, which outlives this. */
rcm_status rcmi_diagnosis_create(const struct rcmi_members *members,
                                 const struct rcmi_call_log *log,
                                 struct rcmi_diagnosis **ret_diagnosis);
void rcmi_diagnosis_free(struct rcmi_diagnosis *diagnosis);
struct rcmi_verdict {
    int origin;     /* -1 unknown */
    bool asked_all; /* not only along the chain */
    bool seen;      /* by the kernel, not by the silence of a rank */
    char text[360];
    struct rcmi_rank_set
        missing; /* from the monitored barrier, all were asked; else there is none */
};
/* An operation that is late or slow: a name for it that is never looked into, and its deadline, for
 * another one may get the same name; and how this rank waits. */
struct rcmi_late {
    const void *work;
    rcmi_deadline deadline;
    const char *headline; /* of a report */
    const struct rcmi_inquiry *own;
    uint64_t barrier; /* it is this collective, a monitored barrier; 0: it is none */
    bool first_only;  /* of the ranks missing from that only the lowest counts */
};
/* Driver: inquires; RCM_AGAIN: call again when the bell rang or at *ret_until, unless the operation
 * has finished; RCM_OK: here is the verdict, and one of the ranks that inquired for this reason has
 * logged a report under its headline. */
rcm_status rcmi_diagnosis_find(struct rcmi_diagnosis *diagnosis, const struct rcmi_late *late,
                               int64_t now, rcmi_deadline *ret_until,
                               struct rcmi_verdict *ret_verdict);
/* Loop thread: another rank inquires. Returns whether this rank is about to report for that
 * reason. */
bool rcmi_diagnosis_asked(struct rcmi_diagnosis *diagnosis, int rank,
                          const struct rcmi_inquiry *question);
/* The communicator failed by another rank's timeout: what is known so far is reported, if that was
 * this rank's to do. Any thread. */
void rcmi_diagnosis_flush(struct rcmi_diagnosis *diagnosis, const struct rcm_error *error);
/* Loop thread: what another rank answered. */
void rcmi_diagnosis_answer(struct rcmi_diagnosis *diagnosis, int rank,
                           const struct rcmi_inquiry *said);
/* rank was asked in the last inquiry, which is over, and did not answer. Any thread. */
bool rcmi_diagnosis_is_silent(struct rcmi_diagnosis *diagnosis, int rank);

#endif
