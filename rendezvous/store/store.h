/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract between store.c, which implements the public rcm_store_ functions, and the kinds of
 * store: hash, file, tcp, prefix. A new kind is one file that ends in its table, and one row in
 * rcmi_store_open.
 *
 * store.c has checked every argument before a slot is called (pointers, sizes, the process), so
 * slots need not. Slots may be called by several threads at once; each kind locks for itself.
 * Outputs are set only on success. A slot that fails has set the thread's error, unless it
 * returns RCM_PENDING or RCM_ERR_NOT_FOUND, whose sentence store.c writes.
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

#define RCMI_STORE_KEY_MAX    8192              /* bytes of a key, prefixes included */
#define RCMI_STORE_VALUE_MAX  (8 * 1024 * 1024) /* bytes of a value */
#define RCMI_STORE_TIMEOUT_MS 30000             /* opening; calls without a timeout of their own */

struct rcmi_store_ops {
    const char *name;

    /* Sets the value, so that every later call of anybody sees it; wakes waiters. */
    rcm_status (*set)(rcm_store *store, struct rcmi_bytes key, struct rcmi_bytes value);

    /* The same for n > 0 keys, in order; not atomic. */
    rcm_status (*multi_set)(rcm_store *store, const struct rcmi_bytes *keys,
                            const struct rcmi_bytes *values, size_t n);

    /* The value now, a fresh blob; RCM_ERR_NOT_FOUND if there is none. Does not wait for keys. */
    rcm_status (*try_get)(rcm_store *store, struct rcmi_bytes key, struct rcm_blob *ret_value);

    /* Waits until all n > 0 keys exist; RCM_PENDING if they do not when the deadline passes.
     * Looks at least once. Other calls on the same store go on meanwhile. */
    rcm_status (*wait)(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                       rcmi_deadline deadline);

    /* wait, then the n values as fresh blobs; on failure nothing is left allocated. */
    rcm_status (*multi_get)(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                            rcmi_deadline deadline, struct rcm_blob *ret_values);

    /* Which of n > 0 keys exist now. */
    rcm_status (*present)(rcm_store *store, const struct rcmi_bytes *keys, size_t n,
                          bool *ret_present);

    /* Atomic; the value is kept as decimal text. RCM_ERR_INVALID if it is no integer or the sum
     * does not fit. Wakes waiters. */
    rcm_status (*add)(rcm_store *store, struct rcmi_bytes key, int64_t delta, int64_t *ret_value);

    /* Atomic; see rcm_store_compare_set. *ret_value is a fresh blob. Wakes waiters. */
    rcm_status (*compare_set)(rcm_store *store, struct rcmi_bytes key, struct rcmi_bytes expected,
                              struct rcmi_bytes desired, bool *ret_swapped,
                              struct rcm_blob *ret_value);

    /* Truthful: *ret_deleted says whether the key existed. */
    rcm_status (*remove)(rcm_store *store, struct rcmi_bytes key, bool *ret_deleted);

    /* Keys that users set; what the store itself keeps is not counted. */
    rcm_status (*count)(rcm_store *store, size_t *ret_count);

    /* RCM_ERR_INVALID if the value would become longer than RCMI_STORE_VALUE_MAX. */
    rcm_status (*append)(rcm_store *store, struct rcmi_bytes key, struct rcmi_bytes value);

    /* Frees what the kind owns, not the rcm_store. `forked`: this is a child of the process that
     * opened it, so threads are not there and what is shared with the parent must be left. */
    void (*close)(rcm_store *store, bool forked);
};

/* The first member of every kind's own struct. */
struct rcm_store {
    const struct rcmi_store_ops *ops;
    char *url;           /* what rcm_store_url returns; malloc'd */
    pid_t pid;           /* of the process that opened it */
    uint32_t generation; /* of it: base/fork.h */
    bool keep;           /* see rcmi_store_keep */
    bool linger;         /* see rcmi_store_linger */
    /* Of who opened it; is called before it is closed. NULL: no call. */
    void (*closing)(const rcm_store *store);
};

/* zeroed memory of `size` bytes with its rcm_store filled in; NULL without memory (error set). */
void *rcmi_store_alloc(size_t size, const struct rcmi_store_ops *ops, const char *url);

/* The rows. */
struct rcmi_url;
rcm_status rcmi_hash_open(const struct rcmi_url *url, rcm_store **ret_store);
rcm_status rcmi_file_open(const struct rcmi_url *url, rcmi_deadline deadline,
                          rcm_store **ret_store);
rcm_status rcmi_tcp_open(const struct rcmi_url *url, const char *secret, rcmi_deadline deadline,
                         rcm_store **ret_store);
rcm_status rcmi_prefix_open(rcm_store *inner, const char *prefix, rcm_store **ret_store);

/* ---- What the kinds share ------------------------------------------------------------------ */

/* Of calls without a timeout of their own; see rcmi_store_patience. */
rcmi_deadline rcmi_call_deadline(void);

/* One call of a store that has ended is counted in the thread's budget. */
void rcmi_store_counted(const char *name, int64_t began);

/* Around a function of the program's: begin fails after the deadline of the thread's budget.
 * Meanwhile the thread has no budget: the program's function may use stores. */
struct rcmi_store_call {
    const char *name;
    int64_t began;
    struct rcmi_store_budget *budget;
};
rcm_status rcmi_store_call_begin(const char *name, struct rcmi_store_call *ret_call);
void rcmi_store_call_end(const struct rcmi_store_call *call);

/* A fresh blob with a NUL behind it. */
rcm_status rcmi_blob_copy(struct rcmi_bytes bytes, struct rcm_blob *ret_blob);
void rcmi_blobs_free(struct rcm_blob *blobs, size_t n);

/* old value (NULL: missing, counts as 0) + delta, as number and as text. RCM_ERR_INVALID with
 * the key in its sentence if it is no integer or the sum does not fit. */
#define RCMI_INT_TEXT 24
rcm_status rcmi_add_text(struct rcmi_bytes key, const struct rcmi_entry *old, int64_t delta,
                         int64_t *ret_value, char ret_text[RCMI_INT_TEXT]);

static inline struct rcmi_bytes rcmi_entry_value(const struct rcmi_entry *entry) {
    return (struct rcmi_bytes){entry->value, entry->value_len};
}

bool rcmi_bytes_equal(struct rcmi_bytes a, struct rcmi_bytes b);

/* What compare_set does with the entry there is (NULL: none). */
enum rcmi_compare { RCMI_COMPARE_SET, RCMI_COMPARE_KEEP, RCMI_COMPARE_MISSING };
enum rcmi_compare rcmi_compare(const struct rcmi_entry *entry, struct rcmi_bytes expected);

rcm_status rcmi_append_check(struct rcmi_bytes key, const struct rcmi_entry *old, size_t len);

/* RINGCOMM_WARN_AFTER in milliseconds, 0: never. A value that is none counts as the default:
 * rcm_init complains of it. */
int64_t rcmi_store_warn_ms(void);

#endif
