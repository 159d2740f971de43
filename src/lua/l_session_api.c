/* l_session_api.c - what the body of a session may do: s:call, s:sleep, s:fork, s:join, s:cancel,
 * s:now, s:context.
 *
 * A call that waits records what it waits for and yields; the engine resumes it. Waiting is only
 * possible in the session's own coroutines: in a coroutine of the script's own the yield would end
 * up in the script. */
#include <string.h>

#include "base/map.h"
#include "lua/l_content.h"
#include "lua/l_session.h"
#include "lua/l_submit.h"

typedef struct l_handle { /* of a fork; user value: the simulation */
    uint32_t index, generation;
} l_handle;

static aisim_l_session *check_session(lua_State *L, aisim_l_sim **s)
{
    aisim_l_session *session = luaL_checkudata(L, 1, AISIM_L_SESSION);
    lua_getiuservalue(L, 1, 1);
    *s = aisim_l_check_sim(L, -1);
    lua_pop(L, 1);
    return session;
}

static aisim_l_branch *check_waiting(lua_State *L, aisim_l_sim **s, const char *what)
{
    aisim_l_session *session = check_session(L, s);
    aisim_l_branch *branch = aisim_l_branch_of(L, *s);
    if (branch == NULL || branch->shared != session) {
        aisim_l_fail(L, "%s: only the body of this session and its forks can wait", what);
    }
    return branch;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static int call_again(lua_State *L, int status, lua_KContext context);

/* core s:call_(options) -> answer */
static int session_call(lua_State *L)
{
    aisim_l_sim *s;
    aisim_l_branch *branch = check_waiting(L, &s, "s:call");
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 2);
    aisim_l_session *session = branch->shared;
    aisim_l_session_kind *kind = session->kind;
    if (aisim_pace_holds(&kind->pace)) {
        aisim_l_branch_hold(branch);
        return lua_yieldk(L, 0, 0, call_again);
    }
    aisim_submit submit = {.client = kind->client,
                           .class_id = kind->class_id,
                           .pool = kind->pool,
                           .priority = kind->priority,
                           .session = session->number,
                           .turn = session->turn,
                           .cookie = branch->index};
    aisim_l_read_submit(L, s, 2, &submit);
    lua_getfield(L, 2, "keep");
    branch->keep = lua_isnil(L, -1) || lua_toboolean(L, -1);
    lua_getfield(L, 2, "context");
    branch->context = LUA_NOREF;
    if (luaL_testudata(L, -1, AISIM_L_CONTEXT) != NULL) {
        branch->asked = aisim_l_context_node(L, -1);
        branch->context = aisim_l_anchor(L, s);
    }
    submit.phase = kind->pace.part == AISIM_PACE_WARMUP ? AISIM_PHASE_WARMUP : AISIM_PHASE_PROFILE;
    uint32_t id;
    branch->request = aisim_l_submit(L, s, &submit, 2, "s:call", &id);
    branch->state = AISIM_L_BRANCH_CALLING;
    session->turn++;
    aisim_pace_sent(&kind->pace, (uint64_t)submit.prompt_tokens + submit.output_tokens);
    return lua_yield(L, 0); /* resumed with the answer */
}

/* The barrier has opened: the arguments are still there. */
static int call_again(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    lua_settop(L, 2);
    return session_call(L);
}

/* core s:sleep_(ms) */
static int session_sleep(lua_State *L)
{
    aisim_l_sim *s;
    aisim_l_branch *branch = check_waiting(L, &s, "s:sleep");
    int64_t delay_ns = aisim_l_check_ms(L, 2, "s:sleep");
    aisim_l_branch_sleep(branch, aisim_sim_now(s->sim) + delay_ns);
    return lua_yield(L, 0);
}

static aisim_l_branch *branch_of_handle(lua_State *L, aisim_l_sim *s, int arg, const char *what)
{
    const l_handle *handle = luaL_testudata(L, arg, AISIM_L_BRANCH);
    if (handle == NULL) {
        aisim_l_fail(L, "%s: handle of a fork expected, got %s", what, luaL_typename(L, arg));
    }
    aisim_l_branch *branch = s->sessions->branches.data[handle->index];
    return branch->generation == handle->generation ? branch : NULL;
}

/* Pushes the first result of every handle at 2 .. top. */
static int push_results(lua_State *L, aisim_l_sim *s)
{
    int top = lua_gettop(L);
    luaL_checkstack(L, top, NULL);
    for (int arg = 2; arg <= top; arg++) {
        const aisim_l_branch *branch = branch_of_handle(L, s, arg, "s:join");
        if (branch == NULL || branch->result == LUA_NOREF) {
            lua_pushnil(L);
        } else {
            aisim_l_push_refs(L, s);
            lua_rawgeti(L, -1, branch->result);
            lua_remove(L, -2);
        }
    }
    return top - 1;
}

static int join_done(lua_State *L, int status, lua_KContext context)
{
    (void)status, (void)context;
    aisim_l_sim *s;
    check_session(L, &s);
    return push_results(L, s);
}

/* s:join(h1, h2, …) -> first result of each */
static int session_join(lua_State *L)
{
    aisim_l_sim *s;
    aisim_l_branch *self = check_waiting(L, &s, "s:join");
    int top = lua_gettop(L);
    uint32_t waits_for = 0;
    for (int arg = 2; arg <= top; arg++) {
        aisim_l_branch *branch = branch_of_handle(L, s, arg, "s:join");
        if (branch == NULL || branch->state == AISIM_L_BRANCH_DONE) {
            continue;
        }
        if (branch == self) {
            return aisim_l_fail(L, "s:join: a fork cannot wait for itself");
        }
        if (branch->joined_by == self->index) {
            continue; /* named twice */
        }
        if (branch->joined_by != AISIM_NONE) {
            return aisim_l_fail(L, "s:join: another branch already waits for this fork");
        }
        branch->joined_by = self->index;
        waits_for++;
    }
    if (waits_for == 0) {
        return push_results(L, s);
    }
    self->waits_for = waits_for;
    self->state = AISIM_L_BRANCH_JOINING;
    return lua_yieldk(L, 0, 0, join_done);
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* s:fork(fn, …) -> handle; fn(…) runs beside the caller, from the current time on */
static int session_fork(lua_State *L)
{
    aisim_l_sim *s;
    aisim_l_branch *parent = check_waiting(L, &s, "s:fork");
    if (lua_type(L, 2) != LUA_TFUNCTION) {
        return aisim_l_fail(L, "s:fork: function expected, got %s", luaL_typename(L, 2));
    }
    int top = lua_gettop(L);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    aisim_l_branch *branch = aisim_l_branch_new(L, s, parent);
    for (int arg = 3; arg <= top; arg++) {
        lua_pushvalue(L, arg);
    }
    lua_xmove(L, branch->L, top - 2);
    aisim_l_branch_start(branch);
    l_handle *handle = lua_newuserdatauv(L, sizeof *handle, 1);
    *handle = (l_handle){branch->index, branch->generation};
    luaL_setmetatable(L, AISIM_L_BRANCH);
    aisim_l_push_self(L, s);
    lua_setiuservalue(L, -2, 1);
    return 1;
}

/* s:cancel(h): ends a fork with everything it waits for */
static int session_cancel(lua_State *L)
{
    aisim_l_sim *s;
    check_session(L, &s);
    aisim_l_branch *branch = branch_of_handle(L, s, 2, "s:cancel");
    if (branch == NULL) {
        return 0;
    }
    if (branch == aisim_l_branch_of(L, s)) {
        return aisim_l_fail(L, "s:cancel: a fork cannot cancel itself; return instead");
    }
    aisim_l_branch_cancel(L, branch);
    return 0;
}

static int session_now(lua_State *L)
{
    aisim_l_sim *s;
    check_session(L, &s);
    aisim_l_push_ms(L, aisim_sim_now(s->sim));
    return 1;
}

static int session_context(lua_State *L)
{
    aisim_l_sim *s;
    check_session(L, &s);
    aisim_l_push_context(L, s);
    return 1;
}

/* fields id, class, turn, rng */
static int session_index(lua_State *L)
{
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) == LUA_TFUNCTION) {
        return 1;
    }
    aisim_l_sim *s;
    aisim_l_session *session = check_session(L, &s);
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (strcmp(key, "id") == 0) {
        lua_pushinteger(L, session->number);
    } else if (strcmp(key, "class") == 0) {
        lua_pushstring(L, aisim_sim_class_name(s->sim, session->kind->class_id));
    } else if (strcmp(key, "turn") == 0) {
        lua_pushinteger(L, session->turn);
    } else if (strcmp(key, "rng") == 0) {
        if (lua_getiuservalue(L, 1, 2) == LUA_TNIL) { /* (seed, name of the kind, number) */
            lua_pushfstring(L, "%s/%d", session->kind->name, (int)session->stream);
            aisim_l_push_new_stream(L, aisim_sim_seed(s->sim), lua_tostring(L, -1));
            lua_pushvalue(L, -1);
            lua_setiuservalue(L, 1, 2);
        }
    } else {
        return aisim_l_unknown_field(L, lua_upvalueindex(1), "session");
    }
    return 1;
}

static int session_tostring(lua_State *L)
{
    const aisim_l_session *session = luaL_checkudata(L, 1, AISIM_L_SESSION);
    lua_pushfstring(L, "session %d", (int)session->number);
    return 1;
}

static int branch_tostring(lua_State *L)
{
    luaL_checkudata(L, 1, AISIM_L_BRANCH);
    lua_pushliteral(L, "fork of a session");
    return 1;
}

void aisim_l_session_api_register(lua_State *L)
{
    static const luaL_Reg methods[] = {{"call_", session_call},      {"sleep_", session_sleep},
                                       {"join", session_join},       {"fork", session_fork},
                                       {"cancel", session_cancel},   {"now", session_now},
                                       {"context", session_context}, {NULL, NULL}};
    static const aisim_l_class session_class = {AISIM_L_SESSION,  methods, session_index, NULL,
                                                session_tostring, NULL};
    static const aisim_l_class branch_class = {AISIM_L_BRANCH,  NULL, NULL, NULL,
                                               branch_tostring, NULL};
    aisim_l_class_register(L, &session_class);
    aisim_l_class_register(L, &branch_class);
    lua_getfield(L, -1, "methods");
    lua_getfield(L, -1, AISIM_L_SESSION);
    static const char *const fields[] = {"id", "class", "turn", "rng"};
    for (int i = 0; i < 4; i++) {
        lua_pushboolean(L, 1);
        lua_setfield(L, -2, fields[i]);
    }
    lua_pop(L, 2);
}
