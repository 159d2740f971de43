--- aisim run --profile: where the wall time of a run went. A table for the reader (standard error) and
-- the same figures in wall.json; never in a report, which must not depend on the machine.
local render = require "aisim.render"

local M = {}

---@class aisim.ProfileRow
---@field kind string     "part" of the engine, or what the script was called as: "hook", "router", …
---@field name string?
---@field calls integer
---@field ns integer      parts: their own time; calls: until they returned

local function total_of(rows)
  local total = 0
  for _, row in ipairs(rows) do
    if row.kind == "part" then total = total + row.ns end
  end
  return total
end

local function label(row)
  if row.kind == "part" then return row.name end
  return row.name and ("%s '%s'"):format(row.kind, row.name) or row.kind
end

--- The table: parts of the engine, largest first, then the calls of the script, largest first.
---@param rows aisim.ProfileRow[]
---@return string
function M.text(rows)
  local total = math.max(1, total_of(rows))
  local sorted = {}
  for _, row in ipairs(rows) do
    if row.calls > 0 then sorted[#sorted + 1] = row end
  end
  table.sort(sorted, function(a, b)
    local part_a, part_b = a.kind == "part", b.kind == "part"
    if part_a ~= part_b then return part_a end
    if a.ns ~= b.ns then return a.ns > b.ns end
    return label(a) < label(b)
  end)
  local lines = { ("%-40s %12s %10s %10s %7s"):format("profile", "calls", "ns/call", "ms", "share") }
  local in_parts = true
  for _, row in ipairs(sorted) do
    if in_parts and row.kind ~= "part" then
      in_parts = false
      lines[#lines + 1] = "of lua, by what was called"
    end
    lines[#lines + 1] = ("  %-38s %12s %10s %10.2f %5.1f %%"):format(label(row), render.count(row.calls),
      render.count(row.ns // row.calls), row.ns / 1e6, 100 * row.ns / total)
  end
  return table.concat(lines, "\n")
end

--- The value of "profile" in wall.json.
---@param rows aisim.ProfileRow[]
---@return string
function M.json(rows)
  local out = {}
  for i, row in ipairs(rows) do
    local name = row.name and ('"%s"'):format(row.name:gsub('[%c"\\]', function(c)
      return ("\\u%04x"):format(c:byte())
    end)) or "null"
    out[i] = ('{"kind":"%s","name":%s,"calls":%d,"ns":%d}'):format(row.kind, name, row.calls, row.ns)
  end
  return "[" .. table.concat(out, ",") .. "]"
end

return M
