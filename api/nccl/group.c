/* SPDX-License-Identifier: BSD-3-Clause */
/* See nccl_group.h. */
#include "nccl_group.h"
#include <stdlib.h>
#include <string.h>

static _Thread_local struct group {
    int depth;
    ncclResult_t result; /* the first error of a call in it */
    struct operation *operations;
    size_t n, cap;
    struct awaited {
        struct ncclComm *comm;
        uint64_t id;
        bool ends; /* finalized, not made */
    } * awaited;
    size_t nawaited, awaited_cap;
} group;

/* Makes room for one more element. */
static bool grow(void *array, size_t *cap, size_t n, size_t size) {
    void *old;
    memcpy(&old, array, sizeof old);
    if (n < *cap)
        return true;
    const size_t more = *cap ? 2 * *cap : 16;
    void *larger = realloc(old, more * size);
    if (!larger)
        return false;
    memcpy(array, &larger, sizeof larger);
    *cap = more;
    return true;
}

ncclResult_t group_fail(ncclResult_t result) {
    if (group.depth > 0 && group.result == ncclSuccess)
        group.result = result;
    return result;
}

ncclResult_t group_defer(ncclResult_t result) {
    (void)group_fail(result);
    return group.depth > 0 && result != ncclInvalidArgument ? ncclSuccess : result;
}

ncclResult_t group_add(const struct operation *operation) {
    struct operation alone = *operation;
    if (group.depth == 0)
        return operations_issue(&alone, 1);
    if (!grow(&group.operations, &group.cap, group.n, sizeof alone))
        return group_fail(face_fail(ncclSystemError, "%s: no memory", operation->name));
    alone.id = alone.comm->id;
    group.operations[group.n++] = alone;
    return ncclSuccess;
}

bool group_await(struct ncclComm *comm) {
    if (group.depth == 0 ||
        !grow(&group.awaited, &group.awaited_cap, group.nawaited, sizeof *group.awaited))
        return false;
    group.awaited[group.nawaited++] =
        (struct awaited){comm, comm->id, comm->state == COMM_ENDING || comm->state == COMM_ENDED};
    return true;
}

ncclResult_t group_begin(void) {
    group.depth++;
    return ncclSuccess;
}

/* An error takes precedence over ncclInProgress. */
static ncclResult_t worse(ncclResult_t a, ncclResult_t b) {
    return a == ncclSuccess || (a == ncclInProgress && b != ncclSuccess) ? b : a;
}

/* Enters the communicators again: they may have been aborted since the calls. */
static ncclResult_t operations_run(struct operation *operations, size_t n) {
    ncclResult_t result = ncclSuccess;
    size_t entered = 0;
    while (entered < n && result == ncclSuccess) {
        const struct operation *o = &operations[entered];
        result = comm_enter(o->comm, o->id, o->name);
        entered += result == ncclSuccess;
    }
    if (result == ncclSuccess)
        result = operations_issue(operations, n);
    while (entered > 0)
        comm_exit(operations[--entered].comm);
    return result;
}

/* If a call of the group failed, the other ranks of its communicators may never arrive: then what
 * is being made is ended. */
static ncclResult_t awaited_end(const struct group *ended) {
    ncclResult_t result = ended->result;
    char why[512] = "";
    if (result != ncclSuccess)
        snprintf(why, sizeof why, "another call of the group failed: %s", ncclGetLastError(NULL));
    for (size_t i = 0; i < ended->nawaited; i++) {
        const struct awaited *a = &ended->awaited[i];
        if (ended->result != ncclSuccess)
            comm_cancel(a->comm, a->id, why);
        else
            result = worse(result, comm_wait(a->comm, a->id, a->ends));
    }
    return result;
}

ncclResult_t group_end(void) {
    if (group.depth == 0)
        return face_fail(ncclInvalidUsage, "ncclGroupEnd: there was no ncclGroupStart");
    if (--group.depth > 0)
        return group.result;
    struct group ended = group;
    memset(&group, 0, sizeof group);
    ncclResult_t result = awaited_end(&ended);
    if (ended.n > 0 && (result == ncclSuccess || result == ncclInProgress))
        result = worse(result, operations_run(ended.operations, ended.n));
    free(ended.operations);
    free(ended.awaited);
    return result;
}

NCCL_API(ncclResult_t, ncclGroupStart)(void) {
    return group_begin();
}

NCCL_API(ncclResult_t, ncclGroupEnd)(void) {
    return group_end();
}
