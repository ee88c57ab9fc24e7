/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who says whose fault a timeout is. Ranks whose operations are late at nearly the same moment each
 * find out who is to blame (blame.c), each from the answers that it got, and these may differ: one
 * has asked all and another only along its chain, one rank was at work when the first asked and
 * waited when the second did, a circle has no beginning. So no rank records its own finding, as it
 * records all other failures; it would be the first on some ranks, and another's on others. The
 * rule:
 *
 *   - A finding is a claim. It is handed to the lowest rank that answers, the speaker, and only
 *     the speaker makes it the failure of the communicator, which goes to all (comm.c). One claim
 *     is as good as another; the first one counts, but of two that meet at the speaker one that
 *     comes from a rank that asked all.
 *   - Who handed in a claim does not return before the speaker's record, or another, is there. If
 *     none comes within the speaker's turn, the claim goes to the next rank that answers, at
 *     last to oneself. Nobody hands a claim to a rank that did not answer the inquiry before it.
 *   - Claims go from higher to lower ranks. One that comes from a lower rank means: I am about
 *     to speak. A speaker tells all so, then lets SETTLE_NS pass, and everything be read that has
 *     arrived, before it speaks. Who hears it leaves it to that rank, for a turn. So of two
 *     that are about to speak the lower one does; and a rank that could not run for a while, and
 *     was taken for silent meanwhile, finds what another has said in its place, also where an
 *     earlier claim stands before that in its sockets.
 *   - A rank whose communicator has failed answers claims, and questions, with the record
 *     (deadline.c): it is in no operation any more, and whoever heard only that would blame it.
 *
 * So survivors name different ranks only if two speak, and that takes a rank that was silent for
 * longer than an inquiry and comes back to life while another one settles. That is rare, not
 * excluded: the model finds it in its round 8086 (fault-claim stalled 1 8086). Failures that are no
 * timeouts are not claims: they are facts, of a link or a message, recorded by whoever meets them;
 * two at a time are two failures.
 *
 * Claims are made by drivers and by the loop thread, and handed on by the loop thread alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include "comm.h"
#include "wire.h"

#define MS        INT64_C(1000000)
#define TURN_NS   (150 * MS) /* of a rank that was handed the claim */
#define SETTLE_NS (30 * MS)
#define LIMIT_NS  (300 * MS) /* for all turns: with the inquiry less than a second */
/* Two looks at the sockets that are no further apart have nothing old between them. */
#define LOOK_NS   (15 * MS)
#define LOOKS_MAX 3 /* then this rank is just slow, and was not away */

struct rcmi_claims {
    rcm_comm *comm;
    pthread_mutex_t lock;
    /* There is one; the rest is of it. Changed under the lock; relaxed, it lets those that look
     * often do so without: who made a claim wakes the loop thread, whose look then sees it. */
    _Atomic bool open;
    struct rcm_error error;
    uint32_t weight;
    bool settles; /* our own turn, and all have been told */
    int looks;    /* after that, and when the last one was */
    int64_t looked_ns;
    int speaker; /* who has it; -1 nobody yet */
    rcmi_deadline turn_until, until;
};

rcm_status rcmi_claims_create(rcm_comm *comm, struct rcmi_claims **ret_claims) {
    struct rcmi_claims *claims = calloc(1, sizeof(*claims));
    if (!claims)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a communicator");
    claims->comm = comm;
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

/* ---- Handing it on; under the lock ---------------------------------------------------------- */

static struct rcmi_failure claims_message(const struct rcmi_claims *claims) {
    struct rcmi_failure message;
    rcmi_failure_encode(claims->comm->epoch, &claims->error, &message);
    message.claim = claims->weight;
    return message;
}

static bool claims_hand_over(const struct rcmi_claims *claims) {
    const rcm_comm *comm = claims->comm;
    const struct rcmi_failure message = claims_message(claims);
    return rcmi_node_send(comm->engine->node, comm->world_rank[claims->speaker], &message,
                          sizeof(message)) == RCM_OK;
}

static void claims_announce(const struct rcmi_claims *claims) {
    const struct rcmi_failure message = claims_message(claims);
    rcmi_node_send_linked(claims->comm->engine->node, &message, sizeof(message));
}

/* The next speaker's turn begins; the last one is this rank. */
static void claims_next_turn(struct rcmi_claims *claims, int64_t now) {
    const int own = claims->comm->rank;
    while (++claims->speaker < own && now < claims->until) {
        if (rcmi_blame_is_silent(claims->comm->blame, claims->speaker) || !claims_hand_over(claims))
            continue;
        claims->turn_until = now + TURN_NS;
        return;
    }
    claims->speaker = own;
    claims->settles = false;
    claims->turn_until = now;
    claims_announce(claims);
}

static void claims_put(struct rcmi_claims *claims, const struct rcm_error *error, int weight,
                       bool heard, int64_t now) {
    const bool open = rcmi_claims_are_open(claims);
    if (open && (uint32_t)weight <= claims->weight)
        return;
    claims->error = *error;
    claims->weight = (uint32_t)weight;
    if (open) {
        if (claims->speaker >= 0 && claims->speaker < claims->comm->rank)
            (void)claims_hand_over(claims);
        return;
    }
    claims->speaker = heard ? claims->comm->rank - 1 : -1;
    claims->turn_until = now;
    claims->until = now + LIMIT_NS;
    atomic_store_explicit(&claims->open, true, memory_order_relaxed);
}

/* This lower rank is about to speak. */
static void claims_leave_it(struct rcmi_claims *claims, int rank, int64_t now) {
    claims->speaker = rank;
    claims->turn_until = now + TURN_NS;
}

/* The announcement is out: who does not know of it yet has not spoken, or will be heard. */
static void claims_settle(struct rcmi_claims *claims, int64_t now) {
    claims->settles = true;
    claims->looks = 0;
    claims->turn_until = now + SETTLE_NS;
}

/* True once it is to be said. */
static bool claims_turn(struct rcmi_claims *claims, int64_t now) {
    const int own = claims->comm->rank;
    if (claims->speaker == own && !claims->settles)
        claims_settle(claims, now);
    while (claims->speaker < own && now >= claims->turn_until)
        claims_next_turn(claims, now);
    if (claims->speaker < own || !claims->settles || now < claims->turn_until)
        return false;
    const bool fresh = claims->looks > 0 && now - claims->looked_ns < LOOK_NS;
    if (fresh || claims->looks == LOOKS_MAX)
        return true;
    claims->looks++;
    claims->looked_ns = now;
    claims->turn_until = now; /* look again at once, when sockets were read */
    return false;
}

/* ---- For others ----------------------------------------------------------------------------- */

void rcmi_claims_make(struct rcmi_claims *claims, const struct rcm_work *work, int weight) {
    struct rcm_error error;
    rcmi_comm_make_error(claims->comm, work, &error);
    pthread_mutex_lock(&claims->lock);
    claims_put(claims, &error, weight, false, rcmi_now_ns());
    pthread_mutex_unlock(&claims->lock);
    rcmi_loop_wake(rcmi_node_loop(claims->comm->engine->node));
}

void rcmi_claims_hear(struct rcmi_claims *claims, int rank, const struct rcm_error *error,
                      int weight) {
    if (rcmi_comm_tell_failure(claims->comm, rank))
        return;
    const int64_t now = rcmi_now_ns();
    pthread_mutex_lock(&claims->lock);
    if (rank > claims->comm->rank || !rcmi_claims_are_open(claims))
        claims_put(claims, error, weight, true, now);
    if (rank < claims->comm->rank)
        claims_leave_it(claims, rank, now);
    pthread_mutex_unlock(&claims->lock);
}

rcmi_deadline rcmi_claims_progress(struct rcmi_claims *claims) {
    if (!rcmi_claims_are_open(claims))
        return RCMI_NEVER;
    rcm_comm *comm = claims->comm;
    struct rcm_error error = RCM_ERROR_INIT;
    pthread_mutex_lock(&claims->lock);
    /* Acquire pairs with the release in comm.c, for the sake of uniformity: nothing is read. */
    const bool failed = atomic_load_explicit(&comm->failed, memory_order_acquire) != RCM_OK;
    const bool speak = !failed && claims_turn(claims, rcmi_now_ns());
    const rcmi_deadline until = failed || speak ? RCMI_NEVER : claims->turn_until;
    error = claims->error;
    if (failed)
        atomic_store_explicit(&claims->open, false, memory_order_relaxed);
    pthread_mutex_unlock(&claims->lock);
    if (speak)
        rcmi_comm_fail_remote(comm, &error);
    return until;
}
