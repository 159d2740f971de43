--- trace_stats.json: sums, percentiles and arrival figures of trace files, by aisim.trace_stats.
local core = require "aisim.core"
local stats = require "aisim.trace_stats"

local M = {}

-- Facts about the bytes of a file, not about its reader.
local BYTES <const> = { sha256 = true, bytes = true }

local function differs(got, want, where)
  if type(want) == "table" then
    if type(got) ~= "table" then return ("%s: nothing"):format(where) end
    for key, value in pairs(want) do
      local difference = differs(got[key], value, where .. "." .. key)
      if difference then return difference end
    end
    return nil
  end
  if type(got) ~= "number" then return ("%s: got %s, want %s"):format(where, tostring(got), want) end
  local digits = where:find "cv$" and 1e5 or where:find "rate" and 1e6 or where:find "ratio" and 1e6 or 1e4
  -- the reference is rounded; sums of differences of times carry rounding of their own
  local room = 0.5 / digits + 1e-9 * math.abs(want)
  if math.abs(got - want) > room then return ("%s: got %.10g, want %.10g"):format(where, got, want) end
end

--- First and last line of a date-time column, as written.
local function timestamps(path)
  local first, last
  for line in io.lines(path) do
    local at = line:match "^(%d%d%d%d%-[^,]*),"
    if at then first, last = first or at, at end
  end
  return first, last
end

local function check(want, context)
  local path = context.data .. "/traces/" .. want.file
  local got = stats.rows({ path }, { keep_failed = 1 })
  if want.unique_blocks then
    local reuse = core.trace_reuse({ path }, {}, { {} })[1]
    got.unique_blocks = reuse.resident_blocks_end
  end
  if want.planned_prefix_ratio then got.planned_prefix_ratio = got.prefix_tokens.sum / got.input_tokens.sum end
  for key, value in pairs(want) do
    if key == "first_timestamp" or key == "last_timestamp" then
      local first, last = timestamps(path)
      local found = key == "first_timestamp" and first or last
      if found ~= value then return ("%s: got %s, want %s"):format(key, tostring(found), value) end
    elseif key ~= "file" and not BYTES[key] then
      local difference = differs(got[key], value, key)
      if difference then return difference end
    end
  end
end

function M.file(content, context, report)
  local names = {}
  for name in pairs(content.traces) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local fine, difference = pcall(check, content.traces[name], context)
    report(name, fine and difference == nil, difference)
  end
end

return M
