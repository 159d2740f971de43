--- aisim timing --grid: pass latency over a grid of batches, contexts and chunks.
-- An axis is NAME=VALUES; values are "8", a list "1/2/4", "1..256" (doubling, both ends included) or
-- "0..1024:128" (steps). What no axis names has the default below.
local figures = require "aisim.figures"
local fault = require "aisim.cli.fault"
local json = require "aisim.json"
local near = require "aisim.near"

local M = {}

--- Axes in the order of columns: name, meaning, half of the pass it belongs to.
local AXES <const> = {
  { "n_prefill", "prefill items", "prefill" },
  { "chunk", "new tokens of each prefill item", "prefill" },
  { "past", "cached tokens of each prefill item", "prefill" },
  { "new_tokens", "new tokens of all prefill items", "prefill" },
  { "past_tokens", "cached tokens of all prefill items", "prefill" },
  { "n_decode", "decode items", "decode" },
  { "context", "attended tokens of each decode item", "decode" },
  { "context_tokens", "attended tokens of all decode items", "decode" },
  { "drafts", "draft tokens verified per decode item", "decode" },
}
M.AXES = AXES

local by_name <const> = {}
for i, axis in ipairs(AXES) do by_name[axis[1]] = i end

local MAX_VALUES <const> = 4096
local MAX_POINTS <const> = 100000

local function whole(text, axis)
  local value = math.tointeger(tonumber(text))
  if not value or value < 0 or value > 10 ^ 12 then
    fault.usage("timing: --grid %s: integer ≥ 0 expected, got '%s'", axis, text)
  end
  return value
end

local function values_of(text, axis)
  local low, high, step = text:match("^(%d+)%.%.(%d+):?(%d*)$")
  local list = {}
  if not low then
    for part in (text .. "/"):gmatch("(.-)/") do list[#list + 1] = whole(part, axis) end
    return list
  end
  low, high = whole(low, axis), whole(high, axis)
  if low > high then fault.usage("timing: --grid %s: %d..%d is empty", axis, low, high) end
  if step ~= "" then
    step = whole(step, axis)
    if step == 0 then fault.usage("timing: --grid %s: a step of 0", axis) end
    for value = low, high, step do
      list[#list + 1] = value
      if #list > MAX_VALUES then fault.usage("timing: --grid %s: more than %d values", axis, MAX_VALUES) end
    end
    return list
  end
  if low == 0 then fault.usage("timing: --grid %s: doubling cannot start at 0; write 0..%d:STEP", axis, high) end
  while low < high do
    list[#list + 1] = low
    low = low * 2
  end
  list[#list + 1] = high
  return list
end

---@class aisim.Axis
---@field name string
---@field values integer[]

--- "n_decode=1..256,context=1024..65536" -> axes.
---@param text string
---@return aisim.Axis[]
function M.parse(text)
  local axes, seen, points = {}, {}, 1
  for part in text:gmatch("[^,]+") do
    local name, values = part:match("^%s*([%w_]+)%s*=%s*(%S+)%s*$")
    if not name then fault.usage("timing: --grid %s: write it as NAME=VALUES, for example n_decode=1..256", part) end
    if not by_name[name] then
      local hint = near.hint(name, by_name)
      fault.usage("timing: --grid: unknown axis '%s'%s", name, hint ~= "" and hint or
        " (n_prefill, chunk, past, new_tokens, past_tokens, n_decode, context, context_tokens, drafts)")
    end
    if seen[name] then fault.usage("timing: --grid: axis '%s' is given twice", name) end
    seen[name] = true
    axes[#axes + 1] = { name = name, values = values_of(values, name) }
    points = points * #axes[#axes].values
  end
  for _, pair in ipairs { { "chunk", "new_tokens" }, { "past", "past_tokens" }, { "context", "context_tokens" } } do
    if seen[pair[1]] and seen[pair[2]] then
      fault.usage("timing: --grid: %s and %s say the same thing; give one", pair[1], pair[2])
    end
  end
  if #axes == 0 then fault.usage("timing: --grid: no axis") end
  if points > MAX_POINTS then fault.usage("timing: --grid: %d points, at most %d", points, MAX_POINTS) end
  return axes
end

--- The two grids that are shown when none is asked for.
function M.default()
  return { M.parse "n_decode=1..256,context=1024/4096/16384/65536", M.parse "chunk=128..8192,past=0/8192/65536" }
end

--- Aggregates of a pass (arguments of pass and explain) from the values of axes.
function M.shape(at)
  local prefill, decode = false, false
  for name in pairs(at) do
    local half = AXES[by_name[name]][3]
    prefill, decode = prefill or half == "prefill", decode or half == "decode"
  end
  local n_prefill = at.n_prefill or (prefill and 1 or 0)
  local n_decode = at.n_decode or (decode and 1 or 0)
  return { n_prefill, at.new_tokens or n_prefill * (at.chunk or 2048), at.past_tokens or n_prefill * (at.past or 0),
    n_decode, at.context_tokens or n_decode * (at.context or 2048), (at.drafts or 0) + 1 }
end

--- All points of a grid, the last axis fastest: { at, ms = { one per model } }.
function M.evaluate(axes, models)
  local points = {}
  local function descend(i, at)
    if i > #axes then
      local shape, ms = M.shape(at), {}
      for k, model in ipairs(models) do ms[k] = model.timing:pass(table.unpack(shape)) end
      local copy = {}
      for name, value in pairs(at) do copy[name] = value end
      points[#points + 1] = { at = copy, shape = shape, ms = ms }
      return
    end
    for _, value in ipairs(axes[i].values) do
      at[axes[i].name] = value
      descend(i + 1, at)
    end
    at[axes[i].name] = nil
  end
  descend(1, {})
  return points
end

local function milliseconds(x) return ("%.3f"):format(x) end

local function axis_text(axes)
  local parts = {}
  for i, axis in ipairs(axes) do
    parts[i] = #axis.values == 1 and ("%s = %d"):format(axis.name, axis.values[1]) or axis.name
  end
  return table.concat(parts, ", ")
end

--- The axes that vary.
local function varied(axes)
  local list = {}
  for _, axis in ipairs(axes) do
    if #axis.values > 1 then list[#list + 1] = axis end
  end
  return list
end
M.varied = varied

--- One model over two axes: rows and columns.
local function matrix(rows_axis, columns_axis, points)
  local cells, head = {}, { rows_axis.name .. " \\ " .. columns_axis.name }
  for i, value in ipairs(columns_axis.values) do head[i + 1] = tostring(value) end
  for _, point in ipairs(points) do
    local row = point.at[rows_axis.name]
    cells[row] = cells[row] or {}
    cells[row][point.at[columns_axis.name]] = milliseconds(point.ms[1])
  end
  local rows = { head }
  for _, row in ipairs(rows_axis.values) do
    local line = { tostring(row) }
    for i, column in ipairs(columns_axis.values) do line[i + 1] = cells[row][column] end
    rows[#rows + 1] = line
  end
  return rows
end

--- A line per point, a column per model, and how the others compare with the first.
local function list(axes, models, points)
  local head = {}
  for i, axis in ipairs(axes) do head[i] = axis.name end
  for _, model in ipairs(models) do head[#head + 1] = (#models == 1 and "ms" or model.name) end
  for k = 2, #models do head[#head + 1] = ("%s/%s"):format(models[k].name, models[1].name) end
  local rows = { head }
  for _, point in ipairs(points) do
    local row = {}
    for i, axis in ipairs(axes) do row[i] = tostring(point.at[axis.name]) end
    for _, ms in ipairs(point.ms) do row[#row + 1] = milliseconds(ms) end
    for k = 2, #models do
      row[#row + 1] = point.ms[1] > 0 and ("%.3f"):format(point.ms[k] / point.ms[1]) or "-"
    end
    rows[#rows + 1] = row
  end
  return rows
end

--- The grid as text.
function M.text(axes, models, points)
  local wide = varied(axes)
  local rows
  if #models == 1 and #wide == 2 then
    rows = matrix(wide[1], wide[2], points)
  else
    rows = list(#wide > 0 and wide or axes, models, points)
  end
  return ("pass latency, ms, over %s\n"):format(axis_text(axes)) .. figures.text(rows, 0, 2)
end

--- The grid as a value for json.encode.
function M.json(axes, models, points)
  local names, rows = {}, {}
  for i, axis in ipairs(axes) do names[i] = axis.name end
  for i, point in ipairs(points) do
    local ms, shape = {}, point.shape
    for k, model in ipairs(models) do
      ms[#ms + 1], ms[#ms + 2] = model.name, point.ms[k]
    end
    local items = {}
    for _, name in ipairs(names) do items[#items + 1], items[#items + 2] = name, point.at[name] end
    local aggregates = json.object { "n_prefill", shape[1], "new_tokens", shape[2], "past_tokens", shape[3],
      "n_decode", shape[4], "context_tokens", shape[5], "verify_width", shape[6] }
    rows[i] = json.object { "at", json.object(items), "pass", aggregates, "ms", json.object(ms) }
  end
  return json.object { "axes", names, "points", rows }
end

return M
