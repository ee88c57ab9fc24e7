/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The send queue of a link. Its entries are freed only by completions that were requested, one for
 * every VERBS_SIGNAL entries. Therefore entries are counted here, and nothing is posted that might
 * find the queue full. Ends without room wait in a list until completions or the peer's credits
 * make room.
 */
#include <sched.h>
#include <string.h>
#include "verbs.h"

/* Entries of the send queue; one is always left for a probe. */
enum { MESSAGE_ENTRIES = 2 /* at most */, PROBE_ENTRIES = 1 };

void verbs_lock_take(struct verbs_lock *lock) {
    while (!verbs_lock_try(lock))
        sched_yield();
}

/* ---- Entries --------------------------------------------------------------------------------- */

static uint32_t entries_free(const struct verbs_link *link) {
    return VERBS_SENDS - (uint32_t)(link->posted - link->done);
}

/* `reserve`: number of the peer's receives that must stay unused. */
static bool has_room(const struct verbs_link *link, uint32_t reserve) {
    return link->qp && link->state != VERBS_BROKEN &&
           entries_free(link) >= MESSAGE_ENTRIES + PROBE_ENTRIES && link->credits > reserve;
}

bool verbs_entry_done(const struct verbs_link *link, uint64_t entry) {
    return link->reached >= entry || verbs_link_still(link);
}

static struct verbs_notice *notice_place(const struct verbs_link *link, uint32_t i) {
    return (struct verbs_notice *)(link->notices.memory + (size_t)i * VERBS_NOTICE_STEP);
}

rcm_status verbs_post_receive(struct verbs_link *link, uint32_t i) {
    struct ibv_sge piece = {.addr = (uintptr_t)notice_place(link, i),
                            .length = sizeof(struct verbs_notice),
                            .lkey = link->notices.mr->lkey};
    struct ibv_recv_wr receive = {
        .wr_id = VERBS_ID_RECEIVE | verbs_id(link, i), .sg_list = &piece, .num_sge = 1};
    struct ibv_recv_wr *bad;
    const int error = link->domain->table->post_recv(link->qp, &receive, &bad);
    if (error)
        return rcmi_fail_peer(RCM_ERR_SYSTEM, link->peer,
                              "posting a receive for rank %d failed: %s", link->peer,
                              strerror(error));
    return RCM_OK;
}

/* Posts the list from wr to last, of n entries. */
static bool post(struct verbs_link *link, struct ibv_send_wr *wr, struct ibv_send_wr *last,
                 uint32_t n, bool signal) {
    struct ibv_send_wr *bad;
    link->posted += n;
    link->unsignalled += n;
    if (signal || link->unsignalled >= VERBS_SIGNAL) {
        last->send_flags |= IBV_SEND_SIGNALED;
        link->unsignalled = 0;
    }
    last->wr_id |= verbs_id(link, link->posted);
    const int error = link->domain->table->post_send(link->qp, wr, &bad);
    if (error == 0)
        return true;
    (void)rcmi_fail_peer(RCM_ERR_SYSTEM, link->peer, "posting a send to rank %d failed: %s",
                         link->peer, strerror(error));
    verbs_link_break(link);
    return false;
}

/* Posts the notice, after `before`, an RDMA write, unless that is NULL. */
static bool post_with(struct verbs_link *link, struct ibv_send_wr *before,
                      const struct verbs_notice *notice, size_t bytes, bool signal) {
    const size_t len = VERBS_NOTICE_HEAD + bytes;
    struct verbs_notice *place =
        notice_place(link, VERBS_RECEIVES + (uint32_t)((link->posted + 1) % VERBS_SENDS));
    memcpy(place, notice, len);
    place->receives = link->owed;
    struct ibv_sge piece = {
        .addr = (uintptr_t)place, .length = (uint32_t)len, .lkey = link->notices.mr->lkey};
    struct ibv_send_wr send = {.sg_list = &piece,
                               .num_sge = 1,
                               .opcode = IBV_WR_SEND,
                               .send_flags = len <= link->inline_max ? IBV_SEND_INLINE : 0};
    if (before)
        before->next = &send;
    if (!post(link, before ? before : &send, &send, before ? 2 : 1, signal))
        return false;
    link->owed = 0;
    link->credits--;
    return true;
}

bool verbs_post_notice(struct verbs_link *link, enum verbs_kind kind) {
    struct verbs_notice notice = {.kind = kind};
    if (kind == VERBS_HELLO && link->probed.mr) {
        notice.meta = (uintptr_t)link->probed.memory;
        notice.len = link->probed.mr->rkey;
    }
    return has_room(link, 0) && post_with(link, NULL, &notice, 0, kind == VERBS_HELLO);
}

void verbs_post_probe(struct verbs_link *link) {
    struct ibv_sge to;
    struct ibv_send_wr probe = {.wr_id = VERBS_ID_PROBE, .opcode = IBV_WR_RDMA_WRITE};
    if (!link->qp || link->state == VERBS_BROKEN || link->probing || entries_free(link) == 0)
        return;
    if (!link->port->method->acknowledges) {
        if (!link->hello_received)
            return; /* the hello contains the address to read */
        to = (struct ibv_sge){.addr = (uintptr_t)link->probed.memory + VERBS_PROBED,
                              .length = VERBS_PROBED,
                              .lkey = link->probed.mr->lkey};
        probe.opcode = IBV_WR_RDMA_READ;
        probe.sg_list = &to;
        probe.num_sge = 1;
        probe.wr.rdma.remote_addr = link->far_probed;
        probe.wr.rdma.rkey = link->far_probed_key;
    }
    link->answer_by = rcmi_deadline_in(link->domain->peer_timeout_ms);
    link->probing = post(link, &probe, &probe, 1, true);
    link->probe = link->posted;
}

/* ---- Ends ------------------------------------------------------------------------------------ */

/* Writes the message to posted memory, or to its slot; the source is its memory or its slot. */
static bool post_message(struct verbs_link *link, struct verbs_end *end) {
    const uint32_t slot = (uint32_t)(end->posted % end->slots);
    struct verbs_message *message = &end->messages[slot];
    struct verbs_post *to = verbs_put_post(end, end->posted, message->len);
    const bool tiny = message->len <= RCMI_TINY;
    const uint8_t *bytes =
        message->bytes ? message->bytes : end->region.memory + slot * end->stride;
    struct verbs_notice notice = {.kind = to ? VERBS_PUT : VERBS_DATA,
                                  .end = end->far,
                                  .len = message->len,
                                  .meta = message->meta};
    if (tiny)
        memcpy(notice.bytes, bytes, message->len);
    struct ibv_sge piece = {.addr = (uintptr_t)bytes,
                            .length = message->len,
                            .lkey = message->bytes ? message->lkey : end->region.mr->lkey};
    struct ibv_send_wr write = {
        .sg_list = &piece,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE,
        .wr.rdma = {.remote_addr = to ? to->is.address : end->remote + slot * end->stride,
                    .rkey = to ? to->is.rkey : end->rkey}};
    if (!post_with(link, tiny ? NULL : &write, &notice, tiny ? message->len : 0, false))
        return false;
    message->entry = link->posted;
    verbs_put_pass(end, end->posted);
    end->posted++;
    return true;
}

static bool post_credit(struct verbs_link *link, struct verbs_end *end) {
    const uint32_t owed = atomic_exchange(&end->owed, 0);
    const struct verbs_notice notice = {.kind = VERBS_CREDIT, .end = end->far, .meta = owed};
    return owed == 0 || end->closed || post_with(link, NULL, &notice, 0, false);
}

/* Posts the end of stream. The end is done when its entry is. */
static bool post_end(struct verbs_link *link, struct verbs_end *end) {
    const struct verbs_notice notice = {.kind = VERBS_END, .end = end->far};
    if (!post_with(link, NULL, &notice, 0, true))
        return false;
    end->ended = true;
    end->last = link->posted;
    return true;
}

/* Posts a notice without data for the end. */
static bool post_empty(struct verbs_link *link, const struct verbs_end *end, enum verbs_kind kind) {
    const struct verbs_notice notice = {.kind = kind, .end = end->far};
    return has_room(link, 1) && post_with(link, NULL, &notice, 0, false);
}

/* Announces a posted receive, with the owed credits. */
static bool post_posted(struct verbs_link *link, struct verbs_end *end, struct verbs_post *post) {
    struct verbs_notice notice = {.kind = VERBS_POSTED, .end = end->far};
    if (!has_room(link, 1))
        return false;
    memcpy(notice.bytes, &post->is, sizeof post->is);
    notice.meta = atomic_exchange(&end->owed, 0);
    if (!post_with(link, NULL, &notice, sizeof post->is, false))
        return false;
    post->announced = true;
    end->unannounced--;
    return true;
}

static bool reader_post(struct verbs_link *link, struct verbs_end *end) {
    struct verbs_post *post;
    while ((post = verbs_put_unannounced(end)))
        if (!post_posted(link, end, post))
            return false;
    if (end->withdraw == VERBS_WITHDRAW_WANTED) {
        if (!post_empty(link, end, VERBS_WITHDRAW))
            return false;
        end->withdraw = VERBS_WITHDRAW_SENT;
    }
    return has_room(link, 1) && post_credit(link, end);
}

/* Posts everything that the end has to send, as far as there is room. False: no room left. */
static bool end_post(struct verbs_link *link, struct verbs_end *end) {
    const uint64_t committed = atomic_load_explicit(&end->committed, memory_order_acquire);
    if (!end->is_writer)
        return reader_post(link, end);
    if (end->answers && !post_empty(link, end, VERBS_WITHDRAWN))
        return false;
    end->answers = false;
    while (end->posted < committed)
        if (!has_room(link, 1) || !post_message(link, end))
            return false;
    return !end->closed || end->ended || (has_room(link, 1) && post_end(link, end));
}

static void waiting_add(struct verbs_link *link, struct verbs_end *end) {
    if (end->waiting)
        return;
    end->waiting = true;
    end->next = NULL;
    if (link->first)
        link->last->next = end;
    else
        link->first = end;
    link->last = end;
}

static void waiting_take(struct verbs_link *link) {
    struct verbs_end *end = link->first;
    link->first = end->next;
    end->waiting = false;
    if (!end->ended || !end->is_writer)
        return;
    end->next = link->dying;
    link->dying = end;
}

void verbs_post_forget(struct verbs_link *link, const struct verbs_end *end) {
    struct verbs_end **at = &link->first, *before = NULL;
    while (*at && *at != end) {
        before = *at;
        at = &(*at)->next;
    }
    if (!*at)
        return;
    *at = end->next;
    if (link->last == end)
        link->last = before;
}

void verbs_post_waiting(struct verbs_link *link) {
    while (link->first && end_post(link, link->first))
        waiting_take(link);
    verbs_count(link->domain, &link->blocked,
                link->first && link->qp && link->state != VERBS_BROKEN);
}

void verbs_post_later(struct verbs_link *link, struct verbs_end *end) {
    waiting_add(link, end);
    verbs_post_waiting(link);
}

/* ---- Deferred to the next progress ----------------------------------------------------------- */

void verbs_owe(struct verbs_link *link, struct verbs_end *end) {
    struct verbs_domain *domain = link->domain;
    if (!link->qp)
        return; /* the link is down and may be freed: it is not listed again */
    waiting_add(link, end);
    verbs_lock_take(&domain->owing_lock);
    if (!link->listed) {
        link->next_owing = domain->owing;
        domain->owing = link;
        link->listed = true;
        atomic_store_explicit(&domain->owes, true, memory_order_relaxed);
    }
    verbs_lock_drop(&domain->owing_lock);
}

static struct verbs_link *owing_take(struct verbs_domain *domain) {
    verbs_lock_take(&domain->owing_lock);
    struct verbs_link *link = domain->owing;
    if (link) {
        domain->owing = link->next_owing;
        link->listed = false;
    }
    atomic_store_explicit(&domain->owes, domain->owing != NULL, memory_order_relaxed);
    verbs_lock_drop(&domain->owing_lock);
    return link;
}

bool verbs_pay(struct verbs_domain *domain) {
    bool any = false;
    while (atomic_load_explicit(&domain->owes, memory_order_relaxed)) {
        struct verbs_link *link = owing_take(domain);
        if (!link)
            break;
        verbs_lock_take(&link->lock);
        verbs_post_waiting(link);
        verbs_lock_drop(&link->lock);
        any = true;
    }
    return any;
}

void verbs_owe_nothing(struct verbs_link *link) {
    struct verbs_domain *domain = link->domain;
    verbs_lock_take(&domain->owing_lock);
    struct verbs_link **at = &domain->owing;
    while (*at && *at != link)
        at = &(*at)->next_owing;
    if (*at)
        *at = link->next_owing;
    link->listed = false;
    verbs_lock_drop(&domain->owing_lock);
}
