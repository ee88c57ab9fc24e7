/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who of a communicator is left: an agreement among its ranks while any of them may die, over the
 * control streams alone. It answers with a set of ranks, or with an error that is the same for all.
 *
 * Source: agreement led by the lowest rank that lives, on top of a detector of crashes, the
 * simplest of the family to which the early-returning agreement of ULFM belongs (Herault et al.,
 * "Practical Scalable Consensus for Pseudo-Synchronous Distributed Systems", SC15). Theirs runs
 * along a tree; ours is a star, because a shrunk communicator pays for its new links anyway.
 *
 *   caller                        coordinator: the lowest rank whose link has not ended
 *             <-- CALL            to those that have not joined, so that a link is made
 *   JOIN(gone) -->                whom the caller has lost, and how long it will wait
 *             <-- DECISION(set)   when all that are not gone have joined; to all, also to
 *                                 those that it leaves out
 *   JOIN(gone) -->                to the next rank, if the coordinator is gone
 *
 * The members are those that joined and whom no other member has lost: the coordinator leaves out
 * who is lost for most, then goes through the rest in order and leaves out who does not fit. A rank
 * that a joined one has lost is most likely dead, also if it has joined, and the coordinator will
 * hear of it too: it waits SUSPECT_NS for that, and no longer. A rank that is waited for until the
 * first of the deadlines of those that joined makes the decision an error that names it. A
 * coordinator that does not answer is named by each caller itself, a little after its own deadline
 * (GRACE_NS), with LEAVE as its last word.
 *
 * Why every survivor gets the same answer when coordinators die in the middle:
 *   - A rank joins c only when the links to all ranks below c have ended for it. The end of a link
 *     is final and comes after everything that arrived, so from then on no lower rank can give it
 *     a decision; and it takes decisions from nobody but its coordinator. A coordinator takes
 *     them from anybody.
 *   - Who has a decision answers every JOIN and CALL with it, from the loop thread, for as long as
 *     the engine lives, whatever became of the call and of the communicators.
 *   - So let p have got a decision from a coordinator that died, and c be a later coordinator. c
 *     decides only after every rank whose link has not ended answered, so after p did. Either p
 *     had the decision by then, and says so, and c gives it again; or p had joined c, and then it
 *     cannot have got the decision afterwards. By induction there is one decision among survivors.
 *     It may include a rank that died meanwhile: then the new communicator fails and is shrunk.
 *   - A rank that died may have known another decision. It had another epoch, so what it sent is
 *     dropped.
 *
 * A link can end although both processes live. A rank that can still reach somebody of the other
 * side waits for its coordinator and is told that it is out. Where nobody reaches the other side,
 * a coordinator that has lost as many ranks as it keeps, or more, looks whether their processes are
 * there (rcmi_node_probe): the larger side goes on, of equal ones that with the lowest rank. What
 * cannot be probed (a host that does not answer) counts as dead.
 *
 * Ranks are world ranks here. Not here: what is done with the answer, see api/group.c.
 */
#include "agreement.h"
#include "log.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOK_NS    (INT64_C(20) * 1000000)   /* between two looks at what does not wake us */
#define GRACE_NS   (INT64_C(1000) * 1000000) /* for the coordinator's decision to arrive */
#define SUSPECT_NS (INT64_C(1000) * 1000000)
#define PROBE_MS   500 /* for one rank */
#define PROBES     2   /* a dying process may listen for a moment after its links ended */
#define OPEN_MAX   64  /* agreements that others have begun and this rank not */

/* What another rank said. */
struct answer {
    bool summoned; /* by us */
    bool called, joined;
    rcmi_deadline deadline;
    uint8_t *gone; /* a set, if it joined */
};

struct agreement {
    struct agreement *next;
    uint32_t epoch, number;
    struct answer *answers;             /* by rank; NULL once decided */
    struct rcmi_agree *decision;        /* NULL: not yet; rcmi_agree_bytes of it */
    const struct rcmi_members *members; /* while a thread is in rcmi_agree */
    bool called, quit;                  /* this rank took part, and gave up */
    int told;                           /* whom we joined last, -1 */
    rcmi_deadline deadline;
    rcmi_deadline suspect_until; /* 0: no joined one has lost anybody that we have not */
};

struct rcmi_agreements {
    struct rcmi_agreements_config config;
    pthread_mutex_t lock; /* guards all below; never held while a callback may run */
    pthread_cond_t changed;
    struct agreement *head;
};

/* ---- Sets ---------------------------------------------------------------------------------- */

static bool set_has(const uint8_t *set, int rank) {
    return set[rank / 8] >> rank % 8 & 1;
}

static void set_add(uint8_t *set, int rank) {
    set[rank / 8] = (uint8_t)(set[rank / 8] | 1u << rank % 8);
}

static int set_lowest(const uint8_t *set, int nranks) {
    for (int r = 0; r < nranks; r++)
        if (set_has(set, r))
            return r;
    return nranks;
}

static int set_count(const uint8_t *set, int nranks) {
    int n = 0;
    for (int r = 0; r < nranks; r++)
        n += set_has(set, r);
    return n;
}

/* ---- Life ---------------------------------------------------------------------------------- */

rcm_status rcmi_agreements_create(const struct rcmi_agreements_config *config,
                                  struct rcmi_agreements **ret_agreements) {
    struct rcmi_agreements *all = calloc(1, sizeof(*all));
    if (!all)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for agreements");
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&all->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&all->lock, NULL);
    all->config = *config;
    *ret_agreements = all;
    return RCM_OK;
}

static void agreement_free_voices(const struct rcmi_agreements *all, struct agreement *a) {
    for (int r = 0; a->answers && r < all->config.nranks; r++)
        free(a->answers[r].gone);
    free(a->answers);
    a->answers = NULL;
}

void rcmi_agreements_free(struct rcmi_agreements *all) {
    if (!all)
        return;
    while (all->head) {
        struct agreement *a = all->head;
        all->head = a->next;
        agreement_free_voices(all, a);
        free(a->decision);
        free(a);
    }
    pthread_cond_destroy(&all->changed);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

static struct agreement *agreement_find(struct rcmi_agreements *all, uint32_t epoch,
                                        uint32_t number) {
    struct agreement *a = all->head;
    while (a && (a->epoch != epoch || a->number != number))
        a = a->next;
    return a;
}

/* NULL: no memory. */
static struct agreement *agreement_get(struct rcmi_agreements *all, uint32_t epoch,
                                       uint32_t number) {
    struct agreement *a = agreement_find(all, epoch, number);
    if (a)
        return a;
    a = calloc(1, sizeof(*a));
    if (a)
        a->answers = calloc((size_t)all->config.nranks, sizeof(*a->answers));
    if (!a || !a->answers) {
        free(a);
        (void)rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for an agreement of %d ranks",
                        all->config.nranks);
        return NULL;
    }
    a->epoch = epoch;
    a->number = number;
    a->told = -1;
    a->next = all->head;
    all->head = a;
    return a;
}

/* ---- Saying; under the lock, which sending does not mind ----------------------------------- */

static void agree_fill(const struct rcmi_agreements *all, const struct agreement *a,
                       enum rcmi_agree_kind kind, struct rcmi_agree *message) {
    memset(message, 0, sizeof(*message));
    message->magic = RCMI_AGREE_MAGIC;
    message->epoch = a->epoch;
    message->number = a->number;
    message->kind = kind;
    message->origin = -1;
    message->nranks = (uint32_t)all->config.nranks;
}

/* Who cannot be sent anything is gone, which will be noticed. */
static void agree_send(const struct rcmi_agreements *all, int peer,
                       const struct rcmi_agree *message) {
    if (peer != all->config.rank)
        (void)rcmi_node_send(all->config.node, peer, message, rcmi_agree_bytes(message->nranks));
}

static void agree_say(const struct rcmi_agreements *all, const struct agreement *a, int peer,
                      enum rcmi_agree_kind kind) {
    struct rcmi_agree message;
    agree_fill(all, a, kind, &message);
    agree_send(all, peer, &message);
}

static bool agree_lost(const struct rcmi_agreements *all, int peer) {
    return peer != all->config.rank && rcmi_node_gone(all->config.node, peer);
}

static void agree_join(const struct rcmi_agreements *all, struct agreement *a, int coordinator) {
    struct rcmi_agree message;
    agree_fill(all, a, RCMI_AGREE_JOIN, &message);
    message.left_ms = a->deadline == RCMI_NEVER ? -1 : rcmi_deadline_left_ms(a->deadline);
    for (int r = 0; r < a->members->size; r++)
        if (agree_lost(all, a->members->world_rank[r]))
            set_add(message.set, a->members->world_rank[r]);
    a->told = coordinator;
    agree_send(all, coordinator, &message);
}

/* Takes a decision for good, and tells whoever waits for it here. from: who gave it. */
static void agree_settle(struct rcmi_agreements *all, struct agreement *a,
                         const struct rcmi_agree *decision, int from) {
    const size_t bytes = rcmi_agree_bytes(decision->nranks);
    a->decision = malloc(bytes);
    if (!a->decision) {
        rcmi_log(RCMI_LOG_ERROR, "no memory for a decision of %zu bytes", bytes);
        return;
    }
    memcpy(a->decision, decision, bytes);
    for (int r = 0; r < all->config.nranks; r++)
        if (r != from && (a->answers[r].called || a->answers[r].joined))
            agree_send(all, r, decision);
    agreement_free_voices(all, a);
    pthread_cond_broadcast(&all->changed);
}

/* ---- Leading; under the lock --------------------------------------------------------------- */

static void lead_decide(struct rcmi_agreements *all, struct agreement *a,
                        const struct rcmi_agree *decision) {
    for (int r = 0; r < a->members->size; r++) {
        const int world = a->members->world_rank[r];
        if (!a->answers[world].called && !a->answers[world].joined && !agree_lost(all, world))
            agree_send(all, world, decision);
    }
    agree_settle(all, a, decision, all->config.rank);
}

static void lead_decide_error(struct rcmi_agreements *all, struct agreement *a, rcm_status status,
                              int origin) {
    struct rcmi_agree decision;
    agree_fill(all, a, RCMI_AGREE_DECISION, &decision);
    decision.status = status;
    decision.origin = origin;
    lead_decide(all, a, &decision);
}

/* Is the rank lost for one that joined? */
static bool lead_suspects(const struct rcmi_agreements *all, const struct agreement *a, int rank) {
    for (int r = 0; r < all->config.nranks; r++)
        if (a->answers[r].joined && !agree_lost(all, r) && set_has(a->answers[r].gone, rank))
            return true;
    return false;
}

/* Is some rank lost for one that joined, and may still turn out to be lost for us too? */
static bool lead_doubts(const struct rcmi_agreements *all, struct agreement *a) {
    bool suspects = false;
    for (int r = 0; r < a->members->size && !suspects; r++) {
        const int world = a->members->world_rank[r];
        suspects =
            world != all->config.rank && !agree_lost(all, world) && lead_suspects(all, a, world);
    }
    if (!suspects)
        a->suspect_until = 0;
    else if (a->suspect_until == 0)
        a->suspect_until = rcmi_now_ns() + SUSPECT_NS;
    return suspects && !rcmi_deadline_passed(a->suspect_until);
}

/* The lowest rank that is still to be waited for, -1 if there is none. Calls those that may not
 * have a link to us. */
static int lead_missing(const struct rcmi_agreements *all, struct agreement *a, bool doubt) {
    int missing = -1;
    for (int r = 0; r < a->members->size; r++) {
        const int world = a->members->world_rank[r];
        struct answer *answer = &a->answers[world];
        if (world == all->config.rank || answer->joined || agree_lost(all, world))
            continue;
        if (!answer->summoned)
            agree_say(all, a, world, RCMI_AGREE_CALL);
        answer->summoned = true;
        if ((missing < 0 || world < missing) && (doubt || !lead_suspects(all, a, world)))
            missing = world;
    }
    return missing;
}

/* Is it lost for more of those that joined than it is not? */
static bool lead_is_outvoted(const struct rcmi_agreements *all, const struct agreement *a,
                             int rank) {
    int lost = 0, answers = 1; /* ours */
    for (int r = 0; r < all->config.nranks; r++) {
        if (r == rank || !a->answers[r].joined || agree_lost(all, r))
            continue;
        answers++;
        lost += set_has(a->answers[r].gone, rank);
    }
    return 2 * lost > answers;
}

/* Does it fit to the members, none of whom it may have lost, nor they it? */
static bool lead_fits(const struct rcmi_agreements *all, const struct agreement *a,
                      const uint8_t *members, int rank) {
    if (rank == all->config.rank)
        return true;
    if (!a->answers[rank].joined || agree_lost(all, rank) || lead_is_outvoted(all, a, rank))
        return false;
    for (int r = 0; r < rank; r++)
        if (set_has(members, r) && (set_has(a->answers[rank].gone, r) ||
                                    (r != all->config.rank && set_has(a->answers[r].gone, rank))))
            return false;
    return true;
}

/* ret_members, and of the rest those that are gone for us. */
static void lead_divide(const struct rcmi_agreements *all, const struct agreement *a,
                        uint8_t *ret_members, uint8_t *ret_gone) {
    uint8_t ours[RCMI_AGREE_SET_BYTES] = {0};
    for (int r = 0; r < a->members->size; r++)
        set_add(ours, a->members->world_rank[r]);
    for (int r = 0; r < all->config.nranks; r++) {
        if (!set_has(ours, r))
            continue;
        if (lead_fits(all, a, ret_members, r))
            set_add(ret_members, r);
        else if (agree_lost(all, r))
            set_add(ret_gone, r);
    }
}

/* The lowest rank of another side that goes on without us, -1. Not under the lock. */
static int lead_other_side(const struct rcmi_agreements *all, const uint8_t *members,
                           const uint8_t *gone) {
    const int n = all->config.nranks, ours = set_count(members, n);
    uint8_t alive[RCMI_AGREE_SET_BYTES];
    memcpy(alive, gone, sizeof(alive));
    for (int probe = 0; probe < PROBES; probe++) {
        const struct timespec pause = {.tv_nsec = probe > 0 ? 100000000 : 0};
        (void)nanosleep(&pause, NULL);
        for (int r = 0; r < n; r++)
            if (set_has(alive, r) &&
                rcmi_node_probe(all->config.node, r, rcmi_deadline_in(PROBE_MS)) != RCM_OK)
                alive[r / 8] = (uint8_t)(alive[r / 8] & ~(1u << r % 8));
        const int theirs = set_count(alive, n);
        if (theirs < ours || (theirs == ours && set_lowest(members, n) < set_lowest(alive, n)))
            return -1;
    }
    return set_lowest(alive, n);
}

/* All that live have joined. */
static void lead_conclude(struct rcmi_agreements *all, struct agreement *a) {
    struct rcmi_agree decision;
    uint8_t gone[RCMI_AGREE_SET_BYTES] = {0};
    int other = -1;
    agree_fill(all, a, RCMI_AGREE_DECISION, &decision);
    lead_divide(all, a, decision.set, gone);
    if (set_count(decision.set, all->config.nranks) <= set_count(gone, all->config.nranks)) {
        pthread_mutex_unlock(&all->lock);
        other = lead_other_side(all, decision.set, gone);
        pthread_mutex_lock(&all->lock);
    }
    if (a->decision) /* another one's, that came meanwhile */
        return;
    if (other >= 0)
        lead_decide_error(all, a, RCM_ERR_PEER, other);
    else
        lead_decide(all, a, &decision);
}

static void lead(struct rcmi_agreements *all, struct agreement *a) {
    const bool doubt = lead_doubts(all, a);
    const int missing = lead_missing(all, a, doubt);
    rcmi_deadline deadline = a->deadline;
    for (int r = 0; r < all->config.nranks; r++)
        if (a->answers[r].joined && a->answers[r].deadline < deadline)
            deadline = a->answers[r].deadline;
    const bool late = rcmi_deadline_passed(deadline);
    if (missing < 0 && (!doubt || late))
        lead_conclude(all, a);
    else if (missing >= 0 && late)
        lead_decide_error(all, a, RCM_ERR_TIMEOUT, missing);
}

/* ---- Hearing; loop thread ------------------------------------------------------------------ */

/* The lowest rank whose link has not ended. The call is in progress. */
static int agree_coordinator(const struct rcmi_agreements *all, const struct agreement *a) {
    int lowest = all->config.rank;
    for (int r = 0; r < a->members->size; r++)
        if (a->members->world_rank[r] < lowest && !agree_lost(all, a->members->world_rank[r]))
            lowest = a->members->world_rank[r];
    return lowest;
}

/* May we take this decision? See the head of this file. */
static bool hear_may_take(const struct rcmi_agreements *all, const struct agreement *a, int peer,
                          const struct rcmi_agree *said) {
    const int self = all->config.rank;
    if (said->status == RCM_OK && !set_has(said->set, self))
        return true; /* for the rest of them we are gone */
    if (!a->members) /* we have not joined, so it is no set with us in it */
        return a->quit || said->status != RCM_OK;
    const int coordinator = agree_coordinator(all, a);
    return coordinator == self || coordinator == peer;
}

static uint32_t child_epoch(const struct rcmi_agree *decision);

static int members_index(const uint8_t *set, int rank) {
    int index = 0;
    for (int r = 0; r < rank; r++)
        index += set_has(set, r);
    return index;
}

static void hear_decision(struct rcmi_agreements *all, struct agreement *a, int peer,
                          const struct rcmi_agree *said) {
    if (a->decision || !hear_may_take(all, a, peer, said))
        return;
    if (a->quit && said->status == RCM_OK && set_has(said->set, all->config.rank)) {
        /* They count on us, and our caller has been told that it failed. */
        const int origin = members_index(said->set, all->config.rank);
        rcmi_fail_origin(RCM_ERR_TIMEOUT, origin,
                         "rank %d had given up rcm_comm_shrink when the others agreed", origin);
        all->config.revoke(all->config.arg, child_epoch(said), origin);
    }
    agree_settle(all, a, said, peer);
}

static void hear_join(struct rcmi_agreements *all, struct agreement *a, int peer,
                      const struct rcmi_agree *said) {
    struct answer *answer = &a->answers[peer];
    if (!answer->gone)
        answer->gone = malloc(RCMI_AGREE_SET_BYTES);
    if (!answer->gone) {
        rcmi_log(RCMI_LOG_ERROR, "no memory for what rank %d says", peer);
        return;
    }
    memcpy(answer->gone, said->set, RCMI_AGREE_SET_BYTES);
    answer->deadline = rcmi_deadline_in(said->left_ms);
    answer->joined = true;
    pthread_cond_broadcast(&all->changed);
}

/* Agreements that this rank has no part in yet. */
static bool hear_is_too_much(const struct rcmi_agreements *all) {
    int n = 0;
    for (const struct agreement *a = all->head; a; a = a->next)
        n += !a->called && !a->decision;
    return n >= OPEN_MAX;
}

static void hear(struct rcmi_agreements *all, struct agreement *a, int peer,
                 const struct rcmi_agree *said) {
    if (said->kind == RCMI_AGREE_DECISION)
        hear_decision(all, a, peer, said);
    else if (a->decision && said->kind != RCMI_AGREE_LEAVE)
        agree_send(all, peer, a->decision);
    else if (a->decision)
        return;
    else if (said->kind == RCMI_AGREE_JOIN)
        hear_join(all, a, peer, said);
    else if (said->kind == RCMI_AGREE_CALL)
        a->answers[peer].called = true;
    else
        a->answers[peer].joined = false;
}

void rcmi_agree_hear(struct rcmi_agreements *all, int peer, const struct rcmi_agree *said) {
    if (said->nranks != (uint32_t)all->config.nranks) {
        rcmi_log(RCMI_LOG_WARN, "rank %d agrees about a world of %u ranks, not %d", peer,
                 said->nranks, all->config.nranks);
        return;
    }
    pthread_mutex_lock(&all->lock);
    struct agreement *a = agreement_find(all, said->epoch, said->number);
    if (!a && !hear_is_too_much(all))
        a = agreement_get(all, said->epoch, said->number);
    if (a)
        hear(all, a, peer, said);
    else
        rcmi_log(RCMI_LOG_WARN, "what rank %d says of an agreement is dropped", peer);
    pthread_mutex_unlock(&all->lock);
}

void rcmi_agree_wake(struct rcmi_agreements *all) {
    pthread_mutex_lock(&all->lock);
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->lock);
}

/* ---- The call ------------------------------------------------------------------------------ */

/* Different for every agreement and every set. */
static uint32_t child_epoch(const struct rcmi_agree *decision) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    const uint32_t head[2] = {decision->epoch, decision->number};
    const uint8_t *bytes = (const uint8_t *)head;
    for (size_t i = 0; i < sizeof(head); i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < (decision->nranks + 7) / 8; i++)
        hash = (hash ^ decision->set[i]) * UINT64_C(0x100000001b3);
    hash = (hash ^ hash >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 32);
}

static void agree_sleep(struct rcmi_agreements *all, const struct agreement *a) {
    int64_t until = rcmi_now_ns() + LOOK_NS;
    if (a->deadline > rcmi_now_ns() && a->deadline < until)
        until = a->deadline;
    const struct timespec at = {.tv_sec = (time_t)(until / 1000000000),
                                .tv_nsec = (long)(until % 1000000000)};
    (void)pthread_cond_timedwait(&all->changed, &all->lock, &at);
}

/* A rank that has joined a later agreement, so has given this one up; -1. */
static int agree_straggler(const struct rcmi_agreements *all, const struct agreement *a) {
    for (const struct agreement *b = all->head; b; b = b->next)
        for (int r = 0;
             b->epoch == a->epoch && b->number > a->number && b->answers && r < all->config.nranks;
             r++)
            if (b->answers[r].joined)
                return r;
    return -1;
}

/* Until there is a decision; false if the coordinator does not answer. *ret_again: this agreement
 * has come to nothing and the next one is under way. */
static bool agree_take_part(struct rcmi_agreements *all, struct agreement *a, int *ret_silent,
                            bool *ret_again) {
    *ret_again = false;
    while (!a->decision) {
        const int coordinator = agree_coordinator(all, a);
        const int straggler = agree_straggler(all, a);
        if (coordinator == all->config.rank && straggler >= 0) {
            lead_decide_error(all, a, RCM_ERR_TIMEOUT, straggler);
            *ret_again = a->decision != NULL;
        } else if (coordinator == all->config.rank)
            lead(all, a);
        else if (coordinator != a->told)
            agree_join(all, a, coordinator);
        if (a->decision)
            break;
        if (coordinator != all->config.rank && a->deadline != RCMI_NEVER &&
            rcmi_deadline_passed(a->deadline + GRACE_NS)) {
            agree_say(all, a, coordinator, RCMI_AGREE_LEAVE);
            a->quit = true;
            *ret_silent = coordinator;
            return false;
        }
        agree_sleep(all, a);
    }
    return true;
}

/* The agreement that this call is part of: our next one, or one that others are ahead in. Or an
 * earlier one that left us out: that is so for good. */
static struct agreement *agree_begin(struct rcmi_agreements *all,
                                     const struct rcmi_members *members, uint32_t *last) {
    uint32_t number = *last + 1;
    for (struct agreement *a = all->head; a; a = a->next) {
        if (a->epoch != members->epoch)
            continue;
        if (a->decision && a->decision->status == RCM_OK &&
            !set_has(a->decision->set, all->config.rank))
            return a;
        if (a->number > number)
            number = a->number;
    }
    *last = number;
    return agreement_get(all, members->epoch, number);
}

static rcm_status agree_fail(const struct rcmi_members *members, rcm_status status, int world) {
    char who[RCMI_WHO_TEXT];
    int rank = -1;
    for (int r = 0; r < members->size; r++)
        if (members->world_rank[r] == world)
            rank = r;
    if (rank < 0)
        return rcmi_fail(status, 0, "the ranks did not agree on who is left");
    rcmi_members_describe(members, rank, who);
    if (status == RCM_ERR_PEER)
        return rcmi_fail_origin(status, rank,
                                "%s is alive, but out of reach; its side has more ranks, or the "
                                "lowest, and goes on without this one",
                                who);
    if (rank == members->rank)
        return rcmi_fail_origin(status, rank,
                                "this rank had not called rcm_comm_shrink when the others' "
                                "deadline passed");
    return rcmi_fail_origin(status, rank, "%s has not called rcm_comm_shrink within the deadline",
                            who);
}

static rcm_status agree_read(const struct rcmi_agreements *all, const struct rcmi_members *members,
                             const struct rcmi_agree *decision, int *ret_members, int *ret_nmembers,
                             uint32_t *ret_epoch) {
    int n = 0;
    if (decision->status != RCM_OK)
        return agree_fail(members, (rcm_status)decision->status, decision->origin);
    if (!set_has(decision->set, all->config.rank))
        return rcmi_fail(RCM_ERR_PEER, 0,
                         "the other ranks hold this one (rank %d) for lost and went on without it",
                         members->rank);
    for (int r = 0; r < members->size; r++)
        if (set_has(decision->set, members->world_rank[r]))
            ret_members[n++] = r;
    *ret_nmembers = n;
    *ret_epoch = child_epoch(decision);
    return RCM_OK;
}

rcm_status rcmi_agree(struct rcmi_agreements *all, const struct rcmi_members *members,
                      uint32_t *number, rcmi_deadline deadline, int *ret_members, int *ret_nmembers,
                      uint32_t *ret_epoch) {
    int silent = -1;
    rcm_status status = RCM_ERR_NOMEM;
    if (all->config.nranks > RCMI_AGREE_RANKS_MAX)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "an agreement of %d ranks, more than %d",
                         all->config.nranks, RCMI_AGREE_RANKS_MAX);
    pthread_mutex_lock(&all->lock);
    struct agreement *a;
    bool again = true;
    while (again && (a = agree_begin(all, members, number))) {
        a->members = members;
        a->called = true;
        a->deadline = deadline;
        if (agree_take_part(all, a, &silent, &again))
            status = agree_read(all, members, a->decision, ret_members, ret_nmembers, ret_epoch);
        else
            status = agree_fail(members, RCM_ERR_TIMEOUT, silent);
        a->members = NULL;
    }
    pthread_mutex_unlock(&all->lock);
    return status;
}
