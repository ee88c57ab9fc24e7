/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Errors of rcm_init that are found long before its deadline, and worlds in addition to a
 * launcher's:
 *     init_early_errors counts|used-id|slow-store|second-world
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "jobs.h"

/* ---- Restart counts ------------------------------------------------------------------------ */

/* Ranks with two counts: every rank gets an error with both. */
static void counts_differ(const char *at) {
    static const struct {
        int size, counts[RANKS_MAX];
        const char *low, *high;
    } all[] = {
        {2, {0, 1}, "COUNT is 0", "and 1 on rank"},
        {2, {1, 0}, "COUNT is 0", "and 1 on rank"},
        {3, {7, 2, 7}, "COUNT is 2", "and 7 on rank"},
        {4, {3, 3, 0, 0}, "COUNT is 0", "and 3 on rank"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct job job = {.url = url, .number = 1, .size = all[i].size};
        pid_t server = 0;
        memcpy(job.counts, all[i].counts, sizeof job.counts);
        if (strcmp(at, "file") == 0)
            file_new();
        else {
            const int port = free_port();
            server = store_serve(port);
            snprintf(url, sizeof url, "tcp://127.0.0.1:%d?server=0", port);
        }
        printf("%s: %d %d %d %d\n", at, job.counts[0], job.counts[1], job.counts[2], job.counts[3]);
        job_start(&job);
        job_wait(&job);
        job_refused(&job, 0, job.size - 1, "restart counts differ", all[i].low, all[i].high);
        if (server) {
            kill(server, SIGKILL);
            waitpid(server, NULL, 0);
        } else {
            file_remove();
        }
    }
}

/* Traces of earlier rounds do not count as another round: of ranks that left, of ranks that were
 * killed, and with the counts in any order. */
static void counts_left_over(void) {
    struct job ends = {.url = url, .number = 1, .size = 2, .counts = {4, 4}};
    struct job dies = {.url = url, .number = 2, .size = 2, .counts = {5, 5}, .orphan = true};
    struct job low = {.url = url, .number = 3, .size = 2, .counts = {2, 2}};
    struct job next = {.url = url, .number = 4, .size = 2, .counts = {6, 6}};
    struct job *const in_order[] = {&ends, &low, &dies, &next};
    const int port = free_port();
    const pid_t server = store_serve(port);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d?server=0", port);
    for (int i = 0; i < 4; i++) {
        job_start(in_order[i]);
        job_wait(in_order[i]);
        if (in_order[i] != &dies)
            job_went_well(in_order[i]);
    }
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
}

static void counts(void) {
    counts_differ("file");
    counts_differ("tcp");
    counts_left_over();
}

/* ---- Unique ids ---------------------------------------------------------------------------- */

static struct rcm_init_options id_options(const struct rcm_unique_id *id, int rank, int size) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    options.rank = rank;
    options.world_size = size;
    options.unique_id = id;
    options.timeout_ms = INIT_MS;
    return options;
}

static void id_used(struct rcm_unique_id *id, int rank, int size) {
    struct rcm_init_options options = id_options(id, rank, size);
    rcm_comm *comm = NULL;
    CHECK(rcm_init(&options, &comm) == RCM_OK && rcm_destroy(comm) == RCM_OK, "rank %d: %s", rank,
          rcm_last_error());
}

static void id_refused(struct rcm_unique_id *id, int rank, rcm_status want, const char *words) {
    struct rcm_init_options options = id_options(id, rank, 2);
    const double start = now();
    rcm_comm *comm = NULL;
    const rcm_status status = rcm_init(&options, &comm);
    printf("  rank %d after %.2f s: %s %s\n", rank, now() - start, rcm_status_name(status),
           rcm_last_error());
    CHECK(status == want && strstr(rcm_last_error(), words), "rank %d: %s: %s", rank,
          rcm_status_name(status), rcm_last_error());
    CHECK(now() - start < SOON_S, "rank %d was refused only after %.1f s", rank, now() - start);
}

struct shared_id {
    struct rcm_unique_id id;
    _Atomic int step;
};

static void step_await(const struct shared_id *shared, int step) {
    while (shared->step < step)
        usleep(1000);
}

static void *id_thread(void *arg) {
    id_used(arg, 1, 2);
    return NULL;
}

/* The process that makes ids: with a rank of its own in the job, with two threads, alone until its
 * deadline. */
static void id_maker(struct shared_id *shared) {
    struct rcm_unique_id own;
    struct rcm_init_options options;
    rcm_comm *comm = NULL;
    pthread_t thread;
    CHECK(rcm_unique_id_get(&shared->id) == RCM_OK, "%s", rcm_last_error());
    shared->step = 1;
    id_used(&shared->id, 0, 2);
    id_refused(&shared->id, 0, RCM_ERR_INVALID, "unique_id is used up");
    shared->step = 2;
    CHECK(rcm_unique_id_get(&own) == RCM_OK, "%s", rcm_last_error());
    CHECK(pthread_create(&thread, NULL, id_thread, &own) == 0, "no thread");
    id_used(&own, 0, 2); /* the second thread finds a store that is in use, not used up */
    pthread_join(thread, NULL);
    id_refused(&own, 1, RCM_ERR_INVALID, "unique_id is used up");
    CHECK(rcm_unique_id_get(&own) == RCM_OK, "%s", rcm_last_error());
    options = id_options(&own, 0, 2);
    options.timeout_ms = 100;
    CHECK(rcm_init(&options, &comm) == RCM_ERR_TIMEOUT, "%s", rcm_last_error());
    id_refused(&own, 0, RCM_ERR_INVALID, "unique_id is used up");
    step_await(shared, 3);
    CHECK(rcm_unique_id_get(&shared->id) == RCM_OK, "%s", rcm_last_error());
    shared->step = 4;
    exit(errors > 0); /* with an id that no job uses */
}

static void used_id(void) {
    struct shared_id *shared = shared_memory(sizeof *shared);
    int status = 0;
    fflush(NULL);
    const pid_t maker = fork();
    if (maker == 0)
        id_maker(shared);
    step_await(shared, 1);
    id_used(&shared->id, 1, 2);
    step_await(shared, 2);
    id_refused(&shared->id, 1, RCM_ERR_PEER, "has ended, or a job has used it up");
    shared->step = 3;
    waitpid(maker, &status, 0);
    CHECK(status == 0 && shared->step == 4, "the maker of ids: status %d", status);
    id_refused(&shared->id, 1, RCM_ERR_PEER, "has ended, or a job has used it up");
}

/* ---- Slow stores --------------------------------------------------------------------------- */

/* A rank makes two set calls, and more calls of the other functions. */
enum { SLOW_US = 600000, SLOW_SET_US = 900000, SLOW_TIMEOUT_MS = 1500, SLOW_RANKS = 3 };

static const char *slow; /* the slow function */

static void pause_of(const char *name) {
    if (strcmp(slow, name) == 0 || strcmp(slow, "all") == 0)
        usleep(strcmp(name, "set") == 0 ? SLOW_SET_US : SLOW_US);
}
static rcm_status slow_set(void *arg, const char *key, const void *value, size_t len) {
    pause_of("set");
    return rcm_store_set(arg, key, value, len);
}
static rcm_status slow_try_get(void *arg, const char *key, void **value, size_t *len) {
    pause_of("try_get");
    return rcm_store_try_get(arg, key, value, len);
}
static rcm_status slow_compare_set(void *arg, const char *key, const void *expected,
                                   size_t expected_len, const void *desired, size_t desired_len,
                                   int *swapped, void **value, size_t *len) {
    pause_of("compare_set");
    return rcm_store_compare_set(arg, key, expected, expected_len, desired, desired_len, swapped,
                                 value, len);
}

/* Forwards data in both directions after a delay, like a distant server. */
static void slow_pass(int from, int to) {
    char bytes[4096];
    ssize_t n;
    while ((n = read(from, bytes, sizeof bytes)) > 0) {
        usleep(SLOW_US / 3);
        if (write(to, bytes, (size_t)n) != n)
            break;
    }
    shutdown(to, SHUT_RDWR);
}

static void *slow_pass_back(void *arg) {
    const int *fds = arg;
    slow_pass(fds[1], fds[0]);
    return NULL;
}

static void *slow_connection(void *arg) {
    int *fds = arg;
    pthread_t thread;
    if (pthread_create(&thread, NULL, slow_pass_back, fds) == 0) {
        slow_pass(fds[0], fds[1]);
        pthread_join(thread, NULL);
    }
    return NULL;
}

/* A process that serves on listen_fd by forwarding to the store at port. */
static pid_t slow_proxy(int listen_fd, int port) {
    const pid_t pid = fork();
    while (pid == 0) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        int *fds = calloc(2, sizeof *fds);
        pthread_t thread;
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (!fds || (fds[0] = accept(listen_fd, NULL, NULL)) < 0)
            _exit(1);
        fds[1] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fds[1], (struct sockaddr *)&a, sizeof a) != 0 ||
            pthread_create(&thread, NULL, slow_connection, fds) != 0)
            _exit(1);
    }
    return pid;
}

static void slow_rank(int rank, const char *place) {
    struct rcm_store_functions own = RCM_STORE_FUNCTIONS_INIT;
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_store *inner = NULL, *store = NULL;
    rcm_comm *comm = NULL;
    const double start = now();
    options.rank = rank;
    options.world_size = SLOW_RANKS;
    options.timeout_ms = SLOW_TIMEOUT_MS;
    options.url = place;
    if (strncmp(slow, "the ", 4) != 0) {
        CHECK(rcm_store_open(place, INIT_MS, &inner) == RCM_OK, "%s", rcm_last_error());
        own.arg = inner;
        own.set = slow_set;
        own.try_get = slow_try_get;
        own.compare_set = slow_compare_set;
        CHECK(rcm_store_custom(&own, &store) == RCM_OK, "%s", rcm_last_error());
        options.store = store;
        options.url = NULL;
    }
    const rcm_status status = rcm_init(&options, &comm);
    printf("  %s: rank %d after %.2f s: %s %s\n", slow, rank, now() - start,
           rcm_status_name(status), rcm_last_error());
    CHECK(status == RCM_ERR_TIMEOUT, "%s: rank %d: %s: %s", slow, rank, rcm_status_name(status),
          rcm_last_error());
    CHECK(strcmp(slow, "the file's lock") == 0 ||
              (strstr(rcm_last_error(), "is slow: ") && strstr(rcm_last_error(), "the longest")),
          "%s: rank %d: %s", slow, rank, rcm_last_error());
    if (comm)
        (void)!rcm_destroy(comm);
    rcm_store_close(store);
    rcm_store_close(inner);
    exit(errors > 0);
}

static void slow_ranks(const char *name, const char *place) {
    slow = name;
    fflush(NULL);
    for (int r = 0; r < SLOW_RANKS; r++)
        if (fork() == 0)
            slow_rank(r, place);
}

/* A store with 0.6 s per call, 0.9 s per set, and a deadline of 1.5 s for the job: no rank's
 * rcm_init succeeds, and each error names the store and the time of its calls. All cases run at the
 * same time. */
static void slow_store(void) {
    static const char *const names[] = {"set", "try_get", "compare_set", "all", "the file's lock"};
    enum { FILES = sizeof names / sizeof names[0] };
    char places[FILES + 1][120], locked[80];
    int status, proxy_port;
    const int port = free_port(), listen_fd = listener(&proxy_port);
    file_new();
    snprintf(locked, sizeof locked, "%s%d", path, FILES - 1);
    const int lock = open(locked, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(flock(lock, LOCK_EX) == 0, "no lock of %s", locked);
    for (int i = 0; i < FILES; i++) {
        snprintf(places[i], sizeof places[i], "%s%d", url, i);
        slow_ranks(names[i], places[i]);
    }
    const pid_t server = store_serve(port), proxy = slow_proxy(listen_fd, port);
    snprintf(places[FILES], sizeof places[FILES], "tcp://127.0.0.1:%d?server=0", proxy_port);
    slow_ranks("the server", places[FILES]);
    for (int i = 0; i < SLOW_RANKS * (FILES + 1); i++)
        CHECK(wait(&status) > 0 && status == 0, "a rank found errors");
    kill(server, SIGKILL);
    kill(proxy, SIGKILL);
    while (wait(NULL) > 0)
        continue;
    close(lock);
    close(listen_fd);
    for (int i = 0; i < FILES; i++)
        unlink(places[i] + strlen("file://"));
    file_remove();
}

/* ---- Worlds in addition to a launcher's ----------------------------------------------------- */

static int second_world_use(rcm_comm *comm, int size) {
    int32_t sum = 1;
    const rcm_status status = rcm_all_reduce(comm, &sum, &sum, 1, RCM_INT32, RCM_SUM, NULL, NULL);
    CHECK(status == RCM_OK && sum == size, "%d of %d: %s", sum, size, rcm_last_error());
    return errors;
}

/* A world of two of the four ranks of rcm_spawn, one of which has another round and job id. */
static void second_world_run(rcm_comm *world, int rank, bool by_id) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    struct rcm_unique_id ids[4] = {{{0}}};
    rcm_comm *pair = NULL;
    char place[120];
    if (getenv("RANK")) {
        setenv("TORCHELASTIC_RESTART_COUNT", rank % 2 ? "3" : "0", 1);
        setenv("TORCHELASTIC_RUN_ID", rank % 2 ? "odd" : "even", 1);
    }
    setenv("RINGCOMM_JOB_ID", rank % 2 ? "odd" : "even", 1);
    CHECK(rcm_unique_id_get(&ids[rank]) == RCM_OK, "%s", rcm_last_error());
    CHECK(rcm_all_gather(world, &ids[rank], ids, sizeof ids[0], RCM_UINT8, NULL, NULL) == RCM_OK,
          "%s", rcm_last_error());
    options.rank = rank % 2;
    options.world_size = 2;
    options.timeout_ms = INIT_MS;
    snprintf(place, sizeof place, "%s%d", url, rank / 2);
    options.unique_id = by_id ? &ids[rank / 2 * 2] : NULL;
    options.url = by_id ? NULL : place;
    CHECK(rcm_init(&options, &pair) == RCM_OK, "rank %d: %s", rank, rcm_last_error());
    if (pair && second_world_use(pair, 2) + second_world_use(world, 4) == 0)
        CHECK(rcm_destroy(pair) == RCM_OK, "%s", rcm_last_error());
}

static int second_world_rank(int rank, void *arg) {
    rcm_comm *world = NULL;
    (void)arg;
    CHECK(rcm_init(NULL, &world) == RCM_OK, "rank %d: %s", rank, rcm_last_error());
    if (errors == 0) {
        second_world_use(world, 4);
        second_world_run(world, rank, true);
        second_world_run(world, rank, false);
        CHECK(rcm_destroy(world) == RCM_OK, "%s", rcm_last_error());
    }
    return errors > 0;
}

/* rcm_spawn inside of launchers, and more worlds in its ranks. */
static void second_world(void) {
    static const char *const launchers[][14] = {
        {"RANK", "1", "WORLD_SIZE", "2", "LOCAL_RANK", "1", "LOCAL_WORLD_SIZE", "8", "MASTER_ADDR",
         "nowhere.invalid", "MASTER_PORT", "1", "TORCHELASTIC_RESTART_COUNT", "1"},
        {"OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_LOCAL_RANK",
         "3", "OMPI_COMM_WORLD_LOCAL_SIZE", "4", "PMIX_NAMESPACE", "a", "PMIX_RANK", "3", NULL},
        {"PMI_RANK", "1", "PMI_SIZE", "4", "PMI_FD", "1000", "MPI_LOCALRANKID", "1",
         "MPI_LOCALNRANKS", "4", NULL},
        {"SLURM_JOB_ID", "7", "SLURM_STEP_ID", "0", "SLURM_PROCID", "1", "SLURM_NTASKS", "2",
         "SLURM_LOCALID", "1", "SLURM_STEP_TASKS_PER_NODE", "8", NULL},
    };
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        int rank = -1, status = 0;
        file_new();
        for (size_t k = 0; k < 14 && launchers[i][k]; k += 2)
            setenv(launchers[i][k], launchers[i][k + 1], 1);
        CHECK(rcm_spawn(4, second_world_rank, NULL, INIT_MS, &rank, &status) == RCM_OK,
              "inside of %s: rank %d, status %d: %s", launchers[i][0], rank, status,
              rcm_last_error());
        for (size_t k = 0; k < 14 && launchers[i][k]; k += 2)
            unsetenv(launchers[i][k]);
        file_remove();
    }
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"counts", counts},
                 {"used-id", used_id},
                 {"slow-store", slow_store},
                 {"second-world", second_world}};
    bool found = false;
    setenv("RINGCOMM_LOG", "error", 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0] && !found; i++)
        if (argc == 2 && strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            found = true;
        }
    return !found || errors > 0;
}
