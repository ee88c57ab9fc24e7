/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment of a rank: the launcher's own, with the names of torchrun and of libringcomm. */
#ifndef RUN_ENV_H
#define RUN_ENV_H

#include "rank.h"

/* malloc'd; NULL without memory. Undo with run_env_free. */
char **run_env_make(const struct run_job *job, int rank);
void run_env_free(char **env);

#endif
