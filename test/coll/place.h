/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the ranks' buffers, of the kind that a test program is linked with: host memory
 * (place.c), or the fake device's (../device/place.c). */
#ifndef TEST_PLACE_H
#define TEST_PLACE_H

#include <stdbool.h>
#include <stddef.h>

/* Is it host memory? What concerns no buffers is tested with that only. */
bool place_is_host(void);
/* Once, before there are ranks. */
void place_init(void);
/* Never NULL. */
void *place_new(size_t bytes);
/* NULL is a no-op. */
void place_free(void *place);
/* Where the CPU may touch it. */
void *place_view(const void *place);
/* What still uses it, though its operation is complete: 0. */
int place_used(const void *place, size_t bytes);

#endif
