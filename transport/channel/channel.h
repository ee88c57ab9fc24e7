/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Channels between ranks: how their ends open, fail and close, and registered memory. The data
 * operations are the backends'.
 */
#ifndef RCMI_CHANNEL_H
#define RCMI_CHANNEL_H

#include "../link/link.h"
#include "../node.h"

#define RCMI_PENDING_MAX 4096 /* channels that a peer may open before us */
#define RCMI_PENDING_FDS 4    /* times max_unidentified: descriptors of all pending channels */

/* One reader of a channel. It is in the list of the link to that rank (for a reader end: the
 * writer's rank), because a node may have as many channels as there are ranks. */
struct rcmi_reader {
    struct rcmi_channel_end *end;
    struct rcmi_reader *next, **at; /* at: the pointer to it; NULL: not in the list */
    int rank;
    bool acked, closed;
};

#define RCMI_STILL_OPEN UINT64_MAX

/* The framework's part of a channel end. */
struct rcmi_channel_end {
    struct rcmi_channel_end *next, *prev;
    struct rcmi_channel *channel;
    uint32_t serial;    /* the writer's number for this open; 0: unknown yet */
    bool inited;        /* the backend's init was called */
    bool offered;       /* the peers have this end's serial number */
    bool closing;       /* writer: closed here, waits for the readers' CLOSE */
    size_t slot_memory; /* counted in node->slot_memory */
    /* Reader: number of messages that the writer committed before it closed; RCMI_STILL_OPEN: it
     * has not. The release store on the loop thread pairs with the acquire load of the reader. */
    _Atomic uint64_t last;
    struct rcmi_error why;
    _Atomic bool was_ready; /* relaxed: read after the channel's state */
    int nreaders;
    int nup;                 /* writer: the first nup readers' links have come up */
    int nplanes;             /* writer: likewise, the plane of its kind is up or declined */
    enum rcmi_mem_kind kind; /* of the planes that carry it, as far as decided */
    int nacked, nclosed;
    struct rcmi_reader readers[]; /* on a reader end: one, the writer */
};

/* ---- end_state.c, opening.c, channel.c ------------------------------------------------------- */

/* link_above of each node. */
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

/* opening.c: from rcmi_channel_open_* to ready. */
void rcmi_opening_offer(struct rcmi_channel_end *end);
/* Matches a newly opened reader end with its pending OPEN, if there is one. */
void rcmi_opening_match(struct rcmi_channel_end *end);
bool rcmi_opening_is_pending(const struct rcmi_link *link, uint64_t epoch, uint32_t id);
/* The writer closed a channel that is not open here: drops its pending OPEN. False: none has this
 * serial. */
bool rcmi_opening_withdraw(struct rcmi_link *link, uint32_t serial);
void rcmi_opening_forget(struct rcmi_link *link);

/* The open end of that name shared with the link's peer; NULL. */
struct rcmi_channel_end *rcmi_end_named(const struct rcmi_link *link, uint64_t epoch, uint32_t id,
                                        bool is_writer);
/* The reader end, open here, of the peer's writer with that serial number; NULL. */
struct rcmi_channel_end *rcmi_end_read(const struct rcmi_link *link, uint32_t serial);
/* The link's peer as a reader of the offered writer end with that serial number; NULL. */
struct rcmi_reader *rcmi_reader_of(const struct rcmi_link *link, uint32_t serial);
static inline struct rcmi_channel_end *rcmi_end_of(const struct rcmi_channel *channel) {
    return channel->framework;
}
/* Fails the channel with the reason in why. */
void rcmi_end_fail(struct rcmi_channel_end *end, const struct rcmi_error *why);
void rcmi_end_ready(struct rcmi_channel_end *end);

/* ---- allocation.c, registration.c ------------------------------------------------------------ */

/* Memory that the node allocated (a block) or that its user registered, with the state of each
 * backend for it. */
struct rcmi_registration {
    struct rcmi_mem mem;
    bool is_block;
    bool stays;                       /* a process that has ended may still read it */
    const struct rcmi_domain *domain; /* block: its backend's; NULL: plain or device memory */
    struct rcmi_device *device;       /* block: its device; NULL: host memory */
    uint32_t uses;                    /* user's memory: number of registrations */
    uint64_t identity;                /* of the memory when it was registered, see identity_get */
    int ndomains;                     /* length of backends */
    struct {
        const struct rcmi_domain *domain;
        void *own;
    } backends[RCMI_TRANSPORTS_MAX + 1];
};

/* Frees all blocks and registrations that are left, before the domains end. */
void rcmi_memory_end(struct rcmi_node *node);
/* Registers the memory with all backends, or ends that. _end waits for peers until the deadline, at
 * most RINGCOMM_PEER_TIMEOUT. */
rcm_status rcmi_registration_begin(struct rcmi_node *node, struct rcmi_registration *registration);
void rcmi_registration_end(struct rcmi_node *node, struct rcmi_registration *registration,
                           rcmi_deadline deadline);
/* Adds the registration to the table, so that buffers in it are found. */
rcm_status rcmi_registration_add(struct rcmi_node *node, struct rcmi_registration *registration);
/* Removes the block that starts at memory, or any registration, from the table; NULL: none. */
struct rcmi_registration *rcmi_registration_take_block(struct rcmi_node *node, const void *memory);
struct rcmi_registration *rcmi_registration_take_any(struct rcmi_node *node);

/* ---- device_memory.c ------------------------------------------------------------------------- */
/* RCM_ERR_TIMEOUT: the driver has not returned by the deadline. Memory allocated later is freed
 * again; memory to be freed is freed later. Other errors: nothing was done. */
rcm_status rcmi_device_memory_take(struct rcmi_device *device, size_t bytes, rcmi_deadline deadline,
                                   void **ret_memory);
rcm_status rcmi_device_memory_give(struct rcmi_device *device, void *memory,
                                   rcmi_deadline deadline);

#endif
