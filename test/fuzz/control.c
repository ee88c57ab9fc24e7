/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: what a peer sends on a control stream while we open, use and close channels
 * (transport/link/control.c, opening.c, channel.c, link.c, and the parts of shm and tcp that read
 * offers).
 *
 *   byte 0   bit 0: tcp, else shm; bit 1: the script makes the peer's offer
 *   then     a script, see step(); its writes to the peer's shared memory are in `segment`
 */
#include "node.h"
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../../transport/shm/shm.h"

enum { STEPS = 100, CHANNELS = 6, SEGMENT = SHM_HEAD_BYTES + 16384, EPOCH = 1 };

/* Descriptors that the peer may send: valid memory; too small; not sealed; a valid eventfd; a
 * blocking one; no memory. */
enum { FD_SEGMENT, FD_SMALL, FD_UNSEALED, FD_EVENT, FD_BLOCKING, FD_NULL, FDS };
static int fds[FDS];
static uint8_t *segment;

static void fds_make(void) {
    void *base = NULL;
    fds[FD_UNSEALED] = memfd_create("fuzz", MFD_CLOEXEC);
    fds[FD_EVENT] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    fds[FD_BLOCKING] = eventfd(0, EFD_CLOEXEC);
    fds[FD_NULL] = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool made = rcmi_memfd_create("fuzz", SEGMENT, &fds[FD_SEGMENT]) == RCM_OK &&
                rcmi_memfd_create("fuzz", SHM_PAGE, &fds[FD_SMALL]) == RCM_OK &&
                rcmi_memfd_map(fds[FD_SEGMENT], SEGMENT, &base) == RCM_OK;
    for (int i = 0; i < FDS; i++)
        made = made && fds[i] >= 0;
    fuzz_require(made && ftruncate(fds[FD_UNSEALED], SEGMENT) == 0, "descriptors can be made");
    segment = base;
}

static void segment_reset(void) {
    struct shm_head *head = (struct shm_head *)segment;
    memset(segment, 0, SEGMENT);
    head->magic = SHM_MAGIC;
    head->job = FUZZ_JOB;
    head->rank = FUZZ_PEER;
}

/* ---- Channels ------------------------------------------------------------------------------ */

struct side {
    struct rcmi_node *node;
    bool tcp;
    int control, data; /* the peer's ends; -1: none */
    struct rcmi_channel *channels[CHANNELS];
};

static void open_channel(struct side *side, bool writer, uint8_t which) {
    const int readers[2] = {FUZZ_PEER, FUZZ_RANK};
    const bool multicast = which & 0x40;
    const uint32_t id = (which & 7u) | (multicast ? RCMI_ID_MULTICAST : 0);
    struct rcmi_channel **slot = &side->channels[which % CHANNELS];
    if (*slot)
        return;
    if (writer)
        (void)!rcmi_channel_open_writer(side->node, EPOCH, id, readers, multicast ? 2 : 1, slot);
    else
        (void)!rcmi_channel_open_reader(side->node, EPOCH, id, FUZZ_PEER, slot);
}

/* A piece of a message that must be fetched. */
static void get_message(struct rcmi_channel *channel, const struct rcmi_slot *slot) {
    static uint8_t place[RCMI_GET_MAX];
    bool moved = false;
    fuzz_require(slot->len <= sizeof place, "no more is got than may be");
    const struct rcmi_mem mem = rcmi_mem_host(place, slot->len);
    if (rcmi_channel_get(channel, &mem, slot->remote, false, &moved) == RCM_OK)
        rcmi_channel_release(channel);
}

/* An arrived message is in readable memory, and no longer than a slot. */
static void use_channel(struct rcmi_channel *channel, uint8_t what) {
    struct rcmi_slot slot;
    struct rcmi_reserved reserved;
    if (channel->is_writer) {
        if (rcmi_channel_reserve(channel, 0, &reserved) == RCM_OK) {
            memset(reserved.bytes, what, what % (FUZZ_SLOT_BYTES + 1));
            rcmi_channel_commit(channel, what % (FUZZ_SLOT_BYTES + 1), what);
        }
    } else if (rcmi_channel_peek(channel, &slot) == RCM_OK) {
        unsigned sum = 0;
        if (!slot.bytes) {
            get_message(channel, &slot);
            return;
        }
        fuzz_require(slot.len <= FUZZ_SLOT_BYTES, "a message fits its slot");
        for (size_t i = 0; i < slot.len; i++)
            sum += ((const volatile uint8_t *)slot.bytes)[i];
        fuzz_require(sum <= 255 * slot.len, "bytes can be read");
        fuzz_require(rcmi_channel_rest(channel) != RCMI_REST_COMING, "what is here has come");
        rcmi_channel_release(channel);
    } else {
        (void)rcmi_channel_rest(channel);
    }
}

/* ---- The script ---------------------------------------------------------------------------- */

static void send_frame(struct side *side, struct fuzz_input *in) {
    int with[RCMI_FDS_MAX], nfds, type = fuzz_u8(in);
    uint16_t choice = fuzz_u16(in);
    size_t len = fuzz_u16(in), n;
    const uint8_t *body = fuzz_bytes(in, len, &n);
    for (nfds = 0; nfds < RCMI_FDS_MAX && choice % 8 > 0; choice /= 8)
        with[nfds++] = fds[(choice % 8 - 1) % FDS];
    fuzz_frame(side->control, type, body, n, with, side->tcp ? 0 : nfds);
}

/* Dials the data connection. */
static void send_data_hello(struct side *side) {
    const struct rcmi_hello hello = fuzz_hello(RCMI_HELLO_DATA, side->tcp ? "tcp" : "shm");
    int fd = fuzz_node_accept(side->node, !side->tcp);
    fuzz_write(fd, &hello, sizeof hello);
    fuzz_node_turn(side->node);
    if (side->data >= 0)
        close(side->data);
    side->data = fd;
}

static void step(struct side *side, struct fuzz_input *in) {
    uint8_t op = fuzz_u8(in);
    struct rcmi_channel **channel = &side->channels[op / 16 % CHANNELS];
    const uint8_t *bytes;
    size_t n, at;
    switch (op % 16) {
    case 0: /* a frame: type, which descriptors, length, body */
        send_frame(side, in);
        break;
    case 1: /* bytes on the control stream: length, bytes */
        at = fuzz_u16(in);
        bytes = fuzz_bytes(in, at, &n);
        fuzz_write(side->control, bytes, n);
        break;
    case 2: /* we open a channel: which */
    case 3:
        open_channel(side, op % 16 == 2, fuzz_u8(in));
        break;
    case 4: /* we close one */
        rcmi_channel_close(*channel);
        *channel = NULL;
        break;
    case 5: /* we use one: length */
        if (*channel)
            use_channel(*channel, fuzz_u8(in));
        break;
    case 6: /* the peer writes into its memory: where, in words of 8 bytes, length, bytes */
        at = 8 * (size_t)fuzz_u16(in) % SEGMENT;
        bytes = fuzz_bytes(in, fuzz_u8(in), &n);
        memcpy(segment + at, bytes, n < SEGMENT - at ? n : SEGMENT - at);
        break;
    case 7: /* bytes on the data connection */
        at = fuzz_u16(in);
        bytes = fuzz_bytes(in, at, &n);
        if (side->data >= 0)
            fuzz_write(side->data, bytes, n);
        break;
    case 8:
        send_data_hello(side);
        break;
    case 9: /* we send something */
        (void)!rcmi_node_send(side->node, FUZZ_PEER, "hello", 5);
        break;
    case 10: /* we leave */
        side->node->leaving = true;
        rcmi_link_send_bye(fuzz_node_link(side->node));
        break;
    default:
        break;
    }
    fuzz_node_turn(side->node);
    fuzz_drain(side->control);
    if (side->data >= 0)
        fuzz_drain(side->data);
}

/* The peer's offer, data connection and ready message, all valid. */
static void set_up(struct side *side) {
    const uint32_t streams = 1;
    static const uint64_t self[3]; /* head and process: nowhere */
    const int with[2] = {fds[FD_SEGMENT], fds[FD_EVENT]};
    if (side->tcp)
        fuzz_frame(side->control, RCMI_FRAME_OFFER, &streams, sizeof streams, NULL, 0);
    else
        fuzz_frame(side->control, RCMI_FRAME_OFFER, self, sizeof self, with, 2);
    fuzz_node_turn(side->node);
    if (side->tcp)
        send_data_hello(side);
    fuzz_frame(side->control, RCMI_FRAME_READY, NULL, 0, NULL, 0);
    fuzz_node_turn(side->node);
    fuzz_require(rcmi_link_state(fuzz_node_link(side->node)) == RCMI_LINK_UP,
                 "an orderly link comes up");
}

static void judge(const struct side *side) {
    switch (rcmi_link_state(fuzz_node_link(side->node))) {
    case RCMI_LINK_UP:
        fuzz_verdict = FUZZ_ACCEPTED;
        for (int i = 0; i < CHANNELS; i++)
            if (side->channels[i] && rcmi_channel_state(side->channels[i]) < 0)
                fuzz_verdict = FUZZ_REFUSED;
        break;
    case RCMI_LINK_LOST:
        fuzz_verdict = FUZZ_REFUSED;
        break;
    default:
        fuzz_verdict = FUZZ_UNKNOWN;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    struct side side = {.data = -1};
    if (!segment)
        fds_make();
    segment_reset();
    uint8_t flags = fuzz_u8(&in);
    side.tcp = flags & 1;
    side.node = fuzz_node(NULL);
    side.control = fuzz_node_greet(side.node, side.tcp ? "tcp" : "shm");
    if (!(flags & 2))
        set_up(&side);
    for (int steps = 0; in.left > 0 && steps < STEPS; steps++)
        step(&side, &in);
    judge(&side);
    for (int i = 0; i < CHANNELS; i++)
        rcmi_channel_close(side.channels[i]);
    close(side.control);
    if (side.data >= 0)
        close(side.data);
    fuzz_node_turn(side.node);
    return 0;
}
