/* SPDX-License-Identifier: BSD-3-Clause */
/* What the emulator's parts report to fake_count.c, which sums it up for fakecuda.h. */
#ifndef FAKE_COUNT_H
#define FAKE_COUNT_H
#include "fake_table.h"
#include "fakecuda.h"

enum ptx_memory fake_memory_kind(const struct mem *m);
/* An operation begins: before its accesses. */
void fake_count_begin(void);
/* A first access of an operation to that memory. */
void fake_count_access(const struct mem *m);
/* Of operations that have ended; addresses as the program knows them. */
void fake_count_copy(uint64_t to, uint64_t from, uint64_t bytes);
void fake_count_set(uint64_t to, uint64_t bytes);
void fake_count_launch(uint64_t moved[PTX_MEMORIES][2]);
void fake_count_export(void);
void fake_count_import(int by);
void fake_count_freed_imported(void);
/* A descriptor that is readable once the process has ended. */
int fake_watch(pid_t owner);

#endif
