/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Why a communicator failed: agreement on one cause, where ranks have found different ones. Ranks
 * whose operations are late at nearly the same moment each find an origin (diagnosis/) from the
 * answers that they got, and these may differ: one rank has asked all and another only along its
 * chain, a rank was at work at the first inquiry and waited at the second, a circle has no
 * beginning. Of two ranks whose calls differ each finds the other one. So no rank records such a
 * finding, as it records all other failures: it is a proposal, and the ranks vote. The rule is that
 * of the Synod, for one value (Lamport, "Paxos Made Simple", 2001):
 *
 *   - The acceptors are the first VOTERS_MAX ranks of the communicator, and a majority is more than
 *     half of them, whatever rank answers.
 *   - A proposer takes a ballot, higher than all it has heard of and no other rank's, and sends
 *     PREPARE to all acceptors.
 *   - An acceptor gives its PROMISE to a ballot higher than all before, with what it has accepted,
 *     and in which ballot, or else what it has found itself. A proposer of a lower ballot is told
 *     of the higher.
 *   - With the promises of a majority the proposer sends ACCEPT with what was accepted in the
 *     highest ballot, or if nothing was, the best finding; an acceptor accepts it, unless it has
 *     promised a higher ballot.
 *   - What a majority has accepted in one ballot is chosen: the proposer makes it the failure of
 *     the communicator, which goes to all (comm.c).
 *
 * So two proposers choose the same, whatever rank dies, freezes or is late, for however long: Let v
 * have been accepted in ballot b by a majority, and c be the next higher ballot in which anything
 * is sent to be accepted. Its proposer had the promises of a majority. One of these acceptors had
 * accepted v in b, and before it promised c, for afterwards it would have refused; so it told c's
 * proposer of v, and nothing was accepted between b and c. So c's value is v, and by induction that
 * of all later ballots.
 *
 * That leaves which rank proposes and when. A finding is handed, as a PROPOSAL, to the lowest rank
 * that answered the inquiry, which takes a ballot at once. A rank that handed one over, or gave its
 * promise, leaves it to that rank for TURN_NS, and then takes a ballot of its own. So ballots
 * rarely compete, and one whose proposer has frozen is followed by another.
 *
 * Where no majority answers, survivors must return all the same: a ballot that has none after
 * ALONE_NS is chosen without, and after LIMIT_NS, in which time a rank could run, any is. Then
 * nothing is excluded by counting, but a proposer has read all that had arrived before it chooses,
 * and found no higher ballot; and a rank that comes back to life finds the PREPARE in its sockets,
 * and waits for TURN_NS. Two that choose differently then take messages that travel for longer than
 * that, a rank that freezes between its look and its promise, or three that freeze one after the
 * other within LIMIT_NS.
 *
 * A rank whose communicator has failed answers proposals, ballots, and inquiries
 * (api/work/deadline.c) with the record: it is in no operation any more, and a rank that heard only
 * that would take it for the origin. Other failures are not voted for: they are facts, of a link or
 * a call, recorded by whatever rank meets them; two at a time are two failures.
 *
 * Findings come from any thread; everything else happens on the loop thread. If that does not come
 * for long although it is due, a thread that waits chooses for itself, without a vote.
 */
#include <stdio.h>
#include <stdlib.h>
#include <pthread.h>
#include <string.h>
#include "agreement.h"

#define MS         INT64_C(1000000)
#define TURN_NS    (150 * MS)
#define SETTLE_NS  (30 * MS)  /* for better findings than a timeout to come with words */
#define ALONE_NS   (100 * MS) /* of a ballot; less than a turn by what messages may take */
#define LIMIT_NS   (500 * MS) /* from the finding; with the inquiry less than a second */
#define VOTERS_MAX 256        /* a great job is not linked all to all for that */
/* Two looks at the sockets that are no further apart have nothing old between them. */
#define LOOK_NS   (15 * MS)
#define LOOKS_MAX 3           /* then this rank is just slow, and was not away */
#define AWAIT_NS  (500 * MS)  /* a thread that waits looks that often */
#define STUCK_NS  (3000 * MS) /* a loop thread that does not come for so long is taken for stuck */

struct finding {
    struct rcm_error error;
    uint32_t weight; /* enum rcmi_proposal_weight */
    struct rcmi_rank_set missing;
};

struct rcmi_proposals {
    struct rcmi_proposals_config config;
    int nvoters;
    pthread_mutex_t lock;
    /* There is a finding here; the rest is of all ranks. Changed under the lock; relaxed, it lets
     * those that look often do so without: adding a proposal wakes the loop thread, whose look then
     * sees it. */
    _Atomic bool open;
    bool handed; /* to the rank that is to propose */
    int looks;
    int64_t looked_ns;
    rcmi_deadline again;      /* when it wanted to look again */
    rcmi_deadline due, until; /* the next step; the last, whatever happens */
    /* Of a thread that waits: the turn of the loop thread that is overdue, the last look, for how
     * long. */
    rcmi_deadline overdue;
    int64_t awaited_ns, stuck_ns;
    /* As a voter: the highest ballot known, and that in which `known` was accepted; 0: none, it is
     * the best finding that this rank knows of. */
    uint64_t promised, accepted;
    struct finding known;
    /* As the proposer of a ballot; 0: none yet. It is over once a higher one is promised. */
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

static bool proposals_say(const struct rcmi_proposals *proposals, int rank,
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

/* A rank that cannot even be sent this will not vote. */
static void proposals_say_all(const struct rcmi_proposals *proposals, enum rcmi_failure_kind kind) {
    for (int r = 0; r < proposals->nvoters; r++)
        if (r != proposals->config.members->rank)
            (void)proposals_say(proposals, r, kind, proposals->ballot);
}

/* ---- Voting; under the lock ----------------------------------------------------------------- */

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

static void proposals_hear_proposer(struct rcmi_proposals *proposals, int rank,
                                    const struct rcmi_failure *said, const struct finding *value,
                                    int64_t now) {
    const bool proposed = said->kind == RCMI_FAILURE_ACCEPT;
    if (said->ballot > proposals->promised || (proposed && said->ballot == proposals->promised)) {
        proposals_promise(proposals, said->ballot, now);
        if (proposed)
            proposals_accept(proposals, said->ballot, value);
    }
    (void)proposals_say(proposals, rank, RCMI_FAILURE_PROMISE, proposals->promised);
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

/* The next part of the ballot: all vote again, this rank first. */
static void proposals_poll(struct rcmi_proposals *proposals, enum rcmi_failure_kind kind) {
    proposals->nvotes = 0;
    memset(proposals->voted, 0, sizeof(proposals->voted));
    proposals_count(proposals, proposals->config.members->rank);
    proposals_say_all(proposals, kind);
}

static void proposals_weigh(struct rcmi_proposals *proposals, uint64_t accepted,
                            const struct finding *value) {
    if (accepted < proposals->best ||
        (accepted == proposals->best && value->weight <= proposals->proposal.weight))
        return;
    proposals->best = accepted;
    proposals->proposal = *value;
}

/* Ballots are counted in rounds of one for each rank; the lower rank's is the higher. */
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

/* What is to be sent, by what was heard so far. */
static void proposals_choose(struct rcmi_proposals *proposals) {
    proposals_weigh(proposals, proposals->accepted, &proposals->known);
    proposals_accept(proposals, proposals->ballot, &proposals->proposal);
    proposals->proposes = true;
}

static void proposals_hear_promise(struct rcmi_proposals *proposals, int rank,
                                   const struct rcmi_failure *said, const struct finding *value,
                                   int64_t now) {
    if (said->ballot > proposals->promised)
        proposals_promise(proposals, said->ballot, now);
    if (!proposals_have_ballot(proposals) || said->ballot != proposals->ballot)
        return;
    if (!proposals->proposes)
        proposals_weigh(proposals, said->accepted, value);
    if (!proposals->proposes || said->accepted == proposals->ballot)
        proposals_count(proposals, rank);
}

/* ---- Steps; under the lock ------------------------------------------------------------------ */

static void proposals_open(struct rcmi_proposals *proposals, bool handed, int64_t now) {
    if (rcmi_proposals_are_open(proposals))
        return;
    proposals->handed = handed;
    proposals->again = now;
    proposals->until = now + LIMIT_NS;
    atomic_store_explicit(&proposals->open, true, memory_order_relaxed);
}

/* To the lowest rank that may live; that may be this one. */
static void proposals_hand_over(struct rcmi_proposals *proposals, int64_t now) {
    const struct rcmi_proposals_config *config = &proposals->config;
    proposals->handed = true;
    for (int r = 0; r < config->members->rank; r++) {
        if (config->silent(config->arg, r) ||
            !proposals_say(proposals, r, RCMI_FAILURE_PROPOSAL, 0))
            continue;
        proposals->due = now + TURN_NS;
        return;
    }
}

/* Whether all has been read that had arrived a moment ago. Time in which this rank could not run
 * does not count as patience with others. */
static bool proposals_look(struct rcmi_proposals *proposals, int64_t now) {
    if (now - proposals->again > LOOK_NS)
        proposals->until += now - proposals->again;
    const bool fresh = now - proposals->looked_ns < LOOK_NS || proposals->looks == LOOKS_MAX;
    proposals->looks = fresh ? 0 : proposals->looks + 1;
    proposals->looked_ns = now;
    return fresh;
}

/* This rank's ballot is under way. */
static void proposals_lead(struct rcmi_proposals *proposals, int64_t now) {
    if (proposals->proposes || now < proposals->due || !proposals_have_majority(proposals))
        return;
    proposals_choose(proposals);
    proposals->alone = now + ALONE_NS;
    proposals_poll(proposals, RCMI_FAILURE_ACCEPT);
}

/* Whether nothing is to be waited for any more. */
static bool proposals_are_settled(const struct rcmi_proposals *proposals, int64_t now) {
    const bool chosen = proposals->proposes && proposals_have_majority(proposals);
    return now >= proposals->until ||
           (proposals_have_ballot(proposals) && (chosen || now >= proposals->alone));
}

/* True once `known` is to be sent. */
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

/* When to look again, if nothing is heard. What is past waits for a look at once. */
static rcmi_deadline proposals_again(const struct rcmi_proposals *proposals, int64_t now) {
    const bool waits =
        !proposals_have_ballot(proposals) || (!proposals->proposes && now < proposals->due);
    const rcmi_deadline due = waits ? proposals->due : proposals->alone;
    const rcmi_deadline next = due < proposals->until ? due : proposals->until;
    return next > now ? next : now;
}

/* ---- For others ----------------------------------------------------------------------------- */

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

void rcmi_proposals_hear(struct rcmi_proposals *proposals, int rank,
                         const struct rcmi_failure *said, const struct rcm_error *error) {
    const struct finding value = {
        .error = *error, .weight = said->weight, .missing = said->missing};
    if (said->kind == RCMI_FAILURE_PROMISE ? proposals_are_over(proposals)
                                           : proposals->config.tell(proposals->config.arg, rank))
        return;
    const int64_t now = rcmi_now_ns();
    pthread_mutex_lock(&proposals->lock);
    if (said->kind == RCMI_FAILURE_PROPOSAL) {
        proposals_note(proposals, &value);
        proposals_open(proposals, true, now);
    } else if (said->kind == RCMI_FAILURE_PROMISE) {
        proposals_hear_promise(proposals, rank, said, &value, now);
    } else if (proposals_is_ballot_of(proposals, said->ballot, rank)) {
        proposals_hear_proposer(proposals, rank, said, &value, now);
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

/* Time in which this thread did not run either does not count. */
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
