/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of operators that the program creates: see operator.h. */
#include "operator.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"

static struct {
    pthread_mutex_t lock; /* guards the whole table */
    struct rcmi_keyed live;
    rcm_op last; /* number given last */
    struct gone {
        rcm_op op;
        struct rcmi_operator_identity identity;
    } gone[RCMI_OPERATORS_GONE]; /* by number */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .last = RCMI_OPERATORS_FROM - 1};

static void table_lock(void) {
    pthread_mutex_lock(&table.lock);
}

static void table_unlock(void) {
    pthread_mutex_unlock(&table.lock);
}

/* Keeps the table consistent and unlocked in a forked child. */
static void table_survive_forks(void) {
    pthread_atfork(table_lock, table_unlock, table_unlock);
}

static struct rcmi_key table_key(rcm_op op) {
    return (struct rcmi_key){{(uint64_t)op, 0}};
}

/* The caller holds the lock. */
static struct rcmi_operator *table_find(rcm_op op) {
    struct rcmi_keyed_item *item = rcmi_keyed_find(&table.live, table_key(op));
    return item ? (struct rcmi_operator *)(void *)((char *)item -
                                                   offsetof(struct rcmi_operator, item))
                : NULL;
}

static rcm_op table_number(void) {
    do
        table.last = table.last == INT32_MAX ? RCMI_OPERATORS_FROM : table.last + 1;
    while (table_find(table.last));
    return table.last;
}

rcm_status rcmi_operator_add(const struct rcmi_operator *given, rcm_op *ret_op) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct rcmi_operator *o = malloc(sizeof(*o));
    if (!o)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for an operator");
    *o = *given;
    o->holders = 1;
    o->freed = false;
    pthread_once(&once, table_survive_forks);
    table_lock();
    o->op = table_number();
    table.gone[o->op % RCMI_OPERATORS_GONE] = (struct gone){.op = o->op, .identity = o->identity};
    rcmi_keyed_add(&table.live, table_key(o->op), &o->item);
    *ret_op = o->op;
    table_unlock();
    return RCM_OK;
}

static rcm_status operator_fail(rcm_op op) {
    return rcmi_fail(RCM_ERR_INVALID, 0, "op %d is not an operator, or was freed", (int)op);
}

/* Finds an operator that was not freed. The caller holds the lock. */
static struct rcmi_operator *table_find_valid(rcm_op op) {
    struct rcmi_operator *o = table_find(op);
    return o && !o->freed ? o : NULL;
}

rcm_status rcmi_operator_hold(rcm_op op) {
    if (!rcmi_op_is_created(op))
        return RCM_OK;
    table_lock();
    struct rcmi_operator *o = table_find_valid(op);
    if (o)
        o->holders++;
    table_unlock();
    return o ? RCM_OK : operator_fail(op);
}

void rcmi_operator_share(rcm_op op) {
    if (!rcmi_op_is_created(op))
        return;
    table_lock();
    table_find(op)->holders++;
    table_unlock();
}

void rcmi_operator_drop(rcm_op op) {
    if (!rcmi_op_is_created(op))
        return;
    table_lock();
    struct rcmi_operator *o = table_find(op);
    if (--o->holders == 0)
        rcmi_keyed_remove(&table.live, &o->item);
    else
        o = NULL;
    table_unlock();
    free(o);
}

const struct rcmi_operator *rcmi_operator_of(rcm_op op) {
    if (!rcmi_op_is_created(op))
        return NULL;
    table_lock();
    const struct rcmi_operator *o = table_find(op);
    table_unlock();
    return o;
}

bool rcmi_operator_identify(rcm_op op, struct rcmi_operator_identity *ret_identity) {
    if (!rcmi_op_is_created(op))
        return false;
    table_lock();
    const struct rcmi_operator *o = table_find(op);
    const struct gone *gone = &table.gone[op % RCMI_OPERATORS_GONE];
    const struct rcmi_operator_identity *found = o                ? &o->identity
                                                 : gone->op == op ? &gone->identity
                                                                  : NULL;
    if (found)
        *ret_identity = *found;
    table_unlock();
    return found != NULL;
}

bool rcmi_operator_commutes(rcm_op op) {
    const struct rcmi_operator *o = rcmi_operator_of(op);
    return !o || o->identity.flags & RCM_OP_COMMUTATIVE;
}

bool rcmi_operator_is_function(rcm_op op) {
    const struct rcmi_operator *o = rcmi_operator_of(op);
    return o && o->function;
}

uint64_t rcmi_operator_hash(rcm_op op) {
    struct rcmi_operator_identity identity;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    if (!rcmi_operator_identify(op, &identity))
        return (uint64_t)op;
    for (const char *c = identity.name; *c; c++)
        hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    return hash ^ (uint64_t)identity.kind << 8 ^ identity.flags;
}

rcm_status rcmi_operator_free(rcm_op op) {
    table_lock();
    struct rcmi_operator *o = table_find_valid(op);
    if (o)
        o->freed = true;
    table_unlock();
    if (!o)
        return operator_fail(op);
    rcmi_operator_drop(op);
    return RCM_OK;
}
