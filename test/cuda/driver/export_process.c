/* SPDX-License-Identifier: BSD-3-Clause */
/* See export_process.h. */
#include "export_process.h"
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "case.h"
#include "clock.h"
#include "cuda.h"
#include "fd.h"
#include "../mapped_memory.h"
#include "operation.h"

struct rcmi_device *device;
const struct rcmi_mem_row *row;
static struct rcmi_operations owner;

static void wake_none(void *arg) {
    (void)arg;
}

void begin_device(const char *name) {
    must(rcmi_device_open(name, 0, &device));
    row = rcmi_mem_kind_row(RCMI_MEM_DEVICE);
    owner = (struct rcmi_operations){.device = &device, .wake = wake_none};
}

rcm_status copy(void *to, const void *from, size_t bytes) {
    struct rcmi_operation o = {.results = {to},
                               .srcs = {from},
                               .nresults = 1,
                               .nsrcs = 1,
                               .bytes = bytes,
                               .dtype = RCM_UINT8,
                               .kind = RCMI_MEM_DEVICE,
                               .all = &owner};
    const rcmi_deadline deadline = rcmi_deadline_in(SHARING_SECONDS * 1000);
    rcm_status status = rcmi_operation_begin(&o);
    while (status == RCM_OK && (status = rcmi_operation_look(&o)) == RCM_AGAIN) {
        if (rcmi_deadline_passed(deadline))
            die("an operation does not end");
        status = RCM_OK;
        usleep(100);
    }
    return status;
}

/* ---- The exporting process ------------------------------------------------------------------- */

struct request {
    char what;
    unsigned char fill;
    int number;
    size_t bytes;
};

static struct exported {
    void *memory;
    struct mapped mapped; /* bytes is 0: not of cuMemCreate */
    struct rcmi_export export;
} buffers[SHARING_BUFFERS];

static rcm_status drive(rcmi_cuda_code code, const char *call) {
    return code == RCMI_CUDA_SUCCESS ? RCM_OK : rcmi_cuda_fail(code, call);
}

static rcm_status small_alloc(size_t bytes, void **ret_memory) {
    const struct rcmi_cuda *cuda = rcmi_cuda_there();
    rcmi_cuda_address memory = 0;
    const rcm_status status = drive(cuda->cuMemAlloc(&memory, bytes), "cuMemAlloc");
    *ret_memory = (void *)(uintptr_t)memory;
    return status;
}

static rcm_status buffer_fill(void *memory, const struct request *request) {
    unsigned char *bytes = malloc(request->bytes);
    memset(bytes, request->fill, request->bytes);
    const rcm_status status = copy(memory, bytes, request->bytes);
    free(bytes);
    return status;
}

static rcm_status mapped_alloc(struct exported *buffer, const struct request *request) {
    const char *call;
    const rcm_status status = drive(
        mapped_new(rcmi_cuda_there(), rcmi_device_facts(device)->ordinal, request->bytes,
                   request->what == 'n' ? 0 : RCMI_CUDA_HANDLE_DESCRIPTOR, &buffer->mapped, &call),
        "memory of cuMemCreate");
    buffer->memory = (void *)(uintptr_t)buffer->mapped.at;
    return status;
}

static rcm_status buffer_alloc(struct exported *buffer, const struct request *request) {
    const size_t more = request->what == 's' ? (size_t)4 << 20 : 0;
    rcm_status status = request->what == 'a' ? small_alloc(request->bytes, &buffer->memory)
                                             : mapped_alloc(buffer, request);
    if (status == RCM_OK)
        status = buffer_fill(buffer->memory, request);
    if (status == RCM_OK)
        status = rcmi_export_make(device, buffer->memory, request->bytes + more, &buffer->export);
    return status;
}

static rcm_status await_export(const struct rcmi_export *export) {
    const rcmi_deadline deadline = rcmi_deadline_in(SHARING_SECONDS * 1000);
    rcm_status status;
    while ((status = rcmi_export_look(export)) == RCM_AGAIN && !rcmi_deadline_passed(deadline))
        usleep(100);
    return status;
}

static rcm_status buffer_own(struct exported *buffer, const struct request *request) {
    static unsigned char first[4096];
    memset(first, request->fill, sizeof first);
    rcmi_export_alloc(device, request->bytes, first, sizeof first, wake_none, NULL,
                      &buffer->export);
    const rcm_status status = await_export(&buffer->export);
    buffer->memory = (void *)(uintptr_t)buffer->export.handle.base;
    return status;
}

static rcm_status own_free(struct exported *buffer) {
    rcmi_export_end(&buffer->export);
    while (rcmi_export_look(&buffer->export) != RCM_ERR_CANCELED)
        usleep(100);
    return RCM_OK;
}

static rcm_status buffer_free(struct exported *buffer) {
    const rcmi_cuda_address memory = (rcmi_cuda_address)(uintptr_t)buffer->memory;
    rcmi_export_drop(&buffer->export);
    if (buffer->mapped.bytes > 0)
        return drive(mapped_free(rcmi_cuda_there(), &buffer->mapped), "cuMemUnmap");
    return buffer->export.job.run ? own_free(buffer)
                                  : drive(rcmi_cuda_there()->cuMemFree(memory), "cuMemFree");
}

static rcm_status obey(const struct request *request) {
    struct exported *buffer = &buffers[request->number];
    switch (request->what) {
    case 'o':
        return buffer_own(buffer, request);
    case 'f':
        return buffer_free(buffer);
    case 'd':
        rcmi_export_drop(&buffer->export);
        return RCM_OK;
    default:
        *buffer = (struct exported){.export.fd = -1};
        return buffer_alloc(buffer, request);
    }
}

int files(void) {
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static struct reply answer(const struct request *request) {
    const struct exported *buffer = &buffers[request->number];
    struct reply reply = {.status = obey(request)};
    snprintf(reply.why, sizeof reply.why, "%.299s", rcm_last_error());
    reply.fd = buffer->export.fd;
    reply.files = files();
    reply.handle = buffer->export.handle;
    reply.at = (uint64_t)(uintptr_t)buffer->memory - reply.handle.base;
    reply.exporter.process = rcmi_device_process();
    memcpy(reply.exporter.uuid, rcmi_device_facts(device)->uuid, sizeof reply.exporter.uuid);
    return reply;
}

/* Runs in a visit, so that the context is current for the program's own driver calls. */
static void export_until_end(int fd) {
    struct request request;
    struct rcmi_cuda_context *context;
    if (rcmi_cuda_there()->cuDevicePrimaryCtxRetain(&context, rcmi_device_facts(device)->ordinal) ||
        rcmi_cuda_there()->cuCtxPushCurrent(context))
        exit(1);
    while (read(fd, &request, sizeof request) == (ssize_t)sizeof request) {
        const struct reply reply = answer(&request);
        if (rcmi_send_fds(fd, &reply, sizeof reply, &reply.fd, reply.fd >= 0) != RCM_OK)
            break;
    }
}

pid_t exporter_pid;
static int exporter_fd;

void begin_exporter(const char *device_name, bool fails) {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
        die("socketpair");
    exporter_pid = fork();
    if (exporter_pid == 0) {
        close(fds[0]);
        if (!fails)
            unsetenv("FAKECUDA_FAIL");
        if (rcmi_device_open(device_name, 0, &device) != RCM_OK)
            _exit(1);
        row = rcmi_mem_kind_row(RCMI_MEM_DEVICE);
        owner = (struct rcmi_operations){.device = &device, .wake = wake_none};
        export_until_end(fds[1]);
        _exit(0);
    }
    close(fds[1]);
    exporter_fd = fds[0];
}

void end_exporter(void) {
    close(exporter_fd);
    waitpid(exporter_pid, NULL, 0);
}

static bool reply_come(struct reply *reply) {
    size_t len = 0;
    int fd = -1, nfds = 0;
    if (rcmi_fd_poll(exporter_fd, POLLIN, rcmi_deadline_in(SHARING_SECONDS * 1000)) != RCM_OK ||
        rcmi_recv_fds(exporter_fd, reply, sizeof *reply, &len, &fd, 1, &nfds) != RCM_OK ||
        len != sizeof *reply)
        return false;
    reply->fd = nfds ? fd : -1;
    return true;
}

struct reply request_export(char what, int number, size_t bytes, unsigned char fill) {
    const struct request request = {what, fill, number, bytes};
    struct reply reply;
    if (send(exporter_fd, &request, sizeof request, MSG_NOSIGNAL) != (ssize_t)sizeof request ||
        !reply_come(&reply)) {
        reply = (struct reply){.status = RCM_ERR_PEER, .fd = -1};
        snprintf(reply.why, sizeof reply.why, "the exporting process has ended");
    }
    return reply;
}

struct reply request_export_ok(char what, int number, size_t bytes, unsigned char fill) {
    const struct reply reply = request_export(what, number, bytes, fill);
    if (reply.status != RCM_OK)
        die("'%c' answers %s: %s", what, rcm_status_name(reply.status), reply.why);
    return reply;
}

/* ---- The importing process ------------------------------------------------------------------- */

struct rcmi_imports *imports;

void begin_imports(const struct reply *reply) {
    must(rcmi_imports_create(device, &reply->exporter, wake_none, NULL, &imports));
}

void end_imports(void) {
    const rcmi_deadline deadline = rcmi_deadline_in(SHARING_SECONDS * 1000);
    while (!rcmi_imports_quiet(imports)) {
        if (rcmi_deadline_passed(deadline))
            die("%d imports do not close", rcmi_imports_count(imports));
        usleep(100);
    }
    rcmi_imports_free(imports);
}

rcm_status open_descriptor(const struct reply *reply, int fd) {
    struct rcmi_import *import;
    const void *there;
    rcm_status status = rcmi_imports_open(imports, &reply->handle, fd);
    if (status == RCM_AGAIN)
        status = get(reply, 0, 0, &import, &there);
    if (status == RCM_OK)
        rcmi_import_put(import);
    return status;
}

rcm_status get(const struct reply *reply, size_t at, size_t bytes, struct rcmi_import **ret_import,
               const void **ret_bytes) {
    const rcmi_deadline deadline = rcmi_deadline_in(SHARING_SECONDS * 1000);
    rcm_status status;
    while ((status = rcmi_imports_get(imports, &reply->handle, reply->at + at, bytes, ret_import,
                                      ret_bytes)) == RCM_AGAIN &&
           !rcmi_deadline_passed(deadline))
        usleep(100);
    return status;
}

rcm_status read_all(const struct reply *reply, size_t bytes, unsigned char fill) {
    struct rcmi_import *import;
    const void *there;
    unsigned char *here = malloc(bytes);
    rcm_status status = get(reply, 0, bytes, &import, &there);
    if (status == RCM_OK) {
        status = copy(here, there, bytes);
        rcmi_import_put(import);
    }
    for (size_t i = 0; status == RCM_OK && i < bytes; i++)
        if (here[i] != fill)
            die("byte %zu is %u, not %u", i, here[i], fill);
    free(here);
    return status;
}

void await_closed(uint64_t buffer) {
    const rcmi_deadline deadline = rcmi_deadline_in(SHARING_SECONDS * 1000);
    const uint64_t now = rcmi_imports_time(imports);
    while (rcmi_imports_close(imports, buffer, now) == RCM_AGAIN) {
        if (rcmi_deadline_passed(deadline))
            die("an import is not closed");
        usleep(100);
    }
}
