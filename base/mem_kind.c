/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of memory kinds: see mem_kind.h. */
#include "mem_kind.h"
#include <sys/mman.h>
#include <unistd.h>
#include "error.h"

_Atomic int rcmi_mem_specials;

/* ---- Host memory ----------------------------------------------------------------------------- */

/* msync with MS_ASYNC only checks that the pages are mapped. */
static rcm_status host_identify(const void *memory, size_t bytes, uint64_t *ret_identity) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = (uintptr_t)memory / page * page;
    *ret_identity = msync((void *)from, (uintptr_t)memory - from + bytes, MS_ASYNC) == 0;
    return RCM_OK;
}

static const struct rcmi_mem_row host_row = {
    .name = "host memory", .at_once = true, .identify = host_identify};

/* ---- The table ------------------------------------------------------------------------------- */

/* The release in _add pairs with the acquire loads: the entry is complete. */
static _Atomic(const struct rcmi_mem_row *) rows[RCMI_MEM_KINDS] = {&host_row};

void rcmi_mem_kind_add(enum rcmi_mem_kind kind, const struct rcmi_mem_row *row) {
    atomic_store_explicit(&rows[kind], row, memory_order_release);
    atomic_fetch_add_explicit(&rcmi_mem_specials, 1, memory_order_relaxed);
}

const struct rcmi_mem_row *rcmi_mem_kind_row(enum rcmi_mem_kind kind) {
    return atomic_load_explicit(&rows[kind], memory_order_acquire);
}

const char *rcmi_mem_kind_name(enum rcmi_mem_kind kind) {
    const struct rcmi_mem_row *row = rcmi_mem_kind_row(kind);
    return row ? row->name : "device memory";
}

rcm_status rcmi_mem_kind_of(const void *address, enum rcmi_mem_kind *ret_kind, int *ret_device) {
    bool has = false;
    for (int kind = RCMI_MEM_HOST + 1; kind < RCMI_MEM_KINDS; kind++) {
        const struct rcmi_mem_row *row = rcmi_mem_kind_row((enum rcmi_mem_kind)kind);
        if (row && row->has(address, &has, ret_device) != RCM_OK)
            return rcmi_fail_context("cannot determine whether %p is %s", address, row->name);
        if (has) {
            *ret_kind = (enum rcmi_mem_kind)kind;
            return RCM_OK;
        }
    }
    *ret_kind = RCMI_MEM_HOST;
    *ret_device = 0;
    return RCM_OK;
}

rcm_status rcmi_mem_identity(const struct rcmi_mem *mem, uint64_t *ret_identity) {
    return rcmi_mem_kind_row(mem->kind)->identify(mem->bytes, mem->len, ret_identity);
}
