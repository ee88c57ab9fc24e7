/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks of one host identity, some of which cannot share memory with others. rcm_init agrees on
 * sets that can, and plans treat each set as a host. Shared memory is used within a set, TCP
 * between sets.
 *
 *     shared_memory_sets CASE|all RANKS [light]   light: few operations
 *
 * Needs root, for other users and mount namespaces; exit status 77 without. Ranks on machines with
 * equal host identities: test/hosts/hosts_test.py.
 */
#include "../fault/workload.h"
#include "ranks.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { RANKS_MAX = 32, USER = 54321 };

struct shared {
    _Atomic int pids[RANKS_MAX];
};

struct given {
    const char *name;
    /* The set of a rank of n. Ranks of the same number share memory; -1: with no other rank. */
    int (*set)(int rank, int n);
    void (*before)(int rank);
    const char *warning; /* expected in rank 0's warning; NULL: no warning */
    const char *secret;
    const char *refused; /* expected error with shared memory alone; NULL: it works */
};

static struct shared *shared;
static const struct given *given;
static int n, own_rank;
static bool short_run, light;
static bool keeps; /* rank 0's output is kept until it is checked */

/* ---- Replaced system calls ------------------------------------------------------------------- */

static int rank_of(int pid) {
    for (int r = 0; r < n; r++)
        if (shared->pids[r] == pid)
            return r;
    return -1;
}

static bool is(const char *name) {
    return strcmp(given->name, name) == 0;
}

/* In a chain, only neighbours appear to have the same user. */
int getsockopt(int fd, int level, int name, void *value, socklen_t *len) {
    const long status = syscall(SYS_getsockopt, fd, level, name, value, len);
    struct ucred *peer = value;
    if (status == 0 && level == SOL_SOCKET && name == SO_PEERCRED && given && is("chain")) {
        const int rank = rank_of(peer->pid);
        if (rank >= 0 && abs(rank - own_rank) > 1)
            peer->uid = USER;
    }
    return (int)status;
}

/* A policy forbids the last rank to connect to the first one. The reverse direction works. */
int connect(int fd, __CONST_SOCKADDR_ARG to, socklen_t len) {
    const struct sockaddr_un *name = (const struct sockaddr_un *)to.__sockaddr__;
    static const char prefix[] = "ringcomm-0-";
    if (given && is("oneway") && own_rank == n - 1 && name->sun_family == AF_UNIX &&
        memcmp(name->sun_path + 1, prefix, sizeof(prefix) - 1) == 0) {
        errno = EPERM;
        return -1;
    }
    return (int)syscall(SYS_connect, fd, name, len);
}

/* A policy forbids odd ranks to pass descriptors. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    if (given && is("passing-odd") && own_rank % 2 == 1 && message->msg_controllen > 0) {
        errno = EPERM;
        return -1;
    }
    return syscall(SYS_sendmsg, fd, message, flags);
}

/* ---- Restrictions ---------------------------------------------------------------------------- */

static void must(bool done, const char *what) {
    if (done)
        return;
    fprintf(stderr, "rank %d: %s: %s\n", own_rank, what, strerror(errno));
    _exit(99);
}

static void become(unsigned user) {
    must(setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0, "setresuid");
}

/* A system call fails with `error`, for any first argument or for that one. */
static void refuse(unsigned call, bool any, unsigned first, unsigned error) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | (any ? BPF_JGE : BPF_JEQ) | BPF_K, any ? 0 : first, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
             prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0,
         "seccomp");
}

static void hide_proc(void) {
    must(unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
             mount("none", "/proc", "tmpfs", 0, NULL) == 0,
         "hiding /proc");
}

static bool odd(int rank) {
    return rank % 2 == 1;
}

static void user_last(int rank) {
    if (rank == n - 1)
        become(USER);
}
static void user_first(int rank) {
    become(rank == 0 ? USER + 1 : USER);
}
static void user_odd(int rank) {
    become(odd(rank) ? USER + 1 : USER);
}
static void user_each(int rank) {
    become(USER + (unsigned)rank);
}
static void user_all(int rank) {
    (void)rank;
    become(USER);
}
static void unix_last(int rank) {
    if (rank == n - 1)
        refuse(SYS_socket, false, AF_UNIX, EAFNOSUPPORT);
}
static void unix_odd(int rank) {
    if (odd(rank))
        refuse(SYS_socket, false, AF_UNIX, EAFNOSUPPORT);
}
static void unix_but_one(int rank) {
    if (rank != 1)
        refuse(SYS_socket, false, AF_UNIX, EPERM);
}
static void memfd_first(int rank) {
    if (rank == 0)
        refuse(SYS_memfd_create, true, 0, ENOSYS);
}
static void proc_odd(int rank) {
    if (odd(rank))
        hide_proc();
}
static void proc_none(int rank) {
    (void)rank;
    hide_proc();
}
static void nothing(int rank) {
    (void)rank;
}

static int set_one(int rank, int size) {
    (void)rank;
    (void)size;
    return 0;
}
static int set_last(int rank, int size) {
    return rank == size - 1;
}
static int set_first(int rank, int size) {
    (void)size;
    return rank != 0;
}
static int set_odd(int rank, int size) {
    (void)size;
    return odd(rank);
}
static int set_even_only(int rank, int size) {
    (void)size;
    return odd(rank) ? -1 : 0;
}
static int set_none(int rank, int size) {
    (void)rank;
    (void)size;
    return -1;
}
static int set_pairs(int rank, int size) {
    (void)size;
    return rank / 2;
}
#define BY_SECRET "set RINGCOMM_SECRET on all ranks"
static const struct given all_given[] = {
    {"none", set_one, nothing, NULL, NULL, NULL},
    {"user-all", set_one, user_all, NULL, NULL, NULL},
    {"user-last", set_last, user_last, BY_SECRET, NULL, BY_SECRET},
    {"user-first", set_first, user_first, BY_SECRET, NULL, BY_SECRET},
    {"user-odd", set_odd, user_odd, BY_SECRET, NULL, BY_SECRET},
    {"user-each", set_none, user_each, BY_SECRET, NULL, BY_SECRET},
    {"user-secret", set_one, user_each, NULL, "known to all", NULL},
    {"unix-last", set_last, unix_last, "shares no memory: shm cannot be used", NULL, "shm cannot"},
    {"unix-odd", set_even_only, unix_odd, "shm cannot be used", NULL, "shm cannot be used"},
    {"unix-but-one", set_none, unix_but_one, "shm cannot be used", NULL, "shm cannot be used"},
    {"memfd-first", set_first, memfd_first, "shm cannot be used", NULL, "shm cannot be used"},
    {"passing-odd", set_even_only, nothing, "shm cannot be used", NULL, "shm cannot be used"},
    {"proc-odd", set_odd, proc_odd, NULL, NULL, "on different hosts"},
    {"proc-none", set_one, proc_none, NULL, NULL, NULL},
    {"chain", set_pairs, nothing, BY_SECRET, NULL, BY_SECRET},
    {"oneway", set_last, nothing, "cannot be connected to", NULL, "cannot be connected to"},
};

/* ---- Operations of a rank -------------------------------------------------------------------- */

static int kept_stderr = -1;

static void before(int rank) {
    own_rank = rank;
    shared->pids[rank] = (int)getpid();
    if (rank == 0 && keeps) {
        FILE *file = tmpfile();
        kept_stderr = dup(2);
        must(file && dup2(fileno(file), 2) == 2, "a file for warnings");
    }
    given->before(rank);
}

static int check_warning(void) {
    char text[8192] = "";
    int errors = 0;
    if (own_rank != 0)
        return 0;
    const ssize_t len = pread(2, text, sizeof(text) - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    dup2(kept_stderr, 2);
    const char *line = strstr(text, "planned as ranks of different hosts");
    if (given->warning)
        CHECK(errors,
              line && strstr(line, given->warning) && strstr(line, "(user ") &&
                  strstr(text, "ranks of host id "),
              "no such warning \"%s\": %s", given->warning, text);
    else
        CHECK(errors, !line, "a warning: %s", text);
    return errors;
}

static bool together(int a, int b) {
    const int set = given->set(a, n);
    return a == b || (set >= 0 && set == given->set(b, n));
}

static int check_hosts(rcm_comm *comm) {
    const int rank = rcm_rank(comm);
    int errors = 0, before_me = 0, size = 0;
    rcm_comm *host = NULL;
    for (int r = 0; r < n; r++) {
        before_me += r < rank && together(r, rank);
        size += together(r, rank);
    }
    CHECK(errors, rcm_local_size(comm) == size && rcm_local_rank(comm) == before_me,
          "rank %d is %d of %d on its host, not %d of %d", rank, rcm_local_rank(comm),
          rcm_local_size(comm), before_me, size);
    CHECK(errors, rcm_comm_split_hosts(comm, NULL, &host) == RCM_OK, "rank %d: split_hosts: %s",
          rank, rcm_last_error());
    if (!host)
        return errors;
    CHECK(errors, rcm_size(host) == size && rcm_rank(host) == before_me,
          "rank %d is %d of %d in its host's group", rank, rcm_rank(host), rcm_size(host));
    CHECK(errors, rcm_barrier(host, NULL, NULL) == RCM_OK && rcm_destroy(host) == RCM_OK,
          "rank %d: its host's group: %s", rank, rcm_last_error());
    return errors;
}

/* Messages to all others at the same time, small and large, so that all pairs are linked. */
static int check_messages(rcm_comm *comm, size_t count) {
    const int rank = rcm_rank(comm);
    rcm_work *works[2 * RANKS_MAX] = {NULL};
    int *send = calloc(count, sizeof(int)), *recv = calloc(count * (size_t)n, sizeof(int));
    int errors = 0;
    for (size_t i = 0; i < count; i++)
        send[i] = rank * 1000003 + (int)i;
    for (int r = 0; r < n; r++) {
        int *into = recv + count * (size_t)r;
        if (r == rank)
            continue;
        CHECK(errors,
              rcm_recv(comm, into, count, RCM_INT32, r, 5, NULL, &works[r]) == RCM_OK &&
                  rcm_send(comm, send, count, RCM_INT32, r, 5, NULL, &works[n + r]) == RCM_OK,
              "rank %d, %d: %s", rank, r, rcm_last_error());
    }
    for (int i = 0; i < 2 * n; i++) {
        if (!works[i])
            continue;
        CHECK(errors, rcm_work_wait(works[i], -1) == RCM_OK, "rank %d: %s", rank, rcm_last_error());
        rcm_work_free(works[i]);
    }
    for (int r = 0; r < n && errors == 0; r++)
        for (size_t i = 0; r != rank && i < count && errors == 0; i++)
            CHECK(errors, recv[count * (size_t)r + i] == r * 1000003 + (int)i,
                  "rank %d: element %zu from rank %d", rank, i, r);
    free(send);
    free(recv);
    return errors;
}

static int check_transports(rcm_comm *comm) {
    const int rank = rcm_rank(comm);
    int errors = 0;
    for (int r = 0; r < n; r++) {
        const char *name = rcm_comm_transport(comm, r);
        CHECK(errors, r == rank || strcmp(name, together(rank, r) ? "shm" : "tcp") == 0,
              "rank %d is linked to %d by \"%s\"", rank, r, name);
    }
    return errors;
}

static int all_reduce_small(rcm_comm *comm) {
    int mine = 1 << rcm_rank(comm) % 20, sum = 0, expected = 0, errors = 0;
    for (int r = 0; r < rcm_size(comm); r++)
        expected += 1 << r % 20;
    CHECK(errors,
          rcm_all_reduce(comm, &mine, &sum, 1, RCM_INT32, RCM_SUM, NULL, NULL) == RCM_OK &&
              sum == expected,
          "all_reduce: %d, not %d: %s", sum, expected, rcm_last_error());
    return errors;
}

/* Groups that mix the sets in other orders. */
static int check_groups(rcm_comm *comm) {
    rcm_comm *half = NULL, *again = NULL;
    const int rank = rcm_rank(comm);
    int errors = 0;
    CHECK(errors,
          rcm_comm_split(comm, rank * 2 < n, -rank, NULL, &half) == RCM_OK &&
              rcm_comm_duplicate(comm, NULL, &again) == RCM_OK,
          "groups: %s", rcm_last_error());
    if (errors)
        return errors;
    errors += all_reduce_small(half) + all_reduce_small(again);
    CHECK(errors, rcm_destroy(half) == RCM_OK && rcm_destroy(again) == RCM_OK, "destroy: %s",
          rcm_last_error());
    return errors;
}

static int body(rcm_comm *comm, void *arg) {
    (void)arg;
    int errors = check_warning() + check_hosts(comm);
    errors += all_reduce_small(comm);
    if (!light && errors == 0)
        errors += workload_every(comm);
    if (errors == 0)
        errors += check_messages(comm, 1) + check_messages(comm, light ? 1000 : 300000);
    return errors ? errors : check_transports(comm) + check_groups(comm);
}

/* One case per kind of set runs all operations. */
static bool runs_all(void) {
    return is("user-odd") || is("user-each") || is("unix-odd") || is("chain");
}

static int run_case(void) {
    light = short_run || !runs_all();
    const struct ranks by_all = {.n = n, .transport = "auto", .before = before};
    const struct ranks by_shm = {
        .n = n, .transport = "shm", .before = before, .refused = given->refused};
    if (given->secret)
        setenv("RINGCOMM_SECRET", given->secret, 1);
    else
        unsetenv("RINGCOMM_SECRET");
    keeps = true;
    int errors = ranks_run(&by_all, body, NULL);
    keeps = false;
    if (given->refused)
        errors += ranks_run(&by_shm, body, NULL);
    if (errors)
        fprintf(stderr, "case %s, %d ranks: %d errors\n", given->name, n, errors);
    return errors;
}

int main(int argc, char **argv) {
    int errors = 0, found = 0;
    if (argc < 3 || (n = atoi(argv[2])) < 1 || n > RANKS_MAX)
        return 2;
    short_run = argc > 3;
    if (geteuid() != 0) {
        puts("skipped: ranks of other users need root");
        return 77;
    }
    setenv("RINGCOMM_LOG", "warn", 1);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    for (size_t i = 0; i < sizeof(all_given) / sizeof(all_given[0]); i++) {
        given = &all_given[i];
        if ((strcmp(argv[1], "all") != 0 && !is(argv[1])) || (is("chain") && n < 3))
            continue;
        found++;
        errors += run_case();
    }
    return !found ? 2 : errors > 0;
}
