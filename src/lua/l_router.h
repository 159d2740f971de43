/* l_router.h - a routing policy with Lua functions, shared by l_router*.c.
 *
 * A policy is the C struct aisim_router with this context; the engine does not know that it is Lua.
 * It may hold policies in C: some that pick may ask (wrap), others whose costs are added (score).
 * All of them hear of every event that they keep books of. */
#ifndef AISIM_LUA_L_ROUTER_H
#define AISIM_LUA_L_ROUTER_H

#include "base/array.h"
#include "base/rng.h"
#include "lua/l_cluster.h"
#include "lua/l_targets.h"

/** Functions of the policy that hear of events; X(member). */
#define AISIM_L_ROUTER_CALLS(X)                                                                    \
    X(on_dispatch)                                                                                 \
    X(on_first_token)                                                                              \
    X(on_done)                                                                                     \
    X(on_kv_stored)                                                                                \
    X(on_kv_removed)                                                                               \
    X(on_worker_up)                                                                                \
    X(on_worker_drain)                                                                             \
    X(on_worker_down)                                                                              \
    X(on_tick)

/** One summand of the cost: a Lua function, or a policy in C. */
typedef struct aisim_l_scorer {
    int fn;         /**< refs, LUA_NOREF = in C */
    uint32_t inner; /**< index into inners */
    double weight;  /**< of a policy in C */
} aisim_l_scorer;

/** What a policy in C would choose. */
typedef struct aisim_l_advice {
    uint32_t choice; /**< index into asked, AISIM_NONE = queue */
    int64_t overlap;
} aisim_l_advice;

typedef struct aisim_l_router {
    aisim_l_sim *s;
    aisim_l_targets *targets;
    char *name;
    int pick;           /**< refs, LUA_NOREF = the smallest cost is taken */
    int pick_arguments; /**< how many the function takes */
    bool wants_request; /**< the first parameter of pick is not called _ */
    int place;          /**< refs: a function to name in messages */
    AISIM_ARRAY(int) filters;
    AISIM_ARRAY(aisim_l_scorer) scorers;
    AISIM_ARRAY(aisim_router) inners;
    AISIM_ARRAY(int)
    objects;          /**< refs, of each inner: the aisim.RouterPolicy that pick may ask,
                           LUA_NOREF = it is not asked */
    uint32_t wrapped; /**< the first so many were declared in wrap */
    int ask;          /**< refs: the function that asks the first of them */
    uint32_t pool;
    aisim_router router;      /**< as the simulation knows it */
    int out;                  /**< refs: what filter and score fill */
    int costs;                /**< refs: targets.cost */
#define X(member) int member; /**< refs */
    AISIM_L_ROUTER_CALLS(X)
#undef X
    int64_t tick_ns;
    /* of the decision that is being made */
    const aisim_targets *asked; /**< NULL outside of one */
    const aisim_request *request;
    AISIM_ARRAY(uint32_t) kept;         /**< indices into asked that the filters have left */
    bool kept_all;                      /**< no filter has been at it: 0, 1, … */
    AISIM_ARRAY(uint32_t) ranks;        /**< the same as ranks */
    aisim_targets left;                 /**< the same as a list */
    AISIM_ARRAY(double) cost;           /**< of each of them */
    AISIM_ARRAY(double) part;           /**< scratch: of one policy in C */
    AISIM_ARRAY(aisim_l_advice) advice; /**< of the policies that were asked, in this order */
    bool decided;                       /**< a decision has been made: no policy joins any more */
    aisim_rng rng;
} aisim_l_router;

/** aisim_router.pick: filters, costs, choice (l_router_pick.c). */
uint32_t aisim_l_router_pick(void *context, aisim_sim *sim, const aisim_request *request,
                             const aisim_targets *targets, int64_t *overlap, aisim_error *err);

/** "router 'x' WHAT at t=… for request …; HINT" with the place of the policy; ends the run. The
 *  caller restores the stack. @return AISIM_NONE */
uint32_t aisim_l_router_refuse(aisim_l_router *r, const aisim_request *request, const char *what,
                               const char *hint, aisim_error *err);

/** The policy in C of the options at a stack index, checked by the schema that YAML files use too;
 *  the advisor-th that a router holds, 0 = it decides alone (sim/routing.h). Raises. */
void aisim_l_router_builtin(lua_State *L, aisim_l_sim *s, uint32_t pool, int index,
                            uint32_t advisor, aisim_router *out);

/** inner() (l_router_ask.c). Upvalue 1: the router. */
int aisim_l_router_inner(lua_State *L);
void aisim_l_router_ask_register(lua_State *L);

/** Fills the callbacks of out that somebody of the policy wants, and no others
 *  (l_router_calls.c). */
void aisim_l_router_listen(const aisim_l_router *r, aisim_router *out);

/** Starts on_tick. */
void aisim_l_router_tick(aisim_l_router *r);

#endif
