/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: what peers send point to point (api/p2p.c), on channels that are played here. The
 * input is a script: receives and sends are posted, and messages of every kind arrive from two
 * peers, in and out of order, with numbers as they should be and not. Works and their buffers are
 * freed as soon as they complete, so that a late touch is seen.
 */
#include "fuzz.h"
#include <stdlib.h>
#include <string.h>
#include "comm.h"
#include "faster.h"
#include "kernels.h"

enum {
    RANKS = 3,
    SLOT_BYTES = 1024,
    STEPS = 200,
    OFTEN = 250,
    MANY = 100,
    UNFETCHABLE = 2000,
    FETCH_PIECE = 700
};

static void fuzz_complete(struct rcm_work *work, rcm_status status);
static void fuzz_comm_fail(rcm_comm *comm, const struct rcm_work *work);
static rcm_status fuzz_open_writer(struct rcmi_channel **ret_channel, int peer);
static rcm_status fuzz_open_reader(struct rcmi_channel **ret_channel, int peer);
static void fuzz_close(struct rcmi_channel *channel);

#define rcmi_work_complete                             fuzz_complete
#define rcmi_comm_fail                                 fuzz_comm_fail
#define rcmi_channel_open_writer(n, e, i, peer, k, to) fuzz_open_writer(to, *(peer))
#define rcmi_channel_open_reader(n, e, i, peer, to)    fuzz_open_reader(to, peer)
#define rcmi_channel_close                             fuzz_close
#define rcmi_channel_state(channel)                    RCM_OK
#define BARE_MIN                                       300
#define LEND_MIN                                       ((size_t)200)
#define PIECE_MIN                                      ((size_t)256)
#define FETCH_MIN                                      ((size_t)200)
#define rcmi_rows_way(rows)                            ((void)(rows), fetching)
static bool fetching; /* messages that may be: not as it was faster, for that changes */
#include "../../api/p2p.c"
#include "../../api/p2p_direct.c"
#include "../../api/p2p_fetch.c"
#include "../../api/p2p_receive.c"
#include "../../api/p2p_send.c"

/* ---- Channels ------------------------------------------------------------------------------ */

struct played {
    struct rcmi_channel base;
    bool open, full;
    uint8_t *bytes; /* the slot: what arrived, or what is written */
    size_t len;
    uint64_t meta;
    void *place; /* expected there */
    size_t cap;
    void *fetching; /* there */
    size_t fetched;
};

static struct played in_of[RANKS], out_of[RANKS];
static struct rcm_comm comm;
static struct rcmi_engine engine;
static struct rcmi_p2p *p2p;
static int unfinished;
static bool failed, lending, expecting, filling, draining;
static unsigned asked; /* how often a channel was asked whether it can go on */

/* Now and then there is no free slot, or the kernel still reads what was lent. */
static bool not_now(bool often) {
    return often && asked++ % 3 != 2;
}

static rcm_status play_reserve(struct rcmi_channel *channel, void **ret_slot) {
    if (not_now(filling))
        return RCM_AGAIN;
    *ret_slot = ((struct played *)channel)->bytes;
    return RCM_OK;
}

static uint64_t meta_right(enum kind kind, uint32_t id, size_t len) {
    return kind == KIND_BARE ? meta_of_bare(id, len) : meta_of(kind, id);
}

static void check_sent(size_t len, uint64_t meta) {
    fuzz_require(len <= SLOT_BYTES, "what is sent fits a slot");
    fuzz_require(meta == meta_right((enum kind)(meta >> 56), (uint32_t)meta, len),
                 "and has a kind");
}

static void play_commit(struct rcmi_channel *channel, size_t len, uint64_t meta) {
    (void)channel;
    check_sent(len, meta);
}

static rcm_status play_lend(struct rcmi_channel *channel, const void *bytes, size_t len,
                            uint64_t meta) {
    unsigned sum = 0;
    (void)channel;
    if (!lending)
        return RCM_ERR_UNSUPPORTED;
    if (not_now(filling))
        return RCM_AGAIN;
    for (size_t i = 0; i < len; i++)
        sum += ((const uint8_t *)bytes)[i];
    fuzz_require(sum <= 255 * len, "what is lent can be read");
    check_sent(len, meta);
    return RCM_OK;
}

static bool play_quiet(struct rcmi_channel *channel) {
    (void)channel;
    return !not_now(draining);
}

static rcm_status play_peek(struct rcmi_channel *channel, struct rcmi_slot *ret_slot) {
    struct played *in = (struct played *)channel;
    if (!in->full)
        return RCM_AGAIN;
    *ret_slot = (struct rcmi_slot){.bytes = in->bytes, .len = in->len, .meta = in->meta};
    if (in->place && in->len <= in->cap && (in->meta & channel->mask) == channel->like &&
        expecting) { /* as a socket does it */
        memcpy(in->place, in->bytes, in->len);
        ret_slot->bytes = in->place;
    }
    return RCM_OK;
}

static void play_release(struct rcmi_channel *channel) {
    struct played *in = (struct played *)channel;
    free(in->bytes);
    in->bytes = NULL;
    in->place = NULL;
    in->full = false;
}

static void play_expect(struct rcmi_channel *channel, void *place, size_t cap) {
    struct played *in = (struct played *)channel;
    in->place = cap ? place : NULL;
    in->cap = cap;
}

/* The input says where the peer's memory is, and how much of it can be read: a piece for each call.
 */
static rcm_status play_fetch(struct rcmi_channel *channel, void *place, uint64_t from, size_t len,
                             bool helped, bool *moved) {
    struct played *in = (struct played *)channel;
    const size_t left = len - in->fetched, piece = left < FETCH_PIECE ? left : FETCH_PIECE;
    (void)helped;
    fuzz_require(in->fetched == 0 || (in->fetching == place && in->fetched < len),
                 "a vector is fetched to its end before the next one");
    if (from + in->fetched >= UNFETCHABLE) {
        in->fetched = 0;
        return RCM_ERR_UNSUPPORTED;
    }
    if (not_now(filling))
        return RCM_AGAIN;
    memset((uint8_t *)place + in->fetched, 'f', piece);
    *moved = true;
    in->fetching = place;
    in->fetched = piece < left ? in->fetched + piece : 0;
    return piece < left ? RCM_AGAIN : RCM_OK;
}

static struct rcmi_transport play = {.name = "play",
                                     .reserve = play_reserve,
                                     .commit = play_commit,
                                     .lend = play_lend,
                                     .quiet = play_quiet,
                                     .taken = rcmi_always_taken,
                                     .peek = play_peek,
                                     .release = play_release,
                                     .expect = play_expect,
                                     .direct = rcmi_no_direct,
                                     .invite = rcmi_no_invite,
                                     .fetch = play_fetch,
                                     .assist = rcmi_no_assist,
                                     .wish = rcmi_no_wish,
                                     .wished = rcmi_none_wished};

static rcm_status play_open(struct played *channel, struct rcmi_channel **ret_channel) {
    fuzz_require(!channel->open, "a channel is opened once");
    channel->open = true;
    channel->base.transport = &play;
    channel->base.slot_bytes = SLOT_BYTES;
    atomic_store(&channel->base.state, RCM_OK);
    *ret_channel = &channel->base;
    return RCM_OK;
}

static rcm_status fuzz_open_writer(struct rcmi_channel **ret_channel, int peer) {
    out_of[peer].bytes = malloc(SLOT_BYTES);
    return play_open(&out_of[peer], ret_channel);
}

static rcm_status fuzz_open_reader(struct rcmi_channel **ret_channel, int peer) {
    return play_open(&in_of[peer], ret_channel);
}

static void fuzz_close(struct rcmi_channel *channel) {
    struct played *played = (struct played *)channel;
    if (!played)
        return;
    free(played->bytes);
    memset(played, 0, sizeof *played);
}

/* ---- Works --------------------------------------------------------------------------------- */

static void fuzz_complete(struct rcm_work *work, rcm_status status) {
    const struct rcmi_transfer *t = &work->transfer;
    fuzz_require(status == RCM_OK || status == RCM_ERR_TRUNCATED || status == RCM_ERR_ABORTED,
                 "a work ends well, truncated or with all others");
    if (work->kind == RCMI_WORK_RECV && status != RCM_ERR_ABORTED) {
        fuzz_require(work->message.source == t->peer, "who sent it is who was waited for");
        fuzz_require(t->done == t->total && work->message.bytes == t->total, "all of it came");
        fuzz_require((status == RCM_ERR_TRUNCATED) == (t->total > t->capacity),
                     "truncated is what is too long");
    }
    free(t->buffer);
    free(work);
    unfinished--;
}

static void fuzz_comm_fail(rcm_comm *which, const struct rcm_work *work) {
    (void)which;
    (void)work;
    failed = true;
}

static void post(struct fuzz_input *in, int peer, bool sends) {
    struct rcm_work *work = calloc(1, sizeof *work);
    const size_t bytes = fuzz_u16(in) % (4 * SLOT_BYTES);
    const uint8_t tag = fuzz_u8(in) % 8;
    fuzz_require(work != NULL, "there is memory");
    work->kind = sends ? RCMI_WORK_SEND : RCMI_WORK_RECV;
    work->comm = &comm;
    work->transfer = (struct rcmi_transfer){.peer = peer,
                                            .tag = tag == 7 && !sends ? RCM_ANY_TAG : tag,
                                            .buffer = malloc(bytes ? bytes : 1),
                                            .capacity = bytes,
                                            .total = bytes};
    if (sends && bytes)
        memset(work->transfer.buffer, 'd', bytes);
    unfinished++;
    rcmi_p2p_post(p2p, work);
}

/* ---- Arrivals ------------------------------------------------------------------------------ */

static void arrive(int peer, uint64_t meta, const void *head, size_t head_len, const void *bytes,
                   size_t len) {
    struct played *in = &in_of[peer];
    if (!in->open) { /* as the engine does when a peer opens its channel */
        rcmi_p2p_wanted(p2p, peer);
        failed = rcmi_p2p_progress(p2p, &(bool){false}) < 0 || failed;
    }
    if (head_len + len > SLOT_BYTES) /* the transport sees to that */
        len = SLOT_BYTES - head_len;
    in->bytes = malloc(head_len + len + 1);
    fuzz_require(in->bytes != NULL, "there is memory");
    if (head_len)
        memcpy(in->bytes, head, head_len);
    if (len)
        memcpy(in->bytes + head_len, bytes, len);
    in->len = head_len + len;
    in->meta = meta;
    in->full = true;
}

static void progress(void) {
    bool moved = false;
    if (rcmi_p2p_progress(p2p, &moved) < 0) {
        fuzz_require(rcm_last_error()[0] != '\0', "an error has a sentence");
        failed = true;
    }
    fuzz_require(failed || (!in_of[1].full && !in_of[2].full), "what arrives is taken at once");
}

static void arrive_message(struct fuzz_input *in, int peer, bool announced) {
    struct announcement said = {.header = {.tag = fuzz_u8(in) % 8, .total = fuzz_u16(in)}};
    struct header *header = &said.header;
    const uint8_t odd = fuzz_u8(in), id = fuzz_u8(in);
    size_t n = 0;
    fetching = id & 128; /* a piece for each step: three of 700 bytes, or none, can be read */
    said.from = id & 64 ? 300 : id & 32 ? UNFETCHABLE : 0;
    const uint8_t *bytes = fuzz_bytes(in, announced ? 0 : header->total, &n);
    if (!announced)
        header->total = odd == 255 ? header->total : n;
    else if (odd > 250)
        header->total <<= 8 * (odd - 250);
    /* The same many times: more than a sender may send unasked. */
    for (int i = odd == OFTEN ? 1 : MANY; i <= MANY && !failed; i++) {
        arrive(peer, meta_of(announced ? KIND_ANNOUNCE : KIND_EAGER, id & 31), &said,
               announced ? sizeof said : sizeof *header, bytes, n);
        progress();
    }
}

static void arrive_piece(struct fuzz_input *in, int peer, enum kind kind) {
    static uint8_t data[SLOT_BYTES];
    const uint8_t id = fuzz_u8(in);
    const size_t len = kind == KIND_DATA ? fuzz_u16(in) : 0;
    if (kind == KIND_READY && id & 128)
        kind = KIND_TAKEN;
    arrive(peer, meta_of(kind, id & 31), NULL, 0, data, len < SLOT_BYTES ? len : SLOT_BYTES);
}

static void arrive_bare(struct fuzz_input *in, int peer) {
    const uint8_t tag = fuzz_u8(in) % 8;
    size_t n = 0;
    const uint8_t *bytes = fuzz_bytes(in, fuzz_u16(in), &n);
    arrive(peer, meta_of_bare(tag, n), NULL, 0, bytes, n);
}

static void arrive_anything(struct fuzz_input *in, int peer) {
    const uint8_t kind = fuzz_u8(in);
    const uint64_t meta = meta_of((enum kind)(kind & 15), fuzz_u8(in)) ^ (uint64_t)(kind >> 4)
                                                                             << 33;
    size_t n;
    const uint8_t *bytes = fuzz_bytes(in, fuzz_u8(in), &n);
    arrive(peer, meta, NULL, 0, bytes, n);
}

/* A blocking call that goes the short way if it can; a receive with a message that just came. */
static void direct(struct fuzz_input *in, int peer, bool sends) {
    const size_t bytes = fuzz_u16(in) % SLOT_BYTES;
    const uint64_t tag = fuzz_u8(in) % 8;
    char *buffer = malloc(bytes ? bytes : 1);
    fuzz_require(buffer != NULL, "there is memory");
    memset(buffer, 'd', bytes ? bytes : 1);
    atomic_store(&comm.unfinished, unfinished);
    if (!sends) {
        struct announcement said = {.header = {.tag = fuzz_u8(in) % 8, .total = fuzz_u16(in)}};
        struct header *header = &said.header;
        const uint8_t kind = fuzz_u8(in);
        const size_t head = (kind & 7) == KIND_ANNOUNCE ? sizeof said : sizeof *header;
        size_t n = 0;
        const uint8_t *rest = fuzz_bytes(in, header->total, &n);
        header->total = kind & 128 ? header->total : n;
        if (!(kind & 64)) /* else nothing has come yet */
            arrive(peer, meta_right((enum kind)(kind & 7), kind >> 3 & 1, head + n), &said, head,
                   rest, n);
    }
    const rcm_status status =
        sends ? rcmi_p2p_send_now(&comm, peer, tag, buffer, bytes)
              : rcmi_p2p_receive_now(&comm, peer, tag == 7 ? RCM_ANY_TAG : tag, buffer, bytes);
    fuzz_require(status == RCM_OK || status == RCM_AGAIN, "the short way ends at once");
    fuzz_require(status == RCM_AGAIN || unfinished == 0, "and is for who has nothing else to do");
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
        arrive_piece(in, peer, op % 8 == 4 ? KIND_READY : KIND_DATA);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int world_rank[RANKS] = {0, 1, 2};
    struct fuzz_input in = {data, size};
    const uint8_t flags = fuzz_u8(&in);
    comm.engine = &engine;
    comm.size = RANKS;
    comm.slot_bytes = SLOT_BYTES;
    comm.fetch = RCMI_FETCH_MEASURED;
    comm.world_rank = world_rank;
    atomic_flag_clear(&comm.driving);
    unfinished = 0;
    failed = false;
    asked = 0;
    lending = flags & 1;
    play.shared_slots = flags & 8;
    expecting = flags & 2 && !play.shared_slots;
    filling = flags & 32;
    draining = flags & 64;
    engine.crowd = flags & 16 ? 2 : 1;
    engine.budget.spins = flags & 8 ? 2 : 0;
    fuzz_require(rcmi_p2p_create(&comm, &p2p) == RCM_OK, "there is memory");
    if (flags & 4)
        p2p->budget = 4 * SLOT_BYTES; /* so that credits are given */
    comm.p2p = p2p;
    for (int steps = 0; in.left > 0 && steps < STEPS && !failed; steps++)
        step(&in);
    fuzz_verdict = failed ? FUZZ_REFUSED : FUZZ_ACCEPTED;
    rcmi_p2p_cancel(p2p, RCM_ERR_ABORTED);
    fuzz_require(unfinished == 0, "every work ends");
    rcmi_p2p_free(p2p);
    return 0;
}
