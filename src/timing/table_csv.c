/* table_csv.c - see table_csv.h. */
#include "timing/table_csv.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

static aisim_status read_all(aisim_csv *csv, FILE *file, aisim_error *err)
{
    size_t size = 0, capacity = 1 << 16;
    csv->text = aisim_alloc(capacity + 1, 1);
    for (;;) {
        size_t got = fread(csv->text + size, 1, capacity - size, file);
        size += got;
        if (size < capacity) {
            break;
        }
        capacity *= 2;
        csv->text = aisim_realloc(csv->text, capacity + 1, 1);
    }
    csv->text[size] = '\0';
    csv->next = csv->text;
    if (ferror(file)) {
        return aisim_fail_at(err, AISIM_EIO, csv->path, 0, 0, "cannot read the table");
    }
    return AISIM_OK;
}

/* Cuts one line into fields. @return their number. */
static uint32_t split(aisim_csv *csv, const char *fields[])
{
    uint32_t count = 0;
    char *at = csv->next;
    fields[count++] = at;
    for (; *at != '\0' && *at != '\n'; at++) {
        if (*at == '\r') {
            *at = '\0';
        } else if (*at == ',') {
            *at = '\0';
            if (count < AISIM_CSV_COLUMNS_MAX) {
                fields[count] = at + 1;
            }
            count++;
        }
    }
    if (*at == '\n') {
        *at++ = '\0';
    }
    csv->next = at;
    csv->line++;
    return count;
}

aisim_status aisim_csv_open(aisim_csv *csv, const char *folder, const char *name, aisim_error *err)
{
    memset(csv, 0, sizeof *csv);
    snprintf(csv->path, sizeof csv->path, "%s/%s", folder, name);
    FILE *file = fopen(csv->path, "rb");
    if (file == NULL) {
        return aisim_fail_at(err, AISIM_ENOENT, csv->path, 0, 0, "cannot open the table");
    }
    aisim_status status = read_all(csv, file, err);
    fclose(file);
    if (status == AISIM_OK) {
        csv->columns = split(csv, csv->names);
        if (csv->columns > AISIM_CSV_COLUMNS_MAX) {
            status = aisim_fail_at(err, AISIM_EPARSE, csv->path, 1, 0, "%u columns; at most %d",
                                   (unsigned)csv->columns, AISIM_CSV_COLUMNS_MAX);
        }
    }
    if (status != AISIM_OK) {
        aisim_csv_close(csv);
    }
    return status;
}

aisim_status aisim_csv_next(aisim_csv *csv, bool *more, aisim_error *err)
{
    *more = *csv->next != '\0';
    if (!*more) {
        return AISIM_OK;
    }
    uint32_t count = split(csv, csv->fields);
    if (count != csv->columns) {
        return aisim_fail_at(err, AISIM_EPARSE, csv->path, csv->line, 0,
                             "%u fields, the header has %u", (unsigned)count,
                             (unsigned)csv->columns);
    }
    return AISIM_OK;
}

void aisim_csv_close(aisim_csv *csv)
{
    aisim_free(csv->text);
    csv->text = csv->next = NULL;
}

uint32_t aisim_csv_column(const aisim_csv *csv, const char *name)
{
    for (uint32_t i = 0; i < csv->columns; i++) {
        if (strcmp(csv->names[i], name) == 0) {
            return i;
        }
    }
    return AISIM_CSV_COLUMNS_MAX;
}

bool aisim_csv_u32(const char *text, uint32_t *out)
{
    uint64_t value = 0;
    if (*text == '\0') {
        return false;
    }
    for (; *text >= '0' && *text <= '9'; text++) {
        value = value * 10 + (uint64_t)(*text - '0');
        if (value > UINT32_MAX) {
            return false;
        }
    }
    *out = (uint32_t)value;
    return *text == '\0';
}

/* Both operands of the last step are exact for up to 15 digits and |exponent| <= 22, so the one
 * rounding of the division or product is the correct one. */
bool aisim_csv_f64(const char *text, double *out)
{
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    uint64_t digits = 0;
    int exponent = 0, seen = 0;
    bool negative = *text == '-', point = false;
    for (text += negative; (*text >= '0' && *text <= '9') || (*text == '.' && !point); text++) {
        if (*text == '.') {
            point = true;
        } else {
            digits = digits * 10 + (uint64_t)(*text - '0');
            exponent -= point;
            seen++;
        }
    }
    if (seen == 0 || digits >= UINT64_C(1000000000000000)) {
        return false;
    }
    if (*text == 'e' || *text == 'E') {
        uint32_t e;
        bool minus = text[1] == '-';
        if (!aisim_csv_u32(text + 1 + (minus || text[1] == '+'), &e) || e > 99) {
            return false;
        }
        exponent += minus ? -(int)e : (int)e;
    } else if (*text != '\0') {
        return false;
    }
    if (exponent < -22 || exponent > 22) {
        return false;
    }
    double value =
        exponent < 0 ? (double)digits / power[-exponent] : (double)digits * power[exponent];
    *out = negative ? -value : value;
    return true;
}
