/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api/diagnosis/: diagnosis of operations that do not finish, so that a report and an error name
 * the rank and the call.
 *
 *   call_log.c     this rank's calls, compared with those of others: mismatches
 *   call_list.c    its last calls as text
 *   inquiry.c      ranks query each other for what they wait for: the origin of a delay
 *   hang.c         the report: a table of what each rank is doing, the conclusion, and the ranks
 *                  missing from a monitored barrier
 *   status_page.c  the status page, from which others read what this rank is doing
 *   activity.c     what a rank is doing, as text
 *
 *      communicators (api/work/deadline.c, api/comm/engine.c)      ringcomm-info --live
 *           |  members; a callback for mismatches               |
 *      [ call_log  inquiry ]                                    |
 *           |         |                                         |
 *           |      [ hang ]-------------------------------------'
 *           |         |
 *        [ activity, status_page ]   messages on control streams (diagnosis_wire.h)
 *
 * Not here: deadlines themselves (api/work/deadline.c), and the agreement of ranks that found
 * different causes (agreement/).
 */
#ifndef RCMI_DIAGNOSIS_H
#define RCMI_DIAGNOSIS_H

#include "clock.h"
#include "diagnosis_wire.h"
#include "exec.h"
#include "members.h"
#include "rank_set.h"

/* ---- call_log.c: calls, compared between ranks */
struct rcmi_call_log;

/* members must not change. mismatch: two calls differ; the thread's error has both. Any thread. */
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
/* One value for the form of the call and the memory kind of its buffers. */
static inline uint32_t rcmi_call_form(enum rcmi_form form, enum rcmi_mem_kind memory) {
    return (uint32_t)form | (uint32_t)memory << 16;
}
rcm_status rcmi_call_log_create(const struct rcmi_call_log_config *config,
                                struct rcmi_call_log **ret_log);
void rcmi_call_log_free(struct rcmi_call_log *log);
/* Records an issued collective. */
void rcmi_call_log_add(struct rcmi_call_log *log, const struct rcmi_call_entry *entry);
/* Sends the call to peer (-1: to the ranks of this host). */
void rcmi_call_log_send(struct rcmi_call_log *log, const struct rcmi_call_entry *entry, int peer);
/* Sends the last calls to peer, once. */
void rcmi_call_log_send_history(struct rcmi_call_log *log, int peer);
/* A call record of another rank. Loop thread. */
void rcmi_call_log_receive(struct rcmi_call_log *log, int rank,
                           const struct rcmi_call_record *record);

/* Number of stored calls, 48 KiB for each communicator. Any thread. */
#define RCMI_CALLS_KEPT 1024
/* The number of the last one; 0: none. */
uint64_t rcmi_call_log_last(const struct rcmi_call_log *log);
/* Reads that call, without its counts; false: it is no longer stored. */
bool rcmi_call_log_read(const struct rcmi_call_log *log, uint64_t sequence,
                        struct rcmi_call_record *ret_record);
/* Writes the call without its number: "all_reduce of 1000 float32, sum (ring)". */
void rcmi_call_record_describe(const struct rcmi_call_record *record, char *text, size_t cap);

/* ---- call_list.c: this rank's last calls, for a report */

/* Lists them: the last first, equal ones in a row on one line, as many as people read, or all; ""
 * if there was none. NULL: no memory. The caller frees it. */
char *rcmi_calls_list(const struct rcmi_call_log *log, int rank, bool all);

/* ---- inquiry.c: the origin of a delay */
struct rcmi_diagnosis;

/* members must not change. Reports end with the calls of log, which must live longer. */
rcm_status rcmi_diagnosis_create(const struct rcmi_members *members,
                                 const struct rcmi_call_log *log,
                                 struct rcmi_diagnosis **ret_diagnosis);
void rcmi_diagnosis_free(struct rcmi_diagnosis *diagnosis);
struct rcmi_verdict {
    int origin;       /* -1 unknown */
    bool queried_all; /* not only along the chain */
    bool seen;        /* origin is known from the kernel, not from a rank's silence */
    char text[360];
    struct rcmi_rank_set missing; /* from the monitored barrier, if all were queried; else empty */
};
/* An operation that is late or slow, and how this rank waits. work identifies it and is never
 * dereferenced; with deadline, because another one may get the same address. */
struct rcmi_late {
    const void *work;
    rcmi_deadline deadline;
    const char *headline; /* of a report */
    const struct rcmi_inquiry *own;
    uint64_t barrier; /* number of this collective if it is a monitored barrier; else 0 */
    bool first_only;  /* only its lowest missing rank is listed */
};
/* Inquires. Driver. RCM_AGAIN: call again when the bell rings or at *ret_until, unless the
 * operation has finished. RCM_OK: the verdict is complete, and one of the ranks that inquired for
 * this reason has logged a report under its headline. */
rcm_status rcmi_diagnosis_find(struct rcmi_diagnosis *diagnosis, const struct rcmi_late *late,
                               int64_t now, rcmi_deadline *ret_until,
                               struct rcmi_verdict *ret_verdict);
/* Another rank inquires. Returns whether this rank is about to report for that reason. Loop
 * thread. */
bool rcmi_diagnosis_question(struct rcmi_diagnosis *diagnosis, int rank,
                             const struct rcmi_inquiry *question);
/* The communicator failed by another rank's timeout: logs the report with the facts so far, if this
 * rank was the reporter. Any thread. */
void rcmi_diagnosis_flush(struct rcmi_diagnosis *diagnosis, const struct rcm_error *error);
/* An answer of another rank. Loop thread. */
void rcmi_diagnosis_answer(struct rcmi_diagnosis *diagnosis, int rank,
                           const struct rcmi_inquiry *answer);
/* Whether rank was queried in the last inquiry, which is over, and did not answer. Any thread. */
bool rcmi_diagnosis_is_silent(struct rcmi_diagnosis *diagnosis, int rank);

#endif
