--- aisim timing --against CSV: measured passes against a timing model.
-- Each row names its configuration (model, tp, moe_tp, moe_ep, attn_dp, nextn, number formats), its pass
-- (n_prefill, sum_new, sum_prefix, n_decode, sum_kv) and latency_ms. Model names are those of the
-- catalogue, with or without the organisation; formats of the row replace those of the descriptor.
-- Where the file splits the latency by class (gemm_ms, attn_ms, …), the worst class is shown as well.
local catalogue = require "aisim.catalogue"
local core = require "aisim.core"
local fault = require "aisim.cli.fault"
local figures = require "aisim.figures"
local json = require "aisim.json"
local statistics = require "aisim.cli.statistics"

local M = {}

local REQUIRED <const> = { "model", "n_prefill", "sum_new", "sum_prefix", "n_decode", "sum_kv", "latency_ms" }
--- Columns of the configuration, with the value of a file that lacks them.
local DEGREES <const> = { { "tp", "tensor" }, { "pp", "pipeline" }, { "attn_dp", "attention_data" },
  { "moe_tp", "moe_tensor" }, { "moe_ep", "moe_expert" } }
local FORMATS <const> = { { "gemm_dtype", "gemm_dtype" }, { "moe_dtype", "moe_dtype" }, { "kv_dtype", "kv_dtype" },
  { "fmha_dtype", "attention_dtype" } }
--- Columns of classes and the kinds of operations they hold. `state` kernels are those of delta-net.
local CLASSES <const> = { { "gemm_ms", "gemm" }, { "attn_ms", "attention" }, { "moe_ms", "experts" },
  { "ssm_ms", "state" }, { "comm_ms", "link" }, { "mem_ms", "memory" } }

-- Reading ----------------------------------------------------------------------------------------------

---@class aisim.MeasuredPass
---@field line integer
---@field columns table<string, string>

--- Rows of a CSV file without quotes; blank lines are skipped.
---@return aisim.MeasuredPass[]
---@return table<string, boolean> columns
local function read(path)
  local file, problem = io.open(path, "rb")
  if not file then fault.usage("timing: cannot open %s", problem) end
  local names, rows, present, number = nil, {}, {}, 0
  for line in file:lines() do
    number = number + 1
    line = line:gsub("\r$", "")
    if line ~= "" then
      local fields = {}
      for field in (line .. ","):gmatch("(.-),") do fields[#fields + 1] = field end
      if not names then
        names = fields
        for _, name in ipairs(names) do present[name] = true end
      elseif #fields ~= #names then
        fault.usage("%s:%d: %d fields, the header has %d", path, number, #fields, #names)
      else
        local columns = {}
        for i, name in ipairs(names) do columns[name] = fields[i] end
        rows[#rows + 1] = { line = number, columns = columns }
      end
    end
  end
  file:close()
  for _, name in ipairs(REQUIRED) do
    if not present[name] then
      fault.usage("%s:1: column '%s' is missing; columns found: %s", path, name, table.concat(names or {}, ", "))
    end
  end
  if #rows == 0 then fault.usage("%s: no rows", path) end
  return rows, present
end

local function number_of(path, row, name, default)
  local text = row.columns[name]
  if (text == nil or text == "") and default then return default end
  local value = tonumber(text)
  if not value or value < 0 or value ~= value then
    fault.usage("%s:%d: %s: number ≥ 0 expected, got '%s'", path, row.line, name, tostring(text))
  end
  return value
end

local function whole_of(path, row, name, default)
  local value = math.tointeger(number_of(path, row, name, default))
  if value then return value end
  return fault.usage("%s:%d: %s: whole number expected, got '%s'", path, row.line, name, row.columns[name])
end

--- Rows with the same configuration, in the order of first appearance. The values of a configuration
--- are everything that is neither pass nor result.
local function grouped(rows)
  local groups, by_key = {}, {}
  for _, row in ipairs(rows) do
    local parts = { row.columns.model }
    for _, list in ipairs { DEGREES, FORMATS } do
      for _, item in ipairs(list) do parts[#parts + 1] = row.columns[item[1]] or "" end
    end
    local key = table.concat(parts, ",")
    if not by_key[key] then
      by_key[key] = { row }
      groups[#groups + 1] = by_key[key]
    else
      table.insert(by_key[key], row)
    end
  end
  return groups
end

-- Pricing ------------------------------------------------------------------------------------------------

--- "llama dense fp8": name before the first '-', what kind of model, low precision.
local function family_of(descriptor)
  local kind = descriptor.architecture == "mla" and "latent attention" or descriptor.architecture
  if kind == "hybrid" and (descriptor.experts or 0) > 0 then kind = "hybrid moe" end
  local fp8 = tostring(descriptor.gemm_dtype):find("^fp8") and descriptor.architecture ~= "mla"
  return ("%s %s%s"):format((descriptor.name or "?"):match("^[^-]+"), kind, fp8 and " fp8" or "")
end

local function model_of(path, row, args, flags)
  local ok, found = pcall(catalogue.model, row.columns.model)
  if not ok then fault.usage("%s:%d: %s", path, row.line, (tostring(found):gsub("^.-: ", "", 1))) end
  local descriptor = {}
  for key, value in pairs(found) do descriptor[key] = value end
  for _, format in ipairs(FORMATS) do
    local text = row.columns[format[1]]
    if text and text ~= "" then descriptor[format[2]] = text end
  end
  local split = {}
  for _, degree in ipairs(DEGREES) do split[degree[2]] = whole_of(path, row, degree[1], 1) end
  if (descriptor.experts or 0) == 0 then split.moe_tensor, split.moe_expert = nil, nil end
  local engine = { model = descriptor, hardware = args.hardware, parallelism = split,
    timing = args.tables and { type = "tables", path = args.tables } or nil }
  local made, timing = pcall(core.timing, engine, nil, flags)
  if not made then fault.usage("%s:%d: %s", path, row.line, (tostring(timing):gsub("^timing: ", "", 1))) end
  return timing, descriptor
end

--- Difference of the worst class, relative to the whole pass. Members of an overlap belong to the
--- experts. Latent attention: the reference counts the dispatch as memory, we as collectives, so both
--- classes are compared together there.
local function class_error(path, row, parts, latent)
  local worst, carry = 0, 0
  for _, class in ipairs(CLASSES) do
    local sum = carry - number_of(path, row, class[1])
    carry = 0
    for _, part in ipairs(parts) do
      local kind = part.overlap ~= 0 and "experts" or part.kind
      if kind == class[2] then sum = sum + part.ms end
    end
    if latent and class[2] == "link" then
      carry = sum
    else
      worst = math.max(worst, math.abs(sum))
    end
  end
  return worst / number_of(path, row, "latency_ms")
end

local function kind_of(row)
  local columns = row.columns
  if columns.kind and columns.kind ~= "" then return columns.kind end
  return tonumber(columns.n_decode) == 0 and "prefill" or tonumber(columns.n_prefill) == 0 and "decode" or "mixed"
end

local function price(path, row, timing, descriptor, with_classes)
  local want = number_of(path, row, "latency_ms")
  if want == 0 then fault.usage("%s:%d: latency_ms is 0", path, row.line) end
  local shape = { whole_of(path, row, "n_prefill"), whole_of(path, row, "sum_new"), whole_of(path, row, "sum_prefix"),
    whole_of(path, row, "n_decode"), whole_of(path, row, "sum_kv"), whole_of(path, row, "nextn", 0) + 1 }
  local parts, got = timing:explain(table.unpack(shape))
  return { line = row.line, family = family_of(descriptor), kind = kind_of(row), model = descriptor.name, got = got,
    want = want, error = got / want - 1,
    class_error = with_classes and class_error(path, row, parts, descriptor.architecture == "mla") or nil }
end

-- Report -------------------------------------------------------------------------------------------------

local LIMITS <const> = { { "max_median", "median" }, { "max_p95", "p95" }, { "max_worst", "worst" } }

local function limit(args, name)
  local text = args[name]
  if not text then return nil end
  local value = tonumber(text)
  if not value or value ~= value or value < 0 then
    fault.usage("timing: --%s %s: a number of per cent expected", name:gsub("_", "-"), text)
  end
  return value / 100
end

--- Summaries by the values of a field, in the order of first appearance.
local function by(results, field)
  local lists, order = {}, {}
  for _, result in ipairs(results) do
    local key = result[field]
    if not lists[key] then lists[key], order[#order + 1] = {}, key end
    table.insert(lists[key], result.error)
  end
  local out = {}
  for i, key in ipairs(order) do out[i] = { name = key, summary = statistics.summary(lists[key]) } end
  return out
end

local function percent(x) return ("%.3f %%"):format(100 * x) end

local function row_of(name, s)
  return { name, tostring(s.n), percent(s.median), percent(s.p90), percent(s.p95), percent(s.worst) }
end

local function table_rows(groups)
  local rows = { { "passes", "number", "median", "p90", "p95", "worst" } }
  for _, group in ipairs(groups) do rows[#rows + 1] = row_of(group.name, group.summary) end
  return rows
end

local function as_json(path, source, groups, worst_class, worst)
  local list = {}
  for i, group in ipairs(groups) do
    local s = group.summary
    list[i] = json.object { "name", group.name, "n", s.n, "median", s.median, "p90", s.p90, "p95", s.p95,
      "worst", s.worst }
  end
  return json.encode(json.object({ "against", path, "source", source, "errors", list, "worst_class", worst_class,
    "worst_line", worst.line }, 10))
end

local function as_text(source, groups, worst_class, worst)
  local out = { ("relative error of the pass latency, %s"):format(source), figures.text(table_rows(groups), 1, 2),
    ("worst pass   line %d, %s %s: %.4f ms, measured %.4f ms (%+.3f %%)"):format(worst.line, worst.model, worst.kind,
      worst.got, worst.want, 100 * worst.error) }
  if worst_class then out[#out + 1] = ("worst class  %s of the pass"):format(percent(worst_class)) end
  return table.concat(out, "\n")
end

--- Raises with status 4 when a bound is broken. All of them are named.
local function judge(args, all, families)
  local broken = {}
  for _, item in ipairs(LIMITS) do
    local bound = limit(args, item[1])
    if bound and all[item[2]] > bound then
      broken[#broken + 1] = ("%s error %s is beyond --%s %s"):format(item[2], percent(all[item[2]]),
        item[1]:gsub("_", "-"), args[item[1]])
    end
  end
  local bound = limit(args, "max_family_median")
  for _, family in ipairs(families) do
    if bound and family.summary.median > bound then
      broken[#broken + 1] = ("median error %s of '%s' is beyond --max-family-median %s"):format(
        percent(family.summary.median), family.name, args.max_family_median)
    end
  end
  if #broken > 0 then fault.raise(fault.EXPECTATION, "timing: %s", table.concat(broken, "; ")) end
end

---@param args table    of the parser; args.against names the file
---@param flags table[] of --set, paths below an engine
---@return string text  the report
---@return fun() judge  raises when a bound is broken
function M.report(args, flags)
  for _, item in ipairs(LIMITS) do limit(args, item[1]) end
  limit(args, "max_family_median")
  local path = args.against
  local rows, present = read(path)
  local with_classes = true
  for _, class in ipairs(CLASSES) do with_classes = with_classes and present[class[1]] or false end
  local results = {}
  for _, group in ipairs(grouped(rows)) do
    local timing, descriptor = model_of(path, group[1], args, flags)
    for _, row in ipairs(group) do results[#results + 1] = price(path, row, timing, descriptor, with_classes) end
    timing:close()
  end
  table.sort(results, function(a, b) return a.line < b.line end)
  local errors, worst, worst_class = {}, results[1], with_classes and 0 or nil
  for i, result in ipairs(results) do
    errors[i] = result.error
    if math.abs(result.error) > math.abs(worst.error) then worst = result end
    if with_classes then worst_class = math.max(worst_class, result.class_error) end
  end
  local families, kinds, all = by(results, "family"), by(results, "kind"), statistics.summary(errors)
  local groups = { table.unpack(families) }
  table.move(kinds, 1, #kinds, #groups + 1, groups)
  groups[#groups + 1] = { name = "all", summary = all }
  local source = args.tables and "measured tables" or "built-in calibration"
  local text
  if args.format == "json" then
    text = as_json(path, source, groups, worst_class, worst)
  elseif args.format == "markdown" then
    text = figures.markdown(table_rows(groups), 1)
  else
    text = as_text(source, groups, worst_class, worst)
  end
  return text, function() judge(args, all, families) end
end

return M
