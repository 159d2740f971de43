--- Expectations: "ttft_ms.p99 < 500", parsed (never run as code) and judged against run.metrics.
-- { "kv_usage.peak < 0.98", stop = true } also ends the run as soon as it is seen to be violated.
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
---@field stop boolean?  end the run at the first violation
---@field place string?  "file:line" where it is written

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

--- Parses a list; the first problem raises at the given level, or where its text is written.
---@param list any       S.expect
---@param level integer
---@param place_of? fun(text: string): string?    "file:line" of an entry
---@return aisim.Expectation[]
function M.list(list, level, place_of)
  local function placed(text) return place_of and type(text) == "string" and place_of(text) or nil end
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
  for i, item in ipairs(list) do
    local text, stop, problem = item, nil, nil
    if type(item) == "table" then
      for key in pairs(item) do
        if key ~= 1 and key ~= "stop" then
          problem = problem
            or ("expect[%d]: unknown key '%s'%s"):format(i, tostring(key), near.hint(tostring(key), { "stop" }))
        end
      end
      text, stop = item[1], item.stop
      if stop ~= nil and type(stop) ~= "boolean" then
        problem = problem or ("expect[%d].stop: true or false expected, got %s"):format(i, type(stop))
      end
    end
    local expectation, why = M.parse(text)
    local place = placed(text)
    if not expectation then problem = problem or ("expect[%d]: %s"):format(i, why) end
    if problem then
      if place then error(("%s: %s"):format(place, problem), 0) end
      error(problem, level + 1)
    end
    expectation.stop, expectation.place = stop or nil, place
    out[i] = expectation
  end
  return out
end

--- What to tell about a metric that does not exist.
local function unknown_metric(expectation, hint)
  return ("%sexpect: '%s': unknown metric '%s'%s"):format(expectation.place and expectation.place .. ": " or "",
    expectation.text, expectation.name, hint)
end

--- Raises for a metric that no run of the simulation can have: a typing error should not cost a run.
---@param sim aisim.Sim   after setup, before its run
---@param list aisim.Expectation[]
function M.check(sim, list)
  for _, expectation in ipairs(list) do
    local hint = require("aisim.results").impossible(sim, expectation.name)
    if hint then error(unknown_metric(expectation, hint), 0) end
  end
end

local CHECK_MS <const> = 1000
local SHARE <const> = 0.01

--- Ends a run early: expectations with stop are judged once a simulated second, later after each per
-- cent of the time so far, so that the cost stays bounded. An undefined metric is no violation yet.
---@param sim aisim.Sim   before its run
---@param list aisim.Expectation[]
function M.watch(sim, list)
  local stops = {}
  for _, expectation in ipairs(list) do
    if expectation.stop then stops[#stops + 1] = expectation end
  end
  if #stops == 0 then return end
  local due = 0
  sim:on("run.tick", function(t)
    if t < due then return end
    due = t * (1 + SHARE)
    local metrics = sim:peek_()
    for _, expectation in ipairs(stops) do
      local name = expectation.name
      local got = metrics[name] or metrics[name .. ".total"] or metrics[name .. ".ratio"]
      if type(got) == "number" and not M.meets(expectation, got) then
        return sim:stop("expect: " .. expectation.text)
      end
    end
  end, { every_ms = CHECK_MS })
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
      unknown = unknown_metric(expectation,
        require("aisim.results").unknown(expectation.name, metrics) or near.hint(expectation.name, metrics))
    end
    if type(got) == "boolean" then got = got and 1 or 0 end
    local ok = type(got) == "number" and M.meets(expectation, got)
    verdicts[i] = { text = expectation.text, ok = ok, got = type(got) == "number" and got or nil, unknown = unknown }
    all = all and ok
  end
  return verdicts, all
end

return M
