--- What the twin of the AgentX client (agentx_twin.lua) does before a run: plays with times in ns, and the
-- snapshot at t* (spec/traffic.md §2.2).
local M = {}

function M.ns(ms) return math.tointeger(math.floor(ms * 1e6 + 0.5)) end

-- Plays --------------------------------------------------------------------------------------------

local function node_name(request)
  return "outer:" .. request.outer .. (request.inner and ":inner:" .. request.inner or "")
end

--- A copy of a lowered play with times in ns; requests stay in order of (t, authored order).
function M.prepared(play)
  local out = { id = play.id, n = #play.requests }
  for i, r in ipairs(play.requests) do
    local after = {}
    for k, edge in ipairs(r.after) do
      after[k] = { source = edge.source, dispatch = edge.trigger == "dispatch", delay = M.ns(edge.delay_ms) }
    end
    out[i] = { name = node_name(r), input = r.input_tokens, output = r.output_tokens, conversation = r.conversation,
      start = M.ns(r.start_ms), stop = M.ns(r.end_ms), after = after }
  end
  return out
end

-- Snapshot, 2.2 ------------------------------------------------------------------------------------

local function refuse_frontier(play, history)
  for i = 1, play.n do
    for _, edge in ipairs(history[i] and play[i].after or {}) do
      if not history[edge.source] then error({ refused = true }, 0) end
    end
  end
end

--- Remaining delay of a retained request at t* (not divided by speedup yet), and its live edges.
function M.remaining(play, history, i, t_star, gate)
  local wait, live = 0, false
  for _, edge in ipairs(play[i].after) do
    if history[edge.source] then
      local source = play[edge.source]
      wait = math.max(wait, (edge.dispatch and source.start or source.stop) + edge.delay - t_star)
    else
      live = true
    end
  end
  if gate or not live then wait = math.max(wait, play[i].start - t_star) end
  return wait
end

function M.snapshot(play, config, u)
  local first, last = math.huge, -math.huge
  for i = 1, play.n do
    first, last = math.min(first, play[i].start), math.max(last, play[i].start)
  end
  local lo, hi = config.t_star[1], config.t_star[2]
  local t_star = first + math.tointeger(math.floor((lo + (hi - lo) * u) * (last - first) + 0.5))
  local history = {}
  for i = 1, play.n do history[i] = play[i].start < t_star end
  refuse_frontier(play, history)
  -- primers: last historical request of every live conversation, conversations by their first request
  local primers, order, last_of, live = {}, {}, {}, {}
  for i = 1, play.n do
    local c = play[i].conversation
    if not last_of[c] and not live[c] then order[#order + 1] = c end
    if history[i] then
      if not last_of[c] or play[i].start >= play[last_of[c]].start then last_of[c] = i end
    else
      live[c] = true
    end
  end
  for _, c in ipairs(order) do
    if live[c] and last_of[c] then primers[#primers + 1] = last_of[c] end
  end
  return { t_star = t_star, history = history, primers = primers }
end

return M
