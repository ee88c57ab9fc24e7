/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that make different calls: one odd rank calls something else than the others, with 2, 3 and
 * 8 ranks, as the first, a middle or the last one. Every rank must get an error that names both
 * calls (or the missing rank and its call), in that call or at the latest in rcm_destroy. A call
 * that returned RCM_OK must have a correct result.
 *
 *   mismatch TRANSPORT threads|processes some|all [KIND]
 *
 * "some" takes the first, a middle and the last rank of 8 in turn instead of all three for each
 * kind. Not here: the kinds (mismatch_kinds.c).
 */
#include "../coll/ranks.h"
#include "mismatch_kinds.h"
#include "cpu_starvation.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 8, LATE_MS = 400, LATE_TURNS = 4, TAG = 77, NO_RANK = -2 };

/* A test of one kind; ranks may be threads or processes. */
struct scene {
    const struct kind *kind;
    const char *transport;
    int n, odd;
    int64_t late_ms;
    struct shared {
        _Atomic int64_t queued_ns; /* the most that the ranks of one process queued */
        _Atomic int origin;        /* of the first rank that reports; NO_RANK: not yet */
    } * shared;                    /* shared by the ranks */
};

/* ---- Calls ---------------------------------------------------------------------------------- */

static rcm_dtype action_dtype(const struct action *a) {
    return a->dtype ? a->dtype : RCM_FLOAT32;
}

static int who_of(const struct scene *scene, enum who who) {
    return who == ODD ? scene->odd : who == NEXT ? (scene->odd + 1) % scene->n : 0;
}

static rcm_status stay_away(rcm_comm *comm) {
    struct rcm_error error = RCM_ERROR_INIT;
    const struct timespec ms = {0, 1000000};
    for (int i = 0; i < 60000 && rcm_comm_error(comm, &error) == RCM_OK; i++)
        nanosleep(&ms, NULL);
    return error.status;
}

static rcm_status action_do(rcm_comm *comm, const struct scene *scene, const struct action *a,
                            const void *in, void *out) {
    struct rcm_call call = RCM_CALL_INIT;
    const int root = who_of(scene, a->root);
    call.algorithm = a->algorithm;
    call.flags = a->flags;
    call.timeout_ms = scene->kind->status == RCM_ERR_TIMEOUT ? scene->late_ms : 0;
    switch (a->what) {
    case ALL_REDUCE:
        return rcm_all_reduce(comm, in, out, a->count, action_dtype(a), a->op ? a->op : RCM_SUM,
                              &call, NULL);
    case BROADCAST:
        return rcm_broadcast(comm, out, a->count, action_dtype(a), root, &call, NULL);
    case BARRIER:
        return rcm_barrier(comm, &call, NULL);
    case MONITORED_BARRIER:
        return rcm_monitored_barrier(comm, (uint32_t)a->count, &call, NULL);
    case REDUCE:
        return rcm_reduce(comm, in, out, a->count, action_dtype(a), a->op ? a->op : RCM_SUM, root,
                          &call, NULL);
    case SCATTER:
        return rcm_scatter(comm, in, out, a->count, action_dtype(a), root, &call, NULL);
    case GATHER:
        return rcm_gather(comm, in, out, a->count, action_dtype(a), root, &call, NULL);
    case ALL_GATHER:
        return rcm_all_gather(comm, in, out, a->count, action_dtype(a), &call, NULL);
    case REDUCE_SCATTER:
        return rcm_reduce_scatter(comm, in, out, a->count, action_dtype(a), a->op ? a->op : RCM_SUM,
                                  &call, NULL);
    case ALL_TO_ALL:
        return rcm_all_to_all(comm, in, out, a->count, action_dtype(a), &call, NULL);
    case SCAN:
        return rcm_scan(comm, in, out, a->count, action_dtype(a), a->op ? a->op : RCM_SUM, &call,
                        NULL);
    case EXSCAN:
        return rcm_exscan(comm, in, out, a->count, action_dtype(a), a->op ? a->op : RCM_SUM, &call,
                          NULL);
    case SEND:
        call.timeout_ms = 0; /* others time out before it */
        return rcm_send(comm, in, a->count, RCM_FLOAT32, root, TAG, &call, NULL);
    case RECV:
        if (rcm_rank(comm) == scene->odd)
            call.timeout_ms = 0;
        return rcm_recv(comm, out, a->count, RCM_FLOAT32, root, TAG, &call, NULL);
    default:
        return stay_away(comm);
    }
}

/* Whether all ranks have made the same calls up to call k. */
static bool is_equal_so_far(const struct kind *kind, int k) {
    for (int i = 0; i <= k; i++)
        if (memcmp(&kind->usual[i], &kind->odd[i], sizeof(kind->odd[i])) != 0)
            return false;
    return true;
}

/* In a scan only the ranks up to this one count, and for rank 0 none. */
static bool scan_is_right(const struct scene *scene, int rank, const struct action *a,
                          const float *out, int k) {
    const float own = a->what == SCAN ? (float)(rank + 1) : 0;
    const float want = own + (float)(rank * (rank + 1) / 2);
    for (size_t i = 0; i < a->count && (rank > 0 || a->what == SCAN); i++)
        if (out[i] != want)
            return false;
    return rank == 0 || rank < scene->odd || is_equal_so_far(scene->kind, k);
}

/* A different call may complete on this rank, but only with a correct result. */
static bool action_is_right(const struct scene *scene, int rank, const struct action *a,
                            const float *out, int k) {
    const bool from_root = a->what == BROADCAST || a->what == SCATTER;
    float sum = 0;
    for (int r = 0; r < scene->n; r++)
        sum += (float)(r + 1);
    if (a->what == SEND)
        return true;
    if (a->what == SCAN || a->what == EXSCAN)
        return scan_is_right(scene, rank, a, out, k);
    if (a->what == REDUCE || a->what == GATHER)
        return rank != who_of(scene, a->root) || is_equal_so_far(scene->kind, k);
    if (a->what != ALL_REDUCE && !from_root)
        return is_equal_so_far(scene->kind, k);
    for (size_t i = 0; i < a->count; i++)
        if (out[i] != (from_root ? (float)(who_of(scene, a->root) + 1) : sum))
            return false;
    return from_root || is_equal_so_far(scene->kind, k);
}

/* Equal calls on all ranks, which link them and make numbers differ from 1. They may fail: others
 * may be further. */
static rcm_status begin(rcm_comm *comm) {
    float one = 1, sum = 0;
    rcm_status status = rcm_barrier(comm, NULL, NULL);
    if (status == RCM_OK)
        status = rcm_all_reduce(comm, &one, &sum, 1, RCM_FLOAT32, RCM_SUM, NULL, NULL);
    return status;
}

/* ---- The error text ------------------------------------------------------------------------- */

/* Whether the text contains `words`, with %d as the odd rank; "a|b": one of the two. */
static bool has_words(const char *text, const char *words, int odd) {
    char either[2][100];
    char number[12];
    size_t which = 0, used = 0;
    either[1][0] = '\0';
    snprintf(number, sizeof(number), "%d", odd);
    for (const char *c = words; *c && used < sizeof(either[0]) - 12; c++) {
        if (*c == '|') {
            either[which++][used] = '\0';
            used = 0;
        } else if (c[0] == '%' && c[1] == 'd') {
            used += (size_t)snprintf(either[which] + used, 12, "%s", number);
            c++;
        } else {
            either[which][used++] = *c;
        }
    }
    either[which][used] = '\0';
    return strstr(text, either[0]) || (which && strstr(text, either[1]));
}

static int check_error(int rank, const struct scene *scene, rcm_status status, const char *text) {
    const struct kind *kind = scene->kind;
    int errors = 0;
    CHECK(errors, status == kind->status, "%s over %s, %d ranks, odd %d: rank %d got %s: %s",
          kind->name, scene->transport, scene->n, scene->odd, rank, rcm_status_name(status), text);
    for (size_t i = 0; i < 3 && kind->words[i]; i++)
        CHECK(errors, has_words(text, kind->words[i], scene->odd),
              "%s over %s, %d ranks, odd %d: rank %d's error lacks \"%s\": %s", kind->name,
              scene->transport, scene->n, scene->odd, rank, kind->words[i], text);
    return errors;
}

/* All ranks name the same rank. */
static int check_origin(int rank, const struct scene *scene, const struct rcm_error *error) {
    int errors = 0, first = NO_RANK;
    if (!atomic_compare_exchange_strong(&scene->shared->origin, &first, error->origin))
        CHECK(errors, error->origin == first,
              "%s over %s, %d ranks, odd %d: rank %d names %d, another rank %d: %s",
              scene->kind->name, scene->transport, scene->n, scene->odd, rank, error->origin, first,
              error->text);
    return errors;
}

static void note_strain(const struct scene *scene, const struct strain *before) {
    struct strain after = {0};
    strain_add(&after, 0);
    const int64_t queued = strain_excuse(before, &after);
    int64_t most = atomic_load(&scene->shared->queued_ns);
    while (queued > most && !atomic_compare_exchange_weak(&scene->shared->queued_ns, &most, queued))
        ;
}

static int rank_play(rcm_comm *comm, void *arg) {
    const struct scene *scene = arg;
    const int rank = rcm_rank(comm);
    const struct action *actions = rank == scene->odd ? scene->kind->odd : scene->kind->usual;
    float *in = malloc(MAX_COUNT * sizeof(*in)), *out = malloc(MAX_COUNT * sizeof(*out));
    rcm_status status = begin(comm);
    const bool may_be_late = scene->kind->status == RCM_ERR_TIMEOUT;
    struct strain before = {0};
    int errors = 0;
    char text[512] = "";
    if (may_be_late)
        strain_add(&before, 0);
    for (size_t i = 0; i < MAX_COUNT; i++)
        in[i] = out[i] = (float)(rank + 1);
    for (int k = 0; k < CALLS && actions[k].what != NONE && status == RCM_OK; k++) {
        status = action_do(comm, scene, &actions[k], in, out);
        CHECK(errors, status != RCM_OK || action_is_right(scene, rank, &actions[k], out, k),
              "%s over %s, %d ranks, odd %d: rank %d: call %d returned RCM_OK, wrongly",
              scene->kind->name, scene->transport, scene->n, scene->odd, rank, k);
    }
    struct rcm_error error = RCM_ERROR_INIT;
    if (may_be_late)
        note_strain(scene, &before);
    if (status != RCM_OK) {
        CHECK(errors, rcm_comm_error(comm, &error) == status,
              "rcm_comm_error differs from the returned status");
        memcpy(text, error.text, sizeof(text));
    }
    if (errors == 0 && status != RCM_OK)
        errors += check_error(rank, scene, status, text) + check_origin(rank, scene, &error);
    if (status == RCM_OK) { /* the last chance */
        const rcm_status destroyed = rcm_destroy(comm);
        errors += check_error(rank, scene, destroyed, rcm_last_error());
    } else {
        CHECK(errors, rcm_destroy(comm) == status, "rcm_destroy did not return the error");
    }
    free(in);
    free(out);
    return errors;
}

static void *shared_memory(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    return memory;
}

/* ---- Tests ---------------------------------------------------------------------------------- */

/* A late rank needs a processor to do what the report expects of it; without, the test runs once
 * more, with more time. */
static bool is_strained(const struct scene *scene) {
    const int64_t queued_ms = atomic_load(&scene->shared->queued_ns) / 1000000;
    if (scene->kind->status != RCM_ERR_TIMEOUT || queued_ms < scene->late_ms / 2)
        return false;
    printf("%s over %s, %d ranks, odd %d: queued %lld ms for a processor; repeating\n",
           scene->kind->name, scene->transport, scene->n, scene->odd, (long long)queued_ms);
    return true;
}

static int scene_run(const struct kind *kind, const char *transport, bool threads, int n, int odd) {
    static struct shared *shared;
    if (!shared)
        shared = shared_memory(sizeof(*shared));
    struct scene scene = {.kind = kind,
                          .transport = transport,
                          .n = n,
                          .odd = odd,
                          .late_ms = LATE_MS,
                          .shared = shared};
    const struct ranks ranks = {
        .n = n, .threads = threads, .transport = transport, .timeout_ms = 30000, .keep = true};
    int errors = 1;
    for (int turn = 0; errors && turn < LATE_TURNS; turn++, scene.late_ms *= 2) {
        atomic_store(&shared->queued_ns, 0);
        atomic_store(&shared->origin, NO_RANK);
        errors = ranks_run(&ranks, rank_play, &scene);
        if (errors && !is_strained(&scene))
            break;
    }
    printf("%s %s over %s, %d ranks, odd %d\n", errors ? "FAIL" : "ok  ", kind->name, transport, n,
           odd);
    fflush(stdout);
    return errors;
}

static int kind_run(const struct kind *kind, const char *transport, bool threads, bool all) {
    static const int sizes[] = {2, 3, 8};
    int errors = 0;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        const int n = sizes[s], odds[] = {0, n / 2, n - 1};
        for (int k = 0; k < 3; k++) {
            if ((n == 2 && k == 2) || (!all && n == 8 && k != (int)(kind - kinds) % 3))
                continue;
            errors += scene_run(kind, transport, threads, n, odds[k]);
        }
    }
    return errors;
}

/* Each kind is taken by one worker, from the last one on: kinds that end by a deadline, which take
 * longest, are the last in the table. */
static int worker_run(_Atomic int *left, char **args, const char *only) {
    int errors = 0;
    for (int i; (i = atomic_fetch_sub(left, 1) - 1) >= 0;)
        if (!only || strcmp(only, kinds[i].name) == 0)
            errors += kind_run(&kinds[i], args[0], strcmp(args[1], "threads") == 0,
                               strcmp(args[2], "all") == 0);
    return errors;
}

/* The workers mostly wait, until ranks report a missing one: so several run at a time. */
static int workers_run(char **args, const char *only) {
    int failed = 0;
    _Atomic int *left = shared_memory(sizeof(*left));
    atomic_store(left, KINDS);
    for (int worker = 0; worker < WORKERS; worker++) {
        const pid_t pid = fork();
        if (pid < 0)
            abort();
        if (pid == 0) {
            alarm(600);
            exit(worker_run(left, args, only) != 0);
        }
    }
    for (int status, worker = 0; worker < WORKERS; worker++)
        failed += wait(&status) < 0 || status != 0;
    return failed;
}

static bool is_kind(const char *name) {
    for (size_t i = 0; i < KINDS; i++)
        if (strcmp(name, kinds[i].name) == 0)
            return true;
    return false;
}

int main(int argc, char **argv) {
    if ((argc != 4 && argc != 5) || (argc == 5 && !is_kind(argv[4]))) {
        fprintf(stderr, "usage: mismatch TRANSPORT threads|processes some|all [KIND]\n");
        return 2;
    }
    setenv("RINGCOMM_LOG", "error", 0);
    const int failed = workers_run(argv + 1, argc == 5 ? argv[4] : NULL);
    printf("%d kinds, %d of %d workers failed\n", argc == 5 ? 1 : (int)KINDS, failed, WORKERS);
    return failed != 0;
}
