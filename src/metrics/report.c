/* report.c - totals: each key of spec/report.md §3 is one line here. */
#include "metrics/report.h"

#include <math.h>

#include "base/clock.h"
#include "base/map.h"
#include "metrics/report_state.h"

double aisim_report_ratio(double a, double b)
{
    return b != 0 ? a / b : (double)NAN;
}

static void optional_count(aisim_results *results, uint32_t parent, const char *key, bool exists,
                           uint64_t value)
{
    if (exists) {
        aisim_results_uint(results, parent, key, value);
    } else {
        aisim_results_null(results, parent, key);
    }
}

/* ---- head ------------------------------------------------------------------------------------ */

static double or_nan(int64_t t_ns)
{
    return t_ns < 0 ? (double)NAN : aisim_ms_from_ns(t_ns);
}

static void put_settings(aisim_results *results, const aisim_recorder *recorder)
{
    const aisim_recorder_config *config = &recorder->config;
    uint32_t settings = aisim_results_object(results, 0, "settings");
    aisim_results_text(results, settings, "percentile_rule",
                       aisim_percentile_rule_text(config->rule));
    uint32_t extra = aisim_results_array(results, settings, "extra_percentiles");
    for (uint32_t i = 0; i < config->n_extra_percentiles; i++) {
        char key[32];
        aisim_results_text(results, extra, NULL,
                           aisim_percentile_key(config->extra_percentiles[i], key, sizeof key));
    }
    aisim_results_text(results, settings, "duration", aisim_duration_text(config->duration));
    aisim_results_number(results, settings, "measurement_start_ms", or_nan(recorder->start_ns));
    aisim_results_number(results, settings, "window_from_ms", or_nan(config->window_from_ns));
    bool open = config->window_to_ns == AISIM_NEVER;
    aisim_results_number(results, settings, "window_to_ms",
                         open ? (double)NAN : or_nan(config->window_to_ns));
    uint32_t slo = aisim_results_object(results, settings, "slo");
    aisim_results_number(results, slo, "ttft_ms", config->slo.ttft_ms);
    aisim_results_number(results, slo, "itl_ms", config->slo.itl_ms);
    aisim_results_number(results, slo, "e2e_ms", config->slo.e2e_ms);
    aisim_results_bool(results, settings, "strict_slo", config->strict_slo);
}

static void put_head(aisim_results *results, const aisim_recorder *recorder,
                     const aisim_report_meta *meta)
{
    aisim_results_text(results, 0, "schema", "aisim-report/1");
    aisim_results_text(results, 0, "version", meta->version);
    aisim_results_text(results, 0, "scenario", meta->scenario);
    aisim_results_text(results, 0, "config_digest", meta->config_digest);
    aisim_results_uint(results, 0, "seed", meta->seed);
    aisim_results_text(results, 0, "interrupted", meta->interrupted);
    put_settings(results, recorder);
    uint32_t phases = aisim_results_array(results, 0, "phases");
    for (uint32_t i = 0; i < recorder->phases.len; i++) {
        const aisim_phase_mark *mark = &recorder->phases.data[i];
        uint32_t phase = aisim_results_object(results, phases, NULL);
        aisim_results_number(results, phase, "t_ms", aisim_ms_from_ns(mark->t_ns));
        aisim_results_text(results, phase, "from", mark->from);
        aisim_results_text(results, phase, "to", mark->to);
    }
}

/* ---- totals ---------------------------------------------------------------------------------- */

/* What rates are computed from. */
typedef struct {
    int64_t from_ns, to_ns;
    double seconds;  /* NaN = 0 */
    double gpus;     /* time-weighted, NaN = unknown */
    double requests; /* cohort */
} rate_base;

static void put_counts(aisim_results *results, uint32_t totals, const aisim_recorder *recorder,
                       uint64_t *in_flight)
{
    const uint64_t *outcomes = recorder->outcomes;
    uint64_t ended = 0;
    for (uint32_t i = 0; i < AISIM_OUTCOME_IN_FLIGHT; i++) {
        ended += outcomes[i];
    }
    *in_flight = recorder->arrived > ended ? recorder->arrived - ended : 0;
    aisim_results_uint(results, totals, "num_requests", recorder->arrived);
    aisim_results_uint(results, totals, "completed_requests", outcomes[AISIM_OUTCOME_COMPLETED]);
    aisim_results_uint(results, totals, "failed", outcomes[AISIM_OUTCOME_FAILED]);
    aisim_results_uint(results, totals, "rejected", outcomes[AISIM_OUTCOME_REJECTED]);
    aisim_results_uint(results, totals, "cancelled", outcomes[AISIM_OUTCOME_CANCELLED]);
    aisim_results_uint(results, totals, "never_issued", recorder->never_issued);
    aisim_results_uint(results, totals, "in_flight_at_end", *in_flight);
    aisim_results_uint(results, totals, "preparation_requests", recorder->preparation);
    bool window = recorder->config.window_from_ns >= 0;
    optional_count(results, totals, "crossed_start", window, recorder->crossed_start);
    optional_count(results, totals, "crossed_end", window, recorder->crossed_end + *in_flight);
    aisim_results_uint(results, totals, "total_input_tokens", recorder->input_tokens);
    aisim_results_uint(results, totals, "total_output_tokens", recorder->output_tokens);
}

/* Does the backlog grow? */
static void put_trend(aisim_results *results, uint32_t totals, const aisim_recorder *recorder)
{
    aisim_trend_verdict verdict = aisim_trend_judge(&recorder->trend);
    aisim_results_number(results, totals, "backlog_trend_ratio", verdict.growth_ratio);
    if (isnan(verdict.growth_ratio)) {
        aisim_results_null(results, totals, "backlog_stable");
    } else {
        aisim_results_bool(results, totals, "backlog_stable", verdict.stable);
    }
}

static void put_durations(aisim_results *results, uint32_t totals, const aisim_recorder *recorder)
{
    const aisim_recorder_config *config = &recorder->config;
    bool none = recorder->last_completion_ns < 0;
    int64_t measured_ns = none ? 0 : recorder->last_completion_ns - recorder->start_ns;
    int64_t observed_ns = none ? 0 : recorder->last_completion_ns - recorder->first_arrival_ns;
    bool window = config->window_from_ns >= 0 && config->window_to_ns != AISIM_NEVER;
    aisim_results_number(results, totals, "duration_ms",
                         aisim_ms_from_ns(measured_ns > 0 ? measured_ns : 0));
    aisim_results_number(results, totals, "observation_duration_ms", aisim_ms_from_ns(observed_ns));
    aisim_results_number(results, totals, "window_duration_ms",
                         window ? aisim_ms_from_ns(config->window_to_ns - config->window_from_ns)
                                : (double)NAN);
}

static void put_rates(aisim_results *results, uint32_t totals, const aisim_recorder *recorder,
                      const rate_base *base)
{
    double input = (double)recorder->input_tokens, output = (double)recorder->output_tokens;
    const struct {
        const char *key, *per_gpu;
        double count;
    } rates[] = {
        {"request_throughput_rps", "request_throughput_rps_per_gpu", base->requests},
        {"input_throughput_tok_s", "input_throughput_tok_s_per_gpu", input},
        {"output_throughput_tok_s", "output_throughput_tok_s_per_gpu", output},
        {"total_throughput_tok_s", "total_throughput_tok_s_per_gpu", input + output},
    };
    for (uint32_t i = 0; i < 4; i++) {
        aisim_results_number(results, totals, rates[i].key, rates[i].count / base->seconds);
    }
    for (uint32_t i = 0; i < 4; i++) {
        aisim_results_number(results, totals, rates[i].per_gpu,
                             aisim_report_ratio(rates[i].count / base->seconds, base->gpus));
    }
}

/* worker_s by role in the order of the workers, gpu_hours, gpus. */
static void put_provision(aisim_results *results, uint32_t totals, const aisim_recorder *recorder,
                          rate_base *base)
{
    double gpu_seconds = 0;
    uint32_t roles = aisim_results_object(results, totals, "worker_s");
    for (uint32_t i = 0; i < recorder->workers.len; i++) {
        const aisim_worker_sums *worker = &recorder->workers.data[i];
        gpu_seconds += aisim_report_worker_s(worker, base->from_ns, base->to_ns) * worker->gpus;
        if (aisim_results_find(results, roles, worker->role) != AISIM_NONE) {
            continue;
        }
        double seconds = 0;
        for (uint32_t k = i; k < recorder->workers.len; k++) {
            const aisim_worker_sums *other = &recorder->workers.data[k];
            if (strcmp(other->role, worker->role) == 0) {
                seconds += aisim_report_worker_s(other, base->from_ns, base->to_ns);
            }
        }
        aisim_results_number(results, roles, worker->role, seconds);
    }
    bool known = recorder->workers.len > 0;
    base->gpus = known ? gpu_seconds / base->seconds : (double)NAN;
    aisim_results_number(results, totals, "gpu_hours", known ? gpu_seconds / 3600 : (double)NAN);
    aisim_results_number(results, totals, "gpus", base->gpus);
}

/* KV tokens that fit on the provisioned workers, time-weighted like gpus. */
static void put_capacity(aisim_results *results, uint32_t totals, const aisim_recorder *recorder,
                         const rate_base *base)
{
    double tokens = recorder->workers.len > 0 ? 0 : (double)NAN;
    double span_ns = (double)(base->to_ns - base->from_ns);
    for (uint32_t i = 0; i < recorder->workers.len; i++) {
        const aisim_worker_sums *worker = &recorder->workers.data[i];
        double held_ns = (double)aisim_report_worker_ns(worker, base->from_ns, base->to_ns);
        double own = (double)worker->blocks * worker->block_size * worker->ranks;
        tokens += worker->block_size > 0 ? aisim_report_ratio(held_ns, span_ns) * own : (double)NAN;
    }
    aisim_results_number(results, totals, "kv_cache_pool_tokens", tokens);
}

static void put_reuse(aisim_results *results, uint32_t totals, const aisim_recorder *recorder,
                      const rate_base *base)
{
    double input = (double)recorder->input_tokens;
    double first = aisim_report_ratio((double)recorder->first_reused_tokens, input);
    double ideal = recorder->ideal_known ? aisim_report_ratio((double)recorder->ideal_tokens, input)
                                         : (double)NAN;
    aisim_results_number(results, totals, "prefix_cache_reused_ratio",
                         aisim_report_ratio((double)recorder->reused_tokens, input));
    aisim_results_number(results, totals, "first_admission_prefix_cache_reused_ratio", first);
    aisim_results_number(results, totals, "request_hit_ratio",
                         aisim_report_ratio((double)recorder->hits, base->requests));
    aisim_results_number(results, totals, "ideal_reuse_ratio", ideal);
    aisim_results_number(results, totals, "reuse_gap_ratio", ideal - first);
}

/* The means of the run against the bounds of the configuration. */
static bool means_meet(aisim_recorder *recorder)
{
    const aisim_slo *slo = &recorder->config.slo;
    aisim_digest *all = recorder->distributions;
    return !(aisim_digest_mean(&all[AISIM_DIST_ttft_ms]) > slo->ttft_ms ||
             aisim_digest_mean(&all[AISIM_DIST_itl_ms]) > slo->itl_ms ||
             aisim_digest_mean(&all[AISIM_DIST_e2e_ms]) > slo->e2e_ms);
}

static void put_goodput(aisim_results *results, uint32_t totals, aisim_recorder *recorder,
                        const rate_base *base)
{
    bool slo = recorder->any_slo;
    double none = (double)NAN;
    optional_count(results, totals, "goodput_completed_requests", slo, recorder->good);
    aisim_results_number(results, totals, "goodput_request_throughput_rps",
                         slo ? (double)recorder->good / base->seconds : none);
    aisim_results_number(results, totals, "goodput_output_throughput_tok_s",
                         slo ? (double)recorder->good_output_tokens / base->seconds : none);
    aisim_results_number(results, totals, "good_fraction",
                         slo ? aisim_report_ratio((double)recorder->good, base->requests) : none);
    if (recorder->config.strict_slo && aisim_slo_any(&recorder->config.slo)) {
        aisim_results_bool(results, totals, "strict_slo_pass", means_meet(recorder));
    } else {
        aisim_results_null(results, totals, "strict_slo_pass");
    }
}

static void put_speculation(aisim_results *results, uint32_t totals, const aisim_recorder *recorder)
{
    if (recorder->drafts == 0) {
        aisim_results_null(results, totals, "speculation");
        return;
    }
    double drafts = (double)recorder->drafts, accepted = (double)recorder->accepted;
    uint32_t object = aisim_results_object(results, totals, "speculation");
    aisim_results_uint(results, object, "drafts", recorder->drafts);
    aisim_results_uint(results, object, "drafted", recorder->drafted);
    aisim_results_uint(results, object, "accepted", recorder->accepted);
    aisim_results_number(results, object, "acceptance_ratio",
                         aisim_report_ratio(accepted, (double)recorder->drafted));
    uint32_t positions = aisim_results_array(results, object, "acceptance_ratio_per_position");
    for (uint32_t j = 0; j < recorder->positions; j++) {
        aisim_results_number(results, positions, NULL, (double)recorder->accepted_more[j] / drafts);
    }
    aisim_results_number(results, object, "mean_accept_len", (accepted + drafts) / drafts);
    aisim_results_uint(results, object, "bonus_tokens", recorder->drafts);
}

static void put_scheduler(aisim_results *results, uint32_t totals, const aisim_recorder *recorder,
                          const rate_base *base)
{
    aisim_rank_sums sum = {0};
    double budget = 0, tokens_of_budget = 0, idle_ns = 0, span_ns = 0;
    for (uint32_t i = 0; i < recorder->ranks.len; i++) {
        const aisim_rank_sums *rank = &recorder->ranks.data[i];
        double tokens =
            (double)(rank->prefill_tokens + rank->recomputed_tokens + rank->decode_tokens);
        uint64_t limit =
            rank->worker == AISIM_NONE ? 0 : recorder->workers.data[rank->worker].batched_tokens;
        if (limit > 0) {
            budget += (double)limit * (double)rank->passes;
            tokens_of_budget += tokens;
        }
        double there =
            (double)aisim_report_rank_ns(recorder, rank->worker, base->from_ns, base->to_ns);
        double idle = there - (double)rank->busy_ns;
        idle_ns += idle > 0 ? idle : 0;
        span_ns += there;
        sum.passes += rank->passes;
        sum.prefill_passes += rank->prefill_passes;
        sum.decode_passes += rank->decode_passes;
        sum.mixed_passes += rank->mixed_passes;
        sum.prefill_tokens += rank->prefill_tokens;
        sum.recomputed_tokens += rank->recomputed_tokens;
        sum.decode_tokens += rank->decode_tokens;
        sum.busy_ns += rank->busy_ns;
    }
    double passes = (double)sum.passes;
    uint32_t object = aisim_results_object(results, totals, "scheduler");
    aisim_results_uint(results, object, "passes", sum.passes);
    aisim_results_number(results, object, "prefill_pass_ratio",
                         aisim_report_ratio((double)sum.prefill_passes, passes));
    aisim_results_number(results, object, "decode_pass_ratio",
                         aisim_report_ratio((double)sum.decode_passes, passes));
    aisim_results_number(results, object, "mixed_pass_ratio",
                         aisim_report_ratio((double)sum.mixed_passes, passes));
    aisim_results_uint(results, object, "prefill_tokens", sum.prefill_tokens);
    aisim_results_uint(results, object, "recomputed_output_tokens", sum.recomputed_tokens);
    aisim_results_uint(results, object, "decode_tokens", sum.decode_tokens);
    aisim_results_number(results, object, "busy_ms", aisim_ms_from_ns(sum.busy_ns));
    aisim_results_number(results, object, "idle_ratio", aisim_report_ratio(idle_ns, span_ns));
    aisim_results_number(results, object, "budget_ratio",
                         aisim_report_ratio(tokens_of_budget, budget));
}

static void put_transfers(aisim_results *results, uint32_t totals, const aisim_recorder *recorder)
{
    static const char *const kinds[AISIM_TRANSFER_KINDS] = {"handoff", "offload", "restore"};
    uint32_t object = aisim_results_object(results, totals, "transfers");
    for (uint32_t i = 0; i < AISIM_TRANSFER_KINDS; i++) {
        const aisim_transfer_sums *sums = &recorder->transfers[i];
        uint32_t kind = aisim_results_object(results, object, kinds[i]);
        aisim_results_uint(results, kind, "jobs", sums->jobs);
        aisim_results_uint(results, kind, "bytes", sums->bytes);
        aisim_results_number(results, kind, "time_ms", aisim_ms_from_ns(sums->time_ns));
        if (i == AISIM_TRANSFER_HANDOFF) {
            aisim_results_number(results, kind, "hold_ms", aisim_ms_from_ns(sums->hold_ns));
        }
    }
}

/* One direction of the host tier. */
static void put_lane(aisim_results *results, uint32_t parent, const char *key,
                     const aisim_rank_totals *sum, uint32_t i, double span_ms)
{
    uint32_t lane = aisim_results_object(results, parent, key);
    double busy_ms = aisim_ms_from_ns(sum->busy_ns[i]);
    aisim_results_uint(results, lane, "jobs", sum->jobs[i]);
    aisim_results_uint(results, lane, "completed", sum->completed[i]);
    aisim_results_uint(results, lane, "blocks", sum->blocks[i]);
    aisim_results_uint(results, lane, "bytes", sum->bytes[i]);
    aisim_results_number(results, lane, "transfer_ms", aisim_ms_from_ns(sum->transfer_ns[i]));
    aisim_results_number(results, lane, "busy_ms", busy_ms);
    aisim_results_number(results, lane, "wait_ms", aisim_ms_from_ns(sum->wait_ns[i]));
    aisim_results_number(results, lane, "busy_ratio", aisim_report_ratio(busy_ms, span_ms));
    aisim_results_number(results, lane, "mean_gbps",
                         aisim_report_ratio((double)sum->bytes[i], busy_ms * 1e6));
}

/* Blocks of both tiers, of the whole run. */
static void put_blocks(aisim_results *results, uint32_t totals, const aisim_recorder *recorder,
                       const rate_base *base)
{
    const aisim_rank_totals *sum = &recorder->blocks;
    uint32_t kv = aisim_results_object(results, totals, "kv_blocks");
    aisim_results_uint(results, kv, "allocated", sum->allocated_blocks);
    aisim_results_uint(results, kv, "published", sum->published_blocks);
    aisim_results_uint(results, kv, "evicted", sum->evicted_blocks);
    if (!sum->host) {
        aisim_results_null(results, totals, "offload");
        return;
    }
    double span_ms = base->seconds * 1e3;
    uint32_t host = aisim_results_object(results, totals, "offload");
    aisim_results_uint(results, host, "capacity_blocks", sum->host_blocks);
    aisim_results_uint(results, host, "resident_blocks", sum->host_resident);
    aisim_results_uint(results, host, "used_blocks", sum->host_used);
    aisim_results_uint(results, host, "peak_blocks", sum->host_peak);
    aisim_results_uint(results, host, "evicted_blocks", sum->host_evicted);
    put_lane(results, host, "d2h", sum, 0, span_ms);
    put_lane(results, host, "h2d", sum, 1, span_ms);
    aisim_results_uint(results, host, "cancelled_loads", sum->cancelled_loads);
    aisim_results_uint(results, host, "capacity_retries", sum->retries);
    aisim_results_uint(results, host, "unfittable_retries", sum->unfittable);
    aisim_results_uint(results, host, "lookups", sum->lookups);
    aisim_results_uint(results, host, "lookup_hits", sum->hits);
    aisim_results_uint(results, host, "hit_blocks", sum->hit_blocks);
    aisim_results_uint(results, host, "deferred_lookups", sum->deferred);
    aisim_results_number(results, host, "fence_ms", aisim_ms_from_ns(sum->fence_ns));
}

/* Recurrent states, of the whole run. */
static void put_state_cache(aisim_results *results, uint32_t totals, const aisim_recorder *recorder)
{
    const aisim_rank_totals *sum = &recorder->blocks;
    if (!sum->state) {
        aisim_results_null(results, totals, "state_cache");
        return;
    }
    uint32_t state = aisim_results_object(results, totals, "state_cache");
    aisim_results_uint(results, state, "checkpoints", sum->state_checkpoints);
    aisim_results_number(results, state, "checkpoint_bytes", sum->state_bytes);
    aisim_results_uint(results, state, "admissions", sum->state_admissions);
    aisim_results_uint(results, state, "hits", sum->state_restores);
    aisim_results_uint(results, state, "matched_tokens", sum->state_matched_tokens);
    aisim_results_uint(results, state, "usable_tokens", sum->state_usable_tokens);
    aisim_results_number(
        results, state, "usable_ratio",
        aisim_report_ratio((double)sum->state_usable_tokens, (double)sum->state_matched_tokens));
}

static void put_plays(aisim_results *results, uint32_t totals, const aisim_recorder *recorder)
{
    uint32_t object = aisim_results_object(results, totals, "plays");
    aisim_results_uint(results, object, "total", recorder->plays_total);
    aisim_results_uint(results, object, "completed", recorder->plays_completed);
    aisim_results_uint(results, object, "incomplete",
                       recorder->plays_total - recorder->plays_completed);
}

static void put_totals(aisim_results *results, aisim_recorder *recorder)
{
    rate_base base = {.requests = (double)recorder->outcomes[AISIM_OUTCOME_COMPLETED]};
    aisim_recorder_interval(recorder, &base.from_ns, &base.to_ns);
    bool empty = base.to_ns <= base.from_ns;
    base.seconds = empty ? (double)NAN : aisim_s_from_ns(base.to_ns - base.from_ns);

    uint64_t in_flight;
    uint32_t totals = aisim_results_group(results, 0, "totals");
    put_counts(results, totals, recorder, &in_flight);
    put_durations(results, totals, recorder);
    put_provision(results, totals, recorder, &base);
    put_rates(results, totals, recorder, &base);
    put_capacity(results, totals, recorder, &base);
    put_reuse(results, totals, recorder, &base);
    put_goodput(results, totals, recorder, &base);
    aisim_results_uint(results, totals, "preemptions", recorder->preemptions);
    aisim_results_uint(results, totals, "readmissions", recorder->readmissions);
    aisim_results_uint(results, totals, "recomputed_tokens", recorder->recomputed);
    uint32_t gauges = aisim_results_group(results, totals, "gauges");
    aisim_report_gauge(results, gauges, "kv_usage", &aisim_levels_sum(&recorder->levels)->usage);
    aisim_report_gauge(results, gauges, "kv_reusable_ratio",
                       &aisim_levels_sum(&recorder->levels)->share);
    aisim_results_uint(results, totals, "evictions_blocks", recorder->evicted_blocks);
    put_speculation(results, totals, recorder);
    put_scheduler(results, totals, recorder, &base);
    put_transfers(results, totals, recorder);
    put_blocks(results, totals, recorder, &base);
    put_state_cache(results, totals, recorder);
    put_plays(results, totals, recorder);
    put_trend(results, totals, recorder);
    aisim_report_routing(results, totals, recorder);
}

void aisim_report_build(aisim_results *results, aisim_recorder *recorder,
                        const aisim_report_meta *meta)
{
    aisim_results_init(results);
    put_head(results, recorder, meta);
    put_totals(results, recorder);
    aisim_report_distributions(results, recorder);
    aisim_report_classes(results, recorder);
    aisim_report_workers(results, recorder);
    aisim_report_custom(results, recorder);
    uint32_t warnings = aisim_results_array(results, 0, "warnings");
    for (uint32_t i = 0; i < recorder->warnings.len; i++) {
        aisim_results_text(results, warnings, NULL, recorder->warnings.data[i]);
    }
}
