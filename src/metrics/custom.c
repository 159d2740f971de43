/* custom.c - metrics are cells behind names and labels. */
#include "metrics/custom.h"

#include <math.h>
#include <string.h>

#include "base/map.h"
#include "base/rng.h"

typedef struct {
    char *label;
    double sum, carry; /* counter */
    aisim_digest digest;
    aisim_gauge gauge;
} metric_cell;

struct aisim_metric {
    aisim_metric_spec spec; /* texts owned */
    aisim_custom *owner;
    AISIM_ARRAY(metric_cell) cells; /* [0] = total */
    aisim_map labels;               /* (hash, try) -> cell */
    AISIM_ARRAY(int64_t) times;     /* series */
    AISIM_ARRAY(double) values;
};

struct aisim_custom {
    AISIM_ARRAY(aisim_metric *) metrics;
    aisim_percentile_rule rule;
    uint32_t series;
};

const char *aisim_metric_kind_text(aisim_metric_kind kind)
{
    static const char *const names[] = {"counter", "gauge", "hist", "ratio", "series"};
    return names[kind];
}

/* ---- life ------------------------------------------------------------------------------------ */

aisim_custom *aisim_custom_new(aisim_percentile_rule rule)
{
    aisim_custom *custom = aisim_alloc_zero(1, sizeof *custom);
    custom->rule = rule;
    return custom;
}

static void free_metric(aisim_metric *metric)
{
    for (uint32_t i = 0; i < metric->cells.len; i++) {
        metric_cell *cell = &metric->cells.data[i];
        aisim_free(cell->label);
        aisim_digest_clear(&cell->digest);
        aisim_gauge_clear(&cell->gauge);
    }
    aisim_array_free(&metric->cells);
    aisim_array_free(&metric->times);
    aisim_array_free(&metric->values);
    aisim_map_free(&metric->labels);
    const char *texts[] = {metric->spec.name, metric->spec.unit, metric->spec.help,
                           metric->spec.by,   metric->spec.num,  metric->spec.den};
    for (uint32_t i = 0; i < 6; i++) {
        aisim_free((void *)(uintptr_t)texts[i]);
    }
    aisim_free(metric);
}

void aisim_custom_free(aisim_custom *custom)
{
    if (custom == NULL) {
        return;
    }
    for (uint32_t i = 0; i < custom->metrics.len; i++) {
        free_metric(custom->metrics.data[i]);
    }
    aisim_array_free(&custom->metrics);
    aisim_free(custom);
}

static aisim_status new_cell(aisim_metric *metric, const char *label, aisim_error *err)
{
    aisim_custom *custom = metric->owner;
    if (custom->series >= AISIM_CUSTOM_SERIES) {
        return aisim_fail(
            err, AISIM_ELIMIT,
            "metric '%s', label '%s': more than %d series in one run (use fewer labels)",
            metric->spec.name, label, AISIM_CUSTOM_SERIES);
    }
    custom->series++;
    metric_cell cell = {.label = aisim_strdup(label)};
    aisim_digest_init(&cell.digest, custom->rule, 0);
    aisim_gauge_init(&cell.gauge);
    aisim_array_push(&metric->cells, cell);
    return AISIM_OK;
}

static char *copy(const char *text)
{
    return aisim_strdup(text == NULL ? "" : text);
}

aisim_status aisim_custom_add(aisim_custom *custom, const aisim_metric_spec *spec,
                              aisim_metric **out, aisim_error *err)
{
    *out = NULL;
    if (spec->name == NULL || spec->name[0] == '\0') {
        return aisim_fail(err, AISIM_EINVAL, "a metric needs a name");
    }
    if (aisim_custom_find(custom, spec->name) != NULL) {
        return aisim_fail(err, AISIM_EEXIST, "metric '%s' is declared twice", spec->name);
    }
    aisim_metric *metric = aisim_alloc_zero(1, sizeof *metric);
    metric->spec = *spec;
    metric->spec.name = copy(spec->name);
    metric->spec.unit = copy(spec->unit);
    metric->spec.help = copy(spec->help);
    metric->spec.by = copy(spec->by);
    metric->spec.num = copy(spec->num);
    metric->spec.den = copy(spec->den);
    metric->owner = custom;
    aisim_status status = new_cell(metric, "", err);
    if (status != AISIM_OK) {
        free_metric(metric);
        return status;
    }
    aisim_array_push(&custom->metrics, metric);
    *out = metric;
    return AISIM_OK;
}

/* ---- recording ------------------------------------------------------------------------------- */

/* Index of the cell of a label, 0 for none; added when new. */
static aisim_status cell_of(aisim_metric *metric, const char *label, uint32_t *out,
                            aisim_error *err)
{
    *out = 0;
    if (label == NULL || label[0] == '\0') {
        return AISIM_OK;
    }
    uint64_t hash = aisim_hash_text(label), attempt = 0;
    uint32_t cell = aisim_map_get(&metric->labels, hash, attempt);
    while (cell != AISIM_NONE && strcmp(metric->cells.data[cell].label, label) != 0) {
        cell = aisim_map_get(&metric->labels, hash, ++attempt);
    }
    if (cell == AISIM_NONE) {
        cell = metric->cells.len;
        aisim_status status = new_cell(metric, label, err);
        if (status != AISIM_OK) {
            return status;
        }
        aisim_map_set(&metric->labels, hash, attempt, cell);
    }
    *out = cell;
    return AISIM_OK;
}

static aisim_status check(const aisim_metric *metric, aisim_metric_kind a, aisim_metric_kind b,
                          double x, const char *call, aisim_error *err)
{
    if (metric->spec.kind != a && metric->spec.kind != b) {
        return aisim_fail(err, AISIM_EINVAL, "metric '%s' is a %s and has no %s", metric->spec.name,
                          aisim_metric_kind_text(metric->spec.kind), call);
    }
    if (!isfinite(x)) { /* the sign of a NaN is an accident of the machine */
        return aisim_fail(err, AISIM_ERANGE, "metric '%s': %g is not a finite number",
                          metric->spec.name, isnan(x) ? (double)NAN : x);
    }
    return AISIM_OK;
}

static void counter_add(metric_cell *cell, double x)
{
    double total = cell->sum + x;
    cell->carry += fabs(cell->sum) >= fabs(x) ? (cell->sum - total) + x : (x - total) + cell->sum;
    cell->sum = total;
}

static void add_to(aisim_metric *metric, uint32_t cell, double x)
{
    if (metric->spec.kind == AISIM_METRIC_COUNTER) {
        counter_add(&metric->cells.data[cell], x);
    } else {
        aisim_digest_add(&metric->cells.data[cell].digest, x, 1);
    }
}

aisim_status aisim_metric_add(aisim_metric *metric, const char *label, double x, aisim_error *err)
{
    uint32_t cell;
    aisim_status status = check(metric, AISIM_METRIC_COUNTER, AISIM_METRIC_HIST, x, "add()", err);
    if (status == AISIM_OK) {
        status = cell_of(metric, label, &cell, err);
    }
    if (status != AISIM_OK) {
        return status;
    }
    add_to(metric, 0, x);
    if (cell != 0) {
        add_to(metric, cell, x);
    }
    return AISIM_OK;
}

aisim_status aisim_metric_set(aisim_metric *metric, const char *label, int64_t t_ns, double x,
                              aisim_error *err)
{
    uint32_t cell;
    aisim_status status = check(metric, AISIM_METRIC_GAUGE, AISIM_METRIC_GAUGE, x, "set()", err);
    if (status == AISIM_OK) {
        status = cell_of(metric, label, &cell, err);
    }
    if (status == AISIM_OK) {
        aisim_gauge_set(&metric->cells.data[cell].gauge, t_ns, x);
    }
    return status;
}

aisim_status aisim_metric_push(aisim_metric *metric, int64_t t_ns, double value, aisim_error *err)
{
    aisim_status status = check(metric, AISIM_METRIC_SERIES, AISIM_METRIC_SERIES, 0, "points", err);
    if (status == AISIM_OK) {
        aisim_array_push(&metric->times, t_ns);
        aisim_array_push(&metric->values, isfinite(value) ? value : (double)NAN);
    }
    return status;
}

void aisim_custom_barrier(aisim_custom *custom, int64_t t_ns)
{
    for (uint32_t i = 0; i < custom->metrics.len; i++) {
        aisim_metric *metric = custom->metrics.data[i];
        if (metric->spec.keep) {
            continue;
        }
        for (uint32_t cell = 0; cell < metric->cells.len; cell++) {
            metric_cell *each = &metric->cells.data[cell];
            each->sum = each->carry = 0;
            aisim_digest_clear(&each->digest);
            aisim_gauge_begin(&each->gauge, t_ns);
        }
        metric->times.len = metric->values.len = 0;
    }
}

void aisim_custom_end(aisim_custom *custom, int64_t t_ns)
{
    for (uint32_t i = 0; i < custom->metrics.len; i++) {
        aisim_metric *metric = custom->metrics.data[i];
        for (uint32_t cell = 0; cell < metric->cells.len; cell++) {
            aisim_gauge_end(&metric->cells.data[cell].gauge, t_ns);
        }
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

uint32_t aisim_custom_count(const aisim_custom *custom)
{
    return custom->metrics.len;
}

aisim_metric *aisim_custom_at(const aisim_custom *custom, uint32_t index)
{
    return custom->metrics.data[index];
}

aisim_metric *aisim_custom_find(const aisim_custom *custom, const char *name)
{
    for (uint32_t i = 0; i < custom->metrics.len; i++) {
        if (strcmp(custom->metrics.data[i]->spec.name, name) == 0) {
            return custom->metrics.data[i];
        }
    }
    return NULL;
}

const aisim_metric_spec *aisim_metric_spec_of(const aisim_metric *metric)
{
    return &metric->spec;
}

uint32_t aisim_metric_cells(const aisim_metric *metric)
{
    return metric->cells.len;
}

const char *aisim_metric_label(const aisim_metric *metric, uint32_t cell)
{
    return metric->cells.data[cell].label;
}

double aisim_metric_total(const aisim_metric *metric, uint32_t cell)
{
    return metric->cells.data[cell].sum + metric->cells.data[cell].carry;
}

aisim_digest *aisim_metric_digest(aisim_metric *metric, uint32_t cell)
{
    return &metric->cells.data[cell].digest;
}

aisim_gauge *aisim_metric_gauge(aisim_metric *metric, uint32_t cell)
{
    return &metric->cells.data[cell].gauge;
}

void aisim_metric_ratio(const aisim_metric *metric, double *num, double *den)
{
    const aisim_metric *over = aisim_custom_find(metric->owner, metric->spec.num);
    const aisim_metric *under = aisim_custom_find(metric->owner, metric->spec.den);
    *num = over == NULL ? 0 : aisim_metric_total(over, 0);
    *den = under == NULL ? 0 : aisim_metric_total(under, 0);
}

uint32_t aisim_metric_points(const aisim_metric *metric, const int64_t **t_ns,
                             const double **values)
{
    *t_ns = metric->times.data;
    *values = metric->values.data;
    return metric->times.len;
}

aisim_status aisim_metric_merge(aisim_metric *metric, aisim_metric *from, aisim_error *err)
{
    if (metric->spec.kind != from->spec.kind) {
        return aisim_fail(err, AISIM_EINVAL, "metric '%s' is a %s here and a %s there",
                          metric->spec.name, aisim_metric_kind_text(metric->spec.kind),
                          aisim_metric_kind_text(from->spec.kind));
    }
    for (uint32_t i = 0; i < from->cells.len; i++) {
        uint32_t cell;
        aisim_status status = cell_of(metric, from->cells.data[i].label, &cell, err);
        if (status != AISIM_OK) {
            return status;
        }
        counter_add(&metric->cells.data[cell], aisim_metric_total(from, i));
        aisim_digest_merge(&metric->cells.data[cell].digest, &from->cells.data[i].digest);
        aisim_digest_merge(&metric->cells.data[cell].gauge.held, &from->cells.data[i].gauge.held);
    }
    return AISIM_OK;
}
