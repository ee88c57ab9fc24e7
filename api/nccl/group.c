/* SPDX-License-Identifier: BSD-3-Clause */
/* See nccl_group.h. */
#include "nccl_group.h"
#include <stdlib.h>
#include <string.h>

static _Thread_local struct group {
    int depth;
    ncclResult_t result; /* the first error of a call in it, and its text */
    char text[512];
    struct operation *operations;
    size_t n, cap;
} group;

static bool push(struct operation operation) {
    if (group.n == group.cap) {
        const size_t cap = group.cap ? 2 * group.cap : 16;
        struct operation *larger = realloc(group.operations, cap * sizeof *larger);
        if (!larger)
            return false;
        group.operations = larger;
        group.cap = cap;
    }
    operation.number = group.n;
    group.operations[group.n++] = operation;
    return true;
}

ncclResult_t group_fail(ncclResult_t result) {
    if (group.depth == 0 || group.result != ncclSuccess || result == ncclSuccess ||
        result == ncclInProgress)
        return result;
    group.result = result;
    snprintf(group.text, sizeof group.text, "%s", ncclGetLastError(NULL));
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
    return push(alone) ? ncclSuccess
                       : group_fail(face_fail(ncclSystemError, "%s: no memory", alone.name));
}

bool group_await(struct ncclComm *comm) {
    const bool ends = comm->state == COMM_ENDING || comm->state == COMM_ENDED;
    const int kind = ends ? OPERATION_END : OPERATION_MAKE;
    return group.depth > 0 && push((struct operation){.comm = comm, .id = comm->id, .kind = kind});
}

NCCL_API(ncclResult_t, ncclGroupStart)(void) {
    group.depth++;
    return ncclSuccess;
}

/* An error takes precedence over ncclInProgress. */
static ncclResult_t worse(ncclResult_t a, ncclResult_t b) {
    return a == ncclSuccess || (a == ncclInProgress && b != ncclSuccess) ? b : a;
}

/* Waits for communicators, and leaves the operations. If a call of the group failed, the other
 * ranks of its communicators may never arrive: then what is being made is ended. */
static ncclResult_t communicators_end(struct group *ended) {
    const size_t n = ended->n;
    ncclResult_t result = ended->result;
    char why[600];
    snprintf(why, sizeof why, "another call of the group failed: %s", ended->text);
    ended->n = 0;
    for (size_t i = 0; i < n; i++) {
        const struct operation *o = &ended->operations[i];
        if (o->kind != OPERATION_MAKE && o->kind != OPERATION_END)
            ended->operations[ended->n++] = *o;
        else
            result = worse(result, comm_wait(o->comm, o->id, o->kind == OPERATION_END,
                                             ended->result == ncclSuccess ? NULL : why));
    }
    /* Calls after the failed one may have had errors too. */
    return ended->result == ncclSuccess ? result : face_fail(result, "%s", ended->text);
}

NCCL_API(ncclResult_t, ncclGroupEnd)(void) {
    if (group.depth == 0)
        return face_fail(ncclInvalidUsage, "ncclGroupEnd: there was no ncclGroupStart");
    if (--group.depth > 0)
        return group.result;
    struct group ended = group;
    memset(&group, 0, sizeof group);
    ncclResult_t result = communicators_end(&ended);
    if (ended.n > 0 && (result == ncclSuccess || result == ncclInProgress))
        result = worse(result, operations_issue(ended.operations, ended.n));
    free(ended.operations);
    return result;
}
