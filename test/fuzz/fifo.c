/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: both ends of a queue in shared memory, with another side that writes anything at any
 * time (transport/channel/fifo.h), and shm's handling of messages that must be fetched (get.c,
 * help.c, zero_copy.c). The input is a script: pieces of it are written anywhere into the queue,
 * between our own accesses and during them, by a second thread that changes a header continuously.
 *
 *   byte 0   bit 0: the queue has one reader, and so posted receives and a get request; else two
 *   then     a script, see step()
 *
 * The other side is no process, so the kernel copies nothing from or to it: fetched data come
 * through the slot.
 */
#include "fuzz.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../../transport/shm/shm.h"

enum {
    SLOT_BYTES = 4 * RCMI_FIFO_PLACED, /* four places */
    SLOTS = 3,
    READERS = 2,
    LOOKS = 60,
    SENT = 16,
    NO_PROCESS = INT32_MAX,
    OURS = 0x66,
    OTHERS = 0xdd
};

static struct rcmi_fifo_shape shape;
static uint8_t *memory;

/* ---- The thread that writes continuously --------------------------------------------------- */

static struct {
    /* All relaxed except `line`, whose release store publishes the others to the thread. */
    _Atomic(struct rcmi_fifo_header *) line; /* NULL: pause */
    _Atomic uint64_t seq[2], len[2];
    /* Posted to start the thread, and by the thread when it has stopped. It pauses asleep: a yield
     * next to other fuzzers loses a whole time slice. */
    sem_t go, calm;
} wild;

static void wild_write(struct rcmi_fifo_header *line, uint64_t round) {
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
    struct rcmi_fifo_header *line;
    for (;;) {
        sem_take(&wild.go);
        for (uint64_t round = 0;
             (line = atomic_load_explicit(&wild.line, memory_order_acquire)) != NULL; round++)
            wild_write(line, round);
        sem_post(&wild.calm);
    }
    return NULL;
}

/* The thread writes to the line until it is stopped. */
static void wild_start(struct rcmi_fifo_header *line, struct fuzz_input *in) {
    static pthread_t thread;
    static bool started;
    if (!started)
        started = sem_init(&wild.go, 0, 0) == 0 && sem_init(&wild.calm, 0, 0) == 0 &&
                  pthread_create(&thread, NULL, wild_run, NULL) == 0;
    fuzz_require(started, "a thread can be made");
    for (int i = 0; i < 2; i++) {
        const uint64_t len = fuzz_u16(in), bits = fuzz_u8(in) % 32; /* flags and a place */
        atomic_store_explicit(&wild.len[i], len | bits << RCMI_FIFO_PLACE_SHIFT,
                              memory_order_relaxed);
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

static struct rcmi_doorbell doorbell;
static struct shm_domain domain;
static struct shm_link link_to;

static struct {
    struct shm_channel reading, writing;
    struct rcmi_fifo_reader *reader;
    struct rcmi_fifo_writer *writer;
    /* The message being fetched: destination of its bytes. */
    uint8_t *dest;
    bool failed; /* a get has failed: nothing more is read */
    size_t len;
    /* Messages sent for a get, and how many of them the user owns again. */
    struct {
        uint8_t *bytes;
        size_t len;
    } sent[SENT];
    int nsent, nback;
    unsigned sum;
    bool refused;
} own;

static void shm_init(struct shm_channel *shm, int nreaders) {
    *shm = (struct shm_channel){.base = {.slot_bytes = SLOT_BYTES,
                                         .slots = SLOTS,
                                         .nreaders = nreaders,
                                         .is_writer = shm == &own.writing},
                                .wake = {.doorbell = &doorbell, .eventfd = -1},
                                .link = &link_to,
                                .memory = memory};
}

static void own_begin(int nreaders) {
    link_to = (struct shm_link){.domain = &domain, .memfd = -1, .self = {.pid = NO_PROCESS}};
    domain.page = (size_t)sysconf(_SC_PAGESIZE);
    memset(&own, 0, sizeof own);
    shm_init(&own.reading, nreaders);
    shm_init(&own.writing, nreaders);
    own.reader = &own.reading.fifo.reader;
    own.writer = &own.writing.fifo.writer;
    own.writing.domain = &domain;
    own.writing.link = nreaders == 1 ? &link_to : NULL;
    own.writing.sent = calloc(SLOTS, sizeof *own.writing.sent);
    own.reading.posted = calloc(SLOTS, sizeof *own.reading.posted);
    fuzz_require(own.writing.sent && own.reading.posted, "there is memory");
    rcmi_fifo_reader_init(own.reader, memory, &shape, nreaders - 1);
    rcmi_fifo_writer_init(own.writer, memory, &shape);
}

/* The user owns the sent memory again and overwrites it. (It is not freed: a sanitizer does not see
 * the accesses of library copies.) */
static void sent_reuse(void) {
    for (; own.nback < own.nsent; own.nback++)
        memset(own.sent[own.nback].bytes, OTHERS, own.sent[own.nback].len);
}

static void own_end(void) {
    if (!own.failed)
        shm_get_fini(&own.reading);
    free(own.dest);
    for (int i = 0; i < own.nsent; i++)
        free(own.sent[i].bytes);
    free(own.writing.sent);
    free(own.reading.posted);
}

static void read_payload(const uint8_t *bytes, uint64_t len) {
    fuzz_require(len <= SLOT_BYTES, "a message fits its slot");
    fuzz_require(bytes >= memory && bytes + len <= memory + shape.total,
                 "a message is in the queue");
    const size_t at = (size_t)(bytes - memory);
    fuzz_require(at < shape.payloads || (at - shape.payloads) % shape.stride + len <= SLOT_BYTES,
                 "a message is in its slot");
    for (uint64_t i = 0; i < len; i++)
        own.sum += ((const volatile uint8_t *)bytes)[i];
}

/* A peeked message is completely in the queue, or must be fetched. */
static bool look(struct rcmi_slot *ret_slot) {
    const rcm_status status = shm_peek(&own.reading.base, ret_slot);
    own.refused = own.refused || status < 0;
    if (status != RCM_OK)
        return false;
    fuzz_require(!ret_slot->reply ||
                     ((uint8_t *)ret_slot->reply >= memory &&
                      (uint8_t *)ret_slot->reply + ret_slot->len <= memory + shape.total),
                 "a reply is in the queue");
    if (ret_slot->bytes)
        read_payload(ret_slot->bytes, ret_slot->len);
    else
        fuzz_require(shape.nreaders == 1 && ret_slot->len <= RCMI_GET_MAX,
                     "one reader gets, and not too much");
    return true;
}

/* A piece of the message being fetched. */
static void get(void) {
    struct rcmi_slot slot;
    bool moved = false;
    /* Its length is read again each time, as collectives do. */
    const bool fits = look(&slot) && !slot.bytes && slot.len <= own.len;
    const struct rcmi_mem mem = rcmi_mem_host(own.dest, fits ? slot.len : 0);
    const rcm_status status =
        fits ? shm_get(&own.reading.base, &mem, slot.remote, own.len % 2, &moved)
             : RCM_ERR_PROTOCOL;
    for (size_t i = 0; i < SLOT_BYTES; i++)
        fuzz_require(own.dest[own.len + i] == OURS, "no more is got than there is room for");
    if (status == RCM_AGAIN)
        return;
    own.failed = status != RCM_OK;
    own.refused = own.refused || own.failed;
    if (own.failed)
        shm_get_fini(&own.reading);
    free(own.dest);
    own.dest = NULL;
    if (status == RCM_OK)
        shm_release(&own.reading.base);
}

static void take(void) {
    struct rcmi_slot slot;
    if (own.dest) {
        get();
        return;
    }
    if (own.failed || !look(&slot))
        return;
    if (slot.bytes) {
        shm_release(&own.reading.base);
        return;
    }
    own.dest = malloc(slot.len + SLOT_BYTES);
    fuzz_require(own.dest != NULL, "there is memory");
    own.len = slot.len;
    memset(own.dest + own.len, OURS, SLOT_BYTES);
    get();
}

static void write_message(size_t len) {
    void *slot = NULL;
    rcm_status status = rcmi_fifo_reserve(own.writer, len, &slot);
    own.refused = own.refused || status < 0;
    if (status != RCM_OK)
        return;
    uint8_t *at = slot;
    fuzz_require(at >= memory && at + len <= memory + shape.total, "a slot is in the queue");
    memset(at, 0x77, len);
    rcmi_fifo_commit(own.writer, len, len);
    fuzz_require(own.writer->produced <= own.writer->limit &&
                     own.writer->filled <= own.writer->room,
                 "no more is written than was read");
}

/* A message that must be fetched. It may be longer than a slot. */
static void send_far(size_t len) {
    if (own.nsent == SENT)
        return;
    uint8_t *bytes = malloc(len ? len : 1);
    fuzz_require(bytes != NULL, "there is memory");
    memset(bytes, OURS, len);
    const struct rcmi_mem mem = rcmi_mem_host(bytes, len);
    const rcm_status status = shm_send_zero_copy(&own.writing.base, &mem, len, true);
    own.refused = own.refused || (status < 0 && status != RCM_ERR_UNSUPPORTED);
    fuzz_require(status != RCM_OK || shape.nreaders == 1, "only one reader gets");
    if (status != RCM_OK) {
        free(bytes);
        return;
    }
    own.sent[own.nsent].bytes = bytes;
    own.sent[own.nsent++].len = len;
}

/* The reader requests data, by its process's memory or through the slot; we help. */
static void help(struct fuzz_input *in, uint8_t how) {
    struct rcmi_fifo_request *request = rcmi_fifo_request(memory, &shape);
    const uint64_t number = fuzz_u8(in), a = fuzz_u8(in);
    if (request && how % 3 == 1)
        atomic_store(&request->wanted, number << SHM_PIECES_BITS | a);
    if (request && how % 3 == 2) {
        atomic_store(&request->claims, shm_claims(number, 0, a));
        atomic_store(&request->len, (uint64_t)fuzz_u16(in) << 8);
        atomic_store(&request->number, number);
    }
    memset(memory + shape.payloads, 0, SLOTS * shape.stride);
    (void)shm_help(&own.writing.base);
    for (uint32_t i = 0; i < SLOTS; i++)
        fuzz_require(*(const uint8_t *)rcmi_fifo_slot(memory, &shape, i) != OTHERS,
                     "what completed is not read any more");
}

/* The writer reports the requested piece, or a part of the get, or that it has the channel open. */
static void answer(struct fuzz_input *in, uint8_t how) {
    struct rcmi_fifo_request *request = rcmi_fifo_request(memory, &shape);
    const uint8_t off = fuzz_u8(in);
    if (!request)
        return;
    if (how % 3 == 0)
        atomic_store(&request->bounced, atomic_load(&request->wanted) + off);
    else if (how % 3 == 1)
        atomic_store(&request->helped, atomic_load(&request->number) << SHM_PIECES_BITS | off);
    else
        atomic_store(rcmi_fifo_open(memory, &shape), off);
}

/* A header of a message in its slot or elsewhere. */
static void arrive(struct fuzz_input *in, uint8_t how) {
    static const uint64_t flags[4] = {0, RCMI_FIFO_GET, RCMI_FIFO_MAPPED, RCMI_FIFO_PUT};
    const uint64_t len = fuzz_u16(in), scale = how / 4 % 2 ? 1 << 8 : 1;
    const uint64_t place = (uint64_t)(how / 8 % RCMI_FIFO_PLACES) << RCMI_FIFO_PLACE_SHIFT;
    own.reader->header->len = len * scale | flags[how % 4] | place;
    atomic_store(&own.reader->header->seq, own.reader->consumed + 1);
}

static void step(struct fuzz_input *in) {
    const uint8_t op = fuzz_u8(in), how = op / 10;
    size_t n, at;
    const uint8_t *bytes;
    struct rcmi_slot slot;
    switch (op % 10) {
    case 0: /* bytes anywhere */
        at = fuzz_u16(in) % shape.total;
        bytes = fuzz_bytes(in, how, &n);
        memcpy(memory + at, bytes, n < shape.total - at ? n : shape.total - at);
        break;
    case 1:
        arrive(in, how);
        break;
    case 2:
        take();
        break;
    case 3:
        write_message((size_t)fuzz_u8(in) * SLOT_BYTES / 200 % (SLOT_BYTES + 1));
        break;
    case 4: /* the counters of one of our readers */
        if (how / READERS % 2)
            atomic_store(rcmi_fifo_emptied(memory, how % shape.nreaders),
                         own.writer->filled - fuzz_u8(in) % (SLOTS + 2));
        else
            atomic_store(rcmi_fifo_counter(memory, how % shape.nreaders),
                         own.writer->produced - fuzz_u8(in) % (RCMI_FIFO_HEADERS + 2));
        break;
    case 5: /* the worst values */
        wild_start(own.reader->header, in);
        for (int i = 0; i < LOOKS; i++)
            (void)look(&slot);
        wild_calm();
        break;
    case 6:
        send_far(fuzz_u16(in));
        break;
    case 7:
        help(in, how);
        break;
    case 8:
        answer(in, how);
        break;
    default: /* checks whether the sent memory is owned by the user again */
        if (shm_completed(&own.writing.base, own.writing.fifo.writer.produced))
            sent_reuse();
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    const int nreaders = fuzz_u8(&in) & 1 ? 1 : READERS;
    shape = rcmi_fifo_shape(SLOT_BYTES, SLOTS, nreaders);
    memory = aligned_alloc(RCMI_LINE, shape.total);
    fuzz_require(memory != NULL, "there is memory");
    memset(memory, 0, shape.total);
    rcmi_fifo_clear(memory, &shape);
    own_begin(nreaders);
    for (int steps = 0; in.left > 0 && steps < 200; steps++)
        step(&in);
    fuzz_verdict = own.refused ? FUZZ_REFUSED : FUZZ_ACCEPTED;
    own_end();
    free(memory);
    return 0;
}
