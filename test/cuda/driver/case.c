/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs cases. See case.h. */
#include "case.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 30 };

void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    exit(1);
}

void expect(rcm_status wanted, const char *words, rcm_status got) {
    if (got != wanted || (words && !strstr(rcm_last_error(), words)))
        die("wanted %s with \"%s\", got %s: %s", rcm_status_name(wanted), words ? words : "",
            rcm_status_name(got), rcm_last_error());
}

void must(rcm_status status) {
    if (status != RCM_OK)
        die("%s: %s", rcm_status_name(status), rcm_last_error());
}

/* In the child: sets "NAME=value NAME=value". */
static void environment_set(const char *settings) {
    char text[200], *rest = text;
    snprintf(text, sizeof text, "%s", settings);
    for (char *one; (one = strsep(&rest, " "));) {
        char *value = strchr(one, '=');
        if (!value)
            continue;
        *value = '\0';
        setenv(one, value + 1, 1);
    }
}

/* Starts the program again, because the driver reads its settings once. */
static int run_self(const char *settings, const char *what, const char *argument) {
    int status;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        environment_set(settings);
        alarm(SECONDS);
        execl("/proc/self/exe", "device", what, argument, (char *)NULL);
        _exit(126);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run_all(const struct test_case *cases, size_t n) {
    int failed = 0;
    for (size_t i = 0; i < n; i++) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i);
        printf("%s %s %s\n", cases[i].name, cases[i].environment, cases[i].argument);
        const int code = run_self(cases[i].environment, number, cases[i].argument);
        if (code != 0)
            printf("FAILED: case %zu ended with %d\n", i, code);
        failed += code != 0;
    }
    return failed;
}

int cases_run(int argc, char **argv, const struct test_case *cases, size_t n) {
    if (argc <= 2)
        return run_all(cases, n) > 0;
    cases[atoi(argv[1])].run(argv[2]);
    return 0;
}
