/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fuzz target: the client of PMI-1 with a process manager that sends anything
 * (rendezvous/launch/pmi1.c). The input is everything that it sends before it closes.
 */
#include "fuzz.h"
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "pmi1.h"

enum { LIMIT_MS = 2000 };

static rcm_status talk(struct rcmi_pmi1 *pmi, int fd) {
    const rcmi_deadline deadline = rcmi_deadline_in(LIMIT_MS);
    char value[64];
    rcm_status status = rcmi_pmi1_init(pmi, fd, deadline);
    if (status == RCM_OK) {
        fuzz_require(pmi->key_max > 0 && pmi->val_max > 0, "there is room for something");
        fuzz_require(memchr(pmi->kvsname, 0, sizeof pmi->kvsname), "a name ends");
        status = rcmi_pmi1_put(pmi, "key", "value", deadline);
    }
    if (status == RCM_OK)
        status = rcmi_pmi1_barrier(pmi, deadline);
    if (status == RCM_OK) {
        status = rcmi_pmi1_get(pmi, "key", deadline, value, sizeof value);
        fuzz_require(status != RCM_OK || memchr(value, 0, sizeof value), "a value ends");
    }
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct rcmi_pmi1 pmi;
    int fds[2];
    memset(&pmi, 0x11, sizeof pmi);
    fuzz_socketpair(fds);
    fuzz_write(fds[1], data, size);
    shutdown(fds[1], SHUT_WR);
    rcm_status status = talk(&pmi, fds[0]);
    fuzz_judge(status);
    (void)!rcmi_pmi1_finalize(&pmi, rcmi_deadline_in(LIMIT_MS));
    close(fds[0]);
    close(fds[1]);
    return 0;
}
