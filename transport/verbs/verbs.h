/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport/verbs/: messages by RDMA, over a reliable connection (RC queue pair) for each pair of
 * ranks, by RoCE, InfiniBand or iWARP. This header is shared by its files; the framework sees only
 * the table at the end of domain.c.
 *
 *   writer                                                         reader
 *   slots, registered --- RDMA write ------------------------->    slots, registered
 *                     '-- send: notice {end, length, meta} --->    posted receives -> completions.c
 *                     <-- send: credits -----------------------
 *
 * A message is written into the reader's slot, or into registered memory that the reader has posted
 * for it. The source is the writer's slot or registered memory of its user. A small send after it
 * announces it; both are posted together, and a reliable connection makes the data visible before
 * the send completes. A message of up to RCMI_TINY bytes travels inside the send. Immediate data is
 * not used, because iWARP has none. Memory is not polled for a flag, because the order in which
 * bytes appear is not guaranteed.
 *
 *   table.c             the functions of libibverbs, loaded at run time
 *   device_faults.c     why a device or port cannot be used
 *   port.c              the ports of this host: selection, opening
 *   locality.c          distance of a port from a rank's data
 *   port_choice.c       which ports a link uses
 *   domain.c            the function table; polling, waiting, probing
 *   async_events.c      asynchronous events of a device
 *   link.c              a link: offers, its end, its failure
 *   connect.c           a thread that connects queue pairs, which may block
 *   connect_exchange.c  connecting those of RoCE and InfiniBand
 *   rdma_cm.c           connecting those of iWARP, by rdma_cm
 *   send_queue.c        the send queue, and ends that wait for room in it
 *   completions.c       completions, received notices
 *   channel_end.c       shared state of a channel's end, and when its memory is free
 *   channel.c           the two ends of a channel
 *   memory_regions.c    registered memory of users
 *   posted_receives.c   posted receives
 *
 * Credits. A channel's writer has at most as many messages in flight as there are slots. A queue
 * pair has VERBS_RECEIVES posted receives at each side, and each send consumes one: a side sends
 * only if the other has a receive left. Each notice returns the receives that were posted again; a
 * separate notice does so when half of them are owed, and the last receive is reserved for it.
 *
 * Memory that a peer may write to stays registered until the writer's end of stream has arrived
 * after its last write (channel_end.c). A write to memory that is no longer registered would break
 * the queue pair, and with it all channels of the link.
 *
 * Lock order: the connector's lock, or port.lock (polling); link.lock (posting, and the ends);
 * domain.owing_lock.
 *
 * With iWARP, a send completes when TCP has accepted it. Sometimes data must have reached the other
 * side: before a registered buffer is reused, or before a link ends. Then the writer waits for the
 * answer to a read posted after it: the probe of such a link (send_queue.c).
 *
 * Not for: devices without RC queue pairs (EFA), which are rejected with a sentence; detecting that
 * a peer is dead (the framework).
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
#include "port_choice.h"
#include "table.h"

#define VERBS_BULK_SCALE 8   /* equals that of tcp, because ranks of a job may use either */
#define VERBS_SENDS      256 /* entries of a send queue */
#define VERBS_RECEIVES   256 /* entries of a receive queue */
#define VERBS_SIGNAL     32  /* sends per completion */
#define VERBS_POLL       16  /* completions per poll */
/* Inline size that siw supports. Without inline data, siw may send the smallest messages, and the
 * smallest answers to reads, from memory of another process. */
#define VERBS_INLINE      64
#define VERBS_NOTICE_STEP 192 /* bytes from notice to notice in memory */
#define VERBS_ENDS_MAX    65536u
#define VERBS_PAGE        4096
#define VERBS_PROBED      64          /* bytes that a probe by read transfers */
#define VERBS_MAGIC       0x52434d56u /* "VMCR" */
/* Entries are counted from here, so that in every link and test the count soon wraps modulo 2^32,
 * as completions report it. */
#define VERBS_FIRST_ENTRY (UINT32_MAX - 40u)

/* A spin lock, held for a few posts at most; a thread that must have it yields. */
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
    VERBS_HELLO = 1, /* the connection works; meta, len: where probes may read, and its key */
    VERBS_DATA,      /* a message */
    VERBS_CREDIT,    /* meta: number of slots returned */
    VERBS_END,       /* end of stream of a channel */
    VERBS_NOTHING,   /* only returns receives */
    VERBS_PUT,       /* a message, in memory that was posted for it */
    VERBS_POSTED,    /* struct verbs_posted; meta: slots returned, may be 0 */
    VERBS_WITHDRAW,  /* withdraws all posted memory */
    VERBS_WITHDRAWN, /* confirms: nothing is written to it any more */
};

/* Memory of the reader for the message with that number, from 0. */
struct verbs_posted {
    uint64_t number, address, len;
    uint32_t rkey, reserved;
};

/* The content of a send. `end` is the receiver's number of its end of the channel. */
struct verbs_notice {
    uint32_t kind, end;
    uint32_t len;
    uint32_t receives; /* number of receives posted again */
    uint64_t meta;
    uint8_t bytes[RCMI_TINY]; /* a tiny message or struct verbs_posted; sent as far as used */
};
#define VERBS_NOTICE_HEAD offsetof(struct verbs_notice, bytes)
_Static_assert(sizeof(struct verbs_notice) <= VERBS_NOTICE_STEP, "a notice fits its place");

/* Registered memory. */
struct verbs_region {
    uint8_t *memory;
    size_t bytes;
    struct ibv_mr *mr;
};

/* An open port of this host. */
struct verbs_port {
    struct verbs_domain *domain;
    const struct verbs_method *method; /* connects its queue pairs */
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    struct verbs_lock lock;            /* of polling */
    struct rcmi_watch events;          /* asynchronous events */
    struct rcmi_watch requests;        /* peers that connect to the port */
    struct verbs_connection *listener; /* accepts them; the method's; NULL: none */
    bool deaf;                         /* peers cannot connect any more */
    bool refused;                      /* a refused connection was logged */
    struct verbs_offered offered;
    int gid_index, pkey_index;
    uint8_t number;
    int position; /* of its device in libibverbs' list */
    int room;     /* links for which the completion queue has room */
    /* The port's links, by rank. Written by the loop thread under `lock`; read under it, or on the
     * loop thread. An entry stays valid while the lock is held. */
    struct verbs_link **links;
    char name[IBV_SYSFS_NAME_MAX + 8];
};

struct verbs_domain {
    struct rcmi_node *node;
    const struct verbs_table *table;
    uint32_t generation; /* of the process that created it: a forked child must not use devices */
    int nranks;
    int64_t peer_timeout_ms;
    int traffic_class, service_level;
    struct verbs_place place; /* where the rank's data are */
    struct verbs_port ports[VERBS_PORTS_MAX];
    int nports;
    char left_out[200]; /* names of ports beyond VERBS_PORTS_MAX */
    int epoll;          /* contains all completion channels */
    struct rcmi_watch watch;
    struct verbs_link **links; /* of all ports, port after port */
    /* Number of links that wait for the other side's hello, or for room to post committed messages:
     * the loop continues them. Seq_cst, like `armed`: if a thread increments it and finds the loop
     * armed, the thread that consumes those events sees the increment. */
    _Atomic int unfinished;
    /* The loop watches `epoll`, and events were requested. Set by verbs_arm, cleared by the thread
     * that consumed events; false also if another thread requested meanwhile, which costs a second
     * request. */
    _Atomic bool armed;
    _Atomic int nlinks; /* relaxed: a thread that sees a new link late checks again */
    /* A thread of this process sleeps on `epoll`, or did; the next thread in progress consumes the
     * events. */
    _Atomic bool attended;
    struct rcmi_timer beat;
    struct verbs_connector *connector;
    struct verbs_lock owing_lock;
    struct verbs_link *owing; /* links with notices deferred to the next progress */
    _Atomic bool owes;        /* the list is not empty; written under the lock, a hint without it */
};

enum verbs_state {
    VERBS_NEW,
    VERBS_CONNECTED, /* the queue pair is connected */
    VERBS_READY,     /* a message has arrived in each direction */
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
    struct verbs_job *job;   /* connects the queue pair; under the connector's lock */
    /* Keeps the queue pair connected; NULL: not needed. */
    struct verbs_connection *connection;
    uint64_t token, far_token; /* offered by this side and by the other side */
    unsigned left_out;         /* bit set of ports to which the other side cannot connect */
    bool reported;             /* as ready, so a failure no longer declines; under lock */

    struct verbs_lock lock;
    enum verbs_state state;
    bool connecting;   /* waits for hello; this and the next flag are counted in the domain */
    bool blocked;      /* ends wait after posting was attempted */
    struct ibv_qp *qp; /* NULL: down */
    uint32_t inline_max;
    struct verbs_region notices; /* VERBS_RECEIVES to receive into, VERBS_SENDS to send from */
    /* If probes are reads: the bytes that the other side reads, then the destination of this side's
     * reads. */
    struct verbs_region probed;
    uint64_t far_probed; /* address of the other side's */
    uint32_t far_probed_key;
    char why[400];  /* why the link is broken */
    bool unstopped; /* the queue pair could not be stopped: it works until it is destroyed */
    bool hello_sent, hello_received;
    uint64_t hello;        /* send queue entry of our hello */
    uint64_t posted, done; /* entries of the send queue */
    uint64_t reached;      /* entries known to have arrived at the other side */
    uint32_t unsignalled;
    uint32_t credits;        /* sends for which the peer has a receive */
    uint32_t owed;           /* receives posted again that the peer was not informed of */
    uint64_t probe;          /* send queue entry of the last probe */
    bool probing;            /* the probe is in progress */
    rcmi_deadline answer_by; /* time limit for it, for devices that set none */
    unsigned flushed;        /* beats since a request was flushed for an unknown cause; else 0 */
    bool awaited;            /* a thread waits for the completion of a zero-copy send */
    struct verbs_end **ends;
    uint32_t nends, generation;
    struct verbs_end *first, *last; /* wait for room in the send queue, or for progress */
    struct verbs_end *dying;        /* their end of stream is in flight */
    struct verbs_link *next_owing;  /* under the domain's owing_lock */
    bool listed;
};

/* One message of an end. */
struct verbs_message {
    uint32_t len;
    uint32_t lkey;  /* writer: key for bytes */
    uint64_t entry; /* writer: its send queue entry, once it is posted */
    uint64_t meta;
    uint8_t *bytes; /* location in registered memory; NULL: in its slot */
};

/* A posted receive; the reader's record, or the writer's copy. */
struct verbs_post {
    struct verbs_posted is;
    bool live, announced;
};

enum verbs_withdraw {
    VERBS_WITHDRAW_NONE,
    VERBS_WITHDRAW_WANTED, /* the notice is to be sent */
    VERBS_WITHDRAW_SENT,   /* waits for the answer */
};

/* State of a channel's end. It outlives the channel until its memory is free. */
struct verbs_end {
    struct verbs_link *link;
    struct verbs_end *next; /* in link->first or ->dying */
    uint32_t number;        /* index in link->ends, and the generation */
    uint32_t far;           /* the peer's number */
    bool listed, waiting;   /* in link->ends; in the list of link->first */
    bool is_writer, closed;
    bool ended;    /* reader: the end of stream has arrived; writer: it is posted */
    uint64_t last; /* writer: send queue entry of the end of stream */
    uint32_t slots;
    size_t slot_bytes, stride;
    struct verbs_region region;
    struct verbs_message *messages; /* one per slot, like posts */
    struct verbs_post *posts;       /* by the message's number; under link->lock */
    uint64_t remote;                /* writer: address of the reader's slots */
    uint32_t rkey;
    /* Writer. committed: by its thread (release), acquire where credits are checked and posted. */
    _Atomic uint64_t committed;
    uint64_t posted;           /* under link->lock */
    _Atomic uint64_t returned; /* under link->lock (release), acquire in reserve */
    bool answers;              /* VERBS_WITHDRAWN is to be sent; under link->lock */
    /* Reader. arrived: under link->lock (release), acquire in peek. */
    _Atomic uint64_t arrived;
    _Atomic uint64_t released; /* by its thread (release), acquire where messages arrive */
    _Atomic uint32_t owed;     /* released slots that the writer was not informed of */
    uint64_t peeked;           /* used by its thread only */
    uint32_t unannounced;      /* posts; this and withdraw under link->lock */
    enum verbs_withdraw withdraw;
};

struct verbs_channel {
    struct rcmi_channel base;
    struct verbs_end *end;
};

/* port.c */
/* Tests which ports may be used, by the settings. reason: a sentence in either case. */
bool verbs_ports_probe(const struct rcmi_need *need, char *reason, size_t cap);
/* For a domain with table, node count and epoll set. */
rcm_status verbs_ports_open(struct verbs_domain *domain);
void verbs_ports_close(struct verbs_domain *domain);
/* "mlx5_0:1, mlx5_1:1" */
void verbs_ports_name(const struct verbs_domain *domain, char *text, size_t cap);
/* May this process lock memory beyond RLIMIT_MEMLOCK (CAP_IPC_LOCK)? */
bool verbs_locks_all(void);
/* Bytes that a link locks; may this process lock those of all its peers? reason: set if not. */
size_t verbs_locked_bytes(const struct rcmi_need *need);
bool verbs_may_lock(const struct rcmi_need *need, char *reason, size_t cap);
/* Registers memory; access: additional rights of peers. The text of RCM_ERR_RESOURCE contains the
 * limit. */
rcm_status verbs_mr_make(const struct verbs_port *port, void *memory, size_t bytes, int access,
                         struct ibv_mr **ret_mr);
rcm_status verbs_region_make(const struct verbs_port *port, size_t bytes, int access,
                             struct verbs_region *ret_region);
void verbs_region_free(const struct verbs_table *table, struct verbs_region *region);

/* domain.c */
/* Reads the RINGCOMM_ variables that apply to all ports. */
rcm_status verbs_settings(struct verbs_domain *domain);
bool verbs_forked(const struct verbs_domain *domain);
/* No function of a device may be called for cleanup: in a forked child, or after descriptors were
 * closed, whose numbers may belong to others. */
bool verbs_untouchable(const struct verbs_domain *domain);
bool verbs_progress(void *domain);
void verbs_arm(void *domain);
/* Handles all completions that have arrived by now. No lock may be held. */
void verbs_port_drain(struct verbs_port *port);
/* Makes progress, or sleeps 20 us if there is none. No lock may be held. */
void verbs_pause(struct verbs_domain *domain);
/* Sets a link's flag `connecting` or `blocked`, and counts it in domain->unfinished. */
void verbs_count(struct verbs_domain *domain, bool *flag, bool value);
/* Makes the loop continue if there is unfinished work. No lock may be held. */
void verbs_go_on(struct verbs_domain *domain);

/* async_events.c */
/* Handles asynchronous events of the port's device. Loop thread. */
void verbs_port_events(void *port, uint32_t events);
/* Breaks all links of the port. Under port->lock, or on the loop thread. */
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
/* A queue pair of the port, with its largest inline size. Its completions are identified by peer.
 */
rcm_status verbs_qp_make(const struct verbs_port *port, int peer, struct ibv_qp **ret_qp,
                         uint32_t *ret_inline);
/* Called at each beat, under link->lock. */
void verbs_link_beat(struct verbs_link *link);
/* Breaks the link; the reason is the thread's error. Under link->lock. */
void verbs_link_break(struct verbs_link *link);
/* The device does nothing more for the link: it has no queue pair, or a stopped one. Under
 * link->lock. */
bool verbs_link_still(const struct verbs_link *link);
/* Invalid data arrived: sets RCM_ERR_PROTOCOL. */
rcm_status verbs_link_refuse(const struct verbs_link *link, const char *what, uint64_t value);
/* The queue pair is connected, or could not be (error number). Under link->lock. */
void verbs_link_connected(struct verbs_link *link, int error);
/* Sends our hello when it is due. The link is ready when ours has arrived and one was received.
 * Under link->lock. */
void verbs_link_greet(struct verbs_link *link);

/* send_queue.c; all under link->lock */
/* Posts receive number i. */
rcm_status verbs_post_receive(struct verbs_link *link, uint32_t i);
/* Sends an empty notice of that kind. False: no room. */
bool verbs_post_notice(struct verbs_link *link, enum verbs_kind kind);
/* Probes whether the peer's host still answers, and which entries have arrived. */
void verbs_post_probe(struct verbs_link *link);
/* Sends everything that the end has to send, now or when there is room. */
void verbs_post_later(struct verbs_link *link, struct verbs_end *end);
/* Removes the end from the waiting list. */
void verbs_post_forget(struct verbs_link *link, const struct verbs_end *end);
/* Posts waiting ends, as far as there is room. */
void verbs_post_waiting(struct verbs_link *link);
/* Defers the end's notices to the next progress. */
void verbs_owe(struct verbs_link *link, struct verbs_end *end);
/* Posts what was deferred. This and the next function take the locks they need. */
bool verbs_pay(struct verbs_domain *domain);
/* The link is down: removes it from the domain's list. */
void verbs_owe_nothing(struct verbs_link *link);

/* completions.c */
/* The text for a completion's status. */
const char *verbs_status_word(enum ibv_wc_status status);
/* Handles a completion. True if an event happened that a thread may sleep for. Takes link->lock. */
bool verbs_complete(struct verbs_link *link, const struct ibv_wc *wc);

/* channel_end.c */
/* Makes an end in link's table, with its memory. */
rcm_status verbs_end_make(struct verbs_link *link, const struct rcmi_channel *channel,
                          struct verbs_end **ret_end);
/* The channel is closed: frees the end now, or when its memory is no longer written to. */
void verbs_end_close(struct verbs_end *end);
/* The end with that number; NULL if it is gone. Under link->lock. */
struct verbs_end *verbs_end_find(const struct verbs_link *link, uint32_t number);
/* Frees dying ends whose end of stream has arrived. Under link->lock. */
void verbs_ends_reap(struct verbs_link *link);
/* Frees an end. Under link->lock. */
void verbs_end_free(struct verbs_end *end);
void verbs_ends_free(struct verbs_link *link);

/* Has that send queue entry arrived, or can it never arrive? */
bool verbs_entry_done(const struct verbs_link *link, uint64_t entry);

/* memory_regions.c */
rcm_status verbs_memory_register(void *domain, const struct rcmi_mem *mem, void **ret_own);
bool verbs_memory_unregister(void *domain, void *own, rcmi_deadline deadline);
/* The memory region of mem's registration for the port of link; NULL: mem is not registered. */
const struct ibv_mr *verbs_memory_of(const struct rcmi_channel *channel,
                                     const struct verbs_link *link, const struct rcmi_mem *mem);

/* posted_receives.c; all but the first two under link->lock */
bool verbs_put_offer(struct rcmi_channel *channel, const struct rcmi_posted *posted);
/* Withdraws all posts. The writer may write there until it has answered. */
void verbs_put_withdraw(struct verbs_end *end);
/* Clears all posts: the writer has answered, or the reader has withdrawn them. */
void verbs_put_forget(struct verbs_end *end);
/* The post for a message of that number and length; NULL. */
struct verbs_post *verbs_put_post(const struct verbs_end *end, uint64_t number, size_t len);
/* Message number n was posted to the device, or has arrived: its post is used up. */
void verbs_put_pass(struct verbs_end *end, uint64_t number);
/* A post that was not announced to the writer; NULL. */
struct verbs_post *verbs_put_unannounced(const struct verbs_end *end);
/* Writer: stores a post announced by the reader. */
rcm_status verbs_put_take(struct verbs_end *end, const struct verbs_posted *posted);

/* channel.c */
static inline struct verbs_end *verbs_end_of(const struct rcmi_channel *channel) {
    return ((const struct verbs_channel *)channel)->end; /* base is its first member */
}
/* Copies message number n from registered memory to its slot. Under link->lock. */
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

/* Ids of completions. Bit 63: a receive; bit 62: a probe; then the peer; then the receive's number,
 * or the number of send queue entries done with it, modulo 2^32. */
#define VERBS_ID_RECEIVE ((uint64_t)1 << 63)
#define VERBS_ID_PROBE   ((uint64_t)1 << 62)
static inline uint64_t verbs_id(const struct verbs_link *link, uint64_t number) {
    return (uint64_t)(uint32_t)link->peer << 32 | (uint32_t)number;
}

#include "connect.h"

#endif
