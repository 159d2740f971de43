/* l_router_calls.c - what a policy with Lua functions hears: its own functions and the policies in
 * C that it holds, in this order: the ones in C first, so that their books are right when a
 * function looks. */
#include "base/clock.h"
#include "base/map.h"
#include "lua/l_router.h"

/* Opens a call: function and, if there is one, view of the request are pushed. */
static bool open(const aisim_l_router *r, const char *kind, int fn, const aisim_request *request,
                 uint32_t rank, uint64_t *outer)
{
    aisim_l_sim *s = r->s;
    if (fn == LUA_NOREF || aisim_l_broken(s) || s->L == NULL) {
        return false;
    }
    *outer = aisim_l_begin(s);
    s->site = (aisim_l_site){kind, r->name, request, rank, 0};
    lua_rawgeti(s->L, s->refs, fn);
    if (request != NULL) {
        aisim_l_push_view(s->L, s, request);
    }
    if (rank != AISIM_NONE) {
        aisim_l_push_target(s->L, s, rank);
    }
    return true;
}

static void close_with_now(const aisim_l_router *r, uint64_t outer, int arguments)
{
    aisim_l_push_ms(r->s->L, aisim_sim_now(r->s->sim));
    aisim_l_call(r->s, outer, arguments + 1, 0);
}

#define EACH_INNER(r, member, ...)                                                                 \
    for (uint32_t i_ = 0; i_ < (r)->inners.len; i_++) {                                            \
        const aisim_router *inner_ = &(r)->inners.data[i_];                                        \
        if (inner_->member != NULL) {                                                              \
            inner_->member(inner_->context, __VA_ARGS__);                                          \
        }                                                                                          \
    }

/* on_dispatch(req, target, now) */
static void on_dispatch(void *context, const aisim_request *request, uint32_t rank)
{
    const aisim_l_router *r = context;
    uint64_t outer;
    EACH_INNER(r, on_dispatch, request, rank)
    if (open(r, "on_dispatch of router", r->on_dispatch, request, rank, &outer)) {
        close_with_now(r, outer, 2);
    }
}

/* on_first_token(req, target, now) */
static void on_first_token(void *context, const aisim_request *request, uint32_t rank)
{
    const aisim_l_router *r = context;
    uint64_t outer;
    EACH_INNER(r, on_first_token, request, rank)
    if (open(r, "on_first_token of router", r->on_first_token, request, rank, &outer)) {
        close_with_now(r, outer, 2);
    }
}

static void on_lost(void *context, const aisim_request *request, uint32_t rank)
{
    const aisim_l_router *r = context;
    EACH_INNER(r, on_lost, request, rank)
}

const char *aisim_l_status_text(uint8_t end)
{
    switch ((aisim_end_reason)end) {
    case AISIM_END_LENGTH:
    case AISIM_END_CONTEXT:
        return "completed";
    case AISIM_END_CANCELLED:
        return "cancelled";
    default:
        return "rejected";
    }
}

/* on_done(req, target, status, now) */
static void on_done(void *context, const aisim_request *request, uint32_t rank)
{
    const aisim_l_router *r = context;
    uint64_t outer;
    EACH_INNER(r, on_done, request, rank)
    if (open(r, "on_done of router", r->on_done, request, rank, &outer)) {
        lua_pushstring(r->s->L, aisim_l_status_text(request->end));
        close_with_now(r, outer, 3);
    }
}

static void inners_on_kv(const aisim_l_router *r, uint32_t rank, aisim_router_tier tier,
                         bool stored, uint32_t run, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < r->inners.len; i++) {
        const aisim_router *inner = &r->inners.data[i];
        if (inner->on_kv != NULL && (tier == AISIM_ROUTER_DEVICE || inner->host_kv)) {
            inner->on_kv(inner->context, rank, tier, stored, run, first, count);
        }
    }
}

/* on_kv_stored(target, blocks, tier, now), on_kv_removed likewise: once per stretch of a run, at
 * the pass end (host tier: or the end of a copy) that made it visible */
static void on_kv(void *context, uint32_t rank, aisim_router_tier tier, bool stored, uint32_t run,
                  uint32_t first, uint32_t count)
{
    static const char *const tiers[] = {[AISIM_ROUTER_DEVICE] = "device",
                                        [AISIM_ROUTER_HOST] = "host",
                                        [AISIM_ROUTER_SHARED] = "shared"};
    const aisim_l_router *r = context;
    uint64_t outer;
    inners_on_kv(r, rank, tier, stored, run, first, count);
    if (open(r, stored ? "on_kv_stored of router" : "on_kv_removed of router",
             stored ? r->on_kv_stored : r->on_kv_removed, NULL, rank, &outer)) {
        lua_pushinteger(r->s->L, count);
        lua_pushstring(r->s->L, tiers[tier]);
        close_with_now(r, outer, 3);
    }
}

/* on_worker_up(target), on_worker_drain, on_worker_down: once per rank */
static void on_worker(void *context, uint32_t worker)
{
    const aisim_l_router *r = context;
    EACH_INNER(r, on_worker, worker)
    for (uint32_t rank = 0; rank < aisim_sim_ranks(r->s->sim); rank++) {
        aisim_rank_view view;
        uint64_t outer;
        aisim_sim_rank(r->s->sim, rank, &view);
        if (view.worker != worker) {
            continue;
        }
        int fn = view.state == AISIM_WORKER_READY      ? r->on_worker_up
                 : view.state == AISIM_WORKER_DRAINING ? r->on_worker_drain
                 : view.state == AISIM_WORKER_STOPPED  ? r->on_worker_down
                                                       : LUA_NOREF;
        if (open(r, "on_worker of router", fn, NULL, rank, &outer)) {
            aisim_l_call(r->s, outer, 1, 0);
        }
    }
}

static double queue_key(void *context, const aisim_request *request, bool joins)
{
    const aisim_l_router *r = context;
    return r->inners.data[0].queue_key(r->inners.data[0].context, request, joins);
}

static uint32_t bound(void *context, const aisim_request *request)
{
    const aisim_l_router *r = context;
    for (uint32_t i = 0; i < r->inners.len; i++) {
        if (r->inners.data[i].bound != NULL) {
            return r->inners.data[i].bound(r->inners.data[i].context, request);
        }
    }
    return AISIM_NONE;
}

/* on_tick(now) */
static void tick(void *context, aisim_sim *sim, int64_t t_ns)
{
    aisim_l_router *r = context;
    uint64_t outer;
    if (open(r, "on_tick of router", r->on_tick, NULL, AISIM_NONE, &outer)) {
        close_with_now(r, outer, 0);
    }
    aisim_sim_timer(sim, t_ns + r->tick_ns, AISIM_CLASS_TIMER, true, tick, r);
}

void aisim_l_router_tick(aisim_l_router *r)
{
    aisim_sim *sim = r->s->sim;
    aisim_sim_timer(sim, aisim_sim_now(sim) + r->tick_ns, AISIM_CLASS_TIMER, true, tick, r);
}

void aisim_l_router_listen(const aisim_l_router *r, aisim_router *out)
{
    bool dispatch = r->on_dispatch != LUA_NOREF, first = r->on_first_token != LUA_NOREF;
    bool kv = r->on_kv_stored != LUA_NOREF || r->on_kv_removed != LUA_NOREF;
    bool worker = r->on_worker_up != LUA_NOREF || r->on_worker_drain != LUA_NOREF ||
                  r->on_worker_down != LUA_NOREF;
    bool lost = false, done = r->on_done != LUA_NOREF, affinity = false, host = kv;
    for (uint32_t i = 0; i < r->inners.len; i++) {
        const aisim_router *inner = &r->inners.data[i];
        dispatch = dispatch || inner->on_dispatch != NULL;
        first = first || inner->on_first_token != NULL;
        kv = kv || inner->on_kv != NULL;
        host = host || inner->host_kv;
        worker = worker || inner->on_worker != NULL;
        lost = lost || inner->on_lost != NULL;
        done = done || inner->on_done != NULL;
        affinity = affinity || inner->bound != NULL;
    }
    out->on_dispatch = dispatch ? on_dispatch : NULL;
    out->on_first_token = first ? on_first_token : NULL;
    out->on_kv = kv ? on_kv : NULL;
    out->host_kv = host;
    out->on_worker = worker ? on_worker : NULL;
    out->on_lost = lost ? on_lost : NULL;
    out->on_done = done ? on_done : NULL;
    out->bound = affinity ? bound : NULL;
    if (r->inners.len > 0 && r->objects.data[0] != LUA_NOREF &&
        r->inners.data[0].queue_key != NULL) { /* the first that pick may ask orders the queue */
        out->queue_key = queue_key;
    }
}
