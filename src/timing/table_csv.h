/* table_csv.h - reads the measured tables: plain comma-separated values with a header line.
 *
 * No quoting, no blanks, one record per line. Numbers are parsed without the C locale. */
#ifndef AISIM_TIMING_TABLE_CSV_H
#define AISIM_TIMING_TABLE_CSV_H

#include <stdbool.h>
#include <stdint.h>

#include "aisim/status.h"

enum { AISIM_CSV_COLUMNS_MAX = 32 };

typedef struct aisim_csv {
    char path[512];
    char *text; /* whole file, cut into fields while it is read */
    char *next;
    int line;
    uint32_t columns;
    const char *names[AISIM_CSV_COLUMNS_MAX];
    const char *fields[AISIM_CSV_COLUMNS_MAX]; /* of the current record */
} aisim_csv;

/** Opens FOLDER/NAME and reads the header line.
 *  @return AISIM_OK, AISIM_ENOENT (cannot open), AISIM_EIO, AISIM_EPARSE. Close it on success. */
aisim_status aisim_csv_open(aisim_csv *csv, const char *folder, const char *name, aisim_error *err);

/** Reads the next record into csv->fields. @param more false at the end of the file.
 *  @return AISIM_OK or AISIM_EPARSE (number of fields; file and line in the error). */
aisim_status aisim_csv_next(aisim_csv *csv, bool *more, aisim_error *err);

void aisim_csv_close(aisim_csv *csv);

/** @return the index of a column, or AISIM_CSV_COLUMNS_MAX. */
uint32_t aisim_csv_column(const aisim_csv *csv, const char *name);

/** Whole number 0 .. 2^32 - 1. @return false if the text is anything else. */
bool aisim_csv_u32(const char *text, uint32_t *out);

/** Decimal number with optional exponent, correctly rounded up to 15 digits; false otherwise. */
bool aisim_csv_f64(const char *text, double *out);

#endif
