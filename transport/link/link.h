/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Links: one per peer, with a control stream and data planes, from the first need to the end.
 */
#ifndef RCMI_LINK_H
#define RCMI_LINK_H

#include "../net/net.h"
#include "../node.h"

#define RCMI_MESSAGE_MAX 4096
#define RCMI_QUEUE_MAX                                                                             \
    ((size_t)16 << 20) /* bytes of a control stream that a peer leaves unread                      \
                        */
#define RCMI_DATA_RETRIES 30
#define RCMI_FAILED_MAX   400 /* likewise */

/* A frame on its way out, or to ourselves. */
struct rcmi_frame {
    struct rcmi_frame *next;
    int peer;      /* in the outbox: the receiver, -1 those of `to` that are linked */
    const int *to; /* behind the bytes; NULL: all */
    int nto;
    size_t len, done;
    int fds[RCMI_FDS_MAX]; /* borrowed from the transport's domain */
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
    RCMI_FRAME_BEAT,    /* says nothing: its acknowledgement is what counts */
    RCMI_FRAME_BYE_ACK, /* the BYE was read */
    RCMI_FRAME_READY,   /* this and the next one: see setup.c */
    RCMI_FRAME_DECLINE, /* a sentence */
    RCMI_FRAME_FAILED,  /* the sender has ended the link, and a sentence says why */
};

/* What a control stream begins each frame with. */
struct rcmi_frame_header {
    uint32_t len; /* of the body */
    uint16_t type;
    uint8_t nfds;
    uint8_t plane; /* OFFER, READY, DECLINE: of which it is; else 0 */
};
_Static_assert(sizeof(struct rcmi_frame_header) == 8, "no padding on the wire");

/* What link/ calls of the channels, on the loop thread: for_links.c has the table. */
struct rcmi_link_above {
    /* Frames. An error (thread's) loses the link. */
    rcm_status (*on_open)(struct rcmi_link *link, const uint8_t *body, size_t len,
                          struct rcmi_blob *blob);
    rcm_status (*on_ack)(struct rcmi_link *link, const uint8_t *body, size_t len,
                         struct rcmi_blob *blob);
    rcm_status (*on_close)(struct rcmi_link *link, const uint8_t *body, size_t len);
    /* The link is up, or another of its planes is up or declined: offers what waited for that. */
    void (*link_up)(struct rcmi_link *link);
    /* Fails the channels of a link that is down, and forgets the pending ones. */
    void (*link_down)(struct rcmi_link *link);
    /* The link is freed: forgets the pending ones. */
    void (*forget)(struct rcmi_link *link);
};

/* Of each node: net_above. */
extern const struct rcmi_net_above rcmi_links_for_net;

/* ---- facts.c --------------------------------------------------------------------------------- */

void rcmi_link_set(struct rcmi_link *link, enum rcmi_link_state state);
/* Nothing is to be said or heard any more. */
bool rcmi_link_settled(const struct rcmi_link *link);
/* Something changed that rcmi_node_farewell may wait for. */
void rcmi_node_check_settled(struct rcmi_node *node);

/* ---- broken.c -------------------------------------------------------------------------------- */

/* The loop has found that it is broken. Loop thread, from the tick. */
void rcmi_node_break(struct rcmi_node *node);

/* ---- link.c, lose.c, bye.c, report.c, failed.c, connected.c
 * ---------------------------------------------------------------------------------- */

/* The link, made; dialled if it is NONE. NULL: no memory. */
struct rcmi_link *rcmi_link_need(struct rcmi_node *node, int peer);
/* See struct rcmi_net_above. */
bool rcmi_link_is_peer(const struct rcmi_node *node, const struct rcmi_hello *hello);
void rcmi_link_judge(struct rcmi_node *node, const struct rcmi_hello *hello, bool same_host,
                     struct rcmi_reply *reply, struct rcmi_link **ret_link);
void rcmi_link_busy(struct rcmi_link *link);
void rcmi_link_conn_failed(struct rcmi_link *link, const struct rcmi_hello *hello, bool initiator,
                           bool ended);
/* The peer's farewell. */
void rcmi_link_bye(struct rcmi_link *link);
void rcmi_link_bye_acked(struct rcmi_link *link);
/* The control stream ended. */
void rcmi_link_eof(struct rcmi_link *link);
/* Loses the link for the reason in the thread's error. After the peer's farewell that is an end
 * like any other. */
void rcmi_link_lose(struct rcmi_link *link);
/* Why it was lost, without "rank 3 (pid 123 on h): ". */
const char *rcmi_link_reason(const struct rcmi_link *link);
/* Gives up what is not up yet; for the farewell. */
void rcmi_link_give_up(struct rcmi_link *link);
/* Answers the peer's farewell if nothing more is expected from it; false if that is to be tried
 * again. */
bool rcmi_link_answer_bye(struct rcmi_link *link);
/* Says farewell, once. */
void rcmi_link_say_bye(struct rcmi_link *link);
void rcmi_link_free(struct rcmi_link *link);
/* Calls peer_lost for what was lost since. True if there was any. */
bool rcmi_links_tell_lost(struct rcmi_node *node);
/* Loses links that transports gave up since. True if there was any. */
bool rcmi_links_take_failed(struct rcmi_node *node);
/* The peer's FAILED: it has lost the link. */
rcm_status rcmi_link_on_failed(struct rcmi_link *link, const uint8_t *text, size_t len);
/* What was reported by rcmi_node_link_failed so far is of a transport that has declined. */
void rcmi_link_forgive(struct rcmi_link *link);
/* Asks transports again whether links are ready of which they said so. True if there was any. */
bool rcmi_links_take_changed(struct rcmi_node *node);

/* ---- planes.c, plane.c
 * --------------------------------------------------------------------------------- */

/* Text for the log: "link", "device plane". */
const char *rcmi_plane_noun(const struct rcmi_plane *plane);
void rcmi_planes_init(struct rcmi_link *link);
/* Asks transports again whether planes are ready of which they said so. */
void rcmi_planes_check(struct rcmi_link *link);
/* link_flushed of all that are up; takes what came by them: false if nothing did. */
bool rcmi_planes_flushed(const struct rcmi_link *link);
bool rcmi_planes_progress(const struct rcmi_link *link);
/* The plane of device memory is needed here, as far as there can be one. Then, once it is up or
 * declined, link_up of the channels. */
void rcmi_plane_need(struct rcmi_link *link);
/* The link is up; this rank's device is open: what waited for that begins. True if any did. */
void rcmi_plane_link_up(struct rcmi_link *link);
bool rcmi_planes_take_device(struct rcmi_node *node);
/* The peer's offer, before this side has made one. */
void rcmi_plane_hold(struct rcmi_plane *plane, struct rcmi_blob *blob);
/* Begins what is needed, and can begin. */
bool rcmi_plane_look(struct rcmi_plane *plane);
void rcmi_plane_drop_offer(struct rcmi_plane *plane);
/* It is up, or declined. */
void rcmi_plane_decided(struct rcmi_plane *plane);
/* The link is over; it is freed. */
void rcmi_planes_down(struct rcmi_link *link);
void rcmi_planes_free(struct rcmi_link *link);
/* What the transport has of it ends. */
void rcmi_plane_free(struct rcmi_plane *plane);

/* ---- setup.c, up.c
 * --------------------------------------------------------------------------------- */

/* The domain serves the plane from now on, which is offered to the peer; that of the host's when
 * the control connection stands. */
void rcmi_setup_begin(struct rcmi_plane *plane, struct rcmi_domain *domain);
void rcmi_setup_offer(struct rcmi_plane *plane);
/* The peer's offer; false: the plane has failed. */
bool rcmi_setup_accept(struct rcmi_plane *plane, struct rcmi_blob *blob);
void rcmi_setup_say(struct rcmi_plane *plane, enum rcmi_frame_type type, const char *text);
/* A slot of the transport said so, with a sentence. */
void rcmi_setup_failed(struct rcmi_plane *plane, rcm_status status);
/* For the reason in the thread's error. */
void rcmi_setup_decline(struct rcmi_plane *plane);
rcm_status rcmi_setup_claim(struct rcmi_link *link, struct rcmi_domain *domain, bool initiator);
/* Up, if both sides are ready by now. */
void rcmi_setup_check(struct rcmi_plane *plane);
void rcmi_setup_up(struct rcmi_link *link);
/* The host plane fails for the reason in the thread's error. Before the link is up the peer may
 * have declined it, and closed what belongs to it, and that is heard in a moment: else it is lost.
 */
void rcmi_setup_fail(struct rcmi_link *link);
/* The link's transport was declined: dials by the next one. */
void rcmi_setup_next(struct rcmi_link *link);
/* Frames of the peer while the plane is in SETUP. An error (thread's) loses the link. */
rcm_status rcmi_setup_on_offer(struct rcmi_plane *plane, struct rcmi_blob *blob);
rcm_status rcmi_setup_on_ready(struct rcmi_plane *plane);
rcm_status rcmi_setup_on_decline(struct rcmi_plane *plane, const uint8_t *text, size_t len);

/* ---- frame.c, send.c, control.c
 * ------------------------------------------------------------------------------- */

/* A frame with len bytes of body, to be filled in by the caller at rcmi_frame_body. */
struct rcmi_frame *rcmi_frame_new(enum rcmi_frame_type type, size_t len);
/* With a copy of a list of peers, which does not travel. */
struct rcmi_frame *rcmi_frame_new_to(enum rcmi_frame_type type, size_t len, const int *to, int nto);
void *rcmi_frame_body(struct rcmi_frame *frame);
/* It is of the set-up of a plane of that kind; at first of the host's. */
void rcmi_frame_set_plane(struct rcmi_frame *frame, enum rcmi_mem_kind kind);
/* Text of a peer's, for people: what is not printable becomes '?'. There is room for len + 1. */
void rcmi_frame_sentence(const uint8_t *text, size_t len, char *ret_sentence);
void rcmi_frames_push(struct rcmi_frames *frames, struct rcmi_frame *frame);
struct rcmi_frame *rcmi_frames_pop(struct rcmi_frames *frames);
void rcmi_frames_clear(struct rcmi_frames *frames);

/* Sends the frame (NULL: there was no memory for it, which loses the link later), in order, once
 * the link is up. Takes the frame. A peer that leaves too much unread loses the link too: nothing
 * is left out in silence. */
void rcmi_control_send(struct rcmi_link *link, struct rcmi_frame *frame);
/* Sends a frame of the set-up, or a heartbeat, before all of those. */
void rcmi_control_send_first(struct rcmi_link *link, struct rcmi_frame *frame);
/* Begins to read link's control stream. */
rcm_status rcmi_control_start(struct rcmi_link *link);
/* Writes what can be. */
void rcmi_control_flush(struct rcmi_link *link);
/* Takes in what has arrived. */
void rcmi_control_drain(struct rcmi_link *link);
/* Watches for these events. What the link has to send asks for: */
rcm_status rcmi_control_watch(struct rcmi_link *link, uint32_t events);
uint32_t rcmi_control_events(struct rcmi_link *link);
/* Ends the stream; what waits for the link to be up stays. */
void rcmi_control_close(struct rcmi_link *link);
void rcmi_control_stop(struct rcmi_link *link);
/* Delivers frames that this node sent to itself. True if there was any. */
bool rcmi_control_loopback(struct rcmi_node *node);
/* Closes the descriptors that were not taken. */
void rcmi_blob_close(struct rcmi_blob *blob);

/* ---- silence.c ------------------------------------------------------------------------------- */

enum rcmi_silence_step {
    RCMI_SILENCE_WAIT,
    RCMI_SILENCE_PROBE, /* send something that it must acknowledge */
    RCMI_SILENCE_LOST,
};

/* One look at a link; heard: when its host was heard last; all times in ns. Then silence->look_at
 * is when to look again. */
enum rcmi_silence_step rcmi_silence_look(struct rcmi_silence *silence, int64_t now, int64_t heard,
                                         int64_t timeout);
/* Between looks. */
int64_t rcmi_silence_interval(int64_t timeout);

/* ---- heartbeat.c ----------------------------------------------------------------------------- */

/* The control stream stands: from now on the link is lost if its peer's host falls silent. */
void rcmi_heartbeat_start(struct rcmi_link *link);
void rcmi_heartbeat_stop(struct rcmi_node *node);
/* Another host, and packets of the control stream came lately. Loop thread. */
bool rcmi_link_is_heard(const struct rcmi_link *link);

/* ---- message.c, kept_frames.c */

/* Puts queued messages on their links. True if there was any. */
bool rcmi_outbox_flush(struct rcmi_node *node);
/* A copy of a message to all on this link; takes the message, to be kept. */
void rcmi_kept_send(struct rcmi_link *link, const struct rcmi_frame *frame);
void rcmi_kept_add(struct rcmi_node *node, struct rcmi_frame *frame);
/* Says on a link that came up what was said to all before. */
void rcmi_outbox_repeat(struct rcmi_link *link);
#define RCMI_SAID_MAX 512 /* messages to linked peers that are kept */

/* ---- sleep.c --------------------------------------------------------------------------------- */

rcm_status rcmi_node_sleep_init(struct rcmi_node *node);

#endif
