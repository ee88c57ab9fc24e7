/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A kind of memory for tests (base/mem_kind.h): addresses at which the CPU faults, and copies and
 * reductions that finish later, in any order, on a thread of their own.
 *
 * It stops the process, with a line that says why, when an operation uses memory that is not
 * allocated, when two that run at once are not independent, and when memory is freed that one uses.
 * Until an operation has run, what it writes is nonsense.
 */
#ifndef TEST_DEVICE_FAKE_H
#define TEST_DEVICE_FAKE_H

#include <stdbool.h>
#include <stddef.h>

/* Once, before there are ranks. seed: of the delays. */
void fake_add(unsigned seed);

/* On a page of its own, zeroed. */
void *fake_alloc(size_t bytes);
void fake_free(void *memory);
bool fake_has(const void *address);
/* The same bytes where the CPU may touch them; of host memory the address itself. */
void *fake_view(const void *address);

/* Of the blocks that are allocated; and so many allocations of the library's fail from now on. */
int fake_blocks(void);
void fake_refuse(int n);

/* Streams, which live as long as the process; NULL is the legacy default one. Work is enqueued on
 * one, and is done when the test says so. While captures go on, none can be followed. */
void *fake_stream_new(void);
void fake_stream_enqueue(void *stream);
void fake_stream_done(void *stream);
void fake_stream_capture(bool begins);

/* What becomes of an operation. */
enum fake_fate { FAKE_FAILS, FAKE_NEVER_BEGINS, FAKE_NEVER_ENDS, FAKE_LASTS };
/* The one that begins after `skip` others of this process has that fate; FAKE_NEVER_ENDS: n of
 * them; FAKE_LASTS: that one and all after it take n milliseconds. */
void fake_set(enum fake_fate fate, int skip, int n);
/* Of the operations that have begun and not ended, those that touch these bytes; NULL: all. */
int fake_running(const void *memory, size_t bytes);
/* That have begun in this process. */
long fake_count(void);

#endif
