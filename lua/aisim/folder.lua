--- Reading output folders back: what `aisim run`, `sweep` and `compare` wrote with --out.
-- The flat names are those of run.metrics, so that a folder and a run in memory can be compared.
local check = require "aisim.check"
local file_of = require "aisim.file"
local json = require "aisim.json"
local near = require "aisim.near"

local M = {}

--- Objects of report.json that flat names leave out (src/metrics/report.c).
local PARTS <const> = { "totals", "distributions", "classes", "custom" }
local TRANSPARENT <const> = { gauges = true }

local function flatten(value, prefix, flat)
  for key, item in pairs(value) do
    if type(item) == "table" then
      if #item == 0 then -- lists are no metrics
        flatten(item, TRANSPARENT[key] and prefix or prefix .. key .. ".", flat)
      end
    elseif type(item) == "number" or type(item) == "boolean" then
      flat[prefix .. key] = item
    end
  end
end

--- run.metrics of a decoded report.json.
---@param report table
---@return table<string, number|boolean> metrics
function M.metrics(report)
  local flat = {}
  for _, part in ipairs(PARTS) do
    if type(report[part]) == "table" then flatten(report[part], "", flat) end
  end
  for name, metric in pairs(report.custom or {}) do
    if type(metric) == "table" then -- the one figure that a name alone means
      local value = metric.kind == "counter" and metric.total or metric.kind == "ratio" and metric.ratio
      if type(value) == "number" then flat[name] = value end
    end
  end
  return flat
end

--- How a run ended, by its report.
---@return "completed"|"interrupted"|"stopped" status
function M.status(report)
  local why = report.interrupted
  if why == nil or why == json.null then return "completed" end
  return why == "interrupted" and "interrupted" or "stopped"
end

local function exists(path)
  local file = io.open(path, "rb")
  if file then file:close() end
  return file ~= nil
end

---@class aisim.Folder
---@field kind "run"|"sweep"|"compare"
---@field path string
---@field value table                 of the file of that kind
---@field metrics table?              of a run
---@field files table<string, boolean>   which files of a run there are

local KINDS <const> = { { "compare", "compare.json" }, { "sweep", "sweep.json" }, { "run", "report.json" } }

--- What a folder holds; nil if it is the output of nothing.
---@param path string
---@return aisim.Folder?
function M.open(path)
  for _, kind in ipairs(KINDS) do
    local name = path .. "/" .. kind[2]
    if exists(name) then
      local value = json(name)
      local out = { kind = kind[1], path = path, value = value, files = {} }
      if kind[1] == "run" then
        out.metrics = M.metrics(value)
        for _, other in ipairs { "requests.jsonl", "timeseries.csv", "timeline.json", "wall.json" } do
          out.files[other] = exists(path .. "/" .. other)
        end
      end
      return out
    end
  end
end

--- The same, or an error.
---@param where string   "compare", "report"
function M.need(where, path)
  local folder = M.open(path)
  if not folder then
    local what = exists(path) and "no report.json, sweep.json or compare.json there"
      or "no such folder" .. near.file(path)
    check.fail("%s: %s: %s (a folder written with --out expected)", where, path, what)
  end
  return folder
end

--- The report of a folder if the run is complete: neither missing, broken, nor interrupted.
---@return table? report
function M.finished(path)
  local name = path .. "/report.json"
  if not exists(name) then return nil end
  local ok, report = pcall(json.decode, file_of.read(name), name)
  return ok and M.status(report) ~= "interrupted" and report or nil
end

return M
