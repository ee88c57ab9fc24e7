/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fake libibverbs provider: the functions of libibverbs (transport/verbs/table.h) within one
 * process, whose ranks are nodes of threads.
 *
 * A thread stands for the hardware. It executes posted work in order within a queue pair, and in an
 * order that a seed decides between queue pairs. It enforces a device's rules: keys, bounds and
 * rights of memory, states of queue pairs, room in queues (only polled completions free the entries
 * of a send queue), inline sizes. Work that breaks a rule gets a device's completion, or ends the
 * program if the behaviour would be undefined.
 *
 * Not for: bytes on a wire, speed.
 */
#ifndef TEST_VERBS_PROVIDER_H
#define TEST_VERBS_PROVIDER_H

#include <stdbool.h>
#include <stdint.h>
#include "../../../transport/verbs/table.h"

/* Calls that can be made to fail. A failing destroy call destroys its object all the same and
 * returns an error, like a device during a reset. */
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
    PROVIDER_CM_GETIFADDRS, /* this one and the following: iWARP only */
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

/* Kinds of devices. An iWARP device completes a send when TCP has accepted it, which may be long
 * before its bytes are read from memory. Only a completed read proves that everything before it has
 * arrived. */
enum provider_kind { PROVIDER_HARDWARE, PROVIDER_SOFTWARE, PROVIDER_IWARP, PROVIDER_EFA };

struct provider_setup {
    uint32_t seed;
    int devices;                      /* fake0, fake1, ..., with one port each */
    int subnets;                      /* device i is in subnet i % subnets; 0: all in one */
    uint32_t inline_max;              /* bytes; longer ones are rejected */
    const struct verbs_place *places; /* per device; NULL: unknown */
    enum provider_kind kind;
    bool without_cm;                /* without librdmacm */
    uint8_t layer;                  /* IBV_LINK_LAYER_; 0: Ethernet */
    enum ibv_port_state port_state; /* 0: active */
};

/* Counts of all queue pairs together. */
struct provider_counts {
    uint64_t posts, sends, writes; /* calls of post_send; work requests posted */
    uint64_t send_completions;     /* requested ones and errors */
    uint64_t events;
};

/* Until provider_remove, nodes find these devices and no others. With FAKE_IWARP in the
 * environment, a device without kind and layer in `setup` is iWARP. If RINGCOMM_VERBS_DEVICES is
 * unset, it is set to the names of iWARP devices. */
void provider_install(const struct provider_setup *setup);
/* All objects must be destroyed. */
void provider_remove(void);
/* Forked children, which have none of the threads, start their own fake devices. */
void provider_follow_forks(void);

/* The number-th call of that kind from now on fails, counted from 1. 0: none. */
void provider_fail_call(enum provider_call call, int number);
/* The same with that errno. */
void provider_fail_call_with(enum provider_call call, int number, int error);
/* The same for the completion of a send. number counts executed sends. */
void provider_fail_send(enum ibv_wc_status status, int number);
/* How often the function was called since provider_install. */
int provider_calls(enum provider_call call);
/* Delay for connecting the younger of two queue pairs. */
void provider_slow_connect(int64_t ms);
/* While cut, nothing reaches another queue pair. A send fails when its retries are used up. */
void provider_cut(bool cut);
/* Events of that rdma_cm type (CONNECT_REQUEST or ESTABLISHED) carry wrong private data; -1:
 * none. */
void provider_garble(int type);
/* A listener gets no connect requests. */
void provider_silent(bool silent);
/* While held, the hardware does nothing, and nothing times out. */
void provider_hold(bool hold);
/* True if all posted work is executed. */
bool provider_idle(void);
/* Raises an event of the device; an event of queue pairs is raised for each of the device.
 * IBV_EVENT_DEVICE_FATAL and events of queue pairs also fail the queue pairs, with
 * IBV_EVENT_DEVICE_FATAL without completions. */
void provider_event(int device, enum ibv_event_type type);
struct provider_counts provider_counts(void);
/* The path of a connected queue pair of the device; returns false if there is none. */
struct provider_path {
    uint16_t lid, pkey;
    uint8_t sl, traffic_class;
    bool is_global;
};
bool provider_path(int device, struct provider_path *ret_path);
/* Number of the device's queue pairs that exist. */
int provider_queue_pairs(int device);

#endif
