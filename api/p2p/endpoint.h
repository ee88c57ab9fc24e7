/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoint.h: messages of any length between this rank and one peer, over a pair of channels.
 *
 *   sender                                       receiver
 *   small:  EAGER(tag, total, bytes)       -->   matched: copied to the buffer; else kept
 *           BARE(tag; bytes)               -->   the same without a header: its tag is its id
 *   large:  RTS(id, tag, total)            -->   matched: buffer found; else noted
 *                                          <--   CTS(id)
 *           DATA(id, bytes) ... DATA(id)   -->   into the buffer
 *                                          <--   CREDIT(bytes): this many eager bytes were taken
 *   large within a machine, or of no bytes:
 *           RTS(id, tag, total, from)      -->   matched: copied from there (endpoint_get.c)
 *                                          <--   ACK(id)
 *   large, in device memory at both ends, within a machine:
 *           RTS(id, tag, total, device)    -->   matched: device memory found
 *                                          <--   DEVICE_CTS(id)
 *           DATA(id) ... DATA(id)          -->   by a channel of device memory (flow.h)
 *
 * EAGER, BARE and RTS are sent in the order of the sends, so matching is in order per tag.
 * Everything that arrives can be taken at once: data come only for messages that have a buffer, and
 * the kept messages are bounded. For each peer the bounds are a budget of eager bytes and a number
 * of unanswered RTS. Beyond the budget, small messages use a rendezvous too. Beyond the RTS limit,
 * sends wait in their sender. The receiver counts too: an excess is an error. The slot's meta word
 * contains kind and id, so DATA slots hold only data and can be received directly into the buffer.
 * Data are sent in the order of CTS, one message after the other, except that a message that waits
 * for its stream (endpoint_copy.c) is overtaken. The pieces of each message come in order.
 *
 * Thresholds select the protocol (protocol.h, endpoint_internal.h).
 *
 * Not here: matching of messages and receives, and unexpected messages. The matching layer above
 * (api/p2p) passes its functions in struct rcmi_messaging. Nothing here locks: one thread at a time
 * uses the endpoints of one struct rcmi_messaging.
 */
#ifndef RCMI_ENDPOINT_H
#define RCMI_ENDPOINT_H

#include "flow.h"

/* An arrived message, as far as it has arrived. */
struct rcmi_arrival {
    int peer;
    uint64_t tag;
    size_t total;
    uint8_t dtype;     /* see rcmi_dtype_code */
    bool rendezvous;   /* its bytes are not here yet */
    uint32_t id;       /* of a rendezvous, as are from and device */
    uint64_t from;     /* see struct rcmi_transfer */
    bool device;       /* a channel of device memory can be used */
    const char *bytes; /* of an eager message */
};

/* Shared by the endpoints of one communicator. */
struct rcmi_messaging {
    /* Opens the channel of messages to or from peer: of all messages, or of data between device
     * memory. close accepts NULL. */
    void *open_arg;
    rcm_status (*open)(void *open_arg, int peer, enum rcmi_mem_kind kind, bool writer,
                       struct rcmi_channel **ret_channel);
    void (*close)(struct rcmi_channel *channel);
    void *arg; /* of the next three */
    /* Takes the receive that matches a message of peer; NULL: there is none yet. */
    struct rcmi_transfer *(*match)(void *arg, int peer, uint64_t tag);
    /* Stores an unexpected message for rcmi_endpoint_receive. Its bytes are copied. */
    rcm_status (*keep)(void *arg, const struct rcmi_arrival *arrival);
    /* The receive that the next message of any peer most likely matches, if it is from peer; else
     * NULL. */
    const struct rcmi_transfer *(*next)(void *arg, int peer);
    /* RCM_OK; RCM_ERR_TRUNCATED: the message is longer than its receive; RCM_ERR_MISMATCH: it is of
     * another type; or the status of rcmi_endpoint_cancel. The owner gets the transfer back. */
    void (*completed)(struct rcmi_transfer *transfer, rcm_status status);

    void (*wake)(void *wake_arg); /* an asynchronous copy has ended; any thread */
    void *wake_arg;
    struct rcmi_device *const *device;  /* of the rank, once it has one */
    int rank;                           /* this rank, for texts */
    struct rcmi_operations *operations; /* all asynchronous copies */
    bool oversubscribed;
    size_t budget;   /* limit of a peer's untaken eager bytes; the same on all ranks */
    size_t rts_max;  /* limit of a peer's unanswered RTS; likewise */
    size_t bare_min; /* smaller eager messages are cheaper to copy */
    size_t zero_copy_min;
    size_t piece_min; /* see RCMI_PIECES */
};
/* Sets the limits and thresholds. nranks: number of ranks that send each other messages. The caller
 * sets the functions. */
void rcmi_messaging_init(struct rcmi_messaging *messaging, bool oversubscribed, size_t nranks);

/* Copies that wait for a stream will touch no memory any more. */
void rcmi_messaging_give_up(const struct rcmi_messaging *messaging);
/* _is_quiet: whether no asynchronous copy touches memory. _settle: then, before its operations are
 * freed. */
bool rcmi_messaging_is_quiet(const struct rcmi_messaging *messaging);
void rcmi_messaging_settle(const struct rcmi_messaging *messaging);

struct rcmi_endpoint {
    const struct rcmi_messaging *messaging;
    int peer;
    union {
        struct rcmi_flow flows[RCMI_MEM_KINDS]; /* by kind of memory */
        struct rcmi_flow main;                  /* host memory; its channels carry all else */
    };
    struct rcmi_transfers outgoing; /* not yet issued, in order */
    struct rcmi_keyed announced;    /* RTS sent, by id */
    struct rcmi_transfers waiting;  /* waiting until t->after has ended, before their data can move:
                                       sends after their CTS, receives before theirs */
    struct rcmi_transfers getting;  /* copied from the peer's memory, one after the other */
    struct rcmi_transfers copying;  /* receives being copied from the memory of kept messages */
    size_t rts_kept;                /* RTS of the peer that wait for their receive */
    uint32_t next_id;
    size_t eager_out; /* eager bytes sent without credit so far */
    size_t eager_in;  /* eager bytes taken for which no credit was sent */
    size_t eager_due; /* eager bytes received without credit: at most the
                         peer's eager_out */
    bool ungettable;  /* the peer's memory cannot be read */
    bool posted;      /* a receive is posted in the channel */
    bool left;        /* the peer left before its channel carried anything. Only waits for its
                         messages fail, not the endpoint. */
};

/* peer: its rank in the communicator, for the functions of messaging and for texts. */
void rcmi_endpoint_init(struct rcmi_endpoint *endpoint, const struct rcmi_messaging *messaging,
                        int peer);
/* Closes the channels. Transfers must be complete, see _cancel. */
void rcmi_endpoint_fini(struct rcmi_endpoint *endpoint);
/* Opens the channel from peer, so that its messages and its death are detected. */
rcm_status rcmi_endpoint_open(struct rcmi_endpoint *endpoint);

/* transfer's peer, tag, mem, dtype, total and synchronous are set; all else is 0. Messages of one
 * tag arrive in this order. */
rcm_status rcmi_endpoint_send(struct rcmi_endpoint *endpoint, struct rcmi_transfer *transfer);
/* Gives a receive its kept message. memory: where that is stored, from malloc; freed when taken. */
rcm_status rcmi_endpoint_receive(struct rcmi_endpoint *endpoint, struct rcmi_transfer *transfer,
                                 const struct rcmi_arrival *arrival, void *memory);
/* Takes arrived messages, and sends what can be sent. *moved: there was progress. */
rcm_status rcmi_endpoint_progress(struct rcmi_endpoint *endpoint, bool *moved);
/* Whether one of its copies is in progress. It may come after a stream; later messages then wait
 * for no peer. */
bool rcmi_endpoint_copies(const struct rcmi_endpoint *endpoint);
/* What is still to come from the peer. */
enum rcmi_rest rcmi_endpoint_rest(const struct rcmi_endpoint *endpoint);
/* Withdraws what is posted in the channel for receives that have no message yet. */
void rcmi_endpoint_withdraw(struct rcmi_endpoint *endpoint);
/* Completes all begun transfers with status, and closes the channels: memory is no longer
 * touched. Its operations are quiet or given up; given-up ones keep the memory and channels that
 * they use. */
void rcmi_endpoint_cancel(struct rcmi_endpoint *endpoint, rcm_status status);
/* Calls visit on every transfer until it returns false; false then. */
bool rcmi_endpoint_each(struct rcmi_endpoint *endpoint,
                        bool (*visit)(void *arg, struct rcmi_transfer *transfer), void *arg);

/*
 * The fast path, for a rank without transfers in progress: a small message at once, without a
 * transfer. The messages are the same, so each end may use either path.
 */
/* RCM_OK: sent. RCM_AGAIN: nothing was done. */
rcm_status rcmi_endpoint_send_now(struct rcmi_endpoint *endpoint, uint64_t tag, uint8_t dtype,
                                  const struct rcmi_mem *mem);
/* Looks once. RCM_OK: received, with tag, type and length in *ret_message, which may be NULL.
 * RCM_PENDING: nothing has arrived. RCM_AGAIN: nothing was done, the message is of another kind or
 * type. tag: of the message, or RCM_ANY_TAG. */
rcm_status rcmi_endpoint_receive_now(struct rcmi_endpoint *endpoint, uint64_t tag, uint8_t dtype,
                                     const struct rcmi_mem *mem, struct rcm_message *ret_message);
/* Whether a message of peer arrives without any action of this rank. */
bool rcmi_endpoint_shares_memory(const struct rcmi_endpoint *endpoint);

#endif
