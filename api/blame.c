/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is to blame when an operation is late. The rank that is waited for is mostly a victim itself,
 * so before a timeout is recorded the late rank asks along the chain: whom do you wait for? The
 * loop thread of each rank answers, whatever its callers do; a process that is stopped does not.
 *
 *   1. Ranks that do not answer within ASK_NS are to blame; the lowest of them is named.
 *   2. Else ranks that answer that they are in no operation.
 *   3. Else all wait for each other: whoever the rank waits for that is furthest behind.
 *
 * All ranks that ask find the same, so it does not matter whose record is first.
 *
 * The questions are asked by the driver, in rcmi_blame_find; answers are taken, and what follows
 * from them is asked, on the loop thread; `lock` is between the two.
 */
#include "comm.h"
#include "wire.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_NS   (400 * INT64_C(1000000))
#define AGAIN_NS (30 * INT64_C(1000000)) /* until a rank that was busy is asked again */

enum state { NOT_ASKED, ASKED, BUSY, WAITS, IDLE };

struct witness {
    enum state state;
    int first; /* whom it waits for, one of them; -1 */
    uint64_t sequence, bytes;
    uint32_t step;
};

struct rcmi_blame {
    rcm_comm *comm;
    pthread_mutex_t lock;
    const struct rcm_work *late; /* NULL: nothing is asked; never looked into, it may be gone */
    rcmi_deadline late_since;    /* its deadline: another work may get the same address */
    uint32_t number;             /* of the inquiry, in every question and answer */
    rcmi_deadline until, again;
    struct witness *witnesses; /* by rank; NULL before the first inquiry */
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
                                          .state = RCMI_INQUIRY_QUESTION};
    /* Who cannot even be sent a question will not answer. */
    (void)rcmi_node_send(comm->engine->node, comm->world_rank[rank], &question, sizeof(question));
}

/* What a rank says about itself. */
static void blame_note(struct rcmi_blame *blame, int rank, const struct rcmi_inquiry *said) {
    struct witness *witness = &blame->witnesses[rank];
    *witness = (struct witness){.state = said->state == RCMI_INQUIRY_WAITS  ? WAITS
                                         : said->state == RCMI_INQUIRY_IDLE ? IDLE
                                                                            : BUSY,
                                .first = said->npeers > 0 ? said->peers[0] : -1,
                                .sequence = said->sequence,
                                .bytes = said->bytes,
                                .step = said->step};
    for (uint32_t i = 0; i < said->npeers; i++)
        if (said->peers[i] >= 0 && said->peers[i] < blame->comm->size &&
            blame->witnesses[said->peers[i]].state == NOT_ASKED) {
            blame->witnesses[said->peers[i]].state = ASKED;
            blame_ask(blame, said->peers[i]);
        }
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

void rcmi_blame_answer(struct rcmi_blame *blame, int rank, const struct rcmi_inquiry *said) {
    bool complete = false;
    pthread_mutex_lock(&blame->lock);
    if (blame->late && blame->number == said->number && is_open(&blame->witnesses[rank])) {
        blame_note(blame, rank, said);
        complete = blame_is_complete(blame);
    }
    pthread_mutex_unlock(&blame->lock);
    if (complete)
        rcmi_node_ring(blame->comm->engine->node);
}

/* ---- Judging; under the lock --------------------------------------------------------------- */

static int lowest(const struct rcmi_blame *blame, enum state state) {
    for (int r = 0; r < blame->comm->size; r++)
        if (blame->witnesses[r].state == state)
            return r;
    return -1;
}

static bool is_behind(const struct witness *a, const struct witness *b) {
    if (a->sequence != b->sequence)
        return a->sequence < b->sequence;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes;
    return a->step < b->step;
}

static int furthest_behind(const struct rcmi_blame *blame) {
    int rank = -1;
    for (int r = 0; r < blame->comm->size; r++) {
        const struct witness *witness = &blame->witnesses[r];
        if (witness->state == WAITS && witness->first >= 0 &&
            (rank < 0 || is_behind(witness, &blame->witnesses[rank])))
            rank = r;
    }
    return rank;
}

static void blame_judge(const struct rcmi_blame *blame, struct rcmi_verdict *verdict) {
    const struct rcmi_address_book *book = blame->comm->engine->book;
    const int *world = blame->comm->world_rank;
    char who[128], whom[128];
    int rank;
    if ((rank = lowest(blame, ASKED)) >= 0) {
        verdict->origin = rank;
        snprintf(verdict->text, sizeof(verdict->text),
                 "%s does not answer: it is stopped, hangs, or cannot be reached",
                 rcmi_book_describe(book, world[rank], who));
    } else if ((rank = lowest(blame, IDLE)) >= 0) {
        verdict->origin = rank;
        snprintf(verdict->text, sizeof(verdict->text), "%s is alive, but in no operation",
                 rcmi_book_describe(book, world[rank], who));
    } else if ((rank = furthest_behind(blame)) >= 0) {
        verdict->origin = blame->witnesses[rank].first;
        snprintf(verdict->text, sizeof(verdict->text),
                 "all wait for each other, and %s, which is furthest behind, for %s",
                 rcmi_book_describe(book, world[rank], who),
                 rcmi_book_describe(book, world[verdict->origin], whom));
    } else {
        verdict->origin = lowest(blame, BUSY);
        snprintf(verdict->text, sizeof(verdict->text), "the others are at work");
    }
}

/* ---- For the driver ------------------------------------------------------------------------ */

static bool blame_begin(struct rcmi_blame *blame, const struct rcm_work *work, int64_t now,
                        const struct rcmi_inquiry *own) {
    const size_t n = (size_t)blame->comm->size;
    if (!blame->witnesses)
        blame->witnesses = calloc(n, sizeof(*blame->witnesses));
    if (!blame->witnesses)
        return false;
    memset(blame->witnesses, 0, n * sizeof(*blame->witnesses));
    blame->late = work;
    blame->late_since = work->deadline;
    blame->number++;
    blame->until = now + ASK_NS;
    blame->again = now + AGAIN_NS;
    blame->witnesses[blame->comm->rank].state = WAITS; /* never ask ourselves */
    blame_note(blame, blame->comm->rank, own);
    return true;
}

static void blame_ask_again(struct rcmi_blame *blame, int64_t now) {
    if (now < blame->again)
        return;
    blame->again = now + AGAIN_NS;
    for (int r = 0; r < blame->comm->size; r++)
        if (blame->witnesses[r].state == BUSY)
            blame_ask(blame, r);
}

rcm_status rcmi_blame_find(struct rcmi_blame *blame, const struct rcm_work *work, int64_t now,
                           const struct rcmi_inquiry *own, rcmi_deadline *ret_until,
                           struct rcmi_verdict *ret_verdict) {
    rcm_status status = RCM_OK;
    pthread_mutex_lock(&blame->lock);
    const bool same = blame->late == work && blame->late_since == work->deadline;
    if (blame->late && !same && now < blame->until) {
        status = RCM_AGAIN; /* one inquiry at a time */
    } else if (!same && !blame_begin(blame, work, now, own)) {
        *ret_verdict = (struct rcmi_verdict){.origin = own->npeers > 0 ? own->peers[0] : -1};
    } else if (now < blame->until && !blame_is_complete(blame)) {
        blame_ask_again(blame, now);
        status = RCM_AGAIN;
    } else {
        blame_judge(blame, ret_verdict);
        blame->late = NULL;
    }
    *ret_until = blame->again < blame->until ? blame->again : blame->until;
    pthread_mutex_unlock(&blame->lock);
    return status;
}
