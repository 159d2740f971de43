/* table_load.c - from the CSV files of measured latencies to slices (table.h).
 *
 * One description per file says which columns form the key and the axes; rows that a filter column
 * excludes are skipped. Everything is sorted afterwards, so the order of the files' lines has no
 * influence. */
#include "timing/table.h"

#include <string.h>

#include "timing/table_build.h"
#include "timing/table_csv.h"

typedef struct file_schema {
    const char *file;
    aisim_family family;
    const char *keys[AISIM_TABLE_KEYS];
    const char *axes[AISIM_TABLE_AXES];
    struct {
        const char *column, *prefix; /* the value must start with prefix */
    } filters[2];
} file_schema;

static const file_schema schemas[] = {
    {"gemm.csv", AISIM_FAMILY_GEMM, {"dtype", "n", "k"}, {"m"}, {{0}}},
    {"context_attention.csv",
     AISIM_FAMILY_PREFILL_ATTENTION,
     {"attn_dtype", "kv_dtype", "head_dim", "window_tokens", "kv_heads"},
     {"q_heads", "seq_tokens", "batch"},
     {{0}}},
    {"generation_attention.csv",
     AISIM_FAMILY_DECODE_ATTENTION,
     {"attn_dtype", "kv_dtype", "head_dim", "window_tokens", "kv_heads"},
     {"q_heads", "batch", "kv_tokens"},
     {{0}}},
    {"moe.csv",
     AISIM_FAMILY_EXPERTS,
     {"dtype", "hidden", "inter", "topk", "experts", "moe_tp", "moe_ep", "distribution"},
     {"tokens"},
     {{0}}},
    {"mla_context.csv",
     AISIM_FAMILY_MLA_PREFILL,
     {"kv_dtype", "gemm_dtype"},
     {"heads", "new_tokens", "batch"},
     {{"past_tokens", "0"}}},
    {"mla_generation.csv",
     AISIM_FAMILY_MLA_DECODE,
     {"kv_dtype", "gemm_dtype"},
     {"heads", "batch", "kv_tokens"},
     {{0}}},
    {"gdn.csv",
     AISIM_FAMILY_GDN_CONV,
     {"hidden", "k_heads", "v_heads", "v_dim"},
     {"batch", "seq_tokens"},
     {{"phase", "context"}, {"kernel", "causal_conv"}}},
    {"gdn.csv",
     AISIM_FAMILY_GDN_SCAN,
     {"hidden", "k_heads", "v_heads", "v_dim"},
     {"batch", "seq_tokens"},
     {{"phase", "context"}, {"kernel", "chunk_"}}},
    {"gdn.csv",
     AISIM_FAMILY_GDN_CONV_UPDATE,
     {"hidden", "k_heads", "v_heads", "v_dim"},
     {"batch"},
     {{"phase", "generation"}, {"kernel", "causal_conv"}}},
    {"gdn.csv",
     AISIM_FAMILY_GDN_RECURRENCE,
     {"hidden", "k_heads", "v_heads", "v_dim"},
     {"batch"},
     {{"phase", "generation"}, {"kernel", "fused_"}}},
    {"custom_allreduce.csv",
     AISIM_FAMILY_ALL_REDUCE,
     {"num_gpus"},
     {"message_elements"},
     {{"mode", "vllm_graph"}}},
    {"nccl.csv",
     AISIM_FAMILY_ALL_GATHER,
     {"num_gpus"},
     {"message_elements"},
     {{"op", "all_gather"}, {"dtype", "half"}}},
    {"nccl.csv",
     AISIM_FAMILY_REDUCE_SCATTER,
     {"num_gpus"},
     {"message_elements"},
     {{"op", "reduce_scatter"}, {"dtype", "half"}}},
    {"fp8_computescale.csv", AISIM_FAMILY_COMPUTE_SCALE, {0}, {"m", "k"}, {{0}}},
    {"fp8_scale_matrix.csv", AISIM_FAMILY_SCALE_MATRIX, {0}, {"m", "k"}, {{0}}},
};

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

static aisim_status add_row(const file_schema *schema, const aisim_csv *csv, const columns *at,
                            aisim_table_builder *builder, aisim_error *err)
{
    uint32_t key[AISIM_TABLE_KEYS] = {0}, axes[AISIM_TABLE_AXES] = {0};
    double ms;
    bool ok = aisim_csv_f64(csv->fields[at->latency], &ms) && ms > 0;
    for (int i = 0; i < AISIM_TABLE_KEYS && ok && schema->keys[i] != NULL; i++) {
        ok = key_value(csv->fields[at->key[i]], &key[i]);
    }
    for (int i = 0; i < AISIM_TABLE_AXES && ok && schema->axes[i] != NULL; i++) {
        ok = aisim_csv_u32(csv->fields[at->axis[i]], &axes[i]) && axes[i] > 0;
    }
    if (!ok) {
        return aisim_fail_at(err, AISIM_EPARSE, csv->path, csv->line, 0,
                             "expected positive numbers and known words");
    }
    bool attention = schema->family == AISIM_FAMILY_PREFILL_ATTENTION ||
                     schema->family == AISIM_FAMILY_DECODE_ATTENTION;
    if (attention && key[4] == axes[0]) {
        key[4] = 0; /* as many KV heads as query heads: a layout of its own */
    }
    aisim_table_builder_add(builder, schema->family, key, axes, ms);
    return AISIM_OK;
}

static aisim_status read_file(const file_schema *schema, const char *folder,
                              aisim_table_builder *builder, aisim_error *err)
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
        status = aisim_csv_next(&csv, &more, err);
        if (status != AISIM_OK || !more) {
            break;
        }
        if (wanted(schema, &csv, &at)) {
            status = add_row(schema, &csv, &at, builder, err);
        }
    }
    aisim_csv_close(&csv);
    return status;
}

aisim_status aisim_table_load(const char *folder, const aisim_hardware *hardware, aisim_table **out,
                              aisim_error *err)
{
    aisim_table_builder *builder = aisim_table_builder_new();
    aisim_status status = AISIM_OK;
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0] && status == AISIM_OK; i++) {
        status = read_file(&schemas[i], folder, builder, err);
    }
    aisim_table *table = aisim_table_builder_finish(builder, hardware);
    if (status != AISIM_OK) {
        aisim_table_free(table);
        table = NULL;
    }
    *out = table;
    return status;
}
