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
 *   its process runs                              two jobs on one store: refused
 *   its process has ended without leaving         the store is left over: refused
 *   its process is on another machine             either of these: refused, and both are said
 *   rank 0's job has another number of ranks      two jobs, or a wrong setting: refused
 *
 * A rank that is refused tells the others, who would wait for it: where rank 0 would name the job,
 * and where the last rank would say that all are here, it puts a sentence, if nothing is there yet.
 * A job that is complete is not touched by this. A rank that fails later in rcm_init does the same.
 *
 * What remains. Two jobs of equal size that start at the same moment, each missing exactly the
 * ranks that the other has, look like one until the first number comes twice. Ranks of one job that
 * run on one machine have the same parent when a launcher started them; where they have not, the
 * rank waits a second before it counts itself as present, in which the number comes twice. Between
 * machines nothing tells such jobs apart.
 *
 * Nothing of this is in the dialect of torch.distributed or concerns it: these are keys like any
 * others, and a process of torch neither writes nor reads them.
 */
#ifndef RCMI_JOIN_H
#define RCMI_JOIN_H

#include "clock.h"
#include "member.h"
#include "rendezvous.h"

/* Why the store cannot be served at its address: if a job's store is there, whose; else the
 * thread's error stays as it is. */
void rcmi_join_explain_used(const struct rcmi_launch *launch, const char *secret);

/* What a rank of this job put down before it ended, as an error; RCM_OK: nothing. The thread's
 * error stays as it is then. */
rcm_status rcmi_join_last_words(rcm_store *store, const struct rcmi_join *join);

/* Under which a rank's member (member.h) is. */
void rcmi_join_key(int attempt, int rank, char key[64]);

#endif
