/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A job that starts while strangers are at all its doors: what the files share.
 *
 *   connection_flood.c     rounds: attackers, then ranks; the verdict
 *   attacks.c    what strangers do, one process for each way
 *   recording_proxy.c    a real handshake, recorded on its way to a store, for those that replay it
 */
#ifndef TEST_FAULT_CONNECTION_FLOOD_H
#define TEST_FAULT_CONNECTION_FLOOD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SIEGE_RANKS 4
#define SIEGE_DOORS (SIEGE_RANKS + 1) /* TCP ports: the store's, then one for each rank */

/* Shared by the processes of a round. */
struct siege {
    int port; /* the first of SIEGE_DOORS */
    bool secret;
    uint8_t recorded[512];
    size_t recorded_len;
    _Atomic int rank_pid[SIEGE_RANKS];
    _Atomic int ready;    /* attackers at work */
    _Atomic int64_t hits; /* connections that came through to a door */
};

/* Names of the attacks, ended by NULL. */
extern const char *const siege_attacks[];

/* Attacks for ever in this way. */
_Noreturn void siege_attack(struct siege *siege, const char *name, unsigned seed);

/* Records what a client that knows the secret (NULL: there is none) says to a store; false if that
 * did not work. */
bool siege_record(struct siege *siege, const char *secret);

#endif
