/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank of trace_test.py: rank 1 is 0.3 s late for the second of four all_reduces; with "killed"
 * rank 2 then kills itself, and the others exit as programs do that give up. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ringcomm.h"

enum { CALLS = 4, COUNT = 16384 };

int main(int argc, char **argv) {
    static float in[COUNT], out[COUNT];
    const int killed = argc > 1 && strcmp(argv[1], "killed") == 0;
    struct rcm_counters counters = RCM_COUNTERS_INIT;
    uint64_t wait_ns = 0;
    rcm_comm *comm;
    if (rcm_init(NULL, &comm) != RCM_OK)
        return 2;
    for (int call = 1; call <= CALLS; call++) {
        if (call == 2 && rcm_rank(comm) == 1)
            usleep(300000);
        if (call == 3 && killed && rcm_rank(comm) == 2) {
            usleep(300000); /* the others are in theirs */
            raise(SIGKILL);
        }
        if (rcm_all_reduce(comm, in, out, COUNT, RCM_FLOAT32, RCM_SUM, NULL, NULL) != RCM_OK)
            exit(3); /* without rcm_destroy */
    }
    if (rcm_comm_counters(comm, &counters) != RCM_OK)
        return 2;
    for (uint32_t i = 0; i < counters.ntransports; i++)
        wait_ns += counters.transports[i].wait_ns;
    printf("rank %d waited %.3f s\n", rcm_rank(comm), (double)wait_ns / 1e9);
    return rcm_destroy(comm) == RCM_OK ? 0 : 2;
}
