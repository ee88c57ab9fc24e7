/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every limit of open files in a range, one after the other, in one set of processes:
 *     open_files RANKS FROM TO STEP all|RANK
 * At each limit the job works, or fails on every rank, and a rank that reached its limit names it.
 * FROM and TO count from the descriptors open before rcm_init. No descriptor may stay open.
 */
#include <dirent.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include "ringcomm.h"

enum {
    RANKS_MAX = 32,
    LIMITS_MAX = 128,
    TIMEOUT_MS = 8000,
    BLOCK = 100,
    SPAWN_MS = 600000,
    CLIENTS = 12,
    CLIENT_MS = 100,
    UNIQUE_ID_MORE = 10
};

struct outcome {
    int status;
    const char *call; /* the call that failed */
    char text[520];
    int leaked;
};

static int nranks, first, last, step, victim;
static char folder[] = "/tmp/ringcomm-open-files-XXXXXX";
static struct outcome (*outcomes)[RANKS_MAX];
static int errors;

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                        \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            errors++;                                                                              \
        }                                                                                          \
    } while (0)

static int count_open(void) {
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n - 3; /* ".", "..", and the opened folder */
}

static rlim_t limit_set(rlim_t most) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        abort();
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        abort();
    return before;
}

/* A local call works, or its error names the limit; any other error is the call's failure. */
static bool alone_is_right(rcm_status status) {
    return status == RCM_OK || strstr(rcm_last_error(), "ulimit -n is ");
}

/* At each limit near what a store needs: this process serves the store of its id and is its first
 * client. Returns the first number that fails, or 0. */
static int unique_id_wrong_with(int open_before) {
    int wrong = 0;
    for (int more = 1; more < UNIQUE_ID_MORE && wrong == 0; more++) {
        struct rcm_unique_id id;
        const rlim_t before = limit_set((rlim_t)(open_before + more));
        const rcm_status status = rcm_unique_id_get(&id);
        if (!alone_is_right(status))
            wrong = more;
        if (status == RCM_OK && rcm_unique_id_free(&id) != RCM_OK)
            wrong = more;
        limit_set(before);
    }
    return wrong;
}

/* ---- What the ranks do --------------------------------------------------------------------- */

static rcm_status do_all_to_all(rcm_comm *comm) {
    static uint8_t in[RANKS_MAX * BLOCK], out[RANKS_MAX * BLOCK];
    memset(in, rcm_rank(comm), sizeof in);
    const rcm_status status = rcm_all_to_all(comm, in, out, BLOCK, RCM_UINT8, NULL, NULL);
    for (int r = 0; r < rcm_size(comm) && status == RCM_OK; r++)
        if (out[r * BLOCK] != r || out[r * BLOCK + BLOCK - 1] != r)
            abort();
    return status;
}

/* One channel with several readers, where ranks share memory. */
static rcm_status do_broadcast(rcm_comm *comm) {
    int32_t value = rcm_rank(comm) == 0 ? 77 : 0;
    const rcm_status status = rcm_broadcast(comm, &value, 1, RCM_INT32, 0, NULL, NULL);
    if (status == RCM_OK && value != 77)
        abort();
    return status;
}

/* A descriptor for a work. */
static rcm_status do_work_fd(rcm_comm *comm) {
    int32_t sum = 1;
    rcm_work *work = NULL;
    int fd = -1;
    rcm_status status = rcm_all_reduce(comm, &sum, &sum, 1, RCM_INT32, RCM_SUM, NULL, &work);
    if (status != RCM_OK)
        return status;
    const rcm_status noticed = rcm_work_fd(work, &fd);
    if (noticed == RCM_OK)
        (void)poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, TIMEOUT_MS);
    status = rcm_work_wait(work, -1);
    if (status == RCM_OK && sum != rcm_size(comm))
        abort();
    rcm_work_free(work);
    return status; /* the work goes on without a descriptor */
}

/* Both completion queues: of the communicator, and of the process. */
static rcm_status do_queues(rcm_comm *comm) {
    struct rcm_completion completion;
    rcm_queue *queue = NULL;
    rcm_work *work = NULL;
    size_t n = 0;
    int fd = -1;
    if (rcm_queue_create(&queue) != RCM_OK)
        abort();
    rcm_status made = rcm_queue_fd(queue, &fd);
    if (made == RCM_OK)
        made = rcm_comm_completions(comm, &fd);
    if (!alone_is_right(made))
        return made;
    rcm_status status = rcm_barrier(comm, NULL, &work);
    if (status == RCM_OK && rcm_queue_give(queue, work, &fd) != RCM_OK)
        abort();
    if (status == RCM_OK &&
        (rcm_queue_wait(queue, &completion, 1, -1, &n) != RCM_OK || completion.arg != &fd))
        abort();
    if (status == RCM_OK)
        status = completion.status;
    rcm_work_free(work);
    rcm_queue_free(queue);
    return status; /* the completion is reported without a descriptor */
}

/* A store and as many clients as the limit allows; a client without a descriptor on the server runs
 * into its deadline. */
static rcm_status do_store_clients(rcm_comm *comm) {
    rcm_store *server = NULL, *clients[CLIENTS];
    rcm_status made = rcm_store_open("tcp://127.0.0.1:0?server=1", CLIENT_MS, &server);
    int n = 0;
    while (made == RCM_OK && n < CLIENTS) {
        char url[100];
        snprintf(url, sizeof url, "tcp://127.0.0.1%s?server=0",
                 strrchr(rcm_store_url(server), ':'));
        if (strchr(url, '?') != strrchr(url, '?'))
            *strrchr(url, '?') = '\0';
        made = rcm_store_open(url, CLIENT_MS, &clients[n]);
        n += made == RCM_OK;
    }
    const bool right = alone_is_right(made) || made == RCM_ERR_TIMEOUT;
    for (int i = 0; i < n; i++)
        rcm_store_close(clients[i]);
    rcm_store_close(server);
    return right ? rcm_barrier(comm, NULL, NULL) : made;
}

/* After an abort without deaths, the survivors are all ranks. */
static rcm_status do_shrink(rcm_comm *comm) {
    rcm_comm *all = NULL, *rest = NULL;
    rcm_status status = rcm_comm_duplicate(comm, NULL, &all);
    if (status == RCM_OK)
        status = rcm_abort(all, "a test");
    if (status == RCM_OK)
        status = rcm_comm_shrink(all, NULL, &rest);
    if (status == RCM_OK)
        status = do_all_to_all(rest);
    if (rest) {
        const rcm_status ended = rcm_destroy(rest);
        status = status == RCM_OK ? ended : status;
    }
    (void)!rcm_destroy(all);
    return status;
}

static rcm_status do_subset(rcm_comm *comm) {
    rcm_comm *half = NULL;
    int ranks[RANKS_MAX], n = 0;
    for (int r = rcm_rank(comm) % 2; r < rcm_size(comm); r += 2)
        ranks[n++] = r;
    rcm_status status = rcm_comm_subset(comm, ranks, n, 0, NULL, &half);
    if (status == RCM_OK)
        status = do_all_to_all(half);
    if (half) {
        const rcm_status ended = rcm_destroy(half);
        status = status == RCM_OK ? ended : status;
    }
    return status;
}

static const struct {
    const char *name;
    rcm_status (*run)(rcm_comm *comm);
} calls[] = {
    {"broadcast", do_broadcast}, {"all_to_all", do_all_to_all},       {"work_fd", do_work_fd},
    {"queues", do_queues},       {"store clients", do_store_clients}, {"subset", do_subset},
    {"shrink", do_shrink}};

static void outcome_set(struct outcome *o, const char *call, rcm_status status) {
    if (status == RCM_OK || o->status != RCM_OK)
        return;
    o->status = status;
    o->call = call;
    snprintf(o->text, sizeof o->text, "%s", rcm_last_error());
}

static void job_run(int rank, int i, struct outcome *o) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    char url[100];
    rcm_comm *comm = NULL;
    snprintf(url, sizeof url, "file://%s/%d", folder, i);
    options.rank = rank;
    options.world_size = nranks;
    options.url = url;
    options.timeout_ms = TIMEOUT_MS;
    outcome_set(o, "init", rcm_init(&options, &comm));
    for (size_t k = 0; k < sizeof calls / sizeof calls[0] && o->status == RCM_OK; k++)
        outcome_set(o, calls[k].name, calls[k].run(comm));
    if (comm)
        outcome_set(o, "destroy", rcm_destroy(comm));
}

static int rank_run(int rank, void *arg) {
    const int open_before = count_open();
    (void)arg;
    if (!freopen("/dev/null", "w", stderr)) /* the library logs each failure */
        abort();
    const int wrong = unique_id_wrong_with(open_before);
    for (int i = 0, more = first; more <= last; more += step, i++) {
        const bool is_victim = victim < 0 || victim == rank;
        const rlim_t before = is_victim ? limit_set((rlim_t)(open_before + more)) : 0;
        job_run(rank, i, &outcomes[i][rank]);
        if (is_victim)
            limit_set(before);
        outcomes[i][rank].leaked = count_open() - open_before;
    }
    return wrong ? 100 + wrong : 0; /* 100: not a status of rcm_spawn itself */
}

/* ---- Results -------------------------------------------------------------------------------- */

static bool names_limit(const struct outcome *o) {
    return strstr(o->text, "ulimit -n is ") || strstr(o->text, "descriptors, but only");
}

static bool limit_worked(int i, int more) {
    int failed = 0, named = 0, at = -1;
    for (int r = 0; r < nranks; r++) {
        const struct outcome *o = &outcomes[i][r];
        CHECK(o->leaked == 0, "%d more: rank %d has %d descriptors more than before", more, r,
              o->leaked);
        failed += o->status != RCM_OK;
        named += o->status != RCM_OK && names_limit(o);
        at = o->status != RCM_OK && (at < 0 || names_limit(o)) ? r : at;
    }
    if (failed == 0)
        return true;
    const struct outcome *o = &outcomes[i][at];
    printf("%d more: %d of %d failed, %d name the limit; rank %d: %s: %s: %s\n", more, failed,
           nranks, named, at, o->call, rcm_status_name((rcm_status)o->status), o->text);
    CHECK(named > 0, "%d more: no rank names the limit", more);
    for (int r = 0; r < nranks && named == 0; r++)
        fprintf(stderr, "  rank %d: %s: %s\n", r, outcomes[i][r].call ? outcomes[i][r].call : "",
                outcomes[i][r].text);
    return false;
}

int main(int argc, char **argv) {
    if (argc != 6)
        return 2;
    int rank = -1, status = 0, good = 0, n = 0;
    nranks = atoi(argv[1]);
    first = atoi(argv[2]);
    last = atoi(argv[3]);
    step = atoi(argv[4]);
    victim = strcmp(argv[5], "all") == 0 ? -1 : atoi(argv[5]);
    outcomes = mmap(NULL, sizeof *outcomes * LIMITS_MAX, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (outcomes == MAP_FAILED || nranks > RANKS_MAX || (last - first) / step >= LIMITS_MAX ||
        !mkdtemp(folder))
        return 2;
    CHECK(rcm_spawn(nranks, rank_run, NULL, SPAWN_MS, &rank, &status) == RCM_OK,
          "rank %d ended with status %d: %s", rank, status, rcm_last_error());
    bool worked = false;
    for (int more = first; more <= last; more += step, n++) {
        char path[60];
        worked = limit_worked(n, more);
        good += worked;
        snprintf(path, sizeof path, "%s/%d", folder, n);
        unlink(path);
    }
    CHECK(worked, "it does not work with %d more", last);
    CHECK(rmdir(folder) == 0, "something is left in %s", folder);
    printf("%d ranks: %d of %d limits work\n", nranks, good, n);
    return errors > 0;
}
