/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports of failures, and the watchdog: see stress.h. */
#include "stress.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Longer than the deadline of operations, after which the library reports more. */
enum { REPORT_S = 30, WATCH_S = 60, AFTER_A_DEATH_US = 2000000 };

static struct driver *watched;
static int nwatched;
static atomic_bool watch_ends;
static pthread_t watch_thread;

static void replay_line(const struct episode *episode, char *ret_text, size_t cap) {
    const struct stress_options *options = episode->options;
    char ranks[24] = "";
    if (options->ranks > 0)
        snprintf(ranks, sizeof ranks, " --ranks %d", options->ranks);
    snprintf(ret_text, cap, "replay: stress --seed %llu --from %llu --episodes 1%s%s%s%s%s",
             (unsigned long long)options->seed, (unsigned long long)episode->number,
             options->threads ? " --threads" : "", options->cuda ? " --memory cuda" : "", ranks,
             options->transport ? " --transport " : "",
             options->transport ? options->transport : "");
}

/* A rank that failed first ends the others; their errors are only consequences. */
static void let_first_report(const char *text) {
    if (strstr(text, rcm_status_name(RCM_ERR_PEER)) || strstr(text, "lost rank"))
        usleep(AFTER_A_DEATH_US);
}

/* Lists what each thread is doing. */
static void doing_all(char *ret_text, size_t cap) {
    size_t len = 0;
    ret_text[0] = '\0';
    for (int i = 0; i < nwatched && len < cap; i++) {
        pthread_mutex_lock(&watched[i].lock);
        len += (size_t)snprintf(ret_text + len, cap - len, "  rank %d, thread %d: %s\n",
                                watched[i].rank, watched[i].number, watched[i].doing);
        pthread_mutex_unlock(&watched[i].lock);
    }
}

void stress_fail(struct driver *driver, const char *format, ...) {
    const struct episode *episode = driver->episode;
    char text[1200], replay[200], doing[8192] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    let_first_report(text);
    replay_line(episode, replay, sizeof replay);
    if (strstr(text, rcm_status_name(RCM_ERR_TIMEOUT)))
        doing_all(doing, sizeof doing);
    fprintf(stderr,
            "stress: episode %llu (%d ranks, %s), rank %d, thread %d, step %llu: %s\n%s%s\n",
            (unsigned long long)episode->number, episode->ranks, episode->transport, driver->rank,
            driver->number, (unsigned long long)driver->step, text, doing, replay);
    _Exit(1);
}

void stress_doing(struct driver *driver, const char *format, ...) {
    va_list args;
    va_start(args, format);
    pthread_mutex_lock(&driver->lock);
    vsnprintf(driver->doing, sizeof driver->doing, format, args);
    pthread_mutex_unlock(&driver->lock);
    va_end(args);
}

/* ---- The watchdog --------------------------------------------------------------------------- */

static void *watch(void *arg) {
    char last[8192] = "", now[8192], replay[200];
    (void)arg;
    for (int still = 0; !atomic_load(&watch_ends); still++, usleep(200000)) {
        doing_all(now, sizeof now);
        if (strcmp(last, now) != 0)
            still = 0;
        memcpy(last, now, sizeof now);
        if (still != REPORT_S * 5 && still != WATCH_S * 5)
            continue;
        replay_line(watched[0].episode, replay, sizeof replay);
        fprintf(stderr, "stress: hangs for %d s\n%s%s\n", still / 5, now, replay);
        if (still == WATCH_S * 5)
            _Exit(1);
    }
    return NULL;
}

void stress_watch(struct driver *drivers, int n) {
    watched = drivers;
    nwatched = n;
    atomic_store(&watch_ends, false);
    if (pthread_create(&watch_thread, NULL, watch, NULL) != 0)
        abort();
}

void stress_unwatch(void) {
    atomic_store(&watch_ends, true);
    pthread_join(watch_thread, NULL);
}
