/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Closing this node's memory at its peers before it is freed, and the end of the peers. Both wait
 * until peers confirm by notices (side_socket.c) that they have closed it.
 */
#include <stdlib.h>
#include <time.h>
#include "cuda_ipc.h"

/* ---- One allocation -------------------------------------------------------------------------- */

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

/* debts: one element per peer. */
static bool reclaim(struct ipc_peer *first, struct ipc_debt *debts, uint64_t buffer,
                    rcmi_deadline deadline) {
    struct ipc_debt *debt = debts;
    for (struct ipc_peer *peer = first; peer; peer = peer->next)
        ipc_peer_demand(peer, buffer, debt++);
    while (any_owes(first, debts) && !rcmi_deadline_passed(deadline))
        pause_a_moment();
    return settle(first, debts);
}

bool ipc_reclaim(struct ipc_domain *domain, uint64_t buffer, rcmi_deadline deadline) {
    struct ipc_peer *const first = peers_first(domain);
    size_t n = 0;
    for (const struct ipc_peer *peer = first; peer; peer = peer->next)
        n++;
    struct ipc_debt *debts = n > 0 ? rcmi_zalloc(n * sizeof *debts) : NULL;
    const bool back = n == 0 || (debts && reclaim(first, debts, buffer, deadline));
    free(debts);
    return back;
}

/* ---- The end --------------------------------------------------------------------------------- */

static bool peer_is_finished(struct ipc_peer *peer) {
    (void)ipc_peer_receive(peer);
    pthread_mutex_lock(&peer->lock);
    const bool finished = peer->gone_sent && (peer->left || peer->sock < 0);
    pthread_mutex_unlock(&peer->lock);
    return finished;
}

static bool peers_are_finished(struct ipc_peer *first) {
    bool all = true;
    for (struct ipc_peer *peer = first; peer; peer = peer->next)
        all &= peer_is_finished(peer);
    return all;
}

/* The device's thread may be running a callback of the proof; from here on it finds none. */
static struct ipc_proof *proof_take(struct ipc_peer *peer) {
    pthread_mutex_lock(&peer->lock);
    struct ipc_proof *proof = peer->proof;
    peer->proof = NULL;
    pthread_mutex_unlock(&peer->lock);
    return proof;
}

/* The device's thread may still use the peer, so its arena is never freed. */
static void peer_leave(const struct ipc_peer *peer) {
    pthread_mutex_lock(&peer->home->lock);
    peer->home->stays = true;
    pthread_mutex_unlock(&peer->home->lock);
}

static bool peer_end(struct ipc_peer *peer) {
    pthread_mutex_lock(&peer->lock);
    const bool gone_sent = peer->gone_sent;
    const bool clean = gone_sent && peer->keeps == 0 && (peer->left || peer->sock < 0);
    rcmi_fd_close(&peer->sock);
    rcmi_fd_close(&peer->other);
    pthread_mutex_unlock(&peer->lock);
    if (!gone_sent || !ipc_proof_end(proof_take(peer))) {
        peer_leave(peer);
        return false;
    }
    rcmi_imports_free(peer->imports);
    pthread_mutex_destroy(&peer->lock);
    free(peer);
    return clean;
}

/* Removes all peers, so that the device's thread no longer notifies them when the arena grows. */
static struct ipc_peer *peers_take(struct ipc_domain *domain) {
    pthread_mutex_lock(&domain->arena->lock);
    struct ipc_peer *first = domain->peers;
    domain->peers = NULL;
    pthread_mutex_unlock(&domain->arena->lock);
    return first;
}

static void peer_closes(struct ipc_peer *peer) {
    pthread_mutex_lock(&peer->lock);
    rcmi_fd_close(&peer->other); /* no control stream needs it any more */
    pthread_mutex_unlock(&peer->lock);
    ipc_peer_down(peer);
}

bool ipc_peers_end(struct ipc_domain *domain, rcmi_deadline deadline) {
    struct ipc_peer *first = peers_take(domain);
    bool clean = true;
    for (struct ipc_peer *peer = first; peer; peer = peer->next)
        peer_closes(peer);
    while (!peers_are_finished(first) && !rcmi_deadline_passed(deadline))
        pause_a_moment();
    while (first) {
        struct ipc_peer *peer = first;
        first = peer->next;
        clean &= peer_end(peer);
    }
    return clean;
}
