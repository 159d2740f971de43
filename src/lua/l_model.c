/* l_model.c - a model on a machine, read from the catalogue's tables.
 *
 * The catalogue is Lua data in the keys of the timing room's field tables; those tables are the
 * only list of keys, so a descriptor written by a script is checked like one of ours. */
#include "lua/l_model.h"

#include <string.h>

#include "timing/calibration.h"
#include "timing/capacity.h"
#include "timing/op_level.h"
#include "timing/source_tables.h"

struct aisim_l_machine {
    aisim_model model;
    aisim_hardware hardware;
    aisim_parallelism split;
    bool has_model, has_hardware;
};

aisim_l_machine *aisim_l_push_machine(lua_State *L)
{
    aisim_l_machine *machine = lua_newuserdatauv(L, sizeof *machine, 0);
    memset(machine, 0, sizeof *machine);
    aisim_model_init(&machine->model);
    aisim_hardware_init(&machine->hardware);
    machine->split = aisim_parallelism_one();
    luaL_setmetatable(L, AISIM_L_MACHINE);
    return machine;
}

/* Keys that describe the catalogue entry and not the machine. */
static bool is_remark(const char *key)
{
    return strcmp(key, "aliases") == 0;
}

static void read_table(lua_State *L, int table, const aisim_field_table *fields, void *object)
{
    aisim_error err = {0};
    table = lua_absindex(L, table);
    for (lua_pushnil(L); lua_next(L, table) != 0; lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) {
            aisim_l_fail(L, "%s: names expected as keys", fields->what);
        }
        const char *key = lua_tostring(L, -2);
        aisim_status status = AISIM_OK;
        if (is_remark(key)) {
            continue;
        }
        switch (lua_type(L, -1)) {
        case LUA_TNUMBER:
            status = aisim_field_set_number(fields, object, key, lua_tonumber(L, -1), &err);
            break;
        case LUA_TBOOLEAN:
            status = aisim_field_set_number(fields, object, key, lua_toboolean(L, -1), &err);
            break;
        case LUA_TSTRING:
            status = aisim_field_set_text(fields, object, key, lua_tostring(L, -1), &err);
            break;
        default:
            aisim_l_fail(L, "%s: %s: number or text expected, got %s", fields->what, key,
                         luaL_typename(L, -1));
        }
        if (status != AISIM_OK) {
            aisim_l_raise(L, &err);
        }
    }
}

void aisim_l_machine_model(lua_State *L, aisim_l_machine *machine, int table)
{
    aisim_error err = {0};
    aisim_model_init(&machine->model);
    read_table(L, table, &aisim_model_fields, &machine->model);
    if (aisim_model_check(&machine->model, &err) != AISIM_OK) {
        aisim_l_raise(L, &err);
    }
    machine->has_model = true;
}

void aisim_l_machine_hardware(lua_State *L, aisim_l_machine *machine, int table)
{
    aisim_error err = {0};
    aisim_hardware_init(&machine->hardware);
    read_table(L, table, &aisim_hardware_fields, &machine->hardware);
    if (aisim_hardware_check(&machine->hardware, &err) != AISIM_OK) {
        aisim_l_raise(L, &err);
    }
    machine->has_hardware = true;
}

aisim_status aisim_l_machine_split(aisim_l_machine *machine, const uint32_t degrees[5],
                                   aisim_error *err)
{
    machine->split =
        (aisim_parallelism){degrees[0], degrees[1], degrees[2], degrees[3], degrees[4]};
    return machine->has_model ? aisim_parallelism_check(&machine->split, &machine->model, err)
                              : AISIM_OK;
}

aisim_l_machine_facts aisim_l_machine_facts_of(const aisim_l_machine *machine)
{
    const aisim_parallelism *split = &machine->split;
    aisim_l_machine_facts facts = {.hardware = machine->hardware.name,
                                   .gpus = (double)split->tensor * split->pipeline *
                                           split->attention_data};
    if (machine->has_model) {
        facts.model = machine->model.name;
        facts.context_length = machine->model.context_length;
        facts.bytes_per_token = aisim_kv_bytes_per_token(&machine->model, split);
        facts.state_bytes = aisim_state_bytes(&machine->model, split);
        const aisim_parallelism whole = {1, 1, 1, 1, 1};
        facts.model_bytes_per_token = aisim_kv_bytes_per_token(&machine->model, &whole);
        facts.model_state_bytes = aisim_state_bytes(&machine->model, &whole);
    }
    return facts;
}

aisim_status aisim_l_machine_blocks(const aisim_l_machine *machine, double memory_fraction,
                                    uint32_t max_batched_tokens, uint32_t block_size,
                                    uint32_t drafts, const char *pool, uint64_t *out,
                                    aisim_error *err)
{
    if (!machine->has_model) {
        return aisim_fail(
            err, AISIM_EINVAL,
            "pool '%s': the KV capacity follows from the model: give engine.model, or "
            "kv_cache.capacity = { type = \"fixed\", blocks = N }",
            pool);
    }
    aisim_capacity_request request = aisim_capacity_request_default();
    request.memory_fraction = memory_fraction;
    request.max_batched_tokens = max_batched_tokens;
    request.block_size = block_size;
    request.drafts = drafts;
    aisim_capacity capacity;
    aisim_status status = aisim_capacity_compute(&machine->model, &machine->hardware,
                                                 &machine->split, &request, pool, &capacity, err);
    *out = capacity.blocks;
    return status;
}

/* ---- timing ---------------------------------------------------------------------------------- */

static aisim_status read_options(const aisim_l_timing_spec *spec, aisim_op_level_options *out,
                                 aisim_error *err)
{
    *out = (aisim_op_level_options){.mixed = spec->serial ? AISIM_MIXED_SERIAL : AISIM_MIXED_FUSED,
                                    .strict = spec->strict,
                                    .per_request = spec->per_request,
                                    .pass_overhead_ms = spec->pass_overhead_ms,
                                    .overhead_layer_us_prefill = spec->prefill_layer_us,
                                    .cudagraph_max_batch = spec->graph_max_batch};
    for (uint32_t i = 0; i < spec->n_fixes; i++) {
        aisim_status status =
            aisim_field_set_number(&aisim_timing_fix_fields, &out->fixes, spec->fixes[i], 1, err);
        if (status != AISIM_OK) {
            return status;
        }
    }
    return AISIM_OK;
}

static aisim_status op_level(const aisim_l_machine *machine, const aisim_l_timing_spec *spec,
                             aisim_timing **out, aisim_error *err)
{
    if (!machine->has_model) {
        return aisim_fail(
            err, AISIM_EINVAL,
            "timing = { type = \"%s\" } follows from the model: give engine.model, or "
            "constants (type = \"fixed\")",
            spec->type);
    }
    aisim_op_level_options options;
    aisim_status status = read_options(spec, &options, err);
    if (status != AISIM_OK) {
        return status;
    }
    if (strcmp(spec->type, "roofline") == 0) {
        aisim_roofline_overrides overrides = {spec->mfu, spec->mbu};
        return aisim_timing_roofline(&machine->model, &machine->hardware, &machine->split, &options,
                                     &overrides, out, err);
    }
    if (strcmp(spec->type, "tables") == 0) {
        return aisim_timing_tables(&machine->model, &machine->hardware, &machine->split, &options,
                                   spec->path, out, err);
    }
    if (spec->calibration == NULL) {
        return aisim_fail(err, AISIM_ENOTMODELLED,
                          "known, not modelled: there is no calibration for %s; write timing = { "
                          "type = \"roofline\" }",
                          machine->hardware.name);
    }
    aisim_table *table = NULL;
    status = aisim_calibration_parse(spec->calibration, machine->hardware.name, &machine->hardware,
                                     &table, NULL, err);
    if (status != AISIM_OK) {
        return status;
    }
    return aisim_timing_op_level(&machine->model, &machine->hardware, &machine->split, &options,
                                 aisim_op_source_tables(table, &machine->hardware), out, err);
}

aisim_status aisim_l_machine_timing(const aisim_l_machine *machine, const aisim_l_timing_spec *spec,
                                    aisim_timing **out, aisim_error *err)
{
    aisim_status status;
    *out = NULL;
    if (strcmp(spec->type, "fixed") == 0) {
        status = aisim_timing_fixed(spec->prefill_ms, spec->decode_ms, out, err);
    } else if (strcmp(spec->type, "linear") == 0) {
        const aisim_timing_linear_law law = {spec->base_ms, spec->per_prefill_token_ms,
                                             spec->per_decode_ms, spec->per_context_token_ms};
        status = aisim_timing_linear(&law, out, err);
    } else if (strcmp(spec->type, "polynomial") == 0) {
        status = aisim_timing_polynomial(spec->kv_capacity_tokens, out, err);
    } else {
        status = op_level(machine, spec, out, err);
    }
    if (status == AISIM_OK) {
        aisim_timing_set_speedup(*out, spec->speedup);
    }
    return status;
}

static int machine_tostring(lua_State *L)
{
    aisim_l_machine *machine = luaL_checkudata(L, 1, AISIM_L_MACHINE);
    lua_pushfstring(L, "%s on %s", machine->has_model ? machine->model.name : "no model",
                    machine->has_hardware ? machine->hardware.name : "no hardware");
    return 1;
}

const struct aisim_model *aisim_l_machine_model_of(const aisim_l_machine *machine)
{
    return &machine->model;
}

const struct aisim_hardware *aisim_l_machine_hardware_of(const aisim_l_machine *machine)
{
    return &machine->hardware;
}

const struct aisim_parallelism *aisim_l_machine_parallelism_of(const aisim_l_machine *machine)
{
    return &machine->split;
}

void aisim_l_model_register(lua_State *L)
{
    static const aisim_l_class class_ = {AISIM_L_MACHINE, NULL, NULL, NULL, machine_tostring, NULL};
    aisim_l_class_register(L, &class_);
    aisim_l_calibrate_register(L);
}
