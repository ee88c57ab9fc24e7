/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Channels between ranks: how their ends open, fail and close, and the memory that transports know.
 * The data operations are the transports'.
 */
#ifndef RCMI_CHANNEL_H
#define RCMI_CHANNEL_H

#include "../link/link.h"
#include "../node.h"

#define RCMI_PENDING_MAX 4096 /* channels a peer may open ahead of us */
#define RCMI_PENDING_FDS 4    /* ... and times max_unidentified the descriptors of all those */

/* One reader of a channel; in a list of all at the link to that rank (of a reader end: the writer's
 * rank), for a node may have as many channels as there are ranks. */
struct rcmi_reader {
    struct rcmi_channel_end *end;
    struct rcmi_reader *next, **at; /* at: what points to it; NULL: not in the list */
    int rank;
    bool acked, closed;
};

/* The framework's part of a channel end. */
struct rcmi_channel_end {
    struct rcmi_channel_end *next, *prev;
    struct rcmi_channel *channel;
    uint32_t serial;    /* the writer's number for this incarnation, 0 before it is known */
    bool inited;        /* the transport's init was called */
    bool offered;       /* the peers know of this end by its serial */
    bool closing;       /* writer: closed here, waits for the readers' CLOSE */
    size_t slot_memory; /* counted at the node */
    struct rcmi_error why;
    _Atomic bool was_ready; /* relaxed: read after the channel's state */
    int nreaders;
    int nup;                 /* writer: the links to so many, from the first on, have come up */
    int nplanes;             /* of so many, the plane of the channel's kind is decided on */
    enum rcmi_mem_kind kind; /* the planes that carry it, as far as that is known */
    int nacked, nclosed;
    struct rcmi_reader readers[]; /* of a reader end: one, the writer */
};

/* ---- end_state.c, opening.c, channel.c
 * -------------------------------------------------------------------- */

/* Of each node: link_above. */
extern const struct rcmi_link_above rcmi_channels_for_links;
/* See struct rcmi_link_above. */
rcm_status rcmi_channel_on_open(struct rcmi_link *link, const uint8_t *body, size_t len,
                                struct rcmi_blob *blob);
rcm_status rcmi_channel_on_ack(struct rcmi_link *link, const uint8_t *body, size_t len,
                               struct rcmi_blob *blob);
rcm_status rcmi_channel_on_close(struct rcmi_link *link, const uint8_t *body, size_t len);
void rcmi_channels_link_up(struct rcmi_link *link);
void rcmi_channels_link_down(struct rcmi_link *link);
void rcmi_channels_free(struct rcmi_node *node);

/* opening.c: between rcmi_channel_open_* and ready. */
void rcmi_opening_offer(struct rcmi_channel_end *end);
/* Gives a newly opened reader end the pending OPEN that waits for it, if any. */
void rcmi_opening_match(struct rcmi_channel_end *end);
bool rcmi_opening_is_pending(const struct rcmi_link *link, uint64_t epoch, uint32_t id);
/* The writer closed a channel that we never opened; false if there is none with this serial. */
bool rcmi_opening_withdraw(struct rcmi_link *link, uint32_t serial);
void rcmi_opening_forget(struct rcmi_link *link);

/* The open end of that name that is shared with the link's peer; NULL. */
struct rcmi_channel_end *rcmi_end_named(const struct rcmi_link *link, uint64_t epoch, uint32_t id,
                                        bool is_writer);
/* The link's peer as a reader of the offered writer end with that serial number; NULL. */
struct rcmi_reader *rcmi_reader_of(const struct rcmi_link *link, uint32_t serial);
static inline struct rcmi_channel_end *rcmi_end_of(const struct rcmi_channel *channel) {
    return channel->framework;
}
/* The channel fails for the reason in why. */
void rcmi_end_fail(struct rcmi_channel_end *end, const struct rcmi_error *why);
void rcmi_end_ready(struct rcmi_channel_end *end);

/* ---- allocation.c, registration.c ------------------------------------------------------------ */

/* Memory that the node handed out (a block), or that its user registered, and what each row
 * remembers of it. */
struct rcmi_registration {
    struct rcmi_mem mem;
    bool is_block;
    bool stays;                       /* a process that has ended may still read it */
    const struct rcmi_domain *domain; /* of a block: that made it; NULL: plain, or a device's */
    struct rcmi_device *device;       /* of a block: whose it is; NULL: it is host memory */
    uint32_t uses;                    /* of the user's own: calls that registered it */
    uint64_t identity;                /* of the memory when it was registered, see identity_get */
    int ndomains;                     /* that have heard of it */
    struct {
        const struct rcmi_domain *domain;
        void *own;
    } rows[RCMI_TRANSPORTS_MAX + 1];
};

/* Frees what is left, and registrations, before the domains go. */
void rcmi_memory_end(struct rcmi_node *node);
/* All rows hear of it, or of its end: peers are waited for until the deadline, no longer than
 * RINGCOMM_PEER_TIMEOUT. */
rcm_status rcmi_registration_begin(struct rcmi_node *node, struct rcmi_registration *registration);
void rcmi_registration_end(struct rcmi_node *node, struct rcmi_registration *registration,
                           rcmi_deadline deadline);
/* From now on buffers are found in it. */
rcm_status rcmi_registration_add(struct rcmi_node *node, struct rcmi_registration *registration);
/* Takes the block that starts at memory, or any registration, out of the table; NULL: there is
 * none. */
struct rcmi_registration *rcmi_registration_take_block(struct rcmi_node *node, const void *memory);
struct rcmi_registration *rcmi_registration_take_any(struct rcmi_node *node);

/* ---- device_memory.c ------------------------------------------------------------------------- */
/* RCM_ERR_TIMEOUT: the driver has not come back by the deadline. What it brings then is given back,
 * and what it was to take back is so. Another error: nothing was done. */
rcm_status rcmi_device_memory_take(struct rcmi_device *device, size_t bytes, rcmi_deadline deadline,
                                   void **ret_memory);
rcm_status rcmi_device_memory_give(struct rcmi_device *device, void *memory,
                                   rcmi_deadline deadline);

#endif
