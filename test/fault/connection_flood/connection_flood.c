/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job of four ranks starts under a flood of unauthenticated connections to its store and to each
 * rank: it must start, about as fast as without. The last rank starts later than the others, so
 * that those wait inside rcm_init meanwhile; the time counts from there. Ranks have 1024
 * descriptors each.
 *
 *   connection_flood --transport shm|tcp [--secret TEXT] [--attack NAME|all|none] [--rounds N]
 *                    [--limit S] [--store url|env] [--late MS]
 */
#include "ringcomm.h"
#include "connection_flood.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DESCRIPTORS 1024
#define ATTACKERS   8
#define ROUNDS_MAX  100
#define LOWEST_PORT 20000 /* below the ports of outgoing connections */
#define PORT_BLOCKS 2400  /* of FLOOD_PORTS each */

struct options {
    const char *transport, *secret, *attack, *store;
    int rounds, late_ms;
    double limit;
};

struct board {
    struct flood flood;
    double began;
    _Atomic int failed;
    _Atomic int most_fds;
    double started[FLOOD_RANKS]; /* the end of its first barrier */
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void nap_ms(int ms) {
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

/* ---- Ranks ----------------------------------------------------------------------------------- */

static int descriptors(void) {
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

static void note_descriptors(struct board *board) {
    const int n = descriptors();
    for (int most = atomic_load(&board->most_fds); n > most;)
        if (atomic_compare_exchange_weak(&board->most_fds, &most, n))
            return;
}

static rcm_status rank_work(struct board *board, int rank, rcm_comm *comm) {
    enum { COUNT = 10000 };
    static float mine[COUNT], sum[COUNT];
    rcm_status status = rcm_barrier(comm, NULL, NULL);
    board->started[rank] = now();
    for (int i = 0; i < COUNT; i++)
        mine[i] = (float)(rank + i % 100);
    for (int k = 0; status == RCM_OK && k < 20; k++)
        status = rcm_all_reduce(comm, mine, sum, COUNT, RCM_FLOAT32, RCM_SUM, NULL, NULL);
    note_descriptors(board);
    for (int i = 0; status == RCM_OK && i < COUNT; i++) {
        if (sum[i] != (float)(6 + 4 * (i % 100))) {
            fprintf(stderr, "rank %d: element %d is %g\n", rank, i, (double)sum[i]);
            atomic_store(&board->failed, 1);
            break;
        }
    }
    return status;
}

static _Noreturn void rank_run(struct board *board, const struct options *options, int rank) {
    struct rcm_init_options init = RCM_INIT_OPTIONS_INIT;
    const struct rlimit limit = {DESCRIPTORS, DESCRIPTORS};
    rcm_comm *comm;
    char text[64];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_NOFILE, &limit);
    snprintf(text, sizeof(text), "%d-%d", board->flood.port + 1, board->flood.port + FLOOD_RANKS);
    setenv("RINGCOMM_PORTS", text, 1);
    setenv("RINGCOMM_IFACE", "127.0.0.1", 1);
    snprintf(text, sizeof(text), "%d", board->flood.port);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", text, 1);
    snprintf(text, sizeof(text), "tcp://127.0.0.1:%d", board->flood.port);
    init.url = strcmp(options->store, "env") == 0 ? "env://" : text;
    init.rank = rank;
    init.world_size = FLOOD_RANKS;
    init.transport = options->transport;
    init.secret = options->secret;
    init.timeout_ms = 60000;
    rcm_status status = rcm_init(&init, &comm);
    if (status == RCM_OK) {
        status = rank_work(board, rank, comm);
        const rcm_status ended = rcm_destroy(comm);
        status = status == RCM_OK ? ended : status;
    }
    if (status != RCM_OK)
        fprintf(stderr, "rank %d: %s: %s\n", rank, rcm_status_name(status), rcm_last_error());
    _exit(status == RCM_OK ? 0 : 1);
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static bool port_is_free(int port) {
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    bool free_port = bind(fd, (struct sockaddr *)&in, sizeof(in)) == 0;
    close(fd);
    return free_port;
}

/* Free ports that no parallel run of this test uses, whose listeners may not exist yet: a block of
 * ports belongs to the process that has a socket of this name. -1: not free. */
static int block_take(int first) {
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int len = snprintf(un.sun_path + 1, sizeof(un.sun_path) - 1, "flood-%d", first);
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
    int n = 0;
    if (bind(fd, (struct sockaddr *)&un, size) == 0)
        while (n < FLOOD_PORTS && port_is_free(first + n))
            n++;
    if (n == FLOOD_PORTS)
        return fd;
    close(fd);
    return -1;
}

/* The first of FLOOD_PORTS consecutive ports; close *ret_block when they are no longer used. */
static int ports_find(int *ret_block) {
    for (int tries = 0; tries < 1000; tries++) {
        const int first = LOWEST_PORT + rand() % PORT_BLOCKS * FLOOD_PORTS;
        *ret_block = block_take(first);
        if (*ret_block >= 0)
            return first;
    }
    fprintf(stderr, "no %d consecutive ports are free\n", FLOOD_PORTS);
    exit(1);
}

static int attackers_start(struct board *board, const char *attack, pid_t *pids) {
    int n = 0;
    for (int i = 0; flood_attacks[i]; i++) {
        if (strcmp(attack, "all") != 0 && strcmp(attack, flood_attacks[i]) != 0)
            continue;
        pids[n] = fork();
        if (pids[n] == 0)
            flood_attack(&board->flood, flood_attacks[i], (unsigned)rand() + (unsigned)i);
        n++;
    }
    while (atomic_load(&board->flood.ready) < n)
        nap_ms(1);
    return n;
}

static void ranks_start(struct board *board, const struct options *options, pid_t *pids) {
    for (int rank = 0; rank < FLOOD_RANKS; rank++) {
        if (rank == FLOOD_RANKS - 1)
            nap_ms(options->late_ms);
        board->began = now();
        pids[rank] = fork();
        if (pids[rank] == 0)
            rank_run(board, options, rank);
        atomic_store(&board->flood.rank_pid[rank], pids[rank]);
    }
}

/* Whether all ended well before the limit; the others are killed. */
static bool ranks_join(const struct options *options, const struct board *board,
                       const pid_t *pids) {
    int left = FLOOD_RANKS, status;
    bool well = true;
    while (left > 0) {
        int waited = 0;
        for (int rank = 0; rank < FLOOD_RANKS; rank++) {
            if (waitpid(pids[rank], &status, WNOHANG) != pids[rank])
                continue;
            waited++;
            well = well && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        }
        left -= waited;
        if (now() - board->began > options->limit) {
            fprintf(stderr, "not done after %.1f s\n", options->limit);
            for (int rank = 0; rank < FLOOD_RANKS; rank++)
                kill(pids[rank], SIGKILL);
            while (left-- > 0)
                wait(NULL);
            return false;
        }
        nap_ms(2);
    }
    return well;
}

/* Seconds until all ranks had met, negative if they did not. */
static double round_run(struct board *board, const struct options *options) {
    pid_t attackers[ATTACKERS], ranks[FLOOD_RANKS];
    double last = 0;
    int block;
    atomic_store(&board->flood.ready, 0);
    board->flood.port = ports_find(&block);
    for (int i = 0; i < FLOOD_RANKS; i++)
        atomic_store(&board->flood.rank_pid[i], 0);
    const int n = attackers_start(board, options->attack, attackers);
    ranks_start(board, options, ranks);
    const bool well = ranks_join(options, board, ranks) && !atomic_load(&board->failed);
    for (int i = 0; i < n; i++)
        kill(attackers[i], SIGKILL);
    for (int i = 0; i < n; i++)
        waitpid(attackers[i], NULL, 0);
    close(block);
    for (int i = 0; i < FLOOD_RANKS; i++)
        last = board->started[i] > last ? board->started[i] : last;
    return well ? last - board->began : -1;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int flood_run(struct board *board, const struct options *options) {
    double seconds[ROUNDS_MAX];
    if (!flood_record(&board->flood, options->secret)) {
        fprintf(stderr, "no handshake was recorded: %s\n", rcm_last_error());
        return 1;
    }
    for (int i = 0; i < options->rounds; i++) {
        seconds[i] = round_run(board, options);
        if (seconds[i] < 0)
            return 1;
    }
    qsort(seconds, (size_t)options->rounds, sizeof(seconds[0]), by_size);
    printf("%s secret=%s store=%s attack=%s: started after %.3f s (median of %d, most %.3f), "
           "%lld unauthenticated connections, at most %d descriptors in a rank\n",
           options->transport, options->secret ? "yes" : "no", options->store, options->attack,
           seconds[options->rounds / 2], options->rounds, seconds[options->rounds - 1],
           (long long)atomic_load(&board->flood.hits), atomic_load(&board->most_fds));
    /* Without a secret the store accepts every client with a valid greeting. */
    if (atomic_load(&board->most_fds) > (options->secret ? 400 : 800)) {
        fprintf(stderr, "unauthenticated connections hold too many descriptors of a rank\n");
        return 1;
    }
    if (strcmp(options->attack, "none") != 0 && atomic_load(&board->flood.hits) == 0) {
        fprintf(stderr, "no attacker could connect\n");
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    struct options options = {.transport = "tcp",
                              .attack = "all",
                              .store = "url",
                              .rounds = 1,
                              .late_ms = 300,
                              .limit = 20};
    struct board *board =
        mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--transport") == 0)
            options.transport = value;
        else if (strcmp(argv[i], "--secret") == 0)
            options.secret = value;
        else if (strcmp(argv[i], "--attack") == 0)
            options.attack = value;
        else if (strcmp(argv[i], "--store") == 0)
            options.store = value;
        else if (strcmp(argv[i], "--rounds") == 0)
            options.rounds = atoi(value);
        else if (strcmp(argv[i], "--late") == 0)
            options.late_ms = atoi(value);
        else if (strcmp(argv[i], "--limit") == 0)
            options.limit = atof(value);
        else
            argc = 0;
    }
    if (argc % 2 == 0 || options.rounds < 1 || options.rounds > ROUNDS_MAX || board == MAP_FAILED) {
        fprintf(
            stderr,
            "usage: connection_flood --transport shm|tcp [--secret TEXT] "
            "[--attack NAME|all|none] [--rounds N] [--limit S] [--store url|env] [--late MS]\n");
        return 2;
    }
    setenv("RINGCOMM_LOG", "error", 0); /* warnings about rejected peers, one line a second */
    srand((unsigned)getpid() ^ (unsigned)time(NULL));
    return flood_run(board, &options);
}
