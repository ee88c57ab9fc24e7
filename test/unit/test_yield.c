/* SPDX-License-Identifier: BSD-3-Clause */
/* When yields are suspended and resumed: the accounting, on a simulated clock. */
#include "check.h"
#include "yield.h"

enum { US = 1000, MS = 1000000 };

/* A process that yields repeatedly on a CPU where one yield in `one_in` costs 4 ms (0: none). While
 * yields are suspended it sleeps 20 us each time. */
struct player {
    struct rcmi_yields yields;
    int64_t now, lost_ns;
    int one_in, count;
};

static void player_waits(struct player *player) {
    const int64_t begin = player->now;
    if (!rcmi_yields_allowed(&player->yields, begin)) {
        player->now += 20 * US;
        return;
    }
    const bool lost = player->one_in > 0 && ++player->count % player->one_in == 0;
    player->now += lost ? 4 * MS : 1 * US;
    player->lost_ns += lost ? 4 * MS : 0;
    rcmi_yields_account(&player->yields, begin, player->now);
}

static void player_plays(struct player *player, int one_in, int64_t ns) {
    const int64_t until = player->now + ns;
    player->one_in = one_in;
    while (player->now < until)
        player_waits(player);
}

static void test_alone(void **state) {
    (void)state;
    struct player player = {.now = 1};
    player_plays(&player, 0, 100 * MS);
    assert_true(rcmi_yields_allowed(&player.yields, player.now));
    assert_int_equal(atomic_load(&player.yields.debt), 0);
}

/* Few long yields, even several in a row, do not suspend yields. */
static void test_seldom(void **state) {
    (void)state;
    struct player player = {.now = 1};
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k < 200; k++)
            player_waits(&player);
        player.one_in = 1;
        player_waits(&player);
        player_waits(&player);
        player.one_in = 0;
        assert_true(rcmi_yields_allowed(&player.yields, player.now));
    }
}

/* Every second yield is long: they cost a small share of the time, and less the longer it lasts. */
static void test_neighbour(void **state) {
    (void)state;
    struct player player = {.now = 1};
    player_plays(&player, 2, INT64_C(2000) * MS);
    assert_in_range(player.lost_ns, 52 * MS, 400 * MS);
    const int64_t before = player.lost_ns;
    player_plays(&player, 2, INT64_C(10000) * MS);
    assert_in_range(player.lost_ns - before, 20 * MS, 500 * MS);
}

/* The other process has left: after the last suspension yields resume, and the next suspension is
 * short. */
static void test_neighbour_leaves(void **state) {
    (void)state;
    struct player player = {.now = 1};
    player_plays(&player, 2, INT64_C(5000) * MS);
    player_plays(&player, 0, INT64_C(1100) * MS);
    assert_true(rcmi_yields_allowed(&player.yields, player.now));
    assert_int_equal(atomic_load(&player.yields.debt), 0);
    player.one_in = 1;
    while (rcmi_yields_allowed(&player.yields, player.now))
        player_waits(&player);
    assert_false(rcmi_yields_allowed(&player.yields, player.now + RCMI_YIELD_REST_MIN - 1));
    assert_true(rcmi_yields_allowed(&player.yields, player.now + RCMI_YIELD_REST_MIN));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_seldom),
        cmocka_unit_test(test_neighbour),
        cmocka_unit_test(test_neighbour_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
