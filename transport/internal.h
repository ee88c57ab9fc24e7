/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of the framework (node, address, listen, connection, dial, link, control,
 * heartbeat, channel) share. Transports do not see it: what they may use is row.h.
 *
 * Everything here but what is marked otherwise belongs to the loop thread; other threads come in
 * through rcmi_loop_call or the node's outbox. Links are never freed before the node, so that a
 * callback may lose any link at any time: what follows a callback looks at the state again.
 *
 *   a connection's life:  connect or accept -> authentication -> HELLO, REPLY -> handed to its link
 *   a link's life:        NONE -> DIALING or WAITING -> SETUP -> UP -> ENDED (farewell) or LOST
 *   a plane's life:       NONE -> SETUP -> UP -> OVER, or SETUP -> DECLINED
 *   a channel's life:     open -> links UP -> OPEN frames -> ACK frames -> ready -> CLOSE frames
 *
 * Setting up a link, once its control connection stands, is in setup.c; a transport that declines
 * leads from SETUP back to DIALING.
 */
#ifndef RCMI_TRANSPORT_INTERNAL_H
#define RCMI_TRANSPORT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "auth.h"
#include "fd.h"
#include "interfaces.h"
#include "log.h"
#include "row.h"
#include "transport.h"

#define RCMI_LISTENERS_MAX 16
#define RCMI_ADDRESSES_MAX 32
#define RCMI_ADDRESS_MAX   1536 /* bytes of an address blob */
#define RCMI_UNIX_NAME_MAX 100
#define RCMI_LACKS_MAX     160
#define RCMI_MESSAGE_MAX   4096
#define RCMI_PENDING_MAX   4096 /* channels a peer may open ahead of us */
#define RCMI_PENDING_FDS   4    /* ... and times max_unidentified the descriptors of all those */
#define RCMI_QUEUE_MAX                                                                             \
    ((size_t)16 << 20)            /* bytes of a control stream that a peer leaves unread           \
                                   */
#define RCMI_ACCEPT_LIMIT_MS 5000 /* for an accepted connection to identify itself */
#define RCMI_REDIAL_MS       3000 /* so long is a peer dialled again that hangs up unanswered */
#define RCMI_DATA_RETRIES    30
#define RCMI_DECLINE_MAX     480 /* bytes of the sentence */
#define RCMI_FAILED_MAX      400 /* likewise */

/* ---- address.c ------------------------------------------------------------------------------- */

struct rcmi_address {
    char host_id[RCMI_HOST_ID_MAX + 1];
    char hostname[65];
    int pid;
    uint64_t job;
    uint64_t where[2]; /* equal: same network namespace of the same kernel, so loopback works;
                          where[0]: the kernel; zeros: not known */
    uint64_t life[3];  /* start of the process, namespaces of its number and clocks; process.h */
    char unix_name[RCMI_UNIX_NAME_MAX + 1]; /* "": no Unix listener */
    char transports[128];                   /* "shm,tcp" */
    char lacks[RCMI_LACKS_MAX];             /* why not others; for people, may be "" */
    struct rcmi_sockaddr tcp[RCMI_ADDRESSES_MAX];
    char iface[RCMI_ADDRESSES_MAX][RCMI_IFACE_MAX]; /* of each; for people, may be "" */
    int ntcp;
};

rcm_status rcmi_address_write(const struct rcmi_address *address, uint8_t *buf, size_t cap,
                              size_t *ret_len);
/* blob is not trusted. */
rcm_status rcmi_address_parse(const void *blob, size_t len, struct rcmi_address *ret_address);
/* Its strings, in place; lacks is "" if there is none. reach: families of its addresses. */
#define RCMI_REACH_IPV4     1u
#define RCMI_REACH_IPV6     2u
#define RCMI_REACH_OTHERS   (RCMI_REACH_IPV4 | RCMI_REACH_IPV6) /* from other hosts */
#define RCMI_REACH_LOOPBACK 4u
struct rcmi_address_rows {
    const char *host_id, *transports, *lacks;
    unsigned reach;
    uint64_t where[2];
};
rcm_status rcmi_address_rows(const void *blob, size_t len, struct rcmi_address_rows *ret_rows);
/* Identity of this network namespace; zeros if it cannot be told. */
void rcmi_address_where(uint64_t ret_where[2]);
/* Do both share one network namespace; may they? */
bool rcmi_where_is(const uint64_t a[2], const uint64_t b[2]);
bool rcmi_where_may_be(const uint64_t a[2], const uint64_t b[2]);
/* Is name an item of a comma list? */
bool rcmi_list_has(const char *list, const char *name);

/* ---- The objects ----------------------------------------------------------------------------- */

struct rcmi_domain {
    const struct rcmi_transport *transport;
    void *data;
};

/* Memory that the node handed out (a block), or that its user registered, and what each row
 * remembers of it. */
struct rcmi_registration {
    struct rcmi_mem mem;
    bool is_block;
    bool stays;                       /* a process that has ended may still read it */
    const struct rcmi_domain *domain; /* of a block: that made it; NULL: plain, or a device's */
    struct rcmi_device *device;       /* of a block: whose it is; NULL: it is host memory */
    uint32_t uses;                    /* of the user's own: calls that registered it */
    uint64_t identity;                /* of the memory when it was registered, see identity_get */
    int ndomains;                     /* that have heard of it */
    struct {
        const struct rcmi_domain *domain;
        void *own;
    } rows[RCMI_TRANSPORTS_MAX + 1];
};

/* In order of addresses. reach: the largest end up to it. */
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
    struct rcmi_timer timer; /* pause after a failed accept */
    rcmi_deadline told;      /* the log has heard of it until then */
    bool same_host;          /* a Unix socket */
    bool loopback;
};

/* A frame on its way out, or to ourselves. */
struct rcmi_frame {
    struct rcmi_frame *next;
    int peer;      /* in the outbox: the receiver, -1 those of `to` that are linked */
    const int *to; /* behind the bytes; NULL: all */
    int nto;
    size_t len, done;
    int fds[RCMI_FDS_MAX]; /* borrowed from the transport's domain */
    int nfds;
    _Alignas(8) uint8_t bytes[]; /* header and body */
};

struct rcmi_frames {
    struct rcmi_frame *head, *tail;
};

struct rcmi_node {
    struct rcmi_node_config config; /* strings are ours */
    struct rcmi_protocol protocol;  /* of ranks of this host */
    enum rcmi_sharing sharing;
    int64_t peer_timeout_ms;
    bool checks_memory;  /* RINGCOMM_CHECK_MEMORY */
    uint32_t generation; /* of the process that made it: base/fork.h */
    struct rcmi_loop *loop;
    /* Those that may be used, in order of preference, and what of it works here. */
    const struct rcmi_transport *rows[RCMI_TRANSPORTS_MAX];
    int nrows;
    const struct rcmi_transport *own_row; /* the listed row that loops back, NULL if none is */
    /* In order of rows; the last is of the row that loops back. */
    struct rcmi_domain domains[RCMI_TRANSPORTS_MAX + 1];
    int ndomains;
    char lacks[RCMI_LACKS_MAX]; /* why not the others, for people */
    size_t channel_size;        /* the largest of the domains' */
    /* Release store in rcmi_node_use_device pairs with the acquire load in rcmi_node_device. */
    _Atomic(struct rcmi_device *) device;
    struct rcmi_doorbell *doorbell;
    int poller_fd; /* wakes the thread that polls, see sleep.c */
    /* There is one. Exchange by a thread that is to be it, cleared by it; seq_cst, no other data go
     * with it. */
    _Atomic bool polled;
    void *status_page;
    void *own_head; /* memory of the two where no transport placed them */
    int own_fd;     /* of that, -1 */
    uint8_t address[RCMI_ADDRESS_MAX];
    size_t address_len;
    char unix_name[RCMI_UNIX_NAME_MAX + 1];
    struct rcmi_listener listeners[RCMI_LISTENERS_MAX];
    int nlisteners;
    struct rcmi_conn *conns; /* the youngest first */
    int nunidentified;       /* see rcmi_conn_is_unidentified; at most max_unidentified */
    int max_unidentified;
    int pending_fds; /* descriptors of channels opened ahead of us */
    bool at_home;    /* there is a listener for each address, see rcmi_listen_narrow */
    bool attended;
    bool waiting; /* attended, not started: peers are not answered yet */
    struct rcmi_log_rate log_rate[2];
    /* By rank, NULL where none was needed yet. Release store on the loop thread pairs with the
     * acquire load in rcmi_node_link of other threads. */
    _Atomic(struct rcmi_link *) *links;
    int *sets;                           /* see rcmi_node_set_sharing; NULL: not set */
    struct rcmi_link *lost;              /* to be told to peer_lost */
    struct rcmi_end *ends;               /* all channel ends */
    struct rcmi_frames loopback;         /* frames of the link to ourselves */
    uint32_t serial;                     /* of the last channel opened for writing */
    struct rcmi_timer beat;              /* heartbeats, while a link needs them */
    bool device_seen;                    /* planes that waited for it have begun */
    int closing;                         /* writer ends closed here, not yet by all readers */
    size_t slot_memory, slot_memory_max; /* bytes of all ends' slots */
    bool leaving;                        /* farewell said */
    bool hurries;                        /* ... and that of peers is not waited for */
    bool unanswered;                     /* some peer's farewell may still have to be answered */
    bool closed;                         /* rcmi_node_destroy has begun */
    bool broken;                         /* broken.c; loop thread */

    pthread_mutex_t lock; /* outbox, and the state that rcmi_node_farewell waits for */
    pthread_cond_t changed;
    struct rcmi_frames outbox;
    struct rcmi_frames said; /* to all; loop thread */
    int nsaid;
    struct rcmi_link *failed;
    struct rcmi_link *changed_links;
    bool settled;                            /* every peer has said farewell or is gone */
    struct rcmi_registrations registrations; /* under lock */
};

enum rcmi_link_state {
    RCMI_LINK_NONE,
    RCMI_LINK_DIALING, /* our connection is on its way */
    RCMI_LINK_WAITING, /* the peer said that its own is */
    RCMI_LINK_SETUP,   /* one was agreed on; offers, data sockets */
    RCMI_LINK_UP,
    RCMI_LINK_ENDED, /* after the peer's farewell */
    RCMI_LINK_LOST,
};

/* A way to reach a peer. */
struct rcmi_target {
    struct rcmi_domain *domain;
    bool same_host;
    bool patient; /* no answer yet, but one may still come */
    bool refused; /* by another host, or a firewall in its name */
    struct rcmi_sockaddr addr;
    char iface[RCMI_IFACE_MAX]; /* the peer's name of it */
    char why[96];               /* why it did not work; "": not tried */
};

enum rcmi_plane_state {
    RCMI_PLANE_NONE,
    RCMI_PLANE_SETUP,    /* from its claim on */
    RCMI_PLANE_UP,       /* on both sides */
    RCMI_PLANE_DECLINED, /* here or there; that of the host: the peer's end of control is awaited */
    RCMI_PLANE_OVER,     /* as the link */
};

/* A data plane of a link: what one transport carries between the two ranks in memory of one kind.
 * Its state of every kind but the host's: plane.c. */
struct rcmi_plane {
    struct rcmi_link *link;
    enum rcmi_mem_kind kind;
    enum rcmi_plane_state state;
    struct rcmi_domain *domain; /* from SETUP on */
    void *data;                 /* the transport's state */
    bool offered, accepted;
    bool ready, peer_ready; /* READY was said, and heard */
    bool needed;            /* here */
    bool held;              /* the peer has made this offer, and this side none yet: */
    struct rcmi_blob offer;
    struct rcmi_timer timer;             /* end of patience, once both have offered */
    uint64_t attached;                   /* bit i: data socket i is there */
    char decline[RCMI_DECLINE_MAX + 40]; /* which rank did so last, and why */
};

struct rcmi_pending; /* a channel opened by the peer, not yet by us */

/* What silence.c knows of a link; zero at first. */
struct rcmi_silence {
    int probes;        /* without an answer */
    int64_t probed_at; /* the first of them; if there is none, the last look */
    int64_t look_at;   /* when to look again; a little earlier is as well */
    bool excused;      /* this side was away once while it waited */
};

struct rcmi_link {
    struct rcmi_node *node;
    int peer;
    /* enum rcmi_link_state. Release store on the loop thread, after domain and why were written,
     * pairs with the acquire loads of other threads. */
    _Atomic int state;
    struct rcmi_plane planes[RCMI_MEM_KINDS];
    /* The names of those that are up, for rcmi_node_transport. Release store on the loop thread
     * pairs with the acquire load there. */
    _Atomic(const char *) by;
    bool same_host;            /* the control stream is a Unix socket */
    bool initiator;            /* we dialled it */
    struct rcmi_error failing; /* the host plane is, before the link is up; RCM_OK: it is not */
    unsigned passed_over;      /* bit i: domain i was declined, here or there */
    bool was_up;               /* final before it is ENDED or LOST */
    bool bye_sent, bye_acked, bye_received;
    bool excused; /* by rcmi_node_excuse */

    struct rcmi_target *targets;
    int ntargets, target;
    char detour[96]; /* why the peer's Unix socket did not work; "": it was not tried, or did */
    int rounds;      /* through all targets */
    int retries;
    int pause_ms;                /* before the next try; 0: none failed yet */
    rcmi_deadline refused_until; /* the peer may come by itself until then; 0: not refused */
    rcmi_deadline redial_until;  /* a peer that hangs up is dialled again; 0: none did */
    rcmi_deadline short_until;   /* until then a lack of descriptors may pass; 0: never dialled */
    rcmi_deadline trying;        /* until then ways that gave no answer are tried again */
    rcmi_deadline patience;      /* for a peer that is there but does not come to an end */
    struct rcmi_timer timer;     /* retry, or end of patience, by state */

    struct rcmi_watch control; /* fd -1 until there is one */
    uint32_t events;
    struct rcmi_silence silence;
    struct rcmi_frames first; /* of the set-up, which overtake the others */
    struct rcmi_frames out;
    size_t out_bytes; /* of those frames */
    uint8_t *in;      /* one frame */
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
    bool failed; /* by rcmi_node_link_failed, for this reason; both and the list under node.lock */
    struct rcmi_error failure;
    struct rcmi_link *failed_next;
    bool changed; /* by rcmi_node_link_changed; likewise */
    struct rcmi_link *changed_next;
    /* Release store in the transport's link_accept pairs with the acquire load in
     * rcmi_node_peer_status_page. */
    _Atomic(const void *) status_page;
    struct rcmi_wake wake; /* the peer's, see row.h */
};

/* One reader of a channel; in a list of all at the link to that rank (of a reader end: the writer's
 * rank), for a node may have as many channels as there are ranks. */
struct rcmi_reader {
    struct rcmi_end *end;
    struct rcmi_reader *next, **at; /* at: what points to it; NULL: not in the list */
    int rank;
    bool acked, closed;
};

/* The framework's part of a channel end. */
struct rcmi_end {
    struct rcmi_end *next, *prev;
    struct rcmi_channel *channel;
    uint32_t serial;    /* the writer's number for this incarnation, 0 before it is known */
    bool inited;        /* the transport's init was called */
    bool offered;       /* the peers know of this end by its serial */
    bool closing;       /* writer: closed here, waits for the readers' CLOSE */
    size_t slot_memory; /* counted at the node */
    struct rcmi_error why;
    int nreaders;
    int nup;                 /* writer: the links to so many, from the first on, have come up */
    int nplanes;             /* of so many, the plane of the channel's kind is decided on */
    enum rcmi_mem_kind kind; /* the planes that carry it, as far as that is known */
    int nacked, nclosed;
    struct rcmi_reader readers[]; /* of a reader end: one, the writer */
};

/* ---- broken.c -------------------------------------------------------------------------------- */

/* The loop has found that it is broken. Loop thread, from the tick. */
void rcmi_node_break(struct rcmi_node *node);

/* ---- connection.c ---------------------------------------------------------------------------- */

enum rcmi_hello_kind { RCMI_HELLO_CONTROL = 1, RCMI_HELLO_DATA = 2 };
enum rcmi_reply_status { RCMI_REPLY_OK = 1, RCMI_REPLY_BUSY = 2, RCMI_REPLY_REFUSED = 3 };

#define RCMI_HELLO_MAGIC 0x52434d48u /* the other byte order is refused with it */

/* Magic number and version are first in every version, and a side that has read so much answers
 * another version with its own (wire_version.h), without regard for the rest. */
struct rcmi_hello {
    uint32_t magic;
    uint16_t version;
    uint8_t kind, index;
    uint32_t from, to, nranks, reserved;
    uint64_t job;
    char transport[16];
};
_Static_assert(sizeof(struct rcmi_hello) == 48, "no padding on the wire");
#define RCMI_HELLO_HEAD offsetof(struct rcmi_hello, kind)

struct rcmi_reply {
    uint32_t magic;
    uint16_t version;
    uint16_t status;
    char text[152];
};
_Static_assert(sizeof(struct rcmi_reply) == 160, "no padding on the wire");

/* A socket on which the ends have not identified themselves to each other yet. */
struct rcmi_conn {
    struct rcmi_conn *next, *prev;
    struct rcmi_node *node;
    struct rcmi_link *link; /* ours; of an accepted one: once its hello was accepted */
    struct rcmi_link *held; /* accepted, answered BUSY: for the link that we dial ourselves */
    struct rcmi_watch watch;
    uint32_t events;
    struct rcmi_timer timer;
    struct rcmi_auth auth;
    int phase;
    int64_t since;
    bool initiator, same_host, patient, parked;
    struct rcmi_hello hello;
    struct rcmi_reply reply;
    size_t done; /* bytes of hello or reply moved */
};

/* Ends it for the reason in the thread's error. */
void rcmi_conn_fail(struct rcmi_conn *conn);
/* Answers the greeting of one that was parked. */
void rcmi_conn_answer(struct rcmi_conn *conn);
/* Accepted, and neither parked nor told to wait for our own call. */
bool rcmi_conn_is_unidentified(const struct rcmi_conn *conn);
/* Has anything come from the other side; has it proved the secret? */
bool rcmi_conn_spoke(const struct rcmi_conn *conn);
bool rcmi_conn_proved(const struct rcmi_conn *conn);
/* Takes fd over. */
void rcmi_conn_accepted(struct rcmi_node *node, int fd, bool same_host);
/* Begins a connection for link to its current target, to stand within limit_ms; then the peer has
 * RINGCOMM_PEER_TIMEOUT to answer, patient: four times that, because nothing else is left to try.
 * RCM_AGAIN: try again shortly. */
rcm_status rcmi_conn_dial(struct rcmi_link *link, enum rcmi_hello_kind kind, int index,
                          int64_t limit_ms, bool patient);
/* Has our own connection of link said who we are? Else the peer cannot have accepted it. */
bool rcmi_conn_has_greeted(const struct rcmi_link *link);
/* Our own connection has failed: that of the peer, which was told to wait, is taken. False: there
 * is none. */
bool rcmi_conn_take_held(struct rcmi_link *link);
/* We cannot reach link's peer. Tells it so if it has called meanwhile and was told to wait. */
void rcmi_conn_refuse(const struct rcmi_link *link, const char *why);
/* Closes and frees all connections of link, or of any if NULL. */
void rcmi_conn_drop(struct rcmi_node *node, const struct rcmi_link *link);

/* ---- unidentified.c -------------------------------------------------------------------------- */

/* Drops one to make room, in the order of unidentified.c; false if there is none. */
bool rcmi_unidentified_drop(struct rcmi_node *node);
/* Is it of another user, without a proved secret? */
bool rcmi_unidentified_is_foreign(const struct rcmi_conn *conn);
/* Is the other end of a Unix socket of a user to whom this process gives no memory? */
bool rcmi_unidentified_is_of_other(const struct rcmi_node *node, int fd, unsigned *ret_user);
/* The other end, in words for people. */
void rcmi_unidentified_name(const struct rcmi_conn *conn, char text[RCMI_ADDR_TEXT]);
/* Its greeting is read and right: it waits for rcmi_unidentified_start. */
void rcmi_unidentified_park(struct rcmi_conn *conn);
/* Something happened to one that is parked: RCM_AGAIN if it still waits. */
rcm_status rcmi_unidentified_wait(const struct rcmi_conn *conn);
/* Answers all that are parked. */
void rcmi_unidentified_start(struct rcmi_node *node);

/* ---- listen.c -------------------------------------------------------------------------------- */

/* Opens and watches the listening sockets, adds them to address, or why there is none. */
rcm_status rcmi_listen_open(struct rcmi_node *node, struct rcmi_address *address);
/* All ranks have published their addresses: what only other hosts would need is closed if all are
 * on this one. */
void rcmi_listen_narrow(struct rcmi_node *node);
void rcmi_listen_close(struct rcmi_node *node);

/* ---- ways.c ---------------------------------------------------------------------------------- */

/* Fills link->targets with the ways to its peer, likely ones first. */
rcm_status rcmi_ways_find(struct rcmi_link *link, const struct rcmi_address *peer);
/* Notes why the current way failed: the thread's error. */
void rcmi_ways_note(struct rcmi_link *link);
/* Sets the thread's error to a sentence that names all ways that failed. */
void rcmi_ways_explain(const struct rcmi_link *link);

/* ---- sharing.c ------------------------------------------------------------------------------- */

/* Of two ranks of one host identity: false if it was agreed that they share no memory. */
bool rcmi_node_may_share(const struct rcmi_node *node, int a, int b);

/* ---- dial.c ---------------------------------------------------------------------------------- */

/* Tries the ways to link's peer one after the other; the link is lost when none is left. */
void rcmi_dial_start(struct rcmi_link *link);
void rcmi_dial_continue(struct rcmi_link *link);
/* The current way failed (thread's error). ended: the peer closed or reset the connection. */
void rcmi_dial_failed(struct rcmi_link *link, bool ended);

/* ---- link.c ---------------------------------------------------------------------------------- */

enum rcmi_link_state rcmi_link_state(const struct rcmi_link *link);
void rcmi_link_set(struct rcmi_link *link, enum rcmi_link_state state);
/* The link if there is one. Any thread. */
struct rcmi_link *rcmi_node_link(const struct rcmi_node *node, int peer);
/* The link, made; dialled if it is NONE. NULL: no memory. */
struct rcmi_link *rcmi_link_need(struct rcmi_node *node, int peer);
/* Does it come from another rank of our job? */
bool rcmi_link_is_peer(const struct rcmi_node *node, const struct rcmi_hello *hello);
/* A hello came in. Decides, and fills the reply; *ret_link is set if it is OK. */
void rcmi_link_judge(struct rcmi_node *node, const struct rcmi_hello *hello, bool same_host,
                     struct rcmi_reply *reply, struct rcmi_link **ret_link);
/* The peer dials us itself; the connection stays, for the case that it cannot reach us. */
void rcmi_link_busy(struct rcmi_link *link);
/* A connection failed (thread's error). */
void rcmi_link_conn_failed(struct rcmi_link *link, const struct rcmi_hello *hello, bool initiator,
                           bool ended);
/* The peer's farewell. */
void rcmi_link_bye(struct rcmi_link *link);
void rcmi_link_bye_acked(struct rcmi_link *link);
/* The control stream ended. */
void rcmi_link_eof(struct rcmi_link *link);
/* Loses the link for the reason in the thread's error. After the peer's farewell that is an end
 * like any other. */
void rcmi_link_lose(struct rcmi_link *link);
/* Gives up what is not up yet; for the farewell. */
void rcmi_link_give_up(struct rcmi_link *link);
/* Answers the peer's farewell if nothing more is expected from it; false if that is to be tried
 * again. */
bool rcmi_link_answer_bye(struct rcmi_link *link);
/* Nothing is to be said or heard any more. */
bool rcmi_link_settled(const struct rcmi_link *link);
/* Says farewell, once. */
void rcmi_link_say_bye(struct rcmi_link *link);
void rcmi_link_free(struct rcmi_link *link);
/* Calls peer_lost for what was lost since. True if there was any. */
bool rcmi_links_tell_lost(struct rcmi_node *node);
/* Loses links that transports gave up since. True if there was any. */
bool rcmi_links_take_failed(struct rcmi_node *node);
/* The peer's FAILED: it has lost the link. */
rcm_status rcmi_link_on_failed(struct rcmi_link *link, const uint8_t *text, size_t len);
/* What was reported by rcmi_node_link_failed so far is of a transport that has declined. */
void rcmi_link_forgive(struct rcmi_link *link);
/* Asks transports again whether links are ready of which they said so. True if there was any. */
bool rcmi_links_take_changed(struct rcmi_node *node);
/* Something changed that rcmi_node_farewell may wait for. */
void rcmi_node_check_settled(struct rcmi_node *node);

/* ---- plane.c --------------------------------------------------------------------------------- */

void rcmi_planes_init(struct rcmi_link *link);
/* Asks transports again whether planes are ready of which they said so. */
void rcmi_planes_check(struct rcmi_link *link);
/* link_flushed of all that are up; takes what came by them: false if nothing did. */
bool rcmi_planes_flushed(const struct rcmi_link *link);
bool rcmi_planes_progress(const struct rcmi_link *link);
/* The plane of device memory is needed here, as far as there can be one. Then, once it is up or
 * declined, rcmi_channels_link_up. */
void rcmi_plane_need(struct rcmi_link *link);
/* The link is up; this rank's device is open: what waited for that begins. True if any did. */
void rcmi_plane_link_up(struct rcmi_link *link);
bool rcmi_planes_take_device(struct rcmi_node *node);
/* The peer's offer, before this side has made one. */
void rcmi_plane_hold(struct rcmi_plane *plane, struct rcmi_blob *blob);
/* Both have offered; it is up, or declined. */
void rcmi_plane_offered(struct rcmi_plane *plane);
void rcmi_plane_decided(struct rcmi_plane *plane);
/* The link is over; it is freed. */
void rcmi_planes_down(struct rcmi_link *link);
void rcmi_planes_free(struct rcmi_link *link);
/* What the transport has of it ends. */
void rcmi_plane_free(struct rcmi_plane *plane);

/* ---- setup.c --------------------------------------------------------------------------------- */

/* The plane of ranks' host memory, with which a link comes up. */
static inline struct rcmi_plane *rcmi_host_plane(struct rcmi_link *link) {
    return &link->planes[RCMI_MEM_HOST];
}
static inline const char *rcmi_plane_name(const struct rcmi_plane *plane) {
    return plane->domain->transport->name;
}
/* Text for the log: "link", "device plane". */
const char *rcmi_plane_noun(const struct rcmi_plane *plane);
/* The domain serves the plane from now on, which is offered to the peer; that of the host's when
 * the control connection stands. */
void rcmi_setup_begin(struct rcmi_plane *plane, struct rcmi_domain *domain);
/* For the reason in the thread's error. */
void rcmi_setup_decline(struct rcmi_plane *plane);
rcm_status rcmi_setup_claim(struct rcmi_link *link, struct rcmi_domain *domain, bool initiator);
/* A connection of this link came through; takes fd over. */
void rcmi_link_connected(struct rcmi_link *link, const struct rcmi_hello *hello, int fd,
                         bool initiator);
/* Up, if both sides are ready by now. */
void rcmi_setup_check(struct rcmi_plane *plane);
void rcmi_setup_up(struct rcmi_link *link);
/* The host plane fails for the reason in the thread's error. Before the link is up the peer may
 * have declined it, and closed what belongs to it, and that is heard in a moment: else it is lost.
 */
void rcmi_setup_fail(struct rcmi_link *link);
/* The link's transport was declined: dials by the next one. */
void rcmi_setup_next(struct rcmi_link *link);
/* Frames of the peer while the plane is in SETUP. An error (thread's) loses the link. */
rcm_status rcmi_setup_on_offer(struct rcmi_plane *plane, struct rcmi_blob *blob);
rcm_status rcmi_setup_on_ready(struct rcmi_plane *plane);
rcm_status rcmi_setup_on_decline(struct rcmi_plane *plane, const uint8_t *text, size_t len);

/* ---- control.c ------------------------------------------------------------------------------- */

enum rcmi_frame_type {
    RCMI_FRAME_OFFER = 1,
    RCMI_FRAME_OPEN,
    RCMI_FRAME_ACK,
    RCMI_FRAME_CLOSE,
    RCMI_FRAME_MESSAGE,
    RCMI_FRAME_BYE,
    RCMI_FRAME_BEAT,    /* says nothing: its acknowledgement is what counts */
    RCMI_FRAME_BYE_ACK, /* the BYE was read */
    RCMI_FRAME_READY,   /* this and the next one: see setup.c */
    RCMI_FRAME_DECLINE, /* a sentence */
    RCMI_FRAME_FAILED,  /* the sender has ended the link, and a sentence says why */
};

/* A frame with len bytes of body, to be filled in by the caller at rcmi_frame_body. */
struct rcmi_frame *rcmi_frame_new(enum rcmi_frame_type type, size_t len);
/* With a copy of a list of peers, which does not travel. */
struct rcmi_frame *rcmi_frame_new_to(enum rcmi_frame_type type, size_t len, const int *to, int nto);
void *rcmi_frame_body(struct rcmi_frame *frame);
/* It is of the set-up of a plane of that kind; at first of the host's. */
void rcmi_frame_set_plane(struct rcmi_frame *frame, enum rcmi_mem_kind kind);
/* Text of a peer's, for people: what is not printable becomes '?'. There is room for len + 1. */
void rcmi_frame_sentence(const uint8_t *text, size_t len, char *ret_sentence);
void rcmi_frames_push(struct rcmi_frames *frames, struct rcmi_frame *frame);
struct rcmi_frame *rcmi_frames_pop(struct rcmi_frames *frames);
void rcmi_frames_clear(struct rcmi_frames *frames);

/* Sends the frame (NULL: there was no memory for it, which loses the link later), in order, once
 * the link is up. Takes the frame. A peer that leaves too much unread loses the link too: nothing
 * is left out in silence. */
void rcmi_control_send(struct rcmi_link *link, struct rcmi_frame *frame);
/* Sends a frame of the set-up, or a heartbeat, before all of those. */
void rcmi_control_send_first(struct rcmi_link *link, struct rcmi_frame *frame);
/* Begins to read link's control stream. */
rcm_status rcmi_control_start(struct rcmi_link *link);
/* Writes what can be. */
void rcmi_control_flush(struct rcmi_link *link);
/* Takes in what has arrived. */
void rcmi_control_drain(struct rcmi_link *link);
/* Ends the stream; what waits for the link to be up stays. */
void rcmi_control_close(struct rcmi_link *link);
void rcmi_control_stop(struct rcmi_link *link);
/* Delivers frames that this node sent to itself. True if there was any. */
bool rcmi_control_loopback(struct rcmi_node *node);
/* Closes the descriptors that were not taken. */
void rcmi_blob_close(struct rcmi_blob *blob);

/* ---- allocation.c, registration.c ------------------------------------------------------------ */

/* Frees what is left, and registrations, before the domains go. */
void rcmi_memory_end(struct rcmi_node *node);
/* All rows hear of it, or of its end: peers are waited for until the deadline, no longer than
 * RINGCOMM_PEER_TIMEOUT. */
rcm_status rcmi_registration_begin(struct rcmi_node *node, struct rcmi_registration *registration);
void rcmi_registration_end(struct rcmi_node *node, struct rcmi_registration *registration,
                           rcmi_deadline deadline);
/* From now on buffers are found in it. */
rcm_status rcmi_registration_add(struct rcmi_node *node, struct rcmi_registration *registration);
/* Takes the block that starts at memory, or any registration, out of the table; NULL: there is
 * none. */
struct rcmi_registration *rcmi_registration_take_block(struct rcmi_node *node, const void *memory);
struct rcmi_registration *rcmi_registration_take_any(struct rcmi_node *node);

/* ---- silence.c ------------------------------------------------------------------------------- */

enum rcmi_silence_step {
    RCMI_SILENCE_WAIT,
    RCMI_SILENCE_PROBE, /* send something that it must acknowledge */
    RCMI_SILENCE_LOST,
};

/* One look at a link; heard: when its host was heard last; all times in ns. Then silence->look_at
 * is when to look again. */
enum rcmi_silence_step rcmi_silence_look(struct rcmi_silence *silence, int64_t now, int64_t heard,
                                         int64_t timeout);
/* Between looks. */
int64_t rcmi_silence_interval(int64_t timeout);

/* ---- heartbeat.c ----------------------------------------------------------------------------- */

/* The control stream stands: from now on the link is lost if its peer's host falls silent. */
void rcmi_heartbeat_start(struct rcmi_link *link);
void rcmi_heartbeat_stop(struct rcmi_node *node);
/* Another host, and packets of the control stream came lately. Loop thread. */
bool rcmi_link_is_heard(const struct rcmi_link *link);

/* ---- message.c ------------------------------------------------------------------------------- */

/* Puts queued messages on their links. True if there was any. */
bool rcmi_outbox_flush(struct rcmi_node *node);
/* Says on a link that came up what was said to all before. */
void rcmi_outbox_repeat(struct rcmi_link *link);
#define RCMI_SAID_MAX 512 /* messages to linked peers that are kept */

/* ---- channel.c, opening.c -------------------------------------------------------------------- */

/* Frames. An error (thread's) loses the link. */
rcm_status rcmi_channel_on_open(struct rcmi_link *link, const uint8_t *body, size_t len,
                                struct rcmi_blob *blob);
rcm_status rcmi_channel_on_ack(struct rcmi_link *link, const uint8_t *body, size_t len,
                               struct rcmi_blob *blob);
rcm_status rcmi_channel_on_close(struct rcmi_link *link, const uint8_t *body, size_t len);
/* Offers what waited for this link. */
void rcmi_channels_link_up(struct rcmi_link *link);
/* Fails the channels of a link that is down, and forgets the pending ones. */
void rcmi_channels_link_down(struct rcmi_link *link);
void rcmi_channels_free(struct rcmi_node *node);

/* opening.c: between rcmi_channel_open_* and ready. */
void rcmi_opening_offer(struct rcmi_end *end);
/* Gives a newly opened reader end the pending OPEN that waits for it, if any. */
void rcmi_opening_match(struct rcmi_end *end);
bool rcmi_opening_is_pending(const struct rcmi_link *link, uint64_t epoch, uint32_t id);
/* The writer closed a channel that we never opened; false if there is none with this serial. */
bool rcmi_opening_withdraw(struct rcmi_link *link, uint32_t serial);
void rcmi_opening_forget(struct rcmi_link *link);

/* The open end of that name that is shared with the link's peer; NULL. */
struct rcmi_end *rcmi_end_named(const struct rcmi_link *link, uint64_t epoch, uint32_t id,
                                bool is_writer);
/* The link's peer as a reader of the offered writer end with that serial number; NULL. */
struct rcmi_reader *rcmi_reader_of(const struct rcmi_link *link, uint32_t serial);
/* The channel fails for the reason in why. */
void rcmi_end_fail(struct rcmi_end *end, const struct rcmi_error *why);
void rcmi_end_ready(struct rcmi_end *end);

/* ---- sleep.c --------------------------------------------------------------------------------- */

rcm_status rcmi_node_sleep_init(struct rcmi_node *node);

/* ---- registry.c ------------------------------------------------------------------------------ */

/* Fills node->domains with what works of the configured list; no domain is initialised yet. */
rcm_status rcmi_registry_select(struct rcmi_node *node);
/* "a+b", of two rows' names; static. */
const char *rcmi_registry_join(const char *a, const char *b);
/* The first of a list of names of rows of host memory, if it is a transport by which ranks of one
 * host share memory; else NULL. */
const struct rcmi_transport *rcmi_registry_memory(const char *list);
/* Is there a transport in both lists of names for ranks that share a host, or reach each other over
 * the network, or both? */
bool rcmi_registry_serves(const char *list, const char *other, bool same_host, bool network);

/* ---- device_memory.c ------------------------------------------------------------------------- */
/* RCM_ERR_TIMEOUT: the driver has not come back by the deadline. What it brings then is given back,
 * and what it was to take back is so. Another error: nothing was done. */
rcm_status rcmi_device_memory_take(struct rcmi_device *device, size_t bytes, rcmi_deadline deadline,
                                   void **ret_memory);
rcm_status rcmi_device_memory_give(struct rcmi_device *device, void *memory,
                                   rcmi_deadline deadline);

#endif
