/* SPDX-License-Identifier: BSD-3-Clause */
/* What is mapped in this process. */
#ifndef RCMI_MAPPED_H
#define RCMI_MAPPED_H

#include <stdbool.h>
#include <stddef.h>

/* Can all these bytes of host memory be read? By their mappings, of which there are few: no page is
 * touched. True where that cannot be told. Any thread. */
bool rcmi_memory_is_readable(const void *memory, size_t bytes);

#endif
