/* SPDX-License-Identifier: BSD-3-Clause */
/* ringcomm-info --check verbs in a build without RDMA. */
#include "check_frame.h"
#include "check_pairs.h"

static void run_build(struct check_out *out) {
    check_mend(out, "",
               "this library is built without RDMA; install librdmacm-dev and build it with "
               "-Dverbs=enabled");
}

static const struct check_test tests[] = {
    {.name = "build", .when = CHECK_FIRST, .seconds = 5, .run = run_build},
    {.name = "pairs", .when = CHECK_OF_JOBS, .seconds = 600, .run = check_pairs},
    {.name = NULL},
};

const struct check check_verbs = {.name = "verbs", .tests = tests};
