/* SPDX-License-Identifier: BSD-3-Clause */
/* Error codes: a class in the low 6 bits, and above it the number of a sentence, so that a code
 * carries its sentence as long as it is one of the last 64. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "mpi_comm.h"
#include "faces.h"
#include "tables.h"

enum {
    CLASS_BITS = 6,
    CLASS_MASK = (1 << CLASS_BITS) - 1,
    SENTENCES = 64,
    NUMBERS = 192,                    /* of sentences: the largest code is below MPI_ERR_LASTCODE */
    TOOL_NUMBER = 1000 >> CLASS_BITS, /* not given out: codes of MPI_T are there */
    USER_FIRST = 1 << 14,             /* classes and codes of the program */
    USER_CODES = 256
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sentence {
    int number;
    char text[MPI_MAX_ERROR_STRING];
} sentences[SENTENCES];
static int last_number;
static struct user_code {
    int class;
    char text[MPI_MAX_ERROR_STRING];
} user_codes[USER_CODES];
static int nuser_codes, last_code = MPI_ERR_LASTCODE;

/* Stores a sentence and returns its code. */
static int keep_sentence(int class, const char *text) {
    pthread_mutex_lock(&lock);
    last_number = last_number == NUMBERS ? 1 : last_number + 1;
    if (last_number == TOOL_NUMBER)
        last_number++;
    struct sentence *place = &sentences[last_number % SENTENCES];
    place->number = last_number;
    snprintf(place->text, sizeof place->text, "%s", text);
    const int code = last_number << CLASS_BITS | class;
    pthread_mutex_unlock(&lock);
    return code;
}

int form_error(const struct form *form, int class, const char *format, ...) {
    char text[MPI_MAX_ERROR_STRING];
    const int n = snprintf(text, sizeof text, "%s: ", form->name);
    va_list args;
    va_start(args, format);
    vsnprintf(text + n, sizeof text - (size_t)n, format, args);
    va_end(args);
    return keep_sentence(class, text);
}

int error_class_of(rcm_status status) {
    const struct status_class *row = status_classes;
    while (row->class >= 0 && row->status != status)
        row++;
    return row->class >= 0 ? row->class : MPI_ERR_OTHER;
}

int form_status(const struct form *form, rcm_status status) {
    if (status == RCM_OK)
        return MPI_SUCCESS;
    return form_error(form, error_class_of(status), "%s", rcm_last_error());
}

int error_class(int code) {
    if (code >= USER_FIRST && code < USER_FIRST + nuser_codes)
        return user_codes[code - USER_FIRST].class;
    if (code < 0 || code >= (NUMBERS + 1) << CLASS_BITS)
        return MPI_ERR_UNKNOWN;
    return code >> CLASS_BITS == TOOL_NUMBER ? code : code & CLASS_MASK;
}

void error_text(int code, char *text, size_t cap) {
    const int class = error_class(code), number = code >> CLASS_BITS;
    const size_t known = sizeof class_texts / sizeof class_texts[0];
    pthread_mutex_lock(&lock);
    if (code >= USER_FIRST && code < USER_FIRST + nuser_codes)
        snprintf(text, cap, "%s", user_codes[code - USER_FIRST].text);
    else if (number > 0 && sentences[number % SENTENCES].number == number)
        snprintf(text, cap, "%s", sentences[number % SENTENCES].text);
    else if (class >= 0 && (size_t) class < known && class_texts[class])
        snprintf(text, cap, "%s", class_texts[class]);
    else
        snprintf(text, cap, "error class %d", class);
    pthread_mutex_unlock(&lock);
}

int face_Error_string(struct form *form, int code, char *text, int *ret_length) {
    error_text(code, text, MPI_MAX_ERROR_STRING);
    *ret_length = (int)strlen(text);
    return MPI_SUCCESS;
}

/* With the lock: the number of codes has changed. */
static void codes_changed(void) {
    last_code = nuser_codes > 0 ? USER_FIRST + nuser_codes - 1 : MPI_ERR_LASTCODE;
}

/* Adds a class (-1: its own) or a code of a class of the program. */
int face_add_error(struct form *form, int class, int *ret_code) {
    pthread_mutex_lock(&lock);
    const int i = nuser_codes < USER_CODES ? nuser_codes++ : -1;
    if (i >= 0)
        user_codes[i] = (struct user_code){class < 0 ? USER_FIRST + i : class, ""};
    codes_changed();
    pthread_mutex_unlock(&lock);
    if (i < 0)
        return form_error(form, MPI_ERR_NO_MEM, "there are %d classes and codes already. Add fewer",
                          USER_CODES);
    *ret_code = USER_FIRST + i;
    return MPI_SUCCESS;
}

int *error_last_code(void) {
    return &last_code;
}

/* Finds a class or code of the program. */
static int find_user(struct form *form, int code, struct user_code **ret_user) {
    const bool is_given_out = code >= USER_FIRST && code < USER_FIRST + nuser_codes;
    *ret_user = &user_codes[is_given_out ? code - USER_FIRST : 0];
    if (is_given_out && (*ret_user)->class)
        return MPI_SUCCESS;
    return form_error(form, MPI_ERR_ARG,
                      "errorcode is %d, which no MPI_Add_error function returned", code);
}

int face_Add_error_string(struct form *form, int code, const char *text) {
    struct user_code *user;
    const int found = find_user(form, code, &user);
    pthread_mutex_lock(&lock);
    if (found == MPI_SUCCESS)
        snprintf(user->text, sizeof user->text, "%s", text);
    pthread_mutex_unlock(&lock);
    return found;
}

/* Removes a class or a code, which has no sentence and, if it is a class, no codes. */
int face_remove_error(struct form *form, int code, bool is_class) {
    struct user_code *user;
    int found = find_user(form, code, &user);
    if (found == MPI_SUCCESS && (user->class == code) != is_class)
        found = form_error(form, MPI_ERR_ARG, "%d is a %s", code, is_class ? "code" : "class");
    bool is_used = found == MPI_SUCCESS && user->text[0];
    for (int i = 0; i < nuser_codes; i++)
        is_used |= user_codes[i].class == code && USER_FIRST + i != code;
    if (found == MPI_SUCCESS && is_used)
        found =
            form_error(form, MPI_ERR_OTHER, "%d has a string or codes. Remove them first", code);
    if (found != MPI_SUCCESS)
        return found;
    pthread_mutex_lock(&lock);
    user->class = 0;
    while (nuser_codes > 0 && !user_codes[nuser_codes - 1].class)
        nuser_codes--;
    codes_changed();
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

int face_nothing(struct form *form) {
    return MPI_SUCCESS;
}

int form_refuse_null(struct form *form, MPI_Comm handle, int argument) {
    struct MPI_ABI_Comm *comm;
    if (handle != MPI_COMM_NULL) /* its handler gets the error */
        (void)comm_find(form, handle, &comm);
    return form_error(form, MPI_ERR_ARG, "argument %d is NULL", argument);
}

int form_missing(const char *name, atomic_bool *logged) {
    if (!atomic_exchange(logged, true))
        fprintf(stderr,
                "ringcomm: %s is not built, it returns MPI_ERR_UNSUPPORTED_OPERATION. "
                "api/mpi/README.md lists what is\n",
                name);
    return MPI_ERR_UNSUPPORTED_OPERATION;
}
