/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports from the emulator's parts to fake_count.c, which sums them up for fakecuda.h. */
#ifndef FAKE_COUNT_H
#define FAKE_COUNT_H
#include "fake_table.h"
#include "fakecuda.h"

enum ptx_memory fake_memory_kind(const struct mem *m);
/* Called when an operation begins, before its accesses. */
void fake_count_begin(void);
/* Called at the first access of an operation to that memory. */
void fake_count_access(const struct mem *m);
/* Called when operations have ended, with the program's addresses. */
void fake_count_copy(uint64_t to, uint64_t from, uint64_t bytes);
void fake_count_set(uint64_t to, uint64_t bytes);
void fake_count_launch(uint64_t moved[PTX_MEMORIES][2]);
void fake_count_export(void);
void fake_count_import(int by);
void fake_count_freed_imported(void);
/* A descriptor that is readable once the process has ended. */
int fake_watch(pid_t owner);

#endif
