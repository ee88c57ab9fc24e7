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
    struct ncclComm *comm;
    if (!newcomm)
        return face_fail(ncclInvalidArgument, "ncclCommInitRank: newcomm is NULL");
    *newcomm = NULL;
    if (nranks < 1 || rank < 0 || rank >= nranks)
        return face_fail(ncclInvalidArgument,
                         "ncclCommInitRank: rank %d of %d. Ranks are 0 to nranks - 1", rank,
                         nranks);
    ncclResult_t result = driver_check_device(device);
    if (result == ncclSuccess)
        result = comm_new(device, NULL, config, &comm);
    if (result != ncclSuccess)
        return result;
    comm_lock();
    comm->rank = rank;
    comm->size = nranks;
    result = face_result(init_begin(comm, id), "ncclCommInitRank");
    if (result == ncclSuccess)
        *newcomm = comm;
    else
        comm_free(comm);
    comm_unlock();
    return result == ncclSuccess ? comm_await(comm) : result;
}

static ncclResult_t init_here(ncclComm_t *newcomm, int nranks, int rank, const ncclUniqueId *id,
                              const ncclConfig_t *config) {
    int device = 0;
    if (newcomm)
        *newcomm = NULL;
    const ncclResult_t result = driver_device(&device);
    return group_fail(result == ncclSuccess ? init_rank(newcomm, nranks, rank, device, id, config)
                                            : result);
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
    ncclResult_t result = pncclGetUniqueId(&id);
    if (result != ncclSuccess)
        return result;
    (void)pncclGroupStart();
    for (int i = 0; i < ndevices; i++)
        (void)group_fail(init_rank(&comms[i], ndevices, i, devices ? devices[i] : i, &id, NULL));
    result = pncclGroupEnd();
    for (int i = 0; i < ndevices && result != ncclSuccess; i++) {
        (void)pncclCommAbort(comms[i]);
        comms[i] = NULL;
    }
    return result;
}

/* ---- From a communicator --------------------------------------------------------------------- */

/* How one is made from a parent, by ncclCommSplit or ncclCommShrink. */
struct derivation {
    const char *name;
    ncclResult_t (*begin)(struct ncclComm *parent, const struct derivation *d,
                          rcm_comm_request **ret_request);
    int colour, key;
    const int *excluded;
    int nexcluded, flags;
};

/* parent was entered. */
static ncclResult_t derive_from(struct ncclComm *parent, const struct derivation *d,
                                const ncclConfig_t *config, ncclComm_t *newcomm) {
    rcm_comm_request *request = NULL;
    struct ncclComm *comm;
    ncclResult_t result = comm_new(parent->device, parent, config, &comm);
    if (result != ncclSuccess)
        return result;
    comm_lock();
    comm->ends_alone = d->colour < 0;
    comm_unlock();
    result = d->begin(parent, d, &request);
    comm_lock();
    comm->request = request;
    comm->parent = parent;
    if (result != ncclSuccess)
        comm_free(comm);
    else if (!comm->ends_alone)
        *newcomm = comm;
    comm_unlock();
    return result == ncclSuccess ? comm_await(comm) : result;
}

static ncclResult_t derive(struct ncclComm *parent, const struct derivation *d,
                           const ncclConfig_t *config, ncclComm_t *newcomm) {
    if (!newcomm)
        return face_fail(ncclInvalidArgument, "%s: newcomm is NULL", d->name);
    *newcomm = NULL;
    ncclResult_t result = comm_enter(parent, COMM_ANY, d->name);
    if (result != ncclSuccess)
        return result;
    result = derive_from(parent, d, config, newcomm);
    comm_exit(parent);
    return result;
}

static ncclResult_t split_begin(struct ncclComm *comm, const struct derivation *d,
                                rcm_comm_request **ret_request) {
    return face_result(rcm_comm_split_begin(comm->rcm, d->colour, d->key, NULL, ret_request),
                       d->name);
}

NCCL_API(ncclResult_t, ncclCommSplit)
(ncclComm_t comm, int colour, int key, ncclComm_t *newcomm, ncclConfig_t *config) {
    const struct derivation d = {
        .name = __func__, .begin = split_begin, .colour = colour, .key = key};
    if (colour < NCCL_NO_COLOUR)
        return group_fail(face_fail(ncclInvalidArgument,
                                    "ncclCommSplit: color is %d. Use 0 and above, or "
                                    "NCCL_SPLIT_NOCOLOR",
                                    colour));
    return group_fail(derive(comm, &d, config, newcomm));
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
        if (excluded[i] < 0 || excluded[i] >= comm->size || excluded[i] == comm->rank ||
            is_excluded(excluded[i], excluded, i))
            return face_fail(ncclInvalidArgument,
                             "ncclCommShrink: excludeRanksList[%d] is %d. List ranks of 0 to %d "
                             "other than this one, none twice",
                             i, excluded[i], comm->size - 1);
    return ncclSuccess;
}

/* Ends the operations of comm; also of one that failed or was revoked, whose ranks cannot agree on
 * a subset. A rejected call leaves comm as it was; one that fails later has ended them too. */
static rcm_status shrink_aborting(struct ncclComm *comm, const struct derivation *d, int *ranks,
                                  rcm_comm_request **ret_request) {
    struct rcm_error error = RCM_ERROR_INIT;
    for (int i = 0; i < d->nexcluded; i++)
        ranks[i] = rcm_world_rank(comm->rcm, d->excluded[i]);
    comm_lock();
    comm->shrinking++;
    comm_unlock();
    const bool worked = rcm_comm_error(comm->rcm, &error) == RCM_OK;
    const rcm_status status =
        rcm_comm_shrink_excluding_begin(comm->rcm, ranks, d->nexcluded, NULL, ret_request);
    const bool ended = status == RCM_OK || (worked && rcm_comm_error(comm->rcm, &error) != RCM_OK);
    comm_lock();
    comm->shrinking--;
    comm->revoked |= ended;
    if (ended)
        orders_release(comm);
    comm_unlock();
    return status;
}

static rcm_status shrink_usable(struct ncclComm *comm, const struct derivation *d, int *ranks,
                                rcm_comm_request **ret_request) {
    int left = 0;
    for (int r = 0; r < comm->size; r++)
        if (!is_excluded(r, d->excluded, d->nexcluded))
            ranks[left++] = r;
    return rcm_comm_subset_begin(comm->rcm, ranks, left, 0, NULL, ret_request);
}

static ncclResult_t shrink_begin(struct ncclComm *comm, const struct derivation *d,
                                 rcm_comm_request **ret_request) {
    struct rcm_error error = RCM_ERROR_INIT;
    ncclResult_t result = excluded_check(comm, d->excluded, d->nexcluded);
    if (result != ncclSuccess)
        return result;
    int *ranks = malloc((size_t)comm->size * sizeof *ranks);
    if (!ranks)
        return face_fail(ncclSystemError, "ncclCommShrink: no memory");
    const bool aborts = d->flags & NCCL_ABORTING || rcm_comm_error(comm->rcm, &error) != RCM_OK;
    result = face_result((aborts ? shrink_aborting : shrink_usable)(comm, d, ranks, ret_request),
                         d->name);
    free(ranks);
    return result;
}

NCCL_API(ncclResult_t, ncclCommShrink)
(ncclComm_t comm, int *excluded, int nexcluded, ncclComm_t *newcomm, ncclConfig_t *config,
 int flags) {
    const struct derivation d = {.name = __func__,
                                 .begin = shrink_begin,
                                 .excluded = excluded,
                                 .nexcluded = nexcluded,
                                 .flags = flags};
    return group_fail(derive(comm, &d, config, newcomm));
}
