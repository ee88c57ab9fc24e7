/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A get. The reader copies a vector from the writer's memory (process_vm_readv, peer_memory.c). The
 * writer, which waits, also copies pieces of it, into the reader's memory (process_vm_writev): with
 * a CPU for each side, this takes half the time. This file has the reader's side; the writer's is
 * in get_help.c. They share words in the queue (struct rcmi_fifo_request); n is the number of the
 * get:
 *
 *      reader                        word                        writer
 *      close the previous get        claims = n, all, 0
 *      source and destination        from, len, dest, permit
 *      open this get                 claims = n, 0, 0
 *      announce it                   number = n           --->   start to claim pieces
 *      claim a piece at the front    claims = n, f, b     <-->   claim a piece at the back
 *      copy it                                                   write to permit, copy it
 *      f + b = all, and b done?      helped = n, b        <---   b pieces are done; or it failed
 *
 * Neither side waits longer than for one piece that the other has started. The number is stored
 * last, so a writer that sees it sees the rest. Claims of another get are rejected, whatever else
 * was seen.
 *
 * The permit protects the reader's user. After a reader has given up, nothing may be written to its
 * user's memory, even by a process that was stopped and continues much later. Therefore each of the
 * writer's calls first writes one byte to a page of the reader, the permit. Once that page is
 * read-only, the kernel refuses the whole call. A call in progress ends within one piece, even if
 * its process is being stopped, because processes stop between calls.
 *
 * If the system denies the reader access to the writer's memory, a message to be got travels
 * through its own slot, piece by piece. It was already published, and a message of a collective has
 * no reply channel to request another one:
 *
 *      request piece k of message m  wanted = m, k        --->   copy it into the message's slot
 *      copy it from there            bounced = m, k       <---   the piece is there
 *
 * Not here: which messages are got (protocol.h).
 */
#include "process.h"
#include "shm.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* A piece is half of the vector, but bounded, so that neither other messages nor one side waits. */
#define PIECE_MIN   ((size_t)32 << 10)
#define PIECE_MAX   ((size_t)256 << 10)
#define PIECE_ROUND ((size_t)4096) /* pieces are multiples of this, usually whole pages */
#define PIECE_ALONE ((size_t)1 << 20)
/* Maximum wait for a call in progress. A writer that got no CPU for longer could still write. */
#define REVOKE_NS INT64_C(1000000000)
#define REVOKE_US 50 /* between checks */

static struct shm_channel *shm_of(struct rcmi_channel *channel) {
    return (struct shm_channel *)channel;
}

bool shm_claims_right(uint64_t claims, uint64_t number, uint64_t pieces) {
    const uint64_t front = shm_claims_front(claims), back = shm_claims_back(claims);
    return claims == shm_claims(number, front, back) && front + back <= pieces;
}

size_t shm_piece(size_t len) {
    const size_t piece = (len / 2 + PIECE_ROUND - 1) / PIECE_ROUND * PIECE_ROUND;
    return piece < PIECE_MIN ? PIECE_MIN : piece > PIECE_MAX ? PIECE_MAX : piece;
}

uint64_t shm_pieces(size_t len, size_t piece) {
    return len / piece + (len % piece != 0);
}

struct shm_span shm_span(size_t len, size_t piece, uint64_t number) {
    const size_t at = (size_t)number * piece, left = len - at;
    return (struct shm_span){.at = at, .len = left < piece ? left : piece};
}

/* The writer's progress with this get, from the request: pieces done, or SHM_FAILED. */
static uint64_t helped_in(const struct rcmi_fifo_request *request, uint64_t number) {
    const uint64_t word = atomic_load_explicit(&request->helped, memory_order_acquire);
    return word >> SHM_PIECES_BITS == (number & (UINT64_MAX >> SHM_PIECES_BITS))
               ? word & SHM_PIECES_MAX
               : 0;
}

/* ---- Copying by both sides ------------------------------------------------------------------- */

static struct rcmi_fifo_request *reader_request(struct shm_channel *shm) {
    return shm->memory ? rcmi_fifo_request(shm->memory, &shm->fifo.reader.shape) : NULL;
}

/* The permit is a page between two inaccessible ones. So it stays a separate mapping, and the
 * kernel can protect it later without allocating memory for a new one. */
static bool permit_give(struct shm_getting *f, size_t page) {
    if (f->permit)
        return true;
    uint8_t *guard = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (guard == MAP_FAILED)
        return false;
    if (mprotect(guard + page, page, PROT_READ | PROT_WRITE) != 0) {
        munmap(guard, 3 * page);
        return false;
    }
    f->permit = guard + page;
    return true;
}

static void getting_begin(struct shm_channel *shm, struct rcmi_fifo_request *request, void *dest,
                          uint64_t remote, size_t len, bool helped) {
    struct shm_getting *f = &shm->getting;
    f->active = true;
    f->len = len;
    f->claimed = f->done = 0;
    if (!f->revoked) { /* else keep what is known of the old get; no number is published any more */
        f->number++;
        f->back = 0;
    }
    f->alone = !helped || f->revoked || len <= PIECE_MIN ||
               shm_pieces(len, PIECE_MAX) >= SHM_PIECES_MAX ||
               atomic_load_explicit(&shm->link->unhelpable, memory_order_relaxed) ||
               atomic_load_explicit(&shm->link->ungettable, memory_order_relaxed) ||
               !permit_give(f, shm->link->domain->page);
    f->piece = f->alone ? PIECE_ALONE : shm_piece(len);
    f->pieces = shm_pieces(len, f->piece);
    if (f->alone)
        return;
    /* No piece can be claimed while the rest changes: a writer that saw some of it sees this too.
     */
    atomic_store_explicit(&request->claims, shm_claims(f->number, SHM_PIECES_MAX, 0),
                          memory_order_release);
    atomic_store_explicit(&request->dest, (uint64_t)(uintptr_t)dest, memory_order_release);
    atomic_store_explicit(&request->from, remote, memory_order_release);
    atomic_store_explicit(&request->len, len, memory_order_release);
    atomic_store_explicit(&request->permit, (uint64_t)(uintptr_t)f->permit, memory_order_release);
    atomic_store_explicit(&request->claims, shm_claims(f->number, 0, 0), memory_order_release);
    atomic_store_explicit(&request->number, f->number, memory_order_release);
    rcmi_doorbell_ring(shm->wake.doorbell, shm->wake.eventfd);
}

/* Has the writer, as last seen, started a piece and not finished it? */
static bool writer_owes(const struct shm_getting *f, const struct rcmi_fifo_request *request) {
    const uint64_t there = helped_in(request, f->number);
    return there != SHM_FAILED && there < f->back;
}

/* Takes back all unclaimed pieces. False: the word does not belong to this get, because the writer
 * has closed its end and reused the memory, or has corrupted it. */
static bool claims_close(struct shm_getting *f, struct rcmi_fifo_request *request) {
    uint64_t claims = atomic_load_explicit(&request->claims, memory_order_acquire);
    do {
        if (!shm_claims_right(claims, f->number, f->pieces)) {
            f->back++; /* assume an unfinished piece */
            return false;
        }
    } while (!atomic_compare_exchange_weak(&request->claims, &claims,
                                           shm_claims(f->number, SHM_PIECES_MAX, 0)));
    f->back = shm_claims_back(claims);
    return true;
}

/* From now on the writer starts no more pieces. If it still has an unfinished piece afterwards, the
 * permit is never freed, so that nothing else is ever mapped there. */
static void getting_revoke(struct shm_channel *shm, struct rcmi_fifo_request *request) {
    struct shm_getting *f = &shm->getting;
    const bool shared = f->active && !f->alone;
    f->active = false;
    if (!shared)
        return;
    const bool known = claims_close(f, request);
    if (!writer_owes(f, request))
        return;
    (void)mprotect(f->permit, shm->link->domain->page, PROT_READ);
    f->revoked = true;
    const int64_t end = rcmi_now_ns() + REVOKE_NS;
    while (known && writer_owes(f, request) && !rcmi_process_rests(shm->link->self.pid) &&
           rcmi_now_ns() < end)
        usleep(REVOKE_US);
}

void shm_get_fini(struct shm_channel *shm) {
    if (!shm->getting.permit)
        return;
    struct rcmi_fifo_request *request = reader_request(shm);
    const size_t page = shm->link->domain->page;
    getting_revoke(shm, request);
    if (!writer_owes(&shm->getting, request))
        munmap((uint8_t *)shm->getting.permit - page, 3 * page);
}

static rcm_status claims_broken(struct shm_channel *shm, uint64_t claims) {
    shm->getting.broken = true;
    (void)rcmi_fail(RCM_ERR_PROTOCOL, 0,
                    "shared memory contains claims of %llu and %llu of %llu pieces of a vector",
                    (unsigned long long)shm_claims_front(claims),
                    (unsigned long long)shm_claims_back(claims),
                    (unsigned long long)shm->getting.pieces);
    return shm_peer_fault(shm->base.writer);
}

/* Claims the next piece. RCM_AGAIN: none is left now. */
static rcm_status getting_take(struct shm_channel *shm, struct rcmi_fifo_request *request) {
    struct shm_getting *f = &shm->getting;
    if (f->claimed > f->done)
        return RCM_OK; /* claimed before, but not copied yet */
    if (f->alone) {
        f->claimed += f->claimed < f->pieces;
        return f->claimed > f->done ? RCM_OK : RCM_AGAIN;
    }
    uint64_t claims = atomic_load_explicit(&request->claims, memory_order_acquire);
    do { /* repeated if the other side claimed a piece meanwhile */
        if (!shm_claims_right(claims, f->number, f->pieces) ||
            shm_claims_front(claims) != f->claimed || shm_claims_back(claims) < f->back)
            return claims_broken(shm, claims);
        f->back = shm_claims_back(claims);
        if (f->claimed + f->back == f->pieces)
            return RCM_AGAIN;
    } while (!atomic_compare_exchange_weak(&request->claims, &claims,
                                           shm_claims(f->number, f->claimed + 1, f->back)));
    f->claimed++;
    return RCM_OK;
}

/* Are all pieces copied? */
static bool getting_over(struct shm_channel *shm, const struct rcmi_fifo_request *request) {
    struct shm_getting *f = &shm->getting;
    if (f->alone)
        return f->done == f->pieces;
    if (f->done + f->back < f->pieces)
        return false;
    const uint64_t there = helped_in(request, f->number);
    if (there == SHM_FAILED) { /* this side copies its pieces, too */
        atomic_store_explicit(&shm->link->unhelpable, true, memory_order_relaxed);
        f->alone = true;
    }
    return !f->alone && there == f->back;
}

/* ---- Through the slot ------------------------------------------------------------------------ */

/* Is this the payload of the peeked message? Then the writer keeps the message and its slot. */
static bool is_of_message(const struct shm_channel *shm, uint64_t remote, size_t len) {
    const struct rcmi_fifo_reader *reader = &shm->fifo.reader;
    uint64_t address;
    memcpy(&address, reader->header->bytes, sizeof address);
    return reader->len == (len | RCMI_FIFO_GET) && address == remote;
}

/* Starts over through the slot; nothing is written for the old get any more. */
static rcm_status bounce_begin(struct shm_channel *shm, struct rcmi_fifo_request *request,
                               size_t len) {
    struct shm_getting *f = &shm->getting;
    getting_revoke(shm, request);
    f->active = f->bounces = true;
    f->alone = true;
    f->done = 0;
    f->piece = shm->base.slot_bytes;
    f->pieces = shm_pieces(len, f->piece);
    return RCM_AGAIN;
}

/* Requests the next piece, or copies it if it has arrived. */
static rcm_status bounce_go_on(struct shm_channel *shm, struct rcmi_fifo_request *request,
                               void *dest, size_t len, bool *moved) {
    struct shm_getting *f = &shm->getting;
    const struct rcmi_fifo_reader *reader = &shm->fifo.reader;
    const uint64_t word = (reader->consumed + 1) << SHM_PIECES_BITS | (f->done + 1);
    if (atomic_load_explicit(&request->wanted, memory_order_relaxed) != word) {
        atomic_store_explicit(&request->wanted, word, memory_order_release);
        rcmi_doorbell_ring(shm->wake.doorbell, shm->wake.eventfd);
        return RCM_AGAIN;
    }
    if (atomic_load_explicit(&request->bounced, memory_order_acquire) != word)
        return RCM_AGAIN;
    const struct shm_span piece = shm_span(len, f->piece, f->done);
    rcmi_copy((uint8_t *)dest + piece.at, reader->slot, piece.len);
    *moved = true;
    if (++f->done < f->pieces)
        return RCM_AGAIN;
    f->active = f->bounces = false;
    return RCM_OK;
}

/* ---- The whole get --------------------------------------------------------------------------- */

/* Reads the next piece by process_vm_readv. */
static rcm_status getting_read(struct rcmi_channel *channel, struct rcmi_fifo_request *request,
                               void *dest, uint64_t remote, size_t len) {
    struct shm_channel *shm = shm_of(channel);
    struct shm_getting *f = &shm->getting;
    rcm_status status = getting_take(shm, request);
    if (status != RCM_OK)
        return status;
    const struct shm_span piece = shm_span(len, f->piece, f->done);
    status = shm_read(channel, (uint8_t *)dest + piece.at, remote + piece.at, piece.len);
    f->done += status == RCM_OK;
    return status;
}

/* The caller passed another length, from the message's header, which the writer can change. */
static rcm_status getting_changed(struct shm_channel *shm, struct rcmi_fifo_request *request,
                                  size_t len) {
    getting_revoke(shm, request);
    shm->getting.broken = true;
    (void)rcmi_fail(RCM_ERR_PROTOCOL, 0,
                    "the length of a message changed from %zu to %zu bytes during a get",
                    shm->getting.len, len);
    return shm_peer_fault(shm->base.writer);
}

rcm_status shm_get(struct rcmi_channel *channel, const struct rcmi_mem *mem, uint64_t remote,
                   bool helped, bool *moved) {
    void *dest = mem->bytes;
    const size_t len = mem->len;
    struct shm_channel *shm = shm_of(channel);
    struct shm_getting *f = &shm->getting;
    struct rcmi_fifo_request *request = reader_request(shm);
    if (!request || !shm->link)
        return RCM_ERR_UNSUPPORTED;
    if (f->broken || (f->active && len != f->len))
        return getting_changed(shm, request, len);
    if (f->bounces)
        return bounce_go_on(shm, request, dest, len, moved);
    if (!f->active)
        getting_begin(shm, request, dest, remote, len, helped);
    const rcm_status status = getting_read(channel, request, dest, remote, len);
    *moved = *moved || status == RCM_OK;
    if (status == RCM_ERR_UNSUPPORTED && is_of_message(shm, remote, len))
        return bounce_begin(shm, request, len);
    if (status != RCM_OK && status != RCM_AGAIN) {
        getting_revoke(shm, request);
        return status;
    }
    const bool was_alone = f->alone;
    if (!getting_over(shm, request)) {
        *moved = *moved || f->alone != was_alone; /* pieces are left again */
        return RCM_AGAIN;
    }
    f->active = false;
    return RCM_OK;
}
