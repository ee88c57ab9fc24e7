/* SPDX-License-Identifier: BSD-3-Clause */
/* An episode: a world with its ranks, transport, hosts and settings; its threads; its end. */
#include "cuda_driver.h"
#include "../coll/ranks.h"
#include "../sanitized.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = TEST_SANITIZED ? 30 : 50, DEADLINE_MS = 40000 };

static struct driver drivers[RANKS_MAX][THREADS_MAX];

/* ---- Its parameters -------------------------------------------------------------------------- */

static const struct {
    const char *transport;
    int hosts;
} worlds[] = {{"shm", 0},  {"shm", 0},       {"tcp", 0},       {"auto", 0},   {"auto", 2},
              {"auto", 3}, {"chaos:shm", 0}, {"chaos:tcp", 0}, {"tcp,shm", 0}};

static const struct {
    const char *name;
    const char *values[4]; /* "": the default */
} settings[] = {{"RINGCOMM_SLOT_BYTES", {"", "4096", "16K", "64K"}},
                {"RINGCOMM_SLOTS", {"", "", "3", "8"}},
                {"RINGCOMM_PROTOCOL", {"", "get=always", "get=never", ""}},
                {"RINGCOMM_SPIN_US", {"", "", "0", "50"}}};

static size_t slot_bytes_of(const char *value) {
    return *value == '\0' ? 131072 : strchr(value, 'K') ? strtoul(value, NULL, 10) << 10 : 4096;
}

static void settings_draw(struct draw *what, struct episode *episode) {
    char chaos[64];
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const char *value = settings[i].values[draw_below(what, 4)];
        setenv(settings[i].name, value, 1);
        if (i == 0)
            episode->slot_bytes = slot_bytes_of(value);
    }
    snprintf(chaos, sizeof chaos, "seed=%u,delay=%u,often=20", draw_below(what, 1000),
             100 + draw_below(what, 900));
    episode->device_named = draw_one_in(what, 3);
    setenv("RINGCOMM_DEVICE", episode->device_named && episode->options->cuda ? "0" : "auto", 1);
    setenv("RINGCOMM_CHAOS", strncmp(episode->transport, "chaos", 5) == 0 ? chaos : "", 1);
}

static void episode_draw(struct episode *episode) {
    static const int ranks[] = {1, 2, 2, 3, 3, 4, 5, 8}, few[] = {2, 2, 3, 4};
    const struct stress_options *options = episode->options;
    struct draw what = draw_of(options->seed, episode->number, 0, 0);
    const unsigned world = draw_below(&what, sizeof worlds / sizeof worlds[0]);
    episode->ranks = options->threads ? few[draw_below(&what, 4)] : ranks[draw_below(&what, 8)];
    if (options->ranks > 0)
        episode->ranks = options->ranks;
    episode->threads = 1 + (int)draw_below(&what, THREADS_MAX);
    episode->transport = options->transport ? options->transport : worlds[world].transport;
    episode->hosts = worlds[world].hosts;
    episode->steps = STEPS;
    episode->end = draw_below(&what, 8);
    settings_draw(&what, episode);
}

/* ---- Its end --------------------------------------------------------------------------------- */

static void groups_end_all(struct driver *own) {
    const struct episode *episode = own->episode;
    for (int i = 0; i < episode->threads; i++) {
        struct draw what = draw_of(episode->options->seed, episode->number, (uint64_t)i + 200, 0);
        groups_end(&own[i], &what);
    }
}

static void world_destroy(struct driver *own) {
    stress_doing(own, "destroys the world");
    NEED(own, rcm_destroy(own->world) == RCM_OK, "rcm_destroy of the world: %s", rcm_last_error());
}

static void world_leave(struct driver *own) {
    stress_doing(own, "leaves the world");
    NEED(own, rcm_leave(own->world) == RCM_OK, "rcm_leave of the world: %s", rcm_last_error());
}

static void world_end(struct driver *own) {
    const struct episode *episode = own->episode;
    if (episode->end < 3) { /* first, while its groups live on */
        world_destroy(own);
        groups_end_all(own);
        return;
    }
    groups_end_all(own);
    if (episode->end == 3)
        world_leave(own);
    else if (episode->end > 4 || episode->options->threads)
        world_destroy(own);
    else
        exit(0); /* which also leaves */
}

/* ---- A rank ---------------------------------------------------------------------------------- */

static void *driver_run(void *arg) {
    device_enter(arg);
    steps_take(arg);
    device_leave(arg);
    return NULL;
}

static int rank_run(rcm_comm *comm, void *arg) {
    const struct episode *episode = arg;
    struct driver *own = drivers[rcm_rank(comm)];
    pthread_t threads[THREADS_MAX];
    if (!episode->options->threads)
        stress_watch(own, episode->threads);
    for (int i = 0; i < episode->threads; i++) {
        own[i].world = comm;
        if (pthread_create(&threads[i], NULL, driver_run, &own[i]) != 0)
            abort();
    }
    for (int i = 0; i < episode->threads; i++)
        pthread_join(threads[i], NULL);
    world_end(own);
    if (!episode->options->threads)
        stress_unwatch();
    return 0;
}

static void drivers_begin(const struct episode *episode) {
    for (int r = 0; r < episode->ranks; r++)
        for (int i = 0; i < episode->threads; i++) {
            drivers[r][i] = (struct driver){.episode = episode, .rank = r, .number = i};
            pthread_mutex_init(&drivers[r][i].lock, NULL);
        }
}

int episode_run(const struct stress_options *options, uint64_t number) {
    struct episode episode = {.options = options, .number = number};
    episode_draw(&episode);
    drivers_begin(&episode);
    const struct ranks ranks = {.n = episode.ranks,
                                .threads = options->threads,
                                .transport = episode.transport,
                                .hosts = episode.hosts,
                                .timeout_ms = DEADLINE_MS,
                                .before = options->cuda ? device_load : NULL,
                                .keep = true};
    if (options->threads)
        stress_watch(&drivers[0][0], RANKS_MAX * THREADS_MAX);
    const int errors = ranks_run(&ranks, rank_run, &episode);
    if (options->threads)
        stress_unwatch();
    return errors != 0;
}
