/* SPDX-License-Identifier: BSD-3-Clause */
/* The MNIST files; see digits.h. */
#include "digits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOLDER_MAX 4096

static int images_read(const char *folder, const char *name, struct idx *ret_idx, char *error,
                       size_t error_len) {
    char path[FOLDER_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (idx_read(path, 3, ret_idx, error, error_len) < 0)
        return -1;
    if (ret_idx->dims[1] == 28 && ret_idx->dims[2] == 28)
        return 0;
    snprintf(error, error_len, "%s: the images have %u x %u pixels instead of 28 x 28", path,
             ret_idx->dims[1], ret_idx->dims[2]);
    return -1;
}

static int labels_read(const char *folder, const char *name, size_t count, struct idx *ret_idx,
                       char *error, size_t error_len) {
    char path[FOLDER_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (idx_read(path, 1, ret_idx, error, error_len) < 0)
        return -1;
    if (ret_idx->len != count) {
        snprintf(error, error_len, "%s: holds %zu labels for %zu images", path, ret_idx->len,
                 count);
        return -1;
    }
    for (size_t i = 0; i < count; i++)
        if (ret_idx->data[i] > 9) {
            snprintf(error, error_len, "%s: label %zu is %u, not a digit", path, i,
                     ret_idx->data[i]);
            return -1;
        }
    return 0;
}

/* Images and labels of one set, "train" or "t10k". */
static int digits_read(const char *folder, const char *set, struct idx files[2],
                       struct digits *ret_digits, char *error, size_t error_len) {
    char images[64], labels[64];
    snprintf(images, sizeof images, "%s-images-idx3-ubyte", set);
    snprintf(labels, sizeof labels, "%s-labels-idx1-ubyte", set);
    if (images_read(folder, images, &files[0], error, error_len) < 0 ||
        labels_read(folder, labels, files[0].dims[0], &files[1], error, error_len) < 0)
        return -1;
    *ret_digits = (struct digits){files[0].dims[0], files[0].data, files[1].data};
    return 0;
}

static int folder_holds_digits(const char *folder) {
    char path[FOLDER_MAX + 64];
    snprintf(path, sizeof path, "%s/t10k-images-idx3-ubyte.gz", folder);
    return access(path, R_OK) == 0;
}

/* The folder of the running program, without the last '/'. */
static int program_folder(char folder[FOLDER_MAX]) {
    ssize_t len = readlink("/proc/self/exe", folder, FOLDER_MAX - 1);
    if (len <= 0)
        return -1;
    folder[len] = '\0';
    char *slash = strrchr(folder, '/');
    if (!slash)
        return -1;
    *slash = '\0';
    return 0;
}

/* The digits are in the source tree of the build, next to the program, in the source tree above a
 * build folder, or in the folder of an installation. */
static int own_folder_find(char folder[FOLDER_MAX], char *error, size_t error_len) {
    static const char *const near[] = {"mnist", "../../examples/mnist",
                                       "../share/ringcomm/examples/mnist"};
    char program[FOLDER_MAX];
    snprintf(folder, FOLDER_MAX, "%s", MNIST_DIR);
    if (folder_holds_digits(folder))
        return 0;
    if (program_folder(program) == 0)
        for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
            int used = snprintf(folder, FOLDER_MAX, "%s/%s", program, near[i]);
            if (used > 0 && used < FOLDER_MAX && folder_holds_digits(folder))
                return 0;
        }
    snprintf(error, error_len,
             "%s: t10k-images-idx3-ubyte.gz is not there, nor in mnist/ beside the program; "
             "name a folder with --data",
             MNIST_DIR);
    return -1;
}

static int own_digits_read(struct data_set *set, size_t held_back, char *error, size_t error_len) {
    char folder[FOLDER_MAX];
    struct digits all;
    if (own_folder_find(folder, error, error_len) < 0 ||
        digits_read(folder, "t10k", set->files, &all, error, error_len) < 0)
        return -1;
    if (all.count <= held_back) {
        snprintf(error, error_len, "%s: %zu digits are too few to hold %zu back for testing",
                 folder, all.count, held_back);
        return -1;
    }
    size_t kept = all.count - held_back;
    set->train = (struct digits){kept, all.images, all.labels};
    set->test = (struct digits){held_back, all.images + kept * 28 * 28, all.labels + kept};
    snprintf(set->source, sizeof set->source,
             "no --data: trains on the first %zu digits of the t10k files in %s, tests on the "
             "last %zu",
             kept, folder, held_back);
    return 0;
}

int data_set_read(struct data_set *set, const char *folder, size_t held_back, char *error,
                  size_t error_len) {
    memset(set, 0, sizeof *set);
    if (folder && strlen(folder) >= FOLDER_MAX) {
        snprintf(error, error_len, "--data: the name of the folder has %zu bytes, too many",
                 strlen(folder));
        return -1;
    }
    if (!folder)
        return own_digits_read(set, held_back, error, error_len);
    if (digits_read(folder, "train", &set->files[0], &set->train, error, error_len) < 0 ||
        digits_read(folder, "t10k", &set->files[2], &set->test, error, error_len) < 0)
        return -1;
    snprintf(set->source, sizeof set->source, "trains on %zu digits of %s, tests on %zu",
             set->train.count, folder, set->test.count);
    return 0;
}

void data_set_free(struct data_set *set) {
    for (size_t i = 0; i < sizeof set->files / sizeof set->files[0]; i++)
        idx_free(&set->files[i]);
}
