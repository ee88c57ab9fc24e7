/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of cuMemCreate that two processes share by descriptors: share_descriptor.c [CASE]. Each
 * case runs in a process of its own with its own emulator settings (test/fakes/cuda/README.md).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "case.h"
#include "cuda.h"
#include "../mapped_memory.h"
#include "export_process.h"

static void begin(const char *exporter_device, bool exporter_fails) {
    begin_exporter(exporter_device, exporter_fails);
    begin_device("0");
}

static void end(void) {
    end_imports();
    end_exporter();
    rcmi_device_close(device);
}

/* Several buffers are opened, read, closed and freed, then again at the same addresses. Memory that
 * the exporter frees while it is open here stays readable. No descriptor stays open. */
static void case_buffers(const char *argument) {
    enum { N = 5, BYTES = 3000 };
    struct reply all[N], end_of = {.fd = -1};
    int here = 0, there = 0;
    (void)argument;
    begin("0", true);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            const unsigned char fill = (unsigned char)(40 * round + i + 1);
            all[i] = request_export_ok('m', i, BYTES, fill);
            if (round == 0 && i == 0)
                begin_imports(&all[0]);
            must(open_descriptor(&all[i], all[i].fd));
            must(read_all(&all[i], BYTES, fill));
            end_of = request_export_ok('f', i, 0, 0);
            must(read_all(&all[i], BYTES, fill));
        }
        if (rcmi_imports_count(imports) != N)
            die("%d of %d are open", rcmi_imports_count(imports), N);
        for (int i = 0; i < N; i++)
            await_closed(all[i].handle.buffer);
        if (round == 1 && (files() != here || end_of.files != there))
            die("%d and %d descriptors became %d and %d", here, there, files(), end_of.files);
        here = files();
        there = end_of.files;
    }
    end();
}

/* Memory that no other process can open. */
static void case_unshared(const char *argument) {
    (void)argument;
    begin("0", true);
    struct reply reply = request_export('n', 0, 64, 1);
    if (reply.status != RCM_ERR_UNSUPPORTED || !strstr(reply.why, "requestedHandleTypes"))
        die("of no type of handle: %s: %s", rcm_status_name(reply.status), reply.why);
    reply = request_export('s', 1, 64, 1);
    if (reply.status != RCM_ERR_UNSUPPORTED || !strstr(reply.why, "several allocations"))
        die("of several: %s: %s", rcm_status_name(reply.status), reply.why);
    begin_imports(&reply);
    end();
}

static void faulted(int signal) {
    (void)signal;
    _exit(0);
}

/* A closed import is not mapped any more. */
static void case_closed(const char *argument) {
    struct rcmi_import *import;
    const void *there;
    char byte;
    (void)argument;
    begin("0", true);
    const struct reply reply = request_export_ok('m', 0, 64, 9);
    begin_imports(&reply);
    must(open_descriptor(&reply, reply.fd));
    must(get(&reply, 0, 64, &import, &there));
    rcmi_import_put(import);
    await_closed(reply.handle.buffer);
    expect(RCM_ERR_PROTOCOL, "has not arrived", get(&reply, 0, 64, &import, &there));
    signal(SIGSEGV, faulted);
    die("a closed import was read: %s", rcm_status_name(copy(&byte, there, 1)));
}

/* The exporter is killed, with its memory open here and before that. No further operation starts on
 * the memory, and the imports are closed. */
static void case_killed(const char *argument) {
    struct rcmi_import *import;
    const void *there;
    char byte;
    (void)argument;
    begin("0", true);
    const int before = files();
    const struct reply reply = request_export_ok('m', 0, 64, 9),
                       late = request_export_ok('m', 1, 64, 9);
    begin_imports(&reply);
    must(open_descriptor(&reply, reply.fd));
    must(get(&reply, 0, 64, &import, &there));
    kill(exporter_pid, SIGKILL);
    end_exporter();
    must(copy(&byte, there, 1)); /* the driver keeps it */
    rcmi_imports_revoke(imports);
    expect(RCM_ERR_PEER, "has ended", copy(&byte, there, 1));
    rcmi_import_put(import);
    expect(RCM_ERR_PEER, "has ended", open_descriptor(&late, late.fd));
    end_imports();
    if (files() >= before) /* the socket to it must be closed too */
        die("%d descriptors, with the received ones: %d", before, files());
    rcmi_device_close(device);
}

/* Descriptors of other objects, and handles with wrong facts about the memory. */
static void case_hostile(const char *argument) {
    int pipes[2];
    (void)argument;
    begin("0", true);
    const struct reply reply = request_export_ok('m', 0, 64, 7);
    begin_imports(&reply);
    if (pipe(pipes) != 0)
        die("pipe");
    const int before = files();
    expect(RCM_ERR_SYSTEM, "cuMemImportFromShareableHandle", open_descriptor(&reply, -1));
    await_closed(reply.handle.buffer);
    expect(RCM_ERR_SYSTEM, "cuMemImportFromShareableHandle",
           open_descriptor(&reply, dup(pipes[0])));
    await_closed(reply.handle.buffer);
    expect(RCM_ERR_SYSTEM, "cuMemImportFromShareableHandle",
           open_descriptor(&reply, memfd_create("other", 0)));
    await_closed(reply.handle.buffer);
    struct reply other = reply;
    for (uint64_t bytes = 1; bytes != 0; bytes <<= 9) { /* every size but the right one */
        other.handle.bytes = bytes;
        if (open_descriptor(&other, dup(reply.fd)) >= RCM_OK)
            die("%llu bytes are open", (unsigned long long)bytes);
        await_closed(other.handle.buffer);
    }
    other = reply;
    other.handle.kind = RCMI_HANDLE_IPC;
    expect(RCM_ERR_PROTOCOL, "kind 1", open_descriptor(&other, dup(reply.fd)));
    other.handle.kind = 9;
    expect(RCM_ERR_PROTOCOL, "kind 9", open_descriptor(&other, dup(reply.fd)));
    other = reply;
    other.handle.buffer = 0;
    expect(RCM_ERR_PROTOCOL, "allocation 0", open_descriptor(&other, dup(reply.fd)));
    must(open_descriptor(&reply, dup(reply.fd)));
    expect(RCM_ERR_PROTOCOL, "twice", open_descriptor(&reply, dup(reply.fd)));
    must(read_all(&reply, 64, 7));
    await_closed(reply.handle.buffer);
    if (files() != before)
        die("%d descriptors became %d", before, files());
    end();
}

/* argument: the exporter's device, the status of opening, and words of the error. */
static void case_device(const char *argument) {
    const char device_name[] = {argument[0], '\0'};
    begin(device_name, true);
    const struct reply reply = request_export_ok('m', 0, 64, 3);
    begin_imports(&reply);
    const rcm_status wanted = (rcm_status)atoi(argument + 2);
    if (wanted == RCM_OK) {
        must(open_descriptor(&reply, reply.fd));
        must(read_all(&reply, 64, 3));
    } else {
        expect(wanted, strchr(argument + 2, ' ') + 1, open_descriptor(&reply, reply.fd));
    }
    end();
}

/* Both in one process: the memory is used without import. Memory of another device is
 * unsupported. */
static void case_same(const char *argument) {
    struct rcmi_cuda_context *context;
    struct rcmi_import *import;
    struct mapped mapped;
    struct rcmi_export export;
    const char *call;
    const void *there;
    begin_device(argument);
    const struct rcmi_cuda *cuda = rcmi_cuda_there();
    const int ordinal = rcmi_device_facts(device)->ordinal;
    if (cuda->cuDevicePrimaryCtxRetain(&context, ordinal) || cuda->cuCtxPushCurrent(context) ||
        mapped_new(cuda, ordinal, 64, RCMI_CUDA_HANDLE_DESCRIPTOR, &mapped, &call))
        die("no memory");
    must(rcmi_export_make(device, (void *)(uintptr_t)mapped.at, 64, &export));
    begin_device("0");
    struct reply reply = {.handle = export.handle};
    reply.exporter.process = rcmi_device_process();
    begin_imports(&reply);
    if (ordinal == 0) {
        must(open_descriptor(&reply, export.fd));
        must(get(&reply, 0, 64, &import, &there));
        if (there != (void *)(uintptr_t)mapped.at)
            die("it lies at %p", there);
        rcmi_import_put(import);
    } else {
        expect(RCM_ERR_UNSUPPORTED, "cuMemSetAccess", open_descriptor(&reply, export.fd));
    }
    end_imports();
    if (mapped_free(cuda, &mapped))
        die("it was unmapped");
}

/* The driver function in `argument` fails once in one of the two processes, which reports it.
 * Nothing stays open. */
static void case_fails(const char *argument) {
    const bool closes = strstr(argument, "Unmap") || strstr(argument, "AddressFree");
    begin("0", argument[0] == '>');
    const struct reply reply = request_export('m', 0, 64, 5);
    begin_imports(&reply);
    const int before = files();
    rcm_status status = reply.status;
    if (status == RCM_OK)
        status = open_descriptor(&reply, reply.fd);
    if (status == RCM_OK)
        must(read_all(&reply, 64, 5));
    await_closed(reply.handle.buffer);
    if (rcmi_imports_unclosed(imports) != closes)
        die("the count of unclosed imports is wrong");
    if (closes ? status != RCM_OK : status != RCM_ERR_SYSTEM)
        die("%s failed: %s", argument, rcm_status_name(status));
    if (!strstr(argument, "Unmap") && files() != before - (reply.fd >= 0))
        die("%d descriptors, with the received one: %d", before, files());
    end();
}

static const struct test_case cases[] = {
    {"buffers", "", "", case_buffers},
    {"buffers, work that begins late", "FAKECUDA_LAZY=1", "", case_buffers},
    {"unshared", "", "", case_unshared},
    {"closed", "", "", case_closed},
    {"killed", "", "", case_killed},
    {"hostile", "", "", case_hostile},
    {"another device", "FAKECUDA_DEVICES=2", "1 0", case_device},
    {"no peer access", "FAKECUDA_DEVICES=2 FAKECUDA_NOPEER=1", "1 -1 cuMemSetAccess", case_device},
    {"one process", "", "0", case_same},
    {"one process, two devices", "FAKECUDA_DEVICES=2", "1", case_same},
    {"fails", "FAKECUDA_FAIL=cuMemRetainAllocationHandle", ">cuMemRetainAllocationHandle",
     case_fails},
    {"fails", "FAKECUDA_FAIL=cuMemExportToShareableHandle", ">cuMemExportToShareableHandle",
     case_fails},
    {"fails", "FAKECUDA_FAIL=cuMemImportFromShareableHandle", "cuMemImportFromShareableHandle",
     case_fails},
    {"fails", "FAKECUDA_FAIL=cuMemAddressReserve", "cuMemAddressReserve", case_fails},
    {"fails", "FAKECUDA_FAIL=cuMemMap", "cuMemMap", case_fails},
    {"fails", "FAKECUDA_FAIL=cuMemSetAccess", "cuMemSetAccess", case_fails},
    {"fails", "FAKECUDA_FAIL=cuMemUnmap", "cuMemUnmap", case_fails},
    {"fails", "FAKECUDA_FAIL=cuMemAddressFree", "cuMemAddressFree", case_fails},
};

int main(int argc, char **argv) {
    return cases_run(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
