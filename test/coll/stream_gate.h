/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams that are blocked until the test opens them, for the memory kind that a test program is
 * linked with (buffer_memory.h). */
#ifndef TEST_STREAM_GATE_H
#define TEST_STREAM_GATE_H

struct gate {
    void *stream; /* its operations begin after gate_open */
};

/* Never NULL. */
struct gate *gate_new(void);
void gate_open(struct gate *gate);
/* The gate must be open and its stream idle. */
void gate_free(struct gate *gate);

#endif
