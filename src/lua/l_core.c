/* l_core.c - the C module aisim.core: classes and their registration.
 *
 * The module table holds functions that the files of lua/aisim wrap. module.methods[class] is the
 * table of methods of each class; the Lua side adds its own methods there, so a method may live in
 * either language and the user does not see which. Metatables are hidden (__metatable), hence a
 * userdata with the metatable of a class is one of ours. */
#include "lua/l_common.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "config/number.h"
#include "lua/l_files.h"
#include "lua/l_model.h"

#if defined(__GNUC__)
#define AISIM_L_EXPORT __attribute__((visibility("default")))
#else
#define AISIM_L_EXPORT
#endif

static int protected_newindex(lua_State *L)
{
    return aisim_l_fail(L, "%s: field '%s' cannot be set", lua_tostring(L, lua_upvalueindex(1)),
                        luaL_tolstring(L, 2, NULL));
}

/* core.scan_unit(text, "ms" or "bytes") -> number, or nil */
static int l_scan_unit(lua_State *L)
{
    static const char *const names[] = {"ms", "bytes", "count", NULL};
    static const aisim_unit units[] = {AISIM_UNIT_MILLISECONDS, AISIM_UNIT_BYTES, AISIM_UNIT_COUNT};
    double value;
    if (!aisim_number_scan_unit(luaL_checkstring(L, 1), units[luaL_checkoption(L, 2, NULL, names)],
                                &value)) {
        return 0;
    }
    lua_pushnumber(L, value);
    return 1;
}

/* core.hash(text) -> FNV-1a, 64 bits, as 16 hexadecimal digits */
static int l_hash(lua_State *L)
{
    size_t size;
    const char *text = luaL_checklstring(L, 1, &size);
    char digits[17];
    snprintf(digits, sizeof digits, "%016" PRIx64, aisim_hash_bytes(text, size));
    lua_pushstring(L, digits);
    return 1;
}

/* __index of classes without fields: methods, or an error with a suggestion by core.unknown. */
static int methods_index(lua_State *L)
{
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) {
        return 1;
    }
    return aisim_l_unknown_field(L, lua_upvalueindex(1), lua_tostring(L, lua_upvalueindex(2)));
}

void aisim_l_push_hint(lua_State *L, const char *name, int names)
{
    names = lua_absindex(L, names);
    if (lua_getfield(L, LUA_REGISTRYINDEX, "aisim.suggest") != LUA_TFUNCTION) {
        lua_pop(L, 1);
        lua_pushliteral(L, "");
        return;
    }
    lua_pushstring(L, name);
    lua_pushvalue(L, names);
    lua_call(L, 2, 1);
}

int aisim_l_unknown_field(lua_State *L, int names, const char *what)
{
    const char *key = luaL_tolstring(L, 2, NULL);
    lua_newtable(L); /* what people may write: names that end in _ are between library and core */
    int known = lua_gettop(L);
    lua_pushvalue(L, names);
    int all = lua_gettop(L);
    for (lua_pushnil(L); lua_next(L, all) != 0; lua_pop(L, 1)) {
        const char *name = lua_tostring(L, -2);
        if (name[strlen(name) - 1] != '_') {
            lua_pushboolean(L, 1);
            lua_setfield(L, known, name);
        }
    }
    aisim_l_push_hint(L, key, known);
    return aisim_l_fail(L, "%s: unknown field '%s'%s", what, key, lua_tostring(L, -1));
}

static int strict_index(lua_State *L)
{
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) {
        lua_pushnil(L);
        return 1;
    }
    return aisim_l_unknown_field(L, lua_upvalueindex(1), lua_tostring(L, lua_upvalueindex(2)));
}

void aisim_l_push_strict_index(lua_State *L, const char *what)
{
    lua_pushstring(L, what);
    lua_pushcclosure(L, strict_index, 2);
}

void aisim_l_class_register(lua_State *L, const aisim_l_class *class_)
{
    int module = lua_gettop(L);
    luaL_newmetatable(L, class_->name); /* sets __name */
    int meta = lua_gettop(L);
    lua_pushstring(L, class_->name);
    lua_setfield(L, meta, "__metatable");
    lua_newtable(L); /* methods */
    if (class_->methods != NULL) {
        luaL_setfuncs(L, class_->methods, 0);
    }
    lua_getfield(L, module, "methods");
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, class_->name);
    lua_pop(L, 1);
    const char *short_name = strchr(class_->name, '.');
    lua_pushstring(L, short_name != NULL ? short_name + 1 : class_->name);
    lua_pushvalue(L, meta);
    lua_pushcclosure(L, class_->index != NULL ? class_->index : methods_index, 3);
    lua_setfield(L, meta, "__index");
    lua_pushstring(L, class_->name);
    lua_pushcclosure(L, class_->newindex != NULL ? class_->newindex : protected_newindex, 1);
    lua_setfield(L, meta, "__newindex");
    if (class_->tostring != NULL) {
        lua_pushcfunction(L, class_->tostring);
        lua_setfield(L, meta, "__tostring");
    }
    if (class_->gc != NULL) {
        lua_pushcfunction(L, class_->gc);
        lua_setfield(L, meta, "__gc");
        lua_pushcfunction(L, class_->gc);
        lua_setfield(L, meta, "__close");
    }
    lua_settop(L, module);
}

void aisim_l_extend(lua_State *L, const char *name, const luaL_Reg *methods)
{
    lua_getfield(L, -1, "methods");
    lua_getfield(L, -1, name);
    luaL_setfuncs(L, methods, 0);
    lua_pop(L, 2);
}

void *aisim_l_test(lua_State *L, int index, const char *name)
{
    return luaL_testudata(L, index, name);
}

void *aisim_l_check(lua_State *L, int index, const char *name)
{
    return luaL_checkudata(L, index, name);
}

/* core.on_unknown(f): f(name, names) -> " (did you mean …)" for unknown fields */
static int l_on_unknown(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_settop(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, "aisim.suggest");
    return 0;
}

AISIM_L_EXPORT int luaopen_aisim_core(lua_State *L);
AISIM_L_EXPORT int luaopen_aisim_core(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"on_unknown", l_on_unknown}, {"scan_unit", l_scan_unit}, {"hash", l_hash}, {NULL, NULL}};
    luaL_checkversion(L);
    luaL_newlib(L, functions);
    lua_newtable(L);
    lua_setfield(L, -2, "methods");
    aisim_l_error_register(L);
    aisim_l_limits_register(L);
    aisim_l_sim_register(L);
    aisim_l_request_register(L);
    aisim_l_hook_names_register(L);
    aisim_l_hooks_register(L);
    aisim_l_timer_register(L);
    aisim_l_pass_register(L);
    aisim_l_rng_register(L);
    aisim_l_dist_register(L);
    aisim_l_arrivals_register(L);
    aisim_l_content_register(L);
    aisim_l_submit_register(L);
    aisim_l_pool_register(L);
    aisim_l_targets_register(L);
    aisim_l_router_register(L);
    aisim_l_handoff_register(L);
    aisim_l_points_register(L);
    aisim_l_workload_register(L);
    aisim_l_session_register(L);
    aisim_l_model_register(L);
    aisim_l_timing_register(L);
    aisim_l_plays_register(L);
    aisim_l_trace_register(L);
    aisim_l_agentx_register(L);
    aisim_l_metric_register(L);
    aisim_l_report_register(L);
    aisim_l_records_register(L);
    aisim_l_export_register(L);
    aisim_l_configuration_register(L);
    aisim_l_files_register(L);
    aisim_l_engine_register(L);
    aisim_l_prediction_register(L);
    aisim_l_profile_register(L);
    lua_pushliteral(L, AISIM_VERSION);
    lua_setfield(L, -2, "version");
    return 1;
}
