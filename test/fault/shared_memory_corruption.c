/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hostile peer on the same host: one of three ranks writes random data over all shared memory of
 * the library that it can reach (rings, counters, lengths, doorbells, status pages), while all
 * communicate. Data may be wrong, and operations may fail with an error text. No rank may crash,
 * read outside of its mappings (checked by the sanitizers), or hang.
 *
 *   shared_memory_corruption [--seed S] [--rounds N] [--ms M] [--what all|heads|rings]
 */
#include "random.h"
#include "ringcomm.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS    3
#define CULPRIT  1
#define MAPS_MAX 256
#define HEAD     8192 /* doorbell, status page: the first two pages of a segment */

struct options {
    uint64_t seed;
    int rounds, ms;
    const char *what;
};

/* Shared by the ranks of a round. */
struct board {
    _Atomic int working;       /* ranks whose links and channels exist */
    _Atomic int64_t words;     /* written by the culprit */
    _Atomic int failed[RANKS]; /* status of the first error */
};

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- The culprit ----------------------------------------------------------------------------- */

struct culprit {
    struct board *board;
    const char *what;
    uint64_t state;
    uint8_t *base[MAPS_MAX];
    size_t len[MAPS_MAX];
    int nmaps;
    _Atomic bool stop;
};

/* Finds all mappings of the library in this process and maps them again, so that they stay when the
 * library unmaps them; writable, which the descriptors allow. */
static void maps_find(struct culprit *c) {
    char line[512];
    unsigned long from, to, offset;
    FILE *file = fopen("/proc/self/maps", "re");
    while (file && fgets(line, sizeof(line), file) && c->nmaps < MAPS_MAX) {
        if (!strstr(line, "memfd:ringcomm") ||
            sscanf(line, "%lx-%lx %*s %lx", &from, &to, &offset) != 3)
            continue;
        const bool head = offset < HEAD;
        if (strcmp(c->what, "heads") == 0 && !head)
            continue;
        if (strcmp(c->what, "rings") == 0 && head)
            continue;
        void *again = mremap((void *)from, 0, to - from, MREMAP_MAYMOVE);
        if (again == MAP_FAILED || mprotect(again, to - from, PROT_READ | PROT_WRITE) != 0)
            continue;
        c->base[c->nmaps] = again;
        c->len[c->nmaps++] = to - from;
    }
    if (file)
        fclose(file);
}

/* The existing number, slightly changed; a large one; any. */
static uint64_t word_make(uint64_t *state, uint64_t was) {
    const uint64_t any = random_next(state);
    switch (any >> 60) {
    case 0:
    case 1:
    case 2:
        return was + any % 5 - 2;
    case 3:
        return UINT64_MAX - any % 3;
    case 4:
        return (uint64_t)1 << (any & 63);
    case 5:
        return 0;
    case 6:
        return any % 200000;
    case 7:
        return was | (uint64_t)1 << (any & 63);
    default:
        return any;
    }
}

static void *culprit_run(void *arg) {
    struct culprit *c = arg;
    int64_t words = 0;
    while (!atomic_load_explicit(&c->stop, memory_order_relaxed)) {
        const uint64_t at = random_next(&c->state);
        const int map = (int)(at % (uint64_t)c->nmaps);
        size_t offset = (size_t)(at >> 20) % c->len[map];
        if (at & 1024) /* counters and line headers more often than data */
            offset = offset % 4096;
        _Atomic uint64_t *word = (_Atomic uint64_t *)(c->base[map] + offset / 8 * 8);
        const uint64_t was = atomic_load_explicit(word, memory_order_relaxed);
        atomic_store_explicit(word, word_make(&c->state, was), memory_order_relaxed);
        words++;
        if (words % 64 == 0 && (at & 0xf0000) == 0)
            usleep(1 + (unsigned)(at >> 50) % 500); /* so that some operations succeed in between */
    }
    atomic_fetch_add(&c->board->words, words);
    return NULL;
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

enum { SMALL = 5, LARGE = 70000 };

static rcm_status pass_on(rcm_comm *comm, int rank, uint8_t *out, uint8_t *in, size_t len,
                          const struct rcm_call *call) {
    rcm_work *recv = NULL;
    rcm_status status =
        rcm_recv(comm, in, len, RCM_UINT8, (rank + RANKS - 1) % RANKS, RCM_ANY_TAG, call, &recv);
    if (status == RCM_OK)
        status = rcm_send(comm, out, len, RCM_UINT8, (rank + 1) % RANKS, 7, call, NULL);
    const rcm_status received = recv ? rcm_work_wait(recv, 20000) : status;
    rcm_work_free(recv);
    return status == RCM_OK ? received : status;
}

static rcm_status work_once(rcm_comm *comm, int rank, const struct rcm_call *call) {
    static float mine[LARGE], sum[LARGE];
    static uint8_t out[LARGE], in[LARGE];
    rcm_status status = rcm_all_reduce(comm, mine, sum, SMALL, RCM_FLOAT32, RCM_SUM, call, NULL);
    if (status == RCM_OK)
        status = rcm_all_reduce(comm, mine, sum, LARGE, RCM_FLOAT32, RCM_SUM, call, NULL);
    if (status == RCM_OK)
        status = rcm_broadcast(comm, sum, LARGE, RCM_FLOAT32, 0, call, NULL);
    if (status == RCM_OK)
        status = pass_on(comm, rank, out, in, SMALL, call);
    if (status == RCM_OK)
        status = pass_on(comm, rank, out, in, LARGE, call);
    if (status == RCM_OK)
        status = rcm_barrier(comm, NULL, NULL);
    /* A message that was never sent may arrive: a truncated message is no reason to stop. */
    return status == RCM_ERR_TRUNCATED ? RCM_OK : status;
}

static void culprit_start(struct culprit *c, pthread_t *ret_thread) {
    while (atomic_load(&c->board->working) < RANKS)
        usleep(1000);
    maps_find(c);
    if (c->nmaps == 0 || pthread_create(ret_thread, NULL, culprit_run, c) != 0) {
        fprintf(stderr, "no shared memory was found\n");
        _exit(3);
    }
}

static int rank_run(struct board *board, const struct options *options, const char *url, int rank,
                    uint64_t seed) {
    struct rcm_init_options init = RCM_INIT_OPTIONS_INIT;
    struct rcm_call call = RCM_CALL_INIT;
    struct culprit culprit = {.board = board, .what = options->what, .state = seed};
    pthread_t thread;
    rcm_comm *comm;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    init.rank = rank;
    init.world_size = RANKS;
    init.url = url;
    init.transport = "shm";
    init.timeout_ms = 5000;
    call.timeout_ms = 2000;
    if (rcm_init(&init, &comm) != RCM_OK || work_once(comm, rank, &call) != RCM_OK) {
        fprintf(stderr, "rank %d failed before the first write: %s\n", rank, rcm_last_error());
        return 2;
    }
    atomic_fetch_add(&board->working, 1);
    if (rank == CULPRIT)
        culprit_start(&culprit, &thread);
    const int64_t until = now_ms() + options->ms;
    rcm_status status = RCM_OK;
    while (status == RCM_OK && now_ms() < until)
        status = work_once(comm, rank, &call);
    atomic_store(&board->failed[rank], status);
    if (status != RCM_OK && rcm_last_error()[0] == '\0') {
        fprintf(stderr, "rank %d: %s without a sentence\n", rank, rcm_status_name(status));
        return 2;
    }
    while (rank == CULPRIT && now_ms() < until) /* the others may still work */
        usleep(10000);
    (void)!rcm_destroy(comm);
    if (rank == CULPRIT) {
        atomic_store(&culprit.stop, true);
        pthread_join(thread, NULL);
    }
    return 0;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

/* 1, or the slow-down by a sanitizer. */
static int slowness(void) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    return 4;
#endif
#endif
    return 1;
}

/* False if a rank crashed or did not end. */
static bool ranks_join(const pid_t *pids, int64_t until) {
    bool well = true;
    for (int left = RANKS; left > 0;) {
        for (int rank = 0; rank < RANKS; rank++) {
            int status;
            if (waitpid(pids[rank], &status, WNOHANG) != pids[rank])
                continue;
            left--;
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                continue;
            fprintf(stderr, "rank %d %s %d\n", rank,
                    WIFSIGNALED(status) ? "died of signal" : "exited with",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
            well = false;
        }
        if (now_ms() > until) {
            fprintf(stderr, "%d ranks hang\n", left);
            for (int rank = 0; rank < RANKS; rank++)
                kill(pids[rank], SIGKILL);
            while (wait(NULL) > 0)
                ;
            return false;
        }
        usleep(5000);
    }
    return well;
}

static bool round_run(struct board *board, const struct options *options, uint64_t seed) {
    char path[] = "/tmp/ringcomm-corruption-XXXXXX", url[64];
    pid_t pids[RANKS];
    memset(board, 0, sizeof(*board));
    if (!mkdtemp(path))
        return false;
    snprintf(url, sizeof(url), "file://%s/store", path);
    for (int rank = 0; rank < RANKS; rank++) {
        pids[rank] = fork();
        if (pids[rank] == 0)
            exit(rank_run(board, options, url, rank, seed));
    }
    const bool well = ranks_join(pids, now_ms() + options->ms + 30000 * slowness());
    snprintf(url, sizeof(url), "%s/store", path);
    unlink(url);
    rmdir(path);
    printf("seed %llu: %lld words written; ranks ended with %s, %s, %s%s\n",
           (unsigned long long)seed, (long long)atomic_load(&board->words),
           rcm_status_name((rcm_status)board->failed[0]),
           rcm_status_name((rcm_status)board->failed[1]),
           rcm_status_name((rcm_status)board->failed[2]), well ? "" : ": FAILED");
    return well && atomic_load(&board->words) > 0;
}

int main(int argc, char **argv) {
    struct options options = {.seed = (uint64_t)now_ms(), .rounds = 1, .ms = 500, .what = "all"};
    struct board *board =
        mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            options.seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--rounds") == 0)
            options.rounds = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--ms") == 0)
            options.ms = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--what") == 0)
            options.what = argv[i + 1];
        else
            argc = 0;
    }
    if (argc % 2 == 0 || board == MAP_FAILED) {
        fprintf(stderr, "usage: shared_memory_corruption [--seed S] [--rounds N] [--ms M] "
                        "[--what all|heads|rings]\n");
        return 2;
    }
    setenv("RINGCOMM_LOG", "error", 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    int failed = 0;
    for (int i = 0; i < options.rounds; i++)
        failed += !round_run(board, &options, options.seed + (uint64_t)i);
    return failed ? 1 : 0;
}
