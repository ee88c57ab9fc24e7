/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fuzz targets share. A target is one file with one function, LLVMFuzzerTestOneInput,
 * which gives bytes to one decoder. With -Dfuzz=true it is linked with libFuzzer; in every build it
 * is also linked with replay.c, which gives it the seeds of corpus/TARGET/ as a normal test.
 */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "ringcomm.h"

/* What the decoder thought of the last input, as far as the target can tell. */
enum fuzz_verdict { FUZZ_UNTOLD, FUZZ_ACCEPTED, FUZZ_REFUSED };
extern enum fuzz_verdict fuzz_verdict;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Something that must hold whatever the input was. */
void fuzz_require(bool holds, const char *what);

/* Sets the verdict from a status that the decoder returned, and requires that it is one of ours and
 * that an error has a sentence. */
void fuzz_judge(rcm_status status);

/* The input as a script: small numbers and pieces of bytes; zeros and nothing after its end. */
struct fuzz_input {
    const uint8_t *data;
    size_t left;
};
uint8_t fuzz_u8(struct fuzz_input *in);
uint16_t fuzz_u16(struct fuzz_input *in);
/* Up to len bytes; *ret_len says how many there were. */
const uint8_t *fuzz_bytes(struct fuzz_input *in, size_t len, size_t *ret_len);

/* The bytes up to the first zero as a string of the heap; the caller frees. */
char *fuzz_text(const uint8_t *data, size_t size);

/* A connected pair of non-blocking stream sockets, as TCP would be. */
void fuzz_socketpair(int ret_fds[2]);
/* Writes as much as the socket takes, and reads away what is there; both ignore errors. */
size_t fuzz_write(int fd, const void *bytes, size_t len);
size_t fuzz_drain(int fd);
/* A file without a name that holds these bytes; `path` (32 bytes) leads to it. One per process,
 * refilled by each call. */
int fuzz_file(const void *bytes, size_t len, char *ret_path);

#endif
