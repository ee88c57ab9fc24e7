/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: what peers send to a running collective (algorithms/exec/exec_step.h,
 * exec_message.c, exec_out_of_band.c), on fake channels and a fake device: this file replaces links
 * and nodes. Rank 0 of three runs one collective, or two. Each step of the script is a message from
 * another rank on one of its channels: a correct one, one of another length or call, or the
 * announcement of an out-of-band payload, which comes or not.
 *
 *   byte 0     1: this rank's memory is on a device; 2: rank 2 is on another host; 4: a second
 *              run follows, of another call; 8 and 16: which collective
 *   bytes 1-3  elements of the block from and to each rank
 *   then       a script, see step()
 *
 * Buffers have exactly the necessary length, so that accesses beyond them are found.
 */
#include "fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"
#include "exec.h"
#include "operation.h"
#include "backend.h"

enum { RANKS = 3, SLOT_BYTES = 256, SLOTS = 4, STEPS = 100, NO_RANK = RANKS };
enum { FLAG_DEVICE = 1, FLAG_TWO_HOSTS = 2, FLAG_TWO_RUNS = 4, FLAG_COLLECTIVE = 8 };

static const int world[RANKS] = {0, 1, 2};

/* ---- A device -------------------------------------------------------------------------------- */

static struct rcmi_operation *begun; /* newest first */

static rcm_status device_begin(struct rcmi_operation *o) {
    o->next = begun;
    begun = o;
    return RCM_OK;
}

static void device_explain(int code, char *text, size_t cap) {
    snprintf(text, cap, "%d", code);
}

static const struct rcmi_mem_row device_row = {
    .name = "device memory", .begin = device_begin, .explain = device_explain};

/* False: nothing to do. */
static bool device_run(void) {
    struct rcmi_operation *o = begun;
    if (!o)
        return false;
    begun = o->next;
    fuzz_require(!o->reduces && o->nsrcs <= 1, "nothing is reduced");
    for (uint32_t i = 0; i < o->nresults && o->bytes > 0; i++)
        memmove(o->results[i], o->srcs[0], o->bytes);
    rcmi_operation_end(o, RCM_OK, 0);
    return true;
}

/* ---- Channels -------------------------------------------------------------------------------- */

struct message {
    uint8_t *bytes; /* NULL: it must be fetched with a get */
    size_t len;
    uint64_t meta;
};

struct fake_channel {
    struct rcmi_channel base;
    struct fake_channel *next;
    int peer;
    void *reserved; /* of a writer */
    size_t room;
    struct message queue[SLOTS]; /* of a reader, oldest first */
    int n;
};
static struct fake_channel *channels;
static bool announcing;           /* the payload goes by a channel of device memory */
static uint64_t announced[RANKS]; /* by this rank, and not sent yet */

static rcm_status fake_reserve(struct rcmi_channel *channel, size_t len,
                               struct rcmi_reserved *ret_reserved) {
    struct fake_channel *out = (struct fake_channel *)channel;
    fuzz_require(len <= channel->slot_bytes, "what is reserved fits a slot");
    free(out->reserved);
    out->reserved = malloc(len ? len : 1);
    out->room = len;
    fuzz_require(out->reserved != NULL, "there is memory");
    *ret_reserved = (struct rcmi_reserved){.bytes = out->reserved, .stores = RCMI_TEMPORAL};
    return RCM_OK;
}

/* Payloads announced on one channel go by the other, and no other data do. */
static void check_sent(const struct fake_channel *out, size_t len, uint64_t meta) {
    const bool out_of_band = out->base.transport->kind == RCMI_MEM_DEVICE;
    if (meta & RCMI_META_ELSEWHERE) {
        fuzz_require(announcing && !out_of_band && len == sizeof(uint64_t),
                     "an announcement is a length");
        fuzz_require(announced[out->peer] == 0, "one message is announced at a time");
        memcpy(&announced[out->peer], out->reserved, sizeof(uint64_t));
        fuzz_require(announced[out->peer] > 0, "and has a payload");
    } else if (announcing && out_of_band) {
        fuzz_require(announced[out->peer] == len, "a payload is as it was announced");
        announced[out->peer] = 0;
    }
}

static void fake_commit(struct rcmi_channel *channel, size_t len, uint64_t meta) {
    struct fake_channel *out = (struct fake_channel *)channel;
    fuzz_require(out->reserved && len <= out->room, "what is committed was reserved");
    check_sent(out, len, meta);
    free(out->reserved);
    out->reserved = NULL;
}

static rcm_status fake_peek(struct rcmi_channel *channel, struct rcmi_slot *ret_slot) {
    const struct fake_channel *in = (const struct fake_channel *)channel;
    if (in->n == 0)
        return RCM_AGAIN;
    const struct message *first = &in->queue[0];
    *ret_slot = (struct rcmi_slot){.bytes = first->bytes, .len = first->len, .meta = first->meta};
    return RCM_OK;
}

static void fake_release(struct rcmi_channel *channel) {
    struct fake_channel *in = (struct fake_channel *)channel;
    fuzz_require(in->n > 0, "what is released was there");
    free(in->queue[0].bytes);
    memmove(&in->queue[0], &in->queue[1], (size_t)--in->n * sizeof in->queue[0]);
}

static rcm_status fake_no_zero_copy(struct rcmi_channel *channel, const struct rcmi_mem *mem,
                                    uint64_t meta, bool may_get) {
    (void)channel;
    (void)mem;
    (void)meta;
    (void)may_get;
    return RCM_ERR_UNSUPPORTED; /* no error text: the caller uses slots */
}

static bool fake_completed(struct rcmi_channel *channel, uint64_t number) {
    (void)channel;
    (void)number;
    return true;
}

#define FAKE_FUNCTIONS                                                                             \
    .shared_slots = true, .bulk_scale = 1, .reserve = fake_reserve, .commit = fake_commit,         \
    .send_zero_copy = fake_no_zero_copy, .completed = fake_completed, .taken = rcmi_always_taken,  \
    .peek = fake_peek, .release = fake_release, .post_receive = rcmi_no_post_receive,              \
    .get = rcmi_no_get, .help = rcmi_no_help
static const struct rcmi_transport fake_host = {.name = "fake", FAKE_FUNCTIONS};
static const struct rcmi_transport fake_device = {
    .name = "fake_device", .kind = RCMI_MEM_DEVICE, FAKE_FUNCTIONS};

static rcm_status channel_new(int peer, uint32_t id, bool writer,
                              struct rcmi_channel **ret_channel) {
    const bool out_of_band = id & RCMI_ID_DEVICE;
    struct fake_channel *fake = calloc(1, sizeof *fake);
    fuzz_require(fake != NULL, "there is memory");
    *fake = (struct fake_channel){.next = channels, .peer = peer};
    fake->base.transport = out_of_band ? &fake_device : &fake_host;
    fake->base.slot_bytes = SLOT_BYTES * (out_of_band ? RCMI_DEVICE_SLOT_SCALE : 1);
    fake->base.slots = SLOTS;
    fake->base.id = id;
    fake->base.is_writer = writer;
    atomic_store(&fake->base.state, RCM_OK);
    channels = fake;
    *ret_channel = &fake->base;
    return RCM_OK;
}

/* ---- Replacements of transport/ -------------------------------------------------------------- */

rcm_status rcmi_channel_open_writer(struct rcmi_node *node, uint64_t epoch, uint32_t id,
                                    const int *readers, int nreaders,
                                    struct rcmi_channel **ret_channel) {
    (void)node;
    (void)epoch;
    return channel_new(nreaders == 1 ? readers[0] : NO_RANK, id, true, ret_channel);
}

rcm_status rcmi_channel_open_reader(struct rcmi_node *node, uint64_t epoch, uint32_t id, int writer,
                                    struct rcmi_channel **ret_channel) {
    (void)node;
    (void)epoch;
    return channel_new(writer, id, false, ret_channel);
}

void rcmi_channel_close(struct rcmi_channel *channel) {
    struct fake_channel **at = &channels;
    while (&(*at)->base != channel)
        at = &(*at)->next;
    struct fake_channel *fake = *at;
    *at = fake->next;
    for (int i = 0; i < fake->n; i++)
        free(fake->queue[i].bytes);
    free(fake->reserved);
    free(fake);
}

rcm_status rcmi_channel_state(const struct rcmi_channel *channel) {
    return (rcm_status)atomic_load(&channel->state);
}

bool rcmi_channel_peer_left(const struct rcmi_channel *channel) {
    (void)channel;
    return false;
}
bool rcmi_channel_was_ready(const struct rcmi_channel *channel) {
    return rcmi_channel_state(channel) == RCM_OK;
}
enum rcmi_rest rcmi_channel_rest(const struct rcmi_channel *channel) {
    (void)channel;
    return RCMI_REST_UNKNOWN;
}
rcm_status rcmi_channel_not_ready(const struct rcmi_channel *channel) {
    return rcmi_channel_state(channel);
}

bool rcmi_channel_may_zero_copy(const struct rcmi_channel *channel, const struct rcmi_mem *mem) {
    (void)channel;
    (void)mem;
    return false;
}

const struct rcmi_protocol *rcmi_node_protocol(const struct rcmi_node *node) {
    static const struct rcmi_range never = {1, 0};
    static struct rcmi_protocol protocol;
    (void)node;
    protocol.get = protocol.sum_non_temporal = protocol.copy_non_temporal = never;
    return &protocol;
}

bool rcmi_node_oversubscribed(const struct rcmi_node *node) {
    (void)node;
    return false;
}

void rcmi_node_ring(struct rcmi_node *node) {
    (void)node;
}

/* Not started: calls on it run at once. */
struct rcmi_loop *rcmi_node_loop(struct rcmi_node *node) {
    static struct rcmi_loop *loop;
    (void)node;
    if (!loop && rcmi_loop_create("fuzz", NULL, NULL, &loop) != RCM_OK)
        abort();
    return loop;
}

/* ---- A collective ---------------------------------------------------------------------------- */

/* The `direct` algorithm of each; the last collective has blocks of one length, and nothing may be
 * announced. */
static const struct {
    enum rcm_collective id;
    int root;
} collectives[4] = {
    {RCM_ALL_TO_ALL_V, 0}, {RCM_GATHER_V, 0}, {RCM_SCATTER_V, 1}, {RCM_ALL_GATHER, 0}};

struct job {
    struct rcmi_shape shape;
    int hosts[RANKS];
    enum rcmi_mem_kind kind;
    size_t count[RANKS];
    struct rcmi_block blocks[2 * RANKS];
    struct rcmi_bind bind;
    struct rcmi_plan *plan;
    struct rcmi_exec *exec;
    struct rcmi_run *run; /* NULL: none */
    /* Bytes of each rank's block that have arrived, and that were announced, counted by the
     * script. */
    size_t come[RANKS], announced_bytes[RANKS];
    bool failed;
};

static uint8_t letter(int rank) {
    return (uint8_t)('a' + rank);
}

static struct rcmi_mem mem_new(const struct job *job, size_t bytes) {
    struct rcmi_mem mem = {.bytes = calloc(1, bytes ? bytes : 1), .len = bytes, .kind = job->kind};
    fuzz_require(mem.bytes != NULL, "there is memory");
    return mem;
}

/* The rank that block i of IN goes to, or of OUT comes from. */
static int block_rank(const struct job *job, bool out, uint32_t i) {
    const struct rcmi_blocks *blocks = out ? &job->plan->out : &job->plan->in;
    if (blocks->n == RANKS)
        return (int)i;
    return job->bind.collective == RCM_SCATTER_V ? job->plan->root : 0; /* gathered: its own */
}

static void blocks_make(struct job *job) {
    const struct rcmi_plan *plan = job->plan;
    for (uint32_t i = 0; i < plan->in.n + plan->out.n; i++) {
        const bool out = i >= plan->in.n;
        const size_t count = job->count[block_rank(job, out, out ? i - plan->in.n : i)];
        job->blocks[i] = (struct rcmi_block){mem_new(job, count * sizeof(int64_t)), count};
        if (count > job->bind.count)
            job->bind.count = count;
    }
    job->bind.blocks = job->blocks;
    job->bind.in.kind = job->bind.out.kind = job->kind;
}

static void buffers_make(struct job *job) {
    const struct rcmi_plan *plan = job->plan;
    job->bind.count = job->bind.reported_count = job->count[0];
    job->count[1] = job->count[2] = job->count[0];
    job->bind.in = mem_new(job, plan->in.n * job->bind.count * sizeof(int64_t));
    job->bind.out = mem_new(job, plan->out.n * job->bind.count * sizeof(int64_t));
}

static void run_start(struct job *job) {
    job->bind.meta++;
    memset(job->come, 0, sizeof job->come);
    memset(job->announced_bytes, 0, sizeof job->announced_bytes);
    fuzz_require(rcmi_run_start(job->exec, &job->bind, &job->run) == RCM_OK, "a run begins");
}

static void job_begin(struct job *job, struct fuzz_input *in) {
    static struct rcmi_device *const none = NULL;
    const struct rcmi_algorithm *algorithm;
    const uint8_t flags = fuzz_u8(in), which = flags / FLAG_COLLECTIVE % 4;
    job->kind = flags & FLAG_DEVICE ? RCMI_MEM_DEVICE : RCMI_MEM_HOST;
    job->hosts[2] = flags & FLAG_TWO_HOSTS && collectives[which].id != RCM_ALL_GATHER;
    job->shape =
        (struct rcmi_shape){.nranks = RANKS, .nhosts = job->hosts[2] + 1, .host_of = job->hosts};
    for (int i = 0; i < RANKS; i++)
        job->count[i] = fuzz_u8(in);
    const struct rcmi_exec_config config = {.epoch = 1,
                                            .shape = &job->shape,
                                            .world_rank = world,
                                            .slot_bytes = SLOT_BYTES,
                                            .bulk_bytes = SLOT_BYTES,
                                            .slots = SLOTS,
                                            .device = &none};
    job->bind = (struct rcmi_bind){.collective = collectives[which].id,
                                   .dtype = RCM_INT64,
                                   .op = RCM_SUM,
                                   .meta = 76 | (flags & FLAG_DEVICE ? RCMI_META_DEVICE : 0)};
    const bool made =
        rcmi_algorithm_find(job->bind.collective, "direct", &job->shape, &algorithm) == RCM_OK &&
        algorithm->emit(algorithm, &job->shape, 0, collectives[which].root, &job->plan) == RCM_OK &&
        rcmi_exec_create(&config, &job->exec) == RCM_OK;
    fuzz_require(made, rcm_last_error());
    job->bind.plan = job->plan;
    announcing = job->bind.collective != RCM_ALL_GATHER;
    if (job->bind.collective == RCM_ALL_GATHER)
        buffers_make(job);
    else
        blocks_make(job);
    run_start(job);
}

static void job_end(struct job *job) {
    while (!rcmi_exec_quiesce(job->exec))
        fuzz_require(device_run(), "what runs ends");
    if (job->run)
        rcmi_run_end(job->run);
    rcmi_exec_free(job->exec);
    fuzz_require(!channels, "all channels are closed");
    for (int i = 0; i < 2 * RANKS; i++)
        free(job->blocks[i].mem.bytes);
    free(job->bind.in.bytes);
    free(job->bind.out.bytes);
    rcmi_plan_free(job->plan);
    memset(announced, 0, sizeof announced);
}

/* Each byte that another rank sends is the rank's letter. */
static void check_block(const struct rcmi_mem *mem, size_t at, size_t len, int from) {
    const uint8_t *bytes = mem->bytes;
    for (size_t i = 0; i < len && from != 0; i++)
        fuzz_require(bytes[at + i] == letter(from), "a result is what was sent");
}

static void check_results(const struct job *job) {
    const uint32_t n = job->plan->out.n;
    const size_t len = job->bind.count * sizeof(int64_t);
    for (uint32_t i = 0; i < n; i++) {
        const int from = block_rank(job, true, i);
        if (job->bind.blocks)
            check_block(&job->blocks[job->plan->in.n + i].mem, 0,
                        job->blocks[job->plan->in.n + i].mem.len, from);
        else
            check_block(&job->bind.out, i * len, len, from);
    }
    for (int r = 0; r < RANKS; r++)
        fuzz_require(announced[r] == 0, "what was announced was sent");
}

static void progress(struct job *job) {
    rcm_status status = RCM_AGAIN;
    bool moved = true;
    while (status == RCM_AGAIN && moved) {
        moved = false;
        status = rcmi_run_progress(job->run, &moved);
        while (device_run())
            moved = true;
    }
    if (status < 0) {
        const struct rcmi_error *error = rcmi_last_error();
        fuzz_require(status == RCM_ERR_PROTOCOL || status == RCM_ERR_MISMATCH,
                     "what a peer sends is wrong, or of another call");
        fuzz_require(error->origin == 1 || error->origin == 2, "and it is that peer's");
        fuzz_require(error->text[0] != '\0', "an error has a text");
        job->failed = true;
    } else if (status == RCM_OK) {
        check_results(job);
        rcmi_run_end(job->run);
        job->run = NULL;
    }
}

/* ---- The script ------------------------------------------------------------------------------ */

enum {
    TO_PEER_2 = 1,
    TO_DEVICE = 2, /* on the channel of device memory */
    OF_OTHER_CALL = 4,
    OF_OTHER_KIND = 8,
    NOT_LAST = 16, /* or the last, at the wrong place */
    ANNOUNCES = 32,
    ELSEWHERE = 64, /* flagged as an announcement, even if it is none */
    IS_FAR = 128,
};

static struct fake_channel *reader_of(int peer, bool out_of_band) {
    struct fake_channel *fake = channels;
    while (fake && (fake->base.is_writer || fake->peer != peer ||
                    (fake->base.transport->kind == RCMI_MEM_DEVICE) != out_of_band))
        fake = fake->next;
    return fake;
}

/* The rest of the peer's block, limited to one message. */
static size_t next_length(const struct job *job, int peer, size_t before) {
    const bool by_device = job->kind == RCMI_MEM_DEVICE && job->shape.nhosts == 1;
    const size_t most = SLOT_BYTES * (by_device ? RCMI_DEVICE_SLOT_SCALE : 1);
    const size_t left = job->count[peer] * sizeof(int64_t) - before;
    return left < most ? left : most;
}

/* 0: the right length; else the kind of error. */
static uint64_t wrong_length(struct fuzz_input *in, uint64_t right) {
    const uint8_t how = fuzz_u8(in);
    const uint64_t lengths[] = {right,     0,         UINT64_MAX, right + 1,
                                right - 1, right + 8, right * 2,  right | UINT64_C(1) << 32};
    return how < 8 ? lengths[how] : fuzz_u16(in);
}

static void message_fill(struct message *message, size_t len, int peer, const uint64_t *length) {
    message->len = len;
    message->bytes = malloc(len ? len : 1);
    fuzz_require(message->bytes != NULL, "there is memory");
    memset(message->bytes, letter(peer), len);
    if (length)
        memcpy(message->bytes, length, len < sizeof *length ? len : sizeof *length);
}

/* A message, or an announcement of the given size, 8 bytes unless changed. */
static void step(struct job *job, struct fuzz_input *in) {
    const uint8_t op = fuzz_u8(in);
    const int peer = op & TO_PEER_2 ? 2 : 1;
    struct fake_channel *reader = reader_of(peer, op & TO_DEVICE);
    size_t *before = op & ANNOUNCES ? &job->announced_bytes[peer] : &job->come[peer];
    const size_t right = next_length(job, peer, *before);
    const uint64_t length = wrong_length(in, right);
    const uint8_t odd = op & ANNOUNCES ? fuzz_u8(in) : 0;
    if (!reader || reader->n == SLOTS)
        return;
    struct message *message = &reader->queue[reader->n++];
    if (op & ANNOUNCES)
        message_fill(message, odd ? odd : sizeof length, peer, &length);
    else
        message_fill(message, length < reader->base.slot_bytes ? length : reader->base.slot_bytes,
                     peer, NULL);
    const bool last = *before + right == job->count[peer] * sizeof(int64_t);
    message->meta = job->bind.meta ^ (op & OF_OTHER_CALL ? 3 : 0) ^
                    (op & OF_OTHER_KIND ? RCMI_META_DEVICE : 0) ^
                    (last != !!(op & NOT_LAST) ? RCMI_META_LAST : 0) ^
                    (op & (ANNOUNCES | ELSEWHERE) ? RCMI_META_ELSEWHERE : 0);
    if (op & IS_FAR) {
        free(message->bytes);
        message->bytes = NULL;
    }
    *before += right;
    if (!(op & (ANNOUNCES | TO_DEVICE)))
        job->announced_bytes[peer] += right;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static bool there;
    struct fuzz_input in = {data, size};
    struct job job = {.run = NULL};
    bool again = size > 0 && data[0] & FLAG_TWO_RUNS;
    if (!there)
        rcmi_mem_kind_add(RCMI_MEM_DEVICE, &device_row);
    there = true;
    job_begin(&job, &in);
    progress(&job);
    for (int steps = 0; in.left > 0 && steps < STEPS && job.run && !job.failed; steps++) {
        step(&job, &in);
        progress(&job);
        if (!job.run && again) {
            again = false;
            run_start(&job);
            progress(&job);
        }
    }
    fuzz_verdict = job.failed ? FUZZ_REFUSED : job.run ? FUZZ_UNKNOWN : FUZZ_ACCEPTED;
    job_end(&job);
    return 0;
}
