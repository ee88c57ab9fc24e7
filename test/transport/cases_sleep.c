/* SPDX-License-Identifier: BSD-3-Clause */
/* What threads sleep on: one thread of a node on its sockets, all others on its doorbell; none on
 * sockets once a peer can ring the doorbell from its own process. Wake-up by data:
 * cases_thread.c. */
#include <string.h>
#include "../../transport/link/link.h"
#include "cases.h"
#include "harness.h"

/* Waits until the two are linked. */
static void link_up(struct pair *pair) {
    side_send(pair->a, pair->other);
    while (strcmp(rcmi_node_transport(pair->a->node, pair->other), link_transport()) != 0)
        nap();
}

static bool peers_ring(void) {
    return strstr(link_transport(), "shm") != NULL;
}

/* A thread that has begun to sleep misses no ring, and only one thread polls. */
void case_sleepers(void **state) {
    (void)state;
    struct setup setup = {0};
    struct pair pair;
    struct rcmi_sleep first, second;
    limit_ms(20000);
    pair_open(&pair, &setup);
    link_up(&pair);
    for (int round = 0; round < 3; round++) {
        const int64_t start = rcmi_now_ns();
        rcmi_node_sleep_begin(pair.a->node, &first);
        rcmi_node_sleep_begin(pair.a->node, &second);
        CHECK(first.polls == !peers_ring());
        CHECK(!second.polls);
        rcmi_node_ring(pair.a->node);
        rcmi_node_sleep_until(pair.a->node, &second, limit());
        rcmi_node_sleep_until(pair.a->node, &first, limit());
        CHECK(rcmi_now_ns() - start < 10000000000LL);
        rcmi_node_sleep_end(pair.a->node, &first);
        rcmi_node_sleep_begin(pair.a->node, &first); /* a thread that left may return */
        CHECK(first.polls == !peers_ring());
        rcmi_node_sleep_end(pair.a->node, &second);
        rcmi_node_sleep_end(pair.a->node, &first);
    }
    pair_close(&pair);
}

/* A deadline ends a sleep, also one that has passed. */
void case_sleep_ends(void **state) {
    (void)state;
    struct setup setup = {0};
    struct pair pair;
    struct rcmi_sleep sleep;
    limit_ms(20000);
    pair_open(&pair, &setup);
    link_up(&pair);
    for (int round = 0; round < 8; round++) {
        const int64_t start = rcmi_now_ns(), wait = (round - 2) * 2000000LL;
        rcmi_node_sleep_begin(pair.a->node, &sleep);
        rcmi_node_sleep_until(pair.a->node, &sleep, start + wait);
        rcmi_node_sleep_end(pair.a->node, &sleep);
        CHECK(rcmi_now_ns() - start < 10000000000LL);
    }
    pair_close(&pair);
}

/* A link whose peer rings the doorbell comes up while a thread polls: the thread wakes, and polls
 * no more. */
void case_sleep_new_link(void **state) {
    (void)state;
    struct setup setup = {0};
    struct pair pair;
    struct rcmi_sleep sleep;
    limit_ms(20000);
    if (test_self)
        return;
    pair_open(&pair, &setup);
    rcmi_node_sleep_begin(pair.a->node, &sleep);
    CHECK(sleep.polls);
    side_send(pair.b, 0);
    if (peers_ring())
        rcmi_node_sleep_until(pair.a->node, &sleep, RCMI_NEVER);
    rcmi_node_sleep_end(pair.a->node, &sleep);
    while (strcmp(rcmi_node_transport(pair.a->node, 1), link_transport()) != 0)
        nap();
    rcmi_node_sleep_begin(pair.a->node, &sleep);
    CHECK(sleep.polls == !peers_ring());
    rcmi_node_sleep_end(pair.a->node, &sleep);
    pair_close(&pair);
}
