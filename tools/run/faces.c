/* SPDX-License-Identifier: BSD-3-Clause */
/* See faces.h. The libraries are in a folder beside libringcomm.so: ringcomm/, or in a build the
 * one of their sources. */
#include "faces.h"

#include <dlfcn.h>
#include <err.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ringcomm.h"

struct face {
    const char *option, *file, *sources, *feature;
};

/* The folder of the library that this program runs with. */
static void find_library(const struct face *face, char folder[PATH_MAX]) {
    const char *(*member)(void) = rcm_version;
    void *address;
    Dl_info info;
    memcpy(&address, &member, sizeof address);
    if (!dladdr(address, &info) || !realpath(info.dli_fname, folder))
        errx(1, "%s: the folder of libringcomm cannot be found", face->option);
    *strrchr(folder, '/') = '\0';
}

/* The folder of the face's library; the caller frees it. */
static char *find_face(const struct face *face) {
    const char *const folders[] = {"ringcomm", face->sources};
    char library[PATH_MAX];
    find_library(face, library);
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        char path[PATH_MAX + 64], *folder;
        snprintf(path, sizeof path, "%s/%s/%s", library, folders[i], face->file);
        if (access(path, R_OK) != 0)
            continue;
        if (asprintf(&folder, "%s/%s", library, folders[i]) < 0)
            err(1, "%s", face->option);
        return folder;
    }
    errx(1, "%s: there is no %s/ringcomm/%s. Build it with -D%s=enabled", face->option, library,
         face->file, face->feature);
}

/* Sets the variable to the non-empty ones of two paths. */
static void set_path(const struct face *face, const char *variable, const char *first,
                     const char *second) {
    char *value;
    const char *between = *first && *second ? ":" : "";
    if (asprintf(&value, "%s%s%s", first, between, second) < 0 || setenv(variable, value, 1) != 0)
        err(1, "%s", face->option);
    free(value);
}

static const char *value_of(const char *variable) {
    const char *value = getenv(variable);
    return value ? value : "";
}

void run_nccl_preload(void) {
    static const struct face face = {"--nccl", "libnccl.so.2", "nccl", "nccl"};
    char *folder = find_face(&face), *path;
    if (asprintf(&path, "%s/%s", folder, face.file) < 0)
        err(1, "%s", face.option);
    set_path(&face, "LD_PRELOAD", value_of("LD_PRELOAD"), path);
    free(path);
    free(folder);
}

void run_mpi_path(void) {
    static const struct face face = {"--mpi", "libmpi_abi.so.1", "mpi", "mpi_abi"};
    char *folder = find_face(&face);
    set_path(&face, "LD_LIBRARY_PATH", folder, value_of("LD_LIBRARY_PATH"));
    free(folder);
}
