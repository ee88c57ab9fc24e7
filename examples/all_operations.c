/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives of equal blocks and of objects, each in a few lines, on any number of ranks.
 * Objects are text here. Not here: messages (point_to_point.c, any_source.c), groups (groups.c),
 * and scans.
 *
 *     ringcomm-run -n 2 -- ./all_operations
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ringcomm.h>

enum { N = 3, RANKS_MAX = 64 };

static int rank, size;

/* Ends the program with the reason if a call failed. */
static void check(rcm_status status) {
    if (status != RCM_OK)
        errx(1, "rank %d: %s: %s", rank, rcm_status_name(status), rcm_last_error());
}

/* "[Rank 1] Broadcast result: [1, 2, 3]", in one call of printf, so lines stay whole. */
static void show(const char *what, const float *values, size_t n) {
    char text[4096];
    size_t used = 0;
    for (size_t i = 0; i < n && used < sizeof(text) - 32; i++)
        used +=
            (size_t)snprintf(text + used, sizeof(text) - used, "%s%g", i ? ", " : "", values[i]);
    printf("[Rank %d] %s: [%.*s]\n", rank, what, (int)used, text);
}

static void show_objects(const char *what, const struct rcm_bytes *objects) {
    char text[4096] = "";
    size_t used = 0;
    for (size_t i = 0; objects && i < objects->n && used < sizeof(text) - 64; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%.*s", i ? ", " : "",
                                 (int)(objects->offsets[i + 1] - objects->offsets[i]),
                                 (const char *)objects->data + objects->offsets[i]);
    printf("[Rank %d] %s: [%s]\n", rank, what, text);
}

/* ---- From one to all, and back --------------------------------------------------------------- */

static void broadcasts(rcm_comm *comm, float *tensor) {
    char object[32];
    struct rcm_bytes *objects;
    for (int i = 0; i < N; i++)
        tensor[i] = rank == 0 ? (float)(i + 1) : 0;
    check(rcm_broadcast(comm, tensor, N, RCM_FLOAT32, 0, NULL, NULL));
    show("Broadcast result", tensor, N);
    const int length = snprintf(object, sizeof(object), "{rank: %d}", rank);
    check(rcm_broadcast_bytes(comm, object, (size_t)length, 0, &objects, NULL, NULL));
    if (rank == 0) /* has them already */
        printf("[Rank 0] Broadcast objects: [%s]\n", object);
    else
        show_objects("Broadcast objects", objects);
    free(objects);
}

static void reductions(rcm_comm *comm, float *tensor) {
    float largest[N];
    check(rcm_all_reduce(comm, tensor, tensor, N, RCM_FLOAT32, RCM_SUM, NULL, NULL));
    show("All_reduce SUM", tensor, N);
    check(rcm_reduce(comm, tensor, largest, N, RCM_FLOAT32, RCM_MAX, 0, NULL, NULL));
    if (rank == 0)
        show("Reduce MAX result", largest, N);
}

static void gathers(rcm_comm *comm, const float *tensor) {
    static float each[RANKS_MAX][N], all[RANKS_MAX * N];
    void *list[RANKS_MAX];
    size_t counts[RANKS_MAX];
    char object[32];
    struct rcm_bytes *objects;
    const int length = snprintf(object, sizeof(object), "{rank: %d}", rank);
    for (int r = 0; r < size; r++) {
        list[r] = each[r];
        counts[r] = N;
    }
    check(rcm_all_gather_list(comm, tensor, N, list, counts, RCM_FLOAT32, NULL, NULL));
    show("All_gather results, of the last rank", each[size - 1], N);
    check(rcm_all_gather(comm, tensor, all, N, RCM_FLOAT32, NULL, NULL));
    show("All_gather_into_tensor", all, (size_t)size * N);
    check(rcm_all_gather_bytes(comm, object, (size_t)length, &objects, NULL, NULL));
    show_objects("All_gather_object", objects);
    free(objects);
    check(rcm_gather_list(comm, tensor, N, list, counts, RCM_FLOAT32, 0, NULL, NULL));
    if (rank == 0)
        show("Gather results, of the last rank", each[size - 1], N);
    check(rcm_gather_bytes(comm, object, (size_t)length, 0, &objects, NULL, NULL));
    if (rank == 0)
        show_objects("Gather_object results", objects);
    free(objects);
}

static void scatters(rcm_comm *comm) {
    static float blocks[RANKS_MAX * N];
    static char texts[RANKS_MAX][32];
    const void *list[RANKS_MAX];
    size_t lengths[RANKS_MAX];
    float mine[N];
    struct rcm_bytes *object;
    for (int r = 0; r < size; r++) {
        for (int i = 0; i < N; i++)
            blocks[r * N + i] = (float)(r + i);
        lengths[r] = (size_t)snprintf(texts[r], sizeof(texts[r]), "{src: %d, data: data_%d}", r, r);
        list[r] = texts[r];
    }
    check(rcm_scatter(comm, blocks, mine, N, RCM_FLOAT32, 0, NULL, NULL));
    show("Scatter received", mine, N);
    check(rcm_scatter_bytes(comm, list, lengths, 0, &object, NULL, NULL));
    show_objects("Scatter_object received", object);
    free(object);
}

/* ---- From all to all ------------------------------------------------------------------------- */

static void reduce_scatters(rcm_comm *comm) {
    static float each[RANKS_MAX][N], all[RANKS_MAX * N];
    const void *list[RANKS_MAX];
    size_t counts[RANKS_MAX];
    float mine[N];
    for (int r = 0; r < size; r++) {
        list[r] = each[r];
        counts[r] = N;
        for (int i = 0; i < N; i++) {
            each[r][i] = (float)(r + 1);
            all[r * N + i] = (float)(r * N + i);
        }
    }
    check(rcm_reduce_scatter_list(comm, list, counts, mine, N, RCM_FLOAT32, RCM_SUM, NULL, NULL));
    show("Reduce_scatter result", mine, N);
    check(rcm_reduce_scatter(comm, all, mine, N, RCM_FLOAT32, RCM_SUM, NULL, NULL));
    show("Reduce_scatter_tensor result", mine, N);
}

static void all_to_alls(rcm_comm *comm) {
    static float in[RANKS_MAX * N], out[RANKS_MAX * N], to[RANKS_MAX], from[RANKS_MAX];
    const void *send[RANKS_MAX];
    void *recv[RANKS_MAX];
    size_t counts[RANKS_MAX];
    for (int i = 0; i < size * N; i++)
        in[i] = (float)i;
    check(rcm_all_to_all(comm, in, out, N, RCM_FLOAT32, NULL, NULL));
    show("All_to_all_single output", out, (size_t)size * N);
    for (int r = 0; r < size; r++) {
        to[r] = (float)(10 * rank + r);
        send[r] = &to[r];
        recv[r] = &from[r];
        counts[r] = 1;
    }
    check(rcm_all_to_all_list(comm, send, counts, recv, counts, RCM_FLOAT32, NULL, NULL));
    show("All_to_all output", from, (size_t)size);
}

static void asynchronous(rcm_comm *comm) {
    const float mine[N] = {1, 2, 3};
    float sum[N];
    rcm_work *work;
    check(rcm_all_reduce(comm, mine, sum, N, RCM_FLOAT32, RCM_SUM, NULL, &work));
    /* ... whatever else there is to do ... */
    check(rcm_work_wait(work, -1));
    rcm_work_free(work);
    show("Async op result", sum, N);
}

int main(void) {
    rcm_comm *comm;
    float tensor[N];
    check(rcm_init(NULL, &comm));
    rank = rcm_rank(comm);
    size = rcm_size(comm);
    if (size > RANKS_MAX)
        errx(1, "at most %d ranks", RANKS_MAX);
    printf("[Rank %d] Initialized, of %d\n", rank, size);
    broadcasts(comm, tensor);
    reductions(comm, tensor);
    gathers(comm, tensor);
    scatters(comm);
    reduce_scatters(comm);
    all_to_alls(comm);
    check(rcm_barrier(comm, NULL, NULL));
    printf("[Rank %d] Barrier passed\n", rank);
    asynchronous(comm);
    check(rcm_destroy(comm));
    printf("[Rank %d] Communicator destroyed\n", rank);
    return 0;
}
