/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Call records: what each collective of this rank was called with, so that ranks that call
 * different things find out and can say what both called.
 *
 * A message of another call is noticed where it arrives (algorithms/exec.c). But calls that differ
 * may use different channels, and then each rank waits for a message that nobody sends. So a rank
 * whose collective has not finished after NOTICE_NS tells the rank that it waits for what it
 * called, and that one compares: with what it called itself under that number, or later, when it
 * calls it.
 *
 * A call may differ and be complete all the same (each rank its own root of a broadcast). Then the
 * next one is noticed, for the hash in its messages goes over all calls; who notices that two equal
 * calls have different hashes tells the other all the calls that it remembers.
 *
 * The lock is between the issuing thread, the driver and the loop thread.
 */
#include "comm.h"
#include "wire.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY 64 /* calls that are remembered */

/* A call of this rank. The name is filled in when the record is used: few ever are. */
struct call {
    struct rcmi_record record;
    const char *algorithm; /* of a plan, so a constant */
};

struct rcmi_records {
    rcm_comm *comm;
    pthread_mutex_t lock;
    struct call own[HISTORY];  /* by sequence modulo HISTORY */
    struct rcmi_record *heard; /* by rank: the first it told that we have not called yet */
    int nheard;                /* of those, how many are of a call that we have not made yet */
    bool *told;                /* by rank: whether it knows all our calls */
};

rcm_status rcmi_records_create(rcm_comm *comm, struct rcmi_records **ret_records) {
    struct rcmi_records *records = calloc(1, sizeof(*records));
    if (records) {
        records->heard = calloc((size_t)comm->size, sizeof(*records->heard));
        records->told = calloc((size_t)comm->size, sizeof(*records->told));
        records->comm = comm;
        pthread_mutex_init(&records->lock, NULL);
    }
    if (!records || !records->heard || !records->told) {
        rcmi_records_free(records);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the call records of %d ranks",
                         comm->size);
    }
    *ret_records = records;
    return RCM_OK;
}

void rcmi_records_free(struct rcmi_records *records) {
    if (!records)
        return;
    pthread_mutex_destroy(&records->lock);
    free(records->heard);
    free(records->told);
    free(records);
}

static void record_describe(const struct rcmi_record *record, char *text, size_t cap) {
    struct rcmi_activity call = {.collective = record->collective,
                                 .called_as = record->collective,
                                 .count = record->count,
                                 .dtype = record->dtype,
                                 .op = record->op,
                                 .root = record->root,
                                 .parting = record->parting};
    memcpy(call.algorithm, record->algorithm, sizeof(call.algorithm));
    rcmi_activity_sanitize(&call, INT_MAX);
    rcmi_call_describe(&call, text, cap);
}

static bool records_are_one_call(const struct rcmi_record *a, const struct rcmi_record *b) {
    return a->collective == b->collective && a->count == b->count && a->dtype == b->dtype &&
           a->op == b->op && a->root == b->root && a->parting == b->parting &&
           strcmp(a->algorithm, b->algorithm) == 0;
}

/* Fails the communicator if the two calls of one number differ. If only earlier ones did, the other
 * rank is told all of ours, and says which. */
static void records_compare(rcm_comm *comm, const struct rcmi_record *own, int rank,
                            const struct rcmi_record *other) {
    char a[96], b[96];
    if (own->meta == other->meta)
        return;
    if (records_are_one_call(own, other)) {
        rcmi_records_tell_history(comm->records, rank);
        return;
    }
    record_describe(own, a, sizeof(a));
    record_describe(other, b, sizeof(b));
    rcmi_fail_origin(RCM_ERR_MISMATCH, rank, "operation %llu is %s on rank %d, but %s on rank %d",
                     (unsigned long long)own->sequence, a, comm->rank, b, rank);
    rcmi_comm_fail(comm, NULL);
}

/* Field by field: most calls get no further than this, and it is on their way. */
static void call_fill(struct call *call, uint32_t epoch, uint64_t sequence, bool parting,
                      const struct rcmi_bind *bind) {
    struct rcmi_record *record = &call->record;
    record->magic = RCMI_RECORD_MAGIC;
    record->epoch = epoch;
    record->sequence = sequence;
    record->meta = bind->meta;
    record->count = bind->count;
    record->collective = (int32_t)bind->plan->collective;
    record->dtype = (int32_t)bind->dtype;
    record->op = (int32_t)bind->op;
    record->root = bind->plan->root;
    record->parting = parting;
    call->algorithm = bind->plan->algorithm;
}

static struct rcmi_record call_record(const struct call *call) {
    struct rcmi_record record = call->record;
    if (call->algorithm)
        snprintf(record.algorithm, sizeof(record.algorithm), "%s", call->algorithm);
    return record;
}

/* Takes what rank told of the call with that number; false if it told nothing. Under the lock. */
static bool records_take(struct rcmi_records *records, int rank, uint64_t sequence,
                         struct rcmi_record *ret_record) {
    struct rcmi_record *heard = &records->heard[rank];
    if (heard->sequence != sequence)
        return false;
    *ret_record = *heard;
    heard->sequence = 0;
    records->nheard--;
    return true;
}

void rcmi_records_add(struct rcmi_records *records, uint64_t sequence, bool parting,
                      const struct rcmi_bind *bind) {
    rcm_comm *comm = records->comm;
    struct call *call = &records->own[sequence % HISTORY];
    struct rcmi_record own, other;
    pthread_mutex_lock(&records->lock);
    call_fill(call, comm->epoch, sequence, parting, bind);
    for (int r = 0; records->nheard > 0 && r < comm->size; r++) {
        if (!records_take(records, r, sequence, &other))
            continue;
        own = call_record(call);
        pthread_mutex_unlock(&records->lock); /* failing takes other locks */
        records_compare(comm, &own, r, &other);
        pthread_mutex_lock(&records->lock);
    }
    pthread_mutex_unlock(&records->lock);
}

void rcmi_records_hear(struct rcmi_records *records, int rank, const struct rcmi_record *said) {
    struct rcmi_record own, *heard = &records->heard[rank];
    pthread_mutex_lock(&records->lock);
    own = call_record(&records->own[said->sequence % HISTORY]);
    /* Not called yet: the first of those is kept, for we may come no further than that. */
    if (own.sequence < said->sequence &&
        (heard->sequence == 0 || said->sequence < heard->sequence)) {
        records->nheard += heard->sequence == 0;
        *heard = *said;
    }
    pthread_mutex_unlock(&records->lock);
    if (own.sequence == said->sequence)
        records_compare(records->comm, &own, rank, said);
}

/* peer -1: the slots of a multicast channel, which any rank of this host may hold. */
void rcmi_records_tell(struct rcmi_records *records, const struct rcm_work *work, int peer) {
    const rcm_comm *comm = records->comm;
    struct call call = {.algorithm = NULL};
    call_fill(&call, comm->epoch, work->sequence, work->parting, &work->bind);
    const struct rcmi_record record = call_record(&call);
    for (int r = 0; r < comm->size; r++)
        if (r == peer ||
            (peer < 0 && r != comm->rank && comm->host_of[r] == comm->host_of[comm->rank]))
            (void)rcmi_node_send(comm->engine->node, comm->world_rank[r], &record, sizeof(record));
}

/* Oldest first: where the calls of two ranks differ first, the one that hears says so. */
void rcmi_records_tell_history(struct rcmi_records *records, int peer) {
    const rcm_comm *comm = records->comm;
    struct rcmi_record own[HISTORY];
    uint64_t last = 0;
    if (peer < 0 || peer >= comm->size)
        return;
    pthread_mutex_lock(&records->lock);
    const bool told = records->told[peer];
    records->told[peer] = true;
    for (int i = 0; i < HISTORY; i++)
        own[i] = call_record(&records->own[i]);
    pthread_mutex_unlock(&records->lock);
    for (int i = 0; i < HISTORY; i++)
        last = own[i].sequence > last ? own[i].sequence : last;
    for (uint64_t i = last + 1; !told && i <= last + HISTORY; i++)
        if (own[i % HISTORY].sequence > 0)
            (void)rcmi_node_send(comm->engine->node, comm->world_rank[peer], &own[i % HISTORY],
                                 sizeof(own[0]));
}
