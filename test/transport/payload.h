/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the cases of the conformance suite write to slots and read there, and memory that they send
 * from, of the kind that the row has: host memory by the CPU, memory of a device by operations of
 * the device of the node, which have ended when these return. Each fails the test when it
 * does not end in time.
 */
#ifndef TEST_TRANSPORT_PAYLOAD_H
#define TEST_TRANSPORT_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "transport.h"

/* Writes the pattern of that seed (fill), or compares with it. */
void payload_fill(const struct rcmi_node *node, void *at, size_t len, uint64_t seed);
bool payload_filled(const struct rcmi_node *node, const void *at, size_t len, uint64_t seed);
/* Each of the two is of the row's kind, or host memory. */
void payload_copy(const struct rcmi_node *node, void *to, const void *from, size_t len);

/* Memory for messages that are sent without a copy. */
void *payload_alloc(const struct rcmi_node *node, size_t bytes);
void payload_free(const struct rcmi_node *node, void *memory);

#endif
