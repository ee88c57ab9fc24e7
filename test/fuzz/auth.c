/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: the proof of the secret (base/auth.c). First byte: bit 0: we start; bit 1: the peer
 * closes at the end; the other bits: the size of the pieces in which its bytes come. Our nonce is
 * constant here, so that the corpus can contain valid proofs.
 */
#include "fuzz.h"
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "auth.h"

static rcm_status feed(struct rcmi_auth *auth, const int fds[2], struct fuzz_input *in,
                       size_t piece) {
    rcm_status status = rcmi_auth_step(auth, fds[0]);
    while (status == RCM_AGAIN && in->left > 0) {
        size_t n;
        const uint8_t *bytes = fuzz_bytes(in, piece, &n);
        fuzz_write(fds[1], bytes, n);
        status = rcmi_auth_step(auth, fds[0]);
    }
    return status;
}

/* Proved: the right bytes came, and none beyond them was read. */
static void check_proved(const struct rcmi_auth *auth, int fd, size_t left) {
    uint8_t mac[RCMI_AUTH_MAC], rest;
    fuzz_require(auth->in_done == RCMI_AUTH_TOTAL && auth->out_done == RCMI_AUTH_TOTAL,
                 "both sides have sent everything");
    fuzz_require(rcmi_auth_proof(auth->secret, auth->in, auth->out, mac) == RCM_OK &&
                     memcmp(mac, auth->in + RCMI_AUTH_HELLO, sizeof mac) == 0,
                 "who is proved knows the secret");
    fuzz_require(auth->in[RCMI_AUTH_ROLE] != auth->out[RCMI_AUTH_ROLE],
                 "our own bytes, sent back, prove nothing");
    bool more = recv(fd, &rest, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
    fuzz_require(more || left == 0, "what follows is not touched");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    struct rcmi_auth auth;
    uint8_t nonce[RCMI_AUTH_NONCE];
    int fds[2];
    uint8_t flags = fuzz_u8(&in);
    size_t piece = flags >> 2 ? flags >> 2 : SIZE_MAX, sent = in.left;
    memset(nonce, 0x5a, sizeof nonce);
    if (rcmi_auth_start_with(&auth, "fuzz secret", flags & 1, nonce) != RCM_OK)
        return 0; /* without libcrypto there is nothing to fuzz */
    fuzz_socketpair(fds);
    rcm_status status = feed(&auth, fds, &in, piece);
    if (status == RCM_AGAIN && flags & 2) {
        shutdown(fds[1], SHUT_WR);
        status = rcmi_auth_step(&auth, fds[0]);
        fuzz_require(status < 0, "a peer that closes has not proved the secret");
    }
    fuzz_judge(status);
    if (status == RCM_OK)
        check_proved(&auth, fds[0], sent - in.left - RCMI_AUTH_TOTAL);
    close(fds[0]);
    close(fds[1]);
    return 0;
}
