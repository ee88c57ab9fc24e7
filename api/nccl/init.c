/* SPDX-License-Identifier: BSD-3-Clause */
/* New communicators: from a unique id, and all ranks of one process. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "nccl_comm.h"
#include "nccl_driver.h"
#include "nccl_group.h"
#include "nccl_settings.h"
#include "stream_order.h"

_Static_assert(sizeof(ncclUniqueId) == sizeof(struct rcm_unique_id), "ids have the same size");

/* One line, once, names the library. */
static void announce(void) {
    const char *level = setting_given("RINGCOMM_LOG");
    if (strcasecmp(level, "info") == 0 || strcasecmp(level, "debug") == 0)
        fprintf(stderr, "ringcomm: libnccl.so.2 is libringcomm %s, with the interface of NCCL %d\n",
                rcm_version(), NCCL_NUMBER);
}

NCCL_API(ncclResult_t, ncclGetVersion)(int *version) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!version)
        return face_fail(ncclInvalidArgument, "ncclGetVersion: version is NULL");
    pthread_once(&once, announce);
    *version = NCCL_NUMBER;
    return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclGetUniqueId)(ncclUniqueId *id) {
    return face_result(rcm_unique_id_get((struct rcm_unique_id *)(void *)id), __func__);
}

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
    options.timeout_ms = setting_given("RINGCOMM_TIMEOUT")[0] ? 0 : -1;
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
    if (newcomm)
        *newcomm = NULL;
    return result == ncclSuccess ? init_rank(newcomm, nranks, rank, device, id, config)
                                 : group_fail(result);
}

NCCL_API(ncclResult_t, ncclCommInitRank)
(ncclComm_t *newcomm, int nranks, ncclUniqueId id, int rank) {
    return init_here(newcomm, nranks, rank, &id, NULL);
}

NCCL_API(ncclResult_t, ncclCommInitRankConfig)
(ncclComm_t *newcomm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
    return init_here(newcomm, nranks, rank, &id, config);
}

/* The first id is enough. The stores of the others end where they were made. */
NCCL_API(ncclResult_t, ncclCommInitRankScalable)
(ncclComm_t *newcomm, int nranks, int rank, int nids, ncclUniqueId *ids, ncclConfig_t *config) {
    if (nids < 1 || !ids)
        return group_fail(face_fail(ncclInvalidArgument, "ncclCommInitRankScalable: no id"));
    for (int i = 1; i < nids; i++)
        (void)!rcm_unique_id_free((struct rcm_unique_id *)(void *)&ids[i]);
    return init_here(newcomm, nranks, rank, ids, config);
}

/* ---- All ranks of one process ---------------------------------------------------------------- */

NCCL_API(ncclResult_t, ncclCommInitAll)(ncclComm_t *comms, int ndevices, const int *devices) {
    ncclUniqueId id;
    if (!comms || ndevices < 1)
        return face_fail(ncclInvalidArgument, "ncclCommInitAll: comms is %p and ndevices %d",
                         (void *)comms, ndevices);
    ncclResult_t result =
        face_result(rcm_unique_id_get((struct rcm_unique_id *)(void *)&id), __func__);
    if (result != ncclSuccess)
        return result;
    memset(comms, 0, (size_t)ndevices * sizeof *comms);
    (void)pncclGroupStart();
    for (int i = 0; i < ndevices; i++)
        (void)init_rank(&comms[i], ndevices, i, devices ? devices[i] : i, &id, NULL);
    result = pncclGroupEnd();
    for (int i = 0; i < ndevices && result != ncclSuccess; i++) {
        (void)ncclCommAbort(comms[i]);
        comms[i] = NULL;
    }
    return result;
}

/* ---- From a communicator --------------------------------------------------------------------- */

/* Enters parent, and adds a communicator that will be made from it. An error ends the group. */
static ncclResult_t derive_begin(struct ncclComm *parent, ncclComm_t *newcomm,
                                 const ncclConfig_t *config, const char *what,
                                 struct ncclComm **ret_comm) {
    if (newcomm)
        *newcomm = NULL;
    ncclResult_t result = newcomm ? comm_enter(parent, 0, what)
                                  : face_fail(ncclInvalidArgument, "%s: newcomm is NULL", what);
    if (result != ncclSuccess)
        return group_fail(result);
    struct ncclComm *comm = *ret_comm = comm_new(parent->device);
    result = comm ? comm_configure(comm, parent, config) : ncclSystemError;
    if (result == ncclSuccess)
        return ncclSuccess;
    if (comm)
        comm_forget(comm);
    comm_exit(parent);
    return group_fail(result);
}

/* status: of the call that made the request. */
static ncclResult_t derive_end(struct ncclComm *parent, struct ncclComm *comm, rcm_status status,
                               rcm_comm_request *request, ncclComm_t *newcomm, const char *what) {
    ncclResult_t result = face_result(status, what);
    comm_lock();
    comm->request = request;
    comm->parent = parent;
    comm_unlock();
    if (result != ncclSuccess) {
        comm_forget(comm);
        comm_exit(parent);
        return group_fail(result);
    }
    if (!comm->outside)
        *newcomm = comm;
    result = comm_await(comm);
    comm_exit(parent);
    return result;
}

NCCL_API(ncclResult_t, ncclCommSplit)
(ncclComm_t comm, int colour, int key, ncclComm_t *newcomm, ncclConfig_t *config) {
    rcm_comm_request *request = NULL;
    struct ncclComm *part;
    if (colour < NCCL_NO_COLOUR)
        return group_fail(face_fail(ncclInvalidArgument,
                                    "ncclCommSplit: color is %d. Use 0 and above, or "
                                    "NCCL_SPLIT_NOCOLOR",
                                    colour));
    const ncclResult_t result = derive_begin(comm, newcomm, config, __func__, &part);
    if (result != ncclSuccess)
        return result;
    part->outside = colour < 0;
    const rcm_status status = rcm_comm_split_begin(comm->rcm, colour, key, NULL, &request);
    return derive_end(comm, part, status, request, newcomm, __func__);
}

/* ---- Without some ranks ---------------------------------------------------------------------- */

static bool is_excluded(int rank, const int *excluded, int n) {
    for (int i = 0; i < n; i++)
        if (excluded[i] == rank)
            return true;
    return false;
}

static ncclResult_t excluded_check(const struct ncclComm *comm, const int *excluded, int n) {
    if (n < 0 || n >= comm->size || (n > 0 && !excluded))
        return face_fail(ncclInvalidArgument,
                         "ncclCommShrink: excludeRanksList is %p with %d ranks, of a communicator "
                         "of %d",
                         (const void *)excluded, n, comm->size);
    for (int i = 0; i < n; i++)
        if (excluded[i] < 0 || excluded[i] >= comm->size || excluded[i] == comm->rank)
            return face_fail(ncclInvalidArgument,
                             "ncclCommShrink: excludeRanksList[%d] is %d. Use other ranks of 0 to "
                             "%d",
                             i, excluded[i], comm->size - 1);
        else if (is_excluded(excluded[i], excluded, i))
            return face_fail(ncclInvalidArgument,
                             "ncclCommShrink: excludeRanksList has rank %d twice. List each rank "
                             "once",
                             excluded[i]);
    return ncclSuccess;
}

/* Ends the operations of comm; also of one that failed or was revoked, whose ranks cannot agree on
 * a subset. A rejected call leaves comm as it was. */
static rcm_status shrink_aborting(struct ncclComm *comm, const int *excluded, int n, int *ranks,
                                  rcm_comm_request **ret_request) {
    for (int i = 0; i < n; i++)
        ranks[i] = rcm_world_rank(comm->rcm, excluded[i]);
    struct rcm_error error = RCM_ERROR_INIT;
    comm_lock();
    const bool revoked = comm->revoked;
    comm->revoked = true; /* first: the call's own abort is no error of comm */
    comm_unlock();
    const rcm_status status =
        rcm_comm_shrink_excluding_begin(comm->rcm, ranks, n, NULL, ret_request);
    const bool ended = status == RCM_OK || rcm_comm_error(comm->rcm, &error) != RCM_OK;
    comm_lock();
    comm->revoked = ended || revoked;
    if (ended)
        orders_release(comm);
    comm_unlock();
    return status;
}

static rcm_status shrink_usable(struct ncclComm *comm, const int *excluded, int n, int *ranks,
                                rcm_comm_request **ret_request) {
    int left = 0;
    for (int r = 0; r < comm->size; r++)
        if (!is_excluded(r, excluded, n))
            ranks[left++] = r;
    return rcm_comm_subset_begin(comm->rcm, ranks, left, 0, NULL, ret_request);
}

NCCL_API(ncclResult_t, ncclCommShrink)
(ncclComm_t comm, int *excluded, int nexcluded, ncclComm_t *newcomm, ncclConfig_t *config,
 int flags) {
    struct rcm_error error = RCM_ERROR_INIT;
    rcm_comm_request *request = NULL;
    struct ncclComm *rest;
    ncclResult_t result = derive_begin(comm, newcomm, config, __func__, &rest);
    if (result != ncclSuccess)
        return result;
    int *ranks = malloc((size_t)comm->size * sizeof *ranks);
    rcm_status status = RCM_OK;
    result = ranks ? excluded_check(comm, excluded, nexcluded)
                   : face_fail(ncclSystemError, "ncclCommShrink: no memory");
    if (result == ncclSuccess)
        status = (flags & NCCL_ABORTING || rcm_comm_error(comm->rcm, &error) != RCM_OK
                      ? shrink_aborting
                      : shrink_usable)(comm, excluded, nexcluded, ranks, &request);
    free(ranks);
    if (result == ncclSuccess)
        return derive_end(comm, rest, status, request, newcomm, __func__);
    comm_forget(rest);
    comm_exit(comm);
    return group_fail(result);
}
