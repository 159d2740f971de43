/* op_level.c - from the aggregates of a pass to the sum of its operations (timing.md §6).
 *
 * Operations fall into four parts by what their load depends on:
 *   tokens    x alone (dense and expert GEMMs, norms, collectives, and in decode everything else)
 *   logits    rows of the output head
 *   attention batch and lengths of one phase (grouped-query attention)
 *   sequence  batch and lengths (latent blocks, delta-net kernels of a prefill): in a fused pass
 *             the reference prices them as one sequence of all tokens
 * The first two are memoised by x and by rows. Sums run in list order, parts in the order above,
 * whether a part comes from the memo or not: results do not depend on the history. */
#include "timing/op_level.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
#include "timing/calibration.h"
#include "timing/decode_curve.h"
#include "timing/source_tables.h"
#include "timing/timing_class.h"

const char *const aisim_mixed_words[] = {"fused", "serial", NULL};

static const aisim_field level_fields[] = {
    {"mixed", AISIM_FIELD_WORD, offsetof(aisim_op_level_options, mixed), 0, 0, aisim_mixed_words,
     "how a pass with prefill and decode items runs"},
    {"strict", AISIM_FIELD_BOOL, offsetof(aisim_op_level_options, strict), 0, 1, NULL,
     "refuse operations without measured data"},
    {"pass_overhead_ms", AISIM_FIELD_F64, offsetof(aisim_op_level_options, pass_overhead_ms), 0,
     1e9, NULL, "host time of every pass, ms"},
    {"prefill_layer_us", AISIM_FIELD_F64, offsetof(aisim_op_level_options, prefill_layer_us), 0,
     1e9, NULL, "host time per layer of a pass with prefill items, us"},
    {"graph_max_batch", AISIM_FIELD_U64, offsetof(aisim_op_level_options, graph_max_batch), 0, 1e9,
     NULL, "decode tokens up to which a pass is one graph launch; 0 = no limit"},
};

const aisim_field_table aisim_op_level_fields = {"timing", level_fields,
                                                 sizeof level_fields / sizeof level_fields[0]};

enum { MEMO_SLOTS = 4096, OVERLAPS_MAX = 4, CURVES_MAX = 3 };

typedef struct memo_slot {
    uint64_t key; /* 0 = empty; keys (tokens, rows) are >= 1 */
    double ms;
} memo_slot;

typedef enum { PART_TOKENS, PART_LOGITS, PART_ATTENTION, PART_SEQUENCE, PART_COUNT } part_kind;

/* One memo per (phase, part): tokens and logits of prefill, everything but attention of decode. */
typedef enum { MEMO_PREFILL_TOKENS, MEMO_PREFILL_LOGITS, MEMO_DECODE, MEMO_COUNT } memo_kind;

/* Operations of one part: first the plain ones in list order, then members of overlaps. */
typedef struct op_part {
    uint32_t len, plain;
    uint32_t index[AISIM_OP_LIST_MAX];
} op_part;

typedef struct op_level {
    aisim_timing base;
    aisim_model model;
    aisim_hardware hardware;
    aisim_op_level_options options;
    aisim_op_pricing pricing;
    aisim_op_list lists[2];                     /* by aisim_phase */
    op_part parts[2][PART_COUNT];               /* which operations form each part */
    bool guessed[2][AISIM_OP_LIST_MAX];         /* priced by roofline at least once */
    aisim_decode_curve *curves[CURVES_MAX + 1]; /* entry 0 unused */
    memo_slot *memo[MEMO_COUNT];                /* MEMO_SLOTS each */
    double launches;                            /* of a decode pass, for graph_max_batch */
} op_level;

/* Where an explanation collects its lines; NULL while only the sum is wanted. */
typedef struct recorder {
    aisim_timing_part *parts;
    size_t capacity, count;
} recorder;

static part_kind part_of(const aisim_op *op, aisim_phase phase)
{
    switch (op->kind) {
    case AISIM_OP_GEMM:
        return op->gemm.rows == AISIM_ROWS_LOGITS && phase == AISIM_PHASE_PREFILL ? PART_LOGITS
                                                                                  : PART_TOKENS;
    case AISIM_OP_PREFILL_ATTENTION:
    case AISIM_OP_DECODE_ATTENTION:
        return PART_ATTENTION;
    case AISIM_OP_MLA_PREFILL:
    case AISIM_OP_MLA_DECODE:
    case AISIM_OP_GDN_CONV:
    case AISIM_OP_GDN_SCAN:
        return PART_SEQUENCE;
    default:
        return PART_TOKENS;
    }
}

static void record(recorder *to, const aisim_hardware *hw, const aisim_op *op,
                   const aisim_op_load *load, double count, const aisim_op_price *price)
{
    if (to->count < to->capacity) {
        aisim_timing_part *part = &to->parts[to->count];
        memset(part, 0, sizeof *part);
        snprintf(part->name, sizeof part->name, "%s", op->name);
        aisim_op_describe(op, load, part->shape, sizeof part->shape);
        part->count = count;
        part->roof_ms = hw != NULL ? count * aisim_roof_ms(aisim_op_roof(hw, op, load)) : 0;
        part->latency_ms = count * price->ms;
        part->provenance = price->provenance;
        part->kind = aisim_op_class_name(op->kind);
        part->overlap = op->overlap;
    }
    to->count++;
}

/* The shorter side of an overlap costs nothing: its lines move to hidden_ms. */
static void hide(recorder *to, size_t from, const aisim_op_list *list, const uint32_t index[],
                 uint8_t overlap, uint8_t loser)
{
    for (size_t i = from; i < to->count && i < to->capacity; i++) {
        const aisim_op *op = &list->ops[index[i - from]];
        if (op->overlap == overlap && op->side == loser) {
            to->parts[i].hidden_ms = to->parts[i].latency_ms;
            to->parts[i].latency_ms = 0;
        }
    }
}

static double strict_failure(op_level *self, const aisim_op *op, const aisim_op_load *load)
{
    char shape[80];
    aisim_op_describe(op, load, shape, sizeof shape);
    aisim_fail(&self->base.error, AISIM_ENOTMODELLED,
               "no measured data for operation '%s' (%s) of '%s' on '%s', and guesses are refused",
               op->name, shape, self->model.name, self->hardware.name);
    return NAN;
}

/* One operation of the pass: count * price, NaN when a strict model refuses it. */
static double priced(op_level *self, aisim_phase phase, uint32_t i, const aisim_op_load *load,
                     bool decode_pass, double count, recorder *to)
{
    const aisim_op *op = &self->lists[phase].ops[i];
    aisim_op_price price = aisim_op_cost(&self->pricing, op, load, decode_pass);
    if (price.provenance == AISIM_PROVENANCE_ROOFLINE) {
        self->guessed[phase][i] = true;
        if (self->options.strict) {
            return strict_failure(self, op, load);
        }
    }
    if (to != NULL) {
        record(to, &self->hardware, op, load, count, &price);
    }
    return count * price.ms;
}

/* Sum over the operations of one part, in list order; of an overlap the longer side counts. */
static double sum_part(op_level *self, aisim_phase phase, part_kind part, const aisim_op_load *load,
                       bool decode_pass, double factor, recorder *to)
{
    const op_part *members = &self->parts[phase][part];
    const aisim_op_list *list = &self->lists[phase];
    size_t from = to != NULL ? to->count : 0;
    double sum = 0;
    for (uint32_t j = 0; j < members->plain; j++) {
        uint32_t i = members->index[j];
        sum += priced(self, phase, i, load, decode_pass, list->ops[i].count * factor, to);
    }
    if (members->plain == members->len) {
        return sum;
    }
    double sides[OVERLAPS_MAX][3] = {{0}};
    for (uint32_t j = members->plain; j < members->len; j++) {
        uint32_t i = members->index[j];
        const aisim_op *op = &list->ops[i];
        sides[op->overlap][op->side] +=
            priced(self, phase, i, load, decode_pass, op->count * factor, to);
    }
    for (uint8_t o = 1; o < OVERLAPS_MAX; o++) {
        double left = sides[o][AISIM_SIDE_LEFT], right = sides[o][AISIM_SIDE_RIGHT];
        sum += left >= right || isnan(left) ? left : right;
        if (to != NULL) {
            hide(to, from, list, members->index, o,
                 left >= right ? AISIM_SIDE_RIGHT : AISIM_SIDE_LEFT);
        }
    }
    return sum;
}

/* A part that depends on one number. The memo holds the sum without the MTP factor. */
static double memo_part(op_level *self, memo_kind which, uint64_t key, aisim_phase phase,
                        part_kind part, const aisim_op_load *load, bool decode_pass, double factor,
                        recorder *to)
{
    if (to != NULL) {
        sum_part(self, phase, part, load, decode_pass, factor, to);
    }
    memo_slot *slot = &self->memo[which][key % MEMO_SLOTS];
    if (slot->key != key) {
        double ms = sum_part(self, phase, part, load, decode_pass, 1, NULL);
        if (isnan(ms)) {
            return ms;
        }
        slot->key = key;
        slot->ms = ms;
    }
    return slot->ms * factor;
}

static double prefill_rest(op_level *self, const aisim_op_load *load, recorder *to)
{
    double ms = memo_part(self, MEMO_PREFILL_TOKENS, load->tokens, AISIM_PHASE_PREFILL, PART_TOKENS,
                          load, false, 1, to);
    return ms + memo_part(self, MEMO_PREFILL_LOGITS, load->logit_rows, AISIM_PHASE_PREFILL,
                          PART_LOGITS, load, false, 1, to);
}

/* MTP: k draft layers run beside the L layers of the model; every decode operation counts
 * (L + k) / L times (§4). */
static double draft_factor(const op_level *self, const aisim_pass_shape *shape)
{
    uint32_t drafts = shape->verify_width > 1 ? shape->verify_width - 1 : 0;
    return (double)(self->model.layers + drafts) / (double)self->model.layers;
}

static uint64_t at_least_one(uint64_t x)
{
    return x > 0 ? x : 1;
}

static aisim_op_load chunk_load(const aisim_pass_shape *shape)
{
    aisim_op_load load = {0};
    load.batch = shape->n_prefill;
    load.seq = at_least_one(shape->new_tokens / shape->n_prefill);
    load.past = shape->past_tokens / shape->n_prefill;
    load.tokens = load.batch * load.seq;
    load.logit_rows = load.batch;
    return load;
}

/* §6 prefill only */
static double prefill_pass(op_level *self, const aisim_pass_shape *shape, recorder *to)
{
    aisim_op_load load = chunk_load(shape);
    double ms = prefill_rest(self, &load, to);
    ms += sum_part(self, AISIM_PHASE_PREFILL, PART_ATTENTION, &load, false, 1, to);
    return ms + sum_part(self, AISIM_PHASE_PREFILL, PART_SEQUENCE, &load, false, 1, to);
}

static uint64_t verified_tokens(const aisim_pass_shape *shape)
{
    return shape->n_decode * (shape->verify_width > 1 ? shape->verify_width : 1);
}

/* §6 decode only */
static double decode_pass(op_level *self, const aisim_pass_shape *shape, recorder *to)
{
    aisim_op_load load = {0};
    load.batch = verified_tokens(shape);
    load.seq = 1;
    load.tokens = load.batch;
    load.logit_rows = load.batch;
    load.context = at_least_one(shape->context_tokens / shape->n_decode);
    double factor = draft_factor(self, shape);
    double ms = memo_part(self, MEMO_DECODE, load.tokens, AISIM_PHASE_DECODE, PART_TOKENS, &load,
                          true, factor, to);
    ms += sum_part(self, AISIM_PHASE_DECODE, PART_ATTENTION, &load, true, factor, to);
    ms += sum_part(self, AISIM_PHASE_DECODE, PART_SEQUENCE, &load, true, factor, to);
    if (self->options.graph_max_batch > 0 && load.tokens > self->options.graph_max_batch) {
        ms += self->launches * factor * 1e-3 * self->hardware.elementwise_launch_us;
    }
    return ms;
}

static double fused_attention(op_level *self, const aisim_pass_shape *shape,
                              const aisim_op_load *chunk, recorder *to)
{
    aisim_op_load prefill = *chunk, decode = {0};
    prefill.batch = (shape->new_tokens + chunk->seq - 1) / chunk->seq;
    decode.batch = shape->n_decode;
    decode.seq = 1;
    decode.context = at_least_one(shape->context_tokens / shape->n_decode);
    double factor = draft_factor(self, shape);
    double ms = sum_part(self, AISIM_PHASE_PREFILL, PART_ATTENTION, &prefill, false, 1, to);
    ms += sum_part(self, AISIM_PHASE_DECODE, PART_ATTENTION, &decode, false, factor, to);
    if (self->options.fixes.mla_mixed) { /* Q6 */
        ms += sum_part(self, AISIM_PHASE_PREFILL, PART_SEQUENCE, &prefill, false, 1, to);
        ms += sum_part(self, AISIM_PHASE_DECODE, PART_SEQUENCE, &decode, false, factor, to);
    }
    return ms;
}

/* §6 mixed, fused: weights are read once for all tokens; attention runs per phase */
static double fused_pass(op_level *self, const aisim_pass_shape *shape, recorder *to)
{
    aisim_op_load chunk = chunk_load(shape);
    aisim_op_load all = {.batch = 1, .past = shape->past_tokens, .logit_rows = 1}; /* Q3 */
    all.tokens = shape->new_tokens + verified_tokens(shape);
    all.seq = all.tokens;
    if (self->options.fixes.mixed_logits) {
        all.logit_rows = shape->n_prefill + verified_tokens(shape);
    }
    double ms = prefill_rest(self, &all, to);
    ms += fused_attention(self, shape, &chunk, to);
    if (!self->options.fixes.mla_mixed) { /* Q6 */
        ms += sum_part(self, AISIM_PHASE_PREFILL, PART_SEQUENCE, &all, false, 1, to);
    }
    return ms;
}

static double level_compose(op_level *self, const aisim_pass_shape *shape, recorder *to)
{
    bool prefill = shape->n_prefill > 0 && shape->new_tokens > 0;
    double ms = self->options.pass_overhead_ms;
    if (prefill) {
        ms += 1e-3 * self->options.prefill_layer_us * self->model.layers;
    }
    if (to != NULL && ms > 0) {
        aisim_op host = {.name = "host_overhead", .kind = AISIM_OP_PIPELINE_HOP};
        aisim_op_load none = {0};
        record(to, NULL, &host, &none, 1, &(aisim_op_price){ms, AISIM_PROVENANCE_FORMULA});
        if (to->count <= to->capacity) {
            to->parts[to->count - 1].kind = "host";
        }
    }
    if (!prefill) {
        return ms + decode_pass(self, shape, to);
    }
    if (shape->n_decode == 0) {
        return ms + prefill_pass(self, shape, to);
    }
    if (self->options.mixed == AISIM_MIXED_FUSED) {
        return ms + fused_pass(self, shape, to);
    }
    ms += prefill_pass(self, shape, to);
    return ms + decode_pass(self, shape, to);
}

static double level_pass(aisim_timing *timing, const aisim_pass_shape *shape)
{
    return level_compose((op_level *)timing, shape, NULL);
}

static size_t level_explain(aisim_timing *timing, const aisim_pass_shape *shape,
                            aisim_timing_part parts[], size_t capacity, double *total_ms)
{
    recorder to = {parts, capacity, 0};
    double ms = level_compose((op_level *)timing, shape, &to);
    if (isnan(ms)) {
        return 0;
    }
    *total_ms = ms;
    return to.count;
}

static void level_free(aisim_timing *timing)
{
    op_level *self = (op_level *)timing;
    for (int i = 0; i < MEMO_COUNT; i++) {
        aisim_free(self->memo[i]);
    }
    for (int i = 1; i <= CURVES_MAX; i++) {
        aisim_decode_curve_free(self->curves[i]);
    }
    aisim_op_source_free(self->pricing.source);
    aisim_free(self);
}

static const aisim_timing_class level_class = {"op_level", level_pass, level_explain, level_free};

static aisim_status check_options(const aisim_op_level_options *options, aisim_error *err)
{
    if (!(options->pass_overhead_ms >= 0) || !isfinite(options->pass_overhead_ms) ||
        !(options->prefill_layer_us >= 0) || !isfinite(options->prefill_layer_us)) {
        return aisim_fail(err, AISIM_ERANGE,
                          "timing: pass_overhead_ms = %g and prefill_layer_us = %g must be finite "
                          "and >= 0",
                          options->pass_overhead_ms, options->prefill_layer_us);
    }
    return AISIM_OK;
}

static void fill_part(op_part *members, const aisim_op_list *list, aisim_phase phase,
                      part_kind part)
{
    for (int overlapped = 0; overlapped < 2; overlapped++) {
        for (uint32_t i = 0; i < list->len; i++) {
            const aisim_op *op = &list->ops[i];
            AISIM_CHECK(op->overlap < OVERLAPS_MAX);
            if (part_of(op, phase) == part && (op->side != AISIM_SIDE_NONE) == overlapped) {
                members->index[members->len++] = i;
            }
        }
        if (!overlapped) {
            members->plain = members->len;
        }
    }
}

static void build_lists(op_level *self, const aisim_parallelism *parallelism)
{
    for (int phase = 0; phase < 2; phase++) {
        aisim_op_list *list = &self->lists[phase];
        aisim_op_list_build(list, &self->model, parallelism, (aisim_phase)phase,
                            &self->options.fixes);
        for (int part = 0; part < PART_COUNT; part++) {
            fill_part(&self->parts[phase][part], list, (aisim_phase)phase, (part_kind)part);
        }
    }
    aisim_op_list *decode = &self->lists[AISIM_PHASE_DECODE];
    uint8_t curves = 0;
    for (uint32_t i = 0; i < decode->len; i++) {
        aisim_op *op = &decode->ops[i];
        self->launches += op->count;
        if ((op->kind == AISIM_OP_DECODE_ATTENTION || op->kind == AISIM_OP_MLA_DECODE) &&
            curves < CURVES_MAX) {
            op->curve = ++curves;
            self->curves[curves] = aisim_decode_curve_new(self->pricing.source, op);
        }
    }
    self->pricing.curves = self->curves;
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
    op_level *self = aisim_alloc_zero(1, sizeof *self);
    aisim_timing_init(&self->base, &level_class, true);
    self->model = *model;
    self->hardware = *hardware;
    self->options = *options;
    self->pricing = (aisim_op_pricing){&self->hardware, source, options->fixes, NULL};
    for (int i = 0; i < MEMO_COUNT; i++) {
        self->memo[i] = aisim_alloc_zero(MEMO_SLOTS, sizeof(memo_slot));
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
    if (timing->class == &level_class) {
        op_level *self = (op_level *)timing;
        for (int i = 0; i < MEMO_COUNT; i++) {
            memset(self->memo[i], 0, MEMO_SLOTS * sizeof(memo_slot));
        }
        for (int i = 1; i <= CURVES_MAX && self->curves[i] != NULL; i++) {
            aisim_decode_curve_clear(self->curves[i]);
        }
    }
}

size_t aisim_timing_guessed(const aisim_timing *timing, const char *names[], size_t capacity)
{
    if (timing->class != &level_class) {
        return 0;
    }
    const op_level *self = (const op_level *)timing;
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
