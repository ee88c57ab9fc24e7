/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding infos. */
#ifndef INFO_H
#define INFO_H

#include "form.h"

int info_find(struct form *form, MPI_Info handle, struct MPI_ABI_Info **ret_info);
/* Whether an info has a key with this value. */
bool info_has(MPI_Info info, const char *key, const char *value);

#endif
