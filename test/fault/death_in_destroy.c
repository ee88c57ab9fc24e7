/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that die in rcm_destroy: the others end in time, with RCM_OK or an error that names a dead
 * rank; rank 0, which serves the store, does not wait for them.
 *
 *   death_in_destroy shm|tcp RANKS WHERE VICTIMS ROUNDS [SEED]
 *
 * With VERBOSE in the environment the ranks' logs are printed.
 *
 * WHERE is the victim's moment of death:
 *   farewell  the others wait for its farewell, which not even its loop thread has sent
 *   gone      it is about to report to the store that it has left; each rank but 0 in turn
 *   steps     before a call of libc in rcm_destroy, from the first to the last
 *   random    a random moment
 * The library's folders are linked statically, so that the linker can wrap these calls.
 */
#include "ringcomm.h"
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "random.h"
#include "transport.h"

#define RANKS_MAX   16
#define MS          INT64_C(1000000)
#define WITHIN_MS   3000 /* 1 s is guaranteed; the machine may be busy */
#define HANGS_MS    20000
#define MOMENT_US   2000 /* a random moment; without deaths rcm_destroy takes no longer */
#define COUNT       1000
#define STATUS_NONE 1000

enum where { WHERE_FAREWELL, WHERE_GONE, WHERE_STEPS, WHERE_RANDOM };

struct seen {
    _Atomic bool ready;
    _Atomic bool waits; /* for farewells */
    _Atomic long calls; /* of libc, in rcm_destroy */
    _Atomic int64_t died_ns;
    int64_t begun_ns;
    _Atomic int64_t ended_ns; /* stored with release; covers the next members */
    int status;
    char text[512];
};

static struct {
    const char *transport;
    int n, nvictims;
    enum where where;
    char url[64];
    uint64_t random;
    struct seen *seen; /* shared memory, by rank */
    pid_t pids[RANKS_MAX];
    bool victim[RANKS_MAX];
    long die_at; /* number of calls until the death */
    int errors;
} t;

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000 * MS + at.tv_nsec;
}

/* ---- The victim's calls --------------------------------------------------------------------- */

static int rank = -1;
static _Atomic bool armed;

static void die(void) {
    atomic_store(&t.seen[rank].died_ns, now_ns());
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static void step(const void *data, size_t len) {
    if (!atomic_load(&armed))
        return;
    const long call = atomic_fetch_add(&t.seen[rank].calls, 1) + 1;
    if (!t.victim[rank])
        return;
    if (t.where == WHERE_STEPS && call == t.die_at)
        die();
    if (t.where == WHERE_GONE && memmem(data, len, "/gone/", 6))
        die();
}

/* result, name, parameters, arguments, data that is sent, its length */
#define WRAP(result, name, parameters, arguments, data, len)                                       \
    result __real_##name parameters;                                                               \
    result __wrap_##name parameters;                                                               \
    result __wrap_##name parameters {                                                              \
        step(data, len);                                                                           \
        return __real_##name arguments;                                                            \
    }

WRAP(ssize_t, send, (int fd, const void *at, size_t n, int flags), (fd, at, n, flags), at, n)
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags), "", 0)
WRAP(ssize_t, recv, (int fd, void *at, size_t n, int flags), (fd, at, n, flags), "", 0)
WRAP(ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags), (fd, msg, flags), "", 0)
WRAP(ssize_t, write, (int fd, const void *at, size_t n), (fd, at, n), "", 0)
WRAP(int, poll, (struct pollfd * fds, nfds_t n, int timeout), (fds, n, timeout), "", 0)
WRAP(int, epoll_wait, (int fd, struct epoll_event *to, int n, int timeout), (fd, to, n, timeout),
     "", 0)
WRAP(int, close, (int fd), (fd), "", 0)

/* ---- Farewells ------------------------------------------------------------------------------ */

rcm_status __real_rcmi_node_farewell(struct rcmi_node *node, rcmi_deadline deadline,
                                     const _Atomic int *failed);
rcm_status __wrap_rcmi_node_farewell(struct rcmi_node *node, rcmi_deadline deadline,
                                     const _Atomic int *failed);
rcm_status __wrap_rcmi_node_farewell(struct rcmi_node *node, rcmi_deadline deadline,
                                     const _Atomic int *failed) {
    atomic_store(&t.seen[rank].waits, true);
    return __real_rcmi_node_farewell(node, deadline, failed);
}

static void await_others_wait(void) {
    for (int r = 0; r < t.n; r++)
        for (int ms = 0; ms < HANGS_MS && !t.victim[r] && !atomic_load(&t.seen[r].waits); ms++)
            usleep(1000);
}

/* All ranks have called rcm_destroy. After this returns, the rank's loop thread answers farewells,
 * and a rank that has sent its farewell does not count as missing. */
rcm_status __real_rcmi_barrier_parting(struct rcm_comm *comm);
rcm_status __wrap_rcmi_barrier_parting(struct rcm_comm *comm);
rcm_status __wrap_rcmi_barrier_parting(struct rcm_comm *comm) {
    const rcm_status status = __real_rcmi_barrier_parting(comm);
    if (t.victim[rank] && t.where == WHERE_FAREWELL) {
        await_others_wait();
        die();
    }
    return status;
}

/* ---- A rank --------------------------------------------------------------------------------- */

static int rank_fail(const char *what) {
    printf("FAIL rank %d: %s: %s\n", rank, what, rcm_last_error());
    return 1;
}

/* A victim may be dead before a slow rank has read the last message of its all_reduce. */
static void await_all_ready(void) {
    for (int r = 0; r < t.n; r++)
        for (int ms = 0; ms < HANGS_MS && !atomic_load(&t.seen[r].ready); ms++)
            usleep(1000);
}

/* A rank without a link to a victim may leave without an error. */
static rcm_status link_all(rcm_comm *comm) {
    rcm_status status = RCM_OK;
    char byte = 0;
    for (int from = 0; from < t.n; from++)
        for (int to = from + 1; to < t.n && status == RCM_OK; to++)
            if (rank == from)
                status = rcm_send(comm, &byte, 1, RCM_UINT8, to, 0, NULL, NULL);
            else if (rank == to)
                status = rcm_recv(comm, &byte, 1, RCM_UINT8, from, 0, NULL, NULL);
    return status;
}

static int rank_run(void) {
    static float in[COUNT], out[COUNT];
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    struct seen *seen = &t.seen[rank];
    rcm_comm *comm;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(60);
    options.rank = rank;
    options.world_size = t.n;
    options.url = t.url;
    options.transport = t.transport;
    options.timeout_ms = 30000;
    if (rcm_init(&options, &comm) != RCM_OK)
        return rank_fail("rcm_init");
    if (rcm_all_reduce(comm, in, out, COUNT, RCM_FLOAT32, RCM_SUM, NULL, NULL) != RCM_OK)
        return rank_fail("rcm_all_reduce");
    if (t.where == WHERE_FAREWELL && link_all(comm) != RCM_OK)
        return rank_fail("a message between two ranks");
    atomic_store(&seen->ready, true);
    await_all_ready();
    seen->begun_ns = now_ns();
    atomic_store(&armed, true);
    seen->status = rcm_destroy(comm);
    atomic_store(&armed, false);
    snprintf(seen->text, sizeof seen->text, "%s", seen->status ? rcm_last_error() : "");
    atomic_store_explicit(&seen->ended_ns, now_ns(), memory_order_release);
    return 0;
}

/* ---- A round -------------------------------------------------------------------------------- */

static void choose_url(void) {
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&in, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&in, &len) != 0)
        exit(2);
    close(fd);
    snprintf(t.url, sizeof t.url, "tcp://127.0.0.1:%d", ntohs(in.sin_port));
}

static void start(void) {
    choose_url();
    memset(t.seen, 0, RANKS_MAX * sizeof *t.seen);
    fflush(stdout);
    for (int r = 0; r < t.n; r++) {
        t.seen[r].status = STATUS_NONE;
        t.pids[r] = fork();
        if (t.pids[r] == 0) {
            rank = r;
            exit(rank_run());
        }
    }
}

static void kill_at_random(void) {
    await_all_ready();
    for (int r = 0; r < t.n; r++) {
        if (!t.victim[r])
            continue;
        usleep((useconds_t)(random_next(&t.random) % MOMENT_US));
        atomic_store(&t.seen[r].died_ns, now_ns());
        kill(t.pids[r], SIGKILL);
    }
}

/* True if rank r was killed; an end by another signal, or with an error, is a failure. */
static bool reap(int r, int64_t end_ns) {
    int status = 0;
    pid_t got;
    while ((got = waitpid(t.pids[r], &status, WNOHANG)) == 0 && now_ns() < end_ns)
        usleep(1000);
    if (got == 0) {
        printf("FAIL rank %d hangs in rcm_destroy\n", r);
        kill(t.pids[r], SIGKILL);
        waitpid(t.pids[r], &status, 0);
        t.errors++;
    } else if (t.victim[r] && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        return true;
    } else if (status != 0) {
        printf("FAIL rank %d ended with 0x%x\n", r, (unsigned)status);
        t.errors++;
    }
    return false;
}

static bool names_dead(const char *text, const bool dead[]) {
    char name[32];
    for (int r = 0; r < t.n; r++) {
        snprintf(name, sizeof name, "rank %d (", r);
        if (dead[r] && strstr(text, name))
            return true;
    }
    return false;
}

static void judge(int r, const bool dead[], int64_t died_ns) {
    const struct seen *seen = &t.seen[r];
    const int64_t ended = atomic_load_explicit(&seen->ended_ns, memory_order_acquire);
    const int64_t since = died_ns > seen->begun_ns ? died_ns : seen->begun_ns;
    const bool must_know = t.where == WHERE_FAREWELL || (t.where == WHERE_GONE && r == 0);
    const bool right = seen->status == RCM_OK
                           ? !must_know
                           : seen->status == RCM_ERR_PEER && names_dead(seen->text, dead);
    if (right && ended - since <= WITHIN_MS * MS)
        return;
    printf("FAIL rank %d: %s after %.0f ms: %s\n", r, rcm_status_name((rcm_status)seen->status),
           (double)(ended - since) / 1e6, seen->text);
    t.errors++;
}

static void round_run(void) {
    bool dead[RANKS_MAX] = {false};
    int64_t died_ns = 0;
    const int before = t.errors;
    start();
    if (t.where == WHERE_RANDOM)
        kill_at_random();
    const int64_t end_ns = now_ns() + HANGS_MS * MS;
    for (int r = 0; r < t.n; r++) {
        const int64_t at = (dead[r] = reap(r, end_ns)) ? atomic_load(&t.seen[r].died_ns) : 0;
        died_ns = at > died_ns ? at : died_ns;
    }
    for (int r = 0; r < t.n; r++)
        if (!dead[r])
            judge(r, dead, died_ns);
    for (int r = 0; r < t.n && t.errors > before; r++)
        if (t.victim[r])
            printf("     victim %d, call %ld of rcm_destroy, dead %d\n", r,
                   atomic_load(&t.seen[r].calls), dead[r]);
}

/* ---- All rounds ----------------------------------------------------------------------------- */

/* Neighbours; the first one changes with each round. */
static void choose_victims(int round) {
    const int first = t.where == WHERE_GONE ? 1 : 0;
    memset(t.victim, 0, sizeof t.victim);
    for (int i = 0; i < t.nvictims; i++)
        t.victim[first + (round + i) % (t.n - first)] = true;
}

/* Number of calls in rcm_destroy without deaths. */
static long count_calls(void) {
    long most = 0;
    memset(t.victim, 0, sizeof t.victim);
    round_run();
    for (int r = 0; r < t.n; r++)
        most = atomic_load(&t.seen[r].calls) > most ? atomic_load(&t.seen[r].calls) : most;
    return most;
}

static bool parse(int argc, char **argv, int *ret_rounds) {
    static const char *const names[] = {"farewell", "gone", "steps", "random"};
    if (argc < 6)
        return false;
    t.transport = argv[1];
    t.n = atoi(argv[2]);
    t.nvictims = atoi(argv[4]);
    *ret_rounds = atoi(argv[5]);
    t.random = argc > 6 ? strtoull(argv[6], NULL, 0) : (uint64_t)now_ns();
    for (int i = 0; i < 4; i++) {
        t.where = (enum where)i;
        if (strcmp(argv[3], names[i]) == 0)
            return t.n >= 2 && t.n <= RANKS_MAX && t.nvictims >= 1 && t.nvictims < t.n;
    }
    return false;
}

int main(int argc, char **argv) {
    int rounds;
    if (!parse(argc, argv, &rounds)) {
        fprintf(stderr, "usage: death_in_destroy shm|tcp RANKS farewell|gone|steps|random VICTIMS "
                        "ROUNDS [SEED]\n");
        return 2;
    }
    t.seen = mmap(NULL, RANKS_MAX * sizeof *t.seen, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t.seen == MAP_FAILED)
        return 2;
    setenv("RINGCOMM_LOG", "error", 0);
    if (!getenv("VERBOSE") && !freopen("/dev/null", "w", stderr))
        return 2; /* every failing communicator logs its error */
    printf("seed %llu\n", (unsigned long long)t.random);
    const long calls = t.where == WHERE_STEPS ? count_calls() : 0;
    for (int round = 0; round < rounds; round++) {
        choose_victims(round);
        t.die_at = 1 + round * calls / rounds;
        round_run();
    }
    printf("%d errors in %d rounds\n", t.errors, rounds);
    return t.errors ? 1 : 0;
}
