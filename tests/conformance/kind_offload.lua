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
  latency_ms = "latency_to_first_byte_ms",
}
local CACHE <const> = { prefix_caching = "prefix_caching", kv_eviction_policy = "eviction" }

local function configuration(given)
  local host = { num_host_blocks = 8 }
  local config = { kv_cache = { host_offload = host } }
  for key, value in pairs(given) do
    if HOST[key] then
      host[HOST[key]] = value
    elseif CACHE[key] then
      config.kv_cache[CACHE[key]] = value
    elseif key == "backend" then
      config.backend = value
    elseif key == "state_cache" then
      config.kv_cache.state_cache = { mode = "latest", bytes_per_request = 1e6 }
    else
      return nil, ("unknown config key '%s'"):format(key)
    end
  end
  if type(host.num_host_blocks) == "table" then -- one number per role
    local roles = {}
    for i, size in ipairs(host.num_host_blocks) do
      roles[i] = { kv_cache = { host_offload = { num_host_blocks = size, scope = host.scope } } }
    end
    return { roles = roles }
  end
  return config
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
