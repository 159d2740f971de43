/* test_metrics_recorder.c - the observer and its report, fed with hand-made events. */
#include "base/map.h"
#include "check.h"
#include "metrics/levels.h"
#include "metrics/report.h"

static const int64_t MS = 1000000;

/* A completed request: arrival, first token, then `gap` ms per token. */
static aisim_request completed(uint32_t id, int64_t arrival_ms, int64_t ttft_ms, uint32_t tokens,
                               int64_t gap_ms)
{
    aisim_request request = {.id = id, .prompt_tokens = 100, .admissions = 1};
    request.arrival_ns = request.dispatched_ns = request.waiting_since_ns = arrival_ms * MS;
    request.first_admit_ns = (arrival_ms + 1) * MS;
    request.first_token_ns = (arrival_ms + ttft_ms) * MS;
    request.second_token_ns = tokens > 1 ? request.first_token_ns + gap_ms * MS : -1;
    request.last_token_ns = request.first_token_ns + (tokens - 1) * gap_ms * MS;
    request.generated = request.output_tokens = tokens;
    request.end = AISIM_END_LENGTH;
    return request;
}

static void send(aisim_recorder *recorder, aisim_event_type type, int64_t t_ns,
                 const aisim_request *request)
{
    aisim_event event = {.type = type, .t_ns = t_ns, .request = request};
    aisim_recorder_event(recorder, &event);
}

static void send_all(aisim_recorder *recorder, const aisim_request *request)
{
    send(recorder, AISIM_EV_ARRIVE, request->arrival_ns, request);
    send(recorder, AISIM_EV_FIRST_TOKEN, request->first_token_ns, request);
    send(recorder, AISIM_EV_FINISH, request->last_token_ns, request);
}

static void send_pass(aisim_recorder *recorder, int64_t begin_ms, int64_t end_ms,
                      aisim_pass_facts facts)
{
    facts.begin_ns = begin_ms * MS;
    facts.end_ns = end_ms * MS;
    aisim_event event = {.type = AISIM_EV_PASS_END, .t_ns = end_ms * MS, .u.pass = &facts};
    aisim_recorder_event(recorder, &event);
}

static double value(const aisim_results *results, const char *path)
{
    return aisim_results_value(results, aisim_results_path(results, 0, path));
}

static aisim_recorder *with_one_worker(const aisim_recorder_config *config)
{
    aisim_recorder *recorder = aisim_recorder_new(config);
    aisim_recorder_worker_info info = {.pool = "main",
                                       .role = "aggregated",
                                       .gpus = 2,
                                       .ranks = 1,
                                       .blocks = 100,
                                       .batched_tokens = 200,
                                       .provisioned = true};
    aisim_recorder_worker(recorder, &info);
    return recorder;
}

/* One request through three passes: figures of passes, usage, gaps, GPU time. */
static void a_run_of_three_passes(void)
{
    aisim_recorder_config config;
    aisim_recorder_config_default(&config);
    aisim_recorder *recorder = with_one_worker(&config);
    aisim_request request = completed(1, 0, 10, 3, 5);
    send(recorder, AISIM_EV_ARRIVE, 0, &request);
    send(recorder, AISIM_EV_FIRST_TOKEN, 10 * MS, &request);
    send_pass(recorder, 0, 10,
              (aisim_pass_facts){.prefill_tokens = 100,
                                 .n_prefill = 1,
                                 .scheduled = 1,
                                 .emitted = 1,
                                 .active_blocks = 40,
                                 .total_blocks = 100});
    aisim_pass_facts decode = {.decode_tokens = 1,
                               .n_decode = 1,
                               .scheduled = 1,
                               .emitted = 1,
                               .active_blocks = 50,
                               .inactive_blocks = 10,
                               .total_blocks = 100,
                               .gap_ns = 5 * MS,
                               .gap_count = 1};
    send_pass(recorder, 10, 15, decode);
    send(recorder, AISIM_EV_FINISH, 20 * MS, &request);
    decode.active_blocks = 0;
    send_pass(recorder, 15, 20, decode);
    send(recorder, AISIM_EV_RUN_END, 30 * MS, NULL);

    aisim_results results;
    aisim_report_build(&results, recorder, &(aisim_report_meta){.seed = 7});
    CHECK(value(&results, "seed") == 7);
    CHECK(value(&results, "totals.duration_ms") == 20);
    CHECK(value(&results, "totals.scheduler.passes") == 3);
    CHECK_NEAR(value(&results, "totals.scheduler.prefill_pass_ratio"), 1.0 / 3, 1e-12);
    CHECK_NEAR(value(&results, "totals.scheduler.budget_ratio"), 102.0 / 600, 1e-12);
    CHECK(value(&results, "totals.scheduler.idle_ratio") == 0);
    CHECK_NEAR(value(&results, "totals.gauges.kv_usage.mean"), (0.4 * 5 + 0.5 * 5) / 20, 1e-12);
    CHECK(value(&results, "totals.gauges.kv_usage.peak") == 0.5);
    CHECK_NEAR(value(&results, "totals.gauges.kv_reusable_ratio.mean"), 0.1 * 5 / 20, 1e-12);
    CHECK(value(&results, "distributions.token_gap_ms.n") == 2);
    CHECK(value(&results, "distributions.token_gap_ms.max") == 5);
    CHECK(value(&results, "totals.gpus") == 2);
    CHECK_NEAR(value(&results, "totals.gpu_hours"), 2 * 0.02 / 3600, 1e-15);
    CHECK_NEAR(value(&results, "totals.output_throughput_tok_s_per_gpu"), 75, 1e-9);
    CHECK(value(&results, "distributions.pass_ms.max") == 10);
    aisim_results_free(&results);
    aisim_recorder_free(recorder);
}

/* The pooled gaps of a cancelled request do not count, also when it shared every pass. */
static void a_cancelled_request_is_in_no_latency(void)
{
    aisim_recorder_config config;
    aisim_recorder_config_default(&config);
    aisim_recorder *recorder = with_one_worker(&config);
    aisim_request good = completed(1, 0, 10, 11, 5), bad = completed(2, 0, 10, 6, 5);
    bad.end = AISIM_END_CANCELLED;
    bad.preemptions = 3;
    const aisim_request *both[] = {&good, &bad};
    for (int i = 0; i < 2; i++) {
        send(recorder, AISIM_EV_ARRIVE, 0, both[i]);
        send(recorder, AISIM_EV_FIRST_TOKEN, 10 * MS, both[i]);
    }
    for (int64_t i = 1; i <= 10; i++) {
        if (i == 6) {
            send(recorder, AISIM_EV_FINISH, 38 * MS, &bad);
        }
        if (i == 10) {
            send(recorder, AISIM_EV_FINISH, 60 * MS, &good);
        }
        uint32_t n = i < 6 ? 2 : 1;
        send_pass(recorder, 5 + i * 5, 10 + i * 5,
                  (aisim_pass_facts){.decode_tokens = n,
                                     .n_decode = n,
                                     .scheduled = n,
                                     .emitted = n,
                                     .gap_ns = 5 * MS,
                                     .gap_count = n});
    }
    aisim_recorder_finish(recorder, 60 * MS);
    aisim_results results;
    aisim_report_build(&results, recorder, &(aisim_report_meta){0});
    CHECK(value(&results, "distributions.token_gap_ms.n") == 10);
    CHECK(value(&results, "distributions.ttft_ms.n") == 1);
    CHECK(value(&results, "totals.cancelled") == 1);
    CHECK(value(&results, "totals.preemptions") == 3);
    aisim_results_free(&results);
    aisim_recorder_free(recorder);
}

/* Preparation: phase events start the measurement; what was before is in no figure. */
static void the_barrier_starts_the_measurement(void)
{
    aisim_recorder_config config;
    aisim_recorder_config_default(&config);
    aisim_recorder *recorder = with_one_worker(&config);
    aisim_error err = {0};
    aisim_metric *cost, *kept;
    aisim_custom *custom = aisim_recorder_custom(recorder);
    aisim_custom_add(custom, &(aisim_metric_spec){.name = "cost", .unit = "USD"}, &cost, &err);
    aisim_custom_add(custom, &(aisim_metric_spec){.name = "all", .keep = true}, &kept, &err);
    aisim_metric_add(cost, NULL, 5, &err);
    aisim_metric_add(kept, NULL, 5, &err);

    aisim_request primer = completed(1, 0, 10, 1, 0);
    primer.phase = AISIM_PHASE_PRIMER;
    send_all(recorder, &primer);
    send_pass(recorder, 0, 10,
              (aisim_pass_facts){
                  .n_prefill = 1, .scheduled = 1, .active_blocks = 90, .total_blocks = 100});
    aisim_event phase = {.type = AISIM_EV_PHASE, .t_ns = 100 * MS};
    phase.u.phase.from = "warmup";
    phase.u.phase.to = "barrier";
    aisim_recorder_event(recorder, &phase);
    aisim_metric_add(cost, NULL, 2, &err);
    aisim_metric_add(kept, NULL, 2, &err);
    send_pass(recorder, 140, 150,
              (aisim_pass_facts){
                  .n_prefill = 1, .scheduled = 1, .active_blocks = 30, .total_blocks = 100});
    aisim_request request = completed(2, 110, 40, 3, 25);
    send_all(recorder, &request);
    aisim_recorder_finish(recorder, 300 * MS);

    aisim_results results;
    aisim_report_build(&results, recorder, &(aisim_report_meta){0});
    CHECK(value(&results, "totals.preparation_requests") == 1);
    CHECK(value(&results, "totals.num_requests") == 1);
    CHECK(value(&results, "totals.duration_ms") == 100);
    CHECK(value(&results, "totals.scheduler.passes") == 1);
    CHECK_NEAR(value(&results, "totals.gauges.kv_usage.mean"), 0.6, 1e-12);
    CHECK(value(&results, "custom.cost.total") == 2);
    CHECK(value(&results, "custom.all.total") == 7);
    CHECK(err.code == AISIM_OK);
    aisim_results_free(&results);
    aisim_recorder_free(recorder);
}

/* Observation: the interval begins with the first arrival that ends in the cohort. */
static void the_observation_begins_with_the_cohort(void)
{
    aisim_recorder_config config;
    aisim_recorder_config_default(&config);
    config.duration = AISIM_DURATION_OBSERVATION;
    aisim_recorder *recorder = with_one_worker(&config);
    aisim_request lost = completed(1, 0, 10, 1, 0), first = completed(2, 20, 80, 1, 0);
    lost.end = AISIM_END_FAILED;
    send_all(recorder, &lost);
    send(recorder, AISIM_EV_ARRIVE, first.arrival_ns, &first);
    send_pass(recorder, 30, 40,
              (aisim_pass_facts){.scheduled = 1, .active_blocks = 80, .total_blocks = 100});
    send(recorder, AISIM_EV_FINISH, first.last_token_ns, &first);
    send_pass(recorder, 110, 120,
              (aisim_pass_facts){.scheduled = 1, .active_blocks = 100, .total_blocks = 100});
    aisim_recorder_finish(recorder, 500 * MS);
    aisim_results results;
    aisim_report_build(&results, recorder, &(aisim_report_meta){0});
    CHECK(value(&results, "totals.observation_duration_ms") == 80);
    CHECK(value(&results, "totals.failed") == 1);
    CHECK_NEAR(value(&results, "totals.gauges.kv_usage.mean"), 0.8 * 60 / 80, 1e-12);
    CHECK(value(&results, "totals.gauges.kv_usage.peak") == 0.8);
    aisim_results_free(&results);
    aisim_recorder_free(recorder);
}

/* Two classes with bounds of their own; distributions split from the second class on. */
static void classes_have_their_own_figures(void)
{
    aisim_recorder_config config;
    aisim_recorder_config_default(&config);
    aisim_recorder *recorder = aisim_recorder_new(&config);
    aisim_slo slo = AISIM_SLO_NONE;
    slo.ttft_ms = 10;
    aisim_recorder_class(recorder, 0, "chat");
    aisim_recorder_class(recorder, 3, "agent");
    aisim_recorder_class_slo(recorder, 0, &slo);
    for (uint32_t i = 1; i <= 4; i++) {
        aisim_request request = completed(i, i, 5 * (int64_t)i, 2, 1);
        request.class_id = i == 4 ? 3 : 0;
        send_all(recorder, &request);
    }
    aisim_recorder_finish(recorder, 100 * MS);
    aisim_results results;
    aisim_report_build(&results, recorder, &(aisim_report_meta){0});
    CHECK(value(&results, "distributions.ttft_ms.n") == 4);
    CHECK(value(&results, "distributions.ttft_ms.by.chat.n") == 3);
    CHECK(value(&results, "distributions.ttft_ms.by.chat.mean") == 10);
    CHECK(value(&results, "distributions.ttft_ms.by.agent.mean") == 20);
    CHECK(value(&results, "totals.goodput_completed_requests") == 3);
    CHECK_NEAR(value(&results, "classes.chat.good_fraction"), 2.0 / 3, 1e-12);
    CHECK(value(&results, "classes.agent.good_fraction") == 1);
    CHECK(aisim_recorder_distribution(recorder, "ttft_ms", 3)->n == 1);
    CHECK(aisim_recorder_distribution(recorder, "ttft_ms", 1) == NULL);
    CHECK(aisim_recorder_distribution(recorder, "nonsense", -1) == NULL);
    aisim_results_free(&results);
    aisim_recorder_free(recorder);
}

/* Many levels: folded on the way, the same result as in one go; ranks may run ahead. */
static void levels_fold_to_the_same_figures(void)
{
    aisim_levels folded, whole;
    aisim_levels_init(&folded);
    aisim_levels_init(&whole);
    for (int64_t i = 0; i < 50000; i++) {
        uint32_t rank = (uint32_t)(i / 8 % 3); /* eight changes of one rank, then the next one */
        int64_t t_ns = (i / 24 * 8 + i % 8) * 10;
        uint64_t used = (uint64_t)(i * 7919 % 1000);
        aisim_levels_set(&folded, t_ns, rank, used, 0, 1000);
        aisim_levels_set(&whole, t_ns, rank, used, 0, 1000);
        if (i % 24 == 23 && i % 1000 < 24) {
            aisim_levels_fold(&folded, 5000, t_ns < 150000 ? t_ns : 150000);
        }
    }
    aisim_levels_finish(&folded, 5000, 150000);
    aisim_levels_finish(&whole, 5000, 150000);
    aisim_gauge_stats a, b;
    for (uint32_t rank = 0; rank < 4; rank++) {
        aisim_gauge_read(rank < 3 ? &folded.ranks.data[rank].usage : &folded.sum.usage, &a);
        aisim_gauge_read(rank < 3 ? &whole.ranks.data[rank].usage : &whole.sum.usage, &b);
        CHECK_EQ(a.held_ns, 145000);
        CHECK_EQ(b.held_ns, 145000);
        CHECK(a.mean == b.mean && a.peak == b.peak && a.p99 == b.p99);
    }
    aisim_levels_free(&folded);
    aisim_levels_free(&whole);
}

/* A rank of a large cluster has the figures of any other, without room for every block. */
static void many_ranks_take_no_room_for_blocks(void)
{
    enum { RANKS = 80, BLOCKS = 1000 };
    aisim_levels levels;
    aisim_levels_init(&levels);
    for (int64_t i = 0; i < 500; i++) {
        uint64_t used = (uint64_t)(i * 7919 % BLOCKS);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            aisim_levels_set(&levels, i * i, rank, used, BLOCKS - used, BLOCKS);
        }
    }
    aisim_levels_finish(&levels, 100, 240000);
    aisim_gauge_stats first, last;
    CHECK(levels.ranks.data[0].usage.parts != NULL);
    CHECK(levels.ranks.data[RANKS - 1].usage.parts == NULL);
    aisim_gauge_read(&levels.ranks.data[0].usage, &first);
    aisim_gauge_read(&levels.ranks.data[RANKS - 1].usage, &last);
    CHECK_EQ(first.held_ns, 239900);
    CHECK(first.held_ns == last.held_ns && first.mean == last.mean && first.peak == last.peak &&
          first.p99 == last.p99);
    aisim_levels_free(&levels);
}

static void look_up(void *context, const char *name, const aisim_result *leaf)
{
    (void)leaf;
    char key[128];
    snprintf(key, sizeof key, "%s", name);
    /* a whole name, or a name with the statistic cut off */
    while (aisim_definition_find(key) == NULL && strrchr(key, '.') != NULL) {
        *strrchr(key, '.') = '\0';
    }
    if (aisim_definition_find(key) == NULL) {
        printf("    no definition of %s\n", name);
        (*(int *)context)++;
    }
}

/* `aisim help metrics` knows every key of totals and distributions, and names no other twice. */
static void every_key_has_a_definition(void)
{
    aisim_recorder_config config;
    aisim_recorder_config_default(&config);
    aisim_recorder *recorder = with_one_worker(&config);
    aisim_request request = completed(1, 0, 1, 1, 0);
    send(recorder, AISIM_EV_ARRIVE, 0, &request);
    aisim_event verify = {.type = AISIM_EV_VERIFY, .request = &request};
    verify.u.verify.drafted = verify.u.verify.accepted = 2;
    aisim_recorder_event(recorder, &verify);
    aisim_recorder_finish(recorder, 0);
    aisim_results results;
    aisim_report_build(&results, recorder, &(aisim_report_meta){0});
    int missing = 0;
    aisim_results_flat(&results, aisim_results_find(&results, 0, "totals"), look_up, &missing);
    aisim_results_flat(&results, aisim_results_find(&results, 0, "distributions"), look_up,
                       &missing);
    CHECK_EQ(missing, 0);
    const aisim_definition *definition;
    for (uint32_t i = 0; (definition = aisim_definition_at(i)) != NULL; i++) {
        CHECK(aisim_definition_find(definition->key) == definition);
    }
    for (uint32_t i = 0; aisim_table_row_at(i) != NULL; i++) {
        CHECK(aisim_results_path(&results, aisim_results_find(&results, 0, "distributions"),
                                 aisim_table_row_at(i)->key) != AISIM_NONE);
    }
    CHECK_STR(aisim_table_column_at(3)->title, "p99");
    aisim_results_free(&results);
    aisim_recorder_free(recorder);
}

/* Plays by lane; the measurement start counts for those that began before it. */
static void plays_are_timed_by_lane(void)
{
    static const struct {
        aisim_event_type type;
        int64_t t_ms;
        uint32_t lane;
        const char *status;
    } events[] = {{AISIM_EV_PLAY_START, 0, 1, NULL},
                  {AISIM_EV_PLAY_START, 20, 0, NULL},
                  {AISIM_EV_PLAY_END, 50, 1, "completed"},
                  {AISIM_EV_PLAY_START, 50, 1, NULL},
                  {AISIM_EV_PLAY_END, 60, 0, "failed"}};
    aisim_recorder_config config;
    aisim_recorder_config_default(&config);
    config.measurement_start_ns = 10 * MS;
    aisim_recorder *recorder = aisim_recorder_new(&config);
    for (uint32_t i = 0; i < 5; i++) {
        aisim_event event = {.type = events[i].type, .t_ns = events[i].t_ms * MS};
        event.u.play.lane = events[i].lane;
        event.u.play.status = events[i].status;
        aisim_recorder_event(recorder, &event);
    }
    aisim_results results;
    aisim_report_build(&results, recorder, &(aisim_report_meta){0});
    CHECK(value(&results, "totals.plays.total") == 3);
    CHECK(value(&results, "totals.plays.completed") == 1);
    CHECK(value(&results, "totals.plays.incomplete") == 2);
    CHECK(value(&results, "distributions.play_e2e_ms.max") == 40);
    aisim_results_free(&results);
    aisim_recorder_free(recorder);
}

/* Warnings once each; the observer asks for nothing of the token class. */
static void small_promises(void)
{
    aisim_recorder_config config;
    aisim_recorder_config_default(&config);
    aisim_recorder *recorder = aisim_recorder_new(&config);
    aisim_recorder_warn(recorder, "a");
    aisim_recorder_warn(recorder, "b");
    aisim_recorder_warn(recorder, "a");
    aisim_results results;
    aisim_report_build(&results, recorder, &(aisim_report_meta){0});
    aisim_json json = {0};
    aisim_results_json(&results, aisim_results_find(&results, 0, "warnings"), &json);
    CHECK(json.text.len == 9 && memcmp(json.text.data, "[\"a\",\"b\"]", 9) == 0);
    uint32_t token = AISIM_EV_BIT(AISIM_EV_CHUNK) | AISIM_EV_BIT(AISIM_EV_TOKENS);
    CHECK((aisim_recorder_observer(recorder).mask & token) == 0);
    aisim_duration duration;
    CHECK(aisim_duration_parse("window", &duration, NULL) == AISIM_OK);
    CHECK(duration == AISIM_DURATION_WINDOW);
    CHECK(aisim_duration_parse("x", &duration, NULL) == AISIM_EINVAL);
    aisim_json_free(&json);
    aisim_results_free(&results);
    aisim_recorder_free(recorder);
}

int main(void)
{
    a_run_of_three_passes();
    a_cancelled_request_is_in_no_latency();
    the_barrier_starts_the_measurement();
    the_observation_begins_with_the_cohort();
    classes_have_their_own_figures();
    levels_fold_to_the_same_figures();
    many_ranks_take_no_room_for_blocks();
    every_key_has_a_definition();
    plays_are_timed_by_lane();
    small_promises();
    return check_done();
}
