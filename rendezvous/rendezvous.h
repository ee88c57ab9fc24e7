/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rendezvous/: brings the ranks of a job together.
 *
 *      launch/                       store/: hash, file, tcp, ...        join/
 *      this process's rank, the  ->  a small shared dictionary with  ->  each rank puts one blob
 *      world, where to meet          c10d's protocol and format          there, gets all others'
 *
 * This header has what api/ and ringcomm-run take from it beside the public rcm_store_ functions.
 * Not for: connections between ranks (transport/), and anything after init but stores that a
 * program opens itself.
 */
#ifndef RCMI_RENDEZVOUS_H
#define RCMI_RENDEZVOUS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ringcomm.h"
#include "clock.h"
#include "fd.h"

/* rcm_store_open with the secret given by the caller (NULL: none) instead of the environment's. */
rcm_status rcmi_store_open(const char *url, const char *secret, int64_t timeout_ms,
                           rcm_store **ret_store);

/* How long this thread's calls that have no timeout of their own may take, from now on; returns
 * what it was (30 s at first). For last words to a store that may be gone. */
int64_t rcmi_store_patience(int64_t ms);

/* What a thread's store calls together have to be through by, and how long they took: those that
 * wait for other ranks are not counted. After the deadline no call begins, and none that can be
 * bounded takes longer: RCM_ERR_TIMEOUT. */
struct rcmi_store_budget {
    rcmi_deadline deadline;
    int calls;
    int64_t total_ns, longest_ns;
    const char *longest; /* "try_get" */
};
/* From now on in this thread; NULL: none, as at first. Returns what it was. */
struct rcmi_store_budget *rcmi_store_budget(struct rcmi_store_budget *budget);
/* With the thread's error, a timeout: if the calls took much of the time since began_ns, it names
 * the store and how long they took. Returns status. */
rcm_status rcmi_store_slow(const struct rcmi_store_budget *budget, const rcm_store *store,
                           int64_t began_ns, rcm_status status);

/* Last words to a store that may be gone, or slow, also after the budget's deadline: a second for
 * each call, and one to five for all. */
struct rcmi_store_words {
    int64_t patience;
    struct rcmi_store_budget own, *outer;
};
void rcmi_store_words_begin(struct rcmi_store_words *words);
void rcmi_store_words_end(const struct rcmi_store_words *words);

/* Closing this store takes nothing away that others may still have to find: a file stays, as what
 * is left of a job that failed, so that a rank that comes late learns of it. */
void rcmi_store_keep(rcm_store *store);

/* The address at which this process reaches the server of a TCP store; len 0: another store, or
 * this process's own, which listens at all addresses. */
void rcmi_store_server(rcm_store *store, struct rcmi_sockaddr *ret_addr);
/* If this process serves it, closing this store turns new clients away, and answers those that are
 * there until they have closed theirs, for two seconds at most: ranks that joined a job with this
 * one learn why it failed. */
void rcmi_store_linger(rcm_store *store);

/* Listens where a store will be served. host: if it names an address of this machine, that one
 * alone; a name that means loopback only on this machine (Debian's 127.0.1.1), a foreign one or
 * NULL: all addresses. port 0: any free one. A port in use is named in the error. The descriptor
 * is the caller's; a forked child loses it. */
rcm_status rcmi_store_listen(const char *host, int port, int *ret_fd, int *ret_port);

/* Serves a TCP store on a listening descriptor, which is the store's from then on (also if it
 * fails), with the secret of the environment. rcm_store_url tells the address; closing the store
 * ends the server. */
rcm_status rcmi_store_serve(int listen_fd, rcm_store **ret_store);

/* A store of the program's own functions, which were checked. */
rcm_status rcmi_custom_open(const struct rcm_store_functions *functions, rcm_store **ret_store);

/* While *canceled is true, what waits in this thread for other ranks (rcmi_launch_open, rcmi_join,
 * rcmi_exchange) ends within about a second with RCM_ERR_CANCELED. NULL: nothing does; as at first.
 */
void rcmi_store_cancel_by(const _Atomic bool *canceled);
/* RCM_OK, or RCM_ERR_CANCELED with the thread's error. */
rcm_status rcmi_store_canceled(void);

struct rcmi_launcher;

#define RCMI_JOB_ID_TEXT 65

/* Who this process is and where it meets the others. */
struct rcmi_launch {
    int rank;
    int world_size;
    int local_rank; /* -1: not told */
    int local_size; /* 0: not told */
    int attempt; /* TORCHELASTIC_RESTART_COUNT, 0: the first. A launcher's store keeps the keys of
                    earlier attempts, so keys should carry it */
    char *url;   /* for rcmi_store_open, complete with rank and world_size; "hash:" for a single
                    rank; NULL if options->store or unique_id is to be used, or the launcher's
                    means */
    bool rank_0_serves;            /* the store at url, a TCP store, lives and dies with rank 0 */
    char job_id[RCMI_JOB_ID_TEXT]; /* the same on all ranks of a job and no other's; "": not told */
    char *origin; /* for people: "rank from RANK, address from MASTER_ADDR and MASTER_PORT" */
    struct rcmi_launch_from {
        const char *rank, *size, *store;              /* never NULL: "RANK" */
        const char *local_rank, *local_size, *job_id; /* NULL: not told */
    } from;                                           /* the same singly */
    const struct rcmi_launcher *launcher;             /* by whose means ranks meet; NULL: at url */
    char *meeting;                                    /* where, in the launcher's terms */
    char *leftover;                                   /* a file that rcmi_launch_fini removes */
};

/*
 * Who this process is, from what is set, the first in this order (an empty variable counts as not
 * set):
 *
 *   1. options
 *   2. RINGCOMM_RANK, _WORLD_SIZE, _LOCAL_RANK, _LOCAL_WORLD_SIZE, _URL
 *   3. torchrun's RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE
 *   4. Open MPI's OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
 *   5. PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS (MPICH's Hydra, srun --mpi=pmi2)
 *   6. Slurm's SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS, SLURM_LOCALID, in a step only
 *   7. PMIX_RANK, and the rest as the PMIx server tells it when asked
 *
 * and where it meets the others: the URL (1, 2); MASTER_ADDR and MASTER_PORT (which rank 0 serves
 * unless TORCHELASTIC_USE_AGENT_STORE says that torchrun does); else, if rank and size are those of
 * the launcher, by its own means: PMIx, if the launcher has a server of it and libpmix.so.2 can be
 * loaded; Open MPI's session directory (one machine), PMI's key-value space, Slurm's first node
 * and a port made of job and step.
 *
 * Contradictions are errors, not guesses. The URL's own rank and world_size count as given where
 * the URL was given; a different value from the same or a stronger place is one. So are different
 * ranks or sizes in 3, 4 and 5. But launchers hand on what they inherited: with
 * TORCHELASTIC_RUN_ID set torchrun is the innermost and 4 and 5 are not compared, and 6 is never
 * compared: inside an allocation it is everywhere; nor is 7. For the same reason 6 counts only with
 * SLURM_STEP_ID: a batch script has SLURM_NTASKS=4 and is one process.
 *
 * Local rank and size count only with the source that gave rank and size, or gave the same. Where
 * options give rank, size and place to meet (store, unique_id, or a url other than env:// and
 * MASTER_ADDR:MASTER_PORT), the world is one beside the environment's: of the environment only a
 * RINGCOMM_JOB_ID without RINGCOMM_RANK and a TORCHELASTIC_RESTART_COUNT without RANK count, which
 * were set by hand.
 *
 * The job's id: RINGCOMM_JOB_ID; else TORCHELASTIC_RUN_ID, if torchrun was given one; else that of
 * a launcher whose job has our number of ranks.
 *
 * RCM_ERR_CONFIG names the variable, its value, and what would help. Reads the environment and
 * the state of files, and opens nothing but, for 7, PMIx. options may be NULL.
 */
rcm_status rcmi_launch_resolve(const struct rcm_init_options *options,
                               struct rcmi_launch *ret_launch);
/* To be called when all ranks have joined, or this one gave up. */
void rcmi_launch_fini(struct rcmi_launch *launch);

/* Opens the store of a launch that has no options->store: at url, or by the launcher's means,
 * where the n-th call of every rank's process meets. Secret and timeout as in rcmi_store_open. */
rcm_status rcmi_launch_open(struct rcmi_launch *launch, const char *secret, int64_t timeout_ms,
                            rcm_store **ret_store);

/* The store of a unique id, and the job's id that follows from it. *ret_serves: this process made
 * the id, and the store is the caller's, with its server. */
rcm_status rcmi_unique_id_open(const struct rcm_unique_id *id, const char *secret,
                               rcmi_deadline deadline, bool *ret_serves, rcm_store **ret_store);
rcm_status rcmi_unique_id_job(const struct rcm_unique_id *id, char job_id[RCMI_JOB_ID_TEXT]);

/* A rank's place in a job, see join.h. */
struct rcmi_join {
    int rank;
    bool claimed; /* others may know of this rank */
    int64_t generation;
    uint64_t job;   /* its number, drawn by rank 0: connections of other jobs are refused by it */
    char scope[64]; /* of the job's keys: new, and the same on all ranks */
    char key[64];   /* the rank's own, what it holds now and what it held before */
    char mine[400], before[400];
    char ended[400];    /* what it held when its process was seen to have ended; while claiming */
    uint64_t begun;     /* rcmi_process_begun of this process */
    bool met;           /* rank 0 was there when this process had begun */
    rcmi_deadline sure; /* until then ranks that may be an earlier job's are not judged */
};

/* Claims launch's rank in the store and agrees with rank 0 on the job, waiting for it until the
 * deadline. RCM_ERR_CONFIG names the store, the process that is in the way, and what would help;
 * the other ranks are told, unless that process is surely of another job. */
rcm_status rcmi_join(rcm_store *store, const struct rcmi_launch *launch, rcmi_deadline deadline,
                     struct rcmi_join *ret_join);
/* The exchanges of a job: rcmi_exchange under scope/NAME. */
#define RCMI_EXCHANGE_RANK         "rank"
#define RCMI_EXCHANGE_SHARING      "sharing"
#define RCMI_EXCHANGE_SHARING_EACH "sharing/each"
/* This rank joined and failed afterwards: the ranks that are in one of these are told the thread's
 * error, which stays. */
void rcmi_join_fail(rcm_store *store, const struct rcmi_join *join);
/* Whether another rank that joined cannot come any more: its process has ended. RCM_ERR_PEER names
 * it, or RCM_ERR_CONFIG rank 0 where that may have been in an earlier job, which is said. Only
 * processes of this machine can be looked at: by rank 0 all of them, by others rank 0's. RCM_OK
 * also where the store does not answer. */
rcm_status rcmi_join_look(rcm_store *store, const struct rcmi_launch *launch,
                          const struct rcmi_join *join);
/* Another process may be this rank from now on. */
rcm_status rcmi_join_leave(rcm_store *store, struct rcmi_join *join);

/* Milliseconds between looks: more for very many ranks. */
#define RCMI_LOOK_MS(nranks) (500 + (nranks))
/* Something to look at now and then while waiting; not RCM_OK: there is nothing to wait for. */
struct rcmi_look {
    rcm_status (*fn)(void *arg);
    void *arg;
};

/*
 * Everybody's blob to everybody: each rank publishes `mine` under scope/RANK and gets all nranks
 * blobs, its own too; blobs may differ in length. On success the caller frees each ret_all[i].data.
 * When the deadline passes the error names every rank that has not arrived. Who is missing after
 * RINGCOMM_WARN_AFTER is logged. look, which may be NULL, is asked now and then meanwhile, and what
 * it fails with, with its sentence as the thread's error, ends the exchange here. scope must be
 * new: a store keeps what was published. A rank that cannot come may put a refusal under scope/all
 * (member.h), with which the exchange then fails everywhere.
 */
rcm_status rcmi_exchange(rcm_store *store, const char *scope, int rank, int nranks,
                         const void *mine, size_t len, rcmi_deadline deadline,
                         const struct rcmi_look *look, struct rcm_blob *ret_all);

#endif
