/* SPDX-License-Identifier: BSD-3-Clause */
/* See nccl_errors.h. */
#include "nccl_errors.h"
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include "nccl_comm.h"

enum { TEXT_BYTES = 640 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char last_text[TEXT_BYTES];

ncclResult_t face_fail(ncclResult_t result, const char *format, ...) {
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&lock);
    memcpy(last_text, text, sizeof text);
    pthread_mutex_unlock(&lock);
    return result;
}

ncclResult_t face_number(rcm_status status) {
    switch (status) {
#define CASE(status, result)                                                                       \
    case status:                                                                                   \
        return result;
        STATUS_MAP(CASE)
#undef CASE
    default:
        return ncclInternalError;
    }
}

ncclResult_t face_result(rcm_status status, const char *what) {
    const ncclResult_t result = face_number(status);
    if (result == ncclSuccess || result == ncclInProgress)
        return result;
    return face_fail(result, "%s: %s", what, rcm_last_error());
}

NCCL_API(const char *, ncclGetErrorString)(ncclResult_t result) {
    static const char *const texts[] = {
#define TEXT(name, number, text) [number] = (text),
        NCCL_RESULT_MAP(TEXT)
#undef TEXT
    };
    return (size_t)result < sizeof texts / sizeof texts[0] ? texts[result] : "an unknown result";
}

/* A communicator's own error comes first. The text is valid until this thread's next call. */
NCCL_API(const char *, ncclGetLastError)(ncclComm_t comm) {
    static _Thread_local char text[TEXT_BYTES];
    if (comm && comm_error_text(comm, text, sizeof text))
        return text;
    pthread_mutex_lock(&lock);
    memcpy(text, last_text, sizeof text);
    pthread_mutex_unlock(&lock);
    return text;
}
