--- aisim timing: what a pass costs, without a simulation.
-- Five questions: over a grid (default), one pass in its operations (--explain), several models side by
-- side (--compare), against measured passes (--against), and how the calibration is made (calibrate DIR).
local fault = require "aisim.cli.fault"
local grid = require "aisim.cli.timing_grid"
local json = require "aisim.json"
local models_of = require "aisim.cli.timing_models"
local plot = require "aisim.plot"
local terminal = require "aisim.cli.terminal"

local M = {}

local function need_table_or_json(args, what)
  if args.format == "markdown" then
    fault.usage("timing: --format markdown belongs to --against and calibrate, not to %s", what)
  end
end

--- Flags that one question has and another would ignore.
local QUESTIONS <const> = {
  against = { "max_median", "max_p95", "max_worst", "max_family_median" },
  calibrate = { "output", "leave_out" },
  grid = { "grid", "plot" },
}

--- Raises for the first of these flags that is given; text: "… has no effect with --against".
local function refuse(args, text, ...)
  for _, name in ipairs { ... } do
    for _, flag in ipairs(QUESTIONS[name] or { name }) do
      if args[flag] then fault.usage("timing: --%s %s", flag:gsub("_", "-"), text) end
    end
  end
end

-- Grid -----------------------------------------------------------------------------------------------------

local function header(models)
  local lines = {}
  for _, model in ipairs(models) do
    lines[#lines + 1] = #models == 1 and ("%s   timing: %s"):format(model.line, model.name)
      or ("%s: %s"):format(model.name, model.line)
  end
  return table.concat(lines, "\n")
end

--- One curve per model and value of the axes behind the first that varies.
local function plot_of(axes, models, points)
  local wide = grid.varied(axes)
  local x = wide[1] or axes[1]
  local series, by_key = {}, {}
  for _, point in ipairs(points) do
    for k, model in ipairs(models) do
      local parts = { #models > 1 and model.name or nil }
      for _, axis in ipairs(wide) do
        if axis ~= x then parts[#parts + 1] = ("%s %d"):format(axis.name, point.at[axis.name]) end
      end
      local name = #parts > 0 and table.concat(parts, ", ") or model.name
      if not by_key[name] then
        by_key[name] = { name = name, points = {} }
        series[#series + 1] = by_key[name]
      end
      table.insert(by_key[name].points, { point.at[x.name], point.ms[k] })
    end
  end
  local first, last = x.values[1], x.values[#x.values]
  return { title = models[1].line, x = x.name, y = "pass latency, ms", log_x = first > 0 and last >= 16 * first,
    series = series }
end

local function tabulate(args, models)
  need_table_or_json(args, "a grid")
  local grids = args.grid and { grid.parse(args.grid) } or grid.default()
  local texts, values, plotted = {}, {}, nil
  for i, axes in ipairs(grids) do
    local points = grid.evaluate(axes, models)
    texts[i], values[i] = grid.text(axes, models, points), grid.json(axes, models, points)
    plotted = plotted or plot_of(axes, models, points)
  end
  if args.format == "json" then
    local lines = {}
    for i, model in ipairs(models) do lines[i] = json.object { "name", model.name, "engine", model.line } end
    terminal.out(json.encode(json.object { "models", lines, "grids", values }))
  else
    terminal.out(header(models) .. "\n\n" .. table.concat(texts, "\n\n"))
  end
  if args.plot then
    plotted.path = args.plot
    local svg, why = plot.draw(plotted)
    if not svg then
      terminal.err(("aisim: timing: no plot: %s; %s is not written"):format(why, args.plot))
    elseif args.format ~= "json" then
      terminal.out("\nplot   " .. args.plot)
    end
  end
  return fault.OK
end

-- One pass ---------------------------------------------------------------------------------------------------

local function explain(args, models)
  need_table_or_json(args, "--explain")
  local explanation = require "aisim.cli.timing_explain"
  local shape = explanation.parse(args.explain)
  local texts, values = {}, {}
  for i, model in ipairs(models) do
    local parts, total = model.timing:explain(table.unpack(shape))
    if #parts == 0 then fault.usage("timing: --explain %s: the pass is empty", table.concat(args.explain, " ")) end
    texts[i] = explanation.text(model, parts, total)
    values[i] = explanation.json(model, shape, parts, total)
  end
  terminal.out(args.format == "json" and json.encode(#values == 1 and values[1] or values)
    or table.concat(texts, "\n\n"))
  return fault.OK
end

---@param args table
---@return integer status
function M.main(args)
  if args.file == "calibrate" then
    refuse(args, "has no effect with calibrate", "against", "grid", "explain", "compare", "tables", "model")
    terminal.out(require("aisim.cli.timing_calibrate").main(args))
    return fault.OK
  end
  refuse(args, "belongs to aisim timing calibrate DIR", "calibrate")
  if args.folder then fault.usage("timing: unexpected argument '%s'", args.folder) end
  if args.against then
    if args.file or args.model then
      fault.usage("timing: --against takes no FILE and no --model: the rows name their configuration")
    end
    refuse(args, "has no effect with --against", "grid", "explain", "compare")
    local text, judge = require("aisim.cli.timing_against").report(args, models_of.engine_flags(args.set))
    terminal.out(text)
    judge()
    return fault.OK
  end
  refuse(args, "belongs to --against", "against")
  if args.explain then refuse(args, "has no effect with --explain", "grid") end
  local models = models_of.load(args)
  return (args.explain and explain or tabulate)(args, models)
end

return M
