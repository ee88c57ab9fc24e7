/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks the transport of device memory between two ranks of this host, for each pair of devices
 * and for two ranks on one device. Each pair runs in two new processes, so a failure or hang does
 * not affect other pairs. This process must not call the driver, which does not work after a fork.
 * So a child process queries the devices and stores the result in shared memory. See check_cuda.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "check_cuda.h"
#include "check_cuda_hop.h"
#include "check_log.h"
#include "../common.h"
#include "../launched.h"

enum {
    DEVICES = 32, /* at most this many are checked */
    LOOK_MS = 60000,
    PAIR_MS = 60000,
    BUDGET_S = 240, /* then no further pair starts; BUDGET_S + PAIR_MS is below the test's limit */
};

struct pair {
    struct check_cuda_hop hop;
    int devices[2];
    char failed[2][CHECK_SENTENCE]; /* of each rank */
    char why[CHECK_SENTENCE];       /* reason for going through the host; "": not in the log */
};

/* Shared with the children. */
struct shared {
    int n;
    int chosen; /* only pairs with this device; -1: all */
    struct rcmi_device_facts facts[DEVICES];
    bool reach[DEVICES][DEVICES]; /* the first can access the second (cuDeviceCanAccessPeer) */
    struct pair pair;
    char failed[CHECK_SENTENCE];
};

struct pairs {
    struct check_out *out;
    struct shared *shared;
    int64_t until;
    int tried;
};

/* ---- In child processes -------------------------------------------------------------------- */

static rcm_status look_at(struct shared *s, int i) {
    const struct rcmi_cuda *cuda;
    rcm_status status = rcmi_cuda_open(&cuda);
    if (status == RCM_OK)
        status = rcmi_device_query(i, &s->facts[i]);
    for (int k = 0; status == RCM_OK && k < s->n; k++) {
        int can = k == i;
        if (k != i)
            (void)cuda->cuDeviceCanAccessPeer(&can, i, k);
        s->reach[i][k] = can;
    }
    return status;
}

static int look_main(int rank, void *arg) {
    struct shared *s = arg;
    (void)rank;
    rcm_status status = rcmi_device_count(&s->n);
    if (status == RCM_OK)
        status = check_cuda_chosen(&s->chosen);
    s->n = s->n < DEVICES ? s->n : DEVICES;
    for (int i = 0; status == RCM_OK && i < s->n; i++)
        status = look_at(s, i);
    if (status != RCM_OK)
        snprintf(s->failed, sizeof(s->failed), "%s", rcm_last_error());
    return status == RCM_OK ? TOOL_OK : TOOL_FAILED;
}

static int pair_main(int rank, void *arg) {
    struct pair *pair = arg;
    const rcm_status status = check_cuda_hop(rank, pair->devices[rank], &pair->hop);
    if (status != RCM_OK)
        snprintf(pair->failed[rank], sizeof(pair->failed[rank]), "%s", rcm_last_error());
    return status == RCM_OK ? TOOL_OK : TOOL_FAILED;
}

/* ---- Output -------------------------------------------------------------------------------- */

/* Whether the two devices can read each other's memory, according to the driver. */
static bool pair_may_share(const struct shared *s, int a, int b) {
    return a == b || (!s->facts[a].mig && !s->facts[b].mig && s->reach[a][b] && s->reach[b][a]);
}

/* Reports why data goes through the host: as a problem only if the devices could share memory, so
 * that the owner can fix it. */
static void show_why(const struct pairs *pairs, const char *of, const struct pair *pair) {
    const int a = pair->devices[0], b = pair->devices[1];
    const char *why = pair->why[0] ? pair->why : "RINGCOMM_TRANSPORT leaves out cuda_ipc or shm";
    if (pair_may_share(pairs->shared, a, b))
        check_mend(pairs->out, of,
                   "memory of devices %d and %d goes through pinned slots of the host: %s", a, b,
                   why);
    else
        check_fact(pairs->out, of, "why through the host", "%s", why);
}

static void show(const struct pairs *pairs, const char *of, const struct pair *pair) {
    const struct check_cuda_hop *hop = &pair->hop;
    const uint64_t wrong = hop->wrong[0] + hop->wrong[1];
    const bool shared = strchr(hop->transport, '+') != NULL;
    check_fact(pairs->out, of, "plane", "%s%s, a hop %.2f us, %.2f GB/s, data %s",
               shared ? "" : "pinned slots, ", hop->transport, hop->us, hop->gbps,
               wrong ? "wrong" : "right");
    if (wrong)
        check_mend(pairs->out, of, "%llu bytes between devices %d and %d by %s are wrong",
                   (unsigned long long)wrong, pair->devices[0], pair->devices[1], hop->transport);
    if (!shared)
        show_why(pairs, of, pair);
}

static void show_failed(const struct pairs *pairs, const char *of, const struct pair *pair,
                        int rank, int code) {
    char what[CHECK_SENTENCE];
    snprintf(what, sizeof(what), "%s", rank >= 0 ? pair->failed[rank] : rcm_last_error());
    if (!what[0])
        snprintf(what, sizeof(what), "%s",
                 code > 128 ? strsignal(code - 128) : "it ended without an error text");
    check_mend(pairs->out, of, "ranks on devices %d and %d: %.400s", pair->devices[0],
               pair->devices[1], what);
}

/* ---- All pairs ----------------------------------------------------------------------------- */

/* Whether only one process at a time can use the device. */
static bool is_exclusive(const struct rcmi_device_facts *facts) {
    return facts->compute_mode == RCMI_CUDA_COMPUTE_EXCLUSIVE_PROCESS && !facts->mps;
}

static void pair_measure(struct pairs *pairs, const char *of, int a, int b) {
    struct pair *pair = &pairs->shared->pair;
    struct check_log log;
    int rank = -1, code = 0;
    memset(pair, 0, sizeof(*pair));
    pair->devices[0] = a;
    pair->devices[1] = b;
    check_log_begin(&log);
    const rcm_status status = rcm_spawn(2, pair_main, pair, PAIR_MS, &rank, &code);
    check_log_find(&log, "no plane of device memory to rank 1 by ", pair->why, sizeof(pair->why));
    check_log_end(&log);
    if (status == RCM_OK)
        show(pairs, of, pair);
    else
        show_failed(pairs, of, pair, rank, code);
}

static void pair_run(struct pairs *pairs, int a, int b) {
    char of[24];
    snprintf(of, sizeof(of), "%d-%d", a, b);
    if (a == b && is_exclusive(&pairs->shared->facts[a]))
        check_fact(pairs->out, of, "plane", "none: compute mode exclusive, and no MPS");
    else
        pair_measure(pairs, of, a, b);
    pairs->tried++;
}

static bool is_wanted(const struct shared *s, int a, int b) {
    return s->chosen < 0 || s->chosen == a || s->chosen == b;
}

/* Runs the pairs of devices with this distance in a ring of all devices. False: no time left. */
static bool pairs_apart(struct pairs *pairs, int distance) {
    const int n = pairs->shared->n;
    for (int i = 0; i < (2 * distance == n ? distance : n); i++) {
        const int k = (i + distance) % n;
        if (!is_wanted(pairs->shared, i, k))
            continue;
        if (tool_now_ns() >= pairs->until)
            return false;
        pair_run(pairs, i < k ? i : k, i < k ? k : i);
    }
    return true;
}

/* Runs pairs in order of their distance, so that each device is in an early one. */
static void pairs_each(struct pairs *pairs) {
    const int n = pairs->shared->n, all = pairs->shared->chosen < 0 ? n * (n + 1) / 2 : n;
    for (int distance = 0; distance <= n / 2; distance++)
        if (!pairs_apart(pairs, distance))
            break;
    check_fact(pairs->out, "all pairs", "tried",
               pairs->tried < all ? "%d of %d: no time for more" : "%d of %d", pairs->tried, all);
}

static void pairs_run(struct pairs *pairs) {
    struct check_log log;
    int rank, code;
    check_log_begin(&log); /* the level is read once, so it must be set before the pairs */
    const rcm_status status = rcm_spawn(1, look_main, pairs->shared, LOOK_MS, &rank, &code);
    check_log_end(&log);
    if (status == RCM_OK)
        pairs_each(pairs);
    else
        check_mend(pairs->out, "", "%s",
                   pairs->shared->failed[0] ? pairs->shared->failed : rcm_last_error());
}

void check_cuda_pairs(struct check_out *out) {
    struct pairs pairs = {.out = out, .until = tool_now_ns() + BUDGET_S * INT64_C(1000000000)};
    if (launched_local_rank() > 0) { /* all ranks of a host would check the same devices */
        check_fact(out, "", "pairs", "left to local rank 0");
        return;
    }
    void *memory = mmap(NULL, sizeof(*pairs.shared), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        check_mend(out, "", "cannot map shared memory");
        return;
    }
    pairs.shared = memory;
    pairs_run(&pairs);
    munmap(memory, sizeof(*pairs.shared));
}
