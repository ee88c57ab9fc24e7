/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reading the memory of the peer's process by process_vm_readv. A process may do that if it could
 * debug the other (ptrace(2): the same user, and no policy that forbids it).
 *
 * A pid is valid in one namespace and for one process. Therefore both processes must be in one
 * namespace. The head of the peer's segment is read too, where the peer has mapped it, unless that
 * was done within SEEN_NS before the call ended: a pid is reused only after all others have been
 * used. (A program that is replaced by execve while it sends is detected with that delay.)
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

/* The first fields of a head. */
struct identity {
    uint64_t magic, job;
    uint32_t rank;
};
_Static_assert(offsetof(struct shm_head, rank) == offsetof(struct identity, rank), "one layout");

static bool is_peer(const struct shm_link *link, const struct identity *seen) {
    return seen->magic == SHM_MAGIC && seen->rank == (uint32_t)link->peer &&
           seen->job == rcmi_node_job(link->domain->node);
}

/* A check is valid for this long, for messages so small that its cost matters. */
#define SEEN_NS    INT64_C(300000)
#define SEEN_BYTES ((size_t)128 << 10)

/* Must the identity of the peer's process be read again? Reading it costs as much as a few KiB of a
 * message. */
static bool must_look(const struct shm_link *link) {
    return rcmi_now_ns() - atomic_load_explicit(&link->seen_ns, memory_order_relaxed) >= SEEN_NS;
}

/* Disables get for this pair permanently. */
static rcm_status get_never(struct shm_link *link) {
    atomic_store_explicit(&link->ungettable, true, memory_order_relaxed);
    return RCM_ERR_UNSUPPORTED;
}

/* Reads len bytes together with the identity of the peer's process. */
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
    /* Some memory cannot be read by others (for example of devices), or ours cannot be written. */
    return (size_t)got == sizeof seen + len ? RCM_OK : RCM_ERR_UNSUPPORTED;
}

bool shm_look(struct shm_link *link) {
    struct identity seen = {.magic = 0};
    if (atomic_load_explicit(&link->ungettable, memory_order_relaxed))
        return false;
    return !must_look(link) || read_and_look(link, &seen, link->self.head, sizeof seen) == RCM_OK;
}

/* Reads without checking the identity. False: it failed, or took so long that the result is
 * uncertain. */
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
    /* Orders the kernel's reads before this load. Partner: the store in shm_writer_close. A failed
     * read may be due to memory that was freed after the close. */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load(open) == shm->number ? status : RCM_AGAIN;
}
