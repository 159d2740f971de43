--- aisim timing calibrate DIR -o FILE: makes the calibration of a hardware from measured tables.
-- The same tables give the same bytes. SPLITS says which models and parallelisms get curves for all their
-- operations; the operations of everything else are resolved from the nearest of those, except what
-- hardly carries over (experts, delta-net kernels, collectives), which gets curves for every parallelism
-- of these models that fits the memory.
-- With --leave-out PERCENT nothing is written: a part of the rows is withheld, and the table shows how
-- well the rest predicts them.
local catalogue = require "aisim.catalogue"
local core = require "aisim.core"
local fault = require "aisim.cli.fault"
local figures = require "aisim.figures"
local file_of = require "aisim.file"
local json = require "aisim.json"
local statistics = require "aisim.cli.statistics"

local M = {}

--- Model -> tensor, pipeline, attention_data, moe_tensor, moe_expert. The order decides nothing but time.
local SPLITS <const> = {
  { "llama-3.1-8b", { 1, 1, 1, 1, 1 }, { 2, 1, 1, 1, 1 }, { 4, 1, 1, 1, 1 } },
  { "llama-3.1-70b", { 4, 1, 1, 1, 1 }, { 8, 1, 1, 1, 1 }, { 2, 1, 1, 1, 1 } },
  { "llama-3.1-70b-fp8", { 2, 1, 1, 1, 1 }, { 4, 1, 1, 1, 1 }, { 8, 1, 1, 1, 1 }, { 1, 1, 1, 1, 1 } },
  { "qwen3-8b", { 1, 1, 1, 1, 1 }, { 2, 1, 1, 1, 1 } },
  { "qwen3-32b", { 1, 1, 1, 1, 1 }, { 2, 1, 1, 1, 1 }, { 4, 1, 1, 1, 1 } },
  { "qwen3-32b-fp8", { 1, 1, 1, 1, 1 }, { 2, 1, 1, 1, 1 }, { 4, 1, 1, 1, 1 } },
  { "qwen3-30b-a3b", { 1, 1, 1, 1, 1 }, { 2, 1, 1, 2, 1 }, { 4, 1, 1, 4, 1 } },
  { "qwen3-30b-a3b-fp8", { 1, 1, 1, 1, 1 }, { 2, 1, 1, 2, 1 } },
  { "qwen3-235b-a22b", { 8, 1, 1, 8, 1 } },
  { "qwen3-235b-a22b-fp8", { 4, 1, 1, 4, 1 }, { 4, 1, 1, 1, 4 }, { 8, 1, 1, 1, 8 } },
  { "gpt-oss-120b", { 1, 1, 1, 1, 1 }, { 2, 1, 1, 2, 1 }, { 2, 1, 1, 1, 2 }, { 4, 1, 1, 4, 1 }, { 8, 1, 1, 8, 1 } },
  { "gpt-oss-20b" },
  { "deepseek-r1", { 8, 1, 1, 8, 1 }, { 8, 1, 1, 1, 8 }, { 1, 1, 8, 1, 8 } },
  { "qwen3.5-27b", { 1, 1, 1, 1, 1 }, { 2, 1, 1, 1, 1 } },
  { "qwen3.5-35b-a3b", { 1, 1, 1, 1, 1 }, { 2, 1, 1, 2, 1 } },
  { "qwen3.5-397b-a17b", { 8, 1, 1, 8, 1 } },
}

--- Head of the file. The measurements are not ours: their origin and licence travel with the numbers.
local ORIGIN <const> = {
  "Fitted by aisim from measured operator latencies of one NVIDIA H200 SXM node (vLLM 0.24.0)",
  "published by the aiconfigurator project (systems/data/h200_sxm, state of 2026-08-21).",
  "Measurements: Copyright NVIDIA CORPORATION & AFFILIATES, licensed under the Apache License 2.0.",
}
local ORIGIN_HARDWARE <const> = "h200_sxm"

--- A calibrator that knows what is to be fitted.
local function prepare(args, share)
  local hardware = catalogue.hardware(args.hardware or ORIGIN_HARDWARE)
  local made, calibrator = pcall(core.calibrator, args.folder, hardware, share)
  if not made then fault.usage("timing: calibrate: %s", tostring(calibrator)) end
  for _, entry in ipairs(SPLITS) do
    local model = catalogue.model(entry[1])
    for i = 2, #entry do calibrator:add(model, entry[i]) end
    calibrator:add_kernels(model)
  end
  calibrator:add_donors()
  return calibrator, hardware
end

local function write(args)
  local calibrator, hardware = prepare(args)
  local origin = hardware.name == ORIGIN_HARDWARE and ORIGIN
    or { ("Fitted by aisim from measured operator latencies of %s"):format(hardware.name) }
  local path = file_of.target(args.output)
  local folder, name = path:match("^(.*/)([^/]*)$")
  local part = (folder or "") .. "." .. (name or path) .. ".part"
  local ok, records, numbers, inputs = pcall(calibrator.write, calibrator, part, origin)
  if not ok then fault.raise(fault.LIMIT, "timing: calibrate: %s; nothing written", tostring(records)) end
  local renamed, why = os.rename(part, path)
  if not renamed then
    os.remove(part)
    fault.raise(fault.LIMIT, "timing: calibrate: %s", why)
  end
  if args.format == "json" then
    return json.encode(json.object { "file", path, "records", records, "numbers", numbers, "inputs", inputs })
  end
  return ("%s: %d records, %d numbers, from tables with hash %s"):format(path, records, numbers, inputs)
end

-- Leave-out check ------------------------------------------------------------------------------------------

local function percent(x) return ("%.2f %%"):format(100 * x) end

--- Errors of withheld rows by operation: rows whose shape has a curve, then all others.
local function grouped(rows)
  local lists, order = {}, {}
  for _, row in ipairs(rows) do
    local family, own, calibrated, of_tables = table.unpack(row)
    local key = (own and "catalogue " or "other ") .. family
    if not lists[key] then
      lists[key] = { family = family, own = own, calibrated = {}, tables = {} }
      order[#order + 1] = lists[key]
    end
    table.insert(lists[key].calibrated, calibrated)
    table.insert(lists[key].tables, of_tables)
  end
  table.sort(order, function(a, b)
    if a.own ~= b.own then return a.own end
    return a.family < b.family
  end)
  return order
end

local function leave_out(args)
  local share = tonumber(args.leave_out)
  if not share or not (share > 0 and share < 100) then
    fault.usage("timing: calibrate: --leave-out %s: per cent of the rows, above 0 and below 100", args.leave_out)
  end
  local calibrator = prepare(args, share / 100)
  local groups = grouped(calibrator:errors())
  if args.format == "json" then
    local list = {}
    for i, group in ipairs(groups) do
      local c, t = statistics.summary(group.calibrated), statistics.summary(group.tables)
      list[i] = json.object { "operation", group.family, "catalogue", group.own, "n", c.n, "median", c.median,
        "p90", c.p90, "p95", c.p95, "worst", c.worst, "tables_median", t.median, "tables_p95", t.p95,
        "tables_worst", t.worst }
    end
    return json.encode(json.object { "withheld_percent", share, "errors", list })
  end
  local rows = { { "operation", "shapes", "rows", "median", "p90", "p95", "worst", "tables median", "p95" } }
  for _, group in ipairs(groups) do
    local c, t = statistics.summary(group.calibrated), statistics.summary(group.tables)
    rows[#rows + 1] = { group.family, group.own and "catalogue" or "other", tostring(c.n), percent(c.median),
      percent(c.p90), percent(c.p95), percent(c.worst), percent(t.median), percent(t.p95) }
  end
  if args.format == "markdown" then return figures.markdown(rows, 2) end
  return ("%g %% of the measured rows withheld; error of a calibration made from the others, and of the tables\n"
    .. "without them. catalogue: the calibration has a curve of this shape; other: resolved from its neighbours\n%s")
    :format(share, figures.text(rows, 2, 2))
end

---@param args table   of the parser: folder, output, leave_out, hardware, format
---@return string text
function M.main(args)
  if not args.folder then fault.usage("timing: calibrate DIR -o FILE: the folder of the measured tables is missing") end
  if args.leave_out then return leave_out(args) end
  if not args.output then fault.usage("timing: calibrate %s: -o FILE is missing", args.folder) end
  return write(args)
end

return M
