/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ways to initialize: a unique id, a store with the program's own functions, rcm_init in the
 * background and its cancel. All cases run one after the other, each in new processes:
 *
 *     init
 */
#include "../ranks.h"
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 3 };

static bool error_has(const char *words) {
    return strstr(rcm_last_error(), words) != NULL;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct rcm_init_options options_of(int rank) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    options.rank = rank;
    options.world_size = RANKS;
    options.timeout_ms = 30000;
    return options;
}

/* Uses the communicator: a sum over all ranks. */
static int use(rcm_comm *comm) {
    int32_t sum = 1;
    int errors = 0;
    CHECK(errors, rcm_all_reduce(comm, &sum, &sum, 1, RCM_INT32, RCM_SUM, NULL, NULL) == RCM_OK,
          "%s", rcm_last_error());
    CHECK(errors, sum == RANKS, "the sum is %d", sum);
    CHECK(errors, rcm_destroy(comm) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

/* Forks RANKS processes that run fn, and returns the sum of their errors. The processes start
 * together, so that the servers of this process are idle during the forks: sanitizers do not
 * tolerate otherwise. */
static int run(const char *name, int (*fn)(int rank, void *arg), void *arg) {
    pid_t pids[RANKS];
    int errors = 0, status = 0, start[2];
    char none;
    if (pipe(start) != 0)
        return 1;
    for (int r = 0; r < RANKS; r++) {
        fflush(NULL);
        pids[r] = fork();
        if (pids[r] == 0) {
            alarm(60);
            close(start[1]);
            _exit(read(start[0], &none, 1) == 0 ? fn(r, arg) : 1);
        }
    }
    close(start[0]);
    close(start[1]);
    for (int r = 0; r < RANKS; r++)
        CHECK(errors, waitpid(pids[r], &status, 0) == pids[r] && status == 0,
              "%s: rank %d ended with 0x%x", name, r, status);
    return errors;
}

/* ---- Unique id ------------------------------------------------------------------------------- */

/* Shared by the processes. */
static struct shared {
    struct rcm_unique_id id;
    int pipes[RANKS][2];
} * shared;

static int init_and_use(int rank, const struct rcm_unique_id *id, const char *secret) {
    struct rcm_init_options options = options_of(rank);
    rcm_comm *comm = NULL;
    int errors = 0;
    options.unique_id = id;
    options.secret = secret;
    CHECK(errors, rcm_init(&options, &comm) == RCM_OK, "rank %d: %s", rank, rcm_last_error());
    return errors ? errors : use(comm);
}

/* The parent created the id and serves the store. Each rank is on a simulated host of its own. */
static int id_of_parent(int rank, void *arg) {
    char host[16];
    snprintf(host, sizeof host, "host-%d", rank);
    setenv("RINGCOMM_HOST_ID", host, 1);
    return init_and_use(rank, arg, NULL);
}

/* Rank 1 creates the id, and the others get it through pipes. */
static int id_of_rank(int rank, void *arg) {
    struct rcm_unique_id id;
    int errors = 0;
    if (rank == 1) {
        CHECK(errors, rcm_unique_id_get(&id) == RCM_OK, "%s", rcm_last_error());
        for (int r = 0; r < RANKS; r++)
            if (r != rank)
                CHECK(errors, write(shared->pipes[r][1], &id, sizeof id) == sizeof id, "no pipe");
    } else {
        CHECK(errors, read(shared->pipes[rank][0], &id, sizeof id) == sizeof id, "no pipe");
    }
    return errors ? errors : init_and_use(rank, &id, arg);
}

static int id_with_secret(int rank, void *arg) {
    setenv("RINGCOMM_SECRET", "open sesame", 1);
    return id_of_rank(rank, arg);
}

/* Rank 2 has the wrong secret. Ranks 0 and 1 get no sign of it. */
static int id_wrong_secret(int rank, void *arg) {
    struct rcm_init_options options = options_of(rank);
    rcm_comm *comm = NULL;
    int errors = 0;
    options.unique_id = arg;
    options.secret = rank == 2 ? "open barley" : "open sesame";
    options.timeout_ms = 2000;
    const rcm_status status = rcm_init(&options, &comm);
    CHECK(errors, status == (rank == 2 ? RCM_ERR_AUTH : RCM_ERR_TIMEOUT), "rank %d: %s: %s", rank,
          rcm_status_name(status), rcm_last_error());
    return errors;
}

static void *thread_rank(void *arg) {
    const int rank = *(const int *)arg;
    return (void *)(intptr_t)init_and_use(rank, &shared->id, NULL);
}

/* Ranks are threads of the process that created the id. */
static int check_id_threads(void) {
    pthread_t threads[RANKS];
    int ranks[RANKS], errors = 0;
    void *result;
    CHECK(errors, rcm_unique_id_get(&shared->id) == RCM_OK, "%s", rcm_last_error());
    for (int r = 0; r < RANKS; r++) {
        ranks[r] = r;
        pthread_create(&threads[r], NULL, thread_rank, &ranks[r]);
    }
    for (int r = 0; r < RANKS; r++) {
        pthread_join(threads[r], &result);
        errors += (int)(intptr_t)result;
    }
    return errors;
}

static int check_id_mistakes(void) {
    struct rcm_init_options options = options_of(0);
    struct rcm_unique_id zero = {.bytes = {0}};
    rcm_comm *comm;
    int errors = 0;
    CHECK(errors, rcm_unique_id_get(NULL) == RCM_ERR_INVALID && error_has("ret_id is NULL"), "%s",
          rcm_last_error());
    options.unique_id = &zero;
    CHECK(errors,
          rcm_init(&options, &comm) == RCM_ERR_INVALID && error_has("unique_id is not an id"), "%s",
          rcm_last_error());
    options.url = "hash:x";
    CHECK(errors, rcm_init(&options, &comm) == RCM_ERR_CONFIG && error_has("options.unique_id and"),
          "%s", rcm_last_error());
    setenv("RINGCOMM_IFACE", "no-such-interface", 1);
    CHECK(errors, rcm_unique_id_get(&zero) == RCM_ERR_CONFIG && error_has("no-such-interface"),
          "%s", rcm_last_error());
    unsetenv("RINGCOMM_IFACE");
    return errors;
}

/* The store listens at the first free port of RINGCOMM_PORTS. */
static int check_id_ports(void) {
    rcm_store *first;
    struct rcm_unique_id id;
    char range[24];
    int errors = 0;
    CHECK(errors, rcm_store_open("tcp://:0?server=1", 1000, &first) == RCM_OK, "%s",
          rcm_last_error());
    const int port = errors ? 1 : atoi(strrchr(rcm_store_url(first), ':') + 1);
    snprintf(range, sizeof range, "%d-%d", port, port + 20);
    setenv("RINGCOMM_PORTS", range, 1);
    CHECK(errors, rcm_unique_id_get(&id) == RCM_OK, "%s", rcm_last_error());
    const int got = (unsigned char)id.bytes[16] << 8 | (unsigned char)id.bytes[17];
    CHECK(errors, got > port && got <= port + 20, "port %d of %s", got, range);
    snprintf(range, sizeof range, "%d", port);
    setenv("RINGCOMM_PORTS", range, 1);
    CHECK(errors, rcm_unique_id_get(&id) == RCM_ERR_RESOURCE && error_has(range), "%s",
          rcm_last_error());
    unsetenv("RINGCOMM_PORTS");
    rcm_store_close(first);
    return errors;
}

/* After rcm_unique_id_free the port is free, and a late rank finds no store. */
static int check_id_free(void) {
    struct rcm_unique_id id, none = {.bytes = {1}};
    struct rcm_init_options options = options_of(0);
    char range[24];
    rcm_comm *comm;
    int errors = 0;
    CHECK(errors, rcm_unique_id_free(NULL) == RCM_ERR_INVALID && error_has("id is NULL"), "%s",
          rcm_last_error());
    CHECK(errors, rcm_unique_id_free(&none) == RCM_ERR_INVALID && error_has("id is not an id of"),
          "%s", rcm_last_error());
    CHECK(errors, rcm_unique_id_get(&id) == RCM_OK, "%s", rcm_last_error());
    snprintf(range, sizeof range, "%d",
             (unsigned char)id.bytes[16] << 8 | (unsigned char)id.bytes[17]);
    CHECK(errors, rcm_unique_id_free(&id) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, rcm_unique_id_free(&id) == RCM_ERR_NOT_FOUND && error_has("or it was freed"),
          "%s", rcm_last_error());
    options.unique_id = &id;
    options.timeout_ms = 1000;
    CHECK(errors, rcm_init(&options, &comm) < RCM_OK, "a freed id works");
    setenv("RINGCOMM_PORTS", range, 1);
    CHECK(errors, rcm_unique_id_get(&id) == RCM_OK, "port %s: %s", range, rcm_last_error());
    unsetenv("RINGCOMM_PORTS");
    CHECK(errors, rcm_unique_id_free(&id) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

static int free_of_parent(int rank, void *arg) {
    int errors = 0;
    (void)rank;
    CHECK(errors, rcm_unique_id_free(arg) == RCM_ERR_NOT_FOUND, "%s", rcm_last_error());
    return errors;
}

static int check_ids(void) {
    struct rcm_unique_id id;
    int errors = check_id_mistakes() + check_id_free() + check_id_ports() +
                 run("an id of rank 1", id_of_rank, NULL) +
                 run("an id with a secret", id_with_secret, NULL);
    CHECK(errors, rcm_unique_id_get(&id) == RCM_OK, "%s", rcm_last_error());
    errors += run("an id of the parent", id_of_parent, &id);
    errors += run("freed by children", free_of_parent, &id);
    CHECK(errors, rcm_unique_id_free(&id) == RCM_OK, "%s", rcm_last_error());
    setenv("RINGCOMM_SECRET", "open sesame", 1);
    CHECK(errors, rcm_unique_id_get(&id) == RCM_OK, "%s", rcm_last_error());
    unsetenv("RINGCOMM_SECRET");
    errors += run("a wrong secret", id_wrong_secret, &id);
    return errors + check_id_threads();
}

/* ---- Store of the program -------------------------------------------------------------------- */

/* The minimal set of store functions, on a file. */
static rcm_status own_set(void *arg, const char *key, const void *value, size_t len) {
    return rcm_store_set(arg, key, value, len);
}
static rcm_status own_try_get(void *arg, const char *key, void **value, size_t *len) {
    return rcm_store_try_get(arg, key, value, len);
}
static rcm_status own_compare_set(void *arg, const char *key, const void *expected,
                                  size_t expected_len, const void *desired, size_t desired_len,
                                  int *swapped, void **value, size_t *len) {
    return rcm_store_compare_set(arg, key, expected, expected_len, desired, desired_len, swapped,
                                 value, len);
}

static int own_store(int rank, void *arg) {
    struct rcm_store_functions own = RCM_STORE_FUNCTIONS_INIT;
    struct rcm_init_options options = options_of(rank);
    rcm_store *inner, *store = NULL;
    rcm_comm *comm = NULL;
    size_t count;
    int errors = 0, deleted;
    CHECK(errors, rcm_store_open(arg, 1000, &inner) == RCM_OK, "%s", rcm_last_error());
    own.arg = inner;
    own.set = own_set;
    own.try_get = own_try_get;
    own.compare_set = own_compare_set;
    CHECK(errors, rcm_store_custom(&own, &store) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors,
          rcm_store_count(store, &count) == RCM_ERR_UNSUPPORTED && error_has("has no count") &&
              rcm_store_delete(store, "k", &deleted) == RCM_ERR_UNSUPPORTED &&
              error_has("has no remove"),
          "%s", rcm_last_error());
    options.store = store;
    CHECK(errors, rcm_init(&options, &comm) == RCM_OK, "rank %d: %s", rank, rcm_last_error());
    if (comm)
        errors += use(comm);
    rcm_store_close(store);
    rcm_store_close(inner);
    return errors;
}

static rcm_status own_wrong(void *arg, const char *key, const void *value, size_t len) {
    (void)arg;
    (void)key;
    (void)value;
    (void)len;
    return (rcm_status)77;
}

/* Fails with an error text of the program. */
static rcm_status own_refuse(void *arg, const char *key, const void *value, size_t len) {
    (void)key;
    (void)value;
    (void)len;
    *(const char **)arg = "the key-value server is read-only";
    return RCM_ERR_SYSTEM;
}
static rcm_status own_nothing(void *arg, const char *key, void **value, size_t *len) {
    (void)key;
    (void)value;
    (void)len;
    *(const char **)arg = NULL;
    return RCM_ERR_PEER;
}
static const char *own_reason(void *arg) {
    return *(const char **)arg;
}

static int check_own_reason(void) {
    struct rcm_store_functions own = RCM_STORE_FUNCTIONS_INIT;
    const char *reason = "none yet";
    rcm_store *store;
    void *value;
    size_t len;
    int errors = 0;
    own.arg = &reason;
    own.set = own_refuse;
    own.try_get = own_nothing;
    own.compare_set = own_compare_set;
    own.reason = own_reason;
    CHECK(errors, rcm_store_custom(&own, &store) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors,
          rcm_store_set(store, "k", "v", 1) == RCM_ERR_SYSTEM &&
              error_has(
                  "set of the program's store failed for \"k\": the key-value server is read-only"),
          "%s", rcm_last_error());
    CHECK(errors,
          rcm_store_try_get(store, "k", &value, &len) == RCM_ERR_PEER && !error_has("read-only"),
          "%s", rcm_last_error());
    rcm_store_close(store);
    own.size = offsetof(struct rcm_store_functions, reason); /* built with an older header */
    own.reason = (const char *(*)(void *))1;
    CHECK(errors, rcm_store_custom(&own, &store) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, rcm_store_set(store, "k", "v", 1) == RCM_ERR_SYSTEM && !error_has("read-only"),
          "%s", rcm_last_error());
    rcm_store_close(store);
    return errors;
}

static int check_own_mistakes(void) {
    struct rcm_store_functions own = RCM_STORE_FUNCTIONS_INIT;
    rcm_store *store;
    int errors = 0;
    CHECK(errors,
          rcm_store_custom(NULL, &store) == RCM_ERR_INVALID && error_has("functions is NULL"), "%s",
          rcm_last_error());
    CHECK(errors,
          rcm_store_custom(&own, &store) == RCM_ERR_INVALID && error_has("functions->set is"), "%s",
          rcm_last_error());
    own.set = own_wrong;
    CHECK(errors,
          rcm_store_custom(&own, &store) == RCM_ERR_INVALID && error_has("functions->try_get is"),
          "%s", rcm_last_error());
    own.try_get = own_try_get;
    CHECK(errors,
          rcm_store_custom(&own, &store) == RCM_ERR_INVALID &&
              error_has("functions->compare_set is"),
          "%s", rcm_last_error());
    own.compare_set = own_compare_set;
    CHECK(errors, rcm_store_custom(&own, NULL) == RCM_ERR_INVALID && error_has("ret_store"), "%s",
          rcm_last_error());
    CHECK(errors, rcm_store_custom(&own, &store) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, rcm_store_set(store, "k", "v", 1) == RCM_ERR_PROTOCOL && error_has("returned 77"),
          "%s", rcm_last_error());
    rcm_store_close(store);
    return errors;
}

static int check_own_store(void) {
    char folder[] = "/tmp/ringcomm-begin-XXXXXX", url[64];
    if (!mkdtemp(folder))
        return 1;
    snprintf(url, sizeof url, "file://%s/file?world_size=%d", folder, RANKS);
    const int errors =
        check_own_mistakes() + check_own_reason() + run("a store of the program", own_store, url);
    snprintf(url, sizeof url, "%s/file", folder);
    (void)unlink(url);
    (void)rmdir(folder);
    return errors;
}

/* ---- In the background ----------------------------------------------------------------------- */

/* The library has copied the options by then. */
static int begins(int rank, void *arg) {
    rcm_init_request *request = NULL;
    rcm_comm *comm = NULL;
    char url[64];
    int errors = 0;
    {
        struct rcm_init_options options = options_of(rank);
        snprintf(url, sizeof url, "%s", (const char *)arg);
        options.url = url;
        CHECK(errors, rcm_init_begin(&options, &request) == RCM_OK, "%s", rcm_last_error());
        memset(url, 'x', sizeof url - 1);
        memset(&options, 0x55, sizeof options);
    }
    if (rank == 0) { /* the others come later */
        CHECK(errors, rcm_init_test(request, &comm) == RCM_PENDING, "%s", rcm_last_error());
        CHECK(errors, rcm_init_wait(request, 10, &comm) == RCM_PENDING, "%s", rcm_last_error());
    }
    CHECK(errors, rcm_init_wait(request, -1, &comm) == RCM_OK, "rank %d: %s", rank,
          rcm_last_error());
    if (comm)
        errors += use(comm);
    CHECK(errors, rcm_init_test(request, &comm) == RCM_ERR_INVALID && error_has("was taken"), "%s",
          rcm_last_error());
    rcm_init_cancel(request);
    return errors;
}

static int begins_later(int rank, void *arg) {
    if (rank > 0)
        usleep(100000);
    return begins(rank, arg);
}

static void *wait_run(void *request) {
    rcm_comm *comm = NULL;
    return rcm_init_wait(request, -1, &comm) == RCM_ERR_CANCELED ? request : NULL;
}

/* Rank 1 cancels, also while a thread waits. Rank 2 never comes. The background thread ends, and
 * rank 0 gets the error. */
static int cancels(int rank, void *arg) {
    struct rcm_init_options options = options_of(rank);
    rcm_init_request *request = NULL;
    rcm_comm *comm = NULL;
    int errors = 0;
    options.url = arg;
    const double start = seconds();
    if (rank == 0) {
        CHECK(errors, rcm_init(&options, &comm) == RCM_ERR_CANCELED && error_has("canceled"), "%s",
              rcm_last_error());
        CHECK(errors, seconds() - start < 10, "it took %g s", seconds() - start);
    } else if (rank == 1) {
        pthread_t waiter;
        void *canceled = NULL;
        CHECK(errors, rcm_init_begin(&options, &request) == RCM_OK, "%s", rcm_last_error());
        if (pthread_create(&waiter, NULL, wait_run, request) != 0)
            return 1;
        usleep(700000);
        rcm_init_cancel(request);
        usleep(1700000);
        pthread_join(waiter, &canceled);
        CHECK(errors, canceled, "wait for a canceled request: wrong error");
    }
    return errors;
}

static int check_begin_mistakes(void) {
    struct rcm_init_options options = options_of(0);
    rcm_init_request *request = NULL;
    rcm_comm *comm = NULL;
    int errors = 0;
    CHECK(errors, rcm_init_begin(&options, NULL) == RCM_ERR_INVALID && error_has("ret_request"),
          "%s", rcm_last_error());
    CHECK(errors, rcm_init_test(NULL, &comm) == RCM_ERR_INVALID && error_has("request is NULL"),
          "%s", rcm_last_error());
    options.reserved = 3;
    CHECK(errors, rcm_init_begin(&options, &request) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors,
          rcm_init_wait(request, -1, &comm) == RCM_ERR_INVALID &&
              error_has("options->reserved is 3"),
          "%s", rcm_last_error());
    rcm_init_cancel(request);
    rcm_init_cancel(NULL);
    return errors;
}

/* A communicator that no call took is destroyed with its request. */
static int check_untaken(void) {
    struct rcm_init_options options = options_of(0);
    rcm_init_request *request = NULL;
    int errors = 0;
    options.world_size = 1;
    options.url = "hash:";
    for (int ms = 0; ms < 40; ms += 20) {
        CHECK(errors, rcm_init_begin(&options, &request) == RCM_OK, "%s", rcm_last_error());
        usleep((useconds_t)ms * 1000);
        rcm_init_cancel(request);
    }
    return errors;
}

/* Counts the calls of a store, and those that come after the store was returned to the caller. */
static struct {
    rcm_store *inner;
    atomic_int calls, late;
    atomic_bool released;
} watched;

static rcm_status watched_set(void *arg, const char *key, const void *value, size_t len) {
    watched.calls++;
    watched.late += watched.released;
    return own_set(arg, key, value, len);
}
static rcm_status watched_try_get(void *arg, const char *key, void **value, size_t *len) {
    watched.calls++;
    watched.late += watched.released;
    return own_try_get(arg, key, value, len);
}

/* After the cancel the store belongs to the caller again, although the other rank has not come. */
static int check_cancel_store(void) {
    struct rcm_init_options options = options_of(0);
    struct rcm_store_functions own = RCM_STORE_FUNCTIONS_INIT;
    rcm_init_request *request = NULL;
    int errors = 0;
    CHECK(errors, rcm_store_open("hash:", 1000, &watched.inner) == RCM_OK, "%s", rcm_last_error());
    own.arg = watched.inner;
    own.set = watched_set;
    own.try_get = watched_try_get;
    own.compare_set = own_compare_set;
    CHECK(errors, rcm_store_custom(&own, &options.store) == RCM_OK, "%s", rcm_last_error());
    const double start = seconds();
    CHECK(errors, rcm_init_begin(&options, &request) == RCM_OK, "%s", rcm_last_error());
    usleep(20000);
    rcm_init_cancel(request);
    watched.released = true;
    CHECK(errors, seconds() - start < 5, "it took %g s", seconds() - start);
    usleep(150000);
    CHECK(errors, watched.calls > 0 && watched.late == 0,
          "%d calls of the store, %d after it was returned", (int)watched.calls, (int)watched.late);
    if (watched.late > 0) /* still in use */
        return errors;
    rcm_store_close(options.store);
    rcm_store_close(watched.inner);
    return errors;
}

static int free_port(void) {
    rcm_store *store;
    if (rcm_store_open("tcp://127.0.0.1:0?server=1", 1000, &store) != RCM_OK)
        return 0;
    const int port = atoi(strrchr(rcm_store_url(store), ':') + 1);
    rcm_store_close(store);
    return port;
}

static int check_background(void) {
    char url[64];
    int errors = check_begin_mistakes() + check_untaken() + check_cancel_store();
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", free_port());
    errors += run("in the background", begins_later, url);
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", free_port());
    return errors + run("canceled", cancels, url);
}

/* ---- Last rank ------------------------------------------------------------------------------- */

/* What ranks 1 and 2 get after rank 0, which served the store, is gone. */
static int ends_later(int rank, rcm_comm *pair) {
    int32_t sum = 1;
    int errors = 0;
    char byte;
    CHECK(errors, read(shared->pipes[rank][0], &byte, 1) == 1, "no pipe");
    CHECK(errors, rcm_all_reduce(pair, &sum, &sum, 1, RCM_INT32, RCM_SUM, NULL, NULL) == RCM_OK,
          "%s", rcm_last_error());
    CHECK(errors, sum == 2, "the sum is %d", sum);
    const double begun = seconds();
    CHECK(errors, rcm_destroy(pair) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, seconds() - begun < 3, "it takes %.1f s", seconds() - begun);
    return errors;
}

/* Rank 0 does not wait for ranks 1 and 2, which go on with a group. */
static int ends_first(int rank, void *url) {
    const int others[] = {1, 2};
    struct rcm_init_options options = options_of(rank);
    rcm_comm *comm = NULL, *pair = NULL;
    int errors = 0;
    options.url = url;
    CHECK(errors, rcm_init(&options, &comm) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, rcm_comm_subset(comm, others, 2, 0, NULL, &pair) == RCM_OK, "%s",
          rcm_last_error());
    if (rank == 0)
        CHECK(errors, rcm_destroy(pair) == RCM_OK, "%s", rcm_last_error());
    const double begun = seconds();
    CHECK(errors, rcm_destroy(comm) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, seconds() - begun < 3, "it takes %.1f s", seconds() - begun);
    for (int r = 1; rank == 0 && r < RANKS; r++)
        CHECK(errors, write(shared->pipes[r][1], "", 1) == 1, "no pipe");
    return errors + (rank > 0 ? ends_later(rank, pair) : 0);
}

static int check_end(void) {
    char url[40];
    snprintf(url, sizeof url, "tcp://127.0.0.1:%d", free_port());
    return run("rank 0 ends first", ends_first, url);
}

int main(void) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    for (int r = 0; r < RANKS; r++)
        if (pipe(shared->pipes[r]) != 0)
            return 2;
    /* Forks before this process has threads other than its servers. */
    return check_own_store() + check_background() + check_ids() + check_end() != 0;
}
