/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MPICH's mpirun (Hydra) and other process managers with PMI-1 on the socket PMI_FD, such as
 * srun --mpi=pmi2. Rank 0 puts its store's address into their key-value space.
 *
 * The connection belongs to the process; an MPI library in the program shares it. A process that
 * ends without the finalize message counts as failed, and the manager ends the job. So a destructor
 * sends finalize once, at exit or unload, unless MPI_Finalize already did.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "error.h"
#include "fd.h"
#include "fork.h"
#include "launch_meet.h"
#include "pmi1.h"

#define GOODBYE_MS 1000

/* ---- The environment ----------------------------------------------------------------------- */

static bool hydra_detect(void) {
    return rcmi_env("PMI_RANK") || rcmi_env("PMI_SIZE");
}

static rcm_status hydra_resolve(struct rcmi_launcher_info *ret_info) {
    struct rcmi_launcher_info info = {.rank_name = "PMI_RANK",
                                      .size_name = "PMI_SIZE",
                                      .local_rank_name = "MPI_LOCALRANKID",
                                      .local_size_name = "MPI_LOCALNRANKS",
                                      .local_rank = -1};
    rcm_status status = rcmi_launcher_info_read("a PMI launcher", &info);
    rcmi_launcher_info_job("PMI_JOBID", &info); /* Hydra does not set it */
    if (status == RCM_OK)
        *ret_info = info;
    return status;
}

static rcm_status hydra_meeting(const struct rcmi_launch *launch, char **ret_meeting) {
    int fd;
    (void)launch;
    if (!rcmi_env("PMI_FD"))
        return rcmi_fail(
            RCM_ERR_CONFIG, 0,
            "cannot get rank 0's address from the process manager: PMI_RANK is set but "
            "PMI_FD is not; set MASTER_ADDR and MASTER_PORT, or "
            "RINGCOMM_URL=tcp://host:port");
    rcm_status status = rcmi_env_number("PMI_FD", 0, 1 << 20, &fd);
    if (status != RCM_OK)
        return status;
    return asprintf(ret_meeting, "pmi:%d", fd) < 0
               ? rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the launch settings")
               : RCM_OK;
}

/* ---- The connection ------------------------------------------------------------------------ */

static struct session {
    pthread_mutex_t lock; /* guards all */
    bool open;
    uint32_t generation; /* of the process that opened it; a forked child has only a copy */
    dev_t dev;           /* of the socket: if MPI closed it, another file may have its number */
    ino_t ino;
    struct rcmi_pmi1 pmi;
} session = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool session_is_ours(const struct session *s) {
    struct stat st;
    return s->open && rcmi_fork_is_maker(s->generation) && fstat(s->pmi.fd, &st) == 0 &&
           st.st_dev == s->dev && st.st_ino == s->ino;
}

static rcm_status session_open(struct session *s, int fd, rcmi_deadline deadline) {
    struct stat st;
    if (session_is_ours(s))
        return RCM_OK;
    if (s->open && rcmi_fork_is_maker(s->generation))
        return rcmi_fail(
            RCM_ERR_CONFIG, 0,
            "the PMI connection (PMI_FD=%d) was closed, possibly by MPI_Finalize; call "
            "rcm_init before it, or set MASTER_ADDR and MASTER_PORT",
            fd);
    if (fstat(fd, &st) != 0 || !S_ISSOCK(st.st_mode))
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "PMI_FD=%d is not an open socket: a program between mpirun and this one "
                         "may have closed it; set MASTER_ADDR and MASTER_PORT",
                         fd);
    rcmi_socket_prepare(fd); /* some process managers connect it over TCP */
    rcm_status status = rcmi_pmi1_init(&s->pmi, fd, deadline);
    /* Also after a failure: the server has seen this process and expects finalize. */
    s->open = true;
    s->generation = rcmi_fork_watch();
    s->dev = st.st_dev;
    s->ino = st.st_ino;
    return status;
}

__attribute__((destructor)) static void session_close(void) {
    if (!session_is_ours(&session) || pthread_mutex_trylock(&session.lock) != 0)
        return;
    (void)!rcmi_pmi1_finalize(&session.pmi, rcmi_deadline_in(GOODBYE_MS));
    session.open = false;
    pthread_mutex_unlock(&session.lock);
}

/* ---- Meeting ------------------------------------------------------------------------------- */

struct pin {
    unsigned round;
    int fd;
};

/* Called by all ranks: a barrier separates put and get. */
static rcm_status hydra_pin(void *arg, const char *mine, rcmi_deadline deadline, char *text) {
    const struct pin *pin = arg;
    char key[40];
    snprintf(key, sizeof key, "ringcomm-store-%u", pin->round);
    pthread_mutex_lock(&session.lock);
    rcm_status status = session_open(&session, pin->fd, deadline);
    if (status == RCM_OK && mine)
        status = rcmi_pmi1_put(&session.pmi, key, mine, deadline);
    if (status == RCM_OK)
        status = rcmi_pmi1_barrier(&session.pmi, deadline);
    if (status == RCM_OK && !mine)
        status = rcmi_pmi1_get(&session.pmi, key, deadline, text, RCMI_MEET_TEXT);
    pthread_mutex_unlock(&session.lock);
    return status;
}

static rcm_status hydra_meet(struct rcmi_launch *launch, unsigned round, const char *secret,
                             rcmi_deadline deadline, rcm_store **ret_store) {
    struct pin pin = {.round = round};
    const struct rcmi_board board = {.pin = hydra_pin, .arg = &pin};
    rcm_status status = rcmi_env_number("PMI_FD", 0, 1 << 20, &pin.fd);
    return status == RCM_OK ? rcmi_meet_by_board(launch, &board, secret, deadline, ret_store)
                            : status;
}

const struct rcmi_launcher rcmi_launcher_hydra = {
    .name = "PMI (MPICH's mpirun)",
    .detect = hydra_detect,
    .resolve = hydra_resolve,
    .meeting = hydra_meeting,
    .meet = hydra_meet,
};
