/* SPDX-License-Identifier: BSD-3-Clause */
/* See members.h. */
#include "members.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rcmi_address_book {
    int nranks;
    struct rcm_blob *blobs;
    int *sets; /* NULL: no memory is shared */
};

rcm_status rcmi_book_create(struct rcm_blob *blobs, int nranks,
                            struct rcmi_address_book **ret_book) {
    struct rcmi_address_book *book = calloc(1, sizeof(*book));
    if (!book)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for an address book");
    book->nranks = nranks;
    book->blobs = blobs;
    *ret_book = book;
    return RCM_OK;
}

void rcmi_book_free(struct rcmi_address_book *book) {
    if (!book)
        return;
    for (int r = 0; r < book->nranks; r++)
        free(book->blobs[r].data);
    free(book->blobs);
    free(book->sets);
    free(book);
}

rcm_status rcmi_book_lookup(const struct rcmi_address_book *book, int rank, const void **ret_blob,
                            size_t *ret_len) {
    if (rank < 0 || rank >= book->nranks)
        return rcmi_fail(RCM_ERR_INVALID, 0, "rank %d is not in the address book of %d ranks", rank,
                         book->nranks);
    *ret_blob = book->blobs[rank].data;
    *ret_len = book->blobs[rank].len;
    return RCM_OK;
}

rcm_status rcmi_book_host(const struct rcmi_address_book *book, int rank, const char **ret_id) {
    const void *blob;
    size_t len;
    rcm_status status = rcmi_book_lookup(book, rank, &blob, &len);
    return status == RCM_OK ? rcmi_address_host(blob, len, ret_id) : status;
}

const struct rcmi_transport *rcmi_book_memory(const struct rcmi_address_book *book, int rank) {
    const void *blob;
    size_t len;
    return rcmi_book_lookup(book, rank, &blob, &len) == RCM_OK ? rcmi_address_memory(blob, len)
                                                               : NULL;
}

void rcmi_book_set_sharing(struct rcmi_address_book *book, int *sets) {
    free(book->sets);
    book->sets = sets;
}

bool rcmi_book_shares(const struct rcmi_address_book *book, int a, int b) {
    return a == b || (book->sets && book->sets[a] == book->sets[b]);
}

bool rcmi_book_one_host(const struct rcmi_address_book *book, int a, int b) {
    const char *one, *other;
    if (book->sets)
        return rcmi_book_shares(book, a, b);
    return rcmi_book_host(book, a, &one) == RCM_OK && rcmi_book_host(book, b, &other) == RCM_OK &&
           strcmp(one, other) == 0;
}

const char *rcmi_book_describe(const struct rcmi_address_book *book, int rank, char text[128]) {
    const void *blob;
    size_t len;
    int pid;
    const char *host;
    if (book && rcmi_book_lookup(book, rank, &blob, &len) == RCM_OK &&
        rcmi_address_process(blob, len, &pid, &host) == RCM_OK)
        snprintf(text, 128, "rank %d (pid %d on %.64s)", rank, pid, host);
    else
        snprintf(text, 128, "rank %d", rank);
    return text;
}

/* A binary search, except for ranks with the same number in the world. */
int rcmi_members_rank(const struct rcmi_members *members, int world) {
    if (world >= 0 && world < members->size && members->world_rank[world] == world)
        return world;
    int low = 0, high = members->by_world ? members->size : 0;
    while (low < high) {
        const int middle = low + (high - low) / 2, rank = members->by_world[middle];
        if (members->world_rank[rank] == world)
            return rank;
        if (members->world_rank[rank] < world)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

const char *rcmi_members_describe(const struct rcmi_members *members, int rank,
                                  char text[RCMI_WHO_TEXT]) {
    const int world = members->world_rank[rank];
    char name[128];
    rcmi_book_describe(members->book, world, name);
    if (world == rank)
        snprintf(text, RCMI_WHO_TEXT, "%s", name);
    else
        snprintf(text, RCMI_WHO_TEXT, "rank %d, of the world %s", rank, name);
    return text;
}
