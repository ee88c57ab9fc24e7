/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared memory without a name. The pages are reserved at creation, so that a full machine causes
 * an error then and not a SIGBUS later. The file cannot shrink, for the same reason.
 */
#include "fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "error.h"
#include "memory_check.h"
#include "sigpipe.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3 */
#endif

/* Bytes reserved per call: a signal that arrives meanwhile undoes one piece only. */
static const size_t reserve_piece = (size_t)64 << 20;

static rcm_status memfd_reserve(int fd, size_t from, size_t to) {
    /* Anonymous shared memory has no limit of its own: without this check, too large a request
     * would not fail but trigger the out-of-memory killer. */
    rcm_status room = rcmi_memory_check(to - from);
    if (room != RCM_OK)
        return room;
    while (from < to) {
        size_t piece = to - from < reserve_piece ? to - from : reserve_piece;
        if (rcmi_fallocate_nosignal(fd, (int64_t)from, (int64_t)piece) == 0) {
            from += piece;
        } else if (errno != EINTR) {
            rcm_status status = errno == ENOSPC || errno == ENOMEM || errno == EFBIG
                                    ? RCM_ERR_RESOURCE
                                    : rcmi_status_of_errno(errno);
            return rcmi_fail(status, errno, "cannot reserve %zu bytes of shared memory", to);
        }
    }
    return RCM_OK;
}

static int memfd_open(const char *label) {
    /* Kernels may be configured to reject memory files that could be executed. Older kernels lack
     * the flag that makes this one non-executable. */
    int fd = rcmi_fd_high(memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));
    if (fd < 0 && errno == EINVAL)
        fd = rcmi_fd_high(memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    return fd;
}

rcm_status rcmi_memfd_create(const char *label, size_t len, int *ret_fd) {
    if (len == 0 || len > (size_t)INT64_MAX)
        return rcmi_fail(RCM_ERR_INVALID, 0, "cannot make a shared memory file of %zu bytes", len);
    int fd = memfd_open(label);
    if (fd < 0)
        return rcmi_fail(rcmi_status_of_errno(errno), errno, "cannot make shared memory '%s'",
                         label);
    rcm_status status = memfd_reserve(fd, 0, len);
    if (status != RCM_OK)
        goto fail;
    /* F_SEAL_SEAL: no holder of a copy can forbid growing or writing later. */
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
        status = rcmi_fail(RCM_ERR_SYSTEM, errno, "cannot seal shared memory '%s'", label);
        goto fail;
    }
    *ret_fd = fd;
    return RCM_OK;
fail:
    rcmi_fd_close(&fd);
    return status;
}

rcm_status rcmi_memfd_grow(int fd, size_t old_len, size_t new_len) {
    if (new_len < old_len || new_len > (size_t)INT64_MAX)
        return rcmi_fail(RCM_ERR_INVALID, 0, "shared memory cannot grow from %zu to %zu bytes",
                         old_len, new_len);
    return memfd_reserve(fd, old_len, new_len);
}

rcm_status rcmi_memfd_map(int fd, size_t len, void **ret_base) {
    void *base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED)
        return rcmi_fail(rcmi_status_of_errno(errno), errno,
                         "cannot map %zu bytes of shared memory (descriptor %d)", len, fd);
    *ret_base = base;
    return RCM_OK;
}

rcm_status rcmi_memfd_size(int fd, size_t *ret_len) {
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return rcmi_fail(RCM_ERR_PROTOCOL, seals < 0 ? errno : 0,
                         "descriptor %d is not shared memory sealed against shrinking", fd);
    struct stat info;
    if (fstat(fd, &info) != 0)
        return rcmi_fail(rcmi_status_of_errno(errno), errno, "cannot stat descriptor %d", fd);
    *ret_len = (size_t)info.st_size;
    return RCM_OK;
}
