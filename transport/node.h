/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared state of the framework: a node and its links. Backends do not include it; they use
 * backend.h. Each layer has its own header and calls the layers below it. Calls to the layer above
 * go through a table that the node is made with:
 *
 *   node.c, registry.c      nodes, and which transports they use
 *     channel/channel.h     FIFOs between ranks, registered memory
 *     link/link.h           one per peer; calls channels by struct rcmi_link_above
 *     net/net.h             sockets until both sides are identified; calls links by
 *                           struct rcmi_net_above
 *
 * Everything here belongs to the loop thread unless marked otherwise. Other threads use
 * rcmi_loop_call or the node's outbox. Links are never freed before the node, because any callback
 * may lose any link: code after a callback checks the state again.
 *
 *   a connection's life:  connect or accept -> authentication -> HELLO, REPLY -> handed to its link
 *   a link's life:        NONE -> DIALING or WAITING -> SETUP -> UP -> ENDED (farewell) or LOST
 *   a plane's life:       NONE -> SETUP -> UP -> OVER, or SETUP -> DECLINED
 *   a channel's life:     open -> links UP -> OPEN frames -> ACK frames -> ready -> CLOSE frames
 *
 * setup.c sets up a link once its control connection is established. If a transport declines, the
 * link returns from SETUP to DIALING.
 */
#ifndef RCMI_TRANSPORT_NODE_H
#define RCMI_TRANSPORT_NODE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "fd.h"
#include "interfaces.h"
#include "log.h"
#include "backend.h"
#include "transport.h"

#define RCMI_LISTENERS_MAX 16
#define RCMI_ADDRESS_MAX   1536 /* bytes of an address blob */
#define RCMI_UNIX_NAME_MAX 100
#define RCMI_LACKS_MAX     160
#define RCMI_DECLINE_MAX   480 /* bytes of the reason */

struct rcmi_conn;
struct rcmi_channel_end;
struct rcmi_frame;
struct rcmi_link_above;
struct rcmi_net_above;
struct rcmi_pending;
struct rcmi_reader;
struct rcmi_registration;

struct rcmi_domain {
    const struct rcmi_transport *transport;
    uint32_t number; /* rcmi_transport_number */
    void *data;
};

/* Sorted by address. reach: the largest end address among the entries up to this one. */
struct rcmi_registrations {
    struct {
        struct rcmi_registration *registration;
        uintptr_t reach;
    } * entries;
    size_t n, cap;
};

struct rcmi_listener {
    struct rcmi_node *node;
    struct rcmi_watch watch;
    struct rcmi_timer timer;       /* pause after a failed accept */
    rcmi_deadline log_quiet_until; /* log rate limit: suppressed until then */
    bool same_host;                /* a Unix socket */
    bool loopback;
};

struct rcmi_frames {
    struct rcmi_frame *head, *tail;
};

struct rcmi_node {
    struct rcmi_node_config config; /* the node owns the strings */
    const struct rcmi_net_above *net_above;
    const struct rcmi_link_above *link_above;
    /* Of ranks of this host, and of those of them that are near; see rcmi_node_set_near. */
    struct rcmi_protocol protocol, near_protocol;
    bool *near; /* by rank; NULL: none is */
    enum rcmi_sharing sharing;
    int64_t peer_timeout_ms;
    bool checks_memory;  /* RINGCOMM_CHECK_MEMORY */
    uint32_t generation; /* of the process that created the node: base/fork.h */
    struct rcmi_loop *loop;
    /* The configured backends, in order of preference. */
    const struct rcmi_transport *backends[RCMI_TRANSPORTS_MAX];
    int nbackends;
    const struct rcmi_transport *own_backend; /* the listed backend that loops back; NULL: none */
    /* Those that work here, in the same order; the last one loops back. */
    struct rcmi_domain domains[RCMI_TRANSPORTS_MAX + 1];
    int ndomains;
    char lacks[RCMI_LACKS_MAX]; /* why others do not work, for texts */
    size_t channel_size;        /* the largest of all domains */
    /* Release store in rcmi_node_use_device pairs with the acquire load in rcmi_node_device. */
    _Atomic(struct rcmi_device *) device;
    struct rcmi_doorbell *doorbell;
    int poller_fd; /* wakes the thread that polls, see sleep.c */
    /* A thread polls. That thread sets it by exchange and clears it; seq_cst, guards no other data.
     */
    _Atomic bool polled;
    void *status_page;
    void *own_head; /* doorbell and status page if no backend placed them */
    int own_fd;     /* memory file of own_head, -1 */
    uint8_t address[RCMI_ADDRESS_MAX];
    size_t address_len;
    char unix_name[RCMI_UNIX_NAME_MAX + 1];
    struct rcmi_listener listeners[RCMI_LISTENERS_MAX];
    int nlisteners;
    struct rcmi_conn *conns; /* youngest first */
    int nunidentified;       /* see rcmi_conn_is_unidentified; at most max_unidentified */
    int max_unidentified;
    int pending_fds; /* descriptors of channels that peers opened before us */
    bool at_home;    /* one listener per address, see rcmi_listen_narrow */
    bool attended;
    bool waiting; /* attended but not started: peers are not answered yet */
    struct rcmi_log_rate log_rate[2];
    /* By rank; NULL if not needed yet. Release store on the loop thread pairs with the acquire load
     * in rcmi_node_link of other threads. */
    _Atomic(struct rcmi_link *) *links;
    int *sets;                           /* see rcmi_node_set_sharing; NULL: not set */
    struct rcmi_link *lost;              /* to be reported by peer_lost */
    struct rcmi_channel_end *ends;       /* all channel ends */
    struct rcmi_frames loopback;         /* frames of the link to ourselves */
    uint32_t serial;                     /* of the last channel opened for writing */
    struct rcmi_timer beat;              /* heartbeats, while a link needs them */
    bool device_seen;                    /* planes that waited for the device have started */
    int closing;                         /* writer ends closed here but not yet by all readers */
    size_t slot_memory, slot_memory_max; /* bytes of all ends' slots */
    bool leaving;                        /* the farewell was sent */
    bool hurries;                        /* ... and the peers' farewells are not waited for */
    bool unanswered;                     /* a peer's farewell may still need an answer */
    bool closed;                         /* rcmi_node_destroy has begun */
    bool broken;                         /* closed_descriptors.c; loop thread */

    pthread_mutex_t lock; /* outbox, and the state that rcmi_node_farewell waits for */
    pthread_cond_t changed;
    struct rcmi_frames outbox;
    struct rcmi_frames kept; /* broadcast messages, see kept_frames.c; loop thread */
    int nkept;
    struct rcmi_link *failed;
    struct rcmi_link *changed_links;
    bool settled;                            /* every peer has sent its farewell or is gone */
    struct rcmi_registrations registrations; /* under lock */
};

enum rcmi_link_state {
    RCMI_LINK_NONE,
    RCMI_LINK_DIALING, /* our connection is being made */
    RCMI_LINK_WAITING, /* the peer replied that it is dialling us */
    RCMI_LINK_SETUP,   /* a connection was accepted; offers, data sockets */
    RCMI_LINK_UP,
    RCMI_LINK_ENDED, /* after the peer's farewell */
    RCMI_LINK_LOST,
};

/* One way to connect to a peer. */
struct rcmi_target {
    struct rcmi_domain *domain;
    bool same_host;
    bool patient; /* no answer yet, but one may still come */
    bool refused; /* by another host, or by a firewall on its behalf */
    struct rcmi_sockaddr addr;
    char iface[RCMI_IFACE_MAX]; /* the peer's name of the interface */
    char why[96];               /* why it failed; "": not tried */
};

enum rcmi_plane_state {
    RCMI_PLANE_NONE,
    RCMI_PLANE_SETUP,    /* from its claim on */
    RCMI_PLANE_UP,       /* on both sides */
    RCMI_PLANE_DECLINED, /* by either side; host plane: until the peer closes the control stream */
    RCMI_PLANE_OVER,     /* the link is over */
};

/* A data plane of a link: one transport that carries one kind of memory between the two ranks.
 * For the device plane see device_plane.c. */
struct rcmi_plane {
    struct rcmi_link *link;
    enum rcmi_mem_kind kind;
    enum rcmi_plane_state state;
    struct rcmi_domain *domain; /* from SETUP on */
    void *data;                 /* the transport's link state */
    bool offered, accepted;
    bool ready, peer_ready; /* READY was sent, and received */
    bool needed;            /* on this side */
    bool held;              /* the peer has made this offer, and this side has not made one yet: */
    struct rcmi_blob offer;
    struct rcmi_timer timer;             /* time limit once both have offered */
    uint64_t attached;                   /* bit i: data socket i is attached */
    char decline[RCMI_DECLINE_MAX + 40]; /* which rank declined last, and why */
};

/* State of silence.c for a link; zero at first. */
struct rcmi_silence {
    int probes;        /* without an answer */
    int64_t probed_at; /* time of the first of them, in ns; without probes: time of the last call */
    int64_t look_at;   /* time of the next call; slightly earlier is accepted */
    bool excused;      /* one missed heartbeat was tolerated */
};

struct rcmi_link {
    struct rcmi_node *node;
    int peer;
    /* enum rcmi_link_state. Release store on the loop thread, after domain and why were written,
     * pairs with the acquire loads of other threads. */
    _Atomic int state;
    struct rcmi_plane planes[RCMI_MEM_KINDS];
    /* Names of the planes that are up, for rcmi_node_transport. Release store on the loop thread
     * pairs with the acquire load there. */
    _Atomic(const char *) by;
    bool same_host;            /* the control stream is a Unix socket */
    bool initiator;            /* this side dialled it */
    struct rcmi_error failing; /* failure of the host plane before the link is up; RCM_OK: none */
    unsigned passed_over;      /* bit i: domain i was declined by either side */
    bool was_up;               /* final before it is ENDED or LOST */
    bool bye_sent, bye_acked, bye_received;
    bool excused; /* by rcmi_node_excuse */

    struct rcmi_target *targets;
    int ntargets, target;
    char detour[96]; /* why the peer's Unix socket failed; "": not tried, or it works */
    int rounds;      /* through all targets */
    int retries;
    int pause_ms;                /* before the next attempt; 0: none failed yet */
    rcmi_deadline refused_until; /* the peer may connect to us until then; 0: not refused */
    rcmi_deadline redial_until;  /* a peer that hangs up is redialled until then; 0: none did */
    rcmi_deadline short_until;   /* lack of descriptors is tolerated until then; 0: never dialled */
    rcmi_deadline trying;        /* targets that gave no answer are retried until then */
    rcmi_deadline patience;      /* for a peer that answers but makes no progress */
    struct rcmi_timer timer;     /* retry, or time limit, by state */

    struct rcmi_watch control; /* fd -1: no control stream */
    uint32_t events;
    struct rcmi_silence silence;
    struct rcmi_frames first; /* set-up frames and heartbeats, which overtake the others */
    struct rcmi_frames out;
    size_t out_bytes; /* bytes of the queued frames */
    uint8_t *in;      /* receive buffer for one frame */
    size_t in_len;
    bool parsing;
    int in_fds[2 * RCMI_FDS_MAX];
    int in_nfds;

    struct rcmi_reader *readers; /* of all channel ends with the peer */
    struct rcmi_pending *pending;
    int npending;
    char unix_name[RCMI_UNIX_NAME_MAX + 1];
    struct rcmi_error why; /* of LOST and ENDED */
    struct rcmi_link *lost_next;
    bool failed; /* reported by rcmi_node_link_failed; with reason and list under node.lock */
    struct rcmi_error failure;
    struct rcmi_link *failed_next;
    bool changed; /* reported by rcmi_node_link_changed; likewise */
    struct rcmi_link *changed_next;
    /* Release store in the transport's link_accept pairs with the acquire load in
     * rcmi_node_peer_status_page. */
    _Atomic(const void *) status_page;
    struct rcmi_wake wake; /* the peer's, see backend.h */
};

/* The plane of host memory, with which a link comes up. */
static inline struct rcmi_plane *rcmi_host_plane(struct rcmi_link *link) {
    return &link->planes[RCMI_MEM_HOST];
}
static inline const char *rcmi_plane_name(const struct rcmi_plane *plane) {
    return plane->domain->transport->name;
}
static inline bool rcmi_plane_is_host(const struct rcmi_plane *plane) {
    return plane->kind == RCMI_MEM_HOST;
}

static inline enum rcmi_link_state rcmi_link_state(const struct rcmi_link *link) {
    /* Pairs with the store in rcmi_link_set. */
    return (enum rcmi_link_state)atomic_load_explicit(&link->state, memory_order_acquire);
}

/* The link; NULL if there is none. Any thread. */
static inline struct rcmi_link *rcmi_node_link(const struct rcmi_node *node, int peer) {
    /* Pairs with the store in link_get. */
    return atomic_load_explicit(&node->links[peer], memory_order_acquire);
}

#endif
