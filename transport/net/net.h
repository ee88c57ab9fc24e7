/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets until two processes have identified each other: addresses, listening, dialling,
 * authentication. A connection that is accepted is handed to the link of that peer (link/).
 */
#ifndef RCMI_NET_H
#define RCMI_NET_H

#include <sys/types.h>
#include "auth.h"
#include "../node.h"

struct rcmi_hello;
struct rcmi_reply;

#define RCMI_ADDRESSES_MAX   32
#define RCMI_ACCEPT_LIMIT_MS 5000 /* for an accepted connection to identify itself */
#define RCMI_REDIAL_MS       3000 /* a peer that hangs up unanswered is redialled for so long */

/* Calls from net/ up into the links, on the loop thread. The table is in
 * link/connection_handover.c. */
struct rcmi_net_above {
    /* Does the hello come from another rank of our job? */
    bool (*is_peer)(const struct rcmi_node *node, const struct rcmi_hello *hello);
    /* A hello arrived. Decides and fills the reply; *ret_link is set if the reply is OK. */
    void (*judge)(struct rcmi_node *node, const struct rcmi_hello *hello, bool same_host,
                  struct rcmi_reply *reply, struct rcmi_link **ret_link);
    /* The peer dials us too. This connection stays open in case the peer cannot reach us. */
    void (*busy)(struct rcmi_link *link);
    /* A connection of this link is established. Takes ownership of fd. */
    void (*connected)(struct rcmi_link *link, const struct rcmi_hello *hello, int fd,
                      bool initiator);
    /* A connection failed (thread's error). */
    void (*failed)(struct rcmi_link *link, const struct rcmi_hello *hello, bool initiator,
                   bool ended);
    /* No target leads to the peer (thread's error). */
    void (*lose)(struct rcmi_link *link);
};

/* ---- address.c ------------------------------------------------------------------------------- */

struct rcmi_address {
    char host_id[RCMI_HOST_ID_MAX + 1];
    char hostname[65];
    int pid;
    uint64_t job;
    uint64_t where[2]; /* equal: same network namespace of the same kernel, so loopback works;
                          where[0]: the kernel; zeros: unknown */
    uint64_t life[3];  /* start time of the process, pid and time namespaces; process.h */
    char unix_name[RCMI_UNIX_NAME_MAX + 1]; /* "": no Unix listener */
    char transports[128];                   /* "shm,tcp" */
    char lacks[RCMI_LACKS_MAX];             /* why other transports are missing; may be "" */
    struct rcmi_sockaddr tcp[RCMI_ADDRESSES_MAX];
    char iface[RCMI_ADDRESSES_MAX][RCMI_IFACE_MAX]; /* of each address, for texts; may be "" */
    int ntcp;
};

rcm_status rcmi_address_write(const struct rcmi_address *address, uint8_t *buf, size_t cap,
                              size_t *ret_len);
/* blob is untrusted. */
rcm_status rcmi_address_parse(const void *blob, size_t len, struct rcmi_address *ret_address);
/* The strings of a blob, in place; lacks is "" if the field is missing. reach: kinds of addresses
 * in the blob. */
#define RCMI_REACH_IPV4     1u
#define RCMI_REACH_IPV6     2u
#define RCMI_REACH_OTHERS   (RCMI_REACH_IPV4 | RCMI_REACH_IPV6) /* reachable from other hosts */
#define RCMI_REACH_LOOPBACK 4u
struct rcmi_address_summary {
    const char *host_id, *transports, *lacks;
    unsigned reach;
    uint64_t where[2];
};
rcm_status rcmi_address_summary(const void *blob, size_t len,
                                struct rcmi_address_summary *ret_summary);
/* Identity of this network namespace; zeros if unknown. */
void rcmi_address_where(uint64_t ret_where[2]);
/* Are both in one network namespace? _may_be: true also if one of them is unknown. */
bool rcmi_where_is(const uint64_t a[2], const uint64_t b[2]);
bool rcmi_where_may_be(const uint64_t a[2], const uint64_t b[2]);
/* Is name an item of a comma-separated list? */
bool rcmi_list_has(const char *list, const char *name);

/* ---- connection.c ---------------------------------------------------------------------------- */

enum rcmi_hello_kind { RCMI_HELLO_CONTROL = 1, RCMI_HELLO_DATA = 2 };
enum rcmi_reply_status { RCMI_REPLY_OK = 1, RCMI_REPLY_BUSY = 2, RCMI_REPLY_REFUSED = 3 };

#define RCMI_HELLO_MAGIC 0x52434d48u /* also rejects peers of the other byte order */

/* Every version begins with magic number and version. A side that has read these answers another
 * version with its own (wire_version.h) and ignores the rest. */
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

/* The phase that a connection is in. */
enum rcmi_conn_phase {
    RCMI_CONN_CONNECT,
    RCMI_CONN_AUTH,
    RCMI_CONN_HELLO,
    RCMI_CONN_REPLY,
    RCMI_CONN_HELD, /* accepted, answered BUSY: the peer waits for our own connection */
};

/* A socket whose ends have not identified themselves to each other yet. */
struct rcmi_conn {
    struct rcmi_conn *next, *prev;
    struct rcmi_node *node;
    struct rcmi_link *link; /* dialled: its link; accepted: set once the hello was accepted */
    struct rcmi_link *held; /* accepted and answered BUSY: the link that we dial ourselves */
    struct rcmi_watch watch;
    uint32_t events;
    struct rcmi_timer timer;
    struct rcmi_auth auth;
    int phase; /* enum rcmi_conn_phase */
    int64_t since;
    bool initiator, same_host, patient, parked;
    struct rcmi_hello hello;
    struct rcmi_reply reply;
    size_t done; /* bytes of hello or reply moved */
};

/* Ends the connection; the reason is the thread's error. */
void rcmi_conn_fail(struct rcmi_conn *conn);
/* Answers the hello of a parked connection. */
void rcmi_conn_answer(struct rcmi_conn *conn);
/* Accepted, and neither parked nor held. */
bool rcmi_conn_is_unidentified(const struct rcmi_conn *conn);
/* Has the other side sent anything; has it proved the secret? */
bool rcmi_conn_spoke(const struct rcmi_conn *conn);
bool rcmi_conn_proved(const struct rcmi_conn *conn);
/* Takes ownership of fd. */
void rcmi_conn_accepted(struct rcmi_node *node, int fd, bool same_host);
/* Dials link's current target. The connection must be established within limit_ms; then the peer
 * has RINGCOMM_PEER_TIMEOUT to answer. patient: four times RINGCOMM_PEER_TIMEOUT, because no other
 * target is left. RCM_AGAIN: try again shortly. */
rcm_status rcmi_conn_dial(struct rcmi_link *link, enum rcmi_hello_kind kind, int index,
                          int64_t limit_ms, bool patient);
/* Has our own connection sent its hello? If not, the peer cannot have accepted it. */
bool rcmi_conn_has_greeted(const struct rcmi_link *link);
/* Our own connection failed: accepts the peer's held connection. False: no connection is held. */
bool rcmi_conn_take_held(struct rcmi_link *link);
/* The peer of link is unreachable. Refuses its held connection, if any, with the reason. */
void rcmi_conn_refuse(const struct rcmi_link *link, const char *why);
/* Closes and frees all connections of link; NULL: of all links. */
void rcmi_conn_drop(struct rcmi_node *node, const struct rcmi_link *link);

/* ---- connection_end.c ------------------------------------------------------------------------ */

/* Unlinks and frees conn. *ret_fd receives the descriptor; if ret_fd is NULL, it is closed. */
void rcmi_conn_free(struct rcmi_conn *conn, int *ret_fd);
/* The other side starts to prove a secret, and this side has none. */
bool rcmi_conn_wants_proof(const struct rcmi_conn *conn);
/* Logs the thread's error, at most once per second: a thousand connections per second may come. */
void rcmi_conn_log_unidentified(const struct rcmi_conn *conn);

/* ---- unidentified.c, credentials.c ----------------------------------------------------------- */

/* Drops one unidentified connection, in the order given in unidentified.c. False: none was left. */
bool rcmi_unidentified_drop(struct rcmi_node *node);
/* Does the connection come from another user, without a proved secret? */
bool rcmi_unidentified_is_foreign(const struct rcmi_conn *conn);
/* Is the Unix socket's other end a process of another user (not root), with no secret set? Such a
 * process gets no shared memory. */
bool rcmi_unidentified_is_of_other(const struct rcmi_node *node, int fd, unsigned *ret_user);
/* Describes the other end for a log line. */
void rcmi_unidentified_name(const struct rcmi_conn *conn, char text[RCMI_ADDR_TEXT]);
/* The hello was read and is valid: waits for rcmi_unidentified_start. */
void rcmi_unidentified_park(struct rcmi_conn *conn);
/* An event on a parked connection: RCM_AGAIN if it keeps waiting. */
rcm_status rcmi_unidentified_wait(const struct rcmi_conn *conn);
/* Answers all parked connections. */
void rcmi_unidentified_start(struct rcmi_node *node);

/* ---- listen.c -------------------------------------------------------------------------------- */

/* Opens and watches the listening sockets. Adds their addresses to address, or the reason why no
 * address is available. */
rcm_status rcmi_listen_open(struct rcmi_node *node, struct rcmi_address *address);
/* All ranks have published their addresses: if all are on this host, closes the listeners that only
 * other hosts need. */
void rcmi_listen_narrow(struct rcmi_node *node);
void rcmi_listen_close(struct rcmi_node *node);

/* ---- targets.c ------------------------------------------------------------------------------- */

/* Fills link->targets with the ways to connect to its peer, most likely ones first. */
rcm_status rcmi_targets_find(struct rcmi_link *link, const struct rcmi_address *peer);
/* Stores the thread's error as the failure of the current target. */
void rcmi_targets_note(struct rcmi_link *link);
/* Sets the thread's error to a sentence that lists all failed targets. */
void rcmi_targets_explain(const struct rcmi_link *link);

/* ---- sharing.c ------------------------------------------------------------------------------- */

/* For two ranks of one host identity: false if the ranks agreed that they share no memory. */
bool rcmi_node_may_share(const struct rcmi_node *node, int a, int b);

/* ---- dial.c ---------------------------------------------------------------------------------- */

/* Tries the targets of link's peer one after the other; the link is lost when none is left. */
void rcmi_dial_start(struct rcmi_link *link);
void rcmi_dial_continue(struct rcmi_link *link);
/* The current target failed (thread's error). ended: the peer closed or reset the connection. */
void rcmi_dial_failed(struct rcmi_link *link, bool ended);

#endif
