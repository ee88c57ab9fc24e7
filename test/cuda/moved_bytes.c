/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes that operations move, counted by the emulator. Where ranks read each other's device
 * memory, nothing goes through host memory. An all_reduce of registered memory moves only what the
 * algorithm needs: each of R ranks reads its part of R inputs and writes it, and reads and writes
 * R-1 parts of results: (3R - 1) n bytes.
 *
 *     moved_bytes RANKS
 */
#include <stdio.h>
#include <string.h>
#include "stream_bench.h"
#include "emulator_counts.h"

enum { COUNT = 60000, REPEAT = 2 };

/* Bytes read and written by all ranks: in host memory, and in any memory. */
struct sums {
    int64_t host, all;
};

static struct sums sums_of(const struct bench *b) {
    const struct fakecuda_counts c = emulator_counts();
    const int64_t host = (int64_t)(c.host.read + c.host.written);
    int64_t mine[2] = {host, host + (int64_t)(c.device.read + c.device.written + c.imported.read +
                                              c.imported.written)};
    int64_t got[2] = {0};
    if (rcm_all_reduce(b->comm, mine, got, 2, RCM_INT64, RCM_SUM, NULL, NULL) != RCM_OK)
        abort();
    return (struct sums){got[0], got[1]};
}

/* Includes a barrier, so that work of other ranks is counted too. */
static struct sums measure(const struct bench *b, size_t k, int *errors) {
    const struct sums before = sums_of(b);
    for (int i = 0; i < REPEAT; i++)
        CHECK(*errors, bench_operations[k].call(b, b->in, b->out, NULL) == RCM_OK, "%s",
              rcm_last_error());
    CHECK(*errors, rcm_barrier(b->comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    const struct sums after = sums_of(b);
    return (struct sums){after.host - before.host, after.all - before.all};
}

/* Short messages and messages from or to host memory go through host memory. */
static bool is_served(const char *name) {
    return strcmp(name, "tags") != 0 && strcmp(name, "relay") != 0 && has_device_backend();
}

static bool is_all_reduce(const char *name) {
    return strncmp(name, "all_reduce", strlen("all_reduce")) == 0;
}

/* Blocks go directly to or from the root, without a slot. */
static bool moves_less(const char *name) {
    return strcmp(name, "gather_v") == 0 || strcmp(name, "scatter_v") == 0;
}

static int check_operation(const struct bench *b, size_t k) {
    const int64_t ranks = rcm_size(b->comm), n = (int64_t)COUNT * 4 * REPEAT;
    int errors = 0;
    (void)measure(b, k, &errors); /* opens the device planes */
    const struct sums moved = measure(b, k, &errors);
    CHECK(errors, moved.all >= (moves_less(bench_operations[k].name) ? n / 2 : n), "%s: %lld bytes",
          bench_operations[k].name, (long long)moved.all);
    if (!is_served(bench_operations[k].name))
        return errors;
    CHECK(errors, moved.host == 0, "%s: %lld of %lld bytes through the host's memory",
          bench_operations[k].name, (long long)moved.host, (long long)moved.all);
    CHECK(errors, !is_all_reduce(bench_operations[k].name) || moved.all <= (3 * ranks - 1) * n,
          "%s of %d ranks: %lld bytes are %.2f n", bench_operations[k].name, (int)ranks,
          (long long)moved.all, (double)moved.all / (double)n);
    return errors;
}

static int check(rcm_comm *comm, void *arg) {
    struct bench b;
    int errors = bench_begin(&b, comm, (size_t)COUNT * 4);
    (void)arg;
    b.dtype = RCM_INT32;
    b.count = COUNT;
    for (size_t k = 0; k < bench_operations_count && !errors; k++)
        errors += check_operation(&b, k);
    return errors + (b.cuda ? bench_end(&b) : 0);
}

int main(int argc, char **argv) {
    const struct ranks ranks = {
        .n = argc > 1 ? atoi(argv[1]) : 2, .transport = "auto", .timeout_ms = 120000};
    return ranks_run(&ranks, check, NULL) ? 1 : 0;
}
