/* SPDX-License-Identifier: BSD-3-Clause */
/* The module ringcomm._core: its constants, and functions without a communicator. */
#include "core.h"

#include <string.h>

static PyObject *unique_id(CORE_UNUSED PyObject *module, CORE_UNUSED PyObject *none) {
    struct rcm_unique_id id;
    rcm_status status;
    Py_BEGIN_ALLOW_THREADS status = rcm_unique_id_get(&id);
    Py_END_ALLOW_THREADS if (status != RCM_OK) return core_raise(status, NULL);
    return PyBytes_FromStringAndSize(id.bytes, sizeof id.bytes);
}

static PyObject *premul_sum(CORE_UNUSED PyObject *module, PyObject *args) {
    double real, imaginary = 0;
    int dtype;
    rcm_op op;
    if (!PyArg_ParseTuple(args, "di|d", &real, &dtype, &imaginary))
        return NULL;
    rcm_status status = rcm_op_create_premul_sum(real, imaginary, (rcm_dtype)dtype, &op);
    return status == RCM_OK ? PyLong_FromLong(op) : core_raise(status, NULL);
}

static PyObject *op_free(CORE_UNUSED PyObject *module, PyObject *number) {
    int op;
    if (!core_int(number, "op", &op))
        return NULL;
    rcm_status status = rcm_op_free(op);
    if (status != RCM_OK)
        return core_raise(status, NULL);
    Py_RETURN_NONE;
}

/* op_defined(op, dtype) -> None, or the reason why not */
static PyObject *op_defined(CORE_UNUSED PyObject *module, PyObject *args) {
    int op, dtype;
    if (!PyArg_ParseTuple(args, "ii", &op, &dtype))
        return NULL;
    if (rcm_op_defined(op, (rcm_dtype)dtype) == RCM_OK)
        Py_RETURN_NONE;
    return PyUnicode_FromString(rcm_last_error());
}

/* wait_all(works, timeout_ms) -> bool: whether all are complete. Raises the first error. */
static PyObject *wait_all(CORE_UNUSED PyObject *module, PyObject *args) {
    PyObject *list;
    long long timeout_ms = -1;
    if (!PyArg_ParseTuple(args, "O|L", &list, &timeout_ms))
        return NULL;
    Py_ssize_t n = PySequence_Size(list);
    rcm_status status = RCM_OK;
    for (Py_ssize_t i = 0; i < n; i++) {
        struct core_failure failure;
        PyObject *item = PySequence_GetItem(list, i);
        rcm_work *work = item ? core_work_of(item) : NULL;
        int raised = work ? core_work_wait(work, timeout_ms, &status, &failure) : -1;
        Py_XDECREF(item);
        if (raised != 0)
            return NULL;
        if (status < 0)
            return core_failure_raise(&failure);
        if (status == RCM_PENDING)
            Py_RETURN_FALSE;
    }
    return n < 0 ? NULL : PyBool_FromLong(1);
}

static PyObject *settings(CORE_UNUSED PyObject *module, CORE_UNUSED PyObject *none) {
    struct rcm_setting setting;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && rcm_setting_at(i, &setting) == RCM_OK; i++) {
        PyObject *row = Py_BuildValue("sssss", setting.name, setting.value, setting.default_value,
                                      setting.origin, setting.help);
        if (!row || PyList_Append(list, row) != 0)
            Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyMethodDef methods[] = {
    {"unique_id", unique_id, METH_NOARGS, "unique_id() -> 128 bytes (rcm_unique_id_get)"},
    {"premul_sum", premul_sum, METH_VARARGS, "premul_sum(real, dtype, imaginary=0) -> op number"},
    {"op_free", op_free, METH_O, "op_free(op)"},
    {"op_defined", op_defined, METH_VARARGS, "op_defined(op, dtype) -> None, or why not"},
    {"wait_all", wait_all, METH_VARARGS, "wait_all(works, timeout_ms=-1) -> bool"},
    {"settings", settings, METH_NOARGS,
     "settings() -> [(name, value, default, origin, help)] of the environment"},
    {"view", core_view_describe, METH_VARARGS,
     "view(array, writable=False) -> (address, bytes, dtype number)"},
    {"next_completion", core_next_completion, METH_O,
     "next_completion(timeout_ms) -> the item of a completed work, or None"},
    {"log_collect", core_log_collect, METH_O,
     "log_collect(on): keep lines of the log for log_next"},
    {"log_next", core_log_next, METH_O, "log_next(timeout_ms) -> (level, rank, text), or None"},
    {"log_level", core_log_level, METH_O, "log_level(number): 0 error, 1 warn, 2 info, 3 debug"},
    {"set_error_type", core_set_error_type, METH_O,
     "set_error_type(type): the exception of failed calls"},
    {0}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "ringcomm._core",
                                        .m_doc = "libringcomm's functions (see ringcomm.h).",
                                        .m_size = -1, .m_methods = methods};

static bool put(PyObject *dictionary, const char *name, long value) {
    PyObject *number = PyLong_FromLong(value);
    int done = number ? PyDict_SetItemString(dictionary, name, number) : -1;
    Py_XDECREF(number);
    return done == 0;
}

static bool add(PyObject *module, const char *name, PyObject *value) {
    int done = value ? PyModule_AddObjectRef(module, name, value) : -1;
    Py_XDECREF(value);
    return done == 0;
}

static bool add_statuses(PyObject *module) {
    PyObject *statuses = PyDict_New();
#define PUT_STATUS(name, number, text) &&put(statuses, #name, number)
    bool good = statuses RCM_STATUS_MAP(PUT_STATUS);
    return add(module, "STATUSES", statuses) && good;
}

/* {"float32": (number, bytes)} */
static bool add_dtypes(PyObject *module) {
    PyObject *dtypes = PyDict_New();
    for (int i = 1; dtypes && rcm_dtype_size((rcm_dtype)i) != 0; i++) {
        PyObject *pair = Py_BuildValue("in", i, (Py_ssize_t)rcm_dtype_size((rcm_dtype)i));
        if (!pair || PyDict_SetItemString(dtypes, rcm_dtype_name((rcm_dtype)i), pair) != 0)
            Py_CLEAR(dtypes);
        Py_XDECREF(pair);
    }
    return add(module, "DTYPES", dtypes);
}

static bool add_ops(PyObject *module) {
    PyObject *ops = PyDict_New();
#define PUT_OP(name, number) &&put(ops, rcm_op_name(number), number)
    bool good = ops RCM_OP_MAP(PUT_OP);
    return add(module, "OPS", ops) && good;
}

static bool add_collectives(PyObject *module) {
    PyObject *collectives = PyDict_New();
    struct rcm_collective_info info = RCM_COLLECTIVE_INFO_INIT;
    bool good = collectives != NULL;
    for (size_t i = 0; good && rcm_collective_at(i, &info) == RCM_OK; i++)
        good = put(collectives, info.name, (long)info.collective);
    return add(module, "COLLECTIVES", collectives) && good;
}

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    if (core_work_type_add(module) && core_comm_type_add(module) && core_operations_add(module) &&
        add_statuses(module) && add_dtypes(module) && add_ops(module) && add_collectives(module) &&
        PyModule_AddStringConstant(module, "VERSION", rcm_version()) == 0)
        return module;
    Py_DECREF(module);
    return NULL;
}
