/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank sends device memory of the program and leaves before it is received.
 *
 * The data is received while that rank waits in rcm_leave, and its imports are closed afterwards.
 * What is not received by the end of that wait cannot be received any more, and is closed too. For
 * larger messages whose receive follows a stream, the receiver requests the data when the stream is
 * done. So they are not sent before.
 *
 *     leave_before_receive
 */
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include "stream_bench.h"
#include "emulator_counts.h"

/* A longer broadcast would wait for its readers where ranks share CPUs. Longer messages would wait
 * for their receive. */
enum { BYTES = 12 << 10, MESSAGE = 2 << 10, MESSAGES = 2, ROOM = 1 << 19 };
enum { STAYS, LEAVES, RANKS, TAG = 3, FILL = 0x5b, LATE_US = 1000000, SECONDS = 60 };

/* A case: what the leaving rank sends, and how the other one receives. */
struct leaving {
    const char *name;
    rcm_status (*send)(const struct bench *b);
    int (*receive)(const struct bench *b);
};

static uint64_t imported; /* bytes of imported memory read so far */
static pid_t leaver;

/* ---- Sending --------------------------------------------------------------------------------- */

static rcm_status broadcast(const struct bench *b) {
    return rcm_broadcast(b->comm, b->in, BYTES, RCM_UINT8, LEAVES, NULL, NULL);
}

/* They complete without the receiver. */
static rcm_status send_messages(const struct bench *b) {
    rcm_work *works[MESSAGES] = {NULL};
    rcm_status status = RCM_OK;
    for (int i = 0; i < MESSAGES && status == RCM_OK; i++)
        status = rcm_isend(b->comm, b->in + i * MESSAGE, MESSAGE, RCM_UINT8, STAYS, TAG, &works[i]);
    for (int i = 0; i < MESSAGES; i++) {
        if (status == RCM_OK)
            status = rcm_work_wait(works[i], -1);
        rcm_work_free(works[i]);
    }
    return status;
}

/* ---- Receiving ------------------------------------------------------------------------------- */

static int check_received(const struct bench *b, size_t bytes) {
    int errors = bench_after(b, b->in);
    for (size_t i = 0; i < bytes && errors == 0; i++)
        CHECK(errors, b->taken[i] == FILL, "byte %zu is 0x%02x", i, (unsigned char)b->taken[i]);
    return errors;
}

static int check_imported(size_t bytes) {
    int errors = 0;
    if (has_device_backend())
        CHECK(errors, emulator_counts().imported.read >= imported + bytes,
              "the data was not read from the peer's memory");
    return errors;
}

static int await_closed(void) {
    const time_t end = time(NULL) + SECONDS;
    int errors = 0;
    while (emulator_counts().imports > 0 && time(NULL) < end)
        usleep(1000);
    CHECK(errors, emulator_counts().imports == 0, "%llu allocations are open",
          (unsigned long long)emulator_counts().imports);
    return errors;
}

/* Waits until the rank has left, then stops it so that its wait does not end. */
static void let_it_leave(void *arg) {
    (void)arg;
    usleep(LATE_US);
    kill(leaver, SIGSTOP);
    ranks_await_stopped(leaver);
}

static int receive_late(const struct bench *b) {
    int errors = 0;
    let_it_leave(NULL);
    CHECK(errors, broadcast(b) == RCM_OK, "%s", rcm_last_error());
    errors += check_received(b, BYTES) + check_imported(BYTES) + await_closed();
    kill(leaver, SIGCONT);
    return errors;
}

/* The messages arrived in time, and are received when the stream reaches them. */
static int receive_behind(const struct bench *b) {
    const struct rcm_call call = {.size = sizeof call, .stream = b->stream};
    rcm_work *works[MESSAGES] = {NULL};
    int errors = bench_driver(b->host_function(b->stream, let_it_leave, NULL), "cuLaunchHostFunc");
    for (int i = 0; i < MESSAGES; i++)
        CHECK(errors,
              rcm_recv(b->comm, b->in + i * MESSAGE, MESSAGE, RCM_UINT8, LEAVES, TAG, &call,
                       &works[i]) == RCM_OK,
              "%s", rcm_last_error());
    for (int i = 0; i < MESSAGES; i++) {
        CHECK(errors, works[i] && rcm_work_wait(works[i], -1) == RCM_OK, "message %d: %s", i,
              rcm_last_error());
        rcm_work_free(works[i]);
    }
    errors += check_received(b, (size_t)MESSAGES * MESSAGE) + await_closed();
    kill(leaver, SIGCONT);
    return errors;
}

static int receive_too_late(const struct bench *b) {
    int errors = await_closed();
    CHECK(errors, broadcast(b) == RCM_ERR_PEER, "received without an open import: %s",
          rcm_last_error());
    return errors;
}

static const struct leaving cases[] = {
    {"a broadcast", broadcast, receive_late},
    {"messages behind a stream", send_messages, receive_behind},
    {"a broadcast that is not received", broadcast, receive_too_late},
};

/* ---- Ranks ----------------------------------------------------------------------------------- */

static int fill(const struct bench *b, rcmi_cuda_address memory) {
    const unsigned char byte = rcm_rank(b->comm) == LEAVES ? FILL : 0;
    const int errors =
        bench_driver(b->cuda->cuMemsetD8Async(memory, byte, ROOM, b->stream), "cuMemsetD8Async");
    return errors + bench_driver(b->cuda->cuStreamSynchronize(b->stream), "cuStreamSynchronize");
}

static int know_leaver(rcm_comm *comm) {
    const int64_t mine = getpid();
    int64_t pids[RANKS];
    int errors = 0;
    CHECK(errors, rcm_all_gather(comm, &mine, pids, 1, RCM_INT64, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    leaver = (pid_t)pids[LEAVES];
    return errors;
}

/* Opens the broadcast's channels and the device planes. */
static int begin(struct bench *b, rcm_comm *comm, char **ret_in) {
    rcmi_cuda_address memory = 0;
    int errors = bench_begin(b, comm, ROOM);
    b->bytes = ROOM;
    if (errors)
        return errors;
    errors += bench_driver(b->cuda->cuMemAlloc(&memory, ROOM), "cuMemAlloc");
    *ret_in = b->in;
    b->in = (char *)(uintptr_t)memory;
    CHECK(errors, broadcast(b) == RCM_OK, "%s", rcm_last_error());
    errors += know_leaver(comm);
    imported = emulator_counts().imported.read;
    return errors + fill(b, memory);
}

static int end(struct bench *b, char *in) {
    const rcmi_cuda_address memory = (rcmi_cuda_address)(uintptr_t)b->in;
    b->in = in;
    return bench_driver(b->cuda->cuMemFree(memory), "cuMemFree") + bench_end(b);
}

static int check(rcm_comm *comm, void *arg) {
    const struct leaving *leaving = arg;
    struct bench b;
    char *in;
    int errors = begin(&b, comm, &in);
    if (errors)
        return errors;
    if (rcm_rank(comm) == LEAVES)
        CHECK(errors, leaving->send(&b) == RCM_OK, "%s: %s", leaving->name, rcm_last_error());
    else
        errors += leaving->receive(&b);
    errors += end(&b, in);
    (void)!rcm_leave(comm);
    return errors;
}

int main(void) {
    int failed = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct leaving leaving = cases[i];
        const struct ranks ranks = {.n = RANKS, .transport = "auto", .keep = true};
        if (ranks_run(&ranks, check, &leaving) == 0)
            continue;
        printf("FAILED: %s\n", leaving.name);
        failed = 1;
    }
    return failed;
}
