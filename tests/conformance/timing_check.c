/* timing_check.c - H200 timing against the reference numbers (spec/timing.md §12.1, §12.2).
 *
 *   timing_check capacity VECTORS
 *   timing_check passes   VECTORS tables FOLDER | calibration FILE | roofline  [--worst N]
 * [--classes]
 *
 * VECTORS is the folder with h200_*.csv; catalogue files are read from lua/aisim. Prints one line
 * per family and one for all: rows, median, p90, p95, worst relative error in per cent.
 * Exit status 1 when a limit of the mode is broken, 77 when the vectors are absent. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/descriptor_file.h"
#include "timing/capacity.h"
#include "timing/op_level.h"
#include "timing/table_csv.h"

typedef struct name_pair {
    const char *vector, *catalogue, *family;
} name_pair;

/* Checkpoint names of the vectors, catalogue names, families of the report. */
static const name_pair names[] = {
    {"Meta-Llama-3.1-8B", "llama-3.1-8b", "llama bf16"},
    {"Meta-Llama-3.1-70B", "llama-3.1-70b", "llama bf16"},
    {"Llama-3.1-70B-Instruct-FP8", "llama-3.1-70b-fp8", "llama fp8"},
    {"Qwen3-8B", "qwen3-8b", "qwen3 dense"},
    {"Qwen3-32B", "qwen3-32b", "qwen3 dense"},
    {"Qwen3-32B-FP8", "qwen3-32b-fp8", "qwen3 dense fp8"},
    {"Qwen3-30B-A3B", "qwen3-30b-a3b", "qwen3 moe"},
    {"Qwen3-235B-A22B", "qwen3-235b-a22b", "qwen3 moe"},
    {"Qwen3-30B-A3B-FP8", "qwen3-30b-a3b-fp8", "qwen3 moe fp8"},
    {"Qwen3-235B-A22B-FP8", "qwen3-235b-a22b-fp8", "qwen3 moe fp8"},
    {"gpt-oss-120b", "gpt-oss-120b", "gpt-oss"},
    {"DeepSeek-R1", "deepseek-r1", "deepseek"},
    {"Qwen3.5-27B", "qwen3.5-27b", "qwen3.5"},
    {"Qwen3.5-35B-A3B", "qwen3.5-35b-a3b", "qwen3.5"},
    {"Qwen3.5-397B-A17B", "qwen3.5-397b-a17b", "qwen3.5"},
};

enum { NAMES = sizeof names / sizeof names[0], CLASSES = 6, ROWS_MAX = 8192 };

static const char *const class_columns[CLASSES] = {"gemm_ms", "attn_ms", "moe_ms",
                                                   "ssm_ms",  "comm_ms", "mem_ms"};
static const char *const class_kinds[CLASSES] = {"gemm",  "attention", "experts",
                                                 "state", "link",      "memory"};

static const char *catalogue_file = "lua/aisim";

static void die(const aisim_error *err)
{
    char text[1400];
    fprintf(stderr, "%s\n", aisim_error_format(err, text, sizeof text));
    exit(1);
}

static const char *field(const aisim_csv *csv, const char *name)
{
    uint32_t column = aisim_csv_column(csv, name);
    if (column >= csv->columns) {
        fprintf(stderr, "%s: no column '%s'\n", csv->path, name);
        exit(1);
    }
    return csv->fields[column];
}

static double number(const aisim_csv *csv, const char *name)
{
    return strtod(field(csv, name), NULL);
}

static uint64_t whole(const aisim_csv *csv, const char *name)
{
    return strtoull(field(csv, name), NULL, 10);
}

static const name_pair *pair_of(const char *vector)
{
    for (int i = 0; i < NAMES; i++) {
        if (strcmp(names[i].vector, vector) == 0) {
            return &names[i];
        }
    }
    fprintf(stderr, "unknown model '%s' in the vectors\n", vector);
    exit(1);
}

static void load(const aisim_field_table *table, void *object, const char *kind, const char *name)
{
    char folder[256];
    snprintf(folder, sizeof folder, "%s/%s", catalogue_file, kind);
    if (!descriptor_read(table, object, folder, name)) {
        exit(1);
    }
}

static aisim_parallelism parallelism_of(const aisim_csv *csv)
{
    aisim_parallelism p = aisim_parallelism_one();
    p.tensor = (uint32_t)whole(csv, "tp");
    p.attention_data = (uint32_t)whole(csv, "attn_dp");
    p.moe_tensor = (uint32_t)whole(csv, "moe_tp");
    p.moe_expert = (uint32_t)whole(csv, "moe_ep");
    return p;
}

static void open_vectors(aisim_csv *csv, const char *folder, const char *name)
{
    aisim_error err = {0};
    if (aisim_csv_open(csv, folder, name, &err) != AISIM_OK) {
        printf("SKIP: %s/%s is not here\n0 passed, 0 failed, 1 skipped\n", folder, name);
        exit(77);
    }
}

static bool next(aisim_csv *csv)
{
    aisim_error err = {0};
    bool more;
    if (aisim_csv_next(csv, &more, &err) != AISIM_OK) {
        die(&err);
    }
    return more;
}

/* capacity: every figure of every row exactly */

static int same(const aisim_csv *csv, const char *column, double got)
{
    double want = number(csv, column);
    if (got == want) {
        return 1;
    }
    printf("%s:%d: %s tp%s %s: got %.17g, want %.17g\n", csv->path, csv->line, field(csv, "model"),
           field(csv, "tp"), column, got, want);
    return 0;
}

static bool capacity_row(const aisim_csv *csv, const aisim_hardware *hw)
{
    aisim_model model;
    aisim_capacity c;
    aisim_error err = {0};
    aisim_parallelism p = parallelism_of(csv);
    aisim_model_init(&model);
    load(&aisim_model_fields, &model, "models", pair_of(field(csv, "model"))->catalogue);
    aisim_capacity_request request = aisim_capacity_request_default();
    request.memory_fraction = number(csv, "memory_fraction");
    request.max_batched_tokens = whole(csv, "max_num_tokens");
    if (aisim_capacity_compute(&model, hw, &p, &request, "main", &c, &err) != AISIM_OK) {
        die(&err);
    }
    double one_token = aisim_kv_bytes(&model, &p, 1) + aisim_state_bytes(&model, &p);
    int good = same(csv, "capacity_bytes", hw->memory_bytes) +
               same(csv, "weights_bytes", c.weights_bytes) +
               same(csv, "activations_bytes", c.activations_bytes) +
               same(csv, "runtime_overhead_bytes", c.runtime_bytes) +
               same(csv, "comm_overhead_bytes", c.collective_bytes) +
               same(csv, "kv_budget_bytes", floor(c.budget_bytes)) +
               same(csv, "kv_bytes_per_token", one_token) +
               same(csv, "kv_tokens", (double)c.tokens) +
               same(csv, "blocks_of_16", (double)c.blocks);
    return good == 9;
}

static int check_capacity(const char *vectors)
{
    aisim_csv csv;
    aisim_hardware hw;
    int passed = 0, failed = 0;
    aisim_hardware_init(&hw);
    load(&aisim_hardware_fields, &hw, "hardware", "h200_sxm");
    open_vectors(&csv, vectors, "h200_kv_capacity.csv");
    while (next(&csv)) {
        if (capacity_row(&csv, &hw)) {
            passed++;
        } else {
            failed++;
        }
    }
    aisim_csv_close(&csv);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}

/* passes */

typedef struct pass_result {
    char id[16], kind[12], label[64];
    const char *family;
    double got, want, error, class_error;
    char worst_class[12];
} pass_result;

typedef enum { MODE_TABLES, MODE_CALIBRATION, MODE_ROOFLINE } check_mode;

static aisim_timing *timing_of(const aisim_csv *csv, check_mode mode, const char *path)
{
    aisim_model model;
    aisim_hardware hw;
    aisim_error err = {0};
    aisim_timing *timing = NULL;
    aisim_parallelism p = parallelism_of(csv);
    aisim_op_level_options options = {0};
    aisim_model_init(&model);
    aisim_hardware_init(&hw);
    load(&aisim_model_fields, &model, "models", pair_of(field(csv, "model"))->catalogue);
    load(&aisim_hardware_fields, &hw, "hardware", "h200_sxm");
    aisim_status status =
        mode == MODE_TABLES ? aisim_timing_tables(&model, &hw, &p, &options, path, &timing, &err)
        : mode == MODE_CALIBRATION
            ? aisim_timing_calibrated(&model, &hw, &p, &options, path, &timing, &err)
            : aisim_timing_roofline(&model, &hw, &p, &options, NULL, &timing, &err);
    if (status != AISIM_OK) {
        die(&err);
    }
    return timing;
}

static void config_key(const aisim_csv *csv, char *out, size_t size)
{
    snprintf(out, size, "%s tp%s ep%s dp%s k%s", field(csv, "model"), field(csv, "tp"),
             field(csv, "moe_ep"), field(csv, "attn_dp"), field(csv, "nextn"));
}

/* Error of the worst class, relative to the total (a class may be tiny). Members of an overlap
 * belong to the class of the experts. The vectors count the dispatch of DeepSeek as memory, that of
 * all others as collectives: both classes together are compared there. */
static void compare_classes(const aisim_csv *csv, const aisim_timing_part *parts, size_t n,
                            pass_result *out)
{
    bool merge = strcmp(out->family, "deepseek") == 0;
    double carry = 0;
    for (int c = 0; c < CLASSES; c++) {
        double sum = -number(csv, class_columns[c]) + carry;
        carry = 0;
        for (size_t i = 0; i < n; i++) {
            const char *kind = parts[i].overlap > 0 ? "experts" : parts[i].kind;
            sum += strcmp(kind, class_kinds[c]) == 0 ? parts[i].latency_ms : 0;
        }
        if (merge && strcmp(class_kinds[c], "link") == 0) {
            carry = sum; /* "memory" follows */
            continue;
        }
        double error = fabs(sum) / out->want;
        if (error > out->class_error) {
            out->class_error = error;
            snprintf(out->worst_class, sizeof out->worst_class, "%s", class_kinds[c]);
        }
    }
}

static void pass_row(const aisim_csv *csv, aisim_timing *timing, pass_result *out)
{
    aisim_timing_part parts[160];
    aisim_pass_shape shape = {whole(csv, "n_prefill"),  whole(csv, "sum_new"),
                              whole(csv, "sum_prefix"), whole(csv, "n_decode"),
                              whole(csv, "sum_kv"),     (uint32_t)whole(csv, "nextn") + 1};
    memset(out, 0, sizeof *out);
    size_t n = aisim_timing_explain(timing, &shape, parts, 160, &out->got);
    out->want = number(csv, "latency_ms");
    out->error = fabs(out->got - out->want) / out->want;
    out->family = pair_of(field(csv, "model"))->family;
    snprintf(out->id, sizeof out->id, "%s", field(csv, "id"));
    snprintf(out->kind, sizeof out->kind, "%s", field(csv, "kind"));
    config_key(csv, out->label, sizeof out->label);
    compare_classes(csv, parts, n, out);
}

static int by_error(const void *a, const void *b)
{
    const pass_result *x = a, *y = b;
    return x->error < y->error ? -1 : x->error > y->error ? 1 : strcmp(x->id, y->id);
}

typedef struct error_summary {
    int rows;
    double median, p90, p95, worst;
} error_summary;

/* Sorted results; family or kind NULL = any. Linear percentiles. */
static error_summary summarise(const pass_result *r, int n, const char *family, const char *kind)
{
    static double e[ROWS_MAX];
    error_summary s = {0};
    for (int i = 0; i < n; i++) {
        if ((family == NULL || strcmp(r[i].family, family) == 0) &&
            (kind == NULL || strcmp(r[i].kind, kind) == 0)) {
            e[s.rows++] = 100 * r[i].error;
        }
    }
    if (s.rows == 0) {
        return s;
    }
    double q[3] = {0.5, 0.9, 0.95}, v[3];
    for (int i = 0; i < 3; i++) {
        double at = q[i] * (s.rows - 1);
        int low = (int)at;
        v[i] = e[low] + (low + 1 < s.rows ? (at - low) * (e[low + 1] - e[low]) : 0);
    }
    s.median = v[0];
    s.p90 = v[1];
    s.p95 = v[2];
    s.worst = e[s.rows - 1];
    return s;
}

static void print_summary(const char *name, error_summary s)
{
    printf("%-18s %5d rows  median %7.4f %%  p90 %7.4f %%  p95 %7.4f %%  worst %7.4f %%\n", name,
           s.rows, s.median, s.p90, s.p95, s.worst);
}

/* Limits in per cent: tables mode §12.1; calibration as the project set itself. */
typedef struct limits {
    double median, p95, worst, family_median, class_worst;
} limits;

static int report(pass_result *r, int n, check_mode mode, int worst, bool classes)
{
    static const limits all[] = {{0.1, 0.1, 0.1, 0.1, 0.5},
                                 {0.8, 4, 12, 1.2, INFINITY},
                                 {INFINITY, INFINITY, INFINITY, INFINITY, INFINITY}};
    const limits *limit = &all[mode];
    const char *kinds[] = {"prefill", "decode", "mixed"};
    double class_worst = 0;
    int failed = 0;
    qsort(r, (size_t)n, sizeof *r, by_error);
    for (int i = 0; i < n; i++) {
        class_worst = r[i].class_error > class_worst ? r[i].class_error : class_worst;
    }
    for (int i = n - worst > 0 ? n - worst : 0; i < n; i++) {
        printf("  %s %-7s %-40s got %10.5f want %10.5f  %+.3f %%", r[i].id, r[i].kind, r[i].label,
               r[i].got, r[i].want, 100 * (r[i].got / r[i].want - 1));
        printf(classes ? "  worst class %s %.3f %%\n" : "\n", r[i].worst_class,
               100 * r[i].class_error);
    }
    for (int i = 0; i < NAMES; i++) {
        if (i > 0 && strcmp(names[i].family, names[i - 1].family) == 0) {
            continue;
        }
        error_summary s = summarise(r, n, names[i].family, NULL);
        print_summary(names[i].family, s);
        failed += s.median > limit->family_median;
    }
    for (int i = 0; i < 3; i++) {
        print_summary(kinds[i], summarise(r, n, NULL, kinds[i]));
    }
    error_summary s = summarise(r, n, NULL, NULL);
    print_summary("all", s);
    printf("worst class error %.4f %% of the pass\n", 100 * class_worst);
    failed += (s.median > limit->median) + (s.p95 > limit->p95) + (s.worst > limit->worst) +
              (100 * class_worst > limit->class_worst);
    printf("%d passed, %d failed\n", n, failed);
    return failed > 0;
}

static int check_passes(const char *vectors, check_mode mode, const char *path, int worst,
                        bool classes)
{
    static pass_result results[ROWS_MAX];
    char key[128], last[128] = "";
    aisim_timing *timing = NULL;
    aisim_csv csv;
    int n = 0;
    open_vectors(&csv, vectors, "h200_pass_latency.csv");
    while (n < ROWS_MAX && next(&csv)) {
        config_key(&csv, key, sizeof key);
        if (strcmp(key, last) != 0) {
            aisim_timing_free(timing);
            timing = timing_of(&csv, mode, path);
            strcpy(last, key);
        }
        pass_row(&csv, timing, &results[n++]);
    }
    aisim_timing_free(timing);
    aisim_csv_close(&csv);
    return report(results, n, mode, worst, classes);
}

int main(int argc, char **argv)
{
    int worst = 0;
    bool classes = false;
    for (int i = 4; i < argc; i++) {
        if (strcmp(argv[i], "--worst") == 0 && i + 1 < argc) {
            worst = atoi(argv[i + 1]);
        }
        classes = classes || strcmp(argv[i], "--classes") == 0;
    }
    if (argc >= 3 && strcmp(argv[1], "capacity") == 0) {
        return check_capacity(argv[2]);
    }
    if (argc >= 5 && strcmp(argv[1], "passes") == 0 && strcmp(argv[3], "tables") == 0) {
        return check_passes(argv[2], MODE_TABLES, argv[4], worst, classes);
    }
    if (argc >= 5 && strcmp(argv[1], "passes") == 0 && strcmp(argv[3], "calibration") == 0) {
        return check_passes(argv[2], MODE_CALIBRATION, argv[4], worst, classes);
    }
    if (argc >= 4 && strcmp(argv[1], "passes") == 0 && strcmp(argv[3], "roofline") == 0) {
        return check_passes(argv[2], MODE_ROOFLINE, NULL, worst, classes);
    }
    fprintf(stderr,
            "usage: timing_check capacity VECTORS\n"
            "       timing_check passes VECTORS tables FOLDER | calibration FILE | roofline "
            "[--worst N] [--classes]\n");
    return 2;
}
