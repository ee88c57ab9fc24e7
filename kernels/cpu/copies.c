/* SPDX-License-Identifier: BSD-3-Clause */
/* How the variants copy: set by kernels.c, read by each. */
#include "variant.h"

_Atomic bool rcmi_copies_strings;
