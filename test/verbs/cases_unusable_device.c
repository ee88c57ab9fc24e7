/* SPDX-License-Identifier: BSD-3-Clause */
/* The error texts, with advice, where there is no device or no usable one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../../transport/verbs/device_faults.h"
#include "../transport/harness.h"
#include "cases.h"
#include "transport.h"

/* ---- No device ------------------------------------------------------------------------------- */

static void none_says(const char *sys, const char *dev, const char *sentence) {
    char text[256];
    verbs_explain_none(sys, dev, text, sizeof text);
    CHECK(strstr(text, sentence) != NULL);
}

void case_no_device(void **state) {
    (void)state;
    char root[] = "/tmp/verbs-faults-XXXXXX", sys[64], dev[64], device[80];
    CHECK(mkdtemp(root));
    snprintf(sys, sizeof sys, "%s/sys", root);
    snprintf(dev, sizeof dev, "%s/dev", root);
    snprintf(device, sizeof device, "%s/mlx5_9", sys);
    none_says(sys, dev, "there is no RDMA device here");
    CHECK_EQ(mkdir(sys, 0700), 0);
    none_says(sys, dev, "there is no RDMA device here");
    CHECK_EQ(mkdir(device, 0700), 0);
    none_says(sys, dev, "there are RDMA devices (mlx5_9), but no /tmp/verbs-faults-");
    none_says(sys, dev, "a container must be given it, as by --device=");
    CHECK_EQ(mkdir(dev, 0700), 0);
    none_says(sys, dev, "(mlx5_9), but libibverbs has no driver for them: install");
    CHECK(rmdir(dev) == 0 && rmdir(device) == 0 && rmdir(sys) == 0 && rmdir(root) == 0);
}

/* ---- Unusable devices ------------------------------------------------------------------------ */

/* The backend's reason with one such device; "": it is usable. */
static void row_says(const struct provider_setup *setup, const char *sentence) {
    const struct rcmi_need need = {.nranks = 2, .slots = 4, .slot_bytes = 4096};
    char reason[256] = "";
    provider_install(setup);
    const bool works = transport_row()->probe(&need, reason, sizeof reason);
    provider_remove();
    CHECK_EQ(works, sentence[0] == '\0');
    if (!strstr(reason, sentence))
        fprintf(stderr, "'%s' is not in '%s'\n", sentence, reason);
    CHECK(strstr(reason, sentence) != NULL);
}

static const struct provider_setup one_device = {.devices = 1, .inline_max = 220};

void case_devices_unfit(void **state) {
    (void)state;
    struct provider_setup setup = one_device;
    row_says(&setup, "");
    setup.kind = PROVIDER_EFA;
    row_says(&setup, "fake0 is of no use: it has no reliable connections (as EFA)");
    setup.kind = PROVIDER_IWARP;
    setup.without_cm = true;
    row_says(&setup,
             "fake0 is of no use: only rdma_cm connects it (iWARP), and there is no librdmacm");
    setup.without_cm = false;
    setenv("RINGCOMM_VERBS_DEVICES", "", 1);
    row_says(&setup, "fake0 is of no use: it is iWARP, of which nothing has been run on hardware");
    setenv("RINGCOMM_VERBS_DEVICES", "fake0", 1);
    row_says(&setup, "");
    unsetenv("RINGCOMM_VERBS_DEVICES");
    setup.kind = PROVIDER_SOFTWARE;
    row_says(&setup, "fake0 is of no use: it is no hardware, and RINGCOMM_VERBS_DEVICES does not");
    setenv("RINGCOMM_VERBS_DEVICES", "fake0", 1);
    row_says(&setup, "");
    unsetenv("RINGCOMM_VERBS_DEVICES");
    setup = (struct provider_setup){.devices = 0};
    row_says(&setup, "RDMA device");
}

void case_ports_unfit(void **state) {
    (void)state;
    struct provider_setup setup = one_device;
    setup.port_state = IBV_PORT_DOWN;
    row_says(&setup, "fake0:1 is of no use: it is down: no cable, or its interface is not up");
    setup.layer = IBV_LINK_LAYER_INFINIBAND;
    row_says(&setup, "fake0:1 is of no use: it is down: no cable, or the other end is off");
    setup.port_state = IBV_PORT_INIT;
    row_says(&setup, "fake0:1 is of no use: it waits for a subnet manager");
}

/* The error of rdma_cm that this process may not use it, which is not reported as a missing
 * address. */
void case_cm_unreachable(void **state) {
    (void)state;
    static const struct {
        enum provider_call call;
        int error;
        const char *sentence;
    } rows[] = {
        {PROVIDER_CM_CHANNEL, ENOENT, "cannot be reached by /dev/infiniband/rdma_cm"},
        {PROVIDER_CM_CHANNEL, EACCES, "Permission denied"},
        {PROVIDER_CM_ID, EMFILE, "Too many open files"},
        {PROVIDER_CM_LISTEN, EACCES, "rdma_cm cannot listen at an address of fake0:1"},
        {PROVIDER_CM_BIND, EADDRNOTAVAIL, "fake0:1 has no address at which rdma_cm can listen"},
    };
    const struct provider_setup setup = {.devices = 1, .kind = PROVIDER_IWARP};
    const struct rcmi_need need = {.nranks = 2, .slots = 4, .slot_bytes = 4096};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char reason[256] = "";
        provider_install(&setup);
        provider_fail_call_with(rows[i].call, 1, rows[i].error);
        CHECK(!transport_row()->probe(&need, reason, sizeof reason));
        provider_remove();
        if (!strstr(reason, rows[i].sentence))
            fprintf(stderr, "'%s' is not in '%s'\n", rows[i].sentence, reason);
        CHECK(strstr(reason, rows[i].sentence) != NULL);
    }
}

/* The kernel denies this user access to the device. */
void case_device_closed(void **state) {
    (void)state;
    const struct rcmi_need need = {.nranks = 2, .slots = 4, .slot_bytes = 4096};
    char reason[256] = "";
    provider_install(&one_device);
    provider_fail_call_with(PROVIDER_OPEN_DEVICE, 1, EACCES);
    CHECK(!transport_row()->probe(&need, reason, sizeof reason));
    provider_remove();
    CHECK(strstr(reason, "fake0 cannot be opened: Permission denied; this user") != NULL);
    CHECK(strstr(reason, "/dev/infiniband/uverbs0") != NULL);
}
