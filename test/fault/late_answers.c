/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that overlap on one channel: a short message of the next operation is not written
 * where the answer of a long one still comes. Sizes around the places of a slot
 * (transport/channel/fifo.h).
 */
#include "../coll/ranks.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOT = 32 << 10, ROUNDS = 60, WORKS = 8, LARGEST = 8 * SLOT / 4 };

static int32_t value_at(int rank, int round, int k, size_t i) {
    return (int32_t)(rank * 1000003 + round * 31 + k * 7 + (int)(i % 8191));
}

/* Long and short ones in turn. */
static size_t count_of(int round, int k) {
    const size_t bytes =
        k % 2 ? (size_t)(1 + (round + k) % 5) * 8192 : (size_t)(1 + round % 8) * SLOT;
    return bytes / sizeof(int32_t);
}

/* Sums in slots, which are answered, and blocks, which are not. */
static rcm_status issue(rcm_comm *comm, int round, int k, const int32_t *in, int32_t *out,
                        rcm_work **work) {
    struct rcm_call call = RCM_CALL_INIT;
    call.algorithm = k % 2 ? "pairwise" : "two_shot";
    return k % 2
               ? rcm_all_to_all(comm, in, out, count_of(round, k) / 2, RCM_INT32, &call, work)
               : rcm_all_reduce(comm, in, out, count_of(round, k), RCM_INT32, RCM_SUM, &call, work);
}

static int32_t right_at(int rank, int round, int k, size_t i) {
    const size_t block = count_of(round, k) / 2;
    return k % 2 ? value_at((int)(i / block), round, k, (size_t)rank * block + i % block)
                 : value_at(0, round, k, i) + value_at(1, round, k, i);
}

static int check(int rank, const int32_t *out, int round, int k) {
    int errors = 0;
    for (size_t i = 0; i < count_of(round, k) && errors == 0; i++)
        CHECK(errors, out[i] == right_at(rank, round, k, i),
              "round %d, operation %d, element %zu: %d instead of %d", round, k, i, out[i],
              right_at(rank, round, k, i));
    return errors;
}

static int round_run(rcm_comm *comm, int round, int32_t *in[WORKS], int32_t *out[WORKS]) {
    rcm_work *works[WORKS] = {NULL};
    int errors = 0;
    for (int k = 0; k < WORKS; k++)
        for (size_t i = 0; i < count_of(round, k); i++)
            in[k][i] = value_at(rcm_rank(comm), round, k, i);
    for (int k = 0; k < WORKS; k++)
        CHECK(errors, issue(comm, round, k, in[k], out[k], &works[k]) == RCM_OK, "%s",
              rcm_last_error());
    for (int k = 0; k < WORKS && errors == 0; k++) {
        CHECK(errors, rcm_work_wait(works[k], -1) == RCM_OK, "%s", rcm_last_error());
        rcm_work_free(works[k]);
        errors += check(rcm_rank(comm), out[k], round, k);
    }
    return errors;
}

static int run(rcm_comm *comm, void *arg) {
    int32_t *in[WORKS], *out[WORKS];
    int errors = 0;
    (void)arg;
    for (int k = 0; k < WORKS; k++) {
        in[k] = calloc(LARGEST, sizeof *in[k]);
        out[k] = calloc(LARGEST, sizeof *out[k]);
        CHECK(errors, in[k] && out[k], "no memory");
    }
    for (int round = 0; round < ROUNDS && errors == 0; round++)
        errors += round_run(comm, round, in, out);
    for (int k = 0; k < WORKS; k++) {
        free(in[k]);
        free(out[k]);
    }
    return errors;
}

int main(int argc, char **argv) {
    const char *transport = argc > 1 ? argv[1] : "shm";
    const struct ranks ranks = {.n = 2, .threads = true, .transport = transport};
    setenv("RINGCOMM_SLOT_BYTES", "32K", 1);
    setenv("RINGCOMM_CHAOS", strcmp(transport, "shm") == 0 ? "" : "seed=7,delay=300,often=2", 1);
    return ranks_run(&ranks, run, NULL) != 0;
}
