/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plan cache of one rank: emits each plan once, on first use. It copies the shape, so only the
 * cache itself must outlive its plans. It is locked: calls and later stages of calls
 * (api/work/work.h) look up plans in different threads.
 */
#include "plan.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"

struct cache_row {
    struct cache_row *next;
    const struct rcmi_algorithm *algorithm;
    struct rcmi_plan *plans[]; /* shape.nranks of them */
};

struct rcmi_plan_cache {
    struct rcmi_shape shape; /* host_of is the array below */
    int rank;
    pthread_mutex_t lock;
    struct cache_row *rows;
    int host_of[];
};

rcm_status rcmi_plan_cache_create(const struct rcmi_shape *shape, int rank,
                                  struct rcmi_plan_cache **ret_cache) {
    if (shape->nranks < 1 || rank < 0 || rank >= shape->nranks)
        return rcmi_fail(RCM_ERR_INVALID, 0, "rank %d is not one of %d", rank, shape->nranks);
    const size_t hosts_bytes = (size_t)shape->nranks * sizeof(int);
    struct rcmi_plan_cache *cache = malloc(sizeof(*cache) + hosts_bytes);
    if (!cache)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the plans of %d ranks", shape->nranks);
    memcpy(cache->host_of, shape->host_of, hosts_bytes);
    cache->shape = *shape;
    cache->shape.host_of = cache->host_of;
    cache->rank = rank;
    cache->rows = NULL;
    pthread_mutex_init(&cache->lock, NULL);
    *ret_cache = cache;
    return RCM_OK;
}

static struct cache_row *cache_row_get(struct rcmi_plan_cache *cache,
                                       const struct rcmi_algorithm *algorithm) {
    struct cache_row *row = cache->rows;
    while (row && row->algorithm != algorithm)
        row = row->next;
    if (row)
        return row;
    row = calloc(1, sizeof(*row) + (size_t)cache->shape.nranks * sizeof(row->plans[0]));
    if (!row)
        return NULL;
    row->algorithm = algorithm;
    row->next = cache->rows;
    cache->rows = row;
    return row;
}

/* The caller holds the lock. */
static rcm_status cache_find(struct rcmi_plan_cache *cache, const struct rcmi_algorithm *algorithm,
                             int root, const struct rcmi_plan **ret_plan) {
    struct cache_row *row = cache_row_get(cache, algorithm);
    if (!row)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the plans of %s", algorithm->name);
    if (!row->plans[root]) {
        const rcm_status status =
            algorithm->emit(algorithm, &cache->shape, cache->rank, root, &row->plans[root]);
        if (status != RCM_OK)
            return status;
    }
    *ret_plan = row->plans[root];
    return RCM_OK;
}

rcm_status rcmi_plan_cache_get(struct rcmi_plan_cache *cache,
                               const struct rcmi_algorithm *algorithm, int root,
                               const struct rcmi_plan **ret_plan) {
    if (root < 0 || root >= cache->shape.nranks)
        return rcmi_fail(RCM_ERR_INVALID, 0, "root %d is not in 0..%d", root,
                         cache->shape.nranks - 1);
    pthread_mutex_lock(&cache->lock);
    const rcm_status status = cache_find(cache, algorithm, root, ret_plan);
    pthread_mutex_unlock(&cache->lock);
    return status;
}

void rcmi_plan_cache_free(struct rcmi_plan_cache *cache) {
    if (!cache)
        return;
    while (cache->rows) {
        struct cache_row *row = cache->rows;
        cache->rows = row->next;
        for (int root = 0; root < cache->shape.nranks; root++)
            rcmi_plan_free(row->plans[root]);
        free(row);
    }
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}
