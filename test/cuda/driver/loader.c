/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver: how it is found, what the library does not do before it needs the driver, and the
 * errors when it is unusable: loader.c [CASE]. Each case runs in a process of its own with its own
 * emulator settings (test/fakes/cuda/README.md).
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "case.h"
#include "cuda.h"
#include "device.h"
#include "device_kernels.h"

/* ---- Errors ---------------------------------------------------------------------------------- */

/* argument: STATUS words. */
static void case_refused(const char *argument) {
    struct rcmi_device *device;
    const rcm_status wanted = (rcm_status)atoi(argument);
    expect(wanted, strchr(argument, ' ') + 1, rcmi_device_open("auto", 0, &device));
    printf("  %s\n", rcm_last_error());
}

/* ---- No unneeded driver calls ---------------------------------------------------------------- */

static bool driver_is_mapped(void) {
    char line[512];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps))
        found |= strstr(line, "libcuda") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

static bool is_device_memory(const void *memory) {
    enum rcmi_mem_kind kind;
    int device;
    must(rcmi_mem_kind_of(memory, &kind, &device));
    return kind == RCMI_MEM_DEVICE;
}

static void case_untouched(const char *argument) {
    int number = 0;
    (void)argument;
    if (rcmi_device_notice() || rcmi_mem_any_special() || is_device_memory(&number))
        die("a driver is loaded before it is needed");
    if (driver_is_mapped())
        die("a query has loaded the driver");
    /* The program loads the driver without initializing it. */
    if (!dlopen("libcuda.so.1", RTLD_NOW))
        die("%s", dlerror());
    if (!rcmi_device_notice() || !rcmi_mem_any_special() || is_device_memory(&number))
        die("the loaded driver is not detected, or host memory is misclassified");
    if (rcmi_cuda_there()->cuDeviceGetCount(&number) != RCMI_CUDA_NOT_INITIALIZED)
        die("a query has initialized the driver");
}

/* Querying a pointer creates no context, and neither does querying devices. */
static void case_no_context(const char *argument) {
    struct rcmi_device_facts facts;
    unsigned flags;
    int active = 1, n;
    (void)argument;
    must(rcmi_device_count(&n));
    must(rcmi_device_query(0, &facts));
    if (!rcmi_device_notice() || is_device_memory(&n))
        die("host memory is classified as device memory");
    if (rcmi_cuda_there()->cuDevicePrimaryCtxGetState(0, &flags, &active) != 0 || active)
        die("a query has created a context");
}

static int in_child(void (*run)(void)) {
    int status;
    const pid_t child = fork();
    if (child == 0) {
        run();
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static struct rcmi_device *opened;
static void child_queries(void) {
    struct rcmi_device *device;
    int number;
    expect(RCM_ERR_FORKED, "before fork", rcmi_device_open("auto", 0, &device));
    if (rcmi_cuda_there() || is_device_memory(&number))
        die("a child has a driver");
    rcmi_device_close(opened);
}

static void case_fork(const char *argument) {
    (void)argument;
    must(rcmi_device_open("auto", 0, &opened));
    if (in_child(child_queries) != 0)
        die("the child got other results");
    rcmi_device_close(opened);
}

/* A driver that fails to classify an address, once. With words "" it means that the address is host
 * memory. */
static void case_unclassified(const char *words) {
    enum rcmi_mem_kind kind = RCMI_MEM_DEVICE;
    int number = 0, device = -1;
    must(rcmi_device_kind_add());
    const rcm_status status = rcmi_mem_kind_of(&number, &kind, &device);
    if (*words)
        expect(RCM_ERR_SYSTEM, words, status);
    else
        must(status);
    if (!*words && kind != RCMI_MEM_HOST)
        die("host memory is not classified as host memory");
    if (is_device_memory(&number))
        die("host memory is device memory afterwards");
}

/* ---- Kernels and drivers --------------------------------------------------------------------- */

/* Within a major version of CUDA any driver works. A newer driver accepts older kernels. */
static void case_kernels(const char *argument) {
    static const char image[8];
    static const struct {
        int toolkit, driver;
        const char *words; /* NULL: they are compatible */
    } pairs[] = {
        {0, 13000,
         "built without CUDA, so without kernels for GPUs. Build with meson setup -Dcuda=enabled"},
        {13010, 12040,
         "the kernels were built by CUDA 13.1 and need a driver that supports CUDA 13.0 or newer, "
         "but this one supports CUDA 12.4"},
        {13010, 12090, "CUDA 13.0 or newer, but this one supports CUDA 12.9"},
        {13010, 13000, NULL},
        {12090, 12000, NULL},
        {12000, 13020, NULL},
        {13000, 14000, NULL},
    };
    (void)argument;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const struct rcmi_cuda_image of = {pairs[i].toolkit ? image : NULL, sizeof image,
                                           pairs[i].toolkit};
        const rcm_status status = device_kernels_check(&of, pairs[i].driver);
        expect(pairs[i].words ? RCM_ERR_UNSUPPORTED : RCM_OK, pairs[i].words, status);
    }
}

/* ---- Cases ----------------------------------------------------------------------------------- */

#define UNCLASSIFIED(code, words)                                                                  \
    {                                                                                              \
        "unclassified address", "FAKECUDA_FAIL=cuPointerGetAttributes:1:" code, words,             \
            case_unclassified                                                                      \
    }
#define REFUSED(setting, status, words)                                                            \
    { "refused", setting, #status " " words, case_refused }

static const struct test_case cases[] = {
    {"kernels", "", "", case_kernels},
    {"untouched", "", "", case_untouched},
    {"no context", "", "", case_no_context},
    {"fork", "", "", case_fork},
    UNCLASSIFIED("1", ""), /* CUDA_ERROR_INVALID_VALUE */
    UNCLASSIFIED("3", ""), /* CUDA_ERROR_NOT_INITIALIZED */
    UNCLASSIFIED("4", ""), /* CUDA_ERROR_DEINITIALIZED */
    UNCLASSIFIED("201", "201)"),
    UNCLASSIFIED("700", "700)"),
    UNCLASSIFIED("999", "999)"),
    REFUSED("LD_LIBRARY_PATH=/nowhere", -3, "no NVIDIA driver found (libcuda.so.1: cannot open"),
    REFUSED("FAKECUDA_FAIL=cuDriverGetVersion:1:34", -3, "stubs"),
    REFUSED("FAKECUDA_FAIL=cuGetProcAddress:1:34", -3, "stubs"),
    REFUSED("FAKECUDA_FAIL=cuInit:1:34", -3, "stubs"),
    REFUSED("FAKECUDA_DRIVER=11080", -3, "supports CUDA 11.8, but CUDA 12.0 or newer"),
    REFUSED("FAKECUDA_DEVICES=0", -3, "CUDA_VISIBLE_DEVICES"),
    REFUSED("FAKECUDA_CC=75", -3, "compute capability 7.5"),
    REFUSED("FAKECUDA_COMPUTE_MODE=prohibited", -15, "compute mode"),
    REFUSED("FAKECUDA_FAIL=cuDevicePrimaryCtxRetain:1:46", -15, "compute mode"),
    REFUSED("FAKECUDA_FAIL=cuInit:1:802", -4, "nvidia-fabricmanager"),
    REFUSED("FAKECUDA_FAIL=cuInit:1:803", -3, "different versions"),
    REFUSED("FAKECUDA_FAIL=cuInit:1:804", -3, "data centre GPUs only"),
    REFUSED("FAKECUDA_FAIL=cuDevicePrimaryCtxRetain:1:805", -4, "CUDA_MPS_PIPE_DIRECTORY"),
    REFUSED("FAKECUDA_FAIL=cuDevicePrimaryCtxRetain:1:806", -4,
            "MPS server sent an invalid answer"),
    REFUSED("FAKECUDA_FAIL=cuDevicePrimaryCtxRetain:1:807", -4, "MPS server is starting"),
    REFUSED("FAKECUDA_FAIL=cuDevicePrimaryCtxRetain:1:808", -15, "maximum number of clients"),
    REFUSED("FAKECUDA_FAIL=cuDevicePrimaryCtxRetain:1:809", -15, "maximum number of connections"),
    REFUSED("FAKECUDA_FAIL=cuInit:1:999", -4, "Xid"),
    REFUSED("FAKECUDA_FAIL=cuInit:1:777", -4, "(777)"),
};

int main(int argc, char **argv) {
    return cases_run(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
