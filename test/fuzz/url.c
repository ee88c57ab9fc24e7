/* SPDX-License-Identifier: BSD-3-Clause */
/* Fuzz target: store URLs (rendezvous/store/url.c). */
#include "fuzz.h"
#include <stdlib.h>
#include <string.h>
#include "url.h"

static void check_fields(const struct rcmi_url *url) {
    fuzz_require(url->port >= 0 && url->port <= 65535, "a port is one");
    fuzz_require(url->rank >= -1 && url->world_size >= 0, "rank and size are counts");
    fuzz_require(url->rank < 0 || url->world_size == 0 || url->rank < url->world_size,
                 "a rank is below the size");
    fuzz_require(url->server >= -1 && url->server <= 1, "server is yes, no or not given");
    fuzz_require((url->scheme == RCMI_SCHEME_TCP) == (url->host != NULL), "tcp has a host");
    bool path = url->scheme == RCMI_SCHEME_FILE || url->scheme == RCMI_SCHEME_HASH;
    fuzz_require(path == (url->path != NULL), "file and hash have a path");
}

/* A URL that we write parses to the same. Hosts with a bracket or a slash are skipped: they are
 * invalid, and only the resolver rejects them. */
static void check_again(const struct rcmi_url *url) {
    struct rcmi_url again;
    if (url->scheme != RCMI_SCHEME_TCP || strpbrk(url->host, "[]/?"))
        return;
    char *text = rcmi_url_tcp(url->host, url->port);
    fuzz_require(text && rcmi_url_parse(text, &again) == RCM_OK, "our own URL is one");
    fuzz_require(strcmp(again.host, url->host) == 0 && again.port == url->port,
                 "our own URL is the same");
    rcmi_url_fini(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct rcmi_url url;
    char *text = fuzz_text(data, size);
    rcm_status status = rcmi_url_parse(text, &url);
    fuzz_judge(status);
    if (status == RCM_OK) {
        check_fields(&url);
        check_again(&url);
        rcmi_url_fini(&url);
    }
    free(text);
    return 0;
}
