/* SPDX-License-Identifier: BSD-3-Clause */
/* ringcomm-bench --counters: what all ranks sent by each transport, during and outside of the
 * measurements. */
#include "bench.h"
#include <inttypes.h>
#include <stdio.h>

enum { SENT, SENT_BYTES, SUMS };

static void counters_print(const struct rcm_counters *counters,
                           uint64_t sums[RCM_COUNTERS_TRANSPORTS][SUMS]) {
    for (uint32_t i = 0; i < counters->ntransports; i++)
        if (sums[i][SENT] > 0)
            fprintf(stderr, "# counters: %s: %" PRIu64 " messages, %" PRIu64 " bytes\n",
                    counters->transports[i].transport, sums[i][SENT], sums[i][SENT_BYTES]);
    fprintf(stderr,
            "# counters: rank 0: %" PRIu64 " collectives, %" PRIu64 " bytes of slots, %" PRIu64
            " of plans\n",
            counters->collectives, counters->slot_bytes, counters->plan_bytes);
}

rcm_status bench_counters(const struct bench_rank *rank) {
    struct rcm_counters counters = RCM_COUNTERS_INIT;
    uint64_t mine[RCM_COUNTERS_TRANSPORTS][SUMS] = {{0}}, all[RCM_COUNTERS_TRANSPORTS][SUMS];
    rcm_status status = rcm_comm_counters(rank->comm, &counters);
    for (uint32_t i = 0; i < counters.ntransports; i++) {
        mine[i][SENT] = counters.transports[i].sent;
        mine[i][SENT_BYTES] = counters.transports[i].sent_bytes;
    }
    if (status == RCM_OK)
        status = rcm_reduce(rank->comm, mine, all, (size_t)RCM_COUNTERS_TRANSPORTS * SUMS,
                            RCM_UINT64, RCM_SUM, 0, NULL, NULL);
    if (status == RCM_OK && rank->rank == 0)
        counters_print(&counters, all);
    return status;
}
