--- aisim new KIND NAME: a commented file that runs. The templates are Lua files of the library
-- (aisim/templates), so that they are checked like the rest; NAME in them becomes the name.
local fault = require "aisim.cli.fault"
local file_of = require "aisim.file"
local files = require "aisim.cli.files"
local near = require "aisim.near"
local terminal = require "aisim.cli.terminal"

local M = {}

--- What can be made, and what to do next with it.
M.KINDS = {
  { "scenario", "the whole frame: parameters, cluster, traffic, expectations, sweep, search",
    { "aisim run %s", "aisim sweep %s", "aisim search %s" } },
  { "router", "a routing policy beside built-in ones",
    { "aisim run %s", "aisim sweep %s", "aisim compare %s --left router=round_robin --seeds 5" } },
  { "metric", "counters, distributions, derived values, expectations about them",
    { "aisim run %s", "aisim sweep %s" } },
  { "timing", "what a pass costs, as a function", { "aisim timing %s --grid n_decode=1..64", "aisim run %s" } },
  { "session", "traffic as coroutines", { "aisim run %s", "aisim sweep %s" } },
}

local function kind_of(name)
  local names = {}
  for i, kind in ipairs(M.KINDS) do
    if kind[1] == name then return kind end
    names[i] = kind[1]
  end
  local hint = near.hint(name, names)
  return fault.usage("new: unknown kind '%s'%s", name,
    hint ~= "" and hint or (" (one of %s)"):format(table.concat(names, ", ")))
end

--- A name that the thing would share with a built-in one.
local function refuse_taken(kind, name)
  local core = require "aisim.core"
  if kind == "router" then
    for _, other in ipairs(core.router_names()) do
      if other == name then fault.usage("new: router '%s' is built in; choose another name", name) end
    end
  elseif kind == "metric" and require("aisim.results").is_defined(name) then
    fault.usage("new: metric '%s' is built in; choose another name", name)
  end
end

--- The text of a template, which is embedded in the program.
local function template(kind)
  return terminal.host.file(("aisim/templates/%s.lua"):format(kind))
    or fault.raise(fault.INTERNAL, "new: the template of '%s' is missing", kind)
end

---@param args table
---@return integer status
function M.main(args)
  local kind = kind_of(args.kind)
  local folder, name = args.name:gsub("%.lua$", ""):match("^(.-)([^/]*)$")
  if not name:find("^[%a][%w_]*$") then
    fault.usage("new: '%s': a name of letters, digits and _ expected, a letter first", args.name)
  end
  local path = folder .. name .. ".lua"
  refuse_taken(kind[1], name)
  if io.open(path, "rb") then fault.usage("new: %s exists already; nothing is overwritten", path) end
  if folder ~= "" then files.make((folder:gsub("/+$", ""))) end
  local text = template(kind[1]):gsub("%f[%w_]NAME%f[^%w_]", name)
  file_of.write(path, (text:gsub("%f[%w_]FILE%f[^%w_]", (path:gsub("%%", "%%%%")))))
  terminal.out("wrote " .. path)
  for i, command in ipairs(kind[3]) do terminal.out((i == 1 and "next: " or "      ") .. command:format(path)) end
  return fault.OK
end

return M
