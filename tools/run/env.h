/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment of a rank: the launcher's, plus the variables of torchrun and of libringcomm. */
#ifndef RUN_ENV_H
#define RUN_ENV_H

#include "rank.h"

/* Undo with run_env_free. NULL: out of memory. */
char **run_env_make(const struct run_job *job, int rank);
void run_env_free(char **env);

#endif
