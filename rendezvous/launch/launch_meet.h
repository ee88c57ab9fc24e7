/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous without a configured address. Rank 0 serves a TCP store and sets a token in it. The
 * other ranks try its possible addresses and take the store with the token; so another job's store
 * at the same address is skipped.
 */
#ifndef RCMI_LAUNCH_MEET_H
#define RCMI_LAUNCH_MEET_H

#include "launcher.h"

#define RCMI_MEET_TEXT      1000 /* bytes of an invitation, its NUL included */
#define RCMI_MEET_ADDRESSES 12

/* Possible addresses of rank 0's store. */
struct rcmi_meet_addresses {
    const char *url[RCMI_MEET_ADDRESSES]; /* "tcp://host:port" */
    int n;
    bool certain; /* rank 0 already serves at one of them */
};

/* Serves a store with the token at url ("tcp://host:port"; port 0: any). */
rcm_status rcmi_meet_serve(const char *url, const char *token, const char *secret,
                           rcmi_deadline deadline, rcm_store **ret_store);

/* The same on all addresses, at the first free port of RINGCOMM_PORTS. */
rcm_status rcmi_meet_serve_anywhere(const char *token, const char *secret, rcmi_deadline deadline,
                                    rcm_store **ret_store);

/* Tries the addresses in turn until one has the store with the token, or the deadline passes. A
 * wrong secret fails immediately if the addresses are certain, else after 10 s. */
rcm_status rcmi_meet_join(const struct rcmi_meet_addresses *addresses, const char *token,
                          const char *secret, rcmi_deadline deadline, rcm_store **ret_store);

/*
 * The launcher's means to publish one line of rank 0. Rank 0 calls `pin` with its line in `mine`.
 * The other ranks pass NULL and get the line in `text`, which has RCMI_MEET_TEXT bytes. The line
 * has no blanks.
 */
struct rcmi_board {
    rcm_status (*pin)(void *arg, const char *mine, rcmi_deadline deadline, char *text);
    void *arg;
};

/* Rendezvous through a board. Rank 0 serves on loopback if all ranks are on this machine, else on
 * all its addresses, and publishes them. */
rcm_status rcmi_meet_by_board(const struct rcmi_launch *launch, const struct rcmi_board *board,
                              const char *secret, rcmi_deadline deadline, rcm_store **ret_store);

#endif
