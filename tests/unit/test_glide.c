/* test_glide.c - a run that glides tells the same as one in which every pass is planned.
 *
 * The same random workload runs twice: once with a passive observer, once with one that is not, so
 * that nothing may be skipped. All events are compared one by one; since prompts share prefixes, a
 * cache in another state or order shows in what later requests reuse. Then twice more with a
 * listener at every pass end, as hooks are: it looks at everything and now and then asks for
 * something. test_glide [count [seed]] */
#include <stdlib.h>

#include "base/clock.h"
#include "check.h"
#include "sim/sim_internal.h"
#include "timing/timing.h"

enum { LINES_SHOWN = 5 };

typedef struct line {
    int64_t t_ns;
    uint32_t type, request;
    uint64_t values[8];
} line;

typedef AISIM_ARRAY(line) lines;

static void observe(void *context, const aisim_event *event)
{
    line l = {.t_ns = event->t_ns,
              .type = event->type,
              .request = event->request == NULL ? 0 : event->request->id};
    const aisim_request *r = event->request;
    const aisim_pass_facts *p = event->u.pass;
    switch (event->type) {
    case AISIM_EV_PASS_END: {
        uint64_t values[8] = {p->pass,
                              (uint64_t)p->begin_ns,
                              p->prefill_tokens << 32 | p->decode_tokens,
                              p->context_tokens << 32 | p->prefix_tokens,
                              (uint64_t)p->emitted << 32 | p->scheduled << 16 | p->n_prefill << 8 |
                                  p->n_decode,
                              (uint64_t)p->evicted << 32 | p->running << 16 | p->waiting,
                              p->active_blocks << 32 | p->inactive_blocks,
                              (uint64_t)p->gap_ns << 16 | p->gap_count << 8 | p->zero_gaps};
        memcpy(l.values, values, sizeof values);
        break;
    }
    case AISIM_EV_KV_LEVEL:
        l.values[0] = event->u.level.used;
        l.values[1] = event->u.level.cached;
        break;
    case AISIM_EV_VERIFY:
        l.values[0] = (uint64_t)event->u.verify.drafted << 32 | event->u.verify.accepted;
        l.values[1] = (uint64_t)r->generated << 32 | r->computed;
        break;
    case AISIM_EV_TRANSFER_END:
        l.values[0] = event->u.transfer.blocks;
        l.values[1] = (uint64_t)event->u.transfer.begin_ns;
        l.values[2] = (uint64_t)event->u.transfer.end_ns;
        l.values[3] = event->u.transfer.request_id;
        l.values[4] = event->u.transfer.kind;
        break;
    case AISIM_EV_FINISH:
        l.values[0] = (uint64_t)r->generated << 32 | r->accepted_drafts;
        l.values[1] = (uint64_t)r->verifications << 32 | r->stored_blocks;
        l.values[2] = (uint64_t)r->preemptions << 32 | r->recomputed;
        l.values[3] = (uint64_t)r->first_reused << 32 | r->host_reused;
        l.values[4] = (uint64_t)r->last_token_ns;
        l.values[5] = (uint64_t)r->second_token_ns;
        break;
    case AISIM_EV_RANK_TOTALS:
        l.values[0] = event->u.totals->allocated_blocks << 32 | event->u.totals->published_blocks;
        l.values[1] = event->u.totals->evicted_blocks << 32 | event->u.totals->host_evicted;
        l.values[2] = event->u.totals->jobs[0] << 32 | event->u.totals->jobs[1];
        l.values[3] = (uint64_t)event->u.totals->busy_ns[0] + event->u.totals->blocks[0];
        l.values[4] = (uint64_t)event->u.totals->wait_ns[0] + event->u.totals->completed[0];
        l.values[5] = event->u.totals->retries << 32 | event->u.totals->host_peak;
        l.values[6] = (uint64_t)event->u.totals->transfer_ns[0];
        l.values[7] = (uint64_t)event->u.totals->fence_ns;
        break;
    default:
        break;
    }
    aisim_array_push((lines *)context, l);
}

/* ---- workloads ------------------------------------------------------------------------------- */

static uint32_t among(aisim_rng *rng, uint32_t n)
{
    return (uint32_t)(aisim_rng_unit(rng) * n);
}

static void configure(aisim_rank_config *c, aisim_rng *rng)
{
    aisim_rank_config_default(c);
    c->scheduler.max_batched_tokens = 8 + among(rng, 60);
    c->scheduler.max_sequences = 1 + among(rng, 6);
    c->scheduler.context_length = among(rng, 4) == 0 ? 500 : 0;
    c->scheduler.admit_at_zero_budget = among(rng, 2);
    c->scheduler.never_fits = among(rng, 4) == 0 ? AISIM_NEVER_FITS_WAIT : AISIM_NEVER_FITS_REJECT;
    c->kv.block_size = 2u << among(rng, 3);
    c->kv.blocks = 60 + among(rng, 500);
    c->kv.prefix_caching = among(rng, 8) > 0;
    c->kv.bytes_per_token = 1e6;
    if (among(rng, 4) > 0) {
        aisim_speculation_config *s = &c->speculation;
        s->mode = AISIM_SPECULATION_NATIVE;
        s->depth = 1 + among(rng, 3);
        s->lookahead_slots = among(rng, 3) == 0 ? s->depth + 1 : s->depth;
        for (uint32_t i = 0; i < s->depth; i++) {
            s->acceptance_rates[i] = among(rng, 2) == 0 ? 1.0 : 0.5;
        }
        s->stream = among(rng, 6) == 0 ? AISIM_STREAM_WORKER : AISIM_STREAM_PER_REQUEST;
        s->seed = among(rng, 1000);
    }
    if (c->kv.prefix_caching && among(rng, 4) > 0) {
        c->host.scope = AISIM_HOST_RANK_LOCAL;
        c->host.blocks = 20 + among(rng, 1500);
        c->host.d2h_gbps = among(rng, 3) == 0 ? 0 : 0.5 + among(rng, 40);
        c->host.h2d_gbps = 1 + among(rng, 40);
        c->host.latency_ms = among(rng, 3) == 0 ? 0.7 : 0;
        c->host.touch_prompt_on_store = among(rng, 3) > 0;
        c->host.touch_prompt_on_lookup = among(rng, 3) > 0;
        c->host.tie_break = among(rng, 4) == 0 ? AISIM_TIE_KEY_ASC : AISIM_TIE_DEEPEST_FIRST;
    }
}

/* Half of the configurations without host tier: a recurrent state, as config/resolve.c has it. */
static void add_state(aisim_rank_config *c, aisim_rng *rng)
{
    if (c->host.scope != AISIM_HOST_NONE || among(rng, 2) == 0) {
        return;
    }
    aisim_kv_config *kv = &c->kv;
    kv->state_mode = among(rng, 2) == 0 ? AISIM_STATE_ALIGNED : AISIM_STATE_LATEST;
    kv->state_blocks = 1 + among(rng, 3);
    kv->state_bytes = 1e6 * kv->block_size * kv->state_blocks;
    kv->blocks += 20 * kv->state_blocks;
    bool drafts = c->speculation.mode != AISIM_SPECULATION_NONE;
    if (drafts && among(rng, 2) == 0) { /* most glides are those of plain decoders */
        c->speculation.mode = AISIM_SPECULATION_NONE;
        c->speculation.depth = c->speculation.lookahead_slots = 0;
        drafts = false;
    }
    if (kv->state_mode == AISIM_STATE_ALIGNED) {
        kv->prefix_match_unit = drafts || among(rng, 2) == 0 ? kv->block_size : kv->block_size / 2;
        kv->align_split = among(rng, 3) == 0 ? AISIM_SPLIT_LEGACY : AISIM_SPLIT_FIXED;
        kv->checkpoints = among(rng, 3) == 0 ? AISIM_CHECKPOINTS_CHUNK_END : kv->checkpoints;
    }
}

/* Prompts of up to 700 tokens, half of them behind one of three shared beginnings. */
static void submit(aisim_sim *sim, aisim_rng *rng, uint32_t n)
{
    int64_t at_ns = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t shared = among(rng, 2) * among(rng, 120), own = 1 + among(rng, 600);
        aisim_node node = aisim_content_append_named(aisim_sim_content(sim), AISIM_ROOT,
                                                     1 + among(rng, 3), shared);
        aisim_node prompt = aisim_content_append_private(aisim_sim_content(sim), node, own);
        aisim_submit s = {.at_ns = at_ns,
                          .content = prompt,
                          .prompt_tokens = prompt.tokens,
                          .output_tokens = 1 + among(rng, 60),
                          .client = AISIM_NO_CLIENT};
        CHECK(aisim_sim_submit(sim, &s, NULL, NULL) == AISIM_OK);
        if (among(rng, 5) == 0) { /* the same prompt again, at once or later */
            s.at_ns += (int64_t)among(rng, 2) * 300000000;
            CHECK(aisim_sim_submit(sim, &s, NULL, NULL) == AISIM_OK);
        }
        aisim_content_release(aisim_sim_content(sim), prompt.run);
        aisim_content_release(aisim_sim_content(sim), node.run);
        at_ns += (int64_t)among(rng, 3) * among(rng, 60) * 1000000;
    }
}

/* ---- a listener ------------------------------------------------------------------------------ */

enum { LISTENED = 100 }; /* type of its lines */

typedef struct listener {
    aisim_sim *sim;
    lines *out;
    uint64_t seed;
} listener;

static void ring(void *context, aisim_sim *sim, int64_t t_ns)
{
    const listener *l = context;
    aisim_array_push(l->out, (line){.t_ns = t_ns, .type = LISTENED + 1});
    CHECK(aisim_sim_now(sim) == t_ns);
}

/* Cancels the oldest request, sends one, sets a timer, changes a priority, or stops the run. */
static void ask(const listener *l, uint32_t what, uint32_t number)
{
    aisim_sim *sim = l->sim;
    for (uint32_t slot = 0; (what == 0 || what == 1) && slot < sim->engine.requests.slots; slot++) {
        const aisim_request *r = sim_request(sim, slot);
        if (r->id != 0 && r->state != AISIM_REQ_DONE && r->rank != AISIM_NONE) {
            aisim_handle handle = aisim_sim_handle(sim, r);
            if (what == 0) {
                aisim_sim_cancel(sim, handle);
            } else {
                aisim_sim_set_priority(sim, handle, (int32_t)(number % 3));
            }
            return;
        }
    }
    if (what == 2) {
        aisim_submit s = {.at_ns = aisim_sim_now(sim) + (int64_t)(number % 2) * 3000000,
                          .prompt_tokens = 1 + number % 100,
                          .output_tokens = 1 + number % 7,
                          .client = AISIM_NO_CLIENT};
        s.content =
            aisim_content_append_private(aisim_sim_content(sim), AISIM_ROOT, s.prompt_tokens);
        CHECK(aisim_sim_submit(sim, &s, NULL, NULL) == AISIM_OK);
        aisim_content_release(aisim_sim_content(sim), s.content.run);
    } else if (what == 3) {
        aisim_sim_timer(sim, aisim_sim_now(sim) + (int64_t)(number % 9) * 1000000,
                        AISIM_CLASS_TIMER, false, ring, (void *)l);
    } else if (what == 4 && number % 64 == 0) {
        aisim_sim_stop(sim, "asked");
    }
}

static void listen(void *context, const aisim_event *event)
{
    const listener *l = context;
    const aisim_rank *rank = l->sim->ranks.data[event->rank];
    CHECK(aisim_sim_now(l->sim) == event->t_ns && l->sim->engine.now_ns == event->t_ns);
    aisim_cruise_sync_all(rank);
    line seen = {.t_ns = event->t_ns, .type = LISTENED, .request = rank->running.len};
    seen.values[0] = rank->pool.free;
    seen.values[1] = rank->pool.extents.inactive;
    seen.values[2] = (uint64_t)rank->waiting.slots.len << 32 | rank->in_flight;
    seen.values[3] = rank->pass;
    for (uint32_t i = 0; i < rank->running.len; i++) {
        const aisim_request *r = sim_request(l->sim, rank->running.data[i].slot);
        uint64_t has = (uint64_t)r->generated << 32 | r->computed;
        seen.values[4] = aisim_mix64(seen.values[4] ^ has);
        seen.values[5] = aisim_mix64(seen.values[5] ^ (uint64_t)r->last_token_ns);
        seen.values[6] = aisim_mix64(seen.values[6] ^ aisim_lease_owned(&rank->pool, &r->lease));
        seen.values[7] = aisim_mix64(seen.values[7] ^ r->accepted_drafts << 20 ^ r->verifications);
    }
    aisim_array_push(l->out, seen);
    uint64_t dice = aisim_mix64(l->seed ^ aisim_mix64((uint64_t)event->t_ns ^ event->rank));
    if (dice % 8 == 0) {
        ask(l, (uint32_t)(dice >> 8) % 5, (uint32_t)(dice >> 16));
    }
}

static void add_observer(aisim_sim *sim, aisim_observer observer)
{
    aisim_observers *observers = aisim_sim_observers(sim);
    observers->list[observers->n++] = observer;
    aisim_observers_update(observers);
}

/* A run that waits for ever may only do so where nothing is ever rejected (R1). */
static bool run(uint64_t seed, bool passive, bool listens, lines *out, uint64_t *glided,
                bool *states, aisim_status *status)
{
    aisim_error err = {0};
    aisim_rng rng = aisim_rng_named(seed, "glide");
    aisim_sim *sim = aisim_sim_new(seed);
    aisim_pool_config config = {.name = "main", .workers = 1 + (among(&rng, 5) == 0)};
    configure(&config.rank, &rng);
    add_state(&config.rank, &rng);
    const aisim_timing_linear_law law = {1.0, 0.05, 0.2, 0.001 * among(&rng, 3)};
    CHECK(aisim_timing_linear(&law, &config.timing, &err) == AISIM_OK);
    if (aisim_sim_pool_add(sim, &config, NULL, &err) != AISIM_OK) {
        CHECK(false);
        printf("seed %" PRIu64 ": %s\n", seed, err.text);
        aisim_timing_free(config.timing);
        aisim_sim_free(sim);
        return false;
    }
    aisim_observer observer = {.context = out, .fn = observe, .passive = passive};
    static const aisim_event_type types[] = {
        AISIM_EV_PASS_END, AISIM_EV_KV_LEVEL,    AISIM_EV_VERIFY,     AISIM_EV_TRANSFER_END,
        AISIM_EV_FINISH,   AISIM_EV_REJECT,      AISIM_EV_ADMIT,      AISIM_EV_PREEMPT,
        AISIM_EV_GAP,      AISIM_EV_FIRST_TOKEN, AISIM_EV_RANK_TOTALS};
    for (uint32_t i = 0; i < sizeof types / sizeof *types; i++) {
        observer.mask |= AISIM_EV_BIT(types[i]);
    }
    add_observer(sim, observer);
    listener asks = {.sim = sim, .out = out, .seed = seed};
    if (listens) {
        add_observer(sim, (aisim_observer){.mask = AISIM_EV_BIT(AISIM_EV_PASS_END),
                                           .context = &asks,
                                           .fn = listen});
    }
    submit(sim, &rng, 30);
    aisim_run_options options = {.until_ns = aisim_ns_from_s(among(&rng, 3) == 0 ? 2 : 20)};
    *status = aisim_sim_run(sim, &options, &err);
    bool waits = config.rank.scheduler.never_fits == AISIM_NEVER_FITS_WAIT;
    if (*status != AISIM_OK && !waits) {
        CHECK(false);
        printf("seed %" PRIu64 ": %s\n", seed, err.text);
    }
    for (uint32_t i = 0; i < sim->ranks.len; i++) {
        if (*status == AISIM_OK && sim->ranks.data[i]->in_flight == 0) {
            aisim_rank_verify(sim->ranks.data[i]);
        }
    }
    *glided = 0;
    *states = config.rank.kv.state_mode != AISIM_STATE_NONE;
    for (uint32_t i = 0; i < sim->workers.len; i++) {
        *glided += sim->workers.data[i].glided;
    }
    aisim_sim_free(sim);
    return true;
}

static void show(const char *name, const lines *l, uint32_t from)
{
    for (uint32_t i = from; i < l->len && i < from + LINES_SHOWN; i++) {
        printf("  %s %u: t=%.6f type %u request %u:", name, i, aisim_ms_from_ns(l->data[i].t_ns),
               l->data[i].type, l->data[i].request);
        for (uint32_t k = 0; k < 8; k++) {
            printf(" %" PRIx64, l->data[i].values[k]);
        }
        printf("\n");
    }
}

static void compare(uint64_t seed, bool listens, uint64_t glided[2])
{
    lines free_run = {0}, full_run = {0};
    uint64_t some, none;
    aisim_status a, b;
    bool states;
    if (run(seed, true, listens, &free_run, &some, &states, &a) &&
        run(seed, false, listens, &full_run, &none, &states, &b)) {
        uint32_t i = 0;
        while (i < free_run.len && i < full_run.len &&
               memcmp(&free_run.data[i], &full_run.data[i], sizeof(line)) == 0) {
            i++;
        }
        bool same = i == free_run.len && i == full_run.len && a == b;
        CHECK(same);
        if (!same) {
            printf("seed %" PRIu64 ", status %d and %d\n", seed, a, b);
            show("glides", &free_run, i);
            show("plans", &full_run, i);
        }
        CHECK(none == 0);
        glided[states] += some;
    }
    aisim_array_free(&free_run);
    aisim_array_free(&full_run);
}

int main(int argc, char **argv)
{
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 300;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    uint64_t glided[2] = {0}, heard[2] = {0}; /* without and with a state cache */
    for (uint64_t i = 0; i < count; i++) {
        compare(seed + i, false, glided);
        compare(seed + i, true, heard);
    }
    CHECK(glided[0] > 20 * count); /* the walk is really walked */
    CHECK(glided[1] > 5 * count);
    CHECK(heard[0] > count && heard[1] > count);
    printf("%" PRIu64 " workloads, %" PRIu64 " passes glided, %" PRIu64 " with a state cache; "
           "%" PRIu64 " while somebody listened\n",
           count, glided[0] + glided[1], glided[1], heard[0] + heard[1]);
    return check_done();
}
