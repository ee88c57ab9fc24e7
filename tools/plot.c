/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs gnuplot on a script in a memory file; see plot.h. */
#include "plot.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "common.h"

#define PLOT_TIMEOUT_NS (60 * (int64_t)1000000000)

extern char **environ;

/* Single quotes of gnuplot: all characters are literal, a quote is doubled. */
static void script_write_string(FILE *script, const char *text) {
    fputc('\'', script);
    for (const char *c = text; *c; c++) {
        if (*c == '\'')
            fputc('\'', script);
        if (*c != '\n')
            fputc(*c, script);
    }
    fputc('\'', script);
}

/* Writes one named data block per series; returns the number of blocks. */
static size_t script_write_data(FILE *script, const struct plot_point *points, size_t npoints) {
    size_t blocks = 0;
    const char *series = NULL;
    for (size_t i = 0; i < npoints; i++) {
        const struct plot_point *p = &points[i];
        if (p->bytes <= 0)
            continue;
        if (!series || strcmp(series, p->series) != 0) {
            if (series)
                fputs("EOD\n", script);
            fprintf(script, "title%zu = ", blocks);
            script_write_string(script, p->series);
            fprintf(script, "\n$data%zu << EOD\n", blocks++);
            series = p->series;
        }
        fprintf(script, "%.0f %.6f %.6f\n", p->bytes, p->median_us, p->busbw);
    }
    if (series)
        fputs("EOD\n", script);
    return blocks;
}

static void script_write_panel(FILE *script, size_t blocks, int column, const char *label) {
    fprintf(script, "set ylabel '%s'\nplot ", label);
    for (size_t i = 0; i < blocks; i++)
        fprintf(script, "%s$data%zu using 1:%d with linespoints title title%zu", i ? ", " : "", i,
                column, i);
    fputc('\n', script);
}

static size_t script_write(FILE *script, const char *path, const char *title,
                           const struct plot_point *points, size_t npoints) {
    fputs("set terminal svg size 1100,480 noenhanced background 'white'\nset output ", script);
    script_write_string(script, path);
    fputc('\n', script);
    size_t blocks = script_write_data(script, points, npoints);
    fputs("set multiplot layout 1,2 title ", script);
    script_write_string(script, title);
    fputs("\nset logscale x 2\nset format x '%.0b%B'\nset grid\n"
          "set key top left\nset xlabel 'bytes'\n",
          script);
    script_write_panel(script, blocks, 3, "bus bandwidth, GB/s");
    fputs("set logscale y\n", script);
    script_write_panel(script, blocks, 2, "median time, us");
    fputs("unset multiplot\n", script);
    return blocks;
}

/* Waits for pid, at most PLOT_TIMEOUT_NS; its exit status, or -1. */
static int plot_wait(pid_t pid) {
    const int64_t deadline = tool_now_ns() + PLOT_TIMEOUT_NS;
    const struct timespec nap = {.tv_nsec = 10 * 1000 * 1000};
    int status;
    for (;;) {
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        if (got < 0 && errno != EINTR)
            return -1;
        if (tool_now_ns() > deadline) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return -1;
        }
        nanosleep(&nap, NULL);
    }
}

static bool plot_run(FILE *script, const char *path) {
    char program[] = "gnuplot", from_stdin[] = "-";
    char *const argv[] = {program, from_stdin, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(script), STDIN_FILENO);
    int error = posix_spawnp(&pid, program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error == ENOENT) {
        tool_error("no plot '%s': gnuplot is not installed (Debian: apt-get install gnuplot-nox)",
                   path);
        return false;
    }
    int code = error ? -1 : plot_wait(pid);
    if (code != 0)
        tool_error("no plot '%s': gnuplot failed%s%s", path, error ? ": " : "",
                   error ? strerror(error) : "");
    return code == 0;
}

bool plot_write(const char *path, const char *title, const struct plot_point *points,
                size_t npoints) {
    int fd = memfd_create("gnuplot-script", MFD_CLOEXEC);
    FILE *script = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!script) {
        tool_error("no plot '%s': no memory for the script: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    bool ok = false;
    if (script_write(script, path, title, points, npoints) == 0) {
        tool_error("no plot '%s': no result has a size above 0 bytes", path);
    } else if (fflush(script) != 0 || lseek(fileno(script), 0, SEEK_SET) != 0) {
        tool_error("no plot '%s': %s", path, strerror(errno));
    } else {
        ok = plot_run(script, path);
    }
    fclose(script);
    return ok;
}
