/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions for tests that the emulated driver has in addition to the driver API. Find them by
 * dlsym, so that a program also runs with a real driver.
 */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include <stdint.h>

/* Bytes moved by kernels, copies and sets. A copy reads and writes. */
struct fakecuda_moved {
    uint64_t read, written;
};

/* Of this process since its start. */
struct fakecuda_counts {
    uint64_t launches, copies, sets;
    struct fakecuda_moved host;     /* pinned and pageable memory */
    struct fakecuda_moved device;   /* own allocations, of any device */
    struct fakecuda_moved imported; /* other processes' allocations */
    uint64_t exports;               /* returned handles and descriptors */
    uint64_t imports;               /* opened and not yet closed */
    uint64_t freed_imported;        /* allocations freed while another process had them open */
    uint64_t dead; /* accesses to memory of a process that had ended when the operation began */
};

typedef void fakecuda_counts_fn(struct fakecuda_counts *ret_counts);
typedef void *fakecuda_view_fn(uint64_t address);

fakecuda_counts_fn fakecuda_counts;
/* The address at which the CPU may access device memory. For other memory the address itself. */
fakecuda_view_fn fakecuda_view;

#endif
