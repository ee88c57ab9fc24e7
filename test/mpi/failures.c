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

int main(int argc, char **argv) {
    const char *which = argc > 1 ? argv[1] : "";
    int rank, value = 1, got = 0, code = MPI_SUCCESS;
    double real = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(which, "fatal") != 0)
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
    else if (strcmp(which, "fatal") == 0)
        code = MPI_Bcast(&value, 1, MPI_INT, 99, MPI_COMM_WORLD);
    else if (strcmp(which, "abort") == 0 && MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS && rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 7);
    else if (strcmp(which, "death") == 0 && rank == 1)
        raise(SIGKILL);
    if (code == MPI_SUCCESS) /* a mismatch may be found by the next call */
        code = MPI_Barrier(MPI_COMM_WORLD);
    print_error(rank, code);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return code == MPI_SUCCESS || MPI_Finalize() == MPI_SUCCESS;
}
