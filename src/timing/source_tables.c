/* source_tables.c - see source_tables.h.
 *
 * Exact data first; then the fallback chain of §7: the nearest key of the same family and number
 * format, another number format of the family, the default curve. Whatever does not rest on the
 * operation's own key has provenance roofline. */
#include "timing/source_tables.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "timing/resolve.h"

typedef struct table_source {
    aisim_op_source base;
    aisim_table *table;
    aisim_hardware hardware;
    const aisim_table_slice *last[AISIM_FAMILY_COUNT]; /* found last: attention of a model is one */
} table_source;

static const aisim_table_slice *find(table_source *self, const aisim_table_query *query)
{
    const aisim_table_slice *slice = self->last[query->family];
    if (slice == NULL || memcmp(slice->key, query->key, sizeof slice->key) != 0) {
        slice = aisim_table_find(self->table, query->family, query->key);
        self->last[query->family] = slice;
    }
    return slice;
}

static double resolve(table_source *self, const aisim_table_query *query,
                      aisim_provenance *provenance)
{
    if (query->family == AISIM_FAMILY_GEMM) {
        return aisim_resolve_gemm(self->table, &self->hardware, query, provenance);
    }
    const aisim_table_slice *slice = find(self, query);
    if (slice == NULL) {
        return -1;
    }
    return aisim_resolve_grid(self->table, slice, &self->hardware, query, provenance);
}

/* Distance between two keys in log2 space; members that say *what* was measured (formats, a window
 * or none, skew) must agree. */
static double key_distance(aisim_family family, const uint32_t a[], const aisim_table_slice *slice,
                           bool same_format)
{
    uint32_t formats = family == AISIM_FAMILY_EXPERTS             ? 1
                       : family == AISIM_FAMILY_PREFILL_ATTENTION ? 2
                       : family == AISIM_FAMILY_DECODE_ATTENTION  ? 2
                       : family == AISIM_FAMILY_MLA_PREFILL       ? 2
                       : family == AISIM_FAMILY_MLA_DECODE        ? 2
                                                                  : 0;
    const uint32_t *b = slice->key;
    double sum = 0;
    for (uint32_t i = 0; i < AISIM_TABLE_KEYS; i++) {
        bool format = i < formats;
        bool exact =
            (family == AISIM_FAMILY_EXPERTS && i == 7) || ((a[i] == 0) != (b[i] == 0) && !format);
        if (a[i] == b[i]) {
            continue;
        }
        if (exact || (format && same_format)) {
            return INFINITY;
        }
        if (!format) {
            double d = log2((double)a[i]) - slice->log2[i];
            sum += d * d;
        }
    }
    return sum;
}

static const aisim_table_slice *nearest_slice(const table_source *self,
                                              const aisim_table_query *query, bool same_format)
{
    const aisim_table_slice *best = NULL;
    double least = INFINITY;
    for (uint32_t i = self->table->family_first[query->family];
         i < self->table->family_first[query->family + 1]; i++) {
        const aisim_table_slice *slice = &self->table->slices[i];
        double d = key_distance(query->family, query->key, slice, same_format);
        if (d < least) {
            least = d;
            best = slice;
        }
    }
    return best;
}

/* Experts compare at the same number of tokens per expert. */
static uint32_t experts_tokens(const aisim_table_query *query, const aisim_table_slice *slice)
{
    double tokens =
        (double)query->at[0] * query->key[3] / query->key[4] * slice->key[4] / slice->key[3];
    return tokens < 1 ? 1 : (uint32_t)(tokens + 0.5);
}

/* §7 (1), (2): the efficiency of the nearest key at the same axes. GEMM gets here only when no site
 * is near, so its fallback is the default curve. */
static double borrowed(const table_source *self, const aisim_table_query *query, double roof)
{
    if (query->family == AISIM_FAMILY_GEMM) {
        return -1;
    }
    const aisim_table_slice *slice = nearest_slice(self, query, true);
    if (slice == NULL) {
        slice = nearest_slice(self, query, false);
    }
    if (slice == NULL) {
        return -1;
    }
    aisim_provenance ignored;
    aisim_table_query other = *query;
    memcpy(other.key, slice->key, sizeof other.key);
    if (query->family == AISIM_FAMILY_EXPERTS) {
        other.at[0] = experts_tokens(query, slice);
    }
    double there = aisim_resolve_grid(self->table, slice, &self->hardware, &other, &ignored);
    double util = aisim_table_roof(&self->hardware, other.family, other.key, other.at) / there;
    return util > 0 ? roof / util : -1;
}

/* §3.2: what static scales save against dynamic ones, and the second saving of an input that is
 * already quantised. */
static double static_saving(table_source *self, const aisim_op *op, uint32_t m)
{
    aisim_table_query query = {.axes = 2, .at = {m, (uint32_t)op->gemm.k, 0}};
    aisim_provenance ignored;
    double saving = 0;
    for (int i = 0; i < (op->gemm.quantised_in ? 2 : 1); i++) {
        query.family = i == 0 ? AISIM_FAMILY_COMPUTE_SCALE : AISIM_FAMILY_SCALE_MATRIX;
        double ms = resolve(self, &query, &ignored);
        saving += ms > 0 ? ms : 0;
    }
    return saving;
}

/* So narrow that even the narrowest site (n = 32) is farther than §5.2 allows: spares the search.
 */
static bool hopeless(const aisim_op *op)
{
    return op->kind == AISIM_OP_GEMM && op->gemm.narrow && op->gemm.n < 8;
}

static double table_price(aisim_op_source *source, const aisim_op *op, const aisim_op_load *load,
                          aisim_provenance *provenance)
{
    table_source *self = (table_source *)source;
    aisim_table_query query;
    aisim_table_query_of(op, load, &query);
    bool static_gemm = op->kind == AISIM_OP_GEMM && op->dtype == AISIM_DTYPE_FP8_STATIC &&
                       !self->table->calibrated; /* a calibration holds the differences */
    if (static_gemm) {
        query.key[0] = AISIM_DTYPE_FP8;
        query.key[3] = 0;
    }
    double ms = hopeless(op) ? -1 : resolve(self, &query, provenance);
    if (ms >= 0) {
        if (static_gemm) {
            double roof_ms = aisim_roof_ms(aisim_op_roof(&self->hardware, op, load));
            ms -= static_saving(self, op, query.at[0]);
            ms = ms > roof_ms ? ms : roof_ms;
        }
        if (self->table->calibrated && *provenance != AISIM_PROVENANCE_EXTRAPOLATED) {
            *provenance = AISIM_PROVENANCE_CALIBRATED;
        }
        return ms;
    }
    aisim_roof roof = aisim_op_roof(&self->hardware, op, load);
    double roof_ms = aisim_roof_ms(roof);
    if (op->kind == AISIM_OP_GEMM && op->gemm.narrow) { /* §3.2: no site near: the roof itself */
        *provenance = AISIM_PROVENANCE_FORMULA;
        return roof_ms;
    }
    *provenance = AISIM_PROVENANCE_ROOFLINE;
    ms = borrowed(self, &query, roof_ms);
    return ms > 0 ? ms : aisim_op_default_ms(op, roof);
}

static bool table_cell(aisim_op_source *source, const aisim_op *op, const aisim_op_load *load,
                       aisim_price_cell *cell)
{
    table_source *self = (table_source *)source;
    aisim_table_query query;
    aisim_table_query_of(op, load, &query);
    const aisim_table_slice *slice = find(self, &query);
    if (slice == NULL || !aisim_resolve_cell(self->table, slice, &self->hardware, &query, cell)) {
        return false;
    }
    if (self->table->calibrated) {
        cell->provenance = AISIM_PROVENANCE_CALIBRATED;
    }
    return true;
}

static void table_source_free(aisim_op_source *source)
{
    table_source *self = (table_source *)source;
    aisim_table_free(self->table);
    aisim_free(self);
}

static const aisim_op_source_class table_class = {"tables", table_price, table_cell,
                                                  table_source_free};

aisim_op_source *aisim_op_source_tables(aisim_table *table, const aisim_hardware *hardware)
{
    table_source *self = aisim_alloc_zero(1, sizeof *self);
    self->base.class = &table_class;
    self->table = table;
    self->hardware = *hardware;
    return &self->base;
}
