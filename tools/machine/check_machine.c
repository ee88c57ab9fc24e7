/* SPDX-License-Identifier: BSD-3-Clause */
/* Notes about the machine; see check_machine.h. */
#include "check_machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include "../common.h"
#include "ringcomm.h"

/* The distribution's name, or "unknown". */
static void system_name(char *ret_text, size_t len) {
    static const char key[] = "PRETTY_NAME=";
    char line[256];
    FILE *file = fopen("/etc/os-release", "re");
    snprintf(ret_text, len, "unknown");
    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, key, sizeof(key) - 1) != 0)
            continue;
        const char *name = line + sizeof(key) - 1 + (line[sizeof(key) - 1] == '"');
        line[strcspn(line, "\n")] = '\0';
        snprintf(ret_text, len, "%.*s", (int)strcspn(name, "\""), name);
    }
    if (file)
        fclose(file);
}

/* Notes settings that are not defaults. */
static void note_settings(struct report *report) {
    struct rcm_setting setting;
    for (size_t i = 0; rcm_setting_at(i, &setting) == RCM_OK; i++)
        if (strcmp(setting.origin, "default") != 0)
            report_note(report, setting.name, "%s", setting.value);
}

static void note_host(struct report *report) {
    struct utsname uts;
    char text[256];
    if (uname(&uts) == 0)
        report_note(report, "host", "%s, %s %s %s", uts.nodename, uts.sysname, uts.release,
                    uts.machine);
    system_name(text, sizeof(text));
    report_note(report, "system", "%s%s", text,
                access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0
                    ? ", in a container"
                    : "");
    tool_cpu_model(text, sizeof(text));
    report_note(report, "cpu", "%s", text);
}

void check_machine(struct report *report, const char *check, int nranks) {
    const time_t now = time(NULL);
    struct tm utc;
    char when[32];
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", gmtime_r(&now, &utc));
    report_note(report, "ringcomm-info", "%s", rcm_version());
    report_note(report, "check", "%s, %s UTC, user %u, %d rank%s", check, when, geteuid(), nranks,
                nranks == 1 ? "" : "s");
    note_host(report);
    note_settings(report);
}
