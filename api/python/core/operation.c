/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations. Each is a row of a table: its name, its arguments as letters, and a function that
 * passes them to ringcomm.h. run_row() converts the arguments, calls, and waits for all of them.
 *
 * In Python every operation is  name(comm, ARGUMENTS..., keep, mode, timeout_ms), all positional.
 * keep: an object that lives until the operation is complete. mode: enum core_mode.
 * timeout_ms: as rcm_call.timeout_ms.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

/* The letters of struct row.arguments, in the order of the arguments. */
enum {
    SEND = 's',  /* a view that is read */
    RECV = 'r',  /* a view that is written */
    SENDS = 'S', /* a list of these, one per rank, or None */
    RECVS = 'R',
    COUNT = 'n',   /* elements; None: length of the view of the row's count rule */
    COUNT2 = 'm',  /* likewise, of recv */
    COUNTS = 'c',  /* one per rank, of send */
    COUNTS2 = 'C', /* of recv */
    DISPLS = 'e',  /* one per rank, of send, or None */
    DISPLS2 = 'E', /* of recv */
    DTYPE = 'd',   /* a number; None: the views' type */
    OP = 'o',
    RANK = 'p', /* root, or a peer */
    RANK2 = 'P',
    TAG = 't',
    TAG2 = 'T',
    FLAGS = 'u'
};

struct view_list {
    struct core_view *views;
    void **data;
    size_t n;
};

struct arguments {
    rcm_comm *comm;
    struct core_view send, recv;
    struct view_list sends, recvs;
    size_t count, count2;
    bool count_given, count2_given;
    size_t *counts, *counts2, *displs, *displs2;
    rcm_dtype dtype;
    rcm_op op;
    int rank, rank2;
    uint64_t tag, tag2;
    uint32_t flags;
};

typedef rcm_status run_function(const struct arguments *a, const struct rcm_call *call,
                                rcm_work **ret_work);

/* The view whose length is COUNT if that is None. */
enum count_rule { COUNT_OF_SEND, COUNT_OF_RECV, COUNT_OF_BLOCK /* send, divided by the ranks */ };
/* Number of blocks of count elements in a buffer. */
enum blocks { ONE, PER_RANK, PER_RANK_AT_ROOT };

struct row {
    const char *name, *arguments;
    run_function *run;
    enum count_rule count_rule;
    enum blocks send_blocks, recv_blocks;
    bool receives; /* it returns a message */
};

#define RUN(name, ...)                                                                             \
    static rcm_status run_##name(const struct arguments *a, const struct rcm_call *call,           \
                                 rcm_work **work) {                                                \
        return rcm_##name(a->comm, __VA_ARGS__, call, work);                                       \
    }
#define SEND_LIST ((const void *const *)a->sends.data)
#define RECV_LIST ((void *const *)a->recvs.data)

RUN(all_reduce, a->send.data, a->recv.data, a->count, a->dtype, a->op)
RUN(broadcast, a->recv.data, a->count, a->dtype, a->rank)
RUN(monitored_barrier, a->flags)
RUN(reduce, a->send.data, a->recv.data, a->count, a->dtype, a->op, a->rank)
RUN(scatter, a->send.data, a->recv.data, a->count, a->dtype, a->rank)
RUN(gather, a->send.data, a->recv.data, a->count, a->dtype, a->rank)
RUN(all_gather, a->send.data, a->recv.data, a->count, a->dtype)
RUN(reduce_scatter, a->send.data, a->recv.data, a->count, a->dtype, a->op)
RUN(all_to_all, a->send.data, a->recv.data, a->count, a->dtype)
RUN(scan, a->send.data, a->recv.data, a->count, a->dtype, a->op)
RUN(exscan, a->send.data, a->recv.data, a->count, a->dtype, a->op)
RUN(scatter_v, a->send.data, a->counts, a->displs, a->recv.data, a->count2, a->dtype, a->rank)
RUN(gather_v, a->send.data, a->count, a->recv.data, a->counts2, a->displs2, a->dtype, a->rank)
RUN(all_gather_v, a->send.data, a->count, a->recv.data, a->counts2, a->displs2, a->dtype)
RUN(reduce_scatter_v, a->send.data, a->counts, a->displs, a->recv.data, a->count2, a->dtype, a->op)
RUN(all_to_all_v, a->send.data, a->counts, a->displs, a->recv.data, a->counts2, a->displs2,
    a->dtype)
RUN(scatter_list, SEND_LIST, a->counts, a->recv.data, a->count2, a->dtype, a->rank)
RUN(gather_list, a->send.data, a->count, RECV_LIST, a->counts2, a->dtype, a->rank)
RUN(all_gather_list, a->send.data, a->count, RECV_LIST, a->counts2, a->dtype)
RUN(reduce_scatter_list, SEND_LIST, a->counts, a->recv.data, a->count2, a->dtype, a->op)
RUN(all_to_all_list, SEND_LIST, a->counts, RECV_LIST, a->counts2, a->dtype)
RUN(send, a->send.data, a->count, a->dtype, a->rank, a->tag)
RUN(ssend, a->send.data, a->count, a->dtype, a->rank, a->tag)
RUN(recv, a->recv.data, a->count, a->dtype, a->rank, a->tag)
RUN(sendrecv, a->send.data, a->count, a->rank, a->tag, a->recv.data, a->count2, a->rank2, a->tag2,
    a->dtype)
static rcm_status run_barrier(const struct arguments *a, const struct rcm_call *call,
                              rcm_work **work) {
    return rcm_barrier(a->comm, call, work);
}

static const struct row rows[] = {
    {"all_reduce", "srndo", run_all_reduce, COUNT_OF_SEND, ONE, ONE, false},
    {"broadcast", "rndp", run_broadcast, COUNT_OF_RECV, ONE, ONE, false},
    {"barrier", "", run_barrier, COUNT_OF_SEND, ONE, ONE, false},
    {"monitored_barrier", "u", run_monitored_barrier, COUNT_OF_SEND, ONE, ONE, false},
    {"reduce", "srndop", run_reduce, COUNT_OF_SEND, ONE, ONE, false},
    {"scatter", "srndp", run_scatter, COUNT_OF_RECV, PER_RANK_AT_ROOT, ONE, false},
    {"gather", "srndp", run_gather, COUNT_OF_SEND, ONE, PER_RANK_AT_ROOT, false},
    {"all_gather", "srnd", run_all_gather, COUNT_OF_SEND, ONE, PER_RANK, false},
    {"reduce_scatter", "srndo", run_reduce_scatter, COUNT_OF_RECV, PER_RANK, ONE, false},
    {"all_to_all", "srnd", run_all_to_all, COUNT_OF_BLOCK, PER_RANK, PER_RANK, false},
    {"scan", "srndo", run_scan, COUNT_OF_SEND, ONE, ONE, false},
    {"exscan", "srndo", run_exscan, COUNT_OF_SEND, ONE, ONE, false},
    {"scatter_v", "scermdp", run_scatter_v, COUNT_OF_RECV, ONE, ONE, false},
    {"gather_v", "snrCEdp", run_gather_v, COUNT_OF_SEND, ONE, ONE, false},
    {"all_gather_v", "snrCEd", run_all_gather_v, COUNT_OF_SEND, ONE, ONE, false},
    {"reduce_scatter_v", "scermdo", run_reduce_scatter_v, COUNT_OF_RECV, ONE, ONE, false},
    {"all_to_all_v", "scerCEd", run_all_to_all_v, COUNT_OF_SEND, ONE, ONE, false},
    {"scatter_list", "Scrmdp", run_scatter_list, COUNT_OF_RECV, ONE, ONE, false},
    {"gather_list", "snRCdp", run_gather_list, COUNT_OF_SEND, ONE, ONE, false},
    {"all_gather_list", "snRCd", run_all_gather_list, COUNT_OF_SEND, ONE, ONE, false},
    {"reduce_scatter_list", "Scrmdo", run_reduce_scatter_list, COUNT_OF_RECV, ONE, ONE, false},
    {"all_to_all_list", "ScRCd", run_all_to_all_list, COUNT_OF_SEND, ONE, ONE, false},
    {"send", "sndpt", run_send, COUNT_OF_SEND, ONE, ONE, false},
    {"ssend", "sndpt", run_ssend, COUNT_OF_SEND, ONE, ONE, false},
    {"recv", "rndpt", run_recv, COUNT_OF_RECV, ONE, ONE, true},
    {"sendrecv", "snptrmPTd", run_sendrecv, COUNT_OF_SEND, ONE, ONE, true},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

/* ---- Conversion ------------------------------------------------------------------------------ */

static bool get_list(PyObject *object, bool writable, const char *name, struct view_list *list) {
    if (object == Py_None)
        return true;
    Py_ssize_t n = PySequence_Size(object);
    if (n < 0)
        return false;
    list->views = PyMem_Calloc(n ? (size_t)n : 1, sizeof *list->views);
    list->data = PyMem_Calloc(n ? (size_t)n : 1, sizeof *list->data);
    if (!list->views || !list->data)
        return PyErr_NoMemory() != NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(object, i);
        bool good = item && core_view_get(item, writable, name, &list->views[i]);
        Py_XDECREF(item);
        if (!good)
            return false;
        list->data[i] = list->views[i].data;
        list->n++;
    }
    return true;
}

static bool get_count(PyObject *object, const char *name, size_t *count, bool *given) {
    *given = object != Py_None;
    return !*given || core_size(object, name, count);
}

static bool get_per_rank(PyObject *object, const char *name, rcm_comm *comm, size_t **ret_values) {
    size_t n;
    if (!core_sizes(object, name, ret_values, &n))
        return false;
    if (!*ret_values || n == (size_t)rcm_size(comm) || rcm_size(comm) < 0)
        return true;
    PyErr_Format(PyExc_ValueError, "%s has %zu entries, the communicator %d ranks", name, n,
                 rcm_size(comm));
    return false;
}

static bool get_number32(PyObject *object, const char *name, void *ret_value) {
    int value;
    if (!core_int(object, name, &value))
        return false;
    memcpy(ret_value, &value, sizeof value);
    return true;
}

static bool get_tag(PyObject *object, uint64_t *ret_tag) {
    *ret_tag = PyLong_AsUnsignedLongLong(object);
    return *ret_tag != UINT64_MAX || !PyErr_Occurred();
}

static bool get_argument(char letter, PyObject *object, struct arguments *a) {
    switch (letter) {
    case SEND:
        return core_view_get(object, false, "send", &a->send);
    case RECV:
        return core_view_get(object, true, "recv", &a->recv);
    case SENDS:
        return get_list(object, false, "send", &a->sends);
    case RECVS:
        return get_list(object, true, "recv", &a->recvs);
    case COUNT:
        return get_count(object, "count", &a->count, &a->count_given);
    case COUNT2:
        return get_count(object, "recv_count", &a->count2, &a->count2_given);
    case COUNTS:
        return get_per_rank(object, "send_counts", a->comm, &a->counts);
    case COUNTS2:
        return get_per_rank(object, "recv_counts", a->comm, &a->counts2);
    case DISPLS:
        return get_per_rank(object, "send_displs", a->comm, &a->displs);
    case DISPLS2:
        return get_per_rank(object, "recv_displs", a->comm, &a->displs2);
    case DTYPE:
        return object == Py_None || get_number32(object, "dtype", &a->dtype);
    case OP:
        return get_number32(object, "op", &a->op);
    case RANK:
        return core_int(object, "rank", &a->rank);
    case RANK2:
        return core_int(object, "source rank", &a->rank2);
    case TAG:
        return get_tag(object, &a->tag);
    case TAG2:
        return get_tag(object, &a->tag2);
    default:
        return get_number32(object, "flags", &a->flags);
    }
}

static void free_list(struct view_list *list) {
    for (size_t i = 0; i < list->n; i++)
        core_view_release(&list->views[i]);
    PyMem_Free(list->views);
    PyMem_Free(list->data);
}

/* keep_views: the operation continues, and core_held owns the views. */
static void free_arguments(struct arguments *a, bool keep_views) {
    if (keep_views)
        a->sends.n = a->recvs.n = 0;
    else {
        core_view_release(&a->send);
        core_view_release(&a->recv);
    }
    free_list(&a->sends);
    free_list(&a->recvs);
    PyMem_Free(a->counts);
    PyMem_Free(a->counts2);
    PyMem_Free(a->displs);
    PyMem_Free(a->displs2);
}

/* ---- Values derived from the views ----------------------------------------------------------- */

static rcm_dtype dtype_of(const struct arguments *a) {
    if (a->send.dtype)
        return a->send.dtype;
    if (a->recv.dtype)
        return a->recv.dtype;
    if (a->sends.n)
        return a->sends.views[0].dtype;
    return a->recvs.n ? a->recvs.views[0].dtype : 0;
}

static bool same_dtype(const struct core_view *view, rcm_dtype dtype, const char *name) {
    if (!view->dtype || view->dtype == dtype)
        return true;
    PyErr_Format(PyExc_TypeError, "%s is an array of %s, the call's type is %s", name,
                 rcm_dtype_name(view->dtype), rcm_dtype_name(dtype));
    return false;
}

static bool settle_dtype(struct arguments *a) {
    if (!a->dtype)
        a->dtype = dtype_of(a);
    if (!same_dtype(&a->send, a->dtype, "send") || !same_dtype(&a->recv, a->dtype, "recv"))
        return false;
    for (size_t i = 0; i < a->sends.n; i++)
        if (!same_dtype(&a->sends.views[i], a->dtype, "an entry of send"))
            return false;
    for (size_t i = 0; i < a->recvs.n; i++)
        if (!same_dtype(&a->recvs.views[i], a->dtype, "an entry of recv"))
            return false;
    return true;
}

static bool elements(const struct core_view *view, const struct arguments *a, const char *name,
                     size_t *ret_count) {
    size_t size = rcm_dtype_size(a->dtype);
    if (view->bytes == SIZE_MAX || size == 0) {
        if (view->data == NULL) {
            *ret_count = 0;
            return true;
        }
        PyErr_Format(PyExc_ValueError, "%s is an address: pass its count and dtype", name);
        return false;
    }
    *ret_count = view->bytes / size;
    return true;
}

static bool settle_counts(const struct row *row, struct arguments *a) {
    bool of_recv = row->count_rule == COUNT_OF_RECV;
    int p = rcm_size(a->comm);
    if (strchr(row->arguments, COUNT) && !a->count_given) {
        if (!elements(of_recv ? &a->recv : &a->send, a, of_recv ? "recv" : "send", &a->count))
            return false;
        if (row->count_rule == COUNT_OF_BLOCK && p > 0)
            a->count /= (size_t)p;
    }
    return !strchr(row->arguments, COUNT2) || a->count2_given ||
           elements(&a->recv, a, "recv", &a->count2);
}

/* needed is in elements. */
static bool holds(const struct core_view *view, size_t needed, const struct arguments *a,
                  const char *name) {
    size_t size = rcm_dtype_size(a->dtype);
    if (view->bytes == SIZE_MAX || size == 0 || needed <= view->bytes / size)
        return true;
    PyErr_Format(PyExc_ValueError, "%s has %zu elements, the call needs %zu", name,
                 view->bytes / size, needed);
    return false;
}

static size_t extent(const size_t *counts, const size_t *displs, int n) {
    size_t most = 0, at = 0;
    for (int i = 0; counts && i < n; i++) {
        size_t end = (displs ? displs[i] : at) + counts[i];
        at += counts[i];
        most = end > most && counts[i] ? end : most;
    }
    return most;
}

static size_t needed(enum blocks blocks, size_t count, const struct arguments *a) {
    int p = rcm_size(a->comm);
    bool many = blocks == PER_RANK || (blocks == PER_RANK_AT_ROOT && rcm_rank(a->comm) == a->rank);
    if (!many)
        return blocks == PER_RANK_AT_ROOT ? 0 : count;
    return p > 0 ? count * (size_t)p : 0;
}

static bool lists_hold(const struct view_list *list, const size_t *counts, const char *name,
                       const struct arguments *a) {
    for (size_t i = 0; counts && i < list->n; i++)
        if (!holds(&list->views[i], counts[i], a, name))
            return false;
    return true;
}

static bool check_list_length(const struct view_list *list, const char *name,
                              const struct arguments *a) {
    int p = rcm_size(a->comm);
    if (!list->views || p < 0 || list->n == (size_t)p)
        return true;
    PyErr_Format(PyExc_ValueError, "%s has %zu entries, the communicator %d ranks", name, list->n,
                 p);
    return false;
}

static bool check_sizes(const struct row *row, const struct arguments *a) {
    int p = rcm_size(a->comm);
    size_t recv_count = strchr(row->arguments, COUNT2) ? a->count2 : a->count;
    size_t of_send =
        a->counts ? extent(a->counts, a->displs, p) : needed(row->send_blocks, a->count, a);
    size_t of_recv =
        a->counts2 ? extent(a->counts2, a->displs2, p) : needed(row->recv_blocks, recv_count, a);
    if (a->sends.views)
        of_send = 0;
    if (a->recvs.views)
        of_recv = 0;
    return holds(&a->send, of_send, a, "send") && holds(&a->recv, of_recv, a, "recv") &&
           check_list_length(&a->sends, "send", a) && check_list_length(&a->recvs, "recv", a) &&
           lists_hold(&a->sends, a->counts, "an entry of send", a) &&
           lists_hold(&a->recvs, a->counts2, "an entry of recv", a);
}

/* ---- Running --------------------------------------------------------------------------------- */

struct tail {
    PyObject *keep;
    int mode;
    int64_t timeout_ms;
};

static bool get_tail(PyObject *const *args, struct tail *tail) {
    tail->keep = args[0];
    return core_int(args[1], "mode", &tail->mode) &&
           core_int64(args[2], "timeout_ms", &tail->timeout_ms);
}

static bool holds_objects(const struct arguments *a) {
    return a->send.has_buffer || a->recv.has_buffer || a->send.owner || a->recv.owner ||
           a->sends.n + a->recvs.n != 0;
}

static struct core_held *hold(struct arguments *a, PyObject *keep) {
    size_t n = holds_objects(a) ? 2 + a->sends.n + a->recvs.n : 0;
    struct core_held *held = core_held_new(keep, n);
    if (!held || n == 0)
        return held;
    held->views[0] = a->send;
    held->views[1] = a->recv;
    for (size_t i = 0; i < a->sends.n; i++)
        held->views[2 + i] = a->sends.views[i];
    for (size_t i = 0; i < a->recvs.n; i++)
        held->views[2 + a->sends.n + i] = a->recvs.views[i];
    return held;
}

static PyObject *message_of(const struct core_held *held) {
    return Py_BuildValue("iKn", held->message.source, (unsigned long long)held->message.tag,
                         (Py_ssize_t)held->message.bytes);
}

/* Waits for an unfinished work, or makes an object of it. Takes ownership of held. */
static PyObject *go_on(rcm_work *work, struct core_held *held, const struct tail *tail,
                       bool receives) {
    if (tail->mode != CORE_BLOCKING)
        return core_work_new(work, held);
    struct core_failure failure;
    rcm_status status;
    if (core_work_wait(work, -1, &status, &failure) != 0) {
        if (receives && rcm_work_cancel(work) == RCM_OK) {
            rcm_work_free(work);
            core_held_free(held);
        } else {
            core_work_orphan(work, held);
        }
        return NULL;
    }
    rcm_work_free(work);
    PyObject *result = status < 0 ? core_failure_raise(&failure)
                       : receives ? message_of(held)
                                  : (Py_INCREF(Py_None), Py_None);
    core_held_free(held);
    return result;
}

static PyObject *call_row(const struct row *row, struct arguments *a, const struct tail *tail) {
    struct core_held *held = hold(a, tail->keep);
    if (!held) {
        free_arguments(a, false);
        return NULL;
    }
    struct rcm_call call = RCM_CALL_INIT;
    call.timeout_ms = tail->timeout_ms;
    call.wait_ms = tail->mode == CORE_BLOCKING ? CORE_SLICE_MS : 0;
    call.message = row->receives ? &held->message : NULL;
    rcm_work *work = NULL;
    struct core_failure failure;
    rcm_status status;
    Py_BEGIN_ALLOW_THREADS status = row->run(a, &call, &work);
    if (status < 0)
        core_failure_note(&failure, status, a->comm, NULL);
    else if (tail->mode == CORE_EAGER && (status = rcm_work_status(work)) != RCM_PENDING) {
        if (status < 0)
            core_failure_note(&failure, status, a->comm, work);
        rcm_work_free(work);
        work = NULL;
    }
    Py_END_ALLOW_THREADS bool views_held = held->nviews != 0;
    free_arguments(a, views_held);
    if (work)
        return go_on(work, held, tail, row->receives);
    PyObject *result = status < 0      ? core_failure_raise(&failure)
                       : row->receives ? message_of(held)
                                       : (Py_INCREF(Py_None), Py_None);
    core_held_free(held);
    return result;
}

static PyObject *run_row(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    const struct row *row = PyCapsule_GetPointer(self, NULL);
    size_t own = strlen(row->arguments);
    if (nargs != (Py_ssize_t)(own + 4)) {
        PyErr_Format(PyExc_TypeError, "%s takes %zu arguments, not %zd", row->name, own + 4, nargs);
        return NULL;
    }
    core_held_sweep();
    struct arguments a = {.comm = core_comm_of(args[0])};
    a.send.bytes = a.recv.bytes = SIZE_MAX;
    struct tail tail;
    bool good = a.comm && get_tail(args + 1 + own, &tail);
    for (size_t i = 0; good && i < own; i++)
        good = get_argument(row->arguments[i], args[1 + i], &a);
    if (!good || (strchr(row->arguments, DTYPE) &&
                  (!settle_dtype(&a) || !settle_counts(row, &a) || !check_sizes(row, &a)))) {
        free_arguments(&a, false);
        return NULL;
    }
    return call_row(row, &a, &tail);
}

/* ---- Several in one call --------------------------------------------------------------------- */

/* coalesced or batch: n items, each from a tuple of the list. */
struct several {
    rcm_comm *comm;
    size_t n;
    struct rcm_part *parts; /* of coalesced */
    enum rcm_collective collective;
    int op, root;
    struct rcm_transfer *transfers; /* of batch */
};

static rcm_status begin_several(const struct several *s, const struct rcm_call *call,
                                rcm_work **work) {
    if (s->parts)
        return rcm_coalesced(s->comm, s->collective, s->parts, s->n, s->op, s->root, call, work);
    return rcm_batch(s->comm, s->transfers, s->n, call, work);
}

static PyObject *run_several(const struct several *s, const struct tail *tail) {
    struct core_held *held = core_held_new(tail->keep, 0);
    if (!held)
        return NULL;
    struct rcm_call call = RCM_CALL_INIT;
    call.timeout_ms = tail->timeout_ms;
    call.wait_ms = tail->mode == CORE_BLOCKING ? CORE_SLICE_MS : 0;
    rcm_work *work = NULL;
    struct core_failure failure;
    rcm_status status;
    Py_BEGIN_ALLOW_THREADS status = begin_several(s, &call, &work);
    if (status < 0)
        core_failure_note(&failure, status, s->comm, NULL);
    Py_END_ALLOW_THREADS if (work) return go_on(work, held, tail, false);
    core_held_free(held);
    if (status < 0)
        return core_failure_raise(&failure);
    Py_RETURN_NONE;
}

static bool get_part(PyObject *tuple, struct rcm_part *part) {
    unsigned long long send, recv;
    Py_ssize_t count;
    int dtype;
    if (!PyArg_ParseTuple(tuple, "KKni", &send, &recv, &count, &dtype))
        return false;
    *part = (struct rcm_part){(void *)(uintptr_t)send, (void *)(uintptr_t)recv, (size_t)count,
                              (rcm_dtype)dtype};
    return true;
}

static bool get_transfer(PyObject *tuple, struct rcm_transfer *transfer) {
    unsigned long long buffer, tag;
    Py_ssize_t count;
    int kind, peer, dtype;
    if (!PyArg_ParseTuple(tuple, "iKniiK", &kind, &buffer, &count, &dtype, &peer, &tag))
        return false;
    *transfer = (struct rcm_transfer){.kind = (enum rcm_transfer_kind)kind,
                                      .peer = peer,
                                      .buffer = (void *)(uintptr_t)buffer,
                                      .count = (size_t)count,
                                      .tag = tag,
                                      .dtype = (rcm_dtype)dtype};
    return true;
}

/* Allocates zeroed memory for the items of a list; NULL with an exception set. */
static void *new_items(PyObject *list, size_t bytes, size_t *ret_n) {
    if (!PyList_Check(list)) {
        PyErr_Format(PyExc_TypeError, "a list is needed, not %R", (PyObject *)Py_TYPE(list));
        return NULL;
    }
    *ret_n = (size_t)PyList_Size(list);
    void *items = PyMem_Calloc(*ret_n ? *ret_n : 1, bytes);
    return items ? items : PyErr_NoMemory();
}

static bool count_arguments(Py_ssize_t nargs, Py_ssize_t wanted, const char *name) {
    if (nargs != wanted)
        PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", name, wanted, nargs);
    return nargs == wanted;
}

/* coalesced(comm, collective, [(send, recv, count, dtype)], op, root, keep, mode, timeout_ms); the
 * buffers are addresses, kept alive by keep. */
static PyObject *coalesced(CORE_UNUSED PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    struct tail tail;
    struct several s = {0};
    int collective;
    if (!count_arguments(nargs, 8, "coalesced"))
        return NULL;
    core_held_sweep();
    if (!(s.comm = core_comm_of(args[0])) || !core_int(args[1], "collective", &collective) ||
        !core_int(args[3], "op", &s.op) || !core_int(args[4], "root", &s.root) ||
        !get_tail(args + 5, &tail))
        return NULL;
    s.collective = (enum rcm_collective)collective;
    s.parts = new_items(args[2], sizeof *s.parts, &s.n);
    bool good = s.parts != NULL;
    for (size_t i = 0; good && i < s.n; i++)
        good = get_part(PyList_GetItem(args[2], (Py_ssize_t)i), &s.parts[i]);
    PyObject *result = good ? run_several(&s, &tail) : NULL;
    PyMem_Free(s.parts);
    return result;
}

/* batch(comm, [(kind, address, count, dtype, peer, tag)], keep, mode, timeout_ms) */
static PyObject *batch(CORE_UNUSED PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    struct tail tail;
    struct several s = {0};
    if (!count_arguments(nargs, 5, "batch"))
        return NULL;
    core_held_sweep();
    if (!(s.comm = core_comm_of(args[0])) || !get_tail(args + 2, &tail))
        return NULL;
    s.transfers = new_items(args[1], sizeof *s.transfers, &s.n);
    bool good = s.transfers != NULL;
    for (size_t i = 0; good && i < s.n; i++)
        good = get_transfer(PyList_GetItem(args[1], (Py_ssize_t)i), &s.transfers[i]);
    PyObject *result = good ? run_several(&s, &tail) : NULL;
    PyMem_Free(s.transfers);
    return result;
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static PyObject *blocks_of(const struct rcm_bytes *bytes) {
    if (!bytes)
        Py_RETURN_NONE;
    PyObject *list = PyList_New((Py_ssize_t)bytes->n);
    for (size_t i = 0; list && i < bytes->n; i++) {
        PyObject *block =
            PyBytes_FromStringAndSize((const char *)bytes->data + bytes->offsets[i],
                                      (Py_ssize_t)(bytes->offsets[i + 1] - bytes->offsets[i]));
        if (!block || PyList_SetItem(list, (Py_ssize_t)i, block) != 0)
            Py_CLEAR(list);
    }
    return list;
}

enum bytes_kind { BROADCAST_BYTES, SCATTER_BYTES, GATHER_BYTES, ALL_GATHER_BYTES };

static rcm_status begin_bytes(enum bytes_kind kind, rcm_comm *comm, const struct arguments *a,
                              struct rcm_bytes **ret_bytes, const struct rcm_call *call,
                              rcm_work **work) {
    switch (kind) {
    case BROADCAST_BYTES:
        return rcm_broadcast_bytes(comm, a->send.data, a->count, a->rank, ret_bytes, call, work);
    case SCATTER_BYTES:
        return rcm_scatter_bytes(comm, SEND_LIST, a->counts, a->rank, ret_bytes, call, work);
    case GATHER_BYTES:
        return rcm_gather_bytes(comm, a->send.data, a->count, a->rank, ret_bytes, call, work);
    default:
        return rcm_all_gather_bytes(comm, a->send.data, a->count, ret_bytes, call, work);
    }
}

static bool get_blocks(PyObject *list, struct arguments *a) {
    if (!get_list(list, false, "send", &a->sends) || !check_list_length(&a->sends, "send", a))
        return false;
    a->counts = PyMem_Calloc(a->sends.n + 1, sizeof *a->counts);
    if (!a->counts)
        return PyErr_NoMemory() != NULL;
    for (size_t i = 0; i < a->sends.n; i++)
        a->counts[i] = a->sends.views[i].bytes;
    return true;
}

/* bytes_call(kind, comm, send, root, timeout_ms) -> list of bytes, or None on ranks that receive
 * nothing. send: bytes, or for scatter a list of them at the root. */
static PyObject *bytes_call(CORE_UNUSED PyObject *module, PyObject *const *args, Py_ssize_t nargs) {
    int kind;
    struct arguments a = {0};
    struct tail tail = {Py_None, CORE_BLOCKING, 0};
    if (!count_arguments(nargs, 5, "bytes_call"))
        return NULL;
    core_held_sweep();
    if (!core_int(args[0], "kind", &kind) || !(a.comm = core_comm_of(args[1])) ||
        !core_int(args[3], "root", &a.rank) || !core_int64(args[4], "timeout_ms", &tail.timeout_ms))
        return NULL;
    a.send.bytes = a.recv.bytes = SIZE_MAX;
    bool good = kind == SCATTER_BYTES ? get_blocks(args[2], &a)
                                      : core_view_get(args[2], false, "send", &a.send);
    struct core_held *held = good ? hold(&a, Py_None) : NULL;
    if (!held) {
        free_arguments(&a, false);
        return NULL;
    }
    a.count = a.send.bytes == SIZE_MAX ? 0 : a.send.bytes;
    struct rcm_call call = RCM_CALL_INIT;
    call.timeout_ms = tail.timeout_ms;
    call.wait_ms = CORE_SLICE_MS;
    rcm_work *work = NULL;
    struct core_failure failure;
    rcm_status status;
    Py_BEGIN_ALLOW_THREADS status =
        begin_bytes((enum bytes_kind)kind, a.comm, &a, &held->bytes, &call, &work);
    if (status < 0)
        core_failure_note(&failure, status, a.comm, NULL);
    Py_END_ALLOW_THREADS free_arguments(&a, held->nviews != 0);
    if (work && core_work_wait(work, -1, &status, &failure) != 0) {
        core_work_orphan(work, held);
        return NULL;
    }
    rcm_work_free(work);
    PyObject *result = status < 0 ? core_failure_raise(&failure) : blocks_of(held->bytes);
    core_held_free(held);
    return result;
}

/* ---- The module's functions ------------------------------------------------------------------ */

static PyMethodDef row_methods[N_ROWS];
static PyMethodDef other_methods[] = {
    {"coalesced", (PyCFunction)(void (*)(void))coalesced, METH_FASTCALL, NULL},
    {"batch", (PyCFunction)(void (*)(void))batch, METH_FASTCALL, NULL},
    {"bytes_call", (PyCFunction)(void (*)(void))bytes_call, METH_FASTCALL, NULL},
    {0}};

bool core_operations_add(PyObject *module) {
    for (size_t i = 0; i < N_ROWS; i++) {
        row_methods[i] =
            (PyMethodDef){rows[i].name, (PyCFunction)(void (*)(void))run_row, METH_FASTCALL, NULL};
        PyObject *self = PyCapsule_New((void *)(uintptr_t)&rows[i], NULL, NULL);
        PyObject *function = self ? PyCFunction_New(&row_methods[i], self) : NULL;
        Py_XDECREF(self);
        int added = function ? PyModule_AddObjectRef(module, rows[i].name, function) : -1;
        Py_XDECREF(function);
        if (added != 0)
            return false;
    }
    return PyModule_AddFunctions(module, other_methods) == 0;
}
