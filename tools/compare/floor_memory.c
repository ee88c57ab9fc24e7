/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bandwidth of copies and additions in memory, by one core and by two at the same time, each with
 * its own buffers. The figures count the bytes of results once. The buffers use huge pages, because
 * this is the machine's limit and not an ordinary program's speed.
 */
#include "floor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "clock.h"
#include "kernels.h"

#define MEMORY_NS    10000000 /* duration of a measurement of at least one pass */
#define MEMORY_ALIGN ((size_t)2 << 20)

/* For three buffers. They fit typical second-level caches (the first two sizes), third-level
 * caches, or only memory. */
static const size_t memory_sizes[] = {(size_t)64 << 10, (size_t)256 << 10, (size_t)1 << 20,
                                      (size_t)4 << 20, (size_t)64 << 20};
#define MEMORY_NSIZES (sizeof(memory_sizes) / sizeof(memory_sizes[0]))

struct memory_buffers {
    float *a, *b, *result;
};

static void memory_copy(const struct memory_buffers *m, size_t bytes) {
    memcpy(m->result, m->a, bytes);
}

static void memory_copy_streaming(const struct memory_buffers *m, size_t bytes) {
    rcmi_copy_by(RCMI_NON_TEMPORAL, m->result, m->a, bytes);
}

static void memory_add(const struct memory_buffers *m, size_t bytes) {
    const void *srcs[2] = {m->a, m->b};
    rcmi_reduction_find(RCM_FLOAT32, RCM_SUM)
        ->reduce(m->result, srcs, 2, bytes / sizeof(float), NULL);
}

static void memory_add_streaming(const struct memory_buffers *m, size_t bytes) {
    const void *srcs[2] = {m->a, m->b};
    rcmi_reduction_find(RCM_FLOAT32, RCM_SUM)
        ->reduce_streaming(m->result, srcs, 2, bytes / sizeof(float), NULL);
}

static const struct {
    const char *what, *how;
    void (*run)(const struct memory_buffers *m, size_t bytes);
    float expected; /* in every element of the result */
} memory_kinds[] = {
    {"copy", "memcpy", memory_copy, 1},
    {"copy", "non-temporal stores", memory_copy_streaming, 1},
    {"c = a + b", "float32", memory_add, 3},
    {"c = a + b", "float32, non-temporal stores", memory_add_streaming, 3},
};
#define MEMORY_NKINDS (sizeof(memory_kinds) / sizeof(memory_kinds[0]))

/* By kind, size, and number of cores less one. */
struct memory_figures {
    struct floor_series series[MEMORY_NKINDS][MEMORY_NSIZES][2];
    bool two; /* there are two cores */
};

static float *buffer_make(size_t bytes, float value) {
    float *buffer = aligned_alloc(MEMORY_ALIGN, bytes);
    if (!buffer)
        return NULL;
    madvise(buffer, bytes, MADV_HUGEPAGE); /* the kernel may ignore it */
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        buffer[i] = value;
    return buffer;
}

/* Returns GB/s. An unmeasured pass fills the caches; measured passes follow for MEMORY_NS. */
static double memory_rate(const struct memory_buffers *m, size_t kind, size_t bytes) {
    int64_t passes = 0, now;
    memory_kinds[kind].run(m, bytes);
    const int64_t start = rcmi_now_ns();
    do {
        const int64_t batch = bytes < ((size_t)4 << 20) ? 16 : 1;
        for (int64_t i = 0; i < batch; i++)
            memory_kinds[kind].run(m, bytes);
        passes += batch;
        now = rcmi_now_ns();
    } while (now - start < MEMORY_NS);
    return (double)bytes * (double)passes / (double)(now - start);
}

static bool memory_right(const struct memory_buffers *m, size_t kind, size_t bytes) {
    const size_t n = bytes / sizeof(float);
    return m->result[0] == memory_kinds[kind].expected &&
           m->result[n / 2] == memory_kinds[kind].expected &&
           m->result[n - 1] == memory_kinds[kind].expected;
}

static bool memory_point(struct floor_side *side, const struct memory_buffers *m, size_t kind,
                         size_t size, struct memory_figures *figures) {
    const size_t bytes = memory_sizes[size];
    struct floor_series *series = figures->series[kind][size];
    if (side->rank == 0)
        floor_add(&series[0], memory_rate(m, kind, bytes));
    if (figures->two) {
        if (!floor_meet(side))
            return false;
        side->shared->rate[side->rank] = memory_rate(m, kind, bytes);
        if (!floor_meet(side))
            return false;
        if (side->rank == 0)
            floor_add(&series[1], side->shared->rate[0] + side->shared->rate[1]);
    }
    if (memory_right(m, kind, bytes))
        return true;
    return floor_failed("memory: a wrong result");
}

static bool memory_rounds(struct floor_side *side, const struct memory_buffers *m,
                          struct memory_figures *figures) {
    for (int round = 0; round < side->floor->rounds; round++)
        for (size_t size = 0; size < MEMORY_NSIZES; size++)
            for (size_t kind = 0; kind < MEMORY_NKINDS; kind++)
                if (!memory_point(side, m, kind, size, figures))
                    return false;
    return true;
}

static bool memory_side(struct floor_side *side, void *arg) {
    const size_t bytes = memory_sizes[MEMORY_NSIZES - 1];
    struct memory_buffers m = {buffer_make(bytes, 1), buffer_make(bytes, 2), buffer_make(bytes, 0)};
    bool ok = m.a && m.b && m.result;
    if (!ok)
        floor_failed("memory: not enough of it");
    ok = ok && memory_rounds(side, &m, arg);
    free(m.a);
    free(m.b);
    free(m.result);
    return ok;
}

/* The memory traffic of both cores: the results are a third of it. */
static void memory_traffic(struct floor *f, const struct floor_series *results) {
    static struct floor_series traffic;
    traffic.n = 0;
    for (int i = 0; i < results->n; i++)
        floor_add(&traffic, 3 * results->values[i]);
    floor_row(f, "traffic", "c = a + b, non-temporal stores", 2, memory_sizes[MEMORY_NSIZES - 1],
              "GB/s", &traffic);
}

static void memory_rows(struct floor *f, struct memory_figures *figures) {
    for (size_t kind = 0; kind < MEMORY_NKINDS; kind++)
        for (size_t size = 0; size < MEMORY_NSIZES; size++)
            for (int cores = 1; cores <= 2; cores++)
                floor_row(f, memory_kinds[kind].what, memory_kinds[kind].how, cores,
                          memory_sizes[size], "GB/s", &figures->series[kind][size][cores - 1]);
    memory_traffic(f, &figures->series[MEMORY_NKINDS - 1][MEMORY_NSIZES - 1][1]);
}

bool floor_memory(struct floor *f) {
    static struct memory_figures figures;
    figures.two = f->ncpus > 1;
    struct floor_side alone = {.floor = f};
    const bool ok =
        figures.two ? floor_pair(f, memory_side, &figures) : memory_side(&alone, &figures);
    if (!ok)
        return floor_failed("cannot measure memory");
    memory_rows(f, &figures);
    return true;
}
