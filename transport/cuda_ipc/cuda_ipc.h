/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport/cuda_ipc/: messages between ranks of one host whose payloads stay in memory of GPUs:
 * the device plane of links whose host plane is shared memory. This is what its files share; the
 * framework sees only the table at the end of domain.c.
 *
 *   domain.c    the table; one per node
 *   arena.c     memory of the node's device, handed out for slots
 *   link.c      coming up, and the end
 *   proof.c     reading the peer's memory, before anything depends on it
 *   side_socket.c what the two ends of a link tell each other meanwhile
 *   descriptor.c memory that is opened by descriptors, which these carry
 *   take_back.c memory that is to be freed, and the end of all peers
 *   channel.c   the two ends of a channel, on the queue of fifo.h
 *   zero_copy.c registered memory that is read where it lies
 *
 *   writer's process                          reader's process
 *     memory file: headers, counters   <--->    mapped
 *     device: arena (slots), registered <----   imported (device_share.h): read by operations
 *
 * A header says where its payload is: which allocation of the writer's, with the handle by which
 * that is opened, and where in it. So a slot and memory that is registered are the same to the
 * reader, which opens an allocation when the first message in it comes, on the device's thread. A
 * message is committed when the operation that writes it has ended, and released when those that
 * read it have: the host drives all, and nothing on a device waits for another process. Of several
 * readers each opens the allocation for itself, and has a counter of its own in the queue.
 *
 * Memory that is opened by a descriptor is opened ahead, and goes by slots until it is
 * (descriptor.c).
 *
 * Memory that a peer may have open is freed once the peer says that it has not: it closes what it
 * is told of (side_socket.c), and all when the link ends. If that is by a farewell, what was
 * committed is read first, for which the node that ends waits IPC_END_MS. A peer that ends without
 * a word may be reading still: what it had open stays until this process ends.
 *
 * Not for: what is exported, and how it is opened (kernels/device/device_share.h); ranks of two
 * hosts, which go through pinned slots of another row; host memory.
 */
#ifndef RCMI_CUDA_IPC_H
#define RCMI_CUDA_IPC_H

#include <pthread.h>
#include "../channel/fifo.h"
#include "../channel/ranges.h"
#include "../row.h"
#include "device_share.h"
#include "operation.h"

#define IPC_CHUNK       ((size_t)16 << 20) /* of the arena, at least */
#define IPC_ALIGN       ((size_t)4096)     /* of slots */
#define IPC_PROOF       4096 /* bytes at the beginning of the arena, which peers read */
#define IPC_DESCRIPTORS 32   /* allocations that are opened by one, of a node and of each peer */
#define IPC_END_MS      5000 /* for peers, when the node ends */
#define IPC_ARENA_MS    2000 /* and then for the driver */

/* Where a message's payload is. Comes from another process. */
struct ipc_location {
    struct rcmi_device_handle handle;
    uint64_t at;
};
_Static_assert(sizeof(struct ipc_location) <= RCMI_FIFO_INLINE, "it travels in a header");

/* A piece of the arena: one allocation. */
struct ipc_chunk {
    struct ipc_chunk *next;
    struct ipc_arena *arena;
    struct rcmi_export export;
    struct rcmi_ranges free;
    bool settled; /* it is there, or could not be, or is freed: the device's thread is done with it
                   */
};

/* What the device's thread may touch at any time: it outlives the domain if a driver does not
 * answer by then. */
struct ipc_arena {
    pthread_mutex_t lock;      /* of all below */
    struct ipc_domain *domain; /* NULL: it has ended */
    bool stays;                /* the device's thread has something of it for good */
    struct ipc_chunk *chunks;
    unsigned char first[IPC_PROOF]; /* of each chunk */
};

/* An allocation of this node's that goes by descriptor, as the peer has it. */
struct ipc_exported {
    uint64_t buffer; /* 0: none */
    bool open;
};

/* One of the peer's, here; used until it is to be closed, so that it stays open. */
struct ipc_imported {
    struct rcmi_device_handle handle; /* buffer is 0: none */
    struct rcmi_import *import;       /* NULL: it is being opened */
    bool said;                        /* that it is open */
};

/* An allocation that a peer is to close: of the call that waits for it. */
struct ipc_debt {
    struct ipc_debt *next;
    uint64_t buffer, demand; /* demands of a peer are numbered, from 1 */
    bool said, closed;
};

/* An allocation of the peer's that it wants to be closed here, and its latest demand for it. */
struct ipc_closing {
    uint64_t buffer, demand; /* buffer is 0: none */
};

/* This end and the other one, from the beginning of a link until nothing of either is open at the
 * other; it outlives the link. */
struct ipc_peer {
    struct ipc_peer *next;
    struct ipc_domain *domain; /* not for the device's thread, which has: */
    struct ipc_arena *home;
    struct rcmi_device *device;
    int rank;
    /* A socket of the two ends, and of the end that made it the other half, which travels. -1. */
    int sock, other;
    pthread_mutex_t lock;         /* of what is read from the socket, and: */
    struct rcmi_imports *imports; /* its memory, here; NULL before its offer; final */
    bool left;                    /* nothing of ours is open there any more, or: */
    bool ended;                   /* its end of the socket is closed */
    int unread;                   /* channels, see struct ipc_channel */
    uint64_t keeps;               /* allocations up to this number may stay open there */
    struct ipc_debt *debts;
    uint64_t demands; /* so far, of this end */
    struct ipc_closing closing[RCMI_IMPORTS_MAX];
    uint64_t unanswered;             /* pings of its */
    bool down, said;                 /* the link is; and that all is closed here was said */
    bool told, heard;                /* of this node's arena; something came */
    uint64_t pings, pongs;           /* sent, and answered */
    struct rcmi_device_handle arena; /* its first chunk; buffer is 0 until it is told */
    struct ipc_exported exported[IPC_DESCRIPTORS];
    struct ipc_imported imported[IPC_DESCRIPTORS];
    struct ipc_proof *proof; /* NULL before; set by the loop thread, under the lock */
};

/* What travels in a link's offer. */
struct ipc_self {
    uint64_t process, pid_ns;
    uint64_t seed; /* of the bytes in its proof */
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
    struct rcmi_ranges ranges; /* of the file, free. Loop */
    struct ipc_arena *arena;
    struct ipc_peer *peers; /* under the arena's lock; grows by the loop thread */
    /* What is registered, and how much of it has a descriptor; under the arena's lock. */
    struct ipc_shared *shared;
    int descriptors;
    _Atomic uint64_t newest; /* the largest number of what was exported; grows under the lock */
    struct ipc_self self;    /* there with the device */
    bool inited;
};

struct ipc_proof {
    struct rcmi_import *import;
    struct rcmi_operations all;
    struct rcmi_operation copy;
    unsigned char bytes[IPC_PROOF]; /* read */
};

struct ipc_link {
    struct ipc_domain *domain;
    struct ipc_peer *peer;
    struct ipc_self other;
    struct rcmi_wake wake;
    struct rcmi_watch watch;    /* of the peer's socket */
    struct ipc_reader *readers; /* the peer, of channels that this node writes. Loop */
    struct ipc_channel *read;   /* channels that the peer writes. Loop */
    bool watched, told, right;
};

/* A reader of a channel, at its writer: in the list of the link to it. */
struct ipc_reader {
    struct ipc_reader *next, **here; /* NULL: not in it */
    const struct ipc_channel *channel;
    struct ipc_link *link;
    int number; /* of its counter in the queue */
};

struct ipc_channel {
    struct rcmi_channel base;
    union {
        struct rcmi_fifo_writer writer;
        struct rcmi_fifo_reader reader;
    } fifo;
    void *memory; /* headers, mapped here */
    size_t at, len;
    /* A writer's; its slots are in the chunk, NULL before they are needed. */
    struct ipc_domain *domain;
    struct ipc_reader *readers; /* base.nreaders of them */
    struct ipc_chunk *chunk;
    size_t slots_at, slots_len, stride;
    uint64_t completed;
    _Atomic uint64_t published; /* relaxed: a look at the end */
    /* A reader's, in the list of the link. */
    struct ipc_link *link;
    struct ipc_channel *next, **here;
    /* The link is down after a farewell, and not all that was committed is released yet. seq_cst,
     * as the fence in unread_look. */
    _Atomic bool unread;
    /* What the message that was peeked lies in, NULL: none was. */
    struct rcmi_import *import;
    const void *bytes;
    uint64_t ping; /* since the driver did not open it; 0 */
};

/* In the OPEN frame, beside the descriptor of the memory file. */
struct ipc_offer {
    uint64_t at, len;
    uint32_t nreaders, reader;
};

/* An allocation that registered memory lies in. */
struct ipc_shared {
    struct ipc_shared *next;
    struct rcmi_export export;
    int uses; /* 0: its end has begun */
};

/* Registered memory, as this row remembers it. */
struct ipc_registered {
    struct ipc_domain *domain;
    struct ipc_shared *shared;
    size_t at; /* in the allocation */
};

/* ---- arena.c --------------------------------------------------------------------------------- */
rcm_status ipc_arena_make(struct ipc_domain *domain);
/* On the device's thread: something of the link to the rank has changed. */
void ipc_arena_tell(struct ipc_arena *arena, int rank);
/* Begins the first chunk, once. RCM_AGAIN: it is not there yet; rcmi_node_link_changed is called
 * for all peers when it is. */
rcm_status ipc_arena_begin(struct ipc_domain *domain, struct rcmi_device_handle *ret_handle);
/* len bytes, a multiple of IPC_ALIGN. RCM_AGAIN: the arena grows meanwhile. Any thread; allocates
 * only when it grows. */
rcm_status ipc_arena_take(struct ipc_domain *domain, size_t len, struct ipc_chunk **ret_chunk,
                          size_t *ret_at);
/* An allocation is one that peers may come to know. Under the arena's lock. */
void ipc_export_begin(struct ipc_domain *domain, const struct rcmi_device_handle *handle);
void ipc_arena_give(struct ipc_domain *domain, struct ipc_chunk *chunk, size_t at, size_t len);
/* The domain has ended, for the device's thread. keep: its memory stays, for a process that may
 * read it; so does what the driver has not let go of by the deadline. */
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
/* With a descriptor, or -1. False: the peer has left hundreds unread, and it is to be said again
 * once there is room. What is said to one that has ended counts as said. Under the peer's lock. */
bool ipc_notice_send(const struct ipc_peer *peer, enum ipc_notice kind,
                     const struct rcmi_device_handle *handle, int fd);
rcm_status ipc_peer_make(struct ipc_domain *domain, int rank, struct ipc_peer **ret_peer);
/* Does this end make the socket, or does it come with the peer's offer? */
bool ipc_peer_makes_socket(const struct ipc_peer *peer);
/* It was offered a socket. */
void ipc_peer_join(struct ipc_peer *peer, int sock);
/* This node's arena is there. */
void ipc_peer_tell(struct ipc_peer *peer, const struct rcmi_device_handle *arena);
/* Takes what has come. Is that all that will come? Any thread. */
bool ipc_peer_hear(struct ipc_peer *peer);
/* Something of its memory was opened or closed here: what was waited for is said. Any thread. */
void ipc_peer_go_on(struct ipc_peer *peer);
/* Is its process there, still? RCM_OK: it has answered since *ping, which is 0 at the first call;
 * RCM_AGAIN: that is not known yet, the node's doorbell rings when it is; RCM_ERR_PEER. Any thread.
 */
rcm_status ipc_peer_inquire(struct ipc_peer *peer, uint64_t *ping);
/* There is one channel more, or less (-1), from which its memory is to be read after the link is
 * down. Any thread. */
void ipc_peer_unread(struct ipc_peer *peer, int more);
/* The link is down: its memory is closed here as soon as nothing is to be read there, or its
 * process has ended, and nothing reads it. */
void ipc_peer_down(struct ipc_peer *peer);
/* The peer is to close the allocation, if it was told of any of this node's. The debt is the peer's
 * until it is settled. */
void ipc_peer_demand(struct ipc_peer *peer, uint64_t buffer, struct ipc_debt *debt);
/* Takes what has come. Is an answer to be waited for? */
bool ipc_peer_owes(struct ipc_peer *peer, struct ipc_debt *debt);
/* False: it may have the allocation open, still or for good. */
bool ipc_peer_settle(struct ipc_peer *peer, struct ipc_debt *debt);

/* ---- descriptor.c ---------------------------------------------------------------------------- */
/* Does the peer have the allocation open? It is told of it the first time, and not waited for. Any
 * thread. */
bool ipc_exported_is_open(struct ipc_peer *peer, const struct rcmi_export *export);
/* Under the peer's lock, as all that follow. The peer has answered; it is to close it. */
void ipc_exported_answered(struct ipc_peer *peer, uint64_t buffer, bool open);
void ipc_exported_end(struct ipc_peer *peer, uint64_t buffer);
/* An allocation of the peer's is to be opened; the descriptor is taken over. */
void ipc_imported_begin(struct ipc_peer *peer, const struct rcmi_device_handle *handle, int fd);
/* What is open by now is said. */
void ipc_imported_go_on(struct ipc_peer *peer);
/* It may be closed; 0: all may. */
void ipc_imported_drop(struct ipc_peer *peer, uint64_t buffer);

/* ---- take_back.c ----------------------------------------------------------------------------- */
/* No peer has the allocation open any more; false: one may, which has ended or has not answered by
 * the deadline. */
bool ipc_take_back(struct ipc_domain *domain, uint64_t buffer, rcmi_deadline deadline);
/* Waits until no peer has anything open, and nothing of theirs is open here, and frees the peers;
 * false: one may have. */
bool ipc_peers_end(struct ipc_domain *domain, rcmi_deadline deadline);

/* ---- proof.c --------------------------------------------------------------------------------- */
void ipc_proof_fill(unsigned char *bytes, uint64_t seed);
/* RCM_AGAIN until the peer's arena was read; RCM_ERR_UNSUPPORTED, with a sentence that has the pair
 * and the cause. */
rcm_status ipc_prove(struct ipc_link *link);
/* What is known to forbid it before anything is tried. */
rcm_status ipc_prove_possible(const struct ipc_link *link);
/* What it reads is put back, once it was read. NULL is a no-op. */
void ipc_proof_rest(struct ipc_proof *proof);
/* Does nothing of it run any more? Then it is freed. NULL: true. */
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
/* Of channels that outlive the link, what was committed is still to be read. */
void ipc_channels_link_down(const struct ipc_link *link);
rcm_status ipc_reserve(struct rcmi_channel *channel, size_t len, struct rcmi_reserved *ret);
void ipc_commit(struct rcmi_channel *channel, size_t len, uint64_t meta);
rcm_status ipc_peek(struct rcmi_channel *channel, struct rcmi_slot *ret_slot);
void ipc_release(struct rcmi_channel *channel);
bool ipc_taken(struct rcmi_channel *channel, int reader, uint64_t number);
/* Publishes a message whose payload lies there; there is room. */
void ipc_publish(struct ipc_channel *ipc, const struct rcmi_device_handle *handle, uint64_t at,
                 uint64_t len, uint64_t meta);
/* Is there room for a message's header? */
rcm_status ipc_room(struct ipc_channel *ipc);

/* ---- zero_copy.c ----------------------------------------------------------------------------- */
rcm_status ipc_memory_register(void *domain, const struct rcmi_mem *mem, void **ret_own);
bool ipc_memory_unregister(void *domain, void *own, rcmi_deadline deadline);
rcm_status ipc_send_zero_copy(struct rcmi_channel *channel, const struct rcmi_mem *mem,
                              uint64_t meta, bool may_get);
bool ipc_completed(struct rcmi_channel *channel, uint64_t number);

#endif
