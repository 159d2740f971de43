/* l_external.c - a connector of the twin made of Lua functions (twin_external.h).
 *
 *     t:set_connector{match = function(serial, device_tokens) return tokens, async end,
 *                     keeps = function(serial) return false end,
 *                     on_cancel_load = "wait", full_load_recompute = "token"}
 *
 * `match` returns nil for "ask again". Whatever goes wrong in a function is raised as soon as the
 * call that led to it is over. */
#include "l_twin.h"

/* Stands in the registry under the address of its twin. */
typedef struct functions {
    lua_State *L;
    int match, keeps, trouble; /* references */
} functions;

/* The function and its results; what it raises is remembered. @return whether there are two
 * results. */
static bool call(functions *f, int n)
{
    if (lua_pcall(f->L, n, 2, 0) == LUA_OK) {
        return true;
    }
    if (f->trouble == LUA_NOREF) {
        f->trouble = luaL_ref(f->L, LUA_REGISTRYINDEX);
    } else {
        lua_pop(f->L, 1);
    }
    return false;
}

static twin_offer match(void *context, uint32_t serial, uint32_t device)
{
    functions *f = context;
    twin_offer offer = {.ask_again = true};
    lua_rawgeti(f->L, LUA_REGISTRYINDEX, f->match);
    lua_pushinteger(f->L, serial);
    lua_pushinteger(f->L, device);
    if (call(f, 2)) {
        lua_Integer tokens = lua_tointeger(f->L, -2);
        offer.ask_again = lua_isnil(f->L, -2);
        offer.tokens = tokens < 0 ? 0 : (uint32_t)tokens;
        offer.async = lua_toboolean(f->L, -1);
        lua_pop(f->L, 2);
    }
    return offer;
}

static bool keeps(void *context, uint32_t serial)
{
    functions *f = context;
    bool answer = false;
    lua_rawgeti(f->L, LUA_REGISTRYINDEX, f->keeps);
    lua_pushinteger(f->L, serial);
    if (call(f, 1)) {
        answer = lua_toboolean(f->L, -2);
        lua_pop(f->L, 2);
    }
    return answer;
}

static functions *functions_of(lua_State *L, const twin *t)
{
    lua_rawgetp(L, LUA_REGISTRYINDEX, t);
    functions *f = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return f;
}

void twin_raise_connector(lua_State *L, twin *t)
{
    functions *f = functions_of(L, t);
    if (f != NULL && f->trouble != LUA_NOREF) {
        lua_rawgeti(L, LUA_REGISTRYINDEX, f->trouble);
        luaL_unref(L, LUA_REGISTRYINDEX, f->trouble);
        f->trouble = LUA_NOREF;
        lua_error(L);
    }
}

void twin_forget_connector(lua_State *L, twin *t)
{
    functions *f = t == NULL ? NULL : functions_of(L, t);
    if (f != NULL) {
        luaL_unref(L, LUA_REGISTRYINDEX, f->match);
        luaL_unref(L, LUA_REGISTRYINDEX, f->keeps);
        luaL_unref(L, LUA_REGISTRYINDEX, f->trouble);
        lua_pushnil(L);
        lua_rawsetp(L, LUA_REGISTRYINDEX, t);
    }
}

/* table[key] is the second of two words. */
static bool second(lua_State *L, const char *key, const char *const words[])
{
    lua_getfield(L, 2, key);
    int choice = lua_isnil(L, -1) ? 0 : luaL_checkoption(L, -1, NULL, words);
    lua_pop(L, 1);
    return choice == 1;
}

static int reference(lua_State *L, const char *key)
{
    if (lua_getfield(L, 2, key) == LUA_TNIL) {
        lua_pop(L, 1);
        return LUA_NOREF;
    }
    luaL_checktype(L, -1, LUA_TFUNCTION);
    return luaL_ref(L, LUA_REGISTRYINDEX);
}

static int l_set_connector(lua_State *L)
{
    static const char *const cancels[] = {"wait", "drop", NULL}; /* R24 */
    static const char *const full[] = {"token", "block", NULL};  /* R22 */
    twin *t = twin_check(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    luaL_argcheck(L, t->host == NULL && !t->stateful && t->requests.len == 0, 1,
                  "a connector needs a twin without host tier, state cache and requests");
    twin_connector connector = {.drop_cancelled = second(L, "on_cancel_load", cancels),
                                .whole_block = second(L, "full_load_recompute", full)};
    twin_forget_connector(L, t);
    functions *f = lua_newuserdatauv(L, sizeof *f, 0);
    *f = (functions){.L = L, .match = LUA_NOREF, .keeps = LUA_NOREF, .trouble = LUA_NOREF};
    lua_rawsetp(L, LUA_REGISTRYINDEX, t);
    f->match = reference(L, "match");
    f->keeps = reference(L, "keeps");
    luaL_argcheck(L, f->match != LUA_NOREF, 2, "match is missing");
    connector.context = f;
    connector.match = match;
    connector.keeps = f->keeps == LUA_NOREF ? NULL : keeps;
    twin_set_connector(t, &connector);
    return 0;
}

/* received(serial), let_go(serial), preempt(id) -> whether anything happened */
static int answer(lua_State *L, bool (*function)(twin *, uint32_t))
{
    twin *t = twin_check(L);
    lua_Integer number = luaL_checkinteger(L, 2);
    luaL_argcheck(L, number >= 0 && number < TWIN_NONE, 2, "out of range");
    lua_pushboolean(L, function(t, (uint32_t)number));
    twin_raise_connector(L, t);
    return 1;
}

static int l_received(lua_State *L)
{
    return answer(L, twin_received);
}

static int l_let_go(lua_State *L)
{
    return answer(L, twin_let_go);
}

static int l_preempt(lua_State *L)
{
    return answer(L, twin_preempt_now);
}

const luaL_Reg twin_external_methods[] = {
    {"set_connector", l_set_connector},
    {"received", l_received},
    {"let_go", l_let_go},
    {"preempt", l_preempt},
    {NULL, NULL},
};
