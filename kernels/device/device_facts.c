/* SPDX-License-Identifier: BSD-3-Clause */
/* Properties of a device without a context on it: see device.h. */
#include <stdio.h>
#include <string.h>
#include "device_internal.h"
#include "error.h"
#include "fd.h"

/* Queries of one device. After the first failed call, further calls are skipped. */
struct query {
    const struct rcmi_cuda *cuda;
    int device;
    rcm_status status;
};

static bool query_ok(struct query *query, rcmi_cuda_code code, const char *call) {
    if (code != RCMI_CUDA_SUCCESS)
        query->status = rcmi_cuda_fail(code, call);
    return code == RCMI_CUDA_SUCCESS;
}

static int attribute(struct query *query, enum rcmi_cuda_device_attribute which) {
    int value = 0;
    if (query->status == RCM_OK)
        (void)query_ok(query, query->cuda->cuDeviceGetAttribute(&value, which, query->device),
                       "cuDeviceGetAttribute");
    return value;
}

/* An attribute that drivers before CUDA 12.x may lack: 0. */
static int attribute_if_known(const struct query *query, enum rcmi_cuda_device_attribute which) {
    int value = 0;
    if (query->cuda->cuDeviceGetAttribute(&value, which, query->device) != RCMI_CUDA_SUCCESS)
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

/* Lower case, as in /sys. */
static void bus_write_small(char *bus) {
    for (; *bus; bus++)
        if (*bus >= 'A' && *bus <= 'F')
            *bus = (char)(*bus - 'A' + 'a');
}

/* -1: unknown. */
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

/* Only the name reveals that it is a part of a GPU (MIG): the driver has no attribute for it. */
static void query_names(struct query *query, struct rcmi_device_facts *facts) {
    const struct rcmi_cuda *cuda = query->cuda;
    struct rcmi_cuda_uuid uuid;
    if (!query_ok(query, cuda->cuDeviceGetName(facts->name, sizeof facts->name, query->device),
                  "cuDeviceGetName") ||
        !query_ok(query, cuda->cuDeviceGetUuid(&uuid, query->device), "cuDeviceGetUuid") ||
        !query_ok(query, cuda->cuDeviceGetPCIBusId(facts->bus, sizeof facts->bus, query->device),
                  "cuDeviceGetPCIBusId") ||
        !query_ok(query, cuda->cuDeviceTotalMem(&facts->bytes, query->device), "cuDeviceTotalMem"))
        return;
    facts->mig = strstr(facts->name, "MIG ") != NULL;
    bus_write_small(facts->bus);
    facts->numa = numa_node(facts->bus);
    uuid_write(&uuid, facts->mig, facts->uuid, sizeof facts->uuid);
    snprintf(facts->label, sizeof facts->label, "device %d (%s)", facts->ordinal, facts->uuid);
}

static void query_numbers(struct query *query, struct rcmi_device_facts *facts) {
    facts->capability = 10 * attribute(query, RCMI_CUDA_DEVICE_CC_MAJOR);
    facts->capability += attribute(query, RCMI_CUDA_DEVICE_CC_MINOR);
    facts->multiprocessors = attribute(query, RCMI_CUDA_DEVICE_MULTIPROCESSORS);
    facts->compute_mode = attribute(query, RCMI_CUDA_DEVICE_COMPUTE_MODE);
    facts->mps = attribute_if_known(query, RCMI_CUDA_DEVICE_MPS) != 0;
}

rcm_status device_facts_get(const struct rcmi_cuda *cuda, int ordinal,
                            struct rcmi_device_facts *ret_facts) {
    struct query query = {.cuda = cuda, .status = RCM_OK};
    *ret_facts = (struct rcmi_device_facts){.ordinal = ordinal};
    if (query_ok(&query, cuda->cuDeviceGet(&query.device, ordinal), "cuDeviceGet") &&
        query_ok(&query, cuda->cuDriverGetVersion(&ret_facts->driver), "cuDriverGetVersion"))
        query_names(&query, ret_facts);
    if (query.status == RCM_OK)
        query_numbers(&query, ret_facts);
    return query.status == RCM_OK ? RCM_OK : rcmi_fail_context("device %d", ordinal);
}

rcm_status rcmi_device_count(int *ret_n) {
    const struct rcmi_cuda *cuda;
    const rcm_status status = rcmi_cuda_open(&cuda);
    if (status != RCM_OK)
        return status;
    const rcmi_cuda_code code = cuda->cuDeviceGetCount(ret_n);
    return code == RCMI_CUDA_SUCCESS ? RCM_OK : rcmi_cuda_fail(code, "cuDeviceGetCount");
}

rcm_status rcmi_device_query(int ordinal, struct rcmi_device_facts *ret_facts) {
    const struct rcmi_cuda *cuda;
    const rcm_status status = rcmi_cuda_open(&cuda);
    return status == RCM_OK ? device_facts_get(cuda, ordinal, ret_facts) : status;
}
