/* l_handoff.c - the link between prefill and decode workers, and who decides that a request takes
 * it (spec/lua-api.md §4, §7; engine.md §15).
 *
 * The link is said once, by sim:handoff or by kv_transfer in the engine table of a prefill or
 * decode pool; both are the object kv_transfer of the schema. What the model tells (bytes of a
 * token and of a state) is known when all pools are there, so the link is made when the run begins.
 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"
#include "config/emit.h"
#include "config/override.h"
#include "config/resolve.h"
#include "config/resolve_parts.h"
#include "config/schema.h"
#include "lua/l_cluster.h"
#include "lua/l_model.h"
#include "lua/l_targets.h"
#include "lua/l_value.h"

typedef struct aisim_l_handoff {
    aisim_value *given; /* as written; NULL = nobody wrote one */
    char *who;          /* wrote it first */
    char *place;        /* … "file:line: " */
    int decide;         /* refs: function, LUA_NOREF = none */
    int arguments;
    aisim_l_targets *targets; /* NULL: the function does not take them */
} aisim_l_handoff;

static aisim_l_handoff *handoff_of(aisim_l_sim *s)
{
    aisim_l_cluster *c = aisim_l_cluster_of(s);
    if (c->handoff == NULL) {
        c->handoff = aisim_alloc_zero(1, sizeof *c->handoff);
        c->handoff->decide = LUA_NOREF;
    }
    return c->handoff;
}

void aisim_l_handoff_free(aisim_l_cluster *cluster)
{
    if (cluster->handoff != NULL) {
        aisim_value_free(cluster->handoff->given);
        aisim_free(cluster->handoff->who);
        aisim_free(cluster->handoff->place);
        aisim_free(cluster->handoff);
        cluster->handoff = NULL;
    }
}

void aisim_l_handoff_given(lua_State *L, aisim_l_sim *s, const char *who,
                           const aisim_value *transfer)
{
    aisim_l_handoff *h = handoff_of(s);
    if (transfer == NULL) {
        return;
    }
    if (h->given != NULL) {
        aisim_value *before = aisim_schema_resolve(h->given, "kv_transfer");
        aisim_value *now = aisim_schema_resolve(transfer, "kv_transfer");
        bool same = aisim_value_digest(before) == aisim_value_digest(now);
        aisim_value_free(before);
        aisim_value_free(now);
        if (!same) {
            aisim_l_fail(L, "%s: kv_transfer is another one than that of %s; say it once", who,
                         h->who);
        }
        return;
    }
    h->given = aisim_value_copy(transfer);
    h->who = aisim_strdup(who);
    aisim_l_where(L);
    h->place = aisim_strdup(lua_tostring(L, -1));
    lua_pop(L, 1);
}

/* ---- the decider ------------------------------------------------------------------------------
 */

/* decide(req, overlap_blocks, targets, now) -> "local" or "remote" */
static bool decide(void *context, aisim_sim *sim, const aisim_request *request,
                   uint64_t overlap_blocks, const aisim_targets *targets, aisim_error *err)
{
    aisim_l_sim *s = context;
    const aisim_l_handoff *h = s->cluster->handoff;
    if (aisim_l_broken(s)) {
        return false;
    }
    lua_State *L = s->L;
    int top = lua_gettop(L);
    uint64_t outer = aisim_l_begin(s);
    s->site = (aisim_l_site){"decide", "handoff", request, AISIM_NONE, targets->n};
    lua_rawgeti(L, s->refs, h->decide);
    aisim_l_push_view(L, s, request);
    lua_pushinteger(L, (lua_Integer)overlap_blocks);
    if (h->targets != NULL) {
        aisim_l_targets_push(h->targets, request, targets);
    } else {
        lua_pushnil(L);
    }
    aisim_l_push_ms(L, aisim_sim_now(sim));
    bool local = false;
    if (aisim_l_call(s, outer, 4, 1)) {
        const char *word = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
        local = word != NULL && strcmp(word, "local") == 0;
        if (!local && (word == NULL || strcmp(word, "remote") != 0)) {
            lua_pushfstring(L, word != NULL ? "'%s'" : "a %s",
                            word != NULL ? word : luaL_typename(L, -1));
            aisim_l_refuse_answer(s, h->decide, "decide of sim:handoff", "\"local\" or \"remote\"",
                                  request, err);
        }
    } else {
        aisim_fail(err, AISIM_ECALLBACK, "the function decide of sim:handoff failed");
    }
    if (h->targets != NULL) {
        h->targets->request = NULL;
    }
    lua_settop(L, top);
    return local;
}

/* core sim:handoff_(options without decide, decide or nil) */
static int sim_handoff(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 3);
    aisim_error err = {0};
    aisim_value **given = aisim_l_push_slot(L);
    *given = aisim_l_to_value(L, 2, NULL);
    if (aisim_schema_check(*given, "kv_transfer", "handoff: ", "", &err) != AISIM_OK) {
        return aisim_l_raise(L, &err);
    }
    aisim_l_handoff *h = handoff_of(s);
    if (h->who != NULL && strcmp(h->who, "sim:handoff") == 0) {
        return aisim_l_fail(L, "handoff: called twice; there is one link");
    }
    bool bypass = aisim_given(*given, "local_below_tokens") != NULL ||
                  aisim_given(*given, "local_below_usage_ratio") != NULL;
    bool decides = lua_type(L, 3) == LUA_TFUNCTION;
    if (bypass && decides) {
        return aisim_l_fail(L, "handoff: decide takes the place of local_below_tokens and "
                               "local_below_usage_ratio; give one");
    }
    aisim_l_handoff_given(L, s, "sim:handoff", *given);
    if (decides) {
        h->arguments = aisim_l_wanted_arguments(L, 3, 4);
        if (h->arguments > 2) {
            lua_pushnil(L);
            h->targets = aisim_l_targets_new(L, s, "decide", lua_gettop(L), 0);
            lua_pop(L, 1);
        }
        lua_pushvalue(L, 3);
        h->decide = aisim_l_anchor(L, s);
        aisim_sim_decider(s->sim, decide, s);
    }
    return 0;
}

/* ---- the link ---------------------------------------------------------------------------------
 */

/* --set engine.kv_transfer.KEY=VALUE; checked with the pools, which have taken them too. */
static void apply_overrides(lua_State *L, const aisim_l_sim *s, aisim_value *tree)
{
    static const char prefix[] = "engine.kv_transfer.";
    aisim_error err = {0};
    aisim_l_push_ref_table(L, s, "overrides");
    lua_Unsigned n = lua_rawlen(L, -1);
    for (lua_Unsigned i = 1; i <= n; i++) {
        lua_rawgeti(L, -1, (lua_Integer)i);
        lua_getfield(L, -1, "key");
        lua_getfield(L, -2, "value");
        const char *key = lua_tostring(L, -2);
        if (strncmp(key, prefix, sizeof prefix - 1) == 0 &&
            aisim_config_set_in(tree, "kv_transfer", key + sizeof prefix - 1, lua_tostring(L, -1),
                                &err) != AISIM_OK) {
            aisim_l_raise(L, &err);
        }
        lua_pop(L, 3);
    }
    lua_pop(L, 1);
}

static const aisim_l_pool_info *pool_of_role(const aisim_l_cluster *c, aisim_role role)
{
    for (uint32_t i = 0; i < c->pools.len; i++) {
        if (c->pools.data[i].role == role) {
            return &c->pools.data[i];
        }
    }
    return NULL;
}

static aisim_l_machine_facts facts_of(lua_State *L, const aisim_l_sim *s,
                                      const aisim_l_pool_info *pool)
{
    aisim_l_push_refs(L, s);
    lua_rawgeti(L, -1, pool->machine);
    const aisim_l_machine *machine = luaL_checkudata(L, -1, AISIM_L_MACHINE);
    aisim_l_machine_facts facts = aisim_l_machine_facts_of(machine);
    lua_pop(L, 2); /* refs keep it */
    return facts;
}

/* What is transferred is one model's KV. */
static aisim_l_machine_facts common_model(lua_State *L, const aisim_l_sim *s,
                                          const aisim_l_pool_info *prefill,
                                          const aisim_l_pool_info *decode)
{
    aisim_l_machine_facts a = facts_of(L, s, prefill), b = facts_of(L, s, decode);
    if (a.model != NULL && b.model != NULL && strcmp(a.model, b.model) != 0) {
        aisim_l_fail(L,
                     "handoff: pool '%s' runs '%s' and pool '%s' runs '%s'; both ends have one "
                     "model",
                     prefill->name, a.model, decode->name, b.model);
    }
    return a.model != NULL ? a : b;
}

static double number(const aisim_value *tree, const char *key)
{
    return aisim_number_or_auto(tree, key);
}

const aisim_value *aisim_l_handoff_show(lua_State *L, aisim_l_sim *s)
{
    aisim_l_cluster *c = aisim_l_cluster_of(s);
    const aisim_l_pool_info *ends[] = {pool_of_role(c, AISIM_ROLE_PREFILL),
                                       pool_of_role(c, AISIM_ROLE_DECODE)};
    if (ends[0] == NULL || ends[1] == NULL) {
        if (c->handoff != NULL && c->handoff->who != NULL && ends[0] == ends[1]) {
            luaL_error(L, "%s%s: has no effect without pools of role prefill and decode",
                       c->handoff->place, c->handoff->who);
        }
        return NULL; /* one of them alone: the simulation says it */
    }
    aisim_error err = {0};
    aisim_value **given = aisim_l_push_slot(L);
    *given = c->handoff->given != NULL ? aisim_value_copy(c->handoff->given)
                                       : aisim_value_map((aisim_mark){0});
    apply_overrides(L, s, *given);
    if (aisim_schema_check(*given, "kv_transfer", "handoff: ", "", &err) != AISIM_OK) {
        aisim_l_raise(L, &err);
    }
    for (int i = 0; i < 2; i++) {
        aisim_value_put(ends[i]->configuration, "kv_transfer", (aisim_mark){0},
                        aisim_schema_resolve(*given, "kv_transfer"));
    }
    lua_pop(L, 1);
    return aisim_value_get(ends[0]->configuration, "kv_transfer");
}

void aisim_l_handoff_start(lua_State *L, aisim_l_sim *s)
{
    const aisim_l_cluster *c = aisim_l_cluster_of(s);
    const aisim_value *tree = aisim_l_handoff_show(L, s);
    if (tree == NULL) {
        return;
    }
    aisim_l_machine_facts model =
        common_model(L, s, pool_of_role(c, AISIM_ROLE_PREFILL), pool_of_role(c, AISIM_ROLE_DECODE));
    double bytes = number(tree, "bytes_per_token");
    aisim_handoff_config link = {.gb_per_second = number(tree, "bandwidth_gb_per_second"),
                                 .latency_ns = aisim_ns_from_ms(number(tree, "latency_ms")),
                                 .timing = (aisim_handoff_timing)aisim_member(
                                     tree, "timing_mode", "full_prompt|destination_missing"),
                                 .bytes_per_token = bytes > 0 ? bytes : model.model_bytes_per_token,
                                 .state_bytes = model.model_state_bytes,
                                 .local_below_tokens = (uint64_t)number(tree, "local_below_tokens"),
                                 .local_below_usage = number(tree, "local_below_usage_ratio")};
    if (link.gb_per_second > 0 && link.bytes_per_token <= 0) {
        aisim_l_fail(L, "handoff: bandwidth_gb_per_second needs bytes_per_token, or a model that "
                        "tells it");
    }
    aisim_sim_handoff(s->sim, &link);
}

void aisim_l_handoff_register(lua_State *L)
{
    aisim_l_extend(L, "aisim.Sim", (const luaL_Reg[]){{"handoff_", sim_handoff}, {NULL, NULL}});
}
