/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operators that the program creates: one table of the process, by number. Those that ringcomm.h's
 * table has are none of them; no function here has an effect on their numbers.
 *
 *      number    257, 258, ...: one of an operator that still lives is not given again, so a number
 *                names one operator; the others are given again after 2^31
 *      holders   its creator, until rcm_op_free; each call, work and run that uses it. The last one
 *                frees it
 *      identity  what ranks compare, for each has numbers of its own: name, kind, commutativity.
 *                That of the last RCMI_OPERATORS_GONE created is still known when they are freed
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

/* What ranks compare and reports show. `kind` is the internal number that kernels have for it
 * (kernels.h), the same in all processes. */
struct rcmi_operator_identity {
    char name[RCM_OP_NAME_MAX];
    rcm_op kind;
    uint32_t flags; /* RCM_OP_COMMUTATIVE */
};

struct rcmi_operator {
    struct rcmi_operator_identity identity;
    rcm_dtype dtype;          /* the only one that it is for, or RCM_ANY_DTYPE */
    double scale[2];          /* of premul_sum: real, imaginary */
    rcm_op_function function; /* of rcm_op_create, as the next */
    void *context;
    /* The table's, under its lock. */
    struct rcmi_keyed_item item;
    rcm_op op;
    uint32_t holders;
    bool freed; /* by rcm_op_free */
};

static inline bool rcmi_op_is_created(rcm_op op) {
    return op >= RCMI_OPERATORS_FROM;
}

/* Any thread, all of them. A copy gets a number; its creator holds it. */
rcm_status rcmi_operator_add(const struct rcmi_operator *given, rcm_op *ret_op);
/* Another holder. RCM_ERR_INVALID, with a sentence, if there is no such operator or rcm_op_free was
 * called; _share: of one that is held already, also after rcm_op_free. */
rcm_status rcmi_operator_hold(rcm_op op);
void rcmi_operator_share(rcm_op op);
/* rcm_op_free, of what is not built in. */
rcm_status rcmi_operator_free(rcm_op op);
/* A holder less. */
void rcmi_operator_drop(rcm_op op);
/* While it is held. NULL: it is none that was created. */
const struct rcmi_operator *rcmi_operator_of(rcm_op op);
/* Whether or not it is held. False: its identity is not known, or not any more. */
bool rcmi_operator_identify(rcm_op op, struct rcmi_operator_identity *ret_identity);
/* While it is held: may operands be exchanged? Of those in ringcomm.h's table: yes. */
bool rcmi_operator_commutes(rcm_op op);
/* While it is held: a function of the program's? The CPU calls it, on host memory. */
bool rcmi_operator_is_function(rcm_op op);
/* Of an identity: the same number for equal ones, on all ranks. */
uint64_t rcmi_operator_hash(rcm_op op);

#endif
