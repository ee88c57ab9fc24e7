/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * watch.c: see watch.h. One loop around poll(), which sleeps until a pipe, a signal or a deadline
 * is ready. Writing to the launcher's own stdout never blocks the loop: output that the reader has
 * not taken waits in the sink, and above a limit in the ranks' pipes.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "watch.h"

#define NEVER      INT64_MAX
#define TAIL_LINES 8

struct watch {
    const struct run_job *job;
    struct run_rank *ranks;
    struct pollfd
        *polled; /* only descriptors in use: poll() fails if there are more entries than */
    int npolled; /* the limit of open files, even if some are marked as unused */
    int signals_at, sinks_at[2]; /* in polled, -1 nowhere */
    struct run_sink sinks[2];
    struct run_sink *out, *err; /* the same one when stdout and stderr are one file */
    int signal_fd;
    int64_t timeout_ms, timeout_at;
    bool stopping;
    bool succeeded;  /* some rank exited with 0 */
    int64_t kill_at; /* when SIGKILL follows SIGTERM; else NEVER */
    int first;       /* rank that failed first, -1 for none */
    int forwarded;   /* last forwarded signal, 0 for none */
    int status;      /* of the launcher, unless it is the first failed rank's */
};

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Stopping ------------------------------------------------------------------------------ */

static void watch_signal_all(struct watch *watch, int sig) {
    for (int r = 0; r < watch->job->nranks; r++)
        run_rank_signal(&watch->ranks[r], sig);
}

static void watch_stop(struct watch *watch) {
    if (watch->stopping)
        return;
    watch->stopping = true;
    watch->kill_at = now_ms() + RUN_GRACE_MS;
    watch_signal_all(watch, SIGTERM);
    watch_signal_all(watch, SIGCONT); /* a stopped rank cannot act on SIGTERM */
}

/* Appends "0 1 5 ..." to text. */
static void list_alive(const struct watch *watch, char *text, size_t room) {
    size_t len = 0;
    for (int r = 0; r < watch->job->nranks && len + 16 < room; r++)
        if (watch->ranks[r].state == RUN_RANK_ALIVE)
            len += (size_t)snprintf(text + len, room - len, " %d", r);
    if (len + 16 >= room)
        snprintf(text + len, room - len, " ...");
}

static void watch_time_out(struct watch *watch) {
    char alive[200] = "";
    watch->timeout_at = NEVER;
    list_alive(watch, alive, sizeof(alive));
    run_sink_printf(watch->err,
                    "ringcomm-run: timeout after %g s, stopping the ranks that still run:%s\n",
                    (double)watch->timeout_ms / 1000, alive);
    if (watch->status == 0)
        watch->status = RUN_STATUS_TIMEOUT;
    watch_stop(watch);
}

/* ---- Ends of ranks ------------------------------------------------------------------------- */

/* Whether `rank` replaces `before` as the first failure. Among ranks that ended between two checks,
 * a killed one counts as the cause, and one that exited with an error as its consequence. */
static bool rank_failed_first(const struct run_rank *rank, const struct run_rank *before) {
    if (run_rank_status(rank) == 0)
        return false;
    return !before || (rank->by_signal && !before->by_signal);
}

static void watch_describe_end(struct watch *watch, const struct run_rank *rank) {
    if (rank->by_signal)
        run_sink_printf(watch->err, "killed by signal %d (%s)", rank->code, strsignal(rank->code));
    else
        run_sink_printf(watch->err, "exited with status %d", rank->code);
}

/* For --keep-going: prints the failure immediately, because the job may run for long. */
static void watch_note_end(struct watch *watch, struct run_rank *rank) {
    if (run_rank_status(rank) == 0) {
        watch->succeeded = true;
        return;
    }
    if (watch->first < 0)
        watch->first = rank->rank;
    run_sink_printf(watch->err, "ringcomm-run: rank %d (pid %d) failed: ", rank->rank,
                    (int)rank->pid);
    watch_describe_end(watch, rank);
    run_sink_printf(watch->err, "; the other ranks continue\n");
}

static bool is_ours(const struct watch *watch, pid_t pid) {
    bool ours = pid == watch->job->keeper.pid;
    for (int r = 0; r < watch->job->nranks && !ours; r++)
        ours = watch->ranks[r].state != RUN_RANK_GONE && watch->ranks[r].pid == pid;
    return ours;
}

/* Reaps orphans: as process 1 of a container, or as a subreaper, the launcher gets children that it
 * did not start. waitid returns an ended rank first; orphans follow once the rank is reaped. */
static void watch_collect_orphans(const struct watch *watch) {
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0 ||
            is_ours(watch, info.si_pid))
            return;
        (void)waitpid(info.si_pid, NULL, WNOHANG);
    }
}

static void watch_check_ranks(struct watch *watch) {
    struct run_rank *first = NULL;
    for (int r = 0; r < watch->job->nranks; r++) {
        struct run_rank *rank = &watch->ranks[r];
        if (!run_rank_check(rank))
            continue;
        rank->leave_at = now_ms() + RUN_GRACE_MS;
        run_rank_signal(rank, SIGTERM); /* its children, if it left any */
        if (watch->job->keep_going && !watch->stopping)
            watch_note_end(watch, rank);
        else if (rank_failed_first(rank, first))
            first = rank;
    }
    if (!first || watch->stopping)
        return;
    watch->first = first->rank;
    watch_stop(watch);
}

static void stream_drain(struct run_stream *stream, bool last) {
    if (stream->fd < 0 || run_sink_full(stream->sink))
        return;
    enum run_read result = run_stream_read(stream);
    if (result == RUN_READ_END || (result == RUN_READ_NOTHING && last))
        run_stream_close(stream);
}

/* Reaps an ended rank once no process can write its output, or its time has passed. Then reads its
 * streams to their end without waiting. */
static void watch_collect_ranks(struct watch *watch) {
    int64_t now = now_ms();
    for (int r = 0; r < watch->job->nranks; r++) {
        struct run_rank *rank = &watch->ranks[r];
        bool quiet = rank->out.fd < 0 && rank->err.fd < 0;
        if (rank->state == RUN_RANK_ENDED &&
            (quiet || now >= rank->leave_at || now >= watch->kill_at))
            run_rank_collect(rank, &watch->job->keeper);
        if (rank->state == RUN_RANK_GONE) {
            stream_drain(&rank->out, true);
            stream_drain(&rank->err, true);
        }
    }
}

/* ---- Signals ------------------------------------------------------------------------------- */

/* The first SIGINT or SIGTERM is forwarded, and the ranks decide. At the second one the launcher
 * stops them. At the third one it also drops unread output. */
static void watch_forward(struct watch *watch, int sig) {
    bool again = watch->forwarded != 0 && sig != SIGHUP;
    if (again && watch->stopping) {
        watch->kill_at = now_ms();
        watch->out->broken = watch->err->broken = ECANCELED;
        watch->out->pending.begin = watch->out->pending.end = 0;
        watch->err->pending.begin = watch->err->pending.end = 0;
    }
    watch_signal_all(watch, sig);
    watch->forwarded = sig;
    if (!again || watch->stopping)
        return;
    watch->status = 128 + sig;
    run_sink_printf(watch->err, "ringcomm-run: stopping the ranks after a second signal %d (%s)\n",
                    sig, strsignal(sig));
    watch_stop(watch);
}

static void watch_read_signals(struct watch *watch) {
    struct signalfd_siginfo info;
    while (read(watch->signal_fd, &info, sizeof(info)) == sizeof(info))
        if (info.ssi_signo != SIGCHLD)
            watch_forward(watch, (int)info.ssi_signo);
}

/* ---- The loop ------------------------------------------------------------------------------ */

static void watch_deadlines(struct watch *watch) {
    int64_t now = now_ms();
    if (now >= watch->timeout_at)
        watch_time_out(watch);
    if (now >= watch->kill_at) {
        watch->kill_at = NEVER;
        watch_signal_all(watch, SIGKILL);
    }
}

static int poll_timeout(const struct watch *watch) {
    int64_t at = watch->timeout_at < watch->kill_at ? watch->timeout_at : watch->kill_at;
    for (int r = 0; r < watch->job->nranks; r++) {
        const struct run_rank *rank = &watch->ranks[r];
        if (rank->state == RUN_RANK_ENDED && rank->leave_at < at)
            at = rank->leave_at;
        if (rank->state == RUN_RANK_GONE && (rank->out.fd >= 0 || rank->err.fd >= 0))
            at = run_sink_full(rank->out.sink) || run_sink_full(rank->err.sink) ? at : 0;
    }
    if (at == NEVER)
        return -1;
    int64_t left = at - now_ms();
    return left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

/* Returns its index in the array; -1 for fd -1. */
static int poll_add(struct watch *watch, int fd, short events) {
    if (fd < 0)
        return -1;
    watch->polled[watch->npolled] = (struct pollfd){.fd = fd, .events = events};
    return watch->npolled++;
}

static bool poll_ready(const struct watch *watch, int at) {
    return at >= 0 && watch->polled[at].revents != 0;
}

static void poll_add_stream(struct watch *watch, struct run_stream *stream) {
    stream->poll_at = poll_add(watch, run_sink_full(stream->sink) ? -1 : stream->fd, POLLIN);
}

static void watch_poll(struct watch *watch) {
    watch->npolled = 0;
    watch->signals_at = poll_add(watch, watch->signal_fd, POLLIN);
    for (int i = 0; i < 2; i++) {
        const struct run_sink *sink = &watch->sinks[i];
        watch->sinks_at[i] = poll_add(watch, run_sink_empty(sink) ? -1 : sink->fd, POLLOUT);
    }
    for (int r = 0; r < watch->job->nranks; r++) {
        poll_add_stream(watch, &watch->ranks[r].out);
        poll_add_stream(watch, &watch->ranks[r].err);
    }
    if (poll(watch->polled, (nfds_t)watch->npolled, poll_timeout(watch)) >= 0)
        return;
    for (int i = 0; i < watch->npolled; i++)
        watch->polled[i].revents = 0;
    if (errno != EINTR) /* the kernel is short of memory: retry after a pause */
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static void watch_flush(struct watch *watch) {
    for (int i = 0; i < 2; i++) {
        struct run_sink *sink = &watch->sinks[i];
        if (!poll_ready(watch, watch->sinks_at[i]))
            continue;
        run_sink_flush(sink);
        if (!sink->broken || watch->stopping)
            continue;
        watch->status = 128 + SIGPIPE; /* `ringcomm-run ... | head` is no error */
        if (sink->broken != EPIPE) {
            watch->status = 1;
            run_sink_printf(watch->err, "ringcomm-run: cannot write the output: %s\n",
                            strerror(sink->broken));
        }
        watch_stop(watch);
    }
}

static bool watch_busy(const struct watch *watch) {
    for (int r = 0; r < watch->job->nranks; r++) {
        const struct run_rank *rank = &watch->ranks[r];
        if (rank->out.fd >= 0 || rank->err.fd >= 0 || rank->state == RUN_RANK_ALIVE ||
            rank->state == RUN_RANK_ENDED)
            return true;
    }
    return !run_sink_empty(watch->out) || !run_sink_empty(watch->err);
}

static void watch_loop(struct watch *watch) {
    while (watch_busy(watch)) {
        watch_poll(watch);
        watch_flush(watch);
        for (int r = 0; r < watch->job->nranks; r++) {
            if (poll_ready(watch, watch->ranks[r].out.poll_at))
                stream_drain(&watch->ranks[r].out, false);
            if (poll_ready(watch, watch->ranks[r].err.poll_at))
                stream_drain(&watch->ranks[r].err, false);
        }
        if (poll_ready(watch, watch->signals_at))
            watch_read_signals(watch);
        watch_check_ranks(watch);
        watch_collect_ranks(watch);
        watch_collect_orphans(watch);
        watch_deadlines(watch);
    }
}

/* ---- Start and end ------------------------------------------------------------------------- */

static void watch_start_ranks(struct watch *watch) {
    for (int r = 0; r < watch->job->nranks && !watch->stopping; r++) {
        const char *what;
        struct run_rank *rank = &watch->ranks[r];
        int error = run_rank_start(rank, watch->job, watch->out, watch->err, &what);
        if (error == 0)
            continue;
        const char *program = watch->job->argv[0];
        const char *quote = strcmp(what, "run") == 0 ? "" : "rank of ";
        run_sink_printf(watch->err, "ringcomm-run: cannot %s %s'%s' (rank %d): %s\n", what, quote,
                        program, r, strerror(error));
        watch->status = error == ENOENT ? RUN_STATUS_NO_FILE : RUN_STATUS_NO_EXEC;
        watch_stop(watch);
    }
}

/* Reports the rank that failed first, unless it was ended by a forwarded signal. */
static void watch_name_first(struct watch *watch) {
    if (watch->first < 0 || (watch->job->keep_going && watch->succeeded))
        return;
    struct run_rank *rank = &watch->ranks[watch->first];
    if (rank->by_signal && rank->code == watch->forwarded) {
        run_sink_printf(watch->err, "ringcomm-run: ended by the forwarded signal %d (%s)\n",
                        rank->code, strsignal(rank->code));
        return;
    }
    run_sink_printf(watch->err, "ringcomm-run: rank %d (pid %d) failed first: ", rank->rank,
                    (int)rank->pid);
    watch_describe_end(watch, rank);
    bool silent = rank->err.tail_len == 0;
    run_sink_printf(watch->err, "%s\n", silent ? "" : "; the last lines of its stderr:");
    run_stream_tail(&rank->err, TAIL_LINES, watch->err);
}

static bool same_file(int a, int b) {
    struct stat sta, stb;
    return fstat(a, &sta) == 0 && fstat(b, &stb) == 0 && sta.st_dev == stb.st_dev &&
           sta.st_ino == stb.st_ino;
}

static int watch_init(struct watch *watch, const struct run_job *job, int64_t timeout_ms) {
    size_t nranks = (size_t)job->nranks;
    watch->job = job;
    watch->kill_at = NEVER;
    watch->timeout_ms = timeout_ms;
    watch->timeout_at = timeout_ms > 0 ? now_ms() + timeout_ms : NEVER;
    watch->first = -1;
    run_sink_init(&watch->sinks[0], 1);
    run_sink_init(&watch->sinks[1], 2);
    watch->out = &watch->sinks[0];
    watch->err = same_file(1, 2) ? watch->out : &watch->sinks[1];
    watch->ranks = calloc(nranks, sizeof(*watch->ranks));
    watch->polled = calloc(3 + 2 * nranks, sizeof(*watch->polled));
    if (!watch->ranks || !watch->polled)
        return -1;
    for (int r = 0; r < job->nranks; r++)
        watch->ranks[r] = (struct run_rank){
            .rank = r,
            .out = {.fd = -1, .log_fd = -1, .rank = r, .sink = watch->out},
            .err = {.fd = -1, .log_fd = -1, .rank = r, .sink = watch->err},
        };
    return 0;
}

int run_watch(const struct run_job *job, int signal_fd, int64_t timeout_ms) {
    struct watch watch = {.signal_fd = signal_fd};
    if (watch_init(&watch, job, timeout_ms) != 0) {
        fprintf(stderr, "ringcomm-run: out of memory for %d ranks\n", job->nranks);
        free(watch.ranks);
        free(watch.polled);
        return 1;
    }
    watch_start_ranks(&watch);
    watch_loop(&watch);
    watch_name_first(&watch);
    watch_loop(&watch); /* no rank is left: this writes the report */
    int status = watch.status;
    if (status == 0 && watch.first >= 0 && !(job->keep_going && watch.succeeded))
        status = run_rank_status(&watch.ranks[watch.first]);
    free(watch.ranks);
    free(watch.polled);
    run_sink_free(&watch.sinks[0]);
    run_sink_free(&watch.sinks[1]);
    return status;
}
