/* SPDX-License-Identifier: BSD-3-Clause */
/* What the emulator counts in this process (fakes/cuda/fakecuda.h), and of the row of device
 * memory. */
#ifndef TEST_CUDA_EMULATOR_COUNTS_H
#define TEST_CUDA_EMULATOR_COUNTS_H

#include <stdbool.h>
#include "../fakes/cuda/fakecuda.h"

struct fakecuda_counts emulator_counts(void);
/* Is there a transport of device memory at all? */
bool has_device_backend(void);

#endif
