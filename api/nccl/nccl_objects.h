/* SPDX-License-Identifier: BSD-3-Clause */
/* What a program makes with a communicator: scaled sums (PreMulSum) and registered memory. Each is
 * in a list of its communicator. Its number is the program's handle, and that of no other one. */
#ifndef NCCL_OBJECTS_H
#define NCCL_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>
#include "nccl_abi.h"
#include "ringcomm.h"

/* The scalar of a created operator. An operation keeps a copy: the program may destroy the operator
 * as soon as the call has returned. */
struct scalar {
    const void *at;          /* in device memory; NULL: the value is given */
    unsigned char value[16]; /* an element of the type */
};

struct object {
    struct object *next;
    intptr_t number;
    /* of a sum */
    rcm_dtype dtype;
    struct scalar scalar;
    /* registered */
    void *memory;
    size_t bytes;
};

/* All functions: under the lock of communicators.
 * Adds a copy. `what` names NCCL's function in errors. */
ncclResult_t object_add(struct object **list, struct object object, int *ret_number,
                        const char *what);
/* Where the list has it, or the end of the list, which is NULL. */
struct object **object_find(struct object **list, intptr_t number);
/* False: there is none. */
bool object_remove(struct object **list, intptr_t number);
void objects_free(struct object **list);

#endif
