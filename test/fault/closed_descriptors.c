/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program closes all descriptors from 3 on in one rank, the library's included: every rank gets
 * an error in time, that rank's error gives the reason, and all ranks end.
 *
 *   closed_descriptors shm|tcp between|waiting|destroy|reopened
 *
 * between two calls; while a call waits, from another thread; before rcm_destroy; between two
 * calls, and the numbers are then reused for other files, which must stay open. With VERBOSE in the
 * environment the ranks' logs are printed.
 */
#include "ringcomm.h"
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MAX   3
#define COUNT       1000
#define MS          INT64_C(1000000)
#define DEADLINE_MS 5000
#define MARGIN_MS   4000
#define HANGS_MS    (4 * (DEADLINE_MS + MARGIN_MS))
#define FIRST_FD    3
#define FDS         64 /* opened by the program */

enum how { BETWEEN, WAITING, DESTROY, REOPENED, HOWS };
static const char *const hows[HOWS] = {"between", "waiting", "destroy", "reopened"};

struct seen {
    int status, origin, ended; /* of the call; of rcm_destroy */
    int first_error;           /* the first of them that is an error */
    int64_t call_ms, destroy_ms;
    int lost; /* files of the program that were closed */
    char text[512];
};

static struct {
    const char *transport;
    enum how how;
    int n, guilty;
    char url[64];
    int errors;
} t;

static struct board {
    _Atomic int tid; /* of the closing rank's thread that is about to call */
    _Atomic bool ready[RANKS_MAX], closed;
    struct seen seen[RANKS_MAX];
} * board; /* shared memory */

static int64_t now_ms(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000 + at.tv_nsec / MS;
}

/* ---- The fault ------------------------------------------------------------------------------ */

static ino_t own_files[FDS];

static void close_all(void) {
    if (syscall(SYS_close_range, FIRST_FD, ~0u, 0) != 0)
        for (int fd = FIRST_FD; fd < 1024; fd++)
            close(fd);
    atomic_store(&board->closed, true);
}

static void open_own(void) {
    for (int i = 0; i < FDS; i++) {
        struct stat file;
        const int fd = memfd_create("test", MFD_CLOEXEC);
        own_files[i] = fd == FIRST_FD + i && fstat(fd, &file) == 0 ? file.st_ino : 0;
    }
}

static int count_lost(void) {
    int lost = 0;
    struct stat file;
    for (int i = 0; i < FDS; i++)
        lost += fstat(FIRST_FD + i, &file) != 0 || file.st_ino != own_files[i];
    return lost;
}

static char thread_state(int tid) {
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%*d %*s %c", &state) != 1)
        state = '?';
    if (file)
        fclose(file);
    return state;
}

/* Closes once the call sleeps. */
static void *close_meanwhile(void *arg) {
    (void)arg;
    while (atomic_load(&board->tid) == 0)
        usleep(1000);
    for (int ms = 0; ms < 5000 && thread_state(atomic_load(&board->tid)) != 'S'; ms++)
        usleep(1000);
    close_all();
    return NULL;
}

static void await(const _Atomic bool *flag) {
    for (int ms = 0; ms < HANGS_MS && !atomic_load(flag); ms++)
        usleep(1000);
}

/* ---- A rank --------------------------------------------------------------------------------- */

static rcm_status call(rcm_comm *comm) {
    static float in[COUNT], out[COUNT];
    struct rcm_call deadline = RCM_CALL_INIT;
    deadline.timeout_ms = DEADLINE_MS;
    return rcm_all_reduce(comm, in, out, COUNT, RCM_FLOAT32, RCM_SUM, &deadline, NULL);
}

static rcm_comm *join(int rank) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_comm *comm;
    options.rank = rank;
    options.world_size = t.n;
    options.url = t.url;
    options.transport = t.transport;
    options.timeout_ms = 30000;
    if (rcm_init(&options, &comm) == RCM_OK && call(comm) == RCM_OK)
        return comm;
    printf("FAIL rank %d: %s\n", rank, rcm_last_error());
    exit(1);
}

/* The fault, or the wait for it, then the call that fails. */
static rcm_status guilty_call(rcm_comm *comm) {
    pthread_t thread;
    if (t.how != WAITING) {
        close_all();
        if (t.how == REOPENED)
            open_own();
        return t.how == DESTROY ? RCM_OK : call(comm);
    }
    if (pthread_create(&thread, NULL, close_meanwhile, NULL) != 0)
        exit(1);
    atomic_store(&board->tid, (int)gettid());
    const rcm_status status = call(comm);
    pthread_join(thread, NULL);
    return status;
}

static rcm_status other_call(rcm_comm *comm) {
    await(&board->closed);
    return t.how == DESTROY ? RCM_OK : call(comm);
}

static int rank_run(int rank) {
    struct rcm_error error = RCM_ERROR_INIT;
    struct seen *seen = &board->seen[rank];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(90);
    rcm_comm *comm = join(rank);
    atomic_store(&board->ready[rank], true);
    for (int r = 0; r < t.n; r++) /* a slow rank is still in its first call */
        await(&board->ready[r]);
    const int64_t began = now_ms();
    seen->status = rank == t.guilty ? guilty_call(comm) : other_call(comm);
    seen->first_error = seen->status;
    snprintf(seen->text, sizeof seen->text, "%s", rcm_last_error());
    (void)rcm_comm_error(comm, &error);
    seen->origin = error.origin;
    const int64_t called = now_ms();
    seen->ended = rcm_destroy(comm);
    if (seen->first_error == RCM_OK) { /* the call did not need the descriptors */
        seen->first_error = seen->ended;
        snprintf(seen->text, sizeof seen->text, "%s", rcm_last_error());
    }
    seen->call_ms = called - began;
    seen->destroy_ms = now_ms() - called;
    seen->lost = rank == t.guilty && t.how == REOPENED ? count_lost() : 0;
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

/* False if it did not exit with 0. */
static bool reap(int rank, pid_t pid, int64_t end) {
    int status = 0;
    pid_t got;
    while ((got = waitpid(pid, &status, WNOHANG)) == 0 && now_ms() < end)
        usleep(1000);
    if (got == 0) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
    }
    if (got != 0 && status == 0)
        return true;
    printf("FAIL rank %d of %d: %s 0x%x\n", rank, t.n, got == 0 ? "hangs" : "ended with",
           (unsigned)status);
    t.errors++;
    return false;
}

static bool is_right(int rank, const struct seen *seen) {
    char name[32];
    snprintf(name, sizeof name, "rank %d (", t.guilty);
    if (rank == t.guilty)
        return seen->first_error == RCM_ERR_SYSTEM &&
               strstr(seen->text, "descriptors of this process") &&
               (seen->status == RCM_OK || seen->origin == rank);
    return seen->first_error == RCM_ERR_PEER && strstr(seen->text, name);
}

static void judge(int rank) {
    const struct seen *seen = &board->seen[rank];
    if (is_right(rank, seen) && seen->call_ms <= DEADLINE_MS + MARGIN_MS &&
        seen->destroy_ms <= MARGIN_MS && seen->lost == 0)
        return;
    printf("FAIL rank %d of %d%s: %s, origin %d, after %d ms, rcm_destroy %s after %d ms: %s\n",
           rank, t.n, rank == t.guilty ? ", which closed" : "",
           rcm_status_name((rcm_status)seen->status), seen->origin, (int)seen->call_ms,
           rcm_status_name((rcm_status)seen->ended), (int)seen->destroy_ms, seen->text);
    if (seen->lost > 0)
        printf("     %d files of the program were closed\n", seen->lost);
    t.errors++;
}

static void round_run(int n, int guilty) {
    pid_t pids[RANKS_MAX];
    bool ended[RANKS_MAX];
    t.n = n;
    t.guilty = guilty;
    choose_url();
    memset(board, 0, sizeof *board);
    fflush(stdout);
    for (int r = 0; r < n; r++) {
        pids[r] = fork();
        if (pids[r] == 0)
            exit(rank_run(r));
    }
    const int64_t end = now_ms() + HANGS_MS;
    for (int r = 0; r < n; r++)
        ended[r] = reap(r, pids[r], end);
    for (int r = 0; r < n; r++)
        if (ended[r])
            judge(r);
}

int main(int argc, char **argv) {
    t.how = HOWS;
    for (int i = 0; i < HOWS && argc == 3; i++)
        if (strcmp(argv[2], hows[i]) == 0)
            t.how = (enum how)i;
    if (t.how == HOWS) {
        fprintf(stderr, "usage: closed_descriptors shm|tcp between|waiting|destroy|reopened\n");
        return 2;
    }
    t.transport = argv[1];
    setenv("RINGCOMM_LOG", "error", 0);
    if (!getenv("VERBOSE") && !freopen("/dev/null", "w", stderr))
        return 2; /* every failing communicator logs its error */
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        return 2;
    round_run(2, 1);
    round_run(3, 0); /* which serves the store */
    printf("%d errors\n", t.errors);
    return t.errors ? 1 : 0;
}
