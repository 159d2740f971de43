/* l_targets_columns.c - keeps the columns of `targets` up to date (spec/lua-api.md §7).
 *
 * Idea. C remembers what every array holds and writes only the rows that differ. Most columns are
 * one figure of each rank; the simulation tells which ranks have changed at all since the decision
 * before, and only those are looked at. Columns that cannot differ (the same list of candidates,
 * the same sample of telemetry) are left out. The list itself is copied only when its version says
 * that it is another one.
 *
 * The overlap of a decision is computed only when a policy declares or reads it; then its value for
 * the chosen candidate is reported with request.route.
 *
 * Invariant: column->last[i] is the value in row i + 1 of its array, for i < column->rows; behind
 * them the array is empty. */
#include <string.h>

#include "base/alloc.h"
#include "base/check.h"
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

bool aisim_l_targets_figure(const aisim_l_targets *t, uint32_t column, aisim_figure *figure)
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

/* The value of row i of a column: noted in t->changed if its array holds another one.
 * @return how many rows are noted now */
static inline uint32_t note(aisim_l_targets *t, uint64_t *last, uint32_t i, uint64_t value,
                            uint32_t changes)
{
    uint32_t differs = value != last[i]; /* no branch: it would be guessed wrong half of the time */
    last[i] = value;
    t->changed[changes] = i;
    return changes + differs;
}

/* Looks at a row of a figure. @return as note */
static inline uint32_t compare(aisim_l_targets *t, uint64_t *last, aisim_figure figure, uint32_t i,
                               uint32_t changes)
{
    return note(t, last, i, aisim_sim_figure(t->s->sim, figure, t->ranks[i]), changes);
}

/* Computes a column that is no figure, all rows. @return how many are noted */
static uint32_t compute(aisim_l_targets *t, uint32_t id)
{
    aisim_l_column *column = &t->columns[id];
    uint32_t changes = 0;
    t->overlap_used = t->overlap_used || is_overlap(id);
    if (is_steady(t, id)) {
        return 0;
    }
    column->version = t->version;
    column->sample = t->samples;
    if (id == AISIM_L_COL_BOUND && t->bound != NULL) {
        t->bound_rank = t->bound(t->bound_context, t->request);
    }
    for (uint32_t i = 0; i < t->n; i++) {
        changes = note(t, column->last, i, value_of(t, id, t->ranks[i]), changes);
    }
    return changes;
}

/* Writes the noted rows into the array on top of the stack. */
static void write_rows(lua_State *L, const aisim_l_targets *t, uint32_t id, uint32_t changes)
{
    for (uint32_t k = 0; k < changes; k++) {
        uint32_t i = t->changed[k];
        push_value(L, id, t->columns[id].last[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/* Gives the array on top of the stack, and what is known of it, a row per candidate. */
static void resize(lua_State *L, const aisim_l_targets *t, aisim_l_column *column)
{
    for (uint32_t i = column->rows; i < t->n; i++) {
        column->last[i] = UINT64_MAX; /* no value: a new row will be written */
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
    t->touched = aisim_realloc(t->touched, n, sizeof *t->touched);
    for (uint32_t c = 0; c < AISIM_L_COLUMNS; c++) {
        t->columns[c].last = aisim_realloc(t->columns[c].last, n, sizeof *t->columns[c].last);
    }
    t->cap = n;
}

static void take_rows(aisim_l_targets *t)
{
    lua_State *L = t->s->L;
    lua_rawgeti(L, t->s->refs, t->table);
    lua_pushliteral(L, "n");
    lua_pushinteger(L, (lua_Integer)t->n);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    for (uint32_t k = 0; k < t->n_figures + t->n_others; k++) {
        aisim_l_column *column = &t->columns[t->declared_ids[k]];
        lua_rawgeti(L, t->s->refs, column->array);
        resize(L, t, column);
        lua_pop(L, 1);
    }
}

/* Another list than that of the decision before. */
static void take(aisim_l_targets *t, const aisim_targets *candidates)
{
    uint32_t n = candidates->n;
    reserve(t, n);
    memcpy(t->ranks, candidates->ranks, n * sizeof *t->ranks);
    t->version = candidates->version;
    t->reading = 0;
    if (n != t->n) {
        t->n = n;
        take_rows(t);
    }
}

/* The noted rows of a declared column go to its array. */
static inline void deliver(const aisim_l_targets *t, uint32_t id, uint32_t changes)
{
    if (changes > 0) {
        lua_State *L = t->s->L;
        lua_rawgeti(L, t->s->refs, t->columns[id].array);
        write_rows(L, t, id, changes);
        lua_pop(L, 1);
    }
}

/* Every declared figure is what the rank has. */
static bool is_current(const aisim_l_targets *t)
{
    for (uint32_t k = 0; k < t->n_figures; k++) {
        const aisim_l_column *column = &t->columns[t->declared_ids[k]];
        for (uint32_t i = 0; i < t->n; i++) {
            if (column->last[i] != aisim_sim_figure(t->s->sim, t->figures[k], t->ranks[i])) {
                return false;
            }
        }
    }
    return true;
}

static void update_figures(aisim_l_targets *t)
{
    uint32_t n = aisim_sim_touched(t->s->sim, t->n, t->ranks, &t->reading, t->touched);
    for (uint32_t k = 0; n > 0 && k < t->n_figures; k++) {
        uint32_t id = t->declared_ids[k], changes = 0;
        uint64_t *last = t->columns[id].last;
        for (uint32_t j = 0; j < n; j++) {
            changes = compare(t, last, t->figures[k], t->touched[j], changes);
        }
        deliver(t, id, changes);
    }
    AISIM_ASSERT(is_current(t));
}

void aisim_l_targets_open(aisim_l_targets *t, const aisim_request *request,
                          const aisim_targets *candidates)
{
    if (candidates->version == 0 || candidates->version != t->version) {
        take(t, candidates);
    }
    t->request = request;
    t->decision++;
    t->overlap_used = false;
    if (t->n_figures > 0) {
        update_figures(t);
    }
    for (uint32_t k = t->n_figures; k < t->n_figures + t->n_others; k++) {
        uint32_t id = t->declared_ids[k];
        deliver(t, id, compute(t, id));
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
    bool known =
        (t->declared & (UINT32_C(1) << AISIM_L_COL_OVERLAP)) || column->decision == t->decision;
    for (uint32_t i = 0; known && i < t->n; i++) {
        if (t->ranks[i] == rank) {
            return (int64_t)column->last[i];
        }
    }
    return (int64_t)aisim_sim_overlap_blocks(t->s->sim, t->request, rank);
}

void aisim_l_targets_update(lua_State *L, aisim_l_targets *t, uint32_t id)
{
    aisim_l_column *column = &t->columns[id];
    aisim_figure figure;
    uint32_t changes = 0;
    if (column->decision == t->decision || (t->declared & (UINT32_C(1) << id))) {
        return;
    }
    column->decision = t->decision;
    resize(L, t, column);
    if (aisim_l_targets_figure(t, id, &figure)) {
        for (uint32_t i = 0; i < t->n; i++) {
            changes = compare(t, column->last, figure, i, changes);
        }
    } else {
        changes = compute(t, id);
    }
    write_rows(L, t, id, changes);
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
