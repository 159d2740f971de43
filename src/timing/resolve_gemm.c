/* resolve_gemm.c - scattered GEMM sites (timing.md §5.2).
 *
 * A site is an exact (n, k) with a curve over m. Efficiencies, not latencies, carry over between
 * sites: they vary slowly where the roof varies a lot. */
#include "timing/resolve.h"

#include <math.h>

#include "timing/calibration_form.h"

enum { END_POINTS = 3, NEAREST_SITES = 4 };

static const double SITE_LIMIT = 2.0; /* in log2 distance over (n, k) */

static double roof_of(const aisim_hardware *hw, const uint32_t key[], uint32_t m)
{
    uint32_t at[AISIM_TABLE_AXES] = {m, 0, 0};
    return aisim_table_roof(hw, AISIM_FAMILY_GEMM, key, at);
}

/* What efficiencies between sites are relative to: the roof for measured tables (§5.2); sites of a
 * calibration lie farther apart, there the launch cost of the base (§10) belongs to it. */
static double base_of(const aisim_table *table, const aisim_hardware *hw, const uint32_t key[],
                      uint32_t m)
{
    uint32_t at[AISIM_TABLE_AXES] = {m, 0, 0};
    return table->calibrated ? aisim_calibration_base(hw, AISIM_FAMILY_GEMM, key, at)
                             : roof_of(hw, key, m);
}

/* Median efficiency of the (up to) three points at one end of a curve. */
static double end_util(const aisim_hardware *hw, const aisim_table_slice *site,
                       const aisim_table_row *rows, uint32_t first, uint32_t count)
{
    double u[END_POINTS];
    for (uint32_t i = 0; i < count; i++) {
        const aisim_table_row *row = &rows[first + i];
        double util = roof_of(hw, site->key, row->at[0]) / row->ms;
        uint32_t at = i;
        for (; at > 0 && u[at - 1] > util; at--) {
            u[at] = u[at - 1];
        }
        u[at] = util;
    }
    return count % 2 == 1 ? u[count / 2] : 0.5 * (u[count / 2 - 1] + u[count / 2]);
}

double aisim_resolve_site(const aisim_table *table, const aisim_table_slice *site,
                          const aisim_hardware *hw, uint32_t m, aisim_provenance *provenance)
{
    const aisim_table_row *rows = table->rows + site->first;
    uint32_t low = 0, high = site->count;
    while (low < high) { /* first point at or beyond m */
        uint32_t middle = low + (high - low) / 2;
        if (rows[middle].at[0] < m) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low < site->count && rows[low].at[0] == m) {
        *provenance = AISIM_PROVENANCE_MEASURED;
        return rows[low].ms;
    }
    if (low > 0 && low < site->count) {
        const aisim_table_row *a = &rows[low - 1], *b = &rows[low];
        double weight = ((double)m - a->at[0]) / ((double)b->at[0] - a->at[0]);
        *provenance = AISIM_PROVENANCE_INTERPOLATED;
        return a->ms + (b->ms - a->ms) * weight;
    }
    uint32_t count = site->count < END_POINTS ? site->count : END_POINTS;
    uint32_t first = low == 0 ? 0 : site->count - count;
    *provenance = AISIM_PROVENANCE_EXTRAPOLATED;
    return roof_of(hw, site->key, m) / end_util(hw, site, rows, first, count);
}

/* What is known about the sites of one number format, for one query. */
typedef struct site_search {
    const aisim_table *table;
    const aisim_hardware *hardware;
    uint32_t first, end; /* slices of the format */
    double n, k;         /* log2 of the query */
    uint32_t m;
    bool covered_only; /* only sites whose curve reaches m */
} site_search;

static bool covers(const site_search *s, const aisim_table_slice *site)
{
    const aisim_table_row *rows = s->table->rows + site->first;
    return rows[0].at[0] <= s->m && s->m <= rows[site->count - 1].at[0];
}

static bool is_candidate(const site_search *s, const aisim_table_slice *site)
{
    return !s->covered_only || covers(s, site);
}

typedef struct near_site {
    double distance;
    const aisim_table_slice *site;
} near_site;

/* The nearest candidates within the limits, at most four; equal distances keep the table's order.
 * A limit of INFINITY on one axis leaves it free. */
static uint32_t nearest_sites(const site_search *s, double limit_n, double limit_k,
                              near_site near[])
{
    bool joint = isfinite(limit_n) && isfinite(limit_k);
    uint32_t count = 0;
    for (uint32_t i = s->first; i < s->end; i++) {
        const aisim_table_slice *site = &s->table->slices[i];
        double dn = fabs(site->log2[1] - s->n);
        double dk = fabs(site->log2[2] - s->k);
        double d = sqrt(dn * dn + dk * dk);
        if ((joint ? d > SITE_LIMIT : dn > limit_n || dk > limit_k) || !is_candidate(s, site)) {
            continue;
        }
        uint32_t at = count < NEAREST_SITES ? count++ : NEAREST_SITES;
        if (at == NEAREST_SITES) {
            if (d >= near[NEAREST_SITES - 1].distance) {
                continue;
            }
            at = NEAREST_SITES - 1;
        }
        for (; at > 0 && near[at - 1].distance > d; at--) {
            near[at] = near[at - 1];
        }
        near[at] = (near_site){d, site};
    }
    return count;
}

/* Nothing within the limit: a single dimension larger than all sites (a big vocabulary) drops the
 * limit on its axis. */
static uint32_t beyond_one_axis(const site_search *s, near_site near[])
{
    double max_n = 0, max_k = 0, min_n = INFINITY, min_k = INFINITY;
    for (uint32_t i = s->first; i < s->end; i++) {
        const aisim_table_slice *site = &s->table->slices[i];
        if (is_candidate(s, site)) {
            double n = site->log2[1], k = site->log2[2];
            max_n = n > max_n ? n : max_n;
            max_k = k > max_k ? k : max_k;
            min_n = n < min_n ? n : min_n;
            min_k = k < min_k ? k : min_k;
        }
    }
    bool over_n = s->n > max_n, over_k = s->k > max_k;
    if (over_n == over_k || s->n < min_n || s->k < min_k) {
        return 0;
    }
    return nearest_sites(s, over_n ? INFINITY : SITE_LIMIT, over_k ? INFINITY : SITE_LIMIT, near);
}

static bool any_covers(const site_search *s)
{
    for (uint32_t i = s->first; i < s->end; i++) {
        if (covers(s, &s->table->slices[i])) {
            return true;
        }
    }
    return false;
}

/* The sites of one number format are neighbours in the table: dtype is the first key. */
static void format_range(const aisim_table *table, uint32_t dtype, uint32_t *first, uint32_t *end)
{
    uint32_t i = table->family_first[AISIM_FAMILY_GEMM];
    uint32_t last = table->family_first[AISIM_FAMILY_GEMM + 1];
    while (i < last && table->slices[i].key[0] < dtype) {
        i++;
    }
    *first = i;
    while (i < last && table->slices[i].key[0] == dtype) {
        i++;
    }
    *end = i;
}

double aisim_resolve_gemm(const aisim_table *table, const aisim_hardware *hw,
                          const aisim_table_query *query, aisim_provenance *provenance)
{
    const aisim_table_slice *known = aisim_table_find(table, AISIM_FAMILY_GEMM, query->key);
    if (known != NULL) {
        return aisim_resolve_site(table, known, hw, query->at[0], provenance);
    }
    site_search s = {.table = table,
                     .hardware = hw,
                     .n = log2((double)query->key[1]),
                     .k = log2((double)query->key[2]),
                     .m = query->at[0]};
    format_range(table, query->key[0], &s.first, &s.end);
    s.covered_only = any_covers(&s);
    near_site near[NEAREST_SITES];
    uint32_t count = nearest_sites(&s, SITE_LIMIT, SITE_LIMIT, near);
    if (count == 0) {
        count = beyond_one_axis(&s, near);
    }
    if (count == 0) {
        return -1;
    }
    double sum = 0, weights = 0;
    for (uint32_t i = 0; i < count; i++) {
        aisim_provenance ignored;
        double ms = aisim_resolve_site(table, near[i].site, hw, s.m, &ignored);
        double weight = 1 / (near[i].distance * near[i].distance);
        sum += weight * base_of(table, hw, near[i].site->key, s.m) / ms;
        weights += weight;
    }
    *provenance = AISIM_PROVENANCE_INTERPOLATED;
    return base_of(table, hw, query->key, s.m) * weights / sum;
}
