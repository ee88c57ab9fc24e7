/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives of unequal blocks, as arrays with displacements or as lists. Blocks of the larger
 * buffer lie in a drawn order with gaps; in the reference they are packed.
 */
#include "collectives.h"
#include <stdlib.h>
#include <string.h>

enum { GAP_MAX = 5 };

/* A buffer with a block for each rank, or for this rank only. */
struct layout {
    bool blocks;
    size_t counts[RANKS_MAX], displs[RANKS_MAX], total; /* elements */
    void *list[RANKS_MAX];
};

struct uneven {
    bool list;
    struct layout in, out;
    void *packed;
};

static void layout_draw(const struct job *job, struct draw *how, int blocks,
                        struct layout *layout) {
    const struct bench_point *point = &job->parts[0].point;
    int order[RANKS_MAX];
    layout->blocks = blocks == RCM_BLOCK_PER_RANK;
    draw_order(how, point->nranks, order);
    for (int i = 0; i < point->nranks; i++) {
        const int r = order[i];
        layout->counts[r] = bench_block_count(point, job->group->me, r);
        layout->total += draw_below(how, GAP_MAX);
        layout->displs[r] = layout->total;
        layout->total += layout->counts[r];
    }
    if (!layout->blocks)
        layout->total = layout->counts[job->group->me];
}

static void layout_list(const struct job *job, unsigned char *data, struct layout *layout) {
    const size_t size = rcm_dtype_size(job->parts[0].point.dtype);
    for (int r = 0; r < job->group->n; r++)
        layout->list[r] = data + layout->displs[r] * size;
}

/* Copies from the packed data to the blocks, or back. */
static void layout_copy(const struct job *job, const struct layout *layout, unsigned char *data,
                        bool back) {
    const struct bench_point *point = &job->parts[0].point;
    const struct uneven *uneven = job->own;
    const size_t size = rcm_dtype_size(point->dtype);
    for (int r = 0; r < point->nranks; r++) {
        unsigned char *packed =
            (unsigned char *)uneven->packed +
            (layout->blocks ? bench_block_first(point, job->group->me, r) : 0) * size;
        unsigned char *there = data + (layout->blocks ? layout->displs[r] : 0) * size;
        if (layout->blocks || r == job->group->me)
            memcpy(back ? packed : there, back ? there : packed, layout->counts[r] * size);
    }
}

static void uneven_buffers(struct job *job) {
    struct job_part *part = &job->parts[0];
    struct uneven *uneven = job->own;
    const size_t size = rcm_dtype_size(part->point.dtype);
    layout_draw(job, &job->how, part->point.info.send_blocks, &uneven->in);
    layout_draw(job, &job->how, part->point.info.recv_blocks, &uneven->out);
    memory_get(job, job->kind, uneven->in.total * size, &part->send);
    memory_get(job, job->kind, uneven->out.total * size, &part->recv);
    layout_list(job, part->send.data, &uneven->in);
    layout_list(job, part->recv.data, &uneven->out);
    uneven->packed = malloc(part->point.bytes + part->point.bytes / 2 + 64);
    if (!uneven->packed)
        abort();
}

static void uneven_draw(struct job *job) {
    struct rcm_collective_info info;
    struct uneven *uneven = calloc(1, sizeof *uneven);
    if (!uneven)
        abort();
    job->own = uneven;
    job->nparts = 1;
    collective_draw(&job->what, true, &info);
    point_draw(job, &info, &job->parts[0].point);
    uneven->list = draw_one_in(&job->how, 3);
    job->call.algorithm = algorithm_draw(&job->what, info.collective);
    operator_open(job);
    collective_name(job);
    uneven_buffers(job);
}

static void uneven_fill(struct job *job) {
    const struct job_part *part = &job->parts[0];
    const struct uneven *uneven = job->own;
    memset(part->recv.view, 0xa5, part->recv.bytes);
    if (!bench_has_input(&part->point, job->group->me))
        return;
    bench_fill(&part->point, job->group->me, job->salt, uneven->packed);
    layout_copy(job, &uneven->in, part->send.view, false);
}

static void uneven_check(struct job *job) {
    const struct job_part *part = &job->parts[0];
    const struct uneven *uneven = job->own;
    if (!bench_has_result(&part->point, job->group->me))
        return;
    layout_copy(job, &uneven->out, part->recv.view, true);
    const size_t wrong = bench_count_wrong(&part->point, job->group->me, job->salt, uneven->packed);
    NEED(job->driver, wrong == 0, "%s: %zu elements are wrong", job->name, wrong);
}

static void uneven_free(struct job *job) {
    free(((struct uneven *)job->own)->packed);
}

/* ---- The calls ------------------------------------------------------------------------------- */

#define IN_V     in, u->in.counts, u->in.displs
#define OUT_V    out, u->out.counts, u->out.displs
#define IN_LIST  (const void *const *)u->in.list, u->in.counts
#define OUT_LIST (void *const *)u->out.list, u->out.counts
#define IN_ONE   in, u->in.counts[me]
#define OUT_ONE  out, u->out.counts[me]
#define TAIL     &job->call, job_work(job)

static void uneven_call(struct job *job) {
    const struct bench_point *t = &job->parts[0].point;
    const struct uneven *u = job->own;
    const void *in = job->parts[0].send.data;
    void *out = job->parts[0].recv.data;
    rcm_comm *comm = job->group->comm;
    const int me = job->group->me;
    switch (t->info.collective) {
    case RCM_SCATTER_V:
        job->status = u->list ? rcm_scatter_list(comm, IN_LIST, OUT_ONE, t->dtype, t->root, TAIL)
                              : rcm_scatter_v(comm, IN_V, OUT_ONE, t->dtype, t->root, TAIL);
        break;
    case RCM_GATHER_V:
        job->status = u->list ? rcm_gather_list(comm, IN_ONE, OUT_LIST, t->dtype, t->root, TAIL)
                              : rcm_gather_v(comm, IN_ONE, OUT_V, t->dtype, t->root, TAIL);
        break;
    case RCM_ALL_GATHER_V:
        job->status = u->list ? rcm_all_gather_list(comm, IN_ONE, OUT_LIST, t->dtype, TAIL)
                              : rcm_all_gather_v(comm, IN_ONE, OUT_V, t->dtype, TAIL);
        break;
    case RCM_REDUCE_SCATTER_V:
        job->status = u->list
                          ? rcm_reduce_scatter_list(comm, IN_LIST, OUT_ONE, t->dtype, job->op, TAIL)
                          : rcm_reduce_scatter_v(comm, IN_V, OUT_ONE, t->dtype, job->op, TAIL);
        break;
    case RCM_ALL_TO_ALL_V:
        job->status = u->list ? rcm_all_to_all_list(comm, IN_LIST, OUT_LIST, t->dtype, TAIL)
                              : rcm_all_to_all_v(comm, IN_V, OUT_V, t->dtype, TAIL);
        break;
    default:
        stress_fail(job->driver, "%s: this program has no call of that collective", job->name);
    }
}

const struct row row_uneven = {.name = "uneven",
                               .scope = SCOPE_FIRST,
                               .weight = 12,
                               .draw = uneven_draw,
                               .fill = uneven_fill,
                               .call = uneven_call,
                               .check = uneven_check,
                               .free = uneven_free};
