/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments of operations. A buffer is an address, None, an object with the buffer protocol, or a
 * CPU array with __dlpack__. */
#include "core.h"

#include <string.h>

/* ---- DLPack: the used part of its public ABI (dlpack.h, version 1) --------------------------- */

struct dl_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: contiguous */
    uint64_t byte_offset;
};
enum {
    DL_CPU = 1,
    DL_INT = 0,
    DL_UINT = 1,
    DL_FLOAT = 2,
    DL_BFLOAT = 4,
    DL_COMPLEX = 5,
    DL_BOOL = 6,
    DL_FLOAT8_E4M3FN = 10,
    DL_FLOAT8_E5M2 = 12
};

static rcm_dtype integer_of(size_t bytes, bool is_signed) {
    switch (bytes) {
    case 1:
        return is_signed ? RCM_INT8 : RCM_UINT8;
    case 2:
        return is_signed ? RCM_INT16 : RCM_UINT16;
    case 4:
        return is_signed ? RCM_INT32 : RCM_UINT32;
    case 8:
        return is_signed ? RCM_INT64 : RCM_UINT64;
    default:
        return 0;
    }
}

static rcm_dtype float_of(size_t bytes) {
    return bytes == 2 ? RCM_FLOAT16 : bytes == 4 ? RCM_FLOAT32 : bytes == 8 ? RCM_FLOAT64 : 0;
}

static rcm_dtype complex_of(size_t bytes) {
    return bytes == 8 ? RCM_COMPLEX64 : bytes == 16 ? RCM_COMPLEX128 : 0;
}

static rcm_dtype dl_dtype(const struct dl_tensor *tensor) {
    size_t bytes = tensor->dtype.bits / 8u;
    if (tensor->dtype.lanes != 1 || tensor->dtype.bits % 8 != 0)
        return 0;
    switch (tensor->dtype.code) {
    case DL_INT:
        return integer_of(bytes, true);
    case DL_UINT:
        return integer_of(bytes, false);
    case DL_FLOAT:
        return float_of(bytes);
    case DL_BFLOAT:
        return bytes == 2 ? RCM_BFLOAT16 : 0;
    case DL_COMPLEX:
        return complex_of(bytes);
    case DL_BOOL:
        return bytes == 1 ? RCM_BOOL : 0;
    case DL_FLOAT8_E4M3FN:
        return RCM_FLOAT8_E4M3FN;
    case DL_FLOAT8_E5M2:
        return RCM_FLOAT8_E5M2;
    default:
        return 0;
    }
}

static bool dl_is_contiguous(const struct dl_tensor *tensor) {
    int64_t expected = 1;
    for (int i = tensor->ndim - 1; tensor->strides && i >= 0; i--) {
        if (tensor->shape[i] != 1 && tensor->strides[i] != expected)
            return false;
        expected *= tensor->shape[i];
    }
    return true;
}

static bool dl_read(PyObject *capsule, const char *name, struct core_view *view) {
    struct dl_tensor *tensor = PyCapsule_GetPointer(capsule, "dltensor");
    if (!tensor)
        return false;
    view->dtype = dl_dtype(tensor);
    if (tensor->device.type != DL_CPU || view->dtype == 0 || !dl_is_contiguous(tensor)) {
        PyErr_Format(PyExc_ValueError, "%s: the DLPack array %s", name,
                     tensor->device.type != DL_CPU ? "is not in CPU memory"
                     : view->dtype == 0            ? "has a type that ringcomm does not have"
                                                   : "is not contiguous");
        return false;
    }
    view->bytes = rcm_dtype_size(view->dtype);
    for (int i = 0; i < tensor->ndim; i++)
        view->bytes *= (size_t)tensor->shape[i];
    view->data = view->bytes ? (char *)tensor->data + tensor->byte_offset : NULL;
    view->owner = capsule;
    return true;
}

/* An unconsumed capsule frees its tensor itself, so holding it is enough. */
static bool view_of_dlpack(PyObject *object, const char *name, struct core_view *view) {
    PyObject *capsule = PyObject_CallMethod(object, "__dlpack__", NULL);
    if (!capsule)
        return false;
    if (dl_read(capsule, name, view))
        return true;
    Py_DECREF(capsule);
    return false;
}

/* ---- The buffer protocol --------------------------------------------------------------------- */

static rcm_dtype format_dtype(const char *format, size_t bytes) {
    if (!format)
        return RCM_UINT8;
    if (strchr("@=<", format[0]) && format[0] != '\0')
        format++;
    if (format[0] == 'Z')
        return complex_of(bytes);
    if (format[0] == '\0' || format[1] != '\0')
        return 0;
    switch (format[0]) {
    case '?':
        return RCM_BOOL;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
        return integer_of(bytes, true);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
        return integer_of(bytes, false);
    case 'c':
        return RCM_UINT8;
    case 'e':
    case 'f':
    case 'd':
        return float_of(bytes);
    default:
        return 0;
    }
}

static bool view_of_buffer(PyObject *object, bool writable, const char *name,
                           struct core_view *view) {
    int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, &view->buffer, flags) != 0) {
        PyErr_Format(PyExc_ValueError, "%s: a C-contiguous%s array is needed, not this %R", name,
                     writable ? ", writable" : "", (PyObject *)Py_TYPE(object));
        return false;
    }
    view->has_buffer = true;
    view->data = view->buffer.len ? view->buffer.buf : NULL;
    view->bytes = (size_t)view->buffer.len;
    view->dtype = format_dtype(view->buffer.format, (size_t)view->buffer.itemsize);
    if (view->dtype != 0)
        return true;
    PyErr_Format(PyExc_ValueError, "%s: ringcomm has no type for the array's format \"%s\"", name,
                 view->buffer.format);
    core_view_release(view);
    return false;
}

bool core_view_get(PyObject *object, bool writable, const char *name, struct core_view *ret_view) {
    ret_view->data = NULL;
    ret_view->bytes = SIZE_MAX;
    ret_view->dtype = 0;
    ret_view->has_buffer = false;
    ret_view->owner = NULL;
    if (object == Py_None)
        return true;
    if (PyLong_Check(object)) {
        ret_view->data = PyLong_AsVoidPtr(object);
        return ret_view->data || !PyErr_Occurred();
    }
    if (PyObject_CheckBuffer(object))
        return view_of_buffer(object, writable, name, ret_view);
    if (PyObject_HasAttrString(object, "__dlpack__"))
        return view_of_dlpack(object, name, ret_view);
    PyErr_Format(PyExc_TypeError, "%s: an array is needed (buffer protocol or DLPack), not %R",
                 name, (PyObject *)Py_TYPE(object));
    return false;
}

void core_view_release(struct core_view *view) {
    if (view->has_buffer)
        PyBuffer_Release(&view->buffer);
    Py_CLEAR(view->owner);
    view->has_buffer = false;
}

PyObject *core_view_describe(CORE_UNUSED PyObject *module, PyObject *args) {
    PyObject *object;
    int writable = 0;
    struct core_view view;
    if (!PyArg_ParseTuple(args, "O|p", &object, &writable) ||
        !core_view_get(object, writable != 0, "array", &view))
        return NULL;
    PyObject *result = Py_BuildValue("Kni", (unsigned long long)(uintptr_t)view.data,
                                     (Py_ssize_t)view.bytes, (int)view.dtype);
    core_view_release(&view);
    return result;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static bool named(bool good, const char *name) {
    if (good || !PyErr_Occurred())
        return true;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_Format(PyExc_ValueError, "%s: %S", name, value ? value : type);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return false;
}

bool core_size(PyObject *object, const char *name, size_t *ret_value) {
    *ret_value = PyLong_AsSize_t(object);
    return named(*ret_value != (size_t)-1, name);
}

bool core_int(PyObject *object, const char *name, int *ret_value) {
    int64_t value;
    if (!core_int64(object, name, &value))
        return false;
    if (value < INT32_MIN || value > INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "%s: %lld does not fit in 32 bits", name, (long long)value);
        return false;
    }
    *ret_value = (int)value;
    return true;
}

bool core_int64(PyObject *object, const char *name, int64_t *ret_value) {
    *ret_value = PyLong_AsLongLong(object);
    return named(*ret_value != -1, name);
}

bool core_sizes(PyObject *object, const char *name, size_t **ret_values, size_t *ret_n) {
    *ret_values = NULL;
    *ret_n = 0;
    if (object == Py_None)
        return true;
    Py_ssize_t n = PySequence_Size(object);
    if (n < 0)
        return named(false, name);
    size_t *values = PyMem_Malloc((n ? (size_t)n : 1) * sizeof *values);
    if (!values)
        return PyErr_NoMemory() != NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(object, i);
        bool good = item && core_size(item, name, &values[i]);
        Py_XDECREF(item);
        if (!good) {
            PyMem_Free(values);
            return false;
        }
    }
    *ret_values = values;
    *ret_n = (size_t)n;
    return true;
}
