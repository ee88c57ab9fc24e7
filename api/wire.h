/* SPDX-License-Identifier: BSD-3-Clause */
/* The control message by which one rank tells another that a communicator failed. */
#ifndef RCMI_WIRE_H
#define RCMI_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ringcomm.h"

struct rcmi_failure {
    uint32_t magic; /* RCMI_FAILURE_MAGIC */
    uint32_t epoch; /* of the communicator */
    int32_t status, origin, sys_errno;
    uint32_t reserved;
    uint64_t sequence;
    char operation[32];
    char text[512];
};
#define RCMI_FAILURE_MAGIC 0x52434d46u

void rcmi_failure_encode(uint32_t epoch, const struct rcm_error *error,
                         struct rcmi_failure *ret_failure);
/* False if the bytes are no such message. Strings are terminated, the status is one of ours. */
bool rcmi_failure_decode(const void *bytes, size_t len, struct rcmi_failure *ret_failure,
                         struct rcm_error *ret_error);

#endif
