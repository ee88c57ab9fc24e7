/* SPDX-License-Identifier: BSD-3-Clause */
/* See device_memory.h. The CUDA driver is queried if the process has loaded it. */
#include "device_memory.h"
#include <dlfcn.h>

enum { CUDA_MEMORY_TYPE = 2, CUDA_IS_MANAGED = 8, CUDA_DEVICE = 2 };

typedef int (*query)(void *value, int attribute, uintptr_t address); /* cuPointerGetAttribute */

static query find_query(void) {
    static _Atomic(query) found;
    query function = atomic_load(&found);
    void *driver = function ? NULL : dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!driver)
        return function;
    *(void **)&function = dlsym(driver, "cuPointerGetAttribute");
    dlclose(driver); /* the program holds it */
    atomic_store(&found, function);
    return function;
}

bool memory_is_device(const void *memory) {
    const query function = find_query();
    unsigned kind = 0, is_managed = 0;
    return function && function(&kind, CUDA_MEMORY_TYPE, (uintptr_t)memory) == 0 &&
           kind == CUDA_DEVICE &&
           (function(&is_managed, CUDA_IS_MANAGED, (uintptr_t)memory) != 0 || !is_managed);
}

int memory_check_host(struct form *form, const void *memory, const char *why) {
    return memory && memory_is_device(memory)
               ? form_error(form, MPI_ERR_BUFFER,
                            "the buffer at %p is device memory, and %s. Copy it to host memory",
                            memory, why)
               : MPI_SUCCESS;
}
