/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the origin of a delay: the rank that keeps an operation from ending. The rank that is
 * waited for is mostly a victim itself. So before a timeout is recorded, the late rank queries
 * along the chain which ranks each one waits for. The loop thread of each rank answers, whatever
 * its callers do. A stopped process does not answer, and a process that had no CPU for a while does
 * not answer in time. For ranks on this machine that were queried and have not answered, the
 * kernel's process state shows which are stopped. hang.c draws the conclusion. Ranks that query at
 * different moments may get different answers, so each proposes its finding, and they agree
 * (agreement/cause.c).
 *
 * One of the inquiring ranks queries all others too, and logs a report. Its choice:
 *   - A rank that is queried by a future reporter, before it inquires itself, leaves the report to
 *     that rank.
 *   - Of two ranks that inquire at the same time, the lower one reports. Questions and answers
 *     contain whether their sender will report, and the reporter queries all before it writes.
 * The others wait a little for the reporter, because its finding is better founded. If the chain
 * ends at a rank that runs but is too busy to answer, or that does not answer and no rank reports,
 * every rank queries all: the origin is then a rank that is stopped, or that does not answer
 * either.
 *
 * Monitored barrier: each late rank needs the list of missing ranks. So all ranks are queried even
 * if nothing is to be logged, however many there are, and the wait lasts as long as answers come.
 * The others leave this to the reporter too, and inquire themselves if it fails. With many ranks
 * not every rank should query all: the lower a rank, the earlier its turn.
 *
 * The driver sends the questions, in rcmi_diagnosis_find. The loop thread receives answers and
 * sends the questions that follow from them. `lock` is between the two.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include "diagnosis.h"
#include "hang.h"
#include "log.h"
#include "status_page.h"

#define ASK_NS     (400 * INT64_C(1000000))
#define AGAIN_NS   (30 * INT64_C(1000000))   /* until a busy rank is queried again */
#define CHAIN_NS   (100 * INT64_C(1000000))  /* for the chain; then all are queried */
#define GRACE_NS   (50 * INT64_C(1000000))   /* wait of the others for the reporter */
#define REPORT_NS  (2000 * INT64_C(1000000)) /* as long another rank reports instead */
#define ASK_ALL    256 /* with more ranks only those with a link are queried */
#define TURNS_MIN  16  /* from this many ranks on, they take turns to query all, within TURNS_NS */
#define TURNS_NS   ASK_NS
#define ANSWER_NS  (20 * INT64_C(1000000)) /* for each rank, at most, as long as answers come */
#define TEXT_BYTES (RCMI_HANG_TABLE_BYTES + 1024)

enum state { NOT_QUERIED, QUERIED, BUSY, WAITS, IDLE };

struct witness {
    enum state state;
    uint32_t npeers;
    int peers[RCMI_INQUIRY_PEERS]; /* ranks that it waits for */
    struct rcmi_activity activity; /* once it answered */
};

struct rcmi_diagnosis {
    const struct rcmi_members *members;
    const struct rcmi_call_log *log;
    pthread_mutex_t lock;
    const void *late;         /* NULL: no inquiry; never dereferenced, it may be freed */
    rcmi_deadline late_since; /* its deadline: another work may get the same address */
    enum rcmi_inquiry_reason reason;
    uint32_t number; /* of the inquiry, in every question and answer */
    rcmi_deadline turn, chain_until, until, again;
    rcmi_deadline limit; /* upper bound of `until` */
    int64_t looked_ns;
    bool reports;   /* this rank reports */
    bool leaves_it; /* another rank reports */
    bool queried_all;
    uint64_t barrier; /* see struct rcmi_late; first_only too */
    bool first_only;
    char headline[256];
    struct witness *witnesses; /* by rank; NULL before the first inquiry */
    rcmi_deadline
        reported_until[RCMI_INQUIRY_WARNING + 1]; /* by reason: until then another rank reports */
};

rcm_status rcmi_diagnosis_create(const struct rcmi_members *members,
                                 const struct rcmi_call_log *log,
                                 struct rcmi_diagnosis **ret_diagnosis) {
    struct rcmi_diagnosis *diagnosis = calloc(1, sizeof(*diagnosis));
    if (!diagnosis)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a communicator");
    diagnosis->members = members;
    diagnosis->log = log;
    pthread_mutex_init(&diagnosis->lock, NULL);
    *ret_diagnosis = diagnosis;
    return RCM_OK;
}

void rcmi_diagnosis_free(struct rcmi_diagnosis *diagnosis) {
    if (!diagnosis)
        return;
    pthread_mutex_destroy(&diagnosis->lock);
    free(diagnosis->witnesses);
    free(diagnosis);
}

/* ---- Questions; under the lock --------------------------------------------------------------- */

static void diagnosis_ask(const struct rcmi_diagnosis *diagnosis, int rank) {
    const struct rcmi_members *members = diagnosis->members;
    const struct rcmi_inquiry question = {.magic = RCMI_INQUIRY_MAGIC,
                                          .epoch = members->epoch,
                                          .number = diagnosis->number,
                                          .state = RCMI_INQUIRY_QUESTION,
                                          .reason = diagnosis->reason,
                                          .reports = diagnosis->reports};
    /* A rank to which no question can be sent will not answer. */
    (void)rcmi_node_send(members->node, members->world_rank[rank], &question, sizeof(question));
}

static void diagnosis_ask_first(struct rcmi_diagnosis *diagnosis, int rank) {
    if (rank < 0 || rank >= diagnosis->members->size ||
        diagnosis->witnesses[rank].state != NOT_QUERIED)
        return;
    diagnosis->witnesses[rank].state = QUERIED;
    diagnosis_ask(diagnosis, rank);
}

/* Notes a rank's answer. */
static void diagnosis_note(struct rcmi_diagnosis *diagnosis, int rank,
                           const struct rcmi_inquiry *answer) {
    struct witness *witness = &diagnosis->witnesses[rank];
    *witness = (struct witness){.state = answer->state == RCMI_INQUIRY_WAITS  ? WAITS
                                         : answer->state == RCMI_INQUIRY_IDLE ? IDLE
                                                                              : BUSY,
                                .npeers = answer->npeers,
                                .activity = answer->activity};
    rcmi_activity_sanitize(&witness->activity, diagnosis->members->size);
    memcpy(witness->peers, answer->peers, sizeof(witness->peers));
    for (uint32_t i = 0; i < answer->npeers; i++)
        diagnosis_ask_first(diagnosis, answer->peers[i]);
}

/* The reporter needs the answers of all; but that must not link a large job all to all. */
static void diagnosis_ask_all(struct rcmi_diagnosis *diagnosis) {
    const struct rcmi_members *members = diagnosis->members;
    diagnosis->queried_all = true;
    for (int r = 0; r < members->size; r++)
        if (members->size <= ASK_ALL || diagnosis->barrier ||
            rcmi_node_transport(members->node, members->world_rank[r])[0])
            diagnosis_ask_first(diagnosis, r);
}

static void diagnosis_ask_again(struct rcmi_diagnosis *diagnosis, int64_t now) {
    if (now < diagnosis->again)
        return;
    diagnosis->again = now + AGAIN_NS;
    for (int r = 0; r < diagnosis->members->size; r++)
        if (diagnosis->witnesses[r].state == BUSY)
            diagnosis_ask(diagnosis, r);
}

static bool is_open(const struct witness *witness) {
    return witness->state == QUERIED || witness->state == BUSY;
}

static bool diagnosis_is_complete(const struct rcmi_diagnosis *diagnosis) {
    for (int r = 0; r < diagnosis->members->size; r++)
        if (is_open(&diagnosis->witnesses[r]))
            return false;
    return true;
}

static void diagnosis_leave_it(struct rcmi_diagnosis *diagnosis) {
    diagnosis->reports = false;
    diagnosis->leaves_it = true;
}

static rcmi_deadline diagnosis_end(const struct rcmi_diagnosis *diagnosis) {
    return diagnosis->leaves_it ? diagnosis->limit + GRACE_NS : diagnosis->until;
}

/* The kernel's state of a rank's process, if it is on this machine. */
static enum rcmi_process_state diagnosis_look(const struct rcmi_diagnosis *diagnosis, int rank) {
    const struct rcmi_members *members = diagnosis->members;
    const void *blob;
    size_t len;
    if (rcmi_book_lookup(members->book, members->world_rank[rank], &blob, &len))
        return RCMI_PROCESS_ELSEWHERE;
    return rcmi_address_look(blob, len);
}

/* A first answer has come, and others may follow. */
static void diagnosis_put_off(struct rcmi_diagnosis *diagnosis, int64_t now) {
    const rcmi_deadline later = now + ASK_NS;
    if (!diagnosis->barrier || !diagnosis->queried_all || later < diagnosis->until)
        return;
    diagnosis->until = later < diagnosis->limit ? later : diagnosis->limit;
}

/* ---- Loop thread ----------------------------------------------------------------------------- */

void rcmi_diagnosis_answer(struct rcmi_diagnosis *diagnosis, int rank,
                           const struct rcmi_inquiry *answer) {
    bool complete = false;
    pthread_mutex_lock(&diagnosis->lock);
    if (diagnosis->late && diagnosis->number == answer->number &&
        is_open(&diagnosis->witnesses[rank])) {
        if (answer->reports && answer->reason == diagnosis->reason &&
            rank < diagnosis->members->rank)
            diagnosis_leave_it(diagnosis);
        if (diagnosis->witnesses[rank].state == QUERIED)
            diagnosis_put_off(diagnosis, rcmi_now_ns());
        diagnosis_note(diagnosis, rank, answer);
        complete = diagnosis_is_complete(diagnosis);
    }
    pthread_mutex_unlock(&diagnosis->lock);
    if (complete)
        rcmi_node_ring(diagnosis->members->node);
}

bool rcmi_diagnosis_question(struct rcmi_diagnosis *diagnosis, int rank,
                             const struct rcmi_inquiry *question) {
    pthread_mutex_lock(&diagnosis->lock);
    const bool asking = diagnosis->late && diagnosis->reason == question->reason;
    if (question->reports && asking && rank < diagnosis->members->rank)
        diagnosis_leave_it(diagnosis);
    if (question->reports && !asking)
        diagnosis->reported_until[question->reason] = rcmi_now_ns() + REPORT_NS;
    const bool reports = asking && diagnosis->reports;
    pthread_mutex_unlock(&diagnosis->lock);
    return reports;
}

/* ---- Agreement ------------------------------------------------------------------------------- */

bool rcmi_diagnosis_is_silent(struct rcmi_diagnosis *diagnosis, int rank) {
    pthread_mutex_lock(&diagnosis->lock);
    const bool silent =
        diagnosis->witnesses && !diagnosis->late && diagnosis->witnesses[rank].state == QUERIED;
    pthread_mutex_unlock(&diagnosis->lock);
    return silent;
}

/* ---- Verdict; under the lock ----------------------------------------------------------------- */

/* A rank answered BUSY if its driver never let its loop thread look. If its answer has peers, it
 * has waited for them for a while, so it waits: on a loaded machine its driver just does not
 * run. */
static enum rcmi_hang_state witness_row_state(const struct witness *witness) {
    static const enum rcmi_hang_state states[] = {RCMI_ROW_NOT_QUERIED, RCMI_ROW_SILENT,
                                                  RCMI_ROW_BUSY, RCMI_ROW_WAITS, RCMI_ROW_IDLE};
    return witness->state == BUSY && witness->npeers > 0 ? RCMI_ROW_WAITS : states[witness->state];
}

static void row_fill(const struct rcmi_diagnosis *diagnosis, int rank, struct rcmi_hang_row *row) {
    const struct rcmi_members *members = diagnosis->members;
    const struct witness *witness = &diagnosis->witnesses[rank];
    const int world = members->world_rank[rank];
    const void *page, *blob;
    size_t len;
    *row = (struct rcmi_hang_row){.state = witness_row_state(witness),
                                  .known = witness->state >= BUSY,
                                  .host = "",
                                  .activity = witness->activity};
    if (!rcmi_book_lookup(members->book, world, &blob, &len) &&
        rcmi_address_process(blob, len, &row->pid, &row->host) != RCM_OK)
        row->host = "";
    page = row->known ? NULL : rcmi_node_peer_status_page(members->node, world);
    if (page && rcmi_page_find(page, members->epoch, rank, rcmi_now_ns(), &row->activity))
        row->known = true;
}

/* Marks all ranks that this rank waits for, directly or through others. queue: space for n. */
static void rows_follow(const struct rcmi_diagnosis *diagnosis, struct rcmi_hang_row *rows,
                        int *queue) {
    int n = 0;
    queue[n++] = diagnosis->members->rank;
    rows[queue[0]].on_chain = true;
    for (int i = 0; i < n; i++) {
        const struct witness *witness = &diagnosis->witnesses[queue[i]];
        for (uint32_t k = 0; k < witness->npeers; k++) {
            const int peer = witness->peers[k];
            if (peer < 0 || peer >= diagnosis->members->size || rows[peer].on_chain)
                continue;
            rows[peer].on_chain = true;
            queue[n++] = peer;
        }
    }
}

/* Checks which of the queried ranks without an answer cannot answer. */
static void rows_look(const struct rcmi_diagnosis *diagnosis, struct rcmi_hang_row *rows) {
    for (int r = 0; r < diagnosis->members->size; r++) {
        if (rows[r].state != RCMI_ROW_SILENT)
            continue;
        const enum rcmi_process_state seen = diagnosis_look(diagnosis, r);
        rows[r].runs = seen == RCMI_PROCESS_RUNS;
        if (seen == RCMI_PROCESS_STOPPED)
            rows[r].state = RCMI_ROW_STOPPED;
    }
}

static struct rcmi_hang_row *diagnosis_rows(const struct rcmi_diagnosis *diagnosis) {
    const size_t n = (size_t)diagnosis->members->size;
    struct rcmi_hang_row *rows = calloc(n, sizeof(*rows));
    int *queue = calloc(n, sizeof(*queue));
    if (!rows || !queue) {
        free(rows);
        free(queue);
        return NULL;
    }
    for (int r = 0; r < diagnosis->members->size; r++)
        row_fill(diagnosis, r, &rows[r]);
    rows_follow(diagnosis, rows, queue);
    rows_look(diagnosis, rows);
    free(queue);
    return rows;
}

/* Frees both, or returns their memory. */
static char *report_with_calls(char *report, char *calls) {
    const size_t len = strlen(report), more = calls ? strlen(calls) + 1 : 0;
    char *both = more > 0 ? realloc(report, len + more) : NULL;
    if (both)
        memcpy(both + len, calls, more);
    free(calls);
    return both ? both : report;
}

/* Makes the report, which the caller logs after it has released the lock; NULL: this rank reports
 * nothing. */
static char *diagnosis_report(const struct rcmi_diagnosis *diagnosis,
                              const struct rcmi_hang_row *rows, const char *conclusion) {
    const struct rcmi_members *members = diagnosis->members;
    char *text = diagnosis->reports ? malloc(TEXT_BYTES) : NULL;
    if (!text)
        return NULL;
    const int len = snprintf(text, TEXT_BYTES, "%s: %s\n", diagnosis->headline, conclusion);
    rcmi_hang_table(rows, members->size, text + len, TEXT_BYTES - (size_t)len);
    return report_with_calls(
        text, rcmi_calls_list(diagnosis->log, members->rank, rcmi_log_enabled(RCMI_LOG_INFO)));
}

static void diagnosis_conclude(const struct rcmi_diagnosis *diagnosis,
                               const struct rcmi_hang_row *rows, struct rcmi_verdict *verdict) {
    const int n = diagnosis->members->size;
    const struct rcmi_hang_barrier barrier = {diagnosis->barrier, diagnosis->first_only};
    const size_t cap = sizeof(verdict->text);
    verdict->origin = rcmi_hang_conclude(rows, n, verdict->text, cap);
    if (barrier.number > 0 && diagnosis->queried_all)
        verdict->origin = rcmi_hang_missing(rows, n, &barrier, verdict->origin, &verdict->missing,
                                            verdict->text, cap);
}

/* Ends the inquiry. */
static char *diagnosis_judge(struct rcmi_diagnosis *diagnosis, struct rcmi_verdict *verdict) {
    struct rcmi_hang_row *rows = diagnosis_rows(diagnosis);
    char *report = NULL;
    *verdict = (struct rcmi_verdict){.origin = -1};
    if (rows) {
        diagnosis_conclude(diagnosis, rows, verdict);
        report = diagnosis_report(diagnosis, rows, verdict->text);
        verdict->seen = verdict->origin >= 0 && rows[verdict->origin].state == RCMI_ROW_STOPPED;
    }
    verdict->queried_all = diagnosis->queried_all;
    free(rows);
    diagnosis->late = NULL;
    return report;
}

static void report_log(const struct rcmi_diagnosis *diagnosis, char *report) {
    if (!report)
        return;
    rcmi_log_set_rank(diagnosis->members->rank); /* the loop thread has no rank set yet */
    rcmi_log_lines(RCMI_LOG_WARN, report);
    free(report);
}

void rcmi_diagnosis_flush(struct rcmi_diagnosis *diagnosis, const struct rcm_error *error) {
    struct rcmi_verdict verdict;
    char *report = NULL;
    pthread_mutex_lock(&diagnosis->lock);
    if (diagnosis->late && diagnosis->reports && diagnosis->reason == RCMI_INQUIRY_LATE &&
        error->status == RCM_ERR_TIMEOUT)
        report = diagnosis_judge(diagnosis, &verdict);
    pthread_mutex_unlock(&diagnosis->lock);
    report_log(diagnosis, report);
}

/* ---- Driver ---------------------------------------------------------------------------------- */

/* How much later than the lowest rank this one queries all. */
static int64_t diagnosis_turn_ns(const struct rcmi_diagnosis *diagnosis) {
    const struct rcmi_members *members = diagnosis->members;
    return diagnosis->barrier && members->size >= TURNS_MIN
               ? TURNS_NS * members->rank / members->size
               : 0;
}

static void diagnosis_set_times(struct rcmi_diagnosis *diagnosis, int64_t begin) {
    diagnosis->turn = begin;
    diagnosis->chain_until = begin + CHAIN_NS;
    diagnosis->until = begin + ASK_NS;
    diagnosis->limit =
        diagnosis->until + (diagnosis->barrier ? diagnosis->members->size * ANSWER_NS : 0);
}

static bool diagnosis_begin(struct rcmi_diagnosis *diagnosis, const struct rcmi_late *late,
                            int64_t now) {
    const size_t n = (size_t)diagnosis->members->size;
    if (!diagnosis->witnesses)
        diagnosis->witnesses = calloc(n, sizeof(*diagnosis->witnesses));
    if (!diagnosis->witnesses)
        return false;
    memset(diagnosis->witnesses, 0, n * sizeof(*diagnosis->witnesses));
    diagnosis->late = late->work;
    diagnosis->late_since = late->deadline;
    diagnosis->reason = (enum rcmi_inquiry_reason)late->own->reason;
    diagnosis->number++;
    diagnosis->barrier = late->barrier;
    diagnosis->first_only = late->first_only;
    diagnosis_set_times(diagnosis, now + diagnosis_turn_ns(diagnosis));
    diagnosis->looked_ns = now;
    diagnosis->again = now + AGAIN_NS;
    diagnosis->leaves_it = now < diagnosis->reported_until[diagnosis->reason];
    diagnosis->reports =
        (rcmi_log_enabled(RCMI_LOG_WARN) || diagnosis->barrier) && !diagnosis->leaves_it;
    diagnosis->queried_all = false;
    snprintf(diagnosis->headline, sizeof(diagnosis->headline), "%s", late->headline);
    diagnosis->witnesses[diagnosis->members->rank].state = WAITS; /* never queried */
    diagnosis_note(diagnosis, diagnosis->members->rank, late->own);
    return true;
}

/* Whether a rank of this machine has not answered but is not stopped. */
static bool diagnosis_expects_answers(const struct rcmi_diagnosis *diagnosis) {
    for (int r = 0; r < diagnosis->members->size; r++)
        if (diagnosis->witnesses[r].state == QUERIED &&
            diagnosis_look(diagnosis, r) == RCMI_PROCESS_RUNS)
            return true;
    return false;
}

/* Whether the chain ends at a rank that runs but does not answer what it waits for. A rank without
 * any answer may already have too many questions to answer; the reporter's must suffice for it. */
static bool diagnosis_is_stuck(const struct rcmi_diagnosis *diagnosis) {
    for (int r = 0; r < diagnosis->members->size; r++)
        if (diagnosis->witnesses[r].state == BUSY)
            return true;
    return !diagnosis->leaves_it && diagnosis_expects_answers(diagnosis);
}

/* Whether the rank to which this one left the queries has not delivered its finding in time. */
static bool diagnosis_is_let_down(const struct rcmi_diagnosis *diagnosis, int64_t now) {
    return diagnosis->barrier && diagnosis->leaves_it && now >= diagnosis_end(diagnosis);
}

static void diagnosis_take_over(struct rcmi_diagnosis *diagnosis, int64_t now) {
    diagnosis->leaves_it = false;
    diagnosis_set_times(diagnosis, now);
    diagnosis_ask_all(diagnosis);
}

/* Time in which this rank could not look does not count as waiting for others. */
static void diagnosis_allow_for_gap(struct rcmi_diagnosis *diagnosis, int64_t now) {
    const int64_t gap = now - diagnosis->looked_ns;
    diagnosis->looked_ns = now;
    if (!diagnosis->barrier || gap < 2 * AGAIN_NS)
        return;
    diagnosis->until += gap - AGAIN_NS;
    diagnosis->limit += gap - AGAIN_NS;
}

/* Whether the inquiry continues. */
static bool diagnosis_goes_on(struct rcmi_diagnosis *diagnosis, int64_t now) {
    const bool complete = diagnosis_is_complete(diagnosis), chained = now >= diagnosis->chain_until;
    diagnosis_allow_for_gap(diagnosis, now);
    const bool turn = chained || (complete && now >= diagnosis->turn);
    if (!diagnosis->queried_all &&
        ((diagnosis->reports && turn) || (chained && diagnosis_is_stuck(diagnosis)))) {
        diagnosis_ask_all(diagnosis);
        return true;
    }
    if (!diagnosis->queried_all && diagnosis_is_let_down(diagnosis, now)) {
        diagnosis_take_over(diagnosis, now);
        return true;
    }
    const bool waits_for_turn = diagnosis->barrier && !diagnosis->queried_all;
    if (now >= diagnosis_end(diagnosis))
        return now < diagnosis->limit && diagnosis_expects_answers(diagnosis);
    return !complete || diagnosis->leaves_it || waits_for_turn;
}

static rcmi_deadline diagnosis_next_look(const struct rcmi_diagnosis *diagnosis) {
    const rcmi_deadline end = diagnosis_end(diagnosis);
    return diagnosis->barrier || diagnosis->again < end ? diagnosis->again : end;
}

rcm_status rcmi_diagnosis_find(struct rcmi_diagnosis *diagnosis, const struct rcmi_late *late,
                               int64_t now, rcmi_deadline *ret_until,
                               struct rcmi_verdict *ret_verdict) {
    const struct rcmi_inquiry *own = late->own;
    rcm_status status = RCM_OK;
    char *report = NULL;
    pthread_mutex_lock(&diagnosis->lock);
    const bool same = diagnosis->late == late->work && diagnosis->late_since == late->deadline &&
                      diagnosis->reason == (enum rcmi_inquiry_reason)own->reason;
    if (own->reason == RCMI_INQUIRY_WARNING &&
        now < diagnosis->reported_until[RCMI_INQUIRY_WARNING]) {
        *ret_verdict = (struct rcmi_verdict){.origin = -1}; /* one warning is enough */
    } else if (diagnosis->late && !same && now < diagnosis_end(diagnosis)) {
        status = RCM_AGAIN; /* one inquiry at a time */
    } else if (!same && !diagnosis_begin(diagnosis, late, now)) {
        *ret_verdict = (struct rcmi_verdict){.origin = own->npeers > 0 ? own->peers[0] : -1};
    } else if (diagnosis_goes_on(diagnosis, now)) {
        diagnosis_ask_again(diagnosis, now);
        status = RCM_AGAIN;
    } else {
        report = diagnosis_judge(diagnosis, ret_verdict);
        diagnosis->reported_until[own->reason] = now + REPORT_NS;
    }
    *ret_until = diagnosis_next_look(diagnosis);
    pthread_mutex_unlock(&diagnosis->lock);
    report_log(diagnosis, report);
    return status;
}
