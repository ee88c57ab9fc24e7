/* SPDX-License-Identifier: BSD-3-Clause */
/* The copy method of all variants: set by kernels.c, read by each variant. */
#include "variant.h"

_Atomic bool rcmi_copies_strings;
