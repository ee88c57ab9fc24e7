/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing and reading status pages: see page.h. */
#include "page.h"
#include "comm.h"
#include <stdio.h>
#include <unistd.h>

_Static_assert(sizeof(struct rcmi_status_page) <= RCMI_STATUS_PAGE_BYTES, "fits its page");

#define PUT(field, value) atomic_store_explicit(&page->field, value, memory_order_relaxed)
#define GET(field)        atomic_load_explicit(&page->field, memory_order_relaxed)

void rcmi_page_init(struct rcmi_status_page *page, const rcm_comm *comm) {
    PUT(pid, getpid());
    PUT(rank, comm->rank);
    PUT(size, comm->size);
    PUT(epoch, comm->epoch);
    PUT(waits_for, -1);
    PUT(magic, RCMI_PAGE_MAGIC);
}

void rcmi_page_begin(struct rcmi_status_page *page, const struct rcm_work *work) {
    PUT(sequence, work->sequence);
    PUT(bytes, work->bind.count * rcm_dtype_size(work->bind.dtype));
    PUT(collective, (int32_t)work->bind.plan->collective);
    PUT(dtype, (int32_t)work->bind.dtype);
    PUT(op, (int32_t)work->bind.op);
    PUT(root, work->bind.plan->root);
    PUT(running, 1);
}

void rcmi_page_waits(struct rcmi_status_page *page, int peer, uint32_t step) {
    PUT(waits_for, peer);
    PUT(step, step);
}

void rcmi_page_end(struct rcmi_status_page *page) {
    PUT(running, 0);
}

void rcmi_page_describe(const rcm_comm *comm, int rank, char *text, size_t cap) {
    const struct rcmi_status_page *page =
        rcmi_node_peer_status_page(comm->engine->node, comm->world_rank[rank]);
    text[0] = '\0';
    if (!page || GET(magic) != RCMI_PAGE_MAGIC || GET(epoch) != comm->epoch)
        return;
    const int32_t collective = GET(collective);
    const unsigned long long sequence = GET(sequence);
    const int32_t waits_for = GET(waits_for);
    if (sequence == 0 || collective < 1 || collective >= RCMI_COLLECTIVES)
        snprintf(text, cap, "no collective yet");
    else if (!GET(running))
        snprintf(text, cap, "no collective since it finished %s (operation %llu)",
                 rcmi_collective_name((enum rcm_collective)collective), sequence);
    else if (waits_for >= 0 && waits_for < comm->size)
        snprintf(text, cap, "%s (operation %llu), waiting for rank %d",
                 rcmi_collective_name((enum rcm_collective)collective), sequence, waits_for);
    else
        snprintf(text, cap, "%s (operation %llu)",
                 rcmi_collective_name((enum rcm_collective)collective), sequence);
}
