--- trace_reuse.json: prefix reuse of trace files in caches of given sizes, by the readers and the cache
-- model of the product.
local support = require "support"
local cjson = require "cjson"
local core = require "aisim.core"

local M = {}

local KNOWN <const> = { trace = true, file = true, block_size = true, model = true, rule = true, order = true,
  capacity_blocks = true, servers = true, ttl_ms = true, first_requests = true, expect = true, name = true }

local function given(value) return value ~= cjson.null and value or nil end

local function name_of(case)
  return table.concat({ case.trace, case.model, given(case.rule) or "-", given(case.order) or "-",
    ("b%d"):format(case.block_size), "cap=" .. tostring(given(case.capacity_blocks) or "endless"),
    "servers=" .. tostring(given(case.servers) or 1), "ttl=" .. tostring(given(case.ttl_ms) or "-"),
    "first=" .. tostring(given(case.first_requests) or "all") }, "/")
end

local function run(case, context)
  for key in pairs(case) do
    if not KNOWN[key] then return ("unknown key '%s'"):format(key) end
  end
  local planned = case.model == "planned_prefix"
  local result = core.trace_reuse({ context.data .. "/traces/" .. case.file },
    { limit = given(case.first_requests), block_size = not planned and case.block_size or nil }, { {
      block_size = case.block_size, capacity = given(case.capacity_blocks), servers = given(case.servers),
      full_only = case.rule == "full_only", head_first = case.order == "head_first", ttl_ms = given(case.ttl_ms),
    } })[1]
  result.token_reuse_ratio = math.floor(result.reused_tokens / result.input_tokens * 1e9 + 0.5) / 1e9
  return support.difference(case.expect, result, "expect")
end

function M.file(content, context, report)
  for _, case in ipairs(content.cases) do
    local fine, difference = pcall(run, case, context)
    report(name_of(case), fine and difference == nil, difference)
  end
end

return M
