/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Store URLs: scheme, host, port, path and the query parameters rank, world_size and server.
 *
 *   hash:NAME   file:///path?rank=R&world_size=N   tcp://host:port?rank=R&world_size=N&server=0|1
 *   tcp://[::1]:29500   env://
 */
#ifndef RCMI_URL_H
#define RCMI_URL_H

#include <stdbool.h>
#include <stdint.h>
#include "ringcomm.h"

enum rcmi_scheme { RCMI_SCHEME_HASH, RCMI_SCHEME_FILE, RCMI_SCHEME_TCP, RCMI_SCHEME_ENV };

struct rcmi_url {
    enum rcmi_scheme scheme;
    char *host;     /* tcp; "" = any address. Without the brackets of an IPv6 number */
    char *path;     /* file: the path; hash: the name, "" = none */
    int port;       /* tcp */
    int rank;       /* -1: not given */
    int world_size; /* 0: not given */
    int server;     /* -1: not given */
};

/* RCM_ERR_INVALID quotes the URL. rcmi_url_fini frees. */
rcm_status rcmi_url_parse(const char *text, struct rcmi_url *ret_url);
void rcmi_url_fini(struct rcmi_url *url);

/* Parses a decimal number in [min, max]; rejects all other characters. */
rcm_status rcmi_parse_number(const char *text, int64_t min, int64_t max, int64_t *ret_value);

/* Whether the text can be a host's name or address, without brackets: it has no character of
 * "/?#@[]", no space and no control character. */
bool rcmi_url_host_ok(const char *host);

/* "tcp://host:port", with brackets around an IPv6 number; malloc'd. */
char *rcmi_url_tcp(const char *host, int port);

#endif
