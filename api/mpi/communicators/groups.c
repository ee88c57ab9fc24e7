/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups are lists of ranks of the world. And the communicators that are made from them. */
#include <stdlib.h>
#include <string.h>
#include "communicators.h"
#include "faces.h"
#include "leaks.h"

static struct MPI_ABI_Group empty;

int group_find(struct form *form, MPI_Group handle, struct MPI_ABI_Group **ret_group) {
    *ret_group = handle == MPI_GROUP_EMPTY ? &empty : handle;
    if (!is_predefined(*ret_group))
        return MPI_SUCCESS;
    return form_error(form, MPI_ERR_GROUP, "the group is %s",
                      handle == MPI_GROUP_NULL ? "MPI_GROUP_NULL" : "no group");
}

/* A group with room for n ranks, without any yet. */
static int group_new(struct form *form, int n, struct MPI_ABI_Group **ret_group) {
    *ret_group = calloc(1, sizeof **ret_group + sizeof(int) * (size_t)n);
    if (!*ret_group)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for a group");
    leaks_count(leak_group, 1);
    return MPI_SUCCESS;
}

static void group_free(struct MPI_ABI_Group *group) {
    free(group);
    leaks_count(leak_group, -1);
}

/* The handle of a made group: an empty one is MPI_GROUP_EMPTY. */
static MPI_Group group_handle(struct MPI_ABI_Group *group) {
    if (group->size > 0)
        return group;
    group_free(group);
    return MPI_GROUP_EMPTY;
}

static int index_of(const struct MPI_ABI_Group *group, int world_rank) {
    for (int i = 0; i < group->size; i++)
        if (group->ranks[i] == world_rank)
            return i;
    return MPI_UNDEFINED;
}

int face_group_of(struct form *form, struct MPI_ABI_Comm *comm, bool is_remote,
                  MPI_Group *ret_group) {
    const int first = is_remote ? comm->peer_first : comm->own_first;
    const int n = is_remote ? comm->npeers : comm->size;
    const int code = group_new(form, n, ret_group);
    for (int i = 0; code == MPI_SUCCESS && i < n; i++)
        (*ret_group)->ranks[(*ret_group)->size++] = rcm_world_rank(comm->comm, first + i);
    return code;
}

int face_Group_free(struct form *form, MPI_Group *handle) {
    struct MPI_ABI_Group *group;
    const int code = group_find(form, *handle, &group);
    if (code == MPI_SUCCESS && group != &empty)
        group_free(group);
    *handle = MPI_GROUP_NULL;
    return code;
}

int face_Group_rank(struct form *form, struct MPI_ABI_Group *group, int *ret_rank) {
    struct MPI_ABI_Comm *world;
    const int code = comm_find(form, MPI_COMM_WORLD, &world);
    if (code == MPI_SUCCESS)
        *ret_rank = index_of(group, world->rank);
    return code;
}

int face_Group_translate_ranks(struct form *form, struct MPI_ABI_Group *from, int n,
                               const int *ranks, struct MPI_ABI_Group *to, int *ret_ranks) {
    for (int i = 0; i < n; i++) {
        if (ranks[i] != MPI_PROC_NULL && (ranks[i] < 0 || ranks[i] >= from->size))
            return form_error(form, MPI_ERR_RANK, "ranks1[%d] is %d, but the group has %d ranks", i,
                              ranks[i], from->size);
        ret_ranks[i] =
            ranks[i] == MPI_PROC_NULL ? MPI_PROC_NULL : index_of(to, from->ranks[ranks[i]]);
    }
    return MPI_SUCCESS;
}

int face_Group_compare(struct form *form, struct MPI_ABI_Group *a, struct MPI_ABI_Group *b,
                       int *ret_result) {
    *ret_result = a->size == b->size ? MPI_IDENT : MPI_UNEQUAL;
    for (int i = 0; i < a->size && *ret_result != MPI_UNEQUAL; i++)
        if (index_of(b, a->ranks[i]) != i)
            *ret_result = index_of(b, a->ranks[i]) < 0 ? MPI_UNEQUAL : MPI_SIMILAR;
    return MPI_SUCCESS;
}

/* Appends the ranks of `from` that are in `in`, or those that are not. */
static void append(struct MPI_ABI_Group *group, const struct MPI_ABI_Group *from,
                   const struct MPI_ABI_Group *in, bool are_in) {
    for (int i = 0; i < from->size; i++)
        if ((index_of(in, from->ranks[i]) != MPI_UNDEFINED) == are_in)
            group->ranks[group->size++] = from->ranks[i];
}

int face_combine_groups(struct form *form, struct MPI_ABI_Group *a, struct MPI_ABI_Group *b,
                        int what, MPI_Group *ret_group) {
    struct MPI_ABI_Group *made;
    const int code = group_new(form, a->size + b->size, &made);
    if (code != MPI_SUCCESS)
        return code;
    append(made, a, what == SET_UNION ? &empty : b, what == SET_INTERSECTION);
    if (what == SET_UNION)
        append(made, b, a, false);
    *ret_group = group_handle(made);
    return MPI_SUCCESS;
}

/* The ranks of `group` in ranges (first, last, stride), in their order. */
static int pick(struct form *form, const struct MPI_ABI_Group *group, int n, int (*ranges)[3],
                struct MPI_ABI_Group **ret_group) {
    const int code = group_new(form, group->size, ret_group);
    for (int i = 0; code == MPI_SUCCESS && i < n; i++) {
        const int last = ranges[i][1], step = ranges[i][2];
        for (long long r = ranges[i][0]; step > 0 ? r <= last : step == 0 || r >= last; r += step) {
            if (step == 0 || r < 0 || r >= group->size || (*ret_group)->size == group->size) {
                group_free(*ret_group);
                return form_error(form, MPI_ERR_RANK,
                                  "%d to %d by %d are no different ranks of a group of %d",
                                  ranges[i][0], last, step, group->size);
            }
            (*ret_group)->ranks[(*ret_group)->size++] = group->ranks[r];
        }
    }
    return code;
}

/* The ranks in the ranges, or all others. */
int face_pick_ranges(struct form *form, struct MPI_ABI_Group *group, int n, int (*ranges)[3],
                     bool include, MPI_Group *ret_group) {
    struct MPI_ABI_Group *picked;
    int code = pick(form, group, n, ranges, &picked);
    if (code == MPI_SUCCESS && include)
        *ret_group = group_handle(picked);
    if (code != MPI_SUCCESS || include)
        return code;
    code = face_combine_groups(form, group, picked, SET_DIFFERENCE, ret_group);
    group_free(picked);
    return code;
}

/* A list of ranks is one of ranges of one rank each. */
int face_pick_ranks(struct form *form, struct MPI_ABI_Group *group, int n, const int *ranks,
                    bool include, MPI_Group *ret_group) {
    int(*ranges)[3] = malloc(sizeof *ranges * (size_t)(n > 0 ? n : 1));
    if (!ranges)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for %d ranks", n);
    for (int i = 0; i < n; i++) {
        ranges[i][0] = ranges[i][1] = ranks[i];
        ranges[i][2] = 1;
    }
    const int code = face_pick_ranges(form, group, n, ranges, include, ret_group);
    free(ranges);
    return code;
}

/* Makes a communicator of the group's ranks, which are some of comm's. */
static int make_comm(struct form *form, const struct MPI_ABI_Comm *comm,
                     const struct MPI_ABI_Group *group, uint64_t tag, uint64_t id,
                     MPI_Comm *ret_comm) {
    const struct MPI_ABI_Comm *world = comm_object(MPI_COMM_WORLD);
    rcm_comm *made = NULL;
    *ret_comm = MPI_COMM_NULL;
    if (index_of(group, world->rank) == MPI_UNDEFINED)
        return MPI_SUCCESS;
    int code = MPI_SUCCESS, *ranks = malloc(sizeof *ranks * (size_t)group->size);
    if (!ranks)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for %d ranks", group->size);
    for (int i = 0; i < group->size && code == MPI_SUCCESS; i++) {
        ranks[i] = rcm_comm_translate(world->comm, group->ranks[i], comm->comm);
        if (ranks[i] < 0)
            code = form_error(form, MPI_ERR_GROUP, "rank %d of the group is not in %s", i,
                              comm_name(comm));
    }
    if (code == MPI_SUCCESS) {
        const rcm_status status = rcm_comm_subset(comm->comm, ranks, group->size, tag, NULL, &made);
        code = comm_wrap(form, comm, id, status, made, ret_comm);
    }
    free(ranks);
    return code;
}

int face_Comm_create_group(struct form *form, struct MPI_ABI_Comm *comm,
                           struct MPI_ABI_Group *group, int tag, MPI_Comm *ret_comm) {
    uint64_t id = comm_mix(comm->id, (uint64_t)tag); /* not all ranks of comm call it */
    for (int i = 0; i < group->size; i++)
        id = comm_mix(id, (uint64_t)group->ranks[i]);
    return make_comm(form, comm, group, (uint64_t)tag, id, ret_comm);
}

/* Its tag is none of MPI_Comm_create_group. On an intercommunicator the groups differ. */
int face_Comm_create(struct form *form, struct MPI_ABI_Comm *comm, struct MPI_ABI_Group *group,
                     MPI_Comm *ret_comm) {
    if (!comm->is_inter)
        return make_comm(form, comm, group, (uint64_t)1 << 32, comm_next_id(comm), ret_comm);
    const int at = index_of(group, rcm_world_rank(comm->comm, comm->own_first + comm->rank));
    return intercomm_split(form, comm, at < 0 ? -1 : 0, at, ret_comm);
}
