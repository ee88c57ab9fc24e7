/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of unsupported_names.h: each returns cudaErrorNotSupported. Their prototypes do not
 * matter, so this file does not include cuda_runtime_api.h. */
#include <stdbool.h>
#include "unsupported_names.h"

int rt_unsupported(const char *name, bool *listed);

#define X(name)                                                                                    \
    int name(void) {                                                                               \
        static bool listed;                                                                        \
        return rt_unsupported(#name, &listed);                                                     \
    }
UNSUPPORTED(X)
