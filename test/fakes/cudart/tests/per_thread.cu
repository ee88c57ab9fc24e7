/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of nvcc --default-stream per-thread: default streams of threads do not wait for each
 * other, and cudaStreamLegacy waits for all. */
#include "kernels.cuh"
#include <pthread.h>

static void *add_in_own_stream(void *unused) {
    (void)unused;
    int *value = device_array(1, 0);
    add_one<<<1, 1>>>(value);
    OK(cudaStreamSynchronize(0));
    CHECK(value_at(value) == 1);
    OK(cudaMemset(value, 0, sizeof *value));
    OK(cudaStreamSynchronize(0));
    CHECK(value_at(value) == 0);
    return NULL;
}

int main() {
    volatile int *flag = host_flag();
    pthread_t thread;
    wait_for<<<1, 1>>>(flag);
    CHECK(pthread_create(&thread, NULL, add_in_own_stream, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    EXPECT(cudaErrorNotReady, cudaStreamQuery(0));
    int *value;
    OK(cudaMalloc(&value, sizeof *value));
    OK(cudaMemsetAsync(value, 0, sizeof *value, cudaStreamLegacy));
    EXPECT(cudaErrorNotReady, cudaStreamQuery(cudaStreamLegacy));
    *flag = 1;
    OK(cudaStreamSynchronize(cudaStreamLegacy));
    OK(cudaStreamQuery(0));
    return 0;
}
