/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * FAKECUDA_SUBALLOC: allocations of up to 1 MiB share blocks of 2 MiB, as with a real driver.
 * An IPC handle of one of them opens the whole block. Called with fake_mem_lock held.
 */
#include "fake_table.h"
#include <stdlib.h>

#define UNIT  512u
#define UNITS (GRANULE / UNIT)

struct block {
    struct mem whole;
    bool used[UNITS];
    unsigned allocations;
    struct block *next;
};

static struct block *blocks;

bool fake_block_fits(size_t size) {
    return fake_settings()->suballoc && size <= GRANULE / 2;
}

static struct block *new_block(int device) {
    struct block *b = calloc(1, sizeof *b);
    b->whole = (struct mem){.kind = MEM_DEVICE, .size = GRANULE, .device = device};
    b->whole.fd = fake_new_memory(GRANULE, device);
    if (b->whole.fd < 0 || !fake_map_device(&b->whole)) {
        free(b);
        return NULL;
    }
    b->next = blocks;
    return blocks = b;
}

/* The first of n adjacent free units, -1 if there are none. */
static int find_units(const struct block *b, unsigned n) {
    unsigned run = 0;
    for (unsigned i = 0; i < UNITS; i++) {
        run = b->used[i] ? 0 : run + 1;
        if (run == n)
            return (int)(i + 1 - n);
    }
    return -1;
}

static void mark(struct block *b, unsigned first, unsigned n, bool used) {
    for (unsigned i = 0; i < n; i++)
        b->used[first + i] = used;
}

bool fake_block_take(struct mem *m) {
    unsigned n = (unsigned)(fake_round_up(m->size, UNIT) / UNIT);
    struct block *b = blocks;
    int at = -1;
    while (b && (b->whole.device != m->device || (at = find_units(b, n)) < 0))
        b = b->next;
    if (!b && (b = new_block(m->device)))
        at = 0;
    if (!b)
        return false;
    mark(b, (unsigned)at, n, true);
    b->allocations++;
    m->block = b;
    m->lo = b->whole.lo + (unsigned)at * UNIT;
    m->shift = b->whole.shift;
    m->fd = b->whole.fd;
    m->trailer = b->whole.trailer;
    return true;
}

void fake_block_give(const struct mem *m) {
    struct block *b = m->block;
    mark(b, (unsigned)((m->lo - b->whole.lo) / UNIT),
         (unsigned)(fake_round_up(m->size, UNIT) / UNIT), false);
    if (--b->allocations)
        return;
    for (struct block **p = &blocks; *p; p = &(*p)->next)
        if (*p == b) {
            *p = b->next;
            break;
        }
    fake_unmap_device(&b->whole);
    free(b);
}

uint64_t fake_block_start(const struct mem *m) {
    return m->block->whole.lo;
}
