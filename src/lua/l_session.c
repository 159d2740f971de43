/* l_session.c - sessions as coroutines: arrivals, resuming, ends (spec/lua-api.md §5).
 *
 * A *branch* is one coroutine; a session has one for its body and one per fork. A branch is always
 * in exactly one state; what it waits for (a request, a timer, other branches) holds its number and
 * generation, so an answer that comes after its end finds nobody and is dropped. Branches are
 * resumed by the engine only, from the client's terminal callback or from a timer, so their order
 * is that of the events.
 *
 * An error in a body is reported with class, session and time and the traceback of the coroutine;
 * it ends the run. */
#include "lua/l_session.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"
#include "lua/l_cluster.h"
#include "lua/l_content.h"

static aisim_l_sessions *sessions_of(aisim_l_sim *s)
{
    if (s->sessions == NULL) {
        s->sessions = aisim_alloc_zero(1, sizeof *s->sessions);
    }
    return s->sessions;
}

void aisim_l_sessions_free(aisim_l_sim *s)
{
    aisim_l_sessions *all = s->sessions;
    if (all == NULL) {
        return;
    }
    for (uint32_t i = 0; i < all->kinds.len; i++) {
        aisim_pace_deinit(&all->kinds.data[i]->pace);
        aisim_free(all->kinds.data[i]);
    }
    for (uint32_t i = 0; i < all->branches.len; i++) {
        aisim_free(all->branches.data[i]);
    }
    aisim_array_free(&all->kinds);
    aisim_array_free(&all->branches);
    aisim_array_free(&all->unused);
    aisim_free(all);
    s->sessions = NULL;
}

/* ---- branches -------------------------------------------------------------------------------- */

aisim_l_branch *aisim_l_branch_of(lua_State *L, aisim_l_sim *s)
{
    if (s->sessions == NULL) {
        return NULL;
    }
    aisim_l_push_ref_table(L, s, "branches");
    lua_pushthread(L);
    lua_rawget(L, -2);
    lua_Integer index = lua_tointeger(L, -1);
    lua_pop(L, 2);
    return index > 0 ? s->sessions->branches.data[index - 1] : NULL;
}

static aisim_l_branch *take_slot(aisim_l_sim *s)
{
    aisim_l_sessions *all = s->sessions;
    if (all->unused.len > 0) {
        return all->branches.data[all->unused.data[--all->unused.len]];
    }
    aisim_l_branch *branch = aisim_alloc_zero(1, sizeof *branch);
    branch->s = s;
    branch->index = all->branches.len;
    aisim_array_push(&all->branches, branch);
    return branch;
}

aisim_l_branch *aisim_l_branch_new(lua_State *L, aisim_l_sim *s, aisim_l_branch *parent)
{
    aisim_l_branch *branch = take_slot(s);
    uint32_t index = branch->index;
    uint32_t generation = branch->generation;
    *branch = (aisim_l_branch){.s = s,
                               .index = index,
                               .generation = generation,
                               .state = AISIM_L_BRANCH_RUNNING,
                               .unstarted = true,
                               .shared = lua_touserdata(L, -2),
                               .context = LUA_NOREF,
                               .result = LUA_NOREF,
                               .parent = AISIM_NONE,
                               .first_child = AISIM_NONE,
                               .next_sibling = AISIM_NONE,
                               .joined_by = AISIM_NONE};
    if (parent != NULL) {
        branch->parent = parent->index;
        branch->parent_generation = parent->generation;
        branch->next_sibling = parent->first_child;
        parent->first_child = index;
    }
    lua_State *co = lua_newthread(L);
    branch->L = co;
    aisim_l_push_ref_table(L, s, "branches");
    lua_pushvalue(L, -2);
    lua_pushinteger(L, (lua_Integer)index + 1);
    lua_rawset(L, -3);
    lua_pop(L, 1);
    branch->co = aisim_l_anchor(L, s);
    lua_xmove(L, co, 1); /* the function */
    branch->session = aisim_l_anchor(L, s);
    return branch;
}

/* Gives the slot back, and those of its forks that have ended: their handles find another
 * generation. Forks that still run free themselves at their end. */
static void free_branch(lua_State *L, aisim_l_branch *branch)
{
    aisim_l_sim *s = branch->s;
    aisim_l_sessions *all = s->sessions;
    for (uint32_t i = branch->first_child; i != AISIM_NONE;) {
        aisim_l_branch *child = all->branches.data[i];
        i = child->next_sibling;
        if (child->state == AISIM_L_BRANCH_DONE) {
            free_branch(L, child);
        }
    }
    aisim_l_release(L, s, branch->result);
    branch->result = LUA_NOREF;
    branch->first_child = AISIM_NONE;
    branch->state = AISIM_L_BRANCH_FREE;
    branch->generation++;
    aisim_array_push(&all->unused, branch->index);
}

static void drop_coroutine(lua_State *L, aisim_l_branch *branch)
{
    aisim_l_sim *s = branch->s;
    aisim_l_push_refs(L, s);
    lua_rawgeti(L, -1, branch->co);
    aisim_l_push_ref_table(L, s, "branches");
    lua_insert(L, -2);
    lua_pushnil(L);
    lua_rawset(L, -3);
    lua_pop(L, 2);
    aisim_l_release(L, s, branch->co);
    aisim_l_release(L, s, branch->context);
    aisim_l_release(L, s, branch->session);
    branch->co = branch->context = branch->session = LUA_NOREF;
    branch->L = NULL;
}

static void wake_joiner(aisim_l_branch *branch);

static void session_over(void *context, aisim_sim *sim, int64_t t_ns)
{
    (void)sim, (void)t_ns;
    aisim_l_session_kind *kind = context;
    if (!aisim_l_broken(kind->s)) {
        aisim_pace_unit_over(&kind->pace);
    }
}

/* The function of a branch has returned: nresults values lie on its stack. */
static void finished(aisim_l_branch *branch, int nresults)
{
    aisim_l_sim *s = branch->s;
    lua_State *L = s->L;
    if (nresults > 0) {
        lua_settop(branch->L, -nresults); /* keep the first */
        lua_xmove(branch->L, L, 1);
        branch->result = aisim_l_anchor(L, s);
    }
    aisim_l_session_kind *kind = ((const aisim_l_session *)branch->shared)->kind;
    drop_coroutine(L, branch);
    if (branch->parent == AISIM_NONE) {
        free_branch(L, branch);
        if (kind->pace.config.gaps.next == NULL) { /* the next one starts behind this event */
            aisim_sim_timer(s->sim, aisim_sim_now(s->sim), AISIM_CLASS_ARRIVAL, true, session_over,
                            kind);
        }
        return;
    }
    branch->state = AISIM_L_BRANCH_DONE;
    const aisim_l_branch *parent = s->sessions->branches.data[branch->parent];
    if (parent->generation != branch->parent_generation) { /* nobody can ask for the result */
        free_branch(L, branch);
        return;
    }
    wake_joiner(branch);
}

static void report(aisim_l_branch *branch)
{
    aisim_l_sim *s = branch->s;
    lua_State *co = branch->L;
    char kind[64];
    const aisim_l_session *session = branch->shared;
    const char *name = aisim_sim_class_name(s->sim, session->kind->class_id);
    lua_pushfstring(s->L, "session %d%s%s%s", (int)session->number,
                    *name != '\0' ? " (class \"" : "", name, *name != '\0' ? "\")" : "");
    snprintf(kind, sizeof kind, "%s", lua_tostring(s->L, -1));
    lua_pop(s->L, 1);
    s->site = (aisim_l_site){kind, NULL, NULL, AISIM_NONE, 0};
    lua_xmove(co, s->L, 1);
    aisim_l_traceback(s->L, co, s);
    s->site.kind = NULL;
    aisim_l_abort(s, s->L);
}

void aisim_l_branch_resume(aisim_l_branch *branch, int nargs)
{
    aisim_l_sim *s = branch->s;
    if (aisim_l_broken(s)) {
        return;
    }
    branch->state = AISIM_L_BRANCH_RUNNING;
    branch->unstarted = false;
    int nresults = 0;
    s->site.kind = NULL;
    aisim_l_frame frame = {
        .L = branch->L, .kind = "session", .number = branch->shared->number, .sim = s};
    aisim_l_frame_enter(s->limits, &frame);
    aisim_profile *watch = s->profile != NULL ? &s->profile->watch : NULL;
    aisim_part before = aisim_part_enter(watch, AISIM_PART_LUA);
    int64_t begun_ns = watch != NULL ? watch->since_ns : 0;
    int status = lua_resume(branch->L, s->L, nargs, &nresults);
    aisim_part_leave(watch, before);
    if (watch != NULL) {
        aisim_l_profile_add(s->profile, "sessions", branch->shared->kind->name, begun_ns);
    }
    aisim_l_frame_leave(s->limits, &frame);
    if (status == LUA_YIELD) {
        if (branch->state == AISIM_L_BRANCH_RUNNING) {
            lua_pushliteral(branch->L, "coroutine.yield in a session body; use s:call, s:sleep or "
                                       "s:join to wait");
            report(branch);
            return;
        }
        lua_pop(branch->L, nresults);
    } else if (status == LUA_OK) {
        finished(branch, nresults);
    } else {
        report(branch);
    }
}

/* ---- sleeping and starting ------------------------------------------------------------------- */

static void awake(void *context, aisim_sim *sim, int64_t t_ns)
{
    (void)sim, (void)t_ns;
    aisim_l_branch *branch = context;
    branch->timer = 0;
    aisim_l_branch_resume(branch, branch->unstarted ? lua_gettop(branch->L) - 1 : 0);
}

void aisim_l_branch_sleep(aisim_l_branch *branch, int64_t at_ns)
{
    branch->state = AISIM_L_BRANCH_SLEEPING;
    branch->timer = aisim_sim_timer(branch->s->sim, at_ns, AISIM_CLASS_TIMER, false, awake, branch);
}

typedef struct held {
    aisim_l_branch *branch;
    uint32_t generation;
} held;

static void released(void *context, aisim_sim *sim, int64_t t_ns)
{
    (void)sim, (void)t_ns;
    held h = *(held *)context;
    aisim_free(context);
    if (h.branch->generation == h.generation && h.branch->state == AISIM_L_BRANCH_SLEEPING) {
        aisim_l_branch_resume(h.branch, 0);
    }
}

void aisim_l_branch_hold(aisim_l_branch *branch)
{
    held *h = aisim_alloc(1, sizeof *h);
    *h = (held){branch, branch->generation};
    branch->state = AISIM_L_BRANCH_SLEEPING;
    branch->timer = 0;
    aisim_pace_hold(&branch->shared->kind->pace, released, h, aisim_free);
}

void aisim_l_branch_start(aisim_l_branch *branch)
{
    aisim_l_branch_sleep(branch, aisim_sim_now(branch->s->sim));
}

/* The branch that waits for `branch` goes on when it was the last one. */
static void wake_joiner(aisim_l_branch *branch)
{
    if (branch->joined_by == AISIM_NONE) {
        return;
    }
    aisim_l_branch *joiner = branch->s->sessions->branches.data[branch->joined_by];
    branch->joined_by = AISIM_NONE;
    if (joiner->state == AISIM_L_BRANCH_JOINING && --joiner->waits_for == 0) {
        aisim_l_branch_sleep(joiner, aisim_sim_now(branch->s->sim));
    }
}

void aisim_l_branch_cancel(lua_State *L, aisim_l_branch *branch)
{
    aisim_l_sim *s = branch->s;
    if (branch->state == AISIM_L_BRANCH_DONE || branch->state == AISIM_L_BRANCH_FREE) {
        return;
    }
    if (branch->state == AISIM_L_BRANCH_CALLING) {
        aisim_sim_cancel(s->sim, branch->request);
    }
    if (branch->timer != 0) {
        aisim_sim_timer_remove(s->sim, branch->timer);
        branch->timer = 0;
    }
    aisim_l_sessions *all = s->sessions;
    for (uint32_t i = branch->first_child; i != AISIM_NONE;) {
        aisim_l_branch *child = all->branches.data[i];
        i = child->next_sibling;
        aisim_l_branch_cancel(L, child);
    }
    if (!branch->unstarted) {
        aisim_l_frame frame = {
            .L = branch->L, .kind = "session", .number = branch->shared->number, .sim = s};
        aisim_l_frame_enter(s->limits, &frame);
        lua_resetthread(branch->L); /* closes its to-be-closed variables */
        aisim_l_frame_leave(s->limits, &frame);
    }
    drop_coroutine(L, branch);
    branch->state = AISIM_L_BRANCH_DONE;
    branch->cancelled = true;
    wake_joiner(branch);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void set_ms(lua_State *L, const char *key, int64_t from_ns, int64_t to_ns)
{
    if (from_ns >= 0 && to_ns >= 0) {
        aisim_l_push_ms(L, to_ns - from_ns);
        lua_setfield(L, -2, key);
    }
}

/* Gives the answer on top of the stack a metatable that refuses names it can never have. */
static void refuse_other_names(lua_State *L)
{
    static const char key;
    static const char *const names[] = {"id",     "reason",        "status",        "ttft_ms",
                                        "e2e_ms", "prompt_tokens", "output_tokens", "reused_tokens",
                                        "worker", "rank"};
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_newtable(L);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            lua_pushboolean(L, 1);
            lua_setfield(L, -2, names[i]);
        }
        aisim_l_push_strict_index(L, "answer of s:call");
        lua_setfield(L, -2, "__index");
        lua_pushvalue(L, -1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
    }
    lua_setmetatable(L, -2);
}

/* The table r of local r = s:call{…}; stays valid for ever. */
static void push_answer(lua_State *L, const aisim_l_sim *s, const aisim_request *q)
{
    lua_createtable(L, 0, 10);
    refuse_other_names(L);
    lua_pushinteger(L, q->id);
    lua_setfield(L, -2, "id");
    lua_pushstring(L, aisim_end_reason_text((aisim_end_reason)q->end));
    lua_setfield(L, -2, "reason");
    lua_pushstring(L, aisim_l_status_text(q->end));
    lua_setfield(L, -2, "status");
    set_ms(L, "ttft_ms", q->arrival_ns, q->first_token_ns);
    set_ms(L, "e2e_ms", q->arrival_ns,
           q->last_token_ns >= 0 ? q->last_token_ns : aisim_sim_now(s->sim));
    lua_pushinteger(L, q->prompt_tokens);
    lua_setfield(L, -2, "prompt_tokens");
    lua_pushinteger(L, q->generated);
    lua_setfield(L, -2, "output_tokens");
    lua_pushinteger(L, q->first_reused);
    lua_setfield(L, -2, "reused_tokens");
    if (q->rank != AISIM_NONE) {
        aisim_rank_view view;
        aisim_sim_rank(s->sim, q->rank, &view);
        lua_pushinteger(L, (lua_Integer)view.worker + 1);
        lua_setfield(L, -2, "worker");
        lua_pushinteger(L, (lua_Integer)q->rank + 1);
        lua_setfield(L, -2, "rank");
    }
}

static void on_terminal(void *context, aisim_sim *sim, const aisim_request *q)
{
    (void)sim;
    aisim_l_session_kind *kind = context;
    aisim_l_sim *s = kind->s;
    aisim_pace_request_over(&kind->pace, q);
    aisim_l_branch *branch = s->sessions->branches.data[q->cookie];
    aisim_handle handle = aisim_sim_handle(s->sim, q);
    if (branch->state != AISIM_L_BRANCH_CALLING || branch->request.index != handle.index ||
        branch->request.generation != handle.generation || aisim_l_broken(s)) {
        return; /* cancelled meanwhile */
    }
    lua_State *L = s->L;
    if (branch->keep && branch->context != LUA_NOREF) {
        lua_rawgeti(L, s->refs, branch->context);
        aisim_node answered = {q->lease.run, q->prompt_tokens + q->generated};
        aisim_l_context_answer(L, lua_gettop(L), branch->asked, answered);
        lua_pop(L, 1);
    }
    aisim_l_release(L, s, branch->context);
    branch->context = LUA_NOREF;
    push_answer(L, s, q);
    lua_xmove(L, branch->L, 1);
    aisim_l_branch_resume(branch, 1);
}

/* ---- starts ---------------------------------------------------------------------------------- */

static bool start_session(void *context)
{
    aisim_l_session_kind *kind = context;
    aisim_l_sim *s = kind->s;
    if (aisim_l_broken(s)) {
        return false;
    }
    lua_State *L = s->L;
    aisim_l_session *session = lua_newuserdatauv(L, sizeof *session, 2);
    *session = (aisim_l_session){kind, aisim_sim_next_session(s->sim), ++kind->sessions, 0};
    luaL_setmetatable(L, AISIM_L_SESSION);
    aisim_l_push_self(L, s);
    lua_setiuservalue(L, -2, 1);
    lua_pushvalue(L, -1);
    lua_rawgeti(L, s->refs, kind->body);
    aisim_l_branch *branch = aisim_l_branch_new(L, s, NULL);
    lua_xmove(L, branch->L, 1); /* its argument: the session */
    aisim_l_branch_resume(branch, 1);
    return true;
}

static void on_start(void *context, aisim_sim *sim)
{
    (void)sim;
    aisim_pace_begin(&((aisim_l_session_kind *)context)->pace, true);
}

/* core sim:sessions_(options); checked by lua/aisim/workload.lua */
static int sim_sessions(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    aisim_l_sessions *all = sessions_of(s);
    aisim_l_session_kind *kind = aisim_alloc_zero(1, sizeof *kind);
    aisim_l_source *source = aisim_l_source_new(L, s, 2);
    aisim_pace_config pace = aisim_l_read_pace(L, 2, source);
    aisim_error err = {0};
    if (aisim_pace_init(&kind->pace, s->sim, &pace, true, kind, start_session, &err) != AISIM_OK) {
        aisim_free(kind);
        return aisim_l_source_refused(L, source, &err);
    }
    aisim_array_push(&all->kinds, kind);
    kind->s = s;
    kind->name = source->name;
    kind->class_id = aisim_l_class_id(s, aisim_l_read_class(L, 2, s));
    kind->pool = (uint32_t)aisim_l_number_field(L, 2, "pool", 1) - 1;
    kind->priority = (int32_t)aisim_l_number_field(L, 2, "priority", 0);
    kind->body = aisim_l_anchor_field(L, s, 2, "body");
    const aisim_client client = {.context = kind, .terminal = on_terminal, .start = on_start};
    kind->client = aisim_sim_client_add(s->sim, &client);
    return 0;
}

void aisim_l_session_register(lua_State *L)
{
    aisim_l_extend(L, "aisim.Sim", (const luaL_Reg[]){{"sessions_", sim_sessions}, {NULL, NULL}});
    aisim_l_session_api_register(L);
}
