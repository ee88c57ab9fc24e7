/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies, memory, pointers and devices: run_memory CASE. Two devices. */
#include "kernels.cuh"
#include <pthread.h>
#include <unistd.h>

static void copies(void) {
    int host[64], back[64], *p = device_array(64, 0), *q = device_array(64, 0), *pinned;
    OK(cudaMallocHost(&pinned, sizeof host));
    for (int i = 0; i < 64; i++)
        host[i] = i * i;
    cudaStream_t s;
    OK(cudaStreamCreate(&s));
    OK(cudaMemcpyAsync(pinned, host, sizeof host, cudaMemcpyHostToHost, s));
    OK(cudaMemcpyAsync(p, pinned, sizeof host, cudaMemcpyHostToDevice, s));
    OK(cudaMemcpyAsync(q, p, sizeof host, cudaMemcpyDeviceToDevice, s));
    OK(cudaMemsetAsync(p, 0xff, 8, s));
    OK(cudaMemcpyAsync(back, q, sizeof back, cudaMemcpyDefault, s));
    OK(cudaStreamSynchronize(s));
    CHECK(memcmp(host, back, sizeof host) == 0 && value_at(p + 1) == -1 && value_at(p + 2) == 4);
    EXPECT(cudaErrorInvalidMemcpyDirection,
           cudaMemcpy(back, q, sizeof back, (enum cudaMemcpyKind)9));
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(host, back, 4, cudaMemcpyDeviceToHost));
    memset(back, 0, sizeof back); /* a column of 4 rows */
    OK(cudaMemcpy2D(back, 8, q, 64, 8, 4, cudaMemcpyDeviceToHost));
    CHECK(back[0] == 0 && back[1] == 1 && back[2] == 256 && back[7] == 49 * 49 && back[8] == 0);
    EXPECT(cudaErrorInvalidPitchValue, cudaMemcpy2D(back, 4, q, 64, 8, 4, cudaMemcpyDefault));
    OK(cudaMemcpy(p, q, 0, cudaMemcpyDefault));
    OK(cudaFreeHost(pinned));
    OK(cudaStreamDestroy(s));
}

static void *raise_later(void *flag) {
    usleep(20000);
    *(volatile int *)flag = 1;
    return NULL;
}

/* cudaMemcpy waits for the default stream, but not for copies inside a device. */
static void blocking_copies(void) {
    volatile int *flag = host_flag();
    int *p = device_array(1, 1), *q = device_array(1, 2), *pinned;
    pthread_t thread;
    OK(cudaMallocHost(&pinned, sizeof *pinned));
    wait_for<<<1, 1>>>(flag);
    OK(cudaMemcpy(p, q, sizeof *p, cudaMemcpyDeviceToDevice));
    OK(cudaMemset(q, 0, sizeof *q));
    EXPECT(cudaErrorNotReady, cudaStreamQuery(0));
    CHECK(pthread_create(&thread, NULL, raise_later, (void *)flag) == 0);
    OK(cudaMemcpy(q, pinned, sizeof *q, cudaMemcpyHostToDevice));
    CHECK(*flag == 1);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(value_at(p) == 2);
}

static void memory(void) {
    void *p = &p;
    int *managed, *later;
    size_t unused, total;
    OK(cudaMalloc(&p, 0));
    CHECK(!p);
    OK(cudaFree(p));
    OK(cudaFreeHost(NULL));
    OK(cudaMemGetInfo(&unused, &total));
    CHECK(unused <= total && total > 0);
    OK(cudaMallocManaged(&managed, sizeof *managed));
    *managed = 4;
    add_one<<<1, 1>>>(managed);
    OK(cudaDeviceSynchronize());
    CHECK(*managed == 5);
    OK(cudaFree(managed));
    cudaStream_t s;
    cudaMemPool_t pool;
    OK(cudaStreamCreate(&s));
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    OK(cudaMallocAsync(&later, sizeof *later, s));
    OK(cudaMemsetAsync(later, 0, sizeof *later, s));
    add_one<<<1, 1, 0, s>>>(later);
    CHECK(value_at(later) == 1);
    OK(cudaFreeAsync(later, s));
    OK(cudaMallocFromPoolAsync(&later, sizeof *later, pool, s));
    OK(cudaFreeAsync(later, s));
    OK(cudaStreamSynchronize(s));
    EXPECT(cudaErrorInvalidValue, cudaFree((void *)&total));
}

static void pointers(void) {
    struct cudaPointerAttributes a;
    int *p, local = 0;
    OK(cudaSetDevice(1));
    OK(cudaMalloc(&p, 64));
    OK(cudaSetDevice(0));
    OK(cudaPointerGetAttributes(&a, p + 3));
    CHECK(a.type == cudaMemoryTypeDevice && a.device == 1 && a.devicePointer == p + 3);
    CHECK(!a.hostPointer);
    OK(cudaPointerGetAttributes(&a, &local));
    CHECK(a.type == cudaMemoryTypeUnregistered && a.device == cudaInvalidDeviceId);
    CHECK(!a.devicePointer);
    OK(cudaHostRegister(&local, sizeof local, cudaHostRegisterDefault));
    OK(cudaPointerGetAttributes(&a, &local));
    CHECK(a.type == cudaMemoryTypeHost && a.hostPointer == &local && a.devicePointer);
    OK(cudaHostUnregister(&local));
    EXPECT(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(&local));
    OK(cudaMallocManaged(&p, 64));
    OK(cudaPointerGetAttributes(&a, p));
    CHECK(a.type == cudaMemoryTypeManaged);
    volatile int *flag = host_flag();
    unsigned flags;
    void *same;
    OK(cudaHostGetFlags(&flags, (void *)flag));
    OK(cudaHostGetDevicePointer(&same, (void *)flag, 0));
    CHECK(flags & cudaHostAllocMapped && same == (void *)flag);
}

static void devices(void) {
    struct cudaDeviceProp properties;
    int n, device = -1, version, yes, value, *there, *here;
    char id[32];
    OK(cudaGetDeviceCount(&n));
    OK(cudaGetDevice(&device));
    CHECK(n == 2 && device == 0);
    OK(cudaGetDeviceProperties(&properties, 1));
    OK(cudaDeviceGetPCIBusId(id, sizeof id, 1));
    OK(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 1));
    CHECK(properties.major == 9 && properties.warpSize == 32 && value == 32);
    CHECK(strcmp(properties.name, "PTX interpreter 1") == 0 && strcmp(id, "0000:02:00.0") == 0);
    CHECK(properties.maxThreadsDim[2] == 64 && properties.sharedMemPerBlock == 49152);
    OK(cudaRuntimeGetVersion(&version));
    CHECK(version == CUDART_VERSION);
    OK(cudaDriverGetVersion(&version));
    CHECK(version >= CUDART_VERSION);
    EXPECT(cudaErrorInvalidDevice, cudaSetDevice(2));
    EXPECT(cudaErrorInvalidDevice, cudaSetDevice(-1));
    OK(cudaDeviceCanAccessPeer(&yes, 0, 1));
    CHECK(yes);
    OK(cudaDeviceCanAccessPeer(&yes, 0, 0));
    CHECK(!yes);
    here = device_array(4, 100);
    OK(cudaSetDevice(1));
    there = device_array(4, 200);
    OK(cudaMemcpyPeer(here, 0, there, 1, 8));
    CHECK(value_at(there + 1) == 201);
    OK(cudaSetDevice(0));
    CHECK(value_at(here + 1) == 201 && value_at(here + 2) == 102);
    EXPECT(cudaErrorInvalidValue, cudaMemcpy(here, there, 4, cudaMemcpyDeviceToDevice));
    OK(cudaDeviceEnablePeerAccess(1, 0));
    EXPECT(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(1, 0));
    add_one<<<1, 1>>>(there);
    OK(cudaMemcpyAsync(here, there, 4, cudaMemcpyDeviceToDevice, 0));
    CHECK(value_at(here) == 201);
    OK(cudaDeviceDisablePeerAccess(1));
    EXPECT(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1));
}

static const struct test_case cases[] = {CASE(copies), CASE(blocking_copies), CASE(memory),
                                         CASE(pointers), CASE(devices)};

int main(int argc, char **argv) {
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
