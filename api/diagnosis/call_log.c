/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Call records: the arguments of each collective of this rank. Ranks whose calls differ detect it
 * with them and report both calls.
 *
 * A message of another call is detected where it arrives (algorithms/exec/exec.c). But calls that
 * differ may use different channels. Then each rank waits for a message that no rank sends. So a
 * rank whose collective has not finished after NOTICE_NS sends its call record to the rank that it
 * waits for. That rank compares it with its own call of that number, or later, when it makes that
 * call.
 *
 * A call may differ and complete nevertheless, for example if each rank is its own root of a
 * broadcast. Then the mismatch is detected in the next call, because the hash in its messages
 * covers all calls. If two equal calls have different hashes, the rank that detects it sends all
 * its stored calls to the other.
 *
 * The lock guards received records, shared by the issuing thread, the driver and the loop thread.
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
#define SENT    64 /* calls that are sent to another rank, and whose counts are stored */

/* A call of this rank. The issuing thread writes it without a lock, because every call passes here.
 * A reader checks sequence before and after. The record is made on demand, which is rare. */
struct call {
    /* 0 while the rest is written. Its stores pair with the acquire loads in call_record. */
    _Atomic uint64_t sequence;
    /* Relaxed, ordered by sequence. */
    _Atomic uint64_t meta, count;
    _Atomic(const struct rcmi_plan *) plan;
    _Atomic int32_t collective, dtype, op;
    _Atomic uint32_t form; /* rcmi_call_form */
};

/* Counts of unequal blocks that all ranks have, written before the call. Relaxed: the call's
 * sequence shows that they are there, their own that they are still of this call. */
struct call_counts {
    _Atomic uint64_t sequence, counts[RCMI_CALL_COUNTS], counts_hash;
};

struct rcmi_call_log {
    struct rcmi_call_log_config config;
    pthread_mutex_t lock;
    struct call own[HISTORY];          /* by sequence modulo HISTORY */
    struct call_counts counts[SENT];   /* by sequence modulo SENT */
    struct rcmi_call_record *received; /* by rank: first received call not made here yet */
    /* Number of received calls that are not made here yet. Changed under the lock; relaxed. Trap:
     * one thread publishes a call and then reads this, while another raises this and then reads the
     * call. Within some nanoseconds neither may see the other's store. Then rcmi_call_log_send
     * compares both, or the next call does. (A fence in every call took longer than all other
     * stores of the call.) */
    _Atomic int nreceived;
    bool *sent; /* by rank: whether it got all of this rank's stored calls */
};

rcm_status rcmi_call_log_create(const struct rcmi_call_log_config *config,
                                struct rcmi_call_log **ret_log) {
    const size_t n = (size_t)config->members->size;
    struct rcmi_call_log *log = calloc(1, sizeof(*log));
    if (log) {
        log->received = calloc(n, sizeof(*log->received));
        log->sent = calloc(n, sizeof(*log->sent));
        log->config = *config;
        pthread_mutex_init(&log->lock, NULL);
    }
    if (!log || !log->received || !log->sent) {
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
    free(log->received);
    free(log->sent);
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
             : record->form == RCMI_FORM_BYTES    ? "an exchange of lengths by "
             : record->form == RCMI_FORM_ASYNC    ? "asynchronous "
                                                  : "",
             plain, record->form == RCMI_FORM_MONITORED_FIRST ? " for the first missing" : "");
}

/* RCMI_CALL_COUNTS: none of those in the record. */
static uint32_t counts_first_differing(const struct rcmi_call_record *a,
                                       const struct rcmi_call_record *b) {
    uint32_t i = 0;
    while (i < RCMI_CALL_COUNTS && a->counts[i] == b->counts[i])
        i++;
    return i;
}

/* Writes "; count 3 is 7 on rank 0, but 5 on rank 2", or nothing. */
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

/* If only pairs of ranks have the counts, a rank without elements has no memory kind. */
static bool memory_differs(const struct rcmi_call_record *a, const struct rcmi_call_record *b) {
    const struct rcmi_collective *row = rcmi_collective_at(a->collective);
    return a->memory != b->memory && row && row->counts != RCMI_COUNTS_PAIR;
}

/* Writes "; in device memory on rank 0, but in host memory on rank 2", or nothing. */
static void memory_describe(const struct rcmi_call_record *a, int a_rank,
                            const struct rcmi_call_record *b, int b_rank, char *text, size_t cap) {
    text[0] = '\0';
    if (memory_differs(a, b))
        snprintf(text, cap, "; in %s on rank %d, but in %s on rank %d",
                 rcmi_mem_kind_name((enum rcmi_mem_kind)a->memory), a_rank,
                 rcmi_mem_kind_name((enum rcmi_mem_kind)b->memory), b_rank);
}

/* Unknown properties of a freed operator are no difference. */
static bool op_differs(const struct rcmi_call_record *a, const struct rcmi_call_record *b) {
    if (rcmi_op_is_created(a->op) || rcmi_op_is_created(b->op))
        return false;
    return a->op != b->op || a->op_flags != b->op_flags || strcmp(a->op_name, b->op_name) != 0;
}

/* Writes "; compose is commutative on rank 0, but not on rank 2", or nothing. */
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

/* Reports a mismatch if the two calls of one number differ; the other rank may find it as well.
 * If only earlier calls differed, sends all calls to the other rank, which finds the first
 * difference. */
static void log_compare(struct rcmi_call_log *log, const struct rcmi_call_record *own, int rank,
                        const struct rcmi_call_record *other) {
    const struct rcmi_call_log_config *config = &log->config;
    char a[160], b[160], counts[96], memory[96], flags[96];
    if (own->meta == other->meta)
        return;
    if (log_are_one_call(own, other)) {
        rcmi_call_log_send_history(log, rank);
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

/* Number of block counts in the record of a call. */
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
    /* Partner: the acquire fence in record_counts. A reader that sees a count of this call also
     * sees its number. */
    atomic_thread_fence(memory_order_release);
    PUT_IN(counts, counts_hash, hash);
    for (uint32_t i = 0; i < n && i < RCMI_CALL_COUNTS; i++)
        PUT_IN(counts, counts[i], blocks[i].count);
}

static void call_publish(struct call *call, const struct rcmi_call_entry *entry) {
    const struct rcmi_bind *bind = entry->bind;
    PUT(sequence, 0);
    /* Partner: the acquire fence in call_record. A reader that sees a field of this call also sees
     * that 0, or the new number. */
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

/* Makes the record. Its sequence is 0 if there is no such call, or if the call or its counts are
 * being overwritten. counts NULL: without counts. */
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
    return call_record(&log->own[sequence % HISTORY], &log->counts[sequence % SENT],
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

/* Takes the received record of a rank, if its number is at most `sequence`; false: there is none.
 * Under the lock. */
static bool log_take(struct rcmi_call_log *log, int rank, uint64_t sequence,
                     struct rcmi_call_record *ret_record) {
    struct rcmi_call_record *received = &log->received[rank];
    if (received->sequence == 0 || received->sequence > sequence)
        return false;
    *ret_record = *received;
    received->sequence = 0;
    atomic_fetch_sub_explicit(&log->nreceived, 1, memory_order_relaxed);
    return true;
}

/* Compares received calls that were not made here yet, but now are, with this number or a lower
 * one. */
static void log_compare_received(struct rcmi_call_log *log, uint64_t sequence) {
    const struct rcmi_members *members = log->config.members;
    struct rcmi_call_record other;
    for (int r = 0; r < members->size; r++) {
        pthread_mutex_lock(&log->lock);
        const bool taken = log_take(log, r, sequence, &other);
        pthread_mutex_unlock(&log->lock); /* failing takes other locks */
        if (!taken)
            continue;
        const struct rcmi_call_record own = log_record(log, other.sequence);
        if (own.sequence == other.sequence)
            log_compare(log, &own, r, &other);
    }
}

void rcmi_call_log_add(struct rcmi_call_log *log, const struct rcmi_call_entry *entry) {
    if (rcmi_bind_is_uneven(entry->bind))
        call_publish_counts(&log->counts[entry->sequence % SENT], entry);
    call_publish(&log->own[entry->sequence % HISTORY], entry);
    if (atomic_load_explicit(&log->nreceived, memory_order_relaxed) > 0)
        log_compare_received(log, entry->sequence);
}

/* Stores a received call that is not made here yet: the first one, because this rank may not get
 * beyond it. False if it was made meanwhile. Under the lock. */
static bool log_keep(struct rcmi_call_log *log, int rank, const struct rcmi_call_record *record,
                     struct rcmi_call_record *own) {
    struct rcmi_call_record *received = &log->received[rank], again;
    if (received->sequence > 0 && received->sequence <= record->sequence)
        return true;
    const bool first = received->sequence == 0;
    *received = *record;
    if (first)
        atomic_fetch_add_explicit(&log->nreceived, 1, memory_order_relaxed);
    *own = log_record(log, record->sequence);
    return own->sequence < record->sequence || !log_take(log, rank, own->sequence, &again);
}

void rcmi_call_log_receive(struct rcmi_call_log *log, int rank,
                           const struct rcmi_call_record *record) {
    pthread_mutex_lock(&log->lock);
    struct rcmi_call_record own = log_record(log, record->sequence);
    const bool early = own.sequence < record->sequence && log_keep(log, rank, record, &own);
    pthread_mutex_unlock(&log->lock);
    if (!early && own.sequence == record->sequence)
        log_compare(log, &own, rank, record);
}

/* peer -1: the slots of a multicast channel, which any rank of this host may hold. */
void rcmi_call_log_send(struct rcmi_call_log *log, const struct rcmi_call_entry *entry, int peer) {
    const struct rcmi_members *members = log->config.members;
    struct call call = {.sequence = 0};
    struct call_counts counts = {.sequence = 0};
    if (atomic_load_explicit(&log->nreceived, memory_order_relaxed) > 0)
        log_compare_received(log, entry->sequence);
    if (rcmi_bind_is_uneven(entry->bind))
        call_publish_counts(&counts, entry);
    call_publish(&call, entry);
    const struct rcmi_call_record record = call_record(&call, &counts, members->epoch);
    for (int r = 0; r < members->size; r++)
        if (r == peer || (peer < 0 && r != members->rank &&
                          members->host_of[r] == members->host_of[members->rank]))
            (void)rcmi_node_send(members->node, members->world_rank[r], &record, sizeof(record));
}

/* Oldest first: so the receiver finds the first difference between the calls of two ranks. */
void rcmi_call_log_send_history(struct rcmi_call_log *log, int peer) {
    const struct rcmi_members *members = log->config.members;
    struct rcmi_call_record own[SENT];
    if (peer < 0 || peer >= members->size)
        return;
    pthread_mutex_lock(&log->lock);
    const bool sent = log->sent[peer];
    const uint64_t last = rcmi_call_log_last(log);
    log->sent[peer] = true;
    for (uint64_t i = 0; i < SENT; i++)
        own[i] = log_record(log, last - i);
    pthread_mutex_unlock(&log->lock);
    for (uint64_t i = SENT; !sent && i-- > 0;)
        if (own[i].sequence > 0 && own[i].sequence + i == last)
            (void)rcmi_node_send(members->node, members->world_rank[peer], &own[i], sizeof(own[0]));
}
