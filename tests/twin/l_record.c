/* l_record.c - passes and reading, for Lua. */
#include "l_twin.h"

/* --- passes ----------------------------------------------------------------------------------- */

static void put(lua_State *L, const char *key, uint32_t n)
{
    if (n == TWIN_NONE) {
        lua_pushnil(L);
    } else {
        lua_pushinteger(L, n);
    }
    lua_setfield(L, -2, key);
}

static void put_flag(lua_State *L, const char *key, bool on)
{
    lua_pushboolean(L, on);
    lua_setfield(L, -2, key);
}

static void push_items(lua_State *L, const twin_record *record)
{
    lua_createtable(L, (int)record->n_items, 0);
    for (uint32_t i = 0; i < record->n_items; i++) {
        const twin_item *item = &record->items[i];
        lua_createtable(L, 0, 12);
        put(L, "id", item->id);
        put(L, "serial", item->serial);
        put(L, "tokens", item->tokens);
        put(L, "prefix", item->prefix);
        put(L, "chunk", item->chunk);
        put(L, "generated", item->generated);
        put(L, "recomputed", item->recomputed);
        put(L, "drafts", item->drafts);
        put(L, "known", item->known);
        put(L, "slots", item->slots);
        put_flag(L, "admitted", item->admitted);
        if (item->admitted) {
            put(L, "reused", item->reused);
        }
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "items");
}

static void push_results(lua_State *L, const twin_record *record)
{
    lua_createtable(L, (int)record->n_preempted, 0);
    for (uint32_t i = 0; i < record->n_preempted; i++) {
        lua_createtable(L, 0, 2);
        put(L, "id", record->preempted[i].id);
        put(L, "computed", record->preempted[i].value);
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "preempted");
    lua_createtable(L, (int)record->n_emitted, 0);
    for (uint32_t i = 0; i < record->n_emitted; i++) {
        const twin_emitted *emitted = &record->emitted[i];
        lua_createtable(L, 0, 6);
        put(L, "id", emitted->id);
        put(L, "serial", emitted->serial);
        put(L, "tokens", emitted->tokens);
        put(L, "accepted", emitted->accepted);
        put(L, "verified", emitted->verified);
        put_flag(L, "forward", emitted->forward);
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "emitted");
    lua_createtable(L, (int)record->n_finished, 0);
    for (uint32_t i = 0; i < record->n_finished; i++) {
        lua_createtable(L, 0, 2);
        put(L, "id", record->finished[i].id);
        lua_pushstring(L, twin_reason_name((twin_reason)record->finished[i].value));
        lua_setfield(L, -2, "reason");
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "finished");
}

static void push_name(lua_State *L, twin_name name)
{
    lua_createtable(L, 0, 2);
    put(L, "id", name.id);
    put(L, "index", name.index);
}

static void push_blocks(lua_State *L, const twin_record *record)
{
    lua_createtable(L, (int)record->n_evicted, 0);
    for (uint32_t i = 0; i < record->n_evicted; i++) {
        push_name(L, record->evicted[i]);
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "evicted");
    lua_createtable(L, (int)record->n_events, 0);
    for (uint32_t i = 0; i < record->n_events; i++) {
        const twin_event *event = &record->events[i];
        lua_createtable(L, 0, 3);
        put_flag(L, "stored", event->stored);
        if (event->has_parent) {
            push_name(L, event->parent);
            lua_setfield(L, -2, "parent");
        }
        lua_createtable(L, (int)event->len, 0);
        for (uint32_t j = 0; j < event->len; j++) {
            push_name(L, record->names[event->first + j]);
            lua_seti(L, -2, (lua_Integer)j + 1);
        }
        lua_setfield(L, -2, "blocks");
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "events");
}

static int push_record(lua_State *L, twin *t)
{
    const twin_record *record = twin_last(t);
    luaL_checkstack(L, 12, NULL);
    lua_createtable(L, 0, 12);
    lua_pushinteger(L, (lua_Integer)record->pass);
    lua_setfield(L, -2, "pass");
    put(L, "batch", record->batch);
    put(L, "budget_left", record->budget_left);
    put_flag(L, "deferred", record->deferred);
    put_flag(L, "changed", record->changed);
    push_items(L, record);
    push_results(L, record);
    push_blocks(L, record);
    return 1;
}

static int l_record(lua_State *L)
{
    return push_record(L, twin_check(L));
}

static int l_plan(lua_State *L)
{
    twin *t = twin_check(L);
    lua_pushinteger(L, twin_plan(t, lua_toboolean(L, 2)));
#ifndef AISIM_ENGINE_DOUBLE
    twin_raise_connector(L, t);
#endif
    return 1;
}

/* complete(batch [, {{serial =, tokens = n | ids = {…}, drafts =}, …}]) */
static int l_complete(lua_State *L)
{
    twin *t = twin_check(L);
    uint32_t batch = (uint32_t)luaL_checkinteger(L, 2);
#ifndef AISIM_ENGINE_DOUBLE
    luaL_argcheck(L, twin_batch_find(t, batch) != NULL, 2, "no such batch");
#endif
    if (lua_isnoneornil(L, 3)) {
        twin_complete(t, batch, NULL, 0);
        return push_record(L, t);
    }
    luaL_checktype(L, 3, LUA_TTABLE);
    uint32_t n = (uint32_t)lua_rawlen(L, 3);
    luaL_checkstack(L, (int)(4 * n + 8), NULL);
    twin_result *results = lua_newuserdatauv(L, (n + 1) * sizeof *results, 0);
    for (uint32_t i = 0; i < n; i++) {
        lua_geti(L, 3, (lua_Integer)i + 1);
        int table = lua_gettop(L);
        results[i].serial = (uint32_t)twin_number(L, table, "serial", 0);
        results[i].drafts = (uint32_t)twin_number(L, table, "drafts", TWIN_NONE);
        lua_getfield(L, table, "ids");
        uint32_t len = 0;
        results[i].ids = twin_to_tokens(L, &len);
        results[i].tokens = (uint32_t)twin_number(L, table, "tokens", len);
    }
    twin_complete(t, batch, results, n);
    return push_record(L, t);
}

static int l_pass(lua_State *L)
{
    twin *t = twin_check(L);
    twin_pass(t, lua_toboolean(L, 2));
#ifndef AISIM_ENGINE_DOUBLE
    twin_raise_connector(L, t);
#endif
    return push_record(L, t);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void push_list(lua_State *L, const twin *t, const char *key, const uint32_t *serials,
                      uint32_t n)
{
    lua_createtable(L, (int)n, 0);
    for (uint32_t i = 0; i < n; i++) {
        twin_view view;
        bool known = twin_read(t, serials[i], &view);
        lua_pushinteger(L, known ? (lua_Integer)view.id : -1);
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, key);
}

static void push_queued(lua_State *L, const twin_totals *totals)
{
    lua_createtable(L, 0, 6);
    put(L, "prefill", (uint32_t)totals->queued_prefill);
    put(L, "prefill_tokens", (uint32_t)totals->queued_prefill_tokens);
    put(L, "decode", (uint32_t)totals->queued_decode);
    put(L, "decode_tokens", (uint32_t)totals->queued_decode_tokens);
    lua_pushnumber(L, totals->queued_prefill_variance);
    lua_setfield(L, -2, "prefill_variance");
    lua_pushnumber(L, totals->queued_decode_variance);
    lua_setfield(L, -2, "decode_variance");
    lua_setfield(L, -2, "queued");
}

static int l_state(lua_State *L)
{
    twin *t = twin_check(L);
    twin_totals totals = twin_sum(t);
    lua_createtable(L, 0, 20);
    put(L, "active", totals.active);
    put(L, "inactive", totals.inactive);
    put(L, "free", totals.free);
    put(L, "live", totals.live);
    put_flag(L, "ready", totals.ready);
    put_flag(L, "drained", totals.drained);
    put_flag(L, "capacity_bound", totals.capacity_bound);
    put_flag(L, "livelock", totals.livelock);
    put(L, "preemptions", (uint32_t)totals.preemptions);
    put(L, "decode_forwards", (uint32_t)totals.decode_forwards);
    put(L, "accepted_including_base", (uint32_t)totals.accepted_including_base);
    put(L, "lookups", (uint32_t)totals.lookups);
    put(L, "lookup_tokens", (uint32_t)totals.lookup_tokens);
    put(L, "hit_tokens", (uint32_t)totals.hit_tokens);
    push_queued(L, &totals);
    const uint32_t *serials;
    uint32_t n = twin_running(t, &serials);
    push_list(L, t, "running", serials, n);
    n = twin_waiting(t, &serials);
    push_list(L, t, "waiting", serials, n);
    n = twin_skipped(t, &serials);
    push_list(L, t, "skipped", serials, n);
    return 1;
}

static int push_view(lua_State *L, const twin_view *view)
{
    static const char *const names[] = {"waiting",  "preempted", "running", "pending",
                                        "reserved", "held",      "loading", "finished"};
    lua_createtable(L, 0, 24);
    put(L, "id", view->id);
    put(L, "serial", view->serial);
    put(L, "ordinal", view->ordinal);
    lua_pushstring(L, names[view->status]);
    lua_setfield(L, -2, "status");
    lua_pushstring(L, twin_reason_name(view->reason));
    lua_setfield(L, -2, "reason");
    put(L, "prompt", view->prompt);
    put(L, "output", view->output);
    put(L, "generated", view->generated);
    put(L, "known", view->known);
    put(L, "computed", view->computed);
    put(L, "watermark", view->watermark);
    put(L, "owned", view->owned);
    put(L, "opaque", view->opaque);
    put(L, "published", view->published);
    put(L, "state_blocks", view->state_blocks);
    put(L, "drafts", view->drafts);
    put(L, "placeholders", view->placeholders);
    put(L, "reused", view->reused);
    put(L, "preemptions", view->preemptions);
    put(L, "missing", view->missing);
    lua_createtable(L, (int)view->n_readmit, 0);
    for (uint32_t i = 0; i < view->n_readmit; i++) {
        lua_pushinteger(L, view->readmit_reused[i]);
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "readmit_reused");
    lua_createtable(L, (int)view->owned, 0);
    for (uint32_t i = 0; view->blocks != NULL && i < view->owned; i++) {
        lua_pushinteger(L, view->blocks[i]);
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
    lua_setfield(L, -2, "blocks");
    return 1;
}

static int l_request(lua_State *L)
{
    twin *t = twin_check(L);
    twin_view view;
    return twin_read(t, (uint32_t)luaL_checkinteger(L, 2), &view) ? push_view(L, &view) : 0;
}

static int l_find(lua_State *L)
{
    twin *t = twin_check(L);
    twin_view view;
    return twin_find(t, (uint32_t)luaL_checkinteger(L, 2), &view) ? push_view(L, &view) : 0;
}

/* Known token ids of the request with this serial. */
static int l_tokens(lua_State *L)
{
    twin *t = twin_check(L);
    twin_view view;
    if (!twin_read(t, (uint32_t)luaL_checkinteger(L, 2), &view)) {
        return 0;
    }
    lua_createtable(L, (int)view.known, 0);
    for (uint32_t i = 0; view.tokens != NULL && i < view.known; i++) {
        lua_pushinteger(L, (lua_Integer)view.tokens[i]);
        lua_seti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

const luaL_Reg twin_record_methods[] = {
    {"plan", l_plan},     {"complete", l_complete}, {"pass", l_pass},
    {"record", l_record}, {"state", l_state},       {"request", l_request},
    {"find", l_find},     {"tokens", l_tokens},     {NULL, NULL},
};
