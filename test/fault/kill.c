/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kills one of n ranks with SIGKILL during a loop of large all_reduces. Every survivor must get an
 * error that names the dead rank within 1 s of the kill, and must end by itself. Waits of the
 * survivors for a processor do not count. Afterwards no process, file or shared memory may be left.
 * A process of its own serves the store, so that rank 0 may die like any other.
 *
 *   kill shm|tcp RANKS VICTIM [BYTES [memory]]    memory: buffers of rcm_mem_alloc
 */
#include "ringcomm.h"
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "cpu_starvation.h"

#define WITHIN_NS INT64_C(1000000000)
#define RANKS_MAX 64

struct report {
    int rank, status, origin;
    int64_t at_ns;
    struct strain strain;
    char text[512];
};

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void die_with_parent(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(120);
}

static pid_t serve_store(char url[256]) {
    int fds[2];
    if (pipe(fds) != 0)
        exit(2);
    pid_t pid = fork();
    if (pid == 0) {
        rcm_store *store;
        die_with_parent();
        if (rcm_store_open("tcp://127.0.0.1:0?server=1", 5000, &store) != RCM_OK) {
            fprintf(stderr, "store: %s\n", rcm_last_error());
            _exit(1);
        }
        char mine[256];
        snprintf(mine, sizeof(mine), "%s?server=0", rcm_store_url(store));
        if (write(fds[1], mine, strlen(mine) + 1) < 0)
            _exit(1);
        for (;;)
            pause();
    }
    close(fds[1]);
    size_t len = 0;
    ssize_t got;
    while (len < 255 && (got = read(fds[0], url + len, 255 - len)) > 0) {
        len += (size_t)got;
        if (url[len - 1] == '\0')
            break;
    }
    url[len] = '\0';
    close(fds[0]);
    return pid;
}

static int rank_main(int rank, int n, const char *url, const char *transport, size_t bytes,
                     bool mapped, int started, int reports) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    struct rcm_error error = RCM_ERROR_INIT;
    rcm_comm *comm;
    const size_t count = bytes / sizeof(float);
    float *data = mapped ? NULL : calloc(count, sizeof(float));
    void *memory = NULL;
    die_with_parent();
    options.rank = rank;
    options.world_size = n;
    options.url = url;
    options.transport = transport;
    options.timeout_ms = 60000;
    if (rcm_init(&options, &comm) != RCM_OK) {
        fprintf(stderr, "rank %d: init: %s\n", rank, rcm_last_error());
        return 1;
    }
    rcm_status status = mapped ? rcm_mem_alloc(comm, 2 * bytes, &memory) : RCM_OK;
    float *in = mapped ? memory : data, *out = mapped ? in + count : data;
    for (int i = 0; status == RCM_OK; i++) {
        status = rcm_all_reduce(comm, in, out, count, RCM_FLOAT32, RCM_MAX, NULL, NULL);
        if (i == 1 && write(started, "s", 1) != 1)
            return 1;
    }
    struct report report = {.rank = rank, .at_ns = now_ns()};
    report.status = rcm_comm_error(comm, &error);
    report.origin = error.origin;
    strain_add(&report.strain, 0);
    snprintf(report.text, sizeof(report.text), "%s", error.text);
    if (write(reports, &report, sizeof(report)) != (ssize_t)sizeof(report))
        return 1;
    (void)!rcm_destroy(comm); /* returns the error again */
    free(data);
    return 0;
}

/* Counts our own only: other programs come and go. */
static int count_shm(void) {
    int n = 0;
    struct dirent *entry;
    DIR *dir = opendir("/dev/shm");
    while (dir && (entry = readdir(dir)))
        n += strstr(entry->d_name, "ringcomm") || strstr(entry->d_name, "rcm");
    if (dir)
        closedir(dir);
    return n;
}

/* Reads exactly len bytes within timeout_ms. */
static int read_all(int fd, void *buffer, size_t len, int timeout_ms) {
    size_t done = 0;
    const int64_t end = now_ns() + timeout_ms * INT64_C(1000000);
    while (done < len) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        const int64_t left = (end - now_ns()) / 1000000;
        if (left <= 0 || poll(&p, 1, (int)left) <= 0)
            return -1;
        const ssize_t got = read(fd, (char *)buffer + done, len - done);
        if (got <= 0)
            return -1;
        done += (size_t)got;
    }
    return 0;
}

static int read_reports(int fd, int n, struct report reports[]) {
    for (int k = 0; k < n - 1; k++)
        if (read_all(fd, &reports[k], sizeof(reports[k]), 20000) != 0) {
            fprintf(stderr, "only %d of %d survivors reported\n", k, n - 1);
            return -1;
        }
    return 0;
}

/* The delay of the survivors that the machine can explain. */
static int64_t excuse_ns(const struct report reports[], int n, const struct strain before[]) {
    struct strain first = {0}, last = {0};
    for (int k = 0; k < n - 1; k++) {
        strain_sum(&first, &before[reports[k].rank]);
        strain_sum(&last, &reports[k].strain);
    }
    return strain_excuse(&first, &last);
}

static int check_reports(int fd, int n, int victim, int64_t killed_ns,
                         const struct strain before[]) {
    struct report reports[RANKS_MAX];
    int errors = 0;
    if (read_reports(fd, n, reports) != 0)
        return 1;
    const int64_t excuse = excuse_ns(reports, n, before);
    for (int k = 0; k < n - 1; k++) {
        const struct report *report = &reports[k];
        const int64_t after = report->at_ns - killed_ns;
        const int good = report->status == RCM_ERR_PEER && report->origin == victim &&
                         after < WITHIN_NS + excuse;
        printf("%s rank %d after %.1f ms (%.1f by the machine at most): %s, origin %d: %s\n",
               good ? "ok  " : "FAIL", report->rank, (double)after / 1e6, (double)excuse / 1e6,
               rcm_status_name((rcm_status)report->status), report->origin, report->text);
        errors += !good;
    }
    return errors;
}

static int reap(pid_t pid, int *ret_status) {
    for (int ms = 0; ms < 5000; ms++) {
        if (waitpid(pid, ret_status, WNOHANG) == pid)
            return 0;
        usleep(1000);
    }
    kill(pid, SIGKILL);
    waitpid(pid, ret_status, 0);
    return -1;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: kill shm|tcp RANKS VICTIM [BYTES [memory]]\n");
        return 2;
    }
    const int n = atoi(argv[2]), victim = atoi(argv[3]);
    const size_t bytes = argc > 4 ? (size_t)atoll(argv[4]) : (size_t)64 << 20;
    char url[256];
    int started[2], reports[2], errors = 0, status;
    pid_t pids[RANKS_MAX];
    struct strain before[RANKS_MAX] = {0};
    const int shm_before = count_shm();
    if (n > RANKS_MAX || victim < 0 || victim >= n || pipe(started) != 0 || pipe(reports) != 0)
        return 2;
    const pid_t server = serve_store(url);
    for (int r = 0; r < n; r++) {
        pids[r] = fork();
        if (pids[r] == 0)
            exit(rank_main(r, n, url, argv[1], bytes, argc > 5, started[1], reports[1]));
    }
    for (int r = 0; r < n; r++) {
        char byte;
        if (read_all(started[0], &byte, 1, 60000) != 0) {
            fprintf(stderr, "the ranks did not start\n");
            return 1;
        }
    }
    struct timespec seed;
    clock_gettime(CLOCK_REALTIME, &seed);
    usleep((useconds_t)(seed.tv_nsec % 100000));
    for (int r = 0; r < n; r++)
        strain_add(&before[r], pids[r]);
    const int64_t killed_ns = now_ns();
    kill(pids[victim], SIGKILL);
    errors += check_reports(reports[0], n, victim, killed_ns, before);
    for (int r = 0; r < n; r++) {
        const int hung = reap(pids[r], &status);
        if (hung || (r != victim && status != 0)) {
            fprintf(stderr, "rank %d did not end by itself with status 0 (0x%x)\n", r, status);
            errors++;
        }
    }
    kill(server, SIGKILL);
    waitpid(server, &status, 0);
    if (count_shm() != shm_before) {
        fprintf(stderr, "something was left in /dev/shm\n");
        errors++;
    }
    return errors ? 1 : 0;
}
