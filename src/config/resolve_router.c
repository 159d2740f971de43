/* resolve_router.c - options of a router from its table; what would do nothing is refused. */
#include "config/resolve_router.h"

#include <string.h>

#include "base/clock.h"
#include "config/resolve.h"
#include "config/resolve_parts.h"
#include "config/schema.h"

/* Position of the word in "a|b|c": enumerations are declared in the order of the table. */
static unsigned member(const aisim_value *tree, const char *path, const char *words)
{
    const aisim_value *value = aisim_given(tree, path);
    unsigned at = 0;
    while (value != NULL && *words != '\0') {
        const char *word = aisim_value_as_text(value);
        size_t n = strcspn(words, "|");
        if (strlen(word) == n && strncmp(word, words, n) == 0) {
            return at;
        }
        words += n + (words[n] == '|');
        at++;
    }
    return 0;
}

static void number(const aisim_value *tree, const char *path, double *out)
{
    const aisim_value *value = aisim_given(tree, path);
    *out = value != NULL ? aisim_value_as_real(value) : *out;
}

static void time(const aisim_value *tree, const char *path, double ms_per_unit, int64_t *out)
{
    const aisim_value *value = aisim_given(tree, path);
    *out = value != NULL ? aisim_ns_from_ms(aisim_value_as_real(value) * ms_per_unit) : *out;
}

static void flag(const aisim_value *tree, const char *path, bool *out)
{
    const aisim_value *value = aisim_given(tree, path);
    *out = value != NULL ? aisim_value_as_bool(value) : *out;
}

/* ---- policy and affinity --------------------------------------------------------------------- */

static aisim_status contradict(const aisim_value *router, const char *path, const char *other,
                               aisim_error *err)
{
    return aisim_fail_path(err, router, path, AISIM_EINVAL,
                           "router.%s: says the same as router.%s; give one of them", path, other);
}

/* policy = "session", inner = X is policy = X, affinity = {mode = "session"} (§2). */
static aisim_status read_policy(const aisim_value *router, aisim_route_options *out,
                                aisim_error *err)
{
    const aisim_value *policy = aisim_given(router, "policy");
    const aisim_value *inner = aisim_given(router, "inner");
    const aisim_value *inside = aisim_given(router, "affinity.inner");
    const char *name = policy != NULL ? aisim_value_as_text(policy) : "round_robin";
    bool session = strcmp(name, "session") == 0;
    bool sibling = strcmp(name, "sibling_group") == 0;
    const aisim_value *mode = aisim_given(router, "affinity.mode");
    if ((session || sibling) && mode != NULL) {
        return contradict(router, "affinity.mode", "policy", err);
    }
    if (inside != NULL && (inner != NULL || (policy != NULL && !session && !sibling))) {
        return contradict(router, "affinity.inner", inner != NULL ? "inner" : "policy", err);
    }
    if (aisim_given(router, "affinity") != NULL && mode == NULL && !session && !sibling) {
        return aisim_fail_path(err, router, "affinity", AISIM_EINVAL,
                               "missing key 'router.affinity.mode' (session, sibling_group)");
    }
    if (session || sibling) {
        name = "round_robin";
        out->affinity = session ? AISIM_AFFINITY_SESSION : AISIM_AFFINITY_SIBLING_GROUP;
    } else if (mode != NULL) {
        out->affinity =
            (aisim_affinity_mode)(1 + member(router, "affinity.mode", "session|sibling_group"));
    }
    inner = inner != NULL ? inner : inside;
    aisim_route_policy_named(inner != NULL ? aisim_value_as_text(inner) : name, &out->policy);
    out->soft = member(router, "affinity.binding", "hard|soft") == 1;
    number(router, "affinity.soft_factor", &out->soft_factor);
    time(router, "affinity.ttl_seconds", 1000.0, &out->affinity_ttl_ns);
    return AISIM_OK;
}

/* ---- effect ---------------------------------------------------------------------------------- */

/* The policy is one of the words "a|b|c" of a `when`. */
static bool among(const char *policy, const char *words)
{
    for (size_t n = 0; *words != '\0'; words += n + (words[n] == '|')) {
        n = strcspn(words, "|");
        if (strlen(policy) == n && strncmp(policy, words, n) == 0) {
            return true;
        }
    }
    return false;
}

/* With session and sibling_group the table lets every key pass: those of other policies than the
 * inner one may only repeat their default. */
static aisim_status check_inner(const aisim_value *router, const aisim_route_options *out,
                                aisim_error *err)
{
    static const char of_policy[] = "policy=";
    const aisim_mark nowhere = {0};
    const aisim_object *object = aisim_schema_object("router");
    const char *policy = aisim_route_policy_text(out->policy);
    aisim_value *any = aisim_value_map(nowhere);
    aisim_value_put(any, "policy", nowhere, aisim_value_text(nowhere, "session"));
    aisim_value *defaults = aisim_schema_resolve(any, "router");
    aisim_status status = AISIM_OK;
    const aisim_field *field;
    for (uint32_t i = 0; (field = aisim_schema_field_at(object, i)) != NULL; i++) {
        const aisim_value *value = aisim_given(router, field->key);
        bool of_policies =
            field->when != NULL && strncmp(field->when, of_policy, sizeof of_policy - 1) == 0;
        if (value == NULL || !of_policies || strcmp(field->key, "inner") == 0 ||
            among(policy, field->when + sizeof of_policy - 1)) {
            continue;
        }
        const aisim_value *usual = aisim_value_get(defaults, field->key);
        if (usual == NULL || !aisim_value_equal(value, usual)) {
            status =
                aisim_fail_path(err, router, field->key, AISIM_EINVAL,
                                "router.%s: no effect with inner policy '%s'", field->key, policy);
            break;
        }
    }
    aisim_value_free(defaults);
    aisim_value_free(any);
    return status;
}

static bool reads_prefill(const aisim_route_options *o)
{
    return o->policy == AISIM_ROUTE_LEAST_TOKENS || o->policy == AISIM_ROUTE_KV ||
           o->overload_prefill_tokens >= 0.0 || o->queue_threshold >= 0.0;
}

static bool reads_cache(const aisim_route_options *o)
{
    return reads_prefill(o) || o->policy == AISIM_ROUTE_PREFIX || o->policy == AISIM_ROUTE_KV_V1 ||
           o->queue_order == AISIM_QUEUE_WSPT;
}

/* Keys without a policy in their `when`: somebody must read what they describe. */
static aisim_status check_readers(const aisim_value *router, const aisim_route_options *o,
                                  aisim_error *err)
{
    const struct {
        const char *key;
        bool changed, read;
        const char *readers;
    } rows[] = {
        {"cache_view", o->view != AISIM_VIEW_EVENTS, reads_cache(o),
         "prefix, kv, kv_v1, least_tokens"},
        {"event_delay_ms", o->event_delay_ns > 0, reads_cache(o),
         "prefix, kv, kv_v1, least_tokens"},
        {"telemetry_period_ms", o->telemetry_period_ns > 0,
         o->policy == AISIM_ROUTE_LEAST_KV || o->policy == AISIM_ROUTE_SHORTEST_QUEUE,
         "least_kv, shortest_queue"},
        {"track_prefill", !o->track_prefill, reads_prefill(o), "kv, least_tokens"},
    };
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].changed && !rows[i].read && aisim_given(router, rows[i].key) != NULL) {
            return aisim_fail_path(err, router, rows[i].key, AISIM_EINVAL,
                                   "router.%s: no effect with policy '%s' (read by %s)",
                                   rows[i].key, aisim_route_policy_text(o->policy),
                                   rows[i].readers);
        }
    }
    return AISIM_OK;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static aisim_status read_queue(const aisim_value *router, aisim_route_options *out,
                               aisim_error *err)
{
    bool threshold = aisim_given(router, "queue.threshold") != NULL;
    bool batch = aisim_given(router, "queue.max_batched_tokens") != NULL;
    if (threshold != batch) {
        return aisim_fail_path(err, router, "queue", AISIM_EINVAL,
                               "missing key 'router.queue.%s' (the limit is threshold x "
                               "max_batched_tokens)",
                               threshold ? "max_batched_tokens" : "threshold");
    }
    out->queue_order = (aisim_queue_order)member(router, "queue.order", "fcfs|lcfs|wspt");
    number(router, "queue.threshold", &out->queue_threshold);
    number(router, "queue.max_batched_tokens", &out->queue_max_batched_tokens);
    return AISIM_OK;
}

static aisim_status read_weights(const aisim_value *router, aisim_route_options *out,
                                 aisim_error *err)
{
    const aisim_value *weights = aisim_given(router, "weights");
    double sum = 0.0;
    out->n_weights = weights == NULL ? 0 : aisim_value_len(weights);
    if (out->n_weights > AISIM_ROUTE_MAX_WEIGHTS) {
        return aisim_fail_path(err, router, "weights", AISIM_ERANGE,
                               "router.weights has %u entries: at most %d", out->n_weights,
                               AISIM_ROUTE_MAX_WEIGHTS);
    }
    for (uint32_t i = 0; i < out->n_weights; i++) {
        out->weights[i] = aisim_value_as_real(aisim_value_at(weights, i));
        sum += out->weights[i];
    }
    if (out->n_weights > 0 && !(sum > 0.0)) {
        return aisim_fail_path(err, router, "weights", AISIM_ERANGE,
                               "router.weights: one of them must be > 0");
    }
    return AISIM_OK;
}

static void read_numbers(const aisim_value *router, aisim_route_options *out)
{
    double blocks = out->prefix_blocks;
    out->ties = (aisim_route_ties)member(router, "ties", "lowest|random");
    out->key = (aisim_route_key)member(router, "key", "session|root|user|prefix");
    out->view = (aisim_cache_view)member(router, "cache_view", "events|approximate|oracle");
    number(router, "prefix_blocks", &blocks);
    out->prefix_blocks = (uint32_t)blocks;
    number(router, "load_factor", &out->load_factor);
    number(router, "threshold", &out->threshold);
    number(router, "balance_abs", &out->balance_abs);
    number(router, "balance_rel", &out->balance_rel);
    number(router, "overlap_score_credit", &out->overlap_score_credit);
    number(router, "host_credit", &out->host_credit);
    number(router, "disk_credit", &out->disk_credit);
    number(router, "shared_credit", &out->shared_credit);
    number(router, "prefill_load_scale", &out->prefill_load_scale);
    number(router, "active_request_weight", &out->active_request_weight);
    number(router, "overlap_decay", &out->overlap_decay);
    number(router, "temperature", &out->temperature);
    number(router, "overlap_weight", &out->overlap_weight);
    flag(router, "track_prefill", &out->track_prefill);
    flag(router, "track_output_blocks", &out->track_output_blocks);
    time(router, "event_delay_ms", 1.0, &out->event_delay_ns);
    time(router, "ttl_ms", 1.0, &out->ttl_ns);
    time(router, "telemetry_period_ms", 1.0, &out->telemetry_period_ns);
    number(router, "overload.active_prefill_tokens", &out->overload_prefill_tokens);
    number(router, "overload.active_blocks_ratio", &out->overload_blocks_ratio);
}

aisim_status aisim_config_router(const aisim_value *router, aisim_route_options *out,
                                 aisim_error *err)
{
    *out = aisim_route_options_default();
    if (router == NULL) {
        return AISIM_OK;
    }
    read_numbers(router, out);
    aisim_status status = read_policy(router, out, err);
    if (status == AISIM_OK) {
        status = read_queue(router, out, err);
    }
    if (status == AISIM_OK) {
        status = read_weights(router, out, err);
    }
    if (status == AISIM_OK) {
        status = check_inner(router, out, err);
    }
    return status == AISIM_OK ? check_readers(router, out, err) : status;
}
