/* SPDX-License-Identifier: BSD-3-Clause */
/* Two pinned processes that measure together, their nodes, and rows; see floor.h. */
#include "floor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "clock.h"
#include "common.h"
#include "error.h"
#include "report.h"
#include "settings.h"

/* ---- rows ----------------------------------------------------------------------------------- */

void floor_add(struct floor_series *series, double value) {
    if (series->n < FLOOR_MAX_ROUNDS)
        series->values[series->n++] = value;
}

static int double_compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double floor_median(struct floor_series *series) {
    const int n = series->n;
    qsort(series->values, (size_t)n, sizeof(double), double_compare);
    return (series->values[(n - 1) / 2] + series->values[n / 2]) / 2;
}

void floor_row(const struct floor *f, const char *what, const char *how, int cores, size_t bytes,
               const char *unit, struct floor_series *series) {
    const int n = series->n;
    if (n == 0)
        return;
    const double median = floor_median(series);
    const struct report_cell cells[] = {
        report_text(what),
        report_text(how),
        report_int(cores),
        bytes ? report_int((int64_t)bytes) : report_missing(),
        report_text(unit),
        report_int(n),
        report_real(series->values[0], 2),
        report_real(median, 2),
        report_real(series->values[n - 1], 2),
    };
    report_row(f->report, cells);
}

bool floor_failed(const char *what) {
    const struct rcmi_error *error = rcmi_last_error();
    if (error->status != RCM_OK)
        tool_error("%s: %s (%s)", what, error->text, rcm_status_name(error->status));
    else
        tool_error("%s", what);
    return false;
}

/* ---- two processes -------------------------------------------------------------------------- */

static bool side_pin(const struct floor *f, int rank) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)f->cpus[rank], &set);
    if (sched_setaffinity(0, sizeof(set), &set) == 0)
        return true;
    tool_error("cannot pin to CPU %d: %s", f->cpus[rank], strerror(errno));
    return false;
}

static bool side_run(struct floor_side *side, bool (*fn)(struct floor_side *, void *), void *arg) {
    bool ok = side_pin(side->floor, side->rank) && fn(side, arg);
    if (!ok)
        atomic_store(&side->shared->failed, 1); /* pairs with the load in floor_hopeless */
    return ok;
}

/* Terminates, because the child has its own deadline. */
static bool child_wait(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return floor_failed("cannot wait for the second process");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool pair_fork(struct floor *f, struct floor_shared *shared,
                      bool (*fn)(struct floor_side *, void *), void *arg) {
    const pid_t parent = getpid();
    struct floor_side side = {.floor = f, .shared = shared};
    pid_t child = fork();
    if (child < 0) {
        tool_error("cannot start a second process: %s", strerror(errno));
        return false;
    }
    if (child == 0) {
        side.rank = 1;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(getppid() == parent && side_run(&side, fn, arg) ? 0 : 1);
    }
    bool ok = side_run(&side, fn, arg);
    return child_wait(child) && ok;
}

bool floor_pair(struct floor *f, bool (*fn)(struct floor_side *side, void *arg), void *arg) {
    cpu_set_t before;
    struct floor_shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return floor_failed("cannot map shared memory for two processes");
    const bool saved = sched_getaffinity(0, sizeof(before), &before) == 0;
    bool ok = pair_fork(f, shared, fn, arg);
    if (saved)
        sched_setaffinity(0, sizeof(before), &before);
    munmap(shared, sizeof(*shared));
    return ok;
}

bool floor_hopeless(const struct floor_side *side, uint32_t *spins) {
    return (++*spins & 0x3fff) == 0 && floor_over(side);
}

bool floor_over(const struct floor_side *side) {
    /* Pairs with the store in side_run. */
    if (atomic_load_explicit(&side->shared->failed, memory_order_relaxed))
        return true;
    if (rcmi_now_ns() < side->floor->deadline_ns)
        return false;
    tool_error("process %d of two: the --timeout has passed", side->rank);
    return true;
}

static bool side_meet(struct floor_side *side, bool polite) {
    uint32_t spins = 0;
    const uint64_t mine = ++side->meetings;
    /* Release and acquire: each side sees the other's earlier writes. */
    atomic_store_explicit(&side->shared->met[side->rank].count, mine, memory_order_release);
    while (atomic_load_explicit(&side->shared->met[1 - side->rank].count, memory_order_acquire) <
           mine) {
        if (polite)
            sched_yield();
        if (floor_hopeless(side, &spins))
            return false;
    }
    return true;
}

bool floor_meet(struct floor_side *side) {
    return side_meet(side, false);
}

bool floor_meet_politely(struct floor_side *side) {
    return side_meet(side, true);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static rcm_status node_lookup(void *arg, int peer, const void **ret_blob, size_t *ret_len) {
    const struct floor_address *address = (const struct floor_address *)arg + peer;
    const uint32_t len = atomic_load_explicit(&address->len, memory_order_acquire);
    if (len == 0)
        return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "rank %d has not published its address", peer);
    *ret_blob = address->bytes;
    *ret_len = len;
    return RCM_OK;
}

static void node_peer_lost(void *arg, int peer, const struct rcmi_error *why) {
    (void)arg;
    (void)peer;
    (void)why; /* the channels return the same error */
}

static void node_message(void *arg, int peer, const void *bytes, size_t len) {
    (void)arg;
    (void)peer;
    (void)bytes;
    (void)len;
}

static void node_wanted(void *arg, int peer, uint64_t epoch, uint32_t id) {
    (void)arg;
    (void)peer;
    (void)epoch;
    (void)id; /* both sides open their ends without a request */
}

static rcmi_deadline node_tick(void *arg) {
    (void)arg;
    return RCMI_NEVER;
}

bool floor_slots(size_t *ret_slot_bytes, uint32_t *ret_slots) {
    int64_t slot_bytes, slots;
    if (rcmi_setting_slot_bytes(2, &slot_bytes) != RCM_OK ||
        rcmi_setting_int("RINGCOMM_SLOTS", 2, 1024, &slots) != RCM_OK)
        return floor_failed("settings");
    *ret_slot_bytes = (size_t)slot_bytes;
    *ret_slots = (uint32_t)slots;
    return true;
}

static bool node_publish(struct rcmi_node *node, struct floor_address *own) {
    const void *blob;
    size_t len;
    rcmi_node_address(node, &blob, &len);
    if (len > sizeof(own->bytes))
        return floor_failed("the address of a node is too long");
    memcpy(own->bytes, blob, len);
    atomic_store_explicit(&own->len, (uint32_t)len, memory_order_release);
    return true;
}

bool floor_node_open(int rank, int nranks, const char *transport, struct floor_address *addresses,
                     struct rcmi_node **ret_node) {
    struct rcmi_node *node = NULL;
    struct rcmi_node_config config = {
        .rank = rank,
        .nranks = nranks,
        .job = 1,
        .host_id = "floor",
        .transports = transport,
        .iface = "lo",
        .ports = "",
        .lookup = node_lookup,
        .peer_lost = node_peer_lost,
        .message = node_message,
        .wanted = node_wanted,
        .tick = node_tick,
        .arg = addresses,
    };
    if (!floor_slots(&config.slot_bytes, &config.slots))
        return false;
    if (rcmi_node_create(&config, &node) != RCM_OK)
        return floor_failed("cannot create a node");
    if (!node_publish(node, &addresses[rank]) || rcmi_node_start(node) != RCM_OK) {
        floor_failed("a node does not start");
        rcmi_node_destroy(node);
        return false;
    }
    *ret_node = node;
    return true;
}
