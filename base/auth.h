/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mutual authentication: both ends of a stream socket prove that they have the same secret, before
 * any other byte is read. Challenge and response with HMAC-SHA256 (RFC 2104, FIPS 180-4). It proves
 * identity; later data are neither encrypted nor signed.
 *
 *   both:  "RCMAUTH1", role byte ('I' initiator, 'A' acceptor), 32 random bytes    41 bytes
 *   both:  HMAC(secret, "ringcomm-auth-1" || own role || own nonce || peer nonce)  32 bytes
 *
 * The roles differ, so a reflected message proves nothing. Nonces are fresh, so a replayed message
 * proves nothing. Without a secret no byte is exchanged and every step returns RCM_OK at once.
 */
#ifndef RCMI_AUTH_H
#define RCMI_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ringcomm.h"

#define RCMI_AUTH_NONCE 32
#define RCMI_AUTH_MAC   32
#define RCMI_AUTH_ROLE  8 /* offset of the role in the hello: after the magic, before the nonce */
#define RCMI_AUTH_HELLO (RCMI_AUTH_ROLE + 1 + RCMI_AUTH_NONCE)
#define RCMI_AUTH_TOTAL (RCMI_AUTH_HELLO + RCMI_AUTH_MAC) /* bytes that each side sends */

struct rcmi_auth {
    const char *secret; /* NULL: none; must outlive the handshake */
    bool initiator;
    uint8_t out[RCMI_AUTH_TOTAL];
    uint8_t in[RCMI_AUTH_TOTAL];
    size_t out_ready, out_done, in_done;
};

/* RCM_ERR_UNSUPPORTED if a secret is given and the library was built without libcrypto,
 * RCM_ERR_INVALID if it is empty. */
rcm_status rcmi_auth_start(struct rcmi_auth *auth, const char *secret, bool initiator);
/* The same with a given nonce, for tests: a reused nonce proves nothing. */
rcm_status rcmi_auth_start_with(struct rcmi_auth *auth, const char *secret, bool initiator,
                                const uint8_t nonce[RCMI_AUTH_NONCE]);

/* Goes as far as the non-blocking socket allows, and never reads past the handshake. RCM_OK when
 * both sides have proved the secret. RCM_AGAIN: poll for POLLIN, and POLLOUT if
 * rcmi_auth_wants_write. RCM_ERR_AUTH: the peer has another secret or another protocol (detected at
 * its first wrong byte). RCM_ERR_PEER: it closed the connection before it proved anything. The
 * caller keeps the deadline. */
rcm_status rcmi_auth_step(struct rcmi_auth *auth, int fd);
bool rcmi_auth_wants_write(const struct rcmi_auth *auth);

/* The proof of the side with `hello`, sent to the side with `other`; both are in out and in.
 * Requires that a handshake with a secret was started. */
rcm_status rcmi_auth_proof(const char *secret, const uint8_t *hello, const uint8_t *other,
                           uint8_t ret_mac[RCMI_AUTH_MAC]);

/* len random bytes from the kernel. */
rcm_status rcmi_random(void *buf, size_t len);

/* The secret: RINGCOMM_SECRET, or the content of RINGCOMM_SECRET_FILE without its last newline.
 * *ret_secret is malloc'd; NULL if neither is set. RCM_ERR_CONFIG if both are set, or one is set
 * but empty. */
rcm_status rcmi_secret(char **ret_secret);

#endif
