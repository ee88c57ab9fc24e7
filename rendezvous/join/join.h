/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joining a job through a store: each rank claims its number, rank 0 names the job, the others read
 * its name. This detects stale keys of an earlier job, and two jobs on one store, before any data
 * of one job reaches the other.
 *
 * A store may be reused: by the next rcm_init of the same processes, and by the next job once all
 * ranks of the last one have left it by rcm_destroy. So a value under a rank's key is no error yet.
 * Its owner decides:
 *
 *   this process                                  next generation of keys
 *   a process that left in good order             next generation of keys
 *   a running process, certainly of another job   rejected, if it is rank 0's job; else the other
 *     (its id or its number of ranks differs)     process is rejected and frees the key
 *   a running process                             two jobs on one store: rejected
 *   a process that ended without leaving          stale store: rejected
 *   a process on another machine                  rejected; the error gives both explanations
 *
 * These are checked too:
 *
 *   rank 0's job is certainly another             two jobs, or a wrong setting: rejected
 *   only one of two ranks has an id               two jobs, or a wrong setting: rejected
 *   ranks have different restart counts           two rounds of agents: RCM_ERR_CONFIG
 *   rank 0 has another wire version               two builds of the library: RCM_ERR_MISMATCH
 *
 * A rejected rank stores its error as a refusal, because other ranks would wait for it. It writes
 * under the two keys that they wait for (the job's name, and "all ranks are here"), if these are
 * still empty. So a complete job is not affected. A rank that fails later in rcm_init does the
 * same, and so does a rank 0 whose port another job has. Exception: if the other process is
 * certainly of another job, no refusal is stored. It would not concern that job, and each rank of
 * this job detects the difference.
 *
 * A waiting rank checks whether the awaited rank's process has ended. If that rank joined after the
 * waiting process began, it was of this job and died. If it joined earlier, it may have been of an
 * earlier job. The error then gives both explanations. It comes after SURE_MS, because a process
 * that has this number now would find the stale key and store a refusal by then.
 *
 * Known gap: two jobs of equal size without ids can look like one job until a rank number is
 * claimed twice, if each lacks exactly the ranks that the other has. So a rank without an id, whose
 * user set the store's address, waits 1 s for a duplicate before it counts itself as present. Two
 * such jobs started more than 1 s apart can still merge.
 *
 * These keys are not part of the protocol of torch.distributed. Torch neither reads nor writes
 * them.
 */
#ifndef RCMI_JOIN_H
#define RCMI_JOIN_H

#include "clock.h"
#include "member.h"
#include "rendezvous.h"

/* Returns the refusal that a rank of this job stored before it ended; RCM_OK if there is none, with
 * the thread's error unchanged. */
rcm_status rcmi_join_find_refusal(rcm_store *store, const struct rcmi_join *join);

/* The error of waiting for a member whose process has ended: its refusal if there is one, else as
 * described at rcmi_join_look. */
rcm_status rcmi_join_ended(rcm_store *store, const struct rcmi_join *join, int rank,
                           const struct rcmi_member *member);

/* The key of a rank's member record (member.h). */
void rcmi_join_key(int attempt, int rank, char key[64]);
/* The prefix of all other keys of a job. */
void rcmi_join_scope(int attempt, int64_t generation, char scope[64]);

/* compare_set of texts; *ret_now: the value afterwards, freed by the caller. */
rcm_status rcmi_join_swap(rcm_store *store, const char *key, const char *expected,
                          const char *desired, bool *ret_swapped, struct rcm_blob *ret_now);

/* Waits 1 s, if needed, for a second process that claims this rank's number. first: rank 0. */
rcm_status rcmi_join_settle(rcm_store *store, const struct rcmi_launch *launch,
                            const struct rcmi_join *join, const struct rcmi_process *first,
                            rcmi_deadline deadline);

/* ---- join_restart_count.c
 * ------------------------------------------------------------------------ */

/* Stores this rank's restart count, unless a higher one is stored. */
rcm_status rcmi_join_note_attempt(rcm_store *store, const struct rcmi_launch *launch);
/* RCM_ERR_CONFIG if another rank has a different restart count and waits; names both counts.
 * Returns RCM_OK also if the store does not answer. */
rcm_status rcmi_join_look_attempts(rcm_store *store, const struct rcmi_launch *launch,
                                   const struct rcmi_join *join);

/* ---- join_refuse.c ------------------------------------------------------------------------- */

#define RCMI_JOIN_WHERE 200

/* "store file /path", "the store tcp://host:port" */
const char *rcmi_join_where(const rcm_store *store, char text[RCMI_JOIN_WHERE]);

bool rcmi_join_is_there(enum rcmi_process_state state);

enum rcmi_ids {
    RCMI_IDS_NONE, /* neither job has an id */
    RCMI_IDS_ONE,  /* only one job has an id */
    RCMI_IDS_SAME,
    RCMI_IDS_DIFFER,
};
enum rcmi_ids rcmi_join_ids(const struct rcmi_launch *launch, const struct rcmi_member *other);
/* Certainly of another job, unless a setting is wrong: the ids or the numbers of ranks differ. */
bool rcmi_join_foreign(const struct rcmi_launch *launch, const struct rcmi_member *other);
/* Return RCM_ERR_CONFIG. `other` is rank `rank`; it is of another job, or only one side has an id.
 */
rcm_status rcmi_join_foreign_fail(rcm_store *store, const struct rcmi_launch *launch,
                                  const struct rcmi_member *other, int rank);
rcm_status rcmi_join_ids_fail(rcm_store *store, const struct rcmi_launch *launch,
                              const struct rcmi_member *other, int rank);

/* Returns RCM_ERR_CONFIG: another process holds our rank number. Stores refusals for other ranks.
 */
rcm_status rcmi_join_refuse(rcm_store *store, const struct rcmi_launch *launch,
                            const struct rcmi_member *member, enum rcmi_process_state state);
/* Stores the thread's error as a refusal for the ranks that wait in these generations. */
void rcmi_join_publish(rcm_store *store, const struct rcmi_launch *launch, int64_t first,
                       int64_t last);

#endif
