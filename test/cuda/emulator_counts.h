/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of the emulator in this process (fakes/cuda/fakecuda.h), and whether the library has
 * a backend for device memory. */
#ifndef TEST_CUDA_EMULATOR_COUNTS_H
#define TEST_CUDA_EMULATOR_COUNTS_H

#include <stdbool.h>
#include "../fakes/cuda/fakecuda.h"

struct fakecuda_counts emulator_counts(void);
bool has_device_backend(void);

#endif
