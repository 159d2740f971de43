/* l_source.c - a draw may call Lua (distributions and arrivals written as functions), so each one
 * is a protected call. */
#include "lua/l_source.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"
#include "lua/l_cluster.h"

void aisim_l_source_free(void *context)
{
    aisim_l_source *source = context;
    aisim_free(source->name);
    aisim_free(source->place);
    aisim_free(source->level_times);
    aisim_free(source->levels);
    aisim_free(source->more);
    aisim_free(source);
}

bool aisim_l_source_step(aisim_l_source *source, lua_CFunction fn, int nresults, aisim_error *err)
{
    aisim_l_sim *s = source->s;
    if (aisim_l_broken(s)) {
        return false;
    }
    uint64_t outer = aisim_l_begin(s);
    s->site = (aisim_l_site){"workload", source->name, NULL, AISIM_NONE, 0};
    s->place = source->place;
    lua_pushcfunction(s->L, fn);
    lua_pushlightuserdata(s->L, source);
    bool ok = aisim_l_call(s, outer, 1, nresults);
    s->place = NULL;
    if (!ok) {
        aisim_fail(err, AISIM_ECALLBACK, "workload '%s' failed", source->name);
        return false;
    }
    return true;
}

int aisim_l_push_part(lua_State *L, int ref)
{
    lua_rawgeti(L, 2, ref);
    return lua_gettop(L);
}

/* ---- gaps ------------------------------------------------------------------------------------ */

static int step_arrival(lua_State *L)
{
    aisim_l_source *source = lua_touserdata(L, 1);
    aisim_l_push_refs(L, source->s);
    int64_t last = source->cursor.t_ns;
    int arrivals = aisim_l_push_part(L, source->gaps);
    int stream = aisim_l_push_part(L, source->gap_stream);
    if (!aisim_l_next_arrival(L, arrivals, stream, &source->cursor)) {
        return 0;
    }
    lua_pushinteger(L, source->cursor.t_ns - last);
    return 1;
}

static int step_think(lua_State *L)
{
    aisim_l_source *source = lua_touserdata(L, 1);
    aisim_l_push_refs(L, source->s);
    int dist = aisim_l_push_part(L, source->think);
    double ms = aisim_l_draw(L, dist, aisim_l_push_part(L, source->think_stream));
    if (ms < 0) {
        return aisim_l_fail(L, "think_ms: the distribution gave %f; >= 0 expected", ms);
    }
    lua_pushinteger(L, aisim_ns_from_ms(ms));
    return 1;
}

static bool next_gap(aisim_l_source *source, lua_CFunction fn, int64_t *gap_ns, aisim_error *err)
{
    if (!aisim_l_source_step(source, fn, 1, err)) {
        return false;
    }
    bool more = !lua_isnil(source->s->L, -1);
    *gap_ns = lua_tointeger(source->s->L, -1);
    lua_pop(source->s->L, 1);
    return more;
}

static bool next_arrival(void *context, int64_t *gap_ns, aisim_error *err)
{
    return next_gap(context, step_arrival, gap_ns, err);
}

static bool next_think(void *context, int64_t *gap_ns, aisim_error *err)
{
    return next_gap(context, step_think, gap_ns, err);
}

/* ---- quantities ------------------------------------------------------------------------------ */

/* The distribution draws from a scratch stream that stands where the session's stands. */
static int step_draw(lua_State *L)
{
    aisim_l_source *source = lua_touserdata(L, 1);
    aisim_l_push_refs(L, source->s);
    int dist = aisim_l_push_part(L, source->drawn);
    int stream = aisim_l_push_part(L, source->scratch);
    aisim_rng *scratch = luaL_checkudata(L, stream, AISIM_L_RNG);
    *scratch = *source->rng;
    source->value = aisim_l_draw(L, dist, stream);
    *source->rng = *scratch;
    return 0;
}

static bool next_draw(void *context, aisim_rng *rng, double *out, aisim_error *err)
{
    const aisim_l_draw_of *d = context;
    if (d->plain != NULL) {
        *out = aisim_l_draw_plain(d->plain, rng);
        return true; /* the generators check the range */
    }
    d->source->drawn = d->ref;
    d->source->rng = rng;
    bool ok = aisim_l_source_step(d->source, step_draw, 0, err);
    *out = d->source->value;
    return ok;
}

aisim_draw aisim_l_draw_field(lua_State *L, aisim_l_source *source, int table, const char *key,
                              aisim_l_draw_of *keep)
{
    int type = lua_getfield(L, table, key);
    if (type == LUA_TNIL || type == LUA_TNUMBER) {
        double constant = lua_tonumber(L, -1);
        lua_pop(L, 1);
        return AISIM_CONSTANT(constant);
    }
    const void *plain = aisim_l_plain_dist(L, -1);
    *keep = (aisim_l_draw_of){source, aisim_l_anchor(L, source->s), plain};
    return (aisim_draw){.context = keep, .next = next_draw};
}

/* ---- options --------------------------------------------------------------------------------- */

int aisim_l_anchor_field(lua_State *L, aisim_l_sim *s, int table, const char *key)
{
    if (lua_getfield(L, table, key) == LUA_TNIL) {
        lua_pop(L, 1);
        return LUA_NOREF;
    }
    return aisim_l_anchor(L, s);
}

int aisim_l_anchor_stream(lua_State *L, aisim_l_sim *s, const char *name, const char *part)
{
    lua_pushfstring(L, "%s/%s", name, part);
    aisim_l_push_stream(L, s, lua_tostring(L, -1));
    int ref = aisim_l_anchor(L, s);
    lua_pop(L, 1);
    return ref;
}

lua_Number aisim_l_number_field(lua_State *L, int table, const char *key, lua_Number absent)
{
    lua_Number value = lua_getfield(L, table, key) == LUA_TNIL ? absent : lua_tonumber(L, -1);
    lua_pop(L, 1);
    return value;
}

uint64_t aisim_l_name_field(lua_State *L, int table, const char *key)
{
    uint64_t name =
        lua_getfield(L, table, key) == LUA_TNIL ? 0 : aisim_hash_text(lua_tostring(L, -1));
    lua_pop(L, 1);
    return name;
}

aisim_l_source *aisim_l_source_new(lua_State *L, aisim_l_sim *s, int table)
{
    lua_getfield(L, table, "rng");
    const char *name = lua_tostring(L, -1);
    aisim_l_source *source = aisim_alloc_zero(1, sizeof *source);
    source->s = s;
    source->name = aisim_strdup(name);
    aisim_l_where(L);
    source->place = aisim_strdup(lua_tostring(L, -1));
    lua_pop(L, 1);
    source->gaps = aisim_l_anchor_field(L, s, table, "arrivals");
    source->gap_stream = aisim_l_anchor_stream(L, s, name, "arrivals");
    source->think = aisim_l_anchor_field(L, s, table, "think_ms");
    source->think_stream = aisim_l_anchor_stream(L, s, name, "think_ms");
    aisim_l_push_new_stream(L, aisim_sim_seed(s->sim), name);
    source->scratch = aisim_l_anchor(L, s);
    lua_pop(L, 1);
    return source;
}

static void read_levels(lua_State *L, int table, aisim_l_source *source, aisim_pace_config *pace)
{
    if (lua_getfield(L, table, "levels") == LUA_TNIL) {
        lua_pop(L, 1);
        return;
    }
    lua_getfield(L, table, "level_times");
    pace->n_levels = (uint32_t)lua_rawlen(L, -1);
    source->level_times = aisim_alloc(pace->n_levels, sizeof *source->level_times);
    source->levels = aisim_alloc(pace->n_levels, sizeof *source->levels);
    for (uint32_t i = 0; i < pace->n_levels; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i + 1);
        lua_rawgeti(L, -3, (lua_Integer)i + 1);
        source->level_times[i] = aisim_ns_from_ms(lua_tonumber(L, -2));
        source->levels[i] = lua_tonumber(L, -1);
        lua_pop(L, 2);
    }
    lua_pop(L, 2);
    pace->level_times = source->level_times;
    pace->levels = source->levels;
}

static uint64_t limit_field(lua_State *L, int table, const char *key)
{
    lua_getfield(L, table, key);
    uint64_t limit = (uint64_t)lua_tointeger(L, -1); /* 0 when absent */
    lua_pop(L, 1);
    return limit;
}

aisim_pace_config aisim_l_read_pace(lua_State *L, int table, aisim_l_source *source)
{
    lua_Number until = aisim_l_number_field(L, table, "until_ms", -1);
    aisim_pace_config pace = {
        .gaps = {source, source->gaps == LUA_NOREF ? NULL : next_arrival, aisim_l_source_free},
        .think = {source, source->think == LUA_NOREF ? NULL : next_think, NULL},
        .until_ns = until < 0 ? AISIM_NEVER : aisim_ns_from_ms(until),
        .requests = limit_field(L, table, "requests"),
        .units = limit_field(L, table, "sessions"),
        .tokens = limit_field(L, table, "tokens"),
        .warmup_requests = limit_field(L, table, "warmup_requests"),
        .warmup_ns = aisim_ns_from_ms(aisim_l_number_field(L, table, "warmup_ms", 0)),
    };
    lua_getfield(L, table, "warmup_barrier");
    pace.barrier = lua_toboolean(L, -1);
    lua_pop(L, 1);
    read_levels(L, table, source, &pace);
    return pace;
}

const char *aisim_l_read_class(lua_State *L, int table, aisim_l_sim *s)
{
    lua_getfield(L, table, "class");
    const char *name = luaL_optstring(L, -1, "");
    lua_pop(L, 1); /* the table keeps it */
    uint16_t class_id = aisim_l_class_id(s, name);
    lua_Number deadline = aisim_l_number_field(L, table, "deadline_ms", -1);
    if (deadline >= 0) {
        s->has_class_deadlines = true;
        aisim_l_push_ref_table(L, s, "class_deadlines");
        lua_pushnumber(L, deadline);
        lua_rawseti(L, -2, class_id);
        lua_pop(L, 1);
    }
    return name;
}

int aisim_l_source_refused(lua_State *L, aisim_l_source *source, const aisim_error *err)
{
    aisim_l_source_free(source);
    return aisim_l_raise(L, err);
}
