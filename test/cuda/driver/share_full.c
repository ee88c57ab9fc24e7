/* SPDX-License-Identifier: BSD-3-Clause */
/* More allocations of another process than may be open at a time, and closes that a stream or the
 * end of the device delays: share_full.c [CASE]. See share.c. */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "case.h"
#include "clock.h"
#include "export_process.h"
#include "stream_gate.h"

/* An exporter with all buffers, and a device. */
static void begin_all(struct reply *ret_all) {
    begin_exporter("0", true);
    begin_device("0");
    for (int i = 0; i < SHARING_BUFFERS; i++)
        ret_all[i] = request_export_ok('a', i, 64, (unsigned char)i);
}

/* More buffers than may be open, each read twice. One stays in use and must stay open. */
static void case_full(const char *argument) {
    static struct reply all[SHARING_BUFFERS];
    struct rcmi_import *used;
    const void *there;
    char byte;
    (void)argument;
    begin_all(all);
    begin_imports(&all[0]);
    must(get(&all[0], 0, 64, &used, &there));
    for (int i = 0; i < 2 * SHARING_BUFFERS; i++)
        must(read_all(&all[i % SHARING_BUFFERS], 64, (unsigned char)(i % SHARING_BUFFERS)));
    if (rcmi_imports_count(imports) > RCMI_IMPORTS_MAX)
        die("%d are open", rcmi_imports_count(imports));
    must(copy(&byte, there, 1));
    if (rcmi_imports_close(imports, all[0].handle.buffer, rcmi_imports_time(imports)) != RCM_AGAIN)
        die("an import in use was closed");
    must(copy(&byte, there, 1));
    rcmi_import_put(used);
    await_closed(all[0].handle.buffer);
    end_imports();
    end_exporter();
    rcmi_device_close(device);
}

/* ---- A full cache and its waiters ------------------------------------------------------------ */

static _Atomic int changes;

static void changed(void *arg) {
    (void)arg;
    atomic_fetch_add(&changes, 1);
}

static void await_change(int before) {
    const rcmi_deadline deadline = rcmi_deadline_in(60000);
    while (atomic_load(&changes) == before && !rcmi_deadline_passed(deadline))
        usleep(100);
    if (atomic_load(&changes) == before)
        die("a waiter got no report");
}

/* A change is reported when there is a new state. */
static void await_open(const struct reply *reply, struct rcmi_import **ret_import) {
    const void *there;
    for (;;) {
        const int before = atomic_load(&changes);
        const rcm_status status =
            rcmi_imports_get(imports, &reply->handle, reply->at, 64, ret_import, &there);
        if (status != RCM_AGAIN) {
            must(status);
            return;
        }
        await_change(before);
    }
}

/* All imports are in use. A waiter for a free entry gets a report when there is one. A failed
 * import that nothing requests any more counts as a free entry. */
static void case_waiting(const char *argument) {
    static struct reply all[RCMI_IMPORTS_MAX + 1];
    struct rcmi_import *used[RCMI_IMPORTS_MAX + 1];
    const void *there;
    const int last = RCMI_IMPORTS_MAX - 1;
    (void)argument;
    begin_exporter("0", true);
    begin_device("0");
    for (int i = 0; i <= RCMI_IMPORTS_MAX; i++)
        all[i] = request_export_ok('a', i, 64, (unsigned char)i);
    must(rcmi_imports_create(device, &all[0].exporter, changed, NULL, &imports));
    for (int i = 0; i < last; i++)
        await_open(&all[i], &used[i]);
    struct reply wrong = all[last];
    wrong.handle.buffer += 1000;
    memset(wrong.handle.how, 7, sizeof wrong.handle.how);
    const int before = atomic_load(&changes);
    if (rcmi_imports_get(imports, &wrong.handle, 0, 64, &used[last], &there) != RCM_AGAIN)
        die("a wrong handle was not tried");
    await_change(before);
    await_open(&all[last], &used[last]);
    const int full = atomic_load(&changes);
    if (rcmi_imports_get(imports, &all[last + 1].handle, all[last + 1].at, 64, &used[last + 1],
                         &there) != RCM_AGAIN)
        die("%d and one are open", RCMI_IMPORTS_MAX);
    rcmi_import_put(used[5]);
    await_change(full);
    await_open(&all[last + 1], &used[5]);
    /* One that closes anyway is room enough for the next waiter: the others stay open. */
    if (rcmi_imports_get(imports, &all[5].handle, all[5].at, 64, &used[last + 1], &there) !=
            RCM_AGAIN ||
        rcmi_imports_close(imports, all[0].handle.buffer, rcmi_imports_time(imports)) != RCM_AGAIN)
        die("the imports in use are not all open");
    for (int i = 0; i <= last; i++)
        rcmi_import_put(used[i]);
    if (rcmi_imports_count(imports) != RCMI_IMPORTS_MAX - 1)
        die("%d are open", rcmi_imports_count(imports));
    end_imports();
    end_exporter();
    rcmi_device_close(device);
}

static void changed_slowly(void *arg) {
    usleep(100000);
    changed(arg);
}

/* The device ends while an import closes: its last change is reported as well. */
static void case_ends(const char *argument) {
    struct rcmi_import *import;
    (void)argument;
    begin_exporter("0", true);
    begin_device("0");
    const struct reply reply = request_export_ok('a', 0, 64, 5);
    must(rcmi_imports_create(device, &reply.exporter, changed_slowly, NULL, &imports));
    await_open(&reply, &import);
    rcmi_import_put(import);
    (void)rcmi_imports_close(imports, reply.handle.buffer, rcmi_imports_time(imports));
    rcmi_device_close(device);
    if (atomic_load(&changes) != 3)
        die("%d changes, not 3: opened, free for another, closed", atomic_load(&changes));
    end_imports();
    end_exporter();
}

/* ---- A busy context -------------------------------------------------------------------------- */

/* A stream of the program waits, and with it every close: an evicted import still makes room at
 * once. Imports that are being closed are opened again. */
static void case_busy(const char *argument) {
    static struct reply all[SHARING_BUFFERS];
    (void)argument;
    begin_all(all);
    begin_imports(&all[0]);
    struct gate *gate = gate_new();
    for (int i = 0; i < 3 * SHARING_BUFFERS; i++)
        must(read_all(&all[i % SHARING_BUFFERS], 64, (unsigned char)(i % SHARING_BUFFERS)));
    if (rcmi_imports_close(imports, all[0].handle.buffer, rcmi_imports_time(imports)) != RCM_AGAIN)
        die("an import is closed while a stream waits");
    gate_open(gate);
    await_closed(all[0].handle.buffer);
    gate_free(gate);
    end_imports();
    end_exporter();
    rcmi_device_close(device);
}

static void close_at(const struct reply *reply, uint64_t time) {
    const rcmi_deadline deadline = rcmi_deadline_in(SHARING_SECONDS * 1000);
    while (rcmi_imports_close(imports, reply->handle.buffer, time) == RCM_AGAIN) {
        if (rcmi_deadline_passed(deadline))
            die("an import is not closed");
        usleep(100);
    }
}

static void must_be_open(int count) {
    if (rcmi_imports_count(imports) != count)
        die("%d are open, not %d", rcmi_imports_count(imports), count);
}

static void open_again(const struct reply *reply) {
    if (reply->fd >= 0)
        must(open_descriptor(reply, dup(reply->fd)));
    must(read_all(reply, 64, 5));
}

/* The emulated driver unmaps memory of descriptors without waiting for streams. */
static void begin_close(const struct reply *reply, uint64_t time) {
    const rcm_status status = rcmi_imports_close(imports, reply->handle.buffer, time);
    if (status != RCM_AGAIN && reply->fd < 0)
        die("an import is closed while a stream waits");
}

/* Memory is opened again while a demand to close it is outstanding, because a stream waits. The
 * demand closes only what was open before it, the next one the rest. argument: the kind of
 * memory. */
static void case_reopened(const char *argument) {
    begin_exporter("0", true);
    begin_device("0");
    const struct reply reply = request_export_ok(argument[0], 0, 2 << 20, 5);
    begin_imports(&reply);
    open_again(&reply);
    struct gate *gate = gate_new();
    const uint64_t first = rcmi_imports_time(imports);
    begin_close(&reply, first);
    open_again(&reply);
    begin_close(&reply, first);
    must_be_open(1);
    gate_open(gate);
    close_at(&reply, first);
    must_be_open(1);
    must(read_all(&reply, 64, 5));
    close_at(&reply, rcmi_imports_time(imports));
    must_be_open(0);
    gate_free(gate);
    if (reply.fd >= 0)
        close(reply.fd);
    end_imports();
    end_exporter();
    rcmi_device_close(device);
}

/* The exporter is killed while a stream waits. No operation starts on its memory, although a
 * close of the same memory waits behind that of another. */
static void case_killed(const char *argument) {
    struct rcmi_import *import;
    const void *there;
    char byte;
    (void)argument;
    begin_exporter("0", true);
    begin_device("0");
    const struct reply reply = request_export_ok('a', 0, 64, 5),
                       other = request_export_ok('a', 1, 64, 5);
    begin_imports(&reply);
    open_again(&reply);
    open_again(&other);
    struct gate *gate = gate_new();
    begin_close(&other, rcmi_imports_time(imports));
    usleep(50000); /* that close begins */
    begin_close(&reply, rcmi_imports_time(imports));
    must(get(&reply, 0, 64, &import, &there));
    kill(exporter_pid, SIGKILL);
    end_exporter();
    must(copy(&byte, there, 1));
    rcmi_imports_revoke(imports);
    expect(RCM_ERR_PEER, "has ended", copy(&byte, there, 1));
    gate_open(gate);
    rcmi_import_put(import);
    gate_free(gate);
    end_imports();
    rcmi_device_close(device);
}

static const struct test_case cases[] = {
    {"a full cache", "", "", case_full},
    {"a full cache, all in use", "", "", case_waiting},
    {"a device that ends during a close", "", "", case_ends},
    {"a full cache, while a stream waits", "", "", case_busy},
    {"opened again during its close", "", "a", case_reopened},
    {"opened again by descriptor during its close", "", "m", case_reopened},
    {"a killed process, during a close", "", "", case_killed},
};

int main(int argc, char **argv) {
    return cases_run(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
