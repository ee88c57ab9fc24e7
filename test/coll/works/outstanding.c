/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many outstanding receives: the CPU time per receive does not grow with their number, in whatever
 * order the messages arrive, also before their receives.
 *
 *     outstanding [shm|tcp]
 *
 * A rank sends to itself, so it waits for nothing. With a transport, rank 0 sends to rank 1. Prints
 * the times per receive with 100 and with 10,000 outstanding, and fails if their ratio exceeds 20.
 * A linear search would have a ratio of 100.
 */
#include "../ranks.h"
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FEW = 100, MANY = 10000, TRIES = 4, GROWTH = 20 };

/* The tag of message k of n. */
static uint64_t same_tag(int k, int n) {
    (void)n;
    return (uint64_t)k * 0;
}
static uint64_t in_order(int k, int n) {
    (void)n;
    return (uint64_t)k;
}
static uint64_t reversed(int k, int n) {
    return (uint64_t)(n - 1 - k);
}

struct pattern {
    const char *name;
    uint64_t (*sent)(int k, int n), (*received)(int k, int n);
    bool unexpected;
};

static const struct pattern patterns[] = {
    {"one tag", same_tag, same_tag, false},
    {"tags in order", in_order, in_order, false},
    {"tags reversed", in_order, reversed, false},
    {"one tag, unexpected", same_tag, same_tag, true},
    {"tags reversed, unexpected", in_order, reversed, true},
};
enum { PATTERNS = sizeof patterns / sizeof patterns[0] };

static double now_us(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int wait_all(rcm_work **works, int n) {
    int errors = 0;
    for (int k = 0; k < n; k++) {
        CHECK(errors, rcm_work_wait(works[k], -1) == RCM_OK, "%d: %s", k, rcm_last_error());
        rcm_work_free(works[k]);
    }
    return errors;
}

struct side {
    rcm_comm *comm;
    const struct pattern *pattern;
    int n, peer;
    int *data;
    rcm_work **works;
};

static int send_all(const struct side *s) {
    int errors = 0;
    for (int k = 0; k < s->n; k++) {
        const uint64_t tag = s->pattern->sent(k, s->n);
        s->data[k] = (int)tag;
        CHECK(errors,
              rcm_isend(s->comm, &s->data[k], 1, RCM_INT32, s->peer, tag, &s->works[k]) == RCM_OK,
              "%s", rcm_last_error());
    }
    return errors;
}

static int receive_all(const struct side *s) {
    int errors = 0;
    for (int k = 0; k < s->n; k++)
        CHECK(errors,
              rcm_irecv(s->comm, &s->data[k], 1, RCM_INT32, s->peer, s->pattern->received(k, s->n),
                        &s->works[k]) == RCM_OK,
              "%s", rcm_last_error());
    return errors;
}

static int check_received(const struct side *s) {
    int errors = 0;
    for (int k = 0; k < s->n; k++)
        CHECK(errors, s->data[k] == (int)s->pattern->received(k, s->n), "%s: message %d: %d",
              s->pattern->name, k, s->data[k]);
    return errors;
}

static struct side side_new(rcm_comm *comm, const struct pattern *pattern, int n, int peer) {
    struct side side = {comm, pattern, n, peer, calloc((size_t)n, sizeof(int)), NULL};
    side.works = calloc((size_t)n, sizeof(rcm_work *));
    if (!side.data || !side.works)
        abort();
    return side;
}

static void side_free(const struct side *side) {
    free(side->data);
    free(side->works);
}

/* One round with n outstanding; *ret_us: CPU time per receive in microseconds. */
static int round_of(rcm_comm *comm, const struct pattern *p, int n, double *ret_us) {
    const int me = rcm_rank(comm), other = rcm_size(comm) - 1 - me;
    const struct side send = side_new(comm, p, n, other), recv = side_new(comm, p, n, other);
    const bool sends = me == 0, receives = me == rcm_size(comm) - 1;
    int errors = 0;
    const double began = now_us(CLOCK_THREAD_CPUTIME_ID);
    if (receives && !p->unexpected)
        errors += receive_all(&recv);
    if (sends)
        errors += send_all(&send);
    if (receives && p->unexpected)
        errors += receive_all(&recv);
    errors += receives ? wait_all(recv.works, n) : 0;
    errors += sends ? wait_all(send.works, n) : 0;
    *ret_us = (now_us(CLOCK_THREAD_CPUTIME_ID) - began) / n;
    errors += receives ? check_received(&recv) : 0;
    side_free(&send);
    side_free(&recv);
    return errors;
}

/* The minimum of several rounds. */
static int least(rcm_comm *comm, const struct pattern *p, int n, double *us) {
    int errors = 0;
    for (int i = 0; i < (n == FEW ? 20 : 1) && errors == 0; i++) {
        double once = 0;
        errors += round_of(comm, p, n, &once);
        *us = once < *us ? once : *us;
    }
    return errors;
}

static int check_pattern(rcm_comm *comm, const struct pattern *p) {
    const bool alone = rcm_size(comm) == 1;
    double few = 1e9, many = 1e9;
    int errors = 0;
    for (int i = 0; i < (alone ? TRIES : 1) && (i == 0 || many > GROWTH * few) && errors == 0; i++)
        errors += least(comm, p, FEW, &few) + least(comm, p, MANY, &many);
    if (rcm_rank(comm) == rcm_size(comm) - 1)
        printf("%-26s %6.3f us each of %d, %6.3f of %d\n", p->name, few, FEW, many, MANY);
    CHECK(errors, !alone || many <= GROWTH * few, "%s: %g us each of %d, %g of %d", p->name, few,
          FEW, many, MANY);
    return errors;
}

/* Nothing arrives for longer than RINGCOMM_WARN_AFTER. One check of all waiting receives must be
 * cheaper than one check per receive. */
static int check_slow(rcm_comm *comm) {
    enum { SLOW = 4 * MANY, WAIT_MS = 1300, MORE_MS = 1500 };
    const struct side side = side_new(comm, &patterns[1], SLOW, 0);
    const double began = now_us(CLOCK_MONOTONIC);
    int errors = receive_all(&side);
    CHECK(errors, rcm_work_wait(side.works[0], WAIT_MS) == RCM_PENDING, "%s", rcm_last_error());
    const double ms = (now_us(CLOCK_MONOTONIC) - began) / 1000;
    CHECK(errors, ms < WAIT_MS + MORE_MS, "a wait of %d ms took %.0f", WAIT_MS, ms);
    const struct side sends = side_new(comm, &patterns[1], SLOW, 0);
    errors += send_all(&sends) + wait_all(side.works, SLOW) + wait_all(sends.works, SLOW);
    errors += check_received(&side);
    side_free(&side);
    side_free(&sends);
    return errors;
}

static int check(rcm_comm *comm, void *arg) {
    int errors = 0;
    (void)arg;
    for (int i = 0; i < PATTERNS; i++)
        errors += check_pattern(comm, &patterns[i]);
    return errors + (rcm_size(comm) == 1 ? check_slow(comm) : 0);
}

int main(int argc, char **argv) {
    /* Memory that malloc returns to the system after a round would be faulted in again, page by
     * page, in the next one. */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    setenv("RINGCOMM_WARN_AFTER", "1", 1);
    setenv("RINGCOMM_LOG", "error", 0);
    const struct ranks ranks = {.n = argc > 1 ? 2 : 1, .transport = argc > 1 ? argv[1] : "auto"};
    return ranks_run(&ranks, check, NULL) ? 1 : 0;
}
