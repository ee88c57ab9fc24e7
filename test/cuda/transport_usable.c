/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcm_transport_at with and without a CUDA driver: transport_usable no|yes. cuda_ipc is usable if a
 * driver can be loaded, and its info contains the reason if not. A child forked afterwards gets the
 * same answer.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ringcomm.h"

enum { SKIPPED = 77 };

static int is_wrong(int wanted) {
    struct rcm_transport_info info;
    for (size_t i = 0; rcm_transport_at(i, &info) == RCM_OK; i++) {
        if (strcmp(info.name, "cuda_ipc") != 0)
            continue;
        if (info.usable == wanted && info.reason[0] &&
            (wanted || strstr(info.reason, "no NVIDIA driver")))
            return 0;
        fprintf(stderr, "usable is %d, not %d: %s\n", info.usable, wanted, info.reason);
        return 1;
    }
    fprintf(stderr, "there is no cuda_ipc\n");
    return 1;
}

int main(int argc, char **argv) {
    const int wanted = argc > 1 && strcmp(argv[1], "yes") == 0;
    int status = 0;
    if (is_wrong(wanted)) {
        if (wanted || !dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL))
            return 1;
        fprintf(stderr, "this machine has a driver\n");
        return SKIPPED;
    }
    const pid_t child = fork();
    if (child == 0)
        _exit(is_wrong(wanted));
    return child < 0 || waitpid(child, &status, 0) < 0 || status != 0;
}
