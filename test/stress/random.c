/* SPDX-License-Identifier: BSD-3-Clause */
/* See random.h. */
#include "random.h"

static uint64_t mix(uint64_t x) { /* splitmix64 */
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t draw_next(struct draw *draw) {
    draw->state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(draw->state);
}

struct draw draw_of(uint64_t seed, uint64_t episode, uint64_t thread, uint64_t step) {
    struct draw draw = {.state = seed};
    draw.state = draw_next(&draw) ^ episode;
    draw.state = draw_next(&draw) ^ thread;
    draw.state = draw_next(&draw) ^ step;
    return draw;
}

struct draw draw_of_rank(const struct draw *draw, int rank) {
    return (struct draw){.state = mix(draw->state ^ (uint64_t)(rank + 1) << 40)};
}

unsigned draw_below(struct draw *draw, unsigned n) {
    return (unsigned)((draw_next(draw) >> 32) * n >> 32);
}

bool draw_one_in(struct draw *draw, unsigned n) {
    return draw_below(draw, n) == 0;
}

size_t draw_count(struct draw *draw, size_t size, size_t slot_bytes, size_t most) {
    const size_t slot = slot_bytes / size;
    size_t count = draw_below(draw, 20); /* the drawn range, then the count */
    if (count < 2)
        count = 0;
    else if (count < 4)
        count = 1;
    else if (count < 9)
        count = 2 + draw_below(draw, 30);
    else if (count < 14)
        count = 32 + draw_below(draw, 2000);
    else if (count < 17)
        count = slot + draw_below(draw, 5) - (slot > 2 ? 2 : 0);
    else
        count = slot + draw_below(draw, (unsigned)(5 * slot + 1));
    return count < most ? count : most;
}

void draw_order(struct draw *draw, int n, int *ret_order) {
    for (int i = 0; i < n; i++) {
        const int j = (int)draw_below(draw, (unsigned)i + 1);
        if (j < i)
            ret_order[i] = ret_order[j];
        ret_order[j] = i;
    }
}
