/* l_plays_build.c - plays from tables: what plays:map, aisim.plays_of and others build on. A table
 * has the form that plays:each() hands out (l_plays.c); a field that is left out keeps its default.
 */
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "lua/l_plays.h"
#include "workload/play_build.h"

#define AISIM_L_BUILDER "aisim.PlayBuilder"

typedef struct builder {
    AISIM_ARRAY(aisim_play) plays;
    /* of the play in work; kept here so that an error of Lua loses nothing */
    AISIM_ARRAY(aisim_play_node) nodes;
    AISIM_ARRAY(aisim_play_edge) edges;
    AISIM_ARRAY(aisim_play_scope) scopes;
    AISIM_ARRAY(aisim_id_run) ids;
    AISIM_ARRAY(uint32_t) id_first;
} builder;

static builder *check_builder(lua_State *L)
{
    return luaL_checkudata(L, 1, AISIM_L_BUILDER);
}

static int builder_gc(lua_State *L)
{
    builder *b = check_builder(L);
    for (uint32_t i = 0; i < b->plays.len; i++) {
        aisim_play_deinit(&b->plays.data[i]);
    }
    aisim_array_free(&b->plays);
    aisim_array_free(&b->nodes);
    aisim_array_free(&b->edges);
    aisim_array_free(&b->scopes);
    aisim_array_free(&b->ids);
    aisim_array_free(&b->id_first);
    return 0;
}

/* core.play_builder() */
static int l_play_builder(lua_State *L)
{
    builder *b = lua_newuserdatauv(L, sizeof *b, 0);
    memset(b, 0, sizeof *b);
    luaL_setmetatable(L, AISIM_L_BUILDER);
    return 1;
}

/* ---- fields ---- */

static lua_Integer count(lua_State *L, int table, const char *where, const char *key,
                         lua_Integer absent, lua_Integer low)
{
    int ok = 1;
    lua_Integer value = absent;
    if (lua_getfield(L, table, key) != LUA_TNIL) {
        value = lua_tointegerx(L, -1, &ok);
    } else {
        ok = absent >= 0;
    }
    if (!ok || value < low || value > INT32_MAX) {
        aisim_l_fail(L, "%s.%s: whole number from %d to 2147483647 expected, got %s", where, key,
                     (int)low, luaL_tolstring(L, -1, NULL));
    }
    lua_pop(L, 1);
    return value;
}

static int64_t time_of(lua_State *L, int table, const char *where, const char *key, double absent)
{
    int ok = 1;
    double ms = absent;
    if (lua_getfield(L, table, key) != LUA_TNIL) {
        ms = lua_tonumberx(L, -1, &ok);
    }
    if (!ok || !(ms >= 0 && ms < 1e15)) {
        aisim_l_fail(L, "%s.%s: time in ms >= 0 expected, got %s", where, key,
                     luaL_tolstring(L, -1, NULL));
    }
    lua_pop(L, 1);
    return aisim_ns_from_ms(ms);
}

/* A text that the table keeps. */
static const char *text(lua_State *L, int table, const char *key, const char *absent)
{
    lua_getfield(L, table, key);
    const char *value = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : absent;
    lua_pop(L, 1);
    return value;
}

static int word(lua_State *L, int table, const char *where, const char *key,
                const char *const *words, int n, int absent)
{
    const char *value = text(L, table, key, NULL);
    for (int i = 0; value != NULL && i < n; i++) {
        if (strcmp(words[i], value) == 0) {
            return i;
        }
    }
    if (value != NULL) {
        aisim_l_fail(L, "%s.%s = '%s': unknown", where, key, value);
    }
    return absent;
}

static void read_ids(lua_State *L, builder *b, int table, const char *where, aisim_play_node *node)
{
    if (lua_getfield(L, table, "hash_runs") == LUA_TTABLE) {
        lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
        for (lua_Integer i = 1; i + 1 <= n; i += 2) {
            lua_rawgeti(L, -1, i);
            lua_rawgeti(L, -2, i + 1);
            lua_Integer first = lua_tointeger(L, -2);
            lua_Integer runs = lua_tointeger(L, -1);
            if (first < 0 || runs < 1 || runs > INT32_MAX) {
                aisim_l_fail(L, "%s.hash_runs: pairs start >= 0, count >= 1 expected", where);
            }
            aisim_id_run *last = node->n_ids > 0 ? &b->ids.data[b->ids.len - 1] : NULL;
            if (last != NULL && last->first + last->count == (uint64_t)first) {
                last->count += (uint64_t)runs;
            } else {
                aisim_array_push(&b->ids, (aisim_id_run){(uint64_t)first, (uint64_t)runs});
                node->n_ids++;
            }
            lua_pop(L, 2);
        }
    }
    lua_pop(L, 1);
}

static void read_edges(lua_State *L, builder *b, int table, const char *where, uint32_t target)
{
    static const char *const triggers[] = {"dispatch", "completion"};
    static const char *const relations[] = {"sequence", "spawn", "barrier", "join"};
    if (lua_getfield(L, table, "after") == LUA_TTABLE) {
        lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
        for (lua_Integer i = 1; i <= n; i++) {
            lua_rawgeti(L, -1, i);
            int at = lua_gettop(L);
            if (lua_type(L, at) != LUA_TTABLE) {
                aisim_l_fail(L, "%s.after[%d]: table expected", where, (int)i);
            }
            lua_Integer source = count(L, at, where, "source", -1, 1);
            aisim_play_edge edge = {.source = (uint32_t)source - 1,
                                    .target = target,
                                    .delay_ns = time_of(L, at, where, "delay_ms", 0),
                                    .trigger = (uint8_t)word(L, at, where, "trigger", triggers, 2,
                                                             AISIM_TRIGGER_COMPLETION),
                                    .relation = (uint8_t)word(L, at, where, "relation", relations,
                                                              4, AISIM_RELATION_SEQUENCE)};
            aisim_array_push(&b->edges, edge);
            lua_pop(L, 1);
        }
    }
    lua_pop(L, 1);
}

static void read_request(lua_State *L, builder *b, int table, const char *where, int64_t origin_ns)
{
    aisim_play_node node = {.name = where, .outer = AISIM_NONE, .inner = AISIM_NONE};
    int64_t start = time_of(L, table, where, "start_ms", 0);
    int64_t end = time_of(L, table, where, "end_ms", aisim_ms_from_ns(start));
    node.start_ns = origin_ns + start;
    node.end_ns = origin_ns + (end > start ? end : start);
    node.input_tokens = (uint32_t)count(L, table, where, "input_tokens", -1, 1);
    node.output_tokens = (uint32_t)count(L, table, where, "output_tokens", -1, 0);
    node.scope = (uint32_t)count(L, table, where, "scope", 1, 1) - 1;
    node.model = text(L, table, "model", "");
    lua_getfield(L, table,
                 "conversation"); /* a number or a name; the anchor table keeps the text */
    lua_pushfstring(L, "%s", luaL_tolstring(L, -1, NULL));
    node.session = lua_tostring(L, -1);
    lua_rawseti(L, 3, (lua_Integer)lua_rawlen(L, 3) + 1);
    lua_pop(L, 2);
    lua_Integer outer = count(L, table, where, "outer", INT32_MAX, 0);
    lua_Integer inner = count(L, table, where, "inner", INT32_MAX, 0);
    node.outer = outer == INT32_MAX ? AISIM_NONE : (uint32_t)outer;
    node.inner = inner == INT32_MAX ? AISIM_NONE : (uint32_t)inner;
    aisim_array_push(&b->id_first, b->ids.len);
    read_ids(L, b, table, where, &node);
    read_edges(L, b, table, where, b->nodes.len);
    aisim_array_push(&b->nodes, node);
}

static void read_scopes(lua_State *L, builder *b)
{
    if (lua_getfield(L, 2, "scopes") == LUA_TTABLE) {
        lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
        for (lua_Integer i = 1; i <= n; i++) {
            lua_rawgeti(L, -1, i);
            int at = lua_gettop(L);
            luaL_checktype(L, at, LUA_TTABLE);
            lua_Integer outer = count(L, at, "scope", "outer", INT32_MAX, 0);
            aisim_play_scope scope = {
                .outer = outer == INT32_MAX ? AISIM_NONE : (uint32_t)outer,
                .tool_tokens = (uint32_t)count(L, at, "scope", "tool_tokens", 0, 0),
                .system_tokens = (uint32_t)count(L, at, "scope", "system_tokens", 0, 0),
                .marker_ns = time_of(L, at, "scope", "marker_ms", 0)};
            lua_getfield(L, at, "blocking");
            scope.blocking = lua_isnil(L, -1) || lua_toboolean(L, -1);
            lua_getfield(L, at, "duration_ms");
            scope.duration_ns = lua_isnil(L, -1) ? -1 : aisim_ns_from_ms(lua_tonumber(L, -1));
            aisim_array_push(&b->scopes, scope);
            lua_settop(L, at - 1);
        }
    }
    lua_pop(L, 1);
}

/* builder:add(play): index 3 holds texts alive until the play is built */
static int builder_add(lua_State *L)
{
    builder *b = check_builder(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    lua_newtable(L);
    b->nodes.len = b->edges.len = b->scopes.len = b->ids.len = b->id_first.len = 0;
    const char *id = text(L, 2, "id", NULL);
    if (id == NULL) {
        return aisim_l_fail(L, "play.id: text expected");
    }
    int64_t origin = time_of(L, 2, "play", "start_ms", 0);
    uint32_t block = (uint32_t)count(L, 2, "play", "block_size", 64, 1);
    if (b->plays.len > 0 && b->plays.data[0].block_size != block) {
        return aisim_l_fail(L, "play '%s': block_size = %d, the plays before it have %d", id,
                            (int)block, (int)b->plays.data[0].block_size);
    }
    read_scopes(L, b);
    if (lua_getfield(L, 2, "requests") != LUA_TTABLE) {
        return aisim_l_fail(L, "play '%s'.requests: list of requests expected", id);
    }
    int list = lua_gettop(L);
    lua_Integer n = (lua_Integer)lua_rawlen(L, list);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, list, i);
        const char *where = lua_pushfstring(L, "play '%s', request %d", id, (int)i);
        lua_pushvalue(L, -1);
        lua_rawseti(L, 3, (lua_Integer)lua_rawlen(L, 3) + 1);
        if (lua_type(L, -2) != LUA_TTABLE) {
            return aisim_l_fail(L, "%s: table expected", where);
        }
        read_request(L, b, lua_gettop(L) - 1, where, origin);
        lua_pop(L, 2);
    }
    for (uint32_t i = 0; i < b->nodes.len; i++) {
        b->nodes.data[i].ids = b->ids.data + b->id_first.data[i];
    }
    aisim_play_parts parts = {.id = id,
                              .block_size = block,
                              .nodes = b->nodes.data,
                              .n_nodes = b->nodes.len,
                              .edges = b->edges.data,
                              .n_edges = b->edges.len,
                              .scopes = b->scopes.len > 0 ? b->scopes.data : NULL,
                              .n_scopes = b->scopes.len};
    aisim_play play;
    aisim_error err = {0};
    if (aisim_play_build(&parts, b->plays.len, &play, &err) != AISIM_OK) {
        return aisim_l_fail(L, "%s", err.text);
    }
    aisim_array_push(&b->plays, play);
    return 0;
}

/* builder:finish() -> plays */
static int builder_finish(lua_State *L)
{
    builder *b = check_builder(L);
    if (b->plays.len == 0) {
        return aisim_l_fail(L, "no play is left");
    }
    aisim_l_corpus *made = aisim_l_push_plays(L);
    made->corpus = aisim_corpus_of_plays(b->plays.data, b->plays.len);
    b->plays.data = NULL;
    b->plays.len = b->plays.cap = 0;
    return 1;
}

void aisim_l_plays_build_register(lua_State *L)
{
    static const luaL_Reg functions[] = {{"play_builder", l_play_builder}, {NULL, NULL}};
    static const luaL_Reg methods[] = {
        {"add", builder_add}, {"finish", builder_finish}, {NULL, NULL}};
    luaL_newmetatable(L, AISIM_L_BUILDER);
    lua_pushcfunction(L, builder_gc);
    lua_setfield(L, -2, "__gc");
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    luaL_setfuncs(L, functions, 0);
}
