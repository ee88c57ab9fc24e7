/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two ranks whose buffers are registered memory of cuMemCreate, both in one allocation. Once each
 * rank has opened the other's allocation by descriptor, an all_reduce moves no more bytes than one
 * of memory with an IPC handle (moved_bytes.c). The import is closed when the last buffer is
 * deregistered, not before.
 *
 *     allocation_descriptor
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "stream_bench.h"
#include "emulator_counts.h"
#include "leak_check.h"
#include "mapped_memory.h"

enum { RANKS = 2, COUNT = 60000, BYTES = COUNT * 4, SECONDS = 60 };

/* Bytes that both ranks have read and written. */
static int64_t moved(const struct bench *b) {
    const struct fakecuda_counts c = emulator_counts();
    const int64_t mine = (int64_t)(c.host.read + c.host.written + c.device.read + c.device.written +
                                   c.imported.read + c.imported.written);
    int64_t all = 0;
    if (rcm_all_reduce(b->comm, &mine, &all, 1, RCM_INT64, RCM_SUM, NULL, NULL) != RCM_OK)
        abort();
    return all;
}

/* Bytes moved by one all_reduce. */
static int64_t moved_by_one(const struct bench *b, int *errors) {
    const int64_t before = moved(b);
    CHECK(*errors,
          rcm_all_reduce(b->comm, b->in, b->out, COUNT, RCM_INT32, RCM_SUM, NULL, NULL) == RCM_OK,
          "%s", rcm_last_error());
    CHECK(*errors, rcm_barrier(b->comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    return moved(b) - before;
}

/* Repeats until the imports are open. Both ranks get the same number of bytes. */
static int until_it_is_open(const struct bench *b) {
    const int64_t least = (3 * RANKS - 1) * (int64_t)BYTES;
    const time_t end = time(NULL) + SECONDS;
    int64_t bytes = 0, late = 0;
    int errors = 0;
    do {
        const int64_t mine = time(NULL) > end;
        bytes = moved_by_one(b, &errors);
        CHECK(errors,
              rcm_all_reduce(b->comm, &mine, &late, 1, RCM_INT64, RCM_MAX, NULL, NULL) == RCM_OK,
              "%s", rcm_last_error());
    } while (errors == 0 && bytes > least && !late);
    CHECK(errors, bytes <= least, "an all_reduce moves %lld bytes, more than %lld",
          (long long)bytes, (long long)least);
    return errors;
}

static int deregister(const struct bench *b, char *buffer) {
    int errors = 0;
    CHECK(errors, rcm_mem_deregister(b->comm, buffer, BYTES) == RCM_OK, "%s", rcm_last_error());
    CHECK(errors, rcm_barrier(b->comm, NULL, NULL) == RCM_OK, "%s", rcm_last_error());
    return errors;
}

static int check_buffers(struct bench *b) {
    const uint64_t arenas = emulator_counts().imports;
    int errors = bench_one(b, 0, 1);
    CHECK(errors,
          rcm_mem_register(b->comm, b->in, BYTES) == RCM_OK &&
              rcm_mem_register(b->comm, b->out, BYTES) == RCM_OK,
          "%s", rcm_last_error());
    errors += until_it_is_open(b) + bench_one(b, 0, 2) + deregister(b, b->out);
    CHECK(errors, emulator_counts().imports == arenas + 1, "%llu imports are open, not %llu",
          (unsigned long long)emulator_counts().imports, (unsigned long long)arenas + 1);
    errors += bench_one(b, 0, 3) + deregister(b, b->in);
    CHECK(errors, emulator_counts().imports == arenas, "%llu imports are open, not %llu",
          (unsigned long long)emulator_counts().imports, (unsigned long long)arenas);
    return errors + bench_one(b, 0, 4);
}

static int check(rcm_comm *comm, void *arg) {
    struct mapped mapped;
    struct bench b;
    const char *call;
    int errors = bench_begin(&b, comm, BYTES);
    char *const in = b.in, *const out = b.out;
    (void)arg;
    b.dtype = RCM_INT32;
    b.count = COUNT;
    errors += bench_one(&b, 0, 0); /* opens the device planes */
    const int files = count_open_files();
    errors += bench_driver(
        mapped_new(b.cuda, b.device, 4 * BYTES, RCMI_CUDA_HANDLE_DESCRIPTOR, &mapped, &call), call);
    b.in = (char *)(uintptr_t)mapped.at;
    b.out = b.in + 2 * BYTES;
    if (errors == 0 && has_device_backend())
        errors += check_buffers(&b);
    errors += bench_driver(mapped_free(b.cuda, &mapped), "cuMemUnmap and what follows");
    CHECK(errors, count_open_files() <= files, "%d descriptors became %d", files,
          count_open_files());
    b.in = in;
    b.out = out;
    return errors + bench_end(&b);
}

int main(void) {
    const struct ranks ranks = {.n = RANKS, .transport = "auto"};
    return ranks_run(&ranks, check, NULL) ? 1 : 0;
}
