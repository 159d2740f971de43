/* l_targets.c - candidates of a routing decision as columns and as views (spec/lua-api.md §7).
 *
 * `targets` is one Lua table per policy: n and the declared columns are plain fields holding plain
 * arrays, so a policy pays 5 ns per element. C remembers what it wrote and writes only what
 * changed. Columns that were not declared are filled when they are read, through __index; so are
 * the views targets[i].
 *
 * The overlap of a decision is computed only when a policy declares or reads it; then its value for
 * the chosen candidate is reported with request.route. */
#include "lua/l_targets.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
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

static bool is_telemetry(uint32_t column)
{
    return column >= AISIM_L_COL_WAITING && column <= AISIM_L_COL_KV_TOTAL;
}

static bool is_tracked(uint32_t column)
{
    return column == AISIM_L_COL_ACTIVE_PREFILL_TOKENS || column == AISIM_L_COL_ACTIVE_BLOCKS;
}

static bool is_overlap(uint32_t column)
{
    return column >= AISIM_L_COL_OVERLAP && column <= AISIM_L_COL_USABLE_OVERLAP;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void look(aisim_l_targets *t)
{
    if (t->views_decision == t->decision) {
        return;
    }
    t->views_decision = t->decision;
    for (uint32_t i = 0; i < t->n; i++) {
        aisim_sim_rank(t->s->sim, t->ranks[i], &t->views[i]);
    }
}

/* Brings one array up to date from the figures of the ranks, without looking at anything else:
 * the columns that most policies declare. @return false: this column needs more than that */
static bool figures_of(const aisim_l_targets *t, uint32_t column, double *out)
{
    if (t->telemetry_period_ns > 0 && is_telemetry(column)) {
        return false;
    }
    switch ((aisim_l_column_id)column) {
    case AISIM_L_COL_ACTIVE_REQUESTS:
        aisim_sim_figures(t->s->sim, AISIM_FIGURE_ACTIVE_REQUESTS, t->n, t->ranks, out);
        return true;
    case AISIM_L_COL_ACTIVE_BLOCKS:
        aisim_sim_figures(t->s->sim, AISIM_FIGURE_ACTIVE_BLOCKS, t->n, t->ranks, out);
        return true;
    case AISIM_L_COL_WAITING:
        aisim_sim_figures(t->s->sim, AISIM_FIGURE_WAITING, t->n, t->ranks, out);
        return true;
    case AISIM_L_COL_KV_USED:
        aisim_sim_figures(t->s->sim, AISIM_FIGURE_KV_USED, t->n, t->ranks, out);
        return true;
    default:
        return false;
    }
}

static double value_of(aisim_l_targets *t, uint32_t column, uint32_t i)
{
    const aisim_rank_view *now = &t->views[i];
    const aisim_rank_view *seen = now;
    if (t->telemetry_period_ns > 0 && is_telemetry(column) && t->ranks[i] < t->telemetry.len) {
        seen = &t->telemetry.data[t->ranks[i]];
    }
    switch ((aisim_l_column_id)column) {
    case AISIM_L_COL_WORKER:
        return (double)now->worker + 1;
    case AISIM_L_COL_RANK:
        return (double)now->rank_in_worker + 1;
    case AISIM_L_COL_ACTIVE_REQUESTS:
        return (double)now->active_requests;
    case AISIM_L_COL_ACTIVE_PREFILL_TOKENS:
        return (double)now->active_prefill_tokens;
    case AISIM_L_COL_ACTIVE_BLOCKS:
        return (double)now->active_blocks;
    case AISIM_L_COL_WAITING:
        return (double)seen->waiting;
    case AISIM_L_COL_RUNNING:
        return (double)seen->running;
    case AISIM_L_COL_KV_USED:
        return (double)seen->kv_active;
    case AISIM_L_COL_KV_TOTAL:
        return (double)seen->kv_total;
    case AISIM_L_COL_OVERLAP:
        return (double)aisim_sim_overlap_blocks(t->s->sim, t->request, t->ranks[i]);
    case AISIM_L_COL_USABLE_OVERLAP:
        return (double)aisim_sim_usable_blocks(t->s->sim, t->request, t->ranks[i]);
    case AISIM_L_COL_HOST_OVERLAP:
        return (double)aisim_sim_host_blocks(t->s->sim, t->request, t->ranks[i],
                                             AISIM_ROUTER_HOST);
    case AISIM_L_COL_SHARED_OVERLAP:
        return (double)aisim_sim_host_blocks(t->s->sim, t->request, t->ranks[i],
                                             AISIM_ROUTER_SHARED);
    case AISIM_L_COL_BOUND:
        return t->bound != NULL && t->bound_rank == t->ranks[i] ? 1.0 : 0.0;
    case AISIM_L_COL_DISK_OVERLAP: /* there is no such tier */
        return 0.0;
    case AISIM_L_COL_TELEMETRY_AGE:
        return t->telemetry_period_ns > 0
                   ? aisim_ms_from_ns(aisim_sim_now(t->s->sim) - t->telemetry_ns)
                   : 0.0;
    case AISIM_L_COLUMNS:
        break;
    }
    return 0.0;
}

static void push_value(lua_State *L, uint32_t column, double value)
{
    if (column == AISIM_L_COL_BOUND) {
        lua_pushboolean(L, value != 0.0);
    } else if (column == AISIM_L_COL_TELEMETRY_AGE) {
        lua_pushnumber(L, value);
    } else {
        lua_pushinteger(L, (lua_Integer)value);
    }
}

/* Brings the array on top of the stack up to date; touches the rows that changed. */
static void refresh(lua_State *L, aisim_l_targets *t, uint32_t id)
{
    aisim_l_column *column = &t->columns[id];
    if (column->decision == t->decision) {
        return;
    }
    column->decision = t->decision;
    t->overlap_used = t->overlap_used || is_overlap(id);
    bool fast = figures_of(t, id, t->values);
    if (!fast) {
        look(t);
    }
    if (id == AISIM_L_COL_BOUND && t->bound != NULL) {
        t->bound_rank = t->bound(t->bound_context, t->request);
    }
    for (uint32_t i = 0; i < t->n; i++) {
        double value = fast ? t->values[i] : value_of(t, id, i);
        if (i >= column->rows || value != column->last[i]) {
            column->last[i] = value;
            push_value(L, id, value);
            lua_rawseti(L, -2, (lua_Integer)i + 1);
        }
    }
    for (uint32_t i = t->n; i < column->rows; i++) {
        lua_pushnil(L);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    column->rows = t->n;
}

/* ---- decisions ------------------------------------------------------------------------------- */

static void reserve(aisim_l_targets *t, uint32_t n)
{
    if (n <= t->cap) {
        return;
    }
    t->ranks = aisim_realloc(t->ranks, n, sizeof *t->ranks);
    t->views = aisim_realloc(t->views, n, sizeof *t->views);
    t->values = aisim_realloc(t->values, n, sizeof *t->values);
    for (uint32_t c = 0; c < AISIM_L_COLUMNS; c++) {
        t->columns[c].last = aisim_realloc(t->columns[c].last, n, sizeof(double));
    }
    t->cap = n;
}

void aisim_l_targets_push(aisim_l_targets *t, const aisim_request *request, uint32_t n,
                          const uint32_t *ranks)
{
    lua_State *L = t->s->L;
    reserve(t, n);
    memcpy(t->ranks, ranks, n * sizeof *ranks);
    t->request = request;
    t->decision++;
    t->overlap_used = false;
    lua_rawgeti(L, t->s->refs, t->table);
    if (n != t->n) {
        t->n = n;
        lua_pushliteral(L, "n");
        lua_pushinteger(L, (lua_Integer)n);
        lua_rawset(L, -3);
    }
    for (uint32_t c = 0; c < AISIM_L_COLUMNS; c++) {
        if (t->declared & (UINT32_C(1) << c)) {
            lua_rawgeti(L, t->s->refs, t->columns[c].array);
            refresh(L, t, c);
            lua_pop(L, 1);
        }
    }
}

int64_t aisim_l_targets_overlap(aisim_l_targets *t, uint32_t i)
{
    if (!t->overlap_used) {
        return -1;
    }
    const aisim_l_column *column = &t->columns[AISIM_L_COL_OVERLAP];
    return column->decision == t->decision
               ? (int64_t)column->last[i]
               : (int64_t)aisim_sim_overlap_blocks(t->s->sim, t->request, t->ranks[i]);
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
    refresh(L, t, id);
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

/* ---- telemetry ------------------------------------------------------------------------------- */

static void sample(void *context, aisim_sim *sim, int64_t t_ns)
{
    aisim_l_targets *t = context;
    t->telemetry_ns = t_ns;
    t->telemetry.len = 0;
    for (uint32_t rank = 0; rank < aisim_sim_ranks(sim); rank++) {
        aisim_rank_view view;
        aisim_sim_rank(sim, rank, &view);
        aisim_array_push(&t->telemetry, view);
    }
    aisim_sim_timer(sim, t_ns + t->telemetry_period_ns, AISIM_CLASS_TIMER, true, sample, t);
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

static int targets_gc(lua_State *L)
{
    aisim_l_targets *t = luaL_checkudata(L, 1, TARGETS);
    for (uint32_t c = 0; c < AISIM_L_COLUMNS; c++) {
        aisim_free(t->columns[c].last);
        t->columns[c].last = NULL;
    }
    aisim_free(t->ranks);
    aisim_free(t->views);
    aisim_free(t->values);
    t->values = NULL;
    t->ranks = NULL;
    t->views = NULL;
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
    for (uint32_t c = 0; c < AISIM_L_COLUMNS; c++) {
        t->columns[c].array = LUA_NOREF;
    }
    luaL_setmetatable(L, TARGETS);
    lua_newtable(L); /* the object */
    int table = lua_gettop(L);
    if (lua_type(L, columns) == LUA_TTABLE) {
        t->strict = true;
        declare(L, t, columns, table);
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
    t->telemetry_period_ns = telemetry_period_ns;
    if (telemetry_period_ns > 0) {
        aisim_sim_timer(s->sim, aisim_sim_now(s->sim), AISIM_CLASS_TIMER, true, sample, t);
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
