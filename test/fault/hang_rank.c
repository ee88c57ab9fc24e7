/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank of a job that hangs, for hang_test.py and the tests of ringcomm-info --live, started by
 * ringcomm-run:
 *     hang_rank SCENE ODD MILLISECONDS
 * Scenes, after a barrier of all ranks:
 *   absent    rank ODD makes no more calls, the others call all_reduce with that deadline
 *   stopped   the same, and ODD stops itself
 *   hidden    the same, and ODD's pid means another process for the others
 *   receives  ODD receives a message that no rank sends, the others call all_reduce
 *   slow      ODD calls all_reduce that much later
 *   calls     like absent, after BARRIERS barriers and SUMS sums of different lengths
 *   wait      like absent, but without a deadline: until it is killed
 */
#include "ringcomm.h"
#include "cpu_starvation.h"
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 1000, LIMIT_S = 60, BARRIERS = 1500, SUMS = 40 };

static void sleep_ms(long ms) {
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* Waits until the others have given up. */
static rcm_status stay_away(rcm_comm *comm) {
    struct rcm_error error = RCM_ERROR_INIT;
    while (rcm_comm_error(comm, &error) == RCM_OK)
        sleep_ms(5);
    return error.status;
}

static rcm_status sum(rcm_comm *comm, int64_t timeout_ms) {
    float data[COUNT] = {0};
    struct rcm_call call = RCM_CALL_INIT;
    call.timeout_ms = timeout_ms;
    return rcm_all_reduce(comm, data, data, COUNT, RCM_FLOAT32, RCM_SUM, &call, NULL);
}

static rcm_status be_odd(rcm_comm *comm, const char *scene, long ms) {
    float value;
    if (strcmp(scene, "slow") == 0) {
        sleep_ms(ms);
        return sum(comm, 0);
    }
    if (strcmp(scene, "receives") == 0)
        return rcm_recv(comm, &value, 1, RCM_FLOAT32, (rcm_rank(comm) + 1) % rcm_size(comm), 7,
                        NULL, NULL);
    if (strcmp(scene, "stopped") == 0 || strcmp(scene, "hidden") == 0)
        raise(SIGSTOP);
    return stay_away(comm);
}

/* BARRIERS barriers, then a sum of each length. */
static rcm_status call_much(rcm_comm *comm) {
    float data[SUMS] = {0};
    rcm_status status = RCM_OK;
    for (int i = 0; i < BARRIERS && status == RCM_OK; i++)
        status = rcm_barrier(comm, NULL, NULL);
    for (size_t i = 1; i <= SUMS && status == RCM_OK; i++)
        status = rcm_all_reduce(comm, data, data, i, RCM_FLOAT32, RCM_SUM, NULL, NULL);
    return status;
}

int main(int argc, char **argv) {
    rcm_comm *comm;
    if (argc != 4)
        return 2;
    const char *scene = argv[1];
    const int odd = atoi(argv[2]);
    const long ms = atol(argv[3]);
    const bool late = strcmp(scene, "slow") != 0 && strcmp(scene, "wait") != 0;
    int32_t pid = (int32_t)getpid();
    alarm(LIMIT_S);
    if (rcm_init(NULL, &comm) != RCM_OK ||
        rcm_broadcast(comm, &pid, 1, RCM_INT32, odd, NULL, NULL) != RCM_OK ||
        rcm_barrier(comm, NULL, NULL) != RCM_OK ||
        (strcmp(scene, "calls") == 0 && call_much(comm) != RCM_OK)) {
        printf("begin: %s\n", rcm_last_error());
        return 1;
    }
    const int rank = rcm_rank(comm), size = rcm_size(comm);
    printf("pid %d\n", (int)getpid());
    fflush(stdout);
    struct strain before = {0}, after = {0};
    strain_add(&before, 0);
    const rcm_status status = rank == odd ? be_odd(comm, scene, ms) : sum(comm, late ? ms : 0);
    struct rcm_error error = RCM_ERROR_INIT;
    (void)rcm_comm_error(comm, &error);
    strain_add(&after, 0);
    printf("queued %lld ms\n", (long long)strain_excuse(&before, &after) / 1000000);
    printf("%s: %s\n", rcm_status_name(status), error.text);
    fflush(stdout);
    const rcm_status destroyed = rcm_destroy(comm);
    if (strcmp(scene, "stopped") == 0 && rank == (odd + 1) % size) {
        sleep_ms(1500); /* until the others have printed their errors: the launcher then ends all */
        kill((pid_t)pid, SIGKILL);
    }
    /* A failure, so that the launcher ends the stopped rank. */
    return destroyed == status && strcmp(scene, "hidden") != 0 ? 0 : 1;
}
