/* prediction_traffic.c - source, load and stop must make one workload that ends.
 *
 * "Given" below means written by somebody: defaults of keys that need a partner are harmless. */
#include "config/prediction_traffic.h"

#include <math.h>
#include <stdio.h>
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

static aisim_status check_plays_of_lanes(const aisim_value *tree, aisim_error *err)
{
    static const char path[] = "traffic.stop.sessions";
    int64_t lanes = aisim_value_as_integer(aisim_value_find(tree, "traffic.load.agentic_lanes"));
    if (present(tree, path) && aisim_value_as_integer(aisim_value_find(tree, path)) < lanes) {
        return aisim_fail_path(err, tree, path, AISIM_ERANGE,
                               "%s: must be >= agentic_lanes (%lld), which begin with a play each",
                               path, (long long)lanes);
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
    aisim_status status = lanes ? check_plays_of_lanes(tree, err) : AISIM_OK;
    if (status == AISIM_OK) {
        status = check_t_star(tree, err);
    }
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
                               "%s = '%s': a trace of format '%s' has no times; concurrency "
                               "or another load expected",
                               path, load, format);
    }
    return AISIM_OK;
}

/* traffic 3.1: the rate of the source, finite, with a finite reciprocal. */
static aisim_status check_rate(const aisim_value *tree, bool of_requests, bool of_sessions,
                               aisim_error *err)
{
    static const char *const paths[] = {"traffic.load.requests_per_second",
                                        "traffic.load.sessions_per_second"};
    static const char *const rated[] = {"constant_rate", "poisson", "gamma", NULL};
    const bool fits[] = {of_requests, of_sessions};
    const char *source = word(tree, "traffic.source.type");
    int n = 0;
    for (int i = 0; i < 2; i++) {
        const aisim_value *rate = aisim_value_find(tree, paths[i]);
        if (aisim_value_is_null(rate)) {
            continue;
        }
        if (!fits[i]) {
            return aisim_fail_path(err, tree, paths[i], AISIM_EINVAL,
                                   "%s: has no effect with traffic.source.type = '%s', whose rate "
                                   "is %s",
                                   paths[i], source, strrchr(paths[1 - i], '.') + 1);
        }
        if (!isfinite(1.0 / aisim_value_as_real(rate))) {
            return aisim_fail_path(err, tree, paths[i], AISIM_ERANGE,
                                   "%s = %g: its reciprocal must be finite", paths[i],
                                   aisim_value_as_real(rate));
        }
        n++;
    }
    if (n == 2) {
        return aisim_fail_path(err, tree, paths[1], AISIM_EINVAL,
                               "traffic.load: give requests_per_second or sessions_per_second, not "
                               "both");
    }
    if (n == 0 && one_of(word(tree, "traffic.load.type"), rated)) {
        return aisim_fail_path(err, tree, "traffic.load", AISIM_EINVAL,
                               "missing key '%s' (mean rate of arrivals)",
                               paths[of_requests ? 0 : 1]);
    }
    return AISIM_OK;
}

/* Every point says the same thing, at ascending times. */
static aisim_status check_points(const aisim_value *tree, bool of_requests, bool of_sessions,
                                 aisim_error *err)
{
    static const char *const keys[] = {"requests_per_second", "sessions_per_second", "concurrency"};
    const bool fits[] = {of_requests, of_sessions, true};
    const aisim_value *points = aisim_value_find(tree, "traffic.load.points");
    int kind = -1;
    double last = 0.0;
    for (uint32_t i = 0; i < aisim_value_len(points); i++) {
        const aisim_value *point = aisim_value_at(points, i);
        int n = 0, given_kind = -1;
        for (int k = 0; k < 3; k++) {
            if (!aisim_value_is_null(aisim_value_get(point, keys[k]))) {
                given_kind = k;
                n++;
            }
        }
        kind = kind < 0 ? given_kind : kind;
        if (n != 1 || given_kind != kind || !fits[given_kind]) {
            return aisim_fail_mark(err, aisim_value_mark(point), AISIM_EINVAL,
                                   "traffic.load.points[%u]: one of %s%sconcurrency expected, the "
                                   "same in every point",
                                   i + 1, of_requests ? "requests_per_second, " : "",
                                   of_sessions ? "sessions_per_second, " : "");
        }
        double seconds = aisim_value_as_real(aisim_value_get(point, "seconds"));
        if (seconds < last) {
            return aisim_fail_mark(err, aisim_value_mark(point), AISIM_EINVAL,
                                   "traffic.load.points[%u].seconds = %g: must be >= %g, the time "
                                   "before it",
                                   i + 1, seconds, last);
        }
        last = seconds;
    }
    return AISIM_OK;
}

static aisim_status check_shape(const aisim_value *tree, bool of_requests, bool of_sessions,
                                aisim_error *err)
{
    const char *type = word(tree, "traffic.load.type");
    aisim_status status = check_rate(tree, of_requests, of_sessions, err);
    if (status == AISIM_OK && strcmp(type, "ramp") == 0) {
        status = check_points(tree, of_requests, of_sessions, err);
    }
    if (status == AISIM_OK && strcmp(type, "burst") == 0 &&
        present(tree, "traffic.load.size") != present(tree, "traffic.load.every_ms")) {
        return aisim_fail_path(err, tree, "traffic.load", AISIM_EINVAL,
                               "traffic.load: size and every_ms belong together");
    }
    if (status == AISIM_OK && strcmp(type, "sine") == 0 &&
        aisim_value_as_real(aisim_value_find(tree, "traffic.load.amplitude")) >
            aisim_value_as_real(aisim_value_find(tree, "traffic.load.base"))) {
        return aisim_fail_path(err, tree, "traffic.load.amplitude", AISIM_EINVAL,
                               "traffic.load.amplitude: must be <= base, or the rate falls below "
                               "0");
    }
    return status;
}

/* traffic 3.5: counts, and counts per load unit. */
static aisim_status check_counts(const aisim_value *tree, aisim_error *err)
{
    static const char *const units[] = {"requests", "sessions"};
    static const char *const single[] = {"concurrency",  "constant_rate",        "poisson", "gamma",
                                         "user_centric", "kv_capacity_fraction", NULL};
    for (int i = 0; i < 2; i++) {
        char count[64], per_unit[64];
        snprintf(count, sizeof count, "traffic.stop.%s", units[i]);
        snprintf(per_unit, sizeof per_unit, "traffic.stop.%s_per_load_unit", units[i]);
        if (present(tree, count) && present(tree, per_unit)) {
            return aisim_fail_path(err, tree, per_unit, AISIM_EINVAL,
                                   "traffic.stop: give %s or %s_per_load_unit, not both", units[i],
                                   units[i]);
        }
        if (present(tree, per_unit) && !one_of(word(tree, "traffic.load.type"), single)) {
            return aisim_fail_path(err, tree, per_unit, AISIM_EINVAL,
                                   "%s: a load of type '%s' has no single value; give %s", per_unit,
                                   word(tree, "traffic.load.type"), units[i]);
        }
    }
    return AISIM_OK;
}

static aisim_status check_warmup(const aisim_value *tree, aisim_error *err)
{
    if (present(tree, "traffic.warmup") &&
        present(tree, "traffic.warmup.requests") == present(tree, "traffic.warmup.seconds")) {
        return aisim_fail_path(err, tree, "traffic.warmup", AISIM_EINVAL,
                               "traffic.warmup: one of requests, seconds expected");
    }
    return AISIM_OK;
}

static aisim_status check_trace(aisim_value *tree, aisim_error *err)
{
    static const char path[] = "traffic.load.type";
    static const char *const plays[] = {"weka", "agentic_mooncake", "dynamo", NULL};
    enum { OF_LANES = 2 }; /* the first so many are stop rules of plays in lanes as well */
    static const char *const of_rows[] = {"traffic.stop.requests",
                                          "traffic.stop.sessions",
                                          "traffic.stop.requests_per_load_unit",
                                          "traffic.stop.sessions_per_load_unit",
                                          "traffic.stop.tokens",
                                          "traffic.warmup",
                                          "traffic.load.from_ms",
                                          "traffic.load.to_ms"};
    aisim_value *type = aisim_value_find(tree, path);
    const char *format = word(tree, "traffic.source.format");
    if (strcmp(aisim_value_as_text(type), "trace") == 0) {
        aisim_value_set_text(type, "trace_timestamps");
    }
    const char *load = aisim_value_as_text(type);
    aisim_status status = check_load(tree, path, format, load, err);
    if (status == AISIM_OK) {
        status = check_shape(tree, true, true, err);
    }
    if (status != AISIM_OK) {
        return status;
    }
    bool timestamps = strcmp(load, "trace_timestamps") == 0;
    bool of_plays = one_of(format, plays);
    bool lanes = present(tree, "traffic.load.agentic_lanes");
    for (size_t i = lanes ? OF_LANES : 0; i < sizeof of_rows / sizeof *of_rows; i++) {
        if (of_plays && timestamps && present(tree, of_rows[i])) {
            return aisim_fail_path(err, tree, of_rows[i], AISIM_ENOTMODELLED,
                                   "known, not modelled: %s with a trace of plays (it runs to its "
                                   "end, or to max_virtual_time_seconds)",
                                   of_rows[i]);
        }
    }
    if (!of_plays && present(tree, "traffic.load.agentic_lanes")) {
        return aisim_fail_path(err, tree, "traffic.load.agentic_lanes", AISIM_EINVAL,
                               "traffic.load.agentic_lanes: a trace of format '%s' holds no plays",
                               format);
    }
    const aisim_value *from = aisim_value_find(tree, "traffic.load.from_ms");
    const aisim_value *to = aisim_value_find(tree, "traffic.load.to_ms");
    if (!aisim_value_is_null(from) && !aisim_value_is_null(to) &&
        aisim_value_as_real(to) <= aisim_value_as_real(from)) {
        return aisim_fail_path(err, tree, "traffic.load.to_ms", AISIM_EINVAL,
                               "traffic.load.to_ms: must be > from_ms");
    }
    return timestamps ? check_agentic(tree, err) : AISIM_OK;
}

static aisim_status check_prefix(const aisim_value *tree, aisim_error *err)
{
    const aisim_value *weights = aisim_value_find(tree, "traffic.source.prefix.weights");
    if (aisim_value_is_null(weights)) {
        return AISIM_OK;
    }
    int64_t groups = aisim_value_as_integer(aisim_value_find(tree, "traffic.source.prefix.groups"));
    if (present(tree, "traffic.source.prefix.zipf")) {
        return aisim_fail_path(err, tree, "traffic.source.prefix.weights", AISIM_EINVAL,
                               "traffic.source.prefix: give zipf or weights, not both");
    }
    if ((int64_t)aisim_value_len(weights) != groups) {
        return aisim_fail_path(err, tree, "traffic.source.prefix.weights", AISIM_EINVAL,
                               "traffic.source.prefix.weights: one weight per group expected "
                               "(%lld)",
                               (long long)groups);
    }
    return AISIM_OK;
}

static aisim_status check_session(const aisim_value *tree, aisim_error *err)
{
    double ratio =
        aisim_value_as_real(aisim_value_find(tree, "traffic.source.session.shared_prefix_ratio"));
    int64_t groups =
        aisim_value_as_integer(aisim_value_find(tree, "traffic.source.session.prefix_groups"));
    if (ratio > 0 && groups == 0) {
        return aisim_fail_path(err, tree, "traffic.source.session", AISIM_EINVAL,
                               "traffic.source.session.prefix_groups = 0: must be >= 1 with "
                               "shared_prefix_ratio > 0");
    }
    return needs(tree, "traffic.source.session.prefix_groups", ratio > 0 || groups == 0,
                 "shared_prefix_ratio", err);
}

/* aisim.agent: a context must be shorter after its compaction. */
static aisim_status check_agent(const aisim_value *tree, aisim_error *err)
{
    static const char above[] = "traffic.source.compact.above";
    static const char to[] = "traffic.source.compact.to";
    const aisim_value *limit = aisim_value_find(tree, above);
    if (aisim_value_kind_of(limit) == AISIM_VALUE_TEXT) {
        return needs(tree, to, false, "a number in compact.above", err);
    }
    int64_t left = aisim_value_as_integer(aisim_value_find(tree, to)) +
                   aisim_value_as_integer(aisim_value_find(tree, "traffic.source.system.tokens"));
    if (left >= aisim_value_as_integer(limit)) {
        return aisim_fail_path(err, tree, given(tree, to) ? to : above, AISIM_EINVAL,
                               "traffic.source.compact: system.tokens + to = %lld must be < above "
                               "= %lld",
                               (long long)left, (long long)aisim_value_as_integer(limit));
    }
    return AISIM_OK;
}

static aisim_status check_agentic_code(const aisim_value *tree, aisim_error *err)
{
    static const char path[] = "traffic.source.group_weights";
    const aisim_value *weights = aisim_value_find(tree, path);
    if (aisim_value_is_null(weights)) {
        return AISIM_OK;
    }
    int64_t groups = aisim_value_as_integer(aisim_value_find(tree, "traffic.source.groups"));
    if (present(tree, "traffic.source.group_zipf")) {
        return aisim_fail_path(err, tree, path, AISIM_EINVAL,
                               "traffic.source: give group_zipf or group_weights, not both");
    }
    if ((int64_t)aisim_value_len(weights) != groups) {
        return aisim_fail_path(err, tree, path, AISIM_EINVAL,
                               "%s: one weight per group expected (%lld)", path, (long long)groups);
    }
    return AISIM_OK;
}

static aisim_status check_source(const aisim_value *tree, aisim_error *err)
{
    static const struct {
        const char *type;
        aisim_status (*check)(const aisim_value *tree, aisim_error *err);
    } rows[] = {{"synthetic", check_prefix},
                {"synthetic-session", check_session},
                {"agent", check_agent},
                {"agentic-code", check_agentic_code}};
    const char *type = word(tree, "traffic.source.type");
    size_t i = 0;
    while (strcmp(rows[i].type, type) != 0) {
        i++;
    }
    return rows[i].check(tree, err);
}

static aisim_status check_synthetic(const aisim_value *tree, aisim_error *err)
{
    static const char *const stops[] = {
        "traffic.stop.requests", "traffic.stop.requests_per_load_unit",
        "traffic.stop.sessions", "traffic.stop.sessions_per_load_unit",
        "traffic.stop.tokens",   "traffic.stop.max_virtual_time_seconds"};
    const char *type = word(tree, "traffic.load.type");
    bool sessions = strcmp(word(tree, "traffic.source.type"), "synthetic") != 0;
    if (strncmp(type, "trace", 5) == 0) {
        return aisim_fail_path(err, tree, "traffic.load.type", AISIM_EINVAL,
                               "traffic.load.type = '%s': needs traffic.source.type = 'trace'",
                               type);
    }
    aisim_status status = check_shape(tree, !sessions, sessions, err);
    if (status == AISIM_OK) {
        status = check_source(tree, err);
    }
    for (int i = 2; i < 4 && status == AISIM_OK && !sessions; i++) {
        status = needs(tree, stops[i], false,
                       "sessions (traffic.source.type = 'synthetic-session', 'agent' or "
                       "'agentic-code')",
                       err);
    }
    if (status != AISIM_OK) {
        return status;
    }
    bool at_once = strcmp(type, "burst") == 0 && !present(tree, "traffic.load.size");
    for (int i = 0; i < (at_once ? 5 : 6); i++) { /* a burst without end has no time to end at */
        if (present(tree, stops[i])) {
            return AISIM_OK;
        }
    }
    return aisim_fail_path(err, tree, "traffic.stop", AISIM_EINVAL,
                           "missing key 'traffic.stop.%s' (a synthetic source has no end%s)",
                           sessions ? "sessions" : "requests",
                           at_once ? "" : "; or max_virtual_time_seconds");
}

aisim_status aisim_check_traffic(aisim_value *tree, aisim_prediction *out, aisim_error *err)
{
    bool trace = strcmp(word(tree, "traffic.source.type"), "trace") == 0;
    aisim_status status = trace ? check_trace(tree, err) : check_synthetic(tree, err);
    if (status == AISIM_OK) {
        status = check_counts(tree, err);
    }
    if (status == AISIM_OK) {
        status = check_warmup(tree, err);
    }
    if (status != AISIM_OK) {
        return status;
    }
    const aisim_value *limit = aisim_value_find(tree, "traffic.stop.max_virtual_time_seconds");
    out->max_virtual_time_ms = aisim_value_is_null(limit) ? 0.0 : aisim_value_as_real(limit) * 1e3;
    return AISIM_OK;
}
