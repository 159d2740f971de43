--- offload.json: the parts of the host tier on the product, refusals by its schema. A whole rank (kind
--- `engine`) and `anchor` are for kind_offload_engine.lua and kind_offload_anchor.lua.
local context <const> = ...
local engine = require "aisim_engine"
local support = require "support"

local M = { by = { default = "function", host_tier = "engine" } }

for kind, driver in pairs(support.drivers(context, "drive_host", engine)) do M[kind] = support.adapt(driver) end

-- ---- refusals -------------------------------------------------------------------------------------

-- Keys of the vectors: where they stand in the configuration.
local HOST <const> = {
  d2h_gbps = "d2h_bandwidth_gbps", h2d_gbps = "h2d_bandwidth_gbps",
  num_host_blocks = "num_host_blocks", scope = "scope",
  shared_d2h_gbps = "shared_d2h_bandwidth_gbps", shared_h2d_gbps = "shared_h2d_bandwidth_gbps", connector = "connector",
  latency_ms = "latency_to_first_byte_ms", kv_layout_id = "kv_layout_id", lru_tie_break = "lru_tie_break",
  touch_on_lookup = "touch_on_lookup", touch_on_store = "touch_on_store", refresh_on_load = "refresh_on_load",
  mtp_drop_applies_to_host_run = "mtp_drop_applies_to_host_run", store_scope = "store_scope",
  blocks_per_chunk = "blocks_per_chunk", full_load_recompute = "full_load_recompute", on_preempt = "on_preempt",
  on_cancel_load = "on_cancel_load", pending_recompute_tokens = "pending_recompute_tokens",
}
local CACHE <const> = { prefix_caching = "prefix_caching", kv_eviction_policy = "eviction", block_size = "block_size",
  bytes_per_token = "bytes_per_token", groups = "groups" }

local function one_engine(given)
  local host = { num_host_blocks = 8 }
  local config = { kv_cache = { host_offload = host } }
  for key, value in pairs(given) do
    if HOST[key] then
      host[HOST[key]] = value
    elseif CACHE[key] then
      config.kv_cache[CACHE[key]] = value
    elseif key == "backend" then
      config.backend = value
    elseif key == "tensor" then
      config.parallelism = { tensor = value }
    elseif key == "state_cache" then
      config.kv_cache.state_cache = { mode = "latest", bytes_per_request = 1e6 }
    else
      return nil, ("unknown config key '%s'"):format(key)
    end
  end
  return config
end

--- A list instead of a value gives one value per role.
local function configuration(given)
  local roles = 0
  for _, value in pairs(given) do
    if type(value) == "table" and value[1] ~= nil then roles = math.max(roles, #value) end
  end
  if roles == 0 then return one_engine(given) end
  local engines = {}
  for i = 1, roles do
    local own = {}
    for key, value in pairs(given) do
      if type(value) == "table" and value[1] ~= nil then value = value[i] end
      own[key] = value
    end
    local problem
    engines[i], problem = one_engine(own)
    if not engines[i] then return nil, problem end
  end
  return { roles = engines }
end

function M.validate(vector)
  local copy = { name = vector.name, expect = vector.expect, requests = {} }
  for i, case in ipairs(vector.requests) do
    local config, problem = configuration(case.config)
    if not config then return false, problem end
    copy.requests[i] = { case = case.case, config = config }
  end
  return require "refusals"(copy)
end

return M
