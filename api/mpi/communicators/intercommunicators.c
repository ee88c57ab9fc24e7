/* SPDX-License-Identifier: BSD-3-Clause */
/* Making intercommunicators, and making communicators of them. The ranks of both groups are one
 * communicator of ringcomm.h: first the group whose first rank has the lower number in the world.
 */
#include "communicators.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include "faces.h"

/* The world ranks of a group, behind their number, as leaders exchange them and send them to their
 * groups. 0: the leader failed. The last two numbers are a tag that only these leaders use. */
static size_t list_room(void) {
    return (size_t)rcm_size(comm_internal()) + 3;
}

static int32_t *list_new(rcm_comm *local) {
    int32_t *list = calloc(list_room(), sizeof *list);
    for (int i = 0; list && i < rcm_size(local); i++)
        list[++list[0]] = rcm_world_rank(local, i);
    return list;
}

/* Leaders: sends the own list and receives that of the other leader. */
static int exchange_lists(struct form *form, const int32_t *own, int32_t *other, int leader,
                          uint64_t tag) {
    const rcm_status status = rcm_sendrecv(comm_internal(), own, (size_t)own[0] + 1, leader, tag,
                                           other, list_room(), leader, tag, RCM_INT32, NULL, NULL);
    memcpy(other + list_room() - 2, &tag, sizeof tag);
    if (status != RCM_OK)
        other[0] = 0;
    return form_status(form, status);
}

/* Both lists, one behind the other in the order of the new communicator. */
static int join_lists(struct form *form, const int32_t *own, const int32_t *other, int *ret_nfirst,
                      int **ret_ranks) {
    const int32_t *first = own[1] < other[1] ? own : other;
    const int32_t *second = first == own ? other : own;
    for (int i = 1; i <= own[0]; i++)
        for (int j = 1; j <= other[0]; j++)
            if (own[i] == other[j])
                return form_error(form, MPI_ERR_GROUP,
                                  "rank %d of MPI_COMM_WORLD is in both groups", own[i]);
    *ret_nfirst = first[0];
    *ret_ranks = malloc(sizeof **ret_ranks * (size_t)(first[0] + second[0]));
    if (!*ret_ranks)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for %d ranks", first[0] + second[0]);
    for (int i = 0; i < first[0] + second[0]; i++)
        (*ret_ranks)[i] = i < first[0] ? first[i + 1] : second[i + 1 - first[0]];
    return MPI_SUCCESS;
}

/* Makes the communicator of both lists. */
static int make_inter(struct form *form, const struct MPI_ABI_Comm *parent, const int32_t *own,
                      const int32_t *other, MPI_Comm *ret_comm) {
    uint64_t tag;
    int nfirst = 0, *ranks = NULL;
    rcm_comm *made = NULL;
    memcpy(&tag, other + list_room() - 2, sizeof tag);
    int code = join_lists(form, own, other, &nfirst, &ranks);
    if (code != MPI_SUCCESS)
        return code;
    const rcm_status status =
        rcm_comm_subset(comm_internal(), ranks, own[0] + other[0], tag, NULL, &made);
    free(ranks);
    code = comm_wrap(form, parent, tag, status, made, ret_comm);
    if (code == MPI_SUCCESS)
        comm_divide(*ret_comm, nfirst);
    return code;
}

/* The rank in the world of the other leader; -1, and *ret_code is set. *tag becomes one of `peers`
 * only, for other threads may use other communicators of the two leaders. */
static int find_leader(struct form *form, MPI_Comm handle, int rank, uint64_t *tag, int *ret_code) {
    struct MPI_ABI_Comm *peers;
    *ret_code = comm_find(form, handle, &peers);
    if (*ret_code == MPI_SUCCESS)
        *ret_code = comm_check_peer(form, peers, rank, 0, false);
    if (*ret_code == MPI_SUCCESS && rank == MPI_PROC_NULL)
        *ret_code = form_error(form, MPI_ERR_RANK, "remote_leader is MPI_PROC_NULL");
    if (*ret_code != MPI_SUCCESS)
        return -1;
    *tag = comm_mix(peers->id, *tag);
    return rcm_world_rank(peers->comm, comm_peer(peers, rank));
}

int face_Intercomm_create(struct form *form, struct MPI_ABI_Comm *comm, int leader, MPI_Comm peers,
                          int remote_leader, int tag, MPI_Comm *ret_comm) {
    int code = MPI_SUCCESS;
    *ret_comm = MPI_COMM_NULL;
    if (leader < 0 || leader >= comm->size)
        return form_error(form, MPI_ERR_RANK, "local_leader is %d, but %s has ranks 0 to %d",
                          leader, comm_name(comm), comm->size - 1);
    uint64_t pair_tag = (uint64_t)tag;
    int32_t *own = list_new(comm->comm), *other = calloc(list_room(), sizeof *other);
    if (!own || !other)
        code = form_error(form, MPI_ERR_NO_MEM, "no memory for lists of ranks");
    if (code == MPI_SUCCESS && comm->rank == leader) {
        const int remote = find_leader(form, peers, remote_leader, &pair_tag, &code);
        if (code == MPI_SUCCESS)
            code = exchange_lists(form, own, other, remote, pair_tag);
        form->comm = comm_handle(comm);
    }
    const rcm_status status =
        own && other ? rcm_broadcast(comm->comm, other, list_room(), RCM_INT32, leader, NULL, NULL)
                     : RCM_OK;
    if (code == MPI_SUCCESS)
        code = form_status(form, status);
    if (code == MPI_SUCCESS && other[0] == 0)
        code = form_error(form, MPI_ERR_OTHER, "the leader, rank %d of %s, failed", leader,
                          comm_name(comm));
    if (code == MPI_SUCCESS)
        code = make_inter(form, comm, own, other, ret_comm);
    free(own);
    free(other);
    return code;
}

int face_Intercomm_merge(struct form *form, struct MPI_ABI_Comm *comm, int high,
                         MPI_Comm *ret_comm) {
    rcm_comm *made = NULL;
    const int both = comm->size + comm->npeers;
    const int key = (high ? both : 0) + comm->own_first + comm->rank;
    const rcm_status status = rcm_comm_split(comm->comm, 0, key, NULL, &made);
    return comm_wrap(form, comm, comm_next_id(comm), status, made, ret_comm);
}

int intercomm_split(struct form *form, struct MPI_ABI_Comm *comm, int colour, int key,
                    MPI_Comm *ret_comm) {
    rcm_comm *mixed, *made = NULL;
    int nfirst = 0;
    *ret_comm = MPI_COMM_NULL;
    rcm_status status = rcm_comm_split(comm->comm, colour, key, NULL, &mixed);
    if (status != RCM_OK)
        return form_status(form, status);
    const int size = rcm_rank(mixed) < 0 ? 0 : rcm_size(mixed);
    for (int i = 0; i < size; i++)
        nfirst += rcm_comm_translate(mixed, i, comm->comm) < comm_divided(comm);
    if (nfirst > 0 && nfirst < size)
        status =
            rcm_comm_split(mixed, 0, (comm->own_first ? size : 0) + rcm_rank(mixed), NULL, &made);
    const rcm_status last = rcm_destroy(mixed);
    const int code =
        comm_wrap(form, comm, comm_next_id(comm), status == RCM_OK ? last : status, made, ret_comm);
    if (*ret_comm != MPI_COMM_NULL)
        comm_divide(*ret_comm, nfirst);
    return code;
}
