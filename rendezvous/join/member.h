/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What ranks write into a store about themselves and their job, as text: `ringcomm-store get` shows
 * it, and it means the same on every machine. Decoders take anything and trust nothing.
 *
 *   member    "member GENERATION joined|left SIZE PID PARENT START NAMESPACE BOOT TIME HOST ..."
 *   job       "job NUMBER " and rank 0's member
 *   refusal   "refused STATUS ORIGIN SENTENCE"      in the place of what others wait for
 *
 * Behind HOST stand words NAME=VALUE in any order, of which those that are not known are skipped:
 *
 *   wire=15   the rank's RCMI_WIRE_VERSION
 *   clock=US  rcmi_process_clock of its machine when it joined
 *   timens=N  the namespace of its clocks (base/os/process.h)
 *   id=ID     of the job, if it has one
 *
 * Ranks of different versions read each other's members to find out that they are. So in every
 * version the words to HOST are these, more is said by further NAME=VALUE only, and a NAME keeps
 * its meaning.
 */
#ifndef RCMI_MEMBER_H
#define RCMI_MEMBER_H

#include <stdbool.h>
#include <stdint.h>
#include "map.h"
#include "process.h"
#include "rendezvous.h"
#include "ringcomm.h"

struct rcmi_member {
    int64_t generation; /* number of this rank's rcm_init on the store, from 1 */
    bool left;          /* it went in good order: another process may be this rank now */
    int world_size;
    int64_t joined_at;     /* seconds since 1970 */
    uint64_t joined_clock; /* rcmi_process_clock of its machine then; 0: not told */
    struct rcmi_process process;
    char job_id[RCMI_JOB_ID_TEXT]; /* "": it has none */
    int wire; /* RCMI_WIRE_VERSION of the rank; 0: it did not tell, as before version 8 */
};

#define RCMI_MEMBER_TEXT   400
#define RCMI_REFUSAL_TEXT  600
#define RCMI_MEMBER_PEOPLE 200

/* Values have a NUL behind them, as blobs do. */
bool rcmi_member_parse(struct rcmi_bytes value, struct rcmi_member *ret_member);
void rcmi_member_write(const struct rcmi_member *member, char text[RCMI_MEMBER_TEXT]);
/* "rank 1 of 4 (pid 4711 on node7, joined 12 s ago)" */
const char *rcmi_member_people(const struct rcmi_member *member, int rank,
                               char text[RCMI_MEMBER_PEOPLE]);

bool rcmi_job_parse(struct rcmi_bytes value, uint64_t *ret_number, struct rcmi_member *ret_member);
void rcmi_job_write(uint64_t number, const struct rcmi_member *member, char text[RCMI_MEMBER_TEXT]);

/* RCM_OK if value is no refusal; else its status, with its sentence as the thread's error. */
rcm_status rcmi_refusal_check(struct rcmi_bytes value);
/* The thread's error, as told by rank `rank`. */
void rcmi_refusal_write(int rank, char text[RCMI_REFUSAL_TEXT]);

#endif
