--- Every option of an engine changes a run or is refused (config: "a value that could do nothing is an error").
-- The walk goes over the rows of the schema itself, so a new row without an entry here fails.
--
-- An entry says which values to compare. The reports of the runs, digest of the configuration aside, must
-- all differ from each other; entries with `refused` name a value that is turned down instead.
--   values   list of values; ABSENT = leave the key out
--   words    true: all modelled words of a choice
--   engine   further keys (dotted) of both runs
--   with     keys (dotted) that belong to one of the values
--   fails    { [value] = text of the error that it leads to }
--   traffic  function(sim, pool); default: six prompts with a common beginning
--   roles    the pools, each with the engine; default: aggregated
local aisim = require "aisim"
local core = require "aisim.core"

local ABSENT <const> = setmetatable({}, { __tostring = function() return "absent" end })

local BASE <const> = {
  model = "llama-3.1-8b",
  ["scheduler.max_batched_tokens"] = 64,
  ["scheduler.max_sequences"] = 8,
  ["kv_cache.block_size"] = 4,
  ["kv_cache.capacity"] = { type = "fixed", blocks = 256 },
  timing = { type = "fixed", prefill_ms = 10, decode_ms = 4 },
}

-- Traffic ------------------------------------------------------------------------------------------

local function six(sim)
  for i = 1, 6 do
    sim:submit { at_ms = 3 * i, prompt_tokens = 30 + 5 * i, output_tokens = 6, content = { { "system", 16 } } }
  end
end

--- Requests {at_ms, prompt, output, content, priority}; a content name makes prompts of one beginning.
local function requests(...)
  local list = { ... }
  return function(sim)
    for _, r in ipairs(list) do
      sim:submit { at_ms = r[1], prompt_tokens = r[2], output_tokens = r[3],
        content = r[4] and { { r[4], r[2] } } or nil, priority = r[5] }
    end
  end
end

local two_decoders = requests({ 0, 8, 8 }, { 0, 8, 7 })
local repeated = requests({ 0, 24, 6, "a" }, { 200, 24, 6, "a" }, { 400, 33, 6, "a" })

--- Four talks that do not fit on the device together: stores, loads, evictions on the host.
local function talks(sim)
  local at, n = 0, 0
  for i = 1, 40 do
    n = (n * 7 + i * i) % 11
    local shared = 20 + 4 * (i % 5)
    sim:submit { at_ms = at, prompt_tokens = shared + 3, output_tokens = 3,
      content = { { "talk" .. n % 4, shared } } }
    at = at + 12
  end
end

--- A second pool that takes part in a shared host tier under layout "a".
local function second_pool(sim)
  sim:pool { name = "second", engine = {
    model = "llama-3.1-8b",
    kv_cache = { block_size = 4, bytes_per_token = 1e6, capacity = { type = "fixed", blocks = 12 },
      host_offload = { scope = "cluster_shared", num_host_blocks = 20, kv_layout_id = "a" } },
    timing = { type = "fixed", prefill_ms = 3, decode_ms = 1 },
  } }
  six(sim)
end

-- Engines ------------------------------------------------------------------------------------------

local MODEL <const> = { timing = { type = "default" } }
local DRAFTS <const> = { ["speculation.params.depth"] = 2, ["speculation.acceptance_rates"] = { 0.8, 0.5 } }
local STATE <const> = { ["kv_cache.state_cache.bytes_per_request"] = 1 }
local HOST <const> = { ["kv_cache.host_offload.num_host_blocks"] = 20, ["kv_cache.capacity.blocks"] = 12,
  ["kv_cache.bytes_per_token"] = 1e6, ["timing.prefill_ms"] = 3, ["timing.decode_ms"] = 1 }

local function merge(...)
  local all = {}
  for _, map in ipairs { ... } do
    for key, value in pairs(map) do all[key] = value end
  end
  return all
end

local function machine(model, more) return merge({ model = model, timing = { type = "default" } }, more or {}) end
local SHARED <const> = merge(HOST, { ["kv_cache.host_offload.scope"] = "cluster_shared" })

--- A dense model nobody has measured: its operators have no calibration.
local function unmeasured()
  local model = {}
  for key, value in pairs(aisim.model "llama-3.1-8b") do model[key] = value end
  model.name, model.aliases = "unmeasured", nil
  model.attention_dtype = "fp8"
  return model
end

local PAIR <const> = { "prefill", "decode" }
local LINK <const> = { ["kv_transfer.bandwidth_gb_per_second"] = 1 }

-- The entries --------------------------------------------------------------------------------------

local OPTIONS <const> = {
  model = { values = { "llama-3.1-8b", "qwen3-8b" }, engine = { timing = { type = "default" } } },
  hardware = { refused = { "h100_sxm", "'h100_sxm' is not in the catalogue" } },
  backend = { words = true },
  context_length = { values = { "max", 48 } },
  estimation_mode = { words = true },
  database_mode = { words = true, engine = MODEL },
  fallback_policy = { words = true, engine = merge(MODEL, { model = unmeasured() }),
    fails = { deny = "no measured data for operation 'prefill_attention'" } },
  ["speculation.kind"] = { words = true, engine = DRAFTS },
  ["speculation.params.depth"] = { values = { 1, 3 }, engine = { ["speculation.acceptance_rates"] = { 1, 1, 1 } } },
  ["speculation.params.num_speculative_tokens"] = { values = { 1, 3 },
    engine = { ["speculation.acceptance_rates"] = { 1, 1, 1 } } },
  ["speculation.expected_accepted_tokens"] = { values = { 0.5, 1.5 }, engine = { ["speculation.params.depth"] = 2 } },
  ["speculation.acceptance_rates"] = { values = { { 0.9, 0.9 }, { 0.1, 0.1 } },
    engine = { ["speculation.params.depth"] = 2 } },
  ["speculation.seed"] = { values = { 42, 43 }, engine = DRAFTS },
  ["speculation.mode"] = { words = true, engine = DRAFTS },
  ["speculation.stream"] = { words = true, engine = DRAFTS },
  ["speculation.drop_matched_block"] = { values = { true, false }, engine = DRAFTS, traffic = repeated },
  ["speculation.lookahead_slots"] = { values = { "depth", 9 }, engine = DRAFTS },
  ["speculation.first_chunk_lookahead"] = { values = { false, true },
    engine = merge(DRAFTS, { ["kv_cache.capacity.blocks"] = 40 }), traffic = requests { 0, 16, 1 } },
  ["speculation.pad_first_decode"] = { values = { false, true },
    engine = merge(DRAFTS, { ["speculation.drop_matched_block"] = false }),
    traffic = requests({ 0, 24, 1, "a" }, { 100, 25, 4, "a" }) },
  nextn = { values = { 1, 2 } },
  nextn_accepted = { values = { 0.1, 0.9 }, engine = { nextn = 1 } },
  kv_transfer = { refused = { { latency_ms = 1 }, "kv_transfer: has no effect with role = 'aggregated'" } },
  ["kv_transfer.bandwidth_gb_per_second"] = { values = { ABSENT, 1, 5 }, roles = PAIR },
  ["kv_transfer.latency_ms"] = { values = { 0, 1 }, roles = PAIR },
  ["kv_transfer.timing_mode"] = { words = true, engine = LINK, roles = PAIR },
  ["kv_transfer.bytes_per_token"] = { values = { "auto", 1e6 }, engine = LINK, roles = PAIR },
  ["kv_transfer.local_below_tokens"] = { values = { 0, 40 }, engine = LINK, roles = PAIR },
  ["kv_transfer.local_below_usage_ratio"] = { values = { 0, 0.05 }, engine = LINK, roles = PAIR },
  startup_seconds = { values = { 0, 5 }, traffic = function(sim, pool)
    six(sim)
    sim:at(1, function() pool:add(1) end)
  end },
  ["parallelism.replicas"] = { values = { 1, 2 } },
  ["parallelism.tensor"] = { values = { 1, 2 }, engine = MODEL },
  ["parallelism.pipeline"] = { values = { 1, 2 }, engine = MODEL },
  ["parallelism.attention_data"] = { values = { 1, 2 } },
  ["parallelism.moe_tensor"] = { values = { 1, 2 }, engine = machine("qwen3-30b-a3b", { ["parallelism.tensor"] = 2 }),
    with = { { ["parallelism.moe_expert"] = 2 }, {} } },
  ["parallelism.moe_expert"] = { values = { 1, 2 }, engine = machine("qwen3-30b-a3b", { ["parallelism.tensor"] = 2 }),
    with = { { ["parallelism.moe_tensor"] = 2 }, {} } },
  ["scheduler.max_batched_tokens"] = { values = { 64, 16 } },
  ["scheduler.max_sequences"] = { values = { 8, 2 } },
  ["scheduler.chunked_prefill"] = { values = { true, false }, engine = { context_length = 64 },
    traffic = requests({ 0, 40, 3 }, { 0, 40, 3 }) },
  ["scheduler.policy"] = { words = true, engine = { ["scheduler.max_sequences"] = 1 },
    traffic = requests({ 0, 8, 2, nil, 3 }, { 0, 8, 9, nil, 2 }, { 0, 8, 4, nil, 1 }) },
  ["scheduler.preemption"] = { words = true, engine = { ["kv_cache.capacity.blocks"] = 6 }, traffic = two_decoders },
  ["scheduler.prefill_schedule_interval"] = { values = { 1, 4 }, engine = { ["parallelism.attention_data"] = 2 } },
  ["scheduler.long_prefill_token_threshold"] = { values = { 0, 8 } },
  ["scheduler.watermark"] = { values = { 0, 0.5 }, engine = { ["kv_cache.capacity.blocks"] = 10 },
    traffic = requests({ 0, 16, 4 }, { 0, 16, 4 }) },
  ["scheduler.never_fits"] = { words = true, engine = { ["kv_cache.capacity.blocks"] = 6 },
    traffic = function(sim)
      local never = sim:submit { prompt_tokens = 400, output_tokens = 1 }
      sim:submit { prompt_tokens = 8, output_tokens = 1 }
      sim:at(50, function() never:cancel() end)
    end },
  ["scheduler.reserve_full_prompt"] = { values = { true, false },
    engine = { ["kv_cache.capacity.blocks"] = 8, ["scheduler.max_batched_tokens"] = 20 },
    traffic = requests({ 0, 16, 4 }, { 0, 20, 2 }) },
  ["scheduler.admit_at_zero_budget"] = { values = { true, false }, engine = { ["scheduler.max_batched_tokens"] = 8 },
    traffic = requests({ 0, 8, 0, "a" }, { 100, 8, 3 }, { 100, 8, 0, "a" }) },
  ["scheduler.self_preemption"] = { words = true,
    engine = { ["kv_cache.capacity.blocks"] = 6, ["scheduler.policy"] = "priority" },
    traffic = requests({ 0, 2, 6, nil, 0 }, { 0, 7, 8, nil, 9 }, { 0.5, 10, 4, nil, 1 }) },
  ["scheduler.overlap"] = { words = true },
  ["kv_cache.block_size"] = { values = { 4, 16 } },
  ["kv_cache.prefix_caching"] = { values = { true, false } },
  ["kv_cache.prefix_match_unit"] = { values = { 4, 2 }, engine = merge(STATE), traffic =
    requests({ 0, 23, 6, "a" }, { 200, 24, 6, "a" }) },
  ["kv_cache.bytes_per_token"] = { values = { "auto", 1000 },
    engine = { ["kv_cache.capacity"] = { type = "bytes", bytes = "64MiB" } } },
  ["kv_cache.eviction"] = { words = true, fails = { scored = "needs the scheduler point evict" } },
  ["kv_cache.unkeyed_release"] = { words = true },
  ["kv_cache.groups"] = { refused = { { { type = "full" }, { type = "full" } },
    "known, not modelled: kv_cache.groups = 2 entries (modelled: 1)" } },
  ["kv_cache.groups.type"] = { refused = { { { type = "sliding" } },
    "known, not modelled: kv_cache.groups[1].type = 'sliding' (modelled: full)" }, at = "kv_cache.groups" },
  ["kv_cache.capacity.type"] = { values = { "default", "fixed", "bytes" }, engine = { ["kv_cache.capacity"] = {} },
    with = { {}, { ["kv_cache.capacity.blocks"] = 64 }, { ["kv_cache.capacity.bytes"] = "1GiB" } } },
  ["kv_cache.capacity.memory_fraction"] = { values = { 0.9, 0.5 }, engine = { ["kv_cache.capacity"] = {} } },
  ["kv_cache.capacity.blocks"] = { values = { 256, 20 } },
  ["kv_cache.capacity.bytes"] = { values = { "64MiB", "256MiB" }, engine = { ["kv_cache.capacity"] =
    { type = "bytes" } } },
  ["kv_cache.state_cache.mode"] = { words = true, engine = STATE, traffic = repeated },
  ["kv_cache.state_cache.bytes_per_request"] = { values = { 1, "8MiB" } },
  ["kv_cache.state_cache.align_split"] = { words = true, engine = merge(STATE, DRAFTS), traffic = repeated },
  ["kv_cache.state_cache.checkpoints"] = { words = true,
    engine = merge(STATE, { ["scheduler.max_batched_tokens"] = 8 }), traffic =
    requests({ 0, 21, 1, "a" }, { 200, 9, 1, "a" }) },
  ["kv_cache.state_cache.same_pass_hit"] = { words = true, engine = STATE,
    traffic = requests({ 0, 24, 3, "a" }, { 0, 24, 3, "a" }) },
  ["kv_cache.host_offload.scope"] = { words = true, engine = merge(HOST, { ["parallelism.attention_data"] = 2 }),
    traffic = talks },
  ["kv_cache.host_offload.num_host_blocks"] = { values = { 20, 40 }, engine = HOST, traffic = talks },
  ["kv_cache.host_offload.d2h_bandwidth_gbps"] = { values = { 32, 8 }, engine = HOST, traffic = talks },
  ["kv_cache.host_offload.h2d_bandwidth_gbps"] = { values = { 32, 16 }, engine = HOST, traffic = talks },
  ["kv_cache.host_offload.latency_to_first_byte_ms"] = { values = { 0, 1 }, engine = HOST, traffic = talks },
  ["kv_cache.host_offload.shared_d2h_bandwidth_gbps"] = { values = { 80, 8 }, engine = SHARED, traffic = talks },
  ["kv_cache.host_offload.shared_h2d_bandwidth_gbps"] = { values = { 80, 8 }, engine = SHARED, traffic = talks },
  ["kv_cache.host_offload.kv_layout_id"] = { values = { "a", "b" }, engine = SHARED, traffic = second_pool,
    fails = { b = "incompatible with the shared pool: the pool has kv_layout_id" } },
  ["kv_cache.host_offload.connector"] = { words = true, engine = HOST, traffic = talks },
  ["kv_cache.host_offload.touch_on_lookup"] = { values = { "prompt", "run" }, engine = HOST, traffic = talks },
  ["kv_cache.host_offload.touch_on_store"] = { values = { "prompt", "none" }, engine = HOST, traffic = talks },
  ["kv_cache.host_offload.mtp_drop_applies_to_host_run"] = { values = { true, false }, engine = merge(HOST, DRAFTS),
    traffic = talks },
  ["kv_cache.host_offload.lru_tie_break"] = { values = { "deepest_first", "key_asc" }, engine = HOST,
    traffic = talks },
  ["kv_cache.host_offload.refresh_on_load"] = { values = { true, false }, engine = HOST, traffic = talks },
  ["kv_cache.host_offload.store_scope"] = { words = true, engine = HOST },
  ["kv_cache.host_offload.full_load_recompute"] = { words = true, engine = HOST },
  ["kv_cache.host_offload.on_preempt"] = { words = true, engine = HOST },
  ["kv_cache.host_offload.on_cancel_load"] = { words = true, engine = HOST },
  ["timing.type"] = { values = { "default", "roofline", "fixed", "linear", "polynomial" },
    engine = { timing = {} }, with = { {}, {}, { ["timing.prefill_ms"] = 10, ["timing.decode_ms"] = 4 },
      { ["timing.base_ms"] = 2 }, {} } },
  ["timing.path"] = { engine = { timing = { type = "tables" } }, refused = { "no/such/folder", "cannot open" } },
  ["timing.mixed"] = { words = true, engine = MODEL },
  ["timing.per_request"] = { values = { false, true }, engine = MODEL },
  ["timing.fix.block_gemm_floor"] = { values = { false, true }, engine = machine "qwen3-32b-fp8" },
  ["timing.fix.fringe_tokens"] = { values = { false, true }, engine = MODEL },
  ["timing.fix.mixed_logits"] = { values = { false, true }, engine = MODEL },
  ["timing.fix.moe_logits"] = { values = { false, true }, engine = machine "qwen3-30b-a3b" },
  ["timing.fix.mla_collectives"] = { values = { false, true },
    engine = machine("deepseek-r1", { ["parallelism.tensor"] = 8, ["parallelism.moe_tensor"] = 8 }) },
  ["timing.fix.mla_mixed"] = { values = { false, true },
    engine = machine("deepseek-r1", { ["parallelism.tensor"] = 8, ["parallelism.moe_tensor"] = 8 }) },
  ["timing.fix.prefix_roof"] = { values = { false, true }, engine = merge(MODEL,
    { ["kv_cache.capacity.blocks"] = 40000, ["scheduler.max_batched_tokens"] = 60000 }),
    traffic = requests({ 0, 60000, 0, "a" }, { 20000, 60004, 1, "a" }) },
  ["timing.prefill_ms"] = { values = { 10, 11 } },
  ["timing.decode_ms"] = { values = { 4, 5 } },
  ["timing.mfu"] = { values = { 0.55, 0.1 }, engine = { timing = { type = "roofline" } },
    traffic = requests { 0, 800, 2 } },
  ["timing.mbu"] = { values = { 0.8, 0.1 }, engine = { timing = { type = "roofline" } } },
  ["timing.pass_overhead_ms"] = { values = { 0, 1 }, engine = { timing = { type = "roofline" } } },
  ["timing.base_ms"] = { values = { 1, 2 }, engine = { timing = { type = "linear" } } },
  ["timing.per_prefill_token_ms"] = { values = { 1, 2 }, engine = { timing = { type = "linear", base_ms = 1 } } },
  ["timing.per_decode_ms"] = { values = { 1, 2 }, engine = { timing = { type = "linear", base_ms = 1 } } },
  ["timing.per_context_token_ms"] = { values = { 1, 2 }, engine = { timing = { type = "linear", base_ms = 1 } } },
  ["timing.speedup"] = { values = { 0, 2 } },
  ["timing.overhead_pass_us"] = { values = { 0, 50 }, engine = MODEL },
  ["timing.overhead_layer_us_prefill"] = { values = { 0, 50 }, engine = MODEL },
  ["timing.cudagraph_max_batch"] = { values = { ABSENT, 1 }, engine = MODEL },
  ["timing.forward_model"] = { words = true, engine = MODEL },
}

-- Running ------------------------------------------------------------------------------------------

--- Writes engine.a.b.c.
local function put(engine, path, value)
  local map = engine
  for name in path:gmatch "([^.]+)%." do
    map[name] = map[name] or {}
    map = map[name]
  end
  map[path:match "[^.]+$"] = value
end

local function copy(value)
  if type(value) ~= "table" then return value end
  local out = {}
  for key, child in pairs(value) do out[key] = copy(child) end
  return out
end

--- Longer paths last, so that "a" does not wipe out "a.b".
local function lay(engine, keys)
  local order = {}
  for path in pairs(keys or {}) do order[#order + 1] = path end
  table.sort(order)
  for _, path in ipairs(order) do put(engine, path, copy(keys[path])) end
end

--- The report without the configuration and its digest, or nil and the message.
local function run(entry, path, value, with)
  local engine = {}
  lay(engine, BASE)
  lay(engine, entry.engine)
  if value ~= nil then put(engine, path, copy(value)) end
  lay(engine, with)
  local file = os.tmpname()
  local ok, message = pcall(function()
    local sim = aisim.new { seed = 1 }
    local pool
    for _, role in ipairs(entry.roles or { "aggregated" }) do pool = sim:pool { role = role, engine = engine } end
    local traffic = entry.traffic or six
    traffic(sim, pool)
    sim:run():json(file)
  end)
  local text
  if ok then
    local handle <close> = assert(io.open(file))
    text = handle:read "a":gsub('"config_digest": "%x+"', ""):gsub('\n  "configuration": %[.-\n  %]', "")
  end
  os.remove(file)
  return text, tostring(message)
end

--- Modelled words of a row, and the others.
local function words(row)
  local modelled, others = {}, {}
  for word in row.choices:gmatch "[^|]+" do
    if word:sub(1, 1) == "~" then
      others[#others + 1] = word:sub(2)
    else
      modelled[#modelled + 1] = word
    end
  end
  return modelled, others
end

local function refuses(entry, path, value, expected)
  local text, message = run(entry, path, value)
  assert.is_nil(text, path .. " is accepted")
  assert.truthy(message:find(expected, 1, true), message)
end

local function makes_a_difference(entry, path, values)
  local seen = {}
  for i, value in ipairs(values) do
    local given = value
    if value == ABSENT then given = nil end
    local text, message = run(entry, path, given, entry.with and entry.with[i])
    local what = text or message
    assert.is_nil(seen[what], ("%s = %s and %s give the same report"):format(path, tostring(seen[what]),
      tostring(value)))
    seen[what] = tostring(value)
    local expected = not text and (entry.fails or {})[value]
    if not text then assert.truthy(expected and message:find(expected, 1, true), message) end
  end
end

describe("option", function()
  local rows = core.schema "engine"
  local known = {}

  for _, row in ipairs(rows) do
    known[row.path] = true
    local entry = OPTIONS[row.path]
    if row.status == "not_modelled" then
      it(row.path .. " is refused by name", function()
        refuses({}, row.path, {}, "known, not modelled: " .. row.path)
      end)
    elseif row.status == "default_only" then
      it(row.path .. " is refused with another value than the default", function()
        local host = row.path:find "^kv_cache.host_offload" and HOST
        local value = row.default:find '"' and "another" or 7
        local engine = row.path:find "capacity" and { ["kv_cache.capacity"] = {} } or host
        refuses({ engine = engine or nil }, row.path, value, "known, not modelled: " .. row.path)
      end)
    elseif not row.object or entry then
      it(row.path .. " changes a run or is refused", function()
        assert.truthy(entry, row.path .. ": no entry in tests/spec/options_spec.lua; does it change anything?")
        if entry.refused then
          refuses(entry, entry.at or row.path, entry.refused[1], entry.refused[2])
        elseif entry.values then
          makes_a_difference(entry, row.path, entry.values)
        end
        if not row.choices then return end
        local modelled, others = words(row)
        if entry.words then makes_a_difference(entry, row.path, modelled) end
        for _, word in ipairs(others) do
          refuses(entry, row.path, word, ("known, not modelled: %s = '%s'"):format(row.path, word))
        end
      end)
    end
  end

  it("entries of this file are all options", function()
    for path in pairs(OPTIONS) do
      assert.truthy(known[path] or path == "kv_cache.groups.type", path)
    end
  end)
end)
