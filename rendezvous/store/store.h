/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract between store.c, which implements the public rcm_store_ functions, and the kinds of
 * store: hash, file, tcp, prefix, custom. A new kind is one file that ends in its function table,
 * and one case in rcmi_store_open.
 *
 * store.c checks all arguments (pointers, sizes, the process) before it calls a slot. Several
 * threads may call slots at the same time; each kind does its own locking. Outputs are set only on
 * success. A slot that fails sets the thread's error, except for RCM_PENDING and RCM_ERR_NOT_FOUND:
 * store.c writes their error text.
 */
#ifndef RCMI_STORE_H
#define RCMI_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "ringcomm.h"
#include "clock.h"
#include "map.h"

#define RCMI_STORE_KEY_MAX    8192              /* bytes of a key, with its prefixes */
#define RCMI_STORE_VALUE_MAX  (8 * 1024 * 1024) /* bytes of a value */
#define RCMI_STORE_TIMEOUT_MS 30000             /* for opening and calls without a timeout */

struct rcmi_store_ops {
    const char *name;

    /* Sets the value. All later calls of all processes see it. Wakes waiters. */
    rcm_status (*set)(rcm_store *store, struct rcmi_bytes key, struct rcmi_bytes value);

    /* The same for n > 0 keys, in order; not atomic. */
    rcm_status (*multi_set)(rcm_store *store, const struct rcmi_bytes *keys,
                            const struct rcmi_bytes *values, size_t n);

    /* Returns the current value as a new blob; RCM_ERR_NOT_FOUND if the key is missing. Does not
     * wait. */
    rcm_status (*try_get)(rcm_store *store, struct rcmi_bytes key, struct rcm_blob *ret_value);

    /* Waits until all n > 0 keys exist; RCM_PENDING if the deadline passes first. Checks at least
     * once. Does not block other calls on the same store. */
    rcm_status (*wait)(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                       rcmi_deadline deadline);

    /* wait, then returns the n values as new blobs; on failure nothing is left allocated. */
    rcm_status (*multi_get)(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                            rcmi_deadline deadline, struct rcm_blob *ret_values);

    /* Which of n > 0 keys exist now. */
    rcm_status (*present)(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                          bool *ret_present);

    /* Atomic; the value is decimal text. RCM_ERR_INVALID if it is not an integer or the sum exceeds
     * 64 bits. Wakes waiters. */
    rcm_status (*add)(rcm_store *store, struct rcmi_bytes key, int64_t delta, int64_t *ret_value);

    /* Atomic; see rcm_store_compare_set. *ret_value is a new blob. Wakes waiters. */
    rcm_status (*compare_set)(rcm_store *store, struct rcmi_bytes key, struct rcmi_bytes expected,
                              struct rcmi_bytes desired, bool *ret_swapped,
                              struct rcm_blob *ret_value);

    /* *ret_deleted: the key existed. */
    rcm_status (*remove)(rcm_store *store, struct rcmi_bytes key, bool *ret_deleted);

    /* The number of keys set by users; the store's internal keys are not counted. */
    rcm_status (*count)(rcm_store *store, size_t *ret_count);

    /* Atomic; creates the key if it does not exist; wakes waiters. RCM_ERR_INVALID if the value
     * would become longer than RCMI_STORE_VALUE_MAX. */
    rcm_status (*append)(rcm_store *store, struct rcmi_bytes key, struct rcmi_bytes value);

    /* Frees what the kind owns, but not the rcm_store. `forked`: this is a child of the process
     * that opened it. Then its threads do not exist, and state shared with the parent must stay. */
    void (*close)(rcm_store *store, bool forked);
};

/* The first member of every kind's own struct. */
struct rcm_store {
    const struct rcmi_store_ops *ops;
    char *url;           /* what rcm_store_url returns; malloc'd */
    pid_t pid;           /* of the process that opened it */
    uint32_t generation; /* of that process: base/fork.h */
    bool keep;           /* see rcmi_store_keep */
    bool linger;         /* see rcmi_store_linger */
    /* The opener's callback, called before the store is closed. NULL: none. */
    void (*closing)(const rcm_store *store);
};

/* Zeroed memory of `size` bytes with its rcm_store filled in; NULL if out of memory (error set). */
void *rcmi_store_alloc(size_t size, const struct rcmi_store_ops *ops, const char *url);

/* Open a store of each kind. */
struct rcmi_url;
rcm_status rcmi_hash_open(const struct rcmi_url *url, rcm_store **ret_store);
rcm_status rcmi_file_open(const struct rcmi_url *url, rcmi_deadline deadline,
                          rcm_store **ret_store);
rcm_status rcmi_tcp_open(const struct rcmi_url *url, const char *secret, rcmi_deadline deadline,
                         rcm_store **ret_store);
rcm_status rcmi_prefix_open(rcm_store *inner, const char *prefix, rcm_store **ret_store);

/* ---- Shared by the kinds ------------------------------------------------------------------- */

/* The deadline of calls without a timeout argument; see rcmi_store_patience. */
rcmi_deadline rcmi_call_deadline(void);

/* A thread in rcm_init has a budget: the time until its deadline, and the store calls that used it,
 * so that an error can name a slow store (store_budget.h). Adds a finished call. */
void rcmi_store_counted(const char *name, int64_t began);

/* Brackets a call of one of the program's functions. begin fails after the deadline of the thread's
 * budget. Between begin and end calls are not counted, because the program's function may use
 * stores itself. */
struct rcmi_store_call {
    const char *name;
    int64_t began;
    struct rcmi_store_budget *budget;
};
rcm_status rcmi_store_call_begin(const char *name, struct rcmi_store_call *ret_call);
void rcmi_store_call_end(const struct rcmi_store_call *call);

/* A new blob, with a NUL after its data. */
rcm_status rcmi_blob_copy(struct rcmi_bytes bytes, struct rcm_blob *ret_blob);
void rcmi_blobs_free(struct rcm_blob *blobs, size_t n);

/* old value (NULL: missing, counts as 0) + delta, as number and as text. RCM_ERR_INVALID, naming
 * the key, if it is not an integer or the sum exceeds 64 bits. */
#define RCMI_INT_TEXT 24
rcm_status rcmi_add_text(struct rcmi_bytes key, const struct rcmi_entry *old, int64_t delta,
                         int64_t *ret_value, char ret_text[RCMI_INT_TEXT]);

static inline struct rcmi_bytes rcmi_entry_value(const struct rcmi_entry *entry) {
    return (struct rcmi_bytes){entry->value, entry->value_len};
}

bool rcmi_bytes_equal(struct rcmi_bytes a, struct rcmi_bytes b);

/* What compare_set does with the existing entry (NULL: none). */
enum rcmi_compare { RCMI_COMPARE_SET, RCMI_COMPARE_KEEP, RCMI_COMPARE_MISSING };
enum rcmi_compare rcmi_compare(const struct rcmi_entry *entry, struct rcmi_bytes expected);

rcm_status rcmi_append_check(struct rcmi_bytes key, const struct rcmi_entry *old, size_t len);

/* RINGCOMM_WARN_AFTER in milliseconds, 0: never. An invalid value counts as the default; rcm_init
 * reports it. */
int64_t rcmi_store_warn_ms(void);

#endif
