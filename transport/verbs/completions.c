/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions of a link's queue pair. Each field of a received notice is checked before use. */
#include <inttypes.h>
#include <string.h>
#include "verbs.h"

/* ---- Notices by kind ------------------------------------------------------------------------- */

/* Finds the notice's end, which must be of the expected kind. *ret_end NULL: a late notice for a
 * writer that is already freed. */
static rcm_status end_of(const struct verbs_link *link, const struct verbs_notice *notice,
                         bool writer, struct verbs_end **ret_end) {
    *ret_end = verbs_end_find(link, notice->end);
    if (!*ret_end && writer)
        return RCM_OK;
    if (!*ret_end || (*ret_end)->is_writer != writer)
        return verbs_link_refuse(link, "a channel's number", notice->end);
    return RCM_OK;
}

/* Returns the location of a message that did not arrive in its slot; NULL if it is in its slot. */
static rcm_status data_place(struct verbs_end *end, const struct verbs_notice *notice,
                             uint64_t number, uint8_t **ret_bytes) {
    *ret_bytes = NULL;
    if (notice->kind == VERBS_PUT) {
        const struct verbs_post *post = verbs_put_post(end, number, notice->len);
        if (!post || !post->announced)
            return verbs_link_refuse(end->link, "a message to memory that is not posted, of length",
                                     notice->len);
        *ret_bytes = (uint8_t *)(uintptr_t)post->is.address;
    }
    verbs_put_pass(end, number);
    return RCM_OK;
}

static rcm_status take_data(struct verbs_link *link, const struct verbs_notice *notice,
                            size_t bytes, bool *ret_rang) {
    struct verbs_end *end = NULL;
    const rcm_status status = end_of(link, notice, false, &end);
    if (status != RCM_OK)
        return status;
    const uint64_t arrived = atomic_load_explicit(&end->arrived, memory_order_relaxed);
    const uint64_t released = atomic_load_explicit(&end->released, memory_order_acquire);
    if (end->ended)
        return verbs_link_refuse(link, "a message after the end of a channel, of length",
                                 notice->len);
    if (notice->len > end->slot_bytes || bytes != (notice->len <= RCMI_TINY ? notice->len : 0))
        return verbs_link_refuse(link, "a length", notice->len);
    if (end->closed)
        return RCM_OK;
    if (arrived - released >= end->slots)
        return verbs_link_refuse(link, "more messages than slots, number", arrived);
    const size_t slot = (size_t)(arrived % end->slots);
    uint8_t *place;
    const rcm_status placed = data_place(end, notice, arrived, &place);
    if (placed != RCM_OK)
        return placed;
    if (bytes > 0)
        memcpy(end->region.memory + slot * end->stride, notice->bytes, bytes);
    end->messages[slot] =
        (struct verbs_message){.len = notice->len, .meta = notice->meta, .bytes = place};
    if (place && end->withdraw != VERBS_WITHDRAW_NONE)
        verbs_message_keep(end, arrived);
    atomic_store_explicit(&end->arrived, arrived + 1, memory_order_release);
    *ret_rang = true;
    return RCM_OK;
}

/* Returns credits to the writer. */
static rcm_status credits_add(struct verbs_end *end, uint64_t credits, bool *ret_rang) {
    const uint64_t returned = atomic_load_explicit(&end->returned, memory_order_relaxed);
    if (credits > end->posted - returned)
        return verbs_link_refuse(end->link, "credits", credits);
    atomic_store_explicit(&end->returned, returned + credits, memory_order_release);
    *ret_rang = true;
    return RCM_OK;
}

static rcm_status take_credit(struct verbs_link *link, const struct verbs_notice *notice,
                              bool *ret_rang) {
    struct verbs_end *end = NULL;
    const rcm_status status = end_of(link, notice, true, &end);
    if (status != RCM_OK || !end)
        return status;
    if (notice->meta == 0)
        return verbs_link_refuse(link, "credits", 0);
    return credits_add(end, notice->meta, ret_rang);
}

static rcm_status take_posted(struct verbs_link *link, const struct verbs_notice *notice,
                              size_t bytes, bool *ret_rang) {
    struct verbs_end *end = NULL;
    struct verbs_posted posted;
    if (bytes != sizeof posted)
        return verbs_link_refuse(link, "bytes in a notice of posted memory", bytes);
    memcpy(&posted, notice->bytes, sizeof posted);
    rcm_status status = end_of(link, notice, true, &end);
    if (status != RCM_OK || !end)
        return status;
    if (notice->meta > 0)
        status = credits_add(end, notice->meta, ret_rang);
    return status == RCM_OK ? verbs_put_take(end, &posted) : status;
}

static rcm_status take_withdraw(struct verbs_link *link, const struct verbs_notice *notice) {
    struct verbs_end *end = NULL;
    const rcm_status status = end_of(link, notice, true, &end);
    if (status != RCM_OK || !end || end->ended)
        return status; /* the end of stream counts as the answer */
    verbs_put_forget(end);
    end->answers = true;
    verbs_post_later(link, end);
    return RCM_OK;
}

static rcm_status take_withdrawn(struct verbs_link *link, const struct verbs_notice *notice) {
    struct verbs_end *end = NULL;
    const rcm_status status = end_of(link, notice, false, &end);
    if (status != RCM_OK)
        return status;
    if (end->withdraw != VERBS_WITHDRAW_SENT)
        return verbs_link_refuse(link, "an unexpected answer to a withdrawal, for channel",
                                 notice->end);
    verbs_put_forget(end);
    return RCM_OK;
}

static rcm_status take_end(struct verbs_link *link, const struct verbs_notice *notice) {
    struct verbs_end *end = NULL;
    const rcm_status status = end_of(link, notice, false, &end);
    if (status != RCM_OK)
        return status;
    if (end->ended)
        return verbs_link_refuse(link, "a second end of channel", notice->end);
    end->ended = true;
    if (end->closed)
        verbs_end_free(end);
    return RCM_OK;
}

static rcm_status take_hello(struct verbs_link *link, const struct verbs_notice *notice) {
    if (link->hello_received)
        return verbs_link_refuse(link, "a second greeting", 0);
    link->hello_received = true;
    link->far_probed = notice->meta;
    link->far_probed_key = notice->len;
    verbs_link_greet(link);
    return RCM_OK;
}

/* bytes: number of bytes after the header. */
static rcm_status take(struct verbs_link *link, const struct verbs_notice *notice, size_t bytes,
                       bool *ret_rang) {
    if (notice->receives > VERBS_RECEIVES - link->credits)
        return verbs_link_refuse(link, "receives posted again", notice->receives);
    link->credits += notice->receives;
    if (notice->kind != VERBS_DATA && notice->kind != VERBS_POSTED && bytes > 0)
        return verbs_link_refuse(link, "unexpected bytes after a notice:", bytes);
    switch (notice->kind) {
    case VERBS_HELLO:
        return take_hello(link, notice);
    case VERBS_DATA:
    case VERBS_PUT:
        return take_data(link, notice, bytes, ret_rang);
    case VERBS_CREDIT:
        return take_credit(link, notice, ret_rang);
    case VERBS_END:
        return take_end(link, notice);
    case VERBS_POSTED:
        return take_posted(link, notice, bytes, ret_rang);
    case VERBS_WITHDRAW:
        return take_withdraw(link, notice);
    case VERBS_WITHDRAWN:
        return take_withdrawn(link, notice);
    case VERBS_NOTHING:
        return RCM_OK;
    default:
        return verbs_link_refuse(link, "kind", notice->kind);
    }
}

/* ---- Completions ----------------------------------------------------------------------------- */

static rcm_status received(struct verbs_link *link, uint32_t i, uint32_t len, bool *ret_rang) {
    struct verbs_notice notice;
    if (i >= VERBS_RECEIVES || len < VERBS_NOTICE_HEAD || len > sizeof notice)
        return verbs_link_refuse(link, "bytes in a notice", len);
    memcpy(&notice, link->notices.memory + (size_t)i * VERBS_NOTICE_STEP, len);
    rcm_status status = take(link, &notice, len - VERBS_NOTICE_HEAD, ret_rang);
    if (status == RCM_OK)
        status = verbs_post_receive(link, i);
    link->owed += status == RCM_OK;
    return status;
}

/* The send queue entry with that number modulo 2^32. 0: no entry that was posted. */
static uint64_t entry_of(const struct verbs_link *link, uint32_t number) {
    const uint32_t ago = (uint32_t)link->posted - number;
    return ago <= VERBS_SENDS ? link->posted - ago : 0;
}

/* The probe in progress, if that is its number; else 0. Its entry may be older than the send queue
 * is long, because a read may end later than everything posted after it. */
static uint64_t probe_of(const struct verbs_link *link, uint32_t number) {
    return link->probing && (uint32_t)link->probe == number ? link->probe : 0;
}

/* A send has completed, and all entries before it. If sends complete before they have arrived, only
 * the completion of a probe proves arrival (`reached`). */
static rcm_status sent(struct verbs_link *link, uint64_t id, bool *ret_rang) {
    const bool probe = id & VERBS_ID_PROBE;
    const uint64_t entry = probe ? probe_of(link, (uint32_t)id) : entry_of(link, (uint32_t)id);
    if (entry == 0 || entry <= link->reached)
        return rcmi_fail_peer(RCM_ERR_SYSTEM, link->peer,
                              "%s reports a send to rank %d that was not posted", link->port->name,
                              link->peer);
    if (entry > link->done)
        link->done = entry;
    if (probe || link->port->method->acknowledges)
        link->reached = entry;
    link->probing = link->probing && !probe;
    *ret_rang = link->awaited;
    link->awaited = false;
    verbs_ends_reap(link);
    verbs_link_greet(link);
    return RCM_OK;
}

/* The explanation and remedy for a completion status. */
static const char *remedy_of(enum ibv_wc_status status) {
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
        return ": its host, its port or the network to it is down (RINGCOMM_PEER_TIMEOUT limits "
               "the retries)";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return ": it granted credits but posted no receive";
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
        return ": it does not accept what was written to its memory";
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
        return ": memory of this process is not registered any more";
    case IBV_WC_WR_FLUSH_ERR:
        return ": the device stopped the queue pair without a reason";
    default:
        return "";
    }
}

const char *verbs_status_word(enum ibv_wc_status status) {
    static const char *const words[] = {
        [IBV_WC_LOC_LEN_ERR] = "local length error",
        [IBV_WC_LOC_QP_OP_ERR] = "local queue pair operation error",
        [IBV_WC_LOC_EEC_OP_ERR] = "local EE context operation error",
        [IBV_WC_LOC_PROT_ERR] = "local protection error",
        [IBV_WC_WR_FLUSH_ERR] = "work request flushed",
        [IBV_WC_MW_BIND_ERR] = "memory window bind error",
        [IBV_WC_BAD_RESP_ERR] = "bad response",
        [IBV_WC_LOC_ACCESS_ERR] = "local access error",
        [IBV_WC_REM_INV_REQ_ERR] = "remote invalid request",
        [IBV_WC_REM_ACCESS_ERR] = "remote access error",
        [IBV_WC_REM_OP_ERR] = "remote operation error",
        [IBV_WC_RETRY_EXC_ERR] = "transport retry counter exceeded",
        [IBV_WC_RNR_RETRY_EXC_ERR] = "receiver-not-ready retry counter exceeded",
        [IBV_WC_FATAL_ERR] = "fatal error",
        [IBV_WC_RESP_TIMEOUT_ERR] = "response timeout",
        [IBV_WC_GENERAL_ERR] = "general error",
    };
    const size_t i = (size_t)status;
    return i < sizeof words / sizeof words[0] && words[i] ? words[i] : "an unknown error";
}

static rcm_status failed(const struct verbs_link *link, enum ibv_wc_status word, uint32_t vendor) {
    const rcm_status status = word == IBV_WC_RETRY_EXC_ERR ? RCM_ERR_PEER : RCM_ERR_SYSTEM;
    return rcmi_fail_peer(status, link->peer,
                          "RDMA with rank %d by %s failed (%s, vendor's code %u)%s", link->peer,
                          link->port->name, verbs_status_word(word), vendor, remedy_of(word));
}

/* Only for devices without acknowledgements; others report a timeout themselves. */
static bool unanswered(const struct verbs_link *link) {
    return link->probing && !link->port->method->acknowledges &&
           rcmi_deadline_passed(link->answer_by);
}

void verbs_link_beat(struct verbs_link *link) {
    if (link->state == VERBS_BROKEN)
        return;
    if (unanswered(link)) {
        (void)failed(link, IBV_WC_RETRY_EXC_ERR, 0);
        verbs_link_break(link);
    }
    if (link->state == VERBS_BROKEN || link->flushed == 0)
        return;
    if (++link->flushed <= 2)
        return;
    (void)failed(link, IBV_WC_WR_FLUSH_ERR, 0);
    verbs_link_break(link);
}

/* A flushed request is a consequence of another error, and a device may report it first (rxe does).
 * The link ends with the cause when it arrives, or at the second beat without one. */
static rcm_status unsuccessful(struct verbs_link *link, const struct ibv_wc *wc) {
    if (wc->status != IBV_WC_WR_FLUSH_ERR)
        return failed(link, wc->status, wc->vendor_err);
    link->flushed += link->flushed == 0;
    return RCM_AGAIN;
}

/* Posts waiting notices, which return the owed receives; else sends a separate notice for these. */
static void post_more(struct verbs_link *link) {
    verbs_post_waiting(link);
    if (link->owed >= VERBS_RECEIVES / 2)
        (void)verbs_post_notice(link, VERBS_NOTHING);
}

bool verbs_complete(struct verbs_link *link, const struct ibv_wc *wc) {
    const uint32_t number = (uint32_t)wc->wr_id;
    rcm_status status = RCM_OK;
    bool rang = false;
    verbs_lock_take(&link->lock);
    if (link->qp && link->qp->qp_num == wc->qp_num && link->state != VERBS_BROKEN) {
        if (wc->status != IBV_WC_SUCCESS)
            status = unsuccessful(link, wc);
        else if (wc->wr_id & VERBS_ID_RECEIVE)
            status = received(link, number, wc->byte_len, &rang);
        else
            status = sent(link, wc->wr_id, &rang);
        if (status == RCM_OK)
            post_more(link);
        else if (status != RCM_AGAIN)
            verbs_link_break(link);
    }
    verbs_lock_drop(&link->lock);
    return rang;
}
