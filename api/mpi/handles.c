/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of objects, and numbers of handles. A predefined handle is its own number; an object gets
 * the next number when it is first converted. The number belongs to the address: a later object
 * there has it too. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "form.h"

enum { FIRST_NUMBER = 0x1000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const void **objects;
static int nobjects, room;

bool form_is_large(const struct form *form) {
    const size_t length = strlen(form->name);
    return length > 2 && strcmp(form->name + length - 2, "_c") == 0;
}

int name_get(const char *text, char *name, int *ret_length) {
    *ret_length = (int)strlen(text);
    memcpy(name, text, (size_t)*ret_length + 1);
    return MPI_SUCCESS;
}

void name_set(char *text, const char *name) {
    const size_t length = strnlen(name, MPI_MAX_OBJECT_NAME - 1);
    memcpy(text, name, length);
    text[length] = '\0';
}

void handle_free(void *object) {
    enum { KEPT = 256 };
    static _Atomic(void *) kept[KEPT];
    static atomic_uint next;
    free(atomic_exchange(&kept[atomic_fetch_add(&next, 1) % KEPT], object));
}

/* With the lock: the index of an object, or -1 without memory. */
static int index_of(const void *object) {
    for (int i = 0; i < nobjects; i++)
        if (objects[i] == object)
            return i;
    if (nobjects == room) {
        const void **grown = realloc(objects, sizeof *grown * 2 * (size_t)(room + 8));
        if (!grown)
            return -1;
        objects = grown;
        room = 2 * (room + 8);
    }
    objects[nobjects] = object;
    return nobjects++;
}

/* -1 without memory: the functions of MPI have no error code. */
int face_Handle_toint(const void *handle) {
    if (is_predefined(handle))
        return (int)(uintptr_t)handle;
    pthread_mutex_lock(&lock);
    const int i = index_of(handle);
    pthread_mutex_unlock(&lock);
    return i < 0 ? -1 : FIRST_NUMBER + i;
}

void *face_Handle_fromint(int number) {
    void *handle = NULL;
    if (number >= 0 && number < FIRST_NUMBER)
        return (void *)(uintptr_t)number;
    pthread_mutex_lock(&lock);
    if (number >= FIRST_NUMBER && number - FIRST_NUMBER < nobjects)
        handle = (void *)objects[number - FIRST_NUMBER];
    pthread_mutex_unlock(&lock);
    return handle;
}
