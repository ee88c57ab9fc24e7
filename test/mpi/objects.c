/* SPDX-License-Identifier: BSD-3-Clause */
/* Objects of MPI and their properties: arguments of datatypes, distributed arrays, external32,
 * infos, attributes, numbers of handles, error codes, generalized requests, buffers of
 * communicators. */
#include <string.h>
#include "job.h"

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

static void test_contents(void) {
    const int lengths[2] = {3, 4};
    const MPI_Aint displs[2] = {8, 64};
    const MPI_Datatype types[2] = {MPI_INT, MPI_DOUBLE};
    int ints[3], nints, naddresses, ntypes, combiner;
    MPI_Aint addresses[2];
    MPI_Count counts[3], wide[4];
    MPI_Datatype type, large, parts[2];
    OK(MPI_Type_create_struct(2, lengths, displs, types, &type));
    OK(MPI_Type_get_envelope(type, &nints, &naddresses, &ntypes, &combiner));
    CHECK(nints == 3 && naddresses == 2 && ntypes == 2 && combiner == MPI_COMBINER_STRUCT);
    OK(MPI_Type_get_contents(type, 3, 2, 2, ints, addresses, parts));
    CHECK(ints[0] == 2 && ints[1] == 3 && ints[2] == 4 && addresses[0] == 8 && addresses[1] == 64);
    CHECK(parts[0] == MPI_INT && parts[1] == MPI_DOUBLE);
    CHECK(class_of(MPI_Type_get_contents(type, 2, 2, 2, ints, addresses, parts)) == MPI_ERR_ARG);
    OK(MPI_Type_vector_c(2, 3, 5, type, &large));
    OK(MPI_Type_free(&type));
    CHECK(class_of(MPI_Type_get_envelope(large, &nints, &naddresses, &ntypes, &combiner)) ==
          MPI_ERR_TYPE);
    OK(MPI_Type_get_envelope_c(large, &wide[0], &wide[1], &wide[2], &wide[3], &combiner));
    CHECK(wide[0] == 0 && wide[1] == 0 && wide[2] == 3 && wide[3] == 1);
    OK(MPI_Type_get_contents_c(large, 0, 0, 3, 1, NULL, NULL, counts, parts));
    CHECK(counts[0] == 2 && counts[1] == 3 && counts[2] == 5);
    OK(MPI_Type_get_envelope(parts[0], &nints, &naddresses, &ntypes, &combiner));
    CHECK(combiner == MPI_COMBINER_STRUCT);
    OK(MPI_Type_free(&parts[0]));
    OK(MPI_Type_free(&large));
    CHECK(class_of(MPI_Type_get_contents(MPI_INT, 0, 0, 0, NULL, NULL, NULL)) == MPI_ERR_TYPE);
}

/* A grid of 2 x 2 processes, of which there are 8; and of 4, of which there are 2. */
static void test_grid_size(void) {
    const int sizes[2] = {4, 4}, grid[2] = {2, 2}, blocks[2] = {1, 1};
    const int cyclic[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC};
    MPI_Datatype type;
    CHECK(class_of(MPI_Type_create_darray(8, 0, 2, sizes, cyclic, blocks, grid, MPI_ORDER_C,
                                          MPI_CHAR, &type)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Type_create_darray(2, 0, 1, sizes, cyclic, blocks, sizes, MPI_ORDER_C,
                                          MPI_CHAR, &type)) == MPI_ERR_ARG);
}

/* Each element of a 7 x 9 array belongs to one of 6 processes. */
static void test_darray(int order, int first, int first_block, int second, int second_block) {
    const int sizes[2] = {7, 9}, grid[2] = {2, 3};
    const int distributions[2] = {first, second}, blocks[2] = {first_block, second_block};
    char array[63], packed[63], seen[63] = {0};
    for (int i = 0; i < 63; i++)
        array[i] = (char)i;
    int total = 0;
    for (int process = 0; process < 6; process++) {
        MPI_Datatype type;
        MPI_Aint lb, extent;
        int size, at = 0;
        OK(MPI_Type_create_darray(6, process, 2, sizes, distributions, blocks, grid, order,
                                  MPI_CHAR, &type));
        OK(MPI_Type_commit(&type));
        OK(MPI_Type_get_extent(type, &lb, &extent));
        OK(MPI_Type_size(type, &size));
        OK(MPI_Pack(array, 1, type, packed, sizeof packed, &at, MPI_COMM_SELF));
        CHECK(lb == 0 && extent == 63 && at == size);
        for (int i = 0; i < size; i++) {
            const int element = packed[i], inner = order == MPI_ORDER_C ? 9 : 7;
            const int row = element / inner, column = element % inner;
            const int d = order == MPI_ORDER_C ? row : column;
            const int block = first_block > 0 && first_block != MPI_DISTRIBUTE_DFLT_DARG
                                  ? first_block
                              : first == MPI_DISTRIBUTE_BLOCK ? 4
                                                              : 1;
            CHECK(d / block % 2 == process / 3);
            seen[element]++;
        }
        total += size;
        OK(MPI_Type_free(&type));
    }
    for (int i = 0; i < 63; i++)
        CHECK(seen[i] == 1);
    CHECK(total == 63);
}

static void test_external(void) {
    const struct {
        int count;
        short parts[2];
    } data = {0x01020304, {0x0506, -2}};
    const int lengths[2] = {1, 2};
    const MPI_Aint displs[2] = {0, sizeof(int)};
    const MPI_Datatype types[2] = {MPI_INT, MPI_SHORT};
    const char expected[8] = {1, 2, 3, 4, 5, 6, (char)0xff, (char)0xfe};
    char packed[16];
    struct {
        int count;
        short parts[2];
    } back = {0};
    MPI_Aint at = 0, size;
    MPI_Datatype type;
    OK(MPI_Type_create_struct(2, lengths, displs, types, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Pack_external_size("external32", 1, type, &size));
    CHECK(size == 8);
    OK(MPI_Pack_external("external32", &data, 1, type, packed, sizeof packed, &at));
    CHECK(at == 8 && memcmp(packed, expected, 8) == 0);
    at = 0;
    OK(MPI_Unpack_external("external32", packed, 8, &at, &back, 1, type));
    CHECK(at == 8 && back.count == data.count && back.parts[1] == -2);
    at = 0;
    OK(MPI_Pack_external("external32", NULL, 0, type, NULL, 0, &at));
    OK(MPI_Unpack_external("external32", NULL, 0, &at, NULL, 0, type));
    CHECK(at == 0);
    CHECK(class_of(MPI_Pack_external("native", &data, 1, type, packed, 16, &at)) == MPI_ERR_ARG);
    OK(MPI_Type_free(&type));
}

/* Types whose external32 has another size than in memory. */
static void test_external_sizes(void) {
    const struct {
        double value;
        int index;
    } pair = {1.5, -3};
    const char expected[20] = {0x3f, (char)0xf8, 0, 0, 0, 0, 0, 0, -1, -1, -1, -3, -1, -1, -1, -2};
    struct {
        double value;
        int index;
    } back = {0, 0};
    const long negative = -2, large = 1L << 31;
    const unsigned long positive = 0xfffffffe;
    long number = 0;
    unsigned long unsigned_number = 0;
    char packed[20] = "";
    MPI_Aint at = 0, size;
    OK(MPI_Pack_external_size("external32", 3, MPI_LONG, &size));
    CHECK(size == 12);
    OK(MPI_Pack_external_size("external32", 2, MPI_DOUBLE_INT, &size));
    CHECK(size == 24);
    OK(MPI_Pack_external("external32", &pair, 1, MPI_DOUBLE_INT, packed, sizeof packed, &at));
    CHECK(at == 12);
    OK(MPI_Pack_external("external32", &negative, 1, MPI_LONG, packed, sizeof packed, &at));
    CHECK(at == 16 && memcmp(packed, expected, sizeof packed) == 0);
    OK(MPI_Pack_external("external32", &positive, 1, MPI_UNSIGNED_LONG, packed, sizeof packed,
                         &at));
    at = 0;
    OK(MPI_Unpack_external("external32", packed, sizeof packed, &at, &back, 1, MPI_DOUBLE_INT));
    OK(MPI_Unpack_external("external32", packed, sizeof packed, &at, &number, 1, MPI_LONG));
    OK(MPI_Unpack_external("external32", packed, sizeof packed, &at, &unsigned_number, 1,
                           MPI_UNSIGNED_LONG));
    CHECK(at == 20 && back.value == pair.value && back.index == pair.index);
    CHECK(number == negative && unsigned_number == positive);
    at = 0;
    CHECK(class_of(MPI_Pack_external("external32", &large, 1, MPI_LONG, packed, 16, &at)) ==
          MPI_ERR_CONVERSION);
    CHECK(class_of(MPI_Pack_external("external32", packed, 1, MPI_LONG_DOUBLE, packed, 16, &at)) ==
          MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK(at == 0);
}

static void test_info(void) {
    MPI_Info info, copy;
    char text[16], key[MPI_MAX_INFO_KEY];
    int n, flag, length = sizeof text;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "colour", "green"));
    OK(MPI_Info_set(info, "shape", "round"));
    OK(MPI_Info_set(info, "colour", "light blue"));
    OK(MPI_Info_dup(info, &copy));
    OK(MPI_Info_delete(info, "shape"));
    OK(MPI_Info_get_nkeys(info, &n));
    CHECK(n == 1);
    OK(MPI_Info_get_nkeys(copy, &n));
    OK(MPI_Info_get_nthkey(copy, 1, key));
    CHECK(n == 2 && strcmp(key, "shape") == 0);
    OK(MPI_Info_get_string(copy, "colour", &length, text, &flag));
    CHECK(flag && length == 11 && strcmp(text, "light blue") == 0);
    OK(MPI_Info_get(copy, "colour", 5, text, &flag));
    CHECK(flag && strcmp(text, "light") == 0);
    OK(MPI_Info_get_valuelen(copy, "size", &length, &flag));
    CHECK(!flag);
    CHECK(class_of(MPI_Info_delete(info, "shape")) == MPI_ERR_INFO_NOKEY);
    CHECK(class_of(MPI_Info_set(info, "", "x")) == MPI_ERR_INFO_KEY);
    CHECK(class_of(MPI_Info_get_nthkey(info, 1, key)) == MPI_ERR_ARG);
    OK(MPI_Info_free(&copy));
    CHECK(copy == MPI_INFO_NULL && class_of(MPI_Info_free(&copy)) == MPI_ERR_INFO);
    OK(MPI_Comm_set_info(MPI_COMM_WORLD, info));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_get_info(MPI_COMM_WORLD, &info));
    OK(MPI_Info_free(&info));
}

static int deleted;
static int copy_value(MPI_Datatype type, int key, void *extra, void *value, void *ret_value,
                      int *ret_flag) {
    (void)key;
    CHECK(type == MPI_INT && extra == &deleted);
    memcpy(ret_value, &value, sizeof value);
    *ret_flag = 1;
    return MPI_SUCCESS;
}
static int count_delete(MPI_Datatype type, int key, void *value, void *extra) {
    (void)type;
    (void)key;
    CHECK(value == &deleted && extra == &deleted);
    deleted++;
    return MPI_SUCCESS;
}

static void test_attributes(void) {
    int key, comm_key, flag;
    void *value;
    MPI_Datatype type;
    OK(MPI_Type_create_keyval(copy_value, count_delete, &key, &deleted));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &comm_key, NULL));
    OK(MPI_Type_set_attr(MPI_INT, key, &deleted));
    OK(MPI_Type_dup(MPI_INT, &type));
    OK(MPI_Type_get_attr(type, key, &value, &flag));
    CHECK(flag && value == &deleted);
    OK(MPI_Type_free(&type));
    CHECK(deleted == 1);
    OK(MPI_Type_delete_attr(MPI_INT, key));
    CHECK(deleted == 2);
    CHECK(class_of(MPI_Type_set_attr(MPI_INT, comm_key, NULL)) == MPI_ERR_KEYVAL);
    CHECK(class_of(MPI_Type_get_attr(MPI_INT, comm_key, &value, &flag)) == MPI_ERR_KEYVAL);
    CHECK(class_of(MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &flag)) == MPI_ERR_KEYVAL);
    int other = key;
    CHECK(class_of(MPI_Comm_free_keyval(&other)) == MPI_ERR_KEYVAL && other == key);
    OK(MPI_Type_free_keyval(&key));
    OK(MPI_Comm_free_keyval(&comm_key));
}

/* What MPI_Type_get_contents returns is freed without effect on the type that was passed. */
static void test_returned_type(void) {
    const int before = deleted;
    int key, flag, combiner, ints, addresses, types, count, size;
    void *value;
    MPI_Datatype inner, outer, returned;
    OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, count_delete, &key, &deleted));
    OK(MPI_Type_contiguous(3, MPI_INT, &inner));
    OK(MPI_Type_set_attr(inner, key, &deleted));
    OK(MPI_Type_contiguous(2, inner, &outer));
    OK(MPI_Type_get_contents(outer, 1, 0, 1, &count, NULL, &returned));
    CHECK(returned != inner && count == 2);
    OK(MPI_Type_get_envelope(returned, &ints, &addresses, &types, &combiner));
    OK(MPI_Type_size(returned, &size));
    CHECK(combiner == MPI_COMBINER_CONTIGUOUS && ints == 1 && size == 12);
    OK(MPI_Type_free(&returned));
    OK(MPI_Type_get_attr(inner, key, &value, &flag));
    CHECK(deleted == before && flag && value == &deleted);
    OK(MPI_Type_free(&inner));
    CHECK(deleted == before + 1);
    OK(MPI_Type_get_contents(outer, 1, 0, 1, &count, NULL, &returned));
    OK(MPI_Type_size(returned, &size));
    CHECK(size == 12);
    OK(MPI_Type_free(&returned));
    OK(MPI_Type_free(&outer));
    OK(MPI_Type_free_keyval(&key));
}

/* Numbers of keys are given out again, but not while an attribute has one. */
static void test_many_keys(void) {
    int kept, key, flag;
    void *value;
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &kept, NULL));
    key = kept;
    OK(MPI_Comm_set_attr(MPI_COMM_SELF, kept, &kept));
    OK(MPI_Comm_free_keyval(&key));
    for (int i = 0; i < 10000; i++) {
        OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &key, NULL));
        CHECK(key != kept);
        OK(MPI_Comm_set_attr(MPI_COMM_WORLD, key, &key));
        OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, key));
        OK(MPI_Comm_free_keyval(&key));
    }
    OK(MPI_Comm_get_attr(MPI_COMM_SELF, kept, &value, &flag));
    CHECK(flag && value == &kept && key == MPI_KEYVAL_INVALID);
    CHECK(class_of(MPI_Comm_set_attr(MPI_COMM_WORLD, kept, NULL)) == MPI_ERR_KEYVAL);
}

static int refuse_comm(MPI_Comm comm, int key, void *extra, void *value, void *ret_value,
                       int *ret_flag) {
    (void)comm, (void)key, (void)extra, (void)value, (void)ret_value, (void)ret_flag;
    return MPI_ERR_OTHER;
}
static int refuse_type(MPI_Datatype type, int key, void *extra, void *value, void *ret_value,
                       int *ret_flag) {
    (void)type, (void)key, (void)extra, (void)value, (void)ret_value, (void)ret_flag;
    return MPI_ERR_OTHER;
}

/* After an error of a copy function there is no duplicate. */
static void test_refusal(void) {
    int key, type_key;
    MPI_Comm parent, comm = MPI_COMM_SELF;
    MPI_Datatype type = MPI_INT;
    MPI_Request request;
    OK(MPI_Comm_create_keyval(refuse_comm, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Type_create_keyval(refuse_type, MPI_TYPE_NULL_DELETE_FN, &type_key, NULL));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    OK(MPI_Comm_set_attr(parent, key, NULL));
    OK(MPI_Type_set_attr(MPI_INT, type_key, NULL));
    CHECK(class_of(MPI_Comm_dup(parent, &comm)) == MPI_ERR_OTHER && comm == MPI_COMM_NULL);
    comm = MPI_COMM_SELF;
    CHECK(MPI_Comm_idup(parent, &comm, &request) != MPI_SUCCESS && comm == MPI_COMM_NULL);
    CHECK(MPI_Type_dup(MPI_INT, &type) != MPI_SUCCESS && type == MPI_DATATYPE_NULL);
    OK(MPI_Type_delete_attr(MPI_INT, type_key));
    OK(MPI_Comm_free(&parent));
    OK(MPI_Comm_free_keyval(&key));
    OK(MPI_Type_free_keyval(&type_key));
}

static void test_numbers(void) {
    MPI_Datatype type, other;
    OK(MPI_Type_contiguous(2, MPI_INT, &type));
    OK(MPI_Type_contiguous(3, MPI_INT, &other));
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
    CHECK(MPI_Type_fromint(MPI_Type_toint(type)) == type);
    CHECK(MPI_Type_fromint(MPI_Type_toint(other)) == other);
    CHECK(MPI_Type_toint(type) != MPI_Type_toint(other));
    OK(MPI_Type_free(&type));
    OK(MPI_Type_free(&other));
    OK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type));
    CHECK(type == MPI_REAL8);
    OK(MPI_Type_create_f90_real(6, 30, &type));
    OK(MPI_Type_create_f90_real(6, 30, &other));
    CHECK(type == other && class_of(MPI_Type_free(&other)) == MPI_ERR_TYPE);
}

static void test_error_codes(void) {
    int class, code, length, *last, *again, flag;
    char text[MPI_MAX_ERROR_STRING];
    OK(MPI_Add_error_class(&class));
    OK(MPI_Add_error_code(class, &code));
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag));
    CHECK(flag && *last == code && class_of(code) == class);
    OK(MPI_Comm_get_attr(MPI_COMM_SELF, MPI_LASTUSEDCODE, &again, &flag));
    CHECK(flag && again == last);
    OK(MPI_Add_error_string(code, "the pump is dry"));
    OK(MPI_Error_string(code, text, &length));
    CHECK(strcmp(text, "the pump is dry") == 0);
    CHECK(class_of(MPI_Remove_error_class(class)) == MPI_ERR_OTHER);
    CHECK(class_of(MPI_Remove_error_code(code)) == MPI_ERR_OTHER);
    OK(MPI_Remove_error_string(code));
    OK(MPI_Remove_error_code(code));
    OK(MPI_Remove_error_class(class));
    CHECK(*last == MPI_ERR_LASTCODE);
    CHECK(class_of(MPI_Remove_error_class(class)) == MPI_ERR_ARG);
}

static int freed;
static int set_tag(void *extra, MPI_Status *status) {
    status->MPI_TAG = *(int *)extra;
    return MPI_SUCCESS;
}
static int count_free(void *extra) {
    (void)extra;
    freed++;
    return MPI_SUCCESS;
}

static int was_complete = -1;
static int note_cancel(void *extra, int complete) {
    (void)extra;
    was_complete = complete;
    return MPI_SUCCESS;
}

/* MPI_Request_free of a complete request, whose status was queried or not. */
static void test_release(int query) {
    const int before = freed;
    int tag = 1, flag = 0;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Grequest_start(set_tag, count_free, note_cancel, &tag, &request));
    OK(MPI_Cancel(&request));
    CHECK(was_complete == 0);
    OK(MPI_Grequest_complete(request));
    OK(MPI_Cancel(&request));
    CHECK(was_complete == 1);
    if (query)
        OK(MPI_Request_get_status(request, &flag, &status));
    CHECK(flag == query && freed == before);
    OK(MPI_Request_free(&request));
    CHECK(freed == before + 1 && request == MPI_REQUEST_NULL);
}

static void test_generalized(void) {
    int tag = 17, index, flag, got = 0;
    MPI_Request requests[2], other;
    MPI_Status status;
    OK(MPI_Grequest_start(set_tag, count_free, NULL, &tag, &requests[0]));
    OK(MPI_Irecv(&got, 1, MPI_INT, job_rank, 1, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Testany(2, requests, &index, &flag, &status));
    CHECK(!flag);
    OK(MPI_Grequest_complete(requests[0]));
    OK(MPI_Request_get_status_any(2, requests, &index, &flag, &status));
    CHECK(flag && index == 0 && status.MPI_TAG == 17 && freed == 0);
    OK(MPI_Waitany(2, requests, &index, &status));
    CHECK(index == 0 && status.MPI_TAG == 17 && freed == 1 && requests[0] == MPI_REQUEST_NULL);
    OK(MPI_Send(&tag, 1, MPI_INT, job_rank, 1, MPI_COMM_WORLD));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    CHECK(got == 17);
    OK(MPI_Grequest_start(set_tag, count_free, NULL, &tag, &requests[0]));
    other = requests[0];
    OK(MPI_Request_free(&requests[0]));
    CHECK(freed == 1);
    OK(MPI_Grequest_complete(other));
    CHECK(freed == 2);
}

static void test_buffers(void) {
    static char buffer[4096];
    const int right = (job_rank + 1) % job_size;
    int value = job_rank, got, flag;
    MPI_Comm comm;
    MPI_Request request;
    void *address;
    int size;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    CHECK(class_of(MPI_Bsend(&value, 1, MPI_INT, right, 0, comm)) == MPI_ERR_BUFFER);
    OK(MPI_Comm_attach_buffer(comm, buffer, sizeof buffer));
    OK(MPI_Bsend(&value, 1, MPI_INT, right, 0, comm));
    OK(MPI_Comm_iflush_buffer(comm, &request));
    OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 0, comm, MPI_STATUS_IGNORE));
    CHECK(got == (job_rank + job_size - 1) % job_size);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_flush_buffer(comm));
    OK(MPI_Comm_detach_buffer(comm, &address, &size));
    CHECK(address == buffer && size == (int)sizeof buffer);
    OK(MPI_Comm_attach_buffer(comm, buffer, sizeof value));
    OK(MPI_Send(&value, 1, MPI_INT, job_rank, 1, comm)); /* takes no room of the buffer */
    OK(MPI_Bsend(&value, 1, MPI_INT, job_rank, 2, comm));
    OK(MPI_Recv(&got, 1, MPI_INT, job_rank, 2, comm, MPI_STATUS_IGNORE));
    OK(MPI_Comm_detach_buffer(comm, &address, &size)); /* which does not wait for the first */
    CHECK(size == (int)sizeof value);
    OK(MPI_Recv(&got, 1, MPI_INT, job_rank, 1, comm, MPI_STATUS_IGNORE));
    CHECK(got == job_rank);
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv) {
    job_begin(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    test_contents();
    test_grid_size();
    for (int order = MPI_ORDER_C; order <= MPI_ORDER_FORTRAN;
         order += MPI_ORDER_FORTRAN - MPI_ORDER_C) {
        test_darray(order, MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_CYCLIC,
                    2);
        test_darray(order, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_BLOCK,
                    4);
        test_darray(order, MPI_DISTRIBUTE_CYCLIC, 3, MPI_DISTRIBUTE_CYCLIC, 1);
    }
    test_external();
    test_external_sizes();
    test_info();
    test_attributes();
    test_returned_type();
    test_many_keys();
    test_refusal();
    test_numbers();
    test_error_codes();
    test_generalized();
    test_release(0);
    test_release(1);
    test_buffers();
    return job_end();
}
