/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives of MPI that move data, for any number of ranks: blocking, non-blocking, persistent,
 * with large counts, in place. */
#include <stdlib.h>
#include <string.h>
#include "job.h"

enum { RANKS_MAX = 8, BLOCK = 3 };

static int value_of(int rank, int block, int i) {
    return 10000 * rank + 100 * block + i;
}

/* Starts a persistent request, waits, and frees it. */
static void run_once(MPI_Request request) {
    for (int i = 0; i < 2; i++) {
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    OK(MPI_Request_free(&request));
}

static void fill(int *all) {
    for (int b = 0; b < job_size; b++)
        for (int i = 0; i < BLOCK; i++)
            all[b * BLOCK + i] = value_of(job_rank, b, i);
}

static void test_broadcast(void) {
    for (int root = 0; root < job_size; root++)
        for (int form = 0; form < 4; form++) {
            double values[5] = {0};
            MPI_Request request;
            for (int i = 0; i < 5 && job_rank == root; i++)
                values[i] = root + 0.5 * i;
            if (form == 0) {
                OK(MPI_Bcast(values, 5, MPI_DOUBLE, root, MPI_COMM_WORLD));
            } else if (form == 1) {
                OK(MPI_Ibcast(values, 5, MPI_DOUBLE, root, MPI_COMM_WORLD, &request));
                OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            } else if (form == 2) {
                OK(MPI_Bcast_c(values, 5, MPI_DOUBLE, root, MPI_COMM_WORLD));
            } else {
                OK(MPI_Bcast_init(values, 5, MPI_DOUBLE, root, MPI_COMM_WORLD, MPI_INFO_NULL,
                                  &request));
                run_once(request);
            }
            CHECK(values[0] == root && values[4] == root + 2.0);
        }
}

static void test_gather_scatter(void) {
    int all[RANKS_MAX * BLOCK], part[BLOCK];
    for (int root = 0; root < job_size; root++)
        for (int in_place = 0; in_place < 2; in_place++) {
            const int is_root = job_rank == root;
            memset(all, 0, sizeof all);
            for (int i = 0; i < BLOCK; i++)
                part[i] = value_of(job_rank, 0, i);
            if (in_place && is_root) {
                memcpy(all + root * BLOCK, part, sizeof part);
                OK(MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, BLOCK, MPI_INT, root,
                              MPI_COMM_WORLD));
            } else {
                OK(MPI_Gather(part, BLOCK, MPI_INT, is_root ? all : NULL, BLOCK, MPI_INT, root,
                              MPI_COMM_WORLD));
            }
            for (int r = 0; r < job_size && is_root; r++)
                CHECK(all[r * BLOCK + 2] == value_of(r, 0, 2));
            fill(all);
            memset(part, 0, sizeof part);
            if (in_place && is_root)
                OK(MPI_Scatter(all, BLOCK, MPI_INT, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, root,
                               MPI_COMM_WORLD));
            else
                OK(MPI_Scatter(is_root ? all : NULL, BLOCK, MPI_INT, part, BLOCK, MPI_INT, root,
                               MPI_COMM_WORLD));
            CHECK((in_place && is_root) || part[1] == value_of(root, job_rank, 1));
        }
}

static void test_all(void) {
    int all[RANKS_MAX * BLOCK], got[RANKS_MAX * BLOCK];
    MPI_Request request;
    for (int form = 0; form < 4; form++) {
        fill(all);
        memset(got, 0, sizeof got);
        if (form == 0) {
            OK(MPI_Alltoall(all, BLOCK, MPI_INT, got, BLOCK, MPI_INT, MPI_COMM_WORLD));
        } else if (form == 1) {
            memcpy(got, all, sizeof got);
            OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, got, BLOCK, MPI_INT,
                            MPI_COMM_WORLD));
        } else if (form == 2) {
            OK(MPI_Ialltoall(all, BLOCK, MPI_INT, got, BLOCK, MPI_INT, MPI_COMM_WORLD, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            OK(MPI_Alltoall_init(all, BLOCK, MPI_INT, got, BLOCK, MPI_INT, MPI_COMM_WORLD,
                                 MPI_INFO_NULL, &request));
            run_once(request);
        }
        for (int r = 0; r < job_size; r++)
            CHECK(got[r * BLOCK + 1] == value_of(r, job_rank, 1));
        memset(got, 0, sizeof got);
        memcpy(got + job_rank * BLOCK, all, BLOCK * sizeof *all);
        if (form % 2)
            OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, got, BLOCK, MPI_INT,
                             MPI_COMM_WORLD));
        else
            OK(MPI_Allgather_c(all, BLOCK, MPI_INT, got, BLOCK, MPI_INT, MPI_COMM_WORLD));
        for (int r = 0; r < job_size; r++)
            CHECK(got[r * BLOCK + 2] == value_of(r, 0, 2));
    }
}

/* Rank r has r + 1 elements, at gaps of one element. */
static int uneven(int counts[], int displs[]) {
    int at = 0;
    for (int r = 0; r < job_size; r++) {
        counts[r] = r + 1;
        displs[r] = at;
        at += r + 2;
    }
    return at;
}

static void check_uneven(const int *got, const int *displs, int block) {
    for (int r = 0; r < job_size; r++)
        for (int i = 0; i <= r; i++)
            CHECK(got[displs[r] + i] == value_of(r, block, i) && got[displs[r] + r + 1] == -1);
}

static void test_uneven(void) {
    int counts[RANKS_MAX], displs[RANKS_MAX], part[RANKS_MAX], got[64];
    const int total = uneven(counts, displs), root = job_size - 1;
    MPI_Request request;
    for (int i = 0; i <= job_rank; i++)
        part[i] = value_of(job_rank, 0, i);
    for (int form = 0; form < 3; form++) {
        memset(got, 0xff, sizeof got);
        if (form == 1) {
            memcpy(got + displs[job_rank], part, sizeof *part * (size_t)counts[job_rank]);
            OK(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, got, counts, displs, MPI_INT,
                              MPI_COMM_WORLD));
        } else if (form == 0) {
            OK(MPI_Allgatherv(part, job_rank + 1, MPI_INT, got, counts, displs, MPI_INT,
                              MPI_COMM_WORLD));
        } else { /* the arrays may be freed after the call */
            int copies[2][RANKS_MAX];
            memcpy(copies[0], counts, sizeof counts);
            memcpy(copies[1], displs, sizeof displs);
            OK(MPI_Allgatherv_init(part, job_rank + 1, MPI_INT, got, copies[0], copies[1], MPI_INT,
                                   MPI_COMM_WORLD, MPI_INFO_NULL, &request));
            memset(copies, 0xff, sizeof copies);
            run_once(request);
        }
        check_uneven(got, displs, 0);
    }
    memset(got, 0xff, sizeof got);
    OK(MPI_Gatherv(part, job_rank + 1, MPI_INT, got, counts, displs, MPI_INT, root,
                   MPI_COMM_WORLD));
    if (job_rank == root)
        check_uneven(got, displs, 0);
    for (int i = 0; i < total; i++)
        got[i] = i;
    OK(MPI_Scatterv(got, counts, displs, MPI_INT, part, job_rank + 1, MPI_INT, root,
                    MPI_COMM_WORLD));
    CHECK(part[0] == displs[job_rank] && part[job_rank] == displs[job_rank] + job_rank);
}

/* Rank r sends s + 1 elements to rank s. */
static void test_all_to_all_uneven(void) {
    int counts[RANKS_MAX], displs[RANKS_MAX], own[RANKS_MAX], places[RANKS_MAX],
        bytes[2][RANKS_MAX];
    int send[64], got[64];
    MPI_Datatype types[RANKS_MAX];
    uneven(counts, displs);
    for (int r = 0; r < job_size; r++) {
        own[r] = job_rank + 1;
        places[r] = r * (job_rank + 1);
        types[r] = MPI_INT;
        bytes[0][r] = displs[r] * (int)sizeof(int);
        bytes[1][r] = places[r] * (int)sizeof(int);
        for (int i = 0; i < counts[r]; i++)
            send[displs[r] + i] = value_of(job_rank, r, i);
    }
    for (int form = 0; form < 2; form++) {
        memset(got, 0, sizeof got);
        if (form == 0)
            OK(MPI_Alltoallv(send, counts, displs, MPI_INT, got, own, places, MPI_INT,
                             MPI_COMM_WORLD));
        else
            OK(MPI_Alltoallw(send, counts, bytes[0], types, got, own, bytes[1], types,
                             MPI_COMM_WORLD));
        for (int r = 0; r < job_size; r++)
            CHECK(got[places[r] + job_rank] == value_of(r, job_rank, job_rank));
    }
    for (int r = 0; r < job_size; r++) {
        own[r] = 1;
        got[r] = value_of(job_rank, r, 0);
        places[r] = r;
    }
    OK(MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, got, own, places, MPI_INT,
                     MPI_COMM_WORLD));
    for (int r = 0; r < job_size; r++)
        CHECK(got[r] == value_of(r, job_rank, 0));
}

/* Rank 0 sends one element to each rank, then gets one from each. The type of empty blocks does not
 * matter. */
static void test_empty_blocks(void) {
    int all[RANKS_MAX], none[RANKS_MAX] = {0}, first[RANKS_MAX] = {1}, displs[RANKS_MAX], value = 7,
                        got[RANKS_MAX] = {0};
    const int is_root = job_rank == 0;
    const MPI_Datatype other = is_root ? MPI_INT : MPI_BYTE;
    for (int r = 0; r < job_size; r++) {
        all[r] = 1;
        displs[r] = r;
    }
    OK(MPI_Alltoallv(&value, is_root ? all : none, none, other, got, first, displs, MPI_INT,
                     MPI_COMM_WORLD));
    CHECK(got[0] == 7);
    OK(MPI_Alltoallv(&value, first, none, MPI_INT, got, is_root ? all : none, displs, other,
                     MPI_COMM_WORLD));
    for (int r = 0; r < job_size; r++)
        CHECK(got[r] == 7 || (!is_root && r > 0));
    MPI_Datatype empty; /* an element of it is nothing, but it is still a type of ints */
    OK(MPI_Type_contiguous(0, MPI_INT, &empty));
    OK(MPI_Type_commit(&empty));
    OK(MPI_Alltoallv(&value, is_root ? all : none, none, is_root ? empty : MPI_INT, got, none,
                     displs, MPI_INT, MPI_COMM_WORLD));
    OK(MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, got, is_root ? all : none, none,
                     is_root ? empty : MPI_INT, MPI_COMM_WORLD));
    OK(MPI_Type_free(&empty));
}

static void test_barrier_and_communicators(void) {
    MPI_Request request;
    MPI_Comm duplicate, half;
    int rank, size, result, got = job_rank;
    OK(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &duplicate));
    OK(MPI_Comm_compare(MPI_COMM_WORLD, duplicate, &result));
    CHECK(result == MPI_CONGRUENT);
    OK(MPI_Comm_split(duplicate, job_rank % 2, -job_rank, &half));
    OK(MPI_Comm_rank(half, &rank));
    OK(MPI_Comm_size(half, &size));
    CHECK(size == (job_size + 1 - job_rank % 2) / 2 && rank == size - 1 - job_rank / 2);
    OK(MPI_Bcast(&got, 1, MPI_INT, 0, half));
    CHECK(got % 2 == job_rank % 2 && got >= job_size - 2);
    OK(MPI_Comm_free(&half));
    OK(MPI_Comm_free(&duplicate));
    CHECK(half == MPI_COMM_NULL);
    OK(MPI_Comm_split(MPI_COMM_WORLD, job_rank ? MPI_UNDEFINED : 0, 0, &half));
    CHECK((half == MPI_COMM_NULL) == (job_rank != 0));
    if (half != MPI_COMM_NULL)
        OK(MPI_Comm_free(&half));
    OK(MPI_Allgather(&job_rank, 1, MPI_INT, &got, 1, MPI_INT, MPI_COMM_SELF));
    CHECK(got == job_rank);
}

/* Arguments that only the root has: others may pass anything. */
static void test_root_counts(void) {
    const MPI_Count any = (MPI_Count)1 << 62, count = job_rank ? any : 1;
    int value = job_rank, got = -1, all[RANKS_MAX];
    OK(MPI_Gather_c(&value, 1, MPI_INT, all, count, MPI_INT, 0, MPI_COMM_WORLD));
    OK(MPI_Scatter_c(all, count, MPI_INT, &got, 1, MPI_INT, 0, MPI_COMM_WORLD));
    CHECK(got == job_rank);
}

/* No elements, of types that differ. */
static void test_empty(void) {
    const MPI_Datatype type = job_rank % 2 ? MPI_INT : MPI_DOUBLE;
    double in, out;
    OK(MPI_Bcast(&in, 0, type, 0, MPI_COMM_WORLD));
    OK(MPI_Gather(&in, 0, type, &out, 0, type, 0, MPI_COMM_WORLD));
    OK(MPI_Scatter(&in, 0, type, &out, 0, type, 0, MPI_COMM_WORLD));
    OK(MPI_Allgather(&in, 0, type, &out, 0, type, MPI_COMM_WORLD));
    OK(MPI_Alltoall(&in, 0, type, &out, 0, type, MPI_COMM_WORLD));
}

int main(int argc, char **argv) {
    job_begin(&argc, &argv);
    test_broadcast();
    test_gather_scatter();
    test_all();
    test_uneven();
    test_all_to_all_uneven();
    test_empty();
    test_empty_blocks();
    test_root_counts();
    test_barrier_and_communicators();
    return job_end();
}
