/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operators that the program creates: one table per process, by number. The table does not contain
 * built-in operators; functions here have no effect on their numbers.
 *
 *      number    257, 258, ...; unique among live operators. Numbers are reused after 2^31
 *      holders   its creator, until rcm_op_free; each call, work and run that uses it. The last one
 *                frees it
 *      identity  what ranks compare, since numbers differ between ranks: name, kind, commutativity.
 *                The identities of the last RCMI_OPERATORS_GONE created remain after they are freed
 *
 * Not here: what is computed (kernels/).
 */
#ifndef RCMI_OPERATOR_H
#define RCMI_OPERATOR_H

#include <stdbool.h>
#include "keyed.h"
#include "ringcomm.h"

#define RCMI_OPERATORS_FROM 257
#define RCMI_OPERATORS_GONE 256

/* Compared between ranks and shown in reports. `kind` is the kernels' internal number (kernels.h),
 * equal in all processes. */
struct rcmi_operator_identity {
    char name[RCM_OP_NAME_MAX];
    rcm_op kind;
    uint32_t flags; /* RCM_OP_COMMUTATIVE */
};

struct rcmi_operator {
    struct rcmi_operator_identity identity;
    rcm_dtype dtype;          /* the only supported type, or RCM_ANY_DTYPE */
    double scale[2];          /* for premul_sum: real, imaginary */
    const void *scale_at;     /* the same as an element of dtype, read by each operation */
    rcm_op_function function; /* from rcm_op_create, like context */
    void *context;
    /* Owned by the table, under its lock. */
    struct rcmi_keyed_item item;
    rcm_op op;
    uint32_t holders;
    bool freed; /* by rcm_op_free */
};

static inline bool rcmi_op_is_created(rcm_op op) {
    return op >= RCMI_OPERATORS_FROM;
}

/* Any thread, for all functions. Adds a copy and gives it a number; the creator holds it. */
rcm_status rcmi_operator_add(const struct rcmi_operator *given, rcm_op *ret_op);
/* Adds a holder. RCM_ERR_INVALID with an error text if there is no such operator or rcm_op_free was
 * called. _share: for an operator that is held already, also after rcm_op_free. */
rcm_status rcmi_operator_hold(rcm_op op);
void rcmi_operator_share(rcm_op op);
/* rcm_op_free for operators that are not built in. */
rcm_status rcmi_operator_free(rcm_op op);
/* Removes a holder. */
void rcmi_operator_drop(rcm_op op);
/* While it is held. NULL: not a created operator. */
const struct rcmi_operator *rcmi_operator_of(rcm_op op);
/* Whether or not it is held. False: its identity is unknown, or no longer known. */
bool rcmi_operator_identify(rcm_op op, struct rcmi_operator_identity *ret_identity);
/* While it is held: does it commute? Built-in operators do. */
bool rcmi_operator_commutes(rcm_op op);
/* While it is held: is it a user-defined function? The CPU calls it, on host memory. */
bool rcmi_operator_is_function(rcm_op op);
/* A hash of the identity: equal identities have equal hashes on all ranks. */
uint64_t rcmi_operator_hash(rcm_op op);

#endif
