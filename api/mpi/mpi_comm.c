/* SPDX-License-Identifier: BSD-3-Clause */
/* See mpi_comm.h: the world, and finding communicators. */
#include "mpi_comm.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "faces.h"
#include "leaks.h"

enum { CONNECT_MS = 1000 }; /* how long an abort waits for connections */

struct MPI_ABI_Comm comm_basics[2] = {
    {.handler = MPI_ERRORS_ARE_FATAL, .name = "MPI_COMM_WORLD"},
    {.handler = MPI_ERRORS_ARE_FATAL, .name = "MPI_COMM_SELF", .id = 1},
};
static struct MPI_ABI_Comm *const world = &comm_basics[0], *const self = &comm_basics[1];
static rcm_comm *internal;
atomic_bool comm_running, comm_initialized, comm_finalized;
int comm_thread_level = MPI_THREAD_SINGLE;
static atomic_bool survives;

void comm_survive(void) {
    atomic_store(&survives, true);
}

/* The status of an end, without deaths that the program has survived. */
static rcm_status without_deaths(rcm_status status) {
    const bool is_death = status == RCM_ERR_PEER || status == RCM_ERR_ABORTED;
    return is_death && atomic_load(&survives) ? RCM_OK : status;
}

rcm_comm *comm_internal(void) {
    return internal;
}

MPI_Comm comm_default(void) {
    return comm_is_open() ? MPI_COMM_WORLD : MPI_COMM_NULL;
}

/* Whether the environment has a rank, of a launcher or set by hand: the names that rcm_init reads.
 */
static bool has_launcher(void) {
    static const char *const names[] = {"RINGCOMM_RANK", "RINGCOMM_WORLD_SIZE",  "RANK",
                                        "WORLD_SIZE",    "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i]))
            return true;
    return false;
}

int comm_open_world(struct form *form) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    rcm_store *store = NULL;
    rcm_status status = RCM_OK;
    if (!getenv("RINGCOMM_TIMEOUT"))
        options.timeout_ms = -1;
    if (!has_launcher()) {
        status = rcm_store_open("hash:", -1, &store);
        options.rank = 0;
        options.world_size = 1;
        options.store = store;
    }
    if (status == RCM_OK)
        status = rcm_init(&options, &world->comm);
    rcm_store_close(store);
    if (status != RCM_OK)
        return form_status(form, status);
    world->rank = rcm_rank(world->comm);
    world->size = world->npeers = rcm_size(world->comm);
    status = rcm_comm_subset(world->comm, &world->rank, 1, 0, NULL, &self->comm);
    self->size = self->npeers = 1;
    if (status == RCM_OK)
        status = rcm_comm_set_name(self->comm, self->name);
    if (status == RCM_OK)
        status = rcm_comm_set_name(world->comm, world->name);
    if (status == RCM_OK)
        status = rcm_comm_duplicate(world->comm, NULL, &internal);
    if (status == RCM_OK)
        status = rcm_comm_set_name(internal, "MPI, internal");
    atomic_store(&comm_running, status == RCM_OK);
    return form_status(form, status);
}

/* Also after an error nothing is left open: rcm_destroy frees in every case. The world is first: a
 * rank that still calls a collective on it, and this one, get an error with both calls. */
int comm_close_world(struct form *form) {
    rcm_comm *const comms[] = {world->comm, internal, self->comm};
    int code = MPI_SUCCESS;
    for (size_t i = 0; i < sizeof comms / sizeof comms[0]; i++) {
        if (comms[i] == self->comm) /* the last one, which ends the connections */
            comm_end_rests(true);
        const rcm_status status = without_deaths(rcm_destroy(comms[i]));
        if (code == MPI_SUCCESS)
            code = form_status(form, status);
    }
    self->comm = internal = world->comm = NULL;
    atomic_store(&comm_running, false);
    return code;
}

int comm_refuse(struct form *form, MPI_Comm handle) {
    if (!comm_is_open())
        return form_error(form, MPI_ERR_OTHER,
                          "MPI is not running: call it after MPI_Init and before MPI_Finalize");
    return form_error(form, MPI_ERR_COMM, "comm is %s",
                      handle == MPI_COMM_NULL ? "MPI_COMM_NULL"
                      : is_predefined(handle) ? "no communicator"
                                              : "a communicator that was freed");
}

int comm_check_inter(struct form *form, const struct MPI_ABI_Comm *comm) {
    return comm->is_inter
               ? MPI_SUCCESS
               : form_error(form, MPI_ERR_COMM, "%s is no intercommunicator", comm_name(comm));
}

int comm_check_intra(struct form *form, const struct MPI_ABI_Comm *comm) {
    return comm->is_inter
               ? form_error(form, MPI_ERR_COMM,
                            "comm is an intercommunicator, which this function does not take")
               : MPI_SUCCESS;
}

int comm_check_cart(struct form *form, const struct MPI_ABI_Comm *comm) {
    return comm->cart ? MPI_SUCCESS
                      : form_error(form, MPI_ERR_TOPOLOGY,
                                   "%s has no Cartesian topology. Make one by MPI_Cart_create",
                                   comm_name(comm));
}

int comm_check_peer(struct form *form, const struct MPI_ABI_Comm *comm, int rank, int tag,
                    bool any) {
    if (tag < 0 && !(any && tag == MPI_ANY_TAG))
        return form_error(form, MPI_ERR_TAG, "the tag is %d, but tags are 0 to %d", tag, INT_MAX);
    if ((rank >= 0 && rank < comm->npeers) || rank == MPI_PROC_NULL ||
        (any && rank == MPI_ANY_SOURCE))
        return MPI_SUCCESS;
    return form_error(form, MPI_ERR_RANK, "the rank is %d, but %s has ranks 0 to %d", rank,
                      comm_name(comm), comm->npeers - 1);
}

int comm_check_root(struct form *form, const struct MPI_ABI_Comm *comm, int root) {
    if ((root >= 0 && root < comm->npeers) ||
        (comm->is_inter && (root == MPI_ROOT || root == MPI_PROC_NULL)))
        return MPI_SUCCESS;
    return form_error(form, MPI_ERR_ROOT, "root is %d, but %s has ranks 0 to %d", root,
                      comm_name(comm), comm->npeers - 1);
}

MPI_Comm comm_handle(struct MPI_ABI_Comm *comm) {
    return comm == world ? MPI_COMM_WORLD : comm == self ? MPI_COMM_SELF : comm;
}

struct MPI_ABI_Comm *comm_object(MPI_Comm handle) {
    return handle == MPI_COMM_SELF ? self : is_predefined(handle) ? world : handle;
}

int comm_new(struct form *form, const struct MPI_ABI_Comm *parent, MPI_Comm *ret_comm) {
    struct MPI_ABI_Comm *comm = *ret_comm = calloc(1, sizeof *comm);
    if (!comm)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for a communicator");
    comm->handler = handler_of(parent);
    atomic_init(&comm->references, 1);
    leaks_count(leak_comm, 1);
    return MPI_SUCCESS;
}

void comm_get(MPI_Comm comm) {
    if (!is_predefined(comm))
        atomic_fetch_add(&comm->references, 1);
}

void comm_put(MPI_Comm comm) {
    if (is_predefined(comm) || atomic_fetch_sub(&comm->references, 1) != 1)
        return;
    comm_end(comm->comm);
    handler_put(comm->handler);
    free(comm->cart);
    handle_free(comm);
}

/* The top bit is free, so that an id can be a tag. */
uint64_t comm_mix(uint64_t id, uint64_t number) {
    uint64_t mixed = (id ^ (number + 1) * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 29) * 0x94d049bb133111ebu;
    return (mixed ^ mixed >> 32) >> 1;
}

uint64_t comm_next_id(struct MPI_ABI_Comm *parent) {
    return comm_mix(parent->id, atomic_fetch_add(&parent->nchildren, 1));
}

/* The ranks call MPIX_Comm_shrink equally often, but may have failed to make different numbers of
 * other communicators. */
uint64_t comm_next_shrunk_id(struct MPI_ABI_Comm *parent) {
    return comm_mix(comm_mix(parent->id, UINT64_MAX), atomic_fetch_add(&parent->nshrunk, 1));
}

int comm_wrap(struct form *form, const struct MPI_ABI_Comm *parent, uint64_t id, rcm_status status,
              rcm_comm *made, MPI_Comm *ret_comm) {
    *ret_comm = MPI_COMM_NULL;
    int code = form_status(form, status);
    if (code == MPI_SUCCESS && (!made || rcm_rank(made) < 0))
        return form_status(form, made ? rcm_destroy(made) : RCM_OK);
    if (code == MPI_SUCCESS)
        code = comm_new(form, parent, ret_comm);
    if (code != MPI_SUCCESS) {
        comm_end(made);
        return code;
    }
    (*ret_comm)->id = id;
    (*ret_comm)->comm = made;
    (*ret_comm)->rank = rcm_rank(made);
    (*ret_comm)->size = (*ret_comm)->npeers = rcm_size(made);
    return MPI_SUCCESS;
}

void comm_divide(MPI_Comm comm, int nfirst) {
    const int size = comm->size;
    const bool is_first = comm->rank < nfirst;
    comm->own_first = is_first ? 0 : nfirst;
    comm->peer_first = is_first ? nfirst : 0;
    comm->npeers = is_first ? size - nfirst : nfirst;
    comm->size = size - comm->npeers;
    comm->rank -= comm->own_first;
    comm->is_inter = true;
}

/* Connects to all ranks, so that each of them gets the reason of an abort. */
static void connect_all(void) {
    rcm_work **works = calloc((size_t)world->size, sizeof *works);
    rcm_status status = RCM_OK;
    for (int i = 0; works && i < world->size && status == RCM_OK; i++)
        if (i != world->rank)
            status = rcm_isend(internal, NULL, 0, RCM_UINT8, i, 0, &works[i]);
    if (works && status == RCM_OK)
        status = rcm_work_wait_all(works, (size_t)world->size, CONNECT_MS);
    (void)status; /* the abort follows in every case */
    free(works);
}

/* rcm_leave sends the reason to all ranks before the process ends. Its result is that of an aborted
 * communicator, which is no news. */
void comm_die(MPI_Comm handle, int exit_status, const char *reason) {
    struct form form = {.name = "MPI_Abort"};
    struct MPI_ABI_Comm *comm;
    rcm_status status = RCM_OK;
    fflush(NULL);
    if (comm_is_open()) {
        connect_all();
        if (comm_find(&form, handle, &comm) == MPI_SUCCESS)
            status = rcm_abort(comm->comm, reason);
        if (status == RCM_OK)
            status = rcm_abort(world->comm, reason);
        if (status == RCM_OK)
            status = rcm_leave(world->comm);
        (void)status;
    }
    _exit(exit_status > 0 && exit_status < 256 ? exit_status : 1);
}
