/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The counters of a communicator:
 *
 *     counters RANKS PLACEMENT
 *
 * Every algorithm sends the number of messages and bytes per transport that its plan contains.
 * Two-level forms send only the minimum between hosts. All ranks together receive what they sent.
 * PLACEMENT has a letter per rank for its host, repeated as needed: "aab" is hosts a, a, b, a, a,
 * b, ...
 */
#include "ranks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plan.h"

enum { COUNT = 1000, RANKS_MAX = 64 };

static const char *placement;
static struct rcmi_shape shape;
static int host_of[RANKS_MAX];

static void place_shape(int n) {
    int hosts[256];
    memset(hosts, -1, sizeof hosts);
    shape = (struct rcmi_shape){.nranks = n, .host_of = host_of};
    for (int r = 0; r < n; r++) {
        int *host = &hosts[(unsigned char)placement[(size_t)r % strlen(placement)]];
        if (*host < 0)
            *host = shape.nhosts++;
        host_of[r] = *host;
    }
}

static void place_rank(int rank) {
    const char id[] = {placement[(size_t)rank % strlen(placement)], '\0'};
    setenv("RINGCOMM_HOST_ID", id, 1);
}

/* ---- One call -------------------------------------------------------------------------------- */

struct buffers {
    void *in, *out;
    size_t counts[RANKS_MAX];
};

static rcm_status call(rcm_comm *comm, enum rcm_collective collective, const struct buffers *b,
                       const struct rcm_call *how) {
    const rcm_dtype type = RCM_INT32;
    switch (collective) {
    case RCM_ALL_REDUCE:
        return rcm_all_reduce(comm, b->in, b->out, COUNT, type, RCM_SUM, how, NULL);
    case RCM_BROADCAST:
        return rcm_broadcast(comm, b->in, COUNT, type, 0, how, NULL);
    case RCM_BARRIER:
        return rcm_barrier(comm, how, NULL);
    case RCM_REDUCE:
        return rcm_reduce(comm, b->in, b->out, COUNT, type, RCM_SUM, 0, how, NULL);
    case RCM_SCATTER:
        return rcm_scatter(comm, b->in, b->out, COUNT, type, 0, how, NULL);
    case RCM_GATHER:
        return rcm_gather(comm, b->in, b->out, COUNT, type, 0, how, NULL);
    case RCM_ALL_GATHER:
        return rcm_all_gather(comm, b->in, b->out, COUNT, type, how, NULL);
    case RCM_REDUCE_SCATTER:
        return rcm_reduce_scatter(comm, b->in, b->out, COUNT, type, RCM_SUM, how, NULL);
    case RCM_ALL_TO_ALL:
        return rcm_all_to_all(comm, b->in, b->out, COUNT, type, how, NULL);
    case RCM_ALL_TO_ALL_V:
        return rcm_all_to_all_v(comm, b->in, b->counts, NULL, b->out, b->counts, NULL, type, how,
                                NULL);
    case RCM_SCAN:
        return rcm_scan(comm, b->in, b->out, COUNT, type, RCM_SUM, how, NULL);
    case RCM_EXSCAN:
        return rcm_exscan(comm, b->in, b->out, COUNT, type, RCM_SUM, how, NULL);
    default:
        return RCM_ERR_UNSUPPORTED;
    }
}

/* ---- Contents of a plan ---------------------------------------------------------------------- */

struct amount {
    uint64_t inside, between; /* bytes to ranks of the same host, and of others */
};

static size_t step_bytes(const struct rcmi_plan *plan, const struct rcmi_step *step) {
    size_t sum = 0;
    for (uint32_t i = 0; i < step->nchunks && step->op != RCMI_STEP_SIGNAL; i++) {
        size_t first, count;
        const uint32_t chunk = rcmi_step_chunk(plan, step, i);
        rcmi_chunk_range(COUNT, sizeof(int32_t), plan->parts, chunk % plan->parts, &first, &count);
        sum += plan->collective == RCM_BARRIER ? 0 : count * sizeof(int32_t);
    }
    return sum;
}

static struct amount plan_sends(const struct rcmi_plan *plan) {
    struct amount amount = {0};
    for (uint32_t i = 0; i < plan->nsteps; i++) {
        const struct rcmi_step *step = &plan->steps[i];
        if (step->out == RCMI_NO_CHANNEL)
            continue;
        const int peer = plan->channels[step->out].peer;
        const bool inside = peer < 0 || host_of[peer] == host_of[plan->rank];
        *(inside ? &amount.inside : &amount.between) += step_bytes(plan, step);
    }
    return amount;
}

/* ---- Sent messages and bytes ----------------------------------------------------------------- */

static struct rcm_counters counters_of(rcm_comm *comm, int *errors) {
    struct rcm_counters counters = RCM_COUNTERS_INIT;
    const rcm_status status = rcm_comm_counters(comm, &counters);
    CHECK(*errors, status == RCM_OK, "%s: %s", rcm_status_name(status), rcm_last_error());
    return counters;
}

/* By the network transport, or by all others. */
static uint64_t sent_bytes(const struct rcm_counters *counters, bool between) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < counters->ntransports; i++)
        if ((strcmp(counters->transports[i].transport, "tcp") == 0) == between)
            sum += counters->transports[i].sent_bytes;
    return sum;
}

static struct amount amount_between(const struct rcm_counters *before,
                                    const struct rcm_counters *after) {
    return (struct amount){.inside = sent_bytes(after, false) - sent_bytes(before, false),
                           .between = sent_bytes(after, true) - sent_bytes(before, true)};
}

/* The number of ordered pairs of ranks on different hosts. */
static uint64_t blocks_between(void) {
    uint64_t n = 0;
    for (int a = 0; a < shape.nranks; a++)
        for (int b = 0; b < shape.nranks; b++)
            n += host_of[a] != host_of[b];
    return n;
}

/* The minimum of bytes between hosts: what each host lacks of the vector or of all blocks. */
static uint64_t least_between(enum rcm_collective collective) {
    const uint64_t others = (uint64_t)shape.nhosts - 1, vector = COUNT * sizeof(int32_t);
    switch (collective) {
    case RCM_ALL_REDUCE:
        return 2 * others * vector;
    case RCM_BROADCAST:
    case RCM_REDUCE:
        return others * vector;
    case RCM_ALL_GATHER:
    case RCM_REDUCE_SCATTER:
        return others * vector * (uint64_t)shape.nranks;
    case RCM_ALL_TO_ALL:
        return blocks_between() * vector;
    default:
        return 0;
    }
}

/* Summed over all ranks. Two-level forms must not exceed the minimum. */
static int check_between(rcm_comm *comm, const struct rcmi_algorithm *algorithm, uint64_t bytes) {
    const uint64_t least = least_between(algorithm->collective);
    uint64_t all = 0;
    int errors = 0;
    CHECK(errors, rcm_all_reduce(comm, &bytes, &all, 1, RCM_UINT64, RCM_SUM, NULL, NULL) == RCM_OK,
          "%s", rcm_last_error());
    CHECK(errors, all >= least && (!strstr(algorithm->name, "two_level") || all == least),
          "%s %s: %llu bytes between hosts, the minimum is %llu",
          rcmi_collective_name(algorithm->collective), algorithm->name, (unsigned long long)all,
          (unsigned long long)least);
    return errors;
}

static int check_algorithm(rcm_comm *comm, const struct rcmi_algorithm *algorithm,
                           const struct buffers *b) {
    const int rank = rcm_rank(comm);
    struct rcm_call how = RCM_CALL_INIT;
    struct rcmi_plan *plan = NULL;
    int errors = 0;
    how.algorithm = algorithm->name;
    CHECK(errors, algorithm->emit(algorithm, &shape, rank, 0, &plan) == RCM_OK, "%s",
          algorithm->name);
    const struct rcm_counters before = counters_of(comm, &errors);
    CHECK(errors, call(comm, algorithm->collective, b, &how) == RCM_OK, "%s", rcm_last_error());
    const struct rcm_counters after = counters_of(comm, &errors);
    const struct amount got = amount_between(&before, &after);
    const struct amount want = plan ? plan_sends(plan) : got;
    CHECK(errors, got.inside == want.inside && got.between == want.between,
          "%s %s: rank %d sent %llu bytes inside and %llu between hosts, not %llu and %llu",
          rcmi_collective_name(algorithm->collective), algorithm->name, rank,
          (unsigned long long)got.inside, (unsigned long long)got.between,
          (unsigned long long)want.inside, (unsigned long long)want.between);
    CHECK(errors, after.collectives == before.collectives + 1, "%s: %llu calls", algorithm->name,
          (unsigned long long)after.collectives);
    rcmi_plan_free(plan);
    return errors ? errors : check_between(comm, algorithm, got.between);
}

static int check_algorithms(rcm_comm *comm, void *arg) {
    const size_t bytes = (size_t)rcm_size(comm) * COUNT * sizeof(int32_t);
    struct buffers b = {.in = calloc(1, bytes), .out = calloc(1, bytes)};
    int errors = b.in && b.out ? 0 : 1;
    (void)arg;
    for (int r = 0; r < RANKS_MAX; r++)
        b.counts[r] = COUNT;
    for (size_t i = 0; rcmi_algorithms[i] && errors == 0; i++)
        if (rcmi_algorithms[i]->supports(&shape))
            errors += check_algorithm(comm, rcmi_algorithms[i], &b);
    free(b.in);
    free(b.out);
    return errors;
}

/* ---- Sums over all ranks --------------------------------------------------------------------- */

enum { SENT, SENT_BYTES, RECEIVED, RECEIVED_BYTES, SUMS };

static void counters_sum(const struct rcm_counters *counters, uint64_t sums[SUMS]) {
    memset(sums, 0, SUMS * sizeof sums[0]);
    for (uint32_t i = 0; i < counters->ntransports; i++) {
        sums[SENT] += counters->transports[i].sent;
        sums[SENT_BYTES] += counters->transports[i].sent_bytes;
        sums[RECEIVED] += counters->transports[i].received;
        sums[RECEIVED_BYTES] += counters->transports[i].received_bytes;
    }
}

/* Messages of all protocols: a small one, one of several slots, and one large enough for get. */
static void exchange(rcm_comm *comm, char *bytes, size_t len, int *errors) {
    const int n = rcm_size(comm), rank = rcm_rank(comm);
    const rcm_status status = rcm_sendrecv(comm, bytes, len, (rank + 1) % n, 7, bytes + len, len,
                                           (rank + n - 1) % n, 7, RCM_UINT8, NULL, NULL);
    CHECK(*errors, status == RCM_OK, "%s", rcm_last_error());
}

/* On an idle communicator, what was sent has been received, and the bytes are those of the messages
 * plus headers. */
static int check_messages(rcm_comm *comm, void *arg) {
    static const size_t lengths[] = {1, 5000, 3 << 20};
    const int n = rcm_size(comm);
    uint64_t mine[SUMS], all[SUMS] = {0}, expected = 0;
    rcm_comm *twin = NULL;
    int errors = 0;
    char *bytes = malloc(2 * lengths[2]);
    (void)arg;
    CHECK(errors, bytes && rcm_comm_duplicate(comm, NULL, &twin) == RCM_OK, "%s", rcm_last_error());
    if (errors)
        return errors;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        memset(bytes, 7, 2 * lengths[i]);
        exchange(twin, bytes, lengths[i], &errors);
        expected += (uint64_t)n * lengths[i];
    }
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    const struct rcm_counters counters = counters_of(twin, &errors);
    counters_sum(&counters, mine);
    CHECK(errors, rcm_all_reduce(comm, mine, all, SUMS, RCM_UINT64, RCM_SUM, NULL, NULL) == RCM_OK,
          "%s", rcm_last_error());
    CHECK(errors, all[SENT_BYTES] >= expected && all[SENT_BYTES] < expected + (uint64_t)n * 4096,
          "%llu bytes sent, not %llu and headers", (unsigned long long)all[SENT_BYTES],
          (unsigned long long)expected);
    CHECK(errors,
          all[RECEIVED_BYTES] >= expected && all[RECEIVED_BYTES] < expected + (uint64_t)n * 4096,
          "%llu bytes received, not %llu and headers", (unsigned long long)all[RECEIVED_BYTES],
          (unsigned long long)expected);
    CHECK(errors, counters.slot_bytes > 0 && counters.collectives == 0, "%llu bytes of slots",
          (unsigned long long)counters.slot_bytes);
    CHECK(errors, rcm_destroy(twin) == RCM_OK, "%s", rcm_last_error());
    free(bytes);
    return errors;
}

int main(int argc, char **argv) {
    if (argc < 3 || atoi(argv[1]) < 1 || atoi(argv[1]) > RANKS_MAX || !argv[2][0]) {
        fprintf(stderr, "usage: counters RANKS PLACEMENT\n");
        return 2;
    }
    const struct ranks ranks = {.n = atoi(argv[1]), .transport = "auto", .before = place_rank};
    placement = argv[2];
    place_shape(ranks.n);
    setenv("RINGCOMM_SLOT_BYTES", "4096", 0);
    int errors = ranks_run(&ranks, check_algorithms, NULL);
    errors += ranks_run(&ranks, check_messages, NULL);
    return errors ? 1 : 0;
}
