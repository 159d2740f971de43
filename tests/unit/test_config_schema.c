/* test_config_schema.c - the tables: every key of spec/config.md, and every kind of message. */
#include <stdlib.h>

#include "check.h"
#include "config/emit.h"
#include "config/number.h"
#include "config/schema.h"
#include "config/yaml.h"

static aisim_value *read_text(const char *text)
{
    aisim_value *value = NULL;
    aisim_error err = {0};
    aisim_source *source = aisim_source_new(AISIM_ORIGIN_FILE, "x.yaml");
    aisim_yaml_text(text, strlen(text), source, &value, &err);
    aisim_source_release(source);
    if (value == NULL) {
        printf("%s\n", err.text);
        abort();
    }
    return value;
}

/* Checks a text as an object; want "" = accepted. */
static void check_text(const char *object, const char *text, aisim_status code, const char *want,
                       int line)
{
    aisim_value *value = read_text(text);
    aisim_error err = {0};
    char got[2048];
    aisim_status status = aisim_schema_check(value, object, "", "", &err);
    check_str(aisim_error_format(&err, got, sizeof got), want, text, __FILE__, line);
    check_eq(status, code, text, __FILE__, line);
    aisim_value_free(value);
}
#define ACCEPTS(object, text) check_text((object), (text), AISIM_OK, "", __LINE__)
#define REFUSES(object, text, code, want) check_text((object), (text), (code), (want), __LINE__)

static bool same_path(void *context, const char *path, const aisim_field *field)
{
    const char **want = context;
    (void)field;
    if (strcmp(*want, path) == 0) {
        *want = NULL;
        return false;
    }
    return true;
}

static void every_key_of_the_spec_exists(void)
{
    static const char *const paths[] = {
        "traffic.source.type",
        "traffic.source.input_tokens",
        "traffic.source.output_tokens",
        "traffic.source.format",
        "traffic.source.paths",
        "traffic.source.block_size",
        "traffic.source.align_inputs",
        "traffic.load.type",
        "traffic.load.concurrency",
        "traffic.load.agentic_lanes",
        "traffic.load.agentic_snapshot.seed",
        "traffic.load.agentic_snapshot.u",
        "traffic.load.agentic_warmup",
        "traffic.load.agentic_profile.duration_seconds",
        "traffic.load.agentic_profile.response_grace_seconds",
        "traffic.load.agentic_profile.cancel_drain_seconds",
        "traffic.load.agentic_profile.tree_idle_cap_seconds",
        "traffic.load.agentic_profile.global_idle_cap_seconds",
        "traffic.load.agentic_t_star",
        "traffic.load.agentic_warmup_requests_per_lane",
        "traffic.load.agentic_warmup_mode",
        "traffic.load.agentic_authored_gate",
        "traffic.load.agentic_cache_identity",
        "traffic.load.agentic_on_error",
        "traffic.stop.requests",
        "traffic.stop.sessions",
        "traffic.stop.max_virtual_time_seconds",
        "traffic.stop.requests_per_load_unit",
        "router.policy",
        "router.affinity",
        "router.overload",
        "router.queue",
        "evaluation.sla.ttft_ms",
        "evaluation.sla.itl_ms",
        "execution.resources.memory_limit_gb",
        "engine.mode",
        "engine.model",
        "engine.hardware",
        "engine.backend",
        "engine.backend_version",
        "engine.context_length",
        "engine.estimation_mode",
        "engine.database_mode",
        "engine.fallback_policy",
        "engine.speculation.kind",
        "engine.speculation.params.depth",
        "engine.speculation.expected_accepted_tokens",
        "engine.speculation.acceptance_rates",
        "engine.speculation.seed",
        "engine.speculation.mode",
        "engine.speculation.stream",
        "engine.speculation.drop_matched_block",
        "engine.speculation.lookahead_slots",
        "engine.speculation.first_chunk_lookahead",
        "engine.speculation.pad_first_decode",
        "engine.kv_transfer.bandwidth_gb_per_second",
        "engine.kv_transfer.latency_ms",
        "engine.kv_transfer.timing_mode",
        "engine.kv_transfer.bytes_per_token",
        "engine.workers.prefill.startup_seconds",
        "engine.workers.decode.timing.type",
        "engine.workers.aggregated.parallelism.replicas",
        "engine.workers.aggregated.parallelism.tensor",
        "engine.workers.aggregated.parallelism.pipeline",
        "engine.workers.aggregated.parallelism.attention_data",
        "engine.workers.aggregated.parallelism.moe_tensor",
        "engine.workers.aggregated.parallelism.moe_expert",
        "engine.workers.aggregated.scheduler.max_batched_tokens",
        "engine.workers.aggregated.scheduler.max_sequences",
        "engine.workers.aggregated.scheduler.chunked_prefill",
        "engine.workers.aggregated.scheduler.policy",
        "engine.workers.aggregated.scheduler.preemption",
        "engine.workers.aggregated.scheduler.prefill_schedule_interval",
        "engine.workers.aggregated.scheduler.long_prefill_token_threshold",
        "engine.workers.aggregated.scheduler.watermark",
        "engine.workers.aggregated.scheduler.never_fits",
        "engine.workers.aggregated.scheduler.reserve_full_prompt",
        "engine.workers.aggregated.scheduler.admit_at_zero_budget",
        "engine.workers.aggregated.scheduler.self_preemption",
        "engine.workers.aggregated.scheduler.overlap",
        "engine.workers.aggregated.kv_cache.block_size",
        "engine.workers.aggregated.kv_cache.prefix_caching",
        "engine.workers.aggregated.kv_cache.prefix_match_unit",
        "engine.workers.aggregated.kv_cache.bytes_per_token",
        "engine.workers.aggregated.kv_cache.eviction",
        "engine.workers.aggregated.kv_cache.unkeyed_release",
        "engine.workers.aggregated.kv_cache.groups",
        "engine.workers.aggregated.kv_cache.capacity.memory_fraction",
        "engine.workers.aggregated.kv_cache.capacity.blocks",
        "engine.workers.aggregated.kv_cache.capacity.bytes",
        "engine.workers.aggregated.kv_cache.state_cache.mode",
        "engine.workers.aggregated.kv_cache.state_cache.bytes_per_request",
        "engine.workers.aggregated.kv_cache.state_cache.align_split",
        "engine.workers.aggregated.kv_cache.state_cache.checkpoints",
        "engine.workers.aggregated.kv_cache.state_cache.same_pass_hit",
        "engine.workers.aggregated.kv_cache.host_offload.scope",
        "engine.workers.aggregated.kv_cache.host_offload.num_host_blocks",
        "engine.workers.aggregated.kv_cache.host_offload.d2h_bandwidth_gbps",
        "engine.workers.aggregated.kv_cache.host_offload.h2d_bandwidth_gbps",
        "engine.workers.aggregated.kv_cache.host_offload.latency_to_first_byte_ms",
        "engine.workers.aggregated.kv_cache.host_offload.shared_d2h_bandwidth_gbps",
        "engine.workers.aggregated.kv_cache.host_offload.shared_h2d_bandwidth_gbps",
        "engine.workers.aggregated.kv_cache.host_offload.kv_layout_id",
        "engine.workers.aggregated.kv_cache.host_offload.connector",
        "engine.workers.aggregated.kv_cache.host_offload.touch_on_lookup",
        "engine.workers.aggregated.kv_cache.host_offload.touch_on_store",
        "engine.workers.aggregated.kv_cache.host_offload.mtp_drop_applies_to_host_run",
        "engine.workers.aggregated.kv_cache.host_offload.lru_tie_break",
        "engine.workers.aggregated.kv_cache.host_offload.refresh_on_load",
        "engine.workers.aggregated.kv_cache.host_offload.store_scope",
        "engine.workers.aggregated.kv_cache.host_offload.blocks_per_chunk",
        "engine.workers.aggregated.kv_cache.host_offload.full_load_recompute",
        "engine.workers.aggregated.kv_cache.host_offload.on_preempt",
        "engine.workers.aggregated.kv_cache.host_offload.on_cancel_load",
        "engine.workers.aggregated.kv_cache.host_offload.pending_recompute_tokens",
        "engine.workers.aggregated.timing.path",
        "engine.workers.aggregated.timing.mixed",
        "engine.workers.aggregated.timing.per_request",
        "engine.workers.aggregated.timing.fix.mla_mixed",
        "engine.workers.aggregated.timing.prefill_ms",
        "engine.workers.aggregated.timing.decode_ms",
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const char *want = paths[i];
        aisim_schema_walk("prediction", same_path, &want);
        check_that(want == NULL, paths[i], __FILE__, __LINE__);
    }
}

static bool row_is_sound(void *context, const char *path, const aisim_field *field)
{
    (void)context;
    check_that(field->status == AISIM_STATUS_NOT_MODELLED ? field->note != NULL
                                                          : field->meaning != NULL,
               path, __FILE__, __LINE__);
    check_that(field->object == NULL || aisim_schema_object(field->object) != NULL, path, __FILE__,
               __LINE__);
    check_that(field->kind != AISIM_FIELD_CHOICE || field->choices != NULL, path, __FILE__,
               __LINE__);
    return true;
}

static void the_tables_are_sound(void)
{
    for (uint32_t i = 0; i < aisim_schema_objects(); i++) {
        const aisim_object *object = aisim_schema_object_at(i);
        CHECK(aisim_schema_object(object->name) == object);
        aisim_schema_walk(object->name, row_is_sound, NULL);
        const aisim_field *field;
        for (uint32_t f = 0; (field = aisim_schema_field_at(object, f)) != NULL; f++) {
            CHECK(aisim_schema_field(object, field->key) == field); /* no key twice */
        }
        aisim_value *all = aisim_schema_resolve(NULL, object->name); /* defaults parse and hold */
        aisim_value_free(all);
    }
}

static void unknown_keys_get_a_suggestion(void)
{
    REFUSES("engine", "scheduler:\n  max_sequnces: 4\n", AISIM_ENOENT,
            "x.yaml:2:3: unknown key 'max_sequnces' (did you mean 'max_sequences'?)");
    REFUSES("engine", "shceduler: {}\n", AISIM_ENOENT,
            "x.yaml:1:1: unknown key 'shceduler' (did you mean 'scheduler'?)");
    REFUSES("scheduler", "tokens: 3\n", AISIM_ENOENT,
            "x.yaml:1:1: unknown key 'tokens' (keys here: max_batched_tokens, max_sequences, "
            "chunked_prefill, policy, preemption, prefill_schedule_interval, "
            "long_prefill_token_threshold, watermark, never_fits, reserve_full_prompt, "
            "admit_at_zero_budget, self_preemption, overlap)");
    aisim_value *value = read_text("{scheduler: {max_sequnces: 4}}");
    aisim_error err = {0};
    char got[2048];
    aisim_schema_check(value, "engine", "pool: ", "", &err);
    err.column = 0; /* Lua knows the line */
    CHECK_STR(aisim_error_format(&err, got, sizeof got),
              "x.yaml:1: pool: unknown key 'max_sequnces' (did you mean 'max_sequences'?)");
    aisim_value_free(value);
}

static void types_and_ranges(void)
{
    REFUSES("scheduler", "max_sequences: 0", AISIM_ERANGE,
            "x.yaml:1:16: max_sequences = 0: must be >= 1");
    REFUSES("engine", "scheduler:\n  max_sequences: 0\n", AISIM_ERANGE,
            "x.yaml:2:18: scheduler.max_sequences = 0: must be >= 1");
    REFUSES("scheduler", "max_sequences: many", AISIM_EINVAL,
            "x.yaml:1:16: max_sequences: integer expected, got string 'many'");
    REFUSES("scheduler", "max_sequences: '4'", AISIM_EINVAL,
            "x.yaml:1:16: max_sequences: integer expected, got string '4'");
    REFUSES("scheduler", "max_sequences: [4]", AISIM_EINVAL,
            "x.yaml:1:16: max_sequences: integer expected, got a list");
    REFUSES("scheduler", "max_sequences: true", AISIM_EINVAL,
            "x.yaml:1:16: max_sequences: integer expected, got boolean true");
    REFUSES("scheduler", "max_sequences: 1.5", AISIM_EINVAL,
            "x.yaml:1:16: max_sequences = 1.5: must be a whole number");
    REFUSES("scheduler", "max_sequences: 4294967296", AISIM_ERANGE,
            "x.yaml:1:16: max_sequences = 4294967296: must be < 2^32");
    REFUSES("scheduler", "max_sequences: -1", AISIM_ERANGE,
            "x.yaml:1:16: max_sequences = -1: must be >= 1");
    REFUSES("scheduler", "watermark: 1", AISIM_ERANGE,
            "x.yaml:1:12: watermark = 1: must be >= 0 and < 1");
    REFUSES("scheduler", "watermark: .nan", AISIM_ERANGE,
            "x.yaml:1:12: watermark = .nan: must be finite");
    REFUSES("scheduler", "chunked_prefill: yes", AISIM_EINVAL,
            "x.yaml:1:18: chunked_prefill: boolean expected, got string 'yes' (write true or "
            "false)");
    REFUSES("scheduler", "policy: proirity", AISIM_EINVAL,
            "x.yaml:1:9: policy = 'proirity': must be one of fcfs, priority (did you mean "
            "'priority'?)");
    REFUSES("scheduler", "policy: random", AISIM_EINVAL,
            "x.yaml:1:9: policy = 'random': must be one of fcfs, priority");
    REFUSES("scheduler", "policy: 3", AISIM_EINVAL,
            "x.yaml:1:9: policy: string expected, got integer 3");
    REFUSES("engine", "scheduler: 3", AISIM_EINVAL,
            "x.yaml:1:12: scheduler: map expected, got integer 3");
    REFUSES("engine", "[1]", AISIM_EINVAL, "x.yaml:1:1: engine: map expected, got a list");
    REFUSES("engine", "model: ''", AISIM_EINVAL, "x.yaml:1:8: model: must not be empty");
    REFUSES("engine", "context_length: long", AISIM_EINVAL,
            "x.yaml:1:17: context_length: integer or max expected, got string 'long'");
    REFUSES("engine", "context_length: 1", AISIM_ERANGE,
            "x.yaml:1:17: context_length = 1: must be >= 2");
    REFUSES("kv_cache", "block_size: 1", AISIM_ERANGE,
            "x.yaml:1:13: block_size = 1: must be >= 2 and <= 1048576");
    REFUSES("capacity", "memory_fraction: 1.01", AISIM_ERANGE,
            "x.yaml:1:18: memory_fraction = 1.01: must be > 0 and <= 1");
    REFUSES("capacity", "{type: bytes, bytes: 64Gb}", AISIM_EINVAL,
            "x.yaml:1:22: bytes: integer or a size such as '64GiB' expected, got string '64Gb'");
    REFUSES("speculation", "acceptance_rates: [0.5, 1.1]", AISIM_ERANGE,
            "x.yaml:1:25: acceptance_rates[2] = 1.1: must be >= 0 and <= 1");
    REFUSES("speculation", "acceptance_rates: 0.5", AISIM_EINVAL,
            "x.yaml:1:19: acceptance_rates: list of numbers expected, got number 0.5");
    REFUSES("speculation", "acceptance_rates: []", AISIM_EINVAL,
            "x.yaml:1:19: acceptance_rates: must not be empty");
    REFUSES("speculation", "seed: -1", AISIM_ERANGE,
            "x.yaml:1:7: seed = -1: must be a whole number >= 0 and < 2^64");
    REFUSES("speculation", "seed: 18446744073709551616", AISIM_ERANGE,
            "x.yaml:1:7: seed = 1.8446744073709552e+19: must be a whole number >= 0 and < 2^64");
    ACCEPTS("speculation", "seed: 18446744073709551615");
    REFUSES(
        "host_offload", "{scope: dp_rank_local}", AISIM_EINVAL,
        "x.yaml:1:1: missing key 'num_host_blocks' (capacity: per rank, or of the shared pool)");
    REFUSES("timing", "{type: fixed, prefill_ms: 3}", AISIM_EINVAL,
            "x.yaml:1:1: missing key 'decode_ms' (part of a pass with decode items)");
}

static void known_keys_that_are_not_modelled(void)
{
    REFUSES("engine", "backend: sglang", AISIM_ENOTMODELLED,
            "x.yaml:1:10: known, not modelled: backend = 'sglang' (modelled: vllm)");
    REFUSES("engine", "kv_cache:\n  g3_offload: {num_g3_blocks: 3}\n", AISIM_ENOTMODELLED,
            "x.yaml:2:3: known, not modelled: kv_cache.g3_offload (a storage tier behind host "
            "memory; host_offload is the last tier)");
    REFUSES("host_offload", "{num_host_blocks: 1, scope: worker_local}", AISIM_ENOTMODELLED,
            "x.yaml:1:29: known, not modelled: scope = 'worker_local' (that is a scope of "
            "g3_offload; a private pool is dp_rank_local)");
    REFUSES("host_offload", "{num_host_blocks: 1, blocks_per_chunk: 4}", AISIM_ENOTMODELLED,
            "x.yaml:1:40: known, not modelled: blocks_per_chunk = 4 (one host block holds one "
            "device block)"); /* R21 */
    ACCEPTS("host_offload", "{num_host_blocks: 1, blocks_per_chunk: 1, on_preempt: fence}");
    REFUSES("host_offload", "{num_host_blocks: 1, store_scope: all}", AISIM_ENOTMODELLED,
            "x.yaml:1:35: known, not modelled: store_scope = 'all' (modelled: prompt)"); /* R20 */
    REFUSES("host_offload", "{num_host_blocks: 1, connector: offloading_v9}", AISIM_EINVAL,
            "x.yaml:1:33: connector = 'offloading_v9': must be one of offloading_v0_24, "
            "offloading_v0_32");
    REFUSES("kv_cache", "eviction: belady", AISIM_ENOTMODELLED,
            "x.yaml:1:11: known, not modelled: eviction = 'belady' (modelled: lru, scored)");
    REFUSES("kv_cache", "groups: [{type: full}, {type: full}]", AISIM_ENOTMODELLED,
            "x.yaml:1:9: known, not modelled: groups = 2 entries (modelled: 1)"); /* R9 */
    REFUSES("kv_cache", "groups: [{type: sliding}]", AISIM_ENOTMODELLED,
            "x.yaml:1:17: known, not modelled: groups[1].type = 'sliding' (modelled: full)");
    ACCEPTS("kv_cache", "groups: [{type: full}]");
    REFUSES("speculation", "kind: ngram", AISIM_ENOTMODELLED,
            "x.yaml:1:7: known, not modelled: kind = 'ngram' (modelled: mtp)");
    ACCEPTS("prediction", "planner: {policy: disabled}");
}

static void values_without_effect_are_refused(void)
{
    REFUSES("capacity", "{type: default, blocks: 3}", AISIM_EINVAL,
            "x.yaml:1:17: blocks: has no effect with type = 'default' (it belongs to fixed)");
    REFUSES("capacity", "{blocks: 3}", AISIM_EINVAL,
            "x.yaml:1:2: blocks: has no effect with type = 'default' (it belongs to fixed)");
    REFUSES("scheduler", "{preemption: fifo, policy: priority}", AISIM_EINVAL,
            "x.yaml:1:2: preemption: has no effect with policy = 'priority' (it belongs to fcfs)");
    REFUSES("host_offload", "{num_host_blocks: 8, shared_d2h_bandwidth_gbps: 1}", AISIM_EINVAL,
            "x.yaml:1:22: shared_d2h_bandwidth_gbps: has no effect with scope = 'dp_rank_local' "
            "(it belongs to cluster_shared)");
    REFUSES("state_cache", "{mode: latest, align_split: legacy}", AISIM_EINVAL,
            "x.yaml:1:16: align_split: has no effect with mode = 'latest' (it belongs to aligned)");
    ACCEPTS("capacity", "{type: default, blocks: null}"); /* null = not given */
    ACCEPTS("engine", "{speculation: null, kv_cache: null}");
}

static void units_become_numbers(void)
{
    aisim_value *value = read_text(
        "{context_length: 128Ki, startup_seconds: 2m, kv_cache: {bytes_per_token: auto, capacity: "
        "{type: bytes, bytes: 64GiB}}, scheduler: {max_batched_tokens: 10k, max_sequences: 8.0}, "
        "timing: {type: fixed, prefill_ms: 0.5s, decode_ms: 3}}");
    aisim_error err = {0};
    CHECK_EQ(aisim_schema_check(value, "engine", "", "", &err), AISIM_OK);
    CHECK_STR(err.text, "");
    CHECK_EQ(aisim_value_as_integer(aisim_value_find(value, "context_length")), 131072);
    CHECK_EQ(aisim_value_as_integer(aisim_value_find(value, "kv_cache.capacity.bytes")),
             INT64_C(68719476736));
    CHECK_EQ(aisim_value_as_integer(aisim_value_find(value, "scheduler.max_batched_tokens")),
             10000);
    CHECK_EQ(aisim_value_as_integer(aisim_value_find(value, "scheduler.max_sequences")), 8);
    CHECK(aisim_value_as_real(aisim_value_find(value, "startup_seconds")) == 120.0);
    CHECK(aisim_value_as_real(aisim_value_find(value, "timing.prefill_ms")) == 500.0);
    CHECK_EQ(aisim_value_kind_of(aisim_value_find(value, "timing.decode_ms")), AISIM_VALUE_REAL);
    aisim_value_free(value);
    REFUSES("engine", "startup_seconds: -1s", AISIM_ERANGE,
            "x.yaml:1:18: startup_seconds = '-1s': must be >= 0");
}

static void lua_functions_pass(void)
{
    aisim_value *engine = read_text("{model: m}");
    aisim_mark mark = {0};
    aisim_value_put(engine, "timing", mark, aisim_value_foreign(mark, "timing model", 5));
    aisim_error err = {0};
    CHECK_EQ(aisim_schema_check(engine, "engine", "", "", &err), AISIM_OK);
    aisim_value *own = read_text("{name: mine, pure: true}");
    aisim_value_put(own, "pass", mark, aisim_value_foreign(mark, "function", 6));
    aisim_value_put(engine, "timing", mark, own);
    CHECK_EQ(aisim_schema_check(engine, "engine", "", "", &err), AISIM_OK);
    aisim_value *resolved = aisim_schema_resolve(engine, "engine");
    CHECK_EQ(aisim_value_handle(aisim_value_find(resolved, "timing.pass")), 6);
    aisim_value_free(resolved);
    aisim_value_put(engine, "model", mark, aisim_value_foreign(mark, "function", 7));
    aisim_schema_check(engine, "engine", "pool: ", "", &err);
    CHECK_STR(err.text, "pool: model: string or map expected, got a function");
    aisim_value_free(engine);
}

static const aisim_value *lookup(const aisim_value *tree, const char *path)
{
    const aisim_value *value = aisim_value_find(tree, path);
    check_that(value != NULL, path, __FILE__, __LINE__);
    return value;
}

static void the_resolved_tree_is_complete_and_stable(void)
{
    aisim_value *given = read_text("{kv_cache: {capacity: {blocks: 7, type: fixed}}, model: m}");
    aisim_value *other = read_text("{model: m, kv_cache: {capacity: {type: fixed, blocks: 7}}}");
    CHECK_EQ(aisim_schema_check(given, "engine", "", "", NULL), AISIM_OK);
    CHECK_EQ(aisim_schema_check(other, "engine", "", "", NULL), AISIM_OK);
    aisim_value *a = aisim_schema_resolve(given, "engine");
    aisim_value *b = aisim_schema_resolve(other, "engine");
    CHECK(aisim_value_equal(a, b)); /* the order of the file does not matter */
    CHECK_EQ(aisim_value_digest(a), aisim_value_digest(b));
    CHECK_EQ(aisim_value_as_integer(lookup(a, "scheduler.max_batched_tokens")), 8192);
    CHECK_STR(aisim_value_as_text(lookup(a, "context_length")), "max");
    CHECK_STR(aisim_value_as_text(lookup(a, "backend_version")), "0.24.0");
    CHECK(aisim_value_is_null(lookup(a, "speculation")));
    CHECK(aisim_value_find(a, "kv_cache.capacity.memory_fraction") == NULL);
    CHECK_EQ(aisim_value_origin(lookup(a, "kv_cache.capacity.blocks")), AISIM_ORIGIN_FILE);
    CHECK_EQ(aisim_value_origin(lookup(a, "kv_cache.block_size")), AISIM_ORIGIN_DEFAULT);
    CHECK_EQ(aisim_schema_check(a, "engine", "", "", NULL), AISIM_OK);
    aisim_value *again = aisim_schema_resolve(a, "engine");
    CHECK(aisim_value_equal(a, again));
    aisim_text yaml = {0};
    aisim_emit_yaml(a, &yaml);
    aisim_value *reread = read_text(aisim_text_get(&yaml)); /* a report's YAML is an input */
    aisim_error err = {0};
    CHECK_EQ(aisim_schema_check(reread, "engine", "", "", &err), AISIM_OK);
    CHECK_STR(err.text, "");
    aisim_value *third = aisim_schema_resolve(reread, "engine");
    CHECK(aisim_value_equal(a, third));
    aisim_text_free(&yaml);
    aisim_value *all[] = {given, other, a, b, again, reread, third};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        aisim_value_free(all[i]);
    }
}

static void origins_are_written_behind_the_values(void)
{
    aisim_value *given = read_text("{type: fixed, blocks: 7}");
    CHECK_EQ(aisim_schema_check(given, "capacity", "", "", NULL), AISIM_OK);
    aisim_source *flag = aisim_source_new(AISIM_ORIGIN_SET, "--set blocks=9");
    aisim_mark mark = {flag, 0, 0};
    aisim_value_put(given, "blocks", mark, aisim_value_integer(mark, 9));
    aisim_source_release(flag);
    aisim_value *a = aisim_schema_resolve(given, "capacity");
    aisim_text yaml = {0};
    aisim_emit_yaml_origins(a, &yaml);
    CHECK_STR(aisim_text_get(&yaml),
              "type: fixed\nblocks: 9  # --set blocks=9\nbytes: null  # default\n");
    aisim_text_free(&yaml);
    aisim_value_free(a);
    aisim_value_free(given);
}

static void help_is_generated(void)
{
    aisim_text out = {0};
    CHECK(!aisim_schema_help("nothing", &out));
    CHECK(aisim_schema_help("capacity", &out));
    CHECK_STR(
        aisim_text_get(&out),
        "capacity: Blocks of one rank\n"
        "  type                       default  from the memory of the GPU, a number of blocks, "
        "or a number of\n"
        "                                      bytes; one of default, fixed, bytes\n"
        "  memory_fraction            0.9      share of the GPU memory for weights, activations "
        "and cache;\n"
        "                                      > 0 and <= 1; with type = default [vLLM:\n"
        "                                      --gpu-memory-utilization]\n"
        "  cuda_graph_reserved_bytes  0 bytes  taken off the memory before the cache; >= 0; "
        "with type\n"
        "                                      = default; only the default is modelled\n"
        "  blocks                     -        blocks of one rank (N); >= 1; with type = fixed "
        "[vLLM:\n"
        "                                      --num-gpu-blocks-override]\n"
        "  bytes                      -        KV memory of one rank; whole blocks of it are "
        "used; >= 1; with\n"
        "                                      type = fixed, bytes [vLLM: "
        "--kv-cache-memory-bytes]\n");
    aisim_text_free(&out);
    for (uint32_t i = 0; i < aisim_schema_objects(); i++) {
        CHECK(aisim_schema_help(aisim_schema_object_at(i)->name, &out));
        size_t column = 0, widest = 0;
        for (const char *at = aisim_text_get(&out); *at != '\0'; at++) {
            column = *at == '\n' ? 0 : column + (((unsigned char)*at & 0xc0) != 0x80);
            widest = column > widest ? column : widest;
        }
        CHECK(widest <= 100);
        aisim_text_free(&out);
    }
}

int main(void)
{
    every_key_of_the_spec_exists();
    the_tables_are_sound();
    unknown_keys_get_a_suggestion();
    types_and_ranges();
    known_keys_that_are_not_modelled();
    values_without_effect_are_refused();
    units_become_numbers();
    lua_functions_pass();
    the_resolved_tree_is_complete_and_stable();
    origins_are_written_behind_the_values();
    help_is_generated();
    return check_done();
}
