/* SPDX-License-Identifier: BSD-3-Clause */
/* Names and texts of statuses, types and operators, all from the X-macros of ringcomm.h. */
#include "ringcomm.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "error.h"
#include "operator.h"

#define STRING_OF(x) #x
#define STRING(x)    STRING_OF(x)

const char *rcm_version(void) {
    return STRING(RCM_VERSION_MAJOR) "." STRING(RCM_VERSION_MINOR) "." STRING(RCM_VERSION_PATCH);
}

const char *rcm_status_name(rcm_status status) {
    switch (status) {
#define STATUS_NAME(name, number, text)                                                            \
    case RCM_##name:                                                                               \
        return "RCM_" #name;
        RCM_STATUS_MAP(STATUS_NAME)
    }
    return "RCM_?";
}

const char *rcm_status_text(rcm_status status) {
    switch (status) {
#define STATUS_TEXT(name, number, text)                                                            \
    case RCM_##name:                                                                               \
        return text;
        RCM_STATUS_MAP(STATUS_TEXT)
    }
    return "unknown status";
}

struct named_number {
    int number;
    char name[16]; /* the longest type has 13 letters */
};

/* The X-macros give names in capitals; names_lower converts them once. */
static struct named_number dtypes[] = {
#define DTYPE_ROW(name, number, bytes, ctype) {number, #name},
    RCM_DTYPE_MAP(DTYPE_ROW)};

static struct named_number ops[] = {
#define OP_ROW(name, number) {number, #name},
    RCM_OP_MAP(OP_ROW)};

#define DTYPE_CHECK(name, number, bytes, ctype)                                                    \
    _Static_assert(sizeof(ctype) == (bytes), "size of " #name);
RCM_DTYPE_MAP(DTYPE_CHECK)

enum { NDTYPES = sizeof dtypes / sizeof dtypes[0], NOPS = sizeof ops / sizeof ops[0] };

static pthread_once_t lower_once = PTHREAD_ONCE_INIT;

static void names_lower_table(struct named_number *table, int rows) {
    for (int i = 0; i < rows; i++)
        for (char *c = table[i].name; *c; c++)
            *c = (char)tolower((unsigned char)*c);
}

static void names_lower(void) {
    names_lower_table(dtypes, NDTYPES);
    names_lower_table(ops, NOPS);
}

static const char *name_find(const struct named_number *table, int rows, int number) {
    pthread_once(&lower_once, names_lower);
    for (int i = 0; i < rows; i++)
        if (table[i].number == number)
            return table[i].name;
    return "?";
}

static const struct named_number *number_find(const struct named_number *table, int rows,
                                              const char *name) {
    pthread_once(&lower_once, names_lower);
    for (int i = 0; name && i < rows; i++)
        if (strcasecmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

/* ---- Opaque types ---------------------------------------------------------------------------- */

#define OPAQUE_NAME "opaque"
enum { OPAQUE_NAMES = 4, OPAQUE_NAME_BYTES = 16 };

/* 0: not an opaque type. */
static size_t opaque_size(rcm_dtype dtype) {
    const size_t bytes = (size_t)dtype - RCM_OPAQUE;
    return dtype > RCM_OPAQUE && bytes <= RCM_OPAQUE_MAX ? bytes : 0;
}

static const char *opaque_name(size_t bytes) {
    static _Thread_local char names[OPAQUE_NAMES][OPAQUE_NAME_BYTES];
    static _Thread_local unsigned next;
    char *name = names[next++ % OPAQUE_NAMES];
    snprintf(name, OPAQUE_NAME_BYTES, OPAQUE_NAME "%zu", bytes);
    return name;
}

rcm_status rcm_dtype_opaque(size_t bytes, rcm_dtype *ret_dtype) {
    if (!ret_dtype)
        return rcmi_fail(RCM_ERR_INVALID, 0, "ret_dtype is NULL");
    if (bytes < 1 || bytes > RCM_OPAQUE_MAX)
        return rcmi_fail(RCM_ERR_INVALID, 0, "bytes is %zu: an opaque element has 1 to %d", bytes,
                         RCM_OPAQUE_MAX);
    *ret_dtype = (rcm_dtype)(RCM_OPAQUE + bytes);
    return RCM_OK;
}

/* The inverse of opaque_name; 0: not an opaque name. */
static size_t opaque_parse(const char *name) {
    const size_t head = strlen(OPAQUE_NAME);
    size_t bytes = 0;
    if (!name || strncasecmp(name, OPAQUE_NAME, head) != 0 || name[head] == '0')
        return 0;
    for (const char *c = name + head; *c; c++) {
        if (*c < '0' || *c > '9' || bytes > RCM_OPAQUE_MAX)
            return 0;
        bytes = bytes * 10 + (size_t)(*c - '0');
    }
    return bytes;
}

/* ---- Types and operators --------------------------------------------------------------------- */

size_t rcm_dtype_size(rcm_dtype dtype) {
    switch (dtype) {
#define DTYPE_SIZE(name, number, bytes, ctype)                                                     \
    case RCM_##name:                                                                               \
        return bytes;
        RCM_DTYPE_MAP(DTYPE_SIZE)
    default:
        return opaque_size(dtype);
    }
}

const char *rcm_dtype_name(rcm_dtype dtype) {
    const size_t opaque = opaque_size(dtype);
    return opaque > 0 ? opaque_name(opaque) : name_find(dtypes, NDTYPES, (int)dtype);
}

const char *rcm_op_name(rcm_op op) {
    const struct rcmi_operator *created = rcmi_operator_of(op);
    return created ? created->identity.name : name_find(ops, NOPS, (int)op);
}

rcm_status rcm_dtype_from_name(const char *name, rcm_dtype *ret_dtype) {
    const struct named_number *row = number_find(dtypes, NDTYPES, name);
    if (!name || !ret_dtype)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL", name ? "ret_dtype" : "name");
    if (!row && opaque_parse(name) > 0)
        return rcm_dtype_opaque(opaque_parse(name), ret_dtype);
    if (!row)
        return rcmi_fail(RCM_ERR_INVALID, 0, "'%s' is not a type", name);
    *ret_dtype = (rcm_dtype)row->number;
    return RCM_OK;
}

rcm_status rcm_op_from_name(const char *name, rcm_op *ret_op) {
    const struct named_number *row = number_find(ops, NOPS, name);
    if (!name || !ret_op)
        return rcmi_fail(RCM_ERR_INVALID, 0, "%s is NULL", name ? "ret_op" : "name");
    if (!row)
        return rcmi_fail(RCM_ERR_INVALID, 0, "'%s' is not an operator", name);
    *ret_op = (rcm_op)row->number;
    return RCM_OK;
}
