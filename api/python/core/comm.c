/* SPDX-License-Identifier: BSD-3-Clause */
/* Comm: a communicator. Its creation, groups, end, and queries. */
#include "core.h"

#include <string.h>

struct comm_object {
    PyObject_HEAD rcm_comm *comm; /* NULL after it was destroyed */
};
static PyTypeObject *comm_type;

static PyObject *comm_new(rcm_comm *comm) {
    struct comm_object *object = PyObject_New(struct comm_object, comm_type);
    if (object)
        object->comm = comm;
    return (PyObject *)object;
}

rcm_comm *core_comm_of(PyObject *object) {
    if (Py_TYPE(object) != comm_type) {
        PyErr_Format(PyExc_TypeError, "a Comm is needed, not %R", (PyObject *)Py_TYPE(object));
        return NULL;
    }
    rcm_comm *comm = ((struct comm_object *)object)->comm;
    if (!comm)
        PyErr_SetString(PyExc_ValueError, "this communicator was destroyed");
    return comm;
}

/* ---- Interruptible waits --------------------------------------------------------------------- */

/* One of the two is set. */
struct request {
    rcm_init_request *init;
    rcm_comm_request *creation; /* or the end of a communicator */
};

static rcm_status request_wait(const struct request *request, rcm_comm **ret_comm) {
    return request->init ? rcm_init_wait(request->init, CORE_SLICE_MS, ret_comm)
                         : rcm_comm_request_wait(request->creation, CORE_SLICE_MS, ret_comm);
}

/* Waits for the request and frees it. False with an exception set: it failed, or a signal handler
 * raised and the request was canceled. */
static bool request_finish(struct request request, rcm_comm **ret_comm) {
    rcm_status status = RCM_PENDING;
    struct core_failure failure;
    while (status == RCM_PENDING && PyErr_CheckSignals() == 0) {
        Py_BEGIN_ALLOW_THREADS status = request_wait(&request, ret_comm);
        if (status < 0)
            core_failure_note(&failure, status, NULL, NULL);
        Py_END_ALLOW_THREADS
    }
    Py_BEGIN_ALLOW_THREADS rcm_init_cancel(request.init);
    rcm_comm_request_cancel(request.creation);
    Py_END_ALLOW_THREADS if (status < 0) core_failure_raise(&failure);
    return status == RCM_OK;
}

static PyObject *comm_init(CORE_UNUSED PyObject *type, PyObject *args, PyObject *keywords) {
    static const char *const names[] = {"rank",       "size",   "url",       "unique_id",
                                        "host_id",    "secret", "transport", "algorithm",
                                        "timeout_ms", "device", NULL};
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    const char *id = NULL;
    Py_ssize_t id_bytes = 0;
    long long timeout_ms = 0;
    if (!PyArg_ParseTupleAndKeywords(
            args, keywords, "|iizz#zzzzLz", (char **)(uintptr_t)names, &options.rank,
            &options.world_size, &options.url, &id, &id_bytes, &options.host_id, &options.secret,
            &options.transport, &options.algorithm, &timeout_ms, &options.device))
        return NULL;
    struct rcm_unique_id unique_id;
    if (id && id_bytes != RCM_UNIQUE_ID_BYTES) {
        PyErr_Format(PyExc_ValueError, "unique_id has %zd bytes, not %d", id_bytes,
                     RCM_UNIQUE_ID_BYTES);
        return NULL;
    }
    if (id) {
        memcpy(unique_id.bytes, id, sizeof unique_id.bytes);
        options.unique_id = &unique_id;
    }
    options.timeout_ms = timeout_ms;
    rcm_init_request *request;
    rcm_status status;
    Py_BEGIN_ALLOW_THREADS status = rcm_init_begin(&options, &request);
    Py_END_ALLOW_THREADS if (status != RCM_OK) return core_raise(status, NULL);
    rcm_comm *comm = NULL;
    return request_finish((struct request){.init = request}, &comm) ? comm_new(comm) : NULL;
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* The body of a method that makes a communicator, by a begin function. `made` is NULL after a
 * failure, with an exception set. */
#define MAKE(begin)                                                                                \
    struct rcm_call call = RCM_CALL_INIT;                                                          \
    struct request request = {.init = NULL};                                                       \
    struct core_failure failure;                                                                   \
    rcm_comm *made = NULL;                                                                         \
    rcm_status status;                                                                             \
    call.timeout_ms = timeout_ms;                                                                  \
    Py_BEGIN_ALLOW_THREADS status = begin;                                                         \
    if (status != RCM_OK)                                                                          \
        core_failure_note(&failure, status, NULL, NULL);                                           \
    Py_END_ALLOW_THREADS if (status != RCM_OK) core_failure_raise(&failure);                       \
    else if (!request_finish(request, &made)) made = NULL;

static PyObject *new_or_null(rcm_comm *made) {
    return made ? comm_new(made) : NULL;
}

/* Converts a list of ranks. From PyMem_Calloc; NULL with an exception set. */
static int *ranks_of(PyObject *list, int *ret_n) {
    const Py_ssize_t n = PySequence_Size(list);
    int *ranks = n < 0 ? NULL : PyMem_Calloc((size_t)n + 1, sizeof *ranks);
    bool good = ranks != NULL;
    for (Py_ssize_t i = 0; good && i < n; i++) {
        PyObject *item = PySequence_GetItem(list, i);
        good = item && core_int(item, "ranks", &ranks[i]);
        Py_XDECREF(item);
    }
    *ret_n = (int)n;
    if (good)
        return ranks;
    PyMem_Free(ranks);
    return NULL;
}

static PyObject *comm_subset(PyObject *self, PyObject *args) {
    PyObject *list;
    unsigned long long tag = 0;
    long long timeout_ms = 0;
    rcm_comm *comm = core_comm_of(self);
    if (!comm || !PyArg_ParseTuple(args, "O|KL", &list, &tag, &timeout_ms))
        return NULL;
    int n;
    int *ranks = ranks_of(list, &n);
    if (!ranks)
        return NULL;
    MAKE(rcm_comm_subset_begin(comm, ranks, n, tag, &call, &request.creation))
    PyMem_Free(ranks);
    return new_or_null(made);
}

/* shrink(timeout_ms=0, excluded=[]): excluded: world ranks to exclude although they live */
static PyObject *comm_shrink(PyObject *self, PyObject *args) {
    PyObject *list = NULL;
    long long timeout_ms = 0;
    rcm_comm *comm = core_comm_of(self);
    if (!comm || !PyArg_ParseTuple(args, "|LO", &timeout_ms, &list))
        return NULL;
    int n = 0;
    int *ranks = list ? ranks_of(list, &n) : NULL;
    if (list && !ranks)
        return NULL;
    MAKE(rcm_comm_shrink_excluding_begin(comm, ranks, n, &call, &request.creation))
    PyMem_Free(ranks);
    return new_or_null(made);
}

static PyObject *comm_split(PyObject *self, PyObject *args) {
    int colour, key = 0;
    long long timeout_ms = 0;
    rcm_comm *comm = core_comm_of(self);
    if (!comm || !PyArg_ParseTuple(args, "i|iL", &colour, &key, &timeout_ms))
        return NULL;
    MAKE(rcm_comm_split_begin(comm, colour, key, &call, &request.creation))
    return new_or_null(made);
}

#define MAKE_OF_ALL(name)                                                                          \
    static PyObject *comm_##name(PyObject *self, PyObject *args) {                                 \
        long long timeout_ms = 0;                                                                  \
        rcm_comm *comm = core_comm_of(self);                                                       \
        if (!comm || !PyArg_ParseTuple(args, "|L", &timeout_ms))                                   \
            return NULL;                                                                           \
        MAKE(rcm_comm_##name##_begin(comm, &call, &request.creation))                              \
        return new_or_null(made);                                                                  \
    }
MAKE_OF_ALL(split_hosts)
MAKE_OF_ALL(duplicate)

/* ---- The end --------------------------------------------------------------------------------- */

static PyObject *comm_destroy(PyObject *self, CORE_UNUSED PyObject *none) {
    struct comm_object *object = (struct comm_object *)self;
    struct request request = {.init = NULL};
    struct core_failure failure;
    rcm_status status;
    if (!object->comm)
        Py_RETURN_NONE;
    Py_BEGIN_ALLOW_THREADS status = rcm_destroy_begin(object->comm, &request.creation);
    if (status != RCM_OK)
        core_failure_note(&failure, status, NULL, NULL);
    Py_END_ALLOW_THREADS if (status != RCM_OK) return core_failure_raise(&failure);
    object->comm = NULL;
    const bool done = request_finish(request, NULL);
    core_held_sweep();
    return done ? Py_NewRef(Py_None) : NULL;
}

static PyObject *comm_leave(PyObject *self, CORE_UNUSED PyObject *none) {
    struct comm_object *object = (struct comm_object *)self;
    rcm_comm *comm = object->comm;
    struct core_failure failure;
    rcm_status status;
    if (!comm)
        Py_RETURN_NONE;
    object->comm = NULL;
    Py_BEGIN_ALLOW_THREADS status = rcm_leave(comm);
    if (status != RCM_OK)
        core_failure_note(&failure, status, NULL, NULL);
    Py_END_ALLOW_THREADS core_held_sweep();
    if (status == RCM_ERR_INVALID)
        object->comm = comm; /* in a callback: nothing was freed */
    return status == RCM_OK ? Py_NewRef(Py_None) : core_failure_raise(&failure);
}

static PyObject *comm_abort(PyObject *self, PyObject *args) {
    const char *reason = NULL;
    rcm_comm *comm = core_comm_of(self);
    if (!comm || !PyArg_ParseTuple(args, "|z", &reason))
        return NULL;
    rcm_status status;
    Py_BEGIN_ALLOW_THREADS status = rcm_abort(comm, reason);
    Py_END_ALLOW_THREADS if (status != RCM_OK) return core_raise(status, NULL);
    Py_RETURN_NONE;
}

static PyObject *comm_set_spin(PyObject *self, PyObject *us) {
    rcm_comm *comm = core_comm_of(self);
    int64_t spin_us;
    if (!comm || !core_int64(us, "us", &spin_us))
        return NULL;
    const rcm_status status = rcm_comm_set_spin(comm, spin_us);
    if (status != RCM_OK)
        return core_raise(status, NULL);
    Py_RETURN_NONE;
}

/* ---- Queries --------------------------------------------------------------------------------- */

static PyObject *comm_error(PyObject *self, CORE_UNUSED PyObject *none) {
    rcm_comm *comm = core_comm_of(self);
    struct rcm_error error = RCM_ERROR_INIT;
    if (!comm)
        return NULL;
    if (rcm_comm_error(comm, &error) == RCM_OK)
        Py_RETURN_NONE;
    struct core_failure failure = {
        .status = error.status, .origin = error.origin, .sequence = error.sequence};
    memcpy(failure.operation, error.operation, sizeof failure.operation);
    memcpy(failure.text, error.text, sizeof error.text);
    return core_failure_object(&failure);
}

static PyObject *comm_missing(PyObject *self, CORE_UNUSED PyObject *none) {
    rcm_comm *comm = core_comm_of(self);
    size_t n = 0;
    rcm_status status = comm ? rcm_comm_missing(comm, NULL, 0, &n) : RCM_ERR_INVALID;
    int *ranks = status == RCM_OK ? PyMem_Calloc(n + 1, sizeof *ranks) : NULL;
    if (!comm || !ranks)
        return comm ? core_raise(status, NULL) : NULL;
    size_t listed = n;
    PyObject *list = NULL;
    if (rcm_comm_missing(comm, ranks, listed, &n) == RCM_OK)
        list = PyList_New((Py_ssize_t)(n < listed ? n : listed));
    for (Py_ssize_t i = 0; list && i < PyList_Size(list); i++)
        PyList_SetItem(list, i, PyLong_FromLong(ranks[i]));
    PyMem_Free(ranks);
    return list;
}

static PyObject *comm_world_rank(PyObject *self, PyObject *rank) {
    rcm_comm *comm = core_comm_of(self);
    int value;
    return comm && core_int(rank, "rank", &value) ? PyLong_FromLong(rcm_world_rank(comm, value))
                                                  : NULL;
}

static PyObject *comm_transport(PyObject *self, PyObject *peer) {
    rcm_comm *comm = core_comm_of(self);
    int value;
    return comm && core_int(peer, "peer", &value)
               ? PyUnicode_FromString(rcm_comm_transport(comm, value))
               : NULL;
}

static PyObject *comm_algorithm(PyObject *self, PyObject *args) {
    rcm_comm *comm = core_comm_of(self);
    int collective;
    Py_ssize_t bytes;
    if (!comm || !PyArg_ParseTuple(args, "in", &collective, &bytes))
        return NULL;
    return PyUnicode_FromString(
        rcm_comm_algorithm(comm, (enum rcm_collective)collective, (size_t)bytes));
}

/* iprobe(source, tag) -> (source, tag, bytes), or None: no such message yet. */
static PyObject *comm_iprobe(PyObject *self, PyObject *args) {
    rcm_comm *comm = core_comm_of(self);
    int source;
    unsigned long long tag;
    struct rcm_message message = RCM_MESSAGE_INIT;
    if (!comm || !PyArg_ParseTuple(args, "iK", &source, &tag))
        return NULL;
    rcm_status status;
    Py_BEGIN_ALLOW_THREADS status = rcm_iprobe(comm, source, tag, &message);
    Py_END_ALLOW_THREADS if (status < 0) return core_raise(status, comm);
    if (status != RCM_OK)
        Py_RETURN_NONE;
    return Py_BuildValue("iKn", message.source, (unsigned long long)message.tag,
                         (Py_ssize_t)message.bytes);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static PyObject *comm_mem_alloc(PyObject *self, PyObject *size) {
    rcm_comm *comm = core_comm_of(self);
    size_t bytes;
    void *memory = NULL;
    if (!comm || !core_size(size, "bytes", &bytes))
        return NULL;
    rcm_status status;
    Py_BEGIN_ALLOW_THREADS status = rcm_mem_alloc(comm, bytes, &memory);
    Py_END_ALLOW_THREADS if (status != RCM_OK) return core_raise(status, NULL);
    return PyMemoryView_FromMemory(memory, (Py_ssize_t)bytes, PyBUF_WRITE);
}

static PyObject *comm_mem_free(PyObject *self, PyObject *address) {
    rcm_comm *comm = core_comm_of(self);
    struct core_view view;
    if (!comm || !core_view_get(address, false, "memory", &view))
        return NULL;
    rcm_status status;
    Py_BEGIN_ALLOW_THREADS status = rcm_mem_free(comm, view.data);
    Py_END_ALLOW_THREADS core_view_release(&view);
    if (status != RCM_OK)
        return core_raise(status, NULL);
    Py_RETURN_NONE;
}

/* ---- The type -------------------------------------------------------------------------------- */

#define GET_INT(name)                                                                              \
    static PyObject *get_##name(PyObject *self, CORE_UNUSED void *closure) {                       \
        rcm_comm *comm = core_comm_of(self);                                                       \
        return comm ? PyLong_FromLong(rcm_##name(comm)) : NULL;                                    \
    }
GET_INT(rank)
GET_INT(size)
GET_INT(local_rank)
GET_INT(local_size)

static PyObject *get_sequence(PyObject *self, CORE_UNUSED void *closure) {
    rcm_comm *comm = core_comm_of(self);
    return comm ? PyLong_FromUnsignedLongLong(rcm_comm_sequence(comm)) : NULL;
}

static PyObject *get_closed(PyObject *self, CORE_UNUSED void *closure) {
    return PyBool_FromLong(((struct comm_object *)self)->comm == NULL);
}

static PyObject *get_name(PyObject *self, CORE_UNUSED void *closure) {
    rcm_comm *comm = core_comm_of(self);
    return comm ? PyUnicode_FromString(rcm_comm_name(comm)) : NULL;
}

static int set_name(PyObject *self, PyObject *value, CORE_UNUSED void *closure) {
    rcm_comm *comm = core_comm_of(self);
    const char *name = comm && value ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
    rcm_status status = name ? rcm_comm_set_name(comm, name) : RCM_ERR_INVALID;
    if (name && status != RCM_OK)
        core_raise(status, NULL);
    return status == RCM_OK ? 0 : -1;
}

static PyObject *get_timeout(PyObject *self, CORE_UNUSED void *closure) {
    rcm_comm *comm = core_comm_of(self);
    return comm ? PyLong_FromLongLong(rcm_comm_timeout(comm)) : NULL;
}

static int set_timeout(PyObject *self, PyObject *value, CORE_UNUSED void *closure) {
    rcm_comm *comm = core_comm_of(self);
    int64_t timeout_ms;
    if (!comm || !value || !core_int64(value, "timeout_ms", &timeout_ms))
        return -1;
    rcm_status status = rcm_comm_set_timeout(comm, timeout_ms);
    if (status != RCM_OK)
        core_raise(status, NULL);
    return status == RCM_OK ? 0 : -1;
}

/* An object dropped without destroy leaves its communicator, so the others learn that this rank has
 * ended. */
static void comm_dealloc(PyObject *self) {
    struct comm_object *object = (struct comm_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    rcm_comm *comm = object->comm;
    if (comm) {
        rcm_status ignored CORE_UNUSED;
        Py_BEGIN_ALLOW_THREADS ignored = rcm_leave(comm);
        Py_END_ALLOW_THREADS
    }
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef comm_methods[] = {
    {"init", (PyCFunction)(void (*)(void))comm_init, METH_VARARGS | METH_KEYWORDS | METH_STATIC,
     "init(rank=-1, size=0, url=None, unique_id=None, host_id=None, secret=None, transport=None, "
     "algorithm=None, timeout_ms=0, device=None) -> Comm of all ranks (rcm_init)."},
    {"subset", comm_subset, METH_VARARGS, "subset(ranks, tag=0, timeout_ms=0) -> Comm"},
    {"split", comm_split, METH_VARARGS, "split(colour, key=0, timeout_ms=0) -> Comm"},
    {"split_hosts", comm_split_hosts, METH_VARARGS, "split_hosts(timeout_ms=0) -> Comm"},
    {"duplicate", comm_duplicate, METH_VARARGS, "duplicate(timeout_ms=0) -> Comm"},
    {"shrink", comm_shrink, METH_VARARGS,
     "shrink(timeout_ms=0, excluded=[]) -> Comm of the survivors"},
    {"destroy", comm_destroy, METH_NOARGS, "destroy(): collective end (rcm_destroy)."},
    {"leave", comm_leave, METH_NOARGS, "leave(): ends it for this rank alone (rcm_leave)."},
    {"abort", comm_abort, METH_VARARGS, "abort(reason=None): ends all operations on all ranks."},
    {"set_spin", comm_set_spin, METH_O,
     "set_spin(us): how long waiting calls spin before they sleep; -1: RINGCOMM_SPIN_US."},
    {"error", comm_error, METH_NOARGS, "error() -> the exception that made it unusable, or None."},
    {"missing", comm_missing, METH_NOARGS,
     "missing() -> ranks that were missing from the monitored barrier by which it failed."},
    {"world_rank", comm_world_rank, METH_O, "world_rank(rank) -> that rank's number from init."},
    {"transport", comm_transport, METH_O, "transport(peer) -> name, \"\" before first contact."},
    {"algorithm", comm_algorithm, METH_VARARGS, "algorithm(collective, bytes) -> name"},
    {"iprobe", comm_iprobe, METH_VARARGS, "iprobe(source, tag) -> (source, tag, bytes) or None"},
    {"mem_alloc", comm_mem_alloc, METH_O, "mem_alloc(bytes) -> memoryview (rcm_mem_alloc)"},
    {"mem_free", comm_mem_free, METH_O, "mem_free(memory): gives it back."},
    {0}};

static PyGetSetDef comm_attributes[] = {
    {"rank", get_rank, NULL, "number of this rank; -1: no member", NULL},
    {"size", get_size, NULL, "number of ranks", NULL},
    {"local_rank", get_local_rank, NULL, "position among the ranks of this host", NULL},
    {"local_size", get_local_size, NULL, "number of ranks on this host", NULL},
    {"sequence", get_sequence, NULL, "number of the last collective", NULL},
    {"closed", get_closed, NULL, "whether it was destroyed", NULL},
    {"name", get_name, set_name, "name in error texts", NULL},
    {"timeout_ms", get_timeout, set_timeout, "deadline of operations; < 0: none", NULL},
    {0}};

static PyType_Slot comm_slots[] = {{Py_tp_dealloc, comm_dealloc},
                                   {Py_tp_methods, comm_methods},
                                   {Py_tp_getset, comm_attributes},
                                   {Py_tp_doc, "A communicator."},
                                   {0}};
static PyType_Spec comm_spec = {
    .name = "ringcomm._core.Comm",
    .basicsize = sizeof(struct comm_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = comm_slots,
};

bool core_comm_type_add(PyObject *module) {
    comm_type = (PyTypeObject *)PyType_FromSpec(&comm_spec);
    return comm_type && PyModule_AddType(module, comm_type) == 0;
}
