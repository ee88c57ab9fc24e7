/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fake devices for a whole program, present from before main to after it: tests of collectives and
 * messages run over them unchanged, with the transport "verbs". Ranks must be threads: the devices
 * exist in this process only.
 */
#include "../fakes/verbs/provider.h"

__attribute__((constructor)) static void devices_begin(void) {
    const struct provider_setup setup = {.seed = 11, .devices = 2, .inline_max = 220};
    provider_install(&setup);
}

__attribute__((destructor)) static void devices_end(void) {
    provider_remove();
}
