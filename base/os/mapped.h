/* SPDX-License-Identifier: BSD-3-Clause */
/* Mappings of this process. */
#ifndef RCMI_MAPPED_H
#define RCMI_MAPPED_H

#include <stdbool.h>
#include <stddef.h>

/* Are all these bytes of host memory readable? Checks the mappings, of which there are few; touches
 * no page. True if it cannot be determined. Any thread. */
bool rcmi_memory_is_readable(const void *memory, size_t bytes);

#endif
