/* l_submit.c - sim:submit{…} (spec/lua-api.md §5). The request gets its number at the call. */
#include "lua/l_submit.h"

#include "base/clock.h"
#include "base/map.h"
#include "lua/l_cluster.h"
#include "lua/l_content.h"

static bool has(lua_State *L, int table, const char *key)
{
    bool found = lua_getfield(L, table, key) != LUA_TNIL;
    if (!found) {
        lua_pop(L, 1);
    }
    return found;
}

static uint32_t read_tokens(lua_State *L, int table, const char *key, bool *given)
{
    uint32_t tokens = 0;
    *given = has(L, table, key);
    if (*given) {
        tokens = aisim_l_check_tokens(L, -1, key);
        lua_pop(L, 1);
    }
    return tokens;
}

static lua_Integer read_integer(lua_State *L, int table, const char *key, lua_Integer absent)
{
    lua_Integer value = absent;
    if (has(L, table, key)) {
        value = lua_tointeger(L, -1);
        lua_pop(L, 1);
    }
    return value;
}

static void read_time(lua_State *L, aisim_l_sim *s, int table, aisim_submit *submit)
{
    submit->at_ns = aisim_sim_now(s->sim);
    if (!has(L, table, "at_ms")) {
        return;
    }
    int64_t at_ns = aisim_l_check_ms(L, lua_gettop(L), "sim:submit: at_ms");
    lua_pop(L, 1);
    if (at_ns < submit->at_ns) {
        char at[40], now[40];
        aisim_l_fail(L, "sim:submit: at_ms = %s is before now (%s ms)",
                     aisim_l_format_ms(at, at_ns), aisim_l_format_ms(now, submit->at_ns));
    }
    submit->at_ns = at_ns;
}

void aisim_l_read_submit(lua_State *L, aisim_l_sim *s, int table, aisim_submit *submit)
{
    table = lua_absindex(L, table);
    if (aisim_sim_pools(s->sim) == 0) {
        aisim_l_fail(L, "the simulation has no pool yet: sim:pool comes before requests");
    }
    read_time(L, s, table, submit);
    bool given;
    submit->output_tokens = read_tokens(L, table, "output_tokens", &given);
    submit->priority = (int32_t)read_integer(L, table, "priority", submit->priority);
    submit->session = (uint32_t)read_integer(L, table, "session", submit->session);
    submit->turn = (uint16_t)read_integer(L, table, "turn", submit->turn);
    if (has(L, table, "class")) {
        submit->class_id = aisim_l_class_id(s, lua_tostring(L, -1));
        lua_pop(L, 1);
    }
    if (has(L, table, "pool")) {
        submit->pool = aisim_l_check_pool(L, s, lua_gettop(L));
        lua_pop(L, 1);
    }
    submit->prompt_tokens = read_tokens(L, table, "prompt_tokens", &given);
    if (!has(L, table, "content") && !has(L, table, "context")) {
        lua_pushnil(L);
    }
    submit->content = aisim_l_make_content(L, s, lua_gettop(L), &submit->prompt_tokens, given);
    lua_pop(L, 1);
}

aisim_handle aisim_l_submit(lua_State *L, aisim_l_sim *s, aisim_submit *submit, int table,
                            const char *what, uint32_t *id)
{
    aisim_error err = {0};
    aisim_handle handle = {0, 0};
    aisim_status status = aisim_sim_submit(s->sim, submit, &handle, &err);
    aisim_l_content_release(s, submit->content);
    if (status != AISIM_OK) {
        aisim_l_fail(L, "%s: %s", what, err.text);
    }
    *id = aisim_sim_request(s->sim, handle)->id;
    if (table == 0) {
        return handle;
    }
    if (has(L, table, "deadline_ms")) { /* relative to the arrival; the field is a virtual time */
        lua_pushnumber(L, aisim_ms_from_ns(submit->at_ns) + lua_tonumber(L, -1));
        aisim_l_set_note(L, s, "deadlines", *id, lua_gettop(L));
        lua_pop(L, 2);
    }
    if (has(L, table, "tag")) {
        aisim_l_set_note(L, s, "tags", *id, lua_gettop(L));
        lua_pop(L, 1);
    }
    return handle;
}

/* core sim:submit_(options) -> handle */
static int sim_submit(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    aisim_submit submit = {.client = AISIM_NO_CLIENT};
    aisim_l_read_submit(L, s, 2, &submit);
    uint32_t id;
    aisim_handle handle = aisim_l_submit(L, s, &submit, 2, "sim:submit", &id);
    aisim_l_push_handle(L, s, handle, id);
    return 1;
}

void aisim_l_submit_register(lua_State *L)
{
    aisim_l_extend(L, "aisim.Sim", (const luaL_Reg[]){{"submit_", sim_submit}, {NULL, NULL}});
}
