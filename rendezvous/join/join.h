/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joining a job by way of a store: each rank claims its number, rank 0 names the job, the others
 * learn its name. So a store that holds an earlier job's keys, or that two jobs use at once, is
 * found out before anything of the one job reaches the other.
 *
 * What there is to go by. A store may be used again in good order: by the next rcm_init of the same
 * processes, and by the next job once all ranks of the last one have left it by rcm_destroy. So
 * that there is something under a rank's key says nothing yet; whose it is does:
 *
 *   it is ours (this process)                     the next generation of keys
 *   its process has left in good order            the next generation of keys
 *   its process runs, of another job for sure     refused, if that is rank 0's job; else the other
 *     (its id or its number of ranks differs)     will be, and leave the place
 *   its process runs                              two jobs on one store: refused
 *   its process has ended without leaving         the store is left over: refused
 *   its process is on another machine             either of these: refused, and both are said
 *   rank 0's job is another for sure              two jobs, or a wrong setting: refused
 *   one of us has an id, the other none           two jobs, or a wrong setting: refused
 *   ranks have different restart counts           two rounds of agents: RCM_ERR_CONFIG
 *   rank 0 has another wire version               two builds of the library: RCM_ERR_MISMATCH
 *
 * A rank that is refused tells the others, who would wait for it: where rank 0 would name the job,
 * and where the last rank would say that all are here, it puts a sentence, if nothing is there yet.
 * A job that is complete is not touched by this. A rank that fails later in rcm_init does the same,
 * and a rank 0 whose port is that of another job. Only where both have an id and these differ
 * nobody is told: the other job is not concerned, and each rank of this one finds out by itself.
 *
 * A rank that waits for another looks whether its process has ended. One that joined when the
 * waiting process had begun already was of this job, and died. One that joined before that may have
 * been of an earlier job: both are said, after a moment in which the process that has its number
 * now would find what is left, and tell.
 *
 * What remains. Two jobs of equal size without ids, each missing exactly the ranks that the other
 * has, look like one until the first number comes twice. So a rank that was told by hand where to
 * meet, and has no id, waits a second before it counts itself as present, in which the number comes
 * twice. Jobs whose ranks come further apart may mix.
 *
 * Nothing of this is in the dialect of torch.distributed or concerns it: these are keys like any
 * others, and a process of torch neither writes nor reads them.
 */
#ifndef RCMI_JOIN_H
#define RCMI_JOIN_H

#include "clock.h"
#include "member.h"
#include "rendezvous.h"

/* What a rank of this job put down before it ended, as an error; RCM_OK: nothing. The thread's
 * error stays as it is then. */
rcm_status rcmi_join_last_words(rcm_store *store, const struct rcmi_join *join);

/* The error of waiting for a member whose process has ended: what was put down before that, or as
 * rcmi_join_look says. */
rcm_status rcmi_join_ended(rcm_store *store, const struct rcmi_join *join, int rank,
                           const struct rcmi_member *member);

/* Under which a rank's member (member.h) is. */
void rcmi_join_key(int attempt, int rank, char key[64]);
/* Under which everything else of a job is. */
void rcmi_join_scope(int attempt, int64_t generation, char scope[64]);

/* compare_set of texts; *ret_now: what is there afterwards, for the caller to free. */
rcm_status rcmi_join_swap(rcm_store *store, const char *key, const char *expected,
                          const char *desired, bool *ret_swapped, struct rcm_blob *ret_now);

/* Waits, where needed, for this rank's number to come a second time. first: rank 0. */
rcm_status rcmi_join_settle(rcm_store *store, const struct rcmi_launch *launch,
                            const struct rcmi_join *join, const struct rcmi_process *first,
                            rcmi_deadline deadline);

/* ---- join_attempt.c ------------------------------------------------------------------------ */

/* Notes this rank's restart count, if no higher one is noted. */
rcm_status rcmi_join_note_attempt(rcm_store *store, const struct rcmi_launch *launch);
/* RCM_ERR_CONFIG names both counts: another rank has another one, and waits. RCM_OK also where the
 * store does not answer. */
rcm_status rcmi_join_look_attempts(rcm_store *store, const struct rcmi_launch *launch,
                                   const struct rcmi_join *join);

/* ---- join_refuse.c ------------------------------------------------------------------------- */

#define RCMI_JOIN_WHERE 200

/* "store file /path", "the store tcp://host:port" */
const char *rcmi_join_where(const rcm_store *store, char text[RCMI_JOIN_WHERE]);

bool rcmi_join_is_there(enum rcmi_process_state state);

enum rcmi_ids {
    RCMI_IDS_NONE, /* neither job has one */
    RCMI_IDS_ONE,  /* one of them has */
    RCMI_IDS_SAME,
    RCMI_IDS_DIFFER,
};
enum rcmi_ids rcmi_join_ids(const struct rcmi_launch *launch, const struct rcmi_member *other);
/* Surely of another job, unless a setting is wrong: the ids or the numbers of ranks differ. */
bool rcmi_join_foreign(const struct rcmi_launch *launch, const struct rcmi_member *other);
/* RCM_ERR_CONFIG: `other`, which is that rank, is of another job; or only one of us has an id. */
rcm_status rcmi_join_foreign_fail(rcm_store *store, const struct rcmi_launch *launch,
                                  const struct rcmi_member *other, int rank);
rcm_status rcmi_join_ids_fail(rcm_store *store, const struct rcmi_launch *launch,
                              const struct rcmi_member *other, int rank);

/* RCM_ERR_CONFIG: another process has our number and will not give it up; the others are told. */
rcm_status rcmi_join_refuse(rcm_store *store, const struct rcmi_launch *launch,
                            const struct rcmi_member *member, enum rcmi_process_state state);
/* The thread's error to whoever waits in these generations. */
void rcmi_join_tell(rcm_store *store, const struct rcmi_launch *launch, int64_t first,
                    int64_t last);

#endif
