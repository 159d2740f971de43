--- Every file that a verb may write into its folder, and what stands in it: `aisim help outputs`.
-- The list decides what is written, replaced and cleaned up (files.lua), so no file can be missing here.
local export = require "aisim.export"

local M = {}

---@class aisim.OutputFile
---@field name string
---@field flag string    what asks for it
---@field text string

---@type aisim.OutputFile[]
M.FILES = {}

local function add(name, flag, text) M.FILES[#M.FILES + 1] = { name = name, flag = flag, text = text } end

add("report.json", "run --out", "the whole report: settings, totals, distributions, classes, workers, own metrics")
add("requests.jsonl", "run --requests", "one object per measured request, by id if its trace has ids, else by arrival")
add("preparation.jsonl", "run --requests", "the same of primer and warmup")
add("timeseries.csv", "run --series S", "state of every worker, so often, and at changes of phase")
add("timeline.json", "run --timeline", "trace events for Perfetto")
add("decisions.jsonl", "run --decisions", "one object per decision of a router, in their order")
for _, format in ipairs(export.FORMATS) do
  for _, name in ipairs(format.files) do
    add(name, "run --export " .. format.name, name == format.requests and "one object per measured request that ended"
      or format.text)
  end
end
add("wall.json", "run --out", "how fast the simulator was: the only file that differs between two equal runs")
add("sweep.csv", "sweep --out", "one row per point and seed: parameters, status, metrics")
add("sweep.json", "sweep --out", "the same with intervals over the seeds")
add("search.json", "search --out", "the value found, and what was tried")
add("compare.csv", "compare --out", "one row per metric and point: both sides, difference, interval")
add("compare.json", "compare --out", "the same")
add("report.html", "report", "tables and plots in one page")

--- Keys of decisions.jsonl, in the order of the file.
M.DECISION = {
  { "t_ms", "when, after the measurement start (in the preparation: after the begin of the run)" },
  { "request_id", "this and the next: as in requests.jsonl" }, { "play_id", "" }, { "play_ordinal", "" },
  { "lane", "" }, { "session_id", "" }, { "root_session_id", "" }, { "parent_session_id", "" }, { "turn", "" },
  { "class", "" }, { "phase", "" }, { "input_tokens", "" },
  { "router_queue_ms", "time since the arrival" },
  { "pool", "the pool that was routed in; a hand-off has a decision in both" },
  { "policy", "name of the router" },
  { "by", "who decided: policy, binding (affinity), tentative (affinity of a dispatch without answer), pin" },
  { "targets", "how many were eligible" },
  { "worker", "chosen" },
  { "rank", "chosen, of that worker" },
  { "cost", "of the chosen target, null: the policy has none" },
  { "overlap_blocks", "leading prompt blocks there as the policy believed, null: it does not use them" },
  { "overlap_chosen_blocks", "leading prompt blocks that were there" },
  { "overlap_best_blocks", "the same on the eligible target that had most" },
  { "regret_blocks", "the difference" },
  { "best_worker", "that target" },
  { "best_rank", "" },
  { "active_requests", "of the chosen target: routed there and not ended, without this request" },
  { "active_requests_min", "the least of the eligible targets" },
  { "waiting", "at the chosen target, now" }, { "running", "" }, { "kv_used", "blocks" },
  { "kv_total", "blocks" },
}

--- Keys of requests.jsonl that aisim help metrics does not explain.
M.REQUEST = {
  { "request_id", "as its trace calls it, else the number in order of creation" },
  { "play_id", "of agent plays: the recorded one" },
  { "play_ordinal", "how many plays its lane had before, from 0" },
  { "lane", "from 0" },
  { "session_id", "likewise; null: a request of its own" },
  { "root_session_id", "of the conversation that all began with" },
  { "parent_session_id", "of the conversation that spawned this one" },
  { "turn", "place in its session, from 0" },
  { "phase", "profile; in preparation.jsonl primer, warmup" },
  { "status", "completed, failed, rejected, cancelled, in_flight" },
  { "arrival_ms", "times after the measurement start" },
  { "dispatched_ms", "the router had placed it" },
  { "first_admit_ms", "begin of the first pass with it" },
  { "first_token_ms", "" }, { "last_token_ms", "" },
  { "terminal_ms", "the end, whatever it was" },
  { "prefill_worker", "" }, { "decode_worker", "the same without a hand-off" },
  { "transfer_bytes", "of its hand-offs" },
  { "failure", "why it was rejected or failed" },
  { "class", "" },
}

return M
