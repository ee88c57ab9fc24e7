/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank of a round: works until an error, reports it, and checks that it owns its buffers again
 * and that the library leaves nothing behind. */
#include "../count.h"
#include "random_faults.h"
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

__attribute__((format(printf, 2, 3))) static void report_problem(char problem[256],
                                                                 const char *format, ...) {
    va_list args;
    if (problem[0])
        return;
    va_start(args, format);
    vsnprintf(problem, 256, format, args);
    va_end(args);
}

/* Counts memory of the library that this process still maps. */
static int count_maps(void) {
    char line[512];
    int n = 0;
    FILE *file = fopen("/proc/self/maps", "re");
    while (file && fgets(line, sizeof(line), file))
        n += strstr(line, "memfd:ringcomm") != NULL;
    if (file)
        fclose(file);
    return n;
}

/* ---- After an error ------------------------------------------------------------------------- */

static bool holds(const unsigned char *bytes, unsigned char what) {
    for (size_t i = 0; i < WORKLOAD_BYTES; i++)
        if (bytes[i] != what)
            return false;
    return true;
}

/* Every operation has completed, so the buffers are no longer accessed; every later call returns
 * the same error. */
static void check_after_error(struct workload *w, const struct seen *seen) {
    struct rcm_error error = RCM_ERROR_INIT;
    memset(w->send, 0x5a, WORKLOAD_BYTES);
    memset(w->recv, 0xa5, WORKLOAD_BYTES);
    rcm_status status = rcm_barrier(w->comm, NULL, NULL);
    if ((int)status != seen->status)
        report_problem(w->problem, "a later call returns %s, the first one %s",
                       rcm_status_name(status), rcm_status_name((rcm_status)seen->status));
    usleep(20000);
    (void)rcm_comm_error(w->comm, &error);
    if (error.origin != seen->origin)
        report_problem(w->problem, "origin was %d, then %d", seen->origin, error.origin);
}

static void report(struct workload *w, rcm_status status, struct seen *seen) {
    struct rcm_error error = RCM_ERROR_INIT;
    seen->at_ns = now_ns();
    strain_add(&seen->strain, 0);
    seen->status = status;
    seen->origin = -1;
    if (status != RCM_OK) {
        const rcm_status recorded = rcm_comm_error(w->comm, &error);
        if (recorded != status)
            report_problem(w->problem, "the operation returned %s, rcm_comm_error %s",
                           rcm_status_name(status), rcm_status_name(recorded));
        seen->origin = error.origin;
        snprintf(seen->text, sizeof(seen->text), "%s", error.text);
    }
    atomic_store_explicit(&seen->reported, true, memory_order_release);
}

static rcm_status work(struct workload *w, const struct board *board, struct seen *seen) {
    rcm_status status = RCM_OK;
    bool stop = false;
    atomic_store(&seen->last_ns, now_ns());
    for (uint64_t i = 0; status == RCM_OK && !stop; i++) {
        if (i < EARLY) {
            seen->begun = (struct strain){0};
            strain_add(&seen->begun, 0);
        }
        status = workload_step(w, i, atomic_load(&board->stop), &stop);
        if (status != RCM_OK)
            break;
        atomic_store(&seen->last_ns, now_ns());
        atomic_store(&seen->iterations, (int64_t)i + 1);
    }
    return status;
}

static void leave(struct workload *w, rcm_status status, struct seen *seen) {
    struct strain before = {0}, after = {0};
    strain_add_thread(&before);
    const rcm_status ended = rcm_destroy(w->comm);
    strain_add_thread(&after);
    seen->destroy_ns = after.at_ns - before.at_ns - strain_excuse(&before, &after);
    if (ended != status)
        report_problem(w->problem, "rcm_destroy returned %s, the operation %s: %s",
                       rcm_status_name(ended), rcm_status_name(status), rcm_last_error());
    if (status != RCM_OK && (!holds(w->send, 0x5a) || !holds(w->recv, 0xa5)))
        report_problem(w->problem, "a buffer was written after the error");
}

int rank_run(struct board *board, int rank, const char *url, const char *transport, uint64_t seed) {
    struct rcm_init_options init = RCM_INIT_OPTIONS_INIT;
    struct seen *seen = &board->seen[rank];
    struct workload w = {.call = RCM_CALL_INIT, .rank = rank, .n = board->n, .seed = seed};
    w.problem = seen->problem;
    w.call.timeout_ms = board->deadline_ms;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(180);
    const int fds = count_entries("/proc/self/fd"), tasks = count_entries("/proc/self/task");
    init.rank = rank;
    init.world_size = board->n;
    init.url = url;
    init.transport = transport;
    init.timeout_ms = 30000;
    w.send = malloc(WORKLOAD_BYTES);
    w.recv = malloc(WORKLOAD_BYTES);
    if (!w.send || !w.recv || rcm_init(&init, &w.comm) != RCM_OK) {
        report_problem(seen->problem, "init: %s", rcm_last_error());
        return 1;
    }
    rcm_status status = work(&w, board, seen);
    report(&w, status, seen);
    if (status != RCM_OK)
        check_after_error(&w, seen);
    leave(&w, status, seen);
    free(w.send);
    free(w.recv);
    if (count_entries("/proc/self/fd") != fds)
        report_problem(w.problem, "%d file descriptors were open before, %d after", fds,
                       count_entries("/proc/self/fd"));
    if (count_threads_more(tasks) > 0)
        report_problem(w.problem, "a thread is left");
    if (count_maps())
        report_problem(w.problem, "%d maps of shared memory are left", count_maps());
    atomic_store_explicit(&seen->finished, true, memory_order_release);
    return seen->problem[0] ? 1 : 0;
}
