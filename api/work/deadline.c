/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Supervision of unfinished works: the ranks they wait for (shown on the status page, and sent as
 * answers to inquiries), deadlines, and reports. An inquiry (diagnosis/) finds the origin of a
 * delay, and the ranks agree on it (agreement/).
 *
 * Drivers call this from time to time, not on every pass.
 */
#include "deadline.h"
#include "agreement.h"
#include "comm.h"
#include "diagnosis.h"
#include "endpoint.h"
#include "p2p.h"
#include "status_page.h"
#include "transfer.h"
#include <stdio.h>

/* Then a collective is compared with those of other ranks (diagnosis/). */
#define COMPARE_AFTER_NS INT64_C(100000000)

/* A look at many works takes long: the pause before the next look, for each work. */
#define LOOK_NS_EACH INT64_C(1000)

/* Messages that a rank sent before it left may arrive after its farewell. Where it has closed its
 * channel, their number is known (rcmi_channel_rest). Elsewhere a work waits this long for them,
 * and is driven several times meanwhile. Between two looks this process may not have run, so the
 * time between them counts at most as one step. */
#define LEFT_AFTER_NS INT64_C(100000000)
#define LEFT_STEP_NS  INT64_C(20000000)

#define MAX_TIMEOUT_MS (INT64_C(1) << 40) /* 34 years: longer means for ever */

/* ---- What works wait for --------------------------------------------------------------------- */

/* The rank that an unfinished work waits for, or -1. */
static int work_waits_for(const struct rcm_work *work, struct rcmi_run_wait *wait) {
    *wait = (struct rcmi_run_wait){.peer = -1};
    if (work->kind != RCMI_WORK_COLLECTIVE)
        wait->peer = work->transfer.peer;
    else if (work->run)
        rcmi_run_waits_for(work->run, wait);
    return wait->peer;
}

int rcmi_work_waits_for(const struct rcm_work *work) {
    struct rcmi_run_wait wait;
    const bool one = work->kind == RCMI_WORK_COLLECTIVE || work->kind == RCMI_WORK_SEND ||
                     work->kind == RCMI_WORK_RECV || work->kind == RCMI_WORK_PROBE;
    return one && !work->templates ? work_waits_for(work, &wait) : -1;
}

/* Writes "all_reduce number 12 (4000 bytes)", "recv from rank 3 (tag 5, 4 bytes)". */
static void work_describe(const struct rcm_work *work, char *text, size_t cap) {
    const struct rcmi_transfer *t = &work->transfer;
    char peer[32] = "any source", tag[32] = "any tag";
    if (t->peer != RCM_ANY_SOURCE)
        snprintf(peer, sizeof(peer), "rank %d", t->peer);
    if (t->tag != RCM_ANY_TAG)
        snprintf(tag, sizeof(tag), "tag %llu", (unsigned long long)t->tag);
    if (work->kind == RCMI_WORK_COLLECTIVE)
        snprintf(text, cap, "%s number %llu (%zu bytes)", rcmi_work_name(work),
                 (unsigned long long)work->sequence,
                 work->bind.count * rcm_dtype_size(work->bind.dtype));
    else
        snprintf(text, cap, "%s %s %s (%s, %zu bytes)", rcmi_work_name(work),
                 work->kind == RCMI_WORK_SEND ? "to" : "from", peer, tag, t->mem.len);
}

/* A receive from any source waits for no rank in particular. */
static void inquiry_add(struct rcmi_inquiry *inquiry, int peer) {
    if (peer == RCM_ANY_SOURCE)
        return;
    for (uint32_t i = 0; i < inquiry->npeers; i++)
        if (inquiry->peers[i] == peer)
            return;
    if (inquiry->npeers < RCMI_INQUIRY_PEERS)
        inquiry->peers[inquiry->npeers++] = peer;
}

static bool inquiry_add_transfer(void *arg, struct rcm_work *work) {
    inquiry_add(arg, work->transfer.peer);
    return true;
}

/* For the slots of a multicast channel this rank waits for any of its readers, all on its host. */
static void inquiry_add_host(const rcm_comm *comm, struct rcmi_inquiry *inquiry) {
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && comm->host_of[r] == comm->host_of[comm->rank])
            inquiry_add(inquiry, r);
}

static bool find_oldest(void *arg, struct rcm_work *work) {
    struct rcm_work **oldest = arg;
    if (!*oldest || work->moved_ns < (*oldest)->moved_ns)
        *oldest = work;
    return true;
}

/* Shows a transfer on the status page; NULL: none. */
static void comm_show_transfer(const rcm_comm *comm, const struct rcm_work *work) {
    static const enum rcmi_transfer_kind kinds[] = {[RCMI_WORK_SEND] = RCMI_TRANSFER_SEND,
                                                    [RCMI_WORK_RECV] = RCMI_TRANSFER_RECV,
                                                    [RCMI_WORK_PROBE] = RCMI_TRANSFER_PROBE};
    if (!work) {
        rcmi_page_show_transfer(comm->page, RCMI_TRANSFER_NONE, NULL, 0);
        return;
    }
    const struct rcmi_page_transfer shown = {work->transfer.peer, work->transfer.tag,
                                             work->transfer.mem.len};
    rcmi_page_show_transfer(comm->page, kinds[work->kind], &shown, work->moved_ns);
}

/* Shows the progress of the oldest works on the status page. Driver. */
static void comm_show(rcm_comm *comm) {
    struct rcm_work *transfer = NULL;
    struct rcmi_run_wait wait;
    rcmi_transfers_each(comm, find_oldest, &transfer);
    if (transfer)
        transfer->shown = true;
    comm_show_transfer(comm, transfer);
    const struct rcm_work *work = comm->queue.first;
    if (work) {
        work_waits_for(work, &wait);
        rcmi_page_show(comm->page, work->sequence, &work->bind, &wait, work->moved_ns);
    }
}

/* Describes what this rank waits for. Driver. */
static void comm_describe_waits(rcm_comm *comm, struct rcmi_inquiry *inquiry) {
    struct rcmi_run_wait wait;
    inquiry->state = RCMI_INQUIRY_WAITS;
    if (comm->queue.first) { /* the oldest: later ones may wait for it */
        if (work_waits_for(comm->queue.first, &wait) >= 0)
            inquiry_add(inquiry, wait.peer);
        else
            inquiry_add_host(comm, inquiry);
    }
    rcmi_transfers_each(comm, inquiry_add_transfer, inquiry);
    comm_show(comm);
}

/* Adds the content of the status page. */
static void comm_describe_activity(const rcm_comm *comm, struct rcmi_inquiry *inquiry) {
    rcmi_page_read_own(comm->page, rcmi_now_ns(), &inquiry->activity);
}

/* Looks as the driver, if no other thread drives. A call on the fast path (collective.c, message.c)
 * has no work, but drives. */
static bool answer_look(rcm_comm *comm, struct rcmi_inquiry *answer) {
    answer->state = RCMI_INQUIRY_BUSY;
    if (!rcmi_comm_try_drive(comm))
        return false;
    if (atomic_load_explicit(&comm->unfinished, memory_order_relaxed) == 0)
        answer->state = RCMI_INQUIRY_IDLE;
    else if (!comm->closing)
        comm_describe_waits(comm, answer);
    rcmi_comm_let_go(comm);
    return true;
}

bool rcmi_comm_make_answer(rcm_comm *comm, int peer, const struct rcmi_inquiry *question,
                           struct rcmi_answer *ret_answer) {
    struct rcmi_inquiry answer = {.magic = RCMI_INQUIRY_MAGIC,
                                  .epoch = comm->epoch,
                                  .number = question->number,
                                  .reason = question->reason};
    /* Acquire pairs with the release in comm.c: the record is complete. Its operations have ended,
     * which is not its own fault. */
    if (atomic_load_explicit(&comm->failed, memory_order_acquire) != RCM_OK)
        return false;
    ret_answer->drove = answer_look(comm, &answer);
    comm_describe_activity(comm, &answer);
    /* The driver did not let this thread look, but has shown for a while that it waits. */
    if (answer.state == RCMI_INQUIRY_BUSY &&
        answer.activity.waited_ms >= COMPARE_AFTER_NS / 1000000 && answer.activity.waits_for >= 0)
        inquiry_add(&answer, answer.activity.waits_for);
    answer.reports = rcmi_diagnosis_question(comm->diagnosis, peer, question);
    ret_answer->inquiry = answer;
    return true;
}

void rcmi_comm_answer(rcm_comm *comm, int peer, const struct rcmi_inquiry *question) {
    struct rcmi_answer answer;
    if (!rcmi_comm_make_answer(comm, peer, question, &answer)) {
        (void)rcmi_comm_send_failure(comm, peer);
        return;
    }
    if (answer.drove) /* a thread that found this one driving may be about to sleep */
        rcmi_node_ring(comm->engine->node);
    (void)rcmi_node_send(comm->engine->node, comm->world_rank[peer], &answer.inquiry,
                         sizeof(answer.inquiry));
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

struct deadline_check {
    rcm_comm *comm;
    int64_t now;
    rcmi_deadline earliest;
    bool described;
    struct rcmi_inquiry own; /* what this rank waits for, if described */
};

/* Once in a look, however many works are late: it visits all works. */
static void check_describe(struct deadline_check *check) {
    if (check->described)
        return;
    check->own = (struct rcmi_inquiry){.epoch = check->comm->epoch};
    comm_describe_waits(check->comm, &check->own);
    comm_describe_activity(check->comm, &check->own);
    check->described = true;
}

/* Inquires why work takes so long. True: the verdict is complete. */
static bool work_inquire(struct deadline_check *check, struct rcm_work *work,
                         enum rcmi_inquiry_reason reason, const char *headline,
                         struct rcmi_verdict *ret_verdict) {
    rcm_comm *comm = check->comm;
    char label[RCMI_LABEL_TEXT], labelled[RCMI_LABEL_TEXT + 160];
    rcmi_deadline until;
    check_describe(check);
    check->own.reason = reason;
    rcmi_comm_label(comm, label);
    snprintf(labelled, sizeof(labelled), "%s%s%s", label, label[0] ? ": " : "", headline);
    const bool monitored = reason == RCMI_INQUIRY_LATE && rcmi_form_is_monitored(work->form);
    const struct rcmi_late late = {.work = work,
                                   .deadline = work->deadline,
                                   .headline = labelled,
                                   .own = &check->own,
                                   .barrier = monitored ? work->sequence : 0,
                                   .first_only = work->form == RCMI_FORM_MONITORED_FIRST};
    if (rcmi_diagnosis_find(comm->diagnosis, &late, check->now, &until, ret_verdict) != RCM_AGAIN)
        return true;
    if (until < check->earliest)
        check->earliest = until;
    return false;
}

/* For a monitored barrier a finding without the list has the lowest weight. */
static int verdict_weight(const struct rcm_work *work, const struct rcmi_verdict *verdict) {
    if (rcmi_form_is_monitored(work->form) && verdict->missing.nranks == 0)
        return RCMI_PROPOSAL_LATE;
    return verdict->seen          ? RCMI_PROPOSAL_SEEN
           : verdict->queried_all ? RCMI_PROPOSAL_QUERIED_ALL
                                  : RCMI_PROPOSAL_LATE;
}

/* Finds the origin and proposes it; then waits for agreement on a cause. */
static void work_is_late(struct deadline_check *check, struct rcm_work *work) {
    struct rcmi_proposals *proposals = check->comm->proposals;
    struct rcmi_verdict verdict = {.origin = -1};
    char what[96], headline[160];
    if (rcmi_proposals_are_open(proposals)) {
        rcmi_proposals_await(proposals);
        return;
    }
    work_describe(work, what, sizeof(what));
    snprintf(headline, sizeof(headline),
             "%s on rank %d did not finish within its deadline of %.1f s", what, check->comm->rank,
             (double)work->timeout_ms / 1000);
    if (!work_inquire(check, work, RCMI_INQUIRY_LATE, headline, &verdict))
        return;
    rcmi_fail_origin(RCM_ERR_TIMEOUT, verdict.origin, "%s: %s", headline, verdict.text);
    rcmi_comm_propose(check->comm, work, &verdict.missing, verdict_weight(work, &verdict));
}

/* No progress for a while, long before the deadline. */
static void work_is_slow(struct deadline_check *check, struct rcm_work *work) {
    struct rcmi_verdict verdict = {.origin = -1};
    char what[96], headline[160];
    work_describe(work, what, sizeof(what));
    snprintf(headline, sizeof(headline), "no progress for %lld s in %s on rank %d",
             (long long)(check->comm->warn_after_ns / 1000000000), what, check->comm->rank);
    work->warned = work_inquire(check, work, RCMI_INQUIRY_WARNING, headline, &verdict);
}

/* For the slots of a multicast channel this rank waits for any rank of its host. */
static int host_find_left(const rcm_comm *comm) {
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && comm->host_of[r] == comm->host_of[comm->rank] &&
            rcmi_comm_rank_left(comm, r))
            return r;
    return -1;
}

/* Whether it has left, and none of its messages is being copied. Such a copy may be ordered after a
 * stream, and is this rank's own task. */
static bool peer_is_through(const rcm_comm *comm, int rank) {
    return rank != comm->rank && rcmi_comm_rank_left(comm, rank) &&
           !rcmi_endpoint_copies(rcmi_p2p_endpoint(comm->p2p, rank));
}

static enum rcmi_rest peer_rest(const rcm_comm *comm, int rank) {
    return rcmi_endpoint_rest(rcmi_p2p_endpoint(comm->p2p, rank));
}

/* A receive from any source waits for all others. Returns the last one if all have left, else
 * -1. */
static int others_find_left(const rcm_comm *comm, enum rcmi_rest *ret_rest) {
    int last = -1;
    for (int r = 0; r < comm->size; r++) {
        if (r == comm->rank)
            continue;
        if (!peer_is_through(comm, r))
            return -1;
        *ret_rest = last < 0 ? peer_rest(comm, r) : rcmi_rest_add(*ret_rest, peer_rest(comm, r));
        last = r;
    }
    return last;
}

/* The same for one peer. The answer to a send may come, but a send that the peer does not answer is
 * complete at other times. */
static int peer_find_left(const rcm_comm *comm, const struct rcm_work *work, int peer,
                          enum rcmi_rest *ret_rest) {
    if (!peer_is_through(comm, peer))
        return -1;
    const enum rcmi_rest rest = peer_rest(comm, peer);
    *ret_rest = work->kind == RCMI_WORK_SEND && rest == RCMI_REST_NONE ? RCMI_REST_UNKNOWN : rest;
    return peer;
}

/* A rank that has left and for which work waits, or -1. *ret_rest: what is still to come from
 * it. */
static int work_waits_for_one_that_left(const rcm_comm *comm, const struct rcm_work *work,
                                        enum rcmi_rest *ret_rest) {
    struct rcmi_run_wait wait;
    const int peer = work_waits_for(work, &wait);
    *ret_rest = wait.rest;
    if (work->kind == RCMI_WORK_RECV && work->transfer.awaits_left)
        return -1;
    if (work->kind != RCMI_WORK_COLLECTIVE && peer == RCM_ANY_SOURCE)
        return others_find_left(comm, ret_rest);
    if (work->kind != RCMI_WORK_COLLECTIVE)
        return peer_find_left(comm, work, peer, ret_rest);
    if (wait.queued) /* what the earlier one waits for is looked at there */
        return -1;
    if (peer < 0)
        return wait.to_send ? host_find_left(comm) : -1;
    return peer != comm->rank && rcmi_comm_rank_left(comm, peer) ? peer : -1;
}

/* A lost rank has not left; the loop thread may be about to report the loss. */
static void work_fail_left(rcm_comm *comm, const struct rcm_work *work, int rank) {
    char who[RCMI_WHO_TEXT], what[96];
    struct rcmi_error why;
    if (atomic_load_explicit(&comm->left_ns[rank], memory_order_relaxed) == 0 &&
        rcmi_node_lost(comm->engine->node, comm->world_rank[rank], &why)) {
        rcmi_comm_lose(comm, comm->world_rank[rank], &why);
        return;
    }
    work_describe(work, what, sizeof(what));
    rcmi_fail_origin(RCM_ERR_PEER, rank, "%s has left, and %s on rank %d waits for it",
                     rcmi_members_describe(&comm->members, rank, who), what, comm->rank);
    rcmi_comm_fail(comm, work);
}

/* Whether messages or the end of a channel will arrive. A rank that leaves a communicator closes
 * its channels after its message that it leaves. */
static bool rest_comes(const rcm_comm *comm, int rank, enum rcmi_rest rest) {
    return rest == RCMI_REST_COMING ||
           (rest == RCMI_REST_OPEN &&
            atomic_load_explicit(&comm->left_ns[rank], memory_order_relaxed) != 0);
}

/* True: work has failed, because a rank that it waits for has left. */
static bool work_check_left(struct deadline_check *check, struct rcm_work *work) {
    enum rcmi_rest rest;
    const int rank = work_waits_for_one_that_left(check->comm, work, &rest);
    if (rank < 0)
        return false;
    const int64_t step = work->left_look_ns > 0 ? check->now - work->left_look_ns : 0;
    const bool comes = rest_comes(check->comm, rank, rest);
    /* What came last may have arrived after the work was driven. */
    work->left_for_ns = comes ? 0 : work->left_for_ns + (step < LEFT_STEP_NS ? step : LEFT_STEP_NS);
    work->left_look_ns = check->now;
    if (comes || (rest != RCMI_REST_NONE && work->left_for_ns < LEFT_AFTER_NS)) {
        if (check->now + LEFT_STEP_NS < check->earliest)
            check->earliest = check->now + LEFT_STEP_NS;
        return false;
    }
    work_fail_left(check->comm, work, rank);
    return true;
}

static bool work_check_deadline(void *arg, struct rcm_work *work) {
    struct deadline_check *check = arg;
    const int64_t warn_after = check->comm->warn_after_ns;
    if (work_check_left(check, work))
        return false;
    if (work->deadline <= check->now) {
        work_is_late(check, work);
        return true;
    }
    if (work->deadline < check->earliest)
        check->earliest = work->deadline;
    if (!work->warned && warn_after > 0 && check->now - work->moved_ns > warn_after)
        work_is_slow(check, work);
    return true;
}

/* A work's time begins with the first look at it, some microseconds after it was issued. Most works
 * are complete before that, and reading the clock costs as much as moving a cache line between
 * cores. */
static void work_start_clock(struct rcm_work *work, int64_t now) {
    work->moved_ns = now;
    if (work->timeout_ms >= 0 && work->timeout_ms <= MAX_TIMEOUT_MS)
        work->deadline = now + work->timeout_ms * 1000000;
}

static bool work_starts(void *arg, struct rcm_work *work) {
    const int64_t *now = arg;
    if (work->moved_ns == 0)
        work_start_clock(work, *now);
    return true;
}

/* Whether it is time for a look at all works. */
static bool comm_looks(rcm_comm *comm, int64_t now) {
    if (now < comm->next_look)
        return false;
    comm->next_look =
        now + LOOK_NS_EACH * atomic_load_explicit(&comm->unfinished, memory_order_relaxed);
    return true;
}

void rcmi_comm_start_clocks(rcm_comm *comm) {
    int64_t now = rcmi_now_ns();
    if (!comm_looks(comm, now))
        return;
    for (struct rcm_work *work = comm->queue.first; work; work = work->next)
        (void)work_starts(&now, work);
    rcmi_transfers_each(comm, work_starts, &now);
}

/* Notes whether a work progressed since the last look. */
static void work_look(struct rcm_work *work, uint64_t progress, int64_t now) {
    if (work->moved_ns == 0)
        work_start_clock(work, now);
    if (work->seen == progress)
        return;
    work->seen = progress;
    work->moved_ns = now;
    work->left_look_ns = work->left_for_ns = 0;
    work->warned = false;
}

static bool transfer_look(void *arg, struct rcm_work *work) {
    const struct deadline_check *check = arg;
    work_look(work, work->transfer.done + (uint64_t)work->transfer.stage, check->now);
    return true;
}

/* Sends the call record to a rank for which a collective has waited long. */
static void work_send_call(rcm_comm *comm, struct rcm_work *work, int peer,
                           struct deadline_check *check) {
    const int to = peer < 0 ? 1 : peer + 2;
    if (work->call_sent == to || work->stage > 0) /* further stages are no calls */
        return;
    if (check->now - work->moved_ns > COMPARE_AFTER_NS) {
        const struct rcmi_call_entry entry = {
            work->sequence, rcmi_call_form(work->form, work->bind.in.kind), &work->bind};
        rcmi_call_log_send(comm->call_log, &entry, peer);
        work->call_sent = to;
    } else if (work->moved_ns + COMPARE_AFTER_NS < check->earliest) {
        check->earliest = work->moved_ns + COMPARE_AFTER_NS;
    }
}

/* A collective that has not started waits for the first one, and shares its progress. */
static void collective_look(struct deadline_check *check, struct rcm_work *work) {
    rcm_comm *comm = check->comm;
    struct rcmi_run_wait wait;
    if (!work->started) {
        work_look(work, (uint64_t)comm->queue.first->moved_ns, check->now);
        return;
    }
    const int peer = work_waits_for(work, &wait);
    work_look(work, wait.step + (uint64_t)wait.bytes, check->now);
    if (peer != comm->rank) /* else it waits for its own memory */
        work_send_call(comm, work, peer, check);
}

rcmi_deadline rcmi_comm_check_deadlines(rcm_comm *comm) {
    struct deadline_check check = {.comm = comm, .now = rcmi_now_ns(), .earliest = RCMI_NEVER};
    /* Works of a failed communicator are unfinished only until their memory operations have
     * ended. */
    if (atomic_load_explicit(&comm->failed, memory_order_relaxed) != RCM_OK)
        return comm->quiet_until > 0 ? comm->quiet_until : RCMI_NEVER;
    if (!comm_looks(comm, check.now))
        return comm->next_look;
    for (struct rcm_work *work = comm->queue.first; work; work = work->next)
        collective_look(&check, work);
    rcmi_transfers_each(comm, transfer_look, &check);
    comm_show(comm);
    for (struct rcm_work *work = comm->queue.first; work; work = work->next)
        if (!work_check_deadline(&check, work))
            break;
    rcmi_transfers_each(comm, work_check_deadline, &check);
    return check.earliest;
}
