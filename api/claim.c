/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who says whose fault a timeout or a mismatch is. Ranks whose operations are late at nearly the
 * same moment each find out who is to blame (blame.c), each from the answers that it got, and these
 * may differ: one has asked all and another only along its chain, one rank was at work when the
 * first asked and waited when the second did, a circle has no beginning. Of two ranks whose calls
 * differ each finds the other one (record.c). So no rank records such a finding, as it records all
 * other failures: the ranks vote. The rule is that of the Synod, for one value
 * (Lamport, "Paxos Made Simple", 2001):
 *
 *   - The voters are the first VOTERS_MAX ranks of the communicator, and a majority is more than
 *     half of them, whoever answers.
 *   - Who is about to speak takes a ballot, higher than all it has heard of and nobody else's, and
 *     ASKs all voters for their word.
 *   - A voter gives its WORD to a ballot higher than all before, and says what it has accepted, and
 *     in which ballot, or else what it has found itself. Who asks in a lower one is told of the
 *     higher.
 *   - With the words of a majority the speaker PROPOSEs what was accepted in the highest ballot, or
 *     if nothing was, the best finding; a voter accepts it, unless its word is with a higher one.
 *   - What a majority has accepted in one ballot is spoken: the speaker makes it the failure of the
 *     communicator, which goes to all (comm.c).
 *
 * So two speak the same, whoever dies, freezes or is late, for however long: Let v have been
 * accepted in ballot b by a majority, and c be the next higher ballot in which anything is
 * proposed. Its speaker had the words of a majority. One of these voters had accepted v in b, and
 * before it gave its word to c, for afterwards it would have refused; so it told c's speaker of v,
 * and nothing was accepted between b and c. So c proposes v, and by induction all later ones do.
 *
 * That leaves who speaks and when. A finding is handed, as a CLAIM, to the lowest rank that
 * answered the inquiry, which takes a ballot at once. Who handed one over, or gave its word, leaves
 * it to that rank for a turn, and then takes a ballot of its own. So ballots rarely compete, and
 * one whose speaker has frozen is followed by another.
 *
 * Where no majority answers, survivors must return all the same: a ballot that has none after
 * ALONE_NS is spoken without, and after LIMIT_NS, in which time a rank could run, any is. Then
 * nothing is excluded by counting, but a speaker has read all that had arrived before it speaks,
 * and found no higher ballot; and a rank that comes back to life finds the question in its sockets,
 * and gives its word for a turn. Two that speak differently then take messages that travel for
 * longer than that, a rank that freezes between its look and its word, or three that freeze one
 * after the other within LIMIT_NS.
 *
 * A rank whose communicator has failed answers claims, votes, and questions (deadline.c), with the
 * record: it is in no operation any more, and whoever heard only that would blame it. Other
 * failures are not voted for: they are facts, of a link or a call, recorded by whoever meets them;
 * two at a time are two failures.
 *
 * Findings come from any thread; everything else happens on the loop thread.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "comm.h"
#include "wire.h"

#define MS         INT64_C(1000000)
#define TURN_NS    (150 * MS)
#define SETTLE_NS  (30 * MS)  /* for better findings than a timeout to come with words */
#define ALONE_NS   (100 * MS) /* of a ballot; less than a turn by what messages may take */
#define LIMIT_NS   (500 * MS) /* from the finding; with the inquiry less than a second */
#define VOTERS_MAX 256        /* a great job is not linked all to all for that */
/* Two looks at the sockets that are no further apart have nothing old between them. */
#define LOOK_NS   (15 * MS)
#define LOOKS_MAX 3 /* then this rank is just slow, and was not away */

struct finding {
    struct rcm_error error;
    uint32_t weight; /* enum rcmi_claim_weight */
};

struct rcmi_claims {
    rcm_comm *comm;
    int nvoters;
    pthread_mutex_t lock;
    /* There is a finding here; the rest is of all ranks. Changed under the lock; relaxed, it lets
     * those that look often do so without: who makes a claim wakes the loop thread, whose look then
     * sees it. */
    _Atomic bool open;
    bool handed; /* to who is to speak */
    int looks;
    int64_t looked_ns;
    rcmi_deadline again;      /* when it wanted to look again */
    rcmi_deadline due, until; /* the next step; the last, whatever happens */
    /* As a voter: the highest ballot known, and that in which `known` was accepted; 0: none, it is
     * the best finding that this rank knows of. */
    uint64_t promised, accepted;
    struct finding known;
    /* As the speaker of a ballot; 0: none yet. It is over once a higher one is promised. */
    uint64_t ballot, best; /* the highest in which a voter has accepted `proposal`; 0: a finding */
    struct finding proposal;
    bool proposes;
    rcmi_deadline alone;
    int nvotes;
    uint8_t voted[VOTERS_MAX / 8];
};

rcm_status rcmi_claims_create(rcm_comm *comm, struct rcmi_claims **ret_claims) {
    struct rcmi_claims *claims = calloc(1, sizeof(*claims));
    if (!claims)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a communicator");
    claims->comm = comm;
    claims->nvoters = comm->size < VOTERS_MAX ? comm->size : VOTERS_MAX;
    claims->known.error = (struct rcm_error){.status = RCM_ERR_TIMEOUT, .origin = -1};
    pthread_mutex_init(&claims->lock, NULL);
    *ret_claims = claims;
    return RCM_OK;
}

void rcmi_claims_free(struct rcmi_claims *claims) {
    if (!claims)
        return;
    pthread_mutex_destroy(&claims->lock);
    free(claims);
}

bool rcmi_claims_are_open(const struct rcmi_claims *claims) {
    return atomic_load_explicit(&claims->open, memory_order_relaxed);
}

/* Acquire pairs with the release in comm.c, for the sake of uniformity: nothing is read. */
static bool claims_are_over(const struct rcmi_claims *claims) {
    return atomic_load_explicit(&claims->comm->failed, memory_order_acquire) != RCM_OK;
}

/* ---- Saying; under the lock ----------------------------------------------------------------- */

static bool claims_say(const struct rcmi_claims *claims, int rank, enum rcmi_failure_kind kind,
                       uint64_t ballot) {
    const rcm_comm *comm = claims->comm;
    struct rcmi_failure message;
    rcmi_failure_encode(comm->epoch, &claims->known.error, &message);
    message.kind = kind;
    message.weight = claims->known.weight;
    message.ballot = ballot;
    message.accepted = kind == RCMI_FAILURE_CLAIM ? 0 : claims->accepted;
    return rcmi_node_send(comm->engine->node, comm->world_rank[rank], &message, sizeof(message)) ==
           RCM_OK;
}

/* Who cannot even be sent this will not vote. */
static void claims_say_all(const struct rcmi_claims *claims, enum rcmi_failure_kind kind) {
    for (int r = 0; r < claims->nvoters; r++)
        if (r != claims->comm->rank)
            (void)claims_say(claims, r, kind, claims->ballot);
}

/* ---- Voting; under the lock ----------------------------------------------------------------- */

static void claims_find(struct rcmi_claims *claims, const struct finding *finding) {
    if (claims->accepted == 0 && finding->weight > claims->known.weight)
        claims->known = *finding;
}

/* Gives this rank's word, and leaves the next step to that ballot's speaker for a turn. */
static void claims_promise(struct rcmi_claims *claims, uint64_t ballot, int64_t now) {
    claims->promised = ballot;
    claims->due = now + TURN_NS;
}

static void claims_accept(struct rcmi_claims *claims, uint64_t ballot,
                          const struct finding *value) {
    claims->accepted = ballot;
    claims->known = *value;
}

static void claims_hear_speaker(struct rcmi_claims *claims, int rank,
                                const struct rcmi_failure *said, const struct finding *value,
                                int64_t now) {
    const bool proposed = said->kind == RCMI_FAILURE_PROPOSE;
    if (said->ballot > claims->promised || (proposed && said->ballot == claims->promised)) {
        claims_promise(claims, said->ballot, now);
        if (proposed)
            claims_accept(claims, said->ballot, value);
    }
    (void)claims_say(claims, rank, RCMI_FAILURE_WORD, claims->promised);
}

/* ---- Speaking; under the lock --------------------------------------------------------------- */

static bool claims_have_ballot(const struct rcmi_claims *claims) {
    return claims->ballot > 0 && claims->ballot == claims->promised;
}

static bool claims_have_majority(const struct rcmi_claims *claims) {
    return 2 * claims->nvotes > claims->nvoters;
}

static void claims_count(struct rcmi_claims *claims, int rank) {
    const uint8_t bit = (uint8_t)(1u << rank % 8);
    if (rank >= claims->nvoters || claims->voted[rank / 8] & bit)
        return;
    claims->voted[rank / 8] |= bit;
    claims->nvotes++;
}

/* The next part of the ballot: all vote again, this rank first. */
static void claims_poll(struct rcmi_claims *claims, enum rcmi_failure_kind kind) {
    claims->nvotes = 0;
    memset(claims->voted, 0, sizeof(claims->voted));
    claims_count(claims, claims->comm->rank);
    claims_say_all(claims, kind);
}

static void claims_weigh(struct rcmi_claims *claims, uint64_t accepted,
                         const struct finding *value) {
    if (accepted < claims->best ||
        (accepted == claims->best && value->weight <= claims->proposal.weight))
        return;
    claims->best = accepted;
    claims->proposal = *value;
}

/* Ballots are counted in rounds of one for each rank; the lower rank's is the higher. */
static bool claims_is_ballot_of(const struct rcmi_claims *claims, uint64_t ballot, int rank) {
    const uint64_t n = (uint64_t)claims->comm->size;
    return ballot % n == n - 1 - (uint64_t)rank;
}

static void claims_ask(struct rcmi_claims *claims, int64_t now) {
    const uint64_t n = (uint64_t)claims->comm->size, own = (uint64_t)claims->comm->rank;
    claims->ballot = (claims->promised / n + 1) * n + (n - 1 - own);
    claims->promised = claims->ballot;
    claims->best = 0;
    claims->proposal.weight = RCMI_CLAIM_NONE;
    claims->proposes = false;
    claims->due = now + (claims->known.weight == RCMI_CLAIM_MISMATCH ? 0 : SETTLE_NS);
    claims->alone = now + ALONE_NS;
    claims_poll(claims, RCMI_FAILURE_ASK);
}

/* What is to be said, by what was heard so far. */
static void claims_choose(struct rcmi_claims *claims) {
    claims_weigh(claims, claims->accepted, &claims->known);
    claims_accept(claims, claims->ballot, &claims->proposal);
    claims->proposes = true;
}

static void claims_hear_word(struct rcmi_claims *claims, int rank, const struct rcmi_failure *said,
                             const struct finding *value, int64_t now) {
    if (said->ballot > claims->promised)
        claims_promise(claims, said->ballot, now);
    if (!claims_have_ballot(claims) || said->ballot != claims->ballot)
        return;
    if (!claims->proposes)
        claims_weigh(claims, said->accepted, value);
    if (!claims->proposes || said->accepted == claims->ballot)
        claims_count(claims, rank);
}

/* ---- Steps; under the lock ------------------------------------------------------------------ */

static void claims_open(struct rcmi_claims *claims, bool handed, int64_t now) {
    if (rcmi_claims_are_open(claims))
        return;
    claims->handed = handed;
    claims->again = now;
    claims->until = now + LIMIT_NS;
    atomic_store_explicit(&claims->open, true, memory_order_relaxed);
}

/* To the lowest rank that may live; that may be this one. */
static void claims_hand_over(struct rcmi_claims *claims, int64_t now) {
    const rcm_comm *comm = claims->comm;
    claims->handed = true;
    for (int r = 0; r < comm->rank; r++) {
        if (rcmi_blame_is_silent(comm->blame, r) || !claims_say(claims, r, RCMI_FAILURE_CLAIM, 0))
            continue;
        claims->due = now + TURN_NS;
        return;
    }
}

/* Whether all has been read that had arrived a moment ago. Time in which this rank could not run
 * does not count as patience with others. */
static bool claims_look(struct rcmi_claims *claims, int64_t now) {
    if (now - claims->again > LOOK_NS)
        claims->until += now - claims->again;
    const bool fresh = now - claims->looked_ns < LOOK_NS || claims->looks == LOOKS_MAX;
    claims->looks = fresh ? 0 : claims->looks + 1;
    claims->looked_ns = now;
    return fresh;
}

/* This rank's ballot is under way. */
static void claims_speak(struct rcmi_claims *claims, int64_t now) {
    if (claims->proposes || now < claims->due || !claims_have_majority(claims))
        return;
    claims_choose(claims);
    claims->alone = now + ALONE_NS;
    claims_poll(claims, RCMI_FAILURE_PROPOSE);
}

/* Whether nothing is to be waited for any more. */
static bool claims_are_settled(const struct rcmi_claims *claims, int64_t now) {
    const bool chosen = claims->proposes && claims_have_majority(claims);
    return now >= claims->until || (claims_have_ballot(claims) && (chosen || now >= claims->alone));
}

/* True once `known` is to be said. */
static bool claims_step(struct rcmi_claims *claims, int64_t now) {
    const bool fresh = claims_look(claims, now);
    if (!claims->handed)
        claims_hand_over(claims, now);
    if (claims_have_ballot(claims))
        claims_speak(claims, now);
    else if (fresh && now >= claims->due && now < claims->until)
        claims_ask(claims, now);
    if (!fresh || !claims_are_settled(claims, now))
        return false;
    if (claims_have_ballot(claims) && !claims->proposes)
        claims_choose(claims);
    return true;
}

/* When to look again, if nothing is heard. What is past waits for a look at once. */
static rcmi_deadline claims_again(const struct rcmi_claims *claims, int64_t now) {
    const bool waits = !claims_have_ballot(claims) || (!claims->proposes && now < claims->due);
    const rcmi_deadline due = waits ? claims->due : claims->alone;
    const rcmi_deadline next = due < claims->until ? due : claims->until;
    return next > now ? next : now;
}

/* ---- For others ----------------------------------------------------------------------------- */

void rcmi_claims_make(struct rcmi_claims *claims, const struct rcm_work *work, int weight) {
    struct finding finding = {.weight = (uint32_t)weight};
    rcmi_comm_make_error(claims->comm, work, &finding.error);
    pthread_mutex_lock(&claims->lock);
    claims_find(claims, &finding);
    claims_open(claims, false, rcmi_now_ns());
    pthread_mutex_unlock(&claims->lock);
    rcmi_loop_wake(rcmi_node_loop(claims->comm->engine->node));
}

void rcmi_claims_hear(struct rcmi_claims *claims, int rank, const struct rcmi_failure *said,
                      const struct rcm_error *error) {
    const struct finding value = {.error = *error, .weight = said->weight};
    if (said->kind == RCMI_FAILURE_WORD ? claims_are_over(claims)
                                        : rcmi_comm_tell_failure(claims->comm, rank))
        return;
    const int64_t now = rcmi_now_ns();
    pthread_mutex_lock(&claims->lock);
    if (said->kind == RCMI_FAILURE_CLAIM) {
        claims_find(claims, &value);
        claims_open(claims, true, now);
    } else if (said->kind == RCMI_FAILURE_WORD) {
        claims_hear_word(claims, rank, said, &value, now);
    } else if (claims_is_ballot_of(claims, said->ballot, rank)) {
        claims_hear_speaker(claims, rank, said, &value, now);
    }
    pthread_mutex_unlock(&claims->lock);
}

rcmi_deadline rcmi_claims_progress(struct rcmi_claims *claims) {
    if (!rcmi_claims_are_open(claims))
        return RCMI_NEVER;
    const int64_t now = rcmi_now_ns();
    pthread_mutex_lock(&claims->lock);
    const bool over = claims_are_over(claims), speak = !over && claims_step(claims, now);
    const rcmi_deadline again = over || speak ? RCMI_NEVER : claims_again(claims, now);
    claims->again = again;
    const struct rcm_error error = claims->known.error;
    if (over)
        atomic_store_explicit(&claims->open, false, memory_order_relaxed);
    pthread_mutex_unlock(&claims->lock);
    if (speak)
        rcmi_comm_fail_remote(claims->comm, &error);
    return again;
}
