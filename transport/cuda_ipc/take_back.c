/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of this node that is to be freed, and the end of its peers: both wait until peers have
 * closed what they have open, by what the two ends tell each other (side_socket.c).
 */
#include <stdlib.h>
#include <time.h>
#include "cuda_ipc.h"

/* ---- Taking back ----------------------------------------------------------------------------- */

static void pause_a_moment(void) {
    const struct timespec pause = {.tv_nsec = 100000};
    (void)nanosleep(&pause, NULL);
}

static struct ipc_peer *peers_first(struct ipc_domain *domain) {
    pthread_mutex_lock(&domain->arena->lock);
    struct ipc_peer *first = domain->peers;
    pthread_mutex_unlock(&domain->arena->lock);
    return first;
}

static bool any_owes(struct ipc_peer *first, struct ipc_debt *debts) {
    bool any = false;
    for (struct ipc_peer *peer = first; peer; peer = peer->next)
        any |= ipc_peer_owes(peer, debts++);
    return any;
}

static bool settle(struct ipc_peer *first, struct ipc_debt *debts) {
    bool all = true;
    for (struct ipc_peer *peer = first; peer; peer = peer->next)
        all &= ipc_peer_settle(peer, debts++);
    return all;
}

/* debts: one of each peer. */
static bool take_back(struct ipc_peer *first, struct ipc_debt *debts, uint64_t buffer,
                      rcmi_deadline deadline) {
    struct ipc_debt *debt = debts;
    for (struct ipc_peer *peer = first; peer; peer = peer->next)
        ipc_peer_demand(peer, buffer, debt++);
    while (any_owes(first, debts) && !rcmi_deadline_passed(deadline))
        pause_a_moment();
    return settle(first, debts);
}

bool ipc_take_back(struct ipc_domain *domain, uint64_t buffer, rcmi_deadline deadline) {
    struct ipc_peer *const first = peers_first(domain);
    size_t n = 0;
    for (const struct ipc_peer *peer = first; peer; peer = peer->next)
        n++;
    struct ipc_debt *debts = n > 0 ? rcmi_zalloc(n * sizeof *debts) : NULL;
    const bool back = n == 0 || (debts && take_back(first, debts, buffer, deadline));
    free(debts);
    return back;
}

/* ---- The end --------------------------------------------------------------------------------- */

static bool peer_is_through(struct ipc_peer *peer) {
    (void)ipc_peer_hear(peer);
    pthread_mutex_lock(&peer->lock);
    const bool through = peer->said && (peer->left || peer->sock < 0);
    pthread_mutex_unlock(&peer->lock);
    return through;
}

static bool peers_are_through(struct ipc_peer *first) {
    bool all = true;
    for (struct ipc_peer *peer = first; peer; peer = peer->next)
        all &= peer_is_through(peer);
    return all;
}

/* The device's thread, which may be in what it was told to call, finds none from here on. */
static struct ipc_proof *proof_take(struct ipc_peer *peer) {
    pthread_mutex_lock(&peer->lock);
    struct ipc_proof *proof = peer->proof;
    peer->proof = NULL;
    pthread_mutex_unlock(&peer->lock);
    return proof;
}

/* The device's thread may touch it still. */
static void peer_leave(const struct ipc_peer *peer) {
    pthread_mutex_lock(&peer->home->lock);
    peer->home->stays = true;
    pthread_mutex_unlock(&peer->home->lock);
}

static bool peer_end(struct ipc_peer *peer) {
    pthread_mutex_lock(&peer->lock);
    const bool said = peer->said;
    const bool clean = said && peer->keeps == 0 && (peer->left || peer->sock < 0);
    rcmi_fd_close(&peer->sock);
    rcmi_fd_close(&peer->other);
    pthread_mutex_unlock(&peer->lock);
    if (!said || !ipc_proof_end(proof_take(peer))) {
        peer_leave(peer);
        return false;
    }
    rcmi_imports_free(peer->imports);
    pthread_mutex_destroy(&peer->lock);
    free(peer);
    return clean;
}

/* The device's thread, which tells peers that the arena has grown, finds none from here on. */
static struct ipc_peer *peers_take(struct ipc_domain *domain) {
    pthread_mutex_lock(&domain->arena->lock);
    struct ipc_peer *first = domain->peers;
    domain->peers = NULL;
    pthread_mutex_unlock(&domain->arena->lock);
    return first;
}

static void peer_closes(struct ipc_peer *peer) {
    pthread_mutex_lock(&peer->lock);
    rcmi_fd_close(&peer->other); /* no control stream carries it any more */
    pthread_mutex_unlock(&peer->lock);
    ipc_peer_down(peer);
}

bool ipc_peers_end(struct ipc_domain *domain, rcmi_deadline deadline) {
    struct ipc_peer *first = peers_take(domain);
    bool clean = true;
    for (struct ipc_peer *peer = first; peer; peer = peer->next)
        peer_closes(peer);
    while (!peers_are_through(first) && !rcmi_deadline_passed(deadline))
        pause_a_moment();
    while (first) {
        struct ipc_peer *peer = first;
        first = peer->next;
        clean &= peer_end(peer);
    }
    return clean;
}
