/* SPDX-License-Identifier: BSD-3-Clause */
/* See contract_breaches.h. Replaces driver functions so that the library breaks its contract. */
#include "contract_breaches.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "cuda.h"

static const struct rcmi_cuda *real;
static struct rcmi_cuda planted;

static rcmi_cuda_code all_is_host(unsigned n, enum rcmi_cuda_pointer_attribute *attributes,
                                  void **values, rcmi_cuda_address address) {
    const rcmi_cuda_code code = real->cuPointerGetAttributes(n, attributes, values, address);
    for (unsigned i = 0; i < n; i++)
        if (attributes[i] == RCMI_CUDA_POINTER_MEMORY_TYPE)
            *(unsigned *)values[i] = 0;
    return code;
}

/* Distinguishes the program's threads, which record the events of its streams. */
static __thread bool is_program;
static struct rcmi_cuda_event *volatile followed;

static rcmi_cuda_code note_followed(struct rcmi_cuda_event *event,
                                    struct rcmi_cuda_stream *stream) {
    if (is_program)
        followed = event;
    return real->cuEventRecord(event, stream);
}

static rcmi_cuda_code others_are_done(struct rcmi_cuda_event *event) {
    return event == followed ? real->cuEventQuery(event) : RCMI_CUDA_SUCCESS;
}

static rcmi_cuda_code followed_is_done(struct rcmi_cuda_event *event) {
    return event == followed ? RCMI_CUDA_SUCCESS : real->cuEventQuery(event);
}

static void begin(void) {
    if (rcmi_cuda_open(&real) != RCM_OK)
        abort();
    planted = *real;
    planted.cuEventRecord = note_followed;
    is_program = true;
}

static void plant_dereference(int rank) {
    (void)rank;
    begin();
    planted.cuPointerGetAttributes = all_is_host;
    rcmi_cuda_set(&planted);
}

static void plant_early(int rank) {
    (void)rank;
    begin();
    planted.cuEventQuery = others_are_done;
    rcmi_cuda_set(&planted);
}

static void plant_fence(int rank) {
    (void)rank;
    begin();
    planted.cuEventQuery = followed_is_done;
    rcmi_cuda_set(&planted);
}

void (*breach_find(const char *name))(int rank) {
    static const struct {
        const char *name;
        void (*plant)(int rank);
    } all[] = {{"dereference", plant_dereference}, {"early", plant_early}, {"fence", plant_fence}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i].name, name) == 0)
            return all[i].plant;
    return NULL;
}
