/* SPDX-License-Identifier: BSD-3-Clause */
/* How derived datatypes were made: MPI_Type_get_envelope and MPI_Type_get_contents. Counts are ints
 * and addresses of their own if the type was made without large counts. */
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "datatype.h"
#include "faces.h"

struct item {
    char kind; /* i, c, a: as in a layout */
    MPI_Count value;
};
struct contents {
    atomic_int references; /* of types that were made alike */
    int combiner;
    bool is_large;
    MPI_Count ntypes, nitems;
    MPI_Datatype *types; /* with references */
    struct item items[];
};

void contents_put(struct contents *contents) {
    if (!contents || atomic_fetch_sub(&contents->references, 1) != 1)
        return;
    for (MPI_Count i = 0; i < contents->ntypes; i++)
        if (!is_predefined(contents->types[i]))
            type_put(contents->types[i]);
    free(contents->types);
    free(contents);
}

static void add_type(struct contents *contents, MPI_Datatype type) {
    if (!is_predefined(type))
        type_get(type);
    contents->types[contents->ntypes++] = type;
}

static void add_item(struct contents *contents, char kind, MPI_Count value) {
    contents->items[contents->nitems++] = (struct item){kind, value};
}

/* Adds the arguments: see type_keep. */
static void add_all(struct contents *contents, MPI_Count n, const char *layout, va_list *args) {
    for (; *layout; layout++) {
        const char kind = *layout >= 'a' ? *layout : (char)(*layout - 'A' + 'a');
        if (*layout == 't') {
            add_type(contents, va_arg(*args, MPI_Datatype));
        } else if (*layout == 'T') {
            const MPI_Datatype *types = va_arg(*args, const MPI_Datatype *);
            for (MPI_Count i = 0; i < n; i++)
                add_type(contents, types[i]);
        } else if (*layout == 'i') {
            add_item(contents, kind, va_arg(*args, int));
        } else if (*layout == 'c' || *layout == 'a') {
            add_item(contents, kind, va_arg(*args, MPI_Count));
        } else {
            const struct array array = *layout == 'I'
                                           ? (struct array){va_arg(*args, const int *), false}
                                           : va_arg(*args, struct array);
            for (int i = 0; i < n; i++)
                add_item(contents, kind, array_at(array, i));
        }
    }
}

int type_keep(struct form *form, int code, MPI_Datatype *type, int combiner, MPI_Count n,
              const char *layout, ...) {
    if (code != MPI_SUCCESS)
        return code;
    const size_t room = strlen(layout) * (size_t)(n + 1);
    struct contents *made = calloc(1, sizeof *made + room * sizeof made->items[0]);
    MPI_Datatype *types = calloc(room, sizeof(MPI_Datatype));
    if (!made || !types) {
        free(made);
        free(types);
        type_put(*type);
        *type = MPI_DATATYPE_NULL;
        return form_error(form, MPI_ERR_NO_MEM, "no memory for the arguments of a datatype");
    }
    atomic_init(&made->references, 1);
    made->combiner = combiner;
    made->is_large = form_is_large(form);
    made->types = types;
    va_list args;
    va_start(args, layout);
    add_all(made, n, layout, &args);
    va_end(args);
    (*type)->contents = made;
    return MPI_SUCCESS;
}

/* A type that is made like a derived one: the program frees it, and it has no attributes. */
static int make_alike(struct form *form, const struct MPI_ABI_Datatype *type,
                      MPI_Datatype *ret_type) {
    struct type_part *parts = malloc((type->nparts + 1) * sizeof *parts);
    if (parts)
        memcpy(parts, type->parts, type->nparts * sizeof *parts);
    const int code = type_make(form, parts, type->nparts, ret_type);
    if (code != MPI_SUCCESS)
        return code;
    type_inherit(*ret_type, type);
    (*ret_type)->contents = type->contents;
    atomic_fetch_add(&type->contents->references, 1);
    return MPI_SUCCESS;
}

/* Where an item is returned: with the ints, the addresses or the counts. */
static char place_of(const struct contents *contents, char kind) {
    return kind == 'i' ? 'i' : contents->is_large ? 'c' : kind == 'c' ? 'i' : kind;
}

int face_Type_get_envelope_c(struct form *form, struct MPI_ABI_Datatype *type, MPI_Count *ret_ints,
                             MPI_Count *ret_addresses, MPI_Count *ret_counts, MPI_Count *ret_types,
                             int *ret_combiner) {
    const struct contents *contents = type->contents;
    *ret_combiner = contents ? contents->combiner : MPI_COMBINER_NAMED;
    *ret_ints = *ret_addresses = *ret_counts = 0;
    *ret_types = contents ? contents->ntypes : 0;
    for (MPI_Count i = 0; contents && i < contents->nitems; i++) {
        const char place = place_of(contents, contents->items[i].kind);
        *(place == 'i' ? ret_ints : place == 'a' ? ret_addresses : ret_counts) += 1;
    }
    return MPI_SUCCESS;
}

int face_Type_get_envelope(struct form *form, struct MPI_ABI_Datatype *type, int *ret_ints,
                           int *ret_addresses, int *ret_types, int *ret_combiner) {
    MPI_Count ints, addresses, counts, types;
    (void)face_Type_get_envelope_c(form, type, &ints, &addresses, &counts, &types, ret_combiner);
    if (counts > 0 || ints > INT_MAX)
        return form_error(form, MPI_ERR_TYPE,
                          "the datatype was made with large counts. Call MPI_Type_get_envelope_c");
    *ret_ints = (int)ints;
    *ret_addresses = (int)addresses;
    *ret_types = (int)types;
    return MPI_SUCCESS;
}

int face_Type_get_contents_c(struct form *form, struct MPI_ABI_Datatype *type, MPI_Count max_ints,
                             MPI_Count max_addresses, MPI_Count max_counts, MPI_Count max_types,
                             int *ret_ints, MPI_Aint *ret_addresses, MPI_Count *ret_counts,
                             MPI_Datatype *ret_types) {
    MPI_Count ints, addresses, counts, types;
    int combiner;
    (void)face_Type_get_envelope_c(form, type, &ints, &addresses, &counts, &types, &combiner);
    if (combiner == MPI_COMBINER_NAMED)
        return form_error(form, MPI_ERR_TYPE, "a predefined datatype has no contents");
    if (max_ints < ints || max_addresses < addresses || max_counts < counts || max_types < types)
        return form_error(form, MPI_ERR_ARG,
                          "there are %lld integers, %lld addresses, %lld counts and %lld datatypes",
                          (long long)ints, (long long)addresses, (long long)counts,
                          (long long)types);
    const struct contents *contents = type->contents;
    for (MPI_Count i = 0; i < contents->nitems; i++) {
        const struct item *item = &contents->items[i];
        const char place = place_of(contents, item->kind);
        if (place == 'i')
            *ret_ints++ = (int)item->value;
        else if (place == 'a')
            *ret_addresses++ = (MPI_Aint)item->value;
        else
            *ret_counts++ = item->value;
    }
    int code = MPI_SUCCESS;
    for (MPI_Count i = 0; i < contents->ntypes && code == MPI_SUCCESS; i++) {
        const struct MPI_ABI_Datatype *part = type_of(contents->types[i]);
        ret_types[i] = contents->types[i];
        if (!part->name) /* predefined ones are their own copies */
            code = make_alike(form, part, &ret_types[i]);
    }
    return code;
}

int face_Type_get_contents(struct form *form, struct MPI_ABI_Datatype *type, int max_ints,
                           int max_addresses, int max_types, int *ret_ints, MPI_Aint *ret_addresses,
                           MPI_Datatype *ret_types) {
    return face_Type_get_contents_c(form, type, max_ints, max_addresses, 0, max_types, ret_ints,
                                    ret_addresses, NULL, ret_types);
}
