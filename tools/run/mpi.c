/* SPDX-License-Identifier: BSD-3-Clause */
/* See mpi.h. The library is in a folder beside libringcomm.so: ringcomm/, or mpi/ in a build. */
#include "mpi.h"

#include <dlfcn.h>
#include <err.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ringcomm.h"

/* The folder of the library that this program runs with. */
static void find_library(char folder[PATH_MAX]) {
    const char *(*member)(void) = rcm_version;
    void *address;
    Dl_info info;
    memcpy(&address, &member, sizeof address);
    if (!dladdr(address, &info) || !realpath(info.dli_fname, folder))
        errx(1, "--mpi: the folder of libringcomm cannot be found");
    *strrchr(folder, '/') = '\0';
}

void run_mpi_path(void) {
    static const char *const folders[] = {"ringcomm", "mpi"};
    const char *before = getenv("LD_LIBRARY_PATH");
    char library[PATH_MAX];
    find_library(library);
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char path[PATH_MAX + 64], *value;
        snprintf(path, sizeof path, "%s/%s/libmpi_abi.so.1", library, folders[i]);
        if (access(path, R_OK) != 0)
            continue;
        if (asprintf(&value, "%s/%s%s%s", library, folders[i], before && *before ? ":" : "",
                     before ? before : "") < 0 ||
            setenv("LD_LIBRARY_PATH", value, 1) != 0)
            err(1, "--mpi");
        free(value);
        return;
    }
    errx(1, "--mpi: there is no %s/ringcomm/libmpi_abi.so.1. Build it with -Dmpi_abi=enabled",
         library);
}
