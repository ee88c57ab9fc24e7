/* SPDX-License-Identifier: BSD-3-Clause */
/* See between.h. All are one exchange among the ranks of both groups, in which pairs that exchange
 * nothing have blocks without bytes. Reductions are computed from all contributions where their
 * result is. Blocks are bytes, for a rank with MPI_PROC_NULL passes no type. */
#include "between.h"
#include <stdlib.h>
#include "device_memory.h"
#include "operators.h"

/* Which ranks of the other group a side has blocks of: ONE is the root; SAME is one block for
 * all. */
enum reach { NONE, ONE, SAME, EACH };

struct plan {
    enum reach send, recv;
};

static const struct {
    struct plan root, others;
} plans[] = {
    [BETWEEN_BROADCAST] = {{SAME, NONE}, {NONE, ONE}},
    [BETWEEN_GATHER] = {{NONE, EACH}, {ONE, NONE}},
    [BETWEEN_SCATTER] = {{EACH, NONE}, {NONE, ONE}},
    [BETWEEN_ALL_GATHER] = {{NONE, NONE}, {SAME, EACH}},
    [BETWEEN_ALL_TO_ALL] = {{NONE, NONE}, {EACH, EACH}},
};

static struct plan find_plan(enum between kind, int root) {
    return root == MPI_ROOT        ? plans[kind].root
           : root == MPI_PROC_NULL ? (struct plan){NONE, NONE}
                                   : plans[kind].others;
}

static struct blocks reach_blocks(const struct MPI_ABI_Comm *comm, const struct blocks *blocks,
                                  enum reach reach, int root) {
    struct blocks reached = *blocks;
    reached.first = comm->peer_first + (reach == ONE ? root : 0);
    reached.n = reach == NONE ? 0 : reach == ONE ? 1 : comm->npeers;
    reached.is_same = reach == SAME;
    return reached;
}

static int check_places(struct form *form, bool is_in_place) {
    return is_in_place ? form_error(form, MPI_ERR_BUFFER,
                                    "a buffer is MPI_IN_PLACE, which intercommunicators do not "
                                    "have. Pass two buffers")
                       : MPI_SUCCESS;
}

static int issue(struct form *form, const struct MPI_ABI_Comm *comm, struct operation *operation,
                 struct lists *lists) {
    const rcm_status status = rcm_all_to_all_list(
        comm->comm, (const void *const *)lists->send, lists->send_counts, lists->recv,
        lists->recv_counts, RCM_UINT8, operation_call(form), operation_work(form, operation));
    lists_free(lists);
    return operation_issued(form, operation, status, NULL);
}

int between_move(struct form *form, const struct MPI_ABI_Comm *comm, enum between kind, int root,
                 const struct blocks *send, const struct blocks *recv) {
    struct operation local, *operation;
    struct lists lists = {.in_bytes = true};
    const struct plan plan = find_plan(kind, root);
    const struct blocks from = reach_blocks(comm, send, plan.send, root);
    const struct blocks to = reach_blocks(comm, recv, plan.recv, root);
    int code = check_places(form, (from.n && from.buffer == MPI_IN_PLACE) ||
                                      (to.n && to.buffer == MPI_IN_PLACE));
    if (code == MPI_SUCCESS)
        code = operation_bind(form, &local, NULL, NULL, &operation);
    if (code == MPI_SUCCESS)
        code = lists_bind(form, &from, &to, comm->size + comm->npeers, DATA_OUT, operation, &lists);
    return code == MPI_SUCCESS ? issue(form, comm, operation, &lists) : code;
}

/* Lists of the contributions: what is sent is bound, what is received is memory of the operation.
 */
static int list_contributions(struct form *form, const struct MPI_ABI_Comm *comm, struct plan plan,
                              int root, size_t bytes, struct operation *operation,
                              struct lists *lists) {
    const int size = comm->size + comm->npeers;
    const int n = plan.recv == EACH ? comm->npeers : 0;
    operation->temporary = malloc(bytes * (size_t)n + 1);
    if (!lists_make(operation, size, size, lists) || !operation->temporary) {
        lists_free(lists);
        return operation_drop(
            form, operation,
            form_error(form, MPI_ERR_NO_MEM, "no memory for %d times %zu bytes", n, bytes));
    }
    for (int i = 0; i < comm->npeers; i++) {
        const int rank = comm->peer_first + i;
        if (plan.send == SAME || (plan.send == ONE && i == root)) {
            lists->send[rank] = operation->send.address;
            lists->send_counts[rank] = operation->send.bytes;
        }
        lists->recv[rank] = (char *)operation->temporary + bytes * (size_t)i;
        lists->recv_counts[rank] = n ? bytes : 0;
    }
    return MPI_SUCCESS;
}

int between_reduce(struct form *form, const struct MPI_ABI_Comm *comm, enum between kind, int root,
                   struct side *send, struct side *recv, MPI_Op op, MPI_Count skip) {
    struct operation local, *operation;
    struct lists lists = {0};
    struct reduction by = {.made = NULL};
    const struct plan plan = find_plan(kind, root);
    int code = check_places(form, (plan.send != NONE && send->buffer == MPI_IN_PLACE) ||
                                      (plan.recv != NONE && recv->buffer == MPI_IN_PLACE));
    if (code == MPI_SUCCESS && (plan.send != NONE || plan.recv != NONE))
        code = reduction_find(form, op, send->type, &by);
    if (code == MPI_SUCCESS && by.pairs)
        send->type = recv->type = by.pairs;
    if (code == MPI_SUCCESS)
        code = operation_bind(form, &local, plan.send != NONE ? send : NULL,
                              plan.recv != NONE ? recv : NULL, &operation);
    if (code != MPI_SUCCESS) {
        reduction_end(by.made);
        return code;
    }
    operation->made_op = by.made;
    size_t bytes = 0;
    const void *const own = plan.recv != NONE ? operation->recv.address : operation->send.address;
    code =
        memory_check_host(form, own, "reductions of intercommunicators are computed on the host");
    if (code != MPI_SUCCESS)
        return operation_drop(form, operation, code);
    if (plan.recv != NONE) {
        const size_t element = rcm_dtype_size(by.dtype);
        bytes = (size_t)send->count * element;
        operation->fold = (struct fold){.op = by.op,
                                        .dtype = by.dtype,
                                        .n = comm->npeers,
                                        .stride = bytes,
                                        .skip = (size_t)skip * element};
    }
    code = list_contributions(form, comm, plan, root, bytes, operation, &lists);
    return code == MPI_SUCCESS ? issue(form, comm, operation, &lists) : code;
}
