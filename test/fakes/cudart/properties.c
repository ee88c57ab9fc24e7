/* SPDX-License-Identifier: BSD-3-Clause */
/* cudaGetDeviceProperties, by the table of device_properties.h. */
#include "cudart.h"
#include "device_properties.h"
#include <stddef.h>

static const struct {
    CUdevice_attribute attribute;
    size_t offset;
    bool wide; /* a size_t */
} fields[] = {
#define INT(field, a)  {CU_DEVICE_ATTRIBUTE_##a, offsetof(struct cudaDeviceProp, field), false},
#define SIZE(field, a) {CU_DEVICE_ATTRIBUTE_##a, offsetof(struct cudaDeviceProp, field), true},
    DEVICE_INTS(INT) DEVICE_SIZES(SIZE)};

static CUresult properties(struct cudaDeviceProp *ret, int device) {
    *ret = (struct cudaDeviceProp){0};
    CUresult r = cuDeviceGetName(ret->name, sizeof ret->name, device);
    if (!r)
        r = cuDeviceGetUuid(&ret->uuid, device);
    if (!r)
        r = cuDeviceTotalMem(&ret->totalGlobalMem, device);
    for (size_t i = 0; i < sizeof fields / sizeof *fields && !r; i++) {
        int value = 0;
        void *field = (char *)ret + fields[i].offset;
        r = cuDeviceGetAttribute(&value, fields[i].attribute, device);
        if (fields[i].wide)
            *(size_t *)field = (size_t)value;
        else
            *(int *)field = value;
    }
    return r;
}

API_INIT(cudaGetDeviceProperties, (struct cudaDeviceProp * ret, int device),
         properties(ret, device))
