/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages through slots longer than RCMI_GET_MAX, which RINGCOMM_SLOT_BYTES allows, from
 * unregistered memory.
 *
 *     slot_messages moved   the messages arrive
 *     slot_messages fails   rank 1 has no device memory for slots: it is the origin on both ranks
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../emulator_counts.h"
#include "../program_buffers.h"
#include "ranks.h"

enum { RANKS = 2, BYTES = 16 << 20 };

static const struct rcm_call now = {.size = sizeof now, .flags = RCM_NO_STREAM};

static rcm_status exchange(rcm_comm *comm, const struct program *p) {
    const int peer = 1 - rcm_rank(comm);
    return rcm_sendrecv(comm, program_buffer(p->in), BYTES, peer, 1, program_buffer(p->out), BYTES,
                        peer, 1, RCM_UINT8, &now, NULL);
}

static int check_all_gather(rcm_comm *comm, const struct program *p) {
    int errors = 0;
    CHECK(errors,
          rcm_all_gather(comm, program_buffer(p->in), program_buffer(p->out), BYTES, RCM_UINT8,
                         &now, NULL) == RCM_OK,
          "%s", rcm_last_error());
    for (int r = 0; r < RANKS; r++)
        CHECK(errors,
              program_wrong(p, p->out + (size_t)r * BYTES, BYTES, (unsigned char)(r + 1)) == 0,
              "the block of rank %d is wrong", r);
    return errors;
}

static int check_moved(rcm_comm *comm, void *arg) {
    const int rank = rcm_rank(comm), peer = 1 - rank;
    struct program p;
    (void)arg;
    int errors = program_begin(&p, (size_t)RANKS * BYTES, (unsigned char)(rank + 1));
    if (errors)
        return errors;
    CHECK(errors, exchange(comm, &p) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, program_wrong(&p, p.out, BYTES, (unsigned char)(peer + 1)) == 0,
          "the message of rank %d is wrong", peer);
    CHECK(errors, !has_device_backend() || strstr(rcm_comm_transport(comm, peer), "cuda_ipc"),
          "the transport is %s", rcm_comm_transport(comm, peer));
    errors += check_all_gather(comm, &p);
    return errors + program_end(&p);
}

/* Fails the call after the program's buffers and the plane's memory. */
static void before_fails(int rank) {
    if (rank == 1)
        setenv("FAKECUDA_FAIL", "cuMemAlloc:4", 1);
}

static int check_fails(rcm_comm *comm, void *arg) {
    struct rcm_error error = RCM_ERROR_INIT;
    struct program p;
    (void)arg;
    if (!has_device_backend()) { /* loads the driver, which reads FAKECUDA_FAIL */
        (void)!rcm_destroy(comm);
        return 0;
    }
    int errors = program_begin(&p, BYTES, 1);
    if (errors)
        return errors;
    rcm_status status = exchange(comm, &p);
    if (status == RCM_OK)
        status = rcm_barrier(comm, NULL, NULL);
    (void)!rcm_comm_error(comm, &error);
    CHECK(errors, status == RCM_ERR_SYSTEM && error.origin == 1, "origin %d: %s: %s", error.origin,
          rcm_status_name(status), error.text);
    (void)!rcm_destroy(comm);
    return errors + program_end(&p);
}

int main(int argc, char **argv) {
    const bool fails = argc > 1 && strcmp(argv[1], "fails") == 0;
    const struct ranks ranks = {
        .n = RANKS, .transport = "auto", .keep = fails, .before = fails ? before_fails : NULL};
    setenv("RINGCOMM_SLOT_BYTES", "4M", 1);
    setenv("RINGCOMM_SLOTS", "2", 1);
    return ranks_run(&ranks, fails ? check_fails : check_moved, NULL);
}
