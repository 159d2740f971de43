/* prediction.c - the pipeline of a file: read, set, check, complete, cross-check, split by role. */
#include "config/prediction.h"

#include <string.h>

#include "config/emit.h"
#include "config/override.h"
#include "config/prediction_traffic.h"
#include "config/resolve.h"
#include "config/schema.h"
#include "config/yaml.h"

/* ---- pools ----------------------------------------------------------------------------------- */

aisim_value *aisim_config_role(const aisim_value *deployment, const char *role)
{
    const aisim_value *worker = aisim_value_get(aisim_value_get(deployment, "workers"), role);
    aisim_mark mark = aisim_value_mark(aisim_value_is_null(worker) ? deployment : worker);
    aisim_value *flat = aisim_value_map(mark);
    const aisim_object *object = aisim_schema_object("engine");
    const aisim_field *field;
    for (uint32_t i = 0; (field = aisim_schema_field_at(object, i)) != NULL; i++) {
        const aisim_value *value = aisim_value_get(deployment, field->key);
        value = value == NULL ? aisim_value_get(worker, field->key) : value;
        if (value != NULL) {
            aisim_value_put(flat, field->key, aisim_value_mark(value), aisim_value_copy(value));
        }
    }
    aisim_value *resolved = aisim_schema_resolve(flat, "engine");
    aisim_value_free(flat);
    return resolved;
}

static const struct {
    const char *name;
    aisim_role role;
    bool disaggregated;
} roles[] = {{"aggregated", AISIM_ROLE_AGGREGATED, false},
             {"prefill", AISIM_ROLE_PREFILL, true},
             {"decode", AISIM_ROLE_DECODE, true}};

enum { ROLES = sizeof roles / sizeof *roles };

/* Roles that the mode has but the file does not name are all defaults; others are refused. */
static aisim_status complete_roles(aisim_value *tree, aisim_error *err)
{
    aisim_value *engine = aisim_value_get(tree, "engine");
    aisim_value *workers = aisim_value_get(engine, "workers");
    const char *mode = aisim_value_as_text(aisim_value_get(engine, "mode"));
    bool disaggregated = strcmp(mode, "disaggregated") == 0;
    for (int i = 0; i < ROLES; i++) {
        bool given = !aisim_value_is_null(aisim_value_get(workers, roles[i].name));
        if (given && roles[i].disaggregated != disaggregated) {
            aisim_text path = {0};
            aisim_text_format(&path, "engine.workers.%s", roles[i].name);
            aisim_status status = aisim_fail_path(err, tree, aisim_text_get(&path), AISIM_EINVAL,
                                                  "%s: has no effect with engine.mode = '%s'",
                                                  aisim_text_get(&path), mode);
            aisim_text_free(&path);
            return status;
        }
        if (!given && roles[i].disaggregated == disaggregated) {
            aisim_value_put(workers, roles[i].name, (aisim_mark){0},
                            aisim_schema_resolve(NULL, "worker"));
        }
    }
    if (!disaggregated && !aisim_value_is_null(aisim_value_get(engine, "kv_transfer"))) {
        return aisim_fail_path(err, tree, "engine.kv_transfer", AISIM_EINVAL,
                               "engine.kv_transfer: has no effect with engine.mode = '%s'", mode);
    }
    return AISIM_OK;
}

static void split_roles(aisim_prediction *out)
{
    const aisim_value *engine = aisim_value_get(out->tree, "engine");
    for (int i = 0; i < ROLES; i++) {
        if (!aisim_value_is_null(
                aisim_value_get(aisim_value_get(engine, "workers"), roles[i].name))) {
            out->pools[out->n_pools++] = (aisim_prediction_pool){
                roles[i].role, roles[i].name, aisim_config_role(engine, roles[i].name)};
        }
    }
}

/* ---- the rest of the file -------------------------------------------------------------------- */

static aisim_status read_memory_limit(const aisim_value *tree, double *bytes, aisim_error *err)
{
    const aisim_value *gb = aisim_value_find(tree, "execution.resources.memory_limit_gb");
    const aisim_value *gib = aisim_value_find(tree, "execution.resources.memory_limit_gib");
    bool has_gb = !aisim_value_is_null(gb);
    bool has_gib = !aisim_value_is_null(gib) && aisim_value_kind_of(gib) == AISIM_VALUE_REAL;
    if (has_gb && has_gib) {
        return aisim_fail_path(err, tree, "execution.resources.memory_limit_gib", AISIM_EINVAL,
                               "execution.resources: give memory_limit_gb or memory_limit_gib, not "
                               "both");
    }
    *bytes = has_gb ? aisim_value_as_real(gb) * 1e9 : 0.0;
    *bytes = has_gib ? aisim_value_as_real(gib) * 0x1p30 : *bytes;
    return AISIM_OK;
}

/* A file without traffic runs 100 requests of the default source. */
static void default_traffic(aisim_value *tree)
{
    if (aisim_value_is_null(aisim_value_get(tree, "traffic"))) {
        aisim_mark nowhere = {0};
        aisim_value *traffic = aisim_value_map(nowhere), *stop = aisim_value_map(nowhere);
        aisim_value_put(stop, "requests", nowhere, aisim_value_integer(nowhere, 100));
        aisim_value_put(traffic, "stop", nowhere, stop);
        aisim_value_put(tree, "traffic", nowhere, traffic);
    }
}

static aisim_status build(aisim_value *given, aisim_prediction *out, aisim_error *err)
{
    aisim_status status = aisim_schema_check(given, "prediction", "", "", err);
    if (status != AISIM_OK) {
        return status;
    }
    if (aisim_value_is_null(aisim_value_get(given, "engine"))) {
        return aisim_fail_mark(err, aisim_value_mark(given), AISIM_EINVAL,
                               "missing key 'engine' (model, hardware and workers)");
    }
    default_traffic(given);
    out->tree = aisim_schema_resolve(given, "prediction");
    status = complete_roles(out->tree, err);
    if (status == AISIM_OK) {
        status = aisim_check_traffic(out->tree, out, err);
    }
    if (status == AISIM_OK) {
        status = read_memory_limit(out->tree, &out->memory_limit_bytes, err);
    }
    if (status == AISIM_OK) {
        split_roles(out);
        out->digest = aisim_value_digest(out->tree);
    }
    return status;
}

aisim_status aisim_prediction_tree(aisim_value *tree, const char *const sets[], uint32_t n_sets,
                                   aisim_prediction *out, aisim_error *err)
{
    *out = (aisim_prediction){0};
    aisim_status status = AISIM_OK;
    if (aisim_value_is_null(tree)) {
        status = aisim_fail_mark(err, aisim_value_mark(tree), AISIM_EINVAL,
                                 "empty; a map with at least 'engine' expected");
    } else if (aisim_value_kind_of(tree) != AISIM_VALUE_MAP) {
        status = aisim_fail_mark(err, aisim_value_mark(tree), AISIM_EINVAL,
                                 "a map with at least 'engine' expected, got %s %s",
                                 aisim_value_kind_of(tree) == AISIM_VALUE_INTEGER ? "an" : "a",
                                 aisim_value_kind_name(tree));
    }
    for (uint32_t i = 0; i < n_sets && status == AISIM_OK; i++) {
        status = aisim_config_set_flag(tree, "prediction", sets[i], err);
    }
    if (status == AISIM_OK) {
        status = build(tree, out, err);
    }
    aisim_value_free(tree);
    if (status != AISIM_OK) {
        aisim_prediction_free(out);
    }
    return status;
}

aisim_status aisim_prediction_file(const char *path, const char *const sets[], uint32_t n_sets,
                                   aisim_prediction *out, aisim_error *err)
{
    aisim_value *tree = NULL;
    *out = (aisim_prediction){0};
    aisim_status status = aisim_yaml_file(path, &tree, err);
    return status == AISIM_OK ? aisim_prediction_tree(tree, sets, n_sets, out, err) : status;
}

void aisim_prediction_free(aisim_prediction *prediction)
{
    for (uint32_t i = 0; i < prediction->n_pools; i++) {
        aisim_value_free(prediction->pools[i].engine);
    }
    aisim_value_free(prediction->tree);
    *prediction = (aisim_prediction){0};
}
