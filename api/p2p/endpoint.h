/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * endpoint.h: messages of any length between this rank and one peer, over a pair of channels.
 *
 *   sender                                       receiver
 *   small:  EAGER(tag, total, bytes)       -->   matched: copied to the buffer; else kept aside
 *           BARE(tag; bytes)               -->   the same without a header: its tag is its id
 *   large:  RTS(id, tag, total)            -->   matched: buffer found; else noted
 *                                          <--   CTS(id)
 *           DATA(id, bytes) ... DATA(id)   -->   into the buffer
 *                                          <--   CREDIT(bytes): so many eager bytes were taken
 *   large within a machine, or of no bytes:
 *           RTS(id, tag, total, from)      -->   matched: copied from there (endpoint_get.c)
 *                                          <--   ACK(id)
 *   large, in device memory at both ends, within a machine:
 *           RTS(id, tag, total, device)    -->   matched: memory of a device found
 *                                          <--   DEVICE_CTS(id)
 *           DATA(id) ... DATA(id)          -->   by a channel of device memory (flow.h)
 *
 * EAGER, BARE and RTS go out in the order of the sends, so matching is in order per tag.
 * Everything that arrives can be taken at once: data only come for messages that have a buffer, and
 * what is kept aside is bounded. Of a peer it is a budget of eager bytes (beyond it, small messages
 * go by rendezvous too), and a number of RTS that were not answered (beyond it, sends wait for
 * answers in their sender). The receiver counts too: more is an error. The kind and the id travel
 * in the slot's meta word, so DATA slots hold nothing but data and can be received straight into
 * place. Data go out in the order of CTS, one message after the other, but a message that waits for
 * its stream (endpoint_copy.c) is overtaken; the pieces of each come in order.
 *
 * Which message goes which way is said by constants (protocol.h, endpoint_internal.h).
 *
 * Not here: which receive a message belongs to, and messages that came before their receive: that
 * is the matching above (api/p2p), which hands in the functions of struct rcmi_messaging. Nothing
 * here locks: one thread at a time uses the endpoints of one struct rcmi_messaging.
 */
#ifndef RCMI_ENDPOINT_H
#define RCMI_ENDPOINT_H

#include "flow.h"

/* A message that came, as far as it came. */
struct rcmi_arrival {
    int peer;
    uint64_t tag;
    size_t total;
    bool rendezvous;   /* its bytes are still to come */
    uint32_t id;       /* then, and where they lie: */
    uint64_t from;     /* see struct rcmi_transfer */
    bool device;       /* they can come by the channel of device memory */
    const char *bytes; /* else */
};

/* What the endpoints of one communicator share. */
struct rcmi_messaging {
    /* The channel of messages to peer, or from it: of all, or of data between memory of devices.
     * The function that closes one takes NULL. */
    void *open_arg;
    rcm_status (*open)(void *open_arg, int peer, enum rcmi_mem_kind kind, bool writer,
                       struct rcmi_channel **ret_channel);
    void (*close)(struct rcmi_channel *channel);
    void *arg; /* of the next three */
    /* Takes the receive that a message of peer belongs to; NULL: there is none yet. */
    struct rcmi_transfer *(*match)(void *arg, int peer, uint64_t tag);
    /* Keeps such a message for rcmi_endpoint_receive. Its bytes are copied. */
    rcm_status (*keep)(void *arg, const struct rcmi_arrival *arrival);
    /* The receive that the next message of any peer belongs to, most likely, if it is peer's; else
     * NULL. */
    const struct rcmi_transfer *(*next)(void *arg, int peer);
    /* RCM_OK, RCM_ERR_TRUNCATED: a message longer than its receive; or what rcmi_endpoint_cancel
     * said. The transfer is its owner's again. */
    void (*completed)(struct rcmi_transfer *transfer, rcm_status status);

    void (*wake)(void *wake_arg); /* a copy that finishes later has; any thread */
    void *wake_arg;
    struct rcmi_device *const *device;  /* of the rank, once it has one */
    int rank;                           /* this one, for texts */
    struct rcmi_operations *operations; /* all copies that finish later */
    const struct rcmi_protocol *protocol;
    bool oversubscribed;
    size_t budget;   /* eager bytes of a peer that were not taken; the same on all ranks */
    size_t rts_max;  /* RTS of a peer that were not answered; likewise */
    size_t bare_min; /* smaller eager messages are cheaper to copy */
    size_t zero_copy_min;
    size_t piece_min; /* see RCMI_PIECES */
};
/* Those that the protocol and nranks, the number of ranks that send each other messages, say; the
 * functions are to be filled in. */
void rcmi_messaging_init(struct rcmi_messaging *messaging, const struct rcmi_protocol *protocol,
                         bool oversubscribed, size_t nranks);

/* Copies that wait for a stream touch no memory any more. */
void rcmi_messaging_give_up(const struct rcmi_messaging *messaging);
/* Does no copy that finishes later touch memory? Then, before its operations are freed. */
bool rcmi_messaging_is_quiet(const struct rcmi_messaging *messaging);
void rcmi_messaging_settle(const struct rcmi_messaging *messaging);

struct rcmi_endpoint {
    const struct rcmi_messaging *messaging;
    int peer;
    union {
        struct rcmi_flow flows[RCMI_MEM_KINDS]; /* by kind of memory */
        struct rcmi_flow main; /* of host memory, by whose channels all else goes */
    };
    struct rcmi_transfers outgoing; /* not yet issued, in order */
    struct rcmi_keyed announced;    /* RTS sent, by id */
    struct rcmi_transfers waiting;  /* their data may flow once t->after has ended: sends whose CTS
                                       came, receives whose CTS is not owed before */
    struct rcmi_transfers getting;  /* got from the peer's memory, one after the other */
    struct rcmi_transfers copying;  /* receives whose messages were kept, out of that memory */
    size_t rts_kept;                /* RTS of the peer that wait for their receive */
    uint32_t next_id;
    size_t eager_out; /* eager bytes sent for which no credit came back */
    size_t eager_in;  /* eager bytes taken for which no credit was given */
    size_t eager_due; /* eager bytes arrived for which no credit was given: the peer's eager_out, or
                         less */
    bool ungettable;  /* the peer's memory, by now it is known */
    bool posted;      /* a receive, with the channel */
    bool left;        /* the peer has, before the channel from it carried anything: that is no error
                         of itself, but of what waits for a message from there */
};

/* peer: its rank in the communicator, for the functions of messaging and for texts. */
void rcmi_endpoint_init(struct rcmi_endpoint *endpoint, const struct rcmi_messaging *messaging,
                        int peer);
/* Closes the channels. Transfers must be complete, see _cancel. */
void rcmi_endpoint_fini(struct rcmi_endpoint *endpoint);
/* The channel from peer, so that its messages, and its death, are noticed. */
rcm_status rcmi_endpoint_open(struct rcmi_endpoint *endpoint);

/* transfer's peer, tag, mem, total and synchronous are set, all else is 0. Messages of one tag
 * arrive in this order. */
rcm_status rcmi_endpoint_send(struct rcmi_endpoint *endpoint, struct rcmi_transfer *transfer);
/* The message of a receive, which was kept in memory, malloc'd, that is freed when it was taken. */
rcm_status rcmi_endpoint_receive(struct rcmi_endpoint *endpoint, struct rcmi_transfer *transfer,
                                 const struct rcmi_arrival *arrival, void *memory);
/* Takes what came, and sends what can be sent. *moved: something was. */
rcm_status rcmi_endpoint_progress(struct rcmi_endpoint *endpoint, bool *moved);
/* Is a copy of its under way? It may come after a stream, and what follows it waits for no peer. */
bool rcmi_endpoint_copies(const struct rcmi_endpoint *endpoint);
/* Takes back what the channel was told of receives that have no message yet. */
void rcmi_endpoint_withdraw(struct rcmi_endpoint *endpoint);
/* Completes all transfers that began with status, and closes the channels: memory is touched no
 * more. Its operations are quiet, or are given up: then they keep what they use, channels too. */
void rcmi_endpoint_cancel(struct rcmi_endpoint *endpoint, rcm_status status);
/* Calls visit on every transfer that it has until that returns false; false then. */
bool rcmi_endpoint_each(struct rcmi_endpoint *endpoint,
                        bool (*visit)(void *arg, struct rcmi_transfer *transfer), void *arg);

/*
 * The short way, for a rank that has no transfers under way: a small message at once and without a
 * transfer. The messages are the same, so either end may go either way.
 */
/* RCM_OK: sent. RCM_AGAIN: nothing was done. */
rcm_status rcmi_endpoint_send_now(struct rcmi_endpoint *endpoint, uint64_t tag,
                                  const struct rcmi_mem *mem);
/* One look. RCM_OK: received, with its tag and length; RCM_PENDING: nothing is there yet;
 * RCM_AGAIN: nothing was done, it is not of this kind. *tag: of the message, or RCM_ANY_TAG. */
rcm_status rcmi_endpoint_receive_now(struct rcmi_endpoint *endpoint, uint64_t *tag,
                                     const struct rcmi_mem *mem, size_t *ret_total);
/* Does a message of peer come without this rank's doing anything for it? */
bool rcmi_endpoint_shares_memory(const struct rcmi_endpoint *endpoint);

#endif
