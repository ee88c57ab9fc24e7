/* SPDX-License-Identifier: BSD-3-Clause */
/* Cartesian topologies. Ranks count the coordinates with the last dimension first. */
#include "communicators.h"
#include <stdlib.h>
#include <string.h>
#include "faces.h"

static int *dims_of(struct cart *cart) {
    return cart->places;
}
static int *periods_of(struct cart *cart) {
    return cart->places + cart->ndims;
}
static int *coords_of(struct cart *cart) {
    return cart->places + 2 * (size_t)cart->ndims;
}

static size_t cart_bytes(int ndims) {
    return sizeof(struct cart) + 3 * sizeof(int) * (size_t)ndims;
}

int topology_copy(struct form *form, const struct MPI_ABI_Comm *from, MPI_Comm to) {
    if (!from->cart)
        return MPI_SUCCESS;
    to->cart = malloc(cart_bytes(from->cart->ndims));
    if (!to->cart)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for a topology");
    memcpy(to->cart, from->cart, cart_bytes(from->cart->ndims));
    return MPI_SUCCESS;
}

static int check_room(struct form *form, int have, int needed) {
    return have >= needed ? MPI_SUCCESS
                          : form_error(form, MPI_ERR_DIMS,
                                       "maxdims is %d, but there are %d dimensions", have, needed);
}

/* The number of places of a grid, at most `size`. */
static int count_places(struct form *form, int ndims, const int *dims, int size, int *ret_count) {
    long long count = 1;
    if (ndims < 0)
        return form_error(form, MPI_ERR_DIMS, "ndims is %d", ndims);
    for (int i = 0; i < ndims; i++) {
        if (dims[i] <= 0)
            return form_error(form, MPI_ERR_DIMS, "dims[%d] is %d, but dimensions are 1 or more", i,
                              dims[i]);
        count *= dims[i];
        if (count > size)
            return form_error(form, MPI_ERR_DIMS, "the grid has %lld places or more for %d ranks",
                              count, size);
    }
    *ret_count = (int)count;
    return MPI_SUCCESS;
}

static void set_coords(struct cart *cart, int rank, int *coords) {
    for (int i = cart->ndims - 1; i >= 0; i--) {
        coords[i] = rank % dims_of(cart)[i];
        rank /= dims_of(cart)[i];
    }
}

/* Makes the communicator of a colour, with a grid unless colour is negative. */
static int make_cart(struct form *form, struct MPI_ABI_Comm *comm, int colour, int ndims,
                     const int *dims, const int *periods, MPI_Comm *ret_comm) {
    rcm_comm *made = NULL;
    struct cart *cart = calloc(1, cart_bytes(ndims));
    if (!cart)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for a topology");
    cart->ndims = ndims;
    for (int i = 0; i < ndims; i++) {
        dims_of(cart)[i] = dims[i];
        periods_of(cart)[i] = periods[i] != 0;
    }
    const rcm_status status = rcm_comm_split(comm->comm, colour, comm->rank, NULL, &made);
    const int code = comm_wrap(form, comm, comm_next_id(comm), status, made, ret_comm);
    if (*ret_comm == MPI_COMM_NULL) {
        free(cart);
        return code;
    }
    set_coords(cart, (*ret_comm)->rank, coords_of(cart));
    (*ret_comm)->cart = cart;
    return MPI_SUCCESS;
}

int face_Cart_create(struct form *form, struct MPI_ABI_Comm *comm, int ndims, const int *dims,
                     const int *periods, MPI_Comm *ret_comm) {
    int count = 0;
    const int code = count_places(form, ndims, dims, comm->size, &count);
    return code == MPI_SUCCESS
               ? make_cart(form, comm, comm->rank < count ? 0 : -1, ndims, dims, periods, ret_comm)
               : code;
}

int face_Cart_map(struct form *form, struct MPI_ABI_Comm *comm, int ndims, const int *dims,
                  int *ret_rank) {
    int count = 0;
    const int code = count_places(form, ndims, dims, comm->size, &count);
    *ret_rank = comm->rank < count ? comm->rank : MPI_UNDEFINED;
    return code;
}

int face_Cart_get(struct form *form, struct MPI_ABI_Comm *comm, int maxdims, int *dims,
                  int *periods, int *coords) {
    const int code = check_room(form, maxdims, comm->cart->ndims);
    for (int i = 0; code == MPI_SUCCESS && i < comm->cart->ndims; i++) {
        dims[i] = dims_of(comm->cart)[i];
        periods[i] = periods_of(comm->cart)[i];
        coords[i] = coords_of(comm->cart)[i];
    }
    return code;
}

int face_Cart_coords(struct form *form, struct MPI_ABI_Comm *comm, int rank, int maxdims,
                     int *coords) {
    if (rank < 0 || rank >= comm->size)
        return form_error(form, MPI_ERR_RANK, "rank is %d, but %s has ranks 0 to %d", rank,
                          comm_name(comm), comm->size - 1);
    const int code = check_room(form, maxdims, comm->cart->ndims);
    if (code == MPI_SUCCESS)
        set_coords(comm->cart, rank, coords);
    return code;
}

/* The rank at coordinates, at a distance along a direction. Periodic dimensions wrap; MPI_PROC_NULL
 * outside of the grid. */
static int rank_at(struct cart *cart, const int *coords, int direction, long long distance) {
    long long rank = 0;
    for (int i = 0; i < cart->ndims; i++) {
        const int n = dims_of(cart)[i];
        long long at = coords[i] + (i == direction ? distance : 0);
        if (periods_of(cart)[i])
            at = (at % n + n) % n;
        if (at < 0 || at >= n)
            return MPI_PROC_NULL;
        rank = rank * n + at;
    }
    return (int)rank;
}

int face_Cart_rank(struct form *form, struct MPI_ABI_Comm *comm, const int *coords, int *ret_rank) {
    *ret_rank = rank_at(comm->cart, coords, -1, 0);
    return *ret_rank == MPI_PROC_NULL
               ? form_error(form, MPI_ERR_ARG, "the coordinates are outside of the grid")
               : MPI_SUCCESS;
}

int face_Cart_shift(struct form *form, struct MPI_ABI_Comm *comm, int direction, int displacement,
                    int *ret_source, int *ret_destination) {
    if (direction < 0 || direction >= comm->cart->ndims)
        return form_error(form, MPI_ERR_DIMS, "direction is %d, but there are %d dimensions",
                          direction, comm->cart->ndims);
    const int *own = coords_of(comm->cart);
    *ret_source = rank_at(comm->cart, own, direction, -(long long)displacement);
    *ret_destination = rank_at(comm->cart, own, direction, displacement);
    return MPI_SUCCESS;
}

int face_Cart_sub(struct form *form, struct MPI_ABI_Comm *comm, const int *remain,
                  MPI_Comm *ret_comm) {
    struct cart *cart = comm->cart;
    int ndims = 0, colour = 0;
    int *kept = malloc(2 * sizeof *kept * (size_t)cart->ndims + 1);
    if (!kept)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for %d dimensions", cart->ndims);
    int *periods = kept + cart->ndims;
    for (int i = 0; i < cart->ndims; i++) {
        if (remain[i]) {
            kept[ndims] = dims_of(cart)[i];
            periods[ndims++] = periods_of(cart)[i];
        } else {
            colour = colour * dims_of(cart)[i] + coords_of(cart)[i];
        }
    }
    const int made = make_cart(form, comm, colour, ndims, kept, periods, ret_comm);
    free(kept);
    return made;
}

/* Factors in ascending order: those of the search, and the best ones. */
struct factors {
    int n;
    int *now, *best;
};

/* Searches the factors from number `at` on, whose product is `left`. The best ones are closest to
 * each other: the last one and the first have the least difference, and of several these the first
 * is the largest. */
static void find_factors(struct factors *factors, int at, int left) {
    const int last = factors->n - 1;
    int *now = factors->now, *best = factors->best;
    if (at == last) {
        now[at] = left;
        if (best[last] == 0 || left - now[0] <= best[last] - best[0])
            memcpy(best, now, sizeof *best * (size_t)factors->n);
        return;
    }
    for (int d = at > 0 ? now[at - 1] : 1;; d++) {
        double power = 1;
        for (int i = at; i < factors->n && power <= left; i++)
            power *= d;
        if (power > left)
            break;
        if (left % d == 0) {
            now[at] = d;
            find_factors(factors, at + 1, left / d);
        }
    }
}

int face_Dims_create(struct form *form, int nnodes, int ndims, int *dims) {
    int left = nnodes;
    struct factors factors = {.n = 0};
    for (int i = 0; i < ndims; i++) {
        if (dims[i] < 0 || (dims[i] > 0 && (left <= 0 || left % dims[i] != 0)))
            return form_error(form, MPI_ERR_DIMS, "dims[%d] is %d, which does not divide %d", i,
                              dims[i], left);
        if (dims[i] > 0)
            left /= dims[i];
        else
            factors.n++;
    }
    if (nnodes < 1 || ndims < 0 || (factors.n == 0 && left != 1))
        return form_error(form, MPI_ERR_DIMS, "no grid of %d dimensions has %d places", ndims,
                          nnodes);
    factors.now = calloc(2 * (size_t)factors.n + 1, sizeof *factors.now);
    if (!factors.now)
        return form_error(form, MPI_ERR_NO_MEM, "no memory for %d dimensions", ndims);
    factors.best = factors.now + factors.n;
    if (factors.n > 0)
        find_factors(&factors, 0, left);
    for (int i = 0; i < ndims; i++)
        if (dims[i] == 0)
            dims[i] = factors.best[--factors.n];
    free(factors.now);
    return MPI_SUCCESS;
}
