/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client of PMIx; its contract is in pmix_client.h.
 *
 * Sources of types, constants and key names: the PMIx standard, version 4, chapters 3 and 6; and
 * pmix_common.h of OpenPMIx 2 to 5, all with the soname libpmix.so.2. They are restated in
 * pmix_abi.h; test/launch/pmix_layout.c compares them with a real header if there is one.
 */
#include "pmix_client.h"
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "error.h"
#include "fork.h"
#include "log.h"
#include "pmix_abi.h"
#include "thread.h"

#define LIBRARY    "libpmix.so.2"
#define GOODBYE_MS 3000
#define WARN_MS    30000
#define RANKS_MAX  1000000

/* ---- The library --------------------------------------------------------------------------- */

static struct {
    int (*init)(struct rcmi_pmix_proc *, struct rcmi_pmix_info *, size_t);
    int (*finalize)(const struct rcmi_pmix_info *, size_t);
    int (*put)(uint8_t, const char *, struct rcmi_pmix_value *);
    int (*commit)(void);
    int (*fence)(const struct rcmi_pmix_proc *, size_t, const struct rcmi_pmix_info *, size_t);
    int (*get)(const struct rcmi_pmix_proc *, const char *, const struct rcmi_pmix_info *, size_t,
               struct rcmi_pmix_value **);
    const char *(*error_string)(int);
} pmix;

static struct {
    pthread_mutex_t lock; /* guards loading */
    bool tried;
    char why_not[300]; /* empty: it is loaded */
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void library_load(void) {
    static const struct {
        const char *name;
        void *slot;
    } names[] = {{"PMIx_Init", &pmix.init},
                 {"PMIx_Finalize", &pmix.finalize},
                 {"PMIx_Put", &pmix.put},
                 {"PMIx_Commit", &pmix.commit},
                 {"PMIx_Fence", &pmix.fence},
                 {"PMIx_Get", &pmix.get},
                 {"PMIx_Error_string", &pmix.error_string}};
    /* NODELETE: libpmix has its own threads and exit handlers, which unloading would break. */
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        const char *text = dlerror();
        snprintf(library.why_not, sizeof library.why_not, "%s", text ? text : "no such library");
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *symbol = dlsym(handle, names[i].name);
        if (!symbol) {
            snprintf(library.why_not, sizeof library.why_not, LIBRARY " has no %s", names[i].name);
            return;
        }
        memcpy(names[i].slot, &symbol, sizeof symbol);
    }
}

rcm_status rcmi_pmix_load(void) {
    pthread_mutex_lock(&library.lock);
    if (!library.tried)
        library_load();
    library.tried = true;
    pthread_mutex_unlock(&library.lock);
    return library.why_not[0] ? rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                                          "PMIx cannot be used: %s (Debian's package is libpmix2)",
                                          library.why_not)
                              : RCM_OK;
}

/* ---- Requests, run on the PMIx thread ------------------------------------------------------ */

/* A request and its result, shared by caller and thread; the last of them frees it. */
struct request {
    rcm_status (*run)(struct request *request, const struct rcmi_pmix_proc *me);
    char key[RCMI_PMIX_KEY], text[RCMI_PMIX_TEXT];
    bool mine; /* text is an input to publish, not an output */
    struct rcmi_pmix_job job;

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t ended; /* on CLOCK_MONOTONIC */
    bool done, abandoned;
    rcm_status status;
    struct rcmi_error error;
};

static rcm_status check(int code, const char *what) {
    if (code == RCMI_PMIX_SUCCESS)
        return RCM_OK;
    const char *text = pmix.error_string(code);
    rcm_status status = code == RCMI_PMIX_ERR_TIMEOUT     ? RCM_ERR_TIMEOUT
                        : code == RCMI_PMIX_ERR_NOT_FOUND ? RCM_ERR_NOT_FOUND
                        : code == RCMI_PMIX_ERR_UNREACH   ? RCM_ERR_PEER
                                                          : RCM_ERR_SYSTEM;
    return rcmi_fail(status, 0, "%s failed: %s (%d)", what, text ? text : "?", code);
}

/* A number of the job (rank: RCMI_PMIX_RANK_WILDCARD) or of one rank. */
static rcm_status number_get(const struct rcmi_pmix_proc *me, uint32_t rank, const char *key,
                             int *ret_number) {
    struct rcmi_pmix_proc proc = *me;
    struct rcmi_pmix_value *value = NULL;
    proc.rank = rank;
    rcm_status status = check(pmix.get(&proc, key, NULL, 0, &value), key);
    if (status != RCM_OK)
        return status;
    uint64_t number = UINT64_MAX;
    if (value && value->type == RCMI_PMIX_UINT32)
        number = value->data.uint32;
    else if (value && value->type == RCMI_PMIX_UINT16)
        number = value->data.uint16;
    free(value);
    if (number > RANKS_MAX)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "PMIx's %s is not a number from 0 to %d", key,
                         RANKS_MAX);
    *ret_number = (int)number;
    return RCM_OK;
}

static rcm_status job_run(struct request *request, const struct rcmi_pmix_proc *me) {
    struct rcmi_pmix_job job = {.local_rank = -1};
    if (me->rank >= RANKS_MAX)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "PMIx returned an invalid rank: %u", me->rank);
    job.rank = (int)me->rank;
    rcm_status status = number_get(me, RCMI_PMIX_RANK_WILDCARD, RCMI_PMIX_JOB_SIZE, &job.size);
    if (status != RCM_OK)
        return status;
    /* Optional: some servers do not have these values. */
    (void)!number_get(me, me->rank, RCMI_PMIX_LOCAL_RANK, &job.local_rank);
    (void)!number_get(me, RCMI_PMIX_RANK_WILDCARD, RCMI_PMIX_LOCAL_SIZE, &job.local_size);
    request->job = job;
    return RCM_OK;
}

static rcm_status text_get(struct request *request, const struct rcmi_pmix_proc *me) {
    struct rcmi_pmix_proc proc = *me;
    struct rcmi_pmix_value *value = NULL;
    proc.rank = 0;
    rcm_status status = check(pmix.get(&proc, request->key, NULL, 0, &value), "PMIx_Get");
    if (status != RCM_OK)
        return status;
    const char *text = value && value->type == RCMI_PMIX_STRING ? value->data.string : NULL;
    size_t len = text ? strlen(text) : 0;
    if (text && len < sizeof request->text)
        memcpy(request->text, text, len + 1);
    else
        status = rcmi_fail(RCM_ERR_PROTOCOL, 0, "PMIx's %s is not the string that rank 0 put",
                           request->key);
    if (text)
        free(value->data.string);
    free(value);
    return status;
}

static rcm_status pin_run(struct request *request, const struct rcmi_pmix_proc *me) {
    struct rcmi_pmix_info collect = {.key = RCMI_PMIX_COLLECT_DATA,
                                     .value = {.type = RCMI_PMIX_BOOL, .data.flag = true}};
    rcm_status status = RCM_OK;
    if (request->mine) {
        struct rcmi_pmix_value value = {.type = RCMI_PMIX_STRING, .data.string = request->text};
        status = check(pmix.put(RCMI_PMIX_GLOBAL, request->key, &value), "PMIx_Put");
        if (status == RCM_OK)
            status = check(pmix.commit(), "PMIx_Commit");
    }
    if (status == RCM_OK)
        status = check(pmix.fence(NULL, 0, &collect, 1), "PMIx_Fence");
    return status == RCM_OK && !request->mine ? text_get(request, me) : status;
}

/* ---- The thread ---------------------------------------------------------------------------- */

/* One request at a time: the thread that holds the turn uses the connection. */
static struct {
    pthread_mutex_t lock; /* guards busy */
    bool busy;
    uint32_t generation; /* of the connected process, 0: none. A forked child has only a copy */
    struct rcmi_pmix_proc me;
} turn = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool turn_take(bool take) {
    pthread_mutex_lock(&turn.lock);
    bool taken = !take || !turn.busy;
    if (taken)
        turn.busy = take;
    pthread_mutex_unlock(&turn.lock);
    return taken;
}

static void request_free(struct request *request) {
    pthread_cond_destroy(&request->ended);
    pthread_mutex_destroy(&request->lock);
    free(request);
}

/* Connects once for all requests. A rank that disconnects is gone for the server, and the next
 * fence would not wait for it. */
static rcm_status connect_once(void) {
    if (rcmi_fork_is_maker(turn.generation))
        return RCM_OK;
    rcm_status status = check(pmix.init(&turn.me, NULL, 0), "PMIx_Init");
    if (status == RCM_OK)
        turn.generation = rcmi_fork_watch();
    return status;
}

static void *request_main(void *arg) {
    struct request *request = arg;
    rcm_status status = connect_once();
    if (status == RCM_OK)
        status = request->run(request, &turn.me);
    turn_take(false);
    pthread_mutex_lock(&request->lock);
    request->status = status;
    if (status != RCM_OK)
        request->error = *rcmi_last_error();
    request->done = true;
    const bool abandoned = request->abandoned;
    pthread_cond_signal(&request->ended);
    pthread_mutex_unlock(&request->lock);
    if (abandoned)
        request_free(request);
    return NULL;
}

/* libpmix starts its threads from this one; they inherit its blocked signals. */
static rcm_status request_start(struct request *request) {
    static const struct rcmi_thread_kind kind = {
        .name = "a thread for PMIx", .stack_kib = RCMI_STACK_DRIVER_KIB, .detached = true};
    pthread_t thread;
    return rcmi_thread_start(&kind, request_main, request, &thread);
}

/* Pins this library in memory: an abandoned thread will return into its code. */
static void stay_loaded(void) {
    Dl_info here;
    if (dladdr(&turn, &here) && here.dli_fname)
        (void)!dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* Waits until the request is done or the deadline passes. After the deadline the thread owns the
 * request. */
static bool request_await(struct request *request, rcmi_deadline deadline) {
    rcmi_deadline warn = rcmi_deadline_in(WARN_MS);
    pthread_mutex_lock(&request->lock);
    while (!request->done && !rcmi_deadline_passed(deadline)) {
        rcmi_deadline until = warn < deadline ? warn : deadline;
        (void)rcmi_condition_wait(&request->ended, &request->lock, until);
        if (!request->done && warn <= until && rcmi_deadline_passed(warn)) {
            rcmi_log(RCMI_LOG_WARN,
                     "still waiting for PMIx after %d s: not all ranks of the job "
                     "have called rcm_init",
                     WARN_MS / 1000);
            warn = RCMI_NEVER - 1;
        }
    }
    const bool done = request->done;
    request->abandoned = !done;
    pthread_mutex_unlock(&request->lock);
    return done;
}

/* NULL: no memory. */
static struct request *request_new(void) {
    struct request *request = calloc(1, sizeof *request);
    if (!request) {
        (void)rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a PMIx request");
        return NULL;
    }
    pthread_mutex_init(&request->lock, NULL);
    rcmi_condition_init(&request->ended);
    return request;
}

/* Runs the request; on success the caller frees it. */
static rcm_status request_do(struct request *request, rcmi_deadline deadline) {
    const int64_t start = rcmi_now_ns();
    rcm_status status = rcmi_pmix_load();
    if (status == RCM_OK && !turn_take(true))
        status =
            rcmi_fail(RCM_ERR_RESOURCE, 0,
                      "PMIx is still busy with an earlier rcm_init of this process; wait for it "
                      "to end");
    if (status != RCM_OK) {
        request_free(request);
        return status;
    }
    status = request_start(request);
    if (status != RCM_OK) {
        turn_take(false);
        request_free(request);
        return status;
    }
    if (!request_await(request, deadline)) {
        stay_loaded();
        return rcmi_fail(RCM_ERR_TIMEOUT, 0,
                         "PMIx did not reply within %.1f s: not all ranks of the job have called "
                         "rcm_init, or its server is gone",
                         (double)(rcmi_now_ns() - start) / 1e9);
    }
    status = request->status;
    if (status != RCM_OK) {
        *rcmi_last_error() = request->error;
        request_free(request);
    }
    return status;
}

/* ---- Requests ------------------------------------------------------------------------------ */

rcm_status rcmi_pmix_job_get(rcmi_deadline deadline, struct rcmi_pmix_job *ret_job) {
    struct request *request = request_new();
    if (!request)
        return RCM_ERR_NOMEM;
    request->run = job_run;
    rcm_status status = request_do(request, deadline);
    if (status != RCM_OK)
        return status;
    *ret_job = request->job;
    request_free(request);
    return RCM_OK;
}

rcm_status rcmi_pmix_pin(const char *key, const char *mine, rcmi_deadline deadline, char *text) {
    if (strlen(key) >= RCMI_PMIX_KEY || (mine && strlen(mine) >= RCMI_PMIX_TEXT))
        return rcmi_fail(RCM_ERR_INVALID, 0, "key %.80s or its value is too long for PMIx", key);
    struct request *request = request_new();
    if (!request)
        return RCM_ERR_NOMEM;
    request->run = pin_run;
    request->mine = mine != NULL;
    snprintf(request->key, sizeof request->key, "%s", key);
    snprintf(request->text, sizeof request->text, "%s", mine ? mine : "");
    rcm_status status = request_do(request, deadline);
    if (status != RCM_OK)
        return status;
    if (!mine)
        memcpy(text, request->text, RCMI_PMIX_TEXT);
    request_free(request);
    return RCM_OK;
}

/* ---- Finalize ------------------------------------------------------------------------------ */

static rcm_status goodbye_run(struct request *request, const struct rcmi_pmix_proc *me) {
    (void)request;
    (void)me;
    turn.generation = 0;
    return check(pmix.finalize(NULL, 0), "PMIx_Finalize");
}

/* Without finalize the launcher treats the end of this process as a failure. */
__attribute__((destructor)) static void goodbye(void) {
    struct request *request;
    if (pthread_mutex_trylock(&turn.lock) != 0)
        return;
    const bool ours = !turn.busy && rcmi_fork_is_maker(turn.generation);
    pthread_mutex_unlock(&turn.lock);
    if (!ours || !(request = request_new()))
        return;
    request->run = goodbye_run;
    if (request_do(request, rcmi_deadline_in(GOODBYE_MS)) == RCM_OK)
        request_free(request);
}
