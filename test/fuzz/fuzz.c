/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the fuzz targets: see fuzz.h. */
#include "fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum fuzz_verdict fuzz_verdict;

/* Silences the library's warnings about bad peers, which would come a million times a minute. */
__attribute__((constructor)) static void fuzz_quiet(void) {
    setenv("RINGCOMM_LOG", "error", 1);
}

void fuzz_require(bool holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

void fuzz_judge(rcm_status status) {
    fuzz_require(strcmp(rcm_status_name(status), "RCM_?") != 0, "a status is one of ours");
    fuzz_require(status >= 0 || rcm_last_error()[0] != '\0', "an error has a sentence");
    fuzz_verdict = status == RCM_OK ? FUZZ_ACCEPTED : status < 0 ? FUZZ_REFUSED : FUZZ_UNKNOWN;
}

/* ---- Scripts ------------------------------------------------------------------------------- */

const uint8_t *fuzz_bytes(struct fuzz_input *in, size_t len, size_t *ret_len) {
    const uint8_t *at = in->data;
    *ret_len = len < in->left ? len : in->left;
    if (*ret_len) {
        in->data += *ret_len;
        in->left -= *ret_len;
    }
    return at;
}

uint8_t fuzz_u8(struct fuzz_input *in) {
    size_t n;
    const uint8_t *at = fuzz_bytes(in, 1, &n);
    return n ? *at : 0;
}

uint16_t fuzz_u16(struct fuzz_input *in) {
    uint8_t low = fuzz_u8(in);
    return (uint16_t)(low | fuzz_u8(in) << 8);
}

/* Not strndup: a strict address sanitizer requires a zero in its source. */
char *fuzz_text(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    fuzz_require(text != NULL, "there is memory");
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    return text;
}

/* ---- Descriptors --------------------------------------------------------------------------- */

void fuzz_socketpair(int ret_fds[2]) {
    int failed = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ret_fds);
    fuzz_require(!failed, "a pair of sockets can be made");
}

size_t fuzz_write(int fd, const void *bytes, size_t len) {
    ssize_t n = len ? send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
    return n > 0 ? (size_t)n : 0;
}

size_t fuzz_drain(int fd) {
    static uint8_t away[65536];
    size_t total = 0;
    ssize_t n;
    while ((n = recv(fd, away, sizeof away, MSG_DONTWAIT)) > 0)
        total += (size_t)n;
    return total;
}

int fuzz_file(const void *bytes, size_t len, char *ret_path) {
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    bool filled =
        fd >= 0 && ftruncate(fd, 0) == 0 && (len == 0 || pwrite(fd, bytes, len, 0) == (ssize_t)len);
    fuzz_require(filled, "a file can be made");
    snprintf(ret_path, 32, "/proc/self/fd/%d", fd);
    return fd;
}
