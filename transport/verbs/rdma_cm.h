/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of librdmacm that connect queue pairs of iWARP, as a function table like that of
 * table.h: filled from the library at run time, or by a test. Names and contracts are those of
 * <rdma/rdma_cma.h>; the last two are those of <ifaddrs.h>.
 */
#ifndef RCMI_VERBS_RDMA_CM_H
#define RCMI_VERBS_RDMA_CM_H

#include <ifaddrs.h>
#include <rdma/rdma_cma.h>
#include <stddef.h>

struct verbs_cm_table {
    struct rdma_event_channel *(*create_event_channel)(void);
    void (*destroy_event_channel)(struct rdma_event_channel *channel);
    int (*create_id)(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                     enum rdma_port_space ps);
    int (*destroy_id)(struct rdma_cm_id *id);
    int (*bind_addr)(struct rdma_cm_id *id, struct sockaddr *addr);
    int (*listen)(struct rdma_cm_id *id, int backlog);
    __be16 (*get_src_port)(struct rdma_cm_id *id);
    int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
                        int timeout_ms);
    int (*resolve_route)(struct rdma_cm_id *id, int timeout_ms);
    int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *param);
    int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *param);
    int (*reject)(struct rdma_cm_id *id, const void *private_data, uint8_t len);
    int (*get_cm_event)(struct rdma_event_channel *channel, struct rdma_cm_event **event);
    int (*ack_cm_event)(struct rdma_cm_event *event);

    int (*getifaddrs)(struct ifaddrs **list);
    void (*freeifaddrs)(struct ifaddrs *list);
};

/* The table of the library, which is loaded once per process. NULL: librdmacm is not usable. */
const struct verbs_cm_table *verbs_cm_library(void);

#endif
