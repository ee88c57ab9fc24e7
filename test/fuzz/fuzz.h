/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the fuzz targets. A target is one file with one function, LLVMFuzzerTestOneInput, which
 * passes bytes to one decoder. With -Dfuzz=true it is linked with libFuzzer; in every build it is
 * also linked with replay.c, which runs it on the seeds of corpus/TARGET/ as a normal test.
 */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ringcomm.h"

/* The decoder's verdict on the last input, as far as the target can determine it. */
enum fuzz_verdict { FUZZ_UNKNOWN, FUZZ_ACCEPTED, FUZZ_REFUSED };
extern enum fuzz_verdict fuzz_verdict;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A condition that must hold for every input. */
void fuzz_require(bool holds, const char *what);

/* Sets the verdict from a status of the decoder; requires a known status, and an error text with an
 * error. */
void fuzz_judge(rcm_status status);

/* The input as a script: small numbers and pieces of bytes; zeros and nothing after its end. */
struct fuzz_input {
    const uint8_t *data;
    size_t left;
};
uint8_t fuzz_u8(struct fuzz_input *in);
uint16_t fuzz_u16(struct fuzz_input *in);
/* Up to len bytes; stores the number in *ret_len. */
const uint8_t *fuzz_bytes(struct fuzz_input *in, size_t len, size_t *ret_len);

/* The bytes up to the first zero as an allocated string; the caller frees. */
char *fuzz_text(const uint8_t *data, size_t size);

/* A connected pair of non-blocking stream sockets, like a TCP connection. */
void fuzz_socketpair(int ret_fds[2]);
/* Writes as much as the socket accepts; reads and drops what is there. Both ignore errors. */
size_t fuzz_write(int fd, const void *bytes, size_t len);
size_t fuzz_drain(int fd);
/* An anonymous file with these bytes; `path` (32 bytes) opens it. One per process, refilled by each
 * call. */
int fuzz_file(const void *bytes, size_t len, char *ret_path);

#endif
