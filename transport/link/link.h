/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links: one per peer, with a control stream and data planes, from the first use to the end.
 */
#ifndef RCMI_LINK_H
#define RCMI_LINK_H

#include "../net/net.h"
#include "../node.h"

#define RCMI_MESSAGE_MAX  4096
#define RCMI_QUEUE_MAX    ((size_t)16 << 20) /* bytes queued for a peer that does not read */
#define RCMI_DATA_RETRIES 30
#define RCMI_FAILED_MAX   400 /* bytes of the reason in a FAILED frame */

/* An outgoing frame, or one to ourselves. */
struct rcmi_frame {
    struct rcmi_frame *next;
    int peer;      /* in the outbox: the receiver; -1: those of `to` that are linked */
    const int *to; /* stored behind the bytes; NULL: all peers */
    int nto;
    size_t len, done;
    int fds[RCMI_FDS_MAX]; /* owned by the transport's domain */
    int nfds;
    _Alignas(8) uint8_t bytes[]; /* header and body */
};

enum rcmi_frame_type {
    RCMI_FRAME_OFFER = 1,
    RCMI_FRAME_OPEN,
    RCMI_FRAME_ACK,
    RCMI_FRAME_CLOSE,
    RCMI_FRAME_MESSAGE,
    RCMI_FRAME_BYE,
    RCMI_FRAME_BEAT,    /* no content: only its acknowledgement counts */
    RCMI_FRAME_BYE_ACK, /* the BYE was read */
    RCMI_FRAME_READY,   /* see setup.c */
    RCMI_FRAME_DECLINE, /* with the reason; see setup.c */
    RCMI_FRAME_FAILED,  /* the sender has ended the link; with the reason */
};

/* The header of each frame on a control stream. */
struct rcmi_frame_header {
    uint32_t len; /* of the body */
    uint16_t type;
    uint8_t nfds;
    uint8_t plane; /* OFFER, READY, DECLINE: kind of the plane; else 0 */
};
_Static_assert(sizeof(struct rcmi_frame_header) == 8, "no padding on the wire");

/* Calls from link/ up into the channels, on the loop thread. The table is in
 * channel/link_callbacks.c. */
struct rcmi_link_above {
    /* Received frames. An error (thread's) loses the link. */
    rcm_status (*on_open)(struct rcmi_link *link, const uint8_t *body, size_t len,
                          struct rcmi_blob *blob);
    rcm_status (*on_ack)(struct rcmi_link *link, const uint8_t *body, size_t len,
                         struct rcmi_blob *blob);
    rcm_status (*on_close)(struct rcmi_link *link, const uint8_t *body, size_t len);
    /* The link came up, or another plane came up or was declined: offers channels that waited. */
    void (*link_up)(struct rcmi_link *link);
    /* Fails the channels of a link that is down, and drops its pending opens. */
    void (*link_down)(struct rcmi_link *link);
    /* The link is freed: drops its pending opens. */
    void (*forget)(struct rcmi_link *link);
};

/* net_above of each node. */
extern const struct rcmi_net_above rcmi_links_for_net;

/* ---- node_accessors.c ------------------------------------------------------------------------ */

void rcmi_link_set(struct rcmi_link *link, enum rcmi_link_state state);
/* No farewell of this link is outstanding: it needs none, or the exchange is complete. */
bool rcmi_link_settled(const struct rcmi_link *link);
/* Called after each change that rcmi_node_farewell may wait for. */
void rcmi_node_check_settled(struct rcmi_node *node);

/* ---- closed_descriptors.c -------------------------------------------------------------------- */

/* The loop has found that its descriptors were closed. Loop thread, from the tick. */
void rcmi_node_break(struct rcmi_node *node);

/* ---- link.c, link_end.c, link_farewell.c, backend_reports.c, plane_failure.c ----------------- */

/* Returns the link, and dials if it is NONE. NULL: no memory. */
struct rcmi_link *rcmi_link_need(struct rcmi_node *node, int peer);
/* See struct rcmi_net_above. */
bool rcmi_link_is_peer(const struct rcmi_node *node, const struct rcmi_hello *hello);
void rcmi_link_judge(struct rcmi_node *node, const struct rcmi_hello *hello, bool same_host,
                     struct rcmi_reply *reply, struct rcmi_link **ret_link);
void rcmi_link_busy(struct rcmi_link *link);
void rcmi_link_conn_failed(struct rcmi_link *link, const struct rcmi_hello *hello, bool initiator,
                           bool ended);
/* The peer's farewell arrived, or its acknowledgement of ours. */
void rcmi_link_bye(struct rcmi_link *link);
void rcmi_link_bye_acked(struct rcmi_link *link);
/* The control stream has ended. */
void rcmi_link_eof(struct rcmi_link *link);
/* Loses the link; the reason is the thread's error. After the peer's farewell the link becomes
 * ENDED instead. */
void rcmi_link_lose(struct rcmi_link *link);
/* The reason of the loss, without "rank 3 (pid 123 on h): ". */
const char *rcmi_link_reason(const struct rcmi_link *link);
/* Ends a link that is still being dialled; for the farewell. */
void rcmi_link_give_up(struct rcmi_link *link);
/* Answers the peer's farewell if nothing more is expected from the peer. False: try again later. */
bool rcmi_link_answer_bye(struct rcmi_link *link);
/* Sends the farewell, once. */
void rcmi_link_send_bye(struct rcmi_link *link);
void rcmi_link_free(struct rcmi_link *link);
/* Calls peer_lost for each newly lost link. True if there was one. */
bool rcmi_links_report_lost(struct rcmi_node *node);
/* Loses the links that backends have reported as failed. True if there was one. */
bool rcmi_links_take_failed(struct rcmi_node *node);
/* The peer sent FAILED: it has lost the link. */
rcm_status rcmi_link_on_failed(struct rcmi_link *link, const uint8_t *text, size_t len);
/* Discards failures reported so far: they belong to a transport that has declined. */
void rcmi_link_forgive(struct rcmi_link *link);
/* Calls link_ready again for links reported by rcmi_node_link_changed. True if there was one. */
bool rcmi_links_take_changed(struct rcmi_node *node);

/* ---- planes.c, device_plane.c ---------------------------------------------------------------- */

/* For log lines: "link" or "plane of device memory". */
const char *rcmi_plane_noun(const struct rcmi_plane *plane);
void rcmi_planes_init(struct rcmi_link *link);
/* Calls link_ready again for the planes of link. */
void rcmi_planes_check(struct rcmi_link *link);
/* Calls link_flushed of all planes that are up; true if all are flushed. _progress: moves data of
 * these planes; false if nothing moved. */
bool rcmi_planes_flushed(const struct rcmi_link *link);
bool rcmi_planes_progress(const struct rcmi_link *link);
/* A channel needs the device plane. link_up of the channels is called once it is up or declined. */
void rcmi_plane_need(struct rcmi_link *link);
/* The link came up, or this rank's device was opened: starts planes that waited for it. True if one
 * started. */
void rcmi_plane_link_up(struct rcmi_link *link);
bool rcmi_planes_take_device(struct rcmi_node *node);
/* Keeps the peer's offer until this side makes one. */
void rcmi_plane_hold(struct rcmi_plane *plane, struct rcmi_blob *blob);
/* Starts the plane if it is needed and can start. True if its state changed. */
bool rcmi_plane_look(struct rcmi_plane *plane);
void rcmi_plane_drop_offer(struct rcmi_plane *plane);
/* The plane is up, or declined. */
void rcmi_plane_decided(struct rcmi_plane *plane);
/* _down: the link is over. _free: the link is freed. */
void rcmi_planes_down(struct rcmi_link *link);
void rcmi_planes_free(struct rcmi_link *link);
/* Ends the transport's state of the plane. */
void rcmi_plane_free(struct rcmi_plane *plane);

/* ---- setup.c, link_up.c ---------------------------------------------------------------------- */

/* _begin: domain serves the plane from now on; makes the offer. The host plane is claimed by
 * rcmi_setup_claim and makes its offer when the control connection is established. */
void rcmi_setup_begin(struct rcmi_plane *plane, struct rcmi_domain *domain);
void rcmi_setup_offer(struct rcmi_plane *plane);
/* Processes the peer's offer. False: the plane has failed. */
bool rcmi_setup_accept(struct rcmi_plane *plane, struct rcmi_blob *blob);
void rcmi_setup_send(struct rcmi_plane *plane, enum rcmi_frame_type type, const char *text);
/* A function of the transport returned status, with the thread's error: declines the plane or loses
 * the link. */
void rcmi_setup_failed(struct rcmi_plane *plane, rcm_status status);
/* Declines the plane; the reason is the thread's error. */
void rcmi_setup_decline(struct rcmi_plane *plane);
rcm_status rcmi_setup_claim(struct rcmi_link *link, struct rcmi_domain *domain, bool initiator);
/* Brings the plane up if both sides are ready. */
void rcmi_setup_check(struct rcmi_plane *plane);
void rcmi_setup_up(struct rcmi_link *link);
/* The host plane failed; the reason is the thread's error. Before the link is up, the peer may have
 * declined and closed its sockets; its DECLINE then arrives shortly. If it does not, the link is
 * lost. */
void rcmi_setup_fail(struct rcmi_link *link);
/* The link's transport was declined: dials with the next one. */
void rcmi_setup_next(struct rcmi_link *link);
/* Set-up frames from the peer. An error (thread's) loses the link. */
rcm_status rcmi_setup_on_offer(struct rcmi_plane *plane, struct rcmi_blob *blob);
rcm_status rcmi_setup_on_ready(struct rcmi_plane *plane);
rcm_status rcmi_setup_on_decline(struct rcmi_plane *plane, const uint8_t *text, size_t len);

/* ---- frame.c, control_send.c, control.c ------------------------------------------------------ */

/* A frame with len bytes of body, which the caller writes to rcmi_frame_body. */
struct rcmi_frame *rcmi_frame_new(enum rcmi_frame_type type, size_t len);
/* The same with a copy of a list of peers, which is not sent. */
struct rcmi_frame *rcmi_frame_new_to(enum rcmi_frame_type type, size_t len, const int *to, int nto);
void *rcmi_frame_body(struct rcmi_frame *frame);
/* Marks a set-up frame as belonging to the plane of that kind. Default: the host plane. */
void rcmi_frame_set_plane(struct rcmi_frame *frame, enum rcmi_mem_kind kind);
/* Copies a peer's text and replaces unprintable bytes with '?'. ret_sentence has room for len + 1.
 */
void rcmi_frame_sentence(const uint8_t *text, size_t len, char *ret_sentence);
void rcmi_frames_push(struct rcmi_frames *frames, struct rcmi_frame *frame);
struct rcmi_frame *rcmi_frames_pop(struct rcmi_frames *frames);
void rcmi_frames_clear(struct rcmi_frames *frames);

/* Queues the frame, in order; it is sent once the link is up. Takes ownership. NULL (out of memory)
 * loses the link later. So does a peer that leaves more than RCMI_QUEUE_MAX unread: no frame is
 * dropped silently. */
void rcmi_control_send(struct rcmi_link *link, struct rcmi_frame *frame);
/* Sends a set-up frame or heartbeat before all of those. */
void rcmi_control_send_first(struct rcmi_link *link, struct rcmi_frame *frame);
/* Starts reading link's control stream. */
rcm_status rcmi_control_start(struct rcmi_link *link);
/* Writes as much as the socket accepts. */
void rcmi_control_flush(struct rcmi_link *link);
/* Reads and handles what has arrived. */
void rcmi_control_drain(struct rcmi_link *link);
/* Watches for events. rcmi_control_events returns those that the link's queues require. */
rcm_status rcmi_control_watch(struct rcmi_link *link, uint32_t events);
uint32_t rcmi_control_events(struct rcmi_link *link);
/* Closes the stream; frames that wait for the link to be up are kept. _stop drops these too. */
void rcmi_control_close(struct rcmi_link *link);
void rcmi_control_stop(struct rcmi_link *link);
/* Delivers frames that this node sent to itself. True if there was one. */
bool rcmi_control_loopback(struct rcmi_node *node);
/* Closes the descriptors that nobody took. */
void rcmi_blob_close(struct rcmi_blob *blob);

/* ---- silence.c ------------------------------------------------------------------------------- */

enum rcmi_silence_step {
    RCMI_SILENCE_WAIT,
    RCMI_SILENCE_PROBE, /* send something that the peer must acknowledge */
    RCMI_SILENCE_LOST,
};

/* Decides for one link; received: when its host last sent a packet. All times in ns. Sets
 * silence->look_at to the time of the next call. */
enum rcmi_silence_step rcmi_silence_look(struct rcmi_silence *silence, int64_t now,
                                         int64_t received, int64_t timeout);
/* Interval between calls, in ns. */
int64_t rcmi_silence_interval(int64_t timeout);

/* ---- heartbeat.c ----------------------------------------------------------------------------- */

/* The control stream is established: from now on the link is lost if the peer's host is silent. */
void rcmi_heartbeat_start(struct rcmi_link *link);
void rcmi_heartbeat_stop(struct rcmi_node *node);
/* The peer is on another host that sent packets on the control stream recently. Loop thread. */
bool rcmi_link_is_alive(const struct rcmi_link *link);

/* ---- outbox.c, kept_frames.c ----------------------------------------------------------------- */

/* Moves queued messages to their links. True if there was one. */
bool rcmi_outbox_flush(struct rcmi_node *node);
/* Sends a copy of a broadcast message on this link. _add: takes ownership and keeps it. */
void rcmi_kept_send(struct rcmi_link *link, const struct rcmi_frame *frame);
void rcmi_kept_add(struct rcmi_node *node, struct rcmi_frame *frame);
/* Sends the kept messages on a link that came up. */
void rcmi_outbox_repeat(struct rcmi_link *link);
#define RCMI_KEPT_MAX 512 /* broadcast messages that are kept; the oldest is dropped */

/* ---- sleep.c --------------------------------------------------------------------------------- */

rcm_status rcmi_node_sleep_init(struct rcmi_node *node);

#endif
