/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A memory kind for tests (base/mem_kind.h): addresses that the CPU cannot access, and copies and
 * reductions that run asynchronously, in any order, on a separate thread.
 *
 * It aborts with a message when an operation uses memory that is not allocated, when two running
 * operations are not independent, and when memory in use is freed. Until an operation has run, its
 * results contain 0xee.
 */
#ifndef TEST_DEVICE_FAKE_H
#define TEST_DEVICE_FAKE_H

#include <stdbool.h>
#include <stddef.h>

/* Called once, before ranks start. seed: of the delays. */
void fake_add(unsigned seed);

/* On its own page, zeroed. */
void *fake_alloc(size_t bytes);
void fake_free(void *memory);
bool fake_has(const void *address);
/* The same bytes at an address that the CPU can access. For host memory the address itself. */
void *fake_view(const void *address);

/* Number of allocated blocks. fake_refuse: so many of the library's next allocations fail. */
int fake_blocks(void);
void fake_refuse(int n);

/* Streams, which are never freed; NULL is the legacy default stream. Work enqueued on a stream is
 * done when the test calls fake_stream_done. During captures no operation can follow a stream. */
void *fake_stream_new(void);
void fake_stream_enqueue(void *stream);
void fake_stream_done(void *stream);
void fake_stream_capture(bool begins);

/* Fate of an operation. */
enum fake_fate { FAKE_FAILS, FAKE_NEVER_BEGINS, FAKE_NEVER_ENDS, FAKE_LASTS };
/* The operation that begins after `skip` others of this process gets that fate. FAKE_NEVER_ENDS: n
 * operations; FAKE_LASTS: it and all later ones take n milliseconds. */
void fake_set(enum fake_fate fate, int skip, int n);
/* Number of running operations that use these bytes; NULL: all. */
int fake_running(const void *memory, size_t bytes);
/* Number of operations begun in this process. */
long fake_count(void);

#endif
