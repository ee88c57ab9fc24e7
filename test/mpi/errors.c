/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors of MPI that arguments cause, error handlers, the environment, a profiler, for any number
 * of ranks. */
#include <string.h>
#include "job.h"

static int profiled;

/* Replaces the library's MPI_Barrier, which stays reachable as PMPI_Barrier. */
int MPI_Barrier(MPI_Comm comm) {
    profiled++;
    return PMPI_Barrier(comm);
}

static void check_error(int code, int class, const char *words) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int found = -1, length = -1;
    CHECK(MPI_Error_class(code, &found) == MPI_SUCCESS && found == class);
    CHECK(MPI_Error_string(code, text, &length) == MPI_SUCCESS && length == (int)strlen(text));
    CHECK(strstr(text, words) != NULL);
}

static void test_arguments(void) {
    int value = 0, got[2];
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype type;
    check_error(MPI_Send(&value, 1, MPI_INT, job_size, 0, MPI_COMM_WORLD), MPI_ERR_RANK,
                "MPI_Send: the rank is");
    check_error(MPI_Send(&value, 1, MPI_INT, 0, -7, MPI_COMM_WORLD), MPI_ERR_TAG, "the tag is -7");
    check_error(MPI_Isend(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_COUNT,
                "MPI_Isend: count is -1");
    check_error(MPI_Bcast(&value, 1, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD), MPI_ERR_TYPE,
                "MPI_DATATYPE_NULL");
    check_error(MPI_Bcast(&value, 1, MPI_INT, job_size, MPI_COMM_WORLD), MPI_ERR_ROOT, "root is");
    check_error(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM, "MPI_COMM_NULL");
    check_error(MPI_Allreduce(&value, got, 1, MPI_INT, MPI_MINLOC, MPI_COMM_WORLD), MPI_ERR_OP,
                "MPI_MINLOC is not defined for MPI_INT");
    check_error(MPI_Allreduce(&value, got, 1, MPI_WCHAR, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_OP,
                "MPI_WCHAR");
    check_error(MPI_Start(&request), MPI_ERR_REQUEST, "not persistent");
    OK(MPI_Type_contiguous(2, MPI_INT, &type));
    check_error(MPI_Send(got, 1, type, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "not committed");
    OK(MPI_Type_free(&type));
    CHECK(MPI_Win_fence(0, MPI_WIN_NULL) == MPI_ERR_UNSUPPORTED_OPERATION);
}

/* Pointers that must not be NULL, and handles of freed objects. */
static void test_handles(void) {
    MPI_Comm comm, failed;
    MPI_Datatype type;
    MPI_Group group;
    int value = 0, extents[2] = {job_size, 2};
    check_error(MPI_Comm_size(MPI_COMM_WORLD, NULL), MPI_ERR_ARG,
                "MPI_Comm_size: argument 2 is NULL");
    check_error(MPI_Isend(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL), MPI_ERR_ARG,
                "MPI_Isend: argument 7 is NULL");
    check_error(MPI_Type_get_extent(MPI_INT, NULL, NULL), MPI_ERR_ARG, "argument 2");
    check_error(MPI_Type_indexed(2, extents, NULL, MPI_INT, &type), MPI_ERR_ARG, "argument 3");
    OK(MPI_Type_indexed(0, NULL, NULL, MPI_INT, &type));
    OK(MPI_Type_free(&type));
    OK(MPI_Type_create_indexed_block(0, 5, NULL, MPI_INT, &type));
    OK(MPI_Type_free(&type));
    check_error(MPI_Send_init(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL), MPI_ERR_ARG,
                "MPI_Send_init: argument 7 is NULL");
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm)); /* its handler gets the error */
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    check_error(MPI_Comm_size(comm, NULL), MPI_ERR_ARG, "argument 2");
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
    check_error(MPI_Waitall(1, NULL, MPI_STATUSES_IGNORE), MPI_ERR_ARG, "argument 2");
    OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    check_error(MPI_Group_translate_ranks(group, 1, NULL, group, &value), MPI_ERR_ARG,
                "argument 3");
    OK(MPI_Group_free(&group));
    failed = MPI_COMM_WORLD;
    check_error(MPI_Cart_create(MPI_COMM_WORLD, 2, extents, extents, 0, &failed), MPI_ERR_DIMS,
                "the grid has");
    CHECK(failed == MPI_COMM_NULL);
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    failed = comm;
    OK(MPI_Comm_free(&comm));
    check_error(MPI_Comm_rank(failed, &value), MPI_ERR_COMM,
                "comm is a communicator that was freed");
    check_error(MPI_Comm_free(&failed), MPI_ERR_COMM, "freed");
    OK(MPI_Type_contiguous(2, MPI_INT, &type));
    MPI_Datatype freed = type;
    OK(MPI_Type_free(&type));
    check_error(MPI_Type_commit(&freed), MPI_ERR_TYPE, "the datatype is one that was freed");
    check_error(MPI_Bcast(&value, 1, freed, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "freed");
    check_error(MPI_Reduce_local(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER,
                "MPI_IN_PLACE");
}

static void test_truncation(void) {
    int values[4] = {1, 2, 3, 4}, got[2] = {0, 0};
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Isend(values, 4, MPI_INT, job_rank, 9, MPI_COMM_WORLD, &request));
    check_error(MPI_Recv(got, 2, MPI_INT, job_rank, 9, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE,
                "MPI_Recv");
    CHECK(got[0] == 1 && got[1] == 2);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD)); /* the communicator stays usable */
}

static int handled;
static void count_errors(MPI_Comm *comm, int *code, ...) {
    int class = 0;
    CHECK(*comm == MPI_COMM_SELF && MPI_Error_class(*code, &class) == MPI_SUCCESS);
    handled += class == MPI_ERR_ROOT;
}

static void test_handlers(void) {
    MPI_Errhandler handler, found;
    int value = 0, class, code, length;
    char text[MPI_MAX_ERROR_STRING];
    OK(MPI_Comm_create_errhandler(count_errors, &handler));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, handler));
    OK(MPI_Comm_get_errhandler(MPI_COMM_SELF, &found));
    CHECK(found == handler);
    OK(MPI_Errhandler_free(&found));
    OK(MPI_Errhandler_free(&handler));
    CHECK(MPI_Bcast(&value, 1, MPI_INT, 3, MPI_COMM_SELF) != MPI_SUCCESS && handled == 1);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Add_error_class(&class));
    OK(MPI_Add_error_code(class, &code));
    OK(MPI_Add_error_string(code, "of the program"));
    check_error(code, class, "of the program");
    for (int i = 0; i < 300; i++) /* more than the sentences that are kept */
        check_error(MPI_Bcast(&value, 1, MPI_INT, i + 1, MPI_COMM_SELF), MPI_ERR_ROOT, "root is");
    OK(MPI_Error_string(MPI_ERR_TRUNCATE, text, &length));
}

static int misfits;
static void count_misfits(MPI_Comm *comm, int *code, ...) {
    char name[MPI_MAX_OBJECT_NAME];
    int class = 0, length;
    OK(MPI_Comm_get_name(*comm, name, &length));
    OK(MPI_Error_class(*code, &class));
    misfits += class == MPI_ERR_TRUNCATE && strcmp(name, "parcels") == 0;
}

/* Requests and messages of a communicator that the program has freed. */
static void test_freed(void) {
    int values[4] = {1, 2, 3, 4}, got = 0;
    MPI_Comm comm;
    MPI_Errhandler handler;
    MPI_Message message;
    MPI_Request requests[4];
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_name(comm, "parcels"));
    OK(MPI_Comm_create_errhandler(count_misfits, &handler));
    OK(MPI_Comm_set_errhandler(comm, handler));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Send(values, 4, MPI_INT, job_rank, 2, comm));
    OK(MPI_Mprobe(job_rank, 2, comm, &message, MPI_STATUS_IGNORE));
    OK(MPI_Irecv(&got, 1, MPI_INT, job_rank, 1, comm, &requests[0]));
    OK(MPI_Isend(values, 4, MPI_INT, job_rank, 1, comm, &requests[1]));
    OK(MPI_Send_init(values, 1, MPI_INT, job_rank, 3, comm, &requests[2]));
    OK(MPI_Recv_init(&values[3], 1, MPI_INT, job_rank, 3, comm, &requests[3]));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Startall(2, &requests[2]));
    OK(MPI_Waitall(2, &requests[2], MPI_STATUSES_IGNORE));
    CHECK(values[3] == 1);
    OK(MPI_Request_free(&requests[2]));
    OK(MPI_Request_free(&requests[3]));
    check_error(MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE,
                "MPI_Mrecv");
    CHECK(misfits == 1);
    check_error(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE), MPI_ERR_TRUNCATE, "MPI_");
    CHECK(misfits == 2 && got == 1);
}

static void test_environment(void) {
    int flag, major, minor, length;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    const double start = MPI_Wtime();
    OK(MPI_Initialized(&flag));
    CHECK(flag);
    OK(MPI_Finalized(&flag));
    CHECK(!flag);
    OK(MPI_Get_version(&major, &minor));
    CHECK(major == 5 && minor == 0);
    OK(MPI_Abi_get_version(&major, &minor));
    CHECK(major == 1 && minor == 0);
    OK(MPI_Get_library_version(text, &length));
    CHECK(strncmp(text, "libringcomm ", 12) == 0);
    OK(MPI_Get_processor_name(text, &length));
    CHECK(length == (int)strlen(text) && length > 0);
    OK(MPI_Comm_set_name(MPI_COMM_WORLD, "everybody"));
    OK(MPI_Comm_get_name(MPI_COMM_WORLD, text, &length));
    CHECK(strcmp(text, "everybody") == 0);
    CHECK(MPI_Wtime() >= start && MPI_Wtick() > 0);
}

int main(int argc, char **argv) {
    job_begin(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    test_arguments();
    test_handles();
    test_truncation();
    test_handlers();
    test_freed();
    test_environment();
    CHECK(profiled == 2);
    return job_end();
}
