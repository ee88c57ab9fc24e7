/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA devices that are not there: the functions of libibverbs (transport/verbs/table.h) in one
 * process, whose ranks are nodes of threads. A thread plays the hardware: it carries out what was
 * posted, in order within a queue pair, in an order between them that a seed decides. Held against
 * a device's rules are: keys, bounds and rights of memory, states of queue pairs, room in queues
 * (entries of a send queue come free by polled completions only), inline sizes; what breaks them
 * gets the completion that a device would make of it, or ends the program where that would be
 * undefined.
 *
 * Not for: bytes on a wire, speed.
 */
#ifndef TEST_VERBS_PROVIDER_H
#define TEST_VERBS_PROVIDER_H

#include <stdbool.h>
#include <stdint.h>
#include "../../../transport/verbs/table.h"

/* Calls that can be made to fail. What ends an object ends it all the same, and says that it could
 * not, as a device does that is being reset. */
enum provider_call {
    PROVIDER_DEVICE_LIST,
    PROVIDER_OPEN_DEVICE,
    PROVIDER_QUERY_DEVICE,
    PROVIDER_QUERY_PORT,
    PROVIDER_QUERY_GID,
    PROVIDER_QUERY_PKEY,
    PROVIDER_ALLOC_PD,
    PROVIDER_REG_MR,
    PROVIDER_CREATE_CHANNEL,
    PROVIDER_CREATE_CQ,
    PROVIDER_CREATE_QP,
    PROVIDER_MODIFY_QP,
    PROVIDER_POST_SEND,
    PROVIDER_POST_RECV,
    PROVIDER_POLL_CQ,
    PROVIDER_REQ_NOTIFY,
    PROVIDER_GET_EVENT,
    PROVIDER_GET_ASYNC_EVENT,
    PROVIDER_DESTROY_QP,
    PROVIDER_DESTROY_CQ,
    PROVIDER_DESTROY_CHANNEL,
    PROVIDER_DEREG_MR,
    PROVIDER_DEALLOC_PD,
    PROVIDER_CLOSE_DEVICE,
    PROVIDER_CM_GETIFADDRS, /* this one and those behind it: of iWARP only */
    PROVIDER_CM_CHANNEL,
    PROVIDER_CM_ID,
    PROVIDER_CM_BIND,
    PROVIDER_CM_LISTEN,
    PROVIDER_CM_RESOLVE_ADDR,
    PROVIDER_CM_RESOLVE_ROUTE,
    PROVIDER_CM_CONNECT,
    PROVIDER_CM_ACCEPT,
    PROVIDER_CM_GET_EVENT,
    PROVIDER_CALLS,
};

/* What devices are. An iWARP one tells of the end of a send when TCP has taken it, which may be
 * long before its bytes are read from where they lie; only a read tells that all before it has
 * arrived.
 */
enum provider_kind { PROVIDER_HARDWARE, PROVIDER_SOFTWARE, PROVIDER_IWARP, PROVIDER_EFA };

struct provider_setup {
    uint32_t seed;
    int devices;                      /* fake0, fake1, ...; of one port each */
    int subnets;                      /* device i is in subnet i % subnets; 0: all in one */
    uint32_t inline_max;              /* bytes; more is refused */
    const struct verbs_place *places; /* of each device; NULL: not known */
    enum provider_kind kind;
    bool without_cm;                /* there is no librdmacm */
    uint8_t layer;                  /* IBV_LINK_LAYER_; 0: Ethernet */
    enum ibv_port_state port_state; /* 0: active */
};

/* What was done, of all queue pairs together. */
struct provider_counts {
    uint64_t posts, sends, writes; /* calls of post_send; what they posted */
    uint64_t send_completions;     /* that were asked for, or are errors */
    uint64_t events;
};

/* From here to provider_remove nodes find these devices, and no others. Hardware whose kind and
 * layer are not told is iWARP if the environment has FAKE_IWARP. RINGCOMM_VERBS_DEVICES, if it is
 * not set, names those of iWARP. */
void provider_install(const struct provider_setup *setup);
/* Nothing of it must be left. */
void provider_remove(void);
/* Has forked children play the devices anew, which have none of the threads. */
void provider_follow_forks(void);

/* The call with that number, from 1, of its kind fails from now on. 0: none does. */
void provider_fail_call(enum provider_call call, int number);
/* The same, with that error number. */
void provider_fail_call_with(enum provider_call call, int number, int error);
/* The same for the completion of what is sent: number counts what is carried out. */
void provider_fail_send(enum ibv_wc_status status, int number);
/* How often it was called since it was installed. */
int provider_calls(enum provider_call call);
/* Of two queue pairs the one that was made later takes so long to be connected. */
void provider_slow_connect(int64_t ms);
/* Nothing reaches another queue pair any more, until it may again; what is sent meanwhile fails
 * when its queue pair has tried as long as it was told to. */
void provider_cut(bool cut);
/* Events of that type of rdma_cm, CONNECT_REQUEST or ESTABLISHED, bring something else than what
 * the other side has said; -1: none do. */
void provider_garble(int type);
/* A listener does not hear of those that connect to it. */
void provider_silent(bool silent);
/* The hardware does nothing, and nothing fails of that, until it goes on. */
void provider_hold(bool hold);
/* Nothing that was posted is left to carry out. */
bool provider_idle(void);
/* The device has that event; of a queue pair: of each that it has. With IBV_EVENT_DEVICE_FATAL, and
 * those of queue pairs, these fail, with none of its completions if it is the device's. */
void provider_event(int device, enum ibv_event_type type);
struct provider_counts provider_counts(void);
/* By which a queue pair of the device goes to its peer; false: none is connected. */
struct provider_path {
    uint16_t lid, pkey;
    uint8_t sl, traffic_class;
    bool is_global;
};
bool provider_path(int device, struct provider_path *ret_path);
/* Of that device, that were made and not destroyed. */
int provider_queue_pairs(int device);

#endif
