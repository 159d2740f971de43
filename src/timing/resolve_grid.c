/* resolve_grid.c - the nested grid resolver (timing.md §5.1).
 *
 * A node of the grid is a range of rows that agree in all axes above its level; rows are sorted, so
 * children are subranges found by binary search. A level with the exact key descends; between two
 * keys both children are evaluated and blended; outside, the node has no answer. */
#include "timing/resolve.h"

#include <math.h>
#include <string.h>

#include "base/check.h"
#include "timing/calibration_form.h"

typedef struct grid_query {
    const aisim_table *table;
    const aisim_hardware *hardware;
    const uint32_t *key;
    aisim_family family;
    uint32_t axes, sqrt_axis;
    uint32_t at[AISIM_TABLE_AXES];
    bool interpolated;
} grid_query;

/* First row in [low, high) whose axis is >= value. */
static uint32_t lower_bound(const aisim_table_row *rows, uint32_t low, uint32_t high, uint32_t axis,
                            uint32_t value)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (rows[middle].at[axis] < value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static double roof_at(const grid_query *q, const uint32_t at[])
{
    return aisim_table_roof(q->hardware, q->family, q->key, at);
}

/* One neighbour of a ragged corner answers for the query: scaled by the roofs along this axis. */
static double scaled(const grid_query *q, uint32_t axis, uint32_t survivor, double ms)
{
    uint32_t snapped[AISIM_TABLE_AXES];
    memcpy(snapped, q->at, sizeof snapped);
    snapped[axis] = survivor;
    return ms * roof_at(q, q->at) / roof_at(q, snapped);
}

static double blend(double left, double right, double weight, bool square_root)
{
    if (square_root) {
        double root = sqrt(left) + (sqrt(right) - sqrt(left)) * weight;
        return root * root;
    }
    return left + (right - left) * weight;
}

/* Value of the node [low, high) at q->at, or a negative number: out of range. */
static double evaluate(grid_query *q, uint32_t axis, uint32_t low, uint32_t high)
{
    const aisim_table_row *rows = q->table->rows;
    if (axis == q->axes) {
        return rows[low].ms;
    }
    uint32_t want = q->at[axis];
    uint32_t right = lower_bound(rows, low, high, axis, want);
    if (right == high) {
        return -1;
    }
    uint32_t right_key = rows[right].at[axis];
    uint32_t right_end = lower_bound(rows, right, high, axis, right_key + 1);
    if (right_key == want) {
        return evaluate(q, axis + 1, right, right_end);
    }
    if (right == low) {
        return -1;
    }
    uint32_t left_key = rows[right - 1].at[axis];
    uint32_t left = lower_bound(rows, low, right, axis, left_key);
    double a = evaluate(q, axis + 1, left, right);
    double b = evaluate(q, axis + 1, right, right_end);
    q->interpolated = true;
    if (a >= 0 && b >= 0) {
        double weight = ((double)want - left_key) / ((double)right_key - left_key);
        return blend(a, b, weight, axis == q->sqrt_axis);
    }
    return a >= 0 ? scaled(q, axis, left_key, a) : b >= 0 ? scaled(q, axis, right_key, b) : -1;
}

enum { NEAREST = 5 };

typedef struct neighbour {
    double distance2;
    uint32_t row;
} neighbour;

/* Keeps the NEAREST closest rows in order; equal distances keep the order of the rows. */
static void insert(neighbour near[], uint32_t *count, double distance2, uint32_t row)
{
    if (*count == NEAREST && distance2 >= near[NEAREST - 1].distance2) {
        return;
    }
    uint32_t at = *count < NEAREST ? (*count)++ : NEAREST - 1;
    for (; at > 0 && near[at - 1].distance2 > distance2; at--) {
        near[at] = near[at - 1];
    }
    near[at] = (neighbour){distance2, row};
}

static uint32_t find_nearest(const grid_query *q, const aisim_table_slice *slice, neighbour near[])
{
    double want[AISIM_TABLE_AXES] = {0};
    uint32_t count = 0;
    for (uint32_t axis = 0; axis < q->axes; axis++) {
        want[axis] = log2((double)q->at[axis]);
    }
    for (uint32_t i = slice->first; i < slice->first + slice->count; i++) {
        const double *at = q->table->rows[i].log2; /* 0 on axes the family does not have */
        double a = at[0] - want[0], b = at[1] - want[1], c = at[2] - want[2];
        insert(near, &count, a * a + b * b + c * c, i);
    }
    return count;
}

/* Efficiency at the query from the four nearest points, weighted by ((R - d) / (R d))^2 with R the
 * distance of the fifth. */
static double nearby_util(const grid_query *q, const neighbour near[], uint32_t count)
{
    uint32_t used = count < NEAREST ? count : NEAREST - 1;
    double radius = sqrt(near[count - 1].distance2);
    double sum = 0, weights = 0, plain = 0;
    for (uint32_t i = 0; i < used; i++) {
        const aisim_table_row *row = &q->table->rows[near[i].row];
        double d = sqrt(near[i].distance2), util = roof_at(q, row->at) / row->ms;
        double weight = d > 0 ? (radius - d) / (radius * d) : 1e9;
        sum += weight * weight * util;
        weights += weight * weight;
        plain += util;
    }
    return weights > 0 ? sum / weights : plain / used;
}

/* The curves of a calibration end far out and lie far apart, so a far neighbour says little: the
 * point where the query enters the slice answers, scaled by the bases (§10). Continuous at the
 * edge.
 * @return a negative number if that point has no answer either. */
static double from_edge(const grid_query *q, const aisim_table_slice *slice)
{
    uint32_t low[AISIM_TABLE_AXES], high[AISIM_TABLE_AXES] = {0};
    const aisim_table_row *rows = q->table->rows + slice->first;
    grid_query edge = *q;
    memcpy(low, rows[0].at, sizeof low);
    for (uint32_t i = 0; i < slice->count; i++) {
        for (uint32_t axis = 0; axis < q->axes; axis++) {
            uint32_t at = rows[i].at[axis];
            low[axis] = at < low[axis] ? at : low[axis];
            high[axis] = at > high[axis] ? at : high[axis];
        }
    }
    for (uint32_t axis = 0; axis < q->axes; axis++) {
        uint32_t at = q->at[axis];
        edge.at[axis] = at < low[axis] ? low[axis] : at > high[axis] ? high[axis] : at;
    }
    double ms = evaluate(&edge, 0, slice->first, slice->first + slice->count);
    return ms * aisim_calibration_base(q->hardware, q->family, q->key, q->at) /
           aisim_calibration_base(q->hardware, q->family, q->key, edge.at);
}

static double extrapolate(const grid_query *q, const aisim_table_slice *slice)
{
    if (q->table->calibrated) {
        double ms = from_edge(q, slice);
        if (ms >= 0) {
            return ms;
        }
    }
    double roof = roof_at(q, q->at);
    if (q->axes == 1) { /* the nearer end of the curve */
        const aisim_table_row *rows = q->table->rows;
        const aisim_table_row *first = &rows[slice->first];
        const aisim_table_row *end = q->at[0] < first->at[0] ? first : first + slice->count - 1;
        return roof * end->ms / roof_at(q, end->at);
    }
    neighbour near[NEAREST];
    uint32_t count = find_nearest(q, slice, near);
    return roof / nearby_util(q, near, count);
}

double aisim_resolve_grid(const aisim_table *table, const aisim_table_slice *slice,
                          const aisim_hardware *hardware, const aisim_table_query *query,
                          aisim_provenance *provenance)
{
    grid_query q = {.table = table,
                    .hardware = hardware,
                    .key = slice->key,
                    .family = query->family,
                    .axes = aisim_family_axes(query->family),
                    .sqrt_axis = aisim_family_sqrt_axis(query->family)};
    AISIM_ASSERT(slice->count > 0);
    for (uint32_t axis = 0; axis < q.axes; axis++) {
        q.at[axis] = query->at[axis] > 0 ? query->at[axis] : 1;
    }
    double ms = evaluate(&q, 0, slice->first, slice->first + slice->count);
    if (ms >= 0) {
        *provenance = q.interpolated ? AISIM_PROVENANCE_INTERPOLATED : AISIM_PROVENANCE_MEASURED;
        return ms;
    }
    *provenance = AISIM_PROVENANCE_EXTRAPOLATED;
    return extrapolate(&q, slice);
}

/* ---- cells ----------------------------------------------------------------------------------- */

enum { ROOT_AXIS = 1 };

bool aisim_resolve_cell(const aisim_table *table, const aisim_table_slice *slice,
                        const aisim_hardware *hardware, const aisim_table_query *query,
                        aisim_price_cell *cell)
{
    const aisim_table_row *rows = table->rows;
    grid_query q = {.table = table,
                    .hardware = hardware,
                    .key = slice->key,
                    .family = query->family,
                    .axes = aisim_family_axes(query->family),
                    .sqrt_axis = ROOT_AXIS};
    AISIM_ASSERT(q.axes == 3 && aisim_family_sqrt_axis(query->family) == ROOT_AXIS);
    memcpy(q.at, query->at, sizeof q.at);
    uint32_t end = slice->first + slice->count;
    uint32_t low = lower_bound(rows, slice->first, end, 0, q.at[0]);
    uint32_t high = lower_bound(rows, low, end, 0, q.at[0] + 1);
    uint32_t right = lower_bound(rows, low, high, ROOT_AXIS, q.at[ROOT_AXIS]);
    if (right == low || right == high || rows[right].at[ROOT_AXIS] == q.at[ROOT_AXIS]) {
        return false;
    }
    uint32_t right_key = rows[right].at[ROOT_AXIS], left_key = rows[right - 1].at[ROOT_AXIS];
    uint32_t right_end = lower_bound(rows, right, high, ROOT_AXIS, right_key + 1);
    uint32_t left = lower_bound(rows, low, right, ROOT_AXIS, left_key);
    double a = evaluate(&q, ROOT_AXIS + 1, left, right);
    double b = evaluate(&q, ROOT_AXIS + 1, right, right_end);
    if (a < 0 || b < 0) {
        return false;
    }
    cell->low = left_key;
    cell->high = right_key;
    cell->low_root = sqrt(a);
    cell->high_root = sqrt(b);
    cell->provenance = AISIM_PROVENANCE_INTERPOLATED;
    return true;
}
