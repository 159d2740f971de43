/* compare_make.c - random cases: small pools, small alphabets, prompts that have much in common.
 *
 * What matters is what prompts share: alphabets of one to three ids, repeats, sessions that extend
 * an earlier prompt and its planned outputs, prompts that leave another one anywhere in a block,
 * and planned outputs that run into another prompt. A feature that is off costs no draw of the
 * others. */
#include "compare.h"

#include <string.h>

#include "base/rng.h"

typedef struct maker {
    compare_case *c;
    aisim_rng rng;
    uint64_t features;
    uint32_t longest;    /* prompt tokens */
    uint32_t alphabet;   /* ids */
    uint32_t horizon;    /* passes over which requests arrive */
    bool squeeze;        /* short prompts, long outputs, several at once: preemptions */
    bool steady;         /* long decodes */
    bool handoff;        /* some requests are sources or destinations */
    bool silent;         /* the next output is empty (E-P16) */
    uint64_t next_fresh; /* ids that occur once */
} maker;

static uint32_t below(maker *m, uint32_t n)
{
    return (uint32_t)aisim_rng_below(&m->rng, n);
}

static uint32_t between(maker *m, uint32_t low, uint32_t high)
{
    return low + below(m, high - low + 1);
}

static bool chance(maker *m, uint32_t percent)
{
    return below(m, 100) < percent;
}

static bool with(maker *m, compare_feature feature, uint32_t percent)
{
    return (m->features >> feature & 1) != 0 && chance(m, percent);
}

/* ---- configuration --------------------------------------------------------------------------- */

static uint32_t make_budget(maker *m)
{
    switch (below(m, 6)) {
    case 0:
        return between(m, 1, 4);
    case 1:
        return between(m, 1, m->c->config.kv.block_size + 2);
    case 2:
    case 3:
        return between(m, 4, 24);
    case 4:
        return between(m, 24, 100);
    default:
        return 1000;
    }
}

static uint32_t make_blocks(maker *m)
{
    uint32_t b = m->c->config.kv.block_size;
    uint32_t one = (m->longest + b - 1) / b;
    if (m->squeeze) {
        return one + between(m, 1, 24 / b + one);
    }
    switch (below(m, 8)) {
    case 0:
        return between(m, 1, one + 1); /* some never fit */
    case 1:
    case 2:
        return one + below(m, 3);
    case 3:
    case 4:
    case 5:
        return one + between(m, 1, one + 2);
    case 6:
        return 2 * one + below(m, 2 * one + 2);
    default:
        return 8 * one + 20; /* no pressure */
    }
}

static void make_state(maker *m)
{
    aisim_kv_config *kv = &m->c->config.kv;
    bool aligned = with(m, COMPARE_WITH_state_aligned, 20);
    if (!aligned && !with(m, COMPARE_WITH_state_latest, 20)) {
        return;
    }
    kv->state_mode = aligned ? AISIM_STATE_ALIGNED : AISIM_STATE_LATEST;
    kv->state_blocks = between(m, 1, 3);
    kv->blocks += 3 * kv->state_blocks;
    if (!aligned) {
        return;
    }
    if (chance(m, 50)) {
        for (uint32_t u = between(m, 1, kv->block_size); u >= 1; u--) {
            if (kv->block_size % u == 0) {
                kv->prefix_match_unit = u;
                break;
            }
        }
    }
    kv->align_split = (aisim_align_split)below(m, 3);
    kv->checkpoints = (aisim_checkpoints)chance(m, 30);
    kv->same_pass_hit = (aisim_same_pass_hit)chance(m, 30);
}

static void make_speculation(maker *m)
{
    aisim_speculation_config *config = &m->c->config.speculation;
    bool native = with(m, COMPARE_WITH_mtp_native, 20);
    if (!native && !with(m, COMPARE_WITH_mtp_burst, 20)) {
        return;
    }
    static const double rates[] = {0.0, 1.0, 0.5, 0.8};
    config->mode = native ? AISIM_SPECULATION_NATIVE : AISIM_SPECULATION_BURST;
    config->depth = between(m, 1, 3);
    for (uint32_t i = 0; i < config->depth; i++) {
        config->acceptance_rates[i] = rates[below(m, 4)];
    }
    config->seed = below(m, 1000);
    config->stream = (aisim_draw_stream)chance(m, 30);
    config->drop_matched_block = chance(m, 70);
    config->lookahead_slots = chance(m, 70) ? config->depth : below(m, config->depth + 1);
    config->first_chunk_lookahead = native && chance(m, 30);
    config->pad_first_decode = native && chance(m, 30);
    m->c->config.kv.prefix_match_unit = 0; /* refused together */
}

/* A host tier: transfers of some blocks take about as long as a pass. Rates divide the bytes of a
 * block, so that private lanes have whole nanoseconds. */
static void make_tier(maker *m)
{
    static const double rates[] = {0.0, 0.25, 0.5, 0.5, 1.0, 1.0, 2.0};
    static const uint32_t passes[] = {100, 500, 1000, 2000, 5000, 20000};
    aisim_rank_config *config = &m->c->config;
    aisim_host_config *h = &config->host;
    bool alone = with(m, COMPARE_WITH_host, 30);
    if (!alone && !with(m, COMPARE_WITH_host_shared, 25)) {
        return;
    }
    h->scope = alone ? AISIM_HOST_RANK_LOCAL : AISIM_HOST_CLUSTER_SHARED;
    h->blocks = chance(m, 70) ? between(m, 1, 2 * m->longest / config->kv.block_size + 4) : 1000;
    h->d2h_gbps = rates[below(m, 7)];
    h->h2d_gbps = rates[below(m, 7)];
    h->shared_d2h_gbps = rates[below(m, 7)];
    h->shared_h2d_gbps = rates[below(m, 7)];
    h->latency_ms = chance(m, 30) ? 0.0005 * between(m, 1, 6) : 0.0;
    h->touch_prompt_on_lookup = chance(m, 60);
    h->touch_prompt_on_store = chance(m, 60);
    h->drop_applies_to_loads = chance(m, 60);
    h->tie_break = chance(m, 75) ? AISIM_TIE_DEEPEST_FIRST : AISIM_TIE_LISTED;
    h->refresh_on_load = chance(m, 75);
    config->kv.prefix_caching = true;
    config->kv.bytes_per_token = 250.0;
    config->kv.state_mode = AISIM_STATE_NONE;
    config->kv.state_blocks = 0;
    config->kv.prefix_match_unit = 0;
    config->scheduler.overlap = AISIM_OVERLAP_NONE;
    m->c->connector = 0;
    m->c->pass_ns = passes[below(m, 6)];
    m->c->gap_ns = passes[below(m, 6)];
}

/* What the other client of a shared pool does. */
static void make_peers(maker *m)
{
    for (uint32_t n = between(m, 0, 12); n > 0; n--) {
        uint32_t first = below(m, 6);
        compare_peer p = {.pass = below(m, 60),
                          .request = below(m, m->c->requests.len),
                          .first = chance(m, 60) ? 0 : first,
                          .load = chance(m, 40),
                          .in_flight = chance(m, 40)};
        p.end = p.first + between(m, 1, 8);
        aisim_array_push(&m->c->peers, p);
    }
}

static void make_config(maker *m)
{
    static const uint32_t sizes[] = {2, 2, 3, 4, 4, 4, 5, 6, 7, 8, 8, 16};
    aisim_rank_config *config = &m->c->config;
    aisim_scheduler_config *s = &config->scheduler;
    aisim_rank_config_default(config);
    config->kv.block_size = sizes[below(m, m->squeeze ? 7 : sizeof sizes / sizeof *sizes)];
    config->kv.blocks = make_blocks(m);
    config->kv.prefix_caching = !with(m, COMPARE_WITH_uncached, 12);
    s->max_batched_tokens = make_budget(m);
    s->max_sequences = between(m, m->squeeze ? 3 : 1, 8);
    s->chunked_prefill = !with(m, COMPARE_WITH_unchunked, 20);
    if (with(m, COMPARE_WITH_context_limit, 30)) {
        s->context_length = between(m, 2 + m->longest / 2, m->longest + 20);
    }
    if (!s->chunked_prefill && s->context_length > s->max_batched_tokens) {
        s->max_batched_tokens = (uint32_t)s->context_length + below(m, 10); /* engine.md §2 */
    }
    if (with(m, COMPARE_WITH_priority, 30)) {
        s->policy = AISIM_POLICY_PRIORITY;
    }
    if (with(m, COMPARE_WITH_fifo, m->squeeze ? 60 : 35)) {
        s->preemption = AISIM_PREEMPTION_FIFO;
    }
    if (with(m, COMPARE_WITH_watermark, 20)) {
        s->watermark = 0.05 * between(m, 1, 10);
    }
    if (with(m, COMPARE_WITH_never_fits_wait, 10)) {
        s->never_fits = AISIM_NEVER_FITS_WAIT;
    }
    if (with(m, COMPARE_WITH_charge_chunk, 25)) {
        s->reserve_full_prompt = false;
    }
    if (with(m, COMPARE_WITH_prefill_threshold, 20)) {
        s->long_prefill_token_threshold = between(m, 1, 20);
    }
    s->admit_at_zero_budget = !with(m, COMPARE_WITH_stop_at_zero, 25);
    if (with(m, COMPARE_WITH_self_ends_pass, 25)) {
        s->self_preemption = AISIM_SELF_PREEMPTION_END_PASS;
    }
    s->preempting_pass_limit = chance(m, 50) ? between(m, 1, 4) : 10000;
    if (with(m, COMPARE_WITH_waves, 20)) {
        m->c->waves = true;
        config->group_ranks = between(m, 1, 3);
        s->prefill_schedule_interval = between(m, 1, 5);
    }
    m->handoff = with(m, COMPARE_WITH_handoff, 20);
    if (with(m, COMPARE_WITH_pipelined, 10)) {
        s->overlap = AISIM_OVERLAP_PIPELINED;
    } else if (with(m, COMPARE_WITH_async, 10)) {
        s->overlap = AISIM_OVERLAP_ASYNC;
    }
    make_state(m);
    if (s->overlap == AISIM_OVERLAP_NONE) {
        make_speculation(m);
    } else {
        m->handoff = false; /* a plan in vain between two passes: no rule says when to retry */
    }
    if (config->kv.state_mode == AISIM_STATE_NONE && with(m, COMPARE_WITH_connector, 5)) {
        m->c->connector = between(m, 1, 12);
    }
}

/* ---- content --------------------------------------------------------------------------------- */

static void push(compare_tokens *list, uint64_t token)
{
    aisim_array_push(list, token);
}

/* n tokens: of the alphabet, an ascending stretch, or ids that occur nowhere else. */
static void push_random(maker *m, compare_tokens *list, uint32_t n)
{
    uint32_t style = below(m, 10);
    uint64_t from = 100 + below(m, 12);
    for (uint32_t i = 0; i < n; i++) {
        if (style < 6) {
            push(list, 1 + below(m, m->alphabet));
        } else if (style < 9) {
            push(list, from + i);
        } else {
            push(list, m->next_fresh++);
        }
    }
}

static uint64_t token_at(const compare_request *r, uint32_t i)
{
    return i < r->prompt.len ? r->prompt.data[i] : r->planned.data[i - r->prompt.len];
}

/* The first n tokens of an earlier request and of its planned outputs. */
static void push_from(compare_tokens *list, const compare_request *r, uint32_t n)
{
    uint32_t known = r->prompt.len + r->planned.len;
    for (uint32_t i = 0; i < n && i < known; i++) {
        push(list, token_at(r, i));
    }
}

static compare_request *earlier(maker *m, uint32_t *index)
{
    *index = below(m, m->c->requests.len);
    return &m->c->requests.data[*index];
}

static void make_prompt(maker *m, compare_request *r)
{
    uint32_t goal = between(m, 1, m->longest);
    uint32_t style = m->c->requests.len == 0 ? 0 : below(m, 10);
    uint32_t index;
    if (style <= 1) {
        push_random(m, &r->prompt, goal);
        return;
    }
    const compare_request *from = earlier(m, &index);
    uint32_t known = from->prompt.len + from->planned.len;
    r->salt = from->salt;
    if (style == 2) { /* exact repeat, sometimes of whole blocks only (E-H3 without output) */
        uint32_t b = m->c->config.kv.block_size;
        push_from(&r->prompt, from,
                  chance(m, 50) ? from->prompt.len : (from->prompt.len + b - 1) / b * b);
        m->silent = r->prompt.len % b == 0 && chance(m, 60);
    } else if (style <= 4 && (m->features >> COMPARE_WITH_sessions & 1) != 0) {
        push_from(&r->prompt, from, known); /* the next turn of a session */
        push_random(m, &r->prompt, between(m, 1, 12));
        r->after = chance(m, 80) ? index : COMPARE_NONE;
    } else { /* leaves it anywhere */
        push_from(&r->prompt, from, below(m, known + 1));
        if (r->prompt.len < goal || chance(m, 30)) {
            push_random(m, &r->prompt, between(m, 1, 1 + goal / 2));
        }
    }
    if (r->prompt.len > m->longest + 12) {
        r->prompt.len = m->longest + 12;
    }
    if (r->prompt.len == 0) {
        push_random(m, &r->prompt, 1);
    }
}

/* Another prompt goes on where this one ends: the outputs become its tokens. */
static bool plan_like_another(maker *m, compare_request *r)
{
    uint32_t index;
    if (m->c->requests.len == 0) {
        return false;
    }
    const compare_request *other = earlier(m, &index);
    uint32_t known = other->prompt.len + other->planned.len;
    if (known <= r->prompt.len || other->salt != r->salt) {
        return false;
    }
    for (uint32_t i = 0; i < r->prompt.len; i++) {
        if (token_at(other, i) != r->prompt.data[i]) {
            return false;
        }
    }
    for (uint32_t i = r->prompt.len; i < known && r->planned.len < r->output; i++) {
        push(&r->planned, token_at(other, i));
    }
    return true;
}

static void make_output(maker *m, compare_request *r)
{
    uint32_t style = m->silent ? 0 : below(m, 10);
    m->silent = false;
    r->output = style == 0 ? 0 : style == 1 ? 1 : between(m, 2, style < 7 ? 12 : 30);
    if (m->steady) { /* long decodes with little happening (sched/cruise.h) */
        r->output = style == 0 ? 0 : between(m, 10, 80);
    } else if (m->squeeze && style > 1) {
        r->output = between(m, 6, 30);
    }
    if (plan_like_another(m, r) || chance(m, 40)) {
        return;
    }
    uint32_t planned = chance(m, 60) ? r->output : below(m, r->output + 1);
    push_random(m, &r->planned, planned);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void make_life(maker *m, compare_request *r)
{
    r->arrive = r->after != COMPARE_NONE ? below(m, 3) : below(m, m->horizon);
    r->arrive_in_flight = with(m, COMPARE_WITH_in_flight, 25);
    r->cancel = COMPARE_NONE;
    if (with(m, COMPARE_WITH_cancel, 15)) {
        r->cancel = below(m, 12);
        r->cancel_in_flight = with(m, COMPARE_WITH_in_flight, 50);
    }
    r->priority = (int32_t)below(m, 4) - 1;
    r->no_read = with(m, COMPARE_WITH_no_read, 8);
    if (with(m, COMPARE_WITH_second_queue, 3)) {
        r->role = COMPARE_BLOCKED;
        r->hand = below(m, 8);
    }
    if (m->handoff && chance(m, 30)) {
        r->role = chance(m, 50) ? COMPARE_SOURCE : COMPARE_DESTINATION;
        r->hand = below(m, 8);
    }
}

static void copy_tokens(compare_tokens *to, const compare_tokens *from)
{
    to->len = 0;
    for (uint32_t i = 0; i < from->len; i++) {
        push(to, from->data[i]);
    }
}

/* The same request once more, with the same id and content (names of blocks stay unique). */
static bool make_again(maker *m, compare_request *r)
{
    uint32_t index;
    if (m->c->requests.len == 0 || !with(m, COMPARE_WITH_duplicate_id, 4)) {
        return false;
    }
    const compare_request *from = earlier(m, &index);
    if (from->planned.len < from->output) {
        return false;
    }
    r->id = from->id;
    r->salt = from->salt;
    r->output = from->output;
    copy_tokens(&r->prompt, &from->prompt);
    copy_tokens(&r->planned, &from->planned);
    return true;
}

/* A second one beside the last: in lock step both compute the same blocks (E-B6). */
static bool make_pair(maker *m, compare_request *r)
{
    if (m->c->requests.len == 0 || !chance(m, 12)) {
        return false;
    }
    uint32_t id = r->id;
    const compare_request *from = &m->c->requests.data[m->c->requests.len - 1];
    *r = *from;
    r->id = id;
    r->prompt = r->planned = (compare_tokens){0};
    copy_tokens(&r->prompt, &from->prompt);
    copy_tokens(&r->planned, &from->planned);
    if (r->planned.len < r->output && from->role == COMPARE_PLAIN) {
        compare_request *other = &m->c->requests.data[m->c->requests.len - 1];
        while (other->planned.len < other->output) {
            push(&other->planned, 1 + below(m, m->alphabet));
        }
        r->planned.len = 0;
        copy_tokens(&r->planned, &other->planned);
    }
    if (chance(m, 20)) {
        r->output += below(m, 6);
    }
    if (chance(m, 30)) {
        r->arrive += below(m, 3);
    }
    return true;
}

static void make_request(maker *m)
{
    compare_request r = {.id = m->c->requests.len + 1, .after = COMPARE_NONE};
    if (make_pair(m, &r)) {
        aisim_array_push(&m->c->requests, r);
        return;
    }
    if (!make_again(m, &r)) {
        if (with(m, COMPARE_WITH_salt, 10)) {
            r.salt = below(m, 3);
        }
        if (!chance(m, 1)) { /* else an empty prompt */
            make_prompt(m, &r);
        }
        make_output(m, &r);
    }
    make_life(m, &r);
    aisim_array_push(&m->c->requests, r);
}

static void make_events(maker *m)
{
    compare_case *c = m->c;
    if (with(m, COMPARE_WITH_defer, 30)) {
        uint32_t percent = between(m, 10, 80);
        for (uint32_t pass = 0; pass < 80; pass++) {
            if (chance(m, percent)) {
                aisim_array_push(&c->defer, pass);
            }
        }
    }
    if (with(m, COMPARE_WITH_reset, 15)) {
        for (uint32_t n = between(m, 1, 4); n > 0; n--) {
            aisim_array_push(&c->reset, between(m, 1, 60));
        }
    }
    if (with(m, COMPARE_WITH_flush, 8)) {
        for (uint32_t n = between(m, 1, 3); n > 0; n--) {
            aisim_array_push(&c->flush, between(m, 1, 40));
        }
    }
    if (with(m, COMPARE_WITH_budget, 15)) {
        for (uint32_t n = between(m, 1, 4); n > 0; n--) {
            compare_budget change = {between(m, 1, 60), make_budget(m)};
            bool needed = !c->config.scheduler.chunked_prefill && /* engine.md §2 */
                          change.tokens < c->config.scheduler.context_length;
            if (!needed) {
                aisim_array_push(&c->budgets, change);
            }
        }
    }
}

compare_case *compare_make(uint64_t seed, uint64_t index, uint64_t features)
{
    maker m = {.c = aisim_alloc_zero(1, sizeof *m.c),
               .rng = {aisim_mix64(aisim_mix64(seed) ^ index)},
               .features = features,
               .next_fresh = 1000};
    m.squeeze = chance(&m, 45);
    m.steady = !m.squeeze && chance(&m, 40);
    m.longest = m.squeeze ? between(&m, 4, 24) : between(&m, 4, 60);
    m.alphabet = between(&m, 1, 3);
    m.horizon = between(&m, 1, 40);
    make_config(&m);
    make_tier(&m);
    for (uint32_t n = between(&m, 5, 25); n > 0; n--) {
        make_request(&m);
    }
    make_events(&m);
    if (m.c->config.host.scope == AISIM_HOST_CLUSTER_SHARED) {
        make_peers(&m);
    }
    if (with(&m, COMPARE_WITH_quiet, 40)) {
        m.c->look_every = between(&m, 2, 30);
    }
    m.c->listen = with(&m, COMPARE_WITH_listen, 8);
    return m.c;
}

compare_case *compare_copy(const compare_case *from)
{
    compare_case *c = aisim_alloc_zero(1, sizeof *c);
    c->config = from->config;
    c->waves = from->waves;
    c->connector = from->connector;
    c->look_every = from->look_every;
    c->listen = from->listen;
    c->pass_ns = from->pass_ns;
    c->gap_ns = from->gap_ns;
    for (uint32_t i = 0; i < from->peers.len; i++) {
        aisim_array_push(&c->peers, from->peers.data[i]);
    }
    for (uint32_t i = 0; i < from->requests.len; i++) {
        compare_request r = from->requests.data[i];
        r.prompt = r.planned = (compare_tokens){0};
        copy_tokens(&r.prompt, &from->requests.data[i].prompt);
        copy_tokens(&r.planned, &from->requests.data[i].planned);
        aisim_array_push(&c->requests, r);
    }
    for (uint32_t i = 0; i < from->defer.len; i++) {
        aisim_array_push(&c->defer, from->defer.data[i]);
    }
    for (uint32_t i = 0; i < from->reset.len; i++) {
        aisim_array_push(&c->reset, from->reset.data[i]);
    }
    for (uint32_t i = 0; i < from->flush.len; i++) {
        aisim_array_push(&c->flush, from->flush.data[i]);
    }
    for (uint32_t i = 0; i < from->budgets.len; i++) {
        aisim_array_push(&c->budgets, from->budgets.data[i]);
    }
    return c;
}

void compare_free(compare_case *c)
{
    if (c == NULL) {
        return;
    }
    for (uint32_t i = 0; i < c->requests.len; i++) {
        aisim_array_free(&c->requests.data[i].prompt);
        aisim_array_free(&c->requests.data[i].planned);
    }
    aisim_array_free(&c->requests);
    aisim_array_free(&c->defer);
    aisim_array_free(&c->reset);
    aisim_array_free(&c->flush);
    aisim_array_free(&c->budgets);
    aisim_array_free(&c->peers);
    aisim_free(c);
}
