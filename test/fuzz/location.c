/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: locations in a peer's segment, as sent with messages and in posted locations
 * (transport/shm/blocks.c). An accepted location can be read and written from its first to its last
 * byte, and earlier ones still can.
 */
#include "fuzz.h"
#include <string.h>
#include <unistd.h>
#include "../../transport/shm/shm.h"
#include "fd.h"

enum { FILE_BYTES = (2 << 20) + (64 << 10), STEPS = 100 };

static struct shm_domain domain;
static struct shm_link peer = {.domain = &domain, .memfd = -1};

static void link_make(void) {
    if (peer.memfd >= 0)
        return;
    domain.page = (size_t)sysconf(_SC_PAGESIZE);
    pthread_mutex_init(&peer.lock, NULL);
    fuzz_require(rcmi_memfd_create("fuzz", FILE_BYTES, &peer.memfd) == RCM_OK, "there is memory");
}

static void touch(uint8_t *bytes, size_t len) {
    if (len == 0)
        return;
    bytes[0] = (uint8_t)(bytes[0] + 1);
    bytes[len - 1] = (uint8_t)(bytes[len - 1] + 1);
}

/* 24 bytes of location, 4 of length; the lowest bit of the first byte selects the channel end. */
static rcm_status step(struct fuzz_input *in, struct shm_window *windows[2]) {
    struct shm_location location = {.block_at = 0};
    const int which = fuzz_u8(in) & 1;
    const size_t len = fuzz_u16(in) | (size_t)fuzz_u16(in) << 16;
    void *bytes = NULL;
    size_t n;
    const uint8_t *from = fuzz_bytes(in, sizeof location, &n);
    memcpy(&location, from, n);
    rcm_status status = shm_window_find(&peer, &location, len, &windows[which], &bytes);
    fuzz_require(status != RCM_OK || len <= FILE_BYTES, "no message is longer than the file");
    if (status == RCM_OK)
        touch(bytes, len);
    for (int i = 0; i < 2; i++)
        if (windows[i])
            touch(windows[i]->base, windows[i]->len);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_input in = {data, size};
    struct shm_window *windows[2] = {NULL, NULL};
    rcm_status worst = RCM_OK;
    link_make();
    for (int i = 0; in.left > 0 && i < STEPS; i++) {
        rcm_status status = step(&in, windows);
        worst = status != RCM_OK ? status : worst;
    }
    for (int i = 0; i < 2; i++)
        shm_window_drop(&peer, &windows[i]);
    shm_windows_fini(&peer);
    fuzz_judge(worst);
    return 0;
}
