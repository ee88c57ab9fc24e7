/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A link: a queue pair. The initiator makes one for each of its ports and offers them. The other
 * side chooses a pair of ports, makes its own queue pair, and offers that one among its ports; the
 * initiator computes the same pair from that offer. Both connect them (connect.c), the other side
 * with a head start. Then the initiator sends a hello, and the other side answers it. A side is
 * ready when it has received a hello and its own has arrived.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "auth.h"
#include "device_faults.h"
#include "log.h"
#include "verbs.h"

/* The offer of a side; on the wire. */
struct verbs_offer {
    uint32_t magic;
    uint8_t nports;
    uint8_t chosen; /* index of the initiator's chosen port; set by the other side */
    uint16_t spread;
    uint64_t token; /* the receiver proves with it that it has this offer (rdma_cm.c) */
    struct verbs_offered ports[VERBS_PORTS_MAX];
};
_Static_assert(sizeof(struct verbs_offer) <= RCMI_BLOB_MAX, "an offer fits");

/* ---- Queue pairs ----------------------------------------------------------------------------- */

/* Uses the largest of these inline sizes that the device supports. */
static struct ibv_qp *qp_create(const struct verbs_port *port, int peer, uint32_t *ret_inline) {
    static const uint32_t sizes[] = {sizeof(struct verbs_notice), VERBS_INLINE, 0};
    struct ibv_qp *qp = NULL;
    *ret_inline = 0;
    for (size_t i = 0; !qp && i < sizeof sizes / sizeof sizes[0]; i++) {
        struct ibv_qp_init_attr attr = {
            .qp_context = (void *)(intptr_t)peer,
            .send_cq = port->cq,
            .recv_cq = port->cq,
            .qp_type = IBV_QPT_RC,
            .cap = {.max_send_wr = VERBS_SENDS,
                    .max_recv_wr = VERBS_RECEIVES,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = sizes[i]},
        };
        qp = port->domain->table->create_qp(port->pd, &attr);
        if (qp)
            *ret_inline = attr.cap.max_inline_data;
    }
    return qp;
}

rcm_status verbs_qp_make(const struct verbs_port *port, int peer, struct ibv_qp **ret_qp,
                         uint32_t *ret_inline) {
    const struct verbs_table *table = port->domain->table;
    struct ibv_qp *qp = qp_create(port, peer, ret_inline);
    if (!qp)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, errno, "no queue pair of %s", port->name);
    const unsigned probed = port->method->acknowledges ? 0 : IBV_ACCESS_REMOTE_READ;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .pkey_index = (uint16_t)port->pkey_index,
                               .port_num = port->number,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | probed};
    const int error = table->modify_qp(
        qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (error) {
        table->destroy_qp(qp);
        return rcmi_fail(RCM_ERR_UNSUPPORTED, error, "a queue pair of %s cannot be used",
                         port->name);
    }
    *ret_qp = qp;
    return RCM_OK;
}

static rcm_status qp_make(struct verbs_link *link, int i) {
    struct verbs_port *port = &link->domain->ports[i];
    if (port->room == 0)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "%s has no completion queue for more links",
                         port->name);
    const rcm_status status =
        verbs_qp_make(port, link->peer, &link->offered[i], &link->inline_maxima[i]);
    if (status == RCM_OK)
        port->room--;
    return status;
}

static void qp_give_up(struct verbs_link *link, int i) {
    if (!link->offered[i])
        return;
    if (!verbs_untouchable(link->domain))
        link->domain->table->destroy_qp(link->offered[i]);
    link->offered[i] = NULL;
    link->domain->ports[i].room++;
}

/* ---- Set-up ---------------------------------------------------------------------------------- */

rcm_status verbs_link_init(void *arg, void *domain, int peer) {
    struct verbs_link *link = arg;
    link->domain = domain;
    link->peer = peer;
    return rcmi_random(&link->token, sizeof link->token);
}

/* The dialling side makes a queue pair for each port. */
static rcm_status offer_all(struct verbs_link *link) {
    rcm_status status = RCM_OK;
    link->initiator = true;
    for (int i = 0; status == RCM_OK && i < link->domain->nports; i++)
        status = qp_make(link, i);
    return status;
}

/* This side's offer: all ports, with their queue pairs. */
static struct verbs_side side_of(const struct verbs_link *link,
                                 struct verbs_offered ports[VERBS_PORTS_MAX]) {
    const struct verbs_domain *domain = link->domain;
    for (int i = 0; i < domain->nports; i++) {
        const struct verbs_port *port = &domain->ports[i];
        const struct ibv_qp *qp = port == link->port ? link->qp : link->offered[i];
        ports[i] = port->offered;
        ports[i].qp_num = qp ? qp->qp_num : 0;
        if (link->left_out & 1u << i)
            ports[i].layer = VERBS_LAYER_NONE;
    }
    return (struct verbs_side){ports, domain->nports, (uint16_t)rcmi_node_local_rank(domain->node)};
}

rcm_status verbs_link_offer(void *arg, struct rcmi_blob *ret_offer) {
    struct verbs_link *link = arg;
    const rcm_status status = link->qp ? RCM_OK : offer_all(link);
    struct verbs_offer offer = {
        .magic = VERBS_MAGIC, .chosen = (uint8_t)link->chosen, .token = link->token};
    const struct verbs_side side = side_of(link, offer.ports);
    offer.nports = (uint8_t)side.nports;
    offer.spread = (uint16_t)side.spread;
    memcpy(ret_offer->bytes, &offer, sizeof offer);
    ret_offer->len = sizeof offer;
    ret_offer->nfds = 0;
    return status;
}

static rcm_status offer_take(const struct verbs_link *link, const struct rcmi_blob *blob,
                             struct verbs_offer *offer) {
    if (blob->len != sizeof *offer)
        return verbs_link_refuse(link, "bytes in an offer", blob->len);
    memcpy(offer, blob->bytes, sizeof *offer);
    if (offer->magic != VERBS_MAGIC || offer->nports > VERBS_PORTS_MAX)
        return verbs_link_refuse(link, "ports in an offer", offer->nports);
    return RCM_OK;
}

/* Both sides compute the same choice; the side that did not dial then makes its queue pair. */
static rcm_status choose(struct verbs_link *link, const struct verbs_offer *offer, int *ret_mine,
                         int *ret_theirs) {
    const struct verbs_domain *domain = link->domain;
    struct verbs_offered ports[VERBS_PORTS_MAX];
    const struct verbs_side mine = side_of(link, ports),
                            theirs = {offer->ports, offer->nports, offer->spread};
    struct verbs_choice choice;
    char own[100], other[100];
    if (link->initiator ? verbs_choose(&mine, &theirs, &choice)
                        : verbs_choose(&theirs, &mine, &choice)) {
        *ret_mine = link->initiator ? choice.dialler : choice.other;
        *ret_theirs = link->initiator ? choice.other : choice.dialler;
        return link->initiator ? RCM_OK : qp_make(link, *ret_mine);
    }
    verbs_networks_text(&mine, own, sizeof own);
    verbs_networks_text(&theirs, other, sizeof other);
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                     "no port of rank %d (%s) is in a network of rank %d's (%s); "
                     "RINGCOMM_VERBS_DEVICES and RINGCOMM_VERBS_GID_INDEX choose ports and their "
                     "addresses",
                     link->peer, other, rcmi_node_rank(domain->node), own);
}

/* Port i is chosen: frees the queue pairs of the others and allocates what the link needs. */
static rcm_status port_settle(struct verbs_link *link, int i) {
    struct verbs_domain *domain = link->domain;
    struct verbs_port *port = &domain->ports[i];
    for (int k = 0; k < domain->nports; k++)
        if (k != i)
            qp_give_up(link, k);
    rcm_status status = verbs_region_make(
        port, (size_t)(VERBS_RECEIVES + VERBS_SENDS) * VERBS_NOTICE_STEP, 0, &link->notices);
    if (status == RCM_OK && !port->method->acknowledges) /* a read writes to its destination */
        status = verbs_region_make(port, 2 * (size_t)VERBS_PROBED,
                                   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE, &link->probed);
    if (status != RCM_OK)
        return status;
    link->qp = link->offered[i];
    link->offered[i] = NULL;
    link->inline_max = link->inline_maxima[i];
    link->credits = VERBS_RECEIVES;
    link->posted = link->done = link->reached = VERBS_FIRST_ENTRY;
    verbs_lock_take(&port->lock);
    link->port = port;
    port->links[link->peer] = link;
    verbs_lock_drop(&port->lock);
    atomic_fetch_add_explicit(&domain->nlinks, 1, memory_order_relaxed);
    return RCM_OK;
}

/* Taken by the side that did not dial before it chooses; its offer leaves the same ports out. */
static unsigned ports_deaf(const struct verbs_domain *domain) {
    unsigned deaf = 0;
    for (int i = 0; i < domain->nports; i++)
        deaf |= (unsigned)domain->ports[i].deaf << i;
    return deaf;
}

static rcm_status receives_post(struct verbs_link *link) {
    rcm_status status = RCM_OK;
    verbs_lock_take(&link->lock);
    for (uint32_t i = 0; status == RCM_OK && i < VERBS_RECEIVES; i++)
        status = verbs_post_receive(link, i);
    verbs_lock_drop(&link->lock);
    return status == RCM_OK ? RCM_OK : RCM_ERR_UNSUPPORTED;
}

rcm_status verbs_link_accept(void *arg, struct rcmi_blob *blob) {
    struct verbs_link *link = arg;
    struct verbs_offer offer;
    rcm_status status = offer_take(link, blob, &offer);
    if (status != RCM_OK)
        return status;
    int mine = 0, theirs = 0;
    link->left_out = link->initiator ? 0 : ports_deaf(link->domain);
    status = choose(link, &offer, &mine, &theirs);
    if (status != RCM_OK)
        return status;
    if (offer.ports[theirs].qp_num == 0 || (link->initiator && offer.chosen != mine))
        return verbs_link_refuse(link, "a choice of port", offer.chosen);
    link->chosen = theirs;
    link->far_token = offer.token;
    status = port_settle(link, mine);
    if (status == RCM_OK)
        status = receives_post(link);
    if (status == RCM_OK)
        status = verbs_connect(link, &offer.ports[theirs]);
    return status == RCM_OK ? RCM_OK : RCM_ERR_UNSUPPORTED;
}

rcm_status verbs_link_attach(void *arg, int i, int fd) {
    const struct verbs_link *link = arg;
    rcmi_fd_close(&fd);
    return verbs_link_refuse(link, "a data connection, number", (uint64_t)i);
}

static void link_set(struct verbs_link *link, enum verbs_state state) {
    if (link->state == VERBS_BROKEN)
        return;
    link->state = state;
    verbs_count(link->domain, &link->connecting, state == VERBS_CONNECTED);
    rcmi_node_link_changed(link->domain->node, link->peer);
}

void verbs_link_greet(struct verbs_link *link) {
    if (link->state != VERBS_CONNECTED)
        return;
    if (!link->hello_sent && (link->initiator || link->hello_received)) {
        link->hello_sent = verbs_post_notice(link, VERBS_HELLO);
        link->hello = link->posted;
    }
    if (link->hello_sent && link->hello_received && link->done >= link->hello)
        link_set(link, VERBS_READY);
}

void verbs_link_connected(struct verbs_link *link, int error) {
    if (error) {
        (void)rcmi_fail_peer(
            RCM_ERR_SYSTEM, link->peer, "the queue pair of %s with rank %d cannot be connected: %s",
            link->port->name, link->peer,
            error == EPROTO ? "the answer does not contain this rank's token" : strerror(error));
        verbs_link_break(link);
        return;
    }
    link_set(link, VERBS_CONNECTED);
    verbs_link_greet(link);
}

rcm_status verbs_link_ready(void *arg) {
    struct verbs_link *link = arg;
    rcm_status status = RCM_AGAIN;
    verbs_lock_take(&link->lock);
    link->reported = link->state == VERBS_READY;
    if (link->state == VERBS_READY)
        status = RCM_OK;
    else if (link->state == VERBS_BROKEN)
        status = rcmi_fail_peer(RCM_ERR_UNSUPPORTED, link->peer, "%s", link->why);
    verbs_lock_drop(&link->lock);
    verbs_go_on(link->domain);
    return status;
}

/* Posted messages are lost with the queue pair unless they have reached the other side. A
 * completion proves that, if necessary the one of a probe. */
bool verbs_link_flushed(void *arg) {
    struct verbs_link *link = arg;
    verbs_port_drain(link->port);
    verbs_lock_take(&link->lock);
    verbs_post_waiting(link);
    const bool flushed =
        link->state == VERBS_BROKEN || (!link->first && link->reached == link->posted);
    if (!flushed)
        verbs_post_probe(link);
    verbs_lock_drop(&link->lock);
    verbs_go_on(link->domain);
    return flushed;
}

/* ---- The end --------------------------------------------------------------------------------- */

rcm_status verbs_link_refuse(const struct verbs_link *link, const char *what, uint64_t value) {
    return rcmi_fail_peer(RCM_ERR_PROTOCOL, link->peer, "rank %d sent by RDMA %s %" PRIu64,
                          link->peer, what, value);
}

bool verbs_link_still(const struct verbs_link *link) {
    return !link->qp || (link->state == VERBS_BROKEN && !link->unstopped);
}

/* Stops the queue pair: from now on the peer writes nothing here, and nothing is sent. Not while
 * another thread connects it. */
static void link_stop(struct verbs_link *link) {
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    if (!link->qp || link->state != VERBS_READY || verbs_untouchable(link->domain))
        return;
    const int error = link->domain->table->modify_qp(link->qp, &attr, IBV_QP_STATE);
    link->unstopped = error != 0;
    if (error)
        rcmi_log(RCMI_LOG_WARN,
                 "the queue pair of %s with rank %d cannot be stopped (%s): memory that it may "
                 "write to stays in use until it is destroyed",
                 link->port->name, link->peer, strerror(error));
}

void verbs_link_break(struct verbs_link *link) {
    if (link->state == VERBS_BROKEN)
        return;
    link_stop(link);
    snprintf(link->why, sizeof link->why, "%.399s", rcmi_last_error()->text);
    link_set(link, VERBS_BROKEN);
    if (link->reported)
        rcmi_node_link_failed(link->domain->node, link->peer);
}

/* After this no thread polls for the link. */
static void link_unlist(struct verbs_link *link) {
    struct verbs_domain *domain = link->domain;
    verbs_lock_take(&link->port->lock);
    if (link->port->links[link->peer] == link) {
        link->port->links[link->peer] = NULL;
        atomic_fetch_sub_explicit(&domain->nlinks, 1, memory_order_relaxed);
    }
    verbs_lock_drop(&link->port->lock);
}

/* Removes the queue pair from the link. Afterwards memory that it used counts as free, so it is
 * first stopped or, if that fails, destroyed. */
static struct ibv_qp *queue_pair_take(struct verbs_link *link) {
    struct verbs_domain *domain = link->domain;
    verbs_lock_take(&link->lock);
    struct ibv_qp *qp = link->qp;
    link_stop(link);
    if (qp && link->unstopped && !verbs_untouchable(domain))
        (void)domain->table->destroy_qp(qp);
    link->qp = NULL;
    verbs_count(domain, &link->connecting, false);
    verbs_count(domain, &link->blocked, false);
    verbs_lock_drop(&link->lock);
    return qp;
}

void verbs_link_down(void *arg) {
    struct verbs_link *link = arg;
    struct verbs_domain *domain = link->domain;
    if (verbs_forked(domain))
        return;
    for (int i = 0; i < domain->nports; i++)
        qp_give_up(link, i);
    if (!link->port)
        return;
    link_unlist(link);
    const bool connecting = verbs_connect_cancel(link);
    struct ibv_qp *qp = queue_pair_take(link);
    if (!qp)
        return;
    verbs_owe_nothing(link);
    link->port->room++;
    if (verbs_untouchable(domain))
        return;
    if (!connecting && !link->unstopped)
        (void)domain->table->destroy_qp(qp);
    if (link->connection)
        link->port->method->disconnect(link->connection);
    link->connection = NULL;
}

void verbs_link_fini(void *arg) {
    struct verbs_link *link = arg;
    if (verbs_forked(link->domain))
        return;
    verbs_ends_free(link);
    if (verbs_untouchable(link->domain))
        return;
    verbs_region_free(link->domain->table, &link->notices);
    verbs_region_free(link->domain->table, &link->probed);
}
