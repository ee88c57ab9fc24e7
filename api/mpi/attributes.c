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

/* Of keys and of all lists. The program's functions are called without it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct key {
    int users; /* the program until it frees the key, and each attribute; 0: the place is free */
    bool is_freed; /* by the program: no new attributes */
    bool is_of_types;
    union {
        MPI_Comm_copy_attr_function *comm;
        MPI_Type_copy_attr_function *type;
    } copy;
    union {
        MPI_Comm_delete_attr_function *comm;
        MPI_Type_delete_attr_function *type;
    } delete;
    void *extra;
} keys[KEYS];

struct attribute {
    struct attribute *next;
    int key;
    void *value;
};

static int create_key(struct form *form, struct key key, int *ret_key) {
    int i = 0;
    pthread_mutex_lock(&lock);
    while (i < KEYS && keys[i].users > 0)
        i++;
    if (i < KEYS)
        keys[i] = key;
    pthread_mutex_unlock(&lock);
    if (i == KEYS)
        return form_error(form, MPI_ERR_NO_MEM,
                          "there are %d attribute keys. Free some (MPI_Comm_free_keyval)", KEYS);
    *ret_key = FIRST_KEY + i;
    return MPI_SUCCESS;
}

int face_Comm_create_keyval(struct form *form, MPI_Comm_copy_attr_function *copy,
                            MPI_Comm_delete_attr_function *delete, int *ret_key, void *extra) {
    return create_key(form, (struct key){1, false, false, {copy}, {delete}, extra}, ret_key);
}

int face_Type_create_keyval(struct form *form, MPI_Type_copy_attr_function *copy,
                            MPI_Type_delete_attr_function *delete, int *ret_key, void *extra) {
    struct key key = {.users = 1, .is_of_types = true, .extra = extra};
    key.copy.type = copy;
    key.delete.type = delete;
    return create_key(form, key, ret_key);
}

/* A user of a key less. */
static void key_unuse(int number) {
    pthread_mutex_lock(&lock);
    keys[number - FIRST_KEY].users--;
    pthread_mutex_unlock(&lock);
}

/* What a key is for. A freed key in use is as good as another one, but gets no new attributes. */
enum purpose { PURPOSE_SET, PURPOSE_OTHER, PURPOSE_FREE };

/* Checks a key of the program, and frees it once with PURPOSE_FREE. */
static int find_key(struct form *form, int number, enum purpose purpose, bool is_of_types) {
    struct key none = {0};
    pthread_mutex_lock(&lock);
    struct key *key =
        number >= FIRST_KEY && number < FIRST_KEY + KEYS ? &keys[number - FIRST_KEY] : &none;
    const bool is_legal = key->users > 0 && key->is_of_types == is_of_types &&
                          !(purpose == PURPOSE_SET && key->is_freed);
    const bool frees = is_legal && purpose == PURPOSE_FREE && !key->is_freed;
    key->is_freed |= frees;
    key->users -= frees;
    pthread_mutex_unlock(&lock);
    return is_legal ? MPI_SUCCESS
                    : form_error(form, MPI_ERR_KEYVAL, "%d is no key of %s", number,
                                 is_of_types ? "datatypes" : "communicators");
}

/* Attributes with the key stay until they are deleted. Then the key is given out again. */
int face_free_keyval(struct form *form, int *number, bool is_of_types) {
    const int code = find_key(form, *number, PURPOSE_FREE, is_of_types);
    if (code == MPI_SUCCESS)
        *number = MPI_KEYVAL_INVALID;
    return code;
}

struct owner owner_comm(struct MPI_ABI_Comm *comm) {
    return (struct owner){.list = &comm->attributes, .comm = comm_handle(comm)};
}

struct owner owner_type(struct MPI_ABI_Datatype *type) {
    return (struct owner){.list = &type->attributes, .type = type_handle(type)};
}

int owner_find_comm(struct form *form, MPI_Comm handle, struct owner *ret_owner) {
    struct MPI_ABI_Comm *comm;
    const int code = comm_find(form, handle, &comm);
    if (code == MPI_SUCCESS)
        *ret_owner = owner_comm(comm);
    return code;
}

int owner_find_type(struct form *form, MPI_Datatype handle, struct owner *ret_owner) {
    struct MPI_ABI_Datatype *type;
    const int code = type_find(form, handle, &type);
    if (code == MPI_SUCCESS)
        *ret_owner = owner_type(type);
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

/* Takes the attribute with this key (0: the first one) out of the list, so that no other thread
 * deletes it too. */
static struct attribute *take(const struct owner *owner, int number) {
    pthread_mutex_lock(&lock);
    struct attribute **place = number ? find_attribute(owner, number) : owner->list;
    struct attribute *taken = *place;
    if (taken)
        *place = taken->next;
    pthread_mutex_unlock(&lock);
    return taken;
}

/* Adds an attribute, unless there is one with its key. */
static bool add(const struct owner *owner, struct attribute *attribute) {
    pthread_mutex_lock(&lock);
    const bool is_new = !*find_attribute(owner, attribute->key);
    if (is_new) {
        keys[attribute->key - FIRST_KEY].users++;
        attribute->next = *owner->list;
        *owner->list = attribute;
    }
    pthread_mutex_unlock(&lock);
    return is_new;
}

/* Calls the delete function of an attribute that was taken out, which stays if that fails. */
static int delete_one(const struct owner *owner, struct attribute *taken) {
    pthread_mutex_lock(&lock);
    const struct key key = keys[taken->key - FIRST_KEY];
    pthread_mutex_unlock(&lock);
    const int number = taken->key;
    int code = MPI_SUCCESS;
    if (IS_FUNCTION(key.delete.comm))
        code = key.is_of_types ? key.delete.type(owner->type, number, taken->value, key.extra)
                               : key.delete.comm(owner->comm, number, taken->value, key.extra);
    if (code == MPI_SUCCESS || !add(owner, taken))
        free(taken);
    key_unuse(number);
    return code;
}

/* Deletes the attribute with a key, if there is one. */
static int delete_attribute(struct form *form, const struct owner *owner, int number,
                            enum purpose purpose) {
    const int code = find_key(form, number, purpose, owner->type != NULL);
    struct attribute *taken = code == MPI_SUCCESS ? take(owner, number) : NULL;
    return taken ? delete_one(owner, taken) : code;
}

int face_delete_attr(struct form *form, struct owner owner, int number) {
    return delete_attribute(form, &owner, number, PURPOSE_OTHER);
}

/* Replaces the value of a key in use. */
static int replace(struct form *form, const struct owner *owner, int number, void *value) {
    struct attribute *made = malloc(sizeof *made), *taken;
    int code = MPI_SUCCESS;
    if (!made)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for an attribute");
    *made = (struct attribute){NULL, number, value};
    while (code == MPI_SUCCESS && !add(owner, made)) {
        taken = take(owner, number);
        code = taken ? delete_one(owner, taken) : MPI_SUCCESS;
    }
    if (code != MPI_SUCCESS)
        free(made);
    return code;
}

int face_set_attr(struct form *form, struct owner owner, int number, void *value) {
    const int code = delete_attribute(form, &owner, number, PURPOSE_SET);
    return code == MPI_SUCCESS ? replace(form, &owner, number, value) : code;
}

static int *predefined_value(int key) {
    static int tag_ub = INT_MAX, io = MPI_ANY_SOURCE, host = MPI_PROC_NULL, is_global = 0;
    return key == MPI_TAG_UB            ? &tag_ub
           : key == MPI_IO              ? &io
           : key == MPI_HOST            ? &host
           : key == MPI_WTIME_IS_GLOBAL ? &is_global
           : key == MPI_LASTUSEDCODE    ? error_last_code()
                                        : NULL;
}

int face_get_attr(struct form *form, struct owner owner, int number, void *ret_value,
                  int *ret_flag) {
    void *value = owner.comm ? predefined_value(number) : NULL;
    const bool is_predefined_key = owner.comm && number > 0 && number < FIRST_KEY;
    const int code =
        is_predefined_key ? MPI_SUCCESS : find_key(form, number, PURPOSE_OTHER, owner.type != NULL);
    if (code != MPI_SUCCESS)
        return code;
    pthread_mutex_lock(&lock);
    const struct attribute *found = *find_attribute(&owner, number);
    if (found)
        value = found->value;
    *ret_flag = found || value;
    pthread_mutex_unlock(&lock);
    if (*ret_flag)
        memcpy(ret_value, &value, sizeof value);
    return MPI_SUCCESS;
}

/* Copies attribute `i` of the list and its key, which gets a user. */
static bool look_at(struct owner owner, size_t i, struct attribute *ret_copy, struct key *ret_key) {
    pthread_mutex_lock(&lock);
    const struct attribute *found = *owner.list;
    while (found && i-- > 0)
        found = found->next;
    if (found) {
        *ret_copy = *found;
        *ret_key = keys[found->key - FIRST_KEY];
        keys[found->key - FIRST_KEY].users++;
    }
    pthread_mutex_unlock(&lock);
    return found != NULL;
}

int attributes_copy(struct form *form, struct owner from, struct owner to) {
    int code = MPI_SUCCESS;
    struct attribute found;
    struct key key;
    for (size_t i = 0; code == MPI_SUCCESS && look_at(from, i, &found, &key); i++) {
        void *value = found.value;
        int flag = key.copy.comm == MPI_COMM_DUP_FN, number = found.key;
        if (IS_FUNCTION(key.copy.comm))
            code = key.is_of_types
                       ? key.copy.type(from.type, number, key.extra, found.value, &value, &flag)
                       : key.copy.comm(from.comm, number, key.extra, found.value, &value, &flag);
        if (code == MPI_SUCCESS && flag)
            code = replace(form, &to, found.key, value);
        key_unuse(found.key);
    }
    return code;
}

int attributes_delete(struct owner owner) {
    int code = MPI_SUCCESS;
    struct attribute *taken;
    while (code == MPI_SUCCESS && (taken = take(&owner, 0)))
        code = delete_one(&owner, taken);
    return code;
}
