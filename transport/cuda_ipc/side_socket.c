/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notices between the two ends of a link, by a separate socket. Threads that free memory read it as
 * well as the loop thread:
 *
 *      ARENA    the location of my arena's first chunk
 *      CLOSE    I am about to free this allocation of mine
 *      CLOSED   I have closed it, as demanded by the CLOSE of this number
 *      GONE     I have none of your memory open and will not open any again; the last notice
 *      KEPT     the driver does not close your memory here: all of it may stay open until this
 *               process ends. Instead of CLOSED, or of GONE (number 0)
 *      MEMORY   an allocation of mine, with its descriptor (descriptor.c)
 *      OPENED   I have opened it
 *      REFUSED  I cannot open it
 *      PING     are you alive?
 *      PONG     yes: one for each PING
 *
 * If the socket ends without GONE, the process died or the link was never used. The dead process
 * may have started operations that still use memory exported before its end was seen; that memory
 * is not reclaimed. Memory exported later is not affected. The numbers of allocations distinguish
 * the two: every number up to the largest one at that time was exported before. If numbers do not
 * grow, more is kept than necessary.
 *
 * Messages that the peer committed before its farewell are read until the socket ends, with or
 * without GONE.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cuda_ipc.h"

struct notice {
    uint64_t kind;
    uint64_t demand;                  /* number of CLOSE, and of the CLOSED or KEPT answering it */
    struct rcmi_device_handle handle; /* except for ARENA and MEMORY only its buffer is set */
};

static bool notice_put(const struct ipc_peer *peer, const struct notice *notice, int fd) {
    return peer->sock < 0 ||
           rcmi_send_fds(peer->sock, notice, sizeof *notice, &fd, fd >= 0) != RCM_AGAIN;
}

bool ipc_notice_send(const struct ipc_peer *peer, enum ipc_notice kind,
                     const struct rcmi_device_handle *handle, int fd) {
    struct notice notice = {.kind = kind};
    if (handle)
        notice.handle = *handle;
    return notice_put(peer, &notice, fd);
}

static bool notice_send(const struct ipc_peer *peer, enum ipc_notice kind,
                        const struct rcmi_device_handle *handle) {
    return ipc_notice_send(peer, kind, handle, -1);
}

/* Sends CLOSE, or an answer to it. */
static bool notice_close(const struct ipc_peer *peer, enum ipc_notice kind, uint64_t buffer,
                         uint64_t demand) {
    const struct notice notice = {.kind = kind, .demand = demand, .handle.buffer = buffer};
    return notice_put(peer, &notice, -1);
}

/* ---- Peers ----------------------------------------------------------------------------------- */

bool ipc_peer_makes_socket(const struct ipc_peer *peer) {
    return rcmi_node_rank(peer->domain->node) < peer->rank;
}

rcm_status ipc_peer_make(struct ipc_domain *domain, int rank, struct ipc_peer **ret_peer) {
    struct ipc_peer *peer = rcmi_zalloc(sizeof *peer);
    int pair[2] = {-1, -1};
    if (!peer)
        return RCM_ERR_NOMEM;
    peer->domain = domain;
    peer->home = domain->arena;
    peer->device = domain->device;
    peer->rank = rank;
    if (ipc_peer_makes_socket(peer) &&
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0) {
        free(peer);
        return rcmi_fail(rcmi_status_of_errno(errno), errno, "no socket for device memory");
    }
    peer->sock = rcmi_fd_high(pair[0]);
    peer->other = rcmi_fd_high(pair[1]);
    if ((peer->sock < 0 || peer->other < 0) && ipc_peer_makes_socket(peer)) {
        const int sys_errno = errno;
        rcmi_fd_close(&peer->sock);
        rcmi_fd_close(&peer->other);
        free(peer);
        return rcmi_fail(rcmi_status_of_errno(sys_errno), sys_errno, "no socket for device memory");
    }
    rcmi_fd_own(peer->sock);
    rcmi_fd_own(peer->other);
    pthread_mutex_init(&peer->lock, NULL);
    pthread_mutex_lock(&domain->arena->lock);
    peer->next = domain->peers;
    domain->peers = peer;
    pthread_mutex_unlock(&domain->arena->lock);
    *ret_peer = peer;
    return RCM_OK;
}

void ipc_peer_join(struct ipc_peer *peer, int sock) {
    pthread_mutex_lock(&peer->lock);
    peer->sock = sock;
    rcmi_fd_own(sock);
    pthread_mutex_unlock(&peer->lock);
}

void ipc_peer_send_arena(struct ipc_peer *peer, const struct rcmi_device_handle *arena) {
    pthread_mutex_lock(&peer->lock);
    peer->arena_sent = true;
    (void)notice_send(peer, NOTICE_ARENA, arena); /* the first notice: there is room */
    pthread_mutex_unlock(&peer->lock);
}

/* ---- Receiving ------------------------------------------------------------------------------- */

/* Notes an allocation to be closed and confirmed once no operation reads it. Without a free entry
 * the demand is never answered, and the memory stays with the peer; more demands than possible
 * imports cannot be genuine. */
static void closing_add(struct ipc_peer *peer, uint64_t buffer, uint64_t demand) {
    struct ipc_closing *place = NULL;
    for (int i = 0; i < RCMI_IMPORTS_MAX; i++) {
        struct ipc_closing *closing = &peer->closing[i];
        if (closing->buffer == buffer || (closing->buffer == 0 && !place))
            place = closing;
        if (closing->buffer == buffer)
            break;
    }
    const uint64_t now = peer->imports ? rcmi_imports_time(peer->imports) : 0;
    if (place)
        *place = (struct ipc_closing){.buffer = buffer, .demand = demand, .time = now};
}

/* An allocation may be registered and demanded again while an earlier demand is outstanding: an
 * answer covers demands up to its own number. */
static void debts_closed(struct ipc_peer *peer, uint64_t buffer, uint64_t demand) {
    for (struct ipc_debt *debt = peer->debts; debt; debt = debt->next)
        debt->closed |= debt->buffer == buffer && debt->demand <= demand;
}

/* fd: the descriptor that came with the notice, or -1. Closed here, except for MEMORY. */
static void notice_take(struct ipc_peer *peer, const struct notice *notice, int fd) {
    peer->received = true;
    if (notice->kind != NOTICE_MEMORY)
        rcmi_fd_close(&fd);
    switch (notice->kind) {
    case NOTICE_ARENA:
        peer->arena = notice->handle;
        rcmi_node_link_changed(peer->domain->node, peer->rank);
        break;
    case NOTICE_CLOSE:
        closing_add(peer, notice->handle.buffer, notice->demand);
        ipc_imported_drop(peer, notice->handle.buffer);
        break;
    case NOTICE_CLOSED:
        debts_closed(peer, notice->handle.buffer, notice->demand);
        break;
    case NOTICE_GONE:
        peer->left = true;
        break;
    case NOTICE_KEPT:
        peer->keeps = UINT64_MAX;
        peer->left |= notice->handle.buffer == 0;
        break;
    case NOTICE_MEMORY:
        ipc_imported_begin(peer, &notice->handle, fd);
        break;
    case NOTICE_OPENED:
    case NOTICE_REFUSED:
        ipc_exported_answered(peer, notice->handle.buffer, notice->kind == NOTICE_OPENED);
        break;
    case NOTICE_PING:
        peer->unanswered++;
        break;
    case NOTICE_PONG:
        peer->pongs++;
        rcmi_node_ring(peer->domain->node);
        break;
    default:
        break;
    }
}

/* The other end is closed. A peer that received no ARENA, or that sent GONE, has nothing open. */
static void socket_ended(struct ipc_peer *peer) {
    const uint64_t newest = atomic_load_explicit(&peer->domain->newest, memory_order_relaxed);
    if (peer->arena_sent && !peer->left && peer->keeps < newest)
        peer->keeps = newest;
    peer->left = peer->ended = true;
    rcmi_node_ring(peer->domain->node);
}

static void receive_locked(struct ipc_peer *peer) {
    struct notice notice;
    while (peer->sock >= 0 && !peer->ended) {
        size_t len = 0;
        int fd = -1, nfds = 0;
        const rcm_status status =
            rcmi_recv_fds(peer->sock, &notice, sizeof notice, &len, &fd, 1, &nfds);
        if (status == RCM_AGAIN)
            return;
        if (status == RCM_ERR_RESOURCE)
            continue; /* out of descriptors: this one is lost, and its memory is copied instead */
        if (nfds == 0)
            fd = -1;
        rcmi_fd_own(fd);
        if (status == RCM_OK && len == sizeof notice) {
            notice_take(peer, &notice, fd);
        } else {
            rcmi_fd_close(&fd);
            socket_ended(peer);
        }
    }
}

/* Reports that an allocation, or everything (buffer 0), is closed here; KEPT if the driver did not
 * close it. */
static bool send_closed(const struct ipc_peer *peer, enum ipc_notice kind,
                        const struct ipc_closing *closed) {
    const bool kept = peer->imports && rcmi_imports_unclosed(peer->imports);
    return notice_close(peer, kept ? NOTICE_KEPT : kind, closed->buffer, closed->demand);
}

static void closing_go_on(struct ipc_peer *peer) {
    for (int i = 0; i < RCMI_IMPORTS_MAX; i++) {
        struct ipc_closing *closing = &peer->closing[i];
        if (closing->buffer != 0 &&
            rcmi_imports_close(peer->imports, closing->buffer, closing->time) == RCM_OK &&
            send_closed(peer, NOTICE_CLOSED, closing))
            closing->buffer = 0;
    }
}

/* No more operations start on the peer's memory. */
static bool is_over(const struct ipc_peer *peer) {
    return peer->down && (peer->unread == 0 || peer->ended);
}

static void imports_go_on(struct ipc_peer *peer) {
    ipc_proof_rest(peer->proof);
    if (is_over(peer))
        ipc_imported_drop(peer, 0);
    else
        ipc_imported_go_on(peer);
    closing_go_on(peer);
}

/* Sends the notices that the peer waits for. A notice that does not fit is sent when the loop's
 * watch reports room. */
static void go_on_locked(struct ipc_peer *peer) {
    if (peer->imports)
        imports_go_on(peer);
    while (peer->unanswered > 0 && notice_send(peer, NOTICE_PONG, NULL))
        peer->unanswered--;
    if (is_over(peer) && !peer->gone_sent && (!peer->imports || rcmi_imports_quiet(peer->imports)))
        peer->gone_sent = send_closed(peer, NOTICE_GONE, &(struct ipc_closing){.buffer = 0});
}

bool ipc_peer_receive(struct ipc_peer *peer) {
    pthread_mutex_lock(&peer->lock);
    receive_locked(peer);
    /* The peer has received its half. Our copy of that half would hide the end of the peer. */
    if (peer->received)
        rcmi_fd_close(&peer->other);
    go_on_locked(peer);
    const bool ended = peer->ended;
    pthread_mutex_unlock(&peer->lock);
    return ended;
}

void ipc_peer_go_on(struct ipc_peer *peer) {
    pthread_mutex_lock(&peer->lock);
    go_on_locked(peer);
    pthread_mutex_unlock(&peer->lock);
}

/* Under the lock. */
static rcm_status inquiry_look(const struct ipc_peer *peer, uint64_t ping) {
    if (peer->left || peer->sock < 0)
        return rcmi_fail(RCM_ERR_PEER, 0, "its process has ended");
    return ping != 0 && peer->pongs >= ping ? RCM_OK : RCM_AGAIN;
}

rcm_status ipc_peer_inquire(struct ipc_peer *peer, uint64_t *ping) {
    pthread_mutex_lock(&peer->lock);
    if (*ping == 0 && notice_send(peer, NOTICE_PING, NULL))
        *ping = ++peer->pings;
    receive_locked(peer);
    go_on_locked(peer);
    const rcm_status status = inquiry_look(peer, *ping);
    pthread_mutex_unlock(&peer->lock);
    return status;
}

/* Our copy of the peer's half would hide the death of a peer that has sent no notice yet. A queued
 * frame may still refer to the descriptor, so its number is kept, for another file. */
static void other_forget(const struct ipc_peer *peer) {
    if (peer->other >= 0 && !rcmi_fd_distrusted())
        (void)dup3(peer->domain->memfd, peer->other, O_CLOEXEC);
}

void ipc_peer_unread(struct ipc_peer *peer, int more) {
    pthread_mutex_lock(&peer->lock);
    peer->unread += more;
    go_on_locked(peer);
    pthread_mutex_unlock(&peer->lock);
}

void ipc_peer_down(struct ipc_peer *peer) {
    pthread_mutex_lock(&peer->lock);
    peer->down = true;
    other_forget(peer);
    go_on_locked(peer);
    pthread_mutex_unlock(&peer->lock);
}

/* ---- Demands to close ------------------------------------------------------------------------ */

static void debt_send(const struct ipc_peer *peer, struct ipc_debt *debt) {
    if (!debt->close_sent && !debt->closed)
        debt->close_sent = notice_close(peer, NOTICE_CLOSE, debt->buffer, debt->demand);
}

/* A peer that received no ARENA has opened nothing. */
void ipc_peer_demand(struct ipc_peer *peer, uint64_t buffer, struct ipc_debt *debt) {
    pthread_mutex_lock(&peer->lock);
    *debt = (struct ipc_debt){.next = peer->debts,
                              .buffer = buffer,
                              .demand = ++peer->demands,
                              .closed = !peer->arena_sent};
    peer->debts = debt;
    debt_send(peer, debt);
    ipc_exported_end(peer, buffer);
    pthread_mutex_unlock(&peer->lock);
}

bool ipc_peer_owes(struct ipc_peer *peer, struct ipc_debt *debt) {
    (void)ipc_peer_receive(peer);
    pthread_mutex_lock(&peer->lock);
    debt_send(peer, debt);
    const bool owes = !debt->closed && !peer->left && debt->buffer > peer->keeps;
    pthread_mutex_unlock(&peer->lock);
    return owes;
}

bool ipc_peer_settle(struct ipc_peer *peer, struct ipc_debt *debt) {
    struct ipc_debt **at = &peer->debts;
    pthread_mutex_lock(&peer->lock);
    while (*at != debt)
        at = &(*at)->next;
    *at = debt->next;
    const bool back = debt->closed || (peer->left && debt->buffer > peer->keeps);
    pthread_mutex_unlock(&peer->lock);
    return back;
}
