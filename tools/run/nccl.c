/* SPDX-License-Identifier: BSD-3-Clause */
/* See nccl.h. The library is in a folder beside libringcomm.so: ringcomm/, or nccl/ in a build. */
#include "nccl.h"

#include <dlfcn.h>
#include <err.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ringcomm.h"

/* The folder of the library that this program runs with. */
static void find_folder(char folder[PATH_MAX]) {
    rcm_status (*member)(const struct rcm_init_options *, rcm_comm **) = rcm_init;
    void *address;
    Dl_info info;
    memcpy(&address, &member, sizeof address);
    if (!dladdr(address, &info) || !realpath(info.dli_fname, folder))
        errx(1, "--nccl: the folder of libringcomm cannot be found");
    *strrchr(folder, '/') = '\0';
}

void run_nccl_preload(void) {
    static const char *const names[] = {"ringcomm/libnccl.so.2", "nccl/libnccl.so.2"};
    const char *before = getenv("LD_PRELOAD");
    char folder[PATH_MAX];
    find_folder(folder);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[PATH_MAX + 32], *value;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (access(path, R_OK) != 0)
            continue;
        if (asprintf(&value, "%s%s%s", before ? before : "", before && *before ? ":" : "", path) <
                0 ||
            setenv("LD_PRELOAD", value, 1) != 0)
            err(1, "--nccl");
        free(value);
        return;
    }
    errx(1, "--nccl: there is no %s/%s. Build it with -Dnccl=enabled", folder, names[0]);
}
