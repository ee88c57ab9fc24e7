/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory: each region has a key that is not used again soon, and rights. */
#include "played.h"

static struct ibv_mr *fake_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access) {
    if (played_call_fails(PROVIDER_REG_MR))
        return NULL;
    pthread_mutex_lock(&played.lock);
    int i = 0;
    while (i < MRS_MAX && played.mrs[i].used)
        i++;
    REQUIRE(i < MRS_MAX);
    /* A key is not used again soon. */
    const uint32_t key = (played_random() & 0xffffu) << 16 | (uint32_t)i;
    played.mrs[i] = (struct fake_mr){.base = {.context = pd->context,
                                              .pd = pd,
                                              .addr = addr,
                                              .length = length,
                                              .lkey = key,
                                              .rkey = key},
                                     .access = access,
                                     .used = true};
    pthread_mutex_unlock(&played.lock);
    return &played.mrs[i].base;
}

static int fake_dereg_mr(struct ibv_mr *mr) {
    pthread_mutex_lock(&played.lock);
    ((struct fake_mr *)mr)->used = false;
    pthread_mutex_unlock(&played.lock);
    return played_ended(PROVIDER_DEREG_MR);
}

/* May those bytes be used by that key? Under the lock. */
bool played_mr_allows(const struct ibv_pd *pd, uint32_t key, uint64_t addr, size_t len,
                      int access) {
    const struct fake_mr *mr = &played.mrs[key % MRS_MAX];
    if (len == 0)
        return true;
    return mr->used && mr->base.rkey == key && mr->base.pd == pd &&
           (mr->access & access) == access && addr >= (uintptr_t)mr->base.addr &&
           len <= mr->base.length && addr - (uintptr_t)mr->base.addr <= mr->base.length - len;
}

void played_memory(struct verbs_table *table) {
    table->reg_mr = fake_reg_mr;
    table->dereg_mr = fake_dereg_mr;
}
