/* synthetic.c - draws plays (traffic 4.3). Numbers of steps below are those of that section.
 *
 * Content: a play hands out block ids in order, 0, 1, …; a prompt is a list of them in run-length
 * form. What a turn keeps of the one before it is a number of leading full blocks; everything
 * behind them gets new ids. A prompt that ends inside a block has no id for that block, unless
 * whole_blocks fills it up: then the filled block has an id that nobody repeats.
 * Times are whole milliseconds, so that a corpus written as text reads back the same. */
#include "workload/synthetic.h"

#include <math.h>
#include <stdio.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/rng.h"

typedef struct generator {
    const aisim_synthetic_config *config;
    aisim_rng sizes, times, agents;
    AISIM_ARRAY(aisim_weka_request) requests;
    AISIM_ARRAY(aisim_weka_group) groups;
    AISIM_ARRAY(aisim_id_run) ids;
    uint64_t next_id;
    uint32_t outer;
} generator;

/* The prompt a turn sends, as a list of ids and an exact size. */
typedef struct history {
    uint32_t id_first, id_runs; /* full blocks only, into ids */
    double tokens;
} history;

/* ---- draws ---- */

static double law(aisim_rng *rng, const double parameters[2])
{
    return exp(parameters[0] + parameters[1] * aisim_rng_normal(rng));
}

static double between(aisim_rng *rng, const double range[2])
{
    return range[0] + (range[1] - range[0]) * aisim_rng_unit(rng);
}

static double clip(double value, const double range[2])
{
    return value < range[0] ? range[0] : value > range[1] ? range[1] : value;
}

static bool happens(aisim_rng *rng, double share)
{
    return aisim_rng_unit(rng) < share;
}

/* Poisson by counting exponential gaps; negative binomial as its gamma mixture. */
static uint32_t negative_binomial(aisim_rng *rng, double mean, double shape)
{
    double rate = mean <= 0 ? 0 : aisim_rng_gamma(rng, shape) * mean / shape;
    uint32_t n = 0;
    for (double at = aisim_rng_exponential(rng, 1); at < rate && n < 1000000;
         at += aisim_rng_exponential(rng, 1)) {
        n++;
    }
    return n;
}

static int64_t whole_ms(double seconds)
{
    return (int64_t)llround(seconds * 1e3) * AISIM_NS_PER_MS;
}

static uint32_t tokens(double value)
{
    double whole = floor(value + 0.5);
    return whole < 1 ? 1 : (uint32_t)whole;
}

/* step 3 */
static uint32_t draw_output(const aisim_synthetic_config *c, aisim_rng *rng)
{
    bool usual = happens(rng, c->output_share);
    double n = law(rng, usual ? c->output : c->output_long);
    return (uint32_t)floor(clip(n, c->output_range) + 0.5);
}

/* step 5: the wait before the next request */
static int64_t draw_gap(generator *g, bool tool)
{
    const aisim_synthetic_config *c = g->config;
    double gap = law(&g->times, tool ? c->tool_gap_s : c->turn_gap_s);
    gap = gap < c->gap_min_s ? c->gap_min_s : gap;
    return whole_ms(gap > 1e6 ? 1e6 : gap); /* times of a play must stay below 2^31 s */
}

static int64_t draw_api(generator *g, uint32_t input, uint32_t output)
{
    const aisim_synthetic_config *c = g->config;
    if (c->api == AISIM_API_LINEAR) {
        return whole_ms(c->api_base_s + c->api_per_output_s * output + input / c->api_input_per_s);
    }
    double api = law(&g->times, c->api_s);
    return whole_ms(api > 1e6 ? 1e6 : api);
}

/* ---- content ---- */

static void push_ids(generator *g, uint32_t from, uint64_t first, uint64_t count)
{
    if (count == 0) {
        return;
    }
    if (g->ids.len > from) {
        aisim_id_run *last = &g->ids.data[g->ids.len - 1];
        if (last->first + last->count == first) {
            last->count += count;
            return;
        }
    }
    aisim_array_push(&g->ids, (aisim_id_run){first, count});
}

/* A prompt of `size` tokens whose first keep blocks are those of `old`. */
static history follow(generator *g, const history *old, uint64_t keep, double size)
{
    uint64_t blocks = (uint64_t)size / g->config->block_size;
    history next = {.id_first = g->ids.len, .tokens = size};
    keep = keep < blocks ? keep : blocks;
    uint64_t left = keep;
    for (uint32_t i = 0; i < old->id_runs && left > 0; i++) {
        aisim_id_run run = g->ids.data[old->id_first + i];
        uint64_t n = run.count < left ? run.count : left;
        push_ids(g, next.id_first, run.first, n);
        left -= n;
    }
    push_ids(g, next.id_first, g->next_id, blocks - keep + left);
    g->next_id += blocks - keep + left;
    next.id_runs = g->ids.len - next.id_first;
    return next;
}

static uint64_t full_blocks(const generator *g, const history *h)
{
    return (uint64_t)h->tokens / g->config->block_size;
}

/* One request with the prompt h. @return its end */
static int64_t add_request(generator *g, const history *h, int64_t start_ns, uint32_t output,
                           uint32_t group, uint32_t inner)
{
    uint32_t block = g->config->block_size;
    uint32_t input = tokens(h->tokens);
    aisim_weka_request r = {.start_ns = start_ns,
                            .input_tokens = input,
                            .output_tokens = output,
                            .outer = g->outer,
                            .inner = inner,
                            .group = group,
                            .id_first = h->id_first,
                            .id_runs = h->id_runs,
                            .id_count = input / block};
    if (g->config->whole_blocks && input % block != 0) { /* a copy with one more id */
        r.id_first = g->ids.len;
        for (uint32_t i = 0; i < h->id_runs; i++) {
            aisim_id_run run = g->ids.data[h->id_first + i];
            aisim_array_push(&g->ids, run);
        }
        push_ids(g, r.id_first, g->next_id + 1, 1); /* + 1: never joins a run that goes on */
        g->next_id += 2;
        r.id_runs = g->ids.len - r.id_first;
        r.id_count = input / block + 1;
        r.input_tokens = r.id_count * block;
    }
    r.api_ns = draw_api(g, r.input_tokens, output);
    aisim_array_push(&g->requests, r);
    return start_ns + r.api_ns;
}

/* step 4: the prompt after this one */
static history next_prompt(generator *g, const history *h, double output, double prefix,
                           double window)
{
    const aisim_synthetic_config *c = g->config;
    aisim_rng *rng = &g->sizes;
    uint64_t kept_prefix = (uint64_t)prefix / c->block_size;
    double add = 0;
    if (!happens(rng, c->add_none_share)) {
        add = law(rng, c->add);
        add = floor((add < c->add_max ? add : c->add_max) + 0.5);
    }
    double next = h->tokens + output + add;
    if (next > window) { /* compaction */
        double kept = between(rng, c->compact_keep) * h->tokens;
        return follow(g, h, kept_prefix, floor(prefix + kept));
    }
    if (happens(rng, c->reset_share)) {
        if (!happens(rng, c->reset_same_size_share)) {
            double size = between(rng, c->reset_size) * h->tokens;
            next = floor(size > prefix + c->reset_min ? size : prefix + c->reset_min);
        }
        return follow(g, h, kept_prefix, next);
    }
    uint64_t keep = full_blocks(g, h);
    if (happens(rng, c->tail_share)) {
        uint64_t lost = 1 + aisim_rng_below(rng, 2);
        keep = keep > lost ? keep - lost : 0;
    }
    return follow(g, h, keep, next);
}

/* ---- subagents (step 6) -------------------------------------------------------------------- */

/* One group that starts at at_ns. @return the end of its last request */
static int64_t add_group(generator *g, int64_t at_ns, bool blocking)
{
    const aisim_synthetic_config *c = g->config;
    aisim_rng *rng = &g->agents;
    uint32_t index = g->groups.len;
    uint32_t n = 2 + negative_binomial(rng, c->group_requests_mean, c->group_requests_shape);
    history none = {0};
    double first = floor(law(rng, c->group_prompt) + 0.5);
    history h = follow(g, &none, 0, first > 1 ? first : 1);
    aisim_array_push(
        &g->groups, (aisim_weka_group){.start_ns = at_ns, .outer = g->outer, .blocking = blocking});
    int64_t start = at_ns;
    int64_t end = at_ns;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t output = draw_output(c, rng);
        end = add_request(g, &h, start, output, index, i);
        double growth = aisim_rng_exponential(rng, c->group_growth);
        double size = h.tokens + floor(growth > output ? growth : output);
        size = size < c->wide_window ? size : h.tokens;
        h = follow(g, &h, full_blocks(g, &h), size);
        start = end + draw_gap(g, true);
    }
    g->groups.data[index].duration_ns = end - at_ns;
    g->outer++;
    return end;
}

/* Groups that a turn ending at end_ns spawns. @return when the parent may go on */
static int64_t spawn(generator *g, int64_t end_ns)
{
    const aisim_synthetic_config *c = g->config;
    double weight = 0;
    for (int i = 0; i < 4; i++) {
        weight += c->group_counts[i];
    }
    double u = aisim_rng_unit(&g->agents) * weight;
    uint32_t n = 1;
    for (double sum = c->group_counts[0]; n < 4 && u >= sum; n++) {
        sum += c->group_counts[n];
    }
    int64_t wait_ns = end_ns;
    for (uint32_t i = 0; i < n; i++) {
        bool blocking = happens(&g->agents, c->blocking_share);
        int64_t done = add_group(g, end_ns, blocking);
        wait_ns = blocking && done > wait_ns ? done : wait_ns;
    }
    return wait_ns;
}

/* ---- plays ---- */

/* step 7: no block of it comes back. @return its end */
static int64_t add_preamble(generator *g)
{
    history none = {0};
    double size = floor(between(&g->sizes, g->config->preamble_input));
    uint32_t output = (uint32_t)floor(between(&g->sizes, g->config->preamble_output));
    history h = follow(g, &none, 0, size);
    int64_t end = add_request(g, &h, 0, output, AISIM_NONE, AISIM_NONE);
    g->outer++;
    return end;
}

/* steps 1 and 2, then turn by turn */
static void draw_play(generator *g, aisim_weka_play *out)
{
    const aisim_synthetic_config *c = g->config;
    aisim_rng *rng = &g->sizes;
    bool fresh = happens(rng, c->fresh_share);
    double turns = law(rng, fresh ? c->fresh_turns : c->resumed_turns);
    double first = law(rng, fresh ? c->fresh_prompt : c->resumed_prompt);
    uint32_t n = (uint32_t)floor(clip(turns, c->turns_range) + 0.5);
    first = floor(clip(first, c->prompt_range) + 0.5);
    double window = between(rng, c->window);
    if (happens(rng, c->wide_share) || first > window) {
        window = c->wide_window;
    }
    double prefix = c->prefix_mean + c->prefix_sd * aisim_rng_normal(rng);
    prefix = prefix < c->prefix_min ? c->prefix_min : prefix;
    prefix = prefix < c->prefix_share_max * first ? prefix : c->prefix_share_max * first;
    prefix -= fmod(floor(prefix), c->block_size) + (prefix - floor(prefix));
    out->tool_tokens = (uint32_t)(0.8 * prefix);
    out->system_tokens = (uint32_t)prefix - out->tool_tokens;
    bool preamble = happens(rng, c->preamble_share);
    bool spawns = happens(&g->agents, c->subagent_play_share);
    int64_t start = preamble ? add_preamble(g) : 0;
    history none = {0};
    history h = follow(g, &none, 0, first);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t output = draw_output(c, rng);
        int64_t end = add_request(g, &h, start, output, AISIM_NONE, AISIM_NONE);
        g->outer++;
        if (i + 1 == n) {
            break;
        }
        bool tool = happens(&g->times, c->tool_share);
        h = next_prompt(g, &h, output, prefix, window);
        int64_t gap = draw_gap(g, tool);
        if (tool && spawns && happens(&g->agents, c->spawn_share)) {
            end = spawn(g, end);
        }
        start = end + gap;
    }
}

static aisim_rng stream(const aisim_synthetic_config *c, uint32_t play, const char *part)
{
    char name[64];
    snprintf(name, sizeof name, "agentx_synthetic/%u/%s", play, part);
    return aisim_rng_named(c->seed, name);
}

aisim_status aisim_synthetic_plays(const aisim_synthetic_config *config, aisim_corpus *corpus,
                                   aisim_error *err)
{
    aisim_status status = aisim_synthetic_config_check(config, err);
    for (uint32_t i = 0; i < config->plays && status == AISIM_OK; i++) {
        generator g = {.config = config,
                       .sizes = stream(config, i, "sizes"),
                       .times = stream(config, i, "times"),
                       .agents = stream(config, i, "agents")};
        aisim_weka_play play = {.block_size = config->block_size, .line = (int)i + 1};
        draw_play(&g, &play);
        char id[64];
        snprintf(id, sizeof id, "synthetic-%llu-%06u", (unsigned long long)config->seed, i);
        play.id = aisim_strdup(id);
        play.file = aisim_strdup("agentx_synthetic");
        play.models = aisim_alloc(1, sizeof *play.models);
        play.models[0] = aisim_strdup("synthetic");
        play.n_models = 1;
        play.requests = g.requests.data;
        play.n_requests = g.requests.len;
        play.groups = g.groups.data;
        play.n_groups = g.groups.len;
        play.ids = aisim_realloc(g.ids.data, g.ids.len, sizeof *g.ids.data);
        play.n_ids = g.ids.len;
        status = aisim_corpus_add_play(corpus, &play, err);
    }
    return status;
}
