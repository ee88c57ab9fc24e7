/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: the environment of launchers (rendezvous/launch/launch.c). The input consists of
 * lines NAME=VALUE. Only variables of launchers are set, except those that refer to descriptors,
 * sockets or libraries, whose contents come from elsewhere.
 */
#include "fuzz.h"
#include <stdlib.h>
#include <string.h>
#include "rendezvous.h"

enum { LINES_MAX = 64 };

static const char *const allowed[] = {"RINGCOMM_RANK",
                                      "RINGCOMM_WORLD_SIZE",
                                      "RINGCOMM_LOCAL_",
                                      "RINGCOMM_URL",
                                      "RANK",
                                      "WORLD_SIZE",
                                      "LOCAL_RANK",
                                      "LOCAL_WORLD_SIZE",
                                      "MASTER_",
                                      "GROUP_",
                                      "TORCHELASTIC_",
                                      "OMPI_COMM_",
                                      "OMPI_UNIVERSE_",
                                      "PMI_RANK",
                                      "PMI_SIZE",
                                      "PMI_ID",
                                      "MPI_LOCAL",
                                      "HYDI_",
                                      "SLURM_"};

static bool name_allowed(const char *name) {
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++)
        if (strncmp(name, allowed[i], strlen(allowed[i])) == 0)
            return true;
    return false;
}

/* Sets the variables of the lines; the caller unsets *ret_names. */
static int set_lines(char *text, char *ret_names[LINES_MAX]) {
    char *save = NULL;
    int count = 0;
    for (char *line = strtok_r(text, "\n", &save); line && count < LINES_MAX;
         line = strtok_r(NULL, "\n", &save)) {
        char *equals = strchr(line, '=');
        if (!equals)
            continue;
        *equals = '\0';
        if (name_allowed(line) && setenv(line, equals + 1, 1) == 0)
            ret_names[count++] = line;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct rcmi_launch launch = {0};
    char *names[LINES_MAX], *text = fuzz_text(data, size);
    int count = set_lines(text, names);
    rcm_status status = rcmi_launch_resolve(NULL, &launch);
    fuzz_judge(status);
    if (status == RCM_OK) {
        fuzz_require(launch.rank >= 0 && launch.rank < launch.world_size, "a rank is below size");
        fuzz_require(launch.local_size == 0 || launch.local_rank < launch.local_size,
                     "a local rank is below the local size");
        fuzz_require(launch.attempt >= 0, "attempts are counted");
        fuzz_require(launch.origin != NULL, "there is an origin");
        rcmi_launch_fini(&launch);
    }
    for (int i = 0; i < count; i++)
        unsetenv(names[i]);
    free(text);
    return 0;
}
