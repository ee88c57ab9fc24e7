/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The results of a tool: notes, then one row per result, as a table on stdout, as CSV and as JSON.
 * Each row is written immediately. CSV has the header line and the rows, but no notes. JSON is
 * {"info": {note: text, ...}, "rows": [{column: value, ...}, ...]}, and one more member if there
 * is a last line.
 */
#ifndef RINGCOMM_TOOLS_REPORT_H
#define RINGCOMM_TOOLS_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum report_type { REPORT_MISSING, REPORT_TEXT, REPORT_INT, REPORT_REAL };

struct report_column {
    const char *name;
    int width; /* in the table, at least; negative: left-justified */
};

struct report_cell {
    enum report_type type;
    int decimals; /* of a real */
    const char *text;
    int64_t integer;
    double real;
};

struct report_cell report_text(const char *text);
struct report_cell report_int(int64_t value);
struct report_cell report_real(double value, int decimals);
/* "-" in the table (like an empty text), empty in CSV, null in JSON. */
struct report_cell report_missing(void);

struct report;

/* csv, json: a file's name, "-" (stdout, instead of the table), or NULL for none. columns and the
 * names must live as long as the report. Prints an error and returns false if a file cannot be
 * opened. */
bool report_open(const struct report_column *columns, size_t ncolumns, const char *csv,
                 const char *json, struct report **ret_report);

/* Writes "# name: text" above the table. Call it before the first row. */
void report_note(struct report *report, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes a row of one cell per column. */
void report_row(struct report *report, const struct report_cell *cells);

/* Sets the last line of the table; in JSON a member of that name after the rows; not in CSV. report
 * may be NULL. Both texts must live until the report is closed. */
void report_last(struct report *report, const char *name, const char *text);

/* Completes and frees the report. Prints an error and returns false if a write failed. report may
 * be NULL. */
bool report_close(struct report *report);

#endif
