/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether this process can have the descriptors that links to its peers take, see row.h. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include "error.h"
#include "fd.h"
#include "row.h"

/* Of more ranks some are linked to: those of other hosts have few neighbours here. */
enum { PEERS_MAX = 64, WANTED_MAX = 256 };

int rcmi_descriptor_peers(int nranks) {
    const int peers = nranks - 1;
    return peers < PEERS_MAX ? peers : PEERS_MAX;
}

rcm_status rcmi_descriptors_try(const char *links, int wanted) {
    /* Ranks that are threads try one after the other, or they would take each other's. */
    static pthread_mutex_t trying = PTHREAD_MUTEX_INITIALIZER;
    rcm_status status = RCM_OK;
    int fds[WANTED_MAX], n = 0;
    pthread_mutex_lock(&trying);
    fds[0] = rcmi_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (fds[0] >= 0)
        for (n = 1; n < wanted && (fds[n] = fcntl(fds[0], F_DUPFD_CLOEXEC, 3)) >= 0;)
            n++;
    if (n < wanted)
        status = rcmi_fail(RCM_ERR_RESOURCE, errno,
                           "links by %s need %d descriptors, and %d can be had", links, wanted, n);
    while (n > 0)
        rcmi_fd_close(&fds[--n]);
    pthread_mutex_unlock(&trying);
    return status;
}
