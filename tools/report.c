/* SPDX-License-Identifier: BSD-3-Clause */
/* Table, CSV and JSON output; see report.h. */
#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "common.h"

struct report {
    const struct report_column *columns;
    size_t ncolumns;
    FILE *table, *csv, *json; /* each may be NULL; at most one of them is stdout */
    const char *csv_name, *json_name;
    const char *last_name, *last; /* the last line; NULL: none */
    size_t notes, rows;
};

struct report_cell report_text(const char *text) {
    return (struct report_cell){.type = REPORT_TEXT, .text = text};
}

struct report_cell report_int(int64_t value) {
    return (struct report_cell){.type = REPORT_INT, .integer = value};
}

struct report_cell report_real(double value, int decimals) {
    if (!isfinite(value))
        return report_missing();
    return (struct report_cell){.type = REPORT_REAL, .real = value, .decimals = decimals};
}

struct report_cell report_missing(void) {
    return (struct report_cell){.type = REPORT_MISSING};
}

/* ---- one cell ------------------------------------------------------------------------------ */

/* A number as text; the same digits in all three forms. */
static void cell_format_number(const struct report_cell *cell, char *buf, size_t len) {
    if (cell->type == REPORT_INT)
        snprintf(buf, len, "%lld", (long long)cell->integer);
    else
        snprintf(buf, len, "%.*f", cell->decimals, cell->real);
}

static void cell_write_table(FILE *file, const struct report_cell *cell, int width) {
    char number[64];
    const char *text = cell->text;
    if (cell->type == REPORT_MISSING || (cell->type == REPORT_TEXT && !*cell->text)) {
        text = "-";
    } else if (cell->type != REPORT_TEXT) {
        cell_format_number(cell, number, sizeof(number));
        text = number;
    }
    fprintf(file, "%*s", width, text);
}

static void cell_write_csv(FILE *file, const struct report_cell *cell) {
    char number[64];
    if (cell->type == REPORT_MISSING)
        return;
    if (cell->type != REPORT_TEXT) {
        cell_format_number(cell, number, sizeof(number));
        fputs(number, file);
    } else if (!strpbrk(cell->text, ",\"\n\r")) {
        fputs(cell->text, file);
    } else { /* RFC 4180 */
        fputc('"', file);
        for (const char *c = cell->text; *c; c++) {
            if (*c == '"')
                fputc('"', file);
            fputc(*c, file);
        }
        fputc('"', file);
    }
}

static void json_write_string(FILE *file, const char *text) {
    fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(file, "\\%c", *c);
        else if (*c < 0x20 || *c == 0x7f)
            fprintf(file, "\\u%04x", *c);
        else
            fputc(*c, file);
    }
    fputc('"', file);
}

static void cell_write_json(FILE *file, const struct report_cell *cell) {
    char number[64];
    if (cell->type == REPORT_MISSING) {
        fputs("null", file);
    } else if (cell->type == REPORT_TEXT) {
        json_write_string(file, cell->text);
    } else {
        cell_format_number(cell, number, sizeof(number));
        fputs(number, file);
    }
}

/* ---- the report ---------------------------------------------------------------------------- */

static bool report_open_file(const char *name, FILE **ret_file) {
    if (!name)
        return true;
    FILE *file = strcmp(name, "-") == 0 ? stdout : fopen(name, "we");
    if (!file) {
        tool_error("cannot write to '%s': %s", name, strerror(errno));
        return false;
    }
    *ret_file = file;
    return true;
}

static void report_write_csv_header(struct report *report) {
    for (size_t i = 0; i < report->ncolumns; i++)
        fprintf(report->csv, "%s%s", i ? "," : "", report->columns[i].name);
    fputc('\n', report->csv);
}

bool report_open(const struct report_column *columns, size_t ncolumns, const char *csv,
                 const char *json, struct report **ret_report) {
    struct report *report = calloc(1, sizeof(*report));
    if (!report) {
        tool_error("out of memory");
        return false;
    }
    report->columns = columns;
    report->ncolumns = ncolumns;
    report->csv_name = csv;
    report->json_name = json;
    if (!report_open_file(csv, &report->csv) || !report_open_file(json, &report->json)) {
        if (report->csv && report->csv != stdout)
            fclose(report->csv);
        free(report);
        return false;
    }
    if (report->csv != stdout && report->json != stdout)
        report->table = stdout;
    if (report->csv)
        report_write_csv_header(report);
    if (report->json)
        fputs("{\"info\": {", report->json);
    *ret_report = report;
    return true;
}

void report_note(struct report *report, const char *name, const char *format, ...) {
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);

    if (report->table)
        fprintf(report->table, "# %s: %s\n", name, text);
    if (report->json) {
        fputs(report->notes ? ",\n  " : "\n  ", report->json);
        json_write_string(report->json, name);
        fputs(": ", report->json);
        json_write_string(report->json, text);
    }
    report->notes++;
}

/* Writes the text between notes and rows. */
static void report_begin_rows(struct report *report) {
    if (report->json)
        fputs("},\n \"rows\": [", report->json);
    if (!report->table)
        return;
    for (size_t i = 0; i < report->ncolumns; i++)
        fprintf(report->table, "%s%*s", i ? " " : "", report->columns[i].width,
                report->columns[i].name);
    fputc('\n', report->table);
}

static void report_row_json(struct report *report, const struct report_cell *cells) {
    fputs(report->rows ? ",\n  {" : "\n  {", report->json);
    for (size_t i = 0; i < report->ncolumns; i++) {
        fputs(i ? ", " : "", report->json);
        json_write_string(report->json, report->columns[i].name);
        fputs(": ", report->json);
        cell_write_json(report->json, &cells[i]);
    }
    fputc('}', report->json);
    fflush(report->json);
}

void report_row(struct report *report, const struct report_cell *cells) {
    if (report->rows == 0)
        report_begin_rows(report);
    if (report->json)
        report_row_json(report, cells);
    for (size_t i = 0; i < report->ncolumns; i++) {
        if (report->table && i)
            fputc(' ', report->table);
        if (report->table)
            cell_write_table(report->table, &cells[i], report->columns[i].width);
        if (report->csv && i)
            fputc(',', report->csv);
        if (report->csv)
            cell_write_csv(report->csv, &cells[i]);
    }
    if (report->table) {
        fputc('\n', report->table);
        fflush(report->table);
    }
    if (report->csv) {
        fputc('\n', report->csv);
        fflush(report->csv);
    }
    report->rows++;
}

void report_last(struct report *report, const char *name, const char *text) {
    if (!report)
        return;
    report->last_name = name;
    report->last = text;
}

/* Writes the text after the rows. */
static void report_end_rows(struct report *report) {
    if (report->table && report->last)
        fprintf(report->table, "%s\n", report->last);
    if (!report->json)
        return;
    fputs("\n ]", report->json);
    if (report->last) {
        fputs(",\n ", report->json);
        json_write_string(report->json, report->last_name);
        fputs(": ", report->json);
        json_write_string(report->json, report->last);
    }
    fputs("}\n", report->json);
}

/* Flushes the file, closes it unless it is stdout, and reports a failed write. */
static bool report_finish_file(FILE *file, const char *name) {
    if (!file)
        return true;
    bool ok = fflush(file) == 0 && !ferror(file);
    if (file != stdout)
        ok = fclose(file) == 0 && ok;
    if (!ok)
        tool_error("cannot write all results to %s",
                   name && strcmp(name, "-") != 0 ? name : "stdout");
    return ok;
}

bool report_close(struct report *report) {
    if (!report)
        return true;
    if (report->rows == 0)
        report_begin_rows(report);
    report_end_rows(report);
    bool ok = report_finish_file(report->table, NULL);
    ok = report_finish_file(report->csv, report->csv_name) && ok;
    ok = report_finish_file(report->json, report->json_name) && ok;
    free(report);
    return ok;
}
