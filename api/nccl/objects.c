/* SPDX-License-Identifier: BSD-3-Clause */
/* See nccl_objects.h. */
#include "nccl_objects.h"
#include <stdlib.h>
#include "nccl_errors.h"

ncclResult_t object_add(struct object **list, struct object object, int *ret_number,
                        const char *what) {
    static int last = ncclNumOps - 1;
    struct object *added = malloc(sizeof *added);
    if (!added)
        return face_fail(ncclSystemError, "%s: no memory", what);
    last = last == INT32_MAX ? (int)ncclNumOps : last + 1;
    object.number = *ret_number = last;
    object.next = *list;
    *added = object;
    *list = added;
    return ncclSuccess;
}

struct object **object_find(struct object **list, intptr_t number) {
    while (*list && (*list)->number != number)
        list = &(*list)->next;
    return list;
}

bool object_remove(struct object **list, intptr_t number) {
    struct object **at = object_find(list, number), *found = *at;
    if (found)
        *at = found->next;
    free(found);
    return found != NULL;
}

void objects_free(struct object **list) {
    while (*list)
        (void)object_remove(list, (*list)->number);
}
