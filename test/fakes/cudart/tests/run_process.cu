/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors of threads, unsupported calls, dlclose, fork and exit: run_process CASE. Two devices. */
#include "kernels.cuh"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void *other_thread(void *device) {
    int current;
    OK(cudaPeekAtLastError());
    OK(cudaGetDevice(&current));
    CHECK(current == 0); /* whatever the other thread's is */
    OK(cudaSetDevice(*(int *)device));
    OK(cudaGetDevice(&current));
    CHECK(current == *(int *)device);
    int *value = device_array(1, 0);
    for (int i = 0; i < 200; i++)
        add_one<<<1, 1>>>(value);
    CHECK(value_at(value) == 200);
    EXPECT(cudaErrorInvalidDevice, cudaSetDevice(17));
    return NULL;
}

static void last_error(void) {
    pthread_t threads[4];
    int device[4] = {0, 1, 0, 1}, *value = device_array(1, 0);
    EXPECT(cudaErrorInvalidDevice, cudaSetDevice(99));
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, other_thread, &device[i]) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    OK(cudaDeviceSynchronize()); /* a success keeps the last error */
    EXPECT(cudaErrorInvalidDevice, cudaPeekAtLastError());
    EXPECT(cudaErrorInvalidDevice, cudaGetLastError());
    OK(cudaGetLastError());
    add_one<<<1, 2000>>>(value);
    EXPECT(cudaErrorInvalidConfiguration, cudaGetLastError());
    add_one<<<0, 1>>>(value);
    EXPECT(cudaErrorInvalidConfiguration, cudaGetLastError());
    CHECK(value_at(value) == 0);
    write_out_of_bounds<<<1, 1>>>(value);
    EXPECT(cudaErrorIllegalAddress, cudaDeviceSynchronize());
    EXPECT(cudaErrorIllegalAddress, cudaGetLastError());
    EXPECT(cudaErrorIllegalAddress, cudaMalloc(&value, 4)); /* stays for the context */
    CHECK(strcmp(cudaGetErrorName(cudaErrorIllegalAddress), "cudaErrorIllegalAddress") == 0);
    CHECK(strcmp(cudaGetErrorName((cudaError_t)12345), "unrecognized error code") == 0);
}

/* list_test.sh reads the list of FAKECUDART_MISSING. */
static void unsupported(void) {
    cudaArray_t array;
    struct cudaChannelFormatDesc format =
        cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    CHECK(format.x == 32 && format.f == cudaChannelFormatKindFloat);
    EXPECT(cudaErrorNotSupported, cudaMallocArray(&array, &format, 4));
    EXPECT(cudaErrorNotSupported, cudaMallocArray(&array, &format, 8));
    EXPECT(cudaErrorNotSupported, cudaDeviceReset());
    EXPECT(cudaErrorNotSupported, cudaGetLastError());
}

/* $PLUGIN: a library with a kernel and a variable of its own, which end with it. */
static void plugin(void) {
    struct cudaFuncAttributes f;
    struct cudaPointerAttributes a;
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(getenv("PLUGIN"), RTLD_NOW | RTLD_LOCAL);
        CHECK(library);
        int (*count)(void) = (int (*)(void))dlsym(library, "plugin_count");
        const void *kernel = ((const void *(*)(void))dlsym(library, "plugin_kernel"))();
        const void *variable = ((const void *(*)(void))dlsym(library, "plugin_variable"))();
        CHECK(count() == 1 && count() == 2);
        OK(cudaFuncGetAttributes(&f, kernel));
        OK(cudaPointerGetAttributes(&a, variable));
        CHECK(a.type == cudaMemoryTypeDevice);
        CHECK(dlclose(library) == 0);
        EXPECT(cudaErrorInvalidDeviceFunction, cudaFuncGetAttributes(&f, kernel));
        OK(cudaPointerGetAttributes(&a, variable));
        CHECK(a.type == cudaMemoryTypeUnregistered);
    }
}

extern "C" {
void **CUDARTAPI __cudaRegisterFatBinary(void *image);
void CUDARTAPI __cudaRegisterFunction(void **handle, const char *host, char *device,
                                      const char *name, int threads, uint3 *tid, uint3 *bid,
                                      dim3 *block, dim3 *grid, int *warp);
void CUDARTAPI __cudaUnregisterFatBinary(void **handle);
}

static char shared_host; /* stands for the kernel of both libraries */

static void **register_shared(void) {
    static char ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                        ".visible .entry nothing() { ret; }\n";
    void **handle = __cudaRegisterFatBinary(ptx);
    __cudaRegisterFunction(handle, &shared_host, ptx, "nothing", -1, NULL, NULL, NULL, NULL, NULL);
    return handle;
}

/* Two libraries with one template share its host address. It is valid until both are closed. */
static void shared_kernel(void) {
    struct cudaFuncAttributes f;
    for (int closed_first = 0; closed_first < 2; closed_first++) {
        void **handles[2] = {register_shared(), register_shared()};
        OK(cudaFuncGetAttributes(&f, &shared_host));
        __cudaUnregisterFatBinary(handles[closed_first]);
        OK(cudaFuncGetAttributes(&f, &shared_host));
        __cudaUnregisterFatBinary(handles[1 - closed_first]);
        EXPECT(cudaErrorInvalidDeviceFunction, cudaFuncGetAttributes(&f, &shared_host));
    }
}

/* A child of a process that has called CUDA, and one of a process that has not. */
static void forked(void) {
    int status;
    if (fork() == 0) {
        CHECK(value_at(device_array(1, 3)) == 3);
        _exit(0);
    }
    CHECK(wait(&status) > 0 && status == 0);
    CHECK(value_at(device_array(1, 4)) == 4);
    if (fork() == 0) {
        int *p;
        EXPECT(cudaErrorInitializationError, cudaMalloc(&p, 4));
        _exit(0);
    }
    CHECK(wait(&status) > 0 && status == 0);
}

static void export_array(int to, int until) {
    cudaIpcMemHandle_t handle;
    char end;
    OK(cudaIpcGetMemHandle(&handle, device_array(4, 50)));
    CHECK(write(to, &handle, sizeof handle) == sizeof handle);
    CHECK(read(until, &end, 1) == 0);
    _exit(0);
}

/* Memory of another process. */
static void ipc(void) {
    cudaIpcMemHandle_t handle;
    int handles[2], end[2], status;
    void *p;
    CHECK(pipe(handles) == 0 && pipe(end) == 0);
    if (fork() == 0) {
        close(end[1]);
        export_array(handles[1], end[0]);
    }
    close(handles[1]);
    CHECK(read(handles[0], &handle, sizeof handle) == sizeof handle);
    OK(cudaIpcOpenMemHandle(&p, handle, cudaIpcMemLazyEnablePeerAccess));
    CHECK(value_at((int *)p + 1) == 51);
    OK(cudaIpcCloseMemHandle(p));
    EXPECT(cudaErrorInvalidValue, cudaIpcCloseMemHandle(p));
    close(end[1]);
    CHECK(wait(&status) > 0 && status == 0);
}

/* Returns from main while a kernel never ends. */
static void exit_while_running(void) {
    cudaStream_t s;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    wait_for<<<1, 1, 0, s>>>(host_flag());
    EXPECT(cudaErrorNotReady, cudaStreamQuery(s));
}

static void no_device(void) {
    int n = 1, *p;
    EXPECT(cudaErrorNoDevice, cudaGetDeviceCount(&n));
    CHECK(n == 0);
    EXPECT(cudaErrorNoDevice, cudaMalloc(&p, 4));
}

static const struct test_case cases[] = {CASE(last_error),         CASE(unsupported), CASE(plugin),
                                         CASE(shared_kernel),      CASE(forked),      CASE(ipc),
                                         CASE(exit_while_running), CASE(no_device)};

int main(int argc, char **argv) {
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
