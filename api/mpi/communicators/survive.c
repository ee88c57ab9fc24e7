/* SPDX-License-Identifier: BSD-3-Clause */
/* Going on after ranks have died: two functions beside the ABI, as in ULFM (User Level Failure
 * Mitigation). Programs declare them themselves. */
#include "mpi_comm.h"

int MPIX_Comm_revoke(MPI_Comm comm);
int MPIX_Comm_shrink(MPI_Comm comm, MPI_Comm *ret_comm);

/* Ends all operations of comm on all ranks. */
int MPIX_Comm_revoke(MPI_Comm handle) {
    struct form form = {.name = "MPIX_Comm_revoke"};
    struct MPI_ABI_Comm *comm;
    int code = comm_find(&form, handle, &comm);
    if (code == MPI_SUCCESS)
        code = form_status(&form, rcm_abort(comm->comm, "MPIX_Comm_revoke"));
    return form_end(&form, code);
}

/* Makes a communicator of the ranks of comm that live. Then comm can only be freed. */
int MPIX_Comm_shrink(MPI_Comm handle, MPI_Comm *ret_comm) {
    struct form form = {.name = "MPIX_Comm_shrink"};
    struct MPI_ABI_Comm *comm;
    rcm_comm *made = NULL;
    rcm_status status = RCM_OK;
    int code = comm_find(&form, handle, &comm);
    if (code == MPI_SUCCESS)
        code = comm_check_intra(&form, comm);
    if (code == MPI_SUCCESS)
        status = rcm_comm_shrink(comm->comm, NULL, &made);
    comm_survive();
    if (code == MPI_SUCCESS)
        code = comm_wrap(&form, comm, comm_next_shrunk_id(comm), status, made, ret_comm);
    return form_end(&form, code);
}
