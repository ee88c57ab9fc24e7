/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank of a test over several hosts, set up by the environment. It prints its results, one per
 * line, as "word key=value ..."; times are CLOCK_MONOTONIC in seconds. hosts_test.py starts it and
 * judges.
 *
 *   rank work [LATER]      every kind of operation in a few sizes, results checked
 *   rank loop SECONDS N    all_reduce of N floats, checked, repeated for so long
 *   rank idle SECONDS      makes all links, then does nothing
 *   rank await PEER N      rank PEER - 1 receives N floats that PEER never sends
 *
 * Other variables: RANK_ID_FILE=PATH: ranks meet by a unique id, which rank 0 writes there.
 * RANK_LATE=R:SECONDS: rank R starts its work so much later. RANK_NO_IPV6: the kernel creates no
 * IPv6 socket. RANK_LEAVE_AT=PATH: rcm_destroy waits until this file exists.
 */
#include "ringcomm.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static rcm_comm *comm;
static int rank, size;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *room(size_t count) {
    void *memory = calloc(count + 1, sizeof(float));
    if (!memory) {
        printf("wrong: no memory\n");
        exit(3);
    }
    return memory;
}

/* Small integers: sums of floats are exact. */
static float value(int r, size_t i, int round) {
    return (float)((r * 31 + (int)(i % 1009) * 7 + round * 3) % 101);
}

static bool sum_is_right(const float *sum, size_t count, int round) {
    for (size_t i = 0; i < count; i++) {
        float expected = 0;
        for (int r = 0; r < size; r++)
            expected += value(r, i, round);
        if (sum[i] != expected) {
            printf("wrong: element %zu of a sum is %g, not %g\n", i, (double)sum[i],
                   (double)expected);
            return false;
        }
    }
    return true;
}

/* ---- One operation each --------------------------------------------------------------------- */

static rcm_status do_all_reduce(size_t count, int round) {
    float *send = room(count), *recv = room(count);
    for (size_t i = 0; i < count; i++)
        send[i] = value(rank, i, round);
    rcm_status status = rcm_all_reduce(comm, send, recv, count, RCM_FLOAT32, RCM_SUM, NULL, NULL);
    if (status == RCM_OK && !sum_is_right(recv, count, round))
        status = RCM_ERR_INTERNAL;
    free(send);
    free(recv);
    return status;
}

static rcm_status do_broadcast(size_t count, int root) {
    float *data = room(count);
    for (size_t i = 0; i < count; i++)
        data[i] = rank == root ? value(root, i, 1) : -1;
    rcm_status status = rcm_broadcast(comm, data, count, RCM_FLOAT32, root, NULL, NULL);
    for (size_t i = 0; status == RCM_OK && i < count; i++) {
        if (data[i] == value(root, i, 1))
            continue;
        printf("wrong: element %zu of a broadcast is %g\n", i, (double)data[i]);
        status = RCM_ERR_INTERNAL;
    }
    free(data);
    return status;
}

/* Around the ring of ranks, and from every rank to the one half-way around. */
static rcm_status do_exchange(size_t count, int by) {
    const int to = (rank + by) % size, from = (rank + size - by) % size;
    float *send = room(count), *recv = room(count);
    rcm_work *sending = NULL;
    for (size_t i = 0; i < count; i++)
        send[i] = value(rank, i, by);
    rcm_status status = rcm_send(comm, send, count, RCM_FLOAT32, to, (uint64_t)by, NULL, &sending);
    if (status == RCM_OK)
        status = rcm_recv(comm, recv, count, RCM_FLOAT32, from, (uint64_t)by, NULL, NULL);
    if (sending) {
        rcm_status sent = rcm_work_wait(sending, -1);
        status = status == RCM_OK ? sent : status;
        rcm_work_free(sending);
    }
    for (size_t i = 0; status == RCM_OK && i < count; i++) {
        if (recv[i] == value(from, i, by))
            continue;
        printf("wrong: element %zu of a message is %g\n", i, (double)recv[i]);
        status = RCM_ERR_INTERNAL;
    }
    free(send);
    free(recv);
    return status;
}

/* ---- The work of a rank --------------------------------------------------------------------- */

/* The upper half starts so many seconds later, so the lower half dials. */
static rcm_status run_work(double later) {
    static const size_t counts[] = {0, 1, 1000, 300001};
    rcm_status status = RCM_OK;
    if (rank >= size / 2)
        usleep((useconds_t)(later * 1e6));
    for (size_t k = 0; status == RCM_OK && k < sizeof(counts) / sizeof(counts[0]); k++) {
        status = do_all_reduce(counts[k], (int)k);
        for (int root = 0; status == RCM_OK && root < size; root++)
            status = do_broadcast(counts[k], root);
        for (int by = 1; status == RCM_OK && by <= size / 2; by++)
            status = do_exchange(counts[k], by);
        if (status == RCM_OK)
            status = rcm_barrier(comm, NULL, NULL);
    }
    for (int peer = 0; status == RCM_OK && peer < size; peer++)
        printf("transport peer=%d name=%s\n", peer, rcm_comm_transport(comm, peer));
    return status;
}

/* Rank 0 decides when to stop, so that all ranks agree. */
static rcm_status agree(bool *enough) {
    int64_t mine = rank == 0 && *enough, any = 0;
    rcm_status status = rcm_all_reduce(comm, &mine, &any, 1, RCM_INT64, RCM_MAX, NULL, NULL);
    *enough = any != 0;
    return status;
}

static rcm_status run_loop(double seconds, size_t count) {
    double longest = 0, from = 0, to = 0;
    int rounds = 0;
    bool enough = false;
    rcm_status status = do_all_reduce(count, 0);
    printf("ready\n");
    const double until = now() + seconds; /* all links exist by then, which may take long */
    while (status == RCM_OK && !enough) {
        const double began = now();
        status = do_all_reduce(count, ++rounds);
        enough = now() > until;
        if (status == RCM_OK)
            status = agree(&enough);
        if (now() - began > longest) {
            from = began;
            to = now();
            longest = to - from;
        }
    }
    printf("loop rounds=%d longest=%.3f from=%.3f to=%.3f\n", rounds, longest, from, to);
    return status;
}

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static long sleeps(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
}

/* Links each rank with each other one. */
static rcm_status make_links(void) {
    rcm_status status = rcm_barrier(comm, NULL, NULL);
    for (int by = 1; status == RCM_OK && by <= size / 2; by++)
        status = do_exchange(10, by);
    return status == RCM_OK ? rcm_barrier(comm, NULL, NULL) : status;
}

static rcm_status run_idle(double seconds) {
    struct rcm_error error = RCM_ERROR_INIT;
    rcm_status status = make_links();
    printf("ready\n");
    const struct timespec pause = {.tv_nsec = 50000000};
    const double cpu = cpu_seconds(), began = now();
    const long before = sleeps();
    long own = 0;
    for (; status == RCM_OK && now() - began < seconds; own++) {
        nanosleep(&pause, NULL);
        status = rcm_comm_error(comm, &error);
    }
    printf("idle seconds=%.3f cpu=%.6f wakes=%ld\n", now() - began, cpu_seconds() - cpu,
           sleeps() - before - own);
    return status;
}

/* Blocked in one operation: nothing is sent, nothing arrives. All other ranks are idle. */
static rcm_status run_await(int peer, size_t count) {
    if (rank != peer - 1)
        return run_idle(60);
    rcm_status status = make_links();
    float *recv = room(count);
    printf("ready\n");
    if (status == RCM_OK)
        status = rcm_recv(comm, recv, count, RCM_FLOAT32, peer, 99, NULL, NULL);
    free(recv);
    return status;
}

static rcm_status run(char **words) {
    const double number = words[1] ? atof(words[1]) : 0;
    const size_t count = words[1] && words[2] ? strtoull(words[2], NULL, 0) : 1;
    if (strcmp(words[0], "work") == 0)
        return run_work(number);
    if (strcmp(words[0], "loop") == 0)
        return run_loop(number, count);
    if (strcmp(words[0], "idle") == 0)
        return run_idle(number);
    if (strcmp(words[0], "await") == 0)
        return run_await((int)number, count);
    printf("wrong: there is no work '%s'\n", words[0]);
    return RCM_ERR_INVALID;
}

/* ---- Settings of the environment ------------------------------------------------------------- */

/* Like a kernel without IPv6. */
static void forbid_ipv6(void) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET6, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof(steps) / sizeof(steps[0]), steps};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0 ||
        socket(AF_INET6, SOCK_STREAM, 0) >= 0) {
        printf("wrong: IPv6 cannot be forbidden here\n");
        exit(3);
    }
}

/* Rank 0 creates the id; the others wait for it. */
static rcm_status meet_by_id(const char *path, struct rcm_unique_id *id) {
    char part[300];
    if (strcmp(getenv("RINGCOMM_RANK"), "0") != 0) {
        while (access(path, R_OK) != 0)
            usleep(10000);
        FILE *file = fopen(path, "r");
        const size_t got = file ? fread(id, sizeof(*id), 1, file) : 0;
        if (file)
            fclose(file);
        return got == 1 ? RCM_OK : RCM_ERR_INTERNAL;
    }
    const rcm_status status = rcm_unique_id_get(id);
    if (status != RCM_OK)
        return status;
    snprintf(part, sizeof(part), "%s.part", path);
    FILE *file = fopen(part, "w");
    const size_t put = file ? fwrite(id, sizeof(*id), 1, file) : 0;
    if (!file || fclose(file) != 0 || put != 1 || rename(part, path) != 0)
        return RCM_ERR_INTERNAL;
    return RCM_OK;
}

static rcm_status meet(void) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    struct rcm_unique_id id;
    const char *path = getenv("RANK_ID_FILE");
    rcm_status status = RCM_OK;
    if (getenv("RANK_NO_IPV6"))
        forbid_ipv6();
    if (path) {
        status = meet_by_id(path, &id);
        options.unique_id = &id;
        unsetenv("RINGCOMM_URL");
    }
    return status == RCM_OK ? rcm_init(&options, &comm) : status;
}

static void be_late(void) {
    const char *late = getenv("RANK_LATE");
    if (late && atoi(late) == rank)
        usleep((useconds_t)(atof(strchr(late, ':') + 1) * 1e6));
}

static void wait_to_leave(void) {
    const char *path = getenv("RANK_LEAVE_AT");
    if (!path)
        return;
    printf("done\n");
    while (access(path, F_OK) != 0)
        usleep(10000);
}

static int fail(const char *when, rcm_status status) {
    struct rcm_error error = RCM_ERROR_INIT;
    if (!comm || rcm_comm_error(comm, &error) == RCM_OK) {
        error.origin = -1;
        snprintf(error.text, sizeof(error.text), "%s", rcm_last_error());
    }
    printf("error when=%s at=%.3f status=%s origin=%d text=%s\n", when, now(),
           rcm_status_name(status), error.origin, error.text);
    return 1;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2)
        return 2;
    const double began = now();
    rcm_status status = meet();
    if (status != RCM_OK)
        return fail("init", status);
    rank = rcm_rank(comm);
    size = rcm_size(comm);
    printf("init seconds=%.3f\n", now() - began);
    be_late();
    status = run(argv + 1);
    wait_to_leave();
    const int result = status == RCM_OK ? 0 : fail("run", status);
    const double leaving = now();
    const rcm_status ended = rcm_destroy(comm);
    printf("destroy status=%s seconds=%.3f\n", rcm_status_name(ended), now() - leaving);
    return result == 0 && ended != RCM_OK ? 1 : result;
}
