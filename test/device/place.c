/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers in the fake device's memory: see ../coll/place.h. DEVICE_SEED: of its delays. */
#include "place.h"
#include <stdlib.h>
#include "../fakes/device/fake.h"

bool place_is_host(void) {
    return false;
}

void place_init(void) {
    const char *seed = getenv("DEVICE_SEED");
    fake_add(seed ? (unsigned)atoi(seed) : 1);
}

void *place_new(size_t bytes) {
    return fake_alloc(bytes ? bytes : 1);
}

void place_free(void *place) {
    if (place)
        fake_free(place);
}

void *place_view(const void *place) {
    return fake_view(place);
}

int place_used(const void *place, size_t bytes) {
    return fake_running(place, bytes);
}
