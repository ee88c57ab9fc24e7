/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The version of everything that ranks say to each other: by sockets, in shared pages and segments,
 * in what they publish in a store. Only ranks of equal versions work together, so each tells its
 * version before anything else, where every other version finds it:
 *
 *   the member of a rank in a store     the word "wire=15" behind the host (join/member.h)
 *   what a rank publishes in rcm_init   begins with a head: "wire=15 host=node7" and NULs
 *   hello and reply of a connection     magic number and version, six bytes (transport/net/net.h)
 *
 * These three places are the same in all versions.
 */
#ifndef RCMI_WIRE_VERSION_H
#define RCMI_WIRE_VERSION_H

#include <stddef.h>
#include "ringcomm.h"

#define RCMI_WIRE_VERSION 15 /* one more with each change of any of these */

#define RCMI_WIRE_HEAD 96
/* The head of this rank. */
void rcmi_wire_head(char head[RCMI_WIRE_HEAD]);
/* RCM_ERR_MISMATCH if what rank r published has a head of another version; RCM_ERR_PROTOCOL if it
 * has none. */
rcm_status rcmi_wire_head_check(const void *bytes, size_t len, int r, int own_rank);

/* RCM_ERR_MISMATCH, whose origin is that rank: "WHO has wire version THEIRS, rank 1 on node8 has
 * 15". theirs 0: it did not say, as before version 8. */
rcm_status rcmi_wire_differs(int rank, const char *who, int theirs, int own_rank);

#endif
