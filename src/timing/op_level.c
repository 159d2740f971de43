/* op_level.c - making operation-level timing models (op_level.h); their passes: op_pass.c. */
#include "timing/op_level_internal.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "timing/calibration.h"
#include "timing/source_tables.h"

const char *const aisim_mixed_words[] = {"fused", "serial", NULL};

static const aisim_field level_fields[] = {
    {"mixed", AISIM_FIELD_WORD, offsetof(aisim_op_level_options, mixed), 0, 0, aisim_mixed_words,
     "how a pass with prefill and decode items runs"},
    {"per_request", AISIM_FIELD_BOOL, offsetof(aisim_op_level_options, per_request), 0, 1, NULL,
     "attention is priced by the length of each request, not by the mean"},
    {"strict", AISIM_FIELD_BOOL, offsetof(aisim_op_level_options, strict), 0, 1, NULL,
     "refuse operations without measured data"},
    {"pass_overhead_ms", AISIM_FIELD_F64, offsetof(aisim_op_level_options, pass_overhead_ms), 0,
     1e9, NULL, "host time of every pass, ms"},
    {"overhead_layer_us_prefill", AISIM_FIELD_F64,
     offsetof(aisim_op_level_options, overhead_layer_us_prefill), 0, 1e9, NULL,
     "host time per layer of a pass with prefill items, us"},
    {"cudagraph_max_batch", AISIM_FIELD_U64, offsetof(aisim_op_level_options, cudagraph_max_batch),
     0, 1e9, NULL, "decode tokens up to which a pass is one graph launch; 0 = no limit"},
};

const aisim_field_table aisim_op_level_fields = {"timing", level_fields,
                                                 sizeof level_fields / sizeof level_fields[0]};

static aisim_part_kind part_of(const aisim_op *op, aisim_phase phase)
{
    switch (op->kind) {
    case AISIM_OP_GEMM:
        return op->gemm.rows == AISIM_ROWS_LOGITS && phase == AISIM_PHASE_PREFILL
                   ? AISIM_PART_LOGITS
                   : AISIM_PART_TOKENS;
    case AISIM_OP_PREFILL_ATTENTION:
    case AISIM_OP_DECODE_ATTENTION:
        return AISIM_PART_ATTENTION;
    case AISIM_OP_MLA_PREFILL:
    case AISIM_OP_MLA_DECODE:
        return AISIM_PART_SEQUENCE;
    case AISIM_OP_GDN_CONV:
    case AISIM_OP_GDN_SCAN:
        return AISIM_PART_STATE;
    default:
        return AISIM_PART_TOKENS;
    }
}

void aisim_op_level_free(aisim_timing *timing)
{
    aisim_op_level *self = (aisim_op_level *)timing;
    for (int i = 0; i < AISIM_MEMO_COUNT; i++) {
        aisim_free(self->memo[i]);
    }
    for (int i = 1; i <= AISIM_CURVES_MAX; i++) {
        aisim_decode_curve_free(self->curves[i]);
    }
    aisim_op_source_free(self->pricing.source);
    aisim_free(self);
}

static aisim_status check_options(const aisim_op_level_options *options, aisim_error *err)
{
    if (!(options->pass_overhead_ms >= 0) || !isfinite(options->pass_overhead_ms) ||
        !(options->overhead_layer_us_prefill >= 0) ||
        !isfinite(options->overhead_layer_us_prefill)) {
        return aisim_fail(
            err, AISIM_ERANGE,
            "timing: pass_overhead_ms = %g and overhead_layer_us_prefill = %g must be finite "
            "and >= 0",
            options->pass_overhead_ms, options->overhead_layer_us_prefill);
    }
    return AISIM_OK;
}

static void fill_part(aisim_op_part *members, const aisim_op_list *list, aisim_phase phase,
                      aisim_part_kind part)
{
    for (int overlapped = 0; overlapped < 2; overlapped++) {
        for (uint32_t i = 0; i < list->len; i++) {
            const aisim_op *op = &list->ops[i];
            AISIM_CHECK(op->overlap < AISIM_OVERLAPS_MAX);
            if (part_of(op, phase) == part && (op->side != AISIM_SIDE_NONE) == overlapped) {
                members->index[members->len++] = i;
            }
        }
        if (!overlapped) {
            members->plain = members->len;
        }
    }
}

static void build_lists(aisim_op_level *self, const aisim_parallelism *parallelism)
{
    for (int phase = 0; phase < 2; phase++) {
        aisim_op_list *list = &self->lists[phase];
        aisim_op_list_build(list, &self->model, parallelism, (aisim_phase)phase,
                            &self->options.fixes);
        for (int part = 0; part < AISIM_PART_COUNT; part++) {
            fill_part(&self->parts[phase][part], list, (aisim_phase)phase, (aisim_part_kind)part);
        }
    }
    aisim_op_list *decode = &self->lists[AISIM_PHASE_DECODE];
    uint8_t curves = 0;
    for (uint32_t i = 0; i < decode->len; i++) {
        aisim_op *op = &decode->ops[i];
        self->launches += op->count;
        if ((op->kind == AISIM_OP_DECODE_ATTENTION || op->kind == AISIM_OP_MLA_DECODE) &&
            curves < AISIM_CURVES_MAX) {
            op->curve = ++curves;
            self->curves[curves] = aisim_decode_curve_new(self->pricing.source, op);
        }
    }
    self->pricing.curves = self->curves;
    aisim_op_list *prefill = &self->lists[AISIM_PHASE_PREFILL];
    uint8_t rows = 0;
    for (uint32_t i = 0; i < prefill->len; i++) {
        aisim_op *op = &prefill->ops[i];
        if ((op->kind == AISIM_OP_PREFILL_ATTENTION || op->kind == AISIM_OP_MLA_PREFILL) &&
            rows < AISIM_CURVES_MAX) {
            op->curve = ++rows;
        }
        if (op->kind == AISIM_OP_PREFILL_ATTENTION && !self->options.fixes.fringe_tokens) {
            op->fringe_ms = aisim_op_fringe_ms(&self->pricing, op, 1);
        }
    }
    self->pricing.cells = self->cells;
}

aisim_status aisim_timing_op_level(const aisim_model *model, const aisim_hardware *hardware,
                                   const aisim_parallelism *parallelism,
                                   const aisim_op_level_options *options, aisim_op_source *source,
                                   aisim_timing **out, aisim_error *err)
{
    *out = NULL;
    aisim_status status = aisim_model_check(model, err);
    if (status == AISIM_OK) {
        status = aisim_hardware_check(hardware, err);
    }
    if (status == AISIM_OK) {
        status = aisim_parallelism_check(parallelism, model, err);
    }
    if (status == AISIM_OK) {
        status = check_options(options, err);
    }
    if (status != AISIM_OK) {
        aisim_op_source_free(source);
        return status;
    }
    aisim_op_level *self = aisim_alloc_zero(1, sizeof *self);
    aisim_timing_init(&self->base, &aisim_op_level_class, true);
    self->model = *model;
    self->hardware = *hardware;
    self->options = *options;
    self->base.wants_items = options->per_request;
    self->pricing =
        (aisim_op_pricing){.hardware = &self->hardware, .source = source, .fixes = options->fixes};
    for (int i = 0; i < AISIM_MEMO_COUNT; i++) {
        self->memo[i] = aisim_alloc_zero(AISIM_MEMO_SLOTS, sizeof(aisim_memo_slot));
    }
    build_lists(self, parallelism);
    *out = &self->base;
    return AISIM_OK;
}

aisim_status aisim_timing_roofline(const aisim_model *model, const aisim_hardware *hardware,
                                   const aisim_parallelism *parallelism,
                                   const aisim_op_level_options *options,
                                   const aisim_roofline_overrides *overrides, aisim_timing **out,
                                   aisim_error *err)
{
    aisim_roofline_overrides none = {0, 0};
    const aisim_roofline_overrides *use = overrides != NULL ? overrides : &none;
    *out = NULL;
    if (!(use->mfu >= 0 && use->mfu <= 1) || !(use->mbu >= 0 && use->mbu <= 1)) {
        return aisim_fail(err, AISIM_ERANGE,
                          "timing roofline: mfu = %g and mbu = %g must lie in (0, 1]", use->mfu,
                          use->mbu);
    }
    return aisim_timing_op_level(model, hardware, parallelism, options,
                                 aisim_op_source_roofline(hardware, use->mfu, use->mbu), out, err);
}

aisim_status aisim_timing_tables(const aisim_model *model, const aisim_hardware *hardware,
                                 const aisim_parallelism *parallelism,
                                 const aisim_op_level_options *options, const char *folder,
                                 aisim_timing **out, aisim_error *err)
{
    aisim_table *table;
    *out = NULL;
    aisim_status status = aisim_table_load(folder, hardware, &table, err);
    if (status != AISIM_OK) {
        return status;
    }
    return aisim_timing_op_level(model, hardware, parallelism, options,
                                 aisim_op_source_tables(table, hardware), out, err);
}

aisim_status aisim_timing_calibrated(const aisim_model *model, const aisim_hardware *hardware,
                                     const aisim_parallelism *parallelism,
                                     const aisim_op_level_options *options, const char *path,
                                     aisim_timing **out, aisim_error *err)
{
    aisim_table *table;
    *out = NULL;
    aisim_status status = aisim_calibration_load(path, hardware, &table, NULL, err);
    if (status != AISIM_OK) {
        return status;
    }
    return aisim_timing_op_level(model, hardware, parallelism, options,
                                 aisim_op_source_tables(table, hardware), out, err);
}

void aisim_timing_forget(aisim_timing *timing)
{
    if (timing->class == &aisim_op_level_class) {
        aisim_op_level *self = (aisim_op_level *)timing;
        for (int i = 0; i < AISIM_MEMO_COUNT; i++) {
            memset(self->memo[i], 0, AISIM_MEMO_SLOTS * sizeof(aisim_memo_slot));
        }
        for (int i = 1; i <= AISIM_CURVES_MAX && self->curves[i] != NULL; i++) {
            aisim_decode_curve_clear(self->curves[i]);
        }
        memset(self->cells, 0, sizeof self->cells);
    }
}

size_t aisim_timing_guessed(const aisim_timing *timing, const char *names[], size_t capacity)
{
    if (timing->class != &aisim_op_level_class) {
        return 0;
    }
    const aisim_op_level *self = (const aisim_op_level *)timing;
    size_t count = 0;
    for (int phase = 0; phase < 2; phase++) {
        for (uint32_t i = 0; i < self->lists[phase].len; i++) {
            if (!self->guessed[phase][i]) {
                continue;
            }
            if (count < capacity) {
                names[count] = self->lists[phase].ops[i].name;
            }
            count++;
        }
    }
    return count;
}
