/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the stand-in driver tells tests beside the driver API: found by dlsym, so that a program
 * that runs with a real driver too can do without.
 */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include <stdint.h>

/* Bytes, by kernels, copies and sets alike; a copy reads and writes. */
struct fakecuda_moved {
    uint64_t read, written;
};

/* Of this process, since it started. */
struct fakecuda_counts {
    uint64_t launches, copies, sets;
    struct fakecuda_moved host;     /* pinned and pageable memory */
    struct fakecuda_moved device;   /* own allocations, of any device */
    struct fakecuda_moved imported; /* other processes' allocations */
    uint64_t exports;               /* handles and descriptors that were given out */
    uint64_t imports;               /* that were opened and not closed yet */
    uint64_t freed_imported;        /* allocations freed while another process had them open */
    uint64_t dead;                  /* accesses to memory of a process that had ended before */
};

typedef void fakecuda_counts_fn(struct fakecuda_counts *ret_counts);
typedef void *fakecuda_view_fn(uint64_t address);

fakecuda_counts_fn fakecuda_counts;
/* Where the CPU may touch device memory; of other memory the address itself. */
fakecuda_view_fn fakecuda_view;

#endif
