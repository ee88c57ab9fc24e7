/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peer's process: reading its memory, wherever that lies there (process_vm_readv). A process
 * may where it could debug the other (ptrace(2): the same user, and no system that forbids it).
 *
 * A process number is good in one namespace only, and for one life. So both must be in one, and the
 * head of the peer's segment is read as well, where that has mapped it, unless that was done a
 * moment before the call ended: a number is used again only once all others have been. (A program
 * that is replaced by execve while it sends is found out a moment late.)
 */
#include "process.h"
#include "shm.h"

#include <sys/uio.h>
#include <unistd.h>

static struct shm_channel *shm_of(struct rcmi_channel *channel) {
    return (struct shm_channel *)channel;
}

struct shm_self shm_self_of(const struct shm_domain *domain) {
    struct rcmi_process self;
    rcmi_process_self(&self);
    return (struct shm_self){
        .head = (uint64_t)(uintptr_t)domain->head, .pid_ns = self.pid_ns, .pid = (int32_t)getpid()};
}

bool shm_self_reads(const struct shm_self *self, const struct shm_self *peer) {
    return self->pid_ns != 0 && self->pid_ns == peer->pid_ns;
}

/* What stands at the beginning of a head. */
struct identity {
    uint64_t magic, job;
    uint32_t rank;
};
_Static_assert(offsetof(struct shm_head, rank) == offsetof(struct identity, rank), "one layout");

static bool is_peer(const struct shm_link *link, const struct identity *seen) {
    return seen->magic == SHM_MAGIC && seen->rank == (uint32_t)link->peer &&
           seen->job == rcmi_node_job(link->domain->node);
}

/* So long a look holds, for messages so small that it matters. */
#define SEEN_NS    INT64_C(300000)
#define SEEN_BYTES ((size_t)128 << 10)

/* Was the identity of the peer's process read long ago? Reading it costs as much as some KiB of a
 * message. */
static bool must_look(const struct shm_link *link) {
    return rcmi_now_ns() - atomic_load_explicit(&link->seen_ns, memory_order_relaxed) >= SEEN_NS;
}

/* For good: this pair has no get. */
static rcm_status get_never(struct shm_link *link) {
    atomic_store_explicit(&link->ungettable, true, memory_order_relaxed);
    return RCM_ERR_UNSUPPORTED;
}

/* Reads len bytes, and the identity of the peer's process. */
static rcm_status read_and_look(struct shm_link *link, void *dest, uint64_t from, size_t len) {
    const int64_t now = rcmi_now_ns();
    struct identity seen = {.magic = 0};
    const struct iovec to[2] = {{&seen, sizeof seen}, {dest, len}};
    const struct iovec at[2] = {{(void *)(uintptr_t)link->self.head, sizeof seen},
                                {(void *)(uintptr_t)from, len}};
    const ssize_t got = process_vm_readv(link->self.pid, to, 2, at, 2, 0);
    if (got < (ssize_t)sizeof seen || !is_peer(link, &seen))
        return get_never(link);
    atomic_store_explicit(&link->seen_ns, now, memory_order_relaxed);
    /* Some memory cannot be read by others (of devices, say), or ours cannot be written. */
    return (size_t)got == sizeof seen + len ? RCM_OK : RCM_ERR_UNSUPPORTED;
}

bool shm_look(struct shm_link *link) {
    struct identity seen = {.magic = 0};
    if (atomic_load_explicit(&link->ungettable, memory_order_relaxed))
        return false;
    return !must_look(link) || read_and_look(link, &seen, link->self.head, sizeof seen) == RCM_OK;
}

/* The same without looking. False if that went wrong, or took so long that it is not known. */
static bool read_only(const struct shm_link *link, void *dest, uint64_t from, size_t len) {
    const struct iovec to = {dest, len}, at = {(void *)(uintptr_t)from, len};
    return process_vm_readv(link->self.pid, &to, 1, &at, 1, 0) == (ssize_t)len && !must_look(link);
}

rcm_status shm_read(struct rcmi_channel *channel, void *dest, uint64_t from, size_t len) {
    struct shm_channel *shm = shm_of(channel);
    struct shm_link *link = shm->link;
    const struct rcmi_fifo_reader *reader = &shm->fifo.reader;
    const _Atomic uint64_t *open = rcmi_fifo_open(reader->base, &reader->shape);
    if (!open || atomic_load_explicit(&link->ungettable, memory_order_relaxed))
        return RCM_ERR_UNSUPPORTED;
    if (atomic_load(open) != shm->number)
        return RCM_AGAIN;
    rcm_status status = RCM_OK;
    if (len > SEEN_BYTES || must_look(link) || !read_only(link, dest, from, len))
        status = read_and_look(link, dest, from, len);
    /* What was read, by the kernel, was read before this. Partner: the store in shm_writer_close.
     * What cannot be read any more has perhaps gone since that. */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load(open) == shm->number ? status : RCM_AGAIN;
}
