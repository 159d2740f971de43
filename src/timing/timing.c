/* timing.c - dispatch: what all timing models share (empty passes, speed-up, rounding, errors). */
#include "timing/timing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "timing/timing_class.h"

static const char *const provenance_names[AISIM_PROVENANCE_COUNT] = {
    "measured", "interpolated", "extrapolated", "calibrated", "roofline", "formula"};

void aisim_timing_init(aisim_timing *timing, const aisim_timing_class *class, bool pure)
{
    memset(timing, 0, sizeof *timing);
    timing->class = class;
    timing->scale = 1.0;
    timing->pure = pure;
}

const char *aisim_provenance_name(aisim_provenance provenance)
{
    return provenance_names[provenance];
}

/* Nothing to compute: no decode item and no new prefill token (timing.md §12.4). */
static bool is_empty(const aisim_pass_shape *shape)
{
    return shape->n_decode == 0 && (shape->n_prefill == 0 || shape->new_tokens == 0);
}

static int64_t finish(aisim_timing *timing, double ms)
{
    if (!(ms >= 0)) {
        AISIM_CHECK(timing->error.code != AISIM_OK);
        return AISIM_TIMING_FAILED;
    }
    timing->usage.passes++;
    timing->usage.total_ms += ms;
    return aisim_ns_from_ms(ms * timing->scale);
}

int64_t aisim_timing_pass_ns(aisim_timing *timing, const aisim_pass_shape *shape)
{
    return is_empty(shape) ? 0 : finish(timing, timing->class->pass_ms(timing, shape));
}

bool aisim_timing_wants_items(const aisim_timing *timing)
{
    return timing->wants_items;
}

int64_t aisim_timing_pass_items_ns(aisim_timing *timing, const aisim_pass_shape *shape,
                                   const aisim_pass_items *items)
{
    if (is_empty(shape) || !timing->wants_items) {
        return aisim_timing_pass_ns(timing, shape);
    }
    return finish(timing, timing->class->items_ms(timing, shape, items));
}

const aisim_error *aisim_timing_error(const aisim_timing *timing)
{
    return &timing->error;
}

void aisim_timing_set_speedup(aisim_timing *timing, double ratio)
{
    AISIM_CHECK(ratio >= 0 && isfinite(ratio));
    timing->scale = ratio > 0 ? 1.0 / ratio : 1.0;
}

aisim_timing_usage aisim_timing_usage_of(const aisim_timing *timing)
{
    aisim_timing_usage usage = timing->usage;
    double rest = usage.total_ms;
    usage.total_ms *= timing->scale;
    for (int i = 0; i < AISIM_PROVENANCE_COUNT; i++) {
        if (i != AISIM_PROVENANCE_FORMULA) {
            rest -= usage.by_ms[i];
            usage.by_ms[i] *= timing->scale;
        }
    }
    usage.by_ms[AISIM_PROVENANCE_FORMULA] = rest > 0 ? rest * timing->scale : 0;
    return usage;
}

bool aisim_timing_is_pure(const aisim_timing *timing)
{
    return timing->pure;
}

void aisim_timing_free(aisim_timing *timing)
{
    if (timing != NULL) {
        timing->class->free(timing);
    }
}

static size_t explain_whole(aisim_timing *timing, const aisim_pass_shape *shape,
                            aisim_timing_part parts[], size_t capacity, double *total_ms)
{
    double ms = timing->class->pass_ms(timing, shape);
    if (!(ms >= 0)) {
        return 0;
    }
    *total_ms = ms;
    if (capacity > 0) {
        memset(&parts[0], 0, sizeof parts[0]);
        snprintf(parts[0].name, sizeof parts[0].name, "%s", timing->class->name);
        snprintf(parts[0].shape, sizeof parts[0].shape, "P=%llu SN=%llu SP=%llu D=%llu SK=%llu",
                 (unsigned long long)shape->n_prefill, (unsigned long long)shape->new_tokens,
                 (unsigned long long)shape->past_tokens, (unsigned long long)shape->n_decode,
                 (unsigned long long)shape->context_tokens);
        parts[0].kind = "whole";
        parts[0].count = 1;
        parts[0].latency_ms = ms;
        parts[0].provenance = AISIM_PROVENANCE_FORMULA;
    }
    return 1;
}

size_t aisim_timing_explain(aisim_timing *timing, const aisim_pass_shape *shape,
                            aisim_timing_part parts[], size_t capacity, double *total_ms)
{
    double total = 0;
    size_t count = 0;
    if (!is_empty(shape)) {
        count = timing->class->explain != NULL
                    ? timing->class->explain(timing, shape, parts, capacity, &total)
                    : explain_whole(timing, shape, parts, capacity, &total);
    }
    for (size_t i = 0; i < count && i < capacity; i++) {
        parts[i].latency_ms *= timing->scale;
        parts[i].hidden_ms *= timing->scale;
    }
    if (total_ms != NULL) {
        *total_ms = total * timing->scale;
    }
    return count;
}
