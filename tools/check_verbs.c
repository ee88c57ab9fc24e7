/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA, as the transport verbs needs it (ringcomm-info --check verbs). */
#include <string.h>
#include "check_frame.h"
#include "ringcomm.h"

/* What rcm_init will say of it. */
static void run_transport(struct check_out *out) {
    struct rcm_transport_info info;
    for (size_t i = 0; rcm_transport_at(i, &info) == RCM_OK; i++) {
        if (strcmp(info.name, "verbs") != 0)
            continue;
        check_fact(out, "", "transport verbs", "%s", info.usable ? "usable" : "unusable");
        if (!info.usable)
            check_mend(out, "", "%s", info.reason);
        return;
    }
    check_mend(out, "", "built without RDMA: meson setup -Dverbs=enabled, with libibverbs-dev");
}

static const struct check_test tests[] = {
    {.name = "transport", .when = CHECK_FIRST, .seconds = 20, .run = run_transport},
    {.name = NULL},
};

const struct check check_verbs = {.name = "verbs", .tests = tests};
