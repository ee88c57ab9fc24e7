/* SPDX-License-Identifier: BSD-3-Clause */
/* The cuda_ipc transport: its function table, and domains. See cuda_ipc.h. */
#include <stdio.h>
#include <unistd.h>
#include "cuda.h"
#include "cuda_ipc.h"

/* A node loads no driver before device memory is used. Whether the backend works is tested then,
 * for each pair (proof.c). */
static bool ipc_probe(const struct rcmi_need *need, char *reason, size_t cap) {
    if (!need->starts && rcmi_cuda_load() != RCM_OK) {
        snprintf(reason, cap, "%s", rcm_last_error());
        return false;
    }
    snprintf(reason, cap, "next to shm, for GPU memory: each pair is tested when first used");
    return true;
}

static rcm_status ipc_domain_init(void *arg, struct rcmi_node *node) {
    struct ipc_domain *domain = arg;
    domain->node = node;
    domain->memfd = -1;
    domain->page = (size_t)sysconf(_SC_PAGESIZE);
    const rcm_status status = ipc_arena_make(domain);
    domain->inited = status == RCM_OK;
    return status;
}

static void ipc_domain_fini(void *arg) {
    struct ipc_domain *domain = arg;
    if (!domain->inited)
        return;
    const bool clean = ipc_peers_end(domain, rcmi_deadline_in(IPC_END_MS));
    ipc_arena_end(domain, !clean, rcmi_deadline_in(IPC_ARENA_MS));
    rcmi_ranges_clear(&domain->ranges);
    rcmi_fd_close(&domain->memfd);
    domain->inited = false;
}

/* Data stay where they are written: there is nothing to move, and doorbells wake sleepers. */
static bool ipc_progress(void *domain) {
    (void)domain;
    return false;
}

static void ipc_arm(void *domain) {
    (void)domain;
}

/* The host plane of each link is one whose peers ring the doorbell. */
static bool ipc_attend(void *domain, int *ret_fd) {
    (void)domain;
    *ret_fd = -1;
    return true;
}

/* Committed messages are in memory that ends with this process: they have arrived only once they
 * are released. */
static bool ipc_link_flushed(void *arg) {
    const struct ipc_link *link = arg;
    for (const struct ipc_reader *reader = link->readers; reader; reader = reader->next) {
        const struct ipc_channel *ipc = reader->channel;
        if (!rcmi_fifo_taken_by(&ipc->fifo.writer, reader->number,
                                atomic_load_explicit(&ipc->published, memory_order_relaxed)))
            return false;
    }
    return true;
}

const struct rcmi_transport rcmi_transport_cuda_ipc = {
    .name = "cuda_ipc",
    .description = "GPU memory shared between processes of one host: slots, or registered memory "
                   "read in place",
    .kind = RCMI_MEM_DEVICE,
    .bulk_scale = 1,
    .pinned_slots = true,
    .same_host = true,
    .multicast = true,
    .domain_size = sizeof(struct ipc_domain),
    .link_size = sizeof(struct ipc_link),
    .channel_size = sizeof(struct ipc_channel),
    .probe = ipc_probe,
    .domain_init = ipc_domain_init,
    .domain_fini = ipc_domain_fini,
    .progress = ipc_progress,
    .arm = ipc_arm,
    .attend = ipc_attend,
    .memory_take = rcmi_no_memory_take,
    .memory_give = rcmi_no_memory_give,
    .memory_register = ipc_memory_register,
    .memory_unregister = ipc_memory_unregister,
    .link_init = ipc_link_init,
    .link_offer = ipc_link_offer,
    .link_accept = ipc_link_accept,
    .link_attach = ipc_link_attach,
    .link_ready = ipc_link_ready,
    .link_flushed = ipc_link_flushed,
    .link_down = ipc_link_down,
    .link_fini = ipc_link_fini,
    .writer_init = ipc_writer_init,
    .writer_offer = ipc_writer_offer,
    .writer_attach = ipc_writer_attach,
    .reader_init = ipc_reader_init,
    .reader_accept = ipc_reader_accept,
    .writer_close = ipc_writer_close,
    .channel_fini = ipc_channel_fini,
    .reserve = ipc_reserve,
    .commit = ipc_commit,
    .send_zero_copy = ipc_send_zero_copy,
    .completed = ipc_completed,
    .taken = ipc_taken,
    .peek = ipc_peek,
    .release = ipc_release,
    .post_receive = rcmi_no_post_receive,
    .get = rcmi_no_get,
    .help = rcmi_no_help,
};
