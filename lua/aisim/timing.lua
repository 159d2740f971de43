--- Timing models: how long a pass takes (spec/lua-api.md §9).
-- aisim.timing.fixed{…} and the others describe a built-in model: as `timing` of an engine it is built for
-- that pool; called as base:pass(…) it prices for the pool whose timing function is running, or for the
-- model and hardware it was given.
local check = require "aisim.check"
local core = require "aisim.core"

require "aisim.catalogue"

local M = {}

local Model = { __name = "aisim.TimingModel" }
Model.__index = Model
Model.__tostring = function(self) return "timing " .. self.type end

local COMMON <const> = {
  model = { "any" },
  hardware = { "any" },
  parallelism = { "table" },
}

local MS <const> = { "ms", min = 0, finite = true }
local FIELDS <const> = {
  fixed = { prefill_ms = { "ms", min = 0, finite = true, required = true },
    decode_ms = { "ms", min = 0, finite = true, required = true } },
  linear = { base_ms = MS, per_prefill_token_ms = MS, per_decode_ms = MS, per_context_token_ms = MS },
  roofline = { mfu = { "number", above = 0, max = 1 }, mbu = { "number", above = 0, max = 1 }, pass_overhead_ms = MS,
    mixed = { "text", one_of = { "fused", "serial" } } },
  tables = { path = { "text", required = true }, mixed = { "text", one_of = { "fused", "serial" } } },
  default = { mixed = { "text", one_of = { "fused", "serial" } } },
}

local function maker(kind)
  local fields = { speedup = { "number", min = 0, finite = true } }
  for key, spec in pairs(COMMON) do fields[key] = spec end
  for key, spec in pairs(FIELDS[kind]) do fields[key] = spec end
  return function(options)
    options = check.options("timing." .. kind, options, fields)
    local machine = { model = options.model, hardware = options.hardware, parallelism = options.parallelism }
    options.model, options.hardware, options.parallelism = nil, nil, nil
    options.type = kind
    return setmetatable({ type = kind, keys = options, machine = next(machine) and machine or nil,
      built = setmetatable({}, { __mode = "k" }) }, Model)
  end
end

for kind in pairs(FIELDS) do M[kind] = maker(kind) end

local MEASURED <const> = { data = { "text", default = "h200" }, interpolate = { "text" }, path = { "text" } }

--- Measured operators: the built-in calibration, a grid in log2 coordinates, or the tables of a folder, between
-- whose points it is linear (spec/timing.md §5). `interpolate` says so and can ask for nothing else.
function M.measured(options)
  options = check.options("timing.measured", options, MEASURED)
  local way = options.path and "linear" or "log"
  if options.interpolate and options.interpolate ~= way then
    check.fail("timing.measured.interpolate = %s: %s", check.show(options.interpolate),
      options.path and "'linear' expected; the tables of a folder are linear between their points"
        or "'log' expected; the built-in calibration is a grid in log2 coordinates ('linear' goes with path =)")
  end
  if options.path then return M.tables { path = options.path } end
  return M.default { hardware = options.data }
end

local function built(self)
  local machine = not self.machine and core.current_machine() or nil
  if not self.machine and not machine and self.type ~= "fixed" and self.type ~= "linear" then
    check.fail("timing.%s: which model? give model =, or call it inside the timing function of a pool", self.type)
  end
  local key = machine or self
  local object = self.built[key]
  if not object then
    local engine = { timing = self.keys }
    for name, value in pairs(self.machine or {}) do engine[name] = value end
    object = core.timing(engine, machine)
    self.built[key] = object
  end
  return object
end

--- Milliseconds of a pass with the five aggregates P, SN, SP, D, SK.
function Model:pass(n_prefill, new_tokens, past_tokens, n_decode, context_tokens)
  return built(self):pass(n_prefill, new_tokens, past_tokens, n_decode, context_tokens)
end

--- One line for the manifest.
function Model:describe()
  local parts = {}
  for _, key in ipairs(check.sorted(self.keys)) do
    if key ~= "type" then parts[#parts + 1] = ("%s=%s"):format(key, check.show(self.keys[key])) end
  end
  return self.type .. (#parts > 0 and " " .. table.concat(parts, " ") or "")
end

local FUNCTIONS <const> = {
  name = { "text", default = "lua" },
  pure = { "boolean", default = false },
  pass = { "function" },
  prefill = { "function" },
  decode = { "function" },
  describe = { "function" },
  transfer = { "function" },
}

--- Splits the timing of an engine table: what the schema reads, and functions.
---@param engine table
---@return table engine     copy without functions
---@return table? functions { name, pure, pass | prefill, decode, transfer }
function M.split(engine)
  local timing = engine.timing
  local copy = {}
  for key, value in pairs(engine) do copy[key] = value end
  if getmetatable(timing) == Model then
    copy.timing = timing.keys
    for key, value in pairs(timing.machine or {}) do
      if copy[key] == nil then copy[key] = value end
    end
    return copy
  end
  if type(timing) == "function" then timing = { pass = timing } end
  if type(timing) ~= "table" then return copy end
  local given = {} -- a misspelt pass is no key of the schema either
  for key, value in pairs(timing) do given[key] = type(value) == "function" or nil end
  check.keys("timing", given, FUNCTIONS)
  if not (timing.pass or timing.prefill or timing.decode) then
    if timing.transfer == nil then return copy end
    check.fail("timing.transfer: belongs to a timing with pass (local base = aisim.timing.default {}, then "
      .. "pass = function(...) return base:pass(...) end)")
  end
  copy.timing = nil
  local functions = check.options("timing", timing, FUNCTIONS)
  if functions.pass and (functions.prefill or functions.decode) then
    check.fail("timing: give pass, or prefill and decode, not both")
  end
  if not functions.pass and not (functions.prefill and functions.decode) then
    check.fail("timing.%s: function expected, got nil", functions.prefill and "decode" or "prefill")
  end
  local host = type(engine.kv_cache) == "table" and engine.kv_cache.host_offload
  for _, key in ipairs { "d2h_bandwidth_gbps", "h2d_bandwidth_gbps" } do
    if functions.transfer and type(host) == "table" and host[key] ~= nil then
      check.fail("kv_cache.host_offload.%s: has no effect with timing.transfer", key)
    end
  end
  return copy, functions
end

return check.namespace("aisim.timing", M)
