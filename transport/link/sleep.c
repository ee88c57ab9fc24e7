/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a thread sleeps until something happens to its node. If it sleeps on the doorbell's futex, a
 * message wakes two threads one after the other: the loop thread, which sleeps on the sockets, and
 * then the waiting thread. Waking a thread costs as much as several messages. Therefore the first
 * sleeper sleeps on the sockets itself ("polls"), and on an eventfd for events that do not come by
 * a socket: works completed by other threads, failures, aborts.
 *
 * Correctness does not depend on the polling thread: every other sleeper still arms the loop
 * thread. The polling thread may leave, or be busy elsewhere, without notice. The cost: with two
 * sleepers a message wakes both the polling thread and the loop thread.
 *
 * Not here: how long to spin before sleeping (base/os/wait.c), and what to check in between (the
 * caller).
 */
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include "link.h"
#include "fd.h"

rcm_status rcmi_node_sleep_init(struct rcmi_node *node) {
    node->poller_fd = rcmi_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (node->poller_fd < 0)
        return rcmi_fail(rcmi_status_of_errno(errno), errno, "no eventfd for a node");
    return RCM_OK;
}

/* Collects the descriptors to sleep on. False if some events of the node do not show on
 * descriptors. */
static bool sleep_attend(struct rcmi_node *node, struct rcmi_sleep *sleep) {
    sleep->fds[0] = node->poller_fd;
    sleep->nfds = 1;
    for (int i = 0; i < node->ndomains; i++) {
        const struct rcmi_domain *domain = &node->domains[i];
        int fd = -1;
        if (!domain->transport->attend(domain->data, &fd))
            return false;
        if (fd >= 0 && sleep->nfds == RCMI_SLEEP_FDS)
            return false;
        if (fd >= 0)
            sleep->fds[sleep->nfds++] = fd;
    }
    return true;
}

static bool sleep_begin_polling(struct rcmi_node *node, struct rcmi_sleep *sleep) {
    if (atomic_exchange(&node->polled, true))
        return false;
    /* Armed first: a transport that later stops using descriptors rings, which wakes this thread.
     */
    (void)rcmi_doorbell_arm(node->doorbell, RCMI_DOORBELL_POLLER);
    if (sleep_attend(node, sleep))
        return true;
    rcmi_doorbell_disarm(node->doorbell, RCMI_DOORBELL_POLLER);
    atomic_store(&node->polled, false);
    return false;
}

bool rcmi_node_polled(const struct rcmi_node *node) {
    return atomic_load(&node->polled);
}

void rcmi_node_sleep_begin(struct rcmi_node *node, struct rcmi_sleep *sleep) {
    sleep->polls = sleep_begin_polling(node, sleep);
    if (sleep->polls)
        return;
    sleep->seen = rcmi_doorbell_arm(node->doorbell, RCMI_DOORBELL_FUTEX_ONE);
    rcmi_node_arm(node);
}

/* Every error of ppoll, and a signal, means "check again". */
static void sleep_poll(struct rcmi_node *node, const struct rcmi_sleep *sleep,
                       rcmi_deadline deadline) {
    struct pollfd polls[RCMI_SLEEP_FDS];
    const int saved_errno = errno;
    const int64_t left = deadline == RCMI_NEVER ? INT64_MAX : deadline - rcmi_now_ns();
    const struct timespec timeout = {.tv_sec = left > 0 ? (time_t)(left / 1000000000) : 0,
                                     .tv_nsec = left > 0 ? (long)(left % 1000000000) : 0};
    uint64_t rings;
    bool came = false;
    for (int i = 0; i < sleep->nfds; i++)
        polls[i] = (struct pollfd){.fd = sleep->fds[i], .events = POLLIN};
    if (ppoll(polls, (nfds_t)sleep->nfds, deadline == RCMI_NEVER ? NULL : &timeout, NULL) > 0) {
        if (polls[0].revents)
            (void)!read(node->poller_fd, &rings, sizeof rings);
        for (int i = 1; i < sleep->nfds; i++)
            came = came || polls[i].revents;
    }
    errno = saved_errno;
    /* Progress is made here and not only by the caller, which may wait for a busy driver: bytes
     * left in the sockets would end the next sleep at once. */
    if (came)
        (void)rcmi_node_progress(node);
}

void rcmi_node_sleep_until(struct rcmi_node *node, const struct rcmi_sleep *sleep,
                           rcmi_deadline deadline) {
    if (sleep->polls)
        sleep_poll(node, sleep, deadline);
    else
        rcmi_doorbell_sleep(node->doorbell, sleep->seen, deadline);
}

void rcmi_node_sleep_end(struct rcmi_node *node, const struct rcmi_sleep *sleep) {
    if (!sleep->polls) {
        rcmi_doorbell_disarm(node->doorbell, RCMI_DOORBELL_FUTEX_ONE);
        return;
    }
    rcmi_doorbell_disarm(node->doorbell, RCMI_DOORBELL_POLLER);
    atomic_store(&node->polled, false);
}
