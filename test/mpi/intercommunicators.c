/* SPDX-License-Identifier: BSD-3-Clause */
/* Intercommunicators of the even and the odd ranks of the world: making, messages, and all
 * collectives in their three forms. A world of one has none. */
#include <stdio.h>
#include <string.h>
#include "job.h"

enum { MOST = 8 };
enum form { BLOCKING, BEGUN, PERSISTENT, FORMS };

static MPI_Comm own, inter;
static int side, rank, size, peers; /* of the own group, and the size of the other one */

/* The rank in the world of a rank of the own, or the other, group. */
static int world_of(int i, int is_peer) {
    return 2 * i + (is_peer ? !side : side);
}

/* Runs a collective in one of its forms. */
#define RUN(form, request, NAME, NONBLOCKING, INIT, ...)                                           \
    do {                                                                                           \
        if ((form) == BLOCKING) {                                                                  \
            OK(MPI_##NAME(__VA_ARGS__, inter));                                                    \
        } else if ((form) == BEGUN) {                                                              \
            OK(MPI_I##NONBLOCKING(__VA_ARGS__, inter, &(request)));                                \
            OK(MPI_Wait(&(request), MPI_STATUS_IGNORE));                                           \
        } else {                                                                                   \
            OK(MPI_##INIT##_init(__VA_ARGS__, inter, MPI_INFO_NULL, &(request)));                  \
            for (int turn = 0; turn < 2; turn++) {                                                 \
                OK(MPI_Start(&(request)));                                                         \
                OK(MPI_Wait(&(request), MPI_STATUS_IGNORE));                                       \
            }                                                                                      \
            OK(MPI_Request_free(&(request)));                                                      \
        }                                                                                          \
    } while (0)

/* The root argument of this rank, where rank `at` of group `group` is the root. */
static int root_of(int group, int at) {
    return group != side ? at : at == rank ? MPI_ROOT : MPI_PROC_NULL;
}

static void test_broadcast(enum form form, int group, int at) {
    MPI_Request request;
    int root = root_of(group, at), values[2] = {-1, -1};
    if (root == MPI_ROOT)
        values[0] = values[1] = 70 + at;
    RUN(form, request, Bcast, bcast, Bcast, values, 2, MPI_INT, root);
    CHECK(values[1] == (root == MPI_PROC_NULL ? -1 : 70 + at));
}

static void test_gather(enum form form, int group, int at) {
    MPI_Request request;
    const int root = root_of(group, at), mine[2] = {world_of(rank, 0), 5};
    int all[2 * MOST], counts[MOST], displs[MOST], total = 0;
    memset(all, -1, sizeof all);
    RUN(form, request, Gather, gather, Gather, mine, 2, MPI_INT, all, 2, MPI_INT, root);
    for (int i = 0; i < peers; i++)
        CHECK(all[2 * i] == (root == MPI_ROOT ? world_of(i, 1) : -1));
    memset(all, -1, sizeof all);
    for (int i = 0; i < peers; i++) { /* rank i sends i % 2 + 1, backwards */
        counts[i] = i % 2 + 1;
        displs[i] = 2 * (peers - 1 - i);
        total += counts[i];
    }
    RUN(form, request, Gatherv, gatherv, Gatherv, mine, rank % 2 + 1, MPI_INT, all, counts, displs,
        MPI_INT, root);
    for (int i = 0; i < peers; i++) {
        CHECK(all[displs[i]] == (root == MPI_ROOT ? world_of(i, 1) : -1));
        CHECK(all[displs[i] + 1] == (root == MPI_ROOT && i % 2 ? 5 : -1));
    }
    CHECK(total > 0);
}

static void test_scatter(enum form form, int group, int at) {
    MPI_Request request;
    const int root = root_of(group, at);
    int all[2 * MOST], got[2] = {-1, -1}, counts[MOST], displs[MOST];
    for (int i = 0; i < peers; i++) {
        all[2 * i] = world_of(i, 1);
        all[2 * i + 1] = -7;
        counts[i] = i % 2 + 1;
        displs[i] = 2 * i;
    }
    RUN(form, request, Scatter, scatter, Scatter, all, 2, MPI_INT, got, 2, MPI_INT, root);
    CHECK(got[0] == (root >= 0 ? world_of(rank, 0) : -1) && got[1] == (root >= 0 ? -7 : -1));
    got[0] = got[1] = -1;
    RUN(form, request, Scatterv, scatterv, Scatterv, all, counts, displs, MPI_INT, got,
        rank % 2 + 1, MPI_INT, root);
    CHECK(got[0] == (root >= 0 ? world_of(rank, 0) : -1));
    CHECK(got[1] == (root >= 0 && rank % 2 ? -7 : -1));
}

static void test_reduce(enum form form, int group, int at) {
    MPI_Request request;
    const int root = root_of(group, at), mine[2] = {world_of(rank, 0), 1};
    int got[2] = {-1, -1}, sum = 0;
    for (int i = 0; i < peers; i++)
        sum += world_of(i, 1);
    RUN(form, request, Reduce, reduce, Reduce, mine, got, 2, MPI_INT, MPI_SUM, root);
    CHECK(got[0] == (root == MPI_ROOT ? sum : -1));
    CHECK(got[1] == (root == MPI_ROOT ? peers : -1));
}

static void test_gather_all(enum form form) {
    MPI_Request request;
    const int mine[2] = {world_of(rank, 0), 9};
    int all[2 * MOST], counts[MOST], displs[MOST];
    RUN(form, request, Allgather, allgather, Allgather, mine, 2, MPI_INT, all, 2, MPI_INT);
    for (int i = 0; i < peers; i++)
        CHECK(all[2 * i] == world_of(i, 1) && all[2 * i + 1] == 9);
    memset(all, -1, sizeof all);
    for (int i = 0; i < peers; i++) {
        counts[i] = i % 2;
        displs[i] = i;
    }
    RUN(form, request, Allgatherv, allgatherv, Allgatherv, mine, rank % 2, MPI_INT, all, counts,
        displs, MPI_INT);
    for (int i = 0; i < peers; i++)
        CHECK(all[i] == (i % 2 ? world_of(i, 1) : -1));
}

static void test_exchange(enum form form) {
    MPI_Request request;
    int from[MOST], to[MOST], counts[MOST], displs[MOST], places[MOST];
    MPI_Datatype types[MOST];
    for (int i = 0; i < peers; i++) {
        from[i] = 100 * world_of(rank, 0) + world_of(i, 1);
        counts[i] = 1;
        displs[i] = i;
        places[i] = i * (int)sizeof(int);
        types[i] = MPI_INT;
    }
    for (int which = 0; which < 3; which++) {
        memset(to, -1, sizeof to);
        if (which == 0)
            RUN(form, request, Alltoall, alltoall, Alltoall, from, 1, MPI_INT, to, 1, MPI_INT);
        else if (which == 1)
            RUN(form, request, Alltoallv, alltoallv, Alltoallv, from, counts, displs, MPI_INT, to,
                counts, displs, MPI_INT);
        else
            RUN(form, request, Alltoallw, alltoallw, Alltoallw, from, counts, places, types, to,
                counts, places, types);
        for (int i = 0; i < peers; i++)
            CHECK(to[i] == 100 * world_of(i, 1) + world_of(rank, 0));
    }
}

/* 2 x 2 matrices, whose product depends on the order. */
static void multiply(void *in, void *inout, int *n, MPI_Datatype *type) {
    int *a = in, *b = inout, made[4];
    (void)type;
    for (int k = 0; k < *n; k++, a += 4, b += 4) {
        for (int i = 0; i < 4; i++)
            made[i] = a[i / 2 * 2] * b[i % 2] + a[i / 2 * 2 + 1] * b[i % 2 + 2];
        memcpy(b, made, sizeof made);
    }
}

static void test_reduce_all(enum form form) {
    MPI_Request request;
    MPI_Datatype matrix;
    MPI_Op op;
    int mine[4] = {1, world_of(rank, 0) + 1, rank + 1, 1}, got[4], expected[4] = {1, 0, 0, 1};
    int one = 1;
    OK(MPI_Type_contiguous(4, MPI_INT, &matrix));
    OK(MPI_Type_commit(&matrix));
    OK(MPI_Op_create(multiply, 0, &op));
    for (int i = peers - 1; i >= 0; i--) {
        int factor[4] = {1, world_of(i, 1) + 1, i + 1, 1};
        multiply(factor, expected, &one, &matrix);
    }
    RUN(form, request, Allreduce, allreduce, Allreduce, mine, got, 1, matrix, op);
    CHECK(memcmp(got, expected, sizeof got) == 0);
    OK(MPI_Op_free(&op));
    OK(MPI_Type_free(&matrix));
}

/* Both groups pass size * peers elements. */
static void test_reduce_scatter(enum form form) {
    MPI_Request request;
    int mine[MOST * MOST], got[MOST], counts[MOST], sum = 0, before = 0;
    for (int i = 0; i < size * peers; i++)
        mine[i] = 1000 * i + world_of(rank, 0);
    for (int i = 0; i < peers; i++)
        sum += world_of(i, 1);
    RUN(form, request, Reduce_scatter_block, reduce_scatter_block, Reduce_scatter_block, mine, got,
        peers, MPI_INT, MPI_SUM);
    for (int i = 0; i < peers; i++)
        CHECK(got[i] == 1000 * peers * (rank * peers + i) + sum);
    for (int i = 0; i < size; i++) { /* the last one has what the others leave */
        counts[i] = i < size - 1 ? 1 : size * peers - (size - 1);
        before += i < rank ? counts[i] : 0;
    }
    memset(got, -1, sizeof got);
    if (counts[size - 1] > MOST)
        return;
    RUN(form, request, Reduce_scatter, reduce_scatter, Reduce_scatter, mine, got, counts, MPI_INT,
        MPI_SUM);
    for (int i = 0; i < counts[rank]; i++)
        CHECK(got[i] == 1000 * peers * (before + i) + sum);
}

static void test_collectives(void) {
    for (enum form form = BLOCKING; form < FORMS; form++) {
        MPI_Request request;
        if (form == BLOCKING)
            OK(MPI_Barrier(inter));
        else if (form == BEGUN)
            OK(MPI_Ibarrier(inter, &request));
        else
            OK(MPI_Barrier_init(inter, MPI_INFO_NULL, &request));
        if (form == PERSISTENT)
            OK(MPI_Start(&request));
        if (form != BLOCKING)
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (form == PERSISTENT)
            OK(MPI_Request_free(&request));
        for (int group = 0; group < 2; group++) {
            const int at = (group == side ? size : peers) - 1;
            test_broadcast(form, group, 0);
            test_broadcast(form, group, at);
            test_gather(form, group, at);
            test_scatter(form, group, at);
            test_reduce(form, group, at);
        }
        test_gather_all(form);
        test_exchange(form);
        test_reduce_all(form);
        test_reduce_scatter(form);
    }
}

/* Rank i of each group sends to all of the other one. Sources and probes count in that group. */
static void test_messages(void) {
    MPI_Request requests[MOST];
    MPI_Message message;
    MPI_Status status;
    int value = world_of(rank, 0), got = -1, seen = 0, class, flag;
    for (int i = 0; i < peers; i++)
        OK(MPI_Isend(&value, 1, MPI_INT, i, 3, inter, &requests[i]));
    for (int i = 0; i < peers; i++) {
        if (i == 0) {
            OK(MPI_Mprobe(MPI_ANY_SOURCE, 3, inter, &message, &status));
            CHECK(status.MPI_SOURCE >= 0 && status.MPI_SOURCE < peers);
            OK(MPI_Mrecv(&got, 1, MPI_INT, &message, &status));
        } else {
            OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &status));
        }
        CHECK(got == world_of(status.MPI_SOURCE, 1) && status.MPI_TAG == 3);
        seen += got;
    }
    OK(MPI_Waitall(peers, requests, MPI_STATUSES_IGNORE));
    CHECK(seen == peers * (peers - 1) + peers * !side);
    OK(MPI_Barrier(inter));
    if (rank == 0) {
        OK(MPI_Sendrecv(&value, 1, MPI_INT, 0, 1, &got, 1, MPI_INT, 0, 1, inter, &status));
        CHECK(got == world_of(0, 1) && status.MPI_SOURCE == 0);
        OK(MPI_Sendrecv_replace(&value, 1, MPI_INT, 0, 1, 0, 1, inter, &status));
        CHECK(value == world_of(0, 1));
    }
    OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &flag, &status));
    CHECK(!flag);
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    MPI_Error_class(MPI_Send(&value, 1, MPI_INT, peers, 3, inter), &class);
    CHECK(class == MPI_ERR_RANK);
    MPI_Error_class(MPI_Scan(&value, &got, 1, MPI_INT, MPI_SUM, inter), &class);
    CHECK(class == MPI_ERR_COMM);
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_ARE_FATAL));
}

static void test_queries(MPI_Comm comm) {
    MPI_Group group;
    int flag, n;
    OK(MPI_Comm_test_inter(comm, &flag));
    CHECK(flag);
    OK(MPI_Comm_size(comm, &n));
    CHECK(n == size);
    OK(MPI_Comm_rank(comm, &n));
    CHECK(n == rank);
    OK(MPI_Comm_remote_size(comm, &n));
    CHECK(n == peers);
    OK(MPI_Comm_remote_group(comm, &group));
    OK(MPI_Group_size(group, &n));
    CHECK(n == peers);
    OK(MPI_Group_rank(group, &n));
    CHECK(n == MPI_UNDEFINED);
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_group(comm, &group));
    OK(MPI_Group_rank(group, &n));
    CHECK(n == rank);
    OK(MPI_Group_free(&group));
}

/* Duplicates, parts, and merged groups. */
static void test_made(void) {
    MPI_Comm made;
    MPI_Group all, first;
    int result, n, at, value, zero = 0;
    OK(MPI_Comm_dup(inter, &made));
    test_queries(made);
    OK(MPI_Comm_compare(inter, made, &result));
    CHECK(result == MPI_CONGRUENT);
    OK(MPI_Comm_compare(inter, own, &result));
    CHECK(result == MPI_UNEQUAL);
    OK(MPI_Comm_free(&made));
    OK(MPI_Comm_split(inter, 0, -rank, &made)); /* both groups backwards */
    OK(MPI_Comm_rank(made, &n));
    CHECK(n == size - 1 - rank);
    OK(MPI_Comm_compare(inter, made, &result));
    CHECK(result == (size == 1 && peers == 1 ? MPI_CONGRUENT : MPI_SIMILAR));
    value = rank;
    OK(MPI_Bcast(&value, 1, MPI_INT, side ? 0 : n == 0 ? MPI_ROOT : MPI_PROC_NULL, made));
    CHECK(value == (side ? (job_size + 1) / 2 - 1 : rank));
    OK(MPI_Comm_free(&made));
    OK(MPI_Comm_split(inter, side, 0, &made)); /* a colour of one group only */
    CHECK(made == MPI_COMM_NULL);
    OK(MPI_Comm_group(inter, &all));
    OK(MPI_Group_incl(all, 1, &zero, &first));
    OK(MPI_Comm_create(inter, first, &made)); /* rank 0 of each */
    CHECK((made == MPI_COMM_NULL) == (rank != 0));
    if (made != MPI_COMM_NULL) {
        OK(MPI_Comm_remote_size(made, &n));
        CHECK(n == 1);
        OK(MPI_Comm_free(&made));
    }
    OK(MPI_Group_free(&first));
    OK(MPI_Group_free(&all));
    for (int high = 0; high < 2; high++) { /* which group comes first */
        OK(MPI_Intercomm_merge(inter, side == high, &made));
        OK(MPI_Comm_rank(made, &at));
        OK(MPI_Comm_size(made, &n));
        CHECK(n == job_size && at == (side == high ? peers : 0) + rank);
        OK(MPI_Comm_test_inter(made, &n));
        CHECK(!n);
        OK(MPI_Comm_free(&made));
    }
}

/* Makes it while a receive of any tag from any rank waits on the communicator of the leaders. */
static void make(void) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    int value = 17, got = -1;
    OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request));
    OK(MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, !side, 12, &inter));
    OK(MPI_Send(&value, 1, MPI_INT, (job_rank + 1) % job_size, 4, MPI_COMM_WORLD));
    OK(MPI_Wait(&request, &status));
    CHECK(got == 17 && status.MPI_TAG == 4);
}

int main(int argc, char **argv) {
    job_begin(&argc, &argv);
    side = job_rank % 2;
    OK(MPI_Comm_split(MPI_COMM_WORLD, side, job_rank, &own));
    OK(MPI_Comm_rank(own, &rank));
    OK(MPI_Comm_size(own, &size));
    peers = job_size - size;
    if (peers > 0 && job_size <= MOST) {
        make();
        test_queries(inter);
        test_messages();
        test_collectives();
        test_made();
        OK(MPI_Comm_free(&inter));
    }
    OK(MPI_Comm_free(&own));
    return job_end();
}
