/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api/members/: the ranks of a communicator, as the parts of api/ below it see them, and the
 * address book: what each rank of the world published of itself.
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

/* Final once the communicator is made. Arrays are by rank of the communicator. */
struct rcmi_members {
    int rank, size;
    uint64_t epoch; /* see below */
    const int *world_rank, *host_of;
    const int *by_world; /* ranks in order of their world ranks; NULL: all are the world's own */
    struct rcmi_node *node;
    const struct rcmi_address_book *book; /* NULL: nothing is known of other ranks */
};

/*
 * An epoch is the number of a communicator on the wire, no other one's between two processes of a
 * job. Its upper two bits tell how it came about:
 *   the world's       a hash of the job's number
 *   RCMI_EPOCH_GROUP  given by a rank: its world rank, 30 bits, and a counter of that rank's
 *   RCMI_EPOCH_SHRUNK a hash of what the survivors decided
 */
#define RCMI_EPOCH_GROUP  (UINT64_C(1) << 62)
#define RCMI_EPOCH_SHRUNK (UINT64_C(2) << 62)

/* The rank that is `world` in the world; -1 if none is. */
int rcmi_members_rank(const struct rcmi_members *members, int world);

/* "rank 3 (pid 4711 on node7)"; with its rank of the world where that is another. */
#define RCMI_WHO_TEXT 160
const char *rcmi_members_describe(const struct rcmi_members *members, int rank,
                                  char text[RCMI_WHO_TEXT]);

/* ---- The book: address blobs of all world ranks. It takes over blobs. */
rcm_status rcmi_book_create(struct rcm_blob *blobs, int nranks,
                            struct rcmi_address_book **ret_book);
void rcmi_book_free(struct rcmi_address_book *book);
rcm_status rcmi_book_lookup(const struct rcmi_address_book *book, int rank, const void **ret_blob,
                            size_t *ret_len);
/* The host identity that rank published. */
rcm_status rcmi_book_host(const struct rcmi_address_book *book, int rank, const char **ret_id);
/* By what rank shares memory with ranks of its host; NULL: by nothing. */
const struct rcmi_transport *rcmi_book_memory(const struct rcmi_address_book *book, int rank);
/* Of each rank the lowest with which it shares memory, as all agreed. Takes sets over. Without it
 * no memory is shared: the transports are not such. */
void rcmi_book_set_sharing(struct rcmi_address_book *book, int *sets);
/* Do two ranks share memory, so that plans may rely on it? */
bool rcmi_book_shares(const struct rcmi_address_book *book, int a, int b);
/* Are two ranks of one host for users: do they share memory, or, if no transport is for that, have
 * they one host identity? */
bool rcmi_book_one_host(const struct rcmi_address_book *book, int a, int b);
/* "rank 3 (pid 4711 on node7)" */
const char *rcmi_book_describe(const struct rcmi_address_book *book, int rank, char text[128]);

#endif
