/* SPDX-License-Identifier: BSD-3-Clause */
/* Work: an operation in flight. It holds the caller's buffers until the operation is complete, even
 * if the program drops it before. */
#include "core.h"

#include <stdatomic.h>
#include <stdlib.h>

struct work_object {
    PyObject_HEAD rcm_work *work;
    struct core_held *held;
};
static PyTypeObject *work_type;

/* ---- Held objects ---------------------------------------------------------------------------- */

struct core_held *core_held_new(PyObject *keep, size_t nviews) {
    struct core_held *held = malloc(sizeof *held + nviews * sizeof held->views[0]);
    if (!held) {
        PyErr_NoMemory();
        return NULL;
    }
    held->next = NULL;
    held->message = (struct rcm_message)RCM_MESSAGE_INIT;
    held->bytes = NULL;
    held->nviews = nviews;
    held->keep = keep == Py_None ? NULL : keep;
    Py_XINCREF(held->keep);
    return held;
}

void core_held_free(struct core_held *held) {
    if (!held)
        return;
    for (size_t i = 0; i < held->nviews; i++)
        core_view_release(&held->views[i]);
    Py_XDECREF(held->keep);
    free(held->bytes);
    free(held);
}

/* Pushed by threads of the library, without the GIL; popped all at once, with it. */
static struct core_held *_Atomic released;

static void push_released(void *arg, CORE_UNUSED rcm_status status) {
    struct core_held *held = arg;
    held->next = atomic_load(&released);
    while (!atomic_compare_exchange_weak(&released, &held->next, held)) {
    }
}

void core_held_sweep(void) {
    if (!atomic_load_explicit(&released, memory_order_relaxed))
        return;
    struct core_held *next, *held = atomic_exchange(&released, NULL);
    for (; held; held = next) {
        next = held->next;
        core_held_free(held);
    }
}

void core_work_orphan(rcm_work *work, struct core_held *held) {
    rcm_status status;
    Py_BEGIN_ALLOW_THREADS status = rcm_work_detach(work, push_released, held);
    if (status != RCM_OK) /* of another process after fork: the parent frees the memory */
        rcm_work_free(work);
    Py_END_ALLOW_THREADS
}

/* ---- Waiting --------------------------------------------------------------------------------- */

int core_work_wait(rcm_work *work, int64_t timeout_ms, rcm_status *ret_status,
                   struct core_failure *failure) {
    for (;;) {
        int64_t slice = timeout_ms >= 0 && timeout_ms < CORE_SLICE_MS ? timeout_ms : CORE_SLICE_MS;
        rcm_status status;
        Py_BEGIN_ALLOW_THREADS status = rcm_work_wait(work, slice);
        if (status < 0)
            core_failure_note(failure, status, NULL, work);
        Py_END_ALLOW_THREADS *ret_status = status;
        if (status != RCM_PENDING)
            return 0;
        if (PyErr_CheckSignals() != 0)
            return -1;
        if (timeout_ms >= 0 && (timeout_ms -= slice) == 0)
            return 0;
    }
}

static PyObject *work_wait(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    struct work_object *object = (struct work_object *)self;
    struct core_failure failure;
    rcm_status status;
    int64_t timeout_ms = -1;
    if (nargs > 1) {
        PyErr_SetString(PyExc_TypeError, "wait takes one argument, timeout_ms");
        return NULL;
    }
    if (nargs == 1 && !core_int64(args[0], "timeout_ms", &timeout_ms))
        return NULL;
    if (core_work_wait(object->work, timeout_ms, &status, &failure) != 0)
        return NULL;
    if (status < 0)
        return core_failure_raise(&failure);
    return PyBool_FromLong(status == RCM_OK);
}

static PyObject *work_test(PyObject *self, CORE_UNUSED PyObject *none) {
    struct work_object *object = (struct work_object *)self;
    rcm_status status;
    Py_BEGIN_ALLOW_THREADS status = rcm_work_test(object->work);
    Py_END_ALLOW_THREADS return PyBool_FromLong(status != RCM_PENDING);
}

static PyObject *work_error(PyObject *self, CORE_UNUSED PyObject *none) {
    struct work_object *object = (struct work_object *)self;
    rcm_status status = rcm_work_status(object->work);
    if (status >= 0)
        Py_RETURN_NONE;
    struct core_failure failure;
    core_failure_note(&failure, status, NULL, object->work);
    return core_failure_object(&failure);
}

static PyObject *work_message(PyObject *self, CORE_UNUSED PyObject *none) {
    struct work_object *object = (struct work_object *)self;
    struct rcm_message message = RCM_MESSAGE_INIT;
    rcm_status status = rcm_work_message(object->work, &message);
    if (status < 0)
        return core_raise(status, NULL);
    if (status == RCM_PENDING)
        Py_RETURN_NONE;
    return Py_BuildValue("iKn", message.source, (unsigned long long)message.tag,
                         (Py_ssize_t)message.bytes);
}

static PyObject *work_cancel(PyObject *self, CORE_UNUSED PyObject *none) {
    struct work_object *object = (struct work_object *)self;
    rcm_status status;
    Py_BEGIN_ALLOW_THREADS status = rcm_work_cancel(object->work);
    Py_END_ALLOW_THREADS return status < 0 ? core_raise(status, NULL)
                                           : PyBool_FromLong(status == RCM_OK);
}

static PyObject *work_on_complete(PyObject *self, PyObject *item) {
    struct work_object *object = (struct work_object *)self;
    if (!core_completion_register(object->work, item))
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *work_sequence(PyObject *self, CORE_UNUSED void *closure) {
    return PyLong_FromUnsignedLongLong(rcm_work_sequence(((struct work_object *)self)->work));
}

static void work_dealloc(PyObject *self) {
    struct work_object *object = (struct work_object *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (object->work && rcm_work_status(object->work) == RCM_PENDING) {
        core_work_orphan(object->work, object->held);
    } else {
        rcm_work_free(object->work);
        core_held_free(object->held);
    }
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef work_methods[] = {
    {"wait", (PyCFunction)(void (*)(void))work_wait, METH_FASTCALL,
     "wait(timeout_ms=-1) -> bool: False if timeout_ms passed first. Raises the operation's "
     "error."},
    {"test", work_test, METH_NOARGS,
     "test() -> bool: whether it is complete, with or without an error."},
    {"error", work_error, METH_NOARGS, "error() -> the exception of a failed work, else None."},
    {"message", work_message, METH_NOARGS,
     "message() -> (source, tag, bytes) of a complete receive, None before."},
    {"cancel", work_cancel, METH_NOARGS,
     "cancel() -> bool: ends a receive that has no message yet. False: its message is coming."},
    {"on_complete", work_on_complete, METH_O,
     "on_complete(item): next_completion() returns item once the work is complete."},
    {0}};

static PyGetSetDef work_attributes[] = {{"sequence", work_sequence, NULL,
                                         "number of the collective in its communicator; 0: none",
                                         NULL},
                                        {0}};

static PyType_Slot work_slots[] = {{Py_tp_dealloc, work_dealloc},
                                   {Py_tp_methods, work_methods},
                                   {Py_tp_getset, work_attributes},
                                   {Py_tp_doc, "An operation in flight."},
                                   {0}};
static PyType_Spec work_spec = {
    .name = "ringcomm._core.Work",
    .basicsize = sizeof(struct work_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = work_slots,
};

bool core_work_type_add(PyObject *module) {
    work_type = (PyTypeObject *)PyType_FromSpec(&work_spec);
    return work_type && PyModule_AddType(module, work_type) == 0;
}

PyObject *core_work_new(rcm_work *work, struct core_held *held) {
    struct work_object *object = PyObject_New(struct work_object, work_type);
    if (!object) {
        core_work_orphan(work, held);
        return NULL;
    }
    object->work = work;
    object->held = held;
    return (PyObject *)object;
}

rcm_work *core_work_of(PyObject *object) {
    if (Py_TYPE(object) == work_type)
        return ((struct work_object *)object)->work;
    PyErr_Format(PyExc_TypeError, "a Work is needed, not %R", (PyObject *)Py_TYPE(object));
    return NULL;
}
