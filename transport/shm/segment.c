/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The segment of a node. Ranges for channels come from free ranges (channel/ranges.h), which are
 * holes in the file; the segment only grows. Space is reserved before it is written to, so that a
 * lack of memory is an error there instead of a signal.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "memory_check.h"
#include "shm.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

rcm_status shm_segment_init(struct shm_domain *domain) {
    void *base = NULL;
    domain->memfd = -1;
    domain->page = (size_t)sysconf(_SC_PAGESIZE);
    pthread_mutex_init(&domain->lock, NULL);
    size_t size = (SHM_HEAD_BYTES + domain->page - 1) / domain->page * domain->page;
    rcm_status status = rcmi_memfd_create(RCMI_STATUS_FILE, size, &domain->memfd);
    if (status == RCM_OK)
        status = rcmi_memfd_map(domain->memfd, SHM_HEAD_BYTES, &base);
    if (status != RCM_OK)
        return status;
    domain->size = size;
    domain->head = base;
    domain->head->magic = SHM_MAGIC;
    domain->head->rank = (uint32_t)rcmi_node_rank(domain->node);
    domain->head->job = rcmi_node_job(domain->node);
    rcmi_node_set_head(domain->node, &domain->head->doorbell, (uint8_t *)base + SHM_PAGE);
    return RCM_OK;
}

void shm_segment_fini(struct shm_domain *domain) {
    rcmi_ranges_clear(&domain->free);
    if (domain->head)
        munmap(domain->head, SHM_HEAD_BYTES);
    domain->head = NULL;
    if (!domain->page) /* init never ran, so memfd 0 is not ours */
        return;
    rcmi_fd_close(&domain->memfd);
    pthread_mutex_destroy(&domain->lock);
    domain->page = 0;
}

static size_t end_take(struct shm_domain *domain, size_t align, size_t len) {
    pthread_mutex_lock(&domain->lock);
    const size_t at = (domain->size + align - 1) / align * align;
    domain->size = at + len;
    pthread_mutex_unlock(&domain->lock);
    return at;
}

/* If another range was taken meanwhile, this one stays a hole. */
static void end_give(struct shm_domain *domain, size_t at, size_t len) {
    pthread_mutex_lock(&domain->lock);
    if (domain->size == at + len)
        domain->size = at;
    pthread_mutex_unlock(&domain->lock);
}

/* Reserves without the lock, because reserving much memory takes long. */
rcm_status shm_segment_grow(struct shm_domain *domain, size_t align, size_t len, size_t *ret_at) {
    const size_t at = end_take(domain, align, len);
    const rcm_status status = rcmi_memfd_grow(domain->memfd, at, at + len);
    if (status != RCM_OK)
        end_give(domain, at, len);
    *ret_at = at;
    return status;
}

/* ---- Queues ---------------------------------------------------------------------------------- */

static size_t round_up(size_t bytes, size_t page) {
    return (bytes + page - 1) / page * page;
}

/* Sizes of the parts at both ends of a queue's range that always have pages: counters, headers and
 * the first lines of the first slot; and what follows the slots. The slots between them get pages
 * with their first message, because most channels carry only messages that travel in headers. */
static size_t front_of(const struct rcmi_fifo_shape *shape, size_t page) {
    return round_up(shape->payloads + RCMI_FIFO_INLINE, page);
}

static size_t back_of(const struct rcmi_fifo_shape *shape, size_t page) {
    return (shape->payloads + shape->slots * shape->stride - 1) / page * page;
}

/* Grows the end first, which sets the file's length. */
static rcm_status range_reserve(const struct shm_domain *domain,
                                const struct rcmi_fifo_shape *shape, size_t at, size_t len) {
    const size_t front = front_of(shape, domain->page), back = back_of(shape, domain->page);
    rcm_status status = rcmi_memfd_grow(domain->memfd, at + back, at + len);
    if (status == RCM_OK)
        status = rcmi_memfd_grow(domain->memfd, at, at + front);
    return status == RCM_OK ? RCM_OK : rcmi_fail_context("shared memory for a channel");
}

rcm_status shm_range_take(struct shm_domain *domain, const struct rcmi_fifo_shape *shape,
                          size_t *ret_at, size_t *ret_len) {
    const size_t len = round_up(shape->total, domain->page);
    size_t at;
    if (!rcmi_ranges_take(&domain->free, len, &at))
        at = end_take(domain, domain->page, len);
    const rcm_status status = range_reserve(domain, shape, at, len);
    if (status != RCM_OK) {
        shm_range_give(domain, at, len);
        return status;
    }
    *ret_at = at;
    *ret_len = len;
    return RCM_OK;
}

/* Does nothing when the node closes: a peer may still read, and the kernel frees the memory with
 * its last mapping. Does nothing in a forked child: the parent owns the file. */
void shm_segment_punch(const struct shm_domain *domain, size_t at, size_t len) {
    if (rcmi_node_closes(domain->node) || domain->self.pid != (int32_t)getpid())
        return;
    while (fallocate(domain->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
                     (off_t)len) != 0 &&
           errno == EINTR) {
    }
}

void shm_range_give(struct shm_domain *domain, size_t at, size_t len) {
    shm_segment_punch(domain, at, len);
    rcmi_ranges_give(&domain->free, at, len);
}

rcm_status shm_range_map(int memfd, size_t at, size_t len, void **ret_memory) {
    void *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, (off_t)at);
    if (memory == MAP_FAILED)
        return rcmi_fail(rcmi_status_of_errno(errno), errno,
                         "cannot map %zu bytes of shared memory", len);
    *ret_memory = memory;
    return RCM_OK;
}

/* Reserves pages by address, without the descriptor: the program may have closed it, and its number
 * may belong to another file by now. Kernels before 5.14 need the file. */
static rcm_status pages_take(struct shm_channel *shm, size_t from, size_t to) {
    rcm_status status = rcmi_memory_check(to - from);
    if (status != RCM_OK)
        return status;
    while (madvise((uint8_t *)shm->memory + from, to - from, MADV_POPULATE_WRITE) != 0) {
        if (errno == EINVAL)
            return rcmi_memfd_grow(shm->domain->memfd, shm->at + from, shm->at + to);
        if (errno != EINTR && errno != EAGAIN)
            return rcmi_fail(RCM_ERR_RESOURCE, errno, "cannot reserve %zu bytes of shared memory",
                             to - from);
    }
    return RCM_OK;
}

/* Called by the thread that writes, so that the pages are on its NUMA node. Allocates them at once,
 * because page faults would cost more. */
rcm_status shm_slots_make(struct shm_channel *shm, uint32_t index) {
    const struct rcmi_fifo_writer *writer = &shm->fifo.writer;
    const size_t page = shm->domain->page;
    const size_t first = writer->shape.payloads + shm->nslots * writer->shape.stride;
    const size_t last = writer->shape.payloads + (index + 1) * writer->shape.stride;
    const size_t from = first / page * page, to = round_up(last, page);
    const rcm_status status = pages_take(shm, from, to);
    if (status != RCM_OK)
        return rcmi_fail_context("shared memory for the slots of a channel");
    shm->nslots = index + 1;
    return RCM_OK;
}
