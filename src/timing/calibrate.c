/* calibrate.c - collects the operations of the catalogue and writes the calibration file. */
#include "timing/calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/check.h"
#include "timing/calibration.h"
#include "timing/source_tables.h"

struct aisim_calibrator {
    aisim_table *table;
    const aisim_hardware *hardware;
    aisim_op_source *source; /* borrows the table */
    aisim_curve_axis axes[AISIM_FAMILY_COUNT][2];
    AISIM_ARRAY(aisim_curve) curves;
};

/* Candidate values beyond the tables: where latency follows the roof at a drifting efficiency. */
static const uint32_t far_lengths[] = {16385, 20480, 24576,  32768,  49152,
                                       65536, 98304, 131072, 262144, 1048576};
enum { FAR_TOKENS = 65536, FAR_BATCH = 4096 };

/* Largest batch * length that a curve covers; beyond it evaluation extrapolates. */
static const double PREFILL_TOKENS_MAX = 2097152;
static const double DECODE_TOKENS_MAX = 33554432;

enum { SPLIT_FROM = 128 }; /* decode lengths from which a curve may end: both sides are kept */

static void insert_value(aisim_curve_axis *axis, uint32_t value)
{
    uint32_t at = axis->count;
    while (at > 0 && axis->at[at - 1] > value) {
        at--;
    }
    if (at > 0 && axis->at[at - 1] == value) {
        return;
    }
    AISIM_CHECK(axis->count < AISIM_AXIS_MAX);
    memmove(axis->at + at + 1, axis->at + at, (axis->count - at) * sizeof axis->at[0]);
    axis->at[at] = value;
    axis->count++;
}

static bool is_length_axis(aisim_family family, bool inner)
{
    switch (family) {
    case AISIM_FAMILY_PREFILL_ATTENTION:
    case AISIM_FAMILY_MLA_PREFILL:
        return !inner;
    case AISIM_FAMILY_DECODE_ATTENTION:
    case AISIM_FAMILY_MLA_DECODE:
        return inner;
    default:
        return false;
    }
}

static bool is_decode(aisim_family family)
{
    return family == AISIM_FAMILY_DECODE_ATTENTION || family == AISIM_FAMILY_MLA_DECODE;
}

/* The values that occur in the tables, what lies beyond, and the far side of every point where a
 * decode curve may end. */
static void build_axis(aisim_calibrator *c, aisim_family family, bool inner)
{
    aisim_curve_axis *axis = &c->axes[family][inner];
    uint32_t which = inner ? aisim_form_inner(family) : aisim_form_outer(family);
    const aisim_table *t = c->table;
    for (uint32_t s = t->family_first[family]; s < t->family_first[family + 1]; s++) {
        const aisim_table_slice *slice = &t->slices[s];
        for (uint32_t r = slice->first; r < slice->first + slice->count; r++) {
            insert_value(axis, t->rows[r].at[which]);
        }
    }
    if (family == AISIM_FAMILY_GEMM) {
        insert_value(axis, FAR_TOKENS);
    }
    if (is_decode(family) && !inner) { /* batches beyond the tables */
        insert_value(axis, axis->at[axis->count - 1] + 1);
        insert_value(axis, FAR_BATCH);
    }
    if (!is_length_axis(family, inner)) {
        return;
    }
    if (is_decode(family)) {
        for (uint32_t i = 0; i < axis->count; i++) {
            if (axis->at[i] >= SPLIT_FROM && (axis->at[i] & (axis->at[i] - 1)) == 0) {
                insert_value(axis, axis->at[i] + 1);
                i++;
            } else if (axis->at[i] > SPLIT_FROM && family == AISIM_FAMILY_MLA_DECODE) {
                insert_value(axis, axis->at[i] + 1);
                i++;
            }
        }
        insert_value(axis, 262144);
        insert_value(axis, 1048576);
        return;
    }
    for (size_t i = 0; i < sizeof far_lengths / sizeof far_lengths[0]; i++) {
        insert_value(axis, far_lengths[i]);
    }
}

static void build_axes(aisim_calibrator *c)
{
    for (int f = 0; f < AISIM_FAMILY_COUNT; f++) {
        const aisim_calibration_form *form = aisim_calibration_form_of((aisim_family)f);
        if (form->name == NULL) {
            continue;
        }
        build_axis(c, (aisim_family)f, true);
        if (form->outer) {
            build_axis(c, (aisim_family)f, false);
        } else {
            insert_value(&c->axes[f][0], 1);
        }
    }
}

aisim_calibrator *aisim_calibrator_new(aisim_table *table, const aisim_hardware *hardware)
{
    aisim_calibrator *c = aisim_alloc_zero(1, sizeof *c);
    c->table = table;
    c->hardware = hardware;
    c->source = aisim_op_source_tables(table, hardware);
    build_axes(c);
    return c;
}

void aisim_calibrator_free(aisim_calibrator *c)
{
    if (c == NULL) {
        return;
    }
    for (uint32_t i = 0; i < c->curves.len; i++) {
        aisim_free(c->curves.data[i].ms);
        aisim_free(c->curves.data[i].knots);
    }
    aisim_array_free(&c->curves);
    aisim_free(c->source); /* not its table */
    aisim_free(c);
}

/* Relative errors that are worth a number: what weighs most in a pass is held closest. */
static double tolerance_of(aisim_family family)
{
    switch (family) {
    case AISIM_FAMILY_GEMM:
    case AISIM_FAMILY_EXPERTS:
        return 0.025;
    default:
        return 0.035;
    }
}

static aisim_op_load load_at(aisim_family family, const uint32_t at[], const aisim_op *op)
{
    aisim_op_load load = {.batch = 1, .seq = 1};
    switch (family) {
    case AISIM_FAMILY_PREFILL_ATTENTION:
    case AISIM_FAMILY_MLA_PREFILL:
        load.seq = at[1];
        load.batch = at[2];
        return load;
    case AISIM_FAMILY_DECODE_ATTENTION:
    case AISIM_FAMILY_MLA_DECODE:
        load.batch = at[1];
        load.context = at[2];
        return load;
    case AISIM_FAMILY_GDN_CONV:
    case AISIM_FAMILY_GDN_SCAN:
        load.batch = at[0];
        load.seq = at[1];
        return load;
    case AISIM_FAMILY_GDN_CONV_UPDATE:
    case AISIM_FAMILY_GDN_RECURRENCE:
        load.batch = at[0];
        return load;
    default:
        load.tokens = at[0];
        load.logit_rows = at[0];
        (void)op;
        return load;
    }
}

static bool covered(aisim_family family, const uint32_t at[])
{
    if (family == AISIM_FAMILY_PREFILL_ATTENTION || family == AISIM_FAMILY_MLA_PREFILL) {
        return (double)at[1] * at[2] <= PREFILL_TOKENS_MAX;
    }
    return !is_decode(family) || (double)at[1] * at[2] <= DECODE_TOKENS_MAX;
}

/* Fills the points of a curve. @return false if the tables do not know the operation. */
static bool sample(aisim_calibrator *c, aisim_curve *curve, const aisim_op *op)
{
    uint32_t columns = curve->inner->count;
    curve->ms = aisim_alloc((size_t)curve->outer->count * columns, sizeof *curve->ms);
    curve->knots = aisim_alloc_zero(curve->outer->count, sizeof *curve->knots);
    for (uint32_t o = 0; o < curve->outer->count; o++) {
        for (uint32_t i = 0; i < columns; i++) {
            uint32_t at[AISIM_TABLE_AXES];
            aisim_provenance provenance;
            aisim_curve_at(curve, o, i, at);
            curve->ms[o * columns + i] = NAN;
            if (!covered(curve->family, at)) {
                continue;
            }
            aisim_op_load load = load_at(curve->family, at, op);
            double ms = c->source->class->price(c->source, op, &load, &provenance);
            if (provenance == AISIM_PROVENANCE_ROOFLINE || provenance == AISIM_PROVENANCE_FORMULA) {
                return false;
            }
            curve->ms[o * columns + i] = ms;
        }
    }
    return true;
}

static bool same_curve(const aisim_curve *a, const aisim_curve *b)
{
    return a->family == b->family && a->heads == b->heads &&
           memcmp(a->key, b->key, sizeof a->key) == 0;
}

static void add_curve(aisim_calibrator *c, const aisim_op *given, double tolerance)
{
    aisim_op op = *given;
    aisim_op_load unit = {.tokens = 1, .logit_rows = 1, .batch = 1, .seq = 1, .context = 2};
    aisim_table_query query;
    if (op.kind == AISIM_OP_ALL_REDUCE || op.kind == AISIM_OP_ALL_GATHER ||
        op.kind == AISIM_OP_REDUCE_SCATTER) {
        op.link.width = 1; /* the axis counts elements */
    }
    if (op.kind == AISIM_OP_EXPERTS) {
        op.experts.attn_dp = 1; /* the axis counts the tokens of all ranks */
    }
    aisim_table_query_of(&op, &unit, &query);
    const aisim_calibration_form *form = aisim_calibration_form_of(query.family);
    aisim_curve curve = {.family = query.family,
                         .heads = form->heads ? query.at[0] : 0,
                         .tolerance = tolerance,
                         .outer = &c->axes[query.family][0],
                         .inner = &c->axes[query.family][1]};
    memcpy(curve.key, query.key, sizeof curve.key);
    for (uint32_t i = 0; i < c->curves.len; i++) {
        if (same_curve(&c->curves.data[i], &curve)) {
            return;
        }
    }
    if (sample(c, &curve, &op)) {
        aisim_array_push(&c->curves, curve);
    } else {
        aisim_free(curve.ms);
        aisim_free(curve.knots);
    }
}

static bool wanted(const aisim_op *op, aisim_calibrate_scope scope)
{
    switch (op->kind) {
    case AISIM_OP_EMBEDDING:
    case AISIM_OP_ELEMENTWISE:
    case AISIM_OP_PIPELINE_HOP:
        return false;
    case AISIM_OP_GEMM:
    case AISIM_OP_PREFILL_ATTENTION:
    case AISIM_OP_DECODE_ATTENTION:
        return scope == AISIM_CALIBRATE_ALL;
    default:
        return true;
    }
}

aisim_status aisim_calibrator_add(aisim_calibrator *c, const aisim_model *model,
                                  const aisim_parallelism *parallelism, aisim_calibrate_scope scope,
                                  aisim_error *err)
{
    aisim_status status = aisim_model_check(model, err);
    if (status == AISIM_OK) {
        status = aisim_parallelism_check(parallelism, model, err);
    }
    if (status != AISIM_OK) {
        return status;
    }
    aisim_timing_fixes fixes = {0};
    for (int phase = 0; phase < 2; phase++) {
        aisim_op_list list;
        aisim_op_list_build(&list, model, parallelism, (aisim_phase)phase, &fixes);
        for (uint32_t i = 0; i < list.len; i++) {
            const aisim_op *op = &list.ops[i];
            if (wanted(op, scope)) {
                aisim_table_query query;
                aisim_op_load unit = {.tokens = 1, .logit_rows = 1, .batch = 1, .context = 2};
                aisim_table_query_of(op, &unit, &query);
                add_curve(c, op, tolerance_of(query.family));
            }
        }
    }
    return AISIM_OK;
}

/* Sites every two octaves of n and k: no shape from 64 to 65536 is farther than the limit of §5.2
 * from one. */
static void add_gemm_donors(aisim_calibrator *c)
{
    static const uint32_t sizes[] = {256, 1024, 4096, 16384};
    static const aisim_dtype dtypes[] = {AISIM_DTYPE_BFLOAT16, AISIM_DTYPE_FP8,
                                         AISIM_DTYPE_FP8_BLOCK};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (size_t n = 0; n < SIZES; n++) {
            for (size_t k = 0; k < SIZES; k++) {
                aisim_op op = {.kind = AISIM_OP_GEMM, .dtype = (uint8_t)dtypes[d]};
                op.gemm.n = sizes[n];
                op.gemm.k = sizes[k];
                add_curve(c, &op, 0.15);
            }
        }
    }
}

static void add_link_donors(aisim_calibrator *c)
{
    static const aisim_op_kind kinds[] = {AISIM_OP_ALL_REDUCE, AISIM_OP_ALL_GATHER,
                                          AISIM_OP_REDUCE_SCATTER};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        for (uint32_t gpus = 2; gpus <= c->hardware->gpus_per_node; gpus *= 2) {
            aisim_op op = {.kind = kinds[i]};
            op.link.gpus = gpus;
            add_curve(c, &op, tolerance_of(AISIM_FAMILY_ALL_REDUCE));
        }
    }
}

void aisim_calibrator_add_donors(aisim_calibrator *c)
{
    add_gemm_donors(c);
    add_link_donors(c);
}

static int compare_curves(const void *a, const void *b)
{
    const aisim_curve *x = a, *y = b;
    if (x->family != y->family) {
        return x->family < y->family ? -1 : 1;
    }
    for (int i = 0; i < AISIM_TABLE_KEYS; i++) {
        if (x->key[i] != y->key[i]) {
            return x->key[i] < y->key[i] ? -1 : 1;
        }
    }
    return x->heads < y->heads ? -1 : x->heads > y->heads;
}

static void write_axis(const aisim_curve_axis *axis, const char *family, const char *which,
                       FILE *file)
{
    fprintf(file, "axis %s %s", family, which);
    for (uint32_t i = 0; i < axis->count; i++) {
        fprintf(file, " %u", (unsigned)axis->at[i]);
    }
    fputc('\n', file);
}

static void write_head(const aisim_calibrator *c, const char *const origin[], uint64_t inputs,
                       FILE *file)
{
    fprintf(file, "aisim-calibration 1\n");
    for (size_t i = 0; origin[i] != NULL; i++) {
        fprintf(file, "# %s\n", origin[i]);
    }
    fprintf(file, "inputs %016llx\nhardware %s\n", (unsigned long long)inputs, c->hardware->name);
    for (size_t i = 0; aisim_calibration_constants[i] != NULL; i++) {
        const char *key = aisim_calibration_constants[i];
        double value =
            aisim_field_number(aisim_field_find(&aisim_hardware_fields, key), c->hardware);
        fprintf(file, "constant %s %.9g\n", key, value);
    }
    fprintf(file, "steps %d\n", AISIM_CALIBRATION_STEPS);
    for (int f = 0; f < AISIM_FAMILY_COUNT; f++) {
        const aisim_calibration_form *form = aisim_calibration_form_of((aisim_family)f);
        if (form->name != NULL) {
            if (form->outer) {
                write_axis(&c->axes[f][0], form->name, "outer", file);
            }
            write_axis(&c->axes[f][1], form->name, "inner", file);
        }
    }
}

static void write_slices_line(const aisim_curve *curve, const aisim_curve *before, FILE *file)
{
    const aisim_calibration_form *form = aisim_calibration_form_of(curve->family);
    if (before != NULL && before->family == curve->family &&
        memcmp(before->key, curve->key, form->formats * sizeof curve->key[0]) == 0) {
        return;
    }
    fprintf(file, "slices %s", form->name);
    for (uint32_t i = 0; i < form->formats; i++) {
        fprintf(file, " %s", aisim_dtype_words[curve->key[i]]);
    }
    fputc('\n', file);
}

static uint32_t write_codes(const aisim_curve *curve, const aisim_hardware *hw, FILE *file)
{
    int32_t last = 0;
    uint32_t numbers = 0;
    for (uint32_t o = 0; o < curve->outer->count; o++) {
        for (uint32_t i = 0; i < curve->inner->count; i++) {
            if (!curve->lines.bit[o] || !curve->knots[o].bit[i]) {
                continue;
            }
            uint32_t at[AISIM_TABLE_AXES];
            char digits[AISIM_CODE_CHARS];
            aisim_curve_at(curve, o, i, at);
            double base = aisim_calibration_base(hw, curve->family, curve->key, at);
            double ms = curve->ms[o * curve->inner->count + i];
            int32_t code = (int32_t)lround(AISIM_CALIBRATION_STEPS * log(ms / base));
            fwrite(digits, 1, aisim_code_write(code - last, digits), file);
            last = code;
            numbers++;
        }
    }
    return numbers;
}

/* @return the number of latencies written. */
static uint32_t write_curve(const aisim_curve *curve, const aisim_hardware *hw, FILE *file)
{
    const aisim_calibration_form *form = aisim_calibration_form_of(curve->family);
    char digits[AISIM_MASK_DIGITS + 1];
    for (uint32_t i = form->formats; i < form->keys; i++) {
        fprintf(file, "%u ", (unsigned)curve->key[i]);
    }
    if (form->heads) {
        fprintf(file, "%u ", (unsigned)curve->heads);
    }
    if (form->outer) {
        aisim_mask_write(&curve->lines, curve->outer->count, digits);
        fprintf(file, "%s ", digits);
    }
    for (uint32_t o = 0; o < curve->outer->count; o++) {
        if (curve->lines.bit[o]) {
            aisim_mask_write(&curve->knots[o], curve->inner->count, digits);
            fputs(digits, file);
        }
    }
    fputc(' ', file);
    uint32_t numbers = write_codes(curve, hw, file);
    fputc('\n', file);
    return numbers;
}

aisim_status aisim_calibrator_write(aisim_calibrator *c, const char *const origin[], FILE *file,
                                    aisim_calibration_info *info, aisim_error *err)
{
    aisim_calibration_info made = {aisim_table_hash(c->table), c->curves.len, 0};
    if (c->curves.len > 0) {
        qsort(c->curves.data, c->curves.len, sizeof *c->curves.data, compare_curves);
    }
    write_head(c, origin, made.inputs, file);
    for (uint32_t i = 0; i < c->curves.len; i++) {
        aisim_curve *curve = &c->curves.data[i];
        aisim_curve_fit(curve, c->hardware);
        write_slices_line(curve, i > 0 ? curve - 1 : NULL, file);
        made.numbers += write_curve(curve, c->hardware, file);
    }
    if (info != NULL) {
        *info = made;
    }
    return ferror(file) ? aisim_fail(err, AISIM_EIO, "cannot write the calibration") : AISIM_OK;
}
