/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport/tcp/: messages between any two ranks, by TCP sockets that the framework has connected
 * and authenticated. This is what its files share; the framework sees only the table at the end of
 * tcp.c.
 *
 *   writer                       stream (one socket)                       reader
 *   slots, user's memory --> list of frames --> kernel ~~~> read ahead --> slots, posted memory
 *                            tx.c                           rx.c, peek.c
 *                        <------------- credits, as frames -------------
 *
 *   tcp.c      the table; domains (one per node) and links
 *   stream.c   one data socket: its life, its failure, when its thread must be woken
 *   rx.c       what arrives: frames into slots or into the reader's own memory, credits
 *   peek.c     reading small messages without being made to acknowledge them
 *   tx.c       what leaves: a first-in, first-out list of frames, gathered into few system calls
 *   fault.c    memory of the user that cannot be read or written
 *   channel.c  the two ends of a channel
 *
 * A *stream* is one data socket with all that belongs to it; a link has TCP_STREAMS of them and a
 * channel uses one, the same at both ends. Frames of all channels of a stream share it; since a
 * writer never sends what its reader has no slot for, the reader can always take what comes, and
 * no channel waits for another.
 *
 * Locks, in the order in which they may be nested; none is held while something blocks:
 *   domain.streams_lock   the list of streams; shared by threads in progress
 *   stream.rx.lock        reading the socket, the table of ends, slots that are being filled
 *   stream.tx.lock        writing the socket
 *   stream.queue_lock     the list of frames; a few instructions
 *
 * Not for: connecting, proving a secret, and noticing that a peer is dead (the framework); control
 * messages, which have a stream of their own.
 */
#ifndef RCMI_TCP_H
#define RCMI_TCP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
#include "../backend.h"

#define TCP_STREAMS 1
/* Messages of bulk channels are mostly sent without a copy and received into place, so that their
 * slots are memory that is not touched; fewer of them mean fewer calls and less that arrives before
 * what is posted for it is known. */
#define TCP_BULK_SCALE 8
/* Bytes that one read may take beyond what is asked for: 64 KiB with headers and credits. */
#define TCP_READ_AHEAD    (65536 + 1024)
#define TCP_LARGE         12288 /* after such a message its reader may say where the next one goes */
#define TCP_DRY           32    /* so many looks in vain before the kernel is made to acknowledge */
#define TCP_RX_VECTOR     2     /* pieces that one read goes to */
#define TCP_PEEK          16384 /* bytes that may be looked at and left in the socket, see peek.c */
#define TCP_RX_ROUNDS     8 /* reads per call of progress, so that no stream starves the others */
#define TCP_FLUSH_ROUNDS  1000    /* looks of one flush: all slots and more */
#define TCP_GATHER        16      /* frames per system call */
#define TCP_SMALL         512     /* bytes that are cheaper to copy together than to gather */
#define TCP_DIRECT        1       /* up to so many streams are read without asking epoll first */
#define TCP_AWAKE         64      /* after so many reads without sleep epoll forgets the stream */
#define TCP_GRACE_NS      1000000 /* a full socket that is not moved for so long is the loop's */
#define TCP_HEADER_DATA   0x52434d31u /* "RCM1" */
#define TCP_HEADER_CREDIT 0x52434d32u
#define TCP_HEADER_PAD    0x52434d33u
#define TCP_PAD           32768 /* bytes of the first frame within a host, see stream_pad */
#define TCP_ENDS_MAX      65536u

/* Before each message: to which end of which channel, how long, and the writer's word. A credit
 * frame has no payload; its meta says how many slots were given back. A pad belongs to no channel.
 * Both hosts must have the same byte order: otherwise `kind` is not recognised and the link is
 * refused.
 */
struct tcp_header {
    uint32_t kind;
    uint32_t index; /* of the end that shall get it, in its owner's table */
    uint64_t len;
    uint64_t meta;
};

/* Held for as long as one or two system calls at most; a thread that must have it yields. */
struct tcp_lock {
    _Atomic bool held; /* acquired by exchange, paired with the release in tcp_lock_drop */
};

static inline bool tcp_lock_try(struct tcp_lock *lock) {
    return !atomic_load_explicit(&lock->held, memory_order_relaxed) &&
           !atomic_exchange(&lock->held, true);
}

void tcp_lock_take(struct tcp_lock *lock);

static inline void tcp_lock_drop(struct tcp_lock *lock) {
    atomic_store(&lock->held, false);
}

/* Something to be sent. Lies in the channel; a frame whose channel was closed before it was sent
 * is replaced by a copy of its own (owner NULL). */
struct tcp_frame {
    struct tcp_frame *next;
    struct tcp_channel *owner;
    const uint8_t *payload;
    size_t done; /* bytes of header and payload that the kernel has */
    struct tcp_header header;
    bool zero_copy;    /* the payload is the user's memory */
    _Atomic bool busy; /* is in a list; the release when it leaves pairs with reserve's acquire */
};

struct tcp_end {
    struct tcp_channel *channel; /* NULL: free */
    uint16_t generation;         /* changes with each use, so that late frames are recognised */
};

struct tcp_rx {
    struct tcp_lock lock;
    uint8_t *ahead; /* TCP_READ_AHEAD bytes, then TCP_PEEK that are thrown away */
    size_t head, tail;
    struct tcp_header header;
    bool in_payload;
    struct tcp_channel *to; /* whose payload is arriving; NULL: of none, drop it */
    uint8_t *dest;
    size_t left;
    bool in_posted;      /* dest is the reader's own memory, see tcp_post_receive */
    bool large;          /* the message that is arriving, or came last */
    bool large_came;     /* one ended in this look, see tcp_rx_poll */
    bool rang;           /* something arrived for which a thread may sleep */
    bool owes;           /* the kernel may hold back an acknowledgement, see tcp_rx_acknowledge */
    uint32_t dry;        /* looks in a row that found nothing */
    uint32_t awake;      /* reads that brought something since a thread was about to sleep */
    size_t seen;         /* bytes at the front of the socket that are taken already, see peek.c */
    uint32_t unanswered; /* reads that brought something since this side sent anything */
    struct tcp_end *ends;
    uint32_t nends;
};

struct tcp_stream {
    struct tcp_domain *domain;
    struct tcp_link *link;
    struct tcp_stream *next; /* in the domain */
    int fd;                  /* -1: not attached or down; changed under both rx and tx lock */
    bool listed;             /* in the domain's list; loop thread */
    /* Set under queue_lock by the thread that finds the socket unusable; read by all that would use
     * it. From then on nothing is added to the list and epoll does not know the socket any more. */
    _Atomic bool broken;
    struct tcp_rx rx;

    struct tcp_lock tx_lock;
    struct tcp_lock queue_lock;
    struct tcp_frame *first, *last;
    /* Credit frames that travel with the next data; under queue_lock, see tcp_tx_defer. */
    struct tcp_frame *deferred;
    _Atomic bool defers; /* there are any; relaxed, a hint for threads that do not hold the lock */
    /* The rest of the first frame cannot be read: nothing is sent, and nothing counts as queued,
     * until its channel ends at the peer. Under queue_lock. */
    bool held;
    bool single; /* the next call takes the first frame only, to find the faulty one; tx_lock */
    /* Frames in the list, written under queue_lock. seq_cst: a thread that queues and then fails
     * to get tx_lock relies on the holder looking here after having dropped it. */
    _Atomic uint32_t queued;
    /* Something was sent; set by tx, cleared by rx, both relaxed: it only says what is likely. */
    _Atomic bool answered;
    /* The socket takes no more. Written by the holder of tx_lock, seq_cst, paired with
     * domain.armed: either the thread that arms sees it or the one that blocks sees the arming. */
    _Atomic bool blocked;
    /* Epoll reports room in the socket. Written under queue_lock; read without it as a hint. */
    _Atomic bool wants_out;
    /* Epoll reports anything. The same. */
    _Atomic bool watched;
};

struct tcp_link {
    struct tcp_domain *domain;
    int peer;
    struct tcp_stream streams[TCP_STREAMS];
};

struct tcp_domain {
    struct rcmi_node *node;
    uint32_t
        generation; /* of the process that made it: a forked child must not touch what it shares */
    int epoll;
    struct rcmi_watch watch;
    /* The loop will look at `epoll`. Exchange by tcp_arm, cleared by the loop before it looks. */
    _Atomic bool armed;
    int timer; /* a timerfd: unlike rcmi_timer any thread can start it */
    struct rcmi_watch timer_watch;
    _Atomic bool
        timer_set; /* set by the thread that starts it, cleared by the loop when it fired */
    pthread_rwlock_t streams_lock;
    bool streams_lock_made;
    /* The loop waits to write the list: readers stay out (seq_cst on both sides; only a hint). */
    _Atomic bool changing;
    struct tcp_stream *streams;
    /* Of the list. Relaxed where it is looked at without the lock: a thread that sees a new stream
     * late looks again, and the loop does when something comes. */
    _Atomic int nstreams;
};

/* One message slot of a reader. */
struct tcp_message {
    const uint8_t *bytes;
    size_t len;
    uint64_t meta;
};

enum tcp_hint { TCP_HINT_NONE, TCP_HINT_GIVEN, TCP_HINT_TAKEN };

struct tcp_channel {
    struct rcmi_channel base;
    struct tcp_stream *stream;
    uint32_t index;     /* in this side's table of ends */
    bool listed;        /* is in that table */
    uint32_t far_index; /* in the peer's */
    uint8_t *memory;    /* all slots */
    size_t stride;

    /* Writer. */
    struct tcp_frame *frames; /* slots of them */
    uint32_t window;          /* how many messages may be on the way */
    /* Messages published; by the writer's thread (release), read by rx to check credits. */
    _Atomic uint64_t committed;
    /* Messages the reader gave back; by rx (release), pairs with the acquire in reserve. */
    _Atomic uint64_t returned;
    /* Zero-copy frames not yet sent; up by the writer, down by tx (release), acquire in
     * tcp_completed. One more if the channel failed for its user's memory. */
    _Atomic uint32_t zero_copy;

    /* Reader. */
    struct tcp_message *messages; /* slots of them */
    /* Messages complete; by rx (release), pairs with the acquire in peek. */
    _Atomic uint64_t arrived;
    /* Messages given back; by the reader's thread (release), acquire in rx: the slot is free. */
    _Atomic uint64_t released;
    uint64_t peeked; /* the reader's thread: messages it has been shown */
    /* Slots given back that the writer does not know of yet; added by the reader, taken by tx. */
    _Atomic uint32_t owed;
    struct tcp_frame credit; /* at most one is under way */
    /* enum tcp_hint: NONE -> GIVEN by the reader (release), GIVEN -> TAKEN by rx (acquire) when
     * the message begins, -> NONE by rx when it ends or by the reader under rx.lock. */
    _Atomic int hint;
    uint8_t *posted;
    size_t posted_cap;
    uint64_t posted_for; /* number of the message that may go there, if it is like this: */
    uint64_t posted_like, posted_mask; /* mask 0: any */
};

/* stream.c */
void tcp_stream_init(struct tcp_stream *stream, struct tcp_domain *domain, struct tcp_link *link);
/* Takes fd over, also if it fails. */
rcm_status tcp_stream_attach(struct tcp_stream *stream, int fd);
void tcp_stream_down(struct tcp_stream *stream);
void tcp_stream_fini(struct tcp_stream *stream);
/* The socket is of no use any more, for the reason in the thread's error: the framework will lose
 * the link. Any thread, under rx or tx lock but not queue_lock. */
void tcp_stream_fail(struct tcp_stream *stream);
/* errno is of a call that moved its data ("sending to"): the thread's error. */
rcm_status tcp_stream_error(const struct tcp_stream *stream, const char *verb);
/* Reads and writes what can be. */
bool tcp_stream_move(struct tcp_stream *stream);
/* Takes all that has come, also what another thread is about to take. Does the peer's kernel have
 * all that was committed? A process that ends with unread credits in its sockets takes back what is
 * still in its own kernel. Loop thread. */
bool tcp_stream_flushed(struct tcp_stream *stream);
/* Has epoll report what comes; or no longer, if no thread sleeps on it or may look there. For each
 * segment that comes to a watched socket its sender pays, on loopback a twentieth of all that a
 * small message costs. */
void tcp_stream_watch(struct tcp_stream *stream, bool watch);
/* Has epoll report room in a full socket, or no longer. */
void tcp_stream_want_out(struct tcp_stream *stream, bool want);

/* tcp.c */
void tcp_arm(void *domain);
/* The socket is full: should no thread come along, the loop does in a moment. */
void tcp_grace(struct tcp_domain *domain);
bool tcp_forked(const struct tcp_domain *domain);
/* The list of streams. Loop thread. */
void tcp_domain_list(struct tcp_domain *domain, struct tcp_stream *stream);
void tcp_domain_unlist(struct tcp_domain *domain, struct tcp_stream *stream);

/* rx.c; under rx.lock. */
bool tcp_rx_poll(struct tcp_stream *stream);
/* Nothing more came: makes the kernel acknowledge what did. */
void tcp_rx_acknowledge(struct tcp_stream *stream);
rcm_status tcp_end_add(struct tcp_stream *stream, struct tcp_channel *channel);
void tcp_end_remove(struct tcp_stream *stream, struct tcp_channel *channel);
/* Moves what is being received into a reader's own memory back to its slot. */
void tcp_rx_displace(struct tcp_channel *channel);

/* peek.c; under rx.lock. */
/* Shall the next read leave what it finds in the socket? Only for one that goes to `ahead`. */
bool tcp_peek_wanted(struct tcp_stream *stream);
/* Such a read: what is new comes to the front of `ahead`. Returns as recv does, without what was
 * seen before. */
ssize_t tcp_peek_take(struct tcp_stream *stream);
/* Any other read, which takes what was seen out of the socket, too. */
ssize_t tcp_peek_skip(struct tcp_stream *stream, struct iovec *iov, int niov);
/* Takes what was seen out of the socket, so that it shows as empty if it is. */
void tcp_peek_settle(struct tcp_stream *stream);

/* tx.c */
void tcp_tx_queue(struct tcp_stream *stream, struct tcp_frame *frame);
/* The same for a credit frame that may wait for the next frame of data to go with. */
void tcp_tx_defer(struct tcp_stream *stream, struct tcp_frame *frame);
/* Queues all that was deferred. */
void tcp_tx_promote(struct tcp_stream *stream);
/* Sends what can be, unless another thread does. */
bool tcp_tx_kick(struct tcp_stream *stream);
/* The same from progress, together with deferred credits of writers that have run out of slots. */
bool tcp_tx_move(struct tcp_stream *stream);
/* Copies what zero-copy sends of the channel have not sent yet to slots of its own, as far as it
 * can be read. */
void tcp_tx_stage(struct tcp_stream *stream, struct tcp_channel *channel);
/* Takes the channel's frames out of the list; those that must still travel are copied. */
void tcp_tx_forget(struct tcp_stream *stream, struct tcp_channel *channel);
/* Empties the list of a stream that is down. */
void tcp_tx_drop(struct tcp_stream *stream);

/* The list of frames; under queue_lock. _append: at its end. _all: takes all out. */
void tcp_frames_append(struct tcp_stream *stream, struct tcp_frame *frame);
struct tcp_frame *tcp_frames_all(struct tcp_stream *stream);

/* fault.c */
/* The kernel could not read what was to be sent. False: that is no user's fault. tx_lock. */
bool tcp_fault_send(struct tcp_stream *stream);
/* Nor write what came to where its reader wants it: it goes to its slot. rx.lock. */
void tcp_fault_receive(struct tcp_stream *stream);
/* Copies the user's memory. False: it cannot be read. */
bool tcp_fault_copy(void *to, const void *from, size_t len);
/* The channel's frames are not sent any more, but the rest of one that has begun, once the channel
 * ends: zeros, which its reader drops. Both locks. */
void tcp_fault_withdraw(struct tcp_stream *stream, struct tcp_channel *channel);

/* channel.c */
rcm_status tcp_writer_init(struct rcmi_channel *base, void *const *links, int nreaders);
rcm_status tcp_writer_offer(struct rcmi_channel *base, int r, struct rcmi_blob *ret_offer);
rcm_status tcp_writer_attach(struct rcmi_channel *base, int r, struct rcmi_blob *answer);
rcm_status tcp_reader_init(struct rcmi_channel *base, void *link);
rcm_status tcp_reader_accept(struct rcmi_channel *base, struct rcmi_blob *offer,
                             struct rcmi_blob *ret_answer);
void tcp_writer_close(struct rcmi_channel *base);
void tcp_channel_fini(struct rcmi_channel *base);
rcm_status tcp_reserve(struct rcmi_channel *base, size_t len, struct rcmi_reserved *ret_reserved);
void tcp_commit(struct rcmi_channel *base, size_t len, uint64_t meta);
rcm_status tcp_send_zero_copy(struct rcmi_channel *base, const struct rcmi_mem *mem, uint64_t meta,
                              bool may_get);
bool tcp_completed(struct rcmi_channel *base, uint64_t number);
rcm_status tcp_peek(struct rcmi_channel *base, struct rcmi_slot *ret_slot);
void tcp_release(struct rcmi_channel *base);
bool tcp_post_receive(struct rcmi_channel *base, const struct rcmi_posted *posted);
/* The slots that a reader gave back without telling the writer are too many for that. */
bool tcp_credit_is_due(struct tcp_channel *channel);
/* The writer has no slot left that it knows of. */
bool tcp_writer_is_stuck(struct tcp_channel *channel);

#endif
