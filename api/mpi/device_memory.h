/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory, which this library does not copy: only ringcomm.h moves it. */
#ifndef DEVICE_MEMORY_H
#define DEVICE_MEMORY_H

#include "form.h"

bool memory_is_device(const void *memory);
/* MPI_ERR_BUFFER if the memory is a device's; `why` says what would need a copy. */
int memory_check_host(struct form *form, const void *memory, const char *why);

#endif
