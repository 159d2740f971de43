--- Near names: "did you mean 'rate'?".
-- Distance = insertions, deletions, substitutions and swaps of neighbours. A name is near when it is
-- at most a third of its length away, so that a hint is a help and not noise. Ties: first in
-- alphabetical order, so that the message does not depend on table order.
local M = {}

local START <const> = 3 -- letters that are enough to recognise a name by its beginning
local LISTED <const> = 24 -- names that are a help and not noise
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

local function sorted(names)
  local list = {}
  if #names > 0 then
    for i = 1, #names do list[i] = names[i] end
  else
    for key in pairs(names) do
      if type(key) == "string" then list[#list + 1] = key end
    end
  end
  table.sort(list)
  return list
end

--- The nearest of some names, or nil when none is near.
---@param name string           what was written
---@param names string[]|table  a list, or a table whose string keys are the names
---@return string?
function M.name(name, names)
  if #name > LONGEST then return nil end
  local list = sorted(names)
  local best, best_distance
  local written = name:lower()
  for _, candidate in ipairs(list) do
    local d = M.distance(written, candidate:lower())
    local limit = math.max(1, math.max(#written, #candidate) // 3)
    if d <= limit and (not best or d < best_distance) then best, best_distance = candidate, d end
  end
  return best or M.start(written, list)
end

--- The shortest of the names that begin with what was written (or the longest that it begins with): ttft for ttft_ms.
---@param written string   lower case
---@param list string[]    in alphabetical order
---@return string?
function M.start(written, list)
  if #written < START then return nil end
  local best, best_length
  for _, candidate in ipairs(list) do
    local lower = candidate:lower()
    local longer = lower:sub(1, #written) == written
    local shorter = #lower >= START and written:sub(1, #lower) == lower
    local length = longer and #lower or -#lower
    if (longer or shorter) and (not best or length < best_length and (longer or best_length < 0)) then
      best, best_length = candidate, length
    end
  end
  return best
end

local listener

--- Calls fn, whose error does not matter; heard(names) gets what would have been searched for a hint in it.
---@param heard fun(names: table)
---@param fn function
function M.listen(heard, fn)
  listener = heard
  pcall(fn)
  listener = nil
end

--- " (did you mean 'rate'?)", or "".
---@param name string
---@param names string[]|table
---@return string
function M.hint(name, names)
  if listener then listener(names) end
  local near = M.name(name, names)
  return near and (" (did you mean '%s'?)"):format(near) or ""
end

--- A hint, or what there is: " (keys here: rate, router)".
---@param name string
---@param names string[]|table
---@param label string   "keys here"
---@return string
function M.hint_or_names(name, names, label)
  local hint = M.hint(name, names)
  if hint ~= "" then return hint end
  local list = sorted(names)
  if #list == 0 or #list > LISTED then return "" end
  return (" (%s: %s)"):format(label, table.concat(list, ", "))
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

--- Same for a file that is not there: the nearest name in its folder; "" when there is none, or no lfs to look.
---@param path string
---@return string
function M.file(path)
  local folder, name = path:match("^(.*/)([^/]*)$")
  local has_lfs, lfs = pcall(require, "lfs")
  if not has_lfs or lfs.attributes(path) or lfs.attributes(folder or ".", "mode") ~= "directory" then return "" end
  local names = {}
  for other in lfs.dir(folder or ".") do
    if other ~= "." and other ~= ".." then names[#names + 1] = other end
  end
  local best = M.name(name or path, names)
  return best and (" (did you mean '%s'?)"):format((folder or "") .. best) or ""
end

return M
