/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connects two queue pairs of one port in one process, as the library does. Each message is an RDMA
 * write followed by a send that announces it, like the library's messages. The data is compared.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include "check_verbs.h"
#include "../common.h"
#include "error.h"
#include "ringcomm.h"

enum { LARGE = 1 << 20, LARGES = 32, SMALL = 8, SMALLS = 500, PATIENCE_S = 5 };

struct loopback {
    struct verbs_port *port;
    const struct verbs_table *table;
    struct ibv_qp *qps[2];
    struct verbs_region region; /* source of the write, its target, then the message of the send */
    char why[CHECK_SENTENCE];
};

static bool fails(struct loopback *loop, const char *what, int error) {
    snprintf(loop->why, sizeof(loop->why), "%s: a loopback failed: %s%s%s", loop->port->name, what,
             error ? ": " : "", error ? strerror(error) : "");
    return false;
}

/* ---- Two queue pairs ------------------------------------------------------------------------ */

static bool loopback_connect(struct loopback *loop) {
    for (int i = 0; i < 2; i++) {
        struct verbs_offered peer = loop->port->offered;
        struct verbs_path path;
        peer.qp_num = loop->qps[1 - i]->qp_num;
        verbs_path_to(loop->port, &peer, &path);
        const int error = verbs_qp_connect(loop->table, loop->qps[i], &path);
        if (error)
            return fails(loop, "a queue pair cannot be connected", error);
    }
    return true;
}

static bool loopback_open(struct loopback *loop) {
    uint32_t inline_max;
    for (int i = 0; i < 2; i++)
        if (verbs_qp_make(loop->port, i, &loop->qps[i], &inline_max) != RCM_OK)
            return fails(loop, rcm_last_error(), 0);
    if (verbs_region_make(loop->port, 2 * LARGE + SMALL, IBV_ACCESS_REMOTE_WRITE, &loop->region) !=
        RCM_OK)
        return fails(loop, rcm_last_error(), 0);
    return loopback_connect(loop);
}

static void loopback_close(struct loopback *loop) {
    for (int i = 0; i < 2; i++)
        if (loop->qps[i])
            (void)loop->table->destroy_qp(loop->qps[i]);
    verbs_region_free(loop->table, &loop->region);
}

/* ---- Messages ------------------------------------------------------------------------------- */

static struct ibv_sge piece(const struct loopback *loop, size_t at, uint32_t bytes) {
    return (struct ibv_sge){.addr = (uintptr_t)loop->region.memory + at,
                            .length = bytes,
                            .lkey = loop->region.mr->lkey};
}

static int message_post(struct loopback *loop, uint32_t bytes) {
    struct ibv_sge notice = piece(loop, 2 * LARGE, SMALL), written = piece(loop, 0, bytes);
    struct ibv_recv_wr receive = {.sg_list = &notice, .num_sge = 1}, *bad_receive;
    struct ibv_send_wr send = {.sg_list = &notice,
                               .num_sge = 1,
                               .opcode = IBV_WR_SEND,
                               .send_flags = IBV_SEND_SIGNALED},
                       write = {.next = &send,
                                .sg_list = &written,
                                .num_sge = 1,
                                .opcode = IBV_WR_RDMA_WRITE},
                       *bad;
    write.wr.rdma.remote_addr = (uintptr_t)loop->region.memory + LARGE;
    write.wr.rdma.rkey = loop->region.mr->rkey;
    const int error = loop->table->post_recv(loop->qps[1], &receive, &bad_receive);
    return error ? error : loop->table->post_send(loop->qps[0], &write, &bad);
}

/* Waits for both completions. */
static bool message_wait(struct loopback *loop) {
    const int64_t until = tool_now_ns() + PATIENCE_S * INT64_C(1000000000);
    struct ibv_wc wc[2];
    int empty = 0;
    for (int left = 2; left > 0;) {
        const int n = loop->table->poll_cq(loop->port->cq, left, wc);
        if (n < 0 || tool_now_ns() > until)
            return fails(loop, n < 0 ? "completions cannot be polled" : "no completion arrived", 0);
        for (int i = 0; i < n; i++)
            if (wc[i].status != IBV_WC_SUCCESS)
                return fails(loop, verbs_status_word(wc[i].status), 0);
        left -= n;
        empty = n ? 0 : empty + 1;
        if (empty > 1000) /* a software device may need this CPU */
            sched_yield();
    }
    return true;
}

/* Sends `times` messages, each with different data; *ret_us: mean time of one. */
static bool messages_move(struct loopback *loop, uint32_t bytes, int times, double *ret_us) {
    int64_t moving = 0;
    for (int i = 0; i < times; i++) {
        for (uint32_t at = 0; at < bytes; at++)
            loop->region.memory[at] = (uint8_t)(at * 7 + at / 251 + (uint32_t)i);
        const int64_t began = tool_now_ns();
        const int error = message_post(loop, bytes);
        if (error)
            return fails(loop, "a message cannot be posted", error);
        if (!message_wait(loop))
            return false;
        moving += tool_now_ns() - began;
        if (memcmp(loop->region.memory, loop->region.memory + LARGE, bytes) != 0)
            return fails(loop, "the received data differs from the sent data", 0);
    }
    *ret_us = (double)moving / 1e3 / times;
    return true;
}

void check_verbs_loopback(struct check_out *out) {
    static struct verbs_domain domain;
    double small_us, large_us;
    if (!check_verbs_open(&domain)) {
        check_mend(out, "", "%s", rcm_last_error());
        return;
    }
    for (int i = 0; i < domain.nports; i++) {
        struct loopback loop = {.port = &domain.ports[i], .table = domain.table};
        if (loop.port->method != &verbs_by_exchange) {
            check_fact(out, loop.port->name, "loopback", "not tested (iWARP)");
            continue;
        }
        if (loopback_open(&loop) && messages_move(&loop, SMALL, SMALLS, &small_us) &&
            messages_move(&loop, LARGE, LARGES, &large_us))
            check_fact(out, loop.port->name, "loopback", "%.2f us, %.2f GB/s, data right", small_us,
                       LARGE / large_us / 1e3);
        else
            check_mend(out, loop.port->name, "%s", loop.why);
        loopback_close(&loop);
    }
    verbs_ports_close(&domain);
}
