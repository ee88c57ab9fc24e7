/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Info: lists of keys and values. No key changes what the library does, so communicators keep
 * none: MPI_Comm_get_info returns an empty one. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "faces.h"

struct pair {
    struct pair *next;
    char key[MPI_MAX_INFO_KEY], value[MPI_MAX_INFO_VAL];
};
struct MPI_ABI_Info {
    struct pair *pairs; /* in the order in which the keys were set */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the pairs of all infos */
static struct MPI_ABI_Info environment; /* MPI_INFO_ENV, empty: nothing started this process */

int info_find(struct form *form, MPI_Info handle, struct MPI_ABI_Info **ret_info) {
    *ret_info = handle == MPI_INFO_ENV ? &environment : handle;
    if (!is_predefined(handle) || handle == MPI_INFO_ENV)
        return MPI_SUCCESS;
    return form_error(form, MPI_ERR_INFO, "info is %s",
                      handle == MPI_INFO_NULL ? "MPI_INFO_NULL" : "no info");
}

/* With the lock: the place of a key's pair, or the end of the list. */
static struct pair **find_pair(struct MPI_ABI_Info *info, const char *key) {
    struct pair **place = &info->pairs;
    while (*place && strcmp((*place)->key, key) != 0)
        place = &(*place)->next;
    return place;
}

static int check_text(struct form *form, const char *text, size_t cap, const char *what,
                      int class) {
    const size_t length = text ? strlen(text) : 0;
    if (length < cap && (length > 0 || class != MPI_ERR_INFO_KEY))
        return MPI_SUCCESS;
    return form_error(form, class, "%s has %zu bytes, but may have up to %zu", what, length,
                      cap - 1);
}

static int check_key(struct form *form, const char *key) {
    return check_text(form, key, MPI_MAX_INFO_KEY, "the key", MPI_ERR_INFO_KEY);
}

int face_Info_create(struct form *form, MPI_Info *ret_info) {
    *ret_info = calloc(1, sizeof **ret_info);
    return *ret_info ? MPI_SUCCESS : form_error(form, MPI_ERR_NO_MEM, "no memory for an info");
}

int face_Info_free(struct form *form, MPI_Info *handle) {
    struct MPI_ABI_Info *info;
    int code = info_find(form, *handle, &info);
    if (code == MPI_SUCCESS && is_predefined(*handle))
        code = form_error(form, MPI_ERR_INFO, "MPI_INFO_ENV cannot be freed");
    if (code != MPI_SUCCESS)
        return code;
    while (info->pairs) {
        struct pair *pair = info->pairs;
        info->pairs = pair->next;
        free(pair);
    }
    free(info);
    *handle = MPI_INFO_NULL;
    return MPI_SUCCESS;
}

/* With the lock. false: no memory. */
static bool set_pair(struct MPI_ABI_Info *info, const char *key, const char *value) {
    struct pair **place = find_pair(info, key);
    if (!*place)
        *place = calloc(1, sizeof **place);
    if (!*place)
        return false;
    snprintf((*place)->key, sizeof(*place)->key, "%s", key);
    snprintf((*place)->value, sizeof(*place)->value, "%s", value);
    return true;
}

int face_Info_set(struct form *form, struct MPI_ABI_Info *info, const char *key,
                  const char *value) {
    int code = check_key(form, key);
    if (code == MPI_SUCCESS)
        code = check_text(form, value, MPI_MAX_INFO_VAL, "the value", MPI_ERR_INFO_VALUE);
    if (code == MPI_SUCCESS && info == &environment)
        code = form_error(form, MPI_ERR_INFO, "MPI_INFO_ENV cannot be changed");
    if (code != MPI_SUCCESS)
        return code;
    pthread_mutex_lock(&lock);
    const bool is_set = set_pair(info, key, value);
    pthread_mutex_unlock(&lock);
    return is_set ? MPI_SUCCESS : form_error(form, MPI_ERR_NO_MEM, "no memory for a key");
}

int face_Info_delete(struct form *form, struct MPI_ABI_Info *info, const char *key) {
    const int code = check_key(form, key);
    if (code != MPI_SUCCESS)
        return code;
    pthread_mutex_lock(&lock);
    struct pair **place = find_pair(info, key), *pair = *place;
    if (pair)
        *place = pair->next;
    pthread_mutex_unlock(&lock);
    free(pair);
    return pair ? MPI_SUCCESS : form_error(form, MPI_ERR_INFO_NOKEY, "there is no key \"%s\"", key);
}

int face_Info_dup(struct form *form, struct MPI_ABI_Info *info, MPI_Info *ret_info) {
    const int code = face_Info_create(form, ret_info);
    if (code != MPI_SUCCESS)
        return code;
    bool is_copied = true;
    pthread_mutex_lock(&lock);
    for (const struct pair *pair = info->pairs; pair && is_copied; pair = pair->next)
        is_copied = set_pair(*ret_info, pair->key, pair->value);
    pthread_mutex_unlock(&lock);
    if (is_copied)
        return MPI_SUCCESS;
    (void)face_Info_free(form, ret_info);
    return form_error(form, MPI_ERR_NO_MEM, "no memory for a key");
}

int face_Info_get_nkeys(struct form *form, struct MPI_ABI_Info *info, int *ret_count) {
    *ret_count = 0;
    pthread_mutex_lock(&lock);
    for (const struct pair *pair = info->pairs; pair; pair = pair->next)
        (*ret_count)++;
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

int face_Info_get_nthkey(struct form *form, struct MPI_ABI_Info *info, int n, char *key) {
    pthread_mutex_lock(&lock);
    const struct pair *pair = n < 0 ? NULL : info->pairs;
    for (int i = 0; pair && i < n; i++)
        pair = pair->next;
    if (pair)
        memcpy(key, pair->key, strlen(pair->key) + 1);
    pthread_mutex_unlock(&lock);
    return pair ? MPI_SUCCESS : form_error(form, MPI_ERR_ARG, "there is no key %d", n);
}

/* *length is the room of `value` with the NUL, and then the bytes that the value needs. */
int face_Info_get_string(struct form *form, struct MPI_ABI_Info *info, const char *key, int *length,
                         char *value, int *ret_flag) {
    const int code = check_key(form, key);
    *ret_flag = 0;
    if (code != MPI_SUCCESS)
        return code;
    pthread_mutex_lock(&lock);
    const struct pair *pair = *find_pair(info, key);
    if (pair && *length > 0)
        snprintf(value, (size_t)*length, "%s", pair->value);
    if (pair)
        *length = (int)strlen(pair->value) + 1;
    *ret_flag = pair != NULL;
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

int face_Info_get(struct form *form, struct MPI_ABI_Info *info, const char *key, int length,
                  char *value, int *ret_flag) {
    int room = length + 1;
    return face_Info_get_string(form, info, key, &room, value, ret_flag);
}

int face_Info_get_valuelen(struct form *form, struct MPI_ABI_Info *info, const char *key,
                           int *ret_length, int *ret_flag) {
    int length = 0;
    const int code = face_Info_get_string(form, info, key, &length, NULL, ret_flag);
    if (*ret_flag)
        *ret_length = length - 1;
    return code;
}

bool info_has(MPI_Info handle, const char *key, const char *value) {
    if (is_predefined(handle))
        return false;
    pthread_mutex_lock(&lock);
    const struct pair *pair = *find_pair(handle, key);
    const bool has = pair && strcmp(pair->value, value) == 0;
    pthread_mutex_unlock(&lock);
    return has;
}

int face_Abi_get_info(struct form *form, MPI_Info *ret_info) {
    static const char *const keys[] = {"mpi_aint_size", "mpi_count_size", "mpi_offset_size"};
    const size_t sizes[] = {sizeof(MPI_Aint), sizeof(MPI_Count), sizeof(MPI_Offset)};
    int code = face_Info_create(form, ret_info);
    for (int i = 0; i < 3 && code == MPI_SUCCESS; i++) {
        char value[8];
        snprintf(value, sizeof value, "%zu", sizes[i]);
        code = face_Info_set(form, *ret_info, keys[i], value);
    }
    return code;
}
