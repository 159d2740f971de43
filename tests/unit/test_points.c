/* test_points.c - scheduler points and pools that grow, through the C interface alone. */
#include "aisim/sim.h"
#include "base/clock.h"
#include "check.h"
#include "timing/timing.h"

typedef struct policy {
    uint32_t victim, chunk; /* what to answer */
    double order;
    uint32_t asked, preempted[8], n_preempted;
} policy;

static double order(void *context, const aisim_point_site *site, aisim_error *err)
{
    (void)err;
    policy *p = context;
    CHECK(site->request != NULL && site->rank == 0);
    p->asked++;
    return p->order;
}

static uint32_t victim(void *context, const aisim_point_site *site, const aisim_victims *victims,
                       aisim_error *err)
{
    (void)err;
    const policy *p = context;
    CHECK(victims->n >= 1 && victims->needs < victims->n);
    CHECK(site->request == victims->list[victims->needs].request);
    CHECK(victims->list[0].blocks > 0);
    return p->victim;
}

static uint32_t chunk(void *context, const aisim_point_site *site, uint32_t budget,
                      uint32_t remaining, aisim_error *err)
{
    (void)site;
    const policy *p = context;
    if (p->chunk == 0) {
        aisim_fail(err, AISIM_ECALLBACK, "no chunk today");
    }
    return p->chunk < budget && p->chunk < remaining ? p->chunk
           : budget < remaining                      ? budget
                                                     : remaining;
}

static void observe(void *context, const aisim_event *event)
{
    policy *p = context;
    if (event->type == AISIM_EV_PREEMPT && p->n_preempted < 8) {
        p->preempted[p->n_preempted++] = event->request->id;
    }
}

static aisim_sim *make(policy *p, const aisim_points *points, uint64_t blocks)
{
    aisim_error err = {0};
    aisim_sim *sim = aisim_sim_new(1);
    aisim_pool_config config = {.name = "main", .workers = 1, .points = points};
    aisim_rank_config_default(&config.rank);
    config.rank.kv.block_size = 4;
    config.rank.kv.blocks = blocks;
    config.rank.kv.prefix_caching = false;
    CHECK(aisim_timing_fixed(10.0, 4.0, &config.timing, &err) == AISIM_OK);
    CHECK(aisim_sim_pool_add(sim, &config, NULL, &err) == AISIM_OK);
    aisim_observers *observers = aisim_sim_observers(sim);
    observers->list[observers->n++] = (aisim_observer){AISIM_EV_BIT(AISIM_EV_PREEMPT), p, observe};
    aisim_observers_update(observers);
    return sim;
}

static void submit(aisim_sim *sim, uint32_t prompt, uint32_t output, int64_t at_ns)
{
    aisim_error err = {0};
    aisim_content *content = aisim_sim_content(sim);
    aisim_node node = aisim_content_append_private(content, AISIM_ROOT, prompt);
    aisim_submit request = {.at_ns = at_ns,
                            .content = node,
                            .prompt_tokens = prompt,
                            .output_tokens = output,
                            .client = AISIM_NO_CLIENT};
    CHECK(aisim_sim_submit(sim, &request, NULL, &err) == AISIM_OK);
    aisim_content_release(content, node.run);
}

/* Two answers of 12 tokens on prompts of 8 in 7 blocks. @return status of the run */
static aisim_status run(policy *p, const aisim_points *points, aisim_error *err)
{
    aisim_sim *sim = make(p, points, 7);
    submit(sim, 8, 12, 0);
    submit(sim, 8, 12, 0);
    aisim_run_options options = {.until_ns = AISIM_NEVER};
    aisim_status status = aisim_sim_run(sim, &options, err);
    aisim_sim_free(sim);
    return status;
}

static void points_decide(void)
{
    aisim_error err = {0};
    policy p = {.victim = 0, .order = 1.0, .chunk = 3};
    aisim_points points = {.context = &p, .order = order, .victim = victim, .chunk = chunk};
    CHECK(run(&p, &points, &err) == AISIM_OK);
    CHECK(p.n_preempted >= 1 && p.preempted[0] == 1);
    CHECK_EQ(p.asked, 2 + p.n_preempted); /* once per enqueue */
    policy newest = {0};
    CHECK(run(&newest, NULL, &err) == AISIM_OK);
    CHECK(newest.n_preempted >= 1 && newest.preempted[0] == 2);
}

static void bad_answers_end_the_run(void)
{
    policy p = {.victim = 2};
    aisim_points points = {.context = &p, .victim = victim};
    aisim_error err = {0};
    CHECK(run(&p, &points, &err) == AISIM_ECALLBACK);
    CHECK_STR(err.text, "scheduler point 'victim' returned 3 at t=26 ms on rank 1 for request 2; "
                        "running requests are 1..2");
    p = (policy){.order = (double)INFINITY};
    points = (aisim_points){.context = &p, .order = order};
    points.place[AISIM_POINT_ORDER].file = "x.c";
    points.place[AISIM_POINT_ORDER].line = 7;
    err = (aisim_error){0};
    CHECK(run(&p, &points, &err) == AISIM_ECALLBACK);
    CHECK_STR(err.file, "x.c");
    CHECK_EQ(err.line, 7);
    CHECK_STR(err.text, "scheduler point 'order' returned an infinite number at t=0 ms on rank 1 "
                        "for request 1; a finite number expected");
    p = (policy){.chunk = 0};
    points = (aisim_points){.context = &p, .chunk = chunk};
    err = (aisim_error){0};
    CHECK(run(&p, &points, &err) == AISIM_ECALLBACK);
    CHECK_STR(err.text, "no chunk today");
}

static void pools_grow_and_shrink(void)
{
    policy p = {0};
    aisim_sim *sim = make(&p, NULL, 100);
    aisim_pool_view pool;
    aisim_sim_pool(sim, 0, &pool);
    CHECK(pool.n_workers == 1 && pool.ready == 1 && pool.startup_ns == 0);
    aisim_sim_pool_grow(sim, 0, 2, 5 * AISIM_NS_PER_MS); /* acts when the run begins */
    submit(sim, 8, 2, 0);
    submit(sim, 8, 2, 20 * AISIM_NS_PER_MS);
    aisim_run_options options = {.until_ns = 4 * AISIM_NS_PER_MS};
    aisim_error err = {0};
    CHECK(aisim_sim_run(sim, &options, &err) == AISIM_OK);
    aisim_sim_pool(sim, 0, &pool);
    CHECK(pool.n_workers == 3 && pool.ready == 1 && pool.starting == 2);
    CHECK(pool.n_ranks == 3 && pool.ranks[2] == 2 && pool.workers[1] == 1);
    aisim_sim_pool_shrink(sim, 0, 1, true); /* the newest of those that start */
    options.until_ns = AISIM_NEVER;
    CHECK(aisim_sim_run(sim, &options, &err) == AISIM_OK);
    aisim_sim_pool(sim, 0, &pool);
    CHECK(pool.ready == 2 && pool.starting == 0);
    aisim_rank_view view;
    aisim_sim_rank(sim, 2, &view);
    CHECK(view.state == AISIM_WORKER_STOPPED);
    aisim_sim_rank(sim, 1, &view);
    CHECK(view.state == AISIM_WORKER_READY && view.passes == 2);
    aisim_sim_free(sim);
}

int main(void)
{
    points_decide();
    bad_answers_end_the_run();
    pools_grow_and_shrink();
    return check_done();
}
