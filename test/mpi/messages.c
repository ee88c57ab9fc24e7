/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages, requests, probes and statuses of MPI, for any number of ranks. */
#include <stdlib.h>
#include <string.h>
#include "job.h"

static int right(void) {
    return (job_rank + 1) % job_size;
}
static int left(void) {
    return (job_rank + job_size - 1) % job_size;
}

/* Each mode of a send to the right, received from the left. */
static void test_modes(void) {
    typedef int send_function(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);
    static send_function *const sends[] = {MPI_Isend, MPI_Issend, MPI_Irsend, MPI_Ibsend};
    char buffer[4096];
    OK(MPI_Buffer_attach(buffer, sizeof buffer));
    for (int i = 0; i < 4; i++) {
        int value = 100 * job_rank + i, got = -1, count;
        MPI_Request requests[2];
        MPI_Status statuses[2];
        OK(MPI_Irecv(&got, 1, MPI_INT, left(), i, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(sends[i](&value, 1, MPI_INT, right(), i, MPI_COMM_WORLD, &requests[1]));
        OK(MPI_Waitall(2, requests, statuses));
        CHECK(got == 100 * left() + i);
        CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
        CHECK(statuses[0].MPI_SOURCE == left() && statuses[0].MPI_TAG == i);
        OK(MPI_Get_count(&statuses[0], MPI_INT, &count));
        CHECK(count == 1);
        OK(MPI_Get_count(&statuses[0], MPI_DOUBLE, &count));
        CHECK(count == MPI_UNDEFINED);
    }
    void *detached;
    int size;
    OK(MPI_Buffer_detach(&detached, &size));
    CHECK(detached == buffer && size == (int)sizeof buffer);
}

static void test_blocking(void) {
    double value = job_rank, got = -1;
    MPI_Status status;
    OK(MPI_Sendrecv(&value, 1, MPI_DOUBLE, right(), 5, &got, 1, MPI_DOUBLE, left(), 5,
                    MPI_COMM_WORLD, &status));
    CHECK(got == left() && status.MPI_SOURCE == left());
    OK(MPI_Sendrecv_replace(&value, 1, MPI_DOUBLE, right(), 6, left(), MPI_ANY_TAG, MPI_COMM_WORLD,
                            &status));
    CHECK(value == left() && status.MPI_TAG == 6);
    OK(MPI_Send(&value, 1, MPI_DOUBLE, job_rank, 7, MPI_COMM_WORLD)); /* before its receive */
    OK(MPI_Recv(&got, 1, MPI_DOUBLE, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &status));
    CHECK(got == left() && status.MPI_SOURCE == job_rank);
    got = -1;
    OK(MPI_Recv(&got, 1, MPI_DOUBLE, MPI_PROC_NULL, 7, MPI_COMM_WORLD, &status));
    CHECK(got == -1 && status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
    OK(MPI_Send(&value, 1, MPI_DOUBLE, MPI_PROC_NULL, 7, MPI_COMM_WORLD));
    OK(MPI_Sendrecv(&value, 1, MPI_DOUBLE, MPI_PROC_NULL, 5, &got, 1, MPI_DOUBLE, MPI_PROC_NULL, 5,
                    MPI_COMM_SELF, MPI_STATUS_IGNORE));
}

static void test_large_counts(void) {
    const MPI_Count n = 300000;
    int *values = malloc((size_t)n * sizeof *values), *got = calloc((size_t)n, sizeof *got);
    MPI_Request request;
    MPI_Status status;
    MPI_Count count;
    for (int i = 0; i < n; i++)
        values[i] = i + job_rank;
    OK(MPI_Isend_c(values, n, MPI_INT, right(), 8, MPI_COMM_WORLD, &request));
    OK(MPI_Recv_c(got, n, MPI_INT, left(), 8, MPI_COMM_WORLD, &status));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Get_count_c(&status, MPI_INT, &count));
    CHECK(count == n && got[0] == left() && got[n - 1] == n - 1 + left());
    free(values);
    free(got);
}

static void test_probes(void) {
    char text[16] = "";
    MPI_Status status;
    MPI_Message message;
    MPI_Request request;
    int flag = 0, count;
    for (int matched = 0; matched < 4; matched++) {
        OK(MPI_Isend("probed", 7, MPI_CHAR, right(), 20 + matched, MPI_COMM_WORLD, &request));
        memset(text, 0, sizeof text);
        if (matched == 0) {
            OK(MPI_Probe(left(), MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        } else if (matched == 1) {
            while (!flag)
                OK(MPI_Iprobe(MPI_ANY_SOURCE, 21, MPI_COMM_WORLD, &flag, &status));
        } else if (matched == 2) {
            OK(MPI_Mprobe(left(), 22, MPI_COMM_WORLD, &message, &status));
        } else {
            for (flag = 0; !flag;)
                OK(MPI_Improbe(left(), 23, MPI_COMM_WORLD, &flag, &message, &status));
        }
        OK(MPI_Get_count(&status, MPI_CHAR, &count));
        CHECK(count == 7 && status.MPI_SOURCE == left() && status.MPI_TAG == 20 + matched);
        if (matched < 2)
            OK(MPI_Recv(text, 16, MPI_CHAR, left(), 20 + matched, MPI_COMM_WORLD, &status));
        else
            OK(MPI_Mrecv(text, 16, MPI_CHAR, &message, &status));
        CHECK(strcmp(text, "probed") == 0);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    OK(MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &message, &status));
    CHECK(message == MPI_MESSAGE_NO_PROC && status.MPI_SOURCE == MPI_PROC_NULL);
    OK(MPI_Mrecv(text, 1, MPI_CHAR, &message, &status));
    CHECK(message == MPI_MESSAGE_NULL);
}

enum { MANY = 6 };

/* MANY messages from the left, in reverse order of tags, so that they do not complete in order. */
static void begin_many(int *got, MPI_Request *requests) {
    for (int i = 0; i < MANY; i++) {
        got[i] = -1;
        OK(MPI_Irecv(&got[i], 1, MPI_INT, left(), 40 + i, MPI_COMM_WORLD, &requests[i]));
    }
    for (int i = MANY - 1; i >= 0; i--)
        OK(MPI_Send(&i, 1, MPI_INT, right(), 40 + i, MPI_COMM_WORLD));
}

static void test_several(void) {
    MPI_Request requests[MANY + 1];
    MPI_Status status, statuses[MANY + 1];
    int got[MANY], index, flag = 0, count, indices[MANY + 1], seen = 0;
    requests[MANY] = MPI_REQUEST_NULL;
    status.MPI_ERROR = 77; /* only functions that return several statuses set it */
    begin_many(got, requests);
    for (int i = 0; i < MANY; i++) {
        OK(MPI_Waitany(MANY + 1, requests, &index, &status));
        CHECK(index >= 0 && index < MANY && got[index] == index && status.MPI_TAG == 40 + index);
        CHECK(status.MPI_ERROR == 77);
    }
    OK(MPI_Waitany(MANY + 1, requests, &index, &status));
    CHECK(index == MPI_UNDEFINED && status.MPI_SOURCE == MPI_ANY_SOURCE);
    begin_many(got, requests);
    while (seen < MANY) {
        OK(MPI_Waitsome(MANY + 1, requests, &count, indices, statuses));
        for (int i = 0; i < count; i++)
            CHECK(got[indices[i]] == indices[i] && statuses[i].MPI_TAG == 40 + indices[i]);
        seen += count;
    }
    OK(MPI_Testsome(MANY + 1, requests, &count, indices, statuses));
    CHECK(seen == MANY && count == MPI_UNDEFINED);
    begin_many(got, requests);
    while (!flag)
        OK(MPI_Testall(MANY + 1, requests, &flag, statuses));
    for (int i = 0; i < MANY; i++)
        CHECK(got[i] == i && requests[i] == MPI_REQUEST_NULL);
    begin_many(got, requests);
    status.MPI_ERROR = 77;
    for (seen = 0; seen < MANY; seen += flag && index != MPI_UNDEFINED)
        OK(MPI_Testany(MANY + 1, requests, &index, &flag, &status));
    CHECK(status.MPI_ERROR == 77);
}

static void test_persistent(void) {
    int value = -1, got = -1, flag;
    MPI_Request requests[2];
    MPI_Status status;
    OK(MPI_Send_init(&value, 1, MPI_INT, right(), 60, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Recv_init(&got, 1, MPI_INT, left(), 60, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Test(&requests[1], &flag, &status));
    CHECK(flag && status.MPI_SOURCE == MPI_ANY_SOURCE); /* not started */
    for (int i = 0; i < 3; i++) {
        value = 10 * job_rank + i;
        OK(MPI_Startall(2, requests));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        CHECK(got == 10 * left() + i && requests[0] != MPI_REQUEST_NULL);
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    CHECK(requests[1] == MPI_REQUEST_NULL);
}

static void test_cancel_and_free(void) {
    int got = -1, flag, value = 3;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Irecv(&got, 1, MPI_INT, left(), 70, MPI_COMM_WORLD, &request));
    OK(MPI_Request_get_status(request, &flag, &status));
    CHECK(!flag);
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag);
    OK(MPI_Isend(&value, 1, MPI_INT, right(), 71, MPI_COMM_WORLD, &request));
    OK(MPI_Request_free(&request));
    OK(MPI_Recv(&got, 1, MPI_INT, left(), 71, MPI_COMM_WORLD, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(got == 3 && !flag);
}

int main(int argc, char **argv) {
    job_begin(&argc, &argv);
    test_modes();
    test_blocking();
    test_large_counts();
    test_probes();
    test_several();
    test_persistent();
    test_cancel_and_free();
    return job_end();
}
