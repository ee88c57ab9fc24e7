/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory: each region has access rights and a key that is not reused soon. */
#include "fake_verbs.h"

static struct ibv_mr *fake_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access) {
    if (fake_verbs_call_fails(PROVIDER_REG_MR))
        return NULL;
    pthread_mutex_lock(&fake.lock);
    int i = 0;
    while (i < MRS_MAX && fake.mrs[i].used)
        i++;
    REQUIRE(i < MRS_MAX);
    /* not reused soon */
    const uint32_t key = (fake_verbs_random() & 0xffffu) << 16 | (uint32_t)i;
    fake.mrs[i] = (struct fake_mr){.base = {.context = pd->context,
                                            .pd = pd,
                                            .addr = addr,
                                            .length = length,
                                            .lkey = key,
                                            .rkey = key},
                                   .access = access,
                                   .used = true};
    pthread_mutex_unlock(&fake.lock);
    return &fake.mrs[i].base;
}

static int fake_dereg_mr(struct ibv_mr *mr) {
    pthread_mutex_lock(&fake.lock);
    ((struct fake_mr *)mr)->used = false;
    pthread_mutex_unlock(&fake.lock);
    return fake_verbs_ended(PROVIDER_DEREG_MR);
}

/* True if the key allows access to those bytes. Under the lock. */
bool fake_verbs_mr_allows(const struct ibv_pd *pd, uint32_t key, uint64_t addr, size_t len,
                          int access) {
    const struct fake_mr *mr = &fake.mrs[key % MRS_MAX];
    if (len == 0)
        return true;
    return mr->used && mr->base.rkey == key && mr->base.pd == pd &&
           (mr->access & access) == access && addr >= (uintptr_t)mr->base.addr &&
           len <= mr->base.length && addr - (uintptr_t)mr->base.addr <= mr->base.length - len;
}

void fake_verbs_memory(struct verbs_table *table) {
    table->reg_mr = fake_reg_mr;
    table->dereg_mr = fake_dereg_mr;
}
