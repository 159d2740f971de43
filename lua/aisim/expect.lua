--- Expectations: "ttft_ms.p99 < 500", parsed (never run as code) and judged against run.metrics.
-- Form: METRIC OPERATOR NUMBER with one of < <= > >= == ~=. An undefined metric (no request had it)
-- fails its expectation: nothing was shown.
local near = require "aisim.near"

local M = {}

local OPERATORS <const> = {
  ["<"] = function(a, b) return a < b end,
  ["<="] = function(a, b) return a <= b end,
  [">"] = function(a, b) return a > b end,
  [">="] = function(a, b) return a >= b end,
  ["=="] = function(a, b) return a == b end,
  ["~="] = function(a, b) return a ~= b end,
}

---@class aisim.Expectation
---@field text string    as written
---@field name string    key of run.metrics
---@field op string
---@field value number

--- Parses one expectation.
---@param text string
---@return aisim.Expectation? expectation
---@return string? problem
function M.parse(text)
  if type(text) ~= "string" then
    return nil, ("text such as \"ttft_ms.p99 < 500\" expected, got %s"):format(type(text))
  end
  local name, op, right = text:match("^%s*([%a_][%w_%.]*)%s*([<>=~!]+)%s*(.-)%s*$")
  if not name then
    return nil, ("'%s': write METRIC OPERATOR NUMBER, for example ttft_ms.p99 < 500"):format(text)
  end
  if op == "!=" then op = "~=" end
  if op == "=" then return nil, ("'%s': unknown operator '=' (did you mean '=='?)"):format(text) end
  if not OPERATORS[op] then
    return nil, ("'%s': unknown operator '%s' (one of < <= > >= == ~=)"):format(text, op)
  end
  local value = tonumber(right)
  if not value or value ~= value then return nil, ("'%s': '%s' is not a number"):format(text, right) end
  return { text = text, name = name, op = op, value = value }
end

--- Does a value meet an expectation?
---@param expectation aisim.Expectation
---@param x number
---@return boolean
function M.meets(expectation, x) return OPERATORS[expectation.op](x, expectation.value) end

--- Parses a list; the first problem raises at the given level.
---@param list any       S.expect
---@param level integer
---@return aisim.Expectation[]
function M.list(list, level)
  if type(list) == "string" then list = { list } end
  if type(list) ~= "table" then
    error(("expect: list of texts expected, got %s"):format(type(list)), level + 1)
  end
  local out = {}
  for key in pairs(list) do
    if math.type(key) ~= "integer" or key < 1 or key > #list then
      error(("expect: unknown key '%s' (it is a list of texts)"):format(tostring(key)), level + 1)
    end
  end
  for i, text in ipairs(list) do
    local expectation, problem = M.parse(text)
    if not expectation then error(("expect[%d]: %s"):format(i, problem), level + 1) end
    out[i] = expectation
  end
  return out
end

---@class aisim.Verdict
---@field text string
---@field ok boolean
---@field got number?    nil = undefined in this run
---@field unknown string?    there is no such metric: what to tell the user

--- Judges expectations.
---@param list aisim.Expectation[]
---@param metrics table<string, number>    run.metrics
---@param known? fun(name: string): boolean    is this a metric at all? (undefined ones are absent from metrics)
---@return aisim.Verdict[] verdicts
---@return boolean all_ok
function M.judge(list, metrics, known)
  local verdicts, all = {}, true
  for i, expectation in ipairs(list) do
    local got = metrics[expectation.name]
    local unknown
    if got == nil and known and not known(expectation.name) then
      unknown = ("expect: '%s': unknown metric '%s'%s"):format(expectation.text, expectation.name,
        near.hint(expectation.name, metrics))
    end
    if type(got) == "boolean" then got = got and 1 or 0 end
    local ok = type(got) == "number" and M.meets(expectation, got)
    verdicts[i] = { text = expectation.text, ok = ok, got = type(got) == "number" and got or nil, unknown = unknown }
    all = all and ok
  end
  return verdicts, all
end

return M
