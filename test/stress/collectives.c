/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of equal blocks, one alone or several in one call, and the barriers. Data and
 * expected results: tools/bench/bench_data.c.
 */
#include "collectives.h"
#include "../sanitized.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS_MAX = TEST_SANITIZED ? 30000 : 150000, COLLECTIVES_MAX = 64 };

/* ---- Draws ----------------------------------------------------------------------------------- */

static bool has_blocks(const struct rcm_collective_info *info) {
    return info->send_blocks != 0 || info->recv_blocks != 0;
}

void collective_draw(struct draw *what, bool uneven, struct rcm_collective_info *ret_info) {
    struct rcm_collective_info fit[COLLECTIVES_MAX], info = RCM_COLLECTIVE_INFO_INIT;
    unsigned n = 0;
    for (size_t i = 0; n < COLLECTIVES_MAX && rcm_collective_at(i, &info) == RCM_OK; i++)
        if (!info.uneven == !uneven && has_blocks(&info))
            fit[n++] = info;
    *ret_info = fit[draw_below(what, n)];
}

/* An operator of ringcomm.h, or one that is created. */
static void operator_draw(struct draw *what, struct bench_point *point) {
    unsigned n = 0;
    while (bench_op_at(n) != 0)
        n++;
    do
        point->op = bench_op_at(draw_below(what, n));
    while (bench_op_lack(point->op, point->dtype) || !bench_op_fits(&point->info, point->op));
}

void operator_open(struct job *job) {
    const struct bench_point *point = &job->parts[0].point;
    if (point->op == BENCH_USER)
        job->kind = RCM_MEM_HOST; /* it is a function on the host */
    NEED(job->driver, bench_op_open(point->op, point->dtype, job->group->me, &job->op) == RCM_OK,
         "%s, the operator %s: %s", job->row->name, bench_op_name(point->op), rcm_last_error());
}

void point_draw(struct job *job, const struct rcm_collective_info *info,
                struct bench_point *ret_point) {
    struct bench_point *point = ret_point;
    const int n = job->group->n;
    memset(point, 0, sizeof *point);
    point->info = *info;
    point->nranks = n;
    point->root = info->rooted ? (int)draw_below(&job->what, (unsigned)n) : 0;
    point->dtype = (rcm_dtype)(1 + draw_below(&job->what, RCM_INT64_INT32));
    point->op = RCM_SUM;
    if (info->reduces)
        operator_draw(&job->what, point);
    const size_t size = rcm_dtype_size(point->dtype), blocks = bench_blocks(info, n);
    const size_t most = ELEMENTS_MAX / blocks / (info->reduces ? (size_t)n : 1);
    point->count = draw_count(&job->what, size, job->driver->episode->slot_bytes, most);
    point->bytes = point->count * blocks * size;
}

const char *algorithm_draw(struct draw *what, enum rcm_collective collective) {
    struct rcm_algorithm_info info;
    unsigned n = 0;
    while (rcm_algorithm_at(collective, n, &info) == RCM_OK)
        n++;
    const unsigned i = draw_below(what, 2 * n + 1); /* half of the time by cost */
    return i < n && rcm_algorithm_at(collective, i, &info) == RCM_OK ? info.name : NULL;
}

void collective_name(struct job *job) {
    const struct bench_point *point = &job->parts[0].point;
    const int len =
        snprintf(job->name, sizeof job->name, "%s %s (%s) of %zu %s", job->row->name,
                 point->info.name, job->call.algorithm ? job->call.algorithm : "by cost",
                 point->count, rcm_dtype_name(point->dtype));
    snprintf(job->name + len, sizeof job->name - (size_t)len,
             ", %s, root %d, %d parts, %s, %s of %d",
             point->info.reduces ? bench_op_name(point->op) : "-", point->root, job->nparts,
             job->kind == RCM_MEM_DEVICE ? "cuda" : "host", rcm_comm_name(job->group->comm),
             point->nranks);
}

/* ---- Buffers --------------------------------------------------------------------------------- */

static size_t own_block(const struct job *job, const struct bench_point *point) {
    return bench_block_first(point, job->group->me, job->group->me) * rcm_dtype_size(point->dtype);
}

void part_buffers(struct job *job, struct job_part *part) {
    struct bench_point *point = &part->point;
    point->in_place = !point->info.apart && draw_one_in(&job->how, 3);
    if (point->info.collective == RCM_BROADCAST)
        point->in_place = true;
    memory_get(job, job->kind, point->in_place ? 0 : point->bytes, &part->send);
    memory_get(job, job->kind, point->bytes, &part->recv);
}

void *part_input(const struct job *job, const struct job_part *part) {
    const struct bench_point *point = &part->point;
    const bool smaller = point->info.send_blocks == 1 && point->info.recv_blocks != 1;
    if (!point->in_place)
        return part->send.data;
    return part->recv.data + (smaller ? own_block(job, point) : 0);
}

void *part_output(const struct job *job, const struct job_part *part) {
    const struct bench_point *point = &part->point;
    const bool smaller = point->info.recv_blocks == 1 && point->info.send_blocks != 1;
    return part->recv.data + (point->in_place && smaller ? own_block(job, point) : 0);
}

/* Where the program writes the input and reads the result. */
static void *part_input_view(const struct job *job, const struct job_part *part) {
    const struct memory *memory = part->point.in_place ? &part->recv : &part->send;
    return memory->view + ((unsigned char *)part_input(job, part) - memory->data);
}

static void *part_output_view(const struct job *job, const struct job_part *part) {
    return part->recv.view + ((unsigned char *)part_output(job, part) - part->recv.data);
}

void parts_fill(struct job *job) {
    for (int i = 0; i < job->nparts; i++) {
        const struct job_part *part = &job->parts[i];
        bench_poison(&part->point, part->recv.view);
        if (bench_has_input(&part->point, job->group->me))
            bench_fill(&part->point, job->group->me, job->salt + (uint64_t)i,
                       part_input_view(job, part));
    }
}

void parts_check(struct job *job) {
    for (int i = 0; i < job->nparts; i++) {
        const struct job_part *part = &job->parts[i];
        if (!bench_has_result(&part->point, job->group->me))
            continue;
        const size_t wrong = bench_count_wrong(
            &part->point, job->group->me, job->salt + (uint64_t)i, part_output_view(job, part));
        NEED(job->driver, wrong == 0, "%s, part %d: %zu elements are wrong", job->name, i, wrong);
    }
}

/* ---- One collective -------------------------------------------------------------------------- */

typedef rcm_status caller(rcm_comm *comm, const struct bench_point *t, rcm_op op, const void *in,
                          void *out, const struct rcm_call *call, rcm_work **work);
#define CALLER(name, ...)                                                                          \
    static rcm_status call_##name(rcm_comm *comm, const struct bench_point *t, rcm_op op,          \
                                  const void *in, void *out, const struct rcm_call *call,          \
                                  rcm_work **work) {                                               \
        (void)in;                                                                                  \
        (void)op;                                                                                  \
        return rcm_##name(comm, __VA_ARGS__, call, work);                                          \
    }
CALLER(all_reduce, in, out, t->count, t->dtype, op)
CALLER(broadcast, out, t->count, t->dtype, t->root)
CALLER(reduce, in, out, t->count, t->dtype, op, t->root)
CALLER(scatter, in, out, t->count, t->dtype, t->root)
CALLER(gather, in, out, t->count, t->dtype, t->root)
CALLER(all_gather, in, out, t->count, t->dtype)
CALLER(reduce_scatter, in, out, t->count, t->dtype, op)
CALLER(all_to_all, in, out, t->count, t->dtype)
CALLER(scan, in, out, t->count, t->dtype, op)
CALLER(exscan, in, out, t->count, t->dtype, op)

static const struct {
    enum rcm_collective collective;
    caller *call;
} callers[] = {{RCM_ALL_REDUCE, call_all_reduce},
               {RCM_BROADCAST, call_broadcast},
               {RCM_REDUCE, call_reduce},
               {RCM_SCATTER, call_scatter},
               {RCM_GATHER, call_gather},
               {RCM_ALL_GATHER, call_all_gather},
               {RCM_REDUCE_SCATTER, call_reduce_scatter},
               {RCM_ALL_TO_ALL, call_all_to_all},
               {RCM_SCAN, call_scan},
               {RCM_EXSCAN, call_exscan}};

static void collective_draws(struct job *job) {
    struct rcm_collective_info info;
    collective_draw(&job->what, false, &info);
    job->nparts = 1;
    point_draw(job, &info, &job->parts[0].point);
    job->call.algorithm = algorithm_draw(&job->what, info.collective);
    operator_open(job);
    collective_name(job);
    part_buffers(job, &job->parts[0]);
}

static void coalesced_call(struct job *job);

static void collective_call(struct job *job) {
    const struct job_part *part = &job->parts[0];
    for (size_t i = 0; i < sizeof callers / sizeof callers[0]; i++)
        if (callers[i].collective == part->point.info.collective) {
            job->status =
                callers[i].call(job->group->comm, &part->point, job->op, part_input(job, part),
                                part_output(job, part), &job->call, job_work(job));
            return;
        }
    coalesced_call(job); /* an operation that is not in the table */
}

const struct row row_collective = {.name = "one",
                                   .scope = SCOPE_FIRST,
                                   .weight = 30,
                                   .draw = collective_draws,
                                   .fill = parts_fill,
                                   .call = collective_call,
                                   .check = parts_check};

/* ---- Several collectives --------------------------------------------------------------------- */

/* A created operator has one type. */
static bool operator_is_of(const struct bench_point *first, rcm_dtype dtype) {
    const bool created = first->op == BENCH_PREMUL_SUM || first->op == BENCH_USER;
    return created ? dtype == first->dtype : rcm_op_defined(first->op, dtype) == RCM_OK;
}

static void coalesced_draws(struct job *job) {
    struct rcm_collective_info info;
    collective_draw(&job->what, false, &info);
    job->nparts = 1 + (int)draw_below(&job->what, PARTS_MAX);
    for (int i = 0; i < job->nparts; i++) {
        struct bench_point *point = &job->parts[i].point;
        do /* all parts have the same operator */
            point_draw(job, &info, point);
        while (info.reduces && i > 0 && !operator_is_of(&job->parts[0].point, point->dtype));
        point->op = job->parts[0].point.op;
        point->root = job->parts[0].point.root;
    }
    job->call.algorithm = algorithm_draw(&job->what, info.collective);
    operator_open(job);
    collective_name(job);
    for (int i = 0; i < job->nparts; i++)
        part_buffers(job, &job->parts[i]);
}

static void coalesced_call(struct job *job) {
    const struct bench_point *first = &job->parts[0].point;
    struct rcm_part parts[PARTS_MAX];
    for (int i = 0; i < job->nparts; i++)
        parts[i] =
            (struct rcm_part){part_input(job, &job->parts[i]), part_output(job, &job->parts[i]),
                              job->parts[i].point.count, job->parts[i].point.dtype};
    job->status =
        rcm_coalesced(job->group->comm, first->info.collective, parts, (size_t)job->nparts, job->op,
                      first->root, &job->call, job_work(job));
}

const struct row row_coalesced = {.name = "coalesced",
                                  .scope = SCOPE_FIRST,
                                  .weight = 6,
                                  .draw = coalesced_draws,
                                  .fill = parts_fill,
                                  .call = coalesced_call,
                                  .check = parts_check};

/* ---- Barriers -------------------------------------------------------------------------------- */

static void barrier_draw(struct job *job) {
    snprintf(job->name, sizeof job->name, "%s of %d", job->row->name, job->group->n);
}

static void barrier_call(struct job *job) {
    job->status = rcm_barrier(job->group->comm, &job->call, job_work(job));
}

static void monitored_call(struct job *job) {
    job->status = rcm_monitored_barrier(job->group->comm, 0, &job->call, job_work(job));
}

static void nothing(struct job *job) {
    (void)job;
}

#define BARRIER_ROW .scope = SCOPE_FIRST, .draw = barrier_draw, .fill = nothing, .check = nothing
const struct row row_barrier = {.name = "barrier", .weight = 3, .call = barrier_call, BARRIER_ROW};
const struct row row_monitored = {
    .name = "monitored_barrier", .weight = 2, .call = monitored_call, BARRIER_ROW};

/* ---- Connections ----------------------------------------------------------------------------- */

static void prepare_draw(struct job *job) {
    struct rcm_collective_info info;
    collective_draw(&job->what, draw_one_in(&job->what, 3), &info);
    point_draw(job, &info, &job->parts[0].point);
    job->call.algorithm = algorithm_draw(&job->what, info.collective);
    collective_name(job);
}

static void prepare_call(struct job *job) {
    const struct bench_point *point = &job->parts[0].point;
    job->status = rcm_comm_prepare_kind(job->group->comm, job->kind, point->info.collective,
                                        point->bytes, point->root, job->call.algorithm);
    if (job->status == RCM_ERR_UNSUPPORTED && job->call.algorithm)
        job->status = RCM_OK; /* rejected for this shape on all ranks */
}

const struct row row_prepare = {.name = "prepare",
                                .weight = 2,
                                .scope = SCOPE_FIRST,
                                .whole = true,
                                .draw = prepare_draw,
                                .call = prepare_call,
                                .check = nothing};
