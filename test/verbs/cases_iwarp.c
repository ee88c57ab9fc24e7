/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * iWARP devices: rejected connections, connection attempts that never end, and when a send counts
 * as complete. The other cases run over iWARP devices, too (meson.build).
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include "../../transport/verbs/verbs.h"
#include "../transport/harness.h"
#include "cases.h"
#include "transport.h"

extern const struct rcmi_transport rcmi_transport_verbs;

static const struct provider_setup iwarp = {
    .seed = 4, .devices = 2, .inline_max = 64, .kind = PROVIDER_IWARP};

static void linked_by(const char *by) {
    char got[16];
    live("verbs,tcp", 4, got);
    CHECK_EQ(strcmp(got, by), 0);
}

/* Each call of rdma_cm fails once, and each device call that an iWARP port needs. */
void case_iwarp_calls_fail(void **state) {
    (void)state;
    for (int call = 0; call < PROVIDER_CALLS; call++)
        if (call != PROVIDER_QUERY_GID && call != PROVIDER_QUERY_PKEY)
            call_fails(&iwarp, (enum provider_call)call);
}

/* The private data of a connection is not what was offered: both sides reject it, and the next
 * transport is used. */
void case_iwarp_garbled(void **state) {
    (void)state;
    limit_ms(20000);
    provider_install(&iwarp);
    linked_by("verbs");
    provider_garble(RDMA_CM_EVENT_CONNECT_REQUEST);
    linked_by("tcp");
    provider_garble(RDMA_CM_EVENT_ESTABLISHED);
    linked_by("tcp");
    provider_remove();
}

/* ---- Unknown peers --------------------------------------------------------------------------- */

static struct rdma_cm_event *event_of(const struct verbs_cm_table *cm,
                                      struct rdma_event_channel *channel) {
    struct rdma_cm_event *event = NULL;
    struct pollfd ready = {.fd = channel->fd, .events = POLLIN};
    CHECK_EQ(poll(&ready, 1, 5000), 1);
    CHECK_EQ(cm->get_cm_event(channel, &event), 0);
    return event;
}

static void event_is(const struct verbs_cm_table *cm, struct rdma_event_channel *channel,
                     enum rdma_cm_event_type type) {
    struct rdma_cm_event *event = event_of(cm, channel);
    CHECK_EQ(event->event, type);
    CHECK_EQ(cm->ack_cm_event(event), 0);
}

static struct sockaddr_in listens_at(const struct verbs_port *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port->offered.tcp_port)};
    memcpy(&at.sin_addr, port->offered.gid + 12, sizeof at.sin_addr);
    return at;
}

/* An id that can request a connection to the port. */
static struct rdma_cm_id *unknown_peer_create(const struct verbs_port *port) {
    const struct verbs_cm_table *cm = port->domain->table->cm();
    struct rdma_event_channel *channel = cm->create_event_channel();
    struct rdma_cm_id *id = NULL;
    struct sockaddr_in to = listens_at(port), from = to;
    from.sin_port = 0;
    CHECK_EQ(cm->create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    CHECK_EQ(cm->resolve_addr(id, (void *)&from, (void *)&to, 1000), 0);
    event_is(cm, channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    CHECK_EQ(cm->resolve_route(id, 1000), 0);
    event_is(cm, channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    return id;
}

static void unknown_peer_destroy(const struct verbs_port *port, struct rdma_cm_id *id) {
    const struct verbs_cm_table *cm = port->domain->table->cm();
    struct rdma_event_channel *channel = id->channel;
    event_is(cm, channel, RDMA_CM_EVENT_REJECTED);
    CHECK_EQ(cm->destroy_id(id), 0);
    cm->destroy_event_channel(channel);
}

/* Requests a connection to the port with this private data, which is rejected. */
static void rejects_request(const struct verbs_port *port, const void *data, uint8_t len) {
    struct rdma_conn_param param = {.private_data = data, .private_data_len = len};
    struct rdma_cm_id *id = unknown_peer_create(port);
    CHECK_EQ(port->domain->table->cm()->connect(id, &param), 0);
    unknown_peer_destroy(port, id);
}

/* A request without the token of an offer is rejected, and so is one of a rank that is linked
 * already; existing links are not affected. */
void case_iwarp_unknown_peer(void **state) {
    (void)state;
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    uint8_t data[16] = {0};
    const uint32_t magic = VERBS_MAGIC, ranks[] = {0, 1, 2, UINT32_MAX};
    limit_ms(20000);
    provider_install(&iwarp);
    CHECK(ranks_open(&pair, "verbs"));
    pair_channel(&pair, 1, &writer, &reader);
    for (int i = 0; i < 2; i++) {
        const struct verbs_domain *domain =
            rcmi_node_domain(pair.sides[i].node, &rcmi_transport_verbs);
        rejects_request(&domain->ports[0], data, sizeof data);
        rejects_request(&domain->ports[0], data, 3);
        memcpy(data, &magic, sizeof magic);
        for (size_t r = 0; r < sizeof ranks / sizeof ranks[0]; r++) {
            memcpy(data + 4, &ranks[r], sizeof ranks[r]);
            rejects_request(&domain->ports[0], data, sizeof data);
        }
    }
    for (uint64_t number = 0; number < 8; number++)
        CHECK(exchange(&pair, writer, reader, number));
    CHECK_EQ(strcmp(rcmi_node_transport(pair.a->node, 1), "verbs"), 0);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    side_destroy(pair.a);
    side_destroy(pair.b);
    world_free(pair.world);
    provider_remove();
}

/* The events of a port's listener cannot be read: links no longer choose the port. */
void case_iwarp_broken_listener(void **state) {
    (void)state;
    const struct provider_setup one = {.devices = 1, .inline_max = 64, .kind = PROVIDER_IWARP};
    struct rdma_conn_param param = {.private_data = NULL};
    struct pair pair;
    limit_ms(20000);
    provider_install(&one);
    CHECK(ranks_open(&pair, "verbs,tcp"));
    const struct verbs_domain *domain = rcmi_node_domain(pair.b->node, &rcmi_transport_verbs);
    struct rdma_cm_id *id = unknown_peer_create(&domain->ports[0]);
    provider_fail_call(PROVIDER_CM_GET_EVENT, 1);
    CHECK_EQ(domain->table->cm()->connect(id, &param), 0);
    const int before = provider_calls(PROVIDER_CM_CONNECT);
    unknown_peer_destroy(&domain->ports[0], id); /* its listener is closed */
    side_send(pair.a, 1);
    while (atomic_load(&pair.b->received[0]) == 0)
        nap();
    CHECK_EQ(strcmp(rcmi_node_transport(pair.a->node, 1), "tcp"), 0);
    CHECK_EQ(provider_calls(PROVIDER_CM_CONNECT), before);
    side_destroy(pair.a);
    side_destroy(pair.b);
    world_free(pair.world);
    provider_remove();
}

/* ---- Attempts that never end ----------------------------------------------------------------- */

/* The other side does not answer: after RINGCOMM_PEER_TIMEOUT the next transport is used. A rank
 * that ends meanwhile does not wait for that. */
void case_iwarp_silent(void **state) {
    (void)state;
    struct pair pair;
    limit_ms(30000);
    provider_install(&iwarp);
    provider_silent(true);
    setenv("RINGCOMM_PEER_TIMEOUT", "1", 1);
    linked_by("tcp");
    setenv("RINGCOMM_PEER_TIMEOUT", "1000", 1);
    CHECK(ranks_open(&pair, "verbs"));
    unsetenv("RINGCOMM_PEER_TIMEOUT");
    const int before = provider_calls(PROVIDER_CM_CONNECT);
    side_send(pair.a, 1);
    while (provider_calls(PROVIDER_CM_CONNECT) == before)
        nap();
    side_destroy(pair.a);
    side_destroy(pair.b);
    world_free(pair.world);
    provider_remove();
}

/* Links queued behind such an attempt: none waits longer than it, and no rank is lost, as it would
 * be after four times RINGCOMM_PEER_TIMEOUT. */
void case_iwarp_many_silent(void **state) {
    (void)state;
    enum { RANKS = 8 };
    const struct setup setup = {.transports = "verbs,tcp", .nranks = RANKS, .slots = 2};
    struct world *world = world_new();
    struct side sides[RANKS] = {{0}};
    limit_ms(30000);
    provider_install(&iwarp);
    provider_silent(true);
    setenv("RINGCOMM_PEER_TIMEOUT", "1", 1);
    for (int i = 0; i < RANKS; i++)
        side_create(&sides[i], world, i, &setup);
    unsetenv("RINGCOMM_PEER_TIMEOUT");
    for (int i = 0; i < RANKS; i++)
        side_start(&sides[i]);
    for (int i = 1; i < RANKS; i++)
        side_send(&sides[0], i);
    for (int i = 1; i < RANKS; i++) {
        while (atomic_load(&sides[i].received[0]) == 0) {
            CHECK_EQ(atomic_load(&sides[0].lost), 0);
            nap();
        }
        CHECK_EQ(strcmp(rcmi_node_transport(sides[i].node, 0), "tcp"), 0);
    }
    for (int i = 0; i < RANKS; i++)
        side_destroy(&sides[i]);
    world_free(world);
    provider_remove();
}

/* ---- Completion ------------------------------------------------------------------------------ */

/* A device completes a send that has not arrived: the memory is still in use. */
void case_iwarp_arrives(void **state) {
    (void)state;
    enum { LEN = 8000, TURNS = 500 };
    static uint8_t memory[LEN];
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    const struct setup setup = {.transports = "verbs", .slots = 4, .slot_bytes = LEN};
    limit_ms(20000);
    provider_install(&iwarp);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    CHECK_EQ(rcmi_node_memory_register(pair.a->node, memory, LEN), RCM_OK);
    struct rcmi_mem mem;
    CHECK_EQ(rcmi_node_mem(pair.a->node, memory, LEN, &mem), RCM_OK);
    provider_cut(true);
    fill(memory, LEN, 5);
    for (uint64_t number = 0; number < 4; number++)
        CHECK_EQ(rcmi_channel_send_zero_copy(writer, &mem, number, false), RCM_OK);
    for (int i = 0; i < TURNS; i++) {
        CHECK(!rcmi_channel_completed(writer, 1));
        pair_drive(&pair);
    }
    provider_cut(false);
    while (!rcmi_channel_completed(writer, rcmi_channel_sent(writer)))
        pair_drive(&pair);
    fill(memory, LEN, 6);
    for (uint64_t number = 0; number < 4; number++) {
        const struct rcmi_slot slot = side_peek(pair.b, reader);
        CHECK_EQ(slot.meta, number);
        CHECK(filled(slot.bytes, LEN, 5));
        rcmi_channel_release(reader);
    }
    CHECK_EQ(rcmi_node_memory_deregister(pair.a->node, memory, LEN), RCM_OK);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
    provider_remove();
}

static struct verbs_link *link_of(const struct side *side, int peer) {
    const struct verbs_domain *domain = rcmi_node_domain(side->node, &rcmi_transport_verbs);
    for (int i = 0; i < domain->nports; i++)
        if (domain->ports[i].links[peer])
            return domain->ports[i].links[peer];
    return NULL;
}

/* Send queue entries posted after the active probe; 0: no probe is active. */
static uint64_t behind_probe(struct verbs_link *link) {
    verbs_lock_take(&link->lock);
    verbs_post_probe(link);
    const uint64_t n = link->probing ? link->posted - link->probe : 0;
    verbs_lock_drop(&link->lock);
    return n;
}

/* More entries than a send queue holds are posted and completed after a probe that has not
 * ended. */
void case_iwarp_late_probe(void **state) {
    (void)state;
    enum { MANY = 240, LEN = 200 }; /* two entries each */
    struct pair pair;
    struct rcmi_channel *writer, *reader;
    const struct setup setup = {.transports = "verbs", .slots = MANY, .slot_bytes = 256};
    limit_ms(20000);
    provider_install(&iwarp);
    pair_open(&pair, &setup);
    pair_channel(&pair, 1, &writer, &reader);
    struct verbs_link *link = link_of(pair.a, 1);
    CHECK(link);
    provider_cut(true);
    (void)behind_probe(link);
    for (uint64_t number = 0; number < MANY; number++) {
        fill(side_reserve(pair.a, writer), LEN, number);
        rcmi_channel_commit(writer, LEN, number);
    }
    while (behind_probe(link) <= VERBS_SENDS)
        pair_drive(&pair);
    provider_cut(false);
    for (uint64_t number = 0; number < MANY; number++) {
        const struct rcmi_slot slot = side_peek(pair.b, reader);
        CHECK_EQ(slot.meta, number);
        CHECK(filled(slot.bytes, LEN, number));
        rcmi_channel_release(reader);
    }
    while (!rcmi_channel_completed(writer, rcmi_channel_sent(writer)))
        pair_drive(&pair);
    CHECK_EQ(atomic_load(&pair.a->lost) + atomic_load(&pair.b->lost), 0);
    rcmi_channel_close(writer);
    rcmi_channel_close(reader);
    pair_close(&pair);
    provider_remove();
}
