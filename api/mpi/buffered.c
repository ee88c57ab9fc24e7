/* SPDX-License-Identifier: BSD-3-Clause */
/* See buffered.h. Copies are in memory of malloc; the program's buffer only limits their size. */
#include "buffered.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "device_memory.h"
#include "faces.h"
#include "generalized.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sent = PTHREAD_COND_INITIALIZER;

struct pool {
    bool is_attached;
    void *buffer;
    MPI_Count bytes;
    size_t pending;        /* bytes of copies that are not sent yet */
    struct flush *flushes; /* requests that wait until there are none */
};
struct flush {
    struct flush *next;
    MPI_Request request;
};
struct pool pool_process;

struct copy {
    struct pool *pool; /* NULL: it is not charged */
    MPI_Comm comm;     /* with a reference */
    size_t bytes;
    char data[];
};

/* The buffer of a communicator, or that of the process if it has none. */
static struct pool *find_pool(const struct MPI_ABI_Comm *comm) {
    return comm && comm->pool && comm->pool->is_attached ? comm->pool : &pool_process;
}

int buffered_check(struct form *form, const void *memory, size_t bytes) {
    struct MPI_ABI_Comm *comm = NULL;
    const int code = memory_check_host(form, memory, "MPI_Bsend needs a copy of it");
    if (code != MPI_SUCCESS)
        return code;
    (void)comm_find(form, form->comm, &comm);
    pthread_mutex_lock(&lock);
    const struct pool *pool = find_pool(comm);
    const size_t needed = pool->pending + bytes;
    const MPI_Count room = !pool->is_attached                     ? 0
                           : pool->buffer == MPI_BUFFER_AUTOMATIC ? PTRDIFF_MAX
                                                                  : pool->bytes;
    const bool fits = pool->is_attached && needed <= (size_t)room;
    pthread_mutex_unlock(&lock);
    return fits ? MPI_SUCCESS
                : form_error(form, MPI_ERR_BUFFER,
                             "%zu bytes are to be buffered, but the attached buffer has %lld. "
                             "Attach a larger one (MPI_Buffer_attach)",
                             needed, (long long)room);
}

/* With the lock: completes the requests if nothing is pending. */
static void complete_flushes(struct pool *pool) {
    struct form form = {.name = "MPI_Buffer_iflush"};
    while (pool->pending == 0 && pool->flushes) {
        struct flush *flush = pool->flushes;
        pool->flushes = flush->next;
        (void)face_Grequest_complete(&form, flush->request);
        free(flush);
    }
}

static void released(void *arg, rcm_status status) {
    struct copy *copy = arg;
    (void)status;
    comm_put(copy->comm);
    if (copy->pool) {
        pthread_mutex_lock(&lock);
        copy->pool->pending -= copy->bytes;
        complete_flushes(copy->pool);
        pthread_cond_broadcast(&sent);
        pthread_mutex_unlock(&lock);
    }
    free(copy);
    comm_detached();
}

/* pool: the buffer that is charged, or NULL. */
static rcm_status send_copy(struct MPI_ABI_Comm *comm, struct pool *pool, const struct data *data,
                            int dst, uint64_t tag) {
    struct copy *copy = malloc(sizeof *copy + data->bytes + 1);
    rcm_work *work;
    if (!copy)
        return RCM_ERR_NOMEM;
    copy->pool = pool;
    copy->bytes = data->bytes;
    if (data->bytes)
        memcpy(copy->data, data->address, data->bytes);
    rcm_status status =
        rcm_isend(comm->comm, copy->data, data->count, data->dtype, dst, tag, &work);
    if (status != RCM_OK) {
        free(copy);
        return status;
    }
    copy->comm = comm_handle(comm);
    comm_get(copy->comm);
    if (pool) {
        pthread_mutex_lock(&lock);
        pool->pending += data->bytes;
        pthread_mutex_unlock(&lock);
    }
    return comm_detach(work, released, copy);
}

rcm_status buffered_copy(struct MPI_ABI_Comm *comm, const struct data *data, int dst,
                         uint64_t tag) {
    return send_copy(comm, find_pool(comm), data, dst, tag);
}

rcm_status buffered_copy_free(struct MPI_ABI_Comm *comm, const struct data *data, int dst,
                              uint64_t tag) {
    return send_copy(comm, NULL, data, dst, tag);
}

int face_attach_buffer(struct form *form, struct pool *pool, void *buffer, MPI_Count size) {
    pthread_mutex_lock(&lock);
    const bool has_one = pool->is_attached;
    if (!has_one) {
        pool->is_attached = true;
        pool->buffer = buffer;
        pool->bytes = buffer == MPI_BUFFER_AUTOMATIC ? 0 : size;
    }
    pthread_mutex_unlock(&lock);
    return has_one ? form_error(form, MPI_ERR_BUFFER, "a buffer is attached already. Detach it")
                   : MPI_SUCCESS;
}

/* With the lock: waits until nothing is pending. */
static void wait_sent(const struct pool *pool) {
    while (pool && pool->pending > 0)
        pthread_cond_wait(&sent, &lock);
}

int face_flush_buffer(struct form *form, struct pool *pool) {
    pthread_mutex_lock(&lock);
    wait_sent(pool);
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

int face_detach_buffer(struct form *form, struct pool *pool, void *ret_buffer,
                       MPI_Count *ret_size) {
    static const struct pool none;
    pthread_mutex_lock(&lock);
    wait_sent(pool);
    const struct pool old = *pool;
    memcpy(ret_buffer, &old.buffer, sizeof old.buffer);
    *ret_size = old.bytes;
    *pool = none;
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

int face_iflush_buffer(struct form *form, struct pool *pool, MPI_Request *ret_request) {
    static const struct generalized functions;
    struct flush *made = malloc(sizeof *made);
    const int code = made ? generalized_start(form, &functions, ret_request)
                          : form_error(form, MPI_ERR_NO_MEM, "no memory for a request");
    if (code != MPI_SUCCESS) {
        free(made);
        return code;
    }
    pthread_mutex_lock(&lock);
    *made = (struct flush){pool->flushes, *ret_request};
    pool->flushes = made;
    complete_flushes(pool);
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

void buffered_close(struct MPI_ABI_Comm *comm) {
    (void)face_flush_buffer(NULL, comm->pool);
    free(comm->pool);
    comm->pool = NULL;
}

int pool_find(struct form *form, MPI_Comm handle, struct pool **ret_pool) {
    struct MPI_ABI_Comm *comm;
    const int code = comm_find(form, handle, &comm);
    if (code != MPI_SUCCESS)
        return code;
    pthread_mutex_lock(&lock);
    if (!comm->pool)
        comm->pool = calloc(1, sizeof *comm->pool);
    *ret_pool = comm->pool;
    pthread_mutex_unlock(&lock);
    return *ret_pool ? MPI_SUCCESS : form_error(form, MPI_ERR_NO_MEM, "no memory for a buffer");
}
