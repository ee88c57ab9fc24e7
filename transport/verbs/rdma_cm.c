/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs of iWARP, which only rdma_cm can connect: by a TCP connection between the devices.
 *
 *   dialled side                                          other side
 *                <-- offer: address, TCP port, token ---  listens at each of its ports
 *   connect  -----------> its rank, that token ------->   the link that has offered it accepts
 *            <----------- its rank, the token that the dialled side has offered
 *   sends hello, the first message, as MPA requires
 *
 * Offers are authenticated, and a token is valid for one link, so connections of unauthenticated
 * peers are refused on either side. A step may wait for the other side. Therefore the dialled side
 * connects in the connector's thread (connect.c), and the loop thread answers requests without
 * waiting: two ranks whose connectors wait for each other's loops both make progress.
 *
 * A queue pair stays connected as long as its rdma_cm_id exists. If a peer closes it, completions
 * of the queue pair report that, as with other devices.
 */
#include "rdma_cm.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include "device_faults.h"
#include "log.h"
#include "verbs.h"

enum { BACKLOG_LEAST = 128, EVENTS_AT_ONCE = 16 };

struct verbs_connection {
    const struct verbs_cm_table *cm;
    struct rdma_event_channel *channel; /* own channel; NULL: uses the one of the port's listener */
    struct rdma_cm_id *id;
};

/* Sent by either side when it connects; on the wire. */
struct verbs_introduction {
    uint32_t magic;
    uint32_t rank;
    uint64_t token; /* the token from the receiver's offer */
};
_Static_assert(sizeof(struct verbs_introduction) == 16, "no padding on the wire");

/* ---- Connections ----------------------------------------------------------------------------- */

static void cm_disconnect(struct verbs_connection *connection) {
    if (connection->id)
        (void)connection->cm->destroy_id(connection->id);
    if (connection->channel)
        connection->cm->destroy_event_channel(connection->channel);
    free(connection);
}

/* A connection with an id and its own non-blocking channel. NULL: see errno. */
static struct verbs_connection *connection_make(const struct verbs_cm_table *cm) {
    struct verbs_connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->cm = cm;
    connection->channel = cm->create_event_channel();
    if (connection->channel && fcntl(connection->channel->fd, F_SETFL, O_NONBLOCK) == 0 &&
        cm->create_id(connection->channel, &connection->id, NULL, RDMA_PS_TCP) == 0)
        return connection;
    const int error = errno;
    cm_disconnect(connection);
    errno = error;
    return NULL;
}

static struct rdma_conn_param param_of(const struct verbs_introduction *own, uint32_t qp_num) {
    return (struct rdma_conn_param){.private_data = own,
                                    .private_data_len = sizeof *own,
                                    /* Probes are reads: as many as the device supports. With 1, siw
                                     * sometimes never completes a read. */
                                    .responder_resources = RDMA_MAX_RESP_RES,
                                    .initiator_depth = RDMA_MAX_INIT_DEPTH,
                                    .retry_count = 7,
                                    .rnr_retry_count = 7,
                                    .qp_num = qp_num};
}

static bool introduction_take(const struct rdma_cm_event *event,
                              struct verbs_introduction *ret_call) {
    const struct rdma_conn_param *param = &event->param.conn;
    if (!param->private_data || param->private_data_len < sizeof *ret_call)
        return false; /* longer is valid: padding may follow */
    memcpy(ret_call, param->private_data, sizeof *ret_call);
    return ret_call->magic == VERBS_MAGIC;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static union address address_of(const struct verbs_offered *port, uint16_t tcp_port) {
    union address address;
    memset(&address, 0, sizeof address);
    if (port->ipv4) {
        address.v4.sin_family = AF_INET;
        address.v4.sin_port = htons(tcp_port);
        memcpy(&address.v4.sin_addr, port->gid + 12, sizeof address.v4.sin_addr);
    } else {
        address.v6.sin6_family = AF_INET6;
        address.v6.sin6_port = htons(tcp_port);
        memcpy(&address.v6.sin6_addr, port->gid, sizeof address.v6.sin6_addr);
    }
    return address;
}

/* Converts an interface's address to a GID. False: peers cannot connect to that address. */
static bool address_offer(const struct ifaddrs *from, struct verbs_offered *offered) {
    if (!from->ifa_addr || !from->ifa_netmask || !(from->ifa_flags & IFF_UP) ||
        (from->ifa_flags & IFF_LOOPBACK))
        return false;
    if (from->ifa_addr->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)from->ifa_addr,
                                 *mask = (const void *)from->ifa_netmask;
        memset(offered->gid, 0, sizeof offered->gid);
        memset(offered->gid + 10, 0xff, 2);
        memcpy(offered->gid + 12, &in->sin_addr, sizeof in->sin_addr);
        offered->ipv4 = (uint8_t)__builtin_popcount(mask->sin_addr.s_addr);
        return offered->ipv4 > 0;
    }
    if (from->ifa_addr->sa_family != AF_INET6)
        return false;
    const struct sockaddr_in6 *in6 = (const void *)from->ifa_addr;
    memcpy(offered->gid, &in6->sin6_addr, sizeof offered->gid);
    offered->ipv4 = 0;
    return !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
}

/* ---- Listening ------------------------------------------------------------------------------- */

static bool bound_to(const struct rdma_cm_id *id, const struct verbs_port *port) {
    return id->verbs && strcmp(id->verbs->device->name, port->context->device->name) == 0 &&
           id->port_num == port->number;
}

/* Listens at the address if it belongs to the port's own interface. Returns an error number; 0 also
 * if it belongs to another interface. */
static int listen_at(struct verbs_port *port, const struct verbs_offered *at) {
    struct verbs_connection *listener = connection_make(port->domain->table->cm());
    if (!listener)
        return errno;
    union address address = address_of(at, 0);
    struct rdma_cm_id *id = listener->id;
    const int nranks = port->domain->nranks; /* all may connect at the same time */
    const int backlog = nranks > BACKLOG_LEAST ? nranks : BACKLOG_LEAST;
    int error = listener->cm->bind_addr(id, &address.any) == 0 ? 0 : errno;
    const bool own = error == 0 && bound_to(id, port);
    if (own && listener->cm->listen(id, backlog) != 0)
        error = errno;
    if (!own || error) {
        cm_disconnect(listener);
        return error == ENODEV || error == EADDRNOTAVAIL ? 0 : error; /* not an RDMA interface */
    }
    port->listener = listener;
    port->offered = *at;
    port->offered.tcp_port = ntohs(listener->cm->get_src_port(id));
    return 0;
}

/* Listens at the first address that works, IPv4 first, as for RoCE. Returns the first error number.
 */
static int listen_at_any(struct verbs_port *port, const struct ifaddrs *all) {
    static const int families[] = {AF_INET, AF_INET6};
    int first = 0;
    for (int i = 0; i < 2; i++)
        for (const struct ifaddrs *one = all; one && !port->listener; one = one->ifa_next) {
            struct verbs_offered offered = port->offered;
            offered.layer = VERBS_LAYER_IWARP;
            if (!one->ifa_addr || one->ifa_addr->sa_family != families[i] ||
                !address_offer(one, &offered))
                continue;
            const int error = listen_at(port, &offered);
            first = first ? first : error;
        }
    return first;
}

/* Can this process open a channel to rdma_cm at all? */
static rcm_status cm_reach(const struct verbs_port *port, const struct verbs_cm_table *cm) {
    struct rdma_event_channel *channel = cm->create_event_channel();
    if (!channel)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, errno,
                         "%s is connected by rdma_cm, which cannot be reached by " VERBS_DEV
                         "/rdma_cm (of the kernel's module rdma_ucm)",
                         port->name);
    cm->destroy_event_channel(channel);
    return RCM_OK;
}

static rcm_status cm_open(struct verbs_port *port, int n) {
    const struct verbs_cm_table *cm = port->domain->table->cm();
    struct ifaddrs *all = NULL;
    (void)n;
    const rcm_status status = cm ? cm_reach(port, cm) : RCM_OK;
    if (status != RCM_OK)
        return status;
    if (!cm || cm->getifaddrs(&all) != 0)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, cm ? errno : 0, "%s has no addresses for rdma_cm",
                         port->name);
    const int error = listen_at_any(port, all);
    cm->freeifaddrs(all);
    if (port->listener)
        return RCM_OK;
    if (error)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, error, "rdma_cm cannot listen at an address of %s",
                         port->name);
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                     "%s has no address at which rdma_cm can listen (an interface that is up, "
                     "with an IPv4 or a global IPv6 address)",
                     port->name);
}

static void cm_close(struct verbs_port *port) {
    if (port->listener)
        cm_disconnect(port->listener);
    port->listener = NULL;
}

/* ---- The dialling side ----------------------------------------------------------------------- */

/* The error number of an unexpected event. */
static int error_of(const struct rdma_cm_event *event) {
    if (event->event == RDMA_CM_EVENT_REJECTED)
        return ECONNREFUSED;
    return event->status < 0 ? -event->status : ECONNABORTED;
}

/* Was the answer sent by the rank whose offer this is? */
static bool answer_is_right(const struct verbs_job *job, const struct rdma_cm_event *event) {
    struct verbs_introduction answer;
    return introduction_take(event, &answer) && answer.token == job->token;
}

/* Waits for the next event of the job's connection, which must be of that type. */
static int wait_for(struct verbs_job *job, enum rdma_cm_event_type type) {
    const struct verbs_cm_table *cm = job->connection->cm;
    struct rdma_event_channel *channel = job->connection->channel;
    struct rdma_cm_event *event;
    while (cm->get_cm_event(channel, &event) != 0) {
        if (errno != EAGAIN && errno != EINTR)
            return errno;
        const int error = verbs_job_wait(job, channel->fd);
        if (error)
            return error;
    }
    int error = event->event == type && event->status == 0 ? 0 : error_of(event);
    if (error == 0 && type == RDMA_CM_EVENT_ESTABLISHED && !answer_is_right(job, event))
        error = EPROTO;
    (void)cm->ack_cm_event(event);
    return error;
}

/* Remaining time for a step; at least 1, because 0 would mean no limit. */
static int left_ms(const struct verbs_job *job) {
    const int left = rcmi_deadline_left_ms(job->until);
    return left > 0 ? left : 1;
}

static int connect_steps(struct verbs_job *job) {
    const struct verbs_cm_table *cm = job->connection->cm;
    struct rdma_cm_id *id = job->connection->id;
    union address from = address_of(&job->port->offered, 0),
                  to = address_of(&job->far, job->far.tcp_port);
    const struct verbs_introduction own = {.magic = VERBS_MAGIC,
                                           .rank =
                                               (uint32_t)rcmi_node_rank(job->port->domain->node),
                                           .token = job->far_token};
    struct rdma_conn_param param = param_of(&own, job->qp->qp_num);
    if (cm->resolve_addr(id, &from.any, &to.any, left_ms(job)) != 0)
        return errno;
    int error = wait_for(job, RDMA_CM_EVENT_ADDR_RESOLVED);
    if (error == 0 && cm->resolve_route(id, left_ms(job)) != 0)
        error = errno;
    if (error == 0)
        error = wait_for(job, RDMA_CM_EVENT_ROUTE_RESOLVED);
    if (error == 0 && cm->connect(id, &param) != 0)
        error = errno;
    return error ? error : wait_for(job, RDMA_CM_EVENT_ESTABLISHED);
}

static int cm_connect(struct verbs_job *job) {
    job->connection = connection_make(job->port->domain->table->cm());
    return job->connection ? connect_steps(job) : errno;
}

/* ---- The other side, on the loop thread ------------------------------------------------------ */

/* The link that has offered the token and waits for such a request; NULL if there is none. */
static struct verbs_link *link_introduced(const struct verbs_port *port,
                                          const struct verbs_introduction *theirs) {
    struct verbs_link *link =
        theirs->rank < (uint32_t)port->domain->nranks ? port->links[theirs->rank] : NULL;
    if (!link || link->initiator || link->connection || link->token != theirs->token)
        return NULL;
    verbs_lock_take(&link->lock);
    const bool waits = link->state == VERBS_NEW;
    verbs_lock_drop(&link->lock);
    return waits ? link : NULL;
}

static void link_connected(struct verbs_link *link, int error) {
    verbs_lock_take(&link->lock);
    verbs_link_connected(link, error);
    verbs_lock_drop(&link->lock);
    verbs_go_on(link->domain);
}

static void request_accept(struct verbs_link *link, struct rdma_cm_id *id) {
    const struct verbs_cm_table *cm = link->port->listener->cm;
    const struct verbs_introduction answer = {.magic = VERBS_MAGIC,
                                              .rank = (uint32_t)rcmi_node_rank(link->domain->node),
                                              .token = link->far_token};
    struct rdma_conn_param param = param_of(&answer, link->qp->qp_num);
    struct verbs_connection *connection = calloc(1, sizeof *connection);
    id->context = link;
    if (!connection) {
        (void)cm->destroy_id(id);
        link_connected(link, ENOMEM);
        return;
    }
    *connection = (struct verbs_connection){.cm = cm, .id = id};
    link->connection = connection;
    if (cm->accept(id, &param) != 0)
        link_connected(link, errno);
}

static void request_answer(struct verbs_port *port, struct rdma_cm_id *id, bool whole,
                           const struct verbs_introduction *theirs) {
    const struct verbs_cm_table *cm = port->listener->cm;
    struct verbs_link *link = whole ? link_introduced(port, theirs) : NULL;
    if (link) {
        request_accept(link, id);
        return;
    }
    rcmi_log(port->refused ? RCMI_LOG_DEBUG : RCMI_LOG_WARN,
             "%s refused a connection without an offer of this rank", port->name);
    port->refused = true;
    (void)cm->reject(id, NULL, 0);
    (void)cm->destroy_id(id);
}

/* Later events add nothing to what the queue pair's completions report. */
static void request_goes_on(struct verbs_link *link, enum rdma_cm_event_type type, int error) {
    verbs_lock_take(&link->lock);
    const bool waits = link->state == VERBS_NEW;
    verbs_lock_drop(&link->lock);
    if (waits)
        link_connected(link, type == RDMA_CM_EVENT_ESTABLISHED ? 0 : error);
}

static void event_take(struct verbs_port *port, struct rdma_cm_event *event) {
    const enum rdma_cm_event_type type = event->event;
    struct rdma_cm_id *id = event->id;
    const int error = error_of(event);
    struct verbs_introduction theirs;
    const bool whole = type == RDMA_CM_EVENT_CONNECT_REQUEST && introduction_take(event, &theirs);
    (void)port->listener->cm->ack_cm_event(event); /* before its id may be destroyed */
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
        request_answer(port, id, whole, &theirs);
    else if (id->context)
        request_goes_on(id->context, type, error);
}

/* Existing links need the channel until they are down. The port is not offered any more. */
static void port_deafen(struct verbs_port *port, int error) {
    char text[160];
    rcmi_loop_unwatch(rcmi_node_loop(port->domain->node), &port->requests);
    port->deaf = true;
    (void)port->listener->cm->destroy_id(port->listener->id);
    port->listener->id = NULL;
    snprintf(text, sizeof text, "connection requests to the port cannot be read: %s",
             strerror(error));
    verbs_port_fail(port, text);
}

static void cm_requested(void *arg, uint32_t events) {
    struct verbs_port *port = arg;
    struct rdma_cm_event *event;
    (void)events;
    for (int i = 0; i < EVENTS_AT_ONCE; i++) { /* the loop calls again if there are more */
        if (port->listener->cm->get_cm_event(port->listener->channel, &event) != 0) {
            if (errno != EAGAIN && errno != EINTR)
                port_deafen(port, errno);
            return;
        }
        event_take(port, event);
    }
}

static rcm_status cm_watch(struct verbs_port *port) {
    port->requests =
        (struct rcmi_watch){.fd = port->listener->channel->fd, .ready = cm_requested, .arg = port};
    return rcmi_loop_watch(rcmi_node_loop(port->domain->node), &port->requests, EPOLLIN);
}

const struct verbs_method verbs_by_cm = {
    .one_sided = true,
    .open = cm_open,
    .close = cm_close,
    .watch = cm_watch,
    .connect = cm_connect,
    .disconnect = cm_disconnect,
};
