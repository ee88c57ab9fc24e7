/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport/cuda_ipc/: messages between ranks of one host whose payloads stay in GPU memory. It is
 * the device plane of links whose host plane is shared memory. This header is shared by its files;
 * the framework sees only the table at the end of domain.c.
 *
 *   domain.c      the function table; one domain per node
 *   arena.c       memory of the node's device, handed out for slots
 *   link.c        set-up and end of the plane
 *   proof.c       reads the peer's memory, before anything depends on it
 *   side_socket.c notices between the two ends of a link, outside the control stream
 *   descriptor.c  memory that is opened by descriptors, which notices carry
 *   reclaim.c     closing memory at peers before it is freed, and the end of all peers
 *   channel.c     the two ends of a channel, on the queue of fifo.h
 *   zero_copy.c   registered memory that is read in place
 *
 *   writer's process                          reader's process
 *     memory file: headers, counters   <--->    mapped
 *     device: arena (slots), registered <----   imported (device_share.h): read by operations
 *
 * A header contains the location of its payload: the allocation, the handle that opens it, and the
 * offset. So the reader treats slots and registered memory alike: when the first message in an
 * allocation arrives, the device's thread opens it. A message is committed when the operation that
 * writes it has ended, and released when the operations that read it have ended. The host drives
 * everything; no work on a device waits for another process. With several readers, each opens the
 * allocation separately and has its own counter in the queue.
 *
 * Memory that is opened by a descriptor is opened in advance; until then messages use slots
 * (descriptor.c).
 *
 * Memory that a peer may have open is freed after the peer has confirmed that it is closed. A peer
 * closes an allocation on request (side_socket.c), and all of them when the link ends. After a
 * farewell it first reads what was committed; the node that ends waits IPC_END_MS for that. A peer
 * that ends without a notice may still be reading: the memory it had open stays allocated until
 * this process ends.
 *
 * Not for: what is exported and how it is opened (kernels/device/device_share.h); ranks of two
 * hosts, which use pinned slots of another backend; host memory.
 */
#ifndef RCMI_CUDA_IPC_H
#define RCMI_CUDA_IPC_H

#include <pthread.h>
#include "../channel/fifo.h"
#include "../channel/ranges.h"
#include "../backend.h"
#include "device_share.h"
#include "operation.h"

#define IPC_CHUNK       ((size_t)16 << 20) /* minimum bytes of an arena chunk */
#define IPC_ALIGN       ((size_t)4096)     /* of slots */
#define IPC_PROOF       4096 /* bytes at the start of a chunk that peers read as the proof */
#define IPC_DESCRIPTORS 32   /* allocations opened by descriptor, of a node and of each peer */
#define IPC_END_MS      5000 /* wait for peers when the node ends */
#define IPC_ARENA_MS    2000 /* wait for the driver after that */

/* The location of a message's payload. Comes from another process. */
struct ipc_location {
    struct rcmi_device_handle handle;
    uint64_t at;
};
_Static_assert(sizeof(struct ipc_location) <= RCMI_FIFO_INLINE, "it travels in a header");

/* A chunk of the arena: one allocation. */
struct ipc_chunk {
    struct ipc_chunk *next;
    struct ipc_arena *arena;
    struct rcmi_export export;
    struct rcmi_ranges free;
    bool settled; /* the device's thread is done with it: allocated, failed, or freed */
};

/* State that the device's thread may access at any time. It outlives the domain if the driver does
 * not return by then. */
struct ipc_arena {
    pthread_mutex_t lock;      /* guards the fields below */
    struct ipc_domain *domain; /* NULL: the domain has ended */
    bool stays;                /* the device's thread may use it for ever: never freed */
    struct ipc_arena *next;    /* in the list of those that stay */
    struct ipc_chunk *chunks;
    unsigned char first[IPC_PROOF]; /* first bytes of each chunk */
};

/* An allocation of this node that is passed by descriptor, as seen by the peer. */
struct ipc_exported {
    uint64_t buffer; /* 0: none */
    bool open;
};

/* An allocation of the peer, opened here. It is kept in use, and so open, until
 * the peer demands its close. */
struct ipc_imported {
    struct rcmi_device_handle handle; /* buffer 0: none */
    struct rcmi_import *import;       /* NULL: being opened */
    bool opened_sent;                 /* NOTICE_OPENED was sent */
};

/* An allocation that a peer must close; owned by the call that waits for it. */
struct ipc_debt {
    struct ipc_debt *next;
    uint64_t buffer, demand; /* the demands to a peer are numbered from 1 */
    bool close_sent, closed;
};

/* An allocation of the peer that must be closed here, with the peer's latest demand. */
struct ipc_closing {
    uint64_t buffer, demand; /* buffer 0: none */
    uint64_t time;           /* of rcmi_imports_time, when the demand arrived */
};

/* The two ends of a link, from its set-up until neither has memory of the other open. Outlives the
 * link. */
struct ipc_peer {
    struct ipc_peer *next;
    struct ipc_domain *domain; /* not for the device's thread, which uses: */
    struct ipc_arena *home;
    struct rcmi_device *device;
    int rank;
    /* The socket between the two ends; other: the half that the end which made the socket passes to
     * the peer. -1: none. */
    int sock, other;
    pthread_mutex_t lock;         /* of the state read from the socket, and: */
    struct rcmi_imports *imports; /* the peer's memory, opened here; NULL before its offer; final */
    bool left;                    /* the peer has none of our memory open any more, or: */
    bool ended;                   /* its end of the socket is closed */
    int unread;                   /* channels, see struct ipc_channel */
    uint64_t keeps;               /* allocations up to this number may stay open there */
    struct ipc_debt *debts;
    uint64_t demands; /* so far, of this end */
    struct ipc_closing closing[RCMI_IMPORTS_MAX];
    uint64_t unanswered;             /* pings of the peer */
    bool down;                       /* the link is down */
    bool gone_sent;                  /* NOTICE_GONE was sent: everything is closed here */
    bool arena_sent, received;       /* NOTICE_ARENA was sent; some notice was received */
    uint64_t pings, pongs;           /* sent, and answered */
    struct rcmi_device_handle arena; /* the peer's first chunk; buffer 0: not received yet */
    struct ipc_exported exported[IPC_DESCRIPTORS];
    struct ipc_imported imported[IPC_DESCRIPTORS];
    struct ipc_proof *proof; /* NULL before; set by the loop thread, under the lock */
};

/* The content of a link's offer. */
struct ipc_self {
    uint64_t process, pid_ns;
    uint64_t seed; /* generates the bytes of its proof */
    int32_t pid;
    uint32_t mig;
    char uuid[48], label[80];
};
_Static_assert(sizeof(struct ipc_self) <= RCMI_BLOB_MAX, "it travels in an offer");

struct ipc_domain {
    struct rcmi_node *node;
    struct rcmi_device *device; /* NULL before the first link */
    int memfd;                  /* headers of the channels that this node writes; -1 before */
    size_t size, page;
    struct rcmi_ranges ranges; /* free ranges of the file. Loop */
    struct ipc_arena *arena;
    struct ipc_peer *peers; /* under the arena's lock; grows by the loop thread */
    /* Registered allocations, and how many of them have a descriptor; under the arena's lock. */
    struct ipc_shared *shared;
    int descriptors;
    _Atomic uint64_t newest; /* the largest exported buffer number; grows under the arena's lock */
    struct ipc_self self;    /* set together with device */
    bool inited;
};

struct ipc_proof {
    struct rcmi_import *import;
    struct rcmi_operations all;
    struct rcmi_operation copy;
    unsigned char bytes[IPC_PROOF]; /* what was read */
};

struct ipc_link {
    struct ipc_domain *domain;
    struct ipc_peer *peer;
    struct ipc_self other;
    struct rcmi_wake wake;
    struct rcmi_watch watch;    /* of the peer's socket */
    struct ipc_reader *readers; /* the peer as reader of channels that this node writes. Loop */
    struct ipc_channel *read;   /* channels that the peer writes. Loop */
    bool watched, arena_sent, proved;
};

/* A reader of a channel, at the writer; in the list of the link to the reader. */
struct ipc_reader {
    struct ipc_reader *next, **here; /* NULL: not in it */
    const struct ipc_channel *channel;
    struct ipc_link *link;
    int number; /* index of its counter in the queue */
};

struct ipc_channel {
    struct rcmi_channel base;
    union {
        struct rcmi_fifo_writer writer;
        struct rcmi_fifo_reader reader;
    } fifo;
    void *memory; /* headers, mapped here */
    size_t at, len;
    /* Writer only. chunk contains the slots; NULL before they are needed. */
    struct ipc_domain *domain;
    struct ipc_reader *readers; /* base.nreaders of them */
    struct ipc_chunk *chunk;
    size_t slots_at, slots_len, stride;
    uint64_t completed;
    _Atomic uint64_t published; /* relaxed: read at the end of the link */
    /* Reader only; in the list of the link. */
    struct ipc_link *link;
    struct ipc_channel *next, **here;
    /* The link is down after a farewell, and some committed messages are not released yet. seq_cst,
     * like the fence in unread_look. */
    _Atomic bool unread;
    /* The memory of the peeked message; NULL: no message is peeked. */
    struct rcmi_import *import;
    const void *bytes;
    uint64_t ping; /* number of the ping sent after the driver failed to open memory; 0: none */
};

/* In the OPEN frame, with the descriptor of the memory file. */
struct ipc_offer {
    uint64_t at, len;
    uint32_t nreaders, reader;
};

/* An allocation that contains registered memory. */
struct ipc_shared {
    struct ipc_shared *next;
    struct rcmi_export export;
    int uses; /* 0: being closed */
};

/* The backend's state of registered memory. */
struct ipc_registered {
    struct ipc_domain *domain;
    struct ipc_shared *shared;
    size_t at; /* in the allocation */
};

/* ---- arena.c --------------------------------------------------------------------------------- */
rcm_status ipc_arena_make(struct ipc_domain *domain);
/* On the device's thread: the state of the link to the rank has changed. */
void ipc_arena_notify(struct ipc_arena *arena, int rank);
/* Starts the allocation of the first chunk, once. RCM_AGAIN: not allocated yet;
 * rcmi_node_link_changed is called for all peers when it is. */
rcm_status ipc_arena_begin(struct ipc_domain *domain, struct rcmi_device_handle *ret_handle);
/* Returns a range of len bytes, rounded up to IPC_ALIGN. RCM_AGAIN: the arena is growing. Any
 * thread; allocates only when it grows. */
rcm_status ipc_arena_take(struct ipc_domain *domain, size_t len, struct ipc_chunk **ret_chunk,
                          size_t *ret_at);
/* Records an allocation that peers may open from now on. Under the arena's lock. */
void ipc_export_begin(struct ipc_domain *domain, const struct rcmi_device_handle *handle);
void ipc_arena_give(struct ipc_domain *domain, struct ipc_chunk *chunk, size_t at, size_t len);
/* Ends the arena. keep: its memory stays, because a process may still read it. Memory that the
 * driver has not released by the deadline stays, too. */
void ipc_arena_end(struct ipc_domain *domain, bool keep, rcmi_deadline deadline);

/* ---- side_socket.c --------------------------------------------------------------------------- */
enum ipc_notice {
    NOTICE_ARENA = 1,
    NOTICE_CLOSE,
    NOTICE_CLOSED,
    NOTICE_GONE,
    NOTICE_KEPT,
    NOTICE_MEMORY,
    NOTICE_OPENED,
    NOTICE_REFUSED,
    NOTICE_PING,
    NOTICE_PONG,
};
/* Sends a notice, with a descriptor or -1. False: the socket is full, because the peer has left
 * hundreds of notices unread; send again once there is room. A notice to a peer that has ended
 * counts as sent. Under the peer's lock. */
bool ipc_notice_send(const struct ipc_peer *peer, enum ipc_notice kind,
                     const struct rcmi_device_handle *handle, int fd);
rcm_status ipc_peer_make(struct ipc_domain *domain, int rank, struct ipc_peer **ret_peer);
/* Does this end make the socket? If not, the peer's offer contains it. */
bool ipc_peer_makes_socket(const struct ipc_peer *peer);
/* Takes the socket from the peer's offer. */
void ipc_peer_join(struct ipc_peer *peer, int sock);
/* This node's arena is allocated: sends it to the peer. */
void ipc_peer_send_arena(struct ipc_peer *peer, const struct rcmi_device_handle *arena);
/* Receives and handles what has arrived. True if nothing more will arrive. Any thread. */
bool ipc_peer_receive(struct ipc_peer *peer);
/* Memory of the peer was opened or closed here: sends the notices that depend on it. Any thread. */
void ipc_peer_go_on(struct ipc_peer *peer);
/* Is the peer's process alive? *ping is 0 at the first call. RCM_OK: it has answered since then.
 * RCM_AGAIN: unknown yet; the node's doorbell rings when it is known. RCM_ERR_PEER: it has ended.
 * Any thread. */
rcm_status ipc_peer_inquire(struct ipc_peer *peer, uint64_t *ping);
/* Adds `more` (1 or -1) to the channels that still read the peer's memory after the link is down.
 * Any thread. */
void ipc_peer_unread(struct ipc_peer *peer, int more);
/* The link is down: closes the peer's memory as soon as no channel has to read it, or its process
 * has ended, and no operation reads it. */
void ipc_peer_down(struct ipc_peer *peer);
/* Demands that the peer closes the allocation, if any memory of this node was announced to it. The
 * peer's list contains the debt until ipc_peer_settle. */
void ipc_peer_demand(struct ipc_peer *peer, uint64_t buffer, struct ipc_debt *debt);
/* Receives what has arrived. True if the answer is still outstanding. */
bool ipc_peer_owes(struct ipc_peer *peer, struct ipc_debt *debt);
/* Removes the debt. False: the peer may have the allocation open, still or for ever. */
bool ipc_peer_settle(struct ipc_peer *peer, struct ipc_debt *debt);

/* ---- descriptor.c ---------------------------------------------------------------------------- */
/* Does the peer have the allocation open? The first call announces it, without waiting. Any thread.
 */
bool ipc_exported_is_open(struct ipc_peer *peer, const struct rcmi_export *export);
/* These and the functions below run under the peer's lock. _answered: the peer answered. _end: the
 * peer must close it. */
void ipc_exported_answered(struct ipc_peer *peer, uint64_t buffer, bool open);
void ipc_exported_end(struct ipc_peer *peer, uint64_t buffer);
/* Opens an announced allocation of the peer. Takes ownership of the descriptor. */
void ipc_imported_begin(struct ipc_peer *peer, const struct rcmi_device_handle *handle, int fd);
/* Sends notices for allocations that are open by now. */
void ipc_imported_go_on(struct ipc_peer *peer);
/* The allocation may be closed; 0: all may. */
void ipc_imported_drop(struct ipc_peer *peer, uint64_t buffer);

/* ---- reclaim.c ------------------------------------------------------------------------------- */
/* Waits until no peer has the allocation open. False: one may, because it has ended or has not
 * answered by the deadline. */
bool ipc_reclaim(struct ipc_domain *domain, uint64_t buffer, rcmi_deadline deadline);
/* Waits until no peer has our memory open and none of theirs is open here; frees the peers. False:
 * a peer may still have some open. */
bool ipc_peers_end(struct ipc_domain *domain, rcmi_deadline deadline);

/* ---- proof.c --------------------------------------------------------------------------------- */
void ipc_proof_fill(unsigned char *bytes, uint64_t seed);
/* RCM_AGAIN until the peer's arena was read. RCM_ERR_UNSUPPORTED: it cannot be read; the sentence
 * contains the pair and the cause. */
rcm_status ipc_prove(struct ipc_link *link);
/* Rejects pairs that are known to fail, before the proof. */
rcm_status ipc_prove_possible(const struct ipc_link *link);
/* Releases the imported memory once it was read. NULL is a no-op. */
void ipc_proof_rest(struct ipc_proof *proof);
/* Frees the proof. False: an operation of it is still running. NULL: true. */
bool ipc_proof_end(struct ipc_proof *proof);

/* ---- link.c ---------------------------------------------------------------------------------- */
rcm_status ipc_link_init(void *link, void *domain, int peer);
rcm_status ipc_link_offer(void *link, struct rcmi_blob *ret_offer);
rcm_status ipc_link_accept(void *link, struct rcmi_blob *offer);
rcm_status ipc_link_attach(void *link, int i, int fd);
rcm_status ipc_link_ready(void *link);
void ipc_link_down(void *link);
void ipc_link_fini(void *link);

/* ---- channel.c ------------------------------------------------------------------------------- */
rcm_status ipc_writer_init(struct rcmi_channel *channel, void *const *links, int nreaders);
rcm_status ipc_writer_offer(struct rcmi_channel *channel, int r, struct rcmi_blob *ret_offer);
rcm_status ipc_writer_attach(struct rcmi_channel *channel, int r, struct rcmi_blob *answer);
rcm_status ipc_reader_init(struct rcmi_channel *channel, void *link);
rcm_status ipc_reader_accept(struct rcmi_channel *channel, struct rcmi_blob *offer,
                             struct rcmi_blob *ret_answer);
void ipc_writer_close(struct rcmi_channel *channel);
void ipc_channel_fini(struct rcmi_channel *channel);
/* Marks channels that outlive the link and still have committed messages to read. */
void ipc_channels_link_down(const struct ipc_link *link);
rcm_status ipc_reserve(struct rcmi_channel *channel, size_t len, struct rcmi_reserved *ret);
void ipc_commit(struct rcmi_channel *channel, size_t len, uint64_t meta);
rcm_status ipc_peek(struct rcmi_channel *channel, struct rcmi_slot *ret_slot);
void ipc_release(struct rcmi_channel *channel);
bool ipc_taken(struct rcmi_channel *channel, int reader, uint64_t number);
/* Publishes a message whose payload is at that location. The caller has checked ipc_room. */
void ipc_publish(struct ipc_channel *ipc, const struct rcmi_device_handle *handle, uint64_t at,
                 uint64_t len, uint64_t meta);
/* Is a header free for another message? */
rcm_status ipc_room(struct ipc_channel *ipc);

/* ---- zero_copy.c ----------------------------------------------------------------------------- */
rcm_status ipc_memory_register(void *domain, const struct rcmi_mem *mem, void **ret_own);
bool ipc_memory_unregister(void *domain, void *own, rcmi_deadline deadline);
rcm_status ipc_send_zero_copy(struct rcmi_channel *channel, const struct rcmi_mem *mem,
                              uint64_t meta, bool may_get);
bool ipc_completed(struct rcmi_channel *channel, uint64_t number);

#endif
