/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The origin that is named when operations time out and no rank is dead. Ranks are threads:
 *     late_rank shm|tcp
 */
#include "ringcomm.h"
#include "cpu_starvation.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RANKS = 4, LATE_MS = 500, TURNS = 4 };

struct scene {
    const char *name;
    int origin; /* the rank that must be named; -1: any, but all the same */
    /* The rank's part in it. */
    rcm_status (*act)(rcm_comm *comm, int rank, const struct rcm_call *call);
    const char *words; /* in the text */
    uint32_t missing;  /* from the monitored barrier, one bit per rank */
};

static rcm_status recv_from(rcm_comm *comm, int src, const struct rcm_call *call) {
    int value;
    return rcm_recv(comm, &value, 1, RCM_INT32, src, 1, call, NULL);
}

/* Calls nothing until the others have given up. */
static rcm_status stay_away(rcm_comm *comm) {
    struct rcm_error error = RCM_ERROR_INIT;
    const struct timespec ms = {0, 1000000};
    for (int i = 0; i < 60000 && rcm_comm_error(comm, &error) == RCM_OK; i++)
        nanosleep(&ms, NULL);
    return error.status;
}

/* 0 waits for 1, 1 for 2, 2 for 3, and 3 is in no operation. */
static rcm_status act_chain(rcm_comm *comm, int rank, const struct rcm_call *call) {
    return rank == RANKS - 1 ? stay_away(comm) : recv_from(comm, rank + 1, call);
}

/* One rank does not come; with the fewest messages between the others. */
static rcm_status act_absent(rcm_comm *comm, int rank, const struct rcm_call *call) {
    float data[1000] = {0};
    if (rank == 2)
        return stay_away(comm);
    return rcm_all_reduce(comm, data, data, 1000, RCM_FLOAT32, RCM_SUM, call, NULL);
}

static rcm_status act_absent_async(rcm_comm *comm, int rank, const struct rcm_call *call) {
    rcm_work *works[3] = {NULL};
    rcm_status status = RCM_OK;
    if (rank == 1)
        return stay_away(comm);
    for (int i = 0; i < 3 && status == RCM_OK; i++)
        status = rcm_barrier(comm, call, &works[i]);
    status = stay_away(comm); /* the library's own thread finds the timeout */
    for (int i = 0; i < 3; i++)
        rcm_work_free(works[i]);
    return status;
}

/* The same for an operation that has not started: too many earlier ones are pending. */
static rcm_status act_absent_queued(rcm_comm *comm, int rank, const struct rcm_call *call) {
    enum { QUEUED = 200 };
    static float data[RANKS];
    rcm_work *works[QUEUED] = {NULL};
    rcm_status status = RCM_OK;
    if (rank == 1)
        return stay_away(comm);
    for (int i = 0; i < QUEUED && status == RCM_OK; i++)
        status = rcm_all_reduce(comm, &data[rank], &data[rank], 1, RCM_FLOAT32, RCM_SUM,
                                i == QUEUED - 1 ? call : NULL, &works[i]);
    status = status == RCM_OK ? rcm_work_wait(works[QUEUED - 1], -1) : status;
    for (int i = 0; i < QUEUED; i++)
        rcm_work_free(works[i]);
    return status;
}

/* Each waits for the next one. */
static rcm_status act_circle(rcm_comm *comm, int rank, const struct rcm_call *call) {
    return recv_from(comm, (rank + 1) % RANKS, call);
}

/* The same between two ranks, while the others wait for them. A circle has no start: a rank that
 * queries only along the circle finds another situation than one that queries all. */
static rcm_status act_pair(rcm_comm *comm, int rank, const struct rcm_call *call) {
    float data[1000] = {0};
    if (rank >= RANKS / 2)
        return recv_from(comm, rank ^ 1, call);
    return rcm_all_reduce(comm, data, data, 1000, RCM_FLOAT32, RCM_SUM, call, NULL);
}

/* ---- Missing from a monitored barrier: bit r of `away` is set, rank r does not come. Of these,
 * odd ranks wait for one that is there. */

static rcm_status monitored(rcm_comm *comm, int rank, uint32_t away, uint32_t flags,
                            const struct rcm_call *call) {
    if (away >> rank & 1)
        return rank % 2 ? recv_from(comm, 2, NULL) : stay_away(comm);
    return rcm_monitored_barrier(comm, flags, call, NULL);
}

static rcm_status act_missing_0(rcm_comm *comm, int rank, const struct rcm_call *call) {
    return monitored(comm, rank, 1u << 0, 0, call);
}

static rcm_status act_missing_some(rcm_comm *comm, int rank, const struct rcm_call *call) {
    return monitored(comm, rank, 1u << 0 | 1u << 1, 0, call);
}

static rcm_status act_missing_most(rcm_comm *comm, int rank, const struct rcm_call *call) {
    return monitored(comm, rank, 1u << 0 | 1u << 1 | 1u << 3, 0, call);
}

static rcm_status act_missing_first(rcm_comm *comm, int rank, const struct rcm_call *call) {
    return monitored(comm, rank, 1u << 1 | 1u << 3, RCM_FIRST_MISSING, call);
}

/* It has not started, since an earlier operation waits for the same rank. */
static rcm_status act_missing_queued(rcm_comm *comm, int rank, const struct rcm_call *call) {
    static float data[RANKS];
    rcm_work *before = NULL, *work = NULL;
    if (rank == 1)
        return stay_away(comm);
    rcm_status status =
        rcm_all_reduce(comm, &data[rank], &data[rank], 1, RCM_FLOAT32, RCM_SUM, NULL, &before);
    if (status == RCM_OK)
        status = rcm_monitored_barrier(comm, 0, call, &work);
    if (status == RCM_OK)
        status = rcm_work_wait(work, -1);
    rcm_work_free(before);
    rcm_work_free(work);
    return status;
}

static const struct scene scenes[] = {
    {"chain", 3, act_chain, "in no operation", 0},
    {"absent", 2, act_absent, "in no operation", 0},
    {"absent, asynchronous", 1, act_absent_async, "in no operation", 0},
    {"absent, queued", 1, act_absent_queued, "all_reduce number 201", 0},
    {"circle", -1, act_circle, "wait for each other", 0},
    {"pair", -1, act_pair, "rank", 0},
    {"missing rank 0", 0, act_missing_0, ": rank 0 is missing: rank 0 (pid ", 1u << 0},
    {"missing some", -1, act_missing_some, " is in recv from rank 2 (tag 1)", 1u << 0 | 1u << 1},
    {"missing all but one", -1, act_missing_most, ": ranks 0, 1, 3 are missing: rank 0 (pid ",
     1u << 0 | 1u << 1 | 1u << 3},
    {"missing, first", 1, act_missing_first, ": rank 1 is missing: rank 1 (pid ", 1u << 1},
    {"missing, queued", 1, act_missing_queued, "monitored_barrier number 3", 1u << 1},
};

/* ---- Ranks ---------------------------------------------------------------------------------- */

struct player {
    const struct scene *scene;
    const char *transport;
    rcm_store *store;
    int rank;
    int64_t late_ms;
    pthread_t thread;
    int64_t queued_ns; /* time that all threads queued for a processor during this operation */
    rcm_status status, recorded, destroyed;
    int origin;
    uint32_t missing;
    char text[512];
};

static uint32_t missing_from(const rcm_comm *comm) {
    int ranks[RANKS];
    size_t count = 0;
    uint32_t missing = 0;
    if (rcm_comm_missing(comm, ranks, RANKS, &count) != RCM_OK || count > RANKS)
        abort();
    for (size_t i = 0; i < count; i++)
        missing |= 1u << ranks[i];
    return missing;
}

static void *player_run(void *arg) {
    struct player *player = arg;
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    struct rcm_error error = RCM_ERROR_INIT;
    struct rcm_call call = RCM_CALL_INIT;
    rcm_comm *comm;
    options.rank = player->rank;
    options.world_size = RANKS;
    options.store = player->store;
    options.transport = player->transport;
    options.timeout_ms = 60000;
    call.timeout_ms = player->late_ms;
    player->status = rcm_init(&options, &comm);
    if (player->status == RCM_OK) /* all ranks are linked and have started */
        player->status = rcm_barrier(comm, NULL, NULL);
    if (player->status != RCM_OK) {
        fprintf(stderr, "rank %d: %s\n", player->rank, rcm_last_error());
        return NULL;
    }
    struct strain before = {0}, after = {0};
    strain_add(&before, 0);
    player->status = player->scene->act(comm, player->rank, &call);
    strain_add(&after, 0);
    player->queued_ns = strain_excuse(&before, &after);
    player->recorded = rcm_comm_error(comm, &error);
    player->origin = error.origin;
    player->missing = missing_from(comm);
    if (player->missing != 0 && rcm_monitored_barrier(comm, 0, NULL, NULL) != RCM_ERR_TIMEOUT)
        abort();
    memcpy(player->text, error.text, sizeof(player->text));
    player->destroyed = rcm_destroy(comm);
    return NULL;
}

static bool player_is_right(const struct player *player, int origin) {
    return player->status == RCM_ERR_TIMEOUT && player->recorded == RCM_ERR_TIMEOUT &&
           player->destroyed == RCM_ERR_TIMEOUT && player->origin == origin &&
           player->missing == player->scene->missing && strstr(player->text, player->scene->words);
}

static int scene_run_once(const struct scene *scene, const char *transport, int64_t late_ms,
                          int64_t *ret_queued_ns) {
    struct player players[RANKS];
    rcm_store *store;
    int errors = 0;
    if (rcm_store_open("hash:", 1000, &store) != RCM_OK)
        abort();
    for (int r = 0; r < RANKS; r++) {
        players[r] = (struct player){.scene = scene,
                                     .transport = transport,
                                     .store = store,
                                     .rank = r,
                                     .late_ms = late_ms,
                                     .origin = -1};
        if (pthread_create(&players[r].thread, NULL, player_run, &players[r]) != 0)
            abort();
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(players[r].thread, NULL);
    rcm_store_close(store);
    const int origin = scene->origin >= 0 ? scene->origin : players[0].origin;
    for (int r = 0; r < RANKS; r++) {
        const bool right = origin >= 0 && player_is_right(&players[r], origin);
        printf("%s %s over %s: rank %d: %s, origin %d: %s\n", right ? "ok  " : "FAIL", scene->name,
               transport, r, rcm_status_name(players[r].status), players[r].origin,
               players[r].text);
        errors += !right;
        if (*ret_queued_ns < players[r].queued_ns)
            *ret_queued_ns = players[r].queued_ns;
    }
    return errors;
}

/* A rank needs a processor to do what the report expects of it; without, the scene runs once more,
 * with more time. */
static int scene_run(const struct scene *scene, const char *transport) {
    int64_t late_ms = LATE_MS;
    for (int turn = 1;; turn++, late_ms *= 2) {
        int64_t queued_ns = 0;
        const int errors = scene_run_once(scene, transport, late_ms, &queued_ns);
        if (errors == 0 || turn == TURNS || queued_ns / 1000000 < late_ms / 2)
            return errors;
        printf("queued %lld ms for a processor; repeating\n", (long long)queued_ns / 1000000);
    }
}

int main(int argc, char **argv) {
    int errors = 0;
    if (argc != 2) {
        fprintf(stderr, "usage: late_rank shm|tcp\n");
        return 2;
    }
    setenv("RINGCOMM_LOG", "error", 0);
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
        errors += scene_run(&scenes[i], argv[1]);
    return errors ? 1 : 0;
}
