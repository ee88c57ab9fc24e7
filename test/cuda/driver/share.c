/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Device memory that two processes share by IPC handles: share.c [CASE]. Each case runs in a
 * process of its own with its own emulator settings (test/fakes/cuda/README.md). See also
 * share_descriptor.c, and share_full.c for a full cache.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "case.h"
#include "clock.h"
#include "../../fakes/cuda/fakecuda.h"
#include "export_process.h"

/* ---- Cases ----------------------------------------------------------------------------------- */

/* Several buffers, which may share a block, are opened, read, closed and freed. This is repeated
 * with buffers at the same addresses. */
static void case_buffers(const char *argument) {
    enum { N = 5, BYTES = 3000 };
    struct reply all[N];
    (void)argument;
    begin_exporter("0", true);
    begin_device("0");
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++)
            all[i] = request_export_ok('a', i, BYTES, (unsigned char)(40 * round + i + 1));
        if (round == 0)
            begin_imports(&all[0]);
        for (int i = 0; i < N; i++)
            must(read_all(&all[i], BYTES, (unsigned char)(40 * round + i + 1)));
        if (rcmi_imports_count(imports) != N)
            die("%d of %d are open", rcmi_imports_count(imports), N);
        for (int i = 0; i < N; i++) {
            await_closed(all[i].handle.buffer);
            (void)request_export_ok('f', i, 0, 0);
        }
    }
    end_imports();
    end_exporter();
    rcmi_device_close(device);
}

/* Memory that the export allocates; ranges beyond its end; invalid handles. */
static void case_own(const char *argument) {
    struct rcmi_import *import;
    const void *there;
    (void)argument;
    begin_exporter("0", true);
    begin_device("0");
    struct reply reply = request_export_ok('o', 0, 3 << 20, 77);
    begin_imports(&reply);
    must(read_all(&reply, 4096, 77));
    if (reply.handle.bytes != 4 << 20)
        die("an arena of 3 MiB has %llu bytes", (unsigned long long)reply.handle.bytes);
    expect(RCM_ERR_PROTOCOL, "impossible", get(&reply, reply.handle.bytes - 4, 5, &import, &there));
    expect(RCM_ERR_PROTOCOL, "impossible", get(&reply, UINT64_MAX, 5, &import, &there));
    struct reply larger = reply;
    larger.handle.bytes = UINT64_MAX;
    expect(RCM_ERR_PROTOCOL, "impossible", get(&larger, 5 << 20, 5, &import, &there));
    larger.handle.kind = 9;
    expect(RCM_ERR_PROTOCOL, "kind 9", get(&larger, 0, 5, &import, &there));
    larger = reply;
    larger.handle.buffer += 1000;
    memset(larger.handle.how, 7, sizeof larger.handle.how);
    expect(RCM_ERR_SYSTEM, "cuIpcOpenMemHandle", get(&larger, 0, 5, &import, &there));
    expect(RCM_ERR_SYSTEM, "cuIpcOpenMemHandle", get(&larger, 0, 5, &import, &there));
    await_closed(reply.handle.buffer);
    (void)request_export_ok('f', 0, 0, 0);
    end_imports();
    end_exporter();
    rcmi_device_close(device);
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
    begin_exporter("0", true);
    begin_device("0");
    const struct reply reply = request_export_ok('a', 0, 64, 9);
    begin_imports(&reply);
    must(get(&reply, 0, 64, &import, &there));
    rcmi_import_put(import);
    await_closed(reply.handle.buffer);
    signal(SIGSEGV, faulted);
    die("a closed import was read: %s", rcm_status_name(copy(&byte, there, 1)));
}

/* argument: the exporter's device, the status of opening, and words of the error. */
static void case_refused(const char *argument) {
    struct rcmi_import *import;
    const void *there;
    const char device_name[] = {argument[0], '\0'};
    begin_exporter(device_name, true);
    begin_device("0");
    const struct reply reply = request_export_ok('a', 0, 64, 3);
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

/* An export that was freed before it is opened, and a handle of this process presented as another
 * process's. */
static void case_stale(const char *argument) {
    struct rcmi_import *import;
    const void *there;
    (void)argument;
    begin_exporter("0", true);
    begin_device("0");
    struct reply reply = request_export_ok('a', 0, 64, 3);
    (void)request_export_ok('f', 0, 0, 0);
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

/* The exporter is killed: no further operation starts on its memory. */
static void case_killed(const char *argument) {
    struct rcmi_import *import;
    const void *there;
    char byte;
    (void)argument;
    begin_exporter("0", true);
    begin_device("0");
    const struct reply reply = request_export_ok('a', 0, 64, 9);
    begin_imports(&reply);
    must(get(&reply, 0, 64, &import, &there));
    kill(exporter_pid, SIGKILL);
    end_exporter();
    must(copy(&byte, there, 1)); /* still open */
    rcmi_imports_revoke(imports);
    expect(RCM_ERR_PEER, "has ended", copy(&byte, there, 1));
    rcmi_import_put(import);
    expect(RCM_ERR_PEER, "has ended", get(&reply, 0, 64, &import, &there));
    end_imports();
    rcmi_device_close(device);
}

/* Ranks that are threads open the same memory at one address. When one of them closes it, the other
 * can still use it. */
static void case_twice(const char *argument) {
    struct rcmi_import *one, *two;
    const void *there, *there_too;
    char byte = 0;
    (void)argument;
    begin_exporter("0", true);
    begin_device("0");
    const struct reply reply = request_export_ok('a', 0, 64, 9);
    begin_imports(&reply);
    struct rcmi_imports *const first = imports;
    must(get(&reply, 0, 64, &one, &there));
    begin_imports(&reply);
    must(get(&reply, 0, 64, &two, &there_too));
    if (there != there_too)
        die("it lies at %p and at %p", there, there_too);
    rcmi_imports_revoke(imports);
    must(copy(&byte, there, 1));
    rcmi_imports_revoke(first);
    expect(RCM_ERR_PEER, "has ended", copy(&byte, there, 1));
    rcmi_import_put(one);
    rcmi_import_put(two);
    end_imports();
    imports = first;
    end_imports();
    end_exporter();
    rcmi_device_close(device);
}

/* Number of imports that the driver has open. */
static uint64_t opened(void) {
    struct fakecuda_counts counts;
    fakecuda_counts_fn *count;
    *(void **)&count = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fakecuda_counts");
    count(&counts);
    return counts.imports;
}

/* A handle claims more bytes than its memory has. It is rejected and nothing stays open. The right
 * size works. */
static void case_less(const char *argument) {
    static const uint64_t more[] = {1, 4 << 20, UINT64_MAX / 2, UINT64_MAX};
    struct rcmi_import *import;
    const void *there;
    (void)argument;
    begin_exporter("0", true);
    begin_device("0");
    const struct reply reply = request_export_ok('o', 0, 4 << 20, 77);
    begin_imports(&reply);
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        struct reply larger = reply;
        larger.handle.bytes = more[i] == UINT64_MAX ? more[i] : reply.handle.bytes + more[i];
        expect(RCM_ERR_PROTOCOL, "was announced with", get(&larger, 0, 5, &import, &there));
    }
    must(read_all(&reply, 4096, 77));
    await_closed(reply.handle.buffer);
    if (opened() != 0)
        die("%llu are open", (unsigned long long)opened());
    end_imports();
    end_exporter();
    rcmi_device_close(device);
}

/* Both in one process, on two devices if there are two: the memory is used without import. */
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
    expect(RCM_ERR_PROTOCOL, "does not exist", get(&reply, 0, 64, &import, &there));
    end_imports();
    row->free(other, memory);
    rcmi_device_close(device);
    rcmi_device_close(other);
}

/* The driver function in `argument` fails once in each of the two processes. One of them reports
 * it, and nothing stays open. */
static void case_fails(const char *argument) {
    begin_exporter("0", true);
    if (rcmi_device_open("0", 0, &device) == RCM_OK) {
        begin_device("0");
        struct reply reply = request_export('o', 0, 4096, 5);
        if (reply.status == RCM_OK)
            reply = request_export('a', 1, 64, 5);
        rcm_status status = reply.status;
        if (status == RCM_OK) {
            begin_imports(&reply);
            status = read_all(&reply, 64, 5);
            await_closed(reply.handle.buffer);
            if (rcmi_imports_unclosed(imports) != (strstr(argument, "Close") != NULL))
                die("the count of unclosed imports is wrong");
            end_imports();
        }
        if (status == RCM_OK && !strstr(argument, "Close"))
            die("%s failed, and nothing reported it", argument);
        rcmi_device_close(device);
    }
    end_exporter();
}

static const struct test_case cases[] = {
    {"buffers", "FAKECUDA_SUBALLOC=0", "", case_buffers},
    {"buffers in one block, handles of each", "FAKECUDA_SUBALLOC=1", "", case_buffers},
    {"buffers in one block, handles of it", "FAKECUDA_SUBALLOC=2", "", case_buffers},
    {"memory of its own", "", "", case_own},
    {"another device", "FAKECUDA_DEVICES=2", "1 0", case_refused},
    {"no peer access", "FAKECUDA_DEVICES=2 FAKECUDA_NOPEER=1", "1 -4 PEER_ACCESS", case_refused},
    {"MIG", "FAKECUDA_MIG=1", "1 -4 PEER_ACCESS", case_refused},
    {"freed", "", "", case_stale},
    {"closed", "", "", case_closed},
    {"killed", "", "", case_killed},
    {"two caches", "", "", case_twice},
    {"two caches of one block", "FAKECUDA_SUBALLOC=2", "", case_twice},
    {"less memory", "", "", case_less},
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
