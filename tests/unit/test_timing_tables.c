/* test_timing_tables.c - CSV reading, interpolation rules and fallbacks on small invented tables
 * (timing.md §5, §7). */
#include "check.h"
#include "descriptor_file.h"
#include "timing/decode_curve.h"
#include "timing/resolve.h"
#include "timing/source_tables.h"
#include "timing/table_build.h"
#include "timing/table_csv.h"

static aisim_hardware hw;

static void load_hardware(void)
{
    aisim_hardware_init(&hw);
    CHECK(descriptor_read(&aisim_hardware_fields, &hw, "lua/aisim/hardware", "h200_sxm"));
}

static void add(aisim_table_builder *b, aisim_family family, const uint32_t *key, uint32_t x,
                uint32_t y, uint32_t z, double ms)
{
    uint32_t at[AISIM_TABLE_AXES] = {x, y, z};
    aisim_table_builder_add(b, family, key, at, ms);
}

static double roof_at(aisim_family family, const uint32_t *key, uint32_t x, uint32_t y, uint32_t z)
{
    uint32_t at[AISIM_TABLE_AXES] = {x, y, z};
    return aisim_table_roof(&hw, family, key, at);
}

static double grid_at(const aisim_table *table, aisim_family family, const uint32_t *key,
                      uint32_t x, uint32_t y, uint32_t z, aisim_provenance *provenance)
{
    aisim_table_query q = {.family = family, .axes = aisim_family_axes(family), .at = {x, y, z}};
    memcpy(q.key, key, sizeof q.key);
    const aisim_table_slice *slice = aisim_table_find(table, family, key);
    CHECK(slice != NULL);
    return slice != NULL ? aisim_resolve_grid(table, slice, &hw, &q, provenance) : 0;
}

static void test_numbers(void)
{
    double x;
    uint32_t n;
    CHECK(aisim_csv_f64("0.0025307", &x) && x == 0.0025307);
    CHECK(aisim_csv_f64("188.54", &x) && x == 188.54);
    CHECK(aisim_csv_f64("1e-05", &x) && x == 1e-05);
    CHECK(aisim_csv_f64("4.8e+12", &x) && x == 4.8e12);
    CHECK(aisim_csv_f64("-3", &x) && x == -3);
    CHECK(!aisim_csv_f64("", &x) && !aisim_csv_f64("1,5", &x) && !aisim_csv_f64("nan", &x));
    CHECK(!aisim_csv_f64("1e", &x) && !aisim_csv_f64("1..2", &x));
    CHECK(aisim_csv_u32("4294967295", &n) && n == UINT32_MAX);
    CHECK(!aisim_csv_u32("4294967296", &n) && !aisim_csv_u32("-1", &n) && !aisim_csv_u32("", &n));
}

/* §5.1 on one axis: verbatim, linear, and beyond the end along the roof. */
static void test_curve(void)
{
    const aisim_family f = AISIM_FAMILY_ALL_REDUCE;
    const uint32_t key[AISIM_TABLE_KEYS] = {4};
    aisim_provenance p;
    aisim_table_builder *b = aisim_table_builder_new();
    add(b, f, key, 4096, 0, 0, 0.02);
    add(b, f, key, 1024, 0, 0, 0.01); /* any order */
    add(b, f, key, 1024, 0, 0, 0.09); /* the first of equal points stays */
    aisim_table *t = aisim_table_builder_finish(b, NULL);
    CHECK_EQ(t->row_count, 2);
    CHECK(grid_at(t, f, key, 1024, 0, 0, &p) == 0.01 && p == AISIM_PROVENANCE_MEASURED);
    CHECK_NEAR(grid_at(t, f, key, 2560, 0, 0, &p), 0.015, 1e-15);
    CHECK(p == AISIM_PROVENANCE_INTERPOLATED);
    CHECK_NEAR(grid_at(t, f, key, 40960, 0, 0, &p), 0.2, 1e-12); /* roof is linear in elements */
    CHECK(p == AISIM_PROVENANCE_EXTRAPOLATED);
    CHECK_NEAR(grid_at(t, f, key, 512, 0, 0, &p), 0.005, 1e-12);
    aisim_table_free(t);
}

static aisim_table *attention_table(const uint32_t *key)
{
    const aisim_family f = AISIM_FAMILY_PREFILL_ATTENTION;
    aisim_table_builder *b = aisim_table_builder_new();
    add(b, f, key, 32, 1024, 1, 0.04);
    add(b, f, key, 32, 1024, 2, 0.08);
    add(b, f, key, 32, 1024, 4, 0.16);
    add(b, f, key, 32, 2048, 1, 0.16);
    add(b, f, key, 32, 2048, 2, 0.32); /* ragged: no batch 4 */
    add(b, f, key, 64, 1024, 1, 0.08);
    return aisim_table_builder_finish(b, NULL);
}

/* §5.1 on three axes: square roots along the sequence, ragged corners, nearest points outside. */
static void test_grid(void)
{
    const aisim_family f = AISIM_FAMILY_PREFILL_ATTENTION;
    const uint32_t key[AISIM_TABLE_KEYS] = {0, 0, 128, 0, 8};
    aisim_provenance p;
    aisim_table *t = attention_table(key);
    CHECK(grid_at(t, f, key, 32, 2048, 2, &p) == 0.32);
    CHECK_NEAR(grid_at(t, f, key, 32, 1536, 1, &p), 0.09, 1e-15); /* ((0.2 + 0.4) / 2)^2 */
    CHECK_NEAR(grid_at(t, f, key, 32, 1024, 3, &p), 0.12, 1e-15);
    CHECK_NEAR(grid_at(t, f, key, 48, 1024, 1, &p), 0.06, 1e-15);
    /* batch 4 exists at 1024 only: that neighbour answers, scaled by the roofs */
    double scale = roof_at(f, key, 32, 1536, 4) / roof_at(f, key, 32, 1024, 4);
    CHECK_NEAR(grid_at(t, f, key, 32, 1536, 4, &p), 0.16 * scale, 1e-12);
    CHECK(p == AISIM_PROVENANCE_INTERPOLATED);
    /* outside: between the efficiencies of the neighbours, times the roof there */
    double roof = roof_at(f, key, 32, 4096, 1);
    double ms = grid_at(t, f, key, 32, 4096, 1, &p), util = roof / ms;
    CHECK(p == AISIM_PROVENANCE_EXTRAPOLATED);
    double least = 1e9, most = 0;
    for (uint32_t i = 0; i < t->row_count; i++) {
        double u = aisim_table_roof(&hw, f, key, t->rows[i].at) / t->rows[i].ms;
        least = u < least ? u : least;
        most = u > most ? u : most;
    }
    CHECK(util >= least * (1 - 1e-12) && util <= most * (1 + 1e-12));
    aisim_table_free(t);
}

static aisim_table *gemm_table(void)
{
    const aisim_family f = AISIM_FAMILY_GEMM;
    aisim_table_builder *b = aisim_table_builder_new();
    for (uint32_t n = 1024; n <= 4096; n *= 2) {
        for (uint32_t k = 1024; k <= 4096; k *= 2) {
            const uint32_t key[AISIM_TABLE_KEYS] = {AISIM_DTYPE_BFLOAT16, n, k};
            for (uint32_t m = 1; m <= 1024; m *= 4) {
                add(b, f, key, m, 0, 0, roof_at(f, key, m, 0, 0) / 0.5);
            }
        }
    }
    return aisim_table_builder_finish(b, &hw);
}

static double gemm_at(const aisim_table *t, uint32_t m, uint32_t n, uint32_t k, aisim_provenance *p)
{
    aisim_table_query q = {
        .family = AISIM_FAMILY_GEMM, .axes = 1, .key = {AISIM_DTYPE_BFLOAT16, n, k}, .at = {m}};
    return aisim_resolve_gemm(t, &hw, &q, p);
}

/* §5.2: everything in this table runs at efficiency 0.5, so every resolved shape must, too. */
static void test_gemm_sites(void)
{
    aisim_provenance p;
    aisim_table *t = gemm_table();
    const struct {
        uint32_t m, n, k;
        aisim_provenance provenance;
    } cases[] = {{64, 2048, 1024, AISIM_PROVENANCE_MEASURED},
                 {4096, 2048, 1024, AISIM_PROVENANCE_EXTRAPOLATED},
                 {64, 3000, 1500, AISIM_PROVENANCE_INTERPOLATED},
                 {64, 128256, 4096, AISIM_PROVENANCE_INTERPOLATED}}; /* a large vocabulary */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint32_t key[AISIM_TABLE_KEYS] = {0, cases[i].n, cases[i].k};
        double ms = gemm_at(t, cases[i].m, cases[i].n, cases[i].k, &p);
        CHECK_NEAR(ms / roof_at(AISIM_FAMILY_GEMM, key, cases[i].m, 0, 0), 2, 1e-12);
        CHECK(p == cases[i].provenance);
    }
    CHECK(gemm_at(t, 64, 16, 16, &p) < 0);         /* far below: nobody answers */
    CHECK(gemm_at(t, 64, 131072, 131072, &p) < 0); /* two axes beyond: nobody answers */
    double a = gemm_at(t, 64, 2048, 1024, &p), c = gemm_at(t, 256, 2048, 1024, &p);
    CHECK_NEAR(gemm_at(t, 160, 2048, 1024, &p), (a + c) / 2, 1e-15);
    aisim_table_free(t);
}

/* §3.2: points faster than light are raised to the roof. */
static void test_clamp(void)
{
    const uint32_t key[AISIM_TABLE_KEYS] = {AISIM_DTYPE_BFLOAT16, 4096, 4096};
    aisim_table_builder *b = aisim_table_builder_new();
    add(b, AISIM_FAMILY_GEMM, key, 512, 0, 0, 1e-6);
    aisim_table *t = aisim_table_builder_finish(b, &hw);
    CHECK(t->rows[0].ms == roof_at(AISIM_FAMILY_GEMM, key, 512, 0, 0));
    aisim_table_free(t);
}

static double price(aisim_op_source *source, const aisim_op *op, uint64_t tokens,
                    aisim_provenance *p)
{
    aisim_op_load load = {.tokens = tokens, .batch = tokens, .seq = 1, .context = 1024};
    return source->class->price(source, op, &load, p);
}

/* §7: an expert shape that was never measured borrows from the nearest one; without any, the
 * default curve answers. Both are guesses. */
static void test_fallback(void)
{
    const uint32_t key[AISIM_TABLE_KEYS] = {AISIM_DTYPE_BFLOAT16, 2048, 768, 8, 128, 1, 1, 120};
    aisim_provenance p;
    aisim_table_builder *b = aisim_table_builder_new();
    for (uint32_t m = 1; m <= 4096; m *= 2) {
        add(b, AISIM_FAMILY_EXPERTS, key, m, 0, 0,
            roof_at(AISIM_FAMILY_EXPERTS, key, m, 0, 0) / 0.25);
    }
    aisim_op_source *source = aisim_op_source_tables(aisim_table_builder_finish(b, NULL), &hw);
    aisim_op op = {.kind = AISIM_OP_EXPERTS, .dtype = AISIM_DTYPE_BFLOAT16};
    op.experts.hidden = 4096;
    op.experts.inter = 1536;
    op.experts.topk = 8;
    op.experts.experts = 128;
    op.experts.moe_tp = op.experts.moe_ep = op.experts.attn_dp = 1;
    op.experts.skew = 1.2;
    aisim_op_load load = {.tokens = 256};
    double roof = aisim_roof_ms(aisim_op_roof(&hw, &op, &load));
    CHECK_NEAR(price(source, &op, 256, &p) / roof, 4, 1e-9);
    CHECK(p == AISIM_PROVENANCE_ROOFLINE);
    op.experts.skew = 1.01; /* another routing is another thing: default curve */
    CHECK_NEAR(price(source, &op, 256, &p), (roof + 0.030) / 0.55, 1e-9);
    CHECK(p == AISIM_PROVENANCE_ROOFLINE);
    aisim_op_source_free(source);
}

/* A curve answers as its source does, on and off the straight octaves, in any order of queries. */
static void test_decode_curve(void)
{
    const aisim_family f = AISIM_FAMILY_DECODE_ATTENTION;
    const uint32_t key[AISIM_TABLE_KEYS] = {0, 0, 128, 0, 8};
    aisim_table_builder *b = aisim_table_builder_new();
    for (uint32_t batch = 1; batch <= 64; batch *= 4) {
        for (uint32_t len = 2; len <= 65536; len *= 2) {
            add(b, f, key, 32, batch, len, 0.004 + 1e-6 * batch * len / (1 + 0.1 * batch));
        }
    }
    aisim_op_source *source = aisim_op_source_tables(aisim_table_builder_finish(b, &hw), &hw);
    aisim_op op = {.kind = AISIM_OP_DECODE_ATTENTION};
    op.attention.heads = 32;
    op.attention.kv_heads = 8;
    op.attention.head_size = 128;
    aisim_decode_curve *up = aisim_decode_curve_new(source, &op);
    aisim_decode_curve *down = aisim_decode_curve_new(source, &op);
    const uint64_t lengths[] = {1, 2, 9, 100, 1024, 1025, 5000, 65536, 65537, 300000, 5000000};
    enum { LENGTHS = sizeof lengths / sizeof lengths[0] };
    for (uint64_t batch = 1; batch <= 600; batch += 37) {
        double forward[LENGTHS];
        for (int i = 0; i < LENGTHS; i++) {
            aisim_provenance p, q;
            aisim_op_load load = {.tokens = batch, .batch = batch, .seq = 1, .context = lengths[i]};
            forward[i] = aisim_decode_curve_price(up, batch, lengths[i], &p);
            double want = source->class->price(source, &op, &load, &q);
            CHECK_NEAR(forward[i] / want, 1, 1e-10);
        }
        for (int i = LENGTHS - 1; i >= 0; i--) {
            aisim_provenance p;
            CHECK(aisim_decode_curve_price(down, batch, lengths[i], &p) == forward[i]);
        }
    }
    aisim_provenance p;
    double sum = 0;
    for (uint32_t i = 0; i < AISIM_DECODE_SPREAD; i++) {
        sum += aisim_decode_curve_price(up, 7, aisim_decode_length(900, 1100, i), &p);
    }
    CHECK_NEAR(aisim_decode_curve_mean(up, 7, 900, 1100, &p), sum / 5, 1e-15);
    aisim_decode_curve_free(up);
    aisim_decode_curve_free(down);
    aisim_op_source_free(source);
}

/* Errors name the file, the line and what is wrong. */
static void test_broken_files(void)
{
    aisim_error err = {0};
    aisim_table *t;
    CHECK(aisim_table_load("no/such/folder", &hw, &t, &err) == AISIM_ENOENT && t == NULL);
    CHECK(strstr(err.file, "no/such/folder/") != NULL);
    char folder[] = "/tmp/aisim-tables-XXXXXX", path[64];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/gemm.csv", folder);
    const char *const texts[] = {"dtype,m,n,k,latency_ms\nbfloat16,1,32,32\n",
                                 "dtype,m,n,k,latency_ms\nbfloat16,1,32,32,fast\n",
                                 "dtype,m,n,k,latency_ms\nfp7,1,32,32,0.1\n",
                                 "dtype,m,n,latency_ms\nbfloat16,1,32,0.1\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        FILE *file = fopen(path, "w");
        fputs(texts[i], file);
        fclose(file);
        err = (aisim_error){0};
        CHECK(aisim_table_load(folder, &hw, &t, &err) == AISIM_EPARSE && t == NULL);
        CHECK(err.line == (i == 3 ? 1 : 2));
    }
    remove(path);
    remove(folder);
}

int main(void)
{
    load_hardware();
    test_numbers();
    test_curve();
    test_grid();
    test_gemm_sites();
    test_clamp();
    test_fallback();
    test_decode_curve();
    test_broken_files();
    return check_done();
}
