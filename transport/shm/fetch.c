/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A reader copies bytes out of the writer's own memory, wherever they lie there: one copy by the
 * kernel (process_vm_readv) instead of two through slots. It may where it could debug the writer
 * (ptrace(2): the same user, and no system that forbids it).
 *
 * A process number is good in one namespace only, and for one life. So each call reads the head of
 * the peer's segment as well, which it knows (magic, job, rank): another process has none there.
 */
#include "shm.h"

#include <sys/uio.h>
#include <unistd.h>

static struct shm_channel *shm_of(struct rcmi_channel *channel) {
    return (struct shm_channel *)channel;
}

struct shm_self shm_self_of(const struct shm_domain *domain) {
    return (struct shm_self){.head = (uint64_t)(uintptr_t)domain->head, .pid = (int32_t)getpid()};
}

/* What stands at the beginning of a head. */
struct identity {
    uint64_t magic, job;
    uint32_t rank;
};
_Static_assert(offsetof(struct shm_head, rank) == offsetof(struct identity, rank), "one layout");

static bool is_peer(const struct shm_link *link, const struct identity *seen) {
    return seen->magic == SHM_MAGIC && seen->rank == (uint32_t)link->peer &&
           seen->job == link->domain->node->config.job;
}

/* For good: this is not between the two of us. */
static rcm_status fetch_never(struct shm_link *link) {
    atomic_store_explicit(&link->unfetchable, true, memory_order_relaxed);
    return RCM_ERR_UNSUPPORTED;
}

rcm_status shm_fetch(struct rcmi_channel *channel, void *place, uint64_t from, size_t len) {
    struct shm_channel *shm = shm_of(channel);
    struct shm_link *link = shm->link;
    const struct rcmi_ring_reader *reader = &shm->ring.reader;
    const _Atomic uint64_t *closed = rcmi_ring_closed(reader->base, &reader->shape);
    struct identity seen = {.magic = 0};
    if (!closed || atomic_load_explicit(&link->unfetchable, memory_order_relaxed))
        return RCM_ERR_UNSUPPORTED;
    const struct iovec to[2] = {{&seen, sizeof seen}, {place, len}};
    const struct iovec at[2] = {{(void *)(uintptr_t)link->self.head, sizeof seen},
                                {(void *)(uintptr_t)from, len}};
    const ssize_t got = process_vm_readv(link->self.pid, to, 2, at, 2, 0);
    if (got < (ssize_t)sizeof seen || !is_peer(link, &seen))
        return fetch_never(link);
    if (atomic_load(closed) != 0) /* partner: the store in shm_writer_close */
        return RCM_AGAIN;
    if ((size_t)got != sizeof seen + len) {
        (void)rcmi_fail(RCM_ERR_PROTOCOL, 0, "%zu bytes that it announced are not in its memory",
                        len);
        return shm_blame(channel->writer);
    }
    return RCM_OK;
}
