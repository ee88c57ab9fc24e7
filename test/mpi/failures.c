/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that differ or die: failures CASE, started by failures_test.py. Prints the error that each
 * rank gets. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "mpi.h"

static void print_error(int rank, int code) {
    char text[MPI_MAX_ERROR_STRING];
    int length, class;
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    printf("rank %d class %d: %s\n", rank, class, text);
    fflush(stdout);
}

int MPIX_Comm_revoke(MPI_Comm comm);
int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm *made);

/* A rank dies. The others revoke the world, shrink it, and go on. */
static int survive(int rank) {
    MPI_Comm alive;
    int one = 1, sum = 0, size = 0;
    if (rank == 1)
        raise(SIGKILL);
    while (MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS)
        ;
    MPIX_Comm_revoke(MPI_COMM_WORLD);
    if (MPIX_Comm_shrink(MPI_COMM_WORLD, &alive) != MPI_SUCCESS)
        return 1;
    MPI_Comm_size(alive, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, alive);
    MPI_Comm_free(&alive);
    const int code = MPI_Finalize();
    printf("rank %d: %d of %d survive, MPI_Finalize returns %d\n", rank, sum, size, code);
    return code != MPI_SUCCESS;
}

/* Two ranks shrink a communicator of which only one tried to make another, and make an
 * intercommunicator of the two. */
static int shrink(int rank) {
    MPI_Comm comm, made, alive, own, both;
    int one = 1, sum = 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPIX_Comm_revoke(comm);
    if (rank == 0 && MPI_Comm_dup(comm, &made) == MPI_SUCCESS)
        return 1;
    if (MPIX_Comm_shrink(comm, &alive) != MPI_SUCCESS)
        return 1;
    MPI_Comm_split(alive, rank, 0, &own);
    int code = MPI_Intercomm_create(own, 0, alive, 1 - rank, 1, &both);
    if (code == MPI_SUCCESS)
        code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, both);
    print_error(rank, code);
    printf("rank %d: %d\n", rank, sum);
    if (code == MPI_SUCCESS)
        MPI_Comm_free(&both);
    MPI_Comm_free(&own);
    MPI_Comm_free(&alive);
    MPI_Comm_free(&comm);
    return MPI_Finalize() != MPI_SUCCESS;
}

/* A rank dies before it calls MPI_Finalize. After the error, MPI has ended. */
static int finalize(int rank) {
    int flag = 0;
    if (rank == 1)
        raise(SIGKILL);
    print_error(rank, MPI_Finalize());
    print_error(rank, MPI_Barrier(MPI_COMM_WORLD));
    MPI_Finalized(&flag);
    printf("rank %d finalized %d\n", rank, flag);
    return 0;
}

/* Objects and requests that are left to MPI_Finalize. */
static int leak(int rank) {
    static int got;
    MPI_Request requests[2];
    MPI_Datatype type;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Isend(&rank, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Irecv(&got, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Type_contiguous(2, MPI_INT, &type);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    return MPI_Finalize();
}

int main(int argc, char **argv) {
    const char *which = argc > 1 ? argv[1] : "";
    int rank, value = 1, got = 0, code = MPI_SUCCESS;
    double real = 1;
    MPI_Comm comm;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strncmp(which, "fatal", 5) != 0)
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (strcmp(which, "operation") == 0)
        code = rank ? MPI_Barrier(MPI_COMM_WORLD)
                    : MPI_Allreduce(&value, &got, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    else if (strcmp(which, "count") == 0)
        code = MPI_Allreduce(&value, &got, rank ? 0 : 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    else if (strcmp(which, "type") == 0)
        code = rank ? MPI_Allgather(&real, 1, MPI_DOUBLE, (double[8]){0}, 1, MPI_DOUBLE,
                                    MPI_COMM_WORLD)
                    : MPI_Allgather(&real, 1, MPI_LONG, (long[8]){0}, 1, MPI_LONG, MPI_COMM_WORLD);
    else if (strcmp(which, "operator") == 0)
        code = MPI_Allreduce(&value, &got, 1, MPI_INT, rank ? MPI_SUM : MPI_MAX, MPI_COMM_WORLD);
    else if (strcmp(which, "root") == 0)
        code = MPI_Bcast(&value, 1, MPI_INT, rank, MPI_COMM_WORLD);
    else if (strcmp(which, "form") == 0 && rank == 1) {
        MPI_Request request;
        MPI_Iallreduce(&value, &got, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
        code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (strcmp(which, "form") == 0)
        code = MPI_Allreduce(&value, &got, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    else if (strcmp(which, "ended") == 0)
        code = rank ? MPI_Allreduce(&value, &got, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD)
                    : MPI_Finalize();
    else if (strcmp(which, "fatal-unnamed") == 0 &&
             MPI_Comm_dup(MPI_COMM_WORLD, &comm) == MPI_SUCCESS)
        code = MPI_Bcast(&value, 1, MPI_INT, 99, comm);
    else if (strcmp(which, "fatal") == 0)
        code = MPI_Bcast(&value, 1, MPI_INT, 99, MPI_COMM_WORLD);
    else if (strcmp(which, "message") == 0)
        code = rank ? MPI_Recv(&real, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
                    : MPI_Send((int[2]){1, 2}, 2, MPI_INT, 1, 1, MPI_COMM_WORLD);
    else if (strcmp(which, "survive") == 0)
        return survive(rank);
    else if (strcmp(which, "shrink") == 0)
        return shrink(rank);
    else if (strcmp(which, "fatal-finalize") == 0 || strcmp(which, "finalize") == 0)
        return finalize(rank);
    else if (strcmp(which, "leak") == 0)
        return leak(rank);
    else if (strcmp(which, "abort-early") == 0 && rank == 3)
        MPI_Abort(MPI_COMM_WORLD, 7);
    else if (strcmp(which, "abort") == 0 && MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS && rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    else if (strcmp(which, "death") == 0 && rank == 1)
        raise(SIGKILL);
    if (strcmp(which, "message") == 0) /* the communicator stays usable */
        code = MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS ? code : MPI_ERR_OTHER;
    else if (code == MPI_SUCCESS) /* a mismatch may be found by the next call */
        code = MPI_Barrier(MPI_COMM_WORLD);
    print_error(rank, code);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return code == MPI_SUCCESS || MPI_Finalize() == MPI_SUCCESS;
}
