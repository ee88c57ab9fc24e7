/* SPDX-License-Identifier: BSD-3-Clause */
/* What the store tests share: comparison of statuses by name, stores of every kind, raw sockets. */
#ifndef STORE_CHECK_H
#define STORE_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include "ringcomm.h"

/* Compares strings, so that a failure shows the names. */
#define check_status(expected, call)                                                               \
    assert_string_equal(rcm_status_name(expected), rcm_status_name(call))
#define check_ok(call)                                                                             \
    do {                                                                                           \
        rcm_status check_ok_status = (call);                                                       \
        if (check_ok_status != RCM_OK)                                                             \
            fail_msg("%s: %s", rcm_status_name(check_ok_status), rcm_last_error());                \
    } while (0)
#define check_error_names(part)                                                                    \
    do {                                                                                           \
        if (!strstr(rcm_last_error(), part))                                                       \
            fail_msg("the error does not name \"%s\": %s", part, rcm_last_error());                \
    } while (0)

double seconds_now(void);
void sleep_ms(int ms);

/* A path in a new temporary folder; remove_path removes both. */
char *fresh_path(void);
void remove_path(char *path);

/* Value of key as a NUL-terminated string; the caller frees. */
char *get_text(rcm_store *store, const char *key);
/* Port at the end of a URL tcp://host:port. */
int url_port(const char *url);

/* ---- Raw sockets --------------------------------------------------------------------------- */

/* Connects to 127.0.0.1:port; blocking, with a timeout of 10 s in reads and writes. */
int raw_connect(int port);
void raw_send(int fd, const void *data, size_t len);
/* Fails the test unless exactly these bytes arrive. */
void raw_expect(int fd, const void *data, size_t len);
/* Whether the peer closes the connection within so many ms; skips what it sends before. */
bool raw_closed_within(int fd, int ms);
/* Whether nothing arrives for so many ms. */
bool raw_silent_for(int fd, int ms);

#endif
