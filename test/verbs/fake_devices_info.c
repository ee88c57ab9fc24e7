/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adds fake devices to ringcomm-info. FAKE_DEVICES selects them: "two", "down", "efa", "iwarp",
 * "none", "fail" (the hundredth send fails), "cut" (nothing reaches the other side).
 */
#include <stdlib.h>
#include <string.h>
#include "../fakes/verbs/provider.h"

static void cut(void) {
    provider_cut(true);
}

static void fail(void) {
    provider_fail_send(IBV_WC_REM_ACCESS_ERR, 100);
}

static const struct {
    const char *name;
    struct provider_setup setup;
    void (*then)(void);
} plays[] = {
    {"two", {.devices = 2, .inline_max = 220}, NULL},
    {"down", {.devices = 2, .inline_max = 220, .port_state = IBV_PORT_DOWN}, NULL},
    {"efa", {.devices = 1, .kind = PROVIDER_EFA}, NULL},
    {"iwarp", {.devices = 1, .inline_max = 220, .kind = PROVIDER_IWARP}, NULL},
    {"none", {.devices = 0}, NULL},
    {"fail", {.devices = 1, .inline_max = 220}, fail},
    {"cut", {.devices = 1, .inline_max = 220}, cut},
};

__attribute__((constructor)) static void play(void) {
    const char *name = getenv("FAKE_DEVICES");
    for (size_t i = 0; name && i < sizeof plays / sizeof plays[0]; i++) {
        if (strcmp(plays[i].name, name) != 0)
            continue;
        provider_follow_forks();
        provider_install(&plays[i].setup);
        if (plays[i].then)
            plays[i].then();
    }
}
