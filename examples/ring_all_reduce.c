/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An all-reduce made of rcm_isend and rcm_irecv: the ring (Patarasuk and Yuan 2009), compared with
 * rcm_all_reduce in results and time.
 *
 *     ringcomm-run -n 4 -- ./ring_all_reduce [MEGABYTES]
 *
 * The array is cut into as many chunks as there are ranks, c0..c3 for four. In each step every rank
 * sends one chunk to its right neighbour and receives one from its left. First n-1 steps of
 * "receive and add", after which rank r holds the finished chunk r+1:
 *
 *     step   rank 0 sends   rank 1 sends   rank 2 sends   rank 3 sends
 *      0         c0             c1             c2             c3
 *      1         c3             c0             c1             c2          (received in step 0,
 *      2         c2             c3             c0             c1           own data added)
 *
 * then n-1 steps of "receive and keep" pass the finished chunks on. Each rank sends and receives
 * 2 (n-1)/n of the array, the least possible for any n.
 *
 * There is no deadlock: a step posts its receives and sends before it waits for any of them, and a
 * send needs only the neighbour's receive of the same step. A chunk is SLICES messages, so one
 * slice is added while the next arrives.
 */
#include <ringcomm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLICES 4
#define ROUNDS 7

struct ring {
    rcm_comm *comm;
    int rank, size;
    float *scratch; /* one chunk: what is received before it is added */
};

/* The library sends the error to the other ranks. */
static void check(rcm_status status, const char *what) {
    if (status == RCM_OK)
        return;
    fprintf(stderr, "ring_all_reduce: %s: %s\n", what, rcm_last_error());
    exit(1);
}

/* Where the i-th of n nearly equal parts of count elements begins. */
static size_t part_begin(size_t count, size_t n, size_t i) {
    return count / n * i + (i < count % n ? i : count % n);
}

static void work_finish(rcm_work *work, const char *what) {
    check(rcm_work_wait(work, -1), what);
    rcm_work_free(work);
}

/* One step: chunk `out` goes right, chunk `in` comes from the left and is added, or kept. */
static void ring_step(struct ring *ring, float *data, size_t count, int out, int in, int add) {
    const size_t n = (size_t)ring->size;
    const int right = (ring->rank + 1) % ring->size;
    const int left = (ring->rank + ring->size - 1) % ring->size;
    const size_t out_begin = part_begin(count, n, (size_t)out);
    const size_t out_count = part_begin(count, n, (size_t)out + 1) - out_begin;
    const size_t in_begin = part_begin(count, n, (size_t)in);
    const size_t in_count = part_begin(count, n, (size_t)in + 1) - in_begin;
    float *target = add ? ring->scratch : data + in_begin;
    rcm_work *receives[SLICES], *sends[SLICES];

    for (size_t s = 0; s < SLICES; s++) {
        size_t begin = part_begin(in_count, SLICES, s), end = part_begin(in_count, SLICES, s + 1);
        check(
            rcm_irecv(ring->comm, target + begin, end - begin, RCM_FLOAT32, left, s, &receives[s]),
            "irecv");
    }
    for (size_t s = 0; s < SLICES; s++) {
        size_t begin = part_begin(out_count, SLICES, s), end = part_begin(out_count, SLICES, s + 1);
        check(rcm_isend(ring->comm, data + out_begin + begin, end - begin, RCM_FLOAT32, right, s,
                        &sends[s]),
              "isend");
    }
    for (size_t s = 0; s < SLICES; s++) {
        size_t begin = part_begin(in_count, SLICES, s), end = part_begin(in_count, SLICES, s + 1);
        work_finish(receives[s], "receive");
        for (size_t i = begin; add && i < end; i++)
            data[in_begin + i] += target[i];
    }
    for (size_t s = 0; s < SLICES; s++)
        work_finish(sends[s], "send");
}

/* data on every rank becomes the sum of data of all ranks. */
static void ring_all_reduce(struct ring *ring, float *data, size_t count) {
    const int n = ring->size, r = ring->rank;
    for (int step = 0; step < n - 1; step++)
        ring_step(ring, data, count, (r - step + n) % n, (r - step - 1 + n) % n, 1);
    for (int step = 0; step < n - 1; step++)
        ring_step(ring, data, count, (r + 1 - step + n) % n, (r - step + n) % n, 0);
}

/* Small whole numbers: every order of additions gives the same sum. */
static void fill(float *data, size_t count, int rank) {
    for (size_t i = 0; i < count; i++)
        data[i] = (float)((i + (size_t)rank * 7) % 1000);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Best time of a few rounds; data hold the sum afterwards. */
static double measure(struct ring *ring, float *data, size_t count, int library) {
    double best = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        fill(data, count, ring->rank);
        check(rcm_barrier(ring->comm, NULL, NULL), "barrier");
        double start = now();
        if (library)
            check(rcm_all_reduce(ring->comm, data, data, count, RCM_FLOAT32, RCM_SUM, NULL, NULL),
                  "all_reduce");
        else
            ring_all_reduce(ring, data, count);
        double elapsed = now() - start;
        best = elapsed < best ? elapsed : best;
    }
    return best;
}

static void report(const struct ring *ring, const char *name, size_t bytes, double seconds) {
    double moved = 2.0 * (ring->size - 1) / ring->size * (double)bytes;
    if (ring->rank == 0)
        printf("%-16s %10.1f us   bus bandwidth %6.2f GB/s\n", name, seconds * 1e6,
               moved / seconds * 1e-9);
}

int main(int argc, char **argv) {
    const long megabytes = argc > 1 ? strtol(argv[1], NULL, 10) : 16;
    if (argc > 2 || megabytes < 1 || megabytes > 4096) {
        fprintf(stderr, "usage: ring_all_reduce [MEGABYTES, 1 to 4096]\n");
        return 2;
    }
    struct ring ring = {0};
    check(rcm_init(NULL, &ring.comm), "init");
    ring.rank = rcm_rank(ring.comm);
    ring.size = rcm_size(ring.comm);

    /* Not divisible by the number of ranks, on purpose. */
    const size_t count = (size_t)megabytes * (1 << 20) / sizeof(float) + 3;
    float *mine = malloc(count * sizeof *mine), *theirs = malloc(count * sizeof *theirs);
    ring.scratch = malloc((count / (size_t)ring.size + 1) * sizeof *ring.scratch);
    if (!mine || !theirs || !ring.scratch) {
        fprintf(stderr, "ring_all_reduce: no memory for %ld megabytes\n", megabytes);
        return 1;
    }
    double ring_time = measure(&ring, mine, count, 0);
    double library_time = measure(&ring, theirs, count, 1);
    int32_t wrong = memcmp(mine, theirs, count * sizeof *mine) != 0, anywhere;
    check(rcm_all_reduce(ring.comm, &wrong, &anywhere, 1, RCM_INT32, RCM_MAX, NULL, NULL),
          "all_reduce");

    report(&ring, "this ring", count * sizeof *mine, ring_time);
    report(&ring, "rcm_all_reduce", count * sizeof *mine, library_time);
    if (ring.rank == 0)
        printf("%s\n", anywhere ? "the results DIFFER" : "the results are equal on every rank");
    free(mine);
    free(theirs);
    free(ring.scratch);
    check(rcm_destroy(ring.comm), "destroy");
    return anywhere;
}
