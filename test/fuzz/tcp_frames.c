/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: data that arrive on a data socket of the tcp transport (transport/tcp/rx.c), at a
 * link with a channel in each direction. The input is a script, see step(). Openings are reflected:
 * our offer as a writer is the peer's offer and answer, so that this file is independent of its
 * format.
 */
#include "node.h"
#include <string.h>
#include <unistd.h>

enum { STEPS = 200, EPOCH = 1, ID = 2, HEADER = 8, OPEN_BODY = 40, ACK_BODY = 8 };

struct side {
    struct rcmi_node *node;
    int control, data; /* the peer's ends */
    struct rcmi_channel *writer, *reader;
    uint8_t zero_copy[FUZZ_SLOT_BYTES];
    uint8_t place[256]; /* as much as a step can use */
};

/* Our OPEN; returns the transport's part. */
static size_t take_open(struct side *side, uint8_t *ret_blob) {
    uint8_t bytes[1024];
    size_t got = 0, at = 0;
    uint32_t len;
    (void)!rcmi_fd_read(side->control, bytes, sizeof bytes, &got);
    for (; at + HEADER <= got; at += HEADER + len) {
        memcpy(&len, bytes + at, 4);
        if (bytes[at + 4] != RCMI_FRAME_OPEN)
            continue;
        fuzz_require(at + HEADER + len <= got && len >= OPEN_BODY, "we open in one piece");
        memcpy(ret_blob, bytes + at + HEADER + OPEN_BODY, len - OPEN_BODY);
        return len - OPEN_BODY;
    }
    fuzz_require(false, "we open a channel");
    return 0;
}

static void channels_open(struct side *side) {
    const int peer = FUZZ_PEER;
    const uint32_t open[10] = {EPOCH, 0, FUZZ_SLOT_BYTES, 0, 9, ID, 1, 0, FUZZ_SLOTS, 0};
    const uint32_t ack[2] = {side->node->serial + 1, RCM_OK};
    uint8_t body[OPEN_BODY + RCMI_BLOB_MAX], blob[RCMI_BLOB_MAX];
    fuzz_require(rcmi_channel_open_writer(side->node, EPOCH, ID, &peer, 1, &side->writer) ==
                         RCM_OK &&
                     rcmi_channel_open_reader(side->node, EPOCH, ID, peer, &side->reader) == RCM_OK,
                 "channels can be opened");
    fuzz_node_turn(side->node);
    size_t len = take_open(side, blob);
    memcpy(body, ack, ACK_BODY);
    memcpy(body + ACK_BODY, blob, len);
    fuzz_frame(side->control, RCMI_FRAME_ACK, body, ACK_BODY + len, NULL, 0);
    memcpy(body, open, OPEN_BODY);
    memcpy(body + OPEN_BODY, blob, len);
    fuzz_frame(side->control, RCMI_FRAME_OPEN, body, OPEN_BODY + len, NULL, 0);
    fuzz_node_turn(side->node);
    fuzz_require(rcmi_channel_state(side->writer) == RCM_OK &&
                     rcmi_channel_state(side->reader) == RCM_OK,
                 "orderly channels are ready");
}

static void link_make(struct side *side) {
    const uint32_t streams = 1;
    const struct rcmi_hello hello = fuzz_hello(RCMI_HELLO_DATA, "tcp");
    side->node = fuzz_node(NULL);
    side->control = fuzz_node_greet(side->node, "tcp");
    fuzz_frame(side->control, RCMI_FRAME_OFFER, &streams, sizeof streams, NULL, 0);
    fuzz_node_turn(side->node);
    side->data = fuzz_node_accept(side->node, false);
    fuzz_write(side->data, &hello, sizeof hello);
    fuzz_frame(side->control, RCMI_FRAME_READY, NULL, 0, NULL, 0);
    fuzz_node_turn(side->node);
    fuzz_require(rcmi_link_state(fuzz_node_link(side->node)) == RCMI_LINK_UP,
                 "an orderly link comes up");
    fuzz_drain(side->data);
    fuzz_drain(side->control);
}

static void receive(struct side *side) {
    struct rcmi_slot slot;
    unsigned sum = 0;
    if (!side->reader || rcmi_channel_peek(side->reader, &slot) != RCM_OK)
        return;
    fuzz_require(slot.len <= FUZZ_SLOT_BYTES, "a message fits its slot");
    for (size_t i = 0; i < slot.len; i++)
        sum += ((const uint8_t *)slot.bytes)[i];
    fuzz_require(sum <= 255 * slot.len, "bytes can be read");
    rcmi_channel_release(side->reader);
}

static void transmit(struct side *side, uint8_t len) {
    struct rcmi_reserved reserved;
    if (!side->writer || rcmi_channel_reserve(side->writer, 0, &reserved) != RCM_OK)
        return;
    memset(reserved.bytes, len, len % (FUZZ_SLOT_BYTES + 1));
    rcmi_channel_commit(side->writer, len % (FUZZ_SLOT_BYTES + 1), len);
}

static void step(struct side *side, struct fuzz_input *in) {
    uint8_t op = fuzz_u8(in);
    const uint8_t *bytes;
    size_t want, n;
    switch (op % 8) {
    case 0: /* bytes on the data socket: length, bytes */
        want = fuzz_u16(in);
        bytes = fuzz_bytes(in, want, &n);
        fuzz_write(side->data, bytes, n);
        break;
    case 1:
        receive(side);
        break;
    case 2:
        transmit(side, fuzz_u8(in));
        break;
    case 3: /* memory posted for the next message */
        if (side->reader)
            (void)rcmi_channel_post_receive(
                side->reader,
                &(struct rcmi_posted){.mem = rcmi_mem_host(side->place, (size_t)(op / 8 * 8))});
        break;
    case 4:
        if (side->writer)
            (void)!rcmi_channel_send_zero_copy(
                side->writer, &(struct rcmi_mem){.bytes = side->zero_copy, .len = op / 8}, op,
                false);
        break;
    case 5:
        rcmi_channel_close(side->reader);
        side->reader = NULL;
        break;
    case 6:
        rcmi_channel_close(side->writer);
        side->writer = NULL;
        break;
    default:
        break;
    }
    fuzz_node_turn(side->node);
    fuzz_drain(side->data);
    fuzz_drain(side->control);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct side side;
    struct fuzz_input in = {data, size};
    side.writer = side.reader = NULL;
    link_make(&side);
    channels_open(&side);
    for (int steps = 0; in.left > 0 && steps < STEPS; steps++)
        step(&side, &in);
    bool up = rcmi_link_state(fuzz_node_link(side.node)) == RCMI_LINK_UP;
    fuzz_verdict = up ? FUZZ_ACCEPTED : FUZZ_REFUSED;
    if (side.reader) /* the memory is ours again */
        (void)rcmi_channel_post_receive(side.reader, NULL);
    rcmi_channel_close(side.reader);
    rcmi_channel_close(side.writer);
    close(side.control);
    close(side.data);
    fuzz_node_turn(side.node);
    return 0;
}
