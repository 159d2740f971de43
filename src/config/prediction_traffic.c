/* prediction_traffic.c - source, load and stop must make one workload that ends.
 *
 * "Given" below means written by somebody: defaults of keys that need a partner are harmless. */
#include "config/prediction_traffic.h"

#include <math.h>
#include <string.h>

#include "config/resolve.h"

static bool given(const aisim_value *tree, const char *path)
{
    const aisim_value *value = aisim_value_find(tree, path);
    return !aisim_value_is_null(value) && aisim_value_origin(value) != AISIM_ORIGIN_DEFAULT;
}

static bool present(const aisim_value *tree, const char *path)
{
    return !aisim_value_is_null(aisim_value_find(tree, path));
}

static const char *word(const aisim_value *tree, const char *path)
{
    return aisim_value_as_text(aisim_value_find(tree, path));
}

/* A key that means nothing without another one. */
static aisim_status needs(const aisim_value *tree, const char *path, bool has, const char *what,
                          aisim_error *err)
{
    if (has || !given(tree, path)) {
        return AISIM_OK;
    }
    return aisim_fail_path(err, tree, path, AISIM_EINVAL, "%s: has no effect without %s", path,
                           what);
}

/* ---- AgentX ---------------------------------------------------------------------------------- */

static aisim_status check_t_star(const aisim_value *tree, aisim_error *err)
{
    static const char path[] = "traffic.load.agentic_t_star";
    const aisim_value *t_star = aisim_value_find(tree, path);
    if (aisim_value_len(t_star) != 2 || aisim_value_as_real(aisim_value_at(t_star, 0)) >
                                            aisim_value_as_real(aisim_value_at(t_star, 1))) {
        return aisim_fail_path(err, tree, path, AISIM_EINVAL,
                               "%s: two numbers expected, [low, high]", path);
    }
    return AISIM_OK;
}

static aisim_status check_draws(const aisim_value *tree, aisim_error *err)
{
    static const char path[] = "traffic.load.agentic_snapshot.u";
    if (!present(tree, path)) {
        return AISIM_OK;
    }
    int64_t lanes = aisim_value_as_integer(aisim_value_find(tree, "traffic.load.agentic_lanes"));
    if ((int64_t)aisim_value_len(aisim_value_find(tree, path)) != lanes) {
        return aisim_fail_path(err, tree, path, AISIM_EINVAL,
                               "%s: one number per lane expected (%lld)", path, (long long)lanes);
    }
    return AISIM_OK;
}

/* traffic.md §2: which key builds on which. */
static aisim_status check_agentic(const aisim_value *tree, aisim_error *err)
{
    bool lanes = present(tree, "traffic.load.agentic_lanes");
    bool snapshot = present(tree, "traffic.load.agentic_snapshot");
    bool warmup = aisim_value_as_bool(aisim_value_find(tree, "traffic.load.agentic_warmup"));
    const struct {
        const char *path;
        bool has;
        const char *what;
    } rows[] = {
        {"traffic.load.agentic_snapshot", lanes, "agentic_lanes"},
        {"traffic.load.agentic_profile", lanes, "agentic_lanes"},
        {"traffic.load.agentic_authored_gate", lanes, "agentic_lanes"},
        {"traffic.load.agentic_cache_identity", lanes, "agentic_lanes"},
        {"traffic.load.agentic_on_error", lanes, "agentic_lanes"},
        {"traffic.load.agentic_t_star", snapshot, "agentic_snapshot"},
        {"traffic.load.agentic_profile", snapshot, "agentic_snapshot"},
        {"traffic.load.agentic_warmup", snapshot || !warmup, "agentic_snapshot"},
        {"traffic.load.agentic_warmup_requests_per_lane", warmup, "agentic_warmup: true"},
        {"traffic.load.agentic_warmup_mode", warmup, "agentic_warmup: true"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        aisim_status status = needs(tree, rows[i].path, rows[i].has, rows[i].what, err);
        if (status != AISIM_OK) {
            return status;
        }
    }
    if (present(tree, "traffic.load.agentic_profile") &&
        present(tree, "traffic.stop.max_virtual_time_seconds")) {
        return aisim_fail_path(err, tree, "traffic.stop.max_virtual_time_seconds", AISIM_EINVAL,
                               "traffic.stop.max_virtual_time_seconds: cannot be combined with "
                               "agentic_profile, which has duration_seconds");
    }
    aisim_status status = check_t_star(tree, err);
    return status == AISIM_OK && snapshot ? check_draws(tree, err) : status;
}

/* ---- source and load ------------------------------------------------------------------------- */

static bool one_of(const char *text, const char *const *list)
{
    while (*list != NULL && strcmp(text, *list) != 0) {
        list++;
    }
    return *list != NULL;
}

/* Formats of plays and graphs run at the recorded times, those without times at any other load. */
static aisim_status check_load(const aisim_value *tree, const char *path, const char *format,
                               const char *load, aisim_error *err)
{
    static const char *const graphs[] = {"weka", "agentic_mooncake", NULL};
    static const char *const timeless[] = {"applied_compute_agentic", "lengths", NULL};
    bool timestamps = strcmp(load, "trace_timestamps") == 0;
    if (one_of(format, graphs) && !timestamps) {
        return aisim_fail_path(err, tree, path, AISIM_EINVAL,
                               "%s = '%s': a trace of format '%s' needs trace_timestamps", path,
                               load, format);
    }
    if (one_of(format, timeless) && timestamps) {
        return aisim_fail_path(err, tree, path, AISIM_EINVAL,
                               "%s = '%s': a trace of format '%s' has no times; concurrency, "
                               "constant_rate or poisson expected",
                               path, load, format);
    }
    return AISIM_OK;
}

static aisim_status check_trace(aisim_value *tree, aisim_error *err)
{
    static const char path[] = "traffic.load.type";
    static const char *const plays[] = {"weka", "agentic_mooncake", "dynamo", NULL};
    static const char *const counts[] = {"traffic.stop.requests",
                                         "traffic.stop.requests_per_load_unit"};
    aisim_value *type = aisim_value_find(tree, path);
    const char *format = word(tree, "traffic.source.format");
    if (strcmp(aisim_value_as_text(type), "trace") == 0) {
        aisim_value_set_text(type, "trace_timestamps");
    }
    const char *load = aisim_value_as_text(type);
    aisim_status status = check_load(tree, path, format, load, err);
    if (status != AISIM_OK) {
        return status;
    }
    bool timestamps = strcmp(load, "trace_timestamps") == 0;
    bool of_plays = one_of(format, plays);
    for (int i = 0; i < 2; i++) {
        if (present(tree, counts[i]) && ((of_plays && timestamps) || (i == 1 && timestamps))) {
            return aisim_fail_path(err, tree, counts[i], AISIM_ENOTMODELLED,
                                   "known, not modelled: %s with a trace (it runs to its end, or "
                                   "to max_virtual_time_seconds)",
                                   counts[i]);
        }
    }
    if (!of_plays && present(tree, "traffic.load.agentic_lanes")) {
        return aisim_fail_path(err, tree, "traffic.load.agentic_lanes", AISIM_EINVAL,
                               "traffic.load.agentic_lanes: a trace of format '%s' holds no plays",
                               format);
    }
    return timestamps ? check_agentic(tree, err) : AISIM_OK;
}

static aisim_status check_synthetic(const aisim_value *tree, aisim_error *err)
{
    const char *type = word(tree, "traffic.load.type");
    if (strncmp(type, "trace", 5) == 0) {
        return aisim_fail_path(err, tree, "traffic.load.type", AISIM_EINVAL,
                               "traffic.load.type = '%s': needs traffic.source.type = 'trace'",
                               type);
    }
    bool requests = present(tree, "traffic.stop.requests");
    bool per_unit = present(tree, "traffic.stop.requests_per_load_unit");
    if (requests && per_unit) {
        return aisim_fail_path(err, tree, "traffic.stop.requests_per_load_unit", AISIM_EINVAL,
                               "traffic.stop: give requests or requests_per_load_unit, not both");
    }
    if (!requests && !per_unit && !present(tree, "traffic.stop.max_virtual_time_seconds")) {
        return aisim_fail_path(err, tree, "traffic.stop", AISIM_EINVAL,
                               "missing key 'traffic.stop.requests' (a synthetic source has no "
                               "end; or max_virtual_time_seconds)");
    }
    return AISIM_OK;
}

/* traffic.md §3.5: max(1, round(x * load)) */
static uint64_t requests_of_load(const aisim_value *tree)
{
    bool closed = strcmp(word(tree, "traffic.load.type"), "concurrency") == 0;
    double load = aisim_value_as_real(aisim_value_find(
        tree, closed ? "traffic.load.concurrency" : "traffic.load.requests_per_second"));
    double x = aisim_value_as_real(aisim_value_find(tree, "traffic.stop.requests_per_load_unit"));
    double n = rint(x * load); /* halves to even */
    return n < 1.0 ? 1 : n >= 0x1p53 ? (uint64_t)1 << 53 : (uint64_t)n;
}

aisim_status aisim_check_traffic(aisim_value *tree, aisim_prediction *out, aisim_error *err)
{
    bool trace = strcmp(word(tree, "traffic.source.type"), "trace") == 0;
    aisim_status status = trace ? check_trace(tree, err) : check_synthetic(tree, err);
    if (status != AISIM_OK) {
        return status;
    }
    if (present(tree, "traffic.stop.requests")) {
        out->stop_requests =
            aisim_value_as_unsigned(aisim_value_find(tree, "traffic.stop.requests"));
    } else if (present(tree, "traffic.stop.requests_per_load_unit")) {
        out->stop_requests = requests_of_load(tree);
    }
    const aisim_value *limit = aisim_value_find(tree, "traffic.stop.max_virtual_time_seconds");
    out->max_virtual_time_ms = aisim_value_is_null(limit) ? 0.0 : aisim_value_as_real(limit) * 1e3;
    return AISIM_OK;
}
