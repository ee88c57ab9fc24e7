/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of hang.h: pieces of sentences. */
#ifndef RCMI_HANG_TEXT_H
#define RCMI_HANG_TEXT_H

#include "hang.h"

typedef const struct rcmi_hang_row row_t;

/* Appends; text that does not fit is cut. */
void rcmi_text_add(char *text, size_t cap, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Appends "rank 3 (pid 4711 on host)". */
void rcmi_text_add_rank(char *text, size_t cap, row_t *rows, int rank);

#endif
