/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The prerequisites of device memory (ringcomm-info --check cuda). Run it first on a machine with
 * GPUs, because the library was built and tested without any.
 */
#include "check_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../common.h"
#include "device_kernels.h"
#include "../launched.h"
#include "ringcomm.h"

rcm_status check_cuda_chosen(int *ret_ordinal) {
    *ret_ordinal = -1;
    return check_device() ? rcmi_device_find(check_device(), launched_local_rank(), ret_ordinal)
                          : RCM_OK;
}

void check_cuda_each(struct check_out *out,
                     void (*test)(struct check_out *out, const struct rcmi_device_facts *facts)) {
    struct rcmi_device_facts facts;
    int n = 0, chosen = -1;
    if (rcmi_device_count(&n) != RCM_OK || check_cuda_chosen(&chosen) != RCM_OK)
        check_mend(out, "", "%s", rcm_last_error());
    for (int i = chosen < 0 ? 0 : chosen; i < (chosen < 0 ? n : chosen + 1); i++) {
        if (rcmi_device_query(i, &facts) == RCM_OK)
            test(out, &facts);
        else
            check_mend(out, "", "%s", rcm_last_error());
    }
}

const char *check_cuda_name(const struct rcmi_device_facts *facts) {
    static char name[24];
    snprintf(name, sizeof(name), "device %d", facts->ordinal);
    return name;
}

/* ---- The driver ---------------------------------------------------------------------------- */

static void fact_version(struct check_out *out, const char *name, int version) {
    check_fact(out, "", name, "CUDA %d.%d", version / 1000, version % 1000 / 10);
}

static void fact_module(struct check_out *out) {
    char line[200];
    FILE *file = fopen("/proc/driver/nvidia/version", "re");
    if (!file)
        return;
    if (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = '\0';
        check_fact(out, "", "kernel module", "%s", line);
    }
    fclose(file);
}

static void fact_environment(struct check_out *out) {
    static const char *const names[] = {"CUDA_VISIBLE_DEVICES",
                                        "CUDA_LAUNCH_BLOCKING",
                                        "CUDA_DEVICE_MAX_CONNECTIONS",
                                        "CUDA_MODULE_LOADING",
                                        "CUDA_DEVICE_ORDER",
                                        "CUDA_MPS_PIPE_DIRECTORY",
                                        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
                                        "NVIDIA_VISIBLE_DEVICES",
                                        "CUDA_DISABLE_PTX_JIT"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (getenv(names[i]))
            check_fact(out, "", names[i], "%s", getenv(names[i]));
}

static void run_driver(struct check_out *out) {
    const struct rcmi_cuda *cuda;
    int n = 0, version = 0, chosen;
    fact_module(out);
    fact_environment(out);
    if (rcmi_cuda_image.toolkit)
        fact_version(out, "kernels built by", rcmi_cuda_image.toolkit);
    if (rcmi_cuda_open(&cuda) != RCM_OK || rcmi_device_count(&n) != RCM_OK) {
        check_mend(out, "", "%s", rcm_last_error());
        return;
    }
    check_fact(out, "", "devices", "%d", n);
    if (check_cuda_chosen(&chosen) != RCM_OK)
        check_mend(out, "", "%s", rcm_last_error());
    else if (chosen >= 0)
        check_fact(out, "", "only device", "%d", chosen);
    if (cuda->cuDriverGetVersion(&version) == RCMI_CUDA_SUCCESS)
        fact_version(out, "driver supports", version);
    if (device_kernels_check(&rcmi_cuda_image, version) != RCM_OK)
        check_mend(out, "", "%s", rcm_last_error());
}

/* ---- Devices ------------------------------------------------------------------------------- */

static const char *compute_mode(int mode) {
    switch (mode) {
    case 0:
        return "default";
    case RCMI_CUDA_COMPUTE_PROHIBITED:
        return "prohibited";
    case RCMI_CUDA_COMPUTE_EXCLUSIVE_PROCESS:
        return "exclusive process: one rank, or MPS";
    default:
        return "unknown";
    }
}

static void fact_attributes(struct check_out *out, const struct rcmi_device_facts *facts) {
    static const struct {
        const char *name;
        enum rcmi_cuda_device_attribute attribute;
    } rows[] = {
        {"copy engines", RCMI_CUDA_DEVICE_COPY_ENGINES},
        {"unified addressing", RCMI_CUDA_DEVICE_UNIFIED_ADDRESSING},
        {"preemption", RCMI_CUDA_DEVICE_PREEMPTION},
        {"GPUDirect RDMA", RCMI_CUDA_DEVICE_GPUDIRECT_RDMA},
        {"GPUDirect order", RCMI_CUDA_DEVICE_GPUDIRECT_ORDER},
        {"dma-buf", RCMI_CUDA_DEVICE_DMA_BUF},
        {"memory pools", RCMI_CUDA_DEVICE_MEMORY_POOLS},
        {"VMM", RCMI_CUDA_DEVICE_VMM},
        {"VMM descriptors", RCMI_CUDA_DEVICE_VMM_DESCRIPTORS},
        {"wait by memory", RCMI_CUDA_DEVICE_WAIT_NOR},
    };
    const struct rcmi_cuda *cuda = rcmi_cuda_there();
    int value;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (cuda->cuDeviceGetAttribute(&value, rows[i].attribute, facts->ordinal) ==
            RCMI_CUDA_SUCCESS)
            check_fact(out, check_cuda_name(facts), rows[i].name, "%d", value);
}

static void device_describe(struct check_out *out, const struct rcmi_device_facts *facts) {
    const char *of = check_cuda_name(facts);
    char near[256];
    check_fact(out, of, "UUID", "%s", facts->uuid);
    check_fact(out, of, "name", "%s", facts->name);
    check_fact(out, of, "MIG instance", "%s", facts->mig ? "yes" : "no");
    check_fact(out, of, "PCI", "%s", facts->bus);
    check_fact(out, of, "capability", "%d.%d", facts->capability / 10, facts->capability % 10);
    check_fact(out, of, "multiprocessors", "%d", facts->multiprocessors);
    check_fact(out, of, "memory", "%.1f GB", (double)facts->bytes / 1e9);
    check_fact(out, of, "compute mode", "%s", compute_mode(facts->compute_mode));
    check_fact(out, of, "MPS", "%s", facts->mps ? "yes" : "no");
    if (facts->numa >= 0)
        check_fact(out, of, "NUMA node", "%d", facts->numa);
    check_cuda_nearest(facts->bus, facts->numa, near, sizeof(near));
    check_fact(out, of, "nearest network", "%s", near);
    fact_attributes(out, facts);
}

static void device_open(struct check_out *out, const struct rcmi_device_facts *facts) {
    struct rcmi_device *device;
    char number[16];
    snprintf(number, sizeof(number), "%d", facts->ordinal);
    const int64_t began = tool_now_ns();
    if (rcmi_device_open(number, 0, &device) != RCM_OK) {
        check_mend(out, check_cuda_name(facts), "%s", rcm_last_error());
        return;
    }
    check_fact(out, check_cuda_name(facts), "open", "%.1f ms",
               (double)(tool_now_ns() - began) / 1e6);
    rcmi_device_close(device);
}

static void run_devices(struct check_out *out) {
    check_cuda_each(out, device_describe);
}

static void run_open(struct check_out *out) {
    check_cuda_each(out, device_open);
}

static const struct check_test tests[] = {
    {.name = "driver", .when = CHECK_FIRST, .seconds = 60, .run = run_driver},
    {.name = "devices", .when = CHECK_AFTER, .seconds = 30, .run = run_devices},
    {.name = "open", .when = CHECK_FIRST, .seconds = 90, .run = run_open},
    {.name = "copies", .when = CHECK_AFTER, .seconds = 60, .run = check_cuda_copies},
    {.name = "kernels", .when = CHECK_AFTER, .seconds = 120, .run = check_cuda_kernels},
    {.name = "order", .when = CHECK_AFTER, .seconds = 60, .run = check_cuda_order},
    {.name = "ipc", .when = CHECK_AFTER, .seconds = 30, .run = check_cuda_ipc},
    {.name = "pairs", .when = CHECK_AFTER, .seconds = 330, .run = check_cuda_pairs},
    {.name = NULL},
};

const struct check check_cuda = {.name = "cuda", .tests = tests, .takes_device = true};
