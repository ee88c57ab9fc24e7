/* SPDX-License-Identifier: BSD-3-Clause */
/* Failed calls become exceptions of a type that the package defines (ringcomm/errors.py). */
#include "core.h"

#include <stdio.h>
#include <string.h>

static PyObject *error_type; /* callable (status, text, origin, sequence, operation) */

PyObject *core_set_error_type(CORE_UNUSED PyObject *module, PyObject *type) {
    Py_INCREF(type);
    Py_XDECREF(error_type);
    error_type = type;
    Py_RETURN_NONE;
}

void core_failure_note(struct core_failure *failure, rcm_status status, const rcm_comm *comm,
                       const rcm_work *work) {
    struct rcm_error error = RCM_ERROR_INIT;
    *failure = (struct core_failure){.status = status, .origin = -1};
    snprintf(failure->text, sizeof failure->text, "%s", rcm_last_error());
    bool of_work = work != NULL && rcm_work_error(work, &error) == status;
    if (!of_work && (comm == NULL || rcm_comm_error(comm, &error) != status))
        return;
    failure->origin = error.origin;
    failure->sequence = error.sequence;
    snprintf(failure->operation, sizeof failure->operation, "%s", error.operation);
    if (failure->text[0] == '\0' || of_work)
        snprintf(failure->text, sizeof failure->text, "%s", error.text);
}

PyObject *core_failure_object(const struct core_failure *failure) {
    const char *text = failure->text[0] ? failure->text : rcm_status_text(failure->status);
    PyObject *words = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    if (!words)
        return NULL;
    if (!error_type)
        return PyObject_CallFunction(PyExc_RuntimeError, "N", words);
    return PyObject_CallFunction(error_type, "iNiKs", (int)failure->status, words, failure->origin,
                                 (unsigned long long)failure->sequence, failure->operation);
}

PyObject *core_failure_raise(const struct core_failure *failure) {
    PyObject *error = core_failure_object(failure);
    if (error) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        Py_DECREF(error);
    }
    return NULL;
}

PyObject *core_raise(rcm_status status, const rcm_comm *comm) {
    struct core_failure failure;
    core_failure_note(&failure, status, comm, NULL);
    return core_failure_raise(&failure);
}
