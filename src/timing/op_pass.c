/* op_pass.c - from the aggregates of a pass to the sum of its operations (timing.md §6).
 *
 * Operations fall into five parts by what their load depends on:
 *   tokens    x alone (dense and expert GEMMs, norms, collectives, and in decode everything else)
 *   logits    rows of the output head
 *   attention batch and lengths of one phase (grouped-query attention)
 *   sequence  batch and lengths (latent blocks): in a fused pass the reference prices them as one
 *             sequence of all tokens
 *   state     delta-net kernels of a prefill: batch and new tokens, as one sequence like the latent
 *             blocks in a fused pass
 * All but attention and sequence are memoised, by x, by rows, by batch and length. Sums run in list
 * order, parts in the order above, whether a part comes from the memo or not: results do not depend
 * on the history. */
#include "timing/op_level_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Where an explanation collects its lines. */
typedef struct recorder {
    aisim_timing_part *parts;
    size_t capacity, count;
} recorder;

/* One pass being priced. */
typedef struct job {
    aisim_op_level *self;
    const aisim_pass_shape *shape;
    const aisim_pass_items *items; /* NULL: means only */
    recorder *to;                  /* NULL while only the sum is wanted */
    bool decode_only; /* the part of the pass being priced runs without prefill items */
    double drafts;    /* MTP factor of decode operations */
} job;

static void record(recorder *to, const aisim_hardware *hw, const aisim_op *op,
                   const aisim_op_load *load, double count, const aisim_op_price *price)
{
    if (to->count < to->capacity) {
        aisim_timing_part *part = &to->parts[to->count];
        memset(part, 0, sizeof *part);
        snprintf(part->name, sizeof part->name, "%s", op->name);
        aisim_op_describe(op, load, part->shape, sizeof part->shape);
        part->count = count;
        part->roof_ms = count * aisim_roof_ms(aisim_op_roof(hw, op, load));
        part->latency_ms = count * price->ms;
        part->provenance = price->provenance;
        part->kind = aisim_op_class_name(op->kind);
        part->overlap = op->overlap;
        part->side = op->side;
        aisim_op_sizes(op, part->sizes, sizeof part->sizes);
    }
    to->count++;
}

static void record_host(recorder *to, double ms)
{
    if (to->count < to->capacity) {
        aisim_timing_part *part = &to->parts[to->count];
        memset(part, 0, sizeof *part);
        snprintf(part->name, sizeof part->name, "host_overhead");
        part->kind = "host";
        part->count = 1;
        part->latency_ms = ms;
        part->provenance = AISIM_PROVENANCE_FORMULA;
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

static double strict_failure(aisim_op_level *self, const aisim_op *op, const aisim_op_load *load)
{
    char shape[80];
    aisim_op_describe(op, load, shape, sizeof shape);
    aisim_fail(&self->base.error, AISIM_ENOTMODELLED,
               "timing: no measured data for operation '%s' (%s) of '%s' on '%s', and "
               "fallback_policy = 'deny' refuses a roofline guess",
               op->name, shape, self->model.name, self->hardware.name);
    return NAN;
}

/* Whether an operation's time is the sum over the requests of the pass. */
static bool is_additive(aisim_op_kind kind)
{
    return kind == AISIM_OP_PREFILL_ATTENTION || kind == AISIM_OP_DECODE_ATTENTION ||
           kind == AISIM_OP_MLA_PREFILL || kind == AISIM_OP_MLA_DECODE;
}

/* §6 per request: attention is additive, so each item counts with its own lengths, at the price per
 * sequence of the pass's batch. */
static aisim_op_price mean_over_items(const job *j, const aisim_op *op, const aisim_op_load *load)
{
    bool decode = op->kind == AISIM_OP_DECODE_ATTENTION || op->kind == AISIM_OP_MLA_DECODE;
    uint64_t count = decode ? j->shape->n_decode : j->shape->n_prefill;
    aisim_op_price sum = {0, AISIM_PROVENANCE_MEASURED};
    aisim_op_load one = *load;
    one.exact = true;
    for (uint64_t i = 0; i < count; i++) {
        if (decode) {
            one.context = j->items->context[i] > 0 ? j->items->context[i] : 1;
        } else {
            one.seq = j->items->chunk_len[i] > 0 ? j->items->chunk_len[i] : 1;
            one.past = j->items->chunk_start[i];
        }
        aisim_op_price price = aisim_op_cost(&j->self->pricing, op, &one, j->decode_only);
        sum.ms += price.ms;
        sum.provenance = aisim_provenance_worse(sum.provenance, price.provenance);
    }
    sum.ms /= (double)count;
    return sum;
}

/* One operation of the pass: count * price, NaN when a strict model refuses it. */
static double priced(const job *j, aisim_phase phase, uint32_t i, const aisim_op_load *load,
                     double factor)
{
    aisim_op_level *self = j->self;
    const aisim_op *op = &self->lists[phase].ops[i];
    bool by_items = j->items != NULL && load->items && is_additive(op->kind);
    aisim_op_price price = by_items ? mean_over_items(j, op, load)
                                    : aisim_op_cost(&self->pricing, op, load, j->decode_only);
    if (price.provenance == AISIM_PROVENANCE_ROOFLINE) {
        self->guessed[phase][i] = true;
        if (self->options.strict) {
            return strict_failure(self, op, load);
        }
    }
    if (j->to != NULL) {
        record(j->to, &self->hardware, op, load, op->count * factor, &price);
    }
    double ms = op->count * factor * price.ms;
    self->by_ms[price.provenance] += ms;
    return ms;
}

/* Takes what has been summed by provenance so far, and starts again from nothing. */
static void take_by(aisim_op_level *self, double by_ms[AISIM_PROVENANCE_COUNT])
{
    memcpy(by_ms, self->by_ms, sizeof self->by_ms);
    memset(self->by_ms, 0, sizeof self->by_ms);
}

/* One side of an overlap. */
typedef struct side_sum {
    double ms, by_ms[AISIM_PROVENANCE_COUNT];
} side_sum;

/* Members of overlaps: the longer side of each counts. */
static double sum_overlaps(const job *j, aisim_phase phase, const aisim_op_part *members,
                           const aisim_op_load *load, double factor)
{
    const aisim_op_list *list = &j->self->lists[phase];
    size_t from = j->to != NULL ? j->to->count : 0;
    side_sum sides[AISIM_OVERLAPS_MAX][3] = {{{0}}};
    double by_ms[AISIM_PROVENANCE_COUNT], sum = 0;
    take_by(j->self, by_ms);
    for (uint32_t m = members->plain; m < members->len; m++) {
        const aisim_op *op = &list->ops[members->index[m]];
        side_sum *side = &sides[op->overlap][op->side];
        side->ms += priced(j, phase, members->index[m], load, factor);
        for (int i = 0; i < AISIM_PROVENANCE_COUNT; i++) {
            side->by_ms[i] += j->self->by_ms[i];
            j->self->by_ms[i] = 0;
        }
    }
    memcpy(j->self->by_ms, by_ms, sizeof by_ms);
    for (uint8_t o = 1; o < AISIM_OVERLAPS_MAX; o++) {
        const side_sum *left = &sides[o][AISIM_SIDE_LEFT], *right = &sides[o][AISIM_SIDE_RIGHT];
        bool left_longer = left->ms >= right->ms || isnan(left->ms);
        const side_sum *longer = left_longer ? left : right;
        sum += longer->ms;
        for (int i = 0; i < AISIM_PROVENANCE_COUNT; i++) {
            j->self->by_ms[i] += longer->by_ms[i];
        }
        if (j->to != NULL) {
            hide(j->to, from, list, members->index + members->plain, o,
                 left_longer ? AISIM_SIDE_RIGHT : AISIM_SIDE_LEFT);
        }
    }
    return sum;
}

/* Sum over the operations of one part, in list order. */
static double sum_part(const job *j, aisim_phase phase, aisim_part_kind part,
                       const aisim_op_load *load, double factor)
{
    const aisim_op_part *members = &j->self->parts[phase][part];
    double sum = 0;
    if (members->len == 0) {
        return 0;
    }
    for (uint32_t m = 0; m < members->plain; m++) {
        sum += priced(j, phase, members->index[m], load, factor);
    }
    if (members->plain < members->len) {
        sum += sum_overlaps(j, phase, members, load, factor);
    }
    return sum;
}

/* Computes a part and keeps it. @return false if it has no price. */
static bool fill_slot(const job *j, aisim_memo_slot *slot, uint64_t key, aisim_phase phase,
                      aisim_part_kind part, const aisim_op_load *load)
{
    double by_ms[AISIM_PROVENANCE_COUNT];
    job silent = *j;
    silent.to = NULL;
    take_by(j->self, by_ms);
    double ms = sum_part(&silent, phase, part, load, 1);
    slot->first = slot->end = 0;
    for (uint16_t i = 0; i < AISIM_SOURCES; i++) {
        slot->by_ms[i] = (float)j->self->by_ms[i];
        if (slot->by_ms[i] != 0) {
            slot->first = slot->end == 0 ? i : slot->first;
            slot->end = i + 1;
        }
    }
    memcpy(j->self->by_ms, by_ms, sizeof by_ms);
    slot->key = isnan(ms) ? 0 : key;
    slot->ms = ms;
    return slot->key != 0;
}

/* A part that depends on one number. The memo holds the sum without the MTP factor. */
static double memo_part(const job *j, aisim_memo_kind which, uint64_t key, aisim_phase phase,
                        aisim_part_kind part, const aisim_op_load *load, double factor)
{
    aisim_op_level *self = j->self;
    if (j->to != NULL) {
        sum_part(j, phase, part, load, factor);
    }
    aisim_memo_slot *slot = &self->memo[which][(key ^ key >> 16) % AISIM_MEMO_SLOTS];
    if (slot->key != key && !fill_slot(j, slot, key, phase, part, load)) {
        return NAN;
    }
    for (uint32_t i = slot->first; i < slot->end; i++) {
        self->by_ms[i] += (double)slot->by_ms[i] * factor;
    }
    return slot->ms * factor;
}

static double prefill_rest(const job *j, const aisim_op_load *load)
{
    double ms = memo_part(j, AISIM_MEMO_PREFILL_TOKENS, load->tokens, AISIM_PHASE_PREFILL,
                          AISIM_PART_TOKENS, load, 1);
    return ms + memo_part(j, AISIM_MEMO_PREFILL_LOGITS, load->logit_rows, AISIM_PHASE_PREFILL,
                          AISIM_PART_LOGITS, load, 1);
}

/* Delta-net kernels of a prefill. Loads too large for the key are priced as they come. */
static double state_part(const job *j, const aisim_op_load *load)
{
    if (j->self->parts[AISIM_PHASE_PREFILL][AISIM_PART_STATE].len == 0) {
        return 0;
    }
    if (load->batch > UINT16_MAX || load->seq >> 48 != 0) {
        return sum_part(j, AISIM_PHASE_PREFILL, AISIM_PART_STATE, load, 1);
    }
    uint64_t key = load->seq << 16 | load->batch;
    return memo_part(j, AISIM_MEMO_STATE, key, AISIM_PHASE_PREFILL, AISIM_PART_STATE, load, 1);
}

/* Attention of one phase, grouped-query or latent. */
static double sequence_parts(const job *j, aisim_phase phase, const aisim_op_load *load)
{
    double factor = phase == AISIM_PHASE_DECODE ? j->drafts : 1;
    double ms = sum_part(j, phase, AISIM_PART_ATTENTION, load, factor);
    return ms + sum_part(j, phase, AISIM_PART_SEQUENCE, load, factor);
}

static uint64_t at_least_one(uint64_t x)
{
    return x > 0 ? x : 1;
}

static uint64_t verified_tokens(const aisim_pass_shape *shape)
{
    return shape->n_decode * (shape->verify_width > 1 ? shape->verify_width : 1);
}

static aisim_op_load chunk_load(const aisim_pass_shape *shape)
{
    aisim_op_load load = {.batch = shape->n_prefill, .items = true};
    load.seq = at_least_one(shape->new_tokens / shape->n_prefill);
    load.past = shape->past_tokens / shape->n_prefill;
    load.tokens = load.batch * load.seq;
    load.logit_rows = load.batch;
    return load;
}

/* @param sequences  D, or the verified tokens where the reference counts each as a sequence */
static aisim_op_load decode_load(const aisim_pass_shape *shape, uint64_t sequences)
{
    aisim_op_load load = {.batch = sequences, .seq = 1, .items = true};
    load.tokens = sequences;
    load.logit_rows = sequences;
    load.context = at_least_one(shape->context_tokens / shape->n_decode);
    return load;
}

/* §6 prefill only */
static double prefill_pass(const job *j)
{
    aisim_op_load load = chunk_load(j->shape);
    double ms = prefill_rest(j, &load);
    ms += sequence_parts(j, AISIM_PHASE_PREFILL, &load);
    return ms + state_part(j, &load);
}

/* §6 decode only */
static double decode_pass(job *j)
{
    aisim_op_level *self = j->self;
    aisim_op_load load = decode_load(j->shape, verified_tokens(j->shape));
    j->decode_only = true;
    double ms = memo_part(j, AISIM_MEMO_DECODE, load.tokens, AISIM_PHASE_DECODE, AISIM_PART_TOKENS,
                          &load, j->drafts);
    ms += sequence_parts(j, AISIM_PHASE_DECODE, &load);
    if (self->options.cudagraph_max_batch > 0 && load.tokens > self->options.cudagraph_max_batch) {
        double launches_ms =
            self->launches * j->drafts * 1e-3 * self->hardware.elementwise_launch_us;
        if (j->to != NULL) {
            record_host(j->to, launches_ms);
        }
        ms += launches_ms;
    }
    return ms;
}

/* §6 mixed, fused: weights are read once for all tokens; attention runs per phase. Latent blocks
 * and delta-net kernels see one sequence of all tokens over the summed past (Q6). */
static double fused_pass(const job *j)
{
    const aisim_pass_shape *shape = j->shape;
    aisim_op_level *self = j->self;
    bool split = self->options.fixes.mla_mixed &&
                 self->model.architecture == AISIM_ARCHITECTURE_MLA; /* Q6 */
    aisim_op_load chunk = chunk_load(shape), decode = decode_load(shape, shape->n_decode);
    aisim_op_load all = {.batch = 1, .past = shape->past_tokens, .logit_rows = 1}; /* Q3 */
    all.tokens = all.seq = shape->new_tokens + verified_tokens(shape);
    if (self->options.fixes.mixed_logits) {
        all.logit_rows = shape->n_prefill + verified_tokens(shape);
    }
    chunk.batch = (shape->new_tokens + chunk.seq - 1) / chunk.seq;
    double ms = prefill_rest(j, &all) + state_part(j, &all);
    ms += sum_part(j, AISIM_PHASE_PREFILL, AISIM_PART_ATTENTION, &chunk, 1);
    ms += sum_part(j, AISIM_PHASE_DECODE, AISIM_PART_ATTENTION, &decode, j->drafts);
    if (!split) {
        return ms + sum_part(j, AISIM_PHASE_PREFILL, AISIM_PART_SEQUENCE, &all, 1);
    }
    ms += sum_part(j, AISIM_PHASE_PREFILL, AISIM_PART_SEQUENCE, &chunk, 1);
    return ms + sum_part(j, AISIM_PHASE_DECODE, AISIM_PART_SEQUENCE, &decode, j->drafts);
}

/* MTP: k draft layers run beside the L layers of the model; every decode operation counts
 * (L + k) / L times (§4). */
static double draft_factor(const aisim_op_level *self, const aisim_pass_shape *shape)
{
    if (shape->verify_width <= 1) {
        return 1;
    }
    return (double)(self->model.layers + shape->verify_width - 1) / (double)self->model.layers;
}

static double compose(job *j)
{
    const aisim_pass_shape *shape = j->shape;
    aisim_op_level *self = j->self;
    bool prefill = shape->n_prefill > 0 && shape->new_tokens > 0;
    double ms = self->options.pass_overhead_ms;
    if (prefill) {
        ms += 1e-3 * self->options.overhead_layer_us_prefill * self->model.layers;
    }
    if (j->to != NULL && ms > 0) {
        record_host(j->to, ms);
    }
    j->drafts = draft_factor(self, shape);
    if (!prefill) {
        return ms + decode_pass(j);
    }
    if (shape->n_decode == 0) {
        return ms + prefill_pass(j);
    }
    if (self->options.mixed == AISIM_MIXED_FUSED) {
        return ms + fused_pass(j);
    }
    ms += prefill_pass(j);
    return ms + decode_pass(j);
}

/* A pass that counts: what it took joins the usage. */
static double counted(job *j)
{
    aisim_op_level *self = j->self;
    memset(self->by_ms, 0, sizeof self->by_ms);
    double ms = compose(j);
    if (!isnan(ms)) {
        for (int i = 0; i < AISIM_SOURCES; i++) {
            self->base.usage.by_ms[i] += self->by_ms[i];
        }
    }
    return ms;
}

static double level_pass(aisim_timing *timing, const aisim_pass_shape *shape)
{
    job j = {.self = (aisim_op_level *)timing, .shape = shape};
    return counted(&j);
}

static double level_items(aisim_timing *timing, const aisim_pass_shape *shape,
                          const aisim_pass_items *items)
{
    job j = {.self = (aisim_op_level *)timing, .shape = shape};
    j.items = j.self->options.per_request ? items : NULL;
    return counted(&j);
}

static size_t level_explain(aisim_timing *timing, const aisim_pass_shape *shape,
                            aisim_timing_part parts[], size_t capacity, double *total_ms)
{
    recorder to = {parts, capacity, 0};
    job j = {.self = (aisim_op_level *)timing, .shape = shape, .to = &to};
    double ms = compose(&j);
    if (isnan(ms)) {
        return 0;
    }
    *total_ms = ms;
    return to.count;
}

const aisim_timing_class aisim_op_level_class = {.name = "op_level",
                                                 .pass_ms = level_pass,
                                                 .items_ms = level_items,
                                                 .explain = level_explain,
                                                 .free = aisim_op_level_free};
