/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams whose work is done when the test says so, of the kind of memory that a test program is
 * linked with (buffer_memory.h). */
#ifndef TEST_STREAM_GATE_H
#define TEST_STREAM_GATE_H

struct gate {
    void *stream; /* what follows it does not begin before gate_open */
};

/* Never NULL. */
struct gate *gate_new(void);
void gate_open(struct gate *gate);
/* Of one that was opened, once nothing follows it. */
void gate_free(struct gate *gate);

#endif
