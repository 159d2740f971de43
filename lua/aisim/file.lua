--- Whole files in, whole files out: a file of the final name is complete.
-- Whatever is renamed over a path first asks M.replaceable: a device or a link must not become a file.
local check = require "aisim.check"
local core = require "aisim.core"
local sandbox = require "aisim.sandbox"
local has_lfs, lfs = pcall(require, "lfs") -- a stock lua5.4 may lack it

local M = {}

--- The bytes of a file.
---@param path string
---@return string
function M.read(path)
  sandbox.refuse "reading a file"
  local file, problem = io.open(path, "rb")
  if not file then check.fail("cannot open %s", problem) end
  local text, why = file:read("a")
  file:close()
  if not text then check.fail("cannot read %s: %s", path, why) end
  return text
end

--- A YAML file as a table; messages have file, line and column.
---@param path string
---@return table
function M.yaml(path)
  sandbox.refuse "reading a file"
  return core.yaml(path)
end

--- May a finished file take the place of what is there? Only nothing and plain files are replaced.
---@param path string
---@return boolean
function M.replaceable(path)
  local mode = has_lfs and lfs.symlinkattributes(path, "mode") or nil
  return mode == nil or mode == "file"
end

--- Raises unless the path may be replaced.
---@param path string
---@return string path
function M.target(path)
  sandbox.refuse "writing a file"
  if not M.replaceable(path) then check.fail("%s: is not a plain file", path) end
  return path
end

local function write_through(path, text)
  local file, problem = io.open(path, "wb")
  if not file then check.fail("cannot write %s", problem) end
  local wrote, why = file:write(text)
  local closed, late = file:close()
  if not (wrote and closed) then check.fail("cannot write %s: %s", path, why or late) end
end

--- Writes a temporary file beside the path and renames it; a device, pipe or link is written to.
---@param path string
---@param text string
function M.write(path, text)
  sandbox.refuse "writing a file"
  if not M.replaceable(path) then return write_through(path, text) end
  local folder, name = path:match("^(.*/)([^/]*)$")
  local part = ("%s.%s.part"):format(folder or "", name or path)
  local file, problem = io.open(part, "wb")
  if not file then check.fail("cannot write %s", problem) end
  local wrote, why = file:write(text)
  local closed, late = file:close()
  local renamed, last
  if wrote and closed then renamed, last = os.rename(part, path) end
  if not renamed then
    os.remove(part)
    check.fail("cannot write %s: %s", path, why or late or last)
  end
end

return M
