/* test_config_prediction.c - whole files: the anchor workloads (anchor-workloads.md §1), AgentX
 * files, pools by role, and everything in traffic that does not go together. */
#include <stdlib.h>

#include "check.h"
#include "config/emit.h"
#include "config/prediction.h"
#include "config/resolve.h"
#include "config/schema.h"
#include "config/yaml.h"

static aisim_status read_file_text(const char *text, const char *const sets[], uint32_t n,
                                   aisim_prediction *out, aisim_error *err)
{
    aisim_value *tree = NULL;
    aisim_source *source = aisim_source_new(AISIM_ORIGIN_FILE, "x.yaml");
    aisim_status status = aisim_yaml_text(text, strlen(text), source, &tree, err);
    aisim_source_release(source);
    *out = (aisim_prediction){0};
    return status == AISIM_OK ? aisim_prediction_tree(tree, sets, n, out, err) : status;
}

static void check_refused(const char *text, const char *want, int line)
{
    aisim_prediction p;
    aisim_error err = {0};
    char got[2048];
    aisim_status status = read_file_text(text, NULL, 0, &p, &err);
    check_str(aisim_error_format(&err, got, sizeof got), want, text, __FILE__, line);
    check_that(status != AISIM_OK && p.tree == NULL && p.n_pools == 0, text, __FILE__, line);
    aisim_prediction_free(&p);
}
#define REFUSES(text, want) check_refused((text), (want), __LINE__)

static void check_accepted(const char *text, int line)
{
    aisim_prediction p;
    aisim_error err = {0};
    char got[2048];
    read_file_text(text, NULL, 0, &p, &err);
    check_str(aisim_error_format(&err, got, sizeof got), "", text, __FILE__, line);
    aisim_prediction_free(&p);
}
#define ACCEPTS(text) check_accepted((text), __LINE__)

static const char anchor[] =
    "traffic:\n"
    "  source: {type: synthetic, input_tokens: 120000, output_tokens: 64}\n"
    "  load: {type: concurrency, concurrency: 4}\n"
    "  stop: {requests: 2048}\n"
    "engine:\n"
    "  mode: aggregated\n"
    "  model: llama-3.1-8b\n"
    "  hardware: h200_sxm\n"
    "  backend: vllm\n"
    "  context_length: 131072\n"
    "  speculation: {kind: mtp, params: {depth: 2}, expected_accepted_tokens: 1.5, seed: 42}\n"
    "  workers:\n"
    "    aggregated:\n"
    "      parallelism: {replicas: 1, tensor: 1, pipeline: 1, attention_data: 1}\n"
    "      scheduler: {max_batched_tokens: 2048, max_sequences: 4, chunked_prefill: true}\n"
    "      kv_cache:\n"
    "        block_size: 16\n"
    "        bytes_per_token: 250000\n"
    "        prefix_caching: true\n"
    "        capacity: {type: fixed, blocks: 16384}\n"
    "        host_offload: {scope: dp_rank_local, num_host_blocks: 2097152,\n"
    "                       d2h_bandwidth_gbps: 32, h2d_bandwidth_gbps: 32,\n"
    "                       connector: offloading_v0_32}\n";

static void the_anchor_workload_can_be_written(void)
{
    aisim_prediction p;
    aisim_error err = {0};
    CHECK_EQ(read_file_text(anchor, NULL, 0, &p, &err), AISIM_OK);
    CHECK_STR(err.text, "");
    CHECK_EQ(p.n_pools, 1);
    CHECK_EQ(p.pools[0].role, AISIM_ROLE_AGGREGATED);
    CHECK_EQ(aisim_value_as_integer(aisim_value_find(p.tree, "traffic.stop.requests")), 2048);
    aisim_rank_config rank;
    aisim_capacity_request capacity;
    aisim_config_facts facts = {
        .model = "llama-3.1-8b", .context_length = 131072, .bytes_per_token = 131072};
    CHECK_EQ(aisim_config_rank(p.pools[0].engine, &facts, &rank, &capacity, &err), AISIM_OK);
    CHECK_STR(err.text, "");
    CHECK_EQ(rank.scheduler.max_batched_tokens, 2048);
    CHECK_EQ(rank.scheduler.max_sequences, 4);
    CHECK_EQ(rank.scheduler.context_length, 131072);
    CHECK_EQ(rank.kv.blocks, 16384);
    CHECK_EQ(rank.kv.block_size, 16);
    CHECK(rank.kv.bytes_per_token == 250000.0);
    CHECK_EQ(rank.speculation.depth, 2);
    CHECK_EQ(capacity.type, AISIM_CAPACITY_FIXED);
    aisim_prediction_free(&p);
}

static void flags_win_and_are_named(void)
{
    static const char *const sets[] = {
        "engine.workers.aggregated.scheduler.max_batched_tokens=8192",
        "traffic.source={type: synthetic, input_tokens: 30k, output_tokens: 64}",
        "engine.workers.aggregated.scheduler.max_batched_tokens=4096"};
    aisim_prediction p, q;
    aisim_error err = {0};
    CHECK_EQ(read_file_text(anchor, sets, 3, &p, &err), AISIM_OK);
    CHECK_EQ(
        aisim_value_as_integer(aisim_value_find(p.pools[0].engine, "scheduler.max_batched_tokens")),
        4096);
    CHECK_EQ(aisim_value_as_integer(aisim_value_find(p.tree, "traffic.source.input_tokens")),
             30000);
    CHECK_EQ(aisim_value_origin(aisim_value_find(p.tree, "traffic.source.input_tokens")),
             AISIM_ORIGIN_SET);
    CHECK_EQ(aisim_value_origin(aisim_value_find(p.tree, "traffic.load.concurrency")),
             AISIM_ORIGIN_FILE);
    CHECK_EQ(read_file_text(anchor, NULL, 0, &q, &err), AISIM_OK);
    CHECK(p.digest != q.digest && p.digest != 0);
    aisim_prediction_free(&q);
    static const char *const wrong[] = {"traffic.load.concurrency=none"};
    char got[2048];
    CHECK_EQ(read_file_text(anchor, wrong, 1, &q, &err), AISIM_EINVAL);
    CHECK_STR(aisim_error_format(&err, got, sizeof got),
              "--set traffic.load.concurrency=none: traffic.load.concurrency: integer expected, "
              "got string 'none'");
    aisim_prediction_free(&p);
}

static void a_resolved_file_is_a_file(void)
{
    aisim_prediction p, q;
    aisim_error err = {0};
    CHECK_EQ(read_file_text(anchor, NULL, 0, &p, &err), AISIM_OK);
    aisim_text yaml = {0};
    aisim_emit_yaml(p.tree, &yaml);
    CHECK_EQ(read_file_text(aisim_text_get(&yaml), NULL, 0, &q, &err), AISIM_OK);
    CHECK_STR(err.text, "");
    CHECK(aisim_value_equal(p.tree, q.tree));
    CHECK_EQ(p.digest, q.digest);
    aisim_text_free(&yaml);
    aisim_prediction_free(&p);
    aisim_prediction_free(&q);
}

static void the_smallest_file(void)
{
    aisim_prediction p;
    aisim_error err = {0};
    CHECK_EQ(read_file_text("engine: {model: m}", NULL, 0, &p, &err), AISIM_OK);
    CHECK_EQ(aisim_value_as_integer(aisim_value_find(p.tree, "traffic.stop.requests")), 100);
    CHECK_EQ(aisim_value_as_integer(aisim_value_find(p.tree, "traffic.load.concurrency")), 10);
    CHECK_EQ(p.n_pools, 1);
    CHECK_EQ(aisim_value_as_integer(
                 aisim_value_find(p.tree, "engine.workers.aggregated.scheduler.max_sequences")),
             256);
    CHECK(p.max_virtual_time_ms == 0.0 && p.memory_limit_bytes == 0.0);
    aisim_prediction_free(&p);
    REFUSES("", "x.yaml:1:1: empty; a map with at least 'engine' expected");
    REFUSES("[1]", "x.yaml:1:1: a map with at least 'engine' expected, got a list");
    REFUSES("traffic: {}", "x.yaml:1:1: missing key 'engine' (model, hardware and workers)");
    REFUSES("engine: {model: m, scheduler: {}}",
            "x.yaml:1:20: unknown key 'scheduler' (keys here: mode, workers, model, hardware, "
            "backend, backend_version, context_length, estimation_mode, database_mode, "
            "fallback_policy, speculation, nextn, nextn_accepted, kv_transfer)");
}

static void stop_rules(void)
{
    aisim_prediction p;
    aisim_error err = {0};
    read_file_text(
        "{engine: {model: m}, traffic: {load: {type: poisson, requests_per_second: 2.5}, "
        "stop: {requests_per_load_unit: 3, max_virtual_time_seconds: 2m}}, execution: "
        "{resources: {memory_limit_gb: 4}}}",
        NULL, 0, &p, &err);
    CHECK_STR(err.text, "");
    CHECK(p.max_virtual_time_ms == 120000.0);
    CHECK(p.memory_limit_bytes == 4e9);
    aisim_prediction_free(&p);
    REFUSES("{engine: {}, traffic: {source: {type: synthetic}}}",
            "x.yaml:1:23: missing key 'traffic.stop.requests' (a synthetic source has no end; or "
            "max_virtual_time_seconds)");
    REFUSES("{engine: {}, traffic: {stop: {requests: 3, requests_per_load_unit: 2}}}",
            "x.yaml:1:68: traffic.stop: give requests or requests_per_load_unit, not both");
    REFUSES("{engine: {}, traffic: {stop: {requests: 0}}}",
            "x.yaml:1:41: traffic.stop.requests = 0: must be >= 1");
    REFUSES("{engine: {}, traffic: {load: {type: poisson}, stop: {requests: 1}}}",
            "x.yaml:1:30: missing key 'traffic.load.requests_per_second' (mean rate of arrivals)");
    REFUSES("{engine: {}, traffic: {load: {type: constant_rate, requests_per_second: 0}, stop: "
            "{requests: 1}}}",
            "x.yaml:1:73: traffic.load.requests_per_second = 0: must be > 0");
    REFUSES(
        "{engine: {}, traffic: {load: {type: concurrency, speedup: 2}, stop: {requests: 1}}}",
        "x.yaml:1:50: traffic.load.speedup: has no effect with type = 'concurrency' (it belongs "
        "to trace_timestamps, trace)");
    REFUSES("{engine: {}, traffic: {stop: {sessions: 3}}}",
            "x.yaml:1:41: traffic.stop.sessions: has no effect without sessions "
            "(traffic.source.type = 'synthetic-session', 'agent' or 'agentic-code')");
    REFUSES("{engine: {}, traffic: {load: {type: burst}, stop: {max_virtual_time_seconds: 1}}}",
            "x.yaml:1:51: missing key 'traffic.stop.requests' (a synthetic source has no end)");
    REFUSES(
        "{engine: {}, traffic: {load: {type: ramp, points: [{seconds: 0, concurrency: 1}]}, "
        "stop: {requests_per_load_unit: 2}}}",
        "x.yaml:1:115: traffic.stop.requests_per_load_unit: a load of type 'ramp' has no single "
        "value; give requests");
    ACCEPTS("{engine: {}, traffic: {stop: {tokens: 10k}}}");
    ACCEPTS("{engine: {}, traffic: {stop: {requests: 1, max_wall_time_ms: 5m}}}");
}

#define TRACE(load, stop)                                                                          \
    "{engine: {}, traffic: {source: {type: trace, format: weka, paths: [a.jsonl]}, load: {" load   \
    "}" stop "}}"

static void traces_and_agentx(void)
{
    ACCEPTS(TRACE("type: trace_timestamps", ""));
    ACCEPTS(TRACE("type: trace, speedup: 2", ", stop: {max_virtual_time_seconds: 60}"));
    ACCEPTS(TRACE("type: trace_timestamps, agentic_lanes: 8, agentic_snapshot: {seed: 42}, "
                  "agentic_warmup: true, agentic_profile: {duration_seconds: 30}",
                  ""));
    ACCEPTS(
        TRACE("type: trace_timestamps, agentic_lanes: 2, agentic_snapshot: {u: [0, 0.5]}, "
              "agentic_t_star: [0, 1], agentic_authored_gate: false, agentic_on_error: continue, "
              "agentic_cache_identity: after_system, agentic_profile: {}",
              ""));
    aisim_prediction p;
    aisim_error err = {0};
    read_file_text("{engine: {}, traffic: {source: {type: trace, paths: a.jsonl, align_inputs: "
                   "false}, load: {type: trace, agentic_lanes: 1, agentic_snapshot: {}, "
                   "agentic_profile: {duration_seconds: 1h}}}}",
                   NULL, 0, &p, &err);
    CHECK_STR(err.text, "");
    CHECK_STR(aisim_value_as_text(aisim_value_find(p.tree, "traffic.load.type")),
              "trace_timestamps");
    CHECK_EQ(aisim_value_len(aisim_value_find(p.tree, "traffic.source.paths")), 1);
    CHECK_STR(aisim_value_as_text(aisim_value_find(p.tree, "traffic.source.align_inputs")),
              "false");
    CHECK(aisim_value_as_real(
              aisim_value_find(p.tree, "traffic.load.agentic_profile.duration_seconds")) == 3600.0);
    CHECK(aisim_value_as_real(aisim_value_find(
              p.tree, "traffic.load.agentic_profile.tree_idle_cap_seconds")) == 300.0);
    aisim_prediction_free(&p);

    REFUSES(TRACE("type: concurrency", ""),
            "x.yaml:1:92: traffic.load.type = 'concurrency': a trace of format 'weka' needs "
            "trace_timestamps");
    REFUSES("{engine: {}, traffic: {source: {type: trace}}}",
            "x.yaml:1:32: missing key 'traffic.source.paths' (files or folders, read in this "
            "order)");
    ACCEPTS("{engine: {}, traffic: {source: {type: trace, format: mooncake, paths: [a]}, "
            "load: {type: poisson, requests_per_second: 2}, stop: {requests: 5}}}");
    ACCEPTS("{engine: {}, traffic: {source: {type: trace, format: azure, paths: [a]}, "
            "load: {type: trace_timestamps, speedup: 2}}}");
    REFUSES("{engine: {}, traffic: {source: {type: trace, format: lengths, paths: [a]}, "
            "load: {type: trace_timestamps}}}",
            "x.yaml:1:89: traffic.load.type = 'trace_timestamps': a trace of format 'lengths' has "
            "no times; concurrency or another load expected");
    REFUSES(
        "{engine: {}, traffic: {source: {type: trace, format: mooncake, paths: [a]}, "
        "load: {type: trace, agentic_lanes: 4}}}",
        "x.yaml:1:112: traffic.load.agentic_lanes: a trace of format 'mooncake' holds no plays");
    REFUSES("{engine: {}, traffic: {load: {type: trace}, stop: {requests: 1}}}",
            "x.yaml:1:37: traffic.load.type = 'trace': needs traffic.source.type = 'trace'");
    REFUSES(
        TRACE("type: trace", ", stop: {requests: 5}"),
        "x.yaml:1:117: known, not modelled: traffic.stop.requests with a trace of plays (it runs "
        "to its end, or to max_virtual_time_seconds)");
    REFUSES(TRACE("type: trace, agentic_snapshot: {}", ""),
            "x.yaml:1:117: traffic.load.agentic_snapshot: has no effect without agentic_lanes");
    REFUSES(TRACE("type: trace, agentic_lanes: 2, agentic_profile: {}", ""),
            "x.yaml:1:134: traffic.load.agentic_profile: has no effect without agentic_snapshot");
    REFUSES(TRACE("type: trace, agentic_lanes: 2, agentic_warmup: true", ""),
            "x.yaml:1:133: traffic.load.agentic_warmup: has no effect without agentic_snapshot");
    REFUSES(
        TRACE("type: trace, agentic_lanes: 2, agentic_snapshot: {}, agentic_warmup_mode: advance",
              ""),
        "x.yaml:1:160: traffic.load.agentic_warmup_mode: has no effect without agentic_warmup: "
        "true");
    REFUSES(TRACE("type: trace, agentic_lanes: 2, agentic_snapshot: {u: [0.5]}", ""),
            "x.yaml:1:139: traffic.load.agentic_snapshot.u: one number per lane expected (2)");
    REFUSES(TRACE("type: trace, agentic_lanes: 2, agentic_snapshot: {}, agentic_t_star: [0.75, "
                  "0.25]",
                  ""),
            "x.yaml:1:155: traffic.load.agentic_t_star: two numbers expected, [low, high]");
    REFUSES(TRACE("type: trace, agentic_lanes: 2, agentic_snapshot: {}, agentic_profile: {}",
                  ", stop: {max_virtual_time_seconds: 5}"),
            "x.yaml:1:194: traffic.stop.max_virtual_time_seconds: cannot be combined with "
            "agentic_profile, which has duration_seconds");
}

#define LOAD(load) "{engine: {}, traffic: {load: {" load "}, stop: {requests: 1}}}"
#define SESSIONS(source, load)                                                                     \
    "{engine: {}, traffic: {source: {type: synthetic-session, " source "}, load: {" load           \
    "}, stop: {sessions: 1}}}"

/* Plays in lanes stop by requests and by plays; plays at their times run to the end of the file. */
static void stops_of_lanes(void)
{
    ACCEPTS(TRACE("type: trace, agentic_lanes: 2, agentic_snapshot: {}, agentic_profile: {}",
                  ", stop: {requests: 5, sessions: 2}"));
    REFUSES(TRACE("type: trace, agentic_lanes: 2", ", stop: {sessions: 1}"),
            "x.yaml:1:135: traffic.stop.sessions: must be >= agentic_lanes (2), which begin with a "
            "play each");
    REFUSES(TRACE("type: trace, agentic_lanes: 2", ", stop: {tokens: 100}"),
            "x.yaml:1:133: known, not modelled: traffic.stop.tokens with a trace of plays (it runs "
            "to its end, or to max_virtual_time_seconds)");
    REFUSES(TRACE("type: trace", ", stop: {requests: 5}"),
            "x.yaml:1:117: known, not modelled: traffic.stop.requests with a trace of plays (it "
            "runs to its end, or to max_virtual_time_seconds)");
}

static void load_shapes(void)
{
    ACCEPTS(LOAD("type: gamma, requests_per_second: 2, smoothness: 0.5, seed: 7"));
    ACCEPTS(LOAD("type: burst"));
    ACCEPTS(LOAD("type: burst, size: 4, every_ms: 2s"));
    ACCEPTS(LOAD("type: ramp, points: [{seconds: 0, requests_per_second: 1}, {seconds: 1m, "
                 "requests_per_second: 9}]"));
    ACCEPTS(
        LOAD("type: ramp, points: [{seconds: 0, concurrency: 1}, {seconds: 0, concurrency: 4}]"));
    ACCEPTS(LOAD("type: square, base: 0, amplitude: 4, period_ms: 10s, duty: 0.1"));
    ACCEPTS(LOAD("type: sine, base: 4, amplitude: 4, period_ms: 10s"));
    ACCEPTS(LOAD("type: kv_capacity_fraction, fraction: 1.5"));
    ACCEPTS(LOAD("type: user_centric, users: 8, think_ms: {exp: {mean: 500}}"));
    REFUSES(LOAD("type: gamma"),
            "x.yaml:1:30: missing key 'traffic.load.requests_per_second' (mean rate of arrivals)");
    REFUSES(LOAD("type: gamma, sessions_per_second: 2"),
            "x.yaml:1:65: traffic.load.sessions_per_second: has no effect with traffic.source.type "
            "= 'synthetic', whose rate is requests_per_second");
    REFUSES(
        LOAD("type: poisson, requests_per_second: 1e-310"),
        "x.yaml:1:67: traffic.load.requests_per_second = 1e-310: its reciprocal must be finite");
    REFUSES(LOAD("type: poisson, requests_per_second: .inf"),
            "x.yaml:1:67: traffic.load.requests_per_second = .inf: must be finite");
    REFUSES(LOAD("type: poisson, requests_per_second: 1, smoothness: 2"),
            "x.yaml:1:70: traffic.load.smoothness: has no effect with type = 'poisson' (it belongs "
            "to gamma)");
    REFUSES(LOAD("type: burst, size: 4"),
            "x.yaml:1:30: traffic.load: size and every_ms belong together");
    REFUSES(LOAD("type: ramp"), "x.yaml:1:30: missing key 'traffic.load.points' (line through "
                                "these: {seconds, and one of requests_per_second, "
                                "sessions_per_second, concurrency})");
    REFUSES(
        LOAD("type: ramp, points: [{seconds: 0, requests_per_second: 1}, {seconds: 1, "
             "concurrency: 9}]"),
        "x.yaml:1:90: traffic.load.points[2]: one of requests_per_second, concurrency expected, "
        "the same in every point");
    REFUSES(
        LOAD("type: ramp, points: [{seconds: 2, concurrency: 1}, {seconds: 1, concurrency: 9}]"),
        "x.yaml:1:82: traffic.load.points[2].seconds = 1: must be >= 2, the time before it");
    REFUSES(LOAD("type: sine, base: 3, amplitude: 4, period_ms: 10s"),
            "x.yaml:1:63: traffic.load.amplitude: must be <= base, or the rate falls below 0");
    REFUSES(LOAD("type: kv_capacity_fraction, fraction: 0"),
            "x.yaml:1:69: traffic.load.fraction = 0: must be > 0");
}

static void sources(void)
{
    ACCEPTS(SESSIONS("new_input_tokens_per_turn: 1k, output_tokens_per_turn: {lognormal: {p50: 80, "
                     "p99: 800}}, session: {turns: {uniform: [2, 9]}, shared_prefix_ratio: 0.5, "
                     "prefix_groups: 16, inter_turn_delay_ms: 1s}",
                     "type: constant_rate, sessions_per_second: 8"));
    ACCEPTS(SESSIONS("session: {turns: 2}", "type: concurrency, concurrency: 3"));
    ACCEPTS("{engine: {}, traffic: {source: {input_tokens: {normal: {mean: 800, std: 50, min: 1}}, "
            "prefix: {groups: 2, tokens: 100, weights: [1, 3]}}, stop: {requests: 1}}}");
    REFUSES(SESSIONS("input_tokens: 4", ""),
            "x.yaml:1:58: traffic.source.input_tokens: has no effect with type = "
            "'synthetic-session' (it belongs to synthetic)");
    REFUSES(SESSIONS("session: {shared_prefix_ratio: 0.5}", ""),
            "x.yaml:1:67: traffic.source.session.prefix_groups = 0: must be >= 1 with "
            "shared_prefix_ratio > 0");
    REFUSES(SESSIONS("session: {prefix_groups: 5}", ""),
            "x.yaml:1:83: traffic.source.session.prefix_groups: has no effect without "
            "shared_prefix_ratio");
    REFUSES(
        SESSIONS("", "type: poisson, requests_per_second: 8"),
        "x.yaml:1:104: traffic.load.requests_per_second: has no effect with traffic.source.type "
        "= 'synthetic-session', whose rate is sessions_per_second");
    REFUSES("{engine: {}, traffic: {source: {type: synthetic-session}}}",
            "x.yaml:1:23: missing key 'traffic.stop.sessions' (a synthetic source has no end; or "
            "max_virtual_time_seconds)");
    REFUSES("{engine: {}, traffic: {source: {input_tokens: {lognormal: {p50: 8, p98: 80}}}}}",
            "x.yaml:1:68: unknown key 'p98' (did you mean 'p99'?)");
    REFUSES(
        "{engine: {}, traffic: {source: {input_tokens: {normal: {mean: 8, std: 1}, const: 4}}}}",
        "x.yaml:1:47: traffic.source.input_tokens: one distribution expected, such as "
        "{lognormal: {p50: 800, p99: 8000}}");
    REFUSES("{engine: {}, traffic: {source: {prefix: {groups: 2, tokens: 9, weights: [1]}}, stop: "
            "{requests: 1}}}",
            "x.yaml:1:73: traffic.source.prefix.weights: one weight per group expected (2)");
}

#define AGENT(type, source)                                                                        \
    "{engine: {}, traffic: {source: {type: " type ", " source                                      \
    "}, load: {type: poisson, sessions_per_second: 1}, stop: {sessions: 1}}}"

static void agents(void)
{
    ACCEPTS(AGENT("agent", "task: 500, steps: {uniform: [2, 9]}, system: {tokens: 1k}, "
                           "compact: {above: never}, tool_ms: 2s"));
    ACCEPTS(AGENT("agentic-code", "groups: 2, group_weights: [1, 3], output: 20, reset: 1, "
                                  "restart: 0, max_turns: 9"));
    REFUSES(AGENT("agent", "compact: {above: 10k}"),
            "x.yaml:1:63: traffic.source.compact: system.tokens + to = 20000 must be < above = "
            "10000");
    REFUSES(AGENT("agent", "compact: {to: 140k}"),
            "x.yaml:1:60: traffic.source.compact: system.tokens + to = 152000 must be < above = "
            "150000");
    REFUSES(AGENT("agent", "compact: {above: never, to: 5}"),
            "x.yaml:1:74: traffic.source.compact.to: has no effect without a number in "
            "compact.above");
    REFUSES(AGENT("agent", "groups: 4"),
            "x.yaml:1:46: traffic.source.groups: has no effect with type = 'agent' (it belongs to "
            "agentic-code)");
    REFUSES(AGENT("agent", "stps: 4"), "x.yaml:1:46: unknown key 'stps' (did you mean 'steps'?)");
    REFUSES(AGENT("agentic-code", "reset: 0"),
            "x.yaml:1:60: traffic.source.reset = 0: must be > 0 and <= 1");
    REFUSES(AGENT("agentic-code", "group_zipf: 1, group_weights: [1, 2]"),
            "x.yaml:1:83: traffic.source: give group_zipf or group_weights, not both");
    REFUSES(AGENT("agentic-code", "group_weights: [1, 2]"),
            "x.yaml:1:68: traffic.source.group_weights: one weight per group expected (16)");
    REFUSES("{engine: {}, traffic: {source: {type: agent}, load: {type: poisson, "
            "requests_per_second: 1}, stop: {sessions: 1}}}",
            "x.yaml:1:90: traffic.load.requests_per_second: has no effect with "
            "traffic.source.type = 'agent', whose rate is sessions_per_second");
    REFUSES("{engine: {}, traffic: {source: {type: agentic-code}}}",
            "x.yaml:1:23: missing key 'traffic.stop.sessions' (a synthetic source has no end; or "
            "max_virtual_time_seconds)");
}

static void warmup(void)
{
    ACCEPTS("{engine: {}, traffic: {stop: {requests: 1}, warmup: {requests: 5, barrier: true}}}");
    ACCEPTS("{engine: {}, traffic: {stop: {requests: 1}, warmup: {seconds: 1m}}}");
    REFUSES("{engine: {}, traffic: {stop: {requests: 1}, warmup: {barrier: true}}}",
            "x.yaml:1:53: traffic.warmup: one of requests, seconds expected");
    REFUSES("{engine: {}, traffic: {stop: {requests: 1}, warmup: {request: 3}}}",
            "x.yaml:1:54: unknown key 'request' (did you mean 'requests'?)");
    REFUSES(
        TRACE("type: trace", ", warmup: {requests: 5}"),
        "x.yaml:1:108: known, not modelled: traffic.warmup with a trace of plays (it runs to its "
        "end, or to max_virtual_time_seconds)");
}

static void roles_and_modes(void)
{
    static const char pd[] = "engine:\n"
                             "  mode: disaggregated\n"
                             "  model: m\n"
                             "  kv_transfer: {bandwidth_gb_per_second: 400}\n"
                             "  workers:\n"
                             "    prefill: &w\n"
                             "      scheduler: {max_sequences: 7}\n"
                             "    decode: *w\n";
    aisim_prediction p;
    aisim_error err = {0};
    CHECK_EQ(read_file_text(pd, NULL, 0, &p, &err), AISIM_OK);
    CHECK_EQ(p.n_pools, 2);
    CHECK_STR(p.pools[0].name, "prefill");
    CHECK_STR(p.pools[1].name, "decode");
    CHECK_EQ(p.pools[1].role, AISIM_ROLE_DECODE);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(
            aisim_value_as_integer(aisim_value_find(p.pools[i].engine, "scheduler.max_sequences")),
            7);
        CHECK_STR(aisim_value_as_text(aisim_value_get(p.pools[i].engine, "model")), "m");
    }
    aisim_prediction_free(&p);
    REFUSES("engine: {workers: {prefill: {}}}",
            "x.yaml:1:29: engine.workers.prefill: has no effect with engine.mode = 'aggregated'");
    REFUSES("engine: {kv_transfer: {}}",
            "x.yaml:1:23: engine.kv_transfer: has no effect with engine.mode = 'aggregated'");
    REFUSES("engine: {mode: afd}", "x.yaml:1:16: known, not modelled: engine.mode = 'afd' "
                                   "(modelled: aggregated, disaggregated)");
    REFUSES("{engine: {}, router: {policy: kv_router}}",
            "x.yaml:1:31: known, not modelled: router.policy = 'kv_router' (kv is the router of "
            "that name; in Lua a router may be a function)");
    REFUSES(
        "{engine: {}, planner: {policy: enabled}}",
        "x.yaml:1:32: known, not modelled: planner.policy = 'enabled' (scale with sim:autoscale "
        "in a Lua scenario)");
    REFUSES("{engine: {}, optimization: {target: throughput}}",
            "x.yaml:1:14: known, not modelled: optimization (one configuration per file; sweep and "
            "search are Lua scenarios)");
    REFUSES("{engine: {}, execution: {resources: {memory_limit_gb: 1, memory_limit_gib: 1}}}",
            "x.yaml:1:76: execution.resources: give memory_limit_gb or memory_limit_gib, not both");
}

static void a_missing_file(void)
{
    aisim_prediction p;
    aisim_error err = {0};
    CHECK_EQ(aisim_prediction_file("/nonexistent.yaml", NULL, 0, &p, &err), AISIM_EIO);
    CHECK(p.tree == NULL);
}

int main(void)
{
    the_anchor_workload_can_be_written();
    flags_win_and_are_named();
    a_resolved_file_is_a_file();
    the_smallest_file();
    stop_rules();
    traces_and_agentx();
    load_shapes();
    sources();
    agents();
    stops_of_lanes();
    warmup();
    roles_and_modes();
    a_missing_file();
    return check_done();
}
