/* l_hooks.c - hooks: registration, filters, the trampoline, batches (spec/lua-api.md §6).
 *
 * Every event type has a list of subscriptions in registration order. The simulation's observer
 * mask holds exactly the types that have an enabled subscription, so an unused hook costs the
 * engine one bit test. Dispatch looks at the subscriptions that existed when it began: one added by
 * a hook is called from the next event on, a removed one is skipped at once. Removed entries leave
 * the lists when no dispatch is in progress.
 *
 * A function gets only as many arguments as it names (lua_Debug.nparams): the view is made for the
 * functions that take it and for nobody else. Batched subscriptions keep scalars in C and hand
 * over whole columns. */
#include "lua/l_hooks.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rng.h"
#include "lua/l_common.h"

#define HOOK "aisim.Hook"

static aisim_l_hooks *make(void)
{
    aisim_l_hooks *h = aisim_alloc_zero(1, sizeof *h);
    h->reject_reason = LUA_NOREF;
    return h;
}

/* ---- the observer mask ----------------------------------------------------------------------- */

static void update_mask(aisim_l_sim *s)
{
    aisim_l_hooks *h = s->hooks;
    uint64_t mask =
        h->watch_ends ? AISIM_EV_BIT(AISIM_EV_FINISH) | AISIM_EV_BIT(AISIM_EV_REJECT) : 0;
    for (uint32_t i = 0; i < h->subs.len; i++) {
        const aisim_l_sub *sub = &h->subs.data[i];
        if (sub->enabled && !sub->removed && sub->info->type >= 0) {
            mask |= AISIM_EV_BIT(sub->info->type);
        }
    }
    if (h->batches > 0) {
        mask |= AISIM_EV_BIT(AISIM_EV_RUN_END);
    }
    aisim_observers *observers = aisim_sim_observers(s->sim);
    observers->list[h->observer].mask = mask;
    aisim_observers_update(observers);
}

/* ---- filters --------------------------------------------------------------------------------- */

static bool passes(const aisim_l_sim *s, const aisim_l_sub *sub, const aisim_event *event)
{
    if (event->t_ns < sub->from_ns || event->t_ns >= sub->until_ns) {
        return false;
    }
    if (!sub->filtered) {
        return true;
    }
    const aisim_request *q = event->request;
    if (sub->class_id >= 0 && (q == NULL || q->class_id != sub->class_id)) {
        return false;
    }
    if (sub->sample_below != 0 &&
        aisim_mix64(aisim_sim_seed(s->sim) ^ aisim_mix64(q->id)) >= sub->sample_below) {
        return false;
    }
    uint32_t rank = event->rank != AISIM_NONE ? event->rank : q != NULL ? q->rank : AISIM_NONE;
    if (sub->rank != AISIM_NONE && sub->rank != rank) {
        return false;
    }
    if (sub->pool != AISIM_NONE) {
        if (rank == AISIM_NONE) {
            return false;
        }
        aisim_rank_view view;
        aisim_sim_rank(s->sim, rank, &view);
        return view.pool == sub->pool;
    }
    return true;
}

/* ---- calling --------------------------------------------------------------------------------- */

static void push_scalar(lua_State *L, const aisim_l_scalar *x)
{
    switch (x->kind) {
    case AISIM_L_NIL:
        lua_pushnil(L);
        return;
    case AISIM_L_INTEGER:
        lua_pushinteger(L, (lua_Integer)x->u.i);
        return;
    case AISIM_L_FLOAT:
        lua_pushnumber(L, x->u.n);
        return;
    case AISIM_L_TEXT:
        lua_pushstring(L, x->u.s);
        return;
    }
}

static void push_view(aisim_l_sim *s, const aisim_l_hook_info *info, const aisim_event *event)
{
    switch (info->view) {
    case AISIM_L_VIEW_NONE:
        lua_pushnil(s->L);
        return;
    case AISIM_L_VIEW_SIM:
        aisim_l_push_self(s->L, s);
        return;
    case AISIM_L_VIEW_REQUEST:
        aisim_l_push_view(s->L, s, event->request);
        return;
    case AISIM_L_VIEW_PASS:
        aisim_l_push_pass(s->L, s, event);
        return;
    }
}

static void set_site(aisim_l_sim *s, const aisim_l_hook_info *info, const aisim_event *event)
{
    s->site = (aisim_l_site){"hook", info->name, event->request, event->rank, 0};
}

static void call_one(aisim_l_sim *s, const aisim_l_sub *sub, const aisim_event *event,
                     const aisim_l_scalar *scalars, int n)
{
    lua_State *L = s->L;
    uint64_t outer = aisim_l_begin(s);
    set_site(s, sub->info, event);
    lua_rawgeti(L, s->refs, sub->fn);
    int wanted = sub->arguments;
    for (int i = 0; i < n && i < wanted; i++) {
        push_scalar(L, &scalars[i]);
    }
    if (wanted > n && sub->info->view != AISIM_L_VIEW_NONE) {
        push_view(s, sub->info, event);
        n++;
    }
    aisim_l_call(s, outer, wanted < n ? wanted : n, 0);
}

/* ---- batches --------------------------------------------------------------------------------- */

static void flush(aisim_l_sim *s, aisim_l_sub *sub)
{
    aisim_l_batch *batch = sub->batch;
    uint32_t n = batch->len;
    if (n == 0 || aisim_l_broken(s) || s->L == NULL) {
        return;
    }
    lua_State *L = s->L;
    batch->len = 0;
    uint64_t outer = aisim_l_begin(s);
    s->site = (aisim_l_site){"batched hook", sub->info->name, NULL, AISIM_NONE, 0};
    lua_rawgeti(L, s->refs, sub->fn);
    lua_pushinteger(L, (lua_Integer)n);
    lua_rawgeti(L, s->refs, batch->columns);
    for (int c = 0; c < batch->width; c++) {
        lua_getfield(L, -1, sub->info->args[c]);
        const aisim_l_scalar *column = batch->values + (size_t)c * batch->cap;
        for (uint32_t i = 0; i < n; i++) {
            if (column[i].kind != AISIM_L_TEXT) { /* texts were stored when they came */
                push_scalar(L, &column[i]);
                lua_rawseti(L, -2, (lua_Integer)i + 1);
            }
        }
        lua_pop(L, 1);
    }
    s->in_batch = true;
    aisim_l_call(s, outer, 2, 0);
    s->in_batch = false;
}

static void store(aisim_l_sim *s, aisim_l_sub *sub, const aisim_l_scalar *scalars, int n)
{
    aisim_l_batch *batch = sub->batch;
    lua_State *L = s->L;
    for (int c = 0; c < batch->width; c++) {
        const aisim_l_scalar nothing = {AISIM_L_NIL, {.i = 0}};
        const aisim_l_scalar *x = c < n ? &scalars[c] : &nothing;
        batch->values[(size_t)c * batch->cap + batch->len] = *x;
        if (x->kind == AISIM_L_TEXT) { /* the text may not outlive the event */
            lua_rawgeti(L, s->refs, batch->columns);
            lua_getfield(L, -1, sub->info->args[c]);
            lua_pushstring(L, x->u.s);
            lua_rawseti(L, -2, (lua_Integer)batch->len + 1);
            lua_pop(L, 2);
        }
    }
    if (++batch->len == batch->cap) {
        flush(s, sub);
    }
}

void aisim_l_hooks_flush(aisim_l_sim *s)
{
    aisim_l_hooks *h = s->hooks;
    for (uint32_t i = 0; h->batches > 0 && i < h->subs.len; i++) {
        if (h->subs.data[i].batch != NULL && !h->subs.data[i].removed) {
            flush(s, &h->subs.data[i]);
        }
    }
}

/* ---- the observer ---------------------------------------------------------------------------- */

/* Removed subscriptions stay in place (handles index them); their lists are rebuilt. */
static void rebuild_lists(aisim_l_hooks *h)
{
    for (int type = 0; type < AISIM_EV_COUNT; type++) {
        h->lists[type].len = 0;
    }
    for (uint32_t i = 0; i < h->subs.len; i++) {
        const aisim_l_sub *sub = &h->subs.data[i];
        if (!sub->removed && sub->info->type >= 0) {
            aisim_array_push(&h->lists[sub->info->type], i);
        }
    }
    h->stale = false;
}

static const char *reject_reason(aisim_l_sim *s, const aisim_event *event)
{
    aisim_l_hooks *h = s->hooks;
    if (h->reject_reason == LUA_NOREF || event->type != AISIM_EV_REJECT ||
        event->u.reject.where != AISIM_WHERE_ADMISSION) {
        return NULL;
    }
    lua_rawgeti(s->L, s->refs, h->reject_reason); /* the caller pops */
    const char *text = lua_tostring(s->L, -1);
    if (text == NULL) {
        lua_pop(s->L, 1);
    }
    return text;
}

/* Calls the subscriptions of the event in their order. The scalars are made for the first function
 * that takes any. */
static void dispatch(aisim_l_sim *s, const aisim_event *event)
{
    aisim_l_hooks *h = s->hooks;
    aisim_l_scalar scalars[AISIM_L_HOOK_ARGS];
    const char *reason = NULL;
    int n = 0;
    uint32_t count = h->lists[event->type].len; /* added ones wait for the next event */
    h->depth++;
    for (uint32_t i = 0; i < count && !aisim_l_broken(s); i++) {
        aisim_l_sub *sub = &h->subs.data[h->lists[event->type].data[i]];
        if (!sub->enabled || sub->removed || !passes(s, sub, event)) {
            continue;
        }
        if (n == 0 && (sub->arguments > 0 || sub->batch != NULL)) {
            reason = reject_reason(s, event);
            n = aisim_l_hook_scalars(event, reason, scalars);
        }
        if (sub->batch != NULL) {
            store(s, sub, scalars, n);
        } else {
            call_one(s, sub, event, scalars, n);
        }
    }
    if (--h->depth == 0 && h->stale) {
        rebuild_lists(h);
    }
    if (reason != NULL) {
        lua_pop(s->L, 1);
    }
}

static void observe(void *context, const aisim_event *event)
{
    aisim_l_sim *s = context;
    aisim_l_hooks *h = s->hooks;
    if (aisim_l_broken(s) || s->L == NULL) {
        return;
    }
    if (event->type == AISIM_EV_RUN_END) {
        aisim_l_hooks_flush(s);
    }
    if (h->lists[event->type].len > 0) {
        dispatch(s, event);
    }
    if (s->has_notes && (event->type == AISIM_EV_FINISH || event->type == AISIM_EV_REJECT)) {
        aisim_l_request_ended(s->L, s, event->request->id);
    }
}

void aisim_l_hooks_init(aisim_l_sim *s)
{
    s->hooks = make();
    aisim_observers *observers = aisim_sim_observers(s->sim);
    s->hooks->observer = observers->n++;
    observers->list[s->hooks->observer] = (aisim_observer){.context = s, .fn = observe};
}

void aisim_l_hooks_free(aisim_l_sim *s)
{
    aisim_l_hooks *h = s->hooks;
    for (uint32_t i = 0; i < h->subs.len; i++) {
        if (h->subs.data[i].batch != NULL) {
            aisim_free(h->subs.data[i].batch->values);
            aisim_free(h->subs.data[i].batch);
        }
    }
    aisim_array_free(&h->subs);
    for (int type = 0; type < AISIM_EV_COUNT; type++) {
        aisim_array_free(&h->lists[type]);
    }
    aisim_free(h);
    s->hooks = NULL;
}

void aisim_l_hooks_watch_ends(aisim_l_sim *s)
{
    s->hooks->watch_ends = true;
    update_mask(s);
}

void aisim_l_hooks_reject_reason(aisim_l_sim *s, int ref)
{
    aisim_l_release(s->L, s, s->hooks->reject_reason);
    s->hooks->reject_reason = ref;
}

/* ---- run.tick -------------------------------------------------------------------------------- */

/* fn(t, k) of run.tick runs through the timers; this says whether it may run now. */
bool aisim_l_hooks_tick_enabled(aisim_l_sim *s, uint32_t sub, int64_t t_ns)
{
    const aisim_l_sub *x = &s->hooks->subs.data[sub];
    return x->enabled && !x->removed && t_ns >= x->from_ns && t_ns < x->until_ns;
}

/* ---- sim:on ---------------------------------------------------------------------------------- */

static const aisim_l_hook_info *find(const char *name)
{
    for (unsigned i = 0; i < aisim_l_hook_count; i++) {
        if (strcmp(aisim_l_hook_infos[i].name, name) == 0) {
            return &aisim_l_hook_infos[i];
        }
    }
    return NULL;
}

static lua_Number number_option(lua_State *L, int table, const char *name, lua_Number absent)
{
    lua_Number value = absent;
    if (lua_getfield(L, table, name) != LUA_TNIL) {
        value = lua_tonumber(L, -1); /* checked in lua/aisim/hooks.lua */
    }
    lua_pop(L, 1);
    return value;
}

static void read_filters(lua_State *L, aisim_l_sim *s, int table, aisim_l_sub *sub)
{
    sub->class_id = -1;
    sub->rank = AISIM_NONE;
    sub->pool = AISIM_NONE;
    if (lua_getfield(L, table, "class") != LUA_TNIL) {
        sub->class_id = aisim_l_class_id(s, lua_tostring(L, -1));
    }
    lua_pop(L, 1);
    lua_Number rank = number_option(L, table, "rank", 0);
    if (rank >= 1) {
        sub->rank = (uint32_t)rank - 1;
    }
    lua_Number pool = number_option(L, table, "pool", 0);
    if (pool >= 1) {
        sub->pool = (uint32_t)pool - 1;
    }
    lua_Number sample = number_option(L, table, "sample", 1);
    if (sample < 1) {
        sub->sample_below = (uint64_t)(sample * 0x1p64);
        sub->sample_below += sub->sample_below == 0;
    }
    sub->filtered = sub->class_id >= 0 || rank >= 1 || pool >= 1 || sample < 1;
    sub->from_ns = aisim_ns_from_ms(number_option(L, table, "from_ms", 0));
    lua_Number until = number_option(L, table, "until_ms", -1);
    sub->until_ns = until < 0 ? AISIM_NEVER : aisim_ns_from_ms(until);
}

static void add_batch(lua_State *L, aisim_l_sim *s, aisim_l_sub *sub, uint32_t cap)
{
    aisim_l_batch *batch = aisim_alloc_zero(1, sizeof *batch);
    batch->cap = cap;
    lua_newtable(L);
    while (sub->info->args[batch->width] != NULL) {
        lua_createtable(L, (int)cap, 0);
        lua_setfield(L, -2, sub->info->args[batch->width++]);
    }
    lua_newtable(L);
    lua_pushvalue(L, -2); /* its names */
    aisim_l_push_strict_index(L, "columns of a batched hook");
    lua_setfield(L, -2, "__index");
    lua_setmetatable(L, -2);
    batch->values = aisim_alloc((size_t)cap * (size_t)batch->width, sizeof *batch->values);
    batch->columns = aisim_l_anchor(L, s);
    sub->batch = batch;
    s->hooks->batches++;
}

/* core sim:on_(name, fn, options) -> handle; names, types and ranges checked by the Lua side */
static int sim_on(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_sim(L, 1);
    const aisim_l_hook_info *info = find(luaL_checkstring(L, 2));
    luaL_checktype(L, 3, LUA_TFUNCTION);
    luaL_checktype(L, 4, LUA_TTABLE);
    if (info == NULL) {
        return aisim_l_fail(L, "sim:on: no hook '%s'", lua_tostring(L, 2));
    }
    aisim_l_hooks *h = s->hooks;
    aisim_l_sub sub = {.info = info, .enabled = true, .timer = AISIM_NONE};
    read_filters(L, s, 4, &sub);
    sub.arguments = aisim_l_wanted_arguments(L, 3, AISIM_L_HOOK_ARGS + 1);
    lua_pushvalue(L, 3);
    sub.fn = aisim_l_anchor(L, s);
    lua_Number batch = number_option(L, 4, "batch", 0);
    if (batch >= 1) {
        add_batch(L, s, &sub, (uint32_t)batch);
    }
    uint32_t index = h->subs.len;
    if (info->type == AISIM_L_TICK) {
        int64_t every_ns = aisim_ns_from_ms(number_option(L, 4, "every_ms", 0));
        sub.timer = aisim_l_timer_add_tick(s, every_ns, sub.fn, index);
    }
    aisim_array_push(&h->subs, sub);
    if (info->type >= 0) {
        aisim_array_push(&h->lists[info->type], index);
        update_mask(s);
    }
    uint32_t *handle = lua_newuserdatauv(L, sizeof *handle, 1);
    *handle = index;
    luaL_setmetatable(L, HOOK);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    return 1;
}

static aisim_l_sub *check_handle(lua_State *L, aisim_l_sim **s)
{
    uint32_t *handle = luaL_checkudata(L, 1, HOOK);
    lua_getiuservalue(L, 1, 1);
    *s = aisim_l_check_sim(L, -1);
    return &(*s)->hooks->subs.data[*handle];
}

static int hook_remove(lua_State *L)
{
    aisim_l_sim *s;
    aisim_l_sub *sub = check_handle(L, &s);
    if (sub->removed) {
        return 0;
    }
    sub->removed = true; /* not called any more: what a batch holds is dropped */
    if (sub->timer != AISIM_NONE) {
        aisim_l_timer_drop(s, L, sub->timer);
    } else {
        aisim_l_release(L, s, sub->fn);
    }
    sub->fn = LUA_NOREF;
    if (s->hooks->depth == 0) {
        rebuild_lists(s->hooks);
    } else {
        s->hooks->stale = true;
    }
    update_mask(s);
    return 0;
}

static int hook_enable(lua_State *L)
{
    aisim_l_sim *s;
    aisim_l_sub *sub = check_handle(L, &s);
    luaL_checktype(L, 2, LUA_TBOOLEAN);
    sub->enabled = lua_toboolean(L, 2);
    update_mask(s);
    return 0;
}

static int hook_tostring(lua_State *L)
{
    uint32_t *handle = luaL_checkudata(L, 1, HOOK);
    lua_getiuservalue(L, 1, 1);
    aisim_l_sim *s = lua_touserdata(L, -1);
    const aisim_l_sub *sub = s->sim != NULL ? &s->hooks->subs.data[*handle] : NULL;
    lua_pushfstring(L, "hook '%s'%s", sub != NULL ? sub->info->name : "?",
                    sub == NULL || sub->removed ? " (removed)"
                    : sub->enabled              ? ""
                                                : " (disabled)");
    return 1;
}

void aisim_l_hooks_register(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"remove", hook_remove}, {"enable", hook_enable}, {NULL, NULL}};
    static const aisim_l_class class_ = {HOOK, methods, NULL, NULL, hook_tostring, NULL};
    aisim_l_class_register(L, &class_);
    aisim_l_extend(L, "aisim.Sim", (const luaL_Reg[]){{"on_", sim_on}, {NULL, NULL}});
}
