--- The output folder: nothing half-written ever has the name of a finished file.
-- Files are written as ".NAME.part" and renamed at the end, all of them; on a failure the parts are
-- removed. A folder that is not empty is refused unless --overwrite, which replaces the files of a run
-- and leaves everything else alone.
local fault = require "aisim.cli.fault"
local lfs = require "lfs"

local M = {}

local file_names

--- Every file that a verb may write into its folder, in the order in which they are written.
local function known()
  if not file_names then
    file_names = {}
    for i, file in ipairs(require("aisim.cli.outputs").FILES) do file_names[i] = file.name end
  end
  return file_names
end

local function entries(dir)
  local names = {}
  for name in lfs.dir(dir) do
    if name ~= "." and name ~= ".." then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

--- Makes a folder and those above it.
---@param dir string
local function make(dir)
  if lfs.attributes(dir, "mode") == "directory" then return end
  local parent = dir:match("^(.*[^/])/+[^/]+/*$")
  if parent then make(parent) end
  local ok, why = lfs.mkdir(dir)
  if not ok and lfs.attributes(dir, "mode") ~= "directory" then
    fault.usage("--out %s: cannot make the folder: %s", dir, why)
  end
end

M.make = make

--- Refuses early what could not be written at the end. Makes nothing.
---@param dir string
---@param overwrite boolean
---@param remedies? string   flags that would help
function M.check(dir, overwrite, remedies)
  local mode = lfs.attributes(dir, "mode")
  if mode and mode ~= "directory" then fault.usage("--out %s: is not a folder", dir) end
  if mode and not overwrite then
    local names = entries(dir)
    if #names > 0 then
      fault.usage("--out %s: the folder is not empty (%s%s); add %s or choose another", dir, names[1],
        #names > 1 and ", …" or "", remedies or "--overwrite")
    end
  end
end

--- Where a file is written until it is complete.
function M.part(dir, name) return ("%s/.%s.part"):format(dir, name) end

--- Writer of a file that the run has written itself: its part is there and complete. nil: it has not.
function M.written(dir, name)
  return lfs.attributes(M.part(dir, name), "mode") and function() end or nil
end

--- Makes the folder for files that are written while the run goes on; parts of an earlier program are removed.
---@param dir string
---@return fun() forget   takes the folder back after a failure, if it is new and empty
function M.prepare(dir)
  local is_new = lfs.attributes(dir, "mode") == nil
  make(dir)
  for _, name in ipairs(known()) do os.remove(M.part(dir, name)) end
  return function()
    for _, name in ipairs(known()) do os.remove(M.part(dir, name)) end
    if is_new then lfs.rmdir(dir) end
  end
end

--- Writes all files of a run, or none.
---@param dir string
---@param writers table<string, fun(path: string)|string>   name -> text, or function that writes the file
function M.write(dir, writers)
  make(dir)
  local parts = {}
  local ok, problem = pcall(function()
    for _, name in ipairs(known()) do
      local writer = writers[name]
      if writer then
        local part = M.part(dir, name)
        parts[#parts + 1] = { part, dir .. "/" .. name }
        if type(writer) == "string" then
          local file, why = io.open(part, "wb")
          if not file then error(why, 0) end
          local wrote, reason = file:write(writer)
          local closed, late = file:close()
          if not (wrote and closed) then error(reason or late, 0) end
        else
          writer(part)
        end
      end
    end
  end)
  if not ok then
    for _, part in ipairs(parts) do os.remove(part[1]) end
    fault.raise(fault.LIMIT, "--out %s: %s; nothing written", dir, tostring(problem))
  end
  -- A file of an earlier run that this run does not write would be taken for its own.
  for _, name in ipairs(known()) do
    if not writers[name] then os.remove(dir .. "/" .. name) end
  end
  for _, part in ipairs(parts) do
    local renamed, why = os.rename(part[1], part[2])
    if not renamed then fault.raise(fault.LIMIT, "--out %s: %s", dir, why) end
  end
end

return M
