/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads and writes of slots for the conformance suite, and memory to send from, of the backend's
 * kind: host memory by the CPU, device memory by operations of the node's device, which have ended
 * when these functions return. Each fails the test when it does not end in time.
 */
#ifndef TEST_TRANSPORT_PAYLOAD_H
#define TEST_TRANSPORT_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "transport.h"

/* Writes the pattern of the seed (fill), or compares with it. */
void payload_fill(const struct rcmi_node *node, void *at, size_t len, uint64_t seed);
bool payload_filled(const struct rcmi_node *node, const void *at, size_t len, uint64_t seed);
/* Each of the two is of the backend's kind, or host memory. */
void payload_copy(const struct rcmi_node *node, void *to, const void *from, size_t len);

/* Memory for zero-copy messages. */
void *payload_alloc(const struct rcmi_node *node, size_t bytes);
void payload_free(const struct rcmi_node *node, void *memory);

#endif
