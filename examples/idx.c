/* SPDX-License-Identifier: BSD-3-Clause */
/* The IDX reader; zlib's gzFile reads plain files as well. See idx.h. */
#include "idx.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define IDX_MAX_PATH 4096

struct reader {
    gzFile file;
    char path[IDX_MAX_PATH];
    char *error;
    size_t error_len;
};

__attribute__((format(printf, 2, 3))) static int reader_fail(struct reader *reader,
                                                             const char *format, ...) {
    va_list args;
    int used = snprintf(reader->error, reader->error_len, "%s: ", reader->path);
    if (used >= 0 && (size_t)used < reader->error_len) {
        va_start(args, format);
        vsnprintf(reader->error + used, reader->error_len - (size_t)used, format, args);
        va_end(args);
    }
    return -1;
}

static int reader_open(struct reader *reader, const char *path) {
    int used = snprintf(reader->path, sizeof reader->path, "%s", path);
    if (used < 0 || (size_t)used + 4 > sizeof reader->path)
        return reader_fail(reader, "the name is too long");
    if (access(path, F_OK) != 0) {
        strcat(reader->path, ".gz");
        if (access(reader->path, F_OK) != 0) {
            strcpy(reader->path, path);
            return reader_fail(reader, "neither this file nor the same with .gz exists");
        }
    }
    errno = 0;
    reader->file = gzopen(reader->path, "rbe");
    if (!reader->file)
        return reader_fail(reader, "cannot open: %s", errno ? strerror(errno) : "out of memory");
    return 0;
}

/* zlib's error text, without the file name that zlib puts before most texts. */
static const char *reader_reason(struct reader *reader, int *ret_code) {
    const char *text = gzerror(reader->file, ret_code);
    const size_t len = strlen(reader->path);
    if (strncmp(text, reader->path, len) == 0 && strncmp(text + len, ": ", 2) == 0)
        return text + len + 2;
    return text;
}

/* Up to len bytes (at most 2^30), fewer only at the end of the file. */
static int reader_get(struct reader *reader, void *buf, size_t len, size_t *ret_got) {
    int code, got = gzread(reader->file, buf, (unsigned)len);
    const char *text = reader_reason(reader, &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END))
        return reader_fail(reader, code == Z_ERRNO ? "cannot read: %s" : "damaged data: %s", text);
    *ret_got = (size_t)got;
    return 0;
}

/* One number of the header, big-endian. */
static int reader_number(struct reader *reader, const char *what, uint32_t *ret_number) {
    uint8_t b[4];
    size_t got = 0;
    if (reader_get(reader, b, sizeof b, &got) < 0)
        return -1;
    if (got < sizeof b)
        return reader_fail(reader, "truncated: the file ends within %s", what);
    *ret_number = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    return 0;
}

static int reader_header(struct reader *reader, int ndims, struct idx *idx) {
    const uint32_t wanted = 0x800u + (uint32_t)ndims;
    uint32_t magic = 0;
    if (reader_number(reader, "the magic number", &magic) < 0)
        return -1;
    if (magic != wanted)
        return reader_fail(reader, "the magic number is 0x%08x instead of 0x%08x (bytes, %d dims)",
                           magic, wanted, ndims);
    idx->len = 1;
    for (int d = 0; d < ndims; d++) {
        if (reader_number(reader, "the sizes", &idx->dims[d]) < 0)
            return -1;
        if (idx->dims[d] == 0 || idx->dims[d] > IDX_MAX_BYTES / idx->len)
            return reader_fail(reader, "dimension %d has the size %u, which is too %s", d,
                               idx->dims[d], idx->dims[d] ? "large" : "small");
        idx->len *= idx->dims[d];
    }
    return 0;
}

/* The buffer grows with the bytes of the file, so a damaged header with a size of gigabytes costs
 * nothing. The read past the end makes zlib compare the checksum. */
static int reader_body(struct reader *reader, struct idx *idx) {
    const size_t piece = (size_t)16 << 20;
    size_t have = 0, got = 0;
    do {
        size_t want = idx->len - have < piece ? idx->len - have : piece;
        uint8_t *data = realloc(idx->data, have + want);
        if (!data)
            return reader_fail(reader, "no memory for %zu bytes", idx->len);
        idx->data = data;
        if (reader_get(reader, data + have, want, &got) < 0)
            return -1;
        have += got;
    } while (got > 0 && have < idx->len);
    if (have < idx->len)
        return reader_fail(reader, "truncated: %zu bytes of data instead of %zu", have, idx->len);
    uint8_t more;
    if (reader_get(reader, &more, 1, &got) < 0)
        return -1;
    if (got > 0)
        return reader_fail(reader, "has more than the %zu bytes its header announces", idx->len);
    return 0;
}

int idx_read(const char *path, int ndims, struct idx *ret_idx, char *error, size_t error_len) {
    struct reader reader = {.error = error, .error_len = error_len};
    struct idx idx = {0};
    int result = -1;
    if (ndims < 1 || ndims > IDX_MAX_DIMS)
        return reader_fail(&reader, "%d dimensions are not supported", ndims);
    if (reader_open(&reader, path) < 0)
        return -1;
    if (reader_header(&reader, ndims, &idx) == 0 && reader_body(&reader, &idx) == 0) {
        *ret_idx = idx;
        result = 0;
    } else {
        free(idx.data);
    }
    gzclose(reader.file);
    return result;
}

void idx_free(struct idx *idx) {
    free(idx->data);
    *idx = (struct idx){0};
}
