/* SPDX-License-Identifier: BSD-3-Clause */
/* A barrier of the bench's own, in a file that all ranks of a machine map. It lets the ranks of any
 * library go at the same moment: see --neutral. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "bench.h"
#include "common.h"

enum { FILE_BYTES = 4096, LINE = 64, SPINS_PER_YIELD = 2000 };

struct bench_neutral {
    _Alignas(LINE) _Atomic uint32_t arrived;
    _Alignas(LINE) _Atomic uint32_t generation; /* of barriers that are over */
};
_Static_assert(sizeof(struct bench_neutral) <= FILE_BYTES, "it lies in the file");

struct bench_neutral *bench_neutral_open(const char *path) {
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *memory = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, FILE_BYTES) == 0)
        memory = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        tool_error("--neutral: cannot map %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

void bench_neutral_close(struct bench_neutral *neutral) {
    if (neutral)
        munmap(neutral, FILE_BYTES);
}

bool bench_neutral_wait(struct bench_neutral *neutral, int nranks, int64_t deadline_ns) {
    /* Acquire-release: what a rank did before is over when the others go on. */
    const uint32_t before = atomic_load_explicit(&neutral->generation, memory_order_acquire);
    if (atomic_fetch_add_explicit(&neutral->arrived, 1, memory_order_acq_rel) + 1 ==
        (uint32_t)nranks) {
        atomic_store_explicit(&neutral->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&neutral->generation, before + 1, memory_order_release);
        return true;
    }
    for (int spins = 1; atomic_load_explicit(&neutral->generation, memory_order_acquire) == before;
         spins++) {
        if (spins % SPINS_PER_YIELD != 0)
            continue;
        if (tool_now_ns() >= deadline_ns)
            return false;
        sched_yield();
    }
    return true;
}
