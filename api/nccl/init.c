/* SPDX-License-Identifier: BSD-3-Clause */
/* New communicators: from a unique id, and all ranks of one process. */
#include <stdlib.h>
#include <string.h>
#include "nccl_comm.h"
#include "nccl_driver.h"
#include "nccl_group.h"
#include "nccl_settings.h"
#include "stream_order.h"

_Static_assert(sizeof(ncclUniqueId) == sizeof(struct rcm_unique_id), "ids have the same size");

/* One line, once, names the library. */
static void announce(void) {
    if (setting_logs_info())
        fprintf(stderr, "ringcomm: libnccl.so.2 is libringcomm %s, with the interface of NCCL %d\n",
                rcm_version(), NCCL_NUMBER);
}

ncclResult_t ncclGetVersion(int *version) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!version)
        return face_fail(ncclInvalidArgument, "ncclGetVersion: version is NULL");
    pthread_once(&once, announce);
    *version = NCCL_NUMBER;
    return ncclSuccess;
}
NCCL_ALSO_P(ncclGetVersion);

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    return face_result(rcm_unique_id_get((struct rcm_unique_id *)(void *)id), __func__);
}
NCCL_ALSO_P(ncclGetUniqueId);

/* ---- One rank -------------------------------------------------------------------------------- */

static ncclResult_t check_rank(ncclComm_t *newcomm, int nranks, int rank) {
    if (!newcomm)
        return face_fail(ncclInvalidArgument, "ncclCommInitRank: newcomm is NULL");
    if (nranks < 1 || rank < 0 || rank >= nranks)
        return face_fail(ncclInvalidArgument,
                         "ncclCommInitRank: rank %d of %d. Ranks are 0 to nranks - 1", rank,
                         nranks);
    return ncclSuccess;
}

/* The operations of NCCL have no deadline. */
static rcm_status init_begin(struct ncclComm *comm, const ncclUniqueId *id) {
    struct rcm_init_options options = RCM_INIT_OPTIONS_INIT;
    struct rcm_unique_id where;
    char device[16];
    memcpy(where.bytes, id->internal, sizeof where.bytes);
    snprintf(device, sizeof device, "%d", comm->device);
    options.rank = comm->rank;
    options.world_size = comm->size;
    options.unique_id = &where;
    options.device = device;
    options.timeout_ms = setting_is_given("RINGCOMM_TIMEOUT") ? 0 : -1;
    return rcm_init_begin(&options, &comm->init);
}

static ncclResult_t init_rank(ncclComm_t *newcomm, int nranks, int rank, int device,
                              const ncclUniqueId *id, const ncclConfig_t *config) {
    ncclResult_t result = driver_check_device(device);
    if (result == ncclSuccess)
        result = check_rank(newcomm, nranks, rank);
    if (result != ncclSuccess)
        return group_fail(result);
    struct ncclComm *comm = comm_new(device);
    if (!comm)
        return group_fail(ncclSystemError);
    result = comm_configure(comm, NULL, config);
    comm_lock();
    comm->rank = rank;
    comm->size = nranks;
    if (result == ncclSuccess)
        result = face_result(init_begin(comm, id), "ncclCommInitRank");
    if (result != ncclSuccess)
        comm_free(comm);
    else
        *newcomm = comm;
    comm_unlock();
    return result == ncclSuccess ? comm_await(comm) : group_fail(result);
}

static ncclResult_t init_here(ncclComm_t *newcomm, int nranks, int rank, const ncclUniqueId *id,
                              const ncclConfig_t *config) {
    int device = 0;
    const ncclResult_t result = driver_device(&device);
    return result == ncclSuccess ? init_rank(newcomm, nranks, rank, device, id, config)
                                 : group_fail(result);
}

ncclResult_t ncclCommInitRank(ncclComm_t *newcomm, int nranks, ncclUniqueId id, int rank) {
    return init_here(newcomm, nranks, rank, &id, NULL);
}
NCCL_ALSO_P(ncclCommInitRank);

ncclResult_t ncclCommInitRankConfig(ncclComm_t *newcomm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
    return init_here(newcomm, nranks, rank, &id, config);
}
NCCL_ALSO_P(ncclCommInitRankConfig);

/* The first id is enough. The stores of the others end where they were made. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int rank, int nids,
                                      ncclUniqueId *ids, ncclConfig_t *config) {
    if (nids < 1 || !ids)
        return group_fail(face_fail(ncclInvalidArgument, "ncclCommInitRankScalable: no id"));
    for (int i = 1; i < nids; i++)
        (void)!rcm_unique_id_free((struct rcm_unique_id *)(void *)&ids[i]);
    return init_here(newcomm, nranks, rank, ids, config);
}
NCCL_ALSO_P(ncclCommInitRankScalable);

/* ---- All ranks of one process ---------------------------------------------------------------- */

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int ndevices, const int *devices) {
    ncclUniqueId id;
    if (!comms || ndevices < 1)
        return face_fail(ncclInvalidArgument, "ncclCommInitAll: comms is %p and ndevices %d",
                         (void *)comms, ndevices);
    ncclResult_t result =
        face_result(rcm_unique_id_get((struct rcm_unique_id *)(void *)&id), __func__);
    if (result != ncclSuccess)
        return result;
    (void)group_begin();
    for (int i = 0; i < ndevices; i++)
        (void)init_rank(&comms[i], ndevices, i, devices ? devices[i] : i, &id, NULL);
    return group_end();
}
NCCL_ALSO_P(ncclCommInitAll);

/* ---- From a communicator --------------------------------------------------------------------- */

/* Adds a communicator that `begin` makes from parent, which was entered. */
static ncclResult_t
derive(struct ncclComm *parent, ncclComm_t *newcomm, const ncclConfig_t *config, const char *what,
       rcm_status (*begin)(rcm_comm *parent, const void *arg, rcm_comm_request **ret_request),
       const void *arg, bool outside) {
    struct ncclComm *comm = comm_new(parent->device);
    if (!comm)
        return ncclSystemError;
    ncclResult_t result = comm_configure(comm, parent, config);
    comm->outside = outside;
    comm->parent = parent;
    rcm_comm_request *request = NULL;
    if (result == ncclSuccess)
        result = face_result(begin(parent->rcm, arg, &request), what);
    comm_lock();
    comm->request = request;
    if (result != ncclSuccess)
        comm_free(comm);
    else
        *newcomm = outside ? NULL : comm;
    comm_unlock();
    return result == ncclSuccess ? comm_await(comm) : result;
}

/* For all functions here: a wrong argument ends the group. */
static ncclResult_t derive_checked(struct ncclComm *parent, ncclComm_t *newcomm, const char *what) {
    const ncclResult_t result = newcomm
                                    ? comm_enter(parent, 0, what)
                                    : face_fail(ncclInvalidArgument, "%s: newcomm is NULL", what);
    return result == ncclSuccess ? result : group_fail(result);
}

struct split {
    int colour, key;
};

static rcm_status split_begin(rcm_comm *parent, const void *arg, rcm_comm_request **ret_request) {
    const struct split *split = arg;
    return rcm_comm_split_begin(parent, split->colour, split->key, NULL, ret_request);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int colour, int key, ncclComm_t *newcomm,
                           ncclConfig_t *config) {
    const struct split split = {colour, key};
    ncclResult_t result = derive_checked(comm, newcomm, __func__);
    if (result != ncclSuccess)
        return result;
    if (colour < NCCL_NO_COLOUR)
        result = group_fail(face_fail(ncclInvalidArgument,
                                      "ncclCommSplit: color is %d. Use 0 and above, or "
                                      "NCCL_SPLIT_NOCOLOR",
                                      colour));
    else
        result = derive(comm, newcomm, config, __func__, split_begin, &split, colour < 0);
    comm_exit(comm);
    return result;
}
NCCL_ALSO_P(ncclCommSplit);

/* ---- Without some ranks ---------------------------------------------------------------------- */

struct shrink {
    int *ranks; /* that continue; or of the world, that do not */
    int n;
};

static rcm_status subset_begin(rcm_comm *parent, const void *arg, rcm_comm_request **ret_request) {
    const struct shrink *shrink = arg;
    return rcm_comm_subset_begin(parent, shrink->ranks, shrink->n, 0, NULL, ret_request);
}

static rcm_status exclude_begin(rcm_comm *parent, const void *arg, rcm_comm_request **ret_request) {
    const struct shrink *shrink = arg;
    return rcm_comm_shrink_excluding_begin(parent, shrink->ranks, shrink->n, NULL, ret_request);
}

static bool is_excluded(int rank, const int *excluded, int n) {
    for (int i = 0; i < n; i++)
        if (excluded[i] == rank)
            return true;
    return false;
}

/* A parent that failed or was revoked has no healthy ranks that could agree on a subset. */
static ncclResult_t shrink(struct ncclComm *comm, const int *excluded, int n, ncclComm_t *newcomm,
                           const ncclConfig_t *config, bool aborts) {
    struct shrink chosen = {malloc(((size_t)comm->size + 1) * sizeof(int)), 0};
    if (!chosen.ranks)
        return face_fail(ncclSystemError, "ncclCommShrink: no memory");
    if (aborts) {
        comm_lock();
        comm->revoked = true;
        comm_unlock();
    }
    for (int r = 0; r < comm->size; r++) {
        if (is_excluded(r, excluded, n) == aborts)
            chosen.ranks[chosen.n++] = aborts ? rcm_world_rank(comm->rcm, r) : r;
    }
    const ncclResult_t result = derive(comm, newcomm, config, "ncclCommShrink",
                                       aborts ? exclude_begin : subset_begin, &chosen, false);
    free(chosen.ranks);
    comm_lock();
    if (aborts)
        orders_release(comm);
    comm_unlock();
    return result;
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int nexcluded, ncclComm_t *newcomm,
                            ncclConfig_t *config, int flags) {
    struct rcm_error error = RCM_ERROR_INIT;
    ncclResult_t result = derive_checked(comm, newcomm, __func__);
    if (result != ncclSuccess)
        return result;
    const bool aborts = flags & NCCL_ABORTING || rcm_comm_error(comm->rcm, &error) != RCM_OK;
    for (int i = 0; i < nexcluded && result == ncclSuccess; i++)
        if (excluded[i] < 0 || excluded[i] >= comm->size || excluded[i] == comm->rank)
            result = face_fail(ncclInvalidArgument,
                               "ncclCommShrink: excludeRanksList[%d] is %d. Use other ranks of 0 "
                               "to %d",
                               i, excluded[i], comm->size - 1);
    result = result == ncclSuccess ? shrink(comm, excluded, nexcluded, newcomm, config, aborts)
                                   : group_fail(result);
    comm_exit(comm);
    return result;
}
NCCL_ALSO_P(ncclCommShrink);
