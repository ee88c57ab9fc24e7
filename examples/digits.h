/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds, reads and checks the MNIST files: a training and a test set of images with labels. */
#ifndef EXAMPLE_DIGITS_H
#define EXAMPLE_DIGITS_H

#include <stddef.h>
#include <stdint.h>
#include "idx.h"

struct digits {
    size_t count;
    const uint8_t *images; /* count images of 784 bytes */
    const uint8_t *labels; /* each 0..9 */
};

struct data_set {
    struct digits train, test;
    char source[5000];   /* of the data, as text for the user */
    struct idx files[4]; /* what the pointers point into */
};

/*
 * With a folder: the full set in it. With NULL: the t10k files of the examples, the last
 * `held_back` of them as the test set. Returns 0, or -1 and an error text.
 */
int data_set_read(struct data_set *set, const char *folder, size_t held_back, char *error,
                  size_t error_len);
void data_set_free(struct data_set *set);

#endif
