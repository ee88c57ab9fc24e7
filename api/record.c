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
 * The lock is between the issuing thread, the driver and the loop thread.
 */
#include "comm.h"
#include "wire.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY 64 /* calls that are remembered */

struct rcmi_records {
    rcm_comm *comm;
    pthread_mutex_t lock;
    struct rcmi_record own[HISTORY]; /* by sequence modulo HISTORY */
    struct rcmi_record *heard;       /* by rank: the last that it told */
    int nheard; /* of those, how many are of a call that we have not made yet */
};

rcm_status rcmi_records_create(rcm_comm *comm, struct rcmi_records **ret_records) {
    struct rcmi_records *records = calloc(1, sizeof(*records));
    if (records)
        records->heard = calloc((size_t)comm->size, sizeof(*records->heard));
    if (!records || !records->heard) {
        free(records);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the call records of %d ranks",
                         comm->size);
    }
    records->comm = comm;
    pthread_mutex_init(&records->lock, NULL);
    *ret_records = records;
    return RCM_OK;
}

void rcmi_records_free(struct rcmi_records *records) {
    if (!records)
        return;
    pthread_mutex_destroy(&records->lock);
    free(records->heard);
    free(records);
}

static void record_describe(const struct rcmi_record *record, char *text, size_t cap) {
    const char *name = rcmi_collective_name((enum rcm_collective)record->collective);
    if (record->collective == RCM_ALL_REDUCE)
        snprintf(text, cap, "%s of %llu %s, %s (%.24s)", name, (unsigned long long)record->count,
                 rcm_dtype_name((rcm_dtype)record->dtype), rcm_op_name((rcm_op)record->op),
                 record->algorithm);
    else if (record->collective == RCM_BROADCAST)
        snprintf(text, cap, "%s of %llu %s from rank %d (%.24s)", name,
                 (unsigned long long)record->count, rcm_dtype_name((rcm_dtype)record->dtype),
                 record->root, record->algorithm);
    else
        snprintf(text, cap, "%s (%.24s)", name, record->algorithm);
}

/* Fails the communicator if the two calls of one number differ. */
static void records_compare(rcm_comm *comm, const struct rcmi_record *own, int rank,
                            const struct rcmi_record *other) {
    char a[96], b[96];
    if (own->meta == other->meta)
        return;
    record_describe(own, a, sizeof(a));
    record_describe(other, b, sizeof(b));
    rcmi_fail_origin(RCM_ERR_MISMATCH, rank, "operation %llu is %s on rank %d, but %s on rank %d",
                     (unsigned long long)own->sequence, a, comm->rank, b, rank);
    rcmi_comm_fail(comm, NULL);
}

static void record_of(const struct rcm_work *work, struct rcmi_record *ret_record) {
    *ret_record = (struct rcmi_record){.magic = RCMI_RECORD_MAGIC,
                                       .epoch = work->comm->epoch,
                                       .sequence = work->sequence,
                                       .meta = work->bind.meta,
                                       .count = work->bind.count,
                                       .collective = (int32_t)work->collective,
                                       .dtype = (int32_t)work->bind.dtype,
                                       .op = (int32_t)work->bind.op,
                                       .root = work->bind.plan->root};
    snprintf(ret_record->algorithm, sizeof(ret_record->algorithm), "%s",
             work->bind.plan->algorithm);
}

void rcmi_records_add(struct rcmi_records *records, const struct rcm_work *work) {
    rcm_comm *comm = records->comm;
    struct rcmi_record *own = &records->own[work->sequence % HISTORY], mine, other;
    int rank = -1;
    pthread_mutex_lock(&records->lock);
    record_of(work, own);
    for (int r = 0; records->nheard > 0 && r < comm->size; r++) {
        if (records->heard[r].sequence != work->sequence)
            continue;
        rank = r;
        mine = *own;
        other = records->heard[r];
        records->heard[r].sequence = 0;
        records->nheard--;
    }
    pthread_mutex_unlock(&records->lock);
    if (rank >= 0)
        records_compare(comm, &mine, rank, &other);
}

void rcmi_records_hear(struct rcmi_records *records, int rank, const struct rcmi_record *said) {
    struct rcmi_record own;
    pthread_mutex_lock(&records->lock);
    own = records->own[said->sequence % HISTORY];
    if (own.sequence < said->sequence) { /* not called yet */
        records->nheard += records->heard[rank].sequence == 0;
        records->heard[rank] = *said;
    }
    pthread_mutex_unlock(&records->lock);
    if (own.sequence == said->sequence)
        records_compare(records->comm, &own, rank, said);
}

/* peer -1: the slots of a multicast channel, which any rank of this host may hold. */
void rcmi_records_tell(struct rcmi_records *records, const struct rcm_work *work, int peer) {
    const rcm_comm *comm = records->comm;
    struct rcmi_record record;
    record_of(work, &record);
    for (int r = 0; r < comm->size; r++)
        if (r == peer ||
            (peer < 0 && r != comm->rank && comm->host_of[r] == comm->host_of[comm->rank]))
            (void)rcmi_node_send(comm->engine->node, comm->world_rank[r], &record, sizeof(record));
}
