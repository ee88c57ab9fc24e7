/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport/shm/: messages between ranks of one host by shared memory. This header is shared by its
 * files; the framework sees only the table at the end of shm.c.
 *
 *   shm.c          the function table; domains (one per node) and links
 *   probe.c        whether this process can have what a node needs
 *   segment.c      the node's shared memory: its head, ranges for channels and for the user
 *   channel.c      the two ends of a channel, on the queue of fifo.h
 *   blocks.c       memory allocated for the user, and mappings of the peers' blocks
 *   zero_copy.c    messages in these blocks, or messages that are got, instead of slots
 *   peer_memory.c  reading the memory of the peer's process
 *   get.c          the reader's side of a get
 *   get_help.c     the writer's side of a get
 *
 * Each node has one segment, an anonymous memory file. Its first page contains a header and the
 * node's doorbell, the following pages the status page. Behind them are the queues of the channels
 * that this node writes, and blocks allocated for the user. A peer receives the file's descriptor
 * with the link and keeps it. That and the eventfd that wakes the peer's engine are the only
 * descriptors per peer. A peer maps the head when the link is made, to ring the doorbell and read
 * the status page. It maps the range of a channel when it opens the channel for reading, and a
 * block when the first message refers to it.
 *
 *   writer's memory:  [header, doorbell][status page][queue][block][queue]...
 *                            ^ rung by readers     ^ counters written by readers, the rest by us
 *
 * The range of a freed block is never reused and becomes a hole, so that late writes of a peer
 * after an abort are harmless.
 *
 * Not for: ranks of two hosts (tcp/); a rank with itself (self/); the layout of a queue
 * (channel/fifo.h); when a message uses slot, put or get (protocol.h).
 */
#ifndef RCMI_SHM_H
#define RCMI_SHM_H

#include <pthread.h>
#include "../channel/fifo.h"
#include "../channel/ranges.h"
#include "../backend.h"

#define SHM_PAGE       RCMI_STATUS_PAGE_AT
#define SHM_HEAD_BYTES (SHM_PAGE + RCMI_STATUS_PAGE_BYTES)
#define SHM_MAGIC      0x52434d53484d3031u

/* At the start of the segment. */
struct shm_head {
    uint64_t magic;
    uint64_t job;
    uint32_t rank;
    struct rcmi_doorbell doorbell;
};
_Static_assert(sizeof(struct shm_head) <= SHM_PAGE, "the head is a page");

/* Identity of a process in its host, sent in a link's offer. */
struct shm_self {
    uint64_t head;   /* address of its own mapping of its head */
    uint64_t pid_ns; /* the namespace of pid; 0: unknown */
    int32_t pid;
    int32_t reserved; /* 0 */
};

/* The location of bytes in the segment of the rank that sends it: a block, and the offset in it.
 * Comes from another process, see shm_window_find. */
struct shm_location {
    uint64_t block_at, block_len; /* in the segment */
    uint64_t offset;              /* in the block */
};
_Static_assert(sizeof(struct shm_location) <= RCMI_FIFO_FIRST, "it travels in a header");

/* A block of this node, in use by the user. */
struct shm_block {
    struct shm_block *next;
    uint8_t *base;
    size_t at, len;
};

/* A peer's block, mapped here. */
struct shm_window {
    struct shm_window *next;
    uint8_t *base;
    size_t at, len;
    int users; /* channel ends that use it; under the link's lock */
};

/* The head of another node's segment, mapped. */
struct shm_map {
    struct shm_map *next;
    struct shm_head *head;
};

struct shm_domain {
    struct rcmi_node *node;
    int memfd;            /* the segment, final; -1 before */
    size_t page;          /* page size of the machine; 0: init has not run */
    pthread_mutex_t lock; /* guards size, blocks */
    size_t size;
    struct shm_block *blocks;
    struct shm_head *head;
    struct shm_self self;
    struct rcmi_ranges free; /* free ranges of the segment */
    uint64_t channels;       /* number of channels written so far */
    struct shm_map *maps;    /* kept, because status pages may still be read */
    /* Number of links that were started; never decremented. seq_cst with the armed bits of the
     * doorbell: a thread that polls sees the new link, or is woken by the ring after it. */
    _Atomic int links;
};

struct shm_link {
    struct shm_domain *domain;
    int peer;
    bool inited;
    _Atomic bool ungettable; /* get is known not to work; relaxed, nothing else depends on it */
    _Atomic bool unhelpable; /* likewise for help: writing to the reader's memory */
    _Atomic int64_t seen_ns; /* when the peer's identity was last read; 0: never; likewise */
    struct shm_self self;    /* the peer's */
    struct shm_head *head;
    int eventfd;                /* of the peer's engine */
    int memfd;                  /* the peer's segment */
    pthread_mutex_t lock;       /* guards windows */
    struct shm_window *windows; /* most recently used first */
};

/* This side's copy of a posted receive, which the writer cannot change. */
struct shm_posted {
    uint64_t number;
    size_t cap;
    void *bytes;
};

/* A message that is to be got, with the slot that it occupies. */
struct shm_sent {
    uint64_t number; /* 0: none yet */
    const void *bytes;
    size_t len;
    void *slot;
};

/* State of a get on the reader's side. */
struct shm_getting {
    bool active;
    bool alone;      /* the writer does not help, or no longer helps */
    bool revoked;    /* the permit is read-only */
    void *permit;    /* a page; NULL before it is needed */
    bool broken;     /* the writer has changed something that must not change */
    bool bounces;    /* through the slot, because the writer's memory cannot be read */
    uint64_t number; /* of the get, on this channel */
    size_t len;      /* total bytes */
    size_t piece;    /* bytes of each piece except the last one */
    uint64_t pieces;
    uint64_t claimed, done; /* pieces of this side */
    uint64_t back;          /* pieces claimed by the writer, as last seen */
};

struct shm_channel {
    struct rcmi_channel base;
    union {
        struct rcmi_fifo_writer writer;
        struct rcmi_fifo_reader reader;
    } fifo;
    struct rcmi_wake wake;      /* of the writer, or of the first reader */
    struct rcmi_wake *wakes;    /* of all readers; NULL if there is one */
    struct shm_domain *domain;  /* writer only */
    struct shm_link *link;      /* to the writer, or to the only reader; NULL: several readers */
    struct shm_window *window;  /* of link, used last */
    uint64_t completed;         /* messages up to this one are complete */
    void *put;                  /* posted memory for the reserved message; NULL: its slot */
    struct shm_sent *sent;      /* writer only, by slot */
    struct shm_posted *posted;  /* reader only, by number modulo slots */
    uint32_t nposted;           /* posts since the last withdrawal */
    struct shm_getting getting; /* reader only */
    uint64_t helped;            /* writer only: number of the last get without work left */
    uint64_t bounced;           /* writer only: the last piece copied to the slot */
    void *memory;               /* the queue, mapped here */
    size_t len;                 /* of memory */
    size_t at;                  /* offset in the writer's segment */
    uint32_t nslots;            /* writer only: the first nslots slots have pages */
    uint64_t number;            /* of the channel among all of its writer, from 1 */
};

/* The content of the OPEN frame. */
struct shm_offer {
    uint64_t at, len;
    uint32_t nreaders, reader;
    uint64_t number; /* as in struct shm_channel */
};

/* probe.c */
bool shm_probe(const struct rcmi_need *need, char *reason, size_t cap);

/* segment.c */
rcm_status shm_segment_init(struct shm_domain *domain);
void shm_segment_fini(struct shm_domain *domain);
/* Takes a range for a queue, in whole pages; grows the segment if needed. Its slots are holes. */
rcm_status shm_range_take(struct shm_domain *domain, const struct rcmi_fifo_shape *shape,
                          size_t *ret_at, size_t *ret_len);
/* Returns the range, which becomes a hole. */
void shm_range_give(struct shm_domain *domain, size_t at, size_t len);
/* Frees the pages of [at, at + len) of our segment, which then reads as zeros. Does nothing in a
 * forked child. */
void shm_segment_punch(const struct shm_domain *domain, size_t at, size_t len);
/* Appends len bytes to the segment, at a multiple of align. Any thread. */
rcm_status shm_segment_grow(struct shm_domain *domain, size_t align, size_t len, size_t *ret_at);
/* Maps [at, at + len) of a segment, read-write. */
rcm_status shm_range_map(int memfd, size_t at, size_t len, void **ret_memory);
/* Allocates pages for a writer's slots up to number `index`, which has none. */
rcm_status shm_slots_make(struct shm_channel *shm, uint32_t index);
/* Must shm_slots_make be called before a message of len bytes is written to the next slot? Messages
 * that travel in a header pass through the first lines of the slot; those of the first slot share a
 * page with the headers. */
static inline bool shm_slot_is_hole(const struct shm_channel *shm, size_t len) {
    const uint32_t index = shm->fifo.writer.index;
    return index >= shm->nslots && (index > 0 || len > RCMI_FIFO_INLINE);
}

/* blocks.c */
rcm_status shm_memory_take(void *domain, size_t bytes, void **ret_memory);
void shm_memory_give(void *domain, void *memory);
rcm_status shm_memory_register(void *domain, const struct rcmi_mem *mem, void **ret_own);
/* The location of mem in our segment; false if it is elsewhere. */
bool shm_memory_locate(const struct rcmi_channel *channel, const struct rcmi_mem *mem,
                       struct shm_location *ret_location);
/* Returns the address of len bytes at a location sent by the peer: checks it, and maps the block if
 * needed. *window belongs to the caller, NULL at first, and is released by shm_window_drop. */
rcm_status shm_window_find(struct shm_link *link, const struct shm_location *location, size_t len,
                           struct shm_window **window, void **ret_bytes);
void shm_window_drop(struct shm_link *link, struct shm_window **window);
void shm_windows_fini(struct shm_link *link);

/* zero_copy.c */
/* Completes an error status: invalid counters are attributed to the only reader. */
rcm_status shm_writer_status(const struct shm_channel *shm, rcm_status status);
#define SHM_PUT_MIN 2048 /* for shorter messages copying is cheaper than finding the location */
/* The memory that the reader has posted for the next message; NULL: none, or unusable. */
void *shm_posted_find(struct shm_channel *shm, size_t len);
rcm_status shm_send_zero_copy(struct rcmi_channel *channel, const struct rcmi_mem *mem,
                              uint64_t meta, bool may_get);
bool shm_completed(struct rcmi_channel *channel, uint64_t number);
bool shm_post_receive(struct rcmi_channel *channel, const struct rcmi_posted *posted);
/* Sets bytes or remote for the peeked message, whose payload is not in its slot. len: from its
 * header. */
rcm_status shm_peek_elsewhere(struct shm_channel *shm, uint64_t len, struct rcmi_slot *ret_slot);

/* peer_memory.c */
struct shm_self shm_self_of(const struct shm_domain *domain);
/* Is the peer's pid valid here? */
bool shm_self_reads(const struct shm_self *self, const struct shm_self *peer);
rcm_status shm_read(struct rcmi_channel *channel, void *dest, uint64_t from, size_t len);
/* Is the process still the peer? Once false, always false. */
bool shm_look(struct shm_link *link);

/* get.c, get_help.c: a vector is cut into pieces of the reader's piece size. Both sides claim
 * pieces by one word: 16 bits of the get's number, pieces of the reader, pieces of the writer. */
#define SHM_PIECES_BITS 24
#define SHM_PIECES_MAX  ((UINT64_C(1) << SHM_PIECES_BITS) - 1)
#define SHM_FAILED      SHM_PIECES_MAX /* in rcmi_fifo_request.helped */
static inline uint64_t shm_claims(uint64_t number, uint64_t front, uint64_t back) {
    return number << 2 * SHM_PIECES_BITS | front << SHM_PIECES_BITS | back;
}
static inline uint64_t shm_claims_front(uint64_t claims) {
    return claims >> SHM_PIECES_BITS & SHM_PIECES_MAX;
}
static inline uint64_t shm_claims_back(uint64_t claims) {
    return claims & SHM_PIECES_MAX;
}
/* Do the claims belong to this get, and are they valid? */
bool shm_claims_right(uint64_t claims, uint64_t number, uint64_t pieces);
/* Piece size and number of pieces of a get in which both sides copy. */
size_t shm_piece(size_t len);
uint64_t shm_pieces(size_t len, size_t piece);
struct shm_span {
    size_t at, len;
};
struct shm_span shm_span(size_t len, size_t piece, uint64_t number);

rcm_status shm_get(struct rcmi_channel *channel, const struct rcmi_mem *dest, uint64_t remote,
                   bool helped, bool *moved);
/* Ends the reader's side: afterwards the writer writes nothing to this process any more. */
void shm_get_fini(struct shm_channel *shm);
bool shm_help(struct rcmi_channel *channel);

/* channel.c */
/* Attributes the thread's error to that rank: invalid data in shared memory, or a lack of memory.
 */
rcm_status shm_peer_fault(int rank);
/* Rings the readers after a message was added to the queue. */
void shm_publish(const struct shm_channel *shm);
rcm_status shm_writer_init(struct rcmi_channel *channel, void *const *links, int nreaders);
rcm_status shm_writer_offer(struct rcmi_channel *channel, int r, struct rcmi_blob *ret_offer);
rcm_status shm_writer_attach(struct rcmi_channel *channel, int r, struct rcmi_blob *answer);
rcm_status shm_reader_init(struct rcmi_channel *channel, void *link);
rcm_status shm_reader_accept(struct rcmi_channel *channel, struct rcmi_blob *offer,
                             struct rcmi_blob *ret_answer);
void shm_writer_close(struct rcmi_channel *channel);
void shm_channel_fini(struct rcmi_channel *channel);
rcm_status shm_reserve(struct rcmi_channel *channel, size_t len,
                       struct rcmi_reserved *ret_reserved);
void shm_commit(struct rcmi_channel *channel, size_t len, uint64_t meta);
bool shm_taken(struct rcmi_channel *channel, int reader, uint64_t number);
rcm_status shm_peek(struct rcmi_channel *channel, struct rcmi_slot *ret_slot);
void shm_release(struct rcmi_channel *channel);

#endif
