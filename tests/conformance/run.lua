--- Runs conformance vectors against the product.
--
--     lua5.4 tests/conformance/run.lua [--later LIST] FILE…
--
-- With --later, vectors that LIST names (later.txt) are expected to fail: they count as skipped.
-- One line per vector: `ok|FAIL|skip  file  name  by engine|twin|function`, the first difference after
-- a FAIL, the reason after a skip. Then totals per file and label, last "N passed, N failed[, N skipped]".
-- Exit 1 after a failure. AISIM_BUILD_DIR (default: build) holds what was built; AISIM_VECTORS names the
-- folder beside which data/ lies, for vectors that need recorded traces.
--
-- What drives a vector is found by name: kind_<family>_<kind>.lua or kind_<family>.lua beside this
-- file. The family is that of the file (see `family_of`). A driver module returns
--     function(vector, context) -> true | false, difference | nil, reason why skipped
-- or a table of such functions by kind, or { file = function(content, context, report) } for files
-- that are no lists of vectors; `by` and the label in third place say who answered. No driver, or a
-- key that a driver does not know, is a FAIL. Every file runs in a process of its own, so that a
-- broken invariant costs one vector.
local here <const> = arg[0]:match "^(.*)/[^/]*$" or "."
local build <const> = os.getenv "AISIM_BUILD_DIR" or "build"
local vectors_dir <const> = os.getenv "AISIM_VECTORS" or here .. "/../../../shared/vectors"

package.path = table.concat({ here .. "/?.lua", here .. "/../twin/?.lua", build .. "/lua/?.lua",
  build .. "/lua/?/init.lua", package.path }, ";")
package.cpath = table.concat({ build .. "/?.so", build .. "/lua/?.so", package.cpath }, ";")

local cjson = require "cjson"
local support = require "support"

local context <const> = { build = build, tools = build .. "/tests", here = here, twin_dir = here .. "/../twin",
  vectors = vectors_dir, data = vectors_dir .. "/../data" }

--- What kind of file this is; nil = not recognised.
local function family_of(path, content)
  local name = path:match "[^/]*$"
  if type(content) == "string" then -- CSV, by its head line
    if content:find "^id,nodes,streams," then return "weka_lowering_all" end
    return content:find "^[%w_,]*model,tp,moe_tp," and "h200" or nil
  elseif content[1] ~= nil then
    return "upstream"
  elseif type(content.schema) == "string" then
    return content.schema:match "^aisim%-([%w_]+)%-vectors/1$"
  elseif content.components then
    return content.components.host_tier and "offload" or content.components.mtp_rates and "mtp" or nil
  elseif content.plays and content.corpus then
    return "weka_lowering"
  elseif content.cases and content.note then
    return "weka_snapshot"
  end
  return content.traces and "trace_stats" or content.cases and "trace_reuse" or name
end

local loaded = {}

local function load_driver(name)
  if loaded[name] == nil then
    local path = here .. "/" .. name .. ".lua"
    local file = io.open(path)
    loaded[name] = false
    if file then
      file:close()
      local fine, module = pcall(function() return assert(loadfile(path))(context) end)
      loaded[name] = fine and module or function()
        return false, ("%s.lua cannot be loaded: %s"):format(name, module)
      end
    end
  end
  return loaded[name]
end

local function driver_of(family, kind)
  for _, name in ipairs { ("kind_%s_%s"):format(family, kind), "kind_" .. family } do
    local module = load_driver(name)
    if type(module) == "function" then return module, module end
    if module and type(module[kind]) == "function" then return module[kind], module end
  end
end

local function kind_of(vector)
  return vector.kind or (vector.config and vector.config.component) or "none"
end

--- One line, whatever is in the text.
local function flat(text)
  return (tostring(text):gsub("%s*\n%s*", " | "))
end

-- ---- what is known to come later --------------------------------------------------------------------

local later = {}

local function read_later(path)
  for line in assert(io.lines(path)) do
    local file, what, why = line:match "^(%S+)%s+(%S+)%s+(.*)$"
    if file and file:sub(1, 1) ~= "#" then later[file .. " " .. what] = why end
  end
end

local function print_line(verdict, file, name, by, text)
  local line = ("%-4s  %s  %s  by %s"):format(verdict, file, name, by)
  print(text and line .. "  " .. flat(text) or line)
  io.stdout:flush()
end

local function run_vector(file, family, vector)
  local kind = kind_of(vector)
  print("\1start " .. tostring(vector.name) .. "\t" .. kind)
  local driver, module = driver_of(family, kind)
  if not driver then
    return print_line("FAIL", file, vector.name, "nobody", ("no driver for kind '%s' of %s files"):format(kind, family))
  end
  if vector.optional then
    return print_line("skip", file, vector.name, "nobody", "optional: " .. tostring(vector.optional))
  end
  local by = type(module) == "table" and module.by and (module.by[kind] or module.by.default) or "engine"
  local fine, ok, text, label = xpcall(driver, debug.traceback, vector, context)
  if not fine then ok, text = false, ok end
  print_line(ok and "ok" or ok == nil and "skip" or "FAIL", file, vector.name, label or by, text)
end

local function run_whole(path, family, content)
  local file = path:match "[^/]*$"
  local module = load_driver("kind_" .. family)
  if type(module) ~= "table" or not module.file then
    return print_line("FAIL", file, "all of it", "nobody", ("no driver for %s files"):format(family))
  end
  local by = module.by and module.by.default or "function"
  context.path = path
  local fine, trouble = xpcall(module.file, debug.traceback, content, context, function(name, ok, text)
    print("\1start " .. tostring(name) .. "\t" .. family)
    print_line(ok and "ok" or ok == nil and "skip" or "FAIL", file, name, by, text)
  end)
  if not fine then print_line("FAIL", file, "all of it", by, trouble) end
end

local function read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read "a"
  file:close()
  if path:find "%.csv$" then return text end
  local fine, content = pcall(cjson.decode, text)
  if not fine then return nil end
  local family = family_of(path, content)
  local wide = family == "routing" or family == "mtp" -- 64-bit identities and seeds
  return wide and cjson.decode(support.keep_identities(text)) or content
end

--- The child: vectors `first`, first + 1, … of one file.
local function child(path, first)
  local file, content = path:match "[^/]*$", read(path)
  if content == nil then
    print_line("FAIL", file, "all of it", "nobody", "cannot be read")
  else
    local family = family_of(path, content)
    local list = type(content) == "table" and (content.vectors or (content[1] and content))
    if not family then
      print_line("FAIL", file, "all of it", "nobody", "not a file of conformance vectors")
    elseif list then
      context.path = path
      for i = first, #list do
        context.index = i
        run_vector(file, family, list[i])
      end
    else
      run_whole(path, family, content)
    end
  end
  print "\1end"
end

-- ---- the parent -----------------------------------------------------------------------------------

local totals, order, sums = {}, {}, { ok = 0, FAIL = 0, skip = 0 }

local function count(verdict, label)
  if not totals[label] then
    totals[label] = { ok = 0, FAIL = 0, skip = 0 }
    order[#order + 1] = label
  end
  totals[label][verdict] = totals[label][verdict] + 1
  sums[verdict] = sums[verdict] + 1
end

local function quote(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

--- FAIL becomes skip for what is listed.
local function soften(line, file, name, kind)
  local why = later[file .. " " .. name] or later[("%s kind:%s"):format(file, kind)]
  if not why or not line:find "^FAIL" then return line end
  return (line:gsub("^FAIL", "skip")) .. "  (later: " .. why .. ")"
end

local function summary(t)
  return ("%d passed, %d failed"):format(t.ok, t.FAIL) .. (t.skip > 0 and (", %d skipped"):format(t.skip) or "")
end

--- Runs a file from vector `first` on. @return where to go on after a process that died, or nil
local function run_file(path, first)
  local interpreter = arg[-1] or "lua5.4"
  local file = path:match "[^/]*$"
  local pipe = assert(io.popen(("%s %s --child %s %d 2>&1"):format(quote(interpreter), quote(arg[0]),
    quote(path), first), "r"))
  local started, name, kind, last, open, ended = 0, "", "", "", false, false
  for line in pipe:lines() do
    if line:sub(1, 1) == "\1" then
      if line == "\1end" then
        ended = true
      else
        name, kind = line:match "^\1start (.*)\t(.*)$"
        started, open = started + 1, true
      end
    else
      line = soften(line, file, name, kind)
      local verdict, by = line:match "^(%w+) +%S+  .-  by (%w+)"
      if sums[verdict] then
        count(verdict, ("%s  %s  by %s"):format(file, kind, by))
        open = false
      end
      last = line
      print(line)
    end
  end
  pipe:close()
  if ended then return nil end
  local line = soften(("FAIL  %s  %s  by engine  the process ended: %s"):format(file, name, last), file, name, kind)
  print(line)
  count(line:match "^%w+", ("%s  %s  by engine"):format(file, kind))
  return open and first + started or nil
end

if arg[1] == "--child" then
  child(arg[2], math.tointeger(tonumber(arg[3])))
  os.exit(0)
end
local paths = table.move(arg, 1, #arg, 1, {})
if paths[1] == "--later" and paths[2] then
  read_later(paths[2])
  paths = table.move(paths, 3, #paths, 1, {})
end
if #paths == 0 then
  io.stderr:write "usage: lua5.4 tests/conformance/run.lua [--later LIST] FILE...\n"
  os.exit(2)
end
for _, path in ipairs(paths) do
  local first = 1
  while first do first = run_file(path, first) end
end
print()
for _, label in ipairs(order) do print(("%-50s %s"):format(label, summary(totals[label]))) end
print(summary(sums))
os.exit(sums.FAIL == 0)
