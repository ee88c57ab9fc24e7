/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds and loads the CUDA driver: see cuda.h. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cuda.h"
#include "error.h"
#include "fork.h"

#define LIBRARY "libcuda.so.1"

/* cuGetProcAddress_v2 is not in the table, because it fills the table. */
typedef rcmi_cuda_code (*look_up)(const char *name, void **function, int version, uint64_t flags,
                                  int *status);

/* Guards library and complete. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rcmi_cuda library;
static bool complete;

/* ---- Forks ----------------------------------------------------------------------------------- */

static void lock_take(void) {
    pthread_mutex_lock(&lock);
}

static void lock_give(void) {
    pthread_mutex_unlock(&lock);
}

static void fork_watch(void) {
    pthread_atfork(lock_take, lock_give, lock_give);
}

/* ---- Filling the table ----------------------------------------------------------------------- */

static rcm_status driver_is_stub(void) {
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                     LIBRARY " is the CUDA toolkit's library to link with (stubs), not a driver: "
                             "remove its folder from LD_LIBRARY_PATH");
}

static rcm_status driver_is_old(int version) {
    return rcmi_fail(
        RCM_ERR_UNSUPPORTED, 0,
        "the NVIDIA driver is too old: it supports CUDA %d.%d, but CUDA %d.%d or newer "
        "is needed",
        version / 1000, version % 1000 / 10, RCMI_CUDA_OLDEST / 1000, RCMI_CUDA_OLDEST % 1000 / 10);
}

/* Looked up by its plain name, which every driver exports; valid before cuInit. */
static rcm_status driver_check_version(void *handle) {
    rcmi_cuda_code (*get)(int *version);
    void *symbol = dlsym(handle, "cuDriverGetVersion");
    int version = 0;
    if (!symbol)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, LIBRARY " has no cuDriverGetVersion");
    memcpy(&get, &symbol, sizeof get);
    const rcmi_cuda_code code = get(&version);
    if (code == RCMI_CUDA_STUB_LIBRARY)
        return driver_is_stub();
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuDriverGetVersion");
    return version < RCMI_CUDA_OLDEST ? driver_is_old(version) : RCM_OK;
}

static rcm_status look_up_one(look_up look, const char *name, int version, void *to) {
    void *function = NULL;
    int status = 0;
    const rcmi_cuda_code code = look(name, &function, version, RCMI_CUDA_LEGACY_STREAM, &status);
    if (code == RCMI_CUDA_STUB_LIBRARY)
        return driver_is_stub();
    if (code != RCMI_CUDA_SUCCESS || !function)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                         "the NVIDIA driver has no %s of CUDA %d.%d (code %d, status %d)", name,
                         version / 1000, version % 1000 / 10, code, status);
    memcpy(to, &function, sizeof function);
    return RCM_OK;
}

static rcm_status look_up_all(look_up look) {
    struct {
        const char *name;
        int version;
        void *to; /* a pointer to a function */
    } const all[] = {
#define ROW(name, version, parameters) {#name, version, &library.name},
        RCMI_CUDA_MAP(ROW)
#undef ROW
    };
    rcm_status status = RCM_OK;
    for (size_t i = 0; i < sizeof all / sizeof all[0] && status == RCM_OK; i++)
        status = look_up_one(look, all[i].name, all[i].version, all[i].to);
    return status;
}

static rcm_status library_fill(void *handle) {
    look_up look;
    const rcm_status status = driver_check_version(handle);
    if (status != RCM_OK)
        return status;
    void *symbol = dlsym(handle, "cuGetProcAddress_v2");
    if (!symbol)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, LIBRARY " has no cuGetProcAddress_v2");
    memcpy(&look, &symbol, sizeof look);
    return look_up_all(look);
}

/* how: RTLD_NOLOAD, or 0. Keeps the handle: the table points into the library. */
static rcm_status library_find(int how) {
    if (complete)
        return RCM_OK;
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | how);
    if (!handle) {
        const char *why = how ? "not loaded" : dlerror();
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "no NVIDIA driver found (%s)",
                         why ? why : LIBRARY);
    }
    const rcm_status status = library_fill(handle);
    complete = status == RCM_OK;
    if (!complete)
        dlclose(handle);
    return status;
}

/* ---- Using it -------------------------------------------------------------------------------- */

static rcm_status library_get(int how) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fork_watch);
    pthread_mutex_lock(&lock);
    const rcm_status status = rcmi_cuda_found() ? RCM_OK : library_find(how);
    if (status == RCM_OK && !rcmi_cuda_found())
        rcmi_cuda_find(&library);
    pthread_mutex_unlock(&lock);
    return status;
}

const struct rcmi_cuda *rcmi_cuda_there(void) {
    const struct rcmi_cuda *cuda = rcmi_cuda_found();
    if (cuda || rcmi_cuda_forked())
        return rcmi_cuda_forked() ? NULL : cuda;
    const struct rcmi_error before = *rcmi_last_error();
    const rcm_status status = library_get(RTLD_NOLOAD);
    *rcmi_last_error() = before;
    return status == RCM_OK ? rcmi_cuda_found() : NULL;
}

static rcm_status library_init(const struct rcmi_cuda *cuda) {
    const rcmi_cuda_code code = cuda->cuInit(0);
    if (code == RCMI_CUDA_STUB_LIBRARY)
        return driver_is_stub();
    if (code != RCMI_CUDA_SUCCESS)
        return rcmi_cuda_fail(code, "cuInit");
    rcmi_cuda_use();
    return RCM_OK;
}

rcm_status rcmi_cuda_load(void) {
    if (rcmi_cuda_forked())
        return rcmi_fail(RCM_ERR_FORKED, 0,
                         "the CUDA driver was used before fork: a child cannot use it");
    return library_get(0);
}

rcm_status rcmi_cuda_open(const struct rcmi_cuda **ret_cuda) {
    rcm_status status = rcmi_cuda_load();
    if (status != RCM_OK)
        return status;
    *ret_cuda = rcmi_cuda_found();
    return library_init(*ret_cuda);
}

void rcmi_cuda_set(const struct rcmi_cuda *cuda) {
    pthread_mutex_lock(&lock);
    rcmi_cuda_find(cuda ? cuda : complete ? &library : NULL);
    pthread_mutex_unlock(&lock);
}

/* ---- Visits ---------------------------------------------------------------------------------- */

rcmi_cuda_code rcmi_cuda_enter(const struct rcmi_cuda *cuda, struct rcmi_cuda_context *context,
                               struct rcmi_cuda_visit *ret_visit) {
    *ret_visit = (struct rcmi_cuda_visit){.cuda = cuda, .mode = RCMI_CUDA_CAPTURE_RELAXED};
    rcmi_cuda_code code = cuda->cuThreadExchangeStreamCaptureMode(&ret_visit->mode);
    if (code != RCMI_CUDA_SUCCESS)
        return code;
    code = cuda->cuCtxPushCurrent(context);
    if (code != RCMI_CUDA_SUCCESS)
        (void)cuda->cuThreadExchangeStreamCaptureMode(&ret_visit->mode);
    return code;
}

void rcmi_cuda_leave(const struct rcmi_cuda_visit *visit) {
    struct rcmi_cuda_context *own;
    int mode = visit->mode;
    (void)visit->cuda->cuCtxPopCurrent(&own);
    (void)visit->cuda->cuThreadExchangeStreamCaptureMode(&mode);
}
