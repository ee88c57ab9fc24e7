/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport/tcp/: messages between any two ranks, by TCP sockets that the framework has connected
 * and authenticated. This header is shared by its files; the framework sees only the table at the
 * end of tcp.c.
 *
 *   writer                       stream (one socket)                       reader
 *   slots, user's memory --> list of frames --> kernel ~~~> read ahead --> slots, posted memory
 *                            tx.c                           rx.c, peek.c
 *                        <------------- credits, as frames -------------
 *
 *   tcp.c                the function table; domains (one per node) and links
 *   stream.c             one data socket: its life, its failure, watching it
 *   rx.c                 receiving: frames into slots or posted memory, credits
 *   peek.c               reading small messages without forcing an acknowledgement
 *   tx.c                 sending: a FIFO of frames, gathered into few system calls
 *   user_memory_fault.c  memory of the user that cannot be read or written
 *   channel.c            the two ends of a channel
 *
 * A *stream* is one data socket with its state. A link has TCP_STREAMS of them, and a channel uses
 * one, the same at both ends. Frames of all channels of a stream share it. A writer never sends a
 * message for which its reader has no slot. Hence the reader can always receive, and no channel
 * waits for another.
 *
 * Lock order; no lock is held while something blocks:
 *   domain.streams_lock   the list of streams; shared by threads in progress
 *   stream.rx.lock        reading the socket, the table of ends, slots that are being filled
 *   stream.tx.lock        writing the socket
 *   stream.queue_lock     the list of frames; held for a few instructions
 *
 * Not for: connecting, authentication, and detecting that a peer is dead (the framework); control
 * messages, which have a separate stream.
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
/* Messages of bulk channels are mostly sent without a copy and received in place, so the memory of
 * their slots is rarely touched. Fewer messages mean fewer calls, and fewer messages that arrive
 * before a receive is posted for them. */
#define TCP_BULK_SCALE 8
/* Bytes that one read may take beyond the payload: 64 KiB with headers and credits. */
#define TCP_READ_AHEAD    (65536 + 1024)
#define TCP_LARGE         12288 /* after such a message its reader may post the next receive */
#define TCP_DRY           32    /* reads without data before an acknowledgement is forced */
#define TCP_RX_VECTOR     2     /* destinations of one read */
#define TCP_PEEK          16384 /* bytes that may be peeked and left in the socket, see peek.c */
#define TCP_RX_ROUNDS     8 /* reads per call of progress, so that no stream starves the others */
#define TCP_FLUSH_ROUNDS  1000    /* reads of one flush: enough for all slots */
#define TCP_GATHER        16      /* frames per system call */
#define TCP_SMALL         512     /* bytes that are cheaper to copy together than to gather */
#define TCP_DIRECT        1       /* up to this many streams are read without epoll */
#define TCP_AWAKE         64      /* after this many reads without sleep epoll drops the stream */
#define TCP_GRACE_NS      1000000 /* the loop moves a full socket that was idle for this time */
#define TCP_HEADER_DATA   0x52434d31u /* "RCM1" */
#define TCP_HEADER_CREDIT 0x52434d32u
#define TCP_HEADER_PAD    0x52434d33u
#define TCP_PAD           32768 /* bytes of the first frame within a host, see stream_pad */
#define TCP_ENDS_MAX      65536u

/* The header of each message: receiving channel end, length, and meta word. A credit frame has no
 * payload; its meta is the number of slots returned. A pad belongs to no channel. Both hosts must
 * have the same byte order: otherwise `kind` is not recognised and the link is refused. */
struct tcp_header {
    uint32_t kind;
    uint32_t index; /* of the receiving end, in its owner's table */
    uint64_t len;
    uint64_t meta;
};

/* A spin lock, held for one or two system calls at most; a thread that must have it yields. */
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

/* A frame to be sent; part of its channel. If the channel is closed before the frame was sent, a
 * copy replaces it (owner NULL). */
struct tcp_frame {
    struct tcp_frame *next;
    struct tcp_channel *owner;
    const uint8_t *payload;
    size_t done; /* bytes of header and payload accepted by the kernel */
    struct tcp_header header;
    bool zero_copy;    /* the payload is the user's memory */
    _Atomic bool busy; /* in a list; the release when it leaves pairs with reserve's acquire */
};

struct tcp_end {
    struct tcp_channel *channel; /* NULL: free */
    uint16_t generation;         /* changes with each use, so that late frames are recognised */
};

struct tcp_rx {
    struct tcp_lock lock;
    uint8_t *ahead; /* TCP_READ_AHEAD bytes, then TCP_PEEK bytes of scratch space */
    size_t head, tail;
    struct tcp_header header;
    bool in_payload;
    struct tcp_channel *to; /* receives the arriving payload; NULL: drop it */
    uint8_t *dest;
    size_t left;
    bool in_posted;      /* dest is posted memory, see tcp_post_receive */
    bool large;          /* the arriving or last message is large */
    bool large_came;     /* a large message was completed in this poll, see tcp_rx_poll */
    bool rang;           /* an event happened that a thread may sleep for */
    bool owes;           /* the kernel may delay an acknowledgement, see tcp_rx_acknowledge */
    uint32_t dry;        /* reads in a row without data */
    uint32_t awake;      /* reads with data since a thread was about to sleep */
    size_t seen;         /* peeked bytes at the front of the socket, see peek.c */
    uint32_t unanswered; /* reads with data since this side last sent something */
    struct tcp_end *ends;
    uint32_t nends;
};

struct tcp_stream {
    struct tcp_domain *domain;
    struct tcp_link *link;
    struct tcp_stream *next; /* in the domain */
    int fd;                  /* -1: not attached, or down; written under both rx and tx lock */
    bool listed;             /* in the domain's list; loop thread */
    /* Set under queue_lock by the thread that finds the socket unusable; read by all users. From
     * then on nothing is added to the list, and epoll does not watch the socket any more. */
    _Atomic bool broken;
    struct tcp_rx rx;

    struct tcp_lock tx_lock;
    struct tcp_lock queue_lock;
    struct tcp_frame *first, *last;
    /* Credit frames to be sent with the next data; under queue_lock, see tcp_tx_defer. */
    struct tcp_frame *deferred;
    _Atomic bool defers; /* the list is not empty; relaxed, a hint for threads without the lock */
    /* The rest of the first frame cannot be read: nothing is sent, and nothing counts as queued,
     * until its channel ends at the peer. Under queue_lock. */
    bool held;
    bool single; /* the next call sends only the first frame, to find the faulty one; tx_lock */
    /* Frames in the list, written under queue_lock. seq_cst: a thread that queues and then fails
     * to get tx_lock relies on the holder checking this after releasing it. */
    _Atomic uint32_t queued;
    /* Something was sent; set by tx, cleared by rx, both relaxed: a heuristic. */
    _Atomic bool answered;
    /* The socket is full. Written by the holder of tx_lock, seq_cst, paired with domain.armed:
     * either the thread that arms sees it, or the thread that blocks sees the arming. */
    _Atomic bool blocked;
    /* Epoll reports room in the socket. Written under queue_lock; read without it as a hint. */
    _Atomic bool wants_out;
    /* Epoll watches the socket. Likewise. */
    _Atomic bool watched;
};

struct tcp_link {
    struct tcp_domain *domain;
    int peer;
    struct tcp_stream streams[TCP_STREAMS];
};

struct tcp_domain {
    struct rcmi_node *node;
    uint32_t generation; /* of the process that created it: a forked child must not use sockets */
    int epoll;
    struct rcmi_watch watch;
    /* The loop will check `epoll`. Exchanged by tcp_arm, cleared by the loop before it checks. */
    _Atomic bool armed;
    int timer; /* a timerfd: unlike rcmi_timer any thread can start it */
    struct rcmi_watch timer_watch;
    _Atomic bool timer_set; /* set by the thread that starts it, cleared by the loop */
    pthread_rwlock_t streams_lock;
    bool streams_lock_made;
    /* The loop waits to write the list: readers stay out (seq_cst on both sides; only a hint). */
    _Atomic bool changing;
    struct tcp_stream *streams;
    /* Length of the list. Relaxed without the lock: a thread that sees a new stream late checks
     * again, and the loop checks when data arrive. */
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
    struct tcp_frame *frames; /* one per slot */
    uint32_t window;          /* maximum number of messages in flight */
    /* Messages published; by the writer's thread (release), read by rx to check credits. */
    _Atomic uint64_t committed;
    /* Messages returned by the reader; by rx (release), pairs with the acquire in reserve. */
    _Atomic uint64_t returned;
    /* Zero-copy frames not sent yet; incremented by the writer, decremented by tx (release),
     * acquire in tcp_completed. One more if the channel failed because of its user's memory. */
    _Atomic uint32_t zero_copy;

    /* Reader. */
    struct tcp_message *messages; /* one per slot */
    /* Complete messages; by rx (release), pairs with the acquire in peek. */
    _Atomic uint64_t arrived;
    /* Messages released; by the reader's thread (release), acquire in rx: the slot is free. */
    _Atomic uint64_t released;
    uint64_t peeked; /* messages peeked; used by the reader's thread only */
    /* Released slots that the writer was not informed of; added by the reader, taken by tx. */
    _Atomic uint32_t owed;
    struct tcp_frame credit; /* at most one is in flight */
    /* enum tcp_hint: NONE -> GIVEN by the reader (release), GIVEN -> TAKEN by rx (acquire) when
     * the message begins, -> NONE by rx when it ends or by the reader under rx.lock. */
    _Atomic int hint;
    uint8_t *posted;
    size_t posted_cap;
    uint64_t posted_for; /* number of the message that may go there, if its meta matches: */
    uint64_t posted_like, posted_mask; /* mask 0: any meta */
};

/* stream.c */
void tcp_stream_init(struct tcp_stream *stream, struct tcp_domain *domain, struct tcp_link *link);
/* Takes ownership of fd, also on failure. */
rcm_status tcp_stream_attach(struct tcp_stream *stream, int fd);
void tcp_stream_down(struct tcp_stream *stream);
void tcp_stream_fini(struct tcp_stream *stream);
/* The socket failed; the reason is the thread's error. The framework will lose the link. Any
 * thread, under rx or tx lock but not queue_lock. */
void tcp_stream_fail(struct tcp_stream *stream);
/* Sets the thread's error from errno of a call that moved data; verb: "sending to". */
rcm_status tcp_stream_error(const struct tcp_stream *stream, const char *verb);
/* Reads and writes as much as possible. */
bool tcp_stream_move(struct tcp_stream *stream);
/* Receives everything that has arrived, also what another thread is about to receive. Returns
 * whether the peer's kernel has everything that was committed. This matters because a process that
 * ends with unread credits in its sockets loses what is still in its own kernel. Loop thread. */
bool tcp_stream_flushed(struct tcp_stream *stream);
/* Makes epoll watch the socket, or stop if no thread sleeps on or polls it. Watching slows down the
 * sender of each segment: on loopback by 5 % of the total cost of a small message. */
void tcp_stream_watch(struct tcp_stream *stream, bool watch);
/* Makes epoll report room in a full socket, or stop. */
void tcp_stream_want_out(struct tcp_stream *stream, bool want);

/* tcp.c */
void tcp_arm(void *domain);
/* The socket is full: if no other thread continues, the loop does after TCP_GRACE_NS. */
void tcp_grace(struct tcp_domain *domain);
bool tcp_forked(const struct tcp_domain *domain);
/* The list of streams. Loop thread. */
void tcp_domain_list(struct tcp_domain *domain, struct tcp_stream *stream);
void tcp_domain_unlist(struct tcp_domain *domain, struct tcp_stream *stream);

/* rx.c; under rx.lock. */
bool tcp_rx_poll(struct tcp_stream *stream);
/* No more data arrived: forces an acknowledgement. */
void tcp_rx_acknowledge(struct tcp_stream *stream);
rcm_status tcp_end_add(struct tcp_stream *stream, struct tcp_channel *channel);
void tcp_end_remove(struct tcp_stream *stream, struct tcp_channel *channel);
/* Moves a message that is being received in posted memory back to its slot. */
void tcp_rx_displace(struct tcp_channel *channel);

/* peek.c; under rx.lock. */
/* Should the next read peek? Only for a read into `ahead`. */
bool tcp_peek_wanted(struct tcp_stream *stream);
/* A read that peeks: new bytes are placed at the front of `ahead`. Returns like recv, without bytes
 * seen before. */
ssize_t tcp_peek_take(struct tcp_stream *stream);
/* Any other read; also removes bytes seen before from the socket. */
ssize_t tcp_peek_skip(struct tcp_stream *stream, struct iovec *iov, int niov);
/* Removes seen bytes from the socket, so that it is empty unless new bytes have arrived. */
void tcp_peek_settle(struct tcp_stream *stream);

/* tx.c */
void tcp_tx_queue(struct tcp_stream *stream, struct tcp_frame *frame);
/* The same for a credit frame that may wait for the next data frame. */
void tcp_tx_defer(struct tcp_stream *stream, struct tcp_frame *frame);
/* Queues all deferred frames. */
void tcp_tx_promote(struct tcp_stream *stream);
/* Sends as much as possible, unless another thread is sending. */
bool tcp_tx_kick(struct tcp_stream *stream);
/* The same from progress, together with deferred credits of writers that have run out of slots. */
bool tcp_tx_move(struct tcp_stream *stream);
/* Copies unsent zero-copy payloads of the channel to its slots, as far as they can be read. */
void tcp_tx_stage(struct tcp_stream *stream, struct tcp_channel *channel);
/* Removes the channel's frames from the list; those that must still be sent are replaced by copies.
 */
void tcp_tx_forget(struct tcp_stream *stream, struct tcp_channel *channel);
/* Empties the list of a stream that is down. */
void tcp_tx_drop(struct tcp_stream *stream);

/* The list of frames; under queue_lock. _append: adds at its end. _all: removes all. */
void tcp_frames_append(struct tcp_stream *stream, struct tcp_frame *frame);
struct tcp_frame *tcp_frames_all(struct tcp_stream *stream);

/* user_memory_fault.c */
/* The kernel could not read a payload. False: it is not a user's memory. tx_lock. */
bool tcp_fault_send(struct tcp_stream *stream);
/* The kernel could not write to posted memory: the message goes to its slot. rx.lock. */
void tcp_fault_receive(struct tcp_stream *stream);
/* Copies the user's memory. False: it cannot be read. */
bool tcp_fault_copy(void *to, const void *from, size_t len);
/* Drops the channel's frames. If one has started to be sent, its rest is sent as zeros once the
 * channel ends, which the reader drops. Both locks. */
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
/* Half of the slots are owed: the credit must be sent with the next progress. */
bool tcp_credit_is_due(struct tcp_channel *channel);
/* The writer was informed of no free slot. */
bool tcp_writer_is_stuck(struct tcp_channel *channel);

#endif
