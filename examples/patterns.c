/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Patterns of communication, on text. In a pipeline each stage adds its letter and sends the text
 * on. Then each collective runs on blocks of two characters: the letter of the rank and the number
 * of the block. Rank 0 and the last rank print the results.
 *
 *     ringcomm-run -n 4 -- ./patterns
 */
#include <err.h>
#include <stdio.h>
#include <string.h>
#include <ringcomm.h>

enum { RANKS_MAX = 26, BLOCK = 2 };

static int rank, size;
static char in[RANKS_MAX * BLOCK + 1], out[RANKS_MAX * BLOCK + 1];

static void check(rcm_status status) {
    if (status != RCM_OK)
        errx(1, "rank %d: %s: %s", rank, rcm_status_name(status), rcm_last_error());
}

/* in: A0A1A2 on rank 0, B0B1B2 on rank 1; out: dots. */
static void fill(void) {
    memset(out, '.', sizeof(out) - 1);
    for (int i = 0; i < size; i++) {
        in[BLOCK * i] = (char)('A' + rank);
        in[BLOCK * i + 1] = (char)('0' + i % 10);
    }
}

static void show(const char *pattern, int blocks) {
    if (rank == 0 || rank == size - 1)
        printf("%s, rank %d: %.*s\n", pattern, rank, BLOCK * blocks, out);
}

/* Each stage receives from the stage before it and sends to the stage after it. */
static void pipeline(rcm_comm *comm) {
    struct rcm_call call = RCM_CALL_INIT;
    char text[RANKS_MAX + 1] = "";
    call.timeout_ms = 30000;
    if (rank > 0)
        check(rcm_recv(comm, text, RANKS_MAX, RCM_UINT8, rank - 1, 0, &call, NULL));
    text[rank] = (char)('A' + rank);
    if (rank < size - 1)
        check(rcm_send(comm, text, RANKS_MAX, RCM_UINT8, rank + 1, 0, &call, NULL));
    else
        printf("pipeline, rank %d: %s\n", rank, text);
}

static void one_and_all(rcm_comm *comm) {
    fill();
    memcpy(out, in, BLOCK);
    check(rcm_broadcast(comm, out, BLOCK, RCM_UINT8, 0, NULL, NULL));
    show("broadcast", 1);
    fill();
    check(rcm_scatter(comm, in, out, BLOCK, RCM_UINT8, 0, NULL, NULL));
    show("scatter", 1);
    fill();
    check(rcm_gather(comm, in, out, BLOCK, RCM_UINT8, 0, NULL, NULL));
    show("gather", size);
    fill();
    check(rcm_reduce(comm, in, out, BLOCK, RCM_UINT8, RCM_MAX, 0, NULL, NULL));
    show("reduce, max", 1);
}

static void all_and_all(rcm_comm *comm) {
    fill();
    check(rcm_all_gather(comm, in, out, BLOCK, RCM_UINT8, NULL, NULL));
    show("all_gather", size);
    fill();
    check(rcm_all_reduce(comm, in, out, BLOCK, RCM_UINT8, RCM_MIN, NULL, NULL));
    show("all_reduce, min", 1);
    fill();
    check(rcm_reduce_scatter(comm, in, out, BLOCK, RCM_UINT8, RCM_MAX, NULL, NULL));
    show("reduce_scatter, max", 1);
    fill();
    check(rcm_all_to_all(comm, in, out, BLOCK, RCM_UINT8, NULL, NULL));
    show("all_to_all", size);
    check(rcm_barrier(comm, NULL, NULL));
}

int main(void) {
    rcm_comm *comm;
    check(rcm_init(NULL, &comm));
    rank = rcm_rank(comm);
    size = rcm_size(comm);
    if (size > RANKS_MAX)
        errx(1, "at most %d ranks", RANKS_MAX);
    pipeline(comm);
    one_and_all(comm);
    all_and_all(comm);
    check(rcm_destroy(comm));
    return 0;
}
