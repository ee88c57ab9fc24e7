/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport/verbs/: messages by RDMA, over a reliable connection (RC queue pair) for each pair of
 * ranks, by RoCE, InfiniBand or iWARP. This is what its files share; the framework sees only the
 * table at the end of domain.c.
 *
 *   writer                                                         reader
 *   slots, registered --- RDMA write ------------------------->    slots, registered
 *                     '-- send: notice {end, length, meta} --->    posted receives -> arrivals.c
 *                     <-- send: credits -----------------------
 *
 * A message is written into the reader's slot, or into registered memory that the reader has posted
 * for it; from the writer's slot, or from registered memory of its user. A small send behind it
 * tells of it; both are posted together, and a reliable connection makes the data visible before
 * the send completes. A message of up to RCMI_TINY bytes travels inside the send. There is neither
 * immediate data (iWARP has none) nor a flag in memory that is polled (nothing promises in which
 * order bytes appear).
 *
 *   table.c    the functions of libibverbs, loaded at run time
 *   fault.c    why a device or port is of no use
 *   port.c     the ports of this host: which are used, and opened
 *   place.c    how far a port is from a rank's data
 *   choice.c   which ports a link goes by
 *   domain.c   the table of the row; polling, waiting, probing
 *   event.c    what a device says of itself meanwhile
 *   link.c     a link: offers, its end, its failure
 *   connect.c  a thread that connects queue pairs, which may block
 *   exchange.c how those of RoCE and InfiniBand are
 *   cm.c       and those of iWARP, by rdma_cm
 *   post.c     what leaves: the send queue, and what waits for room in it
 *   arrivals.c what arrives
 *   end.c      what both sides share of a channel's end, and when its memory is free
 *   channel.c  the two ends of a channel
 *   memory_regions.c  registered memory of users
 *   put.c      posted receives
 *
 * Credits. A channel's writer has as many messages under way as there are slots. A queue pair has
 * VERBS_RECEIVES posted receives at each side, and each send takes one: a side sends only what the
 * other has a receive for. Receives that were posted again are told with every notice, and by one
 * of their own when half of them are owed; the last one is kept for that.
 *
 * Memory that a peer may write to stays registered until the writer has said, behind its last
 * write, that there is none after it (end.c): a write to memory that is not registered any more
 * would break the queue pair, and with it all channels of the link.
 *
 * Locks, in the order in which they may be nested: the connecting thread's, or port.lock (polling);
 * link.lock (posting, and the ends); domain.owing_lock.
 *
 * iWARP tells of the end of a send when TCP has taken it, so what must have reached the other side
 * (a registered buffer that is used again, the last messages before a link ends) waits for the
 * answer to a read behind it, the probe of such a link (post.c).
 *
 * Not for: devices without RC queue pairs (EFA), which are left out with a sentence; finding that a
 * peer is dead (the framework).
 */
#ifndef RCMI_VERBS_H
#define RCMI_VERBS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "../backend.h"
#include "choice.h"
#include "table.h"

#define VERBS_BULK_SCALE 8   /* that of tcp: a job's ranks may have both */
#define VERBS_SENDS      256 /* entries of a send queue */
#define VERBS_RECEIVES   256 /* and of a receive queue */
#define VERBS_SIGNAL     32  /* so many sends to one completion */
#define VERBS_POLL       16  /* completions that are taken at once */
/* siw may send the least messages that are not inline, and the least answers to reads, from memory
 * of another process; it has inline data of this size. */
#define VERBS_INLINE      64
#define VERBS_NOTICE_STEP 192 /* from notice to notice in memory */
#define VERBS_ENDS_MAX    65536u
#define VERBS_PAGE        4096
#define VERBS_PROBED      64          /* bytes of a probe that is a read */
#define VERBS_MAGIC       0x52434d56u /* "VMCR" */
/* Entries are counted from here, so that every link, and every test, sees completions tell of them
 * modulo 2^32. */
#define VERBS_FIRST_ENTRY (UINT32_MAX - 40u)

/* Held for a few posts at most; a thread that must have it yields. */
struct verbs_lock {
    _Atomic bool held; /* acquired by exchange, paired with the release in verbs_lock_drop */
};

static inline bool verbs_lock_try(struct verbs_lock *lock) {
    return !atomic_load_explicit(&lock->held, memory_order_relaxed) &&
           !atomic_exchange_explicit(&lock->held, true, memory_order_acquire);
}

void verbs_lock_take(struct verbs_lock *lock);

static inline void verbs_lock_drop(struct verbs_lock *lock) {
    atomic_store_explicit(&lock->held, false, memory_order_release);
}

enum verbs_kind {
    VERBS_HELLO = 1, /* the connection works; meta, len: what probes may read, and its key */
    VERBS_DATA,      /* a message */
    VERBS_CREDIT,    /* meta: so many slots were given back */
    VERBS_END,       /* the writer's last word of a channel */
    VERBS_NOTHING,   /* but its receives */
    VERBS_PUT,       /* a message, in memory that was posted for it */
    VERBS_POSTED,    /* struct verbs_posted; meta: as that of credits, may be 0 */
    VERBS_WITHDRAW,  /* nothing that was posted is to be written to any more */
    VERBS_WITHDRAWN, /* nor will it be */
};

/* Memory of the reader's for the message with that number, from 0. */
struct verbs_posted {
    uint64_t number, address, len;
    uint32_t rkey, reserved;
};

/* What is sent. `end` is the receiver's number of its end of the channel. */
struct verbs_notice {
    uint32_t kind, end;
    uint32_t len;
    uint32_t receives; /* that were posted again */
    uint64_t meta;
    uint8_t bytes[RCMI_TINY]; /* of a tiny message, or what is posted, and no more than it has */
};
#define VERBS_NOTICE_HEAD offsetof(struct verbs_notice, bytes)
_Static_assert(sizeof(struct verbs_notice) <= VERBS_NOTICE_STEP, "a notice fits its place");

/* Registered memory. */
struct verbs_region {
    uint8_t *memory;
    size_t bytes;
    struct ibv_mr *mr;
};

/* A port of this host, opened. */
struct verbs_port {
    struct verbs_domain *domain;
    const struct verbs_method *method; /* by which its queue pairs are connected */
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct verbs_lock lock;            /* of polling */
    struct rcmi_watch events;          /* asynchronous ones */
    struct rcmi_watch requests;        /* of peers that connect to it */
    struct verbs_connection *listener; /* where they do; the method's; NULL: they do not */
    bool deaf;                         /* they cannot any more */
    bool refused;                      /* a connection, which was said */
    struct verbs_offered offered;
    int gid_index, pkey_index;
    uint8_t number;
    int position; /* of its device in the list of them */
    int room;     /* links that the completion queue has room for */
    /* Those by it, by rank. Written by the loop thread under `lock`, read under it, or on the
     * loop's thread. What stands there stays while it is held. */
    struct verbs_link **links;
    char name[IBV_SYSFS_NAME_MAX + 8];
};

struct verbs_domain {
    struct rcmi_node *node;
    const struct verbs_table *table;
    uint32_t
        generation; /* of the process that made it: a forked child must not touch what it shares */
    int nranks;
    int64_t peer_timeout_ms;
    int traffic_class, service_level;
    struct verbs_place place; /* where the rank's data are */
    struct verbs_port ports[VERBS_PORTS_MAX];
    int nports;
    char left_out[200]; /* names of ports for which there was no room */
    int epoll;          /* of all completion channels */
    struct rcmi_watch watch;
    struct verbs_link **links; /* of all ports, one behind the other */
    /* Links that wait for the other side's hello, or for room to post what was committed: the loop
     * goes on with them. Seq_cst, as `armed`: a thread that counts one up and finds the loop armed
     * is seen by the thread that takes the events of that. */
    _Atomic int unfinished;
    /* The loop looks at `epoll`, and events were asked for. Set by verbs_arm, cleared by the thread
     * that took events; false also if another thread asked meanwhile, which costs asking twice. */
    _Atomic bool armed;
    _Atomic int nlinks; /* relaxed: a thread that sees a new link late looks again */
    /* A thread of this process sleeps on `epoll`, or did; a thread that moves messages then takes
     * the events.
     */
    _Atomic bool attended;
    struct rcmi_timer beat;
    struct verbs_connector *connector;
    struct verbs_lock owing_lock;
    struct verbs_link *owing; /* links with something to be told with the next progress */
    _Atomic bool owes;        /* there are any; set and cleared under the lock, a hint without it */
};

enum verbs_state {
    VERBS_NEW,
    VERBS_CONNECTED, /* the queue pair is */
    VERBS_READY,     /* a message went each way */
    VERBS_BROKEN,
};

struct verbs_link {
    struct verbs_domain *domain;
    int peer;
    struct ibv_qp *offered[VERBS_PORTS_MAX]; /* a queue pair for each port, until one is chosen */
    uint32_t inline_maxima[VERBS_PORTS_MAX];
    bool initiator;
    int chosen;              /* the peer's port */
    struct verbs_port *port; /* NULL: not chosen yet */
    struct verbs_job *job;   /* that connects it; under the connector's lock */
    /* What keeps the queue pair connected; NULL: nothing has to. */
    struct verbs_connection *connection;
    uint64_t token, far_token; /* that this side and the other have offered */
    unsigned left_out;         /* bits of ports to which the other side cannot connect */
    bool reported;             /* ready, so that a failure is no decline any more; under lock */

    struct verbs_lock lock;
    enum verbs_state state;
    bool connecting;   /* it waits for hello; counted in the domain, as is the next one */
    bool blocked;      /* something waits, though it was tried to be posted */
    struct ibv_qp *qp; /* NULL: down */
    uint32_t inline_max;
    struct verbs_region
        notices; /* VERBS_RECEIVES of them that may arrive, VERBS_SENDS that leave */
    /* Where probes are reads: the bytes that the other side's read, then those where this side's
     * put what they have read. */
    struct verbs_region probed;
    uint64_t far_probed; /* the other side's */
    uint32_t far_probed_key;
    char why[400];  /* it is broken */
    bool unstopped; /* and its queue pair could not be stopped: it goes on until it is destroyed */
    bool hello_sent, hello_received;
    uint64_t hello;        /* the entry of the send queue with it */
    uint64_t posted, done; /* entries of the send queue */
    uint64_t reached;      /* those that the other side is known to have */
    uint32_t unsignalled;
    uint32_t credits;        /* sends that the peer has a receive for */
    uint32_t owed;           /* receives posted again, which the peer does not know of */
    uint64_t probe;          /* the entry of the send queue with the last one */
    bool probing;            /* and it is under way */
    rcmi_deadline answer_by; /* of that, where the device sets none */
    unsigned flushed; /* beats since requests were flushed, of which no cause is known; else 0 */
    bool awaited;     /* a thread waits for what was sent without a copy */
    struct verbs_end **ends;
    uint32_t nends, generation;
    struct verbs_end *first, *last; /* that wait for room in the send queue, or for progress */
    struct verbs_end *dying;        /* whose last word is under way */
    struct verbs_link *next_owing;  /* under the domain's owing_lock */
    bool listed;
};

/* One message of an end. */
struct verbs_message {
    uint32_t len;
    uint32_t lkey;  /* writer: of bytes */
    uint64_t entry; /* writer: of the send queue with it, once it is posted */
    uint64_t meta;
    uint8_t *bytes; /* where it lies, in registered memory; NULL: in its slot */
};

/* A posted receive, as the reader posted it, and as the writer knows it. */
struct verbs_post {
    struct verbs_posted is;
    bool live, told;
};

enum verbs_withdraw {
    VERBS_WITHDRAW_NONE,
    VERBS_WITHDRAW_WANTED, /* to be said */
    VERBS_WITHDRAW_SAID,   /* and the answer is to come */
};

/* What stays of a channel's end when that is closed, until its memory is free. */
struct verbs_end {
    struct verbs_link *link;
    struct verbs_end *next; /* in link->first or ->dying */
    uint32_t number;        /* index in link->ends, and the generation */
    uint32_t far;           /* the peer's number */
    bool listed, waiting;   /* in link->ends; in the list of link->first */
    bool is_writer, closed;
    bool ended;    /* reader: the writer has said its last word; writer: that is posted */
    uint64_t last; /* writer: the entry of the send queue with it */
    uint32_t slots;
    size_t slot_bytes, stride;
    struct verbs_region region;
    struct verbs_message *messages; /* slots of them, as of the next */
    struct verbs_post *posts;       /* by the message's number; under link->lock */
    uint64_t remote;                /* writer: where the reader's slots are */
    uint32_t rkey;
    /* Writer. committed: by its thread (release), acquire where credits are checked and posted. */
    _Atomic uint64_t committed;
    uint64_t posted;           /* under link->lock */
    _Atomic uint64_t returned; /* under link->lock (release), acquire in reserve */
    bool answers;              /* VERBS_WITHDRAWN is to be said; under link->lock */
    /* Reader. arrived: under link->lock (release), acquire in peek. */
    _Atomic uint64_t arrived;
    _Atomic uint64_t released; /* by its thread (release), acquire where messages arrive */
    _Atomic uint32_t owed;     /* slots given back that the writer does not know of */
    uint64_t peeked;           /* its thread's */
    uint32_t untold;           /* posts; this and the next one under link->lock */
    enum verbs_withdraw withdraw;
};

struct verbs_channel {
    struct rcmi_channel base;
    struct verbs_end *end;
};

/* port.c */
/* Which ports may be used, by the settings: a sentence in any case. */
bool verbs_ports_probe(const struct rcmi_need *need, char *reason, size_t cap);
/* Of a domain that has its table, node count and epoll set. */
rcm_status verbs_ports_open(struct verbs_domain *domain);
void verbs_ports_close(struct verbs_domain *domain);
/* "mlx5_0:1, mlx5_1:1" */
void verbs_ports_name(const struct verbs_domain *domain, char *text, size_t cap);
/* May this process lock memory whatever RLIMIT_MEMLOCK says (CAP_IPC_LOCK)? */
bool verbs_locks_all(void);
/* Bytes that a link locks; may this process lock those of all its peers? A sentence if not. */
size_t verbs_locked_bytes(const struct rcmi_need *need);
bool verbs_may_lock(const struct rcmi_need *need, char *reason, size_t cap);
/* Registers memory, for the peers' access besides. RCM_ERR_RESOURCE: with the limit. */
rcm_status verbs_mr_make(const struct verbs_port *port, void *memory, size_t bytes, int access,
                         struct ibv_mr **ret_mr);
rcm_status verbs_region_make(const struct verbs_port *port, size_t bytes, int access,
                             struct verbs_region *ret_region);
void verbs_region_free(const struct verbs_table *table, struct verbs_region *region);

/* domain.c */
/* What RINGCOMM_ variables say of all ports. */
rcm_status verbs_settings(struct verbs_domain *domain);
bool verbs_forked(const struct verbs_domain *domain);
/* Nothing of a device is to be called for what ends: in a forked child, and once descriptors were
 * closed, whose numbers may be others' by now. */
bool verbs_untouchable(const struct verbs_domain *domain);
bool verbs_progress(void *domain);
void verbs_arm(void *domain);
/* Takes all completions that there are by now. No lock may be held. */
void verbs_port_rest(struct verbs_port *port);
/* Something moves, or a moment passes. No lock may be held. */
void verbs_pause(struct verbs_domain *domain);
/* Sets a link's flag, of the two that are counted. */
void verbs_count(struct verbs_domain *domain, bool *flag, bool value);
/* Has the loop go on if there is something unfinished. No lock may be held. */
void verbs_go_on(struct verbs_domain *domain);

/* event.c */
/* The port's device has asynchronous events. Loop thread. */
void verbs_port_events(void *port, uint32_t events);
/* All links by it break. Under port->lock, or on the loop's thread. */
void verbs_port_fail(struct verbs_port *port, const char *sentence);

/* link.c */
rcm_status verbs_link_init(void *link, void *domain, int peer);
rcm_status verbs_link_offer(void *link, struct rcmi_blob *ret_offer);
rcm_status verbs_link_accept(void *link, struct rcmi_blob *offer);
rcm_status verbs_link_attach(void *link, int i, int fd);
rcm_status verbs_link_ready(void *link);
bool verbs_link_flushed(void *link);
void verbs_link_down(void *link);
void verbs_link_fini(void *link);
/* A queue pair of the port, with its largest inline size; its completions are told by peer. */
rcm_status verbs_qp_make(const struct verbs_port *port, int peer, struct ibv_qp **ret_qp,
                         uint32_t *ret_inline);
/* Each beat, under link->lock. */
void verbs_link_beat(struct verbs_link *link);
/* It is of no use any more, for the reason in the thread's error. Under link->lock. */
void verbs_link_break(struct verbs_link *link);
/* The device does nothing more for it: there is no queue pair, or that is stopped. Under
 * link->lock. */
bool verbs_link_still(const struct verbs_link *link);
/* Something came that cannot be. RCM_ERR_PROTOCOL. */
rcm_status verbs_link_refuse(const struct verbs_link *link, const char *what, uint64_t value);
/* The queue pair is connected, or is not (an error number). Under link->lock. */
void verbs_link_connected(struct verbs_link *link, int error);
/* Says hello when it is its turn, and is ready when that has arrived and one was heard. Under
 * link->lock. */
void verbs_link_greet(struct verbs_link *link);

/* post.c; all under link->lock */
/* Takes back posted receives' memory: posts receive number i. */
rcm_status verbs_post_receive(struct verbs_link *link, uint32_t i);
/* Sends that notice, if there is room, which is less for all but the last ones. */
bool verbs_post_notice(struct verbs_link *link, enum verbs_kind kind);
/* Looks whether the peer's host still answers, and what of that which was posted is done. */
void verbs_post_probe(struct verbs_link *link);
/* Has the end told what it has to tell, now or when there is room. */
void verbs_post_later(struct verbs_link *link, struct verbs_end *end);
/* The end is none of those that wait any more. */
void verbs_post_forget(struct verbs_link *link, const struct verbs_end *end);
/* Posts what waits, as far as there is room. */
void verbs_post_waiting(struct verbs_link *link);
/* The end is to tell something with the next progress. */
void verbs_owe(struct verbs_link *link, struct verbs_end *end);
/* Posts what was left for the next progress. Takes locks itself, as does the next one. */
bool verbs_pay(struct verbs_domain *domain);
/* The link is down. */
void verbs_owe_nothing(struct verbs_link *link);

/* arrivals.c */
/* A completion's status, in words. */
const char *verbs_status_word(enum ibv_wc_status status);
/* What a completion says. True if something came for which a thread may sleep. Takes link->lock. */
bool verbs_complete(struct verbs_link *link, const struct ibv_wc *wc);

/* end.c */
/* An end in link's table, with its memory. */
rcm_status verbs_end_make(struct verbs_link *link, const struct rcmi_channel *channel,
                          struct verbs_end **ret_end);
/* Its channel is closed: frees it now, or when nothing is written to its memory any more. */
void verbs_end_close(struct verbs_end *end);
/* The end with that number; NULL if there is none any more. Under link->lock. */
struct verbs_end *verbs_end_find(const struct verbs_link *link, uint32_t number);
/* Frees what may be. Under link->lock. */
void verbs_ends_reap(struct verbs_link *link);
/* The end that is closed and has heard, or said, the last word. Under link->lock. */
void verbs_end_free(struct verbs_end *end);
void verbs_ends_free(struct verbs_link *link);

/* Is that entry of the send queue done, or never will be? */
bool verbs_entry_done(const struct verbs_link *link, uint64_t entry);

/* memory_regions.c */
rcm_status verbs_memory_register(void *domain, const struct rcmi_mem *mem, void **ret_own);
bool verbs_memory_unregister(void *domain, void *own, rcmi_deadline deadline);
/* The registration that mem lies in, with the port of link; NULL: in none. */
const struct ibv_mr *verbs_memory_of(const struct rcmi_channel *channel,
                                     const struct verbs_link *link, const struct rcmi_mem *mem);

/* put.c; all but the first two under link->lock */
bool verbs_put_offer(struct rcmi_channel *channel, const struct rcmi_posted *posted);
/* The writer is told that nothing is posted any more. It may write there until it has heard. */
void verbs_put_withdraw(struct verbs_end *end);
/* Nothing is posted any more. */
void verbs_put_forget(struct verbs_end *end);
/* What is posted for a message of that number and length; NULL. */
struct verbs_post *verbs_put_post(const struct verbs_end *end, uint64_t number, size_t len);
/* Message number n is posted, or has arrived: what was posted for it is of no use any more. */
void verbs_put_pass(struct verbs_end *end, uint64_t number);
/* One that the writer was not told of; NULL. */
struct verbs_post *verbs_put_untold(const struct verbs_end *end);
/* Writer: the reader has posted that. */
rcm_status verbs_put_take(struct verbs_end *end, const struct verbs_posted *posted);

/* channel.c */
static inline struct verbs_end *verbs_end_of(const struct rcmi_channel *channel) {
    return ((const struct verbs_channel *)channel)->end; /* base is its first member */
}
/* Message number n, which lies in registered memory, moves to its slot. Under link->lock. */
void verbs_message_keep(struct verbs_end *end, uint64_t n);
rcm_status verbs_writer_init(struct rcmi_channel *channel, void *const *links, int nreaders);
rcm_status verbs_writer_offer(struct rcmi_channel *channel, int r, struct rcmi_blob *ret_offer);
rcm_status verbs_writer_attach(struct rcmi_channel *channel, int r, struct rcmi_blob *answer);
rcm_status verbs_reader_init(struct rcmi_channel *channel, void *link);
rcm_status verbs_reader_accept(struct rcmi_channel *channel, struct rcmi_blob *offer,
                               struct rcmi_blob *ret_answer);
void verbs_writer_close(struct rcmi_channel *channel);
void verbs_channel_fini(struct rcmi_channel *channel);
rcm_status verbs_reserve(struct rcmi_channel *channel, size_t len,
                         struct rcmi_reserved *ret_reserved);
void verbs_commit(struct rcmi_channel *channel, size_t len, uint64_t meta);
rcm_status verbs_send_zero_copy(struct rcmi_channel *channel, const struct rcmi_mem *mem,
                                uint64_t meta, bool may_get);
bool verbs_completed(struct rcmi_channel *channel, uint64_t number);
rcm_status verbs_peek(struct rcmi_channel *channel, struct rcmi_slot *ret_slot);
void verbs_release(struct rcmi_channel *channel);

/* Completions' ids: bit 63: of a receive; bit 62: of a probe; the peer; the receive's number, or
 * how many entries of the send queue are done with it, modulo 2^32. */
#define VERBS_ID_RECEIVE ((uint64_t)1 << 63)
#define VERBS_ID_PROBE   ((uint64_t)1 << 62)
static inline uint64_t verbs_id(const struct verbs_link *link, uint64_t number) {
    return (uint64_t)(uint32_t)link->peer << 32 | (uint32_t)number;
}

#include "connect.h"

#endif
