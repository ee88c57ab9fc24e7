/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings of the library that this face reads, by ringcomm.h. */
#ifndef NCCL_SETTINGS_H
#define NCCL_SETTINGS_H

/* The value of a RINGCOMM_ variable; "": it is not in the environment. */
const char *setting_given(const char *name);

#endif
