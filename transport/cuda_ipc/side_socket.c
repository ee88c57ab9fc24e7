/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the two ends of a link tell each other beside messages, by a socket of their own, which
 * threads that free memory read as well as the loop thread:
 *
 *      ARENA    the first chunk of my arena is this
 *      CLOSE    I am about to free this allocation of mine
 *      CLOSED   I have it open no more, as CLOSE of this number demanded
 *      GONE     I have nothing of yours open any more, and open nothing again: the last one
 *      KEPT     the driver does not close what I have open: of yours, all may stay so until this
 *               process ends. Instead of CLOSED, or of GONE (number 0)
 *      MEMORY   an allocation of mine is this, by the descriptor that comes with it (descriptor.c)
 *      OPENED   I have it open
 *      REFUSED  I do not open it
 *      PING     are you there?
 *      PONG     I am: the answer to as many pings as have come
 *
 * The end of the socket without GONE is that of a process that died, or of a link that was never
 * used. What was exported before it was heard may be open for a while yet, by what the process had
 * begun on its device, and is not taken back; what is exported later is not concerned. Numbers of
 * allocations tell the two apart: the largest one by then was exported before. Should they not
 * grow, more is kept than need be.
 *
 * What the peer had committed before its farewell is read while it is there: until the end of the
 * socket, with GONE or without.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cuda_ipc.h"

struct notice {
    uint64_t kind;
    uint64_t demand;                  /* of CLOSE, and the CLOSED or KEPT that answers it */
    struct rcmi_device_handle handle; /* but of ARENA and MEMORY its buffer only */
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

/* CLOSE, or an answer to it. */
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

void ipc_peer_tell(struct ipc_peer *peer, const struct rcmi_device_handle *arena) {
    pthread_mutex_lock(&peer->lock);
    peer->told = true;
    (void)notice_send(peer, NOTICE_ARENA, arena); /* the first one: there is room */
    pthread_mutex_unlock(&peer->lock);
}

/* ---- Hearing --------------------------------------------------------------------------------- */

/* It is closed, and that is said, once nothing reads it. What finds no place is not answered, and
 * stays with the peer: more are to be closed than can be open. */
static void closing_add(struct ipc_peer *peer, uint64_t buffer, uint64_t demand) {
    struct ipc_closing *place = NULL;
    for (int i = 0; i < RCMI_IMPORTS_MAX; i++) {
        struct ipc_closing *closing = &peer->closing[i];
        if (closing->buffer == buffer || (closing->buffer == 0 && !place))
            place = closing;
        if (closing->buffer == buffer)
            break;
    }
    if (place)
        *place = (struct ipc_closing){.buffer = buffer, .demand = demand};
}

/* An allocation may be registered, and demanded, again while an earlier demand waits: an answer
 * counts for demands up to its own. */
static void debts_closed(struct ipc_peer *peer, uint64_t buffer, uint64_t demand) {
    for (struct ipc_debt *debt = peer->debts; debt; debt = debt->next)
        debt->closed |= debt->buffer == buffer && debt->demand <= demand;
}

/* fd: what came with it, or -1; closed, but that of MEMORY. */
static void notice_take(struct ipc_peer *peer, const struct notice *notice, int fd) {
    peer->heard = true;
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

/* The other end is closed. What was told of nothing, or has said that it is gone, has nothing
 * open. */
static void socket_ended(struct ipc_peer *peer) {
    const uint64_t newest = atomic_load_explicit(&peer->domain->newest, memory_order_relaxed);
    if (peer->told && !peer->left && peer->keeps < newest)
        peer->keeps = newest;
    peer->left = peer->ended = true;
    rcmi_node_ring(peer->domain->node);
}

static void hear_locked(struct ipc_peer *peer) {
    struct notice notice;
    while (peer->sock >= 0 && !peer->ended) {
        size_t len = 0;
        int fd = -1, nfds = 0;
        const rcm_status status =
            rcmi_recv_fds(peer->sock, &notice, sizeof notice, &len, &fd, 1, &nfds);
        if (status == RCM_AGAIN)
            return;
        if (status == RCM_ERR_RESOURCE)
            continue; /* no descriptor is left: that one is lost, and its memory copied */
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

/* That something, or all (0), is closed here, if the driver did close it. */
static bool say_closed(const struct ipc_peer *peer, enum ipc_notice kind,
                       const struct ipc_closing *closed) {
    const bool kept = peer->imports && rcmi_imports_unclosed(peer->imports);
    return notice_close(peer, kept ? NOTICE_KEPT : kind, closed->buffer, closed->demand);
}

static void closing_go_on(struct ipc_peer *peer) {
    for (int i = 0; i < RCMI_IMPORTS_MAX; i++) {
        struct ipc_closing *closing = &peer->closing[i];
        if (closing->buffer != 0 && rcmi_imports_close(peer->imports, closing->buffer) == RCM_OK &&
            say_closed(peer, NOTICE_CLOSED, closing))
            closing->buffer = 0;
    }
}

/* Nothing more is begun on its memory. */
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

/* What the peer waits for. What there is no room for is said the next time: the loop's watch tells
 * of room. */
static void go_on_locked(struct ipc_peer *peer) {
    if (peer->imports)
        imports_go_on(peer);
    while (peer->unanswered > 0 && notice_send(peer, NOTICE_PONG, NULL))
        peer->unanswered--;
    if (is_over(peer) && !peer->said && (!peer->imports || rcmi_imports_quiet(peer->imports)))
        peer->said = say_closed(peer, NOTICE_GONE, &(struct ipc_closing){.buffer = 0});
}

bool ipc_peer_hear(struct ipc_peer *peer) {
    pthread_mutex_lock(&peer->lock);
    hear_locked(peer);
    /* Its copy arrived: this end of it would hide the peer's end. */
    if (peer->heard)
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
    hear_locked(peer);
    go_on_locked(peer);
    const rcm_status status = inquiry_look(peer, *ping);
    pthread_mutex_unlock(&peer->lock);
    return status;
}

/* The copy of the peer's end hides that the peer has died, if that was before it said anything. A
 * frame that still waits may name the descriptor, so its number stays, of another file. */
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

/* ---- Debts ----------------------------------------------------------------------------------- */

static void debt_say(const struct ipc_peer *peer, struct ipc_debt *debt) {
    if (!debt->said && !debt->closed)
        debt->said = notice_close(peer, NOTICE_CLOSE, debt->buffer, debt->demand);
}

/* What was told of nothing has opened nothing. */
void ipc_peer_demand(struct ipc_peer *peer, uint64_t buffer, struct ipc_debt *debt) {
    pthread_mutex_lock(&peer->lock);
    *debt = (struct ipc_debt){
        .next = peer->debts, .buffer = buffer, .demand = ++peer->demands, .closed = !peer->told};
    peer->debts = debt;
    debt_say(peer, debt);
    ipc_exported_end(peer, buffer);
    pthread_mutex_unlock(&peer->lock);
}

bool ipc_peer_owes(struct ipc_peer *peer, struct ipc_debt *debt) {
    (void)ipc_peer_hear(peer);
    pthread_mutex_lock(&peer->lock);
    debt_say(peer, debt);
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
