/* l_targets.c - candidates of a routing decision as columns and as views (spec/lua-api.md §7).
 *
 * `targets` is one Lua table per policy: n and the declared columns are plain fields holding plain
 * arrays, so a policy pays 5 ns per element. They are kept up to date from decision to decision
 * (l_targets_columns.c). Columns that were not declared are filled when they are read, through
 * __index; so are the views targets[i]. */
#include "lua/l_targets.h"

#include <string.h>

#include "base/alloc.h"
#include "base/map.h"

#define TARGETS "aisim.Targets"
#define VIEW "aisim.Target"

static const char *const column_names[AISIM_L_COLUMNS] = {"worker",
                                                          "rank",
                                                          "active_requests",
                                                          "active_prefill_tokens",
                                                          "active_blocks",
                                                          "waiting",
                                                          "running",
                                                          "kv_used",
                                                          "kv_total",
                                                          "overlap_blocks",
                                                          "host_overlap_blocks",
                                                          "disk_overlap_blocks",
                                                          "shared_overlap_blocks",
                                                          "usable_overlap_blocks",
                                                          "bound",
                                                          "telemetry_age_ms"};

static bool is_tracked(uint32_t column)
{
    return column == AISIM_L_COL_ACTIVE_PREFILL_TOKENS || column == AISIM_L_COL_ACTIVE_BLOCKS;
}

/* ---- reading what was not declared ----------------------------------------------------------- */

static uint32_t find_column(const char *name)
{
    for (uint32_t c = 0; c < AISIM_L_COLUMNS; c++) {
        if (strcmp(column_names[c], name) == 0) {
            return c;
        }
    }
    return AISIM_L_COLUMNS;
}

static void push_names(lua_State *L)
{
    lua_newtable(L);
    for (uint32_t c = 0; c < AISIM_L_COLUMNS; c++) {
        lua_pushboolean(L, 1);
        lua_setfield(L, -2, column_names[c]);
    }
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "n");
}

static uint32_t check_column(lua_State *L, aisim_l_targets *t, int key)
{
    const char *name = luaL_tolstring(L, key, NULL);
    uint32_t id = find_column(name);
    if (id == AISIM_L_COLUMNS) {
        push_names(L);
        aisim_l_push_hint(L, name, lua_gettop(L));
        aisim_l_fail(L, "targets: unknown column '%s'%s", name, lua_tostring(L, -1));
    }
    if (t->strict && is_tracked(id) && !(t->declared & (UINT32_C(1) << id))) {
        aisim_l_fail(L, "router '%s': column '%s' is not kept; add it to columns", t->name, name);
    }
    if (t->request == NULL) {
        aisim_l_fail(L, "targets: used outside of a routing decision");
    }
    lua_pop(L, 1);
    return id;
}

/* Pushes the array of a column, up to date. */
static void push_column(lua_State *L, aisim_l_targets *t, uint32_t id)
{
    aisim_l_column *column = &t->columns[id];
    if (column->array == LUA_NOREF) {
        lua_newtable(L);
        column->array = aisim_l_anchor(L, t->s);
    }
    aisim_l_push_refs(L, t->s);
    lua_rawgeti(L, -1, column->array);
    lua_remove(L, -2);
    aisim_l_targets_update(L, t, id);
}

typedef struct l_view {
    aisim_l_targets *t;
    uint32_t row;
} l_view;

static int view_index(lua_State *L)
{
    const l_view *view = luaL_checkudata(L, 1, VIEW);
    aisim_l_targets *t = view->t;
    if (view->row >= t->n) {
        return aisim_l_fail(L, "target %d: there are %d candidates", (int)view->row + 1, (int)t->n);
    }
    uint32_t id = check_column(L, t, 2);
    push_column(L, t, id);
    lua_rawgeti(L, -1, (lua_Integer)view->row + 1);
    return 1;
}

/* targets[i] and columns that were not declared. Upvalue 1: the userdata. */
static int targets_index(lua_State *L)
{
    aisim_l_targets *t = lua_touserdata(L, lua_upvalueindex(1));
    if (!lua_isinteger(L, 2)) {
        push_column(L, t, check_column(L, t, 2));
        return 1;
    }
    lua_Integer i = lua_tointeger(L, 2);
    if (i < 1 || i > (lua_Integer)t->n) {
        return 0; /* as behind the end of a list */
    }
    l_view *view = lua_newuserdatauv(L, sizeof *view, 1);
    *view = (l_view){t, (uint32_t)i - 1};
    luaL_setmetatable(L, VIEW);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_setiuservalue(L, -2, 1);
    lua_pushvalue(L, -1);
    lua_rawseti(L, 1, i); /* from now on a plain element */
    return 1;
}

aisim_l_targets *aisim_l_targets_at(lua_State *L, int index)
{
    aisim_l_targets *t = NULL;
    int top = lua_gettop(L);
    if (lua_type(L, index) == LUA_TTABLE && lua_getmetatable(L, index)) {
        lua_pushliteral(L, "__index");
        lua_rawget(L, -2);
        if (lua_tocfunction(L, -1) == targets_index && lua_getupvalue(L, -1, 1) != NULL) {
            t = lua_touserdata(L, -1);
        }
    }
    lua_settop(L, top);
    return t;
}

aisim_l_targets *aisim_l_check_target(lua_State *L, int arg, uint32_t *row)
{
    const l_view *view = luaL_checkudata(L, arg, VIEW);
    if (view->t->request == NULL || view->row >= view->t->n) {
        aisim_l_fail(L, "target %d: used outside of its routing decision", (int)view->row + 1);
    }
    *row = view->row;
    return view->t;
}

void aisim_l_targets_check_load(lua_State *L, const aisim_l_targets *t)
{
    for (uint32_t c = AISIM_L_COL_ACTIVE_PREFILL_TOKENS; c <= AISIM_L_COL_ACTIVE_BLOCKS; c++) {
        if (t->strict && !(t->declared & (UINT32_C(1) << c))) {
            aisim_l_fail(L, "router '%s': column '%s' is not kept; add it to columns", t->name,
                         column_names[c]);
        }
    }
}

static int targets_newindex(lua_State *L)
{
    return aisim_l_fail(L, "targets: field '%s' cannot be set", luaL_tolstring(L, 2, NULL));
}

static int targets_len(lua_State *L)
{
    const aisim_l_targets *t = lua_touserdata(L, lua_upvalueindex(1));
    lua_pushinteger(L, (lua_Integer)t->n);
    return 1;
}

/* ---- making ---------------------------------------------------------------------------------- */

static void declare(lua_State *L, aisim_l_targets *t, int columns, int table)
{
    lua_Unsigned n = lua_rawlen(L, columns);
    for (lua_Unsigned i = 1; i <= n; i++) {
        lua_rawgeti(L, columns, (lua_Integer)i);
        const char *name = luaL_tolstring(L, -1, NULL);
        uint32_t id = find_column(name);
        if (id == AISIM_L_COLUMNS) {
            push_names(L);
            aisim_l_push_hint(L, name, lua_gettop(L));
            aisim_l_fail(L, "router '%s': columns: unknown column '%s'%s", t->name, name,
                         lua_tostring(L, -1));
        }
        lua_pop(L, 2);
        if (t->declared & (UINT32_C(1) << id)) {
            continue;
        }
        t->declared |= UINT32_C(1) << id;
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_setfield(L, table, column_names[id]);
        t->columns[id].array = aisim_l_anchor(L, t->s);
    }
}

/* Declared columns that are figures of ranks, then the others. */
static void sort_declared(aisim_l_targets *t)
{
    aisim_figure figure;
    for (uint32_t c = 0; c < AISIM_L_COLUMNS; c++) {
        if ((t->declared & (UINT32_C(1) << c)) && aisim_l_targets_figure(t, c, &figure)) {
            t->figures[t->n_figures] = figure;
            t->declared_ids[t->n_figures++] = (uint8_t)c;
        }
    }
    for (uint32_t c = 0; c < AISIM_L_COLUMNS; c++) {
        if ((t->declared & (UINT32_C(1) << c)) && !aisim_l_targets_figure(t, c, &figure)) {
            t->declared_ids[t->n_figures + t->n_others++] = (uint8_t)c;
        }
    }
}

static int targets_gc(lua_State *L)
{
    aisim_l_targets *t = luaL_checkudata(L, 1, TARGETS);
    for (uint32_t c = 0; c < AISIM_L_COLUMNS; c++) {
        aisim_free(t->columns[c].last);
        t->columns[c].last = NULL;
    }
    aisim_free(t->ranks);
    aisim_free(t->changed);
    aisim_free(t->touched);
    t->ranks = t->changed = t->touched = NULL;
    t->n = 0;
    aisim_array_free(&t->telemetry);
    return 0;
}

aisim_l_targets *aisim_l_targets_new(lua_State *L, aisim_l_sim *s, const char *name, int columns,
                                     int64_t telemetry_period_ns)
{
    int top = lua_gettop(L);
    aisim_l_targets *t = lua_newuserdatauv(L, sizeof *t, 1);
    memset(t, 0, sizeof *t);
    t->s = s;
    t->name = name;
    t->n = UINT32_MAX; /* so that the first decision writes n */
    t->telemetry_period_ns = telemetry_period_ns;
    for (uint32_t c = 0; c < AISIM_L_COLUMNS; c++) {
        t->columns[c].array = LUA_NOREF;
    }
    luaL_setmetatable(L, TARGETS);
    lua_newtable(L); /* the object */
    int table = lua_gettop(L);
    if (lua_type(L, columns) == LUA_TTABLE) {
        t->strict = true;
        declare(L, t, columns, table);
        sort_declared(t);
    }
    lua_newtable(L); /* its metatable */
    static const luaL_Reg meta[] = {{"__index", targets_index},
                                    {"__newindex", targets_newindex},
                                    {"__len", targets_len},
                                    {NULL, NULL}};
    lua_pushvalue(L, top + 1);
    luaL_setfuncs(L, meta, 1);
    lua_pushliteral(L, TARGETS);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, table);
    lua_pushvalue(L, table);
    t->table = aisim_l_anchor(L, s);
    lua_pushvalue(L, top + 1);
    aisim_l_anchor(L, s);
    if (!t->strict || (t->declared & (UINT32_C(1) << AISIM_L_COL_ACTIVE_PREFILL_TOKENS |
                                      UINT32_C(1) << AISIM_L_COL_ACTIVE_BLOCKS))) {
        aisim_sim_track_load(s->sim);
    }
    if (telemetry_period_ns > 0) {
        aisim_sim_timer(s->sim, aisim_sim_now(s->sim), AISIM_CLASS_TIMER, true,
                        aisim_l_targets_sample, t);
    }
    lua_settop(L, top);
    return t;
}

int aisim_l_targets_costs(lua_State *L, aisim_l_targets *t)
{
    aisim_l_push_refs(L, t->s);
    lua_rawgeti(L, -1, t->table);
    lua_newtable(L);
    lua_pushliteral(L, "cost");
    lua_pushvalue(L, -2);
    lua_rawset(L, -4);
    int ref = aisim_l_anchor(L, t->s);
    lua_pop(L, 2);
    return ref;
}

void aisim_l_push_target(lua_State *L, aisim_l_sim *s, uint32_t rank)
{
    aisim_l_push_ref_table(L, s, "targets");
    if (lua_rawgeti(L, -1, (lua_Integer)rank + 1) == LUA_TNIL) {
        lua_pop(L, 1);
        aisim_rank_view view;
        aisim_sim_rank(s->sim, rank, &view);
        lua_createtable(L, 0, 3);
        lua_pushinteger(L, (lua_Integer)view.worker + 1);
        lua_setfield(L, -2, "worker");
        lua_pushinteger(L, (lua_Integer)view.rank_in_worker + 1);
        lua_setfield(L, -2, "rank");
        lua_pushinteger(L, (lua_Integer)rank + 1);
        lua_setfield(L, -2, "id");
        lua_pushvalue(L, -1);
        lua_rawseti(L, -3, (lua_Integer)rank + 1);
    }
    lua_remove(L, -2);
}

/* core.columns() -> names in documented order */
static int l_columns(lua_State *L)
{
    lua_createtable(L, AISIM_L_COLUMNS, 0);
    for (uint32_t c = 0; c < AISIM_L_COLUMNS; c++) {
        lua_pushstring(L, column_names[c]);
        lua_rawseti(L, -2, (lua_Integer)c + 1);
    }
    return 1;
}

void aisim_l_targets_register(lua_State *L)
{
    static const luaL_Reg functions[] = {{"columns", l_columns}, {NULL, NULL}};
    static const aisim_l_class targets_class = {TARGETS, NULL, NULL, NULL, NULL, targets_gc};
    static const aisim_l_class view_class = {VIEW, NULL, view_index, NULL, NULL, NULL};
    luaL_setfuncs(L, functions, 0);
    aisim_l_class_register(L, &targets_class);
    aisim_l_class_register(L, &view_class);
}
