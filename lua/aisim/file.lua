--- Whole files in, whole files out: a file of the final name is complete.
local check = require "aisim.check"

local M = {}

--- The bytes of a file.
---@param path string
---@return string
function M.read(path)
  local file, problem = io.open(path, "rb")
  if not file then check.fail("cannot open %s", problem) end
  local text, why = file:read("a")
  file:close()
  if not text then check.fail("cannot read %s: %s", path, why) end
  return text
end

--- Writes a temporary file beside the path and renames it.
---@param path string
---@param text string
function M.write(path, text)
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
