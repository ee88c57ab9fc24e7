/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous device operations, and failures while they run: ranks with memory of two kinds, an
 * operation that fails, does not begin or never ends, and the death of a rank, a deadline or an
 * abort.
 *
 *     async_operations TRANSPORT RANKS [NAMES OF TROUBLES]
 *
 * A work may complete, and memory may be freed, only when no operation uses it any more. The fake
 * device checks that.
 */
#include "../fakes/device/fake.h"
#include "ranks.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 50000, WORKS = 3, BYTES = COUNT * 8 };

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Several collectives in flight, each with its own buffers. */
struct flight {
    int64_t *in[WORKS], *out[WORKS];
    rcm_work *works[WORKS];
};

static rcm_status flight_begin(rcm_comm *comm, struct flight *f) {
    rcm_status status = RCM_OK;
    for (int i = 0; i < WORKS; i++) {
        f->in[i] = fake_alloc(BYTES);
        f->out[i] = fake_alloc(BYTES);
        f->works[i] = NULL;
        if (status == RCM_OK)
            status = rcm_all_reduce(comm, f->in[i], f->out[i], COUNT, RCM_INT64, RCM_SUM, NULL,
                                    &f->works[i]);
    }
    return status;
}

/* Waits for all works and frees them. No operation of a complete work may still run. Returns the
 * first failure, or RCM_OK. */
static rcm_status flight_end(struct flight *f, int *errors) {
    rcm_status status = RCM_OK;
    for (int i = 0; i < WORKS; i++) {
        const rcm_status one = f->works[i] ? rcm_work_wait(f->works[i], -1) : RCM_OK;
        CHECK(*errors, fake_running(f->in[i], BYTES) + fake_running(f->out[i], BYTES) == 0,
              "a work is complete (%s), and operations still use its buffers",
              rcm_status_name(one));
        rcm_work_free(f->works[i]);
        fake_free(f->in[i]);
        fake_free(f->out[i]);
        status = status == RCM_OK ? one : status;
    }
    return status;
}

static int check_error(const rcm_comm *comm, rcm_status status, rcm_status want, int origin,
                       const char *words) {
    struct rcm_error error = RCM_ERROR_INIT;
    int errors = 0;
    (void)!rcm_comm_error(comm, &error);
    CHECK(errors, status == want && error.status == want, "rank %d: %s (%s), not %s",
          rcm_rank(comm), rcm_status_name(status), error.text, rcm_status_name(want));
    CHECK(errors, strstr(error.text, words) && (origin < -1 || error.origin == origin),
          "rank %d: \"%s\" (origin %d) lacks \"%s\" (origin %d)", rcm_rank(comm), error.text,
          error.origin, words, origin);
    return errors;
}

/* ---- Failures -------------------------------------------------------------------------------- */

struct trouble {
    const char *name;
    int (*check)(rcm_comm *comm);
    int64_t timeout_ms;
};

static int last_rank(const rcm_comm *comm) {
    return rcm_size(comm) - 1;
}

/* The last rank has host memory, the others device memory. */
static int check_mixed(rcm_comm *comm) {
    int64_t host[2][64] = {{0}}, *device = fake_alloc(sizeof host);
    const bool odd = rcm_rank(comm) == last_rank(comm);
    int errors = 0;
    rcm_status status = rcm_all_reduce(comm, odd ? host[0] : device, odd ? host[1] : device + 64,
                                       64, RCM_INT64, RCM_SUM, NULL, NULL);
    if (status == RCM_OK)
        status = rcm_barrier(comm, NULL, NULL);
    errors += check_error(comm, status, RCM_ERR_MISMATCH, -2, "in device memory on rank ");
    errors += check_error(comm, status, RCM_ERR_MISMATCH, -2, "in host memory on rank ");
    (void)!rcm_destroy(comm);
    fake_free(device);
    return errors;
}

/* The same for a collective in which only pairs of ranks share counts: a rank with empty blocks has
 * no memory kind. The others may already be in the second call, and detect the mismatch there. */
static int check_mixed_pairs(rcm_comm *comm) {
    enum { N = 8 };
    int64_t host[2 * N] = {0}, *device = fake_alloc(sizeof host);
    const int rank = rcm_rank(comm), p = rcm_size(comm);
    const bool odd = rank == last_rank(comm);
    size_t counts[N] = {0};
    int errors = 0;
    for (int r = 1; r < p && rank > 0; r++)
        counts[r] = 2;
    rcm_status status =
        rcm_all_to_all_v(comm, rank ? device : NULL, counts, NULL, rank ? device + N : NULL, counts,
                         NULL, RCM_INT64, NULL, NULL);
    CHECK(errors, status == RCM_OK || status == RCM_ERR_MISMATCH, "rank 0 has nothing: %s",
          rcm_last_error());
    for (int r = 0; r < p; r++)
        counts[r] = 2;
    if (status == RCM_OK)
        status = rcm_all_to_all_v(comm, odd ? host : device, counts, NULL,
                                  odd ? host + N : device + N, counts, NULL, RCM_INT64, NULL, NULL);
    if (status == RCM_OK)
        status = rcm_barrier(comm, NULL, NULL);
    errors += check_error(comm, status, RCM_ERR_MISMATCH, -2, "device memory");
    errors += check_error(comm, status, RCM_ERR_MISMATCH, -2, "host memory");
    (void)!rcm_destroy(comm);
    fake_free(device);
    return errors;
}

/* On rank 1 an operation fails, with several works in flight. */
static int check_fails(rcm_comm *comm) {
    struct flight f;
    int errors = 0;
    if (rcm_rank(comm) == 1)
        fake_set(FAKE_FAILS, 5, 0);
    rcm_status status = flight_begin(comm, &f);
    const rcm_status ended = flight_end(&f, &errors);
    status = status == RCM_OK ? ended : status;
    errors += check_error(comm, status, RCM_ERR_SYSTEM, 1,
                          "in device memory failed: fake device error 77");
    (void)!rcm_destroy(comm);
    return errors;
}

static int check_no_room(rcm_comm *comm) {
    struct flight f;
    int errors = 0;
    if (rcm_rank(comm) == 1)
        fake_set(FAKE_NEVER_BEGINS, 7, 0);
    rcm_status status = flight_begin(comm, &f);
    const rcm_status ended = flight_end(&f, &errors);
    status = status == RCM_OK ? ended : status;
    errors += check_error(comm, status, RCM_ERR_RESOURCE, 1, "the fake device has no room");
    (void)!rcm_destroy(comm);
    return errors;
}

/* The same in a blocking call. It checks its operations again before it fails, so those that it
 * began are done. */
static int check_no_room_at_once(rcm_comm *comm) {
    int64_t *in = fake_alloc(BYTES), *out = fake_alloc(BYTES), *view = fake_view(in);
    int errors = 0;
    for (int i = 0; i < COUNT; i++)
        view[i] = i;
    for (int skip = 0; skip < 4 && errors == 0; skip++) {
        if (rcm_rank(comm) == 1)
            fake_set(FAKE_NEVER_BEGINS, skip, 0);
        const rcm_status status =
            rcm_all_reduce(comm, in, out, COUNT, RCM_INT64, RCM_SUM, NULL, NULL);
        if (status != RCM_OK) {
            errors += check_error(comm, status, RCM_ERR_RESOURCE, 1, "the fake device has no room");
            break;
        }
        view = fake_view(out);
        for (int i = 0; i < COUNT && errors == 0; i++)
            CHECK(errors, view[i] == (int64_t)i * rcm_size(comm), "rank %d: element %d is %lld",
                  rcm_rank(comm), i, (long long)view[i]);
    }
    (void)!rcm_destroy(comm);
    fake_free(in);
    fake_free(out);
    return errors;
}

/* Waits at most 1 s for a slow operation to run. */
static void await_running(void) {
    for (int i = 0; i < 1000 && fake_count() < 5; i++)
        usleep(1000);
    for (int i = 0; i < 1000 && fake_running(NULL, 0) == 0; i++)
        usleep(1000);
}

/* All operations of rank 1 are slow when one of them is aborted. Works end only after them. */
static int check_abort(rcm_comm *comm) {
    struct flight f;
    int errors = 0;
    fake_set(FAKE_LASTS, 3, 150);
    rcm_status status = flight_begin(comm, &f);
    if (rcm_rank(comm) == 1) {
        await_running();
        CHECK(errors, fake_running(NULL, 0) > 0, "no operation runs when the abort comes");
        (void)!rcm_abort(comm, "enough");
    }
    const rcm_status ended = flight_end(&f, &errors);
    status = status == RCM_OK ? ended : status;
    errors += check_error(comm, status, RCM_ERR_ABORTED, 1, "enough");
    CHECK(errors, fake_running(NULL, 0) == 0, "operations run after all works are complete");
    (void)!rcm_destroy(comm);
    return errors;
}

/* Rank 1 is killed while operations of all ranks run. */
static int check_kill(rcm_comm *comm) {
    struct flight f;
    int errors = 0;
    fake_set(FAKE_LASTS, 3, 100);
    rcm_status status = flight_begin(comm, &f);
    if (rcm_rank(comm) == 1) {
        await_running();
        _exit(0);
    }
    const rcm_status ended = flight_end(&f, &errors);
    status = status == RCM_OK ? ended : status;
    errors += check_error(comm, status, RCM_ERR_PEER, 1, "rank 1 (pid");
    (void)!rcm_destroy(comm);
    return errors;
}

/* A deadline passes. The origin is the rank whose own operation takes longer than the deadline. */
static int check_late(rcm_comm *comm) {
    struct flight f;
    int errors = 0;
    if (rcm_rank(comm) == 1)
        fake_set(FAKE_LASTS, 2, 900);
    rcm_status status = flight_begin(comm, &f);
    const rcm_status ended = flight_end(&f, &errors);
    status = status == RCM_OK ? ended : status;
    errors += check_error(comm, status, RCM_ERR_TIMEOUT, 1, "waits for its device");
    (void)!rcm_destroy(comm);
    return errors;
}

/* Operations of rank 1 never end, one of a message and one of a collective. Its works end at last,
 * and the memory they may still use is not freed (here all of it). */
static int check_never(rcm_comm *comm) {
    const double begin = seconds();
    void *message = fake_alloc(100), *in = fake_alloc(BYTES), *out = fake_alloc(BYTES);
    rcm_work *send = NULL;
    int errors = 0;
    if (rcm_rank(comm) == 1) {
        fake_set(FAKE_NEVER_ENDS, 0, 2);
        CHECK(errors, rcm_isend(comm, message, 100, RCM_UINT8, 0, 1, &send) == RCM_OK, "%s",
              rcm_last_error());
    }
    const rcm_status status = rcm_all_reduce(comm, in, out, COUNT, RCM_INT64, RCM_SUM, NULL, NULL);
    errors += check_error(comm, status, RCM_ERR_TIMEOUT, -2, "within its deadline");
    CHECK(errors, rcm_rank(comm) != 1 || fake_running(NULL, 0) == 2, "%d operations run, not 2",
          fake_running(NULL, 0));
    rcm_work_free(send);
    CHECK(errors, rcm_destroy(comm) != RCM_OK, "rcm_destroy returned RCM_OK after a failure");
    CHECK(errors, seconds() - begin < 20, "it took %.1f s", seconds() - begin);
    return errors;
}

/* ---- Messages -------------------------------------------------------------------------------- */

static uint8_t byte_of(size_t i, int round) {
    return (uint8_t)(i * 7 + (size_t)round * 13 + 1);
}

static rcm_status receive_matched(rcm_comm *comm, void *bytes, size_t room, uint64_t tag) {
    rcm_matched *matched = NULL;
    const rcm_status status = rcm_mprobe(comm, 0, tag, NULL, NULL, &matched);
    return status == RCM_OK ? rcm_mrecv(comm, matched, bytes, room, RCM_UINT8, NULL, NULL) : status;
}

/* Cancels a receive before its message arrives, or too late. */
static rcm_status receive_after_cancel(rcm_comm *comm, void *bytes, size_t room, uint64_t tag) {
    rcm_work *work = NULL;
    rcm_status status = rcm_irecv(comm, bytes, room, RCM_UINT8, 0, tag, &work);
    if (status == RCM_OK)
        status = rcm_work_cancel(work);
    if (status >= RCM_OK)
        status = rcm_work_wait(work, -1);
    rcm_work_free(work);
    return status == RCM_ERR_CANCELED ? rcm_recv(comm, bytes, room, RCM_UINT8, 0, tag, NULL, NULL)
                                      : status;
}

static rcm_status receive(rcm_comm *comm, void *bytes, size_t room, uint64_t tag) {
    return rcm_recv(comm, bytes, room, RCM_UINT8, 0, tag, NULL, NULL);
}

/* Rank 0 sends, rank 1 receives, with memory of either kind on either side. Some messages arrive
 * before their receive, and some are longer than the buffer. */
static int one_message(rcm_comm *comm, size_t len, int round, int way) {
    static rcm_status (*const receives[])(rcm_comm *, void *, size_t, uint64_t) = {
        receive, receive_matched, receive_after_cancel};
    const bool sends = rcm_rank(comm) == 0, mine = sends ? round & 1 : round & 2;
    const bool early = round & 4, cut = len > 1 && round & 8;
    uint8_t *bytes = mine ? fake_alloc(len + 1) : calloc(1, len + 1), *view = fake_view(bytes);
    const uint64_t tag = round & 16 ? UINT64_C(1) << 40 : 5;
    rcm_status status = RCM_OK;
    int errors = 0;
    if (!bytes)
        abort();
    for (size_t i = 0; i <= len; i++)
        view[i] = sends ? byte_of(i, round) : 0x77;
    if (sends)
        status = (way == 2 && !early ? rcm_ssend : rcm_send)(comm, bytes, len, RCM_UINT8, 1, tag,
                                                             NULL, NULL);
    if (sends && early)
        status = rcm_send(comm, NULL, 0, RCM_UINT8, 1, 9, NULL, NULL);
    if (!sends && early && len < 4096) /* a larger one waits for its receive */
        status = rcm_recv(comm, NULL, 0, RCM_UINT8, 0, 9, NULL, NULL);
    const size_t room = cut ? len / 2 : len;
    if (!sends)
        status = receives[way](comm, bytes, room, tag);
    if (!sends && early && len >= 4096)
        CHECK(errors, rcm_recv(comm, NULL, 0, RCM_UINT8, 0, 9, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
    CHECK(errors, status == (cut && !sends ? RCM_ERR_TRUNCATED : RCM_OK),
          "rank %d, %zu bytes, round %d: %s", rcm_rank(comm), len, round, rcm_last_error());
    CHECK(errors, fake_running(bytes, len + 1) == 0,
          "a message is complete, but still being copied");
    for (size_t i = 0; !sends && i <= len && errors == 0; i++)
        CHECK(errors, view[i] == (i < room ? byte_of(i, round) : 0x77),
              "%zu bytes, round %d: byte %zu is %d", len, round, i, view[i]);
    if (mine)
        fake_free(bytes);
    else
        free(bytes);
    return errors;
}

static int check_messages(rcm_comm *comm) {
    static const size_t sizes[] = {0, 1, 100, 3000, 20000, 300001};
    int errors = 0;
    for (int round = 0; round < 32 && rcm_rank(comm) < 2; round++)
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
            errors += one_message(comm, sizes[s], round, (int)((size_t)round / 3 + s) % 3);
    CHECK(errors, rcm_destroy(comm) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

/* Messages in both directions between all ranks, two per pair, in flight. */
static rcm_status messages_begin(rcm_comm *comm, struct flight *f, rcm_work *works[4]) {
    const int peer = rcm_rank(comm) == 0 ? 1 : 0;
    rcm_status status = RCM_OK;
    for (int i = 0; i < WORKS; i++) {
        f->in[i] = fake_alloc(BYTES);
        f->out[i] = fake_alloc(BYTES);
        f->works[i] = NULL;
    }
    for (int i = 0; i < 4 && status == RCM_OK; i++)
        status = i % 2 ? rcm_isend(comm, f->in[i / 2], BYTES / (i > 1 ? 1 : 1000), RCM_UINT8, peer,
                                   (uint64_t)i / 2, &works[i])
                       : rcm_irecv(comm, f->out[i / 2], BYTES, RCM_UINT8, peer, (uint64_t)i / 2,
                                   &works[i]);
    return status;
}

static rcm_status messages_end(struct flight *f, rcm_work *works[4], int *errors) {
    rcm_status status = RCM_OK;
    for (int i = 0; i < 4; i++) {
        const rcm_status one = works[i] ? rcm_work_wait(works[i], -1) : RCM_OK;
        void *memory = i % 2 ? f->in[i / 2] : f->out[i / 2];
        CHECK(*errors, fake_running(memory, BYTES) == 0,
              "a message is complete, but still being copied");
        rcm_work_free(works[i]);
        status = status == RCM_OK ? one : status;
    }
    const rcm_status rest = flight_end(f, errors);
    return status == RCM_OK ? rest : status;
}

static int messages_in_trouble(rcm_comm *comm, enum fake_fate fate, bool aborts, rcm_status want,
                               const char *words) {
    struct flight f;
    rcm_work *works[4] = {NULL};
    int errors = 0;
    if (rcm_rank(comm) == 1 || aborts)
        fake_set(fate, 3, 60);
    rcm_status status = rcm_rank(comm) < 2 ? messages_begin(comm, &f, works) : RCM_OK;
    if (rcm_rank(comm) == 1 && aborts) {
        await_running();
        (void)!rcm_abort(comm, "enough");
    }
    if (rcm_rank(comm) < 2) {
        const rcm_status ended = messages_end(&f, works, &errors);
        status = status == RCM_OK ? ended : status;
    } else {
        status = rcm_barrier(comm, NULL, NULL);
    }
    errors += check_error(comm, status, want, 1, words);
    (void)!rcm_destroy(comm);
    return errors;
}

static int check_message_fails(rcm_comm *comm) {
    return messages_in_trouble(comm, FAKE_FAILS, false, RCM_ERR_SYSTEM, "a copy of ");
}

static int check_message_no_room(rcm_comm *comm) {
    return messages_in_trouble(comm, FAKE_NEVER_BEGINS, false, RCM_ERR_RESOURCE, "has no room");
}

static int check_message_aborted(rcm_comm *comm) {
    return messages_in_trouble(comm, FAKE_LASTS, true, RCM_ERR_ABORTED, "enough");
}

static const struct trouble troubles[] = {
    {"mixed", check_mixed, 0},
    {"mixed pairs", check_mixed_pairs, 0},
    {"fails", check_fails, 0},
    {"no room", check_no_room, 0},
    {"at once", check_no_room_at_once, 0},
    {"abort", check_abort, 0},
    {"kill", check_kill, 0},
    {"late", check_late, 400},
    {"never ends", check_never, 3000},
    {"kinds of messages", check_messages, 0},
    {"message fails", check_message_fails, 0},
    {"message has no room", check_message_no_room, 0},
    {"message aborted", check_message_aborted, 0},
};

static int check(rcm_comm *comm, void *arg) {
    const struct trouble *trouble = arg;
    const int errors = trouble->check(comm);
    if (errors)
        fprintf(stderr, "that was: %s\n", trouble->name);
    return errors;
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    struct ranks ranks = {.n = atoi(argv[2]), .transport = argv[1], .keep = true};
    int errors = 0;
    fake_add(7);
    setenv("RINGCOMM_SLOT_BYTES", "4096", 0);
    setenv("RINGCOMM_LOG", "error", 0);
    for (size_t i = 0; i < sizeof(troubles) / sizeof(troubles[0]); i++) {
        struct trouble trouble = troubles[i];
        if (argc > 3 && !strstr(argv[3], trouble.name))
            continue;
        const double begin = seconds();
        ranks.timeout_ms = trouble.timeout_ms;
        errors += ranks_run(&ranks, check, &trouble);
        if (argc > 4)
            fprintf(stderr, "%s: %.2f s\n", trouble.name, seconds() - begin);
    }
    return errors ? 1 : 0;
}
