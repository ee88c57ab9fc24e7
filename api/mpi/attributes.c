/* SPDX-License-Identifier: BSD-3-Clause */
/* See attributes.h. Keys are numbers from FIRST_KEY on. The first two copy functions of MPI are
 * numbers and never called: 0 copies nothing, 1 copies the value. */
#include "attributes.h"
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "datatype.h"
#include "faces.h"

enum { FIRST_KEY = 1000, KEYS = 1024 };

/* Of keys and of all lists. The program's functions are called without it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct key {
    bool is_of_types;
    MPI_Comm_copy_attr_function *copy;
    MPI_Comm_delete_attr_function *delete;
    MPI_Type_copy_attr_function *copy_type;
    MPI_Type_delete_attr_function *delete_type;
    void *extra;
} keys[KEYS];
static int nkeys;

struct attribute {
    struct attribute *next;
    int key;
    void *value;
};

/* What has attributes: one of the handles is set. */
struct owner {
    struct attribute **list;
    MPI_Comm comm;
    MPI_Datatype type;
};

static int create_key(struct form *form, struct key key, int *ret_key) {
    pthread_mutex_lock(&lock);
    const int i = nkeys < KEYS ? nkeys++ : -1;
    if (i >= 0)
        keys[i] = key;
    pthread_mutex_unlock(&lock);
    if (i < 0)
        return form_error(form, MPI_ERR_NO_MEM, "there are %d attribute keys already", KEYS);
    *ret_key = FIRST_KEY + i;
    return MPI_SUCCESS;
}

int face_Comm_create_keyval(struct form *form, MPI_Comm_copy_attr_function *copy,
                            MPI_Comm_delete_attr_function *delete, int *ret_key, void *extra) {
    return create_key(form, (struct key){false, copy, delete, NULL, NULL, extra}, ret_key);
}

int face_Type_create_keyval(struct form *form, MPI_Type_copy_attr_function *copy,
                            MPI_Type_delete_attr_function *delete, int *ret_key, void *extra) {
    return create_key(form, (struct key){true, NULL, NULL, copy, delete, extra}, ret_key);
}

static int find_key(struct form *form, int number, struct key **ret_key) {
    pthread_mutex_lock(&lock);
    const bool is_made = number >= FIRST_KEY && number < FIRST_KEY + nkeys;
    pthread_mutex_unlock(&lock);
    *ret_key = keys;
    if (!is_made)
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

static int own_comm(struct form *form, MPI_Comm handle, struct owner *owner) {
    struct MPI_ABI_Comm *comm;
    const int code = comm_find(form, handle, &comm);
    if (code == MPI_SUCCESS)
        *owner = (struct owner){.list = &comm->attributes, .comm = handle};
    return code;
}

static int own_type(struct form *form, MPI_Datatype handle, struct owner *owner) {
    struct MPI_ABI_Datatype *type;
    const int code = type_find(form, handle, &type);
    if (code == MPI_SUCCESS)
        *owner = (struct owner){.list = &type->attributes, .type = handle};
    return code;
}

/* With the lock. */
static struct attribute **find_attribute(const struct owner *owner, int key) {
    struct attribute **place = owner->list;
    while (*place && (*place)->key != key)
        place = &(*place)->next;
    return place;
}

/* Whether a function is not one of those that are numbers. */
#define IS_FUNCTION(pointer) (!is_predefined((void *)(uintptr_t)(pointer)))

/* Copies the attribute with this key. */
static bool look_key(const struct owner *owner, int number, struct attribute *ret_copy) {
    pthread_mutex_lock(&lock);
    const struct attribute *found = *find_attribute(owner, number);
    if (found)
        *ret_copy = *found;
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

/* Copies attribute `i` of the list. */
static bool look_at(const struct owner *owner, size_t i, struct attribute *ret_copy) {
    pthread_mutex_lock(&lock);
    const struct attribute *found = *owner->list;
    while (found && i-- > 0)
        found = found->next;
    if (found)
        *ret_copy = *found;
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

static void remove_key(const struct owner *owner, int number) {
    pthread_mutex_lock(&lock);
    struct attribute **place = find_attribute(owner, number), *removed = *place;
    if (removed)
        *place = removed->next;
    pthread_mutex_unlock(&lock);
    free(removed);
}

/* Calls the delete function, and removes the attribute if that succeeds. */
static int delete_one(struct form *form, const struct owner *owner,
                      const struct attribute *attribute) {
    struct key *key;
    int code = find_key(form, attribute->key, &key);
    if (code == MPI_SUCCESS && IS_FUNCTION(key->delete))
        code = key->delete (owner->comm, attribute->key, attribute->value, key->extra);
    if (code == MPI_SUCCESS && IS_FUNCTION(key->delete_type))
        code = key->delete_type(owner->type, attribute->key, attribute->value, key->extra);
    if (code == MPI_SUCCESS)
        remove_key(owner, attribute->key);
    return code;
}

static int delete_key(struct form *form, const struct owner *owner, int number) {
    struct key *key;
    int code = find_key(form, number, &key);
    if (code == MPI_SUCCESS && key->is_of_types != (owner->type != NULL))
        code = form_error(form, MPI_ERR_KEYVAL, "the key %d is of %s", number,
                          key->is_of_types ? "datatypes" : "communicators");
    struct attribute found;
    const bool is_set = code == MPI_SUCCESS && look_key(owner, number, &found);
    return is_set ? delete_one(form, owner, &found) : code;
}

static int set_key(struct form *form, const struct owner *owner, int number, void *value) {
    const int code = delete_key(form, owner, number);
    if (code != MPI_SUCCESS)
        return code;
    struct attribute *made = malloc(sizeof *made);
    if (!made)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for an attribute");
    pthread_mutex_lock(&lock);
    *made = (struct attribute){*owner->list, number, value};
    *owner->list = made;
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

static int get_key(struct form *form, const struct owner *owner, int number, void *otherwise,
                   void *ret_value, int *ret_flag) {
    if (number == MPI_KEYVAL_INVALID)
        return form_error(form, MPI_ERR_KEYVAL, "the key is MPI_KEYVAL_INVALID");
    struct attribute found;
    const bool is_set = look_key(owner, number, &found);
    void *value = is_set ? found.value : otherwise;
    *ret_flag = is_set || value;
    if (*ret_flag)
        memcpy(ret_value, &value, sizeof value);
    return MPI_SUCCESS;
}

int face_Comm_delete_attr(struct form *form, MPI_Comm handle, int number) {
    struct owner owner;
    const int code = own_comm(form, handle, &owner);
    return code == MPI_SUCCESS ? delete_key(form, &owner, number) : code;
}

int face_Type_delete_attr(struct form *form, MPI_Datatype handle, int number) {
    struct owner owner;
    const int code = own_type(form, handle, &owner);
    return code == MPI_SUCCESS ? delete_key(form, &owner, number) : code;
}

int face_Comm_set_attr(struct form *form, MPI_Comm handle, int number, void *value) {
    struct owner owner;
    const int code = own_comm(form, handle, &owner);
    return code == MPI_SUCCESS ? set_key(form, &owner, number, value) : code;
}

int face_Type_set_attr(struct form *form, MPI_Datatype handle, int number, void *value) {
    struct owner owner;
    const int code = own_type(form, handle, &owner);
    return code == MPI_SUCCESS ? set_key(form, &owner, number, value) : code;
}

static int *predefined_value(int key) {
    static int tag_ub = INT_MAX, io = MPI_ANY_SOURCE, host = MPI_PROC_NULL, is_global = 0;
    static int last_code;
    last_code = error_last_code();
    return key == MPI_TAG_UB            ? &tag_ub
           : key == MPI_IO              ? &io
           : key == MPI_HOST            ? &host
           : key == MPI_WTIME_IS_GLOBAL ? &is_global
           : key == MPI_LASTUSEDCODE    ? &last_code
                                        : NULL;
}

int face_Comm_get_attr(struct form *form, MPI_Comm handle, int number, void *ret_value,
                       int *ret_flag) {
    struct owner owner;
    const int code = own_comm(form, handle, &owner);
    return code == MPI_SUCCESS
               ? get_key(form, &owner, number, predefined_value(number), ret_value, ret_flag)
               : code;
}

int face_Type_get_attr(struct form *form, MPI_Datatype handle, int number, void *ret_value,
                       int *ret_flag) {
    struct owner owner;
    const int code = own_type(form, handle, &owner);
    return code == MPI_SUCCESS ? get_key(form, &owner, number, NULL, ret_value, ret_flag) : code;
}

static int copy_all(struct form *form, const struct owner *from, const struct owner *to) {
    int code = MPI_SUCCESS;
    struct attribute found;
    for (size_t i = 0; code == MPI_SUCCESS && look_at(from, i, &found); i++) {
        const struct key *key = &keys[found.key - FIRST_KEY];
        void *value = found.value;
        int flag = key->copy == MPI_COMM_DUP_FN || key->copy_type == MPI_TYPE_DUP_FN;
        if (IS_FUNCTION(key->copy))
            code = key->copy(from->comm, found.key, key->extra, found.value, &value, &flag);
        else if (IS_FUNCTION(key->copy_type))
            code = key->copy_type(from->type, found.key, key->extra, found.value, &value, &flag);
        if (code == MPI_SUCCESS && flag)
            code = set_key(form, to, found.key, value);
    }
    return code;
}

int attributes_copy(struct form *form, MPI_Comm from, MPI_Comm to) {
    struct owner old, made;
    int code = own_comm(form, from, &old);
    if (code == MPI_SUCCESS)
        code = own_comm(form, to, &made);
    return code == MPI_SUCCESS ? copy_all(form, &old, &made) : code;
}

int attributes_copy_type(struct form *form, MPI_Datatype from, MPI_Datatype to) {
    struct owner old, made;
    int code = own_type(form, from, &old);
    if (code == MPI_SUCCESS)
        code = own_type(form, to, &made);
    return code == MPI_SUCCESS ? copy_all(form, &old, &made) : code;
}

static int delete_all(struct form *form, const struct owner *owner) {
    int code = MPI_SUCCESS;
    struct attribute found;
    while (code == MPI_SUCCESS && look_at(owner, 0, &found))
        code = delete_one(form, owner, &found);
    return code;
}

int attributes_delete(struct form *form, MPI_Comm handle) {
    struct owner owner;
    const int code = own_comm(form, handle, &owner);
    return code == MPI_SUCCESS ? delete_all(form, &owner) : code;
}

int attributes_delete_type(struct form *form, MPI_Datatype handle) {
    struct owner owner;
    const int code = own_type(form, handle, &owner);
    return code == MPI_SUCCESS ? delete_all(form, &owner) : code;
}
