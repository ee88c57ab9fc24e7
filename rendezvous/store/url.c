/* SPDX-License-Identifier: BSD-3-Clause */
/* The parser of store URLs. */
#include "url.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "error.h"

#define MAX_RANKS 1000000 /* far above any real job, to detect typing errors */

rcm_status rcmi_parse_number(const char *text, int64_t min, int64_t max, int64_t *ret_value) {
    char *end;
    /* strtoll skips leading blanks and accepts "+1"; both are errors in a URL or a variable. */
    if (!(text[0] >= '0' && text[0] <= '9') && text[0] != '-')
        return RCM_ERR_INVALID;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < min || value > max)
        return RCM_ERR_INVALID;
    *ret_value = value;
    return RCM_OK;
}

void rcmi_url_fini(struct rcmi_url *url) {
    free(url->host);
    free(url->path);
    url->host = url->path = NULL;
}

bool rcmi_url_host_ok(const char *host) {
    for (const unsigned char *c = (const unsigned char *)host; *c; c++)
        if (*c <= ' ' || *c == 0x7f || strchr("/?#@[]", *c))
            return false;
    return true;
}

char *rcmi_url_tcp(const char *host, int port) {
    char *text;
    const char *form = strchr(host, ':') ? "tcp://[%s]:%d" : "tcp://%s:%d";
    return asprintf(&text, form, host, port) < 0 ? NULL : text;
}

/* Stores one "name=value"; the same name twice is an error, whatever the values. */
static rcm_status url_parameter(const char *text, const char *name, const char *value,
                                struct rcmi_url *url) {
    static const struct {
        const char *name;
        int64_t min, max;
        int unset;
    } known[] = {
        {"rank", 0, MAX_RANKS - 1, -1}, {"world_size", 1, MAX_RANKS, 0}, {"server", 0, 1, -1}};
    int *const slots[] = {&url->rank, &url->world_size, &url->server};
    int64_t number;

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(name, known[i].name) != 0)
            continue;
        if (*slots[i] != known[i].unset)
            return rcmi_fail(RCM_ERR_INVALID, 0, "store URL \"%s\" gives %s twice", text, name);
        if (rcmi_parse_number(value, known[i].min, known[i].max, &number) != RCM_OK)
            return rcmi_fail(RCM_ERR_INVALID, 0,
                             "store URL \"%s\": %s=%s is not a number from %lld to %lld", text,
                             name, value, (long long)known[i].min, (long long)known[i].max);
        *slots[i] = (int)number;
        return RCM_OK;
    }
    return rcmi_fail(RCM_ERR_INVALID, 0,
                     "store URL \"%s\": unknown parameter \"%s\" (known: rank, world_size, server)",
                     text, name);
}

static rcm_status url_query(const char *text, char *query, struct rcmi_url *url) {
    char *save = NULL;
    for (char *item = strtok_r(query, "&", &save); item; item = strtok_r(NULL, "&", &save)) {
        char *eq = strchr(item, '=');
        if (!eq)
            return rcmi_fail(RCM_ERR_INVALID, 0, "store URL \"%s\": \"%s\" is not name=value", text,
                             item);
        *eq = '\0';
        rcm_status status = url_parameter(text, item, eq + 1, url);
        if (status != RCM_OK)
            return status;
    }
    if (url->rank >= 0 && url->world_size > 0 && url->rank >= url->world_size)
        return rcmi_fail(RCM_ERR_INVALID, 0, "store URL \"%s\": rank %d is not below world_size %d",
                         text, url->rank, url->world_size);
    return RCM_OK;
}

/* host:port, [v6]:port or :port. */
static rcm_status url_authority(const char *text, char *authority, struct rcmi_url *url) {
    char *host = authority, *colon;
    int64_t port;

    if (host[0] == '[') {
        char *close = strchr(host, ']');
        if (!close)
            return rcmi_fail(RCM_ERR_INVALID, 0, "store URL \"%s\": no ']' after '['", text);
        host++;
        *close = '\0';
        colon = close + 1;
    } else {
        colon = strrchr(host, ':');
        if (colon && strchr(host, ':') != colon)
            return rcmi_fail(RCM_ERR_INVALID, 0,
                             "store URL \"%s\": write an IPv6 address in brackets, "
                             "tcp://[::1]:29500",
                             text);
    }
    if (!colon || *colon != ':')
        return rcmi_fail(RCM_ERR_INVALID, 0, "store URL \"%s\" has no port; write tcp://host:port",
                         text);
    *colon = '\0';
    if (!rcmi_url_host_ok(host))
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "store URL \"%s\": \"%s\" is not a host name or address", text, host);
    if (rcmi_parse_number(colon + 1, 0, 65535, &port) != RCM_OK)
        return rcmi_fail(RCM_ERR_INVALID, 0,
                         "store URL \"%s\": port \"%s\" is not a number from 0 to 65535", text,
                         colon + 1);
    url->port = (int)port;
    url->host = strdup(host);
    return url->host ? RCM_OK : rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a URL");
}

static rcm_status url_path(const char *path, struct rcmi_url *url) {
    url->path = strdup(path);
    return url->path ? RCM_OK : rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a URL");
}

/* Parses the part between the scheme and the query. */
static rcm_status url_rest(const char *text, char *rest, struct rcmi_url *url) {
    size_t len = strlen(rest);
    switch (url->scheme) {
    case RCMI_SCHEME_TCP:
        if (len > 0 && rest[len - 1] == '/')
            rest[len - 1] = '\0';
        return url_authority(text, rest, url);
    case RCMI_SCHEME_FILE:
        if (rest[0] != '/' || rest[1] == '\0')
            return rcmi_fail(RCM_ERR_INVALID, 0,
                             "store URL \"%s\" has no absolute path; write file:///path", text);
        return url_path(rest, url);
    case RCMI_SCHEME_HASH:
        return url_path(rest, url);
    case RCMI_SCHEME_ENV:
        if (len > 0)
            return rcmi_fail(RCM_ERR_INVALID, 0,
                             "store URL \"%s\": env:// takes only ?rank= and world_size=", text);
        return RCM_OK;
    }
    return RCM_OK;
}

rcm_status rcmi_url_parse(const char *text, struct rcmi_url *ret_url) {
    static const struct {
        const char *prefix;
        enum rcmi_scheme scheme;
    } schemes[] = {{"tcp://", RCMI_SCHEME_TCP},
                   {"file://", RCMI_SCHEME_FILE},
                   {"env://", RCMI_SCHEME_ENV},
                   {"hash:", RCMI_SCHEME_HASH}};
    struct rcmi_url url = {.rank = -1, .server = -1};
    size_t i, n = sizeof schemes / sizeof schemes[0];

    for (i = 0; i < n && strncmp(text, schemes[i].prefix, strlen(schemes[i].prefix)) != 0; i++)
        ;
    if (i == n)
        return rcmi_fail(
            RCM_ERR_INVALID, 0,
            "store URL \"%s\" begins with none of tcp://, file://, env://, hash:", text);
    url.scheme = schemes[i].scheme;
    char *copy = strdup(text + strlen(schemes[i].prefix));
    if (!copy)
        return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for a URL");
    char *query = strchr(copy, '?');
    if (query)
        *query++ = '\0';
    rcm_status status = url_rest(text, copy, &url);
    if (status == RCM_OK && query)
        status = url_query(text, query, &url);
    free(copy);
    if (status == RCM_OK)
        *ret_url = url;
    else
        rcmi_url_fini(&url);
    return status;
}
