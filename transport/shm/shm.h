/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport/shm/: messages between ranks of one host, by memory that they share. This is what its
 * files share; the framework sees only the table at the end of shm.c.
 *
 *   shm.c        the table; domains (one per node) and links
 *   probe.c      whether this process can have what a node will have
 *   segment.c    the node's shared memory: its head, and ranges for channels and for the user
 *   channel.c    the two ends of a channel, on the queue of fifo.h
 *   blocks.c     memory handed out to the user, and what is mapped of the peers'
 *   zero_copy.c  messages that are read or written there, or are got, instead of going by slots
 *   peer.c       the peer's process, and reading its memory
 *   get.c        the reader's side of a get
 *   help.c       the writer's
 *
 * Each node has one segment, a memory file without a name. Its first page holds a header and the
 * node's doorbell, its second the status page; behind them lie the queues of the channels that this
 * node writes, and blocks of memory that the user asked for. A peer gets the file with the link,
 * and keeps it: that, and the eventfd that wakes the peer's engine, are the only descriptors per
 * peer. It maps the head when the link is made (to ring the doorbell and read the status page), the
 * range of a channel when it opens it for reading, a block when the first message comes that is
 * told by its location in the file.
 *
 *   writer's memory:  [header, doorbell][status page][queue][block][queue]...
 *                            ^ rung by readers     ^ counters written by readers, the rest by us
 *
 * Where a block was nothing else is ever: what is freed becomes a hole, so that late writes of a
 * peer after an abort do no harm.
 *
 * Not for: ranks of two hosts (tcp/); a rank with itself (self/); the layout of a queue
 * (../fifo.h); when a message goes by slot, put or get (../protocol.h).
 */
#ifndef RCMI_SHM_H
#define RCMI_SHM_H

#include <pthread.h>
#include "../channel/fifo.h"
#include "../channel/ranges.h"
#include "../row.h"

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

/* Where this process is found by others: what travels in a link's offer. */
struct shm_self {
    uint64_t head;   /* address of its head there */
    uint64_t pid_ns; /* the namespace of pid, 0: not known */
    int32_t pid;
    int32_t reserved; /* 0 */
};

/* The location of bytes in the segment of the rank that sends it: the block, and where in it.
 * Comes from another process, see shm_window_find. */
struct shm_location {
    uint64_t block_at, block_len; /* in the segment */
    uint64_t offset;              /* in the block */
};
_Static_assert(sizeof(struct shm_location) <= RCMI_FIFO_FIRST, "it travels in a header");

/* A block of ours that the user has. */
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
    int users; /* channel ends that remember it; under the link's lock */
};

/* The head of another node's segment, mapped. */
struct shm_map {
    struct shm_map *next;
    struct shm_head *head;
};

struct shm_domain {
    struct rcmi_node *node;
    int memfd;            /* the segment, final; -1 before there is one */
    size_t page;          /* of the machine; 0: there is no lock yet */
    pthread_mutex_t lock; /* size, blocks */
    size_t size;
    struct shm_block *blocks; /* in the segment */
    struct shm_head *head;
    struct shm_self self;
    struct rcmi_ranges free; /* of the segment */
    uint64_t channels;       /* written so far */
    struct shm_map *maps;    /* kept for status pages that may still be read */
    /* Links that were begun; never fewer. seq_cst with the armed bits of the doorbell: a
     * thread that polls sees the new link, or the ring after it wakes it. */
    _Atomic int links;
};

struct shm_link {
    struct shm_domain *domain;
    int peer;
    bool inited;
    _Atomic bool ungettable; /* by now it is known; relaxed, nothing else depends on it */
    _Atomic bool unhelpable; /* likewise, of writing to the peer's memory or having it write */
    _Atomic int64_t
        seen_ns;          /* when the identity of the peer's process was read; 0: never; likewise */
    struct shm_self self; /* the peer's */
    struct shm_head *head;
    int eventfd;                /* of the peer's engine */
    int memfd;                  /* the peer's segment */
    pthread_mutex_t lock;       /* windows */
    struct shm_window *windows; /* the last used first */
};

/* What was posted, as this side remembers it: the writer cannot change this. */
struct shm_posted {
    uint64_t number;
    size_t cap;
    void *bytes;
};

/* A message that is to be got, and the slot that it holds. */
struct shm_sent {
    uint64_t number; /* 0: there was none */
    const void *bytes;
    size_t len;
    void *slot;
};

/* A get that the writer may take part in, as the reader remembers it. */
struct shm_getting {
    bool active;
    bool alone;      /* the writer does not take part, or not any more */
    bool revoked;    /* the permit */
    void *permit;    /* a page; NULL before it is needed */
    bool broken;     /* the writer has changed what may not change */
    bool bounces;    /* it comes by the slot: the other's memory cannot be read */
    uint64_t number; /* of the get, on this channel */
    size_t len;      /* bytes in all */
    size_t piece;    /* bytes of each but the last one */
    uint64_t pieces;
    uint64_t claimed, done; /* of them, by this side */
    uint64_t back;          /* by the other one, as last seen */
};

struct shm_channel {
    struct rcmi_channel base;
    union {
        struct rcmi_fifo_writer writer;
        struct rcmi_fifo_reader reader;
    } fifo;
    struct rcmi_wake wake;      /* the writer's, or the first reader's */
    struct rcmi_wake *wakes;    /* of all readers; NULL if there is one */
    struct shm_domain *domain;  /* a writer's */
    struct shm_link *link;      /* to the writer, or to the only reader; NULL: there are several */
    struct shm_window *window;  /* the one used last of link's */
    uint64_t completed;         /* messages up to this one are their user's again */
    void *put;                  /* where the reserved message is written, NULL: into its slot */
    struct shm_sent *sent;      /* a writer's, by slot */
    struct shm_posted *posted;  /* a reader's, by number modulo slots */
    uint32_t nposted;           /* since they were withdrawn last */
    struct shm_getting getting; /* a reader's */
    uint64_t helped;            /* a writer's: in which get nothing is left to do */
    uint64_t bounced;           /* a writer's: the last piece that it brought by the slot */
    void *memory;               /* mapped here */
    size_t len;                 /* of memory */
    size_t at;                  /* in the writer's segment */
    uint32_t nslots;            /* a writer's: so many of the first slots have pages */
    uint64_t number;            /* of the channel among all of its writer, from 1 */
};

/* What travels in the OPEN frame. */
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
/* A range for a queue, whole pages, grown if there is none. Its slots are a hole in the file. */
rcm_status shm_range_take(struct shm_domain *domain, const struct rcmi_fifo_shape *shape,
                          size_t *ret_at, size_t *ret_len);
/* It becomes a hole. */
void shm_range_give(struct shm_domain *domain, size_t at, size_t len);
/* Frees the pages of [at, at + len) of our segment, which reads as zeros then. Nothing in a forked
 * child. */
void shm_segment_punch(const struct shm_domain *domain, size_t at, size_t len);
/* len bytes more at its end, at a multiple of align. Any thread. */
rcm_status shm_segment_grow(struct shm_domain *domain, size_t align, size_t len, size_t *ret_at);
/* Maps [at, at + len) of a segment, read-write. */
rcm_status shm_range_map(int memfd, size_t at, size_t len, void **ret_memory);
/* Gives pages to all of a writer's slots up to number `index`, which has none. */
rcm_status shm_slots_make(struct shm_channel *shm, uint32_t index);
/* Whether that is to be called before a message of len bytes is written to the next slot. What
 * travels in a header passes through the first lines of the slot, and those of the first slot lie
 * beside the headers. */
static inline bool shm_slot_is_hole(const struct shm_channel *shm, size_t len) {
    const uint32_t index = shm->fifo.writer.index;
    return index >= shm->nslots && (index > 0 || len > RCMI_FIFO_INLINE);
}

/* blocks.c */
rcm_status shm_memory_take(void *domain, size_t bytes, void **ret_memory);
void shm_memory_give(void *domain, void *memory);
rcm_status shm_memory_register(void *domain, const struct rcmi_mem *mem, void **ret_own);
/* Where it lies in our segment; false if it does not. */
bool shm_memory_locate(const struct rcmi_channel *channel, const struct rcmi_mem *mem,
                       struct shm_location *ret_location);
/* len bytes at a location that the peer told: checks it, maps the block if it is not yet. *window
 * is the caller's, NULL at first, given back by shm_window_drop. */
rcm_status shm_window_find(struct shm_link *link, const struct shm_location *location, size_t len,
                           struct shm_window **window, void **ret_bytes);
void shm_window_drop(struct shm_link *link, struct shm_window **window);
void shm_windows_fini(struct shm_link *link);

/* zero_copy.c */
/* There is no room, or the counters cannot be: then it was the only reader. */
rcm_status shm_writer_status(const struct shm_channel *shm, rcm_status status);
#define SHM_PUT_MIN 2048 /* shorter messages are cheaper to copy than to look for the location */
/* What the reader has posted for the next message; NULL: nothing, or of no use. */
void *shm_posted_find(struct shm_channel *shm, size_t len);
rcm_status shm_send_zero_copy(struct rcmi_channel *channel, const struct rcmi_mem *mem,
                              uint64_t meta, bool may_get);
bool shm_completed(struct rcmi_channel *channel, uint64_t number);
bool shm_post_receive(struct rcmi_channel *channel, const struct rcmi_posted *posted);
/* Where the payload is of the message that the reader looks at and that is not in its slot: bytes,
 * or remote. len: as its header says. */
rcm_status shm_peek_elsewhere(struct shm_channel *shm, uint64_t len, struct rcmi_slot *ret_slot);

/* peer.c */
struct shm_self shm_self_of(const struct shm_domain *domain);
/* Does the peer's process number mean something here? */
bool shm_self_reads(const struct shm_self *self, const struct shm_self *peer);
rcm_status shm_read(struct rcmi_channel *channel, void *dest, uint64_t from, size_t len);
/* Is the other process still the peer? False, and never again, if it is not. */
bool shm_look(struct shm_link *link);

/* get.c, help.c: one vector is cut into pieces, by the reader's piece size. Both sides take pieces,
 * by one word: 16 bits of the get's number, pieces of the reader, pieces of the writer. */
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
/* Are they of this get, and can they be? */
bool shm_claims_right(uint64_t claims, uint64_t number, uint64_t pieces);
/* Of a get in which both take part. */
size_t shm_piece(size_t len);
uint64_t shm_pieces(size_t len, size_t piece);
struct shm_span {
    size_t at, len;
};
struct shm_span shm_span(size_t len, size_t piece, uint64_t number);

rcm_status shm_get(struct rcmi_channel *channel, const struct rcmi_mem *dest, uint64_t remote,
                   bool helped, bool *moved);
/* The reader's end goes: once this returns the writer writes nothing to this process any more. */
void shm_get_fini(struct shm_channel *shm);
bool shm_help(struct rcmi_channel *channel);

/* channel.c */
/* The error that was set is about nonsense in the memory, which this rank is thought to have
 * written; or about memory that this rank lacks. */
rcm_status shm_peer_fault(int rank);
/* Publishes what the queue was given: rings the readers. */
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
