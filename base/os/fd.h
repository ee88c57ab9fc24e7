/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * File descriptors, sockets and shared memory. Everything returned is O_CLOEXEC, sockets are
 * non-blocking; no call raises SIGPIPE; all survive EINTR. Failing calls set the thread's error;
 * RCM_AGAIN does not. socket.c has the sockets, memfd.c the memory, fd.c the rest.
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

/* Descriptors 0 to 2 are the program's, also where it closed them: what is written to stderr must
 * not go into a connection. Whatever makes a descriptor is wrapped: returns fd, or, of one below 3,
 * a copy (close-on-exec) from 3 on and closes fd; -1 stays -1. Keeps errno. */
int rcmi_fd_high(int fd);
/* For reading, likewise. */
FILE *rcmi_fopen(const char *path);
DIR *rcmi_opendir(const char *path);

/* Sockets made by this file (listen, accept, connect) are closed in a child that the process forks:
 * a child that keeps its parent's connections open would hide the parent's death from the others.
 * rcmi_fd_own says so of another one, until rcmi_fd_close. */
void rcmi_fd_own(int fd);

/* Closes *fd if it is >= 0 and sets it to -1; keeps errno. Nothing of ours is closed otherwise. */
void rcmi_fd_close(int *fd);

/* For a thread that has found that somebody else has closed descriptors of the library: their
 * numbers may be others' by now. While it distrusts them, rcmi_fd_close forgets a number and closes
 * nothing. Returns what was before. */
bool rcmi_fd_distrust(bool distrust);
bool rcmi_fd_distrusted(void);

/* How many connections whose other end is not identified yet may be held at a time: a share of the
 * limit of descriptors. */
int rcmi_fd_unidentified(void);

/* RCM_ERR_RESOURCE: fewer than `wanted` descriptors can be had beside those that are open; the text
 * has both numbers and the limit, and begins with `what` ("links by tcp"). At most 256 are tried.
 */
rcm_status rcmi_fd_try(const char *what, int wanted);

/* One read or write of up to len bytes, without SIGPIPE; never blocks on a socket, nor on other
 * descriptors if they are O_NONBLOCK. RCM_OK with *ret_len > 0 (0 only for len 0), RCM_AGAIN if it
 * would block, RCM_ERR_PEER at end of file, reset, or a connection that timed out by itself
 * (origin unknown), else an error. */
rcm_status rcmi_fd_read(int fd, void *buf, size_t len, size_t *ret_len);
rcm_status rcmi_fd_write(int fd, const void *buf, size_t len, size_t *ret_len);
/* The same to a socket, and to nothing else: a number that has become that of a file is an
 * error. */
rcm_status rcmi_fd_send(int fd, const void *buf, size_t len, size_t *ret_len);

/* All of len bytes, polling until the deadline. */
rcm_status rcmi_fd_read_full(int fd, void *buf, size_t len, rcmi_deadline deadline);
rcm_status rcmi_fd_write_full(int fd, const void *buf, size_t len, rcmi_deadline deadline);

/* Waits for poll() events on fd: RCM_OK, RCM_ERR_TIMEOUT, or an error. A hang-up is RCM_OK: the
 * next read or write tells. */
rcm_status rcmi_fd_poll(int fd, short events, rcmi_deadline deadline);

/* An IPv4 or IPv6 socket address with its length, as text "1.2.3.4:567" or "[::1]:567". */
struct rcmi_sockaddr {
    struct sockaddr_storage addr;
    socklen_t len;
};
#define RCMI_ADDR_TEXT 80
const char *rcmi_sockaddr_text(const struct rcmi_sockaddr *addr, char text[RCMI_ADDR_TEXT]);

/* Resolves host (name or number, IPv6 numbers also in brackets) and port to the i-th address;
 * RCM_ERR_NOT_FOUND when there are fewer or no such host. NULL or "": any address, to listen on:
 * the 0th is dual-stack, the 1st IPv4 only (just the latter where there is no IPv6). The one call
 * without a deadline: names that are not numbers or local take as long as the system's resolver
 * is set to try. */
rcm_status rcmi_resolve(const char *host, uint16_t port, size_t i, struct rcmi_sockaddr *ret_addr);

/* Listens on addr (port 0: any free port; fills in the port). SO_REUSEADDR, backlog somaxconn. */
rcm_status rcmi_listen(struct rcmi_sockaddr *addr, int *ret_fd);
/* Listens on the abstract Unix name (no file is made); at most 100 bytes. */
rcm_status rcmi_listen_unix(const char *name, int *ret_fd);

/* Options of every TCP connection: small messages leave at once (TCP_NODELAY), and an idle
 * connection sends something at least every 120 s (SO_KEEPALIVE), so that no firewall forgets it.
 * rcmi_accept and rcmi_connect_start set them. No effect on other sockets. */
void rcmi_socket_prepare(int fd);

/* Accepts one connection; RCM_AGAIN if there is none. */
rcm_status rcmi_accept(int listen_fd, int *ret_fd);

/* Begins a connection; it is up when the fd polls writable and rcmi_connect_result says RCM_OK
 * (RCM_AGAIN: not yet). Nobody listening is RCM_ERR_PEER, from either call; a Unix listener whose
 * queue is full is RCM_AGAIN: begin again later. */
rcm_status rcmi_connect_start(const struct rcmi_sockaddr *addr, int *ret_fd);
rcm_status rcmi_connect_start_unix(const char *name, int *ret_fd);
rcm_status rcmi_connect_result(int fd);

/* After a cut of the network, lost packets of this TCP connection shall be sent again soon. Where
 * the kernel can be told (Linux 6.15), its attempts are about a second apart, as close together as
 * lets it go on for longer than patience_ms; else the pause may grow to the length of the cut. */
void rcmi_socket_resend_soon(int fd, int64_t patience_ms);

/* Of a connection that stands still: "" or " (why)", where the kernel's counts show that long
 * packets are lost. Keeps errno. */
#define RCMI_STALL_MTU                                                                             \
    "if short ones pass, the MTU of the path is smaller than that of the interfaces: lower "       \
    "theirs, "                                                                                     \
    "or set net.ipv4.tcp_mtu_probing=1"
enum { RCMI_STALL_TEXT = 224 };
void rcmi_socket_describe_stall(int fd, char text[RCMI_STALL_TEXT]);

/* Sends 1 to 4096 bytes and nfds descriptors (at most 4) over a Unix stream socket in one message,
 * whole or not at all, or receives up to that: RCM_OK, RCM_AGAIN or an error. A received
 * descriptor is the caller's and O_CLOEXEC; *ret_nfds says how many came; more than max_fds is
 * RCM_ERR_PROTOCOL and none is kept. A receive may get a part of the bytes; descriptors come with
 * the first of them. */
rcm_status rcmi_send_fds(int sock, const void *buf, size_t len, const int *fds, int nfds);
rcm_status rcmi_recv_fds(int sock, void *buf, size_t len, size_t *ret_len, int *ret_fds,
                         int max_fds, int *ret_nfds);

/* An anonymous shared memory file of len bytes, space reserved (RCM_ERR_RESOURCE if there is not
 * enough), sealed against shrinking. No name in any file system. */
rcm_status rcmi_memfd_create(const char *label, size_t len, int *ret_fd);
/* Grows it, space reserved. Any holder of a copy may; existing maps stay and stay valid. */
rcm_status rcmi_memfd_grow(int fd, size_t old_len, size_t new_len);
/* Maps len bytes from offset 0 read-write and shared. Undo with munmap. */
rcm_status rcmi_memfd_map(int fd, size_t len, void **ret_base);
/* The size of a descriptor that came from elsewhere; fails if it is not sealed against shrinking
 * (access past a shrunk end would be SIGBUS). */
rcm_status rcmi_memfd_size(int fd, size_t *ret_len);

#endif
