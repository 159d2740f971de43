--- What there is to choose from, read from the tables that validate input.
-- Every function gives rows { name, text … } in a fixed order. Nothing is written down twice: a name
-- that can be used is a name that is listed.
local lfs = require "lfs"
local scenario = require "aisim.scenario"
local terminal = require "aisim.cli.terminal"

local M = {}

--- Modules below "aisim.models." and the like: embedded in the program, or files on package.path.
local function modules(prefix)
  local seen, names = {}, {}
  local function add(name)
    if not seen[name] then seen[name], names[#names + 1] = true, name end
  end
  for _, name in ipairs(terminal.host.modules(prefix)) do add(name:sub(#prefix + 1)) end
  for template in package.path:gmatch("[^;]+") do
    local folder = template:match("^(.*)%?%.lua$")
    folder = folder and folder .. prefix:gsub("%.", "/")
    if folder and lfs.attributes(folder, "mode") == "directory" then
      for file in lfs.dir(folder) do
        local name = file:match("^(.+)%.lua$")
        if name then add(name) end
      end
    end
  end
  table.sort(names)
  return names
end

--- Descriptors: name and the comment of the file would be prose; the figures say more.
local function descriptors(prefix, text)
  local rows = {}
  for _, name in ipairs(modules(prefix)) do
    local ok, descriptor = pcall(require, prefix .. name)
    if ok and type(descriptor) == "table" then rows[#rows + 1] = { descriptor.name or name, text(descriptor) } end
  end
  return rows
end

function M.models()
  return descriptors("aisim.models.", function(model)
    local parts = { model.architecture, ("%d layers"):format(model.layers), model.gemm_dtype,
      ("context %d"):format(model.context_length) }
    for _, alias in ipairs(model.aliases or {}) do parts[#parts + 1] = alias end
    return table.concat(parts, ", ")
  end)
end

function M.hardware()
  return descriptors("aisim.hardware.", function(hardware)
    return ("%.0f GiB, %.1f TB/s, %.0f TFLOP/s bf16, %d per node"):format(hardware.memory_bytes / 2 ^ 30,
      hardware.memory_bytes_per_s / 1e12, hardware.bf16_flops / 1e12, hardware.gpus_per_node)
  end)
end

local PRICE <const> = {
  run = "free", request = "free but for the call", pass = "engine stops at each pass",
  token = "engine stops at each request of each pass",
}

--- What a hook of a class costs, in words.
function M.price(class) return PRICE[class] end

--- Name, arguments, price.
function M.hooks()
  local rows = {}
  for _, info in ipairs(require("aisim.hooks").list) do
    local args = { table.unpack(info.args) }
    args[#args + 1] = info.view
    rows[#rows + 1] = { info.name, ("(%s)"):format(table.concat(args, ", ")), info.class }
  end
  return rows
end

--- Keys of a report: key, unit, definition.
function M.metrics()
  local rows = {}
  for i, definition in ipairs(require("aisim.core").definitions()) do
    rows[i] = { definition.key, definition.unit, definition.text }
  end
  return rows
end

-- What the built-in policies do; which of them there are is asked from the engine.
local POLICIES <const> = {
  round_robin = "next target in order", random = "any target, equal chances",
  least_requests = "fewest routed and unfinished requests", shortest_queue = "fewest waiting, then fewest running",
  least_tokens = "fewest prompt tokens to compute and blocks in use", least_kv = "lowest share of KV blocks in use",
  p2c = "the better of two drawn targets", weighted_random = "chances by weight / (1 + load)",
  hash = "rendezvous hash of session, root, user or prefix", hash_bounded = "consistent hash with bounded load",
  prefix = "longest resident prefix, least load when the load is uneven",
  kv = "cost of overlap and load, drawn by temperature", kv_v1 = "its historic form: missing blocks and active blocks",
  session = "sticky by session",
  sibling_group = "sticky by parent session",
}

function M.routers()
  local rows = {}
  for i, name in ipairs(require("aisim.core").router_names()) do rows[i] = { name, POLICIES[name] or "" } end
  rows[#rows + 1] = { "pick = function(req, targets, now) … end", "a policy in Lua (aisim help router)" }
  return rows
end

--- Public functions of aisim.dist with their arguments, as the types for editors have them.
function M.distributions()
  local rows = {}
  for _, row in ipairs(require("aisim.cli.api").rows "dist") do
    local arguments, text = row[2]:match("^fun%((.*)%): aisim%.Dist,? ?(.*)$")
    local short = arguments:gsub(": number%f[^%w|]", ""):gsub(": integer", "")
    rows[#rows + 1] = { "aisim.dist." .. row[1], short:match("^options: (.*)$") or ("(%s)"):format(short), text }
  end
  return rows
end

--- Folders with scenarios: the working folder's, and that of the installation.
local function scenario_folders()
  local folders = { "scenarios" }
  local prefix = (terminal.host.program() or ""):match("^(.*)/bin/[^/]*$")
  if prefix then folders[#folders + 1] = prefix .. "/share/aisim/scenarios" end
  return folders
end

--- The first comment of a configuration: what it asks, and what follows "Expected: ".
local function head_of_yaml(path)
  local question, finding
  for line in io.lines(path) do
    local text = line:match("^#%s*(.*)$")
    if not text then break end
    question = question or text
    finding = finding or text:match("^Expected:%s*(.*)$")
  end
  return question, finding
end

--- Path, title or question, finding of a scenario or configuration.
local function scenario_rows(rows, path)
  local title, finding
  if path:find("%.lua$") then
    local ok, S = pcall(scenario.load, path)
    if not ok then title = "does not load: " .. tostring(S) else title, finding = S.title or S.question, S.finding end
  else
    title, finding = head_of_yaml(path)
  end
  rows[#rows + 1] = { path, title or "" }
  if finding then rows[#rows + 1] = { "", "-> " .. finding } end
end

function M.scenarios()
  local rows = {}
  for _, folder in ipairs(scenario_folders()) do
    local files = {}
    if lfs.attributes(folder, "mode") == "directory" then
      for file in lfs.dir(folder) do
        if file:find("%.lua$") or file:find("%.ya?ml$") then files[#files + 1] = folder .. "/" .. file end
      end
    end
    table.sort(files)
    for _, path in ipairs(files) do scenario_rows(rows, path) end
  end
  if #rows == 0 then
    rows[1] = { ("none in %s; aisim new scenario NAME writes one"):format(table.concat(scenario_folders(), ", ")) }
  end
  return rows
end

return M
