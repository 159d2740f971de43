/* l_value.c - Lua tables to value trees (config/value.h) and back.
 *
 * A table with keys 1..n is a list, one with text keys a map whose keys are put in sorted order;
 * an empty table is an empty map. Lua does not know where a table was written, so every mark is the
 * line of the call.
 *
 * The conversion may raise half-way (not enough memory, a bad key); the tree built so far hangs on
 * a userdata with __gc until it is handed over, so nothing leaks. */
#include "lua/l_value.h"

#include <stdio.h>
#include <string.h>

#define GUARD "aisim.ValueGuard"

typedef struct guard {
    aisim_value *tree;
    aisim_source *source;
} guard;

static int guard_gc(lua_State *L)
{
    guard *g = luaL_checkudata(L, 1, GUARD);
    aisim_value_free(g->tree);
    aisim_source_release(g->source);
    *g = (guard){NULL, NULL};
    return 0;
}

static guard *push_guard(lua_State *L)
{
    guard *g = lua_newuserdatauv(L, sizeof *g, 0);
    *g = (guard){NULL, NULL};
    if (luaL_newmetatable(L, GUARD)) {
        lua_pushcfunction(L, guard_gc);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return g;
}

aisim_value **aisim_l_push_slot(lua_State *L)
{
    return &push_guard(L)->tree;
}

/* "file:line: " -> source and mark */
static aisim_mark mark_of_call(lua_State *L, guard *g)
{
    aisim_l_where(L);
    const char *where = lua_tostring(L, -1);
    const char *colon = strrchr(where, ':');
    const char *line_at = NULL;
    for (const char *c = where; colon != NULL && c < colon; c++) {
        if (*c == ':') {
            line_at = c;
        }
    }
    if (line_at == NULL) {
        lua_pop(L, 1);
        return (aisim_mark){NULL, 0, 0};
    }
    int line = 0;
    sscanf(line_at + 1, "%d", &line);
    lua_pushlstring(L, where, (size_t)(line_at - where));
    g->source = aisim_source_new(AISIM_ORIGIN_FILE, lua_tostring(L, -1));
    lua_pop(L, 2);
    return (aisim_mark){g->source, line, 0};
}

static bool is_list(lua_State *L, int index)
{
    return lua_rawlen(L, index) > 0;
}

/* A value without children: those are added by fill when the value hangs on its parent. */
static aisim_value *make(lua_State *L, int index, aisim_mark mark, const aisim_l_sim *s)
{
    int handle;
    switch (lua_type(L, index)) {
    case LUA_TNIL:
        return aisim_value_null(mark);
    case LUA_TBOOLEAN:
        return aisim_value_bool(mark, lua_toboolean(L, index));
    case LUA_TNUMBER:
        return lua_isinteger(L, index) ? aisim_value_integer(mark, lua_tointeger(L, index))
                                       : aisim_value_real(mark, lua_tonumber(L, index));
    case LUA_TSTRING:
        return aisim_value_text(mark, lua_tostring(L, index));
    case LUA_TTABLE:
        return is_list(L, index) ? aisim_value_list(mark) : aisim_value_map(mark);
    default:
        if (s == NULL) {
            aisim_l_fail(L, "a %s cannot stand here", luaL_typename(L, index));
        }
        lua_pushvalue(L, index);
        handle = aisim_l_anchor(L, s);
        return aisim_value_foreign(mark, luaL_typename(L, index), handle);
    }
}

static void fill(lua_State *L, int index, aisim_mark mark, const aisim_l_sim *s, int depth,
                 aisim_value *value);

static void fill_list(lua_State *L, int index, aisim_mark mark, const aisim_l_sim *s, int depth,
                      aisim_value *list)
{
    lua_Unsigned n = lua_rawlen(L, index);
    lua_Unsigned keys = 0;
    for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
        keys++;
    }
    if (keys != n) {
        aisim_l_fail(L, "a table must be a list or have named keys, not both");
    }
    for (lua_Unsigned i = 1; i <= n; i++) {
        lua_rawgeti(L, index, (lua_Integer)i);
        aisim_value *child = make(L, lua_gettop(L), mark, s);
        aisim_value_push(list, child);
        fill(L, lua_gettop(L), mark, s, depth + 1, child);
        lua_pop(L, 1);
    }
}

static bool in_order(lua_State *L, int list, lua_Integer i, lua_Integer j)
{
    lua_rawgeti(L, list, i);
    lua_rawgeti(L, list, j);
    bool ordered = !lua_compare(L, -1, -2, LUA_OPLT);
    lua_pop(L, 2);
    return ordered;
}

/* Leaves the sorted keys of the map on the stack (insertion sort: maps are small). */
static lua_Integer push_sorted_keys(lua_State *L, int index)
{
    lua_newtable(L);
    int list = lua_gettop(L);
    lua_Integer n = 0;
    for (lua_pushnil(L); lua_next(L, index) != 0; lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) {
            aisim_l_fail(L, "key %s: names expected as keys", luaL_tolstring(L, -2, NULL));
        }
        lua_pushvalue(L, -2);
        lua_rawseti(L, list, ++n);
        for (lua_Integer i = n; i > 1 && !in_order(L, list, i - 1, i); i--) {
            lua_rawgeti(L, list, i);
            lua_rawgeti(L, list, i - 1);
            lua_rawseti(L, list, i);
            lua_rawseti(L, list, i - 1);
        }
    }
    return n;
}

static void fill_map(lua_State *L, int index, aisim_mark mark, const aisim_l_sim *s, int depth,
                     aisim_value *map)
{
    lua_Integer n = push_sorted_keys(L, index);
    int list = lua_gettop(L);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, list, i);
        lua_pushvalue(L, -1);
        lua_rawget(L, index);
        aisim_value *child = make(L, lua_gettop(L), mark, s);
        aisim_value_put(map, lua_tostring(L, -2), mark, child);
        fill(L, lua_gettop(L), mark, s, depth + 1, child);
        lua_pop(L, 2);
    }
    lua_pop(L, 1);
}

static void fill(lua_State *L, int index, aisim_mark mark, const aisim_l_sim *s, int depth,
                 aisim_value *value)
{
    if (lua_type(L, index) != LUA_TTABLE) {
        return;
    }
    if (depth >= AISIM_VALUE_MAX_DEPTH) {
        aisim_l_fail(L, "tables nested more than %d deep", AISIM_VALUE_MAX_DEPTH);
    }
    luaL_checkstack(L, 12, "tables nested too deeply");
    if (is_list(L, index)) {
        fill_list(L, index, mark, s, depth, value);
    } else {
        fill_map(L, index, mark, s, depth, value);
    }
}

aisim_value *aisim_l_to_value(lua_State *L, int index, const aisim_l_sim *s)
{
    index = lua_absindex(L, index);
    int top = lua_gettop(L);
    guard *g = push_guard(L);
    aisim_mark mark = mark_of_call(L, g);
    g->tree = make(L, index, mark, s);
    fill(L, index, mark, s, 0, g->tree);
    aisim_value *tree = g->tree;
    g->tree = NULL; /* handed over; the values hold the source */
    lua_settop(L, top);
    return tree;
}

void aisim_l_push_value(lua_State *L, const aisim_value *value, const aisim_l_sim *s)
{
    luaL_checkstack(L, 8, "value nested too deeply");
    if (aisim_value_is_null(value)) {
        lua_pushnil(L);
        return;
    }
    switch (aisim_value_kind_of(value)) {
    case AISIM_VALUE_NULL:
        lua_pushnil(L);
        return;
    case AISIM_VALUE_BOOL:
        lua_pushboolean(L, aisim_value_as_bool(value));
        return;
    case AISIM_VALUE_INTEGER:
        if (aisim_value_is_big(value)) {
            lua_pushnumber(L, (lua_Number)aisim_value_as_unsigned(value));
        } else {
            lua_pushinteger(L, (lua_Integer)aisim_value_as_integer(value));
        }
        return;
    case AISIM_VALUE_REAL:
        lua_pushnumber(L, aisim_value_as_real(value));
        return;
    case AISIM_VALUE_TEXT:
        lua_pushstring(L, aisim_value_as_text(value));
        return;
    case AISIM_VALUE_LIST:
        lua_createtable(L, (int)aisim_value_len(value), 0);
        for (uint32_t i = 0; i < aisim_value_len(value); i++) {
            aisim_l_push_value(L, aisim_value_at(value, i), s);
            lua_rawseti(L, -2, (lua_Integer)i + 1);
        }
        return;
    case AISIM_VALUE_MAP:
        lua_createtable(L, 0, (int)aisim_value_len(value));
        for (uint32_t i = 0; i < aisim_value_len(value); i++) {
            aisim_l_push_value(L, aisim_value_at(value, i), s);
            lua_setfield(L, -2, aisim_value_key(value, i));
        }
        return;
    case AISIM_VALUE_FOREIGN:
        if (s == NULL) {
            lua_pushstring(L, aisim_value_as_text(value));
            return;
        }
        aisim_l_push_refs(L, s);
        lua_rawgeti(L, -1, (lua_Integer)aisim_value_handle(value));
        lua_remove(L, -2);
        return;
    }
    lua_pushnil(L);
}
