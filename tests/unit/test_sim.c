/* test_sim.c - the C interface alone: a pool, traffic, routing, cancellation, determinism. */
#include "aisim/sim.h"

#include "base/clock.h"
#include "check.h"
#include "sim/traffic.h"
#include "timing/timing.h"

typedef struct seen {
    uint64_t finished, rejected, cancelled, hash, passes;
    uint32_t ranks[4];
    int64_t last_ns;
} seen;

static void observe(void *context, const aisim_event *event)
{
    seen *l = context;
    CHECK(event->t_ns >= l->last_ns);
    l->last_ns = event->t_ns;
    if (event->type == AISIM_EV_PASS_END) {
        l->passes++;
        return;
    }
    l->finished += event->type == AISIM_EV_FINISH && event->request->end == AISIM_END_LENGTH;
    l->cancelled += event->type == AISIM_EV_FINISH && event->request->end == AISIM_END_CANCELLED;
    l->rejected += event->type == AISIM_EV_REJECT;
    if (event->type == AISIM_EV_ROUTE) {
        l->ranks[event->rank]++;
    }
    l->hash = aisim_mix64(l->hash ^ (uint64_t)event->t_ns ^ event->request->id);
}

static aisim_sim *make(uint64_t seed, uint32_t workers, uint64_t blocks, seen *l)
{
    aisim_error err = {0};
    aisim_sim *sim = aisim_sim_new(seed);
    aisim_pool_config config = {.name = "main", .workers = workers};
    aisim_rank_config_default(&config.rank);
    config.rank.kv.block_size = 16;
    config.rank.kv.blocks = blocks;
    CHECK(aisim_timing_fixed(10.0, 5.0, &config.timing, &err) == AISIM_OK);
    CHECK(aisim_sim_pool_add(sim, &config, NULL, &err) == AISIM_OK);
    aisim_observers *observers = aisim_sim_observers(sim);
    uint64_t mask = AISIM_EV_BIT(AISIM_EV_FINISH) | AISIM_EV_BIT(AISIM_EV_REJECT) |
                    AISIM_EV_BIT(AISIM_EV_ROUTE) | AISIM_EV_BIT(AISIM_EV_PASS_END);
    observers->list[observers->n++] = (aisim_observer){.mask = mask, .context = l, .fn = observe};
    aisim_observers_update(observers);
    return sim;
}

static void run(aisim_sim *sim)
{
    aisim_error err = {0};
    aisim_run_options options = {.until_ns = AISIM_NEVER};
    CHECK(aisim_sim_run(sim, &options, &err) == AISIM_OK);
    CHECK(err.code == AISIM_OK);
    aisim_sim_stats stats;
    aisim_sim_stats_get(sim, &stats);
    CHECK(stats.requests_live == 0);
    aisim_sim_free(sim);
}

static void closed_traffic(uint64_t seed, seen *l)
{
    aisim_error err = {0};
    aisim_sim *sim = make(seed, 3, 100, l);
    const int64_t at_start = 0;
    const double users = 7;
    aisim_traffic_config traffic = {
        .units = aisim_units_constant(100, 20),
        .pace = {.requests = 50,
                 .level_times = &at_start,
                 .levels = &users,
                 .n_levels = 1,
                 .think = aisim_gaps_exponential(1e6, aisim_rng_named(seed, "think"))}};
    CHECK(aisim_traffic(sim, &traffic, &err) == AISIM_OK);
    run(sim);
}

static void test_closed(void)
{
    seen a = {0}, b = {0}, c = {0};
    closed_traffic(1, &a);
    closed_traffic(1, &b);
    closed_traffic(2, &c);
    CHECK(a.finished == 50 && a.rejected == 0 && a.cancelled == 0);
    CHECK(a.ranks[0] == 17 && a.ranks[1] == 17 && a.ranks[2] == 16); /* round robin */
    CHECK(a.hash == b.hash && a.passes == b.passes);                 /* same seed, same events */
    CHECK(a.hash != c.hash);
}

static void test_open(void)
{
    seen l = {0};
    aisim_error err = {0};
    aisim_sim *sim = make(1, 1, 100, &l);
    const aisim_arrivals constant = {.kind = AISIM_ARRIVALS_CONSTANT, .a = 10};
    aisim_traffic_config traffic = {
        .units = aisim_units_constant(16, 1),
        .pace = {.gaps = aisim_gaps_arrivals(&constant, aisim_rng_named(1, "gaps")),
                 .until_ns = aisim_ns_from_s(1)}};
    CHECK(aisim_traffic(sim, &traffic, &err) == AISIM_OK);
    run(sim);
    CHECK(l.finished == 10); /* at 0, 100, … 900 ms; nothing at 1,000 */
    CHECK(l.last_ns == aisim_ns_from_ms(910));
}

static void test_no_end(void)
{
    seen l = {0};
    aisim_error err = {0};
    aisim_sim *sim = make(1, 1, 100, &l);
    aisim_gap_source gaps = aisim_gaps_constant(5);
    aisim_traffic_config traffic = {.units = aisim_units_constant(16, 1), .pace = {.gaps = gaps}};
    CHECK(aisim_traffic(sim, &traffic, &err) == AISIM_EINVAL);
    CHECK(strstr(err.text, "until_ms, requests") != NULL);
    gaps.free(gaps.context);
    traffic.units.free(traffic.units.context);
    aisim_sim_free(sim);
}

static aisim_handle submit(aisim_sim *sim, double at_ms, uint32_t prompt, uint32_t output)
{
    aisim_error err = {0};
    aisim_handle handle;
    aisim_node node = aisim_content_append_private(aisim_sim_content(sim), AISIM_ROOT, prompt);
    aisim_submit request = {.at_ns = aisim_ns_from_ms(at_ms),
                            .content = node,
                            .prompt_tokens = prompt,
                            .output_tokens = output,
                            .client = AISIM_NO_CLIENT};
    CHECK(aisim_sim_submit(sim, &request, &handle, &err) == AISIM_OK);
    aisim_content_release(aisim_sim_content(sim), node.run);
    return handle;
}

typedef struct later {
    aisim_handle handle;
} later;

static void cancel_later(void *context, aisim_sim *sim, int64_t t_ns)
{
    (void)t_ns;
    aisim_sim_cancel(sim, ((later *)context)->handle);
    aisim_sim_cancel(sim, ((later *)context)->handle); /* E-T5: the second is a no-op */
}

static void test_cancel(void)
{
    seen l = {0};
    aisim_sim *sim = make(1, 1, 100, &l);
    later running = {submit(sim, 0, 64, 50)}, waiting = {submit(sim, 0, 1600, 50)};
    submit(sim, 0, 64, 2);
    aisim_sim_timer(sim, aisim_ns_from_ms(12), AISIM_CLASS_TIMER, false, cancel_later, &running);
    aisim_sim_timer(sim, aisim_ns_from_ms(12), AISIM_CLASS_TIMER, false, cancel_later, &waiting);
    run(sim);
    CHECK(l.cancelled == 2 && l.finished == 1);
}

static void again(void *context, aisim_sim *sim, int64_t t_ns)
{
    uint32_t *left = context;
    if (*left > 0) {
        --*left;
        aisim_sim_timer(sim, t_ns, AISIM_CLASS_TIMER, false, again, context);
    }
}

/* E-T8: events that set each other for one time never let it pass. */
static void test_time_stands_still(void)
{
    const uint32_t chains[] = {100000, UINT32_MAX};
    for (int i = 0; i < 2; i++) {
        uint32_t left = chains[i];
        seen l = {0};
        aisim_sim *sim = make(1, 1, 100, &l);
        aisim_error err = {0};
        aisim_sim_timer(sim, 5000000, AISIM_CLASS_TIMER, false, again, &left);
        aisim_run_options options = {.until_ns = AISIM_NEVER};
        aisim_status status = aisim_sim_run(sim, &options, &err);
        CHECK(status == (i == 0 ? AISIM_OK : AISIM_ELIVELOCK));
        CHECK(i == 0 || strstr(err.text, "time stands still at t=5.000 ms") != NULL);
        CHECK((aisim_sim_rounds_left(sim) == 0) == (i == 1));
        aisim_sim_free(sim);
    }
}

static void test_rejections(void)
{
    seen l = {0};
    aisim_sim *sim = make(1, 1, 4, &l);
    submit(sim, 0, 0, 5);  /* E-T3 */
    submit(sim, 0, 80, 5); /* E-P11: 5 blocks of 4 */
    submit(sim, 0, 64, 1); /* exactly fits */
    run(sim);
    CHECK(l.rejected == 2 && l.finished == 1);
}

static void stop_worker(void *context, aisim_sim *sim, int64_t t_ns)
{
    (void)context, (void)t_ns;
    aisim_sim_worker(sim, 0, AISIM_WORKER_STOP);
}

static void test_worker_stops(void)
{
    seen l = {0};
    aisim_sim *sim = make(1, 2, 100, &l);
    for (int i = 0; i < 6; i++) {
        submit(sim, 0, 64, 20);
    }
    aisim_sim_timer(sim, aisim_ns_from_ms(33), AISIM_CLASS_TIMER, false, stop_worker, NULL);
    run(sim);
    CHECK(l.finished == 6); /* the requests of the lost worker went to the other one */
    CHECK(l.ranks[0] == 3 && l.ranks[1] == 6);
}

int main(void)
{
    test_closed();
    test_open();
    test_no_end();
    test_cancel();
    test_rejections();
    test_time_stands_still();
    test_worker_stops();
    return check_done();
}
