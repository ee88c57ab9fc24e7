/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rcm_init: makes a communicator of all ranks.
 *
 *   1. find this rank, and the location of the store   rendezvous/ (options, environment)
 *   2. open the store; join in it as this rank; rank 0 names the job
 *   3. make the node: listening sockets, shared memory, the engine's thread
 *   4. publish and collect: addresses, and the settings that must be equal
 *   5. agree on the ranks that share memory; check that each pair has a transport
 *   6. answer peers; links are made on first use
 */
#include "error.h"
#include "auth.h"
#include "engine.h"
#include "entry.h"
#include "exchange.h"
#include "exit.h"
#include "group.h"
#include "log.h"
#include "numbers.h"
#include "unknown_settings.h"
#include "settings.h"
#include "struct_versions.h"
#include "trace_file.h"
#include "work.h"
#include "fd.h"
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* State of one rcm_init. */
struct init {
    const struct rcm_init_options *options;
    const struct rcmi_comm_calls *calls;
    struct rcmi_launch launch;
    rcm_store *store;
    bool owns_store;   /* false: the caller's, or already the engine's */
    bool serves_store; /* this rank serves it */
    char *secret;
    char host_id[256];
    const char *transports;
    struct rcmi_join join;
    int64_t slots, slot_bytes;
    int64_t timeout_ms, warn_after_ns;
    rcmi_deadline deadline;
    struct rcmi_store_budget budget; /* for all calls of the store */
    struct rcmi_engine *engine;      /* with a reference of rcm_init */
    bool agreed; /* the exchange is complete: an error found now is found by all ranks */
    char settings[RCMI_SETTINGS_TEXT]; /* settings that must be equal on all ranks, as text */
};

/* ---- Settings -------------------------------------------------------------------------------- */

/* The boot id (one kernel, one value) and the network namespace. */
static void default_host_id(char *id, size_t cap) {
    char boot[64] = "";
    struct stat ns;
    FILE *file = rcmi_fopen("/proc/sys/kernel/random/boot_id");
    if (file) {
        if (!fgets(boot, sizeof(boot), file))
            boot[0] = '\0';
        fclose(file);
    }
    boot[strcspn(boot, "\n")] = '\0';
    if (boot[0] == '\0')
        gethostname(boot, sizeof(boot) - 1);
    if (stat("/proc/self/ns/net", &ns) != 0)
        ns.st_ino = 0;
    snprintf(id, cap, "%s-%llu", boot, (unsigned long long)ns.st_ino);
}

/* As text, which must not be cut: ranks could differ in the missing part. */
static rcm_status init_agreed_settings(struct init *init) {
    const struct rcm_init_options *o = init->options;
    const char *algorithm = o && o->algorithm ? o->algorithm : rcmi_setting("RINGCOMM_ALGORITHM");
    const int len = snprintf(init->settings, sizeof(init->settings),
                             "version=%s RINGCOMM_SLOT_BYTES=%" PRId64 " RINGCOMM_SLOTS=%" PRId64
                             " RINGCOMM_TRANSPORT=%s RINGCOMM_ALGORITHM=%s byte_order=%s",
                             rcm_version(), init->slot_bytes, init->slots, init->transports,
                             algorithm, *(const uint16_t *)"\1" == 1 ? "little" : "big");
    if (len >= 0 && (size_t)len < sizeof(init->settings))
        return RCM_OK;
    return rcmi_fail(RCM_ERR_CONFIG, 0,
                     "RINGCOMM_TRANSPORT has %zu bytes and RINGCOMM_ALGORITHM %zu, some %zu too "
                     "many; the file of RINGCOMM_TUNING may name more algorithms",
                     strlen(init->transports), strlen(algorithm),
                     (size_t)len + 1 - sizeof(init->settings));
}

static rcm_status init_settings(struct init *init) {
    const struct rcm_init_options *o = init->options;
    const char *host_id = o && o->host_id ? o->host_id : rcmi_setting("RINGCOMM_HOST_ID");
    int64_t timeout_ns;
    if (strlen(host_id) > RCMI_HOST_ID_MAX)
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s has %zu bytes, at most %d",
                         o && o->host_id ? "options->host_id" : "RINGCOMM_HOST_ID", strlen(host_id),
                         RCMI_HOST_ID_MAX);
    if (host_id[0])
        snprintf(init->host_id, sizeof(init->host_id), "%s", host_id);
    else
        default_host_id(init->host_id, sizeof(init->host_id));
    init->transports = o && o->transport ? o->transport : rcmi_setting("RINGCOMM_TRANSPORT");
    rcm_status status = rcmi_setting_duration("RINGCOMM_TIMEOUT", RCMI_SECOND, RCMI_SECOND / 1000,
                                              INT32_MAX * RCMI_SECOND, &timeout_ns);
    if (status == RCM_OK)
        status = rcmi_setting_warn_after(&init->warn_after_ns);
    if (status == RCM_OK)
        status = rcmi_setting_slot_bytes(init->launch.world_size, &init->slot_bytes);
    if (status == RCM_OK)
        status = rcmi_setting_int("RINGCOMM_SLOTS", 2, 1024, &init->slots);
    if (status != RCM_OK)
        return status;
    init->timeout_ms = o && o->timeout_ms ? o->timeout_ms : timeout_ns / 1000000;
    init->deadline = rcmi_deadline_in(init->timeout_ms);
    status = init_agreed_settings(init);
    if (status != RCM_OK)
        return status;
    if (o && o->secret) {
        init->secret = strdup(o->secret);
        return init->secret ? RCM_OK : rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the secret");
    }
    return rcmi_secret(&init->secret);
}

/* ---- Store ----------------------------------------------------------------------------------- */

/* If a store closes its connections while ranks join, the error names the rank that served it,
 * which explains more than a descriptor. */
static rcm_status init_explain(const struct init *init, rcm_status status) {
    if (status != RCM_ERR_PEER || (init->options && init->options->store) ||
        !init->launch.rank_0_serves || init->launch.rank == 0 || rcmi_last_error()->origin >= 0)
        return status;
    rcmi_last_error()->origin = 0;
    return rcmi_fail_context("rank 0, which serves the store, gave up or ended");
}

static rcm_status init_open_store(struct init *init) {
    const struct rcm_init_options *o = init->options;
    const int64_t left = init->deadline == RCMI_NEVER ? -1 : rcmi_deadline_left_ms(init->deadline);
    if (o && o->unique_id)
        return rcmi_unique_id_open(o->unique_id, init->secret, init->deadline, &init->serves_store,
                                   &init->store);
    init->serves_store = init->launch.rank == 0;
    return rcmi_launch_open(&init->launch, init->secret, left, &init->store);
}

static rcm_status init_store(struct init *init) {
    rcm_status status = RCM_OK;
    if (init->options && init->options->store)
        init->store = init->options->store;
    else {
        status = init_open_store(init);
        init->owns_store = status == RCM_OK;
    }
    if (status == RCM_OK)
        status = rcmi_join(init->store, &init->launch, init->deadline, &init->join);
    return init_explain(init, status);
}

static rcm_status engine_lookup(void *arg, int peer, const void **ret_blob, size_t *ret_len) {
    struct rcmi_engine *engine = arg;
    return rcmi_book_lookup(engine->book, peer, ret_blob, ret_len);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static const char *init_device(const struct init *init) {
    const struct rcm_init_options *o = init->options;
    return o && o->device ? o->device : rcmi_setting("RINGCOMM_DEVICE");
}

static rcm_status init_engine(struct init *init) {
    char near[RCMI_PCI_ADDRESS];
    rcm_status status = rcmi_rank_device_locate(init_device(init), init->deadline, near);
    if (status != RCM_OK)
        return status;
    struct rcmi_node_config config = {
        .rank = init->launch.rank,
        .nranks = init->launch.world_size,
        .job = init->join.job,
        .host_id = init->host_id,
        .transports = init->transports,
        .secret = init->secret,
        .iface = rcmi_setting("RINGCOMM_IFACE"),
        .ports = rcmi_setting("RINGCOMM_PORTS"),
        .slot_bytes = (size_t)init->slot_bytes,
        .slots = (uint32_t)init->slots,
        .local_rank = init->launch.local_rank,
        .near = near,
        .lookup = engine_lookup,
    };
    rcmi_store_server(init->store, &config.store);
    const char *trace = rcmi_setting("RINGCOMM_TRACE");
    status = rcmi_engine_create(&config, init_device(init), &init->engine);
    if (status == RCM_OK)
        init->engine->calls = init->calls;
    if (status == RCM_OK && trace[0])
        status = rcmi_trace_file_open(trace, config.rank, &init->engine->trace);
    if (status == RCM_OK)
        rcmi_exit_watch(init->engine);
    return status;
}

/* The engine owns the store from here, and closes it. */
static void init_hand_over_store(struct init *init) {
    struct rcmi_engine *engine = init->engine;
    engine->join = init->join;
    if (!init->owns_store)
        return;
    engine->store = init->store;
    engine->serves_store = init->serves_store;
    init->owns_store = false;
}

/* Makes the engine, and exchanges data with all other ranks. */
static rcm_status init_meet(struct init *init) {
    rcm_status status = init_engine(init);
    if (status != RCM_OK)
        return status;
    init_hand_over_store(init);
    const struct rcmi_exchange_config exchange = {.engine = init->engine,
                                                  .store = init->store,
                                                  .launch = &init->launch,
                                                  .settings = init->settings,
                                                  .deadline = init->deadline};
    status = rcmi_node_attend(init->engine->node);
    if (status == RCM_OK)
        status = init_explain(init, rcmi_engine_exchange(&exchange, &init->agreed));
    if (status == RCM_OK)
        status = init_explain(init, rcmi_engine_agree_sharing(&exchange, &init->agreed));
    return status;
}

static rcm_status init_comm(struct init *init, rcm_comm **ret_comm) {
    const struct rcm_init_options *o = init->options;
    const struct rcmi_comm_settings settings = {
        .epoch = (uint32_t)(init->join.job ^ init->join.job >> 32),
        .timeout_ms = init->timeout_ms,
        .warn_after_ns = init->warn_after_ns,
        .slot_bytes = (size_t)init->slot_bytes,
        .slots = (uint32_t)init->slots,
        .algorithm = o && o->algorithm ? o->algorithm : rcmi_setting("RINGCOMM_ALGORITHM")};
    rcm_status status = init_meet(init);
    if (status == RCM_OK)
        status = rcmi_comm_make_world(init->engine, &settings, ret_comm);
    if (status != RCM_OK)
        return status;
    init->agreed = false;
    status = rcmi_rank_device_begin(&init->engine->device, rcmi_comm_machine_rank(*ret_comm),
                                    init->deadline);
    if (status == RCM_OK)
        status = rcmi_comm_equip(*ret_comm);
    return status == RCM_OK ? rcmi_node_start(init->engine->node) : status;
}

/* Makes the others fail too, and leaves the store. Keeps the thread's error. */
static void init_give_up(struct init *init, rcm_comm *comm, rcm_status status) {
    const bool own_store = !init->options || !init->options->store;
    struct rcmi_error cause = *rcmi_last_error();
    if (init->store)
        rcmi_join_fail(init->store, &init->join);
    if (init->store && own_store)
        rcmi_store_linger(init->store);
    if (init->store && own_store && status == RCM_ERR_CONFIG) /* perhaps two jobs use it */
        rcmi_store_keep(init->store);
    if (init->agreed)
        rcmi_engine_leave_refused(init->engine);
    rcmi_comm_retire(comm);
    rcmi_engine_release(init->engine);
    init->engine = NULL;
    if (init->owns_store)
        rcm_store_close(init->store);
    *rcmi_last_error() = cause;
}

/* A store of the caller is not used again, so ranks that come there later do not matter. The job is
 * complete, so a store that does not answer in time does not fail this rank alone. */
static rcm_status init_leave_store(struct init *init) {
    struct rcmi_store_final final;
    rcmi_store_final_begin(&final);
    const rcm_status status = rcmi_join_leave(init->store, &init->engine->join);
    rcmi_store_final_end(&final);
    if (status != RCM_ERR_TIMEOUT)
        return status;
    rcmi_log(RCMI_LOG_WARN, "the entry of this rank stays in options.store: %s", rcm_last_error());
    return RCM_OK;
}

/* From the store to the communicator, within the deadline. */
static rcm_status init_join(struct init *init, rcm_comm **ret_comm) {
    const int64_t began = rcmi_now_ns();
    init->budget.deadline = init->deadline;
    struct rcmi_store_budget *outer = rcmi_store_budget(&init->budget);
    rcm_status status = init_store(init);
    if (status == RCM_OK)
        status = init_comm(init, ret_comm);
    if (init->store)
        status = rcmi_store_slow(&init->budget, init->store, began, status);
    if (status == RCM_OK && init->options && init->options->store)
        status = init_leave_store(init);
    if (status != RCM_OK)
        init_give_up(init, *ret_comm, status);
    (void)rcmi_store_budget(outer);
    return status;
}

static rcm_status init_check(const struct rcm_init_options *options) {
    if (options && options->rank < -1)
        return rcmi_fail(RCM_ERR_INVALID, 0, "options->rank is %d, neither a rank nor -1",
                         options->rank);
    if (options && options->world_size < 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "options->world_size is %d, neither a number nor 0",
                         options->world_size);
    if (options && options->reserved != 0)
        return rcmi_fail(RCM_ERR_INVALID, 0, "options->reserved is %d, must be 0",
                         options->reserved);
    return RCM_OK;
}

/* Done by one rank of each host: mostly all have the same environment, so one line is enough. */
static void init_warn(const struct rcmi_launch *launch) {
    (void)rcmi_log_has_stderr();
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    if (launch->local_rank >= 0 ? launch->local_rank == 0 : launch->rank == 0)
        if (!atomic_flag_test_and_set(&warned))
            rcmi_settings_warn_names();
}

static rcm_status init_by(const struct rcm_init_options *options,
                          const struct rcmi_comm_calls *calls, rcm_comm **ret_comm) {
    struct init init = {.options = options, .calls = calls};
    rcm_comm *comm = NULL;
    const bool own_store = !options || !options->store;
    rcm_status status = init_check(options);
    if (status == RCM_OK)
        status = rcmi_launch_resolve(options, &init.launch);
    if (status != RCM_OK)
        return status;
    rcmi_log_set_rank(init.launch.rank);
    init_warn(&init.launch);
    status = init_settings(&init);
    rcmi_log(RCMI_LOG_INFO, "rank %d of %d: %s", init.launch.rank, init.launch.world_size,
             init.launch.origin);
    if (status == RCM_OK)
        status = init_join(&init, &comm);
    if (status == RCM_OK && own_store && init.launch.world_size > 1)
        rcmi_engine_publish_through(init.engine);
    if (status == RCM_OK)
        *ret_comm = comm;
    rcmi_engine_release(init.engine);
    free(init.secret);
    rcmi_launch_fini(&init.launch);
    return status;
}

rcm_status rcmi_comm_init(const struct rcm_init_options *options,
                          const struct rcmi_comm_calls *calls, rcm_comm **ret_comm) {
    RCMI_ENTRY;
    static const struct rcmi_sized sized = {"options", "RCM_INIT_OPTIONS_INIT",
                                            RCMI_INIT_OPTIONS_SIZE_0,
                                            sizeof(struct rcm_init_options)};
    struct rcm_init_options ours = RCM_INIT_OPTIONS_INIT;
    rcm_status status = rcmi_work_may_wait(-1);
    if (status == RCM_OK && !ret_comm)
        status = rcmi_fail(RCM_ERR_INVALID, 0, "ret_comm is NULL");
    if (status == RCM_OK && options)
        status = rcmi_struct_in(&sized, options, &ours);
    return status == RCM_OK ? init_by(options ? &ours : NULL, calls, ret_comm) : status;
}
