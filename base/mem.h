/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A piece of a user's memory, as passed from the public calls to the transports: address, length,
 * kind and registration. Not here: registering (transport/channel/allocation.c), operations of a
 * kind (mem_kind.h).
 */
#ifndef RCMI_MEM_H
#define RCMI_MEM_H

#include <stddef.h>

enum rcmi_mem_kind {
    RCMI_MEM_HOST,
    RCMI_MEM_DEVICE, /* the CPU must not touch it */
    RCMI_MEM_KINDS
};

struct rcmi_registration;

struct rcmi_mem {
    void *bytes; /* NULL only if len is 0 */
    size_t len;
    enum rcmi_mem_kind kind;
    int device;                                   /* for device memory: the number of its device */
    const struct rcmi_registration *registration; /* that contains it; NULL: none */
};

/* len bytes of mem, from byte `at` on. */
static inline struct rcmi_mem rcmi_mem_part(const struct rcmi_mem *mem, size_t at, size_t len) {
    struct rcmi_mem part = *mem;
    part.bytes = mem->bytes ? (char *)mem->bytes + at : NULL;
    part.len = len;
    return part;
}

/* Memory of the library, and of tests. For const bytes, the caller must only read. */
static inline struct rcmi_mem rcmi_mem_host(const void *bytes, size_t len) {
    return (struct rcmi_mem){.bytes = (void *)bytes, .len = len, .kind = RCMI_MEM_HOST};
}

#endif
