/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport/: moves messages between the processes of a job.
 *
 *      rank 0                                                 rank 1
 *      node: loop thread, doorbell,                           node
 *       |    listening sockets                                 |
 *       '-- link to 1 ======= control stream, always ======== link to 0
 *             |               a stream socket, framework        |
 *             |                                                 |
 *             |-- channel, writer ----- slots, credits -----> channel, reader
 *             '-- channel, reader <---- slots, credits ------ channel, writer
 *                   the host plane: shm, verbs, tcp or self; the device plane, if any
 *
 * Not here: collectives and plans (algorithms/); communicators, which are only a number here
 * (epoch); matching of messages and receives (api/p2p); the exchange of addresses (rendezvous/):
 * the node receives a look-up function for them.
 *
 * Objects:
 *   node      this rank's end of everything: its loop thread (the engine), listening sockets,
 *             doorbell and links. One per rank; several per process if ranks are threads. A peer is
 *             identified by its world rank.
 *   link      the connection to one peer: a *control stream* (a stream socket, Unix on the same
 *             host, TCP otherwise), which the loop thread always reads, and data planes. The host
 *             plane carries host memory by one transport. The device plane carries device memory;
 *             it is made when first needed, if a transport serves it (device_plane.c). The loop
 *             thread makes links on demand and authenticates them; all communicators of the pair
 *             share one. The end of a link without a farewell means that the peer died. So does
 *             silence of the peer's host for RINGCOMM_PEER_TIMEOUT (heartbeat.c), but not of a
 *             process that is merely stopped.
 *   channel   a FIFO from one writer to one or more readers, with its own slots and credits:
 *             messages that one channel leaves unread never block another channel.
 *
 * Part 1 is the interface for the layers above (the executor, point to point). Part 2 is the
 * function table of a transport ("backend"), and what the framework (node.c, link/, channel/) does
 * around it. What a backend may use of the framework is in backend.h.
 *
 * Why channels have reserve/commit and peek/release instead of post_send: a step writes its result
 * directly into the slot that is sent, and reads its source where it arrived. Hence shared memory
 * needs no copy besides the reduction itself. A socket reads directly into posted memory and sends
 * directly from the user's.
 *
 * Paths of a payload from the writer's to the reader's memory. Gains over a slot, where measured,
 * are in us with 2 ranks (algorithms/PERFORMANCE.md). Thresholds by size and CPU: protocol.h.
 *
 *   path            backends   sizes            saves
 *   slot            all        up to a slot     nothing; always works
 *   header          shm, self  to RCMI_TINY     all cache lines but one (8 B 0.60 to 0.42)
 *   zero-copy send  tcp        from 2 KiB       the writer's copy
 *   posted receive  tcp        from 2 KiB       the reader's copy (both: 1 MiB chain 788 to 564)
 *   the same two    verbs      from 2 KiB       both copies, registered memory; no hardware ran it
 *   zero-copy send  cuda_ipc   any              a copy, registered memory; no GPU ran it
 *   mapped send     shm, self  from 2 KiB       the writer's copy, source in rcm_mem_alloc memory
 *   put             shm        from 2 KiB       the reader's copy, target in rcm_mem_alloc memory
 *                                               (both: 1 MiB all_reduce 43 to 26)
 *   get             shm        protocol.get     one copy: the kernel reads the writer's memory
 *                                               (64 KiB message 14 to 7.5)
 *   get with help   shm        get, 32 KiB up   the same, copied by both ends (1 MiB 96 to 58)
 *   answer          shm        over RCMI_TINY   a slot: the reader stores its result in the slot of
 *                                               the message, rcmi_slot.reply (64 KiB 10.5 to 3.3)
 */
#ifndef RCMI_TRANSPORT_H
#define RCMI_TRANSPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ringcomm.h"
#include "clock.h"
#include "error.h"
#include "fd.h"
#include "kernels.h"
#include "loop.h"
#include "mem.h"
#include "mem_kind.h"
#include "process.h"
#include "protocol.h"
#include "traffic.h"
#include "wait.h"

/* ==== Part 1: for the layers above =========================================================== */

struct rcmi_node;
struct rcmi_channel;
struct rcmi_transport;

#define RCMI_HOST_ID_MAX 200 /* bytes, without the NUL */

struct rcmi_node_config {
    int rank, nranks;       /* world rank and size */
    uint64_t job;           /* the same on all ranks; a hello of another job is refused */
    const char *host_id;    /* ranks with equal host_id may use same-host transports */
    const char *transports; /* "auto" or a comma-separated list of names, preferred ones first */
    const char *secret;     /* NULL: none */
    const char *iface; /* RINGCOMM_IFACE: interfaces or addresses to listen on; "": automatic */
    struct rcmi_sockaddr store; /* address of the store's server; len 0: unknown */
    const char *ports;          /* RINGCOMM_PORTS: "low-high"; "": any */
    size_t slot_bytes;          /* payload bytes of a slot; the same on all ranks */
    uint32_t slots;             /* slots per channel; the same on all ranks */
    int local_rank;             /* rank among the ranks of this host; -1: unknown */
    const char *near; /* PCI address of the device whose memory is sent; "": host memory */

    /* Returns the address blob of a peer, as published by its rcmi_node_address. Loop thread. */
    rcm_status (*lookup)(void *arg, int peer, const void **ret_blob, size_t *ret_len);
    /* The link to peer is up. NULL: no call. Loop thread. */
    void (*linked)(void *arg, int peer);
    /* The link to peer ended without a farewell, or could not be made. Called once per peer. Loop
     * thread. */
    void (*peer_lost)(void *arg, int peer, const struct rcmi_error *why);
    /* Other code of this process closed descriptors of the node, which is unusable from now on;
     * peer_lost follows for all linked peers. Called once. Loop thread. */
    void (*broken)(void *arg, const struct rcmi_error *why);
    /* A message that a peer sent by rcmi_node_send. The callee must check the bytes. Loop thread.
     */
    void (*message)(void *arg, int peer, const void *bytes, size_t len);
    /* peer has opened a channel to us that is not open here yet. The callee must not open it inside
     * the call, which would re-enter the loop; it notes the request for a driver. Loop thread. */
    void (*wanted)(void *arg, int peer, uint64_t epoch, uint32_t id);
    /* peer has sent its farewell and this node has not. Returns true if nothing more is expected
     * from peer; then the farewell is answered. Called again on each turn of the loop until it
     * returns true. NULL: never true, only rcmi_node_farewell answers. Loop thread. */
    bool (*peer_done)(void *arg, int peer);
    /* The tick of the loop, see rcmi_loop_create. Loop thread. */
    rcmi_deadline (*tick)(void *arg);
    void *arg;
};

/* Creates the node: it listens, but starts no thread. Strings are copied. */
rcm_status rcmi_node_create(const struct rcmi_node_config *config, struct rcmi_node **ret_node);
/* Checks that a transport serves each pair of ranks, from the published addresses.
 * RCM_ERR_UNSUPPORTED with the same sentence on every rank otherwise. why: for each rank, why it
 * shares no memory with some others, the same on all ranks; may be NULL. lookup must work. */
rcm_status rcmi_node_check_pairs(const struct rcmi_node *node, const char *const *why);
/* Proves that this rank can share memory with peer, a rank of its host identity, as far as this
 * side can (sharing.c). If not: RCM_ERR_UNSUPPORTED, with a clause that begins with "it", meaning
 * peer. lookup must work. Not on the loop thread. */
rcm_status rcmi_node_prove(const struct rcmi_node *node, int peer, rcmi_deadline deadline);
/* Sets which ranks share memory, as agreed by all ranks: sets[r] is the set of rank r. Ranks of
 * different sets are linked like ranks of different hosts. Before rcmi_node_start. */
rcm_status rcmi_node_set_sharing(struct rcmi_node *node, const int *sets);
/* Do the configured transports let ranks of one host share memory? rcmi_node_lacks: why that does
 * not work here; "" if it does. */
bool rcmi_node_wants_sharing(const struct rcmi_node *node);
const char *rcmi_node_lacks(const struct rcmi_node *node);
/* The address blob that peers need to reach the node, to be published: at most 1.5 KiB
 * (RCMI_ADDRESS_MAX). Lives as long as the node. */
void rcmi_node_address(const struct rcmi_node *node, const void **ret_blob, size_t *ret_len);
/* Returns host_id from an address blob, so that layers above can group ranks by host. Points into
 * blob, which is untrusted. */
rcm_status rcmi_address_host(const void *blob, size_t len, const char **ret_host_id);
/* Returns pid and host name from an address blob, for texts. */
rcm_status rcmi_address_process(const void *blob, size_t len, int *ret_pid,
                                const char **ret_hostname);
/* The state of the process of an address blob, as far as it is visible from here. */
enum rcmi_process_state rcmi_address_look(const void *blob, size_t len);
/* The transport by which the rank of an address blob shares memory with ranks of its host: its
 * preferred transport of host memory, if that is same_host and multicast; else NULL. Ranks of equal
 * host identity share memory if it is the same for both. All ranks get the same result from the
 * same blobs. */
const struct rcmi_transport *rcmi_address_memory(const void *blob, size_t len);
/* Sets the protocol thresholds for ranks of this node's host. Before rcmi_node_start. Default: the
 * built-in thresholds for this CPU, and one CPU per rank. */
void rcmi_node_set_protocols(struct rcmi_node *node, const struct rcmi_protocols *protocols,
                             enum rcmi_sharing sharing);
const struct rcmi_protocol *rcmi_node_protocol(const struct rcmi_node *node);
/* Which ranks share a last-level cache with this one, by world rank; copied. Slots that only such
 * ranks read are written by temporal stores. Set before rcmi_node_start, or no rank counts as near.
 */
rcm_status rcmi_node_set_near(struct rcmi_node *node, const bool *near);
/* Do ranks of this host share CPUs? */
bool rcmi_node_oversubscribed(const struct rcmi_node *node);

/* Sets the device of this rank, once, when it is opened. Backends of device memory use it from then
 * on until the node's end. Any thread. */
void rcmi_node_use_device(struct rcmi_node *node, struct rcmi_device *device);

/* Optional, before rcmi_node_start: starts the loop thread early. It drops connections that do not
 * identify themselves, and keeps peers that do until rcmi_node_start answers them. Without this
 * call no connection is accepted before rcmi_node_start, so a port scanner can fill the queue. */
rcm_status rcmi_node_attend(struct rcmi_node *node);
/* Starts the loop thread, or, if it already runs, starts to answer peers. lookup must work from
 * here on. */
rcm_status rcmi_node_start(struct rcmi_node *node);
/* Sends a farewell on every link. Waits until the peers have sent theirs, have ended, or the
 * deadline has passed; afterwards the end of a link no longer means a death. Only for an orderly
 * end. The wait also ends when *failed is no longer 0: a thread that sets it calls _look
 * afterwards. failed NULL: no such condition. */
rcm_status rcmi_node_farewell(struct rcmi_node *node, rcmi_deadline deadline,
                              const _Atomic int *failed);
void rcmi_node_farewell_look(struct rcmi_node *node);
/* Sends a farewell on every link without waiting for the peers' farewells. Returns once committed
 * and queued data are sent and the peers' loop threads have acknowledged the farewell, or at the
 * deadline. Hence nothing is lost when the process ends. */
void rcmi_node_leave(struct rcmi_node *node, rcmi_deadline deadline);
/* rcmi_node_farewell sends the farewell to peer but does not wait for peer's. */
void rcmi_node_excuse(struct rcmi_node *node, int peer);
/* Waits until messages of rcmi_node_send_linked are sent, also on links that are being made. Waits
 * 200 ms for peers without a link, which may be about to make one. Not beyond the deadline. For an
 * end that is not orderly. */
void rcmi_node_drain(struct rcmi_node *node, rcmi_deadline deadline);
/* Closes all links and sockets, stops the thread and frees everything. Channels must be closed.
 * Legal at any time, also half-started. NULL is a no-op. */
void rcmi_node_destroy(struct rcmi_node *node);

/* Queues a message (1 to 4096 bytes) on peer's control stream, and makes the link if needed. Any
 * thread. */
rcm_status rcmi_node_send(struct rcmi_node *node, int peer, const void *bytes, size_t len);
/* The same to those of nranks peers that are linked, and to the others when their link comes up.
 * ranks NULL: all peers. This rank may be among them; it gets no message. */
void rcmi_node_send_linked(struct rcmi_node *node, const int *ranks, int nranks, const void *bytes,
                           size_t len);

/* Has the link to peer ended, for whatever reason? Nothing arrives from it any more, and it cannot
 * be made again. Messages that had arrived were delivered before this becomes true. After a
 * farewell of peer, its committed messages can still be read: from channels that were ready, and
 * from memory of its device as long as it stays for that (cuda_ipc/). Any thread. */
bool rcmi_node_gone(const struct rcmi_node *node, int peer);
/* Has the link ended without a farewell, and why? The reason equals that of peer_lost, which may
 * not have been called yet. Any thread. */
bool rcmi_node_lost(const struct rcmi_node *node, int peer, struct rcmi_error *ret_why);
/* Has other code closed descriptors of this node? Cleanup then must not close descriptor numbers
 * (rcmi_fd_distrust, fd.h). Any thread. */
bool rcmi_node_is_broken(const struct rcmi_node *node);
/* Is the link to peer up, or was it up before it ended? Any thread. */
bool rcmi_node_was_linked(const struct rcmi_node *node, int peer);
/* Does a process still listen at peer's address, whether linked, gone or stopped? Tries to connect
 * to each address once, all together until the deadline. RCM_OK: yes. RCM_ERR_PEER: all addresses
 * refuse, no process is there. Other errors: unknown. Not on the loop thread. */
rcm_status rcmi_node_probe(const struct rcmi_node *node, int peer, rcmi_deadline deadline);

/* Moves data on all data planes without blocking. True if anything moved. Any thread; concurrent
 * calls skip what another thread is moving. */
bool rcmi_node_progress(struct rcmi_node *node);
/* Called before a thread sleeps on the node's doorbell, or the loop in epoll, while an operation
 * waits. Makes the loop thread wake up (run tick, ring the doorbell) when data arrive on sockets.
 * Lasts until the loop woke for it. Cheap if already armed. Any thread. */
void rcmi_node_arm(struct rcmi_node *node);
/* The doorbell that every event of this node rings: data, credits, channels that became ready or
 * failed. */
struct rcmi_doorbell *rcmi_node_doorbell(struct rcmi_node *node);
/*
 * How a thread sleeps until something happens to the node (sleep.c): call _begin; check once more
 * what is waited for, including rcmi_node_progress; if it has not happened, _until; then _end. If
 * only sockets carry data, the first sleeping thread sleeps on them itself, and arriving data wake
 * it alone. All other threads sleep on the doorbell, and the loop thread sleeps on the sockets for
 * them.
 */
#define RCMI_SLEEP_FDS 4
struct rcmi_sleep {
    bool polls;    /* sleeps on descriptors instead of the doorbell */
    uint32_t seen; /* value of the doorbell */
    int fds[RCMI_SLEEP_FDS], nfds;
};
void rcmi_node_sleep_begin(struct rcmi_node *node, struct rcmi_sleep *sleep);
/* May return early. Has moved the data that arrived on the sockets it slept on. */
void rcmi_node_sleep_until(struct rcmi_node *node, const struct rcmi_sleep *sleep,
                           rcmi_deadline deadline);
void rcmi_node_sleep_end(struct rcmi_node *node, const struct rcmi_sleep *sleep);
/* Rings the doorbell: wakes this node's sleepers and, if it sleeps armed, its loop thread. */
void rcmi_node_ring(struct rcmi_node *node);
struct rcmi_loop *rcmi_node_loop(struct rcmi_node *node);
/* "shm", "tcp", "self"; "shm+cuda_ipc" with a device plane; "" while the peer is not linked. */
const char *rcmi_node_transport(struct rcmi_node *node, int peer);

/* This node's status page: RCMI_STATUS_PAGE_BYTES of memory that same-host peers can read. The
 * layers above define its content. It lies at offset RCMI_STATUS_PAGE_AT of a memory file named
 * RCMI_STATUS_FILE, which stays open, so that tools find it in /proc/PID/fd. The file is sealed
 * against shrinking. */
#define RCMI_STATUS_PAGE_BYTES 65536
#define RCMI_STATUS_PAGE_AT    4096
#define RCMI_STATUS_FILE       "ringcomm"
void *rcmi_node_status_page(struct rcmi_node *node);
/* A linked same-host peer's status page; NULL if none is mapped. The peer may write at any time:
 * read each word once and trust nothing. Lives as long as the node. */
const void *rcmi_node_peer_status_page(struct rcmi_node *node, int peer);

/*
 * Allocates memory that same-host peers can map, if a transport offers it, else plain memory. It is
 * zeroed, page-aligned, and made of huge pages where possible. Messages sent from it, or into
 * receives posted in it, are not copied. It lives until rcmi_node_memory_free or the node's end. No
 * operation in flight may use it when it is freed; late writes of peers that gave up are harmless.
 * device: allocates memory of that device, until the deadline; the device must outlive the node.
 * NULL: host memory. Any thread.
 */
rcm_status rcmi_node_memory_alloc(struct rcmi_node *node, struct rcmi_device *device, size_t bytes,
                                  rcmi_deadline deadline, void **ret_memory);
/* Waits for peers until the deadline, at most RINGCOMM_PEER_TIMEOUT. RCM_ERR_INVALID: memory is not
 * the start of such a block. RCM_ERR_TIMEOUT, for device memory: it is freed when the
 * device driver returns. Other errors: the block stays, and can be freed later. */
rcm_status rcmi_node_memory_free(struct rcmi_node *node, void *memory, rcmi_deadline deadline);
/* The size of the block that starts at memory; 0 if no block does. */
size_t rcmi_node_memory_size(struct rcmi_node *node, const void *memory);
/* Registers a user's own memory with every backend, or counts one more use of the same range. The
 * memory stays the user's and must stay mapped until it is deregistered as often. Then no peer
 * accesses it any more, except a peer that did not respond within RINGCOMM_PEER_TIMEOUT. No
 * operation in flight may use it at that time. RCM_ERR_INVALID: part of it was allocated here; or
 * the range is not registered. Any thread. */
rcm_status rcmi_node_memory_register(struct rcmi_node *node, void *memory, size_t bytes);
rcm_status rcmi_node_memory_deregister(struct rcmi_node *node, const void *memory, size_t bytes);
/* The number of registrations of that range. */
uint32_t rcmi_node_memory_uses(struct rcmi_node *node, const void *memory, size_t bytes);
/* The registration that contains all len bytes; NULL if none does. Any thread. */
const struct rcmi_registration *rcmi_node_registration(struct rcmi_node *node, const void *bytes,
                                                       size_t len);
/* Checks memory that lies in a registration. RCM_ERR_INVALID, with a sentence: it was freed after
 * the registration, as far as RINGCOMM_CHECK_MEMORY checks that. */
rcm_status rcmi_node_check_registered(const struct rcmi_node *node, const struct rcmi_mem *mem);
/* Describes a user's memory; API functions call it once per buffer. Zero bytes count as host
 * memory. Errors: its kind is unknown (mem_kind.h), or it was freed since it was registered. Any
 * thread. */
static inline rcm_status rcmi_node_mem(struct rcmi_node *node, const void *bytes, size_t len,
                                       struct rcmi_mem *ret_mem) {
    *ret_mem = rcmi_mem_host(bytes, len);
    if (len == 0 || !rcmi_mem_any_special())
        return RCM_OK;
    ret_mem->registration = rcmi_node_registration(node, bytes, len);
    const rcm_status status = rcmi_mem_kind_of(bytes, &ret_mem->kind, &ret_mem->device);
    return status == RCM_OK && ret_mem->registration ? rcmi_node_check_registered(node, ret_mem)
                                                     : status;
}

/*
 * Opening. A channel is identified by (epoch, id, writer). Both ends open it, in any order, without
 * waiting: its operations return RCM_AGAIN until all ends have opened it. The opener chooses the
 * id. RCMI_ID_MULTICAST marks a channel with readers [0..nreaders) on the writer's host, all of
 * them reachable by a transport with multicast. A second open of the same end returns
 * RCM_ERR_INVALID. Any thread, but the call runs the loop inside: hold no lock that a callback
 * takes, and keep it off the fast path.
 */
#define RCMI_ID_MULTICAST 0x10000u
/* Marks a channel whose messages should be as large as possible: its slots are bulk_scale times as
 * large, if that costs the transport little. */
#define RCMI_ID_BULK 0x20000u
/* The minimum slot bytes of such a channel between ranks that do not share memory (see
 * rcmi_address_memory). Depends only on the configured transports, so it is the same on all ranks.
 */
size_t rcmi_node_bulk_bytes(const struct rcmi_node *node);
/* Marks a channel of messages whose sources and results are device memory. Its slots are device
 * memory too if the links to all its readers have a device plane that can carry it. That is decided
 * while it opens. Otherwise its slots are host memory (rcmi_channel_kind). */
#define RCMI_ID_DEVICE 0x40000u
/* Slots of such a channel are larger by this factor on either plane, so that all ranks know the
 * size. For a device, starting an operation and detecting its end cost as much as copying about 500
 * KiB. */
#define RCMI_DEVICE_SLOT_SCALE 4
rcm_status rcmi_channel_open_writer(struct rcmi_node *node, uint64_t epoch, uint32_t id,
                                    const int *readers, int nreaders,
                                    struct rcmi_channel **ret_channel);
rcm_status rcmi_channel_open_reader(struct rcmi_node *node, uint64_t epoch, uint32_t id, int writer,
                                    struct rcmi_channel **ret_channel);
/* Legal at any time. Committed messages still reach the readers. Frees the channel; the caller
 * ensures that no other thread uses it. NULL is a no-op. */
void rcmi_channel_close(struct rcmi_channel *channel);
/* Counts the channel's messages in `traffic`, RCMI_TRANSPORTS_MAX elements, from now on. Called by
 * the thread that uses the channel, before its first message. The memory outlives the channel. */
static inline void rcmi_channel_count(struct rcmi_channel *channel, struct rcmi_traffic *traffic);
/* Adds payload that did not travel in the channel's messages. */
static inline void rcmi_channel_sent_beside(struct rcmi_channel *channel, size_t bytes);
static inline void rcmi_channel_received_beside(struct rcmi_channel *channel, size_t bytes);
/* The peeked message has that many payload bytes elsewhere; they are counted by its release. */
static inline void rcmi_channel_peeked_beside(struct rcmi_channel *channel, size_t bytes);
/* Slot bytes of all channels of that epoch that are counted on this node. Not for the fast path. */
size_t rcmi_node_slot_memory(struct rcmi_node *node, uint64_t epoch);
/* The kind of memory of the slots; only for a channel that is ready. Slots of device memory are
 * sources and results of operations (kernels/operation.h): reserve, start an operation into the
 * slot, and commit when it has ended; or peek, start an operation that reads it, and release when
 * it has ended. */
static inline enum rcmi_mem_kind rcmi_channel_kind(const struct rcmi_channel *channel);
/* RCM_OK: can carry data. RCM_AGAIN: still opening. Otherwise the error (thread's error set, origin
 * = the peer). */
rcm_status rcmi_channel_state(const struct rcmi_channel *channel);
/* Has the channel failed only because its peer, or one of several readers, has left in order?
 * Nothing more arrives from that rank, and it receives nothing. */
bool rcmi_channel_peer_left(const struct rcmi_channel *channel);
/* Is the channel ready, or was it before it failed? */
bool rcmi_channel_was_ready(const struct rcmi_channel *channel);
/* Reader: what is still to come from the writer. The end of a writer sends the number of its
 * messages, so late ones are known. Like the data operations, for one thread at a time. */
enum rcmi_rest {
    RCMI_REST_UNKNOWN, /* it was never ready, its rank is gone, or the next message was peeked */
    RCMI_REST_OPEN,    /* it is open */
    RCMI_REST_COMING,  /* it is closed, and messages had not arrived at the last peek */
    RCMI_REST_NONE,    /* it is closed, and all its messages were released */
};
enum rcmi_rest rcmi_channel_rest(const struct rcmi_channel *channel);
/* Of two channels from one rank. */
static inline enum rcmi_rest rcmi_rest_add(enum rcmi_rest a, enum rcmi_rest b) {
    if (a == RCMI_REST_COMING || b == RCMI_REST_COMING)
        return RCMI_REST_COMING;
    if (a == RCMI_REST_OPEN || b == RCMI_REST_OPEN)
        return RCMI_REST_OPEN;
    return a == b ? a : RCMI_REST_UNKNOWN;
}

/*
 * The data operations of one end are for one thread at a time. They never block and never allocate.
 * RCM_AGAIN: nothing changed; call rcmi_node_progress, then try again. An error is final for the
 * channel (the peer died or sent invalid data, the node is closing).
 */

/* Messages of up to this many bytes may travel in their headers. Such a message leaves its slot
 * free: the reserve after its commit returns that slot again, more messages than slots may be in
 * flight, and the reader gets no rcmi_slot.reply. */
#define RCMI_TINY 128

/* Longest message whose payload the reader may have to get; may exceed a slot. */
#define RCMI_GET_MAX ((size_t)8 << 20)

/* Where to write a message. */
struct rcmi_reserved {
    void *bytes;
    enum rcmi_stores stores; /* the faster kind of stores for it; other kinds are correct too */
    bool posted;             /* memory that the reader posted, instead of a slot */
};

/* Writer: returns memory for the next message of len bytes, at most the slot size: a slot, or
 * memory that the reader posted for it. RCM_AGAIN: no slot is free. A second call before commit
 * replaces the first; it may return other memory, of the same slot or posted since. */
static inline rcm_status rcmi_channel_reserve(struct rcmi_channel *channel, size_t len,
                                              struct rcmi_reserved *ret_reserved);
/* Writer: publishes the reserved memory with len bytes, at most the reserved length; if it was
 * posted memory, exactly that. meta travels with the message. Rings the readers. */
static inline void rcmi_channel_commit(struct rcmi_channel *channel, size_t len, uint64_t meta);
/* Writer: publishes memory without copying it. The memory must stay unchanged until
 * rcmi_channel_completed. Maximum length: the slot size; with may_get RCMI_GET_MAX. may_get: the
 * reader may have to get the payload (peek then returns no bytes). Cancels a pending reserve.
 * RCM_ERR_UNSUPPORTED: this channel cannot send from that memory, which may be of any kind; reserve
 * and copy instead. Registered memory may still be read after the channel was closed, until it is
 * freed or deregistered. */
static inline rcm_status rcmi_channel_send_zero_copy(struct rcmi_channel *channel,
                                                     const struct rcmi_mem *mem, uint64_t meta,
                                                     bool may_get);
/* Can messages be sent from that memory without a copy, as far as is known in advance? Always
 * possible for host memory. Other kinds: only if the memory is registered and the backend supports
 * the registration. */
bool rcmi_channel_may_zero_copy(const struct rcmi_channel *channel, const struct rcmi_mem *mem);
/* Writer: local completion: memory sent without a copy in the first `number` messages is no longer
 * needed. A transport that does not track messages individually returns true once all messages
 * sent so far are complete. Also true while the channel is opening. */
static inline bool rcmi_channel_completed(struct rcmi_channel *channel, uint64_t number);

/* Writer: the number of messages published; and whether the readers have released the first
 * `number` of them. Transports whose readers report releases late (tcp, verbs) always return true:
 * wait for _taken only to let readers run, never for correctness. */
static inline uint64_t rcmi_channel_sent(const struct rcmi_channel *channel);
static inline bool rcmi_channel_taken(struct rcmi_channel *channel, uint64_t number);
/* The same for one reader; readers are numbered as in rcmi_channel_open_writer. */
static inline bool rcmi_channel_taken_by(struct rcmi_channel *channel, int reader, uint64_t number);

/* Reader: the oldest message not yet released. It stays valid until release. */
struct rcmi_slot {
    const void *bytes; /* NULL: len bytes at `remote` in the writer's memory, to be got */
    size_t len;        /* checked by the transport: at most the slot size, or RCMI_GET_MAX */
    uint64_t meta;
    uint64_t remote;
    void *reply; /* the slot: what the only reader stores there before the release, the writer
                    reads at the address from its reserve. NULL if not possible, for example for
                    tiny messages; only set by transports with shared_slots. */
};
static inline rcm_status rcmi_channel_peek(struct rcmi_channel *channel,
                                           struct rcmi_slot *ret_slot);
/* Reader: returns the slot of the last successful peek to the writer. */
static inline void rcmi_channel_release(struct rcmi_channel *channel);

/* Reader: a posted receive, a hint. ahead 0 is the oldest message not yet released, 1 the one after
 * it. If that message fits, the writer may write it to mem at any time from now on, and peek then
 * returns mem. */
struct rcmi_posted {
    struct rcmi_mem mem;
    uint32_t ahead;
    /* mask != 0: only the writer knows the length of the message. Bytes beyond its end stay
     * unchanged, and only a message with (its meta & mask) == meta is written there. mask == 0: the
     * contents of mem are undefined until a message has filled it. */
    uint64_t meta, mask;
};
/* The channel owns the memory until that message was peeked. False: posting is useless here. NULL
 * withdraws all posts. After that, plain memory may be reused at once. Memory of
 * rcmi_node_memory_alloc may still receive one message that a writer has begun, and registered
 * memory posted without a mask more, until the withdrawal reaches the writer: free or unregister
 * it, which waits. peek returns such messages elsewhere. */
static inline bool rcmi_channel_post_receive(struct rcmi_channel *channel,
                                             const struct rcmi_posted *posted);

/*
 * Reader: copies to dest from address `remote` in the writer's process, one piece per call. The
 * source is the payload of the peeked message, or memory announced by another message for the time
 * stated there. `helped`: the writer has its own CPU and calls rcmi_channel_help meanwhile, so both
 * copy. *moved: set if something was copied. One get at a time, until it completes or the channel
 * is closed.
 *
 * RCM_AGAIN: incomplete; repeat the same call. Also returned once the writer has closed its end:
 * the copied bytes are then invalid, and the failure of the writer's operation ends this one.
 * RCM_ERR_UNSUPPORTED, without a sentence: this process may not read the writer's memory. A peeked
 * message arrives even then: the writer's help copies it through the slot. After any other error
 * the channel must be closed.
 *
 * Once the get is complete or returned RCM_ERR_UNSUPPORTED, or the channel is closed, nothing is
 * written to dest any more. Exception: a helping writer whose process got no CPU for 1 s in the
 * middle of a piece may still write that piece.
 */
static inline rcm_status rcmi_channel_get(struct rcmi_channel *channel, const struct rcmi_mem *dest,
                                          uint64_t remote, bool helped, bool *moved);
/* Writer: copies a bounded piece of what the reader is getting. False: nothing to do. Call it until
 * completed, or until the reader has reported completion. */
static inline bool rcmi_channel_help(struct rcmi_channel *channel);

/* ==== Part 2: the backend, a transport's function table ====================================== */

struct rcmi_link;

#define RCMI_BLOB_MAX 256 /* bytes that a transport may add to a handshake or an open */
#define RCMI_FDS_MAX  4

/* Bytes and descriptors (descriptors on Unix control streams only). Receivers own the descriptors
 * they take and set them to -1; the framework closes the rest. */
struct rcmi_blob {
    uint8_t bytes[RCMI_BLOB_MAX];
    size_t len;
    int fds[RCMI_FDS_MAX];
    int nfds;
};

/* The needs of a node, as far as they are known before it meets its peers. */
struct rcmi_need {
    int nranks;
    uint32_t slots; /* per channel */
    size_t slot_bytes;
    size_t slot_memory; /* limit for the slots of all channels, in bytes */
    bool starts;        /* a node is being made: do not load a driver only for the probe */
};

/*
 * The function table of a transport ("backend"). No pointer is NULL. The framework allocates the
 * state of domains (one per node), links and channels (zeroed; sizes below; a channel's state
 * begins with struct rcmi_channel). It calls fini on whatever init touched, also if init failed
 * half-way. "Loop": called on the loop thread only.
 */
struct rcmi_transport {
    const char *name;
    const char *description;
    /* Kind of memory of its slots. A backend of device memory serves the device plane of links
     * whose host plane is up, between ranks of one host with a Unix control stream: it sets
     * same_host and has no data_sockets. Its slot addresses are for operations and never touched by
     * the CPU; they are not NULL even for messages without bytes. Messages are committed and
     * released once the operations on their slots have ended. */
    enum rcmi_mem_kind kind;
    bool loops_back;     /* serves a rank with itself, and no other pair */
    bool same_host;      /* serves only pairs of equal host_id, over a Unix control stream */
    bool multicast;      /* channels may have several readers */
    int data_sockets;    /* extra connections per link, which the framework dials, authenticates
                            and hands over */
    bool shared_slots;   /* the reader reads a slot in place, on another core */
    uint32_t bulk_scale; /* see RCMI_ID_BULK; 1 if slots of any size cost their memory */
    bool pinned_slots;   /* all bytes of a slot take memory, touched or not */
    size_t domain_size, link_size, channel_size;

    /* Can it work in this process? Tries what a node will do, and undoes it. reason: a sentence in
     * either case. */
    bool (*probe)(const struct rcmi_need *need, char *reason, size_t cap);

    /* Per node. */
    rcm_status (*domain_init)(void *domain, struct rcmi_node *node);
    void (*domain_fini)(void *domain);
    /* Implement rcmi_node_progress and rcmi_node_arm for this transport. Any thread. */
    bool (*progress)(void *domain);
    void (*arm)(void *domain);
    /* Called before a thread of this process sleeps on descriptors. *ret_fd is readable while
     * progress has something to move; -1: never. Returns false if events are signalled by other
     * means than descriptors. It may become false at any time; then the backend rings the doorbell.
     * Any thread. */
    bool (*attend)(void *domain, int *ret_fd);

    /* Allocates memory that peers can map, and frees it. take: RCM_ERR_UNSUPPORTED without a
     * sentence if the backend has no such memory. Any thread. */
    rcm_status (*memory_take)(void *domain, size_t bytes, void **ret_memory);
    void (*memory_give)(void *domain, void *memory);
    /* Registers memory of the backend's kind that messages use repeatedly: memory from memory_take
     * of any backend, and memory that users register. Every backend gets the call. *ret_own: the
     * backend's state for it, NULL at first; data operations find it by rcmi_registration_of.
     * RCM_OK also if the backend has no use for the memory; RCM_ERR_RESOURCE if the system lacks
     * resources. After unregister returns, this backend does not use the memory. Exception: late
     * writes of peers that gave up, into memory that peers can map. unregister returns false if
     * another process may still read it, because it has ended or did not respond by the deadline;
     * allocated memory then stays until this process ends. Any thread. */
    rcm_status (*memory_register)(void *domain, const struct rcmi_mem *mem, void **ret_own);
    bool (*memory_unregister)(void *domain, void *own, rcmi_deadline deadline);

    /* Per link. Order: init; offer fills what the peer needs; accept takes the peer's offer
     * (untrusted); attach takes over data socket number i (connected, authenticated, non-blocking),
     * also on failure; then ready. The two ends of a device plane each offer first, then accept;
     * both have a device by then (backend.h). The backend owns the descriptors of an offer or
     * answer, which must live as long as the domain.
     *
     * ready: RCM_OK once the link can carry data in both directions, RCM_AGAIN before; called again
     * after rcmi_node_link_changed. No channel opens before both sides have returned RCM_OK.
     *
     * Up to then any of these may decline the pair by RCM_ERR_UNSUPPORTED, with a sentence: down
     * and fini follow at once on both sides, and the next transport is tried. A device plane is
     * also declined by RCM_ERR_NOMEM, _RESOURCE and _SYSTEM; its link goes on without one.
     *
     * down: the peer is gone or has declined, or the node closes. From now on every channel of the
     * link fails, as its state shows, except readers that were ready when the peer sent its
     * farewell. Legal at any time, idempotent. fini follows down, when no channel is left.
     *
     * flushed, for a link that is ready: receives all data that the kernel holds, and waits for
     * another thread that is receiving. Returns whether committed messages arrive even if the link
     * goes down now; called repeatedly until it returns true. Loop. */
    rcm_status (*link_init)(void *link, void *domain, int peer);
    rcm_status (*link_offer)(void *link, struct rcmi_blob *ret_offer);
    rcm_status (*link_accept)(void *link, struct rcmi_blob *offer);
    rcm_status (*link_attach)(void *link, int i, int fd);
    rcm_status (*link_ready)(void *link);
    bool (*link_flushed)(void *link);
    void (*link_down)(void *link);
    void (*link_fini)(void *link);

    /* Per channel end. Writer: init allocates the slots; offer fills what reader number r needs;
     * attach takes reader r's answer. Reader: init; accept takes the writer's offer and fills the
     * answer; then it is ready. links[r] is the backend's link state of reader r; for a reader,
     * `link` is that of the writer. fini at any time after init. Loop. */
    rcm_status (*writer_init)(struct rcmi_channel *channel, void *const *links, int nreaders);
    rcm_status (*writer_offer)(struct rcmi_channel *channel, int r, struct rcmi_blob *ret_offer);
    rcm_status (*writer_attach)(struct rcmi_channel *channel, int r, struct rcmi_blob *answer);
    rcm_status (*reader_init)(struct rcmi_channel *channel, void *link);
    rcm_status (*reader_accept)(struct rcmi_channel *channel, struct rcmi_blob *offer,
                                struct rcmi_blob *ret_answer);
    /* The user closed a writer. Committed messages still reach the readers, and so do zero-copy
     * messages from memory that the backend copies now. Readers may still read memory that they map
     * (memory_take, or registered memory of this kind) until they close: its owner unregisters or
     * frees it through the framework first, and contents are undefined by then (ringcomm.h). No
     * other zero-copy memory is read any more. fini follows, at the latest when all readers have
     * closed. */
    void (*writer_close)(struct rcmi_channel *channel);
    void (*channel_fini)(struct rcmi_channel *channel);

    /* The data operations of part 1. Called only when the channel is ready. */
    rcm_status (*reserve)(struct rcmi_channel *channel, size_t len,
                          struct rcmi_reserved *ret_reserved);
    void (*commit)(struct rcmi_channel *channel, size_t len, uint64_t meta);
    rcm_status (*send_zero_copy)(struct rcmi_channel *channel, const struct rcmi_mem *mem,
                                 uint64_t meta, bool may_get);
    bool (*completed)(struct rcmi_channel *channel, uint64_t number);
    bool (*taken)(struct rcmi_channel *channel, int reader, uint64_t number);
    rcm_status (*peek)(struct rcmi_channel *channel, struct rcmi_slot *ret_slot);
    void (*release)(struct rcmi_channel *channel);
    bool (*post_receive)(struct rcmi_channel *channel, const struct rcmi_posted *posted);
    rcm_status (*get)(struct rcmi_channel *channel, const struct rcmi_mem *dest, uint64_t remote,
                      bool helped, bool *moved);
    bool (*help)(struct rcmi_channel *channel);
};

/* All transports, in order of preference; ends with NULL. To add one, add its folder and its name
 * in the list of meson.build. */
extern const struct rcmi_transport *const rcmi_transports[];
/* The index of a backend in it; for a wrapper, the index of the wrapped backend. */
int rcmi_transport_number(const struct rcmi_transport *transport);

/* The common head of every channel. The framework writes it on the loop thread before `state`
 * becomes ready; the data operations read it. */
struct rcmi_channel {
    const struct rcmi_transport *transport;
    struct rcmi_node *node;
    size_t slot_bytes; /* final once ready */
    uint32_t slots;
    uint64_t epoch;
    uint32_t id;
    int writer;   /* world rank */
    int nreaders; /* on the writer; 1 on a reader */
    bool is_writer;
    const struct rcmi_protocol *protocol; /* the node's */
    /* enum rcm_status: RCM_AGAIN, then RCM_OK, or an error for good. Release store on the loop
     * thread pairs with the acquire load in the data operations. */
    _Atomic int state;
    _Atomic int lost_peer;        /* rank that made it fail, -1: none; written before state */
    uint64_t sent;                /* messages published; the writer's */
    uint64_t released;            /* messages released; the reader's */
    uint64_t peeked;              /* number of the last peeked message; the reader's */
    size_t payload;               /* bytes of the last peeked message; the reader's */
    struct rcmi_traffic *traffic; /* see rcmi_channel_count; NULL: not counted */
    uint32_t transport_number;    /* rcmi_transport_number of `transport` */
    void *framework;              /* state of channel.c */
};

/* Sets the thread's error for a failed or opening channel, and returns its state. Not inlined. */
rcm_status rcmi_channel_not_ready(const struct rcmi_channel *channel);

static inline enum rcmi_mem_kind rcmi_channel_kind(const struct rcmi_channel *c) {
    return c->transport->kind;
}

static inline rcm_status rcmi_channel_reserve(struct rcmi_channel *c, size_t len,
                                              struct rcmi_reserved *ret_reserved) {
    if (atomic_load_explicit(&c->state, memory_order_acquire) != RCM_OK)
        return rcmi_channel_not_ready(c);
    return c->transport->reserve(c, len, ret_reserved);
}

static inline void rcmi_channel_count(struct rcmi_channel *c, struct rcmi_traffic *traffic) {
    c->traffic = traffic;
}

static inline void rcmi_channel_sent_beside(struct rcmi_channel *c, size_t bytes) {
    if (c->traffic)
        rcmi_count(&c->traffic[c->transport_number].sent_bytes, bytes);
}

static inline void rcmi_channel_received_beside(struct rcmi_channel *c, size_t bytes) {
    if (c->traffic)
        rcmi_count(&c->traffic[c->transport_number].received_bytes, bytes);
}

static inline void rcmi_channel_peeked_beside(struct rcmi_channel *c, size_t bytes) {
    c->payload = bytes;
}

static inline void rcmi_channel_published(struct rcmi_channel *c, size_t bytes) {
    c->sent++;
    if (c->traffic) {
        rcmi_count(&c->traffic[c->transport_number].sent, 1);
        rcmi_count(&c->traffic[c->transport_number].sent_bytes, bytes);
    }
}

static inline void rcmi_channel_commit(struct rcmi_channel *c, size_t len, uint64_t meta) {
    rcmi_channel_published(c, len);
    c->transport->commit(c, len, meta);
}

static inline rcm_status rcmi_channel_send_zero_copy(struct rcmi_channel *c,
                                                     const struct rcmi_mem *mem, uint64_t meta,
                                                     bool may_get) {
    if (atomic_load_explicit(&c->state, memory_order_acquire) != RCM_OK)
        return rcmi_channel_not_ready(c);
    if (mem->kind != c->transport->kind)
        return RCM_ERR_UNSUPPORTED; /* the backend cannot access this kind of memory */
    const rcm_status status = c->transport->send_zero_copy(c, mem, meta, may_get);
    if (status == RCM_OK)
        rcmi_channel_published(c, mem->len);
    return status;
}

static inline bool rcmi_channel_completed(struct rcmi_channel *c, uint64_t number) {
    if (number == 0 || atomic_load_explicit(&c->state, memory_order_acquire) == RCM_AGAIN)
        return true;
    return c->transport->completed(c, number);
}

static inline uint64_t rcmi_channel_sent(const struct rcmi_channel *c) {
    return c->sent;
}

static inline bool rcmi_channel_taken_by(struct rcmi_channel *c, int reader, uint64_t number) {
    if (atomic_load_explicit(&c->state, memory_order_acquire) == RCM_AGAIN)
        return true;
    return c->transport->taken(c, reader, number);
}

static inline bool rcmi_channel_taken(struct rcmi_channel *c, uint64_t number) {
    int reader = 0;
    while (reader < c->nreaders && rcmi_channel_taken_by(c, reader, number))
        reader++;
    return reader == c->nreaders;
}

static inline rcm_status rcmi_channel_peek(struct rcmi_channel *c, struct rcmi_slot *ret_slot) {
    if (atomic_load_explicit(&c->state, memory_order_acquire) != RCM_OK)
        return rcmi_channel_not_ready(c);
    const rcm_status status = c->transport->peek(c, ret_slot);
    if (status == RCM_OK) {
        c->payload = ret_slot->len;
        c->peeked = c->released + 1;
    }
    return status;
}

static inline void rcmi_channel_release(struct rcmi_channel *c) {
    if (c->traffic) {
        rcmi_count(&c->traffic[c->transport_number].received, 1);
        rcmi_count(&c->traffic[c->transport_number].received_bytes, c->payload);
    }
    c->released++;
    c->transport->release(c);
}

static inline bool rcmi_channel_post_receive(struct rcmi_channel *c,
                                             const struct rcmi_posted *posted) {
    /* Posts of a failed channel can be withdrawn, too. */
    if (atomic_load_explicit(&c->state, memory_order_acquire) == RCM_AGAIN)
        return false;
    if (posted && posted->mem.kind != c->transport->kind)
        return false;
    return c->transport->post_receive(c, posted);
}

static inline rcm_status rcmi_channel_get(struct rcmi_channel *c, const struct rcmi_mem *dest,
                                          uint64_t remote, bool helped, bool *moved) {
    if (atomic_load_explicit(&c->state, memory_order_acquire) != RCM_OK)
        return rcmi_channel_not_ready(c);
    if (dest->kind != c->transport->kind)
        return RCM_ERR_UNSUPPORTED;
    return c->transport->get(c, dest, remote, helped, moved);
}

static inline bool rcmi_channel_help(struct rcmi_channel *c) {
    return atomic_load_explicit(&c->state, memory_order_acquire) == RCM_OK && c->transport->help(c);
}

#endif
