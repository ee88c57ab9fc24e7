/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks share memory: agreed by all ranks before plans are made, because plans rely on it
 * within a host. See exchange.h.
 *
 *   1. Ranks of one host identity prove in pairs, both ways, that they can share memory
 *   (transport/net/sharing.c): each with all others or, with more than EACH_MAX ranks, with the
 *   lowest.
 *   2. Each publishes its result: a letter for each rank of its identity, and a sentence for
 *   people.
 *   3. From these all ranks compute the same sets. In rank order, each joins the first set with all
 *   of whose ranks it shares memory, or else begins a new set.
 *
 * Proofs with the lowest rank only assume that sharing is transitive. If one of them fails, it may
 * not be, and all steps are repeated with proofs of all pairs. No link is made, and ranks wait only
 * for the store. If no two ranks have one identity, there is nothing to do.
 */
#include "exchange.h"
#include "log.h"
#include "members.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EACH_MAX 16
#define WHY_MAX  400

enum { PROVED = '+', FAILED = '-', UNTRIED = '.' };

struct sharing {
    const struct rcmi_exchange_config *x;
    const struct rcmi_address_book *book;
    int rank, n;
    bool each;        /* proofs of all pairs */
    int *head;        /* by rank: the lowest of its identity */
    int *next;        /* ... the next of its identity, -1 */
    int *number;      /* ... its position among them */
    bool *has;        /* ... whether it has shared memory at all */
    int *size;        /* by head: ranks of the identity */
    int *lowest;      /* ... the lowest that has shared memory, -1 */
    char **row;       /* by rank: what it published, `size` letters and a sentence, or "" */
    const char **why; /* ... that sentence; NULL */
    int *set;         /* the result, by rank: the lowest of its set */
};

/* ---- Identities ------------------------------------------------------------------------------ */

static rcm_status sharing_init(struct sharing *s) {
    const size_t n = (size_t)s->n;
    s->head = calloc(n, sizeof(*s->head));
    s->next = calloc(n, sizeof(*s->next));
    s->number = calloc(n, sizeof(*s->number));
    s->has = calloc(n, sizeof(*s->has));
    s->size = calloc(n, sizeof(*s->size));
    s->lowest = calloc(n, sizeof(*s->lowest));
    s->row = calloc(n, sizeof(*s->row));
    s->why = calloc(n, sizeof(*s->why));
    s->set = calloc(n, sizeof(*s->set));
    if (s->head && s->next && s->number && s->has && s->size && s->lowest && s->row && s->why &&
        s->set)
        return RCM_OK;
    return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", s->n);
}

static void rows_free(struct sharing *s) {
    for (int r = 0; s->row && r < s->n; r++) {
        free(s->row[r]);
        s->row[r] = NULL;
    }
}

static void sharing_fini(struct sharing *s) {
    rows_free(s);
    free(s->head);
    free(s->next);
    free(s->number);
    free(s->has);
    free(s->size);
    free(s->lowest);
    free(s->row);
    free((void *)s->why);
    free(s->set);
}

static rcm_status find_head(const struct sharing *s, int rank, int *ret_head) {
    const char *own, *other;
    rcm_status status = rcmi_book_host(s->book, rank, &own);
    for (int r = 0; status == RCM_OK && r < rank; r++) {
        if (s->head[r] != r)
            continue;
        status = rcmi_book_host(s->book, r, &other);
        if (status == RCM_OK && strcmp(own, other) == 0) {
            *ret_head = r;
            return RCM_OK;
        }
    }
    *ret_head = rank;
    return status;
}

static void identity_add(struct sharing *s, int *last, int rank) {
    const int head = s->head[rank];
    s->has[rank] = rcmi_book_memory(s->book, rank) != NULL;
    s->next[rank] = -1;
    if (head == rank)
        s->lowest[head] = -1;
    else
        s->next[last[head]] = rank;
    if (s->lowest[head] < 0 && s->has[rank])
        s->lowest[head] = rank;
    last[head] = rank;
    s->number[rank] = s->size[head]++;
}

/* *ret_any: whether some ranks have one identity. */
static rcm_status identities_find(struct sharing *s, bool *ret_any) {
    int *last = calloc((size_t)s->n, sizeof(*last)); /* by head: the last rank so far */
    rcm_status status = last ? RCM_OK : rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for ranks");
    *ret_any = false;
    for (int r = 0; status == RCM_OK && r < s->n; r++) {
        status = find_head(s, r, &s->head[r]);
        identity_add(s, last, r);
        s->set[r] = r;
        *ret_any = *ret_any || s->head[r] != r;
    }
    free(last);
    return status;
}

/* Whether both have one identity and shared memory, which is of one transport, because settings are
 * equal. */
static bool may_share(const struct sharing *s, int a, int b) {
    return s->head[a] == s->head[b] && s->has[a] && s->has[b];
}

static bool proves(const struct sharing *s, int a, int b) {
    const int head = s->head[a];
    return a != b && may_share(s, a, b) &&
           (s->each || s->size[head] <= EACH_MAX || a == s->lowest[head] || b == s->lowest[head]);
}

/* ---- Proofs ---------------------------------------------------------------------------------- */

/* Writes the first reason why this rank shares memory with fewer ranks than it might. */
static void explain(const struct sharing *s, int peer, char *why) {
    char who[128];
    const char *reason = peer < 0 ? rcmi_node_lacks(s->x->engine->node) : rcm_last_error();
    if (why[0])
        return;
    if (peer < 0)
        snprintf(why, WHY_MAX, "rank %d (user %u) shares no memory: %s", s->rank,
                 (unsigned)geteuid(), reason);
    else
        snprintf(why, WHY_MAX, "rank %d (user %u) shares no memory with %s: %s", s->rank,
                 (unsigned)geteuid(), rcmi_book_describe(s->book, peer, who), reason);
}

/* Makes the letters and the sentence. The caller frees it; NULL: no memory. */
static char *row_make(const struct sharing *s) {
    const size_t size = (size_t)s->size[s->head[s->rank]];
    char *row = calloc(1, size + WHY_MAX);
    if (!row)
        return NULL;
    memset(row, UNTRIED, size);
    if (!s->has[s->rank])
        explain(s, -1, row + size);
    for (int r = s->head[s->rank]; r >= 0; r = s->next[r]) {
        if (!proves(s, s->rank, r))
            continue;
        const bool proved = rcmi_node_prove(s->x->engine->node, r, s->x->deadline) == RCM_OK;
        row[s->number[r]] = proved ? PROVED : FAILED;
        if (!proved)
            explain(s, r, row + size);
    }
    return row;
}

/* ---- Sets ------------------------------------------------------------------------------------ */

static bool shares(const struct sharing *s, int a, int b) {
    const char there = s->row[a][s->number[b]], back = s->row[b][s->number[a]];
    return may_share(s, a, b) && there == back && there != FAILED;
}

static bool shares_with_all(const struct sharing *s, int rank, int set) {
    for (int r = set; r != rank; r = s->next[r])
        if (s->set[r] == set && !shares(s, rank, r))
            return false;
    return true;
}

static void sets_make(struct sharing *s) {
    for (int r = 0; r < s->n; r++) {
        s->set[r] = r;
        for (int set = s->head[r]; set != r && s->set[r] == r; set = s->next[set])
            if (s->set[set] == set && shares_with_all(s, r, set))
                s->set[r] = set;
    }
}

/* Whether a rank does not share memory with the lowest, and its sharing with others is unknown. */
static bool sets_are_unsure(const struct sharing *s) {
    for (int r = 0; r < s->n; r++) {
        const int head = s->head[r];
        if (s->size[head] > EACH_MAX && s->has[r] && s->set[r] != s->lowest[head])
            return true;
    }
    return false;
}

/* ---- Publishing ------------------------------------------------------------------------------ */

static rcm_status row_take(struct sharing *s, int r, const struct rcm_blob *blob) {
    const size_t size = (size_t)s->size[s->head[r]];
    if (blob->len < size || blob->len >= size + WHY_MAX)
        return rcmi_fail_origin(RCM_ERR_PROTOCOL, r,
                                "rank %d published %zu letters about %zu ranks", r, blob->len,
                                size);
    s->row[r] = calloc(1, blob->len + 1);
    if (!s->row[r])
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %zu bytes", blob->len + 1);
    memcpy(s->row[r], blob->data, blob->len);
    for (char *c = s->row[r] + size; *c; c++)
        *c = *c < ' ' || *c > '~' ? '?' : *c;
    s->why[r] = blob->len > size ? s->row[r] + size : NULL;
    return RCM_OK;
}

static rcm_status rows_exchange(struct sharing *s, const char *name) {
    struct rcm_blob *all = calloc((size_t)s->n, sizeof(*all));
    char *mine = row_make(s);
    rcm_status status = all && mine ? rcmi_engine_collect(s->x, name, mine, strlen(mine), all)
                                    : rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for %d ranks", s->n);
    for (int r = 0; all && r < s->n; r++) {
        if (status == RCM_OK)
            status = row_take(s, r, &all[r]);
        free(all[r].data);
    }
    free(all);
    free(mine);
    if (status == RCM_OK)
        sets_make(s);
    return status;
}

/* ---- Log ------------------------------------------------------------------------------------- */

/* Writes "0, 2", the ranks of a set, as many as fit. */
static void set_write(const struct sharing *s, int set, char *text, size_t cap) {
    size_t used = 0;
    text[0] = '\0';
    for (int r = set; r >= 0; r = s->next[r]) {
        if (s->set[r] != set)
            continue;
        if (cap - used < 24) {
            snprintf(text + used, cap - used, ", ...");
            return;
        }
        used += (size_t)snprintf(text + used, cap - used, "%s%d", used > 0 ? ", " : "", r);
    }
}

/* The first reason that a rank of the identity published. */
static const char *first_why(const struct sharing *s, int head) {
    for (int r = head; r >= 0; r = s->next[r])
        if (s->why[r])
            return s->why[r];
    return "proofs of two ranks differ";
}

/* One rank of the identity warns. */
static void identity_warn(const struct sharing *s, int head) {
    char first[80], others[200] = "", one[80];
    const char *id = "";
    size_t used = 0;
    (void)rcmi_book_host(s->book, head, &id);
    set_write(s, head, first, sizeof(first));
    for (int r = s->next[head]; r >= 0; r = s->next[r]) {
        if (s->set[r] != r)
            continue;
        set_write(s, r, one, sizeof(one));
        if (used < sizeof(others) - 1)
            used += (size_t)snprintf(others + used, sizeof(others) - used, " | %s", one);
    }
    if (used > 0)
        rcmi_log(s->rank == head ? RCMI_LOG_WARN : RCMI_LOG_INFO,
                 "ranks of host id %.64s share memory only in the sets %s%s, and are planned as "
                 "ranks of different hosts: %s",
                 id, first, others, first_why(s, head));
}

/* ---- Entry ----------------------------------------------------------------------------------- */

static rcm_status sharing_run(struct sharing *s, bool *ret_agreed) {
    bool any;
    rcm_status status = identities_find(s, &any);
    if (status == RCM_OK && any) {
        *ret_agreed = false; /* an error found now is not found by other ranks */
        status = rows_exchange(s, RCMI_EXCHANGE_SHARING);
        if (status == RCM_OK && sets_are_unsure(s)) {
            s->each = true;
            rows_free(s);
            status = rows_exchange(s, RCMI_EXCHANGE_SHARING_EACH);
        }
        *ret_agreed = status == RCM_OK;
    }
    if (status != RCM_OK)
        return status;
    identity_warn(s, s->head[s->rank]);
    return rcmi_node_set_sharing(s->x->engine->node, s->set);
}

rcm_status rcmi_engine_agree_sharing(const struct rcmi_exchange_config *x, bool *ret_agreed) {
    struct rcmi_engine *engine = x->engine;
    struct sharing s = {.x = x, .book = engine->book, .rank = engine->rank, .n = engine->nranks};
    rcm_status status = sharing_init(&s);
    if (status == RCM_OK && rcmi_node_wants_sharing(engine->node)) {
        status = sharing_run(&s, ret_agreed);
        for (int r = 0; status == RCM_OK && r < s.n; r++)
            s.why[r] = s.why[r] ? s.why[r] : first_why(&s, s.head[r]);
        rcmi_book_set_sharing(engine->book, s.set);
        s.set = NULL; /* now owned by the book */
    }
    if (status == RCM_OK)
        status = rcmi_node_check_pairs(engine->node, s.why);
    sharing_fini(&s);
    return status;
}
