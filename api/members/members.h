/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api/members/: the ranks of a communicator, as seen by the parts of api/ below it, and the address
 * book: the data that each rank of the world published.
 *
 *      rcm_comm (api/work/comm.h)
 *        |        |
 *   agreement  diagnosis
 *         \      /
 *         members
 *
 * Not here: how ranks find each other (rendezvous/), and links to them (transport/).
 */
#ifndef RCMI_MEMBERS_H
#define RCMI_MEMBERS_H

#include "rendezvous.h"
#include "transport.h"

struct rcmi_address_book;

/* Final once the communicator is made. Arrays are indexed by rank of the communicator. */
struct rcmi_members {
    int rank, size;
    uint64_t epoch; /* see below */
    const int *world_rank, *host_of;
    const int *by_world; /* ranks in order of their world ranks; NULL: ranks are world ranks */
    struct rcmi_node *node;
    const struct rcmi_address_book *book; /* NULL: without data of other ranks */
};

/*
 * An epoch is the number of a communicator on the wire. Between two processes of a job no two
 * communicators share one. Its upper two bits are its kind:
 *   the world's       a hash of the job's number
 *   RCMI_EPOCH_GROUP  assigned by a rank: its world rank, 30 bits, and a counter of that rank
 *   RCMI_EPOCH_SHRUNK a hash of the survivors' decision
 */
#define RCMI_EPOCH_GROUP  (UINT64_C(1) << 62)
#define RCMI_EPOCH_SHRUNK (UINT64_C(2) << 62)

/* The rank that is `world` in the world; -1: none. */
int rcmi_members_rank(const struct rcmi_members *members, int world);

/* Writes "rank 3 (pid 4711 on node7)", with its world rank if that differs. */
#define RCMI_WHO_TEXT 160
const char *rcmi_members_describe(const struct rcmi_members *members, int rank,
                                  char text[RCMI_WHO_TEXT]);

/* ---- The book: address blobs of all world ranks. It takes ownership of blobs. */
rcm_status rcmi_book_create(struct rcm_blob *blobs, int nranks,
                            struct rcmi_address_book **ret_book);
void rcmi_book_free(struct rcmi_address_book *book);
rcm_status rcmi_book_lookup(const struct rcmi_address_book *book, int rank, const void **ret_blob,
                            size_t *ret_len);
/* The host identity that rank published. */
rcm_status rcmi_book_host(const struct rcmi_address_book *book, int rank, const char **ret_id);
/* The transport by which rank shares memory with ranks of its host; NULL: none. */
const struct rcmi_transport *rcmi_book_memory(const struct rcmi_address_book *book, int rank);
/* sets: for each rank the lowest rank with which it shares memory, as all agreed. Takes ownership.
 * Without sets no memory is shared: no transport supports it. */
void rcmi_book_set_sharing(struct rcmi_address_book *book, int *sets);
/* Whether two ranks share memory, so that plans may rely on it. */
bool rcmi_book_shares(const struct rcmi_address_book *book, int a, int b);
/* Whether two ranks count as one host for users: they share memory or, if no transport supports
 * that, have one host identity. */
bool rcmi_book_one_host(const struct rcmi_address_book *book, int a, int b);
/* Writes "rank 3 (pid 4711 on node7)". */
const char *rcmi_book_describe(const struct rcmi_address_book *book, int rank, char text[128]);

#endif
