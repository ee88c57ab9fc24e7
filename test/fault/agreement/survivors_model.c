/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The agreement of api/agreement/survivors.c in a world of threads: n ranks in one process; a
 * network that delivers in random order, but in order between two ranks; ranks that die at any of
 * their sends, with or without their last messages, or at any other moment. Conditions in every
 * round:
 *
 *   survivors_model deaths [SECONDS [SEED]]
 *        all survivors get the same set, which contains all of them
 *   survivors_model cuts [SECONDS [SEED]]
 *        two ranks cannot reach each other any more: every rank that gets a set gets the same one
 *        and is in it, and all ranks in it get it
 *   survivors_model late
 *        all ranks name the one that does not call, and the next call succeeds
 *
 * With a seed, one round. Real processes and links: shrink.c.
 */
#include "agreement.h"
#include "../random.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MAX 9
#define EPOCH     77u

struct rcmi_node {
    int rank;
};

struct letter {
    struct letter *next;
    size_t len;
    char bytes[];
};

/* All protected by lock. */
static struct {
    pthread_mutex_t lock;
    int n;
    uint64_t random;
    struct letter *head[RANKS_MAX][RANKS_MAX], **tail[RANKS_MAX][RANKS_MAX]; /* from, to */
    bool dead[RANKS_MAX];
    bool cut[RANKS_MAX][RANKS_MAX];
    bool ended[RANKS_MAX][RANKS_MAX]; /* as the first rank sees it */
    int sends_left[RANKS_MAX];        /* until it dies; -1: no death by this */
    int delivered;
    int dies_at[RANKS_MAX]; /* deliveries to any rank until it dies; -1: no death by this */
    bool delivering;        /* a letter or an end is being delivered */
    bool over;
} net;

static struct rcmi_node nodes[RANKS_MAX];
static struct rcmi_agreements *agreements[RANKS_MAX];
static struct rcmi_members members[RANKS_MAX];
static uint32_t number[RANKS_MAX]; /* number of the last agreement */
static int world_rank[RANKS_MAX];

static int draw(int below) {
    return (int)(random_next(&net.random) % (uint64_t)below);
}

/* ---- The network, under its lock ------------------------------------------------------------ */

static void queue_cut(int from, int to, int keep) {
    struct letter **at = &net.head[from][to];
    for (; *at && keep > 0; keep--)
        at = &(*at)->next;
    while (*at) {
        struct letter *letter = *at;
        *at = letter->next;
        free(letter);
    }
    net.tail[from][to] = at;
}

static void rank_die(int rank) {
    net.dead[rank] = true;
    for (int r = 0; r < net.n; r++)
        if (draw(2))
            queue_cut(rank, r, draw(3)); /* the rest is lost */
}

static void queue_put(int from, int to, const void *bytes, size_t len) {
    struct letter *letter = malloc(sizeof(*letter) + len);
    if (!letter)
        abort();
    letter->next = NULL;
    letter->len = len;
    memcpy(letter->bytes, bytes, len);
    *net.tail[from][to] = letter;
    net.tail[from][to] = &letter->next;
}

/* ---- What survivors.c uses of the node
 * ----------------------------------------------------------- */

rcm_status rcmi_node_send(struct rcmi_node *node, int peer, const void *bytes, size_t len) {
    const int from = node->rank;
    pthread_mutex_lock(&net.lock);
    if (!net.dead[from] && net.sends_left[from] == 0)
        rank_die(from);
    if (net.sends_left[from] > 0)
        net.sends_left[from]--;
    if (!net.dead[from] && !net.cut[from][peer])
        queue_put(from, peer, bytes, len);
    const bool yield = draw(4) == 0;
    pthread_mutex_unlock(&net.lock);
    if (yield)
        sched_yield();
    return RCM_OK;
}

/* For a dead rank all others are gone, so that its thread ends. */
bool rcmi_node_gone(const struct rcmi_node *node, int peer) {
    pthread_mutex_lock(&net.lock);
    const bool gone = net.ended[node->rank][peer] || net.dead[node->rank];
    pthread_mutex_unlock(&net.lock);
    return gone;
}

rcm_status rcmi_node_probe(const struct rcmi_node *node, int peer, rcmi_deadline deadline) {
    (void)deadline;
    pthread_mutex_lock(&net.lock);
    const bool alive = !net.dead[peer] && !net.dead[node->rank];
    pthread_mutex_unlock(&net.lock);
    return alive ? RCM_OK : RCM_ERR_PEER;
}

static void ignore_revocation(void *arg, uint64_t epoch, int origin) {
    (void)arg;
    (void)epoch;
    (void)origin;
}

int rcmi_members_rank(const struct rcmi_members *of, int world) {
    return world < of->size ? world : -1;
}

const char *rcmi_members_describe(const struct rcmi_members *of, int rank,
                                  char text[RCMI_WHO_TEXT]) {
    (void)of;
    snprintf(text, RCMI_WHO_TEXT, "rank %d", rank);
    return text;
}

/* ---- The network's thread -------------------------------------------------------------------- */

/* Whether the end of a link that one side has not seen yet may be delivered: nothing else is left.
 * Some ranks see it much later than others. */
static bool link_may_end(int from, int to) {
    return (net.dead[from] || net.cut[from][to]) && !net.head[from][to] && !net.ended[to][from] &&
           draw(16) == 0;
}

/* Kills the ranks whose time has come, whatever they are doing. */
static void network_kill(void) {
    for (int r = 0; r < net.n; r++)
        if (!net.dead[r] && net.dies_at[r] >= 0 && net.delivered >= net.dies_at[r])
            rank_die(r);
}

/* Delivers one event between a random pair of ranks; false if there is none. */
static bool network_turn(void) {
    pthread_mutex_lock(&net.lock);
    network_kill();
    const int pairs = net.n * net.n, start = draw(pairs);
    struct letter *letter = NULL;
    int from = 0, to = 0;
    bool ended = false;
    for (int k = 0; k < pairs && !letter && !ended; k++) {
        from = (start + k) % pairs / net.n;
        to = (start + k) % net.n;
        if (from == to || net.dead[to])
            continue;
        letter = net.head[from][to];
        if (letter) {
            net.head[from][to] = letter->next;
            if (!letter->next)
                net.tail[from][to] = &net.head[from][to];
            net.delivered++;
        } else if (link_may_end(from, to)) {
            ended = net.ended[to][from] = true;
        }
    }
    net.delivering = letter || ended;
    pthread_mutex_unlock(&net.lock);
    struct rcmi_agree message;
    if (letter && rcmi_agree_decode(letter->bytes, letter->len, &message))
        rcmi_agree_receive(agreements[to], from, &message);
    else if (letter)
        abort();
    if (ended)
        rcmi_agree_wake(agreements[to]);
    free(letter);
    return letter || ended;
}

/* Waits until all sent letters are delivered. */
static void network_settle(void) {
    for (bool settled = false; !settled;) {
        usleep(100);
        pthread_mutex_lock(&net.lock);
        settled = !net.delivering;
        for (int i = 0; i < net.n * net.n; i++)
            settled = settled && !net.head[i / net.n][i % net.n];
        pthread_mutex_unlock(&net.lock);
    }
}

static void *network_run(void *arg) {
    (void)arg;
    for (bool over = false; !over;) {
        if (!network_turn())
            usleep(20);
        pthread_mutex_lock(&net.lock);
        over = net.over;
        pthread_mutex_unlock(&net.lock);
    }
    return NULL;
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

struct caller {
    int rank, delay_us;
    int64_t timeout_ms;
    pthread_t thread;
    rcm_status status;
    int origin, nmembers, members[RANKS_MAX];
    uint64_t epoch;
    char text[200];
};

static bool nobody_left(void *arg, int rank) {
    (void)arg;
    (void)rank;
    return false;
}

static void *caller_run(void *arg) {
    struct caller *caller = arg;
    usleep((useconds_t)caller->delay_us);
    const struct rcmi_agree_call call = {.members = &members[caller->rank],
                                         .number = &number[caller->rank],
                                         .deadline = rcmi_deadline_in(caller->timeout_ms),
                                         .left = nobody_left};
    caller->status = rcmi_agree(agreements[caller->rank], &call, caller->members, &caller->nmembers,
                                &caller->epoch);
    caller->origin = rcmi_last_error()->origin;
    if (caller->status != RCM_OK)
        snprintf(caller->text, sizeof(caller->text), "%.190s", rcm_last_error());
    return NULL;
}

static void world_make(int n, uint64_t seed) {
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    memset(&net, 0, sizeof(net));
    net.lock = lock;
    net.n = n;
    net.random = seed;
    for (int r = 0; r < n; r++) {
        world_rank[r] = r;
        nodes[r].rank = r;
        net.sends_left[r] = net.dies_at[r] = -1;
        for (int k = 0; k < n; k++)
            net.tail[r][k] = &net.head[r][k];
        const struct rcmi_agreements_config config = {
            .node = &nodes[r], .rank = r, .nranks = n, .revoke = ignore_revocation};
        members[r] = (struct rcmi_members){
            .rank = r, .size = n, .epoch = EPOCH, .world_rank = world_rank, .node = &nodes[r]};
        number[r] = 0;
        if (rcmi_agreements_create(&config, &agreements[r]) != RCM_OK)
            abort();
    }
}

static void world_free(void) {
    for (int r = 0; r < net.n; r++) {
        rcmi_agreements_free(agreements[r]);
        for (int k = 0; k < net.n; k++)
            queue_cut(r, k, 0);
    }
}

static void caller_start(struct caller *caller, int rank, int64_t timeout_ms, int delay_us) {
    *caller = (struct caller){.rank = rank, .timeout_ms = timeout_ms, .delay_us = delay_us};
    if (pthread_create(&caller->thread, NULL, caller_run, caller) != 0)
        abort();
}

static void callers_start(struct caller *callers, int n, int64_t timeout_ms) {
    int delay_us[RANKS_MAX];
    pthread_mutex_lock(&net.lock);
    for (int r = 0; r < n; r++)
        delay_us[r] = draw(500);
    pthread_mutex_unlock(&net.lock);
    for (int r = 0; r < n; r++)
        caller_start(&callers[r], r, timeout_ms, delay_us[r]);
}

static void callers_join(struct caller *callers, int n) {
    for (int r = 0; r < n; r++)
        pthread_join(callers[r].thread, NULL);
}

static pthread_t network_start(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, network_run, NULL) != 0)
        abort();
    return thread;
}

static void network_stop(pthread_t thread) {
    pthread_mutex_lock(&net.lock);
    net.over = true;
    pthread_mutex_unlock(&net.lock);
    pthread_join(thread, NULL);
}

/* ---- Verdicts -------------------------------------------------------------------------------- */

static bool caller_has(const struct caller *caller, int rank) {
    for (int i = 0; i < caller->nmembers; i++)
        if (caller->members[i] == rank)
            return true;
    return false;
}

static bool same_answer(const struct caller *a, const struct caller *b) {
    return a->epoch == b->epoch && a->nmembers == b->nmembers &&
           memcmp(a->members, b->members, (size_t)a->nmembers * sizeof(a->members[0])) == 0;
}

static int complain(const struct caller *caller, uint64_t seed, const char *what) {
    printf("FAIL seed %llu, %d ranks: rank %d %s: %s %s, %d members\n", (unsigned long long)seed,
           net.n, caller->rank, what, rcm_status_name(caller->status), caller->text,
           caller->nmembers);
    return 1;
}

static int judge_deaths(const struct caller *callers, uint64_t seed) {
    const struct caller *first = NULL;
    int errors = 0;
    for (int r = 0; r < net.n; r++) {
        if (net.dead[r])
            continue;
        if (callers[r].status != RCM_OK)
            errors += complain(&callers[r], seed, "survives and fails");
        else if (!first)
            first = &callers[r];
        else if (!same_answer(first, &callers[r]))
            errors += complain(&callers[r], seed, "has another answer");
        for (int k = 0; callers[r].status == RCM_OK && k < net.n; k++)
            if (!net.dead[k] && !caller_has(&callers[r], k))
                errors += complain(&callers[r], seed, "leaves out a survivor");
    }
    return errors;
}

static int judge_cuts(const struct caller *callers, uint64_t seed) {
    const struct caller *first = NULL;
    int errors = 0;
    for (int r = 0; r < net.n; r++)
        if (callers[r].status == RCM_OK && !first)
            first = &callers[r];
    if (!first)
        return complain(&callers[0], seed, "fails like all others");
    if (first->nmembers < net.n - 1)
        errors += complain(first, seed, "has too few");
    for (int r = 0; r < net.n; r++) {
        if ((callers[r].status == RCM_OK) != caller_has(first, r))
            errors += complain(&callers[r], seed, "is in and fails, or is out and succeeds");
        else if (callers[r].status == RCM_OK && !same_answer(first, &callers[r]))
            errors += complain(&callers[r], seed, "has another answer");
        else if (callers[r].status != RCM_OK && callers[r].status != RCM_ERR_PEER)
            errors += complain(&callers[r], seed, "is out with a wrong status");
    }
    return errors;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

/* A death at some send or delivery; of rank 0 more often than of others. */
static void plan_deaths(int n) {
    for (int r = 0; r < n; r++)
        if (draw(r < 2 ? 2 : 5) == 0)
            (draw(2) ? net.sends_left : net.dies_at)[r] = draw(2 * n);
    const int lives = draw(n);
    net.sends_left[lives] = net.dies_at[lives] = -1;
}

static void wait_delivered(int count) {
    for (int delivered = 0, tries = 0; delivered < count && tries < 200; tries++) {
        usleep(50);
        pthread_mutex_lock(&net.lock);
        delivered = net.delivered;
        pthread_mutex_unlock(&net.lock);
    }
}

static int round_deaths(uint64_t seed) {
    struct caller callers[RANKS_MAX];
    world_make(2 + (int)(seed % (RANKS_MAX - 1)), seed);
    plan_deaths(net.n);
    const int before = draw(4) ? 0 : draw(net.n); /* ranks that have died before */
    for (int r = 0; r < before; r++)
        if (net.sends_left[r] >= 0)
            rank_die(r);
    const pthread_t network = network_start();
    callers_start(callers, net.n, 30000);
    callers_join(callers, net.n);
    network_stop(network);
    const int errors = judge_deaths(callers, seed);
    world_free();
    return errors;
}

static int round_cuts(uint64_t seed) {
    struct caller callers[RANKS_MAX];
    /* Of two ranks, one may have decided while the other received nothing; then only the other gets
     * the error. */
    world_make(3 + (int)(seed % (RANKS_MAX - 2)), seed);
    const int a = draw(net.n), b = (a + 1 + draw(net.n - 1)) % net.n;
    const int when = draw(2) ? 0 : draw(3 * net.n);
    const pthread_t network = network_start();
    callers_start(callers, net.n, 30000);
    wait_delivered(when);
    pthread_mutex_lock(&net.lock);
    net.cut[a][b] = net.cut[b][a] = true;
    queue_cut(a, b, draw(2));
    queue_cut(b, a, draw(2));
    pthread_mutex_unlock(&net.lock);
    callers_join(callers, net.n);
    network_stop(network);
    const int errors = judge_cuts(callers, seed);
    world_free();
    return errors;
}

/* Rank `late` does not call before the others' deadline has passed. */
static int late_first(struct caller *callers, int n, int late) {
    int errors = 0;
    for (int r = 0; r < n; r++)
        if (r != late)
            caller_start(&callers[r], r, 300, 0);
    for (int r = 0; r < n; r++)
        if (r != late)
            pthread_join(callers[r].thread, NULL);
    /* A rank that calls before it has received that the others gave up counts on them, and finds
     * out later. */
    network_settle();
    for (int r = 0; r < n; r++)
        if (r != late && (callers[r].status != RCM_ERR_TIMEOUT || callers[r].origin != late))
            errors += complain(&callers[r], 0, "does not name the late rank");
    return errors;
}

/* Then it calls without success, and then all call; or all at once. */
static int round_late(int n, int late, bool in_vain) {
    struct caller callers[RANKS_MAX];
    world_make(n, (uint64_t)n);
    const pthread_t network = network_start();
    int errors = late_first(callers, n, late);
    if (in_vain) {
        caller_start(&callers[late], late, 300, 0);
        pthread_join(callers[late].thread, NULL);
        if (callers[late].status != RCM_ERR_TIMEOUT)
            errors += complain(&callers[late], 0, "is late but gets no timeout");
    }
    for (int r = 0; r < n; r++)
        caller_start(&callers[r], r, 20000, r == late ? 100000 : 0);
    callers_join(callers, n);
    network_stop(network);
    errors += judge_deaths(callers, 0);
    world_free();
    return errors;
}

/* It calls, and waits for the others in the agreement that they have given up. */
static int round_behind(int n) {
    struct caller callers[RANKS_MAX];
    world_make(n, (uint64_t)n);
    const pthread_t network = network_start();
    int errors = late_first(callers, n, 0);
    for (int r = 0; r < n; r++)
        caller_start(&callers[r], r, 20000, r == 0 ? 0 : 100000);
    callers_join(callers, n);
    network_stop(network);
    errors += judge_deaths(callers, 0);
    world_free();
    return errors;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    struct timespec t;
    int errors = 0, rounds = 0;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)t.tv_nsec;
    const int64_t end = rcmi_now_ns() + (argc > 2 ? atoi(argv[2]) : 4) * INT64_C(1000000000);
    printf("%s, seed %llu\n", what, (unsigned long long)seed);
    if (strcmp(what, "late") == 0) {
        errors = round_late(4, 0, true) + round_late(4, 0, false) + round_late(4, 2, true) +
                 round_late(2, 1, true) + round_behind(3);
        rounds = 5;
    } else if (strcmp(what, "deaths") != 0 && strcmp(what, "cuts") != 0) {
        fprintf(stderr, "usage: survivors_model deaths|cuts|late [SECONDS [SEED]]\n");
        return 2;
    }
    const bool random = strcmp(what, "late") != 0;
    for (; random && (rounds == 0 || argc <= 3) && rcmi_now_ns() < end && errors == 0;
         rounds++, seed++)
        errors += strcmp(what, "deaths") == 0 ? round_deaths(seed) : round_cuts(seed);
    printf("%d rounds, %d errors\n", rounds, errors);
    return errors ? 1 : 0;
}
