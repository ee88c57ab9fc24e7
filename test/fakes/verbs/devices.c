/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices with one port each, in subnets according to the setup. */
#include "fake_verbs.h"
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

void fake_verbs_device(struct ibv_device *device, int i) {
    static const struct {
        enum ibv_node_type node;
        enum ibv_transport_type transport;
    } kinds[] = {
        [PROVIDER_HARDWARE] = {IBV_NODE_CA, IBV_TRANSPORT_IB},
        [PROVIDER_SOFTWARE] = {IBV_NODE_CA, IBV_TRANSPORT_IB},
        [PROVIDER_IWARP] = {IBV_NODE_RNIC, IBV_TRANSPORT_IWARP},
        [PROVIDER_EFA] = {IBV_NODE_UNSPECIFIED, IBV_TRANSPORT_UNSPECIFIED},
    };
    const enum provider_kind kind = fake.setup.kind;
    *device =
        (struct ibv_device){.node_type = kinds[kind].node, .transport_type = kinds[kind].transport};
    snprintf(device->name, sizeof device->name, "fake%d", i);
    snprintf(device->dev_name, sizeof device->dev_name, "uverbs%d", i);
}

static uint8_t layer(void) {
    return fake.setup.layer ? fake.setup.layer : IBV_LINK_LAYER_ETHERNET;
}

static struct ibv_device **fake_get_device_list(int *num_devices) {
    if (fake_verbs_call_fails(PROVIDER_DEVICE_LIST))
        return NULL;
    struct ibv_device **list = fake_verbs_make((DEVICES_MAX + 1) * sizeof(struct ibv_device *));
    for (int i = 0; i < fake.setup.devices; i++)
        list[i] = &fake.devices[i];
    if (num_devices)
        *num_devices = fake.setup.devices;
    return list;
}

static void fake_free_device_list(struct ibv_device **list) {
    fake_verbs_unmake(list);
}

static struct ibv_context *fake_open_device(struct ibv_device *device) {
    if (fake_verbs_call_fails(PROVIDER_OPEN_DEVICE))
        return NULL;
    struct fake_context *context = fake_verbs_make(sizeof *context);
    context->base.device = device;
    context->base.async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    pthread_mutex_lock(&fake.lock);
    context->next = fake.contexts;
    fake.contexts = context;
    pthread_mutex_unlock(&fake.lock);
    return &context->base;
}

static int fake_close_device(struct ibv_context *base) {
    struct fake_context **at = &fake.contexts;
    pthread_mutex_lock(&fake.lock);
    while (&(*at)->base != base)
        at = &(*at)->next;
    *at = (*at)->next;
    pthread_mutex_unlock(&fake.lock);
    close(base->async_fd);
    (void)fake_verbs_unmake(base);
    return fake_verbs_ended(PROVIDER_CLOSE_DEVICE);
}

/* ---- Events ---------------------------------------------------------------------------------- */

void fake_verbs_event(const struct ibv_device *device, const struct ibv_async_event *event) {
    const uint64_t one = 1;
    for (struct fake_context *context = fake.contexts; context; context = context->next) {
        const bool of_queue_pair =
            event->event_type <= IBV_EVENT_PATH_MIG_ERR && event->event_type != IBV_EVENT_CQ_ERR;
        if (context->base.device != device ||
            (of_queue_pair && event->element.qp->context != &context->base))
            continue;
        REQUIRE(context->nevents < 64);
        context->events[context->nevents++] = *event;
        REQUIRE(write(context->base.async_fd, &one, sizeof one) == sizeof one);
    }
}

static int fake_get_async_event(struct ibv_context *base, struct ibv_async_event *event) {
    struct fake_context *context = (struct fake_context *)base;
    uint64_t one;
    if (fake_verbs_call_fails(PROVIDER_GET_ASYNC_EVENT) ||
        read(base->async_fd, &one, sizeof one) != sizeof one)
        return -1;
    pthread_mutex_lock(&fake.lock);
    *event = context->events[0];
    memmove(context->events, context->events + 1, sizeof *event * (size_t)--context->nevents);
    pthread_mutex_unlock(&fake.lock);
    return 0;
}

/* ---- Ports ----------------------------------------------------------------------------------- */

static int fake_query_device(struct ibv_context *context, struct ibv_device_attr *attr) {
    (void)context;
    if (fake_verbs_call_fails(PROVIDER_QUERY_DEVICE))
        return EIO;
    *attr = (struct ibv_device_attr){.max_cqe = CQE_MAX, .phys_port_cnt = 1};
    return 0;
}

static int fake_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr) {
    if (fake_verbs_call_fails(PROVIDER_QUERY_PORT))
        return EIO;
    REQUIRE(port == 1);
    const int number = (int)(context->device - fake.devices);
    const enum ibv_port_state state = fake.setup.port_state;
    *attr = (struct ibv_port_attr){
        .state = state ? state : IBV_PORT_ACTIVE,
        .active_mtu = IBV_MTU_1024,
        .max_mtu = IBV_MTU_4096,
        .gid_tbl_len = 2,
        .pkey_tbl_len = FAKE_PKEYS,
        .lid = layer() == IBV_LINK_LAYER_INFINIBAND ? fake_verbs_lid(number) : 0,
        .sm_lid = 1,
        .active_width = 2,
        .active_speed = 32,
        .link_layer = layer()};
    return 0;
}

/* The default partition; one with full members only; one with limited members only. */
const uint16_t fake_verbs_pkeys[FAKE_PKEYS] = {0xffff, 0x8005, 0x0007};

uint16_t fake_verbs_lid(int device) {
    return (uint16_t)(0x10 + device);
}

/* RoCE: 10.SUBNET.0.DEVICE at index 1, and an unusable address at index 0. InfiniBand: the subnet's
 * prefix and a number at index 0, and no others. */
void fake_verbs_gid(int device, int index, union ibv_gid *gid) {
    const uint8_t subnet = (uint8_t)(fake.setup.subnets ? device % fake.setup.subnets : 0);
    const uint8_t number = (uint8_t)(device + 1);
    memset(gid, 0, sizeof *gid);
    if (layer() != IBV_LINK_LAYER_INFINIBAND)
        memcpy(gid->raw + 10, (const uint8_t[]){0xff, 0xff, 10, subnet, 0, number}, 6);
    else if (index == 0)
        memcpy(gid->raw, (const uint8_t[16]){0xfe, 0x80, [7] = subnet, [15] = number}, 16);
}

static int fake_query_gid(struct ibv_context *context, uint8_t port, int index,
                          union ibv_gid *gid) {
    const int i = (int)(context->device - fake.devices);
    if (fake_verbs_call_fails(PROVIDER_QUERY_GID))
        return EIO;
    REQUIRE(port == 1 && index < 2);
    fake_verbs_gid(i, index, gid);
    return 0;
}

static int fake_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey) {
    (void)context;
    if (fake_verbs_call_fails(PROVIDER_QUERY_PKEY))
        return EIO;
    REQUIRE(port == 1 && index < FAKE_PKEYS);
    *pkey = htons(fake_verbs_pkeys[index]);
    return 0;
}

static bool fake_is_hardware(const struct ibv_device *device) {
    (void)device;
    return fake.setup.kind != PROVIDER_SOFTWARE;
}

static void fake_describe_gid(const struct ibv_device *device, uint8_t port, int index,
                              const union ibv_gid *gid, struct verbs_gid *ret_gid) {
    (void)device;
    (void)port;
    (void)gid;
    *ret_gid = (struct verbs_gid){.roce_v2 = index == 1, .ipv4_prefix = 24};
}

static struct ibv_pd *fake_alloc_pd(struct ibv_context *context) {
    if (fake_verbs_call_fails(PROVIDER_ALLOC_PD))
        return NULL;
    struct ibv_pd *pd = fake_verbs_make(sizeof *pd);
    pd->context = context;
    return pd;
}

static int fake_dealloc_pd(struct ibv_pd *pd) {
    (void)fake_verbs_unmake(pd);
    return fake_verbs_ended(PROVIDER_DEALLOC_PD);
}

static int fake_fork_init(void) {
    return 0;
}

static void fake_ack_async_event(struct ibv_async_event *event) {
    (void)event;
}

static void fake_place_of(const struct ibv_device *device, struct verbs_place *ret_place) {
    const struct verbs_place *places = fake.setup.places;
    *ret_place = places ? places[device - fake.devices] : (struct verbs_place){.numa = -1};
}

void fake_verbs_devices(struct verbs_table *table) {
    table->get_device_list = fake_get_device_list;
    table->free_device_list = fake_free_device_list;
    table->open_device = fake_open_device;
    table->close_device = fake_close_device;
    table->query_device = fake_query_device;
    table->query_port = fake_query_port;
    table->query_gid = fake_query_gid;
    table->query_pkey = fake_query_pkey;
    table->is_hardware = fake_is_hardware;
    table->describe_gid = fake_describe_gid;
    table->place_of = fake_place_of;
    table->alloc_pd = fake_alloc_pd;
    table->dealloc_pd = fake_dealloc_pd;
    table->fork_init = fake_fork_init;
    table->get_async_event = fake_get_async_event;
    table->ack_async_event = fake_ack_async_event;
}
