/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests whether this rank's device can read the peer's memory, by reading it: the first bytes of
 * the peer's arena, which are generated from a seed in its offer. Drivers and machines differ in
 * what they refuse, and some do not refuse but return wrong bytes, so only the read counts. Known
 * facts about the two devices only explain a failure.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cuda_ipc.h"

void ipc_proof_fill(unsigned char *bytes, uint64_t seed) {
    uint64_t x = seed | 1;
    for (size_t i = 0; i < IPC_PROOF; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        bytes[i] = (unsigned char)(x >> 24);
    }
}

/* ---- Why not --------------------------------------------------------------------------------- */

static bool is_visible(const char *uuid) {
    struct rcmi_device_facts facts;
    int n = 0;
    if (rcmi_device_count(&n) != RCM_OK)
        return true;
    for (int i = 0; i < n; i++)
        if (rcmi_device_query(i, &facts) == RCM_OK && strcmp(facts.uuid, uuid) == 0)
            return true;
    return false;
}

/* Known facts of the pair that may be the cause. */
static const char *hint(const struct ipc_self *self, const struct ipc_self *other) {
    if (strcmp(self->uuid, other->uuid) == 0)
        return "";
    if (self->mig || other->mig)
        return "MIG instances share no memory; ";
    if (!is_visible(other->uuid))
        return "that device is not visible here; ";
    return "two devices need peer access; ";
}

/* Truncated to the size of the framework's buffer. */
static rcm_status refuse(const struct ipc_link *link, const char *why) {
    const struct ipc_self *self = &link->domain->self;
    char cause[300];
    snprintf(cause, sizeof cause, "%.299s", why);
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "its %s does not read rank %d's %s: %s%s", self->uuid,
                     link->peer->rank, link->other.uuid, hint(self, &link->other), cause);
}

/* The driver would mistake memory of a process with its own pid for its own memory. */
rcm_status ipc_prove_possible(const struct ipc_link *link) {
    const struct ipc_self *self = &link->domain->self;
    char why[160];
    if (self->pid != link->other.pid || self->process == link->other.process)
        return RCM_OK;
    snprintf(why, sizeof why, "both processes have pid %d, in two PID namespaces", self->pid);
    return refuse(link, why);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void proof_wake(void *arg) {
    struct ipc_peer *peer = arg;
    ipc_peer_go_on(peer);
    ipc_arena_notify(peer->home, peer->rank);
}

static void proof_fill(struct ipc_peer *peer, const void *there, struct ipc_proof *proof) {
    proof->all = (struct rcmi_operations){.device = &peer->device, .wake = proof_wake, .arg = peer};
    proof->copy = (struct rcmi_operation){.results = {proof->bytes},
                                          .srcs = {there},
                                          .nresults = 1,
                                          .nsrcs = 1,
                                          .bytes = IPC_PROOF,
                                          .dtype = RCM_UINT8,
                                          .kind = RCMI_MEM_DEVICE,
                                          .all = &proof->all};
}

/* ipc_proof_rest releases the imported memory once no operation runs. Therefore the operation
 * begins before another thread can see the proof. */
static rcm_status proof_begin(struct ipc_peer *peer, struct rcmi_import *import,
                              const void *there) {
    struct ipc_proof *proof = rcmi_zalloc(sizeof *proof);
    if (!proof) {
        rcmi_import_put(import);
        return RCM_ERR_NOMEM;
    }
    proof->import = import;
    proof_fill(peer, there, proof);
    pthread_mutex_lock(&peer->lock);
    peer->proof = proof;
    const rcm_status status = rcmi_operation_begin(&proof->copy);
    pthread_mutex_unlock(&peer->lock);
    return status == RCM_OK ? RCM_AGAIN : status;
}

static rcm_status proof_open(struct ipc_peer *peer) {
    struct rcmi_import *import;
    const void *there;
    pthread_mutex_lock(&peer->lock);
    const struct rcmi_device_handle arena = peer->arena;
    pthread_mutex_unlock(&peer->lock);
    if (arena.buffer == 0)
        return RCM_AGAIN; /* not received yet */
    const rcm_status status =
        rcmi_imports_get(peer->imports, &arena, 0, IPC_PROOF, &import, &there);
    return status == RCM_OK ? proof_begin(peer, import, there) : status;
}

static rcm_status proof_look(const struct ipc_link *link) {
    struct ipc_proof *proof = link->peer->proof;
    unsigned char expected[IPC_PROOF];
    const rcm_status status = rcmi_operation_look(&proof->copy);
    if (status != RCM_OK)
        return status;
    ipc_proof_fill(expected, link->other.seed);
    if (memcmp(expected, proof->bytes, IPC_PROOF) == 0)
        return RCM_OK;
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                     "wrong bytes, possibly because of PCIe ACS or an IOMMU");
}

rcm_status ipc_prove(struct ipc_link *link) {
    const rcm_status status = link->peer->proof ? proof_look(link) : proof_open(link->peer);
    return status < 0 ? refuse(link, rcm_last_error()) : status;
}

void ipc_proof_rest(struct ipc_proof *proof) {
    if (!proof || !proof->import || !rcmi_operations_quiet(&proof->all))
        return;
    rcmi_import_put(proof->import);
    proof->import = NULL;
}

bool ipc_proof_end(struct ipc_proof *proof) {
    if (!proof)
        return true;
    if (!rcmi_operations_quiet(&proof->all))
        return false;
    rcmi_operations_settle(&proof->all);
    free(proof);
    return true;
}
