/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The records of ranks and jobs in a store. They are text, so `ringcomm-store get` can print them
 * and they do not depend on the machine's byte order. Decoders accept arbitrary bytes.
 *
 *   member    "member GENERATION joined|left SIZE PID PARENT START NAMESPACE BOOT TIME HOST ..."
 *   job       "job NUMBER " and rank 0's member
 *   refusal   "refused STATUS ORIGIN SENTENCE"      under a key that other ranks wait for
 *
 * HOST is followed by NAME=VALUE fields in any order; unknown ones are skipped:
 *
 *   wire=18   the rank's RCMI_WIRE_VERSION
 *   clock=US  rcmi_process_clock of its machine when it joined
 *   timens=N  the namespace of its clocks (base/os/process.h)
 *   id=ID     of the job, if it has one
 *
 * Ranks of different versions read each other's members to detect the difference. So the fields up
 * to HOST never change, new versions only add NAME=VALUE fields, and a NAME keeps its meaning.
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
    bool left;          /* in good order: another process may claim this rank */
    int world_size;
    int64_t joined_at;     /* seconds since 1970 */
    uint64_t joined_clock; /* rcmi_process_clock of its machine then; 0: unknown */
    struct rcmi_process process;
    char job_id[RCMI_JOB_ID_TEXT]; /* "": it has none */
    int wire; /* RCMI_WIRE_VERSION of the rank; 0: unknown, a version before 8 */
};

#define RCMI_MEMBER_TEXT   400
#define RCMI_REFUSAL_TEXT  600
#define RCMI_MEMBER_PEOPLE 200

/* Values end with a NUL that their length does not count, like blobs. */
bool rcmi_member_parse(struct rcmi_bytes value, struct rcmi_member *ret_member);
void rcmi_member_write(const struct rcmi_member *member, char text[RCMI_MEMBER_TEXT]);
/* "rank 1 of 4 (pid 4711 on node7, joined 12 s ago)" */
const char *rcmi_member_people(const struct rcmi_member *member, int rank,
                               char text[RCMI_MEMBER_PEOPLE]);

bool rcmi_job_parse(struct rcmi_bytes value, uint64_t *ret_number, struct rcmi_member *ret_member);
void rcmi_job_write(uint64_t number, const struct rcmi_member *member, char text[RCMI_MEMBER_TEXT]);

/* RCM_OK if value is no refusal; else its status, with its sentence as the thread's error. */
rcm_status rcmi_refusal_check(struct rcmi_bytes value);
/* Writes the thread's error as a refusal of rank `rank`. */
void rcmi_refusal_write(int rank, char text[RCMI_REFUSAL_TEXT]);

#endif
