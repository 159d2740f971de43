/* l_targets_columns.c - keeps the columns of `targets` up to date (spec/lua-api.md §7).
 *
 * Idea. C remembers what every array holds and writes only the rows that differ. Most columns are
 * one figure of each rank, which the simulation compares with what was seen; those that cannot
 * differ (the same list of candidates, the same sample of telemetry) are not looked at. The list
 * itself is copied only when its version says that it is another one.
 *
 * The overlap of a decision is computed only when a policy declares or reads it; then its value for
 * the chosen candidate is reported with request.route.
 *
 * Invariant: column->last[i] is the value in row i + 1 of its array, for i < column->rows; behind
 * them the array is empty. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"
#include "lua/l_targets.h"

static bool is_telemetry(uint32_t column)
{
    return column >= AISIM_L_COL_WAITING && column <= AISIM_L_COL_KV_TOTAL;
}

static bool is_overlap(uint32_t column)
{
    return column >= AISIM_L_COL_OVERLAP && column <= AISIM_L_COL_USABLE_OVERLAP;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Columns that are one figure of each rank as it is now. */
static bool is_figure(const aisim_l_targets *t, uint32_t column, aisim_figure *figure)
{
    static const aisim_figure figures[] = {
        [AISIM_L_COL_ACTIVE_REQUESTS] = AISIM_FIGURE_ACTIVE_REQUESTS,
        [AISIM_L_COL_ACTIVE_PREFILL_TOKENS] = AISIM_FIGURE_ACTIVE_PREFILL_TOKENS,
        [AISIM_L_COL_ACTIVE_BLOCKS] = AISIM_FIGURE_ACTIVE_BLOCKS,
        [AISIM_L_COL_WAITING] = AISIM_FIGURE_WAITING,
        [AISIM_L_COL_RUNNING] = AISIM_FIGURE_RUNNING,
        [AISIM_L_COL_KV_USED] = AISIM_FIGURE_KV_USED,
        [AISIM_L_COL_KV_TOTAL] = AISIM_FIGURE_KV_TOTAL};
    if (column < AISIM_L_COL_ACTIVE_REQUESTS || column > AISIM_L_COL_KV_TOTAL ||
        (t->telemetry_period_ns > 0 && is_telemetry(column))) {
        return false;
    }
    *figure = figures[column];
    return true;
}

/* The last sample knows every candidate: the list is ascending. */
static bool is_sampled(const aisim_l_targets *t)
{
    return t->n == 0 || t->ranks[t->n - 1] < t->telemetry.len;
}

/* The column, filled for this list of candidates before, cannot differ now. */
static bool is_steady(const aisim_l_targets *t, uint32_t column)
{
    const aisim_l_column *c = &t->columns[column];
    if (t->version == 0 || c->version != t->version) {
        return false;
    }
    if (is_telemetry(column)) { /* with a period, or it would be a figure */
        return c->sample == t->samples && is_sampled(t);
    }
    return column == AISIM_L_COL_WORKER || column == AISIM_L_COL_RANK ||
           column == AISIM_L_COL_DISK_OVERLAP;
}

/* Telemetry of a rank: of the last sample, or, when it was not there yet, as it is now. */
static uint64_t seen_of(const aisim_l_targets *t, uint32_t column, uint32_t rank)
{
    aisim_rank_view now;
    const aisim_rank_view *seen = &now;
    if (rank < t->telemetry.len) {
        seen = &t->telemetry.data[rank];
    } else {
        aisim_sim_rank(t->s->sim, rank, &now);
    }
    return column == AISIM_L_COL_WAITING   ? seen->waiting
           : column == AISIM_L_COL_RUNNING ? seen->running
           : column == AISIM_L_COL_KV_USED ? seen->kv_active
                                           : seen->kv_total;
}

static uint64_t place_of(const aisim_l_targets *t, uint32_t column, uint32_t rank)
{
    aisim_rank_view view;
    aisim_sim_rank(t->s->sim, rank, &view);
    return (column == AISIM_L_COL_WORKER ? view.worker : view.rank_in_worker) + UINT64_C(1);
}

/* Of a column that is no figure. */
static uint64_t value_of(const aisim_l_targets *t, uint32_t column, uint32_t rank)
{
    aisim_sim *sim = t->s->sim;
    switch ((aisim_l_column_id)column) {
    case AISIM_L_COL_WORKER:
    case AISIM_L_COL_RANK:
        return place_of(t, column, rank);
    case AISIM_L_COL_WAITING:
    case AISIM_L_COL_RUNNING:
    case AISIM_L_COL_KV_USED:
    case AISIM_L_COL_KV_TOTAL:
        return seen_of(t, column, rank);
    case AISIM_L_COL_OVERLAP:
        return aisim_sim_overlap_blocks(sim, t->request, rank);
    case AISIM_L_COL_USABLE_OVERLAP:
        return aisim_sim_usable_blocks(sim, t->request, rank);
    case AISIM_L_COL_HOST_OVERLAP:
        return aisim_sim_host_blocks(sim, t->request, rank, AISIM_ROUTER_HOST);
    case AISIM_L_COL_SHARED_OVERLAP:
        return aisim_sim_host_blocks(sim, t->request, rank, AISIM_ROUTER_SHARED);
    case AISIM_L_COL_BOUND:
        return t->bound != NULL && t->bound_rank == rank;
    case AISIM_L_COL_TELEMETRY_AGE:
        return t->telemetry_period_ns > 0 ? (uint64_t)(aisim_sim_now(sim) - t->telemetry_ns) : 0;
    case AISIM_L_COL_DISK_OVERLAP: /* there is no such tier */
    case AISIM_L_COL_ACTIVE_REQUESTS:
    case AISIM_L_COL_ACTIVE_PREFILL_TOKENS:
    case AISIM_L_COL_ACTIVE_BLOCKS:
    case AISIM_L_COLUMNS:
        break;
    }
    return 0;
}

static void push_value(lua_State *L, uint32_t column, uint64_t value)
{
    if (column == AISIM_L_COL_BOUND) {
        lua_pushboolean(L, value != 0);
    } else if (column == AISIM_L_COL_TELEMETRY_AGE) {
        lua_pushnumber(L, aisim_ms_from_ns((int64_t)value));
    } else {
        lua_pushinteger(L, (lua_Integer)value);
    }
}

/* ---- columns --------------------------------------------------------------------------------- */

/* Computes a column whose values nobody keeps. @return the number of rows in t->changed */
static uint32_t compute(aisim_l_targets *t, uint32_t id)
{
    uint64_t *last = t->columns[id].last;
    uint32_t changes = 0;
    t->overlap_used = t->overlap_used || is_overlap(id);
    if (id == AISIM_L_COL_BOUND && t->bound != NULL) {
        t->bound_rank = t->bound(t->bound_context, t->request);
    }
    for (uint32_t i = 0; i < t->n; i++) {
        uint64_t value = value_of(t, id, t->ranks[i]);
        if (value != last[i]) {
            last[i] = value;
            t->changed[changes++] = i;
        }
    }
    return changes;
}

/* Finds the rows of a column that differ from what its array holds: the first `changes` of
 * t->changed. @return the array has to be written */
static bool look(aisim_l_targets *t, uint32_t id, uint32_t *changes)
{
    aisim_l_column *column = &t->columns[id];
    aisim_figure figure;
    *changes = 0;
    if (column->decision == t->decision) {
        return false;
    }
    column->decision = t->decision;
    for (uint32_t i = column->rows; i < t->n; i++) {
        column->last[i] = UINT64_MAX; /* no value: a new row is written */
    }
    if (is_figure(t, id, &figure)) {
        *changes =
            aisim_sim_figure_changes(t->s->sim, figure, t->n, t->ranks, column->last, t->changed);
    } else if (!is_steady(t, id)) {
        *changes = compute(t, id);
        column->version = t->version;
        column->sample = t->samples;
    }
    return *changes > 0 || column->rows > t->n;
}

/* Writes the changed rows into the array on top of the stack. */
static void write_rows(lua_State *L, aisim_l_targets *t, uint32_t id, uint32_t changes)
{
    aisim_l_column *column = &t->columns[id];
    for (uint32_t k = 0; k < changes; k++) {
        uint32_t i = t->changed[k];
        push_value(L, id, column->last[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
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
    t->changed = aisim_realloc(t->changed, n, sizeof *t->changed);
    for (uint32_t c = 0; c < AISIM_L_COLUMNS; c++) {
        t->columns[c].last = aisim_realloc(t->columns[c].last, n, sizeof *t->columns[c].last);
    }
    t->cap = n;
}

/* Another list than that of the decision before. */
static void take(aisim_l_targets *t, const aisim_targets *candidates)
{
    uint32_t n = candidates->n;
    reserve(t, n);
    memcpy(t->ranks, candidates->ranks, n * sizeof *t->ranks);
    t->version = candidates->version;
    if (n != t->n) {
        lua_State *L = t->s->L;
        t->n = n;
        lua_rawgeti(L, t->s->refs, t->table);
        lua_pushliteral(L, "n");
        lua_pushinteger(L, (lua_Integer)n);
        lua_rawset(L, -3);
        lua_pop(L, 1);
    }
}

void aisim_l_targets_open(aisim_l_targets *t, const aisim_request *request,
                          const aisim_targets *candidates)
{
    lua_State *L = t->s->L;
    if (candidates->version == 0 || candidates->version != t->version) {
        take(t, candidates);
    }
    t->request = request;
    t->decision++;
    t->overlap_used = false;
    for (uint32_t k = 0; k < t->n_declared; k++) {
        uint32_t id = t->declared_ids[k];
        uint32_t changes;
        if (look(t, id, &changes)) {
            lua_rawgeti(L, t->s->refs, t->columns[id].array);
            write_rows(L, t, id, changes);
            lua_pop(L, 1);
        }
    }
}

void aisim_l_targets_push(aisim_l_targets *t, const aisim_request *request,
                          const aisim_targets *candidates)
{
    aisim_l_targets_open(t, request, candidates);
    lua_rawgeti(t->s->L, t->s->refs, t->table);
}

int64_t aisim_l_targets_overlap(aisim_l_targets *t, uint32_t rank)
{
    if (!t->overlap_used) {
        return -1;
    }
    const aisim_l_column *column = &t->columns[AISIM_L_COL_OVERLAP];
    for (uint32_t i = 0; column->decision == t->decision && i < t->n; i++) {
        if (t->ranks[i] == rank) {
            return (int64_t)column->last[i];
        }
    }
    return (int64_t)aisim_sim_overlap_blocks(t->s->sim, t->request, rank);
}

void aisim_l_targets_update(lua_State *L, aisim_l_targets *t, uint32_t id)
{
    uint32_t changes;
    if (look(t, id, &changes)) {
        write_rows(L, t, id, changes);
    }
}

/* ---- telemetry ------------------------------------------------------------------------------- */

void aisim_l_targets_sample(void *context, aisim_sim *sim, int64_t t_ns)
{
    aisim_l_targets *t = context;
    t->telemetry_ns = t_ns;
    t->samples++;
    t->telemetry.len = 0;
    for (uint32_t rank = 0; rank < aisim_sim_ranks(sim); rank++) {
        aisim_rank_view view;
        aisim_sim_rank(sim, rank, &view);
        aisim_array_push(&t->telemetry, view);
    }
    aisim_sim_timer(sim, t_ns + t->telemetry_period_ns, AISIM_CLASS_TIMER, true,
                    aisim_l_targets_sample, t);
}
