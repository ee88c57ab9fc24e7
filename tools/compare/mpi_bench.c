/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ringcomm-bench over MPI. It uses the same measuring code: this file implements the functions of
 * ringcomm.h that this code calls by MPI calls. peer_bench.c has main, and the functions that no
 * peer has. So iterations, barriers, clocks, data, checks, statistics and columns are equal. Only
 * blocking calls on one communicator are implemented.
 *
 * Two differences remain. MPI has no deadlines, so the program that starts this one must end it in
 * time. The barrier before each iteration is MPI's, as ringcomm-bench's is libringcomm's; so
 * without --together each library determines the start skew of its ranks.
 *
 *     mpirun -n 2 mpi-bench all_reduce -b 8 -e 64K --csv results.csv
 */
#include "bench.h"

#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "common.h"
#include "error.h"

/* The only communicator. */
struct rcm_comm {
    int rank, size, local_size;
};
static struct rcm_comm mpi_world;

/* ---- errors and arguments -------------------------------------------------------------------- */

static rcm_status mpi_status(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;
    if (code == MPI_SUCCESS)
        return RCM_OK;
    MPI_Error_string(code, text, &len);
    return rcmi_fail(RCM_ERR_SYSTEM, 0, "%s: %s", what, text);
}

static MPI_Datatype mpi_type(rcm_dtype dtype) {
    switch (dtype) {
    case RCM_UINT8:
        return MPI_UINT8_T;
    case RCM_INT32:
        return MPI_INT32_T;
    case RCM_INT64:
        return MPI_INT64_T;
    case RCM_FLOAT32:
        return MPI_FLOAT;
    case RCM_FLOAT64:
        return MPI_DOUBLE;
    default: /* the compared types */
        return MPI_DATATYPE_NULL;
    }
}

static MPI_Op mpi_op(rcm_op op) {
    switch (op) {
    case RCM_SUM:
        return MPI_SUM;
    case RCM_PROD:
        return MPI_PROD;
    case RCM_MIN:
        return MPI_MIN;
    case RCM_MAX:
        return MPI_MAX;
    default:
        return MPI_OP_NULL;
    }
}

static rcm_status mpi_check(size_t count, rcm_work **ret_work) {
    if (count > INT_MAX)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "%zu elements: MPI counts with int", count);
    if (ret_work)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "asynchronous operations are not wrapped");
    return RCM_OK;
}

/* Ends a blocking operation of `count` elements that has a ret_work argument. */
#define MPI_RETURN(count, name, ...)                                                               \
    do {                                                                                           \
        const rcm_status status_ = mpi_check(count, ret_work);                                     \
        return status_ == RCM_OK ? mpi_status(name(__VA_ARGS__), #name) : status_;                 \
    } while (0)

/* ---- operations ------------------------------------------------------------------------------ */

rcm_status rcm_all_reduce(rcm_comm *comm, const void *send, void *recv, size_t count,
                          rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                          rcm_work **ret_work) {
    MPI_RETURN(count, MPI_Allreduce, send == recv ? MPI_IN_PLACE : send, recv, (int)count,
               mpi_type(dtype), mpi_op(op), MPI_COMM_WORLD);
}

rcm_status rcm_broadcast(rcm_comm *comm, void *buffer, size_t count, rcm_dtype dtype, int root,
                         const struct rcm_call *call, rcm_work **ret_work) {
    MPI_RETURN(count, MPI_Bcast, buffer, (int)count, mpi_type(dtype), root, MPI_COMM_WORLD);
}

rcm_status rcm_barrier(rcm_comm *comm, const struct rcm_call *call, rcm_work **ret_work) {
    rcm_status status = mpi_check(0, ret_work);
    return status == RCM_OK ? mpi_status(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier") : status;
}

rcm_status rcm_reduce(rcm_comm *comm, const void *send, void *recv, size_t count, rcm_dtype dtype,
                      rcm_op op, int root, const struct rcm_call *call, rcm_work **ret_work) {
    MPI_RETURN(count, MPI_Reduce, send == recv && comm->rank == root ? MPI_IN_PLACE : send, recv,
               (int)count, mpi_type(dtype), mpi_op(op), root, MPI_COMM_WORLD);
}

rcm_status rcm_scatter(rcm_comm *comm, const void *send, void *recv, size_t count, rcm_dtype dtype,
                       int root, const struct rcm_call *call, rcm_work **ret_work) {
    const MPI_Datatype type = mpi_type(dtype);
    const size_t block = count * rcm_dtype_size(dtype);
    const bool in_place =
        comm->rank == root && recv == (const char *)send + (size_t)comm->rank * block;
    MPI_RETURN(count, MPI_Scatter, send, (int)count, type, in_place ? MPI_IN_PLACE : recv,
               (int)count, type, root, MPI_COMM_WORLD);
}

/* Whether the block that a rank sends is its own block of the receive buffer. */
static bool mpi_gathers_in_place(const rcm_comm *comm, const void *send, const void *recv,
                                 size_t block) {
    return send == (const char *)recv + (size_t)comm->rank * block;
}

rcm_status rcm_gather(rcm_comm *comm, const void *send, void *recv, size_t count, rcm_dtype dtype,
                      int root, const struct rcm_call *call, rcm_work **ret_work) {
    const MPI_Datatype type = mpi_type(dtype);
    const size_t block = count * rcm_dtype_size(dtype);
    const bool in_place = comm->rank == root && mpi_gathers_in_place(comm, send, recv, block);
    MPI_RETURN(count, MPI_Gather, in_place ? MPI_IN_PLACE : send, (int)count, type, recv,
               (int)count, type, root, MPI_COMM_WORLD);
}

rcm_status rcm_all_gather(rcm_comm *comm, const void *send, void *recv, size_t count,
                          rcm_dtype dtype, const struct rcm_call *call, rcm_work **ret_work) {
    const MPI_Datatype type = mpi_type(dtype);
    const bool in_place = mpi_gathers_in_place(comm, send, recv, count * rcm_dtype_size(dtype));
    MPI_RETURN(count, MPI_Allgather, in_place ? MPI_IN_PLACE : send, (int)count, type, recv,
               (int)count, type, MPI_COMM_WORLD);
}

/* In place, MPI's result is at the start of the input, ours is in the rank's block. */
rcm_status rcm_reduce_scatter(rcm_comm *comm, const void *send, void *recv, size_t count,
                              rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                              rcm_work **ret_work) {
    MPI_RETURN(count, MPI_Reduce_scatter_block, send, recv, (int)count, mpi_type(dtype), mpi_op(op),
               MPI_COMM_WORLD);
}

rcm_status rcm_all_to_all(rcm_comm *comm, const void *send, void *recv, size_t count,
                          rcm_dtype dtype, const struct rcm_call *call, rcm_work **ret_work) {
    const MPI_Datatype type = mpi_type(dtype);
    MPI_RETURN(count, MPI_Alltoall, send == recv ? MPI_IN_PLACE : send, (int)count, type, recv,
               (int)count, type, MPI_COMM_WORLD);
}

/* ---- blocks of unequal length, one after the other ------------------------------------------- */

enum { MPI_RANKS_MAX = 1024 };
struct mpi_blocks {
    int counts[MPI_RANKS_MAX], displs[MPI_RANKS_MAX];
};

static rcm_status mpi_blocks(const rcm_comm *comm, const size_t *counts, rcm_work **ret_work,
                             struct mpi_blocks *ret_blocks) {
    size_t first = 0;
    if (comm->size > MPI_RANKS_MAX)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "more than %d ranks", MPI_RANKS_MAX);
    for (int r = 0; r < comm->size; r++) {
        ret_blocks->counts[r] = (int)counts[r];
        ret_blocks->displs[r] = (int)first;
        first += counts[r];
    }
    return mpi_check(first, ret_work);
}

/* Whether a single block is this rank's block of the other buffer. */
static bool mpi_is_own(const rcm_comm *comm, const void *one, const void *many,
                       const struct mpi_blocks *blocks, rcm_dtype dtype) {
    return one == (const char *)many + (size_t)blocks->displs[comm->rank] * rcm_dtype_size(dtype);
}

rcm_status rcm_scatter_v(rcm_comm *comm, const void *send, const size_t *send_counts,
                         const size_t *send_displs, void *recv, size_t recv_count, rcm_dtype dtype,
                         int root, const struct rcm_call *call, rcm_work **ret_work) {
    struct mpi_blocks b;
    rcm_status status = mpi_blocks(comm, send_counts, ret_work, &b);
    if (status != RCM_OK)
        return status;
    const bool in_place = comm->rank == root && mpi_is_own(comm, recv, send, &b, dtype);
    return mpi_status(MPI_Scatterv(send, b.counts, b.displs, mpi_type(dtype),
                                   in_place ? MPI_IN_PLACE : recv, (int)recv_count, mpi_type(dtype),
                                   root, MPI_COMM_WORLD),
                      "MPI_Scatterv");
}

rcm_status rcm_gather_v(rcm_comm *comm, const void *send, size_t send_count, void *recv,
                        const size_t *recv_counts, const size_t *recv_displs, rcm_dtype dtype,
                        int root, const struct rcm_call *call, rcm_work **ret_work) {
    struct mpi_blocks b;
    rcm_status status = mpi_blocks(comm, recv_counts, ret_work, &b);
    if (status != RCM_OK)
        return status;
    const bool in_place = comm->rank == root && mpi_is_own(comm, send, recv, &b, dtype);
    return mpi_status(MPI_Gatherv(in_place ? MPI_IN_PLACE : send, (int)send_count, mpi_type(dtype),
                                  recv, b.counts, b.displs, mpi_type(dtype), root, MPI_COMM_WORLD),
                      "MPI_Gatherv");
}

rcm_status rcm_all_gather_v(rcm_comm *comm, const void *send, size_t send_count, void *recv,
                            const size_t *recv_counts, const size_t *recv_displs, rcm_dtype dtype,
                            const struct rcm_call *call, rcm_work **ret_work) {
    struct mpi_blocks b;
    rcm_status status = mpi_blocks(comm, recv_counts, ret_work, &b);
    if (status != RCM_OK)
        return status;
    const bool in_place = mpi_is_own(comm, send, recv, &b, dtype);
    return mpi_status(MPI_Allgatherv(in_place ? MPI_IN_PLACE : send, (int)send_count,
                                     mpi_type(dtype), recv, b.counts, b.displs, mpi_type(dtype),
                                     MPI_COMM_WORLD),
                      "MPI_Allgatherv");
}

rcm_status rcm_reduce_scatter_v(rcm_comm *comm, const void *send, const size_t *send_counts,
                                const size_t *send_displs, void *recv, size_t recv_count,
                                rcm_dtype dtype, rcm_op op, const struct rcm_call *call,
                                rcm_work **ret_work) {
    struct mpi_blocks b;
    rcm_status status = mpi_blocks(comm, send_counts, ret_work, &b);
    if (status != RCM_OK)
        return status;
    return mpi_status(
        MPI_Reduce_scatter(send, recv, b.counts, mpi_type(dtype), mpi_op(op), MPI_COMM_WORLD),
        "MPI_Reduce_scatter");
}

rcm_status rcm_all_to_all_v(rcm_comm *comm, const void *send, const size_t *send_counts,
                            const size_t *send_displs, void *recv, const size_t *recv_counts,
                            const size_t *recv_displs, rcm_dtype dtype, const struct rcm_call *call,
                            rcm_work **ret_work) {
    struct mpi_blocks out, in;
    rcm_status status = mpi_blocks(comm, send_counts, ret_work, &out);
    if (status == RCM_OK)
        status = mpi_blocks(comm, recv_counts, ret_work, &in);
    if (status != RCM_OK)
        return status;
    return mpi_status(MPI_Alltoallv(send, out.counts, out.displs, mpi_type(dtype), recv, in.counts,
                                    in.displs, mpi_type(dtype), MPI_COMM_WORLD),
                      "MPI_Alltoallv");
}

rcm_status rcm_scan(rcm_comm *comm, const void *send, void *recv, size_t count, rcm_dtype dtype,
                    rcm_op op, const struct rcm_call *call, rcm_work **ret_work) {
    MPI_RETURN(count, MPI_Scan, send == recv ? MPI_IN_PLACE : send, recv, (int)count,
               mpi_type(dtype), mpi_op(op), MPI_COMM_WORLD);
}

rcm_status rcm_exscan(rcm_comm *comm, const void *send, void *recv, size_t count, rcm_dtype dtype,
                      rcm_op op, const struct rcm_call *call, rcm_work **ret_work) {
    MPI_RETURN(count, MPI_Exscan, send == recv ? MPI_IN_PLACE : send, recv, (int)count,
               mpi_type(dtype), mpi_op(op), MPI_COMM_WORLD);
}

rcm_status rcm_send(rcm_comm *comm, const void *buffer, size_t count, rcm_dtype dtype, int dst,
                    uint64_t tag, const struct rcm_call *call, rcm_work **ret_work) {
    MPI_RETURN(count, MPI_Send, buffer, (int)count, mpi_type(dtype), dst, (int)tag, MPI_COMM_WORLD);
}

rcm_status rcm_recv(rcm_comm *comm, void *buffer, size_t count, rcm_dtype dtype, int src,
                    uint64_t tag, const struct rcm_call *call, rcm_work **ret_work) {
    MPI_RETURN(count, MPI_Recv, buffer, (int)count, mpi_type(dtype), src, (int)tag, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
}

/* ---- life cycle and facts -------------------------------------------------------------------- */

/* Counts the ranks on this machine by its name: MPICH with MPIR_CVAR_NOLOCAL reports none. */
static rcm_status mpi_count_local(int size, int *ret_size) {
    char name[MPI_MAX_PROCESSOR_NAME] = "";
    char(*const all)[MPI_MAX_PROCESSOR_NAME] = calloc((size_t)size, sizeof *all);
    int len;
    if (!all)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the names of %d ranks", size);
    MPI_Get_processor_name(name, &len);
    rcm_status status = mpi_status(
        MPI_Allgather(name, sizeof name, MPI_CHAR, all, sizeof name, MPI_CHAR, MPI_COMM_WORLD),
        "MPI_Allgather");
    *ret_size = 0;
    for (int rank = 0; rank < size; rank++)
        *ret_size += strcmp(all[rank], name) == 0;
    free(all);
    return status;
}

rcm_status rcm_init(const struct rcm_init_options *options, rcm_comm **ret_comm) {
    rcm_status status = mpi_status(MPI_Init(NULL, NULL), "MPI_Init");
    if (status != RCM_OK)
        return status;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &mpi_world.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mpi_world.size);
    status = mpi_count_local(mpi_world.size, &mpi_world.local_size);
    if (status == RCM_OK)
        *ret_comm = &mpi_world;
    return status;
}

rcm_status rcm_destroy(rcm_comm *comm) {
    return mpi_status(MPI_Finalize(), "MPI_Finalize");
}

rcm_status rcm_abort(rcm_comm *comm, const char *reason) {
    return mpi_status(MPI_Abort(MPI_COMM_WORLD, TOOL_FAILED), "MPI_Abort");
}

int rcm_rank(const rcm_comm *comm) {
    return comm->rank;
}

int rcm_size(const rcm_comm *comm) {
    return comm->size;
}

int rcm_local_size(const rcm_comm *comm) {
    return comm->local_size;
}

/* "Open MPI v4.1.4", "MPICH Version: 4.0.2": the first words of the library's version. */
const char *rcm_comm_algorithm(rcm_comm *comm, enum rcm_collective collective, size_t bytes) {
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int len = 0;
    if (text[0] != '\0')
        return text;
    MPI_Get_library_version(text, &len);
    text[strcspn(text, ",\n")] = '\0';
    for (char *c = text; *c; c++)
        *c = *c == '\t' ? ' ' : *c;
    return text;
}

const char *rcm_comm_transport(rcm_comm *comm, int peer) {
    return "mpi"; /* the transport is set by options of mpirun */
}
