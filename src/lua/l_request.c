/* l_request.c - requests as scripts see them: views inside callbacks, handles from sim:submit.
 *
 * One class, two ways to be valid. A *view* carries the serial of the call it was given to and the
 * record's address; it is valid while that call is active. A *handle* (stamp 0) looks its request
 * up by (index, generation) and lives until the request ends. There is one view object per request
 * slot, re-used by every hook of that request, so a view kept in a script still names its own
 * request when the error is raised.
 *
 * tag and deadline are *notes*: Lua tables keyed by request id in the refs table, dropped at the
 * terminal event. */
#include "lua/l_common.h"

#include <string.h>

#include "base/clock.h"
#include "base/map.h"

#define REQUEST "aisim.Request"

typedef struct l_request {
    aisim_l_sim *s;
    const aisim_request *request; /* views only */
    aisim_handle handle;
    uint64_t stamp; /* serial of the call, 0 = handle */
    uint32_t id;
} l_request;

static const char views_key; /* refs: array of views by request slot */

/* ---- creation -------------------------------------------------------------------------------- */

static l_request *new_object(lua_State *L, aisim_l_sim *s)
{
    l_request *r = lua_newuserdatauv(L, sizeof *r, 1);
    memset(r, 0, sizeof *r);
    r->s = s;
    luaL_setmetatable(L, REQUEST);
    aisim_l_push_self(L, s); /* keeps the simulation alive */
    lua_setiuservalue(L, -2, 1);
    return r;
}

void aisim_l_push_view(lua_State *L, aisim_l_sim *s, const aisim_request *request)
{
    aisim_handle handle = aisim_sim_handle(s->sim, request);
    lua_pushvalue(L, s->refs);
    if (lua_rawgetp(L, -1, &views_key) != LUA_TTABLE) {
        lua_pop(L, 1);
        lua_newtable(L);
        lua_pushvalue(L, -1);
        lua_rawsetp(L, -3, &views_key);
    }
    l_request *r = NULL;
    if (lua_rawgeti(L, -1, (lua_Integer)handle.index + 1) == LUA_TUSERDATA) {
        r = lua_touserdata(L, -1);
    }
    if (r == NULL || r->handle.generation != handle.generation) {
        lua_pop(L, 1);
        r = new_object(L, s);
        r->handle = handle;
        r->id = request->id;
        lua_pushvalue(L, -1);
        lua_rawseti(L, -3, (lua_Integer)handle.index + 1);
    }
    r->request = request;
    r->stamp = s->active;
    lua_replace(L, -3);
    lua_pop(L, 1);
}

void aisim_l_push_handle(lua_State *L, aisim_l_sim *s, aisim_handle handle, uint32_t id)
{
    l_request *r = new_object(L, s);
    r->handle = handle;
    r->id = id;
}

/* ---- validity -------------------------------------------------------------------------------- */

static l_request *check(lua_State *L, int arg)
{
    return luaL_checkudata(L, arg, REQUEST);
}

static bool is_live(const l_request *r)
{
    return r->s->sim != NULL && (r->stamp == 0 ? aisim_sim_request(r->s->sim, r->handle) != NULL
                                               : r->stamp == r->s->active);
}

static const aisim_request *resolve(lua_State *L, const l_request *r)
{
    if (r->stamp != 0 && r->stamp == r->s->active) {
        return r->request;
    }
    if (r->stamp != 0) {
        aisim_l_fail(L,
                     "request %d: view used after its hook returned; use req:copy() or keep req.id",
                     (int)r->id);
    }
    const aisim_request *request =
        r->s->sim != NULL ? aisim_sim_request(r->s->sim, r->handle) : NULL;
    if (request == NULL) {
        aisim_l_fail(L, "request %d has finished; copy the fields you need inside the hook",
                     (int)r->id);
    }
    return request;
}

/* ---- fields ---------------------------------------------------------------------------------- */

const char *aisim_l_request_state_text(uint8_t state)
{
    static const char *const texts[] = {"created", "waiting",  "running", "preempted", "remote",
                                        "pending", "reserved", "held",    "done"};
    return state < sizeof texts / sizeof *texts ? texts[state] : "?";
}

#define FIELDS(X)                                                                                  \
    X(id)                                                                                          \
    X(class)                                                                                       \
    X(session)                                                                                     \
    X(turn)                                                                                        \
    X(prompt_tokens)                                                                               \
    X(output_tokens)                                                                               \
    X(generated)                                                                                   \
    X(computed)                                                                                    \
    X(reused_tokens)                                                                               \
    X(host_reused_tokens)                                                                          \
    X(priority)                                                                                    \
    X(arrival_ms)                                                                                  \
    X(first_admit_ms)                                                                              \
    X(first_token_ms)                                                                              \
    X(deadline_ms)                                                                                 \
    X(preemptions)                                                                                 \
    X(worker)                                                                                      \
    X(rank)                                                                                        \
    X(prefill_worker)                                                                              \
    X(state)                                                                                       \
    X(tag)

typedef enum {
    F_NONE,
#define X(name) F_##name,
    FIELDS(X)
#undef X
        F_COUNT
} field;

static void push_time(lua_State *L, int64_t t_ns)
{
    if (t_ns < 0) {
        lua_pushnil(L);
    } else {
        aisim_l_push_ms(L, t_ns);
    }
}

static void push_note(lua_State *L, const aisim_l_sim *s, const char *kind, uint32_t id)
{
    if (!s->has_notes) {
        lua_pushnil(L);
        return;
    }
    aisim_l_push_ref_table(L, s, kind);
    lua_rawgeti(L, -1, id);
    lua_remove(L, -2);
}

/* Of the request itself, else arrival + what its workload says for the class. */
static void push_deadline(lua_State *L, const aisim_l_sim *s, const aisim_request *q)
{
    push_note(L, s, "deadlines", q->id);
    if (!lua_isnil(L, -1) || !s->has_class_deadlines) {
        return;
    }
    aisim_l_push_ref_table(L, s, "class_deadlines");
    if (lua_rawgeti(L, -1, q->class_id) == LUA_TNUMBER) {
        lua_pushnumber(L, aisim_ms_from_ns(q->arrival_ns) + lua_tonumber(L, -1));
    }
}

static void push_field(lua_State *L, aisim_l_sim *s, const aisim_request *q, field f)
{
    aisim_rank_view view;
    switch (f) {
    case F_id:
        lua_pushinteger(L, q->id);
        return;
    case F_class:
        lua_pushstring(L, aisim_sim_class_name(s->sim, q->class_id));
        return;
    case F_session:
        if (q->session == 0) {
            lua_pushnil(L);
        } else {
            lua_pushinteger(L, q->session);
        }
        return;
    case F_turn:
        lua_pushinteger(L, q->turn);
        return;
    case F_prompt_tokens:
        lua_pushinteger(L, q->prompt_tokens);
        return;
    case F_output_tokens:
        lua_pushinteger(L, q->output_tokens);
        return;
    case F_generated:
        lua_pushinteger(L, q->generated);
        return;
    case F_computed:
        lua_pushinteger(L, q->computed);
        return;
    case F_reused_tokens:
        lua_pushinteger(L, q->first_reused);
        return;
    case F_host_reused_tokens:
        lua_pushinteger(L, q->host_reused);
        return;
    case F_priority:
        lua_pushinteger(L, q->priority);
        return;
    case F_arrival_ms:
        push_time(L, q->arrival_ns);
        return;
    case F_first_admit_ms:
        push_time(L, q->first_admit_ns);
        return;
    case F_first_token_ms:
        push_time(L, q->first_token_ns);
        return;
    case F_deadline_ms:
        push_deadline(L, s, q);
        return;
    case F_preemptions:
        lua_pushinteger(L, q->preemptions);
        return;
    case F_worker:
    case F_prefill_worker: {
        uint32_t rank = f == F_worker ? q->rank : aisim_sim_prefill_rank(s->sim, q);
        if (rank == AISIM_NONE) {
            lua_pushnil(L);
        } else {
            aisim_sim_rank(s->sim, rank, &view);
            lua_pushinteger(L, (lua_Integer)view.worker + 1);
        }
        return;
    }
    case F_rank:
        if (q->rank == AISIM_NONE) {
            lua_pushnil(L);
        } else {
            lua_pushinteger(L, (lua_Integer)q->rank + 1);
        }
        return;
    case F_state:
        lua_pushstring(L, aisim_l_request_state_text(q->state));
        return;
    case F_tag:
        push_note(L, s, "tags", q->id);
        return;
    case F_NONE:
    case F_COUNT:
        break;
    }
    lua_pushnil(L);
}

/* Upvalue 1: names table (field number or method); 3: metatable. */
static int request_index(lua_State *L)
{
    l_request *r = lua_touserdata(L, 1);
    if (r == NULL || !lua_getmetatable(L, 1) ||
        lua_topointer(L, -1) != lua_topointer(L, lua_upvalueindex(3))) {
        return luaL_typeerror(L, 1, REQUEST);
    }
    lua_pushvalue(L, 2);
    int type = lua_rawget(L, lua_upvalueindex(1));
    if (type == LUA_TFUNCTION) {
        return 1;
    }
    if (type != LUA_TNUMBER) {
        return aisim_l_unknown_field(L, lua_upvalueindex(1), "request");
    }
    field f = (field)lua_tointeger(L, -1);
    if (r->stamp == 0 && f == F_id) {
        lua_pushinteger(L, r->id);
        return 1;
    }
    if (r->stamp == 0 && f == F_state && !is_live(r)) {
        lua_pushliteral(L, "done");
        return 1;
    }
    push_field(L, r->s, resolve(L, r), f);
    return 1;
}

void aisim_l_set_note(lua_State *L, aisim_l_sim *s, const char *kind, uint32_t id, int value)
{
    if (!s->has_notes) {
        s->has_notes = true;
        aisim_l_hooks_watch_ends(s);
    }
    aisim_l_push_ref_table(L, s, kind);
    lua_pushvalue(L, value);
    lua_rawseti(L, -2, id);
    lua_pop(L, 1);
}

void aisim_l_request_ended(lua_State *L, aisim_l_sim *s, uint32_t id)
{
    static const char *const kinds[] = {"tags", "deadlines"};
    for (int i = 0; i < 2; i++) {
        aisim_l_push_ref_table(L, s, kinds[i]);
        lua_pushnil(L);
        lua_rawseti(L, -2, id);
        lua_pop(L, 1);
    }
}

static int request_newindex(lua_State *L)
{
    l_request *r = check(L, 1);
    const char *key = luaL_checkstring(L, 2);
    const aisim_request *q = resolve(L, r);
    if (strcmp(key, "priority") == 0) {
        int is_integer;
        lua_Integer value = lua_tointegerx(L, 3, &is_integer);
        aisim_l_refuse_in_batch(L, r->s);
        if (!is_integer || value < INT32_MIN || value > INT32_MAX) {
            return aisim_l_fail(L, "request %d: priority must be a whole number, got %s",
                                (int)r->id, aisim_l_push_shown(L, 3));
        }
        aisim_sim_set_priority(r->s->sim, aisim_sim_handle(r->s->sim, q), (int32_t)value);
        return 0;
    }
    if (strcmp(key, "tag") == 0) {
        aisim_l_set_note(L, r->s, "tags", r->id, 3);
        return 0;
    }
    return aisim_l_fail(L, "request: field '%s' cannot be set (only priority and tag can)", key);
}

/* ---- methods --------------------------------------------------------------------------------- */

/* A handle of a finished request: nothing happens (spec/lua-api.md §6, Cancel). */
static int request_cancel(lua_State *L)
{
    l_request *r = check(L, 1);
    aisim_l_refuse_in_batch(L, r->s);
    if (r->stamp != 0) {
        resolve(L, r);
    }
    if (r->s->sim != NULL) {
        aisim_sim_cancel(r->s->sim, r->handle);
    }
    return 0;
}

static int request_copy(lua_State *L)
{
    l_request *r = check(L, 1);
    const aisim_request *q = resolve(L, r);
    static const char *const names[] = {NULL,
#define X(name) #name,
                                        FIELDS(X)
#undef X
    };
    lua_createtable(L, 0, F_COUNT - 1);
    for (int f = F_NONE + 1; f < F_COUNT; f++) {
        push_field(L, r->s, q, (field)f);
        lua_setfield(L, -2, names[f]);
    }
    return 1;
}

static int request_tostring(lua_State *L)
{
    l_request *r = check(L, 1);
    lua_pushfstring(L, "request %d%s", (int)r->id,
                    is_live(r)      ? ""
                    : r->stamp != 0 ? " (stale view)"
                                    : " (finished)");
    return 1;
}

static int request_eq(lua_State *L)
{
    l_request *a = luaL_testudata(L, 1, REQUEST);
    l_request *b = luaL_testudata(L, 2, REQUEST);
    lua_pushboolean(L, a != NULL && b != NULL && a->s == b->s && a->id == b->id);
    return 1;
}

void aisim_l_request_register(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"cancel", request_cancel}, {"copy", request_copy}, {NULL, NULL}};
    static const aisim_l_class class_ = {REQUEST,          methods,          request_index,
                                         request_newindex, request_tostring, NULL};
    aisim_l_class_register(L, &class_);
    luaL_getmetatable(L, REQUEST);
    lua_pushcfunction(L, request_eq);
    lua_setfield(L, -2, "__eq");
    lua_pop(L, 1);
    lua_getfield(L, -1, "methods");
    lua_getfield(L, -1, REQUEST);
#define X(name)                                                                                    \
    lua_pushinteger(L, F_##name);                                                                  \
    lua_setfield(L, -2, #name);
    FIELDS(X)
#undef X
    lua_pop(L, 2);
}
