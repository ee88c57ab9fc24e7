/* SPDX-License-Identifier: BSD-3-Clause */
/* Trace files: see trace_file.h. */
#include "trace_file.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include "error.h"
#include "log.h"
#include "fd.h"

/* Thread numbers: each track of a communicator has one for operations, followed by one per lane. */
enum { OF_TRACK = 512, OF_COMM = RCMI_TRACE_TRACKS * OF_TRACK, COMMS = INT_MAX / OF_COMM };

/* Trace of a communicator. */
struct traced {
    struct rcmi_trace trace; /* first: the pointer that others hold */
    struct traced *next;
    int number;
    char name[RCM_NAME_MAX];
    uint64_t written;    /* events */
    bool named[OF_COMM]; /* threads that have a name in the file */
};

struct rcmi_trace_file {
    pthread_mutex_t lock;
    struct traced *traces;
    int rank, ntraces;
    int64_t origin_s; /* time 0 of the file, in seconds of 1970 */
    char path[PATH_MAX];
};

/* Readers store microseconds in a double, whose resolution for times since 1970 is 250 ns. So time
 * 0 is a multiple of 12 days, which ranks that start together have in common. */
#define ORIGIN_STEP_S (INT64_C(1) << 20)

/* ---- The file -------------------------------------------------------------------------------- */

/* The text before the closing bracket is complete; events are appended in place of the bracket. */
#define TAIL "\n]\n"

static FILE *file_open(const struct rcmi_trace_file *file, bool anew) {
    const int flags = O_WRONLY | O_CLOEXEC | (anew ? O_CREAT | O_TRUNC : 0);
    const int fd = rcmi_fd_high(open(file->path, flags, 0666));
    const bool there = fd >= 0 && (anew || lseek(fd, -(off_t)strlen(TAIL), SEEK_END) >= 0);
    FILE *out = there ? fdopen(fd, "w") : NULL;
    if (!out && fd >= 0)
        close(fd);
    return out;
}

static bool file_end(FILE *out) {
    const bool written = fputs(TAIL, out) >= 0 && ferror(out) == 0;
    return fclose(out) == 0 && written;
}

/* False: it is too long. */
static bool path_make(const char *pattern, int rank, char path[PATH_MAX]) {
    const char *at = strstr(pattern, "%r");
    const int length =
        at ? snprintf(path, PATH_MAX, "%.*s%d%s", (int)(at - pattern), pattern, rank, at + 2)
           : snprintf(path, PATH_MAX, "%s.%d", pattern, rank);
    return length < PATH_MAX;
}

static void json_string(FILE *out, const char *text) {
    putc('"', out);
    for (; *text; text++)
        if (*text >= ' ' && *text <= '~' && *text != '"' && *text != '\\')
            putc(*text, out);
        else
            fprintf(out, "\\u%04x", (unsigned char)*text);
    putc('"', out);
}

/* Names a number of the file. kind: process_name or thread_name. */
static void name_write(FILE *out, const char *kind, int rank, int thread, const char *name) {
    fprintf(out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", kind,
            rank, thread);
    json_string(out, name);
    fputs("}}", out);
}

static bool file_begin(const struct rcmi_trace_file *file) {
    char host[65] = "", name[128];
    FILE *out = file_open(file, true);
    if (!out)
        return false;
    gethostname(host, sizeof(host) - 1);
    snprintf(name, sizeof(name), "rank %d (pid %d on %s)", file->rank, (int)getpid(), host);
    fputs("[\n", out);
    name_write(out, "process_name", file->rank, 0, name);
    fprintf(out,
            ",\n{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%d,\"args\":{\"sort_index\":%"
            "d,\"origin_s\":%" PRId64 "}}",
            file->rank, file->rank, file->origin_s);
    return file_end(out);
}

rcm_status rcmi_trace_file_open(const char *pattern, int rank, struct rcmi_trace_file **ret_file) {
    struct rcmi_trace_file *file = calloc(1, sizeof(*file));
    if (!file)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a trace");
    pthread_mutex_init(&file->lock, NULL);
    file->rank = rank;
    file->origin_s = (int64_t)time(NULL) / ORIGIN_STEP_S * ORIGIN_STEP_S;
    errno = ENAMETOOLONG;
    if (!path_make(pattern, rank, file->path) || !file_begin(file)) {
        const rcm_status status = rcmi_fail(RCM_ERR_CONFIG, errno,
                                            "RINGCOMM_TRACE: %.300s cannot be written", file->path);
        pthread_mutex_destroy(&file->lock);
        free(file);
        return status;
    }
    *ret_file = file;
    return RCM_OK;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static int thread_in_comm(const struct rcmi_trace_event *event) {
    return event->track * OF_TRACK +
           (event->kind == RCMI_TRACE_OPERATION ? 0 : 1 + event->lane % (OF_TRACK - 1));
}

static int thread_of(const struct traced *traced, const struct rcmi_trace_event *event) {
    return traced->number % COMMS * OF_COMM + thread_in_comm(event);
}

/* Writes the name of an event's thread, once. */
static void thread_write(FILE *out, struct traced *traced, const struct rcmi_trace_event *event,
                         int rank) {
    char name[RCM_NAME_MAX + 40], track[16] = "", lane[16] = "";
    bool *named = &traced->named[thread_in_comm(event)];
    if (*named)
        return;
    *named = true;
    if (event->track > 0)
        snprintf(track, sizeof(track), " (%d)", event->track + 1);
    if (event->kind != RCMI_TRACE_OPERATION)
        snprintf(lane, sizeof(lane), ", lane %d", event->lane);
    snprintf(name, sizeof(name), "%s%s%s", traced->name, track, lane);
    fputs(",\n", out);
    name_write(out, "thread_name", rank, thread_of(traced, event), name);
}

static void event_name_write(FILE *out, const struct rcmi_trace_event *event) {
    static const char *const categories[] = {[RCMI_TRACE_OPERATION] = "operation",
                                             [RCMI_TRACE_STEP] = "step",
                                             [RCMI_TRACE_WAIT] = "wait"};
    if (event->kind != RCMI_TRACE_WAIT)
        fprintf(out, "\"name\":\"%s\"", event->name);
    else if (event->peer >= 0)
        fprintf(out, "\"name\":\"wait for rank %d\"", (int)event->peer);
    else
        fputs("\"name\":\"wait for ranks of this host\"", out);
    fprintf(out, ",\"cat\":\"%s\"", categories[event->kind]);
}

static void event_args_write(FILE *out, const struct rcmi_trace_event *event) {
    fprintf(out, ",\"args\":{\"number\":%u,\"algorithm\":\"%s\"", event->number, event->algorithm);
    if (event->kind != RCMI_TRACE_OPERATION)
        fprintf(out, ",\"step\":%u", event->step);
    if (event->peer >= 0)
        fprintf(out, ",\"peer\":%d", (int)event->peer);
    if (event->kind == RCMI_TRACE_WAIT)
        fprintf(out, ",\"for\":\"%s\",\"finished\":%s", event->to_send ? "slot" : "message",
                event->unfinished ? "false" : "true");
    else
        fprintf(out, ",\"bytes\":%" PRIu64, event->bytes);
    fputs("}}", out);
}

/* Writes microseconds with nanosecond resolution. */
static void time_write(FILE *out, const char *name, int64_t ns) {
    fprintf(out, "\"%s\":%" PRId64 ".%03d,", name, ns / 1000, (int)(ns % 1000));
}

/* Conversion from a trace's time to the file's. */
struct clock {
    int64_t first, first_ns;
    double unit_ns;
};

static int64_t clock_ns(const struct clock *clock, int64_t at) {
    return clock->first_ns + (int64_t)((double)(at - clock->first) * clock->unit_ns);
}

static void event_write(FILE *out, struct traced *traced, const struct rcmi_trace_event *event,
                        int rank, const struct clock *clock) {
    const int64_t begin_ns = clock_ns(clock, event->begin);
    thread_write(out, traced, event, rank);
    fprintf(out, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,", rank, thread_of(traced, event));
    time_write(out, "ts", begin_ns);
    /* Minus one: a reader's rounding must not make it overlap with the next event. */
    const int64_t end_ns = clock_ns(clock, event->end) - 1;
    time_write(out, "dur", end_ns > begin_ns ? end_ns - begin_ns : 0);
    event_name_write(out, event);
    event_args_write(out, event);
}

/* Offset from CLOCK_MONOTONIC to the file's time, by the time of day, which machines share as far
 * as their clocks agree. */
static int64_t file_offset_ns(const struct rcmi_trace_file *file) {
    struct timespec day, monotonic;
    clock_gettime(CLOCK_REALTIME, &day);
    clock_gettime(CLOCK_MONOTONIC, &monotonic);
    return ((int64_t)day.tv_sec - file->origin_s - monotonic.tv_sec) * 1000000000 + day.tv_nsec -
           monotonic.tv_nsec;
}

static void lost_write(FILE *out, const struct traced *traced, int rank, uint64_t lost) {
    fprintf(out,
            ",\n{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":%d,\"args\":{\"labels\":"
            "\"%" PRIu64 " events of %s are not kept\"}}",
            rank, lost, traced->number ? "a group" : "the world");
}

static void traced_write(FILE *out, struct traced *traced, int rank, int64_t offset_ns) {
    const struct clock clock = {.first = traced->trace.first,
                                .first_ns = traced->trace.first_ns + offset_ns,
                                .unit_ns = rcmi_trace_unit_ns(&traced->trace)};
    /* Acquire pairs with the release in rcmi_trace_publish: the events are complete. */
    const uint64_t n = atomic_load_explicit(&traced->trace.n, memory_order_acquire);
    const uint64_t oldest = n < RCMI_TRACE_EVENTS ? 0 : n - RCMI_TRACE_EVENTS + 1;
    const uint64_t from = traced->written > oldest ? traced->written : oldest;
    uint64_t lost = from - traced->written;
    struct rcmi_trace_event event;
    for (uint64_t at = from; at < n; at++)
        if (rcmi_trace_read(&traced->trace, at, &event))
            event_write(out, traced, &event, rank, &clock);
        else
            lost++;
    if (lost > 0)
        lost_write(out, traced, rank, lost);
    traced->written = n;
}

/* Appends events of one communicator, or of all if NULL. */
static bool file_append(struct rcmi_trace_file *file, const struct rcmi_trace *only) {
    FILE *out = file_open(file, false);
    if (!out)
        return false;
    const int64_t offset_ns = file_offset_ns(file);
    for (struct traced *traced = file->traces; traced; traced = traced->next)
        if (!only || only == &traced->trace)
            traced_write(out, traced, file->rank, offset_ns);
    return file_end(out);
}

static void file_write(struct rcmi_trace_file *file, const struct rcmi_trace *only) {
    pthread_mutex_lock(&file->lock);
    if (!file_append(file, only))
        rcmi_log(RCMI_LOG_WARN, "the trace %.300s could not be written", file->path);
    pthread_mutex_unlock(&file->lock);
}

void rcmi_trace_file_write(struct rcmi_trace_file *file) {
    if (file)
        file_write(file, NULL);
}

void rcmi_trace_file_close(struct rcmi_trace_file *file) {
    if (!file)
        return;
    rcmi_trace_file_write(file);
    pthread_mutex_destroy(&file->lock);
    free(file);
}

/* ---- Communicators --------------------------------------------------------------------------- */

/* All pages are present, and huge where the system has them. Otherwise the first use of a page, and
 * the TLB misses of many, would cost a step more than recording it. */
static struct rcmi_trace_event *events_new(void) {
    enum { HUGE_PAGE = 2 << 20 };
    const size_t bytes = RCMI_TRACE_EVENTS * sizeof(struct rcmi_trace_event);
    struct rcmi_trace_event *events = aligned_alloc(HUGE_PAGE, bytes);
    if (!events)
        return NULL;
    (void)madvise(events, bytes, MADV_HUGEPAGE); /* advisory */
    memset(events, 0, bytes);
    return events;
}

rcm_status rcmi_trace_begin(struct rcmi_trace_file *file, const char *name,
                            struct rcmi_trace **ret_trace) {
    *ret_trace = NULL;
    if (!file)
        return RCM_OK;
    struct traced *traced = calloc(1, sizeof(*traced));
    if (traced)
        traced->trace.events = events_new();
    if (!traced || !traced->trace.events) {
        free(traced);
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a trace");
    }
    snprintf(traced->name, sizeof(traced->name), "%s", name);
    rcmi_trace_set_clock(&traced->trace);
    pthread_mutex_lock(&file->lock);
    traced->number = file->ntraces++;
    traced->next = file->traces;
    file->traces = traced;
    pthread_mutex_unlock(&file->lock);
    *ret_trace = &traced->trace;
    return RCM_OK;
}

void rcmi_trace_name(struct rcmi_trace_file *file, struct rcmi_trace *trace, const char *name) {
    struct traced *traced = (struct traced *)trace;
    if (!trace)
        return;
    pthread_mutex_lock(&file->lock);
    snprintf(traced->name, sizeof(traced->name), "%s", name);
    pthread_mutex_unlock(&file->lock);
}

void rcmi_trace_end(struct rcmi_trace_file *file, struct rcmi_trace *trace) {
    if (!trace)
        return;
    file_write(file, trace); /* other communicators may record meanwhile */
    pthread_mutex_lock(&file->lock);
    struct traced **at = &file->traces;
    while (&(*at)->trace != trace)
        at = &(*at)->next;
    struct traced *traced = *at;
    *at = traced->next;
    pthread_mutex_unlock(&file->lock);
    free(traced->trace.events);
    free(traced);
}
