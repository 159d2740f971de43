/* l_hooks.h - data of the hooks of one simulation; see l_hooks.c. */
#ifndef AISIM_LUA_L_HOOKS_H
#define AISIM_LUA_L_HOOKS_H

#include "base/array.h"
#include "base/map.h"
#include "lua/l_common.h"
#include "lua/l_hook_names.h"

typedef struct aisim_l_batch {
    uint32_t cap, len;
    int width;              /**< columns */
    int columns;            /**< refs: table name -> array */
    aisim_l_scalar *values; /**< column after column, cap each */
} aisim_l_batch;

/** One subscription. */
typedef struct aisim_l_sub {
    const aisim_l_hook_info *info;
    aisim_l_batch *batch; /**< NULL = called for each event */
    int64_t from_ns, until_ns;
    uint64_t sample_below; /**< 0 = all */
    int fn;                /**< refs */
    int arguments;         /**< how many the function takes */
    int32_t class_id;      /**< -1 = any */
    uint32_t pool, rank;   /**< from 0, AISIM_NONE = any */
    uint32_t timer;        /**< run.tick: index of its timer */
    bool enabled, removed;
    bool filtered; /**< any filter but the window */
} aisim_l_sub;

typedef struct aisim_l_hooks {
    AISIM_ARRAY(aisim_l_sub) subs;
    AISIM_ARRAY(uint32_t) lists[AISIM_EV_COUNT];
    uint32_t observer; /**< place in the simulation's observer list */
    uint32_t depth;    /**< dispatches in progress */
    uint32_t batches;
    int reject_reason; /**< refs: text of the admission's last refusal */
    bool stale;        /**< lists hold removed subscriptions */
    bool watch_ends;
} aisim_l_hooks;

/** Pushes the view of a pass (pass.begin, pass.end). */
void aisim_l_push_pass(lua_State *L, aisim_l_sim *s, const aisim_event *event);

bool aisim_l_hooks_tick_enabled(aisim_l_sim *s, uint32_t sub, int64_t t_ns);

/** run.tick: fn(t, k) every period from now, class TICK. @return index of the timer */
uint32_t aisim_l_timer_add_tick(aisim_l_sim *s, int64_t every_ns, int fn, uint32_t sub);
/** Ends a timer and releases its function. */
void aisim_l_timer_drop(aisim_l_sim *s, lua_State *L, uint32_t timer);

#endif
