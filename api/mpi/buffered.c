/* SPDX-License-Identifier: BSD-3-Clause */
/* See buffered.h. Copies are in memory of malloc; the program's buffer only limits their size. */
#include "buffered.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "device_memory.h"
#include "faces.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sent = PTHREAD_COND_INITIALIZER;
static void *attached;
static MPI_Count attached_bytes = -1;
static size_t pending_bytes; /* of copies that are not sent yet */

struct copy {
    size_t bytes;
    char data[];
};

int buffered_check(struct form *form, const void *memory, size_t bytes) {
    const int code = memory_check_host(form, memory, "MPI_Bsend needs a copy of it");
    if (code != MPI_SUCCESS)
        return code;
    pthread_mutex_lock(&lock);
    const size_t needed = pending_bytes + bytes;
    const MPI_Count room = attached == MPI_BUFFER_AUTOMATIC ? PTRDIFF_MAX : attached_bytes;
    pthread_mutex_unlock(&lock);
    if (room >= 0 && needed <= (size_t)room)
        return MPI_SUCCESS;
    return form_error(form, MPI_ERR_BUFFER,
                      "%zu bytes are to be buffered, but the attached buffer has %lld. Attach a "
                      "larger one (MPI_Buffer_attach)",
                      needed, room < 0 ? 0LL : (long long)room);
}

static void released(void *arg, rcm_status status) {
    struct copy *copy = arg;
    (void)status;
    pthread_mutex_lock(&lock);
    pending_bytes -= copy->bytes;
    pthread_cond_broadcast(&sent);
    pthread_mutex_unlock(&lock);
    free(copy);
}

rcm_status buffered_copy(struct MPI_ABI_Comm *comm, const struct data *data, int dst,
                         uint64_t tag) {
    struct copy *copy = malloc(sizeof *copy + data->bytes + 1);
    rcm_work *work;
    if (!copy)
        return RCM_ERR_NOMEM;
    copy->bytes = data->bytes;
    if (data->bytes)
        memcpy(copy->data, data->address, data->bytes);
    rcm_status status =
        rcm_isend(comm->comm, copy->data, data->count, data->dtype, dst, tag, &work);
    if (status != RCM_OK) {
        free(copy);
        return status;
    }
    pthread_mutex_lock(&lock);
    pending_bytes += data->bytes;
    pthread_mutex_unlock(&lock);
    return rcm_work_detach(work, released, copy);
}

int face_Buffer_attach(struct form *form, void *buffer, MPI_Count size) {
    pthread_mutex_lock(&lock);
    const bool has_one = attached_bytes >= 0;
    if (!has_one) {
        attached = buffer;
        attached_bytes = size;
    }
    pthread_mutex_unlock(&lock);
    return has_one ? form_error(form, MPI_ERR_BUFFER, "a buffer is attached already. Detach it")
                   : MPI_SUCCESS;
}

int face_Buffer_flush(struct form *form) {
    (void)form;
    pthread_mutex_lock(&lock);
    while (pending_bytes > 0)
        pthread_cond_wait(&sent, &lock);
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

int face_Buffer_detach(struct form *form, void *ret_buffer, MPI_Count *ret_size) {
    (void)face_Buffer_flush(form);
    pthread_mutex_lock(&lock);
    memcpy(ret_buffer, &attached, sizeof attached);
    *ret_size = attached_bytes < 0 ? 0 : attached_bytes;
    attached = NULL;
    attached_bytes = -1;
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}
