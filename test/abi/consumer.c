/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of a user outside this repository, built against the installed header and library with
 * the flags of pkg-config. Prints the sum of one rank's array.
 */
#include <ringcomm.h>
#include <stdio.h>

int main(void) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    float in[3] = {1, 2, 3}, out[3] = {0, 0, 0};
    rcm_comm *comm;

    options.rank = 0;
    options.world_size = 1;
    options.url = "hash:";
    if (rcm_init(&options, &comm) != RCM_OK ||
        rcm_all_reduce(comm, in, out, 3, RCM_FLOAT32, RCM_SUM, NULL, NULL) != RCM_OK) {
        fprintf(stderr, "%s\n", rcm_last_error());
        return 1;
    }
    printf("%s: %g %g %g\n", rcm_version(), (double)out[0], (double)out[1], (double)out[2]);
    return rcm_destroy(comm) == RCM_OK ? 0 : 1;
}
