/* sessions.c - the three generators; each draws in the order turns, group, lengths, times. */
#include "workload/sessions.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

enum { MEAN_TURNS = 100000 }; /* of one session: a bound on the estimate, not on the traffic */

/* ---- draws ----------------------------------------------------------------------------------- */

static bool draw(const aisim_draw *d, aisim_rng *rng, double *out, aisim_error *err)
{
    if (d->next != NULL) {
        return d->next(d->context, rng, out, err);
    }
    *out = d->constant;
    return true;
}

/* Rounded to the nearest whole number, at least `least`. */
static bool draw_count(const aisim_draw *d, aisim_session_state *s, uint32_t least,
                       const char *what, uint32_t *out, aisim_error *err)
{
    double x;
    if (!draw(d, &s->rng, &x, err)) {
        return false;
    }
    if (!(x >= 0 && x <= 2147483647.0)) {
        aisim_fail(err, AISIM_ERANGE, "%s: the distribution gave %f; 0 .. 2147483647 expected",
                   what, x);
        return false;
    }
    uint32_t n = (uint32_t)llround(x);
    *out = n < least ? least : n;
    return true;
}

static bool draw_wait(const aisim_draw *d, aisim_session_state *s, const char *what, int64_t *out,
                      aisim_error *err)
{
    double ms;
    if (!draw(d, &s->rng, &ms, err)) {
        return false;
    }
    if (!(ms >= 0 && isfinite(ms))) {
        aisim_fail(err, AISIM_ERANGE, "%s: the distribution gave %f; >= 0, finite expected", what,
                   ms);
        return false;
    }
    *out = aisim_ns_from_ms(ms);
    return true;
}

static bool draw_group(const aisim_session_groups *groups, aisim_session_state *s, uint64_t *name,
                       aisim_error *err)
{
    uint32_t group;
    if (!draw_count(&groups->group, s, 1, "prefix_groups", &group, err)) {
        return false;
    }
    *name = aisim_mix64(groups->name ^ group);
    return true;
}

static void *copy_of(const void *config, size_t size)
{
    void *copy = aisim_alloc(1, size);
    memcpy(copy, config, size);
    return copy;
}

/* ---- synthetic ------------------------------------------------------------------------------- */

static bool synthetic_next(void *context, aisim_session_state *s, uint32_t context_tokens,
                           aisim_turn *turn, aisim_error *err)
{
    const aisim_synthetic_session *c = context;
    (void)context_tokens;
    bool first = s->turn == 0;
    *turn = (aisim_turn){.keep_tokens = first ? 0 : AISIM_KEEP_ALL};
    if (first && !draw_count(&c->turns, s, 1, "turns", &s->turns, err)) {
        return false;
    }
    if (first && c->shared_prefix_ratio > 0) {
        turn->n_extents = 1;
        if (!draw_group(&c->prefix, s, &turn->extents[0].name, err)) {
            return false;
        }
    }
    if (!draw_count(&c->new_tokens, s, 1, "new_input_tokens_per_turn", &turn->new_tokens, err) ||
        !draw_count(&c->output_tokens, s, 1, "output_tokens_per_turn", &turn->output_tokens, err) ||
        (!first && !draw_wait(&c->think_ms, s, "inter_turn_delay_ms", &turn->wait_ns, err))) {
        return false;
    }
    if (turn->n_extents > 0) {
        uint32_t shared = (uint32_t)llround(c->shared_prefix_ratio * turn->new_tokens);
        turn->extents[0].tokens = shared;
        turn->new_tokens -= shared;
    }
    turn->last = s->turn + 1 >= s->turns;
    return true;
}

aisim_session_source aisim_session_synthetic(const aisim_synthetic_session *config)
{
    return (aisim_session_source){copy_of(config, sizeof *config), synthetic_next, aisim_free};
}

/* ---- agent ----------------------------------------------------------------------------------- */

static bool agent_next(void *context, aisim_session_state *s, uint32_t context_tokens,
                       aisim_turn *turn, aisim_error *err)
{
    const aisim_agent_session *c = context;
    bool first = s->turn == 0;
    *turn = (aisim_turn){.keep_tokens = first ? 0 : AISIM_KEEP_ALL};
    if (first) {
        turn->n_extents = c->system_tokens > 0;
        turn->extents[0].name = c->system;
        turn->extents[0].tokens = c->system_tokens;
        if (!draw_count(&c->steps, s, 1, "steps", &s->turns, err) ||
            !draw_count(&c->task_tokens, s, c->system_tokens > 0 ? 0 : 1, "task", &turn->new_tokens,
                        err)) {
            return false;
        }
    } else if (!draw_wait(&c->tool_ms, s, "tool_ms", &turn->wait_ns, err) ||
               !draw_count(&c->tool_tokens, s, 0, "tool_tokens", &turn->new_tokens, err)) {
        return false;
    }
    if (!draw_count(&c->output_tokens, s, 1, "output", &turn->output_tokens, err)) {
        return false;
    }
    uint64_t tokens = (uint64_t)context_tokens + turn->new_tokens;
    if (!first && c->compact_above_tokens > 0 && tokens > c->compact_above_tokens) {
        turn->keep_tokens = c->system_tokens; /* the tool result goes into the summary */
        turn->new_tokens = c->compact_to_tokens;
    }
    turn->last = s->turn + 1 >= s->turns;
    return true;
}

aisim_session_source aisim_session_agent(const aisim_agent_session *config)
{
    return (aisim_session_source){copy_of(config, sizeof *config), agent_next, aisim_free};
}

/* ---- agentic code ---------------------------------------------------------------------------- */

static bool agentic_first(const aisim_agentic_session *c, aisim_session_state *s, aisim_turn *turn,
                          aisim_error *err)
{
    if (c->global_tokens > 0) {
        turn->extents[turn->n_extents].name = c->global;
        turn->extents[turn->n_extents++].tokens = c->global_tokens;
    }
    uint64_t name = 0;
    if (c->group_tokens > 0 && !draw_group(&c->group, s, &name, err)) {
        return false;
    }
    if (c->group_tokens > 0) {
        turn->extents[turn->n_extents].name = name;
        turn->extents[turn->n_extents++].tokens = c->group_tokens;
    }
    return draw_count(&c->session_tokens, s, 0, "session_tokens", &turn->new_tokens, err);
}

static bool agentic_next(void *context, aisim_session_state *s, uint32_t context_tokens,
                         aisim_turn *turn, aisim_error *err)
{
    const aisim_agentic_session *c = context;
    (void)context_tokens;
    uint32_t added;
    bool first = s->turn == 0;
    *turn = (aisim_turn){.keep_tokens = first ? 0 : AISIM_KEEP_ALL};
    if (first && !agentic_first(c, s, turn, err)) {
        return false;
    }
    if (!draw_count(&c->new_tokens, s, 1, "new_tokens", &added, err) ||
        !draw_count(&c->output_tokens, s, 1, "output", &turn->output_tokens, err) ||
        (!first && !draw_wait(&c->think_ms, s, "think_ms", &turn->wait_ns, err))) {
        return false;
    }
    turn->new_tokens += added;
    double reset = aisim_rng_unit(&s->rng);
    double restart = aisim_rng_unit(&s->rng);
    turn->last = reset < c->reset || (c->max_turns > 0 && s->turn + 1 >= c->max_turns);
    turn->restart = !first && restart < c->restart;
    return true;
}

aisim_session_source aisim_session_agentic(const aisim_agentic_session *config)
{
    return (aisim_session_source){copy_of(config, sizeof *config), agentic_next, aisim_free};
}

/* ---- streams and means ----------------------------------------------------------------------- */

aisim_rng aisim_session_rng(uint64_t seed, const char *name, uint64_t number)
{
    aisim_rng rng = aisim_rng_named(seed, name);
    return (aisim_rng){aisim_mix64(rng.state ^ aisim_mix64(number))};
}

aisim_status aisim_session_mean_tokens(const aisim_session_source *source, uint64_t seed,
                                       const char *name, uint32_t n, double *tokens,
                                       aisim_error *err)
{
    char stream[256];
    double sum = 0.0;
    uint64_t turns = 0;
    snprintf(stream, sizeof stream, "%s/mean", name);
    for (uint32_t i = 1; i <= n; i++) {
        aisim_session_state s = {.rng = aisim_session_rng(seed, stream, i)};
        aisim_turn turn = {0};
        uint64_t context = 0;
        while (!turn.last && s.turn < MEAN_TURNS) {
            uint32_t known = context < UINT32_MAX ? (uint32_t)context : UINT32_MAX;
            if (!source->next(source->context, &s, known, &turn, err)) {
                return err->code;
            }
            uint64_t prompt = turn.keep_tokens < context ? turn.keep_tokens : context;
            for (uint32_t e = 0; e < turn.n_extents; e++) {
                prompt += turn.extents[e].tokens;
            }
            prompt += turn.new_tokens;
            context = prompt + turn.output_tokens;
            sum += (double)prompt + 0.5 * turn.output_tokens;
            turns++;
            s.turn++;
        }
    }
    *tokens = turns > 0 && sum > 0 ? sum / (double)turns : 1.0;
    return AISIM_OK;
}
