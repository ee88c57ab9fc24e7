/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Played devices for a whole program: they are there from before main to after it, so that tests of
 * collectives and messages run over them as they are, with the transport "verbs". Ranks must be
 * threads: the devices are this process's alone.
 */
#include "../fakes/verbs/provider.h"

__attribute__((constructor)) static void devices_begin(void) {
    const struct provider_setup setup = {.seed = 11, .devices = 2, .inline_max = 220};
    provider_install(&setup);
}

__attribute__((destructor)) static void devices_end(void) {
    provider_remove();
}
