/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which ranks of one host identity can share memory. The identity is a setting or a guess: two
 * machines (clones) can have equal identities, and so can ranks of two users. Therefore each of two
 * ranks proves it, and the layers above agree on the proofs before plans are made
 * (api/comm/sharing.c).
 *
 * The proof is a connection to the peer's Unix socket. The kernel completes it without the peer, so
 * the proof does not wait for the peer. It succeeds if the peer listens in the same network
 * namespace of the same kernel and no policy forbids the connection; it yields the listener's user.
 * shm/probe.c has already tested that this process can pass and map memory. A policy may apply in
 * one direction only, so both ranks prove.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "net.h"

enum { PAUSE_NS = 1000000 };

/* RCM_AGAIN: the listener's accept queue is full, which passes soon. */
static rcm_status connect_patiently(const char *name, rcmi_deadline deadline, int *ret_fd) {
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    rcm_status status = rcmi_connect_start_unix(name, ret_fd);
    while (status == RCM_AGAIN && !rcmi_deadline_passed(deadline)) {
        (void)nanosleep(&pause, NULL);
        status = rcmi_connect_start_unix(name, ret_fd);
    }
    return status;
}

static rcm_status explain_connect(rcm_status status) {
    const int error = status == RCM_AGAIN ? EAGAIN : rcmi_last_error()->sys_errno;
    if (error == ECONNREFUSED)
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                         "its Unix socket does not exist here: it is on another machine, or in "
                         "another network namespace; give each a RINGCOMM_HOST_ID of its own");
    return rcmi_fail(RCM_ERR_UNSUPPORTED, error, "its Unix socket cannot be connected to");
}

static rcm_status prove_by(const struct rcmi_node *node, const char *name, rcmi_deadline deadline) {
    unsigned user = 0;
    int fd = -1;
    if (!name[0])
        return rcmi_fail(RCM_ERR_UNSUPPORTED, 0, "it does not listen on a Unix socket");
    const rcm_status status = connect_patiently(name, deadline, &fd);
    if (status != RCM_OK)
        return explain_connect(status);
    const bool foreign = rcmi_unidentified_is_of_other(node, fd, &user);
    rcmi_fd_close(&fd);
    if (!foreign)
        return RCM_OK;
    return rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                     "it belongs to user %u, and no secret is set; set RINGCOMM_SECRET on all "
                     "ranks",
                     user);
}

rcm_status rcmi_node_prove(const struct rcmi_node *node, int peer, rcmi_deadline deadline) {
    const struct rcmi_node_config *config = &node->config;
    const rcmi_deadline patience = rcmi_deadline_in(node->peer_timeout_ms);
    struct rcmi_address *address = rcmi_zalloc(sizeof *address);
    const void *blob = NULL;
    size_t len = 0;
    rcm_status status = address ? config->lookup(config->arg, peer, &blob, &len) : RCM_ERR_NOMEM;
    if (status == RCM_OK)
        status = rcmi_address_parse(blob, len, address);
    if (status == RCM_OK)
        status = prove_by(node, address->unix_name, deadline < patience ? deadline : patience);
    free(address);
    return status;
}

rcm_status rcmi_node_set_sharing(struct rcmi_node *node, const int *sets) {
    const size_t bytes = (size_t)node->config.nranks * sizeof *sets;
    node->sets = malloc(bytes);
    if (!node->sets)
        return rcmi_fail(RCM_ERR_NOMEM, ENOMEM, "no memory for %d ranks", node->config.nranks);
    memcpy(node->sets, sets, bytes);
    return RCM_OK;
}

bool rcmi_node_may_share(const struct rcmi_node *node, int a, int b) {
    return !node->sets || node->sets[a] == node->sets[b];
}
