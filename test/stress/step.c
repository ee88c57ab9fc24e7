/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of a thread: each is one operation, drawn from the table, on a drawn group. */
#include "stress.h"
#include <unistd.h>

enum { PAUSE_ONE_IN = 12, PAUSE_MAX_US = 600, REAP_ONE_IN = 3 };

static const struct row *const rows[] = {
    &row_collective, &row_coalesced, &row_uneven,   &row_bytes,  &row_barrier,
    &row_monitored,  &row_message,   &row_sendrecv, &row_batch,  &row_cancel,
    &row_relay,      &row_mixture,   &row_prepare,  &row_subset, &row_split,
    &row_destroy,    &row_duplicate, &row_abort,    &row_mistake};
enum { NROWS = sizeof rows / sizeof rows[0] };

static const struct row *row_draw(struct draw *what) {
    unsigned all = 0, i = 0;
    for (i = 0; i < NROWS; i++)
        all += rows[i]->weight;
    unsigned at = draw_below(what, all);
    for (i = 0; at >= rows[i]->weight; i++)
        at -= rows[i]->weight;
    return rows[i];
}

static void step_take(struct driver *driver, struct draw *what) {
    const struct row *row = row_draw(what);
    struct group *group = groups_draw(driver, what, row->scope);
    if (!group)
        return;
    if (group->me < 0 && !row->everybody) {
        group_absent(driver, group);
        return;
    }
    struct job *job = job_new(driver, row, group);
    row->draw(job);
    job_run(job);
}

/* What else this rank does, so that ranks meet at different moments. */
static void step_vary(struct driver *driver, struct draw *how) {
    if (draw_one_in(how, PAUSE_ONE_IN))
        usleep(draw_below(how, PAUSE_MAX_US));
    if (driver->npending == PENDING_MAX || draw_one_in(how, REAP_ONE_IN))
        jobs_reap(driver, how, false);
}

void steps_take(struct driver *driver) {
    const struct episode *episode = driver->episode;
    const uint64_t stream = (uint64_t)driver->number + 100; /* different from the streams of jobs */
    struct draw how = {0};
    groups_begin(driver);
    for (int i = 0; i < episode->steps; i++) {
        driver->step = (uint64_t)i;
        struct draw what = draw_of(episode->options->seed, episode->number, stream, driver->step);
        how = draw_of_rank(&what, driver->rank);
        step_vary(driver, &how);
        step_take(driver, &what);
    }
    jobs_reap(driver, &how, true);
    stress_doing(driver, "is done");
}
