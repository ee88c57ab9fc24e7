/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of MPI and communicators made from them, packing, predefined attributes, for any number of
 * ranks. */
#include <limits.h>
#include <stddef.h>
#include "job.h"

static void test_groups(void) {
    MPI_Group all, some, rest, both;
    int size, rank, result, translated[2];
    const int first[1] = {0};
    int backwards[1][3] = {{job_size - 1, 0, -1}};
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    OK(MPI_Group_size(all, &size));
    OK(MPI_Group_rank(all, &rank));
    CHECK(size == job_size && rank == job_rank);
    OK(MPI_Group_incl(all, 1, first, &some));
    OK(MPI_Group_excl(all, 1, first, &rest));
    CHECK((rest == MPI_GROUP_EMPTY) == (job_size == 1));
    OK(MPI_Group_intersection(some, rest, &both));
    CHECK(both == MPI_GROUP_EMPTY);
    OK(MPI_Group_free(&both));
    OK(MPI_Group_union(rest, some, &both));
    OK(MPI_Group_compare(both, all, &result));
    CHECK(result == (job_size == 1 ? MPI_IDENT : MPI_SIMILAR));
    OK(MPI_Group_translate_ranks(all, 2, (const int[]){0, MPI_PROC_NULL}, both, translated));
    CHECK(translated[0] == job_size - 1 && translated[1] == MPI_PROC_NULL);
    OK(MPI_Group_free(&both));
    OK(MPI_Group_difference(all, some, &both));
    OK(MPI_Group_compare(both, rest, &result));
    CHECK(result == MPI_IDENT);
    OK(MPI_Group_free(&both));
    OK(MPI_Group_range_incl(all, 1, backwards, &both));
    OK(MPI_Group_rank(both, &rank));
    CHECK(rank == job_size - 1 - job_rank);
    OK(MPI_Group_free(&both));
    OK(MPI_Group_free(&some));
    OK(MPI_Group_free(&rest));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int i = 0; i < 2; i++) { /* a stride of 0 in both directions */
        int still[1][3] = {{i * (job_size - 1), (1 - i) * (job_size - 1), 0}};
        CHECK(MPI_Group_range_incl(all, 1, still, &both) != MPI_SUCCESS);
        CHECK(MPI_Group_range_excl(all, 1, still, &both) != MPI_SUCCESS);
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Group_free(&all));
    CHECK(all == MPI_GROUP_NULL);
}

static void test_communicators(void) {
    MPI_Group all, turned;
    MPI_Comm made;
    int rank, got = job_rank, result, backwards[1][3] = {{job_size - 1, 0, -1}};
    const int first[1] = {0};
    OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    OK(MPI_Group_range_incl(all, 1, backwards, &turned));
    OK(MPI_Comm_create(MPI_COMM_WORLD, turned, &made));
    OK(MPI_Comm_rank(made, &rank));
    CHECK(rank == job_size - 1 - job_rank);
    OK(MPI_Bcast(&got, 1, MPI_INT, 0, made));
    CHECK(got == job_size - 1);
    OK(MPI_Comm_compare(made, MPI_COMM_WORLD, &result));
    CHECK(result == (job_size == 1 ? MPI_CONGRUENT : MPI_SIMILAR));
    OK(MPI_Comm_free(&made));
    OK(MPI_Group_free(&turned));
    OK(MPI_Group_incl(all, 1, first, &turned));
    OK(MPI_Comm_create(MPI_COMM_WORLD, turned, &made));
    CHECK((made == MPI_COMM_NULL) == (job_rank != 0));
    if (made != MPI_COMM_NULL)
        OK(MPI_Comm_free(&made));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, job_rank ? MPI_COMM_TYPE_SHARED : MPI_UNDEFINED, 0,
                           MPI_INFO_NULL, &made));
    CHECK((made == MPI_COMM_NULL) == (job_rank == 0));
    if (made != MPI_COMM_NULL)
        OK(MPI_Comm_free(&made));
    if (job_rank == 0) { /* only the members call it */
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, turned, 3, &made));
        OK(MPI_Comm_free(&made));
    }
    OK(MPI_Group_free(&turned));
    OK(MPI_Group_free(&all));
}

static void test_packing(void) {
    char packed[64];
    int number = job_rank, got = -1, position = 0, size;
    double real = 2.5, got_real = 0;
    OK(MPI_Pack_size(1, MPI_DOUBLE, MPI_COMM_WORLD, &size));
    CHECK(size == 8);
    OK(MPI_Pack(&number, 1, MPI_INT, packed, sizeof packed, &position, MPI_COMM_WORLD));
    OK(MPI_Pack(&real, 1, MPI_DOUBLE, packed, sizeof packed, &position, MPI_COMM_WORLD));
    CHECK(position == 12);
    OK(MPI_Sendrecv_replace(packed, position, MPI_PACKED, (job_rank + 1) % job_size, 1,
                            MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    position = 0;
    OK(MPI_Unpack(packed, 12, &position, &got, 1, MPI_INT, MPI_COMM_WORLD));
    OK(MPI_Unpack(packed, 12, &position, &got_real, 1, MPI_DOUBLE, MPI_COMM_WORLD));
    CHECK(got == (job_rank + job_size - 1) % job_size && got_real == 2.5 && position == 12);
}

static int deleted;

static int copy_twice(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) {
    CHECK(comm == MPI_COMM_WORLD && key > 0 && extra == &deleted);
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int count_deleted(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)key, (void)value;
    ++*(int *)extra;
    return MPI_SUCCESS;
}

/* An attribute that a duplicate inherits changed, one that it inherits as it is, and one not. */
static void test_attribute_functions(void) {
    static char values[3];
    MPI_Comm_copy_attr_function *const copies[3] = {copy_twice, MPI_COMM_DUP_FN,
                                                    MPI_COMM_NULL_COPY_FN};
    MPI_Comm made;
    char *got = NULL;
    int keys[3], flag;
    for (int i = 0; i < 3; i++) {
        OK(MPI_Comm_create_keyval(copies[i], count_deleted, &keys[i], &deleted));
        OK(MPI_Comm_set_attr(MPI_COMM_WORLD, keys[i], &values[i]));
    }
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &made));
    OK(MPI_Comm_get_attr(made, keys[0], &got, &flag));
    CHECK(flag && got == &values[1]);
    OK(MPI_Comm_get_attr(made, keys[1], &got, &flag));
    CHECK(flag && got == &values[1]);
    OK(MPI_Comm_get_attr(made, keys[2], &got, &flag));
    CHECK(!flag);
    OK(MPI_Comm_free(&made));
    CHECK(deleted == 2);
    for (int i = 0; i < 3; i++) {
        OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, keys[i]));
        OK(MPI_Comm_free_keyval(&keys[i]));
    }
    CHECK(deleted == 5);
}

static int free_key(MPI_Comm comm, int key, void *value, void *extra) {
    (void)comm, (void)value;
    ++*(int *)extra;
    OK(MPI_Comm_free_keyval(&key));
    return MPI_SUCCESS;
}

/* A key that is freed while attributes have it, also by its delete function, whose last call is in
 * MPI_Finalize. */
static void test_freed_key(void) {
    static int calls;
    int key, again, flag;
    void *value;
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, free_key, &key, &calls));
    OK(MPI_Comm_set_attr(MPI_COMM_WORLD, key, &calls));
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, &calls));
    for (int i = 0; i < 3; i++) {
        again = key;
        OK(MPI_Comm_free_keyval(&again));
        CHECK(again == MPI_KEYVAL_INVALID);
    }
    OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, key));
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &flag));
    CHECK(calls == 1 && !flag);
    OK(MPI_Comm_get_attr(MPI_COMM_SELF, key, &value, &flag));
    CHECK(flag && value == &calls);
}

static int refuse(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag) {
    (void)comm, (void)key, (void)extra, (void)in, (void)out, (void)flag;
    return MPI_ERR_OTHER;
}

/* The error of a copy function is returned, as the copied communicator requires, though errors of
 * the world are fatal. */
static void test_refused_copy(void) {
    int key;
    MPI_Comm comm, made;
    MPI_Request request;
    OK(MPI_Comm_create_keyval(refuse, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_attr(comm, key, &key));
    CHECK(MPI_Comm_dup(comm, &made) == MPI_ERR_OTHER && made == MPI_COMM_NULL);
    CHECK(MPI_Comm_idup(comm, &made, &request) == MPI_ERR_OTHER && made == MPI_COMM_NULL);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_free_keyval(&key));
}

static void test_attributes(void) {
    int *value = NULL, flag;
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag));
    CHECK(flag && *value == INT_MAX);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &flag));
    CHECK(!flag);
}

int main(int argc, char **argv) {
    job_begin(&argc, &argv);
    test_groups();
    test_communicators();
    test_packing();
    test_attributes();
    test_attribute_functions();
    test_freed_key();
    test_refused_copy();
    return job_end();
}
