/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job that starts under a flood of unauthenticated connections: shared declarations.
 *
 *   connection_flood.c   rounds: attackers, then ranks; the verdict
 *   attacks.c            the attacks, one process each
 *   recording_proxy.c    records a real handshake with a store, for replay
 */
#ifndef TEST_FAULT_CONNECTION_FLOOD_H
#define TEST_FAULT_CONNECTION_FLOOD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FLOOD_RANKS 4
#define FLOOD_PORTS (FLOOD_RANKS + 1) /* TCP ports: the store's, then one for each rank */

/* Shared by the processes of a round. */
struct flood {
    int port; /* the first of FLOOD_PORTS */
    bool secret;
    uint8_t recorded[512];
    size_t recorded_len;
    _Atomic int rank_pid[FLOOD_RANKS];
    _Atomic int ready;    /* attackers that run */
    _Atomic int64_t hits; /* successful connections of attackers */
};

/* Names of the attacks, ended by NULL. */
extern const char *const flood_attacks[];

/* Runs this attack forever. */
_Noreturn void flood_attack(struct flood *flood, const char *name, unsigned seed);

/* Records the bytes that a client with the secret (NULL: none) sends to a store; false on
 * failure. */
bool flood_record(struct flood *flood, const char *secret);

#endif
