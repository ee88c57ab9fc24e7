/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agreement on one cause of a communicator's failure, where ranks have found different ones. Ranks
 * whose operations time out at nearly the same moment each find an origin (diagnosis/) from the
 * answers that they received. These findings may differ: one rank queried all ranks and another
 * only its own chain; a rank was busy at the first inquiry and waited at the second; a cycle has no
 * beginning. If the calls of two ranks differ, each finds the other one. Other failures are
 * recorded at once, but such a finding is a proposal, and the ranks vote on it. The rule is the
 * Synod algorithm for one value (Lamport, "Paxos Made Simple", 2001):
 *
 *   - The acceptors are the first VOTERS_MAX ranks of the communicator. A majority is more than
 *     half of them, whichever ranks answer.
 *   - A proposer takes a ballot that is higher than all it has received and that no other rank
 *     uses. It sends PREPARE to all acceptors.
 *   - An acceptor sends its PROMISE for a ballot that is higher than all before. The PROMISE
 *     contains the value that it has accepted and the ballot of that acceptance, or else its own
 *     finding. A proposer of a lower ballot receives the number of the higher one.
 *   - With the promises of a majority, the proposer sends ACCEPT with the value accepted in the
 *     highest ballot, or, if none was accepted, the best finding. An acceptor accepts it, unless it
 *     has promised a higher ballot.
 *   - A value that a majority has accepted in one ballot is chosen. The proposer makes it the
 *     failure of the communicator, which is sent to all (comm.c).
 *
 * Two proposers choose the same value, whichever rank dies, freezes or is late, for however long.
 * Proof: let v have been accepted in ballot b by a majority, and let c be the next higher ballot in
 * which an ACCEPT is sent. The proposer of c had the promises of a majority. One of these acceptors
 * had accepted v in b. It did so before it promised c, because afterwards it would have rejected b.
 * So its promise to c contained v, and nothing was accepted between b and c. So the value of c is v
 * and, by induction, so is the value of all later ballots.
 *
 * Who proposes, and when: a finding is sent as a PROPOSAL to the lowest rank that answered the
 * inquiry, and that rank takes a ballot at once. A rank that sent a PROPOSAL or a PROMISE waits
 * TURN_NS for that rank, and then takes a ballot of its own. So ballots rarely compete, and a
 * ballot whose proposer has frozen is followed by another.
 *
 * If no majority answers, survivors must still return. A ballot that has no majority after ALONE_NS
 * is chosen without one. After LIMIT_NS of time in which the rank could run, any ballot is.
 * Counting then excludes no second choice, but two facts make it unlikely. A proposer has read all
 * messages that had arrived before it chooses, and found no higher ballot. A rank that resumes
 * finds the PREPARE in its sockets and waits TURN_NS. Two ranks choose differently only if messages
 * travel longer than that, if a rank freezes between its look and its promise, or if three ranks
 * freeze one after the other within LIMIT_NS.
 *
 * A rank whose communicator has failed answers proposals, ballots and inquiries
 * (api/work/deadline.c) with the record. The reason: it is in no operation any more, and a rank
 * that received only this fact would take it for the origin. Other failures are not voted on. They
 * are facts about a link or a call, and the rank that meets one records it; two at a time are two
 * failures.
 *
 * Findings come from any thread; everything else happens on the loop thread. If the loop thread is
 * overdue for long, a waiting thread chooses alone, without a vote.
 */
#include <stdio.h>
#include <stdlib.h>
#include <pthread.h>
#include <string.h>
#include "agreement.h"

#define MS         INT64_C(1000000)
#define TURN_NS    (150 * MS)
#define SETTLE_NS  (30 * MS)  /* wait for votes with better findings than a timeout */
#define ALONE_NS   (100 * MS) /* of a ballot; shorter than TURN_NS by the time of a message */
#define LIMIT_NS   (500 * MS) /* from the finding; with the inquiry less than 1 s */
#define VOTERS_MAX 256        /* avoids links from all to all in a large job */
/* Two looks at the sockets within this time leave no old message between them. */
#define LOOK_NS   (15 * MS)
#define LOOKS_MAX 3           /* then this rank is only slow and was not suspended */
#define AWAIT_NS  (500 * MS)  /* interval of looks of a waiting thread */
#define STUCK_NS  (3000 * MS) /* a loop thread that is overdue this long counts as stuck */

struct finding {
    struct rcm_error error;
    uint32_t weight; /* enum rcmi_proposal_weight */
    struct rcmi_rank_set missing;
};

struct rcmi_proposals {
    struct rcmi_proposals_config config;
    int nvoters;
    pthread_mutex_t lock;
    /* There is a finding here; the fields below are for all ranks. Changed under the lock. Relaxed,
     * because frequent readers do not lock: adding a proposal wakes the loop thread, whose look
     * then reads it. */
    _Atomic bool open;
    bool handed; /* sent to the rank that is to propose */
    int looks;
    int64_t looked_ns;
    rcmi_deadline again;      /* time of the next planned look */
    rcmi_deadline due, until; /* the next step; the last one, in any case */
    /* State of a waiting thread: the overdue look of the loop thread, its own last look, how
     * long. */
    rcmi_deadline overdue;
    int64_t awaited_ns, stuck_ns;
    /* As a voter: the highest ballot received, and the ballot in which `known` was accepted; 0:
     * none, and `known` is the best finding that this rank has. */
    uint64_t promised, accepted;
    struct finding known;
    /* As the proposer of a ballot; 0: none yet. It ends when a higher one is promised. */
    uint64_t ballot, best; /* the highest in which a voter has accepted `proposal`; 0: a finding */
    struct finding proposal;
    bool proposes;
    rcmi_deadline alone;
    int nvotes;
    uint8_t voted[VOTERS_MAX / 8];
};

rcm_status rcmi_proposals_create(const struct rcmi_proposals_config *config,
                                 struct rcmi_proposals **ret_proposals) {
    const int size = config->members->size;
    struct rcmi_proposals *proposals = calloc(1, sizeof(*proposals));
    if (!proposals)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a communicator");
    proposals->config = *config;
    proposals->nvoters = size < VOTERS_MAX ? size : VOTERS_MAX;
    proposals->known.error = (struct rcm_error){.status = RCM_ERR_TIMEOUT, .origin = -1};
    pthread_mutex_init(&proposals->lock, NULL);
    *ret_proposals = proposals;
    return RCM_OK;
}

void rcmi_proposals_free(struct rcmi_proposals *proposals) {
    if (!proposals)
        return;
    pthread_mutex_destroy(&proposals->lock);
    free(proposals);
}

bool rcmi_proposals_are_open(const struct rcmi_proposals *proposals) {
    return atomic_load_explicit(&proposals->open, memory_order_relaxed);
}

static bool proposals_are_over(const struct rcmi_proposals *proposals) {
    return proposals->config.failed(proposals->config.arg);
}

/* ---- Sending; under the lock ----------------------------------------------------------------- */

static bool proposals_send(const struct rcmi_proposals *proposals, int rank,
                           enum rcmi_failure_kind kind, uint64_t ballot) {
    const struct rcmi_members *members = proposals->config.members;
    struct rcmi_failure message;
    rcmi_failure_encode(members->epoch, &proposals->known.error, &proposals->known.missing,
                        &message);
    message.kind = kind;
    message.weight = proposals->known.weight;
    message.ballot = ballot;
    message.accepted = kind == RCMI_FAILURE_PROPOSAL ? 0 : proposals->accepted;
    return rcmi_node_send(members->node, members->world_rank[rank], &message,
                          rcmi_failure_bytes(&message)) == RCM_OK;
}

/* A rank to which the message cannot be sent does not vote. */
static void proposals_send_all(const struct rcmi_proposals *proposals,
                               enum rcmi_failure_kind kind) {
    for (int r = 0; r < proposals->nvoters; r++)
        if (r != proposals->config.members->rank)
            (void)proposals_send(proposals, r, kind, proposals->ballot);
}

/* ---- Voting; under the lock ------------------------------------------------------------------ */

static void proposals_note(struct rcmi_proposals *proposals, const struct finding *finding) {
    if (proposals->accepted == 0 && finding->weight > proposals->known.weight)
        proposals->known = *finding;
}

/* Promises, and leaves the next step to that ballot's proposer for TURN_NS. */
static void proposals_promise(struct rcmi_proposals *proposals, uint64_t ballot, int64_t now) {
    proposals->promised = ballot;
    proposals->due = now + TURN_NS;
}

static void proposals_accept(struct rcmi_proposals *proposals, uint64_t ballot,
                             const struct finding *value) {
    proposals->accepted = ballot;
    proposals->known = *value;
}

static void proposals_receive_proposer(struct rcmi_proposals *proposals, int rank,
                                       const struct rcmi_failure *message,
                                       const struct finding *value, int64_t now) {
    const bool proposed = message->kind == RCMI_FAILURE_ACCEPT;
    if (message->ballot > proposals->promised ||
        (proposed && message->ballot == proposals->promised)) {
        proposals_promise(proposals, message->ballot, now);
        if (proposed)
            proposals_accept(proposals, message->ballot, value);
    }
    (void)proposals_send(proposals, rank, RCMI_FAILURE_PROMISE, proposals->promised);
}

/* ---- Proposing; under the lock --------------------------------------------------------------- */

static bool proposals_have_ballot(const struct rcmi_proposals *proposals) {
    return proposals->ballot > 0 && proposals->ballot == proposals->promised;
}

static bool proposals_have_majority(const struct rcmi_proposals *proposals) {
    return 2 * proposals->nvotes > proposals->nvoters;
}

static void proposals_count(struct rcmi_proposals *proposals, int rank) {
    const uint8_t bit = (uint8_t)(1u << rank % 8);
    if (rank >= proposals->nvoters || proposals->voted[rank / 8] & bit)
        return;
    proposals->voted[rank / 8] |= bit;
    proposals->nvotes++;
}

/* Begins the next phase of the ballot: all vote again, this rank first. */
static void proposals_poll(struct rcmi_proposals *proposals, enum rcmi_failure_kind kind) {
    proposals->nvotes = 0;
    memset(proposals->voted, 0, sizeof(proposals->voted));
    proposals_count(proposals, proposals->config.members->rank);
    proposals_send_all(proposals, kind);
}

static void proposals_weigh(struct rcmi_proposals *proposals, uint64_t accepted,
                            const struct finding *value) {
    if (accepted < proposals->best ||
        (accepted == proposals->best && value->weight <= proposals->proposal.weight))
        return;
    proposals->best = accepted;
    proposals->proposal = *value;
}

/* Ballots come in rounds of one for each rank; within a round the lower rank has the higher
 * ballot. */
static bool proposals_is_ballot_of(const struct rcmi_proposals *proposals, uint64_t ballot,
                                   int rank) {
    const uint64_t n = (uint64_t)proposals->config.members->size;
    return ballot % n == n - 1 - (uint64_t)rank;
}

static void proposals_prepare(struct rcmi_proposals *proposals, int64_t now) {
    const uint64_t n = (uint64_t)proposals->config.members->size,
                   own = (uint64_t)proposals->config.members->rank;
    proposals->ballot = (proposals->promised / n + 1) * n + (n - 1 - own);
    proposals->promised = proposals->ballot;
    proposals->best = 0;
    proposals->proposal.weight = RCMI_PROPOSAL_NONE;
    proposals->proposes = false;
    proposals->due = now + (proposals->known.weight == RCMI_PROPOSAL_MISMATCH ? 0 : SETTLE_NS);
    proposals->alone = now + ALONE_NS;
    proposals_poll(proposals, RCMI_FAILURE_PREPARE);
}

/* Chooses the value to send, from the votes so far. */
static void proposals_choose(struct rcmi_proposals *proposals) {
    proposals_weigh(proposals, proposals->accepted, &proposals->known);
    proposals_accept(proposals, proposals->ballot, &proposals->proposal);
    proposals->proposes = true;
}

static void proposals_receive_promise(struct rcmi_proposals *proposals, int rank,
                                      const struct rcmi_failure *message,
                                      const struct finding *value, int64_t now) {
    if (message->ballot > proposals->promised)
        proposals_promise(proposals, message->ballot, now);
    if (!proposals_have_ballot(proposals) || message->ballot != proposals->ballot)
        return;
    if (!proposals->proposes)
        proposals_weigh(proposals, message->accepted, value);
    if (!proposals->proposes || message->accepted == proposals->ballot)
        proposals_count(proposals, rank);
}

/* ---- Steps; under the lock ------------------------------------------------------------------- */

static void proposals_open(struct rcmi_proposals *proposals, bool handed, int64_t now) {
    if (rcmi_proposals_are_open(proposals))
        return;
    proposals->handed = handed;
    proposals->again = now;
    proposals->until = now + LIMIT_NS;
    atomic_store_explicit(&proposals->open, true, memory_order_relaxed);
}

/* Sends the finding to the lowest rank that may be alive, unless that is this one. */
static void proposals_hand_over(struct rcmi_proposals *proposals, int64_t now) {
    const struct rcmi_proposals_config *config = &proposals->config;
    proposals->handed = true;
    for (int r = 0; r < config->members->rank; r++) {
        if (config->silent(config->arg, r) ||
            !proposals_send(proposals, r, RCMI_FAILURE_PROPOSAL, 0))
            continue;
        proposals->due = now + TURN_NS;
        return;
    }
}

/* Whether everything that had arrived a moment ago was read. Time in which this rank could not run
 * does not count as waiting for others. */
static bool proposals_look(struct rcmi_proposals *proposals, int64_t now) {
    if (now - proposals->again > LOOK_NS)
        proposals->until += now - proposals->again;
    const bool fresh = now - proposals->looked_ns < LOOK_NS || proposals->looks == LOOKS_MAX;
    proposals->looks = fresh ? 0 : proposals->looks + 1;
    proposals->looked_ns = now;
    return fresh;
}

/* Continues this rank's ballot. */
static void proposals_lead(struct rcmi_proposals *proposals, int64_t now) {
    if (proposals->proposes || now < proposals->due || !proposals_have_majority(proposals))
        return;
    proposals_choose(proposals);
    proposals->alone = now + ALONE_NS;
    proposals_poll(proposals, RCMI_FAILURE_ACCEPT);
}

/* Whether the wait is over. */
static bool proposals_are_settled(const struct rcmi_proposals *proposals, int64_t now) {
    const bool chosen = proposals->proposes && proposals_have_majority(proposals);
    return now >= proposals->until ||
           (proposals_have_ballot(proposals) && (chosen || now >= proposals->alone));
}

/* True once `known` is the chosen cause. */
static bool proposals_step(struct rcmi_proposals *proposals, int64_t now) {
    const bool fresh = proposals_look(proposals, now);
    if (!proposals->handed)
        proposals_hand_over(proposals, now);
    if (proposals_have_ballot(proposals))
        proposals_lead(proposals, now);
    else if (fresh && now >= proposals->due && now < proposals->until)
        proposals_prepare(proposals, now);
    if (!fresh || !proposals_are_settled(proposals, now))
        return false;
    if (proposals_have_ballot(proposals) && !proposals->proposes)
        proposals_choose(proposals);
    return true;
}

/* Time of the next look if no message arrives. An overdue one happens at once. */
static rcmi_deadline proposals_again(const struct rcmi_proposals *proposals, int64_t now) {
    const bool waits =
        !proposals_have_ballot(proposals) || (!proposals->proposes && now < proposals->due);
    const rcmi_deadline due = waits ? proposals->due : proposals->alone;
    const rcmi_deadline next = due < proposals->until ? due : proposals->until;
    return next > now ? next : now;
}

/* ---- Public ---------------------------------------------------------------------------------- */

void rcmi_proposals_add(struct rcmi_proposals *proposals, const struct rcm_error *error,
                        const struct rcmi_rank_set *missing, int weight) {
    struct finding finding = {.error = *error, .weight = (uint32_t)weight};
    if (missing)
        finding.missing = *missing;
    pthread_mutex_lock(&proposals->lock);
    proposals_note(proposals, &finding);
    proposals_open(proposals, false, rcmi_now_ns());
    pthread_mutex_unlock(&proposals->lock);
    rcmi_loop_wake(rcmi_node_loop(proposals->config.members->node));
}

void rcmi_proposals_receive(struct rcmi_proposals *proposals, int rank,
                            const struct rcmi_failure *message, const struct rcm_error *error) {
    const struct finding value = {
        .error = *error, .weight = message->weight, .missing = message->missing};
    if (message->kind == RCMI_FAILURE_PROMISE
            ? proposals_are_over(proposals)
            : proposals->config.send_record(proposals->config.arg, rank))
        return;
    const int64_t now = rcmi_now_ns();
    pthread_mutex_lock(&proposals->lock);
    if (message->kind == RCMI_FAILURE_PROPOSAL) {
        proposals_note(proposals, &value);
        proposals_open(proposals, true, now);
    } else if (message->kind == RCMI_FAILURE_PROMISE) {
        proposals_receive_promise(proposals, rank, message, &value, now);
    } else if (proposals_is_ballot_of(proposals, message->ballot, rank)) {
        proposals_receive_proposer(proposals, rank, message, &value, now);
    }
    pthread_mutex_unlock(&proposals->lock);
}

rcmi_deadline rcmi_proposals_progress(struct rcmi_proposals *proposals) {
    if (!rcmi_proposals_are_open(proposals))
        return RCMI_NEVER;
    const int64_t now = rcmi_now_ns();
    pthread_mutex_lock(&proposals->lock);
    const bool over = proposals_are_over(proposals),
               choose = !over && proposals_step(proposals, now);
    const rcmi_deadline again = over || choose ? RCMI_NEVER : proposals_again(proposals, now);
    proposals->again = again;
    const struct finding known = proposals->known;
    if (over)
        atomic_store_explicit(&proposals->open, false, memory_order_relaxed);
    pthread_mutex_unlock(&proposals->lock);
    if (choose)
        proposals->config.agreed(proposals->config.arg, &known.error, &known.missing);
    return again;
}

/* Time in which this thread did not run does not count either. */
static bool proposals_are_stuck(struct rcmi_proposals *proposals, int64_t now) {
    const int64_t gap = now - proposals->awaited_ns;
    const bool same = proposals->overdue == proposals->again && proposals->again < now;
    proposals->overdue = proposals->again;
    proposals->awaited_ns = now;
    proposals->stuck_ns = same ? proposals->stuck_ns + (gap < AWAIT_NS ? gap : AWAIT_NS) : 0;
    return proposals->stuck_ns >= STUCK_NS;
}

void rcmi_proposals_await(struct rcmi_proposals *proposals) {
    pthread_mutex_lock(&proposals->lock);
    const bool choose =
        rcmi_proposals_are_open(proposals) && proposals_are_stuck(proposals, rcmi_now_ns());
    const struct finding known = proposals->known;
    pthread_mutex_unlock(&proposals->lock);
    if (choose)
        proposals->config.agreed(proposals->config.arg, &known.error, &known.missing);
}
