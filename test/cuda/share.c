/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of devices that two processes share: share.c [CASE]. Each case is a process of its own
 * with settings of the emulator of its own (test/cuda/emulator/README.md), and has another one that
 * exports memory as it is told.
 */
#include "device_share.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "case.h"
#include "clock.h"
#include "cuda.h"
#include "operation.h"

enum { BUFFERS = 100, SECONDS = 20 };

static struct rcmi_device *device;
static const struct rcmi_mem_row *row;
static struct rcmi_operations owner;

static void wake_none(void *arg) {
    (void)arg;
}

static void begin_device(const char *name) {
    must(rcmi_device_open(name, 0, &device));
    row = rcmi_mem_kind_row(RCMI_MEM_DEVICE);
    owner = (struct rcmi_operations){.device = &device, .wake = wake_none};
}

/* In any thread: a copy by the device, as steps of plans do it. */
static rcm_status copy(void *to, const void *from, size_t bytes) {
    struct rcmi_operation o = {.results = {to},
                               .srcs = {from},
                               .nresults = 1,
                               .nsrcs = 1,
                               .bytes = bytes,
                               .dtype = RCM_UINT8,
                               .kind = RCMI_MEM_DEVICE,
                               .all = &owner};
    const rcmi_deadline deadline = rcmi_deadline_in(SECONDS * 1000);
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

/* 'a': a buffer of some bytes, all `fill`, small ones as a program gets them; 'f': its end; 'o':
 * one with memory of its own. */
struct request {
    char what;
    unsigned char fill;
    int number;
    size_t bytes;
};
struct reply {
    rcm_status status;
    char why[200];
    struct rcmi_device_handle handle;
    uint64_t at; /* in the allocation */
    struct rcmi_exporter exporter;
    int pid;
};

static struct exported {
    void *memory;
    struct rcmi_export export;
} buffers[BUFFERS];

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

static rcm_status buffer_alloc(struct exported *buffer, const struct request *request) {
    rcm_status status = small_alloc(request->bytes, &buffer->memory);
    if (status == RCM_OK)
        status = buffer_fill(buffer->memory, request);
    if (status == RCM_OK)
        status = rcmi_export_make(device, buffer->memory, request->bytes, &buffer->export);
    return status;
}

static rcm_status await_export(const struct rcmi_export *export) {
    const rcmi_deadline deadline = rcmi_deadline_in(SECONDS * 1000);
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

static rcm_status buffer_free(struct exported *buffer) {
    const rcmi_cuda_address memory = (rcmi_cuda_address)(uintptr_t)buffer->memory;
    if (!buffer->export.job.run)
        return drive(rcmi_cuda_there()->cuMemFree(memory), "cuMemFree");
    rcmi_export_end(&buffer->export);
    while (rcmi_export_look(&buffer->export) != RCM_ERR_CANCELED)
        usleep(100);
    return RCM_OK;
}

static rcm_status obey(const struct request *request) {
    struct exported *buffer = &buffers[request->number];
    if (request->what == 'a')
        return buffer_alloc(buffer, request);
    return request->what == 'o' ? buffer_own(buffer, request) : buffer_free(buffer);
}

static struct reply answer(const struct request *request) {
    const struct exported *buffer = &buffers[request->number];
    struct reply reply = {.status = obey(request), .pid = (int)getpid()};
    snprintf(reply.why, sizeof reply.why, "%.199s", rcm_last_error());
    reply.handle = buffer->export.handle;
    reply.at = (uint64_t)(uintptr_t)buffer->memory - reply.handle.base;
    reply.exporter.process = rcmi_device_process();
    memcpy(reply.exporter.uuid, rcmi_device_facts(device)->uuid, sizeof reply.exporter.uuid);
    return reply;
}

/* In a visit: the context is current for what the program itself calls. */
static void export_until_end(int fd) {
    struct request request;
    struct rcmi_cuda_context *context;
    if (rcmi_cuda_there()->cuDevicePrimaryCtxRetain(&context, rcmi_device_facts(device)->ordinal) ||
        rcmi_cuda_there()->cuCtxPushCurrent(context))
        exit(1);
    while (read(fd, &request, sizeof request) == (ssize_t)sizeof request) {
        const struct reply reply = answer(&request);
        if (write(fd, &reply, sizeof reply) != (ssize_t)sizeof reply)
            break;
    }
}

static pid_t exporter_pid;
static int exporter_fd;

/* name: of its device. */
static void begin_exporter(const char *name) {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
        die("socketpair");
    exporter_pid = fork();
    if (exporter_pid == 0) {
        close(fds[0]);
        if (rcmi_device_open(name, 0, &device) != RCM_OK)
            _exit(1);
        row = rcmi_mem_kind_row(RCMI_MEM_DEVICE);
        owner = (struct rcmi_operations){.device = &device, .wake = wake_none};
        export_until_end(fds[1]);
        _exit(0);
    }
    close(fds[1]);
    exporter_fd = fds[0];
}

static void end_exporter(void) {
    close(exporter_fd);
    waitpid(exporter_pid, NULL, 0);
}

static struct reply tell(char what, int number, size_t bytes, unsigned char fill) {
    const struct request request = {what, fill, number, bytes};
    struct reply reply;
    if (write(exporter_fd, &request, sizeof request) != (ssize_t)sizeof request ||
        read(exporter_fd, &reply, sizeof reply) != (ssize_t)sizeof reply) {
        reply = (struct reply){.status = RCM_ERR_PEER};
        snprintf(reply.why, sizeof reply.why, "the exporting process has ended");
    }
    return reply;
}

static struct reply tell_well(char what, int number, size_t bytes, unsigned char fill) {
    const struct reply reply = tell(what, number, bytes, fill);
    if (reply.status != RCM_OK)
        die("'%c' answers %s: %s", what, rcm_status_name(reply.status), reply.why);
    return reply;
}

/* ---- The importing process ------------------------------------------------------------------- */

static struct rcmi_imports *imports;

static void begin_imports(const struct reply *reply) {
    must(rcmi_imports_create(device, &reply->exporter, wake_none, NULL, &imports));
}

static void end_imports(void) {
    const rcmi_deadline deadline = rcmi_deadline_in(SECONDS * 1000);
    while (!rcmi_imports_quiet(imports)) {
        if (rcmi_deadline_passed(deadline))
            die("%d imports do not close", rcmi_imports_count(imports));
        usleep(100);
    }
    rcmi_imports_free(imports);
}

static rcm_status get(const struct reply *reply, size_t at, size_t bytes,
                      struct rcmi_import **ret_import, const void **ret_bytes) {
    const rcmi_deadline deadline = rcmi_deadline_in(SECONDS * 1000);
    rcm_status status;
    while ((status = rcmi_imports_get(imports, &reply->handle, reply->at + at, bytes, ret_import,
                                      ret_bytes)) == RCM_AGAIN &&
           !rcmi_deadline_passed(deadline))
        usleep(100);
    return status;
}

/* All bytes of the buffer are `fill`. */
static rcm_status read_all(const struct reply *reply, size_t bytes, unsigned char fill) {
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

static void await_closed(uint64_t buffer) {
    const rcmi_deadline deadline = rcmi_deadline_in(SECONDS * 1000);
    while (rcmi_imports_close(imports, buffer) == RCM_AGAIN) {
        if (rcmi_deadline_passed(deadline))
            die("an import is not closed");
        usleep(100);
    }
}

/* ---- Cases ----------------------------------------------------------------------------------- */

/* Several buffers, which may share a block, are opened, read, closed and freed, twice over: the
 * second ones lie where the first ones did. */
static void case_buffers(const char *argument) {
    enum { N = 5, BYTES = 3000 };
    struct reply all[N];
    (void)argument;
    begin_exporter("0");
    begin_device("0");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++)
            all[i] = tell_well('a', i, BYTES, (unsigned char)(40 * round + i + 1));
        if (round == 0)
            begin_imports(&all[0]);
        for (int i = 0; i < N; i++)
            must(read_all(&all[i], BYTES, (unsigned char)(40 * round + i + 1)));
        if (rcmi_imports_count(imports) != N)
            die("%d of %d are open", rcmi_imports_count(imports), N);
        for (int i = 0; i < N; i++) {
            await_closed(all[i].handle.buffer);
            (void)tell_well('f', i, 0, 0);
        }
    }
    end_imports();
    end_exporter();
    rcmi_device_close(device);
}

/* Memory of an export's own; bytes beyond its end, and what cannot be. */
static void case_own(const char *argument) {
    struct rcmi_import *import;
    const void *there;
    (void)argument;
    begin_exporter("0");
    begin_device("0");
    struct reply reply = tell_well('o', 0, 3 << 20, 77);
    begin_imports(&reply);
    must(read_all(&reply, 4096, 77));
    if (reply.handle.bytes != 4 << 20)
        die("an arena of 3 MiB has %llu bytes", (unsigned long long)reply.handle.bytes);
    expect(RCM_ERR_PROTOCOL, "cannot be", get(&reply, reply.handle.bytes - 4, 5, &import, &there));
    expect(RCM_ERR_PROTOCOL, "cannot be", get(&reply, UINT64_MAX, 5, &import, &there));
    struct reply larger = reply;
    larger.handle.bytes = UINT64_MAX;
    expect(RCM_ERR_PROTOCOL, "cannot be", get(&larger, 5 << 20, 5, &import, &there));
    larger.handle.kind = 9;
    expect(RCM_ERR_PROTOCOL, "kind 9", get(&larger, 0, 5, &import, &there));
    larger = reply;
    larger.handle.buffer += 1000;
    memset(larger.handle.how, 7, sizeof larger.handle.how);
    expect(RCM_ERR_SYSTEM, "cuIpcOpenMemHandle", get(&larger, 0, 5, &import, &there));
    expect(RCM_ERR_SYSTEM, "cuIpcOpenMemHandle", get(&larger, 0, 5, &import, &there));
    await_closed(reply.handle.buffer);
    (void)tell_well('f', 0, 0, 0);
    end_imports();
    end_exporter();
    rcmi_device_close(device);
}

/* More buffers than may be open, each read twice; one is in use meanwhile, and stays. */
static void case_full(const char *argument) {
    static struct reply all[BUFFERS];
    struct rcmi_import *used;
    const void *there;
    char byte;
    (void)argument;
    begin_exporter("0");
    begin_device("0");
    for (int i = 0; i < BUFFERS; i++)
        all[i] = tell_well('a', i, 64, (unsigned char)i);
    begin_imports(&all[0]);
    must(get(&all[0], 0, 64, &used, &there));
    for (int i = 0; i < 2 * BUFFERS; i++)
        must(read_all(&all[i % BUFFERS], 64, (unsigned char)(i % BUFFERS)));
    if (rcmi_imports_count(imports) > RCMI_IMPORTS_MAX)
        die("%d are open", rcmi_imports_count(imports));
    must(copy(&byte, there, 1));
    if (rcmi_imports_close(imports, all[0].handle.buffer) != RCM_AGAIN)
        die("what is used was closed");
    must(copy(&byte, there, 1));
    rcmi_import_put(used);
    await_closed(all[0].handle.buffer);
    end_imports();
    end_exporter();
    rcmi_device_close(device);
}

static void faulted(int signal) {
    (void)signal;
    _exit(0);
}

/* What is closed is not mapped any more. */
static void case_closed(const char *argument) {
    struct rcmi_import *import;
    const void *there;
    char byte;
    (void)argument;
    begin_exporter("0");
    begin_device("0");
    const struct reply reply = tell_well('a', 0, 64, 9);
    begin_imports(&reply);
    must(get(&reply, 0, 64, &import, &there));
    rcmi_import_put(import);
    await_closed(reply.handle.buffer);
    signal(SIGSEGV, faulted);
    die("what is closed was read: %s", rcm_status_name(copy(&byte, there, 1)));
}

/* argument: the device of the exporting process, the status that opening ends with, words. */
static void case_refused(const char *argument) {
    struct rcmi_import *import;
    const void *there;
    const char device_name[] = {argument[0], '\0'};
    begin_exporter(device_name);
    begin_device("0");
    const struct reply reply = tell_well('a', 0, 64, 3);
    begin_imports(&reply);
    const rcm_status wanted = (rcm_status)atoi(argument + 2);
    if (wanted == RCM_OK)
        must(read_all(&reply, 64, 3));
    else
        expect(wanted, strchr(argument + 2, ' ') + 1, get(&reply, 0, 64, &import, &there));
    end_imports();
    end_exporter();
    rcmi_device_close(device);
}

/* Freed before it is opened; and a handle of this process, opened as another one's. */
static void case_stale(const char *argument) {
    struct rcmi_import *import;
    const void *there;
    (void)argument;
    begin_exporter("0");
    begin_device("0");
    struct reply reply = tell_well('a', 0, 64, 3);
    (void)tell_well('f', 0, 0, 0);
    begin_imports(&reply);
    expect(RCM_ERR_SYSTEM, "cuIpcOpenMemHandle", get(&reply, 0, 64, &import, &there));
    struct rcmi_export own;
    void *memory;
    must(row->alloc(device, 64, &memory));
    must(rcmi_export_make(device, memory, 64, &own));
    reply.handle = own.handle;
    reply.handle.buffer += 7777;
    expect(RCM_ERR_SYSTEM, "CONTEXT", get(&reply, 0, 64, &import, &there));
    row->free(device, memory);
    end_imports();
    end_exporter();
    rcmi_device_close(device);
}

/* The exporting process is killed: no operation begins on its memory. */
static void case_killed(const char *argument) {
    struct rcmi_import *import;
    const void *there;
    char byte;
    (void)argument;
    begin_exporter("0");
    begin_device("0");
    const struct reply reply = tell_well('a', 0, 64, 9);
    begin_imports(&reply);
    must(get(&reply, 0, 64, &import, &there));
    kill(exporter_pid, SIGKILL);
    end_exporter();
    must(copy(&byte, there, 1)); /* it is still open */
    rcmi_imports_revoke(imports);
    expect(RCM_ERR_PEER, "has ended", copy(&byte, there, 1));
    rcmi_import_put(import);
    expect(RCM_ERR_PEER, "has ended", get(&reply, 0, 64, &import, &there));
    end_imports();
    rcmi_device_close(device);
}

/* Both in one process, on two devices if there are: the memory is used where it is. */
static void case_same(const char *argument) {
    struct rcmi_device *other;
    struct rcmi_export export;
    void *memory;
    begin_device("1");
    other = device;
    must(row->alloc(other, 64, &memory));
    must(rcmi_export_make(other, memory, 64, &export));
    const char text[] = "seven and seventy bytes, or so";
    must(copy(memory, text, sizeof text));
    begin_device("0");
    struct reply reply = {.handle = export.handle};
    reply.exporter.process = rcmi_device_process();
    begin_imports(&reply);
    struct rcmi_import *import;
    const void *there;
    char here[sizeof text];
    const rcm_status status = get(&reply, 0, 64, &import, &there);
    if (*argument) {
        expect(RCM_ERR_UNSUPPORTED, argument, status);
    } else {
        must(status);
        must(copy(here, there, sizeof text));
        if (there != memory || strcmp(here, text) != 0)
            die("read '%.30s' at %p, not at %p", here, there, memory);
        rcmi_import_put(import);
    }
    reply.handle.buffer += 1;
    expect(RCM_ERR_PROTOCOL, "no allocation", get(&reply, 0, 64, &import, &there));
    end_imports();
    row->free(other, memory);
    rcmi_device_close(device);
    rcmi_device_close(other);
}

/* The driver's call of argument fails once in each of the two processes: somebody says so, and
 * nothing is left open. */
static void case_fails(const char *argument) {
    begin_exporter("0");
    if (rcmi_device_open("0", 0, &device) == RCM_OK) {
        begin_device("0");
        struct reply reply = tell('o', 0, 4096, 5);
        if (reply.status == RCM_OK)
            reply = tell('a', 1, 64, 5);
        rcm_status status = reply.status;
        if (status == RCM_OK) {
            begin_imports(&reply);
            status = read_all(&reply, 64, 5);
            await_closed(reply.handle.buffer);
            if (rcmi_imports_unclosed(imports) != (strstr(argument, "Close") != NULL))
                die("what is closed is said to be open, or the other way round");
            end_imports();
        }
        if (status == RCM_OK && !strstr(argument, "Close"))
            die("nobody noticed that %s failed", argument);
        rcmi_device_close(device);
    }
    end_exporter();
}

static const struct test_case cases[] = {
    {"buffers", "FAKECUDA_SUBALLOC=0", "", case_buffers},
    {"buffers in one block, handles of each", "FAKECUDA_SUBALLOC=1", "", case_buffers},
    {"buffers in one block, handles of it", "FAKECUDA_SUBALLOC=2", "", case_buffers},
    {"memory of its own", "", "", case_own},
    {"a full cache", "", "", case_full},
    {"another device", "FAKECUDA_DEVICES=2", "1 0", case_refused},
    {"no peer access", "FAKECUDA_DEVICES=2 FAKECUDA_NOPEER=1", "1 -4 PEER_ACCESS", case_refused},
    {"MIG", "FAKECUDA_MIG=1", "1 -4 PEER_ACCESS", case_refused},
    {"freed", "", "", case_stale},
    {"closed", "", "", case_closed},
    {"killed", "", "", case_killed},
    {"one process", "FAKECUDA_DEVICES=2", "", case_same},
    {"one process, no peer access", "FAKECUDA_DEVICES=2 FAKECUDA_NOPEER=1", "no access", case_same},
    {"fails", "FAKECUDA_FAIL=cuIpcGetMemHandle", "cuIpcGetMemHandle", case_fails},
    {"fails", "FAKECUDA_FAIL=cuIpcOpenMemHandle", "cuIpcOpenMemHandle", case_fails},
    {"fails", "FAKECUDA_FAIL=cuIpcCloseMemHandle", "cuIpcCloseMemHandle", case_fails},
    {"fails", "FAKECUDA_FAIL=cuMemGetAddressRange", "cuMemGetAddressRange", case_fails},
    {"fails", "FAKECUDA_FAIL=cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync", case_fails},
};

int main(int argc, char **argv) {
    return cases_run(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
