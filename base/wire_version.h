/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The version of all data that ranks exchange: over sockets, in shared pages and segments, and
 * published in a store. Only ranks of equal versions work together. Each rank therefore sends its
 * version before anything else, at a position that is fixed in all versions:
 *
 *   the member of a rank in a store     the word "wire=18" after the host (join/member.h)
 *   what a rank publishes in rcm_init   begins with a head: "wire=18 host=node7" and NULs
 *   hello and reply of a connection     magic number and version, six bytes (transport/net/net.h)
 */
#ifndef RCMI_WIRE_VERSION_H
#define RCMI_WIRE_VERSION_H

#include <stddef.h>
#include "ringcomm.h"

#define RCMI_WIRE_VERSION 20 /* increment with each change of exchanged data */

#define RCMI_WIRE_HEAD 96
/* Writes the head of this rank. */
void rcmi_wire_head(char head[RCMI_WIRE_HEAD]);
/* RCM_ERR_MISMATCH if what rank r published has a head of another version; RCM_ERR_PROTOCOL if it
 * has none. */
rcm_status rcmi_wire_head_check(const void *bytes, size_t len, int r, int own_rank);

/* RCM_ERR_MISMATCH with that rank as origin: "WHO has wire version THEIRS, rank 1 on node8 has 18".
 * theirs 0: not sent, as before version 8. */
rcm_status rcmi_wire_differs(int rank, const char *who, int theirs, int own_rank);

#endif
