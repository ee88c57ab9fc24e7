/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators of some ranks, created from others:
 *
 *     groups TRANSPORT processes|threads RANKS
 *
 * Their members, order and names; what a rank gets that is not a member; lists that differ between
 * ranks, and members that do not call; many groups at a time, also from several threads; separate
 * errors and deadlines per group; destroy in any order.
 */
#include "../ranks.h"
#include "../../count.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 16, LIVE = 64, THREADS = 4, EACH = 16, ROUNDS = 6, BIG = 70000, LATE_MS = 300 };

static bool threads; /* ranks are threads of one process */

/* The ranks of a mask, ascending or descending. Returns their number. */
static int list_of(unsigned mask, bool down, int *ret_ranks) {
    int n = 0;
    for (int i = 0; i < RANKS_MAX; i++) {
        const int r = down ? RANKS_MAX - 1 - i : i;
        if (mask >> r & 1)
            ret_ranks[n++] = r;
    }
    return n;
}

static unsigned all_of(const rcm_comm *comm) {
    return (1u << rcm_size(comm)) - 1;
}

static rcm_comm *subset_of(rcm_comm *comm, unsigned mask, bool down, uint64_t tag, int *errors) {
    int ranks[RANKS_MAX];
    const int n = list_of(mask, down, ranks);
    rcm_comm *group = NULL;
    const rcm_status status = rcm_comm_subset(comm, ranks, n, tag, NULL, &group);
    CHECK(*errors, status == RCM_OK, "subset 0x%x: %s", mask, rcm_last_error());
    return group;
}

static void end(rcm_comm *group, int *errors) {
    CHECK(*errors, rcm_destroy(group) == RCM_OK, "destroy: %s", rcm_last_error());
}

/* Checks the sum of what each rank of the group contributes, derived from its world rank. */
static void sum_right(rcm_comm *group, int salt, int *errors) {
    int64_t mine = (int64_t)rcm_world_rank(group, rcm_rank(group)) * 1000 + salt, sum = 0,
            right = 0;
    for (int r = 0; r < rcm_size(group); r++)
        right += (int64_t)rcm_world_rank(group, r) * 1000 + salt;
    const rcm_status status = rcm_all_reduce(group, &mine, &sum, 1, RCM_INT64, RCM_SUM, NULL, NULL);
    CHECK(*errors, status == RCM_OK && sum == right, "%s: %s, the sum is %lld, not %lld: %s",
          rcm_comm_name(group), rcm_status_name(status), (long long)sum, (long long)right,
          rcm_last_error());
}

/* ---- Members --------------------------------------------------------------------------------- */

static void check_member(const rcm_comm *comm, const rcm_comm *group, const int *ranks, int n,
                         int *errors) {
    const int rank = rcm_rank(group);
    CHECK(*errors, rcm_size(group) == n && rank >= 0 && rank < n && ranks[rank] == rcm_rank(comm),
          "rank %d of %d", rank, rcm_size(group));
    for (int r = 0; r < rcm_size(comm); r++) {
        int at = -1;
        for (int i = 0; i < n; i++)
            if (ranks[i] == r)
                at = i;
        CHECK(*errors, rcm_comm_translate(comm, r, group) == at, "rank %d is %d, not %d", r,
              rcm_comm_translate(comm, r, group), at);
        CHECK(*errors, at < 0 || rcm_comm_translate(group, at, comm) == r, "rank %d is not %d", at,
              r);
    }
}

/* Every subset of ranks. Other ranks do not call, or get a handle at once. */
static int every_subset(rcm_comm *comm) {
    int errors = 0, ranks[RANKS_MAX];
    for (unsigned mask = 1; mask <= all_of(comm); mask += 1 + mask / 16) {
        const bool member = mask >> rcm_rank(comm) & 1, down = mask % 3 == 0;
        const int n = list_of(mask, down, ranks);
        if (!member && mask % 2)
            continue;
        rcm_comm *group = subset_of(comm, mask, down, mask % 5, &errors);
        if (!group)
            return errors;
        if (member) {
            check_member(comm, group, ranks, n, &errors);
            sum_right(group, (int)mask, &errors);
        } else {
            CHECK(errors, rcm_rank(group) == -1 && rcm_size(group) == n, "a handle of %d of %d",
                  rcm_rank(group), rcm_size(group));
            CHECK(errors, rcm_comm_translate(group, 0, comm) == ranks[0], "the first is %d",
                  rcm_comm_translate(group, 0, comm));
        }
        end(group, &errors);
    }
    return errors;
}

static void refused(rcm_comm *comm, const int *ranks, int n, const char *text, int *errors) {
    rcm_comm *group = NULL;
    const rcm_status status = rcm_comm_subset(comm, ranks, n, 0, NULL, &group);
    CHECK(*errors, status == RCM_ERR_INVALID && strstr(rcm_last_error(), text),
          "%s: %s, not \"%s\"", rcm_status_name(status), rcm_last_error(), text);
}

static void absent_works(rcm_comm *group, int *errors) {
    rcm_work *work = NULL;
    struct rcm_message message = RCM_MESSAGE_INIT;
    int data = 7;
    CHECK(*errors,
          rcm_all_reduce(group, &data, &data, 1, RCM_INT32, RCM_SUM, NULL, &work) == RCM_OK &&
              rcm_work_test(work) == RCM_OK && rcm_work_wait(work, -1) == RCM_OK,
          "all_reduce on a non-member: %s", rcm_last_error());
    rcm_work_free(work);
    CHECK(*errors,
          rcm_irecv(group, &data, 1, RCM_INT32, 0, 0, &work) == RCM_OK &&
              rcm_work_message(work, &message) == RCM_OK && message.source == -1 &&
              message.bytes == 0,
          "receive on a non-member: %s", rcm_last_error());
    CHECK(*errors, rcm_work_cancel(work) == RCM_OK && rcm_work_status(work) == RCM_OK,
          "canceled: %s", rcm_last_error());
    rcm_work_free(work);
    CHECK(*errors, data == 7, "a non-member received %d", data);
}

static void absent_calls(rcm_comm *group, int *errors) {
    const struct rcm_part part = {NULL, NULL, 1, RCM_INT32};
    struct rcm_error error = RCM_ERROR_INIT;
    CHECK(*errors,
          rcm_barrier(group, NULL, NULL) == RCM_OK &&
              rcm_monitored_barrier(group, 0, NULL, NULL) == RCM_OK &&
              rcm_broadcast(group, NULL, 9, RCM_INT32, 0, NULL, NULL) == RCM_OK &&
              rcm_gather(group, NULL, NULL, 9, RCM_INT32, 0, NULL, NULL) == RCM_OK &&
              rcm_all_to_all_v(group, NULL, NULL, NULL, NULL, NULL, NULL, RCM_INT32, NULL, NULL) ==
                  RCM_OK &&
              rcm_coalesced(group, RCM_ALL_REDUCE, &part, 1, RCM_SUM, 0, NULL, NULL) == RCM_OK &&
              rcm_send(group, NULL, 1, RCM_INT32, 1, 0, NULL, NULL) == RCM_OK &&
              rcm_comm_prepare(group, RCM_BARRIER, 0, 0, NULL) == RCM_OK &&
              rcm_abort(group, "by no member") == RCM_OK && rcm_comm_error(group, &error) == RCM_OK,
          "operation on a non-member: %s", rcm_last_error());
}

/* Handles of a rank that is not a member: what they do, and what is created from them. */
static int absent(rcm_comm *comm) {
    int errors = 0;
    rcm_comm *again = NULL;
    const int alone = 0;
    if (rcm_size(comm) < 2)
        return 0;
    rcm_comm *group = subset_of(comm, 1, false, 0, &errors);
    if (rcm_rank(comm) != 0) {
        absent_works(group, &errors);
        absent_calls(group, &errors);
        CHECK(errors,
              rcm_comm_subset(group, &alone, 1, 0, NULL, &again) == RCM_OK && rcm_rank(again) == -1,
              "a subset of it: %s", rcm_last_error());
        CHECK(errors, rcm_comm_transport(again, 0)[0] == '\0', "a non-member has a transport");
        refused(group, &alone, -1, "n is -1", &errors);
        end(again, &errors);
    } else {
        sum_right(group, 1, &errors);
    }
    end(group, &errors);
    return errors;
}

/* ---- Split ----------------------------------------------------------------------------------- */

static int splits(rcm_comm *comm) {
    const int rank = rcm_rank(comm), n = rcm_size(comm), colour = rank % 3 == 2 ? -1 : rank % 3;
    rcm_comm *group = NULL, *inner = NULL, *host = NULL;
    struct rcm_call call = RCM_CALL_INIT;
    int errors = 0;
    call.algorithm = "none of all_gather's"; /* unused: only the timeout counts */
    CHECK(errors, rcm_comm_split(comm, colour, -rank, &call, &group) == RCM_OK, "%s",
          rcm_last_error());
    if (colour < 0) {
        CHECK(errors, rcm_rank(group) == -1 && rcm_size(group) == 0, "without a colour: %d of %d",
              rcm_rank(group), rcm_size(group));
    } else {
        CHECK(errors,
              rcm_rank(group) == (n - 1 - rank) / 3 && rcm_size(group) == (n - colour + 2) / 3,
              "rank %d is %d of %d", rank, rcm_rank(group), rcm_size(group));
        sum_right(group, 3, &errors);
    }
    CHECK(errors, rcm_comm_duplicate(group, NULL, &inner) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, rcm_rank(inner) == rcm_rank(group), "%d", rcm_rank(inner));
    if (colour >= 0)
        sum_right(inner, 4, &errors);
    end(group, &errors); /* the parent first */
    if (colour >= 0)
        sum_right(inner, 5, &errors);
    end(inner, &errors);
    CHECK(errors, rcm_comm_split_hosts(comm, NULL, &host) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, rcm_rank(host) == rcm_local_rank(comm) && rcm_size(host) == rcm_local_size(comm),
          "%d of %d on this host", rcm_rank(host), rcm_size(host));
    sum_right(host, 6, &errors);
    end(host, &errors);
    return errors;
}

/* ---- Names and deadlines --------------------------------------------------------------------- */

static int names(rcm_comm *comm) {
    const int n = rcm_size(comm);
    char expected[64];
    int errors = 0;
    rcm_comm *group = subset_of(comm, all_of(comm), false, 9, &errors);
    snprintf(expected, sizeof expected,
             n == 1   ? "rank 0, tag 9"
             : n == 2 ? "ranks 0,1, tag 9"
                      : "ranks 0-%d, tag 9",
             n - 1);
    CHECK(errors, strcmp(rcm_comm_name(comm), "world") == 0, "%s", rcm_comm_name(comm));
    CHECK(errors, strcmp(rcm_comm_name(group), expected) == 0, "%s", rcm_comm_name(group));
    CHECK(errors, rcm_comm_set_name(group, "tensor") == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, strcmp(rcm_comm_name(group), "tensor") == 0, "%s", rcm_comm_name(group));
    CHECK(errors, rcm_comm_set_name(group, "") == RCM_ERR_INVALID, "an empty name");
    CHECK(errors, rcm_comm_timeout(group) == rcm_comm_timeout(comm), "%lld",
          (long long)rcm_comm_timeout(group));
    CHECK(errors, rcm_comm_set_timeout(group, 0) == RCM_ERR_INVALID, "no timeout");
    CHECK(errors, rcm_comm_set_timeout(group, 12345) == RCM_OK && rcm_comm_timeout(group) == 12345,
          "%lld", (long long)rcm_comm_timeout(group));
    CHECK(errors, rcm_comm_set_spin(group, -2) == RCM_ERR_INVALID, "less than the default");
    CHECK(errors, rcm_comm_set_spin(group, 1000001) == RCM_ERR_INVALID, "more than a second");
    for (int i = 0; i < 3; i++) {
        CHECK(errors, rcm_comm_set_spin(group, (const int64_t[]){0, 2000, -1}[i]) == RCM_OK, "%s",
              rcm_last_error());
        CHECK(errors, rcm_barrier(group, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    }
    end(group, &errors);
    return errors;
}

/* A deadline passes in one communicator. The error text contains its name, and the others go on. */
static int own_deadline(rcm_comm *comm) {
    int errors = 0, token = 0;
    if (rcm_size(comm) < 2)
        return 0;
    rcm_comm *group = subset_of(comm, 3, false, 0, &errors);
    if (group && rcm_rank(group) >= 0) {
        CHECK(errors,
              rcm_comm_set_name(group, "pipeline") == RCM_OK &&
                  rcm_comm_set_timeout(group, LATE_MS) == RCM_OK,
              "%s", rcm_last_error());
        const rcm_status status =
            rcm_recv(group, &token, 1, RCM_INT32, 1 - rcm_rank(group), 0, NULL, NULL);
        CHECK(errors,
              status == RCM_ERR_TIMEOUT && strstr(rcm_last_error(), "communicator \"pipeline\": "),
              "%s: %s", rcm_status_name(status), rcm_last_error());
        CHECK(errors, rcm_destroy(group) == RCM_ERR_TIMEOUT, "%s", rcm_last_error());
    } else {
        end(group, &errors);
    }
    sum_right(comm, 8, &errors);
    return errors;
}

/* An abort ends one communicator. Its parent or child goes on. */
static int own_abort(rcm_comm *comm) {
    struct rcm_error error = RCM_ERROR_INIT;
    int errors = 0;
    rcm_comm *outer = subset_of(comm, all_of(comm), false, 1, &errors);
    rcm_comm *inner = outer ? subset_of(outer, all_of(outer), true, 2, &errors) : NULL;
    if (!inner)
        return errors;
    sum_right(inner, 1, &errors);
    if (rcm_rank(outer) == 0)
        CHECK(errors, rcm_abort(outer, "enough") == RCM_OK, "%s", rcm_last_error());
    while (rcm_comm_error(outer, &error) == RCM_OK)
        usleep(1000);
    CHECK(errors,
          error.status == RCM_ERR_ABORTED && strstr(error.text, "enough") &&
              strstr(error.text, "communicator of rank"),
          "%s", error.text);
    CHECK(errors, rcm_barrier(outer, NULL, NULL) == RCM_ERR_ABORTED, "%s", rcm_last_error());
    CHECK(errors, rcm_comm_duplicate(outer, NULL, &outer) == RCM_ERR_ABORTED, "%s",
          rcm_last_error());
    sum_right(inner, 2, &errors);
    sum_right(comm, 3, &errors);
    CHECK(errors, rcm_destroy(outer) == RCM_ERR_ABORTED, "%s", rcm_last_error());
    end(inner, &errors);
    return errors;
}

/* ---- Mistakes -------------------------------------------------------------------------------- */

static int wrong_arguments(rcm_comm *comm) {
    const int twice[] = {0, 0}, beyond[] = {0, 99};
    struct rcm_call call = RCM_CALL_INIT;
    rcm_comm *group = NULL;
    int errors = 0;
    refused(comm, twice, 0, "n is 0", &errors);
    refused(comm, twice, 1000, "n is 1000", &errors);
    refused(comm, NULL, 1, "ranks is NULL", &errors);
    if (rcm_size(comm) > 1) {
        refused(comm, twice, 2, "ranks[1] is 0, which is listed twice", &errors);
        refused(comm, beyond, 2, "ranks[1] is 99", &errors);
    }
    CHECK(errors, rcm_comm_subset(NULL, twice, 1, 0, NULL, &group) == RCM_ERR_INVALID, "no parent");
    CHECK(errors, rcm_comm_subset(comm, twice, 1, 0, NULL, NULL) == RCM_ERR_INVALID, "no result");
    call.flags = 1;
    CHECK(errors, rcm_comm_subset(comm, twice, 1, 0, &call, &group) == RCM_ERR_INVALID, "a flag");
    CHECK(errors, rcm_comm_split(NULL, 0, 0, NULL, &group) == RCM_ERR_INVALID, "no parent");
    CHECK(errors, rcm_comm_split(comm, 0, 0, NULL, NULL) == RCM_ERR_INVALID, "no result");
    return errors;
}

/* Ranks 0 and 1 call with these lists. The deadline is short. */
static void mistaken(rcm_comm *comm, unsigned first, unsigned second, bool second_down,
                     rcm_status expected, const char *text, int *errors) {
    const bool is_second = rcm_rank(comm) == 1;
    const unsigned mask = is_second ? second : first;
    struct rcm_call call = RCM_CALL_INIT;
    rcm_comm *group = NULL;
    int ranks[RANKS_MAX];
    const int n = list_of(mask, is_second && second_down, ranks);
    call.timeout_ms = LATE_MS;
    if (rcm_rank(comm) < 2 && n > 0) {
        const rcm_status status = rcm_comm_subset(comm, ranks, n, 4, &call, &group);
        CHECK(*errors, status == expected && strstr(rcm_last_error(), text), "0x%x, 0x%x: %s: %s",
              first, second, rcm_status_name(status), rcm_last_error());
    }
    CHECK(*errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
}

static int mistakes(rcm_comm *comm) {
    int errors = 0;
    if (rcm_size(comm) < 4)
        return 0;
    mistaken(comm, 3, 3, true, RCM_ERR_MISMATCH, "rcm_comm_subset was called with ranks ", &errors);
    mistaken(comm, 3, 0, false, RCM_ERR_TIMEOUT,
             "has not called rcm_comm_subset with ranks 0,1, tag 4", &errors);
    mistaken(comm, 0, 3, false, RCM_ERR_TIMEOUT,
             "has not called rcm_comm_subset with ranks 0,1, tag 4", &errors);
    mistaken(comm, 7, 11, false, RCM_ERR_MISMATCH, "ranks 0,1,3, tag 4", &errors);
    sum_right(comm, 11, &errors);
    rcm_comm *group = subset_of(comm, all_of(comm), false, 4, &errors); /* all ranks call again */
    sum_right(group, 12, &errors);
    end(group, &errors);
    return errors;
}

/* ---- Early messages -------------------------------------------------------------------------- */

/* A rank that has its group sends at once. Others may still be creating theirs. */
static int early(rcm_comm *comm) {
    static _Thread_local int big[BIG];
    const int n = rcm_size(comm);
    int errors = 0;
    for (int round = 0; round < 40 && errors == 0; round++) {
        rcm_work *small_work = NULL, *big_work = NULL;
        int token = round * 1000 + rcm_rank(comm), got = -1;
        rcm_comm *group = subset_of(comm, all_of(comm), round % 2, 0, &errors);
        if (!group)
            return errors;
        const int next = (rcm_rank(group) + 1) % n, last = (rcm_rank(group) + n - 1) % n;
        const int count = round % 8 == 0 ? BIG : 10;
        CHECK(errors,
              rcm_isend(group, &token, 1, RCM_INT32, next, 1, &small_work) == RCM_OK &&
                  rcm_irecv(group, big, (size_t)count, RCM_INT32, last, 2, &big_work) == RCM_OK,
              "%s", rcm_last_error());
        if (round % 3 == rcm_rank(comm) % 3)
            usleep(200);
        CHECK(errors,
              rcm_recv(group, &got, 1, RCM_INT32, last, 1, NULL, NULL) == RCM_OK &&
                  got == round * 1000 + rcm_comm_translate(group, last, comm),
              "got %d: %s", got, rcm_last_error());
        int *out = calloc((size_t)count, sizeof *out);
        CHECK(errors, rcm_send(group, out, (size_t)count, RCM_INT32, next, 2, NULL, NULL) == RCM_OK,
              "%s", rcm_last_error());
        CHECK(errors,
              rcm_work_wait(small_work, -1) == RCM_OK && rcm_work_wait(big_work, -1) == RCM_OK,
              "%s", rcm_last_error());
        rcm_work_free(small_work);
        rcm_work_free(big_work);
        end(group, &errors);
        free(out);
    }
    return errors;
}

/* A failure reported as early as possible is not lost: no rank waits for its deadline. */
static int early_abort(rcm_comm *comm) {
    int errors = 0;
    for (int round = 0; round < 30 && errors == 0; round++) {
        rcm_comm *group = subset_of(comm, all_of(comm), false, 3, &errors);
        if (group && rcm_rank(comm) == 0)
            CHECK(errors, rcm_abort(group, "at once") == RCM_OK, "%s", rcm_last_error());
        const rcm_status status = group ? rcm_barrier(group, NULL, NULL) : RCM_ERR_ABORTED;
        CHECK(errors, status == RCM_ERR_ABORTED, "%s: %s", rcm_status_name(status),
              rcm_last_error());
        CHECK(errors, rcm_destroy(group) == RCM_ERR_ABORTED, "%s", rcm_last_error());
    }
    sum_right(comm, 13, &errors);
    return errors;
}

/* ---- Many groups ----------------------------------------------------------------------------- */

/* Mask of the i-th of many groups: at least two ranks if there are two. */
static unsigned mask_of(const rcm_comm *comm, int i) {
    const unsigned all = all_of(comm), mask = (unsigned)(i * 37 + 11) & all;
    return mask & (mask - 1) ? mask : all;
}

/* This rank's share of its mapped pages (Pss). */
static long share_kib(void) {
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    char line[200];
    long kib = 0;
    while (file && kib == 0 && fgets(line, sizeof line, file))
        (void)sscanf(line, "Pss: %ld", &kib);
    if (file)
        fclose(file);
    return kib;
}

/* All exist at the same time, and are destroyed in another order. */
static int many(rcm_comm *comm) {
    rcm_comm *groups[LIVE] = {NULL};
    int errors = 0;
    sum_right(comm, 0, &errors);
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    for (int i = 0; i < LIVE; i++)
        sum_right(comm, i, &errors);
    const int before = count_entries("/proc/self/fd");
    const long memory = share_kib();
    for (int i = 0; i < LIVE; i++)
        if (mask_of(comm, i) >> rcm_rank(comm) & 1)
            groups[i] = subset_of(comm, mask_of(comm, i), i % 2, (uint64_t)i, &errors);
    const long idle = share_kib();
    for (int i = 0; i < 3 * LIVE; i++)
        if (groups[i * 7 % LIVE])
            sum_right(groups[i * 7 % LIVE], i, &errors);
    if (rcm_rank(comm) == 0 && !threads)
        printf("64 groups of %d ranks: %ld KiB more on rank 0 (%ld before their first use), %d "
               "descriptors more\n",
               rcm_size(comm), share_kib() - memory, idle - memory,
               count_entries("/proc/self/fd") - before);
    for (int i = 0; i < LIVE; i++)
        if (groups[i * 11 % LIVE])
            end(groups[i * 11 % LIVE], &errors);
    return errors;
}

/* ---- Several threads ------------------------------------------------------------------------- */

struct driver {
    rcm_comm *comm;
    int number, errors;
    pthread_t thread;
};

static void ring_right(rcm_comm *group, int salt, int *errors) {
    const int n = rcm_size(group), rank = rcm_rank(group);
    int token = rank + salt, got = -1;
    rcm_work *work = NULL;
    const int last = (rank + n - 1) % n;
    CHECK(*errors,
          rcm_irecv(group, &got, 1, RCM_INT32, last, (uint64_t)salt, &work) == RCM_OK &&
              rcm_send(group, &token, 1, RCM_INT32, (rank + 1) % n, (uint64_t)salt, NULL, NULL) ==
                  RCM_OK &&
              rcm_work_wait(work, -1) == RCM_OK && got == last + salt,
          "%s: got %d, not %d: %s", rcm_comm_name(group), got, last + salt, rcm_last_error());
    rcm_work_free(work);
}

static void broadcast_right(rcm_comm *group, int salt, int *errors) {
    const int root = salt % rcm_size(group), count = salt % 4 == 0 ? BIG / 4 : 3;
    int *data = calloc((size_t)count, sizeof *data), wrong = 0;
    for (int i = 0; i < count && rcm_rank(group) == root; i++)
        data[i] = salt + i;
    CHECK(*errors, rcm_broadcast(group, data, (size_t)count, RCM_INT32, root, NULL, NULL) == RCM_OK,
          "%s", rcm_last_error());
    for (int i = 0; i < count; i++)
        wrong += data[i] != salt + i;
    CHECK(*errors, wrong == 0, "%s: %d of %d are wrong", rcm_comm_name(group), wrong, count);
    free(data);
}

static void mixed(rcm_comm *group, int salt, int *errors) {
    switch (salt % 4) {
    case 0:
        sum_right(group, salt, errors);
        break;
    case 1:
        ring_right(group, salt, errors);
        break;
    case 2:
        broadcast_right(group, salt, errors);
        break;
    default:
        CHECK(*errors, rcm_barrier(group, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
        break;
    }
}

/* Uses its groups one after the other, in the same order on every rank. */
static void *driver_run(void *arg) {
    struct driver *driver = arg;
    rcm_comm *groups[EACH] = {NULL};
    const int first = driver->number * EACH;
    for (int i = 0; i < EACH; i++)
        if (mask_of(driver->comm, first + i) >> rcm_rank(driver->comm) & 1)
            groups[i] = subset_of(driver->comm, mask_of(driver->comm, first + i), false,
                                  (uint64_t)(first + i), &driver->errors);
    for (int k = 0; k < ROUNDS * EACH && driver->errors == 0; k++)
        if (groups[k % EACH])
            mixed(groups[k % EACH], k / EACH + k * 5 + driver->number, &driver->errors);
    for (int i = 0; i < EACH; i++)
        if (groups[i])
            end(groups[i], &driver->errors);
    return NULL;
}

static int several_threads(rcm_comm *comm) {
    struct driver drivers[THREADS];
    int errors = 0;
    for (int i = 0; i < THREADS; i++) {
        drivers[i] = (struct driver){.comm = comm, .number = i};
        if (pthread_create(&drivers[i].thread, NULL, driver_run, &drivers[i]) != 0)
            abort();
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(drivers[i].thread, NULL);
        errors += drivers[i].errors;
    }
    return errors;
}

/* ---- Leaving --------------------------------------------------------------------------------- */

enum { SOON_S = 20 }; /* seconds; well below the deadline of an operation, also on a busy machine */

static double seconds_since(const struct timespec *then) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - then->tv_sec) + (double)(now.tv_nsec - then->tv_nsec) / 1e9;
}

/* An operation that needs a rank that has left fails with a text that reports it. */
static void left_says(rcm_status status, const char *words, const struct timespec *begun,
                      int *errors) {
    CHECK(*errors, status == RCM_ERR_PEER && strstr(rcm_last_error(), words), "%s: %s",
          rcm_status_name(status), rcm_last_error());
    CHECK(*errors, seconds_since(begun) < SOON_S, "it takes %.3f s", seconds_since(begun));
}

/* Sends two tokens to rank 1 and leaves. */
static void send_and_leave(rcm_comm *group, int *errors) {
    struct timespec begun;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int token = 4711; token < 4713; token++)
        CHECK(*errors, rcm_send(group, &token, 1, RCM_INT32, 1, 0, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
    CHECK(*errors, rcm_leave(group) == RCM_OK, "%s", rcm_last_error());
    CHECK(*errors, seconds_since(&begun) < SOON_S, "leaving takes %.3f s", seconds_since(&begun));
}

static void receive_token(rcm_comm *group, int token, int *errors) {
    int got = 0;
    CHECK(*errors, rcm_recv(group, &got, 1, RCM_INT32, 0, 0, NULL, NULL) == RCM_OK && got == token,
          "got %d, not %d: %s", got, token, rcm_last_error());
}

/* Rank 0 leaves a communicator. What it sent is received afterwards, operations that need it fail,
 * others go on. The failure ends all operations in flight on every rank, so the ranks meet before
 * it. */
static int leaves(rcm_comm *comm) {
    const int me = rcm_rank(comm);
    int errors = 0;
    struct timespec begun;
    if (rcm_size(comm) < 2)
        return 0;
    rcm_comm *group = subset_of(comm, all_of(comm), false, 5, &errors);
    rcm_comm *others = me > 0 ? subset_of(comm, all_of(comm) & ~1u, false, 6, &errors) : NULL;
    sum_right(group, 14, &errors);
    if (me == 0)
        send_and_leave(group, &errors);
    sum_right(comm, 16, &errors);
    for (int token = 4711; me == 1 && token < 4713; token++)
        receive_token(group, token, &errors);
    if (me > 0) {
        sum_right(others, 15, &errors);
        clock_gettime(CLOCK_MONOTONIC, &begun);
        left_says(rcm_barrier(group, NULL, NULL), "has left", &begun, &errors);
        CHECK(errors, strstr(rcm_last_error(), "rank 0"), "%s", rcm_last_error());
        CHECK(errors, rcm_leave(group) == RCM_ERR_PEER, "%s", rcm_last_error());
        sum_right(others, 17, &errors);
        end(others, &errors);
    }
    sum_right(comm, 16, &errors);
    return errors;
}

/* Synchronizes by messages to rank 0 and back, so that no other ranks connect. */
static void meet_at_0(rcm_comm *comm, int *errors) {
    const int me = rcm_rank(comm);
    char byte = 0;
    for (int back = 0; back < 2; back++)
        for (int r = 1; r < rcm_size(comm); r++) {
            const bool sends = back ? me == 0 : me == r;
            if (me != 0 && me != r)
                continue;
            CHECK(*errors,
                  (sends ? rcm_send(comm, &byte, 1, RCM_UINT8, me == 0 ? r : 0, 77, NULL, NULL)
                         : rcm_recv(comm, &byte, 1, RCM_UINT8, me == 0 ? r : 0, 77, NULL, NULL)) ==
                      RCM_OK,
                  "%s", rcm_last_error());
        }
}

/* The last rank leaves a communicator. Ranks 1 and 2 need it later and are not connected to it, so
 * this case runs first. */
static int leaves_unseen(rcm_comm *comm) {
    const int last = rcm_size(comm) - 1, me = rcm_rank(comm), ranks[] = {2, last};
    int errors = 0, got = 0;
    struct timespec begun;
    rcm_comm *pair = NULL;
    if (last < 2)
        return 0;
    rcm_comm *group = subset_of(comm, all_of(comm), false, 7, &errors);
    if (me == last)
        CHECK(errors, rcm_leave(group) == RCM_OK, "%s", rcm_last_error());
    meet_at_0(comm, &errors);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    if (me == 2 && me < last) {
        left_says(rcm_comm_subset(group, ranks, 2, 0, NULL, &pair), "left", &begun, &errors);
        CHECK(errors, rcm_send(comm, &got, 1, RCM_INT32, 1, 78, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
    }
    if (me == 1) {
        if (last > 2)
            CHECK(errors, rcm_recv(comm, &got, 1, RCM_INT32, 2, 78, NULL, NULL) == RCM_OK, "%s",
                  rcm_last_error());
        clock_gettime(CLOCK_MONOTONIC, &begun);
        left_says(rcm_recv(group, &got, 1, RCM_INT32, last, 0, NULL, NULL), "has left", &begun,
                  &errors);
    }
    meet_at_0(comm, &errors);
    if (me != last && rcm_leave(group) == RCM_OK)
        CHECK(errors, me != 1, "the communicator has not failed");
    return errors;
}

/* The first and the last rank leave. rcm_comm_shrink of the others waits for neither. */
static int leaves_shrunk(rcm_comm *comm) {
    const int last = rcm_size(comm) - 1, me = rcm_rank(comm);
    int errors = 0, sum = 1;
    struct timespec begun;
    if (last < 2)
        return 0;
    rcm_comm *group = subset_of(comm, all_of(comm), false, 8, &errors), *rest = NULL;
    if (me == 0 || me == last) {
        const rcm_status status = rcm_leave(group); /* or the group has failed by then */
        CHECK(errors, status == RCM_OK || status == RCM_ERR_ABORTED, "%s", rcm_last_error());
    } else {
        clock_gettime(CLOCK_MONOTONIC, &begun);
        CHECK(errors, rcm_comm_shrink(group, NULL, &rest) == RCM_OK, "%s", rcm_last_error());
        CHECK(errors, rest && rcm_size(rest) == last - 1, "%d ranks", rest ? rcm_size(rest) : 0);
        CHECK(errors, seconds_since(&begun) < SOON_S, "it took %.1f s", seconds_since(&begun));
        CHECK(errors,
              rest &&
                  rcm_all_reduce(rest, &sum, &sum, 1, RCM_INT32, RCM_SUM, NULL, NULL) == RCM_OK &&
                  sum == last - 1,
              "%d: %s", sum, rcm_last_error());
        CHECK(errors, rcm_destroy(group) != RCM_OK, "the old communicator has not failed");
        CHECK(errors, rcm_destroy(rest) == RCM_OK, "%s", rcm_last_error());
    }
    meet_at_0(comm, &errors);
    return errors;
}

/* A receive from any source waits for ranks that have not left, and fails when the last one
 * leaves. */
static int leaves_all(rcm_comm *comm) {
    const int n = rcm_size(comm), me = rcm_rank(comm);
    int errors = 0, got = 0;
    struct timespec begun;
    if (n < 2)
        return 0;
    rcm_comm *group = subset_of(comm, all_of(comm), false, 8, &errors);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    if (me > 0) { /* the last rank sends long after the others have left */
        if (me == n - 1)
            usleep(300000);
        CHECK(errors, rcm_send(group, &me, 1, RCM_INT32, 0, 0, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
        CHECK(errors, rcm_leave(group) == RCM_OK, "%s", rcm_last_error());
    }
    for (int i = 1; me == 0 && i < n; i++)
        CHECK(errors, rcm_recv(group, &got, 1, RCM_INT32, RCM_ANY_SOURCE, 0, NULL, NULL) == RCM_OK,
              "%s", rcm_last_error());
    if (me == 0) {
        left_says(rcm_recv(group, &got, 1, RCM_INT32, RCM_ANY_SOURCE, 0, NULL, NULL), "has left",
                  &begun, &errors);
        CHECK(errors, rcm_leave(group) == RCM_ERR_PEER, "%s", rcm_last_error());
    }
    sum_right(comm, 18, &errors);
    return errors;
}

/* A short send ends while its receiver is in an operation of another communicator. */
static int sends_across(rcm_comm *comm) {
    const int me = rcm_rank(comm), token = 4713;
    int errors = 0;
    rcm_comm *group = subset_of(comm, all_of(comm), false, 8, &errors);
    if (me == 0 && rcm_size(comm) > 1)
        CHECK(errors, rcm_send(group, &token, 1, RCM_INT32, 1, 0, NULL, NULL) == RCM_OK, "%s",
              rcm_last_error());
    sum_right(comm, 18, &errors);
    if (me == 1)
        receive_token(group, token, &errors);
    end(group, &errors);
    return errors;
}

/* ---- Destroy order --------------------------------------------------------------------------- */

/* The world is destroyed before its groups. Then a new world is created. */
static int world_first(rcm_comm *comm) {
    int errors = 0;
    rcm_comm *some = NULL, *all = subset_of(comm, all_of(comm), true, 0, &errors), *again = NULL;
    if (rcm_size(comm) > 2 && rcm_rank(comm) > 0)
        some = subset_of(comm, all_of(comm) & ~1u, false, 0, &errors);
    end(comm, &errors);
    sum_right(all, 1, &errors);
    end(all, &errors);
    if (some) {
        sum_right(some, 2, &errors);
        end(some, &errors);
    }
    if (threads)
        return errors;
    CHECK(errors, rcm_init(NULL, &again) == RCM_OK, "a second world: %s", rcm_last_error());
    if (again)
        sum_right(again, 3, &errors);
    end(again, &errors);
    return errors;
}

static const struct {
    const char *name;
    int (*run)(rcm_comm *comm);
} cases[] = {{"leaves_unseen", leaves_unseen},
             {"sends_across", sends_across},
             {"every_subset", every_subset},
             {"absent", absent},
             {"splits", splits},
             {"names", names},
             {"own_deadline", own_deadline},
             {"own_abort", own_abort},
             {"wrong_arguments", wrong_arguments},
             {"mistakes", mistakes},
             {"early", early},
             {"early_abort", early_abort},
             {"many", many},
             {"several_threads", several_threads},
             {"leaves", leaves},
             {"leaves_all", leaves_all},
             {"leaves_shrunk", leaves_shrunk},
             {"world_first", world_first}};

static int rank_run(rcm_comm *comm, void *arg) {
    struct timespec a, b;
    int errors = 0;
    (void)arg;
    const int rank = rcm_rank(comm);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0] && errors == 0; i++) {
        clock_gettime(CLOCK_MONOTONIC, &a);
        errors = cases[i].run(comm);
        clock_gettime(CLOCK_MONOTONIC, &b);
        CHECK(errors, errors == 0, "rank %d: %s has %d errors", rank, cases[i].name, errors);
        if (rank == 0 && getenv("VERBOSE"))
            fprintf(stderr, "%-16s %.3f s\n", cases[i].name,
                    (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9);
    }
    if (errors > 0)
        _Exit(errors > 100 ? 100 : errors);
    return 0;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: groups TRANSPORT processes|threads RANKS\n");
        return 2;
    }
    threads = strcmp(argv[2], "threads") == 0;
    const struct ranks ranks = {
        .n = atoi(argv[3]), .threads = threads, .transport = argv[1], .keep = true};
    setenv("RINGCOMM_TRANSPORT", argv[1], 1);
    setenv("RINGCOMM_LOG", "error", 0);
    return ranks_run(&ranks, rank_run, NULL) != 0;
}
