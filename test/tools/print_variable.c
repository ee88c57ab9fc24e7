/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints a variable of its environment. It is built as the libraries are: what LD_PRELOAD names
 * loads into it also in builds with a sanitizer, and into /bin/sh it does not. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    const char *value = argc == 2 ? getenv(argv[1]) : NULL;
    if (!value)
        return 1;
    puts(value);
    return 0;
}
