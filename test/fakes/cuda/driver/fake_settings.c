/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings and messages of the emulated driver. */
#include "fake.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct settings settings;

static long number(const char *name, long otherwise) {
    const char *e = getenv(name);
    return e && *e ? strtol(e, NULL, 0) : otherwise;
}

static _Noreturn void bad_setting(const char *name, const char *value) {
    fake_log("%s=%s is invalid", name, value);
    exit(99);
}

static int compute_mode(void) {
    const char *e = getenv("FAKECUDA_COMPUTE_MODE");
    if (!e || !*e || strcmp(e, "default") == 0)
        return CU_COMPUTEMODE_DEFAULT;
    if (strcmp(e, "exclusive") == 0)
        return CU_COMPUTEMODE_EXCLUSIVE_PROCESS;
    if (strcmp(e, "prohibited") == 0)
        return CU_COMPUTEMODE_PROHIBITED;
    bad_setting("FAKECUDA_COMPUTE_MODE", e);
}

/* FAKECUDA_VISIBLE=1,0: ordinal 0 is physical device 1, ordinal 1 is physical device 0. */
static void read_visible(void) {
    const char *e = getenv("FAKECUDA_VISIBLE");
    for (int i = 0; i < MAX_DEVICES; i++)
        settings.physical[i] = i;
    if (!e || !*e)
        return;
    int n = 0;
    for (char *end; *e; e = *end == ',' ? end + 1 : end) {
        long d = strtol(e, &end, 10);
        if (end == e || d < 0 || d >= settings.devices || n == MAX_DEVICES)
            bad_setting("FAKECUDA_VISIBLE", e);
        settings.physical[n++] = (int)d;
    }
    settings.devices = n;
}

/* FAKECUDA_HOSTFN=delay[=us],serial */
static void read_host_fn(void) {
    const char *e = getenv("FAKECUDA_HOSTFN");
    char word[64];
    for (int used; e && sscanf(e, "%63[^,]%n", word, &used) == 1; e += used + (e[used] == ',')) {
        unsigned us = 2000;
        if (strcmp(word, "serial") == 0)
            settings.host_serial = true;
        else if (strcmp(word, "delay") == 0 || sscanf(word, "delay=%u", &us) == 1)
            settings.host_delay_us = us;
        else
            bad_setting("FAKECUDA_HOSTFN", word);
    }
}

static void read_settings(void) {
    bool mig = number("FAKECUDA_MIG", 0) != 0;
    settings = (struct settings){
        .devices = (int)number("FAKECUDA_DEVICES", mig ? 2 : 1),
        .cc = (int)number("FAKECUDA_CC", 90),
        .sms = (int)number("FAKECUDA_SMS", 4),
        .driver = (int)number("FAKECUDA_DRIVER", CUDA_VERSION),
        .compute_mode = compute_mode(),
        .suballoc = (int)number("FAKECUDA_SUBALLOC", 0),
        .seed = (uint64_t)number("FAKECUDA_SEED", 0),
        .resident = (unsigned)number("FAKECUDA_RESIDENT", 0),
        .jitter_us = (unsigned)number("FAKECUDA_JITTER", 0),
        .queues = (unsigned)number("FAKECUDA_QUEUES", 0),
        .weak = number("FAKECUDA_WEAK", 0) != 0,
        .trace = number("FAKECUDA_TRACE", 0) != 0,
        .abort_on_fault = number("FAKECUDA_ABORT", 0) != 0,
        .exclusive = number("FAKECUDA_EXCLUSIVE", 0) != 0,
        .mig = mig,
        .no_peer = mig || number("FAKECUDA_NOPEER", 0) != 0,
        .lazy = number("FAKECUDA_LAZY", 0) != 0,
        .sync_alloc = number("FAKECUDA_SYNCALLOC", 0) != 0,
        .acs = number("FAKECUDA_ACS", 0) != 0,
        .absent = number("FAKECUDA_ABSENT", 0) != 0,
        .pid = (int)number("FAKECUDA_PID", 0),
        .fail = getenv("FAKECUDA_FAIL"),
        .slow = getenv("FAKECUDA_SLOW"),
        .sites = getenv("FAKECUDA_SITES"),
    };
    if (settings.devices > MAX_DEVICES)
        settings.devices = MAX_DEVICES;
    if (settings.queues > MAX_QUEUES)
        settings.queues = MAX_QUEUES;
    if (!settings.resident)
        settings.resident = (unsigned)settings.sms * 2;
    read_visible();
    read_host_fn();
}

const struct settings *fake_settings(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_settings);
    return &settings;
}

void fake_log(const char *format, ...) {
    char text[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "fake_cuda[%d]: %s\n", (int)getpid(), text);
}
