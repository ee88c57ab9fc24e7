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
 *                   the host plane, one row: shm, verbs, tcp or self; the device plane, if any
 *
 * Not for: collectives and plans (algorithms/), communicators, of which it knows a number (epoch),
 * matching of messages and receives (api/p2p), and how ranks learn each other's addresses, for
 * which a look-up function is handed to it (rendezvous/).
 *
 * Objects:
 *   node      this rank's end of everything: its loop thread (the engine), listening sockets, its
 *             doorbell, its links. One per rank; several per process when ranks are threads. A
 *             peer is named by its world rank.
 *   link      what this node shares with one peer: a *control stream* (a stream socket, Unix on
 *             the same host, TCP else), which the loop thread always reads, and data planes:
 *             that of host memory, of one transport, and once it is needed that of device memory,
 *             where a transport serves it (plane.c). Made lazily by the loop thread,
 *             authenticated, shared by all communicators of the pair. Its end without a farewell
 *             is the peer's death; so is silence of the peer's host for RINGCOMM_PEER_TIMEOUT
 *             (heartbeat.c), but not that of a process that is merely stopped.
 *   channel   first in, first out, from one writer to one or more readers, with slots and credits
 *             of its own: what one channel leaves unread never blocks another.
 *
 * Part 1 is for the rooms above (the executor, point to point). Part 2 is the table that each
 * transport fills, and what the framework (node.c, link.c, channel.c) does around it; what a
 * transport may use of the framework is row.h.
 *
 * Why channels have reserve/commit and peek/release, and no post_send: a step writes its result
 * straight into the slot that travels and reads its source where it arrived, so shared memory needs
 * no copy that is not part of the reduction; a socket reads straight into posted memory and sends
 * straight from the user's.
 *
 * The ways of a message's payload from the writer's to the reader's memory, with what each gains
 * over a slot where it was measured (us, 2 ranks; algorithms/PERFORMANCE.md). What is chosen by
 * size and CPU is in protocol.h.
 *
 *   way             rows       sizes               what it saves; gain
 *   slot            all        up to a slot        (the way that always works)
 *   header          shm, self  up to RCMI_TINY     all lines but one: 8 B all_reduce 0.60 to 0.42
 *   zero-copy send  tcp        from 2 KiB          the writer's copy: 1 MiB chain 788 to 564, with
 *   posted receive  tcp        from 2 KiB          the reader's
 *   the same two    verbs      from 2 KiB          both, of registered memory; untried on hardware
 *   zero-copy send  cuda_ipc   any                 that of registered memory; untried on a GPU
 *   mapped send     shm, self  from 2 KiB          the writer's copy, from rcm_mem_alloc, and
 *   put             shm        from 2 KiB          the reader's, to it: 1 MiB all_reduce 43 to 26
 *   get             shm        `get`               a copy, by the kernel: 64 KiB message 14 to 7.5
 *   get and help    shm        `get`, from 32 KiB  the same by both ends: 1 MiB message 96 to 58
 *   answer          shm        over RCMI_TINY      a slot: 64 KiB all_reduce 10.5 to 3.3
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

/* ==== Part 1: what the rooms above use ====================================================== */

struct rcmi_node;
struct rcmi_channel;
struct rcmi_transport;

#define RCMI_HOST_ID_MAX 200 /* bytes, without the NUL */

struct rcmi_node_config {
    int rank, nranks;       /* world rank and size */
    uint64_t job;           /* the same on all ranks of a job; a hello of another job is refused */
    const char *host_id;    /* ranks with equal host_id may use same-host transports */
    const char *transports; /* "auto" or a comma list of names in order of preference */
    const char *secret;     /* NULL: none */
    const char *iface; /* RINGCOMM_IFACE: interfaces or addresses to listen on; "": automatic */
    struct rcmi_sockaddr store; /* of its server; len 0: not known */
    const char *ports;          /* RINGCOMM_PORTS: "low-high"; "": any */
    size_t slot_bytes;          /* payload of a slot; the same on all ranks */
    uint32_t slots;             /* of each channel; the same on all ranks */
    int local_rank;             /* among the ranks of this host; -1: not told */
    const char *near; /* the PCI address of the device whose memory is sent; "": the host's */

    /* Address blob of a peer, as its rcmi_node_address gave it. Loop thread. */
    rcm_status (*lookup)(void *arg, int peer, const void **ret_blob, size_t *ret_len);
    /* The link to peer is there. NULL: no call. Loop thread. */
    void (*linked)(void *arg, int peer);
    /* The link to peer ended without a farewell, or could not be made. Once per peer. Loop
     * thread. */
    void (*peer_lost)(void *arg, int peer, const struct rcmi_error *why);
    /* Descriptors of the node were closed by others in this process: it is of no use any more, and
     * peer_lost comes for all that are linked. Once. Loop thread. */
    void (*broken)(void *arg, const struct rcmi_error *why);
    /* A message sent by rcmi_node_send on the other side. Loop thread. The bytes are the callee's
     * to check. */
    void (*message)(void *arg, int peer, const void *bytes, size_t len);
    /* peer has opened a channel to us that is not open here yet. Loop thread; may not open
     * it at once (that would call back into the loop): note it and do it from a driver. */
    void (*wanted)(void *arg, int peer, uint64_t epoch, uint32_t id);
    /* peer said farewell, and this node has not: is nothing more expected from it, so that its
     * farewell may be answered? Called again on every turn of the loop until it is true. NULL:
     * never, only rcmi_node_farewell answers. Loop thread. */
    bool (*peer_done)(void *arg, int peer);
    /* The engine's turn, see rcmi_loop_create. Loop thread. */
    rcmi_deadline (*tick)(void *arg);
    void *arg;
};

/* Makes the node: listens, but starts no thread. Strings are copied. */
rcm_status rcmi_node_create(const struct rcmi_node_config *config, struct rcmi_node **ret_node);
/* Whether each pair of ranks has a transport that serves it, by what all have published:
 * RCM_ERR_UNSUPPORTED with the same sentence on every rank. why: for each rank why it shares no
 * memory with some others, the same on all, or NULL. lookup must work. */
rcm_status rcmi_node_check_pairs(const struct rcmi_node *node, const char *const *why);
/* Whether this rank can share memory with peer, a rank of its host identity, as far as this side
 * can prove (sharing.c). RCM_ERR_UNSUPPORTED, with a clause that begins with "it", meaning peer, if
 * not. lookup must work. Not on the loop thread. */
rcm_status rcmi_node_prove(const struct rcmi_node *node, int peer, rcmi_deadline deadline);
/* What was agreed on, before rcmi_node_start: ranks of different sets are linked as ranks of
 * different hosts. */
rcm_status rcmi_node_set_sharing(struct rcmi_node *node, const int *sets);
/* Do the configured transports let ranks of one host share memory; why it does not work here, "" if
 * it does. */
bool rcmi_node_wants_sharing(const struct rcmi_node *node);
const char *rcmi_node_lacks(const struct rcmi_node *node);
/* What peers need to reach it, to be published: at most 1 KiB. Lives as long as the node. */
void rcmi_node_address(const struct rcmi_node *node, const void **ret_blob, size_t *ret_len);
/* host_id inside an address blob, for rooms above to group ranks by host. Points into blob; blob is
 * not trusted. */
rcm_status rcmi_address_host(const void *blob, size_t len, const char **ret_host_id);
/* pid inside an address blob, and a host name for people. */
rcm_status rcmi_address_process(const void *blob, size_t len, int *ret_pid,
                                const char **ret_hostname);
/* What can be seen from here of the process of an address blob. */
enum rcmi_process_state rcmi_address_look(const void *blob, size_t len);
/* The transport by which the rank of an address blob shares memory with ranks of its host: the one
 * it prefers, if that serves one host only and has multicast; else NULL. Ranks of equal host
 * identity share memory if it is the same for both; all ranks find the same in the same blobs. */
const struct rcmi_transport *rcmi_address_memory(const void *blob, size_t len);
/* Which way data goes between ranks of this node's host. Set before rcmi_node_start, or the
 * built-in ones for this CPU, each rank with a CPU of its own. */
void rcmi_node_set_protocols(struct rcmi_node *node, const struct rcmi_protocols *protocols,
                             enum rcmi_sharing sharing);
const struct rcmi_protocol *rcmi_node_protocol(const struct rcmi_node *node);
/* Which ranks share a last-level cache with this one, by world rank; copied. Slots that only such
 * ranks read are written by temporal stores. Set before rcmi_node_start, or no rank counts as near.
 */
rcm_status rcmi_node_set_near(struct rcmi_node *node, const bool *near);
/* Do ranks of this host share CPUs? */
bool rcmi_node_oversubscribed(const struct rcmi_node *node);

/* The device of this rank, once, when it is opened: rows of device memory may use it from now on,
 * until the node's end. Any thread. */
void rcmi_node_use_device(struct rcmi_node *node, struct rcmi_device *device);

/* Starts the loop thread before the start: from here on connections that do not identify themselves
 * are dropped, while peers that dial already wait for their answer. Without it all wait, and a
 * scanner can fill the queue. */
rcm_status rcmi_node_attend(struct rcmi_node *node);
/* Starts the loop thread, or, where that runs, answers peers from now on. lookup must work from
 * here on. */
rcm_status rcmi_node_start(struct rcmi_node *node);
/* Says farewell on every link and waits until the peers did, or have ended, or the deadline passed:
 * after it the end of a link is no death any more. For an orderly end only. Also done when *failed
 * is no longer 0; a thread that sets it calls _look afterwards. NULL: nothing can fail. */
rcm_status rcmi_node_farewell(struct rcmi_node *node, rcmi_deadline deadline,
                              const _Atomic int *failed);
void rcmi_node_farewell_look(struct rcmi_node *node);
/* Says farewell on every link, and waits for no peer: only, no longer than the deadline, until what
 * was committed and sent is on its way and peers' loop threads have acknowledged the farewell, so
 * that it is not lost with the process. */
void rcmi_node_leave(struct rcmi_node *node, rcmi_deadline deadline);
/* rcmi_node_farewell shall say it to peer, but not wait for peer's. */
void rcmi_node_excuse(struct rcmi_node *node, int peer);
/* Waits until what was sent by rcmi_node_send_linked is on its way, also to links that are just
 * being made, and a tenth of a second for peers that have no link yet and may be about to make one;
 * no longer than the deadline. For an end that is not orderly. */
void rcmi_node_drain(struct rcmi_node *node, rcmi_deadline deadline);
/* Closes all links and sockets, stops the thread, frees everything. Channels must be closed.
 * Legal at any time, also half-started. NULL is a no-op. */
void rcmi_node_destroy(struct rcmi_node *node);

/* Queues a message (1..4096 bytes) on peer's control stream, making the link if needed. Any
 * thread. */
rcm_status rcmi_node_send(struct rcmi_node *node, int peer, const void *bytes, size_t len);
/* The same to those of nranks peers that are linked, and to the others when their link comes up.
 * ranks NULL: all peers. This rank may be among them, and gets nothing. */
void rcmi_node_send_linked(struct rcmi_node *node, const int *ranks, int nranks, const void *bytes,
                           size_t len);

/* Whether the link to peer has ended, in whatever way: nothing comes from it any more, nor can it
 * be linked again. What had come before was handed over before this becomes true; if peer had said
 * farewell, what it had committed can still be read, from channels that were ready, and in memory
 * of its device while it stays for that (cuda_ipc/). Any thread. */
bool rcmi_node_gone(const struct rcmi_node *node, int peer);
/* Whether it ended without a farewell, and why: as peer_lost says, which may be still to come. Any
 * thread. */
bool rcmi_node_lost(const struct rcmi_node *node, int peer, struct rcmi_error *ret_why);
/* Whether the node has found that others closed its descriptors: freeing it, and what else
 * had some then, distrusts them (fd.h). Any thread. */
bool rcmi_node_is_broken(const struct rcmi_node *node);
/* Whether the link to peer is there, or was before it ended. Any thread. */
bool rcmi_node_was_linked(const struct rcmi_node *node, int peer);
/* Whether a process still listens at peer's address, be it linked, gone or stopped: one attempt to
 * connect by each way, all together no longer than the deadline. RCM_OK: it does; RCM_ERR_PEER: all
 * ways are refused, there is none; else it is not known. Not on the loop thread. */
rcm_status rcmi_node_probe(const struct rcmi_node *node, int peer, rcmi_deadline deadline);

/* Moves whatever can move on data planes without blocking. True if anything did. Any thread;
 * concurrent calls skip what another one is moving. */
bool rcmi_node_progress(struct rcmi_node *node);
/* Before a thread sleeps on the node's doorbell, or the loop in epoll, with something to wait for:
 * makes the loop thread wake up (and run tick, and ring the doorbell) when data arrive on sockets.
 * One arming lasts until the loop woke for it. Cheap if already armed. Any thread. */
void rcmi_node_arm(struct rcmi_node *node);
/* The doorbell that everything that happens to this node rings: data, credits, channels that became
 * ready or failed. */
struct rcmi_doorbell *rcmi_node_doorbell(struct rcmi_node *node);
/*
 * How a thread sleeps until something happens to the node (sleep.c): begin, then look once more at
 * what is waited for, rcmi_node_progress included; if it is still to come, _until; then _end.
 * Where nothing but sockets carries data, the first thread to begin sleeps on them itself, and what
 * comes wakes it alone; all others sleep on the doorbell, and the loop thread on the sockets for
 * them.
 */
#define RCMI_SLEEP_FDS 4
struct rcmi_sleep {
    bool polls;    /* on descriptors; else on the doorbell */
    uint32_t seen; /* the doorbell's word */
    int fds[RCMI_SLEEP_FDS], nfds;
};
void rcmi_node_sleep_begin(struct rcmi_node *node, struct rcmi_sleep *sleep);
/* May return early. Has moved what came on the sockets it slept on. */
void rcmi_node_sleep_until(struct rcmi_node *node, const struct rcmi_sleep *sleep,
                           rcmi_deadline deadline);
void rcmi_node_sleep_end(struct rcmi_node *node, const struct rcmi_sleep *sleep);
/* Rings it: wakes this node's sleepers and, if it sleeps armed, its loop thread. */
void rcmi_node_ring(struct rcmi_node *node);
struct rcmi_loop *rcmi_node_loop(struct rcmi_node *node);
/* "shm", "tcp", "self"; "" while the peer is not linked. */
const char *rcmi_node_transport(struct rcmi_node *node, int peer);

/* This node's status page: RCMI_STATUS_PAGE_BYTES of memory that same-host peers can read; the
 * rooms above define its content. It lies at RCMI_STATUS_PAGE_AT of a memory file that stays open
 * under that name, sealed against shrinking, so that tools find it in /proc/PID/fd. */
#define RCMI_STATUS_PAGE_BYTES 65536
#define RCMI_STATUS_PAGE_AT    4096
#define RCMI_STATUS_FILE       "ringcomm"
void *rcmi_node_status_page(struct rcmi_node *node);
/* A linked same-host peer's page, NULL if there is none. Written by the peer at any time: read each
 * word once and trust nothing. Lives as long as the node. */
const void *rcmi_node_peer_status_page(struct rcmi_node *node, int peer);

/*
 * Memory that same-host peers can map, where a transport has that, else plain memory; zeroed,
 * page-aligned, of huge pages where the machine has them. Messages sent from it, or to what is
 * posted in it, travel without a copy. It lives until rcmi_node_memory_free or the node's end. Any
 * thread; nothing in flight may use it when it is freed, but late writes of peers that gave up do
 * no harm. device, which outlives the node: memory of that one, by the deadline; NULL: of the host.
 */
rcm_status rcmi_node_memory_alloc(struct rcmi_node *node, struct rcmi_device *device, size_t bytes,
                                  rcmi_deadline deadline, void **ret_memory);
/* Peers are waited for until the deadline, no longer than RINGCOMM_PEER_TIMEOUT. RCM_ERR_INVALID if
 * it is not the start of such memory. RCM_ERR_TIMEOUT, of a device's: it is freed when the driver
 * comes back. Another error: it stays, and can be freed later. */
rcm_status rcmi_node_memory_free(struct rcmi_node *node, void *memory, rcmi_deadline deadline);
/* The size of the block that starts at memory; 0 if none does. */
size_t rcmi_node_memory_size(struct rcmi_node *node, const void *memory);
/* Registers a user's own memory, or one use more of the same range; every row hears of it. It is
 * the user's, and stays where it is, until deregistered as often: then no peer touches it any more,
 * or it has not answered within RINGCOMM_PEER_TIMEOUT.
 * Any thread; nothing in flight may use it by then. RCM_ERR_INVALID: part of it was handed out
 * here; or that range is not registered. */
rcm_status rcmi_node_memory_register(struct rcmi_node *node, void *memory, size_t bytes);
rcm_status rcmi_node_memory_deregister(struct rcmi_node *node, const void *memory, size_t bytes);
/* How often that range is registered. */
uint32_t rcmi_node_memory_uses(struct rcmi_node *node, const void *memory, size_t bytes);
/* The registration that len bytes lie in, NULL if in none. Any thread. */
const struct rcmi_registration *rcmi_node_registration(struct rcmi_node *node, const void *bytes,
                                                       size_t len);
/* Memory that lies in a registration. RCM_ERR_INVALID, with a sentence: it was freed since that was
 * made, as far as that is looked at (RINGCOMM_CHECK_MEMORY). */
rcm_status rcmi_node_check_registered(const struct rcmi_node *node, const struct rcmi_mem *mem);
/* A user's memory: for the front doors, once for each call. Of no bytes it is host memory. Any
 * thread. An error: its kind cannot be told (mem_kind.h), or it was freed since it was registered.
 */
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
 * Opening. Each reader knows a channel by (epoch, id, writer); both ends open it, in any order,
 * without waiting: its operations say RCM_AGAIN until all ends have opened. ids are the opener's
 * choice; RCMI_ID_MULTICAST is set for a channel with readers [0..nreaders) on the writer's host,
 * which must all be reachable by a transport with multicast. A second open of the same end is
 * RCM_ERR_INVALID. May be called from any thread but serves the loop inside (so hold no lock that a
 * callback takes): keep it out of the fast path.
 */
#define RCMI_ID_MULTICAST 0x10000u
/* Set for a channel of messages that are the better the larger they are: its slots have bulk_scale
 * times the size where the transport has that for little. */
#define RCMI_ID_BULK 0x20000u
/* Bytes that the slots of such a channel have at least, of any pair that does not share memory (see
 * rcmi_address_memory). By the configured transports, so the same on all ranks. */
size_t rcmi_node_bulk_bytes(const struct rcmi_node *node);
/* Set for a channel of messages whose sources and results are device memory: its slots are, too,
 * where the links to all its readers have a device plane that can carry it, which is found out
 * while it opens; else they are host memory, as of any channel (rcmi_channel_kind). */
#define RCMI_ID_DEVICE 0x40000u
/* Its slots are so many times as large as others, by whichever plane it goes, so that all ranks
 * know: beginning an operation, and hearing of its end, costs a device what copying some 500 KiB
 * does. */
#define RCMI_DEVICE_SLOT_SCALE 4
rcm_status rcmi_channel_open_writer(struct rcmi_node *node, uint64_t epoch, uint32_t id,
                                    const int *readers, int nreaders,
                                    struct rcmi_channel **ret_channel);
rcm_status rcmi_channel_open_reader(struct rcmi_node *node, uint64_t epoch, uint32_t id, int writer,
                                    struct rcmi_channel **ret_channel);
/* Legal at any time; what was committed before still reaches the readers; frees the channel. The
 * caller makes sure that no other thread uses this channel object. NULL is a no-op. */
void rcmi_channel_close(struct rcmi_channel *channel);
/* What goes by it is counted in `traffic`, RCMI_TRANSPORTS_MAX of them, from here on; by the thread
 * that uses the channel, before it does. The memory outlives the channel. */
static inline void rcmi_channel_count(struct rcmi_channel *channel, struct rcmi_traffic *traffic);
/* Payload that went by no message of the channel, counted too. */
static inline void rcmi_channel_sent_beside(struct rcmi_channel *channel, size_t bytes);
static inline void rcmi_channel_received_beside(struct rcmi_channel *channel, size_t bytes);
/* The message that was peeked has so many bytes of payload elsewhere: counted with its release. */
static inline void rcmi_channel_peeked_beside(struct rcmi_channel *channel, size_t bytes);
/* Bytes of the slots of all channels of that epoch, of those that are counted here. Not on the fast
 * path. */
size_t rcmi_node_slot_memory(struct rcmi_node *node, uint64_t epoch);
/* Of which kind its slots are; of one that is ready. Slots of device memory are sources and results
 * of operations (kernels/operation.h): reserve, begin one into the slot, commit when it has ended;
 * peek, begin one that reads it, release when it has ended. */
static inline enum rcmi_mem_kind rcmi_channel_kind(const struct rcmi_channel *channel);
/* RCM_OK when it can carry data, RCM_AGAIN while opening, else why it cannot (thread's error set,
 * origin = the peer). */
rcm_status rcmi_channel_state(const struct rcmi_channel *channel);
/* It has failed, and for no other reason than that its peer, or one of several readers, has left in
 * order: nothing more comes from there, and nothing is taken. */
bool rcmi_channel_peer_left(const struct rcmi_channel *channel);
/* It is ready, or was before it failed. */
bool rcmi_channel_was_ready(const struct rcmi_channel *channel);

/*
 * The data operations of one end are for one thread at a time. They never block and never
 * allocate. RCM_AGAIN means nothing changed: rcmi_node_progress, then try again. An error is final
 * for the channel (the peer died, sent nonsense, the node is closing).
 */

/* Messages of up to so many bytes may travel beside the slots: then more of them may be under way
 * than there are slots, the next reserve gives the same slot, and the reader has no reply. */
#define RCMI_TINY 128

/* Longest message whose payload the reader may have to get: longer than a slot. */
#define RCMI_GET_MAX ((size_t)8 << 20)

/* Where a message is to be written. */
struct rcmi_reserved {
    void *bytes;
    enum rcmi_stores stores; /* the better ones for it; others are right too */
    bool posted;             /* memory that the reader posted, not a slot */
};

/* Writer: memory for the next message, of len bytes, at most the slot size: a slot, or what the
 * reader has posted for it. Until commit the same call gives the same slot. */
static inline rcm_status rcmi_channel_reserve(struct rcmi_channel *channel, size_t len,
                                              struct rcmi_reserved *ret_reserved);
/* Writer: publishes what was reserved, with len bytes, all of them if the target was posted; meta
 * travels with it. Rings the readers. */
static inline void rcmi_channel_commit(struct rcmi_channel *channel, size_t len, uint64_t meta);
/* Writer: publishes memory that stays as it is, unchanged, until rcmi_channel_completed; up
 * to the slot size, or with may_get RCMI_GET_MAX. Also after a reserve, which it ends. may_get: the
 * reader may have to get them (peek then has no bytes). RCM_ERR_UNSUPPORTED if this channel cannot
 * send from that memory, which may be of any kind: reserve and copy. Registered
 * memory may still be read after the channel was closed, until freed or deregistered. */
static inline rcm_status rcmi_channel_send_zero_copy(struct rcmi_channel *channel,
                                                     const struct rcmi_mem *mem, uint64_t meta,
                                                     bool may_get);
/* Do messages go out from that memory without a copy, as far as is known before they are sent? Host
 * memory may. Memory of other kinds may only where it is registered, and the row has made something
 * of that. */
bool rcmi_channel_may_zero_copy(const struct rcmi_channel *channel, const struct rcmi_mem *mem);
/* Writer: local completion: of the first `number` messages nothing that was sent without a copy is
 * needed any more. Where that is not told apart, true once it holds for all. */
static inline bool rcmi_channel_completed(struct rcmi_channel *channel, uint64_t number);

/* Writer: messages published so far; and whether the readers have given back the first `number` of
 * them, true also where that is not heard of promptly. */
static inline uint64_t rcmi_channel_sent(const struct rcmi_channel *channel);
static inline bool rcmi_channel_taken(struct rcmi_channel *channel, uint64_t number);
/* The same of one reader, counted as in rcmi_channel_open_writer. */
static inline bool rcmi_channel_taken_by(struct rcmi_channel *channel, int reader, uint64_t number);

/* Reader: the oldest message not yet released. It stays there until release. */
struct rcmi_slot {
    const void *bytes; /* NULL: len bytes at `remote` in the writer's memory, to be got */
    size_t len;        /* checked by the transport: at most the slot size, or what may be got */
    uint64_t meta;
    uint64_t remote;
    void *reply; /* where the writer will find what this reader, its only one, leaves there before
                    the release: the slot, which it reads where it got it from reserve. NULL if
                    there is no such place, as for tiny messages; set by shared_slots transports
                    only. */
};
static inline rcm_status rcmi_channel_peek(struct rcmi_channel *channel,
                                           struct rcmi_slot *ret_slot);
/* Reader: gives the slot of the last successful peek back to the writer. */
static inline void rcmi_channel_release(struct rcmi_channel *channel);

/* Reader: a posted receive: the message after the next `ahead` unreleased ones may be written
 * straight to mem, if it is not longer, at any time from now on; peek then says so by the same
 * pointer. A hint. */
struct rcmi_posted {
    struct rcmi_mem mem;
    uint32_t ahead;
    /* mask not 0: of this message only the writer knows the length. What lies beyond its end stays
     * as it was, and only one whose meta & mask is `meta` goes there. Else the contents of cap
     * bytes are undefined until a message has filled them. */
    uint64_t meta, mask;
};
/* The memory is the channel's until that message was peeked. False: it is of no use here. NULL
 * withdraws all, at once: from then on nothing is written there any more, but that a writer in
 * mapped memory of rcmi_node_memory_alloc may still go on with one message, and that one that
 * writes to registered memory, of posts without a mask, may do so until it has heard. What comes so
 * is peeked elsewhere; that it has heard is waited for where the memory is unregistered or freed.
 */
static inline bool rcmi_channel_post_receive(struct rcmi_channel *channel,
                                             const struct rcmi_posted *posted);

/*
 * Reader: fills dest from what lies at `remote` in the writer's process, a piece for each call:
 * the payload of the message that was peeked, or what another message told of, for as long as it
 * said. `helped`: the writer has a CPU of its own, and calls rcmi_channel_help meanwhile, so that
 * both copy. RCM_AGAIN: not all is there yet; the same call again (also once the writer has closed
 * its end: what is there by then is not what was sent, and why will be heard of). A peeked message
 * comes in any case: where the one process may not read the other's memory the writer's help brings
 * it by its slot. Else that is RCM_ERR_UNSUPPORTED, without a sentence. *moved: it copied. One at a
 * time, to its end or to the channel's: once the channel is closed, or this is done or says
 * RCM_ERR_UNSUPPORTED, nothing writes to dest any more (but a writer whose process got no
 * processor for a second after it had begun). After any other error the channel is to be closed
 * first.
 */
static inline rcm_status rcmi_channel_get(struct rcmi_channel *channel, const struct rcmi_mem *dest,
                                          uint64_t remote, bool helped, bool *moved);
/* Writer: copies a bounded piece of what the reader is getting. False: there is nothing to do. To
 * be called until completed, or until the reader said that it is done. */
static inline bool rcmi_channel_help(struct rcmi_channel *channel);

/* ==== Part 2: what a transport is ============================================================ */

struct rcmi_link;

#define RCMI_BLOB_MAX 256 /* bytes a transport may add to a handshake or an open */
#define RCMI_FDS_MAX  4

/* A blob with descriptors (Unix control streams only). Receivers own the descriptors they take and
 * set them to -1; the framework closes what is left. */
struct rcmi_blob {
    uint8_t bytes[RCMI_BLOB_MAX];
    size_t len;
    int fds[RCMI_FDS_MAX];
    int nfds;
};

/* What a node will have, as far as that is known before it has met the others. */
struct rcmi_need {
    int nranks;
    uint32_t slots; /* of a channel */
    size_t slot_bytes;
    size_t slot_memory; /* that the slots of all channels may have */
    bool starts;        /* a node is made: a driver may still come, and is not loaded for this */
};

/*
 * One row per transport. Every slot is filled. The framework allocates domain, link and channel
 * state (sizes below, zeroed; a channel's state begins with struct rcmi_channel) and calls fini on
 * whatever init touched, also if init failed half-way. "Loop" = called on the loop thread only.
 */
struct rcmi_transport {
    const char *name;
    const char *description;
    /* Of its slots. A row of device memory serves the device plane of links whose host plane is up,
     * of pairs of one host whose control stream is a Unix socket: same_host, and no data_sockets;
     * its addresses of slots, not NULL also for messages without bytes, are for operations, and
     * never touched by the CPU. Messages may be committed, and released, once the operations on
     * their slots have ended. */
    enum rcmi_mem_kind kind;
    bool loops_back;     /* serves a rank with itself, and no other pair */
    bool same_host;      /* serves only pairs of equal host_id, over a Unix control stream */
    bool multicast;      /* channels may have several readers */
    int data_sockets;    /* extra connections per link that the framework dials, authenticates and
                            hands over */
    bool shared_slots;   /* another core reads a slot where the writer wrote it */
    uint32_t bulk_scale; /* see RCMI_ID_BULK; 1 where slots of any size are memory */
    bool pinned_slots;   /* all bytes of a slot take memory, touched or not */
    size_t domain_size, link_size, channel_size;

    /* Can it work in this process? Tries what a node will do, and leaves nothing behind. reason: a
     * sentence in any case. */
    bool (*probe)(const struct rcmi_need *need, char *reason, size_t cap);

    /* Per node. */
    rcm_status (*domain_init)(void *domain, struct rcmi_node *node);
    void (*domain_fini)(void *domain);
    /* rcmi_node_progress and rcmi_node_arm of this transport. Any thread. */
    bool (*progress)(void *domain);
    void (*arm)(void *domain);
    /* Before a thread of this process sleeps on descriptors: *ret_fd is readable while there is
     * something for progress to move, -1 if there never is. False if peers have other ways to
     * tell that something came; it may become so at any time, then the doorbell is rung. Any
     * thread. */
    bool (*attend)(void *domain, int *ret_fd);

    /* Memory that peers can map, and its end. take: RCM_ERR_UNSUPPORTED without a sentence if there
     * is no such thing. Any thread. */
    rcm_status (*memory_take)(void *domain, size_t bytes, void **ret_memory);
    void (*memory_give)(void *domain, void *memory);
    /* Every row is told of memory of its kind from which messages are sent and to which they come
     * again and again: what memory_take of any row gave, and what users register. *ret_own is what
     * the row remembers of it, NULL at first; in the data operations it finds that by
     * rcmi_registration_of. Where it can do nothing with such memory that is RCM_OK, too;
     * RCM_ERR_RESOURCE if the system has no room for what it would do. unregister: once it returns
     * the memory is not used by this row but late writes of peers that gave up, into memory that is
     * theirs to map; false: a process that has ended, or has not let go of it by the deadline, may
     * still read it, so that memory that was handed out stays until this one ends. Any thread. */
    rcm_status (*memory_register)(void *domain, const struct rcmi_mem *mem, void **ret_own);
    bool (*memory_unregister)(void *domain, void *own, rcmi_deadline deadline);

    /* Per link. offer fills what the peer needs; accept takes the peer's (untrusted). attach takes
     * over data socket number i (connected, authenticated, non-blocking), also if it fails; it
     * comes after offer and accept. The descriptors of an offer or answer stay the transport's and
     * must live as long as the domain. ready, after all of these: RCM_OK once the link can carry
     * data in both directions, RCM_AGAIN before; it is asked again after rcmi_node_link_changed.
     * No channel is opened before both sides have said RCM_OK. The two ends of a device plane each
     * offer first, then accept, and have a device (row.h) by then. From any slot up to that
     * RCM_ERR_UNSUPPORTED, with a sentence, declines: down and fini follow at once, on both sides,
     * and the pair's next transport is tried; of a device plane, the link goes on without one, and
     * RCM_ERR_NOMEM, _RESOURCE and _SYSTEM decline, too.
     * down: the peer is gone, or has declined, or the node closes: every channel of the link fails
     * from now on, as its state says, but readers that were ready when the peer had said farewell;
     * legal at any time, idempotent. fini after down, when no channel is left.
     * flushed, of a link that is ready: takes all that has come by it, also what another thread is
     * about to take; whether what was committed here arrives even if the link goes down now; it is
     * asked again and again until then. Loop. */
    rcm_status (*link_init)(void *link, void *domain, int peer);
    rcm_status (*link_offer)(void *link, struct rcmi_blob *ret_offer);
    rcm_status (*link_accept)(void *link, struct rcmi_blob *offer);
    rcm_status (*link_attach)(void *link, int i, int fd);
    rcm_status (*link_ready)(void *link);
    bool (*link_flushed)(void *link);
    void (*link_down)(void *link);
    void (*link_fini)(void *link);

    /* Per channel end. Writer: init allocates its slots; offer fills what reader number r needs;
     * attach takes reader r's answer. Reader: init; accept takes the writer's offer and fills the
     * answer; then it is ready. links[r] is the transport's link state of reader r (of the writer:
     * links[0]). fini at any time after init. Loop. */
    rcm_status (*writer_init)(struct rcmi_channel *channel, void *const *links, int nreaders);
    rcm_status (*writer_offer)(struct rcmi_channel *channel, int r, struct rcmi_blob *ret_offer);
    rcm_status (*writer_attach)(struct rcmi_channel *channel, int r, struct rcmi_blob *answer);
    rcm_status (*reader_init)(struct rcmi_channel *channel, void *link);
    rcm_status (*reader_accept)(struct rcmi_channel *channel, struct rcmi_blob *offer,
                                struct rcmi_blob *ret_answer);
    /* The user closed a writer: what was committed, or sent without a copy from memory that is
     * copied now, still reaches the readers. What was sent without a copy from memory that readers
     * map (memory_take, or registered memory of this kind) may be read where it lies until they
     * close: its owner unregisters it, or gives it back, before it is freed, and says to users that
     * contents are undefined by then (ringcomm.h). All else that was sent so is not read any more.
     * fini follows, at the latest when all readers closed. */
    void (*writer_close)(struct rcmi_channel *channel);
    void (*channel_fini)(struct rcmi_channel *channel);

    /* The data operations of part 1, at most ten. Called only when the channel is ready. */
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

/* All transports, in order of preference; ends with NULL. A new one is its folder and a word in
 * the list of meson.build. */
extern const struct rcmi_transport *const rcmi_transports[];
/* The number of a row in it; of one around another row, of that. */
int rcmi_transport_number(const struct rcmi_transport *transport);

/* The common head of every channel. The framework writes it on the loop thread before `state`
 * becomes ready; the data operations read it. */
struct rcmi_channel {
    const struct rcmi_transport *transport;
    struct rcmi_node *node;
    size_t slot_bytes; /* final when ready */
    uint32_t slots;
    uint64_t epoch;
    uint32_t id;
    int writer;   /* world rank */
    int nreaders; /* as the writer knows it; 1 on a reader */
    bool is_writer;
    const struct rcmi_protocol *protocol; /* the node's */
    /* enum rcm_status: RCM_AGAIN, then RCM_OK, or an error for good. Release store on the loop
     * thread pairs with the acquire load in the data operations. */
    _Atomic int state;
    _Atomic int lost_peer;        /* that made it fail, -1; written before state */
    uint64_t sent;                /* messages published; the writer's */
    size_t payload;               /* of the message that was peeked last; the reader's */
    struct rcmi_traffic *traffic; /* see rcmi_channel_count; NULL: not counted */
    uint32_t row;                 /* number of its transport; as `transport` */
    void *framework;              /* channel.c's own */
};

/* Sets the thread's error for a failed or opening channel and returns its state. Not inlined. */
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
        rcmi_count(&c->traffic[c->row].sent_bytes, bytes);
}

static inline void rcmi_channel_received_beside(struct rcmi_channel *c, size_t bytes) {
    if (c->traffic)
        rcmi_count(&c->traffic[c->row].received_bytes, bytes);
}

static inline void rcmi_channel_peeked_beside(struct rcmi_channel *c, size_t bytes) {
    c->payload = bytes;
}

static inline void rcmi_channel_published(struct rcmi_channel *c, size_t bytes) {
    c->sent++;
    if (c->traffic) {
        rcmi_count(&c->traffic[c->row].sent, 1);
        rcmi_count(&c->traffic[c->row].sent_bytes, bytes);
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
        return RCM_ERR_UNSUPPORTED; /* the row does not reach it */
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
    if (status == RCM_OK)
        c->payload = ret_slot->len;
    return status;
}

static inline void rcmi_channel_release(struct rcmi_channel *c) {
    if (c->traffic) {
        rcmi_count(&c->traffic[c->row].received, 1);
        rcmi_count(&c->traffic[c->row].received_bytes, c->payload);
    }
    c->transport->release(c);
}

static inline bool rcmi_channel_post_receive(struct rcmi_channel *c,
                                             const struct rcmi_posted *posted) {
    /* Of a channel that failed, too, what was posted is withdrawn. */
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
