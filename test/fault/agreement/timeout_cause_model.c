/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The decision of who is at fault for a timeout (api/agreement/cause.c), in a model: ranks that
 * find different things at nearly the same moment; simulated time; messages that take up to
 * FLIGHT_US, in order between two ranks; ranks that cannot run for a while, or never again, and
 * count as silent for some ranks and not for others. In every round all ranks that run at the end
 * must name the same rank, one that some rank has found, and in time.
 *
 * "adrift" tests the vote without time. Each rank has a clock of its own that jumps, each letter
 * takes any time, votes are duplicated, any number of ranks die at any point; but a clock stands
 * still where a rank would decide without a majority. Then no rank need receive a decision, but all
 * decisions are the same.
 *
 *   timeout_cause_model together|stopped|stalled|adrift [SECONDS [SEED]]
 *
 * Rounds use the seeds from SEED (1) on; with SECONDS 0 there is one. Real processes and links:
 * random_faults.c.
 */
#include "agreement.h"
#include "../random.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    RANKS_MAX = 9,
    LETTERS_MAX = 4096,
    STEP_US = 250,
    FLIGHT_US = 12000,
    INQUIRY_US = 400000,
    IN_TIME_US = 400000, /* from the end of the inquiry, which takes up to 450 ms of 1 s */
    END_US = 5000000,
    /* adrift; the first two are those of api/agreement/cause.c */
    ALONE_US = 100000,
    LIMIT_US = 500000,
    ACTS = 3000,
};
#define EPOCH 77u

struct rcmi_node {
    int rank;
};

struct letter {
    int from, to; /* to -1: it has been read */
    int64_t due_us;
    struct rcmi_failure failure;
};

struct person {
    int64_t finds_us;              /* end of its inquiry; -1: it is not late */
    int64_t stalls_us, resumes_us; /* it cannot run between the two */
    bool silent[RANKS_MAX];
    bool proposed;
    uint32_t weight;
    int64_t recorded_us; /* -1: not yet */
    int origin;
    /* adrift */
    int64_t clock_us, stops_us; /* a limit that its clock must not reach */
    int acts_left;              /* number of actions until it dies */
    uint64_t ballot;            /* of its last ballot */
    struct rcmi_node node;
    struct rcmi_members members;
    struct rcmi_proposals *proposals;
};

static struct {
    int n;
    uint64_t random;
    bool adrift;
    int acting;                                   /* the rank whose clock is read */
    int64_t now_us, due_us[RANKS_MAX][RANKS_MAX]; /* of the last letter between two ranks */
    bool fast[RANKS_MAX][RANKS_MAX];
    uint64_t proposed; /* the highest ballot with a proposal */
    bool reproposed;   /* proposed in two ballots */
    struct person person[RANKS_MAX];
    struct letter letters[LETTERS_MAX]; /* in the order of sending */
    int nletters;
} world;

static int world_rank[RANKS_MAX];

static int draw(int below) {
    return (int)(random_next(&world.random) % (uint64_t)below);
}

static bool runs(const struct person *person) {
    return world.now_us < person->stalls_us || world.now_us >= person->resumes_us;
}

/* ---- What cause.c uses of the rest ----------------------------------------------------------- */

int64_t rcmi_now_ns(void) {
    return (world.adrift ? world.person[world.acting].clock_us : world.now_us) * 1000;
}

/* Its timeout restarts with each part of a ballot. */
static void note_ballot(int rank, const struct rcmi_failure *sent) {
    struct person *person = &world.person[rank];
    if (sent->kind != RCMI_FAILURE_PREPARE && sent->kind != RCMI_FAILURE_ACCEPT)
        return;
    person->ballot = sent->ballot;
    person->stops_us = person->clock_us + ALONE_US;
    if (sent->kind == RCMI_FAILURE_ACCEPT) {
        world.reproposed = world.reproposed || (world.proposed && world.proposed != sent->ballot);
        world.proposed = sent->ballot;
    }
}

rcm_status rcmi_node_send(struct rcmi_node *node, int peer, const void *bytes, size_t len) {
    struct letter *letter = &world.letters[world.nletters++];
    int64_t *due = &world.due_us[node->rank][peer];
    if (world.nletters == LETTERS_MAX || len > sizeof(letter->failure))
        abort();
    *letter = (struct letter){.from = node->rank, .to = peer};
    memcpy(&letter->failure, bytes, len);
    note_ballot(node->rank, &letter->failure);
    letter->due_us = world.now_us + draw(FLIGHT_US);
    if (letter->due_us < *due)
        letter->due_us = *due;
    *due = letter->due_us;
    return RCM_OK;
}

void rcmi_node_send_linked(struct rcmi_node *node, const int *ranks, int nranks, const void *bytes,
                           size_t len) {
    (void)ranks;
    (void)nranks;
    for (int r = 0; r < world.n; r++)
        if (r != node->rank)
            (void)rcmi_node_send(node, r, bytes, len);
}

struct rcmi_loop *rcmi_node_loop(struct rcmi_node *node) {
    (void)node;
    return NULL;
}

void rcmi_loop_wake(struct rcmi_loop *loop) {
    (void)loop;
}

static void person_send_record(const struct person *person, int to) {
    const struct rcm_error error = {.status = RCM_ERR_TIMEOUT, .origin = person->origin};
    struct rcmi_failure failure;
    rcmi_failure_encode(EPOCH, &error, NULL, &failure);
    (void)rcmi_node_send((struct rcmi_node *)&person->node, to, &failure,
                         rcmi_failure_bytes(&failure));
}

static void person_fail(void *arg, const struct rcm_error *error,
                        const struct rcmi_rank_set *missing) {
    struct person *person = arg;
    (void)missing;
    if (person->recorded_us >= 0)
        return;
    person->recorded_us = world.now_us;
    person->origin = error->origin;
    for (int r = 0; r < world.n; r++)
        if (r != person->members.rank)
            person_send_record(person, r);
}

static bool person_failed(void *arg) {
    const struct person *person = arg;
    return person->recorded_us >= 0;
}

static bool person_tell(void *arg, int rank) {
    const struct person *person = arg;
    if (person->recorded_us >= 0)
        person_send_record(person, rank);
    return person->recorded_us >= 0;
}

static bool person_finds_silent(void *arg, int rank) {
    const struct person *person = arg;
    return person->silent[rank];
}

/* ---- Time ------------------------------------------------------------------------------------ */

/* Each rank proposes itself as the origin. */
static void person_propose(struct person *person) {
    person->proposed = true;
    person->weight = draw(8) ? RCMI_PROPOSAL_LATE + (uint32_t)draw(2) : RCMI_PROPOSAL_MISMATCH;
    const struct rcm_error error = {
        .status = person->weight == RCMI_PROPOSAL_MISMATCH ? RCM_ERR_MISMATCH : RCM_ERR_TIMEOUT,
        .origin = person->members.rank};
    rcmi_proposals_add(person->proposals, &error, NULL, (int)person->weight);
}

/* The inquiry is over: some ranks were queried, and those that could not run all the time did not
 * answer. */
static void person_find(int rank) {
    struct person *person = &world.person[rank];
    for (int r = 0; r < world.n; r++) {
        const struct person *other = &world.person[r];
        const bool queried = r != rank && draw(3) > 0;
        const bool away =
            other->stalls_us <= world.now_us - INQUIRY_US && other->resumes_us > world.now_us;
        person->silent[r] = queried && away;
    }
    person_propose(person);
}

static void letter_read(int rank, int from, const struct rcmi_failure *bytes) {
    struct rcmi_failure failure;
    struct rcm_error error;
    struct person *person = &world.person[rank];
    if (!rcmi_failure_decode(bytes, rcmi_failure_bytes(bytes), &failure, &error))
        abort();
    if (failure.kind != RCMI_FAILURE_RECORD)
        rcmi_proposals_receive(person->proposals, from, &failure, &error);
    else
        person_fail(person, &error, &failure.missing);
}

/* Reads all letters that have arrived, one sender after the other as sockets are read. */
static void person_read(int rank) {
    const int first = draw(world.n);
    for (int k = 0; k < world.n; k++) {
        for (int i = 0; i < world.nletters; i++) {
            struct letter *letter = &world.letters[i];
            if (letter->to != rank || letter->from != (first + k) % world.n ||
                letter->due_us > world.now_us)
                continue;
            letter_read(rank, letter->from, &letter->failure);
            letter->to = -1;
        }
    }
}

static void letters_drop_read(void) {
    int kept = 0;
    for (int i = 0; i < world.nletters; i++)
        if (world.letters[i].to >= 0)
            world.letters[kept++] = world.letters[i];
    world.nletters = kept;
}

/* One turn of its loop thread, which may start at any point of the loop. */
static void person_turn(int rank) {
    struct person *person = &world.person[rank];
    if (!runs(person))
        return;
    if (person->finds_us >= 0 && world.now_us >= person->finds_us && !person->proposed &&
        person->recorded_us < 0 && !rcmi_proposals_are_open(person->proposals))
        person_find(rank);
    (void)rcmi_proposals_progress(person->proposals);
    person_read(rank);
    if (draw(2))
        (void)rcmi_proposals_progress(person->proposals);
}

static bool is_over(void) {
    for (int r = 0; r < world.n; r++)
        if (world.person[r].recorded_us < 0 && world.person[r].resumes_us < END_US)
            return false;
    return true;
}

static void world_run(void) {
    for (world.now_us = 0; world.now_us < END_US && !is_over(); world.now_us += STEP_US) {
        const int first = draw(world.n);
        for (int k = 0; k < world.n; k++)
            person_turn((first + k) % world.n);
        letters_drop_read();
    }
}

static int complain(uint64_t seed, int rank, const char *what) {
    const struct person *person = &world.person[rank];
    printf("FAIL seed %llu, %d ranks: rank %d %s: origin %d at %.1f ms, late at %.1f ms, away from "
           "%.1f to %.1f ms\n",
           (unsigned long long)seed, world.n, rank, what, person->origin,
           (double)person->recorded_us / 1e3, (double)person->finds_us / 1e3,
           (double)person->stalls_us / 1e3, (double)person->resumes_us / 1e3);
    return 1;
}

static struct {
    int decided, reproposed; /* rounds with a decision; ... after several proposals */
} tally;

/* ---- Without time --------------------------------------------------------------------------- */

static void adrift_plan(void) {
    world.adrift = true;
    for (int r = 0; r < world.n; r++) {
        struct person *person = &world.person[r];
        person->acts_left = draw(3) ? ACTS : draw(ACTS / 4);
        for (int other = 0; other < world.n; other++) {
            world.fast[r][other] = draw(3) > 0;
            person->silent[other] = draw(3) == 0;
        }
    }
}

/* Its clock passes any of its deadlines, but not the last one. */
static void adrift_clock(struct person *person, int64_t opened_until) {
    const int64_t jump = draw(4) ? draw(10000) : draw(160000);
    const int64_t stop = person->stops_us < opened_until ? person->stops_us : opened_until;
    if (person->clock_us + jump < stop)
        person->clock_us += jump;
}

static void adrift_read(int rank, int from) {
    struct person *person = &world.person[rank];
    for (int i = 0; i < world.nletters; i++) {
        struct letter *letter = &world.letters[i];
        if (letter->to != rank || letter->from != from)
            continue;
        const struct rcmi_failure failure = letter->failure;
        if (failure.kind == RCMI_FAILURE_RECORD && draw(20) > 0)
            return; /* the decision has long been lost for others, which continue */
        if (failure.kind != RCMI_FAILURE_PROMISE || draw(3) > 0)
            letter->to = -1;
        if (failure.ballot > person->ballot)
            person->stops_us = INT64_MAX; /* its ballot is over */
        letter_read(rank, from, &failure);
        return;
    }
}

/* One action of its loop thread. */
static void adrift_act(int rank, int64_t *opened_until) {
    struct person *person = &world.person[rank];
    const int from = draw(world.n);
    if (person->acts_left-- <= 0)
        return;
    world.acting = rank;
    if (draw(2)) {
        if (world.fast[from][rank] || draw(20) == 0)
            adrift_read(rank, from);
    } else if (!person->proposed && person->recorded_us < 0 && draw(20) == 0 &&
               !rcmi_proposals_are_open(person->proposals)) {
        person_propose(person);
    } else {
        adrift_clock(person, *opened_until);
        (void)rcmi_proposals_progress(person->proposals);
    }
    if (*opened_until == INT64_MAX && rcmi_proposals_are_open(person->proposals))
        *opened_until = person->clock_us + LIMIT_US;
}

static void adrift_run(void) {
    int64_t opened_until[RANKS_MAX];
    for (int r = 0; r < world.n; r++)
        world.person[r].stops_us = opened_until[r] = INT64_MAX;
    for (int acts = 0; acts < ACTS && world.nletters < LETTERS_MAX / 2; acts++) {
        const int rank = draw(world.n);
        adrift_act(rank, &opened_until[rank]);
        letters_drop_read();
    }
}

/* Judges the ranks that received a decision. */
static int adrift_judge(uint64_t seed) {
    int errors = 0, origin = -1;
    for (int r = 0; r < world.n; r++) {
        const struct person *person = &world.person[r];
        if (person->recorded_us < 0)
            continue;
        if (origin < 0)
            origin = person->origin;
        if (person->origin != origin)
            errors += complain(seed, r, "names another rank");
        if (!world.person[person->origin].proposed)
            errors += complain(seed, r, "names a rank that no rank found");
    }
    tally.decided += origin >= 0;
    tally.reproposed += origin >= 0 && world.reproposed;
    return errors;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static void world_make(uint64_t seed) {
    memset(&world, 0, sizeof(world));
    world.random = seed;
    world.n = 2 + (int)(seed % (RANKS_MAX - 1));
    for (int r = 0; r < world.n; r++) {
        struct person *person = &world.person[r];
        person->node.rank = world_rank[r] = r;
        person->recorded_us = person->finds_us = -1;
        person->members = (struct rcmi_members){.rank = r,
                                                .size = world.n,
                                                .epoch = EPOCH,
                                                .world_rank = world_rank,
                                                .node = &person->node};
        const struct rcmi_proposals_config config = {.members = &person->members,
                                                     .arg = person,
                                                     .failed = person_failed,
                                                     .send_record = person_tell,
                                                     .silent = person_finds_silent,
                                                     .agreed = person_fail};
        if (rcmi_proposals_create(&config, &person->proposals) != RCM_OK)
            abort();
    }
}

static void world_free(void) {
    for (int r = 0; r < world.n; r++)
        rcmi_proposals_free(world.person[r].proposals);
}

/* Late within some milliseconds, or far apart, or not late; at least one is late. */
static void plan_findings(void) {
    const int apart_us = draw(2) ? 5000 : draw(2) ? 60000 : 500000;
    const int one = draw(world.n);
    for (int r = 0; r < world.n; r++)
        if (r == one || draw(4) > 0)
            world.person[r].finds_us = INQUIRY_US + draw(apart_us);
}

/* One rank never runs again, and perhaps another one. */
static void plan_stops(void) {
    for (int k = draw(2); k >= 0 && world.n > 2; k--) {
        struct person *person = &world.person[draw(2) ? k : draw(world.n)];
        person->stalls_us = 0;
        person->resumes_us = END_US;
        person->finds_us = -1;
    }
    int late = 0;
    for (int r = 0; r < world.n; r++)
        late += world.person[r].finds_us >= 0;
    for (int r = world.n - 1; r >= 0 && late == 0; r--)
        if (world.person[r].resumes_us == 0) {
            world.person[r].finds_us = INQUIRY_US;
            late = 1;
        }
}

/* Some ranks do not run for a while with a random end; the lowest more often than others. */
static void plan_stalls(void) {
    for (int r = 0; r < world.n; r++) {
        if (draw(r < 2 ? 2 : 4) > 0)
            continue;
        world.person[r].stalls_us = draw(2) ? 0 : draw(INQUIRY_US + 300000);
        world.person[r].resumes_us = world.person[r].stalls_us + draw(1100000);
    }
}

static bool was_stalled(const struct person *person) {
    return person->resumes_us > person->stalls_us;
}

/* A rank that can always run must be in time, if the others can run, too. */
static int judge(uint64_t seed, bool in_time) {
    int errors = 0, origin = -1;
    for (int r = 0; r < world.n; r++) {
        const struct person *person = &world.person[r];
        if (person->resumes_us >= END_US)
            continue;
        if (person->recorded_us < 0) {
            errors += complain(seed, r, "never gets the decision");
            continue;
        }
        if (origin < 0)
            origin = person->origin;
        if (person->origin != origin)
            errors += complain(seed, r, "names another rank");
        if (world.person[person->origin].finds_us < 0)
            errors += complain(seed, r, "names a rank that no rank found");
        if (in_time && person->finds_us >= 0 && !was_stalled(person) &&
            person->recorded_us > person->finds_us + IN_TIME_US)
            errors += complain(seed, r, "gets the decision too late");
    }
    return errors;
}

static int round_run(const char *what, uint64_t seed) {
    world_make(seed);
    if (strcmp(what, "adrift") == 0) {
        adrift_plan();
        adrift_run();
        const int errors = adrift_judge(seed);
        world_free();
        return errors;
    }
    plan_findings();
    if (strcmp(what, "stopped") == 0)
        plan_stops();
    if (strcmp(what, "stalled") == 0)
        plan_stalls();
    world_run();
    const int errors = judge(seed, strcmp(what, "stalled") != 0);
    world_free();
    return errors;
}

static int rounds_run(const char *what, int seconds, uint64_t seed) {
    const int64_t end = time(NULL) + seconds;
    const int least = seconds > 0 ? 200 : 1;
    int errors = 0, rounds = 0;
    for (; errors == 0 && (rounds < least || time(NULL) < end); seed++, rounds++)
        errors = round_run(what, seed);
    printf("%s %s: %d rounds\n", errors ? "FAIL" : "ok  ", what, rounds);
    if (errors || rounds == 1 || strcmp(what, "adrift") != 0)
        return errors;
    printf("     decided in %d, after several proposals in %d\n", tally.decided, tally.reproposed);
    return tally.decided < rounds / 10 || tally.reproposed < rounds / 50;
}

int main(int argc, char **argv) {
    static const char *const names[] = {"together", "stopped", "stalled", "adrift"};
    for (int i = 0; i < 4 && argc > 1 && argc < 5; i++)
        if (strcmp(argv[1], names[i]) == 0)
            return rounds_run(names[i], argc > 2 ? atoi(argv[2]) : 2,
                              argc > 3 ? strtoull(argv[3], NULL, 0) : 1) != 0;
    fprintf(stderr,
            "usage: timeout_cause_model together|stopped|stalled|adrift [SECONDS [SEED]]\n");
    return 2;
}
