/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: both ends of a ring in shared memory against another side that writes what it likes
 * when it likes (transport/ring.h). The input is a script: pieces of it are written anywhere into
 * the ring, between and, by a second thread that changes a header without pause, during our
 * own looks at it.
 */
#include "fuzz.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include "../../transport/ring.h"

enum { SLOT_BYTES = 200, SLOTS = 3, READERS = 2, LOOKS = 60 };

static struct rcmi_ring_shape shape;
static uint8_t *memory;

/* ---- The thread that never stops ----------------------------------------------------------- */

static struct {
    /* All relaxed but `line`, whose release store publishes the others to the thread. */
    _Atomic(struct rcmi_ring_header *) line; /* NULL: rest */
    _Atomic uint64_t seq[2], len[2];
    /* Posted to let the thread begin, and by it when it is calm. It rests asleep: who yields
     * beside other fuzzers gives away a whole slice each time. */
    sem_t go, calm;
} wild;

static void wild_write(struct rcmi_ring_header *line, uint64_t round) {
    volatile uint64_t *len = &line->len;
    *len = atomic_load_explicit(&wild.len[round & 1], memory_order_relaxed);
    atomic_store_explicit(&line->seq,
                          atomic_load_explicit(&wild.seq[round >> 1 & 1], memory_order_relaxed),
                          memory_order_relaxed);
}

static void sem_take(sem_t *sem) {
    while (sem_wait(sem) != 0)
        fuzz_require(errno == EINTR, "a semaphore can be waited for");
}

static void *wild_run(void *arg) {
    (void)arg;
    struct rcmi_ring_header *line;
    for (;;) {
        sem_take(&wild.go);
        for (uint64_t round = 0;
             (line = atomic_load_explicit(&wild.line, memory_order_acquire)) != NULL; round++)
            wild_write(line, round);
        sem_post(&wild.calm);
    }
    return NULL;
}

/* The thread writes to the line until calm. */
static void wild_start(struct rcmi_ring_header *line, struct fuzz_input *in) {
    static pthread_t thread;
    static bool started;
    if (!started)
        started = sem_init(&wild.go, 0, 0) == 0 && sem_init(&wild.calm, 0, 0) == 0 &&
                  pthread_create(&thread, NULL, wild_run, NULL) == 0;
    fuzz_require(started, "a thread can be made");
    for (int i = 0; i < 2; i++) {
        atomic_store_explicit(&wild.len[i], fuzz_u16(in), memory_order_relaxed);
        atomic_store_explicit(&wild.seq[i], fuzz_u8(in), memory_order_relaxed);
    }
    atomic_store_explicit(&wild.line, line, memory_order_release);
    sem_post(&wild.go);
}

static void wild_calm(void) {
    atomic_store_explicit(&wild.line, NULL, memory_order_release);
    sem_take(&wild.calm);
}

/* ---- Our own side -------------------------------------------------------------------------- */

static struct {
    struct rcmi_ring_reader reader;
    struct rcmi_ring_writer writer;
    unsigned sum;
    bool refused;
} own;

/* What was peeked at lies in the ring, all of it. */
static bool look(void) {
    uint64_t len = 0;
    rcm_status status = rcmi_ring_peek(&own.reader, &len);
    own.refused = own.refused || status < 0;
    if (status != RCM_OK)
        return false;
    if (len & RCMI_RING_FLAGS) /* it is elsewhere */
        return false;
    const uint8_t *bytes = rcmi_ring_payload(&own.reader, len);
    fuzz_require(len <= SLOT_BYTES, "a message fits its slot");
    fuzz_require(bytes >= memory && bytes + len <= memory + shape.total,
                 "a message is in the ring");
    for (uint64_t i = 0; i < len; i++)
        own.sum += ((const volatile uint8_t *)bytes)[i];
    return true;
}

static void write_message(size_t len) {
    void *slot = NULL;
    rcm_status status = rcmi_ring_reserve(&own.writer, &slot);
    own.refused = own.refused || status < 0;
    if (status != RCM_OK)
        return;
    uint8_t *at = slot;
    fuzz_require(at >= memory && at + SLOT_BYTES <= memory + shape.total, "a slot is in the ring");
    memset(at, 0x77, len);
    rcmi_ring_commit(&own.writer, len, len);
    fuzz_require(own.writer.produced <= own.writer.limit && own.writer.filled <= own.writer.room,
                 "no more is written than was read");
}

static void step(struct fuzz_input *in) {
    uint8_t op = fuzz_u8(in);
    size_t n, at;
    const uint8_t *bytes;
    switch (op % 6) {
    case 0: /* bytes anywhere */
        at = fuzz_u16(in) % shape.total;
        bytes = fuzz_bytes(in, op / 6, &n);
        memcpy(memory + at, bytes, n < shape.total - at ? n : shape.total - at);
        break;
    case 1: /* a header as it should be */
        own.reader.header->len = fuzz_u16(in);
        atomic_store(&own.reader.header->seq, own.reader.consumed + 1);
        break;
    case 2:
        if (look())
            rcmi_ring_release(&own.reader);
        break;
    case 3:
        write_message(fuzz_u8(in) % (SLOT_BYTES + 1));
        break;
    case 4: /* the counters of a reader of ours */
        if (op / 6 / READERS % 2)
            atomic_store(rcmi_ring_emptied(memory, op / 6 % READERS),
                         own.writer.filled - fuzz_u8(in) % (SLOTS + 2));
        else
            atomic_store(rcmi_ring_counter(memory, op / 6 % READERS),
                         own.writer.produced - fuzz_u8(in) % (RCMI_RING_HEADERS + 2));
        break;
    default: /* as bad as it gets */
        wild_start(own.reader.header, in);
        for (int i = 0; i < LOOKS; i++)
            (void)look();
        wild_calm();
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    if (!memory) {
        shape = rcmi_ring_shape(SLOT_BYTES, SLOTS, READERS);
        memory = aligned_alloc(RCMI_LINE, shape.total);
        fuzz_require(memory != NULL, "there is memory");
    }
    memset(memory, 0, shape.total);
    rcmi_ring_clear(memory, &shape);
    rcmi_ring_reader_init(&own.reader, memory, &shape, 1);
    rcmi_ring_writer_init(&own.writer, memory, &shape);
    own.refused = false;
    for (int steps = 0; in.left > 0 && steps < 200; steps++)
        step(&in);
    fuzz_verdict = own.refused ? FUZZ_REFUSED : FUZZ_ACCEPTED;
    return 0;
}
