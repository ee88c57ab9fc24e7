/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives at the end of their communicator: leave TRANSPORT RANKS
 *
 * rcm_leave drops receives that no message has matched, of any source, tag and form. It finishes
 * receives whose message is arriving. Other ranks of the communicator go on. Also what rcm_leave
 * aborts, what rcm_destroy waits for, and what rcm_comm_prepare does if a rank leaves. Each case
 * has its own communicator; the world stays.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../ranks.h"

enum { RANKS_MAX = 8, TAG = 7 };

static rcm_comm *group_new(rcm_comm *world, int *errors) {
    rcm_comm *group = NULL;
    CHECK(*errors, rcm_comm_duplicate(world, NULL, &group) == RCM_OK, "%s", rcm_last_error());
    return group;
}

static void meet(rcm_comm *world, int *errors) {
    CHECK(*errors, rcm_barrier(world, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
}

static void left(rcm_comm *group, int *errors) {
    const rcm_status status = rcm_leave(group);
    CHECK(*errors, status == RCM_OK, "rcm_leave: %s: %s", rcm_status_name(status),
          rcm_last_error());
}

static void canceled(rcm_work *work, const char *what, int *errors) {
    const rcm_status status = rcm_work_wait(work, 0);
    CHECK(*errors, status == RCM_ERR_CANCELED, "%s: %s: %s", what, rcm_status_name(status),
          rcm_last_error());
    CHECK(*errors, strstr(rcm_last_error(), "no message had come when this rank left"), "%s: %s",
          what, rcm_last_error());
    rcm_work_free(work);
}

static void count_canceled(void *arg, rcm_status status) {
    _Atomic int *count = arg;
    atomic_fetch_add(count, status == RCM_ERR_CANCELED ? 1 : 100);
}

/* ---- Dropped receives ------------------------------------------------------------------------ */

enum { FORMS = 6 };

/* Posts a receive of each form from rank src. The sends of two of them are matched. */
static void post_all(rcm_comm *group, int src, int32_t in[FORMS], rcm_work *works[FORMS],
                     int *errors) {
    static const int32_t out = 3;
    const int me = rcm_rank(group);
    struct rcm_call persistent = RCM_CALL_INIT;
    const struct rcm_transfer batch[] = {{.kind = RCM_TRANSFER_SEND,
                                          .peer = me,
                                          .buffer = (void *)(uintptr_t)&out,
                                          .count = 1,
                                          .tag = TAG + 1,
                                          .dtype = RCM_INT32},
                                         {.kind = RCM_TRANSFER_RECV,
                                          .peer = src,
                                          .buffer = &in[4],
                                          .count = 1,
                                          .tag = TAG,
                                          .dtype = RCM_INT32}};
    persistent.flags = RCM_PERSISTENT;
    CHECK(*errors,
          rcm_irecv(group, &in[0], 1, RCM_INT32, src, TAG, &works[0]) == RCM_OK &&
              rcm_irecv(group, &in[1], 1, RCM_INT32, RCM_ANY_SOURCE, TAG, &works[1]) == RCM_OK &&
              rcm_irecv(group, &in[2], 0, RCM_INT32, src, RCM_ANY_TAG - 1, &works[2]) == RCM_OK &&
              rcm_sendrecv(group, &out, 1, me, TAG + 1, &in[3], 1, src, TAG, RCM_INT32, NULL,
                           &works[3]) == RCM_OK &&
              rcm_batch(group, batch, 2, NULL, &works[4]) == RCM_OK &&
              rcm_recv(group, &in[5], 1, RCM_INT32, src, TAG, &persistent, &works[5]) == RCM_OK &&
              rcm_work_start(works[5]) == RCM_OK,
          "%s", rcm_last_error());
}

static void *wait_for(void *arg) {
    static const int canceled_at_last = 1;
    return rcm_work_wait(arg, -1) == RCM_ERR_CANCELED ? (void *)(uintptr_t)&canceled_at_last : NULL;
}

/* Rank 0 leaves with posted receives, and so have other ranks. The group goes on without it. */
static int drops(rcm_comm *world) {
    const int me = rcm_rank(world), n = rcm_size(world), src = me == 0 ? n - 1 : me;
    int errors = 0;
    int32_t in[FORMS];
    rcm_work *works[FORMS] = {NULL};
    _Atomic int called = 0;
    rcm_comm *group = group_new(world, &errors);
    post_all(group, src, in, works, &errors);
    for (int i = 0; i < FORMS; i++)
        CHECK(errors, rcm_work_on_complete(works[i], count_canceled, &called) == RCM_OK, "%s",
              rcm_last_error());
    meet(world, &errors);
    if (me == 0) {
        pthread_t thread;
        void *waited = NULL;
        CHECK(errors, pthread_create(&thread, NULL, wait_for, works[0]) == 0, "thread");
        left(group, &errors);
        pthread_join(thread, &waited);
        CHECK(errors, waited, "a waiting thread");
    }
    meet(world, &errors);
    if (me != 0) {
        struct rcm_error error = RCM_ERROR_INIT;
        CHECK(errors, rcm_comm_error(group, &error) == RCM_OK, "the others' group: %s", error.text);
        left(group, &errors);
    }
    CHECK(errors, called == FORMS, "%d callbacks of canceled works", (int)called);
    for (int i = 0; i < FORMS; i++)
        canceled(works[i], "dropped", &errors);
    meet(world, &errors);
    return errors;
}

/* Leaves several groups at once. The world's receives stay. */
static int drops_in_groups(rcm_comm *world) {
    enum { GROUPS = 4 };
    const int me = rcm_rank(world), n = rcm_size(world);
    int errors = 0;
    int32_t in[GROUPS], of_world = 0;
    rcm_work *works[GROUPS] = {NULL}, *stays = NULL;
    rcm_comm *groups[GROUPS];
    CHECK(errors,
          rcm_irecv(world, &of_world, 1, RCM_INT32, (me + n - 1) % n, TAG, &stays) == RCM_OK, "%s",
          rcm_last_error());
    for (int g = 0; g < GROUPS; g++) {
        groups[g] = group_new(world, &errors);
        CHECK(errors, rcm_irecv(groups[g], &in[g], 1, RCM_INT32, me, TAG, &works[g]) == RCM_OK,
              "%s", rcm_last_error());
    }
    for (int g = GROUPS - 1; g >= 0; g--)
        left(groups[g], &errors);
    for (int g = 0; g < GROUPS; g++)
        canceled(works[g], "of a group", &errors);
    CHECK(errors, rcm_send(world, &me, 1, RCM_INT32, (me + 1) % n, TAG, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    CHECK(errors, rcm_work_wait(stays, -1) == RCM_OK && of_world == (me + n - 1) % n, "%s",
          rcm_last_error());
    rcm_work_free(stays);
    return errors;
}

/* ---- Arriving messages ----------------------------------------------------------------------- */

/* The message is matched, but most of it has not arrived: it is received. */
static int finishes(rcm_comm *world, size_t bytes) {
    const int me = rcm_rank(world);
    int errors = 0;
    uint8_t *data = malloc(bytes), small = 0;
    rcm_work *work = NULL, *unmatched = NULL;
    rcm_comm *group = group_new(world, &errors);
    if (!data)
        abort();
    memset(data, me == 1 ? 0x5a : 0, bytes);
    if (me == 1) {
        CHECK(errors,
              rcm_isend(group, data, bytes, RCM_UINT8, 0, TAG, &work) == RCM_OK &&
                  rcm_send(group, &small, 1, RCM_UINT8, 0, TAG + 1, NULL, NULL) == RCM_OK &&
                  rcm_work_wait(work, -1) == RCM_OK,
              "%zu bytes: %s", bytes, rcm_last_error());
        rcm_work_free(work);
    }
    if (me == 0) {
        CHECK(errors,
              rcm_irecv(group, data, bytes, RCM_UINT8, 1, TAG, &work) == RCM_OK &&
                  rcm_irecv(group, &small, 1, RCM_UINT8, 1, TAG + 2, &unmatched) == RCM_OK &&
                  rcm_probe(group, 1, TAG + 1, NULL, NULL) == RCM_OK,
              "%s", rcm_last_error());
        left(group, &errors);
        CHECK(errors, rcm_work_status(work) == RCM_OK, "%zu bytes: %s", bytes,
              rcm_status_name(rcm_work_status(work)));
        CHECK(errors, data[0] == 0x5a && memcmp(data, data + 1, bytes - 1) == 0,
              "%zu bytes are wrong", bytes);
        rcm_work_free(work);
        canceled(unmatched, "with a matched receive", &errors);
    }
    meet(world, &errors);
    if (me != 0)
        (void)!rcm_leave(group);
    free(data);
    return errors;
}

/* A message that arrives during rcm_leave is received or not. Nothing hangs. */
static int races(rcm_comm *world, size_t bytes, int delay_us) {
    const int me = rcm_rank(world);
    int errors = 0;
    uint8_t *data = malloc(bytes);
    rcm_work *work = NULL;
    rcm_comm *group = group_new(world, &errors);
    if (!data)
        abort();
    memset(data, me == 1 ? 0x5a : 0, bytes);
    if (me == 0)
        CHECK(errors,
              rcm_irecv(group, data, bytes, RCM_UINT8, RCM_ANY_SOURCE, TAG, &work) == RCM_OK, "%s",
              rcm_last_error());
    meet(world, &errors);
    if (me == 1) {
        const rcm_status status = rcm_send(group, data, bytes, RCM_UINT8, 0, TAG, NULL, NULL);
        CHECK(errors, status == RCM_OK || status == RCM_ERR_PEER, "%s", rcm_last_error());
    }
    if (me == 0) {
        usleep((useconds_t)delay_us);
        left(group, &errors);
        const rcm_status status = rcm_work_status(work);
        CHECK(errors, status == RCM_ERR_CANCELED || (status == RCM_OK && data[bytes - 1] == 0x5a),
              "%s, %x", rcm_status_name(status), data[bytes - 1]);
        rcm_work_free(work);
    }
    meet(world, &errors);
    if (me != 0)
        (void)!rcm_leave(group);
    free(data);
    return errors;
}

/* ---- Not dropped ----------------------------------------------------------------------------- */

/* A message that waits for its receive is not a receive: all ranks get an error. */
static int aborts(rcm_comm *world) {
    const size_t bytes = 4 << 20;
    const int me = rcm_rank(world);
    int errors = 0;
    uint8_t *data = malloc(bytes), byte;
    rcm_work *work = NULL, *receive = NULL;
    rcm_comm *group = group_new(world, &errors);
    if (!data)
        abort();
    memset(data, 0, bytes);
    if (me == 0) {
        CHECK(errors,
              rcm_issend(group, data, bytes, RCM_UINT8, 1, TAG, &work) == RCM_OK &&
                  rcm_irecv(group, &byte, 1, RCM_UINT8, 1, TAG, &receive) == RCM_OK,
              "%s", rcm_last_error());
        CHECK(errors,
              rcm_leave(group) == RCM_ERR_ABORTED &&
                  strstr(rcm_last_error(), "it leaves with unfinished operations"),
              "%s", rcm_last_error());
        CHECK(errors, rcm_work_status(work) == RCM_ERR_ABORTED, "%s",
              rcm_status_name(rcm_work_status(work)));
        canceled(receive, "with a send", &errors);
        rcm_work_free(work);
    }
    meet(world, &errors);
    if (me != 0)
        CHECK(errors, rcm_leave(group) == RCM_ERR_ABORTED, "%s", rcm_last_error());
    free(data);
    return errors;
}

/* rcm_destroy waits for a receive until the deadline. A cancel before it ends the wait. */
static int destroys(rcm_comm *world) {
    int errors = 0;
    int32_t in;
    rcm_work *work = NULL;
    rcm_comm *group = group_new(world, &errors), *short_lived = group_new(world, &errors);
    CHECK(errors,
          rcm_irecv(group, &in, 1, RCM_INT32, rcm_rank(world), TAG, &work) == RCM_OK &&
              rcm_work_cancel(work) == RCM_OK && rcm_destroy(group) == RCM_OK,
          "%s", rcm_last_error());
    rcm_work_free(work);
    CHECK(errors,
          rcm_comm_set_timeout(short_lived, 400) == RCM_OK &&
              rcm_irecv(short_lived, &in, 1, RCM_INT32, rcm_rank(world), TAG, &work) == RCM_OK,
          "%s", rcm_last_error());
    const rcm_status status = rcm_destroy(short_lived);
    CHECK(errors, status == RCM_ERR_TIMEOUT, "%s: %s", rcm_status_name(status), rcm_last_error());
    CHECK(errors, rcm_work_status(work) == RCM_ERR_TIMEOUT, "%s",
          rcm_status_name(rcm_work_status(work)));
    rcm_work_free(work);
    return errors;
}

/* Each rank needs all others. */
static rcm_status prepare(rcm_comm *group) {
    return rcm_comm_prepare(group, RCM_ALL_TO_ALL, 1000, 0, "pairwise");
}

/* Rank 0 leaves at once after all have prepared, or instead. */
static int prepares(rcm_comm *world, bool all) {
    const int me = rcm_rank(world);
    int errors = 0;
    rcm_comm *group = group_new(world, &errors);
    const rcm_status status = me == 0 && !all ? RCM_OK : prepare(group);
    if (me == 0 || all)
        CHECK(errors, status == RCM_OK, "%s", rcm_last_error());
    else
        CHECK(errors,
              status == RCM_ERR_PEER &&
                  strstr(rcm_last_error(), "has left without preparing all_to_all"),
              "%s: %s", rcm_status_name(status), rcm_last_error());
    if (me == 0)
        left(group, &errors);
    meet(world, &errors);
    if (me != 0 && rcm_leave(group) != RCM_OK)
        CHECK(errors, !all, "%s", rcm_last_error());
    return errors;
}

static int check_all(rcm_comm *world, void *arg) {
    static const size_t sizes[] = {1, 3000, 4 << 20};
    int errors = drops(world) + drops_in_groups(world);
    (void)arg;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]) && rcm_size(world) > 1; s++) {
        errors += finishes(world, sizes[s]);
        for (int i = 0; i < 8; i++)
            errors += races(world, sizes[s], i * i * 10);
    }
    if (rcm_size(world) > 1)
        errors += aborts(world) + prepares(world, false);
    for (int i = 0; i < 10 && rcm_size(world) > 1; i++)
        errors += prepares(world, true);
    errors += destroys(world);
    return errors > 100 ? 100 : errors;
}

int main(int argc, char **argv) {
    if (argc != 3 || atoi(argv[2]) < 1 || atoi(argv[2]) > RANKS_MAX) {
        fprintf(stderr, "usage: leave TRANSPORT RANKS\n");
        return 2;
    }
    const struct ranks ranks = {.n = atoi(argv[2]), .transport = argv[1]};
    return ranks_run(&ranks, check_all, NULL) ? 1 : 0;
}
