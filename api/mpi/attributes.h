/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of communicators and datatypes. */
#ifndef ATTRIBUTES_H
#define ATTRIBUTES_H

#include "mpi_comm.h"

/* Copies the attributes to a duplicate, by the copy functions of their keys. */
int attributes_copy(struct form *form, MPI_Comm from, MPI_Comm to);
int attributes_copy_type(struct form *form, MPI_Datatype from, MPI_Datatype to);
/* Deletes all, the last one first, before the communicator or the datatype is freed. */
int attributes_delete(struct form *form, MPI_Comm comm);
int attributes_delete_type(struct form *form, MPI_Datatype type);

#endif
