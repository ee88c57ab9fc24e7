/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * keeper.c: see keeper.h. The pipe carries process group numbers: a positive one adds the group, a
 * negative one removes it. A write of one number is atomic, so ranks and launcher need no lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper.h"

struct group_list {
    pid_t *pgid;
    size_t n, room;
};

static void list_add(struct group_list *list, pid_t pgid) {
    if (list->n == list->room) {
        size_t room = 2 * list->room + 64;
        pid_t *grown = realloc(list->pgid, room * sizeof(*grown));
        if (!grown)
            return; /* PDEATHSIG still ends the rank itself */
        list->pgid = grown;
        list->room = room;
    }
    list->pgid[list->n++] = pgid;
}

static void list_remove(struct group_list *list, pid_t pgid) {
    for (size_t i = 0; i < list->n; i++)
        if (list->pgid[i] == pgid) {
            list->pgid[i] = list->pgid[--list->n];
            return;
        }
}

/* Linux has close_range from 5.9 on, and glibc a function for it from 2.34 on. */
static void close_from(int first) {
    enum { LAST = 65536 }; /* limits the loop: RLIMIT_NOFILE may be 10^9 */
    if (syscall(SYS_close_range, first, ~0U, 0) == 0)
        return;
    for (int fd = first; fd < LAST && fd < sysconf(_SC_OPEN_MAX); fd++)
        close(fd);
}

/* Leaves the terminal's session, and holds no descriptor open that another process could wait for:
 * descriptors 0..2 become /dev/null, the pipe becomes 3, all others are closed. */
static void keeper_detach(int fd) {
    setsid();
    prctl(PR_SET_NAME, "ringcomm-keeper");
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_IGN);
    if (fd != 3)
        dup2(fd, 3);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3 && null >= 0; i++)
        dup2(null, i);
    close_from(4);
}

static void keeper_main(int fd) {
    struct group_list list = {0};
    pid_t pgid;
    ssize_t n;
    keeper_detach(fd);
    while ((n = read(3, &pgid, sizeof(pgid))) == sizeof(pgid) || (n < 0 && errno == EINTR)) {
        if (n < 0)
            continue;
        if (pgid > 0)
            list_add(&list, pgid);
        else
            list_remove(&list, -pgid);
    }
    for (size_t i = 0; i < list.n; i++)
        kill(-list.pgid[i], SIGKILL);
    _exit(0);
}

int run_keeper_start(struct run_keeper *ret_keeper) {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[1]);
        keeper_main(fds[0]);
    }
    close(fds[0]);
    if (pid < 0) {
        close(fds[1]);
        return -1;
    }
    *ret_keeper = (struct run_keeper){.pid = pid, .fd = fds[1]};
    return 0;
}

static void keeper_send(const struct run_keeper *keeper, pid_t number) {
    while (write(keeper->fd, &number, sizeof(number)) < 0 && errno == EINTR)
        ;
}

void run_keeper_add(const struct run_keeper *keeper, pid_t pgid) {
    keeper_send(keeper, pgid);
}

void run_keeper_remove(const struct run_keeper *keeper, pid_t pgid) {
    keeper_send(keeper, -pgid);
}

void run_keeper_stop(struct run_keeper *keeper) {
    close(keeper->fd);
    while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}
