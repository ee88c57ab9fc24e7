/* SPDX-License-Identifier: BSD-3-Clause */
/* The client of PMI-1; the protocol is in pmi1.h. */
#include "pmi1.h"
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "error.h"
#include "fd.h"
#include "url.h"

/* ---- Lines --------------------------------------------------------------------------------- */

/* Reads one line into pmi->line, byte by byte: the bytes after it may be for another reader of this
 * socket, an MPI library in the same process. */
static rcm_status line_read(struct rcmi_pmi1 *pmi, rcmi_deadline deadline) {
    for (size_t n = 0; n < sizeof pmi->line;) {
        size_t got = 0;
        rcm_status status = rcmi_fd_read(pmi->fd, &pmi->line[n], 1, &got);
        if (status == RCM_AGAIN)
            status = rcmi_fd_poll(pmi->fd, POLLIN, deadline);
        if (status != RCM_OK)
            return status;
        if (got > 0 && pmi->line[n] == '\0')
            return rcmi_fail(RCM_ERR_PROTOCOL, 0, "the reply contains a NUL byte");
        if (got > 0 && pmi->line[n] == '\n') {
            pmi->line[n] = '\0';
            return RCM_OK;
        }
        n += got;
    }
    return rcmi_fail(RCM_ERR_PROTOCOL, 0, "the reply is longer than %d bytes", RCMI_PMI1_LINE);
}

/* The text after "name=" in the reply, up to a blank; NULL if there is no such field. */
static const char *field_find(const struct rcmi_pmi1 *pmi, const char *name, size_t *ret_len) {
    size_t len = strlen(name);
    for (const char *at = pmi->line; *at;) {
        size_t token = strcspn(at, " ");
        if (token > len && strncmp(at, name, len) == 0 && at[len] == '=') {
            *ret_len = token - len - 1;
            return at + len + 1;
        }
        at += token + strspn(at + token, " ");
    }
    return NULL;
}

static bool field_is(const struct rcmi_pmi1 *pmi, const char *name, const char *value) {
    size_t len;
    const char *field = field_find(pmi, name, &len);
    return field && len == strlen(value) && memcmp(field, value, len) == 0;
}

static rcm_status field_copy(const struct rcmi_pmi1 *pmi, const char *name, char *ret, size_t cap) {
    size_t len;
    const char *field = field_find(pmi, name, &len);
    if (!field || len + 1 > cap)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "the PMI reply \"%.100s\" has %s %s", pmi->line,
                         field ? "too long a" : "no", name);
    memcpy(ret, field, len);
    ret[len] = '\0';
    return RCM_OK;
}

static rcm_status field_number(const struct rcmi_pmi1 *pmi, const char *name, int *ret) {
    char text[24];
    int64_t number;
    rcm_status status = field_copy(pmi, name, text, sizeof text);
    if (status != RCM_OK)
        return status;
    if (rcmi_parse_number(text, 1, 1 << 30, &number) != RCM_OK)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0, "the PMI reply \"%.100s\" has a wrong %s", pmi->line,
                         name);
    *ret = (int)number;
    return RCM_OK;
}

/* ---- Requests ------------------------------------------------------------------------------ */

/* Sends the formatted line and reads the reply, whose cmd must be `expected`. */
static rcm_status __attribute__((format(printf, 4, 5)))
pmi_request(struct rcmi_pmi1 *pmi, rcmi_deadline deadline, const char *expected, const char *format,
            ...) {
    va_list args;
    if (pmi->broken)
        return rcmi_fail(RCM_ERR_PROTOCOL, 0,
                         "the PMI connection is unusable after an earlier failure");
    va_start(args, format);
    int len = vsnprintf(pmi->line, sizeof pmi->line, format, args);
    va_end(args);
    if (len < 0 || len >= (int)sizeof pmi->line)
        return rcmi_fail(RCM_ERR_INVALID, 0, "a PMI request of %d bytes is too long", len);
    rcm_status status = rcmi_fd_write_full(pmi->fd, pmi->line, (size_t)len, deadline);
    if (status == RCM_OK)
        status = line_read(pmi, deadline);
    if (status == RCM_OK && !field_is(pmi, "cmd", expected))
        status = rcmi_fail(RCM_ERR_PROTOCOL, 0, "PMI replied \"%.100s\" instead of cmd=%s",
                           pmi->line, expected);
    pmi->broken = status != RCM_OK;
    return status == RCM_OK
               ? RCM_OK
               : rcmi_fail_context("PMI (descriptor %d), waiting for %s", pmi->fd, expected);
}

rcm_status rcmi_pmi1_init(struct rcmi_pmi1 *pmi, int fd, rcmi_deadline deadline) {
    pmi->fd = fd;
    pmi->broken = false;
    rcm_status status =
        pmi_request(pmi, deadline, "response_to_init", "cmd=init pmi_version=1 pmi_subversion=1\n");
    if (status == RCM_OK && !field_is(pmi, "rc", "0"))
        status = rcmi_fail(RCM_ERR_UNSUPPORTED, 0,
                           "the process manager does not support PMI 1.1: \"%.100s\"", pmi->line);
    if (status == RCM_OK)
        status = pmi_request(pmi, deadline, "maxes", "cmd=get_maxes\n");
    if (status == RCM_OK)
        status = field_number(pmi, "keylen_max", &pmi->key_max);
    if (status == RCM_OK)
        status = field_number(pmi, "vallen_max", &pmi->val_max);
    if (status == RCM_OK)
        status = pmi_request(pmi, deadline, "my_kvsname", "cmd=get_my_kvsname\n");
    if (status == RCM_OK)
        status = field_copy(pmi, "kvsname", pmi->kvsname, sizeof pmi->kvsname);
    pmi->broken |= status != RCM_OK;
    return status;
}

/* Checks that the word is short enough and has no blanks: the protocol has no quoting. */
static rcm_status word_check(const char *what, const char *word, int max) {
    size_t len = strlen(word);
    if (len == 0 || strpbrk(word, " \t\r\n"))
        return rcmi_fail(RCM_ERR_INVALID, 0, "PMI %s \"%.100s\" is empty or contains a blank", what,
                         word);
    if (len >= (size_t)max)
        return rcmi_fail(RCM_ERR_INVALID, 0, "PMI %s \"%.40s...\" has %zu bytes, at most %d", what,
                         word, len, max - 1);
    return RCM_OK;
}

rcm_status rcmi_pmi1_put(struct rcmi_pmi1 *pmi, const char *key, const char *value,
                         rcmi_deadline deadline) {
    rcm_status status = word_check("key", key, pmi->key_max);
    if (status == RCM_OK)
        status = word_check("value", value, pmi->val_max);
    if (status == RCM_OK)
        status = pmi_request(pmi, deadline, "put_result", "cmd=put kvsname=%s key=%s value=%s\n",
                             pmi->kvsname, key, value);
    if (status == RCM_OK && !field_is(pmi, "rc", "0"))
        status = rcmi_fail(RCM_ERR_SYSTEM, 0, "PMI rejected key %s: \"%.100s\"", key, pmi->line);
    return status;
}

rcm_status rcmi_pmi1_get(struct rcmi_pmi1 *pmi, const char *key, rcmi_deadline deadline,
                         char *ret_value, size_t cap) {
    rcm_status status = word_check("key", key, pmi->key_max);
    if (status == RCM_OK)
        status = pmi_request(pmi, deadline, "get_result", "cmd=get kvsname=%s key=%s\n",
                             pmi->kvsname, key);
    if (status == RCM_OK && !field_is(pmi, "rc", "0"))
        return rcmi_fail(RCM_ERR_NOT_FOUND, 0, "PMI has no key %s: \"%.100s\"", key, pmi->line);
    return status == RCM_OK ? field_copy(pmi, "value", ret_value, cap) : status;
}

rcm_status rcmi_pmi1_barrier(struct rcmi_pmi1 *pmi, rcmi_deadline deadline) {
    return pmi_request(pmi, deadline, "barrier_out", "cmd=barrier_in\n");
}

rcm_status rcmi_pmi1_finalize(struct rcmi_pmi1 *pmi, rcmi_deadline deadline) {
    static const char line[] = "cmd=finalize\n";
    if (pmi->broken) /* no reply is read: it could belong to another request */
        return rcmi_fd_write_full(pmi->fd, line, sizeof line - 1, deadline);
    return pmi_request(pmi, deadline, "finalize_ack", "%s", line);
}
