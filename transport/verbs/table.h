/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of libibverbs that the backend uses, as a function table. It is filled from the
 * library at run time, so that one binary works with and without it, or by a test
 * (fakes/verbs/provider.c). Names and contracts are those of <infiniband/verbs.h>; the functions at
 * the end are not from that library.
 */
#ifndef RCMI_VERBS_TABLE_H
#define RCMI_VERBS_TABLE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "rdma_cm.h"
#include "locality.h"

/* Properties of a GID that <infiniband/verbs.h> does not provide. */
struct verbs_gid {
    bool roce_v2;
    int ipv4_prefix; /* prefix length of the interface's IPv4 address; 0: not IPv4 */
};

struct verbs_table {
    struct ibv_device **(*get_device_list)(int *num_devices);
    void (*free_device_list)(struct ibv_device **list);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
    int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
    int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
    int (*query_pkey)(struct ibv_context *context, uint8_t port, int index, __be16 *pkey);
    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access);
    int (*dereg_mr)(struct ibv_mr *mr);
    struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
    int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, void *cq_context,
                                struct ibv_comp_channel *channel, int comp_vector);
    int (*destroy_cq)(struct ibv_cq *cq);
    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
    int (*destroy_qp)(struct ibv_qp *qp);
    int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
    void (*ack_cq_events)(struct ibv_cq *cq, unsigned int nevents);
    int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event);
    void (*ack_async_event)(struct ibv_async_event *event);
    int (*fork_init)(void);

    /* Inline functions in <infiniband/verbs.h>, which call the device's driver. The first three
     * return an error number, or 0. */
    int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
    int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
    int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
    int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);

    /* The functions of rdma_cm; returns NULL if librdmacm is missing. */
    const struct verbs_cm_table *(*cm)(void);

    /* From /sys. */
    bool (*is_hardware)(const struct ibv_device *device);
    void (*describe_gid)(const struct ibv_device *device, uint8_t port, int index,
                         const union ibv_gid *gid, struct verbs_gid *ret_gid);
    void (*place_of)(const struct ibv_device *device, struct verbs_place *ret_place);
};

/* The table of the library, which is loaded once per process. NULL: reason contains the cause. */
const struct verbs_table *verbs_table(char *reason, size_t cap);
/* Sets a test's table for all nodes that are made from now on; NULL: the library's again. */
void verbs_table_set(const struct verbs_table *table);

#endif
