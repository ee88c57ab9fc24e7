/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a tcp reader's messages arrive: in slots, or in memory posted for exactly one of them.
 * Nothing is lost, and nothing is written elsewhere. Invalid frames of a peer: test_tcp_frames.c.
 */
#include <stdlib.h>
#include "tcp_link_pair.h"

/* ---- Two channels, random order -------------------------------------------------------------- */

enum { LANES = 2, ROUNDS = 4000, SLOT_BYTES = 8192 };

struct lane {
    struct tcp_channel writer, reader;
    uint64_t sent, got;
    uint8_t *place; /* freed as soon as the reader withdraws it: a sanitizer reports late writes */
};

static unsigned dice_next(unsigned *seed) {
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

/* Large and small messages in bursts, so that the size after a large one changes at times. */
static size_t lane_len(size_t lane, uint64_t number) {
    const size_t odd = (size_t)(number * 977 + lane * 131) % 1500;
    return (number / 16 + lane) % 3 == 0 ? odd : SLOT_BYTES - odd;
}

static void lane_send(struct lane *lane, size_t which) {
    const size_t len = lane_len(which, lane->sent);
    void *slot = NULL;
    if (reserve_slot(&lane->writer.base, &slot) != RCM_OK)
        return;
    memset(slot, (int)(lane->sent * 2 + which) & 0xff, len);
    rcmi_channel_commit(&lane->writer.base, len, lane->sent++);
}

static void lane_expect(struct lane *lane, size_t cap) {
    post(&lane->reader.base, NULL, 0);
    free(lane->place);
    lane->place = cap ? malloc(cap) : NULL;
    if (cap)
        post(&lane->reader.base, lane->place, cap);
}

static void lane_receive(struct lane *lane, size_t which) {
    struct rcmi_slot message;
    if (rcmi_channel_peek(&lane->reader.base, &message) != RCM_OK)
        return;
    assert_int_equal(message.meta, lane->got);
    assert_int_equal(message.len, lane_len(which, lane->got));
    for (size_t i = 0; i < message.len; i++)
        assert_int_equal(((const uint8_t *)message.bytes)[i], (lane->got * 2 + which) & 0xff);
    rcmi_channel_release(&lane->reader.base);
    lane->got++;
}

/* Messages of two channels in changing order, some into posted memory that comes and goes: each
 * arrives whole and in order, wherever it is written. */
static void lanes_through(int buffer) {
    struct two two;
    struct lane lane_of[LANES] = {0};
    unsigned seed = 1;
    two_open(&two, buffer);
    for (size_t i = 0; i < LANES; i++)
        channel_make(&two.a, &two.b, &lane_of[i].writer, &lane_of[i].reader);
    for (int round = 0; round < ROUNDS; round++) {
        const unsigned dice = dice_next(&seed);
        const size_t which = dice % LANES;
        struct lane *lane = &lane_of[which];
        for (unsigned burst = dice / 2 % 4; burst > 0; burst--)
            lane_send(lane, which);
        tcp->progress(&two.a.domain);
        if (dice / 8 % 4 == 0)
            lane_expect(lane, dice / 32 % 3 == 0 ? 0 : dice / 32 % 3 == 1 ? SLOT_BYTES : 5000);
        if (dice / 128 % 4 != 0)
            tcp->progress(&two.b.domain);
        for (unsigned burst = dice / 512 % 4; burst > 0; burst--)
            lane_receive(lane, which);
    }
    for (size_t i = 0; i < LANES; i++) {
        assert_true(lane_of[i].got > ROUNDS / 16);
        lane_expect(&lane_of[i], 0);
        channel_end(&lane_of[i].writer);
        channel_end(&lane_of[i].reader);
    }
    assert_int_equal(two_failed(&two), 0);
    two_close(&two);
}

static void lanes(void **state) {
    (void)state;
    lanes_through(0);
    lanes_through(4096); /* in parts */
}

/* ---- Single steps ---------------------------------------------------------------------------- */

enum { PAIRS = 3, PLACE_MAX = 1 << 17, POISON = 0xee };

struct pairs {
    struct two two;
    struct tcp_channel writer[PAIRS], reader[PAIRS];
    uint64_t sent, got[PAIRS];
    uint8_t place[PLACE_MAX];
};

static struct pairs *pairs_open(size_t slot_bytes) {
    struct pairs *pairs = malloc(sizeof *pairs);
    assert_non_null(pairs);
    memset(pairs, 0, sizeof *pairs);
    memset(pairs->place, POISON, sizeof pairs->place);
    two_open(&pairs->two, 0);
    channel_bytes = slot_bytes;
    for (int i = 0; i < PAIRS; i++)
        channel_make(&pairs->two.a, &pairs->two.b, &pairs->writer[i], &pairs->reader[i]);
    channel_bytes = 8192;
    return pairs;
}

static void pairs_close(struct pairs *pairs) {
    assert_int_equal(two_failed(&pairs->two), 0);
    for (int i = 0; i < PAIRS; i++) {
        channel_end(&pairs->writer[i]);
        if (!pairs->reader[i].base.transport) /* closed by the test */
            continue;
        post(&pairs->reader[i].base, NULL, 0);
        channel_end(&pairs->reader[i]);
    }
    two_close(&pairs->two);
    free(pairs);
}

static void pair_send(struct pairs *pairs, int which, size_t len) {
    void *slot = NULL;
    assert_int_equal(reserve_slot(&pairs->writer[which].base, &slot), RCM_OK);
    memset(slot, (int)(pairs->sent & 0x7f), len);
    rcmi_channel_commit(&pairs->writer[which].base, len, pairs->sent++);
}

static void pairs_look(struct pairs *pairs) {
    tcp->progress(&pairs->two.b.domain);
    tcp->progress(&pairs->two.a.domain); /* credits */
}

static void pair_expect(struct pairs *pairs, int which, size_t cap) {
    post(&pairs->reader[which].base, cap ? pairs->place : NULL, cap);
}

/* Takes the message sent as number `meta` and checks it; returns whether it is in the posted
 * memory. */
static bool pair_take(struct pairs *pairs, int which, size_t len, uint64_t meta) {
    struct rcmi_slot message;
    for (int looks = 0; rcmi_channel_peek(&pairs->reader[which].base, &message) != RCM_OK;
         looks++) {
        assert_true(looks < 100);
        pairs_look(pairs);
    }
    assert_int_equal(message.meta, meta);
    assert_int_equal(message.len, len);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(((const uint8_t *)message.bytes)[i], meta & 0x7f);
    const bool placed = message.bytes == pairs->place;
    rcmi_channel_release(&pairs->reader[which].base);
    return placed;
}

static void check_untouched(struct pairs *pairs, size_t from) {
    for (size_t i = from; i < sizeof pairs->place; i++)
        assert_int_equal(pairs->place[i], POISON);
}

/* Posted memory of exactly the length is used, also if another message comes first. */
static void places_stay(void **state) {
    (void)state;
    struct pairs *pairs = pairs_open(8192);
    for (int round = 0; round < 20; round++) {
        const size_t len = round % 2 ? 8192 : 5000;
        pair_expect(pairs, 0, len);
        pairs_look(pairs); /* reads nothing */
        if (round % 3) {
            pair_send(pairs, 1, round % 3 == 1 ? 8192 : 10);
            pairs_look(pairs);
            assert_false(pair_take(pairs, 1, round % 3 == 1 ? 8192 : 10, pairs->sent - 1));
        }
        pair_send(pairs, 0, len);
        assert_true(pair_take(pairs, 0, len, pairs->sent - 1));
    }
    check_untouched(pairs, 8192);
    pairs_close(pairs);
}

/* Posted memory larger than the message is used up to the message's end, whatever comes first. It
 * is not used for a message that does not match. */
static void places_unfilled(void **state) {
    (void)state;
    static const size_t lens[] = {8192, 5000, 1024, 1025, 1, 8191, 100, 1100, 8192, 0, 7000};
    struct pairs *pairs = pairs_open(8192);
    for (size_t round = 0; round < 4 * sizeof lens / sizeof lens[0]; round++) {
        const size_t len = lens[round % (sizeof lens / sizeof lens[0])];
        const bool other = round % 3 == 1, unlike = round % 5 == 4;
        memset(pairs->place, POISON, sizeof pairs->place);
        post_like(&pairs->reader[0].base, pairs->place, 8192, pairs->sent + other + unlike,
                  UINT64_MAX);
        pairs_look(pairs); /* reads nothing */
        if (other)
            pair_send(pairs, 1, round % 2 ? 8192 : 10);
        pair_send(pairs, 0, len);
        if (round % 2)
            pair_send(pairs, 2, 8192); /* arrives with it, in one read */
        pairs_look(pairs);
        if (other)
            assert_false(pair_take(pairs, 1, round % 2 ? 8192 : 10, pairs->sent - 2 - round % 2));
        assert_int_equal(pair_take(pairs, 0, len, pairs->sent - 1 - round % 2), !unlike);
        check_untouched(pairs, unlike ? 0 : len);
        if (round % 2)
            assert_false(pair_take(pairs, 2, 8192, pairs->sent - 1));
        check_untouched(pairs, unlike ? 0 : len);
    }
    pairs_close(pairs);
}

/* Posted memory that is too short for the message is not written. */
static void places_too_short(void **state) {
    (void)state;
    struct pairs *pairs = pairs_open(8192);
    for (int round = 0; round < 4; round++) {
        pair_expect(pairs, 0, 5000);
        pair_send(pairs, 0, round % 2 ? 8192 : 5001);
        assert_false(pair_take(pairs, 0, round % 2 ? 8192 : 5001, pairs->sent - 1));
        check_untouched(pairs, 0);
    }
    pairs_close(pairs);
}

/* A message that began before memory was posted for it arrives in its slot. The next message, which
 * the memory was not posted for, does not use it either. */
static void places_go(void **state) {
    (void)state;
    struct pairs *pairs = pairs_open(8192);
    for (int round = 0; round < 4; round++) {
        pair_send(pairs, 0, 8192);
        pairs_look(pairs);
        pair_expect(pairs, 0, 8192); /* too late: the message has arrived */
        assert_false(pair_take(pairs, 0, 8192, pairs->sent - 1));
        for (int more = 0; more < 3; more++) {
            pairs_look(pairs);
            pair_send(pairs, round % 2, 8192 - (size_t)more);
            assert_false(pair_take(pairs, round % 2, 8192 - (size_t)more, pairs->sent - 1));
        }
        check_untouched(pairs, 0);
    }
    pairs_close(pairs);
}

/* A look ends after each message larger than the read-ahead: the reader can then post memory for
 * the next one, which is in the socket already. */
static void looks_end(void **state) {
    (void)state;
    const size_t much = PLACE_MAX;
    struct pairs *pairs = pairs_open(much);
    for (int round = 0; round < 5; round++) {
        pairs_look(pairs);
        for (int k = 0; k < 3; k++)
            pair_send(pairs, 0, much);
        for (int k = 0; k < 3; k++) {
            pair_expect(pairs, 0, much);
            assert_true(pair_take(pairs, 0, much, pairs->sent - 3 + (uint64_t)k));
        }
    }
    pairs_close(pairs);
}

/* Messages larger than the limit of one read-ahead, to slots and to posted memory. */
static void much_through(void **state) {
    (void)state;
    const size_t much = PLACE_MAX;
    struct pairs *pairs = pairs_open(much);
    for (int round = 0; round < 12; round++) {
        const size_t len = much - (size_t)round % 3 * 40000;
        pair_expect(pairs, 0, round % 2 ? much : 0);
        for (int k = 0; k < 2; k++) {
            pair_send(pairs, 1 + k, len);
            assert_false(pair_take(pairs, 1 + k, len, pairs->sent - 1));
        }
        pair_send(pairs, 0, len);
        assert_int_equal(pair_take(pairs, 0, len, pairs->sent - 1), round % 2);
        pair_expect(pairs, 0, 0);
    }
    pairs_close(pairs);
}

/* A header arrives in parts, after one of which the buffer still holds the same bytes of an earlier
 * header. Then a full read-ahead of frames for closed channels. */
static void headers_in_parts(void **state) {
    (void)state;
    struct pairs *pairs = pairs_open(8192);
    const int fd = pairs->two.a.link.streams[0].fd;
    const struct tcp_header late = {TCP_HEADER_DATA, pairs->reader[1].index + 0x10000, 8000, 0};
    static uint8_t payload[8192];
    for (size_t cut = 1; cut < sizeof late; cut++) {
        const struct tcp_header header = {TCP_HEADER_DATA, pairs->reader[0].index, 8192, cut};
        memset(payload, (int)cut, sizeof payload);
        pairs_look(pairs); /* credits: our own bytes follow them */
        assert_int_equal(write(fd, &header, cut), cut);
        pairs_look(pairs);
        assert_int_equal(write(fd, (const char *)&header + cut, sizeof header - cut),
                         sizeof header - cut);
        assert_int_equal(write(fd, payload, sizeof payload), sizeof payload);
        /* Like a message of the writer, which gets the credit. */
        atomic_fetch_add(&pairs->writer[0].committed, 1);
        assert_false(pair_take(pairs, 0, sizeof payload, cut));
    }
    for (int i = 0; i < 10; i++) {
        assert_int_equal(write(fd, &late, sizeof late), sizeof late);
        assert_int_equal(write(fd, payload, late.len), late.len);
    }
    for (int i = 0; i < 10; i++)
        pairs_look(pairs);
    pair_send(pairs, 1, 100);
    assert_false(pair_take(pairs, 1, 100, pairs->sent - 1));
    pairs_close(pairs);
}

static bool is_poisoned(const struct tcp_channel *channel) {
    for (size_t i = 0; i < sizeof *channel; i++)
        if (((const uint8_t *)channel)[i] != POISON)
            return false;
    return true;
}

/* A reader that received large messages, last or not, is closed: its memory is no longer used. */
static void closed_readers(void **state) {
    (void)state;
    for (int closed = 0; closed < 2; closed++) {
        struct pairs *pairs = pairs_open(8192);
        for (int round = 0; round < 4; round++) {
            pair_send(pairs, round % 2, 8192);
            assert_false(pair_take(pairs, round % 2, 8192, pairs->sent - 1));
        }
        struct tcp_channel *reader = &pairs->reader[closed];
        channel_end(reader);
        memset(reader, POISON, sizeof *reader);
        pairs_look(pairs);
        pair_send(pairs, closed, 8192); /* dropped */
        pairs_look(pairs);
        for (int round = 0; round < 3; round++) {
            pair_send(pairs, 2, 8192);
            assert_false(pair_take(pairs, 2, 8192, pairs->sent - 1));
            pair_send(pairs, 1 - closed, 8192);
            assert_false(pair_take(pairs, 1 - closed, 8192, pairs->sent - 1));
        }
        assert_true(is_poisoned(reader));
        memset(reader, 0, sizeof *reader); /* like one that was never made */
        pairs_close(pairs);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lanes),           cmocka_unit_test(places_stay),
        cmocka_unit_test(places_unfilled), cmocka_unit_test(places_too_short),
        cmocka_unit_test(places_go),       cmocka_unit_test(looks_end),
        cmocka_unit_test(much_through),    cmocka_unit_test(headers_in_parts),
        cmocka_unit_test(closed_readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
