/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the CTAs that run at once: registers, predicates, local and shared memory. It is kept
 * for later launches, because new pages cost more than most kernels, and grows to the largest.
 */
#include "ptx_internal.h"
#include <sanitizer/asan_interface.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct sizes {
    unsigned nctas, nwarps, nregs, npreds, local, shared;
};

struct ctas {
    struct sizes sizes;
    struct cta cta[];
};

#define KEPT 8

static _Atomic(struct ctas *) kept[KEPT];

static struct sizes sizes_of(const struct run *r) {
    const unsigned *block = r->launch->block, threads = block[0] * block[1] * block[2];
    return (struct sizes){.nctas = r->nctas,
                          .nwarps = (threads + LANES - 1) / LANES,
                          .nregs = (unsigned)r->fn->nregs,
                          .npreds = (unsigned)r->fn->npreds,
                          .local = (unsigned)r->fn->local_size,
                          .shared = r->shared_total};
}

static struct ctas *ctas_new(const struct sizes *sizes) {
    struct ctas *ctas = calloc(1, sizeof *ctas + sizes->nctas * sizeof *ctas->cta);
    ctas->sizes = *sizes;
    for (unsigned c = 0; c < sizes->nctas; c++) {
        struct cta *cta = &ctas->cta[c];
        cta->warps = calloc(sizes->nwarps, sizeof *cta->warps);
        cta->shared = malloc(sizes->shared + 1);
        for (unsigned i = 0; i < sizes->nwarps; i++) {
            struct warp *w = &cta->warps[i];
            w->regs = malloc((sizes->nregs + 1u) * sizeof *w->regs);
            w->preds = malloc((sizes->npreds + 1u) * sizeof *w->preds);
            w->local = malloc(LANES * (sizes->local + 1u));
        }
    }
    return ctas;
}

static void ctas_free(struct ctas *ctas) {
    for (unsigned c = 0; ctas && c < ctas->sizes.nctas; c++) {
        for (unsigned i = 0; i < ctas->sizes.nwarps; i++) {
            free(ctas->cta[c].warps[i].regs);
            free(ctas->cta[c].warps[i].preds);
            free(ctas->cta[c].warps[i].local);
        }
        free(ctas->cta[c].warps);
        free(ctas->cta[c].shared);
    }
    free(ctas);
}

static void keep(struct ctas *ctas) {
    for (int i = 0; i < KEPT && ctas; i++)
        ctas = atomic_exchange(&kept[i], ctas);
    ctas_free(ctas);
}

static struct ctas *take_kept(void) {
    struct ctas *ctas = NULL;
    for (int i = 0; i < KEPT && !ctas; i++)
        if (atomic_load(&kept[i]))
            ctas = atomic_exchange(&kept[i], NULL);
    return ctas;
}

/* Makes each size at least that of `other`. Returns false if it was so for all. */
static bool sizes_grow(struct sizes *sizes, const struct sizes *other) {
    const struct sizes before = *sizes;
#define GROW(size) sizes->size = sizes->size < other->size ? other->size : sizes->size
    GROW(nctas);
    GROW(nwarps);
    GROW(nregs);
    GROW(npreds);
    GROW(local);
    GROW(shared);
#undef GROW
    return memcmp(&before, sizes, sizeof before) != 0;
}

static struct ctas *take(const struct sizes *needed) {
    struct ctas *ctas = take_kept();
    if (!ctas)
        return ctas_new(needed);
    struct sizes sizes = ctas->sizes;
    if (!sizes_grow(&sizes, needed))
        return ctas;
    ctas_free(ctas);
    return ctas_new(&sizes);
}

/* The address sanitizer reports an access beyond the first `used` bytes of an array. */
static void bound(void *array, size_t used, size_t bytes) {
    (void)array, (void)used, (void)bytes;
    ASAN_UNPOISON_MEMORY_REGION(array, used);
    ASAN_POISON_MEMORY_REGION((char *)array + used, bytes - used);
}

/* As new: all is zero, but registers and shared memory, which ptx_run.c fills. */
static void reset(struct run *r, struct cta *cta, const struct sizes *used,
                  const struct sizes *sizes) {
    *cta = (struct cta){.warps = cta->warps, .shared = cta->shared, .nwarps = (int)used->nwarps};
    bound(cta->shared, used->shared, sizes->shared + 1u);
    for (int i = 0; i < cta->nwarps; i++) {
        struct warp *w = &cta->warps[i];
        *w = (struct warp){.regs = w->regs,
                           .preds = w->preds,
                           .local = w->local,
                           .fn = r->fn,
                           .cta = cta,
                           .run = r,
                           .index = i};
        bound(w->regs, used->nregs * sizeof *w->regs, (sizes->nregs + 1u) * sizeof *w->regs);
        bound(w->preds, used->npreds * sizeof *w->preds, (sizes->npreds + 1u) * sizeof *w->preds);
        bound(w->local, LANES * used->local, LANES * (sizes->local + 1u));
        memset(w->local, 0, LANES * used->local);
    }
}

void ptx_ctas_take(struct run *r) {
    const struct sizes used = sizes_of(r);
    r->memory = take(&used);
    r->ctas = r->memory->cta;
    for (unsigned c = 0; c < used.nctas; c++)
        reset(r, &r->ctas[c], &used, &r->memory->sizes);
}

void ptx_ctas_give(struct run *r) {
    keep(r->memory);
}
