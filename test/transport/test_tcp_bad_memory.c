/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of a tcp channel's user that cannot be read or written: its channel fails; the link and
 * the other channels of the stream do not. Two channels share the stream here.
 */
#include <sys/mman.h>
#include "tcp_link_pair.h"

enum { LEN = 1 << 20, GOOD = 1 << 19, OTHER = 4096 };

struct fixture {
    struct two two;
    struct tcp_channel writer[2], reader[2]; /* channel 0 has the bad memory */
    uint8_t *memory;                         /* LEN bytes; the protection changes from GOOD on */
};

static struct fixture *fixture_open(void) {
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    two_open(&f->two, 0);
    channel_bytes = LEN;
    for (int i = 0; i < 2; i++)
        channel_make(&f->two.a, &f->two.b, &f->writer[i], &f->reader[i]);
    channel_bytes = 8192;
    f->memory = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(f->memory != MAP_FAILED);
    memset(f->memory, 7, LEN);
    return f;
}

static void spoil(const struct fixture *f, size_t from, int protection) {
    assert_int_equal(mprotect(f->memory + from, LEN - from, protection), 0);
}

static void fixture_close(struct fixture *f, int first) {
    assert_int_equal(two_failed(&f->two), 0);
    for (int i = first; i < 2; i++) {
        channel_end(&f->writer[i]);
        channel_end(&f->reader[i]);
    }
    two_close(&f->two);
    munmap(f->memory, LEN);
    free(f);
}

static void move(struct fixture *f) {
    for (int i = 0; i < 100; i++) {
        tcp->progress(&f->two.a.domain);
        tcp->progress(&f->two.b.domain);
    }
}

static void send_memory(struct fixture *f) {
    const struct rcmi_mem mem = rcmi_mem_host(f->memory, LEN);
    assert_int_equal(rcmi_channel_send_zero_copy(&f->writer[0].base, &mem, 1, false), RCM_OK);
}

static void send_other(struct fixture *f, int value) {
    void *slot = NULL;
    assert_int_equal(reserve_slot(&f->writer[1].base, &slot), RCM_OK);
    memset(slot, value, OTHER);
    rcmi_channel_commit(&f->writer[1].base, OTHER, 2);
}

static void expect_other(struct fixture *f, int value) {
    struct rcmi_slot message;
    move(f);
    assert_int_equal(rcmi_channel_peek(&f->reader[1].base, &message), RCM_OK);
    assert_int_equal(message.len, OTHER);
    assert_int_equal(message.meta, 2);
    for (size_t i = 0; i < OTHER; i++)
        assert_int_equal(((const uint8_t *)message.bytes)[i], value);
    rcmi_channel_release(&f->reader[1].base);
}

static void expect_nothing(struct fixture *f, int channel) {
    struct rcmi_slot message;
    move(f);
    assert_int_equal(rcmi_channel_peek(&f->reader[channel].base, &message), RCM_AGAIN);
}

static void expect_fault(const struct rcmi_channel *channel, const char *verb) {
    const struct rcmi_error *error = rcmi_last_error();
    assert_int_equal(atomic_load(&channel->state), RCM_ERR_INVALID);
    assert_int_equal(error->status, RCM_ERR_INVALID);
    assert_int_equal(error->origin, -1); /* no other rank */
    assert_non_null(strstr(error->text, verb));
    assert_non_null(strstr(error->text, "1048576 bytes at 0x"));
}

/* Nothing of the message is sent, and the following one is. */
static void nothing_readable(void **state) {
    struct fixture *f = fixture_open();
    (void)state;
    spoil(f, 0, PROT_NONE);
    send_memory(f);
    send_other(f, 1);
    expect_other(f, 1);
    expect_fault(&f->writer[0].base, "not all memory that can be read");
    expect_nothing(f, 0);
    assert_false(rcmi_channel_completed(&f->writer[0].base, 1));
    tcp->writer_close(&f->writer[0].base);
    send_other(f, 2);
    expect_other(f, 2);
    fixture_close(f, 0);
}

/* The peer has received a part: the rest never comes, and the stream waits until the peer gives the
 * message up. */
static void partly_readable(void **state) {
    struct fixture *f = fixture_open();
    (void)state;
    spoil(f, GOOD, PROT_NONE);
    send_memory(f);
    send_other(f, 1);
    expect_nothing(f, 0);
    expect_fault(&f->writer[0].base, "memory that can be read");
    expect_nothing(f, 1);
    assert_false(rcmi_channel_completed(&f->writer[0].base, 1));
    tcp->writer_close(&f->writer[0].base);
    expect_nothing(f, 0);
    channel_end(&f->reader[0]); /* the reader closes first, then the writer gets the notice */
    expect_nothing(f, 1);
    channel_end(&f->writer[0]);
    expect_other(f, 1);
    send_other(f, 2);
    expect_other(f, 2);
    fixture_close(f, 1);
}

/* Closing copies the unsent rest, or finds that it cannot be read. */
static void closed_unread(size_t good) {
    struct fixture *f = fixture_open();
    send_memory(f); /* as much as the socket accepts: less than GOOD */
    send_memory(f); /* nothing of it */
    send_other(f, 1);
    spoil(f, good, PROT_NONE);
    tcp->writer_close(&f->writer[0].base);
    expect_nothing(f, 0);
    expect_nothing(f, 1);
    channel_end(&f->reader[0]);
    channel_end(&f->writer[0]);
    expect_other(f, 1);
    fixture_close(f, 1);
}

static void closed(void **state) {
    (void)state;
    closed_unread(0);
    closed_unread(GOOD);
}

/* A message that cannot be written to the posted memory arrives whole in its slot. */
static void not_writable(void **state) {
    struct fixture *f = fixture_open();
    struct rcmi_slot message;
    uint8_t *data = malloc(LEN);
    assert_non_null(data);
    (void)state;
    for (size_t i = 0; i < LEN; i++)
        data[i] = (uint8_t)(i * 7);
    const struct rcmi_mem mem = rcmi_mem_host(data, LEN);
    spoil(f, GOOD, PROT_READ);
    post(&f->reader[0].base, f->memory, LEN);
    assert_int_equal(rcmi_channel_send_zero_copy(&f->writer[0].base, &mem, 1, false), RCM_OK);
    send_other(f, 1);
    expect_other(f, 1);
    expect_fault(&f->reader[0].base, "not all memory that can be written");
    assert_int_equal(tcp->peek(&f->reader[0].base, &message), RCM_OK);
    assert_int_equal(message.len, LEN);
    assert_memory_equal(message.bytes, data, LEN);
    assert_true(rcmi_channel_completed(&f->writer[0].base, 1));
    free(data);
    fixture_close(f, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_readable),
        cmocka_unit_test(partly_readable),
        cmocka_unit_test(closed),
        cmocka_unit_test(not_writable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
