/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads IDX files of unsigned bytes (the format of MNIST), compressed by gzip or not. */
#ifndef EXAMPLE_IDX_H
#define EXAMPLE_IDX_H

#include <stddef.h>
#include <stdint.h>

#define IDX_MAX_DIMS  4
#define IDX_MAX_BYTES ((size_t)1 << 31)

struct idx {
    uint32_t dims[IDX_MAX_DIMS];
    size_t len;    /* product of the sizes */
    uint8_t *data; /* malloc'd; idx_free */
};

/*
 * Reads `path` or, if it does not exist, path + ".gz". The file must have ndims dimensions and
 * exactly the bytes of its header's sizes. Returns 0, or -1 and an error text with file and value;
 * *ret_idx is set only on success.
 */
int idx_read(const char *path, int ndims, struct idx *ret_idx, char *error, size_t error_len);

void idx_free(struct idx *idx);

#endif
