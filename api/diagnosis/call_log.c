/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Call records: what each collective of this rank was called with, so that ranks that call
 * different things find out, and report what both called.
 *
 * A message of another call is noticed where it arrives (algorithms/exec/exec.c). But calls that
 * differ may use different channels, and then each rank waits for a message that no rank sends. So
 * a rank whose collective has not finished after NOTICE_NS tells the rank that it waits for what it
 * called, and that one compares: with what it called itself under that number, or later, when it
 * calls it.
 *
 * A call may differ and be complete all the same (each rank its own root of a broadcast). Then the
 * next one is noticed, for the hash in its messages goes over all calls; a rank that notices that
 * two equal calls have different hashes tells the other all the calls that it remembers.
 *
 * The lock is between the issuing thread, the driver and the loop thread, and of what others told.
 */
#include "diagnosis.h"
#include "mem_kind.h"
#include "operator.h"
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY RCMI_CALLS_KEPT
#define TOLD    64 /* calls that another rank is told, and whose counts are remembered */

/* A call of this rank, written by the issuing thread without a lock, since every call goes by here:
 * a reader looks at sequence before and after. The record is made when one is used: few ever are.
 */
struct call {
    /* 0 while the rest is written. Its stores pair with the acquire loads in call_record. */
    _Atomic uint64_t sequence;
    /* Relaxed, ordered by sequence. */
    _Atomic uint64_t meta, count;
    _Atomic(const struct rcmi_plan *) plan;
    _Atomic int32_t collective, dtype, op;
    _Atomic uint32_t form; /* rcmi_call_form */
};

/* Of one of unequal blocks that all ranks know, written before it. Relaxed: the call's sequence
 * says that they are there, their own that they are still these. */
struct call_counts {
    _Atomic uint64_t sequence, counts[RCMI_CALL_COUNTS], counts_hash;
};

struct rcmi_call_log {
    struct rcmi_call_log_config config;
    pthread_mutex_t lock;
    struct call own[HISTORY];        /* by sequence modulo HISTORY */
    struct call_counts counts[TOLD]; /* by sequence modulo TOLD */
    struct rcmi_call_record *heard;  /* by rank: the first it told that is not called here yet */
    /* Of those, how many are of a call that is not made here yet. Changed under the lock; relaxed.
     * Of a thread that publishes a call and then looks here, and one that raises this and then
     * looks for the call, neither may see the other, within some nanoseconds: then
     * rcmi_call_log_tell compares both, or the next call (a fence here, in every call, took longer
     * than all else that is written for it). */
    _Atomic int nheard;
    bool *told; /* by rank: whether it was told all of this rank's calls */
};

rcm_status rcmi_call_log_create(const struct rcmi_call_log_config *config,
                                struct rcmi_call_log **ret_log) {
    const size_t n = (size_t)config->members->size;
    struct rcmi_call_log *log = calloc(1, sizeof(*log));
    if (log) {
        log->heard = calloc(n, sizeof(*log->heard));
        log->told = calloc(n, sizeof(*log->told));
        log->config = *config;
        pthread_mutex_init(&log->lock, NULL);
    }
    if (!log || !log->heard || !log->told) {
        rcmi_call_log_free(log);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the call records of %zu ranks", n);
    }
    *ret_log = log;
    return RCM_OK;
}

void rcmi_call_log_free(struct rcmi_call_log *log) {
    if (!log)
        return;
    pthread_mutex_destroy(&log->lock);
    free(log->heard);
    free(log->told);
    free(log);
}

void rcmi_call_record_describe(const struct rcmi_call_record *record, char *text, size_t cap) {
    struct rcmi_activity call = {.collective = record->collective,
                                 .called_as = record->collective,
                                 .count = record->count,
                                 .dtype = record->dtype,
                                 .op = record->op,
                                 .root = record->root,
                                 .parting = record->form == RCMI_FORM_PARTING};
    char plain[96];
    memcpy(call.algorithm, record->algorithm, sizeof(call.algorithm));
    memcpy(call.op_name, record->op_name, sizeof(call.op_name));
    rcmi_activity_sanitize(&call, INT_MAX);
    rcmi_call_describe(&call, plain, sizeof(plain));
    snprintf(text, cap, "%s%s%s",
             rcmi_form_is_monitored(record->form) ? "monitored_"
             : record->form == RCMI_FORM_BYTES    ? "bytes whose lengths go by "
                                                  : "",
             plain, record->form == RCMI_FORM_MONITORED_FIRST ? " for the first missing" : "");
}

/* RCMI_CALL_COUNTS: none of those that are told. */
static uint32_t counts_first_differing(const struct rcmi_call_record *a,
                                       const struct rcmi_call_record *b) {
    uint32_t i = 0;
    while (i < RCMI_CALL_COUNTS && a->counts[i] == b->counts[i])
        i++;
    return i;
}

/* "; count 3 is 7 on rank 0, but 5 on rank 2", or nothing. */
static void counts_describe(const struct rcmi_call_record *a, int a_rank,
                            const struct rcmi_call_record *b, int b_rank, char *text, size_t cap) {
    const uint32_t i = counts_first_differing(a, b);
    text[0] = '\0';
    if (a->collective != b->collective || a->ncounts == 0 || a->counts_hash == b->counts_hash)
        return;
    if (i == RCMI_CALL_COUNTS)
        snprintf(text, cap, "; counts differ from block %u on", i);
    else
        snprintf(text, cap, "; count %u is %llu on rank %d, but %llu on rank %d", i,
                 (unsigned long long)a->counts[i], a_rank, (unsigned long long)b->counts[i],
                 b_rank);
}

/* Where only pairs of ranks know counts, one that has no elements has no kind of memory. */
static bool memory_differs(const struct rcmi_call_record *a, const struct rcmi_call_record *b) {
    const struct rcmi_collective *row = rcmi_collective_at(a->collective);
    return a->memory != b->memory && row && row->counts != RCMI_COUNTS_PAIR;
}

/* "; in device memory on rank 0, but in host memory on rank 2", or nothing. */
static void memory_describe(const struct rcmi_call_record *a, int a_rank,
                            const struct rcmi_call_record *b, int b_rank, char *text, size_t cap) {
    text[0] = '\0';
    if (memory_differs(a, b))
        snprintf(text, cap, "; in %s on rank %d, but in %s on rank %d",
                 rcmi_mem_kind_name((enum rcmi_mem_kind)a->memory), a_rank,
                 rcmi_mem_kind_name((enum rcmi_mem_kind)b->memory), b_rank);
}

/* What is not known of an operator that was freed is no difference. */
static bool op_differs(const struct rcmi_call_record *a, const struct rcmi_call_record *b) {
    if (rcmi_op_is_created(a->op) || rcmi_op_is_created(b->op))
        return false;
    return a->op != b->op || a->op_flags != b->op_flags || strcmp(a->op_name, b->op_name) != 0;
}

/* "; compose is commutative on rank 0, but not on rank 2", or nothing. */
static void op_flags_describe(const struct rcmi_call_record *a, int a_rank,
                              const struct rcmi_call_record *b, int b_rank, char *text,
                              size_t cap) {
    const bool commutes = a->op_flags & RCM_OP_COMMUTATIVE;
    text[0] = '\0';
    if (a->op == b->op && a->op_flags != b->op_flags && strcmp(a->op_name, b->op_name) == 0)
        snprintf(text, cap, "; %.*s is commutative on rank %d, but not on rank %d",
                 (int)sizeof(a->op_name), a->op_name, commutes ? a_rank : b_rank,
                 commutes ? b_rank : a_rank);
}

static bool log_are_one_call(const struct rcmi_call_record *a, const struct rcmi_call_record *b) {
    return a->collective == b->collective && a->count == b->count && a->dtype == b->dtype &&
           !op_differs(a, b) && a->root == b->root && a->form == b->form && !memory_differs(a, b) &&
           a->counts_hash == b->counts_hash && strcmp(a->algorithm, b->algorithm) == 0;
}

/* A mismatch if the two calls of one number differ: the other rank may find it as well. If only
 * earlier ones did, the other rank is told all calls of this one, and finds which. */
static void log_compare(struct rcmi_call_log *log, const struct rcmi_call_record *own, int rank,
                        const struct rcmi_call_record *other) {
    const struct rcmi_call_log_config *config = &log->config;
    char a[160], b[160], counts[96], memory[96], flags[96];
    if (own->meta == other->meta)
        return;
    if (log_are_one_call(own, other)) {
        rcmi_call_log_tell_history(log, rank);
        return;
    }
    rcmi_call_record_describe(own, a, sizeof(a));
    rcmi_call_record_describe(other, b, sizeof(b));
    counts_describe(own, config->members->rank, other, rank, counts, sizeof(counts));
    memory_describe(own, config->members->rank, other, rank, memory, sizeof(memory));
    op_flags_describe(own, config->members->rank, other, rank, flags, sizeof(flags));
    rcmi_fail_origin(RCM_ERR_MISMATCH, rank,
                     "operation %llu is %s on rank %d, but %s on rank %d%s%s%s",
                     (unsigned long long)own->sequence, a, config->members->rank, b, rank, counts,
                     memory, flags);
    config->mismatch(config->arg);
}

#define PUT_IN(at, field, value) atomic_store_explicit(&(at)->field, value, memory_order_relaxed)
#define GET_OF(at, field)        atomic_load_explicit(&(at)->field, memory_order_relaxed)
#define PUT(field, value)        PUT_IN(call, field, value)
#define GET(field)               GET_OF(call, field)

/* How many counts of its blocks are told of a call. */
static uint32_t call_ncounts(int32_t collective, int nranks) {
    const struct rcmi_collective *row = rcmi_collective_at(collective);
    if (!row || row->counts != RCMI_COUNTS_ALL)
        return 0;
    return nranks < RCMI_CALL_COUNTS ? (uint32_t)nranks : RCMI_CALL_COUNTS;
}

static __attribute__((noinline)) void call_publish_counts(struct call_counts *counts,
                                                          const struct rcmi_call_entry *entry) {
    uint32_t n;
    const struct rcmi_block *blocks = rcmi_bind_counts(entry->bind, &n);
    uint64_t hash = n;
    for (uint32_t i = 0; i < n; i++)
        hash = (hash ^ blocks[i].count) * UINT64_C(0x100000001b3); /* FNV-1a, by words */
    PUT_IN(counts, sequence, entry->sequence);
    /* Partner: the acquire fence in record_counts. A reader that sees a count of this call sees its
     * number. */
    atomic_thread_fence(memory_order_release);
    PUT_IN(counts, counts_hash, hash);
    for (uint32_t i = 0; i < n && i < RCMI_CALL_COUNTS; i++)
        PUT_IN(counts, counts[i], blocks[i].count);
}

static void call_publish(struct call *call, const struct rcmi_call_entry *entry) {
    const struct rcmi_bind *bind = entry->bind;
    PUT(sequence, 0);
    /* Partner: the acquire fence in call_record. A reader that sees a word of this call sees that
     * 0, or the new number. */
    atomic_thread_fence(memory_order_release);
    PUT(meta, bind->meta);
    PUT(count, bind->reported_count);
    PUT(plan, bind->plan);
    PUT(collective, (int32_t)bind->collective);
    PUT(dtype, (int32_t)bind->dtype);
    PUT(op, (int32_t)bind->op);
    PUT(form, entry->form);
    /* Partner: the acquire load in call_record. */
    atomic_store_explicit(&call->sequence, entry->sequence, memory_order_release);
}

static void record_operator(struct rcmi_call_record *record, rcm_op op) {
    struct rcmi_operator_identity created = {.kind = op};
    (void)rcmi_operator_identify(op, &created);
    record->op = created.kind;
    record->op_flags = created.flags;
    memcpy(record->op_name, created.name, sizeof(record->op_name));
}

/* False: they are of a later call. */
static bool record_counts(struct rcmi_call_record *record, const struct call_counts *counts,
                          uint64_t sequence) {
    for (uint32_t i = 0; i < record->ncounts; i++)
        record->counts[i] = GET_OF(counts, counts[i]);
    record->counts_hash = record->ncounts > 0 ? GET_OF(counts, counts_hash) : 0;
    /* Partner: the release fence in call_publish_counts. */
    atomic_thread_fence(memory_order_acquire);
    return record->ncounts == 0 || GET_OF(counts, sequence) == sequence;
}

/* With sequence 0 if there is no such call, or it is just being overwritten, or its counts are; or
 * without counts, if none are given. */
static struct rcmi_call_record call_record(const struct call *call,
                                           const struct call_counts *counts, uint64_t epoch) {
    struct rcmi_call_record record = {.magic = RCMI_CALL_RECORD_MAGIC, .epoch = epoch};
    const uint64_t sequence = atomic_load_explicit(&call->sequence, memory_order_acquire);
    if (sequence == 0)
        return record;
    const struct rcmi_plan *plan = GET(plan);
    record.meta = GET(meta);
    record.count = GET(count);
    record.collective = GET(collective);
    record.ncounts = counts ? call_ncounts(record.collective, plan->nranks) : 0;
    record.dtype = GET(dtype);
    record_operator(&record, GET(op));
    record.root = plan->root;
    const uint32_t form = GET(form);
    record.form = (uint16_t)form;
    record.memory = (uint16_t)(form >> 16);
    snprintf(record.algorithm, sizeof(record.algorithm), "%s", plan->algorithm);
    const bool counted = record_counts(&record, counts, sequence);
    /* Partner: the release fence in call_publish. */
    atomic_thread_fence(memory_order_acquire);
    record.sequence = counted && GET(sequence) == sequence ? sequence : 0;
    return record;
}

static struct rcmi_call_record log_record(const struct rcmi_call_log *log, uint64_t sequence) {
    return call_record(&log->own[sequence % HISTORY], &log->counts[sequence % TOLD],
                       log->config.members->epoch);
}

uint64_t rcmi_call_log_last(const struct rcmi_call_log *log) {
    uint64_t last = 0;
    for (int i = 0; i < HISTORY; i++) {
        const uint64_t sequence = GET_OF(&log->own[i], sequence);
        last = sequence > last ? sequence : last;
    }
    return last;
}

bool rcmi_call_log_read(const struct rcmi_call_log *log, uint64_t sequence,
                        struct rcmi_call_record *ret_record) {
    *ret_record = call_record(&log->own[sequence % HISTORY], NULL, log->config.members->epoch);
    return ret_record->sequence == sequence;
}

#undef PUT
#undef GET
#undef PUT_IN
#undef GET_OF

/* Takes what rank told of a call up to that number; false if it told nothing. Under the lock. */
static bool log_take(struct rcmi_call_log *log, int rank, uint64_t sequence,
                     struct rcmi_call_record *ret_record) {
    struct rcmi_call_record *heard = &log->heard[rank];
    if (heard->sequence == 0 || heard->sequence > sequence)
        return false;
    *ret_record = *heard;
    heard->sequence = 0;
    atomic_fetch_sub_explicit(&log->nheard, 1, memory_order_relaxed);
    return true;
}

/* A rank told of a call that had not been made yet, but now is, with this number or before:
 * compares. */
static void log_compare_heard(struct rcmi_call_log *log, uint64_t sequence) {
    const struct rcmi_members *members = log->config.members;
    struct rcmi_call_record other;
    for (int r = 0; r < members->size; r++) {
        pthread_mutex_lock(&log->lock);
        const bool told = log_take(log, r, sequence, &other);
        pthread_mutex_unlock(&log->lock); /* failing takes other locks */
        if (!told)
            continue;
        const struct rcmi_call_record own = log_record(log, other.sequence);
        if (own.sequence == other.sequence)
            log_compare(log, &own, r, &other);
    }
}

void rcmi_call_log_add(struct rcmi_call_log *log, const struct rcmi_call_entry *entry) {
    if (rcmi_bind_is_uneven(entry->bind))
        call_publish_counts(&log->counts[entry->sequence % TOLD], entry);
    call_publish(&log->own[entry->sequence % HISTORY], entry);
    if (atomic_load_explicit(&log->nheard, memory_order_relaxed) > 0)
        log_compare_heard(log, entry->sequence);
}

/* Keeps what was told of a call that was not made yet: the first of those, for this rank may come
 * no further than that. False if it was made meanwhile. Under the lock. */
static bool log_keep(struct rcmi_call_log *log, int rank, const struct rcmi_call_record *said,
                     struct rcmi_call_record *own) {
    struct rcmi_call_record *heard = &log->heard[rank], again;
    if (heard->sequence > 0 && heard->sequence <= said->sequence)
        return true;
    const bool first = heard->sequence == 0;
    *heard = *said;
    if (first)
        atomic_fetch_add_explicit(&log->nheard, 1, memory_order_relaxed);
    *own = log_record(log, said->sequence);
    return own->sequence < said->sequence || !log_take(log, rank, own->sequence, &again);
}

void rcmi_call_log_hear(struct rcmi_call_log *log, int rank, const struct rcmi_call_record *said) {
    pthread_mutex_lock(&log->lock);
    struct rcmi_call_record own = log_record(log, said->sequence);
    const bool early = own.sequence < said->sequence && log_keep(log, rank, said, &own);
    pthread_mutex_unlock(&log->lock);
    if (!early && own.sequence == said->sequence)
        log_compare(log, &own, rank, said);
}

/* peer -1: the slots of a multicast channel, which any rank of this host may hold. */
void rcmi_call_log_tell(struct rcmi_call_log *log, const struct rcmi_call_entry *entry, int peer) {
    const struct rcmi_members *members = log->config.members;
    struct call call = {.sequence = 0};
    struct call_counts counts = {.sequence = 0};
    if (atomic_load_explicit(&log->nheard, memory_order_relaxed) > 0)
        log_compare_heard(log, entry->sequence);
    if (rcmi_bind_is_uneven(entry->bind))
        call_publish_counts(&counts, entry);
    call_publish(&call, entry);
    const struct rcmi_call_record record = call_record(&call, &counts, members->epoch);
    for (int r = 0; r < members->size; r++)
        if (r == peer || (peer < 0 && r != members->rank &&
                          members->host_of[r] == members->host_of[members->rank]))
            (void)rcmi_node_send(members->node, members->world_rank[r], &record, sizeof(record));
}

/* Oldest first: where the calls of two ranks differ first, the one that hears finds it. */
void rcmi_call_log_tell_history(struct rcmi_call_log *log, int peer) {
    const struct rcmi_members *members = log->config.members;
    struct rcmi_call_record own[TOLD];
    if (peer < 0 || peer >= members->size)
        return;
    pthread_mutex_lock(&log->lock);
    const bool told = log->told[peer];
    const uint64_t last = rcmi_call_log_last(log);
    log->told[peer] = true;
    for (uint64_t i = 0; i < TOLD; i++)
        own[i] = log_record(log, last - i);
    pthread_mutex_unlock(&log->lock);
    for (uint64_t i = TOLD; !told && i-- > 0;)
        if (own[i].sequence > 0 && own[i].sequence + i == last)
            (void)rcmi_node_send(members->node, members->world_rank[peer], &own[i], sizeof(own[0]));
}
