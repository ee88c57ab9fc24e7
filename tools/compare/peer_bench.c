/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main() of ringcomm-bench over another library (mpi_bench.c or gloo_bench.cc), and the functions
 * that no peer has: memory that ranks map, counters, lists of transports and algorithms.
 */
#include "bench.h"
#include "common.h"
#include "error.h"

rcm_status rcm_mem_alloc_kind(rcm_comm *comm, enum rcm_mem_kind kind, size_t bytes,
                              void **ret_memory) {
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "--registered and --memory are for libringcomm only");
}

rcm_status rcm_comm_counters(rcm_comm *comm, struct rcm_counters *ret_counters) {
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "--counters is for libringcomm only");
}

rcm_status rcm_transport_at(size_t i, struct rcm_transport_info *ret_info) {
    return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "--transport is for libringcomm only");
}

rcm_status rcm_algorithm_at(enum rcm_collective collective, size_t i,
                            struct rcm_algorithm_info *ret_info) {
    return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "--algorithm is for libringcomm only");
}

int main(int argc, char **argv) {
    static struct bench_options options;
    bench_parse(argc, argv, &options);
    if (options.what == BENCH_KERNEL || options.nranks != 0 || options.threads) {
        tool_error("kernel, --ranks and --threads are not supported: start it by a launcher");
        return TOOL_USAGE;
    }
    return bench_rank_main(&options, -1, NULL);
}
