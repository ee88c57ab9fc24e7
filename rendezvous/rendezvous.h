/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rendezvous/: brings the ranks of a job together.
 *
 *      launch/                       store/: hash, file, tcp, ...        join/
 *      this process's rank, the  ->  a small shared dictionary with  ->  each rank puts one blob
 *      world, where to meet          c10d's protocol and format          there, gets all others'
 *
 * This header declares what api/ and ringcomm-run use in addition to the public rcm_store_
 * functions. Not for: connections between ranks (transport/), and anything after rcm_init except
 * stores that a program opens itself.
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

/* rcm_store_open with the caller's secret (NULL: none) instead of the environment's. */
rcm_status rcmi_store_open(const char *url, const char *secret, int64_t timeout_ms,
                           rcm_store **ret_store);

/* Sets the time limit of this thread's store calls that have no timeout argument. Returns the
 * previous limit (initially 30 s). Used for final calls to a store that may be gone. */
int64_t rcmi_store_patience(int64_t ms);

/* A common deadline for all store calls of a thread, and the time that they took. Waits for other
 * ranks are not counted. After the deadline no call starts, and bounded calls fail with
 * RCM_ERR_TIMEOUT. */
struct rcmi_store_budget {
    rcmi_deadline deadline;
    int calls;
    int64_t total_ns, longest_ns;
    const char *longest; /* "try_get" */
};
/* Sets this thread's budget (NULL, the initial value: none). Returns the previous one. */
struct rcmi_store_budget *rcmi_store_budget(struct rcmi_store_budget *budget);
/* Called with the thread's error, a timeout. If the calls took a large part of the time since
 * began_ns, adds the store and the calls' duration to the error. Returns status. */
rcm_status rcmi_store_slow(const struct rcmi_store_budget *budget, const rcm_store *store,
                           int64_t began_ns, rcm_status status);

/* Brackets final calls to a store that may be gone or slow, also after the budget's deadline.
 * Limits: 1 s for each call, and 1 to 5 s for all of them. */
struct rcmi_store_final {
    int64_t patience;
    struct rcmi_store_budget own, *outer;
};
void rcmi_store_final_begin(struct rcmi_store_final *final);
void rcmi_store_final_end(const struct rcmi_store_final *final);

/* Closing this store will not delete what other ranks may still read. The file of a failed job
 * stays, so that a late rank finds the failure. */
void rcmi_store_keep(rcm_store *store);

/* The address at which this process reaches the server of a TCP store. len is 0 for other kinds of
 * store, and for a server in this process that listens on all addresses. */
void rcmi_store_server(rcm_store *store, struct rcmi_sockaddr *ret_addr);
/* If this process serves the store, closing it rejects new clients but keeps serving the connected
 * ones until they disconnect, for at most 2 s. So ranks of the same job can read why it failed. */
void rcmi_store_linger(rcm_store *store);

/* Creates the listener of a TCP store. If host names an address of this machine, it binds only that
 * address. It binds all addresses for NULL, for a foreign host, and for a name that is loopback
 * only on this machine (Debian's 127.0.1.1). port 0: any free one. The error names a port that is
 * in use. The caller owns the descriptor; a forked child does not get it. */
rcm_status rcmi_store_listen(const char *host, int port, int *ret_fd, int *ret_port);

/* Serves a TCP store on a listening descriptor, with the secret of the environment. The store owns
 * the descriptor from then on, also after an error. rcm_store_url returns the address; closing the
 * store stops the server. */
rcm_status rcmi_store_serve(int listen_fd, rcm_store **ret_store);

/* A store made of the program's functions, which the caller has validated. */
rcm_status rcmi_custom_open(const struct rcm_store_functions *functions, rcm_store **ret_store);

/* Once *canceled is true, this thread's waits for other ranks (rcmi_launch_open, rcmi_join,
 * rcmi_exchange) end within about 1 s with RCM_ERR_CANCELED. NULL, the initial value: no
 * cancellation. */
void rcmi_store_cancel_by(const _Atomic bool *canceled);
/* RCM_OK, or RCM_ERR_CANCELED with the thread's error. */
rcm_status rcmi_store_canceled(void);

struct rcmi_launcher;

#define RCMI_JOB_ID_TEXT 65

/* This process's rank and the store at which it meets the other ranks. */
struct rcmi_launch {
    int rank;
    int world_size;
    int local_rank; /* -1: unknown */
    int local_size; /* 0: unknown */
    int attempt; /* TORCHELASTIC_RESTART_COUNT, 0: the first. A launcher's store keeps the keys of
                    earlier attempts, so keys should contain it */
    char *url;   /* for rcmi_store_open, with rank and world_size; "hash:" for a single rank; NULL
                    if options->store, unique_id or the launcher's rendezvous is used */
    bool rank_0_serves;            /* rank 0 serves the TCP store at url */
    char job_id[RCMI_JOB_ID_TEXT]; /* equal on all ranks of a job, unique among jobs; "": none */
    char *origin; /* for messages: "rank from RANK, store from MASTER_ADDR and MASTER_PORT" */
    struct rcmi_launch_from {
        const char *rank, *size, *store;              /* never NULL: "RANK" */
        const char *local_rank, *local_size, *job_id; /* NULL: not set */
    } from;                                           /* the source of each value */
    const struct rcmi_launcher *launcher;             /* whose rendezvous is used; NULL: url's */
    char *meeting;                                    /* its address, in the launcher's terms */
    char *leftover;                                   /* a file that rcmi_launch_fini removes */
};

/*
 * Resolves this process's rank and rendezvous. The first source that is set wins (an empty variable
 * counts as not set):
 *
 *   1. options
 *   2. RINGCOMM_RANK, _WORLD_SIZE, _LOCAL_RANK, _LOCAL_WORLD_SIZE, _URL
 *   3. torchrun's RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE
 *   4. Open MPI's OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
 *   5. PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS (MPICH's Hydra, srun --mpi=pmi2)
 *   6. Slurm's SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS, SLURM_LOCALID, in a step only
 *   7. PMIX_RANK, and the other values from the PMIx server
 *
 * The store's address comes from the first of these:
 *
 *   - the URL (1, 2)
 *   - MASTER_ADDR and MASTER_PORT; rank 0 serves, or torchrun if TORCHELASTIC_USE_AGENT_STORE is
 *     true
 *   - the launcher's rendezvous, if rank and size are the launcher's: PMIx, if the launcher has a
 *     PMIx server and libpmix.so.2 can be loaded; Open MPI's session directory (one machine); PMI's
 *     key-value space; Slurm's first node and a port computed from job and step
 *
 * Contradictions are errors. The URL's rank and world_size have the URL's source; a different value
 * from the same or a stronger source is a contradiction. So are different ranks or sizes in 3, 4
 * and 5. But launchers pass on the variables they inherited. So with TORCHELASTIC_RUN_ID set,
 * torchrun is the innermost launcher and 4 and 5 are not compared. 6 and 7 are never compared: an
 * allocation sets 6 in all its processes. For the same reason 6 requires SLURM_STEP_ID: a batch
 * script has SLURM_NTASKS=4 and is one process.
 *
 * Local rank and size are used only if their source also gave rank and size, or gave the same
 * values. If options give rank, size and rendezvous (store, unique_id, or a url other than env://
 * and MASTER_ADDR:MASTER_PORT), the world is independent of the environment. Two variables still
 * count then, because they were set by hand: RINGCOMM_JOB_ID without RINGCOMM_RANK, and
 * TORCHELASTIC_RESTART_COUNT without RANK.
 *
 * The job id is RINGCOMM_JOB_ID; else TORCHELASTIC_RUN_ID, if torchrun was given one; else the id
 * of a launcher whose job has our number of ranks.
 *
 * RCM_ERR_CONFIG names the variable, its value, and a remedy. Reads the environment and the state
 * of files. Opens nothing, except a PMIx connection for 7. options may be NULL.
 */
rcm_status rcmi_launch_resolve(const struct rcm_init_options *options,
                               struct rcmi_launch *ret_launch);
/* Call it when all ranks have joined, or this one gave up. */
void rcmi_launch_fini(struct rcmi_launch *launch);

/* Opens the store of a launch without options->store: at url, or through the launcher's
 * rendezvous. The n-th call of each rank's process meets the n-th calls of the others. Secret and
 * timeout as in rcmi_store_open. */
rcm_status rcmi_launch_open(struct rcmi_launch *launch, const char *secret, int64_t timeout_ms,
                            rcm_store **ret_store);

/* The store of a unique id, and the job id derived from it. *ret_serves: this process made the id,
 * and the caller now owns the store and its server. */
rcm_status rcmi_unique_id_open(const struct rcm_unique_id *id, const char *secret,
                               rcmi_deadline deadline, bool *ret_serves, rcm_store **ret_store);
rcm_status rcmi_unique_id_job(const struct rcm_unique_id *id, char job_id[RCMI_JOB_ID_TEXT]);

/* A rank's membership in a job, see join.h. */
struct rcmi_join {
    int rank;
    bool claimed; /* other ranks may have seen this rank's key */
    int64_t generation;
    uint64_t job;   /* random number from rank 0; connections of other jobs are rejected by it */
    char scope[64]; /* prefix of the job's keys: new, and equal on all ranks */
    char key[64];   /* this rank's key, its current value and the value before */
    char mine[400], before[400];
    char ended[400];    /* while claiming: its value when its process was found to have ended */
    uint64_t begun;     /* rcmi_process_begun of this process */
    bool met;           /* rank 0's process ran after this process had begun */
    rcmi_deadline sure; /* until then, dead ranks that may be an earlier job's are not reported */
};

/* Claims launch's rank in the store and agrees with rank 0 on the job, waiting for rank 0 until the
 * deadline. RCM_ERR_CONFIG names the store, the conflicting process, and a remedy. The other ranks
 * get this error too, unless the process is certainly of another job. */
rcm_status rcmi_join(rcm_store *store, const struct rcmi_launch *launch, rcmi_deadline deadline,
                     struct rcmi_join *ret_join);
/* The exchanges of a job: rcmi_exchange under scope/NAME. */
#define RCMI_EXCHANGE_RANK         "rank"
#define RCMI_EXCHANGE_SHARING      "sharing"
#define RCMI_EXCHANGE_SHARING_EACH "sharing/each"
/* For a rank that joined and failed afterwards: publishes the thread's error to the ranks that are
 * in one of these exchanges. The thread's error stays. */
void rcmi_join_fail(rcm_store *store, const struct rcmi_join *join);
/* Detects ranks that joined and whose process has ended. RCM_ERR_PEER names the rank;
 * RCM_ERR_CONFIG names rank 0 and adds that it may have been in an earlier job. Only processes of
 * this machine can be checked. Rank 0 checks all of them; other ranks check rank 0's. Returns
 * RCM_OK also if the store does not answer. */
rcm_status rcmi_join_look(rcm_store *store, const struct rcmi_launch *launch,
                          const struct rcmi_join *join);
/* Gives up the rank: another process may claim it from now on. */
rcm_status rcmi_join_leave(rcm_store *store, struct rcmi_join *join);

/* Milliseconds between checks; grows with the number of ranks. */
#define RCMI_LOOK_MS(nranks) (500 + (nranks))
/* A periodic check during a wait. A result other than RCM_OK ends the wait. */
struct rcmi_look {
    rcm_status (*fn)(void *arg);
    void *arg;
};

/*
 * All-gather of blobs through the store: each rank publishes `mine` under scope/RANK and gets all
 * nranks blobs, including its own. Blobs may differ in length. On success the caller frees each
 * ret_all[i].data. After the deadline the error names all missing ranks; after RINGCOMM_WARN_AFTER
 * they are logged. look (may be NULL) is called periodically; its error ends the exchange on this
 * rank. scope must be new, because a store keeps the published keys. A rank that cannot take part
 * may store a refusal under scope/all (member.h); then the exchange fails on all ranks.
 */
rcm_status rcmi_exchange(rcm_store *store, const char *scope, int rank, int nranks,
                         const void *mine, size_t len, rcmi_deadline deadline,
                         const struct rcmi_look *look, struct rcm_blob *ret_all);

#endif
