/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: point-to-point messages from peers (api/p2p, api/p2p/endpoint.h), on fake channels.
 * The input is a script: receives and sends are posted, and messages of every kind arrive from two
 * peers, in and out of order, with valid and invalid numbers. Transfers and their buffers are freed
 * as soon as they complete, so that late accesses are found.
 */
#include "fuzz.h"
#include <stdlib.h>
#include <string.h>
#include "endpoint_internal.h"
#include "p2p.h"

enum {
    RANKS = 3,
    SLOT_BYTES = 1024,
    STEPS = 200,
    OFTEN = 250,
    DEVICE = 249,
    MANY = 100,
    GETTABLE = 300,    /* start of a peer's memory, */
    UNGETTABLE = 2000, /* its end, */
    BROKEN = 4000,     /* and the address at which the link fails */
    GET_PIECE = 700,
    ZERO_COPIES = 64,
    BARE_MIN = 300,
    ZERO_COPY_MIN = 200,
    PIECE_MIN = 256
};

static struct rcmi_protocol protocol;

/* ---- Channels ------------------------------------------------------------------------------ */

struct fake_channel {
    struct rcmi_channel base;
    bool open;

    /* Of a writer. */
    struct rcmi_reserved reserved;
    size_t room;                            /* in it */
    struct rcmi_mem zero_copy[ZERO_COPIES]; /* not completed yet */
    int nzero_copy;

    /* Of a reader. */
    bool full;
    uint8_t *slot;     /* the arrived message */
    const void *bytes; /* the arrived bytes, in the slot or in posted memory */
    size_t len;
    uint64_t meta;
    struct rcmi_posted posted; /* no bytes: nothing is posted */
    void *getting;             /* where the payload is fetched to */
    size_t got;
};

static struct fake_channel in_of[RANKS], out_of[RANKS];
static struct rcmi_messaging messaging;
static struct rcmi_p2p *p2p;
static int unfinished;
static bool failed, zero_copying, posting, filling, draining, placing, helping;
static unsigned calls; /* number of calls that may return RCM_AGAIN */

/* At times there is no free slot, or a send has not completed. */
static bool not_now(bool often) {
    return often && calls++ % 3 != 2;
}

static void read_all(const void *bytes, size_t len, const char *what) {
    unsigned sum = 0;
    for (size_t i = 0; i < len; i++)
        sum += ((const volatile uint8_t *)bytes)[i];
    fuzz_require(sum <= 255 * len, what);
}

/* A reserved target has exactly the reserved size, in a slot or in memory that the reader
 * posted. */
static rcm_status fake_reserve(struct rcmi_channel *channel, size_t len,
                               struct rcmi_reserved *ret_reserved) {
    struct fake_channel *out = (struct fake_channel *)channel;
    fuzz_require(len <= SLOT_BYTES, "what is reserved fits a slot");
    if (not_now(filling))
        return RCM_AGAIN;
    free(out->reserved.bytes);
    out->reserved = (struct rcmi_reserved){.bytes = malloc(len ? len : 1),
                                           .stores = (enum rcmi_stores)(calls % 3),
                                           .posted = placing && calls % 2};
    fuzz_require(out->reserved.bytes != NULL, "there is memory");
    out->room = len;
    calls += placing;
    *ret_reserved = out->reserved;
    return RCM_OK;
}

/* The right word of a byte that has a kind, and of a message a type. */
static uint64_t meta_right(uint64_t byte, uint32_t id, size_t len) {
    const uint64_t meta = byte << 56;
    return kind_of(meta) == KIND_BARE ? meta_of_bare(dtype_of(meta), id, len)
                                      : meta_of((unsigned)byte, id);
}

/* A byte of any kind by a small number, and a type if there is one. */
static uint64_t byte_of(uint8_t number, uint8_t dtype) {
    static const uint8_t bytes[8] = {0,         KIND_EAGER,  KIND_RTS,  KIND_CTS,
                                     KIND_DATA, KIND_CREDIT, KIND_BARE, KIND_ACK};
    const uint8_t byte = bytes[number % 8];
    return byte & KIND_MESSAGES ? byte | (dtype & 15) : number % 16 == 8 ? KIND_DEVICE_CTS : byte;
}

static void check_sent(size_t len, uint64_t meta) {
    fuzz_require(len <= SLOT_BYTES, "what is sent fits a slot");
    fuzz_require(meta == meta_right(meta >> 56, (uint32_t)meta, len), "and has a kind");
}

/* The peer may now read the memory that the RTS names. */
static void check_rts(const struct fake_channel *out, size_t len) {
    struct rts body;
    fuzz_require(len == sizeof body, "an RTS is whole");
    memcpy(&body, out->reserved.bytes, sizeof body);
    fuzz_require(!body.device, "no memory is a device's");
    if (!body.from)
        return;
    fuzz_require(out->base.transport->shared_slots,
                 "only a peer with shared memory gets an address");
    read_all((const void *)(uintptr_t)body.from, body.header.total,
             "the announced memory can be read");
}

static void fake_commit(struct rcmi_channel *channel, size_t len, uint64_t meta) {
    struct fake_channel *out = (struct fake_channel *)channel;
    fuzz_require(out->reserved.bytes != NULL, "what is committed was reserved");
    fuzz_require(out->reserved.posted ? len == out->room : len <= out->room,
                 "as much is committed as was reserved");
    check_sent(len, meta);
    read_all(out->reserved.bytes, len, "what is committed was written");
    if (kind_of(meta) == KIND_RTS)
        check_rts(out, len);
    free(out->reserved.bytes);
    out->reserved.bytes = NULL;
}

/* Reads all memory that the user does not own yet. */
static void read_zero_copies(struct fake_channel *out) {
    for (int i = 0; i < out->nzero_copy; i++)
        read_all(out->zero_copy[i].bytes, out->zero_copy[i].len, "what is sent can be read");
}

static rcm_status fake_send_zero_copy(struct rcmi_channel *channel, const struct rcmi_mem *mem,
                                      uint64_t meta, bool may_get) {
    struct fake_channel *out = (struct fake_channel *)channel;
    fuzz_require(!may_get, "a message to be fetched is announced by an RTS");
    if (!zero_copying)
        return RCM_ERR_UNSUPPORTED;
    if (not_now(filling))
        return RCM_AGAIN;
    check_sent(mem->len, meta);
    if (out->nzero_copy == ZERO_COPIES) {
        read_zero_copies(out);
        out->nzero_copy = 0;
    }
    out->zero_copy[out->nzero_copy++] = *mem;
    return RCM_OK;
}

static bool fake_completed(struct rcmi_channel *channel, uint64_t number) {
    (void)number;
    struct fake_channel *out = (struct fake_channel *)channel;
    read_zero_copies(out);
    if (not_now(draining))
        return false;
    out->nzero_copy = 0;
    return true;
}

static bool fake_taken(struct rcmi_channel *channel, int reader, uint64_t number) {
    (void)reader;
    fuzz_require(number <= channel->sent, "what is waited for was sent");
    return number == 0 || !not_now(draining);
}

static bool fake_help(struct rcmi_channel *channel) {
    (void)channel;
    return helping && !not_now(true);
}

static rcm_status fake_peek(struct rcmi_channel *channel, struct rcmi_slot *ret_slot) {
    const struct fake_channel *in = (const struct fake_channel *)channel;
    if (!in->full)
        return RCM_AGAIN;
    *ret_slot = (struct rcmi_slot){.bytes = in->bytes, .len = in->len, .meta = in->meta};
    return RCM_OK;
}

static void fake_release(struct rcmi_channel *channel) {
    struct fake_channel *in = (struct fake_channel *)channel;
    fuzz_require(in->full, "what is released was there");
    free(in->slot);
    in->slot = NULL;
    in->posted.mem.bytes = NULL;
    in->full = false;
}

/* Overwrites memory whose contents may be lost. */
static bool fake_post_receive(struct rcmi_channel *channel, const struct rcmi_posted *posted) {
    struct fake_channel *in = (struct fake_channel *)channel;
    if (!posted) {
        in->posted.mem.bytes = NULL;
        return false;
    }
    fuzz_require(!in->posted.mem.bytes && posted->ahead == 0, "one receive is posted at a time");
    fuzz_require(posted->mem.bytes && posted->mem.len > 0, "and is of some memory");
    if (!posting || (channel->transport->shared_slots && posted->mask) || not_now(filling))
        return false;
    in->posted = *posted;
    if (!posted->mask)
        memset(posted->mem.bytes, 'p', posted->mem.len);
    return true;
}

/* The destination of the message that has just arrived. */
static void fake_arrive(struct fake_channel *in) {
    const struct rcmi_posted *posted = &in->posted;
    in->bytes = in->slot;
    in->full = true;
    if (!posted->mem.bytes || in->len > posted->mem.len ||
        (in->meta & posted->mask) != posted->meta)
        return;
    memcpy(posted->mem.bytes, in->slot, in->len);
    in->bytes = posted->mem.bytes;
}

/* The input gives the address of the peer's memory and its readable size, one piece per call. */
static rcm_status fake_get(struct rcmi_channel *channel, const struct rcmi_mem *mem,
                           uint64_t remote, bool helped, bool *moved) {
    struct fake_channel *in = (struct fake_channel *)channel;
    void *place = mem->bytes;
    const size_t left = mem->len - in->got, piece = left < GET_PIECE ? left : GET_PIECE;
    (void)helped;
    fuzz_require(in->got == 0 || (in->getting == place && in->got < mem->len),
                 "a message is got to its end before the next one");
    if (remote >= BROKEN)
        return rcmi_fail(RCM_ERR_PEER, 0, "the link broke");
    if (remote + in->got >= UNGETTABLE) {
        in->got = 0;
        return RCM_ERR_UNSUPPORTED;
    }
    if (not_now(filling))
        return RCM_AGAIN;
    memset((uint8_t *)place + in->got, 'g', piece);
    *moved = true;
    in->getting = place;
    in->got = piece < left ? in->got + piece : 0;
    return piece < left ? RCM_AGAIN : RCM_OK;
}

static struct rcmi_transport play = {.name = "play",
                                     .reserve = fake_reserve,
                                     .commit = fake_commit,
                                     .send_zero_copy = fake_send_zero_copy,
                                     .completed = fake_completed,
                                     .taken = fake_taken,
                                     .peek = fake_peek,
                                     .release = fake_release,
                                     .post_receive = fake_post_receive,
                                     .get = fake_get,
                                     .help = fake_help};

static rcm_status fake_open(struct fake_channel *channel, struct rcmi_channel **ret_channel) {
    fuzz_require(!channel->open, "a channel is opened once");
    channel->open = true;
    channel->base.transport = &play;
    channel->base.slot_bytes = SLOT_BYTES;
    channel->base.protocol = &protocol;
    atomic_store(&channel->base.state, RCM_OK);
    *ret_channel = &channel->base;
    return RCM_OK;
}

static rcm_status fuzz_open(void *arg, int peer, enum rcmi_mem_kind kind, bool writer,
                            struct rcmi_channel **ret_channel) {
    (void)arg;
    fuzz_require(kind == RCMI_MEM_HOST, "data of the host's memory need no channel of devices");
    return fake_open(writer ? &out_of[peer] : &in_of[peer], ret_channel);
}

static void fuzz_close(struct rcmi_channel *channel) {
    struct fake_channel *fake = (struct fake_channel *)channel;
    if (!fake)
        return;
    fuzz_require(!fake->posted.mem.bytes, "what was posted is withdrawn before the end");
    read_zero_copies(fake);
    free(fake->reserved.bytes);
    free(fake->slot);
    memset(fake, 0, sizeof *fake);
}

/* ---- Transfers ------------------------------------------------------------------------------- */

/* Memory that the user owns again must not be posted. */
static void check_unposted(const struct rcmi_transfer *t) {
    for (int r = 0; r < RANKS; r++) {
        const char *at = in_of[r].posted.mem.bytes;
        fuzz_require(!at || in_of[r].full || at + in_of[r].posted.mem.len <= (char *)t->mem.bytes ||
                         at >= (char *)t->mem.bytes + t->mem.len,
                     "what ends is not posted any more");
    }
}

/* A posted transfer; the first member, so that it is found from its transfer. */
struct posted {
    struct rcmi_transfer transfer;
    bool sends;
};

static void fuzz_complete(struct rcmi_transfer *t, rcm_status status) {
    const struct posted *posted = (const struct posted *)t;
    check_unposted(t);
    fuzz_require(status == RCM_OK || status == RCM_ERR_TRUNCATED || status == RCM_ERR_MISMATCH ||
                     status == RCM_ERR_ABORTED,
                 "a transfer ends well, truncated, with another type, or with all others");
    if (!posted->sends && status != RCM_ERR_ABORTED) {
        fuzz_require(t->done == t->total, "all of it came");
        fuzz_require((status == RCM_ERR_MISMATCH) == rcmi_transfer_differs(t),
                     "a mismatch is of another type");
        fuzz_require(status == RCM_ERR_MISMATCH ||
                         (status == RCM_ERR_TRUNCATED) == (t->total > t->mem.len),
                     "truncated is what is too long");
    }
    free(t->mem.bytes);
    free(t);
    unfinished--;
}

static void post(struct fuzz_input *in, int peer, bool sends) {
    struct posted *posted = calloc(1, sizeof *posted);
    const size_t bytes = fuzz_u16(in) % (4 * SLOT_BYTES);
    const uint8_t tag = fuzz_u8(in) % 8;
    fuzz_require(posted != NULL, "there is memory");
    struct rcmi_transfer *t = &posted->transfer;
    posted->sends = sends;
    *t = (struct rcmi_transfer){.peer = peer,
                                .tag = tag == 7 && !sends ? RCM_ANY_TAG : tag,
                                .mem = rcmi_mem_host(malloc(bytes ? bytes : 1), bytes),
                                .dtype = tag % 4 ? RCM_INT32 : RCM_UINT8,
                                .total = bytes};
    if (sends && bytes)
        memset(t->mem.bytes, 'd', bytes);
    unfinished++;
    if ((sends ? rcmi_p2p_send(p2p, t) : rcmi_p2p_receive(p2p, t)) != RCM_OK)
        failed = true;
}

/* ---- Arrivals ------------------------------------------------------------------------------ */

static void arrive(int peer, uint64_t meta, const void *head, size_t head_len, const void *bytes,
                   size_t len) {
    struct fake_channel *in = &in_of[peer];
    if (!in->open) { /* like the engine when a peer opens its channel */
        rcmi_p2p_wanted(p2p, peer);
        failed = rcmi_p2p_progress(p2p, &(bool){false}) < 0 || failed;
    }
    if (head_len + len > SLOT_BYTES) /* the transport guarantees that */
        len = SLOT_BYTES - head_len;
    fuzz_require(!in->full, "one message arrives at a time");
    in->slot = malloc(head_len + len + 1);
    fuzz_require(in->slot != NULL, "there is memory");
    if (head_len)
        memcpy(in->slot, head, head_len);
    if (len)
        memcpy(in->slot + head_len, bytes, len);
    in->len = head_len + len;
    in->meta = meta;
    fake_arrive(in);
}

static void progress(void) {
    bool moved = false;
    if (rcmi_p2p_progress(p2p, &moved) < 0) {
        fuzz_require(rcm_last_error()[0] != '\0', "an error has a sentence");
        failed = true;
    }
    fuzz_require(failed || (!in_of[1].full && !in_of[2].full), "what arrives is taken at once");
}

static void arrive_message(struct fuzz_input *in, int peer, bool rts) {
    struct rts body = {.header = {.tag = fuzz_u8(in) % 8, .total = fuzz_u16(in)}};
    struct header *header = &body.header;
    const uint8_t odd = fuzz_u8(in), id = fuzz_u8(in);
    size_t n = 0;
    /* Fetched in pieces, one per step: three of 700 bytes can be read, or none. */
    static const uint64_t froms[4] = {0, UNGETTABLE, GETTABLE, BROKEN};
    body.from = froms[id >> 5 & 3];
    const uint8_t *bytes = fuzz_bytes(in, rts ? 0 : header->total, &n);
    body.device = odd == DEVICE ? 1 : odd == DEVICE - 1 ? 2 : 0;
    if (!rts)
        header->total = odd == 255 ? header->total : n;
    else if (odd > 250)
        header->total <<= 8 * (odd - 250);
    /* The same many times: more eager messages than a sender may send. */
    for (int i = odd == OFTEN ? 1 : MANY; i <= MANY && !failed; i++) {
        arrive(peer, meta_of((rts ? KIND_RTS : KIND_EAGER) | (odd & 15), id & 31), &body,
               rts ? sizeof body : sizeof *header, bytes, n);
        progress();
    }
}

static void arrive_piece(struct fuzz_input *in, int peer, enum kind kind) {
    static uint8_t data[SLOT_BYTES];
    const uint8_t id = fuzz_u8(in);
    const size_t len = kind == KIND_DATA ? fuzz_u16(in) : 0;
    if (kind == KIND_CTS && id & 128)
        kind = KIND_ACK;
    else if (kind == KIND_CTS && id & 64)
        kind = KIND_DEVICE_CTS;
    arrive(peer, meta_of(kind, id & 31), NULL, 0, data, len < SLOT_BYTES ? len : SLOT_BYTES);
}

static void arrive_bare(struct fuzz_input *in, int peer) {
    const uint8_t tag = fuzz_u8(in) % 8;
    size_t n = 0;
    const uint8_t *bytes = fuzz_bytes(in, fuzz_u16(in), &n);
    arrive(peer, meta_of_bare(n & 15, tag, n), NULL, 0, bytes, n);
}

/* A message whose payload must be fetched, which no point-to-point sender uses. */
static void arrive_far(int peer, uint64_t byte, uint8_t id, size_t len) {
    arrive(peer, meta_right(byte, id, len), NULL, 0, NULL, 0);
    in_of[peer].len = len;
    in_of[peer].bytes = NULL;
}

static void arrive_anything(struct fuzz_input *in, int peer) {
    const uint8_t kind = fuzz_u8(in);
    const uint64_t meta =
        meta_of((unsigned)byte_of(kind & 15, kind >> 4), fuzz_u8(in)) ^ (uint64_t)(kind >> 4) << 33;
    size_t n;
    const uint8_t *bytes = fuzz_bytes(in, fuzz_u8(in), &n);
    arrive(peer, meta, NULL, 0, bytes, n);
}

/* A blocking call that takes the short path if possible; a receive with a message that just
 * arrived. */
static void direct(struct fuzz_input *in, int peer, bool sends) {
    const size_t bytes = fuzz_u16(in) % SLOT_BYTES;
    uint64_t tag = fuzz_u8(in) % 8;
    const uint8_t dtype = RCM_INT32;
    struct rcm_message message;
    char *buffer = malloc(bytes ? bytes : 1);
    fuzz_require(buffer != NULL, "there is memory");
    memset(buffer, 'd', bytes ? bytes : 1);
    const struct rcmi_mem mem = rcmi_mem_host(buffer, bytes);
    struct rcmi_endpoint *endpoint =
        sends ? rcmi_p2p_endpoint(p2p, peer) : rcmi_p2p_endpoint_for_receive(p2p, peer);
    if (!sends) {
        struct rts body = {.header = {.tag = fuzz_u8(in) % 8, .total = fuzz_u16(in)}};
        struct header *header = &body.header;
        const uint8_t kind = fuzz_u8(in);
        const uint64_t byte = byte_of(kind & 7, kind >> 3);
        const size_t head = byte >= KIND_RTS ? sizeof body : sizeof *header;
        size_t n = 0;
        const uint8_t *rest = fuzz_bytes(in, header->total, &n);
        header->total = kind & 128 ? header->total : n;
        if (kind & 32)
            arrive_far(peer, byte, kind >> 3 & 1, n);
        else if (!(kind & 64)) /* else no message has arrived yet */
            arrive(peer, meta_right(byte, kind >> 3 & 1, head + n), &body, head, rest, n);
    }
    /* It is for a rank with no other transfer. */
    rcm_status status = RCM_AGAIN;
    if (unfinished == 0)
        tag = tag == 7 && !sends ? RCM_ANY_TAG : tag;
    if (unfinished == 0 && endpoint)
        status = sends ? rcmi_endpoint_send_now(endpoint, tag, dtype, &mem)
                       : rcmi_endpoint_receive_now(endpoint, tag, dtype, &mem, &message);
    fuzz_require(status == RCM_OK || status == RCM_AGAIN || (!sends && status == RCM_PENDING),
                 "the short way ends at once");
    free(buffer);
}

static void step(struct fuzz_input *in) {
    const uint8_t op = fuzz_u8(in);
    const int peer = 1 + (op >> 7);
    uint64_t credit;
    if (op % 128 == 64 || op % 128 == 65) {
        direct(in, peer, op % 2 == 1);
        progress();
        return;
    }
    if (op % 128 == 66) {
        arrive_bare(in, peer);
        progress();
        return;
    }
    if (op % 128 == 67) {
        const uint8_t kind = fuzz_u8(in), id = fuzz_u8(in);
        arrive_far(peer, byte_of(kind & 15, kind >> 4), id, fuzz_u16(in));
        progress();
        return;
    }
    switch (op % 8) {
    case 0:
    case 1:
        post(in, peer, op % 8 == 1);
        break;
    case 2:
    case 3:
        arrive_message(in, peer, op % 8 == 3);
        break;
    case 4:
    case 5:
        arrive_piece(in, peer, op % 8 == 4 ? KIND_CTS : KIND_DATA);
        break;
    case 6:
        credit = fuzz_u16(in);
        arrive(peer, meta_of(KIND_CREDIT, 0), &credit, sizeof credit, NULL, 0);
        break;
    default:
        arrive_anything(in, peer);
        break;
    }
    progress();
}

/* Selects the messages that are fetched, sent eagerly, or stored with non-temporal stores. */
static void choose_protocol(uint8_t ways) {
    static const struct rcmi_range ranges[4] = {{1, 0}, {0, SIZE_MAX}, {300, SIZE_MAX}, {0, 600}};
    protocol.get = ranges[ways & 3];
    protocol.eager = ranges[(ways >> 2 & 3) ^ 1]; /* 0: all */
    protocol.copy_non_temporal = ranges[ways >> 6 & 1];
}

/* Slots are small here, so that short inputs make long messages. */
static rcm_status create(bool oversubscribed, bool narrow) {
    rcmi_messaging_init(&messaging, oversubscribed, RANKS);
    messaging.open = fuzz_open;
    messaging.close = fuzz_close;
    messaging.completed = fuzz_complete;
    messaging.bare_min = BARE_MIN;
    messaging.zero_copy_min = ZERO_COPY_MIN;
    messaging.piece_min = PIECE_MIN;
    if (narrow)
        messaging.budget = 4 * SLOT_BYTES; /* so that credits are sent */
    return rcmi_p2p_create(&messaging, RANKS, &p2p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    const uint8_t flags = fuzz_u8(&in), ways = fuzz_u8(&in);
    unfinished = 0;
    failed = false;
    calls = 0;
    zero_copying = flags & 1;
    posting = flags & 2;
    play.shared_slots = flags & 8;
    filling = flags & 32;
    draining = flags & 64;
    placing = ways & 16;
    helping = ways & 32;
    choose_protocol(ways);
    fuzz_require(create(flags & 16, flags & 4) == RCM_OK, "there is memory");
    for (int steps = 0; in.left > 0 && steps < STEPS && !failed; steps++)
        step(&in);
    fuzz_verdict = failed ? FUZZ_REFUSED : FUZZ_ACCEPTED;
    rcmi_p2p_cancel(p2p, RCM_ERR_ABORTED);
    fuzz_require(unfinished == 0, "every transfer ends");
    rcmi_p2p_free(p2p);
    return 0;
}
