/* SPDX-License-Identifier: BSD-3-Clause */
/* Derived datatypes of MPI: each constructor by a message and a collective, for any number of
 * ranks. */
#include <complex.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include "job.h"

enum { N = 64 };

/* Sends one element of a type of ints around the ring, as such and as plain ints: those of `at` (n
 * of them) must arrive, and no others change. Frees the type. */
static void test_type(MPI_Datatype type, const int *at, int n) {
    const int right = (job_rank + 1) % job_size, left = (job_rank + job_size - 1) % job_size;
    int send[N], got[N], plain[N], size, count;
    MPI_Status status;
    OK(MPI_Type_commit(&type));
    OK(MPI_Type_size(type, &size));
    CHECK(size == n * (int)sizeof(int));
    for (int i = 0; i < N; i++) {
        send[i] = 1000 * job_rank + i;
        got[i] = -1;
    }
    OK(MPI_Sendrecv(send, 1, type, right, 1, got, 1, type, left, 1, MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, type, &count));
    CHECK(count == 1);
    OK(MPI_Get_elements(&status, type, &count));
    CHECK(count == n);
    OK(MPI_Sendrecv(send, 1, type, right, 2, plain, N, MPI_INT, left, 2, MPI_COMM_WORLD, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(count == n);
    for (int i = 0; i < n; i++) {
        CHECK(got[at[i]] == 1000 * left + at[i] && plain[i] == 1000 * left + at[i]);
        got[at[i]] = -1;
    }
    for (int i = 0; i < N; i++)
        CHECK(got[i] == -1);
    OK(MPI_Bcast(send, 1, type, 0, MPI_COMM_WORLD));
    CHECK(send[at[n - 1]] == at[n - 1]);
    OK(MPI_Type_free(&type));
    CHECK(type == MPI_DATATYPE_NULL);
}

static void test_constructors(void) {
    MPI_Datatype type, inner;
    const int lengths[3] = {2, 1, 3}, displs[3] = {5, 1, 10};
    const MPI_Aint bytes[3] = {20, 4, 40};
    const MPI_Datatype types[3] = {MPI_INT, MPI_UNSIGNED, MPI_INT};
    OK(MPI_Type_contiguous(3, MPI_INT, &type));
    test_type(type, (const int[]){0, 1, 2}, 3);
    OK(MPI_Type_vector(2, 2, 4, MPI_INT, &type));
    test_type(type, (const int[]){0, 1, 4, 5}, 4);
    OK(MPI_Type_create_hvector_c(2, 1, 12, MPI_INT, &type));
    test_type(type, (const int[]){0, 3}, 2);
    OK(MPI_Type_indexed(3, lengths, displs, MPI_INT, &type));
    test_type(type, (const int[]){5, 6, 1, 10, 11, 12}, 6);
    OK(MPI_Type_create_hindexed(3, lengths, bytes, MPI_INT, &type));
    test_type(type, (const int[]){5, 6, 1, 10, 11, 12}, 6);
    OK(MPI_Type_create_indexed_block(3, 2, displs, MPI_INT, &type));
    test_type(type, (const int[]){5, 6, 1, 2, 10, 11}, 6);
    OK(MPI_Type_create_hindexed_block(2, 1, bytes, MPI_INT, &type));
    test_type(type, (const int[]){5, 1}, 2);
    OK(MPI_Type_create_struct(3, lengths, bytes, types, &type));
    test_type(type, (const int[]){5, 6, 1, 10, 11, 12}, 6);
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &inner));
    OK(MPI_Type_create_resized(inner, 0, 20, &type));
    OK(MPI_Type_free(&inner));
    OK(MPI_Type_contiguous(2, type, &inner));
    OK(MPI_Type_free(&type)); /* inner holds it */
    OK(MPI_Type_dup(inner, &type));
    OK(MPI_Type_free(&inner));
    test_type(type, (const int[]){0, 2, 5, 7}, 4);
}

static void test_subarrays(void) {
    const int sizes[2] = {4, 5}, parts[2] = {2, 3}, starts[2] = {1, 2};
    MPI_Datatype type;
    MPI_Aint lb, extent;
    OK(MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type));
    OK(MPI_Type_get_extent(type, &lb, &extent));
    CHECK(lb == 0 && extent == 80);
    OK(MPI_Type_get_true_extent(type, &lb, &extent));
    CHECK(lb == 28 && extent == 32);
    test_type(type, (const int[]){7, 8, 9, 12, 13, 14}, 6);
    OK(MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_INT, &type));
    test_type(type, (const int[]){9, 10, 13, 14, 17, 18}, 6);
}

struct record {
    char name;
    double value;
    int id;
};

/* A struct of several kinds, gathered and scattered in its own layout. */
static void test_struct(void) {
    const int lengths[3] = {1, 1, 1};
    const MPI_Aint at[3] = {offsetof(struct record, name), offsetof(struct record, value),
                            offsetof(struct record, id)};
    const MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
    struct record own = {(char)('a' + job_rank), job_rank * 0.5, job_rank}, all[8], part = {0};
    MPI_Datatype type, sized;
    OK(MPI_Type_create_struct(3, lengths, at, types, &type));
    OK(MPI_Type_create_resized(type, 0, sizeof(struct record), &sized));
    OK(MPI_Type_commit(&sized));
    OK(MPI_Allgather(&own, 1, sized, all, 1, sized, MPI_COMM_WORLD));
    for (int r = 0; r < job_size; r++)
        CHECK(all[r].name == 'a' + r && all[r].value == r * 0.5 && all[r].id == r);
    OK(MPI_Scatter(all, 1, sized, &part, 1, sized, 0, MPI_COMM_WORLD));
    CHECK(part.name == own.name && part.value == own.value && part.id == own.id);
    OK(MPI_Type_free(&type));
    OK(MPI_Type_free(&sized));
}

/* A struct of two elements ends where the next one of an array of C begins. */
static void test_end(MPI_Datatype first, MPI_Datatype second, size_t at, size_t bytes) {
    MPI_Datatype type, whole;
    MPI_Aint lb, extent;
    OK(MPI_Type_create_struct(2, (const int[]){1, 1}, (const MPI_Aint[]){0, (MPI_Aint)at},
                              (const MPI_Datatype[]){first, second}, &type));
    OK(MPI_Type_get_extent(type, &lb, &extent));
    CHECK(lb == 0 && extent == (MPI_Aint)bytes);
    OK(MPI_Type_contiguous(3, type, &whole)); /* only a struct ends so */
    OK(MPI_Type_get_extent(whole, &lb, &extent));
    CHECK(lb == 0 && extent == 3 * (MPI_Aint)bytes);
    OK(MPI_Type_free(&whole));
    OK(MPI_Type_free(&type));
}

static void test_ends(void) {
    struct simple {
        int first;
        char second;
    };
    struct nested {
        struct simple first;
        char second;
    };
    struct complexes {
        double complex first;
        char second;
    };
    struct pair {
        struct {
            short value;
            int index;
        } first;
        char second;
    };
    struct {
        long double first;
        char second;
    } longest;
    MPI_Datatype simple;
    test_end(MPI_INT, MPI_CHAR, offsetof(struct simple, second), sizeof(struct simple));
    test_end(MPI_CHAR, MPI_CHAR, 1, 2);
    test_end(MPI_C_DOUBLE_COMPLEX, MPI_CHAR, offsetof(struct complexes, second),
             sizeof(struct complexes));
    test_end(MPI_SHORT_INT, MPI_CHAR, offsetof(struct pair, second), sizeof(struct pair));
    test_end(MPI_LONG_DOUBLE, MPI_CHAR, sizeof longest.first, sizeof longest);
    OK(MPI_Type_create_struct(2, (const int[]){1, 1}, (const MPI_Aint[]){0, 4},
                              (const MPI_Datatype[]){MPI_INT, MPI_CHAR}, &simple));
    test_end(simple, MPI_CHAR, offsetof(struct nested, second), sizeof(struct nested));
    OK(MPI_Type_free(&simple));
    test_end(MPI_COMPLEX32, MPI_CHAR, 32, 48);
    OK(MPI_Type_create_resized(MPI_INT, 0, 5, &simple)); /* the program has chosen its end */
    test_end(simple, simple, 5, 10);
    OK(MPI_Type_free(&simple));
}

/* A struct of absolute addresses with MPI_BOTTOM. */
static void test_bottom(void) {
    int first = job_rank ? 0 : 5, second = job_rank ? 0 : 6;
    const int lengths[2] = {1, 1};
    MPI_Aint at[2];
    const MPI_Datatype types[2] = {MPI_INT, MPI_INT};
    MPI_Datatype type;
    OK(MPI_Get_address(&first, &at[0]));
    OK(MPI_Get_address(&second, &at[1]));
    OK(MPI_Type_create_struct(2, lengths, at, types, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Bcast(MPI_BOTTOM, 1, type, 0, MPI_COMM_WORLD));
    CHECK(first == 5 && second == 6);
    OK(MPI_Type_free(&type));
}

/* A member without data has no elements. */
static void test_empty(void) {
    const int lengths[2] = {1, 1};
    const MPI_Aint at[2] = {0, 0};
    MPI_Datatype types[2] = {MPI_DATATYPE_NULL, MPI_INT}, type;
    MPI_Status status;
    int value = 5, got = 0, count = -1;
    OK(MPI_Type_indexed(0, NULL, NULL, MPI_INT, &types[0]));
    OK(MPI_Type_create_struct(2, lengths, at, types, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Sendrecv(&value, 1, type, job_rank, 3, &got, 1, type, job_rank, 3, MPI_COMM_WORLD,
                    &status));
    OK(MPI_Get_elements(&status, type, &count));
    CHECK(got == 5 && count == 1);
    OK(MPI_Type_free(&types[0]));
    OK(MPI_Type_free(&type));
}

/* A pair is two basic elements, also where it is part of another type. */
static void test_pair_elements(MPI_Datatype pair, int pair_bytes, int value_bytes) {
    char send[64] = "", got[64];
    MPI_Datatype type;
    MPI_Status status;
    int count;
    OK(MPI_Type_contiguous(2, pair, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Sendrecv(send, 3, pair, job_rank, 4, got, 4, pair, job_rank, 4, MPI_COMM_WORLD,
                    &status));
    OK(MPI_Get_elements(&status, pair, &count));
    CHECK(count == 6);
    OK(MPI_Get_elements(&status, type, &count));
    CHECK(count == 6);
    OK(MPI_Get_count(&status, type, &count));
    CHECK(count == MPI_UNDEFINED);
    OK(MPI_Status_set_elements(&status, MPI_BYTE, pair_bytes + value_bytes));
    OK(MPI_Get_elements(&status, pair, &count));
    CHECK(count == 3);
    OK(MPI_Status_set_elements(&status, MPI_BYTE, pair_bytes + 1));
    OK(MPI_Get_elements(&status, pair, &count));
    CHECK(count == MPI_UNDEFINED);
    OK(MPI_Type_free(&type));
}

/* What a program makes itself is the same as a predefined pair: its gap is not sent. */
static void test_pair_as_struct(void) {
    struct pair {
        double value;
        int index;
    } send[2] = {{1.5, job_rank}, {-2.5, 7}}, got[2] = {{0, 0}, {0, 0}};
    const int right = (job_rank + 1) % job_size, left = (job_rank + job_size - 1) % job_size;
    MPI_Datatype type;
    MPI_Status status;
    int size, count;
    OK(MPI_Type_create_struct(2, (const int[]){1, 1},
                              (const MPI_Aint[]){0, offsetof(struct pair, index)},
                              (const MPI_Datatype[]){MPI_DOUBLE, MPI_INT}, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Type_size(MPI_DOUBLE_INT, &size));
    CHECK(size == 12);
    OK(MPI_Sendrecv(send, 2, type, right, 1, got, 2, MPI_DOUBLE_INT, left, 1, MPI_COMM_WORLD,
                    &status));
    OK(MPI_Get_count(&status, type, &count));
    CHECK(count == 2 && got[0].value == 1.5 && got[0].index == left && got[1].index == 7);
    got[1].value = 0;
    OK(MPI_Sendrecv(send, 2, MPI_DOUBLE_INT, right, 1, got, 2, type, left, 1, MPI_COMM_WORLD,
                    &status));
    CHECK(got[0].index == left && got[1].value == -2.5 && got[1].index == 7);
    OK(MPI_Type_free(&type));
}

/* Counts whose product is more than a number of bytes can be. */
static void test_overflow(void) {
    MPI_Datatype small, large, type = MPI_DATATYPE_NULL;
    MPI_Count position = 0;
    int class = 0;
    char byte = 0;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Type_contiguous(1 << 30, MPI_INT, &small));
    OK(MPI_Type_contiguous(1 << 30, small, &large));
    OK(MPI_Error_class(MPI_Type_contiguous(1 << 30, large, &type), &class));
    CHECK(class == MPI_ERR_COUNT && type == MPI_DATATYPE_NULL);
    OK(MPI_Error_class(
        MPI_Pack_c(&byte, (MPI_Count)1 << 61, MPI_INT, &byte, 1, &position, MPI_COMM_WORLD),
        &class));
    CHECK(class == MPI_ERR_TRUNCATE && position == 0);
    OK(MPI_Type_free(&large));
    OK(MPI_Type_free(&small));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

/* A short message into very many blocks takes no time for those that it does not reach. */
static void test_short(void) {
    enum { N_BLOCKS = 200000000 };
    const clock_t start = clock();
    MPI_Datatype gap, types[2];
    char value = 'x', got[4] = "";
    OK(MPI_Type_create_resized(MPI_CHAR, 0, 2, &gap));
    OK(MPI_Type_contiguous(N_BLOCKS, gap, &types[0]));
    OK(MPI_Type_create_hvector(N_BLOCKS, 1, 3, MPI_CHAR, &types[1]));
    for (int i = 0; i < 2; i++) {
        OK(MPI_Type_commit(&types[i]));
        OK(MPI_Sendrecv(&value, 1, MPI_CHAR, job_rank, 5, got, 1, types[i], job_rank, 5,
                        MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(got[0] == 'x');
        OK(MPI_Type_free(&types[i]));
    }
    OK(MPI_Type_free(&gap));
    CHECK((double)(clock() - start) / CLOCKS_PER_SEC < 0.5);
}

int main(int argc, char **argv) {
    job_begin(&argc, &argv);
    test_constructors();
    test_subarrays();
    test_struct();
    test_ends();
    test_bottom();
    test_empty();
    test_pair_elements(MPI_DOUBLE_INT, 12, 8);
    test_pair_elements(MPI_2INT, 8, 4);
    test_pair_elements(MPI_FLOAT_INT, 8, 4);
    test_pair_elements(MPI_2REAL, 8, 4);
    test_pair_elements(MPI_SHORT_INT, 6, 2);
    test_pair_as_struct();
    test_overflow();
    test_short();
    return job_end();
}
