/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of cuMemAlloc that is registered before the library uses any device memory. The driver is
 * loaded after rcm_init, and RINGCOMM_DEVICE is unset. An all_reduce moves no more bytes than one
 * of memory of rcm_mem_alloc_kind (moved_bytes.c).
 *
 *     registered RANKS
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "../emulator_counts.h"
#include "../program_buffers.h"
#include "ranks.h"

enum { COUNT = 60000, BYTES = COUNT * 4 };

static const struct rcm_call now = {.size = sizeof now, .flags = RCM_NO_STREAM};

/* Bytes that all ranks have read and written. */
static int64_t moved(rcm_comm *comm) {
    const struct fakecuda_counts c = emulator_counts();
    const int64_t mine = (int64_t)(c.host.read + c.host.written + c.device.read + c.device.written +
                                   c.imported.read + c.imported.written);
    int64_t all = 0;
    if (rcm_all_reduce(comm, &mine, &all, 1, RCM_INT64, RCM_SUM, NULL, NULL) != RCM_OK)
        abort();
    return all;
}

/* Bytes moved by one all_reduce. */
static int64_t moved_by_one(rcm_comm *comm, const struct program *p, int *errors) {
    const int64_t before = moved(comm);
    CHECK(*errors,
          rcm_all_reduce(comm, program_buffer(p->in), program_buffer(p->out), COUNT, RCM_INT32,
                         RCM_SUM, &now, NULL) == RCM_OK,
          "%s", rcm_last_error());
    CHECK(*errors, rcm_barrier(comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    return moved(comm) - before;
}

static int check_moved(rcm_comm *comm, const struct program *p) {
    const int64_t least = (3 * (int64_t)rcm_size(comm) - 1) * BYTES;
    int errors = 0;
    (void)moved_by_one(comm, p, &errors); /* opens the device planes */
    const int64_t bytes = moved_by_one(comm, p, &errors);
    CHECK(errors, bytes <= least, "an all_reduce moves %lld bytes, more than %lld",
          (long long)bytes, (long long)least);
    return errors;
}

static int check(rcm_comm *comm, void *arg) {
    struct program p;
    (void)arg;
    if (!has_device_backend())
        return 0;
    int errors = program_begin(&p, BYTES, 1);
    if (errors)
        return errors;
    CHECK(errors,
          rcm_mem_register(comm, program_buffer(p.in), BYTES) == RCM_OK &&
              rcm_mem_register(comm, program_buffer(p.out), BYTES) == RCM_OK,
          "%s", rcm_last_error());
    errors += check_moved(comm, &p);
    CHECK(errors,
          rcm_mem_deregister(comm, program_buffer(p.in), BYTES) == RCM_OK &&
              rcm_mem_deregister(comm, program_buffer(p.out), BYTES) == RCM_OK,
          "%s", rcm_last_error());
    return errors + program_end(&p);
}

int main(int argc, char **argv) {
    const struct ranks ranks = {.n = argc > 1 ? atoi(argv[1]) : 2, .transport = "auto"};
    return ranks_run(&ranks, check, NULL) ? 1 : 0;
}
