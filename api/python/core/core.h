/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core.h: ringcomm._core, the Python extension under the package `ringcomm`.
 *
 *   module.c      the module: constants, types, operators, settings
 *   argument.c    arguments of a call: buffers (addresses, buffer protocol, DLPack), lists, counts
 *   operation.c   a table of the operations of ringcomm.h, and the function that runs them
 *   work.c        the type Work: wait, test, completion, unfinished works that a program drops
 *   resolve.c     completed works for the threads that resolve futures
 *   comm.c        the type Comm: creation and end of a communicator, groups, queries
 *   errors.c      exceptions
 *   log.c         lines of the log for `logging`
 *
 * It uses only the limited API of Python 3.11 and ringcomm.h, so one binary serves every later
 * Python. Every call that can wait releases the GIL, and returns to Python at least every
 * CORE_SLICE_MS for signals. No thread of the library takes the GIL.
 */
#ifndef RINGCOMM_PYTHON_CORE_H
#define RINGCOMM_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <ringcomm.h>
#include <stdbool.h>

#define CORE_UNUSED __attribute__((unused))

/* Ctrl-C takes effect within this time. */
enum { CORE_SLICE_MS = 50 };

/* What an operation returns. */
enum core_mode {
    CORE_BLOCKING = 0, /* None, when it is complete */
    CORE_ASYNC = 1,    /* a Work */
    CORE_EAGER = 2     /* None if it is complete at once, else a Work */
};

/* ---- Errors (errors.c) ----------------------------------------------------------------------- */

/* The facts of a failed call from ringcomm.h. Filled without the GIL, right after the call. */
struct core_failure {
    rcm_status status;
    int origin;
    uint64_t sequence;
    char operation[32];
    char text[1024];
};
/* comm, work: may be NULL; work takes precedence. */
void core_failure_note(struct core_failure *failure, rcm_status status, const rcm_comm *comm,
                       const rcm_work *work);
/* Sets the Python exception; returns NULL. */
PyObject *core_failure_raise(const struct core_failure *failure);
/* Returns the exception object, a new reference. */
PyObject *core_failure_object(const struct core_failure *failure);
/* Raises for a call that has just failed in this thread. Returns NULL. */
PyObject *core_raise(rcm_status status, const rcm_comm *comm);
/* _core.set_error_type(callable) */
PyObject *core_set_error_type(PyObject *module, PyObject *type);

/* ---- Arguments (argument.c) ------------------------------------------------------------------ */

/* A buffer argument: memory, and the object that keeps it alive. */
struct core_view {
    void *data;
    size_t bytes;
    rcm_dtype dtype;  /* 0: unknown (an address, None) */
    bool has_buffer;  /* buffer is held */
    Py_buffer buffer; /* a buffer-protocol export */
    PyObject *owner;  /* a DLPack capsule, or NULL */
};
/* Makes a view of an address (int), None, a buffer or a DLPack array. name: of the argument, for
 * errors. False: an exception is set. */
bool core_view_get(PyObject *object, bool writable, const char *name, struct core_view *ret_view);
void core_view_release(struct core_view *view);
/* _core.view(object, writable) -> (address, bytes, dtype number): for tests and the package. */
PyObject *core_view_describe(PyObject *module, PyObject *args);

bool core_size(PyObject *object, const char *name, size_t *ret_value);
bool core_int(PyObject *object, const char *name, int *ret_value);
bool core_int64(PyObject *object, const char *name, int64_t *ret_value);
/* A list or tuple of counts, or None (NULL). PyMem_Malloc'd. n is its length. */
bool core_sizes(PyObject *object, const char *name, size_t **ret_values, size_t *ret_n);

/* ---- Works (work.c) -------------------------------------------------------------------------- */

/* Objects and memory that must live until an operation is complete. */
struct core_held {
    struct core_held *next;
    PyObject *keep;             /* any object of the caller, or NULL */
    struct rcm_message message; /* for a receive */
    struct rcm_bytes *bytes;    /* for the functions with _bytes */
    size_t nviews;
    struct core_view views[]; /* nviews */
};
struct core_held *core_held_new(PyObject *keep, size_t nviews); /* views: filled by the caller */
void core_held_free(struct core_held *held);
/* Releases the memory of dropped works that are complete by now. */
void core_held_sweep(void);

bool core_work_type_add(PyObject *module);
/* Makes an object that owns work and held. On failure both are detached. */
PyObject *core_work_new(rcm_work *work, struct core_held *held);
/* Detaches a work: held is freed by a later sweep once the operation is complete. */
void core_work_orphan(rcm_work *work, struct core_held *held);
/* Waits in slices, without the GIL; timeout_ms < 0: no limit of its own. RCM_PENDING: the time has
 * passed. Returns -1 with an exception set if a signal handler raised. */
int core_work_wait(rcm_work *work, int64_t timeout_ms, rcm_status *ret_status,
                   struct core_failure *failure);
/* NULL with an exception set: object is not a Work. */
rcm_work *core_work_of(PyObject *object);

/* ---- Completions (resolve.c) ----------------------------------------------------------------- */

/* core_next_completion returns `item` once work is complete. */
bool core_completion_register(rcm_work *work, PyObject *item);
/* _core.next_completion(timeout_ms) -> item or None; waits without the GIL. */
PyObject *core_next_completion(PyObject *module, PyObject *timeout_ms);

/* ---- The log (log.c) ------------------------------------------------------------------------- */

/* _core.log_collect(on): keeps lines for log_next, or sends them to stderr again. */
PyObject *core_log_collect(PyObject *module, PyObject *on);
/* _core.log_next(timeout_ms) -> (level, rank or -1, text), or None; waits without the GIL. */
PyObject *core_log_next(PyObject *module, PyObject *timeout_ms);
/* _core.log_level(number): enum rcm_log_level. */
PyObject *core_log_level(PyObject *module, PyObject *level);

/* ---- Communicators (comm.c) ------------------------------------------------------------------ */

bool core_comm_type_add(PyObject *module);
/* NULL with an exception set: object is not an open Comm. */
rcm_comm *core_comm_of(PyObject *object);

/* ---- Operations (operation.c) ---------------------------------------------------------------- */

/* Adds a function per operation. */
bool core_operations_add(PyObject *module);

#endif
