/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who this process is and where it meets the others: options, our own variables, torchrun's, and
 * the URL, in this order, with a sentence for everything that is missing or does not agree.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "error.h"
#include "rendezvous.h"
#include "url.h"

#define MAX_RANKS 1000000

/* Where something was said; lower is stronger. */
enum place { PLACE_OPTION, PLACE_OWN, PLACE_LAUNCHER, PLACE_NOWHERE };

/* A number and where it was said: "RANK", "RINGCOMM_RANK", "options.rank". */
struct said {
    enum place place;
    const char *name;
    int value;
};

static const char *env_get(const char *name) {
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

static rcm_status env_number(const char *name, int min, int max, int *ret_value) {
    int64_t number;
    if (rcmi_parse_number(getenv(name), min, max, &number) != RCM_OK)
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s=%.100s is not a number from %d to %d", name,
                         getenv(name), min, max);
    *ret_value = (int)number;
    return RCM_OK;
}

/* From our own variable or the launcher's; PLACE_NOWHERE if neither is set. */
static rcm_status said_in_env(const char *own, const char *launcher, int min, int max,
                              struct said *ret_said) {
    struct said said = {.place = PLACE_NOWHERE, .name = launcher};
    rcm_status status = RCM_OK;
    if (env_get(own)) {
        said.place = PLACE_OWN;
        said.name = own;
        status = env_number(own, min, max, &said.value);
    } else if (env_get(launcher)) {
        said.place = PLACE_LAUNCHER;
        status = env_number(launcher, min, max, &said.value);
    }
    if (status == RCM_OK)
        *ret_said = said;
    return status;
}

/* ---- The URL ------------------------------------------------------------------------------- */

struct said_url {
    enum place place;
    const char *name, *text;
    struct rcmi_url url;
};

static rcm_status url_resolve(const struct rcm_init_options *o, struct said_url *ret_url) {
    struct said_url u = {.place = PLACE_NOWHERE, .text = "env://"};
    if (o && o->url && o->url[0]) {
        u = (struct said_url){.place = PLACE_OPTION, .name = "options.url", .text = o->url};
    } else if (env_get("RINGCOMM_URL")) {
        u = (struct said_url){
            .place = PLACE_OWN, .name = "RINGCOMM_URL", .text = env_get("RINGCOMM_URL")};
    }
    if (rcmi_url_parse(u.text, &u.url) != RCM_OK) {
        char text[sizeof rcmi_last_error()->text];
        memcpy(text, rcmi_last_error()->text, sizeof text);
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s: %.400s", u.name, text);
    }
    *ret_url = u;
    return RCM_OK;
}

/* What the URL says of rank or world size joins what was said elsewhere. */
static rcm_status said_by_url(const struct said_url *u, const char *what, int value, bool given,
                              struct said *said) {
    if (!given || said->place > u->place) {
        if (given)
            *said = (struct said){u->place, u->name, value};
        return RCM_OK;
    }
    if (said->value == value)
        return RCM_OK;
    return rcmi_fail(RCM_ERR_CONFIG, 0, "%s says %s %d, but %s=%s says %d; keep one of them",
                     said->name, what, said->value, u->name, u->text, value);
}

/* ---- Rank and size ------------------------------------------------------------------------- */

static rcm_status said_fail(const struct said *said) {
    return rcmi_fail(RCM_ERR_CONFIG, 0,
                     "%s is not set; start the program with ringcomm-run -n 4 -- PROGRAM or set "
                     "RINGCOMM_RANK and RINGCOMM_WORLD_SIZE",
                     said->name);
}

static rcm_status ranks_resolve(const struct rcm_init_options *o, const struct said_url *u,
                                struct said *ret_rank, struct said *ret_size) {
    struct said rank = {PLACE_OPTION, "options.rank", o ? o->rank : -1};
    struct said size = {PLACE_OPTION, "options.world_size", o ? o->world_size : 0};
    rcm_status status = RCM_OK;
    if (rank.value < 0)
        status = said_in_env("RINGCOMM_RANK", "RANK", 0, MAX_RANKS - 1, &rank);
    if (status == RCM_OK && size.value <= 0)
        status = said_in_env("RINGCOMM_WORLD_SIZE", "WORLD_SIZE", 1, MAX_RANKS, &size);
    if (status == RCM_OK && u)
        status = said_by_url(u, "rank", u->url.rank, u->url.rank >= 0, &rank);
    if (status == RCM_OK && u)
        status = said_by_url(u, "world_size", u->url.world_size, u->url.world_size > 0, &size);
    if (status != RCM_OK)
        return status;
    if (rank.place == PLACE_NOWHERE || size.place == PLACE_NOWHERE)
        return said_fail(rank.place == PLACE_NOWHERE ? &rank : &size);
    if (rank.value >= size.value)
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "rank %d (%s) is not below world size %d (%s); ranks count from 0",
                         rank.value, rank.name, size.value, size.name);
    *ret_rank = rank;
    *ret_size = size;
    return RCM_OK;
}

static rcm_status local_resolve(struct rcmi_launch *launch) {
    struct said rank = {0}, size = {0};
    rcm_status status = said_in_env("RINGCOMM_LOCAL_RANK", "LOCAL_RANK", 0, MAX_RANKS - 1, &rank);
    if (status == RCM_OK)
        status = said_in_env("RINGCOMM_LOCAL_WORLD_SIZE", "LOCAL_WORLD_SIZE", 1, MAX_RANKS, &size);
    if (status != RCM_OK)
        return status;
    launch->local_rank = rank.place == PLACE_NOWHERE ? -1 : rank.value;
    launch->local_size = size.place == PLACE_NOWHERE ? 0 : size.value;
    if (launch->local_size > 0 && launch->local_rank >= launch->local_size)
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s=%d is not below %s=%d", rank.name, rank.value,
                         size.name, size.value);
    if (env_get("TORCHELASTIC_RESTART_COUNT"))
        return env_number("TORCHELASTIC_RESTART_COUNT", 0, INT_MAX, &launch->attempt);
    return RCM_OK;
}

/* ---- The store ----------------------------------------------------------------------------- */

/* torchrun's agent serves the store, not rank 0. */
static bool agent_serves(void) {
    const char *value = env_get("TORCHELASTIC_USE_AGENT_STORE");
    return value && (strcasecmp(value, "true") == 0 || strcmp(value, "1") == 0);
}

static rcm_status out_of_memory(void) {
    return rcmi_fail(RCM_ERR_NOMEM, 0, "no memory for the launch settings");
}

static rcm_status tcp_url(const char *host, int port, bool serve, struct rcmi_launch *launch) {
    char *address = rcmi_url_tcp(host, port);
    int n = address ? asprintf(&launch->url, "%s?rank=%d&world_size=%d&server=%d", address,
                               launch->rank, launch->world_size, serve)
                    : -1;
    free(address);
    if (n >= 0)
        return RCM_OK;
    launch->url = NULL;
    return out_of_memory();
}

/* env://: the address that torchrun and others tell. */
static rcm_status master_url(struct rcmi_launch *launch) {
    static const char help[] = "start the program with ringcomm-run -n 4 -- PROGRAM, or set "
                               "RINGCOMM_URL=tcp://host:port, or MASTER_ADDR and MASTER_PORT";
    const char *address = env_get("MASTER_ADDR");
    int port = 0;
    if (!address || !env_get("MASTER_PORT"))
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s is not set; %s",
                         address ? "MASTER_PORT" : "MASTER_ADDR", help);
    rcm_status status = env_number("MASTER_PORT", 1, 65535, &port);
    if (status != RCM_OK)
        return status;
    size_t len = strlen(address);
    if (strchr(address, '/') || strchr(address, '?') || len > 255)
        return rcmi_fail(RCM_ERR_CONFIG, 0, "MASTER_ADDR=%.100s is not a host name or address",
                         address);
    return tcp_url(address, port, launch->rank == 0 && !agent_serves(), launch);
}

static rcm_status store_resolve(const struct said_url *u, struct rcmi_launch *launch) {
    int n = 0;
    /* A single rank meets nobody. */
    if (u->place == PLACE_NOWHERE && launch->world_size == 1) {
        launch->url = strdup("hash:");
        return launch->url ? RCM_OK : out_of_memory();
    }
    switch (u->url.scheme) {
    case RCMI_SCHEME_ENV:
        return master_url(launch);
    case RCMI_SCHEME_TCP:
        return tcp_url(u->url.host, u->url.port,
                       u->url.server >= 0 ? u->url.server == 1 : launch->rank == 0, launch);
    case RCMI_SCHEME_FILE:
        n = asprintf(&launch->url, "file://%s?rank=%d&world_size=%d", u->url.path, launch->rank,
                     launch->world_size);
        break;
    case RCMI_SCHEME_HASH:
        if (!u->url.path[0] && launch->world_size > 1)
            return rcmi_fail(RCM_ERR_CONFIG, 0,
                             "%s=hash: is a store of its own for each of %d ranks; threads of one "
                             "process meet in hash:NAME, processes in tcp://host:port",
                             u->name, launch->world_size);
        n = asprintf(&launch->url, "hash:%s", u->url.path);
        break;
    }
    if (n >= 0)
        return RCM_OK;
    launch->url = NULL;
    return out_of_memory();
}

static rcm_status origin_tell(const struct said *rank, const struct said *size,
                              const struct said_url *u, struct rcmi_launch *launch) {
    const char *where = "options.store";
    if (u)
        where = u->place != PLACE_NOWHERE              ? u->name
                : launch->url && launch->url[0] == 'h' ? "nowhere (a single rank)"
                                                       : "MASTER_ADDR and MASTER_PORT";
    if (asprintf(&launch->origin, "rank from %s, world size from %s, store from %s", rank->name,
                 size->name, where) >= 0)
        return RCM_OK;
    launch->origin = NULL;
    return out_of_memory();
}

void rcmi_launch_fini(struct rcmi_launch *launch) {
    free(launch->url);
    free(launch->origin);
    launch->url = launch->origin = NULL;
}

rcm_status rcmi_launch_resolve(const struct rcm_init_options *options,
                               struct rcmi_launch *ret_launch) {
    struct rcmi_launch launch = {0};
    struct said_url url = {0};
    struct said rank = {0}, size = {0};
    bool own_store = options && options->store;

    if (own_store && options->url && options->url[0])
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "options.store and options.url=%s are both given; keep one of them",
                         options->url);
    rcm_status status = own_store ? RCM_OK : url_resolve(options, &url);
    if (status != RCM_OK)
        return status;
    status = ranks_resolve(options, own_store ? NULL : &url, &rank, &size);
    if (status == RCM_OK) {
        launch.rank = rank.value;
        launch.world_size = size.value;
        status = local_resolve(&launch);
    }
    if (status == RCM_OK && !own_store)
        status = store_resolve(&url, &launch);
    if (status == RCM_OK)
        status = origin_tell(&rank, &size, own_store ? NULL : &url, &launch);
    if (!own_store)
        rcmi_url_fini(&url.url);
    if (status == RCM_OK)
        *ret_launch = launch;
    else
        rcmi_launch_fini(&launch);
    return status;
}
