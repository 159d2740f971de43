/* definitions.c - what every key of a report means: `aisim help metrics` and the console table.
 *
 * One line per key, in the order of the report. a arrival, d dispatch, m first admission, f first
 * token, l last token, x terminal event, n output tokens produced (spec/report.md §1-3). */
#include <string.h>

#include "metrics/report.h"

static const aisim_definition definitions[] = {
    /* counts */
    {"num_requests", "requests",
     "measured requests that arrived; never issued ones not among them"},
    {"completed_requests", "requests", "measured requests that completed: the cohort"},
    {"failed", "requests", "measured requests that failed"},
    {"rejected", "requests", "measured requests refused by admission, router or engine"},
    {"cancelled", "requests", "measured requests that were cancelled"},
    {"never_issued", "requests", "planned by the workload and never sent"},
    {"in_flight_at_end", "requests", "measured requests without an end when the run ended"},
    {"preparation_requests", "requests", "primer and warmup requests, in no other figure"},
    {"crossed_start", "requests", "arrived before the window, ended at or after its begin"},
    {"crossed_end", "requests", "measured, ended at or after the end of the window, or not at all"},
    {"total_input_tokens", "tokens", "prompt tokens of the cohort"},
    {"total_output_tokens", "tokens", "tokens the cohort produced"},
    /* what passes cost (timing models; not of the cohort but of the whole run) */
    {"timing.passes", "passes", "passes priced, of all pools"},
    {"timing.time_ms", "ms", "sum of their durations"},
    {"timing.measured_time_ratio", "", "share of that time that is a point of measured tables"},
    {"timing.interpolated_time_ratio", "", "share between points"},
    {"timing.extrapolated_time_ratio", "", "share beyond the points, along the roofline"},
    {"timing.calibrated_time_ratio", "", "share from the built-in calibration"},
    {"timing.roofline_time_ratio", "", "share without data: roofline over a default efficiency"},
    {"timing.formula_time_ratio", "", "share that is a formula or the user's number by definition"},
    {"timing.roofline_ops", "ops", "operations that had no data; named in roofline_names"},
    /* time and capacity */
    {"duration_ms", "ms", "measurement start to the last completion of the cohort; 0 without one"},
    {"observation_duration_ms", "ms", "first arrival to last completion of the cohort"},
    {"window_duration_ms", "ms", "length of the configured window"},
    {"worker_s", "s", "provisioned time of the workers of a role: starting, ready, draining"},
    {"gpu_hours", "h", "worker time times GPUs per worker"},
    {"gpus", "GPUs", "GPUs provisioned, time-weighted over the interval"},
    {"kv_cache_pool_tokens", "tokens", "tokens that the KV caches of those workers hold"},
    /* rates: over the interval chosen by `duration` */
    {"request_throughput_rps", "req/s", "completed requests / interval"},
    {"input_throughput_tok_s", "tok/s", "prompt tokens of the cohort / interval"},
    {"output_throughput_tok_s", "tok/s", "output tokens of the cohort / interval"},
    {"total_throughput_tok_s", "tok/s", "prompt and output tokens of the cohort / interval"},
    {"request_throughput_rps_per_gpu", "req/s", "request_throughput_rps / gpus"},
    {"input_throughput_tok_s_per_gpu", "tok/s", "input_throughput_tok_s / gpus"},
    {"output_throughput_tok_s_per_gpu", "tok/s", "output_throughput_tok_s / gpus"},
    {"total_throughput_tok_s_per_gpu", "tok/s", "total_throughput_tok_s / gpus"},
    /* reuse */
    {"prefix_cache_reused_ratio", "", "reused tokens, maximum over admissions / prompt tokens"},
    {"first_admission_prefix_cache_reused_ratio", "",
     "KV prefix reuse: tokens reused at first admission / prompt tokens, cohort"},
    {"request_hit_ratio", "", "share of the cohort with any reuse at first admission; not reuse"},
    {"ideal_reuse_ratio", "", "reuse of the same requests with an infinite cache"},
    {"reuse_gap_ratio", "", "ideal_reuse_ratio - first_admission_prefix_cache_reused_ratio"},
    /* goodput: null without an SLO */
    {"goodput_completed_requests", "requests",
     "completed requests that meet every bound of the SLO"},
    {"goodput_request_throughput_rps", "req/s", "goodput_completed_requests / interval"},
    {"goodput_output_throughput_tok_s", "tok/s",
     "output tokens of requests that meet the SLO / interval"},
    {"good_fraction", "", "goodput_completed_requests / completed_requests"},
    {"strict_slo_pass", "", "do the means of the run meet the SLO? (option strict_slo)"},
    /* scheduler events of measured requests, whatever their outcome */
    {"preemptions", "", "times a running request lost its blocks"},
    {"readmissions", "", "admissions behind the first one of each pool"},
    {"recomputed_tokens", "tokens", "prompt and output tokens computed again after preemptions"},
    {"kv_usage", "",
     "used / total KV blocks of workers that are not stopped, time-weighted: mean, peak, p99"},
    {"kv_reusable_ratio", "", "cached blocks in no use / total KV blocks, time-weighted"},
    {"backlog_trend_ratio", "",
     "growth of the requests in flight along a line through all arrivals / arrivals; null below "
     "100 "
     "arrivals"},
    {"backlog_stable", "",
     "false: more than 5 % of the arrivals stay behind, and the growth is above twice the spread "
     "around the line"},
    {"evictions_blocks", "blocks", "cached device blocks given up"},
    /* speculation: null without */
    {"speculation.drafts", "", "verifications, those of prefill not among them"},
    {"speculation.drafted", "tokens", "draft tokens verified"},
    {"speculation.accepted", "tokens",
     "draft tokens accepted, before the output limit trims a burst"},
    {"speculation.acceptance_ratio", "", "accepted / drafted"},
    {"speculation.acceptance_ratio_per_position", "",
     "entry j: verifications that accepted more than j drafts / verifications, j from 0"},
    {"speculation.mean_accept_len", "tokens", "(accepted + verifications) / verifications"},
    {"speculation.bonus_tokens", "tokens", "base tokens of the verifications, one each"},
    /* passes of all ranks that end behind the measurement start (within the window, if any) */
    {"scheduler.passes", "", "passes with at least one scheduled request"},
    {"scheduler.prefill_pass_ratio", "", "share of passes with prefill only"},
    {"scheduler.decode_pass_ratio", "", "share of passes with decode only"},
    {"scheduler.mixed_pass_ratio", "", "share of passes with both"},
    {"scheduler.prefill_tokens", "tokens", "prompt tokens computed"},
    {"scheduler.recomputed_output_tokens", "tokens", "generated tokens computed again"},
    {"scheduler.decode_tokens", "tokens", "tokens scheduled for decoding, drafts included"},
    {"scheduler.busy_ms", "ms", "summed time of the passes"},
    {"scheduler.idle_ratio", "", "share of the time of the workers in which a rank runs no pass"},
    {"scheduler.budget_ratio", "", "scheduled tokens / token budget of the passes"},
    {"transfers", "",
     "finished transfers by kind (handoff, offload, restore): jobs, bytes, time_ms"},
    {"transfers.handoff.hold_ms", "ms",
     "prompt computed to transfer ended, summed: the prefill worker keeps the blocks so long"},
    /* blocks of both tiers, of the whole run */
    {"kv_blocks.allocated", "blocks", "taken fresh from the device pools"},
    {"kv_blocks.published", "blocks", "identities that became visible on a device"},
    {"kv_blocks.evicted", "blocks", "cached device blocks, copies too, that made room"},
    {"offload", "", "host tier; null without one"},
    {"offload.capacity_blocks", "blocks", "of all host pools"},
    {"offload.resident_blocks", "blocks", "ready at the end of the run"},
    {"offload.used_blocks", "blocks", "resident or on their way at the end of the run"},
    {"offload.peak_blocks", "blocks", "most blocks in use, summed over pools"},
    {"offload.evicted_blocks", "blocks", "host blocks that made room for stores"},
    {"offload.d2h", "", "stores: jobs submitted and completed, blocks, bytes, times"},
    {"offload.h2d", "", "loads, likewise"},
    {"offload.d2h.transfer_ms", "ms", "submission to end, summed; waiting for the lane included"},
    {"offload.d2h.busy_ms", "ms", "moving, summed over private lanes"},
    {"offload.d2h.wait_ms", "ms", "waiting behind other jobs of a private lane"},
    {"offload.cancelled_loads", "loads", "loads whose request was cancelled"},
    {"offload.capacity_retries", "", "store ranges that found no room and were tried again"},
    {"offload.unfittable_retries", "", "of them those larger than the pool"},
    {"offload.lookups", "", "of waiting requests; lookup_hits: a load could start"},
    {"offload.hit_blocks", "blocks", "length of the runs found"},
    {"offload.deferred_lookups", "", "a needed block was on its way, the request slept"},
    {"offload.fence_ms", "ms", "by which copies delayed passes"},
    {"state_cache", "", "recurrent states of hybrid models, of the whole run; null without"},
    {"state_cache.checkpoints", "", "states that were kept under the prefix they stand for"},
    {"state_cache.checkpoint_bytes", "bytes", "of all of them"},
    {"state_cache.admissions", "", "admissions that looked for one, readmissions too"},
    {"state_cache.hits", "", "admissions that went on from one"},
    {"state_cache.matched_tokens", "tokens", "leading tokens of their prompts whose blocks were there"},
    {"state_cache.usable_tokens", "tokens", "part of them up to a checkpoint: what was reused"},
    {"state_cache.usable_ratio", "", "usable_tokens / matched_tokens"},
    {"plays", "", "plays by outcome: total, completed, incomplete"},
    /* decisions of routers about measured requests */
    {"routing.placements", "", "requests placed, in each pool that they were routed in"},
    {"routing.affinity_hits", "", "placements that a live binding decided"},
    {"routing.session_moves", "", "placements of a session on another worker than its last one"},
    {"routing.moves_per_session", "", "session_moves / sessions"},
    {"routing.imbalance_ratio", "",
     "most / mean prompt and output tokens per worker, of the most uneven pool; cohort"},
    /* about the cohort; absent unless a router has regret = true */
    {"routing.decisions", "", "requests whose decision was measured (router.regret)"},
    {"routing.overlap_chosen_blocks", "blocks", "leading prompt blocks there on the chosen target"},
    {"routing.overlap_best_blocks", "blocks", "the same on the eligible target that had most"},
    {"routing.regret_blocks", "blocks", "overlap_best_blocks - overlap_chosen_blocks; not reuse"},
    /* per request, distributions over the cohort */
    {"ttft_ms", "ms", "time to first token: f - a"},
    {"ttst_ms", "ms", "time to second token: second token - f"},
    {"t2_ms", "ms", "second token - a"},
    {"e2e_ms", "ms", "request latency: l - a"},
    {"itl_ms", "ms", "request-level inter-token latency, also called TPOT: (l - f) / (n - 1)"},
    {"interactivity", "tok/s", "1000 / the same statistic of itl_ms, so p99 is the slow tail"},
    {"decode_ms", "ms", "l - f"},
    {"output_tok_s_per_user", "tok/s", "1000 / itl_ms of the request"},
    {"prefill_tok_s_per_user", "tok/s", "prompt tokens / time to first token"},
    {"e2e_output_tok_s", "tok/s", "n / request latency"},
    {"e2e_per_token_ms", "ms", "request latency / n"},
    {"normalised_interactivity", "tok/s", "1000 / the same statistic of e2e_per_token_ms"},
    {"queue_ms", "ms", "m - a"},
    {"router_queue_ms", "ms", "d - a"},
    {"prefill_router_queue_ms", "ms",
     "hand-offs: arrival to the choice of the prefill router, or from the loss of a worker on"},
    {"decode_router_queue_ms", "ms",
     "hand-offs: from then to the choice of the decode router, decision delay included"},
    {"engine_queue_ms", "ms", "m - d"},
    {"prefill_ms", "ms", "f - m, chunks and preemption stalls included"},
    {"preempt_stall_ms", "ms", "time between preemptions and re-admissions"},
    {"input_tokens", "tokens", "prompt tokens"},
    {"output_tokens", "tokens", "n"},
    {"reused_tokens", "tokens", "prompt tokens from the cache, maximum over admissions"},
    {"first_admission_reused_tokens", "tokens", "prompt tokens from the cache at first admission"},
    {"accept_len", "tokens",
     "(accepted drafts + verifications) / verifications; 1 without speculation"},
    {"token_gap_ms", "ms", "pooled ITL: every difference of consecutive token times of a request"},
    /* other distributions */
    {"pass_tokens", "tokens", "tokens scheduled in a pass"},
    {"pass_requests", "requests", "requests with tokens in a pass"},
    {"pass_ms", "ms", "time of a pass"},
    {"play_e2e_ms", "ms", "start to end of a completed play"},
    {"completions_per_second_rps", "req/s", "completions of the cohort in windows of one second"},
    /* request records only */
    {"requested_output_tokens", "tokens", "output length asked for"},
    {"device_reused_tokens", "tokens", "part of first_admission_reused_tokens from the device"},
    {"host_reused_tokens", "tokens", "part of first_admission_reused_tokens from the host tier"},
    {"ideal_reused_tokens", "tokens", "what an infinite cache would have given the request"},
    {"admissions", "", "admissions over all pools"},
    {"overlap_chosen_blocks", "blocks", "router.regret: prompt blocks there on the chosen target"},
    {"overlap_best_blocks", "blocks", "router.regret: the same on the best eligible target"},
};

const aisim_definition *aisim_definition_at(uint32_t index)
{
    return index < sizeof definitions / sizeof *definitions ? &definitions[index] : NULL;
}

const aisim_definition *aisim_definition_find(const char *key)
{
    const aisim_definition *definition = definitions;
    for (uint32_t i = 0; (definition = aisim_definition_at(i)) != NULL; i++) {
        if (strcmp(definition->key, key) == 0) {
            break;
        }
    }
    return definition;
}

/* ---- console table (spec/report.md §7, spec/cli.md "Screen of run") -------------------------- */

const aisim_table_row *aisim_table_row_at(uint32_t index)
{
    static const aisim_table_row rows[] = {
        {"time to first token", "ttft_ms", "ms"},
        {"time to second token", "ttst_ms", "ms"},
        {"request latency", "e2e_ms", "ms"},
        {"inter-token latency", "itl_ms", "ms"},
        {"output tok/s per user", "output_tok_s_per_user", "tok/s"},
        {"queue time", "queue_ms", "ms"},
    };
    return index < sizeof rows / sizeof *rows ? &rows[index] : NULL;
}

const aisim_table_column *aisim_table_column_at(uint32_t index)
{
    static const aisim_table_column columns[] = {{"avg", "mean"}, {"min", "min"}, {"max", "max"},
                                                 {"p99", "p99"},  {"p90", "p90"}, {"p75", "p75"},
                                                 {"std", "std"}};
    return index < sizeof columns / sizeof *columns ? &columns[index] : NULL;
}
