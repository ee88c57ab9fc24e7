/* SPDX-License-Identifier: BSD-3-Clause */
/* Reductions of MPI: all types with all operators, in place, user functions, non-commutative ones.
 */
#include <stdint.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include "job.h"

/* Sum, maximum, and a bitwise or, of one type on all ranks: rank r has r + 1 and r + 3. */
#define TEST_TYPE(TYPE, HANDLE, IS_INTEGER)                                                        \
    do {                                                                                           \
        const TYPE send[2] = {(TYPE)(job_rank + 1), (TYPE)(job_rank + 3)};                         \
        TYPE got[2] = {0, 0};                                                                      \
        OK(MPI_Allreduce(send, got, 2, HANDLE, MPI_SUM, MPI_COMM_WORLD));                          \
        CHECK(got[0] == (TYPE)(job_size * (job_size + 1) / 2));                                    \
        CHECK(got[1] == (TYPE)(job_size * (job_size + 5) / 2));                                    \
        OK(MPI_Allreduce(send, got, 2, HANDLE, MPI_MAX, MPI_COMM_WORLD));                          \
        CHECK(got[0] == (TYPE)job_size && got[1] == (TYPE)(job_size + 2));                         \
        OK(MPI_Allreduce(send, got, 2, HANDLE, MPI_MIN, MPI_COMM_WORLD));                          \
        CHECK(got[0] == 1 && got[1] == 3);                                                         \
        OK(MPI_Allreduce(send, got, 2, HANDLE, MPI_PROD, MPI_COMM_WORLD));                         \
        CHECK(got[0] == (TYPE)(job_size == 3 ? 6 : job_size));                                     \
        if (IS_INTEGER) {                                                                          \
            OK(MPI_Allreduce(send, got, 2, HANDLE, MPI_BOR, MPI_COMM_WORLD));                      \
            CHECK(got[0] == (TYPE)(job_size == 1 ? 1 : 3));                                        \
            OK(MPI_Allreduce(send, got, 2, HANDLE, MPI_BXOR, MPI_COMM_WORLD));                     \
            CHECK(got[0] == (TYPE)(job_size == 1 ? 1 : job_size == 2 ? 3 : 0));                    \
            OK(MPI_Allreduce(send, got, 2, HANDLE, MPI_LAND, MPI_COMM_WORLD));                     \
            CHECK(got[0] == 1);                                                                    \
        }                                                                                          \
    } while (0)

static void test_types(void) {
    TEST_TYPE(signed char, MPI_SIGNED_CHAR, 1);
    TEST_TYPE(unsigned char, MPI_UNSIGNED_CHAR, 1);
    TEST_TYPE(short, MPI_SHORT, 1);
    TEST_TYPE(unsigned short, MPI_UNSIGNED_SHORT, 1);
    TEST_TYPE(int, MPI_INT, 1);
    TEST_TYPE(unsigned, MPI_UNSIGNED, 1);
    TEST_TYPE(long, MPI_LONG, 1);
    TEST_TYPE(unsigned long, MPI_UNSIGNED_LONG, 1);
    TEST_TYPE(long long, MPI_LONG_LONG, 1);
    TEST_TYPE(unsigned long long, MPI_UNSIGNED_LONG_LONG, 1);
    TEST_TYPE(int8_t, MPI_INT8_T, 1);
    TEST_TYPE(uint8_t, MPI_UINT8_T, 1);
    TEST_TYPE(int16_t, MPI_INT16_T, 1);
    TEST_TYPE(uint16_t, MPI_UINT16_T, 1);
    TEST_TYPE(int32_t, MPI_INT32_T, 1);
    TEST_TYPE(uint32_t, MPI_UINT32_T, 1);
    TEST_TYPE(int64_t, MPI_INT64_T, 1);
    TEST_TYPE(uint64_t, MPI_UINT64_T, 1);
    TEST_TYPE(MPI_Aint, MPI_AINT, 1);
    TEST_TYPE(MPI_Count, MPI_COUNT, 1);
    TEST_TYPE(MPI_Offset, MPI_OFFSET, 1);
    TEST_TYPE(float, MPI_FLOAT, 0);
    TEST_TYPE(double, MPI_DOUBLE, 0);
    TEST_TYPE(long double, MPI_LONG_DOUBLE, 0);
}

#define TEST_PAIR(TYPE, HANDLE)                                                                    \
    do {                                                                                           \
        struct {                                                                                   \
            TYPE value;                                                                            \
            int index;                                                                             \
        } send[2] = {{(TYPE)(job_rank + 1), job_rank}, {7, job_rank}}, got[2];                     \
        OK(MPI_Allreduce(send, got, 2, HANDLE, MPI_MAXLOC, MPI_COMM_WORLD));                       \
        CHECK(got[0].value == (TYPE)job_size && got[0].index == job_size - 1);                     \
        CHECK(got[1].value == 7 && got[1].index == 0);                                             \
        OK(MPI_Allreduce(send, got, 2, HANDLE, MPI_MINLOC, MPI_COMM_WORLD));                       \
        CHECK(got[0].value == 1 && got[0].index == 0 && got[1].index == 0);                        \
    } while (0)

static void test_pairs(void) {
    TEST_PAIR(float, MPI_FLOAT_INT);
    TEST_PAIR(double, MPI_DOUBLE_INT);
    TEST_PAIR(long, MPI_LONG_INT);
    TEST_PAIR(int, MPI_2INT);
    TEST_PAIR(short, MPI_SHORT_INT);
    TEST_PAIR(long double, MPI_LONG_DOUBLE_INT);
    MPI_Datatype copy;
    OK(MPI_Type_dup(MPI_DOUBLE_INT, &copy));
    TEST_PAIR(double, copy);
    OK(MPI_Type_free(&copy));
    OK(MPI_Type_dup(MPI_SHORT_INT, &copy));
    TEST_PAIR(short, copy);
    OK(MPI_Type_free(&copy));
}

static void test_in_place(void) {
    int values[6], got[6];
    MPI_Request request;
    for (int i = 0; i < 6; i++)
        values[i] = job_rank + i;
    OK(MPI_Allreduce(MPI_IN_PLACE, values, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(values[0] == job_size * (job_size - 1) / 2);
    for (int root = 0; root < job_size; root++) {
        got[0] = job_rank + 1;
        if (job_rank == root)
            OK(MPI_Reduce(MPI_IN_PLACE, got, 1, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD));
        else
            OK(MPI_Reduce(got, NULL, 1, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD));
        CHECK(got[0] == (job_rank == root ? job_size * (job_size + 1) / 2 : job_rank + 1));
    }
    got[0] = job_rank + 1;
    OK(MPI_Iscan(MPI_IN_PLACE, got, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(got[0] == (job_rank + 1) * (job_rank + 2) / 2);
    values[0] = job_rank + 1;
    got[0] = -5;
    OK(MPI_Exscan(values, got, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(got[0] == (job_rank ? job_rank * (job_rank + 1) / 2 : -5));
}

static void test_scatter(void) {
    int values[8], got[8] = {0}, counts[8], total = 0;
    for (int in_place = 0; in_place < 2; in_place++) {
        for (int i = 0; i < job_size; i++)
            got[i] = values[i] = 10 * i + job_rank;
        OK(MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : values, got, 1, MPI_INT, MPI_SUM,
                                    MPI_COMM_WORLD));
        CHECK(got[0] == 10 * job_rank * job_size + job_size * (job_size - 1) / 2);
    }
    for (int i = 0; i < job_size; i++) {
        counts[i] = i + 1;
        total += i + 1;
    }
    for (int in_place = 0; in_place < 2; in_place++) {
        for (int i = 0; i < total; i++)
            got[i] = values[i] = 10 * i + job_rank;
        OK(MPI_Reduce_scatter(in_place ? MPI_IN_PLACE : values, got, counts, MPI_INT, MPI_SUM,
                              MPI_COMM_WORLD));
        const int first = job_rank * (job_rank + 1) / 2;
        CHECK(got[0] == 10 * first * job_size + job_size * (job_size - 1) / 2);
        CHECK(got[job_rank] == 10 * (first + job_rank) * job_size + job_size * (job_size - 1) / 2);
    }
}

/* 2x2 matrices: the product does not commute. */
struct matrix {
    int64_t a[2][2];
};

static void multiply(void *in, void *inout, int *n, MPI_Datatype *type) {
    const struct matrix *x = in;
    struct matrix *y = inout;
    int size;
    OK(MPI_Type_size(*type, &size));
    CHECK(size == (int)sizeof *x);
    for (int k = 0; k < *n; k++) {
        struct matrix product = {{{0}}};
        for (int i = 0; i < 8; i++)
            product.a[i >> 2][i >> 1 & 1] += x[k].a[i >> 2][i & 1] * y[k].a[i & 1][i >> 1 & 1];
        y[k] = product;
    }
}

static struct matrix matrix_of(int rank) {
    return (struct matrix){{{1, rank + 1}, {rank, 1}}};
}

static void test_functions(void) {
    enum { N = 1000 };
    MPI_Datatype type;
    MPI_Op op;
    int commutes, one = 1;
    struct matrix *send = malloc(N * sizeof *send), *got = malloc(N * sizeof *got);
    struct matrix expected = matrix_of(job_size - 1);
    OK(MPI_Type_contiguous(4, MPI_INT64_T, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Op_create(multiply, 0, &op));
    OK(MPI_Op_commutative(op, &commutes));
    CHECK(!commutes);
    for (int r = job_size - 2; r >= 0; r--) {
        struct matrix left = matrix_of(r);
        multiply(&left, &expected, &one, &type);
    }
    for (int i = 0; i < N; i++)
        send[i] = matrix_of(job_rank);
    OK(MPI_Allreduce(send, got, N, type, op, MPI_COMM_WORLD));
    CHECK(memcmp(&got[0], &expected, sizeof expected) == 0);
    CHECK(memcmp(&got[N - 1], &expected, sizeof expected) == 0);
    for (int root = 0; root < job_size; root++) {
        memset(got, 0, sizeof *got);
        OK(MPI_Reduce(send, got, 1, type, op, root, MPI_COMM_WORLD));
        CHECK(job_rank != root || memcmp(&got[0], &expected, sizeof expected) == 0);
    }
    struct matrix first = matrix_of(job_rank);
    got[0] = matrix_of(job_rank + 1);
    expected = got[0];
    OK(MPI_Reduce_local(&first, got, 1, type, op));
    multiply(&first, &expected, &one, &type);
    CHECK(memcmp(&got[0], &expected, sizeof expected) == 0);
    OK(MPI_Op_free(&op));
    CHECK(op == MPI_OP_NULL);
    OK(MPI_Type_free(&type));
    free(send);
    free(got);
}

static void add(void *in, void *inout, int *n, MPI_Datatype *type) {
    MPI_Aint lb, extent;
    OK(MPI_Type_get_extent(*type, &lb, &extent));
    for (int i = 0; i < *n; i++) /* the first and third int of four */
        for (int k = 0; k < 2; k++)
            *(int *)((char *)inout + i * extent + k * 8) +=
                *(int *)((char *)in + i * extent + k * 8);
}

/* An operator on a type with gaps gets elements with gaps. */
static void test_gaps(void) {
    MPI_Datatype vector, type;
    MPI_Op op;
    int send[8], got[8];
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &vector));
    OK(MPI_Type_create_resized(vector, 0, 16, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Op_create(add, 1, &op));
    for (int i = 0; i < 8; i++) {
        send[i] = i + job_rank;
        got[i] = -1;
    }
    OK(MPI_Allreduce(send, got, 2, type, op, MPI_COMM_WORLD));
    for (int i = 0; i < 8; i++)
        CHECK(got[i] == (i % 2 ? -1 : i * job_size + job_size * (job_size - 1) / 2));
    OK(MPI_Op_free(&op));
    OK(MPI_Type_free(&type));
    OK(MPI_Type_free(&vector));
}

static void test_persistent(void) {
    long value = 0, got = -1;
    MPI_Request request;
    OK(MPI_Allreduce_init(&value, &got, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                          &request));
    for (int i = 0; i < 4; i++) {
        value = i * (job_rank + 1);
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(got == (long)i * job_size * (job_size + 1) / 2);
    }
    OK(MPI_Request_free(&request));
}

static void add_ints(void *in, void *inout, int *n, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *n; i++)
        ((int *)inout)[i] += ((const int *)in)[i];
}

/* Persistent requests, whose type and operator are freed before they start. */
static void test_kept(void) {
    int values[3] = {job_rank, -1, 2}, got[3] = {-1, -1, -1}, sum = 0;
    const int right = (job_rank + 1) % job_size, left = (job_rank + job_size - 1) % job_size;
    MPI_Request requests[3];
    MPI_Datatype type, other;
    MPI_Op op;
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Op_create(add_ints, 1, &op));
    OK(MPI_Send_init(values, 1, type, right, 8, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Recv_init(got, 1, type, left, 8, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Allreduce_init(values, &sum, 1, MPI_INT, op, MPI_COMM_WORLD, MPI_INFO_NULL,
                          &requests[2]));
    OK(MPI_Type_free(&type));
    OK(MPI_Op_free(&op));
    OK(MPI_Type_contiguous(7, MPI_INT, &other)); /* in the memory of the first, if that is free */
    for (int turn = 0; turn < 2; turn++) {
        OK(MPI_Startall(3, requests));
        OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
        CHECK(got[0] == left && got[1] == -1 && got[2] == 2);
        CHECK(sum == job_size * (job_size - 1) / 2);
    }
    OK(MPI_Type_free(&other));
    for (int i = 0; i < 3; i++)
        OK(MPI_Request_free(&requests[i]));
}

static void add_typed(void *in, void *inout, int *n, MPI_Datatype *type) {
    int bytes;
    OK(MPI_Type_size(*type, &bytes));
    for (int i = 0; i < *n; i++) {
        if (bytes == sizeof(long))
            ((long *)inout)[i] += ((long *)in)[i];
        else
            ((int *)inout)[i] += ((int *)in)[i];
    }
}

/* One operator for several types, also at the same time, and freed while it is in use. */
static void test_several_types(void) {
    enum { TURNS = 20, CALLS = 3 };
    const int expected = job_size * (job_size - 1) / 2;
    MPI_Datatype pair;
    MPI_Op op;
    MPI_Request requests[CALLS];
    int value = job_rank, sums[CALLS], sum;
    long large = job_rank, large_sum;
    OK(MPI_Op_create(add_typed, 1, &op));
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < CALLS; i++)
            OK(MPI_Iallreduce(&value, &sums[i], 1, MPI_INT, op, MPI_COMM_WORLD, &requests[i]));
        OK(MPI_Type_contiguous(2, MPI_INT, &pair));
        OK(MPI_Type_commit(&pair));
        OK(MPI_Allreduce(&large, &large_sum, 1, MPI_LONG, op, MPI_COMM_WORLD));
        OK(MPI_Allreduce(&large, &sum, 0, pair, op, MPI_COMM_WORLD));
        OK(MPI_Type_free(&pair));
        if (turn == TURNS - 1)
            OK(MPI_Op_free(&op));
        OK(MPI_Waitall(CALLS, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < CALLS; i++)
            CHECK(sums[i] == expected);
        CHECK(large_sum == expected);
    }
}

/* Operators, and what a reduction makes of them, are freed. */
static void test_many_operators(void) {
    enum { CYCLES = 10000, WARM = 1000, MOST_BYTES = 64 * 1024 };
    size_t before = 0;
    for (int i = 0; i < CYCLES; i++) {
        int value = i, got = -1;
        MPI_Op op;
        MPI_Request request;
        OK(MPI_Op_create(add_ints, 1, &op));
        OK(MPI_Iallreduce(&value, &got, 1, MPI_INT, op, MPI_COMM_SELF, &request));
        OK(MPI_Op_free(&op));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(got == i);
        if (i == WARM)
            before = mallinfo2().uordblks;
    }
    CHECK(mallinfo2().uordblks < before + MOST_BYTES);
}

int main(int argc, char **argv) {
    job_begin(&argc, &argv);
    test_types();
    test_pairs();
    test_in_place();
    test_scatter();
    test_functions();
    test_gaps();
    test_persistent();
    test_kept();
    test_several_types();
    test_many_operators();
    return job_end();
}
