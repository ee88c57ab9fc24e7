/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: data from a peer for the verbs backend (transport/verbs/): the offers of a link, and
 * the notices and completions of its queue pair, at a link with a channel in each direction. The
 * input's first byte selects which; notices are a script, see step(). The fake device accepts posts
 * and carries nothing; completions come from the script.
 *
 * Channels are reflected: the reader accepts the writer's offer, so that this file is independent
 * of its format. Devices that carry data are in test/verbs/.
 */
#include "../../transport/verbs/verbs.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "fork.h"
#include "node.h"

enum { STEPS = 400, PORTS = 2, SENDS_MAX = 256 };

static int objects; /* queue pairs and registrations; changed by one thread at a time */

/* Posts of the link's queue pair: requested completions, and receives. */
static struct {
    uint64_t sends[SENDS_MAX];
    uint32_t nsends, posted, freed;
    uint32_t receives[VERBS_RECEIVES];
    uint32_t first_receive, nreceives;
} device;

/* ---- The device ------------------------------------------------------------------------------ */

static struct ibv_qp *qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr) {
    struct ibv_qp *qp = rcmi_zalloc(sizeof *qp);
    fuzz_require(qp != NULL && pd != NULL && attr->cap.max_send_wr == VERBS_SENDS,
                 "a queue pair has its size");
    qp->qp_num = 77;
    objects++;
    return qp;
}

static int qp_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask) {
    (void)mask;
    qp->state = attr->qp_state;
    return 0;
}

static int qp_destroy(struct ibv_qp *qp) {
    free(qp);
    objects--;
    return 0;
}

static struct ibv_mr *mr_register(struct ibv_pd *pd, void *addr, size_t length, int access) {
    struct ibv_mr *mr = rcmi_zalloc(sizeof *mr);
    fuzz_require(mr != NULL && pd != NULL && access != 0, "memory is registered for something");
    mr->addr = addr;
    mr->length = length;
    objects++;
    return mr;
}

static int mr_deregister(struct ibv_mr *mr) {
    free(mr);
    objects--;
    return 0;
}

static int send_post(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
    (void)bad;
    fuzz_require(qp->state == IBV_QPS_RTS, "what is sent goes by a queue pair that is connected");
    for (; wr; wr = wr->next) {
        fuzz_require(++device.posted - device.freed <= VERBS_SENDS, "the send queue has room");
        if (wr->send_flags & IBV_SEND_SIGNALED)
            device.sends[device.nsends++] = wr->wr_id;
    }
    return 0;
}

static int receive_post(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) {
    (void)bad;
    fuzz_require(qp->state != IBV_QPS_RESET && device.nreceives < VERBS_RECEIVES,
                 "the receive queue has room");
    const uint32_t at = (device.first_receive + device.nreceives++) % VERBS_RECEIVES;
    device.receives[at] = (uint32_t)wr->wr_id;
    return 0;
}

static const struct verbs_table table = {
    .create_qp = qp_create,
    .modify_qp = qp_modify,
    .destroy_qp = qp_destroy,
    .reg_mr = mr_register,
    .dereg_mr = mr_deregister,
    .post_send = send_post,
    .post_recv = receive_post,
};

/* ---- A link ---------------------------------------------------------------------------------- */

struct side {
    struct verbs_domain domain;
    struct verbs_link *links[PORTS][FUZZ_RANKS]; /* by port */
    struct verbs_link link;
    struct verbs_channel writer, reader;
    uint32_t numbers[2]; /* of the reader's end and the writer's */
};

static void port_fill(struct side *side, int i) {
    static struct ibv_pd pd;
    side->domain.ports[i] = (struct verbs_port){
        .domain = &side->domain,
        .method = &verbs_by_exchange,
        .links = side->links[i],
        .pd = &pd,
        .offered = {.gid = {[7] = (uint8_t)i},
                    .layer = IBV_LINK_LAYER_ETHERNET,
                    .mtu = IBV_MTU_1024},
        .number = 1,
        .room = 1,
        .name = "fuzz:1",
    };
}

static void link_init(struct side *side) {
    struct verbs_domain *domain = &side->domain;
    memset(side, 0, sizeof *side);
    memset(&device, 0, sizeof device);
    device.posted = device.freed = VERBS_FIRST_ENTRY;
    domain->node = fuzz_node(NULL);
    domain->table = &table;
    domain->generation = rcmi_fork_watch();
    domain->nranks = FUZZ_RANKS;
    domain->peer_timeout_ms = 1000;
    domain->links = side->links[0];
    domain->armed = true; /* no loop */
    domain->nports = PORTS;
    for (int i = 0; i < PORTS; i++)
        port_fill(side, i);
    fuzz_require(verbs_connector_make(domain) == RCM_OK &&
                     verbs_link_init(&side->link, domain, FUZZ_PEER) == RCM_OK,
                 "there is a link");
}

/* Takes the results of the connector. */
static void link_connect(struct side *side) {
    verbs_connector_free(&side->domain);
    fuzz_require(verbs_connector_make(&side->domain) == RCM_OK, "there is a connector");
}

static void channel_end(struct verbs_channel *channel) {
    if (channel->end)
        verbs_put_forget(channel->end); /* it would wait for an answer */
    verbs_channel_fini(&channel->base);
}

static void link_end(struct side *side) {
    channel_end(&side->writer);
    channel_end(&side->reader);
    verbs_link_down(&side->link);
    verbs_link_fini(&side->link);
    verbs_connector_free(&side->domain);
    fuzz_require(objects == 0, "nothing stays of a link");
    for (int i = 0; i < PORTS; i++)
        fuzz_require(side->domain.ports[i].room == 1, "what a link had of its ports is free again");
}

/* ---- Offers ---------------------------------------------------------------------------------- */

static void offer(struct side *side, bool initiator, struct fuzz_input *in) {
    struct rcmi_blob own = {.len = 0}, blob = {.len = 0};
    const uint8_t *bytes = fuzz_bytes(in, sizeof blob.bytes, &blob.len);
    memcpy(blob.bytes, bytes, blob.len);
    if (initiator)
        fuzz_require(verbs_link_offer(&side->link, &own) == RCM_OK, "all ports are offered");
    fuzz_judge(verbs_link_accept(&side->link, &blob));
    link_connect(side);
}

/* ---- Notices --------------------------------------------------------------------------------- */

/* The device reports a completion at the link's queue pair. */
static void completes(struct side *side, struct ibv_wc wc) {
    wc.qp_num = side->link.qp ? side->link.qp->qp_num : 0;
    (void)verbs_complete(&side->link, &wc);
}

/* The device fills the oldest receive; a longer send would not fit, and break the queue pair. */
static void notice_arrives(struct side *side, const void *bytes, size_t len) {
    if (device.nreceives == 0 || len > sizeof(struct verbs_notice))
        return;
    const uint32_t i = device.receives[device.first_receive];
    const struct ibv_wc wc = {.wr_id = VERBS_ID_RECEIVE | verbs_id(&side->link, i),
                              .byte_len = (uint32_t)len};
    device.first_receive = (device.first_receive + 1) % VERBS_RECEIVES;
    device.nreceives--;
    memcpy(side->link.notices.memory + (size_t)i * VERBS_NOTICE_STEP, bytes, len);
    completes(side, wc);
}

static void send_completes(struct side *side) {
    if (device.nsends == 0)
        return;
    const struct ibv_wc wc = {.wr_id = device.sends[0]};
    memmove(device.sends, device.sends + 1, --device.nsends * sizeof device.sends[0]);
    device.freed = (uint32_t)wc.wr_id;
    completes(side, wc);
}

static void channel_fill(struct verbs_channel *channel, struct rcmi_node *node, bool is_writer) {
    channel->base = (struct rcmi_channel){.node = node,
                                          .slot_bytes = FUZZ_SLOT_BYTES * 2,
                                          .slots = FUZZ_SLOTS,
                                          .is_writer = is_writer};
}

static void channels_open(struct side *side) {
    struct rcmi_blob open = {.len = 0}, answer = {.len = 0};
    void *const links[1] = {&side->link};
    channel_fill(&side->writer, side->domain.node, true);
    channel_fill(&side->reader, side->domain.node, false);
    fuzz_require(verbs_writer_init(&side->writer.base, links, 1) == RCM_OK &&
                     verbs_reader_init(&side->reader.base, &side->link) == RCM_OK &&
                     verbs_writer_offer(&side->writer.base, 0, &open) == RCM_OK &&
                     verbs_reader_accept(&side->reader.base, &open, &answer) == RCM_OK &&
                     verbs_writer_attach(&side->writer.base, 0, &answer) == RCM_OK,
                 "orderly channels are ready");
    side->numbers[0] = side->reader.end->number;
    side->numbers[1] = side->writer.end->number;
}

/* A link to a peer that offers our own ports, and greets. */
static void link_make(struct side *side) {
    const struct verbs_notice hello = {.kind = VERBS_HELLO};
    struct rcmi_blob blob = {.len = 0};
    fuzz_require(verbs_link_offer(&side->link, &blob) == RCM_OK, "all ports are offered");
    verbs_link_down(&side->link);
    fuzz_require(verbs_link_init(&side->link, &side->domain, FUZZ_PEER) == RCM_OK,
                 "there is a link");
    side->link.initiator = false;
    fuzz_require(verbs_link_accept(&side->link, &blob) == RCM_OK, "an orderly offer is accepted");
    link_connect(side);
    notice_arrives(side, &hello, VERBS_NOTICE_HEAD);
    send_completes(side);
    fuzz_require(verbs_link_ready(&side->link) == RCM_OK, "an orderly link comes up");
    channels_open(side);
}

/* kind, end (0: the reader's, 1: the writer's, else that number), length, receives, meta, number of
 * payload bytes, payload. */
static void notice_step(struct side *side, struct fuzz_input *in) {
    struct verbs_notice notice = {.kind = fuzz_u8(in)};
    const uint8_t whose = fuzz_u8(in);
    size_t n;
    notice.end = whose < 2 ? side->numbers[whose] : whose;
    notice.len = fuzz_u16(in);
    notice.receives = fuzz_u8(in);
    notice.meta = fuzz_u8(in);
    const size_t wanted = fuzz_u8(in);
    const uint8_t *bytes = fuzz_bytes(in, wanted < RCMI_TINY ? wanted : RCMI_TINY, &n);
    memcpy(notice.bytes, bytes, n);
    notice_arrives(side, &notice, VERBS_NOTICE_HEAD + n);
}

static void receive(const struct side *side) {
    struct rcmi_channel *reader = (struct rcmi_channel *)(uintptr_t)&side->reader.base;
    struct rcmi_slot slot;
    unsigned sum = 0;
    if (!side->reader.end || verbs_peek(reader, &slot) != RCM_OK)
        return;
    fuzz_require(slot.len <= reader->slot_bytes, "a message fits its slot");
    for (size_t i = 0; i < slot.len; i++)
        sum += ((const uint8_t *)slot.bytes)[i];
    fuzz_require(sum <= 255 * slot.len, "bytes can be read");
    verbs_release(reader);
}

static void transmit(struct side *side, uint8_t len) {
    struct rcmi_reserved reserved;
    if (!side->writer.end || verbs_reserve(&side->writer.base, len, &reserved) != RCM_OK)
        return;
    memset(reserved.bytes, len, len);
    verbs_commit(&side->writer.base, len, len);
}

/* The reader has announced memory for its next message. */
static void post(const struct side *side, uint8_t len) {
    static uint8_t memory[UINT8_MAX];
    struct verbs_end *end = side->reader.end;
    const uint64_t number = end ? atomic_load(&end->released) : 0;
    if (end && number >= atomic_load(&end->arrived))
        end->posts[number % end->slots] =
            (struct verbs_post){.live = true,
                                .announced = true,
                                .is = {.number = number, .address = (uintptr_t)memory, .len = len}};
}

static void step(struct side *side, struct fuzz_input *in) {
    const uint8_t op = fuzz_u8(in);
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
    const uint8_t *bytes;
    size_t n;
    switch (op % 8) {
    case 0:
        notice_step(side, in);
        break;
    case 1: /* unchanged: length, bytes */
        n = fuzz_u8(in);
        bytes = fuzz_bytes(in, n, &n);
        notice_arrives(side, bytes, n);
        break;
    case 2:
        send_completes(side);
        break;
    case 3:
        receive(side);
        break;
    case 4:
        if (op & 8)
            post(side, fuzz_u8(in));
        else
            transmit(side, fuzz_u8(in));
        break;
    case 5: /* work left for the next progress */
        (void)verbs_pay(&side->domain);
        break;
    case 6:
        channel_end(op & 8 ? &side->writer : &side->reader);
        break;
    default: /* an error, or a completion without a send */
        wc.status = (enum ibv_wc_status)fuzz_u8(in);
        wc.wr_id = verbs_id(&side->link, fuzz_u16(in) + VERBS_FIRST_ENTRY + 1024u);
        completes(side, wc);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct side side;
    struct fuzz_input in = {data, size};
    const uint8_t mode = fuzz_u8(&in) % 3;
    link_init(&side);
    if (mode < 2) {
        offer(&side, mode == 1, &in);
    } else {
        link_make(&side);
        for (int steps = 0; in.left > 0 && steps < STEPS; steps++)
            step(&side, &in);
        fuzz_verdict = side.link.state == VERBS_BROKEN ? FUZZ_REFUSED : FUZZ_ACCEPTED;
    }
    link_end(&side);
    return 0;
}
