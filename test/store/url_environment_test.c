/* SPDX-License-Identifier: BSD-3-Clause */
/* URLs, and the environments of launchers: a table of environments and their expected results. */
#include "check.h"
#include <stdio.h>
#include "rendezvous.h"
#include "url.h"

/* ---- URLs ---------------------------------------------------------------------------------- */

static void good_urls(void **state) {
    static const struct {
        const char *text;
        enum rcmi_scheme scheme;
        const char *host, *path;
        int port, rank, size, server;
    } table[] = {
        {"tcp://node7:29500", RCMI_SCHEME_TCP, "node7", NULL, 29500, -1, 0, -1},
        {"tcp://node7:29500/", RCMI_SCHEME_TCP, "node7", NULL, 29500, -1, 0, -1},
        {"tcp://10.0.0.1:0?rank=3&world_size=8", RCMI_SCHEME_TCP, "10.0.0.1", NULL, 0, 3, 8, -1},
        {"tcp://h:1?world_size=2&server=1", RCMI_SCHEME_TCP, "h", NULL, 1, -1, 2, 1},
        {"tcp://[fe80::1]:65535?server=0", RCMI_SCHEME_TCP, "fe80::1", NULL, 65535, -1, 0, 0},
        {"tcp://:7", RCMI_SCHEME_TCP, "", NULL, 7, -1, 0, -1},
        {"file:///tmp/x", RCMI_SCHEME_FILE, NULL, "/tmp/x", 0, -1, 0, -1},
        {"file:///a b?rank=0&world_size=1", RCMI_SCHEME_FILE, NULL, "/a b", 0, 0, 1, -1},
        {"hash:", RCMI_SCHEME_HASH, NULL, "", 0, -1, 0, -1},
        {"hash:job", RCMI_SCHEME_HASH, NULL, "job", 0, -1, 0, -1},
        {"env://", RCMI_SCHEME_ENV, NULL, NULL, 0, -1, 0, -1},
        {"env://?rank=1&world_size=2", RCMI_SCHEME_ENV, NULL, NULL, 0, 1, 2, -1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct rcmi_url u;
        check_ok(rcmi_url_parse(table[i].text, &u));
        assert_int_equal(u.scheme, table[i].scheme);
        if (table[i].host)
            assert_string_equal(u.host, table[i].host);
        if (table[i].path)
            assert_string_equal(u.path, table[i].path);
        assert_int_equal(u.port, table[i].port);
        assert_int_equal(u.rank, table[i].rank);
        assert_int_equal(u.world_size, table[i].size);
        assert_int_equal(u.server, table[i].server);
        rcmi_url_fini(&u);
    }
}

static void bad_urls(void **state) {
    static const char *const table[][2] = {
        {"", "begins with none"},
        {"http://x:1", "begins with none"},
        {"tcp:/x:1", "begins with none"},
        {"tcp://x", "no port"},
        {"tcp://x:", "port \"\""},
        {"tcp://x:65536", "65536"},
        {"tcp://x:-1", "-1"},
        {"tcp://x:12a", "12a"},
        {"tcp://::1:80", "brackets"},
        {"tcp://[::1:80", "']'"},
        {"tcp://[::1]80", "no port"},
        {"tcp://::1]:80", "brackets"},
        {"tcp://a]:80", "not a host name"},
        {"tcp://a b:80", "not a host name"},
        {"tcp://x:1?rank=-1", "rank=-1"},
        {"tcp://x:1?rank=1&rank=1", "twice"},
        {"tcp://x:1?rank=2&world_size=2", "rank 2"},
        {"tcp://x:1?world_size=0", "world_size=0"},
        {"tcp://x:1?world_size=99999999999999999999", "world_size=9999"},
        {"tcp://x:1?server=2", "server=2"},
        {"tcp://x:1?ranks=2", "\"ranks\""},
        {"tcp://x:1?rank", "name=value"},
        {"tcp://x:1?rank=+1", "rank=+1"},
        {"file://relative", "absolute"},
        {"file:///", "absolute"},
        {"env://host", "env://"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct rcmi_url u;
        check_status(RCM_ERR_INVALID, rcmi_url_parse(table[i][0], &u));
        check_error_names(table[i][1]);
        if (table[i][0][0])
            check_error_names(table[i][0]);
    }
}

/* ---- Environments -------------------------------------------------------------------------- */

/* "NAME=value NAME=value": sets these and no others. */
static void environment(const char *text) {
    char *copy = strdup(text), *save = NULL;
    clearenv();
    for (char *item = strtok_r(copy, " ", &save); item; item = strtok_r(NULL, " ", &save)) {
        char *eq = strchr(item, '=');
        *eq = '\0';
        setenv(item, eq + 1, 1);
    }
    free(copy);
}

#define TORCH "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=29500"

struct row {
    const char *env;
    int rank, size;  /* options; -1 and 0: not given */
    const char *url; /* options */
    /* The expected result: a URL, or an error that contains these texts. */
    const char *expect_url, *error, *error2;
    int expect_rank, expect_size, expect_local_rank, expect_local_size;
};

static const struct row rows[] = {
    /* torchrun */
    {TORCH, -1, 0, NULL, "tcp://h:29500?rank=1&world_size=4&server=0", NULL, NULL, 1, 4, 1, 2},
    {"RANK=0 WORLD_SIZE=4 MASTER_ADDR=[::1] MASTER_PORT=1", -1, 0, NULL,
     "tcp://[::1]:1?rank=0&world_size=4&server=1", NULL, NULL, 0, 4, -1, 0},
    {"RANK=0 WORLD_SIZE=4 MASTER_ADDR=::1 MASTER_PORT=1", -1, 0, NULL,
     "tcp://[::1]:1?rank=0&world_size=4&server=1", NULL, NULL, 0, 4, -1, 0},
    {"RANK=0 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=1 TORCHELASTIC_USE_AGENT_STORE=True", -1, 0,
     "env://", "tcp://h:1?rank=0&world_size=4&server=0", NULL, NULL, 0, 4, -1, 0},
    {"RANK=0 WORLD_SIZE=4 MASTER_ADDR=h MASTER_PORT=1 TORCHELASTIC_USE_AGENT_STORE=False", -1, 0,
     NULL, "tcp://h:1?rank=0&world_size=4&server=1", NULL, NULL, 0, 4, -1, 0},
    /* our variables override torchrun's, options override our variables */
    {TORCH " RINGCOMM_RANK=2 RINGCOMM_LOCAL_RANK=0 RINGCOMM_LOCAL_WORLD_SIZE=1", -1, 0, NULL,
     "tcp://h:29500?rank=2&world_size=4&server=0", NULL, NULL, 2, 4, 0, 1},
    {TORCH " RINGCOMM_RANK=2 RINGCOMM_WORLD_SIZE=5", 0, 7, NULL,
     "tcp://h:29500?rank=0&world_size=7&server=1", NULL, NULL, 0, 7, -1, 0},
    {TORCH " RINGCOMM_RANK=junk", 3, 0, NULL, "tcp://h:29500?rank=3&world_size=4&server=0", NULL,
     NULL, 3, 4, -1, 0},
    {TORCH " RINGCOMM_RANK=junk", 1, 0, NULL, "tcp://h:29500?rank=1&world_size=4&server=0", NULL,
     NULL, 1, 4, 1, 2}, /* the same rank: torchrun's local rank and size are used */
    {TORCH " RINGCOMM_RANK= RINGCOMM_URL=", -1, 0, NULL,
     "tcp://h:29500?rank=1&world_size=4&server=0", NULL, NULL, 1, 4, 1, 2}, /* empty: not set */
    {TORCH " RINGCOMM_URL=tcp://n:5", -1, 0, NULL, "tcp://n:5?rank=1&world_size=4&server=0", NULL,
     NULL, 1, 4, 1, 2},
    {TORCH " RINGCOMM_URL=tcp://n:5", 0, 0, "tcp://m:6", "tcp://m:6?rank=0&world_size=4&server=1",
     NULL, NULL, 0, 4, -1, 0},
    {TORCH, -1, 0, "tcp://m:6?server=1", "tcp://m:6?rank=1&world_size=4&server=1", NULL, NULL, 1, 4,
     1, 2},
    {TORCH, -1, 0, "file:///f", "file:///f?rank=1&world_size=4", NULL, NULL, 1, 4, 1, 2},
    /* the URL sets rank and size */
    {"", -1, 0, "tcp://m:6?rank=1&world_size=2", "tcp://m:6?rank=1&world_size=2&server=0", NULL,
     NULL, 1, 2, -1, 0},
    {TORCH, -1, 0, "tcp://m:6?rank=0&world_size=2", "tcp://m:6?rank=0&world_size=2&server=1", NULL,
     NULL, 0, 2, -1, 0}, /* overrides the launcher, whose local rank and size belong to rank 1 */
    {"", 1, 2, "tcp://m:6?rank=1&world_size=2", "tcp://m:6?rank=1&world_size=2&server=0", NULL,
     NULL, 1, 2, -1, 0},
    {"RINGCOMM_URL=file:///f?world_size=3 RINGCOMM_RANK=2", -1, 0, NULL,
     "file:///f?rank=2&world_size=3", NULL, NULL, 2, 3, -1, 0},
    /* a single rank needs no store */
    {"RANK=0 WORLD_SIZE=1", -1, 0, NULL, "hash:", NULL, NULL, 0, 1, -1, 0},
    {"", 0, 1, NULL, "hash:", NULL, NULL, 0, 1, -1, 0},
    {"", 1, 3, "hash:job", "hash:job", NULL, NULL, 1, 3, -1, 0},
    /* missing */
    {"", -1, 0, NULL, NULL, "RANK is not set", "ringcomm-run -n 4 -- PROGRAM", 0, 0, 0, 0},
    {"RANK=0", -1, 0, NULL, NULL, "WORLD_SIZE is not set", "RINGCOMM_WORLD_SIZE", 0, 0, 0, 0},
    {"WORLD_SIZE=2", -1, 0, "tcp://h:1", NULL, "RANK is not set", "RINGCOMM_RANK", 0, 0, 0, 0},
    {"RANK=0 WORLD_SIZE=2", -1, 0, NULL, NULL, "MASTER_ADDR is not set", "RINGCOMM_URL", 0, 0, 0,
     0},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h", -1, 0, NULL, NULL, "MASTER_PORT is not set",
     "ringcomm-run", 0, 0, 0, 0},
    {"RANK=0 WORLD_SIZE=1", -1, 0, "env://", NULL, "MASTER_ADDR is not set", "MASTER_PORT", 0, 0, 0,
     0},
    /* wrong */
    {"RANK=one WORLD_SIZE=2", -1, 0, NULL, NULL, "RANK=one", "number", 0, 0, 0, 0},
    {"RANK=-1 WORLD_SIZE=2", -1, 0, NULL, NULL, "RANK=-1", "0 to", 0, 0, 0, 0},
    {"RINGCOMM_RANK=1x WORLD_SIZE=2", -1, 0, NULL, NULL, "RINGCOMM_RANK=1x", "number", 0, 0, 0, 0},
    {"RANK=0 WORLD_SIZE=0", -1, 0, NULL, NULL, "WORLD_SIZE=0", "1 to", 0, 0, 0, 0},
    {"RANK=2 WORLD_SIZE=2", -1, 0, NULL, NULL, "rank 2 (RANK)", "2 (WORLD_SIZE)", 0, 0, 0, 0},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=0", -1, 0, NULL, NULL, "MASTER_PORT=0",
     "1 to 65535", 0, 0, 0, 0},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=::1] MASTER_PORT=1", -1, 0, NULL, NULL, "MASTER_ADDR=::1]",
     "host", 0, 0, 0, 0},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=[::1 MASTER_PORT=1", -1, 0, NULL, NULL, "MASTER_ADDR=[::1",
     "host", 0, 0, 0, 0},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a@b MASTER_PORT=1", -1, 0, NULL, NULL, "MASTER_ADDR=a@b",
     "host", 0, 0, 0, 0},
    {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=tcp://h MASTER_PORT=1", -1, 0, NULL, NULL,
     "MASTER_ADDR=tcp://h", "host", 0, 0, 0, 0},
    {TORCH " RINGCOMM_LOCAL_RANK=2", -1, 0, NULL, NULL, "RINGCOMM_LOCAL_RANK=2",
     "LOCAL_WORLD_SIZE=2", 0, 0, 0, 0},
    {TORCH " RINGCOMM_URL=tcp://x", -1, 0, NULL, NULL, "RINGCOMM_URL", "no port", 0, 0, 0, 0},
    {TORCH, -1, 0, "hash:", NULL, "options.url=hash:", "hash:NAME", 0, 0, 0, 0},
    /* contradictory */
    {"", 1, 2, "tcp://m:6?rank=0&world_size=2", NULL, "options.rank sets rank to 1",
     "options.url=tcp://m:6?rank=0", 0, 0, 0, 0},
    {"RINGCOMM_WORLD_SIZE=3 RINGCOMM_RANK=1 RINGCOMM_URL=file:///f?world_size=4", -1, 0, NULL, NULL,
     "RINGCOMM_WORLD_SIZE sets world_size to 3", "to 4", 0, 0, 0, 0},
};

static void environments(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *r = &rows[i];
        struct rcm_init_options o = RCM_INIT_OPTIONS_INIT;
        struct rcmi_launch l;
        o.rank = r->rank;
        o.world_size = r->size;
        o.url = r->url;
        environment(r->env);
        bool plain = r->rank < 0 && r->size == 0 && !r->url;
        rcm_status status = rcmi_launch_resolve(plain ? NULL : &o, &l);
        if (r->error) {
            if (status != RCM_ERR_CONFIG)
                fail_msg("row %zu (%s): %s", i, r->env, rcm_status_name(status));
            check_error_names(r->error);
            check_error_names(r->error2);
            continue;
        }
        if (status != RCM_OK)
            fail_msg("row %zu (%s): %s", i, r->env, rcm_last_error());
        assert_string_equal(l.url, r->expect_url);
        assert_int_equal(l.rank, r->expect_rank);
        assert_int_equal(l.world_size, r->expect_size);
        assert_int_equal(l.local_rank, r->expect_local_rank);
        assert_int_equal(l.local_size, r->expect_local_size);
        assert_int_equal(l.attempt, 0);
        assert_non_null(l.origin);
        rcmi_launch_fini(&l);
    }
    environment("");
}

static void given_store(void **state) {
    struct rcm_init_options o = RCM_INIT_OPTIONS_INIT;
    struct rcmi_launch l;
    (void)state;
    check_ok(rcm_store_open("hash:", 0, &o.store));
    environment("RANK=1 WORLD_SIZE=3 RINGCOMM_URL=nonsense TORCHELASTIC_RESTART_COUNT=2");
    check_ok(rcmi_launch_resolve(&o, &l)); /* needs no URL and does not read one */
    assert_null(l.url);
    assert_int_equal(l.rank, 1);
    assert_int_equal(l.world_size, 3);
    assert_int_equal(l.attempt, 2);
    assert_non_null(strstr(l.origin, "options.store"));
    rcmi_launch_fini(&l);
    o.url = "tcp://h:1";
    check_status(RCM_ERR_CONFIG, rcmi_launch_resolve(&o, &l));
    check_error_names("options.store");
    rcm_store_close(o.store);
    environment("");
}

static void origins(void **state) {
    struct rcmi_launch l;
    (void)state;
    environment(TORCH " RINGCOMM_RANK=0");
    check_ok(rcmi_launch_resolve(NULL, &l));
    assert_string_equal(l.origin, "rank from RINGCOMM_RANK, world size from WORLD_SIZE, store from "
                                  "MASTER_ADDR and MASTER_PORT");
    rcmi_launch_fini(&l);
    environment("");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_urls),   cmocka_unit_test(bad_urls), cmocka_unit_test(environments),
        cmocka_unit_test(given_store), cmocka_unit_test(origins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
