/* SPDX-License-Identifier: BSD-3-Clause */
/* What is known of a device without a context on it: see device.h. */
#include <stdio.h>
#include <string.h>
#include "device_internal.h"
#include "error.h"
#include "fd.h"

/* The first call that fails says so, and later ones are not made. */
struct asking {
    const struct rcmi_cuda *cuda;
    int device;
    rcm_status status;
};

static bool asked(struct asking *asking, rcmi_cuda_code code, const char *call) {
    if (code != RCMI_CUDA_SUCCESS)
        asking->status = rcmi_cuda_fail(code, call);
    return code == RCMI_CUDA_SUCCESS;
}

static int attribute(struct asking *asking, enum rcmi_cuda_device_attribute which) {
    int value = 0;
    if (asking->status == RCM_OK)
        (void)asked(asking, asking->cuda->cuDeviceGetAttribute(&value, which, asking->device),
                    "cuDeviceGetAttribute");
    return value;
}

/* One that drivers before CUDA 12.x may not know: 0. */
static int attribute_if_known(const struct asking *asking, enum rcmi_cuda_device_attribute which) {
    int value = 0;
    if (asking->cuda->cuDeviceGetAttribute(&value, which, asking->device) != RCMI_CUDA_SUCCESS)
        return 0;
    return value;
}

static void uuid_write(const struct rcmi_cuda_uuid *uuid, bool mig, char *text, size_t cap) {
    size_t len = (size_t)snprintf(text, cap, mig ? "MIG-" : "GPU-");
    for (size_t i = 0; i < sizeof uuid->bytes; i++) {
        const bool dash = i == 4 || i == 6 || i == 8 || i == 10;
        len += (size_t)snprintf(text + len, cap - len, "%s%02x", dash ? "-" : "", uuid->bytes[i]);
    }
}

/* As /sys has it. */
static void bus_write_small(char *bus) {
    for (; *bus; bus++)
        if (*bus >= 'A' && *bus <= 'F')
            *bus = (char)(*bus - 'A' + 'a');
}

/* -1: not known. */
static int numa_node(const char *bus) {
    char path[96];
    int node = -1;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%.15s/numa_node", bus);
    FILE *file = rcmi_fopen(path);
    if (!file)
        return node;
    if (fscanf(file, "%d", &node) != 1)
        node = -1;
    fclose(file);
    return node;
}

/* A part of a GPU says so in its name only: the driver has no attribute for it. */
static void ask_names(struct asking *asking, struct rcmi_device_facts *facts) {
    const struct rcmi_cuda *cuda = asking->cuda;
    struct rcmi_cuda_uuid uuid;
    if (!asked(asking, cuda->cuDeviceGetName(facts->name, sizeof facts->name, asking->device),
               "cuDeviceGetName") ||
        !asked(asking, cuda->cuDeviceGetUuid(&uuid, asking->device), "cuDeviceGetUuid") ||
        !asked(asking, cuda->cuDeviceGetPCIBusId(facts->bus, sizeof facts->bus, asking->device),
               "cuDeviceGetPCIBusId") ||
        !asked(asking, cuda->cuDeviceTotalMem(&facts->bytes, asking->device), "cuDeviceTotalMem"))
        return;
    facts->mig = strstr(facts->name, "MIG ") != NULL;
    bus_write_small(facts->bus);
    facts->numa = numa_node(facts->bus);
    uuid_write(&uuid, facts->mig, facts->uuid, sizeof facts->uuid);
    snprintf(facts->label, sizeof facts->label, "device %d (%s)", facts->ordinal, facts->uuid);
}

static void ask_numbers(struct asking *asking, struct rcmi_device_facts *facts) {
    facts->capability = 10 * attribute(asking, RCMI_CUDA_DEVICE_CC_MAJOR);
    facts->capability += attribute(asking, RCMI_CUDA_DEVICE_CC_MINOR);
    facts->multiprocessors = attribute(asking, RCMI_CUDA_DEVICE_MULTIPROCESSORS);
    facts->compute_mode = attribute(asking, RCMI_CUDA_DEVICE_COMPUTE_MODE);
    facts->mps = attribute_if_known(asking, RCMI_CUDA_DEVICE_MPS) != 0;
}

rcm_status device_facts_get(const struct rcmi_cuda *cuda, int ordinal,
                            struct rcmi_device_facts *ret_facts) {
    struct asking asking = {.cuda = cuda, .status = RCM_OK};
    *ret_facts = (struct rcmi_device_facts){.ordinal = ordinal};
    if (asked(&asking, cuda->cuDeviceGet(&asking.device, ordinal), "cuDeviceGet") &&
        asked(&asking, cuda->cuDriverGetVersion(&ret_facts->driver), "cuDriverGetVersion"))
        ask_names(&asking, ret_facts);
    if (asking.status == RCM_OK)
        ask_numbers(&asking, ret_facts);
    return asking.status == RCM_OK ? RCM_OK : rcmi_fail_context("device %d", ordinal);
}

rcm_status rcmi_device_count(int *ret_n) {
    const struct rcmi_cuda *cuda;
    const rcm_status status = rcmi_cuda_open(&cuda);
    if (status != RCM_OK)
        return status;
    const rcmi_cuda_code code = cuda->cuDeviceGetCount(ret_n);
    return code == RCMI_CUDA_SUCCESS ? RCM_OK : rcmi_cuda_fail(code, "cuDeviceGetCount");
}

rcm_status rcmi_device_ask(int ordinal, struct rcmi_device_facts *ret_facts) {
    const struct rcmi_cuda *cuda;
    const rcm_status status = rcmi_cuda_open(&cuda);
    return status == RCM_OK ? device_facts_get(cuda, ordinal, ret_facts) : status;
}
