/* SPDX-License-Identifier: BSD-3-Clause */
/* ringcomm-tune: makes the points, and runs the ranks that measure them. See tune.h. */
#include "tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "cgroup.h"
#include "../common.h"
#include "error.h"

#define POINTS_MAX     16384
#define ITERATIONS_MAX 41
#define ITERATIONS_MIN 3
#define POINT_NS       (15 * INT64_C(1000000))
#define QUICK_POINT_NS (6 * INT64_C(1000000))
#define ELEMENT_BYTES  4
#define LARGEST_BYTES  (INT64_C(8) << 20)

static const size_t sizes[] = {8, 1 << 10, 16 << 10, 128 << 10, 1 << 20, LARGEST_BYTES};
static const size_t quick_sizes[] = {8, 16 << 10, 1 << 20};

/* ---- Points ---------------------------------------------------------------------------------- */

struct world {
    int nranks;
    bool tcp;
    struct rcmi_shape shape;
    int host_of[TUNE_RANKS_MAX];
};

/* The number of CPUs that this process may use. */
static double cpus_of_machine(void) {
    char list[256];
    struct rcmi_cgroup_cpus limit;
    const double cpus = tool_cpus(list, sizeof(list));
    rcmi_cgroup_cpus(&limit);
    return limit.cpus > 0 && limit.cpus < cpus ? limit.cpus : cpus;
}

static void world_make(struct world *w, int nranks, bool tcp) {
    *w = (struct world){.nranks = nranks, .tcp = tcp};
    for (int r = 0; r < nranks; r++)
        w->host_of[r] = tcp ? r : 0;
    w->shape = (struct rcmi_shape){.nranks = nranks,
                                   .nhosts = tcp ? nranks : 1,
                                   .host_of = w->host_of,
                                   .loopback = true,
                                   .ranks_per_cpu = nranks / cpus_of_machine()};
}

static enum rcmi_sharing world_sharing(const struct world *w) {
    return w->shape.ranks_per_cpu > 1 ? RCMI_OVERSUBSCRIBED : RCMI_ROOMY;
}

/* Bytes of the larger buffer with whole elements in each block; 0 for barrier. */
static size_t size_of(const struct rcmi_collective *row, int nranks, size_t bytes) {
    const size_t block = rcmi_collective_larger(row, nranks) * ELEMENT_BYTES;
    if (row->id == RCM_BARRIER)
        return 0;
    return bytes < block ? block : bytes / block * block;
}

static bool point_add(struct tune_points *points, const struct world *w,
                      const struct rcmi_algorithm *algorithm, const struct rcmi_collective *row,
                      size_t bytes) {
    struct tune_point *p = &points->all[points->n];
    struct rcmi_cost cost;
    if (points->n == points->room) {
        tool_error("more than %zu points", points->room);
        return false;
    }
    if (rcmi_cost_count(algorithm, &w->shape, 0, &cost) != RCM_OK) {
        tool_error("%s", rcmi_last_error()->text);
        return false;
    }
    *p = (struct tune_point){.algorithm = algorithm,
                             .collective = row->id,
                             .nranks = w->nranks,
                             .tcp = w->tcp,
                             .bytes = bytes,
                             .sharing = world_sharing(w)};
    rcmi_price_counts(&cost, &w->shape, bytes, p->work);
    points->n++;
    return true;
}

static bool sizes_add(struct tune_points *points, const struct world *w,
                      const struct rcmi_collective *row, bool quick) {
    const size_t *from = quick ? quick_sizes : sizes;
    const size_t n = quick ? sizeof(quick_sizes) / sizeof(*from) : sizeof(sizes) / sizeof(*from);
    size_t before = SIZE_MAX;
    for (size_t s = 0; s < n; s++) {
        const size_t bytes = size_of(row, w->nranks, from[s]);
        if (bytes == before)
            continue;
        before = bytes;
        for (size_t i = 0; rcmi_algorithms[i]; i++)
            if (rcmi_algorithm_does(rcmi_algorithms[i], row->id) &&
                rcmi_algorithms[i]->supports(&w->shape) &&
                !point_add(points, w, rcmi_algorithms[i], row, bytes))
                return false;
    }
    return true;
}

static bool world_add(struct tune_points *points, int nranks, bool tcp, bool quick) {
    struct world w;
    world_make(&w, nranks, tcp);
    for (int c = 1; c < RCMI_COLLECTIVES; c++) {
        const struct rcmi_collective *row = rcmi_collective_at(c);
        if (row && row->counts == RCMI_COUNTS_SAME && !sizes_add(points, &w, row, quick))
            return false;
    }
    return true;
}

static bool points_map(struct tune_points *points) {
    *points = (struct tune_points){.room = POINTS_MAX};
    points->all = mmap(NULL, POINTS_MAX * sizeof(*points->all), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (points->all == MAP_FAILED)
        tool_error("no memory for points");
    return points->all != MAP_FAILED;
}

bool tune_points_make(const struct tune_options *o, struct tune_points *points) {
    bool ok = points_map(points);
    for (int tcp = 0; tcp < 2 && ok; tcp++)
        for (int n = 2; n <= o->ranks && ok && (tcp ? o->tcp : o->shm); n *= 2)
            ok = world_add(points, n, tcp, o->quick);
    return ok;
}

bool tune_near_points_make(const struct tune_options *o, struct tune_points *points) {
    static const size_t near_sizes[] = {64 << 10, 256 << 10, 1 << 20};
    static const enum rcm_collective collectives[] = {RCM_BROADCAST, RCM_ALL_GATHER};
    const int64_t cpus = (int64_t)cpus_of_machine();
    struct world w;
    world_make(&w, (int)(cpus < 2 ? 2 : cpus < o->ranks ? cpus : o->ranks), false);
    if (!points_map(points))
        return false;
    for (size_t c = 0; c < sizeof(collectives) / sizeof(collectives[0]); c++)
        for (size_t s = 0; s < sizeof(near_sizes) / sizeof(near_sizes[0]); s++)
            points->all[points->n++] = (struct tune_point){
                .collective = collectives[c],
                .nranks = w.nranks,
                .bytes = size_of(rcmi_collective_at((int)collectives[c]), w.nranks, near_sizes[s]),
                .sharing = world_sharing(&w)};
    return true;
}

void tune_points_free(struct tune_points *points) {
    munmap(points->all, points->room * sizeof(*points->all));
}

/* ---- A rank ---------------------------------------------------------------------------------- */

struct rank {
    rcm_comm *comm;
    float *send, *recv;
    bool progress;
    int64_t point_ns, deadline_ns; /* per point; of the whole run, after it points are left out */
    struct tune_point *points;
    size_t n;
};

static rcm_status operation(const struct rank *r, const struct tune_point *p,
                            const struct rcm_call *call) {
    const struct rcmi_collective *row = rcmi_collective_at((int)p->collective);
    const size_t n = p->bytes / ELEMENT_BYTES / rcmi_collective_larger(row, p->nranks);
    const rcm_dtype type = RCM_FLOAT32;
    switch (p->collective) {
    case RCM_ALL_REDUCE:
        return rcm_all_reduce(r->comm, r->send, r->recv, n, type, RCM_SUM, call, NULL);
    case RCM_BROADCAST:
        return rcm_broadcast(r->comm, r->recv, n, type, 0, call, NULL);
    case RCM_BARRIER:
        return rcm_barrier(r->comm, call, NULL);
    case RCM_REDUCE:
        return rcm_reduce(r->comm, r->send, r->recv, n, type, RCM_SUM, 0, call, NULL);
    case RCM_SCATTER:
        return rcm_scatter(r->comm, r->send, r->recv, n, type, 0, call, NULL);
    case RCM_GATHER:
        return rcm_gather(r->comm, r->send, r->recv, n, type, 0, call, NULL);
    case RCM_ALL_GATHER:
        return rcm_all_gather(r->comm, r->send, r->recv, n, type, call, NULL);
    case RCM_REDUCE_SCATTER:
        return rcm_reduce_scatter(r->comm, r->send, r->recv, n, type, RCM_SUM, call, NULL);
    case RCM_ALL_TO_ALL:
        return rcm_all_to_all(r->comm, r->send, r->recv, n, type, call, NULL);
    case RCM_SCAN:
        return rcm_scan(r->comm, r->send, r->recv, n, type, RCM_SUM, call, NULL);
    case RCM_EXSCAN:
        return rcm_exscan(r->comm, r->send, r->recv, n, type, RCM_SUM, call, NULL);
    default:
        return RCM_ERR_UNSUPPORTED;
    }
}

/* One operation after a barrier; *ret_ns: this rank's time. */
static rcm_status iteration(const struct rank *r, const struct tune_point *p,
                            const struct rcm_call *call, double *ret_ns) {
    rcm_status status = rcm_barrier(r->comm, NULL, NULL);
    const int64_t begin = tool_now_ns();
    if (status == RCM_OK)
        status = operation(r, p, call);
    *ret_ns = (double)(tool_now_ns() - begin);
    return status;
}

/* Replaces each time by the slowest rank's. */
static rcm_status slowest(const struct rank *r, double *times, size_t n) {
    return rcm_all_reduce(r->comm, times, times, n, RCM_FLOAT64, RCM_MAX, NULL, NULL);
}

static int double_compare(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* Runs two unmeasured iterations; the time of the second one gives the number that fits. *ret_n 0:
 * the run's deadline has passed. */
static rcm_status iterations_agree(const struct rank *r, const struct tune_point *p,
                                   const struct rcm_call *call, int *ret_n) {
    double shared[2] = {0, (double)(tool_now_ns() > r->deadline_ns)}; /* time; deadline passed */
    rcm_status status = slowest(r, shared, 2);
    *ret_n = 0;
    if (status != RCM_OK || shared[1] > 0)
        return status;
    for (int i = 0; i < 2 && status == RCM_OK; i++)
        status = iteration(r, p, call, shared);
    if (status == RCM_OK)
        status = slowest(r, shared, 1);
    const double fit = (double)r->point_ns / (shared[0] + 1);
    *ret_n = fit > ITERATIONS_MAX   ? ITERATIONS_MAX
             : fit < ITERATIONS_MIN ? ITERATIONS_MIN
                                    : (int)fit;
    return status;
}

/* Takes the lower quartile, because other programs make times longer, never shorter. */
static rcm_status point_measure(const struct rank *r, struct tune_point *p, bool writes) {
    double times[ITERATIONS_MAX] = {0};
    struct rcm_call call = RCM_CALL_INIT;
    int n = 0;
    call.algorithm = p->algorithm ? p->algorithm->name : NULL;
    rcm_status status = iterations_agree(r, p, &call, &n);
    for (int i = 0; i < n && status == RCM_OK; i++)
        status = iteration(r, p, &call, &times[i]);
    if (status == RCM_OK && n > 0)
        status = slowest(r, times, (size_t)n);
    if (status != RCM_OK || !writes || n == 0)
        return status;
    qsort(times, (size_t)n, sizeof(*times), double_compare);
    p->us = times[n / 4] / 1000;
    return RCM_OK;
}

static rcm_status points_measure(struct rank *r, bool writes) {
    rcm_status status = RCM_OK;
    for (size_t i = 0; i < r->n && status == RCM_OK; i++) {
        if (writes && r->progress)
            fprintf(stderr, "\r%d ranks, %s: %zu of %zu   ", r->points[i].nranks,
                    r->points[i].tcp ? "tcp" : "shm", i + 1, r->n);
        status = point_measure(r, &r->points[i], writes);
    }
    return status;
}

static int rank_main(int rank, void *arg) {
    struct rank r = *(struct rank *)arg;
    const size_t bytes = (size_t)LARGEST_BYTES;
    r.send = calloc(1, bytes);
    r.recv = calloc(1, bytes);
    rcm_status status = r.send && r.recv ? rcm_init(NULL, &r.comm) : RCM_ERR_NOMEM;
    if (status == RCM_OK) {
        status = points_measure(&r, rank == 0);
        const rcm_status end = rcm_destroy(r.comm);
        status = status == RCM_OK ? end : status;
    }
    if (status != RCM_OK)
        tool_error("rank %d: %s (%s)", rank, rcm_last_error(), rcm_status_name(status));
    free(r.send);
    free(r.recv);
    return status == RCM_OK ? TOOL_OK : TOOL_FAILED;
}

/* ---- Worlds ---------------------------------------------------------------------------------- */

static size_t world_end(const struct tune_points *points, size_t first) {
    size_t end = first;
    while (end < points->n && points->all[end].nranks == points->all[first].nranks &&
           points->all[end].tcp == points->all[first].tcp)
        end++;
    return end;
}

static bool world_measure(struct rank *r, int nranks, bool tcp) {
    int failed = -1, code = 0;
    const int64_t left_ms = (r->deadline_ns - tool_now_ns()) / 1000000;
    setenv("RINGCOMM_TRANSPORT", tcp ? "tcp" : "shm", 1);
    const rcm_status status =
        rcm_spawn(nranks, rank_main, r, (left_ms > 0 ? left_ms : 0) + 60000, &failed, &code);
    if (r->progress)
        fprintf(stderr, "\r%40s\r", "");
    if (status != RCM_OK && failed < 0)
        tool_error("%s (%s)", rcm_last_error(), rcm_status_name(status));
    return status == RCM_OK;
}

/* The points have at least half of the time, however long near ranks were measured. */
static int64_t points_deadline(const struct tune_options *o) {
    const int64_t all_ns = o->seconds * 1000000000, least = tool_now_ns() + all_ns / 2;
    return o->begin_ns + all_ns > least ? o->begin_ns + all_ns : least;
}

bool tune_measure(const struct tune_options *o, struct tune_points *points) {
    struct rank r = {.progress = isatty(STDERR_FILENO),
                     .point_ns = o->quick ? QUICK_POINT_NS : POINT_NS,
                     .deadline_ns = points_deadline(o)};
    for (size_t first = 0; first < points->n; first += r.n) {
        r.points = &points->all[first];
        r.n = world_end(points, first) - first;
        if (!world_measure(&r, r.points->nranks, r.points->tcp))
            return false;
    }
    return true;
}
