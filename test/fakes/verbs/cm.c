/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdma_cm of fake iWARP devices. Each device has its own address, on which ids listen and connect.
 * A connection has two ids. When one of them is destroyed, the other side's queue pair breaks.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "fake_verbs.h"

enum { PRIVATE_MAX = 64, PORT_FIRST = 20000 };

struct fake_event {
    struct rdma_cm_event base;
    struct fake_event *next;
    uint8_t private_data[PRIVATE_MAX];
};

struct fake_event_channel {
    struct rdma_event_channel base;
    struct fake_event *first;
};

struct fake_id {
    struct rdma_cm_id base;
    struct fake_id *next;
    struct sockaddr_in from, to;
    bool listens;
    uint32_t qp_num;      /* of its side, once known */
    struct fake_id *peer; /* NULL: not connected */
};

static struct fake_id *ids; /* all ids; guarded by the lock */
static struct ibv_context contexts[DEVICES_MAX];

/* ---- Events ---------------------------------------------------------------------------------- */

/* Queues an event. Under the lock. */
static void event_send(struct fake_id *id, enum rdma_cm_event_type type, int status,
                       const struct rdma_conn_param *param) {
    struct fake_event_channel *channel = (struct fake_event_channel *)id->base.channel;
    struct fake_event *event = calloc(1, sizeof *event), **last = &channel->first;
    const uint64_t one = 1;
    REQUIRE(event);
    event->base = (struct rdma_cm_event){.id = &id->base, .event = type, .status = status};
    if (param) {
        REQUIRE(param->private_data_len <= PRIVATE_MAX);
        if (param->private_data_len > 0)
            memcpy(event->private_data, param->private_data, param->private_data_len);
        event->private_data[PRIVATE_MAX - 1] = 0;
        if (fake.garbled == (int)type)
            event->private_data[8] ^= 1;
        event->base.param.conn.private_data = event->private_data;
        event->base.param.conn.private_data_len = PRIVATE_MAX; /* padded, as allowed */
    }
    while (*last)
        last = &(*last)->next;
    *last = event;
    REQUIRE(write(channel->base.fd, &one, sizeof one) == sizeof one);
}

/* Drops the pending events of the id. Under the lock. */
static void events_drop(const struct fake_id *id) {
    struct fake_event_channel *channel = (struct fake_event_channel *)id->base.channel;
    for (struct fake_event **at = &channel->first; *at;) {
        struct fake_event *event = *at;
        uint64_t one;
        if (event->base.id != &id->base) {
            at = &event->next;
            continue;
        }
        *at = event->next;
        free(event);
        REQUIRE(read(channel->base.fd, &one, sizeof one) == sizeof one);
    }
}

static struct rdma_event_channel *fake_create_channel(void) {
    if (fake_verbs_call_fails(PROVIDER_CM_CHANNEL))
        return NULL;
    struct fake_event_channel *channel = fake_verbs_make(sizeof *channel);
    channel->base.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    return &channel->base;
}

static void fake_destroy_channel(struct rdma_event_channel *base) {
    REQUIRE(!((struct fake_event_channel *)base)->first);
    close(base->fd);
    (void)fake_verbs_unmake(base);
}

static int fake_get_event(struct rdma_event_channel *base, struct rdma_cm_event **ret_event) {
    struct fake_event_channel *channel = (struct fake_event_channel *)base;
    uint64_t one;
    int result = -1;
    if (fake_verbs_call_fails(PROVIDER_CM_GET_EVENT))
        return -1;
    pthread_mutex_lock(&fake.lock);
    errno = EAGAIN;
    if (read(base->fd, &one, sizeof one) == sizeof one) {
        *ret_event = &channel->first->base;
        channel->first = channel->first->next;
        fake.objects++;
        result = 0;
    }
    pthread_mutex_unlock(&fake.lock);
    return result;
}

static int fake_ack_event(struct rdma_cm_event *event) {
    return fake_verbs_unmake(event);
}

/* ---- Ids ------------------------------------------------------------------------------------- */

/* The id's object count is under the lock too. */
static struct fake_id *id_make(struct rdma_event_channel *channel, void *context) {
    struct fake_id *id = calloc(1, sizeof *id);
    REQUIRE(id);
    id->base.channel = channel;
    id->base.context = context;
    id->base.ps = RDMA_PS_TCP;
    id->next = ids;
    ids = id;
    fake.objects++;
    return id;
}

static int fake_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **ret_id,
                          void *context, enum rdma_port_space ps) {
    REQUIRE(ps == RDMA_PS_TCP);
    if (fake_verbs_call_fails(PROVIDER_CM_ID))
        return -1;
    pthread_mutex_lock(&fake.lock);
    *ret_id = &id_make(channel, context)->base;
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

/* The TCP connection is broken. Under the lock. */
static void side_break(const struct fake_id *id) {
    struct fake_qp *qp = fake_verbs_qp(id->qp_num);
    if (!qp || qp->base.state != IBV_QPS_RTS)
        return;
    qp->base.state = IBV_QPS_ERR;
    qp->closed = true;
}

static void id_unlist(const struct fake_id *id) {
    struct fake_id **at = &ids;
    while (*at != id)
        at = &(*at)->next;
    *at = id->next;
}

static struct fake_event *request_of(const struct fake_event_channel *channel) {
    struct fake_event *event = channel->first;
    while (event && event->base.event != RDMA_CM_EVENT_CONNECT_REQUEST)
        event = event->next;
    return event;
}

/* Rejects the requests that the listener has not answered. Under the lock. */
static void requests_drop(const struct fake_id *listener) {
    struct fake_event_channel *channel = (struct fake_event_channel *)listener->base.channel;
    struct fake_event *event;
    while ((event = request_of(channel))) {
        struct fake_id *called = (struct fake_id *)event->base.id;
        if (called->peer) {
            event_send(called->peer, RDMA_CM_EVENT_REJECTED, 0, NULL);
            called->peer->peer = NULL;
        }
        events_drop(called);
        id_unlist(called);
        free(called);
        fake.objects--;
    }
}

static int fake_destroy_id(struct rdma_cm_id *base) {
    struct fake_id *id = (struct fake_id *)base;
    pthread_mutex_lock(&fake.lock);
    id_unlist(id);
    events_drop(id);
    if (id->listens)
        requests_drop(id);
    if (id->peer) {
        side_break(id);
        side_break(id->peer);
        event_send(id->peer, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
        id->peer->peer = NULL;
    }
    pthread_cond_signal(&fake.work);
    pthread_mutex_unlock(&fake.lock);
    return fake_verbs_unmake(id);
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static struct sockaddr_in address_of(int device) {
    union ibv_gid gid;
    struct sockaddr_in address = {.sin_family = AF_INET};
    fake_verbs_gid(device, 1, &gid);
    memcpy(&address.sin_addr, gid.raw + 12, sizeof address.sin_addr);
    return address;
}

/* -1: no device has it. */
static int device_at(const struct sockaddr_in *address) {
    for (int i = 0; i < fake.setup.devices; i++)
        if (address_of(i).sin_addr.s_addr == address->sin_addr.s_addr)
            return i;
    return -1;
}

/* Run once, because ranks are threads that all read them. */
static void contexts_fill(void) {
    for (int i = 0; i < DEVICES_MAX; i++)
        contexts[i].device = &fake.devices[i];
}

static bool id_takes(struct fake_id *id, const struct sockaddr *address) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    memcpy(&id->from, address, sizeof id->from);
    const int device = device_at(&id->from);
    if (address->sa_family != AF_INET || device < 0) {
        errno = EADDRNOTAVAIL;
        return false;
    }
    (void)pthread_once(&once, contexts_fill);
    id->base.verbs = &contexts[device];
    id->base.port_num = 1;
    return true;
}

static int fake_bind_addr(struct rdma_cm_id *base, struct sockaddr *address) {
    if (fake_verbs_call_fails(PROVIDER_CM_BIND))
        return -1;
    return id_takes((struct fake_id *)base, address) ? 0 : -1;
}

static int fake_listen(struct rdma_cm_id *base, int backlog) {
    static uint16_t port;
    struct fake_id *id = (struct fake_id *)base;
    REQUIRE(backlog > 0 && base->verbs);
    if (fake_verbs_call_fails(PROVIDER_CM_LISTEN))
        return -1;
    pthread_mutex_lock(&fake.lock);
    id->listens = true;
    id->from.sin_port = htons((uint16_t)(PORT_FIRST + ++port % PORT_FIRST));
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

static __be16 fake_get_src_port(struct rdma_cm_id *id) {
    return ((struct fake_id *)id)->from.sin_port;
}

/* lo and one interface per device. */
static int fake_getifaddrs(struct ifaddrs **ret_list) {
    struct interface {
        struct ifaddrs base;
        struct sockaddr_in address, mask;
    } * all;
    if (fake_verbs_call_fails(PROVIDER_CM_GETIFADDRS))
        return -1;
    all = fake_verbs_make((size_t)(DEVICES_MAX + 1) * sizeof *all);
    for (int i = 0; i <= fake.setup.devices; i++) {
        struct interface *one = &all[i];
        one->address = i ? address_of(i - 1) : (struct sockaddr_in){.sin_family = AF_INET};
        if (i == 0)
            one->address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        one->mask.sin_addr.s_addr = htonl(0xffffff00);
        one->base.ifa_addr = (struct sockaddr *)&one->address;
        one->base.ifa_netmask = (struct sockaddr *)&one->mask;
        one->base.ifa_flags = i ? IFF_UP : IFF_UP | IFF_LOOPBACK;
        one->base.ifa_next = i < fake.setup.devices ? &all[i + 1].base : NULL;
    }
    *ret_list = &all[0].base;
    return 0;
}

static void fake_freeifaddrs(struct ifaddrs *list) {
    (void)fake_verbs_unmake(list);
}

/* ---- Connecting ------------------------------------------------------------------------------ */

static int fake_resolve_addr(struct rdma_cm_id *base, struct sockaddr *from, struct sockaddr *to,
                             int timeout_ms) {
    struct fake_id *id = (struct fake_id *)base;
    REQUIRE(timeout_ms > 0 && from && to->sa_family == AF_INET);
    if (fake_verbs_call_fails(PROVIDER_CM_RESOLVE_ADDR) || !id_takes(id, from))
        return -1;
    memcpy(&id->to, to, sizeof id->to);
    pthread_mutex_lock(&fake.lock);
    if (!fake.cut)
        event_send(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
    else
        event_send(id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT, NULL);
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

static int fake_resolve_route(struct rdma_cm_id *base, int timeout_ms) {
    REQUIRE(timeout_ms > 0 && base->verbs);
    if (fake_verbs_call_fails(PROVIDER_CM_RESOLVE_ROUTE))
        return -1;
    pthread_mutex_lock(&fake.lock);
    event_send((struct fake_id *)base, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

static struct fake_id *listener_at(const struct sockaddr_in *address) {
    struct fake_id *id = ids;
    while (id && !(id->listens && id->from.sin_addr.s_addr == address->sin_addr.s_addr &&
                   id->from.sin_port == address->sin_port))
        id = id->next;
    return id;
}

static int fake_connect(struct rdma_cm_id *base, struct rdma_conn_param *param) {
    struct fake_id *id = (struct fake_id *)base;
    if (fake_verbs_call_fails(PROVIDER_CM_CONNECT))
        return -1;
    pthread_mutex_lock(&fake.lock);
    struct fake_id *listener = listener_at(&id->to);
    id->qp_num = param->qp_num;
    if (listener && !fake.cut && !fake.silent) {
        struct fake_id *called = id_make(listener->base.channel, listener->base.context);
        called->base.verbs = listener->base.verbs;
        called->peer = id;
        id->peer = called;
        event_send(called, RDMA_CM_EVENT_CONNECT_REQUEST, 0, param);
    } else if (!fake.silent) {
        event_send(id, RDMA_CM_EVENT_UNREACHABLE, -ECONNREFUSED, NULL);
    }
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

/* The device moves the queue pair to RTS. */
static void side_connect(const struct fake_id *id, bool called) {
    struct fake_qp *qp = fake_verbs_qp(id->qp_num);
    if (!qp || qp->base.state != IBV_QPS_INIT)
        return;
    qp->base.state = IBV_QPS_RTS;
    qp->dest = id->peer->qp_num;
    qp->called = called;
    qp->patience_ms = INT64_MAX;
}

static int fake_accept(struct rdma_cm_id *base, struct rdma_conn_param *param) {
    struct fake_id *id = (struct fake_id *)base;
    if (fake_verbs_call_fails(PROVIDER_CM_ACCEPT))
        return -1;
    pthread_mutex_lock(&fake.lock);
    id->qp_num = param->qp_num;
    if (id->peer) {
        side_connect(id, true);
        side_connect(id->peer, false);
        event_send(id->peer, RDMA_CM_EVENT_ESTABLISHED, 0, param);
        event_send(id, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
    } else {
        event_send(id, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET, NULL);
    }
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

static int fake_reject(struct rdma_cm_id *base, const void *private_data, uint8_t len) {
    struct fake_id *id = (struct fake_id *)base;
    (void)private_data;
    (void)len;
    pthread_mutex_lock(&fake.lock);
    if (id->peer) {
        event_send(id->peer, RDMA_CM_EVENT_REJECTED, 0, NULL);
        id->peer->peer = NULL;
        id->peer = NULL;
    }
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

static const struct verbs_cm_table *fake_cm(void) {
    static const struct verbs_cm_table functions = {
        .create_event_channel = fake_create_channel,
        .destroy_event_channel = fake_destroy_channel,
        .create_id = fake_create_id,
        .destroy_id = fake_destroy_id,
        .bind_addr = fake_bind_addr,
        .listen = fake_listen,
        .get_src_port = fake_get_src_port,
        .resolve_addr = fake_resolve_addr,
        .resolve_route = fake_resolve_route,
        .connect = fake_connect,
        .accept = fake_accept,
        .reject = fake_reject,
        .get_cm_event = fake_get_event,
        .ack_cm_event = fake_ack_event,
        .getifaddrs = fake_getifaddrs,
        .freeifaddrs = fake_freeifaddrs,
    };
    return fake.setup.without_cm ? NULL : &functions;
}

void fake_verbs_cm(struct verbs_table *table) {
    table->cm = fake_cm;
}
