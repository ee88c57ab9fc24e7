/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Paper binding: a two-level all_reduce, as a later client would write it against plan.h. Ranks of
 * a host send to their leader, leaders reduce along a chain and send the result back, each leader
 * tells its host. Nothing special is needed: hosts come from the shape, the host multicast is a
 * channel. The verifier proves it here for uneven and interleaved hosts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include "plan.h"
#include "error.h"

static int leader_of(const struct rcmi_shape *shape, int host) {
    for (int r = 0; r < shape->nranks; r++)
        if (shape->host_of[r] == host)
            return r;
    return -1;
}

static bool host_is_shared(const struct rcmi_shape *shape, int host) {
    int n = 0;
    for (int r = 0; r < shape->nranks; r++)
        n += shape->host_of[r] == host;
    return n > 1;
}

/* The leader's sum over its host, in rank order, at most 16 sources at a time. */
static void emit_host_sum(struct rcmi_builder *b, const struct rcmi_shape *shape, int rank) {
    struct rcmi_operand srcs[RCMI_SOURCES_MAX];
    int n = 0;
    srcs[n++] = rcmi_in(0); /* the leader is the first of its host */
    for (int r = rank + 1; r < shape->nranks; r++) {
        if (shape->host_of[r] != shape->host_of[rank])
            continue;
        srcs[n++] = rcmi_from(b, 0, r, 0);
        if (n == RCMI_SOURCES_MAX) {
            rcmi_reduce(b, 0, 0, srcs, n, rcmi_out(0), RCMI_NO_CHANNEL);
            n = 0;
            srcs[n++] = rcmi_out(0);
        }
    }
    if (n > 1)
        rcmi_reduce(b, 0, 0, srcs, n, rcmi_out(0), RCMI_NO_CHANNEL);
    else if (srcs[0].where == RCMI_IN)
        rcmi_copy_chunk(b, 0, 0, rcmi_in(0), rcmi_out(0));
}

static void emit_leader(struct rcmi_builder *b, const struct rcmi_shape *shape, int rank) {
    const int host = shape->host_of[rank];
    emit_host_sum(b, shape, rank);
    if (host + 1 < shape->nhosts) {
        const int next = leader_of(shape, host + 1);
        const struct rcmi_operand srcs[] = {rcmi_out(0), rcmi_from(b, 0, next, 1)};
        rcmi_reduce(b, 0, 0, srcs, 2, rcmi_out(0), RCMI_NO_CHANNEL);
    }
    if (host > 0) {
        const int prev = leader_of(shape, host - 1);
        rcmi_send(b, 0, 0, rcmi_out(0), rcmi_to(b, 0, prev, 1));
        rcmi_recv(b, 0, 0, rcmi_from(b, 0, prev, 1), rcmi_out(0));
    }
    if (host + 1 < shape->nhosts)
        rcmi_send(b, 0, 0, rcmi_out(0), rcmi_to(b, 0, leader_of(shape, host + 1), 1));
    if (host_is_shared(shape, host))
        rcmi_send(b, 0, 0, rcmi_out(0), rcmi_to_host(b, 0, 0));
}

static rcm_status emit(const struct rcmi_shape *shape, int rank, struct rcmi_plan **ret_plan) {
    struct rcmi_builder *b;
    const int leader = leader_of(shape, shape->host_of[rank]);
    rcm_status status = rcmi_plan_begin("two_level", RCM_ALL_REDUCE, shape, rank, 0, 1, 1, &b);
    if (status != RCM_OK)
        return status;
    if (rank == leader) {
        emit_leader(b, shape, rank);
    } else {
        rcmi_send(b, 0, 0, rcmi_in(0), rcmi_to(b, 0, leader, 0));
        /* Others of this host read the leader's multicast too, every message of it. */
        rcmi_recv(b, 0, 0, rcmi_from_host(b, 0, leader, 0), rcmi_out(0));
    }
    return rcmi_plan_finish(b, ret_plan);
}

static void verify_shape(const int *host_of, int nranks, int nhosts) {
    const struct rcmi_shape shape = {.nranks = nranks, .nhosts = nhosts, .host_of = host_of};
    struct rcmi_plan *plans[64];
    for (int r = 0; r < nranks; r++)
        assert_int_equal(emit(&shape, r, &plans[r]), RCM_OK);
    for (int in_place = 0; in_place < 2; in_place++) {
        const struct rcmi_verify_options options = {.in_place = in_place};
        const rcm_status status =
            rcmi_verify(&shape, (const struct rcmi_plan *const *)plans, &options);
        if (status != RCM_OK)
            print_message("%s\n", rcmi_last_error()->text);
        assert_int_equal(status, RCM_OK);
    }
    for (int r = 0; r < nranks; r++)
        rcmi_plan_free(plans[r]);
}

static void two_level_is_proved(void **state) {
    static const int even[] = {0, 0, 0, 0, 1, 1, 1, 1}, uneven[] = {0, 0, 0, 1, 2, 2},
                     interleaved[] = {0, 1, 0, 1, 2, 0, 1}, single[] = {0}, apart[] = {0, 1, 2, 3};
    static const int large[40] = {0};
    (void)state;
    verify_shape(even, 8, 2);
    verify_shape(uneven, 6, 3);
    verify_shape(interleaved, 7, 3);
    verify_shape(single, 1, 1);
    verify_shape(apart, 4, 4);
    verify_shape(large, 40, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_level_is_proved)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
