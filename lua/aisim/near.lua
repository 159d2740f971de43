--- Near names: "did you mean 'rate'?".
-- Distance = insertions, deletions, substitutions and swaps of neighbours. A name is near when it is
-- at most a third of its length away, so that a hint is a help and not noise. Ties: first in
-- alphabetical order, so that the message does not depend on table order.
local M = {}

local LONGEST <const> = 100 -- nobody mistypes more, and comparing takes the square of the length

--- Number of edits between two names (optimal string alignment).
---@param a string
---@param b string
---@return integer
function M.distance(a, b)
  local before, last = {}, {}
  for j = 0, #b do last[j] = j end
  for i = 1, #a do
    local row = { [0] = i }
    local ca = a:byte(i)
    for j = 1, #b do
      local cb = b:byte(j)
      local d = math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (ca == cb and 0 or 1))
      if i > 1 and j > 1 and ca == b:byte(j - 1) and a:byte(i - 1) == cb then
        d = math.min(d, before[j - 2] + 1)
      end
      row[j] = d
    end
    before, last = last, row
  end
  return last[#b]
end

--- The nearest of some names, or nil when none is near.
---@param name string           what was written
---@param names string[]|table  a list, or a table whose string keys are the names
---@return string?
function M.name(name, names)
  if #name > LONGEST then return nil end
  local list = {}
  if #names > 0 then
    for i = 1, #names do list[i] = names[i] end
  else
    for key in pairs(names) do
      if type(key) == "string" then list[#list + 1] = key end
    end
  end
  table.sort(list)
  local best, best_distance
  local written = name:lower()
  for _, candidate in ipairs(list) do
    local d = M.distance(written, candidate:lower())
    local limit = math.max(1, math.max(#written, #candidate) // 3)
    if d <= limit and (not best or d < best_distance) then best, best_distance = candidate, d end
  end
  return best
end

--- " (did you mean 'rate'?)", or "".
---@param name string
---@param names string[]|table
---@return string
function M.hint(name, names)
  local near = M.name(name, names)
  return near and (" (did you mean '%s'?)"):format(near) or ""
end

--- Same for dotted paths: a path that ends in the name comes first.
---@param name string
---@param paths string[]
---@return string
function M.path_hint(name, paths)
  local ending = "." .. (name:match("([^.]+)$") or name)
  for _, path in ipairs(paths) do
    if path:sub(-#ending) == ending then return (" (did you mean '%s'?)"):format(path) end
  end
  return M.hint(name, paths)
end

return M
