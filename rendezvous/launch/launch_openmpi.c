/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Open MPI's mpirun. It has a PMIx server, through which ranks meet if libpmix can be loaded
 * (launch_pmix.c). Without libpmix, ranks on one machine use the session directory that mpirun
 * made, which only their user can access: rank 0 writes its store's address to a file there.
 * Across machines the environment does not lead to rank 0 (mpirun may run elsewhere), so the user
 * must set MASTER_ADDR and MASTER_PORT.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "error.h"
#include "fd.h"
#include "launch_meet.h"
#include "log.h"

#define POLL_MS 10
#define WARN_MS 30000

/* ---- The environment ----------------------------------------------------------------------- */

static bool openmpi_detect(void) {
    return rcmi_env("OMPI_COMM_WORLD_RANK") || rcmi_env("OMPI_COMM_WORLD_SIZE");
}

static const char *job_variable(void) {
    return rcmi_env_either("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid");
}

static rcm_status openmpi_resolve(struct rcmi_launcher_info *ret_info) {
    struct rcmi_launcher_info info = {.rank_name = "OMPI_COMM_WORLD_RANK",
                                      .size_name = "OMPI_COMM_WORLD_SIZE",
                                      .local_rank_name = "OMPI_COMM_WORLD_LOCAL_RANK",
                                      .local_size_name = "OMPI_COMM_WORLD_LOCAL_SIZE",
                                      .local_rank = -1};
    rcm_status status = rcmi_launcher_info_read("Open MPI", &info);
    rcmi_launcher_info_job(job_variable(), &info);
    if (status == RCM_OK)
        *ret_info = info;
    return status;
}

/* An outer srun --mpi=pmix has a server too, but mpirun's own replaces it. */
static bool openmpi_brings_pmix(void) {
    const char *name = rcmi_env("PMIX_NAMESPACE");
    return name && strncmp(name, "slurm.", 6) != 0;
}

/* The first of these directories that only our user can write to. */
static const char *session_dir(void) {
    static const char *const names[] = {"PMIX_SERVER_TMPDIR", "OMPI_MCA_orte_jobfam_session_dir"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *dir = rcmi_env(names[i]);
        struct stat st;
        if (dir && dir[0] == '/' && lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) &&
            st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)))
            return dir;
    }
    return NULL;
}

/* The job within the session, as part of a file name. */
static void job_name(char *name, size_t cap) {
    const char *job = rcmi_env(job_variable());
    snprintf(name, cap, "%s", job ? job : "job");
    for (char *at = name; *at; at++)
        if (*at == '/' || *at == '.')
            *at = '_';
}

static rcm_status openmpi_meeting(const struct rcmi_launch *launch, char **ret_meeting) {
    char job[100];
    const char *dir = session_dir();
    if (!rcmi_launch_one_host(launch))
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "cannot find rank 0's address: Open MPI started %d of %d ranks on this "
                         "machine; install libpmix.so.2 everywhere (Debian: libpmix2), or add  "
                         "-x MASTER_ADDR=HOST -x MASTER_PORT=29500  with rank 0's host to mpirun",
                         launch->local_size, launch->world_size);
    if (!dir)
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "Open MPI's session directory (PMIX_SERVER_TMPDIR=%.100s) does not exist, "
                         "or others can write to it; add  -x MASTER_ADDR=127.0.0.1 "
                         "-x MASTER_PORT=29500  to mpirun",
                         rcmi_env("PMIX_SERVER_TMPDIR") ? rcmi_env("PMIX_SERVER_TMPDIR") : "");
    job_name(job, sizeof job);
    return asprintf(ret_meeting, "%s/ringcomm-%s", dir, job) < 0
               ? rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the launch settings")
               : RCM_OK;
}

/* ---- The file ------------------------------------------------------------------------------ */

/* Atomic: writes the file under another name, then renames it. */
static rcm_status file_write(const char *path, const char *text, rcmi_deadline deadline) {
    char *draft;
    if (asprintf(&draft, "%s.new", path) < 0)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a file name");
    rcm_status status;
    int fd = rcmi_fd_high(open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (fd < 0)
        status = rcmi_fail(rcmi_status_of_errno(errno), errno, "cannot create %s", draft);
    else
        status = rcmi_fd_write_full(fd, text, strlen(text), deadline);
    rcmi_fd_close(&fd);
    if (status == RCM_OK && rename(draft, path) != 0)
        status =
            rcmi_fail(rcmi_status_of_errno(errno), errno, "cannot rename %s to %s", draft, path);
    if (status != RCM_OK)
        (void)!unlink(draft);
    free(draft);
    return status;
}

/* RCM_AGAIN: the file does not exist yet. */
static rcm_status file_read(const char *path, char *text) {
    struct stat st;
    size_t len = 0, got = 1;
    int fd = rcmi_fd_high(open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (fd < 0 && errno == ENOENT)
        return RCM_AGAIN;
    if (fd < 0 || fstat(fd, &st) != 0)
        goto failed;
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_size <= 0 ||
        st.st_size >= RCMI_MEET_TEXT) {
        rcmi_fd_close(&fd);
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "%s was not written by rank 0 of this job", path);
    }
    while (len < (size_t)st.st_size && got > 0) {
        rcm_status status = rcmi_fd_read(fd, text + len, (size_t)st.st_size - len, &got);
        if (status != RCM_OK) {
            rcmi_fd_close(&fd);
            return rcmi_fail_context("%s", path);
        }
        len += got;
    }
    text[len] = '\0';
    rcmi_fd_close(&fd);
    return RCM_OK;
failed:;
    rcm_status status = rcmi_fail(rcmi_status_of_errno(errno), errno, "cannot read %s", path);
    rcmi_fd_close(&fd);
    return status;
}

static rcm_status file_await(const char *path, rcmi_deadline deadline, char *text) {
    const int64_t start = rcmi_now_ns();
    bool warned = false;
    for (;;) {
        rcm_status status = file_read(path, text);
        double seconds = (double)(rcmi_now_ns() - start) / 1e9;
        if (status != RCM_AGAIN)
            return status;
        if (rcmi_deadline_passed(deadline))
            return rcmi_fail_origin(RCM_ERR_TIMEOUT, 0,
                                    "rank 0 did not write its address to %s within %.1f s: it has "
                                    "not called rcm_init, or has another file system",
                                    path, seconds);
        if (seconds * 1000 > WARN_MS && !warned) {
            warned = true;
            rcmi_log(RCMI_LOG_WARN,
                     "rank 0 did not write its address to %s within %.0f s; "
                     "still waiting",
                     path, seconds);
        }
        rcmi_deadline_sleep(POLL_MS, deadline);
    }
}

/* ---- Meeting ------------------------------------------------------------------------------- */

static rcm_status openmpi_pin(void *arg, const char *mine, rcmi_deadline deadline, char *text) {
    const char *path = arg;
    return mine ? file_write(path, mine, deadline) : file_await(path, deadline, text);
}

static rcm_status openmpi_meet(struct rcmi_launch *launch, unsigned round, const char *secret,
                               rcmi_deadline deadline, rcm_store **ret_store) {
    char *path;
    if (asprintf(&path, "%s-%u", launch->meeting, round) < 0)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a file name");
    const struct rcmi_board board = {.pin = openmpi_pin, .arg = path};
    rcm_status status = rcmi_meet_by_board(launch, &board, secret, deadline, ret_store);
    if (launch->rank == 0)
        launch->leftover = path; /* until all have joined */
    else
        free(path);
    return status;
}

const struct rcmi_launcher rcmi_launcher_openmpi = {
    .name = "Open MPI's session directory",
    .detect = openmpi_detect,
    .resolve = openmpi_resolve,
    .brings_pmix = openmpi_brings_pmix,
    .meeting = openmpi_meeting,
    .meet = openmpi_meet,
};
