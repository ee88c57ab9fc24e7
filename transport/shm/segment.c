/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The segment of a node. Ranges for channels are handed out of what is free (../ranges.h); the
 * segment only grows. Space is reserved when it grows, so that a full machine is an error there and
 * not a signal later.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>
#include "shm.h"

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
    if (!domain->page) /* else init never ran, and 0 is no descriptor of ours */
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

/* Where something else was taken meanwhile it stays a hole. */
static void end_give(struct shm_domain *domain, size_t at, size_t len) {
    pthread_mutex_lock(&domain->lock);
    if (domain->size == at + len)
        domain->size = at;
    pthread_mutex_unlock(&domain->lock);
}

/* Not under the lock: to reserve much memory takes long. */
rcm_status shm_segment_grow(struct shm_domain *domain, size_t align, size_t len, size_t *ret_at) {
    const size_t at = end_take(domain, align, len);
    const rcm_status status = rcmi_memfd_grow(domain->memfd, at, at + len);
    if (status != RCM_OK)
        end_give(domain, at, len);
    *ret_at = at;
    return status;
}

rcm_status shm_range_take(struct shm_domain *domain, size_t len, size_t *ret_at) {
    if (rcmi_ranges_take(&domain->free, len, ret_at))
        return RCM_OK;
    const rcm_status status = shm_segment_grow(domain, domain->page, len, ret_at);
    return status == RCM_OK ? RCM_OK : rcmi_fail_context("shared memory for a channel");
}

void shm_range_give(struct shm_domain *domain, size_t at, size_t len) {
    rcmi_ranges_give(&domain->free, at, len);
}

rcm_status shm_range_map(int memfd, size_t at, size_t len, void **ret_memory) {
    void *memory =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, memfd, (off_t)at);
    if (memory == MAP_FAILED)
        return rcmi_fail(rcmi_status_of_errno(errno), errno,
                         "cannot map %zu bytes of shared memory", len);
    *ret_memory = memory;
    return RCM_OK;
}
