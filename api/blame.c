/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is to blame when an operation is late. The rank that is waited for is mostly a victim itself,
 * so before a timeout is recorded the late rank asks along the chain: whom do you wait for? The
 * loop thread of each rank answers, whatever its callers do; a process that is stopped does not,
 * and one that has had no processor for a while does not in time. So of those that were asked and
 * have not answered the ones on the same machine are looked at: the kernel knows who is stopped.
 * What follows from all this is the business of hang.c. Ranks that ask at different moments may get
 * different answers, so what they find is not said by each of them: claim.c.
 *
 * One of the ranks that ask asks all the others too, and logs a report. Which one:
 *   - who has been asked by a rank that will report, before it asks itself, leaves it to that one;
 *   - of two that ask at the same time the lower rank reports: questions and answers say whether
 *     their sender will, and the reporter asks everybody before it writes.
 * The others give it a little time, for what it finds is better founded. Where the chain ends at a
 * rank that runs, but is too busy to say whom it waits for, or if nobody reports says nothing, all
 * ask all: one that is stopped is to blame, or one that does not answer either.
 *
 * The questions are asked by the driver, in rcmi_blame_find; answers are taken, and what follows
 * from them is asked, on the loop thread; `lock` is between the two.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "comm.h"
#include "log.h"
#include "page.h"
#include "hang.h"
#include "wire.h"

#define ASK_NS     (400 * INT64_C(1000000))
#define AGAIN_NS   (30 * INT64_C(1000000))   /* until a rank that was busy is asked again */
#define CHAIN_NS   (100 * INT64_C(1000000))  /* for the chain; then all are asked */
#define GRACE_NS   (50 * INT64_C(1000000))   /* for the reporter, by those who do not report */
#define HEARD_NS   (2000 * INT64_C(1000000)) /* a report is one's own for that long */
#define ASK_ALL    256 /* of more ranks only those that are linked are asked */
#define TEXT_BYTES (RCMI_HANG_TABLE_BYTES + 1024)

enum state { NOT_ASKED, ASKED, BUSY, WAITS, IDLE };

struct witness {
    enum state state;
    uint32_t npeers;
    int peers[RCMI_INQUIRY_PEERS]; /* whom it waits for */
    struct rcmi_activity activity; /* once it answered */
};

struct rcmi_blame {
    rcm_comm *comm;
    pthread_mutex_t lock;
    const struct rcm_work *late; /* NULL: nothing is asked; never looked into, it may be gone */
    rcmi_deadline late_since;    /* its deadline: another work may get the same address */
    enum rcmi_inquiry_reason reason;
    uint32_t number; /* of the inquiry, in every question and answer */
    rcmi_deadline chain_until, until, again;
    bool reports;   /* this rank does */
    bool leaves_it; /* another rank does */
    bool asked_all;
    char headline[160];
    struct witness *witnesses;                     /* by rank; NULL before the first inquiry */
    rcmi_deadline heard[RCMI_INQUIRY_WARNING + 1]; /* by reason: so long another rank reports */
};

rcm_status rcmi_blame_create(rcm_comm *comm, struct rcmi_blame **ret_blame) {
    struct rcmi_blame *blame = calloc(1, sizeof(*blame));
    if (!blame)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a communicator");
    blame->comm = comm;
    pthread_mutex_init(&blame->lock, NULL);
    *ret_blame = blame;
    return RCM_OK;
}

void rcmi_blame_free(struct rcmi_blame *blame) {
    if (!blame)
        return;
    pthread_mutex_destroy(&blame->lock);
    free(blame->witnesses);
    free(blame);
}

/* ---- Asking; under the lock ---------------------------------------------------------------- */

static void blame_ask(const struct rcmi_blame *blame, int rank) {
    rcm_comm *comm = blame->comm;
    const struct rcmi_inquiry question = {.magic = RCMI_INQUIRY_MAGIC,
                                          .epoch = comm->epoch,
                                          .number = blame->number,
                                          .state = RCMI_INQUIRY_QUESTION,
                                          .reason = blame->reason,
                                          .reports = blame->reports};
    /* Who cannot even be sent a question will not answer. */
    (void)rcmi_node_send(comm->engine->node, comm->world_rank[rank], &question, sizeof(question));
}

static void blame_ask_first(struct rcmi_blame *blame, int rank) {
    if (rank < 0 || rank >= blame->comm->size || blame->witnesses[rank].state != NOT_ASKED)
        return;
    blame->witnesses[rank].state = ASKED;
    blame_ask(blame, rank);
}

/* What a rank says about itself. */
static void blame_note(struct rcmi_blame *blame, int rank, const struct rcmi_inquiry *said) {
    struct witness *witness = &blame->witnesses[rank];
    *witness = (struct witness){.state = said->state == RCMI_INQUIRY_WAITS  ? WAITS
                                         : said->state == RCMI_INQUIRY_IDLE ? IDLE
                                                                            : BUSY,
                                .npeers = said->npeers,
                                .activity = said->activity};
    rcmi_activity_sanitize(&witness->activity, blame->comm->size);
    memcpy(witness->peers, said->peers, sizeof(witness->peers));
    for (uint32_t i = 0; i < said->npeers; i++)
        blame_ask_first(blame, said->peers[i]);
}

/* The reporter wants to hear from all; a great job is not linked all to all for that. */
static void blame_ask_all(struct rcmi_blame *blame) {
    const rcm_comm *comm = blame->comm;
    blame->asked_all = true;
    for (int r = 0; r < comm->size; r++)
        if (comm->size <= ASK_ALL ||
            rcmi_node_transport(comm->engine->node, comm->world_rank[r])[0])
            blame_ask_first(blame, r);
}

static void blame_ask_again(struct rcmi_blame *blame, int64_t now) {
    if (now < blame->again)
        return;
    blame->again = now + AGAIN_NS;
    for (int r = 0; r < blame->comm->size; r++)
        if (blame->witnesses[r].state == BUSY)
            blame_ask(blame, r);
}

static bool is_open(const struct witness *witness) {
    return witness->state == ASKED || witness->state == BUSY;
}

static bool blame_is_complete(const struct rcmi_blame *blame) {
    for (int r = 0; r < blame->comm->size; r++)
        if (is_open(&blame->witnesses[r]))
            return false;
    return true;
}

/* Another rank reports. */
static void blame_leave_it(struct rcmi_blame *blame) {
    blame->reports = false;
    blame->leaves_it = true;
}

static rcmi_deadline blame_end(const struct rcmi_blame *blame) {
    return blame->leaves_it ? blame->until + GRACE_NS : blame->until;
}

/* What the kernel says of a rank, if it is on this machine. */
static enum rcmi_process_state blame_look(const struct rcmi_blame *blame, int rank) {
    const rcm_comm *comm = blame->comm;
    const void *blob;
    size_t len;
    if (rcmi_book_lookup(comm->engine->book, comm->world_rank[rank], &blob, &len))
        return RCMI_PROCESS_ELSEWHERE;
    return rcmi_address_look(blob, len);
}

/* ---- For the loop thread ------------------------------------------------------------------- */

void rcmi_blame_answer(struct rcmi_blame *blame, int rank, const struct rcmi_inquiry *said) {
    bool complete = false;
    pthread_mutex_lock(&blame->lock);
    if (blame->late && blame->number == said->number && is_open(&blame->witnesses[rank])) {
        if (said->reports && said->reason == blame->reason && rank < blame->comm->rank)
            blame_leave_it(blame);
        blame_note(blame, rank, said);
        complete = blame_is_complete(blame);
    }
    pthread_mutex_unlock(&blame->lock);
    if (complete)
        rcmi_node_ring(blame->comm->engine->node);
}

bool rcmi_blame_asked(struct rcmi_blame *blame, int rank, const struct rcmi_inquiry *question) {
    pthread_mutex_lock(&blame->lock);
    const bool asking = blame->late && blame->reason == question->reason;
    if (question->reports && asking && rank < blame->comm->rank)
        blame_leave_it(blame);
    if (question->reports && !asking)
        blame->heard[question->reason] = rcmi_now_ns() + HEARD_NS;
    const bool reports = asking && blame->reports;
    pthread_mutex_unlock(&blame->lock);
    return reports;
}

/* ---- For claims ---------------------------------------------------------------------------- */

bool rcmi_blame_is_silent(struct rcmi_blame *blame, int rank) {
    pthread_mutex_lock(&blame->lock);
    const bool silent = blame->witnesses && !blame->late && blame->witnesses[rank].state == ASKED;
    pthread_mutex_unlock(&blame->lock);
    return silent;
}

/* ---- Judging; under the lock --------------------------------------------------------------- */

/* A rank whose driver never let its loop thread look, but has shown for a while whom it waits for
 * (then peers came with its answer), waits: on a loaded machine its driver just does not run. */
static enum rcmi_hang_state witness_row_state(const struct witness *witness) {
    static const enum rcmi_hang_state states[] = {RCMI_ROW_NOT_ASKED, RCMI_ROW_SILENT,
                                                  RCMI_ROW_BUSY, RCMI_ROW_WAITS, RCMI_ROW_IDLE};
    return witness->state == BUSY && witness->npeers > 0 ? RCMI_ROW_WAITS : states[witness->state];
}

static void row_fill(const struct rcmi_blame *blame, int rank, struct rcmi_hang_row *row) {
    const struct rcmi_engine *engine = blame->comm->engine;
    const struct witness *witness = &blame->witnesses[rank];
    const int world = blame->comm->world_rank[rank];
    struct rcmi_page_owner owner;
    const void *page, *blob;
    size_t len;
    *row = (struct rcmi_hang_row){.state = witness_row_state(witness),
                                  .known = witness->state >= BUSY,
                                  .host = "",
                                  .activity = witness->activity};
    if (!rcmi_book_lookup(engine->book, world, &blob, &len) &&
        rcmi_address_process(blob, len, &row->pid, &row->host) != RCM_OK)
        row->host = "";
    page = row->known ? NULL : rcmi_node_peer_status_page(engine->node, world);
    if (page && rcmi_page_read(page, rcmi_now_ns(), &owner, &row->activity) &&
        owner.epoch == blame->comm->epoch && owner.rank == rank)
        row->known = true;
}

/* Marks all that this rank waits for, directly or through others. queue: room for n. */
static void rows_follow(const struct rcmi_blame *blame, struct rcmi_hang_row *rows, int *queue) {
    int n = 0;
    queue[n++] = blame->comm->rank;
    rows[queue[0]].on_chain = true;
    for (int i = 0; i < n; i++) {
        const struct witness *witness = &blame->witnesses[queue[i]];
        for (uint32_t k = 0; k < witness->npeers; k++) {
            const int peer = witness->peers[k];
            if (peer < 0 || peer >= blame->comm->size || rows[peer].on_chain)
                continue;
            rows[peer].on_chain = true;
            queue[n++] = peer;
        }
    }
}

/* Of ranks that were asked and have not answered: which ones cannot? */
static void rows_look(const struct rcmi_blame *blame, struct rcmi_hang_row *rows) {
    for (int r = 0; r < blame->comm->size; r++) {
        if (rows[r].state != RCMI_ROW_SILENT)
            continue;
        const enum rcmi_process_state seen = blame_look(blame, r);
        rows[r].runs = seen == RCMI_PROCESS_RUNS;
        if (seen == RCMI_PROCESS_STOPPED)
            rows[r].state = RCMI_ROW_STOPPED;
    }
}

static struct rcmi_hang_row *blame_rows(const struct rcmi_blame *blame) {
    const size_t n = (size_t)blame->comm->size;
    struct rcmi_hang_row *rows = calloc(n, sizeof(*rows));
    int *queue = calloc(n, sizeof(*queue));
    if (!rows || !queue) {
        free(rows);
        free(queue);
        return NULL;
    }
    for (int r = 0; r < blame->comm->size; r++)
        row_fill(blame, r, &rows[r]);
    rows_follow(blame, rows, queue);
    rows_look(blame, rows);
    free(queue);
    return rows;
}

/* The report, to be logged by the caller when it has let go of the lock; NULL if there is none. */
static char *blame_report(const struct rcmi_blame *blame, const struct rcmi_hang_row *rows,
                          const char *conclusion) {
    char *text = blame->reports ? malloc(TEXT_BYTES) : NULL;
    if (!text)
        return NULL;
    const int len = snprintf(text, TEXT_BYTES, "%s: %s\n", blame->headline, conclusion);
    rcmi_hang_table(rows, blame->comm->size, text + len, TEXT_BYTES - (size_t)len);
    return text;
}

/* Ends the inquiry. */
static char *blame_judge(struct rcmi_blame *blame, struct rcmi_verdict *verdict) {
    struct rcmi_hang_row *rows = blame_rows(blame);
    char *report = NULL;
    *verdict = (struct rcmi_verdict){.origin = -1};
    if (rows) {
        verdict->origin =
            rcmi_hang_conclude(rows, blame->comm->size, verdict->text, sizeof(verdict->text));
        report = blame_report(blame, rows, verdict->text);
        verdict->seen = verdict->origin >= 0 && rows[verdict->origin].state == RCMI_ROW_STOPPED;
    }
    verdict->asked_all = blame->asked_all;
    free(rows);
    blame->late = NULL;
    return report;
}

static void report_log(const struct rcmi_blame *blame, char *report) {
    if (!report)
        return;
    rcmi_log_set_rank(blame->comm->rank); /* the loop thread has not been told yet */
    rcmi_log_lines(RCMI_LOG_WARN, report);
    free(report);
}

void rcmi_blame_flush(struct rcmi_blame *blame, const struct rcm_error *error) {
    struct rcmi_verdict verdict;
    char *report = NULL;
    pthread_mutex_lock(&blame->lock);
    if (blame->late && blame->reports && blame->reason == RCMI_INQUIRY_LATE &&
        error->status == RCM_ERR_TIMEOUT)
        report = blame_judge(blame, &verdict);
    pthread_mutex_unlock(&blame->lock);
    report_log(blame, report);
}

/* ---- For the driver ------------------------------------------------------------------------ */

static bool blame_begin(struct rcmi_blame *blame, const struct rcm_work *work, int64_t now,
                        const struct rcmi_inquiry *own, const char *headline) {
    const size_t n = (size_t)blame->comm->size;
    if (!blame->witnesses)
        blame->witnesses = calloc(n, sizeof(*blame->witnesses));
    if (!blame->witnesses)
        return false;
    memset(blame->witnesses, 0, n * sizeof(*blame->witnesses));
    blame->late = work;
    blame->late_since = work->deadline;
    blame->reason = (enum rcmi_inquiry_reason)own->reason;
    blame->number++;
    blame->chain_until = now + CHAIN_NS;
    blame->until = now + ASK_NS;
    blame->again = now + AGAIN_NS;
    blame->leaves_it = now < blame->heard[blame->reason];
    blame->reports = rcmi_log_enabled(RCMI_LOG_WARN) && !blame->leaves_it;
    blame->asked_all = false;
    snprintf(blame->headline, sizeof(blame->headline), "%s", headline);
    blame->witnesses[blame->comm->rank].state = WAITS; /* never ask ourselves */
    blame_note(blame, blame->comm->rank, own);
    return true;
}

/* The chain ends at a rank that runs, but does not come to say whom it waits for. One that says
 * nothing may have too much to answer already, so the questions of who reports must do for it. */
static bool blame_is_stuck(const struct rcmi_blame *blame) {
    for (int r = 0; r < blame->comm->size; r++)
        if (blame->witnesses[r].state == BUSY ||
            (blame->witnesses[r].state == ASKED && !blame->leaves_it &&
             blame_look(blame, r) == RCMI_PROCESS_RUNS))
            return true;
    return false;
}

/* Whether there is still something to wait for. */
static bool blame_goes_on(struct rcmi_blame *blame, int64_t now) {
    const bool complete = blame_is_complete(blame), chained = now >= blame->chain_until;
    if (!blame->asked_all &&
        ((blame->reports && (complete || chained)) || (chained && blame_is_stuck(blame)))) {
        blame_ask_all(blame);
        return true;
    }
    return (!complete || blame->leaves_it) && now < blame_end(blame);
}

static rcmi_deadline blame_next_look(const struct rcmi_blame *blame) {
    const rcmi_deadline end = blame_end(blame);
    return blame->again < end ? blame->again : end;
}

rcm_status rcmi_blame_find(struct rcmi_blame *blame, const struct rcm_work *work, int64_t now,
                           const struct rcmi_inquiry *own, const char *headline,
                           rcmi_deadline *ret_until, struct rcmi_verdict *ret_verdict) {
    rcm_status status = RCM_OK;
    char *report = NULL;
    pthread_mutex_lock(&blame->lock);
    const bool same = blame->late == work && blame->late_since == work->deadline &&
                      blame->reason == (enum rcmi_inquiry_reason)own->reason;
    if (own->reason == RCMI_INQUIRY_WARNING && now < blame->heard[RCMI_INQUIRY_WARNING]) {
        *ret_verdict = (struct rcmi_verdict){.origin = -1}; /* one warning is enough */
    } else if (blame->late && !same && now < blame_end(blame)) {
        status = RCM_AGAIN; /* one inquiry at a time */
    } else if (!same && !blame_begin(blame, work, now, own, headline)) {
        *ret_verdict = (struct rcmi_verdict){.origin = own->npeers > 0 ? own->peers[0] : -1};
    } else if (blame_goes_on(blame, now)) {
        blame_ask_again(blame, now);
        status = RCM_AGAIN;
    } else {
        report = blame_judge(blame, ret_verdict);
        blame->heard[own->reason] = now + HEARD_NS;
    }
    *ret_until = blame_next_look(blame);
    pthread_mutex_unlock(&blame->lock);
    report_log(blame, report);
    return status;
}
