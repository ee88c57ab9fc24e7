/* SPDX-License-Identifier: BSD-3-Clause */
/* What all forms of a function share: the generated functions of the ABI describe their call in a
 * struct form and pass it to the face, which is written once. */
#ifndef FORM_H
#define FORM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include "mpi.h"
#include "ringcomm.h"

enum form_kind {
    FORM_NOW,   /* blocking */
    FORM_BEGIN, /* makes or starts a request */
    FORM_KEEP   /* persistent: keeps the arguments */
};

struct form {
    const char *name;
    enum form_kind kind;
    MPI_Request *ret_request;
    MPI_Comm comm;       /* set by the face: the communicator whose error handler applies */
    MPI_Comm held;       /* the same with a reference, if the program may have freed it */
    MPI_Request request; /* FORM_BEGIN: the request of this call */
    struct hold *holds;  /* FORM_KEEP: copies and references to objects, which the request gets */
    int code;            /* the first error found while arguments are kept */
};

/* An array of counts or displacements, of int or of MPI_Count. */
struct array {
    const void *items;
    bool large;
};
static inline MPI_Count array_at(struct array array, int i) {
    return array.large ? ((const MPI_Count *)array.items)[i] : ((const int *)array.items)[i];
}

/* Whether this is the form with large counts. */
bool form_is_large(const struct form *form);

/* What most calls do not do: it stays out of the functions that every call runs. */
#define RARE __attribute__((noinline, cold))
/* And what every call does, in some functions that are too many for the compiler to do it alone. */
#define INLINE static inline __attribute__((always_inline))

/* Returns code; if it is an error, the error handler of form->comm is called first. */
RARE int form_failed(struct form *form, int code);
static inline int form_end(struct form *form, int code) {
    return code == MPI_SUCCESS ? MPI_SUCCESS : form_failed(form, code);
}

/* Makes an error code of a class with a sentence. The last 64 sentences are kept. */
int form_error(const struct form *form, int class, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));
/* The code of a call of ringcomm.h that returned status: the class that fits, the call's text. */
int form_status(const struct form *form, rcm_status status);
/* The class that fits a status. */
int error_class_of(rcm_status status);
int error_class(int code);
/* Copies the sentence of a code, or of its class, at most cap bytes with the NUL. */
void error_text(int code, char *text, size_t cap);

/* Faces of MPI_X_toint and MPI_X_fromint, for all kinds of handles. */
int face_Handle_toint(const void *handle);
void *face_Handle_fromint(int number);

int info_find(struct form *form, MPI_Info handle, struct MPI_ABI_Info **ret_info);
/* Whether an info has a key with this value. */
bool info_has(MPI_Info info, const char *key, const char *value);
/* Copies a name to the program, or to an object, which keeps MPI_MAX_OBJECT_NAME bytes. */
int name_get(const char *text, char *name, int *ret_length);
void name_set(char *text, const char *name);
/* The value of MPI_LASTUSEDCODE, which changes only when the program adds or removes codes. */
int *error_last_code(void);
/* The error of an argument that must point to something, counted from 1. comm: of the call, if it
 * has one. */
RARE int form_refuse_null(struct form *form, MPI_Comm comm, int argument);
/* A function that is not built: logs its name, once, and returns its code. */
int form_missing(const char *name, atomic_bool *logged);

/* Persistent forms: keeps the arguments, with which `start` is called at each start. */
typedef int (*form_start)(struct form *form, const void *arguments);
int form_keep(struct form *form, form_start start, const void *arguments, size_t bytes,
              MPI_Comm comm);
/* Copies of arrays with an entry for each rank, of the other group if there are two. root: the only
 * rank where they are read, or one of these. */
enum { KEEP_ALL = -100, KEEP_OWN_GROUP };
struct array form_keep_array(struct form *form, struct array array, MPI_Comm comm, int root);
MPI_Datatype form_keep_datatype(struct form *form, MPI_Datatype type);
MPI_Op form_keep_op(struct form *form, MPI_Op op);
/* Frees what was kept. */
void holds_drop(struct hold *holds);
const MPI_Datatype *form_keep_types(struct form *form, const MPI_Datatype *types, MPI_Comm comm);

/* Frees an object when 256 more were freed, so that its handle is known as freed for a while. */
void handle_free(void *object);

/* Whether a handle is a predefined one, whose value is a small number. */
static inline bool is_predefined(const void *handle) {
    return (uintptr_t)handle < 0x1000;
}

#endif
