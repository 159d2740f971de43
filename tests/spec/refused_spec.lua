--- What an engine table may not say, with the message in full: combinations the engine cannot run, values
-- that would do nothing, features that are known and not modelled (engine.md §2, mtp.md §10, offload.md §2).
local support = dofile "tests/spec/lua/support.lua"
local aisim = require "aisim"

-- { what, { keys beside the model, message }, … }
local REFUSED <const> = {
  {
    "scheduler (engine §2, R6, R7)",
    { "scheduler = { max_batched_tokens = 0 }",
      "scheduler.max_batched_tokens = 0: must be >= 1" },
    { "scheduler = { max_sequences = 0 }",
      "scheduler.max_sequences = 0: must be >= 1" },
    { "context_length = 1",
      "context_length = 1: must be >= 2" },
    { [[context_length = "min"]],
      "context_length: integer or max expected, got string 'min'" },
    { "context_length = 100, scheduler = { chunked_prefill = false, max_batched_tokens = 99 }",
      "scheduler.max_batched_tokens = 99: must be >= context_length (100) when chunked_prefill is false" },
    { [[scheduler = { policy = "lifo" }]],
      "scheduler.policy = 'lifo': must be one of fcfs, priority" },
    { [[scheduler = { policy = "priority", preemption = "fifo" }]],
      "scheduler.preemption: has no effect with policy = 'priority' (it belongs to fcfs)" },
    { "scheduler = { watermark = 1 }",
      "scheduler.watermark = 1: must be >= 0 and < 1" },
    { "scheduler = { watermark = -0.1 }",
      "scheduler.watermark = -0.1: must be >= 0 and < 1" },
    { "scheduler = { prefill_schedule_interval = 0 }",
      "scheduler.prefill_schedule_interval = 0: must be >= 1" },
    { "scheduler = { prefill_schedule_interval = 4 }",
      "scheduler.prefill_schedule_interval = 4: has no effect with attention_data = 1" },
    { [[scheduler = { overlap = "async" }]],
      "known, not modelled: scheduler.overlap = 'async' (modelled: none)" },
    { [[scheduler = { overlap = "pipelined" }]],
      "known, not modelled: scheduler.overlap = 'pipelined' (modelled: none)" },
  },
  {
    "KV cache (engine §2, R8, R9)",
    { "kv_cache = { block_size = 1 }",
      "kv_cache.block_size = 1: must be >= 2 and <= 1048576" },
    { [[kv_cache = { capacity = { type = "fixed", blocks = 0 } }]],
      "kv_cache.capacity.blocks = 0: must be >= 1" },
    { [[kv_cache = { unkeyed_release = "back" }]],
      "known, not modelled: kv_cache.unkeyed_release = 'back' (modelled: front)" },
    { [[kv_cache = { groups = { { type = "sliding", window = 4 } } }]],
      "known, not modelled: kv_cache.groups[1].type = 'sliding' (modelled: full)" },
    { [[kv_cache = { groups = { { type = "full" }, { type = "full" } } }]],
      "known, not modelled: kv_cache.groups = 2 entries (modelled: 1)" },
    { [[kv_cache = { groups = { { type = "full", window = 4 } } }]],
      "known, not modelled: kv_cache.groups[1].window (full attention only)" },
    { [[kv_cache = { eviction = "belady" }]],
      "known, not modelled: kv_cache.eviction = 'belady' (modelled: lru, scored)" },
    { [[kv_cache = { eviction = "scored", prefix_caching = false }]],
      "kv_cache.eviction = 'scored': has no effect without prefix_caching" },
    { [[kv_cache = { eviction = "scored", state_cache = { bytes_per_request = 1 } }]],
      "kv_cache.eviction = 'scored': known, not modelled together with state_cache" },
    { [[kv_cache = { capacity = { type = "fixed" } }]],
      "missing key 'kv_cache.capacity.blocks' (type is 'fixed')" },
    { [[kv_cache = { capacity = { type = "bytes" } }]],
      "missing key 'kv_cache.capacity.bytes' (type is 'bytes')" },
    { [[kv_cache = { capacity = { type = "fixed", blocks = 9, bytes = "1GiB" } }]],
      "kv_cache.capacity: give blocks or bytes, not both" },
    { [[kv_cache = { capacity = { type = "fixed", blocks = 9, memory_fraction = 0.5 } }]],
      "kv_cache.capacity.memory_fraction: has no effect with type = 'fixed' (it belongs to default)" },
    { [[kv_cache = { capacity = { type = "bytes", bytes = 5 } }]],
      "kv_cache.capacity.bytes = 5: must hold at least one block of 8388608 bytes" },
    { "kv_cache = { capacity = { memory_fraction = 0 } }",
      "kv_cache.capacity.memory_fraction = 0: must be > 0 and <= 1" },
    { "kv_cache = { capacity = { cuda_graph_reserved_bytes = 5 } }",
      "known, not modelled: kv_cache.capacity.cuda_graph_reserved_bytes = 5 (lower memory_fraction instead)" },
  },
  {
    "state cache (engine §2, R10, R11)",
    { "kv_cache = { prefix_match_unit = 16 }",
      "kv_cache.prefix_match_unit = 16: needs state_cache.mode = 'aligned'" },
    { [[kv_cache = { prefix_match_unit = 16, state_cache = { mode = "latest", bytes_per_request = 1 } }]],
      "kv_cache.prefix_match_unit = 16: needs state_cache.mode = 'aligned'" },
    { "kv_cache = { prefix_match_unit = 24, state_cache = { bytes_per_request = 1 } }",
      "kv_cache.prefix_match_unit = 24: must divide block_size (64)" },
    { "kv_cache = { state_cache = {} }",
      "kv_cache.state_cache.bytes_per_request: model 'llama-3.1-8b' has no recurrent state; give a size, " ..
      "or leave state_cache out" },
    { "kv_cache = { state_cache = { bytes_per_request = 0 } }",
      "kv_cache.state_cache.bytes_per_request = 0: must be >= 1" },
    { [[kv_cache = { state_cache = { mode = "latest", bytes_per_request = 1, align_split = "legacy" } }]],
      "kv_cache.state_cache.align_split: has no effect with mode = 'latest' (it belongs to aligned)" },
    { [[kv_cache = { state_cache = { mode = "latest", bytes_per_request = 1, checkpoints = "chunk_end" } }]],
      "kv_cache.state_cache.checkpoints: has no effect with mode = 'latest' (it belongs to aligned)" },
  },
  {
    "host tier (offload §2, R20, R21)",
    { "kv_cache = { host_offload = {} }",
      "missing key 'kv_cache.host_offload.num_host_blocks' (capacity: per rank, or of the shared pool)" },
    { "kv_cache = { prefix_caching = false, host_offload = { num_host_blocks = 9 } }",
      "kv_cache.host_offload: needs prefix_caching = true" },
    { "kv_cache = { state_cache = { bytes_per_request = 1 }, host_offload = { num_host_blocks = 9 } }",
      "kv_cache.host_offload: cannot be combined with state_cache: leave one of them out; a recurrent " ..
      "state is not stored on host" },
    { "kv_cache = { host_offload = { num_host_blocks = 9, shared_d2h_bandwidth_gbps = 9 } }",
      "kv_cache.host_offload.shared_d2h_bandwidth_gbps: has no effect with scope = 'dp_rank_local' (it " ..
      "belongs to cluster_shared)" },
    { [[kv_cache = { host_offload = { num_host_blocks = 9, kv_layout_id = "a" } }]],
      "kv_cache.host_offload.kv_layout_id: has no effect with scope = 'dp_rank_local' (it belongs to cluster_shared)" },
    { "kv_cache = { host_offload = { num_host_blocks = 9, d2h_bandwidth_gbps = 1e-300 } }",
      "kv_cache.host_offload.d2h_bandwidth_gbps = 1e-300: too small, moving 7.55e+07 bytes would never end " ..
      "(0 = unlimited)" },
    { [[kv_cache = { host_offload = { num_host_blocks = 9, store_scope = "all" } }]],
      "known, not modelled: kv_cache.host_offload.store_scope = 'all' (modelled: prompt)" },
    { "kv_cache = { host_offload = { num_host_blocks = 9, blocks_per_chunk = 2 } }",
      "known, not modelled: kv_cache.host_offload.blocks_per_chunk = 2 (one host block holds one device block)" },
    { "kv_cache = { g3_offload = {} }",
      "known, not modelled: kv_cache.g3_offload (a storage tier behind host memory; host_offload is the last tier)" },
  },
  {
    "speculation (mtp §10)",
    { "speculation = { params = { depth = 0 }, expected_accepted_tokens = 0 }",
      "speculation.params.depth = 0: must be >= 1 and <= 5" },
    { "speculation = { params = { depth = 6 }, expected_accepted_tokens = 0 }",
      "speculation.params.depth = 6: must be >= 1 and <= 5" },
    { "speculation = { params = { depth = 1.5 }, expected_accepted_tokens = 0 }",
      "speculation.params.depth = 1.5: must be a whole number" },
    { "speculation = { params = { depth = 2 }, expected_accepted_tokens = -1 }",
      "speculation.expected_accepted_tokens = -1: must be >= 0 and <= 5" },
    { "speculation = { params = { depth = 2 }, expected_accepted_tokens = 2.5 }",
      "speculation.expected_accepted_tokens = 2.5: must be <= depth (2); the base token does not count" },
    { "speculation = { params = { depth = 2 }, expected_accepted_tokens = 1 / 0 }",
      "speculation.expected_accepted_tokens = .inf: must be finite" },
    { "speculation = { params = { depth = 2 }, expected_accepted_tokens = 0 / 0 }",
      "speculation.expected_accepted_tokens = .nan: must be finite" },
    { "speculation = { params = { depth = 2 }, acceptance_rates = { 0.5, 1.5 } }",
      "speculation.acceptance_rates[2] = 1.5: must be >= 0 and <= 1" },
    { "speculation = { params = { depth = 2 }, acceptance_rates = { -0.5 } }",
      "speculation.acceptance_rates[1] = -0.5: must be >= 0 and <= 1" },
    { "speculation = { params = { depth = 2 }, acceptance_rates = { 0 / 0 } }",
      "speculation.acceptance_rates[1] = .nan: must be finite" },
    { "speculation = { params = { depth = 2 }, acceptance_rates = {} }",
      "speculation.acceptance_rates: list of numbers expected, got a map" },
    { "speculation = { params = { depth = 2 } }",
      "speculation: give expected_accepted_tokens or acceptance_rates; there is no default" },
    { "speculation = { params = { depth = 2 }, expected_accepted_tokens = 1, acceptance_rates = { 1 } }",
      "speculation: give expected_accepted_tokens or acceptance_rates, not both" },
    { "speculation = { params = { depth = 2 }, expected_accepted_tokens = 1, seed = -1 }",
      "speculation.seed = -1: must be a whole number >= 0 and < 2^64" },
    { [[speculation = { params = { depth = 2 }, expected_accepted_tokens = 1, seed = "18446744073709551616" }]],
      "speculation.seed: integer expected, got string '18446744073709551616'" },
    { "speculation = { seed = 7 }",
      "missing key 'speculation.params.depth' (drafts per verification)" },
    { "speculation = { acceptance_rates = { 1 } }",
      "missing key 'speculation.params.depth' (drafts per verification)" },
    { "speculation = { expected_accepted_tokens = 1 }",
      "missing key 'speculation.params.depth' (drafts per verification)" },
    { "speculation = { params = { depth = 2, num_speculative_tokens = 2 }, expected_accepted_tokens = 1 }",
      "speculation.params.num_speculative_tokens: another name of depth; give one of them" },
    { "speculation = { params = { depth = 2, verify_width = 8 }, expected_accepted_tokens = 1 }",
      "known, not modelled: speculation.params.verify_width (tree-shaped drafts)" },
    { [[speculation = { kind = "eagle", params = { depth = 2 }, expected_accepted_tokens = 1 }]],
      "known, not modelled: speculation.kind = 'eagle' (modelled: mtp)" },
    { "nextn = 2, speculation = { params = { depth = 2 }, expected_accepted_tokens = 1 }",
      "nextn: the old form of speculation; give one of them" },
    { "nextn_accepted = 1",
      "nextn_accepted: has no effect without nextn; write speculation" },
    { "nextn = 1, nextn_accepted = 1.5",
      "nextn_accepted = 1.5: must be <= depth (1); the base token does not count" },
    { "nextn = 6",
      "nextn = 6: must be >= 0 and <= 5" },
    { "kv_cache = { prefix_match_unit = 16, state_cache = { bytes_per_request = 1 } }, " ..
      "speculation = { params = { depth = 2 }, expected_accepted_tokens = 1 }",
      "kv_cache.prefix_match_unit = 16: with speculation it must be the block_size (64)" },
  },
  {
    "machine, timing and transfer (timing §6)",
    { [[backend = "sglang"]],
      "known, not modelled: backend = 'sglang' (modelled: vllm)" },
    { [[backend_version = "0.19.0"]],
      "known, not modelled: backend_version = '0.19.0' (tables and rules are of 0.24.0; " ..
      "kv_cache.host_offload.connector has later ones)" },
    { [[estimation_mode = "fpm"]],
      "known, not modelled: estimation_mode = 'fpm' (modelled: op_level)" },
    { [[database_mode = "HYBRID"]],
      "known, not modelled: database_mode = 'HYBRID' (modelled: SILICON, SOL)" },
    { [[database_mode = "SOL", timing = { type = "fixed", prefill_ms = 1, decode_ms = 1 }]],
      "database_mode = 'SOL': needs timing.type = 'default', other models say themselves what a pass takes" },
    { [[fallback_policy = "deny", timing = { type = "roofline" }]],
      "fallback_policy = 'deny': needs timing.type = 'default' or 'tables', other models price no operators" },
    { [[timing = { type = "fixed", prefill_ms = 1 }]],
      "missing key 'timing.decode_ms' (part of a pass with decode items)" },
    { [[timing = { type = "fixed", prefill_ms = 1, decode_ms = 1, mixed = "serial" }]],
      "timing.mixed: has no effect with type = 'fixed' (it belongs to default, tables, roofline)" },
    { [[timing = { type = "tables" }]],
      "missing key 'timing.path' (folder of the measured tables)" },
    { [[timing = { type = "roofline", per_request = true }]],
      "timing.per_request: has no effect with type = 'roofline' (it belongs to default, tables)" },
    { "timing = { mfu = 0.5 }",
      "timing.mfu: has no effect with type = 'default' (it belongs to roofline)" },
    { [[timing = { fpm_parquet_path = "x" }]],
      "known, not modelled: timing.fpm_parquet_path (whole-pass measurements)" },
    { "kv_transfer = { latency_ms = 1 }",
      "known, not modelled yet: kv_transfer" },
    { "afd = {}",
      "known, not modelled: afd (attention and FFN on one worker)" },
    { "parallelism = { tensor = 3 }",
      "parallelism: tensor = 3 does not divide the 32 attention heads of 'llama-3.1-8b'" },
    { "parallelism = { moe_expert = 2 }",
      "parallelism: moe_tensor and moe_expert must be 1: 'llama-3.1-8b' has no experts" },
    { "parallelism = { replicas = 0 }",
      "parallelism.replicas = 0: must be >= 1 and <= 65535" },
  },
}

--- The message of a pool with these keys, without its place.
local function message(keys)
  local text = ("local aisim = ...\naisim.new():pool { engine = { model = 'llama-3.1-8b', %s } }"):format(keys)
  local place, rest = support.message(text, aisim):match "^(scenarios/a%.lua:2: )(.*)$"
  assert.truthy(place)
  return (rest:gsub("^pool: ", ""))
end

for _, group in ipairs(REFUSED) do
  describe("refused by the " .. group[1], function()
    for i = 2, #group do
      it(group[i][1], function() assert.equal(group[i][2], message(group[i][1])) end)
    end
  end)
end

describe("refused by a simulation", function()
  it("the second of one name", function()
    local sim = support.cluster()
    assert.error_matches(function() sim:pool { engine = support.engine() } end, "pool 'main' exists already")
  end)

  it("hand-off roles, by name", function()
    local sim = aisim.new()
    for _, role in ipairs { "prefill", "decode" } do
      assert.error_matches(function() sim:pool { role = role, engine = support.engine() } end,
        ("pool: known, not modelled: role '%s' %%(hand%%-off%%)"):format(role))
    end
  end)
end)
