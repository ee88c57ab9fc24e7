/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The tcp transport without the framework: two links of one process over a socket pair, or one link
 * with a peer that sends invalid frames. Where messages arrive: test_tcp_receive_memory.c.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include "tcp_link_pair.h"

/* ---- Two links ----------------------------------------------------------------------------- */

static void read_pad(int fd) {
    struct tcp_header header;
    static uint8_t bytes[TCP_PAD];
    assert_int_equal(recv(fd, &header, sizeof header, MSG_WAITALL), sizeof header);
    assert_int_equal(header.kind, TCP_HEADER_PAD);
    assert_int_equal(header.len, TCP_PAD);
    assert_int_equal(recv(fd, bytes, sizeof bytes, MSG_WAITALL), sizeof bytes);
}

/* A connection within a host uses no congestion control, and its first frame is a pad. */
static void home(void **state) {
    (void)state;
    struct end end;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    char name[16] = "";
    socklen_t name_len = sizeof name;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    const int dialled = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(dialled, (struct sockaddr *)&at, len), 0);
    const int accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(accepted >= 0);
    end_open(&end);
    assert_int_equal(tcp->link_attach(&end.link, 0, accepted), RCM_OK);
    assert_int_equal(getsockopt(accepted, IPPROTO_TCP, TCP_CONGESTION, name, &name_len), 0);
    assert_string_equal(name, "reno");
    read_pad(dialled);
    end_close(&end);
    close(dialled);
    close(listener);
}

/* Messages through a socket buffer smaller than one of them, so that frames are cut anywhere;
 * reserved, zero-copy and posted in turn. */
static void tiny_buffer(void **state) {
    (void)state;
    struct two two;
    struct tcp_channel writer, reader;
    static uint8_t whole[8192], place[8192];
    uint64_t sent = 0, got = 0;
    two_open(&two, 4096);
    channel_make(&two.a, &two.b, &writer, &reader);
    for (int step = 0; got < 500 && step < 100000; step++) {
        void *slot = NULL;
        struct rcmi_slot message;
        size_t len = (size_t)(sent * 977 % 8193);
        if (sent % 3 == 2 && sent < 500 &&
            rcmi_channel_completed(&writer.base, rcmi_channel_sent(&writer.base))) {
            memset(whole, (int)(sent & 0xff), len);
            if (zero_copy(&writer.base, whole, len, sent, false) == RCM_OK)
                sent++;
        } else if (sent % 3 != 2 && sent < 500 && reserve_slot(&writer.base, &slot) == RCM_OK) {
            memset(slot, (int)(sent & 0xff), len);
            rcmi_channel_commit(&writer.base, len, sent++);
        }
        tcp->progress(&two.a.domain);
        if (step % 2)
            tcp->progress(&two.b.domain);
        if (step % 7 == 0)
            post(&reader.base, step % 14 ? place : NULL, step % 14 ? 8192 : 0);
        if (rcmi_channel_peek(&reader.base, &message) != RCM_OK)
            continue;
        assert_int_equal(message.meta, got);
        assert_int_equal(message.len, got * 977 % 8193);
        for (size_t i = 0; i < message.len; i++)
            assert_int_equal(((const uint8_t *)message.bytes)[i], got & 0xff);
        rcmi_channel_release(&reader.base);
        got++;
    }
    assert_int_equal(got, 500);
    assert_int_equal(two_failed(&two), 0);
    channel_end(&writer);
    channel_end(&reader);
    two_close(&two);
}

/* A writer is closed while the socket is full: everything it committed still arrives, and the other
 * channels are not affected. */
static void closed_writer(void **state) {
    (void)state;
    static uint8_t whole[8192];
    struct two two;
    struct tcp_channel writer, reader, next_writer, next_reader;
    struct rcmi_slot message;
    void *slot = NULL;
    two_open(&two, 4096);
    channel_make(&two.a, &two.b, &writer, &reader);
    channel_make(&two.a, &two.b, &next_writer, &next_reader);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(reserve_slot(&writer.base, &slot), RCM_OK);
        memset(slot, 'a' + i, 8192);
        rcmi_channel_commit(&writer.base, 8192, (uint64_t)i);
    }
    memset(whole, 'd', 8192);
    assert_int_equal(zero_copy(&writer.base, whole, 8192, 3, false), RCM_OK);
    assert_false(rcmi_channel_completed(&writer.base, rcmi_channel_sent(&writer.base)));
    assert_int_equal(reserve_slot(&writer.base, &slot), RCM_AGAIN);
    tcp->writer_close(&writer.base);
    assert_true(rcmi_channel_completed(&writer.base, rcmi_channel_sent(&writer.base)));
    memset(whole, 'z', 8192); /* owned by the user again */
    channel_end(&writer);
    assert_int_equal(reserve_slot(&next_writer.base, &slot), RCM_OK);
    rcmi_channel_commit(&next_writer.base, 10, 7);
    for (int i = 0, n = 0; n < 4 && i < 10000; i++) {
        tcp->progress(&two.a.domain);
        tcp->progress(&two.b.domain);
        if (rcmi_channel_peek(&reader.base, &message) != RCM_OK)
            continue;
        assert_int_equal(message.meta, n);
        assert_int_equal(message.len, 8192);
        assert_int_equal(((const uint8_t *)message.bytes)[8191], 'a' + n);
        rcmi_channel_release(&reader.base);
        n++;
    }
    for (int i = 0; i < 10; i++) {
        tcp->progress(&two.a.domain);
        tcp->progress(&two.b.domain);
    }
    assert_int_equal(rcmi_channel_peek(&next_reader.base, &message), RCM_OK);
    assert_int_equal(message.meta, 7);
    assert_int_equal(two_failed(&two), 0);
    channel_end(&reader);
    channel_end(&next_writer);
    channel_end(&next_reader);
    two_close(&two);
}

/* A reader is closed in the middle of a message: the rest is dropped, other channels continue. */
static void closed_reader(void **state) {
    (void)state;
    struct two two;
    struct tcp_channel writer, reader, next_writer, next_reader, later_writer, later_reader;
    struct rcmi_slot message;
    void *slot = NULL;
    two_open(&two, 4096);
    channel_make(&two.a, &two.b, &writer, &reader);
    channel_make(&two.a, &two.b, &next_writer, &next_reader);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(reserve_slot(&writer.base, &slot), RCM_OK);
        memset(slot, i, 8192);
        rcmi_channel_commit(&writer.base, 8192, 0);
    }
    tcp->progress(&two.b.domain);
    assert_true(two.b.link.streams[0].rx.in_payload);
    channel_end(&reader);
    /* Uses the same entry of the table, but does not get the frames still in flight. */
    channel_make(&two.a, &two.b, &later_writer, &later_reader);
    assert_int_equal(later_reader.index & 0xffff, writer.far_index & 0xffff);
    assert_int_equal(reserve_slot(&next_writer.base, &slot), RCM_OK);
    rcmi_channel_commit(&next_writer.base, 10, 7);
    for (int i = 0; i < 100; i++) {
        tcp->progress(&two.a.domain);
        tcp->progress(&two.b.domain);
    }
    assert_int_equal(rcmi_channel_peek(&next_reader.base, &message), RCM_OK);
    assert_int_equal(message.meta, 7);
    assert_int_equal(rcmi_channel_peek(&later_reader.base, &message), RCM_AGAIN);
    assert_int_equal(two_failed(&two), 0);
    channel_end(&later_writer);
    channel_end(&later_reader);
    channel_end(&writer);
    channel_end(&next_writer);
    channel_end(&next_reader);
    two_close(&two);
}

/* The link goes down with everything full: zero-copy memory is released. */
static void down_when_full(void **state) {
    (void)state;
    struct two two;
    struct tcp_channel writer, reader;
    static const uint8_t whole[8192];
    two_open(&two, 4096);
    channel_make(&two.a, &two.b, &writer, &reader);
    for (int i = 0; i < 4; i++)
        assert_int_equal(zero_copy(&writer.base, whole, 8192, 0, false), RCM_OK);
    assert_int_equal(zero_copy(&writer.base, whole, 8192, 0, false), RCM_AGAIN);
    assert_false(rcmi_channel_completed(&writer.base, rcmi_channel_sent(&writer.base)));
    tcp->link_down(&two.a.link);
    assert_true(rcmi_channel_completed(&writer.base, rcmi_channel_sent(&writer.base)));
    for (int i = 0; i < 10; i++)
        tcp->progress(&two.b.domain);
    assert_int_equal(end_failed(&two.b), 1); /* it reads the end of the stream, once */
    channel_end(&writer);
    channel_end(&reader);
    two_close(&two);
}

/* ---- The loop ------------------------------------------------------------------------------ */

static void nap(void) {
    usleep(200);
}

/* The loop sends what a full socket did not accept, although no thread makes progress or arms. */
static void loop_sends(void **state) {
    (void)state;
    struct two two;
    struct tcp_channel writer, reader;
    struct rcmi_slot message;
    void *slot = NULL;
    two_open(&two, 4096);
    channel_make(&two.a, &two.b, &writer, &reader);
    atomic_store(&two.a.domain.armed, false); /* as if the arming at the start were used up */
    assert_int_equal(rcmi_loop_start(two.a.node.loop), RCM_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(reserve_slot(&writer.base, &slot), RCM_OK);
        memset(slot, i, 8192);
        rcmi_channel_commit(&writer.base, 8192, (uint64_t)i);
    }
    for (int i = 0, n = 0; n < 4; i++) {
        assert_true(i < 20000);
        tcp->progress(&two.b.domain);
        if (rcmi_channel_peek(&reader.base, &message) != RCM_OK) {
            nap();
            continue;
        }
        assert_int_equal(message.meta, n++);
        rcmi_channel_release(&reader.base);
    }
    channel_end(&writer);
    channel_end(&reader);
    two_close(&two);
}

static void ring_wait(const struct end *end, uint32_t before) {
    for (int i = 0; end_rings(end) == before; i++) {
        assert_true(i < 20000);
        nap();
    }
}

/* Half a message wakes the loop, which rings: otherwise a sleeper would never arm for the rest. */
static void loop_rings(void **state) {
    (void)state;
    struct two two;
    struct tcp_channel writer, reader;
    struct rcmi_slot message;
    two_open(&two, 0);
    channel_make(&two.a, &two.b, &writer, &reader);
    assert_int_equal(rcmi_loop_start(two.b.node.loop), RCM_OK);
    struct tcp_header header = {TCP_HEADER_DATA, reader.index, 100, 5};
    static const uint8_t payload[100];
    const int fd = two.a.link.streams[0].fd;
    uint32_t rings = end_rings(&two.b);
    tcp->arm(&two.b.domain);
    tcp->arm(&two.b.domain);
    assert_int_equal(write(fd, &header, sizeof header), sizeof header);
    ring_wait(&two.b, rings);
    assert_int_equal(rcmi_channel_peek(&reader.base, &message), RCM_AGAIN);
    for (int i = 0; atomic_load(&two.b.domain.armed); i++) {
        assert_true(i < 20000);
        nap();
    }
    rings = end_rings(&two.b);
    tcp->arm(&two.b.domain);
    assert_int_equal(write(fd, payload, sizeof payload), sizeof payload);
    ring_wait(&two.b, rings);
    assert_int_equal(rcmi_channel_peek(&reader.base, &message), RCM_OK);
    assert_int_equal(message.meta, 5);
    channel_end(&writer);
    channel_end(&reader);
    two_close(&two);
}

/* ---- A peer that sends invalid frames ------------------------------------------------------ */

struct bad_peer {
    struct end end;
    int fd;
    struct tcp_channel writer, reader;
};

static void bad_peer_open(struct bad_peer *bad_peer) {
    struct rcmi_blob blob = {.len = 0}, answer = {.len = 0};
    void *const links[1] = {&bad_peer->end.link};
    int fds[2];
    socket_pair(fds, 0);
    end_open(&bad_peer->end);
    assert_int_equal(tcp->link_attach(&bad_peer->end.link, 0, fds[0]), RCM_OK);
    bad_peer->fd = fds[1];
    channel_set(&bad_peer->writer, &bad_peer->end, true);
    channel_set(&bad_peer->reader, &bad_peer->end, false);
    assert_int_equal(tcp->writer_init(&bad_peer->writer.base, links, 1), RCM_OK);
    assert_int_equal(tcp->reader_init(&bad_peer->reader.base, &bad_peer->end.link), RCM_OK);
    assert_int_equal(tcp->writer_offer(&bad_peer->writer.base, 0, &blob), RCM_OK);
    assert_int_equal(tcp->reader_accept(&bad_peer->reader.base, &blob, &answer), RCM_OK);
    assert_int_equal(tcp->writer_attach(&bad_peer->writer.base, 0, &answer), RCM_OK);
}

static void bad_peer_close(struct bad_peer *bad_peer) {
    channel_end(&bad_peer->writer);
    channel_end(&bad_peer->reader);
    end_close(&bad_peer->end);
    close(bad_peer->fd);
}

/* The frame must end the link with an error that contains `word`. */
static void frame_ends_link(struct tcp_header header, const char *word) {
    struct bad_peer bad_peer;
    struct rcmi_slot message;
    bad_peer_open(&bad_peer);
    if (header.index == 1000)
        header.index = bad_peer.reader.index;
    else if (header.index == 2000)
        header.index = bad_peer.writer.index;
    assert_int_equal(write(bad_peer.fd, &header, sizeof header), sizeof header);
    tcp->progress(&bad_peer.end.domain);
    assert_int_equal(end_failed(&bad_peer.end), 1);
    assert_int_equal(rcmi_last_error()->status, RCM_ERR_PROTOCOL);
    assert_int_equal(rcmi_last_error()->origin, 1);
    assert_non_null(strstr(rcmi_last_error()->text, word));
    assert_int_equal(tcp->peek(&bad_peer.reader.base, &message), RCM_AGAIN);
    bad_peer_close(&bad_peer);
}

static void lies(void **state) {
    (void)state;
    frame_ends_link((struct tcp_header){0x12345678, 0, 0, 0}, "kind");
    frame_ends_link((struct tcp_header){TCP_HEADER_DATA, 1000, 8193, 0}, "length 8193");
    frame_ends_link((struct tcp_header){TCP_HEADER_DATA, 1000, UINT64_MAX, 0}, "length");
    frame_ends_link((struct tcp_header){TCP_HEADER_DATA, 0xffff, 10, 0}, "index 65535");
    frame_ends_link((struct tcp_header){TCP_HEADER_DATA, 16, 10, 0}, "index 16"); /* past the end */
    frame_ends_link((struct tcp_header){TCP_HEADER_DATA, 2000, 10, 0}, "writer");
    frame_ends_link((struct tcp_header){TCP_HEADER_CREDIT, 1000, 0, 1}, "reader");
    frame_ends_link((struct tcp_header){TCP_HEADER_CREDIT, 2000, 0, 1}, "credit of 1");
    frame_ends_link((struct tcp_header){TCP_HEADER_CREDIT, 2000, 0, 0}, "credit of 0");
    frame_ends_link((struct tcp_header){TCP_HEADER_CREDIT, 2000, 5, 1}, "length 5");
    frame_ends_link((struct tcp_header){TCP_HEADER_CREDIT, 2000, 0, UINT64_MAX}, "credit of");
    frame_ends_link((struct tcp_header){TCP_HEADER_PAD, 0, TCP_PAD + 1, 0}, "pad of length 32769");
}

/* Pads before, between and after messages are skipped, whatever they contain. */
static void pads(void **state) {
    (void)state;
    struct bad_peer bad_peer;
    struct rcmi_slot message;
    uint8_t bytes[TCP_PAD];
    const size_t lengths[] = {0, 1, sizeof(struct tcp_header), 5000, TCP_PAD};
    bad_peer_open(&bad_peer);
    memset(bytes, 0x31, sizeof bytes);
    const struct tcp_header data = {TCP_HEADER_DATA, bad_peer.reader.index, 3, 7};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const struct tcp_header pad = {TCP_HEADER_PAD, 0, lengths[i], 0};
        assert_int_equal(write(bad_peer.fd, &pad, sizeof pad), sizeof pad);
        assert_int_equal(write(bad_peer.fd, bytes, lengths[i]), lengths[i]);
        assert_int_equal(write(bad_peer.fd, &data, sizeof data), sizeof data);
        assert_int_equal(write(bad_peer.fd, "abc", 3), 3);
        for (int k = 0; k < 100 && tcp->peek(&bad_peer.reader.base, &message) == RCM_AGAIN; k++)
            tcp->progress(&bad_peer.end.domain);
        assert_int_equal(end_failed(&bad_peer.end), 0);
        assert_int_equal(tcp->peek(&bad_peer.reader.base, &message), RCM_OK);
        assert_int_equal(message.len, 3);
        assert_int_equal(message.meta, 7);
        assert_memory_equal(message.bytes, "abc", 3);
        tcp->release(&bad_peer.reader.base);
        assert_int_equal(tcp->peek(&bad_peer.reader.base, &message), RCM_AGAIN);
    }
    bad_peer_close(&bad_peer);
}

/* More messages than slots, and frames for a closed channel. */
static void too_many(void **state) {
    (void)state;
    struct bad_peer bad_peer;
    bad_peer_open(&bad_peer);
    struct tcp_header header = {TCP_HEADER_DATA, bad_peer.reader.index, 0, 0};
    struct tcp_header late = {TCP_HEADER_DATA, bad_peer.reader.index + 0x10000, 0, 0};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(write(bad_peer.fd, &header, sizeof header), sizeof header);
        assert_int_equal(write(bad_peer.fd, &late, sizeof late), sizeof late);
    }
    tcp->progress(&bad_peer.end.domain);
    assert_int_equal(end_failed(&bad_peer.end), 0);
    assert_int_equal(write(bad_peer.fd, &header, sizeof header), sizeof header);
    tcp->progress(&bad_peer.end.domain);
    assert_int_equal(end_failed(&bad_peer.end), 1);
    assert_non_null(strstr(rcmi_last_error()->text, "credit of 4"));
    bad_peer_close(&bad_peer);
}

/* Random bytes and headers end the link or are dropped; nothing worse happens. */
static void noise(void **state) {
    (void)state;
    unsigned seed = 1;
    for (int round = 0; round < 300; round++) {
        struct bad_peer bad_peer;
        uint8_t bytes[4000];
        bad_peer_open(&bad_peer);
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (uint8_t)rand_r(&seed);
        for (size_t at = 0; round % 3 && at + sizeof(struct tcp_header) < sizeof bytes;) {
            const uint32_t other = rand_r(&seed) % 2 ? TCP_HEADER_PAD : TCP_HEADER_CREDIT;
            struct tcp_header header = {rand_r(&seed) % 4 ? TCP_HEADER_DATA : other,
                                        (uint32_t)rand_r(&seed) % 3, (uint64_t)rand_r(&seed) % 300,
                                        1};
            memcpy(bytes + at, &header, sizeof header);
            at += sizeof header + (header.kind != TCP_HEADER_CREDIT ? header.len : 0);
        }
        size_t done = 0, n = 0;
        while (done < sizeof bytes &&
               rcmi_fd_write(bad_peer.fd, bytes + done,
                             1 + (size_t)rand_r(&seed) % 700 % (sizeof bytes - done),
                             &n) == RCM_OK) {
            struct rcmi_slot message;
            done += n;
            tcp->progress(&bad_peer.end.domain);
            if (tcp->peek(&bad_peer.reader.base, &message) == RCM_OK) {
                assert_true(message.len <= 8192);
                tcp->release(&bad_peer.reader.base);
            }
        }
        bad_peer_close(&bad_peer);
    }
}

static void bad_openings(void **state) {
    (void)state;
    struct bad_peer bad_peer;
    struct rcmi_blob blob = {.len = 0}, answer;
    struct tcp_channel reader;
    bad_peer_open(&bad_peer);
    channel_set(&reader, &bad_peer.end, false);
    assert_int_equal(tcp->reader_init(&reader.base, &bad_peer.end.link), RCM_OK);
    assert_int_equal(tcp->reader_accept(&reader.base, &blob, &answer), RCM_ERR_PROTOCOL);
    assert_int_equal(tcp->writer_offer(&bad_peer.writer.base, 0, &blob), RCM_OK);
    blob.bytes[0]++; /* the slot size */
    assert_int_equal(tcp->reader_accept(&reader.base, &blob, &answer), RCM_ERR_MISMATCH);
    channel_end(&reader);
    blob.len = 3;
    assert_int_equal(tcp->link_accept(&bad_peer.end.link, &blob), RCM_ERR_PROTOCOL);
    assert_int_equal(tcp->link_offer(&bad_peer.end.link, &blob), RCM_OK);
    assert_int_equal(tcp->link_accept(&bad_peer.end.link, &blob), RCM_OK);
    assert_int_equal(tcp->link_attach(&bad_peer.end.link, 0, dup(0)), RCM_ERR_PROTOCOL);
    assert_int_equal(tcp->link_attach(&bad_peer.end.link, 5, dup(0)), RCM_ERR_PROTOCOL);
    bad_peer_close(&bad_peer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(home),           cmocka_unit_test(tiny_buffer),
        cmocka_unit_test(closed_writer),  cmocka_unit_test(closed_reader),
        cmocka_unit_test(down_when_full), cmocka_unit_test(loop_sends),
        cmocka_unit_test(loop_rings),     cmocka_unit_test(lies),
        cmocka_unit_test(pads),           cmocka_unit_test(too_many),
        cmocka_unit_test(noise),          cmocka_unit_test(bad_openings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
