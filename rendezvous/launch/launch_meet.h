/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How ranks meet that know no address: rank 0 serves a TCP store and marks it with a token, the
 * others try the addresses at which it may be and take the store that bears the token. A store of
 * somebody else at the same address is thus told apart.
 */
#ifndef RCMI_LAUNCH_MEET_H
#define RCMI_LAUNCH_MEET_H

#include "launcher.h"

#define RCMI_MEET_TEXT   1000 /* bytes of an invitation, its NUL included */
#define RCMI_MEET_PLACES 12

/* Where rank 0 may be. */
struct rcmi_places {
    const char *url[RCMI_MEET_PLACES]; /* "tcp://host:port" */
    int n;
    bool certain; /* rank 0 serves already, at one of these */
};

/* Serves at url ("tcp://host:port"; port 0: any) under the token. */
rcm_status rcmi_meet_serve(const char *url, const char *token, const char *secret,
                           rcmi_deadline deadline, rcm_store **ret_store);

/* On all addresses, at the first port of RINGCOMM_PORTS that is free. */
rcm_status rcmi_meet_serve_anywhere(const char *token, const char *secret, rcmi_deadline deadline,
                                    rcm_store **ret_store);

/* Tries the places in turn until one has the store with the token, or the deadline passes. A
 * wrong secret is told at once where the places are certain, else after some seconds. */
rcm_status rcmi_meet_join(const struct rcmi_places *places, const char *token, const char *secret,
                          rcmi_deadline deadline, rcm_store **ret_store);

/*
 * A board of the launcher on which rank 0 pins a line: `pin` with the text by rank 0, with NULL
 * by the others, who get the text. The text has no blanks; text has RCMI_MEET_TEXT bytes.
 */
struct rcmi_board {
    rcm_status (*pin)(void *arg, const char *mine, rcmi_deadline deadline, char *text);
    void *arg;
};

/* Meets by way of a board. Rank 0 serves on loopback if all ranks are on this machine, else on
 * all its addresses, which it tells. */
rcm_status rcmi_meet_by_board(const struct rcmi_launch *launch, const struct rcmi_board *board,
                              const char *secret, rcmi_deadline deadline, rcm_store **ret_store);

#endif
