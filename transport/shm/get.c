/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A get. The reader copies a vector out of the writer's memory (process_vm_readv, peer.c). The
 * writer, which waits, copies pieces of it as well, into the reader's memory (process_vm_writev):
 * with a CPU for each that takes half as long. Here is the reader's side, the writer's is in
 * help.c. They share words in the queue (struct rcmi_fifo_request); n is the number of the get:
 *
 *      reader                        word                        writer
 *      nothing is to be taken        claims = n, all, 0
 *      what it gets, and whereto     from, len, dest, permit
 *      pieces may be taken           claims = n, 0, 0
 *      a get has begun               number = n           --->   pieces are looked for
 *      takes one from the front      claims = n, f, b     <-->   takes one from the back
 *      copies it                                                 writes to permit, copies it
 *      f + b are all, b are there?   helped = n, b        <---   b are there; or it failed
 *
 * Neither waits for more than a piece that the other has begun. The number goes last, so a writer
 * that sees it sees the rest; claims of another get are not taken, whatever else was seen.
 *
 * The permit protects the reader's user. A reader that gives up must be sure that nothing is
 * written to its user's memory afterwards, not even by a process that was stopped and goes on much
 * later. So each call of the writer's begins with one byte for a page of the reader's: once that
 * page is read-only the kernel refuses the whole call. A call that is under way ends within a
 * piece, also if its process is to stop, for processes stop between calls.
 *
 * Where the system refuses the reader the writer's memory, a message that is to be got comes
 * through its own slot, piece by piece. It was published already, and a message of a collective has
 * no way back by which another could be asked for:
 *
 *      wants piece k of message m    wanted = m, k        --->   copies it into the message's slot
 *      copies it from there          bounced = m, k       <---   it is there
 *
 * Not here: what is got, and whether that is a good idea (protocol.h).
 */
#include "process.h"
#include "shm.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

/* A half of the vector, but not so long that others wait, or one of the two for the other one. */
#define PIECE_MIN   ((size_t)32 << 10)
#define PIECE_MAX   ((size_t)256 << 10)
#define PIECE_ROUND ((size_t)4096) /* to so many bytes: whole pages, most often */
#define PIECE_ALONE ((size_t)1 << 20)
/* So long at most a call that has begun is waited for. One that got no processor for longer could
 * still write. */
#define REVOKE_NS INT64_C(1000000000)
#define REVOKE_US 50 /* from look to look */

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

/* What the request says of the writer's part in this get: pieces, or SHM_FAILED. */
static uint64_t helped_in(const struct rcmi_fifo_request *request, uint64_t number) {
    const uint64_t word = atomic_load_explicit(&request->helped, memory_order_acquire);
    return word >> SHM_PIECES_BITS == (number & (UINT64_MAX >> SHM_PIECES_BITS))
               ? word & SHM_PIECES_MAX
               : 0;
}

/* ---- Both copy ------------------------------------------------------------------------------- */

static struct rcmi_fifo_request *reader_request(struct shm_channel *shm) {
    return shm->memory ? rcmi_fifo_request(shm->memory, &shm->fifo.reader.shape) : NULL;
}

/* A page between two that may not be touched: it stays a mapping of its own, which the kernel can
 * protect later without memory for a new one. */
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
    if (!f->revoked) { /* else it stays known what is owed; no number is shown any more */
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
    /* Nothing can be taken while the rest changes: a writer that saw some of it sees this too. */
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

/* Is the writer in the middle of a piece, as far as this side knows? */
static bool writer_owes(const struct shm_getting *f, const struct rcmi_fifo_request *request) {
    const uint64_t there = helped_in(request, f->number);
    return there != SHM_FAILED && there < f->back;
}

/* Takes back all that is not taken. False: the word is not this get's, for the writer has closed
 * its end and given the memory to another, or has broken it. */
static bool claims_close(struct shm_getting *f, struct rcmi_fifo_request *request) {
    uint64_t claims = atomic_load_explicit(&request->claims, memory_order_acquire);
    do {
        if (!shm_claims_right(claims, f->number, f->pieces)) {
            f->back++; /* for all that is known */
            return false;
        }
    } while (!atomic_compare_exchange_weak(&request->claims, &claims,
                                           shm_claims(f->number, SHM_PIECES_MAX, 0)));
    f->back = shm_claims_back(claims);
    return true;
}

/* The writer begins no more pieces from now on. If it still owes one afterwards the permit stays as
 * it is, so that nothing else ever lies there. */
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
                    "shared memory says that %llu and %llu of %llu pieces of a vector are taken",
                    (unsigned long long)shm_claims_front(claims),
                    (unsigned long long)shm_claims_back(claims),
                    (unsigned long long)shm->getting.pieces);
    return shm_peer_fault(shm->base.writer);
}

/* Takes the next piece. RCM_AGAIN: none, now. */
static rcm_status getting_take(struct shm_channel *shm, struct rcmi_fifo_request *request) {
    struct shm_getting *f = &shm->getting;
    if (f->claimed > f->done)
        return RCM_OK; /* it could not be copied before */
    if (f->alone) {
        f->claimed += f->claimed < f->pieces;
        return f->claimed > f->done ? RCM_OK : RCM_AGAIN;
    }
    uint64_t claims = atomic_load_explicit(&request->claims, memory_order_acquire);
    do { /* again where the other side took a piece meanwhile */
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

/* Is all of it there? */
static bool getting_over(struct shm_channel *shm, const struct rcmi_fifo_request *request) {
    struct shm_getting *f = &shm->getting;
    if (f->alone)
        return f->done == f->pieces;
    if (f->done + f->back < f->pieces)
        return false;
    const uint64_t there = helped_in(request, f->number);
    if (there == SHM_FAILED) { /* its pieces are this side's now */
        atomic_store_explicit(&shm->link->unhelpable, true, memory_order_relaxed);
        f->alone = true;
    }
    return !f->alone && there == f->back;
}

/* ---- By the slot ----------------------------------------------------------------------------- */

/* Is this what the message says that the reader looks at? Then the writer holds it, and its
 * slot. */
static bool is_of_message(const struct shm_channel *shm, uint64_t remote, size_t len) {
    const struct rcmi_fifo_reader *reader = &shm->fifo.reader;
    uint64_t said;
    memcpy(&said, reader->header->bytes, sizeof said);
    return reader->len == (len | RCMI_FIFO_GET) && said == remote;
}

/* What was begun is not written any more: it comes anew. */
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

/* Says which piece is wanted, or takes it if it is there. */
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

/* ---- All of it ------------------------------------------------------------------------------- */

/* The next piece, by the kernel. */
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

/* The caller has the length from the message's header, which the writer can change. */
static rcm_status getting_changed(struct shm_channel *shm, struct rcmi_fifo_request *request,
                                  size_t len) {
    getting_revoke(shm, request);
    shm->getting.broken = true;
    (void)rcmi_fail(RCM_ERR_PROTOCOL, 0, "a message of %zu bytes that is being got has %zu now",
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
        *moved = *moved || f->alone != was_alone; /* there are pieces again */
        return RCM_AGAIN;
    }
    f->active = false;
    return RCM_OK;
}
