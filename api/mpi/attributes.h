/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of communicators and datatypes. */
#ifndef ATTRIBUTES_H
#define ATTRIBUTES_H

#include "datatype.h"
#include "mpi_comm.h"

/* What has attributes: one of the handles is set. */
struct owner {
    struct attribute **list;
    MPI_Comm comm;
    MPI_Datatype type;
};
struct owner owner_comm(struct MPI_ABI_Comm *comm);
struct owner owner_type(struct MPI_ABI_Datatype *type);
int owner_find_comm(struct form *form, MPI_Comm comm, struct owner *ret_owner);
int owner_find_type(struct form *form, MPI_Datatype type, struct owner *ret_owner);

/* Copies the attributes to a duplicate, by the copy functions of their keys. */
int attributes_copy(struct form *form, struct owner from, struct owner to);
/* Deletes all, the last one first, before the communicator or the datatype is freed. */
int attributes_delete(struct owner owner);

#endif
