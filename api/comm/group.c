/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creation of communicators on an existing engine: the common part of the world and of those made
 * from others. Not here: the choice of members, and agreement on it (subset.c, shrink.c).
 */
#include "agreement.h"
#include "comm.h"
#include "diagnosis.h"
#include "group.h"
#include "log.h"
#include "near.h"
#include "status_page.h"
#include "trace_file.h"
#include "transfer.h"
#include <stdlib.h>
#include <string.h>

/* ---- Shape ----------------------------------------------------------------------------------- */

/* Numbers hosts by first appearance. A rank that shares no memory is a host of its own, because
 * plans rely on shared memory within a host, as all ranks agreed. */
static int shape_number_hosts(rcm_comm *comm, int *first) {
    const struct rcmi_address_book *book = comm->engine->book;
    int nhosts = 0;
    for (int r = 0; r < comm->size; r++) {
        int host = 0;
        while (host < nhosts &&
               !rcmi_book_shares(book, comm->world_rank[r], comm->world_rank[first[host]]))
            host++;
        if (host == nhosts)
            first[nhosts++] = r;
        comm->host_of[r] = host;
    }
    return nhosts;
}

static void shape_count_local(rcm_comm *comm, const char *const *ids) {
    const int own = comm->world_rank[comm->rank];
    for (int r = 0; r < comm->size; r++) {
        const int machine = strcmp(ids[r], ids[comm->rank]) == 0;
        const int local = rcmi_book_one_host(comm->engine->book, own, comm->world_rank[r]);
        comm->machine_rank += r < comm->rank ? machine : 0;
        comm->machine_size += machine;
        comm->local_rank += r < comm->rank ? local : 0;
        comm->local_size += local;
    }
}

static int cpus_count(const uint8_t *mask) {
    int cpus = 0;
    for (int byte = 0; byte < RCMI_CPU_BYTES; byte++)
        cpus += __builtin_popcount(mask[byte]);
    return cpus;
}

/* Ranks for each CPU that rank's quota allows to it and to those that share it; 0: no quota. */
static double quota_ranks_per_cpu(const rcm_comm *comm, const char *const *ids, int rank) {
    const struct rcmi_cpus *all = comm->engine->cpus, *own = &all[comm->world_rank[rank]];
    int ranks = 0;
    if (own->quota == 0)
        return 0;
    for (int r = 0; r < comm->size; r++) {
        const struct rcmi_cpus *cpus = &all[comm->world_rank[r]];
        ranks += cpus->quota > 0 && cpus->group == own->group && strcmp(ids[r], ids[rank]) == 0;
    }
    return ranks * CPU_MILLIONTHS / (double)own->quota;
}

/* Ranks for each CPU of rank's machine. The union of the ranks' masks gives its number of CPUs. One
 * rank's mask alone does not: a launcher may have bound each rank to one CPU. Quotas may allow
 * less. */
static double machine_ranks_per_cpu(const rcm_comm *comm, const char *const *ids, int rank) {
    unsigned char bits[RCMI_CPU_BYTES] = {0};
    double most = 0;
    int ranks = 0;
    for (int r = 0; r < comm->size; r++) {
        if (strcmp(ids[r], ids[rank]) != 0)
            continue;
        const double by_quota = quota_ranks_per_cpu(comm, ids, r);
        most = by_quota > most ? by_quota : most;
        ranks++;
        for (int byte = 0; byte < RCMI_CPU_BYTES; byte++)
            bits[byte] |= comm->engine->cpus[comm->world_rank[r]].bytes[byte];
    }
    const int cpus = cpus_count(bits);
    const double by_mask = cpus > 0 ? (double)ranks / cpus : ranks;
    return by_mask > most ? by_mask : most;
}

/* Properties of the machines for prices, the same on all ranks. */
static void shape_machines(const rcm_comm *comm, const char *const *ids, struct rcmi_shape *shape) {
    shape->loopback = true;
    for (int r = 0; r < comm->size; r++) {
        int first = 0;
        while (strcmp(ids[first], ids[r]) != 0)
            first++;
        if (first != r)
            continue;
        const double ranks_per_cpu = machine_ranks_per_cpu(comm, ids, r);
        shape->ranks_per_cpu =
            ranks_per_cpu > shape->ranks_per_cpu ? ranks_per_cpu : shape->ranks_per_cpu;
        shape->loopback = shape->loopback && r == 0;
    }
}

/* From world_rank: groups ranks by host identity for the machines' properties, and by shared memory
 * for local rank and size, host_of and shape. */
static rcm_status comm_shape(rcm_comm *comm) {
    const struct rcmi_address_book *book = comm->engine->book;
    const size_t n = (size_t)comm->size;
    const char **ids = calloc(n, sizeof(*ids));
    int *first = calloc(n, sizeof(*first)); /* of each host: its first rank */
    rcm_status status = RCM_OK;
    comm->host_of = calloc(n, sizeof(*comm->host_of));
    if (!ids || !first || !comm->host_of)
        status = rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", comm->size);
    for (int r = 0; status == RCM_OK && r < comm->size; r++)
        status = rcmi_book_host(book, comm->world_rank[r], &ids[r]);
    if (status == RCM_OK) {
        comm->shape = (struct rcmi_shape){.nranks = comm->size,
                                          .nhosts = shape_number_hosts(comm, first),
                                          .host_of = comm->host_of,
                                          .prices = &comm->engine->tuning.prices};
        shape_machines(comm, ids, &comm->shape);
        shape_count_local(comm, ids);
        comm->ranks_per_cpu = machine_ranks_per_cpu(comm, ids, comm->rank);
    }
    free(ids);
    free(first);
    return status;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static bool hook_failed(void *arg) {
    const rcm_comm *comm = arg;
    /* Acquire pairs with the release in comm.c, only for uniformity: nothing is read after it. */
    return atomic_load_explicit(&comm->failed, memory_order_acquire) != RCM_OK;
}

static bool hook_send_record(void *arg, int rank) {
    return rcmi_comm_send_failure(arg, rank);
}

static bool hook_silent(void *arg, int rank) {
    const rcm_comm *comm = arg;
    return rcmi_diagnosis_is_silent(comm->diagnosis, rank);
}

static void hook_agreed(void *arg, const struct rcm_error *error,
                        const struct rcmi_rank_set *missing) {
    rcmi_comm_fail_remote(arg, error, missing);
}

static void hook_mismatch(void *arg) {
    rcmi_comm_propose(arg, NULL, NULL, RCMI_PROPOSAL_MISMATCH);
}

/* The members are final. */
static void comm_set_members(rcm_comm *comm) {
    const struct rcmi_engine *engine = comm->engine;
    comm->members = (struct rcmi_members){.rank = comm->rank,
                                          .size = comm->size,
                                          .epoch = comm->epoch,
                                          .world_rank = comm->world_rank,
                                          .by_world = comm->by_world,
                                          .host_of = comm->host_of,
                                          .node = engine->node,
                                          .book = engine->book};
}

static rcm_status comm_equip_parts(rcm_comm *comm) {
    const struct rcmi_proposals_config proposals = {.members = &comm->members,
                                                    .arg = comm,
                                                    .failed = hook_failed,
                                                    .send_record = hook_send_record,
                                                    .silent = hook_silent,
                                                    .agreed = hook_agreed};
    const struct rcmi_call_log_config log = {
        .members = &comm->members, .arg = comm, .mismatch = hook_mismatch};
    rcm_status status = rcmi_call_log_create(&log, &comm->call_log);
    if (status == RCM_OK)
        status = rcmi_diagnosis_create(&comm->members, comm->call_log, &comm->diagnosis);
    return status == RCM_OK ? rcmi_proposals_create(&proposals, &comm->proposals) : status;
}

/* Takes its entry on the status page. */
static rcm_status comm_take_page(rcm_comm *comm) {
    struct rcmi_engine *engine = comm->engine;
    pthread_mutex_lock(&engine->lock);
    comm->page = rcmi_page_take(rcmi_node_status_page(engine->node), &comm->members, comm->name);
    pthread_mutex_unlock(&engine->lock);
    return comm->page ? RCM_OK : RCM_ERR_NOMEM;
}

rcm_status rcmi_comm_equip(rcm_comm *comm) {
    struct rcmi_exec_config config = {
        .node = comm->engine->node,
        .epoch = comm->epoch,
        .shape = &comm->shape,
        .world_rank = comm->world_rank,
        .rank = comm->rank,
        .device = &comm->engine->device.device,
        .slot_bytes = comm->slot_bytes,
        .bulk_bytes = rcmi_node_bulk_bytes(comm->engine->node),
        .slots = comm->slots,
    };
    comm->left_ns = calloc((size_t)comm->size, sizeof(*comm->left_ns));
    if (!comm->left_ns)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", comm->size);
    comm_set_members(comm);
    rcmi_device_notice_driver();
    rcm_status status = comm_take_page(comm);
    if (status != RCM_OK)
        return status;
    config.traffic = comm->page->traffic;
    status = rcmi_trace_begin(comm->engine->trace, comm->name, &comm->trace);
    if (status != RCM_OK)
        return status;
    config.trace = comm->trace;
    status = rcmi_exec_create(&config, &comm->exec);
    if (status == RCM_OK)
        status = rcmi_plan_cache_create(&comm->shape, comm->rank, &comm->plans);
    if (status == RCM_OK)
        status = rcmi_selection_create(&comm->shape, &comm->selection);
    if (status == RCM_OK)
        status = rcmi_selection_create(&comm->shape, &comm->stage_selection);
    if (status == RCM_OK)
        status = comm_equip_parts(comm);
    if (status == RCM_OK)
        status = rcmi_transfers_create(comm);
    if (status != RCM_OK)
        return status;
    rcmi_engine_add(comm->engine, comm);
    return RCM_OK;
}

/* ---- The world ------------------------------------------------------------------------------- */

/* The algorithms for calls that name none: the tuning's, as far as they can run these ranks, then
 * the setting's. */
static rcm_status world_choices(rcm_comm *comm, const char *text) {
    const char *tuned = comm->engine->tuning.choices;
    rcm_status status = RCM_OK;
    if (tuned)
        status = rcmi_choices_read(&comm->choices, tuned, "RINGCOMM_TUNING", &comm->shape, true);
    if (status == RCM_OK)
        status = rcmi_choices_read(&comm->choices, text, "RINGCOMM_ALGORITHM", &comm->shape, false);
    return status;
}

/* How many ranks share CPUs is known only now. */
static void world_share_cpus(const rcm_comm *comm) {
    struct rcmi_engine *engine = comm->engine;
    const int sharers = comm->machine_size > 1 ? comm->machine_size : 2; /* of less than one CPU */
    engine->cpu_sharers = comm->ranks_per_cpu <= 1 ? 1 : sharers;
    engine->budget = rcmi_pause_budget(engine->cpu_sharers);
    rcmi_node_set_protocols(engine->node, &engine->tuning.protocols,
                            engine->cpu_sharers > 1 ? RCMI_OVERSUBSCRIBED : RCMI_ROOMY);
}

static void world_init_page(struct rcmi_engine *engine, const struct rcmi_page_near *near) {
    const struct rcmi_page_settings settings = {
        .rank = engine->rank,
        .size = engine->nranks,
        .job = engine->join.job,
        .sharing = engine->cpu_sharers > 1 ? RCMI_OVERSUBSCRIBED : RCMI_ROOMY,
        .protocol = rcmi_node_protocol(engine->node),
        .near = *near};
    rcmi_page_init(rcmi_node_status_page(engine->node), &settings);
}

/* Ranks are world ranks. */
static rcm_status world_members(rcm_comm *comm) {
    comm->world_rank = calloc((size_t)comm->size, sizeof(*comm->world_rank));
    if (!comm->world_rank)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", comm->size);
    for (int r = 0; r < comm->size; r++)
        comm->world_rank[r] = r;
    return RCM_OK;
}

rcm_status rcmi_comm_make_world(struct rcmi_engine *engine,
                                const struct rcmi_comm_settings *settings, rcm_comm **ret_comm) {
    rcm_comm *comm = rcmi_comm_new();
    if (!comm)
        return RCM_ERR_NOMEM;
    comm->engine = engine;
    rcmi_engine_hold(engine);
    comm->rank = engine->rank;
    comm->size = engine->nranks;
    comm->epoch = settings->epoch;
    comm->timeout_ms = settings->timeout_ms;
    comm->spin_ns = -1;
    comm->warn_after_ns = settings->warn_after_ns;
    comm->slot_bytes = settings->slot_bytes;
    comm->slots = settings->slots;
    struct rcmi_page_near near;
    rcm_status status = world_members(comm);
    if (status == RCM_OK)
        status = comm_shape(comm);
    if (status == RCM_OK) {
        world_share_cpus(comm);
        status = rcmi_engine_find_near(engine, &near);
    }
    if (status == RCM_OK) {
        world_init_page(engine, &near);
        status = world_choices(comm, settings->algorithm);
    }
    if (status != RCM_OK) {
        rcmi_comm_retire(comm);
        return status;
    }
    *ret_comm = comm;
    return RCM_OK;
}

/* ---- Deriving -------------------------------------------------------------------------------- */

static int key_compare(const void *x, const void *y) {
    const uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return (a > b) - (a < b);
}

/* Sorts ranks by world rank. */
static rcm_status derive_by_world(rcm_comm *comm) {
    const size_t n = (size_t)comm->size;
    uint64_t *keys = calloc(n, sizeof(*keys)); /* world rank, then rank */
    comm->by_world = calloc(n, sizeof(*comm->by_world));
    if (!keys || !comm->by_world) {
        free(keys);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", comm->size);
    }
    for (size_t r = 0; r < n; r++)
        keys[r] = (uint64_t)comm->world_rank[r] << 32 | r;
    qsort(keys, n, sizeof(*keys), key_compare);
    for (size_t r = 0; r < n; r++)
        comm->by_world[r] = (int)(uint32_t)keys[r];
    free(keys);
    return RCM_OK;
}

static rcm_status derive_members(rcm_comm *comm, const rcm_comm *parent, const int *members) {
    comm->rank = -1;
    comm->world_rank = calloc((size_t)comm->size, sizeof(*comm->world_rank));
    if (!comm->world_rank)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", comm->size);
    for (int r = 0; r < comm->size; r++) {
        comm->world_rank[r] = parent->world_rank[members[r]];
        if (members[r] == parent->rank)
            comm->rank = r;
    }
    return derive_by_world(comm);
}

/* Fails if a member was lost before this communicator could be notified. One that has left all
 * communicators is no loss: operations that need it fail. */
static void derive_check_lost(rcm_comm *comm) {
    char who[RCMI_WHO_TEXT];
    struct rcmi_error why;
    for (int r = 0; r < comm->size; r++) {
        if (!rcmi_node_lost(comm->engine->node, comm->world_rank[r], &why))
            continue;
        rcmi_fail_origin(RCM_ERR_PEER, r, "lost %s before this communicator was made",
                         rcmi_members_describe(&comm->members, r, who));
        rcmi_comm_fail(comm, NULL);
        return;
    }
}

/* Copies the parent's settings. */
static void derive_settings(rcm_comm *comm, const rcm_comm *parent) {
    comm->engine = parent->engine;
    rcmi_engine_hold(comm->engine);
    comm->timeout_ms = rcm_comm_timeout(parent);
    comm->spin_ns = atomic_load_explicit(&parent->spin_ns, memory_order_relaxed);
    comm->warn_after_ns = parent->warn_after_ns;
    comm->slot_bytes = parent->slot_bytes;
    comm->slots = parent->slots;
}

rcm_status rcmi_comm_derive(const rcm_comm *parent, const struct rcmi_derivation *derivation,
                            rcm_comm **ret_comm) {
    rcm_comm *comm = rcmi_comm_new();
    if (!comm)
        return RCM_ERR_NOMEM;
    derive_settings(comm, parent);
    comm->size = derivation->size;
    comm->epoch = derivation->epoch;
    rcmi_comm_inherit_name(comm, parent, derivation->name);
    rcm_status status = derive_members(comm, parent, derivation->members);
    if (status == RCM_OK)
        status = comm_shape(comm);
    if (status == RCM_OK) {
        status = rcmi_choices_keep(&parent->choices, &comm->shape, &comm->choices);
        if (status == RCM_OK)
            status = rcmi_comm_equip(comm);
    }
    if (status != RCM_OK) {
        rcmi_comm_retire(comm);
        return status;
    }
    derive_check_lost(comm);
    *ret_comm = comm;
    return RCM_OK;
}

rcm_status rcmi_comm_absent(const rcm_comm *parent, const int *members, int size,
                            rcm_comm **ret_comm) {
    rcm_comm *comm = rcmi_comm_new();
    if (!comm)
        return RCM_ERR_NOMEM;
    derive_settings(comm, parent);
    comm->size = size;
    rcmi_comm_inherit_name(comm, parent, "no member");
    if (members && derive_members(comm, parent, members) == RCM_ERR_NOMEM) {
        rcmi_comm_retire(comm);
        return RCM_ERR_NOMEM;
    }
    comm->rank = comm->local_rank = -1;
    comm_set_members(comm);
    /* Relaxed: no other thread has it. */
    atomic_store_explicit(&comm->failed, RCMI_ABSENT, memory_order_relaxed);
    *ret_comm = comm;
    return RCM_OK;
}
