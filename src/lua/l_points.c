/* l_points.c - scheduler points written in Lua (spec/lua-api.md §7).
 *
 * The engine sees aisim_points, plain functions; here each one calls the Lua function of its pool.
 * What kind of value comes back is checked here, its range by the engine (sched/points.c), in one
 * wording. */
#include "lua/l_points.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

typedef struct l_points { /* a userdata that the refs table anchors */
    aisim_l_sim *s;
    int fn[AISIM_POINTS_COUNT];
    int view;                     /* refs: what victim sees */
    const aisim_victims *victims; /* of the question being asked, else NULL */
    aisim_points kept;            /* for messages */
} l_points;

/* ---- calling --------------------------------------------------------------------------------- */

/* Opens the call of a point: its function is on the stack. @return false = the run is over */
static bool open(l_points *p, aisim_point point, const aisim_point_site *site, uint64_t *outer,
                 aisim_error *err)
{
    aisim_l_sim *s = p->s;
    if (aisim_l_broken(s)) {
        aisim_fail(err, AISIM_ECALLBACK, "an earlier function failed");
        return false;
    }
    *outer = aisim_l_begin(s);
    s->site =
        (aisim_l_site){"scheduler point", aisim_point_text(point), site->request, site->rank, 0};
    lua_rawgeti(s->L, s->refs, p->fn[point]);
    return true;
}

/* Calls it. @return true with the result on top */
static bool call(l_points *p, aisim_point point, uint64_t outer, int arguments, aisim_error *err)
{
    if (aisim_l_call(p->s, outer, arguments, 1)) {
        return true;
    }
    aisim_fail(err, AISIM_ECALLBACK, "scheduler point '%s' failed", aisim_point_text(point));
    return false;
}

static void push_site(l_points *p, const aisim_point_site *site)
{
    aisim_l_push_ms(p->s->L, site->t_ns);
    lua_pushinteger(p->s->L, (lua_Integer)site->rank + 1);
}

/* The result on top as messages show it. */
static const char *shown(lua_State *L)
{
    int type = lua_type(L, -1);
    bool plain = type == LUA_TNUMBER || type == LUA_TBOOLEAN || type == LUA_TNIL;
    if (plain) {
        return luaL_tolstring(L, -1, NULL);
    }
    return type == LUA_TSTRING ? lua_pushfstring(L, "'%s'", lua_tostring(L, -1))
                               : lua_pushfstring(L, "a %s", luaL_typename(L, -1));
}

/* A number from the top of the stack. */
static double number(l_points *p, aisim_point point, const aisim_point_site *site, aisim_error *err)
{
    lua_State *L = p->s->L;
    if (lua_type(L, -1) != LUA_TNUMBER) {
        aisim_points_refuse(&p->kept, point, site, shown(L), "a finite number expected", err);
        return 0.0;
    }
    return lua_tonumber(L, -1);
}

/* A whole number from 0 to 2^32 - 1; the engine knows the bounds. */
static uint32_t whole(l_points *p, aisim_point point, const aisim_point_site *site, int64_t low,
                      const char *expected, aisim_error *err)
{
    lua_State *L = p->s->L;
    int is_whole = 0;
    lua_Integer value = 0;
    if (lua_type(L, -1) == LUA_TNUMBER) {
        value = lua_tointegerx(L, -1, &is_whole);
    }
    if (!is_whole || value < low || value >= UINT32_MAX) {
        aisim_points_refuse(&p->kept, point, site, shown(L), expected, err);
        return 0;
    }
    return (uint32_t)value;
}

/* ---- the points ------------------------------------------------------------------------------ */

static double order(void *context, const aisim_point_site *site, aisim_error *err)
{
    l_points *p = context;
    lua_State *L = p->s->L;
    int top = lua_gettop(L);
    uint64_t outer;
    double value = 0.0;
    if (open(p, AISIM_POINT_ORDER, site, &outer, err)) {
        aisim_l_push_view(L, p->s, site->request);
        if (call(p, AISIM_POINT_ORDER, outer, 1, err)) {
            value = number(p, AISIM_POINT_ORDER, site, err);
        }
    }
    lua_settop(L, top);
    return value;
}

static aisim_admit_answer admit_answer(l_points *p, const aisim_point_site *site, aisim_error *err)
{
    lua_State *L = p->s->L;
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    if (lua_isboolean(L, -1) && lua_toboolean(L, -1)) {
        return AISIM_ADMIT_YES;
    }
    if (strcmp(text, "skip") == 0) {
        return AISIM_ADMIT_SKIP;
    }
    if (strcmp(text, "stop") != 0) {
        aisim_points_refuse(&p->kept, AISIM_POINT_ADMIT, site, shown(L),
                            "true, 'skip' or 'stop' expected", err);
    }
    return AISIM_ADMIT_STOP;
}

static aisim_admit_answer admit(void *context, const aisim_point_site *site, uint64_t need_blocks,
                                uint64_t free_blocks, aisim_error *err)
{
    l_points *p = context;
    lua_State *L = p->s->L;
    int top = lua_gettop(L);
    uint64_t outer;
    aisim_admit_answer answer = AISIM_ADMIT_STOP;
    if (open(p, AISIM_POINT_ADMIT, site, &outer, err)) {
        push_site(p, site);
        aisim_l_push_view(L, p->s, site->request);
        lua_pushinteger(L, (lua_Integer)need_blocks);
        lua_pushinteger(L, (lua_Integer)free_blocks);
        if (call(p, AISIM_POINT_ADMIT, outer, 5, err)) {
            answer = admit_answer(p, site, err);
        }
    }
    lua_settop(L, top);
    return answer;
}

static uint32_t victim(void *context, const aisim_point_site *site, const aisim_victims *victims,
                       aisim_error *err)
{
    l_points *p = context;
    lua_State *L = p->s->L;
    int top = lua_gettop(L);
    uint64_t outer;
    uint32_t value = 1;
    p->victims = victims;
    if (open(p, AISIM_POINT_VICTIM, site, &outer, err)) {
        push_site(p, site);
        lua_rawgeti(L, p->s->refs, p->view);
        lua_pushnil(L); /* forget what was filled in for the last question */
        while (lua_next(L, -2) != 0) {
            lua_pop(L, 1);
            lua_pushvalue(L, -1);
            lua_pushnil(L);
            lua_rawset(L, -4);
        }
        char expected[64];
        snprintf(expected, sizeof expected, "running requests are 1..%u", victims->n);
        if (call(p, AISIM_POINT_VICTIM, outer, 3, err)) {
            value = whole(p, AISIM_POINT_VICTIM, site, 1, expected, err);
        }
    }
    p->victims = NULL;
    lua_settop(L, top);
    return value - 1;
}

static uint32_t chunk(void *context, const aisim_point_site *site, uint32_t budget,
                      uint32_t remaining, aisim_error *err)
{
    l_points *p = context;
    lua_State *L = p->s->L;
    int top = lua_gettop(L);
    uint64_t outer;
    uint32_t value = 0;
    if (open(p, AISIM_POINT_CHUNK, site, &outer, err)) {
        push_site(p, site);
        aisim_l_push_view(L, p->s, site->request);
        lua_pushinteger(L, budget);
        lua_pushinteger(L, remaining);
        char expected[64];
        snprintf(expected, sizeof expected, "tokens of this chunk are 0..%u",
                 budget < remaining ? budget : remaining);
        if (call(p, AISIM_POINT_CHUNK, outer, 5, err)) {
            value = whole(p, AISIM_POINT_CHUNK, site, 0, expected, err);
        }
    }
    lua_settop(L, top);
    return value;
}

static double evict(void *context, const aisim_point_site *site, const aisim_cached *block,
                    aisim_error *err)
{
    l_points *p = context;
    lua_State *L = p->s->L;
    int top = lua_gettop(L);
    uint64_t outer;
    double value = 0.0;
    if (open(p, AISIM_POINT_EVICT, site, &outer, err)) {
        push_site(p, site);
        aisim_l_push_ms(L, block->age_ns);
        lua_pushinteger(L, block->depth);
        lua_pushinteger(L, block->reuse);
        if (call(p, AISIM_POINT_EVICT, outer, 5, err)) {
            value = number(p, AISIM_POINT_EVICT, site, err);
        }
    }
    lua_settop(L, top);
    return value;
}

/* ---- what victim sees ------------------------------------------------------------------------ */

typedef enum {
    V_ID,
    V_PRIORITY,
    V_PROMPT,
    V_OUTPUT,
    V_GENERATED,
    V_COMPUTED,
    V_BLOCKS,
    V_PREEMPTIONS,
    V_SESSION,
    V_ARRIVAL
} victim_column;

static const char *const victim_columns[] = {
    "id",     "priority",    "prompt_tokens", "output_tokens", "generated", "computed",
    "blocks", "preemptions", "session",       "arrival_ms",    NULL};

static void push_cell(lua_State *L, const aisim_candidate *c, victim_column column)
{
    const aisim_request *r = c->request;
    const lua_Integer values[] = {
        r->id,        r->priority, r->prompt_tokens,       r->output_tokens,
        r->generated, r->computed, (lua_Integer)c->blocks, r->preemptions,
        r->session};
    if (column == V_ARRIVAL) {
        aisim_l_push_ms(L, r->arrival_ns);
    } else {
        lua_pushinteger(L, values[column]);
    }
}

static int unknown_column(lua_State *L, const char *key)
{
    lua_newtable(L);
    for (uint32_t i = 0; victim_columns[i] != NULL; i++) {
        lua_pushboolean(L, 1);
        lua_setfield(L, -2, victim_columns[i]);
    }
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "needs");
    aisim_l_push_hint(L, key, lua_gettop(L));
    return aisim_l_fail(L, "victim: unknown column '%s'%s", key, lua_tostring(L, -1));
}

/* view.n, view.needs, view.COLUMN: filled at the first look. Upvalue 1: the points. */
static int view_index(lua_State *L)
{
    const l_points *p = lua_touserdata(L, lua_upvalueindex(1));
    const char *key = luaL_tolstring(L, 2, NULL);
    const aisim_victims *v = p->victims;
    if (v == NULL) {
        return aisim_l_fail(L, "victim: the view is used after its function returned");
    }
    if (strcmp(key, "n") == 0) {
        lua_pushinteger(L, v->n);
    } else if (strcmp(key, "needs") == 0) {
        if (v->needs == AISIM_NONE) {
            return 0;
        }
        lua_pushinteger(L, (lua_Integer)v->needs + 1);
    } else {
        uint32_t column = 0;
        while (victim_columns[column] != NULL && strcmp(victim_columns[column], key) != 0) {
            column++;
        }
        if (victim_columns[column] == NULL) {
            return unknown_column(L, key);
        }
        lua_createtable(L, (int)v->n, 0);
        for (uint32_t i = 0; i < v->n; i++) {
            push_cell(L, &v->list[i], (victim_column)column);
            lua_rawseti(L, -2, (lua_Integer)i + 1);
        }
    }
    lua_pushvalue(L, 2);
    lua_pushvalue(L, -2);
    lua_rawset(L, 1);
    return 1;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* Remembers where the function on top was written. */
static void note_place(lua_State *L, aisim_l_sim *s, aisim_points *points, aisim_point point)
{
    aisim_l_where_function(L, -1);
    const char *text = lua_tostring(L, -1);
    const char *colon = strrchr(text, ':');
    points->place[point].line = colon == NULL ? 0 : atoi(colon + 1);
    lua_pushlstring(L, text, colon == NULL ? strlen(text) : (size_t)(colon - text));
    points->place[point].file = lua_tostring(L, -1);
    aisim_l_anchor(L, s);
    lua_pop(L, 1);
}

static void make_view(lua_State *L, l_points *p)
{
    lua_newtable(L);
    lua_newtable(L);
    lua_pushlightuserdata(L, p);
    lua_pushcclosure(L, view_index, 1);
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    p->view = aisim_l_anchor(L, p->s);
}

bool aisim_l_points_read(lua_State *L, aisim_l_sim *s, int index, aisim_points *out)
{
    *out = (aisim_points){0};
    bool any = false;
    if (!lua_istable(L, index)) {
        return false;
    }
    l_points *p = lua_newuserdatauv(L, sizeof *p, 0);
    memset(p, 0, sizeof *p);
    p->s = s;
    for (int i = 0; i < AISIM_POINTS_COUNT; i++) {
        p->fn[i] = LUA_NOREF;
        if (lua_getfield(L, index, aisim_point_text((aisim_point)i)) == LUA_TFUNCTION) {
            note_place(L, s, out, (aisim_point)i);
            p->fn[i] = aisim_l_anchor(L, s);
            any = true;
        } else {
            lua_pop(L, 1);
        }
    }
    out->order = p->fn[AISIM_POINT_ORDER] == LUA_NOREF ? NULL : order;
    out->admit = p->fn[AISIM_POINT_ADMIT] == LUA_NOREF ? NULL : admit;
    out->victim = p->fn[AISIM_POINT_VICTIM] == LUA_NOREF ? NULL : victim;
    out->chunk = p->fn[AISIM_POINT_CHUNK] == LUA_NOREF ? NULL : chunk;
    out->evict = p->fn[AISIM_POINT_EVICT] == LUA_NOREF ? NULL : evict;
    out->context = p;
    p->kept = *out;
    make_view(L, p);
    aisim_l_anchor(L, s); /* the userdata */
    return any;
}

/* core.point_names() -> names in documented order */
static int l_point_names(lua_State *L)
{
    lua_createtable(L, AISIM_POINTS_COUNT, 0);
    for (int i = 0; i < AISIM_POINTS_COUNT; i++) {
        lua_pushstring(L, aisim_point_text((aisim_point)i));
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

void aisim_l_points_register(lua_State *L)
{
    static const luaL_Reg functions[] = {{"point_names", l_point_names}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
