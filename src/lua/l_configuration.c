/* l_configuration.c - the resolved configuration of a cluster, every default written out: for
 * aisim check, and as a part of every report (spec/config.md). */
#include "config/emit.h"
#include "lua/l_cluster.h"
#include "metrics/results.h"

/* core sim:configuration_(i) -> resolved engine table of the i-th pool as YAML; behind each value
 * where it came from */
static int sim_configuration(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_sim(L, 1);
    const aisim_l_cluster *c = aisim_l_cluster_of(s);
    lua_Integer i = luaL_checkinteger(L, 2);
    aisim_l_handoff_show(L, s);
    luaL_argcheck(L, i >= 1 && i <= (lua_Integer)c->pools.len, 2, "no such pool");
    aisim_text yaml = {0};
    aisim_emit_yaml_origins(c->pools.data[i - 1].configuration, &yaml);
    lua_pushstring(L, aisim_text_get(&yaml));
    aisim_text_free(&yaml);
    return 1;
}

/* ---- in the report --------------------------------------------------------------------------- */

static void put_value(aisim_results *out, uint32_t parent, const char *key,
                      const aisim_value *value)
{
    uint32_t node;
    switch (aisim_value_kind_of(value)) {
    case AISIM_VALUE_NULL:
        aisim_results_null(out, parent, key);
        return;
    case AISIM_VALUE_BOOL:
        aisim_results_bool(out, parent, key, aisim_value_as_bool(value));
        return;
    case AISIM_VALUE_INTEGER:
        if (aisim_value_is_big(value)) {
            aisim_results_uint(out, parent, key, aisim_value_as_unsigned(value));
        } else {
            aisim_results_int(out, parent, key, aisim_value_as_integer(value));
        }
        return;
    case AISIM_VALUE_REAL:
        aisim_results_number(out, parent, key, aisim_value_as_real(value));
        return;
    case AISIM_VALUE_TEXT:
    case AISIM_VALUE_FOREIGN: /* "function" */
        aisim_results_text(out, parent, key, aisim_value_as_text(value));
        return;
    case AISIM_VALUE_LIST:
        node = aisim_results_array(out, parent, key);
        break;
    case AISIM_VALUE_MAP:
        node = aisim_results_object(out, parent, key);
        break;
    default:
        return;
    }
    bool list = aisim_value_kind_of(value) == AISIM_VALUE_LIST;
    for (uint32_t i = 0; i < aisim_value_len(value); i++) {
        put_value(out, node, list ? NULL : aisim_value_key(value, i), aisim_value_at(value, i));
    }
}

void aisim_l_configuration_report(aisim_l_sim *s, aisim_results *out)
{
    const aisim_l_cluster *c = aisim_l_cluster_of(s);
    uint32_t list = aisim_results_array(out, 0, "configuration");
    for (uint32_t i = 0; i < c->pools.len; i++) {
        const aisim_l_pool_info *info = &c->pools.data[i];
        uint32_t pool = aisim_results_object(out, list, NULL);
        aisim_results_text(out, pool, "pool", info->name);
        aisim_results_text(out, pool, "role", aisim_l_role_text(info->role));
        aisim_results_text(out, pool, "router", aisim_sim_router_name(s->sim, i));
        aisim_results_text(out, pool, "timing", info->timing); /* "function": instead of engine's */
        aisim_results_uint(out, pool, "blocks", info->blocks);  /* of one rank, as resolved */
        put_value(out, pool, "engine", info->configuration);
    }
}

void aisim_l_configuration_register(lua_State *L)
{
    aisim_l_extend(L, "aisim.Sim",
                   (const luaL_Reg[]){{"configuration_", sim_configuration}, {NULL, NULL}});
}
