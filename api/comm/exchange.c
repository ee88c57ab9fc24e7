/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data that each rank publishes in the store, and the evaluation of what the others published.
 * See exchange.h. Not here: how ranks wait for each other in a store (rendezvous/).
 */
#include "exchange.h"
#include "cgroup.h"
#include "log.h"
#include "process.h"
#include "tuning.h"
#include "wire_version.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Published by each rank, followed by rank 0's constants as text, which apply to all, and the
 * address of the rank's node. */
struct published {
    char head[RCMI_WIRE_HEAD];         /* first in every version */
    char settings[RCMI_SETTINGS_TEXT]; /* must be equal on all ranks; padded with NULs */
    struct rcmi_cpus cpus;             /* that the rank may use */
    uint32_t tuning_len;               /* with the NUL; 0 on other ranks */
    uint8_t reads_others;              /* whether it may get from other processes' memory */
    uint8_t reserved[3];
};

/* ---- Publishing ------------------------------------------------------------------------------ */

/* This rank's constants as text; "" except on rank 0, because other ranks need not have the tuning
 * file. Caller frees. */
static rcm_status tuning_make(const struct rcmi_engine *engine, char **ret_text) {
    struct rcmi_tuning tuning;
    if (engine->rank != 0) {
        *ret_text = calloc(1, 1);
        return *ret_text ? RCM_OK : rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a text");
    }
    rcm_status status = rcmi_tuning_local(&tuning);
    if (status != RCM_OK)
        return status;
    status = rcmi_tuning_write(&tuning, ret_text);
    rcmi_tuning_end(&tuning);
    return status;
}

static struct rcmi_cpus cpus_make(void) {
    struct rcmi_cpus cpus = {.quota = 0};
    struct rcmi_cgroup_cpus limit;
    /* Above 1,024 CPUs this fails and the mask stays empty: then ranks do not spin. */
    (void)sched_getaffinity(0, sizeof(cpus.bytes), (cpu_set_t *)(void *)cpus.bytes);
    rcmi_cgroup_cpus(&limit);
    if (limit.cpus > 0 && limit.cpus < RCMI_CPU_BYTES * 8) {
        cpus.quota = (uint64_t)(limit.cpus * CPU_MILLIONTHS + 0.5);
        cpus.group = limit.group;
        rcmi_log(RCMI_LOG_INFO, "%s allows %.2f CPUs", limit.file, limit.cpus);
    }
    return cpus;
}

/* Makes the bytes that this rank publishes. Caller frees. */
static rcm_status published_make(const struct rcmi_exchange_config *x, char **ret_bytes,
                                 size_t *ret_len) {
    const void *address;
    size_t len;
    char reason[160], *text;
    const rcm_status status = tuning_make(x->engine, &text);
    if (status != RCM_OK)
        return status;
    const size_t text_len = x->engine->rank == 0 ? strlen(text) + 1 : 0;
    rcmi_node_address(x->engine->node, &address, &len);
    struct published *mine = calloc(1, sizeof(*mine) + text_len + len);
    if (!mine) {
        free(text);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for this rank's address");
    }
    rcmi_wire_head(mine->head);
    memcpy(mine->settings, x->settings, RCMI_SETTINGS_TEXT);
    mine->cpus = cpus_make();
    mine->tuning_len = (uint32_t)text_len;
    mine->reads_others = rcmi_process_reads_others(reason, sizeof(reason));
    if (!mine->reads_others)
        rcmi_log(RCMI_LOG_INFO, "large messages use shared slots: %s", reason);
    memcpy(mine + 1, text, text_len);
    memcpy((char *)(mine + 1) + text_len, address, len);
    free(text);
    *ret_bytes = (char *)mine;
    *ret_len = sizeof(*mine) + text_len + len;
    return RCM_OK;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Names the first setting in which two ranks differ, the lower rank first. Both texts have the same
 * names in NAME=VALUE, unless the versions differ. */
static rcm_status settings_differ(const char *theirs, int rank, const char *ours, int own_rank) {
    const bool before = rank < own_rank;
    size_t word = 0;
    for (size_t i = 0; theirs[i] && theirs[i] == ours[i]; i++)
        if (theirs[i] == ' ' && memchr(theirs + i + 1, '=', strcspn(theirs + i + 1, " ")))
            word = i + 1;
    const char *first = (before ? theirs : ours) + word, *second = (before ? ours : theirs) + word;
    return rcmi_fail_origin(RCM_ERR_MISMATCH, rank,
                            "settings differ: %.*s on rank %d, %.*s on rank %d",
                            (int)strcspn(first, " "), first, before ? rank : own_rank,
                            (int)strcspn(second, " "), second, before ? own_rank : rank);
}

/* Rank 0's constants, which apply to all. */
static rcm_status published_tuning(const struct rcmi_exchange_config *x, const char *text,
                                   size_t len) {
    if (len == 0 || text[len - 1] != '\0')
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, 0, "rank 0 published no constants");
    return rcmi_tuning_read(text, "rank 0", &x->engine->tuning);
}

/* Reads what rank r published, and leaves its address in the blob. */
static rcm_status published_take(const struct rcmi_exchange_config *x, int r, struct rcm_blob *blob,
                                 bool *ret_reads_others) {
    struct published published = {.tuning_len = 0};
    char *text = (char *)blob->data + sizeof(published);
    if (blob->len > sizeof(published))
        memcpy(&published, blob->data, sizeof(published));
    if (blob->len <= sizeof(published) || published.tuning_len >= blob->len - sizeof(published))
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, r, "rank %d published only %zu bytes", r,
                                blob->len);
    published.settings[RCMI_SETTINGS_TEXT - 1] = '\0';
    x->engine->cpus[r] = published.cpus;
    *ret_reads_others = published.reads_others;
    if (strcmp(published.settings, x->settings) != 0)
        return settings_differ(published.settings, r, x->settings, x->engine->rank);
    const rcm_status status = r == 0 ? published_tuning(x, text, published.tuning_len) : RCM_OK;
    if (status != RCM_OK)
        return status;
    blob->len -= sizeof(published) + published.tuning_len;
    memmove(blob->data, text + published.tuning_len, blob->len);
    return RCM_OK;
}

/* Reads what all published; afterwards the blobs are addresses. */
static rcm_status published_take_all(const struct rcmi_exchange_config *x, struct rcm_blob *all) {
    struct rcmi_engine *engine = x->engine;
    bool all_read_others = true;
    rcm_status status = RCM_OK;
    for (int r = 0; r < engine->nranks && status == RCM_OK; r++)
        status = rcmi_wire_head_check(all[r].data, all[r].len, r, engine->rank);
    for (int r = 0; r < engine->nranks && status == RCM_OK; r++) {
        bool reads_others = true;
        status = published_take(x, r, &all[r], &reads_others);
        all_read_others = all_read_others && reads_others;
    }
    if (!all_read_others)
        rcmi_protocols_forbid_get(&engine->tuning.protocols);
    return status == RCM_OK ? rcmi_book_create(all, engine->nranks, &engine->book) : status;
}

/* ---- The exchange ---------------------------------------------------------------------------- */

static rcm_status exchange_look(void *arg) {
    const struct rcmi_exchange_config *x = arg;
    return rcmi_join_look(x->store, x->launch, &x->engine->join);
}

rcm_status rcmi_engine_collect(const struct rcmi_exchange_config *x, const char *name,
                               const void *mine, size_t len, struct rcm_blob *ret_all) {
    const struct rcmi_engine *engine = x->engine;
    const struct rcmi_look look = {exchange_look, (void *)x};
    char scope[96];
    snprintf(scope, sizeof(scope), "%s/%s", engine->join.scope, name);
    return rcmi_exchange(x->store, scope, engine->rank, engine->nranks, mine, len, x->deadline,
                         &look, ret_all);
}

/* Publishes, and fills `all` with the data of all ranks, which the caller then owns. */
static rcm_status exchange_collect(const struct rcmi_exchange_config *x, struct rcm_blob *all) {
    char *mine = NULL;
    size_t len = 0;
    const rcm_status status = published_make(x, &mine, &len);
    if (status != RCM_OK)
        return status;
    const rcm_status done = rcmi_engine_collect(x, RCMI_EXCHANGE_RANK, mine, len, all);
    free(mine);
    return done;
}

rcm_status rcmi_engine_exchange(const struct rcmi_exchange_config *x, bool *ret_agreed) {
    const size_t n = (size_t)x->engine->nranks;
    struct rcm_blob *all = calloc(n, sizeof(*all));
    x->engine->cpus = calloc(n, sizeof(*x->engine->cpus));
    rcm_status status =
        all && x->engine->cpus
            ? exchange_collect(x, all)
            : rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the addresses of %zu ranks", n);
    if (status != RCM_OK) {
        free(all);
        return status;
    }
    *ret_agreed = true;
    status = published_take_all(x, all);
    if (status == RCM_OK)
        return RCM_OK;
    for (size_t r = 0; r < n; r++)
        free(all[r].data);
    free(all);
    return status;
}
