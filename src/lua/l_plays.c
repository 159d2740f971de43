/* l_plays.c - recorded agent runs: aisim.plays(path), plays:each(), plays:filter(fn)
 * (spec/lua-api.md §5).
 *
 * The corpus stays in C and is read-only; a play that a script looks at is copied into a table. A
 * selection is a corpus of its own that borrows the plays of its base, with ordinals and digest of
 * its own. Simulations hold a reference, because they may outlive the Lua object. */
#include "lua/l_limits.h"
#include "lua/l_plays.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"

/* ---- shared ownership ------------------------------------------------------------------------ */

void aisim_l_corpus_hold(aisim_l_corpus *corpus)
{
    corpus->references++;
}

void aisim_l_corpus_release(aisim_l_corpus *corpus)
{
    if (corpus == NULL || --corpus->references > 0) {
        return;
    }
    if (corpus->base != NULL) {
        aisim_free(corpus->corpus->plays);
        aisim_free(corpus->corpus);
        aisim_l_corpus_release(corpus->base);
    } else {
        aisim_corpus_free(corpus->corpus);
    }
    aisim_free(corpus);
}

aisim_l_corpus *aisim_l_push_plays(lua_State *L)
{
    aisim_l_corpus **slot = lua_newuserdatauv(L, sizeof(aisim_l_corpus *), 0);
    *slot = aisim_alloc_zero(1, sizeof **slot);
    (*slot)->references = 1;
    luaL_setmetatable(L, AISIM_L_PLAYS);
    return *slot;
}

aisim_l_corpus *aisim_l_check_plays(lua_State *L, int index)
{
    aisim_l_corpus **slot = luaL_checkudata(L, index, AISIM_L_PLAYS);
    return *slot;
}

static int plays_gc(lua_State *L)
{
    aisim_l_corpus **slot = luaL_checkudata(L, 1, AISIM_L_PLAYS);
    aisim_l_corpus_release(*slot);
    *slot = NULL;
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* core.plays(list of paths, basis, align_inputs) */
static int l_plays(lua_State *L)
{
    static const char *const bases[] = {"auto", "absolute", "relative", NULL};
    static const char *const aligns[] = {"false", "floor", "ceil", NULL};
    luaL_checktype(L, 1, LUA_TTABLE);
    const aisim_corpus_options options = {
        (aisim_timestamp_basis)luaL_checkoption(L, 2, "auto", bases),
        (aisim_align_inputs)luaL_checkoption(L, 3, "false", aligns),
        &aisim_l_limits_of(L)->tripped};
    uint32_t n = (uint32_t)lua_rawlen(L, 1);
    const char **paths = lua_newuserdatauv(L, (n + 1) * sizeof *paths, 0);
    for (uint32_t i = 0; i < n; i++) {
        lua_rawgeti(L, 1, (lua_Integer)i + 1);
        paths[i] = luaL_checkstring(L, -1);
        lua_pop(L, 1); /* the list keeps it */
    }
    aisim_l_corpus *plays = aisim_l_push_plays(L);
    aisim_error err = {0};
    plays->corpus = aisim_corpus_new(&options);
    aisim_l_frame native;
    aisim_l_native_begin(L, &native);
    bool loaded = aisim_corpus_add_paths(plays->corpus, paths, n, &err) == AISIM_OK &&
                  aisim_corpus_finish(plays->corpus, &err) == AISIM_OK;
    aisim_l_native_end(L, &native);
    if (!loaded) {
        return aisim_l_raise(L, &err);
    }
    return 1;
}

/* ---- looking --------------------------------------------------------------------------------- */

static void set_integer(lua_State *L, const char *key, lua_Integer value)
{
    lua_pushinteger(L, value);
    lua_setfield(L, -2, key);
}

static void push_edges(lua_State *L, const aisim_play *play, const aisim_play_request *r)
{
    lua_createtable(L, (int)r->in_edges, 0);
    for (uint32_t i = 0; i < r->in_edges; i++) {
        const aisim_play_edge *edge = &play->edges[r->in_first + i];
        lua_createtable(L, 0, 4);
        set_integer(L, "source", (lua_Integer)edge->source + 1);
        lua_pushstring(L, edge->trigger == AISIM_TRIGGER_DISPATCH ? "dispatch" : "completion");
        lua_setfield(L, -2, "trigger");
        lua_pushstring(L, aisim_play_relation_name((aisim_play_relation)edge->relation));
        lua_setfield(L, -2, "relation");
        aisim_l_push_ms(L, edge->delay_ns);
        lua_setfield(L, -2, "delay_ms");
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

static void push_request(lua_State *L, const aisim_play *play, uint32_t i)
{
    const aisim_play_request *r = &play->requests[i];
    lua_createtable(L, 0, 12);
    set_integer(L, "input_tokens", r->input_tokens);
    set_integer(L, "output_tokens", r->output_tokens);
    set_integer(L, "conversation", (lua_Integer)r->conversation + 1);
    set_integer(L, "blocks", aisim_play_known_blocks(play, i));
    aisim_l_push_ms(L, r->start_ns - play->first_start_ns);
    lua_setfield(L, -2, "start_ms");
    aisim_l_push_ms(L, r->end_ns - play->first_start_ns);
    lua_setfield(L, -2, "end_ms");
    lua_pushstring(L, play->models[r->model]);
    lua_setfield(L, -2, "model");
    set_integer(L, "scope", (lua_Integer)play->conversations[r->conversation].scope + 1);
    set_integer(L, "outer", r->outer);
    if (r->inner != AISIM_NONE) {
        set_integer(L, "inner", r->inner);
    }
    lua_createtable(L, (int)r->id_runs * 2, 0);
    for (uint32_t k = 0; k < r->id_runs; k++) {
        lua_pushinteger(L, (lua_Integer)play->ids[r->id_first + k].first);
        lua_rawseti(L, -2, 2 * (lua_Integer)k + 1);
        lua_pushinteger(L, (lua_Integer)play->ids[r->id_first + k].count);
        lua_rawseti(L, -2, 2 * (lua_Integer)k + 2);
    }
    lua_setfield(L, -2, "hash_runs");
    push_edges(L, play, r);
    lua_setfield(L, -2, "after");
}

static void push_scopes(lua_State *L, const aisim_play *play)
{
    lua_createtable(L, (int)play->n_scopes, 0);
    for (uint32_t i = 0; i < play->n_scopes; i++) {
        const aisim_play_scope *scope = &play->scopes[i];
        lua_createtable(L, 0, 6);
        if (scope->outer != AISIM_NONE) {
            set_integer(L, "outer", scope->outer);
        }
        set_integer(L, "tool_tokens", scope->tool_tokens);
        set_integer(L, "system_tokens", scope->system_tokens);
        lua_pushboolean(L, scope->blocking);
        lua_setfield(L, -2, "blocking");
        aisim_l_push_ms(L, scope->marker_ns);
        lua_setfield(L, -2, "marker_ms");
        if (scope->duration_ns >= 0) {
            aisim_l_push_ms(L, scope->duration_ns);
            lua_setfield(L, -2, "duration_ms");
        }
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "scopes");
}

static void push_play(lua_State *L, const aisim_play *play)
{
    lua_createtable(L, 0, 7);
    aisim_l_push_ms(L, play->first_start_ns);
    lua_setfield(L, -2, "start_ms");
    push_scopes(L, play);
    lua_pushstring(L, play->id);
    lua_setfield(L, -2, "id");
    set_integer(L, "ordinal", play->ordinal);
    set_integer(L, "block_size", play->block_size);
    set_integer(L, "conversations", play->n_conversations);
    lua_createtable(L, (int)play->n_requests, 0);
    for (uint32_t i = 0; i < play->n_requests; i++) {
        push_request(L, play, i);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "requests");
}

static int each_next(lua_State *L)
{
    aisim_l_corpus *plays = aisim_l_check_plays(L, lua_upvalueindex(1));
    lua_Integer i = lua_tointeger(L, lua_upvalueindex(2));
    if (i >= (lua_Integer)plays->corpus->n_plays) {
        return 0;
    }
    lua_pushinteger(L, i + 1);
    lua_replace(L, lua_upvalueindex(2));
    push_play(L, &plays->corpus->plays[i]);
    return 1;
}

/* for play in plays:each() do … end */
static int plays_each(lua_State *L)
{
    aisim_l_check_plays(L, 1);
    lua_settop(L, 1);
    lua_pushinteger(L, 0);
    lua_pushcclosure(L, each_next, 2);
    return 1;
}

/* core.plays_pick(plays, list of numbers) -> these plays in this order */
static int l_plays_pick(lua_State *L)
{
    aisim_l_corpus *plays = aisim_l_check_plays(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    const aisim_corpus *all = plays->corpus;
    uint32_t n = (uint32_t)lua_rawlen(L, 2);
    for (uint32_t i = 0; i < n; i++) {
        lua_Integer number =
            lua_rawgeti(L, 2, (lua_Integer)i + 1) == LUA_TNUMBER ? lua_tointeger(L, -1) : 0;
        lua_pop(L, 1);
        if (number < 1 || number > (lua_Integer)all->n_plays) {
            return aisim_l_fail(L, "plays: no play number %d", (int)number);
        }
    }
    aisim_l_corpus *chosen = aisim_l_push_plays(L);
    aisim_corpus *part = aisim_alloc_zero(1, sizeof *part);
    *part = *all;
    part->plays = aisim_alloc(n, sizeof *part->plays);
    part->n_plays = n;
    for (uint32_t i = 0; i < n; i++) {
        lua_rawgeti(L, 2, (lua_Integer)i + 1);
        uint32_t source = (uint32_t)lua_tointeger(L, -1) - 1;
        lua_pop(L, 1);
        part->plays[i] = all->plays[source];
        part->plays[i].ordinal = i;
        part->digest = aisim_mix64(part->digest ^ source);
    }
    chosen->corpus = part;
    chosen->base = plays;
    aisim_l_corpus_hold(plays);
    return 1;
}

static int plays_len(lua_State *L)
{
    lua_pushinteger(L, aisim_l_check_plays(L, 1)->corpus->n_plays);
    return 1;
}

/* plays[i], plays.block_size, plays.requests */
static int plays_index(lua_State *L)
{
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TFUNCTION) {
        return 1;
    }
    const aisim_corpus *corpus = aisim_l_check_plays(L, 1)->corpus;
    if (lua_isinteger(L, 2)) {
        lua_Integer i = lua_tointeger(L, 2);
        if (i < 1 || i > (lua_Integer)corpus->n_plays) {
            return 0;
        }
        push_play(L, &corpus->plays[i - 1]);
        return 1;
    }
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (strcmp(key, "block_size") == 0) {
        lua_pushinteger(L, corpus->block_size);
    } else if (strcmp(key, "requests") == 0) {
        lua_Integer n = 0;
        for (uint32_t i = 0; i < corpus->n_plays; i++) {
            n += corpus->plays[i].n_requests;
        }
        lua_pushinteger(L, n);
    } else if (strcmp(key, "nested_timestamp_basis") == 0) {
        lua_pushstring(L, corpus->basis == AISIM_BASIS_RELATIVE ? "relative" : "absolute");
    } else {
        return aisim_l_unknown_field(L, lua_upvalueindex(1), "plays");
    }
    return 1;
}

static int plays_tostring(lua_State *L)
{
    lua_pushfstring(L, "%d plays", (int)aisim_l_check_plays(L, 1)->corpus->n_plays);
    return 1;
}

void aisim_l_plays_register(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"plays", l_plays}, {"plays_pick", l_plays_pick}, {NULL, NULL}};
    static const luaL_Reg methods[] = {{"each", plays_each}, {NULL, NULL}};
    static const aisim_l_class class_ = {AISIM_L_PLAYS, methods,        plays_index,
                                         NULL,          plays_tostring, plays_gc};
    luaL_setfuncs(L, functions, 0);
    aisim_l_plays_make_register(L);
    aisim_l_plays_build_register(L);
    aisim_l_class_register(L, &class_);
    luaL_getmetatable(L, AISIM_L_PLAYS);
    lua_pushcfunction(L, plays_len);
    lua_setfield(L, -2, "__len");
    lua_pop(L, 1);
    lua_getfield(L, -1, "methods");
    lua_getfield(L, -1, AISIM_L_PLAYS);
    static const char *const fields[] = {"block_size", "requests", "nested_timestamp_basis"};
    for (int i = 0; i < 3; i++) {
        lua_pushboolean(L, 1);
        lua_setfield(L, -2, fields[i]);
    }
    lua_pop(L, 2);
}
