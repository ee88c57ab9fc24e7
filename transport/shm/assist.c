/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fetch in which both ends copy. While the reader copies a vector out of the writer's memory
 * (fetch.c) the writer mostly waits; so it copies too, into the reader's memory
 * (process_vm_writev), and with a core each that takes half as long. Both take pieces of the
 * vector, the reader from the front and the writer from the back, by one word in the ring (struct
 * rcmi_ring_desk): who has no time takes none, and nobody waits for more than a piece that the
 * other has begun.
 *
 * A reader that gives up must be sure that nothing is written to its user's memory afterwards, not
 * even by a process that was stopped and goes on much later. So each of those writes begins with a
 * byte for a page of the reader's, the permit: once that may only be read the kernel refuses the
 * whole call. A call that is under way by then ends within a piece; also if its process is to stop,
 * for that happens between calls.
 *
 * Not here: what is fetched, and whether that is a good idea (api/p2p_fetch.c, exec_fetch.c).
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
/* Claims: 16 bits of the fetch's number, pieces of the reader, pieces of the writer. */
#define PIECES_BITS 24
#define PIECES_MAX  ((UINT64_C(1) << PIECES_BITS) - 1)
#define FAILED      PIECES_MAX /* in assisted */

/* So long at most a call that has begun is waited for. One that got no processor for longer could
 * still write. */
#define REVOKE_NS INT64_C(1000000000)
#define REVOKE_US 50 /* from look to look */

static struct shm_channel *shm_of(struct rcmi_channel *channel) {
    return (struct shm_channel *)channel;
}

static uint64_t claims_of(uint64_t number, uint64_t front, uint64_t back) {
    return number << 2 * PIECES_BITS | front << PIECES_BITS | back;
}

static uint64_t front_of(uint64_t claims) {
    return claims >> PIECES_BITS & PIECES_MAX;
}

static uint64_t back_of(uint64_t claims) {
    return claims & PIECES_MAX;
}

/* Is it of this fetch, and can it be? */
static bool claims_right(uint64_t claims, uint64_t number, uint64_t pieces) {
    return claims == claims_of(number, front_of(claims), back_of(claims)) &&
           front_of(claims) + back_of(claims) <= pieces;
}

static size_t piece_of(size_t len) {
    const size_t piece = (len / 2 + PIECE_ROUND - 1) / PIECE_ROUND * PIECE_ROUND;
    return piece < PIECE_MIN ? PIECE_MIN : piece > PIECE_MAX ? PIECE_MAX : piece;
}

static uint64_t pieces_of(size_t len, size_t piece) {
    return len / piece + (len % piece != 0);
}

/* Where a piece is, and how long. */
struct span {
    size_t at, len;
};
static struct span span_of(size_t len, size_t piece, uint64_t number) {
    const size_t at = (size_t)number * piece, left = len - at;
    return (struct span){.at = at, .len = left < piece ? left : piece};
}

/* What assisted says of this fetch: pieces, or FAILED. */
static uint64_t assisted_in(const struct rcmi_ring_desk *desk, uint64_t number) {
    const uint64_t word = atomic_load_explicit(&desk->assisted, memory_order_acquire);
    return word >> PIECES_BITS == (number & (UINT64_MAX >> PIECES_BITS)) ? word & PIECES_MAX : 0;
}

/* ---- The reader ------------------------------------------------------------------------------ */

static struct rcmi_ring_desk *reader_desk(struct shm_channel *shm) {
    return shm->memory ? rcmi_ring_desk(shm->memory, &shm->ring.reader.shape) : NULL;
}

/* A page between two that nobody may touch: it stays a mapping of its own, which the kernel can
 * protect later without memory for a new one. */
static bool permit_give(struct shm_fetching *f, size_t page) {
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

static void fetching_begin(struct shm_channel *shm, struct rcmi_ring_desk *desk, void *place,
                           uint64_t from, size_t len, bool helped) {
    struct shm_fetching *f = &shm->fetching;
    f->active = true;
    f->claimed = f->done = 0;
    if (!f->revoked) { /* else it stays known what is owed; no number is shown any more */
        f->number++;
        f->back = 0;
    }
    f->alone = !helped || f->revoked || len <= PIECE_MIN ||
               pieces_of(len, PIECE_MAX) >= PIECES_MAX ||
               atomic_load_explicit(&shm->link->unassistable, memory_order_relaxed) ||
               !permit_give(f, shm->link->domain->page);
    f->piece = f->alone ? PIECE_ALONE : piece_of(len);
    f->pieces = pieces_of(len, f->piece);
    if (f->alone)
        return;
    /* Nothing can be taken while the rest changes: a writer that saw some of it sees this too. */
    atomic_store_explicit(&desk->claims, claims_of(f->number, PIECES_MAX, 0), memory_order_release);
    atomic_store_explicit(&desk->place, (uint64_t)(uintptr_t)place, memory_order_release);
    atomic_store_explicit(&desk->from, from, memory_order_release);
    atomic_store_explicit(&desk->len, len, memory_order_release);
    atomic_store_explicit(&desk->permit, (uint64_t)(uintptr_t)f->permit, memory_order_release);
    atomic_store_explicit(&desk->claims, claims_of(f->number, 0, 0), memory_order_release);
    atomic_store_explicit(&desk->number, f->number, memory_order_release);
    rcmi_bell_ring(shm->wake.bell, shm->wake.eventfd);
}

/* Is the writer in the middle of a piece, as far as this side knows? */
static bool writer_owes(const struct shm_fetching *f, const struct rcmi_ring_desk *desk) {
    const uint64_t there = assisted_in(desk, f->number);
    return there != FAILED && there < f->back;
}

/* Takes back all that is not taken. False: the word is not this fetch's, for the writer has closed
 * its end and given the memory to another, or has broken it. */
static bool claims_close(struct shm_fetching *f, struct rcmi_ring_desk *desk) {
    uint64_t claims = atomic_load_explicit(&desk->claims, memory_order_acquire);
    do {
        if (!claims_right(claims, f->number, f->pieces)) {
            f->back++; /* for all that is known */
            return false;
        }
    } while (
        !atomic_compare_exchange_weak(&desk->claims, &claims, claims_of(f->number, PIECES_MAX, 0)));
    f->back = back_of(claims);
    return true;
}

/* Nobody writes from now on. If somebody still owes a piece afterwards the permit stays as it is,
 * so that nothing else ever lies there. */
static void fetching_revoke(struct shm_channel *shm, struct rcmi_ring_desk *desk) {
    struct shm_fetching *f = &shm->fetching;
    const bool shared = f->active && !f->alone;
    f->active = false;
    if (!shared)
        return;
    const bool known = claims_close(f, desk);
    if (!writer_owes(f, desk))
        return;
    (void)mprotect(f->permit, shm->link->domain->page, PROT_READ);
    f->revoked = true;
    const int64_t end = rcmi_now_ns() + REVOKE_NS;
    while (known && writer_owes(f, desk) && !rcmi_process_rests(shm->link->self.pid) &&
           rcmi_now_ns() < end)
        usleep(REVOKE_US);
}

void shm_fetching_fini(struct shm_channel *shm) {
    if (!shm->fetching.permit)
        return;
    struct rcmi_ring_desk *desk = reader_desk(shm);
    const size_t page = shm->link->domain->page;
    fetching_revoke(shm, desk);
    if (!writer_owes(&shm->fetching, desk))
        munmap((uint8_t *)shm->fetching.permit - page, 3 * page);
}

static rcm_status claims_broken(const struct shm_channel *shm, uint64_t claims) {
    (void)rcmi_fail(RCM_ERR_PROTOCOL, 0,
                    "shared memory says that %llu and %llu of %llu pieces of a vector are taken",
                    (unsigned long long)front_of(claims), (unsigned long long)back_of(claims),
                    (unsigned long long)shm->fetching.pieces);
    return shm_blame(shm->base.writer);
}

/* Takes the next piece. RCM_AGAIN: none, now. */
static rcm_status fetching_take(struct shm_channel *shm, struct rcmi_ring_desk *desk) {
    struct shm_fetching *f = &shm->fetching;
    if (f->claimed > f->done)
        return RCM_OK; /* it could not be copied before */
    if (f->alone) {
        f->claimed += f->claimed < f->pieces;
        return f->claimed > f->done ? RCM_OK : RCM_AGAIN;
    }
    uint64_t claims = atomic_load_explicit(&desk->claims, memory_order_acquire);
    do { /* whoever comes second, the other one took a piece */
        if (!claims_right(claims, f->number, f->pieces) || front_of(claims) != f->claimed ||
            back_of(claims) < f->back)
            return claims_broken(shm, claims);
        f->back = back_of(claims);
        if (f->claimed + f->back == f->pieces)
            return RCM_AGAIN;
    } while (!atomic_compare_exchange_weak(&desk->claims, &claims,
                                           claims_of(f->number, f->claimed + 1, f->back)));
    f->claimed++;
    return RCM_OK;
}

/* Is all of it there? */
static bool fetching_over(struct shm_channel *shm, const struct rcmi_ring_desk *desk) {
    struct shm_fetching *f = &shm->fetching;
    if (f->alone)
        return f->done == f->pieces;
    if (f->done + f->back < f->pieces)
        return false;
    const uint64_t there = assisted_in(desk, f->number);
    if (there == FAILED) { /* its pieces are this side's now */
        atomic_store_explicit(&shm->link->unassistable, true, memory_order_relaxed);
        f->alone = true;
    }
    return !f->alone && there == f->back;
}

rcm_status shm_fetch(struct rcmi_channel *channel, void *place, uint64_t from, size_t len,
                     bool helped, bool *moved) {
    struct shm_channel *shm = shm_of(channel);
    struct shm_fetching *f = &shm->fetching;
    struct rcmi_ring_desk *desk = reader_desk(shm);
    if (!desk || !shm->link)
        return RCM_ERR_UNSUPPORTED;
    if (!f->active)
        fetching_begin(shm, desk, place, from, len, helped);
    rcm_status status = fetching_take(shm, desk);
    if (status == RCM_OK) {
        const struct span piece = span_of(len, f->piece, f->done);
        status = shm_read(channel, (uint8_t *)place + piece.at, from + piece.at, piece.len);
        f->done += status == RCM_OK;
        *moved = *moved || status == RCM_OK;
    }
    if (status != RCM_OK && status != RCM_AGAIN) {
        fetching_revoke(shm, desk);
        return status;
    }
    const bool was_alone = f->alone;
    if (!fetching_over(shm, desk)) {
        *moved = *moved || f->alone != was_alone; /* there are pieces again */
        return RCM_AGAIN;
    }
    f->active = false;
    return RCM_OK;
}

/* ---- The writer ------------------------------------------------------------------------------ */

/* One piece to the reader's memory, if it permits it. */
static bool push(const struct shm_link *link, const struct rcmi_ring_desk *desk, uint64_t piece) {
    const uint64_t place = atomic_load_explicit(&desk->place, memory_order_acquire);
    const uint64_t from = atomic_load_explicit(&desk->from, memory_order_acquire);
    const uint64_t permit = atomic_load_explicit(&desk->permit, memory_order_acquire);
    const size_t len = (size_t)atomic_load_explicit(&desk->len, memory_order_acquire);
    const struct span span = span_of(len, piece_of(len), piece);
    uint8_t mark = 1;
    const struct iovec mine[2] = {{&mark, sizeof mark},
                                  {(void *)(uintptr_t)(from + span.at), span.len}};
    const struct iovec there[2] = {{(void *)(uintptr_t)permit, sizeof mark},
                                   {(void *)(uintptr_t)(place + span.at), span.len}};
    return process_vm_writev(link->self.pid, mine, 2, there, 2, 0) ==
           (ssize_t)(sizeof mark + span.len);
}

bool shm_assist(struct rcmi_channel *channel) {
    struct shm_channel *shm = shm_of(channel);
    struct rcmi_ring_desk *desk = rcmi_ring_desk(shm->memory, &shm->ring.writer.shape);
    if (!desk || !shm->link)
        return false;
    const uint64_t number = atomic_load_explicit(&desk->number, memory_order_acquire);
    if (number == shm->assisted)
        return false;
    uint64_t claims = atomic_load_explicit(&desk->claims, memory_order_acquire);
    const size_t len = (size_t)atomic_load_explicit(&desk->len, memory_order_acquire);
    const uint64_t pieces = pieces_of(len, piece_of(len));
    do {
        if (!claims_right(claims, number, pieces) || front_of(claims) + back_of(claims) == pieces ||
            pieces >= PIECES_MAX) {
            shm->assisted = number;
            return false;
        }
    } while (!atomic_compare_exchange_weak(&desk->claims, &claims, claims + 1));
    const uint64_t back = back_of(claims);
    const bool did = shm_look(shm->link) && push(shm->link, desk, pieces - 1 - back);
    if (!did)
        shm->assisted = number;
    atomic_store_explicit(&desk->assisted, number << PIECES_BITS | (did ? back + 1 : FAILED),
                          memory_order_release);
    rcmi_bell_ring(shm->wake.bell, shm->wake.eventfd);
    return did;
}
