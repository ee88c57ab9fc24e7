/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of bytes whose lengths the library exchanges. */
#include "stress.h"
#include <stdio.h>
#include <stdlib.h>

enum form { BROADCAST, SCATTER, GATHER, ALL_GATHER, FORMS };

enum { BYTES_MAX = 40000 };

struct bytes {
    enum form form;
    int root;
    size_t lengths[RANKS_MAX];
    unsigned char *blocks[RANKS_MAX]; /* this rank's; for the root of a scatter all */
    struct rcm_bytes *came;
};

static const char *const form_names[FORMS] = {"broadcast", "scatter", "gather", "all_gather"};

static void bytes_draw(struct job *job) {
    struct bytes *bytes = calloc(1, sizeof *bytes);
    if (!bytes)
        abort();
    job->own = bytes;
    job->runs = 1; /* these calls cannot be persistent */
    bytes->form = (enum form)draw_below(&job->what, FORMS);
    bytes->root = (int)draw_below(&job->what, (unsigned)job->group->n);
    for (int r = 0; r < job->group->n; r++) {
        bytes->lengths[r] = draw_count(&job->what, 1, job->driver->episode->slot_bytes, BYTES_MAX);
        bytes->blocks[r] = malloc(bytes->lengths[r] + 1);
    }
    snprintf(job->name, sizeof job->name, "%s_bytes, root %d of %d", form_names[bytes->form],
             bytes->root, job->group->n);
}

static uint64_t block_salt(const struct job *job, int rank) {
    return job->salt + (uint64_t)rank * 1000003;
}

static void bytes_fills(struct job *job) {
    const struct bytes *bytes = job->own;
    for (int r = 0; r < job->group->n; r++)
        bytes_fill(block_salt(job, r), bytes->blocks[r], bytes->lengths[r]);
}

static void bytes_call(struct job *job) {
    struct bytes *b = job->own;
    rcm_comm *comm = job->group->comm;
    const int me = job->group->me;
    rcm_work **work = job_work(job);
    if (b->form == BROADCAST)
        job->status = rcm_broadcast_bytes(comm, b->blocks[b->root], b->lengths[b->root], b->root,
                                          &b->came, &job->call, work);
    else if (b->form == SCATTER)
        job->status = rcm_scatter_bytes(comm, (const void *const *)b->blocks, b->lengths, b->root,
                                        &b->came, &job->call, work);
    else if (b->form == GATHER)
        job->status = rcm_gather_bytes(comm, b->blocks[me], b->lengths[me], b->root, &b->came,
                                       &job->call, work);
    else
        job->status =
            rcm_all_gather_bytes(comm, b->blocks[me], b->lengths[me], &b->came, &job->call, work);
}

/* Checks block i of the result, which comes from this rank. */
static void block_check(struct job *job, size_t i, int rank) {
    const struct bytes *bytes = job->own;
    const size_t *offsets = bytes->came->offsets;
    NEED(job->driver, offsets[i + 1] - offsets[i] == bytes->lengths[rank],
         "%s: block %zu has %zu bytes, not %zu", job->name, i, offsets[i + 1] - offsets[i],
         bytes->lengths[rank]);
    NEED(job->driver,
         bytes_right(block_salt(job, rank), bytes->came->data + offsets[i], bytes->lengths[rank]),
         "%s: block %zu of %zu bytes is wrong", job->name, i, bytes->lengths[rank]);
}

static void bytes_check(struct job *job) {
    const struct bytes *bytes = job->own;
    const bool root = job->group->me == bytes->root;
    const bool receives = bytes->form == BROADCAST ? !root : bytes->form != GATHER || root;
    const bool one = bytes->form == BROADCAST || bytes->form == SCATTER;
    const size_t n = one ? 1 : (size_t)job->group->n;
    NEED(job->driver, !bytes->came == !receives, "%s: there %s", job->name,
         bytes->came ? "are unexpected bytes" : "are no bytes");
    if (!bytes->came)
        return;
    NEED(job->driver, bytes->came->n == n, "%s: %zu blocks, not %zu", job->name, bytes->came->n, n);
    for (size_t i = 0; i < n; i++)
        block_check(job, i,
                    bytes->form == BROADCAST ? bytes->root
                    : bytes->form == SCATTER ? job->group->me
                                             : (int)i);
}

static void bytes_free(struct job *job) {
    struct bytes *bytes = job->own;
    free(bytes->came);
    for (int r = 0; r < RANKS_MAX; r++)
        free(bytes->blocks[r]);
}

const struct row row_bytes = {.name = "bytes",
                              .scope = SCOPE_FIRST,
                              .weight = 5,
                              .draw = bytes_draw,
                              .fill = bytes_fills,
                              .call = bytes_call,
                              .check = bytes_check,
                              .free = bytes_free};
