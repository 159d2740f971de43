/* calibrate_fit.c - the knots of a calibration curve.
 *
 * Along a line evaluation is piecewise linear, so the best knot set is a shortest path: from knot i
 * to knot j costs one number plus the errors of the points in between, and is forbidden when one of
 * them exceeds the tolerance. Across lines evaluation is the grid resolver; lines are removed
 * greedily, the least harmful first, as long as every point stays within the tolerance. */
#include "timing/calibrate.h"

#include <math.h>
#include <string.h>

#include "timing/resolve.h"
#include "timing/table_build.h"

/* One more knot is worth this many tolerances of summed relative error. */
static const double KNOT_PRICE = 1.0;

/* Error of dropping everything between columns i and j of a line; INFINITY beyond the tolerance. */
static double segment_cost(const aisim_curve *curve, const double *ms, uint32_t i, uint32_t j)
{
    const uint32_t *at = curve->inner->at;
    double sum = 0;
    for (uint32_t c = i + 1; c < j; c++) {
        if (isnan(ms[c])) {
            continue;
        }
        double weight = ((double)at[c] - at[i]) / ((double)at[j] - at[i]);
        double error = fabs((ms[i] + (ms[j] - ms[i]) * weight) / ms[c] - 1);
        if (error > curve->tolerance) {
            return INFINITY;
        }
        sum += error;
    }
    return sum;
}

static void fit_line(const aisim_curve *curve, const double *ms, aisim_mask *knots)
{
    uint32_t count = curve->inner->count, first = count, last = 0;
    double best[AISIM_AXIS_MAX];
    uint32_t from[AISIM_AXIS_MAX];
    memset(knots, 0, sizeof *knots);
    for (uint32_t j = 0; j < count; j++) {
        best[j] = INFINITY;
        if (isnan(ms[j])) {
            continue;
        }
        if (first == count) {
            first = j;
            best[j] = 0;
        }
        last = j;
        for (uint32_t i = first; i < j; i++) {
            if (isnan(ms[i])) {
                continue;
            }
            double cost = best[i] + KNOT_PRICE * curve->tolerance + segment_cost(curve, ms, i, j);
            if (cost < best[j]) {
                best[j] = cost;
                from[j] = i;
            }
        }
    }
    if (first == count) {
        return; /* no point on this line */
    }
    for (uint32_t j = last; j != first; j = from[j]) {
        knots->bit[j] = true;
    }
    knots->bit[first] = true;
}

/* The curve as evaluation would see it. */
static aisim_table *table_of(const aisim_curve *curve)
{
    aisim_table_builder *builder = aisim_table_builder_new();
    uint32_t at[AISIM_TABLE_AXES];
    for (uint32_t o = 0; o < curve->outer->count; o++) {
        for (uint32_t i = 0; i < curve->inner->count; i++) {
            if (curve->lines.bit[o] && curve->knots[o].bit[i]) {
                aisim_curve_at(curve, o, i, at);
                aisim_table_builder_add(builder, curve->family, curve->key, at,
                                        curve->ms[o * curve->inner->count + i]);
            }
        }
    }
    aisim_table *table = aisim_table_builder_finish(builder, NULL);
    table->calibrated = true;
    return table;
}

/* Largest relative error on the lines that are not kept. */
static double worst_dropped(const aisim_curve *curve, const aisim_hardware *hardware)
{
    aisim_table *table = table_of(curve);
    aisim_table_query query = {.family = curve->family, .axes = aisim_family_axes(curve->family)};
    memcpy(query.key, curve->key, sizeof query.key);
    double worst = 0;
    for (uint32_t o = 0; o < curve->outer->count; o++) {
        for (uint32_t i = 0; i < curve->inner->count && !curve->lines.bit[o]; i++) {
            double want = curve->ms[o * curve->inner->count + i];
            if (isnan(want)) {
                continue;
            }
            aisim_provenance provenance;
            aisim_curve_at(curve, o, i, query.at);
            double got =
                aisim_resolve_grid(table, &table->slices[0], hardware, &query, &provenance);
            worst = fmax(worst, fabs(got / want - 1));
        }
    }
    aisim_table_free(table);
    return worst;
}

static bool has_points(const aisim_curve *curve, uint32_t line)
{
    for (uint32_t i = 0; i < curve->inner->count; i++) {
        if (curve->knots[line].bit[i]) {
            return true;
        }
    }
    return false;
}

void aisim_curve_fit(aisim_curve *curve, const aisim_hardware *hardware)
{
    uint32_t lines = curve->outer->count, first = lines, last = 0;
    memset(&curve->lines, 0, sizeof curve->lines);
    for (uint32_t o = 0; o < lines; o++) {
        fit_line(curve, curve->ms + o * curve->inner->count, &curve->knots[o]);
        curve->lines.bit[o] = has_points(curve, o);
        if (curve->lines.bit[o]) {
            first = first == lines ? o : first;
            last = o;
        }
    }
    for (;;) {
        uint32_t victim = lines;
        double least = curve->tolerance;
        for (uint32_t o = first + 1; o < last; o++) {
            if (!curve->lines.bit[o]) {
                continue;
            }
            curve->lines.bit[o] = false;
            double worst = worst_dropped(curve, hardware);
            curve->lines.bit[o] = true;
            if (worst <= least) {
                least = worst;
                victim = o;
            }
        }
        if (victim == lines) {
            return;
        }
        curve->lines.bit[victim] = false;
    }
}
