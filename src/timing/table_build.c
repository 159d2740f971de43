/* table_build.c - see table_build.h, and table.h for what it builds. */
#include "timing/table_build.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

typedef struct raw_row {
    uint32_t key[AISIM_TABLE_KEYS];
    uint32_t at[AISIM_TABLE_AXES];
    uint32_t order; /* of addition: makes the sort total */
    double ms;
} raw_row;

struct aisim_table_builder {
    AISIM_ARRAY(raw_row) rows[AISIM_FAMILY_COUNT];
};

aisim_table_builder *aisim_table_builder_new(void)
{
    return aisim_alloc_zero(1, sizeof(aisim_table_builder));
}

void aisim_table_builder_add(aisim_table_builder *builder, aisim_family family,
                             const uint32_t key[], const uint32_t at[], double ms)
{
    raw_row row = {.order = builder->rows[family].len, .ms = ms};
    memcpy(row.key, key, sizeof row.key);
    memcpy(row.at, at, sizeof row.at);
    aisim_array_push(&builder->rows[family], row);
}

/* Neighbours mostly share their words: equality is decided first. */
static int compare_words(const uint32_t *a, const uint32_t *b, size_t n)
{
    if (memcmp(a, b, n * sizeof *a) == 0) {
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (a[i] != b[i]) {
            return a[i] < b[i] ? -1 : 1;
        }
    }
    return 0;
}

static int compare_raw(const void *a, const void *b)
{
    const raw_row *x = a, *y = b;
    int order = compare_words(x->key, y->key, AISIM_TABLE_KEYS);
    if (order == 0) {
        order = compare_words(x->at, y->at, AISIM_TABLE_AXES);
    }
    return order != 0 ? order : compare_words(&x->order, &y->order, 1);
}

/* Calibration files are written in order; sorting them again would be most of their loading. */
static bool is_sorted(const raw_row *raw, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        if (compare_raw(&raw[i - 1], &raw[i]) > 0) {
            return false;
        }
    }
    return true;
}

typedef AISIM_ARRAY(aisim_table_row) table_rows;
typedef AISIM_ARRAY(aisim_table_slice) table_slices;

/* Lengths and batches of a table are few: each logarithm is taken about once. */
typedef struct log2_memo {
    uint32_t at[64]; /* 0 = empty */
    double log2[64];
} log2_memo;

static double memo_log2(log2_memo *memo, uint32_t at)
{
    uint32_t place = (at ^ at >> 6 ^ at >> 12) % 64;
    if (at == 0) {
        return 0;
    }
    if (memo->at[place] != at) {
        memo->at[place] = at;
        memo->log2[place] = log2((double)at);
    }
    return memo->log2[place];
}

static void append_row(const raw_row *raw, aisim_family family, const aisim_hardware *clamp,
                       table_rows *rows, log2_memo *memo)
{
    aisim_table_row row = {.ms = raw->ms};
    memcpy(row.at, raw->at, sizeof row.at);
    if (aisim_family_axes(family) > 1) {
        for (int axis = 0; axis < AISIM_TABLE_AXES; axis++) {
            row.log2[axis] = memo_log2(memo, row.at[axis]);
        }
    }
    if (clamp != NULL && (family == AISIM_FAMILY_GEMM || family == AISIM_FAMILY_DECODE_ATTENTION)) {
        double roof = aisim_table_roof(clamp, family, raw->key, raw->at);
        row.ms = row.ms > roof ? row.ms : roof;
    }
    aisim_array_push(rows, row);
}

aisim_table *aisim_table_builder_finish(aisim_table_builder *builder, const aisim_hardware *clamp)
{
    aisim_table *table = aisim_alloc_zero(1, sizeof *table);
    table_rows rows = {0};
    table_slices slices = {0};
    log2_memo memo = {0};
    for (int f = 0; f < AISIM_FAMILY_COUNT; f++) {
        table->family_first[f] = slices.len;
        uint32_t count = builder->rows[f].len;
        raw_row *raw = builder->rows[f].data;
        if (!is_sorted(raw, count)) {
            qsort(raw, count, sizeof *raw, compare_raw);
        }
        for (uint32_t i = 0; i < count; i++) {
            bool same = i > 0 && compare_words(raw[i].key, raw[i - 1].key, AISIM_TABLE_KEYS) == 0;
            if (same && compare_words(raw[i].at, raw[i - 1].at, AISIM_TABLE_AXES) == 0) {
                continue;
            }
            if (!same) {
                aisim_table_slice slice = {.first = rows.len};
                memcpy(slice.key, raw[i].key, sizeof slice.key);
                for (int k = 0; k < AISIM_TABLE_KEYS; k++) {
                    slice.log2[k] = memo_log2(&memo, slice.key[k]);
                }
                aisim_array_push(&slices, slice);
            }
            append_row(&raw[i], (aisim_family)f, clamp, &rows, &memo);
            slices.data[slices.len - 1].count++;
        }
        aisim_array_free(&builder->rows[f]);
    }
    table->family_first[AISIM_FAMILY_COUNT] = slices.len;
    table->rows = rows.data;
    table->row_count = rows.len;
    table->slices = slices.data;
    table->slice_count = slices.len;
    aisim_free(builder);
    return table;
}

const aisim_table_slice *aisim_table_find(const aisim_table *table, aisim_family family,
                                          const uint32_t key[])
{
    uint32_t low = table->family_first[family], high = table->family_first[family + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = compare_words(table->slices[middle].key, key, AISIM_TABLE_KEYS);
        if (order == 0) {
            return &table->slices[middle];
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

aisim_table *aisim_table_share(aisim_table *table)
{
    table->sharers++;
    return table;
}

void aisim_table_free(aisim_table *table)
{
    if (table != NULL && table->sharers > 0) {
        table->sharers--;
        return;
    }
    if (table != NULL) {
        aisim_free(table->rows);
        aisim_free(table->slices);
        aisim_free(table);
    }
}
