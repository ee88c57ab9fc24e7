/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams of the fake device. See ../coll/stream_gate.h. */
#include "stream_gate.h"
#include <stdlib.h>
#include "../fakes/device/fake.h"

struct gate *gate_new(void) {
    struct gate *gate = malloc(sizeof *gate);
    if (!gate)
        abort();
    gate->stream = fake_stream_new();
    fake_stream_enqueue(gate->stream);
    return gate;
}

void gate_open(struct gate *gate) {
    fake_stream_done(gate->stream);
}

void gate_free(struct gate *gate) {
    free(gate);
}
