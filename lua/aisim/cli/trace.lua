--- aisim trace FILE: what is in a workload file; also makes, converts, samples and rescales them.
local core = require "aisim.core"
local fault = require "aisim.cli.fault"
local figures = require "aisim.figures"
local json = require "aisim.json"
local near = require "aisim.near"
local plays_of = require "aisim.plays"
local render = require "aisim.render"
local stats = require "aisim.trace_stats"
local terminal = require "aisim.cli.terminal"
local write = require "aisim.cli.trace_write"

local M = {}

local MAX_CACHES <const> = 60

local function whole(args, name, low)
  local text = args[name]
  if text == nil then return nil end
  local value = math.tointeger(tonumber(text))
  if not value or value < low then
    fault.usage("trace: --%s %s: whole number >= %d expected", name:gsub("_", "-"), text, low)
  end
  return value
end

local function positive(args, name)
  local text = args[name]
  if text == nil then return nil end
  local value = tonumber(text)
  if not value or value ~= value or value <= 0 or value == math.huge then
    fault.usage("trace: --%s %s: number > 0 expected", name:gsub("_", "-"), text)
  end
  return value
end

--- "1000,20k,1M" as numbers.
local function list(args, name)
  local values = {}
  if args[name] == nil then return values end
  for item in (args[name] .. ","):gmatch "([^,]*)," do
    local digits, unit = item:match "^%s*([%d.]+)([kM]?)%s*$"
    local value = digits and math.tointeger(tonumber(digits) * (unit == "k" and 1000 or unit == "M" and 1000000 or 1))
    if not value or value < 1 then
      fault.usage("trace: --%s %s: whole numbers >= 1 expected, for example 1000,20k", name:gsub("_", "-"), args[name])
    end
    values[#values + 1] = value
  end
  if #values > MAX_CACHES then fault.usage("trace: --%s: at most %d values", name, MAX_CACHES) end
  return values
end

local function known_format(name)
  local names = {}
  for _, format in ipairs(core.trace_formats()) do
    if format[1] == name then return name end
    names[#names + 1] = format[1]
  end
  local hint = near.hint(name, names)
  fault.usage("trace: --trace-format %s: unknown%s", name,
    hint ~= "" and hint or (" (one of %s)"):format(table.concat(names, ", ")))
end

local function row_of(format)
  for _, known in ipairs(core.trace_formats()) do
    if known[1] == format then return known[2] end
  end
end

local function is_graph(format, paths)
  if format ~= "dynamo" then return format == "agentic_mooncake" end
  local _, _, graph = core.trace(paths, { format = format }):about()
  return graph
end

--- What is to be looked at: rows of paths, or plays.
local function source_of(args)
  local paths = args.file
  local options = {
    format = known_format(args.trace_format or "auto"), block_size = whole(args, "block_size", 1),
    limit = whole(args, "limit", 1),
  }
  for _, name in ipairs { "from", "to" } do
    local value = args[name] and require("aisim.units").ms(args[name]) or args[name] and tonumber(args[name])
    if args[name] and not value then fault.usage("trace: --%s %s: time expected, for example 60s", name, args[name]) end
    options[name .. "_ms"] = value
  end
  local format = options.format
  if format == "auto" then format = core.trace_detect(paths[1]) end
  local plays
  if format == "weka" then
    plays = plays_of.load { path = paths, align_inputs = args.align_inputs ~= "false" and args.align_inputs or false }
  elseif is_graph(format, paths) then
    plays = core.trace_plays(paths, { format = format, block_size = options.block_size })
  end
  if plays and options.limit then plays = plays:first(options.limit) end
  return { paths = paths, options = options, format = format, plays = plays }
end

local function generated(args)
  if args.generate ~= "agentx" then
    fault.usage("trace: --generate %s: unknown%s", args.generate, near.hint(args.generate, { "agentx" }))
  end
  local options = { plays = whole(args, "plays", 1) or 200, seed = whole(args, "seed", 0), preset = args.preset }
  local fields = core.synthetic_fields()
  for _, set in ipairs(args.set or {}) do
    local key, value = set:match "^%s*([^=]-)%s*=%s*(.-)%s*$"
    if not key then fault.usage("trace: --set %s: NAME=VALUE expected", set) end
    if not fields[key] then
      fault.usage("trace: --set %s: unknown parameter '%s'%s", set, key, near.hint(key, fields))
    end
    local numbers = {}
    for item in value:gmatch "[^,{}%s]+" do numbers[#numbers + 1] = tonumber(item) end
    if #numbers ~= fields[key] then fault.usage("trace: --set %s: %d numbers expected", set, fields[key]) end
    options[key] = fields[key] == 1 and numbers[1] or numbers
  end
  return { paths = { "agentx" }, options = {}, format = "weka", plays = plays_of.synthetic(options), made = true }
end

-- Reuse --------------------------------------------------------------------------------------------

--- Endless caches at each block size, and caches of each capacity at the first of them.
local function reuse_of(source, found, args)
  local recorded = found.block_size or 0
  local sizes, capacities = list(args, "blocks"), list(args, "capacity")
  if recorded == 0 and not found.prefix_tokens then return nil end
  if #sizes == 0 then sizes = { recorded > 0 and recorded or 16 } end
  local caches = {}
  for _, size in ipairs(sizes) do caches[#caches + 1] = { block_size = size, full_only = true } end
  for _, size in ipairs(sizes) do
    for _, capacity in ipairs(capacities) do
      caches[#caches + 1] = { block_size = size, capacity = capacity, full_only = true }
    end
  end
  if #caches > MAX_CACHES then fault.usage("trace: --blocks and --capacity: at most %d combinations", MAX_CACHES) end
  local results = source.plays and core.plays_reuse(source.plays, caches)
    or core.trace_reuse(source.paths, source.options, caches)
  local out = {}
  for i, result in ipairs(results) do
    out[i] = {
      block_size = caches[i].block_size, capacity_blocks = caches[i].capacity,
      reused_tokens = result.reused_tokens, input_tokens = result.input_tokens,
      reuse_ratio = result.input_tokens > 0 and result.reused_tokens / result.input_tokens or nil,
      evictions = result.evictions, resident_blocks = result.resident_blocks_end,
    }
  end
  return out
end

-- Screen -------------------------------------------------------------------------------------------

local function number(value)
  if value == nil then return "-" end
  if math.type(value) == "float" and math.abs(value) < 100 then return ("%.4g"):format(value) end
  return render.count(math.floor(value + 0.5))
end

local COLUMNS <const> = { "mean", "min", "p25", "p50", "p75", "p90", "p95", "p99", "max" }

local function summaries(found)
  local rows = { { "", table.unpack(COLUMNS) } }
  for _, item in ipairs {
    { "input_tokens", "input tokens" }, { "output_tokens", "output tokens" }, { "prefix_tokens", "kept tokens" },
    { "append_tokens", "new tokens" }, { "turns_per_session", "turns per session" },
    { "gap_between_turns_s", "gap between turns, s" }, { "input_growth_per_turn", "growth per turn, tokens" },
    { "requests_per_play", "requests per play" }, { "play_length_s", "play length, s" },
  } do
    local summary = found[item[1]]
    if summary then
      local row = { item[2] }
      for _, name in ipairs(COLUMNS) do row[#row + 1] = number(summary[name]) end
      rows[#rows + 1] = row
    end
  end
  return figures.text(rows, 1)
end

local function head_line(source, found)
  local parts = { ("%s  %s"):format(table.concat(source.paths, " "), source.made and "made up" or source.format) }
  if (found.block_size or 0) > 0 then parts[#parts + 1] = ("blocks of %d tokens"):format(found.block_size) end
  local row = row_of(source.format)
  return table.concat(parts, ", ") .. (source.made and "" or ("   (%s)"):format(row))
end

local function counts_line(found)
  local parts = { number(found.rows) .. " requests" }
  if found.plays then
    parts[#parts + 1] = number(found.plays) .. " plays"
    parts[#parts + 1] = number(found.conversations) .. " conversations"
    if found.requests_in_subagents > 0 then
      local share = 100 * found.requests_in_subagents / found.rows
      parts[#parts + 1] = ("%.1f %% of the requests in subagents"):format(share)
    end
  elseif found.sessions then
    parts[#parts + 1] = number(found.sessions) .. (found.sessions == 1 and " session" or " sessions")
  end
  if found.failed_rows then parts[#parts + 1] = number(found.failed_rows) .. " rows without an answer left out" end
  return table.concat(parts, "   ")
end

local function arrival_line(a)
  if not a then return nil end
  local text = ("arrivals  span %s s   %s /s"):format(number(a.span_s), number(a.rate_per_s))
  if a.interarrival_cv then text = text .. ("   cv of gaps %.3g"):format(a.interarrival_cv) end
  text = text .. ("   counts per 1 s / 60 s: variance over mean %.3g / %.3g"):format(a.count_dispersion_1s,
    a.count_dispersion_60s)
  if a.non_monotonic > 0 then text = text .. ("   %s not in order of time"):format(number(a.non_monotonic)) end
  return text
end

local function reuse_table(reuse)
  local rows = { { "reuse", "block", "capacity, blocks", "reused", "of input", "evictions" } }
  for _, r in ipairs(reuse) do
    rows[#rows + 1] = { r.capacity_blocks and "LRU" or "endless", tostring(r.block_size),
      r.capacity_blocks and number(r.capacity_blocks) or number(r.resident_blocks) .. " used",
      number(r.reused_tokens), r.reuse_ratio and ("%.2f %%"):format(100 * r.reuse_ratio) or "-", number(r.evictions) }
  end
  return figures.text(rows, 1)
end

local function show(source, found, reuse)
  terminal.out(head_line(source, found))
  terminal.out(counts_line(found))
  local arrivals = arrival_line(found.arrivals)
  if arrivals then terminal.out(arrivals) end
  terminal.out("")
  terminal.out(summaries(found))
  if reuse then
    terminal.out("")
    terminal.out(reuse_table(reuse))
  end
end

--- Tables with names as JSON objects, names in alphabetical order.
local function ordered(value)
  if type(value) ~= "table" then return value end
  local items, n = {}, 0
  if value[1] ~= nil then
    for i, item in ipairs(value) do items[i] = ordered(item) end
    return items
  end
  for _, key in ipairs(require("aisim.check").sorted(value)) do
    items[n + 1], items[n + 2], n = key, ordered(value[key]), n + 2
  end
  return json.object(items, n)
end

---@param args table
---@return integer status
function M.main(args)
  if (#args.file == 0) == (args.generate == nil) then
    fault.usage("trace: %s",
      args.generate and "FILE has no effect with --generate" or "FILE missing, or --generate agentx")
  end
  local source = args.generate and generated(args) or source_of(args)
  if args.sample or args.scale or args.convert or args.output then
    if not args.output then fault.usage("trace: -o FILE missing: where to write") end
    local n = write.to(source, {
      path = args.output, format = args.convert, sample = args.sample, scale = positive(args, "scale"),
      seed = whole(args, "seed", 0) or 42, hash_runs = args.hash_runs,
    })
    if args.format ~= "json" then terminal.out(("%s: %s written"):format(args.output, n)) end
    return fault.OK
  end
  local found = source.plays and stats.plays(source.plays, source.format) or stats.rows(source.paths, source.options)
  local reuse = reuse_of(source, found, args)
  if args.format == "json" then
    found.reuse, found.files = reuse, source.paths
    terminal.out(json.encode(ordered(found)))
  else
    show(source, found, reuse)
  end
  return fault.OK
end

return M
