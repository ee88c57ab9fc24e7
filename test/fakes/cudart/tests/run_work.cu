/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels, variables, streams, events, host functions and captures: run_work CASE. Two devices. */
#include "kernels.cuh"
#include <unistd.h>

__device__ int counter = 5;
__constant__ int constants[4];

__global__ void read_variables(int *to) {
    to[0] = counter + constants[3];
}

static void kernels(void) {
    enum { N = 1000 };
    int *from = device_array(N, 7), *to = device_array(N, 0), result[N];
    scale<<<(N + 127) / 128, 128>>>(to, from, 3, N);
    OK(cudaGetLastError());
    OK(cudaMemcpy(result, to, sizeof result, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++)
        CHECK(result[i] == (7 + i) * 3 + i);
    unsigned n = 1;
    int factor = 100;
    void *arguments[] = {&to, &from, &factor, &n};
    OK(cudaLaunchKernel((const void *)scale, dim3(1), dim3(32), arguments, 0, 0));
    CHECK(value_at(to) == 700);
    cudaLaunchConfig_t config = {dim3(1), dim3(32), 0, 0, NULL, 0};
    OK(cudaLaunchKernelEx(&config, scale, to, (const int *)from, 10, 1u));
    CHECK(value_at(to) == 70);
    OK(cudaLaunchCooperativeKernel((const void *)scale, dim3(2), dim3(32), arguments, 0, 0));
    CHECK(value_at(to) == 700);
    EXPECT(cudaErrorCooperativeLaunchTooLarge,
           cudaLaunchCooperativeKernel((const void *)scale, dim3(1000), dim3(32), arguments, 0, 0));
    EXPECT(cudaErrorInvalidDeviceFunction,
           cudaLaunchKernel((const void *)kernels, dim3(1), dim3(1), arguments, 0, 0));
    OK(cudaFree(from));
    OK(cudaFree(to));
}

static void variables(void) {
    int *to = device_array(1, 0), values[4] = {1, 2, 3, 40}, value = 0;
    size_t size;
    void *address;
    OK(cudaMemcpyToSymbol(constants, values, sizeof values));
    read_variables<<<1, 1>>>(to);
    CHECK(value_at(to) == 45);
    value = 6;
    OK(cudaMemcpyToSymbolAsync(counter, &value, sizeof value, 0, cudaMemcpyHostToDevice, 0));
    OK(cudaMemcpyFromSymbol(&values[0], counter, sizeof value));
    CHECK(values[0] == 6);
    OK(cudaGetSymbolAddress(&address, counter));
    OK(cudaGetSymbolSize(&size, constants));
    CHECK(value_at((int *)address) == 6 && size == 16);
    OK(cudaSetDevice(1)); /* has its own copy */
    OK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
    CHECK(value == 5);
    EXPECT(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&address, (const void *)values));
}

static void streams(void) {
    volatile int *flag = host_flag();
    int *value = device_array(1, 10), priority = 1, least, greatest, device;
    unsigned flags;
    cudaStream_t a, b, blocking;
    cudaEvent_t e;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    OK(cudaStreamCreateWithPriority(&a, cudaStreamNonBlocking, greatest));
    OK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    OK(cudaStreamCreate(&blocking));
    OK(cudaStreamGetPriority(a, &priority));
    OK(cudaStreamGetFlags(a, &flags));
    OK(cudaStreamGetDevice(a, &device));
    CHECK(priority == greatest && flags == cudaStreamNonBlocking && device == 0);
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    wait_for<<<1, 1, 0, a>>>(flag);
    add_one<<<1, 1, 0, a>>>(value);
    OK(cudaEventRecord(e, a));
    EXPECT(cudaErrorNotReady, cudaStreamQuery(a));
    EXPECT(cudaErrorNotReady, cudaEventQuery(e));
    OK(cudaStreamSynchronize(0)); /* the default stream does not wait for non-blocking ones */
    OK(cudaStreamWaitEvent(b, e, 0));
    add_one<<<1, 1, 0, b>>>(value);
    EXPECT(cudaErrorNotReady, cudaStreamQuery(b));
    *flag = 1;
    OK(cudaStreamSynchronize(b));
    OK(cudaEventQuery(e));
    CHECK(value_at(value) == 12);
    *flag = 0;
    wait_for<<<1, 1, 0, blocking>>>(flag);
    add_one<<<1, 1>>>(value); /* the default stream waits for blocking ones */
    EXPECT(cudaErrorNotReady, cudaStreamQuery(0));
    *flag = 1;
    OK(cudaDeviceSynchronize());
    CHECK(value_at(value) == 13);
    OK(cudaEventDestroy(e));
    OK(cudaStreamDestroy(a));
    OK(cudaStreamDestroy(b));
    OK(cudaStreamDestroy(blocking));
}

static void events(void) {
    volatile int *flag = host_flag();
    cudaEvent_t begin, end;
    float ms;
    OK(cudaEventCreate(&begin));
    OK(cudaEventCreate(&end));
    OK(cudaEventQuery(begin)); /* never recorded */
    EXPECT(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, begin, end));
    OK(cudaEventRecord(begin));
    wait_for<<<1, 1>>>(flag);
    OK(cudaEventRecord(end));
    EXPECT(cudaErrorNotReady, cudaEventElapsedTime(&ms, begin, end));
    OK(cudaEventSynchronize(begin));
    usleep(20000);
    *flag = 1;
    OK(cudaEventSynchronize(end));
    OK(cudaEventElapsedTime(&ms, begin, end));
    CHECK(ms >= 19 && ms < 60000);
}

static void attributes(void) {
    struct cudaFuncAttributes a;
    const char *name;
    int blocks, grid, block;
    OK(cudaFuncGetAttributes(&a, scale));
    CHECK(a.maxThreadsPerBlock == 1024 && a.numRegs > 0 && a.ptxVersion == 90);
    OK(cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
    EXPECT(cudaErrorInvalidValue,
           cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20));
    OK(cudaFuncGetName(&name, (const void *)scale));
    CHECK(strstr(name, "scale"));
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 128, 0));
    CHECK(blocks > 0);
    OK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, scale, 0, 0));
    CHECK(grid > 0 && block > 0);
    cudaKernel_t kernel;
    OK(cudaGetKernel(&kernel, (const void *)scale));
    OK(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1, 1));
    EXPECT(cudaErrorInvalidDeviceFunction, cudaFuncGetAttributes(&a, (const void *)attributes));
    int (*get_name)(int, const char **);
    enum cudaDriverEntryPointQueryResult found;
    OK(cudaGetDriverEntryPointByVersion("cuGetErrorName", (void **)&get_name, 12000, 0, &found));
    CHECK(found == cudaDriverEntryPointSuccess && !get_name(1, &name));
    OK(cudaGetDriverEntryPointByVersion("cuNoSuch", (void **)&get_name, 12000, 0, &found));
    CHECK(found == cudaDriverEntryPointSymbolNotFound && !get_name);
}

static void CUDART_CB in_order(void *argument) {
    int *n = (int *)argument;
    *n = *n == 0 && cudaFree(0) == cudaErrorNotPermitted ? 1 : -1;
}

static void CUDART_CB called_back(cudaStream_t stream, cudaError_t status, void *argument) {
    int *n = (int *)argument;
    *n = *n == 1 && stream && status == cudaSuccess ? 2 : -1;
}

static void host_functions(void) {
    int n = 0;
    cudaStream_t s;
    OK(cudaStreamCreate(&s));
    OK(cudaLaunchHostFunc(s, in_order, &n));
    OK(cudaStreamAddCallback(s, called_back, &n, 0));
    OK(cudaStreamSynchronize(s));
    CHECK(n == 2);
    EXPECT(cudaErrorInvalidValue, cudaLaunchHostFunc(s, NULL, &n));
    EXPECT(cudaErrorInvalidValue, cudaStreamAddCallback(s, called_back, &n, 1));
}

static void capture(void) {
    enum cudaStreamCaptureStatus status;
    int *value = device_array(1, 0);
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    size_t nodes = 0;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    OK(cudaStreamIsCapturing(s, &status));
    CHECK(status == cudaStreamCaptureStatusNone);
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    add_one<<<1, 1, 0, s>>>(value);
    OK(cudaStreamIsCapturing(s, &status));
    CHECK(status == cudaStreamCaptureStatusActive);
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphGetNodes(graph, NULL, &nodes));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        OK(cudaGraphLaunch(exec, s));
    OK(cudaStreamSynchronize(s));
    CHECK(nodes == 1 && value_at(value) == 3);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

static const struct test_case cases[] = {CASE(kernels), CASE(variables),  CASE(streams),
                                         CASE(events),  CASE(attributes), CASE(host_functions),
                                         CASE(capture)};

int main(int argc, char **argv) {
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
