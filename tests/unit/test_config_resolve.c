/* test_config_resolve.c - numbers for the engine, combinations, speculation (mtp.md §1, §10), host
 * tier refusals (offload.md §2), and the published vectors where they are present. */
#include <stdlib.h>

#include "check.h"
#include "config/override.h"
#include "config/resolve.h"
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

static const aisim_config_facts llama = {.model = "llama-3.1-8b",
                                         .context_length = 131072,
                                         .bytes_per_token = 131072};

static aisim_status resolve(aisim_value *engine, const aisim_config_facts *facts,
                            aisim_rank_config *rank, aisim_capacity_request *capacity,
                            aisim_error *err)
{
    aisim_status status = aisim_schema_check(engine, "engine", "", "", err);
    return status == AISIM_OK ? aisim_config_rank(engine, facts, rank, capacity, err) : status;
}

static void check_refused(const char *text, const aisim_config_facts *facts, aisim_status code,
                          const char *want, int line)
{
    aisim_value *engine = read_text(text);
    aisim_rank_config rank;
    aisim_capacity_request capacity;
    aisim_error err = {0};
    char got[2048];
    aisim_status status = resolve(engine, facts, &rank, &capacity, &err);
    check_str(aisim_error_format(&err, got, sizeof got), want, text, __FILE__, line);
    check_eq(status, code, text, __FILE__, line);
    aisim_value_free(engine);
}
#define REFUSES(text, code, want) check_refused((text), &llama, (code), (want), __LINE__)
#define REFUSES_WITH(facts, text, code, want)                                                      \
    check_refused((text), (facts), (code), (want), __LINE__)

static aisim_rank_config accepts(const char *text, const aisim_config_facts *facts,
                                 aisim_capacity_request *capacity, int line)
{
    aisim_value *engine = read_text(text);
    aisim_rank_config rank;
    aisim_capacity_request ignored;
    aisim_error err = {0};
    aisim_status status =
        resolve(engine, facts, &rank, capacity == NULL ? &ignored : capacity, &err);
    check_str(err.text, "", text, __FILE__, line);
    check_eq(status, AISIM_OK, text, __FILE__, line);
    aisim_value_free(engine);
    return rank;
}

static void defaults_agree(void)
{
    aisim_rank_config want;
    aisim_rank_config_default(&want);
    aisim_config_facts none = {0};
    aisim_capacity_request capacity;
    aisim_rank_config got = accepts("{}", &none, &capacity, __LINE__);
    CHECK_EQ(got.scheduler.max_batched_tokens, want.scheduler.max_batched_tokens);
    CHECK_EQ(got.scheduler.max_sequences, want.scheduler.max_sequences);
    CHECK_EQ(got.scheduler.context_length, 0);
    CHECK_EQ(got.scheduler.chunked_prefill, true);
    CHECK_EQ(got.scheduler.policy, AISIM_POLICY_FCFS);
    CHECK_EQ(got.scheduler.preemption, AISIM_PREEMPTION_LIFO);
    CHECK_EQ(got.scheduler.prefill_schedule_interval, 1);
    CHECK_EQ(got.scheduler.never_fits, want.scheduler.never_fits);
    CHECK_EQ(got.scheduler.reserve_full_prompt, want.scheduler.reserve_full_prompt);
    CHECK_EQ(got.scheduler.admit_at_zero_budget, want.scheduler.admit_at_zero_budget);
    CHECK_EQ(got.scheduler.self_preemption, want.scheduler.self_preemption);
    CHECK_EQ(got.scheduler.overlap, want.scheduler.overlap);
    CHECK_EQ(got.scheduler.preempting_pass_limit, want.scheduler.preempting_pass_limit);
    CHECK_EQ(got.kv.block_size, want.kv.block_size);
    CHECK_EQ(got.kv.prefix_caching, want.kv.prefix_caching);
    CHECK_EQ(got.kv.unkeyed_release, want.kv.unkeyed_release);
    CHECK_EQ(got.speculation.mode, want.speculation.mode);
    CHECK_EQ(got.speculation.seed, want.speculation.seed);
    CHECK_EQ(got.speculation.drop_matched_block, want.speculation.drop_matched_block);
    CHECK_EQ(got.group_ranks, 1);
    CHECK_EQ(got.kv.blocks, 0);
    CHECK_EQ(capacity.type, AISIM_CAPACITY_DEFAULT);
    CHECK(capacity.memory_fraction == 0.9);
    CHECK_EQ(aisim_rank_config_check(&want, NULL), AISIM_ERANGE); /* blocks must be set */
    want.kv.blocks = 1;
    CHECK_EQ(aisim_rank_config_check(&want, NULL), AISIM_OK);
}

static void every_value_arrives(void)
{
    aisim_rank_config r = accepts(
        "{context_length: max, parallelism: {attention_data: 4}, scheduler: {max_batched_tokens: "
        "2048, max_sequences: 4, policy: priority, prefill_schedule_interval: 3, "
        "long_prefill_token_threshold: 512, watermark: 0.01, never_fits: wait, "
        "reserve_full_prompt: false, admit_at_zero_budget: false, self_preemption: end_pass, "
        "overlap: none}, kv_cache: {block_size: 16, prefix_caching: false, unkeyed_release: front, "
        "bytes_per_token: 250000, capacity: {type: fixed, blocks: 16384}}}",
        &llama, NULL, __LINE__);
    CHECK_EQ(r.scheduler.context_length, 131072);
    CHECK_EQ(r.group_ranks, 4);
    CHECK_EQ(r.scheduler.max_batched_tokens, 2048);
    CHECK_EQ(r.scheduler.max_sequences, 4);
    CHECK_EQ(r.scheduler.policy, AISIM_POLICY_PRIORITY);
    CHECK_EQ(r.scheduler.preemption, AISIM_PREEMPTION_LIFO);
    CHECK_EQ(r.scheduler.prefill_schedule_interval, 3);
    CHECK_EQ(r.scheduler.long_prefill_token_threshold, 512);
    CHECK(r.scheduler.watermark == 0.01);
    CHECK_EQ(r.scheduler.never_fits, AISIM_NEVER_FITS_WAIT);
    CHECK(!r.scheduler.reserve_full_prompt && !r.scheduler.admit_at_zero_budget);
    CHECK_EQ(r.scheduler.self_preemption, AISIM_SELF_PREEMPTION_END_PASS);
    CHECK_EQ(r.scheduler.overlap, AISIM_OVERLAP_NONE);
    CHECK_EQ(r.kv.block_size, 16);
    CHECK(!r.kv.prefix_caching);
    CHECK_EQ(r.kv.unkeyed_release, AISIM_UNKEYED_FRONT);
    CHECK(r.kv.bytes_per_token == 250000.0);
    CHECK_EQ(r.kv.blocks, 16384);
    r = accepts("{context_length: 4096, scheduler: {preemption: fifo}}", &llama, NULL, __LINE__);
    CHECK_EQ(r.scheduler.context_length, 4096);
    CHECK_EQ(r.scheduler.preemption, AISIM_PREEMPTION_FIFO);
}

static void capacity_is_asked_for(void)
{
    aisim_capacity_request c;
    aisim_rank_config r =
        accepts("{kv_cache: {block_size: 16, capacity: {type: bytes, bytes: 64GiB}}}", &llama, &c,
                __LINE__);
    CHECK_EQ(c.type, AISIM_CAPACITY_BYTES);
    CHECK_EQ(c.bytes, UINT64_C(68719476736));
    CHECK_EQ(c.blocks, 32768);
    CHECK_EQ(r.kv.blocks, 32768);
    r = accepts("{kv_cache: {block_size: 64, bytes_per_token: 16, capacity: {type: fixed, bytes: "
                "8192}}}",
                &llama, &c, __LINE__);
    CHECK_EQ(r.kv.blocks, 8); /* the reference's example of a byte budget */
    accepts("{kv_cache: {capacity: {memory_fraction: 0.5}}}", &llama, &c, __LINE__);
    CHECK(c.memory_fraction == 0.5);
    REFUSES("{kv_cache: {capacity: {type: fixed}}}", AISIM_EINVAL,
            "x.yaml:1:23: missing key 'kv_cache.capacity.blocks' (type is 'fixed')");
    REFUSES("{kv_cache: {capacity: {type: bytes}}}", AISIM_EINVAL,
            "x.yaml:1:23: missing key 'kv_cache.capacity.bytes' (type is 'bytes')");
    REFUSES("{kv_cache: {capacity: {type: fixed, blocks: 2, bytes: 2GB}}}", AISIM_EINVAL,
            "x.yaml:1:55: kv_cache.capacity: give blocks or bytes, not both");
    REFUSES("{kv_cache: {capacity: {type: bytes, bytes: 1000}}}", AISIM_ERANGE,
            "x.yaml:1:44: kv_cache.capacity.bytes = 1000: must hold at least one block of 8388608 "
            "bytes");
    aisim_config_facts none = {0};
    REFUSES_WITH(&none, "{kv_cache: {capacity: {type: bytes, bytes: 1000}}}", AISIM_EINVAL,
                 "x.yaml:1:44: kv_cache.capacity.bytes: needs kv_cache.bytes_per_token, or a model "
                 "that tells it");
}

static void combinations_of_the_scheduler(void)
{
    REFUSES("context_length: 4096\nscheduler:\n  chunked_prefill: false\n"
            "  max_batched_tokens: 2048\n",
            AISIM_EINVAL,
            "x.yaml:4:23: scheduler.max_batched_tokens = 2048: must be >= context_length (4096) "
            "when chunked_prefill is false");
    REFUSES("scheduler: {chunked_prefill: false}\n", AISIM_EINVAL,
            "x.yaml:1:12: scheduler.max_batched_tokens = 8192: must be >= context_length (131072) "
            "when chunked_prefill is false");
    accepts("{context_length: 2048, scheduler: {chunked_prefill: false, max_batched_tokens: 2048}}",
            &llama, NULL, __LINE__);
    REFUSES("scheduler: {prefill_schedule_interval: 4}", AISIM_EINVAL,
            "x.yaml:1:40: scheduler.prefill_schedule_interval = 4: has no effect with "
            "attention_data = 1"); /* E-G2 */
    REFUSES("{fallback_policy: deny, timing: {type: fixed, prefill_ms: 1, decode_ms: 1}}",
            AISIM_EINVAL,
            "x.yaml:1:19: fallback_policy = 'deny': needs timing.type = 'default' or 'tables', "
            "other models price no operators");
    accepts("{fallback_policy: deny}", &llama, NULL, __LINE__);
    REFUSES("{database_mode: SOL, timing: {type: roofline}}", AISIM_EINVAL,
            "x.yaml:1:17: database_mode = 'SOL': needs timing.type = 'default', other models say "
            "themselves what a pass takes");
    accepts("{database_mode: SOL}", &llama, NULL, __LINE__);
}

static void state_cache_takes_k_blocks(void)
{
    aisim_config_facts hybrid = llama;
    hybrid.model = "qwen3.5-35b-a3b";
    hybrid.bytes_per_token = 20480;
    hybrid.state_bytes = 64389120;
    aisim_rank_config r =
        accepts("{kv_cache: {block_size: 64, bytes_per_token: 16, state_cache: {mode: latest, "
                "bytes_per_request: 1500}}}",
                &hybrid, NULL, __LINE__);
    CHECK_EQ(r.kv.state_blocks, 2); /* engine.md §2 */
    CHECK_EQ(r.kv.state_mode, AISIM_STATE_LATEST);
    r = accepts("{kv_cache: {block_size: 1536, prefix_match_unit: 128, state_cache: {align_split: "
                "upstream, checkpoints: chunk_end, same_pass_hit: wait}}}",
                &hybrid, NULL, __LINE__);
    CHECK_EQ(r.kv.state_mode, AISIM_STATE_ALIGNED);
    CHECK_EQ(r.kv.state_blocks, 3);
    CHECK_EQ(r.kv.prefix_match_unit, 128);
    CHECK_EQ(r.kv.align_split, AISIM_SPLIT_UPSTREAM);        /* R10 */
    CHECK_EQ(r.kv.checkpoints, AISIM_CHECKPOINTS_CHUNK_END); /* R11 */
    CHECK_EQ(r.kv.same_pass_hit, AISIM_SAME_PASS_WAIT);      /* R12 */
    REFUSES("{kv_cache: {state_cache: {mode: aligned}}}", AISIM_EINVAL,
            "x.yaml:1:26: kv_cache.state_cache.bytes_per_request: model 'llama-3.1-8b' has no "
            "recurrent state; give a size, or leave state_cache out");
    REFUSES(
        "{kv_cache: {block_size: 6, prefix_match_unit: 4, state_cache: {bytes_per_request: 9}}}",
        AISIM_EINVAL, "x.yaml:1:47: kv_cache.prefix_match_unit = 4: must divide block_size (6)");
    REFUSES("{kv_cache: {prefix_match_unit: 4}}", AISIM_EINVAL,
            "x.yaml:1:32: kv_cache.prefix_match_unit = 4: needs state_cache.mode = 'aligned'");
    REFUSES("{kv_cache: {prefix_match_unit: 4, state_cache: {mode: latest, bytes_per_request: 9}}}",
            AISIM_EINVAL,
            "x.yaml:1:32: kv_cache.prefix_match_unit = 4: needs state_cache.mode = 'aligned'");
}

#define MTP(rest) "{speculation: {params: {depth: 2}, " rest "}}"

static void speculation_is_stated_completely(void)
{
    aisim_rank_config r = accepts(MTP("expected_accepted_tokens: 1.5"), &llama, NULL, __LINE__);
    CHECK_EQ(r.speculation.mode, AISIM_SPECULATION_NATIVE); /* R13 */
    CHECK_EQ(r.speculation.depth, 2);
    CHECK(r.speculation.acceptance_rates[0] == 1.0 && r.speculation.acceptance_rates[1] == 0.5);
    CHECK_EQ(r.speculation.lookahead_slots, 2); /* R15 */
    CHECK_EQ(r.speculation.seed, 42);
    CHECK_EQ(r.speculation.stream, AISIM_STREAM_PER_REQUEST);
    r = accepts(MTP("acceptance_rates: [0.7, 0.5, 0.2], mode: burst, stream: worker, seed: "
                    "18446744073709551615, drop_matched_block: false, lookahead_slots: 0, "
                    "first_chunk_lookahead: true, pad_first_decode: true"),
                &llama, NULL, __LINE__);
    CHECK_EQ(r.speculation.mode, AISIM_SPECULATION_BURST);
    CHECK_EQ(r.speculation.stream, AISIM_STREAM_WORKER);
    CHECK_EQ(r.speculation.seed, UINT64_MAX);
    CHECK_EQ(r.speculation.lookahead_slots, 0);
    CHECK(!r.speculation.drop_matched_block);                                     /* R14 */
    CHECK(r.speculation.first_chunk_lookahead && r.speculation.pad_first_decode); /* R16, R17 */
    CHECK(r.speculation.acceptance_rates[1] == 0.5 && r.speculation.acceptance_rates[2] == 0.0);
    r = accepts("{speculation: {params: {num_speculative_tokens: 3}, acceptance_rates: [1, 0.5]}}",
                &llama, NULL, __LINE__);
    CHECK_EQ(r.speculation.depth, 3);
    CHECK(r.speculation.acceptance_rates[2] == 0.0); /* padded */

    REFUSES("{speculation: {params: {depth: 0}, expected_accepted_tokens: 0}}", AISIM_ERANGE,
            "x.yaml:1:32: speculation.params.depth = 0: must be >= 1 and <= 5");
    REFUSES(MTP("expected_accepted_tokens: 2.5"), AISIM_ERANGE,
            "x.yaml:1:62: speculation.expected_accepted_tokens = 2.5: must be <= depth (2); the "
            "base token does not count");
    REFUSES(MTP("expected_accepted_tokens: -0.1"), AISIM_ERANGE,
            "x.yaml:1:62: speculation.expected_accepted_tokens = -0.1: must be >= 0 and <= 5");
    REFUSES(MTP("expected_accepted_tokens: .nan"), AISIM_ERANGE,
            "x.yaml:1:62: speculation.expected_accepted_tokens = .nan: must be finite");
    REFUSES(
        MTP("expected_accepted_tokens: 1, acceptance_rates: [0.5]"), AISIM_EINVAL,
        "x.yaml:1:83: speculation: give expected_accepted_tokens or acceptance_rates, not both");
    REFUSES(MTP("seed: 1"), AISIM_EINVAL,
            "x.yaml:1:15: speculation: give expected_accepted_tokens or acceptance_rates; there is "
            "no default");
    REFUSES("{speculation: {expected_accepted_tokens: 1}}", AISIM_EINVAL,
            "x.yaml:1:15: missing key 'speculation.params.depth' (drafts per verification)");
    REFUSES("{speculation: {params: {depth: 2, num_speculative_tokens: 2}, "
            "expected_accepted_tokens: 1}}",
            AISIM_EINVAL,
            "x.yaml:1:59: speculation.params.num_speculative_tokens: another name of depth; give "
            "one of them");
    REFUSES("{speculation: {params: {depth: 2, verify_width: 8}, expected_accepted_tokens: 1}}",
            AISIM_ENOTMODELLED,
            "x.yaml:1:35: known, not modelled: speculation.params.verify_width (tree-shaped "
            "drafts)");
}

static void the_old_form_of_speculation(void)
{
    aisim_rank_config r = accepts("{nextn: 3, nextn_accepted: 2.4}", &llama, NULL, __LINE__);
    CHECK_EQ(r.speculation.depth, 3);
    CHECK_EQ(r.speculation.mode, AISIM_SPECULATION_NATIVE);
    CHECK_EQ(r.speculation.lookahead_slots, 3);
    CHECK(r.speculation.acceptance_rates[0] == 1.0 && r.speculation.acceptance_rates[1] == 1.0);
    r = accepts("{nextn: 3}", &llama, NULL, __LINE__);
    CHECK(r.speculation.acceptance_rates[0] == 0.85 && r.speculation.acceptance_rates[1] == 0.3 &&
          r.speculation.acceptance_rates[2] == 0.0);
    r = accepts("{nextn: 0}", &llama, NULL, __LINE__);
    CHECK_EQ(r.speculation.mode, AISIM_SPECULATION_NONE);
    REFUSES("{nextn_accepted: 1}", AISIM_EINVAL,
            "x.yaml:1:18: nextn_accepted: has no effect without nextn; write speculation");
    REFUSES("{nextn: 1, nextn_accepted: 2}", AISIM_ERANGE,
            "x.yaml:1:28: nextn_accepted = 2: must be <= depth (1); the base token does not count");
    REFUSES("{nextn: 1, speculation: {params: {depth: 1}, expected_accepted_tokens: 1}}",
            AISIM_EINVAL, "x.yaml:1:9: nextn: the old form of speculation; give one of them");
}

#define HOST(rest) "{kv_cache: {host_offload: {num_host_blocks: 8" rest "}"

static void host_tier_refusals(void)
{
    accepts(HOST("}}"), &llama, NULL, __LINE__);
    aisim_rank_config r = accepts(HOST("}}"), &llama, NULL, __LINE__);
    CHECK(!r.scheduler.admit_at_zero_budget); /* R5: forced with a host tier */
    REFUSES(HOST("}, prefix_caching: false}"), AISIM_EINVAL,
            "x.yaml:1:27: kv_cache.host_offload: needs prefix_caching = true");
    REFUSES(HOST("}, state_cache: {bytes_per_request: 3}}"), AISIM_EINVAL,
            "x.yaml:1:27: kv_cache.host_offload: cannot be combined with state_cache: leave one of "
            "them "
            "out; a recurrent state is not stored on host");
    REFUSES(HOST(", d2h_bandwidth_gbps: 1e-300}}"), AISIM_ERANGE,
            "x.yaml:1:68: kv_cache.host_offload.d2h_bandwidth_gbps = 1e-300: too small, moving "
            "6.71e+07 bytes would never end (0 = unlimited)");
    REFUSES(HOST(", d2h_bandwidth_gbps: -1}}"), AISIM_ERANGE,
            "x.yaml:1:68: kv_cache.host_offload.d2h_bandwidth_gbps = -1: must be >= 0");
    REFUSES("{kv_cache: {bytes_per_token: 1e12, host_offload: {num_host_blocks: 4000000}}}",
            AISIM_ERANGE,
            "x.yaml:1:68: kv_cache.host_offload.num_host_blocks = 4000000: more than 2^63 bytes");
    aisim_config_facts none = {0};
    REFUSES_WITH(&none, HOST("}}"), AISIM_EINVAL,
                 "x.yaml:1:27: kv_cache.host_offload: needs kv_cache.bytes_per_token, or a model "
                 "that tells it");
}

static void the_engine_checks_by_itself(void)
{
    aisim_rank_config c;
    aisim_error err = {0};
    aisim_rank_config_default(&c);
    c.kv.blocks = 4;
    c.scheduler.watermark = 1.0;
    CHECK_EQ(aisim_rank_config_check(&c, &err), AISIM_ERANGE);
    CHECK_STR(err.text, "scheduler.watermark = 1: must be >= 0 and < 1");
    aisim_rank_config_default(&c);
    c.kv.blocks = 4;
    c.scheduler.overlap = (aisim_overlap)7;
    err = (aisim_error){0};
    CHECK_EQ(aisim_rank_config_check(&c, &err), AISIM_EINVAL);
    CHECK_STR(err.text, "scheduler.overlap: 7 is no member of its enumeration");
    aisim_rank_config_default(&c);
    c.kv.blocks = 4;
    c.kv.state_mode = AISIM_STATE_ALIGNED;
    CHECK_EQ(aisim_rank_config_check(&c, NULL), AISIM_EINVAL);
    c.kv.state_blocks = 1;
    CHECK_EQ(aisim_rank_config_check(&c, NULL), AISIM_OK);
    c.kv.prefix_match_unit = 16;
    c.speculation.mode = AISIM_SPECULATION_NATIVE;
    c.speculation.depth = 2;
    err = (aisim_error){0};
    CHECK_EQ(aisim_rank_config_check(&c, &err), AISIM_EINVAL);
    CHECK_STR(err.text, "kv_cache.prefix_match_unit = 16: with speculation it must be the "
                        "block_size (64)");
}

static void set_lays_a_flag_over_the_tree(void)
{
    aisim_value *tree = read_text("{}");
    aisim_error err = {0};
    char got[2048];
    CHECK_EQ(aisim_config_set(tree, "engine.workers.aggregated.scheduler.max_batched_tokens",
                              "2048", &err),
             AISIM_OK);
    const aisim_value *value =
        aisim_value_find(tree, "engine.workers.aggregated.scheduler.max_batched_tokens");
    CHECK_EQ(aisim_value_as_integer(value), 2048);
    CHECK_EQ(aisim_value_origin(value), AISIM_ORIGIN_SET);
    CHECK_EQ(
        aisim_config_set(tree, "traffic.load", "{type: poisson, requests_per_second: 8}", &err),
        AISIM_OK);
    CHECK_EQ(aisim_value_len(aisim_value_find(tree, "traffic.load")), 2);
    CHECK_STR(err.text, "");

    static const struct {
        const char *argument, *want;
    } rows[] = {
        {"raet=4", "--set raet=4: unknown key 'raet' (keys here: traffic, router, engine, "
                   "evaluation, execution, planner)"},
        {"max_sequences=1", "--set max_sequences=1: unknown key 'max_sequences' (did you mean "
                            "'engine.workers.aggregated.scheduler.max_sequences'?)"},
        {"engine.workers.agregated.scheduler.max_sequences=1",
         "--set engine.workers.agregated.scheduler.max_sequences=1: unknown key 'agregated' (did "
         "you mean 'aggregated'?)"},
        {"engine.backend.name=1",
         "--set engine.backend.name=1: 'backend' has no keys below it; set it as a whole"},
        {"engine..x=1", "--set engine..x=1: 'engine..x' is no path of keys (a.b.c=value expected)"},
        {"=1", "--set =1: '' is no path of keys (a.b.c=value expected)"},
        {"engine", "--set engine: '=' and a value expected"},
        {"engine.backend=[1",
         "--set engine.backend=[1: malformed YAML: ',' or ']' expected in this "
         "[…]"},
        {"traffic.source.images=1", "--set traffic.source.images=1: known, not modelled: "
                                    "traffic.source.images (text models only)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        err = (aisim_error){0};
        CHECK(aisim_config_set_flag(tree, "prediction", rows[i].argument, &err) != AISIM_OK);
        CHECK_STR(aisim_error_format(&err, got, sizeof got), rows[i].want);
    }
    err = (aisim_error){0};
    CHECK_EQ(aisim_config_set(tree, "engine.workers.aggregated.scheduler.max_sequences", "0", &err),
             AISIM_OK);
    aisim_schema_check(tree, "prediction", "", "", &err);
    CHECK_STR(aisim_error_format(&err, got, sizeof got),
              "--set engine.workers.aggregated.scheduler.max_sequences=0: "
              "engine.workers.aggregated.scheduler.max_sequences = 0: must be >= 1");
    CHECK_EQ(aisim_config_set(tree, "engine.workers.aggregated.scheduler.max_sequences", "", NULL),
             AISIM_OK); /* nothing = the default */
    CHECK_EQ(aisim_schema_check(tree, "prediction", "", "", NULL), AISIM_OK);
    aisim_value_free(tree);
}

/* ---- published vectors ----------------------------------------------------------------------- */

static void check_rates(const aisim_value *vector, const char *name)
{
    const aisim_value *config = aisim_value_get(vector, "config");
    const aisim_value *mean = aisim_value_get(config, "expected_accepted_tokens");
    const aisim_value *want = aisim_value_find(vector, "expect.rates");
    if (mean == NULL) {
        return; /* padded or cut: speculation_is_stated_completely */
    }
    double rates[AISIM_MAX_DRAFTS];
    uint32_t depth = (uint32_t)aisim_value_as_integer(aisim_value_get(config, "depth"));
    aisim_rates_from_mean(aisim_value_as_real(mean), depth, rates);
    for (uint32_t i = 0; i < depth; i++) {
        check_that(rates[i] == aisim_value_as_real(aisim_value_at(want, i)), name, __FILE__,
                   __LINE__);
    }
    double emitted = aisim_value_as_real(aisim_value_find(vector, "expect.mean_emitted"));
    check_near(1.0 + aisim_mean_from_rates(rates, depth), emitted, 1e-12, name, __FILE__, __LINE__);
}

/* Every case is refused by the rules. */
static void check_validate(const aisim_value *vector)
{
    const aisim_value *cases = aisim_value_get(vector, "requests");
    for (uint32_t i = 0; i < aisim_value_len(cases); i++) {
        const aisim_value *entry = aisim_value_at(cases, i);
        const char *name = aisim_value_as_text(aisim_value_get(entry, "case"));
        aisim_value *engine = aisim_value_copy(aisim_value_get(entry, "config"));
        aisim_config_facts facts = llama;
        facts.state_bytes = 1e6;
        aisim_rank_config rank;
        aisim_capacity_request capacity;
        aisim_error err = {0};
        aisim_status status = resolve(engine, &facts, &rank, &capacity, &err);
        check_that(status != AISIM_OK && err.text[0] != '\0', name, __FILE__, __LINE__);
        if (getenv("AISIM_SHOW") != NULL) {
            printf("%s: %s\n", name, err.text);
        }
        aisim_value_free(engine);
    }
}

static void the_published_vectors(void)
{
    const char *folder = getenv("AISIM_VECTORS");
    char path[1024];
    snprintf(path, sizeof path, "%s/mtp.json", folder == NULL ? "../shared/vectors" : folder);
    aisim_value *file = NULL;
    if (aisim_yaml_file(path, &file, NULL) != AISIM_OK) {
        printf("skipped: %s is not there\n", path);
        return;
    }
    const aisim_value *vectors = aisim_value_get(file, "vectors");
    uint32_t rates = 0, validate = 0;
    for (uint32_t i = 0; i < aisim_value_len(vectors); i++) {
        const aisim_value *vector = aisim_value_at(vectors, i);
        const char *name = aisim_value_as_text(aisim_value_get(vector, "name"));
        const char *component = aisim_value_as_text(aisim_value_find(vector, "config.component"));
        if (strcmp(component, "mtp_rates") == 0) {
            check_rates(vector, name);
            rates++;
        } else if (strcmp(component, "validate") == 0) {
            check_validate(vector);
            validate++;
        }
    }
    CHECK(rates > 0 && validate > 0);
    aisim_value_free(file);
}

int main(void)
{
    defaults_agree();
    every_value_arrives();
    capacity_is_asked_for();
    combinations_of_the_scheduler();
    state_cache_takes_k_blocks();
    speculation_is_stated_completely();
    the_old_form_of_speculation();
    host_tier_refusals();
    the_engine_checks_by_itself();
    set_lays_a_flag_over_the_tree();
    the_published_vectors();
    return check_done();
}
