/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ringcomm-bench: measures the collectives and checks their results. This file has main, and starts
 * the ranks: as processes, as threads, or not at all if a launcher has started them.
 */
#include "bench.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../common.h"

/* Time after the run's deadline for operations to fail with their own, more precise error. */
#define BENCH_GRACE_MS 5000

static int process_main(int rank, void *arg) {
    int code = bench_rank_main(arg, rank, NULL);
    fflush(stdout);
    return code;
}

static int bench_run_processes(struct bench_options *options) {
    int failed_rank = -1, code = 0;
    rcm_status status = rcm_spawn(options->nranks, process_main, options,
                                  options->timeout_ms + BENCH_GRACE_MS, &failed_rank, &code);
    if (status == RCM_OK)
        return TOOL_OK;
    if (failed_rank >= 0 && (code == TOOL_FAILED || code == TOOL_USAGE))
        return code; /* it has printed the reason */
    if (failed_rank >= 0 && code > 128)
        tool_error("rank %d was killed by signal %d (%s)", failed_rank, code - 128,
                   strsignal(code - 128));
    else
        tool_error("%s (%s)", rcm_last_error(), rcm_status_name(status));
    return TOOL_FAILED;
}

struct bench_thread {
    const struct bench_options *options;
    rcm_store *store;
    pthread_t id;
    int rank;
    int code;
};

static void *thread_main(void *arg) {
    struct bench_thread *thread = arg;
    thread->code = bench_rank_main(thread->options, thread->rank, thread->store);
    return NULL;
}

/* If a thread cannot be started, the others wait for it until their deadline. */
static int threads_run(struct bench_thread *threads, const struct bench_options *options) {
    int started = 0, code = TOOL_OK;
    while (started < options->nranks) {
        struct bench_thread *thread = &threads[started];
        int error = pthread_create(&thread->id, NULL, thread_main, thread);
        if (error) {
            tool_error("cannot start thread %d: %s", started, strerror(error));
            code = TOOL_FAILED;
            break;
        }
        started++;
    }
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i].id, NULL);
        if (code == TOOL_OK)
            code = threads[i].code;
    }
    return code;
}

static int bench_run_threads(const struct bench_options *options) {
    rcm_store *store;
    if (rcm_store_open("hash:", options->timeout_ms, &store) != RCM_OK) {
        tool_error("%s", rcm_last_error());
        return TOOL_FAILED;
    }
    int code = TOOL_FAILED;
    struct bench_thread *threads = calloc((size_t)options->nranks, sizeof(*threads));
    if (threads) {
        for (int i = 0; i < options->nranks; i++)
            threads[i] = (struct bench_thread){.options = options, .store = store, .rank = i};
        code = threads_run(threads, options);
    } else {
        tool_error("out of memory");
    }
    free(threads);
    rcm_store_close(store);
    return code;
}

int main(int argc, char **argv) {
    static struct bench_options options;
    bench_parse(argc, argv, &options);
    if (options.what == BENCH_KERNEL)
        return options.cuda ? bench_kernel_cuda_main(&options) : bench_kernel_main(&options);
    if (options.transport && setenv("RINGCOMM_TRANSPORT", options.transport, 1) != 0) {
        tool_error("out of memory");
        return TOOL_FAILED;
    }
    if (options.nranks == 0)
        return bench_rank_main(&options, -1, NULL);
    return options.threads ? bench_run_threads(&options) : bench_run_processes(&options);
}
