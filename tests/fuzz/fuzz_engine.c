/* fuzz_engine.c - any bytes as commands for one rank: submit, cancel, plan, complete, reserve,
 * reset; with a host tier transfers that end between and inside passes, and the other client of a
 * shared pool.
 *
 * The first bytes choose the configuration, the others commands with their arguments; what has run
 * out reads as 0. After every command the rank is verified. In the end everything is cancelled:
 * nothing may be active, a reset must free every block, and the content tree must be empty. Unlike
 * the comparison with the twin, content is released as soon as its request ends, so run indices and
 * slots get new meanings all the time. */
#include "base/check.h"
#include "base/clock.h"
#include "sched/rank.h"

enum { MAX_LIVE = 24, MAX_KEPT = 12, TIER_FROM = 216 };

typedef struct live_request {
    uint32_t slot, run;
} live_request;

typedef struct fuzz {
    const uint8_t *data;
    size_t size, at;
    aisim_engine engine;
    aisim_rank rank;
    AISIM_ARRAY(live_request) live;
    AISIM_ARRAY(aisim_node) kept; /* contents that later ones may go on from */
    AISIM_ARRAY(uint32_t) flight; /* batches */
    int64_t now_ns;
    uint64_t tokens;         /* delivered, as listened to */
    aisim_host_group *group; /* NULL = no host tier */
    aisim_host *peer;        /* of a shared pool */
    int64_t pass_ns, end_ns; /* a pass takes so long; the one in flight ends then */
} fuzz;

static uint32_t byte(fuzz *f)
{
    return f->at < f->size ? f->data[f->at++] : 0;
}

static uint32_t between(fuzz *f, uint32_t low, uint32_t high)
{
    return low + byte(f) % (high - low + 1);
}

static void forget(fuzz *f, uint32_t slot)
{
    for (uint32_t i = 0; i < f->live.len; i++) {
        if (f->live.data[i].slot == slot) {
            aisim_content_release(f->engine.content, f->live.data[i].run);
            aisim_array_remove(&f->live, i);
            break;
        }
    }
    aisim_requests_give(&f->engine.requests, slot);
}

static void on_ended(void *context, uint32_t slot)
{
    forget(context, slot);
}

static void on_held(void *context, uint32_t slot)
{
    const fuzz *f = context;
    AISIM_CHECK(aisim_requests_at(&f->engine.requests, slot)->state == AISIM_REQ_HELD);
}

static void on_event(void *context, const aisim_event *event)
{
    fuzz *f = context;
    f->tokens += event->type == AISIM_EV_TOKENS ? event->u.tokens.n : 0;
}

/* ---- configuration --------------------------------------------------------------------------- */

/* Transfers of some blocks take about as long as a pass. */
static void choose_tier(fuzz *f, aisim_rank_config *config)
{
    static const double rates[] = {0.0, 0.25, 0.5, 1.0, 2.0, 7.0};
    static const int64_t passes[] = {100, 500, 1000, 2000, 5000, 20000};
    aisim_host_config *h = &config->host;
    uint32_t flags = byte(f);
    h->scope = (flags & 1) == 0 ? AISIM_HOST_RANK_LOCAL : AISIM_HOST_CLUSTER_SHARED;
    h->touch_prompt_on_lookup = (flags & 2) == 0;
    h->touch_prompt_on_store = (flags & 4) == 0;
    h->drop_applies_to_loads = (flags & 8) == 0;
    h->refresh_on_load = (flags & 16) == 0;
    h->tie_break = (flags & 32) == 0 ? AISIM_TIE_DEEPEST_FIRST : AISIM_TIE_LISTED;
    h->latency_ms = (flags & 64) == 0 ? 0.0 : 0.0005 * between(f, 1, 6);
    h->blocks = between(f, 1, 60);
    uint32_t speed = byte(f);
    h->d2h_gbps = rates[speed % 6];
    h->h2d_gbps = rates[speed / 6 % 6];
    speed = byte(f);
    h->shared_d2h_gbps = rates[speed % 6];
    h->shared_h2d_gbps = rates[speed / 6 % 6];
    f->pass_ns = passes[between(f, 0, 5)];
    config->kv.prefix_caching = true;
    config->kv.bytes_per_token = 250.0;
}

static void choose_state(fuzz *f, aisim_rank_config *config)
{
    uint32_t choice = byte(f);
    if (choice >= TIER_FROM) { /* never together */
        choose_tier(f, config);
        return;
    }
    config->kv.state_mode = (aisim_state_mode)(choice % 3);
    if (config->kv.state_mode == AISIM_STATE_NONE) {
        return;
    }
    config->kv.state_blocks = between(f, 1, 3);
    config->kv.blocks += 4;
    if (config->kv.state_mode == AISIM_STATE_ALIGNED) {
        config->kv.align_split = (aisim_align_split)(choice / 3 % 3);
        config->kv.checkpoints = (aisim_checkpoints)(choice / 9 % 2);
        config->kv.same_pass_hit = (aisim_same_pass_hit)(choice / 18 % 2);
        config->kv.prefix_match_unit =
            choice / 36 % 2 == 1 && config->kv.block_size % 2 == 0 ? config->kv.block_size / 2 : 0;
    }
}

static void choose_speculation(fuzz *f, aisim_rank_config *config)
{
    uint32_t choice = byte(f);
    aisim_speculation_config *s = &config->speculation;
    s->mode = (aisim_speculation_mode)(choice % 3);
    if (s->mode == AISIM_SPECULATION_NONE) {
        bool tier = config->host.scope != AISIM_HOST_NONE;
        config->scheduler.overlap = tier ? AISIM_OVERLAP_NONE : (aisim_overlap)(choice / 3 % 3);
        return;
    }
    s->depth = s->lookahead_slots = between(f, 1, 3);
    for (uint32_t i = 0; i < s->depth; i++) {
        s->acceptance_rates[i] = (double)(byte(f) % 5) * 0.25;
    }
    s->drop_matched_block = choice / 3 % 2 == 0;
    s->first_chunk_lookahead = s->mode == AISIM_SPECULATION_NATIVE && choice / 6 % 2 == 1;
    s->pad_first_decode = s->mode == AISIM_SPECULATION_NATIVE && choice / 12 % 2 == 1;
    config->kv.prefix_match_unit = 0; /* refused together */
}

static aisim_rank_config choose_config(fuzz *f)
{
    aisim_rank_config config;
    aisim_rank_config_default(&config);
    aisim_scheduler_config *s = &config.scheduler;
    config.kv.block_size = between(f, 2, 9);
    config.kv.blocks = between(f, 1, 40);
    s->max_batched_tokens = between(f, 1, 60);
    s->max_sequences = between(f, 1, 9);
    uint32_t flags = byte(f);
    s->chunked_prefill = (flags & 1) == 0;
    config.kv.prefix_caching = (flags & 2) == 0 || (flags & 4) == 0;
    s->policy = (flags & 8) == 0 ? AISIM_POLICY_FCFS : AISIM_POLICY_PRIORITY;
    s->preemption = (flags & 16) == 0 ? AISIM_PREEMPTION_LIFO : AISIM_PREEMPTION_FIFO;
    s->never_fits = (flags & 32) == 0 ? AISIM_NEVER_FITS_REJECT : AISIM_NEVER_FITS_WAIT;
    s->reserve_full_prompt = (flags & 64) == 0;
    s->admit_at_zero_budget = (flags & 128) == 0;
    flags = byte(f);
    s->self_preemption = (aisim_self_preemption)(flags & 1);
    s->watermark = (double)(flags >> 1 & 3) * 0.1;
    s->long_prefill_token_threshold = (flags & 8) == 0 ? 0 : between(f, 1, 20);
    s->context_length = (flags & 16) == 0 ? 0 : between(f, 2, 80);
    if (!s->chunked_prefill && s->context_length > s->max_batched_tokens) {
        s->max_batched_tokens = (uint32_t)s->context_length;
    }
    choose_state(f, &config);
    choose_speculation(f, &config);
    return config;
}

/* ---- content --------------------------------------------------------------------------------- */

/* A node to go on from: a namespace or something kept. The caller owns the reference. */
static aisim_node choose_base(fuzz *f)
{
    uint32_t choice = byte(f);
    if (f->kept.len == 0 || choice % 4 == 0) {
        return aisim_content_namespace(f->engine.content, choice / 4 % 2);
    }
    aisim_node node = f->kept.data[choice % f->kept.len];
    uint32_t start = aisim_content_start(f->engine.content, node.run);
    node.tokens -= choice / 4 % (node.tokens - start + 1); /* leaves it in the middle */
    aisim_content_hold(f->engine.content, node.run);
    return node;
}

/* Takes the reference of `base` over. */
static aisim_node append(fuzz *f, aisim_node base, uint32_t tokens)
{
    aisim_content *content = f->engine.content;
    uint32_t kind = byte(f);
    aisim_node node;
    if (kind % 4 == 0) {
        node = aisim_content_append_named(content, base, kind / 4 % 3, tokens);
    } else if (kind % 4 == 1) {
        node = aisim_content_append_private(content, base, tokens);
    } else {
        aisim_id_run ids[] = {{kind / 4 % 3, 1 + kind % 5}, {kind / 12 % 4, 1000}};
        node = aisim_content_append_ids(content, base, ids, 2, 1 + kind / 64, tokens);
    }
    aisim_content_release(content, base.run);
    return node;
}

static void keep(fuzz *f, aisim_node node)
{
    aisim_content_hold(f->engine.content, node.run);
    if (f->kept.len < MAX_KEPT) {
        aisim_array_push(&f->kept, node);
        return;
    }
    uint32_t at = byte(f) % MAX_KEPT;
    aisim_content_release(f->engine.content, f->kept.data[at].run);
    f->kept.data[at] = node;
}

/* ---- commands -------------------------------------------------------------------------------- */

static void submit(fuzz *f)
{
    if (f->live.len >= MAX_LIVE) {
        return;
    }
    aisim_node node = choose_base(f);
    node = append(f, node, byte(f) % 48);
    uint32_t prompt = node.tokens, output = byte(f) % 24;
    uint32_t how = byte(f);
    if (how % 2 == 0) {
        node = append(f, node, output);
    } else { /* a fork of its own */
        aisim_node fork = aisim_content_branch(f->engine.content, node, output);
        aisim_content_release(f->engine.content, node.run);
        node = fork;
    }
    keep(f, node);
    uint32_t slot = aisim_requests_take(&f->engine.requests);
    aisim_request *r = aisim_requests_at(&f->engine.requests, slot);
    r->lease.run = node.run;
    r->prompt_tokens = prompt;
    r->output_tokens = output;
    r->priority = (int32_t)(how >> 6) - 1;
    r->arrival_ns = r->waiting_since_ns = f->now_ns;
    r->flags = (uint8_t)(((how & 2) != 0 ? AISIM_REQF_NO_READ : 0) |
                         ((how & 12) == 12 ? AISIM_REQF_HOLD : 0));
    live_request made = {slot, node.run};
    aisim_array_push(&f->live, made);
    if ((how & 48) == 48) {
        if (!aisim_rank_reserve(&f->rank, slot)) {
            forget(f, slot);
        }
    } else if ((how & 48) == 32) {
        aisim_rank_submit_blocked(&f->rank, slot);
    } else {
        aisim_rank_submit(&f->rank, slot);
    }
}

static void end(fuzz *f, uint32_t slot)
{
    aisim_rank_cancel(&f->rank, slot);
    aisim_offload_settle_cancel(&f->rank, f->now_ns);
    forget(f, slot);
}

/* The next step in the life of a request that waits for a command. */
static void go_on(fuzz *f, uint32_t slot)
{
    aisim_rank_unblock(&f->rank, slot);
    aisim_rank_activate(&f->rank, slot);
    if (aisim_rank_release_source(&f->rank, slot)) {
        forget(f, slot);
    }
}

static void plan(fuzz *f, bool defer)
{
    uint32_t most = f->rank.config.scheduler.overlap == AISIM_OVERLAP_NONE ? 1 : 2;
    if (f->flight.len < most) {
        uint32_t batch = aisim_rank_plan(&f->rank, f->now_ns, defer);
        if (batch != AISIM_NONE) {
            aisim_array_push(&f->flight, batch);
            f->end_ns = aisim_offload_start(&f->rank, f->now_ns) + f->pass_ns;
        }
    }
}

static void complete(fuzz *f)
{
    if (f->group == NULL) {
        f->now_ns++;
    } else if (f->flight.len > 0) {
        f->now_ns = f->end_ns > f->now_ns ? f->end_ns : f->now_ns;
    }
    if (f->flight.len > 0) {
        uint32_t batch = f->flight.data[0];
        aisim_array_remove(&f->flight, 0);
        aisim_rank_complete(&f->rank, batch, f->now_ns, NULL, 0);
    }
}

/* A worker stops: what it had is over. It may go on afterwards. */
static void stop(fuzz *f)
{
    f->flight.len = 0;
    aisim_rank_abandon(&f->rank);
    while (f->live.len > 0) {
        end(f, f->live.data[f->live.len - 1].slot);
    }
    if (f->group != NULL) {
        aisim_offload_leave(&f->rank, f->now_ns);
        aisim_block_pool_reset(&f->rank.pool);
    }
}

/* ---- the host tier --------------------------------------------------------------------------- */

/* A shared pool moves on; whatever has arrived for the peer is taken note of by nobody. */
static void flow(fuzz *f, int64_t t_ns)
{
    uint32_t job;
    f->now_ns = t_ns;
    if (f->group->shared) {
        aisim_host_group_advance(f->group, t_ns);
        while ((job = aisim_host_done(f->peer, t_ns)) != AISIM_NONE) {
            aisim_host_forget(f->peer, job);
        }
    }
}

static int64_t next_transfer(const fuzz *f)
{
    return f->group->shared ? aisim_host_group_next(f->group) : aisim_offload_next(&f->rank);
}

/* Time goes on: to the next end of a transfer, or some way; inside of a pass not beyond its end. */
static void elapse(fuzz *f, uint32_t how)
{
    int64_t next_ns = next_transfer(f), t_ns = f->now_ns + (int64_t)(how / 2) * f->pass_ns / 16;
    if (how % 2 == 0 && next_ns != AISIM_NEVER) {
        t_ns = next_ns > f->now_ns ? next_ns : f->now_ns;
    }
    if (f->flight.len > 0) {
        flow(f, t_ns < f->end_ns ? t_ns : f->end_ns);
        return;
    }
    while (next_ns <= t_ns && next_ns != AISIM_NEVER) {
        flow(f, next_ns > f->now_ns ? next_ns : f->now_ns);
        aisim_offload_transfers(&f->rank, f->now_ns);
        next_ns = next_transfer(f);
    }
    flow(f, t_ns);
    aisim_offload_transfers(&f->rank, f->now_ns);
}

/* The other client of a shared pool stores or loads blocks of the prompt of somebody here. */
static void use_peer(fuzz *f, uint32_t slot)
{
    const aisim_request *r = aisim_requests_at(&f->engine.requests, slot);
    uint32_t run = r->lease.run, keys = r->prompt_tokens / f->group->block_size, job;
    uint32_t choice = byte(f), first = choice % 4 == 0 ? choice / 4 % 6 : 0;
    uint32_t end = first + 1 + byte(f) % 8;
    end = end < keys ? end : keys;
    if (first >= end) {
        return;
    }
    if (choice % 2 == 0) {
        if (aisim_host_prepare(f->peer, run, first, end, 0, 0, 0, f->now_ns, &job) ==
            AISIM_HOST_PREPARED) {
            AISIM_CHECK(aisim_host_submit(f->peer, f->now_ns) == job);
        }
        return;
    }
    const aisim_host_stretches *path = aisim_host_path(f->group, run, first, end);
    for (uint32_t i = 0; i < path->len; i++) {
        aisim_host_stretch s = path->data[i];
        aisim_host_match m =
            aisim_host_pool_match(&f->group->pool, s.run, s.first, s.first + s.count);
        if (m.blocks < s.count || m.pending) {
            return;
        }
    }
    aisim_host_load(f->peer, run, first, end, 0, 0, f->now_ns, f->now_ns);
}

static void tier_command(fuzz *f)
{
    uint32_t how = byte(f);
    if (how % 8 == 7 && f->peer != NULL && f->live.len > 0) {
        use_peer(f, f->live.data[byte(f) % f->live.len].slot);
    } else {
        elapse(f, how);
    }
    if (f->peer != NULL) {
        aisim_host_verify(f->peer);
    }
}

static void tier_init(fuzz *f, const aisim_rank_config *config)
{
    if (config->host.scope == AISIM_HOST_NONE) {
        return;
    }
    uint32_t b = config->kv.block_size;
    double bytes = config->kv.bytes_per_token * b;
    f->group = aisim_host_group_new(f->engine.content, &config->host, b, bytes);
    aisim_offload_attach(&f->rank, aisim_host_join(f->group, &config->host, b, bytes, NULL));
    if (f->group->shared) {
        f->peer = aisim_host_join(f->group, &config->host, b, bytes, NULL);
    }
}

/* Every transfer ends; then nothing holds a device block any more. */
static void tier_finish(fuzz *f)
{
    for (uint32_t n = 0; f->group != NULL && next_transfer(f) != AISIM_NEVER; n++) {
        AISIM_CHECK(n < 100000);
        int64_t next_ns = next_transfer(f);
        flow(f, next_ns > f->now_ns ? next_ns : f->now_ns);
        aisim_offload_transfers(&f->rank, f->now_ns);
    }
    if (f->group != NULL) {
        flow(f, f->now_ns);
        aisim_offload_transfers(&f->rank, f->now_ns);
        AISIM_CHECK(f->rank.offload.host->outstanding == 0);
        AISIM_CHECK(f->group->pool.used == f->group->pool.resident);
        AISIM_CHECK(f->group->pool.resident == f->group->pool.evictable);
    }
}

/* ---- any command ----------------------------------------------------------------------------- */

static void listen(fuzz *f, uint32_t mask)
{
    uint64_t wanted = (mask & 1 ? AISIM_EV_BIT(AISIM_EV_TOKENS) : 0) |
                      (mask & 2 ? AISIM_EV_BIT(AISIM_EV_KV_STORE) : 0) |
                      (mask & 4 ? AISIM_EV_BIT(AISIM_EV_PASS_END) : 0) |
                      (mask & 8 ? AISIM_EV_BIT(AISIM_EV_CHUNK) | AISIM_EV_BIT(AISIM_EV_GAP) : 0);
    f->engine.observers.list[0].mask = wanted;
    aisim_observers_update(&f->engine.observers);
}

static void set_budget(fuzz *f, uint32_t tokens)
{
    aisim_scheduler_config *s = &f->rank.config.scheduler;
    if (s->chunked_prefill || tokens >= s->context_length) {
        s->max_batched_tokens = tokens;
    }
}

static void command(fuzz *f)
{
    uint32_t op = byte(f) % 20;
    uint32_t slot = AISIM_NONE;
    if (op >= 5 && op <= 7 && f->live.len > 0) {
        slot = f->live.data[byte(f) % f->live.len].slot;
    }
    if (op < 5) {
        submit(f);
    } else if (op == 5 && slot != AISIM_NONE) {
        end(f, slot);
    } else if (op == 6 && slot != AISIM_NONE) {
        go_on(f, slot);
    } else if (op == 7 && slot != AISIM_NONE) {
        aisim_rank_set_priority(&f->rank, slot, (int32_t)(byte(f) % 4));
    } else if (op == 8) {
        set_budget(f, between(f, 1, 60));
    } else if (op == 9) {
        listen(f, byte(f));
    } else if (op == 10 && f->flight.len == 0) {
        aisim_rank_reset(&f->rank, byte(f) % 2 == 1);
    } else if (op == 11) {
        if (byte(f) % 8 == 0) {
            stop(f);
        }
    } else if (op == 12) { /* many passes at once */
        for (uint32_t n = between(f, 1, 40); n > 0; n--) {
            plan(f, false);
            complete(f);
        }
    } else if (op <= 15) {
        plan(f, op == 15);
    } else if (op >= 18 && f->group != NULL) {
        tier_command(f);
    } else {
        complete(f);
    }
}

/* ---- one input ------------------------------------------------------------------------------- */

static void finish(fuzz *f)
{
    while (f->flight.len > 0) {
        complete(f);
    }
    while (f->live.len > 0) {
        end(f, f->live.data[0].slot);
    }
    tier_finish(f);
    aisim_rank_verify(&f->rank);
    AISIM_CHECK(aisim_block_pool_active(&f->rank.pool) == 0); /* I19 */
    AISIM_CHECK(f->engine.requests.live == 0);
    AISIM_CHECK(aisim_rank_reset(&f->rank, false)); /* E-B8 */
    AISIM_CHECK(f->rank.pool.free == f->rank.pool.blocks);
    for (uint32_t i = 0; i < f->kept.len; i++) {
        aisim_content_release(f->engine.content, f->kept.data[i].run);
    }
    aisim_host_group_free(f->group);
    f->rank.offload.host = NULL;
    AISIM_CHECK(aisim_content_live(f->engine.content) == 1);
    aisim_rank_deinit(&f->rank);
    aisim_requests_deinit(&f->engine.requests);
    aisim_content_free(f->engine.content);
    aisim_array_free(&f->live);
    aisim_array_free(&f->kept);
    aisim_array_free(&f->flight);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz f = {.data = data, .size = size};
    aisim_rank_config config = choose_config(&f);
    AISIM_CHECK(aisim_rank_config_check(&config, NULL) == AISIM_OK);
    f.engine.content = aisim_content_new();
    aisim_requests_init(&f.engine.requests);
    f.engine.ended = on_ended;
    f.engine.held = on_held;
    f.engine.context = &f;
    f.engine.observers.n = 1;
    f.engine.observers.list[0] = (aisim_observer){.context = &f, .fn = on_event};
    aisim_rank_init(&f.rank, &f.engine, 0, &config);
    tier_init(&f, &config);
    while (f.at < f.size) {
        command(&f);
        aisim_rank_verify(&f.rank);
    }
    finish(&f);
    return 0;
}
