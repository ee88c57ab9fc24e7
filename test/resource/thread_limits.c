/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of the library under limits on stacks or threads: resource_threads CASE
 *
 * A limit below the default stack size alone has no effect; a limit that is reached is named in the
 * error. The base folder is linked statically, so that a thread can be started alone.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "ringcomm.h"
#include "thread.h"

enum { SKIP = 77, NOBODY = 65534, KIB = 1024, MIB = 1024 * KIB, USED = 700 * KIB };

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                        \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/* Per thread: lies in its stack. */
static _Thread_local volatile char large[MIB];

static void limit_set(__rlimit_resource_t which, rlim_t value) {
    struct rlimit limit;
    getrlimit(which, &limit);
    limit.rlim_cur = value;
    if (limit.rlim_max < value)
        limit.rlim_max = value;
    if (setrlimit(which, &limit) != 0)
        perror("setrlimit");
}

/* Drops root: privileged processes are exempt from limits. */
static int drop_root(void) {
    return geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0) ? SKIP : 0;
}

static void *thread_main(void *arg) {
    volatile char area[USED];
    for (size_t i = 0; i < sizeof area; i += 512)
        area[i] = 1;
    large[0] = area[0];
    *(int *)arg += area[512];
    return NULL;
}

/* Starts one thread that uses its stack. */
static rcm_status thread_once(void) {
    static const struct rcmi_thread_kind kind = {.name = "a thread of this test",
                                                 .stack_kib = RCMI_STACK_KIB};
    pthread_t thread;
    int ran = 0;
    const rcm_status status = rcmi_thread_start(&kind, thread_main, &ran, &thread);
    if (status != RCM_OK)
        return status;
    pthread_join(thread, NULL);
    return ran ? RCM_OK : RCM_ERR_INTERNAL;
}

/* Starts all threads of rcm_init. */
static rcm_status init_once(void) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_init_request *request = NULL;
    rcm_store *store = NULL;
    rcm_comm *comm = NULL;
    options.rank = 0;
    options.world_size = 1;
    rcm_status status = rcm_store_open("tcp://127.0.0.1:0?server=1&world_size=1", 5000, &store);
    options.store = store;
    if (status == RCM_OK)
        status = rcm_init_begin(&options, &request);
    if (status == RCM_OK)
        status = rcm_init_wait(request, 10000, &comm);
    if (status == RCM_OK)
        status = rcm_destroy(comm);
    rcm_init_cancel(request);
    rcm_store_close(store);
    return status;
}

static int both_start(void) {
    rcm_status status = thread_once();
    CHECK(status == RCM_OK, "a thread: %s", rcm_last_error());
    status = init_once();
    CHECK(status == RCM_OK, "rcm_init: %s", rcm_last_error());
    return 0;
}

static int names(const char *limit, const char *again) {
    const rcm_status status = thread_once();
    const char *text = rcm_last_error();
    CHECK(status == RCM_ERR_RESOURCE && strstr(text, limit) && strstr(text, again) &&
              strstr(text, "cannot start a thread of this test, with a stack of"),
          "%s and %s are not in: %s, %s", limit, again, rcm_status_name(status), text);
    return 0;
}

/* ---- Cases, each in a process of its own ----------------------------------------------------- */

/* glibc reads the default size from the limit at program start: so the program starts again. */
static int huge_stack(const char *program) {
    const rlim_t huge = (rlim_t)1 << 36;
    struct rlimit now;
    if (getrlimit(RLIMIT_STACK, &now) == 0 && now.rlim_cur == huge) {
        limit_set(RLIMIT_AS, (rlim_t)2 << 30);
        return both_start();
    }
    if (now.rlim_max < huge && geteuid() != 0)
        return SKIP;
    limit_set(RLIMIT_STACK, huge);
    execl(program, program, "huge-stack", (char *)NULL);
    return 1;
}

static int locked_fits(const char *program) {
    (void)program;
    const int status = drop_root();
    limit_set(RLIMIT_MEMLOCK, 6 * MIB);
    if (status != 0 || mlockall(MCL_FUTURE) != 0)
        return SKIP;
    const rcm_status started = thread_once();
    CHECK(started == RCM_OK, "%s", rcm_last_error());
    return 0;
}

static int locked_full(const char *program) {
    (void)program;
    const int status = drop_root();
    limit_set(RLIMIT_MEMLOCK, 512 * KIB);
    if (status != 0 || mlockall(MCL_FUTURE) != 0)
        return SKIP;
    return names("RLIMIT_MEMLOCK is 512 KiB (ulimit -l)", "mlockall");
}

/* The current size of the process plus a little more. */
static int address_space(const char *program) {
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    (void)program;
    CHECK(f && fscanf(f, "%lu", &pages) == 1, "statm");
    fclose(f);
    limit_set(RLIMIT_AS, pages * (rlim_t)sysconf(_SC_PAGESIZE) + 512 * KIB);
    return names("RLIMIT_AS is", "ulimit -v");
}

static int processes(const char *program) {
    (void)program;
    if (drop_root() != 0 || geteuid() == 0)
        return SKIP;
    limit_set(RLIMIT_NPROC, 1);
    return names("RLIMIT_NPROC is 1", "ulimit -u");
}

static int write_in(const char *folder, const char *file, const char *text) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "we");
    if (!f)
        return SKIP;
    const bool written = fputs(text, f) >= 0;
    return fclose(f) == 0 && written ? 0 : SKIP;
}

/* The limit is set one level above. */
static int tasks_in(const char *above, const char *group) {
    int status;
    if ((mkdir(group, 0755) != 0) || write_in(above, "pids.max", "1") != 0)
        return SKIP;
    const pid_t child = fork();
    if (child == 0) {
        if (write_in(group, "cgroup.procs", "0") != 0)
            _exit(SKIP);
        const int result = names("/pids.max is 1", "");
        fflush(NULL);
        _exit(result);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int tasks(const char *program) {
    static const char *const roots[] = {"/sys/fs/cgroup/pids", "/sys/fs/cgroup"};
    char above[100], group[140];
    int status = SKIP;
    (void)program;
    for (size_t i = 0; i < 2 && status == SKIP; i++) {
        snprintf(above, sizeof above, "%s/ringcomm-threads-%d", roots[i], (int)getpid());
        snprintf(group, sizeof group, "%s/below", above);
        if (mkdir(above, 0755) != 0)
            continue;
        (void)write_in(above, "cgroup.subtree_control", "+pids");
        status = tasks_in(above, group);
        rmdir(group);
        rmdir(above);
    }
    return status;
}

static const struct {
    const char *name;
    int (*run)(const char *program);
} cases[] = {{"huge-stack", huge_stack},   {"locked-fits", locked_fits},
             {"locked-full", locked_full}, {"address-space", address_space},
             {"processes", processes},     {"tasks", tasks}};

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(argv[1], cases[i].name) == 0)
            return cases[i].run(argv[0]);
    fprintf(stderr, "usage: resource_threads CASE\n");
    return 2;
}
