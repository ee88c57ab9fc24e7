/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ringcomm-store: serves a TCP store, or reads and changes a store (tcp or file, of this library or
 * of torch) from a shell. Uses only ringcomm.h.
 */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ringcomm.h"
#include "units.h"

#define MAX_ARGS  1024
#define USAGE     2
#define STDIN_MAX (8 * 1024 * 1024 + 1)

static const char doc[] =
    "Serves a store, through which ranks find each other, or reads and changes one.\v"
    "Commands:\n"
    "  serve             serve a TCP store until SIGINT or SIGTERM\n"
    "  get KEY           wait for KEY and print its value\n"
    "  set KEY VALUE     set KEY (VALUE - : read standard input)\n"
    "  append KEY VALUE  append to the value of KEY\n"
    "  add KEY N         add N to the number under KEY and print the sum\n"
    "  wait KEY...       wait until all keys exist\n"
    "  delete KEY        delete KEY; fails if it does not exist\n"
    "  count             print the number of keys\n"
    "\n"
    "Examples:\n"
    "  ringcomm-store serve --port 29500 &\n"
    "  export RINGCOMM_URL=tcp://127.0.0.1:29500\n"
    "  ringcomm-store set greeting hello\n"
    "  ringcomm-store get greeting\n"
    "  ringcomm-store --timeout 5 wait rank/0 rank/1\n"
    "  ringcomm-store add -- counter -1\n"
    "  ringcomm-store --url file:///tmp/rendezvous count\n"
    "\n"
    "With RINGCOMM_SECRET or RINGCOMM_SECRET_FILE both sides prove that they have the secret. "
    "Exit status: 0 success, 1 failure, 2 invalid command line.";

static const struct argp_option options[] = {
    {"url", 'u', "URL", 0, "the store (default: RINGCOMM_URL)", 0},
    {"timeout", 't', "S", 0, "seconds to wait for the store and for keys (default: 30)", 0},
    {"host", 'H', "H", 0, "serve: address to listen on (default: 127.0.0.1)", 1},
    {"port", 'p', "P", 0, "serve: port, 0 for any free one (default: 29500)", 1},
    {"print-url", 'P', NULL, 0, "serve: print the URL on standard output", 1},
    {0}};

struct settings {
    const char *url, *host;
    long port;
    int64_t timeout_ms;
    bool print_url;
    const char *args[MAX_ARGS];
    size_t nargs;
};

static bool parse_long(const char *text, long min, long max, long *ret) {
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < min || value > max)
        return false;
    *ret = value;
    return true;
}

static bool parse_seconds(const char *text, int64_t *ret_ms) {
    char *end;
    double seconds = strtod(text, &end) * tool_unit_seconds(end);
    if (end == text || !(seconds >= 0 && seconds <= 1e9))
        return false;
    *ret_ms = (int64_t)(seconds * 1000);
    return true;
}

static error_t option_parse(int key, char *arg, struct argp_state *state) {
    struct settings *s = state->input;
    switch (key) {
    case 'u':
        s->url = arg;
        return 0;
    case 't':
        if (!parse_seconds(arg, &s->timeout_ms))
            argp_error(state, "--timeout %s is not a duration, in seconds or as 90s, 10m", arg);
        return 0;
    case 'H':
        s->host = arg;
        return 0;
    case 'p':
        if (!parse_long(arg, 0, 65535, &s->port))
            argp_error(state, "--port %s is not a number from 0 to 65535", arg);
        return 0;
    case 'P':
        s->print_url = true;
        return 0;
    case ARGP_KEY_ARG:
        if (s->nargs == MAX_ARGS)
            argp_error(state, "more than %d arguments", MAX_ARGS);
        s->args[s->nargs++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (s->nargs == 0)
            argp_error(state, "no command; one of serve, get, set, append, add, wait, delete, "
                              "count");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Prints the library's error; returns the exit status. */
static int failed(const char *command) {
    fprintf(stderr, "ringcomm-store: %s: %s\n", command, rcm_last_error());
    return 1;
}

/* ---- Serving ------------------------------------------------------------------------------- */

/* serve has options for its address instead of --url or arguments. */
static int serve_misused(const struct settings *s) {
    fprintf(stderr, "ringcomm-store: serve takes no argument '%s'; use --host and --port\n",
            s->args[1]);
    return USAGE;
}

static int serve(const struct settings *s) {
    rcm_store *store;
    char *url;
    sigset_t ends;
    int signal_number;

    /* Before the server's thread exists, so that it inherits the mask and sigwait gets them. */
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    if (asprintf(&url, strchr(s->host, ':') ? "tcp://[%s]:%ld?server=1" : "tcp://%s:%ld?server=1",
                 s->host, s->port) < 0) {
        fprintf(stderr, "ringcomm-store: out of memory\n");
        return 1;
    }
    rcm_status status = rcm_store_open(url, s->timeout_ms, &store);
    free(url);
    if (status != RCM_OK)
        return failed("serve");
    if (s->print_url) {
        printf("%s\n", rcm_store_url(store));
        fflush(stdout);
    }
    fprintf(stderr, "ringcomm-store: serving at %s; end with SIGINT or SIGTERM\n",
            rcm_store_url(store));
    while (sigwait(&ends, &signal_number) != 0)
        ;
    rcm_store_close(store);
    return 0;
}

/* ---- The other commands: run with an open store -------------------------------------------- */

/* VALUE, or standard input for "-". *ret_data is malloc'd. */
static bool value_read(const char *text, char **ret_data, size_t *ret_len) {
    if (strcmp(text, "-") != 0) {
        *ret_data = strdup(text);
        *ret_len = strlen(text);
        return *ret_data != NULL;
    }
    char *data = malloc(STDIN_MAX);
    if (!data)
        return false;
    *ret_len = fread(data, 1, STDIN_MAX, stdin); /* one byte too many: the store rejects it */
    *ret_data = data;
    return true;
}

static int run_put(rcm_store *store, const struct settings *s) {
    bool append = strcmp(s->args[0], "append") == 0;
    char *data;
    size_t len;
    if (!value_read(s->args[2], &data, &len)) {
        fprintf(stderr, "ringcomm-store: out of memory\n");
        return 1;
    }
    rcm_status status = append ? rcm_store_append(store, s->args[1], data, len)
                               : rcm_store_set(store, s->args[1], data, len);
    free(data);
    return status == RCM_OK ? 0 : failed(s->args[0]);
}

static int run_get(rcm_store *store, const struct settings *s) {
    void *value;
    size_t len;
    if (rcm_store_get(store, s->args[1], s->timeout_ms, &value, &len) != RCM_OK)
        return failed("get");
    bool good = fwrite(value, 1, len, stdout) == len;
    free(value);
    if (isatty(STDOUT_FILENO))
        putchar('\n'); /* for a terminal; a program gets exactly the value's bytes */
    if (fflush(stdout) != 0 || !good) {
        fprintf(stderr, "ringcomm-store: get: cannot write the value: %s\n", strerror(errno));
        return 1;
    }
    return 0;
}

static int run_add(rcm_store *store, const struct settings *s) {
    char *end;
    int64_t sum;
    errno = 0;
    long long delta = strtoll(s->args[2], &end, 10);
    if (errno != 0 || end == s->args[2] || *end != '\0') {
        fprintf(stderr, "ringcomm-store: add: %s is not an integer\n", s->args[2]);
        return 1;
    }
    if (rcm_store_add(store, s->args[1], delta, &sum) != RCM_OK)
        return failed("add");
    printf("%lld\n", (long long)sum);
    return 0;
}

static int run_wait(rcm_store *store, const struct settings *s) {
    if (rcm_store_wait(store, s->args + 1, s->nargs - 1, s->timeout_ms) != RCM_OK)
        return failed("wait");
    return 0;
}

static int run_delete(rcm_store *store, const struct settings *s) {
    int deleted;
    if (rcm_store_delete(store, s->args[1], &deleted) != RCM_OK)
        return failed("delete");
    if (!deleted)
        fprintf(stderr, "ringcomm-store: delete: there is no key \"%s\"\n", s->args[1]);
    return deleted ? 0 : 1;
}

static int run_count(rcm_store *store, const struct settings *s) {
    size_t count;
    (void)s;
    if (rcm_store_count(store, &count) != RCM_OK)
        return failed("count");
    printf("%zu\n", count);
    return 0;
}

static const struct command {
    const char *name, *arguments;
    size_t min, max; /* number of arguments after the name */
    int (*run)(rcm_store *store, const struct settings *s);
} commands[] = {
    {"get", "KEY", 1, 1, run_get},
    {"set", "KEY VALUE", 2, 2, run_put},
    {"append", "KEY VALUE", 2, 2, run_put},
    {"add", "KEY N", 2, 2, run_add},
    {"wait", "KEY...", 1, MAX_ARGS, run_wait},
    {"delete", "KEY", 1, 1, run_delete},
    {"count", "", 0, 0, run_count},
};

/* Makes a client's URL: with rank=0 in it, the store would be served instead. */
static char *client_url(const char *url) {
    char *copy;
    bool tcp = strncmp(url, "tcp://", 6) == 0 && !strstr(url, "server=");
    const char *add = !tcp ? "" : strchr(url, '?') ? "&server=0" : "?server=0";
    return asprintf(&copy, "%s%s", url, add) < 0 ? NULL : copy;
}

static int command_run(const struct command *command, const struct settings *s) {
    rcm_store *store;
    size_t given = s->nargs - 1;
    const char *from = s->url ? s->url : getenv("RINGCOMM_URL");

    if (given < command->min || given > command->max) {
        fprintf(stderr, "ringcomm-store: usage: ringcomm-store %s %s\n", command->name,
                command->arguments);
        return USAGE;
    }
    if (!from || !from[0]) {
        fprintf(stderr, "ringcomm-store: no store given; use --url URL or set RINGCOMM_URL, for "
                        "example tcp://127.0.0.1:29500\n");
        return USAGE;
    }
    char *url = client_url(from);
    if (!url || rcm_store_open(url, s->timeout_ms, &store) != RCM_OK) {
        free(url);
        return failed(command->name);
    }
    free(url);
    int result = command->run(store, s);
    rcm_store_close(store);
    return result;
}

static void print_version(FILE *stream, struct argp_state *state) {
    (void)state;
    fprintf(stream, "ringcomm-store %s\n", rcm_version());
}

int main(int argc, char **argv) {
    static const struct argp argp = {options, option_parse, "COMMAND [ARGUMENTS]", doc, NULL,
                                     NULL,    NULL};
    static struct settings s = {.host = "127.0.0.1", .port = 29500, .timeout_ms = 30000};

    argp_err_exit_status = USAGE;
    argp_program_version_hook = print_version;
    if (argp_parse(&argp, argc, argv, 0, NULL, &s) != 0)
        return USAGE;
    if (strcmp(s.args[0], "serve") == 0)
        return s.nargs == 1 ? serve(&s) : serve_misused(&s);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(s.args[0], commands[i].name) == 0)
            return command_run(&commands[i], &s);
    }
    fprintf(stderr, "ringcomm-store: unknown command \"%s\"; see ringcomm-store --help\n",
            s.args[0]);
    return USAGE;
}
