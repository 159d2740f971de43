--- Results in the formats of other tools, to compare with what they measured (spec/report.md §5).
-- An export speaks of what the report speaks of: the cohort of the measured phase. What a tool defines
-- in another way is computed its way; the file of each format says how. Nothing depends on the clock:
-- same run, same bytes.
local check = require "aisim.check"
local near = require "aisim.near"

local M = {}

---@class aisim.ExportFormat
---@field name string
---@field files string[]        the last one is the summary
---@field requests string?      of them: one line per request, streams during the run
---@field text string           what it is

---@type aisim.ExportFormat[]
M.FORMATS = {
  {
    name = "aiperf", files = { "profile_export.jsonl", "profile_export_aiperf.json" },
    requests = "profile_export.jsonl",
    text = "AIPerf: one line per request, and statistics of the run; throughput is over first arrival to last answer",
  },
  {
    name = "vllm", files = { "vllm_bench.json" },
    text = "vLLM's serving benchmark: rates over the whole measurement, TTFT, TPOT, token gaps (ITL), latency (E2EL)",
  },
  {
    name = "prometheus", files = { "metrics.prom" },
    text = "text exposition with vLLM's names, as one server for the whole cluster; gauges as at the end of the run",
  },
}

--- Names of the formats.
---@return string[]
function M.names()
  local names = {}
  for i, format in ipairs(M.FORMATS) do names[i] = format.name end
  return names
end

--- A format by its name; raises with the nearest one.
---@param where string
---@param name any
---@return aisim.ExportFormat
function M.find(where, name)
  for _, format in ipairs(M.FORMATS) do
    if format.name == name then return format end
  end
  local names = M.names()
  return check.fail("%s: unknown format %s%s", where, check.show(name),
    type(name) == "string" and near.name(name, names) and near.hint(name, names)
      or (" (one of %s)"):format(table.concat(names, ", ")))
end

--- The summary of a run in a format.
---@param run aisim.Run
---@param format aisim.ExportFormat
---@return string
function M.summary(run, format) return require("aisim.export." .. format.name).text(run) end

--- Name of what the pools serve, as a server names its model.
---@param run aisim.Run
---@return string
function M.model(run)
  local names, seen = {}, {}
  for _, pool in ipairs(run.sim:pools_()) do
    if pool.model and not seen[pool.model] then
      seen[pool.model] = true
      names[#names + 1] = pool.model
    end
  end
  return #names > 0 and table.concat(names, "+") or "none"
end

return M
