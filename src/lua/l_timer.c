/* l_timer.c - sim:at, sim:after, sim:every and the ticks of run.tick (spec/lua-api.md §6, Timers).
 *
 * A timer is a slot with a stable address (the engine keeps it as context) that is re-used after
 * its last call; handles carry the generation. A repetition is put on the heap again after its
 * call, so timers of one time stamp run in the order in which they were set. Repetitions are
 * background: they do not keep the run alive. */
#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "lua/l_common.h"
#include "lua/l_hooks.h"

#define TIMER "aisim.Timer"

typedef struct l_timer {
    aisim_l_sim *s;
    uint64_t number;   /* of the engine, 0 = in its call */
    int64_t period_ns; /* 0 = once */
    uint64_t k;        /* calls so far */
    uint32_t index, generation;
    uint32_t sub; /* run.tick: its subscription, AISIM_NONE = plain timer */
    int fn;       /* refs, LUA_NOREF = slot is free */
    aisim_event_class class_;
} l_timer;

typedef struct aisim_l_timers {
    AISIM_ARRAY(l_timer *) slots;
    AISIM_ARRAY(uint32_t) unused;
} aisim_l_timers;

typedef struct l_handle {
    uint32_t index, generation;
} l_handle;

static l_timer *take_slot(aisim_l_sim *s)
{
    if (s->timers == NULL) {
        s->timers = aisim_alloc_zero(1, sizeof *s->timers);
    }
    aisim_l_timers *all = s->timers;
    if (all->unused.len > 0) {
        return all->slots.data[all->unused.data[--all->unused.len]];
    }
    l_timer *timer = aisim_alloc_zero(1, sizeof *timer);
    timer->index = all->slots.len;
    aisim_array_push(&all->slots, timer);
    return timer;
}

/* Releases the function unless a hook subscription owns it. */
static void end_timer(l_timer *timer, lua_State *L)
{
    if (timer->fn == LUA_NOREF) {
        return;
    }
    aisim_l_release(L, timer->s, timer->fn);
    timer->fn = LUA_NOREF;
    timer->generation++;
    aisim_array_push(&timer->s->timers->unused, timer->index);
}

static void fire(void *context, aisim_sim *sim, int64_t t_ns);

static void arm(l_timer *timer, int64_t at_ns)
{
    timer->number =
        aisim_sim_timer(timer->s->sim, at_ns, timer->class_, timer->period_ns > 0, fire, timer);
}

static void call(l_timer *timer, int64_t t_ns)
{
    aisim_l_sim *s = timer->s;
    uint64_t outer = aisim_l_begin(s);
    bool tick = timer->sub != AISIM_NONE;
    s->site =
        (aisim_l_site){tick ? "hook" : "timer", tick ? "run.tick" : NULL, NULL, AISIM_NONE, 0};
    lua_rawgeti(s->L, s->refs, timer->fn);
    aisim_l_push_ms(s->L, t_ns);
    if (tick) {
        lua_pushinteger(s->L, (lua_Integer)timer->k);
    }
    aisim_l_call(s, outer, tick ? 2 : 1, 0);
}

static void fire(void *context, aisim_sim *sim, int64_t t_ns)
{
    (void)sim;
    l_timer *timer = context;
    aisim_l_sim *s = timer->s;
    if (aisim_l_broken(s)) {
        return;
    }
    uint32_t generation = timer->generation;
    timer->number = 0;
    timer->k++;
    if (timer->sub == AISIM_NONE) {
        call(timer, t_ns);
    } else {
        aisim_l_hooks_flush(s);
        if (aisim_l_hooks_tick_enabled(s, timer->sub, t_ns) && !aisim_l_broken(s)) {
            call(timer, t_ns);
        }
    }
    if (timer->generation != generation) { /* removed by its own function */
        return;
    }
    if (timer->period_ns > 0 && t_ns <= AISIM_NEVER - timer->period_ns) {
        arm(timer, t_ns + timer->period_ns);
    } else {
        end_timer(timer, s->L);
    }
}

static l_timer *start(aisim_l_sim *s, int64_t at_ns, int64_t period_ns, aisim_event_class class_,
                      int fn, uint32_t sub)
{
    l_timer *timer = take_slot(s);
    timer->s = s;
    timer->period_ns = period_ns;
    timer->k = 0;
    timer->sub = sub;
    timer->fn = fn;
    timer->class_ = class_;
    arm(timer, at_ns);
    return timer;
}

uint32_t aisim_l_timer_add(aisim_l_sim *s, int64_t at_ns, int64_t period_ns,
                           aisim_event_class class_, int ref)
{
    return start(s, at_ns, period_ns, class_, ref, AISIM_NONE)->index;
}

uint32_t aisim_l_timer_add_tick(aisim_l_sim *s, int64_t every_ns, int fn, uint32_t sub)
{
    int64_t at_ns = aisim_sim_now(s->sim) + every_ns;
    return start(s, at_ns, every_ns, AISIM_CLASS_TICK, fn, sub)->index;
}

void aisim_l_timer_drop(aisim_l_sim *s, lua_State *L, uint32_t index)
{
    l_timer *timer = s->timers->slots.data[index];
    if (timer->number != 0) {
        aisim_sim_timer_remove(s->sim, timer->number);
    }
    end_timer(timer, L);
}

void aisim_l_timers_free(aisim_l_sim *s)
{
    aisim_l_timers *all = s->timers;
    for (uint32_t i = 0; all != NULL && i < all->slots.len; i++) {
        aisim_free(all->slots.data[i]);
    }
    if (all != NULL) {
        aisim_array_free(&all->slots);
        aisim_array_free(&all->unused);
        aisim_free(all);
        s->timers = NULL;
    }
}

/* ---- Lua ------------------------------------------------------------------------------------- */

static int push_timer(lua_State *L, aisim_l_sim *s, int64_t at_ns, int64_t period_ns)
{
    luaL_checktype(L, 3, LUA_TFUNCTION);
    lua_pushvalue(L, 3);
    int fn = aisim_l_anchor(L, s);
    const l_timer *timer = start(s, at_ns, period_ns, AISIM_CLASS_TIMER, fn, AISIM_NONE);
    l_handle *handle = lua_newuserdatauv(L, sizeof *handle, 1);
    *handle = (l_handle){timer->index, timer->generation};
    luaL_setmetatable(L, TIMER);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    return 1;
}

/* The Lua side has turned texts such as "2m" into numbers. */
static int sim_at(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    int64_t at_ns = aisim_l_check_ms(L, 2, "sim:at: time");
    int64_t now_ns = aisim_sim_now(s->sim);
    if (at_ns < now_ns) {
        char at[40], now[40];
        return aisim_l_fail(L, "sim:at: %s ms is before now (%s ms)", aisim_l_format_ms(at, at_ns),
                            aisim_l_format_ms(now, now_ns));
    }
    return push_timer(L, s, at_ns, 0);
}

static int sim_after(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    return push_timer(L, s, aisim_sim_now(s->sim) + aisim_l_check_ms(L, 2, "sim:after: delay"), 0);
}

static int sim_every(lua_State *L)
{
    aisim_l_sim *s = aisim_l_check_control(L, 1);
    int64_t period_ns = aisim_l_check_ms(L, 2, "sim:every: period");
    if (period_ns <= 0) {
        return aisim_l_fail(L, "sim:every: the period must be > 0 ms");
    }
    return push_timer(L, s, aisim_sim_now(s->sim) + period_ns, period_ns);
}

static l_timer *check_handle(lua_State *L)
{
    l_handle *handle = luaL_checkudata(L, 1, TIMER);
    lua_getiuservalue(L, 1, 1);
    aisim_l_sim *s = aisim_l_check_sim(L, -1);
    l_timer *timer = s->timers->slots.data[handle->index];
    return timer->generation == handle->generation ? timer : NULL;
}

static int timer_remove(lua_State *L)
{
    l_timer *timer = check_handle(L);
    if (timer != NULL) {
        aisim_l_timer_drop(timer->s, L, timer->index);
    }
    return 0;
}

static int timer_tostring(lua_State *L)
{
    l_timer *timer = check_handle(L);
    lua_pushstring(L, timer != NULL ? "timer" : "timer (done)");
    return 1;
}

void aisim_l_timer_register(lua_State *L)
{
    static const luaL_Reg methods[] = {{"remove", timer_remove}, {NULL, NULL}};
    static const aisim_l_class class_ = {TIMER, methods, NULL, NULL, timer_tostring, NULL};
    aisim_l_class_register(L, &class_);
    aisim_l_extend(
        L, "aisim.Sim",
        (const luaL_Reg[]){
            {"at_", sim_at}, {"after_", sim_after}, {"every_", sim_every}, {NULL, NULL}});
}
