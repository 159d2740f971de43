/* l_engine.c - from the engine table of sim:pool to a pool of the engine.
 *
 * Steps: table -> value tree with the line of the call -> --set flags laid over -> schema check ->
 * every default written out -> catalogue (model, hardware) -> capacity, timing, rank. The schema is
 * that of YAML files, so a key means the same everywhere and every message names file and line, or
 * the flag. What is built on the way hangs on Lua objects, so an error in the middle frees it. */
#include "lua/l_engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "config/override.h"
#include "config/resolve.h"
#include "config/resolve_parts.h"
#include "config/schema.h"
#include "config/yaml.h"
#include "lua/l_points.h"
#include "lua/l_timing.h"
#include "lua/l_value.h"

/* ---- reading the resolved tree --------------------------------------------------------------- */

static const aisim_value *at(const aisim_value *tree, const char *path)
{
    return aisim_value_find((aisim_value *)(uintptr_t)tree, path);
}

static double number_at(const aisim_value *tree, const char *path)
{
    const aisim_value *value = at(tree, path);
    if (aisim_value_is_null(value) || (aisim_value_kind_of(value) != AISIM_VALUE_INTEGER &&
                                       aisim_value_kind_of(value) != AISIM_VALUE_REAL)) {
        return 0.0;
    }
    return aisim_value_as_real(value);
}

static const char *text_at(const aisim_value *tree, const char *path)
{
    const aisim_value *value = at(tree, path);
    return aisim_value_is_null(value) || aisim_value_kind_of(value) != AISIM_VALUE_TEXT
               ? NULL
               : aisim_value_as_text(value);
}

static bool is_at(const aisim_value *tree, const char *path, const char *word)
{
    const char *text = text_at(tree, path);
    return text != NULL && strcmp(text, word) == 0;
}

static bool flag_at(const aisim_value *tree, const char *path)
{
    const aisim_value *value = at(tree, path);
    return !aisim_value_is_null(value) && aisim_value_kind_of(value) == AISIM_VALUE_BOOL &&
           aisim_value_as_bool(value);
}

/* ---- --set flags ----------------------------------------------------------------------------- */

/* The part of "engine.workers.<role>.KEY" or "engine.KEY" below this pool's table, or NULL. */
static const char *below_pool(const char *path, const char *role)
{
    static const char engine[] = "engine.";
    static const char workers[] = "workers.";
    if (strncmp(path, engine, sizeof engine - 1) != 0) {
        return NULL;
    }
    path += sizeof engine - 1;
    if (strncmp(path, workers, sizeof workers - 1) != 0) {
        return path;
    }
    path += sizeof workers - 1;
    size_t n = strlen(role);
    return strncmp(path, role, n) == 0 && path[n] == '.' ? path + n + 1 : NULL;
}

/* Raises; a message about a flag names it as it was typed. */
static void raise_at_flag(lua_State *L, const aisim_l_sim *s, const char *role, aisim_error *err)
{
    if (s != NULL && strncmp(err->file, "--set ", 6) == 0) {
        aisim_l_push_ref_table(L, s, "overrides");
        lua_Unsigned n = lua_rawlen(L, -1);
        for (lua_Unsigned i = 1; i <= n; i++) {
            lua_rawgeti(L, -1, (lua_Integer)i);
            lua_getfield(L, -1, "key");
            lua_getfield(L, -2, "value");
            lua_getfield(L, -3, "flag");
            const char *path = below_pool(lua_tostring(L, -3), role);
            if (path != NULL && strcmp(lua_pushfstring(L, "%s=%s", path, lua_tostring(L, -2)),
                                       err->file + 6) == 0) {
                snprintf(err->file, sizeof err->file, "%s", lua_tostring(L, -2));
            }
            lua_settop(L, -5 - (path != NULL));
        }
    }
    aisim_l_raise(L, err);
}

/* refs.overrides: list of {key=, value=, flag=}; those that apply are marked used. */
static void apply_overrides(lua_State *L, aisim_l_sim *s, const char *role, aisim_value *tree)
{
    aisim_error err = {0};
    aisim_l_push_ref_table(L, s, "overrides");
    int list = lua_gettop(L);
    lua_Unsigned n = lua_rawlen(L, list);
    for (lua_Unsigned i = 1; i <= n; i++) {
        lua_rawgeti(L, list, (lua_Integer)i);
        lua_getfield(L, -1, "key");
        lua_getfield(L, -2, "value");
        const char *path = below_pool(lua_tostring(L, -2), role);
        if (path != NULL) {
            if (aisim_config_set_in(tree, "engine", path, lua_tostring(L, -1), &err) != AISIM_OK) {
                raise_at_flag(L, s, role, &err);
            }
            lua_pushboolean(L, 1);
            lua_setfield(L, -4, "used");
        }
        lua_pop(L, 3);
    }
    lua_pop(L, 1);
}

/* ---- catalogue ------------------------------------------------------------------------------- */

/* Calls catalogue.<what>(name or table); leaves the descriptor table on the stack. */
static void push_descriptor(lua_State *L, const char *what, const aisim_value *value)
{
    lua_getfield(L, LUA_REGISTRYINDEX, "aisim.catalogue");
    lua_getfield(L, -1, what);
    lua_remove(L, -2);
    aisim_l_push_value(L, value, NULL);
    lua_call(L, 1, 1);
}

static aisim_l_machine *push_machine(lua_State *L, const aisim_value *tree)
{
    aisim_l_machine *machine = aisim_l_push_machine(L);
    const aisim_value *model = at(tree, "model");
    if (!aisim_value_is_null(model)) {
        push_descriptor(L, "model", model);
        aisim_l_machine_model(L, machine, lua_gettop(L));
        lua_pop(L, 1);
    }
    push_descriptor(L, "hardware", at(tree, "hardware"));
    aisim_l_machine_hardware(L, machine, lua_gettop(L));
    lua_pop(L, 1);
    static const char *const keys[] = {"parallelism.tensor", "parallelism.pipeline",
                                       "parallelism.attention_data", "parallelism.moe_tensor",
                                       "parallelism.moe_expert"};
    uint32_t degrees[5];
    for (int i = 0; i < 5; i++) {
        degrees[i] = (uint32_t)number_at(tree, keys[i]);
    }
    aisim_error err = {0};
    if (aisim_l_machine_split(machine, degrees, &err) != AISIM_OK) {
        aisim_l_raise(L, &err);
    }
    return machine;
}

/* ---- timing ---------------------------------------------------------------------------------- */

static void read_fixes(const aisim_value *tree, aisim_l_timing_spec *spec)
{
    const aisim_value *fix = at(tree, "timing.fix");
    for (uint32_t i = 0;
         fix != NULL && i < aisim_value_len(fix) && spec->n_fixes < AISIM_L_MAX_FIXES; i++) {
        const aisim_value *value = aisim_value_at(fix, i);
        if (aisim_value_kind_of(value) == AISIM_VALUE_BOOL && aisim_value_as_bool(value)) {
            spec->fixes[spec->n_fixes++] = aisim_value_key(fix, i);
        }
    }
}

/* The texts in the result live in the tree and in the calibration on the stack. */
static aisim_l_timing_spec read_timing(lua_State *L, const aisim_value *tree,
                                       const aisim_rank_config *rank)
{
    aisim_l_timing_spec spec = {
        .type = text_at(tree, "timing.type"),
        .prefill_ms = number_at(tree, "timing.prefill_ms"),
        .decode_ms = number_at(tree, "timing.decode_ms"),
        .base_ms = number_at(tree, "timing.base_ms"),
        .per_prefill_token_ms = number_at(tree, "timing.per_prefill_token_ms"),
        .per_decode_ms = number_at(tree, "timing.per_decode_ms"),
        .per_context_token_ms = number_at(tree, "timing.per_context_token_ms"),
        .mfu = number_at(tree, "timing.mfu"),
        .mbu = number_at(tree, "timing.mbu"),
        .pass_overhead_ms = number_at(tree, "timing.pass_overhead_ms") +
                            number_at(tree, "timing.overhead_pass_us") / 1e3,
        .prefill_layer_us = number_at(tree, "timing.overhead_layer_us_prefill"),
        .graph_max_batch = (uint64_t)number_at(tree, "timing.cudagraph_max_batch"),
        .serial = is_at(tree, "timing.mixed", "serial"),
        .per_request = flag_at(tree, "timing.per_request"),
        .strict = is_at(tree, "fallback_policy", "deny"),
        .speedup = number_at(tree, "timing.speedup"),
        .path = text_at(tree, "timing.path"),
        .kv_capacity_tokens = rank->kv.blocks * rank->kv.block_size};
    read_fixes(tree, &spec);
    if (strcmp(spec.type, "default") == 0 && is_at(tree, "database_mode", "SOL")) {
        spec.type = "roofline"; /* the speed of light itself */
        spec.mfu = spec.mbu = 1.0;
    }
    if (strcmp(spec.type, "default") == 0) {
        push_descriptor(L, "calibration", at(tree, "hardware"));
        spec.calibration = lua_tostring(L, -1);
    }
    return spec;
}

static aisim_timing **push_timing(lua_State *L, const aisim_value *tree,
                                  const aisim_l_machine *machine, const aisim_rank_config *rank)
{
    aisim_error err = {0};
    int top = lua_gettop(L);
    aisim_l_timing_spec spec = read_timing(L, tree, rank);
    aisim_timing *timing = NULL;
    if (aisim_l_machine_timing(machine, &spec, &timing, &err) != AISIM_OK) {
        aisim_l_raise(L, &err);
    }
    aisim_timing **slot = aisim_l_push_timing(L, timing);
    lua_insert(L, top + 1);
    lua_settop(L, top + 1); /* the calibration text is not needed any more */
    return slot;
}

/* ---- the pool -------------------------------------------------------------------------------- */

static void read_rank(lua_State *L, const aisim_l_sim *s, const char *role, const aisim_value *tree,
                      const aisim_l_machine *machine, const char *name, aisim_rank_config *rank)
{
    aisim_l_machine_facts known = aisim_l_machine_facts_of(machine);
    const aisim_config_facts facts = {known.model, known.context_length, known.bytes_per_token,
                                      known.state_bytes};
    aisim_capacity_request capacity;
    aisim_error err = {0};
    if (aisim_config_rank(tree, &facts, rank, &capacity, &err) != AISIM_OK) {
        raise_at_flag(L, s, role, &err);
    }
    uint32_t drafts =
        rank->speculation.mode == AISIM_SPECULATION_NONE ? 0 : rank->speculation.depth;
    if (capacity.type == AISIM_CAPACITY_DEFAULT &&
        aisim_l_machine_blocks(machine, capacity.memory_fraction,
                               rank->scheduler.max_batched_tokens, rank->kv.block_size, drafts,
                               name, &rank->kv.blocks, &err) != AISIM_OK) {
        aisim_l_raise(L, &err);
    }
}

static void describe(aisim_l_pool_info *info, const aisim_pool_config *config,
                     const aisim_value *tree, const aisim_l_machine *machine, bool functions)
{
    aisim_l_machine_facts known = aisim_l_machine_facts_of(machine);
    const char *capacity = text_at(tree, "kv_cache.capacity.type");
    char line[256];
    snprintf(line, sizeof line,
             "%s%s%" PRIu32 " × %s on %s, tp %g, %" PRIu64 " blocks of %" PRIu32 " (%s)",
             config->role == AISIM_ROLE_AGGREGATED ? "" : aisim_l_role_text(config->role),
             config->role == AISIM_ROLE_AGGREGATED ? "" : ": ", config->workers,
             known.model != NULL ? known.model : "no model", known.hardware,
             number_at(tree, "parallelism.tensor"), config->rank.kv.blocks,
             config->rank.kv.block_size,
             capacity != NULL && strcmp(capacity, "default") == 0 ? "auto" : "given");
    info->line = aisim_strdup(line);
    bool sol = is_at(tree, "timing.type", "default") && is_at(tree, "database_mode", "SOL");
    info->timing = aisim_strdup(functions ? "function"
                                : sol     ? "speed of light"
                                          : text_at(tree, "timing.type"));
    info->served = known.model != NULL ? aisim_strdup(known.model) : NULL;
    info->context_length = config->rank.scheduler.context_length;
    info->gpus = known.gpus;
    info->role = config->role;
    info->blocks = config->rank.kv.blocks;
    info->block_size = config->rank.kv.block_size;
    info->batched_tokens = config->rank.scheduler.max_batched_tokens;
}

const char *aisim_l_role_text(aisim_role role)
{
    static const char *const texts[] = {"aggregated", "prefill", "decode"};
    return texts[role];
}

static aisim_role read_role(const char *role)
{
    return strcmp(role, "prefill") == 0  ? AISIM_ROLE_PREFILL
           : strcmp(role, "decode") == 0 ? AISIM_ROLE_DECODE
                                         : AISIM_ROLE_AGGREGATED;
}

uint32_t aisim_l_engine_add(lua_State *L, aisim_l_sim *s, const char *name, const char *role,
                            int workers, int engine, int functions, int points,
                            aisim_l_pool_info *info)
{
    aisim_error err = {0};
    aisim_value **given = aisim_l_push_slot(L);
    *given = aisim_l_to_value(L, engine, NULL);
    aisim_value **transfer = aisim_l_push_slot(L); /* as the script says it */
    const aisim_value *scripted = aisim_value_get(*given, "kv_transfer");
    *transfer = aisim_value_is_null(scripted) ? NULL : aisim_value_copy(scripted);
    apply_overrides(L, s, role, *given);
    if (aisim_schema_check(*given, "engine", "pool: ", "", &err) != AISIM_OK) {
        raise_at_flag(L, s, role, &err);
    }
    aisim_value **tree = aisim_l_push_slot(L);
    *tree = aisim_schema_resolve(*given, "engine");
    aisim_l_machine *machine = push_machine(L, *tree);
    int machine_at = lua_gettop(L);
    aisim_pool_config config = {.name = name, .role = read_role(role)};
    if (config.role != AISIM_ROLE_AGGREGATED) {
        aisim_l_handoff_given(L, s, lua_pushfstring(L, "pool '%s'", name), *transfer);
    } else if (aisim_given(*tree, "kv_transfer") != NULL) {
        aisim_fail_path(&err, *tree, "kv_transfer", AISIM_EINVAL,
                        "kv_transfer: has no effect with role = 'aggregated'");
        raise_at_flag(L, s, role, &err);
    }
    read_rank(L, s, role, *tree, machine, name, &config.rank);
    config.workers = lua_isnoneornil(L, workers)
                         ? (uint32_t)number_at(*tree, "parallelism.replicas")
                         : (uint32_t)lua_tointeger(L, workers);
    bool has_functions = lua_istable(L, functions);
    aisim_timing **timing;
    if (has_functions) {
        timing = aisim_l_push_timing(
            L, aisim_l_timing_from_functions(L, s, functions, machine_at, &config.transfer));
    } else {
        timing = push_timing(L, *tree, machine, &config.rank);
    }
    config.timing = *timing;
    aisim_points asked;
    if (aisim_l_points_read(L, s, points, &asked)) {
        config.points = &asked;
    }
    uint32_t index = 0;
    if (aisim_sim_pool_add(s->sim, &config, &index, &err) != AISIM_OK) {
        aisim_l_raise(L, &err);
    }
    *timing = NULL; /* the pool owns it now */
    info->model = config.timing;
    describe(info, &config, *tree, machine, has_functions);
    info->configuration = *tree;
    *tree = NULL; /* the pool owns it now */
    lua_pushvalue(L, machine_at);
    info->machine = aisim_l_anchor(L, s);
    return index;
}

/* core.catalogue(table of functions model, hardware, calibration) */
static int l_catalogue(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "aisim.catalogue");
    return 0;
}

/* Lays the flags of the list at index ({key=, value=, flag=}, keys below the engine) over a tree.
 */
static void apply_flags(lua_State *L, int list, aisim_value *tree)
{
    aisim_error err = {0};
    for (lua_Integer i = 1; lua_istable(L, list) && i <= luaL_len(L, list); i++) {
        lua_rawgeti(L, list, i);
        lua_getfield(L, -1, "key");
        lua_getfield(L, -2, "value");
        if (aisim_config_set_in(tree, "engine", lua_tostring(L, -2), lua_tostring(L, -1), &err) !=
            AISIM_OK) {
            lua_getfield(L, -3, "flag");
            snprintf(err.file, sizeof err.file, "%s", lua_tostring(L, -1));
            aisim_l_raise(L, &err);
        }
        lua_pop(L, 3);
    }
}

/* core.timing(engine table, machine or nil, flags or nil) -> timing object, its type: a built-in
 * model outside of a pool. The table has the keys model, hardware, parallelism, timing of an
 * engine. */
static int l_timing(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 3);
    aisim_error err = {0};
    aisim_value **given = aisim_l_push_slot(L);
    *given = aisim_l_to_value(L, 1, NULL);
    apply_flags(L, 3, *given);
    if (aisim_schema_check(*given, "engine", "timing: ", "", &err) != AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    aisim_value **tree = aisim_l_push_slot(L);
    *tree = aisim_schema_resolve(*given, "engine");
    const aisim_l_machine *machine = luaL_testudata(L, 2, AISIM_L_MACHINE);
    if (machine == NULL) {
        machine = push_machine(L, *tree);
    }
    aisim_rank_config rank;
    aisim_rank_config_default(&rank);
    push_timing(L, *tree, machine, &rank);
    lua_pushstring(L, text_at(*tree, "timing.type"));
    return 2;
}

/* core.yaml(path) -> tables */
static int l_yaml(lua_State *L)
{
    aisim_error err = {0};
    aisim_value **tree = aisim_l_push_slot(L);
    if (aisim_yaml_file(luaL_checkstring(L, 1), tree, &err) != AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    aisim_l_push_value(L, *tree, NULL);
    return 1;
}

/* ---- the schema itself ----------------------------------------------------------------------- */

static void set_text(lua_State *L, const char *key, const char *text)
{
    lua_pushstring(L, text); /* NULL = nil */
    lua_setfield(L, -2, key);
}

static bool add_row(void *context, const char *path, const aisim_field *field)
{
    static const char *const statuses[] = {"used", "default_only", "not_modelled"};
    lua_State *L = context;
    lua_createtable(L, 0, 7);
    set_text(L, "path", path);
    set_text(L, "status", statuses[field->status]);
    set_text(L, "object", field->object);
    set_text(L, "default", field->fallback);
    set_text(L, "choices", field->kind == AISIM_FIELD_CHOICE ? field->choices : NULL);
    set_text(L, "note", field->note);
    lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
    return true;
}

/* core.schema(object) -> list of rows { path, status, object, default, choices, note }, nested
 * objects before their rows; for tests and tools. Empty for an unknown object. */
static int l_schema(lua_State *L)
{
    const char *object = luaL_checkstring(L, 1);
    lua_newtable(L);
    aisim_schema_walk(object, add_row, L);
    return 1;
}

void aisim_l_engine_register(lua_State *L)
{
    static const luaL_Reg functions[] = {{"catalogue", l_catalogue},
                                         {"timing", l_timing},
                                         {"yaml", l_yaml},
                                         {"schema", l_schema},
                                         {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
