/* SPDX-License-Identifier: BSD-3-Clause */
/* See payload.h. */
#include "payload.h"
#include <stdlib.h>
#include <string.h>
#include "harness.h"
#include "operation.h"
#include "backend.h"

static bool of_device(void) {
    return transport_row()->kind == RCMI_MEM_DEVICE;
}

static void wake_none(void *arg) {
    (void)arg; /* called again and again */
}

static void operation_run(struct rcmi_device *device, void *to, const void *from, size_t len) {
    struct rcmi_operations all = {.device = &device, .wake = wake_none};
    struct rcmi_operation copy = {.results = {to},
                                  .srcs = {from},
                                  .nresults = 1,
                                  .nsrcs = 1,
                                  .bytes = len,
                                  .dtype = RCM_UINT8,
                                  .kind = RCMI_MEM_DEVICE,
                                  .all = &all};
    rcm_status status = rcmi_operation_begin(&copy);
    CHECK_EQ(status, RCM_OK);
    while ((status = rcmi_operation_look(&copy)) == RCM_AGAIN)
        nap();
    rcmi_operations_settle(&all);
    CHECK_EQ(status, RCM_OK);
}

void payload_copy(const struct rcmi_node *node, void *to, const void *from, size_t len) {
    CHECK((to && from) || len == 0);
    if (len > 0 && of_device())
        operation_run(rcmi_node_device(node), to, from, len);
    else if (len > 0)
        memcpy(to, from, len);
}

/* ---- Patterns -------------------------------------------------------------------------------- */

void payload_fill(const struct rcmi_node *node, void *at, size_t len, uint64_t seed) {
    if (!of_device()) {
        fill(at, len, seed);
        return;
    }
    uint8_t *bytes = malloc(len + 1);
    CHECK(at && bytes); /* no bytes have an address, too */
    fill(bytes, len, seed);
    payload_copy(node, at, bytes, len);
    free(bytes);
}

bool payload_filled(const struct rcmi_node *node, const void *at, size_t len, uint64_t seed) {
    if (!of_device())
        return filled(at, len, seed);
    uint8_t *bytes = malloc(len + 1);
    CHECK(at && bytes);
    payload_copy(node, bytes, at, len);
    const bool right = filled(bytes, len, seed);
    free(bytes);
    return right;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

void *payload_alloc(const struct rcmi_node *node, size_t bytes) {
    void *memory = NULL;
    if (of_device())
        CHECK_EQ(rcmi_mem_kind_row(RCMI_MEM_DEVICE)->alloc(rcmi_node_device(node), bytes, &memory),
                 RCM_OK);
    else
        memory = malloc(bytes);
    CHECK(memory != NULL);
    return memory;
}

void payload_free(const struct rcmi_node *node, void *memory) {
    if (of_device())
        rcmi_mem_kind_row(RCMI_MEM_DEVICE)->free(rcmi_node_device(node), memory);
    else
        free(memory);
}
