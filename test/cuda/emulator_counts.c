/* SPDX-License-Identifier: BSD-3-Clause */
/* See emulator_counts.h. */
#include "emulator_counts.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "ringcomm.h"

struct fakecuda_counts emulator_counts(void) {
    struct fakecuda_counts counts;
    fakecuda_counts_fn *count;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&count = driver ? dlsym(driver, "fakecuda_counts") : NULL;
    if (!count)
        abort();
    count(&counts);
    return counts;
}

bool has_device_backend(void) {
    struct rcm_transport_info info = {.name = ""};
    for (size_t i = 0; rcm_transport_at(i, &info) == RCM_OK; i++)
        if (strcmp(info.name, "cuda_ipc") == 0)
            return true;
    return false;
}
