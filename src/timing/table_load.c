/* table_load.c - from the CSV files of measured latencies to slices (table.h).
 *
 * One description per file says which columns form the key and the axes; rows that a filter column
 * excludes are skipped. Everything is sorted afterwards, so the order of the files' lines has no
 * influence. */
#include "timing/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/check.h"
#include "timing/table_csv.h"

typedef struct file_schema {
    const char *file;
    aisim_family family;
    const char *keys[AISIM_TABLE_KEYS];
    const char *axes[AISIM_TABLE_AXES];
    struct {
        const char *column, *prefix; /* the value must start with prefix */
    } filters[2];
    bool clamp; /* rows faster than the roof are raised to it */
} file_schema;

static const file_schema schemas[] = {
    {"gemm.csv", AISIM_FAMILY_GEMM, {"dtype", "n", "k"}, {"m"}, {{0}}, true},
    {"context_attention.csv",
     AISIM_FAMILY_PREFILL_ATTENTION,
     {"attn_dtype", "kv_dtype", "head_dim", "window_tokens", "kv_heads"},
     {"q_heads", "seq_tokens", "batch"},
     {{0}},
     false},
    {"generation_attention.csv",
     AISIM_FAMILY_DECODE_ATTENTION,
     {"attn_dtype", "kv_dtype", "head_dim", "window_tokens", "kv_heads"},
     {"q_heads", "batch", "kv_tokens"},
     {{0}},
     true},
    {"moe.csv",
     AISIM_FAMILY_EXPERTS,
     {"dtype", "hidden", "inter", "topk", "experts", "moe_tp", "moe_ep", "distribution"},
     {"tokens"},
     {{0}},
     false},
    {"mla_context.csv",
     AISIM_FAMILY_MLA_PREFILL,
     {"kv_dtype", "gemm_dtype"},
     {"heads", "new_tokens", "batch"},
     {{"past_tokens", "0"}},
     false},
    {"mla_generation.csv",
     AISIM_FAMILY_MLA_DECODE,
     {"kv_dtype", "gemm_dtype"},
     {"heads", "batch", "kv_tokens"},
     {{0}},
     false},
    {"gdn.csv",
     AISIM_FAMILY_GDN_CONV,
     {"hidden", "k_heads", "v_heads", "v_dim"},
     {"batch", "seq_tokens"},
     {{"phase", "context"}, {"kernel", "causal_conv"}},
     false},
    {"gdn.csv",
     AISIM_FAMILY_GDN_SCAN,
     {"hidden", "k_heads", "v_heads", "v_dim"},
     {"batch", "seq_tokens"},
     {{"phase", "context"}, {"kernel", "chunk_"}},
     false},
    {"gdn.csv",
     AISIM_FAMILY_GDN_CONV_UPDATE,
     {"hidden", "k_heads", "v_heads", "v_dim"},
     {"batch"},
     {{"phase", "generation"}, {"kernel", "causal_conv"}},
     false},
    {"gdn.csv",
     AISIM_FAMILY_GDN_RECURRENCE,
     {"hidden", "k_heads", "v_heads", "v_dim"},
     {"batch"},
     {{"phase", "generation"}, {"kernel", "fused_"}},
     false},
    {"custom_allreduce.csv",
     AISIM_FAMILY_ALL_REDUCE,
     {"num_gpus"},
     {"message_elements"},
     {{"mode", "vllm_graph"}},
     false},
    {"nccl.csv",
     AISIM_FAMILY_ALL_GATHER,
     {"num_gpus"},
     {"message_elements"},
     {{"op", "all_gather"}, {"dtype", "half"}},
     false},
    {"nccl.csv",
     AISIM_FAMILY_REDUCE_SCATTER,
     {"num_gpus"},
     {"message_elements"},
     {{"op", "reduce_scatter"}, {"dtype", "half"}},
     false},
    {"fp8_computescale.csv", AISIM_FAMILY_COMPUTE_SCALE, {0}, {"m", "k"}, {{0}}, false},
    {"fp8_scale_matrix.csv", AISIM_FAMILY_SCALE_MATRIX, {0}, {"m", "k"}, {{0}}, false},
};

/* A row while everything is still in reading order. */
typedef struct raw_row {
    uint32_t key[AISIM_TABLE_KEYS];
    aisim_table_row row;
} raw_row;

typedef AISIM_ARRAY(raw_row) raw_rows;

/* Whole numbers as they are, number formats as aisim_dtype, "power_law_1.2" as 120. */
static bool key_value(const char *text, uint32_t *out)
{
    static const char law[] = "power_law_";
    double exponent;
    int dtype = aisim_word_find(aisim_dtype_words, text);
    if (dtype >= 0) {
        *out = (uint32_t)dtype;
        return true;
    }
    if (strcmp(text, "balanced") == 0) {
        *out = 0;
        return true;
    }
    if (strncmp(text, law, sizeof law - 1) == 0 &&
        aisim_csv_f64(text + sizeof law - 1, &exponent)) {
        *out = (uint32_t)(100 * exponent + 0.5);
        return true;
    }
    return aisim_csv_u32(text, out);
}

/* Column numbers of one file. */
typedef struct columns {
    uint32_t key[AISIM_TABLE_KEYS], axis[AISIM_TABLE_AXES], filter[2], latency;
} columns;

static aisim_status need_column(const aisim_csv *csv, const char *name, uint32_t *out,
                                aisim_error *err)
{
    *out = AISIM_CSV_COLUMNS_MAX;
    if (name == NULL) {
        return AISIM_OK;
    }
    *out = aisim_csv_column(csv, name);
    if (*out == AISIM_CSV_COLUMNS_MAX) {
        return aisim_fail_at(err, AISIM_EPARSE, csv->path, 1, 0, "the column '%s' is missing",
                             name);
    }
    return AISIM_OK;
}

static aisim_status find_columns(const file_schema *schema, const aisim_csv *csv, columns *out,
                                 aisim_error *err)
{
    aisim_status status = need_column(csv, "latency_ms", &out->latency, err);
    for (int i = 0; i < AISIM_TABLE_KEYS && status == AISIM_OK; i++) {
        status = need_column(csv, schema->keys[i], &out->key[i], err);
    }
    for (int i = 0; i < AISIM_TABLE_AXES && status == AISIM_OK; i++) {
        status = need_column(csv, schema->axes[i], &out->axis[i], err);
    }
    for (int i = 0; i < 2 && status == AISIM_OK; i++) {
        status = need_column(csv, schema->filters[i].column, &out->filter[i], err);
    }
    return status;
}

static bool wanted(const file_schema *schema, const aisim_csv *csv, const columns *at)
{
    for (int i = 0; i < 2; i++) {
        const char *prefix = schema->filters[i].prefix;
        if (prefix != NULL && strncmp(csv->fields[at->filter[i]], prefix, strlen(prefix)) != 0) {
            return false;
        }
    }
    return true;
}

static aisim_status parse_row(const file_schema *schema, const aisim_csv *csv, const columns *at,
                              raw_row *out, aisim_error *err)
{
    memset(out, 0, sizeof *out);
    bool ok = aisim_csv_f64(csv->fields[at->latency], &out->row.ms) && out->row.ms > 0;
    for (int i = 0; i < AISIM_TABLE_KEYS && ok && schema->keys[i] != NULL; i++) {
        ok = key_value(csv->fields[at->key[i]], &out->key[i]);
    }
    for (int i = 0; i < AISIM_TABLE_AXES && ok && schema->axes[i] != NULL; i++) {
        ok = aisim_csv_u32(csv->fields[at->axis[i]], &out->row.at[i]) && out->row.at[i] > 0;
    }
    if (!ok) {
        return aisim_fail_at(err, AISIM_EPARSE, csv->path, csv->line, 0,
                             "expected positive numbers and known words");
    }
    bool attention = schema->family == AISIM_FAMILY_PREFILL_ATTENTION ||
                     schema->family == AISIM_FAMILY_DECODE_ATTENTION;
    if (attention && out->key[4] == out->row.at[0]) {
        out->key[4] = 0; /* as many KV heads as query heads: a layout of its own */
    }
    return AISIM_OK;
}

static aisim_status read_file(const file_schema *schema, const char *folder, raw_rows *rows,
                              aisim_error *err)
{
    aisim_csv csv;
    columns at;
    aisim_status status = aisim_csv_open(&csv, folder, schema->file, err);
    if (status != AISIM_OK) {
        return status;
    }
    status = find_columns(schema, &csv, &at, err);
    bool more = true;
    while (status == AISIM_OK) {
        raw_row row;
        status = aisim_csv_next(&csv, &more, err);
        if (status != AISIM_OK || !more) {
            break;
        }
        if (wanted(schema, &csv, &at)) {
            status = parse_row(schema, &csv, &at, &row, err);
            aisim_array_push(rows, row);
        }
    }
    aisim_csv_close(&csv);
    return status;
}

static int compare_words(const uint32_t *a, const uint32_t *b, size_t n)
{
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
    return order != 0 ? order : compare_words(x->row.at, y->row.at, AISIM_TABLE_AXES);
}

typedef AISIM_ARRAY(aisim_table_row) table_rows;
typedef AISIM_ARRAY(aisim_table_slice) table_slices;

/* Sorted raw rows of one family become slices; of equal points the first one in the file's order
 * would be ambiguous, so they are refused upstream by the data's own rule (keys are unique). */
static void append_family(const file_schema *schema, const aisim_hardware *hw, raw_rows *raw,
                          table_rows *rows, table_slices *slices)
{
    if (raw->len > 0) {
        qsort(raw->data, raw->len, sizeof *raw->data, compare_raw);
    }
    for (uint32_t i = 0; i < raw->len; i++) {
        const raw_row *r = &raw->data[i];
        if (i == 0 || compare_words(r->key, raw->data[i - 1].key, AISIM_TABLE_KEYS) != 0) {
            aisim_table_slice slice = {.first = rows->len};
            memcpy(slice.key, r->key, sizeof slice.key);
            aisim_array_push(slices, slice);
        }
        aisim_table_row row = r->row;
        if (schema->clamp) {
            double roof = aisim_table_roof(hw, schema->family, r->key, row.at);
            row.ms = row.ms > roof ? row.ms : roof;
        }
        aisim_array_push(rows, row);
        slices->data[slices->len - 1].count++;
    }
}

static const file_schema *schema_of(aisim_family family)
{
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        if (schemas[i].family == family) {
            return &schemas[i];
        }
    }
    AISIM_UNREACHABLE();
}

aisim_status aisim_table_load(const char *folder, const aisim_hardware *hardware, aisim_table **out,
                              aisim_error *err)
{
    *out = NULL;
    aisim_table *table = aisim_alloc_zero(1, sizeof *table);
    table_rows rows = {0};
    table_slices slices = {0};
    raw_rows raw = {0};
    aisim_status status = AISIM_OK;
    for (int f = 0; f < AISIM_FAMILY_COUNT && status == AISIM_OK; f++) {
        const file_schema *schema = schema_of((aisim_family)f);
        raw.len = 0;
        table->family_first[f] = slices.len;
        status = read_file(schema, folder, &raw, err);
        if (status == AISIM_OK) {
            append_family(schema, hardware, &raw, &rows, &slices);
        }
    }
    table->family_first[AISIM_FAMILY_COUNT] = slices.len;
    aisim_array_free(&raw);
    table->rows = rows.data;
    table->row_count = rows.len;
    table->slices = slices.data;
    table->slice_count = slices.len;
    if (status != AISIM_OK) {
        aisim_table_free(table);
        return status;
    }
    *out = table;
    return AISIM_OK;
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

void aisim_table_free(aisim_table *table)
{
    if (table != NULL) {
        aisim_free(table->rows);
        aisim_free(table->slices);
        aisim_free(table);
    }
}
