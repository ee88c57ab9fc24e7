/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of one process in another: rejected uses, wrong uses that are not rejected, and
 * counters. */
#include "../fakecuda.h"
#include "child.h"

static const char *image;

static void bare(void (*test)(void)) {
    test();
}

static struct fakecuda_counts counts(void) {
    struct fakecuda_counts c;
    fakecuda_counts(&c);
    return c;
}

static CUresult touch(CUmodule m, CUdeviceptr p) {
    unsigned n = 3;
    CU(cuLaunchKernel(function(m, "overrun"), 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&p, &n},
                      NULL));
    return cuCtxSynchronize();
}

/* ---- one process exports 7s, and frees them on request ----------------------------------------
 */

static void give_sevens(int fd, CUdeviceptr p) {
    CUipcMemHandle h, unused;
    CU(cuMemsetD32(p, 7, 16));
    CU(cuCtxSynchronize());
    CU(cuIpcGetMemHandle(&h, p));
    swap_bytes(fd, &h, &unused, sizeof h);
}

static void exporter(int fd) {
    setenv("FAKECUDA_VISIBLE", "0", 1); /* the importer may see other devices */
    open_device(0);
    CUdeviceptr p = device_bytes(4 << 20);
    give_sevens(fd, p);
    meet(fd);
    CU(cuMemFree(p));
    meet(fd);
}

static CUresult open_handle(int fd, CUdeviceptr *p) {
    CUipcMemHandle mine = {{0}}, h;
    swap_bytes(fd, &mine, &h, sizeof h);
    return cuIpcOpenMemHandle(p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static uint32_t first_word(CUdeviceptr p) {
    uint32_t got;
    CU(cuMemcpyDtoH(&got, p, 4));
    return got;
}

/* ---- closed imports ---- */

static void use_after_close(int fd) {
    CUdeviceptr p, other = device_bytes(64);
    uint32_t got;
    CU(open_handle(fd, &p));
    CHECK(counts().imports == 1 && first_word(p) == 7);
    CU(cuIpcCloseMemHandle(p));
    CHECK(counts().imports == 0);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH(&got, p, 4));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoDAsync(other, p, 4, NULL));
    CHECK(device_bytes(4 << 20) != p, "a closed import's address came back at once");
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, touch(load_module(image), p));
    meet(fd);
    meet(fd);
}

static void closed_importer(int fd) {
    open_device(0);
    use_after_close(fd);
}

static void closed(void) {
    two_processes(exporter, closed_importer);
}

/* The exporter frees first: the emulator reports it, and the import can still be closed. */
static void late_importer(int fd) {
    CUdeviceptr p;
    open_device(0);
    CU(open_handle(fd, &p));
    meet(fd);
    meet(fd);
    CU(cuIpcCloseMemHandle(p));
}

static void early_exporter(int fd) {
    exporter(fd);
    CHECK(counts().freed_imported == 1 && counts().exports == 1);
}

static void freed_first(void) {
    two_processes(late_importer, early_exporter);
}

/* ---- refused, or wrong ---- */

static CUresult wanted;

static void refused_importer(int fd) {
    CUdeviceptr p;
    open_device(0);
    EXPECT(wanted, open_handle(fd, &p));
    CHECK(counts().imports == 0);
    meet(fd);
    meet(fd);
}

/* Two processes with pid 1 in their PID namespaces. */
static void equal_pids(void) {
    wanted = CUDA_ERROR_INVALID_CONTEXT;
    two_processes(exporter, refused_importer);
}

static void absent(void) {
    wanted = CUDA_ERROR_INVALID_DEVICE;
    setenv("FAKECUDA_VISIBLE", "1", 1);
    two_processes(refused_importer, exporter);
}

/* The handle opens without an error, but the memory was never written. */
static void misled_importer(int fd) {
    CUdeviceptr p;
    setenv("FAKECUDA_VISIBLE", "1", 1);
    open_device(0);
    CU(open_handle(fd, &p));
    CHECK(first_word(p) == 0xffffffff);
    CU(cuMemsetD32(p, 1, 1));
    meet(fd);
    meet(fd);
}

static void acs_exporter(int fd) {
    setenv("FAKECUDA_VISIBLE", "0", 1);
    open_device(0);
    CUdeviceptr p = device_bytes(4 << 20);
    give_sevens(fd, p);
    meet(fd);
    CHECK(first_word(p) == 7);
    meet(fd);
}

static void acs(void) {
    two_processes(acs_exporter, misled_importer);
}

static void acs_same_device(void) {
    two_processes(exporter, closed_importer);
}

/* Pool memory is not shareable. */
static void pool(void) {
    CUdeviceptr p;
    CUipcMemHandle h;
    CUmemoryPool of = NULL;
    int capable = 1;
    open_device(0);
    CU(cuMemAllocAsync(&p, 4096, NULL));
    CU(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, p));
    CU(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
    CHECK(!capable && of);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&h, p));
    CU(cuMemsetD32Async(p, 7, 1, NULL));
    CHECK(first_word(p) == 7);
    CU(cuMemFreeAsync(p, NULL));
    CU(cuCtxSynchronize());
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(p, NULL));
    CHECK(counts().exports == 0);
}

static void slow(void) {
    const double begin = seconds();
    open_device(0);
    (void)device_bytes(64);
    CHECK(seconds() - begin >= 0.05);
}

/* ---- an exporter that is killed ---- */

static void killed_exporter(int fd) {
    open_device(0);
    give_sevens(fd, device_bytes(64));
    meet(fd);
    kill(getpid(), SIGKILL);
}

/* Its memory stays with the processes that have it open, cannot be opened any more, and each use is
 * counted. */
static void killed(void) {
    int fds[2];
    CUdeviceptr p;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    const pid_t child = fork();
    if (child == 0)
        killed_exporter(fds[1]);
    CUmodule m = (open_device(0), load_module(image));
    CUipcMemHandle mine = {{0}}, h;
    swap_bytes(fds[0], &mine, &h, sizeof h);
    CU(cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CU(touch(m, p));
    CHECK(counts().dead == 0);
    meet(fds[0]);
    siginfo_t info; /* it stays a zombie */
    CHECK(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0);
    CU(touch(m, p));
    CHECK(first_word(p) == 9 && counts().dead > 0);
    CU(cuIpcCloseMemHandle(p));
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS);
}

/* ---- what is counted ---- */

static void counting_importer(int fd) {
    CUdeviceptr p, own;
    uint32_t host[16];
    void *pinned;
    open_device(0);
    own = device_bytes(64);
    CU(open_handle(fd, &p));
    CU(cuMemHostAlloc(&pinned, 64, 0));
    CU(cuMemcpyDtoH(host, p, 64));
    CU(cuMemcpyDtoDAsync(own, p, 32, NULL));
    CU(cuMemcpyHtoDAsync(p, pinned, 8, NULL));
    CU(touch(load_module(image), own)); /* reads and writes 4 words */
    const struct fakecuda_counts c = counts();
    CHECK(c.launches == 1 && c.copies == 3 && c.sets == 0 && c.imports == 1 && c.dead == 0);
    CHECK(c.imported.read == 96 && c.imported.written == 8);
    CHECK(c.host.read == 8 && c.host.written == 64);
    CHECK(c.device.read == 16 && c.device.written == 48, "%d %d", (int)c.device.read,
          (int)c.device.written);
    CU(cuIpcCloseMemHandle(p));
    meet(fd);
    meet(fd);
}

static void counted(void) {
    two_processes(exporter, counting_importer);
}

#define RUN(test, ...)                                                                             \
    failed += run_child(#test, bare, test, 0, (const char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

int main(int argc, char **argv) {
    int failed = 0;
    CHECK(argc > 1, "usage: run_share IMAGE");
    image = argv[1];
    RUN(closed);
    RUN(freed_first);
    RUN(equal_pids, "FAKECUDA_PID=1");
    RUN(absent, "FAKECUDA_DEVICES=2", "FAKECUDA_ABSENT=1");
    RUN(acs, "FAKECUDA_DEVICES=2", "FAKECUDA_ACS=1");
    RUN(acs_same_device, "FAKECUDA_ACS=1");
    RUN(pool);
    RUN(slow, "FAKECUDA_SLOW=cuMemAlloc:50");
    RUN(killed);
    RUN(counted);
    return failed != 0;
}
