/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranks of trace_test.py: rank 1 is 0.3 s late for the second of four all_reduces. With
 * "killed" rank 2 then kills itself, and the others exit without rcm_destroy. With "two" two more
 * all_reduces run at the same time, with "many" 40000 in sequence. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ringcomm.h"

enum { CALLS = 4, COUNT = 16384 };

static rcm_status two_at_a_time(rcm_comm *comm) {
    static float in[COUNT], out[2][COUNT];
    rcm_work *works[2];
    if (rcm_rank(comm) == 1)
        usleep(50000); /* the others wait in both */
    for (int i = 0; i < 2; i++)
        if (rcm_all_reduce(comm, in, out[i], COUNT, RCM_FLOAT32, RCM_SUM, NULL, &works[i]) !=
            RCM_OK)
            return RCM_ERR_INTERNAL;
    const rcm_status status = rcm_work_wait_all(works, 2, -1);
    rcm_work_free(works[0]);
    rcm_work_free(works[1]);
    return status;
}

static rcm_status many(rcm_comm *comm) {
    rcm_status status = RCM_OK;
    float in = 1, out;
    for (int i = 0; i < 40000 && status == RCM_OK; i++)
        status = rcm_all_reduce(comm, &in, &out, 1, RCM_FLOAT32, RCM_SUM, NULL, NULL);
    return status;
}

int main(int argc, char **argv) {
    static float in[COUNT], out[COUNT];
    const int killed = argc > 1 && strcmp(argv[1], "killed") == 0;
    struct rcm_counters counters = RCM_COUNTERS_INIT;
    uint64_t wait_ns = 0;
    rcm_comm *comm;
    if (rcm_init(NULL, &comm) != RCM_OK)
        return 2;
    if (rcm_comm_set_name(comm, "late ones") != RCM_OK)
        return 2;
    for (int call = 1; call <= CALLS; call++) {
        if (call == 2 && rcm_rank(comm) == 1)
            usleep(300000);
        if (call == 3 && killed && rcm_rank(comm) == 2) {
            usleep(300000); /* the others are in their second */
            raise(SIGKILL);
        }
        if (rcm_all_reduce(comm, in, out, COUNT, RCM_FLOAT32, RCM_SUM, NULL, NULL) != RCM_OK)
            exit(3); /* without rcm_destroy */
    }
    if (argc > 1 && strcmp(argv[1], "two") == 0 && two_at_a_time(comm) != RCM_OK)
        return 2;
    if (argc > 1 && strcmp(argv[1], "many") == 0 && many(comm) != RCM_OK)
        return 2;
    if (rcm_comm_counters(comm, &counters) != RCM_OK)
        return 2;
    for (uint32_t i = 0; i < counters.ntransports; i++)
        wait_ns += counters.transports[i].wait_ns;
    printf("rank %d waited %.3f s\n", rcm_rank(comm), (double)wait_ns / 1e9);
    return rcm_destroy(comm) == RCM_OK ? 0 : 2;
}
