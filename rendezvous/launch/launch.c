/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Resolves this process's rank and rendezvous from the options, our own variables, torchrun's,
 * those of other launchers (launcher.h), and the URL. Each missing value and each contradiction has
 * its own error text.
 */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include "error.h"
#include "launcher.h"
#include "pmix_client.h"
#include "rendezvous.h"
#include "url.h"

#define MAX_RANKS RCMI_MAX_RANKS

/* The source of a value; lower is stronger. SOURCE_TORCH: torchrun's variables, which people also
 * set by hand. */
enum source { SOURCE_OPTION, SOURCE_RINGCOMM, SOURCE_TORCH, SOURCE_LAUNCHER, SOURCE_NONE };

/* A number with its source and its name there: "RANK", "RINGCOMM_RANK", "options.rank". */
struct number {
    enum source source;
    const char *name;
    int value;
};

/* From our own variable or torchrun's; SOURCE_NONE if neither is set. */
static rcm_status number_from_env(const char *own, const char *torch, int min, int max,
                                  struct number *ret_number) {
    struct number number = {.source = SOURCE_NONE, .name = torch};
    rcm_status status = RCM_OK;
    if (rcmi_env(own)) {
        number.source = SOURCE_RINGCOMM;
        number.name = own;
        status = rcmi_env_number(own, min, max, &number.value);
    } else if (rcmi_env(torch)) {
        number.source = SOURCE_TORCH;
        status = rcmi_env_number(torch, min, max, &number.value);
    }
    if (status == RCM_OK)
        *ret_number = number;
    return status;
}

/* ---- The URL ------------------------------------------------------------------------------- */

struct sourced_url {
    enum source source;
    const char *name, *text;
    struct rcmi_url url;
};

static rcm_status url_resolve(const struct rcm_init_options *o, struct sourced_url *ret_url) {
    struct sourced_url u = {.source = SOURCE_NONE, .text = "env://"};
    if (o && o->url && o->url[0]) {
        u = (struct sourced_url){.source = SOURCE_OPTION, .name = "options.url", .text = o->url};
    } else if (rcmi_env("RINGCOMM_URL")) {
        u = (struct sourced_url){
            .source = SOURCE_RINGCOMM, .name = "RINGCOMM_URL", .text = rcmi_env("RINGCOMM_URL")};
    }
    if (rcmi_url_parse(u.text, &u.url) != RCM_OK) {
        char text[sizeof rcmi_last_error()->text];
        memcpy(text, rcmi_last_error()->text, sizeof text);
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s: %.400s", u.name, text);
    }
    *ret_url = u;
    return RCM_OK;
}

/* Merges the URL's rank or world size into the number from another source. */
static rcm_status number_merge_url(const struct sourced_url *u, const char *what, int value,
                                   bool given, struct number *number) {
    if (!given || number->source > u->source) {
        if (given)
            *number = (struct number){u->source, u->name, value};
        return RCM_OK;
    }
    if (number->value == value)
        return RCM_OK;
    return rcmi_fail(RCM_ERR_CONFIG, 0, "%s sets %s to %d, but %s=%s sets it to %d; keep one",
                     number->name, what, number->value, u->name, u->text, value);
}

/* ---- Rank and size ------------------------------------------------------------------------- */

static rcm_status number_missing(const struct number *number) {
    return rcmi_fail(RCM_ERR_CONFIG, 0,
                     "%s is not set; start the program with ringcomm-run -n 4 -- PROGRAM (or "
                     "torchrun, mpirun, srun) or set RINGCOMM_RANK and RINGCOMM_WORLD_SIZE",
                     number->name);
}

/* Started by torchrun: it set the variables itself, and an outer launcher started its agents. */
static bool torchrun_runs(void) {
    return rcmi_env("TORCHELASTIC_RUN_ID") != NULL;
}

/* Fails if a launcher's number differs from the number in use. */
static rcm_status number_agree(const struct number *number, const char *name, int value) {
    if (number->value == value)
        return RCM_OK;
    return rcmi_fail(RCM_ERR_CONFIG, 0,
                     "%s=%d and %s=%d contradict each other: two launchers, or a variable left "
                     "over; unset one, or set RINGCOMM_RANK and RINGCOMM_WORLD_SIZE",
                     number->name, number->value, name, value);
}

/* Takes rank and size from the detected launchers where no other source has them, and compares
 * them with torchrun's variables. *ret_launcher: the strongest one resolved; NULL: none. */
static rcm_status launchers_merge(struct number *rank, struct number *size,
                                  struct rcmi_launcher_info *ret_info,
                                  const struct rcmi_launcher **ret_launcher) {
    const struct rcmi_launcher *launcher;
    for (size_t i = 0; (launcher = rcmi_launcher_at(i)); i++) {
        struct rcmi_launcher_info info;
        const bool taken = rank->source == SOURCE_NONE || size->source == SOURCE_NONE;
        const bool compared = (rank->source >= SOURCE_TORCH || size->source >= SOURCE_TORCH) &&
                              !launcher->inherited && !torchrun_runs();
        if (!taken && !compared)
            continue;
        rcm_status status = launcher->resolve(&info);
        if (status != RCM_OK)
            return status;
        if (rank->source == SOURCE_NONE)
            *rank = (struct number){SOURCE_LAUNCHER, info.rank_name, info.rank};
        else if (compared && rank->source >= SOURCE_TORCH)
            status = number_agree(rank, info.rank_name, info.rank);
        if (size->source == SOURCE_NONE)
            *size = (struct number){SOURCE_LAUNCHER, info.size_name, info.size};
        else if (status == RCM_OK && compared && size->source >= SOURCE_TORCH)
            status = number_agree(size, info.size_name, info.size);
        if (status != RCM_OK)
            return status;
        if (!*ret_launcher) {
            *ret_launcher = launcher;
            *ret_info = info;
        }
    }
    return RCM_OK;
}

/* Rank and world size of this process, and their sources. */
struct who {
    struct number rank, size;
    bool apart;                           /* independent of the environment, see is_apart */
    const struct rcmi_launcher *launcher; /* that was resolved; NULL: none */
    struct rcmi_launcher_info info;       /* by launcher */
};

/* Whether rank and size are the launcher's. Then its local rank, local size and rendezvous apply.
 */
static bool who_is_launched(const struct who *who) {
    return who->launcher && who->info.rank == who->rank.value && who->info.size == who->size.value;
}

static rcm_status ranks_resolve(const struct rcm_init_options *o, const struct sourced_url *u,
                                struct who *who) {
    struct number rank = {SOURCE_OPTION, "options.rank", o ? o->rank : -1};
    struct number size = {SOURCE_OPTION, "options.world_size", o ? o->world_size : 0};
    rcm_status status = RCM_OK;
    if (rank.value < 0)
        status = number_from_env("RINGCOMM_RANK", "RANK", 0, MAX_RANKS - 1, &rank);
    if (status == RCM_OK && size.value <= 0)
        status = number_from_env("RINGCOMM_WORLD_SIZE", "WORLD_SIZE", 1, MAX_RANKS, &size);
    if (status == RCM_OK && u)
        status = number_merge_url(u, "rank", u->url.rank, u->url.rank >= 0, &rank);
    if (status == RCM_OK && u)
        status = number_merge_url(u, "world_size", u->url.world_size, u->url.world_size > 0, &size);
    if (status == RCM_OK)
        status = launchers_merge(&rank, &size, &who->info, &who->launcher);
    if (status != RCM_OK)
        return status;
    if (rank.source == SOURCE_NONE || size.source == SOURCE_NONE)
        return number_missing(rank.source == SOURCE_NONE ? &rank : &size);
    if (rank.value >= size.value)
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "rank %d (%s) is not below world size %d (%s); ranks count from 0",
                         rank.value, rank.name, size.value, size.name);
    who->rank = rank;
    who->size = size;
    return RCM_OK;
}

/* Whether a variable has the same value as the number in use. A variable that is not set matches,
 * unless options gave the number: then the related variables are of another world. */
static bool variable_matches(const char *name, const struct number *number) {
    int64_t value;
    if (!rcmi_env(name))
        return number->source != SOURCE_OPTION;
    return rcmi_parse_number(rcmi_env(name), 0, MAX_RANKS, &value) == RCM_OK &&
           value == number->value;
}

/* Local rank or local size, from the first source that has this rank and size. */
static rcm_status local_number(const struct who *who, bool is_size, struct number *ret_number) {
    static const struct {
        const char *rank, *size, *local_rank, *local_size;
    } sources[] = {
        {"RINGCOMM_RANK", "RINGCOMM_WORLD_SIZE", "RINGCOMM_LOCAL_RANK",
         "RINGCOMM_LOCAL_WORLD_SIZE"},
        {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    };
    const struct rcmi_launcher_info *info = &who->info;
    *ret_number = (struct number){.source = SOURCE_NONE, .value = is_size ? 0 : -1};
    if (who->apart)
        return RCM_OK;
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        const char *name = is_size ? sources[i].local_size : sources[i].local_rank;
        if (!rcmi_env(name) || !variable_matches(sources[i].rank, &who->rank) ||
            !variable_matches(sources[i].size, &who->size))
            continue;
        *ret_number = (struct number){i == 0 ? SOURCE_RINGCOMM : SOURCE_TORCH, name, 0};
        return rcmi_env_number(name, is_size, MAX_RANKS - !is_size, &ret_number->value);
    }
    if (who_is_launched(who) && is_size && info->local_size > 0)
        *ret_number = (struct number){SOURCE_LAUNCHER, info->local_size_name, info->local_size};
    if (who_is_launched(who) && !is_size && info->local_rank >= 0)
        *ret_number = (struct number){SOURCE_LAUNCHER, info->local_rank_name, info->local_rank};
    return RCM_OK;
}

static rcm_status local_resolve(const struct who *who, struct rcmi_launch *launch) {
    struct number rank, size;
    rcm_status status = local_number(who, false, &rank);
    if (status == RCM_OK)
        status = local_number(who, true, &size);
    if (status != RCM_OK)
        return status;
    launch->local_rank = rank.value;
    launch->local_size = size.value;
    launch->from.local_rank = rank.name;
    launch->from.local_size = size.name;
    if (launch->local_size > 0 && launch->local_rank >= launch->local_size)
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s=%d is not below %s=%d", rank.name, rank.value,
                         size.name, size.value);
    if (launch->local_size > launch->world_size)
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s=%d is more than %s=%d", size.name, size.value,
                         who->size.name, who->size.value);
    if (who->apart && rcmi_env("RANK"))
        return RCM_OK;
    return rcmi_env_optional("TORCHELASTIC_RESTART_COUNT", 0, INT_MAX, &launch->attempt);
}

/* Whether the options have the same address as MASTER_ADDR and MASTER_PORT. */
static bool url_is_master(const struct rcmi_url *url) {
    const char *host = rcmi_env("MASTER_ADDR"), *port = rcmi_env("MASTER_PORT");
    int64_t number;
    return url->scheme == RCMI_SCHEME_TCP && host && port && strcmp(host, url->host) == 0 &&
           rcmi_parse_number(port, 1, 65535, &number) == RCM_OK && number == url->port;
}

/* Whether this world is independent of the environment: options gave rank, size and rendezvous.
 * Its other ranks may have other launchers, so no variable of a launcher describes it. u: NULL for
 * options.store and options.unique_id. */
static bool is_apart(const struct who *who, const struct sourced_url *u) {
    if (who->rank.source != SOURCE_OPTION || who->size.source != SOURCE_OPTION)
        return false;
    return !u || (u->source == SOURCE_OPTION && u->url.scheme != RCMI_SCHEME_ENV &&
                  !url_is_master(&u->url));
}

/* ---- The store ----------------------------------------------------------------------------- */

/* Whether torchrun's agent serves the store instead of rank 0. */
static bool agent_serves(void) {
    const char *value = rcmi_env("TORCHELASTIC_USE_AGENT_STORE");
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

/* env://: the address in MASTER_ADDR and MASTER_PORT. */
static rcm_status master_url(struct rcmi_launch *launch) {
    static const char help[] = "start the program with ringcomm-run -n 4 -- PROGRAM, or set "
                               "RINGCOMM_URL=tcp://host:port, or MASTER_ADDR and MASTER_PORT";
    const char *address = rcmi_env("MASTER_ADDR");
    int port = 0;
    if (!address || !rcmi_env("MASTER_PORT"))
        return rcmi_fail(RCM_ERR_CONFIG, 0, "%s is not set; %s",
                         address ? "MASTER_PORT" : "MASTER_ADDR", help);
    rcm_status status = rcmi_env_number("MASTER_PORT", 1, 65535, &port);
    if (status != RCM_OK)
        return status;
    char host[256];
    const size_t len = strlen(address);
    const bool brackets = len > 2 && address[0] == '[' && address[len - 1] == ']';
    if (len < sizeof host)
        snprintf(host, sizeof host, "%.*s", (int)(brackets ? len - 2 : len), address + brackets);
    if (len >= sizeof host || !rcmi_url_host_ok(host))
        return rcmi_fail(RCM_ERR_CONFIG, 0, "MASTER_ADDR=%.100s is not a host name or address",
                         address);
    launch->rank_0_serves = !agent_serves();
    return tcp_url(host, port, launch->rank == 0 && !agent_serves(), launch);
}

/* Whether the launcher has a PMIx server for this rank, and libpmix can be loaded. */
static bool meets_by_pmix(const struct who *who) {
    return who->launcher->brings_pmix && rcmi_pmix_namespace(who->rank.value) &&
           who->launcher->brings_pmix() && rcmi_pmix_load() == RCM_OK;
}

/* env://, explicit or by default: MASTER_ADDR if set, else the launcher's rendezvous. */
static rcm_status env_resolve(const struct who *who, struct rcmi_launch *launch) {
    const bool has_address = rcmi_env("MASTER_ADDR") || rcmi_env("MASTER_PORT");
    if (has_address || !who_is_launched(who))
        return master_url(launch);
    launch->launcher = meets_by_pmix(who) ? &rcmi_launcher_pmix : who->launcher;
    return launch->launcher->meeting(launch, &launch->meeting);
}

static rcm_status store_resolve(const struct sourced_url *u, const struct who *who,
                                struct rcmi_launch *launch) {
    int n = 0;
    /* A single rank needs no rendezvous. */
    if (u->source == SOURCE_NONE && launch->world_size == 1) {
        launch->url = strdup("hash:");
        return launch->url ? RCM_OK : out_of_memory();
    }
    switch (u->url.scheme) {
    case RCMI_SCHEME_ENV:
        return env_resolve(who, launch);
    case RCMI_SCHEME_TCP:
        launch->rank_0_serves = u->url.server < 0;
        return tcp_url(u->url.host, u->url.port,
                       u->url.server >= 0 ? u->url.server == 1 : launch->rank == 0, launch);
    case RCMI_SCHEME_FILE:
        n = asprintf(&launch->url, "file://%s?rank=%d&world_size=%d", u->url.path, launch->rank,
                     launch->world_size);
        break;
    case RCMI_SCHEME_HASH:
        if (!u->url.path[0] && launch->world_size > 1)
            return rcmi_fail(RCM_ERR_CONFIG, 0,
                             "%s=hash: is a separate store for each of %d ranks; use hash:NAME for "
                             "threads of one process, tcp://host:port for processes",
                             u->name, launch->world_size);
        n = asprintf(&launch->url, "hash:%s", u->url.path);
        break;
    }
    if (n >= 0)
        return RCM_OK;
    launch->url = NULL;
    return out_of_memory();
}

/* The option that gives the store, for a rank without a URL. */
static const char *store_option(const struct rcm_init_options *options) {
    return options && options->unique_id ? "options.unique_id" : "options.store";
}

static rcm_status origin_write(const struct who *who, const struct sourced_url *u,
                               const char *where, struct rcmi_launch *launch) {
    if (u)
        where = launch->launcher                       ? launch->launcher->name
                : u->source != SOURCE_NONE             ? u->name
                : launch->url && launch->url[0] == 'h' ? "nowhere (a single rank)"
                                                       : "MASTER_ADDR and MASTER_PORT";
    launch->from.rank = who->rank.name;
    launch->from.size = who->size.name;
    launch->from.store = where;
    if (asprintf(&launch->origin, "rank from %s, world size from %s, store from %s", who->rank.name,
                 who->size.name, where) >= 0)
        return RCM_OK;
    launch->origin = NULL;
    return out_of_memory();
}

void rcmi_launch_fini(struct rcmi_launch *launch) {
    if (launch->leftover)
        (void)!unlink(launch->leftover);
    free(launch->leftover);
    free(launch->meeting);
    free(launch->url);
    free(launch->origin);
    launch->url = launch->origin = launch->meeting = launch->leftover = NULL;
}

rcm_status rcmi_launch_resolve(const struct rcm_init_options *options,
                               struct rcmi_launch *ret_launch) {
    struct rcmi_launch launch = {0};
    struct sourced_url url = {0};
    struct who who = {0};
    const bool own_store = options && (options->store || options->unique_id);

    if (own_store && options->url && options->url[0])
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "options.%s and options.url=%s are both given; keep one of them",
                         options->store ? "store" : "unique_id", options->url);
    if (options && options->store && options->unique_id)
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "options.store and options.unique_id are both given; keep one of them");
    rcm_status status = own_store ? RCM_OK : url_resolve(options, &url);
    if (status != RCM_OK)
        return status;
    status = ranks_resolve(options, own_store ? NULL : &url, &who);
    if (status == RCM_OK) {
        who.apart = is_apart(&who, own_store ? NULL : &url);
        launch.rank = who.rank.value;
        launch.world_size = who.size.value;
        status = local_resolve(&who, &launch);
    }
    if (status == RCM_OK)
        rcmi_launch_job(who.launcher, &who.info, who.apart, &launch);
    if (status == RCM_OK && options && options->unique_id)
        status = rcmi_unique_id_job(options->unique_id, launch.job_id);
    if (status == RCM_OK && !own_store)
        status = store_resolve(&url, &who, &launch);
    if (status == RCM_OK)
        status = origin_write(&who, own_store ? NULL : &url, store_option(options), &launch);
    if (!own_store)
        rcmi_url_fini(&url.url);
    if (status == RCM_OK)
        *ret_launch = launch;
    else
        rcmi_launch_fini(&launch);
    return status;
}
