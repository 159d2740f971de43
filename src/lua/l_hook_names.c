/* l_hook_names.c - the table of hooks and the scalars of each event. Numbers count from 1, times
 * are ms (spec/lua-api.md §6). */
#include "lua/l_hook_names.h"

#include <stddef.h>

#include <lauxlib.h>
#include <lua.h>

#include "base/clock.h"
#include "base/map.h"

#define EV(name) AISIM_EV_##name

const aisim_l_hook_info aisim_l_hook_infos[] = {
    {"run.start", "run", EV(RUN_START), AISIM_L_VIEW_SIM, {"t"}},
    {"run.end", "run", EV(RUN_END), AISIM_L_VIEW_SIM, {"t"}},
    {"run.tick", "run", AISIM_L_TICK, AISIM_L_VIEW_NONE, {"t", "k"}},
    {"request.arrive",
     "request",
     EV(ARRIVE),
     AISIM_L_VIEW_REQUEST,
     {"t", "id", "prompt_tokens", "output_tokens"}},
    {"request.route",
     "request",
     EV(ROUTE),
     AISIM_L_VIEW_REQUEST,
     {"t", "id", "worker", "overlap_blocks"}},
    {"request.admit",
     "request",
     EV(ADMIT),
     AISIM_L_VIEW_REQUEST,
     {"t", "id", "rank", "reused_tokens", "wait_ms"}},
    {"request.first_token",
     "request",
     EV(FIRST_TOKEN),
     AISIM_L_VIEW_REQUEST,
     {"t", "id", "rank", "ttft_ms"}},
    {"request.preempt",
     "request",
     EV(PREEMPT),
     AISIM_L_VIEW_REQUEST,
     {"t", "id", "rank", "lost_tokens", "generated"}},
    {"request.finish",
     "request",
     EV(FINISH),
     AISIM_L_VIEW_REQUEST,
     {"t", "id", "rank", "reason", "generated"}},
    {"request.reject", "request", EV(REJECT), AISIM_L_VIEW_REQUEST, {"t", "id", "where", "reason"}},
    {"transfer.start",
     "request",
     EV(TRANSFER_START),
     AISIM_L_VIEW_NONE,
     {"t", "id", "kind", "src", "dst", "bytes"}},
    {"transfer.end",
     "request",
     EV(TRANSFER_END),
     AISIM_L_VIEW_NONE,
     {"t", "id", "kind", "src", "dst", "bytes"}},
    {"worker.state", "run", EV(WORKER_STATE), AISIM_L_VIEW_NONE, {"t", "worker", "from", "to"}},
    {"pass.begin",
     "pass",
     EV(PASS_BEGIN),
     AISIM_L_VIEW_PASS,
     {"t", "rank", "waiting", "running", "free_blocks"}},
    {"pass.end",
     "pass",
     EV(PASS_END),
     AISIM_L_VIEW_PASS,
     {"t", "rank", "begin_ms", "prefill_tokens", "n_prefill", "n_decode"}},
    {"kv.store", "pass", EV(KV_STORE), AISIM_L_VIEW_NONE, {"t", "rank", "blocks", "tier"}},
    {"kv.evict", "pass", EV(KV_EVICT), AISIM_L_VIEW_NONE, {"t", "rank", "blocks", "tier"}},
    {"host.store",
     "request",
     EV(HOST_STORE),
     AISIM_L_VIEW_NONE,
     {"t", "rank", "id", "blocks", "bytes", "done_ms"}},
    {"host.load",
     "request",
     EV(HOST_LOAD),
     AISIM_L_VIEW_NONE,
     {"t", "rank", "id", "blocks", "bytes", "done_ms"}},
    {"host.evict",
     "request",
     EV(HOST_EVICT),
     AISIM_L_VIEW_NONE,
     {"t", "rank", "id", "blocks", "bytes", "done_ms"}},
    {"state.checkpoint",
     "request",
     EV(STATE_CHECKPOINT),
     AISIM_L_VIEW_NONE,
     {"t", "id", "rank", "at_tokens"}},
    {"state.restore",
     "request",
     EV(STATE_RESTORE),
     AISIM_L_VIEW_NONE,
     {"t", "id", "rank", "at_tokens"}},
    {"play.start", "run", EV(PLAY_START), AISIM_L_VIEW_NONE, {"t", "lane", "play", "status"}},
    {"play.end", "run", EV(PLAY_END), AISIM_L_VIEW_NONE, {"t", "lane", "play", "status"}},
    {"phase", "run", EV(PHASE), AISIM_L_VIEW_NONE, {"t", "from", "to"}},
    {"request.chunk",
     "token",
     EV(CHUNK),
     AISIM_L_VIEW_REQUEST,
     {"t", "id", "rank", "start", "tokens"}},
    {"request.tokens",
     "token",
     EV(TOKENS),
     AISIM_L_VIEW_REQUEST,
     {"t", "id", "rank", "n", "generated"}},
};

const unsigned aisim_l_hook_count = sizeof aisim_l_hook_infos / sizeof *aisim_l_hook_infos;

static aisim_l_scalar integer(uint64_t value)
{
    return (aisim_l_scalar){AISIM_L_INTEGER, {.i = (int64_t)value}};
}

static aisim_l_scalar ms(int64_t t_ns)
{
    return (aisim_l_scalar){AISIM_L_FLOAT, {.n = (double)t_ns / 1e6}};
}

static aisim_l_scalar text(const char *value)
{
    return value == NULL ? (aisim_l_scalar){AISIM_L_NIL, {.i = 0}}
                         : (aisim_l_scalar){AISIM_L_TEXT, {.s = value}};
}

/* Ranks and workers from 0 inside, from 1 outside; none is nil. */
static aisim_l_scalar number(uint32_t index)
{
    return index == AISIM_NONE ? (aisim_l_scalar){AISIM_L_NIL, {.i = 0}}
                               : integer((uint64_t)index + 1);
}

static const char *where_text(aisim_where where)
{
    static const char *const texts[] = {"admission", "router", "engine"};
    return texts[where];
}

static const char *tier_text(aisim_tier tier)
{
    static const char *const texts[] = {"device", "host", "state"};
    return texts[tier];
}

static const char *transfer_text(aisim_transfer kind)
{
    static const char *const texts[] = {"handoff", "offload", "restore"};
    return texts[kind];
}

int aisim_l_hook_scalars(const aisim_event *event, const char *reason,
                         aisim_l_scalar out[AISIM_L_HOOK_ARGS])
{
    const aisim_request *q = event->request;
    out[0] = ms(event->t_ns);
    switch (event->type) {
    case EV(RUN_START):
    case EV(RUN_END):
        return 1;
    case EV(ARRIVE):
        out[1] = integer(q->id);
        out[2] = integer(q->prompt_tokens);
        out[3] = integer(q->output_tokens);
        return 4;
    case EV(ROUTE):
        out[1] = integer(q->id);
        out[2] = number(event->u.route.worker);
        out[3] = event->u.route.overlap_blocks < 0
                     ? (aisim_l_scalar){AISIM_L_NIL, {.i = 0}}
                     : integer((uint64_t)event->u.route.overlap_blocks);
        return 4;
    case EV(ADMIT):
        out[1] = integer(q->id);
        out[2] = number(event->rank);
        out[3] = integer(event->u.admit.reused_tokens);
        out[4] = ms(event->u.admit.wait_ns);
        return 5;
    case EV(FIRST_TOKEN):
        out[1] = integer(q->id);
        out[2] = number(event->rank);
        out[3] = ms(event->u.first_token.ttft_ns);
        return 4;
    case EV(PREEMPT):
        out[1] = integer(q->id);
        out[2] = number(event->rank);
        out[3] = integer(event->u.preempt.lost_tokens);
        out[4] = integer(q->generated);
        return 5;
    case EV(FINISH):
        out[1] = integer(q->id);
        out[2] = number(event->rank);
        out[3] = text(aisim_end_reason_text((aisim_end_reason)q->end));
        out[4] = integer(q->generated);
        return 5;
    case EV(REJECT):
        out[1] = integer(q->id);
        out[2] = text(where_text(event->u.reject.where));
        out[3] = text(reason != NULL ? reason : aisim_end_reason_text((aisim_end_reason)q->end));
        return 4;
    case EV(WORKER_STATE):
        out[1] = number(event->u.worker.worker);
        out[2] = text(event->u.worker.from);
        out[3] = text(event->u.worker.to);
        return 4;
    case EV(PASS_BEGIN):
        out[1] = number(event->rank);
        out[2] = integer(event->u.pass_begin.waiting);
        out[3] = integer(event->u.pass_begin.running);
        out[4] = integer(event->u.pass_begin.free_blocks);
        return 5;
    case EV(PASS_END):
        out[1] = number(event->rank);
        out[2] = ms(event->u.pass->begin_ns);
        out[3] = integer(event->u.pass->prefill_tokens);
        out[4] = integer(event->u.pass->n_prefill);
        out[5] = integer(event->u.pass->n_decode);
        return 6;
    case EV(KV_STORE):
    case EV(KV_EVICT):
        out[1] = number(event->rank);
        out[2] = integer(event->u.kv.blocks);
        out[3] = text(tier_text(event->u.kv.tier));
        return 4;
    case EV(TRANSFER_START):
    case EV(TRANSFER_END):
        out[1] = integer(event->u.transfer.request_id);
        out[2] = text(transfer_text(event->u.transfer.kind));
        out[3] = number(event->u.transfer.src);
        out[4] = number(event->u.transfer.dst);
        out[5] = integer(event->u.transfer.bytes);
        return 6;
    case EV(STATE_CHECKPOINT):
    case EV(STATE_RESTORE):
        out[1] = integer(q->id);
        out[2] = number(event->rank);
        out[3] = integer(event->u.state.at_tokens);
        return 4;
    case EV(HOST_STORE):
    case EV(HOST_LOAD):
    case EV(HOST_EVICT):
        out[1] = number(event->rank);
        out[2] = integer(event->u.transfer.request_id);
        out[3] = integer(event->u.transfer.blocks);
        out[4] = integer(event->u.transfer.bytes);
        out[5] = event->u.transfer.end_ns == AISIM_NEVER /* shared pools do not know it */
                     ? (aisim_l_scalar){AISIM_L_NIL, {.i = 0}}
                     : ms(event->u.transfer.end_ns);
        return 6;
    case EV(PLAY_START):
    case EV(PLAY_END):
        out[1] = integer(event->u.play.lane);
        out[2] = text(event->u.play.play);
        out[3] = text(event->type == EV(PLAY_END) ? event->u.play.status : NULL);
        return 4;
    case EV(PHASE):
        out[1] = text(event->u.phase.from);
        out[2] = text(event->u.phase.to);
        return 3;
    case EV(CHUNK):
        out[1] = integer(q->id);
        out[2] = number(event->rank);
        out[3] = integer(event->u.chunk.start);
        out[4] = integer(event->u.chunk.tokens);
        return 5;
    case EV(TOKENS):
        out[1] = integer(q->id);
        out[2] = number(event->rank);
        out[3] = integer(event->u.tokens.n);
        out[4] = integer(q->generated);
        return 5;
    default: /* internal events have no hook */
        break;
    }
    return 1;
}

/* core.hook_list() -> array of {name=, class=, view=, args={…}} in documented order */
static int l_hook_list(lua_State *L)
{
    static const char *const views[] = {NULL, "sim", "req", "pass"};
    lua_createtable(L, (int)aisim_l_hook_count, 0);
    for (unsigned i = 0; i < aisim_l_hook_count; i++) {
        const aisim_l_hook_info *info = &aisim_l_hook_infos[i];
        lua_createtable(L, 0, 4);
        lua_pushstring(L, info->name);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, info->price);
        lua_setfield(L, -2, "class");
        lua_pushstring(L, views[info->view]);
        lua_setfield(L, -2, "view");
        lua_newtable(L);
        for (int a = 0; info->args[a] != NULL; a++) {
            lua_pushstring(L, info->args[a]);
            lua_rawseti(L, -2, a + 1);
        }
        lua_setfield(L, -2, "args");
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

void aisim_l_hook_names_register(lua_State *L)
{
    static const luaL_Reg functions[] = {{"hook_list", l_hook_list}, {NULL, NULL}};
    luaL_setfuncs(L, functions, 0);
}
