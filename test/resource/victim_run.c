/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts, watches and judges runs; see victim_run.h. */
#include "../sanitized.h"
#include "victim_run.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "job.h"
#include "ringcomm.h"

/* One run of the job. */
struct attempt {
    struct trouble trouble;
    struct job job;
    char url[200], folder[40];
    struct report *reports;
    pid_t pids[RANKS_MAX];
    int exits[RANKS_MAX];
    int running;
    double until;
};

struct setup setup = {.transport = "shm", .store = "file", .ranks = 2, .jobs = 8, .hang_s = 20};
static struct totals totals;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

_Noreturn static void die(const char *what) {
    perror(what);
    exit(2);
}

/* ---- One run ------------------------------------------------------------------------------- */

/* Returns a port that was free a moment ago and that the kernel does not choose for outgoing
 * connections, which use ports above 32767. */
static int free_port(void) {
    for (int tries = 0; tries < 1000; tries++) {
        struct sockaddr_in a = {.sin_family = AF_INET};
        const int port = 12000 + (int)(((unsigned)getpid() * 31 + (unsigned)rand()) % 20000);
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        a.sin_port = htons((uint16_t)port);
        const bool free = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0;
        close(fd);
        if (free)
            return port;
    }
    die("a free port");
}

static void limits_begin(const void *attempt, int rank);
static void limits_lift(void);

static void attempt_prepare(struct attempt *a) {
    if (setup.url) {
        snprintf(a->url, sizeof a->url, "%s", setup.url);
    } else if (strcmp(setup.store, "file") == 0) {
        snprintf(a->folder, sizeof a->folder, "/tmp/ringcomm-resource-XXXXXX");
        if (!mkdtemp(a->folder))
            die("mkdtemp");
        snprintf(a->url, sizeof a->url, "file://%s/store", a->folder);
    } else {
        snprintf(a->url, sizeof a->url, "tcp://127.0.0.1:%d", free_port());
    }
    a->job = (struct job){.nranks = setup.ranks,
                          .transport = setup.transport,
                          .url = a->url,
                          .secret = setup.secret ? "injected" : NULL,
                          .timeout_ms = TEST_SANITIZED ? 8000 : 2000,
                          .begin = limits_begin,
                          .end = limits_lift,
                          .arg = a};
    memset(a->reports, 0, sizeof(struct report) * RANKS_MAX);
}

/* ---- Limits -------------------------------------------------------------------------------- */

/* The lowest descriptor that is free. */
static long first_free_fd(void) {
    int fd = dup(0);
    close(fd);
    return fd;
}

static long mapped_bytes(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%ld", &pages) != 1)
        die("/proc/self/statm");
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static const struct {
    const char *name;
    int resource;
} limits[] = {{"nofile", RLIMIT_NOFILE},
              {"as", RLIMIT_AS},
              {"memlock", RLIMIT_MEMLOCK},
              {"fsize", RLIMIT_FSIZE}};
enum { LIMITS = sizeof limits / sizeof limits[0] };

static void limit_set(const char *name, long room) {
    for (size_t i = 0; name && i < LIMITS; i++) {
        struct rlimit limit;
        if (strcmp(limits[i].name, name) != 0)
            continue;
        if (limits[i].resource == RLIMIT_NOFILE)
            room += first_free_fd();
        if (limits[i].resource == RLIMIT_AS)
            room = room * 1024 + mapped_bytes();
        if (getrlimit(limits[i].resource, &limit) != 0)
            die("getrlimit");
        limit.rlim_cur = (rlim_t)room;
        if (setrlimit(limits[i].resource, &limit) != 0)
            die("setrlimit");
    }
}

static void limits_begin(const void *attempt, int rank) {
    const struct attempt *a = attempt;
    if (rank == a->trouble.victim)
        limit_set(a->trouble.limit, a->trouble.room);
}

/* The checks afterwards and the sanitizers need descriptors and memory. */
static void limits_lift(void) {
    for (size_t i = 0; i < LIMITS; i++) {
        struct rlimit limit;
        if (getrlimit(limits[i].resource, &limit) != 0)
            die("getrlimit");
        limit.rlim_cur = limit.rlim_max;
        if (setrlimit(limits[i].resource, &limit) != 0)
            die("setrlimit");
    }
}

/* ---- Running ------------------------------------------------------------------------------- */

static void rank_main(const struct attempt *a, int rank) {
    static const struct failing_plan nothing = {.function = -1};
    job_run(&a->job, rank, rank == a->trouble.victim ? &a->trouble.plan : &nothing,
            &a->reports[rank]);
    exit(0); /* LeakSanitizer changes the status if it finds a leak */
}

static void attempt_begin(struct attempt *a) {
    attempt_prepare(a);
    a->until = now() + setup.hang_s;
    a->running = setup.ranks;
    fflush(NULL);
    for (int r = 0; r < setup.ranks; r++) {
        a->exits[r] = -1;
        a->pids[r] = fork();
        if (a->pids[r] < 0)
            die("fork");
        if (a->pids[r] == 0)
            rank_main(a, r);
    }
    totals.runs++;
}

/* True if all ranks have ended. Ranks over their time are killed here, and stay -2. */
static bool attempt_over(struct attempt *a) {
    for (int r = 0; r < setup.ranks; r++) {
        int status;
        if (a->pids[r] == 0)
            continue;
        if (now() > a->until) {
            kill(a->pids[r], SIGKILL);
            waitpid(a->pids[r], &status, 0);
            a->exits[r] = -2;
        } else if (waitpid(a->pids[r], &status, WNOHANG) == a->pids[r]) {
            a->exits[r] = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
        } else {
            continue;
        }
        a->pids[r] = 0;
        a->running--;
    }
    return a->running == 0;
}

/* ---- Judging ------------------------------------------------------------------------------- */

/* Whether a failure is allowed. A store given by the caller may cause one. */
static bool attempt_is_troubled(const struct attempt *a) {
    return a->trouble.plan.function >= 0 || a->trouble.limit || setup.url;
}

static void attempt_name(const struct attempt *a, char *text, size_t cap) {
    if (a->trouble.limit)
        snprintf(text, cap, "%d,limit,%s,%ld", a->trouble.victim, a->trouble.limit,
                 a->trouble.room);
    else if (a->trouble.plan.function < 0)
        snprintf(text, cap, "nothing");
    else
        snprintf(text, cap, "%d,%s,%ld,%d,%s", a->trouble.victim,
                 failing_name(a->trouble.plan.function), a->trouble.plan.first,
                 a->trouble.plan.error, a->trouble.plan.until_end ? "END" : "ONCE");
}

static void finding(const struct attempt *a, int rank, const char *what) {
    const struct report *r = &a->reports[rank];
    char name[100];
    attempt_name(a, name, sizeof name);
    totals.findings++;
    fprintf(stderr,
            "FINDING --transport %s --store %s --ranks %d%s --one %s (%s): rank %d %s; at %s; "
            "%s %s: %s\n",
            setup.transport, setup.store, setup.ranks, setup.secret ? " --secret" : "", name,
            a->trouble.plan.function >= 0 ? strerrorname_np(a->trouble.plan.error) : "", rank, what,
            r->stage ? r->stage : "the start", r->failed ? r->failed : "no call failed",
            r->failed ? rcm_status_name((rcm_status)r->status) : "", r->text);
}

/* Blocks kept to the end of the process: the store's server of rank 0. */
static long blocks_kept(int rank) {
    return rank > 0 && strcmp(setup.store, "tcp") == 0;
}

static void judge_leaks(const struct attempt *a, int rank) {
    const struct report *r = &a->reports[rank];
    char text[700];
    if (r->fds > 0) {
        snprintf(text, sizeof text, "left %d descriptors open:%s", r->fds, r->left);
        finding(a, rank, text);
    }
    if (r->threads > 0)
        finding(a, rank, "left a thread behind");
    if (r->maps > 0)
        finding(a, rank, "left shared memory mapped");
    if (r->blocks > blocks_kept(rank)) {
        snprintf(text, sizeof text, "left %ld blocks of memory", r->blocks - blocks_kept(rank));
        finding(a, rank, text);
    }
}

static void judge_rank(const struct attempt *a, int rank) {
    const struct report *r = &a->reports[rank];
    const bool may_fail = attempt_is_troubled(a) && a->trouble.plan.error != EINTR;
    char text[100];
    if (a->exits[rank] == -2) {
        finding(a, rank, "hangs");
        return;
    }
    if (a->exits[rank] != 0 || !r->done) {
        snprintf(text, sizeof text, "ended with exit status %d", a->exits[rank]);
        finding(a, rank, text);
    }
    if (!r->done)
        return;
    if (r->status != RCM_OK && !may_fail)
        finding(a, rank, "failed without a reason");
    if (r->status > 0 || strcmp(rcm_status_name((rcm_status)r->status), "RCM_?") == 0)
        finding(a, rank, "returned a positive or unknown status");
    if (r->status == RCM_ERR_INTERNAL)
        finding(a, rank, "returned RCM_ERR_INTERNAL");
    if (r->status != RCM_OK && strlen(r->text) < 10)
        finding(a, rank, "has no error text");
    if (r->forgotten)
        finding(a, rank, "did not keep the error");
    if (r->wrong > 0)
        finding(a, rank, "has wrong data");
    judge_leaks(a, rank);
}

/* A file store may be left behind when a rank failed; the folder is ours. */
static void attempt_clean(struct attempt *a) {
    char path[100];
    struct stat st;
    if (!a->folder[0])
        return;
    snprintf(path, sizeof path, "%s/store", a->folder);
    if (!attempt_is_troubled(a) && stat(path, &st) == 0)
        finding(a, 0, "left the store's file behind");
    unlink(path);
    if (rmdir(a->folder) != 0)
        finding(a, 0, "left another file in the store's folder");
    a->folder[0] = '\0';
}

static void attempt_judge(struct attempt *a) {
    for (int r = 0; r < setup.ranks; r++)
        judge_rank(a, r);
    const struct report *victim = &a->reports[a->trouble.victim];
    totals.struck += victim->hits > 0 || victim->status != RCM_OK;
    for (int r = 0; r < setup.ranks && setup.print_ranks; r++)
        printf("rank %d: %s %s: %s (%ld calls failed)\n", r,
               a->reports[r].failed ? a->reports[r].failed : "all",
               rcm_status_name((rcm_status)a->reports[r].status), a->reports[r].text,
               a->reports[r].hits);
    attempt_clean(a);
}

/* ---- Many runs ----------------------------------------------------------------------------- */

static struct attempt slots[JOBS_MAX];

void attempts_init(void) {
    setenv("RINGCOMM_LOG", "error", 0);
    setenv("RINGCOMM_PEER_TIMEOUT", "3", 1);
    size_t bytes = sizeof(struct report) * RANKS_MAX;
    for (int i = 0; i < JOBS_MAX; i++) {
        slots[i].reports =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (slots[i].reports == MAP_FAILED)
            die("mmap");
    }
}

static int slots_busy(void) {
    int busy = 0;
    for (int i = 0; i < JOBS_MAX; i++)
        busy += slots[i].running > 0;
    return busy;
}

/* Waits until at most `most` runs are active. */
static void slots_wait(int most) {
    while (slots_busy() > most) {
        for (int i = 0; i < JOBS_MAX; i++)
            if (slots[i].running > 0 && attempt_over(&slots[i]))
                attempt_judge(&slots[i]);
        usleep(2000);
    }
}

static struct attempt *slots_start(const struct trouble *trouble) {
    struct attempt *a = slots;
    slots_wait(setup.jobs - 1);
    while (a->running > 0)
        a++;
    a->trouble = *trouble;
    attempt_begin(a);
    return a;
}

void attempt_start(const struct trouble *trouble) {
    (void)slots_start(trouble);
}

void attempts_wait(void) {
    slots_wait(0);
}

struct totals attempts_total(void) {
    return totals;
}

void attempts_count(long calls[RANKS_MAX][FAILING_FUNCTIONS]) {
    const struct trouble none = {.plan = {.function = -1}};
    const struct attempt *a = slots_start(&none);
    slots_wait(0);
    for (int r = 0; r < setup.ranks; r++)
        memcpy(calls[r], a->reports[r].calls, sizeof calls[r]);
    totals.struck = 0;
}
