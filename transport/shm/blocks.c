/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory blocks for the user in a node's segment, and the windows that map the peers' blocks.
 * Blocks are aligned to 2 MiB in the segment and in every process, so that huge pages fit. If the
 * kernel uses none by itself, MADV_COLLAPSE requests them afterwards.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "shm.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

#define HUGE_BYTES  ((size_t)2 << 20)
#define WINDOWS_MAX 32 /* per peer; beyond that unused windows are closed */

static size_t round_up(size_t bytes, size_t to) {
    return (bytes + to - 1) / to * to;
}

/* Maps a block at a 2 MiB boundary. */
static rcm_status block_map(int fd, size_t at, size_t len, int flags, uint8_t **ret_base) {
    uint8_t *area =
        mmap(NULL, len + HUGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (area == MAP_FAILED)
        return rcmi_fail(RCM_ERR_NOMEM, errno, "no room for %zu bytes of shared memory", len);
    uint8_t *base = area + round_up((uintptr_t)area, HUGE_BYTES) - (uintptr_t)area;
    if (base > area)
        munmap(area, (size_t)(base - area));
    uint8_t *rest = base + len, *end = area + len + HUGE_BYTES;
    if (end > rest)
        munmap(rest, (size_t)(end - rest));
    if (mmap(base, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | flags, fd, (off_t)at) ==
        MAP_FAILED) {
        int error = errno;
        munmap(base, len);
        return rcmi_fail(rcmi_status_of_errno(error), error,
                         "cannot map %zu bytes of shared memory", len);
    }
    *ret_base = base;
    return RCM_OK;
}

/* ---- Own blocks ------------------------------------------------------------------------------ */

rcm_status shm_memory_take(void *arg, size_t bytes, void **ret_memory) {
    struct shm_domain *domain = arg;
    struct shm_block *block = calloc(1, sizeof *block);
    if (!block)
        return rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "no memory for a block of memory");
    block->len = round_up(bytes, bytes < HUGE_BYTES ? domain->page : HUGE_BYTES);
    rcm_status status = shm_segment_grow(domain, HUGE_BYTES, block->len, &block->at);
    if (status == RCM_OK) {
        status = block_map(domain->memfd, block->at, block->len, MAP_POPULATE, &block->base);
        if (status != RCM_OK)
            shm_segment_punch(domain, block->at, block->len);
    }
    if (status != RCM_OK) {
        free(block);
        return status;
    }
    (void)madvise(block->base, block->len, MADV_HUGEPAGE); /* hints */
    if (block->len >= HUGE_BYTES)
        (void)madvise(block->base, block->len, MADV_COLLAPSE);
    pthread_mutex_lock(&domain->lock);
    block->next = domain->blocks;
    domain->blocks = block;
    pthread_mutex_unlock(&domain->lock);
    *ret_memory = block->base;
    return RCM_OK;
}

void shm_memory_give(void *arg, void *base) {
    struct shm_domain *domain = arg;
    pthread_mutex_lock(&domain->lock);
    struct shm_block **at = &domain->blocks, *block;
    while (*at && (*at)->base != base)
        at = &(*at)->next;
    block = *at;
    if (block)
        *at = block->next;
    pthread_mutex_unlock(&domain->lock);
    if (!block)
        return;
    munmap(block->base, block->len);
    shm_segment_punch(domain, block->at, block->len);
    free(block);
}

rcm_status shm_memory_register(void *arg, const struct rcmi_mem *mem, void **ret_own) {
    struct shm_domain *domain = arg;
    pthread_mutex_lock(&domain->lock);
    struct shm_block *block = domain->blocks;
    while (block && block->base != mem->bytes)
        block = block->next;
    pthread_mutex_unlock(&domain->lock);
    *ret_own = block;
    return RCM_OK;
}

bool shm_memory_locate(const struct rcmi_channel *channel, const struct rcmi_mem *mem,
                       struct shm_location *ret_location) {
    size_t at;
    const struct shm_block *block = rcmi_registration_of(mem, channel->transport, &at);
    if (block)
        *ret_location =
            (struct shm_location){.block_at = block->at, .block_len = block->len, .offset = at};
    return block != NULL;
}

/* ---- Windows on the peers' blocks ------------------------------------------------------------ */

static void window_close(struct shm_window *window) {
    munmap(window->base, window->len);
    free(window);
}

/* Closes windows without users while there are too many, least recently used ones first. */
static void windows_trim(struct shm_link *link) {
    int n = 0;
    for (struct shm_window **at = &link->windows; *at;) {
        struct shm_window *window = *at;
        if (++n > WINDOWS_MAX && window->users == 0) {
            *at = window->next;
            window_close(window);
        } else {
            at = &window->next;
        }
    }
}

static rcm_status window_refuse(const struct shm_location *location, size_t len) {
    return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                     "the location of a message of %zu bytes is not valid: byte %llu of a block of "
                     "%llu bytes of shared memory at %llu",
                     len, (unsigned long long)location->offset,
                     (unsigned long long)location->block_len,
                     (unsigned long long)location->block_at);
}

/* Maps the block with all its pages, which exist already: page faults would cost more. */
static rcm_status window_open(struct shm_link *link, const struct shm_location *location,
                              struct shm_window **ret_window) {
    size_t size = 0;
    rcm_status status = rcmi_memfd_size(link->memfd, &size);
    if (status != RCM_OK)
        return status;
    if (location->block_at % HUGE_BYTES != 0 || location->block_len % link->domain->page != 0 ||
        location->block_len == 0 || location->block_len > size ||
        location->block_at > size - location->block_len)
        return window_refuse(location, 0);
    struct shm_window *window = calloc(1, sizeof *window);
    if (!window)
        return rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "no memory for a window");
    window->at = (size_t)location->block_at;
    window->len = (size_t)location->block_len;
    status = block_map(link->memfd, window->at, window->len, MAP_POPULATE, &window->base);
    if (status != RCM_OK) {
        free(window);
        return status;
    }
    *ret_window = window;
    return RCM_OK;
}

static bool window_is(const struct shm_window *window, const struct shm_location *location) {
    return window && window->at == location->block_at && window->len == location->block_len;
}

/* Finds or opens the window, moves it to the front, and adds a user. Under the lock. */
static rcm_status window_get(struct shm_link *link, const struct shm_location *location,
                             struct shm_window **ret_window) {
    struct shm_window **at = &link->windows, *window;
    rcm_status status = RCM_OK;
    while (*at && !window_is(*at, location))
        at = &(*at)->next;
    window = *at;
    if (window)
        *at = window->next;
    else
        status = window_open(link, location, &window);
    if (status != RCM_OK)
        return status;
    window->next = link->windows;
    link->windows = window;
    window->users++;
    windows_trim(link);
    *ret_window = window;
    return RCM_OK;
}

void shm_window_drop(struct shm_link *link, struct shm_window **window) {
    if (!*window)
        return;
    pthread_mutex_lock(&link->lock);
    (*window)->users--;
    pthread_mutex_unlock(&link->lock);
    *window = NULL;
}

rcm_status shm_window_find(struct shm_link *link, const struct shm_location *location, size_t len,
                           struct shm_window **window, void **ret_bytes) {
    if (len > location->block_len || location->offset > location->block_len - len)
        return window_refuse(location, len);
    if (!window_is(*window, location)) {
        shm_window_drop(link, window);
        pthread_mutex_lock(&link->lock);
        rcm_status status = window_get(link, location, window);
        pthread_mutex_unlock(&link->lock);
        if (status != RCM_OK)
            return status;
    }
    *ret_bytes = (*window)->base + location->offset;
    return RCM_OK;
}

void shm_windows_fini(struct shm_link *link) {
    while (link->windows) {
        struct shm_window *window = link->windows;
        link->windows = window->next;
        window_close(window);
    }
}
