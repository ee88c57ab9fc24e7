/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who this process is and where it meets the others: options, our own variables, torchrun's, those
 * of other launchers (launcher.h), and the URL, with a sentence for everything that is missing or
 * does not agree.
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

/* Where something was said; lower is stronger. PLACE_TORCH are torchrun's names, which people set
 * by hand as well. */
enum place { PLACE_OPTION, PLACE_OWN, PLACE_TORCH, PLACE_LAUNCHER, PLACE_NOWHERE };

/* A number and where it was said: "RANK", "RINGCOMM_RANK", "options.rank". */
struct said {
    enum place place;
    const char *name;
    int value;
};

/* From our own variable or torchrun's; PLACE_NOWHERE if neither is set. */
static rcm_status said_in_env(const char *own, const char *torch, int min, int max,
                              struct said *ret_said) {
    struct said said = {.place = PLACE_NOWHERE, .name = torch};
    rcm_status status = RCM_OK;
    if (rcmi_env(own)) {
        said.place = PLACE_OWN;
        said.name = own;
        status = rcmi_env_number(own, min, max, &said.value);
    } else if (rcmi_env(torch)) {
        said.place = PLACE_TORCH;
        status = rcmi_env_number(torch, min, max, &said.value);
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
    } else if (rcmi_env("RINGCOMM_URL")) {
        u = (struct said_url){
            .place = PLACE_OWN, .name = "RINGCOMM_URL", .text = rcmi_env("RINGCOMM_URL")};
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
                     "%s is not set; start the program with ringcomm-run -n 4 -- PROGRAM (or "
                     "torchrun, mpirun, srun) or set RINGCOMM_RANK and RINGCOMM_WORLD_SIZE",
                     said->name);
}

/* torchrun is running: its names are its own, and a launcher around it started the agents. */
static bool torchrun_runs(void) {
    return rcmi_env("TORCHELASTIC_RUN_ID") != NULL;
}

/* A number of a launcher beside the one that counts. */
static rcm_status said_agree(const struct said *said, const char *name, int value) {
    if (said->value == value)
        return RCM_OK;
    return rcmi_fail(RCM_ERR_CONFIG, 0,
                     "%s=%d and %s=%d contradict each other: two launchers, or a variable left "
                     "over; unset one, or set RINGCOMM_RANK and RINGCOMM_WORLD_SIZE",
                     said->name, said->value, name, value);
}

/* What the detected launchers say of rank and size: fills in what is told nowhere else, and must
 * agree with what torchrun's names say. *ret_launcher: the strongest asked, NULL: none. */
static rcm_status launchers_ask(struct said *rank, struct said *size,
                                struct rcmi_launcher_says *ret_says,
                                const struct rcmi_launcher **ret_launcher) {
    const struct rcmi_launcher *launcher;
    for (size_t i = 0; (launcher = rcmi_launcher_at(i)); i++) {
        struct rcmi_launcher_says says;
        const bool taken = rank->place == PLACE_NOWHERE || size->place == PLACE_NOWHERE;
        const bool compared = (rank->place >= PLACE_TORCH || size->place >= PLACE_TORCH) &&
                              !launcher->inherited && !torchrun_runs();
        if (!taken && !compared)
            continue;
        rcm_status status = launcher->resolve(&says);
        if (status != RCM_OK)
            return status;
        if (rank->place == PLACE_NOWHERE)
            *rank = (struct said){PLACE_LAUNCHER, says.rank_name, says.rank};
        else if (compared && rank->place >= PLACE_TORCH)
            status = said_agree(rank, says.rank_name, says.rank);
        if (size->place == PLACE_NOWHERE)
            *size = (struct said){PLACE_LAUNCHER, says.size_name, says.size};
        else if (status == RCM_OK && compared && size->place >= PLACE_TORCH)
            status = said_agree(size, says.size_name, says.size);
        if (status != RCM_OK)
            return status;
        if (!*ret_launcher) {
            *ret_launcher = launcher;
            *ret_says = says;
        }
    }
    return RCM_OK;
}

/* Who this process is, and who said so. */
struct who {
    struct said rank, size;
    bool apart;                           /* options gave rank, size and place, see below */
    const struct rcmi_launcher *launcher; /* asked for either; NULL: none of the table */
    struct rcmi_launcher_says says;       /* by launcher */
};

/* Whether this is the launcher's process of that number in its job of that size: then its local
 * numbers and its way to meet are ours. */
static bool who_is_launched(const struct who *who) {
    return who->launcher && who->says.rank == who->rank.value && who->says.size == who->size.value;
}

static rcm_status ranks_resolve(const struct rcm_init_options *o, const struct said_url *u,
                                struct who *who) {
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
    if (status == RCM_OK)
        status = launchers_ask(&rank, &size, &who->says, &who->launcher);
    if (status != RCM_OK)
        return status;
    if (rank.place == PLACE_NOWHERE || size.place == PLACE_NOWHERE)
        return said_fail(rank.place == PLACE_NOWHERE ? &rank : &size);
    if (rank.value >= size.value)
        return rcmi_fail(RCM_ERR_CONFIG, 0,
                         "rank %d (%s) is not below world size %d (%s); ranks count from 0",
                         rank.value, rank.name, size.value, size.name);
    who->rank = rank;
    who->size = size;
    return RCM_OK;
}

/* Whether a variable gives the number that counts. One that is not set does unless options gave
 * the number: the variables beside it are then of another world. */
static bool told_ours(const char *name, const struct said *said) {
    int64_t value;
    if (!rcmi_env(name))
        return said->place != PLACE_OPTION;
    return rcmi_parse_number(rcmi_env(name), 0, MAX_RANKS, &value) == RCM_OK &&
           value == said->value;
}

/* A local number of the first source whose rank and size are this rank's. */
static rcm_status said_local(const struct who *who, bool is_size, struct said *ret_said) {
    static const struct {
        const char *rank, *size, *local_rank, *local_size;
    } sources[] = {
        {"RINGCOMM_RANK", "RINGCOMM_WORLD_SIZE", "RINGCOMM_LOCAL_RANK",
         "RINGCOMM_LOCAL_WORLD_SIZE"},
        {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    };
    const struct rcmi_launcher_says *says = &who->says;
    *ret_said = (struct said){.place = PLACE_NOWHERE, .value = is_size ? 0 : -1};
    if (who->apart)
        return RCM_OK;
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        const char *name = is_size ? sources[i].local_size : sources[i].local_rank;
        if (!rcmi_env(name) || !told_ours(sources[i].rank, &who->rank) ||
            !told_ours(sources[i].size, &who->size))
            continue;
        *ret_said = (struct said){i == 0 ? PLACE_OWN : PLACE_TORCH, name, 0};
        return rcmi_env_number(name, is_size, MAX_RANKS - !is_size, &ret_said->value);
    }
    if (who_is_launched(who) && is_size && says->local_size > 0)
        *ret_said = (struct said){PLACE_LAUNCHER, says->local_size_name, says->local_size};
    if (who_is_launched(who) && !is_size && says->local_rank >= 0)
        *ret_said = (struct said){PLACE_LAUNCHER, says->local_rank_name, says->local_rank};
    return RCM_OK;
}

static rcm_status local_resolve(const struct who *who, struct rcmi_launch *launch) {
    struct said rank, size;
    rcm_status status = said_local(who, false, &rank);
    if (status == RCM_OK)
        status = said_local(who, true, &size);
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

/* Whether options name the address that the environment names too. */
static bool url_is_master(const struct rcmi_url *url) {
    const char *host = rcmi_env("MASTER_ADDR"), *port = rcmi_env("MASTER_PORT");
    int64_t number;
    return url->scheme == RCMI_SCHEME_TCP && host && port && strcmp(host, url->host) == 0 &&
           rcmi_parse_number(port, 1, 65535, &number) == RCM_OK && number == url->port;
}

/* Whether this is a world beside the environment's: options gave rank, size and the place to meet,
 * so that nothing of the environment's launch describes it, and its other ranks may have been
 * launched in another way. u: NULL for options.store and options.unique_id. */
static bool is_apart(const struct who *who, const struct said_url *u) {
    if (who->rank.place != PLACE_OPTION || who->size.place != PLACE_OPTION)
        return false;
    return !u || (u->place == PLACE_OPTION && u->url.scheme != RCMI_SCHEME_ENV &&
                  !url_is_master(&u->url));
}

/* ---- The store ----------------------------------------------------------------------------- */

/* torchrun's agent serves the store, not rank 0. */
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

/* env://: the address that torchrun and others tell. */
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

/* The launcher has a PMIx server for this rank, and there is a library to speak to it. */
static bool meets_by_pmix(const struct who *who) {
    return who->launcher->brings_pmix && rcmi_pmix_namespace(who->rank.value) &&
           who->launcher->brings_pmix() && rcmi_pmix_load() == RCM_OK;
}

/* env://, said or not: the address if there is one, else the launcher's own way to meet. */
static rcm_status env_resolve(const struct who *who, struct rcmi_launch *launch) {
    const bool told = rcmi_env("MASTER_ADDR") || rcmi_env("MASTER_PORT");
    if (told || !who_is_launched(who))
        return master_url(launch);
    launch->launcher = meets_by_pmix(who) ? &rcmi_launcher_pmix : who->launcher;
    return launch->launcher->meeting(launch, &launch->meeting);
}

static rcm_status store_resolve(const struct said_url *u, const struct who *who,
                                struct rcmi_launch *launch) {
    int n = 0;
    /* A single rank meets nobody. */
    if (u->place == PLACE_NOWHERE && launch->world_size == 1) {
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

/* Where a rank without a URL meets the others. */
static const char *launch_place(const struct rcm_init_options *options) {
    return options && options->unique_id ? "options.unique_id" : "options.store";
}

static rcm_status origin_tell(const struct who *who, const struct said_url *u, const char *where,
                              struct rcmi_launch *launch) {
    if (u)
        where = launch->launcher                       ? launch->launcher->name
                : u->place != PLACE_NOWHERE            ? u->name
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
    struct said_url url = {0};
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
        rcmi_launch_job(who.launcher, &who.says, who.apart, &launch);
    if (status == RCM_OK && options && options->unique_id)
        status = rcmi_unique_id_job(options->unique_id, launch.job_id);
    if (status == RCM_OK && !own_store)
        status = store_resolve(&url, &who, &launch);
    if (status == RCM_OK)
        status = origin_tell(&who, own_store ? NULL : &url, launch_place(options), &launch);
    if (!own_store)
        rcmi_url_fini(&url.url);
    if (status == RCM_OK)
        *ret_launch = launch;
    else
        rcmi_launch_fini(&launch);
    return status;
}
