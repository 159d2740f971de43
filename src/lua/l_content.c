/* l_content.c - what prompts consist of, as scripts say it (spec/lua-api.md §5, §14.3).
 *
 * A *context* is a node of the content tree that grows: named extents (equal name = equal content
 * for everybody), private ones, answers. It owns one reference to the run of its node and one to
 * the run of its head, the leading named extents that compact keeps.
 *
 * A request's content is a list of named extents and a private rest, a list of block ids of a
 * trace, or a context. */
#include "lua/l_content.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/rng.h"

typedef struct l_context {
    aisim_l_sim *s;
    aisim_node node;
    aisim_node head; /* the leading named extents */
    bool named_only; /* the node is the head */
} l_context;

/* ---- references ------------------------------------------------------------------------------ */

static void release(aisim_l_sim *s, aisim_node node)
{
    if (node.run != AISIM_ROOT.run) {
        aisim_content_release(aisim_sim_content(s->sim), node.run);
    }
}

static void hold(aisim_l_sim *s, aisim_node node)
{
    if (node.run != AISIM_ROOT.run) {
        aisim_content_hold(aisim_sim_content(s->sim), node.run);
    }
}

void aisim_l_content_release(aisim_l_sim *s, aisim_node node)
{
    release(s, node);
}

/* Replaces *node, whose reference is given back, by an extension of it. */
static void extend_named(aisim_l_sim *s, aisim_node *node, const char *name, uint32_t tokens)
{
    aisim_node next =
        aisim_content_append_named(aisim_sim_content(s->sim), *node, aisim_hash_text(name), tokens);
    release(s, *node);
    *node = next;
}

static void extend_private(aisim_l_sim *s, aisim_node *node, uint32_t tokens)
{
    if (tokens > 0) {
        aisim_node next = aisim_content_append_private(aisim_sim_content(s->sim), *node, tokens);
        release(s, *node);
        *node = next;
    }
}

/* ---- content of one request ------------------------------------------------------------------ */

uint32_t aisim_l_check_tokens(lua_State *L, int arg, const char *what)
{
    int is_number;
    lua_Number x = lua_tonumberx(L, arg, &is_number);
    if (!is_number) {
        aisim_l_fail(L, "%s: number of tokens expected, got %s", what, luaL_typename(L, arg));
    }
    if (!(x >= 0 && x <= 2147483647.0)) {
        lua_pushvalue(L, arg);
        aisim_l_fail(L, "%s = %s: 0 .. 2147483647 tokens expected", what,
                     aisim_l_push_shown(L, -1));
    }
    return (uint32_t)llround(x);
}

/* {{"system", 1000}, …}: checked as a whole before the first node is made, since raising would lose
 * its reference. */
static uint64_t check_extents(lua_State *L, int list)
{
    uint64_t sum = 0;
    lua_Unsigned n = lua_rawlen(L, list);
    for (lua_Unsigned i = 1; i <= n; i++) {
        if (lua_rawgeti(L, list, (lua_Integer)i) != LUA_TTABLE) {
            aisim_l_fail(L, "content[%d]: { name, tokens } expected, got %s", (int)i,
                         luaL_typename(L, -1));
        }
        if (lua_rawgeti(L, -1, 1) != LUA_TSTRING) {
            aisim_l_fail(L, "content[%d]: name expected, got %s", (int)i, luaL_typename(L, -1));
        }
        lua_rawgeti(L, -2, 2);
        sum += aisim_l_check_tokens(L, -1, "content");
        lua_pop(L, 3);
    }
    return sum;
}

static aisim_node make_extents(lua_State *L, aisim_l_sim *s, int list)
{
    aisim_node node = AISIM_ROOT;
    lua_Unsigned n = lua_rawlen(L, list);
    for (lua_Unsigned i = 1; i <= n; i++) {
        lua_rawgeti(L, list, (lua_Integer)i);
        lua_rawgeti(L, -1, 1);
        lua_rawgeti(L, -2, 2);
        uint32_t tokens = (uint32_t)llround(lua_tonumber(L, -1));
        if (tokens > 0) {
            extend_named(s, &node, lua_tostring(L, -2), tokens);
        }
        lua_pop(L, 3);
    }
    return node;
}

/* { hash_ids = {…}, block_size = 64, tokens = n }; the ids must be whole numbers >= 0 */
static aisim_node make_ids(lua_State *L, aisim_l_sim *s, int table, uint32_t *prompt_tokens,
                           bool given)
{
    lua_getfield(L, table, "block_size");
    uint32_t block = aisim_l_check_tokens(L, -1, "content.block_size");
    if (block == 0) {
        aisim_l_fail(L, "content.block_size = 0: must be >= 1");
    }
    lua_getfield(L, table, "hash_ids");
    luaL_checktype(L, -1, LUA_TTABLE);
    int list = lua_gettop(L);
    uint32_t n = (uint32_t)lua_rawlen(L, list);
    uint64_t capacity = (uint64_t)n * block;
    uint64_t tokens = capacity;
    if (lua_getfield(L, table, "tokens") != LUA_TNIL) {
        tokens = aisim_l_check_tokens(L, -1, "content.tokens");
    }
    if (given && *prompt_tokens < tokens) {
        aisim_l_fail(L, "content has %d tokens, prompt_tokens = %d", (int)tokens,
                     (int)*prompt_tokens);
    }
    aisim_id_run *runs = lua_newuserdatauv(L, (n + 1) * sizeof *runs, 0);
    uint32_t n_runs = 0;
    for (uint32_t i = 0; i < n; i++) {
        lua_rawgeti(L, list, (lua_Integer)i + 1);
        int is_integer;
        lua_Integer id = lua_tointegerx(L, -1, &is_integer);
        if (!is_integer) {
            aisim_l_fail(L, "content.hash_ids[%d]: whole number expected, got %s", (int)i + 1,
                         luaL_tolstring(L, -1, NULL));
        }
        if (n_runs > 0 && runs[n_runs - 1].first + runs[n_runs - 1].count == (uint64_t)id) {
            runs[n_runs - 1].count++;
        } else {
            runs[n_runs++] = (aisim_id_run){(uint64_t)id, 1};
        }
        lua_pop(L, 1);
    }
    uint32_t shared = (uint32_t)(tokens < capacity ? tokens : capacity);
    aisim_node node = AISIM_ROOT;
    if (shared > 0) {
        node = aisim_content_append_ids(aisim_sim_content(s->sim), AISIM_ROOT, runs, n_runs, block,
                                        shared);
    }
    if (!given) {
        *prompt_tokens = (uint32_t)tokens;
    }
    return node;
}

aisim_node aisim_l_make_content(lua_State *L, aisim_l_sim *s, int index, uint32_t *prompt_tokens,
                                bool given)
{
    index = lua_absindex(L, index);
    int top = lua_gettop(L);
    const l_context *ctx = luaL_testudata(L, index, AISIM_L_CONTEXT);
    aisim_node node = AISIM_ROOT;
    if (ctx != NULL) {
        if (ctx->s != s) {
            aisim_l_fail(L, "the context belongs to another simulation");
        }
        if (given && *prompt_tokens < ctx->node.tokens) {
            aisim_l_fail(L, "the context has %d tokens, prompt_tokens = %d", (int)ctx->node.tokens,
                         (int)*prompt_tokens);
        }
        node = ctx->node;
        hold(s, node);
    } else if (lua_istable(L, index) && lua_getfield(L, index, "hash_ids") != LUA_TNIL) {
        node = make_ids(L, s, index, prompt_tokens, given);
    } else if (lua_istable(L, index)) {
        uint64_t sum = check_extents(L, index);
        if (sum > UINT32_MAX / 2 || (given && sum > *prompt_tokens)) {
            aisim_l_fail(L, "content has %I tokens, prompt_tokens = %d", (LUAI_UACINT)sum,
                         (int)*prompt_tokens);
        }
        node = make_extents(L, s, index);
    } else if (!lua_isnoneornil(L, index)) {
        aisim_l_fail(L,
                     "content: list of { name, tokens }, { hash_ids = … } or a context expected, "
                     "got %s",
                     luaL_typename(L, index));
    }
    if (!given) {
        *prompt_tokens = node.tokens > *prompt_tokens ? node.tokens : *prompt_tokens;
    }
    extend_private(s, &node, *prompt_tokens - node.tokens);
    lua_settop(L, top);
    return node;
}

/* ---- contexts -------------------------------------------------------------------------------- */

static l_context *check(lua_State *L)
{
    l_context *ctx = luaL_checkudata(L, 1, AISIM_L_CONTEXT);
    if (ctx->s->sim == NULL) {
        aisim_l_fail(L, "the simulation has been closed");
    }
    return ctx;
}

static l_context *push_context(lua_State *L, aisim_l_sim *s)
{
    l_context *ctx = lua_newuserdatauv(L, sizeof *ctx, 1);
    *ctx = (l_context){s, AISIM_ROOT, AISIM_ROOT, true};
    luaL_setmetatable(L, AISIM_L_CONTEXT);
    aisim_l_push_self(L, s);
    lua_setiuservalue(L, -2, 1);
    return ctx;
}

void aisim_l_push_context(lua_State *L, aisim_l_sim *s)
{
    push_context(L, s);
}

static void set_node(l_context *ctx, aisim_node *slot, aisim_node node)
{
    hold(ctx->s, node);
    release(ctx->s, *slot);
    *slot = node;
}

void aisim_l_context_answer(lua_State *L, int index, aisim_node asked, aisim_node answered)
{
    l_context *ctx = luaL_checkudata(L, index, AISIM_L_CONTEXT);
    if (answered.tokens <= asked.tokens) {
        return;
    }
    ctx->named_only = false;
    if (ctx->node.run == asked.run && ctx->node.tokens == asked.tokens) {
        set_node(ctx, &ctx->node, answered);
    } else { /* it has grown meanwhile, for example in a fork */
        extend_private(ctx->s, &ctx->node, answered.tokens - asked.tokens);
    }
}

aisim_node aisim_l_context_node(lua_State *L, int index)
{
    const l_context *ctx = luaL_checkudata(L, index, AISIM_L_CONTEXT);
    return ctx->node;
}

static void check_room(lua_State *L, const l_context *ctx, uint32_t tokens)
{
    if (ctx->node.tokens > UINT32_MAX / 2 - tokens) {
        aisim_l_fail(L, "context: more than 2^31 tokens");
    }
}

/* ctx:append(name, tokens) */
static int context_append(lua_State *L)
{
    l_context *ctx = check(L);
    if (lua_type(L, 2) != LUA_TSTRING) {
        return aisim_l_fail(L, "context:append: name expected, got %s", luaL_typename(L, 2));
    }
    uint32_t tokens = aisim_l_check_tokens(L, 3, "context:append");
    check_room(L, ctx, tokens);
    if (tokens > 0) {
        extend_named(ctx->s, &ctx->node, lua_tostring(L, 2), tokens);
        if (ctx->named_only) {
            set_node(ctx, &ctx->head, ctx->node);
        }
    }
    lua_settop(L, 1);
    return 1;
}

/* ctx:append_unique(tokens) */
static int context_append_unique(lua_State *L)
{
    l_context *ctx = check(L);
    uint32_t tokens = aisim_l_check_tokens(L, 2, "context:append_unique");
    check_room(L, ctx, tokens);
    extend_private(ctx->s, &ctx->node, tokens);
    ctx->named_only = ctx->named_only && tokens == 0;
    lua_settop(L, 1);
    return 1;
}

/* ctx:compact(tokens): the head stays, the rest becomes a new private summary */
static int context_compact(lua_State *L)
{
    l_context *ctx = check(L);
    uint32_t tokens = aisim_l_check_tokens(L, 2, "context:compact");
    set_node(ctx, &ctx->node, ctx->head);
    check_room(L, ctx, tokens);
    extend_private(ctx->s, &ctx->node, tokens);
    ctx->named_only = tokens == 0;
    lua_settop(L, 1);
    return 1;
}

/* ctx:copy(): a branch; both may grow apart */
static int context_copy(lua_State *L)
{
    l_context *ctx = check(L);
    l_context *copy = push_context(L, ctx->s);
    set_node(copy, &copy->node, ctx->node);
    set_node(copy, &copy->head, ctx->head);
    copy->named_only = ctx->named_only;
    return 1;
}

static int context_index(lua_State *L)
{
    lua_pushvalue(L, 2);
    if (lua_rawget(L, lua_upvalueindex(1)) != LUA_TNIL) {
        return 1;
    }
    l_context *ctx = check(L);
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (strcmp(key, "tokens") == 0) {
        lua_pushinteger(L, ctx->node.tokens);
    } else if (strcmp(key, "head_tokens") == 0) {
        lua_pushinteger(L, ctx->head.tokens);
    } else {
        return aisim_l_unknown_field(L, lua_upvalueindex(1), "context");
    }
    return 1;
}

static int context_gc(lua_State *L)
{
    l_context *ctx = luaL_checkudata(L, 1, AISIM_L_CONTEXT);
    if (ctx->s->sim != NULL) {
        release(ctx->s, ctx->node);
        release(ctx->s, ctx->head);
    }
    ctx->node = ctx->head = AISIM_ROOT;
    return 0;
}

static int context_tostring(lua_State *L)
{
    const l_context *ctx = luaL_checkudata(L, 1, AISIM_L_CONTEXT);
    lua_pushfstring(L, "context of %d tokens", (int)ctx->node.tokens);
    return 1;
}

/* sim:context() */
static int sim_context(lua_State *L)
{
    push_context(L, aisim_l_check_sim(L, 1));
    return 1;
}

void aisim_l_content_register(lua_State *L)
{
    static const luaL_Reg methods[] = {{"append", context_append},
                                       {"append_unique", context_append_unique},
                                       {"compact", context_compact},
                                       {"copy", context_copy},
                                       {NULL, NULL}};
    static const aisim_l_class class_ = {AISIM_L_CONTEXT,  methods,   context_index, NULL,
                                         context_tostring, context_gc};
    aisim_l_class_register(L, &class_);
    aisim_l_extend(L, "aisim.Sim", (const luaL_Reg[]){{"context", sim_context}, {NULL, NULL}});
}
