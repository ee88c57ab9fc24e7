/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets until two processes know each other: addresses, listening, dialling, authentication. What
 * is agreed on is handed to the link of that peer.
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
#define RCMI_REDIAL_MS       3000 /* so long is a peer dialled again that hangs up unanswered */

/* What net/ calls of the links, on the loop thread: connected.c has the table. */
struct rcmi_net_above {
    /* Does it come from another rank of our job? */
    bool (*is_peer)(const struct rcmi_node *node, const struct rcmi_hello *hello);
    /* A hello came in. Decides, and fills the reply; *ret_link is set if it is OK. */
    void (*judge)(struct rcmi_node *node, const struct rcmi_hello *hello, bool same_host,
                  struct rcmi_reply *reply, struct rcmi_link **ret_link);
    /* The peer dials us itself; the connection stays, for the case that it cannot reach us. */
    void (*busy)(struct rcmi_link *link);
    /* A connection of this link came through; takes fd over. */
    void (*connected)(struct rcmi_link *link, const struct rcmi_hello *hello, int fd,
                      bool initiator);
    /* A connection failed (thread's error). */
    void (*failed)(struct rcmi_link *link, const struct rcmi_hello *hello, bool initiator,
                   bool ended);
    /* No way leads to the peer (thread's error). */
    void (*lose)(struct rcmi_link *link);
};

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

/* What a connection is at, or waits for. */
enum rcmi_conn_phase {
    RCMI_CONN_CONNECT,
    RCMI_CONN_AUTH,
    RCMI_CONN_HELLO,
    RCMI_CONN_REPLY,
    RCMI_CONN_HELD, /* accepted, and told to wait for our own call */
};

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
    int phase; /* enum rcmi_conn_phase */
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

/* ---- connection_end.c ------------------------------------------------------------------------ */

/* Unlinks and frees; *ret_fd (if not NULL) gets the descriptor, else it is closed. */
void rcmi_conn_free(struct rcmi_conn *conn, int *ret_fd);
/* The other side begins to prove a secret, and we have none. */
bool rcmi_conn_wants_proof(const struct rcmi_conn *conn);
/* The thread's error as a line of the log; connections may come a thousand times a second, so one a
 * second. */
void rcmi_conn_log_unidentified(const struct rcmi_conn *conn);

/* ---- unidentified.c, credentials.c
 * -------------------------------------------------------------------------- */

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

#endif
