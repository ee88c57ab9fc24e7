/* SPDX-License-Identifier: BSD-3-Clause */
/* Start and end of MPI, versions, clock, memory. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "attributes.h"
#include "faces.h"
#include "generalized.h"
#include "leaks.h"
#include "request.h"

static pthread_t main_thread;

int face_Init_thread(struct form *form, int required, int *ret_provided) {
    if (atomic_exchange(&comm_initialized, true))
        return form_error(form, MPI_ERR_OTHER, "MPI was initialized already");
    main_thread = pthread_self();
    comm_thread_level = required;
    if (ret_provided)
        *ret_provided = required;
    return comm_open_world(form);
}

int face_Finalize(struct form *form) {
    if (!comm_is_open())
        return form_error(form, MPI_ERR_OTHER, "MPI is not running");
    int code = attributes_delete(owner_comm(comm_object(MPI_COMM_SELF))); /* calls the program */
    if (code == MPI_SUCCESS)
        code = attributes_delete(owner_comm(comm_object(MPI_COMM_WORLD)));
    if (code != MPI_SUCCESS)
        return code;
    leaks_report();
    code = form_status(form, generalized_close());
    if (code == MPI_SUCCESS)
        code = comm_close_world(form);
    if (!comm_is_open())
        atomic_store(&comm_finalized, true);
    return code;
}

int face_Is_thread_main(struct form *form, int *ret_flag) {
    *ret_flag = pthread_equal(main_thread, pthread_self());
    return MPI_SUCCESS;
}

int face_Abort(struct form *form, MPI_Comm comm, int code) {
    char reason[80];
    snprintf(reason, sizeof reason, "MPI_Abort with code %d", code);
    comm_die(comm, code, reason);
}

static double seconds(const struct timespec *time) {
    return (double)time->tv_sec + 1e-9 * (double)time->tv_nsec;
}

double face_Wtime(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return seconds(&now);
}

double face_Wtick(void) {
    struct timespec tick;
    clock_getres(CLOCK_MONOTONIC, &tick);
    return seconds(&tick);
}

int face_Get_library_version(struct form *form, char *text, int *ret_length) {
    *ret_length = snprintf(text, MPI_MAX_LIBRARY_VERSION_STRING, "libringcomm %s", rcm_version());
    return MPI_SUCCESS;
}

int face_Get_processor_name(struct form *form, char *name, int *ret_length) {
    if (gethostname(name, MPI_MAX_PROCESSOR_NAME - 1) != 0)
        return form_error(form, MPI_ERR_OTHER, "the host has no name (gethostname)");
    name[MPI_MAX_PROCESSOR_NAME - 1] = '\0';
    *ret_length = (int)strlen(name);
    return MPI_SUCCESS;
}

int face_Alloc_mem(struct form *form, MPI_Aint size, void *ret_memory) {
    void *memory = size >= 0 ? malloc((size_t)size + (size == 0)) : NULL;
    if (!memory)
        return form_error(form, size < 0 ? MPI_ERR_ARG : MPI_ERR_NO_MEM, "no memory of %td bytes",
                          (ptrdiff_t)size);
    memcpy(ret_memory, &memory, sizeof memory);
    return MPI_SUCCESS;
}

int face_Free_mem(struct form *form, void *memory) {
    free(memory);
    return MPI_SUCCESS;
}

MPI_Aint face_Aint_add(MPI_Aint base, MPI_Aint displacement) {
    return (MPI_Aint)((uintptr_t)base + (uintptr_t)displacement);
}

MPI_Aint face_Aint_diff(MPI_Aint first, MPI_Aint second) {
    return (MPI_Aint)((uintptr_t)first - (uintptr_t)second);
}
