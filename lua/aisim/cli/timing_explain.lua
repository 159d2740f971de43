--- aisim timing --explain: the operations of one pass.
-- The pass is written as prefill=4x2048+1024 (4 items of 2048 new tokens on 1024 cached ones each) and
-- decode=32x4096 (32 items attending 4096 tokens each), drafts=1.
local figures = require "aisim.figures"
local fault = require "aisim.cli.fault"
local json = require "aisim.json"

local M = {}

local function count_of(text, what)
  local value = math.tointeger(tonumber(text))
  if not value then fault.usage("timing: --explain %s: whole numbers expected", what) end
  return value
end

local READERS <const> = {
  prefill = function(at, text, what)
    local n, chunk, past = text:match("^(%d+)x(%d+)%+?(%d*)$")
    if not n then
      n, chunk, past = "1", text:match("^(%d+)%+?(%d*)$")
    end
    if not chunk then fault.usage("timing: --explain %s: write prefill=ITEMSxTOKENS[+CACHED]", what) end
    n, chunk = count_of(n, what), count_of(chunk, what)
    at.n_prefill, at.new_tokens = n, n * chunk
    at.past_tokens = past ~= "" and n * count_of(past, what) or 0
  end,
  decode = function(at, text, what)
    local n, context = text:match("^(%d+)x(%d+)$")
    if not n then fault.usage("timing: --explain %s: write decode=ITEMSxCONTEXT", what) end
    at.n_decode, at.context_tokens = count_of(n, what), count_of(n, what) * count_of(context, what)
  end,
  drafts = function(at, text, what) at.drafts = count_of(text, what) end,
}

--- { "prefill=4x2048", "decode=32x4096" } -> aggregates of the pass.
---@param parts string[]
---@return integer[] shape    arguments of pass and explain
function M.parse(parts)
  local at = { n_prefill = 0, new_tokens = 0, past_tokens = 0, n_decode = 0, context_tokens = 0, drafts = 0 }
  for _, part in ipairs(parts) do
    local key, text = part:match("^(%a+)=(.*)$")
    local read = key and READERS[key]
    if not read then
      fault.usage("timing: --explain %s: prefill=NxTOKENS[+CACHED], decode=NxCONTEXT or drafts=N expected", part)
    end
    read(at, text, part)
  end
  return { at.n_prefill, at.new_tokens, at.past_tokens, at.n_decode, at.context_tokens, at.drafts + 1 }
end

local function percent(x) return ("%.1f %%"):format(100 * x) end
local function count(x) return x % 1 == 0 and ("%d"):format(x) or ("%.2f"):format(x) end

--- Sums of the parts' time by a field, in the order of first appearance: "gemm 82.1 %, attention 9.0 %".
local function shares(parts, field, total)
  local sums, order = {}, {}
  for _, part in ipairs(parts) do
    local key = part[field]
    if not sums[key] then sums[key], order[#order + 1] = 0, key end
    sums[key] = sums[key] + part.ms
  end
  local items = {}
  for _, key in ipairs(order) do
    if sums[key] > 0 then items[#items + 1] = ("%s %s"):format(key, percent(sums[key] / total)) end
  end
  return table.concat(items, ", ")
end

--- The operation table of one model.
function M.text(model, parts, total)
  local rows = { { "operation", "shape", "source", "count", "roof ms", "ms", "share", "hidden ms" } }
  local hidden = false
  for _, part in ipairs(parts) do
    hidden = hidden or part.hidden_ms > 0
    rows[#rows + 1] = { part.name, part.shape, part.provenance, count(part.count),
      part.roof_ms > 0 and ("%.4f"):format(part.roof_ms) or "-", ("%.4f"):format(part.ms),
      total > 0 and percent(part.ms / total) or "-", part.hidden_ms > 0 and ("%.4f"):format(part.hidden_ms) or "" }
  end
  rows[#rows + 1] = { "total", "", "", "", "", ("%.4f"):format(total), total > 0 and percent(1) or "-", "" }
  if not hidden then
    for _, row in ipairs(rows) do row[#row] = nil end
  end
  local out = { ("%s   timing: %s"):format(model.line, model.name), figures.text(rows, 3) }
  if total > 0 then
    out[#out + 1] = "by kind    " .. shares(parts, "kind", total)
    out[#out + 1] = "by source  " .. shares(parts, "provenance", total)
  end
  if hidden then out[#out + 1] = "hidden ms runs beside a longer group and adds nothing" end
  return table.concat(out, "\n")
end

--- "type=gemm n=6144" as an object with its keys in that order.
local function sizes_of(text)
  local list = {}
  for key, value in text:gmatch("(%S+)=(%S+)") do
    list[#list + 1], list[#list + 2] = key, math.tointeger(tonumber(value)) or tonumber(value) or value
  end
  return json.object(list)
end

--- The same as a value for json.encode. `sizes` is the operation without the load of the pass: with `count`
--- they are the operation list of the model. Members of an overlap bear its number and their group.
function M.json(model, shape, parts, total)
  local list = {}
  for i, part in ipairs(parts) do
    list[i] = json.object { "name", part.name, "kind", part.kind, "shape", part.shape, "sizes", sizes_of(part.sizes),
      "overlap", part.overlap, "group", part.side, "count", part.count, "roof_ms", part.roof_ms, "ms", part.ms,
      "hidden_ms", part.hidden_ms, "share", total > 0 and part.ms / total or 0, "provenance", part.provenance }
  end
  local pass = json.object { "n_prefill", shape[1], "new_tokens", shape[2], "past_tokens", shape[3],
    "n_decode", shape[4], "context_tokens", shape[5], "verify_width", shape[6] }
  return json.object { "engine", model.line, "timing", model.name, "pass", pass, "total_ms", total, "operations", list }
end

return M
