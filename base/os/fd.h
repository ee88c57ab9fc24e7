/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * File descriptors, sockets and shared memory. All returned descriptors are O_CLOEXEC, sockets are
 * non-blocking. No call raises SIGPIPE; all handle EINTR. Failing calls set the thread's error;
 * RCM_AGAIN does not. Implemented in socket.c (sockets), memfd.c (memory) and fd.c (the rest).
 */
#ifndef RCMI_FD_H
#define RCMI_FD_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include "ringcomm.h"
#include "clock.h"

/* Descriptors 0 to 2 belong to the program, even if it closed them: output to stderr must not go
 * into a connection. Every call that creates a descriptor is wrapped in this function. Returns fd;
 * if fd is below 3, returns a close-on-exec copy from 3 on and closes fd; -1 stays -1. Keeps
 * errno. */
int rcmi_fd_high(int fd);
/* The same for opening files and folders for reading. */
FILE *rcmi_fopen(const char *path);
DIR *rcmi_opendir(const char *path);

/* Sockets made by this file (listen, accept, connect) are closed in a forked child. A child that
 * kept its parent's connections open would hide the parent's death from the others. rcmi_fd_own
 * does the same for another descriptor, until rcmi_fd_close. */
void rcmi_fd_own(int fd);

/* Closes *fd if it is >= 0 and sets it to -1; keeps errno. The library closes descriptors only with
 * this function. */
void rcmi_fd_close(int *fd);

/* For a thread that found that other code closed descriptors of the library: their numbers may have
 * been reused. While a thread distrusts them, rcmi_fd_close only forgets the number. Returns the
 * previous state. */
bool rcmi_fd_distrust(bool distrust);
bool rcmi_fd_distrusted(void);

/* The maximum number of concurrent unauthenticated connections: a share of the descriptor limit. */
int rcmi_fd_unidentified(void);

/* Checks that `wanted` more descriptors are available; RCM_ERR_RESOURCE otherwise. The text has
 * both numbers and the limit, and begins with `what` ("links by tcp"). Tries at most 256. */
rcm_status rcmi_fd_try(const char *what, int wanted);

/* One read or write of up to len bytes, without SIGPIPE. Never blocks on a socket, nor on other
 * O_NONBLOCK descriptors. RCM_OK with *ret_len > 0 (0 only for len 0), RCM_AGAIN if it would block,
 * RCM_ERR_PEER at end of file, reset, or a connection that the kernel timed out (origin unknown),
 * else an error. */
rcm_status rcmi_fd_read(int fd, void *buf, size_t len, size_t *ret_len);
rcm_status rcmi_fd_write(int fd, const void *buf, size_t len, size_t *ret_len);
/* The same for sockets only: a number that was reused for a file is an error. */
rcm_status rcmi_fd_send(int fd, const void *buf, size_t len, size_t *ret_len);

/* All of len bytes, polling until the deadline. */
rcm_status rcmi_fd_read_full(int fd, void *buf, size_t len, rcmi_deadline deadline);
rcm_status rcmi_fd_write_full(int fd, const void *buf, size_t len, rcmi_deadline deadline);

/* Waits for poll() events on fd: RCM_OK, RCM_ERR_TIMEOUT, or an error. A hang-up is RCM_OK: the
 * next read or write reports it. */
rcm_status rcmi_fd_poll(int fd, short events, rcmi_deadline deadline);

/* An IPv4 or IPv6 socket address with its length, as text "1.2.3.4:567" or "[::1]:567". */
struct rcmi_sockaddr {
    struct sockaddr_storage addr;
    socklen_t len;
};
#define RCMI_ADDR_TEXT 80
const char *rcmi_sockaddr_text(const struct rcmi_sockaddr *addr, char text[RCMI_ADDR_TEXT]);

/* Resolves host (name or number, IPv6 numbers also in brackets) and port to the i-th address.
 * RCM_ERR_NOT_FOUND: fewer addresses, or no such host. NULL or "": any address, to listen on: the
 * 0th is dual-stack, the 1st IPv4 only (without IPv6 only the latter). The only call without a
 * deadline: names that are neither numbers nor local take as long as the system's resolver is
 * configured to try. */
rcm_status rcmi_resolve(const char *host, uint16_t port, size_t i, struct rcmi_sockaddr *ret_addr);

/* Listens on addr (port 0: any free port; fills in the port). SO_REUSEADDR, backlog somaxconn. */
rcm_status rcmi_listen(struct rcmi_sockaddr *addr, int *ret_fd);
/* Listens on the abstract Unix name, which needs no file; at most 100 bytes. */
rcm_status rcmi_listen_unix(const char *name, int *ret_fd);

/* Options of every TCP connection: TCP_NODELAY sends small messages at once; SO_KEEPALIVE sends at
 * least every 120 s, so that no firewall drops an idle connection. rcmi_accept and
 * rcmi_connect_start set them. No effect on other sockets. */
void rcmi_socket_prepare(int fd);

/* Accepts one connection; RCM_AGAIN: none is waiting. */
rcm_status rcmi_accept(int listen_fd, int *ret_fd);

/* Begins a connection. It is established when the fd polls writable and rcmi_connect_result returns
 * RCM_OK (RCM_AGAIN: not yet). Both calls return RCM_ERR_PEER if there is no listener. RCM_AGAIN:
 * the queue of a Unix listener is full; begin again later. */
rcm_status rcmi_connect_start(const struct rcmi_sockaddr *addr, int *ret_fd);
rcm_status rcmi_connect_start_unix(const char *name, int *ret_fd);
rcm_status rcmi_connect_result(int fd);

/* Makes the kernel retransmit lost packets of this TCP connection soon after a network outage. From
 * Linux 6.15 on, attempts are about a second apart, as close together as possible while they
 * continue for longer than patience_ms. On older kernels the pause may grow to the length of the
 * outage. */
void rcmi_socket_resend_soon(int fd, int64_t patience_ms);

/* For a stalled connection: "" or " (why)", if the kernel's counters show that long packets are
 * lost. Keeps errno. */
#define RCMI_STALL_MTU                                                                             \
    "if short ones pass, the MTU of the path is smaller than that of the interfaces: lower "       \
    "theirs, "                                                                                     \
    "or set net.ipv4.tcp_mtu_probing=1"
enum { RCMI_STALL_TEXT = 224 };
void rcmi_socket_describe_stall(int fd, char text[RCMI_STALL_TEXT]);

/* Sends 1 to 4096 bytes and nfds descriptors (at most 4) over a Unix stream socket in one message,
 * whole or not at all; or receives up to that. RCM_OK, RCM_AGAIN or an error. The caller owns
 * received descriptors, which are O_CLOEXEC; *ret_nfds is their number. More than max_fds:
 * RCM_ERR_PROTOCOL, and none is kept. A receive may get a part of the bytes; descriptors come with
 * the first of them. */
rcm_status rcmi_send_fds(int sock, const void *buf, size_t len, const int *fds, int nfds);
rcm_status rcmi_recv_fds(int sock, void *buf, size_t len, size_t *ret_len, int *ret_fds,
                         int max_fds, int *ret_nfds);

/* An anonymous shared memory file of len bytes, sealed against shrinking. Its space is reserved
 * (RCM_ERR_RESOURCE if there is not enough). It has no name in any file system. */
rcm_status rcmi_memfd_create(const char *label, size_t len, int *ret_fd);
/* Grows the file and reserves the space. Any holder of a copy may call it; existing maps stay
 * valid. */
rcm_status rcmi_memfd_grow(int fd, size_t old_len, size_t new_len);
/* Maps len bytes from offset 0 read-write and shared. Undo with munmap. */
rcm_status rcmi_memfd_map(int fd, size_t len, void **ret_base);
/* The size of a received descriptor. Fails if it is not sealed against shrinking: access past a
 * shrunk end would raise SIGBUS. */
rcm_status rcmi_memfd_size(int fd, size_t *ret_len);

#endif
