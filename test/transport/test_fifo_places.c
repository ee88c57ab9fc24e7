/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Places in a slot (transport/channel/fifo.h): short messages come back to the same lines late,
 * never while an earlier message is there, and a place outside of its slot is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../transport/channel/fifo.h"

enum {
    SLOTS = 4,
    SLOT = 64 << 10,
    PART = SLOT / RCMI_FIFO_PLACES,
    MOST = SLOTS * RCMI_FIFO_PLACES
};

struct queue {
    struct rcmi_fifo_shape shape;
    void *memory;
    struct rcmi_fifo_writer writer;
    struct rcmi_fifo_reader reader;
};

static int begin(void **state) {
    struct queue *q = calloc(1, sizeof *q);
    assert_non_null(q);
    q->shape = rcmi_fifo_shape(SLOT, SLOTS, 1);
    q->memory =
        aligned_alloc(RCMI_FIFO_PAIR, (q->shape.total / RCMI_FIFO_PAIR + 1) * RCMI_FIFO_PAIR);
    assert_non_null(q->memory);
    rcmi_fifo_clear(q->memory, &q->shape);
    rcmi_fifo_writer_init(&q->writer, q->memory, &q->shape);
    rcmi_fifo_reader_init(&q->reader, q->memory, &q->shape, 0);
    *state = q;
    return 0;
}

static int end(void **state) {
    struct queue *q = *state;
    free(q->memory);
    free(q);
    return 0;
}

static void put(struct queue *q, size_t len, int byte) {
    void *bytes = NULL;
    assert_int_equal(rcmi_fifo_reserve(&q->writer, len, &bytes), RCM_OK);
    memset(bytes, byte, len);
    rcmi_fifo_commit(&q->writer, len, 0);
}

/* Returns where the message was. */
static const void *take(struct queue *q, size_t len, int byte) {
    uint64_t found = 0;
    assert_int_equal(rcmi_fifo_peek(&q->reader, &found), RCM_OK);
    assert_int_equal(found, len);
    const uint8_t *bytes = rcmi_fifo_payload(&q->reader, found);
    assert_int_equal(bytes[0], byte);
    assert_int_equal(bytes[len - 1], byte);
    rcmi_fifo_release(&q->reader);
    return bytes;
}

/* How many messages of this length come before one that is where the first one was. */
static int distance(struct queue *q, size_t len) {
    put(q, len, 1);
    const void *first = take(q, len, 1);
    for (int n = 1; n <= MOST; n++) {
        put(q, len, n);
        if (take(q, len, n) == first)
            return n;
    }
    return 0;
}

static void short_messages_use_all_places(void **state) {
    struct queue *q = *state;
    assert_int_equal(distance(q, 2 * PART + 1), SLOTS);
    assert_int_equal(distance(q, SLOT), SLOTS);
    assert_int_equal(distance(q, 2 * PART), 2 * SLOTS);
    assert_int_equal(distance(q, PART + 1), 2 * SLOTS);
    assert_int_equal(distance(q, PART), MOST);
    assert_int_equal(distance(q, RCMI_FIFO_PLACED), MOST);
    assert_int_equal(distance(q, RCMI_FIFO_PLACED - 1), SLOTS);
}

static void messages_in_flight_do_not_overlap(void **state) {
    static const size_t sizes[] = {PART, SLOT, 200, 2 * PART, 2 * PART + 1, 5000, PART + 1};
    enum { SIZES = sizeof sizes / sizeof sizes[0], MESSAGES = 40 * SIZES };
    struct queue *q = *state;
    for (int n = 0; n < MESSAGES + SLOTS; n++) {
        if (n >= SLOTS)
            (void)take(q, sizes[(n - SLOTS) % SIZES], (n - SLOTS) % 251);
        if (n < MESSAGES)
            put(q, sizes[n % SIZES], n % 251);
    }
}

/* The reader finds a message that is shorter than what was reserved, also one in its header. */
static void committed_length_may_be_less(void **state) {
    static const size_t sizes[] = {PART + 1, PART, 200, 100, 40, 8};
    struct queue *q = *state;
    for (int n = 0; n < 300; n++) {
        const size_t len = sizes[n % 6];
        void *bytes = NULL;
        assert_int_equal(rcmi_fifo_reserve(&q->writer, 2 * PART, &bytes), RCM_OK);
        memset(bytes, n % 251, len);
        rcmi_fifo_commit(&q->writer, len, 0);
        (void)take(q, len, n % 251);
    }
}

static void places_outside_are_refused(void **state) {
    static const struct {
        uint64_t len, place;
        bool right;
    } cases[] = {{PART, 3, true},
                 {PART + 1, 3, false},
                 {2 * PART, 2, true},
                 {2 * PART + 1, 2, false},
                 {RCMI_FIFO_INLINE + 1, 3, true},
                 {RCMI_FIFO_INLINE, 1, false},
                 {8 | RCMI_FIFO_MAPPED, 1, false},
                 {PART | RCMI_FIFO_GET, 3, false}};
    struct queue *q = *state;
    struct rcmi_fifo_header *header = rcmi_fifo_header(q->memory, &q->shape, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t found = 0;
        header->len = cases[i].len | cases[i].place << RCMI_FIFO_PLACE_SHIFT;
        atomic_store(&header->seq, 1);
        const rcm_status status = rcmi_fifo_peek(&q->reader, &found);
        assert_int_equal(status, cases[i].right ? RCM_OK : RCM_ERR_PROTOCOL);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(short_messages_use_all_places, begin, end),
        cmocka_unit_test_setup_teardown(messages_in_flight_do_not_overlap, begin, end),
        cmocka_unit_test_setup_teardown(committed_length_may_be_less, begin, end),
        cmocka_unit_test_setup_teardown(places_outside_are_refused, begin, end),
    };
    return cmocka_run_group_tests_name("fifo places", tests, NULL, NULL);
}
