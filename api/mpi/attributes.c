/* SPDX-License-Identifier: BSD-3-Clause */
/* See attributes.h. Keys are numbers from FIRST_KEY on. The first two copy functions of MPI are
 * numbers and never called: 0 copies nothing, 1 copies the value. */
#include "attributes.h"
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "faces.h"

enum { FIRST_KEY = 1000, KEYS = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct key {
    MPI_Comm_copy_attr_function *copy;
    MPI_Comm_delete_attr_function *delete;
    void *extra;
} keys[KEYS];
static int nkeys;

struct attribute {
    struct attribute *next;
    int key;
    void *value;
};

int face_Comm_create_keyval(struct form *form, MPI_Comm_copy_attr_function *copy,
                            MPI_Comm_delete_attr_function *delete, int *ret_key, void *extra) {
    pthread_mutex_lock(&lock);
    const int i = nkeys < KEYS ? nkeys++ : -1;
    if (i >= 0)
        keys[i] = (struct key){copy, delete, extra};
    pthread_mutex_unlock(&lock);
    if (i < 0)
        return form_error(form, MPI_ERR_NO_MEM, "there are %d attribute keys already", KEYS);
    *ret_key = FIRST_KEY + i;
    return MPI_SUCCESS;
}

static int find_key(struct form *form, int number, struct key **ret_key) {
    *ret_key = keys;
    if (number < FIRST_KEY || number >= FIRST_KEY + nkeys)
        return form_error(form, MPI_ERR_KEYVAL, "the key %d is none of a program's", number);
    *ret_key = &keys[number - FIRST_KEY];
    return MPI_SUCCESS;
}

/* The key is not used again, for attributes with it stay until they are deleted. */
int face_Comm_free_keyval(struct form *form, int *number) {
    struct key *key;
    const int code = find_key(form, *number, &key);
    *number = MPI_KEYVAL_INVALID;
    return code;
}

static struct attribute **find_attribute(struct MPI_ABI_Comm *comm, int key) {
    struct attribute **place = &comm->attributes;
    while (*place && (*place)->key != key)
        place = &(*place)->next;
    return place;
}

/* Calls the delete function, and removes the attribute if that succeeds. */
static int delete_one(struct form *form, MPI_Comm handle, struct attribute **place) {
    struct attribute *attribute = *place;
    struct key *key;
    int code = find_key(form, attribute->key, &key);
    if (code == MPI_SUCCESS && !is_predefined((void *)(uintptr_t)key->delete))
        code = key->delete (handle, attribute->key, attribute->value, key->extra);
    if (code != MPI_SUCCESS)
        return code;
    *place = attribute->next;
    free(attribute);
    return MPI_SUCCESS;
}

int face_Comm_delete_attr(struct form *form, MPI_Comm handle, int number) {
    struct MPI_ABI_Comm *comm;
    struct key *key;
    int code = comm_find(form, handle, &comm);
    if (code == MPI_SUCCESS)
        code = find_key(form, number, &key);
    if (code != MPI_SUCCESS || !*find_attribute(comm, number))
        return code;
    return delete_one(form, handle, find_attribute(comm, number));
}

int face_Comm_set_attr(struct form *form, MPI_Comm handle, int number, void *value) {
    struct MPI_ABI_Comm *comm;
    const int code = face_Comm_delete_attr(form, handle, number);
    if (code != MPI_SUCCESS)
        return code;
    struct attribute *made = malloc(sizeof *made);
    if (!made || comm_find(form, handle, &comm) != MPI_SUCCESS) {
        free(made);
        return form_error(form, MPI_ERR_NO_MEM, "no memory for an attribute");
    }
    *made = (struct attribute){comm->attributes, number, value};
    comm->attributes = made;
    return MPI_SUCCESS;
}

static int *predefined_value(int key) {
    static int tag_ub = INT_MAX, io = MPI_ANY_SOURCE, host = MPI_PROC_NULL, is_global = 0;
    static int last_code = MPI_ERR_LASTCODE;
    return key == MPI_TAG_UB            ? &tag_ub
           : key == MPI_IO              ? &io
           : key == MPI_HOST            ? &host
           : key == MPI_WTIME_IS_GLOBAL ? &is_global
           : key == MPI_LASTUSEDCODE    ? &last_code
                                        : NULL;
}

int face_Comm_get_attr(struct form *form, MPI_Comm handle, int number, void *ret_value,
                       int *ret_flag) {
    struct MPI_ABI_Comm *comm;
    const int code = comm_find(form, handle, &comm);
    if (code != MPI_SUCCESS)
        return code;
    const struct attribute *attribute = *find_attribute(comm, number);
    void *value = attribute ? attribute->value : predefined_value(number);
    *ret_flag = attribute || value;
    if (*ret_flag)
        memcpy(ret_value, &value, sizeof value);
    return MPI_SUCCESS;
}

int attributes_copy(struct form *form, MPI_Comm from, MPI_Comm to) {
    struct MPI_ABI_Comm *comm;
    int code = comm_find(form, from, &comm);
    const struct attribute *attribute = code == MPI_SUCCESS ? comm->attributes : NULL;
    for (; attribute && code == MPI_SUCCESS; attribute = attribute->next) {
        const struct key *key = &keys[attribute->key - FIRST_KEY];
        void *value = attribute->value;
        int flag = key->copy == MPI_COMM_DUP_FN;
        if (!is_predefined((void *)(uintptr_t)key->copy))
            code = key->copy(from, attribute->key, key->extra, attribute->value, &value, &flag);
        if (code == MPI_SUCCESS && flag)
            code = face_Comm_set_attr(form, to, attribute->key, value);
    }
    return code;
}

int attributes_delete(struct form *form, MPI_Comm handle) {
    struct MPI_ABI_Comm *comm;
    int code = comm_find(form, handle, &comm);
    while (code == MPI_SUCCESS && comm->attributes)
        code = delete_one(form, handle, &comm->attributes);
    return code;
}
