/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Invalid entries in the queue of a get, on both sides (transport/shm/get_help.c). The reader
 * reports them and writes nothing more; the writer ignores them; pieces that the writer cannot copy
 * the reader copies.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../transport/shm/shm.h"
#include "harness.h"

#define BYTES     ((size_t)1 << 20)
#define PIECE     ((size_t)256 << 10) /* help.c cuts a vector of so many bytes into such pieces */
#define PIECES    (BYTES / PIECE)
#define HALF_BITS 24 /* of claims: number, pieces from the front, pieces from the back */
#define UNTOUCHED 0xee

/* A get in progress: one piece from the front is copied. */
struct get {
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    struct rcmi_fifo_request *request;
    uint8_t *there, *here;
};

static rcm_status get_go_on(struct get *f) {
    bool moved = false;
    return get(f->reader, f->here, (uint64_t)(uintptr_t)f->there, BYTES, true, &moved);
}

static void get_begin(struct get *f) {
    const struct setup setup = {.slots = 3};
    limit_ms(20000);
    pair_open(&f->pair, &setup);
    pair_channel(&f->pair, 1, &f->writer, &f->reader);
    const struct shm_channel *shm = (struct shm_channel *)f->reader;
    f->request = rcmi_fifo_request(shm->memory, &shm->fifo.reader.shape);
    f->there = malloc(BYTES);
    f->here = malloc(BYTES);
    assert_non_null(f->request);
    fill(f->there, BYTES, 1);
    memset(f->here, UNTOUCHED, BYTES);
    assert_int_equal(get_go_on(f), RCM_AGAIN);
}

static void get_end(struct get *f) {
    rcmi_channel_close(f->writer);
    rcmi_channel_close(f->reader);
    pair_close(&f->pair);
    free(f->there);
    free(f->here);
}

static uint64_t claims(uint64_t number, uint64_t front, uint64_t back) {
    return number << 2 * HALF_BITS | front << HALF_BITS | back;
}

static bool untouched(const struct get *f, size_t from) {
    for (size_t i = from; i < BYTES; i++)
        if (f->here[i] != UNTOUCHED)
            return false;
    return true;
}

/* ---- Invalid entries of the writer ----------------------------------------------------------- */

static void claims_that_cannot_be(void **state) {
    const uint64_t words[] = {
        0,
        UINT64_MAX,
        claims(2, 1, 0),          /* of another get */
        claims(1, 0, 0),          /* the reader's claim is gone */
        claims(1, 2, 0),          /* a claim that the reader did not make */
        claims(1, 1, PIECES),     /* more than all pieces */
        claims(1, PIECES + 1, 0), /* the same */
    };
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct get f;
        get_begin(&f);
        atomic_store(&f.request->claims, words[i]);
        assert_int_equal(get_go_on(&f), RCM_ERR_PROTOCOL);
        assert_non_null(strstr(rcm_last_error(), "pieces of a vector"));
        assert_true(untouched(&f, PIECE));
        get_end(&f);
    }
}

static void fewer_than_before(void **state) {
    struct get f;
    (void)state;
    get_begin(&f);
    assert_true(rcmi_channel_help(f.writer));
    assert_int_equal(get_go_on(&f), RCM_AGAIN);
    atomic_store(&f.request->claims, claims(1, 2, 0));
    assert_int_equal(get_go_on(&f), RCM_ERR_PROTOCOL);
    get_end(&f);
}

/* ---- Invalid entries of the reader ----------------------------------------------------------- */

/* The writer cannot use it and reports that; the reader copies everything itself. */
static void reader_does_it_alone(struct get *f) {
    rcm_status status;
    assert_false(rcmi_channel_help(f->writer));
    assert_true(untouched(f, PIECE));
    while ((status = get_go_on(f)) == RCM_AGAIN)
        assert_false(rcmi_channel_help(f->writer));
    assert_int_equal(status, RCM_OK);
    assert_memory_equal(f->here, f->there, BYTES);
    get_end(f);
}

static void no_permit(void **state) {
    struct get f;
    (void)state;
    get_begin(&f);
    atomic_store(&f.request->permit, 0);
    reader_does_it_alone(&f);
}

static void no_dest(void **state) {
    struct get f;
    (void)state;
    get_begin(&f);
    atomic_store(&f.request->dest, 64);
    reader_does_it_alone(&f);
}

static void nothing_from_there(void **state) {
    struct get f;
    (void)state;
    get_begin(&f);
    atomic_store(&f.request->from, 64);
    reader_does_it_alone(&f);
}

static void lengths(void **state) {
    const size_t bytes[] = {0, 1, (size_t)1 << 40, (size_t)1 << 62, SIZE_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        struct get f;
        get_begin(&f);
        atomic_store(&f.request->len, bytes[i]);
        reader_does_it_alone(&f);
    }
}

static void another_number(void **state) {
    struct get f;
    (void)state;
    get_begin(&f);
    atomic_store(&f.request->number, 77);
    reader_does_it_alone(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_that_cannot_be),
        cmocka_unit_test(fewer_than_before),
        cmocka_unit_test(no_permit),
        cmocka_unit_test(no_dest),
        cmocka_unit_test(nothing_from_there),
        cmocka_unit_test(lengths),
        cmocka_unit_test(another_number),
    };
    test_transport = "shm";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
