/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators with Cartesian topologies, those that are made in the background, and many that are
 * made and freed, for any number of ranks. */
#include <stddef.h>
#include "job.h"

static int class_of(int code) {
    int class = -1;
    MPI_Error_class(code, &class);
    return class;
}

/* A ring of all ranks, and a grid of one column that is no ring. */
static void test_ring(void) {
    MPI_Comm ring;
    const int one[2] = {job_size, 1}, periods[2] = {1, 0};
    int dims[2], cycles[2], coords[2], n, source, destination, at;
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, one, periods, 1, &ring));
    OK(MPI_Topo_test(ring, &n));
    CHECK(n == MPI_CART);
    OK(MPI_Cartdim_get(ring, &n));
    CHECK(n == 2);
    OK(MPI_Cart_get(ring, 2, dims, cycles, coords));
    CHECK(dims[0] == job_size && dims[1] == 1 && cycles[0] == 1 && cycles[1] == 0);
    CHECK(coords[0] == job_rank && coords[1] == 0);
    OK(MPI_Cart_shift(ring, 0, 1, &source, &destination));
    CHECK(source == (job_rank + job_size - 1) % job_size);
    CHECK(destination == (job_rank + 1) % job_size);
    OK(MPI_Cart_shift(ring, 0, -job_size - 1, &source, &destination));
    CHECK(source == (job_rank + 1) % job_size);
    OK(MPI_Cart_shift(ring, 1, 1, &source, &destination));
    CHECK(source == MPI_PROC_NULL && destination == MPI_PROC_NULL);
    OK(MPI_Cart_coords(ring, job_size - 1, 2, coords));
    CHECK(coords[0] == job_size - 1 && coords[1] == 0);
    coords[0] = -1;
    OK(MPI_Cart_rank(ring, coords, &at));
    CHECK(at == job_size - 1);
    OK(MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN));
    coords[1] = 1;
    CHECK(class_of(MPI_Cart_rank(ring, coords, &at)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Cart_shift(ring, 2, 1, &source, &destination)) == MPI_ERR_DIMS);
    CHECK(class_of(MPI_Cart_get(ring, 1, dims, cycles, coords)) == MPI_ERR_DIMS);
    OK(MPI_Comm_free(&ring));
}

/* Grids that have fewer places than there are ranks, and the parts of a grid. */
static void test_parts(void) {
    MPI_Comm grid, part, copy;
    const int dims[2] = {job_size > 1 ? job_size - 1 : 1, 1}, periods[2] = {0, 0}, more = 99;
    const int keep[2][2] = {{0, 1}, {1, 0}}, none[2] = {0, 0};
    int n, at;
    OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &grid));
    CHECK((grid == MPI_COMM_NULL) == (job_rank >= dims[0]));
    OK(MPI_Cart_map(MPI_COMM_WORLD, 2, dims, periods, &at));
    CHECK(at == (job_rank < dims[0] ? job_rank : MPI_UNDEFINED));
    for (int i = 0; i < 2 && grid != MPI_COMM_NULL; i++) {
        OK(MPI_Comm_dup(grid, &copy));
        OK(MPI_Cart_sub(copy, keep[i], &part));
        OK(MPI_Comm_size(part, &n));
        CHECK(n == (i ? dims[0] : 1));
        OK(MPI_Cartdim_get(part, &n));
        CHECK(n == 1);
        OK(MPI_Comm_free(&part));
        OK(MPI_Comm_free(&copy));
    }
    if (grid != MPI_COMM_NULL) {
        OK(MPI_Cart_sub(grid, none, &part));
        OK(MPI_Cartdim_get(part, &n));
        CHECK(n == 0);
        OK(MPI_Comm_free(&part));
        OK(MPI_Comm_free(&grid));
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK(class_of(MPI_Cart_create(MPI_COMM_WORLD, 1, &more, periods, 0, &grid)) == MPI_ERR_DIMS);
    CHECK(class_of(MPI_Cartdim_get(MPI_COMM_WORLD, &n)) == MPI_ERR_TOPOLOGY);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Topo_test(MPI_COMM_WORLD, &n));
    CHECK(n == MPI_UNDEFINED);
}

static void test_dims(void) {
    static const struct {
        int nodes, ndims, before[3], after[3];
    } cases[] = {
        {6, 2, {0, 0}, {3, 2}},        {7, 3, {0, 0, 0}, {7, 1, 1}},
        {6, 3, {0, 3, 0}, {2, 3, 1}},  {30, 3, {0, 0, 0}, {5, 3, 2}},
        {16, 3, {0, 0, 0}, {4, 2, 2}}, {1, 1, {0}, {1}},
        {12, 2, {0, 4}, {3, 4}},       {4, 1, {4}, {4}},
        {1620, 3, {0}, {15, 12, 9}},   {5040, 3, {0}, {21, 16, 15}},
    };
    int dims[2] = {5, 0};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        int made[3];
        for (int i = 0; i < 3; i++)
            made[i] = cases[k].before[i];
        OK(MPI_Dims_create(cases[k].nodes, cases[k].ndims, made));
        for (int i = 0; i < cases[k].ndims; i++)
            CHECK(made[i] == cases[k].after[i]);
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK(class_of(MPI_Dims_create(6, 2, dims)) == MPI_ERR_DIMS);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

/* Several duplicates at the same time, waited for in all ways, beside a message. */
static void test_background(void) {
    enum { N = 4 };
    MPI_Comm made[N];
    MPI_Request requests[N + 1];
    int index, flag = 0, got = -1, sum = 0, value = job_rank;
    for (int i = 0; i < N; i++)
        OK(MPI_Comm_idup(MPI_COMM_WORLD, &made[i], &requests[i]));
    OK(MPI_Irecv(&got, 1, MPI_INT, (job_rank + job_size - 1) % job_size, 1, MPI_COMM_WORLD,
                 &requests[N]));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    while (!flag)
        OK(MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE));
    OK(MPI_Send(&value, 1, MPI_INT, (job_rank + 1) % job_size, 1, MPI_COMM_WORLD));
    for (int i = 0; i < N - 1; i++) {
        OK(MPI_Waitany(N + 1, requests, &index, MPI_STATUS_IGNORE));
        CHECK(index >= 2 && index <= N);
    }
    OK(MPI_Waitany(N + 1, requests, &index, MPI_STATUS_IGNORE));
    CHECK(index == MPI_UNDEFINED && got == (job_rank + job_size - 1) % job_size);
    for (int i = 0; i < N; i++) {
        OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, made[i]));
        CHECK(sum == job_size * (job_size - 1) / 2);
        OK(MPI_Comm_free(&made[i]));
        CHECK(made[i] == MPI_COMM_NULL);
    }
}

/* A duplicate of a communicator that is freed before the duplicate is made. */
static void test_freed_parent(void) {
    MPI_Comm parent, made;
    MPI_Request request;
    int value = 1, sum = 0;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    OK(MPI_Comm_idup(parent, &made, &request));
    OK(MPI_Comm_free(&parent));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, made));
    CHECK(sum == job_size);
    OK(MPI_Comm_free(&made));
}

/* Messages in flight on a communicator that is freed: they arrive, although their sender may be
 * done with it first. The requests are waited for, or freed, or copied to a buffer. */
static void test_freed_with_messages(int count) {
    enum { N = 64 * 1024 };
    static int sent[N], got[3 * N];
    static char buffer[N * sizeof(int) + MPI_BSEND_OVERHEAD];
    MPI_Request requests[3], sending;
    MPI_Comm made;
    const int right = (job_rank + 1) % job_size, left = (job_rank + job_size - 1) % job_size;
    for (int i = 0; i < count; i++)
        sent[i] = job_rank + i;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &made));
    OK(MPI_Buffer_attach(buffer, sizeof buffer));
    for (int i = 0; i < 3; i++)
        OK(MPI_Irecv(got + i * count, count, MPI_INT, left, i, made, &requests[i]));
    OK(MPI_Isend(sent, count, MPI_INT, right, 0, made, &sending));
    OK(MPI_Request_free(&sending));
    OK(MPI_Bsend(sent, count, MPI_INT, right, 1, made));
    OK(MPI_Isend(sent, count, MPI_INT, right, 2, made, &sending));
    OK(MPI_Comm_free(&made));
    OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Wait(&sending, MPI_STATUS_IGNORE));
    for (int i = 0; i < 3 * count; i++)
        CHECK(got[i] == left + i % count);
    void *detached;
    int size;
    OK(MPI_Buffer_detach(&detached, &size));
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* what MPI_Request_free left has arrived */
}

/* A receive that is canceled after all other ranks have left, beside one whose message comes late.
 */
static void test_canceled_late(void) {
    MPI_Comm made;
    MPI_Request requests[2];
    MPI_Status status;
    int flag, got = 0, value = job_rank, late = 0;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &made));
    OK(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, made, &requests[0]));
    OK(MPI_Irecv(&got, 1, MPI_INT, (job_rank + 1) % job_size, 2, made, &requests[1]));
    OK(MPI_Send(&value, 1, MPI_INT, (job_rank + job_size - 1) % job_size, 2, made));
    if (job_rank == 0) {
        for (double end = MPI_Wtime() + 0.3; MPI_Wtime() < end;)
            OK(MPI_Test(&requests[0], &late, MPI_STATUS_IGNORE));
        CHECK(!late);
    }
    OK(MPI_Wait(&requests[1], &status));
    OK(MPI_Cancel(&requests[0]));
    OK(MPI_Wait(&requests[0], &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag && got == (job_rank + 1) % job_size);
    OK(MPI_Comm_free(&made));
}

/* The last operation of a communicator ends after all calls of the program but MPI_Finalize. */
static void test_ended_in_finalize(void) {
    static int large[256 * 1024], got[256 * 1024];
    MPI_Comm made;
    MPI_Request sending, receiving;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &made));
    OK(MPI_Irecv(got, 256 * 1024, MPI_INT, (job_rank + 1) % job_size, 1, made, &receiving));
    OK(MPI_Isend(large, 256 * 1024, MPI_INT, (job_rank + job_size - 1) % job_size, 1, made,
                 &sending));
    OK(MPI_Request_free(&sending));
    OK(MPI_Request_free(&receiving));
    OK(MPI_Comm_free(&made));
}

/* Ranks free a communicator at once after their part of an operation. */
static void test_freed_early(void) {
    MPI_Comm made;
    int value, sum;
    for (int turn = 0; turn < 20; turn++) {
        OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -job_rank, &made));
        value = turn;
        OK(MPI_Bcast(&value, 1, MPI_INT, turn % job_size, made));
        CHECK(value == turn);
        if (turn % 2)
            OK(MPI_Reduce(&value, &sum, 1, MPI_INT, MPI_SUM, turn % job_size, made));
        OK(MPI_Comm_free(&made));
    }
}

/* So many at a time that none may cost a thread. */
static void test_many(void) {
    enum { N = 300 };
    MPI_Comm made[N];
    for (int i = 0; i < N; i++)
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &made[i]));
    for (int i = 0; i < N; i++)
        OK(MPI_Comm_free(&made[job_rank % 2 ? i : N - 1 - i]));
}

int main(int argc, char **argv) {
    job_begin(&argc, &argv);
    test_ring();
    test_parts();
    test_dims();
    test_background();
    test_freed_parent();
    test_freed_with_messages(1);
    test_freed_with_messages(64 * 1024);
    test_freed_early();
    test_canceled_late();
    test_many();
    test_ended_in_finalize();
    return job_end();
}
