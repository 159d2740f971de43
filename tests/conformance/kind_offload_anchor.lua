--- offload.json, kind `anchor`: the anchor scenario with the numbers of the vector (anchor-workloads.md).
local context <const> = ...
local cjson = require "cjson"
local support = require "support"

local POOL <const> = "engine.workers.aggregated."
local SETTINGS <const> = {
  input_tokens = "traffic.source.input_tokens", output_tokens = "traffic.source.output_tokens",
  requests = "traffic.stop.requests", block_size = POOL .. "kv_cache.block_size",
  bytes_per_token = POOL .. "kv_cache.bytes_per_token",
  max_batched_tokens = POOL .. "scheduler.max_batched_tokens",
  d2h_gbps = POOL .. "kv_cache.host_offload.d2h_bandwidth_gbps",
  num_host_blocks = POOL .. "kv_cache.host_offload.num_host_blocks",
}

return { by = { default = "engine" }, anchor = function(vector)
  local words = { context.build .. "/aisim", "run", context.here .. "/../../scenarios/mtp_g2_120k.yaml",
    "--format", "json" }
  for key, value in pairs(vector.config) do
    if key ~= "component" then
      if not SETTINGS[key] then return false, ("unknown config key '%s'"):format(key) end
      words[#words + 1] = "--set"
      words[#words + 1] = ("%s=%s"):format(SETTINGS[key], math.tointeger(value) or value)
    end
  end
  for i, word in ipairs(words) do words[i] = support.quote(word) end
  local pipe = assert(io.popen(table.concat(words, " ") .. " 2>&1", "r"))
  local text = pipe:read "a"
  pipe:close()
  local fine, report = pcall(cjson.decode, text)
  if not fine then return false, text end
  local c, host = vector.config, report.totals.offload
  local stored = host.d2h.blocks
  local have = {
    block_bytes = host.d2h.bytes / stored, blocks_per_request = stored / c.requests, blocks_stored = stored,
    bytes_stored = host.d2h.bytes, host_evictions = host.evicted_blocks, d2h_busy_ms = host.d2h.busy_ms,
    d2h_ms_per_request = host.d2h.busy_ms / c.requests,
    max_running = report.distributions.pass_requests and report.distributions.pass_requests.max,
  }
  local where = support.difference(vector.expect, have, "expect")
  return where == nil, where
end }
