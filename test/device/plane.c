/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device plane of a link (transport/link/device_plane.c), with the backend near_backend.h. The
 * plane comes up and carries device memory only. If it is declined, at any step and either end, the
 * host's plane is used. Calls with mixed memory kinds fail.
 *
 *     plane [CASE]
 */
#include "clock.h"
#include "../fakes/device/fake.h"
#include "near_backend.h"
#include "ranks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 3000, MOST = 8, BYTES = MOST * COUNT * (int)sizeof(int32_t) };

struct buffers {
    int32_t *in, *out; /* in device memory */
};

static struct buffers buffers_new(void) {
    return (struct buffers){fake_alloc(BYTES), fake_alloc(BYTES)};
}

static void buffers_free(const struct buffers *b) {
    fake_free(b->in);
    fake_free(b->out);
}

static void buffers_fill(const struct buffers *b, int rank) {
    int32_t *in = fake_view(b->in);
    for (int i = 0; i < MOST * COUNT; i++)
        in[i] = rank * 7 + i;
    memset(fake_view(b->out), 0x55, BYTES);
}

static int32_t sum_of(int p, int i) {
    return 7 * p * (p - 1) / 2 + p * i;
}

/* ---- Calls with known results ---------------------------------------------------------------- */

static int check_all_reduce(rcm_comm *comm, const struct buffers *b, const char *algorithm) {
    struct rcm_call call = RCM_CALL_INIT;
    int errors = 0, wrong = 0;
    const int32_t *out = fake_view(b->out);
    call.algorithm = algorithm;
    buffers_fill(b, rcm_rank(comm));
    CHECK(errors,
          rcm_all_reduce(comm, b->in, b->out, COUNT, RCM_INT32, RCM_SUM, &call, NULL) == RCM_OK,
          "all_reduce by %s: %s", algorithm ? algorithm : "cost", rcm_last_error());
    for (int i = 0; i < COUNT; i++)
        wrong += out[i] != sum_of(rcm_size(comm), i);
    CHECK(errors, wrong == 0, "all_reduce by %s: %d wrong", algorithm ? algorithm : "cost", wrong);
    return errors;
}

static int check_all_gather(rcm_comm *comm, const struct buffers *b) {
    int errors = 0, wrong = 0;
    const int32_t *out = fake_view(b->out);
    buffers_fill(b, rcm_rank(comm));
    CHECK(errors, rcm_all_gather(comm, b->in, b->out, COUNT, RCM_INT32, NULL, NULL) == RCM_OK,
          "all_gather: %s", rcm_last_error());
    for (int r = 0; r < rcm_size(comm); r++)
        for (int i = 0; i < COUNT; i++)
            wrong += out[r * COUNT + i] != r * 7 + i;
    CHECK(errors, wrong == 0, "all_gather: %d wrong", wrong);
    return errors;
}

static int check_host(rcm_comm *comm) {
    int32_t in = rcm_rank(comm), out = 0;
    int errors = 0;
    const int p = rcm_size(comm);
    CHECK(errors,
          rcm_all_reduce(comm, &in, &out, 1, RCM_INT32, RCM_SUM, NULL, NULL) == RCM_OK &&
              out == p * (p - 1) / 2,
          "host memory: %s", rcm_last_error());
    return errors;
}

static int check_calls(rcm_comm *comm) {
    static const char *const algorithms[] = {NULL, "ring", "one_shot", "two_shot", "circulant"};
    const struct buffers b = buffers_new();
    int errors = check_host(comm);
    for (size_t i = 0; i < sizeof(algorithms) / sizeof(algorithms[0]); i++)
        errors += check_all_reduce(comm, &b, algorithms[i]);
    errors += check_all_gather(comm, &b);
    errors += check_host(comm);
    buffers_free(&b);
    return errors;
}

/* ---- Planes used ----------------------------------------------------------------------------- */

static struct rcm_traffic traffic_of(rcm_comm *comm, const char *transport) {
    struct rcm_counters counters = RCM_COUNTERS_INIT;
    if (rcm_comm_counters(comm, &counters) == RCM_OK)
        for (uint32_t i = 0; i < counters.ntransports; i++)
            if (strcmp(counters.transports[i].transport, transport) == 0)
                return counters.transports[i];
    return (struct rcm_traffic){.transport = transport};
}

static int check_names(rcm_comm *comm, const char *name) {
    int errors = 0;
    for (int r = 0; r < rcm_size(comm); r++) {
        const char *by = rcm_comm_transport(comm, r);
        const bool own = r == rcm_rank(comm);
        CHECK(errors, by[0] == '\0' || own || strcmp(by, name) == 0, "rank %d: %s, not %s", r, by,
              name);
    }
    return errors;
}

/* No device memory goes through the host's plane. */
static int check_comes_up(rcm_comm *comm, void *arg) {
    const struct buffers b = buffers_new();
    int errors = check_host(comm);
    const uint64_t before = traffic_of(comm, "shm").sent_bytes;
    (void)arg;
    errors += check_all_reduce(comm, &b, NULL) + check_all_gather(comm, &b);
    CHECK(errors, traffic_of(comm, "shm").sent_bytes == before, "%llu bytes used shm",
          (unsigned long long)(traffic_of(comm, "shm").sent_bytes - before));
    CHECK(errors, traffic_of(comm, "near").sent_bytes >= COUNT * sizeof(int32_t),
          "no data used the device plane");
    buffers_free(&b);
    errors += check_calls(comm);
    return errors + check_names(comm, "shm+near");
}

static int check_declined(rcm_comm *comm, void *arg) {
    int errors = check_calls(comm);
    (void)arg;
    CHECK(errors, traffic_of(comm, "near").sent == 0, "messages used a declined plane");
    return errors + check_names(comm, "shm");
}

/* Results are right whichever plane carries them. */
static int check_absent(rcm_comm *comm, void *arg) {
    const struct buffers b = buffers_new();
    int errors = check_host(comm) + check_all_reduce(comm, &b, NULL) + check_all_gather(comm, &b);
    (void)arg;
    CHECK(errors, !strstr(rcm_comm_transport(comm, 1 - rcm_rank(comm)), "+"),
          "the device plane has come up");
    buffers_free(&b);
    return errors;
}

static int check_right(rcm_comm *comm, void *arg) {
    (void)arg;
    return check_calls(comm);
}

/* A prepared call opens no further channel. */
static int check_prepared(rcm_comm *comm, void *arg) {
    const struct buffers b = buffers_new();
    int errors = 0;
    (void)arg;
    CHECK(errors,
          rcm_comm_prepare_kind(comm, RCM_MEM_DEVICE, RCM_ALL_REDUCE, COUNT * sizeof(int32_t), 0,
                                "ring") == RCM_OK,
          "prepare: %s", rcm_last_error());
    CHECK(errors, strcmp(rcm_comm_transport(comm, (rcm_rank(comm) + 1) % 3), "shm+near") == 0,
          "the transport is %s", rcm_comm_transport(comm, (rcm_rank(comm) + 1) % 3));
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "barrier: %s", rcm_last_error());
    const int before = near_queues();
    CHECK(errors, before > 0, "no channel is open");
    errors += check_all_reduce(comm, &b, "ring");
    CHECK(errors, near_queues() == before, "%d channels opened in the call",
          near_queues() - before);
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "barrier: %s", rcm_last_error());
    buffers_free(&b);
    return errors;
}

/* One rank has host memory. */
static int check_differ(rcm_comm *comm, void *arg) {
    const struct buffers b = buffers_new();
    int32_t host[2] = {0};
    const bool odd = rcm_rank(comm) == 1;
    int errors = 0;
    (void)arg;
    rcm_status status = rcm_all_reduce(comm, odd ? host : b.in, odd ? host + 1 : b.out, 1,
                                       RCM_INT32, RCM_SUM, NULL, NULL);
    CHECK(errors,
          status == RCM_ERR_MISMATCH && strstr(rcm_last_error(), "device memory") &&
              strstr(rcm_last_error(), "host memory"),
          "%s: %s", rcm_status_name(status), rcm_last_error());
    (void)!rcm_destroy(comm);
    buffers_free(&b);
    return errors;
}

/* The plane fails during a call. The call ends with an error that names a rank. */
static int check_cut(rcm_comm *comm, void *arg) {
    const struct buffers b = buffers_new();
    rcm_status status = RCM_OK;
    int errors = 0;
    (void)arg;
    for (int i = 0; i < 200 && status == RCM_OK; i++)
        status = rcm_all_reduce(comm, b.in, b.out, COUNT, RCM_INT32, RCM_SUM, NULL, NULL);
    CHECK(errors, status == RCM_ERR_PEER, "%s: %s", rcm_status_name(status), rcm_last_error());
    (void)!rcm_destroy(comm);
    buffers_free(&b);
    return errors;
}

/* ---- Sets of ranks --------------------------------------------------------------------------- */

static int run(int n, const char *transports, int (*fn)(rcm_comm *, void *), bool keep) {
    const struct ranks ranks = {.n = n, .threads = true, .transport = transports, .keep = keep};
    int errors = ranks_run(&ranks, fn, NULL);
    CHECK(errors, near_queues() == 0, "%d queues remain", near_queues());
    return errors;
}

static int run_comes_up(void) {
    return run(2, "shm,near", check_comes_up, false) + run(3, "near,shm", check_comes_up, false) +
           run(5, "shm,near", check_comes_up, false);
}

static int run_declined(void) {
    int errors = 0;
    for (int slot = NEAR_INIT; slot < NEAR_SLOTS; slot++) {
        for (int n = 2; n <= 3; n++) {
            near_orders = (struct near_orders){.rank = n - 2, .decline = (enum near_slot)slot};
            errors += run(n, "shm,near", n == 2 ? check_declined : check_right, false);
        }
    }
    return errors;
}

/* A shortage of any resource at any step: the link works without the plane. */
static int run_shortage(void) {
    static const rcm_status statuses[] = {RCM_ERR_NOMEM, RCM_ERR_RESOURCE, RCM_ERR_SYSTEM};
    int errors = 0;
    for (int slot = NEAR_INIT; slot < NEAR_SLOTS; slot++) {
        for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
            near_orders = (struct near_orders){
                .rank = 0, .decline = (enum near_slot)slot, .how = statuses[i]};
            errors += run(2, "shm,near", check_declined, false);
        }
    }
    return errors;
}

static int run_never_ready(void) {
    near_orders = (struct near_orders){.rank = 0, .never = true};
    return run(2, "shm,near", check_declined, false);
}

/* Links whose control connection is not a Unix socket have no device plane, nor do ranks of
 * different hosts. */
static int run_absent(void) {
    return run(2, "tcp,near", check_absent, false) + run(2, "shm,tcp", check_absent, false);
}

static int run_prepared(void) {
    return run(3, "shm,near", check_prepared, false);
}

static int run_differ(void) {
    return run(3, "shm,near", check_differ, true);
}

static int run_late(void) {
    setenv("RINGCOMM_CHAOS", "seed=3,delay=300,often=20", 1);
    return run(3, "shm,chaos:near", check_right, false);
}

static int run_cut(void) {
    setenv("RINGCOMM_CHAOS", "seed=3,fault=cut,after=9", 1);
    return run(3, "shm,chaos:near", check_cut, true);
}

/* ---- Registered memory ----------------------------------------------------------------------- */

/* Messages of registered memory are read in place, so each rank writes only its result, and no slot
 * where it only sends. They follow operations enqueued on a stream. */
static int check_registered(rcm_comm *comm, void *arg) {
    const struct buffers b = buffers_new();
    int errors = 0;
    (void)arg;
    CHECK(errors,
          rcm_mem_register(comm, b.in, BYTES) == RCM_OK &&
              rcm_mem_register(comm, b.out, BYTES) == RCM_OK,
          "register: %s", rcm_last_error());
    for (int i = 0; i < 3; i++)
        errors += check_all_reduce(comm, &b, "ring") + check_all_reduce(comm, &b, "two_shot") +
                  check_all_reduce(comm, &b, NULL) + check_all_gather(comm, &b);
    CHECK(errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "barrier: %s", rcm_last_error());
    CHECK(errors, near_orders.refuses || near_as_it_lies() > 0,
          "no message was sent without a slot");
    CHECK(errors,
          rcm_mem_deregister(comm, b.in, BYTES) == RCM_OK &&
              rcm_mem_deregister(comm, b.out, BYTES) == RCM_OK,
          "deregister: %s", rcm_last_error());
    errors += check_all_reduce(comm, &b, "ring");
    buffers_free(&b);
    return errors;
}

/* On rank 0 an operation enqueued before the call writes the data to send. The data is published
 * after that operation. */
static int check_stream(rcm_comm *comm, void *arg) {
    struct rcm_call call = RCM_CALL_INIT;
    const struct buffers b = buffers_new();
    const bool late = rcm_rank(comm) == 0;
    rcm_work *work = NULL;
    int errors = 0, wrong = 0;
    (void)arg;
    call.algorithm = "ring";
    if (late)
        call.stream = fake_stream_new();
    CHECK(errors, rcm_mem_register(comm, b.in, BYTES) == RCM_OK, "register: %s", rcm_last_error());
    buffers_fill(&b, late ? 100 : rcm_rank(comm));
    if (late)
        fake_stream_enqueue(call.stream);
    CHECK(errors,
          rcm_all_reduce(comm, b.in, b.out, COUNT, RCM_INT32, RCM_SUM, &call, &work) == RCM_OK,
          "%s", rcm_last_error());
    usleep(3000);
    if (late) {
        buffers_fill(&b, 0);
        fake_stream_done(call.stream);
    }
    CHECK(errors, rcm_work_wait(work, 60000) == RCM_OK, "%s", rcm_last_error());
    rcm_work_free(work);
    for (int i = 0; i < COUNT; i++)
        wrong += ((int32_t *)fake_view(b.out))[i] != sum_of(rcm_size(comm), i);
    CHECK(errors, wrong == 0, "%d wrong", wrong);
    CHECK(errors, rcm_mem_deregister(comm, b.in, BYTES) == RCM_OK, "%s", rcm_last_error());
    buffers_free(&b);
    return errors;
}

static int run_registered(void) {
    int errors = 0;
    for (int refuses = 0; refuses < 2; refuses++) {
        near_orders = (struct near_orders){.rank = -1, .refuses = refuses};
        errors += run(2, "shm,near", check_registered, false) +
                  run(3, "shm,near", check_registered, false) +
                  run(5, "shm,near", check_registered, false) +
                  run(3, "shm,near", check_stream, false);
    }
    return errors;
}

/* ---- Scratch --------------------------------------------------------------------------------- */

static int check_exscan(rcm_comm *comm, const struct buffers *b, int count) {
    struct rcm_call call = RCM_CALL_INIT;
    const int32_t *out = fake_view(b->out);
    const int rank = rcm_rank(comm);
    int errors = 0, wrong = 0;
    call.algorithm = "recursive_doubling";
    buffers_fill(b, rank);
    CHECK(errors,
          rcm_exscan(comm, b->in, b->out, (size_t)count, RCM_INT32, RCM_SUM, &call, NULL) == RCM_OK,
          "exscan: %s", rcm_last_error());
    for (int i = 0; i < count && rank > 0; i++)
        wrong += out[i] != sum_of(rank, i);
    CHECK(errors, wrong == 0, "exscan of %d: %d wrong", count, wrong);
    return errors;
}

/* Scratch is in device memory, or in host memory if that is full. It grows with the data. */
static int check_scratch(rcm_comm *comm, void *arg) {
    const struct buffers b = buffers_new();
    int errors = 0;
    (void)arg;
    for (int count = 1; count <= COUNT; count *= 7)
        errors += check_exscan(comm, &b, count);
    errors += check_exscan(comm, &b, 3);
    buffers_free(&b);
    return errors;
}

/* Scratch that is being allocated or freed when the ranks end is freed soon afterwards. */
static int run_scratch(void) {
    const int before = fake_blocks();
    int errors = 0;
    for (int refused = 0; refused < 3; refused++) {
        fake_refuse(refused * 3);
        errors += run(5, "shm,near", check_scratch, false);
    }
    fake_refuse(0);
    const rcmi_deadline deadline = rcmi_deadline_in(60000);
    while (fake_blocks() > before && !rcmi_deadline_passed(deadline))
        usleep(100);
    CHECK(errors, fake_blocks() == before, "%d blocks remain", fake_blocks() - before);
    return errors;
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static const struct plane_case {
    const char *name;
    int (*run)(void);
} cases[] = {
    {"comes up", run_comes_up},       {"declined", run_declined}, {"shortage", run_shortage},
    {"never ready", run_never_ready}, {"prepared", run_prepared}, {"absent", run_absent},
    {"differ", run_differ},           {"late", run_late},         {"cut", run_cut},
    {"registered", run_registered},   {"scratch", run_scratch},
};

int main(int argc, char **argv) {
    int errors = 0;
    fake_add(11);
    setenv("RINGCOMM_SLOT_BYTES", "4096", 0);
    setenv("RINGCOMM_LOG", "error", 0);
    setenv("RINGCOMM_PEER_TIMEOUT", "1", 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (argc > 1 && strcmp(argv[1], cases[i].name) != 0)
            continue;
        near_orders = (struct near_orders){.rank = -1};
        const int found = cases[i].run();
        if (found)
            fprintf(stderr, "that was: %s\n", cases[i].name);
        errors += found;
    }
    return errors ? 1 : 0;
}
