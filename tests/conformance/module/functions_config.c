/* functions_config.c - those of src/config, whose headers and those of src/kv use one name twice.
 */
#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "config/resolve.h"
#include "config/schema.h"
#include "config/yaml.h"
#include "functions.h"

static void push_rates(lua_State *L, const double *rates, uint32_t depth)
{
    lua_newtable(L);
    for (uint32_t i = 0; i < depth; i++) {
        lua_pushnumber(L, rates[i]);
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
}

/* rates_from_mean(mean, depth) -> {rate, …}, mean of them (mtp.md §1) */
int functions_rates_from_mean(lua_State *L)
{
    double rates[AISIM_MAX_DRAFTS] = {0};
    lua_Integer depth = luaL_checkinteger(L, 2);
    luaL_argcheck(L, depth >= 1 && depth <= AISIM_MAX_DRAFTS, 2, "depth");
    aisim_rates_from_mean(luaL_checknumber(L, 1), (uint32_t)depth, rates);
    push_rates(L, rates, (uint32_t)depth);
    lua_pushnumber(L, aisim_mean_from_rates(rates, (uint32_t)depth));
    return 2;
}

/* The engine table as the schema and the resolver take it. */
static aisim_status resolve(const char *text, aisim_rank_config *out, aisim_error *err)
{
    aisim_value *engine = NULL;
    aisim_source *source = aisim_source_new(AISIM_ORIGIN_FILE, "vector");
    aisim_status status = aisim_yaml_text(text, strlen(text), source, &engine, err);
    aisim_source_release(source);
    aisim_config_facts facts = {.bytes_per_token = 1};
    aisim_capacity_request capacity;
    if (status == AISIM_OK) {
        status = aisim_schema_check(engine, "engine", "", "", err);
    }
    if (status == AISIM_OK) {
        status = aisim_config_rank(engine, &facts, out, &capacity, err);
    }
    aisim_value_free(engine);
    return status;
}

/* resolved_rates{text of acceptance_rates, depth} -> {rate, …} */
int functions_resolved_rates(lua_State *L)
{
    char text[512];
    snprintf(text, sizeof text,
             "{speculation: {kind: mtp, params: {depth: %d}, acceptance_rates: %s}}",
             (int)luaL_checkinteger(L, 2), luaL_checkstring(L, 1));
    aisim_rank_config config;
    aisim_error err = {0};
    if (resolve(text, &config, &err) != AISIM_OK) {
        return luaL_error(L, "%s", err.text);
    }
    push_rates(L, config.speculation.acceptance_rates, config.speculation.depth);
    return 1;
}
