--- agentx_replay.json: what the AgentX client did on the stub server (agentx_driver.c).
local context <const> = ...
local cjson = require "cjson"
local support = require "support"

local KNOWN <const> = support.set [[dispatch phases counts observation shifts plays shared_blocks edges failed refused
  error_mentions]]
local EXACT <const> = { "failed", "dispatch", "phases", "shifts", "plays", "counts", "observation", "shared_blocks" }

local function as_set(list)
  local keyed = {}
  for i, row in ipairs(list) do
    keyed[i] = cjson.encode { row[1], row[2], row[3], row[4] + 0.0, row[5] }
  end
  table.sort(keyed)
  return keyed
end

--- What the public constructor says of the options: the driver reads values, it does not check them.
local function refused_options(config)
  local options = { plays = "plays.jsonl" }
  for key, value in pairs(config) do options[key] = value end
  local fine, message = pcall(require "aisim".agentx, options)
  return not fine and tostring(message) or nil
end

local function refusal(vector, got)
  local message = got.refused and got.error or refused_options(vector.config)
  if not message then return "expected a refusal" end
  for _, word in ipairs(vector.expect.error_mentions or {}) do
    if not message:find(word, 1, true) then
      return ("the message does not mention '%s': %s"):format(word, message)
    end
  end
end

local function compare(vector, got)
  local expect = vector.expect
  if expect.refused then return refusal(vector, got) end
  if got.refused then return "refused: " .. got.error end
  for _, key in ipairs(EXACT) do
    local difference = expect[key] ~= nil and support.difference(expect[key], got[key], key)
    if difference then return difference end
  end
  for id, edges in pairs(expect.edges or {}) do
    local difference = support.difference(as_set(edges), as_set(got.edges[id] or {}), "edges " .. id)
    if difference then return difference end
  end
end

return function(vector, run)
  local unknown = support.unknown(vector.expect, KNOWN, "expected key")
  if unknown then return false, unknown, "function" end
  -- the tool reads the file itself: an empty list and an empty object are one for cjson
  local lines, trouble = support.json_lines(("%s/agentx_driver %s %d"):format(context.tools, support.quote(run.path),
    run.index))
  local difference = not lines and trouble or not lines[1] and "the driver printed nothing"
    or compare(vector, lines[1])
  return difference == nil, difference, "function"
end
