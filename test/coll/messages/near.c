/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between near ranks are sent without a rendezvous up to the threshold eager_near, and
 * between others up to eager: such a send completes before its receive is posted. The largest fills
 * a slot.
 */
#include "../ranks.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EAGER = 4 << 10, EAGER_NEAR = 128 << 10, LARGEST = EAGER_NEAR + 1 };

static bool is_near;

static unsigned char byte_at(size_t i) {
    return (unsigned char)(i % 251 + 1);
}

/* Before the barrier rank 1 has not posted the receive. */
static void send_unreceived(rcm_comm *comm, size_t bytes, bool completes, int *errors) {
    static unsigned char sent[LARGEST];
    rcm_work *work = NULL;
    for (size_t i = 0; i < bytes; i++)
        sent[i] = byte_at(i);
    CHECK(*errors, rcm_isend(comm, sent, bytes, RCM_UINT8, 1, 5, &work) == RCM_OK, "%s",
          rcm_last_error());
    const rcm_status status = rcm_work_wait(work, completes ? -1 : 50);
    CHECK(*errors, status == (completes ? RCM_OK : RCM_PENDING), "%zu bytes, near %d: %s", bytes,
          is_near, rcm_status_name(status));
    CHECK(*errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    CHECK(*errors, rcm_work_wait(work, -1) == RCM_OK, "%s", rcm_last_error());
    rcm_work_free(work);
}

static void receive_late(rcm_comm *comm, size_t bytes, int *errors) {
    static unsigned char received[LARGEST];
    CHECK(*errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    CHECK(*errors, rcm_recv(comm, received, bytes, RCM_UINT8, 0, 5, NULL, NULL) == RCM_OK, "%s",
          rcm_last_error());
    for (size_t i = 0; i < bytes; i++)
        CHECK(*errors, received[i] == byte_at(i), "byte %zu of %zu is wrong", i, bytes);
    memset(received, 0, bytes);
}

static int run(rcm_comm *comm, void *arg) {
    static const size_t sizes[] = {EAGER, EAGER + 1, EAGER_NEAR, LARGEST};
    int errors = 0;
    (void)arg;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && errors == 0; i++) {
        if (rcm_rank(comm) == 0)
            send_unreceived(comm, sizes[i], sizes[i] <= (is_near ? EAGER_NEAR : EAGER), &errors);
        else
            receive_late(comm, sizes[i], &errors);
    }
    return errors;
}

int main(void) {
    const struct ranks ranks = {.n = 2, .threads = true, .transport = "shm"};
    int failed = 0;
    setenv("RINGCOMM_SLOT_BYTES", "128K", 1);
    setenv("RINGCOMM_PROTOCOL", "eager=0-4K,eager_near=0-128K,get=never", 1);
    for (int near = 0; near < 2; near++) {
        is_near = near;
        setenv("RINGCOMM_NEAR", near ? "1" : "0", 1);
        failed += ranks_run(&ranks, run, NULL) != 0;
    }
    return failed;
}
