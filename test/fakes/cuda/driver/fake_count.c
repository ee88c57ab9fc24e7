/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts moved bytes by kind of memory, and imports: fakecuda.h. */
#include "fake_count.h"
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct {
    _Atomic uint64_t launches, copies, sets, moved[PTX_MEMORIES][2];
    _Atomic uint64_t exports, freed_imported, dead;
    _Atomic int64_t imports;
} counted;

enum ptx_memory fake_memory_kind(const struct mem *m) {
    return m->kind >= MEM_HOST                             ? PTX_HOST
           : m->kind == MEM_IMPORTED                       ? PTX_IMPORTED
           : m->kind == MEM_MAPPED && fake_vmm_imported(m) ? PTX_IMPORTED
                                                           : PTX_DEVICE;
}

static void add(enum ptx_memory memory, bool write, uint64_t bytes) {
    atomic_fetch_add(&counted.moved[memory][write], bytes);
}

/* One side of a copy or set. */
static bool count_piece(const struct mem *m, uint64_t bytes, const void *write) {
    fake_count_access(m);
    add(fake_memory_kind(m), *(const bool *)write, bytes);
    return true;
}

static void count_side(uint64_t at, bool write, uint64_t bytes) {
    if (at)
        fake_each_piece(at, bytes, count_piece, &write);
    else
        add(PTX_HOST, write, bytes);
}

void fake_count_copy(uint64_t to, uint64_t from, uint64_t bytes) {
    atomic_fetch_add(&counted.copies, 1);
    count_side(to, true, bytes);
    count_side(from, false, bytes);
}

void fake_count_set(uint64_t to, uint64_t bytes) {
    atomic_fetch_add(&counted.sets, 1);
    count_side(to, true, bytes);
}

void fake_count_launch(uint64_t moved[PTX_MEMORIES][2]) {
    atomic_fetch_add(&counted.launches, 1);
    for (int i = 0; i < PTX_MEMORIES; i++)
        for (int write = 0; write < 2; write++)
            add((enum ptx_memory)i, write, moved[i][write]);
}

void fake_count_export(void) {
    atomic_fetch_add(&counted.exports, 1);
}

void fake_count_import(int by) {
    atomic_fetch_add(&counted.imports, by);
}

void fake_count_freed_imported(void) {
    atomic_fetch_add(&counted.freed_imported, 1);
}

/* ---- Owners that have ended ------------------------------------------------------------------ */

int fake_watch(pid_t owner) {
    return (int)syscall(SYS_pidfd_open, owner, 0);
}

/* Also true for a zombie process. */
static bool is_gone(const struct mem *m) {
    struct pollfd p = {.fd = m->owner_fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static bool notes_gone(const struct mem *m, const void *arg) {
    (void)arg;
    if (m->kind == MEM_IMPORTED && !m->gone && is_gone(m))
        __atomic_store_n(&((struct mem *)(uintptr_t)m)->gone, true, __ATOMIC_RELAXED);
    return false;
}

/* Marks ended owners when an operation begins. An access of an operation that began before the
 * owner's end is not counted. */
void fake_count_begin(void) {
    if (counted.imports == 0)
        return;
    pthread_rwlock_rdlock(&fake_mem_lock);
    (void)fake_mem_any(notes_gone, NULL);
    pthread_rwlock_unlock(&fake_mem_lock);
}

void fake_count_access(const struct mem *m) {
    if (m->gone)
        atomic_fetch_add(&counted.dead, 1);
}

void fakecuda_counts(struct fakecuda_counts *ret) {
    *ret = (struct fakecuda_counts){
        .launches = counted.launches,
        .copies = counted.copies,
        .sets = counted.sets,
        .host = {counted.moved[PTX_HOST][0], counted.moved[PTX_HOST][1]},
        .device = {counted.moved[PTX_DEVICE][0], counted.moved[PTX_DEVICE][1]},
        .imported = {counted.moved[PTX_IMPORTED][0], counted.moved[PTX_IMPORTED][1]},
        .exports = counted.exports,
        .imports = (uint64_t)counted.imports,
        .freed_imported = counted.freed_imported,
        .dead = counted.dead,
    };
}
