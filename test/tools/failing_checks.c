/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests that fail in each way, for the framework of ringcomm-info --check. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "check_frame.h"

static void run_well(struct check_out *out) {
    printf("what a driver prints\n");
    check_fact(out, "thing0", "speed", "%d GB/s", 7);
}

static void run_wrong(struct check_out *out) {
    check_mend(out, "thing1", "thing1 is \"off\": turn it on");
    check_mend(out, "thing2", "thing2 is off");
}

static void run_crash(struct check_out *out) {
    check_fact(out, "", "before", "yes");
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

static void run_exit(struct check_out *out) {
    (void)out;
    _exit(3);
}

static void run_hang(struct check_out *out) {
    (void)out;
    signal(SIGALRM, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    for (;;)
        pause();
}

#define TEST(name, when)                                                                           \
    { #name, when, 1, run_##name }
static const struct check_test good[] = {TEST(well, CHECK_FIRST), TEST(well, CHECK_AFTER), {0}};
static const struct check_test later[] = {TEST(well, CHECK_FIRST), TEST(wrong, CHECK_AFTER),
                                          TEST(exit, CHECK_AFTER), TEST(hang, CHECK_AFTER),
                                          TEST(well, CHECK_AFTER), {0}};
static const struct check_test first[] = {
    TEST(crash, CHECK_FIRST), TEST(well, CHECK_AFTER), TEST(well, CHECK_OF_JOBS), {0}};

static const struct check checks[] = {
    {"good", good, false}, {"later", later, false}, {"first", first, false}};

int main(int argc, char **argv) {
    for (size_t i = 0; argc == 2 && i < sizeof checks / sizeof checks[0]; i++)
        if (strcmp(checks[i].name, argv[1]) == 0)
            return check_run(&checks[i], NULL, NULL, "-");
    return 2;
}
