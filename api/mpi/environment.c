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

static atomic_int initialized, finalized;
static int thread_level = MPI_THREAD_SINGLE;
static pthread_t main_thread;

int face_Init_thread(struct form *form, int *argc, char ***argv, int required, int *ret_provided) {
    (void)argc;
    (void)argv;
    if (atomic_exchange(&initialized, 1))
        return form_error(form, MPI_ERR_OTHER, "MPI was initialized already");
    main_thread = pthread_self();
    thread_level = required;
    *ret_provided = required;
    return comm_open_world(form);
}

int face_Init(struct form *form, int *argc, char ***argv) {
    int provided;
    return face_Init_thread(form, argc, argv, MPI_THREAD_MULTIPLE, &provided);
}

int face_Initialized(struct form *form, int *ret_flag) {
    (void)form;
    *ret_flag = atomic_load(&initialized);
    return MPI_SUCCESS;
}

int face_Finalize(struct form *form) {
    if (!comm_is_open())
        return form_error(form, MPI_ERR_OTHER, "MPI is not running");
    int code =
        attributes_delete(form, MPI_COMM_SELF); /* first, so that a program's functions run */
    if (code == MPI_SUCCESS)
        code = attributes_delete(form, MPI_COMM_WORLD);
    if (code != MPI_SUCCESS)
        return code;
    leaks_report();
    code = form_status(form, generalized_close());
    if (code == MPI_SUCCESS)
        code = comm_close_world(form);
    if (!comm_is_open())
        atomic_store(&finalized, 1);
    return code;
}

int face_Finalized(struct form *form, int *ret_flag) {
    (void)form;
    *ret_flag = atomic_load(&finalized);
    return MPI_SUCCESS;
}

int face_Query_thread(struct form *form, int *ret_provided) {
    (void)form;
    *ret_provided = thread_level;
    return MPI_SUCCESS;
}

int face_Is_thread_main(struct form *form, int *ret_flag) {
    (void)form;
    *ret_flag = pthread_equal(main_thread, pthread_self());
    return MPI_SUCCESS;
}

int face_Abort(struct form *form, MPI_Comm comm, int code) {
    char reason[80];
    (void)form;
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

int face_Get_version(struct form *form, int *ret_version, int *ret_subversion) {
    (void)form;
    *ret_version = MPI_VERSION;
    *ret_subversion = MPI_SUBVERSION;
    return MPI_SUCCESS;
}

int face_Abi_get_version(struct form *form, int *ret_major, int *ret_minor) {
    (void)form;
    *ret_major = MPI_ABI_VERSION;
    *ret_minor = MPI_ABI_SUBVERSION;
    return MPI_SUCCESS;
}

int face_Get_library_version(struct form *form, char *text, int *ret_length) {
    (void)form;
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

int face_Pcontrol(struct form *form, int level) {
    (void)form;
    (void)level;
    return MPI_SUCCESS;
}

int face_Alloc_mem(struct form *form, MPI_Aint size, MPI_Info info, void *ret_memory) {
    (void)info;
    void *memory = size >= 0 ? malloc((size_t)size + (size == 0)) : NULL;
    if (!memory)
        return form_error(form, size < 0 ? MPI_ERR_ARG : MPI_ERR_NO_MEM, "no memory of %td bytes",
                          (ptrdiff_t)size);
    memcpy(ret_memory, &memory, sizeof memory);
    return MPI_SUCCESS;
}

int face_Free_mem(struct form *form, void *memory) {
    (void)form;
    free(memory);
    return MPI_SUCCESS;
}

int face_Get_address(struct form *form, const void *location, MPI_Aint *ret_address) {
    (void)form;
    *ret_address = (MPI_Aint)location;
    return MPI_SUCCESS;
}

MPI_Aint face_Aint_add(MPI_Aint base, MPI_Aint displacement) {
    return (MPI_Aint)((uintptr_t)base + (uintptr_t)displacement);
}

MPI_Aint face_Aint_diff(MPI_Aint first, MPI_Aint second) {
    return (MPI_Aint)((uintptr_t)first - (uintptr_t)second);
}
